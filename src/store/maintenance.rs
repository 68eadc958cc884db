//! Maintenance of a table: updates indexes, merges fragments, prunes old versions.
//!
//! The order matters: first indexes, then compaction, then pruning. Compacting rows that an index is about to read has
//! made queries fail in the past. Pruning comes after everything else is durable: if a power loss kept the deletions
//! but lost the replacements, no intact version would be left.

use std::sync::atomic::Ordering;

use chrono::{DateTime, Utc};
use lance::dataset::cleanup::CleanupPolicy;
use lancedb::Table;
use lancedb::table::{Duration, OptimizeAction, OptimizeOptions};

use crate::error::Result;
use crate::store::backend::Store;
use crate::store::indexes::{covers, part_rows, parts_to_merge, small_parts, update_indexes};
use crate::store::lance::{LanceStore, log_slower};
use crate::store::lance_error::StoreContext;
use crate::store::schema::TERMS;
use crate::store::{compaction, manifests};

/// The last [`KEEP_VERSIONS`] versions are kept for this long.
const KEEP_TIME: Duration = Duration::seconds(300);
/// A version whose timestamp is further in the future than this was made before the clock was set back.
const CLOCK_JITTER: Duration = Duration::minutes(1);

/// Number of newest versions that are kept for `KEEP_TIME`. Other versions are pruned as soon as no read needs them,
/// because a folder with constant changes makes thousands an hour.
const KEEP_VERSIONS: usize = 10;

/// Runs those maintenance steps whose benefit exceeds their cost. The caller holds the writer lock.
pub(super) async fn maintain(store: &LanceStore) -> Result<()> {
    let table = &store.table;
    if table.count_rows(None).await.on("read", &store.dir)? > 0 {
        store.set_step("updating its indexes");
        // Builds the approximate index only if the vectors are not in memory. While they are in memory, some chunks may
        // lack vectors, and the index requires one for every chunk.
        let is_large = store.memory().vectors().is_none();
        let are_replaced =
            update_indexes(table, store.dimension, is_large).await.on("update keywords in", &store.dir)?;
        // Commits the indexes first, so that they are kept if a later step fails.
        store.commit_durable().await?;
        if are_replaced {
            store.forget_replaced().await;
        }
        store.set_step("compacting");
        if compaction::compact(table).await.on("compact", &store.dir)? {
            store.commit_compacted().await?;
        }
        preload(store).await;
    }
    make_durable_and_prune(store).await
}

/// Adds new rows to the keyword index, without other maintenance. The caller holds the writer lock.
pub(super) async fn cover_keywords(store: &LanceStore) -> Result<()> {
    let indices = store.table.list_indices().await.on("read", &store.dir)?;
    let Some(words) = indices.into_iter().find(|it| covers(it, TERMS)) else { return Ok(()) };
    store.set_step("adding new text to the keyword index");
    let new = words.num_unindexed_rows.unwrap_or(0) as usize;
    let parts = part_rows(&store.table, &words.name).await.on("read", &store.dir)?;
    let merged = parts_to_merge(&parts, new, 2).min(small_parts(&parts));
    let action = OptimizeAction::Index(OptimizeOptions::merge(merged).index_names(vec![words.name]));
    store.table.optimize(action).await.on("update keywords in", &store.dir)?;
    store.commit_durable().await?;
    preload(store).await;
    Ok(())
}

/// Loads the new parts of the keyword index into memory. The first search as one types reads hundreds of rows of an
/// index that is not in memory.
pub(super) async fn preload(store: &LanceStore) {
    if let Err(error) = store.preload().await {
        log_slower(&error);
    }
}

/// Makes the newest version durable, then prunes old ones. The caller holds the writer lock.
pub(super) async fn make_durable_and_prune(store: &LanceStore) -> Result<()> {
    store.commit_durable().await?;
    store.set_step("pruning old versions");
    prune(store).await.on("prune", &store.dir)
}

/// Prunes old versions and the files of undone changes. The library would keep those files for a week, and on a full
/// disk they would block the next change. The caller holds the writer lock.
async fn prune(store: &LanceStore) -> lancedb::Result<()> {
    let versions = store.table.list_versions().await?;
    let made: Vec<_> = versions.iter().map(|it| it.timestamp).collect();
    let oldest = store.version_pins.oldest();
    let read = versions.partition_point(|it| it.version < oldest);
    // Keeps all files if a version is damaged, because some files may belong only to the damaged version.
    let is_left_over = store.has_undone.load(Ordering::Relaxed) && !manifests::has_corrupt(&store.place.table_dir());
    let first = first_kept(&made, read, Utc::now()).or(is_left_over.then_some(0));
    let Some(version) = first.and_then(|it| versions.get(it)) else { return Ok(()) };
    prune_versions_before(&store.table, version.version, is_left_over).await?;
    if is_left_over {
        store.has_undone.store(false, Ordering::Relaxed);
    }
    Ok(())
}

