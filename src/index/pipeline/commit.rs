//! Last stage of the pipeline: commits many files to the store at once, then records their results in the catalog.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::catalog::{Catalog, FileStamp, IndexedMark, ReasonMark, RequeueScope};
use crate::error::{Error, Result};
use crate::index::blocking_tasks::blocking;
use crate::index::maintenance::languages::language_of;
use crate::index::maintenance::purge;
use crate::index::pipeline::context::{Pass, Pipeline, Run};
use crate::index::pipeline::embed::{CommitAction, EmbeddedFile};
use crate::index::pipeline::read::FileFacts;
use crate::index::roots::scan;
use crate::machine;
use crate::model::{Contents, FileChunks, FileId, FileRecord, FileState, Reason};

/// A batch is committed when it has this many chunks. Every commit adds a version and a fragment to the table, and many
/// small fragments slow it down.
const COMMIT_CHUNKS: usize = 2_000;
/// Maximum time that a finished file waits for its commit while others arrive. A commit waits for the disk, and so does
/// every query that reads at that moment. With a commit every five seconds, more than one query in twenty would wait.
const MAX_COMMIT_DELAY: Duration = Duration::from_secs(10);
/// If no file arrives for this long, the batch of an urgent run is committed, so that a saved file is searchable at
/// once. A job has such gaps whenever the model is slow, and would make many small commits, so its batch is committed
/// only when nothing else is in progress.
const IDLE_GAP: Duration = Duration::from_millis(150);

/// Collects embedded files, commits them to the store in batches and records their results in the catalog.
pub(crate) async fn commit_batches(
    pipeline: &Pipeline,
    run: &Run,
    mut groups: mpsc::Receiver<Vec<EmbeddedFile>>,
) -> Result<()> {
    let mut batch = Batch::default();
    loop {
        let paused = match tokio::time::timeout(IDLE_GAP, groups.recv()).await {
            Ok(Some(group)) => {
                group.into_iter().for_each(|file| batch.push(file));
                false
            }
            Ok(None) => return commit(batch, pipeline, run).await,
            Err(_elapsed) => true,
        };
        // True if no other file is in progress. The feed stage then waits, or will wait, for the commit of this batch.
        let is_all = !run.urgent && batch.files.len() as u64 >= run.progress.in_progress();
        if batch.is_due() || is_all || (run.urgent && paused) {
            let begun = Instant::now();
            commit(std::mem::take(&mut batch), pipeline, run).await?;
            // Sleeps after a commit of a run that is not urgent, but not under a CPU limit: a commit mostly waits for the
            // disk and takes little CPU time, and the sleep would delay just-saved files.
            if !run.urgent && !machine::budget().is_limited() {
                run.rest(machine::budget().spend_background(begun.elapsed())).await;
            }
        }
    }
}

/// Commits in a separate task, so that a started commit completes even if another stage fails and this future is
/// dropped.
async fn commit(batch: Batch, pipeline: &Pipeline, run: &Run) -> Result<()> {
    let (pipeline, run) = (pipeline.clone(), run.clone());
    let task = tokio::spawn(async move { batch.commit(&pipeline, &run).await });
    task.await.unwrap_or_else(|error| Err(Error::internal(format!("a commit panicked: {error}"))))
}

/// A batch of files that is committed to the store and the catalog together.
#[derive(Default)]
struct Batch {
    files: Vec<EmbeddedFile>,
    chunks: usize,
    since: Option<Instant>,
}

impl Batch {
    fn push(&mut self, file: EmbeddedFile) {
        self.since.get_or_insert_with(Instant::now);
        if let CommitAction::Embedded(_, chunks) = &file.outcome {
            self.chunks += chunks.len();
        }
        self.files.push(file);
    }

    fn time_left(&self) -> Duration {
        self.since.map_or(MAX_COMMIT_DELAY, |since| MAX_COMMIT_DELAY.saturating_sub(since.elapsed()))
    }

    fn is_due(&self) -> bool {
        self.chunks >= COMMIT_CHUNKS || self.time_left().is_zero()
    }

