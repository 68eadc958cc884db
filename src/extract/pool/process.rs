//! One worker process of the pool: its start, its socket, and the diagnosis of why it died.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::extract::pool::spawner::WorkerSpawner;
use crate::extract::protocol::{self, Hello, Job, MAX_REQUEST_BYTES, PREFIX_BYTES, Reply, Setup};
use crate::extract::worker::status_bytes;
use vic_system::fd_passing;
use vic_system::process::exited_peak_memory;

use crate::extract::{Tools, new_failure};
use crate::model::{ExtractFailure, Reason};

/// A worker is replaced after this many jobs, because native libraries leak some memory with every file.
const MAX_JOBS_PER_WORKER: u32 = 1_000;
/// Replies of at least this many bytes are decoded on a blocking thread, because they would delay other async tasks.
const MAX_INLINE_DECODE_BYTES: usize = 256 << 10;
/// Maximum number of bytes that are read from the standard error of a dead worker.
const MAX_STDERR_BYTES: u64 = 4 << 10;
/// Message of the Rust runtime when a C++ exception reaches it. The PDF library throws only when it is out of memory.
const FOREIGN_EXCEPTION: &str = "cannot catch foreign exceptions";
/// Seconds to wait for the exit of a worker that closed its socket. After that, the worker is killed.
const DEATH_SECONDS: u64 = 2;

/// Why a worker ended unexpectedly.
#[derive(Debug)]
pub(super) struct Death {
    /// The failure to record for the file that the worker was reading.
    pub(super) failed: ExtractFailure,
    pub(super) cause: Cause,
    /// Largest memory use of the worker in bytes, if known.
    pub(super) peak: Option<u64>,
}

/// What caused the end of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The worker crashed, or exceeded one of its resource limits.
    Worker,
    /// The jail killed the worker for a forbidden system call.
    Jail,
    /// Another process or the kernel killed the worker.
    Outside,
}

/// A running worker process and the socket to it.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    socket: UnixStream,
    /// Peak memory of the daemon in bytes when the worker was started. The kernel reports this as the worker's peak until
    /// the worker uses more, because both processes share memory until `exec`.
    inherited_peak: u64,
    /// Libraries and models that the worker could load before it was jailed.
    pub(super) tools: Tools,
    jobs: u32,
    /// When the worker finished its last job.
    pub(super) idle_since: Instant,
}

impl Worker {
    pub(super) async fn start(nursery: &WorkerSpawner, program: &Path, setup: Setup) -> io::Result<Worker> {
        let (here, there) = StdStream::pair()?;
        here.set_nonblocking(true)?;
        let mut command = Command::new(program);
        command.env_clear().current_dir("/");
        command.stdin(Stdio::from(OwnedFd::from(there))).stdout(Stdio::null()).stderr(Stdio::piped());
        // Puts the worker in its own process group, so that killing the group also kills processes that a worker without a
        // jail has started.
        command.process_group(0).kill_on_drop(true);
        let shared = status_of("self").and_then(|it| status_bytes(&it, "VmHWM:")).unwrap_or(u64::MAX);
        let child = nursery.spawn(command).await?;
        let mut socket = UnixStream::from_std(here)?;
        // Ignores a write error: if the worker is already dead, the later read of its first message fails.
        socket.write_all(&protocol::encode_frame(&setup)?).await.ok();
        Ok(Worker { child, socket, inherited_peak: shared, tools: setup.tools, jobs: 0, idle_since: Instant::now() })
    }

    /// Reads the first message of the worker, which reports whether it is jailed.
    pub(super) async fn read_hello(&mut self) -> io::Result<Hello> {
        protocol::decode_frame(&self.read_frame(MAX_REQUEST_BYTES).await?)
    }

    /// Returns the process group of the worker; `None` once the worker is known to have ended.
    fn group(&self) -> Option<Pid> {
        self.child.id().and_then(|it| Pid::from_raw(i32::try_from(it).ok()?))
    }

