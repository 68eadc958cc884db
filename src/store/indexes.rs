//! The indexes of a table: keyword index, approximate vector index, and index of file ids. Each grows by parts, which
//! are merged as rows arrive.

use std::collections::HashMap;

use futures::TryStreamExt;
use lance::index::DatasetIndexExt;
use lancedb::index::scalar::{BTreeIndexBuilder, FtsIndexBuilder, FullTextSearchQuery};
use lancedb::index::vector::IvfPqIndexBuilder;
use lancedb::index::{Index, IndexConfig};
use lancedb::query::{ExecutableQuery, QueryBase, Select, VectorQuery};
use lancedb::table::{OptimizeAction, OptimizeOptions};
use lancedb::{DistanceType, Table};

use crate::store::analysis::term_index;
use crate::store::lance_error;
use crate::store::memory::max_rows;
use crate::store::schema::{TERMS, has_terms};

/// Maximum memory for building the keyword index, in MiB. The library's default is 2 GiB per core.
pub(super) const KEYWORD_MEMORY_MIB: u64 = 256;

/// In tables of up to this many rows, maintenance merges all parts of an index into one. The merge takes seconds;
/// without it, every query looks up each word in each part. The library holds all words of the merged parts in memory,
/// half a KiB per word: 90 MiB for 184,000 files with a unique word each.
const MERGE_ALL_ROWS: usize = 100_000;

/// Maintenance assumes at least this many new rows when it selects the parts to merge, so that parts of up to this size
/// are always merged with new rows.
const SMALL_PART_ROWS: usize = 20_000;

/// Maintenance merges parts of an index until at most this many are left.
const MAX_PARTS: usize = 6;

/// In tables of more rows than this, filters by file use an index instead of a scan. A filter for five files then takes
/// 2 to 5 ms in a keyword or vector search, at 120,000 and at 300,000 chunks.
const FILE_INDEX_ROWS: usize = 20_000;

/// Number of vectors per partition of a new approximate index. The number of partitions stays the same while the table
/// grows.
const PARTITION_ROWS: usize = 4_096;

/// Number of partitions that a search without a filter reads: with [`PARTITION_ROWS`] about 80,000 vectors. Measured
/// with `benches/store.rs` on 300,000 chunks, recall of the ten nearest compared with an exact search: 0.82 with 5,
/// 0.93 with 10, 0.990 with 20 (11 to 15 ms), 0.996 with 40 (22 ms); with 20 at 120,000 chunks 0.996 (13 ms).
const PROBES: usize = 20;

/// Number of candidates that are re-ranked with their full vectors, as a multiple of the requested hits. Recall of the
/// ten nearest without a filter: 0.984 with 1, 0.990 with 2 and with 4. With a filter that passes 1 % of the rows:
/// 0.968 with 2, 0.998 with 4.
const REFINE_FACTOR: u32 = 4;

/// Creates the keyword index if there is none.
pub(super) async fn ensure_keyword_index(table: &Table) -> lancedb::Result<()> {
    let column = keyword_column(table).await?;
    if table.list_indices().await?.iter().any(|it| covers(it, column)) {
        return Ok(());
    }
    build_keyword_index(table).await
}

/// Creates the keyword index. Replaces an existing one.
pub(super) async fn build_keyword_index(table: &Table) -> lancedb::Result<()> {
    let column = keyword_column(table).await?;
    let analysis = if column == TERMS { term_index() } else { FtsIndexBuilder::default() };
    let words = analysis.with_position(false).memory_limit_mb(KEYWORD_MEMORY_MIB).num_workers(1);
    table.create_index(&[column], Index::FTS(words)).execute().await
}

/// Returns the column that the keyword index covers: the terms, or the text in a table of an older vic that has no terms yet.
pub(super) async fn keyword_column(table: &Table) -> lancedb::Result<&'static str> {
    Ok(if has_terms(table).await? { TERMS } else { "text" })
}

