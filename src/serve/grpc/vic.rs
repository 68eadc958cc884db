//! Serves the daemon's API over gRPC: checks the sizes in a request, calls the [`Service`] of the caller, and converts
//! the result.

use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::error::{Error, Result};
use crate::model::{AskRequest, CorpusRequest, FileFilter, FileList, JobSnapshot};
use crate::proto::{convert, grpc_status, wire};
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::{Service, streams, validate};

/// Maximum number of texts in one embed request: the default model takes a few seconds for them.
pub(crate) const MAX_TEXTS: usize = 2_048;

/// Maximum number of jobs that one list request returns.
const MAX_JOBS: u32 = 1_000;

/// Maximum number of audit records that one request returns.
const MAX_AUDIT: u32 = 10_000;

type Reply<T> = Result<Response<T>, Status>;
type AnswerStream = BoxStream<'static, Result<wire::AskEvent, Status>>;
type JobStream = BoxStream<'static, Result<wire::JobSnapshot, Status>>;

/// The gRPC service `Vic`: passes each request to the [`Service`] of its [`AuthorizedService`].
pub(crate) struct Adapter {
    /// Cancelled at shutdown. Ends the streams, which would otherwise delay the shutdown.
    shutdown: CancellationToken,
    /// Name of the embedding model. Cached, because it does not change while the daemon runs, and reading a full status
    /// is expensive.
    embed_model: OnceCell<String>,
}

impl Adapter {
    pub(crate) fn new(shutdown: CancellationToken) -> Adapter {
        Adapter { shutdown, embed_model: OnceCell::new() }
    }

    async fn ask_events(&self, service: &dyn Service, request: wire::AskRequest) -> Result<AnswerStream> {
        let events = service.ask_stream(validated_question(request)?).await?;
        let events = streams::answer_stream(events, self.shutdown.clone());
        Ok(events.map(|it| it.map(Into::into).map_err(grpc_status::from_error)).boxed())
    }

    async fn job_snapshots(&self, service: &dyn Service, job_id: &str) -> Result<JobStream> {
        let snapshots = streams::job_stream(service, job_id, self.shutdown.clone()).await?;
        Ok(snapshots.map(|it| it.map(Into::into).map_err(grpc_status::from_error)).boxed())
    }

    async fn embed_texts(&self, service: &dyn Service, request: wire::EmbedRequest) -> Result<wire::EmbedResponse> {
        if request.texts.len() > MAX_TEXTS {
            return Err(
                Error::invalid(format!("more than {MAX_TEXTS} texts in one call")).hint("send them in several calls")
            );
        }
        let vectors = service.embed(request.texts, request.query).await?;
        let model =
            self.embed_model.get_or_try_init(async || Ok::<_, Error>(service.status().await?.embed_model)).await?;
        let dimension = vectors.first().map_or(0, |vector| vector.len() as u32);
        let vectors = vectors.into_iter().map(|values| wire::Vector { values }).collect();
        Ok(wire::EmbedResponse { vectors, model: model.clone(), dimension })
    }
}

async fn start_job(service: &dyn Service, request: wire::IndexRequest) -> Result<JobSnapshot> {
    service.start_index(request.try_into()?).await
}

async fn file_page(service: &dyn Service, request: wire::ListFilesRequest) -> Result<wire::ListFilesResponse> {
    let filter = request.filter.map(FileFilter::try_from).transpose()?.unwrap_or_default();
    let limit = validate::value_or_default("limit", request.limit, 100, validate::MAX_FILES)?;
    let FileList { files, total, warnings } = service.files(filter, limit, request.offset).await?;
    Ok(wire::ListFilesResponse { files: convert::into_all(files), total, warnings })
}

#[tonic::async_trait]
impl wire::vic_server::Vic for Adapter {
    type AskStreamStream = AnswerStream;
    type IndexStream = JobStream;
    type WatchJobStream = JobStream;

    async fn ask(&self, request: Request<wire::AskRequest>) -> Reply<wire::AskResponse> {
        let (service, request) = split_request(request)?;
        respond(async { service.ask(validated_question(request)?).await }.await)
    }

