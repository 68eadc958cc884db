//! Server-sent events: sends the streams of [`crate::serve::streams`] to clients that accept `text/event-stream`.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{BoxStream, StreamExt};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::serve::http::error_response::ErrorResponse;

/// Interval of keepalive comments on an idle stream, because proxies close streams that are idle for 30 to 60 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns whether the client accepts server-sent events.
pub(crate) fn accepts_events(request: &Request) -> bool {
    let accepts = |it: &header::HeaderValue| it.to_str().is_ok_and(|it| it.contains("text/event-stream"));
    request.headers().get_all(header::ACCEPT).iter().any(accepts)
}

/// Returns whether a response is a stream of server-sent events.
pub(crate) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    kind.is_some_and(|it| it.starts_with("text/event-stream"))
}

/// Returns the encoded error event that ends a stream.
pub(crate) fn final_error_event(refusal: &ErrorResponse) -> Bytes {
    format!("event: error\ndata: {}\n\n", refusal.body()).into()
}

/// Builds a server-sent event with a name and JSON data.
pub(crate) fn event(name: &str, data: &impl Serialize) -> Event {
    match serde_json::to_string(data) {
        Ok(json) => Event::default().event(name).data(json),
        Err(error) => error_event(Error::internal(error)),
    }
}

/// Builds a response that streams items as events. Ends after the first error, which is also sent as an event, or when
/// the client disconnects.
pub(crate) fn stream<T: Send + 'static>(
    items: BoxStream<'static, Result<T>>,
    tell: impl Fn(T) -> Event + Send + 'static,
) -> Response {
    let events = items.map(move |item| Ok::<_, Infallible>(item.map_or_else(error_event, &tell)));
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

fn error_event(error: Error) -> Event {
    Event::default().event("error").data(ErrorResponse::from(error).body().to_string())
}
