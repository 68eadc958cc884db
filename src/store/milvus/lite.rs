//! The server of Milvus Lite: vic starts `milvus-lite server` on a free port of this machine, starts it again when it ends,
//! and ends it with the daemon.
//!
//! The server has no authentication: every program of this machine that finds the port can read the index.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::config::VARIABLES;
use crate::egress;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// Name of the program, which is looked up in PATH.
const PROGRAM: &str = "milvus-lite";
/// Interval of the checks whether the server still runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Delay before the server is started again, so that a server that cannot start takes little time.
const RESTART_DELAY: Duration = Duration::from_millis(500);
/// Time that the server has to end after a signal, before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A running server of Milvus Lite.
#[derive(Debug)]
pub(super) struct LiteServer {
    address: String,
    dir: PathBuf,
    log: PathBuf,
    running: Arc<Running>,
    /// Dropping it ends the server.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What is known of the running process of the server.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// How often the server was started.
    starts: AtomicU64,
    process: AtomicU32,
    /// File with the process and the port, for `vic doctor`.
    place: PathBuf,
    port: u16,
    /// Whether vic has opened its collection at the first start.
    is_open: AtomicBool,
}

impl Running {
    /// Lets other programs find the server from now on, after each start. If they came before vic, they would open the same
    /// collection at the same time as vic, and Milvus Lite would lose rows.
    pub(super) fn allow_others(&self) {
        self.is_open.store(true, Ordering::Relaxed);
        self.note_connection();
    }

    /// Publishes the address of the server that vic has just connected to, whose collections are open.
    pub(super) fn note_connection(&self) {
        if !self.is_open.load(Ordering::Relaxed) {
            return;
        }
        let text = format!("{} {}\n", self.process.load(Ordering::Relaxed), self.port);
        if let Err(error) = fs::write(&self.place, text) {
            tracing::warn!(%error, "cannot write `{}`, so that `vic doctor` cannot read the index", self.place.display());
        }
    }
}

impl LiteServer {
    /// Starts the server for the data below `dir`. It accepts connections after some seconds.
    ///
    /// # Errors
    /// `milvus-lite` is not installed, or `dir` is a file.
    pub(super) fn start(dir: &Path) -> Result<LiteServer> {
        check_dir(dir)?;
        let log = beside(dir, "log");
        let _missing = fs::remove_file(&log);
        let place = beside(dir, "address");
        let port = egress::free_local_port()?;
        let running = Arc::new(Running { place, port, ..Running::default() });
        let server = ServerCommand { dir: dir.to_owned(), log: log.clone(), running: running.clone() };
        let (stop, stopped) = mpsc::channel();
        let (report, started) = mpsc::channel();
        // A thread of its own, because the kernel ends the server when the thread that started it ends.
        let thread =
            std::thread::Builder::new().name(PROGRAM.into()).spawn(move || server.supervise(&stopped, &report));
        let thread = thread.io_context("start the thread of", dir)?;
        started.recv().map_err(Error::internal)??;
        Ok(LiteServer {
            address: address_of(port),
            dir: dir.to_owned(),
            log,
            running,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns how often the server was started.
    pub(super) fn starts(&self) -> u64 {
        self.running.starts.load(Ordering::Relaxed)
    }

    pub(super) fn running(&self) -> &Arc<Running> {
        &self.running
    }

    /// Returns the directory of the data.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the last line of the server's log, to explain why it does not answer.
    pub(super) fn last_log_line(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        text.lines()
            .rev()
            .map(str::trim)
            .find(|it| !it.is_empty())
            .unwrap_or("it wrote nothing")
            .chars()
            .take(200)
            .collect()
    }
}

impl Drop for LiteServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread of {PROGRAM} panicked");
        }
    }
}

/// Returns the address of the server that a daemon runs for the data below `dir`, if one does.
pub(super) fn running_address(dir: &Path) -> Option<String> {
    let text = fs::read_to_string(beside(dir, "address")).ok()?;
    let (process, port) = text.trim().split_once(' ')?;
    // Another program may have the number of a process that has ended.
    let command = fs::read(format!("/proc/{}/cmdline", process.parse::<u32>().ok()?)).ok()?;
    let is_server = command.split(|it| *it == 0).any(|it| it == dir.as_os_str().as_encoded_bytes());
    is_server.then(|| address_of(port.parse().unwrap_or_default()))
}

