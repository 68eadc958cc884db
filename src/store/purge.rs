//! Taking text out of the table for good, for files that are left out from now on and roots that were removed.
//!
//! A deleted row is in no answer, but its bytes stay: in its fragment until that is rewritten, its words in the keyword
//! index, and both in every version before. Upkeep gets there when it pays. Here what holds deleted rows is rewritten at
//! once, the keyword index is made anew, and [`prune`] drops the versions before as soon as nobody reads them.

use lancedb::Table;

use crate::error::Result;
use crate::store::failure::StoreContext;
use crate::store::lance::{LanceStore, slower};
use crate::store::{compacting, manifests, upkeep};

impl LanceStore {
    /// Rewrites whatever holds rows that were deleted. Returns the version before which all are to go, see
    /// [`LanceStore::prune_before`].
    ///
    /// # Errors
    /// The table cannot be read or written.
    pub async fn purge(&self) -> Result<u64> {
        let done = self.change(rewrite(self)).await;
        self.upkeep_ended(&done.as_ref().map(drop).map_err(Clone::clone));
        done
    }

    /// Drops every version before this one that no read under way may need, however young. Returns whether all are gone.
    ///
    /// # Errors
    /// The table cannot be read or written.
    pub async fn prune_before(&self, version: u64) -> Result<bool> {
        self.change(prune(self)).await?;
        Ok(manifests::list(&self.place.table_dir())?.iter().all(|it| it.version >= version))
    }
}

/// The caller holds the writer's lock.
async fn rewrite(store: &LanceStore) -> Result<u64> {
    let table = &store.table;
    store.doing("taking out what is left out");
    if table.count_rows(None).await.on("read", &store.dir)? == 0 {
        // Of what words there were only the indexes tell. They are made anew with the first row.
        drop_indexes(table).await.on("drop the indexes of", &store.dir)?;
    } else {
        compacting::compact_deleted(table).await.on("compact", &store.dir)?;
        upkeep::make_keyword_index(table).await.on("index the words of", &store.dir)?;
    }
    store.settle_moved().await?;
    store.forget_replaced().await;
    if let Err(error) = store.warm().await {
        slower(&error);
    }
    table.version().await.on("read", &store.dir)
}

async fn drop_indexes(table: &Table) -> lancedb::Result<()> {
    for index in table.list_indices().await? {
        table.drop_index(&index.name).await?;
    }
    Ok(())
}

/// The caller holds the writer's lock: what belongs to no version is of a commit that was broken off or undone, and of none
/// under way.
async fn prune(store: &LanceStore) -> Result<()> {
    // What takes the place of that which is deleted has to be on disk.
    store.settle().await?;
    upkeep::drop_before(&store.table, store.readings.oldest(), true).await.on("prune", &store.dir)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use memchr::memmem;

    use super::*;
    use crate::store::tests::{file, keyword, open};
    use crate::store::{FileSet, Store};

    /// A word of which no letter stands anywhere else.
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
        store.upkeep().await.unwrap();
        assert!(is_anywhere(dir.path(), CANARY), "the test could not fail");
        store.delete(&[1]).await.unwrap();
        assert!(is_anywhere(dir.path(), CANARY), "deleting alone leaves it");
        let version = store.purge().await.unwrap();
        prune_all(&store, version).await;
        assert!(!is_anywhere(dir.path(), CANARY));
        assert_eq!(keyword(&store, "harbour", &FileSet::All).await, left);
        assert_eq!(keyword(&store, CANARY, &FileSet::All).await, [0_i64; 0]);
        // And it goes on.
        store.replace(vec![file(9, &["one more harbour"])]).await.unwrap();
        assert!(keyword(&store, "harbour", &FileSet::All).await.contains(&9));
    }

    #[tokio::test]
    async fn nor_does_anything_stay_of_a_commit_that_was_broken_off() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.replace(vec![file(1, &["harbour"])]).await.unwrap();
        let synced = crate::store::synced::Synced::of(&store.place.table_dir());
        let last = synced.read().unwrap().unwrap();
        store.replace(vec![file(2, &[&format!("the {CANARY} of the ledger")])]).await.unwrap();
        drop(store);
        // As a kill leaves it that comes before the number is written.
        synced.write(last).unwrap();
        let store = open(dir.path()).await;
        assert_eq!(keyword(&store, CANARY, &FileSet::All).await, [0_i64; 0]);
        assert!(is_anywhere(dir.path(), CANARY), "the test could not fail");
        let version = store.purge().await.unwrap();
        prune_all(&store, version).await;
        assert!(!is_anywhere(dir.path(), CANARY));
        assert_eq!(keyword(&store, "harbour", &FileSet::All).await, [1]);
    }

    #[tokio::test]
    async fn what_was_purged_is_in_no_byte_of_the_table_and_the_rest_is_found() {
        let secret = format!("the {CANARY} of the ledger");
        // In a fragment of its own, as the only file, and between others.
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
        store.upkeep().await.unwrap();
        store.delete(&[1]).await.unwrap();
        let version = store.purge().await.unwrap();
        prune_all(&store, version).await;
        assert!(!is_anywhere(dir.path(), CANARY));
        assert_eq!((store.chunk_count(), keyword(&store, "harbour", &FileSet::All).await.len()), (39, 10));
    }

    #[tokio::test]
    async fn a_read_under_way_keeps_its_version_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        store.replace(vec![file(1, &[CANARY]), file(2, &["harbour"])]).await.unwrap();
        let reading = store.readings.begin();
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
