//! Draft folders for tests: any shape, weights from a fixed sequence.

use std::fs;
use std::path::{Path, PathBuf};

use super::config::DraftConfig;
use super::expected_shapes;

/// Numbers that look random: xorshift64* of Vigna, 2016.
pub struct Numbers(u64);

impl Numbers {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// Any 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    /// Between -1 and 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// The shape of a sample.
pub struct Shape {
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub inner: usize,
    pub sliding: bool,
}

/// Of a few kilobytes.
pub const SMALL: Shape = Shape {
    hidden: 32,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    head_dim: 8,
    inner: 48,
    sliding: false,
};

/// A folder in the system's folder for temporary files that does not exist yet.
pub fn place(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ane-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Write a draft; its weights keep the size of what they get.
pub fn write_draft(folder: &Path, shape: &Shape, seed: u64) {
    fs::create_dir_all(folder).unwrap();
    let kind = ["full_attention", "sliding_attention"][usize::from(shape.sliding)];
    let text = serde_json::json!({
        "architectures": ["DFlashDraftModel"],
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.inner,
        "rms_norm_eps": 1e-5,
        "num_target_layers": 6,
        "block_size": 8,
        "layer_types": vec![kind; shape.layers],
        "sliding_window": 64,
        "dflash_config": {"target_layer_ids": [1, 4]},
    });
    let path = folder.join("config.json");
    fs::write(&path, text.to_string()).unwrap();
    let config = DraftConfig::read(&path).unwrap();
    let mut numbers = Numbers::new(seed);
    let (mut header, mut data) = (serde_json::Map::new(), vec![]);
    for (name, shape) in expected_shapes(&config) {
        let start = data.len();
        let size = (*shape.last().unwrap() as f32).sqrt().recip() * 1.7;
        for _ in 0..shape.iter().product() {
            let value = match shape.len() {
                1 => 1.0 + 0.2 * numbers.unit(),
                _ => size * numbers.unit(),
            };
            data.extend(value.to_le_bytes());
        }
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name, entry);
    }
    let header = serde_json::Value::from(header).to_string();
    let bytes = [
        &(header.len() as u64).to_le_bytes(),
        header.as_bytes(),
        &data,
    ]
    .concat();
    fs::write(folder.join("model.safetensors"), bytes).unwrap();
}
