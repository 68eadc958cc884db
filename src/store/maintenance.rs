//! Maintenance: updates indexes, merges fragments, prunes old versions.
//!
//! The order matters: first indexes, then compaction, then pruning. Compacting rows that an index is about to read has
//! made queries fail in the past. Pruning comes after everything else is durable. A power loss that keeps the deletions
//! and loses their replacements would leave no intact version.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use lance::dataset::cleanup::CleanupPolicy;
use lance::index::DatasetIndexExt;
use lancedb::index::scalar::{BTreeIndexBuilder, FtsIndexBuilder, FullTextSearchQuery};
use lancedb::index::vector::IvfPqIndexBuilder;
use lancedb::index::{Index, IndexConfig};
use lancedb::query::{ExecutableQuery, QueryBase, Select, VectorQuery};
use lancedb::table::{Duration, OptimizeAction, OptimizeOptions};
use lancedb::{DistanceType, Table};

use crate::error::Result;
use crate::store::lance::{LanceStore, log_slower};
use crate::store::lance_error::StoreContext;
use crate::store::memory::max_rows;
use crate::store::{compaction, lance_error, manifests};

/// Memory for building the keyword index, in MiB. The library's default is 2 GiB per core.
pub(super) const KEYWORD_MEMORY_MIB: u64 = 256;

/// Rows up to which all parts of an index are merged into one. This takes seconds, and every query looks up every word
/// in each part. The library holds all words of the merged parts in memory, half a KiB each: 90 MiB for 184,000 files
/// with a unique word each.
const MERGE_ALL_ROWS: usize = 100_000;

/// Minimum number of new rows that maintenance assumes: parts no larger are merged with new rows.
const SMALL_PART_ROWS: usize = 20_000;

/// Maximum parts of an index after maintenance.
const MAX_PARTS: usize = 6;

/// Rows from which a filter by file uses an index instead of a scan. With it, a filter for five files takes 2 to 5 ms
/// in either leg at 120,000 and at 300,000 chunks.
const FILE_INDEX_ROWS: usize = 20_000;

/// Vectors per partition of a new approximate index. The number of partitions stays while the table grows.
const PARTITION_ROWS: usize = 4_096;

/// Partitions searched without a filter: with [`PARTITION_ROWS`] about 80,000 vectors. Measured with `benches/store.rs`
/// on 300,000 chunks, recall at 10 against the exact result: 0.82 with 5, 0.93 with 10, 0.990 with 20 (11 to 15 ms),
/// 0.996 with 40 (22 ms); with 20 at 120,000 chunks 0.996 (13 ms).
const PROBES: usize = 20;

/// Candidates re-ranked with their full vectors, as a multiple of the limit. Recall at 10 without a filter: 0.984 with 1,
/// 0.990 with 2 and with 4. With a filter that passes 1 %: 0.968 with 2, 0.998 with 4.
const REFINE_FACTOR: u32 = 4;

/// How long the last [`KEEP_VERSIONS`] are kept.
const KEEP_TIME: Duration = Duration::seconds(300);
/// How far ahead of the clock the timestamp of a new version may be.
const CLOCK_JITTER: Duration = Duration::minutes(1);

/// Versions kept for that time. Others are pruned as soon as no read holds them: a folder with constant changes makes
/// thousands an hour.
const KEEP_VERSIONS: usize = 10;

/// Creates the keyword index if there is none: English stems and stop words, lower case, no accents.
pub(super) async fn ensure_keyword_index(table: &Table) -> lancedb::Result<()> {
    if table.list_indices().await?.iter().any(|it| covers(it, "text")) {
        return Ok(());
    }
    build_keyword_index(table).await
}

/// Creates the keyword index and replaces an existing one.
pub(super) async fn build_keyword_index(table: &Table) -> lancedb::Result<()> {
    let words = FtsIndexBuilder::default()
        .base_tokenizer("simple".to_owned())
        .stem(true)
        .remove_stop_words(true)
        .lower_case(true)
        .ascii_folding(true)
        .with_position(false)
        .memory_limit_mb(KEYWORD_MEMORY_MIB)
        .num_workers(1);
    table.create_index(&["text"], Index::FTS(words)).execute().await
}

