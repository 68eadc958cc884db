//! What a skill found goes into the index beside the file's own text, so that the next question finds it at L1.
//!
//! It holds for one content of the file. Whoever writes the file anew drops it with the rest; when the content is still
//! the same then, it comes back out of the cache without running the skill, see [`known`].

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::{EvidenceCache, EvidenceMark};
use crate::chunk::Chunker;
use crate::error::{Error, Result};
use crate::index::gate::Gate;
use crate::index::pipeline::{Pipeline, Run, files_at_once};
use crate::index::{Index, Inner, blocking, embedding, purge, scan, storing};
use crate::model::{
    Chunk, ChunkId, ContentHash, Document, Embedded, FileChunks, FileId, FileRecord, FileState, Reason, SKILLS,
};

/// Ordinals that each skill has for itself, above those of the file's own text.
const ORDINALS: u32 = 1 << 24;
/// Chunks of one skill for one file; a skill that finds more has read a book.
const MOST_CHUNKS: usize = 2_000;

impl Index {
    /// Adds what a skill found in a file to the index, in place of what it found there before. Returns the ids of the new
    /// chunks, in order; none when the file has changed or gone since the skill looked at it.
    ///
    /// # Errors
    /// The skill is none of [`SKILLS`]; the embedder or the store fails.
    pub async fn add_evidence(&self, record: &FileRecord, skill: &str, found: &Document) -> Result<Vec<ChunkId>> {
        let Some(hash) = record.hash else { return Ok(Vec::new()) };
        let embedded = self.embed(hash, skill, found).await;
        let (inner, record) = (self.inner.clone(), record.clone());
        // In a task of its own: a question that is given up leaves no half of a commit.
        let task = tokio::spawn(async move {
            let added = inner.add_embedded(record.id, hash, embedded).await;
            // Whatever came of it, what was found was kept before.
            if !added.as_ref().is_ok_and(|it| !it.is_empty()) {
                inner.purge_if_withdrawn(&record).await?;
            }
            added
        });
        task.await.unwrap_or_else(|error| Err(Error::internal(format!("a commit panicked: {error}"))))
    }

    async fn embed(&self, hash: ContentHash, skill: &str, found: &Document) -> Result<(Vec<Embedded>, Range<u32>)> {
        let inner = &self.inner;
        let (chunks, ordinals) = inner.cut(hash, skill, found).await?;
        let run = Run::quiet(inner.shutdown.clone());
        // A pause is one of indexing: whoever asks gets an answer.
        let pipeline = Pipeline { gate: Arc::new(Gate::always_open()), ..inner.pipeline() };
        let vectors = embedding::vectors_of(&pipeline, &run, &chunks.iter().collect::<Vec<_>>()).await?;
        let chunks: Vec<Embedded> =
            chunks.into_iter().zip(vectors).map(|(chunk, vector)| Embedded { chunk, vector }).collect();
        Ok((chunks, ordinals))
    }

    /// Says whether what a skill found in a file is in the index. It may be known and yet not be there: a copy of the file
    /// was looked into, the commit failed, or the index was made anew or rolled back since.
    ///
    /// # Errors
    /// As [`Index::add_evidence`].
    pub async fn holds_evidence(&self, record: &FileRecord, skill: &str, found: &Document) -> Result<bool> {
        let Some(hash) = record.hash else { return Ok(true) };
        let (chunks, _) = self.inner.cut(hash, skill, found).await?;
        // They were committed together.
        let outermost: BTreeSet<ChunkId> =
            chunks.first().into_iter().chain(chunks.last()).map(|it| it.id.clone()).collect();
        self.inner.tables.writing().holds(record.id, &Vec::from_iter(outermost)).await
    }
}

impl Inner {
    /// Cuts what a skill found in this content; returns the chunks and the ordinals that are the skill's.
    async fn cut(&self, hash: ContentHash, skill: &str, found: &Document) -> Result<(Vec<Chunk>, Range<u32>)> {
        let Some(ordinals) = ordinals(skill) else {
            return Err(Error::invalid(format!("unknown skill `{skill}`")).hint(format!("use {}", SKILLS.join(", "))));
        };
        let (chunker, found, skill) = (self.chunker.clone(), found.clone(), skill.to_string());
        let first = ordinals.start;
        let chunks = blocking(move || Ok(cut(&chunker, &found, &hash, &skill, first))).await?;
        Ok((chunks, ordinals))
    }