/// Drops the index of the text, which the index of the terms has replaced.
async fn drop_text_index(table: &Table, indices: &mut Vec<IndexConfig>) -> lancedb::Result<()> {
    let Some(place) = indices.iter().position(|it| covers(it, "text")) else { return Ok(()) };
    table.drop_index(&indices.remove(place).name).await
}

/// Sets how many partitions of the approximate index a query searches, for a filter that passes `part` (0 to 1) of the
/// rows. Without an index it has no effect. With a filter the matching rows lie further apart, so the number grows with
/// the inverse of the square root of `part`. At 300,000 chunks and a filter that passes one row in 20, this finds 0.99
/// of the ten nearest, as without a filter.
pub(super) fn set_search_effort(query: VectorQuery, part: f64) -> VectorQuery {
    let probes = PROBES as f64 / part.clamp(1e-4, 1.0).sqrt();
    match query.clone().nprobes(probes as usize) {
        Ok(query) => query.refine_factor(REFINE_FACTOR),
        Err(_) => query,
    }
}

/// Returns the number of rows that the keyword index does not cover. The index of an older vic, which analysed English only,
/// covers none, so that maintenance replaces it.
pub(super) async fn unindexed_rows(table: &Table) -> lancedb::Result<u64> {
    let indices = table.list_indices().await?;
    let Some(words) = indices.iter().find(|it| covers(it, TERMS)) else {
        return Ok(table.count_rows(None).await? as u64);
    };
    Ok(words.num_unindexed_rows.unwrap_or(0))
}

/// Returns how many of the newest parts of an index to merge with new rows. `parts` are the row counts of the parts,
/// oldest first. A part is merged if it has at most `times` as many rows as all newer parts and the new rows together.
/// With `times` 2, about five parts remain and each row is written seven times; with 1, eight parts and four times.
pub(super) fn parts_to_merge(parts: &[usize], new: usize, times: usize) -> usize {
    let mut together = new;
    let is_merged = |rows: &&usize| {
        let fits = **rows <= times * together;
        together += **rows;
        fits
    };
    parts.iter().rev().take_while(is_merged).count()
}

/// Returns how many of the newest parts maintenance merges with `new` rows, in a table of `rows` rows, or `None` if
/// there is nothing to do. A row is written four times if rows arrive by the thousands, seven times if they arrive
/// singly.
fn parts_due(parts: &[usize], new: usize, rows: usize) -> Option<usize> {
    let few_enough = |merged: &usize| parts.len() - merged < MAX_PARTS;
    let due = match rows {
        0..=MERGE_ALL_ROWS => parts.len(),
        _ => {
            let mut more_and_more = (0..16).map(|it| parts_to_merge(parts, new.max(SMALL_PART_ROWS), 1 << it));
            more_and_more.find(few_enough).unwrap_or(parts.len())
        }
    };
    // Does nothing for a single part without new rows, because every maintenance would rewrite this part.
    (new > 0 || due > 1).then_some(due)
}

/// Returns how many of the newest parts are small enough to merge after a small change; a larger part would take too
/// long.
pub(super) fn small_parts(parts: &[usize]) -> usize {
    parts.iter().rev().take_while(|rows| **rows <= SMALL_PART_ROWS).count()
}

/// Returns the live rows covered by each part of an index, oldest first.
pub(super) async fn part_rows(table: &Table, name: &str) -> lancedb::Result<Vec<usize>> {
    let Some(dataset) = table.dataset() else { return Ok(Vec::new()) };
    let dataset = dataset.get().await?;
    let fragments = dataset.manifest().fragments.iter();
    let rows: HashMap<u32, usize> = fragments.map(|it| (it.id as u32, it.num_rows().unwrap_or(0))).collect();
    let parts = dataset.load_indices_by_name(name).await?;
    let covered = parts.iter().map(|part| part.fragment_bitmap.iter().flatten());
    Ok(covered.map(|fragments| fragments.filter_map(|it| rows.get(&it)).sum()).collect())
}