    async fn search(&self, request: Request<wire::AskRequest>) -> Reply<wire::AskResponse> {
        let (service, request) = split_request(request)?;
        respond(async { service.search(validated_question(request)?).await }.await)
    }

    async fn ask_stream(&self, request: Request<wire::AskRequest>) -> Reply<AnswerStream> {
        let (service, request) = split_request(request)?;
        respond(self.ask_events(&*service, request).await)
    }

    async fn similar(&self, request: Request<wire::SimilarRequest>) -> Reply<wire::AskResponse> {
        let (service, request) = split_request(request)?;
        let request = request.into();
        validate::similar(&request).map_err(grpc_status::from_error)?;
        respond(service.similar(request).await)
    }

    async fn grep(&self, request: Request<wire::GrepRequest>) -> Reply<wire::GrepResponse> {
        let (service, request) = split_request(request)?;
        let request = request.into();
        validate::grep(&request).map_err(grpc_status::from_error)?;
        respond(service.grep(request).await)
    }

    async fn table(&self, request: Request<wire::TableRequest>) -> Reply<wire::TableResponse> {
        let (service, request) = split_request(request)?;
        let request = request.try_into().map_err(grpc_status::from_error)?;
        validate::table(&request).map_err(grpc_status::from_error)?;
        respond(service.table(request).await)
    }

    async fn corpus(&self, request: Request<wire::CorpusRequest>) -> Reply<wire::CorpusResponse> {
        let (service, request) = split_request(request)?;
        let call = CorpusRequest::try_from(request).map_err(grpc_status::from_error)?;
        respond(service.corpus(call).await)
    }

    async fn list_audit(&self, request: Request<wire::ListAuditRequest>) -> Reply<wire::ListAuditResponse> {
        let (service, request) = split_request(request)?;
        let limit =
            validate::value_or_default("limit", request.limit, 100, MAX_AUDIT).map_err(grpc_status::from_error)?;
        let records = service.audit(limit).await;
        respond(records.map(|records| wire::ListAuditResponse { records: convert::into_all(records) }))
    }

    async fn start_index(&self, request: Request<wire::IndexRequest>) -> Reply<wire::JobSnapshot> {
        let (service, request) = split_request(request)?;
        respond(start_job(&*service, request).await)
    }

    async fn index(&self, request: Request<wire::IndexRequest>) -> Reply<JobStream> {
        let (service, request) = split_request(request)?;
        let job = start_job(&*service, request).await.map_err(grpc_status::from_error)?;
        respond(self.job_snapshots(&*service, &job.job_id).await)
    }

    async fn watch_job(&self, request: Request<wire::WatchJobRequest>) -> Reply<JobStream> {
        let (service, request) = split_request(request)?;
        respond(self.job_snapshots(&*service, &request.job_id).await)
    }

    async fn get_job(&self, request: Request<wire::GetJobRequest>) -> Reply<wire::JobSnapshot> {
        let (service, request) = split_request(request)?;
        respond(service.job(&request.job_id).await)
    }

    async fn list_jobs(&self, request: Request<wire::ListJobsRequest>) -> Reply<wire::ListJobsResponse> {
        let (service, request) = split_request(request)?;
        let limit =
            validate::value_or_default("limit", request.limit, 20, MAX_JOBS).map_err(grpc_status::from_error)?;
        let jobs = service.jobs(limit).await;
        respond(jobs.map(|jobs| wire::ListJobsResponse { jobs: convert::into_all(jobs) }))
    }

    async fn cancel_job(&self, request: Request<wire::CancelJobRequest>) -> Reply<wire::JobSnapshot> {
        let (service, request) = split_request(request)?;
        respond(service.cancel_job(&request.job_id).await)
    }

    async fn sync(&self, request: Request<wire::SyncRequest>) -> Reply<wire::SyncReport> {
        let (service, request) = split_request(request)?;
        let request = request.into();
        validate::sync(&request).map_err(grpc_status::from_error)?;
        respond(service.sync(request).await)
    }

