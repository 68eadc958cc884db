//! HTTP handler for table queries.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;

use crate::model::TableRequest;
use crate::serve::http::body;
use crate::serve::http::state::{CallerExtension, Reply, SharedState, json_response};
use crate::serve::validate;

/// `POST /v1/table`: returns rows, groups and values of a table in a file.
pub(crate) async fn table(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: TableRequest = body::parse_json(&bridge, request).await?;
    validate::table(&request)?;
    json_response(StatusCode::OK, &caller.service().table(request).await?)
}
