//! Starts `vicd` if no daemon runs, and reports why a start failed.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::config::Config;
use crate::data_dir::{directory, lock};
use crate::error::{Error, ErrorCode, IoContext, Result};

/// Time limit for the first answer of a started daemon, which first loads a model, repairs the store and loads the index:
/// minutes for millions of chunks on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Time after which the user is informed that the daemon is still starting.
const NOTICE_AFTER: Duration = Duration::from_secs(3);

/// Pause between two attempts to connect to the socket: short, because the user waits.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes read from the end of the log to find its last lines.
const LOG_TAIL: u64 = 8 << 10;

/// Size in bytes from which the log is rotated at the next start.
const LOG_ROTATION_BYTES: u64 = 16 << 20;

/// Stack size of a thread that only waits for a process.
const REAPER_STACK_BYTES: usize = 64 << 10;

/// Number of log lines quoted in an error.
const LOG_LINES: usize = 5;

/// The function that receives messages about a slow start; if unset, the messages are dropped.
static WAIT_LISTENER: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that is called once for each slow start.
pub fn on_long_wait(listener: fn(&str)) {
    // Ignore the error for a second listener: the first one stays set.
    let _second = WAIT_LISTENER.set(listener);
}

impl Client {
    /// Connects to the daemon, and first starts one if none runs.
    ///
    /// # Errors
    /// As [`Client::connect`]; `Unavailable` with the last lines of the log if the daemon exits, or does not answer within
    /// five minutes.
    pub async fn connect_or_start(config: &Config) -> Result<Client> {
        let client = match Client::connect(config).await {
            Err(error) if error.code == ErrorCode::Unavailable => None,
            connected => Some(connected?),
        };
        match client {
            // A daemon that has written its TCP address to this file is ready. Without the file, wait until it is ready.
            Some(client) if config.address_path().exists() => Ok(client),
            begun => PendingStart::new(config, begun.is_some())?.wait().await,
        }
    }
}

/// A daemon that was started but does not answer yet.
struct PendingStart<'a> {
    config: &'a Config,
    begun: Instant,
    /// Length of the log in bytes before this start, so that errors quote only newer lines.
    log_start: u64,
    /// Whether the user has been informed about the slow start.
    is_notified: bool,
    /// The daemon process if this process started it; `None` if another process did.
    child: Option<Child>,
    /// Exit status of `child`, once it has exited.
    exited: Option<ExitStatus>,
}

