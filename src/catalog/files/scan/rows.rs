//! Changes of single file rows after a walk or a watcher event.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Row, Transaction, params};

use crate::catalog::database::DbError;
use crate::catalog::files::name_index;
use crate::catalog::files::row::{
    UNKNOWN_CHANGED_NS, extension, now_ns, path_bytes, path_from_bytes, range_below, read_reason, search_name, signed,
};
use crate::catalog::files::scan::walk_result::ScanOutcome;
use crate::model::{FileId, FileKind, FoundFile, Reason, RootId};

/// The columns of a file row that decide whether the file changed.
pub(super) struct KnownFile {
    pub(super) id: FileId,
    pub(super) path: PathBuf,
    pub(super) size: i64,
    pub(super) modified_ns: i64,
    pub(super) changed_ns: i64,
    pub(super) inode: i64,
    pub(super) device: i64,
    mode: u32,
    uid: u32,
    pub(super) skip: Option<Reason>,
    pub(super) chunks: u32,
    pub(super) is_indexed: bool,
    created_ns: Option<i64>,
}

const KNOWN_COLUMNS: &str = "f.id, f.path, f.size, f.modified_ns, f.changed_ns, f.inode, f.device, f.mode, f.uid, f.skip, \
                     f.chunks, f.state = 'indexed', f.created_ns";

impl KnownFile {
    fn read(row: &Row<'_>) -> rusqlite::Result<KnownFile> {
        Ok(KnownFile {
            id: row.get(0)?,
            path: path_from_bytes(row.get(1)?),
            size: row.get(2)?,
            modified_ns: row.get(3)?,
            changed_ns: row.get(4)?,
            inode: row.get(5)?,
            device: row.get(6)?,
            mode: row.get(7)?,
            uid: row.get(8)?,
            skip: read_reason(row, 9)?,
            chunks: row.get(10)?,
            is_indexed: row.get(11)?,
            created_ns: row.get(12)?,
        })
    }

    /// Returns whether this row has more indexed text to lose than the row that would replace it. The chunks of a pending
    /// file count too, because searches still find its old text.
    pub(super) fn has_more_text_than(&self, other: &KnownFile) -> bool {
        self.is_indexed || (self.chunks > 0 && other.is_without_text())
    }

    /// Returns whether no text of the file was ever indexed.
    pub(super) fn is_without_text(&self) -> bool {
        !self.is_indexed && self.chunks == 0
    }

    /// Returns whether the row already matches the entry, so that nothing has to be written.
    pub(super) fn is_unchanged(&self, found: &FoundFile) -> bool {
        self.change(found) == Change::Nothing && self.device == signed(found.device)
    }

    /// Returns whether only the device number differs, as after some restarts.
    pub(super) fn is_device_renumbered(&self, found: &FoundFile) -> bool {
        self.change(found) == Change::Nothing && self.device != signed(found.device)
    }

    fn change(&self, found: &FoundFile) -> Change {
        // Ignores the device number: it can differ after every mount.
        let same = self.size == signed(found.size)
            && self.modified_ns == found.modified_ns
            && self.inode == signed(found.inode)
            && self.skip == found.skip;
        if !same {
            Change::Content
        } else if self.changed_ns == found.changed_ns {
            Change::Nothing
        } else if (self.changed_ns == UNKNOWN_CHANGED_NS && self.has_same_permissions(found)) || found.skip.is_some() {
            Change::Metadata
        } else {
            Change::Content
        }
    }

    /// Returns whether owner and mode are the same, so that the same users can read the file.
    fn has_same_permissions(&self, found: &FoundFile) -> bool {
        self.mode == found.mode && self.uid == found.uid
    }

