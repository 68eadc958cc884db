//! Third stage of the pipeline: gets vectors from the cache or the embedder. In the keyword pass, only files that are
//! already in the index get vectors.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::catalog::{VectorCache, VectorKey};
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking_tasks::blocking;
use crate::index::pipeline::context::{Pass, Pipeline, Run};
use crate::index::pipeline::read::{FileFacts, ReadFile, ReadOutcome};
use crate::model::{Chunk, Embedded, FileId, FileRecord, Reason, has_unit_norm};

/// Maximum files embedded together, so that the embedder's threads share enough texts to stay busy.
const GROUP_FILES: usize = 32;
/// Groups that are embedded at the same time: while one finishes its last text, the next keeps the threads busy.
const CONCURRENT_GROUPS: usize = 2;
/// An urgent run that must embed more texts than this loses its priority in the embedder, because it would delay a job.
const MAX_URGENT_TEXTS: usize = 32;

/// Maximum time that an embedding call in progress may take after its run is cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// A file ready for the store.
#[derive(Debug)]
pub(crate) struct EmbeddedFile {
    pub(crate) record: FileRecord,
    pub(crate) outcome: CommitAction,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// What the commit does with a file.
#[derive(Debug)]
pub(crate) enum CommitAction {
    /// Store these chunks.
    Embedded(FileFacts, Vec<Embedded>),
    /// Copy the chunks of the file with this id, which has the same content.
    SameAs(FileFacts, FileId),
    /// Store nothing and mark the file in the catalog with this reason and detail.
    Without(Option<FileFacts>, Reason, String),
}

/// Embeds files as they arrive and sends them on in groups.
pub(crate) async fn embed(
    pipeline: &Pipeline,
    run: &Run,
    files: mpsc::Receiver<ReadFile>,
    to_store: mpsc::Sender<Vec<EmbeddedFile>>,
) -> Result<()> {
    let mut groups = ReceiverStream::new(files)
        .take_until(Box::pin(run.cancel.cancelled()))
        .ready_chunks(GROUP_FILES)
        .map(|group| embed_group(pipeline, run, group))
        .buffered(CONCURRENT_GROUPS);
    while let Some(group) = groups.next().await {
        if to_store.send(group?).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn embed_group(pipeline: &Pipeline, run: &Run, group: Vec<ReadFile>) -> Result<Vec<EmbeddedFile>> {
    // Decides once which files get no vectors, because the table changes while the texts are embedded.
    let waiting: Vec<bool> = group.iter().map(|it| defers_vectors(pipeline, run, it)).collect();
    let texts = group.iter().zip(&waiting).filter(|(_, waits)| !**waits).flat_map(|(file, _)| chunks_to_embed(file));
    let texts: Vec<&Chunk> = texts.collect();
    let vectors = match embed_chunks(pipeline, run, &texts).await {
        Ok(vectors) => vectors,
        // The backend rejected one of the texts: embeds the files one by one to find it, so that the others continue.
        Err(error) if error.code == ErrorCode::InvalidArgument => {
            if group.len() == 1 {
                return Ok(vec![embed_failed(group, &error.message)]);
            }
            let mut ready = Vec::with_capacity(group.len());
            for file in group {
                ready.extend(Box::pin(embed_group(pipeline, run, vec![file])).await?);
            }
            return Ok(ready);
        }
        Err(error) => return Err(error),
    };
    let mut vectors = vectors.into_iter();
    let with = |(file, waits)| match waits {
        true => with_vectors(file, &mut std::iter::repeat_with(Vec::new)),
        false => with_vectors(file, &mut vectors),
    };
    Ok(group.into_iter().zip(waiting).map(with).collect())
}

/// Returns whether a file is indexed by keywords only for now. Files that are already in the index get vectors at once:
/// without them they would rank lower than before.
fn defers_vectors(pipeline: &Pipeline, run: &Run, file: &ReadFile) -> bool {
    run.pass == Pass::Words && pipeline.table.allows_missing_vectors() && !pipeline.table.has_file(file.record.id)
}

fn chunks_to_embed(file: &ReadFile) -> &[Chunk] {
    match &file.outcome {
        ReadOutcome::Chunks(_, chunks) => chunks,
        ReadOutcome::SameAs(..) | ReadOutcome::Without(..) => &[],
    }
}

/// Pairs each chunk of a file with its vector. `vectors` yields the vectors of all chunks of the group, in order.
fn with_vectors(file: ReadFile, vectors: &mut impl Iterator<Item = Vec<f32>>) -> EmbeddedFile {
    let outcome = match file.outcome {
        ReadOutcome::Chunks(facts, chunks) => {
            let embedded = chunks.into_iter().zip(vectors).map(|(chunk, vector)| Embedded { chunk, vector });
            CommitAction::Embedded(facts, embedded.collect())
        }
        ReadOutcome::SameAs(facts, from) => CommitAction::SameAs(facts, from),
        ReadOutcome::Without(facts, reason, detail) => CommitAction::Without(facts, reason, detail),
    };
    EmbeddedFile { record: file.record, outcome, permit: file.permit }
}

fn embed_failed(mut group: Vec<ReadFile>, message: &str) -> EmbeddedFile {
    let file = group.pop().expect("the caller has one file");
    let facts = match file.outcome {
        ReadOutcome::Chunks(facts, _) | ReadOutcome::SameAs(facts, _) => Some(facts),
        ReadOutcome::Without(facts, ..) => facts,
    };
    EmbeddedFile {
        record: file.record,
        outcome: CommitAction::Without(facts, Reason::EmbedFailed, message.to_string()),
        permit: file.permit,
    }
}

/// Waits until the run is cancelled and [`CANCEL_GRACE`] has passed.
async fn cancelled_past_grace(run: &Run) {
    run.cancel.cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

/// Returns the vectors of these chunks, in order. Equal texts are embedded once.
pub(crate) async fn embed_chunks(pipeline: &Pipeline, run: &Run, chunks: &[&Chunk]) -> Result<Vec<Vec<f32>>> {
    let fingerprint = pipeline.workers.embedder.fingerprint();
    let keys: Vec<VectorKey> = chunks.iter().map(|it| VectorCache::key(fingerprint, &it.text)).collect();
    let mut known: HashMap<VectorKey, Vec<f32>> = HashMap::new();
    if !run.full {
        let (cache, wanted) = (pipeline.caches.vectors.clone(), keys.clone());
        let cached = blocking(move || Ok(cache.get(&wanted))).await?;
        // Uses a cached vector only if its norm is 1. Any other norm means that the disk corrupted the vector, which is
        // then computed again.
        let sound = |vector: Option<Vec<f32>>| vector.filter(|it| has_unit_norm(it));
        known.extend(keys.iter().zip(cached).filter_map(|(key, vector)| Some((*key, sound(vector)?))));
    }
    let mut missing: Vec<(VectorKey, &Chunk)> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (key, chunk) in keys.iter().zip(chunks) {
        if !known.contains_key(key) && seen.insert(*key) {
            missing.push((*key, chunk));
        }
    }
    for part in missing.chunks(pipeline.workers.embedder.batch_size().max(1)) {
        tokio::select! {
            () = pipeline.pause.wait_until_open() => (),
            // A cancelled run stops waiting for the end of the pause, but this batch is still embedded.
            () = run.cancel.cancelled() => (),
        }
        let texts: Vec<String> = part.iter().map(|(_, chunk)| chunk.text.clone()).collect();
        let embedding = if run.urgent && missing.len() <= MAX_URGENT_TEXTS {
            pipeline.workers.embedder.embed_urgent(&texts)
        } else {
            pipeline.workers.embedder.embed_documents(&texts)
        };
        let vectors = tokio::select! {
            vectors = embedding => vectors?,
            // Gives up some seconds after the cancellation, because the embedding server may hang.
            () = cancelled_past_grace(run) => return Err(Error::new(ErrorCode::Cancelled, "cancelled while embedding")),
        };
        run.progress.add_embedded(part.len() as u64, part.iter().map(|(_, chunk)| u64::from(chunk.tokens)).sum());
        let fresh: Vec<(VectorKey, Vec<f32>)> = part.iter().map(|(key, _)| *key).zip(vectors).collect();
        known.extend(fresh.iter().cloned());
        let (cache, chunks) = (pipeline.caches.vectors.clone(), pipeline.table.chunk_count());
        blocking(move || {
            let fresh: Vec<(VectorKey, &[f32])> = fresh.iter().map(|(key, vector)| (*key, &vector[..])).collect();
            cache.put(&fresh, chunks);
            Ok(())
        })
        .await?;
    }
    Ok(keys.iter().map(|key| known[key].clone()).collect())
}
