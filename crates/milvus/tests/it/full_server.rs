//! The client against a full server of Milvus, whose address the variable `VIC_TEST_MILVUS` has.

use vic_milvus::{Client, Column, ErrorKind, FieldType, Filter, Guarantee, IndexParams, Metric, Schema, Settings};

use crate::rows::{NASTY, WAIT, dense_search, rows, schema};

const NAME: &str = "vic_test_1";
const OTHER: &str = "vic_test_2";
const ALIAS: &str = "vic_test";

#[expect(clippy::disallowed_methods, reason = "the address of a server for this test, not a setting of vic")]
async fn connect() -> Client {
    let address = std::env::var("VIC_TEST_MILVUS").expect("VIC_TEST_MILVUS is not set");
    let settings = Settings { read_timeout: WAIT, write_timeout: WAIT, ..Settings::new(address) };
    let mut last = None;
    // A server in one process takes a minute to start.
    for _ in 0..20 {
        match Client::connect(settings.clone()).await {
            Ok(client) => return client,
            Err(error) => last = Some(error),
        }
    }
    panic!("{last:?}");
}

/// Sparse vectors came with Milvus 2.4.
fn is_supported(client: &Client, kind: FieldType) -> bool {
    client.features().has_sparse || kind != FieldType::SparseFloatVector
}

fn schema_for(client: &Client, name: &str) -> Schema {
    let mut schema = schema(name);
    schema.properties.clear();
    schema.fields.retain(|field| is_supported(client, field.kind));
    schema
}

fn rows_for(client: &Client, ids: std::ops::Range<i64>) -> Vec<Column> {
    let mut rows = rows(ids);
    rows.retain(|column| client.features().has_sparse || column.name != "sparse");
    rows
}