/// Prunes all versions below this number. With `unverified`, also deletes recent files that belong to no version.
pub(super) async fn prune_versions_before(table: &Table, version: u64, unverified: bool) -> lancedb::Result<()> {
    let Some(dataset) = table.dataset() else { return Ok(()) };
    // Selects versions by number, because timestamps are out of order after the clock was set back.
    let policy = CleanupPolicy {
        before_version: Some(version),
        delete_unverified: unverified,
        error_if_tagged_old_versions: false,
        ..CleanupPolicy::default()
    };
    dataset.get().await?.cleanup_with_policy(policy).await?;
    Ok(())
}

/// Returns the index of the version that was the newest at `time`. `made` holds the timestamps of all versions, in
/// order. Timestamps in the future come from before the clock was set back, and count as earlier.
fn newest_at(made: &[DateTime<Utc>], time: DateTime<Utc>, now: DateTime<Utc>) -> Option<usize> {
    made.iter().rposition(|it| *it <= time || *it > now + CLOCK_JITTER)
}

/// Returns the index of the first version to keep. `read` is the index of the first version that a read needs.
fn first_kept(made: &[DateTime<Utc>], read: usize, now: DateTime<Utc>) -> Option<usize> {
    let last_ones = made.len().checked_sub(KEEP_VERSIONS);
    last_ones.max(newest_at(made, now - KEEP_TIME, now)).map(|it| it.min(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{file, keyword, open};
    use crate::store::{FileSet, Maintenance};

    /// Returns the age of the first version kept, if one version per second was made for `seconds` and a read holds the
    /// version of `reading` seconds ago.
    fn kept_age(seconds: i64, reading: i64) -> Option<i64> {
        let now = Utc::now();
        let made: Vec<_> = (1..=seconds).rev().map(|it| now - Duration::seconds(it)).collect();
        first_kept(&made, (seconds - reading) as usize, now).map(|it| (now - made[it]).num_seconds())
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

    // Case A13
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
            store.maintain(Maintenance::Full).await.unwrap();
            assert_eq!(keyword(&store, "words", &FileSet::All).await, [1]);
            kept.push(store.cached.indexes.num_entries().await);
        }
        // The first round creates the index, the other rounds merge its parts.
        assert!(kept[5] <= kept[1], "{kept:?}");
    }

    #[tokio::test]
    async fn first_search_for_prefix_reads_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        for part in [Maintenance::Full, Maintenance::Keywords] {
            store.replace(vec![file(1, &["harbour and harvest"]), file(2, &["a harp"])]).await.unwrap();
            store.maintain(part).await.unwrap();
            let before = store.cached.indexes.num_entries().await;
            assert_eq!(store.chunks_with_prefix("har", &FileSet::All, 10).await.unwrap().len(), 2);
            assert_eq!(store.cached.indexes.num_entries().await, before, "after {part:?}");
        }
    }

    #[tokio::test]
    async fn size_of_replaced_indexes_does_not_prevent_preload() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        for _ in 0..3 {
            store.replace(vec![file(1, &["words that are looked for"])]).await.unwrap();
            store.maintain(Maintenance::Keywords).await.unwrap();
        }
        let parts = crate::store::indexes::keyword_part_dirs(&store.published).await.unwrap();
        let dirs = std::fs::read_dir(store.place.table_dir().join("_indices")).unwrap();
        let dirs: Vec<String> = dirs.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        assert!(parts.len() < dirs.len(), "{dirs:?}");
        assert!(parts.iter().all(|it| dirs.contains(it)), "{parts:?} of {dirs:?}");
    }

    #[tokio::test]
    async fn replaced_manifests_and_files_leave_cache() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        for round in 0..20 {
            store.replace(vec![file(1, &[&format!("text of round {round}")])]).await.unwrap();
        }
        let before = store.cached.session.metadata_cache_stats().await.num_entries;
        store.maintain(Maintenance::Full).await.unwrap();
        assert_eq!(keyword(&store, "round", &FileSet::All).await, [1]);
        let after = store.cached.session.metadata_cache_stats().await.num_entries;
        assert!(after * 2 < before, "{after} of {before} are left");
    }

    // Case E14
    #[tokio::test]
    async fn versions_are_pruned_when_unpinned() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        let reading = store.version_pins.pin();
        for round in 0..20 {
            store.replace(vec![file(1, &[&format!("text of round {round}")])]).await.unwrap();
        }
        store.maintain(Maintenance::Prune).await.unwrap();
        assert!(store.version_count().unwrap() >= 20, "a read may need any of them");
        drop(reading);
        store.maintain(Maintenance::Prune).await.unwrap();
        assert_eq!(store.version_count().unwrap(), KEEP_VERSIONS as u64);
        assert_eq!(keyword(&store, "round", &FileSet::All).await, [1]);
    }
}
