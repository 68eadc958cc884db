//! Limits the memory of waiting and running requests. A queue only counts requests; with images, they can hold gigabytes,
//! long after the incoming message stops being counted.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::request::LlmRequest;

/// Maximum bytes of all requests in the process: two messages of the maximum size.
const MOST: usize = 128 << 20;
/// Requests up to this size are not counted: the queues bound their number, and a question must not wait for another
/// caller's images.
const LIGHT: usize = 1 << 20;
/// Estimated bytes in memory per byte of parsed JSON.
const JSON: usize = 16;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// The memory of a request, counted until this is dropped.
#[derive(Debug)]
pub(super) struct Load {
    bytes: usize,
    held: &'static AtomicUsize,
}

impl Load {
    /// Counts the memory of a request.
    ///
    /// # Errors
    /// As [`Load::of_bytes`].
    pub(super) fn of(request: &LlmRequest) -> Result<Load> {
        Load::of_bytes(weight(request))
    }

    /// Counts `bytes` bytes.
    ///
    /// # Errors
    /// `ResourceExhausted` if the limit is exceeded.
    pub(super) fn of_bytes(bytes: usize) -> Result<Load> {
        Load::take(&HELD, bytes)
    }

    fn take(held: &'static AtomicUsize, bytes: usize) -> Result<Load> {
        let bytes = if bytes <= LIGHT { 0 } else { bytes };
        // A single request is accepted at any size.
        let more = |now: usize| (bytes == 0 || now == 0 || now.saturating_add(bytes) <= MOST).then_some(now + bytes);
        match held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Load { bytes, held }),
            Err(now) => {
                let [now, most] = [now, MOST].map(|it| it >> 20);
                let text = format!("model requests hold {now} MiB of at most {most} MiB: this one does not fit");
                Err(Error::new(ErrorCode::ResourceExhausted, text).hint("send less, or try again in a minute"))
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Returns the size of a request's contents in bytes.
fn weight(request: &LlmRequest) -> usize {
    let said = request
        .messages
        .iter()
        .map(|it| it.content.len() + it.tool_calls.iter().map(|call| call.arguments_json.len()).sum::<usize>());
    let tags = request.metadata.iter().map(|(key, value)| key.len() + value.len());
    let schemas = request.tools.iter().map(|it| &it.parameters).chain(&request.schema);
    let pictures = request.images.iter().map(Vec::len);
    let descriptions = request.tools.iter().map(|it| it.description.len());
    let texts = said.chain(tags).chain(pictures).chain(descriptions).sum::<usize>();
    request.system.len() + texts + schemas.map(|it| it.to_string().len() * JSON).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PrivacyMode;

    #[test]
    fn large_requests_are_limited_small_ones_are_not() {
        static HERE: AtomicUsize = AtomicUsize::new(0);
        let take = |bytes: usize| Load::take(&HERE, bytes);
        let large = [take(MOST / 2).unwrap(), take(MOST / 2).unwrap()];
        let error = take(LIGHT + 1).unwrap_err();
        assert!(error.code == ErrorCode::ResourceExhausted && error.message.contains("128 MiB"), "{error}");
        let small: Vec<Load> = (0..1_000).map(|_| take(LIGHT).unwrap()).collect();
        drop((large, small));
        let alone = take(2 * MOST).unwrap();
        assert!(take(LIGHT + 1).is_err());
        drop(alone);
        assert_eq!(HERE.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn images_texts_and_schemas_count() {
        let bare = LlmRequest::new(PrivacyMode::LocalOnly, "", "");
        assert_eq!(weight(&bare), 0);
        let images = vec![vec![0; 700], vec![0; 300]];
        let schema = Some(serde_json::json!(true));
        let full = LlmRequest { images, schema, ..LlmRequest::new(PrivacyMode::LocalOnly, "be brief", "who?") };
        assert_eq!(weight(&full), 1_000 + 8 + 4 + 4 * JSON);
    }
}
