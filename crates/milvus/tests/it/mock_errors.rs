//! Each error, and what the client does about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use vic_milvus::mock::{Code, Fault, Malformed, MockServer};
use vic_milvus::{
    Client, Column, Error, ErrorKind, Filter, Guarantee, MAX_MESSAGE_BYTES, MAX_ROWS, OnConnect, Search, Settings,
    Token, Values, Vector,
};

use crate::rows::{NAME, WAIT, create, dense_search, mock, rows, schema, search};

async fn count(client: &Client) -> Result<u64, Error> {
    client.count(NAME, None, Guarantee::Strong).await
}

fn unavailable() -> Fault {
    Fault::Grpc(Code::Unavailable, "gone for a moment".into())
}

#[tokio::test]
async fn short_outage_is_invisible() {
    let (server, client) = mock().await;
    server.fail_next("Query", 3, &unavailable());
    server.fail_next("Query", 1, &Fault::DropConnection);
    assert_eq!(count(&client).await.unwrap(), 10);
    assert_eq!(server.calls("Query"), 5);
    server.fail_next("Upsert", 1, &Fault::code(1, "service not ready"));
    server.fail_next("Upsert", 1, &Fault::LoseReply);
    assert_eq!(client.upsert(NAME, rows(0..12)).await.unwrap().rows, 12);
    assert_eq!((server.calls("Upsert"), server.row_count(NAME)), (1 + 3, Some(12)));
}

#[tokio::test]
async fn broken_connection_is_opened_again() {
    let (server, client) = mock().await;
    server.drop_connections();
    assert_eq!(count(&client).await.unwrap(), 10);
    server.stop();
    let quick = Settings { read_timeout: Duration::from_millis(300), ..server.settings() };
    let error = Client::connect(quick).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable(_) | ErrorKind::TimedOut) && error.is_transient(), "{error}");
    server.resume();
    assert_eq!(count(&client).await.unwrap(), 10);
}

#[tokio::test]
async fn absent_server_is_unreachable_within_the_limit() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let limit = Duration::from_millis(500);
    let settings = Settings { read_timeout: limit, ..Settings::new(format!("http://127.0.0.1:{port}")) };
    let start = Instant::now();
    let error = Client::connect(settings).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable(_)), "{error:?}");
    assert!(start.elapsed() < 4 * limit && error.to_string().contains(&port.to_string()), "{error}");
}

#[tokio::test]
async fn hung_server_times_out() {
    let (server, client) = mock().await;
    let quick = Settings { read_timeout: Duration::from_millis(300), ..server.settings() };
    let quick = Client::connect(quick).await.unwrap();
    server.fail_always("Search", Fault::Delay(WAIT));
    let start = Instant::now();
    let error = search(&quick).await.unwrap_err();
    assert_eq!((error.kind(), error.call()), (&ErrorKind::TimedOut, "Search"));
    assert!(start.elapsed() < WAIT / 5);
    assert_eq!(count(&client).await.unwrap(), 10);
}

#[tokio::test]
async fn wrong_token_is_unauthenticated_and_stays_secret() {
    let server = MockServer::start().await.unwrap();
    server.demand_token(Some("root:Milvus"));
    assert!(Client::connect(server.settings()).await.is_ok());
    for token in [None, Some(Token::new("root:guess"))] {
        let error = Client::connect(Settings { token, ..server.settings() }).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Unauthenticated);
        assert!(!format!("{error} {error:?}").contains("guess"));
        assert_eq!(server.calls("GetVersion"), 1);
    }
    let client = Client::connect(server.settings()).await.unwrap();
    server.fail_always("Query", Fault::code(65535, "user root:Milvus with cm9vdDpNaWx2dXM= failed"));
    let error = count(&client).await.unwrap_err();
    let text = format!("{error} {error:?} {client:?}");
    assert!(!text.contains("root:Milvus") && !text.contains("cm9vdDpNaWx2dXM") && text.contains("(token)"), "{text}");
}

#[tokio::test]
async fn refused_write_is_denied_without_a_retry() {
    let (server, client) = mock().await;
    server.set_read_only(true);
    let error = client.upsert(NAME, rows(0..1)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Denied(why) if why.contains("disabled")), "{error}");
    let error = client.delete(NAME, &Filter::eq_int("id", 1)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Denied(_)));
    assert_eq!((server.calls("Upsert"), server.calls("Delete")), (2, 1));
    assert_eq!(count(&client).await.unwrap(), 10);
    server.clear_faults();
    server.fail_next("Upsert", 1, &Fault::Grpc(Code::PermissionDenied, "no right".into()));
    assert!(matches!(client.upsert(NAME, rows(0..1)).await.unwrap_err().kind(), ErrorKind::Denied(_)));
    client.upsert(NAME, rows(0..1)).await.unwrap();
}

