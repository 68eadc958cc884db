//! A fake Ollama server that follows the API documentation: models with capabilities, images as plain base64, errors as
//! `{"error": ...}` with an HTTP status, and errors in the middle of a response that began with status 200.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::scripted_server::ReceivedRequest;
use crate::support::scripted_server::Server;
use crate::support::scripted_server::Step;

/// A model that the fake server offers.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// What the model can do: any of `completion`, `vision`, `embedding`, `thinking`, `tools`.
    pub(crate) capabilities: &'static [&'static str],
    /// Set if the server forwards requests for this model to a remote host.
    pub(crate) remote_host: Option<&'static str>,
}

impl Model {
    pub(crate) fn new(name: &'static str, capabilities: &'static [&'static str]) -> Model {
        Model { name, capabilities, remote_host: None }
    }

    fn has_capability(&self, capability: &str) -> bool {
        self.capabilities.contains(&capability)
    }
}

/// What the model replies, or how it fails.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Sends this text in two chunks.
    Text(String),
    /// Sends this text as one that reached the token limit `num_predict`.
    Cut(String),
    /// Sends a body that is not valid in the API.
    Nonsense,
    /// Sends a first chunk, then this error in a response with status 200.
    Broken(&'static str),
    /// Sends a first chunk, then half a line, and closes the connection.
    HalfALine,
    /// Sends a first chunk, then nothing for this time, and closes the connection.
    Hangs(Duration),
    /// Closes the connection without a reply.
    Closes,
    /// Refuses the request, as when the queue of the server is full.
    Busy,
}

/// Starts a server with these models. `says` gets the body of every valid chat request and returns the reply.
pub(crate) fn start(models: Vec<Model>, says: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |asked| answer(&models, asked, &says))
}

/// Returns the decoded images of a chat request.
pub(crate) fn images(chat: &Value) -> Vec<Vec<u8>> {
    let messages = chat["messages"].as_array().unwrap();
    let images = messages.iter().filter_map(|it| it["images"].as_array()).flatten();
    images.map(|it| STANDARD.decode(it.as_str().unwrap()).unwrap()).collect()
}

fn error(status: u16, message: impl Into<String>) -> Vec<Step> {
    Step::json(status, &json!({ "error": message.into() }))
}

/// Returns the response to this request from a server with these models.
pub(crate) fn answer(models: &[Model], asked: &ReceivedRequest, says: &dyn Fn(&Value) -> Reply) -> Vec<Step> {
    let model = || models.iter().find(|it| asked.body["model"] == it.name);
    match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/") => vec![Step::Head(200, "text/plain; charset=utf-8"), Step::Send("Ollama is running".into())],
        ("GET", "/api/version") => Step::json(200, &json!({ "version": "0.13.0" })),
        ("GET", "/api/tags") => Step::json(200, &json!({ "models": models.iter().map(model_tag).collect::<Vec<_>>() })),
        ("GET", "/api/ps") => Step::json(200, &json!({ "models": [] })),
        ("POST", _) if asked.body.is_null() => error(400, "missing request body"),
        ("POST", "/api/show" | "/api/chat") if model().is_none() => {
            error(404, format!("model '{}' not found", asked.body["model"].as_str().unwrap_or_default()))
        }
        ("POST", "/api/show") => Step::json(200, &model_details(model().unwrap())),
        ("POST", "/api/chat") => match refusal(model().unwrap(), &asked.body) {
            Some(refusal) => refusal,
            None => chat(asked.body["model"].as_str().unwrap(), says(&asked.body)),
        },
        _ => vec![Step::Head(404, "text/plain"), Step::Send("404 page not found".into())],
    }
}

fn model_tag(model: &Model) -> Value {
    let details = json!({ "family": "fake", "parameter_size": "1B", "quantization_level": "Q4_K_M" });
    let mut tag = json!({
        "name": model.name, "model": model.name, "size": 1, "digest": "f".repeat(64), "details": details,
        "modified_at": "2026-01-01T00:00:00Z",
    });
    if let Some(host) = model.remote_host {
        tag["remote_host"] = host.into();
    }
    tag
}

