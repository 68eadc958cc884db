//! Embeds texts on a server in batches of similar length, finds the text that makes a batch fail, and checks the vectors.

use std::ops::Range;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::embed::embedder::Vector;
use crate::embed::remote::http::Failure;
use crate::embed::tokenizer::truncate_to_tokens;
use crate::error::{Error, ErrorCode, Result};
use crate::model::TokenCounter;

/// Maximum estimated tokens of one request. Each text counts as long as the longest in the request, because many servers
/// pad. The counts come from [`crate::embed::tokenizer::TokenEstimate`], because servers do not make their tokenizer
/// available. Sixteen full-length texts take a server without a graphics card about a second, so a failure costs little and
/// other clients do not wait long.
const BATCH_TOKENS: usize = 16 * MAX_TOKENS;

/// Maximum number of texts in one request: common servers accept no more.
pub(super) const BATCH_TEXTS: usize = 64;

/// Number of concurrent requests of one call, so that the next batch is sent while the server computes. Servers queue
/// requests that they cannot run in parallel.
pub(super) const CONCURRENT_REQUESTS: usize = 2;

/// Maximum length of a text in estimated tokens, special tokens included; every common embedding model accepts this length.
pub(super) const MAX_TOKENS: usize = 512;

/// A text that every model can embed. It is sent to test whether a server works.
pub(super) const PROBE: &str = "probe";

/// The protocol of an embedding server.
#[async_trait::async_trait]
pub(super) trait Wire: Send + Sync {
    /// Embeds one batch of texts with one request, which is retried while the server is busy.
    async fn request(&self, texts: &[String]) -> Result<Vec<Vector>, Failure>;

    /// Returns the part of the fingerprint that distinguishes models of the same name: a digest of the weights, or the
    /// address of the server.
    ///
    /// # Errors
    /// The server cannot report the digest now. A substitute must not be returned, because the model would then count
    /// as another one.
    async fn weights(&self) -> Result<String>;
}

/// Embeds any number of texts, each truncated to the limit of `tokens`, and returns the vectors in the order of the texts.
/// A failed batch is halved repeatedly, to find the text that makes the request fail.
pub(super) async fn embed_all(wire: &dyn Wire, texts: &[String], tokens: &dyn TokenCounter) -> Result<Vec<Vector>> {
    let batches = LengthBatches::new(texts, tokens);
    let mut vectors = vec![Vector::new(); texts.len()];
    let mut answers = stream::iter(batches.ranges.iter().cloned())
        .map(|range| embed_batch(wire, &batches, range))
        .buffer_unordered(CONCURRENT_REQUESTS);
    while let Some(answer) = answers.try_next().await? {
        for (place, vector) in answer {
            vectors[place] = vector;
        }
    }
    Ok(vectors)
}

/// Texts grouped into batches of similar length.
struct LengthBatches {
    /// The truncated texts, longest first, so that a request that is too large for the server fails first instead of last.
    texts: Vec<String>,
    /// For each text in `texts`, its position in the caller's order.
    positions: Vec<usize>,
    ranges: Vec<Range<usize>>,
}

impl LengthBatches {
    fn new(texts: &[String], tokens: &dyn TokenCounter) -> LengthBatches {
        let mut sorted: Vec<(usize, usize, &str)> = texts
            .iter()
            .enumerate()
            .map(|(place, text)| {
                let text = truncate_to_tokens(text, tokens);
                (tokens.token_spans(text).len().max(1), place, text)
            })
            .collect();
        sorted.sort_by_key(|(count, ..)| std::cmp::Reverse(*count));
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for at in 0..sorted.len() {
            match ranges.last_mut() {
                Some(range)
                    if range.len() < BATCH_TEXTS && sorted[range.start].0 * (range.len() + 1) <= BATCH_TOKENS =>
                {
                    range.end = at + 1;
                }
                _ => ranges.push(at..at + 1),
            }
        }
        LengthBatches {
            texts: sorted.iter().map(|(.., text)| (*text).to_owned()).collect(),
            positions: sorted.iter().map(|(_, place, _)| *place).collect(),
            ranges,
        }
    }
}

/// Embeds one batch and returns each vector with the position of its text in the caller's order.
async fn embed_batch(wire: &dyn Wire, batches: &LengthBatches, whole: Range<usize>) -> Result<Vec<(usize, Vector)>> {
    let mut vectors = Vec::with_capacity(whole.len());
    let mut waiting = vec![whole];
    while let Some(Range { start, end }) = waiting.pop() {
        let outcome =
            wire.request(&batches.texts[start..end]).await.and_then(|it| check_and_normalise(it, end - start));
        match outcome {
            Ok(batch) => vectors.extend(batches.positions[start..end].iter().copied().zip(batch)),
            Err(Failure::Request(error)) => return Err(error),
            Err(Failure::Content(error)) if end - start == 1 => {
                check_server_embeds(wire, &batches.texts[start], &error).await?;
                let (number, all) = (batches.positions[start] + 1, batches.texts.len());
                let message = format!("text {number} of {all} cannot be embedded: {error}");
                // Returns `InvalidArgument`, which tells the caller that only this text failed and the others can be
                // embedded.
                return Err(Error { code: ErrorCode::InvalidArgument, message, ..error });
            }
            Err(Failure::Content(_)) => {
                let middle = start.midpoint(end);
                waiting.push(middle..end);
                waiting.push(start..middle);
            }
        }
    }
    Ok(vectors)
}

/// Checks that the server can embed at all, before an error is attributed to a text. A server without a loaded model, or
/// without free memory, rejects every text.
///
/// # Errors
/// [`ErrorCode::Unavailable`] if the server cannot embed [`PROBE`].
async fn check_server_embeds(wire: &dyn Wire, text: &str, said: &Error) -> Result<()> {
    if text == PROBE {
        return Ok(());
    }
    match wire.request(&[PROBE.into()]).await.and_then(|it| check_and_normalise(it, 1)) {
        Ok(_) => Ok(()),
        Err(Failure::Request(error)) => Err(error),
        Err(Failure::Content(_)) => {
            let text = format!("the embedding server rejects every text: {}", said.message);
            Err(Error::new(ErrorCode::Unavailable, text)
                .hint("check that the server has loaded the model and has enough memory"))
        }
    }
}

/// Checks the number of vectors, rejects zero or non-finite norms, and normalizes the vectors, because not every server
/// does.
fn check_and_normalise(mut vectors: Vec<Vector>, count: usize) -> Result<Vec<Vector>, Failure> {
    let broken = |text: &str| Failure::Content(Error::new(ErrorCode::FailedPrecondition, text));
    if vectors.len() != count {
        return Err(broken("the server returned a different number of vectors than texts"));
    }
    for vector in &mut vectors {
        let norm = vector.iter().map(|it| it * it).sum::<f32>().sqrt();
        if !norm.is_finite() || norm == 0.0 {
            return Err(broken("the server returned a vector with a zero or non-finite norm"));
        }
        vector.iter_mut().for_each(|it| *it /= norm);
    }
    Ok(vectors)
}

/// Checks that every vector has `dimension` numbers, as many as the vector of the probe text at startup.
pub(super) fn check_dimension(vectors: &[Vector], dimension: usize) -> Result<()> {
    match vectors.iter().find(|it| it.len() != dimension) {
        None => Ok(()),
        Some(odd) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("the server returned a vector of {} numbers instead of {dimension}", odd.len()),
        )
        .hint("the model on the server has changed: restart vicd and index again")),
    }
}