    /// Writes the store first and the catalog second. A crash in between repeats work, but never marks a file that is
    /// not stored.
    async fn commit(self, pipeline: &Pipeline, run: &Run) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let committing = pipeline.runs.lock_commit().await;
        let files = self.files.len() as u64;
        let (wanted, awaiting) = retain_current(self.files, run.pass, pipeline).await?;
        let mut parts = CommitParts { awaiting, ..CommitParts::default() };
        // Keeps the permits of the text budget until all files are on disk.
        let _permits: Vec<_> = wanted.into_iter().filter_map(|it| parts.push(it)).collect();
        let emptied: Vec<FileId> = parts.reasons.iter().map(|(it, _)| it.file.id).collect();
        let copied = parts.copies.iter().map(|(_, mark)| mark.file.id);
        // A file that may no longer be read is withdrawn even if only the table has rows of it: an earlier commit may
        // have stored them without marking the file in the catalog.
        parts.is_withdrawn |= parts.any_denied(|it| pipeline.table.has_file(it));
        let replaced: Vec<FileId> = parts.files.iter().map(|it| it.file_id).chain(copied).collect();
        pipeline.table.replace(std::mem::take(&mut parts.files)).await?;
        parts.copy(pipeline).await?;
        pipeline.table.delete(&emptied).await?;
        let (chunks, failures) = (parts.chunks as u64, std::mem::take(&mut parts.failures));
        parts.mark(run.pass, pipeline, &replaced).await?;
        match run.pass {
            Pass::Vectors => run.progress.add_vectors(files, chunks, &failures),
            Pass::Whole | Pass::Words => {
                run.progress.add_done(files, chunks, &failures);
                pipeline.unattended.count(&run.progress, files, chunks);
            }
        }
        drop(committing);
        pipeline.catch_up(pipeline.table.is_queried()).await;
        Ok(())
    }
}

/// Keeps the files that have not changed since they were read. A changed or deleted file, or one that an urgent run
/// indexed first, is dropped: committing it would overwrite newer data. Also returns, for each file that is copied, how
/// many of its chunks lack vectors. Only commits change that number, and the caller holds the commit lock.
async fn retain_current(
    files: Vec<EmbeddedFile>,
    pass: Pass,
    pipeline: &Pipeline,
) -> Result<(Vec<EmbeddedFile>, HashMap<FileId, u32>)> {
    let catalog = pipeline.catalog.clone();
    let originals =
        files.iter().filter_map(|it| if let CommitAction::SameAs(_, from) = it.outcome { Some(from) } else { None });
    let ids: Vec<FileId> = files.iter().map(|it| it.record.id).chain(originals).collect();
    blocking(move || {
        let now: HashMap<FileId, FileRecord> = catalog.records(&ids)?.into_iter().map(|it| (it.id, it)).collect();
        let mut again = Vec::new();
        let mut wanted = Vec::with_capacity(files.len());
        let mut awaiting = HashMap::new();
        for file in files {
            let Some(present) = now.get(&file.record.id).filter(|it| is_unchanged(pass, &file.record, it)) else {
                continue;
            };
            if is_still_valid(pass, &file, present, &now) {
                if let CommitAction::SameAs(_, from) = file.outcome {
                    awaiting.insert(from, catalog.awaiting_chunks_of(from)?);
                }
                wanted.push(file);
            } else {
                again.push(present.id);
            }
        }
        catalog.requeue(&RequeueScope::Ids(again))?;
        Ok((wanted, awaiting))
    })
    .await
}

/// Returns whether a file is still in the state in which it was read. Everything that makes a file pending again resets
/// its attempts, so `tries` also shows a change that keeps size and time.
fn is_unchanged(pass: Pass, read: &FileRecord, present: &FileRecord) -> bool {
    let state = match pass {
        Pass::Whole | Pass::Words => present.state == FileState::Pending && present.tries > 0,
        // The number of chunks changes when skill results are added to the file.
        Pass::Vectors => {
            present.state == FileState::Indexed && (present.hash, present.chunks) == (read.hash, read.chunks)
        }
    };
    state && present.found.size == read.found.size && present.found.modified_ns == read.found.modified_ns
}

/// Returns whether the result still fits the file's current path and, for a copy, the file that is copied.
fn is_still_valid(pass: Pass, file: &EmbeddedFile, present: &FileRecord, now: &HashMap<FileId, FileRecord>) -> bool {
    let read = &file.record;
    let moved = present.found.path != read.found.path || present.root != read.root;
    match &file.outcome {
        _ if pass != Pass::Vectors && !FileStamp::new(read).matches(present) => false,
        // Discards the reason if the file has moved, because the file may be readable at its new path.
        CommitAction::Without(..) => !moved,
        CommitAction::SameAs(facts, from) => {
            let is_same = |it: &FileRecord| it.state == FileState::Indexed && it.hash == Some(facts.hash);
            now.get(from).is_some_and(is_same)
        }
        CommitAction::Embedded(..) => present.extension == read.extension,
    }
}

