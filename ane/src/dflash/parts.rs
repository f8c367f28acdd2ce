//! What the programs have in common: norms, linear layers, rotary embedding.

use super::weights::Linear;
use crate::mil::graph::{GraphError, ProgramBuilder, ValueId};
use crate::mil::operations::{BinaryFunction, Operation, ReduceFunction, Tensor, UnaryFunction};

use BinaryFunction::{Add, Mul, Pow, RealDiv, Sub};

/// Keeps the divisor of a norm above 0 where all channels are 0.
const LEAST_DIVISOR: f32 = 1.0 / 16384.0;
/// The largest channel before squaring. Small channels beside a large one keep normal squares, and the sum of all squares
/// stays in half precision even where it is added up in that.
const LARGEST_SQUARED: f32 = 4.0;

type Built = Result<ValueId, GraphError>;

/// RMS norm over `axis`: x / sqrt(mean(x^2) + eps) * weight, for any x of half precision.
///
/// Squares of more than 255 are infinite in half precision, so the channels are first divided by their largest:
/// with y = x / m it is y / sqrt(mean(y^2) + eps / m^2). `root_eps` is the root of eps, a scalar or one a column.
pub(super) fn norm(
    b: &mut ProgramBuilder,
    x: ValueId,
    axis: usize,
    weight: &Tensor,
    root_eps: ValueId,
) -> Built {
    let magnitudes = b.unary(UnaryFunction::Abs, x)?;
    let largest = b.reduce(ReduceFunction::Max, magnitudes, axis)?;
    let divisor = b.binary_scalar(Mul, largest, 1.0 / LARGEST_SQUARED)?;
    let divisor = b.binary_scalar(Add, divisor, LEAST_DIVISOR)?;
    let y = b.binary(RealDiv, x, divisor)?;
    let squares = b.binary(Mul, y, y)?;
    let mean = b.reduce(ReduceFunction::Mean, squares, axis)?;
    let root = b.binary(RealDiv, root_eps, divisor)?;
    let eps = b.binary(Mul, root, root)?;
    let sum = b.binary(Add, mean, eps)?;
    let inverse = b.binary_scalar(Pow, sum, -0.5)?;
    let normed = b.binary(Mul, y, inverse)?;
    let weight = b.add(Operation::Const(weight.clone()))?;
    b.binary(Mul, normed, weight)
}

/// A scalar.
pub(super) fn scalar(b: &mut ProgramBuilder, value: f32) -> Built {
    b.add(Operation::Const(Tensor::scalar(value)))
}

/// A linear layer over the channels of x [1, channels, 1, S].
pub(super) fn linear(b: &mut ProgramBuilder, x: ValueId, weights: &Linear) -> Built {
    if let [weight] = weights.as_slice() {
        return sum_of_convolutions(b, &[x], std::slice::from_ref(weight));
    }
    let channels = b.shape(x)[1];
    let most = channels.div_ceil(weights.len());
    let sizes = (0..channels)
        .step_by(most)
        .map(|first| most.min(channels - first))
        .collect();
    let pieces = b.add_all(Operation::Split { x, axis: 1, sizes })?;
    sum_of_convolutions(b, &pieces, weights)
}

/// x plus a bias, where there is one.
pub(super) fn biased(b: &mut ProgramBuilder, x: ValueId, bias: Option<&Tensor>) -> Built {
    let Some(bias) = bias else {
        return Ok(x);
    };
    let bias = b.add(Operation::Const(bias.clone()))?;
    b.binary(Add, x, bias)
}

/// The sum of a convolution for each of `inputs`.
pub(super) fn sum_of_convolutions(
    b: &mut ProgramBuilder,
    inputs: &[ValueId],
    weights: &[Operation],
) -> Built {
    let mut sum = None;
    for (x, weight) in inputs.iter().zip(weights) {
        let weight = b.add(weight.clone())?;
        let product = b.add(Operation::Conv { x: *x, weight })?;
        sum = Some(match sum {
            None => product,
            Some(sum) => b.binary(Add, sum, product)?,
        });
    }
    Ok(sum.expect("a linear layer has a weight"))
}

/// Split-half rotary embedding of x [1, heads, head dim, S] by tables [1, 1, head dim / 2, S].
pub(super) fn rotate(b: &mut ProgramBuilder, x: ValueId, cos: ValueId, sin: ValueId) -> Built {
    let half = b.shape(x)[2] / 2;
    let halves = b.add_all(Operation::Split {
        x,
        axis: 2,
        sizes: vec![half, half],
    })?;
    let (first, second) = (halves[0], halves[1]);
    let (first_cos, second_sin) = (b.binary(Mul, first, cos)?, b.binary(Mul, second, sin)?);
    let (second_cos, first_sin) = (b.binary(Mul, second, cos)?, b.binary(Mul, first, sin)?);
    let low = b.binary(Sub, first_cos, second_sin)?;
    let high = b.binary(Add, second_cos, first_sin)?;
    b.add(Operation::Concat {
        values: vec![low, high],
        axis: 2,
    })
}

/// The same columns (axis 3) `times` times.
pub(super) fn repeat_columns(b: &mut ProgramBuilder, x: ValueId, times: usize) -> Built {
    if times == 1 {
        return Ok(x);
    }
    b.add(Operation::Concat {
        values: vec![x; times],
        axis: 3,
    })
}

/// x times a factor.
pub(super) fn scaled(b: &mut ProgramBuilder, x: ValueId, factor: f32) -> Built {
    if factor == 1.0 {
        return Ok(x);
    }
    b.binary_scalar(Mul, x, factor)
}
