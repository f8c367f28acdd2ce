//! Tables of the rotary embedding, by position. The programs take them as inputs.

use std::f64::consts::TAU;

use serde::Deserialize;

/// Angles by position: `position * frequency`, one frequency for each pair of channels.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// [head dim / 2], in radians a position.
    frequencies: Vec<f64>,
    /// What sines and cosines are multiplied by.
    magnitude: f64,
}

/// `rope_parameters` or `rope_scaling` of a config. Fields of other types than the named one are ignored.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct RopeScaling {
    /// The older name of the next, and the one that counts where both are there.
    r#type: Option<String>,
    rope_type: Option<String>,
    /// Some configs keep the base here.
    pub rope_theta: Option<f64>,
    factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    mscale: Option<f64>,
    mscale_all_dim: Option<f64>,
}

impl Rope {
    /// For heads of `head_dim` channels and base `theta`.
    ///
    /// # Errors
    /// A scaling of an unknown type or without its factor, or numbers that give no angle, as half a sentence.
    pub fn new(head_dim: usize, theta: f64, scaling: &RopeScaling) -> Result<Self, String> {
        let plain: Vec<f64> = (0..head_dim / 2)
            .map(|pair| theta.powf(-2.0 * pair as f64 / head_dim as f64))
            .collect();
        let factor = || match scaling.factor {
            Some(factor) if factor >= 1.0 && factor.is_finite() => Ok(factor),
            factor => Err(format!(
                "its rope factor is {factor:?}, but must be at least 1"
            )),
        };
        let (frequencies, magnitude) = match scaling.kind() {
            "default" => (plain, 1.0),
            "linear" => {
                let factor = factor()?;
                (
                    plain.iter().map(|frequency| frequency / factor).collect(),
                    1.0,
                )
            }
            "llama3" => (scaling.llama3(&plain, factor()?), 1.0),
            "yarn" => scaling.yarn(&plain, theta, factor()?),
            other => return Err(format!("its rope type {other} is none that programs know")),
        };
        if !frequencies
            .iter()
            .chain([&magnitude])
            .all(|number| number.is_finite())
        {
            return Err("its rope parameters give no angles".into());
        }
        Ok(Self {
            frequencies,
            magnitude,
        })
    }

    /// Cosine and sine for each pair of channels at `position`.
    pub fn at(&self, position: usize) -> impl Iterator<Item = (f32, f32)> + '_ {
        self.frequencies.iter().map(move |frequency| {
            let (sin, cos) = (position as f64 * frequency % TAU).sin_cos();
            ((cos * self.magnitude) as f32, (sin * self.magnitude) as f32)
        })
    }
}

impl RopeScaling {
    fn kind(&self) -> &str {
        let named = self.r#type.as_ref().or(self.rope_type.as_ref());
        named.map_or("default", String::as_str)
    }

    /// Long waves are stretched, those between two lengths in part (Llama 3.1's published rule).
    fn llama3(&self, plain: &[f64], factor: f64) -> Vec<f64> {
        let length = self.original_max_position_embeddings.unwrap_or(8192.0);
        let (low, high) = (
            self.low_freq_factor.unwrap_or(1.0),
            self.high_freq_factor.unwrap_or(4.0),
        );
        let stretched = |frequency: &f64| {
            let waves = length * frequency / TAU;
            let kept = ((waves - low) / (high - low)).clamp(0.0, 1.0);
            frequency * ((1.0 - kept) / factor + kept)
        };
        plain.iter().map(stretched).collect()
    }