fn model_details(model: &Model) -> Value {
    let mut shown = json!({
        "details": { "family": "fake" }, "model_info": { "fake.context_length": 8192 },
        "capabilities": model.capabilities,
    });
    if let Some(host) = model.remote_host {
        shown["remote_host"] = host.into();
        shown["remote_model"] = model.name.into();
    }
    shown
}

/// Returns the error response to an invalid chat request, or None for a valid one.
fn refusal(model: &Model, body: &Value) -> Option<Vec<Step>> {
    if !model.has_capability("completion") {
        return Some(error(400, format!("\"{}\" does not support chat", model.name)));
    }
    if body["think"] == true && !model.has_capability("thinking") {
        return Some(error(400, format!("\"{}\" does not support thinking", model.name)));
    }
    if !body["format"].is_null() && body["format"] != "json" && !body["format"].is_object() {
        return Some(error(400, format!("invalid format: {}", body["format"])));
    }
    let images = body["messages"].as_array().into_iter().flatten().filter_map(|it| it["images"].as_array()).flatten();
    for image in images {
        let Some(bytes) = image.as_str().and_then(|it| STANDARD.decode(it).ok()) else {
            return Some(error(400, "illegal base64 data at input byte 4"));
        };
        if !model.has_capability("vision") {
            return Some(error(400, format!("\"{}\" does not support vision", model.name)));
        }
        if image::guess_format(&bytes).is_err() {
            return Some(error(500, "Failed to load image or audio file"));
        }
    }
    None
}

fn chat(model: &str, says: Reply) -> Vec<Step> {
    let head = || Step::Head(200, "application/x-ndjson");
    let line = |value: Value| Step::Send(format!("{value}\n"));
    let said = |text: &str| {
        line(json!({
            "model": model, "created_at": "2026-01-01T00:00:00Z", "done": false,
            "message": { "role": "assistant", "content": text },
        }))
    };
    let done = |reason: &str| {
        line(json!({
            "model": model, "created_at": "2026-01-01T00:00:01Z", "message": { "role": "assistant", "content": "" },
            "done": true, "done_reason": reason, "total_duration": 1, "load_duration": 1, "prompt_eval_count": 20,
            "prompt_eval_duration": 1, "eval_count": 5, "eval_duration": 1,
        }))
    };
    match says {
        Reply::Text(text) => {
            let (first, rest) = text.split_at(text.floor_char_boundary(text.len() / 2));
            vec![head(), said(first), said(rest), done("stop")]
        }
        Reply::Cut(text) => vec![head(), said(&text), done("length")],
        Reply::Nonsense => vec![head(), Step::Send("<html><body>It works!</body></html>\n".into())],
        Reply::Broken(why) => vec![head(), said("A "), line(json!({ "error": why }))],
        Reply::HalfALine => vec![head(), said("A "), Step::Send("{\"model\":\"m\",\"mess".into()), Step::Close],
        Reply::Hangs(time) => vec![head(), said("A "), Step::Wait(time), Step::Close],
        Reply::Closes => vec![Step::Close],
        Reply::Busy => error(503, "server busy, please try again.  maximum pending requests exceeded"),
    }
}

#[test]
fn fake_server_refuses_like_ollama() {
    let models = [Model::new("text", &["completion"]), Model::new("eye", &["completion", "vision"])];
    let status = |body: Value| {
        let asked = ReceivedRequest { method: "POST".into(), path: "/api/chat".into(), body };
        match answer(&models, &asked, &|_| Reply::Text("x".into()))[0] {
            Step::Head(status, _) => status,
            _ => 0,
        }
    };
    let png = STANDARD.encode(b"\x89PNG\r\n\x1a\n");
    let with =
        |model: &str, image: &str| json!({ "model": model, "messages": [{ "role": "user", "images": [image] }] });
    assert_eq!(status(with("eye", &png)), 200);
    assert_eq!(status(with("eye", &format!("data:image/png;base64,{png}"))), 400);
    assert_eq!(status(with("eye", &STANDARD.encode("no picture"))), 500);
    assert_eq!(status(with("text", &png)), 400);
    assert_eq!(status(with("other", &png)), 404);
    assert_eq!(status(json!({ "model": "text", "messages": [], "think": true })), 400);
    assert_eq!(status(Value::Null), 400);
}