/// Returns the directories of the parts of the keyword index, below that of all indexes.
pub(super) async fn keyword_part_dirs(table: &Table) -> lancedb::Result<Vec<String>> {
    let (Some(dataset), column) = (table.dataset(), keyword_column(table).await?) else { return Ok(Vec::new()) };
    let dataset = dataset.get().await?;
    let mut dirs = Vec::new();
    for index in table.list_indices().await?.iter().filter(|it| covers(it, column)) {
        let parts = dataset.load_indices_by_name(&index.name).await?;
        dirs.extend(parts.iter().map(|it| it.uuid.to_string()));
    }
    Ok(dirs)
}

/// Loads the keyword index into the library's cache.
pub(super) async fn preload_keyword_index(table: &Table) -> lancedb::Result<()> {
    let column = keyword_column(table).await?;
    for index in table.list_indices().await?.iter().filter(|it| covers(it, column)) {
        table.prewarm_index(&index.name).await?;
    }
    Ok(())
}

/// Drops unreadable indexes and rebuilds the keyword index. Returns whether any index was unreadable. The next
/// maintenance rebuilds the other indexes.
pub(super) async fn repair_indexes(table: &Table) -> lancedb::Result<bool> {
    let mut mended = false;
    for index in table.list_indices().await? {
        let Err(error) = probe_index(table, &index).await else { continue };
        if !lance_error::is_damage(&error) {
            return Err(error);
        }
        tracing::warn!("the index `{}` is damaged and is rebuilt: {error}", index.name);
        table.drop_index(&index.name).await?;
        mended = true;
    }
    if mended {
        ensure_keyword_index(table).await?;
    }
    Ok(mended)
}

/// Runs a query that must open this index, to check that it can be read.
async fn probe_index(table: &Table, index: &IndexConfig) -> lancedb::Result<()> {
    let columns = Select::columns(&["file_id"]);
    let keywords = ["text", TERMS].into_iter().find(|it| covers(index, it));
    let stream = if let Some(column) = keywords {
        let words = FullTextSearchQuery::new("vic".into()).with_column(column.into());
        let words = words.map_err(|error| lancedb::Error::Runtime { message: error.to_string() })?;
        let columns = Select::columns(&["file_id", "_score"]);
        table.query().full_text_search(words).limit(1).select(columns).execute().await?
    } else if covers(index, "vector") {
        let schema = table.schema().await?;
        let dimension = match schema.field_with_name("vector").map(|it| it.data_type()) {
            Ok(arrow::datatypes::DataType::FixedSizeList(_, size)) => *size as usize,
            _ => return Ok(()),
        };
        let nearest = table.query().nearest_to(vec![1.0f32; dimension])?.column("vector");
        nearest.distance_type(DistanceType::Cosine).limit(1).select(columns).execute().await?
    } else {
        table.query().only_if("file_id = -1").select(columns).execute().await?
    };
    stream.try_collect::<Vec<_>>().await?;
    Ok(())
}

/// Creates missing indexes, and merges parts with new rows. Returns whether any part was replaced.
pub(super) async fn update_indexes(table: &Table, dimension: usize, is_large: bool) -> lancedb::Result<bool> {
    ensure_keyword_index(table).await?;
    let rows = table.count_rows(None).await?;
    let mut indices = table.list_indices().await?;
    drop_text_index(table, &mut indices).await?;
    let mut replaced = false;
    if rows > FILE_INDEX_ROWS && !indices.iter().any(|it| covers(it, "file_id")) {
        table.create_index(&["file_id"], Index::BTree(BTreeIndexBuilder::default())).execute().await?;
    }
    if is_large && rows > max_rows(dimension) && !indices.iter().any(|it| covers(it, "vector")) {
        table.create_index(&["vector"], vector_index(rows, dimension)).execute().await?;
    }
    for index in indices {
        let (new, parts) = (index.num_unindexed_rows.unwrap_or(0) as usize, part_rows(table, &index.name).await?);
        let Some(merged) = parts_due(&parts, new, rows) else { continue };
        let options = OptimizeOptions::merge(merged).index_names(vec![index.name.clone()]);
        table.optimize(OptimizeAction::Index(options)).await?;
        replaced = true;
    }
    Ok(replaced)
}

