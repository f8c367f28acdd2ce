//! Packages that we wrote, read back. Anything that [`write_package`](super::package::write_package) would not have written
//! is an error.

use std::fs;
use std::path::Path;

use prost::Message;

use super::decode::decode;
use super::encode::encode;
use super::graph::Program;
use super::package::{MANIFEST, MANIFEST_FILE, MODEL_FILE, WEIGHTS_FILE};
use super::protobuf as pb;
use super::weight_blob::{BlobWriter, Compare};
use crate::errors::Error;

/// The program in the package `folder`, which is called after the folder. Weights in 8 bits stay so.
///
/// # Errors
/// [`Error::Damaged`], naming the file and what is wrong with it.
pub fn read_package(folder: &Path) -> Result<Program, Error> {
    let (model_path, weights_path) = (folder.join(MODEL_FILE), folder.join(WEIGHTS_FILE));
    let [manifest, model_bytes, weights] =
        [&folder.join(MANIFEST_FILE), &model_path, &weights_path].map(|path| {
            fs::read(path)
                .map_err(|error| Error::damaged(path, format!("it cannot be read: {error}")))
        });
    if manifest? != MANIFEST.as_bytes() {
        return Err(Error::damaged(
            folder.join(MANIFEST_FILE),
            "it is not the one that we write",
        ));
    }
    let (model_bytes, weights) = (model_bytes?, weights?);
    let name = folder
        .file_stem()
        .and_then(|name| name.to_str())
        .ok_or_else(|| Error::damaged(folder, "its name is none of a program"))?;
    let model = pb::Model::decode(model_bytes.as_slice())
        .map_err(|error| Error::damaged(&model_path, error.to_string()))?;
    let program =
        decode(name, model, &weights).map_err(|problem| Error::damaged(&model_path, problem))?;
    match written_as(&program, &model_bytes, &weights) {
        Ok(()) => Ok(program),
        Err(Differs::Model) => Err(Error::damaged(model_path, "no build of ours writes it so")),
        Err(Differs::Weights) => Err(Error::damaged(
            weights_path,
            "no build of ours writes it so",
        )),
    }
}

enum Differs {
    Model,
    Weights,
}

/// Whether `program` would be written as these bytes.
fn written_as(program: &Program, model_bytes: &[u8], weights: &[u8]) -> Result<(), Differs> {
    let differs = |_| Differs::Weights;
    let mut blobs = BlobWriter::new(Compare::new(weights)).map_err(differs)?;
    let model = encode(program, &mut blobs).map_err(differs)?;
    let bytes = blobs.bytes();
    if !blobs.finish().map_err(differs)?.is_same(bytes) {
        return Err(Differs::Weights);
    }
    if model.encode_to_vec() != model_bytes {
        return Err(Differs::Model);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
