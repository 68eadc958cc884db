//! Limits the memory for incoming gRPC messages and HTTP bodies, because they arrive before admission control. gRPC
//! messages also have a timeout.

use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::error::{Error, ErrorCode};
use crate::proto::{MAX_LLM_REQUEST, MAX_REQUEST, grpc_status};

/// A gRPC message must arrive completely within this time; otherwise the request fails.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum size of a message that counts as small, in bytes: larger than any question, job or list of texts.
const SMALL_MESSAGE: usize = 1 << 20;

/// Maximum total bytes of all small messages, and of all large messages, at one time. Separate, so that large messages
/// cannot use up the budget of the small ones.
const SMALL_BUDGET: usize = 128 << 20;
const LARGE_BUDGET: usize = 256 << 20;

/// Memory budget for all incoming messages and bodies. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MessageBudget {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// Memory that one message has reserved in the budget; released on drop.
pub(crate) struct MessageMemory {
    room: MessageBudget,
    max_length: usize,
    length: usize,
    parts: Vec<OwnedSemaphorePermit>,
}

impl MessageBudget {
    /// Creates a budget that suffices for at least two HTTP bodies of maximum size.
    pub(crate) fn new(max_body: usize) -> MessageBudget {
        MessageBudget::with_budgets(SMALL_BUDGET, LARGE_BUDGET.max(2 * max_body))
    }

    /// Creates a budget with these numbers of bytes for small and for large messages.
    pub(crate) fn with_budgets(small: usize, large: usize) -> MessageBudget {
        MessageBudget { small: Arc::new(Semaphore::new(small)), large: Arc::new(Semaphore::new(large)) }
    }

    /// Returns an empty reservation for a message of at most `most` bytes.
    pub(crate) fn hold(&self, most: usize) -> MessageMemory {
        MessageMemory { room: self.clone(), max_length: most, length: 0, parts: Vec::new() }
    }

    /// Returns the request with a body that fails after the timeout, or when the memory limit is reached. `may_be_large`
    /// allows messages as large as graphs and images are. Calls `refused` if the message is too large.
    pub(crate) fn limit_request(
        &self,
        request: Request,
        may_be_large: bool,
        refused: impl Fn() + Send + 'static,
    ) -> Request {
        let (most, longest) = if may_be_large { (usize::MAX, MAX_LLM_REQUEST) } else { (MAX_REQUEST, MAX_REQUEST) };
        let mut held = self.hold(most);
        request.map(|body| {
            let in_time = body.into_data_stream().take_until(tokio::time::sleep(MESSAGE_TIMEOUT));
            Body::from_stream(in_time.map(move |bytes| {
                let bytes: Bytes = bytes?;
                if held.length == 0 && announced_length(&bytes).is_some_and(|it| it > longest) {
                    refused();
                    // Does not ask the client to retry, because the message would be too large again.
                    return Err(Status::resource_exhausted(too_large_message(longest)).into());
                }
                held.grow(bytes.len()).map_err(grpc_status::from_error)?;
                Ok::<_, BoxError>(bytes)
            }))
        })
    }
}

/// Returns the length of a gRPC message from its header, where the length follows the compression byte. tonic also rejects
/// long messages, but with the status `OUT_OF_RANGE`, which a client cannot tell from an invalid number.
fn announced_length(first: &[u8]) -> Option<usize> {
    let length = first.get(1..5)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(length)).ok()
}

fn too_large_message(most: usize) -> String {
    format!("the message is larger than {} MiB", most >> 20)
}

