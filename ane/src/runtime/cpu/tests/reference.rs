//! A plain evaluation of programs: one value after the other, in double precision within an operation.

use half::f16;

use super::{size, strides};
use crate::mil::graph::Program;
use crate::mil::operations::{
    BinaryFunction, Operation, QuantizedTensor, ReduceFunction, TensorData, UnaryFunction,
};

#[derive(Clone, Default)]
struct Array {
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Array {
    /// From a function of the place along each axis.
    fn of(shape: &[usize], value: impl Fn(&[usize]) -> f64) -> Self {
        let values = (0..size(shape)).map(|i| value(&places(i, shape))).collect();
        Self {
            shape: shape.into(),
            values,
        }
    }

    /// As [`Self::of`], rounded to half precision.
    fn rounded(shape: &[usize], value: impl Fn(&[usize]) -> f64) -> Self {
        Self::of(shape, |at| f16::from_f64(value(at)).to_f64())
    }

    /// The value at a place; axes are aligned at the last one and repeated where they have one value.
    fn at(&self, places: &[usize]) -> f64 {
        let missing = places.len() - self.shape.len();
        let axes = places[missing..]
            .iter()
            .zip(&self.shape)
            .zip(strides(&self.shape));
        self.values[axes
            .map(|((place, size), stride)| place % size * stride)
            .sum::<usize>()]
    }
}

fn places(index: usize, shape: &[usize]) -> Vec<usize> {
    strides(shape)
        .iter()
        .zip(shape)
        .map(|(stride, size)| index / stride % size)
        .collect()
}

/// The program's outputs.
pub(super) fn evaluate(program: &Program, inputs: &[Vec<f16>]) -> Vec<Vec<f16>> {
    let mut arrays = vec![Array::default(); program.values().len()];
    for (id, values) in program.inputs.iter().zip(inputs) {
        arrays[id.index()] = Array {
            shape: program.value(*id).tensor_type.shape.clone(),
            values: values.iter().map(|value| value.to_f64()).collect(),
        };
    }
    for node in &program.nodes {
        let operands: Vec<_> = node
            .operation
            .operands()
            .iter()
            .map(|id| &arrays[id.index()])
            .collect();
        let mut start = 0;
        let mut results = vec![];
        for id in &node.outputs {
            let shape = &program.value(*id).tensor_type.shape;
            results.push(result(&node.operation, &operands, shape, start));
            if let Operation::Split { axis, .. } = node.operation {
                start += shape[axis];
            }
        }
        for (id, result) in node.outputs.iter().zip(results) {
            arrays[id.index()] = result;
        }
    }
    let outputs = program.outputs.iter().map(|id| &arrays[id.index()]);
    outputs
        .map(|array| {
            array
                .values
                .iter()
                .map(|value| f16::from_f64(*value))
                .collect()
        })
        .collect()
}

/// An output of an operation; one of a split begins at `start`.
fn result(operation: &Operation, operands: &[&Array], shape: &[usize], start: usize) -> Array {
    match operation {
        Operation::Const(tensor) => {
            let TensorData::Fp16(values) = &tensor.data else {
                panic!("not a number")
            };
            Array {
                shape: shape.into(),
                values: values.iter().map(|v| v.to_f64()).collect(),
            }
        }
        Operation::ConstexprAffineDequantize(weight) => {
            let strides = strides(shape);
            Array::rounded(shape, |at| {
                let index: usize = at
                    .iter()
                    .zip(&strides)
                    .map(|(at, stride)| at * stride)
                    .sum();
                let steps =
                    f64::from(weight.values[index]) - f64::from(QuantizedTensor::ZERO_POINT);
                steps * weight.scales[at[0]].to_f64()
            })
        }
        Operation::Conv { .. } => {
            let (x, weight) = (operands[0], operands[1]);
            let (inputs, columns) = (x.shape[1], x.shape[3]);
            Array::rounded(shape, |at| {
                let weights = &weight.values[at[1] * inputs..][..inputs];
                let product = |(i, weight): (usize, &f64)| weight * x.values[i * columns + at[3]];
                weights.iter().enumerate().map(product).sum()
            })
        }
        Operation::Matmul { transpose_x, .. } => {
            let (x, y) = (operands[0], operands[1]);
            let [inner, columns] = y.shape[shape.len() - 2..] else {
                panic!("two axes")
            };
            let rows = shape[shape.len() - 2];
            let leading = strides(&shape[..shape.len() - 2]);
            let (x_step, x_row) = if *transpose_x { (rows, 1) } else { (1, inner) };
            Array::rounded(shape, |at| {
                let (matrix, &[row, column]) = at.split_last_chunk().unwrap();
                let matrix: usize = matrix
                    .iter()
                    .zip(&leading)
                    .map(|(at, step)| at * step)
                    .sum();
                let x = &x.values[matrix * rows * inner + row * x_row..];
                let y = &y.values[matrix * inner * columns + column..];
                (0..inner).map(|k| x[k * x_step] * y[k * columns]).sum()
            })
        }
        Operation::Binary { function, .. } => Array::rounded(shape, |at| {
            let (x, y) = (operands[0].at(at), operands[1].at(at));
            match function {
                BinaryFunction::Add => x + y,
                BinaryFunction::Sub => x - y,
                BinaryFunction::Mul => x * y,
                BinaryFunction::RealDiv => x / y,
                BinaryFunction::Pow => x.powf(y),
            }
        }),
        Operation::Unary { function, .. } => Array::rounded(shape, |at| {
            let x = operands[0].at(at);
            match function {
                UnaryFunction::Abs => x.abs(),
                UnaryFunction::Silu => x / (1.0 + (-x).exp()),
            }
        }),
        Operation::Reduce { function, axis, .. } => Array::rounded(shape, |at| {
            let values = along(operands[0], at, *axis);
            match function {
                ReduceFunction::Mean => values.iter().sum::<f64>() / values.len() as f64,
                ReduceFunction::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            }
        }),
        Operation::Softmax { axis, .. } => {
            let mut sums_at = shape.to_vec();
            sums_at[*axis] = 1;
            let largest = Array::of(&sums_at, |at| {
                along(operands[0], at, *axis)
                    .into_iter()
                    .fold(f64::NEG_INFINITY, f64::max)
            });
            let sums = Array::of(&sums_at, |at| {
                let values = along(operands[0], at, *axis).into_iter();
                values.map(|value| (value - largest.at(at)).exp()).sum()
            });
            Array::rounded(shape, |at| {
                (operands[0].at(at) - largest.at(at)).exp() / sums.at(at)
            })
        }
        Operation::Reshape { .. } => Array {
            shape: shape.into(),
            values: operands[0].values.clone(),
        },
        Operation::Split { axis, .. } => Array::rounded(shape, |at| {
            let mut at = at.to_vec();
            at[*axis] += start;
            operands[0].at(&at)
        }),
        Operation::Concat { axis, .. } => Array::rounded(shape, |at| {
            let mut at = at.to_vec();
            let mut parts = operands.iter();
            let mut part = parts.next().unwrap();
            while at[*axis] >= part.shape[*axis] {
                at[*axis] -= part.shape[*axis];
                part = parts.next().unwrap();
            }
            part.at(&at)
        }),
    }
}

fn along(array: &Array, at: &[usize], axis: usize) -> Vec<f64> {
    let mut at = at.to_vec();
    let value = |i| {
        at[axis] = i;
        array.at(&at)
    };
    (0..array.shape[axis]).map(value).collect()
}
