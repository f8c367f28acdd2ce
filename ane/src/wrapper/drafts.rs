//! Draft folders: what is in them, and their packages.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::prelude::*;

use super::AneError;
use super::kernels::CorruptKernels;
use crate::dflash::Draft;
use crate::dflash::build::{self, Options};
use crate::dflash::config::DraftConfig;
use crate::errors::Error;

create_exception!(
    ane,
    InvalidDraft,
    AneError,
    "A file of a draft is missing, damaged, or describes what cannot be built."
);
create_exception!(
    ane,
    WriteFailed,
    AneError,
    "Packages could not be written to the disk."
);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let sentence = format!("{error}.");
        match error {
            Error::Draft { .. } => InvalidDraft::new_err(sentence),
            Error::Write { .. } => WriteFailed::new_err(sentence),
            Error::Damaged { .. } | Error::Read { .. } => CorruptKernels::new_err(sentence),
            Error::Request(_) | Error::Graph(_) | Error::Runtime(_) | Error::Cancelled => {
                AneError::new_err(sentence)
            }
        }
    }
}

/// See the stub.
#[pyclass(frozen, get_all, module = "ane")]
pub struct DraftInfo {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: usize,
    intermediate_size: usize,
    rms_norm_eps: f32,
    block_size: usize,
    target_layer_ids: Vec<usize>,
    sliding: Vec<bool>,
    sliding_window: Option<usize>,
    is_causal: Option<bool>,
}

impl From<&DraftConfig> for DraftInfo {
    fn from(config: &DraftConfig) -> Self {
        let config = config.clone();
        Self {
            hidden_size: config.hidden_size,
            num_hidden_layers: config.num_hidden_layers,
            num_attention_heads: config.num_attention_heads,
            num_key_value_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            intermediate_size: config.intermediate_size,
            rms_norm_eps: config.rms_norm_eps,
            block_size: config.block_size,
            target_layer_ids: config.target_layer_ids,
            sliding: config.sliding,
            sliding_window: config.sliding_window,
            is_causal: config.is_causal,
        }
    }
}

/// See the stub.
#[pyclass(frozen, get_all, module = "ane")]
pub struct Package {
    program: String,
    path: PathBuf,
    bytes: u64,
}

/// See the stub.
#[pyclass(frozen, get_all, module = "ane")]
pub struct BuildReport {
    packages: Vec<Py<Package>>,
    relative_errors: BTreeMap<String, f64>,
    kept_fp16: Vec<String>,
    factors: BTreeMap<String, f32>,
}

#[pyfunction]
pub fn inspect_draft(py: Python<'_>, folder: PathBuf) -> PyResult<DraftInfo> {
    Ok(DraftInfo::from(&py.detach(|| Draft::open(&folder))?.config))
}

#[pyfunction]
#[pyo3(signature = (draft, out, *, precision = "w8a16", width = 64, context = 2048, progress = None))]
pub fn build_packages(
    py: Python<'_>,
    draft: PathBuf,
    out: PathBuf,
    precision: &str,
    width: usize,
    context: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<BuildReport> {
    let options = Options {
        precision: precision.parse()?,
        width,
        context,
    };
    let mut raised = None;
    let mut announce = |name: &str, done: usize, total: usize| {
        let Some(progress) = &progress else {
            return ControlFlow::Continue(());
        };
        match Python::attach(|py| progress.call1(py, (name, done, total))) {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let built = py.detach(|| {
        let draft = Draft::open(&draft)?;
        build::build_packages(&draft, &out, options, &mut announce)
    });
    if let Some(error) = raised {
        return Err(error);
    }
    let report = built?;
    let packages = report.packages.into_iter().map(|package| {
        let build::Package {
            program,
            path,
            bytes,
        } = package;
        Py::new(
            py,
            Package {
                program,
                path,
                bytes,
            },
        )
    });
    Ok(BuildReport {
        packages: packages.collect::<PyResult<_>>()?,
        relative_errors: report.relative_errors,
        kept_fp16: report.kept_fp16.into_iter().collect(),
        factors: report.factors,
    })
}
