//! The operations that the tools and resources need, and the services of the daemon as such a backend.

use std::sync::Arc;

use crate::error::Result;
use crate::model::{
    AskRequest, AskResponse, CorpusReply, CorpusRequest, Document, FileFilter, FileRecord, GraphRequest, IndexRequest,
    JobSnapshot, Place, Status, TableRequest, TableResponse,
};
use crate::serve::Service;

/// The operations that the tools need.
#[async_trait::async_trait]
pub(crate) trait Backend: Send + Sync + 'static {
    /// As [`Service::ask`].
    async fn ask(&self, request: AskRequest) -> Result<AskResponse>;
    /// As [`Service::search`].
    async fn search(&self, request: AskRequest) -> Result<AskResponse>;
    /// As [`Service::corpus`].
    async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply>;
    /// As [`Service::files`].
    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<(Vec<FileRecord>, u64)>;
    /// As [`Service::read`].
    async fn read(&self, path: &str, place: &Place) -> Result<Document>;
    /// As [`Service::table`].
    async fn table(&self, request: TableRequest) -> Result<TableResponse>;
    /// As [`Service::start_index`].
    async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot>;
    /// As [`Service::job`].
    async fn job(&self, job_id: &str) -> Result<JobSnapshot>;
    /// As [`Service::status`].
    async fn status(&self) -> Result<Status>;
    /// As [`Service::graph`].
    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value>;
}

/// The services of the daemon itself, as the caller may use them.
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

    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<(Vec<FileRecord>, u64)> {
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
