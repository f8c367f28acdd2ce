//! `C = alpha * A * op(B) + beta * C` in float32 for few rows of A, as decoding needs it: bound by reading B from memory.
//!
//! B is read once, where it lies: packing it, as a BLAS does for large products, costs more than the product.
//! Each value of C is computed by the same operations in the same order whatever the number of rows, the tile that it falls
//! into and the number of threads. So a row's result has the same bits at every width of a verification pass.

use std::cell::RefCell;
use std::ffi::CStr;

#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Avx512};
use super::lanes::{Lanes, Portable};
use super::pool::Pool;
use tiles::part;

mod tiles;

/// A product of row-major matrices.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of C.
    pub columns: usize,
    /// Columns of A.
    pub inner: usize,
    /// Factor of the product. Where it is 0, A and B are not read.
    pub alpha: f32,
    /// [rows, inner].
    pub a: *const f32,
    /// Distance between rows of A.
    pub a_stride: usize,
    /// [columns, inner] where transposed (the weights of a linear layer), else [inner, columns].
    pub b: *const f32,
    /// Distance between rows of B as it lies in memory.
    pub b_stride: usize,
    /// Whether B is used transposed.
    pub b_transposed: bool,
    /// Factor of what is in C. Where it is 0, C is not read.
    pub beta: f32,
    /// [rows, columns].
    pub c: *mut f32,
    /// Distance between rows of C.
    pub c_stride: usize,
}

/// The instruction sets that there are kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstructionSet {
    /// 16 values a vector.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 8 values a vector.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What the compiler makes of plain Rust.
    Portable,
}

impl InstructionSet {
    /// Those that this processor has, best first.
    #[must_use]
    pub fn present() -> Vec<Self> {
        #[allow(unused_mut, reason = "only x86_64 has more than one")]
        let mut present = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                present.insert(0, Self::Avx2);
            }
            if is_x86_feature_detected!("avx512f") {
                present.insert(0, Self::Avx512);
            }
        }
        present
    }

    /// The usual name.
    #[must_use]
    pub fn name(self) -> &'static CStr {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => c"AVX-512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => c"AVX2",
            Self::Portable => c"portable",
        }
    }
}

/// Products smaller than this many multiplications stay on one thread.
const SHARED_FROM: usize = 128 * 1024;
/// What a job reads of a transposed B.
const JOB_VALUES: usize = 16 * 1024;
/// Vectors of B that stay in registers where B is not transposed.
const VECTORS: usize = 4;

/// Computes the product with this instruction set, on the threads of `pool` where it is worth their while.
///
/// # Safety
/// The processor has `set`. A, B and C are as large as `product` says and C overlaps neither; nobody else writes to
/// them meanwhile or reads C. What a factor of 0 leaves unread may be missing.
pub unsafe fn multiply(product: &Product, set: InstructionSet, pool: &Pool) {
    let p = *product;
    if p.rows == 0 || p.columns == 0 {
        return;
    }
    if p.alpha == 0.0 || p.inner == 0 {
        // SAFETY: C is as large as the caller says.
        return unsafe { scale(&p) };
    }
    // SAFETY: the caller has this instruction set and vouches for the matrices.
    match set {
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { split::<Avx512>(&p, part_avx512, pool) },
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe { split::<Avx2>(&p, part_avx2, pool) },
        InstructionSet::Portable => unsafe { split::<Portable>(&p, part::<Portable>, pool) },
    }
}

/// `C = beta * C`.
unsafe fn scale(p: &Product) {
    for row in 0..p.rows {
        for column in 0..p.columns {
            // SAFETY: inside C.
            unsafe {
                let c = p.c.add(row * p.c_stride + column);
                *c = if p.beta == 0.0 { 0.0 } else { p.beta * *c };
            }
        }
    }
}

/// Some rows and columns of C, and A as the kernel for dot products reads it.
#[derive(Clone, Copy)]
struct Part {
    product: Product,
    packed: *const f32,
    first_row: usize,
    end_row: usize,
    first_column: usize,
    end_column: usize,
}