    /// Returns whether an entry is this file under another name. Also compares the creation time, because inode numbers
    /// are reused and unpacked files have the modification times of their archive.
    pub(super) fn is_moved_to(&self, found: &FoundFile) -> bool {
        let is_born_later = self.created_ns.zip(found.created_ns).is_some_and(|(one, other)| one != other);
        !is_born_later
            && self.inode == signed(found.inode)
            && self.device == signed(found.device)
            && self.size == signed(found.size)
            && self.modified_ns == found.modified_ns
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    /// Metadata such as permissions or owner; the file is not read again.
    Metadata,
    /// Possibly the content; the file is read again.
    Content,
}

/// Loads the row at a path and all rows below it, keyed by path.
pub(super) fn load_below(
    db: &Transaction<'_>,
    root_id: RootId,
    path: &Path,
) -> rusqlite::Result<HashMap<Vec<u8>, KnownFile>> {
    let mut known = HashMap::new();
    for_each_below(db, root_id, path, |row| {
        known.insert(path_bytes(&row.path).to_vec(), row);
    })?;
    Ok(known)
}

/// Passes the row at a path and all rows below it to `each`, in byte order of their paths.
pub(super) fn for_each_below(
    db: &Transaction<'_>,
    root_id: RootId,
    path: &Path,
    mut each: impl FnMut(KnownFile),
) -> rusqlite::Result<()> {
    let itself = (!path.as_os_str().is_empty()).then(|| (path_bytes(path).to_vec(), [path_bytes(path), &[0]].concat()));
    // Queries two ranges of paths one after the other, each in index order; joined by OR, SQLite would sort all rows.
    let mut statement = db.prepare_cached(&format!(
        "SELECT {KNOWN_COLUMNS} FROM files f WHERE f.deleted_ns IS NULL AND f.root_id = ?1 AND f.path >= ?2 AND f.path < ?3 \
         ORDER BY f.path"
    ))?;
    for (start, end) in itself.into_iter().chain([range_below(path)]) {
        let mut rows = statement.query(params![root_id, start, end])?;
        while let Some(row) = rows.next()? {
            each(KnownFile::read(row)?);
        }
    }
    Ok(())
}

pub(super) fn update_row(
    db: &Transaction<'_>,
    row: &KnownFile,
    file: &FoundFile,
    outcome: &mut ScanOutcome,
) -> Result<(), DbError> {
    match row.change(file) {
        // Writes the row of an unchanged file too: its device number may have changed with a mount, and must be current to
        // detect an unmounted file system.
        Change::Nothing | Change::Metadata => {
            write_found(db, row.id, file)?;
            outcome.unchanged += 1;
        }
        Change::Content => {
            reset_to_pending(db, row, file)?;
            outcome.changed += 1;
        }
    }
    Ok(())
}

/// Moves a row to its new path. The content is read again only if the skip reason, the extension or the permissions
/// changed, and not because of the status-change time, which every move changes.
pub(super) fn move_row(
    db: &Transaction<'_>,
    row: &KnownFile,
    root_id: RootId,
    file: &FoundFile,
    outcome: &mut ScanOutcome,
) -> Result<(), DbError> {
    db.prepare_cached("UPDATE files SET root_id = ?2 WHERE id = ?1")?.execute([row.id, root_id])?;
    rename_row(db, row, &file.path)?;
    if row.skip == file.skip && row.has_same_permissions(file) {
        write_found(db, row.id, file)?;
    } else {
        reset_to_pending(db, row, file)?;
    }
    outcome.renamed += 1;
    Ok(())
}

pub(super) fn rename_row(db: &Transaction<'_>, row: &KnownFile, path: &Path) -> rusqlite::Result<()> {
    let ending = extension(path);
    let is_other_type = ending != extension(&row.path);
    db.prepare_cached("UPDATE files SET path = ?2, name = ?3, extension = ?4, changed_ns = ?5 WHERE id = ?1")?
        .execute(params![row.id, path_bytes(path), search_name(path), ending, UNKNOWN_CHANGED_NS])?;
    name_index::update_names(db, row.id)?;
    // Retries a file that failed with an I/O error: it may have been read at the old path just after the move.
    db.prepare_cached(
        "UPDATE files SET state = 'pending', reason = NULL, detail = '', tries = 0 \
         WHERE id = ?1 AND state = 'failed' AND reason = ?2",
    )?
    .execute(params![row.id, Reason::Io.name()])?;
    if is_other_type && row.skip.is_none() {
        let kind = FileKind::from_extension(&ending).name();
        db.prepare_cached(
            "UPDATE files SET kind = ?2, state = 'pending', reason = NULL, detail = '', tries = 0, strikes = 0, \
             read_hash = coalesce(hash, read_hash), hash = NULL WHERE id = ?1",
        )?
        .execute(params![row.id, kind])?;
    }
    Ok(())
}

/// Makes a file pending, or skipped if the walk gives a reason.
fn reset_to_pending(db: &Transaction<'_>, row: &KnownFile, file: &FoundFile) -> Result<(), DbError> {
    if file.skip.is_some() && (row.skip.is_none() || row.chunks > 0) {
        // Replaces the row by a tombstone and a new row, so that the store deletes the chunks of the file. The store may
        // hold chunks that the row does not count, if vic was killed before it marked them.
        mark_deleted(db, row.id)?;
        let root_id = db.query_row("SELECT root_id FROM files WHERE id = ?1", [row.id], |row| row.get(0))?;
        return Ok(insert_row(db, root_id, file, &mut ScanOutcome::default())?);
    }
    write_found(db, row.id, file)?;
    let (state, reason) = initial_state(file);
    db.prepare_cached("UPDATE files SET state = ?2, reason = ?3, detail = '', tries = 0, strikes = 0 WHERE id = ?1")?
        .execute(params![row.id, state, reason])?;
    Ok(())
}

fn write_found(db: &Transaction<'_>, id: FileId, file: &FoundFile) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE files SET size = ?2, modified_ns = ?3, changed_ns = ?4, created_ns = ?5, inode = ?6, device = ?7, \
         mode = ?8, uid = ?9, skip = ?10 WHERE id = ?1",
    )?
    .execute(params![
        id,
        signed(file.size),
        file.modified_ns,
        file.changed_ns,
        file.created_ns,
        signed(file.inode),
        signed(file.device),
        file.mode,
        file.uid,
        file.skip.map(Reason::name),
    ])?;
    Ok(())
}

