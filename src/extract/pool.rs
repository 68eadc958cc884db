//! The parent's side of extraction: a bounded number of worker processes, each replaced when it dies, stalls or grows.
//!
//! A file fails for what its own reader did. When somebody else ended or stopped that reader (a person, a supervisor, the
//! system for want of memory), the file is read once more, with no other reader beside it. No file is read a third time.

mod process;
#[cfg(test)]
pub(crate) mod scripted;
mod witness;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{AcquireError, OnceCell, Semaphore, oneshot};
use tracing::{error, warn};

use crate::extract::jail::escape::ESCAPES;
use crate::extract::pool::process::{Cause, Death, Worker};
use crate::extract::pool::witness::Nobody;
use crate::extract::protocol::{self, Hello, Job, Reply, Setup, SkillJob, Task};
use crate::extract::{Tools, failure};
use crate::model::{Document, ExtractFailure, ExtractLimits, JailMode, MemoryCap, Reason, Redaction};

pub use crate::extract::pool::witness::Witness;

/// A worker gets so long to be ready, however short the limit of a file is: on a busy machine a process starts slowly.
const READY_SECONDS: u64 = 8;

/// How often the memory of a worker at work is looked at. Its own limits hold in between; this is for what they do not
/// count.
const LOOK_AT_MEMORY: Duration = Duration::from_millis(20);

/// A worker at rest for so long gives its memory back: models take hundreds of MiB.
const REST: Duration = Duration::from_secs(300);

/// What kind of pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Processes at most.
    pub workers: usize,
    /// Bounds on every job.
    pub limits: ExtractLimits,
    /// Libraries that readers can use.
    pub tools: Tools,
    /// Whether it is for skills rather than for extraction.
    pub skills: bool,
}

/// Worker processes that read files under limits. A file that crashes, stalls or exhausts its worker becomes an
/// [`ExtractFailure`]; the pool goes on with a new worker.
#[derive(Debug)]
pub struct WorkerPool {
    program: PathBuf,
    setup: Setup,
    processes: usize,
    /// One permit a worker: waiting for a permit is the only queue.
    permits: Semaphore,
    /// Workers at rest.
    idle: Mutex<Vec<Worker>>,
    /// How long they may be.
    rest: Duration,
    nursery: OnceCell<Nursery>,
    /// What was learnt of the workers.
    known: Mutex<Known>,
}

/// What is known of a pool's workers.
#[derive(Debug, Default)]
struct Known {
    /// What the last worker that was started said; none before the first.
    hello: Option<Hello>,
    /// Why the last worker that was to be started did not; none when it did.
    unstartable: Option<String>,
    /// Workers that the jail killed for what they tried.
    killed: u64,
    /// Most memory that a worker ever held, in bytes.
    peak: u64,
}

/// What one way out of the jail came to, see [`WorkerPool::try_escapes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscapeAttempt {
    /// The way out, e.g. `open a file`.
    pub name: &'static str,
    /// What barred it; none when it was open.
    pub barred: Option<String>,
}

/// What a worker is to do.
struct Order<'a> {
    file: &'a File,
    job: &'a Job,
    witness: &'a dyn Witness,
}

/// Why a worker gave no reply.
enum Fault {
    /// It died of the file, or of what an earlier one left behind.
    Died(ExtractFailure),
    /// Somebody else ended it, or stopped it until the time was over.
    Taken(ExtractFailure),
    /// The file took too long.
    Stalled(ExtractFailure),
    /// None could be started.
    Unstarted(ExtractFailure),
}

impl Fault {
    fn failed(self) -> ExtractFailure {
        match self {
            Fault::Died(it) | Fault::Taken(it) | Fault::Stalled(it) | Fault::Unstarted(it) => it,
        }
    }
}

impl WorkerPool {
    /// Makes a pool of processes `program worker`, which must call [`crate::extract::run_worker`]. They are started when
    /// they are needed.
    pub fn new(program: PathBuf, settings: PoolSettings) -> WorkerPool {
        let PoolSettings { workers, limits, tools, skills } = settings;
        WorkerPool {
            program,
            setup: Setup { limits, tools, for_questions: skills },
            processes: workers.max(1),
            permits: Semaphore::new(workers.max(1)),
            idle: Mutex::new(Vec::new()),
            rest: REST,
            // Now, because a thread inherits the priority of the one that starts it; should it fail, later.
            nursery: OnceCell::new_with(Nursery::open().ok()),
            known: Mutex::default(),
        }
    }

    /// Starts a worker and lets it go again, to learn whether workers can be jailed here before there is a file to read.
    pub async fn probe(&self) {
        // What stands in the way is noted, and the first file will meet it again.
        self.start(self.setup.clone()).await.ok();
    }

