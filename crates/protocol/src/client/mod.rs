//! Typed gRPC client for `vicd`, over its Unix socket.
//!
//! The API uses model types only; wire types stay internal. Every failure is an [`Error`] with the daemon's code and hint,
//! or [`ErrorCode::Unavailable`] if no daemon can be reached. [`Client::connect_or_start`] starts a daemon if none runs.
//! The client itself opens neither the store nor a model.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use futures::stream::{Stream, StreamExt};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::config::Config;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{
    AskEvent, AskRequest, AskResponse, AuditRecord, CorpusReply, CorpusRequest, Document, FileFilter, FileList,
    GrepRequest, GrepResponse, IndexRequest, JobSnapshot, PauseRequest, PauseState, Place, Root, SimilarRequest,
    Status, SyncReport, SyncRequest, TableRequest, TableResponse,
};
use crate::proto::convert::{into_all, try_into_all};
use crate::proto::{MAX_RESPONSE, grpc_status, wire};

mod graph;
mod llm;
mod start;

pub use llm::AssistWork;
pub use start::{last_error, no_vicd, on_long_wait, vicd, vicd_command};

/// The version of this client, to compare with that of the daemon.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Time limit for connecting to the local socket. A daemon that is not hung accepts a connection much sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of keep-alive pings, which detect a hung daemon: an answer may take hours, and the kernel accepts connections
/// even for a hung process.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Time after which an unanswered ping counts as a lost connection; far more than a daemon on a busy machine needs.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of [`Client::embed`].
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// One vector for each text, in order: `dimension` long, L2 norm 1.
    pub vectors: Vec<Vec<f32>>,
    /// Name of the embedding model. Vectors of different models must not be compared.
    pub model: String,
    /// Length of each vector; 0 if there were no texts.
    pub dimension: u32,
}

/// A connection to a running daemon. Cheap to clone; reconnects automatically.
#[derive(Clone, Debug)]
pub struct Client {
    stub: wire::vic_client::VicClient<Channel>,
    graph: wire::graph_client::GraphClient<Channel>,
    llm: wire::llm_client::LlmClient<Channel>,
}

impl Client {
    /// Connects to the daemon of the configured data directory.
    ///
    /// # Errors
    /// `Unavailable` if no daemon runs, `PermissionDenied` if the socket belongs to another user.
    pub async fn connect(config: &Config) -> Result<Client> {
        let socket = config.socket_path();
        let path = socket.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        // The URI is never resolved: the connector opens the Unix socket. The daemon only requires a local host name.
        let channel = Endpoint::from_static("http://localhost")
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .connect_with_connector(connector)
            .await
            .map_err(|error| connect_error(config, &error))?;
        let graph = wire::graph_client::GraphClient::new(channel.clone()).max_decoding_message_size(MAX_RESPONSE);
        let llm = wire::llm_client::LlmClient::new(channel.clone()).max_decoding_message_size(MAX_RESPONSE);
        let stub = wire::vic_client::VicClient::new(channel).max_decoding_message_size(MAX_RESPONSE);
        Ok(Client { stub, graph, llm })
    }

