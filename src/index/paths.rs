//! Resolves paths from callers, and opens and hashes the files at these paths.
//!
//! A path may be on a mount that does not respond. Opening it must block a separate thread, never a thread that serves
//! all callers.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::files::{self, ContentStamp, unresponsive};
use crate::index::blocking_tasks::blocking;
use crate::model::{ContentHash, FileRecord, MAX_FILE_BYTES, Scope};

/// Maximum time to open and hash a file: the time for the largest accepted file at 1 MiB per second.
const OPEN_TIMEOUT: Duration = Duration::from_secs(MAX_FILE_BYTES >> 20);

/// Runs blocking work that opens this file and at most hashes it. Returns `None` if the file's disk does not respond.
pub(crate) async fn blocking_at_file<T: Send + 'static>(
    record: &FileRecord,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Option<T>> {
    unresponsive::timeout_if_unresponsive(&record.absolute(), OPEN_TIMEOUT, blocking(work)).await.transpose()
}

/// Runs blocking work on the file at a path that a caller gave.
///
/// # Errors
/// An error of the work. If the disk does not respond: `Unavailable` for a path in the caller's scope, `NotFound` for
/// any other path.
pub(crate) async fn blocking_at_path<T: Send + 'static>(
    path: &Path,
    scope: &Scope,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let away = || Err(if scope.covers(path) { not_responding(path) } else { unknown_file(path) });
    let found = match resolve(path).await {
        Err(error) if error.code == ErrorCode::Unavailable => return away(),
        found => found.unwrap_or_else(|_| path.to_path_buf()),
    };
    unresponsive::timeout_if_unresponsive(&found, OPEN_TIMEOUT, blocking(work)).await.unwrap_or_else(away)
}

pub(super) fn not_responding(path: &Path) -> Error {
    let text = format!("the disk of `{}` does not answer", path.display());
    Error::new(ErrorCode::Unavailable, text).hint("mount the missing file system again, or try again later")
}

/// Maximum time to resolve a path: each folder may require a lookup on a disk in standby.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum paths resolved at the same time. Whether the disk of a path outside all roots responds is unknown until the
/// path is resolved. If the disk does not, the resolving thread blocks; the limit keeps other threads free.
const MAX_RESOLVING: usize = 64;

/// One permit per path being resolved. Shared by the whole process, because all callers use the same threads.
static RESOLVE_PERMITS: Semaphore = Semaphore::const_new(MAX_RESOLVING);

/// Resolves symbolic links and makes the path absolute. Returns the path unchanged if it does not exist or its disk
/// does not respond.
pub(crate) async fn resolve_or_keep(path: &Path) -> PathBuf {
    resolve(path).await.unwrap_or_else(|_| path.to_path_buf())
}

/// Resolves symbolic links and makes the path absolute.
///
/// # Errors
/// The path does not exist, or its disk does not respond.
pub(crate) async fn resolve(path: &Path) -> Result<PathBuf> {
    if unresponsive::is_unresponsive(path) {
        return Err(not_responding(path));
    }
    resolve_with(path, |it| it.canonicalize(), RESOLVE_TIMEOUT).await
}

async fn resolve_with(
    path: &Path,
    canonicalize: impl FnOnce(&Path) -> std::io::Result<PathBuf> + Send + 'static,
    most: Duration,
) -> Result<PathBuf> {
    let following = async {
        let place = RESOLVE_PERMITS.acquire().await.map_err(Error::internal)?;
        let named = path.to_path_buf();
        blocking(move || {
            let _place = place;
            canonicalize(&named).io_context("find", &named)
        })
        .await
    };
    tokio::time::timeout(most, following).await.unwrap_or_else(|_| Err(not_responding(path)))
}

/// Returns the catalog record of the file at a path. A file outside the scope gives the same error as a missing file.
pub(crate) fn find_record(catalog: &Catalog, scope: &Scope, path: &Path) -> Result<FileRecord> {
    let found = match path.canonicalize() {
        Ok(found) if scope.covers(&found) => found,
        Err(error) if scope.is_all() => return Err(Error::io("find", path, &error)),
        Ok(_) | Err(_) => return Err(unknown_file(path)),
    };
    catalog.record_by_path(&found)?.ok_or_else(|| unknown_file(path))
}

fn unknown_file(path: &Path) -> Error {
    Error::not_found(format!("`{}` is not a file of any root", path.display()))
        .hint("`vic roots` lists the roots, `vic index PATH` adds one")
}

