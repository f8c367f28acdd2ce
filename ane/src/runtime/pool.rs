//! A thread pool for kernels that last microseconds: jobs are claimed one by one, idle threads spin briefly, then park.

use std::cell::UnsafeCell;
use std::env;
use std::hint;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long an idle worker waits for the next work before it sleeps. A pass calls a kernel every 100 µs or so,
/// and waking a sleeper costs about as much as a small product.
const SPIN: Duration = Duration::from_micros(50);
/// How often a thread looks at its condition before it looks at the clock, or gives its core away.
const LOOKS: u32 = 64;

/// The door is open: there are jobs that nobody has claimed. The other bits count the workers inside.
const OPEN: u32 = 1 << 31;

type Job<'a> = dyn Fn(usize) + Sync + 'a;

/// The work behind the door. `job` is valid as long as a worker is inside.
#[derive(Clone, Copy)]
struct Task {
    job: *const Job<'static>,
    jobs: usize,
}

struct Shared {
    /// Whether a thread has the workers. Others that come meanwhile do their jobs alone.
    taken: AtomicBool,
    /// `OPEN` and the number of workers inside, in one word, so that none can enter after it was closed.
    door: AtomicU32,
    task: UnsafeCell<Option<Task>>,
    /// The next job to claim.
    next: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
}

// SAFETY: `task` is written only by the thread that holds `taken`, while the door is closed and nobody is inside; workers
// read it only when inside. Entering (acquire) sees what was written before opening (release). The job itself is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer in `task` belongs to no thread.
unsafe impl Send for Shared {}

struct Worker {
    thread: Thread,
    asleep: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

/// Threads that share jobs with whoever calls [`Pool::run`].
///
/// Several threads may call at once, and a job may call again: one caller has the workers, the others do their jobs alone.
/// A caller claims jobs itself and waits only for those that a worker has claimed. So in a child process made by
/// `fork`, which has no workers, calls do not hang: they work alone.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
}

impl Pool {
    /// A pool of `threads` threads, the caller's included.
    ///
    /// # Panics
    /// Where the system gives no thread.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            taken: AtomicBool::new(false),
            door: AtomicU32::new(0),
            task: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let workers = (1..threads).map(|_| start_worker(&shared)).collect();
        Self { shared, workers }
    }

    /// The pool of this process, with a thread for each core that it may use, or as many as `OPENBLAS_NUM_THREADS` or
    /// `OMP_NUM_THREADS` say. Made when first asked for.
    pub fn global() -> &'static Self {
        static POOL: OnceLock<Pool> = OnceLock::new();
        POOL.get_or_init(|| {
            let wanted = ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"]
                .into_iter()
                .filter_map(|name| env::var(name).ok())
                .find_map(|value| value.trim().parse().ok().filter(|&count| count > 0));
            let cores = thread::available_parallelism().map_or(1, usize::from);
            Pool::new(wanted.map_or(cores, |count: usize| count.min(cores)))
        })
    }

    /// The number of threads that work, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `job` once with each number below `jobs`, on several threads in any order; returns when all are done.
    ///
    /// # Panics
    /// When a job panicked; other jobs may then have been left out.
    pub fn run(&self, jobs: usize, job: &Job<'_>) {
        if jobs < 2 || self.workers.is_empty() || self.shared.taken.swap(true, Acquire) {
            (0..jobs).for_each(job);
            return;
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. Workers use the job only when inside, and this function waits for them.
        let job = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(job) };
        let task = Task { job, jobs };
        // SAFETY: `taken` is ours, the door is closed and nobody is inside: see `Sync` above.
        unsafe { *shared.task.get() = Some(task) };
        shared.next.store(0, Relaxed);
        shared.door.store(OPEN, SeqCst);
        for worker in self.workers.iter().take(jobs - 1) {
            if worker.asleep.swap(false, SeqCst) {
                worker.thread.unpark();
            }
        }
        shared.work(task); // does not unwind
        let mut looks = 0u32;
        while shared.door.load(Acquire) != 0 {
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                thread::yield_now(); // the worker may have lost its core
            } else {
                hint::spin_loop();
            }
        }
        let panicked = shared.panicked.swap(false, Relaxed);
        shared.taken.store(false, Release);
        assert!(!panicked, "a job of the pool panicked");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        for worker in &mut self.workers {
            worker.thread.unpark();
            if let Some(handle) = worker.handle.take() {
                handle.join().expect("a worker does not panic");
            }
        }
    }
}

