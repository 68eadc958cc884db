//! gRPC, HTTP and MCP over the services.
//!
//! [`Service`] is everything a client can ask for, in plain Rust; [`run`] puts it on a Unix socket (gRPC, for the command
//! line) and on TCP (gRPC, HTTP and MCP on one port, for apps). The adapters are thin on purpose: sizes are checked here,
//! everything else by the service. No type of the wire leaves this room, but for [`crate::client`], which speaks the same
//! language.
//!
//! Only this user may use the Unix socket. On TCP whoever shows a key passes, web pages never do. A request is served in
//! this order: `incoming` takes the connection, `connection` speaks with it, `http::gate` looks at host, origin and key and
//! makes the `caller`, whose services are those of its scope and find a place at the `desk`.

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
    AskEvent, AskRequest, AskResponse, AuditRecord, CorpusCall, CorpusReply, Document, FileFilter, FileRecord,
    GraphRequest, GrepRequest, GrepResponse, Holder, IndexRequest, JobSnapshot, PauseRequest, PauseState, Place, Root,
    Scope, SimilarRequest, Status, SyncReport, SyncRequest, TableRequest, TableResponse,
};
use crate::serve::caller::Caller;
use crate::serve::connection::Port;
use crate::serve::desk::Desk;
use crate::serve::http::refusal::Refusal;
use crate::serve::incoming::Listener;

mod access;
mod begun;
mod caller;
mod certificate;
mod check;
mod connection;
mod desk;
mod follow;
pub(crate) mod graph;
mod grpc;
mod guard;
mod http;
mod incoming;
mod llm;
pub(crate) mod mcp;
mod metrics;
mod ring;
mod sending;
pub mod schema;
mod validity;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod client_tests;

pub use access::Access;

/// Largest request about a service by its name, in bytes.
const MAX_NAME: usize = 1 << 10;

/// How long requests at work may take to end after a shutdown was asked for.
const DRAIN: Duration = Duration::from_secs(7);

/// Places at the desk at least, also on a single core: a question waits for the disk now and then.
const MIN_PLACES: usize = 2;

/// Everything a client can ask the daemon for.
///
/// Every method fails with the code that fits (see [`crate::error::ErrorCode`]); only what is special is said below.
#[async_trait::async_trait]
pub trait Service: Send + Sync + 'static {
    /// The same services for a caller for whom nothing exists outside a scope: no file, no root, no job, no count. Of what
    /// all callers share the holder of the key has a share.
    fn within(&self, scope: Scope, holder: Holder) -> Arc<dyn Service>;

    /// Answers a question.
    async fn ask(&self, request: AskRequest) -> Result<AskResponse>;

    /// Answers a question without a summary.
    async fn search(&self, request: AskRequest) -> Result<AskResponse>;

    /// Answers a question step by step. The channel closes after [`AskEvent::Done`] or the first error; dropping the
    /// receiver ends the work.
    async fn ask_stream(&self, request: AskRequest) -> Result<mpsc::Receiver<Result<AskEvent>>>;

    /// Finds files like a file.
    async fn similar(&self, request: SimilarRequest) -> Result<AskResponse>;

    /// Finds lines of the indexed text.
    async fn grep(&self, request: GrepRequest) -> Result<GrepResponse>;

    /// Answers about a table of a file below a root.
    async fn table(&self, request: TableRequest) -> Result<TableResponse>;

    /// Carries out a verb of the contract. What is refused is a reply too, with the reason in its envelope.
    async fn corpus(&self, call: CorpusCall) -> Result<CorpusReply>;

    /// Returns at most `limit` outbound requests, newest first.
    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>>;

    /// Starts an index job and returns its first snapshot.
    async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot>;

    /// Follows a job. The sender is dropped only after the final snapshot was sent.
    ///
    /// # Errors
    /// `NotFound` also for a job that ended so long ago that only [`Service::job`] knows it.
    fn watch_job(&self, job_id: &str) -> Result<tokio::sync::watch::Receiver<JobSnapshot>>;

    /// Returns a job's present or last snapshot.
    async fn job(&self, job_id: &str) -> Result<JobSnapshot>;

    /// Returns at most `limit` jobs, newest first.
    async fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>>;

    /// Asks a job to stop. A job that has ended is returned as it is.
    async fn cancel_job(&self, job_id: &str) -> Result<JobSnapshot>;

    /// Returns the ids of the index jobs that have not ended and that whoever asks began, the verbs' too.
    fn own_jobs(&self) -> Result<Vec<String>>;

    /// Waits until everything that changed before is searchable.
    async fn sync(&self, request: SyncRequest) -> Result<SyncReport>;

    /// Stops reading files for a while; returns the pause.
    async fn pause(&self, request: PauseRequest) -> Result<PauseState>;

    /// Ends a pause that was asked for; returns the one that holds nevertheless.
    async fn resume(&self) -> Result<PauseState>;

    /// Returns the state of daemon and index.
    async fn status(&self) -> Result<Status>;

    /// Returns how many tokens were embedded for the index since the start.
    fn tokens_embedded(&self) -> u64;

    /// Returns at most `limit` files that match, after the first `offset` of them, and how many match in all.
    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<(Vec<FileRecord>, u64)>;

    /// Returns the extracted text of a file below a root, or of a place in it. The path is absolute or below a root, as hits
    /// print it, `archive.zip!/member` too; it may have its place behind it, `lease.pdf, page 3`.
    async fn read(&self, path: &str, place: &Place) -> Result<Document>;

    /// Returns every root.
    async fn roots(&self) -> Result<Vec<Root>>;

    /// Adds a folder by its absolute path.
    async fn add_root(&self, path: &str) -> Result<Root>;

    /// Forgets a folder and what the index knows of it.
    async fn remove_root(&self, path: &str) -> Result<()>;

    /// Embeds texts, as questions or as passages; one vector of norm 1 for each.
    async fn embed(&self, texts: Vec<String>, query: bool) -> Result<Vec<Vec<f32>>>;

    /// Answers a request about the graph, in JSON.
    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value>;
    /// Language models, with tools over what the caller may know of.
    fn assistant(&self) -> Result<Assistant>;

    /// Begins the end of the daemon and returns before it.
    async fn shutdown(&self) -> Result<()>;
}

