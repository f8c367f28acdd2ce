//! Programs on the processor: an interpreter of the graph that packages are written from.
//!
//! Results are rounded to half precision after every operation, which computes in float32. The same program gives the same
//! bits with any number of threads, and a column of a convolution or of queries the same bits beside any others.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
mod attention;
mod conv;
mod elements;
mod fusion;
mod half_lanes;
mod launch;
mod matmul;
mod memory;
#[cfg(target_arch = "aarch64")]
mod neon;
mod plan;
mod program;
mod reduce;
mod tile;
mod weight;

use std::sync::{Arc, PoisonError, RwLock};

use super::pool::Pool;
use super::{LoadedProgram, Runtime, RuntimeError};
use crate::mil::graph::Program;
pub use launch::InstructionSet;
use program::CpuProgram;

/// Runs programs on the processor. Its programs share its threads.
pub struct CpuRuntime {
    set: InstructionSet,
    pool: Arc<RwLock<Pool>>,
}

impl CpuRuntime {
    /// With so many threads, the caller's included, and the best instructions that the processor has.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self::with_instructions(threads, InstructionSet::present()[0])
    }

    /// With instructions that must be [`InstructionSet::present`].
    fn with_instructions(threads: usize, set: InstructionSet) -> Self {
        assert!(InstructionSet::present().contains(&set));
        Self {
            set,
            pool: Arc::new(RwLock::new(Pool::new(threads))),
        }
    }

    /// How many threads there are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .threads()
    }
}

impl Runtime for CpuRuntime {
    fn load(&self, program: &Program) -> Result<Box<dyn LoadedProgram>, RuntimeError> {
        Ok(Box::new(CpuProgram::new(
            program,
            self.set,
            Arc::clone(&self.pool),
        )?))
    }

    fn set_threads(&self, threads: usize) {
        if threads == self.threads() {
            return; // a pool costs threads that start and end
        }
        // The pool is whole also where a panic went by.
        *self.pool.write().unwrap_or_else(PoisonError::into_inner) = Pool::new(threads);
    }
}

#[cfg(test)]
mod tests;
