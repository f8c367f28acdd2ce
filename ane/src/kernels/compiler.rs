//! What a system makes of packages once they are written.

use std::path::Path;

use crate::errors::Error;

/// The runtime that reads packages itself, on any system.
pub const CPU: &str = "cpu";

/// Turns packages into what a runtime loads.
pub trait Compiler {
    /// The runtime, as part of the key: entries are for one.
    fn runtime(&self) -> &'static str;

    /// What else of the system the result depends on, for example the build of the operating system; empty for nothing.
    ///
    /// # Errors
    /// Where it cannot be found out.
    fn system(&self) -> Result<String, Error>;

    /// Whether there is anything to do.
    fn compiles(&self) -> bool;

    /// Compile a package to something beside it, in the entry's folder. Whatever stands there afterwards is the entry, so it
    /// may also remove the package. Calls `tick` now and then, and stops with its error.
    ///
    /// # Errors
    /// Those of the system, and of `tick`.
    fn compile(
        &self,
        package: &Path,
        tick: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error>;
}

/// For [`CPU`].
pub struct Portable;

impl Compiler for Portable {
    fn runtime(&self) -> &'static str {
        CPU
    }

    fn system(&self) -> Result<String, Error> {
        Ok(String::new())
    }

    fn compiles(&self) -> bool {
        false
    }

    fn compile(
        &self,
        _package: &Path,
        _tick: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// The compiler of this system.
#[must_use]
#[cfg(not(target_os = "macos"))]
pub fn system_compiler() -> Box<dyn Compiler> {
    Box::new(Portable)
}

/// The compiler of this system.
#[must_use]
#[cfg(target_os = "macos")]
pub fn system_compiler() -> Box<dyn Compiler> {
    Box::new(super::core_ml::CoreMl)
}
