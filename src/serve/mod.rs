//! gRPC, HTTP and MCP servers.
//!
//! [`Service`] is the whole API of the daemon in plain Rust. [`run`] serves it on a Unix socket (gRPC, for the command
//! line) and on one TCP port (gRPC, HTTP and MCP, for apps). The adapters only check sizes; the service does the rest.
//! Wire types are private to this module and to [`crate::client`].
//!
//! Only the user of the daemon may use the Unix socket. On TCP, requests need a key, and requests of web pages are
//! rejected. Order of processing: `listener` accepts the connection, `connection` serves it, `http::pause` checks host,
//! origin and key and creates the `authorized_service`. The caller's services are restricted to its scope and pass the admission
//! control of `desk`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Extension, Router};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::agent::Assistant;
use crate::config::Config;
use crate::data_dir::keys::Grant;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{
    AskEvent, AskRequest, AskResponse, AuditRecord, CorpusReply, CorpusRequest, Document, FileFilter, FileRecord,
    GraphRequest, GrepRequest, GrepResponse, IndexRequest, JobSnapshot, PauseRequest, PauseState, Place, Principal,
    Root, Scope, SimilarRequest, Status, SyncReport, SyncRequest, TableRequest, TableResponse,
};
use crate::proto::convert::graph::MAX_GRAPH;
use crate::proto::{MAX_LLM_REQUEST, MAX_REQUEST, MAX_RESPONSE};
use crate::serve::admission::Admission;
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::http::error_response::ErrorResponse;
use crate::serve::transport::connection::Port;
use crate::serve::transport::listener::Listener;

mod auth;
pub(crate) mod grpc;
mod transport;
mod validate;
mod admission;
mod streams;
mod http;
pub(crate) mod mcp;
mod metrics;
pub mod schema;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod client_tests;

pub use crate::serve::auth::config::AccessConfig;

/// Maximum size of a health or reflection request, in bytes. It holds a service name.
const MAX_SERVICE_NAME_REQUEST: usize = 1 << 10;

/// Time that running requests have to finish after a shutdown request.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(7);

/// Minimum number of concurrent questions, even on one core: a question sometimes waits for the disk.
const MIN_CONCURRENT_QUESTIONS: usize = 2;

/// The API of the daemon.
///
/// Every method fails with a matching [`crate::error::ErrorCode`]; only special cases are documented below.
#[async_trait::async_trait]
pub trait Service: Send + Sync + 'static {
    /// Returns the same services restricted to a scope: files, roots, jobs and counts outside of it do not exist for the
    /// caller. `holder` identifies the key for fair sharing of resources.
    fn scoped(&self, scope: Scope, holder: Principal) -> Arc<dyn Service>;

    /// Answers a question.
    async fn ask(&self, request: AskRequest) -> Result<AskResponse>;

    /// Answers a question without a summary.
    async fn search(&self, request: AskRequest) -> Result<AskResponse>;

    /// Answers a question as a stream of events. The channel closes after [`AskEvent::Done`] or the first error. Dropping
    /// the receiver cancels the work.
    async fn ask_stream(&self, request: AskRequest) -> Result<mpsc::Receiver<Result<AskEvent>>>;

    /// Finds files similar to a file.
    async fn similar(&self, request: SimilarRequest) -> Result<AskResponse>;

    /// Finds matching lines of the indexed text.
    async fn grep(&self, request: GrepRequest) -> Result<GrepResponse>;

    /// Queries a table of a file below a root.
    async fn table(&self, request: TableRequest) -> Result<TableResponse>;

    /// Runs a verb of the corpus API. A refusal is a reply too; its envelope has the reason.
    async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply>;

    /// Returns at most `limit` outbound requests, newest first.
    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>>;

    /// Starts an index job and returns its first snapshot.
    async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot>;

    /// Subscribes to a job. The sender is dropped only after the final snapshot is sent.
    ///
    /// # Errors
    /// `NotFound`, also for a job that ended so long ago that only [`Service::job`] knows it.
    fn watch_job(&self, job_id: &str) -> Result<tokio::sync::watch::Receiver<JobSnapshot>>;

    /// Returns the current or last snapshot of a job.
    async fn job(&self, job_id: &str) -> Result<JobSnapshot>;

    /// Returns at most `limit` jobs, newest first.
    async fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>>;

    /// Requests cancellation of a job. A job that has ended is returned unchanged.
    async fn cancel_job(&self, job_id: &str) -> Result<JobSnapshot>;

    /// Returns the ids of the caller's index jobs that have not ended, including those of corpus verbs.
    fn own_jobs(&self) -> Result<Vec<String>>;

    /// Waits until every earlier change on disk is searchable.
    async fn sync(&self, request: SyncRequest) -> Result<SyncReport>;

    /// Pauses reading files; returns the pause.
    async fn pause(&self, request: PauseRequest) -> Result<PauseState>;

    /// Ends a pause that a user asked for; returns the pause that remains in effect, if any.
    async fn resume(&self) -> Result<PauseState>;

    /// Returns the state of the daemon and the index.
    async fn status(&self) -> Result<Status>;

    /// Returns the number of tokens embedded for the index since the start.
    fn tokens_embedded(&self) -> u64;

    /// Returns at most `limit` matching files from `offset` on, and the total number of matches.
    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<(Vec<FileRecord>, u64)>;

    /// Returns the extracted text of a file below a root, or of a place in it. The path is absolute or relative to a root,
    /// as hits print it, also `archive.zip!/member`. A place may follow it: `lease.pdf, page 3`.
    async fn read(&self, path: &str, place: &Place) -> Result<Document>;

    /// Returns every root.
    async fn roots(&self) -> Result<Vec<Root>>;

    /// Adds a folder by its absolute path.
    async fn add_root(&self, path: &str) -> Result<Root>;

    /// Removes a root folder and its index entries.
    async fn remove_root(&self, path: &str) -> Result<()>;

    /// Embeds texts as questions or as passages; returns one vector of norm 1 for each.
    async fn embed(&self, texts: Vec<String>, query: bool) -> Result<Vec<Vec<f32>>>;

    /// Answers a request about the graph, in JSON.
    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value>;
    /// Returns the language model assistant, with tools restricted to the caller's scope.
    fn assistant(&self) -> Result<Assistant>;

    /// Starts the shutdown of the daemon and returns at once.
    async fn shutdown(&self) -> Result<()>;
}

