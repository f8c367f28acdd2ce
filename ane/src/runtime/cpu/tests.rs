//! Every operation against a plain scalar evaluation, and what must not change a result.

use half::f16;

use super::half_lanes::{HalfLanes, MOST_LANES, exp};
use super::launch::{Kernel, launch};
use super::{CpuRuntime, InstructionSet};
use crate::buffer::{Elements, ElementsMut, View, ViewMut};
use crate::mil::graph::{GraphError, Program, ProgramBuilder, ValueId};
use crate::mil::operations::{
    BinaryFunction, Operation, QuantizedTensor, ReduceFunction, Tensor, UnaryFunction,
};
use crate::runtime::{LoadedProgram, Runtime, RuntimeError};
use reference::evaluate;

mod reference;

/// Numbers that look random.
struct Numbers(u32);

impl Numbers {
    /// From `low` to `high`, evenly.
    fn halves(&mut self, count: usize, low: f32, high: f32) -> Vec<f16> {
        (0..count)
            .map(|_| f16::from_f32(low + self.unit() * (high - low)))
            .collect()
    }

    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / (1 << 24) as f32
    }
}

fn program(build: impl FnOnce(&mut ProgramBuilder) -> Result<Vec<ValueId>, GraphError>) -> Program {
    let mut builder = ProgramBuilder::new("tested");
    let outputs = build(&mut builder).unwrap();
    let names: Vec<_> = (0..outputs.len()).map(|i| format!("output{i}")).collect();
    let named: Vec<_> = names.iter().map(String::as_str).zip(outputs).collect();
    builder.finish(&named).unwrap()
}

fn size(shape: &[usize]) -> usize {
    shape.iter().product()
}

fn strides(shape: &[usize]) -> Vec<usize> {
    (1..=shape.len()).map(|axis| size(&shape[axis..])).collect()
}

/// Values for the inputs of a program.
fn inputs(program: &Program, low: f32, high: f32) -> Vec<Vec<f16>> {
    let mut numbers = Numbers(7);
    let count = |id: &ValueId| size(&program.value(*id).tensor_type.shape);
    program
        .inputs
        .iter()
        .map(|id| numbers.halves(count(id), low, high))
        .collect()
}

fn load(program: &Program, set: InstructionSet, threads: usize) -> Box<dyn LoadedProgram> {
    CpuRuntime::with_instructions(threads, set)
        .load(program)
        .unwrap()
}

fn run(loaded: &mut dyn LoadedProgram, inputs: &[Vec<f16>]) -> Vec<Vec<f16>> {
    let (ports, output_ports) = (loaded.inputs().to_vec(), loaded.outputs().to_vec());
    let input_strides: Vec<_> = ports.iter().map(|port| strides(&port.shape)).collect();
    let output_strides: Vec<_> = output_ports
        .iter()
        .map(|port| strides(&port.shape))
        .collect();
    let views: Vec<_> = (0..ports.len())
        .map(|i| {
            View::new(
                Elements::Fp16(&inputs[i]),
                &ports[i].shape,
                &input_strides[i],
            )
            .unwrap()
        })
        .collect();
    let mut outputs: Vec<_> = output_ports
        .iter()
        .map(|port| vec![f16::NAN; size(&port.shape)])
        .collect();
    let mut output_views: Vec<_> = outputs
        .iter_mut()
        .zip(output_ports.iter().zip(&output_strides))
        .map(|(output, (port, strides))| {
            ViewMut::new(ElementsMut::Fp16(output), &port.shape, strides).unwrap()
        })
        .collect();
    loaded.run(&views, &mut output_views).unwrap();
    outputs
}

/// How many numbers of half precision lie between two, and one.
fn distance(a: f16, b: f16) -> u32 {
    let place = |value: f16| {
        let bits = i32::from(value.to_bits());
        if bits & 0x8000 == 0 {
            bits
        } else {
            0x8000 - bits
        }
    };
    if a.is_nan() || b.is_nan() {
        return u32::from(a.is_nan() != b.is_nan()) * u32::MAX;
    }
    place(a).abs_diff(place(b))
}

fn assert_close(got: &[Vec<f16>], expected: &[Vec<f16>], what: &str) {
    for (output, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.len(), expected.len());
        for (i, (a, b)) in got.iter().zip(expected).enumerate() {
            assert!(
                distance(*a, *b) <= 1,
                "{what}, output {output} at {i}: {a} instead of {b}"
            );
        }
    }
}

