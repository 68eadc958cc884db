//! Ends responses whose key is revoked while they are sent: answer events, job progress or model output, on every protocol
//! of the TCP port and without code in the handlers. Each protocol marks such a response as incomplete, so that no client
//! mistakes a part for the complete response.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};

use crate::serve::http::error_response::ErrorResponse;
use crate::serve::http::sse;

/// A future that completes when the key is revoked.
type Revoked = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a handler until the key is revoked. Then a response that has not started becomes an error, and a streamed
/// response ends: gRPC with UNAUTHENTICATED, server-sent events with an error event, any other with a broken connection.
pub(crate) async fn end_on_revocation(
    revoked: impl Future<Output = ()> + Send + 'static,
    is_grpc: bool,
    answer: impl Future<Output = Response>,
) -> Response {
    let mut revoked: Revoked = Box::pin(revoked);
    let response = tokio::select! {
        biased;
        response = answer => response,
        () = &mut revoked => {
            let refusal = ErrorResponse::revoked();
            return if is_grpc { refusal.into_grpc() } else { refusal.into_response() };
        }
    };
    // Returns a buffered response unchanged, because it is complete and only needs to be sent.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let form = match is_grpc {
        true => StreamFormat::Grpc,
        false if sse::is_stream(&response) => StreamFormat::Events,
        false => StreamFormat::Bytes,
    };
    response.map(|body| Body::new(RevocableBody { body: Some(body), revoked, form }))
}

/// Format of a streamed response, which determines how it ends when the key is revoked.
#[derive(Clone, Copy)]
enum StreamFormat {
    /// gRPC: messages, then trailers with the status.
    Grpc,
    /// Server-sent events.
    Events,
    /// Any other format.
    Bytes,
}

impl StreamFormat {
    /// Returns the frame that ends the response in place of its remaining frames.
    fn final_frame(self) -> Result<Frame<Bytes>, axum::Error> {
        let refusal = ErrorResponse::revoked();
        match self {
            StreamFormat::Grpc => Ok(Frame::trailers(grpc_trailers(refusal))),
            StreamFormat::Events => Ok(Frame::data(sse::final_error_event(&refusal))),
            // The error makes HTTP/1.1 close the connection before the final chunk, and HTTP/2 reset the stream.
            StreamFormat::Bytes => Err(axum::Error::new(refusal.into_error())),
        }
    }
}

/// Body of a streamed response, which ends when the key is revoked.
struct RevocableBody {
    /// The body of the response; `None` after the revocation, because dropping it cancels the work that produces it.
    body: Option<Body>,
    revoked: Revoked,
    form: StreamFormat,
}

impl HttpBody for RevocableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let ending = self.get_mut();
        let Some(body) = &mut ending.body else { return Poll::Ready(None) };
        if ending.revoked.as_mut().poll(cx).is_pending() {
            return Pin::new(body).poll_frame(cx);
        }
        ending.body = None;
        Poll::Ready(Some(ending.form.final_frame()))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        // Reports no length, because the body may end early.
        SizeHint::default()
    }
}

/// Returns the trailers that report this error over gRPC.
fn grpc_trailers(refusal: ErrorResponse) -> HeaderMap {
    let (head, _) = refusal.into_grpc().into_parts();
    head.headers
        .into_iter()
        .filter_map(|(name, value)| Some((name?, value)))
        .filter(|it| is_grpc_header(&it.0))
        .collect()
}

fn is_grpc_header(name: &axum::http::HeaderName) -> bool {
    name.as_str().starts_with("grpc-")
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::header;
    use futures::StreamExt;
    use tokio::sync::oneshot;

    use super::*;

    const GRPC: &str = "application/grpc";
    const EVENTS: &str = "text/event-stream";
    const BYTES: &str = "text/csv";

    /// Starts a streamed response of this media type. Returns its body with one chunk and no end, a sender that revokes
    /// the key, and a receiver that fails when the response is dropped.
    async fn begun(kind: &'static str) -> (Body, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let (revoke, revoked) = oneshot::channel::<()>();
        let (held, dropped) = oneshot::channel::<()>();
        let first = futures::stream::iter([Ok::<_, std::io::Error>("first")]);
        let pieces = first.chain(futures::stream::pending()).map(move |it| {
            let _held = &held;
            it
        });
        let revoked = async move { drop(revoked.await) };
        let answer = async { ([(header::CONTENT_TYPE, kind)], Body::from_stream(pieces)).into_response() };
        (end_on_revocation(revoked, kind == GRPC, answer).await.into_body(), revoke, dropped)
    }

    async fn next(body: &mut Body) -> Option<Result<Frame<Bytes>, axum::Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
    }

    /// Returns the last frame of a streamed response of this media type after its key is revoked.
    async fn last(kind: &'static str) -> Result<Frame<Bytes>, axum::Error> {
        let (mut body, revoke, dropped) = begun(kind).await;
        assert_eq!(next(&mut body).await.unwrap().unwrap().into_data().unwrap(), "first");
        revoke.send(()).unwrap();
        let last = next(&mut body).await.unwrap_or_else(|| panic!("{kind} ends as if it were complete"));
        assert!(body.is_end_stream() && next(&mut body).await.is_none());
        assert!(dropped.await.is_err(), "the source of the response is dropped");
        last
    }

    #[tokio::test]
    async fn revoked_grpc_stream_ends_unauthenticated() {
        assert_eq!(last(GRPC).await.unwrap().into_trailers().unwrap()["grpc-status"], "16");
    }

    #[tokio::test]
    async fn revoked_event_stream_ends_with_error_event() {
        let told = last(EVENTS).await.unwrap().into_data().unwrap();
        let data = told.strip_prefix(b"event: error\ndata: ").and_then(|it| it.strip_suffix(b"\n\n")).unwrap();
        let data: serde_json::Value = serde_json::from_slice(data).unwrap();
        assert_eq!(data["error"]["code"], "unauthenticated", "{data}");
        assert!(data["error"]["hint"].is_string(), "{data}");
    }

    #[tokio::test]
    async fn revoked_byte_stream_breaks_off() {
        assert!(last(BYTES).await.unwrap_err().to_string().contains("the key was revoked"));
    }

    #[tokio::test]
    async fn pending_response_is_rejected_on_revocation() {
        for (is_grpc, status) in [(true, 200), (false, 401)] {
            let told = end_on_revocation(std::future::ready(()), is_grpc, std::future::pending()).await;
            assert_eq!(told.status().as_u16(), status);
            assert_eq!(told.headers().get("grpc-status").is_some_and(|it| it == "16"), is_grpc);
        }
    }

    #[tokio::test]
    async fn buffered_response_is_sent_despite_revocation() {
        let answer = async { "all of it".into_response() };
        let told = end_on_revocation(std::future::ready(()), false, answer).await;
        assert_eq!(to_bytes(told.into_body(), 100).await.unwrap(), "all of it");
    }
}
