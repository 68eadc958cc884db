//! The pool of worker processes that extract files or run skills for the daemon. A worker that crashes, hangs or exceeds
//! its memory limit is replaced.
//!
//! A file fails if its worker crashes or exceeds a limit while it reads the file. If instead another process or the kernel
//! (out of memory) killed or stopped the worker, the file is retried once, with no other worker running. A file is never
//! read a third time.

mod process;
#[cfg(test)]
pub(crate) mod scripted_worker;
mod observer;
mod spawner;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{AcquireError, OnceCell, Semaphore};
use tracing::{error, warn};

use crate::extract::pool::observer::NoObserver;
use crate::extract::pool::process::{Cause, Death, Worker};
use crate::extract::pool::spawner::WorkerSpawner;
use crate::extract::protocol::{self, Hello, Job, Reply, Setup, SkillJob, Task};
use crate::extract::{Tools, new_failure};
use crate::model::{Document, ExtractFailure, ExtractLimits, JailMode, MemoryCap, Reason, Redaction};
use vic_system::jail::probe::ESCAPE_PROBES;

pub use crate::extract::pool::observer::ReadObserver;

/// Minimum time limit for the start of a worker, even if the time limit per file is shorter: processes start slowly on a
/// busy machine.
const MIN_START_SECONDS: u64 = 8;

/// Interval between checks of a busy worker's resident memory. The checks catch memory that does not count against the
/// resource limits (rlimits) that the worker sets for itself.
const MEMORY_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A worker that is idle for this long is ended, because loaded models occupy hundreds of MiB.
const MAX_IDLE: Duration = Duration::from_secs(300);

/// Settings of a worker pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Maximum number of worker processes.
    pub workers: usize,
    /// Limits on time, memory and output of every job.
    pub limits: ExtractLimits,
    /// Paths of the optional libraries and models that workers load.
    pub tools: Tools,
    /// Whether the workers run skills (e.g. OCR) instead of extraction.
    pub skills: bool,
}

/// Pool of worker processes that read files under limits. A file that crashes its worker or exceeds a limit becomes an
/// [`ExtractFailure`], and the pool continues with a new worker.
#[derive(Debug)]
pub struct WorkerPool {
    program: PathBuf,
    setup: Setup,
    processes: usize,
    /// One permit per worker process. Jobs wait for a permit; there is no other queue.
    permits: Semaphore,
    /// Started workers without a job.
    idle: Mutex<Vec<Worker>>,
    /// Maximum idle time of a worker.
    max_idle: Duration,
    spawner: OnceCell<WorkerSpawner>,
    /// What the pool has recorded about its workers.
    stats: Mutex<WorkerStats>,
}

/// What a pool has recorded about its workers: whether they are jailed, why they failed, how much memory they use.
#[derive(Debug, Default)]
struct WorkerStats {
    /// First message of the most recently started worker; `None` before the first start.
    hello: Option<Hello>,
    /// Why the last attempt to start a worker failed; `None` if it succeeded.
    start_error: Option<String>,
    /// Number of workers that the jail killed.
    jail_kills: u64,
    /// Largest memory use of any worker, in bytes.
    peak_bytes: u64,
}

/// Result of one escape attempt, see [`WorkerPool::try_escapes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscapeAttempt {
    /// What the worker tried, e.g. `open a file`.
    pub name: &'static str,
    /// Why the attempt failed, as it should; `None` if it succeeded, so that the jail is broken.
    pub failure: Option<String>,
}

/// A job for a worker, with the file to read and the observer to notify.
struct PendingJob<'a> {
    file: &'a File,
    job: &'a Job,
    observer: &'a dyn ReadObserver,
}

/// Why a job got no reply from a worker.
enum Fault {
    /// The worker crashed because of this file, or because of an earlier file that it had read.
    Died(ExtractFailure),
    /// Another process or the kernel killed the worker, or stopped it (SIGSTOP) until the time limit.
    KilledOutside(ExtractFailure),
    /// The worker did not finish the file within the time limit.
    TimedOut(ExtractFailure),
    /// No worker could be started.
    NotStarted(ExtractFailure),
}

