//! What a walk or an event changes.
//!
//! A file counts as unchanged when size, modification time, inode, status-change time and the walk's own verdict are as
//! they were. Any difference makes it pending again; whether its content differs is for its hash to say, later. A
//! vanished row and a new path of the same inode, size and modification time are one file that moved. All other
//! vanished rows become tombstones, but only where the walk really looked.

mod rows;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Transaction, params};

use crate::catalog::Catalog;
use crate::catalog::database::Failed;
use crate::catalog::root::root_by_id;
use crate::catalog::row::{bytes, path_of, signed};
use crate::catalog::scan::rows::{Known, bury, each, insert, load, move_to, rename, update};
use crate::error::Result;
use crate::model::{ContentHash, FileId, FoundFile, RootId};

/// Said of a root that was not empty before and is now: most often a volume that is not mounted.
const EMPTY_ROOT: &str = "the folder is empty now, but was not before: nothing was removed from the index; mount the \
     volume, or run `vic index --accept-losses` with its path if its files are really gone";

/// Files that may vanish from a root between two walks whatever their share: whoever tidies up a small folder means it.
/// What the rules leave out does not count.
const FEW: usize = 10;

/// What [`Catalog::apply_scan`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOutcome {
    /// Entries given.
    pub found: u64,
    /// New files.
    pub added: u64,
    /// Files to look at again.
    pub changed: u64,
    /// Files that are as they were.
    pub unchanged: u64,
    /// Files that moved and are otherwise as they were.
    pub renamed: u64,
    /// Files that are gone.
    pub removed: u64,
}

/// Which vanished files are believed to be gone.
#[derive(Clone, Copy)]
pub enum Belief<'a> {
    /// All: the user has said so.
    All,
    /// Not all of a root, nor more than half of it at once, nor those for whose path and device this says that the file
    /// system which held them is away.
    Careful(&'a dyn Fn(&Path, u64) -> bool),
}

/// What a walk found of a root, or of the part `within` it (relative).
pub struct Walked<'w> {
    /// The root.
    pub root: RootId,
    /// The part of it that was walked; all of it when absent or empty.
    pub within: Option<&'w Path>,
    /// What is there.
    pub found: Vec<FoundFile>,
    /// Folders that could not be looked into.
    pub unreadable: &'w [PathBuf],
    /// Whether it was walked to the end.
    pub complete: bool,
    /// Files that were not found because the rules leave them out, and are there all the same: these are not gone.
    pub left_out: HashSet<PathBuf>,
}

/// How often it was looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Once: an indexed file that is not there may just be moving.
    First,
    /// Again, because something was not there the first time.
    Second,
}

impl Catalog {
    /// [`Catalog::apply_walk`] of somebody who has looked twice, or at what does not move.
    ///
    /// # Errors
    /// As there.
    pub fn apply_scan(
        &self,
        root: RootId,
        within: Option<&Path>,
        found: Vec<FoundFile>,
        unreadable: &[PathBuf],
        complete: bool,
        belief: Belief<'_>,
    ) -> Result<ScanOutcome> {
        let walked = Walked { root, within, found, unreadable, complete, left_out: HashSet::new() };
        Ok(self.apply_walk(walked, belief, Look::Second)?.unwrap_or_default())
    }

    /// Brings the rows of a root, or of a part of it, in line with what a walk found there. None, and nothing is changed,
    /// when the walk of a folder would lose an indexed file at the first look, or so many files that it is not believed.
    ///
    /// Rows that were not found are removed only when the walk was complete, not at or below what was unreadable, and as far
    /// as `belief` goes: of the others the root's problem tells. What is left out is removed whatever its share.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::NotFound`] when the root was removed.
    pub fn apply_walk(&self, walked: Walked<'_>, belief: Belief<'_>, look: Look) -> Result<Option<ScanOutcome>> {
        Ok(self.apply_walks(vec![walked], belief, look)?.pop().flatten())
    }

