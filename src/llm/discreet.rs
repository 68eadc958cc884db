//! Keys and tokens are blacked out in whatever is sent to a model: questions, and passages that were indexed before
//! anybody asked for it.

use crate::llm::request::LlmRequest;
use crate::model::Redaction;
use crate::secrets::Censor;

/// Blacks them out in every text of a request.
pub(super) fn clean(request: &mut LlmRequest, redaction: Redaction) {
    let texts = request.messages.iter_mut().map(|it| &mut it.content);
    for text in texts.chain([&mut request.system]) {
        *text = clean_text(text, redaction);
    }
}

/// Blacks them out in one text. Each on its own: a key does not begin in one message and end in another.
pub(super) fn clean_text(text: &str, redaction: Redaction) -> String {
    Censor::new(redaction).clean(text).into_owned()
}
