//! The root folders.

use std::path::Path;

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::catalog::database::Failed;
use crate::catalog::row::{bytes, now_ns, path_of};
use crate::catalog::scan::set_state;
use crate::catalog::{Catalog, names};
use crate::error::{Error, IoContext, Result};
use crate::model::{FileId, Root, RootId};

/// The hint for a root that cannot be read.
pub const ROOT_CURE: &str =
    "mount it or let vic read it, or `vic roots remove` it; nothing of it is deleted from the index";

impl Catalog {
    /// Makes a folder a root. Returns the root that owns its files: itself, or the outermost root above it. Roots below it
    /// stay named roots; it owns their files until it is removed.
    ///
    /// # Errors
    /// When the path does not exist or is no folder.
    pub fn add_root(&self, path: &Path) -> Result<Root> {
        let path = path.canonicalize().at("find", path)?;
        if !path.is_dir() {
            return Err(Error::invalid(format!("`{}` is not a folder", path.display())));
        }
        self.database.write(|db| Ok(add(db, &path)?)).and_then(|root| self.keep_list_of_roots().map(|()| root))
    }

    /// Removes a root. Its files become tombstones, which are returned, except those that another root covers: one above
    /// it, or named roots below it, which own their files from then on.
    ///
    /// # Errors
    /// When the list of roots or the catalog cannot be written; the root stays then.
    pub fn remove_root(&self, id: RootId) -> Result<Vec<FileId>> {
        // The list is written first. The next start adds to the list what is missing there; but a root that is only in the
        // list would count as lost, and be added again.
        let left: Vec<Root> = self.named_roots()?.into_iter().filter(|it| it.id != id).collect();
        self.write_list_of_roots(&left)?;
        let removed = self.database.write(|db| {
            release(db, id)?;
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
        // The removal may have failed, or another root may have been added. If this write fails, the next start repairs it.
        self.keep_list_of_roots().ok();
        removed
    }

    /// Returns the roots that own files, by number. None lies in another.
    pub fn roots(&self) -> Result<Vec<Root>> {
        self.database.read(|db| Ok(roots(db)?))
    }

    /// Returns every folder that was added as a root and not removed, by number. A root inside another takes its
    /// availability from that one.
    pub fn named_roots(&self) -> Result<Vec<Root>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached(
                "SELECT n.id, n.path, r.available, r.problem FROM roots n JOIN roots r ON r.id = coalesce(n.above, n.id) \
                 ORDER BY n.id",
            )?;
            Ok(statement.query_map([], root)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Records why a root cannot be read, with the hint; the next walk that can read it clears that.
    pub fn note_away(&self, id: RootId, why: &str) -> Result<()> {
        self.database.write(|db| Ok(set_state(db, id, false, &format!("{why}; {ROOT_CURE}"))?))
    }
}

/// Returns the roots that own files, by number.
pub(super) fn roots(db: &Transaction<'_>) -> rusqlite::Result<Vec<Root>> {
    let mut statement =
        db.prepare_cached("SELECT id, path, available, problem FROM roots WHERE above IS NULL ORDER BY id")?;
    statement.query_map([], root)?.collect()
}

/// Returns one root.
///
/// # Errors
/// [`crate::error::ErrorCode::NotFound`] when it was removed, or another root owns its files by now.
pub(super) fn root_by_id(db: &Transaction<'_>, id: RootId) -> Result<Root, Failed> {
    let mut statement =
        db.prepare_cached("SELECT id, path, available, problem FROM roots WHERE id = ?1 AND above IS NULL")?;
    let found = statement.query_row([id], root).optional()?;
    found.ok_or_else(|| Error::not_found(format!("there is no root with the number `{id}`")).into())
}

fn root(row: &Row<'_>) -> rusqlite::Result<Root> {
    Ok(Root { id: row.get(0)?, path: path_of(row.get(1)?), available: row.get(2)?, problem: row.get(3)? })
}

/// As [`Catalog::add_root`], for an absolute path without links.
pub(super) fn add(db: &Transaction<'_>, path: &Path) -> rusqlite::Result<Root> {
    let roots = roots(db)?;
    if let Some(above) = roots.iter().find(|it| path.starts_with(&it.path)) {
        if above.path != path {
            db.execute("INSERT OR IGNORE INTO roots (path, above) VALUES (?1, ?2)", params![bytes(path), above.id])?;
        }
        return Ok(above.clone());
    }
    db.execute("INSERT INTO roots (path) VALUES (?1)", [bytes(path)])?;
    let id = db.last_insert_rowid();
    for below in roots.iter().filter(|it| it.path.starts_with(path)) {
        adopt(db, below, id, path)?;
    }
    Ok(Root { id, path: path.to_path_buf(), available: true, problem: String::new() })
}

/// Moves the files of a root into the new root above it; they keep their ids.
fn adopt(db: &Transaction<'_>, below: &Root, id: RootId, path: &Path) -> rusqlite::Result<()> {
    let moved = live_files(db, below.id)?;
    db.execute(
        "UPDATE files SET root_id = ?1, path = CAST(?2 || path AS BLOB) WHERE root_id = ?3",
        params![id, prefix(path, &below.path), below.id],
    )?;
    db.execute("UPDATE roots SET above = ?1 WHERE id = ?2 OR above = ?2", [id, below.id])?;
    names::renew_all(db, &moved)
}

/// Gives the named roots inside a root that is about to be removed their files back, under the same ids.
fn release(db: &Transaction<'_>, id: RootId) -> rusqlite::Result<()> {
    let all = |sql: &str| -> rusqlite::Result<Vec<Root>> { db.prepare(sql)?.query_map([id], root)?.collect() };
    let Some(above) = all("SELECT id, path, available, problem FROM roots WHERE id = ?1")?.pop() else { return Ok(()) };
    // Sorted by path, so that an inner root follows the one around it.
    let mut inner = all("SELECT id, path, available, problem FROM roots WHERE above = ?1")?;
    inner.sort_by(|a, b| a.path.cmp(&b.path));
    let mut outermost: Vec<Root> = Vec::new();
    for root in inner {
        if let Some(outer) = outermost.iter().find(|it| root.path.starts_with(&it.path)) {
            db.execute("UPDATE roots SET above = ?1 WHERE id = ?2", [outer.id, root.id])?;
            continue;
        }
        let prefix = prefix(&above.path, &root.path);
        db.execute(
            "UPDATE files SET root_id = ?1, path = substr(path, ?2 + 1) WHERE root_id = ?3 AND substr(path, 1, ?2) = ?4",
            params![root.id, prefix.len() as i64, above.id, prefix],
        )?;
        db.execute(
            "UPDATE roots SET above = NULL, available = ?2, problem = ?3 WHERE id = ?1",
            params![root.id, above.available, above.problem],
        )?;
        names::renew_all(db, &live_files(db, root.id)?)?;
        outermost.push(root);
    }
    Ok(())
}

fn live_files(db: &Transaction<'_>, root: RootId) -> rusqlite::Result<Vec<FileId>> {
    let mut statement =
        db.prepare_cached("SELECT id FROM files WHERE root_id = ?1 AND deleted_ns IS NULL ORDER BY id")?;
    statement.query_map([root], |row| row.get(0))?.collect()
}

/// Returns the prefix that the paths of an inner root have in the outer root.
fn prefix(above: &Path, below: &Path) -> Vec<u8> {
    [bytes(below.strip_prefix(above).unwrap_or(below)), b"/"].concat()
}
