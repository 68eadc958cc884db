//! An open collection: its client, its ledger and its valid rows in memory. `write` changes it, `read` and `search` answer
//! from it, `clean` deletes rows that are not valid.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use vic_milvus::{Client, Filter, Guarantee, Hits, MAX_ROWS, Rows, Search};

use crate::catalog::StoreLedger;
use crate::error::{Error, ErrorCode, Result};
use crate::store::lance::LanceStore;
use crate::store::milvus::errors::from_client;
use crate::store::milvus::lite::LiteServer;
use crate::store::milvus::live_rows::LiveRows;

/// Timeout of a read with its retries; short, because a user waits.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(8);
/// The store counts as in use for this long after a keyword query.
const QUERIED_TIMEOUT: Duration = Duration::from_secs(30);
/// After this time every read of a server sees a write; servers promise some seconds.
const STALE_TIME: Duration = Duration::from_secs(60);
/// Milvus Lite flushes by itself when its new rows take 128 MiB, while reads run. vic flushes earlier; after a restart the
/// server may have some older rows as well.
const MAX_UNFLUSHED_BYTES: u64 = 32 << 20;

/// The collection with the chunks of one embedding model.
///
/// One lock serialises all writes, as Milvus Lite demands. Reads do not take it: they drop the rows that are not valid in
/// the ledger, such as those of a change that is not finished, and deleted rows that the server still returns.
pub(super) struct MilvusStore {
    pub(super) client: Client,
    pub(super) collection: String,
    pub(super) dimension: usize,
    /// Searches keywords if the server has no sparse vectors.
    pub(super) local_keywords: Option<LanceStore>,
    pub(super) writer: tokio::sync::Mutex<()>,
    /// Number of changes since the collection was opened.
    pub(super) version: AtomicU64,
    /// Number of rows that were written since the last flush. The server searches them more slowly.
    pub(super) unflushed: AtomicU64,
    unflushed_bytes: AtomicU64,
    /// Held by the reads of Milvus Lite, and alone by a flush.
    flushing: tokio::sync::RwLock<()>,
    pub(super) has_lost_rows: AtomicBool,
    /// How often Milvus Lite had been started when all rows were last compared with the ledger.
    compared_at: Mutex<Option<u64>>,
    pub(super) upkeep: Mutex<(Option<&'static str>, Option<String>)>,
    /// Milvus Lite, if vic runs it; it ends with the last table.
    pub(super) lite: Option<Arc<LiteServer>>,
    ledger: Arc<StoreLedger>,
    live: Arc<RwLock<LiveRows>>,
    /// Time of the last write on the server since the collection was opened, which reads must see; 0 before the first.
    timestamp: AtomicU64,
    opened: Instant,
    last_query: Mutex<Option<Instant>>,
}

impl MilvusStore {
    pub(super) fn new(
        client: Client,
        collection: String,
        dimension: usize,
        ledger: StoreLedger,
        local_keywords: Option<LanceStore>,
    ) -> Result<MilvusStore> {
        Ok(MilvusStore {
            client,
            collection,
            dimension,
            local_keywords,
            writer: tokio::sync::Mutex::new(()),
            version: AtomicU64::new(1),
            unflushed: AtomicU64::new(0),
            unflushed_bytes: AtomicU64::new(0),
            flushing: tokio::sync::RwLock::default(),
            has_lost_rows: AtomicBool::new(false),
            upkeep: Mutex::default(),
            lite: None,
            compared_at: Mutex::default(),
            live: Arc::new(RwLock::new(LiveRows::new(ledger.runs()?))),
            timestamp: AtomicU64::new(0),
            opened: Instant::now(),
            ledger: Arc::new(ledger),
            last_query: Mutex::default(),
        })
    }

