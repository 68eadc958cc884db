//! What the two kinds of embedding server have in common: sending with patience, finding the text that spoils a batch,
//! and checking what comes back. The wire formats are in [`crate::embed::ollama`] and [`crate::embed::openai`].

use std::time::Duration;

use reqwest::StatusCode;
use serde::de::DeserializeOwned;

use crate::embed::Vector;
use crate::embed::egress::{self, Outbound};
use crate::error::{Error, ErrorCode, Result};
use crate::model::PrivacyMode;

/// Texts in one request. Servers embed one after the other in any case; more only makes a failure dearer.
pub(crate) const BATCH: usize = 32;

/// Longest text in tokens that is sent: every common embedding model takes it, and the count is an estimate.
pub(crate) const MAX_TOKENS: usize = 512;

/// How often a request is repeated when the server is busy.
const TRIES: u32 = 5;

/// Wait before the first repetition; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// A server that embeds.
#[async_trait::async_trait]
pub(crate) trait Wire: Send + Sync {
    /// Embeds one batch with one request (repeated when the server is busy).
    async fn request(&self, texts: &[String]) -> Result<Vec<Vector>, Failure>;
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
    let mut wait = FIRST_WAIT;
    let mut attempt = 1;
    loop {
        let outcome = client.send(client.post(url).json(body)).await;
        let (busy, error) = match outcome {
            Ok(response) if response.status().is_success() => {
                return response.json().await.map_err(|error| {
                    let text = format!("`{url}` gave no usable answer: {}", egress::cause(&error));
                    Failure::Content(Error::new(ErrorCode::Unavailable, text))
                });
            }
            Ok(response) => {
                let status = response.status();
                let failure = explain(url, status, &response.text().await.unwrap_or_default());
                match failure {
                    Failure::Request(error) if is_busy(status) => (true, error),
                    other => return Err(other),
                }
            }
            Err(error) => (error.is_connect(), error.at(url)),
        };
        if !busy || attempt == TRIES {
            return Err(Failure::Request(error));
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
        attempt += 1;
    }
}

fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY)
}

/// Says whether an answer that is no success is about the content or about the request.
fn explain(url: &str, status: StatusCode, body: &str) -> Failure {
    let error = refusal(url, status, body);
    if error.code == ErrorCode::FailedPrecondition { Failure::Content(error) } else { Failure::Request(error) }
}

/// Turns an answer that is no success into an error; the message is the server's own. What the server cannot do with
/// this content is a [`ErrorCode::FailedPrecondition`].
pub(crate) fn refusal(url: &str, status: StatusCode, body: &str) -> Error {
    let text = format!("`{url}` answered {}: {}", status.as_u16(), error_text(body));
    match status {
        StatusCode::NOT_FOUND => Error::not_found(text).hint("install the model on the server, or choose another one"),
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

/// Where an Ollama server passes a model on to, if it does not run it itself.
pub(crate) async fn passed_on(client: &Outbound, base: &str, model: &str) -> Result<Option<String>> {
    let url = endpoint(base, "api/show");
    let answer: serde_json::Value = match post(client, &url, &serde_json::json!({ "model": model })).await {
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

/// Both servers put their message into `error`: as a text, or as an object with a `message`.
fn error_text(body: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let error = &json["error"];
    let text = error.as_str().or_else(|| error["message"].as_str()).unwrap_or(body).trim();
    text.chars().take(300).collect()
}

/// Embeds any number of texts. When a batch fails because of what is in it, halves find the text at fault: one bad text
/// fails a whole request.
pub(crate) async fn embed_all(wire: &dyn Wire, texts: &[String]) -> Result<Vec<Vector>> {
    let mut vectors: Vec<Vector> = Vec::with_capacity(texts.len());
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for start in (0..texts.len()).step_by(BATCH).rev() {
        waiting.push((start, (start + BATCH).min(texts.len())));
    }
    while let Some((start, end)) = waiting.pop() {
        let outcome = wire.request(&texts[start..end]).await.and_then(|it| normalised(it, end - start));
        match outcome {
            Ok(batch) => vectors.extend(batch),
            Err(Failure::Request(error)) => return Err(error),
            Err(Failure::Content(error)) if end - start == 1 => {
                let message = format!("text {} of {} cannot be embedded: {error}", start + 1, texts.len());
                // The code that tells the caller that it is this text, and that the others can go on.
                return Err(Error { code: ErrorCode::InvalidArgument, message, ..error });
            }
            Err(Failure::Content(_)) => {
                let middle = start.midpoint(end);
                waiting.push((middle, end));
                waiting.push((start, middle));
            }
        }
    }
    Ok(vectors)
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

/// Identifies a server's model: nothing more is known of it.
pub(crate) fn fingerprint(backend: &str, model: &str, dimension: usize) -> String {
    blake3::hash(format!("{backend}\0{model}\0{dimension}").as_bytes()).to_hex()[..32].to_string()
}

/// Joins the base address of a server and a path.
pub(crate) fn endpoint(base: &str, path: &str) -> String {
    format!("{}/{path}", base.trim_end_matches('/'))
}
