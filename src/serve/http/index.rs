//! HTTP handlers for index jobs (start, status, events) and for sync, pause and resume.

use std::path::Path;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::index::resolve_or_keep;
use crate::model::{IndexRequest, IndexStart, JobReport, PauseRequest, Scope, SyncRequest, display_path, parse_path};
use crate::serve::http::state::{CallerExtension, HttpState, Reply, SharedState, json_response};
use crate::serve::http::{body, sse};
use crate::serve::{streams, validate};

/// Body of the response to an accepted index job.
#[derive(Debug, Serialize)]
struct Accepted<'a> {
    status: &'static str,
    job_id: &'a str,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobQuery {
    job_id: String,
}

/// `POST /v1/index/start`: starts an index job; responds with 202 and the id of the job.
pub(crate) async fn start(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: IndexStart = body::parse_json(&bridge, request).await?;
    let job = caller.service().start_index(bridge.index_request(request, caller.scope()).await?).await?;
    json_response(StatusCode::ACCEPTED, &Accepted { status: "accepted", job_id: &job.job_id })
}

/// `POST /v1/sync`: responds when all changes made before the request are searchable.
pub(crate) async fn sync(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: SyncRequest = body::parse_or_default(&bridge, request).await?;
    validate::sync(&request)?;
    json_response(StatusCode::OK, &caller.service().sync(request).await?)
}

/// `POST /v1/pause`: pauses reading files.
pub(crate) async fn pause(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: PauseRequest = body::parse_or_default(&bridge, request).await?;
    validate::pause(&request)?;
    json_response(StatusCode::OK, &caller.service().pause(request).await?)
}

/// `POST /v1/resume`: resumes indexing.
pub(crate) async fn resume(Extension(caller): CallerExtension, _: Request) -> Reply {
    json_response(StatusCode::OK, &caller.service().resume().await?)
}

/// `GET /v1/index/status?job_id=`: returns the current snapshot of a job.
pub(crate) async fn status(Extension(caller): CallerExtension, request: Request) -> Reply {
    let JobQuery { job_id } = body::parse_query(&request)?;
    json_response(StatusCode::OK, &JobReport::from(caller.service().job(&job_id).await?))
}

/// `GET /v1/index/events?job_id=`: streams the snapshots of a job as events until it has ended.
pub(crate) async fn events(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let JobQuery { job_id } = body::parse_query(&request)?;
    let snapshots = streams::job_stream(&*caller.service(), &job_id, bridge.shutdown.clone()).await?;
    Ok(sse::stream(snapshots, |snapshot| {
        let name = if snapshot.state.is_final() { "done" } else { "progress" };
        sse::event(name, &JobReport::from(snapshot))
    }))
}

impl HttpState {
    /// Converts the request for the service. Fails if `db_path` is not the index of this daemon, as each index has its
    /// own daemon.
    async fn index_request(&self, request: IndexStart, scope: &Scope) -> Result<IndexRequest> {
        if let Some(wanted) = request.db_path.as_deref()
            && resolve_or_keep(Path::new(wanted)).await != resolve_or_keep(&self.db_path).await
        {
            // Names the path of the index only to the owner; other callers may not learn it.
            let own = if scope.is_all() { format!(", `{}`", self.db_path.display()) } else { String::new() };
            return Err(Error::invalid(format!("`{wanted}` is not the index of this daemon{own}"))
                .field("db_path")
                .hint(format!("omit `db_path`, or start another daemon with VIC_DB_PATH=`{wanted}`")));
        }
        let default = self.warehouse_root.as_ref().filter(|it| scope.covers(it));
        let default = default.map(|it| display_path(it).into_owned());
        let paths: Vec<String> = request.root.or(default).into_iter().collect();
        for path in &paths {
            validate::path("root", path)?;
            if !parse_path(path).is_absolute() {
                return Err(Error::invalid(format!("`{path}` is not an absolute path")).field("root"));
            }
        }
        Ok(IndexRequest {
            paths,
            full: request.full,
            metadata_only: request.metadata_only,
            max_files: request.max_files,
            ocr: request.ocr,
            accept_losses: false,
        })
    }
}