#[tokio::test]
async fn rate_limit_is_waited_for_within_the_deadline() {
    let (server, client) = mock().await;
    let limited = Fault::Status { code: 8, error_code: 49, reason: "rate limit exceeded".into(), retriable: true };
    server.fail_next("Search", 2, &limited);
    server.fail_next("Search", 1, &Fault::Grpc(Code::ResourceExhausted, "slow down".into()));
    assert_eq!(search(&client).await.unwrap().scores.len(), 3);
    server.set_overloaded(true);
    let quick = Settings { write_timeout: Duration::from_millis(400), ..server.settings() };
    let quick = Client::connect(quick).await.unwrap();
    let start = Instant::now();
    let error = quick.upsert(NAME, rows(0..1)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Overloaded(_)) && error.is_transient(), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2) && server.calls("Upsert") > 2);
    server.clear_faults();
    for (code, reason) in [(3, "memory limit exceeded"), (7, "disk limit exceeded"), (9, "quota exceeded[reason=disk]")]
    {
        server.fail_next("Upsert", 1, &Fault::code(code, reason));
        let before = server.calls("Upsert");
        assert!(matches!(client.upsert(NAME, rows(0..1)).await.unwrap_err().kind(), ErrorKind::Overloaded(_)));
        assert_eq!(server.calls("Upsert"), before + 1, "a full disk does not pass in a second");
    }
}

#[tokio::test]
async fn released_collection_is_loaded_again() {
    let (server, client) = mock().await;
    for _ in 0..2 {
        server.restart();
        assert_eq!(count(&client).await.unwrap(), 10);
        server.restart();
        assert_eq!(search(&client).await.unwrap().scores.len(), 3);
    }
    server.fail_always("Query", Fault::code(101, "collection not loaded"));
    let quick = Settings { read_timeout: Duration::from_millis(400), ..server.settings() };
    let quick = Client::connect(quick).await.unwrap();
    let error = quick.count(NAME, None, Guarantee::Strong).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotLoaded(NAME.into()));
    server.clear_faults();
    client.create_collection(&schema("bare")).await.unwrap();
    let error = client.count("bare", None, Guarantee::Strong).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NotFound("index of `bare`".into()), "a load needs indexes");
}

#[tokio::test]
async fn requests_after_restart_of_lite_wait_until_its_collections_are_open() {
    let server = MockServer::start().await.unwrap();
    server.set_version("milvus_lite-3.2.2");
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let connected = OnConnect::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let client = Client::connect(Settings { connected: Some(connected), ..server.settings() }).await.unwrap();
    create(&client, NAME).await;
    create(&client, "other").await;
    client.drop_collection("other").await.unwrap();
    let (loads, opened) = (server.calls("LoadCollection"), connections.load(Ordering::SeqCst));
    server.fail_next("LoadCollection", 1, &Fault::Delay(Duration::from_millis(500)));
    server.restart();
    let begun = Instant::now();
    let requests = (0..4).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.upsert(NAME, rows(0..3)).await.map(|it| it.rows) })
    });
    let requests: Vec<_> = requests.collect();
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(server.calls("Upsert"), 0, "sent before the collection was open");
    for request in requests {
        assert_eq!(request.await.unwrap().unwrap(), 3);
    }
    assert!(begun.elapsed() >= Duration::from_millis(500));
    assert_eq!(server.calls("LoadCollection"), loads + 1, "the dropped collection is not opened");
    assert_eq!(connections.load(Ordering::SeqCst), opened + 1);
}

#[tokio::test]
async fn missing_collection_is_not_found() {
    let (server, client) = mock().await;
    server.wipe();
    let none = ErrorKind::NotFound(format!("collection `{NAME}`"));
    assert_eq!(*count(&client).await.unwrap_err().kind(), none);
    assert_eq!(*search(&client).await.unwrap_err().kind(), none);
    assert_eq!(*client.upsert(NAME, rows(0..1)).await.unwrap_err().kind(), none);
    assert_eq!(*client.describe_collection(NAME, WAIT).await.unwrap_err().kind(), none);
    assert_eq!(*client.load_collection(NAME, WAIT).await.unwrap_err().kind(), none);
    client.drop_collection(NAME).await.unwrap();
}

#[tokio::test]
async fn method_that_the_server_lacks_is_asked_for_once() {
    let (server, client) = mock().await;
    server.lack(&["Flush", "Connect"]);
    let error = client.flush(NAME).await.unwrap_err();
    assert_eq!((error.kind(), server.calls("Flush")), (&ErrorKind::Unsupported("Flush".into()), 1));
    server.set_version("v2.3.5-lite");
    let old = Client::connect(server.settings()).await.unwrap();
    assert!(!old.version().is_lite() && !old.features().has_sparse);
    server.lack(&["GetVersion"]);
    let error = Client::connect(server.settings()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unsupported("GetVersion".into()));
    server.clear_faults();
    server.lack(&["GetVersion"]);
    assert_eq!(Client::connect(server.settings()).await.unwrap().version().text(), "v2.3.5-lite");
}

