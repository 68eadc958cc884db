//! Failures of a Milvus server: what it loses, delays, forgets to delete and refuses.

use std::sync::Arc;
use std::time::Duration;

use vic_milvus::mock::{Fault, MockServer};
use vic_milvus::{Client, Column, Field, FieldType, Filter, Guarantee, IndexParams, Metric, Schema, Values};

use crate::error::{Error, ErrorCode};
use crate::model::{ChunkId, FileId};
use crate::store::tests::conformance::{Place, config};
use crate::store::tests::{DIMENSION, FINGERPRINT, file, keyword, many, nearest, required, vector};
use crate::store::{Backend, FileSet, KeywordSearch, Maintenance, Store, open_backend};

fn server(place: &Place) -> &MockServer {
    place.server.as_ref().unwrap()
}

async fn client(place: &Place) -> Client {
    Client::connect(server(place).settings()).await.unwrap()
}

/// Returns the collection of a place with a single model.
fn collection(place: &Place) -> String {
    server(place).collections().into_iter().next().unwrap()
}

fn rows_on_server(place: &Place) -> usize {
    server(place).row_count(&collection(place)).unwrap()
}

async fn connect(place: &Place, more: &[(&str, &str)]) -> Result<Arc<dyn Backend>, Error> {
    open_backend(&config(place.dir.path(), &server(place).address(), more)).await
}

async fn all(store: &dyn Store) -> Vec<FileId> {
    let mut found = keyword(store, "common", &FileSet::All).await;
    found.sort_unstable();
    found
}

#[tokio::test]
async fn reads_see_own_writes_on_server_with_stale_reads() {
    let place = Place::mock().await;
    server(&place).set_stale_reads(Some(1_000));
    let store = place.open().await;
    for number in 0..5 {
        store.replace(vec![file(1, &[&format!("harbour{number}")])]).await.unwrap();
        assert_eq!(keyword(&*store, &format!("harbour{number}"), &FileSet::All).await, [1]);
    }
    let store = place.open_again(store).await;
    assert_eq!(keyword(&*store, "harbour4", &FileSet::All).await, [1], "also after a restart");
}

#[tokio::test]
async fn rows_that_server_returns_after_deletion_are_in_no_answer() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(8)).await.unwrap();
    server(&place).set_returns_deleted(true);
    store.replace(vec![file(2, &["common and new"])]).await.unwrap();
    store.delete(&[1]).await.unwrap();
    assert_eq!(all(&*store).await, [2, 3, 4, 5, 6, 7, 8]);
    assert!(keyword(&*store, "number2", &FileSet::All).await.is_empty());
    let near = nearest(&*store, &vector(1, 0.001), &FileSet::All, 7).await;
    assert!(near.len() == 7 && !near.contains(&1), "{near:?}");
    assert!(store.files_with(&required("number1"), &FileSet::All).await.unwrap().is_empty());
    assert_eq!(store.chunks_of((1..=8).collect()).await.unwrap().len(), 7);
}

#[tokio::test]
async fn rows_that_server_returns_twice_are_one_hit() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(5)).await.unwrap();
    server(&place).set_duplicates(true);
    assert_eq!(all(&*store).await, [1, 2, 3, 4, 5]);
    assert_eq!(nearest(&*store, &vector(1, 0.5), &FileSet::All, 10).await.len(), 5);
    assert_eq!(store.chunks_of(vec![1, 2]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn failed_change_leaves_old_rows_and_is_cleaned_later() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(vec![file(1, &["common old"])]).await.unwrap();
    let before = rows_on_server(&place);
    // The first request of the change succeeds, the second does not.
    let large: Vec<String> = (0..1_500).map(|it| format!("common new{it}")).collect();
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    let change = file(1, &large);
    server(&place).fail_always("Upsert", Fault::code(65_535, "internal"));
    assert!(store.replace(vec![change.clone()]).await.is_err());
    server(&place).clear_faults();
    assert_eq!(keyword(&*store, "old", &FileSet::All).await, [1]);
    store.maintain(Maintenance::Full).await.unwrap();
    assert_eq!(rows_on_server(&place), before);
    store.replace(vec![change]).await.unwrap();
    assert_eq!((store.chunk_count(), rows_on_server(&place)), (1_500, 1_500));
}

#[tokio::test]
async fn rows_of_interrupted_change_are_deleted_at_next_open() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(3)).await.unwrap();
    let statistics = keyword_score(&*store).await;
    // A vic that ends after the server stored the rows and before the ledger has them.
    server(&place).fail_next("Upsert", 99, &Fault::LoseReply);
    let change = store.replace(vec![file(2, &["common interrupted"]), file(9, &["common interrupted"])]);
    assert!(tokio::time::timeout(Duration::from_secs(1), change).await.is_err());
    assert_eq!(rows_on_server(&place), 5);
    server(&place).clear_faults();
    let store = place.open_again(store).await;
    assert_eq!((rows_on_server(&place), all(&*store).await), (3, vec![1, 2, 3]));
    assert_eq!(keyword_score(&*store).await, statistics);
}

