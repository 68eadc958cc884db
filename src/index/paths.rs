//! Paths as callers name them, and the files they lead to.
//!
//! A path may lie on a mount that does not answer: whoever looks at one waits on a thread for that, never on those that
//! serve everybody.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::index::blocking;
use crate::model::{ContentHash, FileRecord, MOST_FILE_BYTES, Scope};
use crate::warehouse::{self, Stamp, silence};

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
/// As of the work, and that the disk does not answer: that only of a path that lies in the scope.
pub(crate) async fn at_named_file<T: Send + 'static>(
    path: &Path,
    scope: &Scope,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let away = || Err(if scope.covers(path) { no_answer(path) } else { unknown(path) });
    let found = match absolute(path).await {
        Err(error) if error.code == ErrorCode::Unavailable => return away(),
        found => found.unwrap_or_else(|_| path.to_path_buf()),
    };
    silence::unless_silent(&found, OPENED, blocking(work)).await.unwrap_or_else(away)
}

pub(super) fn no_answer(path: &Path) -> Error {
    let text = format!("the disk of `{}` does not answer", path.display());
    Error::new(ErrorCode::Unavailable, text).hint("mount again what is away, or try again later")
}

/// The longest that a path is followed: each of its folders may have to be looked up on a disk that was at rest.
const FOLLOWED: Duration = Duration::from_secs(10);

/// Paths followed at the same time. Of one that leads to a disk that does not answer, and lies in no root, nobody knows that
/// until it is followed, and it keeps its thread: not all of them.
const MOST_FOLLOWED: usize = 64;

/// Their places. The threads are those of the process.
static FOLLOWERS: Semaphore = Semaphore::const_new(MOST_FOLLOWED);

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
    follow(path, |it| it.canonicalize(), FOLLOWED).await
}

async fn follow(
    path: &Path,
    canonicalize: impl FnOnce(&Path) -> std::io::Result<PathBuf> + Send + 'static,
    most: Duration,
) -> Result<PathBuf> {
    let following = async {
        let place = FOLLOWERS.acquire().await.map_err(Error::internal)?;
        let named = path.to_path_buf();
        blocking(move || {
            let _place = place;
            canonicalize(&named).at("find", &named)
        })
        .await
    };
    tokio::time::timeout(most, following).await.unwrap_or_else(|_| Err(no_answer(path)))
}

/// Returns what is known of the file at a path. Of one that lies outside the scope the caller learns as much as of one
/// that does not exist.
pub(crate) fn locate(catalog: &Catalog, scope: &Scope, path: &Path) -> Result<FileRecord> {
    let found = match path.canonicalize() {
        Ok(found) if scope.covers(&found) => found,
        Err(error) if scope.is_all() => return Err(Error::io("find", path, &error)),
        Ok(_) | Err(_) => return Err(unknown(path)),
    };
    catalog.record_by_path(&found)?.ok_or_else(|| unknown(path))
}

fn unknown(path: &Path) -> Error {
    Error::not_found(format!("`{}` is not a file of any root", path.display()))
        .hint("`vic roots` lists the roots, `vic index PATH` adds one")
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
        None => warehouse::hash(file),
    }
}

/// An open file as it was before somebody read it for long.
pub(crate) struct Before {
    file: std::io::Result<File>,
    stamp: Option<Stamp>,
}

impl Before {
    /// To be made before the file is hashed.
    pub(crate) fn of(file: &File) -> Before {
        Before { stamp: Stamp::of(file), file: file.try_clone() }
    }

    /// Says whether nobody has written to it since: what was read belongs to its hash only then. None when its disk does
    /// not answer.
    pub(crate) async fn still_holds(self, record: &FileRecord) -> Result<Option<bool>> {
        at_file(record, move || Ok(self.is_the_same())).await
    }

    fn is_the_same(&self) -> bool {
        self.file.as_ref().is_ok_and(|it| self.stamp == Stamp::of(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_counts_only_while_nobody_wrote_to_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("a.txt"), dir.path().join("b.txt"));
        std::fs::write(&path, "before").unwrap();
        let file = File::open(&path).unwrap();
        let (first, second) = (Before::of(&file), Before::of(&file));
        std::fs::rename(&path, &moved).unwrap();
        assert!(first.is_the_same(), "another name is no other content");
        std::fs::write(&moved, "after, and longer").unwrap();
        assert!(!second.is_the_same());
    }

    #[tokio::test]
    async fn of_a_silent_disk_only_those_learn_who_may_know_of_its_files() {
        let (disk, other) = (Path::new("/silent/disk"), Path::new("/nothing/there"));
        let scope = Scope::Folders(["/own".into(), "/silent/disk/own".into()].into());
        let told = async |scope: &Scope, path: &Path| {
            let error = at_named_file(path, scope, || -> Result<()> { panic!("it was opened") }).await.unwrap_err();
            (error.code, error.message.replace(path.to_str().unwrap(), "PATH"))
        };
        let (mine, theirs) = (disk.join("own/a.md"), disk.join("a.md"));
        silence::note(disk, true);
        let (own, foreign, all) =
            (told(&scope, &mine).await, told(&scope, &theirs).await, told(&Scope::All, &theirs).await);
        silence::note(disk, false);
        let nothing = unknown(other);
        assert_eq!(foreign, (nothing.code, nothing.message.replace("/nothing/there", "PATH")));
        let silent = (ErrorCode::Unavailable, "the disk of `PATH` does not answer".to_string());
        assert_eq!((own, all), (silent.clone(), silent));
    }

    #[tokio::test]
    async fn paths_that_lead_to_a_disk_which_does_not_answer_do_not_take_all_threads() {
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
        let all = (0..2 * MOST_FOLLOWED).map(|_| follow(path, hang(), soon));
        let told = futures::future::join_all(all).await;
        assert!(told.iter().all(|it| it.as_ref().is_err_and(|it| it.code == ErrorCode::Unavailable)));
        assert_eq!(begun.load(std::sync::atomic::Ordering::Relaxed), MOST_FOLLOWED);
        drop(release);
        assert!(follow(path, |it| Ok(it.to_path_buf()), Duration::from_secs(30)).await.is_ok(), "they come free again");
    }
}
