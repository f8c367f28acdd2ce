//! What runs programs: the trait of the runtimes, the one for processors, and its thread pool and kernels. The only place
//! for `unsafe` code.

#[cfg(target_os = "linux")]
mod cblas;
pub mod cpu;
#[cfg(feature = "python")]
pub mod host_buffer;
mod lanes;
#[cfg(not(target_os = "macos"))]
mod plain_memory;
pub mod pool;
pub mod skinny_gemm;
pub mod tensor;

use std::error::Error;
use std::fmt;

use crate::buffer::{View, ViewMut};
use crate::mil::graph::Program;
use tensor::Tensor;

/// Something that runs programs.
pub trait Runtime {
    /// Prepare a program. It does not keep what it borrows.
    ///
    /// # Errors
    /// [`RuntimeError`] where this runtime cannot run it.
    fn load(&self, program: &Program) -> Result<Box<dyn LoadedProgram>, RuntimeError>;

    /// Use so many threads from the next call on, where the runtime has a choice.
    fn set_threads(&self, threads: usize);
}

/// A program that is ready to run.
pub trait LoadedProgram: Send {
    /// What it is called.
    fn name(&self) -> &str;

    /// What it takes, in the order of [`Self::run`].
    fn inputs(&self) -> &[Port];

    /// What it gives, in the order of [`Self::run`].
    fn outputs(&self) -> &[Port];

    /// Run once. Elements of another type than half precision are converted.
    ///
    /// # Errors
    /// [`RuntimeError`] where views do not fit the ports, or the run failed.
    fn run(&mut self, inputs: &[View<'_>], outputs: &mut [ViewMut<'_>])
    -> Result<(), RuntimeError>;

    /// Run once on tensors, which no runtime copies unless it must: the way for everything that is run often.
    ///
    /// # Errors
    /// As [`Self::run`].
    fn run_tensors(
        &mut self,
        inputs: &[&Tensor],
        outputs: &mut [&mut Tensor],
    ) -> Result<(), RuntimeError> {
        let inputs: Vec<_> = inputs.iter().map(|tensor| tensor.view()).collect();
        let mut outputs: Vec<_> = outputs.iter_mut().map(|tensor| tensor.view_mut()).collect();
        self.run(&inputs, &mut outputs)
    }
}

/// An input or output of a program, in half precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Unique among the program's.
    pub name: String,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
}

/// Why a program was not loaded or did not run. Each displays as one sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeError {
    /// An operation that the graph allows and the runtime does not.
    Unsupported {
        /// Its name in the program.
        operation: String,
        /// Why, as half a sentence.
        problem: &'static str,
    },
    /// Another number of views than the program has ports.
    Count {
        /// `inputs` or `outputs`.
        what: &'static str,
        /// How many the program has.
        wanted: usize,
        /// How many came.
        got: usize,
    },
    /// A view of another shape than its port.
    Shape {
        /// The port.
        port: String,
        /// Its shape.
        wanted: Vec<usize>,
        /// What came.
        got: Vec<usize>,
    },
    /// No memory for a tensor.
    Memory {
        /// Its shape.
        shape: Vec<usize>,
    },
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { operation, problem } => {
                write!(f, "The operation {operation} cannot run: {problem}")
            }
            Self::Count { what, wanted, got } => {
                write!(f, "The program has {wanted} {what}, not {got}")
            }
            Self::Shape { port, wanted, got } => {
                write!(f, "{port} must have the shape {wanted:?}, not {got:?}")
            }
            Self::Memory { shape } => {
                write!(f, "There is no memory for a tensor of the shape {shape:?}")
            }
        }
    }
}

impl Error for RuntimeError {}

/// Whether as many views came as there are ports, each of its port's shape.
fn check_shapes<'a>(
    what: &'static str,
    ports: &[Port],
    shapes: impl ExactSizeIterator<Item = &'a [usize]>,
) -> Result<(), RuntimeError> {
    if shapes.len() != ports.len() {
        return Err(RuntimeError::Count {
            what,
            wanted: ports.len(),
            got: shapes.len(),
        });
    }
    for (port, shape) in ports.iter().zip(shapes) {
        if port.shape != shape {
            return Err(RuntimeError::Shape {
                port: port.name.clone(),
                wanted: port.shape.clone(),
                got: shape.into(),
            });
        }
    }
    Ok(())
}