impl Fault {
    fn into_failure(self) -> ExtractFailure {
        match self {
            Fault::Died(it) | Fault::KilledOutside(it) | Fault::TimedOut(it) | Fault::NotStarted(it) => it,
        }
    }
}

impl WorkerPool {
    /// Makes a pool of processes of `program`, which must call [`crate::extract::run_worker`]. Processes are started on
    /// demand.
    pub fn new(program: PathBuf, settings: PoolSettings) -> WorkerPool {
        let PoolSettings { workers, limits, tools, skills } = settings;
        WorkerPool {
            program,
            setup: Setup { limits, tools, for_questions: skills },
            processes: workers.max(1),
            permits: Semaphore::new(workers.max(1)),
            idle: Mutex::new(Vec::new()),
            max_idle: MAX_IDLE,
            // Starts the spawner thread here, because a thread inherits the priority of its creator. Ignores a failure: the
            // first worker start tries again to start the thread.
            spawner: OnceCell::new_with(WorkerSpawner::open().ok()),
            stats: Mutex::default(),
        }
    }

    /// Starts and ends a worker, to learn before the first file arrives whether workers start and can be jailed.
    pub async fn probe(&self) {
        // The error is ignored: `start_worker` recorded it, and the first file fails with the same error.
        self.start_worker(self.setup.clone()).await.ok();
    }

    /// Returns which secrets the workers redact, for callers that extract text outside the workers.
    pub(crate) fn redaction(&self) -> Redaction {
        self.setup.limits.redaction
    }

    /// Returns whether the workers are jailed; `None` before the first start.
    pub fn is_jailed(&self) -> Option<bool> {
        self.stats().hello.as_ref().map(|it| it.open.is_none())
    }

    /// Returns the problems of the workers, one sentence each that includes the remedy.
    pub fn problems(&self) -> Vec<String> {
        let known = self.stats();
        let open = known.hello.as_ref().and_then(|it| it.open.as_ref()).map(|why| match self.setup.limits.jail {
            JailMode::Required => format!(
                "only plain text is read, because the extraction workers cannot be jailed: {why}; \
                 set VIC_JAIL=optional to read all files anyway"
            ),
            JailMode::Optional => format!(
                "files are read without a jail (VIC_JAIL=optional): {why}; \
                 a malicious file can act with all rights of this user"
            ),
        });
        let killed = (known.jail_kills > 0).then(|| {
            format!(
                "{} times a file made its worker try to leave its jail, and the worker was killed: \
                 `vic files` lists these files with worker_crash",
                known.jail_kills
            )
        });
        let unstartable = known.start_error.as_ref().map(|why| {
            format!(
                "no file can be read, because extraction workers do not start: {why}; check the limits of \
                     vicd on processes, open files and memory (ulimit), then run `vic index` to retry"
            )
        });
        open.into_iter().chain(killed).chain(unstartable).collect()
    }

    /// Returns the largest memory use of any worker in this pool, in MiB.
    pub fn peak_mib(&self) -> u64 {
        self.stats().peak_bytes >> 20
    }

    /// Lets a worker try every known way to escape its jail, as a self-test. `path` is a file that a worker must not be
    /// able to open.
    ///
    /// # Errors
    /// Fails with [`Reason::Io`] if no worker can be started.
    pub async fn try_escapes(&self, path: &Path) -> Result<Vec<EscapeAttempt>, ExtractFailure> {
        let mut attempts = Vec::new();
        for escape in ESCAPE_PROBES {
            let file = File::open("/dev/null").map_err(|error| new_failure(Reason::Io, error.to_string()))?;
            let task = Task::Escape { name: escape.name.to_string(), path: path.to_owned() };
            let barred = match self.run_task(file, "escape", task, &NoObserver).await {
                Ok(document) => document.blocks.into_iter().next().map(|it| it.text),
                Err(failed) if failed.reason == Reason::WorkerCrash => Some(failed.detail),
                Err(failed) => return Err(failed),
            };
            attempts.push(EscapeAttempt { name: escape.name, failure: barred });
        }
        Ok(attempts)
    }

