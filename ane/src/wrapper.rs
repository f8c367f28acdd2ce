//! The Python face of the crate: conversions and nothing else.

mod drafts;
mod kernels;
mod programs;
mod running;

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    ane,
    AneError,
    PyValueError,
    "A value that the crate cannot work with."
);

impl From<crate::taps::InvalidTap> for PyErr {
    fn from(error: crate::taps::InvalidTap) -> Self {
        AneError::new_err(error.to_string())
    }
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::AneError;
    use super::PyResult;
    #[pymodule_export]
    use super::drafts::{
        BuildReport, DraftInfo, InvalidDraft, Package, WriteFailed, build_packages, inspect_draft,
    };
    #[pymodule_export]
    use super::kernels::{
        CorruptKernels, DamagedKernels, Kernels, Placement, compile_kernels, list_kernels,
        load_kernels, place_kernels, remove_kernels, system_runtime,
    };
    #[pymodule_export]
    use super::programs::{CpuRuntime, Program};
    #[pymodule_export]
    use super::running::Draft;
    use pyo3::pyfunction;

    /// The crate's version.
    #[pyfunction]
    fn version() -> &'static str {
        crate::VERSION
    }

    /// The instruction set extensions that CPU kernels may use on this machine.
    #[pyfunction]
    fn cpu_features() -> Vec<&'static str> {
        crate::cpu_features::cpu_features()
    }

    /// The power of two by which a row of taps is multiplied before the cast to fp16.
    #[pyfunction]
    fn tap_scale(largest: f32) -> PyResult<f32> {
        Ok(crate::taps::tap_scale(largest)?)
    }
}
