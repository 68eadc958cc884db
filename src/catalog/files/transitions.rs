//! State transitions of files: the queue of pending files, and the marks that record the result of processing a file.

use std::path::PathBuf;

use rusqlite::{OptionalExtension, Row, ToSql, Transaction, params};

use vic_words::Language;

use crate::catalog::Catalog;
use crate::catalog::database::DbError;
use crate::catalog::files::authors;
use crate::catalog::files::filter::path_condition;
use crate::catalog::files::name_index;
use crate::catalog::files::row::{RECORD_COLUMNS, UNKNOWN_CHANGED_NS, path_bytes, range_below, read_record, signed};
use crate::error::Result;
use crate::model::{ContentHash, Contents, FileId, FileKind, FileRecord, FileState, FoundFile, Reason, RootId};

/// A file fails after this many unfinished attempts to read it. An attempt stays unfinished if vic ended unexpectedly
/// while reading the file. One or two prove nothing: vic may have been killed, or the power may have failed. A file that
/// crashes the whole machine also reaches this limit.
pub const MAX_TRIES: u32 = 5;

/// A file fails after this many strikes: crashes of the worker that read it, or reads that took too long. Each is written
/// to disk at once, so that a restart or a kill does not reset the count.
pub const MAX_STRIKES: u32 = 2;

/// Identifies the version of a file that was read. A mark applies only while the catalog still has this version. The path
/// does not count: a moved file need not be read again, unless its extension changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// Id of the file in the catalog.
    pub id: FileId,
    size: i64,
    modified_ns: i64,
    changed_ns: i64,
    inode: i64,
    extension: String,
}

impl FileStamp {
    /// Returns the version of a catalog record; call it before the file is read.
    pub fn new(record: &FileRecord) -> FileStamp {
        let FoundFile { size, modified_ns, changed_ns, inode, .. } = record.found;
        let (size, inode, extension) = (signed(size), signed(inode), record.extension.clone());
        FileStamp { id: record.id, size, modified_ns, changed_ns, inode, extension }
    }

    /// Returns whether a record still has this version; an unknown status-change time matches any.
    pub fn matches(&self, record: &FileRecord) -> bool {
        let now = FileStamp::new(record);
        let is_time_known = self.changed_ns != UNKNOWN_CHANGED_NS && now.changed_ns != UNKNOWN_CHANGED_NS;
        FileStamp { changed_ns: if is_time_known { now.changed_ns } else { self.changed_ns }, ..now } == *self
    }

    fn values(&self) -> [&dyn ToSql; 6] {
        [&self.id, &self.size, &self.modified_ns, &self.inode, &self.extension, &self.changed_ns]
    }
}

/// [`FileStamp::matches`] as SQL, restricted to pending files; [`FileStamp::values`] gives the parameters.
const MATCHES_STAMP: &str = "id = ?1 AND size = ?2 AND modified_ns = ?3 AND inode = ?4 AND extension = ?5 \
                       AND 0 IN (changed_ns - ?6, changed_ns, ?6) AND state = 'pending' AND skip IS NULL AND deleted_ns IS NULL";

/// SQL assignments that store the names inside a file (attachments, archive members, sheets), its authors, and the dates and
/// the subject of a mail.
const SET_CONTENTS: &str = "inner_names = ?14, mail_first_ns = ?15, mail_last_ns = ?16, authors = ?17, subject = ?18";

/// The language of an indexed file with the same content, which has the hash `?8`.
const SAME_CONTENT: &str = "SELECT language FROM files WHERE hash = ?8 AND deleted_ns IS NULL AND state = 'indexed' \
                            AND chunks > 0 LIMIT 1";

