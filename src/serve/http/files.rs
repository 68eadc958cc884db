//! File lists and file contents.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;

use crate::model::{FileEntry, FilePage, FilesRequest, ReadRequest, Reading};
use crate::serve::check;
use crate::serve::http::{Known, Reply, Shared, body, json};

/// `POST /v1/files`: files by metadata.
pub(crate) async fn files(State(bridge): Shared, Extension(caller): Known, request: Request) -> Reply {
    let request: FilesRequest = body::parse(&bridge, request).await?;
    let (filter, limit) = check::files(&request).await?;
    let (files, total) = caller.service().files(filter, limit, request.offset).await?;
    json(StatusCode::OK, &FilePage { total, files: files.iter().map(FileEntry::from).collect() })
}

/// `POST /v1/read`: a part of the text of a file.
pub(crate) async fn read(State(bridge): Shared, Extension(caller): Known, request: Request) -> Reply {
    let request: ReadRequest = body::parse(&bridge, request).await?;
    let max_chars = check::read(&request)?;
    let document = caller.service().read(&request.path, &request.place()).await?;
    json(StatusCode::OK, &Reading::cut(&request.path, document, request.offset, max_chars))
}