/// Returns the settings of the approximate index: product quantisation to one byte per eight numbers, so that a million
/// vectors of 384 numbers take 48 MB.
///
/// Building it, with the rest of maintenance, took 170 to 220 s at 120,000 to 300,000 chunks on two busy cores, and the
/// process reached 531 MiB. The table with all indexes takes 3.7 KiB per chunk.
fn vector_index(rows: usize, dimension: usize) -> Index {
    let partitions = u32::try_from(rows.div_ceil(PARTITION_ROWS)).unwrap_or(u32::MAX);
    let index = IvfPqIndexBuilder::default().distance_type(DistanceType::Cosine).num_partitions(partitions);
    match u32::try_from(dimension / 8) {
        Ok(parts) if parts > 0 && dimension.is_multiple_of(8) => Index::IvfPq(index.num_sub_vectors(parts)),
        _ => Index::IvfPq(index),
    }
}

pub(super) fn covers(index: &IndexConfig, column: &str) -> bool {
    index.columns.iter().any(|it| it == column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_row_parts_stay_few_and_are_rewritten_seldom() {
        for (times, most, often) in [(1, 16, 6), (2, 10, 8)] {
            let (mut parts, mut rows, mut written) = (vec![1_000_000], 0, 0);
            for number in 1..=2_000 {
                let new = 20 + number * 31 % 41;
                let kept = parts.len() - parts_to_merge(&parts, new, times).min(small_parts(&parts));
                let part = new + parts.drain(kept..).sum::<usize>();
                (rows, written) = (rows + new, written + part);
                parts.push(part);
                assert!(parts.len() <= most && parts[0] == 1_000_000, "after {number}: {parts:?}");
            }
            assert!(written <= often * rows, "each {} times", written / rows);
        }
    }

    /// Simulates maintenance after each number of new rows. Returns the maximum rows merged at once and how often a row
    /// is written.
    fn run_maintenances(come: impl Iterator<Item = usize>) -> (usize, usize) {
        let (mut parts, mut most, mut written) = (Vec::new(), 0, 0);
        for new in come {
            let rows = new + parts.iter().sum::<usize>();
            let kept = parts.len() - parts_due(&parts, new, rows).unwrap_or(0);
            let old = parts.drain(kept..).sum::<usize>();
            (most, written) = (most.max(old), written + new + old);
            parts.push(new + old);
            assert!(parts.len() <= MAX_PARTS, "{parts:?}");
            assert!(rows > MERGE_ALL_ROWS || parts.len() == 1, "{parts:?}");
        }
        (most, written / parts.iter().sum::<usize>())
    }

    #[test]
    fn maintenance_leaves_few_parts_and_merges_under_half_of_a_job() {
        let (most, _) = run_maintenances([30_000; 6].into_iter().chain([20_000]));
        assert!(most < 100_000, "{most}");
    }

    #[test]
    fn maintenance_writes_each_row_a_few_times() {
        assert!(run_maintenances([30_000; 100].into_iter()).1 <= 4);
        assert!(run_maintenances((0..150).map(|it| 30_000 - 100 * it)).1 <= 4);
        assert!(run_maintenances(std::iter::once(1_000_000).chain([2_100; 1_000])).1 <= 7);
    }

    #[test]
    fn maintenance_without_new_rows_ends() {
        assert_eq!(parts_due(&[50_000], 0, 50_000), None);
        assert_eq!(parts_due(&[900_000, 10_000], 0, 910_000), None);
        assert_eq!(parts_due(&[900_000, 10_000, 4_000], 0, 914_000), Some(2));
        assert_eq!(parts_due(&[900_000], 5, 900_005), Some(0));
    }
}
