//! Keys and tokens are blacked out in whatever is sent to a model: questions, and passages that were indexed before
//! anybody asked for it.

use serde_json::Value;

use crate::model::Redaction;
use crate::model::llm::request::LlmRequest;
use crate::secrets::{Censor, black_out};

/// Blacks them out in every text of a request.
pub(super) fn clean(request: &mut LlmRequest, redaction: Redaction) {
    let texts = request.messages.iter_mut().map(|it| &mut it.content);
    for text in texts.chain([&mut request.system]) {
        *text = clean_text(text, redaction);
    }
}

/// Blacks them out in one text. Each on its own: a key does not begin in one message and end in another.
pub(super) fn clean_text(text: &str, redaction: Redaction) -> String {
    let within = clean_within(text, redaction);
    Censor::new(redaction).clean(within.as_deref().unwrap_or(text)).into_owned()
}

/// Blacks them out in the texts of a text that is JSON: what is told in so many words has backslashes there, behind which
/// nobody would know a key. None where there is nothing to black out.
fn clean_within(text: &str, redaction: Redaction) -> Option<String> {
    let is_document = redaction != Redaction::None && text.starts_with(['{', '[']);
    let document: Value = is_document.then(|| serde_json::from_str(text).ok())??;
    let mut cleaned = document.clone();
    black_out(&mut cleaned, redaction);
    (cleaned != document).then(|| cleaned.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(clean_text(text, Redaction::Keys), expected);
        assert_eq!(clean_text(text, Redaction::None), text);
    }

    #[test]
    fn what_is_told_as_json_is_cleaned_within_its_texts() {
        let value = "Zk3vQ9mX2pLr8TnB5wYs";
        check(
            &json!({ "question": format!("whose is this password:\n{value}"), "day": 7 }).to_string(),
            &json!({ "question": "whose is this password:\n[redacted]", "day": 7 }).to_string(),
        );
        check(&json!([format!("- token:\t{value}")]).to_string(), "[\"- token:\\t[redacted]\"]");
        check(&json!({ format!("token:\t{value}"): 7 }).to_string(), "{\"token:\\t[redacted]\":7}");
    }

    #[test]
    fn what_has_no_key_stays_letter_for_letter() {
        for text in ["{ \"b\": 1.0,\n\"a\": \"x\" }", "{ no document", "[1] a note"] {
            check(text, text);
        }
        check("[1] Bearer q8Rt2LmZx7Vb4NcK9wPd", "[1] Bearer [redacted]");
    }
}
