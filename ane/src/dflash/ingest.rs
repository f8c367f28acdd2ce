//! The programs that turn the target's taps into each layer's context keys and values.

use super::config::DraftConfig;
use super::parts::{biased, linear, norm, rotate, scalar, sum_of_convolutions};
use super::weights::{IngestWeights, KeyValueWeights};
use crate::mil::graph::{GraphError, Program, ProgramBuilder, ValueId};
use crate::mil::operations::{BinaryFunction, Operation};

/// `tap0`.. [1, hidden, 1, rows], `tap_scale` [1, 1, 1, rows], `cos` and `sin` [1, 1, head dim / 2, rows] to
/// `keys0`, `values0`.. [1, kv heads, head dim, rows], one pair a layer.
///
/// Each row of taps comes multiplied by its [`tap_scale`](crate::taps::tap_scale). It cancels in the norm.
///
/// # Errors
/// Weights that do not fit the config.
pub fn ingest_program(
    config: &DraftConfig,
    weights: &IngestWeights,
    rows: usize,
) -> Result<Program, GraphError> {
    let mut b = ProgramBuilder::new(&format!("ingest_r{rows}"));
    let taps = (0..weights.taps.len())
        .map(|tap| b.input(&format!("tap{tap}"), &[1, config.hidden_size, 1, rows]))
        .collect::<Result<Vec<_>, _>>()?;
    let tap_scale = b.input("tap_scale", &[1, 1, 1, rows])?;
    let cos = b.input("cos", &[1, 1, config.head_dim / 2, rows])?;
    let sin = b.input("sin", &[1, 1, config.head_dim / 2, rows])?;

    b.enter("fc");
    let projected = sum_of_convolutions(&mut b, &taps, &weights.taps)?;
    b.enter("hidden_norm");
    let root_eps = scalar(&mut b, config.rms_norm_eps.sqrt())?;
    let root_eps_of_row = b.binary(BinaryFunction::Mul, tap_scale, root_eps)?;
    let context = norm(&mut b, projected, 1, &weights.hidden_norm, root_eps_of_row)?;

    let mut outputs = vec![];
    for (layer, weights) in weights.layers.iter().enumerate() {
        let scope = format!("layer{layer}");
        let (keys, values) = key_value(&mut b, &scope, config, weights, context, [cos, sin])?;
        outputs.push((format!("keys{layer}"), keys));
        outputs.push((format!("values{layer}"), values));
    }
    let named: Vec<_> = outputs
        .iter()
        .map(|(name, id)| (name.as_str(), *id))
        .collect();
    b.finish(&named)
}

/// Rows [1, hidden, 1, S] to keys (normed per head and rotated) and values, [1, kv heads, head dim, S].
pub(super) fn key_value(
    b: &mut ProgramBuilder,
    scope: &str,
    config: &DraftConfig,
    weights: &KeyValueWeights,
    rows: ValueId,
    [cos, sin]: [ValueId; 2],
) -> Result<(ValueId, ValueId), GraphError> {
    let columns = b.shape(rows)[3];
    let shape = vec![1, config.num_key_value_heads, config.head_dim, columns];
    b.enter(&format!("{scope}_key"));
    let key = linear(b, rows, &weights.key)?;
    let key = biased(b, key, weights.key_bias.as_ref())?;
    let key = b.add(Operation::Reshape {
        x: key,
        shape: shape.clone(),
    })?;
    let root_eps = scalar(b, config.rms_norm_eps.sqrt())?;
    let key = norm(b, key, 2, &weights.key_norm, root_eps)?;
    let key = rotate(b, key, cos, sin)?;
    b.enter(&format!("{scope}_value"));
    let value = linear(b, rows, &weights.value)?;
    let value = biased(b, value, weights.value_bias.as_ref())?;
    let value = b.add(Operation::Reshape { x: value, shape })?;
    Ok((key, value))
}
