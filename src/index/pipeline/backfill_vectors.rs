//! Second pass over a large batch of new files: embeds the files that are indexed by keywords only.
//!
//! Extraction is much faster than embedding. A large batch of new files is therefore extracted first, and is searchable
//! by keywords at once. Then its chunks are read back from the store, those of recent and small files first. They go
//! through the embedder and replace the rows without vectors.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::error::Result;
use crate::index::blocking_tasks::blocking;
use crate::index::pipeline::context::{Pass, Pipeline, Run};
use crate::index::pipeline::read::{FileFacts, ReadFile, ReadOutcome, TextBudget};
use crate::index::pipeline::urgent_queue::MAX_FILES_PER_CHANGE;
use crate::model::{Chunk, Contents, FileId, FileRecord, FileState};

/// With at least this many pending files, a first pass indexes them by keywords only. Fewer files are embedded in
/// seconds, and two passes would only write them twice.
const TWO_PASS_MIN_FILES: u64 = 400;

/// With at least this many bytes of pending files, a first pass indexes them by keywords only, regardless of their
/// number. Embedding this much text takes about a minute.
const TWO_PASS_MIN_BYTES: u64 = 8 << 20;

/// Files modified within this time get their vectors before all others.
const RECENT_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Maximum files whose chunks are read from the store together: a query of the table takes as long for a thousand files
/// as for one. Also limits how many files are finished before newly arrived files get their turn.
pub(crate) const BACKFILL_BATCH_FILES: usize = 1_024;

/// Maximum chunks read from the store together, unless one file has more.
const MAX_CHUNKS_PER_READ: u32 = 1_000;

impl Pipeline {
    /// Returns which pass a run makes first: keywords only if there are many pending files, else keywords and vectors.
    pub(crate) async fn first_pass(&self, run: &Run) -> Result<Pass> {
        if !self.table.allows_missing_vectors() {
            return Ok(Pass::Whole);
        }
        let catalog = self.catalog.clone();
        let (files, bytes) = blocking(move || catalog.pending_size()).await?;
        let is_much = match run.max_files {
            Some(most) => files.min(most) >= TWO_PASS_MIN_FILES,
            None => files >= TWO_PASS_MIN_FILES || bytes >= TWO_PASS_MIN_BYTES,
        };
        Ok(if is_much { Pass::Words } else { Pass::Whole })
    }

    /// Counts the pending files that this run has yet to read, up to `most` + 1. Excludes urgent files and skipped
    /// files.
    pub(crate) async fn count_unread(&self, run: &Run, most: usize) -> Result<usize> {
        let (catalog, urgent) = (self.catalog.clone(), self.runs.urgent.clone());
        let looked_at = most + MAX_FILES_PER_CHANGE + run.deferral.max_skipped();
        let mut untried = blocking(move || catalog.untried_files(looked_at)).await?;
        urgent.excluding(|is_urgent| untried.retain(|it| !is_urgent(*it)));
        run.deferral.retain_unskipped(&mut untried);
        Ok(untried.len().min(most + 1))
    }
}

/// First stage of the second pass: sends files without vectors to the read stage. `left` files were unread when the
/// pass began; the stage stops when more are unread, because new files go first. Files that lose their vectors again,
/// or are skipped, wait for the caller's next round.
pub(crate) async fn feed(pipeline: &Pipeline, run: &Run, left: usize, to_read: mpsc::Sender<FileRecord>) -> Result<()> {
    let recent = SystemTime::now().checked_sub(RECENT_AGE).and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    let recent_ns = recent.map_or(0, |it| it.as_nanos() as i64);
    let catalog = pipeline.catalog.clone();
    let mut files = blocking(move || catalog.awaiting_files(recent_ns)).await?;
    files.truncate(run.max_files.map_or(usize::MAX, |it| it as usize));
    for part in files.chunks(BACKFILL_BATCH_FILES) {
        if run.cancel.is_cancelled() || pipeline.count_unread(run, left).await? > left {
            break;
        }
        pipeline.disk_space.check()?;
        let (catalog, ids) = (pipeline.catalog.clone(), part.to_vec());
        let mut records = blocking(move || catalog.records(&ids)).await?;
        records.retain(|it| it.state == FileState::Indexed);
        run.progress.add_resent(records.len() as u64);
        for record in records {
            if to_read.send(record).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Second stage of the second pass: reads the chunks of these files from the store.
pub(crate) async fn read(
    pipeline: &Pipeline,
    run: &Run,
    text_budget: TextBudget,
    files: mpsc::Receiver<FileRecord>,
    to_embed: mpsc::Sender<ReadFile>,
) -> Result<()> {
    let mut groups =
        ReceiverStream::new(files).take_until(Box::pin(run.cancel.cancelled())).ready_chunks(BACKFILL_BATCH_FILES);
    while let Some(group) = groups.next().await {
        for part in split_by_chunks(group) {
            for file in read_part(pipeline, run, &text_budget, part).await? {
                if to_embed.send(file).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Splits a group of files so that no part has too many chunks to read at once.
fn split_by_chunks(group: Vec<FileRecord>) -> Vec<Vec<FileRecord>> {
    let mut parts: Vec<Vec<FileRecord>> = Vec::new();
    let mut chunks = u32::MAX;
    for record in group {
        chunks = chunks.saturating_add(record.chunks);
        match parts.last_mut() {
            Some(part) if chunks <= MAX_CHUNKS_PER_READ => part.push(record),
            _ => {
                chunks = record.chunks;
                parts.push(vec![record]);
            }
        }
    }
    parts
}

async fn read_part(
    pipeline: &Pipeline,
    run: &Run,
    budget: &TextBudget,
    part: Vec<FileRecord>,
) -> Result<Vec<ReadFile>> {
    let mut chunks = HashMap::<FileId, Vec<Chunk>>::new();
    for it in pipeline.table.chunks_of(part.iter().map(|it| it.id).collect()).await? {
        chunks.entry(it.file_id).or_default().push(it.chunk);
    }
    let mut read = Vec::with_capacity(part.len());
    for record in part {
        let (mut chunks, hash) = (chunks.remove(&record.id).unwrap_or_default(), record.hash);
        chunks.sort_by_key(|it| it.ordinal);
        // Skips a file that changed or got skill results since it was indexed: the next round takes it.
        let Some(hash) = hash.filter(|_| !chunks.is_empty() && chunks.len() == record.chunks as usize) else {
            run.progress.remove_expected(1);
            continue;
        };
        let (kind, media_type, detail) = (record.kind, record.media_type.clone(), record.detail.clone());
        let permit = Some(budget.reserve(&chunks).await);
        // `contents` is left empty, because this pass does not change the contents recorded in the catalog.
        let facts = FileFacts { hash, kind, media_type, detail, contents: Contents::default() };
        let outcome = ReadOutcome::Chunks(facts, chunks);
        read.push(ReadFile { record, outcome, permit });
    }
    Ok(read)
}
