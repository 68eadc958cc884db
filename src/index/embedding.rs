//! Third stage: vectors, from the cache or from the embedder; in the pass of the words of what is known already alone.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::catalog::{VectorCache, VectorKey};
use crate::error::{Error, ErrorCode, Result};
use crate::index::blocking;
use crate::index::pipeline::{Pass, Pipeline, Run};
use crate::index::reading::{Facts, Outcome, ReadFile};
use crate::model::{Chunk, Embedded, FileId, FileRecord, Reason, is_unit};

/// Files whose chunks are embedded together at most, so that the embedder's threads share enough texts to stay busy.
const FILES_TOGETHER: usize = 32;
/// Groups in the embedder at the same time: while one waits for its last text the next keeps the threads busy.
const GROUPS_AT_ONCE: usize = 2;
/// Texts of an urgent run that go before all others at most: more would hold up a job.
const TEXTS_BEFORE_OTHERS: usize = 32;

/// How long what is in hand is waited for once its run was cancelled.
const IN_HAND: Duration = Duration::from_secs(10);

/// A file that is ready for the store.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) record: FileRecord,
    pub(crate) outcome: Done,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// What is to be done with it.
#[derive(Debug)]
pub(crate) enum Done {
    /// Store these.
    Embedded(Facts, Vec<Embedded>),
    /// Copy that file's chunks.
    SameAs(Facts, FileId),
    /// Only mark it.
    Without(Option<Facts>, Reason, String),
}

/// Embeds files as they come and sends them on in groups.
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
    // Asked once: what the index knows changes while the texts are embedded.
    let waiting: Vec<bool> = group.iter().map(|it| waits(pipeline, run, it)).collect();
    let texts = group.iter().zip(&waiting).filter(|(_, waits)| !**waits).flat_map(|(file, _)| chunks(file));
    let texts: Vec<&Chunk> = texts.collect();
    let vectors = match vectors_of(pipeline, run, &texts).await {
        Ok(vectors) => vectors,
        // The backend refuses some text for what it is: find whose, so that the others go on.
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

/// Says whether a file is to be found by its words alone for now. One that is in the index already, with its vectors, is
/// not: it would be found worse than before.
fn waits(pipeline: &Pipeline, run: &Run, file: &ReadFile) -> bool {
    run.pass == Pass::Words && pipeline.table.may_wait_for_vectors() && !pipeline.table.knows(file.record.id)
}

fn chunks(file: &ReadFile) -> &[Chunk] {
    match &file.outcome {
        Outcome::Chunks(_, chunks) => chunks,
        Outcome::SameAs(..) | Outcome::Without(..) => &[],
    }
}

/// Gives each chunk its vector; `vectors` holds those of all chunks of the group, in order.
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

/// Waits until the run was cancelled and what it had in hand could have been finished.
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
        // What the disk gave back otherwise than it was written is made anew.
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
            // What is in hand is finished.
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
            // A server may hang.
            () = long_cancelled(run) => return Err(Error::new(ErrorCode::Cancelled, "cancelled while it embedded")),
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
