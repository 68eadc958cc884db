//! Changes the rows of a table: replaces, adds, copies and deletes them. Each runs as one change of `commit`, which
//! makes it durable and shows it to queries together with the data in memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use crate::error::{Error, Result};
use crate::model::{ChunkId, FileChunks, FileId};
use crate::store::lance::LanceStore;
use crate::store::lance_error::StoreContext;
use crate::store::memory::MemoryIndex;
use crate::store::queries::collect;
use crate::store::{indexes, queries, schema};

/// Copied rows are committed in groups of about this many (8 MB).
const COPIED_ROWS: u64 = 4_000;

impl LanceStore {
    /// Replaces all chunks of these files.
    pub(super) async fn replace_files(&self, files: &[FileChunks]) -> Result<()> {
        let batch = schema::batch(files, self.dimension)?;
        self.run_change(async {
            let ids: Vec<FileId> = files.iter().map(|it| it.file_id).collect();
            let deleted = self.delete_rows(&ids).await?;
            if batch.num_rows() == 0 && !deleted {
                return Ok(());
            }
            let first = self.rows().keys().all(|it| ids.contains(it));
            let added = self.add_rows(batch).await?;
            self.ensure_keywords(first).await?;
            self.commit_with(|hot| {
                let mut counts = BTreeMap::<FileId, u64>::new();
                for file in files {
                    *counts.entry(file.file_id).or_default() += file.chunks.len() as u64;
                }
                counts.into_iter().for_each(|(file_id, rows)| self.set_rows(file_id, rows));
                hot.replace(files);
                added.learn_row_ids(hot)
            })
            .await
        })
        .await
    }

    /// Replaces the chunks of a file whose ordinals are in the range. Returns how many chunks the file then has.
    pub(super) async fn replace_ordinals(&self, file: &FileChunks, ordinals: &Range<u32>) -> Result<u64> {
        let file_id = file.file_id;
        let batch = schema::batch(std::slice::from_ref(file), self.dimension)?;
        self.run_change(async {
            let before = self.rows().get(&file_id).copied().unwrap_or(0);
            let gone = if before > 0 { self.delete_part(file_id, ordinals).await? } else { HashSet::new() };
            let rows = before.saturating_sub(gone.len() as u64) + file.chunks.len() as u64;
            if gone.is_empty() && file.chunks.is_empty() {
                return Ok(rows);
            }
            let first = self.rows().is_empty();
            let added = self.add_rows(batch).await?;
            self.ensure_keywords(first).await?;
            self.commit_with(|hot| {
                self.set_rows(file_id, rows);
                hot.remove_chunks(file_id, &gone);
                hot.add(file_id, &file.chunks);
                added.learn_row_ids(hot)
            })
            .await?;
            Ok(rows)
        })
        .await
    }

    /// Deletes all chunks of these files.
    pub(super) async fn delete_files(&self, files: &[FileId]) -> Result<()> {
        self.run_change(async {
            if !self.delete_rows(files).await? {
                return Ok(());
            }
            self.commit_with(|hot| self.forget_files(hot, files)).await
        })
        .await
    }