/// Where requests come from. Both are bound by the caller, so that a taken address is known before anything is loaded.
#[derive(Debug)]
pub struct Listeners {
    /// For programs of this user.
    pub unix: UnixListener,
    /// For apps on this machine.
    pub tcp: TcpListener,
}

/// Serves until `shutdown` is cancelled, then lets requests at work end for at most 7 seconds.
///
/// # Errors
/// `Internal` when the server itself cannot be made; a failing request or connection never ends it.
pub async fn run(
    service: Arc<dyn Service>,
    listeners: Listeners,
    access: Access,
    config: &Config,
    shutdown: CancellationToken,
) -> Result<()> {
    let places = std::thread::available_parallelism().map_or(MIN_PLACES, |it| it.get().max(MIN_PLACES));
    let desk = Arc::new(Desk { keys: access.keys, certificate: access.certificate, ..Desk::new(places) });
    let session = desk.session.clone();
    tokio::spawn(async move { session.keep().await });
    let routes = routes(shutdown.clone()).await?;
    let owner = Caller::new(&service, &desk, Grant::local());
    let unix = Port { router: local_router(routes.clone(), owner), tls: None, shutdown: shutdown.clone() };
    let number = listeners.tcp.local_addr().map_err(Error::internal)?.port();
    let bridge = http::Bridge::new(service, desk, number, config, shutdown.clone());
    let router = http::router(Arc::new(bridge), routes);
    let tcp = Port { router, tls: access.tls, shutdown: shutdown.clone() };
    let remote = !access::is_local(config.listen);
    let both = async {
        tokio::join!(
            connection::serve(Listener::Unix(listeners.unix), unix),
            connection::serve(Listener::Tcp { listener: listeners.tcp, remote }, tcp),
        )
    };
    let drained = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        _ = both => (),
        () = drained => tracing::warn!("some requests had not ended {} seconds after the shutdown", DRAIN.as_secs()),
    }
    Ok(())
}

/// What the Unix socket serves: gRPC, to the owner.
fn local_router(routes: Routes, owner: Caller) -> Router {
    routes.prepare().into_axum_router().layer(Extension(owner)).layer(from_fn(keep_pages_out))
}

/// No page reaches a socket; but whoever forwards it to a port (`ssh -L`, `socat`) lets pages reach that. Its clients call
/// the server by any name, so that names are not looked at.
async fn keep_pages_out(request: Request, next: Next) -> Response {
    match guard::is_of_page(request.headers()) {
        true => Refusal::from(Error::new(ErrorCode::PermissionDenied, guard::OF_PAGE)).into_grpc(),
        false => next.run(request).await,
    }
}

async fn routes(shutdown: CancellationToken) -> Result<Routes> {
    let llm = crate::proto::wire::llm_server::LlmServer::new(llm::Adapter::new(shutdown.clone()))
        .max_decoding_message_size(MAX_LLM_REQUEST)
        .max_encoding_message_size(MAX_RESPONSE);
    let vic = crate::proto::wire::vic_server::VicServer::new(grpc::Adapter::new(shutdown))
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(MAX_RESPONSE);
    let graph = crate::proto::wire::graph_server::GraphServer::new(graph::GraphAdapter)
        .max_decoding_message_size(graph::MAX_GRAPH)
        .max_encoding_message_size(MAX_RESPONSE);
    let (reporter, health) = tonic_health::server::health_reporter();
    // A name of a service; it is heard without a key.
    let health = health.max_decoding_message_size(MAX_NAME);
    reporter.set_serving::<crate::proto::wire::vic_server::VicServer<grpc::Adapter>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(crate::proto::wire::DESCRIPTORS)
        .build_v1()
        .map_err(Error::internal)?
        .max_decoding_message_size(MAX_NAME);
    let routes = Routes::new(vic).add_service(graph).add_service(llm).add_service(health).add_service(reflection);
    let answered =
        axum::middleware::map_response(|it: Response| std::future::ready(crate::proto::grpc_status::whose(it)));
    Ok(Routes::from(routes.into_axum_router().layer(answered)))
}
