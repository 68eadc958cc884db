//! Last stage: one commit for many files, then the catalog marks them.

use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::catalog::{IndexedMark, ReasonMark, RequeueScope};
use crate::error::{Error, Result};
use crate::index::blocking;
use crate::index::embedding::{Done, Ready};
use crate::index::pipeline::{Pipeline, Run};
use crate::index::reading::Facts;
use crate::model::{FileChunks, FileId, FileRecord, Reason};

/// Chunks that make a commit. Every commit is a new version and a new fragment of the table: too small ones rot it.
const COMMIT_CHUNKS: usize = 2_000;
/// The longest that a finished file waits for its commit while others are still coming.
const COMMIT_AFTER: Duration = Duration::from_secs(5);
/// A pause in the flow that ends a batch early: a single saved file is searchable at once.
const COMMIT_ON_PAUSE: Duration = Duration::from_millis(150);

/// Collects files, commits them in batches and marks them.
pub(crate) async fn store(pipeline: &Pipeline, run: &Run, mut groups: mpsc::Receiver<Vec<Ready>>) -> Result<()> {
    let mut batch = Batch::default();
    loop {
        match tokio::time::timeout(COMMIT_ON_PAUSE, groups.recv()).await {
            Ok(Some(group)) => {
                group.into_iter().for_each(|file| batch.push(file));
                if batch.is_due() {
                    commit(std::mem::take(&mut batch), pipeline, run).await?;
                }
            }
            Ok(None) => return commit(batch, pipeline, run).await,
            Err(_pause) => commit(std::mem::take(&mut batch), pipeline, run).await?,
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
    files: Vec<FileChunks>,
    copies: Vec<(FileId, IndexedMark)>,
    marks: Vec<IndexedMark>,
    reasons: Vec<ReasonMark>,
    /// Names of files that failed, for the progress.
    failures: Vec<String>,
    chunks: usize,
    permits: Vec<OwnedSemaphorePermit>,
    since: Option<Instant>,
}

impl Batch {
    fn push(&mut self, file: Ready) {
        self.since.get_or_insert_with(Instant::now);
        self.permits.extend(file.permit);
        let record = &file.record;
        match file.outcome {
            Done::Embedded(facts, chunks) => {
                self.chunks += chunks.len();
                self.marks.push(indexed(record, facts, chunks.len() as u32));
                self.files.push(FileChunks { file_id: record.id, chunks });
            }
            Done::SameAs(facts, from) => self.copies.push((from, indexed(record, facts, 0))),
            Done::Without(facts, reason, detail) => {
                if reason.state() == crate::model::FileState::Failed {
                    self.failures.push(format!("{}: {}", record.found.path.display(), reason.name()));
                }
                self.reasons.push(without(record, facts, reason, detail));
            }
        }
    }

    fn is_due(&self) -> bool {
        self.chunks >= COMMIT_CHUNKS || self.since.is_some_and(|since| since.elapsed() >= COMMIT_AFTER)
    }

    /// Store first, catalog second: a crash in between means work done twice, never a file marked that is not there.
    async fn commit(mut self, pipeline: &Pipeline, run: &Run) -> Result<()> {
        if self.since.is_none() {
            return Ok(());
        }
        let files = (self.marks.len() + self.copies.len() + self.reasons.len()) as u64;
        let emptied: Vec<FileId> = self.reasons.iter().map(|it| it.id).collect();
        let copied = self.copies.iter().map(|(_, mark)| mark.id);
        let replaced: Vec<FileId> = self.files.iter().map(|it| it.file_id).chain(copied).collect();
        let _together = pipeline.commits.lock().await;
        pipeline.table.replace(std::mem::take(&mut self.files)).await?;
        for (from, mut mark) in std::mem::take(&mut self.copies) {
            mark.chunks = pipeline.table.copy(from, mark.id).await? as u32;
            self.chunks += mark.chunks as usize;
            if mark.chunks > 0 {
                self.marks.push(mark);
            } else {
                // The original has gone since it was looked up, or the store has lost it: both are read for themselves.
                let catalog = pipeline.catalog.clone();
                blocking(move || catalog.requeue(&RequeueScope::Ids(vec![from]))).await?;
            }
        }
        pipeline.table.clear(&emptied).await?;
        self.mark(pipeline, &replaced).await?;
        run.progress.add_done(files, self.chunks as u64, &self.failures);
        Ok(())
    }

    /// Marks the files, and takes those out of the store again that were deleted meanwhile.
    async fn mark(&mut self, pipeline: &Pipeline, replaced: &[FileId]) -> Result<()> {
        let catalog = pipeline.catalog.clone();
        let (marks, reasons) = (std::mem::take(&mut self.marks), std::mem::take(&mut self.reasons));
        let expected = marks.len();
        let marked = blocking(move || {
            catalog.mark_reason(&reasons)?;
            catalog.mark_indexed(&marks)
        })
        .await?;
        if marked < expected as u64 {
            let (catalog, ids) = (pipeline.catalog.clone(), replaced.to_vec());
            let alive = blocking(move || catalog.records(&ids)).await?;
            let gone: Vec<FileId> =
                replaced.iter().copied().filter(|id| !alive.iter().any(|record| record.id == *id)).collect();
            pipeline.table.clear(&gone).await?;
        }
        Ok(())
    }
}

fn indexed(record: &FileRecord, facts: Facts, chunks: u32) -> IndexedMark {
    IndexedMark {
        id: record.id,
        size: record.found.size,
        modified_ns: record.found.modified_ns,
        hash: facts.hash,
        kind: facts.kind,
        media_type: facts.media_type,
        chunks,
        detail: facts.detail,
    }
}

fn without(record: &FileRecord, facts: Option<Facts>, reason: Reason, detail: String) -> ReasonMark {
    let (hash, kind, media_type) = match facts {
        Some(facts) => (Some(facts.hash), facts.kind, facts.media_type),
        None => (None, record.kind, record.media_type.clone()),
    };
    ReasonMark {
        id: record.id,
        size: record.found.size,
        modified_ns: record.found.modified_ns,
        reason,
        detail,
        hash,
        kind,
        media_type,
    }
}
