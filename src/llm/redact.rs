//! Redacts secret keys and tokens in requests to a model: in questions, and in passages that were indexed without
//! redaction.

use serde_json::Value;

use crate::model::Redaction;
use crate::model::llm::request::LlmRequest;
use crate::secrets::{Redactor, redact_json};

/// Redacts the messages and the system prompt of a request.
pub(super) fn redact_request(request: &mut LlmRequest, redaction: Redaction) {
    let texts = request.messages.iter_mut().map(|it| &mut it.content);
    for text in texts.chain([&mut request.system]) {
        *text = redact_text(text, redaction);
    }
}

/// Returns one text with its secrets redacted. Each message is redacted on its own, because a key never spans two messages.
pub(super) fn redact_text(text: &str, redaction: Redaction) -> String {
    let within = redact_json_strings(text, redaction);
    Redactor::new(redaction).redact(within.as_deref().unwrap_or(text)).into_owned()
}

/// Redacts the strings inside a JSON document, because JSON escapes can hide keys from the detector. Returns `None` if the
/// text is not JSON or has nothing to redact.
fn redact_json_strings(text: &str, redaction: Redaction) -> Option<String> {
    let is_document = redaction != Redaction::None && text.starts_with(['{', '[']);
    let document: Value = is_document.then(|| serde_json::from_str(text).ok())??;
    let mut cleaned = document.clone();
    redact_json(&mut cleaned, redaction);
    (cleaned != document).then(|| cleaned.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(redact_text(text, Redaction::Keys), expected);
        assert_eq!(redact_text(text, Redaction::None), text);
    }

    #[test]
    fn secrets_in_json_strings_are_redacted() {
        let value = "Zk3vQ9mX2pLr8TnB5wYs";
        check(
            &json!({ "question": format!("whose is this password:\n{value}"), "day": 7 }).to_string(),
            &json!({ "question": "whose is this password:\n[redacted]", "day": 7 }).to_string(),
        );
        check(&json!([format!("- token:\t{value}")]).to_string(), "[\"- token:\\t[redacted]\"]");
        check(&json!({ format!("token:\t{value}"): 7 }).to_string(), "{\"token:\\t[redacted]\":7}");
    }

    #[test]
    fn text_without_secrets_is_unchanged() {
        for text in ["{ \"b\": 1.0,\n\"a\": \"x\" }", "{ no document", "[1] a note"] {
            check(text, text);
        }
        check("[1] Bearer q8Rt2LmZx7Vb4NcK9wPd", "[1] Bearer [redacted]");
    }
}
