//! Products of two results. Programs of drafts have them in attention, which `attention` computes as a whole.

use half::f16;

use super::conv::{Scratch, Shared, Widen, store_row};
use super::half_lanes::HalfLanes;
use super::launch::{InstructionSet, Kernel, launch};
use super::tile::{Block, GROUP};
use crate::runtime::pool::Pool;

/// Values of k that are made float32 at a time.
const INNER: usize = 64;
/// Columns of a job.
const COLUMNS: usize = 64;

/// Contiguous x [batch, rows, inner], or [batch, inner, rows] where transposed, by y [batch, inner, columns].
#[derive(Clone, Copy)]
pub(super) struct Matmul {
    pub batch: usize,
    pub rows: usize,
    pub inner: usize,
    pub columns: usize,
    pub transposed: bool,
    pub x: *const f16,
    pub y: *const f16,
    pub out: *mut f16,
}

impl Matmul {
    /// # Safety
    /// The processor has `set`; the memory is as large as the fields say.
    pub(super) unsafe fn run(&self, set: InstructionSet, pool: &Pool) {
        let (groups, parts) = (self.rows.div_ceil(GROUP), self.columns.div_ceil(COLUMNS));
        let shared = Shared(*self);
        pool.run(self.batch * groups * parts, &|index| {
            let job = Job {
                product: shared.get(),
                matrix: index / (groups * parts),
                first_row: index / parts % groups * GROUP,
                first_column: index % parts * COLUMNS,
            };
            // SAFETY: the caller vouches for the instruction set and the memory.
            unsafe { launch(set, &job) };
        });
    }
}

struct Job {
    product: Matmul,
    matrix: usize,
    first_row: usize,
    first_column: usize,
}

impl Kernel for Job {
    #[inline(always)]
    unsafe fn run<V: HalfLanes>(&self) {
        let p = &self.product;
        let (rows, columns) = (
            GROUP.min(p.rows - self.first_row),
            COLUMNS.min(p.columns - self.first_column),
        );
        let mut a = Scratch([0.0; INNER * A_STRIDE]);
        let mut b = Scratch([0.0; INNER * COLUMNS]);
        let mut sums = Scratch([0.0; GROUP * COLUMNS]);
        let (a, b, sums) = (a.0.as_mut_ptr(), b.0.as_mut_ptr(), sums.0.as_mut_ptr());
        for first in (0..p.inner).step_by(INNER) {
            let inner = INNER.min(p.inner - first);
            // SAFETY: inside x, y and the output, and what tiles take beyond them inside the scratch memory.
            unsafe {
                let y =
                    p.y.add((self.matrix * p.inner + first) * p.columns + self.first_column);
                let y = Widen {
                    from: y,
                    from_stride: p.columns,
                    to: b,
                    to_stride: COLUMNS,
                    rows: inner,
                    columns,
                };
                y.run::<V>();
                let (from, from_stride) = if p.transposed {
                    (
                        p.x.add((self.matrix * p.inner + first) * p.rows + self.first_row),
                        p.rows,
                    )
                } else {
                    (
                        p.x.add((self.matrix * p.rows + self.first_row) * p.inner + first),
                        p.inner,
                    )
                };
                let begin = first == 0;
                if p.transposed {
                    let to_stride = A_STRIDE;
                    Widen {
                        from,
                        from_stride,
                        to: a,
                        to_stride,
                        rows: inner,
                        columns: rows,
                    }
                    .run::<V>();
                    self.block::<V, 1, A_STRIDE>(a, b, sums, [rows, columns, inner], begin);
                } else {
                    Widen {
                        from,
                        from_stride,
                        to: a,
                        to_stride: INNER,
                        rows,
                        columns: inner,
                    }
                    .run::<V>();
                    self.block::<V, INNER, 1>(a, b, sums, [rows, columns, inner], begin);
                }
            }
        }
        for row in 0..rows {
            // SAFETY: inside the output.
            unsafe {
                let out =
                    (self.matrix * p.rows + self.first_row + row) * p.columns + self.first_column;
                store_row::<V>(sums.add(row * COLUMNS), p.out.add(out), columns);
            }
        }
    }
}

/// Rows of a transposed x, rounded up to whole vectors.
const A_STRIDE: usize = GROUP.next_multiple_of(16);

impl Job {
    #[inline(always)]
    unsafe fn block<V: HalfLanes, const ROW: usize, const STEP: usize>(
        &self,
        a: *const f32,
        b: *const f32,
        c: *mut f32,
        [rows, columns, inner]: [usize; 3],
        begin: bool,
    ) {
        let block = Block::<ROW, STEP> {
            rows,
            vectors: columns.div_ceil(V::LANES),
            inner,
            a,
            b,
            b_stride: COLUMNS,
            c,
            c_stride: COLUMNS,
            begin,
        };
        // SAFETY: passed on.
        unsafe { block.multiply::<V>() };
    }
}
