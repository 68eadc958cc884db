//! Queries of the table: keyword search, vector search, and rows by id.
//!
//! Filters apply before the best hits are chosen. Each query reads only the columns that it returns.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use lancedb::expr::{DfExpr, col, lit};
use lancedb::index::scalar::{BooleanQuery, FtsQuery, FullTextSearchQuery, MatchQuery, Occur};
use lancedb::query::{ExecutableQuery, QueryBase, Select};
use lancedb::{DistanceType, Table};

use crate::error::Result;
use crate::model::{ChunkId, FileId, LegHit, StoredChunk};
use crate::store::backend::{FileSet, KeywordQuery, Store};
use crate::store::lance::LanceStore;
use crate::store::lance_error::StoreContext;
use crate::store::schema::TERMS;
use crate::store::{indexes, schema};

/// Maximum number of bytes of a keyword query; the rest is ignored. The search looks up every word, so that a pasted
/// page would take seconds without a useful result.
const MAX_QUERY_BYTES: usize = 4 << 10;
/// Number of characters by which a similar term may differ: an exchange of two neighbours counts as two.
const MAX_TERM_EDITS: u32 = 2;
/// Maximum number of similar terms of a search: the library takes the first ones by alphabet, and a large index has many.
const MAX_SIMILAR_TERMS: usize = 1_000;

/// If a filter passes at most this many rows, all their vectors are compared without the approximate index, which gives
/// an exact and complete result. Measured at 300,000 chunks: comparing 3,000 rows takes 18 to 21 ms, 15,000 rows 98 ms;
/// the index takes 30 ms for either.
const EXACT_ROWS: u64 = 4_000;

/// If a filter passes at least one in this many rows, the search requests more hits of the whole table and drops those
/// that do not match, instead of passing the files to the table as a list. Measured at 300,000 chunks and half of
/// 60,000 files: a search with the list took 85 to 180 ms, the larger search 15 ms.
const WIDE_FILTER_SHARE: u64 = 5;

/// Which rows a filter selects: all, none or a part.
enum FilterScope {
    All,
    None,
    Part(Subset),
}

/// The files that a filter selects, with their number of rows and that of the whole table.
struct Subset {
    /// The selected files that have rows, sorted.
    files: Vec<FileId>,
    rows: u64,
    all_rows: u64,
}

impl Subset {
    /// Returns how many hits of the whole table have to be requested so that they most likely contain `limit` hits of
    /// these files, or `None` if the filter is too narrow for that.
    fn search_depth(&self, limit: usize) -> Option<usize> {
        let is_wide = self.rows * WIDE_FILTER_SHARE >= self.all_rows;
        // Adds a quarter to the average, because the files of a filter are seldom spread evenly.
        is_wide.then(|| limit * self.all_rows as usize * 5 / (self.rows as usize * 4) + 1)
    }

    /// Returns the first `limit` hits in these files, or `None` if there are fewer: the table may then hold further
    /// matches.
    fn first_matching(&self, mut hits: Vec<LegHit>, limit: usize) -> Option<Vec<LegHit>> {
        hits.retain(|hit| self.files.binary_search(&hit.file_id).is_ok());
        hits.truncate(limit);
        (hits.len() == limit).then_some(hits)
    }

    /// Returns the condition that a row belongs to these files: a list of their ids, or the negated list of all other
    /// ids, whichever is shorter.
    fn filter(&self, store: &LanceStore) -> DfExpr {
        let rows = store.rows();
        if self.files.len() * 2 <= rows.len() {
            return file_condition(&self.files);
        }
        let others: Vec<FileId> = rows.keys().copied().filter(|it| self.files.binary_search(it).is_err()).collect();
        if others.is_empty() { file_condition(&self.files) } else { !file_condition(&others) }
    }
}

/// Returns the `limit` chunks that match the words best, by BM25.
pub(super) async fn keyword_search(
    store: &LanceStore,
    query: &KeywordQuery,
    files: &FileSet,
    limit: usize,
) -> Result<Vec<LegHit>> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let wanted = vec![query.terms.clone()];
    match filter_scope(store, files) {
        FilterScope::None => Ok(Vec::new()),
        FilterScope::All => full_text_search(store, &wanted, None, limit).await,
        FilterScope::Part(part) => {
            if let Some(depth) = part.search_depth(limit)
                && let Some(hits) = part.first_matching(full_text_search(store, &wanted, None, depth).await?, limit)
            {
                return Ok(hits);
            }
            full_text_search(store, &wanted, Some(part.filter(store)), limit).await
        }
    }
}

