//! What the two kinds of embedding server have in common: batches of texts of like length, sending with patience, finding
//! the text that spoils a batch, and checking what comes back. The wire formats are in [`crate::embed::ollama`] and
//! [`crate::embed::openai`], the embedder over either in [`crate::embed::served`].

use std::ops::Range;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use reqwest::header::HeaderMap;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;

use crate::embed::Vector;
use crate::embed::egress::{self, Outbound};
use crate::embed::tokens::cut;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{PrivacyMode, TokenCounter};

/// Tokens in one request, each text counted as long as the longest of it, because many servers pad. By the estimate of
/// [`crate::embed::tokens::Estimate`]: servers do not show their tokenizer. Sixteen texts of full length: a second or so
/// for a server without a graphics card, so that a failure costs little and a busy server is not held up.
const BATCH_TOKENS: usize = 16 * MAX_TOKENS;

/// Texts in one request, however short: common servers take no more than so many.
pub(crate) const BATCH_TEXTS: usize = 64;

/// Requests under way for one call: the next batch is on its way while the server computes. Servers queue what they do
/// not compute side by side.
pub(crate) const REQUESTS_AT_ONCE: usize = 2;

/// Longest text in tokens that is sent: every common embedding model takes it, and the count is an estimate.
pub(crate) const MAX_TOKENS: usize = 512;

/// How often a request is sent at most when the server is busy and nobody waits.
pub(crate) const TRIES: u32 = 5;

/// Bytes of an answer: of as many texts as a request has, with vectors ten times as long as any model's.
const MOST_ANSWER_BYTES: usize = 64 << 20;

/// Bytes of a refusal that are read; more tells nobody more.
const MOST_REFUSAL_BYTES: usize = 64 << 10;

/// Characters of what a server says that are passed on, and of what is wrong with it.
const MOST_TOLD: usize = 300;

/// A server that asks for more is as good as away.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3_600);

/// Wait before the first repetition; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// A text that every model can embed.
pub(crate) const PROBE: &str = "probe";

/// A server that embeds.
#[async_trait::async_trait]
pub(crate) trait Wire: Send + Sync {
    /// Embeds one batch with one request (repeated when the server is busy).
    async fn request(&self, texts: &[String]) -> Result<Vec<Vector>, Failure>;

    /// What tells two models of the same name apart, for [`fingerprint`].
    ///
    /// # Errors
    /// The server cannot say it now; that must not look like another model.
    async fn weights(&self) -> Result<String>;
}

/// Why a batch failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something in the batch; smaller batches may pass.
    Content(Error),
    /// The server or the request as such.
    Request(Error),
}

/// Posts JSON and reads JSON; repeats with growing waits while the server is busy.
pub(crate) async fn post<T: DeserializeOwned>(
    client: &Outbound,
    url: &str,
    body: &serde_json::Value,
) -> Result<T, Failure> {
    exchange(client, client.post(url).json(body), url, TRIES).await
}

/// As [`post`], for whoever waits for the answer: a busy server is not asked again.
pub(crate) async fn post_once<T: DeserializeOwned>(
    client: &Outbound,
    url: &str,
    body: &serde_json::Value,
) -> Result<T, Failure> {
    exchange(client, client.post(url).json(body), url, 1).await
}

/// Reads JSON, as patiently as [`post`].
pub(crate) async fn get<T: DeserializeOwned>(client: &Outbound, url: &str) -> Result<T, Failure> {
    exchange(client, client.get(url), url, TRIES).await
}

