//! Against sums in float64, and against themselves at other widths and numbers of threads.

use super::{InstructionSet, Product, multiply};
use crate::runtime::pool::Pool;
use std::thread;

/// Values between -1 and 1, the same in every run.
pub(crate) fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A matrix whose rows lie `gap` values apart; in the gaps there is NaN, which shows when it is read.
#[derive(Clone)]
pub(crate) struct Matrix {
    pub columns: usize,
    pub stride: usize,
    pub values: Vec<f32>,
}

impl Matrix {
    pub fn new(rows: usize, columns: usize, gap: usize, seed: u32) -> Self {
        let (stride, dense) = (columns + gap, values(rows * columns, seed));
        let mut values = vec![f32::NAN; rows * stride];
        for (padded, row) in values
            .chunks_mut(stride.max(1))
            .zip(dense.chunks(columns.max(1)))
        {
            padded[..columns].copy_from_slice(row);
        }
        Self {
            columns,
            stride,
            values,
        }
    }

    pub fn at(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.stride + column]
    }

    fn rows(&self, count: usize) -> Vec<Vec<u32>> {
        let row = |row| {
            (0..self.columns)
                .map(|column| self.at(row, column).to_bits())
                .collect()
        };
        (0..count).map(row).collect()
    }

    fn gaps_are_untouched(&self) -> bool {
        let mut rows = self.values.chunks(self.stride);
        rows.all(|row| row[self.columns..].iter().all(|value| value.is_nan()))
    }
}

/// The shape of a product, and what surrounds its matrices.
#[derive(Clone, Copy, Debug)]
struct Case {
    rows: usize,
    columns: usize,
    inner: usize,
    gap: usize,
    transposed: bool,
    alpha: f32,
    beta: f32,
}

impl Case {
    fn b(&self) -> Matrix {
        let (rows, columns) = if self.transposed {
            (self.columns, self.inner)
        } else {
            (self.inner, self.columns)
        };
        Matrix::new(rows, columns, self.gap, 2)
    }

    fn c(&self) -> Matrix {
        Matrix::new(self.rows, self.columns, self.gap, 3)
    }

    fn compute(&self, a: &Matrix, b: &Matrix, set: InstructionSet, pool: &Pool) -> Matrix {
        let mut c = self.c();
        let product = Product {
            rows: self.rows,
            columns: self.columns,
            inner: self.inner,
            alpha: self.alpha,
            a: a.values.as_ptr(),
            a_stride: a.stride,
            b: b.values.as_ptr(),
            b_stride: b.stride,
            b_transposed: self.transposed,
            beta: self.beta,
            c: c.values.as_mut_ptr(),
            c_stride: c.stride,
        };
        // SAFETY: the set is one of those present, and the matrices were made for this case.
        unsafe { multiply(&product, set, pool) };
        c
    }
}

fn check(case: Case, set: InstructionSet, pool: &Pool) {
    let (a, b, before) = (
        Matrix::new(case.rows, case.inner, case.gap, 1),
        case.b(),
        case.c(),
    );
    let c = case.compute(&a, &b, set, pool);
    for row in 0..case.rows {
        for column in 0..case.columns {
            let factor = |k| {
                f64::from(if case.transposed {
                    b.at(column, k)
                } else {
                    b.at(k, column)
                })
            };
            let sum: f64 = (0..case.inner)
                .map(|k| f64::from(a.at(row, k)) * factor(k))
                .sum();
            let wanted = f64::from(case.alpha) * sum
                + f64::from(case.beta) * f64::from(before.at(row, column));
            let error = (f64::from(c.at(row, column)) - wanted).abs();
            assert!(error < 1e-4, "{set:?} {case:?} [{row}, {column}]: {error}");
        }
    }
    assert!(case.gap == 0 || c.gaps_are_untouched(), "{set:?} {case:?}");
}

#[test]
fn products_are_right_for_every_row_count_shape_and_stride() {
    let pool = Pool::new(2);
    for set in InstructionSet::present() {
        for transposed in [true, false] {
            for rows in 1..=40 {
                let columns = [1, 2, 7, 19, 65][rows % 5];
                let inner = [1, 3, 8, 33, 70, 16][rows % 6];
                let gap = [0, 1, 5][rows % 3];
                check(
                    Case {
                        rows,
                        columns,
                        inner,
                        gap,
                        transposed,
                        alpha: 1.0,
                        beta: 0.0,
                    },
                    set,
                    &pool,
                );
            }
            for columns in 1..=70 {
                let inner = 71 - columns;
                check(
                    Case {
                        rows: 5,
                        columns,
                        inner,
                        gap: 3,
                        transposed,
                        alpha: -0.5,
                        beta: 2.0,
                    },
                    set,
                    &pool,
                );
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_at_every_width_and_with_every_number_of_threads() {
    let pools: Vec<Pool> = (1..=4).map(Pool::new).collect();
    for set in InstructionSet::present() {
        for (transposed, columns, inner) in [(true, 150, 83), (false, 83, 150)] {
            let case = Case {
                rows: 32,
                columns,
                inner,
                gap: 1,
                transposed,
                alpha: 1.0,
                beta: 0.0,
            };
            let (a, b) = (Matrix::new(case.rows, inner, 2, 1), case.b());
            let whole = case.compute(&a, &b, set, &pools[0]).rows(case.rows);
            for rows in 1..=case.rows {
                for pool in &pools {
                    let narrow = Case { rows, ..case }.compute(&a, &b, set, pool).rows(rows);
                    assert!(
                        narrow == whole[..rows],
                        "{set:?} {case:?} {rows} rows, {} threads",
                        pool.threads()
                    );
                }
            }
        }
    }
}

/// What the causal mask hides is a zero at the end of a row of probabilities.
#[test]
fn zeros_at_the_end_of_a_sum_change_no_bit() {
    let pool = Pool::new(1);
    let long = Case {
        rows: 3,
        columns: 64,
        inner: 50,
        gap: 0,
        transposed: false,
        alpha: 1.0,
        beta: 0.0,
    };
    let b = long.b();
    for set in InstructionSet::present() {
        for inner in 1..long.inner {
            let mut a = Matrix::new(long.rows, long.inner, 0, 1);
            for row in a.values.chunks_mut(long.inner) {
                row[inner..].fill(0.0);
            }
            let short = Case { inner, ..long }.compute(&a, &b, set, &pool);
            assert!(
                short.rows(3) == long.compute(&a, &b, set, &pool).rows(3),
                "{set:?} {inner}"
            );
        }
    }
}

#[test]
fn callers_at_the_same_time_get_what_they_would_get_alone() {
    let pool = Pool::new(3);
    let case = Case {
        rows: 8,
        columns: 300,
        inner: 90,
        gap: 0,
        transposed: true,
        alpha: 1.0,
        beta: 0.0,
    };
    let (set, b) = (InstructionSet::present()[0], case.b());
    thread::scope(|scope| {
        for seed in 1..5 {
            let (pool, b) = (&pool, &b);
            scope.spawn(move || {
                let a = Matrix::new(case.rows, case.inner, 0, seed);
                let alone = case.compute(&a, b, set, &Pool::new(1)).rows(case.rows);
                for _ in 0..50 {
                    assert!(case.compute(&a, b, set, pool).rows(case.rows) == alone);
                }
            });
        }
    });
}
