//! An entry: the folder of a draft's prepared kernels, and the manifest that says what must be in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::files::{hash_file, walk};
use super::key::KeyParts;
use super::watch::Watch;
use crate::dflash::Draft;
use crate::dflash::weights::Loader;
use crate::errors::Error;
use crate::runtime::Interface;

/// Written last. Its time of change is when the entry was last used.
const MANIFEST_FILE: &str = "manifest.json";
const FORMAT: u32 = 2;

/// What an entry says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this form.
    pub format: u32,
    /// What the kernels depend on.
    pub parts: KeyParts,
    /// The folder that they were made of.
    pub draft: PathBuf,
    /// In order of use: ingest, then the layers.
    pub programs: Vec<Interface>,
    /// All files but the manifest, by their path in the folder.
    pub files: BTreeMap<String, FileRecord>,
    /// As in [`Report`](crate::dflash::build::Report).
    pub relative_errors: BTreeMap<String, f64>,
    /// As in [`Report`](crate::dflash::build::Report).
    pub kept_fp16: BTreeSet<String>,
    /// As in [`Report`](crate::dflash::build::Report).
    pub factors: BTreeMap<String, f32>,
    /// What each stage took, over all programs.
    pub seconds: BTreeMap<String, f64>,
    /// When it was made, in seconds since 1970.
    pub created_s: f64,
}

/// A file as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Its size.
    pub bytes: u64,
    /// Of its contents, in hexadecimal digits.
    pub sha256: String,
}

impl Manifest {
    /// Of what was written to `folder`.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Cancelled`].
    pub(super) fn of(
        folder: &Path,
        draft: &Draft,
        parts: KeyParts,
        programs: Vec<Interface>,
        loader: Loader<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        for (name, bytes) in walk(folder).map_err(|source| unreadable(folder, source))? {
            let sha256 = hash_file(&folder.join(&name), &mut || watch.tick())?;
            files.insert(name, FileRecord { bytes, sha256 });
        }
        Ok(Self {
            format: FORMAT,
            parts,
            draft: std::path::absolute(&draft.folder).unwrap_or_else(|_| draft.folder.clone()),
            programs,
            files,
            relative_errors: loader.relative_errors,
            kept_fp16: loader.kept_fp16,
            factors: loader.factors,
            seconds: watch.seconds(),
            created_s: seconds_since_1970(SystemTime::now()),
        })
    }

    /// # Errors
    /// Those of the disk.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let mut file = File::create(folder.join(MANIFEST_FILE))?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()
    }

    fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Error::damaged(path, "it is missing")
            }
            _ => unreadable(path, source),
        })?;
        // First the version alone: another one may have other fields.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let parsed = serde_json::from_slice(&text).and_then(|Version { format }| match format {
            FORMAT => serde_json::from_slice(&text).map(Ok),
            other => Ok(Err(format!("it has the format {other}, not {FORMAT}"))),
        });
        parsed
            .map_err(|error| error.to_string())
            .flatten()
            .map_err(|problem| Error::damaged(path, problem))
    }
}

/// How closely an entry is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// That all files are there with their sizes: at once, at any size.
    Sizes,
    /// Also what is in them: a second for 1.5 GB on one core. Whoever runs kernels reads them anyway, so this is done whenever
    /// they are loaded.
    Contents,
}

/// An entry that was found whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its folder, which is called after the key.
    pub path: PathBuf,
    /// What it says about itself.
    pub manifest: Manifest,
    /// All files, the manifest included.
    pub bytes: u64,
    /// When kernels of it were last asked for, in seconds since 1970.
    pub last_used_s: f64,
}

impl Entry {
    /// The entry in the folder `path`.
    ///
    /// # Errors
    /// [`Error::Damaged`], naming what is wrong; [`Error::Read`] where that cannot be known.
    pub fn open(path: &Path, check: Check) -> Result<Self, Error> {
        let manifest_path = path.join(MANIFEST_FILE);
        let manifest = Manifest::read(&manifest_path)?;
        if path
            .file_name()
            .is_none_or(|name| *name != *manifest.parts.key())
        {
            return Err(Error::damaged(manifest_path, "it is of other kernels"));
        }
        let mut found = walk(path).map_err(|source| unreadable(path, source))?;
        let bytes = found.values().sum();
        found.remove(MANIFEST_FILE);
        for (name, record) in &manifest.files {
            let problem = match found.remove(name) {
                None => "it is missing".into(),
                Some(bytes) if bytes != record.bytes => {
                    format!("it has {bytes} bytes instead of {}", record.bytes)
                }
                Some(_) => continue,
            };
            return Err(Error::damaged(path.join(name), problem));
        }
        if let Some(name) = found.into_keys().next() {
            return Err(Error::damaged(path.join(name), "it does not belong here"));
        }
        if check == Check::Contents {
            check_contents(path, &manifest.files)?;
        }
        let used = fs::metadata(&manifest_path).and_then(|metadata| metadata.modified());
        Ok(Self {
            path: path.into(),
            bytes,
            // The clock of files is coarser.
            last_used_s: used.map_or(0.0, seconds_since_1970).max(manifest.created_s),
            manifest,
        })
    }

    /// What it is called.
    #[must_use]
    pub fn key(&self) -> String {
        self.manifest.parts.key()
    }

    /// It is used now.
    pub(super) fn touch(&self) {
        // A cache that cannot be written can still be read.
        let _ = File::options()
            .append(true)
            .open(self.path.join(MANIFEST_FILE))
            .and_then(|file| file.set_modified(SystemTime::now()));
    }
}

/// Compare all files with their checksums, on all cores.
fn check_contents(folder: &Path, files: &BTreeMap<String, FileRecord>) -> Result<(), Error> {
    let files: Vec<_> = files.iter().collect();
    let (next, first_error) = (AtomicUsize::new(0), Mutex::new(None));
    let check = || {
        while let Some((name, record)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let path = folder.join(name);
            let checked = hash_file(&path, &mut || Ok(())).and_then(|sha256| {
                if sha256 == record.sha256 {
                    return Ok(());
                }
                Err(Error::damaged(
                    path,
                    "its contents changed since it was written",
                ))
            });
            if let Err(error) = checked
                && let Ok(mut first) = first_error.lock()
            {
                first.get_or_insert(error);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 1..threads.min(files.len()) {
            scope.spawn(check);
        }
        check();
    });
    match first_error.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(()),
    }
}

fn unreadable(path: &Path, source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::InvalidData {
        return Error::damaged(path, source.to_string());
    }
    Error::Read {
        path: path.into(),
        source,
    }
}

fn seconds_since_1970(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
