//! An Ollama server: `POST /api/chat`, one JSON object a line.

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

/// Keeps the model in the server's memory between questions.
const KEEP_ALIVE: &str = "10m";

/// A model on an Ollama server.
pub(super) struct Ollama {
    base: String,
    key: Option<String>,
    model: String,
}

impl Ollama {
    pub(super) fn new(base: &str, key: Option<String>, model: &str) -> Ollama {
        Ollama { base: base.into(), key, model: model.into() }
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
            // Plain base64, without the prefix of a data address.
            last["images"] = request.images.iter().map(|it| STANDARD.encode(it)).collect();
        }
        let mut options = json!({ "temperature": request.temperature, "num_predict": request.max_tokens });
        if let Some(seed) = request.seed {
            options["seed"] = seed.into();
        }
        if let Some(tokens) = request.context_tokens {
            options["num_ctx"] = tokens.into();
        }
        let mut body = json!({
            "model": self.model, "messages": messages, "stream": true, "keep_alive": KEEP_ALIVE, "options": options,
            // Thoughts would use up the tokens of the answer.
            "think": false,
        });
        if let Some(schema) = &request.schema {
            body["format"] = schema.clone();
        }
        body
    }

    fn hint(&self, error: Error) -> Error {
        match error.code {
            ErrorCode::NotFound => error.hint(format!("run `ollama pull {}`", self.model)),
            ErrorCode::Unavailable if error.hint.as_deref() == Some(AWAY) => {
                error.hint("run `ollama serve`, or set VIC_OLLAMA_BASE_URL")
            }
            _ => error,
        }
    }
}

#[async_trait]
impl Llm for Ollama {
    fn name(&self) -> &str {
        &self.model
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmStream> {
        let patience = request.patience;
        let deadline = Instant::now() + patience.overall;
        let mode = request.privacy_mode;
        let client = egress::client(&self.base, mode, Purpose::Reasoning, self.key.as_deref())?;
        let url = remote::endpoint(&self.base, "api/chat");
        if !Purpose::Reasoning.may_leave(mode) {
            // Once: somebody waits for the answer.
            let show = timeout(patience.first, remote::passed_on(&client, &self.base, &self.model, 1));
            match show.await.map_err(|_| lines::silence(&url, false))?.map_err(|error| self.hint(error))? {
                None => (),
                Some(place) => return Err(remote::leaves(&self.model, &place, mode)),
            }
        }
        let sent = client.send(client.post(&url).timeout(patience.overall).json(&self.body(&request)));
        let response = timeout(patience.first, sent).await.map_err(|_| lines::silence(&url, false))?;
        let response = response.map_err(|error| self.hint(error.at(&url)))?;
        let status = response.status();
        let mut lines = Lines::new(response, url.clone(), &request, deadline);
        if status != StatusCode::OK {
            return Err(self.hint(remote::refusal(&url, status, &lines.rest().await?)));
        }
        let steps = futures::stream::unfold(Some(lines), |lines| async move {
            let mut lines = lines?;
            match step(&mut lines).await {
                Ok(events) => {
                    let end = matches!(events.last(), Some(LlmEvent::Done { .. }));
                    let events = events.into_iter().map(Ok).collect::<Vec<_>>();
                    Some((events, (!end).then_some(lines)))
                }
                Err(error) => Some((vec![Err(error)], None)),
            }
        });
        Ok(steps.flat_map(futures::stream::iter).boxed())
    }
}

/// Reads the next line.
async fn step(lines: &mut Lines) -> Result<Vec<LlmEvent>> {
    let Some(line) = lines.next().await? else { return Err(lines.cut()) };
    if line.is_empty() {
        return Ok(Vec::new());
    }
    let Ok(value) = serde_json::from_str::<Value>(&line) else {
        // Half a line is what a server leaves that was killed.
        return Err(if line.starts_with('{') && !line.ends_with('}') { lines.cut() } else { lines.nonsense(&line) });
    };
    if let Some(error) = value["error"].as_str() {
        let text = format!("the model's answer broke off: {}", error.chars().take(300).collect::<String>());
        return Err(Error::new(ErrorCode::FailedPrecondition, text));
    }
    if !value.is_object() || value.get("message").is_none() && value["done"] != true {
        return Err(lines.nonsense(&line));
    }
    let mut events = Vec::new();
    if let Some(text) = value["message"]["content"].as_str().filter(|it| !it.is_empty()) {
        lines.count(text)?;
        events.push(LlmEvent::Text(text.to_string()));
    }
    if value["done"] == true {
        let finish = match value["done_reason"].as_str() {
            None | Some("stop") => Finish::Stop,
            Some("length") => Finish::Length,
            Some(_) => Finish::Other,
        };
        let count = |key: &str| value[key].as_u64().unwrap_or(0);
        let usage = Usage { prompt_tokens: count("prompt_eval_count"), answer_tokens: count("eval_count") };
        events.push(LlmEvent::Done { finish, usage });
    }
    Ok(events)
}
