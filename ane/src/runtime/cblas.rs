//! `cblas_sgemm` for MLX's CPU back end, which looks it up in the process: products of few rows are computed here, the
//! others by the BLAS that was handed over, or here too where there is none.

use std::ffi::{c_char, c_int};
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::pool::Pool;
use super::skinny_gemm::{InstructionSet, Product, multiply};

/// Products of up to this many rows are computed here: the widest verification pass, and as long as packing B does not pay.
const MOST_ROWS: usize = 32;

const ROW_MAJOR: c_int = 101;
const COLUMN_MAJOR: c_int = 102;
const NOT_TRANSPOSED: c_int = 111;
const TRANSPOSED: c_int = 112;
const CONJUGATED: c_int = 113; // the same as transposed for real numbers

type Sgemm = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    f32,
    *const f32,
    c_int,
    *const f32,
    c_int,
    f32,
    *mut f32,
    c_int,
);

static OTHER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Hands over the `cblas_sgemm` of a BLAS for products of many rows; null takes it back.
///
/// # Safety
/// `other` is null or a function of this type that stays loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mirror_sd_set_sgemm(other: *mut ()) {
    OTHER.store(other, Ordering::Release);
}

/// The largest number of rows whose products are computed here even where there is another BLAS.
#[unsafe(no_mangle)]
pub extern "C" fn mirror_sd_most_rows() -> c_int {
    MOST_ROWS as c_int
}

/// The name of the instruction set that the products here use.
#[unsafe(no_mangle)]
pub extern "C" fn mirror_sd_instruction_set() -> *const c_char {
    instruction_set().name().as_ptr()
}

fn instruction_set() -> InstructionSet {
    static SET: OnceLock<InstructionSet> = OnceLock::new();
    *SET.get_or_init(|| InstructionSet::present()[0])
}

fn other() -> Option<Sgemm> {
    // SAFETY: null, or a function of this type: see `mirror_sd_set_sgemm`.
    unsafe { mem::transmute::<*mut (), Option<Sgemm>>(OTHER.load(Ordering::Acquire)) }
}

