//! A request's body to a value: at most so many bytes of it and of all together, JSON, every field known and of its type.

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
use crate::serve::http::message::Held;
use crate::serve::http::refusal::Refusal;
use crate::serve::http::{Bridge, Shared};
use crate::serve::metrics::Refused;

/// Room that is made before anything has come: a length that is only announced costs nothing.
const FIRST_BYTES: usize = 64 << 10;

/// How much of a body that is too long is read on before the refusal is sent: a client that still sends when the
/// connection closes may never read it.
const DRAIN_BYTES: usize = 16 << 20;

/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// How long a whole body may take: the largest comes in time over any line, and whoever sends a byte now and then holds no
/// connection for ever.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(15);

/// Reads the whole body and takes it apart.
pub(crate) async fn parse<T: DeserializeOwned>(bridge: &Bridge, request: Request) -> Result<T, Refusal> {
    let (bytes, _held) = in_time(bridge, request).await?;
    Ok(json::json(&bytes)?)
}

/// Has the whole body of a request there before its handler, which reads it in its own way, begins.
pub(crate) async fn first(State(bridge): Shared, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match in_time(&bridge, Request::from_parts(head.clone(), body)).await {
        Ok((bytes, _held)) => next.run(Request::from_parts(head, bytes.into())).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// As [`parse()`]; a request without a body asks for nothing special.
pub(crate) async fn parse_or_default<T: DeserializeOwned + Default>(
    bridge: &Bridge,
    request: Request,
) -> Result<T, Refusal> {
    let (bytes, _held) = in_time(bridge, request).await?;
    if bytes.is_empty() {
        return Ok(T::default());
    }
    Ok(json::json(&bytes)?)
}

/// Takes the query part of the address apart.
pub(crate) fn query<T: DeserializeOwned>(request: &Request) -> Result<T, Refusal> {
    axum::extract::Query::try_from_uri(request.uri()).map(|it| it.0).map_err(|rejection| {
        let message = rejection.body_text();
        let field = json::named(&message);
        let error = Error::invalid(format!("cannot understand the query: {message}"));
        Refusal::from(Error { field, ..error })
    })
}

/// The whole body, and the room that it takes for as long as it is needed.
async fn in_time(bridge: &Bridge, request: Request) -> Result<(Vec<u8>, Held), Refusal> {
    let reading = read(request, bridge.max_body, bridge.messages.hold(usize::MAX));
    let read = tokio::time::timeout(bridge.body_time, reading).await.map_err(|_| Refusal::slow(bridge.body_time))?;
    read.inspect_err(|it| {
        if it.is_size() {
            bridge.desk.metrics.refused(Refused::Size);
        }
    })
}

async fn read(request: Request, limit: usize, mut held: Held) -> Result<(Vec<u8>, Held), Refusal> {
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|it| it.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    let mut chunks = request.into_body().into_data_stream();
    if announced > limit as u64 {
        drain(chunks, announced).await;
        return Err(Refusal::size(limit));
    }
    let mut bytes = Vec::with_capacity(FIRST_BYTES.min(announced as usize));
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Error::invalid(format!("the body ended early: {error}")))?;
        let refusal = match held.grow(chunk.len()) {
            _ if bytes.len() + chunk.len() > limit => Some(Refusal::size(limit)),
            taken => taken.err().map(Refusal::from),
        };
        if let Some(refusal) = refusal {
            // What is read on is not kept, nor is what came.
            drop((bytes, held));
            drain(chunks, 0).await;
            return Err(refusal);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, held))
}

/// Reads on for a while without keeping anything. Not what is far too long anyway.
async fn drain(mut chunks: BodyDataStream, announced: u64) {
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
    // The refusal is sent in any case.
    let _late = tokio::time::timeout(DRAIN_TIME, reading).await;
}
