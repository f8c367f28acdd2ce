//! The tensors of a folder of safetensors files: their headers checked at once, their data read when asked for. Matrices may be
//! packed.
//!
//! A file is the length of its header (8 bytes, little-endian), the header (JSON: type, shape and place of each tensor) and
//! the data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use serde::Deserialize;

use super::packed::Packing;
use crate::errors::Error;
use crate::mil::shapes::element_count;

/// Headers of real checkpoints are far below it.
const HEADER_LIMIT: u64 = 100 << 20;
const WEIGHT: &str = ".weight";
const INDEX: &str = "model.safetensors.index.json";

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum ElementType {
    BF16,
    F16,
    F32,
    /// Words of a packed matrix.
    U32,
}

impl ElementType {
    fn bytes(self) -> usize {
        match self {
            Self::BF16 | Self::F16 => 2,
            Self::F32 | Self::U32 => 4,
        }
    }
}

#[derive(Deserialize)]
struct Entry {
    dtype: ElementType,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

struct Located {
    file: usize,
    start: u64,
    bytes: usize,
    element_type: ElementType,
    shape: Vec<usize>,
    /// Of a packed matrix, once it was checked.
    packing: Option<Packing>,
}

/// All tensors of a folder.
pub struct TensorFiles {
    folder: PathBuf,
    files: Vec<PathBuf>,
    tensors: BTreeMap<String, Located>,
}

impl TensorFiles {
    /// Read the headers of all `*.safetensors` in `folder`.
    ///
    /// # Errors
    /// [`Error::Draft`] where there is no such file, a shard is missing, or a header does not fit its file.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let files = list(folder)?;
        let mut tensors = BTreeMap::new();
        for (file, path) in files.iter().enumerate() {
            let entries = read_header(path).map_err(|problem| Error::draft(path, problem))?;
            for (name, mut located) in entries {
                located.file = file;
                if tensors.insert(name.clone(), located).is_some() {
                    return Err(Error::draft(
                        path,
                        format!("{name} is in another file, too"),
                    ));
                }
            }
        }
        Ok(Self {
            folder: folder.into(),
            files,
            tensors,
        })
    }

    /// In the order of their names.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Check that there are exactly the tensors `expected`, of these shapes; matrices `x.weight` may be packed, with `x.scales`
    /// and `x.biases` beside them.
    ///
    /// # Errors
    /// [`Error::Draft`], naming one that is missing, wrong or unknown.
    pub fn check(&mut self, expected: &BTreeMap<String, Vec<usize>>) -> Result<(), Error> {
        let mut known = BTreeSet::new();
        for (name, shape) in expected {
            let packing = self.packing(name, shape)?;
            if packing.is_some() {
                known.extend(parts(name));
            }
            let found = self.tensors.get_mut(name).expect("it was just found");
            found.packing = packing;
        }
        match self
            .tensors
            .iter()
            .find(|(name, _)| !expected.contains_key(*name) && !known.contains(*name))
        {
            None => Ok(()),
            Some((name, found)) => {
                let problem = format!("{name} is no tensor of a DFlash draft with this config");
                Err(Error::draft(&self.files[found.file], problem))
            }
        }
    }

    /// How the tensor `name` that stands for one of `shape` is packed; none where it is not.
    fn packing(&self, name: &str, shape: &[usize]) -> Result<Option<Packing>, Error> {
        let found = self.located(name)?;
        let failed = |problem: String| {
            Err(Error::draft(
                &self.files[found.file],
                format!("{name} {problem}"),
            ))
        };
        if found.element_type != ElementType::U32 {
            return if found.shape == shape {
                Ok(None)
            } else {
                failed(format!(
                    "has the shape {:?}, but its config needs {shape:?}",
                    found.shape
                ))
            };
        }
        if shape.len() != 2 || !name.ends_with(WEIGHT) {
            return failed("is stored as integers".into());
        }
        let [scales, biases] = parts(name).map(|part| self.tensors.get(&part));
        let (Some(scales), Some(biases)) = (scales, biases) else {
            return failed("is packed, but has no scales and biases as MLX's are".into());
        };
        let packing = Packing::of(shape, &found.shape, &scales.shape);
        let numbers = [scales, biases]
            .iter()
            .all(|part| part.element_type != ElementType::U32);
        if packing.is_none() || scales.shape != biases.shape || !numbers {
            return failed(format!(
                "is packed in the shapes {:?}, {:?} and {:?}, as no matrix {shape:?} is",
                found.shape, scales.shape, biases.shape
            ));
        }
        Ok(packing)
    }

    fn located(&self, name: &str) -> Result<&Located, Error> {
        self.tensors
            .get(name)
            .ok_or_else(|| Error::draft(&self.folder, format!("it has no tensor {name}")))
    }

