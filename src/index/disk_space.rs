//! Checks of free disk space. Indexing stops before it uses the reserve, and resumes by itself when space is free
//! again. Queries are always answered.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::model::Scope;

/// Default reserve that indexing leaves free on each disk: the larger of `RESERVE_BYTES` and `RESERVE_PERCENT` of the
/// disk.
const RESERVE_BYTES: u64 = 1 << 30;
const RESERVE_PERCENT: u64 = 2;

/// After a write failed on a full disk, indexing resumes only with this many bytes free, even if the reserve is
/// smaller.
const MIN_FREE_AFTER_FULL: u64 = 16 << 20;

/// The folders on the disks that vic writes to, and the space that must stay free there.
pub(crate) struct DiskSpace {
    folders: Vec<PathBuf>,
    reserve: Option<u64>,
    /// Whether indexing work was refused or interrupted, and must resume when space is free.
    has_waiting_work: AtomicBool,
    /// Whether a write found the disk full. If so, [`MIN_FREE_AFTER_FULL`] must be free before indexing resumes.
    was_full: AtomicBool,
}

impl DiskSpace {
    /// Creates the check of the disks that hold these folders. The folders must exist.
    pub(crate) fn new(folders: Vec<PathBuf>, reserve: Option<u64>) -> DiskSpace {
        DiskSpace { folders, reserve, has_waiting_work: AtomicBool::new(false), was_full: AtomicBool::new(false) }
    }

    /// Checks that there is enough disk space to index. If not, records that work must resume later.
    ///
    /// # Errors
    /// [`ErrorCode::StorageFull`] if a disk has less free space than the reserve.
    pub(crate) fn check(&self) -> Result<()> {
        let outcome = self.check_folders();
        if outcome.is_err() {
            self.has_waiting_work.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// Checks disk space before a request of a caller with this scope has any effect. Only the owner learns where the
    /// index is and how much space is left.
    ///
    /// # Errors
    /// As [`DiskSpace::check`].
    pub(crate) fn admit(&self, scope: &Scope) -> Result<()> {
        self.check().map_err(|error| {
            if !scope.is_all() {
                let text = "there is no disk space to index: indexing waits, queries are answered";
                return Error::new(error.code, text).hint("try again later; `vic status` tells the daemon's owner more");
            }
            error.hint(
                "free some disk space, or set VIC_DISK_RESERVE_BYTES to less, and ask again; changes in watched folders \
                 are then indexed automatically",
            )
        })
    }

    /// Records a failed write, if the error is that the disk is full.
    pub(crate) fn note_error(&self, error: &Error) {
        if error.code == ErrorCode::StorageFull {
            self.was_full.store(true, Ordering::Relaxed);
            self.has_waiting_work.store(true, Ordering::Relaxed);
        }
    }

    /// Checks that there is enough disk space to index, and records nothing.
    pub(super) fn check_folders(&self) -> Result<()> {
        self.folders.iter().try_for_each(|it| self.check_folder(it))
    }

    /// Returns whether a write found the disk full, and clears the flag.
    pub(super) fn take_was_full(&self) -> bool {
        self.was_full.swap(false, Ordering::Relaxed)
    }

    /// Returns whether work was refused or interrupted for lack of disk space, and clears the flag.
    pub(super) fn take_waiting_work(&self) -> bool {
        self.has_waiting_work.swap(false, Ordering::Relaxed)
    }

    fn check_folder(&self, place: &Path) -> Result<()> {
        let (free, all) = disk_space(place)?;
        let reserve = self.reserve.unwrap_or(RESERVE_BYTES.max(all / 100 * RESERVE_PERCENT));
        let tried = if self.was_full.load(Ordering::Relaxed) { MIN_FREE_AFTER_FULL } else { 0 };
        let needed = reserve.max(tried);
        if free >= needed {
            return Ok(());
        }
        let mib = |bytes: u64| bytes >> 20;
        Err(Error::new(
            ErrorCode::StorageFull,
            format!(
                "the disk of `{}` has {} MiB free and {} MiB must stay free: indexing waits, queries are answered",
                place.display(),
                mib(free),
                mib(needed)
            ),
        )
        .hint("free some disk space, or set VIC_DISK_RESERVE_BYTES to less; indexing then resumes automatically"))
    }
}

/// Returns the bytes that this user may still write on the disk of this folder, and the total bytes of the disk.
pub(super) fn disk_space(place: &Path) -> Result<(u64, u64)> {
    let stat = rustix::fs::statvfs(place).map_err(std::io::Error::from).io_context("check the disk of", place)?;
    Ok((stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_disk_space_is_refused_with_path_and_hint() {
        let dir = tempfile::tempdir().unwrap();
        let space = |reserve| DiskSpace::new(vec![dir.path().into()], Some(reserve));
        space(0).check().unwrap();
        let full = space(u64::MAX);
        let error = full.check().unwrap_err();
        assert_eq!(error.code, ErrorCode::StorageFull);
        assert!(error.message.contains(dir.path().to_str().unwrap()), "{error}");
        assert!(error.hint.unwrap().contains("VIC_DISK_RESERVE_BYTES"));
        assert!(full.has_waiting_work.load(Ordering::Relaxed));
        let place = dir.path().to_str().unwrap();
        assert!(full.admit(&Scope::All).unwrap_err().message.contains(place));
        let told = full.admit(&Scope::Folders(["/w".into()].into())).unwrap_err();
        assert!(told.code == ErrorCode::StorageFull && told.hint.is_some(), "{told}");
        assert!(!told.message.contains(place) && !told.message.contains("MiB"), "{told}");
    }
}
