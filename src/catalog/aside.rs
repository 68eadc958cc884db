//! Damaged files under other names: put aside, never deleted, never written over.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::catalog::database::{Database, Format};
use crate::error::{ErrorCode, IoContext, Result};

/// What SQLite keeps beside a database.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Opens a database; a damaged one is put aside and begun anew, which the new one knows.
///
/// # Errors
/// Whatever is no damage: permissions, another program's file, a newer format, a full disk.
pub(super) fn open_or_begin_anew(path: &Path, format: &Format) -> Result<Database> {
    let (mut database, set_aside) = begin_anew_if_damaged(path, || Database::open(path, format))?;
    database.set_aside = set_aside;
    Ok(database)
}

/// As [`open_or_begin_anew`], for whoever does more to open it. Also returns the new name of the damaged one.
pub(super) fn begin_anew_if_damaged<T>(path: &Path, open: impl Fn() -> Result<T>) -> Result<(T, Option<PathBuf>)> {
    match open() {
        Err(error) if error.code == ErrorCode::DataLoss => {
            let aside = put_aside(path)?;
            tracing::warn!("{error}; it is kept as `{}` and begun anew", aside.display());
            Ok((open()?, Some(aside)))
        }
        opened => Ok((opened?, None)),
    }
}

/// Renames a file, with what SQLite keeps beside it if it is a database, to the first of `<path>.damaged`, `<path>.damaged-2` and so on
/// that is free; returns that name.
pub(super) fn put_aside(path: &Path) -> Result<PathBuf> {
    let named = |number: u32| match number {
        1 => with(path, ".damaged"),
        more => with(path, &format!(".damaged-{more}")),
    };
    let aside = (1..).map(named).find(|it| it.symlink_metadata().is_err()).unwrap_or_else(|| named(0));
    // The main file last: as long as it has its name, the next start does this again.
    for suffix in BESIDE.into_iter().chain([""]) {
        let from = with(path, suffix);
        match std::fs::rename(&from, with(&aside, suffix)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).at("put aside", &from),
            _ => {}
        }
    }
    if let Some(dir) = path.parent() {
        File::open(dir).and_then(|it| it.sync_all()).at("sync", dir)?;
    }
    Ok(aside)
}

/// Renames a damaged database, with what SQLite keeps beside it, to a name that is free; whoever opens it next begins anew.
///
/// # Errors
/// It cannot be renamed.
pub fn put_database_aside(path: &Path) -> Result<()> {
    put_aside(path).map(drop)
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_over_and_what_belongs_together_stays_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sqlite");
        for content in ["first", "second"] {
            std::fs::write(&path, content).unwrap();
            std::fs::write(with(&path, "-wal"), format!("{content} wal")).unwrap();
            put_aside(&path).unwrap();
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
