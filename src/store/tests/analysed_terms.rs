//! Tests that the table of an older vic, whose index analysed English words only, gets the terms of all languages in place.

use std::collections::BTreeSet;

use lancedb::index::Index;
use lancedb::index::scalar::FtsIndexBuilder;

use super::*;
use crate::store::Maintenance;
use crate::store::recovery::{LibraryCaches, connect};
use crate::store::schema::{batch, schema_without_terms};

/// Writes a table as an older vic did.
async fn write_old_table(dir: &Path, files: &[FileChunks]) {
    drop(open(dir).await);
    LanceStore::drop_table(dir, &LanceStore::table_of(FINGERPRINT)).await.unwrap();
    let columns: Vec<usize> = (0..schema_without_terms(DIMENSION).fields().len()).collect();
    let rows = batch(files, DIMENSION).unwrap().project(&columns).unwrap();
    let connection = connect(dir, &LibraryCaches::new()).await.unwrap();
    let table = connection.create_table(LanceStore::table_of(FINGERPRINT), rows).execute().await.unwrap();
    table.create_index(&["text"], Index::FTS(FtsIndexBuilder::default())).execute().await.unwrap();
}

#[tokio::test]
async fn old_table_answers_and_gets_terms_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let files = [file(1, &["a harbour at night"]), file(2, &["请把发票寄到办公室", "getInvoiceTotal"])];
    write_old_table(dir.path(), &files).await;
    let store = open(dir.path()).await;
    assert_eq!(store.file_ids(), [1, 2]);
    assert_eq!(keyword(&store, "harbours", &FileSet::All).await, [1]);
    assert!(keyword(&store, "发票", &FileSet::All).await.is_empty());
    assert_eq!(store.stats().await.unwrap().unindexed_rows, 3);
    store.maintain(Maintenance::Full).await.unwrap();
    drop(store);
    for _ in 0..2 {
        let store = open(dir.path()).await;
        assert_eq!(keyword(&store, "harbours", &FileSet::All).await, [1]);
        assert_eq!(keyword(&store, "发票", &FileSet::All).await, [2]);
        assert_eq!(keyword(&store, "invoice", &FileSet::All).await, [2]);
        assert_eq!(store.files_with(&required("发票"), &FileSet::All).await.unwrap(), [2]);
        let indices = store.table.list_indices().await.unwrap();
        assert!(!indices.iter().any(|it| it.columns == ["text"]), "the old index is dropped");
        store.replace(vec![file(3, &["ein Hafen bei Nacht"])]).await.unwrap();
        assert_eq!(keyword(&store, "hafen", &FileSet::All).await, [3]);
    }
}

#[tokio::test]
async fn first_change_of_old_table_adds_terms() {
    let dir = tempfile::tempdir().unwrap();
    write_old_table(dir.path(), &[file(1, &["发票"])]).await;
    let store = open(dir.path()).await;
    store.replace(vec![file(2, &["复印件"])]).await.unwrap();
    assert_eq!(keyword(&store, "发票", &FileSet::All).await, [1]);
    assert_eq!(keyword(&store, "复印件", &FileSet::All).await, [2]);
    store.delete(&[1]).await.unwrap();
    assert!(keyword(&store, "发票", &FileSet::All).await.is_empty());
}

#[tokio::test]
async fn beginnings_of_any_length_find_longer_words() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store
        .replace(vec![file(1, &["the harbourmaster"]), file(2, &["a hat"]), file(3, &["новый договор"])])
        .await
        .unwrap();
    let found = async |prefix: &str| {
        let hits = store.chunks_with_prefix(prefix, &FileSet::All, 10).await.unwrap();
        hits.into_iter().map(|it| it.file_id).collect::<BTreeSet<_>>()
    };
    assert_eq!(found("ha").await, BTreeSet::from([1, 2]));
    assert_eq!(found("harbourmast").await, BTreeSet::from([1]));
    assert_eq!(found("догов").await, BTreeSet::from([3]));
    // The library refuses automata of more than 10,000 states.
    assert!(found(&"long".repeat(10)).await.is_empty());
    assert!(found(&"долг".repeat(10)).await.is_empty());
}

#[tokio::test]
async fn frequent_terms_of_a_common_beginning_are_searched() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    // 26 * 26 words that begin with `ba`, and one of them in several files.
    let letters = || 'a'..='z';
    let rare: Vec<String> = letters().flat_map(|a| letters().map(move |b| format!("ba{a}{b}"))).collect();
    let mut files = vec![file(1, &[&rare.join(" ")])];
    files.extend((2..5).map(|id| file(id, &["a bazaar"])));
    store.replace(files).await.unwrap();
    store.maintain(Maintenance::Full).await.unwrap();
    let hits = store.chunks_with_prefix("ba", &FileSet::All, 10).await.unwrap();
    let mut found: Vec<_> = hits.iter().map(|it| it.file_id).collect();
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3, 4]);
}