    /// Extracts the text of an open file; `name` is its file name, for the extension. Waits for a free worker. Dropping the
    /// future kills the worker that reads the file.
    ///
    /// # Errors
    ///
    /// Every failure is caused by the file, and the caller must record it for the file, except [`Reason::Io`] if no worker
    /// can be started. A document without blocks is a file without text, see [`crate::extract::extract_bytes`].
    pub async fn extract(&self, file: File, name: &str) -> Result<Document, ExtractFailure> {
        self.run_task(file, name, Task::Extract, &NoObserver).await
    }

    /// Like [`WorkerPool::extract`], but tells an observer of every attempt to read the file: at most two.
    ///
    /// # Errors
    ///
    /// The same errors as [`WorkerPool::extract`].
    pub async fn extract_observed(
        &self,
        file: File,
        name: &str,
        witness: &dyn ReadObserver,
    ) -> Result<Document, ExtractFailure> {
        self.run_task(file, name, Task::Extract, witness).await
    }

    /// Returns the time limit for extracting one file.
    pub fn time_limit(&self) -> Duration {
        Duration::from_secs(self.setup.limits.seconds.into())
    }

    /// Runs a skill on an open file like [`WorkerPool::extract`], under the time limit of the job instead of the pool's.
    ///
    /// # Errors
    ///
    /// The same errors as [`WorkerPool::extract`].
    pub async fn run_skill(&self, file: File, name: &str, job: SkillJob) -> Result<Document, ExtractFailure> {
        self.run_skill_observed(file, name, job, &NoObserver).await
    }

    /// Like [`WorkerPool::run_skill`], but notifies an observer of every attempt, and asks it before a retry.
    pub(crate) async fn run_skill_observed(
        &self,
        file: File,
        name: &str,
        job: SkillJob,
        witness: &dyn ReadObserver,
    ) -> Result<Document, ExtractFailure> {
        self.run_task(file, name, Task::Skill(job), witness).await
    }

    async fn run_task(&self, file: File, name: &str, task: Task, witness: &dyn ReadObserver) -> Reply {
        let setup = self.setup_for(&task);
        let job = Job { name: name.chars().take(1_000).collect(), task };
        let order = PendingJob { file: &file, job: &job, observer: witness };
        let outcome = self.run_shared(&order, &setup).await;
        let is_taken = matches!(outcome, Err(Fault::KilledOutside(_)));
        let outcome =
            if is_taken && witness.may_retry().await { self.run_exclusive(&order, setup).await } else { outcome };
        outcome.map_err(Fault::into_failure)?
    }

    async fn run_shared(&self, order: &PendingJob<'_>, setup: &Setup) -> Result<Reply, Fault> {
        let _permit = self.permits.acquire().await.map_err(pool_closed)?;
        let rested = {
            let mut idle = self.idle_workers();
            // Takes only a worker started with the same libraries and models, because a jailed worker can no longer load
            // others.
            idle.iter().rposition(|it| it.tools == setup.tools).map(|place| idle.remove(place))
        };
        if let Some(worker) = rested {
            match self.run_in_worker(worker, order).await {
                // Retries the file in a new worker, because an earlier file may have caused the crash. This is the last
                // attempt, even if another process kills the new worker.
                Err(Fault::Died(failed)) => {
                    if !order.observer.may_retry().await {
                        return Err(Fault::Died(failed));
                    }
                    let last = self.run_in_worker(self.start_worker(setup.clone()).await?, order).await;
                    return last.map_err(|fault| Fault::Died(fault.into_failure()));
                }
                outcome => return outcome,
            }
        }
        self.run_in_worker(self.start_worker(setup.clone()).await?, order).await
    }