    async fn add_embedded(
        &self,
        file_id: FileId,
        hash: ContentHash,
        embedded: Result<(Vec<Embedded>, Range<u32>)>,
    ) -> Result<Vec<ChunkId>> {
        let (chunks, ordinals) = embedded?;
        let ids: Vec<ChunkId> = chunks.iter().map(|it| it.chunk.id.clone()).collect();
        let stored = self.commit_evidence(hash, FileChunks { file_id, chunks }, ordinals).await?;
        Ok(if stored { ids } else { Vec::new() })
    }

    /// Stores the chunks and marks the file, unless it holds something else by now. Returns whether they were stored.
    async fn commit_evidence(&self, hash: ContentHash, file: FileChunks, ordinals: Range<u32>) -> Result<bool> {
        let id = file.file_id;
        let _together = self.committing.lock().await;
        if !self.still_holds(id, hash).await? {
            return Ok(false);
        }
        let table = self.tables.writing();
        let chunks = table.replace_part(file, ordinals).await?;
        if chunks == 0 {
            return Ok(true);
        }
        let catalog = self.catalog.clone();
        let mark = EvidenceMark { id, hash, chunks: u32::try_from(chunks).unwrap_or(u32::MAX) };
        let (marked, unwanted) = blocking(move || match catalog.mark_evidence(&mark)? {
            true => Ok((true, Vec::new())),
            false => Ok((false, storing::unwanted(&catalog, vec![id])?)),
        })
        .await?;
        table.clear(&unwanted).await?;
        if blocking({
            let catalog = self.catalog.clone();
            move || catalog.any_awaiting()
        })
        .await?
        {
            // A file that was to get its vectors at this moment was left out.
            self.changed.notify_one();
        }
        // A change seen meanwhile makes it pending: its old rows answer until it is read, ours with them.
        Ok(marked)
    }

    /// Has what was found in a file leave the disk, where a walk has left the file out since, or it may not be read any more. The
    /// purge that came with that may have been before: what was found was in no index and in no cache then.
    pub(super) async fn purge_if_withdrawn(&self, record: &FileRecord) -> Result<()> {
        let (catalog, id) = (self.catalog.clone(), record.id);
        let present = blocking(move || Ok(catalog.records(&[id])?.pop())).await?;
        let is_forbidden = present.is_some_and(|it| it.reason == Some(Reason::PermissionDenied));
        if is_forbidden || scan::are_left_out_at(&self.catalog, vec![record.absolute()]).await? {
            let catalog = self.catalog.clone();
            blocking(move || purge::ask(&catalog)).await?;
        }
        Ok(())
    }

    /// Says whether the catalog knows the file as read, with this content.
    async fn still_holds(&self, id: FileId, hash: ContentHash) -> Result<bool> {
        let catalog = self.catalog.clone();
        let record = blocking(move || Ok(catalog.records(&[id])?.pop())).await?;
        Ok(record.is_some_and(|it| {
            let read = it.state == FileState::Indexed || it.reason == Some(Reason::NoText);
            read && it.hash == Some(hash)
        }))
    }

    /// The stages, as they stand now.
    pub(crate) fn pipeline(&self) -> Pipeline {
        Pipeline {
            catalog: self.catalog.clone(),
            vectors: self.vectors.clone(),
            pool: self.pool.clone(),
            chunker: self.chunker.clone(),
            embedder: self.embedder.clone(),
            table: self.tables.writing(),
            readers: files_at_once(self.config.workers),
            evidence: self.evidence.clone(),
            pictures: self.pictures.clone(),
            urgent: self.urgent.clone(),
            committing: self.committing.clone(),
            space: self.space.clone(),
            gate: self.gate.clone(),
            missing: self.missing.clone(),
            unasked: self.unasked.clone(),
        }
    }
}

/// Returns the chunks of what skills found in this content before.
pub(crate) fn known(cache: &Arc<EvidenceCache>, chunker: &Chunker, hash: &ContentHash) -> Vec<Chunk> {
    let found = cache.all(*hash);
    let chunks = found.iter().filter_map(|(skill, document)| {
        let ordinals = ordinals(skill)?;
        Some(cut(chunker, document, hash, skill, ordinals.start))
    });
    chunks.flatten().collect()
}

fn cut(chunker: &Chunker, found: &Document, hash: &ContentHash, skill: &str, first_ordinal: u32) -> Vec<Chunk> {
    let mut chunks = chunker.chunk_found(found, hash, skill, first_ordinal);
    chunks.truncate(MOST_CHUNKS);
    chunks
}

/// The ordinals of the chunks of a skill; none for what is no skill of a question.
fn ordinals(skill: &str) -> Option<Range<u32>> {
    let place = SKILLS.iter().position(|it| *it == skill)? as u32 + 1;
    Some(place * ORDINALS..(place + 1) * ORDINALS)
}
