//! Putting small fragments together, and rewriting those of which much was deleted: when that is worth while.

use lancedb::Table;
use lancedb::table::{CompactionOptions, OptimizeAction};

/// Small fragments that make compaction worth while.
const MAX_SMALL_FRAGMENTS: usize = 32;

/// The same of a small table, where each has fewer rows than [`ROWS_A_FRAGMENT`]: what a fragment takes of the disk beside its
/// rows (5 KiB) is soon more than the rows (2 KiB each).
const MAX_SCATTERED_FRAGMENTS: u64 = 8;

/// See [`MAX_SCATTERED_FRAGMENTS`].
const ROWS_A_FRAGMENT: u64 = 8;

/// Deleted rows that make compaction worth while: one in so many.
const DELETED_PART: usize = 5;

/// Rows of a fragment after compaction.
const FRAGMENT_ROWS: usize = 200_000;

/// Rows read at once while compacting; whole batches are in memory.
const COMPACT_BATCH_ROWS: usize = 512;

/// Bytes that compaction reads ahead: more than a batch, which would never come otherwise. The library's default is 2 GiB, that
/// is the whole of what is compacted: 130 MiB at 200,000 chunks.
const COMPACT_READ_AHEAD: u64 = 16 << 20;

/// Says whether a small table has more fragments than its rows are worth.
pub(super) fn is_scattered(fragments: u64, rows: u64) -> bool {
    fragments > MAX_SCATTERED_FRAGMENTS && fragments.saturating_mul(ROWS_A_FRAGMENT) > rows
}

/// Compacts when it is worth while; says whether it did.
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

/// Rewrites every fragment in which a row was deleted.
pub(super) async fn compact_deleted(table: &Table) -> lancedb::Result<()> {
    rewrite(table, 0.0).await
}

/// Puts small fragments together, and rewrites those of which a larger part was deleted.
async fn rewrite(table: &Table, deleted_part: f32) -> lancedb::Result<()> {
    let options = CompactionOptions {
        target_rows_per_fragment: FRAGMENT_ROWS,
        num_threads: Some(1),
        batch_size: Some(COMPACT_BATCH_ROWS),
        io_buffer_size: Some(COMPACT_READ_AHEAD),
        // A bound on what one compaction reads would not split a larger task but leave it undone, for ever.
        max_source_fragments: None,
        materialize_deletions_threshold: deleted_part,
        ..CompactionOptions::default()
    };
    table.optimize(OptimizeAction::Compact { options, remap_options: None }).await?;
    Ok(())
}
