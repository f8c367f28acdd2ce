//! The types that come out of operations.

use super::graph::{DataType, TensorType, Value, ValueId};
use super::operations::{Operation, QuantizedTensor};

impl Operation {
    /// Types of its outputs, from those of its operands, which `values` holds.
    ///
    /// # Errors
    /// What does not fit, as half a sentence.
    pub(super) fn infer(&self, values: &[Value]) -> Result<Vec<TensorType>, String> {
        let of = |id: &ValueId| &values[id.index()].tensor_type;
        if !matches!(self, Self::Const(_)) {
            for id in self.operands() {
                check(of(&id).data_type == DataType::Fp16, || {
                    format!("{} is not fp16", values[id.index()].name)
                })?;
            }
        }
        let one = |shape: Vec<usize>| Ok(vec![TensorType::fp16(shape)]);
        match self {
            Self::Const(tensor) => {
                check(
                    element_count(&tensor.shape) == Some(tensor.elements()),
                    || {
                        format!(
                            "it holds {} elements, its shape another number",
                            tensor.elements()
                        )
                    },
                )?;
                Ok(vec![tensor.tensor_type()])
            }
            Self::ConstexprAffineDequantize(weight) => one(quantized_shape(weight)?),
            Self::Conv { x, weight } => one(conv_shape(&of(x).shape, &of(weight).shape)?),
            Self::Matmul { x, y, transpose_x } => {
                one(matmul_shape(&of(x).shape, &of(y).shape, *transpose_x)?)
            }
            Self::Binary { x, y, .. } => one(broadcast(&of(x).shape, &of(y).shape)?),
            Self::Unary { x, .. } => one(of(x).shape.clone()),
            Self::Reduce { x, axis, .. } => one(replaced(&of(x).shape, *axis, 1)?),
            Self::Softmax { x, axis } => {
                size(&of(x).shape, *axis)?;
                one(of(x).shape.clone())
            }
            Self::Reshape { x, shape } => {
                let wanted = element_count(shape);
                check(
                    wanted.is_some_and(|count| count > 0) && wanted == element_count(&of(x).shape),
                    || format!("the new shape {shape:?} has another number of elements"),
                )?;
                one(shape.clone())
            }
            Self::Split { x, axis, sizes } => split_types(&of(x).shape, *axis, sizes),
            Self::Concat {
                values: parts,
                axis,
            } => {
                let shapes: Vec<_> = parts.iter().map(|id| of(id).shape.as_slice()).collect();
                one(concat_shape(&shapes, *axis)?)
            }
        }
    }
}

fn check(sound: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    if sound { Ok(()) } else { Err(problem()) }
}

/// None where the number does not fit in a `usize`.
pub(crate) fn element_count(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |count, size| count.checked_mul(*size))
}

fn size(shape: &[usize], axis: usize) -> Result<usize, String> {
    shape
        .get(axis)
        .copied()
        .ok_or_else(|| format!("there is no axis {axis}"))
}

fn replaced(shape: &[usize], axis: usize, with: usize) -> Result<Vec<usize>, String> {
    size(shape, axis)?;
    let mut shape = shape.to_vec();
    shape[axis] = with;
    Ok(shape)
}

fn quantized_shape(weight: &QuantizedTensor) -> Result<Vec<usize>, String> {
    check(
        element_count(&weight.shape) == Some(weight.values.len()),
        || {
            format!(
                "it holds {} elements, its shape another number",
                weight.values.len()
            )
        },
    )?;
    let rows = size(&weight.shape, 0)?;
    check(weight.scales.len() == rows, || {
        format!("it has {} scales for {rows} rows", weight.scales.len())
    })?;
    Ok(weight.shape.clone())
}

fn conv_shape(x: &[usize], weight: &[usize]) -> Result<Vec<usize>, String> {
    let (&[1, channels, 1, columns], &[outputs, inputs, 1, 1]) = (x, weight) else {
        return Err("it takes x [1, I, 1, S] and a weight [O, I, 1, 1]".into());
    };
    check(channels == inputs, || {
        format!("x has {channels} channels, the weight {inputs}")
    })?;
    Ok(vec![1, outputs, 1, columns])
}

fn matmul_shape(x: &[usize], y: &[usize], transpose_x: bool) -> Result<Vec<usize>, String> {
    let (&[ref x_leading @ .., x_rows, x_columns], &[ref y_leading @ .., y_rows, y_columns]) =
        (x, y)
    else {
        return Err("it takes tensors of two axes or more".into());
    };
    check(x_leading == y_leading, || "the leading axes differ".into())?;
    let (rows, inner) = if transpose_x {
        (x_columns, x_rows)
    } else {
        (x_rows, x_columns)
    };
    check(inner == y_rows, || {
        format!("x is summed over {inner} values, y over {y_rows}")
    })?;
    Ok([x_leading, &[rows, y_columns]].concat())
}

fn broadcast(x: &[usize], y: &[usize]) -> Result<Vec<usize>, String> {
    let rank = x.len().max(y.len());
    let from_right =
        |shape: &[usize], i: usize| i.checked_sub(rank - shape.len()).map_or(1, |i| shape[i]);
    (0..rank)
        .map(|i| match (from_right(x, i), from_right(y, i)) {
            (a, b) if a == b || b == 1 => Ok(a),
            (1, b) => Ok(b),
            (a, b) => Err(format!("sizes {a} and {b} of axis {i} do not go together")),
        })
        .collect()
}

fn split_types(x: &[usize], axis: usize, sizes: &[usize]) -> Result<Vec<TensorType>, String> {
    let whole = size(x, axis)?;
    check(
        sizes.iter().all(|size| *size > 0) && sizes.iter().sum::<usize>() == whole,
        || format!("pieces {sizes:?} do not make up the {whole} of axis {axis}"),
    )?;
    sizes
        .iter()
        .map(|size| replaced(x, axis, *size).map(TensorType::fp16))
        .collect()
}

fn concat_shape(shapes: &[&[usize]], axis: usize) -> Result<Vec<usize>, String> {
    let first = shapes.first().ok_or("there is nothing to join")?;
    let mut whole = 0;
    for shape in shapes {
        whole += size(shape, axis)?;
        check(
            replaced(shape, axis, 0)? == replaced(first, axis, 0)?,
            || format!("only axis {axis} may differ"),
        )?;
    }
    replaced(first, axis, whole)
}
