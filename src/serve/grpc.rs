//! The gRPC adapter: takes a request apart, checks its size, calls the [`Service`], converts the result. Knows nothing
//! of how anything is done.

use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::error::{Error, Result};
use crate::model::{AskRequest, FileFilter, JobSnapshot};
use crate::serve::{Service, check, convert, follow, status, wire};

/// Most texts of one embed call: a few seconds of work for the default model.
pub(crate) const MAX_TEXTS: usize = 2_048;

/// Most jobs of one list.
const MAX_JOBS: u32 = 1_000;

/// Most records of one look at the audit log.
const MAX_AUDIT: u32 = 10_000;

type Reply<T> = Result<Response<T>, Status>;
type AnswerStream = BoxStream<'static, Result<wire::AskEvent, Status>>;
type JobStream = BoxStream<'static, Result<wire::JobSnapshot, Status>>;

/// Serves one [`Service`] over gRPC.
pub(crate) struct Adapter {
    service: Arc<dyn Service>,
    /// Ends the streams, which would otherwise hold the shutdown up.
    shutdown: CancellationToken,
    /// The name of the model: it cannot change while the daemon runs, and a full status is not cheap.
    embed_model: OnceCell<String>,
}

impl Adapter {
    pub(crate) fn new(service: Arc<dyn Service>, shutdown: CancellationToken) -> Adapter {
        Adapter { service, shutdown, embed_model: OnceCell::new() }
    }

    async fn start(&self, request: wire::IndexRequest) -> Result<JobSnapshot> {
        self.service.start_index(request.try_into()?).await
    }

    async fn steps(&self, request: wire::AskRequest) -> Result<AnswerStream> {
        let events = self.service.ask_stream(question(request)?).await?;
        let events = follow::answer(events, self.shutdown.clone());
        Ok(events.map(|it| it.map(Into::into).map_err(status::from_error)).boxed())
    }

    async fn follow(&self, job_id: &str) -> Result<JobStream> {
        let snapshots = follow::job(&*self.service, job_id, self.shutdown.clone()).await?;
        Ok(snapshots.map(|it| it.map(Into::into).map_err(status::from_error)).boxed())
    }

    async fn list_files(&self, request: wire::ListFilesRequest) -> Result<wire::ListFilesResponse> {
        let filter = request.filter.map(FileFilter::try_from).transpose()?.unwrap_or_default();
        let limit = check::bounded("limit", request.limit, 100, check::MAX_FILES)?;
        let (files, total) = self.service.files(filter, limit, request.offset).await?;
        Ok(wire::ListFilesResponse { files: convert::into_all(files), total })
    }

    async fn vectors(&self, request: wire::EmbedRequest) -> Result<wire::EmbedResponse> {
        if request.texts.len() > MAX_TEXTS {
            return Err(
                Error::invalid(format!("more than {MAX_TEXTS} texts in one call")).hint("send them in several calls")
            );
        }
        let vectors = self.service.embed(request.texts, request.query).await?;
        let model =
            self.embed_model.get_or_try_init(async || Ok::<_, Error>(self.service.status().await?.embed_model)).await?;
        let dimension = vectors.first().map_or(0, |vector| vector.len() as u32);
        let vectors = vectors.into_iter().map(|values| wire::Vector { values }).collect();
        Ok(wire::EmbedResponse { vectors, model: model.clone(), dimension })
    }
}

#[tonic::async_trait]
impl wire::vic_server::Vic for Adapter {
    type AskStreamStream = AnswerStream;
    type IndexStream = JobStream;
    type WatchJobStream = JobStream;

    async fn ask(&self, request: Request<wire::AskRequest>) -> Reply<wire::AskResponse> {
        reply(async { self.service.ask(question(request.into_inner())?).await }.await)
    }

    async fn search(&self, request: Request<wire::AskRequest>) -> Reply<wire::AskResponse> {
        reply(async { self.service.search(question(request.into_inner())?).await }.await)
    }

    async fn ask_stream(&self, request: Request<wire::AskRequest>) -> Reply<AnswerStream> {
        reply(self.steps(request.into_inner()).await)
    }

    async fn similar(&self, request: Request<wire::SimilarRequest>) -> Reply<wire::AskResponse> {
        let request = request.into_inner().into();
        check::similar(&request).map_err(status::from_error)?;
        reply(self.service.similar(request).await)
    }

    async fn grep(&self, request: Request<wire::GrepRequest>) -> Reply<wire::GrepResponse> {
        let request = request.into_inner().into();
        check::grep(&request).map_err(status::from_error)?;
        reply(self.service.grep(request).await)
    }

