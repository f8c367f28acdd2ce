//! The key of an entry: all that the kernels depend on.
//!
//! The draft counts by the contents of its files. Reading them takes about a second for 1.5 GB (SHA-256 with the processor's own
//! instructions: 1.3 GB/s measured), too long for every start. So the cache remembers hashes by a file's place, size, times and
//! number, and forgets what was written less than two seconds before it was read: a file written again so soon may show the
//! same times.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::compiler::Compiler;
use super::files::{hash, hash_file};
use super::lock::Lock;
use super::watch::Watch;
use crate::dflash::Draft;
use crate::dflash::build::{BUILDER_VERSION, Options};
use crate::errors::Error;
use crate::quantize::Precision;

/// In the cache's folder.
pub const INDEX_FILE: &str = "hashes.json";
const KEY_DIGITS: usize = 16;
/// Some file systems keep times to this precision.
const COARSEST_TIME_S: i64 = 2;

/// What the kernels depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyParts {
    /// SHA-256 over the hashes of config and weights.
    pub draft: String,
    /// How weights are kept.
    pub precision: Precision,
    /// Columns of the layers' programs.
    pub width: usize,
    /// Positions of context.
    pub context: usize,
    /// [`BUILDER_VERSION`].
    pub builder: u32,
    /// Of [`Compiler::runtime`].
    pub runtime: String,
    /// Of [`Compiler::system`].
    pub system: String,
}

impl KeyParts {
    /// # Errors
    /// Those of the compiler.
    pub fn new(
        draft: &Fingerprint,
        options: Options,
        compiler: &dyn Compiler,
    ) -> Result<Self, Error> {
        Ok(Self {
            draft: draft.hash(),
            precision: options.precision,
            width: options.width,
            context: options.context,
            builder: BUILDER_VERSION,
            runtime: compiler.runtime().into(),
            system: compiler.system()?,
        })
    }

    /// The name of the entry's folder.
    #[must_use]
    pub fn key(&self) -> String {
        let text = serde_json::json!(self).to_string();
        hash(text.as_bytes())[..KEY_DIGITS].into()
    }
}

/// Whether an entry can be called so.
pub fn is_key(name: &str) -> bool {
    name.len() == KEY_DIGITS
        && name
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What shows that a file is still the same without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// Also of its name, rights and times: nobody can set it back.
    changed: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::draft(path, error.to_string());
        let metadata = fs::metadata(path).map_err(failed)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether a later change would show.
    fn is_settled(&self, now_s: i64) -> bool {
        self.modified.0.max(self.changed.0) + COARSEST_TIME_S < now_s
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Known {
    identity: Identity,
    sha256: String,
}

/// A draft's files as they were read.
pub struct Fingerprint {
    files: Vec<(PathBuf, Identity, String)>,
}

impl Fingerprint {
    /// From the hashes that `cache` remembers, or from the files.
    ///
    /// # Errors
    /// [`Error::Draft`] where a file cannot be read, [`Error::Cancelled`].
    pub fn of(draft: &Draft, cache: &Cache, watch: &mut Watch<'_>) -> Result<Self, Error> {
        let index_path = cache.folder().join(INDEX_FILE);
        let mut index = read_index(&index_path);
        let mut changed = false;
        let mut files = vec![];
        for path in draft.files() {
            let failed = |error: io::Error| Error::draft(&path, error.to_string());
            let name = fs::canonicalize(&path).map_err(failed)?;
            let name = name.to_string_lossy().into_owned();
            let identity = Identity::of(&path)?;
            let known = index.get(&name).filter(|known| known.identity == identity);
            let sha256 = match known {
                Some(known) => known.sha256.clone(),
                None => hash_file(&path, &mut || watch.tick()).map_err(of_draft)?,
            };
            if known.is_none() && identity.is_settled(now_s()) {
                let sha256 = sha256.clone();
                index.insert(name, Known { identity, sha256 });
                changed = true;
            }
            files.push((path, identity, sha256));
        }
        if changed {
            index.retain(|path, _| Path::new(path).exists());
            // What cannot be remembered is read again next time.
            let _ = write_index(&index_path, &index);
        }
        Ok(Self { files })
    }

    fn hash(&self) -> String {
        let hashes: Vec<_> = self
            .files
            .iter()
            .map(|(_, _, hash)| hash.as_str())
            .collect();
        hash(hashes.join("\n").as_bytes())
    }

    /// # Errors
    /// [`Error::Draft`] where a file is not the one that was read.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        for (path, identity, _) in &self.files {
            if Identity::of(path)? != *identity {
                return Err(Error::draft(path, "it changed while it was read"));
            }
        }
        Ok(())
    }
}

