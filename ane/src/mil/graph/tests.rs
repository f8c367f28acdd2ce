//! Shapes that follow, and errors that name what does not fit.

use half::f16;

use super::{DataType, GraphError, Program, ProgramBuilder, ValueId};
use crate::mil::operations::{
    BinaryFunction, Operation, QuantizedTensor, ReduceFunction, Tensor, TensorData, UnaryFunction,
};

/// The shape of what an operation makes of inputs of these shapes.
fn shape_of(
    inputs: &[&[usize]],
    operation: impl Fn(&[ValueId]) -> Operation,
) -> Result<Vec<usize>, GraphError> {
    let mut builder = ProgramBuilder::new("test");
    let ids: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(i, shape)| builder.input(&format!("in{i}"), shape).unwrap())
        .collect();
    let output = builder.add(operation(&ids))?;
    Ok(builder.shape(output).to_vec())
}

fn add(ids: &[ValueId]) -> Operation {
    Operation::Binary {
        function: BinaryFunction::Add,
        x: ids[0],
        y: ids[1],
    }
}

fn conv(ids: &[ValueId]) -> Operation {
    Operation::Conv {
        x: ids[0],
        weight: ids[1],
    }
}

fn matmul(transpose_x: bool) -> impl Fn(&[ValueId]) -> Operation {
    move |ids| Operation::Matmul {
        x: ids[0],
        y: ids[1],
        transpose_x,
    }
}

#[test]
fn shapes_follow_from_operands() {
    for (inputs, operation, expected) in [
        (
            vec![&[1, 8, 1, 4][..], &[1, 1, 1, 4]],
            &add as &dyn Fn(&[ValueId]) -> Operation,
            vec![1, 8, 1, 4],
        ),
        (vec![&[3, 1], &[2, 1, 5]], &add, vec![2, 3, 5]),
        (vec![&[1, 8, 1, 4], &[6, 8, 1, 1]], &conv, vec![1, 6, 1, 4]),
        (
            vec![&[1, 2, 3, 4], &[1, 2, 4, 5]],
            &matmul(false),
            vec![1, 2, 3, 5],
        ),
        (
            vec![&[1, 2, 4, 3], &[1, 2, 4, 5]],
            &matmul(true),
            vec![1, 2, 3, 5],
        ),
        (
            vec![&[1, 8, 1, 4]],
            &|ids| Operation::Reduce {
                function: ReduceFunction::Max,
                x: ids[0],
                axis: 1,
            },
            vec![1, 1, 1, 4],
        ),
        (
            vec![&[2, 3]],
            &|ids| Operation::Softmax { x: ids[0], axis: 1 },
            vec![2, 3],
        ),
        (
            vec![&[2, 3]],
            &|ids| Operation::Unary {
                function: UnaryFunction::Silu,
                x: ids[0],
            },
            vec![2, 3],
        ),
        (
            vec![&[2, 6]],
            &|ids| Operation::Reshape {
                x: ids[0],
                shape: vec![4, 3],
            },
            vec![4, 3],
        ),
        (
            vec![&[2, 6], &[2, 1]],
            &|ids| Operation::Concat {
                values: ids.to_vec(),
                axis: 1,
            },
            vec![2, 7],
        ),
    ] {
        assert_eq!(
            shape_of(&inputs, operation).unwrap(),
            expected,
            "{inputs:?}"
        );
    }
}

