//! What runs programs: the trait of the runtimes, the one for processors, and its thread pool and kernels. The only place
//! for `unsafe` code.

#[cfg(target_os = "linux")]
mod cblas;
#[cfg(target_os = "macos")]
pub mod coreml;
pub mod cpu;
pub mod deadline;
#[cfg(feature = "python")]
pub mod host_buffer;
mod lanes;
pub mod placement;
#[cfg(not(target_os = "macos"))]
mod plain_memory;
pub mod pool;
pub mod skinny_gemm;
pub mod staging;
#[cfg(target_os = "macos")]
mod surface;
pub mod tensor;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::buffer::{View, ViewMut};
use crate::mil::graph::{Program, ValueId};
use placement::Placement;
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
    /// What it takes and gives.
    fn interface(&self) -> &Interface;

    /// What it is called.
    fn name(&self) -> &str {
        &self.interface().name
    }

    /// What it takes, in the order of [`Self::run`].
    fn inputs(&self) -> &[Port] {
        &self.interface().inputs
    }

    /// What it gives, in the order of [`Self::run`].
    fn outputs(&self) -> &[Port] {
        &self.interface().outputs
    }

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

    /// Where its operations run.
    ///
    /// # Errors
    /// [`RuntimeError`] where the runtime cannot tell.
    fn placement(&self) -> Result<Placement, RuntimeError>;

    /// How many outputs of [`Self::run_tensors`] so far were copied, because the runtime had put them elsewhere.
    fn copied_outputs(&self) -> u64 {
        0
    }
}

/// What a program takes and gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// What the program is called.
    pub name: String,
    /// In the order of [`LoadedProgram::run`].
    pub inputs: Vec<Port>,
    /// In the order of [`LoadedProgram::run`].
    pub outputs: Vec<Port>,
}

impl Interface {
    /// That of a program.
    #[must_use]
    pub fn of(program: &Program) -> Self {
        let port = |id: &ValueId| {
            let value = program.value(*id);
            Port {
                name: value.name.clone(),
                shape: value.tensor_type.shape.clone(),
            }
        };
        Self {
            name: program.name.clone(),
            inputs: program.inputs.iter().map(port).collect(),
            outputs: program.outputs.iter().map(port).collect(),
        }
    }

    /// Whether views are as many as the ports, each of its port's shape.
    fn check(&self, inputs: &[View<'_>], outputs: &[ViewMut<'_>]) -> Result<(), RuntimeError> {
        check_shapes("inputs", &self.inputs, inputs.iter().map(View::shape))?;
        check_shapes("outputs", &self.outputs, outputs.iter().map(ViewMut::shape))
    }
}

/// An input or output of a program, in half precision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Something did not end in time. It may still be at work.
    Timeout {
        /// What, as the beginning of a sentence: `Loading layer0`.
        what: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The system could not do something.
    Failed {
        /// What, as the beginning of a sentence.
        what: String,
        /// What the system said.
        said: String,
    },
    /// An earlier run did not end in time, so that nothing more is asked of the program.
    Lost {
        /// Its name.
        program: String,
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
            Self::Timeout { what, limit } => write!(f, "{what} took longer than {limit:?}"),
            Self::Failed { what, said } => write!(f, "{what} failed: {said}"),
            Self::Lost { program } => {
                write!(
                    f,
                    "{program} did not end in time before and is not run again"
                )
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