    async fn read_frame(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut prefix = [0; PREFIX_BYTES];
        self.socket.read_exact(&mut prefix).await?;
        let mut content = vec![0; protocol::parse_length(prefix, most)?];
        self.socket.read_exact(&mut content).await?;
        Ok(content)
    }

    pub(super) async fn request(&mut self, file: &File, job: &Job, most: usize) -> io::Result<Reply> {
        self.jobs += 1;
        let frame = protocol::encode_frame(job)?;
        let sent = loop {
            self.socket.writable().await?;
            let send = || fd_passing::send(self.socket.as_fd(), &frame, file);
            match self.socket.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => break outcome?,
            }
        };
        self.socket.write_all(&frame[sent..]).await?;
        let reply = self.read_frame(most).await?;
        if reply.len() < MAX_INLINE_DECODE_BYTES {
            return protocol::decode_frame(&reply);
        }
        tokio::task::spawn_blocking(move || protocol::decode_frame(&reply)).await.map_err(io::Error::other)?
    }

    /// Returns whether the worker should be replaced: after `MAX_JOBS_PER_WORKER` jobs, or if its memory use `held`
    /// exceeds half of its limit (three quarters for skill workers, where neural networks take half).
    pub(super) fn needs_replacement(&self, held: u64, setup: &Setup) -> bool {
        let quarters = if setup.for_questions { 3 } else { 2 };
        self.jobs >= MAX_JOBS_PER_WORKER || held > (u64::from(setup.limits.memory_mib) << 18) * quarters
    }

    /// Returns the current and peak memory of the worker in bytes; zeros if the process is gone.
    pub(super) fn memory(&self) -> (u64, u64) {
        self.id().and_then(memory_of).unwrap_or_default()
    }

    /// Returns the process id, for monitoring the memory while the worker is busy.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Returns whether the process is stopped by a signal.
    pub(super) fn is_stopped(&self) -> bool {
        let status = self.status().unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("State:")).is_some_and(|it| it.trim().starts_with('T'))
    }

    /// Returns the text of `/proc/PID/status` of the worker; `None` if the process is gone.
    fn status(&self) -> Option<String> {
        status_of(&self.child.id()?.to_string())
    }

    /// Waits for the worker to exit, kills its process group, and diagnoses why it died. `error` is the error of the socket
    /// that showed the death.
    pub(super) async fn diagnose_death(mut self, error: &io::Error) -> Death {
        let patience = Duration::from_secs(DEATH_SECONDS);
        let group = self.group();
        let peak = match group {
            Some(pid) => wait_for_peak_memory(pid, patience).await,
            None => Some(0),
        };
        // A worker that still runs has no exit status: it broke the protocol, and is killed below.
        let status = match peak {
            Some(_) => tokio::time::timeout(patience, self.child.wait()).await.ok(),
            None => None,
        };
        let peak = peak.filter(|it| *it > self.inherited_peak);
        group.into_iter().for_each(kill_group);
        let mut words = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut stderr = stderr.take(MAX_STDERR_BYTES);
            tokio::time::timeout(patience, stderr.read_to_end(&mut words)).await.ok();
        }
        let status = status.and_then(io::Result::ok);
        Death { peak, ..diagnose(status, &String::from_utf8_lossy(&words), error) }
    }
}

/// Returns `/proc/PROCESS/status` for a process id or `self`; `None` if the process is gone.
fn status_of(process: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{process}/status")).ok()
}

/// Returns current and peak memory of a process in bytes; `None` if it is gone.
pub(super) fn memory_of(process: u32) -> Option<(u64, u64)> {
    let status = status_of(&process.to_string())?;
    Some((status_bytes(&status, "VmRSS:")?, status_bytes(&status, "VmHWM:")?))
}

