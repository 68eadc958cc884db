//! Syncs the library's commits to disk, and checks the index directory.
//!
//! The library renames files to their final names but never syncs them. After a power loss the newest manifest can
//! exist without content. The table then cannot be opened although every older version is intact: see
//! `durable_version`.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, ErrorCode, IoContext, Result};

/// Syncs the whole file system of this directory to disk.
///
/// # Errors
/// The directory cannot be opened or synced.
pub(super) async fn sync(dir: &Path) -> Result<()> {
    let dir = dir.to_owned();
    let task = tokio::task::spawn_blocking(move || {
        let handle = File::open(&dir).io_context("open", &dir)?;
        sync_file_system(&handle).io_context("sync", &dir)
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

/// Creates the index directory if it is missing. Rejects a directory that holds other files but no index.
///
/// # Errors
/// The path is a file, cannot be created or read, or holds other files but no index.
pub(super) fn prepare_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).io_context("create", dir)?;
    let names = names(dir)?;
    let is_own = |name: &str| is_index_file(name) || name.starts_with("milvus") || name.starts_with('.');
    let foreign = names.iter().find(|name| !is_own(name) && *name != "lost+found");
    match foreign {
        Some(name) if !names.iter().any(|it| is_index_file(it)) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("`{}` holds `{name}` and is not an index of vic", dir.display()),
        )
        .hint("point VIC_DB_PATH at an empty directory")),
        _ => Ok(()),
    }
}

/// Returns whether this is the name of a table, of a quarantined table, or of the file with a durable version.
fn is_index_file(name: &str) -> bool {
    name.ends_with(".lance") || name.contains(".lance.") || name.ends_with(".synced")
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(dir).io_context("read", dir)?;
    Ok(entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect())
}

/// Returns the total size in bytes of all files below a directory. Files that vanish meanwhile are not counted.
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
    fn prepare_rejects_directory_with_foreign_files() {
        let dir = tempfile::tempdir().unwrap();
        prepare_dir(&dir.path().join("new")).unwrap();
        std::fs::write(dir.path().join("holiday.jpg"), "x").unwrap();
        assert_eq!(prepare_dir(dir.path()).unwrap_err().code, ErrorCode::FailedPrecondition);
        assert!(prepare_dir(&dir.path().join("holiday.jpg")).is_err());
    }
}
