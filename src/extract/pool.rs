//! The parent's side of extraction: a bounded number of worker processes, each replaced when it dies, stalls or grows.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, Semaphore, oneshot};
use tracing::{error, warn};

use crate::extract::jail::escape::ESCAPES;
use crate::extract::protocol::{self, Hello, Job, MOST_REQUEST_BYTES, PREFIX, Reply, Setup, SkillJob, Task};
use crate::extract::worker::status_bytes;
use crate::extract::{Tools, descriptor, failure};
use crate::model::{Document, ExtractFailure, ExtractLimits, JailMode, MemoryCap, Reason};

/// Native libraries leak a little with every file.
const JOBS_PER_WORKER: u32 = 1_000;
/// Kept of what a dying worker says on its standard error.
const LAST_WORDS_BYTES: u64 = 4 << 10;
/// Said when an exception of C++ reaches Rust; the PDF library throws none but for want of memory.
const FOREIGN_EXCEPTION: &str = "cannot catch foreign exceptions";
/// A worker that closed its socket is dead or about to be.
const DEATH_SECONDS: u64 = 2;
/// A worker gets so long to be ready, however short the limit of a file is: on a busy machine a process starts slowly.
const READY_SECONDS: u64 = 8;

/// A worker at rest for so long gives its memory back: models take hundreds of MiB.
const REST_SECONDS: u64 = 300;

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

/// Why a worker gave no reply.
enum Fault {
    /// It is to be replaced; the file may not be to blame.
    Died(ExtractFailure),
    /// The file took too long.
    Stalled(ExtractFailure),
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

    /// Says whether the workers are in a jail; none before the first was started.
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
            let barred = match self.work(file, "escape", task).await {
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
        self.work(file, name, Task::Extract).await
    }

    /// Runs a skill over an open file, as [`WorkerPool::extract`] does, under the time limit of the job instead of the
    /// pool's.
    ///
    /// # Errors
    ///
    /// As [`WorkerPool::extract`].
    pub async fn run_skill(&self, file: File, name: &str, job: SkillJob) -> Result<Document, ExtractFailure> {
        self.work(file, name, Task::Skill(job)).await
    }

    async fn work(&self, file: File, name: &str, task: Task) -> Result<Document, ExtractFailure> {
        let _permit = self.permits.acquire().await.map_err(|_| failure(Reason::Io, "the pool is closed"))?;
        let setup = self.setup_for(&task);
        let job = Job { name: name.chars().take(1_000).collect(), task };
        let rested = {
            let mut idle = self.idle();
            // One with other libraries cannot load these any more: its jail is shut.
            idle.iter().rposition(|it| it.tools == setup.tools).map(|place| idle.remove(place))
        };
        if let Some(worker) = rested {
            match self.run(worker, &file, &job).await {
                // What an earlier file left behind may have killed it: one more try, in a worker of its own.
                Err(Fault::Died(_)) => {}
                Err(Fault::Stalled(failed)) => return Err(failed),
                Ok(reply) => return reply,
            }
        }
        let worker = self.start(setup).await?;
        match self.run(worker, &file, &job).await {
            Err(Fault::Died(failed) | Fault::Stalled(failed)) => Err(failed),
            Ok(reply) => reply,
        }
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
        self.idle().retain(|it| it.rested.elapsed() < Duration::from_secs(REST_SECONDS));
    }

    /// Starts a worker and waits until it is ready for files. No file is to blame when that fails, but the machine or the
    /// installation.
    async fn start(&self, setup: Setup) -> Result<Worker, ExtractFailure> {
        match self.start_ready(setup).await {
            Ok((worker, hello)) => {
                self.known().unstartable = None;
                self.note(hello);
                Ok(worker)
            }
            Err(why) => {
                let why = format!("cannot start `{} worker`: {why}", self.program.display());
                if self.known().unstartable.replace(why.clone()).is_none() {
                    warn!("{why}");
                }
                Err(failure(Reason::Io, why))
            }
        }
    }

    async fn start_ready(&self, setup: Setup) -> Result<(Worker, Hello), String> {
        let born = async {
            let nursery = self.nursery.get_or_try_init(|| async { Nursery::open() }).await?;
            Worker::start(nursery, &self.program, setup).await
        };
        let mut worker = born.await.map_err(|error| error.to_string())?;
        let patience = Duration::from_secs(u64::from(self.setup.limits.seconds).max(READY_SECONDS));
        match tokio::time::timeout(patience, worker.hello()).await {
            Ok(Ok(hello)) => Ok((worker, hello)),
            Ok(Err(problem)) => Err(worker.bury(&problem).await.0.detail),
            // Dropping the worker kills it.
            Err(_) => Err(format!("it is not ready after {} s", patience.as_secs())),
        }
    }

