//! List of unresponsive roots and mounts: opening a file on a network mount whose server is unreachable blocks for ever,
//! so code that opens files checks this list first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The unresponsive roots and mounts; one list for the process, because mounts are the same for all of its threads.
static UNRESPONSIVE: LazyLock<Mutex<BTreeSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// How often a caller that waits for work on a mount checks whether the mount became unresponsive.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

fn unresponsive_set() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNRESPONSIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records whether a root or mount responds.
pub(crate) fn set_unresponsive(place: &Path, is_silent: bool) {
    match is_silent {
        true => unresponsive_set().insert(place.to_path_buf()),
        false => unresponsive_set().remove(place),
    };
}

/// Returns whether a path is at or below a root or mount that is known to be unresponsive.
pub(crate) fn is_unresponsive(path: &Path) -> bool {
    unresponsive_set().iter().any(|place| path.starts_with(place))
}

/// As [`is_unresponsive`], for a path relative to a root.
pub(crate) fn is_unresponsive_beneath(root: &Path, relative: &Path) -> bool {
    // Checks first whether the list is empty, the common case, to avoid joining the paths.
    !unresponsive_set().is_empty() && is_unresponsive(&root.join(relative))
}

/// Returns the unresponsive mounts below a root.
pub(crate) fn unresponsive_below(root: &Path) -> Vec<PathBuf> {
    unresponsive_set().iter().filter(|it| it.starts_with(root) && *it != root).cloned().collect()
}

/// Waits for `work`, which accesses `path`. Returns `None` when the mount of the path becomes unresponsive or the work
/// takes longer than `most`. If the mount is unresponsive already, does not start the work, because it would block a
/// thread.
pub(crate) async fn timeout_if_unresponsive<T>(
    path: &Path,
    most: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    if is_unresponsive(path) {
        return None;
    }
    tokio::pin!(work);
    let end = Instant::now() + most;
    loop {
        let until = end.min(Instant::now() + CHECK_INTERVAL);
        if let Ok(done) = tokio::time::timeout_at(until, &mut work).await {
            return Some(done);
        }
        if is_unresponsive(path) || Instant::now() >= end {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::open::begins_like_zip;
    use crate::files::{OpenProblem, open_beneath};

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
        set_unresponsive(&mount, true);
        assert_eq!((open("a.txt"), open("mount/a.txt")), (Ok(()), Err(OpenProblem::Gone)));
        assert_eq!((unresponsive_below(dir.path()), unresponsive_below(&mount)), (vec![mount.clone()], vec![]));
        set_unresponsive(dir.path(), true);
        assert_eq!(open("a.txt"), Err(OpenProblem::Gone));
        assert!(!is_unresponsive(&dir.path().with_extension("b")));
        set_unresponsive(dir.path(), false);
        set_unresponsive(&mount, false);
        assert!(open("a.txt").is_ok() && open("mount/a.txt").is_ok());
    }

    #[test]
    fn zip_check_ignores_unresponsive_list() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("slides.key"), "PK\x03\x04 and more").unwrap();
        set_unresponsive(dir.path(), true);
        assert!(begins_like_zip(dir.path(), Path::new("slides.key")));
        set_unresponsive(dir.path(), false);
    }

    #[tokio::test]
    async fn wait_ends_when_place_is_unresponsive_or_late() {
        let (path, never) = (Path::new("/falls/silent/x"), std::future::pending::<()>);
        let (soon, late) = (Duration::from_millis(20), Duration::from_secs(3_600));
        assert_eq!(timeout_if_unresponsive(path, late, async { 7 }).await, Some(7));
        assert_eq!(timeout_if_unresponsive(path, soon, never()).await, None);
        let falls = tokio::spawn(timeout_if_unresponsive(path, late, never()));
        tokio::task::yield_now().await;
        set_unresponsive(Path::new("/falls/silent"), true);
        assert_eq!(falls.await.unwrap(), None);
        assert_eq!(timeout_if_unresponsive(path, late, async { panic!("it was begun") }).await, None::<()>);
        set_unresponsive(Path::new("/falls/silent"), false);
    }
}
