//! The transport to an OpenAI-compatible server: `POST /v1/chat/completions`, answered with server-sent events.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::config::EmbedBackend;
use crate::egress::{HttpClient, SERVER_UNREACHABLE_HINT};
use crate::embed::remote;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::transport::answer_lines::AnswerLines;
use crate::llm::transport::backend::{AnswerPiece, PieceStream, Transport};
use crate::llm::transport::server::{self, Server, tool_json};
use crate::model::PrivacyMode;
use crate::model::llm::capabilities::ModelCapability;
use crate::model::llm::event::{FinishReason, Usage};
use crate::model::llm::request::{LlmRequest, Message, ModelId, ToolCall};

/// Maximum number of tool calls in one answer. Each streamed piece of a call has the index of the call; an index of
/// this or more is an error.
const MAX_CALLS: usize = 64;

/// An OpenAI-compatible server and its default model.
pub(super) struct OpenAi {
    server: Server,
}

/// A parser of a streamed answer.
struct OpenAiAnswer {
    lines: AnswerLines,
    /// True if the server does not stream, but sends the answer as one JSON object.
    whole: bool,
    finish: Option<FinishReason>,
    usage: Usage,
    /// Tool calls, assembled from the pieces that have arrived so far.
    calls: Vec<ToolCall>,
}

impl OpenAi {
    pub(super) fn new(base: &str, key: Option<String>, model: &str) -> OpenAi {
        // Removes `/v1`, because users configure the address with or without it.
        let base = base.trim_end_matches('/');
        OpenAi { server: Server { base: base.strip_suffix("/v1").unwrap_or(base).into(), key, model: model.into() } }
    }

    /// Returns the context size per request that a llama.cpp server was started with; `None` for other servers.
    async fn server_context(&self, client: &HttpClient) -> Option<u64> {
        let response = client.send(client.get(&remote::endpoint(&self.server.base, "props"))).await.ok()?;
        let props: Value = serde_json::from_slice(&remote::read_answer(response).await.ok()?).ok()?;
        props["default_generation_settings"]["n_ctx"].as_u64()
    }

    fn request_body(&self, request: &LlmRequest) -> Value {
        let mut messages = Vec::new();
        if !request.system.is_empty() {
            messages.push(json!({ "role": "system", "content": request.system }));
        }
        messages.extend(request.messages.iter().map(message_json));
        if let Some(last) = messages.last_mut().filter(|_| !request.images.is_empty()) {
            let mut parts = vec![json!({ "type": "text", "text": last["content"] })];
            parts.extend(
                request.images.iter().map(|it| json!({ "type": "image_url", "image_url": { "url": data_url(it) } })),
            );
            last["content"] = parts.into();
        }
        let model = request.model.as_ref().map_or(self.server.model.as_str(), |it| it.0.as_str());
        let mut body = json!({
            "model": model, "messages": messages, "stream": true, "stream_options": { "include_usage": true },
            "max_tokens": request.max_tokens, "temperature": request.temperature,
        });
        if let Some(seed) = request.seed {
            body["seed"] = seed.into();
        }
        if let Some(rules) = request.guardrails.as_ref().filter(|it| !it.stop.is_empty()) {
            body["stop"] = rules.stop.clone().into();
        }
        if let Some(schema) = &request.schema {
            let named = json!({ "name": "answer", "strict": true, "schema": schema });
            body["response_format"] = json!({ "type": "json_schema", "json_schema": named });
        }
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(tool_json).collect();
        }
        body
    }
}

fn message_json(message: &Message) -> Value {
    let mut sent = json!({ "role": message.role.name(), "content": message.content });
    if !message.tool_calls.is_empty() {
        let call = |it: &ToolCall| {
            let function = json!({ "name": it.name, "arguments": it.arguments_json });
            json!({ "id": it.id, "type": "function", "function": function })
        };
        sent["tool_calls"] = message.tool_calls.iter().map(call).collect();
    }
    if let Some((id, _)) = &message.answers {
        sent["tool_call_id"] = id.as_str().into();
    }
    sent
}

