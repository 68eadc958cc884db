//! Compaction: merges small fragments, and rewrites fragments with many deleted rows, where the benefit exceeds the
//! cost.

use std::time::Duration;

use lancedb::Table;
use lancedb::table::{CompactionOptions, OptimizeAction};

/// Compaction runs if there are more small fragments than this.
const MAX_SMALL_FRAGMENTS: usize = 32;

/// Compaction also runs if there are more fragments than this and they have fewer than [`MIN_ROWS_PER_FRAGMENT`] rows on
/// average. The disk overhead of such fragments (5 KiB each) soon exceeds the size of their rows (2 KiB each).
const MAX_SCATTERED_FRAGMENTS: u64 = 8;

/// Minimum average rows per fragment; see [`MAX_SCATTERED_FRAGMENTS`].
const MIN_ROWS_PER_FRAGMENT: u64 = 8;

/// Compaction runs if more than one in this many rows is deleted.
const DELETED_SHARE: usize = 5;

/// Maximum rows per fragment after compaction.
const FRAGMENT_ROWS: usize = 200_000;

/// Rows that compaction reads per batch; whole batches are in memory.
const COMPACT_BATCH_ROWS: usize = 512;

/// Bytes that compaction reads ahead. The library reads pages of up to 8 MiB for each column, four fragments at a time.
/// It waits forever if the pages of later rows fill this limit and a batch needs one page more: with 16 MiB every
/// second compaction of 20,000 chunks hung. The limit therefore holds all pages of a table of some 100,000 chunks.
const COMPACT_READ_AHEAD: u64 = 256 << 20;

/// After this time plus one second per `COMPACT_ROWS_A_SECOND` rows a compaction counts as hung, and is cancelled and
/// repeated.
const COMPACT_TIME: Duration = Duration::from_secs(60);
/// Number of rows (4 MiB) that even a slow disk reads and writes in a second.
const COMPACT_ROWS_A_SECOND: u64 = 1_000;

/// Returns whether the table has too many fragments for its number of rows.
pub(super) fn is_scattered(fragments: u64, rows: u64) -> bool {
    fragments > MAX_SCATTERED_FRAGMENTS && fragments.saturating_mul(MIN_ROWS_PER_FRAGMENT) > rows
}

/// Compacts the table if the benefit exceeds the cost. Returns whether it did.
pub(super) async fn compact(table: &Table) -> lancedb::Result<bool> {
    let stats = table.stats().await?;
    let deleted = stats.num_deleted_rows.unwrap_or(0) * DELETED_SHARE > stats.num_rows;
    let scattered = is_scattered(stats.fragment_stats.num_fragments as u64, stats.num_rows as u64);
    if stats.fragment_stats.num_small_fragments <= MAX_SMALL_FRAGMENTS && !deleted && !scattered {
        return Ok(false);
    }
    rewrite(table, CompactionOptions::default().materialize_deletions_threshold).await?;
    Ok(true)
}

/// Rewrites every fragment that holds deleted rows.
pub(super) async fn compact_deleted(table: &Table) -> lancedb::Result<()> {
    rewrite(table, 0.0).await
}

/// Merges small fragments, and rewrites fragments with a larger deleted part than `deleted_part` (0 to 1). A compaction
/// that hangs is cancelled and repeated without a limit on the bytes that are read ahead.
async fn rewrite(table: &Table, deleted_part: f32) -> lancedb::Result<()> {
    let rows = table.count_rows(None).await? as u64;
    let time = COMPACT_TIME + Duration::from_secs(rows / COMPACT_ROWS_A_SECOND);
    match tokio::time::timeout(time, rewrite_reading(table, deleted_part, COMPACT_READ_AHEAD)).await {
        Ok(done) => done,
        Err(_) => {
            tracing::warn!("compaction of {rows} rows hung for {} s; it is cancelled and starts again", time.as_secs());
            rewrite_reading(table, deleted_part, UNBOUNDED).await
        }
    }
}

/// No limit on the bytes that are read ahead, which is the library's default.
const UNBOUNDED: u64 = 0;

async fn rewrite_reading(table: &Table, deleted_part: f32, read_ahead: u64) -> lancedb::Result<()> {
    let options = CompactionOptions {
        target_rows_per_fragment: FRAGMENT_ROWS,
        num_threads: Some(1),
        batch_size: Some(COMPACT_BATCH_ROWS),
        io_buffer_size: Some(read_ahead),
        // Sets no limit on the fragments that one task merges, because the library skips a larger task instead of
        // splitting it.
        max_source_fragments: None,
        materialize_deletions_threshold: deleted_part,
        ..CompactionOptions::default()
    };
    table.optimize(OptimizeAction::Compact { options, remap_options: None }).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Embedded;
    use crate::store::tests::{FINGERPRINT, file};
    use crate::store::{LanceStore, Store};

    /// Length of the vectors: two thousand such vectors fill a page of the data file.
    const WIDE: usize = 1_024;

    /// Returns a vector of pseudo-random numbers, which no encoding can compress.
    fn noise(seed: &str) -> Vec<f32> {
        let mut bytes = vec![0; 2 * WIDE];
        blake3::Hasher::new().update(seed.as_bytes()).finalize_xof().fill(&mut bytes);
        bytes.chunks(2).map(|it| f32::from(u16::from_le_bytes([it[0], it[1]])) / 65_536.0).collect()
    }

    #[tokio::test]
    async fn compaction_with_several_pages_a_column_ends() {
        let dir = tempfile::tempdir().unwrap();
        let store = LanceStore::open(dir.path(), FINGERPRINT, WIDE).await.unwrap();
        for part in 0..3 {
            let wide = |it: Embedded| Embedded { vector: noise(&it.chunk.id.0), ..it };
            let files = (1..=5_000).map(|id| {
                let file = file(part * 5_000 + id, &["words"]);
                crate::model::FileChunks { chunks: file.chunks.into_iter().map(wide).collect(), ..file }
            });
            store.replace(files.collect()).await.unwrap();
        }
        let compaction = rewrite_reading(&store.table, 0.0, COMPACT_READ_AHEAD);
        tokio::time::timeout(COMPACT_TIME, compaction).await.expect("compaction hangs").unwrap();
    }
}
