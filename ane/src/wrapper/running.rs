//! A draft at work.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use super::AneError;
use super::drafts::DraftInfo;
use super::kernels::Placement;
use super::programs::{self, Program};
use crate::buffer::{View, ViewMut};
use crate::dflash;
use crate::draft::{Block, DraftError, RunningDraft, SharedProgram};
use crate::runtime::host_buffer::{self, HostBuffer, with_views};

/// See the stub.
#[pyclass(frozen, module = "ane")]
pub struct Draft {
    #[pyo3(get)]
    info: Py<DraftInfo>,
    #[pyo3(get)]
    width: usize,
    #[pyo3(get)]
    context: usize,
    programs: Vec<SharedProgram>,
    running: Mutex<RunningDraft>,
}

impl Draft {
    /// To be called without Python's lock, which another run may need to end.
    fn lock(&self) -> MutexGuard<'_, RunningDraft> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Do `work` on views of Python's memory, without its lock.
    fn with_memory(
        &self,
        py: Python<'_>,
        read: &[HostBuffer],
        written: &mut [HostBuffer],
        work: impl FnOnce(&mut RunningDraft, &[View<'_>], &mut [ViewMut<'_>]) -> Result<(), DraftError>
        + Send,
    ) -> PyResult<()> {
        let done = py.detach(|| {
            with_views(read, written, |views, written| {
                work(&mut self.lock(), views, written).map_err(|error| error.to_string())
            })
        });
        done.and_then(|worked| worked)
            .map_err(|problem| AneError::new_err(format!("{problem}.")))
    }
}

#[pymethods]
impl Draft {
    #[new]
    fn new(py: Python<'_>, folder: PathBuf, programs: Vec<PyRef<'_, Program>>) -> PyResult<Self> {
        let loaded: Vec<_> = programs
            .iter()
            .map(|program| program.loaded.clone())
            .collect();
        let running = py.detach(|| {
            let config = dflash::Draft::open(&folder)?.config;
            RunningDraft::new(config, &loaded).map_err(failed)
        })?;
        Ok(Self {
            info: Py::new(py, DraftInfo::from(running.config()))?,
            width: running.width(),
            context: running.context(),
            programs: loaded,
            running: Mutex::new(running),
        })
    }

    #[getter]
    fn length(&self, py: Python<'_>) -> usize {
        py.detach(|| self.lock().length())
    }

    fn ingest(&self, py: Python<'_>, taps: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let taps = lend("taps", &taps, 2, false)?;
        self.with_memory(py, &taps, &mut [], |draft, taps, _| draft.ingest(taps))
    }

    fn append(
        &self,
        py: Python<'_>,
        keys: Vec<Bound<'_, PyAny>>,
        values: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let count = keys.len();
        let mut lent = lend("keys", &keys, 3, false)?;
        lent.extend(lend("values", &values, 3, false)?);
        self.with_memory(py, &lent, &mut [], |draft, views, _| {
            let (keys, values) = views.split_at(count);
            draft.append(keys, values)
        })
    }

    fn read(
        &self,
        py: Python<'_>,
        first: usize,
        keys: Vec<Bound<'_, PyAny>>,
        values: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let count = keys.len();
        let mut lent = lend("keys", &keys, 3, true)?;
        lent.extend(lend("values", &values, 3, true)?);
        self.with_memory(py, &[], &mut lent, |draft, _, views| {
            let (keys, values) = views.split_at_mut(count);
            let positions = keys.first().map_or(0, |view| view.shape()[2]);
            draft.read(first..first.saturating_add(positions), keys, values)
        })
    }

    fn trim_to(&self, py: Python<'_>, length: usize) {
        py.detach(|| self.lock().trim_to(length));
    }

    #[pyo3(signature = (embeddings, positions, hidden, *, mask = None))]
    fn run(
        &self,
        py: Python<'_>,
        embeddings: Bound<'_, PyAny>,
        positions: Vec<usize>,
        hidden: Bound<'_, PyAny>,
        mask: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let seen = mask.map(|mask| host_buffer::flags(&mask)).transpose()?;
        let seen = seen
            .transpose()
            .map_err(|problem| AneError::new_err(format!("The mask {problem}.")))?;
        let embeddings = lend("embeddings", &[embeddings], 2, false)?;
        let mut hidden = lend("hidden", &[hidden], 2, true)?;
        let block = Block {
            positions: &positions,
            seen: seen.as_deref(),
        };
        self.with_memory(py, &embeddings, &mut hidden, |draft, views, written| {
            draft.run(&views[0], &block, &mut written[0])
        })
    }

    fn placement(&self, py: Python<'_>) -> PyResult<Vec<Placement>> {
        let placed = py.detach(|| -> Result<_, DraftError> {
            let placements = self.programs.iter().map(programs::placement);
            Ok(placements.collect::<Result<_, _>>()?)
        });
        placed.map_err(failed)
    }

    fn rows(&self, py: Python<'_>, layer: usize, rows: Bound<'_, PyAny>) -> PyResult<()> {
        let mut lent = lend("rows", &[rows], 2, true)?;
        self.with_memory(py, &[], &mut lent, |draft, _, written| {
            draft.rows(layer, &mut written[0])
        })
    }
}

fn failed(error: DraftError) -> PyErr {
    AneError::new_err(format!("{error}."))
}

/// The memory of objects with so many axes.
fn lend(
    what: &str,
    objects: &[Bound<'_, PyAny>],
    axes: usize,
    writable: bool,
) -> PyResult<Vec<HostBuffer>> {
    let lent = objects.iter().map(|object| {
        HostBuffer::lend(object, writable)?
            .and_then(|buffer| match buffer.axes() {
                found if found == axes => Ok(buffer),
                found => Err(format!("has {found} axes, not {axes}")),
            })
            .map_err(|problem| AneError::new_err(format!("A buffer of {what} {problem}.")))
    });
    lent.collect()
}
