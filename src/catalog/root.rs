//! The root folders.

use std::path::Path;

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::catalog::Catalog;
use crate::catalog::database::Failed;
use crate::catalog::names;
use crate::catalog::row::{self, bytes, now_ns, path_of};
use crate::catalog::scan::set_state;
use crate::error::{Error, IoContext, Result};
use crate::model::{FileId, Root, RootId};

/// What is to be done about a root that cannot be read.
pub const ROOT_CURE: &str =
    "mount it or let vic read it, or `vic roots remove` it; nothing of it is deleted from the index";

impl Catalog {
    /// Makes a folder a root, and returns the root it lies in: itself, or the one above it when there is one. Roots
    /// below it become part of it with their files and what is known of them; their numbers are gone then.
    ///
    /// # Errors
    /// When the path does not exist or is no folder.
    pub fn add_root(&self, path: &Path) -> Result<Root> {
        let path = path.canonicalize().at("find", path)?;
        if !path.is_dir() {
            return Err(Error::invalid(format!("`{}` is not a folder", path.display())));
        }
        self.database
            .write(|db| {
                let roots = roots(db)?;
                if let Some(above) = roots.iter().find(|it| path.starts_with(&it.path)) {
                    return Ok(above.clone());
                }
                db.execute("INSERT INTO roots (path) VALUES (?1)", [bytes(&path)])?;
                let id = db.last_insert_rowid();
                for below in roots.iter().filter(|it| it.path.starts_with(&path)) {
                    adopt(db, below, id, &path)?;
                }
                Ok(Root { id, path: path.clone(), available: true, problem: String::new() })
            })
            .and_then(|root| self.keep_list_of_roots().map(|()| root))
    }

    /// Forgets a root; its files become tombstones, which are returned.
    ///
    /// # Errors
    /// The list of roots cannot be written, or the catalog: the root is one as before then.
    pub fn remove_root(&self, id: RootId) -> Result<Vec<FileId>> {
        // The list goes first. What is missing there and known here is written again at the next start; what stands there
        // and is not known here would be taken for lost, and be a root again.
        let left: Vec<Root> = self.roots()?.into_iter().filter(|it| it.id != id).collect();
        self.write_list_of_roots(&left)?;
        let removed = self.database.write(|db| {
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
        // It may not have gone, or another have come meanwhile. Where that fails, the next start makes up for it.
        self.keep_list_of_roots().ok();
        removed
    }

    /// Returns all roots, by number.
    pub fn roots(&self) -> Result<Vec<Root>> {
        self.database.read(|db| Ok(roots(db)?))
    }

    /// Records why a root cannot be read, with the cure; the next walk that can read it takes that back.
    pub fn note_away(&self, id: RootId, why: &str) -> Result<()> {
        self.database.write(|db| Ok(set_state(db, id, false, &format!("{why}; {ROOT_CURE}"))?))
    }
}

/// Returns all roots, by number.
pub(super) fn roots(db: &Transaction<'_>) -> rusqlite::Result<Vec<Root>> {
    let mut statement = db.prepare_cached("SELECT id, path, available, problem FROM roots ORDER BY id")?;
    statement.query_map([], root)?.collect()
}

/// Returns one root.
///
/// # Errors
/// [`crate::error::ErrorCode::NotFound`] when it was removed.
pub(super) fn root_by_id(db: &Transaction<'_>, id: RootId) -> Result<Root, Failed> {
    let mut statement = db.prepare_cached("SELECT id, path, available, problem FROM roots WHERE id = ?1")?;
    let found = statement.query_row([id], root).optional()?;
    found.ok_or_else(|| Error::not_found(format!("there is no root with the number `{id}`")).into())
}

fn root(row: &Row<'_>) -> rusqlite::Result<Root> {
    Ok(Root { id: row.get(0)?, path: path_of(row.get(1)?), available: row.get(2)?, problem: row.get(3)? })
}

/// Moves the files of a root into the new root above it, under the same numbers.
fn adopt(db: &Transaction<'_>, below: &Root, id: RootId, path: &Path) -> rusqlite::Result<()> {
    let relative = below.path.strip_prefix(path).unwrap_or(&below.path);
    let prefix = [bytes(relative), b"/"].concat();
    db.execute(
        "UPDATE files SET root_id = ?1, path = CAST(?2 || path AS BLOB) WHERE root_id = ?3",
        params![id, prefix, below.id],
    )?;
    db.execute("DELETE FROM roots WHERE id = ?1", [below.id])?;
    let mut statement =
        db.prepare("SELECT id FROM files WHERE root_id = ?1 AND deleted_ns IS NULL AND path >= ?2 AND path < ?3")?;
    let (start, end) = row::below(relative);
    let files =
        statement.query_map(params![id, start, end], |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    files.into_iter().try_for_each(|it| names::renew(db, it))
}
