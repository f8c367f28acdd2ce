//! What a draft of the second generation has more: its sizes and tensors.

use serde::Deserialize;

use super::config::{REDUCTION_LIMIT, SIZE_LIMIT, within};

/// Sizes of a draft of the second generation.
#[derive(Clone, Debug, PartialEq)]
pub struct SecondGeneration {
    /// Taps of the dynamic convolutions around attention and MLP.
    pub conv_kernel_size: usize,
    /// Channels that share a coefficient.
    pub conv_group_size: usize,
    /// The shape of the candidate selector's codebooks, which no program holds: the selector stays with the LM head.
    codebook: [usize; 2],
}

/// Fields of `dflash_config`.
#[derive(Deserialize)]
pub(super) struct RawSecond {
    conv_kernel_size: Option<u64>,
    conv_group_size: Option<u64>,
    selector_rank: Option<u64>,
}

impl SecondGeneration {
    /// Of a config with this `hidden_size` and `vocab_size`.
    pub(super) fn read(
        raw: &RawSecond,
        (hidden, vocabulary): (u64, Option<u64>),
    ) -> Result<Self, String> {
        let size = |field: &str, value: Option<u64>, most: u64| {
            let value = value.ok_or_else(|| format!("it has no {field}"))?;
            within(field, value, 1, most)
        };
        let group = size("conv_group_size", raw.conv_group_size, REDUCTION_LIMIT)?;
        if !hidden.is_multiple_of(group as u64) {
            return Err(format!(
                "its conv_group_size {group} does not divide its hidden_size {hidden}"
            ));
        }
        Ok(Self {
            conv_kernel_size: size("conv_kernel_size", raw.conv_kernel_size, 64)?,
            conv_group_size: group,
            codebook: [
                size("vocab_size", vocabulary, SIZE_LIMIT)?,
                size("selector_rank", raw.selector_rank, REDUCTION_LIMIT)?,
            ],
        })
    }

    /// Its tensors beside those of the first generation.
    pub(super) fn expected_shapes(
        &self,
        hidden: usize,
        layers: usize,
    ) -> Vec<(String, Vec<usize>)> {
        let coefficients = 2 * self.conv_kernel_size * (hidden / self.conv_group_size);
        let codebook = self.codebook.to_vec();
        let selector = "candidate_selector";
        let mut shapes = vec![
            (format!("{selector}.predecessor_codebook"), codebook.clone()),
            (format!("{selector}.successor_codebook"), codebook.clone()),
            (
                format!("{selector}.hidden_projection.weight"),
                vec![codebook[1], hidden],
            ),
        ];
        for layer in 0..layers {
            for conv in ["attention_conv", "mlp_conv"] {
                let name = format!("layers.{layer}.{conv}");
                let base = vec![2, self.conv_kernel_size, hidden];
                shapes.push((format!("{name}.base_kernel"), base));
                let projection = vec![coefficients, hidden];
                shapes.push((format!("{name}.kernel_projection.weight"), projection));
            }
        }
        shapes
    }
}
