//! Table queries.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;

use crate::model::TableRequest;
use crate::serve::check;
use crate::serve::http::{Known, Reply, Shared, body, json};

/// `POST /v1/table`: rows, groups and values of a table in a file.
pub(crate) async fn table(State(bridge): Shared, Extension(caller): Known, request: Request) -> Reply {
    let request: TableRequest = body::parse(&bridge, request).await?;
    check::table(&request)?;
    json(StatusCode::OK, &caller.service().table(request).await?)
}