/// Returns an image as a data URL, with the type detected from its first bytes.
fn data_url(image: &[u8]) -> String {
    let kind = match image {
        [0xff, 0xd8, ..] => "jpeg",
        [b'G', b'I', b'F', ..] => "gif",
        [b'R', b'I', b'F', b'F', ..] => "webp",
        _ => "png",
    };
    format!("data:image/{kind};base64,{}", STANDARD.encode(image))
}

#[async_trait]
impl Transport for OpenAi {
    fn backend(&self) -> &'static str {
        "openai"
    }

    fn place(&self) -> String {
        self.server.base.clone()
    }

    fn model(&self) -> &str {
        &self.server.model
    }

    async fn capabilities(&self, mode: PrivacyMode) -> Result<Vec<ModelCapability>> {
        let client = self.server.client(mode).await?;
        let url = remote::endpoint(&self.server.base, "v1/models");
        let models = server::list_models(&client, &url, "data", "check that an OpenAI-compatible server runs there")
            .await
            .map_err(with_hint)?;
        // Queries another endpoint of llama.cpp for the actual context size, because the model list has only the size
        // with which the model was trained.
        let is_llama = models.iter().any(|it| it["meta"]["n_ctx_train"].is_u64() && !it["meta"]["n_ctx"].is_u64());
        let started_with = if is_llama { self.server_context(&client).await } else { None };
        let model = |it: &Value| {
            let name = it["id"].as_str()?;
            let mut model = ModelCapability::with_defaults(ModelId(name.into()));
            let length = |it: &Value| it.as_u64();
            // Looks in several fields, because vLLM and llama.cpp report the context size in different ones.
            let said = [length(&it["max_model_len"]), length(&it["meta"]["n_ctx"]), started_with];
            let length = said.into_iter().flatten().min().or(length(&it["meta"]["n_ctx_train"]));
            model.max_context_tokens = length.and_then(|it| u32::try_from(it).ok());
            model.max_tokens = model.max_context_tokens.unwrap_or(model.max_tokens);
            Some(model)
        };
        Ok(models.iter().filter_map(model).collect())
    }

    async fn stream(&self, request: LlmRequest) -> Result<PieceStream> {
        let deadline = Instant::now() + request.timeouts.overall;
        let client = self.server.client(request.privacy_mode).await?;
        let url = remote::endpoint(&self.server.base, "v1/chat/completions");
        let asked = server::post_request(&client, &url, &request, deadline, || self.request_body(&request)).await;
        let (headers, lines) = asked.map_err(with_hint)?;
        let kind = headers.get(reqwest::header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let whole = kind.is_some_and(|it| it.starts_with("application/json"));
        let reading = OpenAiAnswer { lines, whole, finish: None, usage: Usage::default(), calls: Vec::new() };
        Ok(server::pieces(reading))
    }

    async fn embed(&self, texts: &[String], context: Option<u32>, mode: PrivacyMode) -> Result<Vec<Vec<f32>>> {
        self.server.embed(EmbedBackend::OpenAi, texts, context, mode).await
    }
}

impl server::AnswerReader for OpenAiAnswer {
    async fn step(&mut self) -> Result<Vec<AnswerPiece>> {
        if self.whole {
            let text = self.lines.read_rest().await?;
            let mut pieces = self.parse_piece(&text, "message")?;
            pieces.extend(self.finish_pieces()?);
            return Ok(pieces);
        }
        // Treats the end of the stream after a finish reason as `[DONE]`, which not every server sends.
        let Some(line) = self.lines.next().await? else { return self.finish_pieces() };
        if line.is_empty() || line.starts_with(':') || line.starts_with("event:") || line.starts_with("id:") {
            return Ok(Vec::new());
        }
        match line.strip_prefix("data:").map(str::trim) {
            Some("[DONE]") => self.finish_pieces(),
            Some(data) => self.parse_piece(data, "delta"),
            None => match line.strip_prefix("error:") {
                Some(error) => Err(broken_answer(&serde_json::from_str(error).unwrap_or_else(|_| error.into()))),
                None => Err(self.lines.unparsable(&line)),
            },
        }
    }
}

