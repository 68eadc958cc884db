//! Code shared by the transports to Ollama and OpenAI-compatible servers: connecting, listing models, and streaming
//! answers.

use futures::stream::{self, StreamExt};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::config::{EmbedBackend, EmbedConfig, EmbedDevice, EmbedEngine};
use crate::egress::{self, HttpClient, Purpose};
use crate::embed::remote;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::transport::answer_lines::{self, AnswerLines};
use crate::llm::transport::backend::{AnswerPiece, PieceStream};
use crate::machine::block_in_place;
use crate::model::llm::request::LlmRequest;
use crate::model::{PrivacyMode, ToolSpec};

/// A model server, its API key and its default model.
pub(super) struct Server {
    pub(super) base: String,
    pub(super) key: Option<String>,
    pub(super) model: String,
}

/// A parser of a streamed answer.
pub(super) trait AnswerReader: Send + 'static {
    /// Reads the next pieces of the answer; only the last one can be `Done`.
    fn step(&mut self) -> impl Future<Output = Result<Vec<AnswerPiece>>> + Send;
}

impl Server {
    pub(super) async fn client(&self, mode: PrivacyMode) -> Result<HttpClient> {
        egress::open_client(&self.base, mode, Purpose::Reasoning, self.key.as_deref()).await
    }

    /// Computes embeddings of texts with the server's default model.
    pub(super) async fn embed(
        &self,
        kind: EmbedBackend,
        texts: &[String],
        context: Option<u32>,
        mode: PrivacyMode,
    ) -> Result<Vec<Vec<f32>>> {
        let config = EmbedConfig {
            backend: kind,
            model: self.model.clone(),
            threads: 0,
            batch: 0,
            precision: String::new(),
            engine: EmbedEngine::Auto,
            device: EmbedDevice::Cpu,
            // Sets the fields of both backends, because only those of the backend in use are read.
            ollama_url: self.base.clone(),
            ollama_key: self.key.clone(),
            openai_url: self.base.clone(),
            openai_key: self.key.clone(),
            context_tokens: context,
        };
        crate::embed::open_server(&config, mode).await?.embed_documents(texts).await
    }
}

/// Returns the models that a server lists under the JSON key `key`; `doubt` is the hint of the error if there is no list.
/// Does not retry, because a caller waits for the answer.
///
/// # Errors
/// The server is unreachable or returns an error; `FailedPrecondition`: the response has no such list or is too long.
pub(super) async fn list_models(client: &HttpClient, url: &str, key: &str, doubt: &str) -> Result<Vec<Value>> {
    let sent = client.send(client.get(url)).await.map_err(|error| error.into_error(url))?;
    let (status, headers) = (sent.status(), sent.headers().clone());
    let body = remote::read_answer(sent).await.unwrap_or_default();
    if status != StatusCode::OK {
        return Err(remote::error_from_response(url, status, &headers, &String::from_utf8_lossy(&body)));
    }
    let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    match answer.get_mut(key).map(Value::take) {
        Some(Value::Array(models)) => Ok(models),
        _ => Err(Error::new(ErrorCode::FailedPrecondition, format!("`{url}` gave no usable answer")).hint(doubt)),
    }
}

/// Posts a request with the JSON that `body` returns; returns the headers and the lines of the response.
///
/// # Errors
/// The server is unreachable, times out, or returns an error.
pub(super) async fn post_request(
    client: &HttpClient,
    url: &str,
    request: &LlmRequest,
    deadline: Instant,
    body: impl FnOnce() -> Value + Send,
) -> Result<(HeaderMap, AnswerLines)> {
    let patience = request.timeouts;
    // Tells the runtime that this blocks: encoding megabytes of images as base64 takes CPU time.
    let posted = block_in_place(|| client.post(url).timeout(patience.overall).json(&body()));
    let sent =
        timeout(patience.first, client.send(posted)).await.map_err(|_| answer_lines::timeout_error(url, false))?;
    let response = sent.map_err(|error| error.into_error(url))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut lines = AnswerLines::new(response, url.into(), request, deadline);
    if status != StatusCode::OK {
        return Err(remote::error_from_response(url, status, &headers, &lines.read_rest().await?));
    }
    Ok((headers, lines))
}

/// Returns the pieces of an answer as a stream, up to the end of the answer or the first error.
pub(super) fn pieces(reading: impl AnswerReader) -> PieceStream {
    let steps = stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        match reading.step().await {
            Ok(pieces) => {
                let end = matches!(pieces.last(), Some(AnswerPiece::Done { .. }));
                let pieces = pieces.into_iter().map(Ok).collect::<Vec<_>>();
                Some((pieces, (!end).then_some(reading)))
            }
            Err(error) => Some((vec![Err(error)], None)),
        }
    });
    steps.flat_map(stream::iter).boxed()
}

/// Returns the description of a tool as JSON, in the format of both APIs.
pub(super) fn tool_json(tool: &ToolSpec) -> Value {
    let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
    json!({ "type": "function", "function": function })
}
