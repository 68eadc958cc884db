//! Searches by vector and by keywords.

use std::collections::HashSet;

use vic_milvus::{Filter, MAX_ROWS, Metric, Search, Vector};

use crate::error::Result;
use crate::model::{FileId, LegHit};
use crate::store::backend::{FileSet, KeywordQuery, Store};
use crate::store::milvus::errors::from_client;
use crate::store::milvus::keywords::{SparseVector, query_vector, rarest_first};
use crate::store::milvus::rows::{FILE, IDS, ORDINAL, RowId, VECTOR, WORDS, row_ids};
use crate::store::milvus::table::MilvusStore;

/// Maximum number of files in the filter of a search. Milvus Lite took 0.4 s for 5,000.
pub(super) const MAX_FILTER_FILES: usize = 5_000;
/// If a filter passes at least one in this many rows, the search requests more hits of the whole collection and drops those
/// that do not match.
const WIDE_FILTER_SHARE: u64 = 5;
/// Factor by which a search requests more hits, after invalid rows left too few.
const RETRY_FACTOR: usize = 4;
/// Number of candidates that the search in the graph of vectors keeps, as a multiple of the hits.
const EF_FACTOR: usize = 2;

/// Where a search looks.
enum Scope {
    /// In no row.
    None,
    /// In the rows of each of these filters; `None` for all.
    Filters(Vec<Option<Filter>>),
    /// In all rows, with more hits by this factor, since most do not match.
    Wide(usize),
}

impl MilvusStore {
    pub(super) async fn search_vector(&self, vector: &[f32], files: &FileSet, limit: usize) -> Result<Vec<LegHit>> {
        let mut hits = self.search_files(VECTOR, Vector::Dense(vector), files, limit).await?;
        // A chunk without a vector has zeros, whose cosine is no number or 0.
        hits.retain(|it| it.score.is_finite() && it.score != 0.0);
        Ok(hits)
    }

    pub(super) async fn search_keywords(
        &self,
        query: &KeywordQuery,
        files: &FileSet,
        limit: usize,
    ) -> Result<Vec<LegHit>> {
        self.note_query();
        if let Some(local) = &self.local_keywords {
            return Ok(self.with_live_files(local.keyword_leg(query, files, limit).await?));
        }
        let (terms, chunks) = (query.terms.clone(), self.live().chunk_count());
        let words = self.with_ledger(move |ledger| query_vector(ledger, &terms, chunks)).await?;
        if words.is_empty() {
            return Ok(Vec::new());
        }
        self.search_files(WORDS, Vector::Sparse(&words), files, limit).await
    }