async fn keyword_score(store: &dyn Store) -> f32 {
    let query = crate::store::KeywordQuery { terms: vec!["number2".into()] };
    store.keyword_leg(&query, &FileSet::All, 1).await.unwrap()[0].score
}

#[tokio::test]
async fn failed_deletion_on_server_is_done_by_maintenance() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(4)).await.unwrap();
    server(&place).fail_always("Delete", Fault::code(65_535, "internal"));
    store.delete(&[1]).await.unwrap();
    store.replace(vec![file(2, &["common new"])]).await.unwrap();
    assert_eq!((all(&*store).await, rows_on_server(&place)), (vec![2, 3, 4], 5));
    assert!(!store.prune_before(store.version()).await.unwrap(), "deleted text is on the server");
    server(&place).clear_faults();
    store.maintain(Maintenance::Prune).await.unwrap();
    assert_eq!((all(&*store).await, rows_on_server(&place)), (vec![2, 3, 4], 3));
    assert!(store.prune_before(store.version()).await.unwrap());
}

#[tokio::test]
async fn lost_and_unknown_rows_are_found_by_maintenance() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(6)).await.unwrap();
    store.replace(vec![file(7, &["common a", "common b"])]).await.unwrap();
    let lost = Filter::in_ints("file_id", [3, 7]).and(Filter::eq_int("ordinal", 0));
    client(&place).await.delete(&collection(&place), &lost).await.unwrap();
    store.maintain(Maintenance::Full).await.unwrap();
    assert_eq!(store.file_ids(), [1, 2, 4, 5, 6], "files 3 and 7 are to be indexed again");
    assert_eq!(rows_on_server(&place), 5);
}

#[tokio::test]
async fn lost_rows_are_found_after_restart_if_as_many_old_rows_came_back() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(4)).await.unwrap();
    let (client, name) = (client(&place).await, collection(&place));
    let lost = Filter::eq_int("file_id", 3);
    let fields = ["row_key", "file_id", "generation", "ordinal", "chunk_id", "chunk", "vector", "words"];
    let rows = client.query(&name, Some(&lost), &fields, 9, Guarantee::Strong).await.unwrap();
    let old_key = format!("3/1/{}", many(3)[2].chunks[0].chunk.id);
    let columns = rows.into_columns().into_iter().map(|it| match it.name.as_str() {
        "row_key" => Column::new("row_key", Values::VarChar(vec![old_key.clone()])),
        "generation" => Column::new("generation", Values::Int64(vec![1])),
        _ => it,
    });
    let columns = columns.collect();
    client.delete(&name, &lost).await.unwrap();
    client.upsert(&name, columns).await.unwrap();
    let store = place.open_again(store).await;
    assert_eq!((store.chunk_count(), rows_on_server(&place)), (4, 4));
    assert!(store.stats().await.unwrap().unindexed_rows > 0, "maintenance is due");
    store.maintain(Maintenance::Keywords).await.unwrap();
    assert_eq!((store.file_ids(), rows_on_server(&place)), (vec![1, 2, 4], 3));
    assert_eq!(store.stats().await.unwrap().unindexed_rows, 0);
}

