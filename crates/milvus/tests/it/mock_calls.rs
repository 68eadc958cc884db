//! The calls of the client against the mock, where all goes well.

use std::time::Duration;

use vic_milvus::{Client, ErrorKind, Filter, Guarantee, IndexParams, MAX_ROWS, Metric, Search, Settings, Vector};

use crate::rows::{NAME, WAIT, create, dense_search, mock, rows, schema};

#[tokio::test]
async fn collection_keeps_its_schema_and_its_rows() {
    let (server, client) = mock().await;
    assert_eq!((client.version().text(), client.version().numbers()), ("v2.5.4", Some((2, 5, 4))));
    client.check_health().await.unwrap();
    let found = client.describe_collection(NAME, WAIT).await.unwrap();
    assert_eq!(found.fields, schema(NAME).fields);
    assert_eq!((found.description.as_str(), &found.properties), ("described", &schema(NAME).properties));
    assert!(found.id > 0 && found.dim("dense") == Some(4) && found.dim("id").is_none());
    assert!(client.has_collection(NAME).await.unwrap());
    assert_eq!(client.list_collections().await.unwrap(), [NAME]);
    assert!(client.has_index(NAME, "sparse").await.unwrap() && !client.has_index(NAME, "kind").await.unwrap());

    let names: Vec<_> = schema(NAME).fields.into_iter().map(|field| field.name).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let all = client.query(NAME, None, &names, MAX_ROWS, Guarantee::Strong).await.unwrap();
    assert_eq!(all.columns(), rows(0..10));
    assert_eq!(all.int32("kind").unwrap()[2], 2);
    assert_eq!(all.float_vectors("dense", 4).unwrap().len(), 40);
    assert!(all.float_vectors("dense", 3).is_err() && all.int64("text").is_err() && all.int64("none").is_err());

    let write = client.upsert(NAME, rows(5..12)).await.unwrap();
    assert_eq!((write.rows, client.count(NAME, None, write.guarantee()).await.unwrap()), (7, 12));
    let write = client.delete(NAME, &Filter::in_ints("id", [0, 1, 99])).await.unwrap();
    assert_eq!((write.rows, client.count(NAME, None, write.guarantee()).await.unwrap()), (2, 10));
    let few = Filter::range("modified", 20..40);
    assert_eq!(client.count(NAME, Some(&few), Guarantee::Strong).await.unwrap(), 2);
    client.drop_collection(NAME).await.unwrap();
    assert_eq!(server.row_count(NAME), None);
}

#[tokio::test]
async fn search_orders_hits_by_score() {
    let (_server, client) = mock().await;
    let hits = client.search(NAME, &dense_search()).await.unwrap();
    assert_eq!(hits.rows.int64("id").unwrap(), [0, 1, 2]);
    assert!(hits.scores.is_sorted_by(|a, b| a > b));
    let filter = Filter::in_ints("id", [1, 3, 5, 7, 9]);
    let sparse = Search {
        field: "sparse",
        vector: Vector::Sparse(&[(105, 3.0), (7, 2.0)]),
        metric: Metric::Ip,
        filter: Some(&filter),
        output_fields: &[],
        ..dense_search()
    };
    let hits = client.search(NAME, &sparse).await.unwrap();
    assert_eq!(hits.scores, [20.0, 18.0, 16.0]);
    let nowhere = Search { vector: Vector::Sparse(&[(1, 1.0)]), output_fields: &["id"], ..sparse };
    let hits = client.search(NAME, &nowhere).await.unwrap();
    assert!(hits.scores.is_empty() && hits.rows.int64("id").unwrap().is_empty());
}

#[tokio::test]
async fn squared_distance_becomes_a_score() {
    let (_server, client) = mock().await;
    client.create_index(NAME, "dense", &IndexParams::new("FLAT", Some(Metric::L2)), WAIT).await.unwrap();
    let hits = client.search(NAME, &Search { metric: Metric::L2, ..dense_search() }).await.unwrap();
    assert_eq!(hits.rows.int64("id").unwrap(), [0, 1, 2]);
    assert!(hits.scores.is_sorted_by(|a, b| a > b) && hits.scores[0] == 0.0);
}

#[tokio::test]
async fn alias_moves_in_one_step() {
    let (_server, client) = mock().await;
    create(&client, "chunks_2").await;
    client.create_alias("chunks", NAME).await.unwrap();
    assert_eq!(client.describe_alias("chunks").await.unwrap(), NAME);
    assert_eq!(client.describe_collection("chunks", WAIT).await.unwrap().aliases, ["chunks"]);
    assert_eq!(client.count("chunks", None, Guarantee::Strong).await.unwrap(), 10);
    client.flush("chunks").await.unwrap();
    client.alter_alias("chunks", "chunks_2").await.unwrap();
    assert_eq!(client.count("chunks", None, Guarantee::Strong).await.unwrap(), 0);
    assert_eq!(client.list_aliases("chunks_2").await.unwrap(), ["chunks"]);
    assert!(client.create_alias("chunks", NAME).await.is_err());
    client.drop_alias("chunks").await.unwrap();
    let error = client.describe_alias("chunks").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotFound("alias `chunks`".into()));
    let error = client.alter_alias("chunks", NAME).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotFound("alias `chunks`".into()));
}

#[tokio::test]
async fn client_waits_for_builds() {
    let (server, client) = mock().await;
    server.set_slow_builds(3);
    create(&client, "slow").await;
    client.flush("slow").await.unwrap();
    assert!(server.calls("DescribeIndex") >= 3 * 4 && server.calls("GetFlushState") == 4);
    server.set_slow_builds(u32::MAX);
    let limit = Duration::from_millis(200);
    let index = IndexParams::new("INVERTED", None);
    let error = client.create_index("slow", "id", &index, limit).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TimedOut);
    server.restart();
    let error = client.load_collection("slow", limit).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TimedOut);
    server.restart();
    let quick = Settings { read_timeout: limit, ..server.settings() };
    let error = Client::connect(quick).await.unwrap().count("slow", None, Guarantee::Strong).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotLoaded("slow".into()));
}
