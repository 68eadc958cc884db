//! Text that the user wants out: of files that a new rule leaves out or that may not be read any more, and of roots that
//! were removed. It is in no answer from the moment that is known; here it leaves the disk, within a minute.
//!
//! What is merely deleted or edited goes with the next upkeep: rewriting the table for every file would cost more than all
//! of indexing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::catalog::{self, Catalog};
use crate::error::Result;
use crate::index::jobs::now_ms;
use crate::index::{Inner, blocking};

/// Where the catalog keeps that something is to go, so that a restart does not forget: when that was last said, in
/// milliseconds since the epoch. Empty when it is done.
const KEY: &str = "purge_asked_ms";
/// Where the catalog keeps for which asking the last one was done: the graph, which keeps names out of the texts, has that to
/// follow.
const DONE: &str = "purge_done_ms";
/// How often somebody looks: one read of one row.
const LOOK: Duration = Duration::from_secs(1);
/// More of the same is usually seen within this time, and goes in one go.
const QUIET_MS: i64 = 5_000;
/// But nothing waits longer than this for more.
const AT_MOST: Duration = Duration::from_secs(20);
/// After a table was rewritten, so many times as long is rested: a large one is rewritten for a small part of the time.
const REST: u32 = 10;
/// A rest that still lets what is asked for next be gone within a minute. Only a table whose rewriting alone takes longer has
/// a longer one: as long as that took.
const USUAL_REST: Duration = Duration::from_secs(20);

/// Has what was deleted so far leave the disk soon. On disk when it returns.
pub(crate) fn ask(catalog: &Catalog) -> Result<()> {
    catalog.meta_set(KEY, &now_ms().to_string())
}

/// Returns which asking the last purge was for; none before the first. What it was about was gone from the catalog by then.
pub(crate) fn last(catalog: &Catalog) -> Result<Option<String>> {
    catalog.meta_get(DONE)
}

impl Inner {
    /// Purges when that was asked for, for as long as the daemon lives.
    pub(crate) async fn purge_when_asked(self: Arc<Inner>) {
        let (mut seen, mut rests_until) = (None, Instant::now());
        while self.shutdown.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
            let Some(asked) = self.purge_asked().await else {
                seen = None;
                continue;
            };
            let since: Instant = *seen.get_or_insert_with(Instant::now);
            let is_quiet = now_ms() - asked.parse().unwrap_or(0) >= QUIET_MS;
            if !(is_quiet || since.elapsed() > AT_MOST) || Instant::now() < rests_until {
                continue;
            }
            let outcome = self.purge(&asked).await;
            rests_until = Instant::now() + outcome.as_ref().map_or(USUAL_REST, |it| rest_after(*it));
            self.note_outcome("purge", "cannot take out what is left out", outcome.map(drop));
            seen = None;
        }
    }

    async fn purge_asked(&self) -> Option<String> {
        let catalog = self.catalog.clone();
        let asked = blocking(move || catalog.meta_get(KEY)).await;
        asked.ok().flatten().filter(|it| !it.is_empty())
    }

    /// Returns how long the table was rewritten for that.
    async fn purge(&self, asked: &str) -> Result<Duration> {
        self.space.check()?;
        let table = self.tables.writing();
        let begun = Instant::now();
        let versions = table.purge().await?;
        let rewriting = begun.elapsed();
        // A read that lasts may need an old version until it ends.
        while !table.prune_before(&versions).await? {
            // The next start begins anew.
            if self.shutdown.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
                return Ok(rewriting);
            }
        }
        let (catalog, evidence, databases) = (self.catalog.clone(), self.evidence.clone(), self.databases());
        let book = self.book.clone();
        let (vectors, asked) = (self.vectors.clone(), asked.to_string());
        blocking(move || {
            // All of them: which texts they are of cannot be told. What is edited later is embedded whole, once.
            vectors.clear()?;
            let orphans = catalog.without_file(evidence.hashes()?)?;
            evidence.forget(&orphans)?;
            book.forget(&catalog.without_file(book.hashes()?)?)?;
            catalog.compact_names()?;
            catalog.meta_set(DONE, &asked)?;
            // Changes since the last look have their turn.
            if catalog.meta_get(KEY)?.as_deref() == Some(&asked) {
                catalog.meta_set(KEY, "")?;
            }
            databases.iter().try_for_each(|it| catalog::flush_database(it))
        })
        .await?;
        Ok(rewriting)
    }

    /// Those that hold text of files, or the names of some. The graph sees to its own when it has followed.
    fn databases(&self) -> [PathBuf; 3] {
        [self.config.catalog_path(), self.config.evidence_path(), self.config.corpus_path()]
    }
}

/// How long is rested after a table was rewritten for so long.
fn rest_after(rewriting: Duration) -> Duration {
    (rewriting * REST).min(rewriting.max(USUAL_REST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_withdrawn_after_a_purge_is_gone_within_a_minute_unless_the_table_is_large() {
        let rest = |rewriting| rest_after(Duration::from_secs(rewriting)).as_secs();
        assert_eq!([0, 1, 2, 6, 20].map(rest), [0, 10, 20, 20, 20]);
        assert_eq!(rest(90), 90, "half of the time at most");
        assert!(AT_MOST + Duration::from_secs(rest(9)) + 2 * Duration::from_secs(9) < Duration::from_secs(60));
    }
}