#[tokio::test]
async fn chunks_of_deep_extraction_are_read_with_few_requests() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(3)).await.unwrap();
    let mut deep = file(2, &["common seal", "common stamp"]);
    for (ordinal, it) in (1 << 24..).zip(&mut deep.chunks) {
        it.chunk.ordinal = ordinal;
        it.chunk.id = ChunkId(format!("{ordinal:032x}"));
    }
    store.replace_part(deep, 1 << 24..u32::MAX).await.unwrap();
    let before = server(&place).calls("Query");
    assert_eq!(store.chunks_of((1..=3).collect()).await.unwrap().len(), 5);
    assert_eq!(store.file_vectors(2).await.unwrap().len(), 3);
    assert!(server(&place).calls("Query") - before <= 4, "{}", server(&place).calls("Query") - before);
}

/// Returns a store on a server that says that it is Milvus Lite.
async fn store_in_lite(place: &Place) -> Arc<dyn Store> {
    server(place).set_version("milvus_lite-3.2.2");
    connect(place, &[]).await.unwrap().open(FINGERPRINT, DIMENSION).await.unwrap()
}

#[tokio::test]
async fn reads_wait_for_flush_of_milvus_lite() {
    let place = Place::mock().await;
    let store = store_in_lite(&place).await;
    store.replace(many(3)).await.unwrap();
    assert_eq!(all(&*store).await, [1, 2, 3]);
    let before = server(&place).calls("Search");
    server(&place).fail_next("Flush", 1, &Fault::Delay(Duration::from_millis(600)));
    let (flushing, reading) = (store.clone(), store.clone());
    let flush = tokio::spawn(async move { flushing.maintain(Maintenance::Keywords).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let read = tokio::spawn(async move { all(&*reading).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server(&place).calls("Search"), before, "a search during a flush may miss rows");
    flush.await.unwrap().unwrap();
    assert_eq!(read.await.unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn many_new_rows_are_flushed_before_milvus_lite_does() {
    let place = Place::mock().await;
    let store = store_in_lite(&place).await;
    let large = "a".repeat(60_000);
    for first in [1, 301] {
        let files = (first..first + 300).map(|it| file(it, &[&large])).collect();
        store.replace(files).await.unwrap();
    }
    assert_eq!((server(&place).calls("Flush"), store.stats().await.unwrap().unindexed_rows), (1, 1));
}

#[tokio::test]
async fn collection_of_another_ledger_is_filled_again() {
    let place = Place::mock().await;
    let other = MockServer::start().await.unwrap();
    let store = place.open().await;
    store.replace(many(3)).await.unwrap();
    drop(store);
    let elsewhere = open_backend(&config(place.dir.path(), &other.address(), &[])).await.unwrap();
    let store = elsewhere.open(FINGERPRINT, DIMENSION).await.unwrap();
    assert!(store.recovery().has_lost_commits && store.chunk_count() == 0);
    store.replace(many(3)).await.unwrap();
    drop(store);
    // The first server has a collection of the same ledger, with rows of other generations.
    let store = place.open().await;
    store.maintain(Maintenance::Keywords).await.unwrap();
    assert_eq!((store.file_ids().len(), rows_on_server(&place)), (0, 0), "all files are to be indexed again");
}

#[tokio::test]
async fn wiped_server_is_reported_as_loss() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(3)).await.unwrap();
    server(&place).wipe();
    assert!(store.keyword_leg(&Default::default(), &FileSet::All, 3).await.unwrap().is_empty());
    let error = store.vector_leg(&vector(1, 0.0), &FileSet::All, 3).await.unwrap_err();
    assert!(error.hint.unwrap().contains("restart the daemon"));
    let store = place.open_again(store).await;
    assert!(store.recovery().has_lost_commits && store.chunk_count() == 0);
    store.accept_loss().await.unwrap();
    store.replace(many(3)).await.unwrap();
    assert_eq!(all(&*store).await, [1, 2, 3]);
}

#[tokio::test]
async fn collection_without_ledger_is_filled_again() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(3)).await.unwrap();
    drop(store);
    let ledger = place.dir.path().join("index/milvus").join(format!("{}.sqlite", collection(&place)));
    std::fs::remove_file(&ledger).unwrap();
    let store = place.open().await;
    assert_eq!((store.chunk_count(), rows_on_server(&place)), (0, 0));
    store.replace(many(2)).await.unwrap();
    drop(store);
    std::fs::write(&ledger, vec![7; 8_192]).unwrap();
    std::fs::remove_file(format!("{}-wal", ledger.display())).ok();
    let store = place.open().await;
    assert_eq!((store.chunk_count(), rows_on_server(&place)), (0, 0));
}

#[tokio::test]
async fn collection_is_loaded_again_after_server_restarts() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(3)).await.unwrap();
    server(&place).restart();
    assert_eq!(all(&*store).await, [1, 2, 3]);
    server(&place).drop_connections();
    store.replace(vec![file(4, &["common again"])]).await.unwrap();
    assert_eq!(all(&*store).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn read_only_and_overloaded_server_refuses_changes_and_answers() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(3)).await.unwrap();
    server(&place).set_read_only(true);
    let error = store.replace(vec![file(9, &["common"])]).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::PermissionDenied);
    assert!(error.hint.unwrap().contains("read-only"));
    assert_eq!(all(&*store).await, [1, 2, 3]);
    server(&place).set_read_only(false);
    store.replace(vec![file(9, &["common"])]).await.unwrap();
    assert_eq!(all(&*store).await, [1, 2, 3, 9]);
}

