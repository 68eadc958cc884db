//! Writing to the table: one change at a time, and what of it is in memory changes with it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use chrono::Utc;
use lancedb::query::{ExecutableQuery, QueryBase, Select};

use crate::error::{Error, Result};
use crate::model::{FileChunks, FileId};
use crate::store::failure::StoreContext;
use crate::store::lance::{LanceStore, collect};
use crate::store::{legs, manifests, opening, schema, upkeep};

/// Rows that are copied in one commit: some 8 MB.
const COPIED_ROWS: u64 = 4_000;

impl LanceStore {
    /// Replaces all chunks of these files.
    pub(super) async fn replace_files(&self, files: &[FileChunks]) -> Result<()> {
        let batch = schema::batch(files, self.dimension)?;
        self.change(async {
            let ids: Vec<FileId> = files.iter().map(|it| it.file_id).collect();
            let deleted = self.delete_rows(&ids).await?;
            if batch.num_rows() == 0 && !deleted {
                return Ok(());
            }
            let first = self.rows().keys().all(|it| ids.contains(it));
            self.add_rows(batch).await?;
            let mut counts = BTreeMap::<FileId, u64>::new();
            for file in files {
                *counts.entry(file.file_id).or_default() += file.chunks.len() as u64;
            }
            counts.into_iter().for_each(|(file_id, rows)| self.set_rows(file_id, rows));
            self.hot_mut().replace(files);
            self.index_words(first).await?;
            self.settle().await
        })
        .await
    }

    /// Replaces the chunks of a file whose ordinals lie in that range; returns how many the file has then.
    pub(super) async fn replace_ordinals(&self, file: &FileChunks, ordinals: &Range<u32>) -> Result<u64> {
        let file_id = file.file_id;
        let batch = schema::batch(std::slice::from_ref(file), self.dimension)?;
        self.change(async {
            let before = self.rows().get(&file_id).copied().unwrap_or(0);
            let deleted = if before > 0 { self.delete_part(file_id, ordinals).await? } else { 0 };
            let first = self.rows().is_empty();
            let rows = before.saturating_sub(deleted) + file.chunks.len() as u64;
            if batch.num_rows() > 0 {
                self.add_rows(batch).await?;
                self.set_rows(file_id, rows);
                self.hot_mut().add(file_id, &file.chunks);
                self.index_words(first).await?;
            }
            if deleted > 0 || !file.chunks.is_empty() {
                self.settle().await?;
            }
            Ok(rows)
        })
        .await
    }

    /// Deletes all chunks of these files.
    pub(super) async fn delete_files(&self, files: &[FileId]) -> Result<()> {
        self.change(async {
            if !self.delete_rows(files).await? {
                return Ok(());
            }
            self.forget(files);
            self.settle().await
        })
        .await
    }

    /// Gives each second file copies of the chunks of the first; returns how many each has then.
    pub(super) async fn copy_files(&self, copies: &[(FileId, FileId)]) -> Result<Vec<u64>> {
        self.change(async {
            let counts = self.counts(copies.iter().map(|it| it.0));
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
            self.settle().await?;
            Ok(counts)
        })
        .await
    }

