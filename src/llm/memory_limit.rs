//! Limits the memory of queued and running model requests. The queues limit only their number, but requests with images
//! can occupy gigabytes, and stay in memory after the limit on incoming messages no longer counts them.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::request::LlmRequest;

/// Maximum bytes of all requests in the process, twice the maximum size of an incoming message; further requests are
/// rejected.
const MAX_HELD_BYTES: usize = 128 << 20;
/// Requests up to this size in bytes are not counted: the queues limit their number, and a question must not be rejected
/// because of another caller's images.
const UNCOUNTED_BYTES: usize = 1 << 20;
/// Estimated memory in bytes for each byte of JSON text that is parsed.
const BYTES_PER_JSON_BYTE: usize = 16;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Counts the memory of a request against the limit until this reservation is dropped.
#[derive(Debug)]
pub(super) struct MemoryReservation {
    bytes: usize,
    held: &'static AtomicUsize,
}

impl MemoryReservation {
    /// Counts the memory of a request against the limit.
    ///
    /// # Errors
    /// The same errors as [`MemoryReservation::reserve`].
    pub(super) fn for_request(request: &LlmRequest) -> Result<MemoryReservation> {
        MemoryReservation::reserve(request_bytes(request))
    }

    /// Counts `bytes` bytes against the limit.
    ///
    /// # Errors
    /// `ResourceExhausted` if the limit is exceeded.
    pub(super) fn reserve(bytes: usize) -> Result<MemoryReservation> {
        MemoryReservation::reserve_in(&HELD_BYTES, bytes)
    }

    fn reserve_in(held: &'static AtomicUsize, bytes: usize) -> Result<MemoryReservation> {
        let bytes = if bytes <= UNCOUNTED_BYTES { 0 } else { bytes };
        // Accepts a request of any size if no other is counted.
        let more =
            |now: usize| (bytes == 0 || now == 0 || now.saturating_add(bytes) <= MAX_HELD_BYTES).then_some(now + bytes);
        match held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(MemoryReservation { bytes, held }),
            Err(now) => {
                let [now, most] = [now, MAX_HELD_BYTES].map(|it| it >> 20);
                let text = format!("model requests use {now} MiB of at most {most} MiB, so this one is rejected");
                Err(Error::new(ErrorCode::ResourceExhausted, text)
                    .hint("send a smaller request, or try again in a minute"))
            }
        }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Returns the estimated memory of a request's contents in bytes.
fn request_bytes(request: &LlmRequest) -> usize {
    let said = request
        .messages
        .iter()
        .map(|it| it.content.len() + it.tool_calls.iter().map(|call| call.arguments_json.len()).sum::<usize>());
    let tags = request.metadata.iter().map(|(key, value)| key.len() + value.len());
    let schemas = request.tools.iter().map(|it| &it.parameters).chain(&request.schema);
    let pictures = request.images.iter().map(Vec::len);
    let descriptions = request.tools.iter().map(|it| it.description.len());
    let texts = said.chain(tags).chain(pictures).chain(descriptions).sum::<usize>();
    request.system.len() + texts + schemas.map(|it| it.to_string().len() * BYTES_PER_JSON_BYTE).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PrivacyMode;

    #[test]
    fn large_requests_are_limited_small_ones_are_not() {
        static HERE: AtomicUsize = AtomicUsize::new(0);
        let take = |bytes: usize| MemoryReservation::reserve_in(&HERE, bytes);
        let large = [take(MAX_HELD_BYTES / 2).unwrap(), take(MAX_HELD_BYTES / 2).unwrap()];
        let error = take(UNCOUNTED_BYTES + 1).unwrap_err();
        assert!(error.code == ErrorCode::ResourceExhausted && error.message.contains("128 MiB"), "{error}");
        let small: Vec<MemoryReservation> = (0..1_000).map(|_| take(UNCOUNTED_BYTES).unwrap()).collect();
        drop((large, small));
        let alone = take(2 * MAX_HELD_BYTES).unwrap();
        assert!(take(UNCOUNTED_BYTES + 1).is_err());
        drop(alone);
        assert_eq!(HERE.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn images_texts_and_schemas_count() {
        let bare = LlmRequest::new(PrivacyMode::LocalOnly, "", "");
        assert_eq!(request_bytes(&bare), 0);
        let images = vec![vec![0; 700], vec![0; 300]];
        let schema = Some(serde_json::json!(true));
        let full = LlmRequest { images, schema, ..LlmRequest::new(PrivacyMode::LocalOnly, "be brief", "who?") };
        assert_eq!(request_bytes(&full), 1_000 + 8 + 4 + 4 * BYTES_PER_JSON_BYTE);
    }
}