#[tokio::test]
async fn wrong_token_is_refused_with_hint() {
    let place = Place::mock().await;
    server(&place).demand_token(Some("root:Milvus"));
    let error = connect(&place, &[("VIC_MILVUS_TOKEN", "root:wrong")]).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::PermissionDenied);
    assert!(
        error.hint.clone().unwrap().contains("VIC_MILVUS_TOKEN") && !error.to_string().contains("wrong"),
        "{error}"
    );
    let backend = connect(&place, &[("VIC_MILVUS_TOKEN", "root:Milvus")]).await.unwrap();
    backend.open(FINGERPRINT, DIMENSION).await.unwrap().replace(many(1)).await.unwrap();
}

#[tokio::test]
async fn unsupported_version_is_refused_and_old_one_searches_keywords_locally() {
    let place = Place::mock().await;
    server(&place).set_version("v2.2.16");
    let error = connect(&place, &[]).await.err().unwrap();
    assert!(error.message.contains("v2.2.16 is too old") && error.hint.is_some(), "{error}");
    server(&place).set_version("v2.3.5");
    let backend = connect(&place, &[]).await.unwrap();
    let store = backend.open(FINGERPRINT, DIMENSION).await.unwrap();
    let described = store.stats().await.unwrap().backend;
    assert!(described.contains("v2.3.5") && described.contains("keywords are searched on this machine"), "{described}");
    assert_eq!(store.capabilities().keywords, KeywordSearch::Local);
    store.replace(many(5)).await.unwrap();
    store.copy(&[(5, 6)]).await.unwrap();
    store.delete(&[1]).await.unwrap();
    store.replace(vec![file(2, &["common new"])]).await.unwrap();
    assert_eq!(all(&*store).await, [2, 3, 4, 5, 6]);
    assert_eq!(keyword(&*store, "new", &FileSet::All).await, [2]);
    assert_eq!(store.files_with(&required("number3"), &FileSet::All).await.unwrap(), [3]);
    assert_eq!(nearest(&*store, &vector(3, 0.003), &FileSet::All, 1).await, [3]);
}

#[tokio::test]
async fn foreign_collection_and_alias_are_left_alone() {
    let place = Place::mock().await;
    let client = client(&place).await;
    let fields = vec![
        Field::primary("id", FieldType::VarChar { max_bytes: 10 }),
        Field::new("vector", FieldType::FloatVector { dim: 3 }),
    ];
    let foreign = |name: &str| Schema {
        name: name.into(),
        description: String::new(),
        fields: fields.clone(),
        properties: Vec::new(),
    };
    client.create_collection(&foreign("mine")).await.unwrap();
    let backend = connect(&place, &[("VIC_MILVUS_COLLECTION", "mine")]).await.unwrap();
    backend.open(FINGERPRINT, DIMENSION).await.unwrap();
    let error = backend.set_serving(FINGERPRINT).await.unwrap_err();
    assert!(error.message.contains("`mine` is a collection that is not of this vic"), "{error}");
    client.create_alias("ours", "mine").await.unwrap();
    let backend = connect(&place, &[("VIC_MILVUS_COLLECTION", "ours")]).await.unwrap();
    backend.open(FINGERPRINT, DIMENSION).await.unwrap();
    assert!(
        backend.set_serving(FINGERPRINT).await.unwrap_err().message.contains("is an alias of the collection `mine`")
    );
    backend.drop_tables_except(&[]).await.unwrap();
    assert!(server(&place).collections().contains(&"mine".to_string()));
    assert_eq!(client.describe_alias("ours").await.unwrap(), "mine");
}