/// Returns every chunk that contains a term of each of these words.
pub(super) async fn chunks_with_all_words(
    store: &LanceStore,
    words: &[Vec<String>],
    files: &FileSet,
) -> Result<Vec<LegHit>> {
    let filter = match filter_scope(store, files) {
        FilterScope::None => return Ok(Vec::new()),
        FilterScope::All => None,
        FilterScope::Part(part) => Some(part.filter(store)),
    };
    let every = store.chunk_count() as usize;
    full_text_search(store, words, filter, every).await
}

/// Returns up to `limit` chunks with a term that differs from `term` in at most two characters, but not in the first.
pub(super) async fn similar_term_search(
    store: &LanceStore,
    term: &str,
    files: &FileSet,
    limit: usize,
) -> Result<Vec<LegHit>> {
    let filter = match filter_scope(store, files) {
        FilterScope::None => return Ok(Vec::new()),
        FilterScope::All => None,
        FilterScope::Part(part) => Some(part.filter(store)),
    };
    let query = MatchQuery::new(term.to_owned())
        .with_column(Some(term_column(store).to_owned()))
        .with_fuzziness(Some(MAX_TERM_EDITS))
        .with_max_expansions(MAX_SIMILAR_TERMS)
        .with_prefix_length(1);
    run_full_text_query(store, query.into(), filter, limit).await
}

/// Searches for the chunks that contain a term of each of these words.
async fn full_text_search(
    store: &LanceStore,
    words: &[Vec<String>],
    filter: Option<DfExpr>,
    limit: usize,
) -> Result<Vec<LegHit>> {
    match match_query(store, words) {
        Some(query) => run_full_text_query(store, query, filter, limit).await,
        None => Ok(Vec::new()),
    }
}

async fn run_full_text_query(
    store: &LanceStore,
    query: FtsQuery,
    filter: Option<DfExpr>,
    limit: usize,
) -> Result<Vec<LegHit>> {
    let mut search = store.published.query().full_text_search(FullTextSearchQuery::new_query(query));
    search = search.limit(limit).with_row_id();
    if let Some(filter) = filter {
        search = search.only_if_expr(filter);
    }
    if store.memory().row_ids().is_some() {
        let found = search.clone().select(Select::columns(&["_score"])).execute().await;
        let batches = collect(found, "search", &store.dir).await?;
        if let Some(ids) = cached_ids(store, &batches) {
            return with_scores(&batches, ids);
        }
    }
    let found = search.select(Select::columns(&["chunk_id", "file_id", "_score"])).execute().await;
    let batches = collect(found, "search", &store.dir).await?;
    store.memory_mut().add_row_ids(&batches)?;
    best_first(&batches, "_score", |score| score)
}

/// Returns the column that the keyword index covers.
fn term_column(store: &LanceStore) -> &'static str {
    if store.has_terms.load(Ordering::Relaxed) { TERMS } else { "text" }
}

/// Returns the query for chunks with a term of each of these words; `None` without words.
fn match_query(store: &LanceStore, words: &[Vec<String>]) -> Option<FtsQuery> {
    let column = term_column(store);
    let one_of = |terms: &Vec<String>| {
        let text = terms.join(" ");
        let end = if text.len() > MAX_QUERY_BYTES {
            text[..text.floor_char_boundary(MAX_QUERY_BYTES)].rfind(' ')
        } else {
            None
        };
        MatchQuery::new(text[..end.unwrap_or(text.len())].to_owned()).with_column(Some(column.to_owned()))
    };
    match words {
        [] => None,
        [terms] if terms.is_empty() => None,
        [terms] => Some(one_of(terms).into()),
        words => Some(BooleanQuery::new(words.iter().map(|it| (Occur::Must, one_of(it).into()))).into()),
    }
}

/// Returns the chunks of the rows in these batches, or `None` if any of their row ids is unknown.
fn cached_ids(store: &LanceStore, batches: &[RecordBatch]) -> Option<Vec<Vec<LegHit>>> {
    let hot = store.memory();
    batches.iter().map(|it| hot.row_ids()?.chunks(it)).collect()
}

/// Sets the scores of the chunks from the batches, and sorts the chunks, best first.
fn with_scores(batches: &[RecordBatch], ids: Vec<Vec<LegHit>>) -> Result<Vec<LegHit>> {
    let mut hits = Vec::new();
    for (batch, mut part) in batches.iter().zip(ids) {
        schema::set_scores(&mut part, batch, "_score", |score| score)?;
        hits.append(&mut part);
    }
    sort(&mut hits);
    Ok(hits)
}