    /// [`Catalog::apply_walk`] of many places, one after the other, in one commit: a commit costs many times what a place
    /// does.
    ///
    /// # Errors
    /// As there; then nothing is changed at any of them.
    pub fn apply_walks(
        &self,
        walks: Vec<Walked<'_>>,
        belief: Belief<'_>,
        look: Look,
    ) -> Result<Vec<Option<ScanOutcome>>> {
        self.database.write(|db| walks.into_iter().map(|it| apply(db, it, belief, look)).collect())
    }

    /// Returns the known files of a root of which a walk of all of it found nothing. Puts what it found into order; `step` is
    /// called for each known file.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn missing_from(&self, root_id: RootId, found: &mut [FoundFile], step: &dyn Fn()) -> Result<Vec<PathBuf>> {
        found.sort_unstable_by(|a, b| bytes(&a.path).cmp(bytes(&b.path)));
        let mut found = found.iter().map(|it| bytes(&it.path)).peekable();
        self.database.read(|db| {
            let mut missing = Vec::new();
            each(db, root_id, Path::new(""), |row| {
                step();
                while found.next_if(|it| *it < bytes(&row.path)).is_some() {}
                if found.peek() != Some(&bytes(&row.path)) {
                    missing.push(row.path);
                }
            })?;
            Ok(missing)
        })
    }

    /// Moves files, and folders with all below them, under the same numbers, from the one place to the other, in this order
    /// and by one commit; returns how many files. A file whose extension changes is read again, and one that could not be
    /// read at its old place is tried.
    ///
    /// What is known where something moves to, and gets something in its place, is removed. It stays where nobody has read
    /// what moves there, as when it is saved by a move: it is found as it was until that is read. And it stays where it was
    /// read after the move, by whoever looked before they heard of it: it is indexed and there, as `on_disk` says (device and
    /// inode of a path below the root). What gets nothing in its place is for the walk to remove.
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

    /// Returns the absolute places of these removed files at which no other file is to be indexed: what is still there is left
    /// out rather than deleted. Only files with text in the index count: those that have chunks, or that are `stored` by a
    /// commit that was never marked. None when the root of one was removed.
    pub fn places_left(&self, removed: &[FileId], stored: &dyn Fn(FileId) -> bool) -> Result<Option<Vec<PathBuf>>> {
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
                    Some((Some(root), path, false)) => left.push(path_of(root).join(path_of(path))),
                    Some((None, ..)) => return Ok(None),
                    Some((Some(_), _, true)) | None => (),
                }
            }
            Ok(Some(left))
        })
    }

    /// Returns those of these hashes that are the content of no file, nor were when it was read last, where it is to be read
    /// again.
    pub fn without_file(&self, mut hashes: HashSet<ContentHash>) -> Result<HashSet<ContentHash>> {
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

    /// Returns up to `limit` removed files whose chunks the store may still hold.
    pub fn tombstones(&self, limit: usize) -> Result<Vec<FileId>> {
        self.database.read(|db| {
            let sql = "SELECT id FROM files WHERE deleted_ns IS NOT NULL ORDER BY deleted_ns LIMIT ?1";
            let mut statement = db.prepare_cached(sql)?;
            let ids = statement.query_map([signed(limit as u64)], |row| row.get(0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Drops tombstones, once the store has deleted their chunks. Files that are no tombstones stay.
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

fn apply(
    db: &Transaction<'_>,
    walked: Walked<'_>,
    belief: Belief<'_>,
    look: Look,
) -> Result<Option<ScanOutcome>, Failed> {
    let Walked { root: root_id, within, mut found, unreadable, complete, left_out } = walked;
    // A folder that changes while it is listed can give a name twice; the second would look like a new file.
    found.sort_unstable_by(|a, b| bytes(&a.path).cmp(bytes(&b.path)));
    found.dedup_by(|a, b| a.path == b.path);
    root_by_id(db, root_id)?;
    let place = within.unwrap_or(Path::new(""));
    let whole_root = place.as_os_str().is_empty();
    let entries = found.len() as u64;
    let Compared { unchanged, changed, new, vanished } = compare(db, root_id, place, found)?;
    let hidden = |it: &Known| unreadable.iter().any(|folder| it.path.starts_with(folder));
    // They count neither among what is gone nor among what the root had: the rules say why they were not found.
    let is_left_out = |it: &Known| complete && !hidden(it) && left_out.contains(&it.path);
    let (left_out, mut vanished): (Vec<Known>, Vec<Known>) = vanished.into_iter().partition(is_left_out);
    let all = unchanged as usize + changed.len() + vanished.len();
    let is_careful = matches!(belief, Belief::Careful(_));
    let is_empty_now = whole_root && complete && entries == 0 && left_out.is_empty() && !vanished.iter().any(hidden);
    if is_empty_now && all > 0 && is_careful {
        // What is there may all be left out: whoever looks again says so.
        if look == Look::First {
            return Ok(None);
        }
        set_state(db, root_id, false, EMPTY_ROOT)?;
        return Ok(Some(ScanOutcome::default()));
    }
    vanished.retain(|it| complete && !hidden(it));
    let all = whole_root.then_some(all);
    if look == Look::First && is_worth_a_second(&vanished, &new, place, all.filter(|_| is_careful)) {
        return Ok(None);
    }
    let mut outcome = ScanOutcome { found: entries, unchanged, ..ScanOutcome::default() };
    renumber(&mut vanished, &changed);
    for (row, file) in &changed {
        update(db, row, file, &mut outcome)?;
    }
    for file in unmoved(db, root_id, new, &mut vanished, &mut outcome)? {
        insert(db, root_id, &file, &mut outcome)?;
    }
    let kept = keep_doubtful(&mut vanished, all, belief);
    for row in vanished.into_iter().chain(left_out) {
        bury(db, row.id)?;
        outcome.removed += 1;
    }
    match kept {
        Some((available, problem)) => set_state(db, root_id, available, &problem)?,
        None if whole_root && complete => set_state(db, root_id, true, "")?,
        None => (),
    }
    Ok(Some(outcome))
}

/// Gives what vanished the numbers that its file systems have by now, as far as what is still there tells them.
fn renumber(vanished: &mut [Known], changed: &[(Known, FoundFile)]) {
    let renumbered = changed.iter().filter(|(row, file)| row.is_renumbered(file));
    let devices: HashMap<i64, i64> = renumbered.map(|(row, file)| (row.device, signed(file.device))).collect();
    for row in vanished {
        row.device = devices.get(&row.device).copied().unwrap_or(row.device);
    }
}

/// One move of [`Catalog::rename_trees`]; returns how many files.
fn rename_tree(
    db: &Transaction<'_>,
    root_id: RootId,
    from: &Path,
    to: &Path,
    on_disk: &dyn Fn(&Path) -> Option<(u64, u64)>,
) -> Result<u64, Failed> {
    let moving = load(db, root_id, from)?;
    let mut standing = HashSet::new();
    for (path, row) in load(db, root_id, to)? {
        let Some(other) = moving.get(bytes(&moved(&row.path, to, from))) else { continue };
        let is_there = || on_disk(&row.path) == Some((row.device.cast_unsigned(), row.inode.cast_unsigned()));
        if moving.contains_key(&path) {
            continue;
        } else if row.answers_rather_than(other) && (other.is_unread() || is_there()) {
            standing.insert(row.path);
        } else {
            bury(db, row.id)?;
        }
    }
    let renamed = moving.len() as u64;
    for row in moving.into_values() {
        let path = moved(&row.path, from, to);
        if standing.contains(&path) {
            bury(db, row.id)?;
        } else {
            rename(db, &row, &path)?;
        }
    }
    Ok(renamed)
}

/// Where a path at or below `from` lies when that has moved.
fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if !rest.as_os_str().is_empty() => to.join(rest),
        _ => to.to_path_buf(),
    }
}

/// A place in the catalog beside what was found there. Of a million files that are as they were, nothing is kept.
#[derive(Default)]
struct Compared {
    /// Number of files that are as they were.
    unchanged: u64,
    /// Known rows with what was found at their paths.
    changed: Vec<(Known, FoundFile)>,
    /// Of what was found, what no row has.
    new: Vec<FoundFile>,
    /// Rows of which nothing was found.
    vanished: Vec<Known>,
}

/// Compares the rows at a place with what was found there, in the order of the bytes of their paths.
fn compare(db: &Transaction<'_>, root_id: RootId, place: &Path, found: Vec<FoundFile>) -> rusqlite::Result<Compared> {
    let mut compared = Compared::default();
    let mut found = found.into_iter().peekable();
    each(db, root_id, place, |row| {
        let at = bytes(&row.path);
        while let Some(file) = found.next_if(|it| bytes(&it.path) < at) {
            compared.new.push(file);
        }
        match found.next_if(|it| bytes(&it.path) == at) {
            Some(file) if row.is_as_it_was(&file) => compared.unchanged += 1,
            Some(file) => compared.changed.push((row, file)),
            None => compared.vanished.push(row),
        }
    })?;
    compared.new.extend(found);
    Ok(compared)
}

/// Says whether to look again before anything is lost: an indexed file that is not there may have been on its way from one
/// folder to another while both were listed, and of very many it is to be known first whether they are left out. A single
/// file was looked for at its place, and there is no more to see.
fn is_worth_a_second(vanished: &[Known], new: &[FoundFile], place: &Path, all: Option<usize>) -> bool {
    if vanished.is_empty() {
        return false;
    }
    let inodes: HashSet<i64> = new.iter().map(|it| signed(it.inode)).collect();
    let missed = || vanished.iter().filter(|it| !inodes.contains(&it.inode));
    missed().any(|it| it.is_indexed && it.path != place) || all.is_some_and(|all| are_too_many(missed().count(), all))
}

/// Says whether so many files of a root are not believed to be gone at once.
fn are_too_many(gone: usize, all: usize) -> bool {
    gone > FEW && gone * 2 > all
}

/// Takes out of `new` and `vanished` what has moved, and returns the rest of `new`.
fn unmoved(
    db: &Transaction<'_>,
    root_id: RootId,
    new: Vec<FoundFile>,
    vanished: &mut Vec<Known>,
    outcome: &mut ScanOutcome,
) -> Result<Vec<FoundFile>, Failed> {
    if vanished.is_empty() {
        return Ok(new);
    }
    let mut by_inode: HashMap<i64, Vec<Known>> = HashMap::new();
    for row in vanished.drain(..) {
        by_inode.entry(row.inode).or_default().push(row);
    }
    let mut rest = Vec::new();
    for file in new {
        let rows = by_inode.get_mut(&signed(file.inode));
        // Of several vanished names of one inode, one moves and the others are removed.
        let moved = rows.and_then(|it| Some(it.swap_remove(it.iter().position(|row| row.is_moved_to(&file))?)));
        match moved {
            Some(row) => move_to(db, &row, root_id, &file, outcome)?,
            None => rest.push(file),
        }
    }
    vanished.extend(by_inode.into_values().flatten());
    Ok(rest)
}

/// Takes out of `vanished` what may still exist; says whether the root counts as available then, and why it was kept.
/// `all` is the number of files that the root had, when all of it was walked.
fn keep_doubtful(vanished: &mut Vec<Known>, all: Option<usize>, belief: Belief<'_>) -> Option<(bool, String)> {
    let Belief::Careful(is_away) = belief else { return None };
    let gone = vanished.len();
    if all.is_some_and(|all| are_too_many(gone, all)) {
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

/// Records how it stands with a root; writes only what is new.
pub(super) fn set_state(db: &Transaction<'_>, root_id: RootId, available: bool, problem: &str) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE roots SET available = ?2, problem = ?3 WHERE id = ?1 AND (available <> ?2 OR problem <> ?3)",
    )?
    .execute(params![root_id, available, problem])?;
    Ok(())
}