fn address_of(port: u16) -> String {
    format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
}

fn beside(dir: &Path, extension: &str) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn check_dir(dir: &Path) -> Result<()> {
    if dir.is_file() {
        let text =
            format!("`{}` is a file, as milvus-lite 2 wrote them; milvus-lite 3 uses a directory", dir.display());
        let hint = "move the file away, or set VIC_MILVUS_URI to another path or to the address of a server";
        return Err(Error::new(ErrorCode::FailedPrecondition, text).hint(hint));
    }
    fs::create_dir_all(dir).io_context("create", dir)
}

struct ServerCommand {
    dir: PathBuf,
    log: PathBuf,
    running: Arc<Running>,
}

impl ServerCommand {
    /// Runs the server until `stopped` is closed. Reports whether the first start succeeded, and ends if not.
    fn supervise(&self, stopped: &mpsc::Receiver<()>, report: &Sender<Result<()>>) {
        let mut started = self.spawn();
        let first = started.as_ref().map(drop).map_err(Clone::clone);
        let is_running = first.is_ok();
        if report.send(first).is_err() || !is_running {
            return;
        }
        loop {
            let is_stopped = match started {
                Ok(child) => self.wait(child, stopped),
                Err(error) => {
                    tracing::warn!(%error, "cannot start {PROGRAM} again");
                    false
                }
            };
            if is_stopped || stopped.recv_timeout(RESTART_DELAY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            tracing::warn!("{PROGRAM} has ended and is started again; its log is `{}`", self.log.display());
            started = self.spawn();
        }
    }

    fn spawn(&self) -> Result<Child> {
        let log = File::options().create(true).append(true).open(&self.log).io_context("create", &self.log)?;
        let mut command = Command::new(PROGRAM);
        // Without `--host` the server would listen on all networks.
        command
            .args(["server", "--host", "127.0.0.1", "--port"])
            .arg(self.running.port.to_string())
            .arg("--data-dir")
            .arg(&self.dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // The server needs no secret of vic.
        for (name, _) in VARIABLES.iter().filter(|it| it.0.ends_with("_API_KEY") || it.0.ends_with("_TOKEN")) {
            command.env_remove(name);
        }
        vic_system::process::end_with_parent(&mut command);
        let child = command.spawn().map_err(|error| start_error(&error))?;
        self.running.process.store(child.id(), Ordering::Relaxed);
        self.running.starts.fetch_add(1, Ordering::Relaxed);
        Ok(child)
    }

    /// Waits until the server ends or `stopped` is closed, and ends the server then. Returns whether `stopped` is closed.
    fn wait(&self, mut child: Child, stopped: &mpsc::Receiver<()>) -> bool {
        let is_stopped = loop {
            match child.try_wait() {
                Ok(None) => (),
                Ok(Some(_)) => break false,
                Err(error) => tracing::warn!(%error, "cannot wait for {PROGRAM}"),
            }
            if stopped.recv_timeout(CHECK_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                end(&mut child);
                break true;
            }
        };
        // Leaves the file of another server, which another vic has started meanwhile.
        let place = &self.running.place;
        let is_own = fs::read_to_string(place).is_ok_and(|it| it.starts_with(&format!("{} ", child.id())));
        if is_own {
            let _missing = fs::remove_file(place);
        }
        is_stopped
    }
}

fn start_error(error: &io::Error) -> Error {
    let (text, hint) = match error.kind() {
        io::ErrorKind::NotFound => (
            format!("VIC_VECTOR_BACKEND is `milvus`, but `{PROGRAM}` is not installed"),
            "run `pip install milvus-lite pymilvus` (Python 3.10 or newer), or set VIC_MILVUS_URI to the address of a server",
        ),
        _ => (format!("cannot start `{PROGRAM}`: {error}"), "check the installation of milvus-lite"),
    };
    Error::new(ErrorCode::FailedPrecondition, text).hint(hint)
}

/// Interrupts the server, which then writes its data and ends, and kills it if it does not. On SIGTERM it would end at once.
fn end(child: &mut Child) {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let asked = process.map(|it| kill_process(it, Signal::INT));
    let since = Instant::now();
    while asked == Some(Ok(())) && since.elapsed() < END_TIMEOUT {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    if let Err(error) = child.kill().and_then(|()| child.wait().map(drop)) {
        tracing::warn!(%error, "cannot end {PROGRAM}");
    }
}
