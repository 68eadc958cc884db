//! The client against a real Milvus Lite, whose program the variable `VIC_TEST_MILVUS_LITE` names.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use vic_milvus::{
    Client, Column, ErrorKind, Filter, Guarantee, IndexParams, MAX_ROWS, Metric, Search, Settings, Values, Vector,
};

use crate::rows::{NAME, NASTY, WAIT, create, dense_search, rows, schema};

struct Lite {
    process: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Lite {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { process: spawn(&folder.path().join("data"), port), port, folder }
    }

    fn restart(&mut self) {
        self.stop();
        self.process = spawn(&self.folder.path().join("data"), self.port);
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn settings(&self) -> Settings {
        // The program imports for some seconds before it listens; the client waits for it by its own attempts.
        Settings { read_timeout: WAIT, write_timeout: WAIT, ..Settings::new(format!("http://127.0.0.1:{}", self.port)) }
    }

    async fn connect(&self) -> Client {
        let mut last = None;
        for _ in 0..5 {
            match Client::connect(self.settings()).await {
                Ok(client) => return client,
                Err(error) => last = Some(error),
            }
        }
        panic!("{last:?}");
    }
}

impl Drop for Lite {
    fn drop(&mut self) {
        self.stop();
    }
}

#[expect(clippy::disallowed_methods, reason = "the path of a program for this test, not a setting of vic")]
fn program() -> PathBuf {
    std::env::var_os("VIC_TEST_MILVUS_LITE").expect("VIC_TEST_MILVUS_LITE is not set").into()
}

fn spawn(data: &std::path::Path, port: u16) -> Child {
    let mut command = Command::new(program());
    command.args(["server", "--host", "127.0.0.1", "--port", &port.to_string(), "--data-dir"]).arg(data);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

async fn ids_of(client: &Client, filter: &Filter) -> Vec<i64> {
    let rows = client.query(NAME, Some(filter), &["id"], 1000, Guarantee::Strong).await.unwrap();
    let mut ids = rows.int64("id").unwrap().to_vec();
    ids.sort_unstable();
    ids
}

#[tokio::test]
#[ignore = "needs Milvus Lite 3.2: VIC_TEST_MILVUS_LITE=PROGRAM cargo test -p vic-milvus lite -- --ignored"]
async fn lite_keeps_collections_rows_and_aliases() {
    let mut lite = Lite::start();
    let client = lite.connect().await;
    assert!(client.version().is_lite() && client.features().has_sparse, "{:?}", client.version());
    client.check_health().await.unwrap();
    create(&client, NAME).await;
    assert!(client.has_collection(NAME).await.unwrap() && !client.has_collection("other").await.unwrap());
    assert!(client.has_index(NAME, "dense").await.unwrap() && !client.has_index(NAME, "kind").await.unwrap());
    assert_eq!(client.list_collections().await.unwrap(), [NAME]);
    let found = client.describe_collection(NAME, WAIT).await.unwrap();
    assert_eq!((found.fields.as_slice(), found.dim("dense")), (schema(NAME).fields.as_slice(), Some(4)));
    assert_eq!((found.id, found.description.as_str()), (0, ""), "Milvus Lite keeps no description");
    assert_eq!(found.properties, schema(NAME).properties);

    let mutation = client.upsert(NAME, rows(0..50)).await.unwrap();
    assert_eq!((mutation.timestamp, mutation.rows), (0, 50));
    client.upsert(NAME, rows(0..10)).await.unwrap();
    assert_eq!(client.count(NAME, None, mutation.guarantee()).await.unwrap(), 50);
    let deleted = client.delete(NAME, &Filter::in_ints("id", [48, 49, 1000])).await.unwrap();
    let by_expression = client.delete(NAME, &Filter::range("modified", 460..480)).await.unwrap();
    assert_eq!((deleted.rows, by_expression.rows), (3, 2), "unknown keys count, too");
    client.flush(NAME).await.unwrap();
    assert_eq!(client.count(NAME, None, Guarantee::Strong).await.unwrap(), 46);
    let names: Vec<_> = schema(NAME).fields.into_iter().map(|field| field.name).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let all = client.query(NAME, Some(&Filter::eq_int("id", 3)), &names, 10, Guarantee::Strong).await.unwrap();
    assert_eq!(all.columns(), rows(3..4));
    let none = client.query(NAME, Some(&Filter::eq_int("id", -3)), &names, 10, Guarantee::Strong).await.unwrap();
    assert!(none.is_empty() && none.int64("id").unwrap().is_empty(), "{none:?}");

    create(&client, "chunks_2").await;
    client.create_alias("chunks", NAME).await.unwrap();
    assert_eq!(client.describe_alias("chunks").await.unwrap(), NAME);
    assert_eq!(client.count("chunks", None, Guarantee::Strong).await.unwrap(), 46);
    assert_eq!(client.describe_collection("chunks", WAIT).await.unwrap().name, NAME);
    client.alter_alias("chunks", "chunks_2").await.unwrap();
    assert_eq!(client.list_aliases("chunks_2").await.unwrap(), ["chunks"]);
    assert_eq!(client.count("chunks", None, Guarantee::Strong).await.unwrap(), 0);
    client.drop_alias("chunks").await.unwrap();
    let gone = client.describe_alias("chunks").await.unwrap_err();
    assert_eq!(*gone.kind(), ErrorKind::NotFound("alias `chunks`".into()));
    client.drop_collection("chunks_2").await.unwrap();

    lite.restart();
    assert_eq!(client.count(NAME, None, Guarantee::Strong).await.unwrap(), 46);
    assert_eq!(ids_of(&client, &Filter::eq_int("id", 3)).await, [3]);
}

#[tokio::test]
#[ignore = "needs Milvus Lite 3.2: VIC_TEST_MILVUS_LITE=PROGRAM cargo test -p vic-milvus lite -- --ignored"]
async fn lite_filters_find_exactly_their_rows() {
    let lite = Lite::start();
    let client = lite.connect().await;
    create(&client, NAME).await;
    let count = NASTY.len() as i64;
    let mut columns = rows(0..count);
    columns[2] = Column::new("modified", Values::Int64([i64::MIN, i64::MAX].into_iter().chain(2..count).collect()));
    client.upsert(NAME, columns).await.unwrap();
    for flush in [false, true] {
        if flush {
            client.flush(NAME).await.unwrap();
        }
        for (id, text) in (0..).zip(NASTY) {
            assert_eq!(ids_of(&client, &Filter::in_texts("text", [text, "no such"])).await, [id], "{text:?}");
            let expected: Vec<i64> =
                (0..).zip(NASTY).filter(|(_, other)| other.starts_with(text)).map(|(id, _)| id).collect();
            assert_eq!(ids_of(&client, &Filter::starts_with("text", text)).await, expected, "{text:?}");
        }
        let cases = [
            (Filter::eq_int("modified", i64::MIN), vec![0]),
            (Filter::in_ints("modified", [i64::MIN, i64::MAX, 5]), vec![0, 1, 5]),
            (Filter::range("modified", i64::MIN..4), vec![0, 2, 3]),
            (Filter::range("modified", 2..4), vec![2, 3]),
            (Filter::range("modified", 12..i64::MAX), vec![12, 13]),
            (Filter::range("modified", i64::MIN..1), vec![0]),
            (Filter::in_ints("id", []), vec![]),
            (Filter::in_texts("text", Vec::<String>::new()), vec![]),
            (Filter::range("id", 3..3), vec![]),
            (Filter::range("id", 2..i64::MAX).not().or(Filter::eq_int("kind", 2)), vec![0, 1, 2, 5, 8, 11]),
            (Filter::any((0..600).map(|id| Filter::range("id", id..id + 1))).unwrap(), (0..count).collect()),
            (Filter::in_ints("id", -5000..3), vec![0, 1, 2]),
        ];
        for (filter, ids) in cases {
            assert_eq!(ids_of(&client, &filter).await, ids, "{filter}");
        }
    }
}

#[tokio::test]
#[ignore = "needs Milvus Lite 3.2: VIC_TEST_MILVUS_LITE=PROGRAM cargo test -p vic-milvus lite -- --ignored"]
async fn lite_scores_are_higher_for_better_hits() {
    let lite = Lite::start();
    let client = lite.connect().await;
    create(&client, NAME).await;
    client.upsert(NAME, rows(0..20)).await.unwrap();
    for flush in [false, true] {
        if flush {
            client.flush(NAME).await.unwrap();
        }
        let mut search = dense_search();
        let hits = client.search(NAME, &search).await.unwrap();
        assert_eq!(hits.rows.int64("id").unwrap(), [0, 1, 2]);
        assert!((hits.scores[0] - 1.0).abs() < 1e-5 && hits.scores[1] < hits.scores[0]);

        let filter = Filter::in_ints("id", [1, 3, 5, 7]);
        search.filter = Some(&filter);
        assert_eq!(client.search(NAME, &search).await.unwrap().rows.int64("id").unwrap(), [1, 3, 5]);

        search.field = "sparse";
        search.metric = Metric::Ip;
        search.params.clear();
        search.filter = None;
        search.vector = Vector::Sparse(&[(105, 3.0), (7, 2.0)]);
        let hits = client.search(NAME, &search).await.unwrap();
        assert_eq!(hits.rows.int64("id").unwrap(), [19, 18, 17]);
        assert!((hits.scores[0] - 40.0).abs() < 1e-4);
        search.vector = Vector::Sparse(&[(105, 3.0)]);
        let hits = client.search(NAME, &search).await.unwrap();
        assert_eq!((hits.rows.int64("id").unwrap(), hits.scores.as_slice()), ([5].as_slice(), [6.0].as_slice()));
        search.vector = Vector::Sparse(&[(4_000_000_000, 1.0)]);
        assert!(client.search(NAME, &search).await.unwrap().scores.is_empty());
    }
}

#[tokio::test]
#[ignore = "needs Milvus Lite 3.2: VIC_TEST_MILVUS_LITE=PROGRAM cargo test -p vic-milvus lite -- --ignored"]
async fn lite_errors_have_their_kinds() {
    let lite = Lite::start();
    let client = lite.connect().await;
    let missing = client.describe_collection("none", WAIT).await.unwrap_err();
    assert_eq!(*missing.kind(), ErrorKind::NotFound("collection `none`".into()));
    let loading = client.load_collection("none", WAIT).await.unwrap_err();
    assert!(matches!(loading.kind(), ErrorKind::NotFound(_)), "{loading}");
    client.drop_collection("none").await.unwrap();
    let none = ErrorKind::NotFound("collection `none`".into());
    assert_eq!(*client.count("none", None, Guarantee::Strong).await.unwrap_err().kind(), none);
    assert_eq!(*client.create_alias("a", "none").await.unwrap_err().kind(), none);
    let no_alias = ErrorKind::NotFound("alias `a`".into());
    assert_eq!(*client.alter_alias("a", "none").await.unwrap_err().kind(), no_alias);
    assert_eq!(*client.describe_alias("a").await.unwrap_err().kind(), no_alias);
    client.drop_alias("a").await.unwrap();
    create(&client, NAME).await;
    let again = client.create_collection(&schema(NAME)).await.unwrap_err();
    assert!(
        matches!(again.kind(), ErrorKind::Server { code: 1, message } if message.contains("already exists")),
        "{again}"
    );
    let hnsw = IndexParams::new("HNSW", Some(Metric::Cosine));
    let again = client.create_index(NAME, "dense", &hnsw, WAIT).await.unwrap_err();
    assert!(matches!(again.kind(), ErrorKind::Server { code: 35, .. }), "{again}");
    let other = client.create_index(NAME, "kind", &IndexParams::new("STL_SORT", None), WAIT).await.unwrap_err();
    assert!(matches!(other.kind(), ErrorKind::Invalid(_)), "{other}");
    let no_field = client.query(NAME, Some(&Filter::eq_int("nowhere", 1)), &["id"], 1, Guarantee::Strong).await;
    assert!(matches!(no_field.as_ref().unwrap_err().kind(), ErrorKind::Invalid(_)), "{no_field:?}");
    client.upsert(NAME, rows(0..5)).await.unwrap();
    let refused = [
        Column::new("text", Values::VarChar(vec!["x".repeat(5000)])),
        Column::new("dirs", Values::ArrayInt64(vec![(0..100).collect()])),
        Column::new("dense", Values::FloatVector { dim: 3, numbers: vec![1.0; 3] }),
        Column::new("sparse", Values::SparseFloatVector(vec![vec![]])),
        Column::new("sparse", Values::SparseFloatVector(vec![vec![(1, 0.0)]])),
    ];
    for column in refused {
        let mut columns = rows(0..1);
        let name = column.name.clone();
        *columns.iter_mut().find(|other| other.name == name).unwrap() = column;
        let error = client.upsert(NAME, columns).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid(why) if why.contains(&name)), "{error}");
    }
    // Milvus Lite merges the fields of a known key with those of its row; the full server refuses.
    let mut columns = rows(90..91);
    columns.pop();
    let error = client.upsert(NAME, columns).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid(why) if why.contains("sparse")), "{error}");
    let distance = client.search(NAME, &Search { metric: Metric::L2, ..dense_search() }).await.unwrap();
    assert!(distance.scores[0] == 0.0 && distance.scores[1] < 0.0, "{distance:?}");
    let other_dim = client.search(NAME, &Search { vector: Vector::Dense(&[1.0, 0.0]), ..dense_search() }).await;
    assert!(matches!(other_dim.as_ref().unwrap_err().kind(), ErrorKind::Server { code: 1, .. }), "{other_dim:?}");
    let other_field = client.search(NAME, &Search { field: "nowhere", ..dense_search() }).await;
    assert!(matches!(other_field.as_ref().unwrap_err().kind(), ErrorKind::Invalid(_)), "{other_field:?}");
    let scores_only = client.search(NAME, &Search { output_fields: &[], limit: MAX_ROWS, ..dense_search() }).await;
    assert_eq!(scores_only.unwrap().scores.len(), 5);
    let keys = Filter::in_ints("id", 0..3);
    let above_limit = client.query(NAME, Some(&keys), &["id"], 1, Guarantee::Strong).await.unwrap();
    assert_eq!(above_limit.len(), 3, "Milvus Lite ignores the limit of a query by keys");
}

