//! A collection for tests.

use std::time::Duration;

use vic_milvus::mock::MockServer;
use vic_milvus::{Client, Column, Field, FieldType, IndexParams, Metric, Schema, Search, Values, Vector};
use vic_milvus::{Guarantee, Hits, Result};

pub(crate) const WAIT: Duration = Duration::from_secs(30);
pub(crate) const NAME: &str = "chunks_1";

/// Texts that a careless filter would read as something else.
pub(crate) const NASTY: [&str; 14] = [
    "plain",
    "it's",
    "say \"hi\"",
    "back\\slash",
    "\\",
    "\\\"",
    "100%_sure",
    "line\nbreak\r\n\ttab",
    "\" or 1 == 1 or \"",
    "a and b",
    "\u{1f600} \u{fc}n\u{ef}code",
    "e\u{301}\u{202e}",
    "nul\u{0}byte",
    "",
];

pub(crate) fn schema(name: &str) -> Schema {
    Schema {
        name: name.into(),
        description: "described".into(),
        fields: vec![
            Field::primary("id", FieldType::Int64),
            Field::new("text", FieldType::VarChar { max_bytes: 4096 }),
            Field::new("modified", FieldType::Int64),
            Field::new("kind", FieldType::Int32),
            Field::new("dirs", FieldType::ArrayInt64 { max_len: 64 }),
            Field::new("dense", FieldType::FloatVector { dim: 4 }),
            Field::new("sparse", FieldType::SparseFloatVector),
        ],
        properties: vec![("vic.generation".into(), "7".into())],
    }
}

pub(crate) fn rows(ids: std::ops::Range<i64>) -> Vec<Column> {
    let ids: Vec<i64> = ids.collect();
    let text = |&id: &i64| NASTY[usize::try_from(id).unwrap() % NASTY.len()].to_string();
    let dense = |&id: &i64| [1.0, id as f32 / 10.0, 0.0, 0.0];
    let sparse = |&id: &i64| vec![(7, 1.0 + id as f32), (u32::try_from(id).unwrap() + 100, 2.0)];
    vec![
        Column::new("id", Values::Int64(ids.clone())),
        Column::new("text", Values::VarChar(ids.iter().map(text).collect())),
        Column::new("modified", Values::Int64(ids.iter().map(|id| id * 10).collect())),
        Column::new("kind", Values::Int32(ids.iter().map(|&id| id as i32 % 3).collect())),
        Column::new("dirs", Values::ArrayInt64(ids.iter().map(|id| vec![1, id % 2 + 10, -id]).collect())),
        Column::new("dense", Values::FloatVector { dim: 4, numbers: ids.iter().flat_map(dense).collect() }),
        Column::new("sparse", Values::SparseFloatVector(ids.iter().map(sparse).collect())),
    ]
}

pub(crate) async fn create(client: &Client, name: &str) {
    client.create_collection(&schema(name)).await.unwrap();
    let hnsw = IndexParams::new("HNSW", Some(Metric::Cosine)).with("M", 16).with("efConstruction", 100);
    client.create_index(name, "dense", &hnsw, WAIT).await.unwrap();
    let sparse = IndexParams::new("SPARSE_INVERTED_INDEX", Some(Metric::Ip));
    client.create_index(name, "sparse", &sparse, WAIT).await.unwrap();
    client.create_index(name, "modified", &IndexParams::new("INVERTED", None), WAIT).await.unwrap();
    client.load_collection(name, WAIT).await.unwrap();
}

/// A mock with a loaded collection of ten rows, and its client.
pub(crate) async fn mock() -> (MockServer, Client) {
    let server = MockServer::start().await.unwrap();
    let client = Client::connect(server.settings()).await.unwrap();
    create(&client, NAME).await;
    client.upsert(NAME, rows(0..10)).await.unwrap();
    (server, client)
}

pub(crate) fn dense_search() -> Search<'static> {
    Search {
        field: "dense",
        vector: Vector::Dense(&[1.0, 0.0, 0.0, 0.0]),
        metric: Metric::Cosine,
        params: vec![("ef".into(), 64)],
        filter: None,
        limit: 3,
        output_fields: &["id", "text"],
        guarantee: Guarantee::Strong,
    }
}

pub(crate) async fn search(client: &Client) -> Result<Hits> {
    client.search(NAME, &dense_search()).await
}