/// Sets the search effort of the approximate index for a filter that passes `part` (0 to 1) of the rows. Without an
/// index it has no effect. Matching rows lie further apart, so more partitions are searched, by the square root of the
/// part. At 300,000 chunks this finds 0.99 of the ten nearest with one row in 20, as without a filter.
pub(super) fn set_search_effort(query: VectorQuery, part: f64) -> VectorQuery {
    let probes = PROBES as f64 / part.clamp(1e-4, 1.0).sqrt();
    match query.clone().nprobes(probes as usize) {
        Ok(query) => query.refine_factor(REFINE_FACTOR),
        Err(_) => query,
    }
}

/// Returns the number of rows outside the keyword index.
pub(super) async fn unindexed_rows(table: &Table) -> lancedb::Result<u64> {
    let indices = table.list_indices().await?;
    let Some(words) = indices.iter().find(|it| covers(it, "text")) else {
        return Ok(table.count_rows(None).await? as u64);
    };
    Ok(words.num_unindexed_rows.unwrap_or(0))
}

/// Runs the maintenance that pays off. The caller holds the writer lock.
pub(super) async fn maintain(store: &LanceStore) -> Result<()> {
    let table = &store.table;
    if table.count_rows(None).await.on("read", &store.dir)? > 0 {
        store.set_step("updating its indexes");
        // While vectors are in memory, chunks may lack them, and the approximate index needs existing vectors.
        let is_large = store.memory().vectors().is_none();
        let are_replaced =
            update_indexes(table, store.dimension, is_large).await.on("update keywords in", &store.dir)?;
        // Keeps this result if a later step fails.
        store.commit_durable().await?;
        if are_replaced {
            store.forget_replaced().await;
        }
        store.set_step("compacting");
        if compaction::compact(table).await.on("compact", &store.dir)? {
            store.commit_compacted().await?;
        }
        if let Err(error) = store.preload().await {
            log_slower(&error);
        }
    }
    make_durable_and_prune(store).await
}

/// Adds new rows to the keyword index, without other maintenance. The caller holds the writer lock.
pub(super) async fn cover_keywords(store: &LanceStore) -> Result<()> {
    let indices = store.table.list_indices().await.on("read", &store.dir)?;
    let Some(words) = indices.into_iter().find(|it| covers(it, "text")) else { return Ok(()) };
    store.set_step("adding new text to the keyword index");
    let new = words.num_unindexed_rows.unwrap_or(0) as usize;
    let parts = part_rows(&store.table, &words.name).await.on("read", &store.dir)?;
    let merged = parts_to_merge(&parts, new, 2).min(small_parts(&parts));
    let action = OptimizeAction::Index(OptimizeOptions::merge(merged).index_names(vec![words.name]));
    store.table.optimize(action).await.on("update keywords in", &store.dir)?;
    store.commit_durable().await
}

/// Returns how many of the newest parts (given by their rows) to merge with new rows: parts up to `times` the size of all
/// that is newer. With 2, about five parts remain and a row is written seven times; with 1, eight and four.
fn parts_to_merge(parts: &[usize], new: usize, times: usize) -> usize {
    let mut together = new;
    let is_merged = |rows: &&usize| {
        let fits = **rows <= times * together;
        together += **rows;
        fits
    };
    parts.iter().rev().take_while(is_merged).count()
}

/// Returns how many of the newest parts maintenance merges with the new rows, in a table of this many rows. `None` if
/// there is nothing to do. Rows that arrive by the thousands are written four times, single rows seven times.
fn parts_due(parts: &[usize], new: usize, rows: usize) -> Option<usize> {
    let few_enough = |merged: &usize| parts.len() - merged < MAX_PARTS;
    let due = match rows {
        0..=MERGE_ALL_ROWS => parts.len(),
        _ => {
            let mut more_and_more = (0..16).map(|it| parts_to_merge(parts, new.max(SMALL_PART_ROWS), 1 << it));
            more_and_more.find(few_enough).unwrap_or(parts.len())
        }
    };
    // Merging one part with nothing would rewrite it at every maintenance.
    (new > 0 || due > 1).then_some(due)
}

/// Returns how many of the newest parts are small. Merging larger ones takes too long for a small change.
fn small_parts(parts: &[usize]) -> usize {
    parts.iter().rev().take_while(|rows| **rows <= SMALL_PART_ROWS).count()
}