#[test]
fn what_does_not_fit_is_named_with_its_shapes() {
    for (inputs, operation, problem) in [
        (
            vec![&[1, 8][..], &[1, 4]],
            &add as &dyn Fn(&[ValueId]) -> Operation,
            "sizes 8 and 4 of axis 1",
        ),
        (
            vec![&[1, 8, 1, 4], &[6, 7, 1, 1]],
            &conv,
            "x has 8 channels, the weight 7",
        ),
        (
            vec![&[1, 8, 2, 4], &[6, 8, 1, 1]],
            &conv,
            "takes x [1, I, 1, S]",
        ),
        (vec![&[2, 3, 4], &[3, 4, 5]], &matmul(false), "leading axes"),
        (
            vec![&[3, 4], &[5, 4]],
            &matmul(false),
            "over 4 values, y over 5",
        ),
        (vec![&[3], &[3]], &matmul(true), "two axes or more"),
        (
            vec![&[2, 3]],
            &|ids| Operation::Softmax { x: ids[0], axis: 2 },
            "no axis 2",
        ),
        (
            vec![&[2, 3]],
            &|ids| Operation::Reshape {
                x: ids[0],
                shape: vec![4],
            },
            "number of elements",
        ),
        (
            vec![&[2, 3]],
            &|ids| Operation::Reshape {
                x: ids[0],
                shape: vec![usize::MAX, 2],
            },
            "number of elements",
        ),
        (
            vec![&[2, 3]],
            &|ids| Operation::Split {
                x: ids[0],
                axis: 1,
                sizes: vec![1, 1],
            },
            "do not make up the 3",
        ),
        (
            vec![&[2, 3], &[3, 3]],
            &|ids| Operation::Concat {
                values: ids.to_vec(),
                axis: 1,
            },
            "only axis 1",
        ),
    ] {
        let error = shape_of(&inputs, operation).unwrap_err();
        assert_eq!(error.shapes, inputs, "{error}");
        let message = error.to_string();
        assert!(
            message.contains(problem) && message.contains(error.operation),
            "{message}"
        );
    }
}

#[test]
fn a_split_yields_a_value_a_piece() {
    let mut builder = ProgramBuilder::new("test");
    let x = builder.input("x", &[2, 5]).unwrap();
    let pieces = builder
        .add_all(Operation::Split {
            x,
            axis: 1,
            sizes: vec![2, 3],
        })
        .unwrap();
    let program = builder.finish(&[("first", pieces[0])]).unwrap();
    let of = |i: usize| program.value(pieces[i]);
    assert_eq!(
        (
            of(0).tensor_type.shape.as_slice(),
            of(1).tensor_type.shape.as_slice()
        ),
        (&[2, 2][..], &[2, 3][..])
    );
    assert_eq!(
        (of(0).name.as_str(), of(1).name.as_str()),
        ("first", "main_split_part1")
    );
}

#[test]
fn weights_hold_as_many_elements_as_their_shape_says() {
    let mut builder = ProgramBuilder::new("test");
    let short = Tensor::fp16(&[2, 2], vec![f16::ONE; 3]);
    let huge = Tensor::fp16(&[usize::MAX, 2], vec![f16::ONE; 3]);
    for tensor in [short, huge] {
        assert!(builder.add(Operation::Const(tensor)).is_err());
    }
    let quantized = |values: usize, scales: usize| {
        Operation::ConstexprAffineDequantize(QuantizedTensor {
            shape: vec![2, 3, 1, 1],
            values: vec![127; values].into(),
            scales: vec![f16::ONE; scales].into(),
        })
    };
    assert!(builder.add(quantized(5, 2)).is_err());
    assert!(builder.add(quantized(6, 3)).is_err());
    let id = builder.add(quantized(6, 2)).unwrap();
    assert_eq!(builder.shape(id), [2, 3, 1, 1]);
}

#[test]
fn only_half_precision_is_computed_with() {
    let mut builder = ProgramBuilder::new("test");
    let data = TensorData::Int32(vec![1].into());
    let number = builder
        .add(Operation::Const(Tensor {
            shape: vec![],
            data,
        }))
        .unwrap();
    let error = builder.unary(UnaryFunction::Abs, number).unwrap_err();
    assert!(
        error.to_string().contains("main_const is not fp16"),
        "{error}"
    );
}

#[test]
fn names_are_unique_and_well_formed() {
    let mut builder = ProgramBuilder::new("test");
    let x = builder.input("x", &[1]).unwrap();
    assert!(builder.input("x", &[1]).is_err());
    assert!(builder.input("empty", &[1, 0]).is_err());
    for name in ["", "1x", "a-b", "a b", "ä", "x_0"] {
        assert!(builder.input(name, &[1]).is_err(), "{name}");
    }
    builder.enter("norm");
    builder.unary(UnaryFunction::Abs, x).unwrap();
    let last = builder.unary(UnaryFunction::Abs, x).unwrap();
    let program: Program = builder.finish(&[("out", last)]).unwrap();
    let names: Vec<_> = program
        .values()
        .iter()
        .map(|value| value.name.as_str())
        .collect();
    assert_eq!(names, ["x", "norm_abs", "out"]);
    assert_eq!(program.nodes[1].name, "out");
    assert_eq!(program.value(last).tensor_type.data_type, DataType::Fp16);
}
