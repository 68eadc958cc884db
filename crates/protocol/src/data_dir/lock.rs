//! The lock that allows only one daemon per data directory.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::config::Config;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// The lock on the data directory, held until dropped. The operating system releases it even if the process is killed.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
    /// The open data directory: while it is open, no other directory gets the same inode number.
    _directory: File,
    /// The locked index folder, maybe outside the data directory. Daemons that share it would delete each other's data.
    index: Option<File>,
    path: PathBuf,
    identity: (u64, u64),
}

/// How often the daemon checks that its data directory still exists.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// Number of consecutive failed checks after which the directory counts as lost; a mount may be away for a moment.
const MISSES_UNTIL_LOST: u32 = 2;

/// Maximum wait for a lock whose recorded owner is dead. A daemon killed while it starts a worker leaves a forked child
/// that holds its open files until exec: a moment on an idle machine, longer on a busy or traced one.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum wait for the lock of an index folder that another daemon holds.
const INDEX_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause between two attempts to lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

impl DataLock {
    /// Also locks the index folder, if the folder exists.
    ///
    /// # Errors
    /// [`ErrorCode::FailedPrecondition`] if the daemon of another data directory holds the lock. Not `Locked`, because a
    /// client that gets `Locked` waits for the daemon of this directory.
    pub fn lock_index_folder(&mut self, folder: &Path) -> Result<()> {
        // Retry a refused lock, because the forked child of a killed daemon releases its two locks a moment apart.
        let is_passing = |error: &Error| error.code == ErrorCode::FailedPrecondition;
        self.index = retry_while(INDEX_LOCK_TIMEOUT, is_passing, || lock_index(folder))?;
        Ok(())
    }

    /// Waits until the data directory is missing or replaced by another one, and then returns an error: clients could
    /// neither find this daemon nor read its data.
    pub async fn wait_until_lost(&self) -> Error {
        let mut missed = 0;
        while missed < MISSES_UNTIL_LOST {
            tokio::time::sleep(CHECK_INTERVAL).await;
            missed = if self.is_in_place().await { 0 } else { missed + 1 };
        }
        Error::new(ErrorCode::DataLoss, format!("the data directory `{}` is gone; vicd exits", self.path.display()))
            .hint("move it back; or remove what is at this path and start vicd, which creates a new one")
    }

    /// Returns whether the path still leads to the locked directory. A path that cannot be read counts as unchanged.
    async fn is_in_place(&self) -> bool {
        match tokio::fs::metadata(&self.path).await {
            Ok(found) => file_identity(&found) == self.identity,
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }
}

/// Locks the data directory and writes the id of this process into the lock file.
///
/// # Errors
/// [`ErrorCode::Locked`] with the process id of the daemon that holds the lock.
pub fn acquire(config: &Config) -> Result<DataLock> {
    let is_passing = |error: &Error| error.code == ErrorCode::Locked && is_owner_dead(config);
    retry_while(ORPHAN_TIMEOUT, is_passing, || try_acquire(config))
}

/// Calls `attempt` until it succeeds, for at most `limit`, while `is_passing` says that its error is temporary.
fn retry_while<T>(limit: Duration, is_passing: impl Fn(&Error) -> bool, attempt: impl Fn() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_passing(&error) && begun.elapsed() < limit => std::thread::sleep(RETRY_INTERVAL),
            outcome => return outcome,
        }
    }
}

fn try_acquire(config: &Config) -> Result<DataLock> {
    let path = config.lock_path();
    let directory = File::open(&config.data_dir).io_context("open", &config.data_dir)?;
    let identity = file_identity(&directory.metadata().io_context("read", &config.data_dir)?);
    let mut file =
        File::options().create(true).read(true).write(true).truncate(false).open(&path).io_context("open", &path)?;
    match file.try_lock() {
        Ok(()) if is_file_at(&file, &path) => (),
        // Try again: the file was deleted between open and lock, so a lock on it excludes no other process.
        Ok(()) => return try_acquire(config),
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            file.read_to_string(&mut owner).ok();
            let owner = owner.trim();
            let owner = if owner.is_empty() { "another vicd" } else { owner };
            return Err(Error::new(
                ErrorCode::Locked,
                format!("the data directory `{}` is in use by {owner}", config.data_dir.display()),
            )
            .hint("use that daemon, stop it with `vic daemon stop`, or set VIC_DATA_DIR to another directory"));
        }
        Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path, &error)),
    }
    // Only warn if writing fails, e.g. on a full disk: the process id only improves an error message.
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{OWNER_PREFIX}{}", std::process::id())
    };
    if let Err(error) = write(&mut file) {
        tracing::warn!("cannot write `{}`: {error}", path.display());
    }
    Ok(DataLock { _file: file, _directory: directory, index: None, path: config.data_dir.clone(), identity })
}

