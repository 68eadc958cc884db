//! Room on the disk: nothing is indexed that would take what is reserved, and the work goes on by itself when there is
//! room again. Questions are answered all the time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::{info, warn};

use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::index::Inner;
use crate::index::watching::CHANGES;
use crate::model::Scope;

/// How often the disk is asked: `statvfs` takes a few microseconds.
const LOOK: Duration = Duration::from_secs(5);

/// The reserve when nobody sets one: the larger of these two.
const RESERVE_BYTES: u64 = 1 << 30;
const RESERVE_PERCENT: u64 = 2;

/// After a write found no room, as much has to be free before another is tried.
const ROOM_TO_TRY: u64 = 16 << 20;

/// The disks that vic writes to, and what has to stay free on them.
pub(crate) struct Space {
    places: Vec<PathBuf>,
    reserve: Option<u64>,
    /// Whether work was refused or broke off, and is to be taken up again.
    waits: AtomicBool,
    /// Whether the disk itself refused: then the reserve is not what counts.
    was_full: AtomicBool,
}

impl Space {
    /// Watches the disks of these folders, which exist.
    pub(crate) fn new(places: Vec<PathBuf>, reserve: Option<u64>) -> Space {
        Space { places, reserve, waits: AtomicBool::new(false), was_full: AtomicBool::new(false) }
    }

    /// Makes sure that there is room to index.
    ///
    /// # Errors
    /// [`ErrorCode::StorageFull`] when there is not.
    pub(crate) fn check(&self) -> Result<()> {
        let outcome = self.places.iter().try_for_each(|it| self.check_place(it));
        if outcome.is_err() {
            self.waits.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// Makes sure that there is room for what somebody asks for now; a refusal leaves nothing behind. Where the index lies
    /// and how much room is left there is the owner's matter.
    ///
    /// # Errors
    /// As [`Space::check`].
    pub(crate) fn admit(&self, scope: &Scope) -> Result<()> {
        self.check().map_err(|error| {
            if !scope.is_all() {
                let text = "there is no room to index: indexing waits, questions are answered";
                return Error::new(error.code, text).hint("try again later; the daemon's owner sees more in `vic status`");
            }
            error.hint(
                "free some disk space, or set VIC_DISK_RESERVE_BYTES to less, and ask again; what changes in folders that \
                 are watched is indexed by itself then",
            )
        })
    }

    /// Notes that a write failed for want of room, if that is why it failed.
    pub(crate) fn note(&self, error: &Error) {
        if error.code == ErrorCode::StorageFull {
            self.was_full.store(true, Ordering::Relaxed);
            self.waits.store(true, Ordering::Relaxed);
        }
    }

    fn check_place(&self, place: &Path) -> Result<()> {
        let (free, all) = room(place)?;
        let reserve = self.reserve.unwrap_or(RESERVE_BYTES.max(all / 100 * RESERVE_PERCENT));
        let tried = if self.was_full.load(Ordering::Relaxed) { ROOM_TO_TRY } else { 0 };
        let needed = reserve.max(tried);
        if free >= needed {
            return Ok(());
        }
        let mib = |bytes: u64| bytes >> 20;
        Err(Error::new(
            ErrorCode::StorageFull,
            format!(
                "the disk of `{}` has {} MiB free and {} MiB are to stay free: indexing waits, questions are answered",
                place.display(),
                mib(free),
                mib(needed)
            ),
        )
        .hint("free some disk space, or set VIC_DISK_RESERVE_BYTES to less; indexing goes on by itself"))
    }
}

/// Bytes that we may still write, and bytes in all.
pub(super) fn room(place: &Path) -> Result<(u64, u64)> {
    let stat = rustix::fs::statvfs(place).map_err(std::io::Error::from).at("look at the disk of", place)?;
    Ok((stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize))
}

/// Says so while there is no room, and takes the work up when there is.
pub(crate) async fn follow(inner: Arc<Inner>) {
    let mut looks = tokio::time::interval(LOOK);
    while inner.shutdown.run_until_cancelled(looks.tick()).await.is_some() {
        look(&inner);
    }
}

fn look(inner: &Arc<Inner>) {
    let space = &inner.space;
    match space.places.iter().try_for_each(|it| space.check_place(it)) {
        Ok(()) => {
            inner.note("disk", None);
            // What the watcher saw meanwhile may not have been written down: a walk finds it.
            if space.was_full.swap(false, Ordering::Relaxed) {
                let walk = inner.clone();
                inner.background.spawn(async move { walk.reconcile_roots().await });
            }
            if space.waits.swap(false, Ordering::Relaxed) {
                info!("there is room on the disk again: indexing goes on");
                inner.note("watch", None);
                inner.note(CHANGES, None);
                inner.note("bury", None);
                inner.urgent.wake();
                inner.changed.notify_one();
                inner.buried.notify_one();
            }
        }
        Err(error) if error.code == ErrorCode::StorageFull => {
            inner.note("disk", Some(error.with_cure()));
        }
        Err(error) => warn!(%error, "cannot tell how much room there is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_refused_with_the_place_and_the_cure() {
        let dir = tempfile::tempdir().unwrap();
        let space = |reserve| Space::new(vec![dir.path().into()], Some(reserve));
        space(0).check().unwrap();
        let full = space(u64::MAX);
        let error = full.check().unwrap_err();
        assert_eq!(error.code, ErrorCode::StorageFull);
        assert!(error.message.contains(dir.path().to_str().unwrap()), "{error}");
        assert!(error.hint.unwrap().contains("VIC_DISK_RESERVE_BYTES"));
        assert!(full.waits.load(Ordering::Relaxed));
        let place = dir.path().to_str().unwrap();
        assert!(full.admit(&Scope::All).unwrap_err().message.contains(place));
        let told = full.admit(&Scope::Folders(["/w".into()].into())).unwrap_err();
        assert!(told.code == ErrorCode::StorageFull && told.hint.is_some(), "{told}");
        assert!(!told.message.contains(place) && !told.message.contains("MiB"), "{told}");
    }
}
