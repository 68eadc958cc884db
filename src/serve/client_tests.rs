//! Tests of the gRPC client against the server, which serves a fake service.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::client::*;
use crate::config::Config;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{FileState, JobState, samples, *};
use crate::proto::wire;
use crate::serve::fake::{FakeService, NO_PAGE};
use crate::serve::{AccessConfig, Listeners, run};

/// A server over a fake service, with a client that is connected to it.
struct Fixture {
    service: Arc<FakeService>,
    client: Client,
    config: Config,
    tcp: std::net::SocketAddr,
    shutdown: CancellationToken,
    server: tokio::task::JoinHandle<Result<()>>,
    _dir: tempfile::TempDir,
}

fn config(dir: &Path) -> Config {
    let dir = dir.as_os_str().to_owned();
    Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| dir.clone())).unwrap()
}

async fn server(
    service: Arc<FakeService>,
    listeners: Listeners,
    config: Config,
    shutdown: CancellationToken,
) -> Result<()> {
    run(service, listeners, AccessConfig::open(&config)?, &config, &NO_PAGE, shutdown).await
}

async fn fixture_with(service: FakeService) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    let unix = UnixListener::bind(config.socket_path()).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let service = Arc::new(service);
    let shutdown = service.shutdown.clone();
    let server = tokio::spawn(server(service.clone(), Listeners { unix, tcp }, config.clone(), shutdown.clone()));
    let client = Client::connect(&config).await.unwrap();
    Fixture { service, client, config, tcp: address, shutdown, server, _dir: dir }
}

async fn fixture() -> Fixture {
    fixture_with(FakeService::new()).await
}

fn question(query: &str) -> AskRequest {
    AskRequest { query: query.into(), limit: Some(5), ..AskRequest::default() }
}

/// Connects a generated gRPC client to the TCP port under this host name.
async fn tcp_stub(fixture: &Fixture, host: &str) -> wire::vic_client::VicClient<Channel> {
    let address = fixture.tcp;
    let connector = tower::service_fn(move |_: Uri| async move { TcpStream::connect(address).await.map(TokioIo::new) });
    let endpoint = Endpoint::from_shared(format!("http://{host}")).unwrap();
    wire::vic_client::VicClient::new(endpoint.connect_with_connector(connector).await.unwrap())
}

/// Adds the key of the fixture's daemon to a request.
fn with_key<T>(fixture: &Fixture, message: T) -> tonic::Request<T> {
    let key = std::fs::read_to_string(fixture.config.key_path()).unwrap();
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {}", key.trim()).parse().unwrap());
    request
}

#[tokio::test]
async fn ask_returns_service_answer() {
    let it = fixture().await;
    assert_eq!(it.client.ask(question("who signed?")).await.unwrap(), samples::answer("who signed?"));
    assert_eq!(it.service.last_question.lock().unwrap().take(), Some(question("who signed?")));
}

#[tokio::test]
async fn search_returns_answer_without_summary() {
    let it = fixture().await;
    let expected = AskResponse { answer_summary: None, answer: None, ..samples::answer("x") };
    assert_eq!(it.client.search(question("x")).await.unwrap(), expected);
}

