//! The `config.json` of a DFlash draft, read and checked.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::rope::{Rope, RopeScaling};
use super::second::{RawSecond, SecondGeneration};
use crate::errors::Error;

/// What a draft's programs are built from, by the names of the published format.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // see above
pub struct DraftConfig {
    pub hidden_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    pub head_dim: usize,
    pub intermediate_size: usize,
    pub rms_norm_eps: f32,
    /// Rows of a block: the anchor and its masks.
    pub block_size: usize,
    /// The target's layers whose output is read.
    pub target_layer_ids: Vec<usize>,
    /// Which layers see only the last `sliding_window` positions.
    pub sliding: Vec<bool>,
    pub sliding_window: Option<usize>,
    /// None: sliding layers are causal inside the block, full ones are not.
    pub is_causal: Option<bool>,
    /// The rotary embedding of queries and keys.
    pub rope: Rope,
    /// Whether the projections around attention have biases.
    pub attention_bias: bool,
    /// What the second generation has more.
    pub second: Option<SecondGeneration>,
}

/// The file as it is published. Fields that no program depends on are not read.
#[derive(Deserialize)]
struct Raw {
    architectures: Vec<String>,
    hidden_size: u64,
    num_hidden_layers: u64,
    num_attention_heads: u64,
    num_key_value_heads: u64,
    head_dim: u64,
    intermediate_size: u64,
    rms_norm_eps: f64,
    num_target_layers: u64,
    vocab_size: Option<u64>,
    #[serde(default = "default_block_size")]
    block_size: u64,
    layer_types: Option<Vec<LayerType>>,
    sliding_window: Option<u64>,
    is_causal: Option<bool>,
    #[serde(default = "default_activation")]
    hidden_act: String,
    #[serde(default)]
    attention_bias: bool,
    rope_theta: Option<f64>,
    rope_parameters: Option<RopeScaling>,
    rope_scaling: Option<RopeScaling>,
    dflash_config: RawDflash,
}

#[derive(Deserialize)]
struct RawDflash {
    target_layer_ids: Option<Vec<u64>>,
    block_size: Option<u64>,
    #[serde(flatten)]
    second: RawSecond,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum LayerType {
    FullAttention,
    SlidingAttention,
}

fn default_block_size() -> u64 {
    16
}

fn default_activation() -> String {
    "silu".into()
}

impl DraftConfig {
    /// Read and check the file `path`.
    ///
    /// # Errors
    /// [`Error::Draft`] where it is missing, not JSON, not of a DFlash draft, or has an impossible value.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read(path).map_err(|error| Error::draft(path, error.to_string()))?;
        Self::parse(&text).map_err(|problem| Error::draft(path, problem))
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let raw: Raw = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let second = match raw.architectures.as_slice() {
            [name] if name == "DFlashDraftModel" => None,
            [name] if name == "DFlash2DraftModel" => {
                let of = (raw.hidden_size, raw.vocab_size);
                Some(SecondGeneration::read(&raw.dflash_config.second, of)?)
            }
            others => {
                return Err(format!(
                    "its architectures are {others:?}, not DFlashDraftModel or DFlash2DraftModel"
                ));
            }
        };
        if raw.hidden_act != "silu" {
            return Err("it has another activation than silu".into());
        }
        let layers = within("num_hidden_layers", raw.num_hidden_layers, 1, 64)?;
        let target_layers = within("num_target_layers", raw.num_target_layers, 1, 4096)?;
        let layer_types = raw.layer_types.unwrap_or_default();
        let sliding_window = raw
            .sliding_window
            .map(|window| within("sliding_window", window, 1, SIZE_LIMIT))
            .transpose()?;
        let head_dim = within("head_dim", raw.head_dim, 2, 1024)?;
        let scaling = raw.rope_parameters.or(raw.rope_scaling).unwrap_or_default();
        let theta = raw
            .rope_theta
            .or(scaling.rope_theta)
            .unwrap_or(DEFAULT_THETA);
        let config = Self {
            hidden_size: within("hidden_size", raw.hidden_size, 1, REDUCTION_LIMIT)?,
            num_hidden_layers: layers,
            num_attention_heads: within("num_attention_heads", raw.num_attention_heads, 1, 1024)?,
            num_key_value_heads: within("num_key_value_heads", raw.num_key_value_heads, 1, 1024)?,
            head_dim,
            intermediate_size: within(
                "intermediate_size",
                raw.intermediate_size,
                1,
                CHANNEL_LIMIT,
            )?,
            rms_norm_eps: raw.rms_norm_eps as f32,
            block_size: within(
                "block_size",
                raw.dflash_config.block_size.unwrap_or(raw.block_size),
                2,
                64,
            )?,
            target_layer_ids: taps(raw.dflash_config.target_layer_ids, target_layers, layers)?,
            sliding: match layer_types.len() {
                0 => vec![false; layers],
                _ => layer_types
                    .iter()
                    .map(|kind| *kind == LayerType::SlidingAttention)
                    .collect(),
            },
            sliding_window,
            is_causal: raw.is_causal,
            rope: Rope::new(head_dim, theta, &scaling)?,
            attention_bias: raw.attention_bias,
            second,
        };
        config.check()?;
        Ok(config)
    }

