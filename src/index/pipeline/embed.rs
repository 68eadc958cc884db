//! Third stage: vectors from the cache or the embedder. In the keyword pass, only files already in the index get vectors.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::catalog::{VectorCache, VectorKey};
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking;
use crate::index::pipeline::read::{Facts, Outcome, ReadFile};
use crate::index::pipeline::{Pass, Pipeline, Run};
use crate::model::{Chunk, Embedded, FileId, FileRecord, Reason, is_unit};

/// Maximum files embedded together, so that the embedder's threads share enough texts to stay busy.
const FILES_TOGETHER: usize = 32;
/// Groups in the embedder at once: while one finishes its last text, the next keeps the threads busy.
const GROUPS_AT_ONCE: usize = 2;
/// An urgent run with more missing texts than this loses its priority in the embedder, because it would delay a job.
const TEXTS_BEFORE_OTHERS: usize = 32;

/// How long an embedding call in progress may take after its run is cancelled.
const IN_HAND: Duration = Duration::from_secs(10);

/// A file ready for the store.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) record: FileRecord,
    pub(crate) outcome: Done,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// The commit action for a file.
#[derive(Debug)]
pub(crate) enum Done {
    /// Store these chunks.
    Embedded(Facts, Vec<Embedded>),
    /// Copy the chunks of that file.
    SameAs(Facts, FileId),
    /// Only mark it in the catalog.
    Without(Option<Facts>, Reason, String),
}

/// Embeds files as they arrive and sends them on in groups.
pub(crate) async fn embed(
    pipeline: &Pipeline,
    run: &Run,
    files: mpsc::Receiver<ReadFile>,
    to_store: mpsc::Sender<Vec<Ready>>,
) -> Result<()> {
    let mut groups = ReceiverStream::new(files)
        .take_until(Box::pin(run.cancel.cancelled()))
        .ready_chunks(FILES_TOGETHER)
        .map(|group| embed_group(pipeline, run, group))
        .buffered(GROUPS_AT_ONCE);
    while let Some(group) = groups.next().await {
        if to_store.send(group?).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn embed_group(pipeline: &Pipeline, run: &Run, group: Vec<ReadFile>) -> Result<Vec<Ready>> {
    // Evaluated once: the table changes while the texts are embedded.
    let waiting: Vec<bool> = group.iter().map(|it| waits(pipeline, run, it)).collect();
    let texts = group.iter().zip(&waiting).filter(|(_, waits)| !**waits).flat_map(|(file, _)| chunks(file));
    let texts: Vec<&Chunk> = texts.collect();
    let vectors = match vectors_of(pipeline, run, &texts).await {
        Ok(vectors) => vectors,
        // The backend rejects a text: embed the files one by one to find it, so that the others continue.
        Err(error) if error.code == ErrorCode::InvalidArgument => {
            if group.len() == 1 {
                return Ok(vec![refused(group, &error.message)]);
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

/// Returns whether a file is indexed by keywords only for now. Files already in the index keep their vectors: without
/// them they would rank worse than before.
fn waits(pipeline: &Pipeline, run: &Run, file: &ReadFile) -> bool {
    run.pass == Pass::Words && pipeline.table.may_wait_for_vectors() && !pipeline.table.knows(file.record.id)
}

fn chunks(file: &ReadFile) -> &[Chunk] {
    match &file.outcome {
        Outcome::Chunks(_, chunks) => chunks,
        Outcome::SameAs(..) | Outcome::Without(..) => &[],
    }
}

/// Pairs each chunk with its vector. `vectors` holds the vectors of all chunks of the group, in order.
fn with_vectors(file: ReadFile, vectors: &mut impl Iterator<Item = Vec<f32>>) -> Ready {
    let outcome = match file.outcome {
        Outcome::Chunks(facts, chunks) => {
            let embedded = chunks.into_iter().zip(vectors).map(|(chunk, vector)| Embedded { chunk, vector });
            Done::Embedded(facts, embedded.collect())
        }
        Outcome::SameAs(facts, from) => Done::SameAs(facts, from),
        Outcome::Without(facts, reason, detail) => Done::Without(facts, reason, detail),
    };
    Ready { record: file.record, outcome, permit: file.permit }
}

fn refused(mut group: Vec<ReadFile>, message: &str) -> Ready {
    let file = group.pop().expect("the caller has one file");
    let facts = match file.outcome {
        Outcome::Chunks(facts, _) | Outcome::SameAs(facts, _) => Some(facts),
        Outcome::Without(facts, ..) => facts,
    };
    Ready {
        record: file.record,
        outcome: Done::Without(facts, Reason::EmbedFailed, message.to_string()),
        permit: file.permit,
    }
}

/// Waits until the run is cancelled and [`IN_HAND`] has passed.
async fn long_cancelled(run: &Run) {
    run.cancel.cancelled().await;
    tokio::time::sleep(IN_HAND).await;
}

/// Returns the vectors of these chunks, in order. Equal texts are embedded once.
pub(crate) async fn vectors_of(pipeline: &Pipeline, run: &Run, chunks: &[&Chunk]) -> Result<Vec<Vec<f32>>> {
    let fingerprint = pipeline.embedder.fingerprint();
    let keys: Vec<VectorKey> = chunks.iter().map(|it| VectorCache::key(fingerprint, &it.text)).collect();
    let mut known: HashMap<VectorKey, Vec<f32>> = HashMap::new();
    if !run.full {
        let (cache, wanted) = (pipeline.vectors.clone(), keys.clone());
        let cached = blocking(move || Ok(cache.get(&wanted))).await?;
        // A vector that the disk corrupted is computed again.
        let sound = |vector: Option<Vec<f32>>| vector.filter(|it| is_unit(it));
        known.extend(keys.iter().zip(cached).filter_map(|(key, vector)| Some((*key, sound(vector)?))));
    }
    let mut missing: Vec<(VectorKey, &Chunk)> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (key, chunk) in keys.iter().zip(chunks) {
        if !known.contains_key(key) && seen.insert(*key) {
            missing.push((*key, chunk));
        }
    }
    for part in missing.chunks(pipeline.embedder.batch_size().max(1)) {
        tokio::select! {
            () = pipeline.gate.passed() => (),
            // A batch in progress is finished.
            () = run.cancel.cancelled() => (),
        }
        let texts: Vec<String> = part.iter().map(|(_, chunk)| chunk.text.clone()).collect();
        let embedding = if run.urgent && missing.len() <= TEXTS_BEFORE_OTHERS {
            pipeline.embedder.embed_urgent(&texts)
        } else {
            pipeline.embedder.embed_documents(&texts)
        };
        let vectors = tokio::select! {
            vectors = embedding => vectors?,
            // The server may hang.
            () = long_cancelled(run) => return Err(Error::new(ErrorCode::Cancelled, "cancelled while embedding")),
        };
        run.progress.add_embedded(part.len() as u64, part.iter().map(|(_, chunk)| u64::from(chunk.tokens)).sum());
        let fresh: Vec<(VectorKey, Vec<f32>)> = part.iter().map(|(key, _)| *key).zip(vectors).collect();
        known.extend(fresh.iter().cloned());
        let (cache, chunks) = (pipeline.vectors.clone(), pipeline.table.chunk_count());
        blocking(move || {
            let fresh: Vec<(VectorKey, &[f32])> = fresh.iter().map(|(key, vector)| (*key, &vector[..])).collect();
            cache.put(&fresh, chunks);
            Ok(())
        })
        .await?;
    }
    Ok(keys.iter().map(|key| known[key].clone()).collect())
}
