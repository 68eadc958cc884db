//! Deletes rows that are not valid from the server, and finds valid rows that the server has lost.

use std::collections::{BTreeMap, HashSet};

use vic_milvus::{Filter, Guarantee, MAX_ROWS};

use crate::catalog::ChunkRun;
use crate::error::Result;
use crate::model::FileId;
use crate::store::backend::Store;
use crate::store::milvus::errors::from_client;
use crate::store::milvus::keywords::add_terms_of;
use crate::store::milvus::rows::{FILE, GENERATION, IDS, KEY, ORDINAL, RowId, WORDS, row_ids};
use crate::store::milvus::table::MilvusStore;

/// Maximum number of files or keys in one filter.
pub(super) const MAX_LIST: usize = 1_000;

impl MilvusStore {
    /// Repairs what an interrupted change left: deletes invalid rows, and forgets files whose words the local keyword index
    /// has lost, so that they are indexed again.
    pub(super) async fn repair(&self) -> Result<()> {
        let _writing = self.writer.lock().await;
        if let Some(local) = &self.local_keywords {
            let (known, valid) = (local.rows_by_file(), self.live().rows_by_file());
            let orphans: Vec<FileId> = known.keys().copied().filter(|it| !valid.contains_key(it)).collect();
            local.delete(&orphans).await?;
            let lost: Vec<FileId> =
                valid.iter().filter(|(id, rows)| known.get(id) != Some(rows)).map(|it| *it.0).collect();
            if !lost.is_empty() {
                self.forget_files(lost).await?;
            }
        }
        self.clean_all().await
    }

    /// Deletes the invalid rows of these files from the server. The caller holds the writer lock.
    pub(super) async fn clean_files(&self, files: &[FileId]) -> Result<()> {
        for part in files.chunks(MAX_LIST) {
            self.delete_invalid(part, self.invalid_rows_of(part)).await?;
        }
        Ok(())
    }

    /// Deletes the rows of these files from the server that are older than this generation, which has replaced the files
    /// as a whole. The caller holds the writer lock.
    pub(super) async fn clean_replaced(&self, files: &[FileId], generation: u64) -> Result<()> {
        for part in files.chunks(MAX_LIST) {
            let older = Filter::range(GENERATION, 0..generation.cast_signed());
            self.delete_invalid(part, vec![Filter::in_ints(FILE, part.iter().copied()).and(older)]).await?;
        }
        Ok(())
    }

    async fn delete_invalid(&self, files: &[FileId], filters: Vec<Filter>) -> Result<()> {
        let unfinished: HashSet<u64> = self.with_ledger(|ledger| ledger.unfinished()).await?.into_iter().collect();
        let mut terms = BTreeMap::new();
        for filter in filters {
            let mut guarantee = self.guarantee();
            while self.delete_some(&filter, guarantee, &unfinished, &mut terms).await? {
                // A server may give a deletion no time, so a read that must not see it waits for all writes.
                guarantee = Guarantee::Strong;
            }
        }
        let files = files.to_vec();
        self.with_ledger(move |ledger| ledger.note_clean(&files, &terms)).await
    }

    /// Deletes the invalid rows of all files that the ledger lists as unclean. The caller holds the writer lock.
    pub(super) async fn clean_all(&self) -> Result<()> {
        loop {
            let files = self.with_ledger(|ledger| ledger.unclean(MAX_LIST)).await?;
            if files.is_empty() {
                return Ok(());
            }
            self.clean_files(&files).await?;
        }
    }

    /// Returns filters that match the invalid rows of these files. Deleted files share one filter.
    fn invalid_rows_of(&self, files: &[FileId]) -> Vec<Filter> {
        let live = self.live();
        let (kept, deleted): (Vec<FileId>, Vec<FileId>) = files.iter().partition(|it| live.has_file(**it));
        let of_kept = kept.into_iter().map(|it| outside_runs(it, &live.runs(it)));
        let of_deleted = (!deleted.is_empty()).then(|| Filter::in_ints(FILE, deleted));
        of_kept.chain(of_deleted).collect()
    }

    /// Deletes up to [`MAX_ROWS`] rows that match the filter and are not valid, and adds their words to `terms`. Returns
    /// whether there may be more.
    async fn delete_some(
        &self,
        filter: &Filter,
        guarantee: Guarantee,
        unfinished: &HashSet<u64>,
        terms: &mut BTreeMap<u32, u64>,
    ) -> Result<bool> {
        let mut fields = IDS.to_vec();
        fields.extend(self.has_words().then_some(WORDS));
        let rows = self.query(filter, &fields, guarantee).await?;
        let ids = row_ids(&rows)?;
        let words = if self.has_words() { rows.sparse_vectors(WORDS).map_err(from_client)? } else { &[] };
        let (mut keys, mut seen) = (Vec::new(), HashSet::new());
        for (at, id) in ids.iter().enumerate().filter(|(_, it)| !it.is_live(&self.live())) {
            // A server may return a row twice.
            if !seen.insert(id) {
                continue;
            }
            keys.push(id.key());
            if !unfinished.contains(&id.generation) {
                words.get(at).into_iter().for_each(|it| add_terms_of(it, terms));
            }
        }
        self.delete_keys(&keys).await?;
        Ok(ids.len() == MAX_ROWS && !keys.is_empty())
    }