/// Returns the `limit` chunks whose vectors have the highest cosine similarity to `vector`.
pub(super) async fn vector_search(
    store: &LanceStore,
    vector: &[f32],
    files: &FileSet,
    limit: usize,
) -> Result<Vec<LegHit>> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    if let Some(vectors) = store.memory().vectors() {
        return Ok(vectors.nearest(vector, files, limit));
    }
    match filter_scope(store, files) {
        FilterScope::None => Ok(Vec::new()),
        FilterScope::All => table_nearest(store, vector, None, SearchEffort::Index(1.0), limit).await,
        FilterScope::Part(part) if part.rows <= EXACT_ROWS => {
            table_nearest(store, vector, Some(part.filter(store)), SearchEffort::Exact, limit).await
        }
        FilterScope::Part(part) => {
            if let Some(depth) = part.search_depth(limit)
                && let Some(hits) = part
                    .first_matching(table_nearest(store, vector, None, SearchEffort::Index(1.0), depth).await?, limit)
            {
                return Ok(hits);
            }
            let effort = SearchEffort::Index(part.rows as f64 / part.all_rows as f64);
            table_nearest(store, vector, Some(part.filter(store)), effort, limit).await
        }
    }
}

/// How a vector search of the table runs.
enum SearchEffort {
    /// Compares the vectors of all rows that pass the filter.
    Exact,
    /// Uses the approximate index, if there is one. The value is the fraction of the rows that pass the filter, 0 to 1.
    Index(f64),
}

async fn table_nearest(
    store: &LanceStore,
    vector: &[f32],
    filter: Option<DfExpr>,
    effort: SearchEffort,
    limit: usize,
) -> Result<Vec<LegHit>> {
    let search = store.published.query().nearest_to(vector);
    let mut search = search
        .on("search", &store.dir)?
        .column("vector")
        .distance_type(DistanceType::Cosine)
        .limit(limit)
        .select(Select::columns(&["chunk_id", "file_id", "_distance"]));
    search = match effort {
        SearchEffort::Exact => search.bypass_vector_index(),
        SearchEffort::Index(part) => indexes::set_search_effort(search, part),
    };
    if let Some(filter) = filter {
        search = search.only_if_expr(filter);
    }
    let batches = collect(search.execute().await, "search", &store.dir).await?;
    best_first(&batches, "_distance", |distance| 1.0 - distance)
}