    /// Runs a job while no other worker runs. If memory is short, the kernel kills the largest process: if it now kills
    /// this worker, the cause is this file, because no other worker uses memory.
    async fn run_exclusive(&self, order: &PendingJob<'_>, setup: Setup) -> Result<Reply, Fault> {
        let all = u32::try_from(self.processes).unwrap_or(u32::MAX);
        let _permits = self.permits.acquire_many(all).await.map_err(pool_closed)?;
        // Ends the idle workers, because they occupy memory too.
        self.idle_workers().clear();
        self.run_in_worker(self.start_worker(setup).await?, order).await
    }

    /// Returns the worker setup for a task. The libraries and models of a skill come from its job, which lists those
    /// available when the job was sent.
    fn setup_for(&self, task: &Task) -> Setup {
        match task {
            Task::Skill(skill) => Setup { tools: skill.tools.clone(), ..self.setup.clone() },
            Task::Extract | Task::Escape { .. } => self.setup.clone(),
        }
    }

    fn stats(&self) -> std::sync::MutexGuard<'_, WorkerStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the first message of a new worker. If it differs from the previous worker's, logs all known problems.
    fn record_hello(&self, hello: Hello) {
        let mut known = self.stats();
        if known.hello.as_ref() == Some(&hello) {
            return;
        }
        known.hello = Some(hello);
        drop(known);
        self.problems().iter().for_each(|problem| warn!("{problem}"));
    }