    async fn pause(&self, request: Request<wire::PauseRequest>) -> Reply<wire::PauseState> {
        let (service, request) = split_request(request)?;
        let request = request.into();
        validate::pause(&request).map_err(grpc_status::from_error)?;
        respond(service.pause(request).await)
    }

    async fn resume(&self, request: Request<wire::ResumeRequest>) -> Reply<wire::PauseState> {
        let (service, _) = split_request(request)?;
        respond(service.resume().await)
    }

    async fn get_status(&self, request: Request<wire::GetStatusRequest>) -> Reply<wire::Status> {
        let (service, _) = split_request(request)?;
        respond(service.status().await)
    }

    async fn list_files(&self, request: Request<wire::ListFilesRequest>) -> Reply<wire::ListFilesResponse> {
        let (service, request) = split_request(request)?;
        respond(file_page(&*service, request).await)
    }

    async fn read_file(&self, request: Request<wire::ReadFileRequest>) -> Reply<wire::Document> {
        let (service, request) = split_request(request)?;
        respond(service.read(&request.path, &request.place.unwrap_or_default().into()).await)
    }

    async fn list_roots(&self, request: Request<wire::ListRootsRequest>) -> Reply<wire::ListRootsResponse> {
        let (service, _) = split_request(request)?;
        let roots = service.roots().await;
        respond(roots.map(|roots| wire::ListRootsResponse { roots: convert::into_all(roots) }))
    }

    async fn add_root(&self, request: Request<wire::AddRootRequest>) -> Reply<wire::Root> {
        let (service, request) = split_request(request)?;
        respond(service.add_root(&request.path).await)
    }

    async fn remove_root(&self, request: Request<wire::RemoveRootRequest>) -> Reply<wire::RemoveRootResponse> {
        let (service, request) = split_request(request)?;
        let removed = service.remove_root(&request.path).await;
        respond(removed.map(|()| wire::RemoveRootResponse {}))
    }

    async fn embed(&self, request: Request<wire::EmbedRequest>) -> Reply<wire::EmbedResponse> {
        let (service, request) = split_request(request)?;
        respond(self.embed_texts(&*service, request).await)
    }

    async fn open_web_session(
        &self,
        request: Request<wire::OpenWebSessionRequest>,
    ) -> Reply<wire::OpenWebSessionResponse> {
        let caller = authorized_caller(&request)?;
        let desktop = request.into_inner().desktop.into_iter().collect();
        respond(caller.make_session_code(desktop).map(|code| wire::OpenWebSessionResponse { code }))
    }

    async fn end_web_sessions(
        &self,
        request: Request<wire::EndWebSessionsRequest>,
    ) -> Reply<wire::EndWebSessionsResponse> {
        let ended = authorized_caller(&request)?.end_all_sessions();
        respond(ended.map(|it| wire::EndWebSessionsResponse { ended: it as u64 }))
    }

    async fn shutdown(&self, request: Request<wire::ShutdownRequest>) -> Reply<wire::ShutdownResponse> {
        let (service, _) = split_request(request)?;
        respond(service.shutdown().await.map(|()| wire::ShutdownResponse {}))
    }
}

/// Returns the caller of a request.
fn authorized_caller<T>(request: &Request<T>) -> Result<AuthorizedService, Status> {
    let caller = request.extensions().get::<AuthorizedService>().cloned();
    caller.ok_or_else(|| grpc_status::from_error(Error::internal("the request has no caller")))
}

/// Splits a request into the services of its caller and its message. Fails if there is no caller, which means that the
/// request bypassed authentication.
pub(in crate::serve) fn split_request<T>(request: Request<T>) -> Result<(Arc<dyn Service>, T), Status> {
    let service = authorized_caller(&request)?.service();
    Ok((service, request.into_inner()))
}

fn validated_question(request: wire::AskRequest) -> Result<AskRequest> {
    let request = request.try_into()?;
    validate::ask(&request)?;
    Ok(request)
}

fn respond<A: Into<B>, B>(result: Result<A>) -> Reply<B> {
    result.map(|it| Response::new(it.into())).map_err(grpc_status::from_error)
}
