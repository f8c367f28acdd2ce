//! A draft's tensors in the form that its programs hold: converted, in our order of heads, and with the powers of two that
//! keep activations in range.

use std::collections::{BTreeMap, BTreeSet};

use super::Draft;
use super::config::REDUCTION_LIMIT;
use super::conv::ConvWeights;
use crate::errors::Error;
use crate::mil::operations::{Operation, Tensor};
use crate::quantize::{self, Loss, Matrix, Precision};

/// Inputs of convolutions stay below it: with 8-bit weights, some Neural Engines cut them off at 4094.
const ACTIVATION_LIMIT: f64 = 4000.0;
/// What is added up in half precision stays below it.
const SUM_LIMIT: f64 = 60_000.0;
/// By how much probabilities may be raised before they meet the values.
const LARGEST_BOOST: f32 = 64.0;

/// A tensor that 8 bits would change by more stays in half precision. Usual ones change by 0.008. On the demo draft `fc` changes by
/// 0.027, having one large weight in each row beside many small ones, and alone it would move the layers' results by 0.05.
const LARGEST_LOSS: f64 = 0.015;

/// The weight of a linear layer: convolutions of consecutive channels, whose results are added.
pub type Linear = Vec<Operation>;
/// [1, channels, 1, 1], where a layer has one.
pub type Bias = Option<Tensor>;

/// What makes keys and values from rows, in one layer.
pub struct KeyValueWeights {
    pub(super) key: Linear,
    pub(super) key_bias: Bias,
    pub(super) value: Linear,
    pub(super) value_bias: Bias,
    /// [1, 1, head dim, 1].
    pub(super) key_norm: Tensor,
}

/// What an ingest program holds.
pub struct IngestWeights {
    /// One a tap.
    pub(super) taps: Vec<Operation>,
    /// [1, hidden, 1, 1].
    pub(super) hidden_norm: Tensor,
    pub(super) layers: Vec<KeyValueWeights>,
}

/// What a layer's program holds.
pub struct LayerWeights {
    pub(super) input_norm: Tensor,
    /// Rows ordered by key-value head, then channel, then head within the group.
    pub(super) query: Linear,
    pub(super) query_bias: Bias,
    /// Divided by the root of the head's size, as the scores would be.
    pub(super) query_norm: Tensor,
    pub(super) block: KeyValueWeights,
    /// Columns ordered as the rows of `query`.
    pub(super) output: Linear,
    pub(super) output_bias: Bias,
    pub(super) post_norm: Tensor,
    pub(super) gate: Linear,
    pub(super) up: Linear,
    pub(super) down: Linear,
    /// Around attention and around the MLP, in the second generation.
    pub(super) attention_conv: Option<ConvWeights>,
    pub(super) mlp_conv: Option<ConvWeights>,
    /// In the last layer.
    pub(super) final_norm: Option<Tensor>,
    /// A power of two for the probabilities of long contexts, so that they stay far from fp16's smallest numbers.
    pub(super) boost: f32,
    /// Powers of two by which activations are multiplied before they meet `output` and `down`, which undo it.
    pub(super) attention_factor: f32,
    pub(super) mlp_factor: f32,
}

/// Converts a draft's tensors, and keeps account of it.
pub struct Loader<'a> {
    pub(super) draft: &'a Draft,
    precision: Precision,
    tick: &'a dyn Fn() -> Result<(), Error>,
    /// By tensor: root of squared errors over squared weights.
    pub relative_errors: BTreeMap<String, f64>,
    /// Tensors that 8 bits would have changed too much.
    pub kept_fp16: BTreeSet<String>,
    /// By tensor: the factor that it undoes, where that is not 1.
    pub factors: BTreeMap<String, f32>,
}

impl<'a> Loader<'a> {
    /// For the tensors of `draft`.
    #[must_use]
    pub fn new(draft: &'a Draft, precision: Precision) -> Self {
        Self {
            draft,
            precision,
            tick: &|| Ok(()),
            relative_errors: BTreeMap::new(),
            kept_fp16: BTreeSet::new(),
            factors: BTreeMap::new(),
        }
    }

    /// Call `tick` at each tensor, and stop with its error.
    #[must_use]
    pub fn ticking(mut self, tick: &'a dyn Fn() -> Result<(), Error>) -> Self {
        self.tick = tick;
        self
    }

