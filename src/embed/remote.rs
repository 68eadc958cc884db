//! Shared client code of the two kinds of embedding server: batches texts of similar length, retries busy servers,
//! isolates the text that fails a batch, and checks the answer. The wire formats are in [`crate::embed::remote::ollama`] and
//! [`crate::embed::remote::openai`], the embedder over either in [`crate::embed::remote::embedder`].

pub(in crate::embed) mod embedder;
pub(in crate::embed) mod ollama;
pub(in crate::embed) mod openai;
#[cfg(test)]
pub(in crate::embed) mod tests;

use std::ops::Range;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use reqwest::header::HeaderMap;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;

use crate::embed::Vector;
use crate::embed::egress::{self, HttpClient};
use crate::embed::tokenizer::truncate_to_tokens;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{PrivacyMode, TokenCounter};

/// Token budget of one request. Each text counts as long as the longest in the request, because many servers pad. The counts
/// come from [`crate::embed::tokenizer::TokenEstimate`], because servers do not expose their tokenizer. Sixteen full-length texts
/// take a server without a graphics card about a second, so a failure costs little and other clients do not wait long.
const BATCH_TOKENS: usize = 16 * MAX_TOKENS;

/// Maximum texts in one request: common servers accept no more.
pub(crate) const BATCH_TEXTS: usize = 64;

/// Concurrent requests of one call: the next batch is in transit while the server computes. Servers queue requests that
/// they cannot run in parallel.
pub(crate) const CONCURRENT_REQUESTS: usize = 2;

/// Longest text in tokens. Every common embedding model accepts it; the count is an estimate.
pub(crate) const MAX_TOKENS: usize = 512;

/// Attempts while the server is busy, for background requests.
pub(crate) const MAX_ATTEMPTS: u32 = 5;

/// Maximum bytes of an answer: a full request with vectors ten times as long as any model's.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Maximum characters of a server's message, or of a parse error, in an error text.
const MAX_MESSAGE_CHARS: usize = 300;

/// Upper bound on the delay that a server may request with `retry-after`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// Backoff before the first retry; it doubles with each retry.
const INITIAL_BACKOFF: Duration = Duration::from_millis(250);

/// A text that every model can embed.
pub(crate) const PROBE: &str = "probe";

/// The wire protocol of an embedding server.
#[async_trait::async_trait]
pub(crate) trait Wire: Send + Sync {
    /// Embeds one batch with one request, retried while the server is busy.
    async fn request(&self, texts: &[String]) -> Result<Vec<Vector>, Failure>;

    /// Returns what distinguishes two models of the same name, for [`fingerprint`].
    ///
    /// # Errors
    /// The server cannot report it now. That must not look like another model.
    async fn weights(&self) -> Result<String>;
}

/// Why a batch failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server rejected the content; smaller batches may succeed.
    Content(Error),
    /// The server or the request as a whole failed.
    Request(Error),
}

/// Posts JSON and returns the parsed JSON answer; retries with exponential backoff while the server is busy.
pub(crate) async fn post<T: DeserializeOwned>(
    client: &HttpClient,
    url: &str,
    body: &serde_json::Value,
) -> Result<T, Failure> {
    send_with_retries(client, client.post(url).json(body), url, MAX_ATTEMPTS).await
}

/// As [`post`], without retries, for interactive requests.
pub(crate) async fn post_once<T: DeserializeOwned>(
    client: &HttpClient,
    url: &str,
    body: &serde_json::Value,
) -> Result<T, Failure> {
    send_with_retries(client, client.post(url).json(body), url, 1).await
}

/// Gets JSON, with the retries of [`post`].
pub(crate) async fn get<T: DeserializeOwned>(client: &HttpClient, url: &str) -> Result<T, Failure> {
    send_with_retries(client, client.get(url), url, MAX_ATTEMPTS).await
}