    /// For each pair of files, replaces the chunks of the second file by copies of the chunks of the first. Returns how
    /// many chunks each second file then has.
    pub(super) async fn copy_files(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>> {
        self.run_change(async {
            let counts = self.row_counts(copies.iter().map(|it| it.0));
            let (mut together, mut rows) = (Vec::new(), 0);
            for ((from, to), count) in copies.iter().zip(&counts).filter(|((from, to), _)| from != to) {
                together.push((*from, *to));
                rows += count;
                if rows >= COPIED_ROWS {
                    self.copy_rows(&std::mem::take(&mut together)).await?;
                    rows = 0;
                }
            }
            self.copy_rows(&together).await?;
            Ok(counts)
        })
        .await
    }

    fn set_rows(&self, file_id: FileId, rows: u64) {
        let mut map = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let before = match rows {
            0 => map.remove(&file_id),
            _ => map.insert(file_id, rows),
        };
        self.chunks.fetch_add(rows, Ordering::Relaxed);
        self.chunks.fetch_sub(before.unwrap_or(0), Ordering::Relaxed);
    }

    /// Deletes the rows of these files. Returns whether there were any rows. The caller holds the writer lock.
    async fn delete_rows(&self, files: &[FileId]) -> Result<bool> {
        let known: Vec<FileId> = self.with_rows(files);
        if known.is_empty() {
            return Ok(false);
        }
        self.table.delete(&queries::file_condition(&known)).await.on("delete from", &self.dir)?;
        Ok(true)
    }

    /// Deletes the rows of a file whose ordinals are in the range, and returns their chunk ids. The caller holds the
    /// writer lock.
    async fn delete_part(&self, file_id: FileId, ordinals: &Range<u32>) -> Result<HashSet<ChunkId>> {
        let part = queries::part_condition(file_id, ordinals);
        let query = self.table.query().only_if_expr(part.clone()).select(Select::columns(&["chunk_id", "file_id"]));
        let mut gone = HashSet::new();
        for batch in collect(query.execute().await, "read", &self.dir).await? {
            gone.extend(schema::ids(&batch)?.into_iter().map(|it| it.chunk_id));
        }
        if !gone.is_empty() {
            self.table.delete(&part).await.on("delete from", &self.dir)?;
        }
        Ok(gone)
    }

    /// Removes files from the data in memory, after their rows were deleted.
    fn forget_files(&self, hot: &mut MemoryIndex, files: &[FileId]) -> Result<()> {
        hot.remove(files);
        files.iter().for_each(|it| self.set_rows(*it, 0));
        Ok(())
    }

    fn with_rows(&self, files: &[FileId]) -> Vec<FileId> {
        let rows = self.rows();
        files.iter().copied().filter(|it| rows.contains_key(it)).collect()
    }

    /// Adds the rows of a batch to the table. The caller holds the writer lock.
    async fn add_rows(&self, batch: RecordBatch) -> Result<AddedRows> {
        if batch.num_rows() == 0 {
            return Ok(AddedRows { batch, fragment: None });
        }
        // Writes a single fragment, because maintenance would have to merge several fragments later.
        self.table.add(batch.clone()).write_parallelism(1).execute().await.on("write", &self.dir)?;
        let dataset = self.dataset().await?;
        let newest = dataset.manifest().fragments.iter().max_by_key(|it| it.id);
        let fragment = newest.filter(|it| it.physical_rows == Some(batch.num_rows())).map(|it| it.id as u32);
        Ok(AddedRows { batch, fragment })
    }

    /// Creates the keyword index if `first` says that the table had no rows before.
    async fn ensure_keywords(&self, first: bool) -> Result<()> {
        if first {
            indexes::ensure_keyword_index(&self.table).await.on("update keywords in", &self.dir)?;
        }
        Ok(())
    }

    /// Returns the number of rows of each file.
    fn row_counts(&self, files: impl Iterator<Item = FileId>) -> Vec<u64> {
        let rows = self.rows();
        files.map(|it| rows.get(&it).copied().unwrap_or(0)).collect()
    }

    /// For each pair of files, replaces the rows of the second by copies of the rows of the first, and commits them. The
    /// caller holds the writer lock.
    async fn copy_rows(&self, copies: &[(FileId, FileId)]) -> Result<()> {
        if copies.is_empty() {
            return Ok(());
        }
        let sources: BTreeSet<FileId> = copies.iter().map(|it| it.0).collect();
        let mut rows = BTreeMap::<FileId, Vec<RecordBatch>>::new();
        for batch in self.rows_of(&self.table, &Vec::from_iter(sources)).await? {
            schema::split_by_file(&batch)?
                .into_iter()
                .for_each(|(file, part)| rows.entry(file).or_default().push(part));
        }
        let mut copied = Vec::new();
        for (from, to) in copies {
            let parts = rows.get(from).into_iter().flatten();
            copied.extend(parts.map(|it| schema::with_file(it, *to)).collect::<Result<Vec<_>>>()?);
        }
        let replaced: Vec<FileId> = copies.iter().map(|it| it.1).collect();
        self.delete_rows(&replaced).await?;
        let Some(first) = copied.first() else {
            return self.commit_with(|hot| self.forget_files(hot, &replaced)).await;
        };
        let all = concat_batches(&first.schema(), &copied).map_err(Error::internal)?;
        let added = self.add_rows(all).await?;
        let counts = self.row_counts(copies.iter().map(|it| it.0));
        self.commit_with(|hot| {
            hot.remove(&replaced);
            copies.iter().zip(counts).for_each(|((_, to), count)| self.set_rows(*to, count));
            hot.add_rows(&added.batch)?;
            added.learn_row_ids(hot)
        })
        .await
    }
}

/// Rows that were added to the table.
struct AddedRows {
    batch: RecordBatch,
    /// The fragment that consists of exactly these rows, in this order, if it is known.
    fragment: Option<u32>,
}

impl AddedRows {
    /// Adds the row ids of these rows to the data in memory.
    fn learn_row_ids(&self, hot: &mut MemoryIndex) -> Result<()> {
        self.fragment.map_or(Ok(()), |it| hot.add_fragment_row_ids(it, &self.batch))
    }
}
