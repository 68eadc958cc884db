//! Roots that do not answer: whoever opens a file on a network mount whose server is away waits for ever.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Of the process, as the mounts are: whatever opens files asks here first.
static SILENT: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// How often somebody who waits for a root looks whether it still answers.
const LOOK: Duration = Duration::from_secs(1);

fn silent() -> MutexGuard<'static, HashSet<PathBuf>> {
    SILENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes whether a root answers.
pub(crate) fn note(root: &Path, is_silent: bool) {
    match is_silent {
        true => silent().insert(root.to_path_buf()),
        false => silent().remove(root),
    };
}

/// Whether a root is known not to answer.
pub(crate) fn is_silent(root: &Path) -> bool {
    silent().contains(root)
}

/// Waits for work at a root. None when that does not come back: the root falls silent, or it takes longer than `most`.
pub(crate) async fn unless_silent<T>(root: &Path, most: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(work);
    let end = Instant::now() + most;
    loop {
        let until = end.min(Instant::now() + LOOK);
        if let Ok(done) = tokio::time::timeout_at(until, &mut work).await {
            return Some(done);
        }
        if is_silent(root) || Instant::now() >= end {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warehouse::{OpenProblem, open_beneath};

    #[test]
    fn nothing_is_opened_at_a_root_that_does_not_answer() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "text").unwrap();
        let open = || open_beneath(dir.path(), Path::new("a.txt")).map(drop);
        assert!(open().is_ok());
        note(dir.path(), true);
        assert_eq!(open(), Err(OpenProblem::Gone));
        note(dir.path(), false);
        assert!(open().is_ok());
    }

    #[tokio::test]
    async fn whoever_waits_for_a_root_is_told_when_it_falls_silent_and_when_it_takes_too_long() {
        let (root, never) = (Path::new("/falls/silent"), std::future::pending::<()>);
        let (soon, late) = (Duration::from_millis(20), Duration::from_secs(3_600));
        assert_eq!(unless_silent(root, late, async { 7 }).await, Some(7));
        assert_eq!(unless_silent(root, soon, never()).await, None);
        note(root, true);
        assert_eq!(unless_silent(root, late, never()).await, None);
        note(root, false);
    }
}