/// A kernel of one instruction set.
type Kernel = unsafe fn(&Part);

struct Shared(Product, *const f32);
// SAFETY: jobs read A and B, and write to different parts of C.
unsafe impl Sync for Shared {}

/// Divides C into jobs: by columns, and where B is small and not transposed by rows too.
unsafe fn split<V: Lanes>(p: &Product, kernel: Kernel, pool: &Pool) {
    thread_local! {
        static PACKED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    let (row_step, column_step) = if p.b_transposed {
        (p.rows, (JOB_VALUES / p.inner / 6 * 6).max(6)) // whole tiles
    } else {
        (balanced(p.rows, V::SUM_ROWS), VECTORS * V::LANES)
    };
    let column_jobs = p.columns.div_ceil(column_step);
    let jobs = column_jobs * p.rows.div_ceil(row_step);
    PACKED.with_borrow_mut(|packed| {
        let packed = if p.b_transposed {
            // SAFETY: A is as large as the caller says.
            unsafe { pack::<V>(p, packed) }
        } else {
            p.a
        };
        let shared = Shared(*p, packed);
        let job = |index: usize| {
            let shared = &shared;
            let (first_row, first_column) = (
                index / column_jobs * row_step,
                index % column_jobs * column_step,
            );
            let part = Part {
                product: shared.0,
                packed: shared.1,
                first_row,
                end_row: (first_row + row_step).min(shared.0.rows),
                first_column,
                end_column: (first_column + column_step).min(shared.0.columns),
            };
            // SAFETY: the caller vouches for the instruction set and the matrices; the part lies inside them.
            unsafe { kernel(&part) };
        };
        if p.rows * p.columns * p.inner < SHARED_FROM {
            (0..jobs).for_each(job);
        } else {
            pool.run(jobs, &job);
        }
    });
}

/// The size of `count` things in the fewest groups of at most `most`, as equal as can be.
#[inline(always)]
fn balanced(count: usize, most: usize) -> usize {
    count.div_ceil(count.div_ceil(most).max(1))
}

/// Rows of A that a tile of dot products takes: all where they fit into one. Of more rows A no longer fits into the
/// nearest cache, and smaller groups with wider tiles read it less often.
#[inline(always)]
fn dot_group<V: Lanes>(rows: usize) -> usize {
    let fits = rows <= V::DOT_ROWS;
    balanced(rows, if fits { rows } else { V::DOT_ROWS / 2 })
}

/// A in the order in which [`dots`] reads it: groups of rows; in a group, a vector of each row, then the next vectors. The
/// last ones are filled up with zeros. At a multiple of 64 bytes, so that no vector straddles two lines.
unsafe fn pack<V: Lanes>(p: &Product, packed: &mut Vec<f32>) -> *const f32 {
    const LINE: usize = 16;
    let steps = p.inner.div_ceil(V::LANES);
    packed.clear();
    packed.resize(p.rows * steps * V::LANES + LINE, 0.0);
    let start = packed.as_ptr().align_offset(LINE * size_of::<f32>());
    let group = dot_group::<V>(p.rows);
    for row in 0..p.rows {
        let first = row / group * group;
        let members = group.min(p.rows - first);
        for step in 0..steps {
            let count = V::LANES.min(p.inner - step * V::LANES);
            let to = start + (first * steps + step * members + row - first) * V::LANES;
            // SAFETY: inside row `row` of A.
            let from = unsafe {
                std::slice::from_raw_parts(p.a.add(row * p.a_stride + step * V::LANES), count)
            };
            packed[to..to + count].copy_from_slice(from);
        }
    }
    packed[start..].as_ptr()
}

/// # Safety
/// As for [`part`], with AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn part_avx512(part_of_c: &Part) {
    // SAFETY: passed on.
    unsafe { part::<Avx512>(part_of_c) }
}

/// # Safety
/// As for [`part`], with AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn part_avx2(part_of_c: &Part) {
    // SAFETY: passed on.
    unsafe { part::<Avx2>(part_of_c) }
}

#[cfg(test)]
pub(crate) mod tests;
