//! The backend of `vic mcp`: passes the operations of tools to the daemon, so that no model is loaded twice.

use crate::client::Client;
use crate::error::Result;
use crate::model::{
    AskRequest, AskResponse, CorpusReply, CorpusRequest, Document, FileFilter, FileList, GraphRequest, IndexRequest,
    JobSnapshot, Place, Status, TableRequest, TableResponse,
};
use crate::serve::mcp::backend::Backend;

#[async_trait::async_trait]
impl Backend for Client {
    async fn ask(&self, request: AskRequest) -> Result<AskResponse> {
        Client::ask(self, request).await
    }

    async fn search(&self, request: AskRequest) -> Result<AskResponse> {
        Client::search(self, request).await
    }

    async fn corpus(&self, call: CorpusRequest) -> Result<CorpusReply> {
        Client::corpus(self, call).await
    }

    async fn files(&self, filter: FileFilter, limit: u32, offset: u64) -> Result<FileList> {
        Client::files(self, filter, limit, offset).await
    }

    async fn read(&self, path: &str, place: &Place) -> Result<Document> {
        Client::read(self, path, place).await
    }

    async fn table(&self, request: TableRequest) -> Result<TableResponse> {
        Client::table(self, request).await
    }

    async fn start_index(&self, request: IndexRequest) -> Result<JobSnapshot> {
        Client::start_index(self, request).await
    }

    async fn job(&self, job_id: &str) -> Result<JobSnapshot> {
        Client::job(self, job_id).await
    }

    async fn status(&self) -> Result<Status> {
        Client::status(self).await
    }

    async fn graph(&self, request: GraphRequest) -> Result<serde_json::Value> {
        Client::graph(self, request).await
    }
}
