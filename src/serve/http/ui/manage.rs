//! HTTP handlers that manage the daemon: roots, folders, jobs, settings, models and the audit log.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::model::{
    AuditList, FoldersRequest, JobList, JobRequest, PathRequest, Root, RootCheckRequest, RootList, SettingChange,
};
use crate::serve::http::body;
use crate::serve::http::state::{CallerExtension, Reply, SharedState, json_response};
use crate::serve::validate;

/// Number of entries of a list if the request sets none.
const DEFAULT_LIST: u32 = 100;

/// Maximum number of entries of a list.
const MAX_LIST: u32 = 10_000;

/// The query string of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ListQuery {
    limit: Option<u32>,
}

impl ListQuery {
    fn limit(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIST).clamp(1, MAX_LIST)
    }
}

/// `GET /v1/roots`: returns the roots.
pub(crate) async fn roots(Extension(caller): CallerExtension) -> Reply {
    let roots = caller.service().roots().await?.into_iter().map(Root::with_printable_path).collect();
    json_response(StatusCode::OK, &RootList { roots })
}

/// `POST /v1/roots/check`: looks what indexing a folder would read and leave out.
pub(crate) async fn check_root(
    State(bridge): SharedState,
    Extension(caller): CallerExtension,
    request: Request,
) -> Reply {
    let request: RootCheckRequest = body::parse_json(&bridge, request).await?;
    validate::root_check(&request)?;
    json_response(StatusCode::OK, &caller.service().check_root(request).await?)
}

/// `POST /v1/roots/remove`: removes a root and its index entries; its files stay.
pub(crate) async fn remove_root(
    State(bridge): SharedState,
    Extension(caller): CallerExtension,
    request: Request,
) -> Reply {
    let PathRequest { path } = body::parse_json(&bridge, request).await?;
    validate::path("path", &path)?;
    caller.service().remove_root(&path).await?;
    json_response(StatusCode::OK, &json!({}))
}

/// `POST /v1/folders`: lists the folders in a folder.
pub(crate) async fn folders(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: FoldersRequest = body::parse_or_default(&bridge, request).await?;
    json_response(StatusCode::OK, &caller.service().folders(request).await?)
}

/// `GET /v1/jobs?limit=`: returns jobs, newest first.
pub(crate) async fn jobs(Extension(caller): CallerExtension, request: Request) -> Reply {
    let query: ListQuery = body::parse_query(&request)?;
    json_response(StatusCode::OK, &JobList { jobs: caller.service().jobs(query.limit()).await? })
}

/// `POST /v1/jobs/cancel`: cancels a job.
pub(crate) async fn cancel_job(
    State(bridge): SharedState,
    Extension(caller): CallerExtension,
    request: Request,
) -> Reply {
    let JobRequest { job_id } = body::parse_json(&bridge, request).await?;
    json_response(StatusCode::OK, &caller.service().cancel_job(&job_id).await?)
}

/// `GET /v1/settings`: returns all settings.
pub(crate) async fn settings(Extension(caller): CallerExtension) -> Reply {
    json_response(StatusCode::OK, &caller.service().settings().await?)
}

/// `POST /v1/settings`: changes a setting in `config.toml`.
pub(crate) async fn change_setting(
    State(bridge): SharedState,
    Extension(caller): CallerExtension,
    request: Request,
) -> Reply {
    let change: SettingChange = body::parse_json(&bridge, request).await?;
    json_response(StatusCode::OK, &caller.service().change_setting(change).await?)
}

/// `GET /v1/models`: returns the known embedding models.
pub(crate) async fn models(Extension(caller): CallerExtension) -> Reply {
    json_response(StatusCode::OK, &caller.service().models().await?)
}

/// `GET /v1/audit?limit=`: returns requests to other machines, newest first.
pub(crate) async fn audit(Extension(caller): CallerExtension, request: Request) -> Reply {
    let query: ListQuery = body::parse_query(&request)?;
    json_response(StatusCode::OK, &AuditList { records: caller.service().audit(query.limit()).await? })
}
