//! Folders that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tells apart the folders of one process.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A folder that is filled beside the place where it is to appear. Dropped before [`Self::commit`], it goes without a trace.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    target: PathBuf,
}

impl Scratch {
    /// An empty folder beside `target`, whose parents are made where they are missing.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] where `target` is a file or a folder that is not empty; those of the disk.
    pub fn beside(target: &Path) -> io::Result<Self> {
        let taken = match fs::read_dir(target) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if taken {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut name = OsString::from(".");
        name.push(target.file_name().ok_or(io::ErrorKind::InvalidInput)?);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        name.push(format!(".{}-{number}.part", process::id()));
        let folder = target.with_file_name(name);
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent)?;
        }
        if folder.exists() {
            fs::remove_dir_all(&folder)?; // left by a process that was killed and had this number
        }
        fs::create_dir(&folder)?;
        Ok(Self {
            folder,
            target: target.into(),
        })
    }

    /// Where to write.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Move the folder to its place.
    ///
    /// # Errors
    /// Those of the disk, and where something has appeared in that place meanwhile.
    pub fn commit(self) -> io::Result<()> {
        fs::rename(&self.folder, &self.target)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // After a commit there is nothing here; after an error, that error is the one to report.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Move the folder `from` to `target`, also from another disk. It appears there whole and written to the disk, or not at all;
/// after a copy or an error, there may be something left in `from`.
///
/// # Errors
/// As [`Scratch::beside`].
pub fn move_folder(from: &Path, target: &Path) -> io::Result<()> {
    let scratch = Scratch::beside(target)?;
    match fs::rename(from, scratch.folder()) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy_files(from, scratch.folder())?;
        }
        moved => moved?,
    }
    sync_files(scratch.folder())?;
    scratch.commit()
}

/// Copy what is in the folder `from` into the empty folder `to`.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_files(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn sync_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_files(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{Scratch, copy_files, move_folder};

    /// A place in the system's folder for temporary files, empty at first.
    fn place(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("ane-scratch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_committed_folder_is_in_its_place_and_nothing_else() {
        let parent = place("commit");
        let target = parent.join("out");
        let scratch = Scratch::beside(&target).unwrap();
        fs::write(scratch.folder().join("file"), "text").unwrap();
        assert!(!target.exists());
        scratch.commit().unwrap();
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "text");
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn a_dropped_folder_leaves_nothing() {
        let parent = place("drop");
        let scratch = Scratch::beside(&parent.join("out")).unwrap();
        fs::write(scratch.folder().join("file"), "text").unwrap();
        drop(scratch);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn an_empty_folder_is_replaced_and_any_other_kept() {
        let parent = place("taken");
        let target = parent.join("out");
        fs::create_dir_all(&target).unwrap();
        Scratch::beside(&target).unwrap().commit().unwrap();
        fs::write(target.join("file"), "text").unwrap();
        assert!(Scratch::beside(&target).is_err());
        assert!(Scratch::beside(&target.join("file")).is_err());
        fs::remove_dir_all(parent).unwrap();
    }

    fn fill(folder: &Path) {
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("model"), "a").unwrap();
        fs::write(folder.join("inner/weights"), "b").unwrap();
    }

    fn assert_filled(folder: &Path) {
        assert_eq!(fs::read(folder.join("model")).unwrap(), b"a");
        assert_eq!(fs::read(folder.join("inner/weights")).unwrap(), b"b");
    }

    #[test]
    fn a_moved_folder_is_in_its_new_place_only() {
        let parent = place("move");
        let (from, target) = (parent.join("from"), parent.join("kernels/out"));
        fill(&from);
        move_folder(&from, &target).unwrap();
        assert_filled(&target);
        assert!(!from.exists());
        fill(&from);
        assert!(move_folder(&from, &target).is_err()); // taken
        assert_filled(&from);
        assert_eq!(fs::read_dir(parent.join("kernels")).unwrap().count(), 1);
        assert!(move_folder(&parent.join("missing"), &parent.join("other")).is_err());
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 2);
        fs::remove_dir_all(parent).unwrap();
    }

    /// As for a move between disks.
    #[test]
    fn a_copied_folder_has_the_same_files() {
        let parent = place("copy");
        let (from, to) = (parent.join("from"), parent.join("to"));
        fill(&from);
        fs::create_dir(&to).unwrap();
        copy_files(&from, &to).unwrap();
        assert_filled(&to);
        assert_filled(&from);
        fs::remove_dir_all(parent).unwrap();
    }
}