/// With every instruction set, two threads, and twice, so that what a run leaves behind would show.
fn check(program: &Program, low: f32, high: f32) {
    let inputs = inputs(program, low, high);
    let expected = evaluate(program, &inputs);
    for set in InstructionSet::present() {
        let mut loaded = load(program, set, 2);
        for time in ["first", "second"] {
            assert_close(
                &run(&mut *loaded, &inputs),
                &expected,
                &format!("{set:?}, {time} run"),
            );
        }
    }
}

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

fn conv_program(weight: Operation, inputs: usize, columns: usize) -> Program {
    program(|b| {
        let x = b.input("x", &[1, inputs, 1, columns])?;
        let weight = b.add(weight)?;
        Ok(vec![b.add(Operation::Conv { x, weight })?])
    })
}

fn half_weight(outputs: usize, inputs: usize) -> Operation {
    let values = Numbers(3).halves(outputs * inputs, -0.2, 1.0);
    Operation::Const(Tensor::fp16(&[outputs, inputs, 1, 1], values))
}

fn byte_weight(outputs: usize, inputs: usize, scales: Vec<f16>) -> Operation {
    let mut numbers = Numbers(5);
    let values = (0..outputs * inputs).map(|_| (90.0 + numbers.unit() * 164.0) as u8);
    Operation::ConstexprAffineDequantize(QuantizedTensor {
        shape: vec![outputs, inputs, 1, 1],
        values: values.collect(),
        scales: scales.into(),
    })
}

#[test]
fn convolutions_of_every_size() {
    for (outputs, inputs) in [(1, 1), (23, 5), (24, 128), (25, 129), (49, 300)] {
        for columns in [1, 5, 16, 48, 64, 81] {
            let scales = Numbers(9).halves(outputs, 0.001, 0.02);
            for weight in [
                half_weight(outputs, inputs),
                byte_weight(outputs, inputs, scales),
            ] {
                check(&conv_program(weight, inputs, columns), 0.0, 1.0);
            }
        }
    }
}

/// Scales that the kernel does not take: the weight is then kept in half precision.
#[test]
fn convolutions_with_unusual_scales() {
    for scale in [0.0, 1e-6, -0.01, 300.0] {
        check(
            &conv_program(byte_weight(25, 7, vec![f16::from_f32(scale); 25]), 7, 16),
            0.0,
            1.0,
        );
    }
}

