//! Recovery of a corrupt catalog, which is replaced by an empty one. A walk can find the files again, but not which
//! folders are roots; the paths of the roots are therefore also kept in a text file, `roots.txt`, one per line.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use rusqlite::{Connection, OpenFlags};

use crate::catalog::files::roots;
use crate::catalog::files::row::{path_bytes, path_from_bytes};
use crate::catalog::{Catalog, quarantine};
use crate::error::{IoContext, Result};
use crate::model::Root;

/// Characters escaped in `roots.txt`: control characters and `%`, so that each path is one line of readable text.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// What happened to a corrupt catalog that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The new path of the corrupt catalog.
    pub set_aside: PathBuf,
    /// The roots that were restored in the new catalog.
    pub roots: Vec<PathBuf>,
}

impl Catalog {
    /// Opens the catalog as [`Catalog::open`] does; a corrupt one is renamed and replaced by a new one with the same
    /// roots.
    ///
    /// # Errors
    /// As [`Catalog::open`], except for corruption.
    pub fn open_or_recover(path: &Path) -> Result<(Catalog, Option<Recovery>)> {
        let list = root_list_path(path);
        let (catalog, set_aside) = quarantine::replace_if_corrupt(path, || {
            let catalog = Catalog::open(path)?;
            catalog.check()?;
            Ok(catalog)
        })?;
        let listed = read_root_list(&list)?;
        let roots = match (listed, &set_aside) {
            (Some(roots), _) if !roots.is_empty() => roots,
            // An empty list is not trusted, because it may have been truncated: the roots are read from the corrupt
            // catalog.
            (_, Some(damaged)) => salvage_roots(damaged),
            (_, None) => Vec::new(),
        };
        catalog.add_lost_roots(&roots, set_aside.is_some())?;
        catalog.write_root_list()?;
        Ok((catalog, set_aside.map(|set_aside| Recovery { set_aside, roots })))
    }

    /// Adds the roots that are in `roots` but not in the catalog. Even an intact catalog lacks a root if the end of its
    /// write-ahead log was lost.
    fn add_lost_roots(&self, roots: &[PathBuf], is_new: bool) -> Result<()> {
        let known = self.named_roots()?;
        let lost: Vec<&PathBuf> = roots.iter().filter(|it| !known.iter().any(|root| root.path == **it)).collect();
        for root in lost.iter().filter(|_| !is_new) {
            tracing::warn!("restored the lost root `{}`; its files are read again", root.display());
        }
        self.database.write(|db| {
            lost.iter().try_for_each(|root| roots::add_root(db, root).map(drop))?;
            Ok(())
        })
    }

    /// Writes the paths of all roots to `roots.txt` beside the catalog, unless the file is up to date.
    pub(super) fn write_root_list(&self) -> Result<()> {
        self.write_root_list_of(&self.named_roots()?)
    }

    /// Writes the paths of `roots` to `roots.txt` beside the catalog, unless the file is up to date.
    pub(super) fn write_root_list_of(&self, roots: &[Root]) -> Result<()> {
        let line = |root: &Root| format!("{}\n", percent_encode(path_bytes(&root.path), ESCAPED));
        let text: String = roots.iter().map(line).collect();
        let path = root_list_path(&self.path);
        if std::fs::read_to_string(&path).is_ok_and(|it| it == text) {
            return Ok(());
        }
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(dir).io_context("create a file in", dir)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).io_context("write", &path)?;
        file.persist(&path).map_err(|error| error.error).io_context("write", &path)?;
        std::fs::File::open(dir).and_then(|it| it.sync_all()).io_context("sync", dir)
    }
}

/// Returns the path of `roots.txt` beside the catalog.
fn root_list_path(catalog: &Path) -> PathBuf {
    catalog.with_file_name("roots.txt")
}

/// Returns how many roots `roots.txt` beside a catalog lists; 0 when it cannot be read.
pub(crate) fn listed_root_count(catalog: &Path) -> usize {
    std::fs::read_to_string(root_list_path(catalog)).map_or(0, |it| it.lines().filter(|it| !it.is_empty()).count())
}

fn read_root_list(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // An unreadable `roots.txt` is renamed and ignored: it is only a backup of the roots in the catalog.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            let aside = quarantine::quarantine(path)?;
            tracing::warn!("`{}` is not UTF-8 and was renamed to `{}`", path.display(), aside.display());
            return Ok(None);
        }
        Err(error) => return Err(error).io_context("read", path),
    };
    let decode = |line: &str| {
        let bytes: Vec<u8> = percent_decode_str(line).collect();
        PathBuf::from(OsStr::from_bytes(&bytes))
    };
    Ok(Some(text.lines().filter(|it| it.starts_with('/')).map(decode).collect()))
}

