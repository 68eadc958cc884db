//! What the table's library leaves to its caller: getting commits onto the disk.
//!
//! The library renames files into place but never syncs them. After a loss of power the newest manifest can then be
//! there with no bytes in it, and the table cannot be opened although every older version is whole: see `synced`.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, ErrorCode, IoContext, Result};

/// Puts everything written below this directory's file system on disk.
///
/// # Errors
/// The disk refuses.
pub(super) async fn sync(dir: &Path) -> Result<()> {
    let dir = dir.to_owned();
    let task = tokio::task::spawn_blocking(move || {
        let handle = File::open(&dir).at("open", &dir)?;
        sync_file_system(&handle).at("sync", &dir)
    });
    task.await.map_err(Error::internal)?
}

#[cfg(target_os = "linux")]
fn sync_file_system(dir: &File) -> std::io::Result<()> {
    rustix::fs::syncfs(dir).map_err(std::io::Error::from)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_: &File) -> std::io::Result<()> {
    rustix::fs::sync();
    Ok(())
}

/// Makes the directory if it is missing, and refuses one that holds something else.
///
/// # Errors
/// It is a file, cannot be made or read, or is in use for something else.
pub(super) fn prepare(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).at("create", dir)?;
    let names = names(dir)?;
    let foreign = names.iter().find(|name| !is_ours(name) && !name.starts_with('.') && *name != "lost+found");
    match foreign {
        Some(name) if !names.iter().any(|it| is_ours(it)) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("`{}` holds `{name}` and is no index of vic", dir.display()),
        )
        .hint("point VIC_DB_PATH at an empty directory")),
        _ => Ok(()),
    }
}

/// A table, one that was damaged once, or the number of its last version.
fn is_ours(name: &str) -> bool {
    name.ends_with(".lance") || name.contains(".lance.") || name.ends_with(".synced")
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(dir).at("read", dir)?;
    Ok(entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect())
}

/// Adds up the bytes of all files below a directory; what vanishes meanwhile counts nothing.
pub(super) async fn bytes_below(dir: &Path) -> Result<u64> {
    let dir = dir.to_owned();
    let task = tokio::task::spawn_blocking(move || {
        let files = walkdir::WalkDir::new(dir).into_iter().flatten();
        files.filter_map(|it| it.metadata().ok()).filter(|it| it.is_file()).map(|it| it.len()).sum()
    });
    task.await.map_err(Error::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_something_else_is_refused_and_an_empty_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        prepare(&dir.path().join("new")).unwrap();
        std::fs::write(dir.path().join("holiday.jpg"), "x").unwrap();
        assert_eq!(prepare(dir.path()).unwrap_err().code, ErrorCode::FailedPrecondition);
        assert!(prepare(&dir.path().join("holiday.jpg")).is_err());
    }
}
