//! Removes deleted text from all files of the table, after the user has excluded files or removed a root.
//!
//! No query returns a deleted row, but its bytes stay in its fragment, in the keyword index and in all earlier
//! versions. Maintenance removes these bytes only where it rewrites data for other reasons. A purge rewrites at once
//! everything that holds deleted rows, and rebuilds the keyword index. Then [`prune_unread`] deletes the earlier
//! versions as soon as no read needs them.

use lancedb::Table;

use crate::error::Result;
use crate::store::lance::LanceStore;
use crate::store::lance_error::StoreContext;
use crate::store::{compaction, indexes, maintenance};

/// Rewrites all data with deleted rows and rebuilds the keyword index. The caller holds the writer lock.
pub(super) async fn rewrite_deleted(store: &LanceStore) -> Result<u64> {
    let table = &store.table;
    store.set_step("purging excluded files");
    if table.count_rows(None).await.on("read", &store.dir)? == 0 {
        // Without rows, only the indexes still hold words of deleted text. The next added row creates the indexes
        // again.
        drop_indexes(table).await.on("drop the indexes of", &store.dir)?;
    } else {
        compaction::compact_deleted(table).await.on("compact", &store.dir)?;
        indexes::build_keyword_index(table).await.on("update keywords in", &store.dir)?;
    }
    store.commit_compacted().await?;
    store.forget_replaced().await;
    maintenance::preload(store).await;
    table.version().await.on("read", &store.dir)
}

async fn drop_indexes(table: &Table) -> lancedb::Result<()> {
    for index in table.list_indices().await? {
        table.drop_index(&index.name).await?;
    }
    Ok(())
}

/// Prunes every version that no read needs. The caller holds the writer lock, so files that belong to no version come
/// from an interrupted or undone commit, never from a running one.
pub(super) async fn prune_unread(store: &LanceStore) -> Result<()> {
    // Makes the replacements of the pruned data durable first.
    store.commit_durable().await?;
    maintenance::prune_versions_before(&store.table, store.version_pins.oldest(), true).await.on("prune", &store.dir)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use memchr::memmem;

    use super::*;
    use crate::store::tests::{file, keyword, open};
    use crate::store::{FileSet, Maintenance, Store};

    /// A word that appears nowhere else in the files of a table.
    const CANARY: &str = "zyxquahogvwk";

    fn is_anywhere(dir: &Path, word: &str) -> bool {
        let files = walkdir::WalkDir::new(dir).into_iter().flatten().filter(|it| it.file_type().is_file());
        files.into_iter().any(|it| memmem::find(&std::fs::read(it.path()).unwrap(), word.as_bytes()).is_some())
    }

    async fn prune_all(store: &LanceStore, version: u64) {
        let begun = Instant::now();
        while !store.prune_before(version).await.unwrap() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn check(files: &[(i64, &[&str])], left: &[i64]) {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        for (id, texts) in files {
            store.replace(vec![file(*id, texts)]).await.unwrap();
        }
        store.maintain(Maintenance::Full).await.unwrap();
        assert!(is_anywhere(dir.path(), CANARY), "the test could not fail");
        store.delete(&[1]).await.unwrap();
        assert!(is_anywhere(dir.path(), CANARY), "deleting alone leaves it");
        let version = store.purge().await.unwrap();
        prune_all(&store, version).await;
        assert!(!is_anywhere(dir.path(), CANARY));
        assert_eq!(keyword(&store, "harbour", &FileSet::All).await, left);
        assert_eq!(keyword(&store, CANARY, &FileSet::All).await, [0_i64; 0]);
        // Checks that later writes still work.
        store.replace(vec![file(9, &["one more harbour"])]).await.unwrap();
        assert!(keyword(&store, "harbour", &FileSet::All).await.contains(&9));
    }

    // Case E14
    #[tokio::test]
    async fn interrupted_commit_is_purged_completely() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.replace(vec![file(1, &["harbour"])]).await.unwrap();
        let synced = crate::store::durable_version::DurableVersion::new(&store.place.table_dir());
        let last = synced.read().unwrap().unwrap();
        store.replace(vec![file(2, &[&format!("the {CANARY} of the ledger")])]).await.unwrap();
        drop(store);
        // Restores the old number, as if the process was killed before it wrote the new durable version.
        synced.write(last).unwrap();
        let store = open(dir.path()).await;
        assert_eq!(keyword(&store, CANARY, &FileSet::All).await, [0_i64; 0]);
        assert!(is_anywhere(dir.path(), CANARY), "the test could not fail");
        let version = store.purge().await.unwrap();
        prune_all(&store, version).await;
        assert!(!is_anywhere(dir.path(), CANARY));
        assert_eq!(keyword(&store, "harbour", &FileSet::All).await, [1]);
    }

    // Case E14
    #[tokio::test]
    async fn purged_text_is_in_no_byte_of_table() {
        let secret = format!("the {CANARY} of the ledger");
        // Purges text that fills its own fragment, then the text of the only file, then text among that of other files.
        check(&[(1, &[&secret]), (2, &["harbour"]), (3, &["harbour and quay"])], &[2, 3]).await;
        check(&[(1, &[&secret])], &[]).await;
        let many: Vec<(i64, Vec<String>)> =
            (0..40).map(|it| (it + 1, vec![if it == 0 { secret.clone() } else { format!("harbour {it}") }])).collect();
        let many: Vec<(i64, Vec<&str>)> =
            many.iter().map(|(id, texts)| (*id, texts.iter().map(String::as_str).collect())).collect();
        let many: Vec<(i64, &[&str])> = many.iter().map(|(id, texts)| (*id, texts.as_slice())).collect();
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.replace(many.iter().map(|(id, texts)| file(*id, texts)).collect()).await.unwrap();
        store.maintain(Maintenance::Full).await.unwrap();
        store.delete(&[1]).await.unwrap();
        let version = store.purge().await.unwrap();
        prune_all(&store, version).await;
        assert!(!is_anywhere(dir.path(), CANARY));
        assert_eq!((store.chunk_count(), keyword(&store, "harbour", &FileSet::All).await.len()), (39, 10));
    }

    #[tokio::test]
    async fn purge_keeps_version_of_running_read() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.replace(vec![file(1, &[CANARY]), file(2, &["harbour"])]).await.unwrap();
        let reading = store.version_pins.pin();
        store.delete(&[1]).await.unwrap();
        let version = store.purge().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(!store.prune_before(version).await.unwrap());
        assert!(is_anywhere(dir.path(), CANARY));
        drop(reading);
        prune_all(&store, version).await;
        assert!(!is_anywhere(dir.path(), CANARY));
    }
}