impl<'a> PendingStart<'a> {
    /// Starts a daemon, unless `starting` says that another process is starting one.
    fn new(config: &'a Config, starting: bool) -> Result<PendingStart<'a>> {
        // Check before the log is written that the folder does not belong to another program.
        directory::create_checked(config)?;
        if !starting {
            rotate_if_large(&config.log_path());
        }
        let log_start = std::fs::metadata(config.log_path()).map_or(0, |log| log.len());
        let child = if starting { None } else { Some(spawn(config)?) };
        Ok(PendingStart { config, begun: Instant::now(), log_start, is_notified: false, child, exited: None })
    }

    /// Waits until the daemon answers, as long as a daemon process exists that may answer.
    async fn wait(mut self) -> Result<Client> {
        let config = self.config;
        loop {
            let mut answer = std::pin::pin!(connect_and_probe(config));
            let answered = loop {
                tokio::select! {
                    answered = &mut answer => break answered,
                    () = tokio::time::sleep(POLL_INTERVAL) => self.check_child()?,
                }
            };
            match answered {
                Err(error) if error.code == ErrorCode::Unavailable => {}
                answered => {
                    reap_in_background(self.child);
                    return answered;
                }
            }
            if self.child.is_none() {
                // Start a daemon, because the one that another process was starting has exited.
                self.child = Some(spawn(config)?);
            }
            self.check_child()?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Checks the started process; returns an error if it has exited, or does not answer within [`START_TIMEOUT`].
    fn check_child(&mut self) -> Result<()> {
        if self.exited.is_none()
            && let Some(child) = &mut self.child
        {
            self.exited = child.try_wait().io_context("wait for", Path::new("vicd"))?;
        }
        match self.exited {
            Some(status) if is_locked_exit(status) => self.check_other_daemon()?,
            Some(status) => {
                let log = read_tail(&self.config.log_path(), self.log_start).unwrap_or_default();
                return Err(last_error(&log, status.code()).unwrap_or_else(|| {
                    start_error(self.config, self.log_start, &format!("vicd exited with {status}"))
                }));
            }
            None => {}
        }
        if self.begun.elapsed() > START_TIMEOUT {
            let problem = format!("vicd does not answer after {} minutes", START_TIMEOUT.as_secs() / 60);
            return Err(start_error(self.config, self.log_start, &problem));
        }
        self.notify_once();
        Ok(())
    }

    /// Checks the daemon that another process started first and that holds the data directory.
    fn check_other_daemon(&mut self) -> Result<()> {
        let Some(pid) = lock::holder_pid(self.config) else {
            // Start again, because the process that held the lock has exited.
            self.child = Some(spawn(self.config)?);
            self.exited = None;
            return Ok(());
        };
        // Without an address file, the daemon is still starting and may answer later.
        let ready = self.config.address_path().exists();
        if ready && !self.config.socket_path().exists() && self.begun.elapsed() > NOTICE_AFTER {
            return Err(Error::new(ErrorCode::Unavailable, format!("vicd (pid {pid}) runs, but has no socket file"))
                .hint("run `vic daemon stop`, then try again"));
        }
        Ok(())
    }

    /// Informs the user once if the start takes longer than [`NOTICE_AFTER`].
    fn notify_once(&mut self) {
        if self.is_notified || self.begun.elapsed() < NOTICE_AFTER {
            return;
        }
        self.is_notified = true;
        let Some(listener) = WAIT_LISTENER.get() else { return };
        let own = self.child.as_ref().filter(|_| self.exited.is_none()).map(Child::id);
        let process =
            own.or_else(|| lock::holder_pid(self.config)).map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        listener(&format!(
            "waiting for vicd{process} to open the index, which takes minutes if it is large; its log is `{}`",
            self.config.log_path().display()
        ));
    }
}

/// Waits in the background for a started daemon to exit: a client that outlives the daemon (`vic mcp`, `vic repl`) would
/// otherwise keep a zombie process.
fn reap_in_background(child: Option<Child>) {
    let Some(mut child) = child else { return };
    let waits = std::thread::Builder::new().name("vicd".into()).stack_size(REAPER_STACK_BYTES);
    // Ignore a thread that cannot be started: the zombie process then stays until this process ends.
    let _left = waits.spawn(move || child.wait());
}

/// Returns whether a daemon exited because another daemon holds the data directory.
fn is_locked_exit(status: ExitStatus) -> bool {
    status.code() == Some(ErrorCode::Locked.exit_code().into())
}

/// Connects to the daemon and checks that it answers a request; a hung daemon accepts connections, too.
async fn connect_and_probe(config: &Config) -> Result<Client> {
    let client = Client::connect(config).await?;
    client.status().await.map(|_| client)
}

/// Returns the command that runs `vicd`: the one beside this program, else the one in `PATH`.
pub fn vicd() -> Command {
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name("vicd")).filter(|path| path.is_file());
    Command::new(beside.as_deref().map_or(OsStr::new("vicd"), Path::as_os_str))
}

/// Returns the error for a `vicd` program that was not found.
pub fn no_vicd() -> Error {
    Error::not_found("there is no `vicd` beside `vic` or in PATH").hint("install both programs in the same folder")
}

/// Returns the command that runs the daemon with this configuration.
pub fn vicd_command(config: &Config) -> Command {
    let mut command = vicd();
    // Pass absolute paths, because relative ones were resolved in this process's working directory, not in the daemon's.
    command.env("VIC_DATA_DIR", &config.data_dir);
    command.env("VIC_DB_PATH", &config.db_path);
    command.env("VIC_JOB_DB_PATH", &config.job_db_path);
    command.env("VIC_LISTEN", config.listen.to_string());
    if let Some(dir) = config.model_dirs.first() {
        command.env("VIC_MODELS_DIR", dir);
    }
    if let Some(root) = &config.warehouse_root {
        command.env("VIC_WAREHOUSE_ROOT", root);
    }
    if let Some(certificates) = &config.servers_ca {
        command.env("VIC_SERVERS_CA", certificates);
    }
    if let Some(files) = &config.bridge.tls {
        command.env("VIC_BRIDGE_TLS_CERT", &files.certificate).env("VIC_BRIDGE_TLS_KEY", &files.key);
    }
    command
}

fn spawn(config: &Config) -> Result<Child> {
    let log_path = config.log_path();
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&log_path).io_context("open", &log_path)?;
    let mut command = vicd_command(config);
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().io_context("open", &log_path)?)
        .stderr(log)
        // Leaves this process's working directory, whose file system could not be unmounted while the daemon runs in it.
        .current_dir(&config.data_dir);
    vic_system::process::start_new_session(&mut command);
    let program = PathBuf::from(command.get_program());
    command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => no_vicd(),
        _ => Error::io("start", &program, &error),
    })
}

