//! Purges the text of withdrawn files from the disk: files that a new rule excludes or that may no longer be read, and
//! files of removed roots. No query returns such text once the withdrawal is known; the purge removes it from the disk
//! within a minute.
//!
//! The text of deleted and edited files is not purged but leaves the disk with the next maintenance: rewriting the
//! table for each such file would cost more than all of indexing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::catalog::{self, Catalog};
use crate::error::Result;
use crate::index::blocking_tasks::blocking;
use crate::index::clock::now_ms;
use crate::index::state::IndexState;

/// Catalog key of the last purge request, in milliseconds since the epoch, so that a restart does not lose the request.
/// Empty when the purge is done.
const REQUEST_KEY: &str = "purge_asked_ms";
/// Catalog key of the request that the last purge served. The graph database keeps names of entities in the purged texts,
/// so the graph purges its own data when this value changes.
const DONE_KEY: &str = "purge_done_ms";
/// Interval between checks for a purge request: each reads one row of the catalog.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A purge waits until no further request came for this long, so that one purge serves all of them.
const DEBOUNCE_MS: i64 = 5_000;
/// Maximum time that a purge waits for further requests.
const MAX_DEBOUNCE: Duration = Duration::from_secs(20);
/// Rest after a purge, as a multiple of its duration, so that rewriting a large table takes a small part of the time.
const REST_FACTOR: u32 = 10;
/// Maximum rest after a purge, so that the next request is still served within a minute. If a rewrite took longer than
/// this, the rest is as long as the rewrite.
const MAX_REST: Duration = Duration::from_secs(20);

/// Requests a purge of the text of everything deleted so far. On return, the request is on disk.
pub(crate) fn request(catalog: &Catalog) -> Result<()> {
    catalog.meta_set(REQUEST_KEY, &now_ms().to_string())
}

/// Returns the last purge request that was served, if any. When it was served, the catalog no longer had the withdrawn
/// files.
pub(crate) fn last_done(catalog: &Catalog) -> Result<Option<String>> {
    catalog.meta_get(DONE_KEY)
}

impl IndexState {
    /// Serves purge requests until the daemon ends.
    pub(crate) async fn purge_loop(self: Arc<IndexState>) {
        let (mut seen, mut rests_until) = (None, Instant::now());
        while self.shutdown.run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL)).await.is_some() {
            let Some(asked) = self.pending_request().await else {
                seen = None;
                continue;
            };
            let since: Instant = *seen.get_or_insert_with(Instant::now);
            let is_quiet = now_ms() - asked.parse().unwrap_or(0) >= DEBOUNCE_MS;
            if !(is_quiet || since.elapsed() > MAX_DEBOUNCE) || Instant::now() < rests_until {
                continue;
            }
            let outcome = self.purge(&asked).await;
            rests_until = Instant::now() + outcome.as_ref().map_or(MAX_REST, |it| rest_after(*it));
            self.note_outcome("purge", "cannot purge excluded files", outcome.map(drop));
            seen = None;
        }
    }

    async fn pending_request(&self) -> Option<String> {
        let catalog = self.catalog.clone();
        let asked = blocking(move || catalog.meta_get(REQUEST_KEY)).await;
        asked.ok().flatten().filter(|it| !it.is_empty())
    }

    /// Runs one purge and returns how long the rewrite of the table took.
    async fn purge(&self, asked: &str) -> Result<Duration> {
        self.disk_space.check()?;
        let table = self.tables.writing();
        let begun = Instant::now();
        let versions = table.purge().await?;
        let rewriting = begun.elapsed();
        // Repeats the pruning, because a long read may need an old version until the read ends.
        while !table.prune_before(&versions).await? {
            // The request stays in the catalog, so the next start repeats the purge.
            if self.shutdown.run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL)).await.is_none() {
                return Ok(rewriting);
            }
        }
        let (catalog, evidence, databases) =
            (self.catalog.clone(), self.caches.evidence.clone(), self.databases_with_text());
        let book = self.caches.corpus.clone();
        let (vectors, asked) = (self.caches.vectors.clone(), asked.to_string());
        blocking(move || {
            // Drops all cached vectors, because the cache does not record which texts they belong to. The next edit of
            // each file therefore embeds the whole file once.
            vectors.clear()?;
            let orphans = catalog.hashes_without_file(evidence.hashes()?)?;
            evidence.forget(&orphans)?;
            book.forget(&catalog.hashes_without_file(book.hashes()?)?)?;
            catalog.compact_names()?;
            catalog.meta_set(DONE_KEY, &asked)?;
            // Keeps a newer request, which the next purge serves.
            if catalog.meta_get(REQUEST_KEY)?.as_deref() == Some(&asked) {
                catalog.meta_set(REQUEST_KEY, "")?;
            }
            databases.iter().try_for_each(|it| catalog::flush_database(it))
        })
        .await?;
        Ok(rewriting)
    }

    /// Returns the databases with text or names of files. The database of the graph is missing here, because the graph
    /// purges it itself.
    fn databases_with_text(&self) -> [PathBuf; 3] {
        [self.config.catalog_path(), self.config.evidence_path(), self.config.corpus_path()]
    }
}

/// Returns how long to rest after a purge that rewrote the table for this long.
fn rest_after(rewriting: Duration) -> Duration {
    (rewriting * REST_FACTOR).min(rewriting.max(MAX_REST))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case E14
    #[test]
    fn withdrawn_text_is_purged_within_a_minute_unless_table_is_large() {
        let rest = |rewriting| rest_after(Duration::from_secs(rewriting)).as_secs();
        assert_eq!([0, 1, 2, 6, 20].map(rest), [0, 10, 20, 20, 20]);
        assert_eq!(rest(90), 90, "half of the time at most");
        assert!(MAX_DEBOUNCE + Duration::from_secs(rest(9)) + 2 * Duration::from_secs(9) < Duration::from_secs(60));
    }
}
