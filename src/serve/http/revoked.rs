//! An answer ends with the key that it was asked for with: whatever it is, the steps of an answer, the progress of a job or
//! the words of a model, on every protocol of the TCP port. No handler knows of it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};

use crate::serve::http::refusal::Refusal;

/// Returns when the key opens no more.
type Revoked = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Answers while the key opens. Once it does not, what was not answered is refused, and what comes piece by piece ends: over
/// gRPC with UNAUTHENTICATED.
pub(crate) async fn while_it_opens(
    revoked: impl Future<Output = ()> + Send + 'static,
    is_grpc: bool,
    answer: impl Future<Output = Response>,
) -> Response {
    let mut revoked: Revoked = Box::pin(revoked);
    let response = tokio::select! {
        biased;
        response = answer => response,
        () = &mut revoked => {
            let refusal = Refusal::revoked();
            return if is_grpc { refusal.into_grpc() } else { refusal.into_response() };
        }
    };
    // What is there as a whole is only to be sent.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| Body::new(Ending { body: Some(body), revoked, is_grpc }))
}

/// An answer that comes piece by piece.
struct Ending {
    /// None once the key opens no more: whatever makes the answer ends with it.
    body: Option<Body>,
    revoked: Revoked,
    is_grpc: bool,
}

impl HttpBody for Ending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let ending = self.get_mut();
        let Some(body) = &mut ending.body else { return Poll::Ready(None) };
        if ending.revoked.as_mut().poll(cx).is_pending() {
            return Pin::new(body).poll_frame(cx);
        }
        ending.body = None;
        Poll::Ready(ending.is_grpc.then(|| Ok(Frame::trailers(farewell()))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        // It may end before.
        SizeHint::default()
    }
}

/// What a client of gRPC reads behind the last message.
fn farewell() -> HeaderMap {
    let (head, _) = Refusal::revoked().into_grpc().into_parts();
    head.headers.into_iter().filter_map(|(name, value)| Some((name?, value))).filter(|it| is_of_grpc(&it.0)).collect()
}

fn is_of_grpc(name: &axum::http::HeaderName) -> bool {
    name.as_str().starts_with("grpc-")
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures::StreamExt;
    use tokio::sync::oneshot;

    use super::*;

    /// An answer whose first piece comes at once, and its second never; beside it what revokes the key, and what is dropped
    /// with the answer.
    async fn begun(is_grpc: bool) -> (Body, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let (revoke, revoked) = oneshot::channel::<()>();
        let (held, dropped) = oneshot::channel::<()>();
        let first = futures::stream::iter([Ok::<_, std::io::Error>("first")]);
        let pieces = first.chain(futures::stream::pending()).map(move |it| {
            let _held = &held;
            it
        });
        let revoked = async move { drop(revoked.await) };
        let answer = async { Body::from_stream(pieces).into_response() };
        (while_it_opens(revoked, is_grpc, answer).await.into_body(), revoke, dropped)
    }

    async fn next(body: &mut Body) -> Option<Frame<Bytes>> {
        std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.map(Result::unwrap)
    }

    #[tokio::test]
    async fn an_answer_under_way_ends_when_its_key_is_revoked_and_so_does_the_work_for_it() {
        for is_grpc in [true, false] {
            let (mut body, revoke, dropped) = begun(is_grpc).await;
            assert_eq!(next(&mut body).await.unwrap().into_data().unwrap(), "first");
            revoke.send(()).unwrap();
            let last = next(&mut body).await.map(|it| it.into_trailers().unwrap());
            assert_eq!(last.is_some(), is_grpc, "{last:?}");
            if let Some(trailers) = last {
                assert_eq!(trailers["grpc-status"], "16");
            }
            assert!(body.is_end_stream() && next(&mut body).await.is_none());
            assert!(dropped.await.is_err(), "what makes the answer is gone");
        }
    }

    #[tokio::test]
    async fn what_is_not_answered_yet_is_refused() {
        for (is_grpc, status) in [(true, 200), (false, 401)] {
            let told = while_it_opens(std::future::ready(()), is_grpc, std::future::pending()).await;
            assert_eq!(told.status().as_u16(), status);
            assert_eq!(told.headers().get("grpc-status").is_some_and(|it| it == "16"), is_grpc);
        }
    }

    #[tokio::test]
    async fn what_is_there_as_a_whole_is_sent() {
        let answer = async { "all of it".into_response() };
        let told = while_it_opens(std::future::ready(()), false, answer).await;
        assert_eq!(to_bytes(told.into_body(), 100).await.unwrap(), "all of it");
    }
}