    /// Returns the files with a chunk that contains a term of each of these words.
    pub(super) async fn files_with_words(&self, words: &[Vec<String>], files: &FileSet) -> Result<Vec<FileId>> {
        if let Some(local) = &self.local_keywords {
            let mut found = local.files_with(words, files).await?;
            found.retain(|it| self.live().has_file(*it));
            return Ok(found);
        }
        let words = words.to_vec();
        let words = self.with_ledger(move |ledger| rarest_first(ledger, &words)).await?;
        let mut found = HashSet::new();
        self.rows_with(&words, files, &mut found).await?;
        let mut found: Vec<FileId> = found.into_iter().filter(|it| files.contains(*it)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Adds the files of all rows that have a term of each of these words, rarest first.
    async fn rows_with(&self, words: &[Vec<u32>], files: &FileSet, found: &mut HashSet<FileId>) -> Result<()> {
        let [rarest, ..] = words else { return Ok(()) };
        for term in rarest {
            self.rows_with_term(*term, words, files, found).await?;
        }
        Ok(())
    }

    /// Adds the files of all rows that have this term, and a term of each of these words. Splits the files until the rows
    /// with the term fit into one reply.
    async fn rows_with_term(
        &self,
        term: u32,
        words: &[Vec<u32>],
        files: &FileSet,
        found: &mut HashSet<FileId>,
    ) -> Result<()> {
        let ids = match files {
            FileSet::All => self.live().file_ids(),
            FileSet::Only(ids) => ids.iter().copied().filter(|it| self.live().has_file(*it)).collect(),
        };
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(()) };
        let mut ranges = vec![(*first, *last + 1)];
        while let Some((start, end)) = ranges.pop() {
            let filter = Filter::range(FILE, start..end);
            let rows = self.rows_with_word(term, filter).await?;
            if rows.len() == MAX_ROWS && end - start > 1 {
                let middle = start + (end - start) / 2;
                ranges.extend([(start, middle), (middle, end)]);
                continue;
            }
            let rows = if rows.len() == MAX_ROWS { self.rows_of_large_file(term, start).await? } else { rows };
            let live = self.live();
            let has = |row: &SparseVector, term: &u32| row.binary_search_by_key(term, |it| it.0).is_ok();
            let has_all = |row: &SparseVector| words.iter().all(|word| word.iter().any(|term| has(row, term)));
            let valid = rows.into_iter().filter(|(id, it)| id.is_live(&live) && has_all(it));
            found.extend(valid.map(|(id, _)| id.file_id));
        }
        Ok(())
    }

    async fn rows_of_large_file(&self, word: u32, file_id: FileId) -> Result<Vec<(RowId, SparseVector)>> {
        let ranges = self.live().ordinal_ranges(file_id, (MAX_ROWS / 4) as u32);
        let mut rows = Vec::new();
        for range in ranges {
            let part = Filter::range(ORDINAL, i64::from(range.start)..i64::from(range.end));
            rows.extend(self.rows_with_word(word, Filter::eq_int(FILE, file_id).and(part)).await?);
        }
        Ok(rows)
    }

    /// Returns up to [`MAX_ROWS`] rows that have a word, with all their words in ascending order.
    async fn rows_with_word(&self, word: u32, filter: Filter) -> Result<Vec<(RowId, SparseVector)>> {
        let vector = [(word, 1.0)];
        let fields: Vec<&str> = IDS.iter().copied().chain([WORDS]).collect();
        let search = self.request(WORDS, Vector::Sparse(&vector), Some(&filter), MAX_ROWS, &fields);
        let hits = self.search(&search).await?;
        let words = hits.rows.sparse_vectors(WORDS).map_err(from_client)?;
        let sorted = |it: &SparseVector| {
            let mut words = it.clone();
            words.sort_unstable_by_key(|it| it.0);
            words
        };
        Ok(row_ids(&hits.rows)?.into_iter().zip(words.iter().map(sorted)).collect())
    }

    async fn search_files(
        &self,
        field: &'static str,
        vector: Vector<'_>,
        files: &FileSet,
        limit: usize,
    ) -> Result<Vec<LegHit>> {
        let (filters, factor) = match self.scope(files) {
            Scope::None => return Ok(Vec::new()),
            Scope::Filters(filters) => (filters, 1),
            Scope::Wide(factor) => (vec![None], factor),
        };
        let mut hits = Vec::new();
        for filter in &filters {
            hits.extend(self.search_live(field, vector, filter.as_ref(), files, (limit, factor)).await?);
        }
        if factor > 1 && hits.len() < limit {
            // The best rows of the whole collection are not in these files.
            hits.clear();
            for filter in self.file_filters(files) {
                hits.extend(self.search_live(field, vector, Some(&filter), files, (limit, 1)).await?);
            }
        }
        hits.sort_by(|a: &LegHit, b| {
            let by_score = b.score.total_cmp(&a.score);
            by_score.then_with(|| (a.file_id, &a.chunk_id).cmp(&(b.file_id, &b.chunk_id)))
        });
        hits.truncate(limit);
        Ok(hits)
    }

    /// Returns up to `limit` valid hits in these files. Requests more hits, if invalid rows or other files took too many
    /// places.
    async fn search_live(
        &self,
        field: &'static str,
        vector: Vector<'_>,
        filter: Option<&Filter>,
        files: &FileSet,
        (limit, factor): (usize, usize),
    ) -> Result<Vec<LegHit>> {
        let mut requested = (limit * factor).clamp(1, MAX_ROWS);
        loop {
            let search = self.request(field, vector, filter, requested, &IDS);
            let found = self.search(&search).await?;
            let ids = row_ids(&found.rows)?;
            let is_last = ids.len() < requested || requested == MAX_ROWS;
            let (live, mut seen) = (self.live(), HashSet::new());
            let valid = ids.into_iter().zip(&found.scores).filter(|(id, _)| {
                id.is_live(&live) && files.contains(id.file_id) && seen.insert((id.file_id, id.chunk_id.clone()))
            });
            let hit = |(id, score): (RowId, &f32)| LegHit { chunk_id: id.chunk_id, file_id: id.file_id, score: *score };
            let mut hits: Vec<LegHit> = valid.map(hit).collect();
            if hits.len() >= limit || is_last {
                hits.truncate(limit);
                return Ok(hits);
            }
            requested = (requested * RETRY_FACTOR).min(MAX_ROWS);
        }
    }

    fn request<'a>(
        &self,
        field: &'static str,
        vector: Vector<'a>,
        filter: Option<&'a Filter>,
        limit: usize,
        output_fields: &'a [&'a str],
    ) -> Search<'a> {
        let is_dense = matches!(vector, Vector::Dense(_));
        let effort = if is_dense { vec![("ef".to_owned(), (limit * EF_FACTOR).max(64) as i64)] } else { Vec::new() };
        Search {
            field,
            vector,
            metric: if is_dense { Metric::Cosine } else { Metric::Ip },
            params: effort,
            filter,
            limit,
            output_fields,
            guarantee: self.guarantee(),
        }
    }

    fn scope(&self, files: &FileSet) -> Scope {
        let live = self.live();
        let all = live.chunk_count();
        let Some((selected, rows)) = live.select(files) else {
            return if all == 0 { Scope::None } else { Scope::Filters(vec![None]) };
        };
        if selected.is_empty() {
            return Scope::None;
        }
        if selected.len() > MAX_FILTER_FILES && rows * WIDE_FILTER_SHARE >= all {
            // Twice the share, because the matching rows are not spread evenly.
            return Scope::Wide((2 * all / rows.max(1)) as usize);
        }
        drop(live);
        Scope::Filters(self.file_filters(files).into_iter().map(Some).collect())
    }

    /// Returns filters that together match the rows of these files.
    fn file_filters(&self, files: &FileSet) -> Vec<Filter> {
        let selected = self.live().select(files).map(|it| it.0).unwrap_or_default();
        selected.chunks(MAX_FILTER_FILES).map(|it| Filter::in_ints(FILE, it.iter().copied())).collect()
    }

    /// Drops hits in files without valid rows.
    fn with_live_files(&self, mut hits: Vec<LegHit>) -> Vec<LegHit> {
        let live = self.live();
        hits.retain(|it| live.has_file(it.file_id));
        hits
    }
}