/// Locks an index folder; returns `None` if the folder does not exist.
fn lock_index(path: &Path) -> Result<Option<File>> {
    let folder = match File::open(path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).io_context("open", path),
    };
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => {
            let message = format!("the index `{}` is in use by the vicd of another data directory", path.display());
            Err(Error::new(ErrorCode::FailedPrecondition, message).hint(
                "give each data directory an index of its own: set VIC_DB_PATH to another folder, or leave it unset",
            ))
        }
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path, &error)),
    }
}

/// The text before the process id in the lock file.
const OWNER_PREFIX: &str = "vicd, process ";

/// Returns the process named in the lock file, which may have exited.
fn recorded_owner(config: &Config) -> Option<Pid> {
    let owner = std::fs::read_to_string(config.lock_path()).ok()?;
    Pid::from_raw(owner.trim().strip_prefix(OWNER_PREFIX)?.parse().ok()?)
}

fn is_owner_dead(config: &Config) -> bool {
    recorded_owner(config).is_some_and(|it| test_kill_process(it) == Err(Errno::SRCH))
}

fn is_file_at(file: &File, path: &Path) -> bool {
    let (held, found) = (file.metadata(), path.symlink_metadata());
    held.is_ok_and(|held| found.is_ok_and(|found| file_identity(&found) == file_identity(&held)))
}

/// Returns the device and inode number of a file. They are not reused while the file is open.
fn file_identity(of: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (of.dev(), of.ino())
}

/// Returns the id of the process that holds the data directory, even if its socket no longer exists.
pub fn holder_pid(config: &Config) -> Option<u32> {
    let owner = recorded_owner(config)?;
    // Return early if the recorded process is dead: trying its lock could disturb a daemon that is just starting.
    test_kill_process(owner).ok()?;
    let file = File::open(config.lock_path()).ok()?;
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| owner.as_raw_pid().cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_daemon_is_refused_with_owner_pid() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().to_path_buf();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data_dir.clone().into())).unwrap();
        let first = acquire(&config).unwrap();
        let error = acquire(&config).unwrap_err();
        assert_eq!(error.code, ErrorCode::Locked);
        assert!(error.message.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        acquire(&config).unwrap();
    }

    // Case B10
    #[test]
    fn shared_index_is_locked_across_data_directories() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let (data_dir, index) = (dir.path().join(name), dir.path().join("index"));
            std::fs::create_dir_all(&data_dir).unwrap();
            let lookup = |name: &str| match name {
                "VIC_DATA_DIR" => Some(data_dir.clone().into()),
                "VIC_DB_PATH" => Some(index.clone().into()),
                _ => None,
            };
            Config::from_lookup(&lookup).unwrap()
        };
        let both = [of("one"), of("other")];
        let [mut one, mut other] = both.each_ref().map(|it| acquire(it).unwrap());
        let index = &both[0].db_path;
        one.lock_index_folder(index).unwrap();
        other.lock_index_folder(index).unwrap();
        std::fs::create_dir(index).unwrap();
        one.lock_index_folder(index).unwrap();
        let error = other.lock_index_folder(index).unwrap_err();
        assert!(error.code == ErrorCode::FailedPrecondition && error.message.contains("index"), "{error}");
        assert!(error.hint.unwrap().contains("VIC_DB_PATH"));
        drop(one);
        other.lock_index_folder(index).unwrap();
    }

    #[test]
    fn lock_of_dead_daemon_is_awaited() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().to_path_buf();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data_dir.clone().into())).unwrap();
        let left = acquire(&config).unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        std::fs::write(config.lock_path(), format!("{OWNER_PREFIX}{}\n", dead.id())).unwrap();
        let child = std::thread::spawn(move || {
            std::thread::sleep(10 * RETRY_INTERVAL);
            drop(left);
        });
        acquire(&config).unwrap();
        child.join().unwrap();
    }

    #[tokio::test]
    async fn moved_or_recreated_directory_is_not_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("data");
        std::fs::create_dir(&data_dir).unwrap();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data_dir.clone().into())).unwrap();
        let lock = acquire(&config).unwrap();
        std::fs::remove_file(config.lock_path()).unwrap();
        assert!(lock.is_in_place().await, "the lock file may be deleted");
        std::fs::rename(&data_dir, dir.path().join("aside")).unwrap();
        assert!(!lock.is_in_place().await);
        std::fs::create_dir(&data_dir).unwrap();
        assert!(!lock.is_in_place().await, "it is another");
        std::fs::remove_dir(&data_dir).unwrap();
        std::fs::rename(dir.path().join("aside"), &data_dir).unwrap();
        assert!(lock.is_in_place().await, "it was put back");
    }

    #[test]
    fn holder_is_reported_while_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().to_path_buf();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data_dir.clone().into())).unwrap();
        assert_eq!(holder_pid(&config), None);
        let lock = acquire(&config).unwrap();
        assert_eq!(holder_pid(&config), Some(std::process::id()));
        drop(lock);
        assert_eq!(holder_pid(&config), None);
    }
}