    /// YaRN (Peng et al., 2023, arXiv 2309.00071), section 3.2, with the magnitude of section 3.4.
    fn yarn(&self, plain: &[f64], theta: f64, factor: f64) -> (Vec<f64>, f64) {
        let pairs = plain.len() as f64;
        let length = self.original_max_position_embeddings.unwrap_or(4096.0);
        let pair_of = |turns: f64| pairs * (length / (turns * TAU)).ln() / theta.ln();
        let first = pair_of(self.beta_fast.unwrap_or(32.0)).floor().max(0.0);
        let last = pair_of(self.beta_slow.unwrap_or(1.0))
            .ceil()
            .min(2.0 * pairs - 1.0);
        // One step wide at least: a ramp of no width has no slope.
        let width = if first == last { 0.001 } else { last - first };
        let blended = plain.iter().enumerate().map(|(pair, frequency)| {
            let stretched = ((pair as f64 - first) / width).clamp(0.0, 1.0);
            frequency * (stretched / factor + 1.0 - stretched)
        });
        let magnitude = |weight: f64| {
            if factor <= 1.0 {
                1.0
            } else {
                0.1 * weight * factor.ln() + 1.0
            }
        };
        let ratio =
            magnitude(self.mscale.unwrap_or(1.0)) / magnitude(self.mscale_all_dim.unwrap_or(0.0));
        (blended.collect(), ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::{Rope, RopeScaling};

    fn scaling(json: &str) -> RopeScaling {
        serde_json::from_str(json).unwrap()
    }

    fn frequencies(json: &str) -> Vec<f64> {
        Rope::new(64, 10_000.0, &scaling(json)).unwrap().frequencies
    }

    #[test]
    fn angles_grow_with_the_position_and_fall_with_the_pair() {
        let rope = Rope::new(4, 100.0, &scaling("{}")).unwrap();
        let table: Vec<_> = rope.at(3).collect();
        assert_eq!(table.len(), 2);
        for ((cos, sin), angle) in table.into_iter().zip([3.0f32, 0.3]) {
            assert!((cos - angle.cos()).abs() < 1e-6 && (sin - angle.sin()).abs() < 1e-6);
        }
        assert!(rope.at(0).all(|pair| pair == (1.0, 0.0)));
    }

    #[test]
    fn far_positions_keep_their_precision() {
        let rope = Rope::new(64, 1e6, &scaling("{}")).unwrap();
        let (cos, sin) = rope.at(1_000_000).next().unwrap();
        assert!((f64::from(cos) - 1_000_000f64.cos()).abs() < 1e-7);
        assert!((f64::from(sin) - 1_000_000f64.sin()).abs() < 1e-7);
    }

    #[test]
    fn scalings_leave_short_waves_and_stretch_long_ones_by_the_factor() {
        let plain = frequencies("{}");
        let linear = frequencies(r#"{"type": "linear", "factor": 4}"#);
        assert!((linear[0] * 4.0 - plain[0]).abs() < 1e-12);
        for scaled in [
            frequencies(
                r#"{"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 2048}"#,
            ),
            frequencies(
                r#"{"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 2048}"#,
            ),
        ] {
            assert!((scaled[0] - plain[0]).abs() < 1e-12);
            assert!((scaled[31] * 8.0 - plain[31]).abs() < 1e-12);
            assert!(scaled.windows(2).all(|pair| pair[0] > pair[1]));
        }
    }

    #[test]
    fn yarn_raises_the_magnitude_unless_both_weights_are_the_same() {
        let magnitude = |json| Rope::new(64, 1e4, &scaling(json)).unwrap().magnitude;
        assert!(
            (magnitude(r#"{"type": "yarn", "factor": 4}"#) - (0.1 * 4f64.ln() + 1.0)).abs() < 1e-12
        );
        assert_eq!(
            magnitude(r#"{"type": "yarn", "factor": 4, "mscale": 1.0, "mscale_all_dim": 1.0}"#),
            1.0
        );
    }

    #[test]
    fn what_gives_no_angles_is_an_error() {
        for (theta, json, named) in [
            (1e4, r#"{"type": "su"}"#, "su"),
            (1e4, r#"{"type": "yarn"}"#, "factor"),
            (1e4, r#"{"type": "linear", "factor": 0}"#, "factor"),
            (f64::NAN, "{}", "angles"),
        ] {
            let error = Rope::new(64, theta, &scaling(json)).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
