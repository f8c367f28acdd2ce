//! Progress, the word to stop, and the time that stages take.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::errors::Error;

/// How often progress is told within a stage.
const PAUSE: Duration = Duration::from_millis(100);

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The draft's files are read for the key, unless they are known.
    Hash,
    /// Another process makes the same entry.
    Wait,
    /// Weights of a program are read and converted.
    Quantise,
    /// Its graph is built.
    Build,
    /// Its package is written.
    Write,
    /// The system compiles it.
    Compile,
    /// The files are read for their checksums.
    Seal,
    /// The end.
    Done,
}

impl Stage {
    /// In small letters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Wait => "wait",
            Self::Quantise => "quantise",
            Self::Build => "build",
            Self::Write => "write",
            Self::Compile => "compile",
            Self::Seal => "seal",
            Self::Done => "done",
        }
    }
}

/// How far the work is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// What is being done.
    pub stage: Stage,
    /// With which program; empty where it is about none. A layer's name comes without its sizes.
    pub program: &'a str,
    /// Steps that are done: one a stage and program, and one for the checksums.
    pub done: usize,
    /// How many there are.
    pub total: usize,
    /// Seconds since the work began.
    pub seconds: f64,
}

/// Tells progress and keeps the time.
pub struct Watch<'a> {
    tell: &'a mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
    stage: Stage,
    program: String,
    done: usize,
    total: usize,
    began: Instant,
    stage_began: Instant,
    told: Instant,
    /// By stage, without the present one.
    seconds: BTreeMap<String, f64>,
}

impl<'a> Watch<'a> {
    /// The work begins.
    pub fn new(
        programs: usize,
        compiles: bool,
        tell: &'a mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
    ) -> Self {
        let now = Instant::now();
        Self {
            tell,
            stage: Stage::Hash,
            program: String::new(),
            done: 0,
            total: programs * if compiles { 4 } else { 3 } + 1,
            began: now,
            stage_began: now,
            told: now,
            seconds: BTreeMap::new(),
        }
    }

    /// A stage begins, and the one before it has ended.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn begin(&mut self, stage: Stage, program: &str) -> Result<(), Error> {
        self.count();
        (self.stage, self.program) = (stage, program.into());
        self.announce()
    }

    /// For long stages: tell progress where it has not been told for a while.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn tick(&mut self) -> Result<(), Error> {
        if self.told.elapsed() < PAUSE {
            return Ok(());
        }
        self.announce()
    }

    /// The work is done.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn end(&mut self) -> Result<(), Error> {
        self.done = self.total;
        self.begin(Stage::Done, "")
    }

    /// By stage, over all programs: what each has taken so far.
    pub fn seconds(&self) -> BTreeMap<String, f64> {
        let mut seconds = self.seconds.clone();
        let present = seconds.entry(self.stage.name().into()).or_default();
        *present += self.stage_began.elapsed().as_secs_f64();
        seconds
    }

    /// The present stage has ended.
    fn count(&mut self) {
        self.seconds = self.seconds();
        self.stage_began = Instant::now();
        if !matches!(self.stage, Stage::Hash | Stage::Wait) && self.done < self.total {
            self.done += 1;
        }
    }

    fn announce(&mut self) -> Result<(), Error> {
        self.told = Instant::now();
        let progress = Progress {
            stage: self.stage,
            program: &self.program,
            done: self.done,
            total: self.total,
            seconds: self.began.elapsed().as_secs_f64(),
        };
        match (self.tell)(&progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }
}
