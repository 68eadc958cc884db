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

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, Semaphore, oneshot};

use crate::extract::protocol::{self, Job, PREFIX, Reply, Setup, SkillJob, Task};
use crate::extract::worker::status_bytes;
use crate::extract::{Tools, descriptor, failure};
use crate::model::{Document, ExtractFailure, ExtractLimits, MemoryCap, Reason};

/// Native libraries leak a little with every file.
const JOBS_PER_WORKER: u32 = 1_000;
/// Kept of what a dying worker says on its standard error.
const LAST_WORDS_BYTES: u64 = 4 << 10;
/// A worker that closed its socket is dead or about to be.
const DEATH_SECONDS: u64 = 2;

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
        }
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
        let job = Job { name: name.chars().take(1_000).collect(), task };
        let rested = self.idle().pop();
        if let Some(worker) = rested {
            match self.run(worker, &file, &job).await {
                // What an earlier file left behind may have killed it: one more try, in a worker of its own.
                Err(Fault::Died(_)) => {}
                Err(Fault::Stalled(failed)) => return Err(failed),
                Ok(reply) => return reply,
            }
        }
        let worker = self
            .start()
            .await
            .map_err(|error| failure(Reason::Io, format!("cannot start `{}`: {error}", self.program.display())))?;
        match self.run(worker, &file, &job).await {
            Err(Fault::Died(failed) | Fault::Stalled(failed)) => Err(failed),
            Ok(reply) => reply,
        }
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

    async fn start(&self) -> io::Result<Worker> {
        let nursery = self.nursery.get_or_try_init(|| async { Nursery::open() }).await?;
        Worker::start(nursery, &self.program, &self.setup).await
    }

    /// Runs a job, and lays the worker to rest if it is still good.
    async fn run(&self, mut worker: Worker, file: &File, job: &Job) -> Result<Reply, Fault> {
        let seconds = match &job.task {
            Task::Extract => self.setup.limits.seconds,
            Task::Skill(skill) => skill.seconds,
        };
        let most = protocol::most_reply_bytes(&self.setup.limits);
        match tokio::time::timeout(Duration::from_secs(seconds.into()), worker.ask(file, job, most)).await {
            Ok(Ok(reply)) => {
                if !worker.is_worn_out(&self.setup.limits) {
                    worker.rested = Instant::now();
                    self.idle().push(worker);
                }
                Ok(reply)
            }
            Ok(Err(error)) => Err(Fault::Died(worker.bury(&error).await)),
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
    jobs: u32,
    /// Since when it has nothing to do.
    rested: Instant,
}

impl Worker {
    async fn start(nursery: &Nursery, program: &Path, setup: &Setup) -> io::Result<Worker> {
        let (here, there) = StdStream::pair()?;
        here.set_nonblocking(true)?;
        let mut command = Command::new(program);
        command.arg("worker").env_clear().current_dir("/");
        command.stdin(Stdio::from(OwnedFd::from(there))).stdout(Stdio::null()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        let child = nursery.spawn(command).await?;
        let mut socket = UnixStream::from_std(here)?;
        // One that is already dead shows it when it is asked.
        socket.write_all(&protocol::encode(setup)?).await.ok();
        Ok(Worker { child, socket, jobs: 0, rested: Instant::now() })
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
        let mut prefix = [0; PREFIX];
        self.socket.read_exact(&mut prefix).await?;
        let mut content = vec![0; protocol::length(prefix, most)?];
        self.socket.read_exact(&mut content).await?;
        protocol::decode(&content)
    }

    /// Says whether it is time for a new one: after many jobs, or when it holds half the memory it may.
    fn is_worn_out(&self, limits: &ExtractLimits) -> bool {
        let resident = self.child.id().and_then(resident_bytes).unwrap_or(0);
        self.jobs >= JOBS_PER_WORKER || resident > u64::from(limits.memory_mib) << 19
    }

    /// Finds out what a worker died of.
    async fn bury(mut self, error: &io::Error) -> ExtractFailure {
        let patience = Duration::from_secs(DEATH_SECONDS);
        let status = tokio::time::timeout(patience, self.child.wait()).await;
        let mut words = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut stderr = stderr.take(LAST_WORDS_BYTES);
            tokio::time::timeout(patience, stderr.read_to_end(&mut words)).await.ok();
        }
        let words = String::from_utf8_lossy(&words);
        // The PDF library aborts without a word when it gets no memory; nothing else that aborts is silent.
        let aborted = matches!(&status, Ok(Ok(status)) if status.signal() == Some(libc::SIGABRT));
        if words.contains("memory allocation of") || (aborted && words.is_empty()) {
            return failure(Reason::OutOfMemory, "needed more memory than the limit");
        }
        if words.contains("overflowed its stack") {
            return failure(Reason::TooDeep, "nested deeper than the stack of its reader");
        }
        let end = match status {
            Ok(Ok(status)) => status.to_string(),
            _ => error.to_string(),
        };
        failure(Reason::WorkerCrash, format!("its reader died: {end}"))
    }
}

/// Returns the resident memory of a process.
fn resident_bytes(process: u32) -> Option<u64> {
    status_bytes(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?, "VmRSS:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(program: &str) -> WorkerPool {
        let limits = ExtractLimits { seconds: 1, ..ExtractLimits::default() };
        let settings = PoolSettings { workers: 1, limits, tools: Tools::default(), skills: false };
        WorkerPool::new(program.into(), settings)
    }

    async fn check(program: &str, expected: Reason) {
        let file = tempfile::tempfile().unwrap();
        let pool = pool(program);
        // Twice: a fault must not use up a permit.
        for _ in 0..2 {
            let failed = pool.extract(file.try_clone().unwrap(), "a.txt").await.unwrap_err();
            assert_eq!(failed.reason, expected, "{}", failed.detail);
        }
    }

    #[tokio::test]
    async fn a_worker_that_exits_is_a_crash_and_the_pool_goes_on() {
        check("/bin/false", Reason::WorkerCrash).await;
    }

    #[tokio::test]
    async fn a_worker_that_cannot_start_is_told_with_its_program() {
        check("/nonexistent/vicd", Reason::Io).await;
    }

    #[tokio::test]
    async fn a_worker_that_says_nothing_is_killed_at_the_time_limit() {
        // `yes worker` writes to nowhere for ever.
        check("/usr/bin/yes", Reason::Timeout).await;
    }

    #[tokio::test]
    async fn a_skill_that_hangs_is_killed_at_the_time_limit_of_its_job() {
        let settings =
            PoolSettings { workers: 1, limits: ExtractLimits::default(), tools: Tools::default(), skills: true };
        let pool = WorkerPool::new("/usr/bin/yes".into(), settings);
        let job = SkillJob { skill: "any".to_string(), seconds: 1, ..SkillJob::default() };
        let begun = Instant::now();
        let failed = pool.run_skill(tempfile::tempfile().unwrap(), "a.pdf", job).await.unwrap_err();
        assert_eq!(failed.reason, Reason::Timeout);
        assert!(begun.elapsed() < Duration::from_secs(10), "the pool's own limit is longer");
    }
}