#[tokio::test]
async fn other_calls_return_service_values() {
    let it = fixture().await;
    assert_eq!(it.client.status().await.unwrap(), samples::status());
    assert_eq!(it.client.read("/w/plan.md", &Place::default()).await.unwrap(), samples::document());
    let report = it.client.sync(SyncRequest { path: None, timeout_seconds: Some(9) }).await.unwrap();
    assert_eq!(report, SyncReport { files: 3, waited_ms: 9, unread_pictures: 2, roots_away: 1 });
    let slow = SyncRequest { path: Some("/slow".into()), timeout_seconds: None };
    assert_eq!(it.client.sync(slow).await.unwrap_err().code, ErrorCode::DeadlineExceeded);
    let paused = it.client.pause(PauseRequest { seconds: Some(2) }).await.unwrap().paused.unwrap();
    assert_eq!((paused.reason.name(), paused.until_ms), ("asked", Some(2_000)));
    assert_eq!(it.client.pause(PauseRequest { seconds: Some(0) }).await.unwrap_err().code, ErrorCode::InvalidArgument);
    assert_eq!(it.client.resume().await.unwrap().paused.unwrap().reason.name(), "battery");
    assert_eq!(it.client.roots().await.unwrap(), samples::status().roots);
    assert_eq!(it.client.add_root("/v").await.unwrap().path, Path::new("/v"));
    it.client.remove_root("/w").await.unwrap();
    assert_eq!(it.client.jobs(0).await.unwrap().len(), 2);
    assert_eq!(it.client.job("job-0").await.unwrap().state, JobState::Failed);
    let filter = FileFilter { state: Some(FileState::Failed), ..FileFilter::default() };
    let list = FileList { files: vec![samples::file()], total: 1, warnings: Vec::new() };
    assert_eq!(it.client.files(filter.clone(), 0, 0).await.unwrap(), list);
    assert_eq!(it.service.last_file_list.lock().unwrap().take(), Some((filter, 100, 0)));
    let mistyped = FileFilter { name_words: vec!["mistyped".into()], ..FileFilter::default() };
    assert_eq!(it.client.files(mistyped, 0, 0).await.unwrap().warnings, ["searched for `plan`"]);
    let embedded = it.client.embed(vec!["abc".into()], true).await.unwrap();
    let expected = Embeddings { vectors: vec![vec![3.0, 1.0]], model: samples::status().embed_model, dimension: 2 };
    assert_eq!(embedded, expected);
}

#[tokio::test]
async fn error_keeps_code_message_hint() {
    let it = fixture().await;
    let expected = Error::new(ErrorCode::Locked, "`/dätä` is in use").hint("stop the other `vicd`");
    assert_eq!(it.client.ask(question("locked")).await.unwrap_err(), expected);
    assert_eq!(it.client.job("job-9").await.unwrap_err(), Error::not_found("no job `job-9`"));
}

#[tokio::test]
async fn watch_job_streams_until_final_state() {
    let it = fixture().await;
    let mut stream = std::pin::pin!(it.client.index(IndexRequest::default()).await.unwrap());
    assert_eq!(stream.next().await.unwrap().unwrap().state, JobState::Queued);
    it.service.job.send_replace(samples::job(JobState::Running, 4));
    assert_eq!(stream.next().await.unwrap().unwrap().files_done, 4);
    it.service.job.send_replace(samples::job(JobState::Completed, 10));
    assert_eq!(stream.next().await.unwrap().unwrap(), samples::job(JobState::Completed, 10));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn watch_job_coalesces_changes_and_keeps_last() {
    let it = fixture().await;
    let mut stream = std::pin::pin!(it.client.watch_job("job-1").await.unwrap());
    stream.next().await.unwrap().unwrap();
    for done in 0..1_000 {
        it.service.job.send_replace(samples::job(JobState::Running, done));
        tokio::task::yield_now().await;
    }
    it.service.job.send_replace(samples::job(JobState::Completed, 1_000));
    let rest: Vec<JobSnapshot> = stream.map(|item| item.unwrap()).collect().await;
    assert!(rest.len() < 100, "{} messages", rest.len());
    assert_eq!(rest.last().unwrap(), &samples::job(JobState::Completed, 1_000));
}

#[tokio::test]
async fn watch_job_finished_returns_last_snapshot() {
    let it = fixture().await;
    let stream = it.client.watch_job("job-0").await.unwrap();
    let all: Vec<_> = stream.collect().await;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].as_ref().unwrap().state, JobState::Failed);
    assert_eq!(it.client.watch_job("job-9").await.err().unwrap().code, ErrorCode::NotFound);
}