    /// Returns what the workers black out, for whoever finds text outside of them.
    pub(crate) fn redaction(&self) -> Redaction {
        self.setup.limits.redaction
    }

    /// Returns whether the workers are in a jail; none before the first was started.
    pub fn is_jailed(&self) -> Option<bool> {
        self.known().hello.as_ref().map(|it| it.open.is_none())
    }

    /// Says what is wrong with the jail of the workers, one sentence each with the cure.
    pub fn problems(&self) -> Vec<String> {
        let known = self.known();
        let open = known.hello.as_ref().and_then(|it| it.open.as_ref()).map(|why| match self.setup.limits.jail {
            JailMode::Required => format!(
                "only plain text is read, because the processes that read files cannot be jailed: {why}; \
                 VIC_JAIL=optional reads everything all the same"
            ),
            JailMode::Optional => format!(
                "files are read without a jail, as VIC_JAIL=optional allows: {why}; \
                 a hostile file may do what this user may do"
            ),
        });
        let killed = (known.killed > 0).then(|| {
            format!(
                "{} times a file made its reader try to leave its jail, and the reader was killed: \
                 `vic files` names them, with worker_crash",
                known.killed
            )
        });
        let unstartable = known.unstartable.as_ref().map(|why| {
            format!(
                "no file can be read, because the processes that read files do not start: {why}; see the limits of \
                     vicd on processes, open files and memory (ulimit); `vic index` tries the files again"
            )
        });
        open.into_iter().chain(killed).chain(unstartable).collect()
    }

    /// Returns the most memory that a worker of this pool has held, in MiB.
    pub fn peak_mib(&self) -> u64 {
        self.known().peak >> 20
    }

    /// Tries every way out of the jail from inside a worker. `path` is a file that a worker must not open.
    ///
    /// # Errors
    /// As [`WorkerPool::extract`], when no worker can be started.
    pub async fn try_escapes(&self, path: &Path) -> Result<Vec<EscapeAttempt>, ExtractFailure> {
        let mut attempts = Vec::new();
        for escape in ESCAPES {
            let file = File::open("/dev/null").map_err(|error| failure(Reason::Io, error.to_string()))?;
            let task = Task::Escape { name: escape.name.to_string(), path: path.to_owned() };
            let barred = match self.work(file, "escape", task, &Nobody).await {
                Ok(document) => document.blocks.into_iter().next().map(|it| it.text),
                Err(failed) if failed.reason == Reason::WorkerCrash => Some(failed.detail),
                Err(failed) => return Err(failed),
            };
            attempts.push(EscapeAttempt { name: escape.name, barred });
        }
        Ok(attempts)
    }

    /// Extracts the text of an open file; `name` gives its extension. Waits for a free worker. Dropping the future kills
    /// the worker that is busy with it.
    ///
    /// # Errors
    ///
    /// Every failure is the file's, to be recorded with it, save [`Reason::Io`] when no worker can be started. A document
    /// without blocks is a file that holds no text, see [`crate::extract::extract_bytes`].
    pub async fn extract(&self, file: File, name: &str) -> Result<Document, ExtractFailure> {
        self.work(file, name, Task::Extract, &Nobody).await
    }

    /// As [`WorkerPool::extract`], with somebody who counts the workers that are given the file: two at most.
    ///
    /// # Errors
    ///
    /// As [`WorkerPool::extract`].
    pub async fn extract_told(
        &self,
        file: File,
        name: &str,
        witness: &dyn Witness,
    ) -> Result<Document, ExtractFailure> {
        self.work(file, name, Task::Extract, witness).await
    }

    /// How long a worker may take for a file.
    pub fn time_limit(&self) -> Duration {
        Duration::from_secs(self.setup.limits.seconds.into())
    }

    /// Runs a skill over an open file, as [`WorkerPool::extract`] does, under the time limit of the job instead of the
    /// pool's.
    ///
    /// # Errors
    ///
    /// As [`WorkerPool::extract`].
    pub async fn run_skill(&self, file: File, name: &str, job: SkillJob) -> Result<Document, ExtractFailure> {
        self.run_skill_before(file, name, job, &Nobody).await
    }

    /// The same before a witness.
    pub(crate) async fn run_skill_before(
        &self,
        file: File,
        name: &str,
        job: SkillJob,
        witness: &dyn Witness,
    ) -> Result<Document, ExtractFailure> {
        self.work(file, name, Task::Skill(job), witness).await
    }