pub(super) fn insert_row(
    db: &Transaction<'_>,
    root_id: RootId,
    file: &FoundFile,
    outcome: &mut ScanOutcome,
) -> rusqlite::Result<()> {
    let (state, reason) = initial_state(file);
    let ending = extension(&file.path);
    // Ignores a second entry with the same path.
    let inserted = db
        .prepare_cached(
            "INSERT OR IGNORE INTO files (root_id, path, name, extension, size, modified_ns, changed_ns, created_ns, \
             inode, device, mode, uid, skip, state, reason, kind) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?
        .execute(params![
            root_id,
            path_bytes(&file.path),
            search_name(&file.path),
            ending,
            signed(file.size),
            file.modified_ns,
            file.changed_ns,
            file.created_ns,
            signed(file.inode),
            signed(file.device),
            file.mode,
            file.uid,
            file.skip.map(Reason::name),
            state,
            reason,
            FileKind::from_extension(&ending).name(),
        ])?;
    if inserted > 0 {
        name_index::add_names(db, db.last_insert_rowid(), path_bytes(&file.path))?;
    }
    outcome.added += inserted as u64;
    Ok(())
}

/// Returns state and reason of a file that was not read yet.
fn initial_state(file: &FoundFile) -> (&'static str, Option<&'static str>) {
    match file.skip {
        Some(reason) => ("skipped", Some(reason.name())),
        None => ("pending", None),
    }
}

pub(super) fn mark_deleted(db: &Transaction<'_>, id: FileId) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE files SET deleted_ns = ?2 WHERE id = ?1")?.execute([id, now_ns()])?;
    name_index::remove_names(db, id)
}
