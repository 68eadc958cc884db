//! Adds skill results (such as OCR text) to the index beside the file's own text, so that later queries find them in
//! the index.
//! A result belongs to one content of the file. When the file changes, its result is dropped with its other chunks. If
//! the content is indexed again unchanged, [`crate::index::evidence_chunks::cached_chunks`] restores the result from
//! the cache without running the skill.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::EvidenceMark;
use crate::error::{Error, Result};
use crate::index::api::Index;
use crate::index::blocking_tasks::blocking;
use crate::index::evidence_chunks::{chunk_document, ordinal_range};
use crate::index::maintenance::purge;
use crate::index::pause::PauseGate;
use crate::index::pipeline::context::{Pipeline, Run};
use crate::index::pipeline::{commit, embed};
use crate::index::roots::scan;
use crate::index::state::IndexState;
use crate::model::{
    Chunk, ChunkId, ContentHash, Document, Embedded, FileChunks, FileId, FileRecord, FileState, Reason, SKILLS,
};

impl Index {
    /// Adds a skill's result for a file to the index, in place of its earlier result. Returns the ids of the new
    /// chunks, in order, or none if the file changed or vanished since the skill read it.
    ///
    /// # Errors
    /// The skill is not in [`SKILLS`]; the embedder or the store fails.
    pub async fn add_evidence(&self, record: &FileRecord, skill: &str, found: &Document) -> Result<Vec<ChunkId>> {
        let Some(hash) = record.hash else { return Ok(Vec::new()) };
        let embedded = self.chunk_and_embed(hash, skill, found).await;
        let (inner, record) = (self.inner.clone(), record.clone());
        // Commits in a separate task, so that a cancelled query does not abort the commit halfway.
        let task = tokio::spawn(async move {
            let added = inner.add_embedded(record.id, hash, embedded).await;
            // Requests a purge if the file was withdrawn (excluded or unreadable now), even after a failed commit,
            // because the cache already holds the result.
            if !added.as_ref().is_ok_and(|it| !it.is_empty()) {
                inner.purge_if_withdrawn(&record).await?;
            }
            added
        });
        task.await.unwrap_or_else(|error| Err(Error::internal(format!("a commit panicked: {error}"))))
    }

    async fn chunk_and_embed(
        &self,
        hash: ContentHash,
        skill: &str,
        found: &Document,
    ) -> Result<(Vec<Embedded>, Range<u32>)> {
        let inner = &self.inner;
        let (chunks, ordinals) = inner.chunk_evidence(hash, skill, found).await?;
        let run = Run::background(inner.shutdown.clone());
        // Ignores a pause, which applies to indexing only: a query still gets its answer.
        let pipeline = Pipeline { pause: Arc::new(PauseGate::always_open()), ..inner.pipeline() };
        let vectors = embed::embed_chunks(&pipeline, &run, &chunks.iter().collect::<Vec<_>>()).await?;
        let chunks: Vec<Embedded> =
            chunks.into_iter().zip(vectors).map(|(chunk, vector)| Embedded { chunk, vector }).collect();
        Ok((chunks, ordinals))
    }

    /// Returns whether a skill's result for a file is in the index. A cached result is missing there if the
    /// skill read another file with the same content, if the commit failed, or if the index was rebuilt or rolled back.
    ///
    /// # Errors
    /// As [`Index::add_evidence`].
    pub async fn has_evidence(&self, record: &FileRecord, skill: &str, found: &Document) -> Result<bool> {
        let Some(hash) = record.hash else { return Ok(true) };
        let (chunks, _) = self.inner.chunk_evidence(hash, skill, found).await?;
        // Looks up only the first and the last chunk, because all were committed together.
        let outermost: BTreeSet<ChunkId> =
            chunks.first().into_iter().chain(chunks.last()).map(|it| it.id.clone()).collect();
        self.inner.tables.writing().contains(record.id, &Vec::from_iter(outermost)).await
    }
}

impl IndexState {
    /// Splits a skill's result into chunks. Returns them with the range of chunk ordinals that is reserved for the
    /// skill.
    async fn chunk_evidence(
        &self,
        hash: ContentHash,
        skill: &str,
        found: &Document,
    ) -> Result<(Vec<Chunk>, Range<u32>)> {
        let Some(ordinals) = ordinal_range(skill) else {
            return Err(Error::invalid(format!("unknown skill `{skill}`")).hint(format!("use {}", SKILLS.join(", "))));
        };
        let (chunker, found, skill) = (self.workers.chunker.clone(), found.clone(), skill.to_string());
        let first = ordinals.start;
        let chunks = blocking(move || Ok(chunk_document(&chunker, &found, &hash, &skill, first))).await?;
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

    /// Stores the chunks and updates the file's record in the catalog, unless the file's content changed. Returns
    /// whether the chunks were stored.
    async fn commit_evidence(&self, hash: ContentHash, file: FileChunks, ordinals: Range<u32>) -> Result<bool> {
        let id = file.file_id;
        let _together = self.runs.lock_commit().await;
        if !self.has_content(id, hash).await? {
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
            false => Ok((false, commit::stale_files(&catalog, vec![id])?)),
        })
        .await?;
        table.delete(&unwanted).await?;
        if blocking({
            let catalog = self.catalog.clone();
            move || catalog.any_awaiting()
        })
        .await?
        {
            // Wakes a run to embed the files without vectors: the running pass skips a file whose chunks change
            // meanwhile.
            self.runs.changed.notify_one();
        }
        // `marked` is false if a change made the file pending meanwhile. Until the file is indexed again, queries find
        // its old rows and these chunks.
        Ok(marked)
    }

    /// Requests a purge of a file's skill result if a walk excluded the file since it was read, or if it may no longer
    /// be read. The purge for that event may have run before the result existed.
    pub(super) async fn purge_if_withdrawn(&self, record: &FileRecord) -> Result<()> {
        let (catalog, id) = (self.catalog.clone(), record.id);
        let present = blocking(move || Ok(catalog.records(&[id])?.pop())).await?;
        let is_forbidden = present.is_some_and(|it| it.reason == Some(Reason::PermissionDenied));
        if is_forbidden || scan::any_excluded_at(&self.catalog, vec![record.absolute()]).await? {
            let catalog = self.catalog.clone();
            blocking(move || purge::request(&catalog)).await?;
        }
        Ok(())
    }

    /// Returns whether the catalog has the file with this content, as indexed or as read without text.
    async fn has_content(&self, id: FileId, hash: ContentHash) -> Result<bool> {
        let catalog = self.catalog.clone();
        let record = blocking(move || Ok(catalog.records(&[id])?.pop())).await?;
        Ok(record.is_some_and(|it| {
            let read = it.state == FileState::Indexed || it.reason == Some(Reason::NoText);
            read && it.hash == Some(hash)
        }))
    }
}
