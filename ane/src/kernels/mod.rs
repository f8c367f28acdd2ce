//! Prepared kernels: a draft's programs kept on the disk, so that they are made once.
//!
//! A cache is a folder with one folder an entry, called after its key. An entry appears whole or not at all. Its maker holds a
//! lock that ends with the process, so of several that want the same key one makes it and the others wait for it.

mod cache;
mod compiler;
#[cfg(target_os = "macos")]
mod core_ml;
mod entry;
mod files;
mod key;
mod load;
mod lock;
mod watch;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;

pub use cache::{Damaged, list, remove};
pub use compiler::{Compiler, Portable, system_compiler};
pub use entry::{Check, Entry, Manifest};
pub use key::KeyParts;
pub use load::{load, place};
pub use watch::{Progress, Stage};

use crate::dflash::Draft;
use crate::dflash::build::{INGEST_ROWS, Options, Upcoming, each_program};
use crate::dflash::weights::Loader;
use crate::errors::Error;
use crate::mil::package::write_package;
use crate::runtime::Interface;
use crate::scratch::Scratch;
use cache::Cache;
use key::Fingerprint;
use watch::Watch;

/// What [`compile`] found or made.
pub struct Compiled {
    /// The entry.
    pub entry: Entry,
    /// Whether it was there already.
    pub hit: bool,
    /// What was wrong with the one that it replaced.
    pub replaced: Option<String>,
}

/// The prepared kernels of the draft in `folder`, made where the cache in `cache` does not have them.
///
/// `progress` is told when a stage begins, and about every tenth of a second while one looks for a word to stop; it may stop
/// the work. Then, and after any error or the end of the process, nothing but what was there before remains, or a hidden folder
/// that the next one to compile removes.
///
/// # Errors
/// [`Error`], of every kind but [`Error::Damaged`]: a damaged entry is replaced.
pub fn compile(
    folder: &Path,
    cache: &Path,
    options: Options,
    compiler: &dyn Compiler,
    progress: &mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
) -> Result<Compiled, Error> {
    let draft = Draft::open(folder)?;
    options.check(&draft)?;
    let programs = INGEST_ROWS.len() + draft.config.num_hidden_layers;
    let mut watch = Watch::new(programs, compiler.compiles(), progress);
    let cache = Cache::open(cache)?;
    watch.begin(Stage::Hash, "")?;
    let fingerprint = Fingerprint::of(&draft, &cache, &mut watch)?;
    let parts = KeyParts::new(&fingerprint, options, compiler)?;
    let key = parts.key();
    let found = |entry, watch: &mut Watch<'_>| {
        watch.end()?;
        Ok(Compiled {
            entry,
            hit: true,
            replaced: None,
        })
    };
    if let Ok(Some(entry)) = cache.find(&key) {
        return found(entry, &mut watch);
    }
    let mut waiting = false;
    let lock = cache.lock(&key, &mut || {
        if waiting {
            return watch.tick();
        }
        waiting = true;
        watch.begin(Stage::Wait, "")
    })?;
    let replaced = match cache.find(&key) {
        Ok(Some(entry)) => return found(entry, &mut watch),
        Ok(None) => None,
        Err(Error::Damaged { path, problem }) => {
            cache.discard(&key)?;
            Some(format!("{}: {problem}", path.display()))
        }
        Err(error) => return Err(error),
    };
    cache.sweep(Some(&key))?;
    let entry = make(
        &draft,
        &cache,
        options,
        parts,
        compiler,
        &fingerprint,
        &mut watch,
    )?;
    drop(lock);
    Ok(Compiled {
        entry,
        hit: false,
        replaced,
    })
}

fn make(
    draft: &Draft,
    cache: &Cache,
    options: Options,
    parts: KeyParts,
    compiler: &dyn Compiler,
    fingerprint: &Fingerprint,
    watch: &mut Watch<'_>,
) -> Result<Entry, Error> {
    let path = cache.path(&parts.key());
    let failed = |source| cache.failed(source);
    let scratch = Scratch::beside(&path).map_err(failed)?;
    let watch = RefCell::new(watch); // for the loader, and for what it is asked in between
    let tick = || watch.borrow_mut().tick();
    let begin = |stage, program: &str| watch.borrow_mut().begin(stage, program);
    let mut loader = Loader::new(draft, options.precision).ticking(&tick);
    let mut programs = vec![];
    let mut name = String::new();
    let mut tell = |upcoming: Upcoming<'_>, _| match upcoming {
        Upcoming::Name(upcoming) => {
            name = upcoming.into();
            begin(Stage::Quantise, upcoming)
        }
        Upcoming::Weights => begin(Stage::Build, &name),
        Upcoming::Program(program) => {
            begin(Stage::Write, &name)?;
            let package = scratch.folder().join(package_name(&program.name));
            write_package(&program, &package).map_err(failed)?;
            if compiler.compiles() {
                begin(Stage::Compile, &name)?;
                compiler.compile(&package, &mut || tick())?;
            }
            programs.push(Interface::of(&program));
            Ok(())
        }
    };
    each_program(draft, &mut loader, options, &mut tell)?;
    begin(Stage::Seal, "")?;
    fingerprint.check_unchanged()?;
    let manifest = Manifest::of(
        scratch.folder(),
        draft,
        parts,
        programs,
        loader,
        &mut watch.borrow_mut(),
    )?;
    manifest.write(scratch.folder()).map_err(failed)?;
    watch.borrow_mut().end()?;
    scratch.commit().map_err(failed)?;
    Entry::open(&path, Check::Sizes)
}

fn package_name(program: &str) -> String {
    format!("{program}.mlpackage")
}

/// All bytes of the files in `folder`.
fn folder_bytes(folder: &Path) -> u64 {
    files::walk(folder).map_or(0, |files| files.values().sum())
}

#[cfg(test)]
mod tests;
