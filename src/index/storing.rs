//! Last stage: one commit for many files, then the catalog marks them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::catalog::{AsRead, Catalog, IndexedMark, ReasonMark, RequeueScope};
use crate::error::{Error, Result};
use crate::index::embedding::{Done, Ready};
use crate::index::pipeline::{Pass, Pipeline, Run};
use crate::index::reading::Facts;
use crate::index::{blocking, purge, scan};
use crate::machine;
use crate::model::{Contents, FileChunks, FileId, FileRecord, FileState, Reason};

/// Chunks that make a commit. Every commit is a new version and a new fragment of the table: too small ones rot it.
const COMMIT_CHUNKS: usize = 2_000;
/// The longest that a finished file waits for its commit while others are still coming. A commit waits for the disk, and so
/// does every question that comes meanwhile and has to read: with one every five seconds these are more than one in twenty.
const COMMIT_AFTER: Duration = Duration::from_secs(10);
/// A pause in the flow. It ends the batch of an urgent run: a saved file is searchable at once. The flow of a job pauses
/// whenever the model is slow, and would make many small commits: it ends there when nothing else is under way.
const PAUSE: Duration = Duration::from_millis(150);

/// Collects files, commits them in batches and marks them.
pub(crate) async fn store(pipeline: &Pipeline, run: &Run, mut groups: mpsc::Receiver<Vec<Ready>>) -> Result<()> {
    let mut batch = Batch::default();
    loop {
        let paused = match tokio::time::timeout(PAUSE, groups.recv()).await {
            Ok(Some(group)) => {
                group.into_iter().for_each(|file| batch.push(file));
                false
            }
            Ok(None) => return commit(batch, pipeline, run).await,
            Err(_elapsed) => true,
        };
        // Whoever feeds waits for these, or will once they are all.
        let is_all = !run.urgent && batch.files.len() as u64 >= run.progress.under_way();
        if batch.is_due() || is_all || (run.urgent && paused) {
            let begun = Instant::now();
            commit(std::mem::take(&mut batch), pipeline, run).await?;
            // A commit, and what it has the indexes catch up with, waits for the disk more than it computes: no share pays for
            // it, or files just saved would wait for that.
            if !run.urgent && !machine::budget().is_limited() {
                run.rest(machine::budget().spend_behind(begun.elapsed())).await;
            }
        }
    }
}

/// Commits in a task of its own: when another stage fails, this one is dropped, but not in the middle of a commit.
async fn commit(batch: Batch, pipeline: &Pipeline, run: &Run) -> Result<()> {
    let (pipeline, run) = (pipeline.clone(), run.clone());
    let task = tokio::spawn(async move { batch.commit(&pipeline, &run).await });
    task.await.unwrap_or_else(|error| Err(Error::internal(format!("a commit panicked: {error}"))))
}

/// What goes into the store and the catalog together.
#[derive(Default)]
struct Batch {
    files: Vec<Ready>,
    chunks: usize,
    since: Option<Instant>,
}

impl Batch {
    fn push(&mut self, file: Ready) {
        self.since.get_or_insert_with(Instant::now);
        if let Done::Embedded(_, chunks) = &file.outcome {
            self.chunks += chunks.len();
        }
        self.files.push(file);
    }

    fn time_left(&self) -> Duration {
        self.since.map_or(COMMIT_AFTER, |since| COMMIT_AFTER.saturating_sub(since.elapsed()))
    }

    fn is_due(&self) -> bool {
        self.chunks >= COMMIT_CHUNKS || self.time_left().is_zero()
    }

