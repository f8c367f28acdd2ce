//! Attention in one kernel: scores, mask, softmax over the keys, and the sum of values, for some columns of one head at a time.
//!
//! Bit for bit what the single operations compute: results are rounded to half precision where those have outputs, and sums
//! add up in the same order. Keys that a mask hides from all columns of a job are passed over, since their probability is 0: a
//! short context costs little in a program with room for a long one. (The product of a query and such a key would have to be
//! as large as the mask to be seen.)

use std::cell::RefCell;

use half::f16;

use super::conv::{Shared, Widen, store_row};
use super::half_lanes::{HalfLanes, MOST_LANES, exp};
use super::launch::{InstructionSet, Kernel, launch};
use super::tile::{Block, GROUP};
use crate::runtime::pool::Pool;

/// Columns of a job: a whole number of vectors, and of tiles, of every instruction set.
const COLUMNS: usize = 48;
/// Keys that are made float32 at a time.
const KEYS: usize = 48;
/// What a mask adds to hide a key is this or less, and no product of a query and a key comes near it.
const HIDDEN: f16 = f16::from_f32_const(-20_000.0);
/// A column whose largest score is less than this has no key that it sees.
const LEAST_SEEN: f32 = -10_000.0;
/// Columns of masks come in multiples of this.
pub(super) const MASK_COLUMNS: usize = 16;

/// Keys or values of consecutive positions, [heads, head dim, count].
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub start: *const f16,
    pub head_stride: usize,
    pub row_stride: usize,
    pub count: usize,
}

/// Everything that one attention reads and writes.
pub(super) struct Attention<'a> {
    pub heads: usize,
    pub head_dim: usize,
    /// Columns of queries, a multiple of those of the mask.
    pub columns: usize,
    pub keys: &'a [Piece],
    /// As many positions as `keys`.
    pub values: &'a [Piece],
    /// [heads, head dim, columns].
    pub queries: Piece,
    /// [1, keys, mask columns], the same for each group of so many columns. `count` is the number of columns.
    pub mask: Piece,
    /// A power of two, at least 1, by which probabilities are multiplied: exact in half precision while the product of a
    /// probability stays in range.
    pub boost: f32,
    /// [heads, head dim, columns], contiguous.
    pub out: *mut f16,
}

impl Attention<'_> {
    /// # Safety
    /// The processor has `set`; the memory is as large as the fields say, and nobody else writes to it.
    pub(super) unsafe fn run(&self, set: InstructionSet, pool: &Pool) {
        let parts = self.columns.div_ceil(COLUMNS);
        let shared = Shared(self);
        pool.run(self.heads * parts, &|index| {
            SCRATCH.with_borrow_mut(|scratch| {
                let job = Job {
                    attention: shared.get(),
                    head: index / parts,
                    first_column: index % parts * COLUMNS,
                    scratch: Regions::within(scratch, shared.get()),
                };
                // SAFETY: the caller vouches for the instruction set and the memory.
                unsafe { launch(set, &job) };
            });
        });
    }
}

thread_local! {
    /// Grows to what the largest program needs, once.
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Memory of a job, in rows of [`COLUMNS`] values, which is also [`KEYS`].
struct Regions {
    /// [keys, columns]: scores, then probabilities. Tiles write some rows more.
    scores: *mut f32,
    /// [head dim, columns].
    queries: *mut f32,
    /// [head dim, keys of a block]. Tiles read some rows more.
    block: *mut f32,
    /// [head dim, columns]. Tiles write some rows more.
    sums: *mut f32,
}

impl Regions {
    fn within(scratch: &mut Vec<f32>, attention: &Attention<'_>) -> Self {
        const LINE: usize = 16;
        let keys: usize = attention.keys.iter().map(|piece| piece.count).sum();
        let rows = [
            keys,
            attention.head_dim,
            attention.head_dim,
            attention.head_dim,
        ]
        .map(|rows| rows + GROUP);
        let size = rows.iter().sum::<usize>() * COLUMNS + LINE;
        if scratch.len() < size {
            scratch.resize(size, 0.0);
        }
        let start = scratch.as_ptr().align_offset(LINE * size_of::<f32>());
        let (scores, rest) = scratch[start..].split_at_mut(rows[0] * COLUMNS);
        let (queries, rest) = rest.split_at_mut(rows[1] * COLUMNS);
        let (block, rest) = rest.split_at_mut(rows[2] * COLUMNS);
        Self {
            scores: scores.as_mut_ptr(),
            queries: queries.as_mut_ptr(),
            block: block.as_mut_ptr(),
            sums: rest.as_mut_ptr(),
        }
    }
}

/// Some keys of a piece whose scores are there.
struct Keys {
    /// Which piece.
    piece: usize,
    /// The first of them in the piece.
    start: usize,
    count: usize,
    /// Of the scores.
    row: usize,
}

/// Whether each column sees a key, by its largest score.
#[inline(always)]
unsafe fn sees<V: HalfLanes>(largest: V) -> bool {
    let mut values = [0.0; MOST_LANES];
    // SAFETY: there is room for the longest vector.
    unsafe { largest.store(values.as_mut_ptr()) };
    // Also false for NaN.
    values[..V::LANES].iter().all(|value| *value >= LEAST_SEEN)
}

struct Job<'a> {
    attention: &'a Attention<'a>,
    head: usize,
    first_column: usize,
    scratch: Regions,
}

