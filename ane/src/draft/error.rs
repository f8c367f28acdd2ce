//! Why a draft did not run.

use std::error::Error;
use std::fmt;

use crate::runtime::RuntimeError;
use crate::taps::InvalidTap;

/// Whether a shape is the one wanted.
pub(super) fn check(what: &'static str, wanted: &[usize], got: &[usize]) -> Result<(), DraftError> {
    if wanted == got {
        return Ok(());
    }
    Err(DraftError::Shape {
        what,
        wanted: wanted.into(),
        got: got.into(),
    })
}

/// Why a draft did not run. Each displays as one sentence without its full stop.
#[derive(Clone, Debug, PartialEq)]
pub enum DraftError {
    /// Programs of another draft or of other sizes.
    Programs(String),
    /// An argument of another shape.
    Shape {
        /// Which.
        what: &'static str,
        /// Its shape.
        wanted: Vec<usize>,
        /// What came.
        got: Vec<usize>,
    },
    /// No block, or one of more columns than the programs have.
    Columns {
        /// How many there are.
        width: usize,
        /// How many came.
        columns: usize,
    },
    /// A row of taps that is none.
    Tap(InvalidTap),
    /// Rows that entered this layer, or left the last one, have numbers that half precision does not hold.
    NotFinite {
        /// From 0 on.
        layer: usize,
    },
    /// The runtime failed.
    Runtime(RuntimeError),
}

impl fmt::Display for DraftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Programs(problem) => write!(f, "The programs are not this draft's: {problem}"),
            Self::Shape { what, wanted, got } => {
                write!(f, "{what} must be {wanted:?}, not {got:?}")
            }
            Self::Columns { width, columns } => {
                write!(f, "A block has 1 to {width} columns, not {columns}")
            }
            Self::Tap(error) => error.fmt(f),
            Self::NotFinite { layer } => {
                write!(
                    f,
                    "Half precision does not hold the draft's rows before layer {layer}"
                )
            }
            Self::Runtime(error) => error.fmt(f),
        }
    }
}

impl Error for DraftError {}

impl From<RuntimeError> for DraftError {
    fn from(error: RuntimeError) -> Self {
        Self::Runtime(error)
    }
}

impl From<InvalidTap> for DraftError {
    fn from(error: InvalidTap) -> Self {
        Self::Tap(error)
    }
}