    async fn delete_keys(&self, keys: &[String]) -> Result<()> {
        for part in keys.chunks(MAX_LIST) {
            let filter = Filter::in_texts(KEY, part.iter().cloned());
            let deleted = self.client.delete(&self.collection, &filter).await.map_err(from_client)?;
            self.note_write(deleted.timestamp);
        }
        Ok(())
    }

    /// Compares the rows on the server with the ledger, once, and then whenever their numbers differ. Deletes rows that are not valid. Files
    /// with lost rows lose their other rows too, so that the comparison with the catalog finds them. The caller holds the
    /// writer lock, and no file is unclean.
    pub(super) async fn reconcile(&self) -> Result<()> {
        let count = self.count().await?;
        let valid = self.live().chunk_count();
        if count == valid && self.is_compared() {
            return Ok(());
        }
        tracing::debug!(count, valid, "comparing all rows of the server with the ledger");
        let lite_starts = self.lite_starts();
        let (found, unknown) = self.rows_on_server().await?;
        let live_rows = self.live().rows_by_file();
        let missing = live_rows.iter().filter(|(id, rows)| found.get(id) != Some(rows)).map(|it| *it.0).collect();
        let lost = self.confirm_lost(missing).await?;
        if !lost.is_empty() {
            tracing::warn!(files = lost.len(), "the server has lost rows of some files; they are indexed again");
            self.forget_files(lost).await?;
        }
        self.with_ledger(move |ledger| ledger.note_unclean(&unknown)).await?;
        self.clean_all().await?;
        self.note_compared(lite_starts);
        Ok(())
    }

    /// Reads the rows of these files again and returns the files that lack rows, as a server may have answered while it
    /// loaded only a part of the collection.
    async fn confirm_lost(&self, files: Vec<FileId>) -> Result<Vec<FileId>> {
        let mut found = BTreeMap::<FileId, HashSet<RowId>>::new();
        for part in self.parts_of(&files) {
            let rows = self.query(&part, &IDS, Guarantee::Strong).await?;
            for id in row_ids(&rows)?.into_iter().filter(|it| it.is_live(&self.live())) {
                found.entry(id.file_id).or_default().insert(id);
            }
        }
        let live = self.live();
        let has_all = |it: &FileId| found.get(it).map_or(0, HashSet::len) as u64 == live.chunks_of(*it);
        Ok(files.into_iter().filter(|it| !has_all(it)).collect())
    }

    /// Returns how many valid rows the server has of each file, and the files of its other rows.
    pub(super) async fn rows_on_server(&self) -> Result<(BTreeMap<FileId, u64>, Vec<FileId>)> {
        let (mut found, mut unknown) = (BTreeMap::<FileId, u64>::new(), HashSet::new());
        let mut next = 0;
        // Pages by file, because the order of rows is not defined.
        while let Some((ids, past)) = self.page_of_ids(next).await? {
            let live = self.live();
            for id in ids.into_iter().collect::<HashSet<RowId>>() {
                match id.is_live(&live) {
                    true => *found.entry(id.file_id).or_default() += 1,
                    false => drop(unknown.insert(id.file_id)),
                }
            }
            next = past;
        }
        Ok((found, unknown.into_iter().collect()))
    }

    /// Returns the ids of all rows of the files `from..past`, with `past`; `None` if no file is left.
    async fn page_of_ids(&self, from: FileId) -> Result<Option<(Vec<RowId>, FileId)>> {
        if from == FileId::MAX {
            return Ok(None);
        }
        let mut past = FileId::MAX;
        loop {
            let filter = Filter::range(FILE, from..past);
            let ids = row_ids(&self.query(&filter, &IDS, self.guarantee()).await?)?;
            if ids.len() < MAX_ROWS {
                return Ok(Some((ids, past)));
            }
            // A file of more rows than a page is compared by its ordinals.
            let middle = ids.iter().map(|it| it.file_id).max().unwrap_or(from);
            if past == from + 1 {
                return Ok(Some((self.ids_of_large_file(from).await?, past)));
            }
            past = if middle > from && middle < past { middle } else { from + (past - from) / 2 };
        }
    }

    async fn ids_of_large_file(&self, file_id: FileId) -> Result<Vec<RowId>> {
        let ranges = self.live().ordinal_ranges(file_id, (MAX_ROWS / 4) as u32);
        // The rows between and beyond the valid ones belong to the page before them.
        let starts = std::iter::once(0).chain(ranges.iter().skip(1).map(|it| i64::from(it.start)));
        let ends = ranges.iter().skip(1).map(|it| i64::from(it.start)).chain([i64::MAX]);
        let mut ids = Vec::new();
        for (start, end) in starts.zip(ends) {
            let filter = Filter::eq_int(FILE, file_id).and(Filter::range(ORDINAL, start..end));
            ids.extend(row_ids(&self.query(&filter, &IDS, self.guarantee()).await?)?);
        }
        Ok(ids)
    }
}

/// Returns the filter of the rows of a file that are in none of its runs.
fn outside_runs(file_id: FileId, runs: &[ChunkRun]) -> Filter {
    let run = |it: &ChunkRun| {
        let ordinals = i64::from(it.ordinals.start)..i64::from(it.ordinals.end);
        Filter::eq_int(GENERATION, it.generation.cast_signed()).and(Filter::range(ORDINAL, ordinals))
    };
    let file = Filter::eq_int(FILE, file_id);
    match Filter::any(runs.iter().map(run)) {
        Some(valid) => file.and(valid.not()),
        None => file,
    }
}