/// Returns the content hash of an open file. Uses the recorded hash if the size and modification time match the record.
///
/// # Errors
/// `FileTooLarge` if the file is too large to be indexed, so that no caller waits for the hash of a disk image.
pub(crate) fn content_hash(record: &FileRecord, file: &File) -> std::io::Result<ContentHash> {
    let now = file.metadata()?;
    let modified_ns = now.mtime().saturating_mul(1_000_000_000).saturating_add(now.mtime_nsec());
    let as_known = now.len() == record.found.size && modified_ns == record.found.modified_ns;
    match record.hash.filter(|_| as_known) {
        Some(hash) => Ok(hash),
        None => files::hash(file),
    }
}

/// Size and modification time of an open file before a long read, to detect a write during the read.
pub(crate) struct StatBefore {
    file: std::io::Result<File>,
    stamp: Option<ContentStamp>,
}

impl StatBefore {
    /// Records size and modification time. Must be called before the file is hashed.
    pub(crate) fn new(file: &File) -> StatBefore {
        StatBefore { stamp: ContentStamp::new(file), file: file.try_clone() }
    }

    /// Returns whether the file was not written to since [`StatBefore::new`]: only then does the text that was read
    /// belong to the hash. Returns `None` if the disk does not respond.
    pub(crate) async fn check_unchanged(self, record: &FileRecord) -> Result<Option<bool>> {
        blocking_at_file(record, move || Ok(self.matches_now())).await
    }

    fn matches_now(&self) -> bool {
        self.file.as_ref().is_ok_and(|it| self.stamp == ContentStamp::new(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_counts_only_if_file_was_not_modified() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("a.txt"), dir.path().join("b.txt"));
        std::fs::write(&path, "before").unwrap();
        let file = File::open(&path).unwrap();
        let (first, second) = (StatBefore::new(&file), StatBefore::new(&file));
        std::fs::rename(&path, &moved).unwrap();
        assert!(first.matches_now(), "another name is no other content");
        std::fs::write(&moved, "after, and longer").unwrap();
        assert!(!second.matches_now());
    }

    #[tokio::test]
    async fn unresponsive_disk_is_revealed_only_within_scope() {
        let (disk, other) = (Path::new("/silent/disk"), Path::new("/nothing/there"));
        let scope = Scope::Folders(["/own".into(), "/silent/disk/own".into()].into());
        let told = async |scope: &Scope, path: &Path| {
            let error = blocking_at_path(path, scope, || -> Result<()> { panic!("it was opened") }).await.unwrap_err();
            (error.code, error.message.replace(path.to_str().unwrap(), "PATH"))
        };
        let (mine, theirs) = (disk.join("own/a.md"), disk.join("a.md"));
        unresponsive::set_unresponsive(disk, true);
        let (own, foreign, all) =
            (told(&scope, &mine).await, told(&scope, &theirs).await, told(&Scope::All, &theirs).await);
        unresponsive::set_unresponsive(disk, false);
        let nothing = unknown_file(other);
        assert_eq!(foreign, (nothing.code, nothing.message.replace("/nothing/there", "PATH")));
        let silent = (ErrorCode::Unavailable, "the disk of `PATH` does not answer".to_string());
        assert_eq!((own, all), (silent.clone(), silent));
    }

    #[tokio::test]
    async fn unresponsive_paths_do_not_block_all_threads() {
        let soon = Duration::from_millis(50);
        let begun = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (release, hung) = std::sync::mpsc::channel::<()>();
        let hung = std::sync::Arc::new(std::sync::Mutex::new(hung));
        let hang = || {
            let (begun, hung) = (begun.clone(), hung.clone());
            move |_: &Path| {
                begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let _ended = hung.lock().unwrap().recv();
                Ok(PathBuf::new())
            }
        };
        let path = Path::new("/mnt/dead/x");
        let all = (0..2 * MAX_RESOLVING).map(|_| resolve_with(path, hang(), soon));
        let told = futures::future::join_all(all).await;
        assert!(told.iter().all(|it| it.as_ref().is_err_and(|it| it.code == ErrorCode::Unavailable)));
        assert_eq!(begun.load(std::sync::atomic::Ordering::Relaxed), MAX_RESOLVING);
        drop(release);
        assert!(
            resolve_with(path, |it| Ok(it.to_path_buf()), Duration::from_secs(30)).await.is_ok(),
            "they come free again"
        );
    }
}