    async fn work(&self, file: File, name: &str, task: Task, witness: &dyn Witness) -> Reply {
        let setup = self.setup_for(&task);
        let job = Job { name: name.chars().take(1_000).collect(), task };
        let order = Order { file: &file, job: &job, witness };
        let outcome = self.try_beside_others(&order, &setup).await;
        let is_taken = matches!(outcome, Err(Fault::Taken(_)));
        let outcome = if is_taken && witness.may_again().await { self.try_alone(&order, setup).await } else { outcome };
        outcome.map_err(Fault::failed)?
    }

    async fn try_beside_others(&self, order: &Order<'_>, setup: &Setup) -> Result<Reply, Fault> {
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let rested = {
            let mut idle = self.idle();
            // One with other libraries cannot load these any more: its jail is shut.
            idle.iter().rposition(|it| it.tools == setup.tools).map(|place| idle.remove(place))
        };
        if let Some(worker) = rested {
            match self.run(worker, order).await {
                // What an earlier file left behind may have killed it: one more try, in a worker of its own. That is the
                // last one, whoever ends it.
                Err(Fault::Died(failed)) => {
                    if !order.witness.may_again().await {
                        return Err(Fault::Died(failed));
                    }
                    let last = self.run(self.start(setup.clone()).await?, order).await;
                    return last.map_err(|fault| Fault::Died(fault.failed()));
                }
                outcome => return outcome,
            }
        }
        self.run(self.start(setup.clone()).await?, order).await
    }

    /// Where memory is short, the system ends the largest process; without others beside it, the file shows what it takes.
    async fn try_alone(&self, order: &Order<'_>, setup: Setup) -> Result<Reply, Fault> {
        let all = u32::try_from(self.processes).unwrap_or(u32::MAX);
        let _permits = self.permits.acquire_many(all).await.map_err(closed)?;
        // Those at rest hold memory too.
        self.idle().clear();
        self.run(self.start(setup).await?, order).await
    }

