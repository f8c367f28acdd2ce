//! 1x1 convolutions: weights become float32 in blocks that fit the nearest cache.

use half::f16;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::amx;
use super::half_lanes::HalfLanes;
use super::launch::{InstructionSet, Kernel, launch};
use super::tile::{Block, GROUP};
use super::weight::{Values, Weight};
use crate::runtime::pool::Pool;

/// Input channels that are made float32 at a time.
const CHANNELS: usize = 128;
/// Columns of a job.
const COLUMNS: usize = 64;

/// The columns of x in float32, each row filled up with zeros to `stride`; for the matrix unit as `amx` has them.
pub(super) struct Columns {
    /// [inputs, columns] at `stride`.
    pub x: *const f32,
    pub columns: usize,
    /// A multiple of every vector's size.
    pub stride: usize,
}

/// Computes [outputs, columns] of half precision at `out`, whose rows are `out_stride` apart.
///
/// # Safety
/// The processor has `set`; x and `out` are as large as that.
pub(super) unsafe fn convolve(
    weight: &Weight,
    columns: &Columns,
    (out, out_stride): (*mut f16, usize),
    set: InstructionSet,
    pool: &Pool,
) {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if set == InstructionSet::Amx {
        // SAFETY: passed on.
        return unsafe { amx::convolve(weight, columns, (out, out_stride), pool) };
    }
    let groups = weight.outputs.div_ceil(GROUP);
    let parts = columns.columns.div_ceil(COLUMNS);
    let shared = Shared((weight, columns, out));
    pool.run(groups * parts, &|index| {
        let (weight, columns, out) = shared.get();
        let job = Job {
            weight,
            columns,
            out,
            out_stride,
            group: index / parts,
            first_column: index % parts * COLUMNS,
        };
        // SAFETY: the caller vouches for the instruction set and the memory.
        unsafe { launch(set, &job) };
    });
}

/// Pointers that jobs share.
pub(super) struct Shared<T>(pub T);
// SAFETY: jobs read what the pointers show, and write to different parts of the output.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// A closure that calls this captures the whole, which is `Sync`, and not the pointers.
    pub(super) fn get(&self) -> T {
        self.0
    }
}

/// Memory for a job, at the start of a line.
#[repr(align(64))]
pub(super) struct Scratch<const N: usize>(pub [f32; N]);

struct Job<'a> {
    weight: &'a Weight,
    columns: &'a Columns,
    out: *mut f16,
    out_stride: usize,
    group: usize,
    first_column: usize,
}

impl Kernel for Job<'_> {
    #[inline(always)]
    unsafe fn run<V: HalfLanes>(&self) {
        let (mut block, mut sums) = (
            Scratch([0.0; CHANNELS * GROUP]),
            Scratch([0.0; GROUP * COLUMNS]),
        );
        let (block, sums) = (block.0.as_mut_ptr(), sums.0.as_mut_ptr());
        let inputs = self.weight.inputs;
        let columns = COLUMNS.min(self.columns.columns - self.first_column);
        for first in (0..inputs).step_by(CHANNELS) {
            let inner = CHANNELS.min(inputs - first);
            // SAFETY: inside the weight and x, whose rows are filled up to whole vectors.
            unsafe {
                self.unpack::<V>(first, inner, block);
                Block::<1, GROUP> {
                    rows: GROUP,
                    vectors: columns.div_ceil(V::LANES),
                    inner,
                    a: block,
                    b: self
                        .columns
                        .x
                        .add(first * self.columns.stride + self.first_column),
                    b_stride: self.columns.stride,
                    c: sums,
                    c_stride: COLUMNS,
                    begin: first == 0,
                }
                .multiply::<V>();
            }
        }
        let rows = GROUP.min(self.weight.outputs - self.group * GROUP);
        for row in 0..rows {
            // SAFETY: inside the output.
            unsafe {
                let out = self
                    .out
                    .add((self.group * GROUP + row) * self.out_stride + self.first_column);
                store_row::<V>(sums.add(row * COLUMNS), out, columns);
            }
        }
    }
}

