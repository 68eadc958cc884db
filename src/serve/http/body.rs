//! Reads and parses the JSON bodies of requests: limits their size, the total memory and the time, and rejects unknown
//! fields and wrong types.

use std::time::Duration;

use axum::body::BodyDataStream;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::proto::json;
use crate::serve::http::error_response::ErrorResponse;
use crate::serve::http::memory_limit::{MessageBudget, MessageMemory};
use crate::serve::http::state::{HttpState, SharedState};
use crate::serve::metrics::RejectionReason;

/// Initial size of the buffer for a body. The announced length of the body is not allocated in advance.
const INITIAL_BUFFER_BYTES: usize = 64 << 10;

/// Maximum number of bytes of an oversized body that are read and discarded before the error response, because a client
/// that is still sending when the connection closes may never read the response.
const DRAIN_BYTES: usize = 16 << 20;

/// Maximum time for discarding an oversized body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum size of the body of a login: a code or a key in JSON has a hundred bytes.
const MAX_LOGIN_BYTES: usize = 4 << 10;

/// A login must arrive completely within this time.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the whole body and parses it as JSON.
pub(crate) async fn parse_json<T: DeserializeOwned>(bridge: &HttpState, request: Request) -> Result<T, ErrorResponse> {
    let (bytes, _held) = read_with_timeout(bridge, request).await?;
    Ok(json::parse_object(&bytes)?)
}

/// Reads and parses the body of a login. A login needs no key, so that it has limits of its own: it takes nothing of the memory
/// for the bodies of authenticated callers.
pub(crate) async fn parse_login<T: DeserializeOwned>(request: Request) -> Result<T, ErrorResponse> {
    let memory = MessageBudget::with_budgets(MAX_LOGIN_BYTES, 0).hold(MAX_LOGIN_BYTES);
    let reading = read_body(request, MAX_LOGIN_BYTES, memory);
    let read = tokio::time::timeout(LOGIN_TIMEOUT, reading).await;
    let (bytes, _held) = read.map_err(|_| ErrorResponse::request_timeout(LOGIN_TIMEOUT))??;
    Ok(json::parse_object(&bytes)?)
}

/// Middleware that reads the whole body into memory, for a handler that parses it itself.
pub(crate) async fn buffer_body(State(bridge): SharedState, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match read_with_timeout(&bridge, Request::from_parts(head.clone(), body)).await {
        Ok((bytes, _held)) => next.run(Request::from_parts(head, bytes.into())).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Reads and parses the body like [`parse_json`]; an empty body gives the default value.
pub(crate) async fn parse_or_default<T: DeserializeOwned + Default>(
    bridge: &HttpState,
    request: Request,
) -> Result<T, ErrorResponse> {
    let (bytes, _held) = read_with_timeout(bridge, request).await?;
    if bytes.is_empty() {
        return Ok(T::default());
    }
    Ok(json::parse_object(&bytes)?)
}

/// Parses the query string of the URL.
pub(crate) fn parse_query<T: DeserializeOwned>(request: &Request) -> Result<T, ErrorResponse> {
    axum::extract::Query::try_from_uri(request.uri()).map(|it| it.0).map_err(|rejection| {
        let message = rejection.body_text();
        let field = json::field_in_message(&message);
        let error = Error::invalid(format!("cannot parse the query string: {message}"));
        ErrorResponse::from(Error { field, ..error })
    })
}

/// Reads the whole body within a timeout. Also returns the memory reserved for the body in the budget; keep this
/// reservation as long as the body.
async fn read_with_timeout(bridge: &HttpState, request: Request) -> Result<(Vec<u8>, MessageMemory), ErrorResponse> {
    let reading = read_body(request, bridge.max_body, bridge.message_budget.hold(usize::MAX));
    let read = tokio::time::timeout(bridge.body_time, reading)
        .await
        .map_err(|_| ErrorResponse::request_timeout(bridge.body_time))?;
    read.inspect_err(|it| {
        if it.is_payload_too_large() {
            bridge.desk.metrics.count_rejection(RejectionReason::Size);
        }
    })
}

async fn read_body(
    request: Request,
    limit: usize,
    mut held: MessageMemory,
) -> Result<(Vec<u8>, MessageMemory), ErrorResponse> {
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|it| it.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    let mut chunks = request.into_body().into_data_stream();
    if announced > limit as u64 {
        drain_body(chunks, announced).await;
        return Err(ErrorResponse::payload_too_large(limit));
    }
    let mut bytes = Vec::with_capacity(INITIAL_BUFFER_BYTES.min(announced as usize));
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Error::invalid(format!("the body ended early: {error}")))?;
        let refusal = match held.grow(chunk.len()) {
            _ if bytes.len() + chunk.len() > limit => Some(ErrorResponse::payload_too_large(limit)),
            taken => taken.err().map(ErrorResponse::from),
        };
        if let Some(refusal) = refusal {
            // Frees the memory first, because discarded bytes need none.
            drop((bytes, held));
            drain_body(chunks, 0).await;
            return Err(refusal);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, held))
}

/// Reads and discards the rest of a body for a limited time. Does nothing if its announced length exceeds `DRAIN_BYTES`.
async fn drain_body(mut chunks: BodyDataStream, announced: u64) {
    if announced > DRAIN_BYTES as u64 {
        return;
    }
    let reading = async {
        let mut left = DRAIN_BYTES;
        while let Some(Ok(chunk)) = chunks.next().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                break;
            }
        }
    };
    // Ignores a timeout, because the error response is sent in any case.
    let _late = tokio::time::timeout(DRAIN_TIMEOUT, reading).await;
}