    /// The values of a tensor, row-major, unpacked where they are packed.
    ///
    /// # Errors
    /// [`Error::Draft`] where there is none of this name, its file cannot be read, or a value is NaN or infinite.
    pub fn read(&self, name: &str) -> Result<Vec<f32>, Error> {
        let located = self.located(name)?;
        let path = &self.files[located.file];
        let mut bytes = vec![0; located.bytes];
        let read = File::open(path).and_then(|mut file| {
            file.seek(SeekFrom::Start(located.start))?;
            file.read_exact(&mut bytes)
        });
        read.map_err(|error| Error::draft(path, format!("{name} cannot be read: {error}")))?;
        let values = match located.packing {
            None => decode(&bytes, located.element_type),
            Some(packing) => {
                let [scales, biases] = parts(name).map(|part| self.read(&part));
                packing.unpack(&bytes, &scales?, &biases?)
            }
        };
        match values.iter().find(|value| !value.is_finite()) {
            None => Ok(values),
            Some(value) => Err(Error::draft(
                path,
                format!("{name} holds the value {value}"),
            )),
        }
    }
}

/// The names of scales and biases of a packed matrix.
fn parts(name: &str) -> [String; 2] {
    let module = name.strip_suffix(WEIGHT).unwrap_or(name);
    ["scales", "biases"].map(|part| format!("{module}.{part}"))
}

/// The folder's safetensors files in the order of their names. Those that its index names must be among them.
fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(|error| Error::draft(folder, error.to_string()))?;
    let mut files = vec![];
    for entry in entries {
        let path = entry
            .map_err(|error| Error::draft(folder, error.to_string()))?
            .path();
        if path
            .extension()
            .is_some_and(|extension| extension == "safetensors")
        {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Error::draft(folder, "it has no safetensors file"));
    }
    let index = folder.join(INDEX);
    if index.exists() {
        let text = fs::read(&index).map_err(|error| Error::draft(&index, error.to_string()))?;
        let parsed: Index = serde_json::from_slice(&text)
            .map_err(|error| Error::draft(&index, error.to_string()))?;
        if let Some(shard) = parsed
            .weight_map
            .values()
            .find(|shard| !files.contains(&folder.join(shard)))
        {
            return Err(Error::draft(
                index,
                format!("it names the file {shard:?}, which is missing"),
            ));
        }
    }
    Ok(files)
}

fn read_header(path: &Path) -> Result<Vec<(String, Located)>, String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let file_bytes = file.metadata().map_err(|error| error.to_string())?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|_| "it is cut off in its header")?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_LIMIT || length > file_bytes - 8 {
        return Err(format!(
            "its header has {length} bytes, the file {file_bytes}"
        ));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header)
        .map_err(|error| error.to_string())?;
    let mut entries: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&header)
        .map_err(|error| format!("its header is damaged: {error}"))?;
    entries.remove("__metadata__");
    let data_start = 8 + length;
    entries
        .into_iter()
        .map(|(name, entry)| {
            let entry: Entry =
                serde_json::from_value(entry).map_err(|error| format!("{name}: {error}"))?;
            let located = locate(entry, data_start, file_bytes)
                .map_err(|problem| format!("{name} {problem}"))?;
            Ok((name, located))
        })
        .collect()
}

fn locate(entry: Entry, data_start: u64, file_bytes: u64) -> Result<Located, String> {
    let [start, end] = entry.data_offsets;
    if start > end || end > file_bytes - data_start {
        return Err("lies outside of the file, which may be cut off".into());
    }
    let bytes =
        element_count(&entry.shape).and_then(|count| count.checked_mul(entry.dtype.bytes()));
    match bytes {
        Some(bytes) if bytes as u64 == end - start => Ok(Located {
            file: 0,
            start: data_start + start,
            bytes,
            element_type: entry.dtype,
            shape: entry.shape,
            packing: None,
        }),
        _ => Err(format!(
            "has {} bytes, but the shape {:?}",
            end - start,
            entry.shape
        )),
    }
}

fn decode(bytes: &[u8], element_type: ElementType) -> Vec<f32> {
    let pairs = bytes.chunks_exact(2).map(|b| [b[0], b[1]]);
    match element_type {
        ElementType::BF16 => pairs
            .map(|pair| bf16::from_le_bytes(pair).to_f32())
            .collect(),
        ElementType::F16 => pairs
            .map(f16::from_le_bytes)
            .collect::<Vec<_>>()
            .to_f32_vec(),
        // Integers that stand for themselves are refused before.
        ElementType::F32 | ElementType::U32 => {
            let words = bytes.chunks_exact(4);
            words
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect()
        }
    }
}
