//! Each operation against the reference.

use half::f16;

use super::*;

const SHAPES: [(&[usize], &[usize]); 8] = [
    (&[1, 37, 1, 16], &[1, 37, 1, 16]),
    (&[1, 37, 1, 21], &[1, 1, 1, 21]),
    (&[1, 5, 1, 64], &[1, 5, 1, 1]),
    (&[1, 3, 6, 40], &[1, 1, 6, 40]),
    (&[1, 3, 6, 40], &[1, 3, 1, 40]),
    (&[2, 3, 4, 5], &[3, 1, 1]),
    (&[1, 40, 1, 130], &[]),
    (&[1, 1, 1, 1], &[1, 4, 1, 1]),
];

#[test]
fn functions_of_two_tensors_with_every_way_of_repeating() {
    use BinaryFunction::{Add, Mul, Pow, RealDiv, Sub};
    for (x_shape, y_shape) in SHAPES {
        for function in [Add, Sub, Mul, RealDiv, Pow] {
            for swapped in [false, true] {
                let program = program(|b| {
                    let x = b.input("x", x_shape)?;
                    let y = if y_shape.is_empty() {
                        b.add(Operation::Const(Tensor::scalar(0.75)))?
                    } else {
                        b.input("y", y_shape)?
                    };
                    let (x, y) = if swapped { (y, x) } else { (x, y) };
                    Ok(vec![b.binary(function, x, y)?])
                });
                check(&program, 0.1, 4.0);
            }
        }
    }
}

#[test]
fn functions_of_one_tensor_over_the_range_of_half_precision() {
    for function in [UnaryFunction::Abs, UnaryFunction::Silu] {
        let program = program(|b| {
            let x = b.input("x", &[1 << 16])?;
            Ok(vec![b.unary(function, x)?])
        });
        let all = vec![(0..=u16::MAX).map(f16::from_bits).collect::<Vec<_>>()];
        let expected = evaluate(&program, &all);
        for set in InstructionSet::present() {
            let got = run(&mut *load(&program, set, 1), &all);
            assert_close(&got, &expected, &format!("{function:?} {set:?}"));
        }
    }
}

#[test]
fn what_is_taken_along_an_axis() {
    for shape in [
        [1, 576, 1, 16],
        [1, 3, 64, 48],
        [2, 5, 7, 3],
        [1, 2, 300, 21],
    ] {
        for axis in 0..4 {
            let program = program(|b| {
                let x = b.input("x", &shape)?;
                Ok(vec![
                    b.reduce(ReduceFunction::Mean, x, axis)?,
                    b.reduce(ReduceFunction::Max, x, axis)?,
                    b.add(Operation::Softmax { x, axis })?,
                ])
            });
            check(&program, -3.0, 9.0);
        }
    }
}

#[test]
fn products_of_two_results() {
    for (batch, rows, inner, columns) in [(1, 1, 1, 1), (3, 65, 64, 48), (2, 25, 130, 70)] {
        for transpose_x in [false, true] {
            let x_shape = if transpose_x {
                [1, batch, inner, rows]
            } else {
                [1, batch, rows, inner]
            };
            let program = program(|b| {
                let x = b.input("x", &x_shape)?;
                let y = b.input("y", &[1, batch, inner, columns])?;
                Ok(vec![b.add(Operation::Matmul { x, y, transpose_x })?])
            });
            check(&program, -0.2, 1.0);
        }
    }
}

#[test]
fn pieces_are_cut_and_joined_on_every_axis() {
    for axis in 0..4 {
        let program = program(|b| {
            let mut shape = [2, 3, 4, 5];
            shape[axis] = 7;
            let x = b.input("x", &shape)?;
            let parts = b.add_all(Operation::Split {
                x,
                axis,
                sizes: vec![1, 4, 2],
            })?;
            let negative = b.binary_scalar(BinaryFunction::Mul, parts[1], -1.0)?;
            let values = vec![parts[2], negative, parts[0], parts[2]];
            let joined = b.add(Operation::Concat { values, axis })?;
            let flat = b.add(Operation::Reshape {
                x: parts[1],
                shape: vec![size(&shape) / 7 * 4],
            })?;
            let twice = b.binary(BinaryFunction::Add, flat, flat)?;
            let silu = b.unary(UnaryFunction::Silu, joined)?;
            Ok(vec![parts[0], parts[2], joined, twice, silu, x])
        });
        check(&program, -1.0, 1.0);
    }
}

/// A chain whose results could share memory.
#[test]
fn memory_is_used_again_only_when_nobody_needs_what_is_in_it() {
    let program = program(|b| {
        let x = b.input("x", &[1, 48, 1, 32])?;
        let mut kept = vec![x];
        for round in 0..6 {
            let last = kept[kept.len() - 1];
            let halves = b.add_all(Operation::Split {
                x: last,
                axis: 1,
                sizes: vec![24, 24],
            })?;
            let sum = b.binary(BinaryFunction::Add, halves[0], halves[1])?;
            let largest = b.reduce(ReduceFunction::Max, sum, 1)?;
            let scaled = b.binary(BinaryFunction::RealDiv, last, largest)?;
            let old = b.binary(BinaryFunction::Add, scaled, kept[round / 2])?;
            kept.push(b.binary_scalar(BinaryFunction::Mul, old, 0.5)?);
        }
        Ok(vec![kept[6], kept[2]])
    });
    check(&program, 1.0, 2.0);
}

struct Exponential {
    from: *const f32,
    to: *mut f32,
}

impl Kernel for Exponential {
    #[inline(always)]
    unsafe fn run<V: HalfLanes>(&self) {
        for i in (0..MOST_LANES).step_by(V::LANES) {
            // SAFETY: there are `MOST_LANES` values.
            unsafe { exp(V::load(self.from.add(i))).store(self.to.add(i)) };
        }
    }
}

#[test]
fn exponentials_are_right_to_two_units_in_the_last_place() {
    let raised = |set, from: &[f32; MOST_LANES]| {
        let mut to = [0.0f32; MOST_LANES];
        // SAFETY: the set is present; both arrays have `MOST_LANES` values.
        unsafe {
            launch(
                set,
                &Exponential {
                    from: from.as_ptr(),
                    to: to.as_mut_ptr(),
                },
            )
        };
        to
    };
    for set in InstructionSet::present() {
        let mut numbers = Numbers(1);
        for _ in 0..2_000 {
            let from: [f32; MOST_LANES] = std::array::from_fn(|_| numbers.unit() * 175.0 - 87.0);
            for (x, got) in from.iter().zip(raised(set, &from)) {
                let exact = f64::from(*x).exp() as f32;
                let apart = got.to_bits().abs_diff(exact.to_bits());
                assert!(apart <= 2, "{set:?}: exp({x}) = {got}, not {exact}");
            }
        }
        let mut from = [0.0; MOST_LANES];
        from[..6].copy_from_slice(&[
            f32::INFINITY,
            89.0,
            -104.0,
            f32::NEG_INFINITY,
            f32::NAN,
            -0.0,
        ]);
        let to = raised(set, &from);
        assert_eq!(to[..4], [f32::INFINITY, f32::INFINITY, 0.0, 0.0], "{set:?}");
        assert!(to[4].is_nan() && to[5] == 1.0, "{set:?}");
    }
}