/// Returns the roots that can still be read from a corrupt catalog.
fn salvage_roots(damaged: &Path) -> Vec<PathBuf> {
    let read = || -> rusqlite::Result<Vec<PathBuf>> {
        let db = Connection::open_with_flags(damaged, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut statement = db.prepare("SELECT path FROM roots")?;
        let roots = statement.query_map([], |row| Ok(path_from_bytes(row.get(0)?)))?;
        roots.collect()
    };
    read().unwrap_or_else(|error| {
        tracing::warn!("cannot read the roots from the damaged catalog `{}`: {error}", damaged.display());
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case B6
    #[test]
    fn corrupt_catalog_is_kept_and_roots_are_restored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.sqlite");
        let names: [&[u8]; 3] = [b"plain", b"caf\xe9", b"with\na line and 100%"];
        let roots: Vec<PathBuf> = names.iter().map(|it| dir.path().join(OsStr::from_bytes(it))).collect();
        {
            let (catalog, rescue) = Catalog::open_or_recover(&path).unwrap();
            assert_eq!(rescue, None);
            for root in &roots {
                std::fs::create_dir(root).unwrap();
                catalog.add_root(root).unwrap();
            }
        }
        // Deletes the write-ahead log, from which SQLite would repair the damage.
        std::fs::remove_file(path.with_extension("sqlite-wal")).ok();
        let garbage = b"garbage ".repeat(4_000);
        std::fs::write(&path, &garbage).unwrap();
        let (catalog, rescue) = Catalog::open_or_recover(&path).unwrap();
        let rescue = rescue.unwrap();
        assert_eq!(rescue.roots, roots);
        assert_eq!(catalog.roots().unwrap().into_iter().map(|it| it.path).collect::<Vec<_>>(), roots);
        assert_eq!(std::fs::read(rescue.set_aside).unwrap(), garbage);
    }

    #[test]
    fn root_lost_with_wal_is_restored_from_list() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.sqlite");
        let [kept, lost] = ["kept", "lost"].map(|it| dir.path().join(it));
        let (catalog, _) = Catalog::open_or_recover(&path).unwrap();
        for root in [&kept, &lost] {
            std::fs::create_dir(root).unwrap();
            catalog.add_root(root).unwrap();
        }
        catalog.database.write(|db| Ok(db.execute("DELETE FROM roots WHERE id = 2", []).map(drop)?)).unwrap();
        drop(catalog);
        let (catalog, rescue) = Catalog::open_or_recover(&path).unwrap();
        assert_eq!(rescue, None);
        assert_eq!(catalog.roots().unwrap().into_iter().map(|it| it.path).collect::<Vec<_>>(), [kept, lost]);
    }

    // Case B8
    #[test]
    fn failed_root_removal_keeps_root_until_list_is_writable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.sqlite");
        let [kept, removed] = ["kept", "removed"].map(|it| dir.path().join(it));
        let (catalog, _) = Catalog::open_or_recover(&path).unwrap();
        for root in [&kept, &removed] {
            std::fs::create_dir(root).unwrap();
            catalog.add_root(root).unwrap();
        }
        let paths = |it: &Catalog| it.roots().unwrap().into_iter().map(|it| it.path).collect::<Vec<_>>();
        // Makes writing the list fail: a file cannot be renamed over a folder.
        std::fs::remove_file(root_list_path(&path)).unwrap();
        std::fs::create_dir(root_list_path(&path)).unwrap();
        catalog.remove_root(2).unwrap_err();
        assert_eq!(paths(&catalog), [kept.clone(), removed.clone()]);
        std::fs::remove_dir(root_list_path(&path)).unwrap();
        catalog.remove_root(2).unwrap();
        assert_eq!(paths(&catalog), std::slice::from_ref(&kept));
        drop(catalog);
        assert_eq!(paths(&Catalog::open_or_recover(&path).unwrap().0), [kept]);
    }

    #[test]
    fn unreadable_root_list_falls_back_to_catalog() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.sqlite");
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        Catalog::open_or_recover(&path).unwrap().0.add_root(&root).unwrap();
        let listed = std::fs::read(root_list_path(&path)).unwrap();
        for garbage in [&b"\xff\xfe/garbage"[..], b"", b"no path"] {
            std::fs::write(root_list_path(&path), garbage).unwrap();
            let (catalog, _) = Catalog::open_or_recover(&path).unwrap();
            let roots: Vec<_> = catalog.roots().unwrap().into_iter().map(|it| it.path).collect();
            assert_eq!(roots, std::slice::from_ref(&root));
            assert_eq!(std::fs::read(root_list_path(&path)).unwrap(), listed);
        }
        assert_eq!(std::fs::read(dir.path().join("roots.txt.damaged")).unwrap(), b"\xff\xfe/garbage");
    }

    #[test]
    fn corrupt_page_is_detected_and_roots_are_salvaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalog.sqlite");
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        Catalog::open(&path).unwrap().add_root(&root).unwrap();
        // Empties `roots.txt`, to imitate a truncated file.
        std::fs::write(root_list_path(&path), "").unwrap();
        let db = Connection::open(&path).unwrap();
        let page: i64 =
            db.query_row("SELECT rootpage FROM sqlite_master WHERE name = 'files'", [], |it| it.get(0)).unwrap();
        db.pragma_update(None, "wal_checkpoint", "TRUNCATE").ok();
        let size: i64 = db.pragma_query_value(None, "page_size", |it| it.get(0)).unwrap();
        drop(db);
        let mut content = std::fs::read(&path).unwrap();
        let start = ((page - 1) * size) as usize;
        content[start..start + size as usize].fill(0xa5);
        std::fs::write(&path, content).unwrap();
        let (_, rescue) = Catalog::open_or_recover(&path).unwrap();
        assert_eq!(rescue.unwrap().roots, [root]);
    }
}