fn of_draft(error: Error) -> Error {
    match error {
        Error::Read { path, source } => Error::draft(path, source.to_string()),
        error => error,
    }
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

/// An index that is missing or damaged is made anew.
fn read_index(path: &Path) -> BTreeMap<String, Known> {
    let text = fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Where another process writes one at this moment, that one stands.
fn write_index(path: &Path, index: &BTreeMap<String, Known>) -> io::Result<()> {
    let scratch = path.with_extension("part");
    let Some(_lock) = Lock::try_new(&path.with_extension("lock"))? else {
        return Ok(());
    };
    fs::write(&scratch, serde_json::to_vec(index)?)
        .and_then(|()| fs::rename(&scratch, path))
        .inspect_err(|_| {
            let _ = fs::remove_file(&scratch); // the first error is the one to report
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::ops::ControlFlow;

    use super::{Cache, Fingerprint, INDEX_FILE, Identity, Known, Watch, read_index, write_index};
    use crate::dflash::Draft;
    use crate::dflash::samples::{SMALL, place, write_draft};
    use crate::kernels::Progress;

    #[test]
    fn what_was_just_written_is_not_remembered() {
        let identity = Identity {
            device: 1,
            inode: 2,
            bytes: 3,
            modified: (100, 999),
            changed: (90, 0),
        };
        for (now, settled) in [(100, false), (102, false), (103, true), (0, false)] {
            assert_eq!(identity.is_settled(now), settled, "{now}");
        }
        let touched = Identity {
            changed: (200, 0),
            ..identity
        };
        assert!(!touched.is_settled(103));
    }

    #[test]
    fn a_hash_is_remembered_for_the_same_file_only() {
        let folder = place("kernels-index");
        let path = folder.join("draft");
        write_draft(&path, &SMALL, 1);
        let (draft, cache) = (
            Draft::open(&path).unwrap(),
            Cache::open(&folder.join("cache")).unwrap(),
        );
        let fingerprint = || {
            let mut go = |_: &Progress<'_>| ControlFlow::Continue(());
            let mut watch = Watch::new(1, false, &mut go);
            Fingerprint::of(&draft, &cache, &mut watch).unwrap().hash()
        };
        let hashed = fingerprint();
        let index_path = cache.folder().join(INDEX_FILE);
        assert!(read_index(&index_path).is_empty(), "the files are new");

        let weights = fs::canonicalize(path.join("model.safetensors")).unwrap();
        let identity = Identity::of(&weights).unwrap();
        let remembered = |identity| {
            let sha256 = "remembered".to_string();
            let name = weights.to_string_lossy().into_owned();
            let index = BTreeMap::from([(name, Known { identity, sha256 })]);
            write_index(&index_path, &index).unwrap();
            fingerprint() != hashed
        };
        assert!(remembered(identity));
        let (s, ns) = identity.modified;
        for other in [
            Identity {
                inode: 1,
                ..identity
            },
            Identity {
                bytes: 1,
                ..identity
            },
            Identity {
                modified: (s, ns + 1),
                ..identity
            },
            Identity {
                changed: (s, ns + 1),
                ..identity
            },
        ] {
            assert!(!remembered(other), "{other:?}");
        }
        fs::write(&index_path, "damaged").unwrap();
        assert_eq!(fingerprint(), hashed);
        fs::remove_dir_all(folder).unwrap();
    }
}
