//! The program of one layer: block rows attend to the cached context and to each other.

use super::config::DraftConfig;
use super::conv::{Conv, ConvWeights, Side};
use super::ingest::key_value;
use super::parts::{biased, linear, norm, repeat_columns, rotate, scalar, scaled};
use super::weights::LayerWeights;
use crate::mil::graph::{GraphError, Program, ProgramBuilder, ValueId};
use crate::mil::operations::{BinaryFunction, Operation, UnaryFunction};

/// From this many keys on, probabilities are raised before they meet the values: among many keys each is small, and
/// some Neural Engines lose small products.
const MANY_KEYS: usize = 1024;

struct Inputs {
    x: ValueId,
    keys: ValueId,
    values: ValueId,
    tables: [ValueId; 2],
    mask: ValueId,
    previous: Option<ValueId>,
}

/// `x` [1, hidden, 1, width], `context_keys` and `context_values` [1, kv heads, head dim, context], `cos` and `sin`
/// [1, 1, head dim / 2, width] and `mask` [1, 1, context + width, width] (keys, then queries; added to the scores: 0 where a
/// query may look, -30000 where not) to `y` [1, hidden, 1, width]; in the last layer to `hidden`, which is normed. In the second generation also
/// `previous` [1, 1, width, width]: 1 where the first column stands right before the second in a block, else 0.
///
/// Columns that stand for nothing must be finite.
///
/// # Errors
/// Weights that do not fit the config.
pub fn layer_program(
    config: &DraftConfig,
    weights: &LayerWeights,
    layer: usize,
    width: usize,
    context: usize,
) -> Result<Program, GraphError> {
    let mut b = ProgramBuilder::new(&format!("layer{layer}_w{width}_c{context}"));
    let cached = [1, config.num_key_value_heads, config.head_dim, context];
    let table = [1, 1, config.head_dim / 2, width];
    let inputs = Inputs {
        x: b.input("x", &[1, config.hidden_size, 1, width])?,
        keys: b.input("context_keys", &cached)?,
        values: b.input("context_values", &cached)?,
        tables: [b.input("cos", &table)?, b.input("sin", &table)?],
        mask: b.input("mask", &[1, 1, context + width, width])?,
        previous: match config.second {
            Some(_) => Some(b.input("previous", &[1, 1, width, width])?),
            None => None,
        },
    };
    let root_eps = scalar(&mut b, config.rms_norm_eps.sqrt())?;
    b.enter("input_norm");
    let rows = norm(&mut b, inputs.x, 1, &weights.input_norm, root_eps)?;
    let conv = convolution(
        &mut b,
        "attention_conv",
        weights.attention_conv.as_ref(),
        rows,
        &inputs,
    )?;
    let entering = one_side(&mut b, conv.as_ref(), Side::In, rows)?;
    let attended = attention(&mut b, config, weights, entering, &inputs)?;
    b.enter("attention_conv");
    let attended = one_side(&mut b, conv.as_ref(), Side::Out, attended)?;
    b.enter("attention_residual");
    let x = b.binary(BinaryFunction::Add, inputs.x, attended)?;
    b.enter("post_norm");
    let rows = norm(&mut b, x, 1, &weights.post_norm, root_eps)?;
    let conv = convolution(&mut b, "mlp_conv", weights.mlp_conv.as_ref(), rows, &inputs)?;
    let entering = one_side(&mut b, conv.as_ref(), Side::In, rows)?;
    let change = mlp(&mut b, weights, entering)?;
    b.enter("mlp_conv");
    let change = one_side(&mut b, conv.as_ref(), Side::Out, change)?;
    b.enter("mlp_residual");
    let y = b.binary(BinaryFunction::Add, x, change)?;
    let Some(final_norm) = &weights.final_norm else {
        return b.finish(&[("y", y)]);
    };
    b.enter("final_norm");
    let hidden = norm(&mut b, y, 1, final_norm, root_eps)?;
    b.finish(&[("hidden", hidden)])
}