// Case D10
#[tokio::test]
async fn oversized_requests_are_refused() {
    let it = fixture().await;
    let long = "x".repeat(crate::proto::MAX_REQUEST + 1);
    for error in [
        it.client.ask(question(&long[..(32 << 10) + 1])).await.unwrap_err(),
        it.client.ask(question(&long)).await.unwrap_err(),
        it.client.ask(AskRequest { limit: Some(1_001), ..question("x") }).await.unwrap_err(),
        it.client.ask(AskRequest { limit: Some(0), ..question("x") }).await.unwrap_err(),
        it.client.embed(vec![String::new(); 2_049], false).await.unwrap_err(),
        it.client.files(FileFilter::default(), 10_001, 0).await.unwrap_err(),
        it.client.jobs(1_001).await.unwrap_err(),
    ] {
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error}");
    }
    assert!(it.client.ask(question(&long[..32 << 10])).await.is_ok());
}

// Case D1
#[tokio::test]
async fn foreign_origin_or_host_is_refused_on_tcp() {
    let it = fixture().await;
    for (host, origin, ok) in [
        ("localhost", None, true),
        ("127.0.0.1", None, true),
        ("127.0.0.1:1", None, false),
        ("evil.example", None, false),
        ("localhost", Some("http://localhost"), false),
    ] {
        let mut stub = tcp_stub(&it, host).await;
        let mut request = with_key(&it, wire::GetStatusRequest {});
        if let Some(origin) = origin {
            request.metadata_mut().insert("origin", origin.parse().unwrap());
        }
        let result = stub.get_status(request).await;
        assert_eq!(result.is_ok(), ok, "{host} {origin:?}");
        if let Err(status) = result {
            assert_eq!(status.code(), tonic::Code::PermissionDenied);
        }
    }
}

#[tokio::test]
async fn health_and_reflection_services_respond() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::health_client::HealthClient;
    let it = fixture().await;
    let channel = Endpoint::from_shared(format!("http://{}", it.tcp)).unwrap().connect().await.unwrap();
    for service in ["", "vic.v1.Vic"] {
        let request = HealthCheckRequest { service: service.into() };
        let reply = HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner();
        assert_eq!(reply.status(), ServingStatus::Serving, "{service}");
    }
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(channel);
    let refused = client.server_reflection_info(tokio_stream::once(request.clone())).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    let request = with_key(&it, tokio_stream::once(request));
    let mut replies = client.server_reflection_info(request).await.unwrap().into_inner();
    let reply = replies.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = reply else { panic!("{reply:?}") };
    assert!(list.service.iter().any(|it| it.name == "vic.v1.Vic"), "{list:?}");
}

#[tokio::test]
async fn shutdown_finishes_requests_and_ends_streams() {
    let it = fixture_with(FakeService { latency: Duration::from_millis(300), ..FakeService::new() }).await;
    let mut stream = std::pin::pin!(it.client.watch_job("job-1").await.unwrap());
    stream.next().await.unwrap().unwrap();
    let client = it.client.clone();
    let asked = tokio::spawn(async move { client.ask(question("slow")).await });
    // Waits until the request is in flight but not answered: the answer takes 300 ms.
    tokio::time::sleep(Duration::from_millis(100)).await;
    it.client.shutdown().await.unwrap();
    assert!(it.shutdown.is_cancelled());
    assert_eq!(stream.next().await.unwrap().unwrap_err().code, ErrorCode::Unavailable);
    assert_eq!(asked.await.unwrap().unwrap(), samples::answer("slow"));
    tokio::time::timeout(Duration::from_secs(5), it.server).await.expect("drains").unwrap().unwrap();
    assert_eq!(it.client.status().await.unwrap_err().code, ErrorCode::Unavailable);
    let error = Client::connect(&it.config).await.unwrap_err();
    assert_eq!((error.code, error.hint.as_deref()), (ErrorCode::Unavailable, Some("run `vic daemon start`")));
}

#[tokio::test]
async fn connect_without_daemon_names_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let error = Client::connect(&config(dir.path())).await.unwrap_err();
    assert_eq!(error.message, format!("no vicd is running for `{}`", dir.path().display()));
}

#[test]
fn version_mismatch_is_reported() {
    assert_eq!(version_warning(&samples::status()), None);
    let old = Status { version: "0.0.1".into(), ..samples::status() };
    assert!(version_warning(&old).unwrap().contains("0.0.1"));
}
