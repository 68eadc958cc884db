//! Sends response bodies in pieces, and detects clients that do not read them.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// Maximum size of one piece of a body in bytes. Small, because HTTP/2 buffers a whole piece even if the client accepts
/// only a part of it.
const MAX_PIECE_BYTES: usize = 64 << 10;

/// While the client reads other responses of the connection, an unread one may wait this many times longer.
const OTHER_READS_FACTOR: u32 = 10;

/// The responses being sent on one connection.
#[derive(Default)]
pub(crate) struct ConnectionResponses(Mutex<ResponseState>);

#[derive(Default)]
struct ResponseState {
    /// Number of responses started so far.
    started: u64,
    /// Number of responses that are not finished.
    open: usize,
    /// Responses that wait until the client accepts the next piece: the number of each response, and since when it waits.
    waiting: HashMap<u64, Instant>,
    /// When a piece of any response was last passed on to be sent.
    last_read: Option<Instant>,
}

impl ConnectionResponses {
    /// Wraps the body of a response, so that it is known when the client last accepted a piece.
    pub(crate) fn track(self: &Arc<ConnectionResponses>, body: Body) -> Body {
        let mut answers = self.lock();
        answers.started += 1;
        answers.open += 1;
        let number = answers.started;
        drop(answers);
        Body::new(TrackedBody { number, body, rest: Bytes::new(), sending: self.clone() })
    }

    /// Returns whether no response is being sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().open == 0
    }

    /// Waits until a response has not been read for `patience`, or for [`OTHER_READS_FACTOR`] times as long if other
    /// responses were read meanwhile.
    pub(crate) async fn stalled(&self, patience: Duration) {
        while !self.lock().is_stalled(patience) {
            tokio::time::sleep(patience / 4).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, ResponseState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResponseState {
    fn is_stalled(&self, patience: Duration) -> bool {
        // Only pieces passed on to be sent count as reads; an open response that has nothing to send, e.g. of a paused
        // job, does not count.
        let takes_others = self.last_read.is_some_and(|it| it.elapsed() < patience);
        let patience = if takes_others { OTHER_READS_FACTOR * patience } else { patience };
        self.waiting.values().any(|since| since.elapsed() >= patience)
    }
}

/// Body of a response, sent in pieces that are tracked.
struct TrackedBody {
    number: u64,
    body: Body,
    /// Remainder of the last chunk of the body, to be split into the next pieces.
    rest: Bytes,
    sending: Arc<ConnectionResponses>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let answer = self.get_mut();
        answer.sending.lock().waiting.remove(&answer.number);
        if answer.rest.is_empty() {
            match ready!(Pin::new(&mut answer.body).poll_frame(cx)).map(|it| it.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => answer.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = answer.rest.split_to(answer.rest.len().min(MAX_PIECE_BYTES));
        let mut answers = answer.sending.lock();
        answers.last_read = Some(Instant::now());
        answers.waiting.insert(answer.number, Instant::now());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        let mut answers = self.sending.lock();
        answers.open -= 1;
        answers.waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn response_is_complete_in_pieces_with_known_length() {
        let sending = Arc::new(ConnectionResponses::default());
        let text: Vec<u8> = (0..200_000_u32).map(|it| it as u8).collect();
        let body = sending.track(Body::from(text.clone()));
        assert_eq!(body.size_hint().exact(), Some(200_000));
        let mut pieces = body.into_data_stream();
        let mut came = Vec::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece.unwrap();
            assert!(piece.len() <= MAX_PIECE_BYTES);
            came.extend(piece);
        }
        assert_eq!(came, text);
        drop(pieces);
        assert!(sending.is_idle());
    }

    #[tokio::test]
    async fn unread_response_stalls_and_idle_one_does_not() {
        let sending = Arc::new(ConnectionResponses::default());
        let patience = Duration::from_millis(20);
        let never = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let mut slow = sending.track(Body::from_stream(never)).into_data_stream();
        let asks = async { slow.next().await };
        tokio::select! {
            _ = asks => unreachable!("nothing is sent"),
            () = sending.stalled(patience) => panic!("nothing to read yet"),
            () = tokio::time::sleep(3 * patience) => (),
        }
        let mut unread = sending.track(Body::from(vec![0; 2 * MAX_PIECE_BYTES])).into_data_stream();
        unread.next().await.unwrap().unwrap();
        let reads_another = async {
            loop {
                let mut read = sending.track(Body::from(vec![0; 10])).into_data_stream();
                while read.next().await.is_some() {}
                tokio::time::sleep(patience / 4).await;
            }
        };
        tokio::select! {
            () = reads_another => (),
            () = sending.stalled(patience) => panic!("other responses are read meanwhile"),
            () = tokio::time::sleep(5 * patience) => (),
        }
        tokio::time::timeout(4 * patience, sending.stalled(patience))
            .await
            .expect("an idle response does not count as read");
        drop(unread);
        let calm = tokio::time::timeout(2 * patience, sending.stalled(patience)).await;
        assert!(calm.is_err() && !sending.is_idle(), "the idle response is still open");
    }
}