#[tokio::test]
#[ignore = "needs Milvus Lite 3.2: VIC_TEST_MILVUS_LITE=PROGRAM cargo test -p vic-milvus lite -- --ignored"]
async fn lite_that_was_killed_keeps_rows_of_first_requests() {
    let mut lite = Lite::start();
    let client = lite.connect().await;
    create(&client, NAME).await;
    client.upsert(NAME, rows(0..500)).await.unwrap();
    for round in 0..6 {
        lite.restart();
        // The first write and some reads arrive together, when the collection is not open yet.
        let reads = (0..4).map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.describe_collection(NAME, WAIT).await.map(drop) })
        });
        let reads: Vec<_> = reads.collect();
        let first = 500 + round * 9;
        for batch in 0..3 {
            client.upsert(NAME, rows(first + batch * 3..first + batch * 3 + 3)).await.unwrap();
        }
        for read in reads {
            read.await.unwrap().unwrap();
        }
        let expected = u64::try_from(first + 9).unwrap();
        assert_eq!(client.count(NAME, None, Guarantee::Strong).await.unwrap(), expected, "after kill {round}");
    }
}

#[tokio::test]
#[ignore = "needs Milvus Lite 3.2: VIC_TEST_MILVUS_LITE=PROGRAM cargo test -p vic-milvus lite -- --ignored"]
async fn lite_takes_writes_and_reads_at_the_same_time() {
    let lite = Lite::start();
    let client = lite.connect().await;
    create(&client, NAME).await;
    let writers = (0..4).map(|writer| {
        let client = client.clone();
        tokio::spawn(async move {
            for batch in 0..5 {
                let first = (writer * 5 + batch) * 50;
                client.upsert(NAME, rows(first..first + 50)).await.unwrap();
                client.search(NAME, &dense_search()).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(client.count(NAME, None, Guarantee::Strong).await.unwrap(), 1000);
}
