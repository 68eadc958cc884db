//! Changes the rows of a collection.
//!
//! ```text
//! begin    the ledger notes the files and gives the change its generation
//! upsert   the server stores the rows of the new generation; reads drop them, as the ledger does not have them yet
//! commit   the ledger replaces the old runs by the new ones, on disk and then in memory: the change is visible
//! clean    the server deletes the rows that are not valid any more; a failure is repaired later
//! ```

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use crate::catalog::{LedgerChange, StoreLedger, WordCounts};
use crate::error::{Error, Result};
use crate::model::{FileChunks, FileId};
use crate::store::analysis::file_terms;
use crate::store::backend::Store;
use crate::store::milvus::errors::from_client;
use crate::store::milvus::keywords::{ChunkWords, add_terms_of, count_words, mean_length};
use crate::store::milvus::live_rows::{LiveRows, runs_of};
use crate::store::milvus::rows::{Row, to_columns};
use crate::store::milvus::table::MilvusStore;

/// Maximum number of rows of one request: with 384 numbers and two KiB of text each about 4 MB.
pub(super) const MAX_BATCH_ROWS: usize = 1_000;

/// The ordinals of each file that a change replaces; `None` for all.
type Replaced = Vec<(FileId, Option<Range<u32>>)>;

impl MilvusStore {
    /// Replaces all chunks of these files, or of one file those with the ordinals `part`.
    pub(super) async fn write_files(&self, files: Vec<FileChunks>, part: Option<Range<u32>>) -> Result<()> {
        let replaced: Replaced = files.iter().map(|it| (it.file_id, part.clone())).collect();
        let _writing = self.writer.lock().await;
        self.write_local_keywords(&files, part.as_ref()).await?;
        let (rows, words) = self.analyze(files).await?;
        self.change(replaced, rows, words).await
    }