/// The listening sockets. The caller binds them, so that an address in use is reported before anything is loaded.
#[derive(Debug)]
pub struct Listeners {
    /// For programs of the same user.
    pub unix: UnixListener,
    /// For apps.
    pub tcp: TcpListener,
}

/// Serves until `shutdown` is cancelled, then gives running requests at most 7 seconds to finish.
///
/// # Errors
/// `Internal` when the server cannot be set up. A failing request or connection never ends it.
pub async fn run(
    service: Arc<dyn Service>,
    listeners: Listeners,
    access: AccessConfig,
    config: &Config,
    shutdown: CancellationToken,
) -> Result<()> {
    let places = std::thread::available_parallelism()
        .map_or(MIN_CONCURRENT_QUESTIONS, |it| it.get().max(MIN_CONCURRENT_QUESTIONS));
    let desk = Arc::new(Admission { keys: access.keys, certificate: access.certificate, ..Admission::new(places) });
    let session = desk.session.clone();
    tokio::spawn(async move { session.run().await });
    let routes = grpc_routes(shutdown.clone()).await?;
    let owner = AuthorizedService::new(&service, &desk, Grant::local());
    let unix = Port { router: local_router(routes.clone(), owner), tls: None, shutdown: shutdown.clone() };
    let number = listeners.tcp.local_addr().map_err(Error::internal)?.port();
    let bridge = http::HttpState::new(service, desk, number, config, shutdown.clone());
    let router = http::router(Arc::new(bridge), routes);
    let tcp = Port { router, tls: access.tls, shutdown: shutdown.clone() };
    let remote = !auth::config::is_local(config.listen);
    let both = async {
        tokio::join!(
            transport::connection::serve(Listener::Unix(listeners.unix), unix),
            transport::connection::serve(Listener::Tcp { listener: listeners.tcp, remote }, tcp),
        )
    };
    let drained = async {
        shutdown.cancelled().await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    tokio::select! {
        _ = both => (),
        () = drained => tracing::warn!("some requests were still running {} seconds after the shutdown", SHUTDOWN_GRACE.as_secs()),
    }
    Ok(())
}

/// Returns the router of the Unix socket: gRPC with the owner's rights.
fn local_router(routes: Routes, owner: AuthorizedService) -> Router {
    routes.prepare().into_axum_router().layer(Extension(owner)).layer(from_fn(reject_web_pages))
}

/// Rejects web pages on the Unix socket. Browsers cannot reach it directly, but can if it is forwarded to a port
/// (`ssh -L`, `socat`). The host is not checked, because clients of the socket may use any name.
async fn reject_web_pages(request: Request, next: Next) -> Response {
    match auth::origin_guard::is_from_web_page(request.headers()) {
        true => ErrorResponse::from(Error::new(ErrorCode::PermissionDenied, auth::origin_guard::WEB_PAGE_REJECTED))
            .into_grpc(),
        false => next.run(request).await,
    }
}

async fn grpc_routes(shutdown: CancellationToken) -> Result<Routes> {
    let llm = crate::proto::wire::llm_server::LlmServer::new(grpc::llm::Adapter::new(shutdown.clone()))
        .max_decoding_message_size(MAX_LLM_REQUEST)
        .max_encoding_message_size(MAX_RESPONSE);
    let vic = crate::proto::wire::vic_server::VicServer::new(grpc::vic::Adapter::new(shutdown))
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(MAX_RESPONSE);
    let graph = crate::proto::wire::graph_server::GraphServer::new(grpc::graph::GraphAdapter)
        .max_decoding_message_size(MAX_GRAPH)
        .max_encoding_message_size(MAX_RESPONSE);
    let (reporter, health) = tonic_health::server::health_reporter();
    // These services take a service name only, and health needs no key.
    let health = health.max_decoding_message_size(MAX_SERVICE_NAME_REQUEST);
    reporter.set_serving::<crate::proto::wire::vic_server::VicServer<grpc::vic::Adapter>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(crate::proto::wire::DESCRIPTORS)
        .build_v1()
        .map_err(Error::internal)?
        .max_decoding_message_size(MAX_SERVICE_NAME_REQUEST);
    let routes = Routes::new(vic).add_service(graph).add_service(llm).add_service(health).add_service(reflection);
    let answered =
        axum::middleware::map_response(|it: Response| std::future::ready(crate::proto::grpc_status::whose(it)));
    Ok(Routes::from(routes.into_axum_router().layer(answered)))
}