/// Renames a log larger than [`LOG_ROTATION_BYTES`], replacing the previously renamed one.
fn rotate_if_large(log: &Path) {
    if log.metadata().is_ok_and(|it| it.len() > LOG_ROTATION_BYTES) {
        // Ignore a failed rename: the daemon then appends to the same log, and no line is lost.
        let _ = std::fs::rename(log, log.with_extension("log.1"));
    }
}

/// Parses the final error in a program's output: a line `error: ...`, optionally followed by `hint: ...`.
pub fn last_error(output: &str, exit_code: Option<i32>) -> Option<Error> {
    let code = ErrorCode::ALL.into_iter().find(|it| Some(i32::from(it.exit_code())) == exit_code)?;
    let output = format!("\n{output}");
    let (_, words) = output.rsplit_once("\nerror: ")?;
    let (message, hint) = words.split_once("\nhint: ").unwrap_or((words, ""));
    let error = Error::new(code, message.trim());
    Some(if hint.is_empty() { error } else { error.hint(hint.trim()) })
}

/// Creates an error that quotes the last lines of the log.
fn start_error(config: &Config, log_start: u64, problem: &str) -> Error {
    let log_path = config.log_path();
    let message = match last_lines(&log_path, log_start) {
        Ok(lines) if !lines.is_empty() => format!("{problem}: {lines}"),
        Ok(_) | Err(_) => problem.to_string(),
    };
    Error::new(ErrorCode::Unavailable, message).hint(format!("see `{}`", log_path.display()))
}

/// Returns the last lines that were written to a file after byte `start`.
fn last_lines(path: &Path, start: u64) -> io::Result<String> {
    let text = read_tail(path, start)?;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES)..].join(" | "))
}

