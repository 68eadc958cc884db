//! One worker: the process, the socket to it, and what it died of.

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

use crate::extract::pool::Nursery;
use crate::extract::protocol::{self, Hello, Job, MOST_REQUEST_BYTES, PREFIX, Reply, Setup};
use crate::extract::worker::status_bytes;
use crate::extract::{Tools, descriptor, failure};
use crate::model::{ExtractFailure, Reason};

/// Native libraries leak a little with every file.
const JOBS_PER_WORKER: u32 = 1_000;
/// Bytes of a reply that is taken apart where it comes in; with a longer one others would have to wait.
const AT_ONCE_BYTES: usize = 256 << 10;
/// Kept of what a dying worker says on its standard error.
const LAST_WORDS_BYTES: u64 = 4 << 10;
/// Said when an exception of C++ reaches Rust; the PDF library throws none but for want of memory.
const FOREIGN_EXCEPTION: &str = "cannot catch foreign exceptions";
/// A worker that closed its socket is dead or about to be.
const DEATH_SECONDS: u64 = 2;

/// How a worker ended that should not have.
#[derive(Debug)]
pub(super) struct Death {
    /// What its file failed of.
    pub(super) failed: ExtractFailure,
    pub(super) cause: Cause,
    /// Most memory that it ever held, in bytes, where that can be told.
    pub(super) peak: Option<u64>,
}

/// Who ended a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It did, or its limits.
    Own,
    /// Its jail, for what it tried.
    Jail,
    /// Somebody else.
    Outside,
}

/// A running process and the socket to it.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    socket: UnixStream,
    /// Most memory that we had held when it was started, in bytes: the system counts that as the child's until it holds
    /// more, because for a moment they shared it.
    shared: u64,
    /// What it could load before it was jailed.
    pub(super) tools: Tools,
    jobs: u32,
    /// Since when it has nothing to do.
    pub(super) rested: Instant,
}

impl Worker {
    pub(super) async fn start(nursery: &Nursery, program: &Path, setup: Setup) -> io::Result<Worker> {
        let (here, there) = StdStream::pair()?;
        here.set_nonblocking(true)?;
        let mut command = Command::new(program);
        command.arg("worker").env_clear().current_dir("/");
        command.stdin(Stdio::from(OwnedFd::from(there))).stdout(Stdio::null()).stderr(Stdio::piped());
        // With whatever it starts, should it get out of its jail or have none.
        command.process_group(0).kill_on_drop(true);
        let shared = status_of("self").and_then(|it| status_bytes(&it, "VmHWM:")).unwrap_or(u64::MAX);
        let child = nursery.spawn(command).await?;
        let mut socket = UnixStream::from_std(here)?;
        // One that is already dead shows it when it is asked.
        socket.write_all(&protocol::encode(&setup)?).await.ok();
        Ok(Worker { child, socket, shared, tools: setup.tools, jobs: 0, rested: Instant::now() })
    }

    /// Reads what it says first.
    pub(super) async fn hello(&mut self) -> io::Result<Hello> {
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

    pub(super) async fn ask(&mut self, file: &File, job: &Job, most: usize) -> io::Result<Reply> {
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
        let reply = self.frame(most).await?;
        if reply.len() < AT_ONCE_BYTES {
            return protocol::decode(&reply);
        }
        tokio::task::spawn_blocking(move || protocol::decode(&reply)).await.map_err(io::Error::other)?
    }

    /// Returns whether it is time for a new one: after many jobs, or when it holds, of these bytes, half the memory it may;
    /// three quarters where half is networks.
    pub(super) fn is_worn_out(&self, held: u64, setup: &Setup) -> bool {
        let quarters = if setup.for_questions { 3 } else { 2 };
        self.jobs >= JOBS_PER_WORKER || held > (u64::from(setup.limits.memory_mib) << 18) * quarters
    }

    /// Returns what it holds and the most that it ever held, in bytes; nothing when it is gone.
    pub(super) fn memory(&self) -> (u64, u64) {
        self.id().and_then(resident).unwrap_or_default()
    }

    /// Returns the process, for whoever looks at it while it works.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Returns whether somebody has stopped it.
    pub(super) fn is_stopped(&self) -> bool {
        let status = self.status().unwrap_or_default();
        status.lines().find_map(|line| line.strip_prefix("State:")).is_some_and(|it| it.trim().starts_with('T'))
    }

    /// What `/proc` tells of it; none when it is gone.
    fn status(&self) -> Option<String> {
        status_of(&self.child.id()?.to_string())
    }

    /// Finds out what a worker died of.
    pub(super) async fn bury(mut self, error: &io::Error) -> Death {
        let patience = Duration::from_secs(DEATH_SECONDS);
        let group = self.group();
        let peak = match group {
            Some(pid) => peak_at_end(pid, patience).await,
            None => Some(0),
        };
        // One that has not ended by now only talks nonsense, and is ended here.
        let status = match peak {
            Some(_) => tokio::time::timeout(patience, self.child.wait()).await.ok(),
            None => None,
        };
        let peak = peak.filter(|it| *it > self.shared);
        group.into_iter().for_each(kill_group);
        let mut words = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut stderr = stderr.take(LAST_WORDS_BYTES);
            tokio::time::timeout(patience, stderr.read_to_end(&mut words)).await.ok();
        }
        let status = status.and_then(io::Result::ok);
        Death { peak, ..death(status, &String::from_utf8_lossy(&words), error) }
    }
}

