//! Kernels for Core ML: of a package only what Core ML compiles from it is kept, `<program>.mlmodelc`. That has all weights of its
//! own, and the package would double the disk that a draft takes.
//!
//! Type-checked only; not verified on a Mac.

use std::fs;
use std::path::{Path, PathBuf};

use super::compiler::Compiler;
use crate::errors::Error;
use crate::runtime::coreml::{CoreMlRuntime, os_build};
use crate::runtime::placement::Placement;
use crate::runtime::{Interface, LoadedProgram};

/// The runtime's name.
pub const CORE_ML: &str = "coreml";

const COMPILED: &str = "mlmodelc";

/// Core ML's compiler.
pub struct CoreMl;

impl Compiler for CoreMl {
    fn runtime(&self) -> &'static str {
        CORE_ML
    }

    fn system(&self) -> Result<String, Error> {
        Ok(os_build()?)
    }

    fn compiles(&self) -> bool {
        true
    }

    fn compile(
        &self,
        package: &Path,
        tick: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let compiled = package.with_extension(COMPILED);
        CoreMlRuntime::default().compile(package, &compiled, tick)?;
        fs::remove_dir_all(package).map_err(|source| Error::Write {
            folder: package.into(),
            source,
        })
    }
}

fn compiled(folder: &Path, program: &Interface) -> PathBuf {
    folder.join(format!("{}.{COMPILED}", program.name))
}

/// Load a program of the entry in `folder`.
pub fn load(folder: &Path, program: &Interface) -> Result<Box<dyn LoadedProgram>, Error> {
    let compiled = compiled(folder, program);
    Ok(CoreMlRuntime::default().load(&compiled, program.clone())?)
}

/// Where a program of the entry in `folder` would run.
pub fn place(folder: &Path, program: &Interface) -> Result<Placement, Error> {
    Ok(CoreMlRuntime::default().placement(&compiled(folder, program))?)
}