/// One input channel that is 1 shows the weights themselves: each value with each mantissa of a scale.
#[test]
fn weights_of_8_bits_are_rounded_as_half_precision() {
    for (exponent, sign) in [(1, 0), (5, 1), (12, 0), (15, 1)] {
        for mantissa in (0..1024).step_by(7).chain([1, 1022, 1023]) {
            let scale = f16::from_bits(sign << 15 | exponent << 10 | mantissa);
            let weight = QuantizedTensor {
                shape: vec![255, 1, 1, 1],
                values: (0..255).collect(),
                scales: vec![scale; 255].into(),
            };
            let program = conv_program(Operation::ConstexprAffineDequantize(weight), 1, 1);
            for set in InstructionSet::present() {
                let got = run(&mut *load(&program, set, 1), &[vec![f16::ONE]]);
                for (value, got) in got[0].iter().enumerate() {
                    let expected = f16::from_f32((value as f32 - 127.0) * scale.to_f32());
                    assert_eq!(*got, expected, "{value} times {scale}, {set:?}");
                }
            }
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

struct AttentionShape {
    heads: usize,
    head_dim: usize,
    group: usize,
    width: usize,
    context: usize,
    boost: f32,
}

/// Attention as layers have it. What `shown` says becomes an output, which keeps it from being fused.
fn attention_program(shape: &AttentionShape, shown: bool) -> Program {
    let AttentionShape {
        heads,
        head_dim,
        group,
        width,
        context,
        boost,
    } = *shape;
    program(|b| {
        let keys = b.input("context_keys", &[1, heads, head_dim, context])?;
        let values = b.input("context_values", &[1, heads, head_dim, context])?;
        let key = b.input("key", &[1, heads, head_dim, width])?;
        let value = b.input("value", &[1, heads, head_dim, width])?;
        let queries = b.input("queries", &[1, heads, head_dim, group * width])?;
        let mask = b.input("mask", &[1, 1, context + width, width])?;
        let keys = b.add(Operation::Concat {
            values: vec![keys, key],
            axis: 3,
        })?;
        let values = b.add(Operation::Concat {
            values: vec![values, value],
            axis: 3,
        })?;
        let product = b.add(Operation::Matmul {
            x: keys,
            y: queries,
            transpose_x: true,
        })?;
        let mask = match group {
            1 => mask,
            _ => b.add(Operation::Concat {
                values: vec![mask; group],
                axis: 3,
            })?,
        };
        let scores = b.binary(BinaryFunction::Add, product, mask)?;
        let softmax = b.add(Operation::Softmax { x: scores, axis: 2 })?;
        let probabilities = match boost {
            1.0 => softmax,
            _ => b.binary_scalar(BinaryFunction::Mul, softmax, boost)?,
        };
        let out = b.add(Operation::Matmul {
            x: values,
            y: probabilities,
            transpose_x: false,
        })?;
        Ok(if shown {
            vec![out, product, scores, softmax]
        } else {
            vec![out]
        })
    })
}

const ATTENTIONS: [AttentionShape; 5] = [
    AttentionShape {
        heads: 3,
        head_dim: 64,
        group: 3,
        width: 16,
        context: 100,
        boost: 1.0,
    },
    AttentionShape {
        heads: 2,
        head_dim: 20,
        group: 2,
        width: 64,
        context: 60,
        boost: 64.0,
    },
    AttentionShape {
        heads: 1,
        head_dim: 128,
        group: 1,
        width: 32,
        context: 80,
        boost: 1.0,
    },
    AttentionShape {
        heads: 2,
        head_dim: 64,
        group: 4,
        width: 16,
        context: 33,
        boost: 3.0,
    },
    AttentionShape {
        heads: 1,
        head_dim: 7,
        group: 3,
        width: 5,
        context: 9,
        boost: 2.0,
    },
];

/// Inputs of attention with half of the context and some of the block masked.
fn attention_inputs(program: &Program) -> Vec<Vec<f16>> {
    let mut values = inputs(program, -1.0, 2.0);
    let mask = values.last_mut().unwrap();
    for (i, value) in mask.iter_mut().enumerate() {
        *value = f16::from_f32(if i % 7 < 3 { -30000.0 } else { 0.0 });
    }
    values
}

#[test]
fn attention_computes_what_its_operations_do() {
    for shape in &ATTENTIONS {
        let (fused, single) = (
            attention_program(shape, false),
            attention_program(shape, true),
        );
        let inputs = attention_inputs(&fused);
        let expected = evaluate(&fused, &inputs);
        for set in InstructionSet::present() {
            let got = run(&mut *load(&fused, set, 2), &inputs);
            let one_by_one = run(&mut *load(&single, set, 2), &inputs);
            assert_eq!(got[0], one_by_one[0], "{set:?}: the same bits");
            let (mut errors, mut sizes) = (0.0, 0.0);
            for (got, expected) in got[0].iter().zip(&expected[0]) {
                errors += (got.to_f64() - expected.to_f64()).powi(2);
                sizes += expected.to_f64().powi(2);
            }
            let error = (errors / sizes).sqrt();
            assert!(error < 1e-3, "{set:?}: {error}"); // operations between differ by a unit
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for program in [
        attention_program(&ATTENTIONS[0], false),
        conv_program(half_weight(100, 300), 300, 130),
        conv_program(
            byte_weight(100, 300, vec![f16::from_f32(0.01); 100]),
            300,
            64,
        ),
        program(|b| {
            let x = b.input("x", &[1, 600, 2, 130])?;
            let squares = b.binary(BinaryFunction::Mul, x, x)?;
            Ok(vec![b.add(Operation::Softmax {
                x: squares,
                axis: 1,
            })?])
        }),
    ] {
        let inputs = inputs(&program, -1.0, 1.0);
        for set in InstructionSet::present() {
            let one = run(&mut *load(&program, set, 1), &inputs);
            for threads in [2, 3] {
                assert_eq!(
                    run(&mut *load(&program, set, threads), &inputs),
                    one,
                    "{threads}"
                );
            }
        }
    }
}

#[test]
fn threads_can_be_set_after_loading() {
    let runtime = CpuRuntime::new(1);
    let program = attention_program(&ATTENTIONS[0], false);
    let inputs = attention_inputs(&program);
    let mut loaded = runtime.load(&program).unwrap();
    let one = run(&mut *loaded, &inputs);
    runtime.set_threads(3);
    assert_eq!(run(&mut *loaded, &inputs), one);
}

/// A column has the same bits beside any others, and whatever stands in those.
#[test]
fn columns_do_not_depend_on_each_other() {
    for weight in [
        half_weight(50, 200),
        byte_weight(50, 200, vec![f16::from_f32(0.01); 50]),
    ] {
        let wide = conv_program(weight.clone(), 200, 64);
        let narrow = conv_program(weight, 200, 16);
        let mut columns = inputs(&wide, -1.0, 1.0);
        let few = vec![
            (0..200)
                .flat_map(|row| columns[0][row * 64..][..16].to_vec())
                .collect(),
        ];
        for set in InstructionSet::present() {
            let alone = run(&mut *load(&narrow, set, 1), &few);
            for row in 0..200 {
                columns[0][row * 64 + 16..][..48].fill(f16::NAN);
            }
            let beside = run(&mut *load(&wide, set, 1), &columns);
            for row in 0..50 {
                assert_eq!(
                    beside[0][row * 64..][..16],
                    alone[0][row * 16..][..16],
                    "{set:?}"
                );
            }
        }
    }
}

/// Rows of the caller's buffers with gaps, as surfaces have them, full of NaN.
#[test]
fn what_lies_between_rows_is_not_read() {
    const GAP: usize = 24;
    let program = attention_program(&ATTENTIONS[0], false);
    let dense = attention_inputs(&program);
    let mut loaded = load(&program, InstructionSet::present()[0], 1);
    let expected = run(&mut *loaded, &dense);
    let ports = loaded.inputs().to_vec();
    let mut spread = vec![];
    for (values, port) in dense.iter().zip(&ports) {
        let columns = port.shape[3];
        let rows = values.chunks_exact(columns);
        spread.push(
            rows.flat_map(|row| [row, &[f16::NAN; GAP]].concat())
                .collect::<Vec<_>>(),
        );
    }
    let strides: Vec<[usize; 4]> = ports
        .iter()
        .map(|port| {
            let row = port.shape[3] + GAP;
            [
                port.shape[1] * port.shape[2] * row,
                port.shape[2] * row,
                row,
                1,
            ]
        })
        .collect();
    let singles: Vec<Vec<f32>> = spread
        .iter()
        .map(|values| values.iter().map(|value| value.to_f32()).collect())
        .collect();
    for single in [false, true] {
        let views: Vec<_> = (0..ports.len())
            .map(|i| {
                let elements = match single {
                    true => Elements::Fp32(&singles[i]),
                    false => Elements::Fp16(&spread[i]),
                };
                View::new(elements, &ports[i].shape, &strides[i]).unwrap()
            })
            .collect();
        let shape = loaded.outputs()[0].shape.clone();
        let row = shape[3] + GAP;
        let out_strides = [shape[1] * shape[2] * row, shape[2] * row, row, 1];
        let mut out = vec![f32::NAN; out_strides[0]];
        let elements = ElementsMut::Fp32(&mut out);
        let view = ViewMut::new(elements, &shape, &out_strides).unwrap();
        loaded.run(&views, &mut [view]).unwrap();
        for (row, expected) in out
            .chunks_exact(row)
            .zip(expected[0].chunks_exact(shape[3]))
        {
            assert!(
                row[..shape[3]]
                    .iter()
                    .zip(expected)
                    .all(|(a, b)| *a == b.to_f32())
            );
            assert!(
                row[shape[3]..].iter().all(|value| value.is_nan()),
                "written between rows"
            );
        }
    }
}

#[test]
fn views_that_do_not_fit_the_ports_are_errors() {
    let program = conv_program(half_weight(3, 5), 5, 16);
    let mut loaded = load(&program, InstructionSet::Portable, 1);
    assert_eq!(
        (loaded.name(), loaded.inputs()[0].name.as_str()),
        ("tested", "x")
    );
    let error = loaded.run(&[], &mut []).unwrap_err();
    assert_eq!(error.to_string(), "The program has 1 inputs, not 0");
    let values = vec![f16::ONE; 80];
    let view = View::new(Elements::Fp16(&values), &[1, 5, 16, 1], &[80, 16, 1, 1]).unwrap();
    let error = loaded.run(&[view], &mut []).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x must have the shape [1, 5, 1, 16], not [1, 5, 16, 1]"
    );
}

#[test]
fn a_weight_that_is_no_constant_cannot_be_loaded() {
    let program = program(|b| {
        let x = b.input("x", &[1, 5, 1, 16])?;
        let weight = b.input("weight", &[3, 5, 1, 1])?;
        Ok(vec![b.add(Operation::Conv { x, weight })?])
    });
    let error = CpuRuntime::new(1).load(&program).err().unwrap();
    assert!(matches!(error, RuntimeError::Unsupported { .. }), "{error}");
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
