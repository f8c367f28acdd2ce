//! Programs that are ready to run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::AneError;
use super::kernels::Placement;
use crate::dflash::Draft;
use crate::dflash::build::{Options, Upcoming, each_program};
use crate::dflash::weights::Loader;
use crate::draft::SharedProgram;
use crate::runtime::host_buffer::{self, HostBuffer};
use crate::runtime::{LoadedProgram, Port, Runtime, RuntimeError, cpu};

/// See the stub.
#[pyclass(frozen, module = "ane")]
pub struct CpuRuntime {
    pub(super) runtime: cpu::CpuRuntime,
}

#[pymethods]
impl CpuRuntime {
    #[new]
    #[pyo3(signature = (threads = 1))]
    fn new(threads: usize) -> PyResult<Self> {
        Ok(Self {
            runtime: cpu::CpuRuntime::new(check_threads(threads)?),
        })
    }

    #[getter]
    fn threads(&self) -> usize {
        self.runtime.threads()
    }

    #[setter]
    fn set_threads(&self, py: Python<'_>, value: usize) -> PyResult<()> {
        let threads = check_threads(value)?;
        py.detach(|| self.runtime.set_threads(threads));
        Ok(())
    }

    #[pyo3(signature = (draft, *, precision = "w8a16", width = 64, context = 2048))]
    fn load(
        &self,
        py: Python<'_>,
        draft: PathBuf,
        precision: &str,
        width: usize,
        context: usize,
    ) -> PyResult<Vec<Program>> {
        let options = Options {
            precision: precision.parse()?,
            width,
            context,
        };
        py.detach(|| {
            let draft = Draft::open(&draft)?;
            options.check(&draft)?;
            let mut programs = vec![];
            let mut loader = Loader::new(&draft, options.precision);
            each_program(&draft, &mut loader, options, &mut |upcoming, _| {
                if let Upcoming::Program(program) = upcoming {
                    programs.push(Program::new(self.runtime.load(&program)?));
                }
                Ok(())
            })?;
            Ok(programs)
        })
    }
}

fn check_threads(threads: usize) -> PyResult<usize> {
    match threads {
        1..=MOST_THREADS => Ok(threads),
        _ => Err(AneError::new_err(format!(
            "There must be 1 to {MOST_THREADS} threads, not {threads}."
        ))),
    }
}

const MOST_THREADS: usize = 1024;

/// See the stub.
#[pyclass(frozen, module = "ane")]
pub struct Program {
    name: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    pub(super) loaded: SharedProgram,
}

impl Program {
    pub(super) fn new(loaded: Box<dyn LoadedProgram>) -> Self {
        Self {
            name: loaded.name().into(),
            inputs: loaded.inputs().to_vec(),
            outputs: loaded.outputs().to_vec(),
            loaded: Arc::new(Mutex::new(loaded)),
        }
    }
}

#[pymethods]
impl Program {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        shapes(py, &self.inputs)
    }

    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        shapes(py, &self.outputs)
    }

    fn run(
        &self,
        py: Python<'_>,
        inputs: BTreeMap<String, Bound<'_, PyAny>>,
        outputs: BTreeMap<String, Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let inputs = lend("inputs", &self.inputs, &inputs, false)?;
        let mut outputs = lend("outputs", &self.outputs, &outputs, true)?;
        let ran = py.detach(|| {
            // A program is whole also after a panic: every run fills its memory anew.
            let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            host_buffer::run(&mut **loaded, &inputs, &mut outputs)
        });
        ran.map_err(|problem| AneError::new_err(format!("{problem}.")))
    }

    fn placement(&self, py: Python<'_>) -> PyResult<Placement> {
        let placed = py.detach(|| placement(&self.loaded));
        placed.map_err(|error| AneError::new_err(format!("{error}.")))
    }
}

/// Where it runs. Called without Python's lock, since the program may be at work.
pub(super) fn placement(program: &SharedProgram) -> Result<Placement, RuntimeError> {
    let program = program.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Placement::new(program.name().into(), &program.placement()?))
}

fn shapes<'py>(py: Python<'py>, ports: &[Port]) -> PyResult<Bound<'py, PyDict>> {
    let shapes = PyDict::new(py);
    for port in ports {
        shapes.set_item(&port.name, PyTuple::new(py, &port.shape)?)?;
    }
    Ok(shapes)
}

/// Buffers in the order of the ports.
fn lend(
    what: &str,
    ports: &[Port],
    objects: &BTreeMap<String, Bound<'_, PyAny>>,
    writable: bool,
) -> PyResult<Vec<HostBuffer>> {
    let known = ports.iter().all(|port| objects.contains_key(&port.name));
    if !known || objects.len() != ports.len() {
        let names: Vec<_> = ports.iter().map(|port| &port.name).collect();
        let given: Vec<_> = objects.keys().collect();
        return Err(AneError::new_err(format!(
            "The {what} must be {names:?}, not {given:?}."
        )));
    }
    let lent = ports.iter().map(|Port { name, .. }| {
        HostBuffer::lend(&objects[name], writable)?
            .map_err(|problem| AneError::new_err(format!("The buffer of {name} {problem}.")))
    });
    lent.collect()
}