/// Data with which a file is marked as indexed, after its chunks are in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedMark {
    /// The version of the file that was read.
    pub file: FileStamp,
    /// The hash of the content that was read.
    pub hash: ContentHash,
    /// The kind of the file, detected by its content.
    pub kind: FileKind,
    /// The media type of the file, detected by its content.
    pub media_type: String,
    /// Number of chunks of the file in the store.
    pub chunks: u32,
    /// A remark for the user, e.g. that a limit truncated the text; empty when there is none.
    pub detail: String,
    /// Number of chunks of the file that have no vector yet.
    pub awaiting: u32,
    /// The names inside the file, such as attachments, and the dates of its mails.
    pub contents: Contents,
    /// The language of most passages, if they tell it. `None` also for a copy, which has the language of its original.
    pub language: Option<Language>,
}

/// Data with which a file is marked as skipped or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonMark {
    /// The version of the file that was processed.
    pub file: FileStamp,
    /// Why the file was skipped or failed.
    pub reason: Reason,
    /// One more sentence about the reason for the user; may be empty.
    pub detail: String,
    /// The hash of the content, if it was read.
    pub hash: Option<ContentHash>,
    /// The kind of the file.
    pub kind: FileKind,
    /// The media type of the file; empty when unknown.
    pub media_type: String,
    /// The names inside the file and the dates of its mails, if it was read.
    pub contents: Contents,
}

/// Data with which a file is marked after the store has added the chunks that a skill, such as OCR, made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceMark {
    /// Id of the file in the catalog.
    pub id: FileId,
    /// The hash of the content that the skill read.
    pub hash: ContentHash,
    /// Number of all chunks of the file in the store, including those of the skill.
    pub chunks: u32,
}

/// Which files [`Catalog::requeue`] makes pending, to be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequeueScope {
    /// Every file of the catalog.
    All,
    /// The files with these ids.
    Ids(Vec<FileId>),
    /// The file at this absolute path, or all files below this folder.
    Under(PathBuf),
    /// Files that failed, for this reason or for any.
    Failed(Option<Reason>),
}