    /// Runs a job, and lays the worker to rest if it is still good.
    async fn run(&self, mut worker: Worker, file: &File, job: &Job) -> Result<Reply, Fault> {
        let seconds = match &job.task {
            Task::Extract | Task::Escape { .. } => self.setup.limits.seconds,
            Task::Skill(skill) => skill.seconds,
        };
        let most = protocol::most_reply_bytes(&self.setup.limits);
        match tokio::time::timeout(Duration::from_secs(seconds.into()), worker.ask(file, job, most)).await {
            Ok(Ok(reply)) => {
                let peak = worker.memory("VmHWM:");
                let mut known = self.known();
                known.peak = known.peak.max(peak);
                drop(known);
                if !worker.is_worn_out(&self.setup.limits) {
                    worker.rested = Instant::now();
                    self.idle().push(worker);
                }
                Ok(reply)
            }
            Ok(Err(problem)) => {
                let (failed, by_jail) = worker.bury(&problem).await;
                if by_jail {
                    self.known().killed += 1;
                    error!("the jail killed a reader of files for what it tried");
                }
                Err(Fault::Died(failed))
            }
            // Dropping the worker kills it.
            Err(_) => Err(Fault::Stalled(failure(Reason::Timeout, format!("took longer than {seconds} s")))),
        }
    }
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

/// A running process and the socket to it.
#[derive(Debug)]
struct Worker {
    child: Child,
    socket: UnixStream,
    /// What it could load before it was jailed.
    tools: Tools,
    jobs: u32,
    /// Since when it has nothing to do.
    rested: Instant,
}

impl Worker {
    async fn start(nursery: &Nursery, program: &Path, setup: Setup) -> io::Result<Worker> {
        let (here, there) = StdStream::pair()?;
        here.set_nonblocking(true)?;
        let mut command = Command::new(program);
        command.arg("worker").env_clear().current_dir("/");
        command.stdin(Stdio::from(OwnedFd::from(there))).stdout(Stdio::null()).stderr(Stdio::piped());
        // With whatever it starts, should it get out of its jail or have none.
        command.process_group(0).kill_on_drop(true);
        let child = nursery.spawn(command).await?;
        let mut socket = UnixStream::from_std(here)?;
        // One that is already dead shows it when it is asked.
        socket.write_all(&protocol::encode(&setup)?).await.ok();
        Ok(Worker { child, socket, tools: setup.tools, jobs: 0, rested: Instant::now() })
    }

    /// Reads what it says first.
    async fn hello(&mut self) -> io::Result<Hello> {
        protocol::decode(&self.frame(MOST_REQUEST_BYTES).await?)
    }

    /// The group of the process; None once it is known to have ended.
    fn group(&self) -> Option<Pid> {
        self.child.id().and_then(|it| Pid::from_raw(i32::try_from(it).ok()?))
    }

    async fn frame(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut prefix = [0; PREFIX];
        self.socket.read_exact(&mut prefix).await?;
        let mut content = vec![0; protocol::length(prefix, most)?];
        self.socket.read_exact(&mut content).await?;
        Ok(content)
    }

    async fn ask(&mut self, file: &File, job: &Job, most: usize) -> io::Result<Reply> {
        self.jobs += 1;
        let frame = protocol::encode(job)?;
        let sent = loop {
            self.socket.writable().await?;
            let send = || descriptor::send(self.socket.as_fd(), &frame, file);
            match self.socket.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => break outcome?,
            }
        };
        self.socket.write_all(&frame[sent..]).await?;
        protocol::decode(&self.frame(most).await?)
    }

    /// Says whether it is time for a new one: after many jobs, or when it holds half the memory it may.
    fn is_worn_out(&self, limits: &ExtractLimits) -> bool {
        self.jobs >= JOBS_PER_WORKER || self.memory("VmRSS:") > u64::from(limits.memory_mib) << 19
    }

    /// Returns a size out of `/proc/<process>/status`, in bytes; 0 when it is gone.
    fn memory(&self, key: &str) -> u64 {
        let status = self.child.id().map(|id| std::fs::read_to_string(format!("/proc/{id}/status")));
        status.and_then(|it| status_bytes(&it.ok()?, key)).unwrap_or(0)
    }

    /// Finds out what a worker died of, and whether it was the jail that killed it.
    async fn bury(mut self, error: &io::Error) -> (ExtractFailure, bool) {
        let patience = Duration::from_secs(DEATH_SECONDS);
        let group = self.group();
        let status = tokio::time::timeout(patience, self.child.wait()).await;
        group.into_iter().for_each(kill_group);
        let mut words = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut stderr = stderr.take(LAST_WORDS_BYTES);
            tokio::time::timeout(patience, stderr.read_to_end(&mut words)).await.ok();
        }
        let words = String::from_utf8_lossy(&words);
        // The PDF library aborts without a word when it gets no memory; nothing else that aborts is silent.
        let aborted = matches!(&status, Ok(Ok(status)) if status.signal() == Some(libc::SIGABRT));
        let signs = ["memory allocation of", "failed to allocate", FOREIGN_EXCEPTION];
        if signs.iter().any(|it| words.contains(it)) || (aborted && words.is_empty()) {
            return (failure(Reason::OutOfMemory, "needed more memory than the limit"), false);
        }
        if words.contains("overflowed its stack") {
            return (failure(Reason::TooDeep, "nested deeper than the stack of its reader"), false);
        }
        if matches!(&status, Ok(Ok(status)) if status.signal() == Some(libc::SIGSYS)) {
            return (failure(Reason::WorkerCrash, "its reader tried to leave its jail, and was killed"), true);
        }
        let end = match status {
            Ok(Ok(status)) => status.to_string(),
            _ => error.to_string(),
        };
        (failure(Reason::WorkerCrash, format!("its reader died: {end}")), false)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.group().into_iter().for_each(kill_group);
    }
}

fn kill_group(group: Pid) {
    // It fails when nobody is left in it.
    let _gone = rustix::process::kill_process_group(group, Signal::KILL);
}

#[cfg(test)]
mod tests;
