//! The operations that MCP tools and resources need, implemented here by the daemon's own services.

use std::sync::Arc;

use crate::error::Result;
use crate::model::{
    AskRequest, AskResponse, CorpusReply, CorpusRequest, Document, FileFilter, FileList, GraphRequest, IndexRequest,
    JobSnapshot, Place, Status, TableRequest, TableResponse,
};
use crate::serve::Service;

/// The operations that MCP tools and resources need.
#[async_trait::async_trait]
pub(crate) trait Backend: Send + Sync + 'static {
    /// Answers a question, as [`Service::ask`] does.
    async fn ask(&self, request: AskRequest) -> Result<AskResponse>;
    /// Answers a question without a summary, as [`Service::search`] does.
    async fn search(&self, request: AskRequest) -> Result<AskResponse>;
    /// Runs a verb of the corpus API, as [`Service::corpus`] does.
    async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply>;
    /// Lists files by metadata, as [`Service::files`] does.
    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<FileList>;
    /// Returns the text of a file or of a part of it, as [`Service::read`] does.
    async fn read(&self, path: &str, place: &Place) -> Result<Document>;
    /// Queries a table of a file, as [`Service::table`] does.
    async fn table(&self, request: TableRequest) -> Result<TableResponse>;
    /// Starts an index job, as [`Service::start_index`] does.
    async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot>;
    /// Returns the current snapshot of a job, as [`Service::job`] does.
    async fn job(&self, job_id: &str) -> Result<JobSnapshot>;
    /// Returns the state of the daemon and the index, as [`Service::status`] does.
    async fn status(&self) -> Result<Status>;
    /// Runs a request about the graph, as [`Service::graph`] does.
    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value>;
}

/// The services of the daemon in the same process, restricted to what the caller may use.
pub(super) struct InProcess(pub(super) Arc<dyn Service>);

#[async_trait::async_trait]
impl Backend for InProcess {
    async fn ask(&self, request: AskRequest) -> Result<AskResponse> {
        self.0.ask(request).await
    }

    async fn search(&self, request: AskRequest) -> Result<AskResponse> {
        self.0.search(request).await
    }

    async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply> {
        self.0.corpus(call).await
    }

    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<FileList> {
        self.0.files(filter, limit, offset).await
    }

    async fn read(&self, path: &str, place: &Place) -> Result<Document> {
        self.0.read(path, place).await
    }

    async fn table(&self, request: TableRequest) -> Result<TableResponse> {
        self.0.table(request).await
    }

    async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot> {
        self.0.start_index(request).await
    }

    async fn job(&self, job_id: &str) -> Result<JobSnapshot> {
        self.0.job(job_id).await
    }

    async fn status(&self) -> Result<Status> {
        self.0.status().await
    }

    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value> {
        self.0.graph(request).await
    }
}
