//! The checksums of model files for which the catalog has none: recorded when a file is installed first, and required from
//! then on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::embed::model_file::persist_readable;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// File in the folder of a model that holds the recorded checksums.
const RECORD_FILE: &str = "checksums.json";

/// What is recorded about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recorded {
    /// SHA-256 in hexadecimal.
    pub(super) sha256: String,
    /// Where the file came from: an entry of `sources`.
    pub(super) source: String,
    /// Whether vic made the file from one whose checksum is in the catalog.
    #[serde(default)]
    pub(super) converted: bool,
}

/// The recorded checksums of the files of one model, by file name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checksums(BTreeMap<String, Recorded>);

impl Checksums {
    /// Reads the record in the folder of a model; a missing record is empty.
    ///
    /// # Errors
    /// The record cannot be read. A damaged record must not count as a missing one, as changed files would be accepted.
    pub(super) fn open(folder: &Path) -> Result<Checksums> {
        let path = record_path(folder);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                return Ok(Checksums::default());
            }
            Err(error) => return Err(error).io_context("read", &path),
        };
        serde_json::from_str(&text).map_err(|error| {
            Error::new(ErrorCode::DataLoss, format!("`{}` is damaged: {error}", path.display()))
                .hint(format!("delete `{}` and pull the model again", folder.display()))
        })
    }

    /// Returns what is recorded about a file.
    pub(super) fn get(&self, file: &str) -> Option<&Recorded> {
        self.0.get(file)
    }

    /// Records a file and writes the record.
    pub(super) fn record(&mut self, folder: &Path, file: &str, recorded: Recorded) -> Result<()> {
        self.0.insert(file.to_string(), recorded);
        let text = serde_json::to_string_pretty(self).map_err(Error::internal)?;
        let temporary = tempfile::NamedTempFile::new_in(folder).io_context("create a file in", folder)?;
        std::fs::write(temporary.path(), text).io_context("write", temporary.path())?;
        persist_readable(temporary, &record_path(folder))
    }
}

fn record_path(folder: &Path) -> PathBuf {
    folder.join(RECORD_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_kept_and_damage_is_not_ignored() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Checksums::open(folder.path()).unwrap(), Checksums::default());
        let recorded = Recorded { sha256: "ab".into(), source: "https://h/x".into(), converted: false };
        Checksums::default().record(folder.path(), "a/b.bin", recorded.clone()).unwrap();
        assert_eq!(Checksums::open(folder.path()).unwrap().get("a/b.bin"), Some(&recorded));
        std::fs::write(record_path(folder.path()), "{").unwrap();
        let error = Checksums::open(folder.path()).unwrap_err();
        assert!(error.code == ErrorCode::DataLoss && error.hint.is_some_and(|it| it.contains("delete")));
    }
}
