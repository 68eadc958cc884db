//! Part of `vic doctor`: checks that roots can be read, and how many of their files match the catalog.
//!
//! Each root is checked on its own thread, because a disk that does not respond blocks the thread that reads it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::catalog::{Catalog, ROOT_HINT};
use crate::error::{Error, ErrorCode, IoContext, Result};

/// A disk counts as unresponsive if the check of its root makes no progress for this long.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks the roots of a catalog. Returns one finding for each unreadable root, and one for all other roots together.
///
/// # Errors
/// The catalog cannot be read.
pub(super) fn check_roots(catalog: &Catalog) -> Result<Vec<Result<String>>> {
    let mut files: BTreeMap<PathBuf, Vec<(PathBuf, u64)>> =
        catalog.roots()?.into_iter().map(|it| (it.path, Vec::new())).collect();
    for record in catalog.search(&Default::default(), usize::MAX, 0)?.0 {
        let known = (record.absolute(), record.found.size);
        files.entry(record.root).or_default().push(known);
    }
    let (mut roots, mut same, mut other) = (0, 0, 0);
    let mut findings = Vec::new();
    for (root, files) in files {
        let count = files.len() as u64;
        let path = root.clone();
        match run_with_stall_timeout(&root, STALL_TIMEOUT, move |progress| count_unchanged(&path, &files, progress)) {
            Ok(found) => (roots, same, other) = (roots + 1, same + found, other + count - found),
            Err(error) => findings.push(Err(error.hint(ROOT_HINT))),
        }
    }
    if roots > 0 || findings.is_empty() {
        let finding = format!("{roots} roots, {same} files unchanged, {other} changed or gone since last recorded");
        findings.push(Ok(finding));
    }
    Ok(findings)
}

/// Returns how many of the `files` of a root have the size on disk that the catalog recorded.
fn count_unchanged(root: &Path, files: &[(PathBuf, u64)], progress: &AtomicU64) -> Result<u64> {
    // Reads the first entry, because opening the folder succeeds even if its disk cannot be read.
    root.read_dir().and_then(|mut it| it.next().transpose()).io_context("read", root)?;
    let is_as_known = |it: &&(PathBuf, u64)| {
        progress.fetch_add(1, Ordering::Relaxed);
        it.0.symlink_metadata().is_ok_and(|on_disk| on_disk.len() == it.1)
    };
    Ok(files.iter().filter(is_as_known).count() as u64)
}

/// Runs `look` on its own thread, and abandons the thread if it makes no progress for `patience`.
fn run_with_stall_timeout<T: Send + 'static>(
    root: &Path,
    patience: Duration,
    look: impl FnOnce(&AtomicU64) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (progress, (found, finds)) = (Arc::new(AtomicU64::new(0)), mpsc::channel());
    let own = progress.clone();
    std::thread::spawn(move || found.send(look(&own)));
    let mut before = 0;
    loop {
        match finds.recv_timeout(patience) {
            Ok(found) => return found,
            Err(RecvTimeoutError::Timeout) if progress.load(Ordering::Relaxed) > before => {
                before = progress.load(Ordering::Relaxed);
            }
            Err(_) => {
                let message = format!("`{}`, or a folder in it, does not answer", root.display());
                return Err(Error::new(ErrorCode::Unavailable, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hung_check_is_abandoned_and_slow_one_completes() {
        let patience = Duration::from_millis(200);
        let check = |steps: u32, step: Duration| {
            run_with_stall_timeout(Path::new("/w"), patience, move |progress| {
                for _ in 0..steps {
                    std::thread::sleep(step);
                    progress.fetch_add(1, Ordering::Relaxed);
                }
                Ok(steps)
            })
        };
        assert_eq!(check(100, patience / 20).unwrap(), 100);
        let error = check(1, patience * 50).unwrap_err();
        assert!(error.code == ErrorCode::Unavailable && error.message.contains("`/w`"), "{error}");
    }
}
