//! Quarantine of corrupt files: they are renamed, never deleted or overwritten.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::catalog::database::{Database, Format};
use crate::error::{ErrorCode, IoContext, Result};

/// Suffixes of the files that SQLite keeps beside a database: write-ahead log and shared memory.
const SQLITE_SUFFIXES: [&str; 2] = ["-wal", "-shm"];

/// Opens a database. A corrupt file is renamed and replaced by a new database, whose field `quarantined` holds the new
/// path of the corrupt file.
///
/// # Errors
/// Every error except corruption: permissions, a file of another program, a newer format, a full disk.
pub(super) fn open_or_replace(path: &Path, format: &Format) -> Result<Database> {
    let (mut database, set_aside) = replace_if_corrupt(path, || Database::open(path, format))?;
    database.quarantined = set_aside;
    Ok(database)
}

/// As [`open_or_replace`], with a custom `open`. Also returns the new path of the corrupt file, if there was one.
pub(super) fn replace_if_corrupt<T>(path: &Path, open: impl Fn() -> Result<T>) -> Result<(T, Option<PathBuf>)> {
    match open() {
        Err(error) if error.code == ErrorCode::DataLoss => {
            let aside = quarantine(path)?;
            tracing::warn!("{error}; it was renamed to `{}` and replaced by a new one", aside.display());
            Ok((open()?, Some(aside)))
        }
        opened => Ok((opened?, None)),
    }
}

/// Renames a file and the files that SQLite keeps beside it to the first free name of `<path>.damaged`, `<path>.damaged-2`
/// and so on; returns that path.
pub(super) fn quarantine(path: &Path) -> Result<PathBuf> {
    let named = |number: u32| match number {
        1 => append_suffix(path, ".damaged"),
        more => append_suffix(path, &format!(".damaged-{more}")),
    };
    let aside = (1..).map(named).find(|it| it.symlink_metadata().is_err()).unwrap_or_else(|| named(0));
    // The main file is renamed last: if vic ends before, the next start finds the corrupt file and repeats the renaming.
    for suffix in SQLITE_SUFFIXES.into_iter().chain([""]) {
        let from = append_suffix(path, suffix);
        match std::fs::rename(&from, append_suffix(&aside, suffix)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).io_context("rename", &from);
            }
            _ => {}
        }
    }
    if let Some(dir) = path.parent() {
        File::open(dir).and_then(|it| it.sync_all()).io_context("sync", dir)?;
    }
    Ok(aside)
}

/// Renames a corrupt database to `<path>.damaged`; the next open creates a new one.
///
/// # Errors
/// When the file cannot be renamed.
pub fn quarantine_database(path: &Path) -> Result<()> {
    quarantine(path).map(drop)
}

fn append_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarantine_keeps_wal_and_never_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sqlite");
        for content in ["first", "second"] {
            std::fs::write(&path, content).unwrap();
            std::fs::write(append_suffix(&path, "-wal"), format!("{content} wal")).unwrap();
            quarantine(&path).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((read("c.sqlite.damaged"), read("c.sqlite.damaged-wal")), ("first".into(), "first wal".into()));
        assert_eq!(
            (read("c.sqlite.damaged-2"), read("c.sqlite.damaged-2-wal")),
            ("second".into(), "second wal".into())
        );
        assert_eq!(dir.path().read_dir().unwrap().count(), 4);
    }
}
