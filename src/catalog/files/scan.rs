//! Updates the file rows of the catalog to match a walk or a watcher event.
//!
//! A file counts as unchanged if size, modification time, inode, status-change time and the skip reason of the walk are
//! the same. Any difference makes it pending; its hash later shows whether the content differs. A vanished row and a new
//! path with the same inode, size and modification time are one file that moved. All other vanished rows become
//! tombstones, but only in folders that the walk could list.

mod rows;
pub(in crate::catalog) mod walk_result;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Transaction, params};

use crate::catalog::Catalog;
use crate::catalog::database::DbError;
use crate::catalog::files::roots::{root_by_id, set_root_state};
use crate::catalog::files::row::{path_bytes, path_from_bytes, signed};
use crate::catalog::files::scan::rows::{
    KnownFile, for_each_below, insert_row, load_below, mark_deleted, move_row, rename_row, update_row,
};
use crate::catalog::files::scan::walk_result::{DeletionPolicy, ScanOutcome, ScanPass, WalkResult};
use crate::error::Result;
use crate::model::{ContentHash, FileId, FoundFile, RootId};

/// Problem of a root that was not empty before and is now: usually an unmounted volume.
const EMPTY_ROOT_PROBLEM: &str = "the folder is empty now, but was not before: nothing was removed from the index; mount the \
     volume, or run `vic index --accept-losses` with its path if its files are really gone";

/// Up to this many files may vanish from a root between two walks and are deleted from the catalog without
/// confirmation, even if the root had no others, so that a small folder can be tidied up. Ignored files do not count.
const MAX_UNCONFIRMED_LOSS: usize = 10;

impl Catalog {
    /// Applies a walk as [`Catalog::apply_walk`] does in a second scan, without ignored files.
    ///
    /// # Errors
    /// As [`Catalog::apply_walk`].
    pub fn apply_scan(
        &self,
        root: RootId,
        within: Option<&Path>,
        found: Vec<FoundFile>,
        unreadable: &[PathBuf],
        complete: bool,
        belief: DeletionPolicy<'_>,
    ) -> Result<ScanOutcome> {
        let walked = WalkResult { root, within, found, unreadable, complete, ignored: HashSet::new() };
        Ok(self.apply_walk(walked, belief, ScanPass::Second)?.unwrap_or_default())
    }

    /// Updates the rows of a root, or of a part of it, to match a walk. Returns `None`, and changes nothing, if this is
    /// the first scan and it would delete an indexed file or implausibly many files.
    ///
    /// Missing rows are deleted only if the walk was complete, not at or below unreadable folders, and only as far as
    /// the policy `belief` permits; the problem of the root reports the rows that were kept. Ignored files are deleted
    /// regardless of their number.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::NotFound`] when the root was removed.
    pub fn apply_walk(
        &self,
        walked: WalkResult<'_>,
        belief: DeletionPolicy<'_>,
        look: ScanPass,
    ) -> Result<Option<ScanOutcome>> {
        Ok(self.apply_walks(vec![walked], belief, look)?.pop().flatten())
    }

    /// Applies several walks as [`Catalog::apply_walk`], in order and in one commit, because a commit takes many times
    /// longer than the walk of one folder.
    ///
    /// # Errors
    /// As [`Catalog::apply_walk`]; then nothing is changed.
    pub fn apply_walks(
        &self,
        walks: Vec<WalkResult<'_>>,
        belief: DeletionPolicy<'_>,
        look: ScanPass,
    ) -> Result<Vec<Option<ScanOutcome>>> {
        self.database.write(|db| walks.into_iter().map(|it| apply_to_rows(db, it, belief, look)).collect())
    }