async fn send_with_retries<T: DeserializeOwned>(
    client: &HttpClient,
    request: RequestBuilder,
    url: &str,
    tries: u32,
) -> Result<T, Failure> {
    let mut wait = INITIAL_BACKOFF;
    let mut attempt = 1;
    loop {
        let outcome = client.send(request.try_clone().expect("request bodies are never streams")).await;
        let (busy, error) = match outcome {
            Ok(response) if response.status().is_success() => {
                let read = async {
                    let body = read_answer(response).await?;
                    // The message quotes the offending value, which may be long.
                    serde_json::from_slice(&body)
                        .map_err(|error| error.to_string().chars().take(MAX_MESSAGE_CHARS).collect::<String>())
                };
                return read.await.map_err(|why| {
                    let text = format!("`{url}` gave no usable answer: {why}");
                    Failure::Content(Error::new(ErrorCode::Unavailable, text))
                });
            }
            Ok(response) => {
                let (status, headers) = (response.status(), response.headers().clone());
                let said = read_body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
                let failure = classify_error(url, status, &headers, &String::from_utf8_lossy(&said));
                match failure {
                    Failure::Request(error) if is_busy(status) => (true, error),
                    other => return Err(other),
                }
            }
            Err(error) => (error.is_connect(), error.into_error(url)),
        };
        if !busy || attempt >= tries {
            return Err(Failure::Request(error));
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
        attempt += 1;
    }
}

/// Reads a response body, or says why not. Bodies over the size limit are rejected.
pub(crate) async fn read_answer(response: Response) -> Result<Vec<u8>, String> {
    read_body(response, MAX_ANSWER_BYTES).await
}

/// Reads a response body of up to `most` bytes, or says why not.
async fn read_body(mut response: Response, most: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| egress::innermost_cause(&error))? {
        if body.len() + part.len() > most {
            return Err(format!("it is longer than {} KiB", most >> 10));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY)
}

/// Classifies an error response: caused by the content, or by the request as a whole.
fn classify_error(url: &str, status: StatusCode, headers: &HeaderMap, body: &str) -> Failure {
    let error = error_from_response(url, status, headers, body);
    if error.code == ErrorCode::FailedPrecondition { Failure::Content(error) } else { Failure::Request(error) }
}

/// Converts an error response into an error with the server's own message and retry delay. Content that the server
/// cannot process is a [`ErrorCode::FailedPrecondition`].
pub(crate) fn error_from_response(url: &str, status: StatusCode, headers: &HeaderMap, body: &str) -> Error {
    let body = serde_json::from_str(body).unwrap_or_else(|_| serde_json::Value::from(body));
    let wait = retry_after_header(headers).or_else(|| retry_after_json(&body));
    error_with_code(url, status, &error_text(&body)).retry_after(wait)
}

fn error_with_code(url: &str, status: StatusCode, said: &str) -> Error {
    let text = format!("`{url}` answered {}: {said}", status.as_u16());
    match status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            Error::not_found(text).hint("install the model on the server, or choose another one")
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Error::new(ErrorCode::PermissionDenied, text).hint("check the API key")
        }
        _ if is_busy(status) => Error::new(ErrorCode::Unavailable, text).hint("try again later"),
        _ if status.is_redirection() => Error::new(ErrorCode::PermissionDenied, text),
        StatusCode::INTERNAL_SERVER_ERROR
        | StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNPROCESSABLE_ENTITY => Error::new(ErrorCode::FailedPrecondition, text),
        _ => Error::new(ErrorCode::Unavailable, text),
    }
}

/// Returns the remote host to which an Ollama server forwards a model, if any. Makes up to `tries` attempts while the
/// server is busy.
pub(crate) async fn remote_host_of_model(
    client: &HttpClient,
    base: &str,
    model: &str,
    tries: u32,
) -> Result<Option<String>> {
    let url = endpoint(base, "api/show");
    let request = client.post(&url).json(&serde_json::json!({ "model": model }));
    let answer: serde_json::Value = match send_with_retries(client, request, &url, tries).await {
        Ok(answer) => answer,
        Err(Failure::Content(error) | Failure::Request(error)) => return Err(error),
    };
    let place =
        ["remote_host", "remote_model"].iter().find_map(|key| answer[*key].as_str().filter(|it| !it.is_empty()));
    Ok(place.map(String::from))
}