/// Returns the live rows covered by each part of an index, oldest first.
async fn part_rows(table: &Table, name: &str) -> lancedb::Result<Vec<usize>> {
    let Some(dataset) = table.dataset() else { return Ok(Vec::new()) };
    let dataset = dataset.get().await?;
    let fragments = dataset.manifest().fragments.iter();
    let rows: HashMap<u32, usize> = fragments.map(|it| (it.id as u32, it.num_rows().unwrap_or(0))).collect();
    let parts = dataset.load_indices_by_name(name).await?;
    let covered = parts.iter().map(|part| part.fragment_bitmap.iter().flatten());
    Ok(covered.map(|fragments| fragments.filter_map(|it| rows.get(&it)).sum()).collect())
}

/// Prunes old versions after making the newest durable. The caller holds the writer lock.
pub(super) async fn make_durable_and_prune(store: &LanceStore) -> Result<()> {
    store.commit_durable().await?;
    store.set_step("pruning old versions");
    prune(store).await.on("prune", &store.dir)
}

/// Loads the keyword index into the library's cache.
pub(super) async fn preload_keyword_index(table: &Table) -> lancedb::Result<()> {
    for index in table.list_indices().await?.iter().filter(|it| covers(it, "text")) {
        table.prewarm_index(&index.name).await?;
    }
    Ok(())
}

/// Drops unreadable indexes and rebuilds the keyword index. Returns whether there were any. The next maintenance
/// rebuilds the others.
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

