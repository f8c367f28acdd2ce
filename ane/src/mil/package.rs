//! `.mlpackage` folders: what Core ML compiles. The same program always gives the same bytes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use prost::Message;

use super::encode::encode;
use super::graph::Program;
use super::weight_blob::BlobWriter;

pub(super) const MANIFEST_FILE: &str = "Manifest.json";
pub(super) const MODEL_FILE: &str = "Data/com.apple.CoreML/model.mlmodel";
pub(super) const WEIGHTS_FILE: &str = "Data/com.apple.CoreML/weights/weight.bin";
/// Any identifiers will do, as long as they differ within the package.
pub(super) const MANIFEST: &str = r#"{
  "fileFormatVersion": "1.0.0",
  "itemInfoEntries": {
    "6D697272-6F72-4D6F-8465-6C0000000001": {
      "author": "com.apple.CoreML",
      "description": "CoreML Model Specification",
      "name": "model.mlmodel",
      "path": "com.apple.CoreML/model.mlmodel"
    },
    "6D697272-6F72-4D6F-8465-6C0000000002": {
      "author": "com.apple.CoreML",
      "description": "CoreML Model Weights",
      "name": "weights",
      "path": "com.apple.CoreML/weights"
    }
  },
  "rootModelIdentifier": "6D697272-6F72-4D6F-8465-6C0000000001"
}
"#;

/// Write `program` as the package `folder`, which must not exist. All of it has reached the disk on return.
///
/// An error leaves a part of it behind: write into a [`Scratch`](crate::scratch::Scratch) folder.
///
/// # Errors
/// Those of the disk.
pub fn write_package(program: &Program, folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let weights = folder.join(WEIGHTS_FILE);
    fs::create_dir_all(weights.with_file_name(""))?;
    let mut blobs = BlobWriter::new(BufWriter::new(File::create(weights)?))?;
    let model = encode(program, &mut blobs)?;
    let file = blobs
        .finish()?
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    write(&folder.join(MODEL_FILE), &model.encode_to_vec())?;
    write(&folder.join(MANIFEST_FILE), MANIFEST.as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
