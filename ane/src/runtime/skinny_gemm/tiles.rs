//! The kernels: tiles of C, a few rows by a few columns, that stay in registers while A and B go by.

use super::{Part, VECTORS, dot_group};
use crate::runtime::lanes::Lanes;

/// Computes a part of C.
///
/// # Safety
/// The processor has the instruction set of V; the part lies inside the product, whose matrices are as large as it says.
#[inline(always)]
pub(super) unsafe fn part<V: Lanes>(part: &Part) {
    // SAFETY: passed on; tiles stay inside the part.
    unsafe {
        if part.product.b_transposed {
            dots::<V>(part);
        } else {
            sums::<V>(part);
        }
    }
}

/// Calls a tile function with its shape as constants. Shapes with more than `$most` rows do not exist.
macro_rules! with_shape {
    ($tile:ident::<$lanes:ident>$arguments:tt, $shape:expr, $most:expr, $(($rows:literal, $width:literal))+) => {
        match $shape {
            $(($rows, $width) if $rows <= $most => $tile::<$lanes, $rows, $width> $arguments,)+
            _ => unreachable!("no such tile"),
        }
    };
}

/// B transposed: each value of C is a dot product of a row of A and a row of B.
#[inline(always)]
unsafe fn dots<V: Lanes>(part: &Part) {
    let p = &part.product;
    let group = dot_group::<V>(p.rows);
    let widest = if 2 * group <= V::DOT_ROWS { 6 } else { 3 };
    let mut column = part.first_column;
    while column < part.end_column {
        let fits = part.end_column - column >= widest;
        let width = if fits { widest } else { 1 };
        // The first group brings the rows of B into a cache, where the others find them.
        for first in (0..p.rows).step_by(group) {
            let rows = group.min(p.rows - first);
            // SAFETY: the tile lies inside the part.
            unsafe {
                #[rustfmt::skip]
                with_shape!(dot_tile::<V>(part, first, column), (rows, width), V::DOT_ROWS,
                    (1, 6) (2, 6) (3, 6) (4, 6)
                    (1, 3) (2, 3) (3, 3) (4, 3) (5, 3) (6, 3) (7, 3) (8, 3)
                    (1, 1) (2, 1) (3, 1) (4, 1) (5, 1) (6, 1) (7, 1) (8, 1)
                );
            }
        }
        column += width;
    }
}

/// R rows and N columns of C. Lane l of a total takes products l, l + LANES and so on; then the lanes are summed.
#[inline(always)]
unsafe fn dot_tile<V: Lanes, const R: usize, const N: usize>(
    part: &Part,
    row: usize,
    column: usize,
) {
    let p = &part.product;
    let (whole, rest) = (p.inner / V::LANES, p.inner % V::LANES);
    // SAFETY: rows of A (packed), B and C of this tile exist; a prefetched address may be anything.
    unsafe {
        let mut a = part.packed.add(row * p.inner.div_ceil(V::LANES) * V::LANES);
        let mut b = p.b.add(column * p.b_stride);
        let mut totals = [[V::zero(); N]; R];
        let mut weights = [V::zero(); N];
        for _ in 0..whole {
            for (n, weights) in weights.iter_mut().enumerate() {
                *weights = V::load(b.add(n * p.b_stride));
                if row == 0 {
                    V::prefetch(b.wrapping_add((n + N) * p.b_stride)); // this place of the next tile
                }
            }
            add_products(&mut totals, a, &weights);
            a = a.add(R * V::LANES);
            b = b.add(V::LANES);
        }
        if rest > 0 {
            for (n, weights) in weights.iter_mut().enumerate() {
                *weights = V::load_first(b.add(n * p.b_stride), rest);
            }
            add_products(&mut totals, a, &weights);
        }
        for (r, totals) in totals.iter().enumerate() {
            let mut c = p.c.add((row + r) * p.c_stride + column);
            for totals in totals.chunks(4) {
                let mut four = [V::zero(); 4];
                four[..totals.len()].copy_from_slice(totals);
                for sum in &V::sums(four)[..totals.len()] {
                    let before = if p.beta == 0.0 { 0.0 } else { p.beta * *c };
                    *c = p.alpha * sum + before;
                    c = c.add(1);
                }
            }
        }
    }
}