    /// A skill comes with the libraries and models that are there now.
    fn setup_for(&self, task: &Task) -> Setup {
        match task {
            Task::Skill(skill) => Setup { tools: skill.tools.clone(), ..self.setup.clone() },
            Task::Extract | Task::Escape { .. } => self.setup.clone(),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a worker said of its jail, and says so loudly when it is not in one.
    fn note(&self, hello: Hello) {
        let mut known = self.known();
        if known.hello.as_ref() == Some(&hello) {
            return;
        }
        known.hello = Some(hello);
        drop(known);
        self.problems().iter().for_each(|problem| warn!("{problem}"));
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its processes may take in memory at most, all together.
    pub fn memory_cap(&self, part: &str) -> MemoryCap {
        MemoryCap { part: part.into(), mib: self.processes as u64 * u64::from(self.setup.limits.memory_mib) }
    }

    /// Ends workers that have been at rest for long. Whoever owns the pool calls it now and then.
    pub fn dismiss_rested(&self) {
        // Dropping a worker kills it.
        self.idle().retain(|it| it.rested.elapsed() < self.rest);
    }

    /// The same pool with another time of rest.
    #[cfg(test)]
    pub(crate) fn resting(self, rest: Duration) -> WorkerPool {
        WorkerPool { rest, ..self }
    }

    /// The number of workers at rest.
    #[cfg(test)]
    pub(crate) fn at_rest(&self) -> usize {
        self.idle().len()
    }

    /// Starts a worker and waits until it is ready for files. No file is to blame when that fails, but the machine or the
    /// installation.
    async fn start(&self, setup: Setup) -> Result<Worker, Fault> {
        let (why, taken) = match self.start_ready(setup).await {
            Ok((worker, hello)) => {
                self.known().unstartable = None;
                self.note(hello);
                return Ok(worker);
            }
            Err(death) => (death.failed.detail, death.cause == Cause::Outside),
        };
        let why = format!("cannot start `{} worker`: {why}", self.program.display());
        if self.known().unstartable.replace(why.clone()).is_none() {
            warn!("{why}");
        }
        let failed = failure(Reason::Io, why);
        Err(if taken { Fault::Taken(failed) } else { Fault::Unstarted(failed) })
    }

    async fn start_ready(&self, setup: Setup) -> Result<(Worker, Hello), Death> {
        let born = async {
            let nursery = self.nursery.get_or_try_init(|| async { Nursery::open() }).await?;
            Worker::start(nursery, &self.program, setup).await
        };
        let unborn = |why: String| Death { failed: failure(Reason::Io, why), cause: Cause::Own, peak: None };
        let mut worker = born.await.map_err(|error| unborn(error.to_string()))?;
        let patience = Duration::from_secs(u64::from(self.setup.limits.seconds).max(READY_SECONDS));
        match tokio::time::timeout(patience, worker.hello()).await {
            Ok(Ok(hello)) => Ok((worker, hello)),
            Ok(Err(problem)) => Err(worker.bury(&problem).await),
            // Dropping the worker kills it.
            Err(_) => Err(unborn(format!("it is not ready after {} s", patience.as_secs()))),
        }
    }

    /// Runs a job, and lays the worker to rest if it is still good.
    async fn run(&self, mut worker: Worker, order: &Order<'_>) -> Result<Reply, Fault> {
        let Order { file, job, witness } = order;
        witness.begins();
        let seconds = match &job.task {
            Task::Extract | Task::Escape { .. } => self.setup.limits.seconds,
            Task::Skill(skill) => skill.seconds,
        };
        let most = protocol::most_reply_bytes(&self.setup.limits);
        let process = worker.id();
        let asked = tokio::time::timeout(Duration::from_secs(seconds.into()), worker.ask(file, job, most));
        let outcome = tokio::select! {
            biased;
            it = asked => it,
            held = self.outgrown(process, self.most_held(file)) => return Err(self.grown(held)),
        };
        match outcome {
            Ok(Ok(reply)) => {
                let (held, peak) = worker.memory();
                self.note_peak(peak);
                if !worker.is_worn_out(held, &self.setup) {
                    worker.rested = Instant::now();
                    self.idle().push(worker);
                }
                Ok(reply)
            }
            Ok(Err(problem)) => Err(self.mourn(worker.bury(&problem).await)),
            Err(_) => {
                self.note_peak(worker.memory().1);
                let took = format!("took longer than {seconds} s");
                // Dropping the worker kills it.
                Err(match worker.is_stopped() {
                    true => {
                        Fault::Taken(failure(Reason::Timeout, format!("{took}: its reader was stopped by SIGSTOP")))
                    }
                    false => Fault::Stalled(failure(Reason::Timeout, took)),
                })
            }
        }
    }

    /// Bytes that a worker may hold over a file. Those that have networks in memory have not enough left for large files,
    /// so that these do not count.
    fn most_held(&self, file: &File) -> u64 {
        let beside = if self.setup.for_questions { file.metadata().map_or(0, |it| it.len()) } else { 0 };
        (u64::from(self.setup.limits.memory_mib) << 20) + beside
    }

    /// Watches the memory of a process at work, and returns what it holds when that is more than it may.
    async fn outgrown(&self, process: Option<u32>, most: u64) -> u64 {
        loop {
            tokio::time::sleep(LOOK_AT_MEMORY).await;
            let Some((held, peak)) = process.and_then(process::resident) else { continue };
            self.note_peak(peak);
            if held > most {
                return held;
            }
        }
    }

    /// The worker is dropped, and thereby killed.
    fn grown(&self, held: u64) -> Fault {
        let (held, most) = (held >> 20, self.setup.limits.memory_mib);
        Fault::Died(failure(Reason::OutOfMemory, format!("held {held} MiB of memory, and may hold {most}")))
    }

    fn note_peak(&self, peak: u64) {
        let mut known = self.known();
        known.peak = known.peak.max(peak);
    }

    /// Notes what a worker died of.
    fn mourn(&self, death: Death) -> Fault {
        self.note_peak(death.peak.unwrap_or(0));
        match death.cause {
            Cause::Own => Fault::Died(death.failed),
            Cause::Outside => Fault::Taken(death.failed),
            Cause::Jail => {
                self.known().killed += 1;
                error!("the jail killed a reader of files for what it tried");
                Fault::Died(death.failed)
            }
        }
    }
}

fn closed(_: AcquireError) -> Fault {
    Fault::Unstarted(failure(Reason::Io, "the pool is closed"))
}

/// A thread that starts processes and lives as long as its pool. The kernel kills a worker when the thread that started
/// it ends, and the threads of a runtime come and go.
#[derive(Debug)]
struct Nursery {
    births: mpsc::Sender<Birth>,
}

struct Birth {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

impl Nursery {
    fn open() -> io::Result<Nursery> {
        let (births, requests) = mpsc::channel::<Birth>();
        std::thread::Builder::new().name("worker-births".to_string()).spawn(move || {
            for mut birth in requests {
                let _inside = birth.runtime.enter();
                // Nobody waits any more: the child is dropped, and thereby killed.
                birth.reply.send(birth.command.spawn()).ok();
            }
        })?;
        Ok(Nursery { births })
    }

    async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts workers is gone");
        self.births.send(Birth { command, runtime: Handle::current(), reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

#[cfg(test)]
mod tests;
