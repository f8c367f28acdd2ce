//! A lock between processes that ends with its holder, however that ends.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Held until it is dropped; the file is there only while somebody holds or wants the lock.
pub struct Lock {
    path: PathBuf,
    /// Closed last, which gives the lock back.
    _file: File,
}

impl Lock {
    /// None where another has it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn try_new(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let mut options = File::options();
            let file = options
                .create(true)
                .truncate(false)
                .write(true)
                .open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Its last holder may have removed the file after it was opened here: then the lock is on nothing.
            let ours = file.metadata()?;
            match fs::metadata(path) {
                Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                    let path = path.into();
                    return Ok(Some(Self { path, _file: file }));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A file that stays is harmless: the next holder removes it.
        let _ = fs::remove_file(&self.path);
    }
}
