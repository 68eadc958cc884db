//! A fake OpenAI-compatible server: `POST /v1/chat/completions` as server-sent events, images as data URLs, errors as
//! `{"error": {"message", "type", "code"}}`, `GET /v1/models`, and `POST /v1/embeddings` with vectors made from text
//! lengths.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::scripted_server::ReceivedRequest;
use crate::support::scripted_server::Server;
use crate::support::scripted_server::Step;

/// Starts a server with these models; a model named `eye` accepts images. `says` gets the body of every valid chat request.
pub(crate) fn start(
    models: &'static [&'static str],
    says: impl Fn(&Value) -> String + Send + Sync + 'static,
) -> Server {
    Server::start(move |asked| answer(models, asked, &says))
}

/// Starts a server that calls `wait` before it embeds texts with this word. Other texts are not delayed.
pub(crate) fn start_with_delay(word: &'static str, wait: impl Fn() + Send + Sync + 'static) -> Server {
    Server::start(move |asked| {
        if asked.body["input"].to_string().contains(word) {
            wait();
        }
        answer(&["any"], asked, &|_| String::new())
    })
}

/// Starts a server whose embedding request fails if `is_so` returns true for any of its texts.
pub(crate) fn start_failing(is_so: impl Fn(&str) -> bool + Send + Sync + 'static) -> Server {
    Server::start(move |asked| {
        let mut texts = asked.body["input"].as_array().into_iter().flatten().filter_map(Value::as_str);
        match texts.any(&is_so) {
            true => error(500, "server_error", "model runner has unexpectedly stopped"),
            false => answer(&["any"], asked, &|_| String::new()),
        }
    })
}

/// An embedding server that can be held: while held, it delays every request with a certain word.
pub(crate) struct HoldableServer {
    pub(crate) server: Server,
    is_held: Arc<AtomicBool>,
}

impl HoldableServer {
    /// Starts the server. It is not held at first.
    pub(crate) fn start(word: &'static str) -> HoldableServer {
        let is_held = Arc::new(AtomicBool::new(false));
        let holds = is_held.clone();
        let server = start_with_delay(word, move || {
            while holds.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        HoldableServer { server, is_held }
    }

    pub(crate) fn hold(&self) {
        self.is_held.store(true, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.is_held.store(false, Ordering::Relaxed);
    }
}

/// Configures the daemon to use this server for embeddings.
pub(crate) fn with_embedder(world: World, server: &Server) -> World {
    world
        .with("VIC_EMBED_BACKEND", "openai")
        .with("VIC_OPENAI_BASE_URL", &server.address)
        .with("VIC_OPENAI_EMBED_MODEL", "any")
}

fn error(status: u16, kind: &str, message: impl Into<String>) -> Vec<Step> {
    Step::json(status, &json!({ "error": { "message": message.into(), "type": kind, "code": status } }))
}

/// Returns the response to this request from a server with these models.
pub(crate) fn answer(models: &[&str], asked: &ReceivedRequest, says: &dyn Fn(&Value) -> String) -> Vec<Step> {
    let model = asked.body["model"].as_str().unwrap_or_default();
    match (asked.method.as_str(), asked.path.as_str()) {
        ("POST", "/v1/chat/completions") if !models.contains(&model) => {
            error(404, "invalid_request_error", format!("The model `{model}` does not exist"))
        }
        ("POST", "/v1/chat/completions") => {
            let pictures = pictures(&asked.body);
            if pictures.iter().any(Option::is_none) {
                error(400, "invalid_request_error", "invalid image_url")
            } else if !pictures.is_empty() && model != "eye" {
                error(500, "server_error", "image input is not supported")
            } else {
                chat(model, &says(&asked.body))
            }
        }
        ("GET", "/v1/models") => {
            let model = |it: &&str| json!({ "id": it, "object": "model", "max_model_len": 32768 });
            Step::json(200, &json!({ "object": "list", "data": models.iter().map(model).collect::<Vec<_>>() }))
        }
        ("POST", "/v1/embeddings") => embeddings(&asked.body),
        _ => error(404, "not_found_error", "File Not Found"),
    }
}

/// Returns the decoded images of a chat request; None for an invalid `data:image/...;base64,` URL or an unsupported type.
pub(crate) fn pictures(chat: &Value) -> Vec<Option<Vec<u8>>> {
    let messages = chat["messages"].as_array().into_iter().flatten();
    let parts = messages.filter_map(|it| it["content"].as_array()).flatten().filter(|it| it["type"] == "image_url");
    parts.map(|it| picture(it["image_url"]["url"].as_str()?)).collect()
}

fn picture(url: &str) -> Option<Vec<u8>> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let bytes = STANDARD.decode(data).ok()?;
    (image::guess_format(&bytes).ok()?.to_mime_type() == kind).then_some(bytes)
}

fn embeddings(body: &Value) -> Vec<Step> {
    let texts = body["input"].as_array().into_iter().flatten().zip(0..);
    let vector = |(text, index): (&Value, usize)| {
        let length = text.as_str().unwrap_or_default().len();
        json!({ "object": "embedding", "index": index, "embedding": [length, 3, 4] })
    };
    let data: Vec<Value> = texts.map(vector).collect();
    Step::json(200, &json!({ "object": "list", "data": data, "model": body["model"], "usage": { "total_tokens": 1 } }))
}

/// Returns the text that `says` must return to make the model call a tool.
pub(crate) fn tool_call(tool: &str, arguments: &Value) -> String {
    format!("{CALL}{tool}{CALL}{arguments}")
}

/// Separates the parts of a tool call in the text that `says` returns.
const CALL: char = '\u{1}';

fn chat(model: &str, text: &str) -> Vec<Step> {
    let event = |delta: Value, finish: Option<&str>| {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        let piece = json!({ "id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": model,
                            "choices": choices });
        Step::Send(format!("data: {piece}\n\n"))
    };
    let said = match text.strip_prefix(CALL).and_then(|it| it.split_once(CALL)) {
        Some((name, arguments)) => {
            let function = json!({ "name": name, "arguments": arguments });
            let calls = json!([{ "index": 0, "id": "call-1", "type": "function", "function": function }]);
            vec![event(json!({ "tool_calls": calls }), None), event(json!({}), Some("tool_calls"))]
        }
        None => {
            let (first, rest) = text.split_at(text.floor_char_boundary(text.len() / 2));
            let piece = |text: &str| event(json!({ "content": text }), None);
            vec![piece(first), piece(rest), event(json!({}), Some("stop"))]
        }
    };
    let begin =
        vec![Step::Head(200, "text/event-stream"), event(json!({ "role": "assistant", "content": null }), None)];
    [begin, said, vec![Step::Send("data: [DONE]\n\n".into())]].concat()
}