#[tokio::test]
async fn collection_with_other_fields_or_dimension_is_refused() {
    let place = Place::mock().await;
    let store = place.open().await;
    store.replace(many(2)).await.unwrap();
    let error = place.backend.open(FINGERPRINT, DIMENSION + 1).await.err().unwrap();
    assert!(error.message.contains("has vectors of 8 numbers, not 9") && error.hint.is_some(), "{error}");
    let (name, client) = (collection(&place), client(&place).await);
    client.drop_collection(&name).await.unwrap();
    let fields = vec![
        Field::primary("id", FieldType::VarChar { max_bytes: 10 }),
        Field::new("vector", FieldType::FloatVector { dim: DIMENSION }),
    ];
    let schema = Schema { name: name.clone(), description: String::new(), fields, properties: Vec::new() };
    client.create_collection(&schema).await.unwrap();
    let index = IndexParams::new("HNSW", Some(Metric::Cosine)).with("M", 8).with("efConstruction", 8);
    client.create_index(&name, "vector", &index, Duration::from_secs(9)).await.unwrap();
    let error = place.backend.open(FINGERPRINT, DIMENSION).await.err().unwrap();
    assert!(error.message.contains("other fields than those of vic"), "{error}");
    assert!(server(&place).collections().contains(&name));
}

#[tokio::test]
async fn alias_names_collection_that_answers_queries() {
    let place = Place::mock().await;
    let client = client(&place).await;
    for fingerprint in ["aaaaaaaaaaaa", "bbbbbbbbbbbb"] {
        place.backend.open(fingerprint, DIMENSION).await.unwrap();
        place.backend.set_serving(fingerprint).await.unwrap();
        assert!(client.describe_alias("vic_chunks").await.unwrap().ends_with(fingerprint));
    }
    // Another vic on the same server does not take the alias, and does not drop the collections of the first.
    let (other, dir) = (MockServer::start().await.unwrap(), tempfile::tempdir().unwrap());
    drop(other);
    let second = open_backend(&config(dir.path(), &server(&place).address(), &[])).await.unwrap();
    second.open("aaaaaaaaaaaa", DIMENSION).await.unwrap();
    assert!(second.set_serving("aaaaaaaaaaaa").await.unwrap_err().message.contains("not of this vic"));
    second.drop_tables_except(&[]).await.unwrap();
    assert!(client.describe_alias("vic_chunks").await.unwrap().ends_with("bbbbbbbbbbbb"));
}

#[tokio::test]
async fn local_only_refuses_server_elsewhere_and_other_modes_demand_tls() {
    let place = Place::mock().await;
    let elsewhere = |uri, mode| {
        let config = config(place.dir.path(), uri, &[("VIC_PRIVACY_MODE", mode)]);
        async move { open_backend(&config).await.err().unwrap() }
    };
    let error = elsewhere("https://192.0.2.1:19530", "local_only").await;
    assert_eq!(error.code, ErrorCode::PermissionDenied);
    assert!(error.message.contains("local_only"), "{error}");
    let error = elsewhere("http://192.0.2.1:19530", "cloud_reasoning_ok").await;
    assert_eq!(error.code, ErrorCode::PermissionDenied);
    assert!(error.message.contains("does not use TLS") && error.hint.unwrap().contains("https"));
}

#[tokio::test]
async fn file_of_milvus_lite_2_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("milvus_lite.db");
    std::fs::write(&old, "SQLite format 3").unwrap();
    let error = open_backend(&config(dir.path(), old.to_str().unwrap(), &[])).await.err().unwrap();
    assert!(error.message.contains("milvus_lite.db") && error.message.contains("milvus-lite 2"), "{error}");
    assert!(error.hint.is_some() && std::fs::read(&old).unwrap().starts_with(b"SQLite"));
}
