//! Root folders: adding, removing and nesting of roots.

use std::path::Path;

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::catalog::Catalog;
use crate::catalog::database::DbError;
use crate::catalog::files::name_index;
use crate::catalog::files::row::{now_ns, path_bytes, path_from_bytes};
use crate::error::{Error, IoContext, Result};
use crate::model::{FileId, Root, RootId};

/// Hint of the error about a root that cannot be read.
pub const ROOT_HINT: &str = "mount the folder or give vic permission to read it; its files stay in the index unless you \
     remove the root with `vic roots remove`";

impl Catalog {
    /// Makes a folder a root. Returns the root that owns its files: the new root, or the outermost root that contains it.
    /// Roots inside a new root stay in the list of roots, but the new root owns their files until the new root is removed.
    ///
    /// # Errors
    /// When the path does not exist or is not a folder.
    pub fn add_root(&self, path: &Path) -> Result<Root> {
        let path = path.canonicalize().io_context("find", path)?;
        if !path.is_dir() {
            return Err(Error::invalid(format!("`{}` is not a folder", path.display())));
        }
        self.database.write(|db| Ok(add_root(db, &path)?)).and_then(|root| self.write_root_list().map(|()| root))
    }

    /// Removes a root. Its files become tombstones and their ids are returned, except the files that another root covers:
    /// an outer root, or nested roots, which own their files from then on.
    ///
    /// # Errors
    /// When the list of roots or the catalog cannot be written; the root is kept then.
    pub fn remove_root(&self, id: RootId) -> Result<Vec<FileId>> {
        // Writes `roots.txt` before the catalog changes. A root that is only in `roots.txt` counts as lost at the next
        // startup and would be added to the catalog again; a root that is only in the catalog is just added to
        // `roots.txt`.
        let left: Vec<Root> = self.named_roots()?.into_iter().filter(|it| it.id != id).collect();
        self.write_root_list_of(&left)?;
        let removed = self.database.write(|db| {
            release_files(db, id)?;
            let names = "DELETE FROM names WHERE rowid IN \
                         (SELECT id FROM files WHERE root_id = ?1 AND deleted_ns IS NULL)";
            db.execute(names, [id])?;
            let mut statement = db.prepare_cached(
                "UPDATE files SET deleted_ns = ?2, inner_names = NULL WHERE root_id = ?1 AND deleted_ns IS NULL \
                 RETURNING id",
            )?;
            let ids = statement.query_map([id, now_ns()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            db.execute("DELETE FROM roots WHERE id = ?1", [id])?;
            Ok(ids)
        });
        // Writes `roots.txt` again, because the removal may have failed or another root may have been added meanwhile.
        // An error is ignored, because the next start repairs the file.
        self.write_root_list().ok();
        removed
    }

    /// Returns the roots that own files, by id. None of them lies in another.
    pub fn roots(&self) -> Result<Vec<Root>> {
        self.database.read(|db| Ok(load_roots(db)?))
    }

    /// Returns every folder that was added as a root and not removed, by id. A nested root has the availability of the
    /// outer root that contains it.
    pub fn named_roots(&self) -> Result<Vec<Root>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached(
                "SELECT n.id, n.path, r.available, r.problem FROM roots n JOIN roots r ON r.id = coalesce(n.above, n.id) \
                 ORDER BY n.id",
            )?;
            Ok(statement.query_map([], read_root)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Records why a root cannot be read, with the hint; the next successful walk clears the problem.
    pub fn mark_unavailable(&self, id: RootId, why: &str) -> Result<()> {
        self.database.write(|db| Ok(set_root_state(db, id, false, &format!("{why}; {ROOT_HINT}"))?))
    }
}

/// Returns the roots that own files, by id.
pub(in crate::catalog) fn load_roots(db: &Transaction<'_>) -> rusqlite::Result<Vec<Root>> {
    let mut statement =
        db.prepare_cached("SELECT id, path, available, problem FROM roots WHERE above IS NULL ORDER BY id")?;
    statement.query_map([], read_root)?.collect()
}

/// Returns the root with this id.
///
/// # Errors
/// [`crate::error::ErrorCode::NotFound`] when the root was removed, or another root owns its files by now.
pub(in crate::catalog) fn root_by_id(db: &Transaction<'_>, id: RootId) -> Result<Root, DbError> {
    let mut statement =
        db.prepare_cached("SELECT id, path, available, problem FROM roots WHERE id = ?1 AND above IS NULL")?;
    let found = statement.query_row([id], read_root).optional()?;
    found.ok_or_else(|| Error::not_found(format!("there is no root with the id `{id}`")).into())
}

/// Records availability and problem of a root; writes only if they changed.
pub(in crate::catalog) fn set_root_state(
    db: &Transaction<'_>,
    root_id: RootId,
    available: bool,
    problem: &str,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE roots SET available = ?2, problem = ?3 WHERE id = ?1 AND (available <> ?2 OR problem <> ?3)",
    )?
    .execute(params![root_id, available, problem])?;
    Ok(())
}

fn read_root(row: &Row<'_>) -> rusqlite::Result<Root> {
    Ok(Root { id: row.get(0)?, path: path_from_bytes(row.get(1)?), available: row.get(2)?, problem: row.get(3)? })
}

/// As [`Catalog::add_root`], for an absolute path without symbolic links.
pub(in crate::catalog) fn add_root(db: &Transaction<'_>, path: &Path) -> rusqlite::Result<Root> {
    let roots = load_roots(db)?;
    if let Some(above) = roots.iter().find(|it| path.starts_with(&it.path)) {
        if above.path != path {
            db.execute(
                "INSERT OR IGNORE INTO roots (path, above) VALUES (?1, ?2)",
                params![path_bytes(path), above.id],
            )?;
        }
        return Ok(above.clone());
    }
    db.execute("INSERT INTO roots (path) VALUES (?1)", [path_bytes(path)])?;
    let id = db.last_insert_rowid();
    for below in roots.iter().filter(|it| it.path.starts_with(path)) {
        adopt_files(db, below, id, path)?;
    }
    Ok(Root { id, path: path.to_path_buf(), available: true, problem: String::new() })
}

/// Moves the files of a nested root into the new outer root; they keep their ids.
fn adopt_files(db: &Transaction<'_>, below: &Root, id: RootId, path: &Path) -> rusqlite::Result<()> {
    let moved = live_files(db, below.id)?;
    db.execute(
        "UPDATE files SET root_id = ?1, path = CAST(?2 || path AS BLOB) WHERE root_id = ?3",
        params![id, inner_prefix(path, &below.path), below.id],
    )?;
    db.execute("UPDATE roots SET above = ?1 WHERE id = ?2 OR above = ?2", [id, below.id])?;
    name_index::update_names_of(db, &moved)
}

/// Gives the files below each nested root back to that root, before the outer root `id` is removed; the files keep
/// their ids.
fn release_files(db: &Transaction<'_>, id: RootId) -> rusqlite::Result<()> {
    let all = |sql: &str| -> rusqlite::Result<Vec<Root>> { db.prepare(sql)?.query_map([id], read_root)?.collect() };
    let Some(above) = all("SELECT id, path, available, problem FROM roots WHERE id = ?1")?.pop() else { return Ok(()) };
    // Sorts by path, so that a nested root follows the root that contains it.
    let mut inner = all("SELECT id, path, available, problem FROM roots WHERE above = ?1")?;
    inner.sort_by(|a, b| a.path.cmp(&b.path));
    let mut outermost: Vec<Root> = Vec::new();
    for root in inner {
        if let Some(outer) = outermost.iter().find(|it| root.path.starts_with(&it.path)) {
            db.execute("UPDATE roots SET above = ?1 WHERE id = ?2", [outer.id, root.id])?;
            continue;
        }
        let prefix = inner_prefix(&above.path, &root.path);
        db.execute(
            "UPDATE files SET root_id = ?1, path = substr(path, ?2 + 1) WHERE root_id = ?3 AND substr(path, 1, ?2) = ?4",
            params![root.id, prefix.len() as i64, above.id, prefix],
        )?;
        db.execute(
            "UPDATE roots SET above = NULL, available = ?2, problem = ?3 WHERE id = ?1",
            params![root.id, above.available, above.problem],
        )?;
        name_index::update_names_of(db, &live_files(db, root.id)?)?;
        outermost.push(root);
    }
    Ok(())
}

fn live_files(db: &Transaction<'_>, root: RootId) -> rusqlite::Result<Vec<FileId>> {
    let mut statement =
        db.prepare_cached("SELECT id FROM files WHERE root_id = ?1 AND deleted_ns IS NULL ORDER BY id")?;
    statement.query_map([root], |row| row.get(0))?.collect()
}

/// Returns the prefix that the paths of a nested root have relative to the outer root.
fn inner_prefix(above: &Path, below: &Path) -> Vec<u8> {
    [path_bytes(below.strip_prefix(above).unwrap_or(below)), b"/"].concat()
}