    async fn list_audit(&self, request: Request<wire::ListAuditRequest>) -> Reply<wire::ListAuditResponse> {
        let limit = check::bounded("limit", request.into_inner().limit, 100, MAX_AUDIT).map_err(status::from_error)?;
        let records = self.service.audit(limit).await;
        reply(records.map(|records| wire::ListAuditResponse { records: convert::into_all(records) }))
    }

    async fn start_index(&self, request: Request<wire::IndexRequest>) -> Reply<wire::JobSnapshot> {
        reply(self.start(request.into_inner()).await)
    }

    async fn index(&self, request: Request<wire::IndexRequest>) -> Reply<JobStream> {
        let job = self.start(request.into_inner()).await.map_err(status::from_error)?;
        reply(self.follow(&job.job_id).await)
    }

    async fn watch_job(&self, request: Request<wire::WatchJobRequest>) -> Reply<JobStream> {
        reply(self.follow(&request.into_inner().job_id).await)
    }

    async fn get_job(&self, request: Request<wire::GetJobRequest>) -> Reply<wire::JobSnapshot> {
        reply(self.service.job(&request.into_inner().job_id).await)
    }

    async fn list_jobs(&self, request: Request<wire::ListJobsRequest>) -> Reply<wire::ListJobsResponse> {
        let limit = check::bounded("limit", request.into_inner().limit, 20, MAX_JOBS).map_err(status::from_error)?;
        let jobs = self.service.jobs(limit).await;
        reply(jobs.map(|jobs| wire::ListJobsResponse { jobs: convert::into_all(jobs) }))
    }

    async fn cancel_job(&self, request: Request<wire::CancelJobRequest>) -> Reply<wire::JobSnapshot> {
        reply(self.service.cancel_job(&request.into_inner().job_id).await)
    }

    async fn sync(&self, request: Request<wire::SyncRequest>) -> Reply<wire::SyncReport> {
        let request = request.into_inner().into();
        check::sync(&request).map_err(status::from_error)?;
        reply(self.service.sync(request).await)
    }

    async fn pause(&self, request: Request<wire::PauseRequest>) -> Reply<wire::PauseState> {
        let request = request.into_inner().into();
        check::pause(&request).map_err(status::from_error)?;
        reply(self.service.pause(request).await)
    }

    async fn resume(&self, _: Request<wire::ResumeRequest>) -> Reply<wire::PauseState> {
        reply(self.service.resume().await)
    }

    async fn get_status(&self, _: Request<wire::GetStatusRequest>) -> Reply<wire::Status> {
        reply(self.service.status().await)
    }

    async fn list_files(&self, request: Request<wire::ListFilesRequest>) -> Reply<wire::ListFilesResponse> {
        reply(self.list_files(request.into_inner()).await)
    }

    async fn read_file(&self, request: Request<wire::ReadFileRequest>) -> Reply<wire::Document> {
        reply(self.service.read(&request.into_inner().path).await)
    }

    async fn list_roots(&self, _: Request<wire::ListRootsRequest>) -> Reply<wire::ListRootsResponse> {
        let roots = self.service.roots().await;
        reply(roots.map(|roots| wire::ListRootsResponse { roots: convert::into_all(roots) }))
    }

    async fn add_root(&self, request: Request<wire::AddRootRequest>) -> Reply<wire::Root> {
        reply(self.service.add_root(&request.into_inner().path).await)
    }

    async fn remove_root(&self, request: Request<wire::RemoveRootRequest>) -> Reply<wire::RemoveRootResponse> {
        let removed = self.service.remove_root(&request.into_inner().path).await;
        reply(removed.map(|()| wire::RemoveRootResponse {}))
    }

    async fn embed(&self, request: Request<wire::EmbedRequest>) -> Reply<wire::EmbedResponse> {
        reply(self.vectors(request.into_inner()).await)
    }

    async fn shutdown(&self, _: Request<wire::ShutdownRequest>) -> Reply<wire::ShutdownResponse> {
        reply(self.service.shutdown().await.map(|()| wire::ShutdownResponse {}))
    }
}

fn question(request: wire::AskRequest) -> Result<AskRequest> {
    let request = request.try_into()?;
    check::ask(&request)?;
    Ok(request)
}

fn reply<A: Into<B>, B>(result: Result<A>) -> Reply<B> {
    result.map(|it| Response::new(it.into())).map_err(status::from_error)
}
