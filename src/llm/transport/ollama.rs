//! The transport to an Ollama server: `POST /api/chat`, answered with one JSON object per line.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::config::EmbedBackend;
use crate::egress::{HttpClient, Purpose, SERVER_UNREACHABLE_HINT};
use crate::embed::remote::{self, Failure};
use crate::error::{Error, ErrorCode, Result};
use crate::llm::transport::answer_lines::{self, AnswerLines};
use crate::llm::transport::backend::{AnswerPiece, PieceStream, Transport};
use crate::llm::transport::server::{self, Server, tool_json};
use crate::model::PrivacyMode;
use crate::model::llm::capabilities::ModelCapability;
use crate::model::llm::event::{FinishReason, Usage};
use crate::model::llm::request::{LlmRequest, Message, ModelId, ToolCall, WorkloadKind};

/// How long the server keeps the model in memory after a request, so that the next question need not load it.
const KEEP_ALIVE: &str = "10m";
/// Maximum number of concurrent queries for model capabilities.
const CONCURRENT_QUERIES: usize = 4;

/// An Ollama server and its default model.
pub(super) struct Ollama {
    server: Server,
}

/// A parser of a streamed answer.
struct OllamaAnswer {
    lines: AnswerLines,
    /// Number of tool calls so far, to make ids for calls to which the server gives none.
    calls: usize,
}

impl Ollama {
    pub(super) fn new(base: &str, key: Option<String>, model: &str) -> Ollama {
        Ollama { server: Server { base: base.into(), key, model: model.into() } }
    }

    fn request_body(&self, request: &LlmRequest, model: &str) -> Value {
        let mut messages = Vec::new();
        if !request.system.is_empty() {
            messages.push(json!({ "role": "system", "content": request.system }));
        }
        messages.extend(request.messages.iter().map(message_json));
        if let Some(last) = messages.last_mut().filter(|_| !request.images.is_empty()) {
            // Ollama takes images as plain base64, without the prefix of a data URL.
            last["images"] = request.images.iter().map(|it| STANDARD.encode(it)).collect();
        }
        let mut options = json!({ "temperature": request.temperature, "num_predict": request.max_tokens });
        if let Some(seed) = request.seed {
            options["seed"] = seed.into();
        }
        if let Some(tokens) = request.context_tokens {
            options["num_ctx"] = tokens.into();
        }
        if let Some(rules) = request.guardrails.as_ref().filter(|it| !it.stop.is_empty()) {
            options["stop"] = rules.stop.clone().into();
        }
        let mut body = json!({
            "model": model, "messages": messages, "stream": true, "keep_alive": KEEP_ALIVE, "options": options,
            // Switches off the model's thinking, which would use up the tokens of the answer.
            "think": false,
        });
        if let Some(schema) = &request.schema {
            body["format"] = schema.clone();
        }
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(tool_json).collect();
        }
        body
    }

    fn with_hint(&self, model: &str, error: Error) -> Error {
        match error.code {
            ErrorCode::NotFound => error.hint(format!("run `ollama pull {model}`")),
            ErrorCode::Unavailable if error.hint.as_deref() == Some(SERVER_UNREACHABLE_HINT) => {
                error.hint("run `ollama serve`, or set VIC_OLLAMA_BASE_URL")
            }
            _ => error,
        }
    }

    /// Queries the capabilities of one model. Does not retry, because a caller waits for the answer.
    async fn model_capability(&self, client: &HttpClient, name: String) -> Result<ModelCapability> {
        let url = remote::endpoint(&self.server.base, "api/show");
        let shown: Value = remote::post_once(client, &url, &json!({ "model": name })).await.map_err(error_of)?;
        let mut it = ModelCapability::with_defaults(ModelId(name));
        let can = |what: &str| shown["capabilities"].as_array().is_some_and(|all| all.iter().any(|it| it == what));
        if shown["capabilities"].is_array() {
            let all = [
                ("completion", WorkloadKind::Chat),
                ("completion", WorkloadKind::Completion),
                ("tools", WorkloadKind::Tool),
                ("vision", WorkloadKind::Vision),
            ];
            it.workloads = all.into_iter().filter(|(what, _)| can(what)).map(|(_, kind)| kind).collect();
        }
        let length = shown["model_info"].as_object().into_iter().flatten();
        let length = length.filter(|(key, _)| key.ends_with(".context_length")).find_map(|(_, it)| it.as_u64());
        it.max_context_tokens = length.and_then(|it| u32::try_from(it).ok());
        it.max_tokens = it.max_context_tokens.unwrap_or(it.max_tokens);
        let place = ["remote_host", "remote_model"].iter().find_map(|key| shown[*key].as_str());
        it.passed_on_to = place.filter(|it| !it.is_empty()).map(String::from);
        Ok(it)
    }
}

fn message_json(message: &Message) -> Value {
    let mut sent = json!({ "role": message.role.name(), "content": message.content });
    if !message.tool_calls.is_empty() {
        let call = |it: &ToolCall| {
            // Parses the arguments, because Ollama expects an object and not a string.
            let arguments: Value = serde_json::from_str(&it.arguments_json).unwrap_or_else(|_| json!({}));
            json!({ "function": { "name": it.name, "arguments": arguments } })
        };
        sent["tool_calls"] = message.tool_calls.iter().map(call).collect();
    }
    if let Some((_, name)) = &message.answers {
        sent["tool_name"] = name.as_str().into();
    }
    sent
}