/// The convolution around a sublayer that reads normed `rows`, where there is one.
fn convolution<'a>(
    b: &mut ProgramBuilder,
    scope: &str,
    weights: Option<&'a ConvWeights>,
    rows: ValueId,
    inputs: &Inputs,
) -> Result<Option<Conv<'a>>, GraphError> {
    b.enter(scope);
    let both = weights.zip(inputs.previous);
    both.map(|(weights, previous)| Conv::new(b, weights, rows, previous))
        .transpose()
}

fn one_side(
    b: &mut ProgramBuilder,
    conv: Option<&Conv<'_>>,
    side: Side,
    x: ValueId,
) -> Result<ValueId, GraphError> {
    conv.map_or(Ok(x), |conv| conv.side(b, side, x))
}

/// Queries of one key-value head stand side by side, so that each product has as many matrices on both sides.
fn attention(
    b: &mut ProgramBuilder,
    config: &DraftConfig,
    weights: &LayerWeights,
    rows: ValueId,
    inputs: &Inputs,
) -> Result<ValueId, GraphError> {
    let width = b.shape(rows)[3];
    let group = config.group();
    b.enter("query");
    let query = linear(b, rows, &weights.query)?;
    let query = biased(b, query, weights.query_bias.as_ref())?;
    let shape = vec![
        1,
        config.num_key_value_heads,
        config.head_dim,
        group * width,
    ];
    let query = b.add(Operation::Reshape { x: query, shape })?;
    let root_eps = scalar(b, config.rms_norm_eps.sqrt())?;
    let query = norm(b, query, 2, &weights.query_norm, root_eps)?;
    let [cos, sin] = inputs.tables;
    let (cos_of_group, sin_of_group) = (
        repeat_columns(b, cos, group)?,
        repeat_columns(b, sin, group)?,
    );
    let query = rotate(b, query, cos_of_group, sin_of_group)?;

    let (key, value) = key_value(b, "block", config, &weights.block, rows, inputs.tables)?;
    b.enter("attention");
    let keys = b.add(Operation::Concat {
        values: vec![inputs.keys, key],
        axis: 3,
    })?;
    let values = b.add(Operation::Concat {
        values: vec![inputs.values, value],
        axis: 3,
    })?;
    let scores = b.add(Operation::Matmul {
        x: keys,
        y: query,
        transpose_x: true,
    })?;
    let mask = repeat_columns(b, inputs.mask, group)?;
    let scores = b.binary(BinaryFunction::Add, scores, mask)?;
    let probabilities = b.add(Operation::Softmax { x: scores, axis: 2 })?;
    let boost = if b.shape(keys)[3] >= MANY_KEYS {
        weights.boost
    } else {
        1.0
    };
    let probabilities = scaled(b, probabilities, boost)?;
    let attended = b.add(Operation::Matmul {
        x: values,
        y: probabilities,
        transpose_x: false,
    })?;
    let attended = scaled(b, attended, weights.attention_factor / boost)?;
    let shape = vec![1, config.query_channels(), 1, width];
    let attended = b.add(Operation::Reshape { x: attended, shape })?;
    b.enter("output");
    let output = linear(b, attended, &weights.output)?;
    biased(b, output, weights.output_bias.as_ref())
}

fn mlp(
    b: &mut ProgramBuilder,
    weights: &LayerWeights,
    rows: ValueId,
) -> Result<ValueId, GraphError> {
    b.enter("mlp");
    let gate = linear(b, rows, &weights.gate)?;
    let gate = b.unary(UnaryFunction::Silu, gate)?;
    let up = linear(b, rows, &weights.up)?;
    // Multiplied here and not in the weights of `up`, whose scales would become subnormal.
    let up = scaled(b, up, weights.mlp_factor)?;
    let product = b.binary(BinaryFunction::Mul, gate, up)?;
    linear(b, product, &weights.down)
}
