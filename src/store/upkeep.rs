//! Housekeeping: indexes up to date, few large fragments, no old versions.
//!
//! Order matters: indexes first, then compaction, then pruning. Compacting rows that an index is about to read has made
//! queries fail in the past. Pruning comes when all of that is on disk: a power loss that keeps the deletions and loses
//! what was to take their place would leave no version that is whole.

use futures::TryStreamExt;
use lancedb::index::scalar::{BTreeIndexBuilder, FtsIndexBuilder, FullTextSearchQuery};
use lancedb::index::vector::IvfPqIndexBuilder;
use lancedb::index::{Index, IndexConfig};
use lancedb::query::{ExecutableQuery, QueryBase, Select, VectorQuery};
use lancedb::table::{CompactionOptions, Duration, OptimizeAction, OptimizeOptions};
use lancedb::{DistanceType, Table};

use crate::error::Result;
use crate::store::failure::{self, StoreContext};
use crate::store::hot::hot_rows;
use crate::store::lance::LanceStore;

/// Memory of building the keyword index, in MiB. The library's default is 2 GiB for each core.
pub(super) const KEYWORD_MEMORY_MIB: u64 = 256;

/// Parts of an index that are searched one after the other; when there are more, the newest are merged.
const MAX_SEGMENTS: u32 = 6;

/// Newest parts merged at once: the old, large ones stay as they are, so that a small change costs little.
const MERGED_SEGMENTS: usize = 5;

/// Rows up to which all parts are merged whenever there is more than one: that takes seconds, and every word of every
/// question is looked up in each part.
const MERGED_WHOLE_ROWS: usize = 200_000;

/// Rows from which a filter by file is looked up rather than scanned. With it, a filter that leaves five files takes 2 to
/// 5 ms in either leg at 120,000 and at 300,000 chunks.
const FILE_INDEX_ROWS: usize = 20_000;

/// Vectors of one partition of the approximate index when it is made. As the table grows, the library splits partitions
/// that have become too large.
const PARTITION_ROWS: usize = 4_096;

/// Partitions searched when there is no filter: with [`PARTITION_ROWS`] some 80,000 vectors. Measured with
/// `benches/store.rs` on 300,000 chunks, recall at 10 against the exact answer: 0.82 with 5, 0.93 with 10, 0.990 with 20
/// (11 to 15 ms), 0.996 with 40 (22 ms); with 20 at 120,000 chunks 0.996 (13 ms).
const PROBES: usize = 20;

/// Candidates that are compared with their full vectors, as a multiple of the limit. Makes no difference to recall at 10
/// without a filter (0.990 with 2 and with 4, 0.984 with 1); with one that leaves 1 % it is 0.968 with 2, 0.998 with 4.
const REFINE: u32 = 4;

/// Small fragments that make compaction worth while.
const MAX_SMALL_FRAGMENTS: usize = 32;

/// Deleted rows that make compaction worth while: one in so many.
const DELETED_PART: usize = 5;

/// Rows of a fragment after compaction.
const FRAGMENT_ROWS: usize = 200_000;

/// Rows read at once while compacting; whole batches are in memory.
const COMPACT_BATCH_ROWS: usize = 1_024;

/// Seconds that old versions are kept: longer than any question takes.
const KEEP_SECONDS: i64 = 300;

/// Versions from which on older ones go sooner: a folder in which something is saved all the time makes thousands an hour.
const KEEP_VERSIONS: usize = 10;

/// Even then they are kept for so many seconds: longer than a question takes unless it reads every passage.
const KEEP_SECONDS_AT_LEAST: i64 = 20;