    fn idle_workers(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the memory limit of all workers together, labelled `part` for the memory report.
    pub fn memory_cap(&self, part: &str) -> MemoryCap {
        MemoryCap { part: part.into(), mib: self.processes as u64 * u64::from(self.setup.limits.memory_mib) }
    }

    /// Ends workers that have been idle for the maximum idle time. The owner of the pool must call this regularly.
    pub fn end_idle_workers(&self) {
        // Dropping a worker kills it.
        self.idle_workers().retain(|it| it.idle_since.elapsed() < self.max_idle);
    }

    /// Returns the pool with another maximum idle time.
    #[cfg(test)]
    pub(crate) fn with_max_idle(self, rest: Duration) -> WorkerPool {
        WorkerPool { max_idle: rest, ..self }
    }

    /// Returns the number of idle workers.
    #[cfg(test)]
    pub(crate) fn idle_count(&self) -> usize {
        self.idle_workers().len()
    }

    /// Starts a worker and waits until it is ready. If this fails, the cause is the machine or the installation, not the
    /// file.
    async fn start_worker(&self, setup: Setup) -> Result<Worker, Fault> {
        let (why, taken) = match self.start_ready(setup).await {
            Ok((worker, hello)) => {
                self.stats().start_error = None;
                self.record_hello(hello);
                return Ok(worker);
            }
            Err(death) => (death.failed.detail, death.cause == Cause::Outside),
        };
        let why = format!("cannot start `{}`: {why}", self.program.display());
        if self.stats().start_error.replace(why.clone()).is_none() {
            warn!("{why}");
        }
        let failed = new_failure(Reason::Io, why);
        Err(if taken { Fault::KilledOutside(failed) } else { Fault::NotStarted(failed) })
    }

    async fn start_ready(&self, setup: Setup) -> Result<(Worker, Hello), Death> {
        let born = async {
            let nursery = self.spawner.get_or_try_init(|| async { WorkerSpawner::open() }).await?;
            Worker::start(nursery, &self.program, setup).await
        };
        let unborn = |why: String| Death { failed: new_failure(Reason::Io, why), cause: Cause::Worker, peak: None };
        let mut worker = born.await.map_err(|error| unborn(error.to_string()))?;
        let patience = Duration::from_secs(u64::from(self.setup.limits.seconds).max(MIN_START_SECONDS));
        match tokio::time::timeout(patience, worker.read_hello()).await {
            Ok(Ok(hello)) => Ok((worker, hello)),
            Ok(Err(problem)) => Err(worker.diagnose_death(&problem).await),
            // Dropping the worker kills it.
            Err(_) => Err(unborn(format!("it was not ready after {} s", patience.as_secs()))),
        }
    }

    /// Runs a job in a worker, and returns the worker to the idle list unless it must be replaced.
    async fn run_in_worker(&self, mut worker: Worker, order: &PendingJob<'_>) -> Result<Reply, Fault> {
        let PendingJob { file, job, observer: witness } = order;
        witness.attempt_started();
        let seconds = match &job.task {
            Task::Extract | Task::Escape { .. } => self.setup.limits.seconds,
            Task::Skill(skill) => skill.seconds,
        };
        let most = protocol::max_reply_bytes(&self.setup.limits);
        let process = worker.id();
        let asked = tokio::time::timeout(Duration::from_secs(seconds.into()), worker.request(file, job, most));
        let outcome = tokio::select! {
            biased;
            it = asked => it,
            held = self.watch_memory(process, self.memory_limit(file)) => return Err(self.memory_exceeded(held)),
        };
        match outcome {
            Ok(Ok(reply)) => {
                let (held, peak) = worker.memory();
                self.note_peak(peak);
                if !worker.needs_replacement(held, &self.setup) {
                    worker.idle_since = Instant::now();
                    self.idle_workers().push(worker);
                }
                Ok(reply)
            }
            Ok(Err(problem)) => Err(self.record_death(worker.diagnose_death(&problem).await)),
            Err(_) => {
                self.note_peak(worker.memory().1);
                let took = format!("took longer than {seconds} s");
                // Dropping the worker kills it.
                Err(match worker.is_stopped() {
                    true => Fault::KilledOutside(new_failure(
                        Reason::Timeout,
                        format!("{took}: the worker that read the file was stopped by SIGSTOP"),
                    )),
                    false => Fault::TimedOut(new_failure(Reason::Timeout, took)),
                })
            }
        }
    }

    /// Returns the memory limit in bytes of a worker that processes this file. For skill workers the file size is added,
    /// because loaded neural networks leave little memory for large files.
    fn memory_limit(&self, file: &File) -> u64 {
        let beside = if self.setup.for_questions { file.metadata().map_or(0, |it| it.len()) } else { 0 };
        (u64::from(self.setup.limits.memory_mib) << 20) + beside
    }

    /// Polls the resident memory of a busy worker. Returns once it exceeds `most` bytes, with its size in bytes.
    async fn watch_memory(&self, process: Option<u32>, most: u64) -> u64 {
        loop {
            tokio::time::sleep(MEMORY_POLL_INTERVAL).await;
            let Some((held, peak)) = process.and_then(process::memory_of) else { continue };
            self.note_peak(peak);
            if held > most {
                return held;
            }
        }
    }

    /// Makes the fault of a worker that exceeded its memory limit. Does not kill the worker: that happens when the caller
    /// drops it.
    fn memory_exceeded(&self, held: u64) -> Fault {
        // Rounded up, so that the message never says that a size equal to the limit exceeds it.
        let (held, most) = (held.div_ceil(1 << 20), self.setup.limits.memory_mib);
        Fault::Died(new_failure(
            Reason::OutOfMemory,
            format!("used {held} MiB of memory, while the limit is {most} MiB"),
        ))
    }

    fn note_peak(&self, peak: u64) {
        let mut known = self.stats();
        known.peak_bytes = known.peak_bytes.max(peak);
    }

    /// Updates the statistics with a worker's death, and converts the death to the fault of the file.
    fn record_death(&self, death: Death) -> Fault {
        self.note_peak(death.peak.unwrap_or(0));
        match death.cause {
            Cause::Worker => Fault::Died(death.failed),
            Cause::Outside => Fault::KilledOutside(death.failed),
            Cause::Jail => {
                self.stats().jail_kills += 1;
                error!("the jail killed an extraction worker for a forbidden system call");
                Fault::Died(death.failed)
            }
        }
    }
}

fn pool_closed(_: AcquireError) -> Fault {
    Fault::NotStarted(new_failure(Reason::Io, "the worker pool is closed"))
}

#[cfg(test)]
mod tests;