/// The files of a batch, sorted by commit action.
#[derive(Default)]
struct CommitParts {
    files: Vec<FileChunks>,
    copies: Vec<(FileId, IndexedMark)>,
    /// Number of chunks without vectors, by id of the file that is copied.
    awaiting: HashMap<FileId, u32>,
    marks: Vec<IndexedMark>,
    /// Files to record as skipped or failed, each with the number of chunks that the catalog has for the file.
    reasons: Vec<(ReasonMark, u32)>,
    /// Paths, relative to the root, at which the files in `reasons` were opened.
    places: Vec<(FileId, PathBuf)>,
    /// Absolute paths at which all other files were read.
    read: HashMap<FileId, PathBuf>,
    /// Whether a file that was indexed before may no longer be read.
    is_withdrawn: bool,
    /// Path and reason of each failed file, for the progress of the job.
    failures: Vec<String>,
    chunks: usize,
}

impl CommitParts {
    fn push(&mut self, file: EmbeddedFile) -> Option<OwnedSemaphorePermit> {
        let record = &file.record;
        if !matches!(file.outcome, CommitAction::Without(..)) {
            self.read.insert(record.id, record.absolute());
        }
        match file.outcome {
            CommitAction::Embedded(facts, chunks) => {
                self.chunks += chunks.len();
                let awaiting = chunks.iter().filter(|it| it.vector.is_empty()).count() as u32;
                let language = language_of(chunks.iter().map(|it| it.chunk.text.as_str()));
                let mark = indexed_mark(record, facts, chunks.len() as u32);
                self.marks.push(IndexedMark { awaiting, language, ..mark });
                self.files.push(FileChunks { file_id: record.id, chunks });
            }
            CommitAction::SameAs(facts, from) => self.copies.push((from, indexed_mark(record, facts, 0))),
            CommitAction::Without(facts, reason, detail) => {
                if reason.state() == FileState::Failed {
                    self.failures.push(format!("{}: {}", record.found.path.display(), reason.name()));
                }
                self.is_withdrawn |= reason == Reason::PermissionDenied && record.chunks > 0;
                self.places.push((record.id, record.found.path.clone()));
                self.reasons.push((reason_mark(record, facts, reason, detail), record.chunks));
            }
        }
        file.permit
    }

    async fn copy(&mut self, pipeline: &Pipeline) -> Result<()> {
        let copies = std::mem::take(&mut self.copies);
        let pairs: Vec<(FileId, FileId)> = copies.iter().map(|(from, mark)| (*from, mark.file.id)).collect();
        let counts = pipeline.table.copy(&pairs).await?;
        self.chunks += counts.iter().sum::<u64>() as usize;
        let mut lost = Vec::new();
        for ((from, mark), chunks) in copies.into_iter().zip(counts) {
            let awaiting = self.awaiting.get(&from).copied().unwrap_or(0);
            match u32::try_from(chunks).unwrap_or(u32::MAX) {
                // The store has no chunks of the original: both files are indexed again.
                0 => lost.extend([from, mark.file.id]),
                chunks => self.marks.push(IndexedMark { chunks, awaiting, ..mark }),
            }
        }
        let catalog = pipeline.catalog.clone();
        blocking(move || catalog.requeue(&RequeueScope::Ids(lost)).map(drop)).await
    }

    /// Returns whether `of` is true for any file of the batch that may not be read (permission denied).
    fn any_denied(&self, of: impl Fn(FileId) -> bool) -> bool {
        self.reasons.iter().any(|(it, _)| it.reason == Reason::PermissionDenied && of(it.file.id))
    }

