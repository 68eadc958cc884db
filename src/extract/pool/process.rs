//! One worker: its process, its socket, and the diagnosis of its death.

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

/// Native libraries leak some memory with every file.
const MAX_JOBS_PER_WORKER: u32 = 1_000;
/// Replies below this size are decoded on the async thread; longer ones would delay other tasks.
const MAX_INLINE_DECODE_BYTES: usize = 256 << 10;
/// Bytes kept from the standard error of a dying worker.
const MAX_STDERR_BYTES: u64 = 4 << 10;
/// Rust prints this when a C++ exception reaches it; the PDF library throws only if memory runs out.
const FOREIGN_EXCEPTION: &str = "cannot catch foreign exceptions";
/// A worker that closed its socket is dead or about to be.
const DEATH_SECONDS: u64 = 2;

/// The diagnosis of an unexpected end of a worker.
#[derive(Debug)]
pub(super) struct Death {
    /// The failure to record for its file.
    pub(super) failed: ExtractFailure,
    pub(super) cause: Cause,
    /// Largest memory use of the worker in bytes, if known.
    pub(super) peak: Option<u64>,
}

/// What ended a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The worker itself, or its limits.
    Worker,
    /// The jail, for a forbidden system call.
    Jail,
    /// Another process or the kernel.
    Outside,
}

/// A running process and the socket to it.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    socket: UnixStream,
    /// Peak memory of this process in bytes when the worker was started. The kernel attributes it to the child until the
    /// child's own peak is higher, because they shared memory for a moment.
    inherited_peak: u64,
    /// Libraries it could load before it was jailed.
    pub(super) tools: Tools,
    jobs: u32,
    /// Since when it is idle.
    pub(super) idle_since: Instant,
}

impl Worker {
    pub(super) async fn start(nursery: &WorkerSpawner, program: &Path, setup: Setup) -> io::Result<Worker> {
        let (here, there) = StdStream::pair()?;
        here.set_nonblocking(true)?;
        let mut command = Command::new(program);
        command.env_clear().current_dir("/");
        command.stdin(Stdio::from(OwnedFd::from(there))).stdout(Stdio::null()).stderr(Stdio::piped());
        // Kills processes started by the worker too, if it left its jail or has none.
        command.process_group(0).kill_on_drop(true);
        let shared = status_of("self").and_then(|it| status_bytes(&it, "VmHWM:")).unwrap_or(u64::MAX);
        let child = nursery.spawn(command).await?;
        let mut socket = UnixStream::from_std(here)?;
        // If the worker is already dead, the next request fails.
        socket.write_all(&protocol::encode_frame(&setup)?).await.ok();
        Ok(Worker { child, socket, inherited_peak: shared, tools: setup.tools, jobs: 0, idle_since: Instant::now() })
    }

    /// Reads the first message of the worker.
    pub(super) async fn read_hello(&mut self) -> io::Result<Hello> {
        protocol::decode_frame(&self.read_frame(MAX_REQUEST_BYTES).await?)
    }

    /// Returns the process group; `None` once the process is known to have ended.
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

    /// Returns whether the worker should be replaced: after many jobs, or if `held` is half of its memory limit. The limit
    /// is three quarters for skill workers, where networks take half.
    pub(super) fn needs_replacement(&self, held: u64, setup: &Setup) -> bool {
        let quarters = if setup.for_questions { 3 } else { 2 };
        self.jobs >= MAX_JOBS_PER_WORKER || held > (u64::from(setup.limits.memory_mib) << 18) * quarters
    }

    /// Returns current and peak memory in bytes; zeros if the process is gone.
    pub(super) fn memory(&self) -> (u64, u64) {
        self.id().and_then(memory_of).unwrap_or_default()
    }

    /// Returns the process id, for monitoring while it works.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Returns whether the process is stopped by a signal.
    pub(super) fn is_stopped(&self) -> bool {
        let status = self.status().unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("State:")).is_some_and(|it| it.trim().starts_with('T'))
    }

    /// Returns the process status from `/proc`; `None` if the process is gone.
    fn status(&self) -> Option<String> {
        status_of(&self.child.id()?.to_string())
    }

    /// Ends the worker and diagnoses its death.
    pub(super) async fn diagnose_death(mut self, error: &io::Error) -> Death {
        let patience = Duration::from_secs(DEATH_SECONDS);
        let group = self.group();
        let peak = match group {
            Some(pid) => wait_for_peak_memory(pid, patience).await,
            None => Some(0),
        };
        // A worker that has not ended by now broke the protocol, and is killed here.
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

/// Waits for a child to exit without reaping it, and returns its peak memory in bytes, which `/proc` no longer has after
/// the exit. Returns `None` if it does not exit in time.
async fn wait_for_peak_memory(child: Pid, patience: Duration) -> Option<u64> {
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    let begun = Instant::now();
    loop {
        match exited_peak_memory(child) {
            Ok(Some(peak)) => return Some(peak),
            Ok(None) if begun.elapsed() < patience => tokio::time::sleep(POLL_INTERVAL).await,
            Ok(None) => return None,
            // The child was reaped already.
            Err(_) => return Some(0),
        }
    }
}

/// Diagnoses a death from the exit status (if known), the standard error, and `error`, the error of the socket.
fn diagnose(status: Option<ExitStatus>, words: &str, error: &io::Error) -> Death {
    let of = |cause, reason, detail: &str| Death { failed: new_failure(reason, detail), cause, peak: None };
    let signal = status.and_then(|it| it.signal());
    // The PDF library aborts silently if it gets no memory; all other aborts print a message.
    let aborted = signal == Some(libc::SIGABRT);
    let signs = ["memory allocation of", "failed to allocate", FOREIGN_EXCEPTION];
    if signs.iter().any(|it| words.contains(it)) || (aborted && words.is_empty()) {
        return of(Cause::Worker, Reason::OutOfMemory, "needed more memory than the limit");
    }
    if words.contains("overflowed its stack") {
        return of(Cause::Worker, Reason::TooDeep, "nested deeper than the stack of its reader");
    }
    if signal == Some(libc::SIGSYS) {
        return of(Cause::Jail, Reason::WorkerCrash, "its reader tried to leave its jail, and was killed");
    }
    if let Some(name) = signal.and_then(outside_signal_name) {
        let detail = format!(
            "its reader was killed by {name} from outside: by another process, or by the system for lack of memory"
        );
        return of(Cause::Outside, Reason::WorkerCrash, &detail);
    }
    let end = status.map_or_else(|| error.to_string(), |it| it.to_string());
    of(Cause::Worker, Reason::WorkerCrash, &format!("its reader died: {end}"))
}

/// Returns the name of a signal that never results from a worker's own actions: its limits and its jail use others.
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
    // Fails if the group has no processes left.
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
            // In the form returned by `wait`.
            assert_eq!(diagnose(Some(ExitStatus::from_raw(signal)), "", &closed).cause, cause, "signal {signal}");
        }
        assert_eq!(diagnose(None, "", &closed).cause, Cause::Worker);
        let said = diagnose(Some(ExitStatus::from_raw(libc::SIGKILL)), "memory allocation of 9 bytes failed", &closed);
        assert_eq!((said.cause, said.failed.reason), (Cause::Worker, Reason::OutOfMemory));
    }
}
