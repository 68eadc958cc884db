//! Which version of a table is known to be on disk.
//!
//! The library commits by renaming, and syncs nothing. A commit counts for us only when everything it wrote is synced and
//! its number stands here, on disk too. Versions above that number are work that a crash interrupted: they are set aside at
//! the next start, whole or torn, because nobody can tell the one from the other. So several commits of the library, such
//! as a delete and an add, are one step: before the number moves none of them happened.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::error::{IoContext, Result};

/// Hex digits of the check sum.
const SUM_DIGITS: usize = 16;

/// The file that holds the number. Its one line is always as long and is written in place, which costs one sync and
/// cannot lose the file; a disk writes so few bytes whole or not at all.
#[derive(Clone, Debug)]
pub(super) struct Synced {
    path: PathBuf,
    /// Whether a number may stand in the system's memory alone, because the disk did not take it: whoever reads it then learns
    /// nothing of the disk.
    is_doubtful: Arc<AtomicBool>,
    /// Held while a number is written, also when nobody waits for that any more.
    writing: Arc<Mutex<()>>,
}

impl Synced {
    /// That of a table with this directory.
    pub(super) fn of(table_dir: &Path) -> Synced {
        Synced { path: table_dir.with_extension("synced"), is_doubtful: Arc::default(), writing: Arc::default() }
    }

    /// Waits until no number is being written, and lets none be until this is dropped.
    pub(super) async fn writing(&self) -> OwnedMutexGuard<()> {
        self.writing.clone().lock_owned().await
    }

    /// Returns the number; None when there is none, or none that can be trusted.
    pub(super) fn read(&self) -> Result<Option<u64>> {
        match std::fs::read_to_string(&self.path) {
            Ok(line) => Ok(parse(&line)),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidData) => {
                Ok(None)
            }
            Err(error) => Err(error).at("read", &self.path),
        }
    }

    /// Says whether this number stands there, and on disk.
    pub(super) fn holds(&self, version: u64) -> Result<bool> {
        Ok(!self.is_doubtful.load(Ordering::Relaxed) && self.read()? == Some(version))
    }

    /// Notes that everything up to this version is on disk. It stands there when this returns.
    pub(super) fn write(&self, version: u64) -> Result<()> {
        self.is_doubtful.store(true, Ordering::Relaxed);
        let is_new = !self.path.exists();
        let file = File::options().create(true).write(true).truncate(false).open(&self.path).at("open", &self.path)?;
        file.write_all_at(line(version).as_bytes(), 0).at("write", &self.path)?;
        file.sync_data().at("sync", &self.path)?;
        if is_new && let Some(dir) = self.path.parent() {
            File::open(dir).and_then(|it| it.sync_all()).at("sync", dir)?;
        }
        self.is_doubtful.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets the number of a table that is gone.
    pub(super) fn remove(&self) -> Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("remove", &self.path),
            _ => Ok(()),
        }
    }
}

fn line(version: u64) -> String {
    let number = format!("{version:020}");
    let sum = blake3::hash(number.as_bytes()).to_hex();
    format!("{number} {}\n", &sum[..SUM_DIGITS])
}

fn parse(text: &str) -> Option<u64> {
    let version = text.split(' ').next()?.parse().ok()?;
    (text == line(version)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_the_disk_refused_is_not_believed_until_another_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let synced = Synced::of(&dir.path().join("chunks_1.lance"));
        synced.write(7).unwrap();
        assert!(synced.holds(7).unwrap() && !synced.holds(8).unwrap());
        // It opens and writes, and refuses to be synced.
        let pipe = dir.path().join("chunks_1.synced");
        std::fs::remove_file(&pipe).unwrap();
        std::os::unix::fs::symlink("/dev/null", &pipe).unwrap();
        synced.write(8).unwrap_err();
        std::fs::remove_file(&pipe).unwrap();
        std::fs::write(&pipe, line(8)).unwrap();
        assert!(synced.read().unwrap() == Some(8) && !synced.holds(8).unwrap());
        synced.write(8).unwrap();
        assert!(synced.holds(8).unwrap());
    }

    #[test]
    fn the_last_number_is_read_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let synced = Synced::of(&dir.path().join("chunks_1.lance"));
        assert_eq!(synced.read().unwrap(), None);
        for version in [7, 12, u64::MAX] {
            synced.write(version).unwrap();
            assert_eq!(synced.read().unwrap(), Some(version));
        }
        for damage in ["", "00000000000000000012 0000000000000000\n", "\0\0\0\0"] {
            std::fs::write(dir.path().join("chunks_1.synced"), damage).unwrap();
            assert_eq!(synced.read().unwrap(), None, "{damage:?}");
        }
        synced.remove().unwrap();
        synced.remove().unwrap();
    }
}
