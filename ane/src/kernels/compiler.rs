//! What a system makes of packages once they are written.

use std::path::Path;

use crate::errors::Error;
use crate::mil::graph::Program;
use crate::mil::operations::Operation;

/// Turns packages into what a runtime loads, and tells where it would run.
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

    /// Where a program of the entry in `folder` would run.
    ///
    /// # Errors
    /// Those of the system.
    fn place(&self, folder: &Path, program: &Program) -> Result<Placement, Error>;
}

/// Where the operations of a program would run. The three shares are of 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The program.
    pub program: String,
    /// How many it has that compute something.
    pub operations: usize,
    /// Share of them on the Neural Engine.
    pub neural_engine: f64,
    /// Share of them on the GPU.
    pub gpu: f64,
    /// Share of them on the processor.
    pub cpu: f64,
}

/// For the runtime that reads packages itself, on any system.
pub struct Portable;

impl Compiler for Portable {
    fn runtime(&self) -> &'static str {
        "cpu"
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

    fn place(&self, _folder: &Path, program: &Program) -> Result<Placement, Error> {
        let weight = |operation: &Operation| {
            matches!(
                operation,
                Operation::Const(_) | Operation::ConstexprAffineDequantize(_)
            )
        };
        let nodes = program.nodes.iter();
        Ok(Placement {
            program: program.name.clone(),
            operations: nodes.filter(|node| !weight(&node.operation)).count(),
            neural_engine: 0.0,
            gpu: 0.0,
            cpu: 1.0,
        })
    }
}

/// The compiler of this system.
#[must_use]
pub fn system_compiler() -> Box<dyn Compiler> {
    Box::new(Portable)
}