    /// Answers a question about the indexed files.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn ask(&self, request: AskRequest) -> Result<AskResponse> {
        into_reply(self.stub().ask(wire::AskRequest::from(request)).await)?.try_into()
    }

    /// Answers a question with hits only, without a summary.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn search(&self, request: AskRequest) -> Result<AskResponse> {
        into_reply(self.stub().search(wire::AskRequest::from(request)).await)?.try_into()
    }

    /// Answers a question as a stream: the plan, hits, pieces of the summary, and the whole answer.
    ///
    /// # Errors
    /// As reported by the daemon, before the first event or as an item of the stream.
    pub async fn ask_stream(&self, request: AskRequest) -> Result<impl Stream<Item = Result<AskEvent>> + Send + use<>> {
        let stream = into_reply(self.stub().ask_stream(wire::AskRequest::from(request)).await)?;
        Ok(stream.map(|item| item.map_err(|status| call_error(&status))?.try_into()))
    }

    /// Finds files with content similar to that of a file.
    ///
    /// # Errors
    /// `NotFound` if the file is not indexed, and errors as reported by the daemon.
    pub async fn similar(&self, request: SimilarRequest) -> Result<AskResponse> {
        into_reply(self.stub().similar(wire::SimilarRequest::from(request)).await)?.try_into()
    }

    /// Finds lines that match a regular expression in the indexed text.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn grep(&self, request: GrepRequest) -> Result<GrepResponse> {
        Ok(into_reply(self.stub().grep(wire::GrepRequest::from(request)).await)?.into())
    }

    /// Queries a table in a file.
    ///
    /// # Errors
    /// `NotFound` if the file is not indexed, and errors as reported by the daemon.
    pub async fn table(&self, request: TableRequest) -> Result<TableResponse> {
        Ok(into_reply(self.stub().table(wire::TableRequest::from(request)).await)?.into())
    }

    /// Runs a verb of the corpus API. If vic rejects the request, the reply contains the error.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply> {
        into_reply(self.stub().corpus(wire::CorpusRequest::from(call)).await)?.try_into()
    }

    /// Returns at most `limit` records of outbound requests (maximum 10,000; 0 means 100), newest first.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>> {
        try_into_all(into_reply(self.stub().list_audit(wire::ListAuditRequest { limit }).await)?.records)
    }

    /// Starts an index job and returns its first snapshot.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot> {
        into_reply(self.stub().start_index(wire::IndexRequest::from(request)).await)?.try_into()
    }

    /// Starts an index job and returns its snapshots until it ends, as [`Client::watch_job`] does.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn index(&self, request: IndexRequest) -> Result<impl Stream<Item = Result<JobSnapshot>> + Send + use<>> {
        Ok(snapshots(into_reply(self.stub().index(wire::IndexRequest::from(request)).await)?))
    }

    /// Returns snapshots of a job: the current one, then one after every change, the final one last. Dropping the stream
    /// does not stop the job.
    ///
    /// # Errors
    /// `NotFound` if there is no such job, and errors as reported by the daemon.
    pub async fn watch_job(&self, job_id: &str) -> Result<impl Stream<Item = Result<JobSnapshot>> + Send + use<>> {
        Ok(snapshots(into_reply(self.stub().watch_job(wire::WatchJobRequest { job_id: job_id.into() }).await)?))
    }

    /// Returns the current snapshot of a job, or the final one if the job has ended.
    ///
    /// # Errors
    /// `NotFound` if there is no such job, and errors as reported by the daemon.
    pub async fn job(&self, job_id: &str) -> Result<JobSnapshot> {
        into_reply(self.stub().get_job(wire::GetJobRequest { job_id: job_id.into() }).await)?.try_into()
    }

    /// Returns at most `limit` jobs (maximum 1000; 0 means 20), newest first.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>> {
        try_into_all(into_reply(self.stub().list_jobs(wire::ListJobsRequest { limit }).await)?.jobs)
    }

    /// Requests that a job stop, and returns its snapshot.
    ///
    /// # Errors
    /// `NotFound` if there is no such job, and errors as reported by the daemon.
    pub async fn cancel_job(&self, job_id: &str) -> Result<JobSnapshot> {
        into_reply(self.stub().cancel_job(wire::CancelJobRequest { job_id: job_id.into() }).await)?.try_into()
    }

    /// Waits until all changes made on disk before the call are searchable.
    ///
    /// # Errors
    /// `DeadlineExceeded` at the timeout, `FailedPrecondition` while indexing is paused, and as reported by the daemon.
    pub async fn sync(&self, request: SyncRequest) -> Result<SyncReport> {
        Ok(into_reply(self.stub().sync(wire::SyncRequest::from(request)).await)?.into())
    }

    /// Pauses indexing for a time or until [`Client::resume`].
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn pause(&self, request: PauseRequest) -> Result<PauseState> {
        into_reply(self.stub().pause(wire::PauseRequest::from(request)).await)?.try_into()
    }

    /// Ends a pause that was requested with [`Client::pause`].
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn resume(&self) -> Result<PauseState> {
        into_reply(self.stub().resume(wire::ResumeRequest {}).await)?.try_into()
    }

    /// Returns the status of the daemon and its index.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn status(&self) -> Result<Status> {
        into_reply(self.stub().get_status(wire::GetStatusRequest {}).await)?.try_into()
    }

    /// Returns the matching files, without the first `offset` and at most `limit` (maximum 10,000; 0 means 100), the total
    /// number of matching files, and warnings.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<FileList> {
        let request = wire::ListFilesRequest { filter: Some(filter.into()), limit, offset };
        let page = into_reply(self.stub().list_files(request).await)?;
        Ok(FileList { files: try_into_all(page.files)?, total: page.total, warnings: page.warnings })
    }

    /// Returns the extracted text of a file or of a location in it. The path is absolute, relative to a root, or
    /// `archive.zip!/member`.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied` for a path outside every root, and errors as reported by the daemon.
    pub async fn read(&self, path: &str, place: &Place) -> Result<Document> {
        let request = wire::ReadFileRequest { path: path.into(), place: Some(place.clone().into()) };
        into_reply(self.stub().read_file(request).await)?.try_into()
    }

    /// Returns every root folder.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn roots(&self) -> Result<Vec<Root>> {
        Ok(into_all(into_reply(self.stub().list_roots(wire::ListRootsRequest {}).await)?.roots))
    }

    /// Adds a root folder, given by its absolute path.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn add_root(&self, path: &str) -> Result<Root> {
        Ok(into_reply(self.stub().add_root(wire::AddRootRequest { path: path.into() }).await)?.into())
    }

    /// Removes a root folder, and its files from the index.
    ///
    /// # Errors
    /// `NotFound` if the folder is not a root, and errors as reported by the daemon.
    pub async fn remove_root(&self, path: &str) -> Result<()> {
        into_reply(self.stub().remove_root(wire::RemoveRootRequest { path: path.into() }).await).map(|_| ())
    }

    /// Embeds at most 2048 texts: as questions if `query` is set, otherwise as passages.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn embed(&self, texts: Vec<String>, query: bool) -> Result<Embeddings> {
        let wire::EmbedResponse { vectors, model, dimension } =
            into_reply(self.stub().embed(wire::EmbedRequest { texts, query }).await)?;
        Ok(Embeddings { vectors: vectors.into_iter().map(|it| it.values).collect(), model, dimension })
    }

    /// Returns a code that opens one session of the web page, with the variables of the user's desktop.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn open_web_session(&self, desktop: BTreeMap<String, String>) -> Result<String> {
        let request = wire::OpenWebSessionRequest { desktop: desktop.into_iter().collect() };
        into_reply(self.stub().open_web_session(request).await).map(|it| it.code)
    }

    /// Ends every session of the web page; returns how many there were.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn end_web_sessions(&self) -> Result<u64> {
        into_reply(self.stub().end_web_sessions(wire::EndWebSessionsRequest {}).await).map(|it| it.ended)
    }

    /// Requests the shutdown of the daemon; its process may run for a moment longer.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn shutdown(&self) -> Result<()> {
        into_reply(self.stub().shutdown(wire::ShutdownRequest {}).await).map(|_| ())
    }

    /// Returns a clone of the stub, which shares the connection: calls need `&mut self`, and the client has only `&self`.
    fn stub(&self) -> wire::vic_client::VicClient<Channel> {
        self.stub.clone()
    }
}

