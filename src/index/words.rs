//! The second pass over new files: what is found by its words so far gets its vectors.
//!
//! Extraction outruns the embedder by far. When many new files come at once they are read first and found by their words at
//! once; then their chunks come back out of the store, those of recent and small files first, go through the embedder, and
//! take the place of what they were.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::error::Result;
use crate::index::blocking;
use crate::index::pipeline::{Pass, Pipeline, Run};
use crate::index::reading::{Facts, Outcome, ReadFile, TextBudget};
use crate::index::urgent::MOST_FILES;
use crate::model::{Chunk, Contents, FileId, FileRecord, FileState};

/// Pending files from which on words come first. Fewer are embedded in seconds, and would only be written twice.
const WORTH_TWO_PASSES: u64 = 400;

/// Bytes of pending files from which on words come first, however few they are: a minute of embedding, if they are text.
const BYTES_WORTH_TWO_PASSES: u64 = 8 << 20;

/// Files that were modified so lately get their vectors before all others.
const RECENT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Files whose chunks are read together: where the table has to be asked, it takes as long for one as for a thousand. So many
/// are under way when others come that nobody can find yet.
pub(crate) const FILES_TOGETHER: usize = 1_024;

/// Chunks that are read together at most, unless one file has more.
const CHUNKS_TOGETHER: u32 = 1_000;

impl Pipeline {
    /// Says which pass is the first for what is pending.
    pub(crate) async fn first_pass(&self, run: &Run) -> Result<Pass> {
        if !self.table.may_wait_for_vectors() {
            return Ok(Pass::Whole);
        }
        let catalog = self.catalog.clone();
        let (files, bytes) = blocking(move || catalog.pending_size()).await?;
        let is_much = match run.max_files {
            Some(most) => files.min(most) >= WORTH_TWO_PASSES,
            None => files >= WORTH_TWO_PASSES || bytes >= BYTES_WORTH_TWO_PASSES,
        };
        Ok(if is_much { Pass::Words } else { Pass::Whole })
    }

    /// Counts the files that are to be read, that no urgent run takes and this one does not leave alone, up to one more than
    /// `most`.
    pub(crate) async fn unread(&self, run: &Run, most: usize) -> Result<usize> {
        let (catalog, urgent) = (self.catalog.clone(), self.urgent.clone());
        let looked_at = most + MOST_FILES + run.waiting.most_left();
        let mut untried = blocking(move || catalog.all_untried(looked_at)).await?;
        urgent.without(|is_urgent| untried.retain(|it| !is_urgent(*it)));
        run.waiting.without_left(&mut untried);
        Ok(untried.len().min(most + 1))
    }
}

/// First stage: files that wait for their vectors, until files come that nobody can find yet: more than the `left` that
/// cannot be read anyway. Those that wait again when all have been sent, or that were left out, are for another round;
/// whoever calls sees to it.
pub(crate) async fn feed(pipeline: &Pipeline, run: &Run, left: usize, to_read: mpsc::Sender<FileRecord>) -> Result<()> {
    let recent = SystemTime::now().checked_sub(RECENT).and_then(|it| it.duration_since(UNIX_EPOCH).ok());
    let recent_ns = recent.map_or(0, |it| it.as_nanos() as i64);
    let catalog = pipeline.catalog.clone();
    let mut files = blocking(move || catalog.awaiting(recent_ns)).await?;
    files.truncate(run.max_files.map_or(usize::MAX, |it| it as usize));
    for part in files.chunks(FILES_TOGETHER) {
        if run.cancel.is_cancelled() || pipeline.unread(run, left).await? > left {
            break;
        }
        pipeline.space.check()?;
        let (catalog, ids) = (pipeline.catalog.clone(), part.to_vec());
        let mut records = blocking(move || catalog.records(&ids)).await?;
        records.retain(|it| it.state == FileState::Indexed);
        run.progress.send_again(records.len() as u64);
        for record in records {
            if to_read.send(record).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Second stage: their chunks, out of the store.
pub(crate) async fn read(
    pipeline: &Pipeline,
    run: &Run,
    text_budget: TextBudget,
    files: mpsc::Receiver<FileRecord>,
    to_embed: mpsc::Sender<ReadFile>,
) -> Result<()> {
    let mut groups =
        ReceiverStream::new(files).take_until(Box::pin(run.cancel.cancelled())).ready_chunks(FILES_TOGETHER);
    while let Some(group) = groups.next().await {
        for part in parts(group) {
            for file in read_part(pipeline, run, &text_budget, part).await? {
                if to_embed.send(file).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Cuts a group where its chunks become too many to be read at once.
fn parts(group: Vec<FileRecord>) -> Vec<Vec<FileRecord>> {
    let mut parts: Vec<Vec<FileRecord>> = Vec::new();
    let mut chunks = u32::MAX;
    for record in group {
        chunks = chunks.saturating_add(record.chunks);
        match parts.last_mut() {
            Some(part) if chunks <= CHUNKS_TOGETHER => part.push(record),
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
        // It has changed since, or evidence was added: then it comes again in the next round.
        let Some(hash) = hash.filter(|_| !chunks.is_empty() && chunks.len() == record.chunks as usize) else {
            run.progress.take_back(1);
            continue;
        };
        let (kind, media_type, detail) = (record.kind, record.media_type.clone(), record.detail.clone());
        let permit = Some(budget.reserve(&chunks).await);
        // A mark of the vectors says nothing of what lies in the file.
        let facts = Facts { hash, kind, media_type, detail, contents: Contents::default() };
        let outcome = Outcome::Chunks(facts, chunks);
        read.push(ReadFile { record, outcome, permit });
    }
    Ok(read)
}
