//! HTTP handlers for lists of files, and for the text of a file.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;

use crate::model::{FilePage, FilesRequest, ReadRequest, Reading};
use crate::serve::http::body;
use crate::serve::http::state::{CallerExtension, Reply, SharedState, json_response};
use crate::serve::validate;

/// `POST /v1/files`: lists files by metadata.
pub(crate) async fn files(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: FilesRequest = body::parse_json(&bridge, request).await?;
    let (filter, limit) = validate::files(&request).await?;
    let list = caller.service().files(filter, limit, request.offset).await?;
    json_response(StatusCode::OK, &FilePage::from(list))
}

/// `POST /v1/read`: returns a part of the text of a file.
pub(crate) async fn read(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: ReadRequest = body::parse_json(&bridge, request).await?;
    let max_chars = validate::read(&request)?;
    let document = caller.service().read(&request.path, &request.place()).await?;
    json_response(StatusCode::OK, &Reading::from_document(&request.path, document, request.offset, max_chars))
}
