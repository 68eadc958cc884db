//! HTTP handler of the corpus API: `POST /v1/corpus/{verb}` for the eleven verbs and the management calls.

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value};

use crate::error::ErrorCode;
use crate::model::{CorpusReply, CorpusRequest};
use crate::serve::http::body;
use crate::serve::http::error_response::BUSY_RETRY_SECONDS;
use crate::serve::http::state::{CallerExtension, Reply, SharedState};

/// `POST /v1/corpus/{verb}`: runs a verb and returns the envelope with its result. A refused call has an HTTP error
/// status, and the reason in the envelope.
pub(crate) async fn call(
    State(bridge): SharedState,
    Extension(caller): CallerExtension,
    Path(verb): Path<String>,
    request: Request,
) -> Reply {
    let request: Map<String, Value> = body::parse_or_default(&bridge, request).await?;
    let CorpusReply { media_type, text, error_code: refused, accepted } =
        caller.service().corpus(CorpusRequest { verb, request }).await?;
    let status = match refused {
        Some(code) => StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::BAD_REQUEST),
        None if accepted => StatusCode::ACCEPTED,
        None => StatusCode::OK,
    };
    let mut response = (status, [(header::CONTENT_TYPE, media_type)], text).into_response();
    if refused == Some(ErrorCode::ResourceExhausted) {
        response.headers_mut().insert(header::RETRY_AFTER, BUSY_RETRY_SECONDS.into());
    }
    Ok(response)
}
