//! Core ML programs for DFlash drafts: built, packaged and run from Rust.

pub mod buffer;
pub mod cpu_features;
pub mod dflash;
pub mod draft;
pub mod errors;
pub mod kernels;
pub mod mil;
pub mod quantize;
pub mod runtime;
pub mod scratch;
pub mod taps;
#[cfg(feature = "python")]
mod wrapper;

/// This crate's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