/// Waits for a child to exit, without reaping it, and returns its peak memory in bytes, which `/proc` no longer reports
/// after the exit. Returns `None` if the child does not exit in time.
async fn wait_for_peak_memory(child: Pid, patience: Duration) -> Option<u64> {
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    let begun = Instant::now();
    loop {
        match exited_peak_memory(child) {
            Ok(Some(peak)) => return Some(peak),
            Ok(None) if begun.elapsed() < patience => tokio::time::sleep(POLL_INTERVAL).await,
            Ok(None) => return None,
            // The child was reaped already, so its peak memory is not known; 0 stands for that.
            Err(_) => return Some(0),
        }
    }
}

/// Derives why a worker died from its exit status (if known), its standard error `words`, and the socket error.
fn diagnose(status: Option<ExitStatus>, words: &str, error: &io::Error) -> Death {
    let of = |cause, reason, detail: &str| Death { failed: new_failure(reason, detail), cause, peak: None };
    let signal = status.and_then(|it| it.signal());
    // SIGABRT without a message means out of memory: the PDF library aborts silently, while all other aborts print a
    // message.
    let aborted = signal == Some(libc::SIGABRT);
    let signs = ["memory allocation of", "failed to allocate", FOREIGN_EXCEPTION];
    if signs.iter().any(|it| words.contains(it)) || (aborted && words.is_empty()) {
        return of(Cause::Worker, Reason::OutOfMemory, "its reader needed more memory than the limit");
    }
    if words.contains("overflowed its stack") {
        return of(Cause::Worker, Reason::TooDeep, "nested so deeply that the stack of its reader overflowed");
    }
    if signal == Some(libc::SIGSYS) {
        return of(Cause::Jail, Reason::WorkerCrash, "its reader tried to leave its jail, and was killed");
    }
    if let Some(name) = signal.and_then(outside_signal_name) {
        let detail =
            format!("its reader was killed by {name}: by another process, or by the system for lack of memory");
        return of(Cause::Outside, Reason::WorkerCrash, &detail);
    }
    let end = status.map_or_else(|| error.to_string(), |it| it.to_string());
    of(Cause::Worker, Reason::WorkerCrash, &format!("its reader crashed: {end}"))
}

/// Returns the name of a signal that only another process or the kernel sends to a worker; `None` for signals that result
/// from its own actions, its limits or its jail.
fn outside_signal_name(signal: i32) -> Option<&'static str> {
    match signal {
        libc::SIGKILL => Some("SIGKILL"),
        libc::SIGTERM => Some("SIGTERM"),
        libc::SIGINT => Some("SIGINT"),
        libc::SIGHUP => Some("SIGHUP"),
        libc::SIGQUIT => Some("SIGQUIT"),
        _ => None,
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.group().into_iter().for_each(kill_group);
    }
}

fn kill_group(group: Pid) {
    // Ignores the error that a group without processes causes.
    let _gone = rustix::process::kill_process_group(group, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn death_cause_is_derived_from_signal() {
        let closed = io::Error::other("closed");
        for (signal, cause) in [
            (libc::SIGKILL, Cause::Outside),
            (libc::SIGTERM, Cause::Outside),
            (libc::SIGSEGV, Cause::Worker),
            (libc::SIGBUS, Cause::Worker),
            (libc::SIGABRT, Cause::Worker),
            (libc::SIGXCPU, Cause::Worker),
            (libc::SIGXFSZ, Cause::Worker),
            (libc::SIGSYS, Cause::Jail),
        ] {
            // Makes the exit status from the raw form that `wait` returns.
            assert_eq!(diagnose(Some(ExitStatus::from_raw(signal)), "", &closed).cause, cause, "signal {signal}");
        }
        assert_eq!(diagnose(None, "", &closed).cause, Cause::Worker);
        let said = diagnose(Some(ExitStatus::from_raw(libc::SIGKILL)), "memory allocation of 9 bytes failed", &closed);
        assert_eq!((said.cause, said.failed.reason), (Cause::Worker, Reason::OutOfMemory));
    }
}
