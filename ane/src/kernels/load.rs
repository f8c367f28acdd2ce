//! Entries opened for use, each by the runtime that it is for.

use std::path::Path;

use super::cache::discard_damaged;
use super::compiler::CPU;
#[cfg(target_os = "macos")]
use super::core_ml::{self, CORE_ML};
use super::entry::{Check, Entry};
use super::package_name;
use crate::errors::Error;
use crate::mil::read::read_package;
use crate::runtime::placement::Placement;
use crate::runtime::{Interface, LoadedProgram, Runtime};

/// Load all programs of the entry in `folder`, in order of use; those for the processor through `cpu`.
///
/// # Errors
/// [`Error::Damaged`]: the entry is then gone, so that the next [`compile`](super::compile) makes it anew. [`Error::Read`];
/// [`Error::Request`] for a runtime that this system does not have; [`Error::Runtime`].
pub fn load(folder: &Path, cpu: &dyn Runtime) -> Result<Vec<Box<dyn LoadedProgram>>, Error> {
    each(folder, |entry, program| {
        match entry.manifest.parts.runtime.as_str() {
            CPU => {
                let package = read_package(&folder.join(package_name(&program.name)))?;
                Ok(cpu.load(&package)?)
            }
            #[cfg(target_os = "macos")]
            CORE_ML => core_ml::load(folder, program),
            other => Err(unknown(other)),
        }
    })
}

/// Where each program of the entry in `folder` would run, in order of use.
///
/// # Errors
/// As [`load`].
pub fn place(folder: &Path) -> Result<Vec<(String, Placement)>, Error> {
    each(folder, |entry, program| {
        let placement = match entry.manifest.parts.runtime.as_str() {
            CPU => Placement::on_cpu(&read_package(&folder.join(package_name(&program.name)))?),
            #[cfg(target_os = "macos")]
            CORE_ML => core_ml::place(folder, program)?,
            other => return Err(unknown(other)),
        };
        Ok((program.name.clone(), placement))
    })
}

fn unknown(runtime: &str) -> Error {
    Error::Request(format!(
        "The kernels are for {runtime}, which this system does not have"
    ))
}

/// What `open` makes of every program of the entry in `folder`, after all its files were compared with their checksums.
///
/// # Errors
/// [`Error::Damaged`]: the entry is then gone. [`Error::Read`], those of `open`.
pub(super) fn each<T>(
    folder: &Path,
    mut open: impl FnMut(&Entry, &Interface) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let opened = Entry::open(folder, Check::Contents).and_then(|entry| {
        entry.touch();
        let programs = entry.manifest.programs.iter();
        programs.map(|program| open(&entry, program)).collect()
    });
    if let Err(Error::Damaged { .. }) = opened {
        // The damage is what to report. Where the entry cannot be removed, the next to compile says so.
        let _ = discard_damaged(folder);
    }
    opened
}
