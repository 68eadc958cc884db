//! One daemon per data directory.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};

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
        Ok(()) => (),
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
        writeln!(file, "vicd, process {}", std::process::id())
    };
    if let Err(error) = write(&mut file) {
        tracing::warn!("cannot write `{}`: {error}", path.display());
    }
    Ok(DataLock { _file: file })
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
}