fn error_of(failure: Failure) -> Error {
    match failure {
        Failure::Content(error) | Failure::Request(error) => error,
    }
}

#[async_trait]
impl Transport for Ollama {
    fn backend(&self) -> &'static str {
        "ollama"
    }

    fn place(&self) -> String {
        self.server.base.clone()
    }

    fn model(&self) -> &str {
        &self.server.model
    }

    async fn capabilities(&self, mode: PrivacyMode) -> Result<Vec<ModelCapability>> {
        let client = self.server.client(mode).await?;
        let url = remote::endpoint(&self.server.base, "api/tags");
        let tags = server::list_models(&client, &url, "models", "check that an Ollama server runs there").await;
        let tags = tags.map_err(|error| self.with_hint(&self.server.model, error))?;
        let names: Vec<String> = tags.iter().filter_map(|it| it["name"].as_str().map(String::from)).collect();
        let looks = stream::iter(names).map(|name| self.model_capability(&client, name)).buffered(CONCURRENT_QUERIES);
        looks.try_collect().await
    }

    async fn capability(&self, model: &ModelId, mode: PrivacyMode) -> Result<ModelCapability> {
        self.model_capability(&self.server.client(mode).await?, model.0.clone()).await
    }

    fn takes_context(&self) -> bool {
        true
    }

    async fn stream(&self, request: LlmRequest) -> Result<PieceStream> {
        let patience = request.timeouts;
        let deadline = Instant::now() + patience.overall;
        let mode = request.privacy_mode;
        let model = request.model.as_ref().map_or(self.server.model.as_str(), |it| it.0.as_str());
        let client = self.server.client(mode).await?;
        let url = remote::endpoint(&self.server.base, "api/chat");
        if !Purpose::Reasoning.may_leave(mode) {
            // Makes one attempt only, because a caller waits for the answer.
            let show = timeout(patience.first, remote::remote_host_of_model(&client, &self.server.base, model, 1));
            let shown = show.await.map_err(|_| answer_lines::timeout_error(&url, false))?;
            match shown.map_err(|error| self.with_hint(model, error))? {
                None => (),
                Some(place) => return Err(remote::forwarded_model_error(model, &place, mode)),
            }
        }
        let asked =
            server::post_request(&client, &url, &request, deadline, || self.request_body(&request, model)).await;
        let (_, lines) = asked.map_err(|error| self.with_hint(model, error))?;
        Ok(server::pieces(OllamaAnswer { lines, calls: 0 }))
    }

    async fn embed(&self, texts: &[String], context: Option<u32>, mode: PrivacyMode) -> Result<Vec<Vec<f32>>> {
        self.server.embed(EmbedBackend::Ollama, texts, context, mode).await
    }
}

impl server::AnswerReader for OllamaAnswer {
    async fn step(&mut self) -> Result<Vec<AnswerPiece>> {
        let lines = &mut self.lines;
        let Some(line) = lines.next().await? else { return Err(lines.closed_early()) };
        if line.is_empty() {
            return Ok(Vec::new());
        }
        let Ok(value) = serde_json::from_str::<Value>(&line) else {
            // Reports an incomplete line as a closed connection, because a killed server leaves such a line.
            return Err(if line.starts_with('{') && !line.ends_with('}') {
                lines.closed_early()
            } else {
                lines.unparsable(&line)
            });
        };
        if let Some(error) = value["error"].as_str() {
            let text = format!("the model's answer broke off: {}", error.chars().take(300).collect::<String>());
            return Err(Error::new(ErrorCode::FailedPrecondition, text).retry_after(remote::retry_after_json(&value)));
        }
        if !value.is_object() || value.get("message").is_none() && value["done"] != true {
            return Err(lines.unparsable(&line));
        }
        let mut pieces = Vec::new();
        if let Some(text) = value["message"]["content"].as_str().filter(|it| !it.is_empty()) {
            lines.count_text(text)?;
            pieces.push(AnswerPiece::Text(text.to_string()));
        }
        for call in value["message"]["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let Some(name) = function["name"].as_str() else { return Err(lines.unparsable(&line)) };
            let arguments_json = match &function["arguments"] {
                Value::Null => "{}".to_string(),
                Value::String(text) => text.clone(),
                object => object.to_string(),
            };
            lines.count_text(&arguments_json)?;
            self.calls += 1;
            let id = call["id"].as_str().map_or_else(|| format!("call-{}", self.calls), String::from);
            pieces.push(AnswerPiece::Call(ToolCall { id, name: name.to_string(), arguments_json }));
        }
        if value["done"] == true {
            pieces.push(done_piece(&value, self.calls > 0));
        }
        Ok(pieces)
    }
}

fn done_piece(value: &Value, called: bool) -> AnswerPiece {
    let finish = match value["done_reason"].as_str() {
        None | Some("stop") if called => FinishReason::ToolCalls,
        None | Some("stop") => FinishReason::Stop,
        Some("length") => FinishReason::Length,
        Some(_) => FinishReason::Other,
    };
    let count = |key: &str| value[key].as_u64().unwrap_or(0);
    let usage = Usage { prompt_tokens: count("prompt_eval_count"), answer_tokens: count("eval_count") };
    AnswerPiece::Done { finish, usage }
}