/// Makes the keyword index when there is none: English stems and stop words, lower case, without accents.
pub(super) async fn ensure_keyword_index(table: &Table) -> lancedb::Result<()> {
    if table.list_indices().await?.iter().any(|it| covers(it, "text")) {
        return Ok(());
    }
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

/// Sets how thoroughly the approximate index is searched when a filter lets `part` (0 to 1) of the rows pass; means
/// nothing where there is no index. The nearest rows of a part lie further apart, so more partitions are searched: by the
/// root of the part, at 300,000 chunks 0.99 of the ten nearest are found with one row in 20 as well as without a filter.
pub(super) fn tune(query: VectorQuery, part: f64) -> VectorQuery {
    let probes = PROBES as f64 / part.clamp(1e-4, 1.0).sqrt();
    match query.clone().nprobes(probes as usize) {
        Ok(query) => query.refine_factor(REFINE),
        Err(_) => query,
    }
}

/// Returns the number of rows that the keyword index does not cover.
pub(super) async fn unindexed(table: &Table) -> lancedb::Result<u64> {
    let indices = table.list_indices().await?;
    let Some(words) = indices.iter().find(|it| covers(it, "text")) else {
        return Ok(table.count_rows(None).await? as u64);
    };
    Ok(words.num_unindexed_rows.unwrap_or(0))
}

/// Does what is worth doing. The caller holds the writer's lock.
pub(super) async fn run(store: &LanceStore) -> Result<()> {
    let table = &store.table;
    if table.count_rows(None).await.on("read", &store.dir)? > 0 {
        store.doing("bringing its indexes up to date");
        // Before that, chunks may wait for their vectors: the approximate index is made of what vectors there are.
        let is_large = store.hot().vectors().is_none();
        index(table, store.dimension, is_large).await.on("index the words of", &store.dir)?;
        store.doing("compacting");
        compact(table).await.on("compact", &store.dir)?;
        // Both only make questions faster.
        if let Err(error) = async { store.learn_addresses().await.and(store.warm().await) }.await {
            tracing::warn!(%error, "questions take longer");
        }
    }
    prune_only(store).await
}

/// Drops old versions, once the newest is on disk. The caller holds the writer's lock.
pub(super) async fn prune_only(store: &LanceStore) -> Result<()> {
    store.settle().await?;
    store.doing("pruning old versions");
    prune(&store.table).await.on("prune", &store.dir)
}

/// Reads the keyword index into the library's cache.
pub(super) async fn warm(table: &Table) -> lancedb::Result<()> {
    for index in table.list_indices().await?.iter().filter(|it| covers(it, "text")) {
        table.prewarm_index(&index.name).await?;
    }
    Ok(())
}

/// Drops the indexes that cannot be read, and makes the keyword index anew; says whether there were any. The others come
/// back with the next upkeep.
pub(super) async fn mend_indexes(table: &Table) -> lancedb::Result<bool> {
    let mut mended = false;
    for index in table.list_indices().await? {
        let Err(error) = probe(table, &index).await else { continue };
        if !failure::is_damage(&error) {
            return Err(error);
        }
        tracing::warn!("the index `{}` is damaged and is made anew: {error}", index.name);
        table.drop_index(&index.name).await?;
        mended = true;
    }
    if mended {
        ensure_keyword_index(table).await?;
    }
    Ok(mended)
}

/// Asks something that the index has to be opened for.
async fn probe(table: &Table, index: &IndexConfig) -> lancedb::Result<()> {
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

async fn index(table: &Table, dimension: usize, is_large: bool) -> lancedb::Result<()> {
    ensure_keyword_index(table).await?;
    let rows = table.count_rows(None).await?;
    let indices = table.list_indices().await?;
    if rows > FILE_INDEX_ROWS && !indices.iter().any(|it| covers(it, "file_id")) {
        table.create_index(&["file_id"], Index::BTree(BTreeIndexBuilder::default())).execute().await?;
    }
    if is_large && rows > hot_rows(dimension) && !indices.iter().any(|it| covers(it, "vector")) {
        table.create_index(&["vector"], vector_index(rows, dimension)).execute().await?;
    }
    for index in indices {
        let segments = index.num_segments.unwrap_or(1);
        let options = match (index.num_unindexed_rows, segments) {
            (Some(0), 1) => continue,
            _ if rows <= MERGED_WHOLE_ROWS => OptimizeOptions::merge(segments as usize),
            (Some(0), _) => continue,
            _ if segments >= MAX_SEGMENTS => OptimizeOptions::merge(MERGED_SEGMENTS),
            _ => OptimizeOptions::append(),
        };
        table.optimize(OptimizeAction::Index(options.index_names(vec![index.name.clone()]))).await?;
    }
    Ok(())
}

/// Product quantisation: an eighth of the numbers a byte each, so that a million vectors of 384 take 48 MB.
///
/// With everything else upkeep has to do, this took 170 to 220 s at 120,000 to 300,000 chunks on two busy cores, and the
/// process reached 531 MiB; the table with all its indexes takes 3.7 KiB a chunk.
fn vector_index(rows: usize, dimension: usize) -> Index {
    let partitions = u32::try_from(rows.div_ceil(PARTITION_ROWS)).unwrap_or(u32::MAX);
    let index = IvfPqIndexBuilder::default().distance_type(DistanceType::Cosine).num_partitions(partitions);
    match u32::try_from(dimension / 8) {
        Ok(parts) if parts > 0 && dimension.is_multiple_of(8) => Index::IvfPq(index.num_sub_vectors(parts)),
        _ => Index::IvfPq(index),
    }
}

async fn compact(table: &Table) -> lancedb::Result<()> {
    let stats = table.stats().await?;
    let deleted = stats.num_deleted_rows.unwrap_or(0) * DELETED_PART > stats.num_rows;
    if stats.fragment_stats.num_small_fragments <= MAX_SMALL_FRAGMENTS && !deleted {
        return Ok(());
    }
    let options = CompactionOptions {
        target_rows_per_fragment: FRAGMENT_ROWS,
        num_threads: Some(1),
        batch_size: Some(COMPACT_BATCH_ROWS),
        // A bound on what one compaction reads would not split a larger task but leave it undone, for ever.
        max_source_fragments: None,
        ..CompactionOptions::default()
    };
    table.optimize(OptimizeAction::Compact { options, remap_options: None }).await?;
    Ok(())
}

async fn prune(table: &Table) -> lancedb::Result<()> {
    let made: Vec<_> = table.list_versions().await?.into_iter().map(|it| it.timestamp).collect();
    let oldest_kept = made.len().checked_sub(KEEP_VERSIONS).filter(|it| *it > 0).and_then(|it| made.get(it));
    let age = oldest_kept.map_or(KEEP_SECONDS, |it| (chrono::Utc::now() - *it).num_seconds());
    let older_than = Some(Duration::seconds(age.clamp(KEEP_SECONDS_AT_LEAST, KEEP_SECONDS)));
    let action =
        OptimizeAction::Prune { older_than, delete_unverified: Some(false), error_if_tagged_old_versions: None };
    table.optimize(action).await?;
    Ok(())
}

fn covers(index: &IndexConfig, column: &str) -> bool {
    index.columns.iter().any(|it| it == column)
}