    /// Changes the table, one change at a time. A change that breaks off, with an error or because nobody waits for it
    /// any more, may have made some of its commits: they are undone, at once or before the next change.
    pub(super) async fn change<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _writing = self.writer.lock().await;
        if self.is_uncertain.load(Ordering::Relaxed) {
            self.go_back().await?;
        }
        self.is_uncertain.store(true, Ordering::Relaxed);
        let done = work.await;
        match done {
            Ok(_) => self.is_uncertain.store(false, Ordering::Relaxed),
            Err(_) => {
                // On a full disk it has to wait for the next change.
                if let Err(error) = self.go_back().await {
                    tracing::debug!(%error, "a change that failed is undone later");
                }
            }
        }
        done
    }

    /// Makes the table what it was when it was on disk last, and what of it is in memory. Where the disk refuses that, it
    /// is read as it was then. Nothing is written, as there may be no room: versions that do not count are set aside, as at
    /// a start.
    async fn go_back(&self) -> Result<()> {
        let undone = match self.last_of_more().await? {
            None => Ok(()),
            Some(last) => self.undo_after(last).await,
        };
        if undone.is_ok() {
            self.table.checkout_latest().await.on("read", &self.dir)?;
        }
        let (rows, hot) = opening::contents(&self.table, &self.place).await?;
        self.chunks.store(rows.values().sum(), Ordering::Relaxed);
        *self.rows.write().unwrap_or_else(PoisonError::into_inner) = rows;
        *self.hot_mut() = hot;
        undone?;
        *self.undone.lock().unwrap_or_else(PoisonError::into_inner) = Some(Utc::now());
        self.is_uncertain.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The version that was on disk last, where there are later ones.
    async fn last_of_more(&self) -> Result<Option<u64>> {
        let (synced, table_dir) = (self.synced.clone(), self.place.table_dir());
        let look = move || {
            let Some(last) = synced.read()? else { return Ok(None) };
            Ok::<_, Error>(manifests::list(&table_dir)?.iter().any(|it| it.version > last).then_some(last))
        };
        tokio::task::spawn_blocking(look).await.map_err(Error::internal)?
    }

    /// Sets all versions after this one aside, when nobody begins to read them any more.
    async fn undo_after(&self, last: u64) -> Result<()> {
        self.table.checkout(last).await.on("read", &self.dir)?;
        self.readings.undo();
        let table_dir = self.place.table_dir();
        let aside = tokio::task::spawn_blocking(move || manifests::set_unsynced_aside(&table_dir, last));
        let outcome = aside.await.map_err(Error::internal)?;
        // It remembers the versions that are gone, and the next ones get their numbers.
        self.cached.clear().await;
        outcome.map(drop)
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

    /// Deletes the rows of those of these files that have any. They are forgotten, too, at once or together with what
    /// replaces them: so a file that is written anew is found at every moment. The caller holds the writer's lock.
    async fn delete_rows(&self, files: &[FileId]) -> Result<bool> {
        let known: Vec<FileId> = self.known(files);
        if known.is_empty() {
            return Ok(false);
        }
        self.table.delete(&legs::of_files(&known)).await.on("delete from", &self.dir)?;
        Ok(true)
    }

    /// Forgets files whose rows were deleted.
    fn forget(&self, files: &[FileId]) {
        self.hot_mut().remove(files);
        files.iter().for_each(|it| self.set_rows(*it, 0));
    }

    /// Deletes the rows of a file whose ordinals lie in the range; returns how many. The caller holds the writer's lock.
    async fn delete_part(&self, file_id: FileId, ordinals: &Range<u32>) -> Result<u64> {
        let part = legs::of_part(file_id, ordinals);
        let query = self.table.query().only_if_expr(part.clone()).select(Select::columns(&["chunk_id", "file_id"]));
        let mut gone = HashSet::new();
        for batch in collect(query.execute().await, "read", &self.dir).await? {
            gone.extend(schema::ids(&batch)?.into_iter().map(|it| it.chunk_id));
        }
        if gone.is_empty() {
            return Ok(0);
        }
        self.table.delete(&part).await.on("delete from", &self.dir)?;
        self.hot_mut().remove_chunks(file_id, &gone);
        let left = self.rows().get(&file_id).copied().unwrap_or(0).saturating_sub(gone.len() as u64);
        self.set_rows(file_id, left);
        Ok(gone.len() as u64)
    }

    fn known(&self, files: &[FileId]) -> Vec<FileId> {
        let rows = self.rows();
        files.iter().copied().filter(|it| rows.contains_key(it)).collect()
    }

    /// Adds rows. The caller holds the writer's lock, and counts them before it does anything else that can fail: rows
    /// that are not counted are not deleted when their file is replaced.
    async fn add_rows(&self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() > 0 {
            // One fragment a commit: more would only have to be compacted again.
            self.table.add(batch.clone()).write_parallelism(1).execute().await.on("write", &self.dir)?;
            self.learn_added(&batch).await?;
        }
        Ok(())
    }

    /// Learns where rows lie that were just added: in the newest fragment, in their order.
    async fn learn_added(&self, batch: &RecordBatch) -> Result<()> {
        let Some(dataset) = self.table.dataset() else { return Ok(()) };
        let dataset = dataset.get().await.on("read", &self.dir)?;
        let newest = dataset.manifest().fragments.iter().max_by_key(|it| it.id);
        let Some(fragment) = newest.filter(|it| it.physical_rows == Some(batch.num_rows())) else { return Ok(()) };
        self.hot_mut().learn_fragment(fragment.id as u32, batch)
    }

    /// Makes sure that there is a keyword index, once there are rows.
    async fn index_words(&self, first: bool) -> Result<()> {
        if first {
            upkeep::ensure_keyword_index(&self.table).await.on("index the words of", &self.dir)?;
        }
        Ok(())
    }

    /// Returns how many rows each of these files has.
    fn counts(&self, files: impl Iterator<Item = FileId>) -> Vec<u64> {
        let rows = self.rows();
        files.map(|it| rows.get(&it).copied().unwrap_or(0)).collect()
    }

    /// Gives each second file the rows of the first in place of its own, in one commit. The caller holds the writer's lock.
    async fn copy_rows(&self, copies: &[(FileId, FileId)]) -> Result<()> {
        if copies.is_empty() {
            return Ok(());
        }
        let sources: BTreeSet<FileId> = copies.iter().map(|it| it.0).collect();
        let mut rows = BTreeMap::<FileId, Vec<RecordBatch>>::new();
        for batch in self.rows_of(&Vec::from_iter(sources)).await? {
            schema::by_file(&batch)?.into_iter().for_each(|(file, part)| rows.entry(file).or_default().push(part));
        }
        let mut copied = Vec::new();
        for (from, to) in copies {
            let parts = rows.get(from).into_iter().flatten();
            copied.extend(parts.map(|it| schema::with_file(it, *to)).collect::<Result<Vec<_>>>()?);
        }
        let replaced: Vec<FileId> = copies.iter().map(|it| it.1).collect();
        self.delete_rows(&replaced).await?;
        let Some(first) = copied.first() else {
            self.forget(&replaced);
            return Ok(());
        };
        let all = concat_batches(&first.schema(), &copied).map_err(Error::internal)?;
        self.add_rows(all.clone()).await?;
        let counts = self.counts(copies.iter().map(|it| it.0));
        copies.iter().zip(counts).for_each(|((_, to), count)| self.set_rows(*to, count));
        let mut hot = self.hot_mut();
        hot.remove(&replaced);
        hot.add_rows(&all)
    }
}
