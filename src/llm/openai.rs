//! An OpenAI-compatible server: `POST /v1/chat/completions`, server-sent events.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::embed::egress::{self, AWAY, Purpose};
use crate::embed::remote;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::lines::{self, Lines};
use crate::llm::{Finish, Llm, LlmEvent, LlmRequest, LlmStream, Role, Usage};

/// A model on an OpenAI-compatible server.
pub(super) struct OpenAi {
    base: String,
    key: Option<String>,
    model: String,
}

/// An answer as far as it has come.
struct Reading {
    lines: Lines,
    /// Servers that do not stream answer with one JSON object.
    whole: bool,
    finish: Option<Finish>,
    usage: Usage,
}

impl OpenAi {
    pub(super) fn new(base: &str, key: Option<String>, model: &str) -> OpenAi {
        // People give the address with and without the version.
        let base = base.trim_end_matches('/');
        OpenAi { base: base.strip_suffix("/v1").unwrap_or(base).into(), key, model: model.into() }
    }

    fn body(&self, request: &LlmRequest) -> Value {
        let mut messages = Vec::new();
        if !request.system.is_empty() {
            messages.push(json!({ "role": "system", "content": request.system }));
        }
        for message in &request.messages {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            messages.push(json!({ "role": role, "content": message.content }));
        }
        if let Some(last) = messages.last_mut().filter(|_| !request.images.is_empty()) {
            let mut parts = vec![json!({ "type": "text", "text": last["content"] })];
            parts.extend(
                request.images.iter().map(|it| json!({ "type": "image_url", "image_url": { "url": data_url(it) } })),
            );
            last["content"] = parts.into();
        }
        let mut body = json!({
            "model": self.model, "messages": messages, "stream": true, "stream_options": { "include_usage": true },
            "max_tokens": request.max_tokens, "temperature": request.temperature,
        });
        if let Some(seed) = request.seed {
            body["seed"] = seed.into();
        }
        if let Some(schema) = &request.schema {
            let named = json!({ "name": "answer", "strict": true, "schema": schema });
            body["response_format"] = json!({ "type": "json_schema", "json_schema": named });
        }
        body
    }
}

/// An image as an address that holds it, with the type that its first bytes say.
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
impl Llm for OpenAi {
    fn name(&self) -> &str {
        &self.model
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream> {
        let patience = request.patience;
        let deadline = Instant::now() + patience.overall;
        let client = egress::client(&self.base, request.privacy_mode, Purpose::Reasoning, self.key.as_deref())?;
        let url = remote::endpoint(&self.base, "v1/chat/completions");
        let sent = client.send(client.post(&url).timeout(patience.overall).json(&self.body(&request)));
        let response = timeout(patience.first, sent).await.map_err(|_| lines::silence(&url, false))?;
        let response = response.map_err(|error| hint(error.at(&url)))?;
        let status = response.status();
        let kind = response.headers().get(reqwest::header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let whole = kind.is_some_and(|it| it.starts_with("application/json"));
        let mut lines = Lines::new(response, url.clone(), &request, deadline);
        if status != StatusCode::OK {
            return Err(remote::refusal(&url, status, &lines.rest().await?));
        }
        let reading = Reading { lines, whole, finish: None, usage: Usage::default() };
        let steps = futures::stream::unfold(Some(reading), |reading| async move {
            let mut reading = reading?;
            match reading.step().await {
                Ok(events) => {
                    let end = matches!(events.last(), Some(LlmEvent::Done { .. }));
                    let events = events.into_iter().map(Ok).collect::<Vec<_>>();
                    Some((events, (!end).then_some(reading)))
                }
                Err(error) => Some((vec![Err(error)], None)),
            }
        });
        Ok(steps.flat_map(futures::stream::iter).boxed())
    }
}

impl Reading {
    /// Reads the next line.
    async fn step(&mut self) -> Result<Vec<LlmEvent>> {
        if self.whole {
            let text = self.lines.rest().await?;
            let mut events = self.piece(&text, "message")?;
            events.push(self.done()?);
            return Ok(events);
        }
        // The end of the stream after the reason for it is as good as `[DONE]`, which not every server sends.
        let Some(line) = self.lines.next().await? else { return Ok(vec![self.done()?]) };
        if line.is_empty() || line.starts_with(':') || line.starts_with("event:") || line.starts_with("id:") {
            return Ok(Vec::new());
        }
        match line.strip_prefix("data:").map(str::trim) {
            Some("[DONE]") => Ok(vec![self.done()?]),
            Some(data) => self.piece(data, "delta"),
            None => match line.strip_prefix("error:") {
                Some(error) => Err(broke_off(&serde_json::from_str(error).unwrap_or_else(|_| error.into()))),
                None => Err(self.lines.nonsense(&line)),
            },
        }
    }

    fn done(&self) -> Result<LlmEvent> {
        let finish = self.finish.ok_or_else(|| self.lines.cut())?;
        Ok(LlmEvent::Done { finish, usage: self.usage })
    }

    fn piece(&mut self, data: &str, holder: &str) -> Result<Vec<LlmEvent>> {
        let Ok(value) = serde_json::from_str::<Value>(data) else {
            let half = data.starts_with('{') && !data.ends_with('}');
            return Err(if half { self.lines.cut() } else { self.lines.nonsense(data) });
        };
        if let Some(error) = value.get("error").filter(|it| !it.is_null()) {
            return Err(broke_off(error));
        }
        let Some(choices) = value["choices"].as_array() else { return Err(self.lines.nonsense(data)) };
        if let Some(usage) = value["usage"].as_object() {
            let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
            self.usage = Usage { prompt_tokens: count("prompt_tokens"), answer_tokens: count("completion_tokens") };
        }
        // The piece with the usage has no choices.
        let Some(choice) = choices.first() else { return Ok(Vec::new()) };
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish = Some(match reason {
                "stop" => Finish::Stop,
                "length" => Finish::Length,
                _ => Finish::Other,
            });
        }
        match choice[holder]["content"].as_str().filter(|it| !it.is_empty()) {
            None => Ok(Vec::new()),
            Some(text) => {
                self.lines.count(text)?;
                Ok(vec![LlmEvent::Text(text.to_string())])
            }
        }
    }
}

/// Says what to do when nobody is there.
fn hint(error: Error) -> Error {
    match error.hint.as_deref() {
        Some(AWAY) => error.hint("start the server, or set VIC_OPENAI_BASE_URL"),
        _ => error,
    }
}

fn broke_off(error: &Value) -> Error {
    let text = error["message"].as_str().or(error.as_str()).unwrap_or("no reason given");
    let text: String = text.chars().take(300).collect();
    Error::new(ErrorCode::FailedPrecondition, format!("the model's answer broke off: {text}"))
}