async fn exchange<T: DeserializeOwned>(
    client: &Outbound,
    request: RequestBuilder,
    url: &str,
    tries: u32,
) -> Result<T, Failure> {
    let mut wait = FIRST_WAIT;
    let mut attempt = 1;
    loop {
        let outcome = client.send(request.try_clone().expect("no body here is a stream")).await;
        let (busy, error) = match outcome {
            Ok(response) if response.status().is_success() => {
                let read = async {
                    let body = answer(response).await?;
                    // It holds the value that does not fit, however long that is.
                    serde_json::from_slice(&body)
                        .map_err(|error| error.to_string().chars().take(MOST_TOLD).collect::<String>())
                };
                return read.await.map_err(|why| {
                    let text = format!("`{url}` gave no usable answer: {why}");
                    Failure::Content(Error::new(ErrorCode::Unavailable, text))
                });
            }
            Ok(response) => {
                let (status, headers) = (response.status(), response.headers().clone());
                let said = body(response, MOST_REFUSAL_BYTES).await.unwrap_or_default();
                let failure = explain(url, status, &headers, &String::from_utf8_lossy(&said));
                match failure {
                    Failure::Request(error) if is_busy(status) => (true, error),
                    other => return Err(other),
                }
            }
            Err(error) => (error.is_connect(), error.at(url)),
        };
        if !busy || attempt >= tries {
            return Err(Failure::Request(error));
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
        attempt += 1;
    }
}

/// Reads a whole answer, unless it is longer than any that a server gives at once; else says why not.
pub(crate) async fn answer(response: Response) -> Result<Vec<u8>, String> {
    body(response, MOST_ANSWER_BYTES).await
}

/// Reads a whole answer, unless it is longer than it may be; else says why not.
async fn body(mut response: Response, most: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| egress::cause(&error))? {
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

/// Says whether an answer that is no success is about the content or about the request.
fn explain(url: &str, status: StatusCode, headers: &HeaderMap, body: &str) -> Failure {
    let error = refusal(url, status, headers, body);
    if error.code == ErrorCode::FailedPrecondition { Failure::Content(error) } else { Failure::Request(error) }
}

/// Turns an answer that is no success into an error; the message is the server's own, and so is the wait before another
/// try. What the server cannot do with this content is a [`ErrorCode::FailedPrecondition`].
pub(crate) fn refusal(url: &str, status: StatusCode, headers: &HeaderMap, body: &str) -> Error {
    let body = serde_json::from_str(body).unwrap_or_else(|_| serde_json::Value::from(body));
    let wait = wait_in_headers(headers).or_else(|| wait_in(&body));
    coded(url, status, &error_text(&body)).retry_after(wait)
}

fn coded(url: &str, status: StatusCode, said: &str) -> Error {
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

/// Where an Ollama server passes a model on to, if it does not run it itself. Asked at most so many times while the server
/// is busy.
pub(crate) async fn passed_on(client: &Outbound, base: &str, model: &str, tries: u32) -> Result<Option<String>> {
    let url = endpoint(base, "api/show");
    let request = client.post(&url).json(&serde_json::json!({ "model": model }));
    let answer: serde_json::Value = match exchange(client, request, &url, tries).await {
        Ok(answer) => answer,
        Err(Failure::Content(error) | Failure::Request(error)) => return Err(error),
    };
    let place =
        ["remote_host", "remote_model"].iter().find_map(|key| answer[*key].as_str().filter(|it| !it.is_empty()));
    Ok(place.map(String::from))
}

/// The refusal of a model that is passed on.
pub(crate) fn leaves(model: &str, place: &str, mode: PrivacyMode) -> Error {
    Error::new(
        ErrorCode::PermissionDenied,
        format!("the privacy mode `{}` forbids model `{model}`: Ollama passes it on to `{place}`", mode.name()),
    )
    .hint("choose a model that runs on this machine")
}

/// The wait that headers ask for: in milliseconds, in seconds, or up to a date.
fn wait_in_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(wait) = text("retry-after-ms").and_then(|it| it.parse().ok()) {
        return Some(Duration::from_millis(wait).min(LONGEST_WAIT));
    }
    let asked = text("retry-after")?;
    let wait = match asked.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => {
            let until = chrono::DateTime::parse_from_rfc2822(asked).ok()?;
            // One that has passed is no wait.
            until.signed_duration_since(chrono::Utc::now()).to_std().unwrap_or_default()
        }
    };
    Some(wait.min(LONGEST_WAIT))
}

/// The wait that the JSON of an error asks for.
pub(crate) fn wait_in(body: &serde_json::Value) -> Option<Duration> {
    let wait = [&body["retry_after_ms"], &body["error"]["retry_after_ms"]].into_iter().find_map(|it| it.as_u64())?;
    Some(Duration::from_millis(wait).min(LONGEST_WAIT))
}

/// Both servers put their message into `error`: as a text, or as an object with a `message`.
fn error_text(body: &serde_json::Value) -> String {
    let error = &body["error"];
    let said = error.as_str().or_else(|| error["message"].as_str()).or_else(|| body.as_str());
    let text = said.map_or_else(|| body.to_string(), String::from);
    text.trim().chars().take(MOST_TOLD).collect()
}

/// Embeds any number of texts, each cut at what `tokens` says a text may have; gives the vectors in the order of the
/// texts. When a batch fails because of what is in it, halves find the text at fault: one bad text fails a whole request.
pub(crate) async fn embed_all(wire: &dyn Wire, texts: &[String], tokens: &dyn TokenCounter) -> Result<Vec<Vector>> {
    let batches = Batches::new(texts, tokens);
    let mut vectors = vec![Vector::new(); texts.len()];
    let mut answers = stream::iter(batches.ranges.iter().cloned())
        .map(|range| embed_batch(wire, &batches, range))
        .buffer_unordered(REQUESTS_AT_ONCE);
    while let Some(answer) = answers.try_next().await? {
        for (place, vector) in answer {
            vectors[place] = vector;
        }
    }
    Ok(vectors)
}

/// Texts in batches of like length.
struct Batches {
    /// Cut, the longest first: a request that is too large for the server fails at once, and not after all others.
    texts: Vec<String>,
    /// The place of each in the order of the caller.
    places: Vec<usize>,
    /// The batches.
    ranges: Vec<Range<usize>>,
}

impl Batches {
    fn new(texts: &[String], tokens: &dyn TokenCounter) -> Batches {
        let mut sorted: Vec<(usize, usize, &str)> = texts
            .iter()
            .enumerate()
            .map(|(place, text)| {
                let text = cut(text, tokens);
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
        Batches {
            texts: sorted.iter().map(|(.., text)| (*text).to_owned()).collect(),
            places: sorted.iter().map(|(_, place, _)| *place).collect(),
            ranges,
        }
    }
}

/// Embeds one batch; gives each vector with the place of its text.
async fn embed_batch(wire: &dyn Wire, batches: &Batches, whole: Range<usize>) -> Result<Vec<(usize, Vector)>> {
    let mut vectors = Vec::with_capacity(whole.len());
    let mut waiting = vec![whole];
    while let Some(Range { start, end }) = waiting.pop() {
        let outcome = wire.request(&batches.texts[start..end]).await.and_then(|it| normalised(it, end - start));
        match outcome {
            Ok(batch) => vectors.extend(batches.places[start..end].iter().copied().zip(batch)),
            Err(Failure::Request(error)) => return Err(error),
            Err(Failure::Content(error)) if end - start == 1 => {
                ask_of_any_text(wire, &batches.texts[start], &error).await?;
                let (number, all) = (batches.places[start] + 1, batches.texts.len());
                let message = format!("text {number} of {all} cannot be embedded: {error}");
                // The code that tells the caller that it is this text, and that the others can go on.
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

/// Before a text is said to be at fault: a server that has no model loaded, or runs out of memory, answers all texts alike.
///
/// # Errors
/// The server cannot embed a text that every model can ([`ErrorCode::Unavailable`]).
async fn ask_of_any_text(wire: &dyn Wire, text: &str, said: &Error) -> Result<()> {
    if text == PROBE {
        return Ok(());
    }
    match wire.request(&[PROBE.into()]).await.and_then(|it| normalised(it, 1)) {
        Ok(_) => Ok(()),
        Err(Failure::Request(error)) => Err(error),
        Err(Failure::Content(_)) => {
            let text = format!("the embedding server embeds nothing: {}", said.message);
            Err(Error::new(ErrorCode::Unavailable, text)
                .hint("look at the server: is the model loaded, is there memory?"))
        }
    }
}

/// Checks number, length and finiteness, and normalises: not every server does.
fn normalised(mut vectors: Vec<Vector>, count: usize) -> Result<Vec<Vector>, Failure> {
    let broken = |text: &str| Failure::Content(Error::new(ErrorCode::FailedPrecondition, text));
    if vectors.len() != count {
        return Err(broken("the server gave another number of vectors than texts"));
    }
    for vector in &mut vectors {
        let norm = vector.iter().map(|it| it * it).sum::<f32>().sqrt();
        if !norm.is_finite() || norm == 0.0 {
            return Err(broken("the server gave a vector without a length"));
        }
        vector.iter_mut().for_each(|it| *it /= norm);
    }
    Ok(vectors)
}

/// Checks that every vector has the length that the probe had.
pub(crate) fn check_dimension(vectors: &[Vector], dimension: usize) -> Result<()> {
    match vectors.iter().find(|it| it.len() != dimension) {
        None => Ok(()),
        Some(odd) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("the server gave a vector of {} numbers instead of {dimension}", odd.len()),
        )
        .hint("the model was changed on the server: restart vicd and index again")),
    }
}

/// Identifies a server's model. `weights` is what tells two models of the same name apart: the digest of the model where
/// the server gives one, else the address of the server, so that another server counts as another model.
pub(crate) fn fingerprint(backend: &str, model: &str, weights: &str, dimension: usize) -> String {
    let all = format!("{backend}\0{model}\0{weights}\0{dimension}");
    blake3::hash(all.as_bytes()).to_hex()[..32].to_string()
}

/// Joins the base address of a server and a path.
pub(crate) fn endpoint(base: &str, path: &str) -> String {
    format!("{}/{path}", base.trim_end_matches('/'))
}
