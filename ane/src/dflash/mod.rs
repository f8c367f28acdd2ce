//! DFlash drafts (Chen, Liang, Liu, 2026) as Core ML programs: from a folder with config and weights to packages.
//!
//! A draft is two kinds of programs: `ingest` makes context keys and values of the target's taps, and each layer has one that
//! runs a block of rows. Embedding and LM head are the target's and stay with it.

pub mod build;
pub mod config;
mod conv;
pub mod ingest;
pub mod layer;
mod packed;
mod parts;
pub mod rope;
mod safetensors;
#[cfg(test)]
pub(crate) mod samples;
mod second;
pub mod weights;

use std::collections::BTreeMap;
use std::iter;
use std::path::{Path, PathBuf};

use crate::errors::Error;
use config::DraftConfig;
use safetensors::TensorFiles;

const CONFIG_FILE: &str = "config.json";

/// A draft's folder: its config, and its tensors where they lie.
pub struct Draft {
    /// Where it is.
    pub folder: PathBuf,
    /// What it says about itself.
    pub config: DraftConfig,
    tensors: TensorFiles,
    shapes: BTreeMap<String, Vec<usize>>,
}

impl Draft {
    /// Read the config and the headers of the weights, and check that they fit.
    ///
    /// # Errors
    /// [`Error::Draft`], naming the file and what is wrong with it.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let config = DraftConfig::read(&folder.join(CONFIG_FILE))?;
        let mut tensors = TensorFiles::open(folder)?;
        let shapes = expected_shapes(&config);
        tensors.check(&shapes)?;
        Ok(Self {
            folder: folder.into(),
            config,
            tensors,
            shapes,
        })
    }

    /// Config and weights.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let weights = self.tensors.files().iter().cloned();
        iter::once(self.folder.join(CONFIG_FILE)).chain(weights)
    }
}

/// All tensors of a draft.
fn expected_shapes(config: &DraftConfig) -> BTreeMap<String, Vec<usize>> {
    let (hidden, head, inner) = (
        config.hidden_size,
        config.head_dim,
        config.intermediate_size,
    );
    let (query, kv) = (config.query_channels(), config.kv_channels());
    let mut shapes = BTreeMap::from([
        (
            "fc.weight".to_string(),
            vec![hidden, config.target_layer_ids.len() * hidden],
        ),
        ("hidden_norm.weight".to_string(), vec![hidden]),
        ("norm.weight".to_string(), vec![hidden]),
    ]);
    for layer in 0..config.num_hidden_layers {
        for (tensor, shape) in [
            ("input_layernorm", vec![hidden]),
            ("post_attention_layernorm", vec![hidden]),
            ("self_attn.q_proj", vec![query, hidden]),
            ("self_attn.k_proj", vec![kv, hidden]),
            ("self_attn.v_proj", vec![kv, hidden]),
            ("self_attn.o_proj", vec![hidden, query]),
            ("self_attn.q_norm", vec![head]),
            ("self_attn.k_norm", vec![head]),
            ("mlp.gate_proj", vec![inner, hidden]),
            ("mlp.up_proj", vec![inner, hidden]),
            ("mlp.down_proj", vec![hidden, inner]),
        ] {
            shapes.insert(format!("layers.{layer}.{tensor}.weight"), shape);
        }
        if config.attention_bias {
            for (tensor, channels) in [("q", query), ("k", kv), ("v", kv), ("o", hidden)] {
                let name = format!("layers.{layer}.self_attn.{tensor}_proj.bias");
                shapes.insert(name, vec![channels]);
            }
        }
    }
    if let Some(second) = &config.second {
        shapes.extend(second.expected_shapes(hidden, config.num_hidden_layers));
    }
    shapes
}