/// Returns the cosine similarity of `vector` to each of these chunks.
pub(super) async fn similarities(store: &LanceStore, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>> {
    if let Some(vectors) = store.memory().vectors() {
        return Ok(vectors.similarities(vector, ids));
    }
    let stored = stored_vectors(store, ids).await?;
    let hit = |((file_id, chunk_id), found): ((FileId, ChunkId), Vec<f32>)| LegHit {
        chunk_id,
        file_id,
        score: cosine(vector, &found),
    };
    Ok(stored.into_iter().map(hit).collect())
}

/// Returns the vectors of these chunks.
pub(super) async fn vectors(
    store: &LanceStore,
    ids: &[(FileId, ChunkId)],
) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>> {
    if let Some(vectors) = store.memory().vectors() {
        return Ok(vectors.vectors(ids));
    }
    stored_vectors(store, ids).await
}

async fn stored_vectors(store: &LanceStore, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>> {
    let mut found = Vec::with_capacity(ids.len());
    for batch in &rows_by_id(store, ids, &["chunk_id", "file_id", "vector"]).await? {
        let rows = schema::keys(batch)?.zip(schema::vectors(batch)?).filter(|(_, it)| !schema::is_missing_vector(it));
        found.extend(rows.map(|((file_id, id), it)| ((file_id, ChunkId(id.to_owned())), it.to_vec())));
    }
    retain_requested(&mut found, ids, |it| (it.0.0, &it.0.1));
    Ok(found)
}

/// Calls `each` with every chunk of these files, until `each` returns false.
pub(super) async fn scan(
    store: &LanceStore,
    files: &FileSet,
    each: &mut (dyn FnMut(StoredChunk) -> bool + Send),
) -> Result<()> {
    let mut query = store.published.query().select(Select::columns(&schema::CHUNK_COLUMNS));
    match filter_scope(store, files) {
        FilterScope::None => return Ok(()),
        FilterScope::All => {}
        FilterScope::Part(part) => query = query.only_if_expr(part.filter(store)),
    }
    let mut stream = query.execute().await.on("read", &store.dir)?;
    while let Some(batch) = stream.try_next().await.on("read", &store.dir)? {
        for chunk in schema::stored_chunks(&batch)? {
            if files.contains(chunk.file_id) && !each(chunk) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the rows of these chunks, and possibly others, which [`retain_requested`] drops.
pub(super) async fn rows_by_id(
    store: &LanceStore,
    ids: &[(FileId, ChunkId)],
    columns: &[&str],
) -> Result<Vec<RecordBatch>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut files: Vec<FileId> = ids.iter().map(|(file_id, _)| *file_id).collect();
    files.sort_unstable();
    files.dedup();
    let chunks = ids.iter().map(|(_, id)| lit(id.0.as_str())).collect();
    let filter = file_condition(&files).and(col("chunk_id").in_list(chunks, false));
    let query = store.published.query().only_if_expr(filter).select(Select::columns(columns));
    collect(query.execute().await, "read", &store.dir).await
}

impl LanceStore {
    /// Returns all rows of these files.
    pub(super) async fn rows_of(&self, table: &Table, files: &[FileId]) -> Result<Vec<RecordBatch>> {
        let query = table.query().only_if_expr(file_condition(files)).select(Select::All);
        collect(query.execute().await, "read", &self.dir).await
    }
}

/// Collects all batches of a query. `action` and `dir` describe the query in an error.
pub(super) async fn collect(
    stream: lancedb::Result<lancedb::arrow::SendableRecordBatchStream>,
    action: &str,
    dir: &Path,
) -> Result<Vec<RecordBatch>> {
    stream.on(action, dir)?.try_collect().await.on(action, dir)
}

/// Drops rows that were not requested: files with the same content have the same chunk ids.
pub(super) fn retain_requested<T>(rows: &mut Vec<T>, ids: &[(FileId, ChunkId)], key: fn(&T) -> (FileId, &ChunkId)) {
    let asked: HashSet<(FileId, &ChunkId)> = ids.iter().map(|(file_id, id)| (*file_id, id)).collect();
    rows.retain(|row| asked.contains(&key(row)));
}

/// Returns the condition that a row belongs to one of these files.
pub(super) fn file_condition(files: &[FileId]) -> DfExpr {
    match files {
        [one] => col("file_id").eq(lit(*one)),
        _ => col("file_id").in_list(files.iter().map(|it| lit(*it)).collect(), false),
    }
}

/// Returns the condition that a row belongs to this file and has an ordinal in this range.
pub(super) fn part_condition(file_id: FileId, ordinals: &Range<u32>) -> DfExpr {
    let within = col("ordinal").gt_eq(lit(ordinals.start)).and(col("ordinal").lt(lit(ordinals.end)));
    file_condition(&[file_id]).and(within)
}

/// Returns which rows a set of files selects.
fn filter_scope(store: &LanceStore, files: &FileSet) -> FilterScope {
    let rows = store.rows();
    let FileSet::Only(wanted) = files else {
        return if rows.is_empty() { FilterScope::None } else { FilterScope::All };
    };
    let mut files = Vec::with_capacity(wanted.len());
    let mut count = 0;
    for file_id in wanted.iter() {
        if let Some(chunks) = rows.get(file_id) {
            files.push(*file_id);
            count += chunks;
        }
    }
    if files.is_empty() {
        FilterScope::None
    } else if files.len() == rows.len() {
        FilterScope::All
    } else {
        FilterScope::Part(Subset { files, rows: count, all_rows: store.chunk_count() })
    }
}

fn best_first(batches: &[RecordBatch], column: &str, score: fn(f32) -> f32) -> Result<Vec<LegHit>> {
    let mut hits = Vec::new();
    for batch in batches {
        hits.extend(schema::hits(batch, column, score)?);
    }
    // Drops chunks without a vector: the table stores zeros for them, and their distance is NaN.
    hits.retain(|it| !it.score.is_nan());
    sort(&mut hits);
    Ok(hits)
}

/// Sorts hits, best first. Sorts equal scores by id, so that results are reproducible.
fn sort(hits: &mut [LegHit]) {
    hits.sort_by(|a, b| {
        let by_score = b.score.total_cmp(&a.score);
        by_score.then_with(|| (a.file_id, &a.chunk_id).cmp(&(b.file_id, &b.chunk_id)))
    });
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
    let norm = (dot(a, a) * dot(b, b)).sqrt();
    if norm > 0.0 { dot(a, b) / norm } else { 0.0 }
}