impl Catalog {
    /// Returns up to `limit` pending files with an id above `after`, by id. With `after` 0 (the start of a pass), files
    /// that used up their [`MAX_TRIES`] attempts first fail with [`Reason::WorkerCrash`].
    pub fn next_pending(&self, after: FileId, limit: usize) -> Result<Vec<FileRecord>> {
        if after <= 0 {
            self.fail_exhausted()?;
        }
        let sql = format!(
            "SELECT {RECORD_COLUMNS} FROM files f INDEXED BY files_pending JOIN roots r ON r.id = f.root_id \
             WHERE f.deleted_ns IS NULL AND f.state = 'pending' AND f.id > ?1 ORDER BY f.id LIMIT ?2"
        );
        self.database.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_map([after, signed(limit as u64)], |row| read_record(row, &self.owners))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn fail_exhausted(&self) -> Result<()> {
        let condition = "deleted_ns IS NULL AND state = 'pending' AND tries > 0 AND tries >= ?1";
        let any = self.database.read(|db| {
            let sql = format!("SELECT 1 FROM files WHERE {condition} LIMIT 1");
            Ok(db.prepare_cached(&sql)?.query_row([MAX_TRIES], |_| Ok(())).optional()?.is_some())
        })?;
        if !any {
            return Ok(());
        }
        self.database.write(|db| {
            let sql =
                format!("UPDATE files SET state = 'failed', reason = ?2, detail = ?3, chunks = 0 WHERE {condition}");
            let detail = format!("vic ended unexpectedly {MAX_TRIES} times while it read the file");
            db.execute(&sql, params![MAX_TRIES, Reason::WorkerCrash.name(), detail])?;
            Ok(())
        })
    }

    /// Adds strikes to a pending file and syncs them to disk, because its worker crashed or takes suspiciously long. The
    /// final mark of the file resets them. Returns the strikes of the file over all runs of vic.
    pub fn add_strikes(&self, id: FileId, times: u32) -> Result<u32> {
        self.database.write(|db| {
            let sql = "UPDATE files SET strikes = strikes + ?2 WHERE id = ?1 AND state = 'pending' RETURNING strikes";
            let strikes = db.prepare_cached(sql)?.query_row(params![id, times], |row| row.get(0)).optional()?;
            Ok(strikes.unwrap_or(0))
        })
    }

    /// Fails the pending files that have used up their strikes or their attempts. Call it once at startup, before any file
    /// is read and before the store is reconciled, which then deletes their chunks. They stay failed until the file or the
    /// parsers of vic change. Returns how many failed because of strikes.
    pub fn fail_by_strikes(&self) -> Result<u64> {
        self.fail_exhausted()?;
        self.database.write(|db| {
            let detail =
                format!("reading the file crashed a worker or took too long {MAX_STRIKES} times before vic ended");
            let sql = "UPDATE files SET state = 'failed', reason = ?2, detail = ?3, chunks = 0 \
                       WHERE deleted_ns IS NULL AND state = 'pending' AND strikes > 0 AND strikes >= ?1";
            Ok(db.execute(sql, params![MAX_STRIKES, Reason::WorkerCrash.name(), detail])? as u64)
        })
    }

    /// Counts an attempt for each file and syncs it to disk, so that a file that crashes vic can be recognized after the
    /// restart.
    pub fn begin_try(&self, ids: &[FileId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        self.database.write(|db| begin_try(db, ids))
    }

    /// Returns those of the given files that are pending and untried, and counts their first attempt as
    /// [`Catalog::begin_try`] does.
    pub fn begin_untried(&self, ids: &[FileId]) -> Result<Vec<FileRecord>> {
        let mut files = self.records(ids)?;
        files.retain(|it| it.state == FileState::Pending && it.tries == 0);
        self.begin_try(&files.iter().map(|it| it.id).collect::<Vec<_>>())?;
        Ok(files)
    }

    /// Returns the ids of up to `limit` pending files without an attempt, unordered.
    pub fn untried_files(&self, limit: usize) -> Result<Vec<FileId>> {
        let sql = "SELECT id FROM files INDEXED BY files_pending \
                   WHERE deleted_ns IS NULL AND state = 'pending' AND tries = 0 LIMIT ?1";
        self.database.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let ids = statement.query_map([signed(limit as u64)], |row| row.get(0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns, for each of these paths of a root, id and size of up to `limit` pending, untried files at or below it,
    /// unordered.
    pub fn untried_below(&self, root_id: RootId, paths: &[PathBuf], limit: usize) -> Result<Vec<Vec<(FileId, u64)>>> {
        // Two range scans of the index on paths, because the index on states would visit every pending file of the root.
        let select = "SELECT id, size FROM files INDEXED BY files_path WHERE deleted_ns IS NULL AND state = 'pending' AND tries = 0";
        let sql = format!(
            "{select} AND root_id = ?1 AND path = ?2 UNION ALL \
             {select} AND root_id = ?1 AND path >= ?3 AND path < ?4 LIMIT ?5"
        );
        self.database.read(|db| {
            let mut statement = db.prepare_cached(&sql)?;
            let mut at = |path: &PathBuf| {
                let (start, end) = range_below(path);
                let values = params![root_id, path_bytes(path), start, end, signed(limit as u64)];
                let row = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
                statement.query_map(values, row)?.collect::<rusqlite::Result<_>>()
            };
            Ok(paths.iter().map(&mut at).collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Marks files as indexed; call it only after the store has synced their chunks to disk. A file that changed since it
    /// was read, was requeued or was removed stays unmarked. Returns how many were marked.
    pub fn mark_indexed(&self, marks: &[IndexedMark]) -> Result<u64> {
        let sql = format!(
            "UPDATE files SET state = 'indexed', reason = NULL, detail = ?7, hash = ?8, kind = ?9, media_type = ?10, \
             chunks = ?11, awaiting = ?12, strikes = 0, read_hash = NULL, language = coalesce(?13, ({SAME_CONTENT}), ''), \
             {SET_CONTENTS} WHERE {MATCHES_STAMP}"
        );
        self.database.write(|db| {
            let mut marked = 0;
            for it in marks {
                let kind = it.kind.name();
                let language = it.language.map(Language::code);
                let values = params![it.detail, it.hash.0, kind, it.media_type, it.chunks, it.awaiting, language];
                marked += mark_file(db, &sql, &it.file, values, &it.contents)?;
            }
            Ok(marked)
        })
    }

    /// Records that every chunk of these files (with this hash and number of chunks) has a vector; call it only after the
    /// store has synced the vectors to disk. A file that was requeued or has other content stays unmarked. Returns how
    /// many were marked.
    pub fn mark_vectors(&self, marks: &[IndexedMark]) -> Result<u64> {
        let sql = "UPDATE files SET awaiting = 0 \
                   WHERE id = ?1 AND hash = ?2 AND chunks = ?3 AND state = 'indexed' AND deleted_ns IS NULL";
        self.database.write(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let mut marked = 0;
            for it in marks {
                marked += statement.execute(params![it.file.id, it.hash.0, it.chunks])?;
            }
            Ok(marked as u64)
        })
    }

    /// Marks files as skipped or failed, under the same condition as [`Catalog::mark_indexed`]. Their number of chunks
    /// becomes 0, so the store must hold no chunks of them. Returns how many were marked.
    pub fn mark_reason(&self, marks: &[ReasonMark]) -> Result<u64> {
        let sql = format!(
            "UPDATE files SET state = ?7, reason = ?8, detail = ?9, hash = ?10, kind = ?11, media_type = ?12, chunks = 0, \
             awaiting = 0, strikes = 0, read_hash = NULL, language = ?13, {SET_CONTENTS} WHERE {MATCHES_STAMP}"
        );
        self.database.write(|db| {
            let mut marked = 0;
            for it in marks {
                let (state, reason) = (it.reason.state().name(), it.reason.name());
                let (kind, hash) = (it.kind.name(), it.hash.map(|hash| hash.0));
                let values = params![state, reason, it.detail, hash, kind, it.media_type, None::<&str>];
                marked += mark_file(db, &sql, &it.file, values, &it.contents)?;
            }
            Ok(marked)
        })
    }

    /// Marks indexed files as failed because the embedder refused to make their vectors, under the same condition as
    /// [`Catalog::mark_vectors`]: hash and number of chunks must match. Their number of chunks becomes 0, so the store
    /// must hold no chunks of them. Returns how many were marked.
    pub fn mark_refused(&self, marks: &[(ReasonMark, u32)]) -> Result<u64> {
        let sql = "UPDATE files SET state = ?4, reason = ?5, detail = ?6, chunks = 0, awaiting = 0, strikes = 0 \
                   WHERE id = ?1 AND hash = ?2 AND chunks = ?3 AND state = 'indexed' AND deleted_ns IS NULL";
        self.database.write(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let mut marked = 0;
            for (it, chunks) in marks {
                let (state, reason) = (it.reason.state().name(), it.reason.name());
                let hash = it.hash.map(|hash| hash.0);
                marked += statement.execute(params![it.file.id, hash, chunks, state, reason, it.detail])?;
            }
            Ok(marked as u64)
        })
    }

    /// Updates the number of chunks of a file after a skill added some; call it only after the store has synced them to
    /// disk. A file skipped for lack of text becomes indexed. A pending file, or one with other content, stays unmarked.
    /// Returns whether the file was marked.
    pub fn mark_evidence(&self, mark: &EvidenceMark) -> Result<bool> {
        let sql = "UPDATE files SET state = 'indexed', reason = NULL, chunks = ?3 WHERE id = ?1 AND hash = ?2 \
                   AND (state = 'indexed' OR (state = 'skipped' AND reason = 'no_text')) AND skip IS NULL \
                   AND deleted_ns IS NULL";
        self.database.write(|db| Ok(db.prepare_cached(sql)?.execute(params![mark.id, mark.hash.0, mark.chunks])? == 1))
    }

    /// Makes files pending again and clears their attempts and hash, so that they are read even if unchanged. Files
    /// skipped by the walk stay skipped; failed files lose their strikes. Returns how many were requeued.
    pub fn requeue(&self, scope: &RequeueScope) -> Result<u64> {
        if matches!(scope, RequeueScope::Ids(ids) if ids.is_empty()) {
            return Ok(0);
        }
        self.database.write(|db| match scope {
            RequeueScope::All => requeue_where(db, "1", &[]),
            RequeueScope::Under(path) => {
                let (condition, values) = path_condition(db, path)?;
                requeue_where(db, &condition, &values)
            }
            RequeueScope::Failed(None) => requeue_where(db, "state = 'failed'", &[]),
            RequeueScope::Failed(Some(reason)) => {
                requeue_where(db, "state = 'failed' AND reason = ?", &[reason.name().to_string().into()])
            }
            RequeueScope::Ids(ids) => {
                let mut requeued = 0;
                for id in ids {
                    requeued += requeue_where(db, "id = ?", &[(*id).into()])?;
                }
                Ok(requeued)
            }
        })
    }

    /// Returns an indexed file with this content and at least one chunk, so that its chunks can be copied to a file with
    /// equal content.
    pub fn same_content(&self, hash: ContentHash) -> Result<Option<FileId>> {
        self.database.read(|db| {
            let sql = "SELECT id FROM files WHERE deleted_ns IS NULL AND state = 'indexed' AND chunks > 0 AND hash = ?1 \
                       LIMIT 1";
            Ok(db.prepare_cached(sql)?.query_row([hash.0], |row| row.get(0)).optional()?)
        })
    }
}

/// Runs `sql`, which sets the state of one file, and updates the row of the file in the name index if the names inside the
/// file changed. Parameters of `sql`: six of the file stamp, the seven `values`, and those of [`SET_CONTENTS`].
fn mark_file(
    db: &Transaction<'_>,
    sql: &str,
    file: &FileStamp,
    values: &[&dyn ToSql],
    contents: &Contents,
) -> rusqlite::Result<u64> {
    let sent = contents.sent_ns.unzip();
    let inner = name_index::join_names(&contents.names);
    let authors = authors::join(&contents.authors);
    let before = "SELECT inner_names FROM files WHERE id = ?1";
    let before: Option<Option<String>> =
        db.prepare_cached(before)?.query_row([file.id], |row| row.get(0)).optional()?;
    let values = [&file.values()[..], values, params![inner, sent.0, sent.1, authors, contents.subject]].concat();
    let marked = db.prepare_cached(sql)?.execute(&values[..])?;
    if marked > 0 && before.flatten() != inner {
        name_index::update_names(db, file.id)?;
    }
    Ok(marked as u64)
}

fn begin_try(db: &Transaction<'_>, ids: &[FileId]) -> Result<(), DbError> {
    let mut statement = db.prepare_cached("UPDATE files SET tries = tries + 1 WHERE id = ?1")?;
    for id in ids {
        statement.execute([id])?;
    }
    Ok(())
}

fn requeue_where(db: &Transaction<'_>, condition: &str, values: &[rusqlite::types::Value]) -> Result<u64, DbError> {
    let sql = format!(
        "UPDATE files SET state = 'pending', reason = NULL, detail = '', tries = 0, \
         read_hash = coalesce(hash, read_hash), hash = NULL, \
         strikes = CASE state WHEN 'pending' THEN strikes ELSE 0 END \
         WHERE deleted_ns IS NULL AND skip IS NULL AND {condition}"
    );
    Ok(db.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(values))? as u64)
}