impl MessageMemory {
    /// Reserves `by` more bytes for the message.
    ///
    /// # Errors
    /// `ResourceExhausted` if the message is too large, or the budget is used up.
    pub(crate) fn grow(&mut self, by: usize) -> Result<(), Error> {
        self.length += by;
        if self.length > self.max_length {
            return Err(Error::new(ErrorCode::ResourceExhausted, too_large_message(self.max_length)));
        }
        let room = if self.length <= SMALL_MESSAGE { &self.room.small } else { &self.room.large };
        let bytes = u32::try_from(by).map_err(Error::internal)?;
        let part = room.clone().try_acquire_many_owned(bytes).map_err(|_| {
            Error::new(ErrorCode::ResourceExhausted, "busy: the request bodies in memory have reached their limit")
                .hint("try again in a second")
        })?;
        match self.parts.last_mut().filter(|it| Arc::ptr_eq(it.semaphore(), room)) {
            Some(last) => last.merge(part),
            None => self.parts.push(part),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many bytes of a message were received, or the error message.
    async fn came(messages: &MessageBudget, length: usize, may_be_large: bool) -> Result<usize, String> {
        let request = Request::new(Body::from_stream(futures::stream::iter(pieces(length))));
        let mut body = messages.limit_request(request, may_be_large, || ()).into_body().into_data_stream();
        let mut length = 0;
        while let Some(bytes) = body.next().await {
            length += bytes.map_err(told)?.len();
        }
        Ok(length)
    }

    /// Returns the error message that the client gets.
    fn told(error: axum::Error) -> String {
        let status = tonic::Status::from_error(error.into());
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
        status.message().into()
    }

    fn pieces(length: usize) -> Vec<Result<Bytes, std::io::Error>> {
        vec![0; length].chunks(16 << 10).map(|it| Ok(Bytes::copy_from_slice(it))).collect()
    }

    // Case D10
    #[tokio::test]
    async fn announced_oversized_message_is_rejected_at_once() {
        let messages = MessageBudget::with_budgets(2 * SMALL_MESSAGE, 8 * SMALL_MESSAGE);
        for (length, may_be_large, is_refused) in [
            (MAX_REQUEST, false, false),
            (MAX_REQUEST + 1, false, true),
            (1 << 30, false, true),
            (MAX_REQUEST + 1, true, false),
            (MAX_LLM_REQUEST + 1, true, true),
        ] {
            let length_bytes = u32::try_from(length).unwrap().to_be_bytes();
            let first = [&[0][..], &length_bytes, b"the rest never comes"].concat();
            let pieces = futures::stream::iter([Ok::<_, std::io::Error>(first)]).chain(futures::stream::pending());
            let request = messages.limit_request(Request::new(Body::from_stream(pieces)), may_be_large, || ());
            let first = request.into_body().into_data_stream().next().await.unwrap();
            assert_eq!(first.is_err(), is_refused, "{length}");
            let said = first.map_err(told).err().unwrap_or_default();
            assert_eq!(said.contains("larger than"), is_refused, "{length}: {said}");
        }
    }

    // Case D10
    #[tokio::test]
    async fn large_messages_leave_memory_for_small_ones() {
        let messages = MessageBudget::with_budgets(2 * SMALL_MESSAGE, 8 * SMALL_MESSAGE);
        assert_eq!(came(&messages, MAX_REQUEST, false).await, Ok(MAX_REQUEST));
        assert!(came(&messages, MAX_REQUEST + 1, false).await.unwrap_err().contains("larger than 4 MiB"));
        assert_eq!(came(&messages, 8 * SMALL_MESSAGE, true).await, Ok(8 * SMALL_MESSAGE));
        assert!(came(&messages, 10 * SMALL_MESSAGE, true).await.unwrap_err().contains("busy"));
        // Keeps a message incomplete, so that its memory stays reserved.
        let waits = futures::stream::iter(pieces(8 * SMALL_MESSAGE)).chain(futures::stream::pending());
        let request = messages.limit_request(Request::new(Body::from_stream(waits)), true, || ());
        let mut body = request.into_body().into_data_stream();
        for _ in pieces(8 * SMALL_MESSAGE) {
            body.next().await.unwrap().unwrap();
        }
        assert!(came(&messages, 3 * SMALL_MESSAGE, true).await.unwrap_err().contains("busy"));
        assert_eq!(came(&messages, SMALL_MESSAGE, true).await, Ok(SMALL_MESSAGE));
        drop(body);
        assert_eq!(came(&messages, 8 * SMALL_MESSAGE, true).await, Ok(8 * SMALL_MESSAGE));
    }
}
