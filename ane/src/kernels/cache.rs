//! The folder of all entries: finding, listing and removing them, and the lock of whoever makes one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::entry::{Check, Entry};
use super::folder_bytes;
use super::key::{INDEX_FILE, is_key};
use super::lock::Lock;
use crate::errors::Error;

/// How the names of unfinished folders and of locks end. They begin with a point and the key.
const PART: &str = ".part";
const LOCK: &str = ".lock";
/// How long to wait between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(20);

/// Tells apart what one process has discarded.
static DISCARDED: AtomicUsize = AtomicUsize::new(0);

/// An entry that cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Damaged {
    /// What it is called.
    pub key: String,
    /// Its folder.
    pub path: PathBuf,
    /// All files in it.
    pub bytes: u64,
    /// What is wrong, as one sentence without its full stop.
    pub problem: String,
}

/// A folder of entries.
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// In `folder`, which is made where it is missing.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let cache = Self {
            folder: folder.into(),
        };
        fs::create_dir_all(folder).map_err(|source| match source.kind() {
            // A file has its name.
            io::ErrorKind::AlreadyExists => cache.failed(io::ErrorKind::NotADirectory.into()),
            _ => cache.failed(source),
        })?;
        Ok(cache)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where an entry is, or would be.
    pub fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key)
    }

    /// An error of the disk in this folder.
    pub fn failed(&self, source: io::Error) -> Error {
        Error::Write {
            folder: self.folder.clone(),
            source,
        }
    }

    /// The entry, where there is one; it counts as used.
    ///
    /// # Errors
    /// As [`Entry::open`].
    pub fn find(&self, key: &str) -> Result<Option<Entry>, Error> {
        let path = self.path(key);
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let entry = Entry::open(&path, Check::Sizes)?;
        entry.touch();
        Ok(Some(entry))
    }

    /// Wait until no other process makes this entry, and keep others from it. `wait` is called about fifty times a second
    /// while it waits.
    ///
    /// # Errors
    /// [`Error::Write`], those of `wait`.
    pub fn lock(
        &self,
        key: &str,
        wait: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Lock, Error> {
        loop {
            if let Some(lock) = self.try_lock(key)? {
                return Ok(lock);
            }
            wait()?;
            thread::sleep(PAUSE);
        }
    }

    /// None where another process makes this entry.
    fn try_lock(&self, key: &str) -> Result<Option<Lock>, Error> {
        let path = self.folder.join(format!(".{key}{LOCK}"));
        Lock::try_new(&path).map_err(|source| self.failed(source))
    }

    /// Remove what processes that were killed left: folders that they had not filled, and locks. `own` is a key whose lock is
    /// held here. The result is how many bytes it were.
    ///
    /// # Errors
    /// [`Error::Write`], [`Error::Read`].
    pub fn sweep(&self, own: Option<&str>) -> Result<u64, Error> {
        let mut bytes = 0;
        for name in names(&self.folder)? {
            let left = name.ends_with(PART) || name.ends_with(LOCK);
            let key = name
                .strip_prefix('.')
                .and_then(|name| name.get(..name.find('.')?));
            let Some(key) = key.filter(|key| left && is_key(key)) else {
                continue;
            };
            // Whoever fills a folder holds its lock.
            let lock = if own == Some(key) {
                None
            } else {
                self.try_lock(key)?
            };
            if name.ends_with(PART) && (lock.is_some() || own == Some(key)) {
                let path = self.folder.join(&name);
                bytes += folder_bytes(&path);
                remove_folder(&path).map_err(|source| self.failed(source))?;
            }
        }
        Ok(bytes)
    }

    /// Take an entry away, sound or not: at once for everybody else. The lock must be held.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn discard(&self, key: &str) -> Result<(), Error> {
        let number = DISCARDED.fetch_add(1, Ordering::Relaxed);
        let aside = format!(".{key}.{}-d{number}{PART}", process::id());
        let aside = self.folder.join(aside);
        fs::rename(self.path(key), &aside)
            .and_then(|()| remove_folder(&aside))
            .map_err(|source| self.failed(source))
    }
}

/// All entries in `folder`, in the order of their keys: those that are whole, and those that are not. A folder that there is
/// not has none.
///
/// # Errors
/// [`Error::Read`].
pub fn list(folder: &Path) -> Result<Vec<Result<Entry, Damaged>>, Error> {
    let mut entries = vec![];
    for key in names(folder)?.into_iter().filter(|name| is_key(name)) {
        let path = folder.join(&key);
        match Entry::open(&path, Check::Sizes) {
            Ok(entry) => entries.push(Ok(entry)),
            Err(_) if !path.exists() => {} // removed meanwhile
            Err(error) => entries.push(Err(Damaged {
                bytes: folder_bytes(&path),
                problem: error.to_string(),
                key,
                path,
            })),
        }
    }
    Ok(entries)
}

/// Remove the entries `keys`, sound or not, or all and whatever else a cache keeps. The result is how many bytes it were.
///
/// # Errors
/// [`Error::Request`] for a key that there is not, and nothing is removed; [`Error::Write`], [`Error::Read`].
pub fn remove(folder: &Path, keys: Option<&[String]>) -> Result<u64, Error> {
    let cache = Cache {
        folder: folder.into(),
    };
    let known: Vec<_> = names(folder)?
        .into_iter()
        .filter(|name| is_key(name))
        .collect();
    if let Some(unknown) = keys
        .unwrap_or_default()
        .iter()
        .find(|key| !known.contains(key))
    {
        return Err(Error::Request(format!("There are no kernels {unknown:?}")));
    }
    let mut bytes = 0;
    for key in keys.unwrap_or(&known) {
        let _lock = cache.lock(key, &mut || Ok(()))?;
        let path = cache.path(key);
        if path.exists() {
            bytes += folder_bytes(&path);
            cache.discard(key)?;
        }
    }
    if keys.is_none() {
        let index = folder.join(INDEX_FILE);
        bytes += fs::metadata(&index).map_or(0, |metadata| metadata.len());
        remove_folder(&index).map_err(|source| cache.failed(source))?;
        bytes += cache.sweep(None)?;
    }
    Ok(bytes)
}

/// Take the entry in `folder` away if it is damaged and nobody is making it anew.
///
/// # Errors
/// [`Error::Write`].
pub fn discard_damaged(folder: &Path) -> Result<(), Error> {
    let (Some(parent), Some(key)) = (folder.parent(), folder.file_name().and_then(|n| n.to_str()))
    else {
        return Ok(());
    };
    if !is_key(key) || !folder.exists() {
        return Ok(());
    }
    let cache = Cache {
        folder: parent.into(),
    };
    let Some(_lock) = cache.try_lock(key)? else {
        return Ok(());
    };
    // Another process may have replaced it meanwhile.
    match Entry::open(folder, Check::Contents) {
        Err(Error::Damaged { .. }) if folder.exists() => cache.discard(key),
        _ => Ok(()),
    }
}

fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let items = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        items => items,
    };
    let names = items.and_then(|items| {
        let name = |item: io::Result<fs::DirEntry>| Ok(item?.file_name());
        items.map(name).collect::<io::Result<Vec<_>>>()
    });
    let names = names.map_err(|source| Error::Read {
        path: folder.into(),
        source,
    })?;
    let mut names: Vec<_> = names
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn remove_folder(path: &Path) -> io::Result<()> {
    let removed = if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // another was faster
        removed => removed,
    }
}