/// Runs a query that must open the index.
async fn probe_index(table: &Table, index: &IndexConfig) -> lancedb::Result<()> {
    let columns = Select::columns(&["file_id"]);
    let stream = if covers(index, "text") {
        let words = FullTextSearchQuery::new("vic".into()).with_column("text".into());
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

/// Creates indexes and merges their parts. Returns whether any part was replaced.
async fn update_indexes(table: &Table, dimension: usize, is_large: bool) -> lancedb::Result<bool> {
    ensure_keyword_index(table).await?;
    let rows = table.count_rows(None).await?;
    let indices = table.list_indices().await?;
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

/// Uses product quantisation: one byte per eight numbers, so that a million vectors of 384 take 48 MB.
///
/// With the rest of maintenance this took 170 to 220 s at 120,000 to 300,000 chunks on two busy cores, and the process
/// reached 531 MiB. The table with all indexes takes 3.7 KiB per chunk.
fn vector_index(rows: usize, dimension: usize) -> Index {
    let partitions = u32::try_from(rows.div_ceil(PARTITION_ROWS)).unwrap_or(u32::MAX);
    let index = IvfPqIndexBuilder::default().distance_type(DistanceType::Cosine).num_partitions(partitions);
    match u32::try_from(dimension / 8) {
        Ok(parts) if parts > 0 && dimension.is_multiple_of(8) => Index::IvfPq(index.num_sub_vectors(parts)),
        _ => Index::IvfPq(index),
    }
}

/// Prunes old versions and files of undone changes. The library would keep those files for a week, and on a full disk
/// they block the next attempt. The caller holds the writer lock.
async fn prune(store: &LanceStore) -> lancedb::Result<()> {
    let versions = store.table.list_versions().await?;
    let made: Vec<_> = versions.iter().map(|it| it.timestamp).collect();
    let oldest = store.version_pins.oldest();
    let read = versions.partition_point(|it| it.version < oldest);
    // Files that only a damaged version refers to are kept.
    let is_left_over = store.has_undone.load(Ordering::Relaxed) && !manifests::has_corrupt(&store.place.table_dir());
    let first = first_kept(&made, read, Utc::now()).or(is_left_over.then_some(0));
    let Some(version) = first.and_then(|it| versions.get(it)) else { return Ok(()) };
    prune_versions_before(&store.table, version.version, is_left_over).await?;
    if is_left_over {
        store.has_undone.store(false, Ordering::Relaxed);
    }
    Ok(())
}

/// Prunes versions below this number; with `unverified`, also young files without a version.
pub(super) async fn prune_versions_before(table: &Table, version: u64, unverified: bool) -> lancedb::Result<()> {
    let Some(dataset) = table.dataset() else { return Ok(()) };
    // By number, because timestamps are out of order after the clock was set back.
    let policy = CleanupPolicy {
        before_version: Some(version),
        delete_unverified: unverified,
        error_if_tagged_old_versions: false,
        ..CleanupPolicy::default()
    };
    dataset.get().await?.cleanup_with_policy(policy).await?;
    Ok(())
}

/// Returns the index of the version that was the newest at `time`. `made` are timestamps in version order. Timestamps
/// in the future come from before the clock was set back, and count as earlier.
fn newest_at(made: &[DateTime<Utc>], time: DateTime<Utc>, now: DateTime<Utc>) -> Option<usize> {
    made.iter().rposition(|it| *it <= time || *it > now + CLOCK_JITTER)
}

/// Returns the index of the first version to keep, if no version before `read` is in use.
fn first_kept(made: &[DateTime<Utc>], read: usize, now: DateTime<Utc>) -> Option<usize> {
    let last_ones = made.len().checked_sub(KEEP_VERSIONS);
    last_ones.max(newest_at(made, now - KEEP_TIME, now)).map(|it| it.min(read))
}

fn covers(index: &IndexConfig, column: &str) -> bool {
    index.columns.iter().any(|it| it == column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{file, keyword, open};
    use crate::store::{FileSet, Store};

    /// With one version per second for `seconds`, returns the age of the first version kept, while a read holds the
    /// version of `reading` seconds ago.
    fn kept_age(seconds: i64, reading: i64) -> Option<i64> {
        let now = Utc::now();
        let made: Vec<_> = (1..=seconds).rev().map(|it| now - Duration::seconds(it)).collect();
        first_kept(&made, (seconds - reading) as usize, now).map(|it| (now - made[it]).num_seconds())
    }

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

    /// Runs maintenance after each number of new rows. Returns the most rows merged at once and the writes per row.
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

    #[test]
    fn last_versions_and_pinned_ones_are_kept() {
        assert_eq!(kept_age(100, 1), Some(10), "the last ten");
        assert_eq!(kept_age(100, 21), Some(21), "the one that is read");
        assert_eq!(kept_age(1_000, 900), Some(900), "however long it takes");
        assert_eq!(kept_age(9, 1), None, "few, and all of them young");
    }

    #[test]
    fn few_old_versions_are_pruned() {
        let now = Utc::now();
        let made: Vec<_> = [900, 800, 700].map(|it| now - Duration::seconds(it)).into();
        assert_eq!(first_kept(&made, 2, now), Some(2));
        assert_eq!(first_kept(&[], 0, now), None);
    }

    #[test]
    fn versions_from_before_clock_set_back_are_pruned() {
        let now = Utc::now();
        let times = |seconds: &[i64]| seconds.iter().map(|it| now + Duration::seconds(*it)).collect::<Vec<_>>();
        let first = |seconds: &[i64]| first_kept(&times(seconds), seconds.len() - 1, now);
        assert_eq!(first(&[3_600, 3_700, 3_800]), Some(2), "all but the newest");
        assert_eq!(first(&[-900, 3_600, 3_700, -1]), Some(2), "the one that was the newest until a moment ago");
        assert_eq!(first(&[3_600, 3_700, -900, -800]), Some(3));
        assert_eq!(first(&[1, 2]), None, "within the clock jitter");
    }

    #[tokio::test]
    async fn replaced_index_leaves_cache() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        let mut kept = Vec::new();
        for _ in 0..6 {
            store.replace(vec![file(1, &["words that are looked for"])]).await.unwrap();
            store.maintain().await.unwrap();
            assert_eq!(keyword(&store, "words", &FileSet::All).await, [1]);
            kept.push(store.cached.indexes.num_entries().await);
        }
        // The first index was created, the others were merged.
        assert!(kept[5] <= kept[1], "{kept:?}");
    }

    #[tokio::test]
    async fn replaced_manifests_and_files_leave_cache() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        for round in 0..20 {
            store.replace(vec![file(1, &[&format!("text of round {round}")])]).await.unwrap();
        }
        let before = store.cached.session.metadata_cache_stats().await.num_entries;
        store.maintain().await.unwrap();
        assert_eq!(keyword(&store, "round", &FileSet::All).await, [1]);
        let after = store.cached.session.metadata_cache_stats().await.num_entries;
        assert!(after * 2 < before, "{after} of {before} are left");
    }

    #[tokio::test]
    async fn versions_are_pruned_when_unpinned() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        let reading = store.version_pins.pin();
        for round in 0..20 {
            store.replace(vec![file(1, &[&format!("text of round {round}")])]).await.unwrap();
        }
        store.prune().await.unwrap();
        assert!(store.version_count().unwrap() >= 20, "a read may need any of them");
        drop(reading);
        store.prune().await.unwrap();
        assert_eq!(store.version_count().unwrap(), KEEP_VERSIONS as u64);
        assert_eq!(keyword(&store, "round", &FileSet::All).await, [1]);
    }
}
