//! An OpenAI-compatible server: `POST /v1/chat/completions` as server-sent events, pictures as addresses that hold them,
//! errors as `{"error": {"message", "type", "code"}}`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::server::{Act, Asked, Server};

/// Starts a server with these models, of which those called `eye` can see; `says` is asked with the body of every chat
/// that is in order.
pub(crate) fn start(
    models: &'static [&'static str],
    says: impl Fn(&Value) -> String + Send + Sync + 'static,
) -> Server {
    Server::start(move |asked| answer(models, asked, &says))
}

fn error(status: u16, kind: &str, message: impl Into<String>) -> Vec<Act> {
    Act::json(status, &json!({ "error": { "message": message.into(), "type": kind, "code": status } }))
}

fn answer(models: &[&str], asked: &Asked, says: &dyn Fn(&Value) -> String) -> Vec<Act> {
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
        _ => error(404, "not_found_error", "File Not Found"),
    }
}

/// The pictures of a chat, decoded; none for what is no `data:image/...;base64,` address of a picture of that type.
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

fn chat(model: &str, text: &str) -> Vec<Act> {
    let event = |choices: Value| {
        let piece = json!({ "id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": model,
                            "choices": choices });
        Act::Send(format!("data: {piece}\n\n"))
    };
    let (first, rest) = text.split_at(text.floor_char_boundary(text.len() / 2));
    vec![
        Act::Head(200, "text/event-stream"),
        event(json!([{ "index": 0, "delta": { "role": "assistant", "content": null }, "finish_reason": null }])),
        event(json!([{ "index": 0, "delta": { "content": first }, "finish_reason": null }])),
        event(json!([{ "index": 0, "delta": { "content": rest }, "finish_reason": null }])),
        event(json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }])),
        Act::Send("data: [DONE]\n\n".into()),
    ]
}
