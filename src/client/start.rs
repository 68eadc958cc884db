//! Starts `vicd` when none runs, and says why when it does not come up.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::config::Config;
use crate::daemon::{self, directory};
use crate::error::{Error, ErrorCode, IoContext, Result};

/// How long a daemon may take to answer: it loads a model and heals the store first.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause between two looks at the socket: short, because the user waits.
const POLL: Duration = Duration::from_millis(20);

/// How much of the log is read to find its last line.
const LOG_TAIL: u64 = 8 << 10;

/// See [`Client::connect_or_start`].
pub(crate) async fn connect_or_start(config: &Config) -> Result<Client> {
    match Client::connect(config).await {
        Err(error) if error.code == ErrorCode::Unavailable => {}
        connected => return connected,
    }
    let log_start = std::fs::metadata(config.log_path()).map_or(0, |log| log.len());
    let mut child = spawn(config)?;
    let deadline = Instant::now() + START_TIMEOUT;
    let mut exited = None;
    loop {
        match answering(config).await {
            Err(error) if error.code == ErrorCode::Unavailable => {}
            answered => return answered,
        }
        if exited.is_none() {
            exited = child.try_wait().at("wait for", Path::new("vicd"))?;
        }
        match exited {
            // Who held the lock was about to end: it is our turn again.
            Some(status) if found_it_locked(status) && daemon::holder(config).is_none() => {
                child = spawn(config)?;
                exited = None;
            }
            // Somebody else's daemon was faster, and will answer soon.
            Some(status) if found_it_locked(status) => {}
            Some(status) => {
                let code = status.code().and_then(|it| u8::try_from(it).ok());
                return Err(last_words(config, log_start, code)
                    .unwrap_or_else(|| failed(config, log_start, &format!("vicd ended with {status}"))));
            }
            None => {}
        }
        if let (Some(_), Some(pid)) = (exited, daemon::holder(config))
            && !config.socket_path().exists()
            && Instant::now() > deadline
        {
            return Err(Error::new(ErrorCode::Unavailable, format!("vicd (pid {pid}) runs, but its socket is gone"))
                .hint("`vic daemon stop`, then try again"));
        }
        if Instant::now() > deadline {
            let problem = format!("vicd does not answer after {} seconds", START_TIMEOUT.as_secs());
            return Err(failed(config, log_start, &problem));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Says whether a daemon ended because another one has the data directory.
fn found_it_locked(status: ExitStatus) -> bool {
    status.code() == Some(ErrorCode::Locked.exit_code().into())
}

/// Connects to a daemon that not only listens but answers.
async fn answering(config: &Config) -> Result<Client> {
    let client = Client::connect(config).await?;
    match tokio::time::timeout(START_TIMEOUT, client.status()).await {
        Ok(answer) => answer.map(|_| client),
        Err(_) => Err(Error::new(ErrorCode::Unavailable, "vicd listens but does not answer")),
    }
}

/// Returns the command that runs the daemon of that configuration: `vicd` beside this program, else the one in `PATH`.
pub fn vicd_command(config: &Config) -> Command {
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name("vicd")).filter(|path| path.is_file());
    let mut command = Command::new(beside.as_deref().map_or(OsStr::new("vicd"), Path::as_os_str));
    // Relative paths were resolved against our working directory; the daemon's is another.
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
    // The log that we are about to begin must not be the first thing of ours in a folder of something else.
    directory::check(config)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir).at("create", &config.data_dir)?;
    let log_path = config.log_path();
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&log_path).at("open", &log_path)?;
    let mut command = vicd_command(config);
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().at("open", &log_path)?)
        .stderr(log)
        // Else the daemon would keep the file system of our working directory busy.
        .current_dir(&config.data_dir);
    detach(&mut command);
    let program = PathBuf::from(command.get_program());
    command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::not_found("there is no `vicd` beside `vic` or in PATH")
            .hint("install both programs in the same folder"),
        _ => Error::io("start", &program, &error),
    })
}

/// Makes the daemon outlive our terminal.
#[expect(unsafe_code, reason = "the standard library has no safe way to start a session")]
fn detach(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. setsid is one, and it allocates nothing.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(io::Error::from));
    }
}

/// The error that the daemon ended with, as it wrote it: `error: ...`, perhaps followed by `hint: ...`.
fn last_words(config: &Config, log_start: u64, exit_code: Option<u8>) -> Option<Error> {
    let code = ErrorCode::ALL.into_iter().find(|it| Some(it.exit_code()) == exit_code)?;
    let log = tail(&config.log_path(), log_start).ok()?;
    let (_, words) = log.rsplit_once("error: ")?;
    let (message, hint) = words.split_once("\nhint: ").unwrap_or((words, ""));
    let error = Error::new(code, message.trim());
    Some(if hint.is_empty() { error } else { error.hint(hint.trim()) })
}

/// Says what the last line of the log says.
fn failed(config: &Config, log_start: u64, problem: &str) -> Error {
    let log_path = config.log_path();
    let message = match last_line(&log_path, log_start) {
        Ok(Some(line)) => format!("{problem}: {line}"),
        Ok(None) | Err(_) => problem.to_string(),
    };
    Error::new(ErrorCode::Unavailable, message).hint(format!("see `{}`", log_path.display()))
}

/// Returns the last line that was written after `start`.
fn last_line(path: &Path, start: u64) -> io::Result<Option<String>> {
    let text = tail(path, start)?;
    Ok(text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(String::from))
}

/// Returns the end of what was written after `start`.
fn tail(path: &Path, start: u64) -> io::Result<String> {
    let mut log = File::open(path)?;
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_TAIL))))?;
    let mut bytes = Vec::new();
    log.take(LOG_TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Says why nobody took the connection.
pub(crate) fn connect_error(config: &Config, error: &(dyn std::error::Error + 'static)) -> Error {
    let kind = std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<io::Error>())
        .map(io::Error::kind);
    let socket = config.socket_path();
    match kind {
        Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Error::new(ErrorCode::Unavailable, format!("no vicd is running for `{}`", config.data_dir.display()))
                .hint("vic daemon start")
        }
        Some(kind @ io::ErrorKind::PermissionDenied) => Error::io("connect to", &socket, &io::Error::from(kind)),
        Some(io::ErrorKind::InvalidInput) => {
            Error::invalid(format!("the path of the socket is too long: `{}`", socket.display()))
                .hint("point VIC_DATA_DIR at a folder with a shorter path, at most some 90 bytes")
        }
        _ => Error::new(ErrorCode::Unavailable, format!("cannot connect to `{}`: {error}", socket.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_was_typed_in_another_folder_reaches_the_daemon_as_it_was_meant() {
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
    fn the_last_line_of_this_start_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "old error\nnew error\n\n").unwrap();
        assert_eq!(last_line(&path, 0).unwrap().as_deref(), Some("new error"));
        assert_eq!(last_line(&path, 10).unwrap().as_deref(), Some("new error"));
        assert_eq!(last_line(&path, 21).unwrap(), None);
    }
}