async fn create(client: &Client, name: &str) {
    client.create_collection(&schema_for(client, name)).await.unwrap();
    let hnsw = IndexParams::new("HNSW", Some(Metric::Cosine)).with("M", 16).with("efConstruction", 100);
    client.create_index(name, "dense", &hnsw, WAIT).await.unwrap();
    client.create_index(name, "dense", &hnsw, WAIT).await.unwrap();
    if client.features().has_sparse {
        let sparse = IndexParams::new("SPARSE_INVERTED_INDEX", Some(Metric::Ip));
        client.create_index(name, "sparse", &sparse, WAIT).await.unwrap();
    }
    client.load_collection(name, WAIT).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a Milvus server: VIC_TEST_MILVUS=http://HOST:PORT cargo test -p vic-milvus full_server -- --ignored"]
async fn full_server_keeps_collections_rows_and_aliases() {
    let client = connect().await;
    assert!(!client.version().is_lite());
    let _ = client.drop_alias(ALIAS).await;
    client.drop_collection(NAME).await.unwrap();
    client.drop_collection(OTHER).await.unwrap();
    create(&client, NAME).await;
    let described = client.describe_collection(NAME, WAIT).await.unwrap();
    assert_eq!((described.description.as_str(), described.dim("dense")), ("described", Some(4)));
    assert_eq!(described.fields, schema_for(&client, NAME).fields);
    assert!(described.id > 0);

    let empty = client.query(NAME, None, &["id", "text"], 10, Guarantee::Strong).await.unwrap();
    assert!(empty.is_empty() && empty.int64("id").unwrap().is_empty());
    let nothing = client.search(NAME, &dense_search()).await.unwrap();
    assert!(nothing.scores.is_empty() && nothing.rows.is_empty());

    let count = NASTY.len() as i64;
    let write = client.upsert(NAME, rows_for(&client, 0..count)).await.unwrap();
    assert!(write.timestamp > 2 && write.rows == count as u64);
    let write = client.upsert(NAME, rows_for(&client, 0..count)).await.unwrap();
    assert_eq!(client.count(NAME, None, write.guarantee()).await.unwrap(), count as u64);
    let fields = schema_for(&client, NAME).fields;
    let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
    let three = client.query(NAME, Some(&Filter::eq_int("id", 3)), &names, 10, write.guarantee()).await.unwrap();
    assert_eq!(three.columns(), rows_for(&client, 3..4));
    let hits = client.search(NAME, &dense_search()).await.unwrap();
    assert_eq!(hits.rows.int64("id").unwrap(), [0, 1, 2]);
    assert!(hits.scores.is_sorted_by(|a, b| a > b));
    check_filters(&client, write.guarantee()).await;

    let write = client.delete(NAME, &Filter::in_ints("id", [0, 1, 999])).await.unwrap();
    assert_eq!(write.rows, 3, "unknown keys count, too");
    assert_eq!(client.count(NAME, None, write.guarantee()).await.unwrap(), count as u64 - 2);
    client.flush(NAME).await.unwrap();
    assert_eq!(client.count(NAME, None, Guarantee::Strong).await.unwrap(), count as u64 - 2);

    create(&client, OTHER).await;
    client.create_alias(ALIAS, NAME).await.unwrap();
    assert_eq!(client.describe_collection(ALIAS, WAIT).await.unwrap().name, NAME);
    assert_eq!(client.describe_alias(ALIAS).await.unwrap(), NAME);
    assert_eq!(client.list_aliases(NAME).await.unwrap(), [ALIAS]);
    client.flush(ALIAS).await.unwrap();
    client.alter_alias(ALIAS, OTHER).await.unwrap();
    assert_eq!(client.count(ALIAS, None, Guarantee::Strong).await.unwrap(), 0);
    client.drop_alias(ALIAS).await.unwrap();
    let none = ErrorKind::NotFound(format!("alias `{ALIAS}`"));
    assert_eq!(*client.describe_alias(ALIAS).await.unwrap_err().kind(), none);
    assert_eq!(*client.alter_alias(ALIAS, OTHER).await.unwrap_err().kind(), none);
    check_errors(&client).await;
    client.drop_collection(NAME).await.unwrap();
    client.drop_collection(OTHER).await.unwrap();
}

async fn check_filters(client: &Client, guarantee: Guarantee) {
    let count = NASTY.len() as i64;
    let check = async |filter: Filter, expected: Vec<i64>| {
        let rows = client.query(NAME, Some(&filter), &["id"], 1000, guarantee).await;
        let found = rows.map(|rows| {
            let mut ids = rows.int64("id").unwrap().to_vec();
            ids.sort_unstable();
            ids
        });
        if found.as_ref().ok() == Some(&expected) { None } else { Some(format!("{filter:?}: {found:?}")) }
    };
    let mut wrong = Vec::new();
    for (id, text) in (0..).zip(NASTY) {
        let prefixed =
            (0..).zip(NASTY).filter(|(_, other)| other.starts_with(text)).map(|(id, _)| id).collect::<Vec<i64>>();
        wrong.extend(check(Filter::in_texts("text", [text, "no such"]), vec![id]).await);
        wrong.extend(check(Filter::starts_with("text", text), prefixed).await);
    }
    wrong.extend(check(Filter::range("modified", 20..40), vec![2, 3]).await);
    wrong.extend(check(Filter::range("modified", i64::MIN..20), vec![0, 1]).await);
    wrong.extend(check(Filter::range("id", i64::MIN..2).and(Filter::range("id", i64::MIN..9)), vec![0, 1]).await);
    wrong.extend(check(Filter::in_ints("id", []), vec![]).await);
    wrong.extend(check(Filter::in_texts("text", [""; 0]), vec![]).await);
    wrong.extend(
        check(Filter::range("id", 2..i64::MAX).not().or(Filter::eq_int("kind", 2)), vec![0, 1, 2, 5, 8, 11]).await,
    );
    wrong.extend(
        check(Filter::any((0..300).map(|id| Filter::range("id", id..id + 1))).unwrap(), (0..count).collect()).await,
    );
    wrong.extend(check(Filter::in_ints("id", -5000..3), vec![0, 1, 2]).await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn check_errors(client: &Client) {
    let none = ErrorKind::NotFound("collection `vic_none`".into());
    let name = "vic_none";
    assert!(!client.has_collection(name).await.unwrap());
    assert_eq!(*client.count(name, None, Guarantee::Strong).await.unwrap_err().kind(), none);
    assert_eq!(*client.describe_collection(name, WAIT).await.unwrap_err().kind(), none);
    assert_eq!(*client.load_collection(name, WAIT).await.unwrap_err().kind(), none);
    let nowhere = Filter::eq_int("nowhere", 1);
    let error = client.query(NAME, Some(&nowhere), &["id"], 1, Guarantee::Strong).await.unwrap_err();
    assert!(error.to_string().contains("nowhere") && !error.is_transient(), "{error}");
    let error = client.query(NAME, None, &["nowhere"], 1, Guarantee::Strong).await.unwrap_err();
    assert!(error.to_string().contains("nowhere") && !error.is_transient(), "{error}");
    let mut columns = rows_for(client, 0..1);
    columns.remove(1);
    let error = client.upsert(NAME, columns).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid(why) if why.contains("text")), "{error}");
    client.create_collection(&schema_for(client, NAME)).await.unwrap();
    let mut other = schema_for(client, NAME);
    other.fields.remove(1);
    let error = client.create_collection(&other).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Server { code: 65535, .. }), "{error}");
}
