//! HTTP handler of the graph: tools and queries as JSON.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;

use crate::error::{Error, ErrorCode};
use crate::model::GraphRequest;
use crate::serve::http::body;
use crate::serve::http::state::{CallerExtension, Reply, SharedState, json_response};

/// `POST /v1/graph`: calls a tool of the graph, or runs a query. Changes of the graph need gRPC.
pub(crate) async fn graph(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    let request: GraphRequest = body::parse_json(&bridge, request).await?;
    if request.writes() {
        let error = Error::new(ErrorCode::PermissionDenied, "this path only reads the graph");
        return Err(error.hint("`vic graph` changes it").into());
    }
    json_response(StatusCode::OK, &caller.service().graph(request).await?)
}
