//! The Python face of the crate: conversions and nothing else.

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    /// The crate's version.
    #[pyfunction]
    fn version() -> &'static str {
        crate::VERSION
    }
}
