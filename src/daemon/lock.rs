//! One daemon per data directory.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::config::Config;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// Holds the data directory until it is dropped. The operating system lets go of it even when the process is killed.
#[derive(Debug)]
pub(crate) struct DataLock {
    _file: File,
}

/// Takes the lock and writes our process number into it.
///
/// # Errors
/// [`ErrorCode::Locked`], naming the owner.
pub(crate) fn take(config: &Config) -> Result<DataLock> {
    let path = config.lock_path();
    let mut file = File::options().create(true).read(true).write(true).truncate(false).open(&path).at("open", &path)?;
    match file.try_lock() {
        Ok(()) if is_at(&file, &path) => (),
        // Somebody deleted it between the opening and the lock: the lock holds nobody off.
        Ok(()) => return take(config),
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
    // The name is a kindness to whoever comes second: a full disk is no reason not to start.
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{OWNER}{}", std::process::id())
    };
    if let Err(error) = write(&mut file) {
        tracing::warn!("cannot write `{}`: {error}", path.display());
    }
    Ok(DataLock { _file: file })
}

/// What stands before the process number.
const OWNER: &str = "vicd, process ";

fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |it: std::fs::Metadata| (it.dev(), it.ino());
    let (held, found) = (file.metadata().map(identity), path.symlink_metadata().map(identity));
    held.is_ok_and(|held| found.is_ok_and(|found| found == held))
}

/// Returns the number of the process that holds the data directory, if one does: also of one whose socket is gone.
pub fn holder(config: &Config) -> Option<u32> {
    let owner = std::fs::read_to_string(config.lock_path()).ok()?;
    let number: i32 = owner.trim().strip_prefix(OWNER)?.parse().ok()?;
    // A dead one first: to try its lock could get into the way of one that is just starting.
    rustix::process::test_kill_process(rustix::process::Pid::from_raw(number)?).ok()?;
    let file = File::open(config.lock_path()).ok()?;
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| number.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_daemon_is_told_who_holds_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().to_path_buf();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data_dir.clone().into())).unwrap();
        let first = take(&config).unwrap();
        let error = take(&config).unwrap_err();
        assert_eq!(error.code, ErrorCode::Locked);
        assert!(error.message.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        take(&config).unwrap();
    }

    #[test]
    fn the_holder_is_known_while_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().to_path_buf();
        let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| data_dir.clone().into())).unwrap();
        assert_eq!(holder(&config), None);
        let lock = take(&config).unwrap();
        assert_eq!(holder(&config), Some(std::process::id()));
        drop(lock);
        assert_eq!(holder(&config), None);
    }
}