/// What `/proc` tells of a process, by its number or as `self`; none when it is gone.
fn status_of(process: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{process}/status")).ok()
}

/// Returns what a process holds and the most that it ever held, in bytes; none when it is gone.
pub(super) fn resident(process: u32) -> Option<(u64, u64)> {
    let status = status_of(&process.to_string())?;
    Some((status_bytes(&status, "VmRSS:")?, status_bytes(&status, "VmHWM:")?))
}

/// Waits for the end of a child, leaves it to be reaped by whoever owns it, and returns the most memory that it ever held,
/// in bytes: once it is dead, `/proc` does not tell that any more. None when it does not end.
async fn peak_at_end(child: Pid, patience: Duration) -> Option<u64> {
    const LOOK: Duration = Duration::from_millis(2);
    let begun = Instant::now();
    loop {
        match peak_of_the_dead(child) {
            Ok(Some(peak)) => return Some(peak),
            Ok(None) if begun.elapsed() < patience => tokio::time::sleep(LOOK).await,
            Ok(None) => return None,
            // It is no child any more.
            Err(_) => return Some(0),
        }
    }
}

/// Returns none while it lives.
#[expect(unsafe_code, reason = "no library in use tells what a child used before it is reaped")]
fn peak_of_the_dead(child: Pid) -> io::Result<Option<u64>> {
    // SAFETY: both are plain data, for which zeros are valid.
    let (mut information, mut usage): (libc::siginfo_t, libc::rusage) = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to these two only, and both live until it returns.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            libc::P_PID,
            child.as_raw_nonzero().get(),
            &raw mut information,
            libc::WEXITED | libc::WNOHANG | libc::WNOWAIT,
            &raw mut usage,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // The number of a child that has not ended is 0.
    let has_ended = information.si_signo == libc::SIGCHLD;
    Ok(has_ended.then(|| u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10))
}

/// Tells what a worker died of by how it ended, where that is known, and what it said; `error` is how its socket failed.
fn death(status: Option<ExitStatus>, words: &str, error: &io::Error) -> Death {
    let of = |cause, reason, detail: &str| Death { failed: failure(reason, detail), cause, peak: None };
    let signal = status.and_then(|it| it.signal());
    // The PDF library aborts without a word when it gets no memory; nothing else that aborts is silent.
    let aborted = signal == Some(libc::SIGABRT);
    let signs = ["memory allocation of", "failed to allocate", FOREIGN_EXCEPTION];
    if signs.iter().any(|it| words.contains(it)) || (aborted && words.is_empty()) {
        return of(Cause::Own, Reason::OutOfMemory, "needed more memory than the limit");
    }
    if words.contains("overflowed its stack") {
        return of(Cause::Own, Reason::TooDeep, "nested deeper than the stack of its reader");
    }
    if signal == Some(libc::SIGSYS) {
        return of(Cause::Jail, Reason::WorkerCrash, "its reader tried to leave its jail, and was killed");
    }
    if let Some(name) = signal.and_then(from_outside) {
        let detail = format!(
            "its reader was ended by {name}, not for what it did: by somebody, or by the system for want of memory"
        );
        return of(Cause::Outside, Reason::WorkerCrash, &detail);
    }
    let end = status.map_or_else(|| error.to_string(), |it| it.to_string());
    of(Cause::Own, Reason::WorkerCrash, &format!("its reader died: {end}"))
}

/// Returns the name of a signal that no reader gets for what it does itself: its limits and its jail use others.
fn from_outside(signal: i32) -> Option<&'static str> {
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
    // It fails when nobody is left in it.
    let _gone = rustix::process::kill_process_group(group, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_does_itself_is_told_from_what_is_done_to_it() {
        let closed = io::Error::other("closed");
        for (signal, cause) in [
            (libc::SIGKILL, Cause::Outside),
            (libc::SIGTERM, Cause::Outside),
            (libc::SIGSEGV, Cause::Own),
            (libc::SIGBUS, Cause::Own),
            (libc::SIGABRT, Cause::Own),
            (libc::SIGXCPU, Cause::Own),
            (libc::SIGXFSZ, Cause::Own),
            (libc::SIGSYS, Cause::Jail),
        ] {
            // As `wait` gives it.
            assert_eq!(death(Some(ExitStatus::from_raw(signal)), "", &closed).cause, cause, "signal {signal}");
        }
        assert_eq!(death(None, "", &closed).cause, Cause::Own);
        let said = death(Some(ExitStatus::from_raw(libc::SIGKILL)), "memory allocation of 9 bytes failed", &closed);
        assert_eq!((said.cause, said.failed.reason), (Cause::Own, Reason::OutOfMemory));
    }
}