/// One step of a tile of dot products: a vector of each row of A against one of each row of B.
#[inline(always)]
unsafe fn add_products<V: Lanes, const R: usize, const N: usize>(
    totals: &mut [[V; N]; R],
    packed: *const f32,
    weights: &[V; N],
) {
    for (r, totals) in totals.iter_mut().enumerate() {
        // SAFETY: `packed` has R vectors.
        unsafe {
            let values = V::load(packed.add(r * V::LANES));
            for (total, &weights) in totals.iter_mut().zip(weights) {
                *total = total.add_product(values, weights);
            }
        }
    }
}

/// B not transposed: each row of C is a sum of rows of B.
#[inline(always)]
unsafe fn sums<V: Lanes>(part: &Part) {
    let rows = part.end_row - part.first_row;
    let mut column = part.first_column;
    while column < part.end_column {
        let fits = part.end_column - column >= VECTORS * V::LANES;
        let width = if fits { VECTORS } else { 1 };
        // SAFETY: the tile lies inside the part.
        unsafe {
            #[rustfmt::skip]
            with_shape!(sum_tile::<V>(part, column), (rows, width), V::SUM_ROWS,
                (1, 4) (2, 4) (3, 4) (4, 4) (5, 4) (6, 4)
                (1, 1) (2, 1) (3, 1) (4, 1) (5, 1) (6, 1)
            );
        }
        column += width * V::LANES;
    }
}

/// R rows of the part and N vectors of columns, or what is left of one. A total goes over `inner` in order, so zeros at
/// the end of a row of A (what the causal mask hides) change nothing.
#[inline(always)]
unsafe fn sum_tile<V: Lanes, const R: usize, const N: usize>(part: &Part, column: usize) {
    let p = &part.product;
    let width = if N == 1 {
        V::LANES.min(part.end_column - column)
    } else {
        V::LANES
    };
    // SAFETY: rows of A and C, and columns of B, of this tile exist; after the last row, b is not read.
    unsafe {
        let a = p.a.add(part.first_row * p.a_stride);
        let mut b = p.b.add(column);
        let mut totals = [[V::zero(); N]; R];
        let mut weights = [V::zero(); N];
        for k in 0..p.inner {
            for (n, weights) in weights.iter_mut().enumerate() {
                *weights = load::<V, N>(b.add(n * V::LANES), width);
            }
            for (r, totals) in totals.iter_mut().enumerate() {
                let value = V::splat(*a.add(r * p.a_stride + k));
                for (total, &weights) in totals.iter_mut().zip(&weights) {
                    *total = total.add_product(value, weights);
                }
            }
            b = b.wrapping_add(p.b_stride);
        }
        let (alpha, beta) = (V::splat(p.alpha), V::splat(p.beta));
        for (r, totals) in totals.iter().enumerate() {
            let c = p.c.add((part.first_row + r) * p.c_stride + column);
            for (n, total) in totals.iter().enumerate() {
                let c = c.add(n * V::LANES);
                let mut result = total.multiply(alpha);
                if p.beta != 0.0 {
                    result = result.add_product(load::<V, N>(c, width), beta);
                }
                if N == 1 {
                    result.store_first(c, width);
                } else {
                    result.store(c);
                }
            }
        }
    }
}

/// A whole vector, or the first `width` values where the tile has one vector alone.
#[inline(always)]
unsafe fn load<V: Lanes, const N: usize>(from: *const f32, width: usize) -> V {
    // SAFETY: passed on.
    unsafe {
        if N == 1 {
            V::load_first(from, width)
        } else {
            V::load(from)
        }
    }
}
