//! Unresponsive places, i.e. roots and mounts in them: opening a file on a network mount with an unreachable server blocks
//! for ever.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// One set per process, because mounts are: everything that opens files checks it first.
static SILENT: LazyLock<Mutex<BTreeSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// How often a waiting caller checks whether the place still responds.
const LOOK: Duration = Duration::from_secs(1);

fn silent() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    SILENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records whether a place responds.
pub(crate) fn note(place: &Path, is_silent: bool) {
    match is_silent {
        true => silent().insert(place.to_path_buf()),
        false => silent().remove(place),
    };
}

/// Returns whether a path is, or lies below, a place that is known to be unresponsive.
pub(crate) fn holds(path: &Path) -> bool {
    silent().iter().any(|place| path.starts_with(place))
}

/// As [`holds`], for a path below a root.
pub(crate) fn holds_beneath(root: &Path, relative: &Path) -> bool {
    // The common case, an empty set, needs no join.
    !silent().is_empty() && holds(&root.join(relative))
}

/// Returns the unresponsive places below a root.
pub(crate) fn below(root: &Path) -> Vec<PathBuf> {
    silent().iter().filter(|it| it.starts_with(root) && *it != root).cloned().collect()
}

/// Waits for work at a path. Returns `None` when the place becomes unresponsive or the work takes longer than `most`. If
/// the place is unresponsive already, the work is not started, because it would block a thread.
pub(crate) async fn unless_silent<T>(path: &Path, most: Duration, work: impl Future<Output = T>) -> Option<T> {
    if holds(path) {
        return None;
    }
    tokio::pin!(work);
    let end = Instant::now() + most;
    loop {
        let until = end.min(Instant::now() + LOOK);
        if let Ok(done) = tokio::time::timeout_at(until, &mut work).await {
            return Some(done);
        }
        if holds(path) || Instant::now() >= end {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warehouse::open::begins_like_zip;
    use crate::warehouse::{OpenProblem, open_beneath};

    #[test]
    fn open_is_refused_at_unresponsive_place() {
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path().join("mount");
        std::fs::create_dir(&mount).unwrap();
        for folder in [dir.path(), &mount] {
            std::fs::write(folder.join("a.txt"), "text").unwrap();
        }
        let open = |path: &str| open_beneath(dir.path(), Path::new(path)).map(drop);
        assert!(open("a.txt").is_ok() && open("mount/a.txt").is_ok());
        note(&mount, true);
        assert_eq!((open("a.txt"), open("mount/a.txt")), (Ok(()), Err(OpenProblem::Gone)));
        assert_eq!((below(dir.path()), below(&mount)), (vec![mount.clone()], vec![]));
        note(dir.path(), true);
        assert_eq!(open("a.txt"), Err(OpenProblem::Gone));
        assert!(!holds(&dir.path().with_extension("b")));
        note(dir.path(), false);
        note(&mount, false);
        assert!(open("a.txt").is_ok() && open("mount/a.txt").is_ok());
    }

    #[test]
    fn zip_check_ignores_unresponsive_list() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("slides.key"), "PK\x03\x04 and more").unwrap();
        note(dir.path(), true);
        assert!(begins_like_zip(dir.path(), Path::new("slides.key")));
        note(dir.path(), false);
    }

    #[tokio::test]
    async fn wait_ends_when_place_is_unresponsive_or_late() {
        let (path, never) = (Path::new("/falls/silent/x"), std::future::pending::<()>);
        let (soon, late) = (Duration::from_millis(20), Duration::from_secs(3_600));
        assert_eq!(unless_silent(path, late, async { 7 }).await, Some(7));
        assert_eq!(unless_silent(path, soon, never()).await, None);
        let falls = tokio::spawn(unless_silent(path, late, never()));
        tokio::task::yield_now().await;
        note(Path::new("/falls/silent"), true);
        assert_eq!(falls.await.unwrap(), None);
        assert_eq!(unless_silent(path, late, async { panic!("it was begun") }).await, None::<()>);
        note(Path::new("/falls/silent"), false);
    }
}
