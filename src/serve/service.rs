//! The API of the daemon in plain Rust, as the adapters call it.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::agent::Assistant;
use crate::error::Result;
use crate::model::{
    AskEvent, AskRequest, AskResponse, AuditRecord, CorpusReply, CorpusRequest, Document, FileFilter, FileRecord,
    GraphRequest, GrepRequest, GrepResponse, IndexRequest, JobSnapshot, PauseRequest, PauseState, Place, Principal,
    Root, Scope, SimilarRequest, Status, SyncReport, SyncRequest, TableRequest, TableResponse,
};

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