/// Returns a warning if daemon and client have different versions.
pub fn version_warning(status: &Status) -> Option<String> {
    (status.version != VERSION).then(|| {
        format!(
            "vicd is version {}, vic is {VERSION}: run `vic daemon stop`; the next command starts the new version",
            status.version
        )
    })
}

fn into_reply<T>(result: Result<tonic::Response<T>, tonic::Status>) -> Result<T> {
    result.map(tonic::Response::into_inner).map_err(|status| call_error(&status))
}

fn snapshots(stream: tonic::Streaming<wire::JobSnapshot>) -> impl Stream<Item = Result<JobSnapshot>> + Send + use<> {
    stream.map(|item| item.map_err(|status| call_error(&status))?.try_into())
}

/// Converts a failed connection to an error that names its cause.
fn connect_error(config: &Config, error: &(dyn std::error::Error + 'static)) -> Error {
    let kind = std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<io::Error>())
        .map(io::Error::kind);
    let socket = config.socket_path();
    match kind {
        Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Error::new(ErrorCode::Unavailable, format!("no vicd is running for `{}`", config.data_dir.display()))
                .hint("run `vic daemon start`")
        }
        Some(kind @ io::ErrorKind::PermissionDenied) => Error::io("connect to", &socket, &io::Error::from(kind)),
        Some(io::ErrorKind::InvalidInput) => {
            Error::invalid(format!("the path of the socket is too long: `{}`", socket.display()))
                .hint("point VIC_DATA_DIR at a folder with a shorter path, at most about 90 bytes")
        }
        _ => Error::new(ErrorCode::Unavailable, format!("cannot connect to `{}`: {error}", socket.display())),
    }
}

/// Converts a gRPC status to the daemon's error, or to `Unavailable` if the connection was lost.
fn call_error(status: &tonic::Status) -> Error {
    let error = grpc_status::into_error(status);
    if std::error::Error::source(status).is_none() {
        return error;
    }
    Error::new(ErrorCode::Unavailable, format!("lost the connection to vicd: {}", error.message))
        .hint("try again; `vic daemon status` shows whether vicd runs, and its log says why not")
}
