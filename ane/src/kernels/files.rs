//! Folders of files, and the hashes of what is in them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::errors::Error;

/// How much is read between two looks for a word to stop: some milliseconds of hashing.
const CHUNK: usize = 4 << 20;

/// Bytes of all files in `folder` and the folders in it, by their path from it, with slashes. Anything that is neither file nor
/// folder is an error.
pub fn walk(folder: &Path) -> io::Result<BTreeMap<String, u64>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![(folder.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        for item in fs::read_dir(folder)? {
            let item = item?;
            let name = format!("{prefix}{}", item.file_name().to_string_lossy());
            let metadata = item.metadata()?; // follows no link
            if metadata.is_dir() {
                folders.push((item.path(), name + "/"));
            } else if metadata.is_file() {
                files.insert(name, metadata.len());
            } else {
                let problem = format!("{} is no file", item.path().display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
    }
    Ok(files)
}

/// SHA-256 of a file, in hexadecimal digits.
///
/// # Errors
/// [`Error::Read`], and those of `tick`, which is called every few milliseconds.
pub fn hash_file(
    path: &Path,
    tick: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<String, Error> {
    let failed = |source| Error::Read {
        path: path.into(),
        source,
    };
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let bytes = match file.read(&mut chunk) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        hasher.update(&chunk[..bytes]);
        tick()?;
    }
}

/// SHA-256 of bytes, in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a string takes everything
        text
    })
}
