//! The files through which clients find the running daemon: the Unix socket, and a file with the TCP address. They are
//! created at start and removed at exit, unless another daemon has replaced them by then.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use crate::daemon::process;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// A socket or address file that this daemon created.
#[derive(Debug)]
pub(crate) struct OwnFile {
    path: PathBuf,
    identity: Identity,
}

/// Identifies a file by device, inode and change time; the latter because a file system reuses the inode of a deleted
/// file.
type Identity = (u64, u64, i64, i64);

fn file_identity(of: &std::fs::Metadata) -> Identity {
    (of.dev(), of.ino(), of.ctime(), of.ctime_nsec())
}

impl OwnFile {
    fn record(path: &Path) -> Result<OwnFile> {
        let found = path.symlink_metadata().io_context("find", path)?;
        Ok(OwnFile { path: path.into(), identity: file_identity(&found) })
    }

    /// Removes the file, unless another daemon has replaced it since it was created.
    pub(crate) fn remove(&self) {
        let ours = self.path.symlink_metadata().is_ok_and(|it| file_identity(&it) == self.identity);
        if ours {
            // Ignores errors: the file may already be missing, and any other problem shows when the path is used next.
            let _missing = std::fs::remove_file(&self.path);
        }
    }
}

/// Binds the Unix socket at `path` and makes it private; a stale socket is replaced.
///
/// # Errors
/// [`ErrorCode::Locked`] if another daemon answers at the socket, [`ErrorCode::FailedPrecondition`] if the path is not a
/// socket.
pub(crate) async fn bind(path: &Path) -> Result<(UnixListener, OwnFile)> {
    remove_stale(path).await?;
    let listener = UnixListener::bind(path).map_err(|error| {
        Error::io("bind", path, &error).hint("a socket path may have about 100 bytes: choose a shorter VIC_DATA_DIR")
    })?;
    process::make_private(path)?;
    Ok((listener, OwnFile::record(path)?))
}

/// Removes the socket that a killed daemon left. Fails if a daemon answers at it: although this process holds the data
/// lock, another daemon may run if the lock file was deleted.
pub(crate) async fn remove_stale(path: &Path) -> Result<()> {
    let kind = match path.symlink_metadata() {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).io_context("read", path),
    };
    if kind.is_socket() && UnixStream::connect(path).await.is_ok() {
        return Err(Error::new(
            ErrorCode::Locked,
            format!("another vicd answers at `{}` without holding the data lock", path.display()),
        )
        .hint("`vic daemon stop` ends it"));
    }
    // Refuses other files. A symbolic link is removed itself, never its target.
    if !kind.is_socket() && !kind.is_symlink() {
        return Err(Error::new(ErrorCode::FailedPrecondition, format!("`{}` is not a socket", path.display()))
            .hint("move this file aside"));
    }
    std::fs::remove_file(path).io_context("remove", path)
}

/// Removes the TCP address that a killed daemon left, because clients take the file as a sign that a daemon is ready.
pub(crate) fn remove_stale_address(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).io_context("remove", path),
        _ => Ok(()),
    }
}

/// Writes the TCP address into its file, from which clients read it.
pub(crate) fn write_address(path: &Path, address: &str) -> Result<OwnFile> {
    // Creates a new file each time, so that an earlier daemon does not regard it as its own and remove it at exit.
    let _missing = std::fs::remove_file(path);
    std::fs::write(path, format!("{address}\n")).io_context("write", path)?;
    OwnFile::record(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until file timestamps differ from earlier ones, as the clock of the file system has a resolution of some
    /// milliseconds.
    fn next_moment() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }

    #[tokio::test]
    async fn bind_replaces_stale_socket_and_link_but_not_target() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("s"), dir.path().join("target"));
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        bind(&path).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let (_listener, _) = bind(&path).await.unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
        let found = path.symlink_metadata().unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(found.mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn bind_keeps_live_socket_and_regular_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (_listener, _) = bind(&path).await.unwrap();
        assert_eq!(bind(&path).await.unwrap_err().code, ErrorCode::Locked);
        let file = dir.path().join("f");
        std::fs::write(&file, "kept").unwrap();
        assert_eq!(bind(&file).await.unwrap_err().code, ErrorCode::FailedPrecondition);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    }

    #[tokio::test]
    async fn remove_deletes_only_own_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (_first, own) = bind(&path).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        next_moment();
        let (_second, theirs) = bind(&path).await.unwrap();
        own.remove();
        assert!(path.exists());
        theirs.remove();
        assert!(!path.exists());
        let address = dir.path().join("listen");
        let first = write_address(&address, "127.0.0.1:1").unwrap();
        next_moment();
        let second = write_address(&address, "127.0.0.1:2").unwrap();
        first.remove();
        assert!(address.exists());
        second.remove();
        assert!(!address.exists());
    }
}