#[tokio::test]
async fn malformed_reply_is_an_error() {
    let (server, client) = mock().await;
    let shapes =
        [Malformed::NoStatus, Malformed::NoResults, Malformed::NoField, Malformed::Ragged, Malformed::OtherType];
    for shape in shapes.into_iter().chain([Malformed::NotFinite]) {
        server.fail_next("Search", 1, &Fault::Malformed(shape));
        let error = search(&client).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed(_)), "{shape:?}: {error}");
        server.fail_next("Query", 1, &Fault::Malformed(shape));
        let fields = ["id", "dense"];
        let reply = client.query(NAME, None, &fields, 100, Guarantee::Strong).await;
        if shape == Malformed::NoResults {
            assert!(reply.unwrap().is_empty(), "the protocol leaves the fields out where no row matches");
            continue;
        }
        let error = reply.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed(_)), "{shape:?}: {error}");
    }
    server.fail_next("Query", 1, &Fault::Malformed(Malformed::NoResults));
    assert!(matches!(count(&client).await.unwrap_err().kind(), ErrorKind::Malformed(_)));
    server.fail_next("DescribeCollection", 1, &Fault::Malformed(Malformed::NoResults));
    let error = client.describe_collection(NAME, WAIT).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Malformed(why) if why.contains("schema")), "{error}");
    server.fail_next("Upsert", 1, &Fault::Malformed(Malformed::NoResults));
    assert!(matches!(client.upsert(NAME, rows(0..1)).await.unwrap_err().kind(), ErrorKind::Malformed(_)));
}

#[tokio::test]
async fn unusable_request_is_not_sent() {
    let (server, client) = mock().await;
    let before = (server.calls("Query"), server.calls("Search"), server.calls("Upsert"));
    for limit in [0, MAX_ROWS + 1] {
        let query = client.query(NAME, None, &["id"], limit, Guarantee::Strong).await.unwrap_err();
        let search = client.search(NAME, &Search { limit, ..dense_search() }).await.unwrap_err();
        assert!(matches!((query.kind(), search.kind()), (ErrorKind::Invalid(_), ErrorKind::Invalid(_))));
    }
    for vector in [Vector::Dense(&[f32::NAN; 4]), Vector::Dense(&[]), Vector::Sparse(&[]), Vector::Sparse(&[(1, -1.0)])]
    {
        let error = client.search(NAME, &Search { vector, ..dense_search() }).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid(why) if why.contains("`dense`")), "{error}");
    }
    assert!(matches!(client.upsert(NAME, Vec::new()).await.unwrap_err().kind(), ErrorKind::Invalid(_)));
    let big = vec![Column::new("text", Values::VarChar(vec!["x".repeat(MAX_MESSAGE_BYTES)]))];
    let error = client.upsert(NAME, big).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge(_)), "{error:?}");
    assert_eq!(before, (server.calls("Query"), server.calls("Search"), server.calls("Upsert")));
    for address in ["127.0.0.1:1", "ftp://x", "", "http://", "http://a b"] {
        let error = Client::connect(Settings::new(address)).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid(_)), "{address}: {error:?}");
    }
}

#[tokio::test]
async fn stale_read_shows_after_its_guarantee() {
    let (server, client) = mock().await;
    server.set_stale_reads(Some(2));
    let write = client.delete(NAME, &Filter::eq_int("id", 0)).await.unwrap();
    let read = async |guarantee| client.count(NAME, None, guarantee).await.unwrap();
    assert_eq!(read(Guarantee::Eventually).await, 10);
    assert_eq!(read(write.guarantee()).await, 9);
    assert_eq!(read(Guarantee::Strong).await, 9);
    assert_eq!(read(Guarantee::Bounded).await, 10);
    assert_eq!(read(Guarantee::Bounded).await, 9, "two reads have missed it");
    server.set_version("v2.3.5-lite");
    let write = client.delete(NAME, &Filter::eq_int("id", 1)).await.unwrap();
    assert_eq!((write.timestamp, read(Guarantee::Bounded).await), (0, 9));
    assert_eq!(read(write.guarantee()).await, 8, "the server states no time");
}

#[tokio::test]
async fn odd_rows_are_passed_on_for_the_caller_to_judge() {
    let (server, client) = mock().await;
    client.delete(NAME, &Filter::eq_int("id", 0)).await.unwrap();
    server.set_returns_deleted(true);
    assert_eq!(search(&client).await.unwrap().rows.int64("id").unwrap(), [0, 1, 2]);
    server.clear_faults();
    server.set_duplicates(true);
    assert_eq!(search(&client).await.unwrap().rows.int64("id").unwrap(), [1, 1, 2]);
}

#[tokio::test]
async fn text_of_the_server_is_cut_and_cleaned() {
    let (server, client) = mock().await;
    server.fail_next("Query", 1, &Fault::code(65535, &format!("\u{1b}[31mred\n{}", "x".repeat(9000))));
    let error = count(&client).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Server { code: 65535, message } if message.chars().count() <= 300));
    assert!(!error.to_string().contains(char::is_control), "{error}");
}