impl Shared {
    /// Claims and does jobs until none is left, then closes the door.
    fn work(&self, task: Task) {
        let done = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let index = self.next.fetch_add(1, Relaxed);
                if index >= task.jobs {
                    break;
                }
                // SAFETY: called by the owner of the job, or by a worker inside, for whom the owner waits.
                unsafe { (*task.job)(index) };
            }
        }));
        if done.is_err() {
            self.panicked.store(true, Relaxed);
            self.next.store(task.jobs, Relaxed);
        }
        self.door.fetch_and(!OPEN, AcqRel);
    }

    /// Enters if the door is open.
    fn enter(&self) -> Option<Task> {
        let mut door = self.door.load(SeqCst);
        while door & OPEN != 0 {
            match self
                .door
                .compare_exchange_weak(door, door + 1, SeqCst, SeqCst)
            {
                // SAFETY: this thread is inside, so the task stands still: see `Sync` above.
                Ok(_) => return unsafe { *self.task.get() },
                Err(now) => door = now,
            }
        }
        None
    }

    fn leave(&self) {
        self.door.fetch_sub(1, Release);
    }
}

fn start_worker(shared: &Arc<Shared>) -> Worker {
    let asleep = Arc::new(AtomicBool::new(false));
    let (shared, mine) = (Arc::clone(shared), Arc::clone(&asleep));
    let handle = thread::Builder::new()
        .name("ane-pool".into())
        .spawn(move || serve(&shared, &mine))
        .expect("the system gives a thread");
    Worker {
        thread: handle.thread().clone(),
        asleep,
        handle: Some(handle),
    }
}

/// A worker's life.
fn serve(shared: &Shared, asleep: &AtomicBool) {
    while !shared.stop.load(SeqCst) {
        if let Some(task) = shared.enter().or_else(|| spin(shared)) {
            shared.work(task);
            shared.leave();
            continue;
        }
        // Said before the last look at the door, while a caller opens it before it looks who sleeps: one sees the other.
        asleep.store(true, SeqCst);
        if shared.door.load(SeqCst) & OPEN == 0 && !shared.stop.load(SeqCst) {
            thread::park();
        }
        asleep.store(false, SeqCst);
    }
}

/// Looks for an open door for a while.
fn spin(shared: &Shared) -> Option<Task> {
    let began = Instant::now();
    while began.elapsed() < SPIN {
        for _ in 0..LOOKS {
            if let Some(task) = shared.enter() {
                return Some(task);
            }
            hint::spin_loop();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Pool, SPIN};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::thread;

    fn counts(pool: &Pool, jobs: usize) -> Vec<usize> {
        let counts: Vec<AtomicUsize> = (0..jobs).map(|_| AtomicUsize::new(0)).collect();
        pool.run(jobs, &|index| {
            counts[index].fetch_add(1, Relaxed);
        });
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_job_runs_once_with_any_number_of_threads() {
        for threads in [0, 1, 2, 3, 7] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads.max(1));
            for jobs in [0, 1, 2, 5, 1000] {
                assert_eq!(counts(&pool, jobs), vec![1; jobs], "{threads} threads");
            }
        }
    }

    #[test]
    fn workers_that_fell_asleep_wake_up() {
        let pool = Pool::new(2);
        let (arrived, wanted) = (AtomicUsize::new(0), 2);
        for _ in 0..20 {
            thread::sleep(4 * SPIN);
            arrived.store(0, Relaxed);
            // Each job waits for the other: they end only when two threads work.
            pool.run(wanted, &|_| {
                arrived.fetch_add(1, Relaxed);
                while arrived.load(Relaxed) < wanted {
                    thread::yield_now();
                }
            });
        }
    }

    #[test]
    fn several_callers_at_once_each_get_all_of_their_jobs() {
        let pool = Pool::new(3);
        thread::scope(|scope| {
            for jobs in 1..5 {
                let pool = &pool;
                scope.spawn(move || {
                    for _ in 0..2000 {
                        assert_eq!(counts(pool, jobs), vec![1; jobs]);
                    }
                });
            }
        });
    }

    #[test]
    fn a_job_may_use_the_pool_too() {
        let pool = Pool::new(2);
        let inner = AtomicUsize::new(0);
        pool.run(4, &|_| {
            pool.run(4, &|_| {
                inner.fetch_add(1, Relaxed);
            });
        });
        assert_eq!(inner.into_inner(), 16);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::new(2);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(8, &|index| assert!(index != 5, "wanted"));
        }));
        assert!(caught.is_err());
        assert_eq!(counts(&pool, 8), vec![1; 8]);
    }
}
