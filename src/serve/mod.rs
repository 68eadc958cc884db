//! gRPC, HTTP and MCP over the services.
//!
//! [`Service`] is everything a client can ask for, in plain Rust; [`run`] puts it on a Unix socket (gRPC, for the command
//! line) and on TCP (gRPC, HTTP and MCP on one port, for apps). The adapters are thin on purpose: sizes are checked here,
//! everything else by the service. No type of the wire leaves this room, but for [`crate::client`], which speaks the same
//! language.
//!
//! Only this user may use the Unix socket. On TCP only this machine passes, or whoever shows the key when there is one; web
//! pages never do.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::{
    AskEvent, AskRequest, AskResponse, AuditRecord, Document, FileFilter, FileRecord, GrepRequest, GrepResponse,
    IndexRequest, JobSnapshot, PauseRequest, PauseState, Root, SimilarRequest, Status, SyncReport, SyncRequest,
};

mod check;
mod convert;
mod follow;
mod grpc;
mod guard;
mod http;
mod incoming;
pub(crate) mod mcp;
mod parse;
pub mod schema;
pub(crate) mod status;
pub(crate) mod wire;
#[cfg(test)]
pub(crate) mod fake;

pub(crate) use convert::{into_all, try_into_all};

/// Largest request, in bytes: 2048 texts of 2 KiB. tonic's own default, written down because it is a promise.
pub(crate) const MAX_REQUEST: usize = 4 << 20;

/// Largest response, in bytes: the text of a file at its limit of 10 MiB, with anchors for every line.
pub(crate) const MAX_RESPONSE: usize = 64 << 20;

/// Requests of one connection at work at the same time; more wait. A bound against one client that takes everything.
const MAX_CONCURRENT: usize = 64;

/// Requests of one connection, at work or waiting.
const MAX_STREAMS: u32 = 256;

/// Largest headers of one request, in bytes. Ours have a few hundred.
const MAX_HEADERS: u32 = 16 << 10;

/// How often an idle connection is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long it may take to say so.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long requests at work may take to end after a shutdown was asked for.
const DRAIN: Duration = Duration::from_secs(10);

/// Everything a client can ask the daemon for.
///
/// Every method fails with the code that fits (see [`crate::error::ErrorCode`]); only what is special is said below.
#[async_trait::async_trait]
pub trait Service: Send + Sync + 'static {
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

    /// Waits until everything that changed before is searchable.
    async fn sync(&self, request: SyncRequest) -> Result<SyncReport>;

    /// Stops reading files for a while; returns the pause.
    async fn pause(&self, request: PauseRequest) -> Result<PauseState>;

    /// Ends a pause that was asked for; returns the one that holds nevertheless.
    async fn resume(&self) -> Result<PauseState>;

    /// Returns the state of daemon and index.
    async fn status(&self) -> Result<Status>;

    /// Returns at most `limit` files that match, after the first `offset` of them, and how many match in all.
    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<(Vec<FileRecord>, u64)>;

    /// Returns the extracted text of a file below a root: an absolute path, or `archive.zip!/member`.
    async fn read(&self, path: &str) -> Result<Document>;

    /// Returns every root.
    async fn roots(&self) -> Result<Vec<Root>>;

    /// Adds a folder by its absolute path.
    async fn add_root(&self, path: &str) -> Result<Root>;

    /// Forgets a folder and what the index knows of it.
    async fn remove_root(&self, path: &str) -> Result<()>;

    /// Embeds texts, as questions or as passages; one vector of norm 1 for each.
    async fn embed(&self, texts: Vec<String>, query: bool) -> Result<Vec<Vec<f32>>>;

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

/// Serves until `shutdown` is cancelled, then lets requests at work end for at most 10 seconds.
///
/// # Errors
/// `Internal` when the server itself breaks; a failing request or connection never ends it.
pub async fn run(
    service: Arc<dyn Service>,
    listeners: Listeners,
    config: &Config,
    shutdown: CancellationToken,
) -> Result<()> {
    let routes = routes(service.clone(), shutdown.clone()).await?;
    let bridge = Arc::new(http::Bridge::new(service, config, shutdown.clone()));
    let tcp = http::serve(listeners.tcp, http::router(bridge.clone(), routes.clone()), bridge);
    let unix =
        server().add_routes(routes).serve_with_incoming_shutdown(incoming::unix(listeners.unix), shutdown.cancelled());
    let both = async { tokio::join!(unix, tcp).0 };
    let drained = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = both => served.map_err(Error::internal),
        () = drained => {
            tracing::warn!("some requests had not ended {} seconds after the shutdown", DRAIN.as_secs());
            Ok(())
        }
    }
}

async fn routes(service: Arc<dyn Service>, shutdown: CancellationToken) -> Result<Routes> {
    let vic = wire::vic_server::VicServer::new(grpc::Adapter::new(service, shutdown))
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(MAX_RESPONSE);
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<wire::vic_server::VicServer<grpc::Adapter>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(wire::DESCRIPTORS)
        .build_v1()
        .map_err(Error::internal)?;
    Ok(Routes::new(vic).add_service(health).add_service(reflection))
}

fn server() -> Server {
    Server::builder()
        .concurrency_limit_per_connection(MAX_CONCURRENT)
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}