    /// Records the results in the catalog, and deletes the stored rows of files that were deleted or excluded
    /// meanwhile.
    async fn mark(self, pass: Pass, pipeline: &Pipeline, replaced: &[FileId]) -> Result<()> {
        let catalog = pipeline.catalog.clone();
        let (marks, reasons, places, read) = (self.marks, self.reasons, self.places, self.read);
        let is_withdrawn = self.is_withdrawn;
        let expected = (marks.len() + reasons.len()) as u64;
        let ids: Vec<FileId> = replaced.iter().copied().chain(reasons.iter().map(|(it, _)| it.file.id)).collect();
        let marked = blocking(move || {
            if is_withdrawn {
                purge::request(&catalog)?;
            }
            match pass {
                Pass::Whole | Pass::Words => {
                    let reasons: Vec<ReasonMark> = reasons.into_iter().map(|(it, _)| it).collect();
                    let marked = catalog.mark_reason(&reasons)?;
                    requeue_moved(&catalog, &places)?;
                    Ok(marked + catalog.mark_indexed(&marks)?)
                }
                // A file that has become pending again stays pending.
                Pass::Vectors => Ok(catalog.mark_refused(&reasons)? + catalog.mark_vectors(&marks)?),
            }
        })
        .await?;
        if marked == expected {
            return Ok(());
        }
        if pass != Pass::Vectors {
            let catalog = pipeline.catalog.clone();
            blocking(move || requeue_unmarked(&catalog, &ids)).await?;
        }
        let (catalog, stored) = (pipeline.catalog.clone(), replaced.to_vec());
        let unwanted = blocking(move || stale_files(&catalog, stored)).await?;
        let places = unwanted.iter().filter_map(|it| read.get(it).cloned()).collect();
        if scan::any_excluded_at(&pipeline.catalog, places).await? {
            let catalog = pipeline.catalog.clone();
            blocking(move || purge::request(&catalog)).await?;
        }
        pipeline.table.delete(&unwanted).await
    }
}

/// Requeues files whose result could not be recorded, and takes back their counted attempt. Skips files that another
/// task changed first.
fn requeue_unmarked(catalog: &Catalog, ids: &[FileId]) -> Result<()> {
    let mut left = catalog.records(ids)?;
    left.retain(|it| it.state == FileState::Pending && it.tries > 0);
    catalog.requeue(&RequeueScope::Ids(left.iter().map(|it| it.id).collect())).map(drop)
}

/// Returns the files that were just stored and must leave the store again, because they were deleted meanwhile (their
/// tombstones may be processed already) or a walk excluded them.
pub(in crate::index) fn stale_files(catalog: &Catalog, mut stored: Vec<FileId>) -> Result<Vec<FileId>> {
    let known: HashMap<FileId, FileState> = catalog.records(&stored)?.iter().map(|it| (it.id, it.state)).collect();
    stored.retain(|it| !matches!(known.get(it), Some(FileState::Pending | FileState::Indexed)));
    if stored.iter().any(|it| known.contains_key(it)) {
        // Requests the purge before the rows are deleted, so that a crash in between cannot lose the request.
        purge::request(catalog)?;
    }
    Ok(stored)
}

/// Requeues files whose path changed in the catalog while they were being marked: they may have left the path where
/// they were opened.
fn requeue_moved(catalog: &Catalog, places: &[(FileId, PathBuf)]) -> Result<()> {
    let ids: Vec<FileId> = places.iter().map(|it| it.0).collect();
    let places: HashMap<FileId, &PathBuf> = places.iter().map(|(id, path)| (*id, path)).collect();
    let present = catalog.records(&ids)?;
    let moved = present.iter().filter(|it| places.get(&it.id).is_some_and(|path| **path != it.found.path));
    catalog.requeue(&RequeueScope::Ids(moved.map(|it| it.id).collect()))?;
    Ok(())
}

fn indexed_mark(record: &FileRecord, facts: FileFacts, chunks: u32) -> IndexedMark {
    IndexedMark {
        file: FileStamp::new(record),
        hash: facts.hash,
        kind: facts.kind,
        media_type: facts.media_type,
        chunks,
        detail: facts.detail,
        awaiting: 0,
        contents: facts.contents,
        language: None,
    }
}

fn reason_mark(record: &FileRecord, facts: Option<FileFacts>, reason: Reason, detail: String) -> ReasonMark {
    let (hash, kind, media_type, contents) = match facts {
        Some(facts) => (Some(facts.hash), facts.kind, facts.media_type, facts.contents),
        None => (None, record.kind, record.media_type.clone(), Contents::default()),
    };
    ReasonMark { file: FileStamp::new(record), reason, detail, hash, kind, media_type, contents }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case E14
    #[test]
    fn unwanted_keeps_only_pending_and_indexed_files() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = crate::index::maintenance::retry::tests::catalog(dir.path());
        let deleted = 99;
        let is_asked = || catalog.meta_get("purge_asked_ms").unwrap().is_some();
        let failed = catalog.select(&crate::model::FileFilter::default()).unwrap()[0];
        assert_eq!((stale_files(&catalog, vec![deleted]).unwrap(), is_asked()), (vec![deleted], false));
        assert_eq!((stale_files(&catalog, vec![failed]).unwrap(), is_asked()), (vec![failed], true));
        catalog.requeue(&RequeueScope::All).unwrap();
        assert_eq!(stale_files(&catalog, vec![failed]).unwrap(), [0; 0]);
    }
}
