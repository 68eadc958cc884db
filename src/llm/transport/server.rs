//! What the two kinds of server have in common: how they are reached, what they list, and how an answer comes in steps.

use futures::stream::{self, StreamExt};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::config::{EmbedBackend, EmbedConfig, EmbedDevice, EmbedEngine};
use crate::embed::egress::{self, Outbound, Purpose};
use crate::embed::remote;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::transport::lines::{self, Lines};
use crate::llm::transport::{Piece, PieceStream};
use crate::machine::computing;
use crate::model::llm::request::LlmRequest;
use crate::model::{PrivacyMode, ToolSpec};

/// A server, and the model on it that is asked when a request names none.
pub(super) struct Server {
    pub(super) base: String,
    pub(super) key: Option<String>,
    pub(super) model: String,
}

/// An answer as far as it has come.
pub(super) trait Reading: Send + 'static {
    /// Reads on: the pieces that came, of which only the last can be the end.
    fn step(&mut self) -> impl Future<Output = Result<Vec<Piece>>> + Send;
}

impl Server {
    pub(super) async fn client(&self, mode: PrivacyMode) -> Result<Outbound> {
        egress::client(&self.base, mode, Purpose::Reasoning, self.key.as_deref()).await
    }

    /// Turns texts into vectors, as a server of that kind does.
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
            // Of these, those of the kind are read.
            ollama_url: self.base.clone(),
            ollama_key: self.key.clone(),
            openai_url: self.base.clone(),
            openai_key: self.key.clone(),
            context_tokens: context,
        };
        crate::embed::open_server(&config, mode).await?.embed_documents(texts).await
    }
}

/// Returns the models that a server lists under `key`; `doubt` is the hint where it lists none. Asked once: somebody waits
/// for the answer.
///
/// # Errors
/// Nobody is there, a refusal, or `FailedPrecondition`: the answer holds no such list, or is too long to be looked at.
pub(super) async fn listed(client: &Outbound, url: &str, key: &str, doubt: &str) -> Result<Vec<Value>> {
    let sent = client.send(client.get(url)).await.map_err(|error| error.at(url))?;
    let (status, headers) = (sent.status(), sent.headers().clone());
    let body = remote::answer(sent).await.unwrap_or_default();
    if status != StatusCode::OK {
        return Err(remote::refusal(url, status, &headers, &String::from_utf8_lossy(&body)));
    }
    let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    match answer.get_mut(key).map(Value::take) {
        Some(Value::Array(models)) => Ok(models),
        _ => Err(Error::new(ErrorCode::FailedPrecondition, format!("`{url}` gave no usable answer")).hint(doubt)),
    }
}

/// Posts a question; returns the head of its answer, and the lines.
///
/// # Errors
/// Nobody is there, silence, or a refusal.
pub(super) async fn ask(
    client: &Outbound,
    url: &str,
    request: &LlmRequest,
    deadline: Instant,
    body: impl FnOnce() -> Value + Send,
) -> Result<(HeaderMap, Lines)> {
    let patience = request.patience;
    // Pictures are megabytes, and are written as letters.
    let posted = computing(|| client.post(url).timeout(patience.overall).json(&body()));
    let sent = timeout(patience.first, client.send(posted)).await.map_err(|_| lines::silence(url, false))?;
    let response = sent.map_err(|error| error.at(url))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut lines = Lines::new(response, url.into(), request, deadline);
    if status != StatusCode::OK {
        return Err(remote::refusal(url, status, &headers, &lines.rest().await?));
    }
    Ok((headers, lines))
}

/// The pieces of an answer to its end or its first error.
pub(super) fn pieces(reading: impl Reading) -> PieceStream {
    let steps = stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        match reading.step().await {
            Ok(pieces) => {
                let end = matches!(pieces.last(), Some(Piece::Done { .. }));
                let pieces = pieces.into_iter().map(Ok).collect::<Vec<_>>();
                Some((pieces, (!end).then_some(reading)))
            }
            Err(error) => Some((vec![Err(error)], None)),
        }
    });
    steps.flat_map(stream::iter).boxed()
}

/// A tool as both are told of it.
pub(super) fn offered(tool: &ToolSpec) -> Value {
    let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
    json!({ "type": "function", "function": function })
}
