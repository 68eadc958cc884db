//! Records the durable version: the last version of a table that is known to be complete on disk.
//!
//! The library commits by renaming files and never syncs. For vic a commit counts only when all its files are synced
//! and its number is recorded here, also on disk. Higher versions are work that a crash interrupted. The next start
//! quarantines them, complete or truncated, because it cannot tell them apart. Several commits of the library, such as
//! a delete and an add, are thus one atomic step: none of them counts before the number changes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lancedb::Table;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::error::{Error, IoContext, Result};
use crate::store::lance_error::StoreContext;

/// Number of hex digits of the checksum that follows the version number.
const SUM_DIGITS: usize = 16;

/// The file that holds the number of the durable version. Its single line has a fixed length and is overwritten in
/// place. This costs one sync and cannot lose the file, because a disk writes so few bytes atomically.
#[derive(Clone, Debug)]
pub(super) struct DurableVersion {
    path: PathBuf,
    /// True while the number in the file may be only in the page cache, because syncing it failed. The number then
    /// proves nothing about the disk.
    is_unconfirmed: Arc<AtomicBool>,
    /// Lock held while the number is written, even if the caller was cancelled.
    writing: Arc<Mutex<()>>,
}

impl DurableVersion {
    /// Creates the record for the table in this directory.
    pub(super) fn new(table_dir: &Path) -> DurableVersion {
        DurableVersion {
            path: table_dir.with_extension("synced"),
            is_unconfirmed: Arc::default(),
            writing: Arc::default(),
        }
    }

    /// Waits for a running write of the number and blocks further ones until the guard is dropped.
    pub(super) async fn lock_writes(&self) -> OwnedMutexGuard<()> {
        self.writing.clone().lock_owned().await
    }

    /// Returns the recorded number, or `None` if the file is missing or damaged.
    pub(super) fn read(&self) -> Result<Option<u64>> {
        match std::fs::read_to_string(&self.path) {
            Ok(line) => Ok(parse_line(&line)),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidData) => {
                Ok(None)
            }
            Err(error) => Err(error).io_context("read", &self.path),
        }
    }

    /// Returns whether this number is recorded on disk.
    fn is_durable(&self, version: u64) -> Result<bool> {
        Ok(!self.is_unconfirmed.load(Ordering::Relaxed) && self.read()? == Some(version))
    }

    /// Records on disk that everything up to this version is durable.
    pub(super) fn write(&self, version: u64) -> Result<()> {
        self.is_unconfirmed.store(true, Ordering::Relaxed);
        let is_new = !self.path.exists();
        let file =
            File::options().create(true).write(true).truncate(false).open(&self.path).io_context("open", &self.path)?;
        file.write_all_at(format_line(version).as_bytes(), 0).io_context("write", &self.path)?;
        file.sync_data().io_context("sync", &self.path)?;
        if is_new && let Some(dir) = self.path.parent() {
            File::open(dir).and_then(|it| it.sync_all()).io_context("sync", dir)?;
        }
        self.is_unconfirmed.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Returns whether the current version of the table is recorded as durable.
    pub(super) async fn is_recorded(&self, table: &Table, dir: &Path) -> Result<bool> {
        let version = table.version().await.on("read", dir)?;
        let synced = self.clone();
        tokio::task::spawn_blocking(move || synced.is_durable(version)).await.map_err(Error::internal)?
    }

    /// Records the current version of the table as durable. The caller has synced it.
    pub(super) async fn record(&self, table: &Table, dir: &Path) -> Result<()> {
        let version = table.version().await.on("read", dir)?;
        let (synced, writing) = (self.clone(), self.lock_writes().await);
        let note = move || {
            let _writing = writing;
            if synced.is_durable(version)? { Ok(()) } else { synced.write(version) }
        };
        tokio::task::spawn_blocking(note).await.map_err(Error::internal)?
    }

    /// Removes the record of a dropped table.
    pub(super) fn remove(&self) -> Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).io_context("remove", &self.path),
            _ => Ok(()),
        }
    }
}

fn format_line(version: u64) -> String {
    let number = format!("{version:020}");
    let sum = blake3::hash(number.as_bytes()).to_hex();
    format!("{number} {}\n", &sum[..SUM_DIGITS])
}

fn parse_line(text: &str) -> Option<u64> {
    let version = text.split(' ').next()?.parse().ok()?;
    (text == format_line(version)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case B9
    #[test]
    fn unsynced_number_is_ignored_until_next_write() {
        let dir = tempfile::tempdir().unwrap();
        let synced = DurableVersion::new(&dir.path().join("chunks_1.lance"));
        synced.write(7).unwrap();
        assert!(synced.is_durable(7).unwrap() && !synced.is_durable(8).unwrap());
        // Links the file to one that can be opened and written but not synced.
        let pipe = dir.path().join("chunks_1.synced");
        std::fs::remove_file(&pipe).unwrap();
        std::os::unix::fs::symlink("/dev/null", &pipe).unwrap();
        synced.write(8).unwrap_err();
        std::fs::remove_file(&pipe).unwrap();
        std::fs::write(&pipe, format_line(8)).unwrap();
        assert!(synced.read().unwrap() == Some(8) && !synced.is_durable(8).unwrap());
        synced.write(8).unwrap();
        assert!(synced.is_durable(8).unwrap());
    }

    #[test]
    fn last_number_is_read_and_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let synced = DurableVersion::new(&dir.path().join("chunks_1.lance"));
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
