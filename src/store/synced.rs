//! Which version of a table is known to be on disk.
//!
//! The library commits by renaming, and syncs nothing. A commit counts for us only when everything it wrote is synced and
//! its number stands here, on disk too. Versions above that number are work that a crash interrupted: they are set aside at
//! the next start, whole or torn, because nobody can tell the one from the other. So several commits of the library, such
//! as a delete and an add, are one step: before the number moves none of them happened.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{IoContext, Result};

/// Hex digits of the check sum.
const SUM_DIGITS: usize = 16;

/// The file that holds the number. Its one line is always as long and is written in place, which costs one sync and
/// cannot lose the file; a disk writes so few bytes whole or not at all.
#[derive(Clone, Debug)]
pub(super) struct Synced(PathBuf);

impl Synced {
    /// That of a table with this directory.
    pub(super) fn of(table_dir: &Path) -> Synced {
        Synced(table_dir.with_extension("synced"))
    }

    /// Returns the number; None when there is none, or none that can be trusted.
    pub(super) fn read(&self) -> Result<Option<u64>> {
        match std::fs::read_to_string(&self.0) {
            Ok(line) => Ok(parse(&line)),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidData) => {
                Ok(None)
            }
            Err(error) => Err(error).at("read", &self.0),
        }
    }

    /// Notes that everything up to this version is on disk. It stands there when this returns.
    pub(super) fn write(&self, version: u64) -> Result<()> {
        let is_new = !self.0.exists();
        let file = File::options().create(true).write(true).truncate(false).open(&self.0).at("open", &self.0)?;
        file.write_all_at(line(version).as_bytes(), 0).at("write", &self.0)?;
        file.sync_data().at("sync", &self.0)?;
        if is_new && let Some(dir) = self.0.parent() {
            File::open(dir).and_then(|it| it.sync_all()).at("sync", dir)?;
        }
        Ok(())
    }

    /// Forgets the number of a table that is gone.
    pub(super) fn remove(&self) -> Result<()> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("remove", &self.0),
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
