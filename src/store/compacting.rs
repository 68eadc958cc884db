//! Compaction: merges small fragments and rewrites those with many deleted rows, when that pays off.

use lancedb::Table;
use lancedb::table::{CompactionOptions, OptimizeAction};

/// Small fragments above which compaction runs.
const MAX_SMALL_FRAGMENTS: usize = 32;

/// The same limit for a small table, with fewer than [`ROWS_A_FRAGMENT`] rows per fragment. The disk overhead of a
/// fragment (5 KiB) soon exceeds its rows (2 KiB each).
const MAX_SCATTERED_FRAGMENTS: u64 = 8;

/// See [`MAX_SCATTERED_FRAGMENTS`].
const ROWS_A_FRAGMENT: u64 = 8;

/// Compaction runs if more than one row in this many is deleted.
const DELETED_PART: usize = 5;

/// Rows per fragment after compaction.
const FRAGMENT_ROWS: usize = 200_000;

/// Rows read per batch of compaction; whole batches are in memory.
const COMPACT_BATCH_ROWS: usize = 512;

/// Read-ahead of compaction. Must exceed a batch, or the batch would never arrive. The library's default of 2 GiB
/// covers everything that is compacted: 130 MiB at 200,000 chunks.
const COMPACT_READ_AHEAD: u64 = 16 << 20;

/// Returns whether a small table has too many fragments for its rows.
pub(super) fn is_scattered(fragments: u64, rows: u64) -> bool {
    fragments > MAX_SCATTERED_FRAGMENTS && fragments.saturating_mul(ROWS_A_FRAGMENT) > rows
}

/// Compacts if it pays off. Returns whether it did.
pub(super) async fn compact(table: &Table) -> lancedb::Result<bool> {
    let stats = table.stats().await?;
    let deleted = stats.num_deleted_rows.unwrap_or(0) * DELETED_PART > stats.num_rows;
    let scattered = is_scattered(stats.fragment_stats.num_fragments as u64, stats.num_rows as u64);
    if stats.fragment_stats.num_small_fragments <= MAX_SMALL_FRAGMENTS && !deleted && !scattered {
        return Ok(false);
    }
    rewrite(table, CompactionOptions::default().materialize_deletions_threshold).await?;
    Ok(true)
}

/// Rewrites every fragment with deleted rows.
pub(super) async fn compact_deleted(table: &Table) -> lancedb::Result<()> {
    rewrite(table, 0.0).await
}

/// Merges small fragments, and rewrites those with more than this share of deleted rows.
async fn rewrite(table: &Table, deleted_part: f32) -> lancedb::Result<()> {
    let options = CompactionOptions {
        target_rows_per_fragment: FRAGMENT_ROWS,
        num_threads: Some(1),
        batch_size: Some(COMPACT_BATCH_ROWS),
        io_buffer_size: Some(COMPACT_READ_AHEAD),
        // A limit per compaction would not split a larger task, but skip it for ever.
        max_source_fragments: None,
        materialize_deletions_threshold: deleted_part,
        ..CompactionOptions::default()
    };
    table.optimize(OptimizeAction::Compact { options, remap_options: None }).await?;
    Ok(())
}
