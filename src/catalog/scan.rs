//! What a walk or an event changes.
//!
//! A file counts as unchanged when size, modification time, inode, status-change time and the walk's own verdict are as
//! they were. Any difference makes it pending again; whether its content differs is for its hash to say, later. A
//! vanished row and a new path of the same inode, size and modification time are one file that moved. All other
//! vanished rows become tombstones, but only where the walk really looked.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::{Row, Transaction, params};

use crate::catalog::Catalog;
use crate::catalog::database::Failed;
use crate::catalog::root::root_by_id;
use crate::catalog::row::{below, bytes, extension, now_ns, path_of, reason, search_name, signed};
use crate::error::Result;
use crate::model::{FileId, FileKind, FoundFile, Reason, RootId};

/// Said of a root that was not empty before and is now: most often a volume that is not mounted.
const EMPTY_ROOT: &str = "the folder is empty now, but was not before: nothing was removed from the index; mount the \
     volume, or run `vic index --accept-losses` with its path if its files are really gone";

/// Files that may vanish from a root between two walks whatever their share: whoever tidies up a small folder means it.
const FEW: usize = 10;

/// A status-change time that is not known: a rename changed it, and the next look tells the new one.
const UNKNOWN: i64 = 0;

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
        let walked = Walked { root, within, found, unreadable, complete };
        Ok(self.apply_walk(walked, belief, Look::Second)?.unwrap_or_default())
    }

    /// Brings the rows of a root, or of a part of it, in line with what a walk found there. None, and nothing is changed,
    /// when the walk of a folder would lose an indexed file at the first look.
    ///
    /// Rows that were not found are removed only when the walk was complete, not at or below what was unreadable, and as far
    /// as `belief` goes: of the others the root's problem tells.
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

    /// Moves a file, or a folder with all below it, under the same numbers; returns how many files. What `to` held is
    /// removed, but for files that are found by now and there, as `on_disk` says (device and inode of a path below the root):
    /// whoever looked before heard of the move, and saw more than those who did. A file whose extension changes is read
    /// again, and one that could not be read at its old place is tried.
    pub fn rename_tree(
        &self,
        root_id: RootId,
        from: &Path,
        to: &Path,
        on_disk: &dyn Fn(&Path) -> Option<(u64, u64)>,
    ) -> Result<u64> {
        self.database.write(|db| {
            let moving = load(db, root_id, from)?;
            let mut standing = HashSet::new();
            for (path, row) in load(db, root_id, to)? {
                let moves_here = moving.get(bytes(&moved(&row.path, to, from)));
                let is_there = || on_disk(&row.path) == Some((row.device.cast_unsigned(), row.inode.cast_unsigned()));
                if moving.contains_key(&path) {
                    continue;
                } else if row.answers_rather_than(moves_here) && is_there() {
                    standing.insert(row.path);
                } else {
                    bury(db, row.id)?;
                }
            }
            let files = moving.len() as u64;
            for row in moving.into_values() {
                let path = moved(&row.path, from, to);
                if standing.contains(&path) { bury(db, row.id)? } else { rename(db, &row, &path)? }
            }
            Ok(files)
        })
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
    let Walked { root: root_id, within, mut found, unreadable, complete } = walked;
    // A folder that changes while it is listed can give a name twice; the second would look like a new file.
    found.sort_unstable_by(|a, b| bytes(&a.path).cmp(bytes(&b.path)));
    found.dedup_by(|a, b| a.path == b.path);
    root_by_id(db, root_id)?;
    let place = within.unwrap_or(Path::new(""));
    let known = load(db, root_id, place)?;
    let whole_root = place.as_os_str().is_empty();
    let all = known.len();
    if whole_root && complete && found.is_empty() && all > 0 && matches!(belief, Belief::Careful(_)) {
        set_state(db, root_id, false, EMPTY_ROOT)?;
        return Ok(Some(ScanOutcome::default()));
    }
    let (there, new, mut vanished) = compare(known, found);
    let hidden = |it: &Known| unreadable.iter().any(|folder| it.path.starts_with(folder));
    vanished.retain(|it| complete && !hidden(it));
    if look == Look::First && may_be_moving(&vanished, &new, place) {
        return Ok(None);
    }
    let mut outcome = ScanOutcome { found: (there.len() + new.len()) as u64, ..ScanOutcome::default() };
    for (row, file) in &there {
        update(db, row, file, &mut outcome)?;
    }
    for file in unmoved(db, root_id, new, &mut vanished, &mut outcome)? {
        insert(db, root_id, &file, &mut outcome)?;
    }
    let kept = keep_doubtful(&mut vanished, whole_root.then_some(all), belief);
    for row in vanished {
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

/// The part of a row that decides whether a file changed.
struct Known {
    id: FileId,
    path: PathBuf,
    size: i64,
    modified_ns: i64,
    changed_ns: i64,
    inode: i64,
    device: i64,
    skip: Option<Reason>,
    chunks: u32,
    is_indexed: bool,
}

const KNOWN: &str = "f.id, f.path, f.size, f.modified_ns, f.changed_ns, f.inode, f.device, f.skip, f.chunks, \
                     f.state = 'indexed'";

impl Known {
    fn read(row: &Row<'_>) -> rusqlite::Result<Known> {
        Ok(Known {
            id: row.get(0)?,
            path: path_of(row.get(1)?),
            size: row.get(2)?,
            modified_ns: row.get(3)?,
            changed_ns: row.get(4)?,
            inode: row.get(5)?,
            device: row.get(6)?,
            skip: reason(row, 7)?,
            chunks: row.get(8)?,
            is_indexed: row.get(9)?,
        })
    }

    /// Says whether there is something to lose, and more than by losing the row that would take its place: also of a file
    /// that is pending, what was read of it before is found.
    fn answers_rather_than(&self, other: Option<&Known>) -> bool {
        self.is_indexed || (self.chunks > 0 && other.is_none_or(|it| !it.is_indexed && it.chunks == 0))
    }

    fn change(&self, found: &FoundFile) -> Change {
        // The device is left out: its number can differ after every mount.
        let same = self.size == signed(found.size)
            && self.modified_ns == found.modified_ns
            && self.inode == signed(found.inode)
            && self.skip == found.skip;
        if !same {
            Change::Content
        } else if self.changed_ns == found.changed_ns {
            Change::Nothing
        } else if self.changed_ns == UNKNOWN || found.skip.is_some() {
            Change::Metadata
        } else {
            Change::Content
        }
    }

    fn is_moved_to(&self, found: &FoundFile) -> bool {
        self.inode == signed(found.inode)
            && self.device == signed(found.device)
            && self.size == signed(found.size)
            && self.modified_ns == found.modified_ns
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    /// Other permissions or owner, say; there is nothing to read again.
    Metadata,
    /// Perhaps.
    Content,
}

/// Where a path at or below `from` lies when that has moved.
fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if !rest.as_os_str().is_empty() => to.join(rest),
        _ => to.to_path_buf(),
    }
}

/// Loads the file at a path and all files below it.
fn load(db: &Transaction<'_>, root_id: RootId, path: &Path) -> rusqlite::Result<HashMap<Vec<u8>, Known>> {
    let (start, end) = below(path);
    // Each branch says `deleted_ns IS NULL` for itself: only so may it use the partial index on paths.
    let mut statement = db.prepare_cached(&format!(
        "SELECT {KNOWN} FROM files f WHERE (f.deleted_ns IS NULL AND f.root_id = ?1 AND f.path = ?2) \
         OR (f.deleted_ns IS NULL AND f.root_id = ?1 AND f.path >= ?3 AND f.path < ?4)"
    ))?;
    let rows = statement.query_map(params![root_id, bytes(path), start, end], Known::read)?;
    rows.map(|row| row.map(|it| (bytes(&it.path).to_vec(), it))).collect()
}

/// Known rows with what was found at their paths, what is new, and the rows of which nothing was found.
type Compared = (Vec<(Known, FoundFile)>, Vec<FoundFile>, Vec<Known>);

fn compare(mut known: HashMap<Vec<u8>, Known>, found: Vec<FoundFile>) -> Compared {
    let (mut there, mut new) = (Vec::with_capacity(known.len()), Vec::new());
    for file in found {
        match known.remove(bytes(&file.path)) {
            Some(row) => there.push((row, file)),
            None => new.push(file),
        }
    }
    (there, new, known.into_values().collect())
}

/// Says whether a file that is not there may have been on its way from one folder to another while both were listed. A
/// single file was looked for at its place, and there is no more to see.
fn may_be_moving(vanished: &[Known], new: &[FoundFile], place: &Path) -> bool {
    let inodes: HashSet<i64> = new.iter().map(|it| signed(it.inode)).collect();
    vanished.iter().any(|it| it.is_indexed && it.path != place && !inodes.contains(&it.inode))
}

/// Takes out of `new` and `vanished` what has moved, and returns the rest of `new`.
fn unmoved(
    db: &Transaction<'_>,
    root_id: RootId,
    new: Vec<FoundFile>,
    vanished: &mut Vec<Known>,
    outcome: &mut ScanOutcome,
) -> Result<Vec<FoundFile>, Failed> {
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

fn update(db: &Transaction<'_>, row: &Known, file: &FoundFile, outcome: &mut ScanOutcome) -> Result<(), Failed> {
    match row.change(file) {
        Change::Nothing => {
            // Its number may be another after every mount, and has to be known to tell a mount that is away.
            if row.device != signed(file.device) {
                write_found(db, row.id, file)?;
            }
            outcome.unchanged += 1;
        }
        Change::Metadata => {
            write_found(db, row.id, file)?;
            outcome.unchanged += 1;
        }
        Change::Content => {
            reopen(db, row, file)?;
            outcome.changed += 1;
        }
    }
    Ok(())
}

/// Gives a row its new place, and the content a new look only when the walk's verdict or the extension says so.
fn move_to(
    db: &Transaction<'_>,
    row: &Known,
    root_id: RootId,
    file: &FoundFile,
    outcome: &mut ScanOutcome,
) -> Result<(), Failed> {
    db.prepare_cached("UPDATE files SET root_id = ?2 WHERE id = ?1")?.execute([row.id, root_id])?;
    rename(db, row, &file.path)?;
    if row.skip == file.skip {
        write_found(db, row.id, file)?;
    } else {
        reopen(db, row, file)?;
    }
    outcome.renamed += 1;
    Ok(())
}

fn rename(db: &Transaction<'_>, row: &Known, path: &Path) -> rusqlite::Result<()> {
    let ending = extension(path);
    let is_other_type = ending != extension(&row.path);
    db.prepare_cached("UPDATE files SET path = ?2, name = ?3, extension = ?4, changed_ns = ?5 WHERE id = ?1")?
        .execute(params![row.id, bytes(path), search_name(path), ending, UNKNOWN])?;
    // It may have been looked for at its old place just after it had moved.
    db.prepare_cached(
        "UPDATE files SET state = 'pending', reason = NULL, detail = '', tries = 0 \
         WHERE id = ?1 AND state = 'failed' AND reason = ?2",
    )?
    .execute(params![row.id, Reason::Io.name()])?;
    if is_other_type && row.skip.is_none() {
        let kind = FileKind::of_extension(&ending).name();
        db.prepare_cached(
            "UPDATE files SET kind = ?2, state = 'pending', reason = NULL, detail = '', tries = 0, hash = NULL \
             WHERE id = ?1",
        )?
        .execute(params![row.id, kind])?;
    }
    Ok(())
}

/// Makes a file pending, or skipped by the walk's verdict.
fn reopen(db: &Transaction<'_>, row: &Known, file: &FoundFile) -> Result<(), Failed> {
    if file.skip.is_some() && row.chunks > 0 {
        // Its chunks have to leave the store, and a tombstone is how the store hears of that.
        bury(db, row.id)?;
        let root_id = db.query_row("SELECT root_id FROM files WHERE id = ?1", [row.id], |row| row.get(0))?;
        return Ok(insert(db, root_id, file, &mut ScanOutcome::default())?);
    }
    write_found(db, row.id, file)?;
    let (state, reason) = verdict(file);
    db.prepare_cached("UPDATE files SET state = ?2, reason = ?3, detail = '', tries = 0 WHERE id = ?1")?
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

fn insert(db: &Transaction<'_>, root_id: RootId, file: &FoundFile, outcome: &mut ScanOutcome) -> rusqlite::Result<()> {
    let (state, reason) = verdict(file);
    let ending = extension(&file.path);
    // A path that was given twice is one file.
    let inserted = db
        .prepare_cached(
            "INSERT OR IGNORE INTO files (root_id, path, name, extension, size, modified_ns, changed_ns, created_ns, \
             inode, device, mode, uid, skip, state, reason, kind) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?
        .execute(params![
            root_id,
            bytes(&file.path),
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
            FileKind::of_extension(&ending).name(),
        ])?;
    outcome.added += inserted as u64;
    Ok(())
}

/// State and reason of a file that was not read yet.
fn verdict(file: &FoundFile) -> (&'static str, Option<&'static str>) {
    match file.skip {
        Some(reason) => ("skipped", Some(reason.name())),
        None => ("pending", None),
    }
}

fn bury(db: &Transaction<'_>, id: FileId) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE files SET deleted_ns = ?2 WHERE id = ?1")?.execute([id, now_ns()])?;
    Ok(())
}

/// Takes out of `vanished` what may still exist; says whether the root counts as available then, and why it was kept.
/// `all` is the number of files that the root had, when all of it was walked.
fn keep_doubtful(vanished: &mut Vec<Known>, all: Option<usize>, belief: Belief<'_>) -> Option<(bool, String)> {
    let Belief::Careful(is_away) = belief else { return None };
    let gone = vanished.len();
    if all.is_some_and(|all| gone > FEW && gone * 2 > all) {
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