/// `C = alpha * op(A) * op(B) + beta * C`, as the CBLAS standard has it.
///
/// # Safety
/// As for every BLAS: the matrices are as large as the arguments say.
#[unsafe(no_mangle)]
#[rustfmt::skip]
pub unsafe extern "C" fn cblas_sgemm(
    layout: c_int, transpose_a: c_int, transpose_b: c_int, m: c_int, n: c_int, k: c_int,
    alpha: f32, a: *const f32, lda: c_int, b: *const f32, ldb: c_int, beta: f32, c: *mut f32, ldc: c_int,
) {
    let call = Call { m, n, k, a: Operand { values: a, stride: lda, transpose: transpose_a },
        b: Operand { values: b, stride: ldb, transpose: transpose_b }, alpha, beta, c, ldc };
    let ours = call.row_major(layout).filter(Call::is_valid);
    // SAFETY: the caller vouches for the matrices, and whoever handed the other function over for that.
    match (ours, other()) {
        (Some(call), None) => unsafe { call.compute() },
        (Some(call), Some(_)) if call.is_skinny() => unsafe { call.compute() },
        (_, Some(other)) => unsafe {
            other(layout, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        },
        (None, None) => eprintln!("cblas_sgemm: an argument has an illegal value; nothing was computed"),
    }
}

#[derive(Clone, Copy)]
struct Operand {
    values: *const f32,
    stride: c_int,
    transpose: c_int,
}

impl Operand {
    /// Whether the arguments of a [rows, columns] operand, as it is used, make sense.
    fn is_valid(&self, rows: c_int, columns: c_int) -> bool {
        match self.transpose {
            NOT_TRANSPOSED => self.stride >= columns.max(1),
            TRANSPOSED | CONJUGATED => self.stride >= rows.max(1),
            _ => false,
        }
    }
}

/// The arguments of a product.
#[derive(Clone, Copy)]
struct Call {
    m: c_int,
    n: c_int,
    k: c_int,
    a: Operand,
    b: Operand,
    alpha: f32,
    beta: f32,
    c: *mut f32,
    ldc: c_int,
}

impl Call {
    /// The same product of row-major matrices. A column-major matrix is its transpose in row-major order, and
    /// transposing a product swaps its factors.
    fn row_major(self, layout: c_int) -> Option<Self> {
        match layout {
            ROW_MAJOR => Some(self),
            COLUMN_MAJOR => Some(Self {
                m: self.n,
                n: self.m,
                a: self.b,
                b: self.a,
                ..self
            }),
            _ => None,
        }
    }

    fn is_valid(&self) -> bool {
        self.m.min(self.n).min(self.k) >= 0
            && self.ldc >= self.n.max(1)
            && self.a.is_valid(self.m, self.k)
            && self.b.is_valid(self.k, self.n)
    }

    fn is_skinny(&self) -> bool {
        self.m as usize <= MOST_ROWS && self.a.transpose == NOT_TRANSPOSED
    }

    /// # Safety
    /// The call is valid, and the matrices are as large as it says.
    unsafe fn compute(&self) {
        let (rows, columns, inner) = (self.m as usize, self.n as usize, self.k as usize);
        let mut product = Product {
            rows,
            columns,
            inner,
            alpha: self.alpha,
            a: self.a.values,
            a_stride: self.a.stride as usize,
            b: self.b.values,
            b_stride: self.b.stride as usize,
            b_transposed: self.b.transpose != NOT_TRANSPOSED,
            beta: self.beta,
            c: self.c,
            c_stride: self.ldc as usize,
        };
        let mut turned = Vec::new();
        if self.a.transpose != NOT_TRANSPOSED && self.alpha != 0.0 {
            turned.reserve_exact(rows * inner);
            for row in 0..rows {
                // SAFETY: A is [inner, rows] in memory.
                turned.extend(
                    (0..inner).map(|k| unsafe { *product.a.add(k * product.a_stride + row) }),
                );
            }
            (product.a, product.a_stride) = (turned.as_ptr(), inner);
        }
        // SAFETY: the processor has this set, and the caller vouches for the matrices.
        unsafe { multiply(&product, instruction_set(), Pool::global()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::skinny_gemm::tests::Matrix;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    /// The function that was handed over is one for the whole process.
    static TURN: Mutex<()> = Mutex::new(());

    struct Case {
        layout: c_int,
        transpose: [c_int; 2],
        shape: [usize; 3],
        alpha: f32,
        beta: f32,
    }

    /// What `cblas_sgemm` makes of [rows, columns] operands stored as the case says, with gaps between their rows.
    fn compute(case: &Case, a: &Matrix, b: &Matrix, c: &mut Matrix) {
        let [m, n, k] = case.shape.map(|size| size as c_int);
        let stride = |matrix: &Matrix| matrix.stride as c_int;
        // SAFETY: the matrices were made by `stored` for this case.
        unsafe {
            #[rustfmt::skip]
            cblas_sgemm(case.layout, case.transpose[0], case.transpose[1], m, n, k, case.alpha, a.values.as_ptr(),
                stride(a), b.values.as_ptr(), stride(b), case.beta, c.values.as_mut_ptr(), stride(c));
        }
    }

    /// Whether a matrix lies in memory column by column, as it is used.
    fn by_columns(case: &Case, transpose: c_int) -> bool {
        (case.layout == COLUMN_MAJOR) != (transpose != NOT_TRANSPOSED)
    }

    fn stored(case: &Case, transpose: c_int, rows: usize, columns: usize, seed: u32) -> Matrix {
        if by_columns(case, transpose) {
            Matrix::new(columns, rows, 2, seed)
        } else {
            Matrix::new(rows, columns, 2, seed)
        }
    }

    fn used(case: &Case, transpose: c_int, matrix: &Matrix, row: usize, column: usize) -> f64 {
        f64::from(if by_columns(case, transpose) {
            matrix.at(column, row)
        } else {
            matrix.at(row, column)
        })
    }

    #[test]
    fn every_layout_and_transposition_is_computed_where_there_is_no_other_blas() {
        let _turn = TURN.lock().unwrap();
        for layout in [ROW_MAJOR, COLUMN_MAJOR] {
            for transpose_a in [NOT_TRANSPOSED, TRANSPOSED, CONJUGATED] {
                for transpose_b in [NOT_TRANSPOSED, TRANSPOSED] {
                    for shape in [[1, 9, 20], [9, 1, 20], [33, 40, 17]] {
                        let transpose = [transpose_a, transpose_b];
                        let case = Case {
                            layout,
                            transpose,
                            shape,
                            alpha: 2.0,
                            beta: -1.0,
                        };
                        let [m, n, k] = shape;
                        let (a, b) = (
                            stored(&case, transpose_a, m, k, 1),
                            stored(&case, transpose_b, k, n, 2),
                        );
                        let before = stored(&case, NOT_TRANSPOSED, m, n, 3);
                        let mut c = before.clone();
                        compute(&case, &a, &b, &mut c);
                        for row in 0..m {
                            for column in 0..n {
                                let product = |k| {
                                    used(&case, transpose_a, &a, row, k)
                                        * used(&case, transpose_b, &b, k, column)
                                };
                                let sum: f64 = (0..k).map(product).sum();
                                let wanted =
                                    2.0 * sum - used(&case, NOT_TRANSPOSED, &before, row, column);
                                let found = used(&case, NOT_TRANSPOSED, &c, row, column);
                                assert!(
                                    (found - wanted).abs() < 1e-4,
                                    "{layout} {transpose:?} {shape:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    fn row_major(shape: [usize; 3], alpha: f32, beta: f32) -> Case {
        Case {
            layout: ROW_MAJOR,
            transpose: [NOT_TRANSPOSED, TRANSPOSED],
            shape,
            alpha,
            beta,
        }
    }

    #[test]
    fn a_factor_of_zero_leaves_its_matrices_unread() {
        let nan = |rows, columns| Matrix {
            columns,
            stride: columns,
            values: vec![f32::NAN; rows * columns],
        };
        let mut c = nan(2, 3);
        compute(
            &row_major([2, 3, 4], 1.0, 0.0),
            &Matrix::new(2, 4, 0, 1),
            &Matrix::new(3, 4, 0, 2),
            &mut c,
        );
        assert!(c.values.iter().all(|value| value.is_finite()));

        for (shape, alpha) in [([2, 3, 4], 0.0), ([2, 3, 0], 1.0)] {
            for (beta, before, after) in [(0.0, f32::NAN, 0.0), (0.5, 8.0, 4.0)] {
                let mut c = Matrix {
                    columns: 3,
                    stride: 3,
                    values: vec![before; 6],
                };
                let unread = nan(3, 4);
                compute(&row_major(shape, alpha, beta), &unread, &unread, &mut c);
                assert_eq!(c.values, [after; 6]);
            }
        }
    }

    #[test]
    fn an_empty_product_touches_nothing() {
        for shape in [[0, 3, 4], [2, 0, 4]] {
            let mut c = Matrix::new(2, 3, 0, 3);
            let before = c.values.clone();
            compute(
                &row_major(shape, 1.0, 0.0),
                &Matrix::new(2, 4, 0, 1),
                &Matrix::new(3, 4, 0, 2),
                &mut c,
            );
            assert_eq!(c.values, before);
        }
    }

    static FORWARDED: AtomicUsize = AtomicUsize::new(0);

    #[rustfmt::skip]
    unsafe extern "C" fn counted(_: c_int, _: c_int, _: c_int, m: c_int, _: c_int, _: c_int, _: f32, _: *const f32,
        _: c_int, _: *const f32, _: c_int, _: f32, _: *mut f32, _: c_int) {
        FORWARDED.fetch_add(m as usize, Ordering::Relaxed);
    }

    #[test]
    fn products_of_many_rows_and_wrong_arguments_go_to_the_other_blas() {
        let _turn = TURN.lock().unwrap();
        // SAFETY: a function of this type, taken back below.
        unsafe { mirror_sd_set_sgemm(counted as *mut ()) };
        let (a, b) = (Matrix::new(33, 4, 0, 1), Matrix::new(3, 4, 0, 2));
        let mut c = Matrix::new(33, 3, 0, 3);
        let mut forwarded = |case: Case| {
            FORWARDED.store(0, Ordering::Relaxed);
            compute(&case, &a, &b, &mut c);
            FORWARDED.load(Ordering::Relaxed)
        };
        assert_eq!(forwarded(row_major([32, 3, 4], 1.0, 0.0)), 0);
        assert_eq!(forwarded(row_major([33, 3, 4], 1.0, 0.0)), 33);
        assert_eq!(forwarded(row_major([1, 3, 5], 1.0, 0.0)), 1); // rows of 5 that lie 4 apart
        assert_eq!(
            forwarded(Case {
                layout: 7,
                ..row_major([1, 3, 4], 1.0, 0.0)
            }),
            1
        );
        assert_eq!(
            forwarded(Case {
                transpose: [7, 7],
                ..row_major([1, 3, 4], 1.0, 0.0)
            }),
            1
        );
        // SAFETY: null.
        unsafe { mirror_sd_set_sgemm(ptr::null_mut()) };
    }
}
