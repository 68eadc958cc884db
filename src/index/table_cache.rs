//! Cache of the tables in files, parsed for queries; its keys are file contents.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::Result;
use crate::extract::WorkerPool;
use crate::files::open_beneath;
use crate::index::blocking_tasks::blocking;
use crate::index::paths::{StatBefore, blocking_at_file, content_hash};
use crate::model::{ContentHash, FileKind, FileRecord};
use crate::table::{self, Table};

/// Maximum size of a file that is parsed for a query: parsing a larger file takes longer than an answer may.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// Maximum bytes of cached tables. Beyond that, the least recently used ones are dropped.
const MAX_CACHED_BYTES: usize = 32 << 20;
/// Bytes counted for each entry in addition to its tables, to limit the number of entries without tables.
const ENTRY_BYTES: usize = 1 << 10;
/// Maximum files parsed concurrently. While this many files are being parsed, a query gets no tables of any other file.
const MAX_CONCURRENT: usize = 2;

/// Tables by content hash and file extension, least recently used first.
#[derive(Default)]
struct LruCache(Vec<(ContentHash, String, Arc<Vec<Table>>)>);

impl LruCache {
    fn get(&mut self, hash: ContentHash, extension: &str) -> Option<Arc<Vec<Table>>> {
        let at = self.0.iter().position(|it| it.0 == hash && it.1 == extension)?;
        let found = self.0.remove(at);
        let tables = found.2.clone();
        self.0.push(found);
        Some(tables)
    }

    fn insert(&mut self, hash: ContentHash, extension: &str, tables: Arc<Vec<Table>>) {
        let bytes = |it: &[Table]| ENTRY_BYTES + it.iter().map(Table::bytes).sum::<usize>();
        let mut left = MAX_CACHED_BYTES.saturating_sub(bytes(&tables));
        let fits = |it: &(ContentHash, String, Arc<Vec<Table>>)| {
            let own = bytes(&it.2);
            let fits = own <= left && !(it.0 == hash && it.1 == extension);
            left -= if fits { own } else { 0 };
            fits
        };
        let mut rest: Vec<_> = std::mem::take(&mut self.0).into_iter().rev().filter(fits).collect();
        rest.reverse();
        rest.push((hash, extension.to_string(), tables));
        self.0 = rest;
    }
}

pub(crate) struct TableCache {
    cache: Mutex<LruCache>,
    permits: Arc<Semaphore>,
}

impl Default for TableCache {
    fn default() -> TableCache {
        TableCache { cache: Mutex::default(), permits: Arc::new(Semaphore::new(MAX_CONCURRENT)) }
    }
}

impl TableCache {
    /// Returns the tables in the current content of a file. [`crate::index::Index::tables_of`] describes the limits.
    pub(super) async fn tables_of(
        self: &Arc<TableCache>,
        pool: &Arc<WorkerPool>,
        record: &FileRecord,
        patience: Duration,
    ) -> Option<Arc<Vec<Table>>> {
        if record.found.size > MAX_FILE_BYTES || !may_hold_tables(record.kind) {
            return None;
        }
        let place = self.permits.clone().try_acquire_owned().ok()?;
        let (cache, pool, record) = (self.clone(), pool.clone(), record.clone());
        let reading = tokio::spawn(async move {
            let tables = cache.read(&pool, &record).await;
            drop(place);
            tables
        });
        tokio::time::timeout(patience, reading).await.ok()?.ok()?.ok()?
    }

    async fn read(&self, pool: &WorkerPool, record: &FileRecord) -> Result<Option<Arc<Vec<Table>>>> {
        let own = record.clone();
        let opened = blocking_at_file(record, move || Ok(open_and_hash(&own))).await?.flatten();
        let Some((file, before, hash)) = opened else { return Ok(None) };
        if let Some(tables) = self.cache().get(hash, &record.extension) {
            return Ok(Some(tables));
        }
        let name = record.found.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let Ok(document) = pool.extract(file, &name).await else { return Ok(None) };
        // Discards the tables of a file that was modified while it was read, because the hash may belong to other
        // content.
        if before.check_unchanged(record).await? != Some(true) {
            return Ok(None);
        }
        let stem = record.found.path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let tables = blocking(move || {
            let mut tables = table::tables_of_document(&document);
            for table in &mut tables {
                table.name = format!("{stem} {}", table.name).trim_end().to_string();
            }
            Ok(Arc::new(tables))
        })
        .await?;
        self.cache().insert(hash, &record.extension, tables.clone());
        Ok(Some(tables))
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, LruCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn may_hold_tables(kind: FileKind) -> bool {
    use FileKind::{Data, Document, Mail, Markup, Notebook, Slides, Spreadsheet, Web};
    matches!(kind, Data | Document | Mail | Markup | Notebook | Slides | Spreadsheet | Web)
}

fn open_and_hash(record: &FileRecord) -> Option<(File, StatBefore, ContentHash)> {
    let file = open_beneath(&record.root, &record.found.path).ok()?;
    let before = StatBefore::new(&file);
    let hash = content_hash(record, &file).ok()?;
    Some((file, before, hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Anchor, Block, BlockKind, Document};

    fn tables(bytes: usize) -> Arc<Vec<Table>> {
        let text = format!("a | b\n{} | 1\nx | 2", "x".repeat(bytes));
        let block = Block { kind: BlockKind::Table, text, anchor: Anchor::default(), rows: Vec::new() };
        Arc::new(table::tables_of_document(&Document { blocks: vec![block], ..Document::default() }))
    }

    #[test]
    fn cache_evicts_least_recently_used_tables() {
        let hash = |it: u8| ContentHash([it; 32]);
        let mut kept = LruCache::default();
        kept.insert(hash(1), "csv", tables(10));
        assert!(kept.get(hash(1), "csv").is_some() && kept.get(hash(1), "tsv").is_none());
        kept.insert(hash(2), "csv", tables(MAX_CACHED_BYTES / 2));
        kept.insert(hash(1), "csv", tables(20));
        kept.insert(hash(3), "csv", tables(MAX_CACHED_BYTES / 2));
        let known: Vec<bool> = (1..4).map(|it| kept.get(hash(it), "csv").is_some()).collect();
        assert_eq!((known, kept.0.len()), (vec![true, false, true], 2));
    }

    #[test]
    fn cache_bounds_entries_without_tables() {
        let mut kept = LruCache::default();
        for number in 0..2 * MAX_CACHED_BYTES / ENTRY_BYTES {
            let mut hash = ContentHash([0; 32]);
            hash.0[..8].copy_from_slice(&number.to_le_bytes());
            kept.0.push((hash, "html".into(), Arc::default()));
        }
        kept.insert(ContentHash([255; 32]), "html", Arc::default());
        assert_eq!(kept.0.len(), MAX_CACHED_BYTES / ENTRY_BYTES);
    }
}