/// Returns the last bytes, at most [`LOG_TAIL`], that were written to a file after byte `start`.
fn read_tail(path: &Path, start: u64) -> io::Result<String> {
    let mut log = File::open(path)?;
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_TAIL))))?;
    let mut bytes = Vec::new();
    log.take(LOG_TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_reach_daemon_as_absolute() {
        const PATHS: [&str; 8] = [
            "VIC_DATA_DIR",
            "VIC_DB_PATH",
            "VIC_JOB_DB_PATH",
            "VIC_MODELS_DIR",
            "VIC_WAREHOUSE_ROOT",
            "VIC_BRIDGE_TLS_CERT",
            "VIC_BRIDGE_TLS_KEY",
            "VIC_SERVERS_CA",
        ];
        let config = Config::from_lookup(&|name| PATHS.contains(&name).then(|| "some/where".into())).unwrap();
        let command = vicd_command(&config);
        for name in PATHS {
            let handed = command.get_envs().find(|it| it.0 == name).and_then(|it| it.1).map(Path::new);
            assert!(handed.is_some_and(|it| it.is_absolute() && it.ends_with("some/where")), "{name}: {handed:?}");
        }
    }

    #[test]
    fn large_log_is_rotated_and_small_one_continues() {
        let dir = tempfile::tempdir().unwrap();
        let (log, aside) = (dir.path().join("vicd.log"), dir.path().join("vicd.log.1"));
        std::fs::write(&log, "small").unwrap();
        rotate_if_large(&log);
        assert!(log.exists() && !aside.exists());
        File::options().append(true).open(&log).unwrap().set_len(LOG_ROTATION_BYTES + 1).unwrap();
        rotate_if_large(&log);
        assert!(!log.exists() && aside.metadata().unwrap().len() > LOG_ROTATION_BYTES);
    }

    #[test]
    fn last_error_returns_message_and_hint() {
        let check = |output: &str, exit_code| {
            last_error(output, exit_code).map(|it| (it.code, it.message, it.hint.unwrap_or_default()))
        };
        let told = |code, message: &str, hint: &str| Some((code, message.to_string(), hint.to_string()));
        let output = "INFO it begins\nerror: cannot use `/x`: I/O error: No such file\nhint: both files are PEM\n";
        let expected =
            told(ErrorCode::FailedPrecondition, "cannot use `/x`: I/O error: No such file", "both files are PEM");
        assert_eq!(check(output, Some(6)), expected);
        assert_eq!(check("error: one\nerror: two", Some(1)), told(ErrorCode::Internal, "two", ""));
        assert_eq!(check("WARN an error: of no matter", Some(1)), None);
        assert_eq!((check(output, Some(77)), check(output, None)), (None, None));
    }

    #[test]
    fn last_lines_start_at_offset() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "old error\nnew error\n\n").unwrap();
        assert_eq!(last_lines(&path, 0).unwrap(), "old error | new error");
        assert_eq!(last_lines(&path, 10).unwrap(), "new error");
        assert_eq!(last_lines(&path, 21).unwrap(), "");
        std::fs::write(&path, "1\n2\n3\n4\n5\n6\n").unwrap();
        assert_eq!(last_lines(&path, 0).unwrap(), "2 | 3 | 4 | 5 | 6");
    }

    /// Returns a daemon started `seconds` ago whose process runs this shell script.
    fn started<'a>(config: &'a Config, seconds: u64, script: &str) -> PendingStart<'a> {
        let log = File::options().create(true).append(true).open(config.log_path()).unwrap();
        let child = Command::new("sh").args(["-c", script]).stderr(log).spawn().unwrap();
        let begun = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        PendingStart { config, begun, log_start: 0, is_notified: false, child: Some(child), exited: None }
    }

    fn data_directory(dir: &Path) -> Config {
        Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| dir.into())).unwrap()
    }

    #[test]
    fn live_daemon_is_awaited_for_five_minutes() {
        let dir = tempfile::tempdir().unwrap();
        let config = data_directory(dir.path());
        for (seconds, waits) in [(0, true), (31, true), (295, true), (301, false)] {
            let mut start = started(&config, seconds, "exec sleep 60");
            assert_eq!(start.check_child().is_ok(), waits, "after {seconds} s");
            assert_eq!(start.is_notified, waits && seconds > 3, "after {seconds} s");
            start.child.as_mut().unwrap().kill().unwrap();
            start.child.as_mut().unwrap().wait().unwrap();
        }
    }

    #[test]
    fn killed_daemon_is_reported_with_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let config = data_directory(dir.path());
        let mut start = started(&config, 0, "echo loading the model >&2; echo loading the index >&2; kill -9 $$");
        let begun = Instant::now();
        let error = loop {
            match start.check_child() {
                Ok(()) => assert!(begun.elapsed() < Duration::from_secs(10), "it has ended"),
                Err(error) => break error,
            }
        };
        assert!(error.message.contains("signal: 9"), "{error}");
        assert!(error.message.contains("loading the model | loading the index"), "{error}");
    }
}