/// Returns the error for a model that is forwarded to a remote host.
pub(crate) fn forwarded_model_error(model: &str, place: &str, mode: PrivacyMode) -> Error {
    Error::new(
        ErrorCode::PermissionDenied,
        format!("the privacy mode `{}` forbids model `{model}`: Ollama passes it on to `{place}`", mode.name()),
    )
    .hint("choose a model that runs on this machine")
}

/// Returns the delay that headers request: in milliseconds, in seconds, or until a date.
fn retry_after_header(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(wait) = text("retry-after-ms").and_then(|it| it.parse().ok()) {
        return Some(Duration::from_millis(wait).min(MAX_RETRY_AFTER));
    }
    let asked = text("retry-after")?;
    let wait = match asked.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => {
            let until = chrono::DateTime::parse_from_rfc2822(asked).ok()?;
            // A date in the past means no delay.
            until.signed_duration_since(chrono::Utc::now()).to_std().unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// Returns the delay that the JSON of an error requests.
pub(crate) fn retry_after_json(body: &serde_json::Value) -> Option<Duration> {
    let wait = [&body["retry_after_ms"], &body["error"]["retry_after_ms"]].into_iter().find_map(|it| it.as_u64())?;
    Some(Duration::from_millis(wait).min(MAX_RETRY_AFTER))
}

/// Extracts the error message. Both kinds of server put it into `error`: as a string, or as an object with a `message`.
fn error_text(body: &serde_json::Value) -> String {
    let error = &body["error"];
    let said = error.as_str().or_else(|| error["message"].as_str()).or_else(|| body.as_str());
    let text = said.map_or_else(|| body.to_string(), String::from);
    text.trim().chars().take(MAX_MESSAGE_CHARS).collect()
}

/// Embeds any number of texts, each truncated to the limit of `tokens`, and returns the vectors in the order of the
/// texts. One bad text fails a whole request, so a failed batch is bisected to find it.
pub(crate) async fn embed_all(wire: &dyn Wire, texts: &[String], tokens: &dyn TokenCounter) -> Result<Vec<Vector>> {
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
    /// Truncated, longest first: a request too large for the server then fails first instead of last.
    texts: Vec<String>,
    /// The position of each text in the caller's order.
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

/// Embeds one batch and returns each vector with the position of its text.
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
                // This code tells the caller that only this text failed and the others can proceed.
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

/// Checks that the server can embed at all before a text is blamed. A server without a loaded model, or out of memory,
/// rejects every text.
///
/// # Errors
/// The server cannot embed [`PROBE`] ([`ErrorCode::Unavailable`]).
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
                .hint("check the server: is the model loaded, is there enough memory?"))
        }
    }
}

/// Checks the number of vectors, normalises them (not every server does), and rejects zero or non-finite norms.
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

/// Checks that every vector is as long as that of the probe.
pub(crate) fn check_dimension(vectors: &[Vector], dimension: usize) -> Result<()> {
    match vectors.iter().find(|it| it.len() != dimension) {
        None => Ok(()),
        Some(odd) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("the server returned a vector of {} numbers instead of {dimension}", odd.len()),
        )
        .hint("the model on the server has changed: restart vicd and index again")),
    }
}

/// Identifies a server's model. `weights` distinguishes models of the same name: the model's digest if the server
/// reports one, otherwise the server's address, so that another server counts as another model.
pub(crate) fn fingerprint(backend: &str, model: &str, weights: &str, dimension: usize) -> String {
    let all = format!("{backend}\0{model}\0{weights}\0{dimension}");
    blake3::hash(all.as_bytes()).to_hex()[..32].to_string()
}

/// Joins the base address of a server and a path.
pub(crate) fn endpoint(base: &str, path: &str) -> String {
    format!("{}/{path}", base.trim_end_matches('/'))
}
