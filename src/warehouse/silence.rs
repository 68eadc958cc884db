//! Places that do not answer, roots and what is mounted in them: whoever opens a file on a network mount whose server is
//! away waits for ever.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Of the process, as the mounts are: whatever opens files asks here first.
static SILENT: LazyLock<Mutex<BTreeSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// How often somebody who waits for a place looks whether it still answers.
const LOOK: Duration = Duration::from_secs(1);

fn silent() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    SILENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes whether a place answers.
pub(crate) fn note(place: &Path, is_silent: bool) {
    match is_silent {
        true => silent().insert(place.to_path_buf()),
        false => silent().remove(place),
    };
}

/// Whether a path is, or lies below, a place that is known not to answer.
pub(crate) fn holds(path: &Path) -> bool {
    silent().iter().any(|place| path.starts_with(place))
}

/// As [`holds`], for a path below a root.
pub(crate) fn holds_beneath(root: &Path, relative: &Path) -> bool {
    // The common case is to cost nothing.
    !silent().is_empty() && holds(&root.join(relative))
}

/// The places below a root that are known not to answer.
pub(crate) fn below(root: &Path) -> Vec<PathBuf> {
    silent().iter().filter(|it| it.starts_with(root) && *it != root).cloned().collect()
}

/// Waits for work at a path. None when that does not come back: its disk falls silent, or it takes longer than `most`. Where
/// it is silent already, the work is not begun: it would hold a thread.
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
    fn nothing_is_opened_at_a_place_that_does_not_answer() {
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
    fn a_file_of_a_walk_is_judged_by_what_it_holds_although_its_disk_was_late() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("slides.key"), "PK\x03\x04 and more").unwrap();
        note(dir.path(), true);
        assert!(begins_like_zip(dir.path(), Path::new("slides.key")));
        note(dir.path(), false);
    }

    #[tokio::test]
    async fn whoever_waits_for_a_place_is_told_when_it_falls_silent_and_when_it_takes_too_long() {
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