impl Job<'_> {
    /// Some input channels of the group in float32.
    #[inline(always)]
    unsafe fn unpack<V: HalfLanes>(&self, first: usize, inner: usize, block: *mut f32) {
        let start = (self.group * self.weight.inputs + first) * GROUP;
        // SAFETY: inside the weight and the block; a group is a whole number of vectors of 8, and what a vector of 16 takes
        // is a whole number of those for every two channels.
        unsafe {
            match &self.weight.values {
                Values::Half(values) => {
                    let from = values.as_ptr().add(start);
                    let count = inner * GROUP;
                    let whole = count / V::LANES * V::LANES;
                    for i in (0..whole).step_by(V::LANES) {
                        V::load_half(from.add(i)).store(block.add(i));
                    }
                    if whole < count {
                        V::load_half_first(from.add(whole), count - whole)
                            .store_first(block.add(whole), count - whole);
                    }
                }
                Values::Bytes(values, scales) => {
                    let from = values.as_ptr().add(start);
                    let scales = scales.as_ptr().add(self.group * GROUP);
                    unpack_bytes::<V>(from, scales, inner, block);
                }
            }
        }
    }
}

/// As [`Job::unpack`]. Scales repeat every [`GROUP`] values, so every 3 vectors of 8, or every 3 of 16 for two channels.
#[inline(always)]
unsafe fn unpack_bytes<V: HalfLanes>(
    from: *const i8,
    scales: *const f32,
    inner: usize,
    block: *mut f32,
) {
    // SAFETY: see `unpack`.
    unsafe {
        let mut twice = [0.0; 2 * GROUP];
        for (i, scale) in twice.iter_mut().enumerate() {
            *scale = *scales.add(i % GROUP);
        }
        let mut vectors = [V::zero(); 3];
        for (i, scales) in vectors.iter_mut().enumerate() {
            *scales = V::load(twice.as_ptr().add(i * V::LANES));
        }
        let period = 3 * V::LANES;
        let count = inner * GROUP;
        let whole = count / period * period;
        for i in (0..whole).step_by(period) {
            V::prefetch(from.wrapping_add(i + CHANNELS * GROUP).cast()); // what the next block takes
            for (n, scale) in vectors.iter().enumerate() {
                let at = i + n * V::LANES;
                V::load_i8(from.add(at))
                    .multiply(*scale)
                    .rounded_to_normal_half()
                    .store(block.add(at));
            }
        }
        for i in whole..count {
            *block.add(i) = f16::from_f32(f32::from(*from.add(i)) * twice[i % GROUP]).to_f32();
        }
    }
}

/// A row of sums in half precision.
#[inline(always)]
pub(super) unsafe fn store_row<V: HalfLanes>(sums: *const f32, out: *mut f16, count: usize) {
    let whole = count / V::LANES * V::LANES;
    // SAFETY: the caller vouches for `count` values, and that `sums` has whole vectors.
    unsafe {
        for i in (0..whole).step_by(V::LANES) {
            V::load(sums.add(i)).store_half(out.add(i));
        }
        if whole < count {
            V::load(sums.add(whole)).store_half_first(out.add(whole), count - whole);
        }
    }
}

/// Rows of half precision in float32, each filled up with zeros to a whole number of vectors.
pub(super) struct Widen {
    pub from: *const f16,
    pub from_stride: usize,
    pub to: *mut f32,
    pub to_stride: usize,
    pub rows: usize,
    pub columns: usize,
}

impl Kernel for Widen {
    #[inline(always)]
    unsafe fn run<V: HalfLanes>(&self) {
        let whole = self.columns / V::LANES * V::LANES;
        for row in 0..self.rows {
            // SAFETY: the caller vouches for the rows.
            unsafe {
                let (from, to) = (
                    self.from.add(row * self.from_stride),
                    self.to.add(row * self.to_stride),
                );
                for i in (0..whole).step_by(V::LANES) {
                    V::load_half(from.add(i)).store(to.add(i));
                }
                if whole < self.columns {
                    V::load_half_first(from.add(whole), self.columns - whole).store(to.add(whole));
                }
            }
        }
    }
}
