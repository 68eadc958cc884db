//! HTTP requests to model servers: sends and receives JSON, retries while the server is busy, and converts error responses.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;

use crate::egress::{self, HttpClient};
use crate::error::{Error, ErrorCode, Result};

/// A background request fails if the server is still busy after this many attempts.
pub(super) const MAX_ATTEMPTS: u32 = 5;

/// Maximum bytes of a response; a longer one is an error. Enough for a full request with vectors ten times as long as any
/// model's.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Maximum bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Maximum number of characters of a server's message, or of a parse error, that an error quotes.
const MAX_MESSAGE_CHARS: usize = 300;

/// Maximum delay that a server can request with `retry-after`; longer ones are reduced to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// Delay before the first retry; it doubles with each further retry.
const INITIAL_BACKOFF: Duration = Duration::from_millis(250);

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server rejected the content; smaller batches may succeed.
    Content(Error),
    /// The server failed, or rejected the request regardless of its content.
    Request(Error),
}

/// Posts JSON and returns the parsed JSON response; retries with exponential backoff while the server is busy.
pub(super) async fn post<T: DeserializeOwned>(
    client: &HttpClient,
    url: &str,
    body: &serde_json::Value,
) -> Result<T, Failure> {
    send_with_retries(client, client.post(url).json(body), url, MAX_ATTEMPTS).await
}

/// Like [`post`], but without retries, for requests for which a user waits.
pub(crate) async fn post_once<T: DeserializeOwned>(
    client: &HttpClient,
    url: &str,
    body: &serde_json::Value,
) -> Result<T, Failure> {
    send_with_retries(client, client.post(url).json(body), url, 1).await
}

/// Sends a GET request and returns the parsed JSON response, with the same retries as [`post`].
pub(super) async fn get<T: DeserializeOwned>(client: &HttpClient, url: &str) -> Result<T, Failure> {
    send_with_retries(client, client.get(url), url, MAX_ATTEMPTS).await
}

pub(super) async fn send_with_retries<T: DeserializeOwned>(
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
                    // Truncates the message, because it quotes the invalid value, which may be long.
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

/// Reads a response body, up to the maximum size of a response. Returns a message if that fails or the body is too long.
pub(crate) async fn read_answer(response: Response) -> Result<Vec<u8>, String> {
    read_body(response, MAX_ANSWER_BYTES).await
}

/// Reads a response body of up to `most` bytes. Returns a message if that fails or the body is too long.
async fn read_body(mut response: Response, most: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| egress::innermost_cause(&error))? {
        if body.len() + part.len() > most {
            return Err(format!("the response is longer than {} KiB", most >> 10));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY)
}

/// Classifies an error response: caused by the content of the request, or independent of it.
fn classify_error(url: &str, status: StatusCode, headers: &HeaderMap, body: &str) -> Failure {
    let error = error_from_response(url, status, headers, body);
    if error.code == ErrorCode::FailedPrecondition { Failure::Content(error) } else { Failure::Request(error) }
}

/// Converts an error response to an error with the server's own message and retry delay. [`ErrorCode::FailedPrecondition`]
/// means that the server cannot process the content.
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

/// Returns the delay before a retry that the headers request, in milliseconds, in seconds, or until a date.
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
            // Treats a date in the past as no delay.
            until.signed_duration_since(chrono::Utc::now()).to_std().unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// Returns the delay before a retry that the JSON of an error response requests.
pub(crate) fn retry_after_json(body: &serde_json::Value) -> Option<Duration> {
    let wait = [&body["retry_after_ms"], &body["error"]["retry_after_ms"]].into_iter().find_map(|it| it.as_u64())?;
    Some(Duration::from_millis(wait).min(MAX_RETRY_AFTER))
}

/// Returns the message in an error response. Both kinds of server put it into `error`: as a string, or as an object with a
/// `message`.
fn error_text(body: &serde_json::Value) -> String {
    let error = &body["error"];
    let said = error.as_str().or_else(|| error["message"].as_str()).or_else(|| body.as_str());
    let text = said.map_or_else(|| body.to_string(), String::from);
    text.trim().chars().take(MAX_MESSAGE_CHARS).collect()
}

/// Joins the base address of a server and a path to a URL.
pub(crate) fn endpoint(base: &str, path: &str) -> String {
    format!("{}/{path}", base.trim_end_matches('/'))
}
