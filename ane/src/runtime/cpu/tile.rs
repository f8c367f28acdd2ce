//! The inner loop of all products: tiles of running sums that stay in registers.

use super::half_lanes::HalfLanes;

/// Weights come in groups of so many rows, which every shape of tile divides.
pub(super) const GROUP: usize = 24;

/// `C[row][column] = (C or 0) + sum over k of A[row][k] * B[k][column]` in float32, one product after the other in the order
/// of k: so a sum has the same bits whatever the tile, and however k is divided among calls.
///
/// `A[row][k]` lies at `a + row * ROW + k * STEP`. Rows are rounded up to a multiple of a tile's, at most to one of [`GROUP`]: A
/// and C must have them.
pub(super) struct Block<const ROW: usize, const STEP: usize> {
    pub rows: usize,
    /// Columns, in vectors.
    pub vectors: usize,
    /// Values of k.
    pub inner: usize,
    pub a: *const f32,
    pub b: *const f32,
    pub b_stride: usize,
    pub c: *mut f32,
    pub c_stride: usize,
    /// Whether C is to be taken as 0.
    pub begin: bool,
}

impl<const ROW: usize, const STEP: usize> Block<ROW, STEP> {
    /// # Safety
    /// The processor has the instruction set of V; A, B and C are as large as the fields say.
    #[inline(always)]
    pub(super) unsafe fn multiply<V: HalfLanes>(&self) {
        let mut vector = 0;
        while vector < self.vectors {
            let width = V::MOST_VECTORS.min(self.vectors - vector);
            // SAFETY: passed on. The shapes are those that fill `V::TOTALS` registers.
            unsafe {
                match (V::TOTALS, width) {
                    (24, 1) => self.column_of_tiles::<V, 24, 1>(vector),
                    (24, 2) => self.column_of_tiles::<V, 12, 2>(vector),
                    (24, 3) => self.column_of_tiles::<V, 8, 3>(vector),
                    (24, 4) => self.column_of_tiles::<V, 6, 4>(vector),
                    (12, 1) => self.column_of_tiles::<V, 12, 1>(vector),
                    (12, 2) => self.column_of_tiles::<V, 6, 2>(vector),
                    (6, 1) => self.column_of_tiles::<V, 6, 1>(vector),
                    _ => unreachable!("no such tile"),
                }
            }
            vector += width;
        }
    }

    #[inline(always)]
    unsafe fn column_of_tiles<V: HalfLanes, const R: usize, const N: usize>(&self, vector: usize) {
        for row in (0..self.rows).step_by(R) {
            // SAFETY: inside A, B and C.
            unsafe { self.tile::<V, R, N>(row, vector * V::LANES) };
        }
    }

    #[inline(always)]
    unsafe fn tile<V: HalfLanes, const R: usize, const N: usize>(&self, row: usize, column: usize) {
        // SAFETY: inside A, B and C; after the last k, a and b are not read.
        unsafe {
            let mut a = self.a.add(row * ROW);
            let mut b = self.b.add(column);
            let c = self.c.add(row * self.c_stride + column);
            let mut sums = [[V::zero(); N]; R];
            if !self.begin {
                for (r, sums) in sums.iter_mut().enumerate() {
                    for (n, sum) in sums.iter_mut().enumerate() {
                        *sum = V::load(c.add(r * self.c_stride + n * V::LANES));
                    }
                }
            }
            for _ in 0..self.inner {
                let mut columns = [V::zero(); N];
                for (n, values) in columns.iter_mut().enumerate() {
                    *values = V::load(b.add(n * V::LANES));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let factor = V::splat(*a.add(r * ROW));
                    for (sum, values) in sums.iter_mut().zip(columns) {
                        *sum = sum.add_product(factor, values);
                    }
                }
                a = a.wrapping_add(STEP);
                b = b.wrapping_add(self.b_stride);
            }
            for (r, sums) in sums.iter().enumerate() {
                for (n, sum) in sums.iter().enumerate() {
                    sum.store(c.add(r * self.c_stride + n * V::LANES));
                }
            }
        }
    }
}