    /// Runs `work` on the ledger, which blocks, in the blocking pool.
    pub(super) async fn with_ledger<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StoreLedger) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let ledger = self.ledger.clone();
        tokio::task::spawn_blocking(move || work(&ledger)).await.map_err(Error::internal)?
    }

    /// Runs `work` on the ledger and then `publish` on the valid rows, both in the blocking pool: a caller that is dropped
    /// meanwhile cannot separate them.
    pub(super) async fn change_ledger<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StoreLedger) -> Result<T> + Send + 'static,
        publish: impl FnOnce(&mut LiveRows, T) + Send + 'static,
    ) -> Result<()> {
        let live = self.live.clone();
        let done = move |ledger: &StoreLedger| {
            let changed = work(ledger)?;
            publish(&mut live.write().unwrap_or_else(PoisonError::into_inner), changed);
            Ok(())
        };
        let done = self.with_ledger(done).await;
        self.version.fetch_add(1, Ordering::Relaxed);
        done
    }

    /// Reads up to [`MAX_ROWS`] rows that match.
    pub(super) async fn query(&self, filter: &Filter, fields: &[&str], guarantee: Guarantee) -> Result<Rows> {
        let _reading = self.wait_for_flush().await?;
        self.client.query(&self.collection, Some(filter), fields, MAX_ROWS, guarantee).await.map_err(from_client)
    }

    /// Counts the rows on the server.
    pub(super) async fn count(&self) -> Result<u64> {
        let _reading = self.wait_for_flush().await?;
        self.client.count(&self.collection, None, Guarantee::Strong).await.map_err(from_client)
    }

    pub(super) async fn search(&self, search: &Search<'_>) -> Result<Hits> {
        let _reading = self.wait_for_flush().await?;
        self.client.search(&self.collection, search).await.map_err(from_client)
    }

    /// Makes the server write its new rows to segments, which it searches faster. Milvus Lite moves the rows from memory to a
    /// segment in several steps, and a search that runs meanwhile may find them in neither; so no read runs meanwhile.
    pub(super) async fn flush(&self) -> Result<()> {
        let _flushing = self.flushing.write().await;
        let (rows, bytes) = (self.unflushed.load(Ordering::Relaxed), self.unflushed_bytes.load(Ordering::Relaxed));
        self.client.flush(&self.collection).await.map_err(from_client)?;
        self.unflushed.fetch_sub(rows, Ordering::Relaxed);
        self.unflushed_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Notes new rows, and returns whether Milvus Lite must flush them now.
    pub(super) fn note_unflushed(&self, rows: usize, bytes: usize) -> bool {
        self.unflushed.fetch_add(rows as u64, Ordering::Relaxed);
        let before = self.unflushed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.client.version().is_lite() && before + bytes as u64 > MAX_UNFLUSHED_BYTES
    }

    /// Waits until no flush runs in Milvus Lite. A read must not wait as long as a flush that waits for the server.
    async fn wait_for_flush(&self) -> Result<Option<tokio::sync::RwLockReadGuard<'_, ()>>> {
        if !self.client.version().is_lite() {
            return Ok(None);
        }
        let waited = tokio::time::timeout(READ_TIMEOUT, self.flushing.read()).await;
        waited.map(Some).map_err(|_| {
            Error::new(ErrorCode::Unavailable, "Milvus Lite writes its rows to disk and cannot be read meanwhile")
                .hint("ask again in a minute")
        })
    }

    /// Returns whether the server searches keywords, in sparse vectors.
    pub(super) fn has_words(&self) -> bool {
        self.local_keywords.is_none()
    }

    /// Returns the valid rows.
    pub(super) fn live(&self) -> RwLockReadGuard<'_, LiveRows> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how new the rows must be that a read sees: all writes of vic. Before the first write since the start, those
    /// of an earlier vic: a strong read waits for them, and after some time every read has them.
    pub(super) fn guarantee(&self) -> Guarantee {
        match self.timestamp.load(Ordering::Relaxed) {
            0 if !self.client.features().has_stale_reads => Guarantee::After(0),
            0 if self.opened.elapsed() < STALE_TIME => Guarantee::Strong,
            0 => Guarantee::Bounded,
            timestamp => Guarantee::After(timestamp),
        }
    }

    /// Returns whether all rows were compared with the ledger since the collection was opened and since Milvus Lite was
    /// last started, which may have lost rows in a power failure.
    pub(super) fn is_compared(&self) -> bool {
        *self.compared_at.lock().unwrap_or_else(PoisonError::into_inner) == Some(self.lite_starts())
    }

    pub(super) fn note_compared(&self, lite_starts: u64) {
        *self.compared_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(lite_starts);
    }

    /// Returns how often Milvus Lite was started; 0 for a server.
    pub(super) fn lite_starts(&self) -> u64 {
        self.lite.as_ref().map_or(0, |it| it.starts())
    }

    /// Notes the time of a write on the server.
    pub(super) fn note_write(&self, timestamp: u64) {
        self.timestamp.fetch_max(timestamp, Ordering::Relaxed);
    }

    pub(super) fn note_query(&self) {
        *self.last_query.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    pub(super) fn was_queried(&self) -> bool {
        let asked = *self.last_query.lock().unwrap_or_else(PoisonError::into_inner);
        asked.is_some_and(|it| it.elapsed() < QUERIED_TIMEOUT)
    }
}