    /// Copies the chunks of the first file of each pair to the second.
    pub(super) async fn copy_files(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>> {
        let _writing = self.writer.lock().await;
        if let Some(local) = &self.local_keywords {
            local.copy(copies).await?;
        }
        for (from, to) in copies {
            let rows: Vec<Row> =
                self.stored_rows(*from).await?.into_iter().map(|it| Row { file_id: *to, ..it }).collect();
            let mut words = WordCounts::default();
            rows.iter().for_each(|it| add_terms_of(&it.words, &mut words.chunks_by_term));
            self.change(vec![(*to, None)], rows, words).await?;
        }
        let live = self.live();
        Ok(copies.iter().map(|(_, to)| live.chunks_of(*to)).collect())
    }

    /// Deletes all chunks of these files.
    pub(super) async fn delete_files(&self, files: &[FileId]) -> Result<()> {
        let _writing = self.writer.lock().await;
        if let Some(local) = &self.local_keywords {
            local.delete(files).await?;
        }
        let files: Vec<FileId> = files.iter().copied().filter(|it| self.live().has_file(*it)).collect();
        if files.is_empty() {
            return Ok(());
        }
        self.forget_files(files.clone()).await?;
        log_uncleaned(self.clean_files(&files).await);
        Ok(())
    }

    /// Removes these files from the ledger. Their rows on the server are invalid from then on.
    pub(super) async fn forget_files(&self, files: Vec<FileId>) -> Result<()> {
        let forget = move |ledger: &StoreLedger| ledger.delete(&files).map(|()| files);
        let publish = |live: &mut LiveRows, files: Vec<FileId>| files.iter().for_each(|it| live.remove(*it, None));
        self.change_ledger(forget, publish).await
    }

    async fn write_local_keywords(&self, files: &[FileChunks], part: Option<&Range<u32>>) -> Result<()> {
        let Some(local) = &self.local_keywords else { return Ok(()) };
        let mut texts = files.to_vec();
        texts.iter_mut().flat_map(|it| &mut it.chunks).for_each(|it| it.vector.clear());
        match part {
            None => local.replace(texts).await,
            Some(ordinals) => {
                for file in texts {
                    local.replace_part(file, ordinals.clone()).await?;
                }
                Ok(())
            }
        }
    }

    /// Returns the rows of chunks, with their weighted words, and the statistics of the words.
    async fn analyze(&self, files: Vec<FileChunks>) -> Result<(Vec<Row>, WordCounts)> {
        let (dimension, has_words) = (self.dimension, self.has_words());
        self.with_ledger(move |ledger| {
            let chunks: Vec<_> =
                files.iter().flat_map(|file| file.chunks.iter().map(|it| (file.file_id, it))).collect();
            if !has_words {
                let rows = chunks.iter().map(|(file_id, chunk)| Row::new(*file_id, chunk, Vec::new(), dimension));
                return Ok((rows.collect::<Result<_>>()?, WordCounts::default()));
            }
            let words: Vec<_> = files.iter().flat_map(file_terms).map(|it| ChunkWords::new(&it)).collect();
            let counts = count_words(words.iter());
            let mean = mean_length(ledger, &counts)?;
            let rows = chunks.iter().zip(&words);
            let rows = rows.map(|((file_id, chunk), words)| Row::new(*file_id, chunk, words.vector(mean), dimension));
            Ok((rows.collect::<Result<_>>()?, counts))
        })
        .await
    }

    /// Runs one change. The caller holds the writer lock.
    async fn change(&self, replaced: Replaced, rows: Vec<Row>, words: WordCounts) -> Result<()> {
        let files: Vec<FileId> = replaced.iter().map(|it| it.0).collect();
        if rows.is_empty() && !files.iter().any(|it| self.live().has_file(*it)) {
            return Ok(());
        }
        let begun = files.clone();
        let (generation, mut clean) = self.with_ledger(move |ledger| ledger.begin(&begun)).await?;
        for batch in rows.chunks(MAX_BATCH_ROWS) {
            let columns = to_columns(batch, generation, self.dimension, self.has_words());
            let written = self.client.upsert(&self.collection, columns).await.map_err(from_client)?;
            self.note_write(written.timestamp);
        }
        clean.retain(|it| !self.live().has_file(*it));
        let stale: Vec<FileId> = files.into_iter().filter(|it| !clean.contains(it)).collect();
        let added =
            runs_by_file(&rows)?.into_iter().flat_map(|(file_id, it)| runs_of(file_id, generation, it.into_iter()));
        let change = LedgerChange { generation, replaced, added: added.collect(), words, clean };
        let is_whole = change.replaced.iter().all(|it| it.1.is_none());
        self.commit(change).await?;
        if self.note_unflushed(rows.len(), rows.iter().map(Row::bytes).sum()) {
            log_unflushed(self.flush().await);
        }
        let cleaned = match is_whole {
            true => self.clean_replaced(&stale, generation).await,
            false => self.clean_files(&stale).await,
        };
        log_uncleaned(cleaned);
        Ok(())
    }

    async fn commit(&self, change: LedgerChange) -> Result<()> {
        let commit = move |ledger: &StoreLedger| ledger.commit(&change).map(|()| change);
        let publish = |live: &mut LiveRows, change: LedgerChange| {
            change.replaced.iter().for_each(|(file_id, ordinals)| live.remove(*file_id, ordinals.as_ref()));
            change.added.into_iter().for_each(|it| live.add(it));
        };
        self.change_ledger(commit, publish).await
    }
}

/// Logs a failure to delete invalid rows. It is no failure of the change: reads drop such rows, and maintenance deletes them.
fn log_uncleaned(cleaned: Result<()>) {
    if let Err(error) = cleaned {
        tracing::warn!(%error, "deleted rows stay on the server for now; maintenance deletes them");
    }
}

/// Logs a failed flush. It is no failure of the change: the server keeps new rows in its log, and maintenance flushes them.
fn log_unflushed(flushed: Result<()>) {
    if let Err(error) = flushed {
        tracing::warn!(%error, "Milvus Lite has not written its new rows to a segment; maintenance does it");
    }
}

/// Returns the ordinals of the rows of each file, sorted.
///
/// # Errors
/// Two rows have the same key; one would replace the other.
fn runs_by_file(rows: &[Row]) -> Result<BTreeMap<FileId, Vec<u32>>> {
    let mut keys = HashSet::new();
    let mut ordinals = BTreeMap::<FileId, Vec<u32>>::new();
    for row in rows {
        if !keys.insert((row.file_id, &row.chunk_id)) {
            return Err(Error::internal(format!("file {} has the chunk {} twice", row.file_id, row.chunk_id)));
        }
        ordinals.entry(row.file_id).or_default().push(row.ordinal);
    }
    ordinals.values_mut().for_each(|it| it.sort_unstable());
    Ok(ordinals)
}