    /// Store first, catalog second: a crash in between means work done twice, never a file marked that is not there.
    async fn commit(self, pipeline: &Pipeline, run: &Run) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let committing = pipeline.committing.lock().await;
        let files = self.files.len() as u64;
        let (wanted, awaiting) = wanted(self.files, run.pass, pipeline).await?;
        let mut parts = Parts { awaiting, ..Parts::default() };
        // Their shares of the memory budget are given back when all is on disk.
        let _permits: Vec<_> = wanted.into_iter().filter_map(|it| parts.push(it)).collect();
        let emptied: Vec<FileId> = parts.reasons.iter().map(|(it, _)| it.file.id).collect();
        let copied = parts.copies.iter().map(|(_, mark)| mark.file.id);
        // A commit may have been made that was never marked.
        parts.is_withdrawn |= parts.have_denied(|it| pipeline.table.knows(it));
        let replaced: Vec<FileId> = parts.files.iter().map(|it| it.file_id).chain(copied).collect();
        pipeline.table.replace(std::mem::take(&mut parts.files)).await?;
        parts.copy(pipeline).await?;
        pipeline.table.clear(&emptied).await?;
        let (chunks, failures) = (parts.chunks as u64, std::mem::take(&mut parts.failures));
        parts.mark(run.pass, pipeline, &replaced).await?;
        match run.pass {
            Pass::Vectors => run.progress.add_vectors(files, chunks, &failures),
            Pass::Whole | Pass::Words => {
                run.progress.add_done(files, chunks, &failures);
                pipeline.unasked.note(&run.progress, files, chunks);
            }
        }
        drop(committing);
        // Bringing indexes up to date takes room; where there is little, they wait like everything else. So they do in a pause.
        if pipeline.space.check().is_ok() && pipeline.gate.pause().is_none() {
            pipeline.table.catch_up().await;
        }
        Ok(())
    }
}

