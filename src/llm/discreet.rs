//! Keys and tokens are blacked out in whatever is sent to a model: questions, and passages that were indexed before
//! anybody asked for it.

use std::sync::Arc;

use crate::error::Result;
use crate::llm::{Llm, LlmRequest, LlmStream};
use crate::model::Redaction;
use crate::secrets::Censor;

/// A model that never sees a secret.
pub(super) struct Discreet {
    model: Arc<dyn Llm>,
    redaction: Redaction,
}

impl Discreet {
    pub(super) fn new(model: Arc<dyn Llm>, redaction: Redaction) -> Discreet {
        Discreet { model, redaction }
    }
}

#[async_trait::async_trait]
impl Llm for Discreet {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn stream(&self, mut request: LlmRequest) -> Result<LlmStream> {
        let texts = request.messages.iter_mut().map(|it| &mut it.content);
        for text in texts.chain([&mut request.system]) {
            // Each on its own: a key does not begin in one message and end in another.
            *text = Censor::new(self.redaction).clean(text).into_owned();
        }
        self.model.stream(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::mock::Mock;
    use crate::model::PrivacyMode;

    #[tokio::test]
    async fn a_model_is_not_told_a_key() {
        let mock = Arc::new(Mock::new(vec![Ok("fine".into())]));
        let model = Discreet::new(mock.clone(), Redaction::Keys);
        let question = "who made AKIAIOSFODNN7EXAMPLE?";
        model.complete(LlmRequest::new(PrivacyMode::LocalOnly, "Be brief.", question)).await.unwrap();
        let asked = mock.asked();
        assert_eq!(asked[0].messages[0].content, "who made [redacted]?");
        assert_eq!(asked[0].system, "Be brief.");
    }
}