    /// What no single field shows.
    fn check(&self) -> Result<(), String> {
        let heads = self.num_attention_heads;
        for (sound, problem) in [
            (
                self.rms_norm_eps > 0.0 && self.rms_norm_eps < 1.0,
                format!(
                    "rms_norm_eps is {}, but must be between 0 and 1",
                    self.rms_norm_eps
                ),
            ),
            (
                self.head_dim.is_multiple_of(2),
                format!("head_dim is {}, an odd number", self.head_dim),
            ),
            (
                heads.is_multiple_of(self.num_key_value_heads),
                format!(
                    "{heads} heads cannot share {} key-value heads",
                    self.num_key_value_heads
                ),
            ),
            (
                heads * self.head_dim <= CHANNEL_LIMIT as usize,
                format!(
                    "{heads} heads of {} are more than {CHANNEL_LIMIT} channels",
                    self.head_dim
                ),
            ),
            (
                self.sliding.len() == self.num_hidden_layers,
                format!(
                    "layer_types names {} layers of {}",
                    self.sliding.len(),
                    self.num_hidden_layers
                ),
            ),
            (
                self.sliding_window.is_some() || !self.sliding.contains(&true),
                "it has sliding layers, but no sliding_window".into(),
            ),
            (
                self.second
                    .as_ref()
                    .is_none_or(|second| second.conv_kernel_size <= self.block_size),
                "its conv_kernel_size is more than its block has rows".into(),
            ),
        ] {
            if !sound {
                return Err(problem);
            }
        }
        Ok(())
    }

    /// Channels of all queries.
    pub(super) fn query_channels(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Channels of all keys, and of all values.
    pub(crate) fn kv_channels(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// Query heads that share one key-value head.
    pub(super) fn group(&self) -> usize {
        self.num_attention_heads / self.num_key_value_heads
    }
}

/// More channels than this are not summed in one reduction on every Neural Engine.
pub(super) const REDUCTION_LIMIT: u64 = 16384;
/// More channels than this a tensor cannot have on the Neural Engine.
const CHANNEL_LIMIT: u64 = 65536;
pub(super) const SIZE_LIMIT: u64 = 1 << 24;
const DEFAULT_THETA: f64 = 10_000.0;

pub(super) fn within(field: &str, value: u64, least: u64, most: u64) -> Result<usize, String> {
    if (least..=most).contains(&value) {
        Ok(value as usize)
    } else {
        Err(format!(
            "{field} is {value}, but must be between {least} and {most}"
        ))
    }
}

/// The layers named, or those of the published rule for configs that name none.
fn taps(
    named: Option<Vec<u64>>,
    target_layers: usize,
    layers: usize,
) -> Result<Vec<usize>, String> {
    let Some(named) = named else {
        let step = (target_layers as f64 - 4.0) / (layers.max(2) - 1) as f64;
        let rule = |i: usize| (1.0 + i as f64 * step).round_ties_even();
        return check_taps((0..layers).map(rule).collect(), target_layers);
    };
    check_taps(named.iter().map(|id| *id as f64).collect(), target_layers)
}

fn check_taps(ids: Vec<f64>, target_layers: usize) -> Result<Vec<usize>, String> {
    let sound =
        |i: usize| ids[i] >= 0.0 && ids[i] < target_layers as f64 && !ids[..i].contains(&ids[i]);
    if ids.is_empty() || !(0..ids.len()).all(sound) {
        return Err(format!(
            "its taps {ids:?} are not different layers of {target_layers}"
        ));
    }
    Ok(ids.into_iter().map(|id| id as usize).collect())
}
