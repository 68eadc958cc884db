//! Paths as callers name them, and the files they lead to.
//!
//! A path may lie on a mount that does not answer: whoever looks at one waits on a thread for that, never on those that
//! serve everybody.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::extract::MOST_FILE_BYTES;
use crate::index::blocking;
use crate::model::{ContentHash, FileRecord, Scope};
use crate::warehouse::{self, silence};

/// As [`blocking`], for what opens files. After `most` nobody waits any more: a disk that does not answer never does.
///
/// # Errors
/// As of the work, and that it did not come back.
pub(crate) async fn at_files<T: Send + 'static>(
    most: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::time::timeout(most, blocking(work)).await.unwrap_or_else(|_| {
        let text = format!("a disk with files of the answer has not answered for {} s", most.as_secs());
        Err(Error::new(ErrorCode::Unavailable, text).hint("`vic status` names the folder, as soon as it is known"))
    })
}

/// The longest that a file may take to be opened and hashed: the largest that is read, at a MiB a second.
const OPENED: Duration = Duration::from_secs(MOST_FILE_BYTES >> 20);

/// As [`blocking`], for what opens this file and at most hashes it. None when its disk does not answer.
pub(crate) async fn at_file<T: Send + 'static>(
    record: &FileRecord,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Option<T>> {
    silence::unless_silent(&record.absolute(), OPENED, blocking(work)).await.transpose()
}

/// As [`at_file`], for a file by the name that a caller gave it.
///
/// # Errors
/// As of the work, and that the disk does not answer.
pub(crate) async fn at_named_file<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    silence::unless_silent(path, OPENED, blocking(work)).await.unwrap_or_else(|| Err(no_answer(path)))
}

pub(super) fn no_answer(path: &Path) -> Error {
    let text = format!("the disk of `{}` does not answer", path.display());
    Error::new(ErrorCode::Unavailable, text).hint("mount again what is away, or try again later")
}

/// The longest that a path is followed: each of its folders may have to be looked up on a disk that was at rest.
const FOLLOWED: Duration = Duration::from_secs(10);

/// Follows links, and makes the path absolute; a path that leads nowhere, or to a disk that does not answer, stays as it is
/// named.
pub(crate) async fn resolved(path: &Path) -> PathBuf {
    absolute(path).await.unwrap_or_else(|_| path.to_path_buf())
}

/// Follows links, and makes the path absolute.
///
/// # Errors
/// There is nothing at the path, or its disk does not answer.
pub(crate) async fn absolute(path: &Path) -> Result<PathBuf> {
    if silence::holds(path) {
        return Err(no_answer(path));
    }
    let named = path.to_path_buf();
    let following = blocking(move || named.canonicalize().at("find", &named));
    tokio::time::timeout(FOLLOWED, following).await.unwrap_or_else(|_| Err(no_answer(path)))
}

/// Returns what is known of the file at a path. Of one that lies outside the scope the caller learns as much as of one
/// that does not exist.
pub(crate) fn locate(catalog: &Catalog, scope: &Scope, path: &Path) -> Result<FileRecord> {
    let unknown = || {
        Error::not_found(format!("`{}` is not a file of any root", path.display()))
            .hint("`vic roots` lists the roots, `vic index PATH` adds one")
    };
    let found = match path.canonicalize() {
        Ok(found) if scope.covers(&found) => found,
        Err(error) if scope.is_all() => return Err(Error::io("find", path, &error)),
        Ok(_) | Err(_) => return Err(unknown()),
    };
    catalog.record_by_path(&found)?.ok_or_else(unknown)
}

/// Returns the hash of what an open file holds: the known one where its size and time are still those of the record.
///
/// # Errors
/// `FileTooLarge` where no reader takes it, so that nobody waits for the hash of a disk image.
pub(crate) fn hash_of(record: &FileRecord, file: &File) -> std::io::Result<ContentHash> {
    let now = file.metadata()?;
    let modified_ns = now.mtime().saturating_mul(1_000_000_000).saturating_add(now.mtime_nsec());
    let as_known = now.len() == record.found.size && modified_ns == record.found.modified_ns;
    match record.hash.filter(|_| as_known) {
        Some(hash) => Ok(hash),
        None if now.len() > MOST_FILE_BYTES => Err(ErrorKind::FileTooLarge.into()),
        None => warehouse::hash(file),
    }
}