impl OpenAiAnswer {
    /// Returns the last pieces: the tool calls, which are complete only now, and `Done`.
    fn finish_pieces(&mut self) -> Result<Vec<AnswerPiece>> {
        let finish = self.finish.ok_or_else(|| self.lines.closed_early())?;
        // Corrects the finish reason of servers that report `stop` although there are tool calls.
        let finish =
            if finish == FinishReason::Stop && !self.calls.is_empty() { FinishReason::ToolCalls } else { finish };
        if self.calls.iter().any(|it| it.name.is_empty()) {
            return Err(self.lines.unparsable("a call without a tool name"));
        }
        let mut pieces: Vec<AnswerPiece> = std::mem::take(&mut self.calls).into_iter().map(AnswerPiece::Call).collect();
        pieces.push(AnswerPiece::Done { finish, usage: self.usage });
        Ok(pieces)
    }

    fn parse_piece(&mut self, data: &str, holder: &str) -> Result<Vec<AnswerPiece>> {
        let Ok(value) = serde_json::from_str::<Value>(data) else {
            let half = data.starts_with('{') && !data.ends_with('}');
            return Err(if half { self.lines.closed_early() } else { self.lines.unparsable(data) });
        };
        if let Some(error) = value.get("error").filter(|it| !it.is_null()) {
            return Err(broken_answer(error));
        }
        let Some(choices) = value["choices"].as_array() else { return Err(self.lines.unparsable(data)) };
        if let Some(usage) = value["usage"].as_object() {
            let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
            self.usage = Usage { prompt_tokens: count("prompt_tokens"), answer_tokens: count("completion_tokens") };
        }
        // Accepts a piece without choices: it holds the token usage.
        let Some(choice) = choices.first() else { return Ok(Vec::new()) };
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish = Some(match reason {
                "stop" => FinishReason::Stop,
                "length" => FinishReason::Length,
                "tool_calls" | "function_call" => FinishReason::ToolCalls,
                "content_filter" => FinishReason::ContentFilter,
                _ => FinishReason::Other,
            });
        }
        for (place, call) in choice[holder]["tool_calls"].as_array().into_iter().flatten().enumerate() {
            self.add_call_piece(place, call)?;
        }
        match choice[holder]["content"].as_str().filter(|it| !it.is_empty()) {
            None => Ok(Vec::new()),
            Some(text) => {
                self.lines.count_text(text)?;
                Ok(vec![AnswerPiece::Text(text.to_string())])
            }
        }
    }

    /// Adds a piece of a tool call. The name comes with the first piece, the arguments in any number of pieces.
    fn add_call_piece(&mut self, place: usize, piece: &Value) -> Result<()> {
        let index = piece["index"].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(place);
        if index > self.calls.len() || index >= MAX_CALLS {
            return Err(self.lines.unparsable("a call with an index out of order"));
        }
        if index == self.calls.len() {
            let id = format!("call-{}", index + 1);
            self.calls.push(ToolCall { id, name: String::new(), arguments_json: String::new() });
        }
        let arguments = match &piece["function"]["arguments"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            object => object.to_string(),
        };
        self.lines.count_text(&arguments)?;
        let call = &mut self.calls[index];
        call.arguments_json.push_str(&arguments);
        if let Some(id) = piece["id"].as_str().filter(|it| !it.is_empty()) {
            call.id = id.to_string();
        }
        if let Some(name) = piece["function"]["name"].as_str() {
            call.name.push_str(name);
        }
        Ok(())
    }
}

/// Replaces the default hint for an unreachable server by one that names the setting of the address.
fn with_hint(error: Error) -> Error {
    match error.hint.as_deref() {
        Some(SERVER_UNREACHABLE_HINT) => error.hint("start the server, or set VIC_OPENAI_BASE_URL"),
        _ => error,
    }
}

fn broken_answer(error: &Value) -> Error {
    let text = error["message"].as_str().or(error.as_str()).unwrap_or("no reason given");
    let text: String = text.chars().take(300).collect();
    Error::new(ErrorCode::FailedPrecondition, format!("the model's answer broke off: {text}"))
        .retry_after(remote::retry_after_json(error))
}
