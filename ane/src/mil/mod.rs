//! A small typed subset of MIL, the language of Core ML programs: the graph, and its form on disk.
//!
//! Facts about the format: apple/coremltools (`mlmodel/format`, BSD-3-Clause). The code is our own.

mod decode;
mod encode;
pub mod graph;
pub mod operations;
pub mod package;
mod protobuf;
pub mod read;
pub(crate) mod shapes;
mod weight_blob;
