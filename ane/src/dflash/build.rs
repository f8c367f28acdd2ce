//! All packages of a draft.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::Draft;
use super::ingest::ingest_program;
use super::layer::layer_program;
use super::weights::Loader;
use crate::errors::Error;
use crate::mil::graph::Program;
use crate::mil::package::write_package;
use crate::quantize::Precision;
use crate::scratch::Scratch;

/// Rows of the ingest programs: a step of decoding, and a prompt.
pub const INGEST_ROWS: [usize; 2] = [32, 256];
/// Columns that a layer's program may have.
pub const WIDTHS: [usize; 3] = [16, 32, 64];
/// Positions of context that a layer's program may have; the smallest is for tests.
pub const CONTEXTS: [usize; 3] = [512, 2048, 4096];

/// Goes up with every change that gives a draft other packages: prepared kernels are only used by the builder that made them.
pub const BUILDER_VERSION: u32 = 1;

/// What is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How weights are kept.
    pub precision: Precision,
    /// Columns of the layers' programs, one of [`WIDTHS`].
    pub width: usize,
    /// Positions of context, one of [`CONTEXTS`].
    pub context: usize,
}

impl Options {
    /// # Errors
    /// [`Error::Request`] where the programs do not come in this size, or a block of `draft` does not fit into it.
    pub fn check(&self, draft: &Draft) -> Result<(), Error> {
        let block = draft.config.block_size;
        let problem = if !WIDTHS.contains(&self.width) {
            format!(
                "{} is no width of a program: choose one of {WIDTHS:?}",
                self.width
            )
        } else if !CONTEXTS.contains(&self.context) {
            format!(
                "{} is no size of a context: choose one of {CONTEXTS:?}",
                self.context
            )
        } else if block > self.width {
            format!(
                "The draft's blocks have {block} rows, more than a program of width {}",
                self.width
            )
        } else {
            return Ok(());
        };
        Err(Error::Request(problem))
    }
}

/// A package that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The program in it.
    pub program: String,
    /// The folder.
    pub path: PathBuf,
    /// All files in it.
    pub bytes: u64,
}

/// What was built.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// In order of use: ingest, then the layers.
    pub packages: Vec<Package>,
    /// By tensor: root of squared errors over squared weights.
    pub relative_errors: BTreeMap<String, f64>,
    /// Tensors that stay in half precision because 8 bits would change them too much.
    pub kept_fp16: BTreeSet<String>,
    /// By tensor: the power of two that its inputs are multiplied by and that it undoes, where that is not 1.
    pub factors: BTreeMap<String, f32>,
}

/// Write all programs of `draft` into the folder `out`, which appears whole or not at all.
///
/// Before each program, and at the end, `progress` is told its name (at the end, none), how many are done and how many there
/// are. It may stop the build.
///
/// # Errors
/// [`Error`], of every kind.
pub fn build_packages(
    draft: &Draft,
    out: &Path,
    options: Options,
    progress: &mut dyn FnMut(&str, usize, usize) -> ControlFlow<()>,
) -> Result<Report, Error> {
    options.check(draft)?;
    let failed = |source: io::Error| Error::Write {
        folder: out.into(),
        source,
    };
    let scratch = Scratch::beside(out).map_err(failed)?;
    let total = INGEST_ROWS.len() + draft.config.num_hidden_layers;
    let mut loader = Loader::new(draft, options.precision);
    let mut packages = vec![];
    let mut announce = |name: &str, done: usize| match progress(name, done, total) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    };
    let mut write = |program: &Program| {
        let file = format!("{}.mlpackage", program.name);
        let folder = scratch.folder().join(&file);
        write_package(program, &folder).map_err(failed)?;
        packages.push(Package {
            program: program.name.clone(),
            path: out.join(file),
            bytes: folder_bytes(&folder).map_err(failed)?,
        });
        Ok::<_, Error>(())
    };

    each_program(
        draft,
        &mut loader,
        options,
        &mut |program, done| match program {
            Upcoming::Name(name) => announce(name, done),
            Upcoming::Weights => Ok(()),
            Upcoming::Program(program) => write(&program),
        },
    )?;
    announce("", total)?;
    scratch.commit().map_err(failed)?;
    Ok(Report {
        packages,
        relative_errors: loader.relative_errors,
        kept_fp16: loader.kept_fp16,
        factors: loader.factors,
    })
}

/// What [`each_program`] tells.
pub enum Upcoming<'a> {
    /// The next program is about to be made. A layer's name comes without its sizes.
    Name(&'a str),
    /// Its weights are read and converted; the graph comes next.
    Weights,
    /// Here it is.
    Program(Program),
}

/// Make all programs of a draft, one after the other, in order of use. `tell` gets the name of each before it is made and then
/// the program itself, with how many came before it.
///
/// # Errors
/// [`Error::Draft`] where the weights cannot be read, and those of `tell`.
pub fn each_program(
    draft: &Draft,
    loader: &mut Loader<'_>,
    options: Options,
    tell: &mut dyn FnMut(Upcoming<'_>, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut ingest = None;
    for (done, rows) in INGEST_ROWS.into_iter().enumerate() {
        tell(Upcoming::Name(&format!("ingest_r{rows}")), done)?;
        let weights = match ingest.take() {
            Some(weights) => weights,
            None => loader.ingest()?,
        };
        tell(Upcoming::Weights, done)?;
        let program = ingest_program(&draft.config, &weights, rows)?;
        tell(Upcoming::Program(program), done)?;
        ingest = Some(weights);
    }
    drop(ingest);
    for layer in 0..draft.config.num_hidden_layers {
        let done = INGEST_ROWS.len() + layer;
        tell(Upcoming::Name(&format!("layer{layer}")), done)?;
        let weights = loader.layer(layer)?;
        tell(Upcoming::Weights, done)?;
        let Options { width, context, .. } = options;
        let program = layer_program(&draft.config, &weights, layer, width, context)?;
        tell(Upcoming::Program(program), done)?;
    }
    Ok(())
}

fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            folder_bytes(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}
