//! The gRPC adapter: takes a request apart, checks its size, calls the [`Service`], converts the result. Knows nothing
//! of how anything is done.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};
use tokio::sync::{OnceCell, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::error::{Error, ErrorCode, Result};
use crate::model::{AskEvent, AskRequest, FileFilter, JobSnapshot};
use crate::serve::{Service, convert, status, wire};

/// Longest question in bytes: far beyond any that a person asks, short enough to parse and embed at once.
pub(crate) const MAX_QUERY: usize = 32 << 10;

/// Most texts of one embed call: a few seconds of work for the default model.
pub(crate) const MAX_TEXTS: usize = 2_048;

/// Most hits of one question, as the contract has it.
const MAX_HITS: u32 = 1_000;

/// Most files of one page: some 5 MiB on the wire.
const MAX_FILES: u32 = 10_000;

/// Most jobs of one list.
const MAX_JOBS: u32 = 1_000;

/// Most records of one look at the audit log.
const MAX_AUDIT: u32 = 10_000;

/// Least time between two messages of a job's stream: more often, no eye can follow.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

type Reply<T> = Result<Response<T>, Status>;
type AnswerStream = Pin<Box<dyn Stream<Item = Result<wire::AskEvent, Status>> + Send>>;
type JobStream = Pin<Box<dyn Stream<Item = Result<wire::JobSnapshot, Status>> + Send>>;

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

    /// The events of an answer; when the daemon goes first, the last item says so.
    fn until_shutdown(&self, mut receiver: mpsc::Receiver<Result<AskEvent>>) -> AnswerStream {
        let shutdown = self.shutdown.clone();
        let (sender, events) = mpsc::channel(1);
        tokio::spawn(async move {
            let ended = loop {
                match shutdown.run_until_cancelled(receiver.recv()).await {
                    Some(Some(Ok(event))) => match sender.send(Ok(event.into())).await {
                        Ok(()) => (),
                        Err(_gone) => return,
                    },
                    Some(Some(Err(error))) => break error,
                    Some(None) => return,
                    None => break Error::new(ErrorCode::Unavailable, "vicd went before the answer was complete"),
                }
            };
            let _ = sender.send(Err(status::from_error(ended))).await;
        });
        ReceiverStream::new(events).boxed()
    }

    /// Follows a job; one that has ended long ago gives its last snapshot.
    async fn follow(&self, job_id: &str) -> Result<JobStream> {
        match self.service.watch_job(job_id) {
            Ok(receiver) => Ok(progress(receiver, self.shutdown.clone())),
            Err(error) if error.code == ErrorCode::NotFound => {
                let snapshot = self.service.job(job_id).await?;
                Ok(stream::iter([Ok(snapshot.into())]).boxed())
            }
            Err(error) => Err(error),
        }
    }

    async fn list_files(&self, request: wire::ListFilesRequest) -> Result<wire::ListFilesResponse> {
        let filter = request.filter.map(FileFilter::try_from).transpose()?.unwrap_or_default();
        let limit = bounded("limit", request.limit, 100, MAX_FILES)?;
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
        let events = async { self.service.ask_stream(question(request.into_inner())?).await }.await;
        reply(events.map(|receiver| self.until_shutdown(receiver)))
    }

    async fn similar(&self, request: Request<wire::SimilarRequest>) -> Reply<wire::AskResponse> {
        reply(self.service.similar(request.into_inner().into()).await)
    }

    async fn grep(&self, request: Request<wire::GrepRequest>) -> Reply<wire::GrepResponse> {
        reply(self.service.grep(request.into_inner().into()).await)
    }

    async fn list_audit(&self, request: Request<wire::ListAuditRequest>) -> Reply<wire::ListAuditResponse> {
        let limit = bounded("limit", request.into_inner().limit, 100, MAX_AUDIT).map_err(status::from_error)?;
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
        let limit = bounded("limit", request.into_inner().limit, 20, MAX_JOBS).map_err(status::from_error)?;
        let jobs = self.service.jobs(limit).await;
        reply(jobs.map(|jobs| wire::ListJobsResponse { jobs: convert::into_all(jobs) }))
    }

    async fn cancel_job(&self, request: Request<wire::CancelJobRequest>) -> Reply<wire::JobSnapshot> {
        reply(self.service.cancel_job(&request.into_inner().job_id).await)
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

/// Checks the sizes of a question before anything else is done with it.
fn question(request: wire::AskRequest) -> Result<AskRequest> {
    if request.query.len() > MAX_QUERY {
        return Err(Error::invalid(format!("the question is longer than {MAX_QUERY} bytes")));
    }
    if request.limit.is_some_and(|limit| !(1..=MAX_HITS).contains(&limit)) {
        return Err(Error::invalid(format!("limit is not between 1 and {MAX_HITS}")));
    }
    request.try_into()
}

fn reply<A: Into<B>, B>(result: Result<A>) -> Reply<B> {
    result.map(|it| Response::new(it.into())).map_err(status::from_error)
}

/// Returns the value, or the default for 0.
fn bounded(name: &str, value: u32, default: u32, max: u32) -> Result<u32> {
    match value {
        0 => Ok(default),
        value if value <= max => Ok(value),
        _ => Err(Error::invalid(format!("{name} is larger than {max}"))),
    }
}

/// Where a job's stream stands.
enum Watch {
    Begin(watch::Receiver<JobSnapshot>),
    /// The last snapshot that was sent.
    Sent(watch::Receiver<JobSnapshot>, Box<JobSnapshot>),
    End,
}

/// The snapshots of a job up to the final one. When the daemon goes first, the last item says so.
fn progress(receiver: watch::Receiver<JobSnapshot>, shutdown: CancellationToken) -> JobStream {
    stream::unfold(Watch::Begin(receiver), move |watch| {
        let shutdown = shutdown.clone();
        async move {
            let (receiver, next) = match watch {
                Watch::End => return None,
                Watch::Begin(receiver) => {
                    let first = receiver.borrow().clone();
                    (receiver, Some(first))
                }
                Watch::Sent(mut receiver, last) => {
                    let next = shutdown.run_until_cancelled(changed(&mut receiver, &last)).await.flatten();
                    (receiver, next)
                }
            };
            match next {
                Some(snapshot) if snapshot.state.is_final() => Some((Ok(snapshot.into()), Watch::End)),
                Some(snapshot) => Some((Ok(snapshot.clone().into()), Watch::Sent(receiver, Box::new(snapshot)))),
                None => {
                    let error = Error::new(ErrorCode::Unavailable, "vicd went before the job had ended")
                        .hint("the job goes on where it was with `vic index`");
                    Some((Err(status::from_error(error)), Watch::End))
                }
            }
        }
    })
    .boxed()
}

/// Waits for a snapshot that differs from the last one, but not less than the interval unless the job has ended. Returns
/// none when there will be no more.
async fn changed(receiver: &mut watch::Receiver<JobSnapshot>, last: &JobSnapshot) -> Option<JobSnapshot> {
    let ended = receiver.wait_for(|it| it.state.is_final());
    if let Ok(Ok(snapshot)) = tokio::time::timeout(PROGRESS_INTERVAL, ended).await {
        return Some(snapshot.clone());
    }
    receiver.wait_for(|it| it != last).await.ok().map(|it| it.clone())
}