    /// The weights of the ingest programs.
    ///
    /// # Errors
    /// [`Error::Draft`] where a file cannot be read or a value is no weight.
    pub fn ingest(&mut self) -> Result<IngestWeights, Error> {
        let config = &self.draft.config;
        let fc = self.matrix("fc.weight")?;
        Ok(IngestWeights {
            taps: self.convolutions("fc.weight", &fc, config.hidden_size)?,
            hidden_norm: self.channels("hidden_norm.weight")?,
            layers: (0..config.num_hidden_layers)
                .map(|layer| self.key_value(layer))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The weights of one layer.
    ///
    /// # Errors
    /// [`Error::Draft`] where a file cannot be read or a value is no weight.
    pub fn layer(&mut self, layer: usize) -> Result<LayerWeights, Error> {
        let config = &self.draft.config;
        let name = |tensor: &str| format!("layers.{layer}.{tensor}.weight");
        let order = head_order(config.num_key_value_heads, config.group(), config.head_dim);

        let input_norm = self.draft.tensors.read(&name("input_layernorm"))?;
        let attention_conv = self.conv(layer, "attention_conv", &input_norm)?;
        let largest_value = self.largest_value(layer, &entering(&input_norm, &attention_conv))?;
        let attention_factor = factor(largest_value);
        let query = self.matrix(&name("self_attn.q_proj"))?.with_rows(&order);
        let query = self.linear(&name("self_attn.q_proj"), &query)?;
        let output_name = name("self_attn.o_proj");
        let output = self.matrix(&output_name)?.with_columns(&order);
        let output = self.undoing(&output_name, output, attention_factor)?;

        let (gate, up) = (
            self.matrix(&name("mlp.gate_proj"))?,
            self.matrix(&name("mlp.up_proj"))?,
        );
        let post_norm = self.draft.tensors.read(&name("post_attention_layernorm"))?;
        let mlp_conv = self.conv(layer, "mlp_conv", &post_norm)?;
        let mlp_factor = factor(largest_product(
            &gate,
            &up,
            &entering(&post_norm, &mlp_conv),
        ));
        let (gate, up) = (
            self.linear(&name("mlp.gate_proj"), &gate)?,
            self.linear(&name("mlp.up_proj"), &up)?,
        );
        let down = self.matrix(&name("mlp.down_proj"))?;
        let last = layer + 1 == config.num_hidden_layers;
        Ok(LayerWeights {
            input_norm: self.channels(&name("input_layernorm"))?,
            query,
            query_bias: self.bias(&name("self_attn.q_proj"), Some(&order))?,
            query_norm: self.head_norm(
                &name("self_attn.q_norm"),
                (config.head_dim as f32).sqrt().recip(),
            )?,
            block: self.key_value(layer)?,
            output,
            output_bias: self.bias(&output_name, None)?,
            post_norm: self.channels(&name("post_attention_layernorm"))?,
            gate,
            up,
            down: self.undoing(&name("mlp.down_proj"), down, mlp_factor)?,
            attention_conv,
            mlp_conv,
            final_norm: last.then(|| self.channels("norm.weight")).transpose()?,
            boost: boost(largest_value),
            attention_factor,
            mlp_factor,
        })
    }

    fn key_value(&mut self, layer: usize) -> Result<KeyValueWeights, Error> {
        let name = |tensor: &str| format!("layers.{layer}.self_attn.{tensor}.weight");
        let (key, value) = (self.matrix(&name("k_proj"))?, self.matrix(&name("v_proj"))?);
        Ok(KeyValueWeights {
            key: self.linear(&name("k_proj"), &key)?,
            key_bias: self.bias(&name("k_proj"), None)?,
            value: self.linear(&name("v_proj"), &value)?,
            value_bias: self.bias(&name("v_proj"), None)?,
            key_norm: self.head_norm(&name("k_norm"), 1.0)?,
        })
    }

    /// No value of this layer can be larger, whether it comes from the block, by `block` times its rows, or from the context.
    fn largest_value(&self, layer: usize, block: &[f32]) -> Result<f64, Error> {
        let tensors = &self.draft.tensors;
        let name = format!("layers.{layer}.self_attn.v_proj.weight");
        let value = self.matrix(&name)?;
        let context = tensors.read("hidden_norm.weight")?;
        let bias = self.biases(&name)?.unwrap_or_default();
        let largest_bias = bias.iter().fold(0.0f32, |most, bias| most.max(bias.abs()));
        let largest = largest_output(&value, block).max(largest_output(&value, &context));
        Ok(largest + f64::from(largest_bias))
    }

    /// The bias beside the matrix `weight`, in another order where that is wanted.
    fn bias(&self, weight: &str, order: Option<&[usize]>) -> Result<Bias, Error> {
        let Some(mut values) = self.biases(weight)? else {
            return Ok(None);
        };
        if let Some(order) = order {
            values = order.iter().map(|i| values[*i]).collect();
        }
        half_channels(&values)
            .map(Some)
            .map_err(|problem| self.error(weight, &problem))
    }

    fn biases(&self, weight: &str) -> Result<Option<Vec<f32>>, Error> {
        let name = weight.replace(".weight", ".bias");
        self.draft
            .config
            .attention_bias
            .then(|| self.draft.tensors.read(&name))
            .transpose()
    }

    pub(super) fn matrix(&self, name: &str) -> Result<Matrix, Error> {
        (self.tick)()?;
        let columns = self.draft.shapes[name][1];
        let values = self.draft.tensors.read(name)?;
        Ok(Matrix { values, columns })
    }

    /// A norm's weight over channels.
    fn channels(&self, name: &str) -> Result<Tensor, Error> {
        let values = self.draft.tensors.read(name)?;
        half_channels(&values).map_err(|problem| self.error(name, &problem))
    }

    /// A norm's weight over the channels of a head, times `factor`.
    fn head_norm(&self, name: &str, factor: f32) -> Result<Tensor, Error> {
        let values: Vec<_> = self
            .draft
            .tensors
            .read(name)?
            .iter()
            .map(|value| value * factor)
            .collect();
        quantize::half_precision(&[1, 1, values.len(), 1], &values)
            .map_err(|problem| self.error(name, &problem))
    }

    pub(super) fn linear(&mut self, name: &str, matrix: &Matrix) -> Result<Linear, Error> {
        let pieces = matrix.columns.div_ceil(REDUCTION_LIMIT as usize);
        self.convolutions(name, matrix, matrix.columns.div_ceil(pieces))
    }

    /// As [`Self::linear`], for inputs that come multiplied by `factor`.
    fn undoing(&mut self, name: &str, matrix: Matrix, factor: f32) -> Result<Linear, Error> {
        if factor != 1.0 {
            self.factors.insert(name.into(), factor);
        }
        self.linear(name, &matrix.scaled(1.0 / factor))
    }

    /// One convolution for each `channels` input channels; the last may have fewer.
    fn convolutions(
        &mut self,
        name: &str,
        matrix: &Matrix,
        channels: usize,
    ) -> Result<Linear, Error> {
        let (mut weights, mut loss) = self.convert(name, matrix, channels, self.precision)?;
        if self.precision == Precision::W8a16 && loss.relative_error() > LARGEST_LOSS {
            (weights, loss) = self.convert(name, matrix, channels, Precision::Fp16)?;
            self.kept_fp16.insert(name.into());
        }
        self.relative_errors
            .insert(name.into(), loss.relative_error());
        Ok(weights)
    }

    fn convert(
        &self,
        name: &str,
        matrix: &Matrix,
        channels: usize,
        precision: Precision,
    ) -> Result<(Linear, Loss), Error> {
        (self.tick)()?;
        let mut loss = Loss::default();
        let mut weights = vec![];
        for first in (0..matrix.columns).step_by(channels) {
            let piece = matrix.column_range(first, channels.min(matrix.columns - first));
            let (weight, lost) = quantize::convolution_weight(&piece, precision)
                .map_err(|problem| self.error(name, &problem))?;
            loss.add(lost);
            weights.push(weight);
        }
        Ok((weights, loss))
    }

    pub(super) fn error(&self, name: &str, problem: &str) -> Error {
        Error::draft(&self.draft.folder, format!("{name}: {problem}"))
    }
}

/// [1, channels, 1, 1].
pub(super) fn half_channels(values: &[f32]) -> Result<Tensor, String> {
    quantize::half_precision(&[1, values.len(), 1, 1], values)
}

/// What a norm and the convolution behind it make of rows, at most: by channel, times rows of the length root of their channels.
fn entering(norm: &[f32], conv: &Option<ConvWeights>) -> Vec<f32> {
    match conv {
        None => norm.to_vec(),
        Some(conv) => norm
            .iter()
            .zip(&conv.gains)
            .map(|(norm, gain)| norm * gain)
            .collect(),
    }
}

/// Channels of all heads, ordered by key-value head, then channel of the head, then head within the group.
///
/// So [1, channels, 1, S] can be read as [1, kv heads, head dim, group * S], in which all queries of one key-value head
/// stand side by side, without moving anything.
fn head_order(kv_heads: usize, group: usize, head_dim: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(kv_heads * group * head_dim);
    for kv_head in 0..kv_heads {
        for channel in 0..head_dim {
            order.extend((0..group).map(|member| (kv_head * group + member) * head_dim + channel));
        }
    }
    order
}

/// The largest power of two, 1 at most, that brings `bound` below what a convolution takes.
fn factor(bound: f64) -> f32 {
    let mut factor = 1.0;
    while bound * factor > ACTIVATION_LIMIT {
        factor *= 0.5;
    }
    factor as f32
}

/// The largest power of two, 64 at most, by which values up to `largest_value` may be multiplied.
fn boost(largest_value: f64) -> f32 {
    let mut boost = LARGEST_BOOST;
    while boost > 1.0 && largest_value * f64::from(boost) > SUM_LIMIT {
        boost *= 0.5;
    }
    boost
}

/// An upper bound of a row of `matrix` times any normed rows. Those have the length root of their channels, times the norm's
/// weight.
fn largest_output(matrix: &Matrix, norm: &[f32]) -> f64 {
    let squares = matrix.rows().map(|row| {
        let weighted = row.iter().zip(norm).map(|(a, n)| f64::from(a * n).powi(2));
        weighted.sum::<f64>()
    });
    (squares.fold(0.0, f64::max) * matrix.columns as f64).sqrt()
}

/// An upper bound of silu(gate row) times (up row) for any normed rows: |silu(a)| <= |a|, and a product of two projections of
/// a vector of length r is at most r^2 (|a| |b| + |a . b|) / 2.
fn largest_product(gate: &Matrix, up: &Matrix, norm: &[f32]) -> f64 {
    let bounds = gate.rows().zip(up.rows()).map(|(gate, up)| {
        let (mut gates, mut ups, mut both) = (0.0f32, 0.0f32, 0.0f32);
        for ((g, u), n) in gate.iter().zip(up).zip(norm) {
            let (g, u) = (g * n, u * n);
            gates += g * g;
            ups += u * u;
            both += g * u;
        }
        f64::from((gates * ups).sqrt() + both.abs()) / 2.0
    });
    bounds.fold(0.0, f64::max) * norm.len() as f64
}

#[cfg(test)]
mod tests {
    use super::{boost, factor, head_order, largest_output, largest_product};
    use crate::quantize::Matrix;

    fn row(values: &[f32]) -> Matrix {
        Matrix {
            values: values.to_vec(),
            columns: values.len(),
        }
    }

    #[test]
    fn heads_of_a_group_stand_side_by_side() {
        // Two key-value heads, three query heads each, two channels a head.
        let order = head_order(2, 3, 2);
        assert_eq!(order[..6], [0, 2, 4, 1, 3, 5]);
        assert_eq!(order[6..], [6, 8, 10, 7, 9, 11]);
    }

    #[test]
    fn powers_of_two_bring_bounds_into_range() {
        assert_eq!(
            (
                factor(10.0),
                factor(4000.0),
                factor(4001.0),
                factor(64_001.0)
            ),
            (1.0, 1.0, 0.5, 0.03125)
        );
        assert_eq!(
            (boost(0.0), boost(900.0), boost(1000.0), boost(1e9)),
            (64.0, 64.0, 32.0, 1.0)
        );
    }

    /// Rows that point where the weights do reach the bounds.
    #[test]
    fn bounds_are_tight() {
        let norm = [1.0, 0.5, 2.0, 1.0];
        let (gate, up) = (row(&[1.0, 2.0, -1.0, 0.0]), row(&[0.5, 2.0, -1.0, 3.0]));
        let weighted = |m: &Matrix| {
            m.values
                .iter()
                .zip(norm)
                .map(|(w, n)| w * n)
                .collect::<Vec<f32>>()
        };
        let (g, u) = (weighted(&gate), weighted(&up));
        let length = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        // Along g/|g| + u/|u| the product is largest; a normed row of four channels has the length 2.
        let towards: Vec<f32> = g
            .iter()
            .zip(&u)
            .map(|(a, b)| a / length(&g) + b / length(&u))
            .collect();
        let normed: Vec<f32> = towards.iter().map(|x| 2.0 * x / length(&towards)).collect();
        let reached = f64::from(dot(&normed, &g) * dot(&normed, &u));
        let bound = largest_product(&gate, &up, &norm);
        assert!((bound - reached).abs() < 1e-3, "{reached} {bound}");
        let largest = largest_output(&up, &norm);
        assert!((largest - f64::from(2.0 * length(&u))).abs() < 1e-5);
    }
}