/// Keeps the files that the catalog still waits for as they were read. Others have changed or gone since, or an urgent
/// run was quicker: to store what was read then would put the old over the new. Also returns how many chunks of each file
/// that is to be copied wait for their vectors: only commits change that, and this is one.
async fn wanted(files: Vec<Ready>, pass: Pass, pipeline: &Pipeline) -> Result<(Vec<Ready>, HashMap<FileId, u32>)> {
    let catalog = pipeline.catalog.clone();
    let originals =
        files.iter().filter_map(|it| if let Done::SameAs(_, from) = it.outcome { Some(from) } else { None });
    let ids: Vec<FileId> = files.iter().map(|it| it.record.id).chain(originals).collect();
    blocking(move || {
        let now: HashMap<FileId, FileRecord> = catalog.records(&ids)?.into_iter().map(|it| (it.id, it)).collect();
        let mut again = Vec::new();
        let mut wanted = Vec::with_capacity(files.len());
        let mut awaiting = HashMap::new();
        for file in files {
            let Some(present) = now.get(&file.record.id).filter(|it| is_as_read(pass, &file.record, it)) else {
                continue;
            };
            if holds(pass, &file, present, &now) {
                if let Done::SameAs(_, from) = file.outcome {
                    awaiting.insert(from, catalog.awaiting_of(from)?);
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

/// Whatever makes a file pending anew takes its tries back: also a change that left size and time as they were.
fn is_as_read(pass: Pass, read: &FileRecord, present: &FileRecord) -> bool {
    let state = match pass {
        Pass::Whole | Pass::Words => present.state == FileState::Pending && present.tries > 0,
        // Evidence may have come beside it.
        Pass::Vectors => {
            present.state == FileState::Indexed && (present.hash, present.chunks) == (read.hash, read.chunks)
        }
    };
    state && present.found.size == read.found.size && present.found.modified_ns == read.found.modified_ns
}

/// Says whether what was made of a file is still true of its place and of the file that it is a copy of.
fn holds(pass: Pass, file: &Ready, present: &FileRecord, now: &HashMap<FileId, FileRecord>) -> bool {
    let read = &file.record;
    let moved = present.found.path != read.found.path || present.root != read.root;
    match &file.outcome {
        _ if pass != Pass::Vectors && !AsRead::of(read).is_true_of(present) => false,
        // It may not have been where it was looked for.
        Done::Without(..) => !moved,
        Done::SameAs(facts, from) => {
            let is_same = |it: &FileRecord| it.state == FileState::Indexed && it.hash == Some(facts.hash);
            now.get(from).is_some_and(is_same)
        }
        Done::Embedded(..) => present.extension == read.extension,
    }
}

/// A batch by what is to be done.
#[derive(Default)]
struct Parts {
    files: Vec<FileChunks>,
    copies: Vec<(FileId, IndexedMark)>,
    /// Chunks without a vector of those that are copied.
    awaiting: HashMap<FileId, u32>,
    marks: Vec<IndexedMark>,
    /// With the number of chunks that each was known to have.
    reasons: Vec<(ReasonMark, u32)>,
    /// Where those with reasons were looked for.
    places: Vec<(FileId, PathBuf)>,
    /// Where the others were read.
    read: HashMap<FileId, PathBuf>,
    /// Whether one of them may not be read any more, and was read before.
    is_withdrawn: bool,
    /// Names of files that failed, for the progress.
    failures: Vec<String>,
    chunks: usize,
}

impl Parts {
    fn push(&mut self, file: Ready) -> Option<OwnedSemaphorePermit> {
        let record = &file.record;
        if !matches!(file.outcome, Done::Without(..)) {
            self.read.insert(record.id, record.absolute());
        }
        match file.outcome {
            Done::Embedded(facts, chunks) => {
                self.chunks += chunks.len();
                let awaiting = chunks.iter().filter(|it| it.vector.is_empty()).count() as u32;
                let mark = indexed(record, facts, chunks.len() as u32);
                self.marks.push(IndexedMark { awaiting, ..mark });
                self.files.push(FileChunks { file_id: record.id, chunks });
            }
            Done::SameAs(facts, from) => self.copies.push((from, indexed(record, facts, 0))),
            Done::Without(facts, reason, detail) => {
                if reason.state() == FileState::Failed {
                    self.failures.push(format!("{}: {}", record.found.path.display(), reason.name()));
                }
                self.is_withdrawn |= reason == Reason::PermissionDenied && record.chunks > 0;
                self.places.push((record.id, record.found.path.clone()));
                self.reasons.push((without(record, facts, reason, detail), record.chunks));
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
                // The store has lost the original: both are read for themselves.
                0 => lost.extend([from, mark.file.id]),
                chunks => self.marks.push(IndexedMark { chunks, awaiting, ..mark }),
            }
        }
        let catalog = pipeline.catalog.clone();
        blocking(move || catalog.requeue(&RequeueScope::Ids(lost)).map(drop)).await
    }

    /// Says whether this holds for one that may not be read.
    fn have_denied(&self, of: impl Fn(FileId) -> bool) -> bool {
        self.reasons.iter().any(|(it, _)| it.reason == Reason::PermissionDenied && of(it.file.id))
    }

    /// Marks the files, and sets right what was stored of those that are another by now.
    async fn mark(self, pass: Pass, pipeline: &Pipeline, replaced: &[FileId]) -> Result<()> {
        let catalog = pipeline.catalog.clone();
        let (marks, reasons, places, read) = (self.marks, self.reasons, self.places, self.read);
        let is_withdrawn = self.is_withdrawn;
        let expected = (marks.len() + reasons.len()) as u64;
        let ids: Vec<FileId> = replaced.iter().copied().chain(reasons.iter().map(|(it, _)| it.file.id)).collect();
        let marked = blocking(move || {
            if is_withdrawn {
                purge::ask(&catalog)?;
            }
            match pass {
                Pass::Whole | Pass::Words => {
                    let reasons: Vec<ReasonMark> = reasons.into_iter().map(|(it, _)| it).collect();
                    let marked = catalog.mark_reason(&reasons)?;
                    requeue_moved(&catalog, &places)?;
                    Ok(marked + catalog.mark_indexed(&marks)?)
                }
                // It may be known by now that a file has to be read again, and that stays.
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
        let unwanted = blocking(move || unwanted(&catalog, stored)).await?;
        let places = unwanted.iter().filter_map(|it| read.get(it).cloned()).collect();
        if scan::are_left_out_at(&pipeline.catalog, places).await? {
            let catalog = pipeline.catalog.clone();
            blocking(move || purge::ask(&catalog)).await?;
        }
        pipeline.table.clear(&unwanted).await
    }
}

/// Lets files that could not be marked be read again, as if they had not been taken: whoever found that they are others was
/// there first.
fn requeue_unmarked(catalog: &Catalog, ids: &[FileId]) -> Result<()> {
    let mut left = catalog.records(ids)?;
    left.retain(|it| it.state == FileState::Pending && it.tries > 0);
    catalog.requeue(&RequeueScope::Ids(left.iter().map(|it| it.id).collect())).map(drop)
}

/// Returns those of these files, just stored, of which the store is to have nothing: they were deleted meanwhile, and their
/// burial may have come before, or a walk has found that they are not to be read.
pub(super) fn unwanted(catalog: &Catalog, mut stored: Vec<FileId>) -> Result<Vec<FileId>> {
    let known: HashMap<FileId, FileState> = catalog.records(&stored)?.iter().map(|it| (it.id, it.state)).collect();
    stored.retain(|it| !matches!(known.get(it), Some(FileState::Pending | FileState::Indexed)));
    if stored.iter().any(|it| known.contains_key(it)) {
        // Before the rows go: what is to leave the disk is not forgotten over a crash.
        purge::ask(catalog)?;
    }
    Ok(stored)
}

/// Lets files be read again that the catalog moved while they were being marked: where they were looked for, they may
/// not have been any more.
fn requeue_moved(catalog: &Catalog, places: &[(FileId, PathBuf)]) -> Result<()> {
    let ids: Vec<FileId> = places.iter().map(|it| it.0).collect();
    let places: HashMap<FileId, &PathBuf> = places.iter().map(|(id, path)| (*id, path)).collect();
    let present = catalog.records(&ids)?;
    let moved = present.iter().filter(|it| places.get(&it.id).is_some_and(|path| **path != it.found.path));
    catalog.requeue(&RequeueScope::Ids(moved.map(|it| it.id).collect()))?;
    Ok(())
}

fn indexed(record: &FileRecord, facts: Facts, chunks: u32) -> IndexedMark {
    IndexedMark {
        file: AsRead::of(record),
        hash: facts.hash,
        kind: facts.kind,
        media_type: facts.media_type,
        chunks,
        detail: facts.detail,
        awaiting: 0,
        contents: facts.contents,
    }
}

fn without(record: &FileRecord, facts: Option<Facts>, reason: Reason, detail: String) -> ReasonMark {
    let (hash, kind, media_type, contents) = match facts {
        Some(facts) => (Some(facts.hash), facts.kind, facts.media_type, facts.contents),
        None => (None, record.kind, record.media_type.clone(), Contents::default()),
    };
    ReasonMark { file: AsRead::of(record), reason, detail, hash, kind, media_type, contents }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_was_stored_meanwhile_only_files_that_are_read_or_to_be_read_keep_it() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = crate::index::renewal::tests::catalog(dir.path());
        let deleted = 99;
        let is_asked = || catalog.meta_get("purge_asked_ms").unwrap().is_some();
        let failed = catalog.select(&crate::model::FileFilter::default()).unwrap()[0];
        assert_eq!((unwanted(&catalog, vec![deleted]).unwrap(), is_asked()), (vec![deleted], false));
        assert_eq!((unwanted(&catalog, vec![failed]).unwrap(), is_asked()), (vec![failed], true));
        catalog.requeue(&RequeueScope::All).unwrap();
        assert_eq!(unwanted(&catalog, vec![failed]).unwrap(), [0; 0]);
    }
}
