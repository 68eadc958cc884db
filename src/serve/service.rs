//! The API of the daemon in plain Rust, as the gRPC, HTTP and MCP adapters call it.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::agent::Assistant;
use crate::error::Result;
use crate::model::{
    AskEvent, AskRequest, AskResponse, AuditRecord, CorpusReply, CorpusRequest, Document, FileFilter, FileList,
    GraphRequest, GrepRequest, GrepResponse, IndexRequest, JobSnapshot, PauseRequest, PauseState, Place, Principal,
    Root, Scope, SimilarRequest, Status, SyncReport, SyncRequest, TableRequest, TableResponse,
};
use crate::serve::ui_service::UiService;

/// The API of the daemon: one method for each operation.
///
/// Each method fails with the [`crate::error::ErrorCode`] that fits the problem; only special cases are documented at the
/// methods.
#[async_trait::async_trait]
pub trait Service: UiService {
    /// Returns the same services restricted to a scope: files, roots, jobs and counts outside the scope do not exist for
    /// the caller. `holder` is the holder of the caller's key, by which limits are shared fairly.
    fn scoped(&self, scope: Scope, holder: Principal) -> Arc<dyn Service>;

    /// Answers a question about the files.
    async fn ask(&self, request: AskRequest) -> Result<AskResponse>;

    /// Answers a question without a summary.
    async fn search(&self, request: AskRequest) -> Result<AskResponse>;

    /// Answers a question as a stream of events. The channel closes after [`AskEvent::Done`] or the first error. Dropping
    /// the receiver cancels the work.
    async fn ask_stream(&self, request: AskRequest) -> Result<mpsc::Receiver<Result<AskEvent>>>;

    /// Finds files similar to a file.
    async fn similar(&self, request: SimilarRequest) -> Result<AskResponse>;

    /// Finds the lines of the indexed text that match a regular expression.
    async fn grep(&self, request: GrepRequest) -> Result<GrepResponse>;

    /// Queries a table of a file below a root.
    async fn table(&self, request: TableRequest) -> Result<TableResponse>;

    /// Runs a verb (operation) of the corpus API. If the call is refused, the reply states the reason in its envelope.
    async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply>;

    /// Returns the audit records of at most `limit` requests to other machines, newest first.
    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>>;

    /// Starts an index job and returns its first snapshot.
    async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot>;

    /// Subscribes to the snapshots of a job. The sender is dropped only after the final snapshot was sent.
    ///
    /// # Errors
    /// `NotFound`, also for a job that ended so long ago that only [`Service::job`] still knows it.
    fn watch_job(&self, job_id: &str) -> Result<tokio::sync::watch::Receiver<JobSnapshot>>;

    /// Returns the current snapshot of a job, or the final one if it has ended.
    async fn job(&self, job_id: &str) -> Result<JobSnapshot>;

    /// Returns at most `limit` jobs, newest first.
    async fn jobs(&self, limit: u32) -> Result<Vec<JobSnapshot>>;

    /// Requests cancellation of a job. A job that has ended is returned unchanged.
    async fn cancel_job(&self, job_id: &str) -> Result<JobSnapshot>;

    /// Returns the ids of the caller's index jobs that have not ended, including those of corpus verbs.
    fn own_jobs(&self) -> Result<Vec<String>>;

    /// Waits until all earlier changes on disk are searchable.
    async fn sync(&self, request: SyncRequest) -> Result<SyncReport>;

    /// Pauses indexing, i.e. reading files; returns the pause in effect.
    async fn pause(&self, request: PauseRequest) -> Result<PauseState>;

    /// Ends a pause that a user asked for; returns the pause that remains in effect, if any.
    async fn resume(&self) -> Result<PauseState>;

    /// Returns the state of the daemon and the index.
    async fn status(&self) -> Result<Status>;

    /// Returns the number of tokens embedded for the index since the daemon started.
    fn tokens_embedded(&self) -> u64;

    /// Returns at most `limit` matching files, starting at `offset`, and the total number of matching files. If no file
    /// matches, typing errors in the name words of the filter are corrected, with a warning.
    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<FileList>;

    /// Returns the extracted text of a file below a root, or of a part of it. The path is absolute or relative to a root,
    /// as hits print it; `archive.zip!/member` reads an archive member. A location may follow the path: `lease.pdf, page
    /// 3`.
    async fn read(&self, path: &str, place: &Place) -> Result<Document>;

    /// Returns all roots.
    async fn roots(&self) -> Result<Vec<Root>>;

    /// Adds a folder as a root, by its absolute path.
    async fn add_root(&self, path: &str) -> Result<Root>;

    /// Removes a root folder and its index entries.
    async fn remove_root(&self, path: &str) -> Result<()>;

    /// Embeds texts, as questions if `query` is set and as passages otherwise; returns one vector of norm 1 for each
    /// text.
    async fn embed(&self, texts: Vec<String>, query: bool) -> Result<Vec<Vec<f32>>>;

    /// Runs a request about the graph; returns the result as JSON.
    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value>;

    /// Returns the language model assistant, with tools restricted to the caller's scope.
    fn assistant(&self) -> Result<Assistant>;

    /// Starts the shutdown of the daemon and returns without waiting for it.
    async fn shutdown(&self) -> Result<()>;
}
