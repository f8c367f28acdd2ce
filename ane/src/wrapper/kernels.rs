//! Prepared kernels: made, found, listed, removed, loaded.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::prelude::*;

use super::AneError;
use super::programs::{CpuRuntime, Program};
use crate::dflash::build::Options;
use crate::kernels::{self, Entry, Progress, system_compiler};
use crate::runtime::placement::{self, Shares};

create_exception!(
    ane,
    CorruptKernels,
    AneError,
    "Prepared kernels on the disk are damaged or cannot be read."
);

/// See the stub.
#[pyclass(frozen, get_all, module = "ane")]
pub struct Kernels {
    path: PathBuf,
    key: String,
    hit: bool,
    replaced: Option<String>,
    bytes: u64,
    programs: Vec<String>,
    draft: PathBuf,
    precision: &'static str,
    width: usize,
    context: usize,
    runtime: String,
    relative_errors: BTreeMap<String, f64>,
    kept_fp16: Vec<String>,
    factors: BTreeMap<String, f32>,
    seconds: BTreeMap<String, f64>,
    created_s: f64,
    last_used_s: f64,
}

impl Kernels {
    fn new(entry: Entry, hit: bool, replaced: Option<String>) -> Self {
        let (
            key,
            Entry {
                path,
                manifest,
                bytes,
                last_used_s,
            },
        ) = (entry.key(), entry);
        Self {
            path,
            key,
            hit,
            replaced,
            bytes,
            programs: manifest.programs.into_iter().map(|it| it.name).collect(),
            draft: manifest.draft,
            precision: manifest.parts.precision.name(),
            width: manifest.parts.width,
            context: manifest.parts.context,
            runtime: manifest.parts.runtime,
            relative_errors: manifest.relative_errors,
            kept_fp16: manifest.kept_fp16.into_iter().collect(),
            factors: manifest.factors,
            seconds: manifest.seconds,
            created_s: manifest.created_s,
            last_used_s,
        }
    }
}

/// See the stub.
#[pyclass(frozen, get_all, module = "ane")]
pub struct DamagedKernels {
    path: PathBuf,
    key: String,
    bytes: u64,
    problem: String,
}

/// See the stub.
#[pyclass(frozen, get_all, module = "ane")]
pub struct Placement {
    program: String,
    operations: usize,
    neural_engine: f64,
    gpu: f64,
    cpu: f64,
}

impl Placement {
    pub(super) fn new(program: String, placement: &placement::Placement) -> Self {
        let Shares {
            operations,
            neural_engine,
            gpu,
            cpu,
        } = placement.shares();
        Self {
            program,
            operations,
            neural_engine,
            gpu,
            cpu,
        }
    }
}

#[pyfunction]
#[pyo3(signature = (draft, cache, *, precision = "w8a16", width = 64, context = 2048, progress = None))]
pub fn compile_kernels(
    py: Python<'_>,
    draft: PathBuf,
    cache: PathBuf,
    precision: &str,
    width: usize,
    context: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Kernels> {
    let options = Options {
        precision: precision.parse()?,
        width,
        context,
    };
    let mut raised = None;
    let mut announce = |told: &Progress<'_>| {
        let answered = Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = &progress else {
                return Ok(());
            };
            let Progress {
                stage,
                program,
                done,
                total,
                seconds,
            } = *told;
            progress.call1(py, (stage.name(), program, done, total, seconds))?;
            Ok(())
        });
        match answered {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let compiled =
        py.detach(|| kernels::compile(&draft, &cache, options, &*system_compiler(), &mut announce));
    match (raised, compiled) {
        (Some(error), _) => Err(error),
        (None, compiled) => {
            let compiled = compiled?;
            Ok(Kernels::new(
                compiled.entry,
                compiled.hit,
                compiled.replaced,
            ))
        }
    }
}

#[pyfunction]
pub fn list_kernels(py: Python<'_>, cache: PathBuf) -> PyResult<Vec<Py<PyAny>>> {
    let entries = py.detach(|| kernels::list(&cache))?;
    let objects = entries.into_iter().map(|entry| match entry {
        Ok(entry) => Ok(Py::new(py, Kernels::new(entry, true, None))?.into_any()),
        Err(damaged) => {
            let kernels::Damaged {
                key,
                path,
                bytes,
                problem,
            } = damaged;
            let problem = format!("{problem}.");
            let damaged = DamagedKernels {
                path,
                key,
                bytes,
                problem,
            };
            Ok(Py::new(py, damaged)?.into_any())
        }
    });
    objects.collect()
}

#[pyfunction]
#[pyo3(signature = (cache, keys = None))]
pub fn remove_kernels(py: Python<'_>, cache: PathBuf, keys: Option<Vec<String>>) -> PyResult<u64> {
    Ok(py.detach(|| kernels::remove(&cache, keys.as_deref()))?)
}

#[pyfunction]
pub fn load_kernels(py: Python<'_>, kernels: &Kernels, cpu: &CpuRuntime) -> PyResult<Vec<Program>> {
    let loaded = py.detach(|| kernels::load(&kernels.path, &cpu.runtime))?;
    Ok(loaded.into_iter().map(Program::new).collect())
}

#[pyfunction]
pub fn place_kernels(py: Python<'_>, kernels: &Kernels) -> PyResult<Vec<Placement>> {
    let placed = py.detach(|| kernels::place(&kernels.path))?;
    let placements = placed
        .into_iter()
        .map(|(program, placement)| Placement::new(program, &placement));
    Ok(placements.collect())
}

#[pyfunction]
pub fn system_runtime() -> &'static str {
    system_compiler().runtime()
}