impl Kernel for Job<'_> {
    #[inline(always)]
    unsafe fn run<V: HalfLanes>(&self) {
        let columns = COLUMNS.min(self.attention.columns - self.first_column);
        // SAFETY: passed on. Columns come in multiples of the mask's, so in whole vectors, of which there are at most 6.
        unsafe {
            match columns / V::LANES {
                1 => self.columns::<V, 1>(),
                2 => self.columns::<V, 2>(),
                3 => self.columns::<V, 3>(),
                4 => self.columns::<V, 4>(),
                5 => self.columns::<V, 5>(),
                _ => self.columns::<V, 6>(),
            }
        }
    }
}

impl Job<'_> {
    /// N vectors of columns.
    #[inline(always)]
    unsafe fn columns<V: HalfLanes, const N: usize>(&self) {
        let attention = self.attention;
        // SAFETY: inside the memory that the caller vouches for, and the regions.
        unsafe {
            self.widen::<V>(
                &attention.queries,
                self.first_column,
                N * V::LANES,
                self.scratch.queries,
            );
            let (mut keys, mut largest) = self.scores::<V, N>(true);
            if !largest.iter().all(|largest| sees(*largest)) {
                (keys, largest) = self.scores::<V, N>(false);
            }
            let rows = keys.iter().map(|keys| keys.count).sum();
            let factors = self.raise::<V, N>(rows, largest);
            for keys in &keys {
                self.normalise::<V, N>(keys.row, keys.count, factors);
                self.add_values::<V, N>(&attention.values[keys.piece], keys);
            }
            let out = attention
                .out
                .add(self.head * attention.head_dim * attention.columns + self.first_column);
            for row in 0..attention.head_dim {
                let sums = self.scratch.sums.add(row * COLUMNS);
                store_row::<V>(sums, out.add(row * attention.columns), N * V::LANES);
            }
        }
    }

    /// Scores of all keys, or of those that are seen, and the largest of each column.
    #[inline(always)]
    unsafe fn scores<V: HalfLanes, const N: usize>(&self, only_seen: bool) -> (Vec<Keys>, [V; N]) {
        // SAFETY: the caller vouches for the instruction set.
        let mut largest = [unsafe { V::splat(f32::NEG_INFINITY) }; N];
        let mut scored: Vec<Keys> = vec![];
        let (mut row, mut mask_row) = (0, 0);
        for (index, piece) in self.attention.keys.iter().enumerate() {
            for start in (0..piece.count).step_by(KEYS) {
                let keys = Keys {
                    piece: index,
                    start,
                    count: KEYS.min(piece.count - start),
                    row,
                };
                // SAFETY: inside the memory that the caller vouches for, and the regions.
                unsafe {
                    if !only_seen || self.seen(mask_row, keys.count, N * V::LANES) {
                        self.score::<V, N>(piece, &keys);
                        self.add_mask::<V, N>(mask_row, &keys, &mut largest);
                        row += keys.count;
                        scored.push(keys);
                    }
                }
                mask_row += KEYS.min(piece.count - start);
            }
        }
        (scored, largest)
    }

    /// Whether the mask shows any of these keys to any of the job's columns.
    unsafe fn seen(&self, first: usize, count: usize, columns: usize) -> bool {
        let mask = &self.attention.mask;
        let (hidden, lowest) = (HIDDEN.to_bits(), f16::NEG_INFINITY.to_bits());
        (first..first + count).any(|key| {
            (0..columns).step_by(MASK_COLUMNS).any(|column| {
                let column = (self.first_column + column) % mask.count;
                // SAFETY: a row of the mask, whose columns come in multiples of `MASK_COLUMNS`.
                let row = unsafe {
                    let start = mask.start.add(key * mask.row_stride + column);
                    std::slice::from_raw_parts(start, MASK_COLUMNS)
                };
                // Bits of negative numbers grow with their size.
                let within = |value: &f16| value.to_bits().wrapping_sub(hidden) <= lowest - hidden;
                !row.iter().fold(true, |all, value| all & within(value))
            })
        })
    }

    /// [head dim, count] of the piece's positions (or columns) from `start` on, in float32.
    #[inline(always)]
    unsafe fn widen<V: HalfLanes>(&self, piece: &Piece, start: usize, count: usize, to: *mut f32) {
        // SAFETY: passed on.
        unsafe {
            Widen {
                from: piece.start.add(self.head * piece.head_stride + start),
                from_stride: piece.row_stride,
                to,
                to_stride: COLUMNS,
                rows: self.attention.head_dim,
                columns: count,
            }
            .run::<V>();
        }
    }

    /// Products of some keys and the queries.
    #[inline(always)]
    unsafe fn score<V: HalfLanes, const N: usize>(&self, piece: &Piece, keys: &Keys) {
        // SAFETY: passed on.
        unsafe {
            self.widen::<V>(piece, keys.start, keys.count, self.scratch.block);
            Block::<1, KEYS> {
                rows: keys.count,
                vectors: N,
                inner: self.attention.head_dim,
                a: self.scratch.block,
                b: self.scratch.queries,
                b_stride: COLUMNS,
                c: self.scratch.scores.add(keys.row * COLUMNS),
                c_stride: COLUMNS,
                begin: true,
            }
            .multiply::<V>();
        }
    }

    #[inline(always)]
    unsafe fn add_mask<V: HalfLanes, const N: usize>(
        &self,
        mask_row: usize,
        keys: &Keys,
        largest: &mut [V; N],
    ) {
        let mask = &self.attention.mask;
        let columns: [usize; N] =
            std::array::from_fn(|n| (self.first_column + n * V::LANES) % mask.count);
        // SAFETY: rows of the scores and of the mask.
        unsafe {
            for key in 0..keys.count {
                let (scores, mask) = (
                    self.scratch.scores.add((keys.row + key) * COLUMNS),
                    mask.start.add((mask_row + key) * mask.row_stride),
                );
                for n in 0..N {
                    let score = V::load(scores.add(n * V::LANES)).rounded_to_half();
                    let masked = score
                        .plus(V::load_half(mask.add(columns[n])))
                        .rounded_to_half();
                    masked.store(scores.add(n * V::LANES));
                    largest[n] = masked.maximum(largest[n]);
                }
            }
        }
    }

    /// Scores to e to the power of their distance from the largest; returns what makes probabilities of them.
    #[inline(always)]
    unsafe fn raise<V: HalfLanes, const N: usize>(&self, keys: usize, largest: [V; N]) -> [V; N] {
        // SAFETY: rows of the scores.
        unsafe {
            let mut sums = [V::zero(); N];
            for key in 0..keys {
                for n in 0..N {
                    let score = self.scratch.scores.add(key * COLUMNS + n * V::LANES);
                    let raised = exp(V::load(score).minus(largest[n]));
                    raised.store(score);
                    sums[n] = sums[n].plus(raised);
                }
            }
            for sum in &mut sums {
                *sum = V::splat(1.0).over(*sum);
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn normalise<V: HalfLanes, const N: usize>(
        &self,
        first: usize,
        count: usize,
        factors: [V; N],
    ) {
        // SAFETY: rows of the scores.
        unsafe {
            let boost = V::splat(self.attention.boost);
            for key in first..first + count {
                for (n, factor) in factors.iter().enumerate() {
                    let value = self.scratch.scores.add(key * COLUMNS + n * V::LANES);
                    let probability = V::load(value).multiply(*factor).rounded_to_half();
                    probability.multiply(boost).store(value);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn add_values<V: HalfLanes, const N: usize>(&self, piece: &Piece, keys: &Keys) {
        // SAFETY: passed on.
        unsafe {
            self.widen::<V>(piece, keys.start, keys.count, self.scratch.block);
            Block::<KEYS, 1> {
                rows: self.attention.head_dim,
                vectors: N,
                inner: keys.count,
                a: self.scratch.block,
                b: self.scratch.scores.add(keys.row * COLUMNS),
                b_stride: COLUMNS,
                c: self.scratch.sums,
                c_stride: COLUMNS,
                begin: keys.row == 0,
            }
            .multiply::<V>();
        }
    }
}
