//! What the table's library leaves to its caller: getting commits onto the disk, and surviving a torn one.
//!
//! The library renames files into place but never syncs them. After a loss of power the newest manifest can then be
//! there with no bytes in it, and the table cannot be opened although every older version is whole.

use std::fs::File;
use std::path::{Path, PathBuf};

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
    let foreign = names.iter().find(|name| !is_table(name) && !name.starts_with('.') && *name != "lost+found");
    match foreign {
        Some(name) if !names.iter().any(|it| is_table(it)) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("`{}` holds `{name}` and is no index of vic", dir.display()),
        )
        .hint("point VIC_DB_PATH at an empty directory")),
        _ => Ok(()),
    }
}

fn is_table(name: &str) -> bool {
    name.ends_with(".lance")
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(dir).at("read", dir)?;
    Ok(entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect())
}

/// Moves manifests without content aside, so that the version before them is opened; returns what was moved.
///
/// # Errors
/// A file cannot be moved.
pub(super) fn heal(table: &Path) -> Result<Vec<PathBuf>> {
    let versions = table.join("_versions");
    let Ok(entries) = std::fs::read_dir(&versions) else { return Ok(Vec::new()) };
    let mut moved = Vec::new();
    for path in entries.flatten().map(|it| it.path()) {
        let matters = path.extension().is_some_and(|it| it == "manifest" || it == "json");
        if matters && std::fs::metadata(&path).is_ok_and(|it| it.is_file() && it.len() == 0) {
            let mut aside = path.clone().into_os_string();
            aside.push(".corrupt");
            std::fs::rename(&path, &aside).at("move aside", &path)?;
            moved.push(path);
        }
    }
    Ok(moved)
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

    #[test]
    fn only_empty_manifests_are_moved_aside() {
        let dir = tempfile::tempdir().unwrap();
        let versions = dir.path().join("_versions");
        std::fs::create_dir(&versions).unwrap();
        std::fs::write(versions.join("1.manifest"), "whole").unwrap();
        std::fs::write(versions.join("2.manifest"), "").unwrap();
        assert_eq!(heal(dir.path()).unwrap(), [versions.join("2.manifest")]);
        assert!(versions.join("1.manifest").exists() && versions.join("2.manifest.corrupt").exists());
        assert!(heal(&dir.path().join("missing")).unwrap().is_empty());
    }
}
