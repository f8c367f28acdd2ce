//! What can go wrong between a draft folder and its packages.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::mil::graph::GraphError;
use crate::runtime::RuntimeError;

/// Why there is no result. Each displays as one sentence without its full stop.
#[derive(Debug)]
pub enum Error {
    /// A file of the draft is missing, damaged, or describes what cannot be built.
    Draft {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A request that no draft could meet.
    Request(String),
    /// An operation does not fit its operands.
    Graph(GraphError),
    /// The packages could not be written.
    Write {
        /// Where they were to go.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A prepared kernel on the disk is not as it was written.
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system did not let a file be read, which may be sound.
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What the system, or a runtime, could not do with a program.
    Runtime(RuntimeError),
    /// The caller asked to stop.
    Cancelled,
}

impl Error {
    /// A problem with a file of the draft.
    pub(crate) fn draft(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Draft {
            path: path.into(),
            problem: problem.into(),
        }
    }

    /// A problem with prepared kernels.
    pub(crate) fn damaged(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.into(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draft { path, problem } => {
                write!(
                    f,
                    "The draft cannot be built from {}: {problem}",
                    path.display()
                )
            }
            Self::Request(problem) => f.write_str(problem),
            Self::Graph(error) => write!(f, "The draft has no valid program: {error}"),
            Self::Write { folder, source } if source.kind() == io::ErrorKind::AlreadyExists => {
                write!(f, "{} exists and is not empty", folder.display())
            }
            Self::Write { folder, source } => {
                write!(
                    f,
                    "The packages cannot be written to {}: {source}",
                    folder.display()
                )
            }
            Self::Damaged { path, problem } => {
                write!(
                    f,
                    "The prepared kernels are damaged: {}: {problem}",
                    path.display()
                )
            }
            Self::Read { path, source } => {
                write!(f, "{} cannot be read: {source}", path.display())
            }
            Self::Runtime(error) => error.fmt(f),
            Self::Cancelled => f.write_str("The build was cancelled"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Graph(error) => Some(error),
            Self::Runtime(error) => Some(error),
            Self::Write { source, .. } | Self::Read { source, .. } => Some(source),
            Self::Draft { .. } | Self::Request(_) | Self::Damaged { .. } | Self::Cancelled => None,
        }
    }
}

impl From<GraphError> for Error {
    fn from(error: GraphError) -> Self {
        Self::Graph(error)
    }
}

impl From<RuntimeError> for Error {
    fn from(error: RuntimeError) -> Self {
        Self::Runtime(error)
    }
}