    /// Returns the known files of a root that a walk of the whole root did not find. Sorts `found`. Calls `step` for
    /// each known file, to report progress.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub fn missing_from(&self, root_id: RootId, found: &mut [FoundFile], step: &dyn Fn()) -> Result<Vec<PathBuf>> {
        found.sort_unstable_by(|a, b| path_bytes(&a.path).cmp(path_bytes(&b.path)));
        let mut found = found.iter().map(|it| path_bytes(&it.path)).peekable();
        self.database.read(|db| {
            let mut missing = Vec::new();
            for_each_below(db, root_id, Path::new(""), |row| {
                step();
                while found.next_if(|it| *it < path_bytes(&row.path)).is_some() {}
                if found.peek() != Some(&path_bytes(&row.path)) {
                    missing.push(row.path);
                }
            })?;
            Ok(missing)
        })
    }

    /// Moves files, and folders with everything below them, from one path to another, in this order and in one commit;
    /// files keep their ids. Returns the number of moved files. A file whose extension changed, or that could not be read
    /// at its old path, is read again.
    ///
    /// A known file at the target path is deleted if a file moves onto it, except in two cases. First, the moved file has
    /// no indexed text, as after a save by rename: the old text is found until the new one is indexed. Second, the target
    /// was scanned and indexed after the move, before the event arrived: it is indexed and still on disk, as `on_disk`
    /// (device and inode of a path relative to the root) shows. Other files in a target folder are left to the next walk.
    pub fn rename_trees(
        &self,
        root_id: RootId,
        moves: &[(PathBuf, PathBuf)],
        on_disk: &dyn Fn(&Path) -> Option<(u64, u64)>,
    ) -> Result<u64> {
        self.database.write(|db| {
            let mut renamed = 0;
            for (from, to) in moves {
                renamed += rename_tree(db, root_id, from, to, on_disk)?;
            }
            Ok(renamed)
        })
    }

    /// Returns the absolute paths of these removed files, except paths at which another file will be indexed; an existing
    /// file that is ignored rather than deleted is included. Only files with text in the store count: those with chunks,
    /// and those for which `stored` finds chunks of a commit that the catalog never marked. Returns `None` when the root
    /// of one of the files was removed.
    pub fn paths_of_removed(
        &self,
        removed: &[FileId],
        stored: &dyn Fn(FileId) -> bool,
    ) -> Result<Option<Vec<PathBuf>>> {
        let sql = "SELECT r.path, f.path, EXISTS (SELECT 1 FROM files g WHERE g.root_id = f.root_id \
                   AND g.path = f.path AND g.deleted_ns IS NULL AND g.skip IS NULL) \
                   FROM files f LEFT JOIN roots r ON r.id = f.root_id WHERE f.id = ?1 AND (f.chunks > 0 OR ?2)";
        self.database.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let mut left = Vec::new();
            for id in removed {
                let found = statement
                    .query_row(params![id, stored(*id)], |row| {
                        Ok((row.get::<_, Option<Vec<u8>>>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, bool>(2)?))
                    })
                    .optional()?;
                match found {
                    Some((Some(root), path, false)) => left.push(path_from_bytes(root).join(path_from_bytes(path))),
                    Some((None, ..)) => return Ok(None),
                    Some((Some(_), _, true)) | None => (),
                }
            }
            Ok(Some(left))
        })
    }

    /// Returns those of the given hashes that no file has as its content. The last known content of a requeued file
    /// counts.
    pub fn hashes_without_file(&self, mut hashes: HashSet<ContentHash>) -> Result<HashSet<ContentHash>> {
        self.database.read(|db| {
            let sql = "SELECT coalesce(hash, read_hash) FROM files WHERE deleted_ns IS NULL \
                       AND coalesce(hash, read_hash) NOT NULL";
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                hashes.remove(&ContentHash(row.get(0)?));
            }
            Ok(())
        })?;
        Ok(hashes)
    }

    /// Returns the ids of up to `limit` removed files; the store may still hold chunks of them.
    pub fn tombstones(&self, limit: usize) -> Result<Vec<FileId>> {
        self.database.read(|db| {
            let sql = "SELECT id FROM files WHERE deleted_ns IS NOT NULL ORDER BY deleted_ns LIMIT ?1";
            let mut statement = db.prepare_cached(sql)?;
            let ids = statement.query_map([signed(limit as u64)], |row| row.get(0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Deletes the rows of these tombstones, after the store has deleted their chunks. Rows of existing files are kept.
    pub fn forget(&self, ids: &[FileId]) -> Result<()> {
        self.database.write(|db| {
            let mut statement = db.prepare_cached("DELETE FROM files WHERE id = ?1 AND deleted_ns IS NOT NULL")?;
            for id in ids {
                statement.execute([id])?;
            }
            Ok(())
        })
    }
}

fn apply_to_rows(
    db: &Transaction<'_>,
    walked: WalkResult<'_>,
    belief: DeletionPolicy<'_>,
    look: ScanPass,
) -> Result<Option<ScanOutcome>, DbError> {
    let WalkResult { root: root_id, within, mut found, unreadable, complete, ignored: left_out } = walked;
    // Drops duplicate names, which the listing of a folder that changes meanwhile can yield; a duplicate would look like a
    // new file.
    found.sort_unstable_by(|a, b| path_bytes(&a.path).cmp(path_bytes(&b.path)));
    found.dedup_by(|a, b| a.path == b.path);
    root_by_id(db, root_id)?;
    let place = within.unwrap_or(Path::new(""));
    let whole_root = place.as_os_str().is_empty();
    let entries = found.len() as u64;
    let ScanComparison { unchanged, changed, new, vanished } = compare_rows(db, root_id, place, found)?;
    let hidden = |it: &KnownFile| unreadable.iter().any(|folder| it.path.starts_with(folder));
    // Ignored files count neither as missing nor as files of the root: the rules explain why the walk did not find them.
    let is_left_out = |it: &KnownFile| complete && !hidden(it) && left_out.contains(&it.path);
    let (left_out, mut vanished): (Vec<KnownFile>, Vec<KnownFile>) = vanished.into_iter().partition(is_left_out);
    let all = unchanged as usize + changed.len() + vanished.len();
    let is_careful = matches!(belief, DeletionPolicy::Cautious(_));
    let is_empty_now = whole_root && complete && entries == 0 && left_out.is_empty() && !vanished.iter().any(hidden);
    if is_empty_now && all > 0 && is_careful {
        // The missing files may be ignored rather than deleted: requests a second scan, because only a second scan is
        // given the list of ignored files.
        if look == ScanPass::First {
            return Ok(None);
        }
        set_root_state(db, root_id, false, EMPTY_ROOT_PROBLEM)?;
        return Ok(Some(ScanOutcome::default()));
    }
    vanished.retain(|it| complete && !hidden(it));
    let all = whole_root.then_some(all);
    if look == ScanPass::First && needs_second_scan(&vanished, &new, place, all.filter(|_| is_careful)) {
        return Ok(None);
    }
    let mut outcome = ScanOutcome { found: entries, unchanged, ..ScanOutcome::default() };
    update_device_numbers(&mut vanished, &changed);
    for (row, file) in &changed {
        update_row(db, row, file, &mut outcome)?;
    }
    for file in apply_moves(db, root_id, new, &mut vanished, &mut outcome)? {
        insert_row(db, root_id, &file, &mut outcome)?;
    }
    let kept = keep_unconfirmed(&mut vanished, all, belief);
    for row in vanished.into_iter().chain(left_out) {
        mark_deleted(db, row.id)?;
        outcome.removed += 1;
    }
    match kept {
        Some((available, problem)) => set_root_state(db, root_id, available, &problem)?,
        None if whole_root && complete => set_root_state(db, root_id, true, "")?,
        None => (),
    }
    Ok(Some(outcome))
}

/// Updates the device numbers of vanished rows if unchanged files of the same device now have another number, because a
/// file system can get a new number at every mount.
fn update_device_numbers(vanished: &mut [KnownFile], changed: &[(KnownFile, FoundFile)]) {
    let renumbered = changed.iter().filter(|(row, file)| row.is_device_renumbered(file));
    let devices: HashMap<i64, i64> = renumbered.map(|(row, file)| (row.device, signed(file.device))).collect();
    for row in vanished {
        row.device = devices.get(&row.device).copied().unwrap_or(row.device);
    }
}

/// Performs one move of [`Catalog::rename_trees`]; returns the number of moved files.
fn rename_tree(
    db: &Transaction<'_>,
    root_id: RootId,
    from: &Path,
    to: &Path,
    on_disk: &dyn Fn(&Path) -> Option<(u64, u64)>,
) -> Result<u64, DbError> {
    let moving = load_below(db, root_id, from)?;
    let mut standing = HashSet::new();
    for (path, row) in load_below(db, root_id, to)? {
        let Some(other) = moving.get(path_bytes(&path_after_move(&row.path, to, from))) else { continue };
        let is_there = || on_disk(&row.path) == Some((row.device.cast_unsigned(), row.inode.cast_unsigned()));
        if moving.contains_key(&path) {
            continue;
        } else if row.has_more_text_than(other) && (other.is_without_text() || is_there()) {
            standing.insert(row.path);
        } else {
            mark_deleted(db, row.id)?;
        }
    }
    let renamed = moving.len() as u64;
    for row in moving.into_values() {
        let path = path_after_move(&row.path, from, to);
        if standing.contains(&path) {
            mark_deleted(db, row.id)?;
        } else {
            rename_row(db, &row, &path)?;
        }
    }
    Ok(renamed)
}

/// Returns the new path of a file at or below `from` after `from` was moved to `to`.
fn path_after_move(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if !rest.as_os_str().is_empty() => to.join(rest),
        _ => to.to_path_buf(),
    }
}

/// Comparison of the rows at or below a path with the entries found. Unchanged files are only counted, because there may
/// be a million.
#[derive(Default)]
struct ScanComparison {
    /// Number of unchanged files.
    unchanged: u64,
    /// Changed rows, each with the entry found at its path.
    changed: Vec<(KnownFile, FoundFile)>,
    /// Entries whose path has no row.
    new: Vec<FoundFile>,
    /// Rows whose path has no entry.
    vanished: Vec<KnownFile>,
}

/// Compares the rows at or below a path with the entries found there, in byte order of their paths.
fn compare_rows(
    db: &Transaction<'_>,
    root_id: RootId,
    place: &Path,
    found: Vec<FoundFile>,
) -> rusqlite::Result<ScanComparison> {
    let mut compared = ScanComparison::default();
    let mut found = found.into_iter().peekable();
    for_each_below(db, root_id, place, |row| {
        let at = path_bytes(&row.path);
        while let Some(file) = found.next_if(|it| path_bytes(&it.path) < at) {
            compared.new.push(file);
        }
        match found.next_if(|it| path_bytes(&it.path) == at) {
            Some(file) if row.is_unchanged(&file) => compared.unchanged += 1,
            Some(file) => compared.changed.push((row, file)),
            None => compared.vanished.push(row),
        }
    })?;
    compared.new.extend(found);
    Ok(compared)
}

/// Returns whether to scan again before files are deleted. A missing indexed file may have moved from one folder to
/// another while both were listed; and if many files are missing, they may be ignored ones. A path that is itself a single
/// file was looked up directly, so a second scan would show no more.
fn needs_second_scan(vanished: &[KnownFile], new: &[FoundFile], place: &Path, all: Option<usize>) -> bool {
    if vanished.is_empty() {
        return false;
    }
    let inodes: HashSet<i64> = new.iter().map(|it| signed(it.inode)).collect();
    let missed = || vanished.iter().filter(|it| !inodes.contains(&it.inode));
    missed().any(|it| it.is_indexed && it.path != place)
        || all.is_some_and(|all| is_implausible_loss(missed().count(), all))
}

/// Returns whether so many files of a root cannot plausibly have been deleted at once.
fn is_implausible_loss(gone: usize, all: usize) -> bool {
    gone > MAX_UNCONFIRMED_LOSS && gone * 2 > all
}

/// Applies the moves from `vanished` rows to `new` paths, and returns the entries of `new` that are not moves.
fn apply_moves(
    db: &Transaction<'_>,
    root_id: RootId,
    new: Vec<FoundFile>,
    vanished: &mut Vec<KnownFile>,
    outcome: &mut ScanOutcome,
) -> Result<Vec<FoundFile>, DbError> {
    if vanished.is_empty() {
        return Ok(new);
    }
    let mut by_inode: HashMap<i64, Vec<KnownFile>> = HashMap::new();
    for row in vanished.drain(..) {
        by_inode.entry(row.inode).or_default().push(row);
    }
    let mut rest = Vec::new();
    for file in new {
        let rows = by_inode.get_mut(&signed(file.inode));
        // If several names of one inode vanished, one of them counts as moved and the others are deleted.
        let moved = rows.and_then(|it| Some(it.swap_remove(it.iter().position(|row| row.is_moved_to(&file))?)));
        match moved {
            Some(row) => move_row(db, &row, root_id, &file, outcome)?,
            None => rest.push(file),
        }
    }
    vanished.extend(by_inode.into_values().flatten());
    Ok(rest)
}

/// Removes from `vanished` the files that may still exist. Returns `None` if there are none, otherwise whether the root is
/// available and why files were kept. `all` is the number of files that the root had, if all of it was walked.
fn keep_unconfirmed(
    vanished: &mut Vec<KnownFile>,
    all: Option<usize>,
    belief: DeletionPolicy<'_>,
) -> Option<(bool, String)> {
    let DeletionPolicy::Cautious(is_away) = belief else { return None };
    let gone = vanished.len();
    if all.is_some_and(|all| is_implausible_loss(gone, all)) {
        vanished.clear();
        return Some((
            false,
            format!(
                "{gone} files, more than half of the folder, are gone at once: they stay in the index; mount what is \
                 missing, or run `vic index --accept-losses` with its path if they are really gone"
            ),
        ));
    }
    let mut away = None;
    vanished.retain(|row| {
        let kept = is_away(&row.path, row.device.cast_unsigned());
        if kept {
            away.get_or_insert_with(|| row.path.clone());
        }
        !kept
    });
    let (first, kept) = (away?, gone - vanished.len());
    Some((
        true,
        format!(
            "{kept} files, the first of them `{}`, lay on a file system that is not mounted now: they stay in the index; \
             mount it, or run `vic index --accept-losses` with its path if they are really gone",
            first.display()
        ),
    ))
}
