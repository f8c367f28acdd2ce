//! Waiting for what another thread answers, but not for ever.

use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::RuntimeError;

/// How long calls may take before they count as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Compiling one package.
    pub compile: Duration,
    /// Loading one compiled program. The first time after a compilation, the system specialises it for the device.
    pub load: Duration,
    /// Asking where the operations of one program run.
    pub plan: Duration,
    /// One run.
    pub run: Duration,
}

impl Default for Limits {
    /// Large programs have been seen to take 9 minutes to specialise (argmaxinc/argmax-oss-swift, issue 309), and ours are
    /// smaller. A run takes milliseconds.
    fn default() -> Self {
        Self {
            compile: Duration::from_secs(600),
            load: Duration::from_secs(900),
            plan: Duration::from_secs(900),
            run: Duration::from_secs(10),
        }
    }
}

/// How often a wait that can be stopped looks for a word to stop.
const PAUSE: Duration = Duration::from_millis(50);

/// Where an answer goes, from any thread. Only the first one counts; those that come too late are dropped.
pub struct Answer<T>(SyncSender<T>);

impl<T> Answer<T> {
    /// This is it.
    pub fn give(&self, value: T) {
        // An error says that nobody waits any more: see above.
        let _ = self.0.try_send(value);
    }
}

/// Start something that gives an [`Answer`], and wait for that. `what` begins the sentence of an error: `Compiling layer0`.
///
/// # Errors
/// [`RuntimeError::Timeout`] after `limit`; [`RuntimeError::Failed`] as soon as it is clear that no answer will come; those of
/// `start`.
pub fn wait<T>(
    what: &str,
    limit: Duration,
    start: impl FnOnce(Answer<T>) -> Result<(), RuntimeError>,
) -> Result<T, RuntimeError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    start(Answer(sender))?;
    receiver
        .recv_timeout(limit)
        .map_err(|error| no_answer(what, limit, error))
}

/// As [`wait`], and calls `tick` about twenty times a second, whose error ends the wait. What was started goes on then.
///
/// # Errors
/// As [`wait`], and those of `tick`.
pub fn wait_ticking<T, E: From<RuntimeError>>(
    what: &str,
    limit: Duration,
    tick: &mut dyn FnMut() -> Result<(), E>,
    start: impl FnOnce(Answer<T>) -> Result<(), RuntimeError>,
) -> Result<T, E> {
    let (sender, receiver) = mpsc::sync_channel(1);
    start(Answer(sender))?;
    let began = Instant::now();
    loop {
        let left = limit.saturating_sub(began.elapsed());
        match receiver.recv_timeout(left.min(PAUSE)) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) if left > PAUSE => tick()?,
            Err(error) => return Err(no_answer(what, limit, error).into()),
        }
    }
}

fn no_answer(what: &str, limit: Duration, error: RecvTimeoutError) -> RuntimeError {
    match error {
        RecvTimeoutError::Timeout => RuntimeError::Timeout {
            what: what.into(),
            limit,
        },
        RecvTimeoutError::Disconnected => RuntimeError::Failed {
            what: what.into(),
            said: "it ended without an answer".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::{Answer, wait, wait_ticking};
    use crate::runtime::RuntimeError;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn an_answer_of_another_thread_or_of_the_caller_itself_is_returned() {
        let other = wait("Adding", LONG, |answer| {
            thread::spawn(move || answer.give(3));
            Ok(())
        });
        assert_eq!(other, Ok(3));
        let own = wait("Adding", LONG, |answer| {
            answer.give(4);
            Ok(())
        });
        assert_eq!(own, Ok(4));
    }

    #[test]
    fn the_first_answer_counts() {
        let first = wait("Adding", LONG, |answer| {
            answer.give(1);
            answer.give(2);
            Ok(())
        });
        assert_eq!(first, Ok(1));
    }

    #[test]
    fn no_answer_in_time_is_an_error_and_a_late_one_is_dropped() {
        let (keep, kept) = mpsc::channel();
        let error = wait("Loading layer0", SHORT, |answer: Answer<Arc<()>>| {
            keep.send(answer).unwrap();
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "Loading layer0 took longer than 1ms");
        let late = Arc::new(());
        kept.recv().unwrap().give(Arc::clone(&late));
        assert_eq!(Arc::strong_count(&late), 1);
    }

    #[test]
    fn who_is_gone_without_an_answer_is_not_waited_for() {
        let error = wait("Loading layer0", LONG, |answer: Answer<()>| {
            drop(answer);
            Ok(())
        })
        .unwrap_err();
        assert!(matches!(error, RuntimeError::Failed { .. }));
        assert_eq!(
            error.to_string(),
            "Loading layer0 failed: it ended without an answer"
        );
    }

    #[test]
    fn a_wait_can_be_stopped_and_the_late_answer_is_dropped() {
        let (keep, kept) = mpsc::channel();
        let stopped = RuntimeError::Lost {
            program: "p".into(),
        };
        let mut ticks = 0;
        let mut tick = || {
            ticks += 1;
            if ticks == 2 {
                Err(stopped.clone())
            } else {
                Ok(())
            }
        };
        let error = wait_ticking("Compiling p", LONG, &mut tick, |answer: Answer<Arc<()>>| {
            keep.send(answer).unwrap();
            Ok(())
        });
        assert_eq!(error, Err(stopped.clone()));
        let late = Arc::new(());
        kept.recv().unwrap().give(Arc::clone(&late));
        assert_eq!((ticks, Arc::strong_count(&late)), (2, 1));
    }

    #[test]
    fn a_wait_that_ticks_ends_as_one_that_does_not() {
        let mut go = || Ok::<(), RuntimeError>(());
        let other = wait_ticking("Adding", LONG, &mut go, |answer| {
            thread::spawn(move || answer.give(3));
            Ok(())
        });
        assert_eq!(other, Ok(3));
        let (keep, _kept) = mpsc::channel();
        let limit = 3 * super::PAUSE;
        let late = wait_ticking("Adding", limit, &mut go, |answer: Answer<()>| {
            keep.send(answer).unwrap();
            Ok(())
        });
        let what = "Adding".into();
        assert_eq!(late, Err(RuntimeError::Timeout { what, limit }));
        let gone = wait_ticking("Adding", LONG, &mut go, |answer: Answer<()>| {
            drop(answer);
            Ok(())
        });
        assert!(matches!(gone, Err(RuntimeError::Failed { .. })));
    }

    #[test]
    fn what_did_not_start_is_not_waited_for() {
        let (keep, _kept) = mpsc::channel();
        let failed = RuntimeError::Lost {
            program: "p".into(),
        };
        let error = wait("Running p", LONG, |answer: Answer<()>| {
            keep.send(answer).unwrap();
            Err(failed.clone())
        });
        assert_eq!(error, Err(failed));
    }
}
