//! Reasoner that asks a language model. The task becomes a prompt, a JSON Schema defines the form of the answer, and an
//! invalid answer is sent back once with the reason.

use std::time::Duration;

use async_trait::async_trait;

use crate::agent::limits::ContextBudget;
use crate::agent::reasoners::{Reasoner, prompts};
use crate::error::{Error, Result};
use crate::llm::plugin::{PluginRequest, PluginResponse, PluginTask};
use crate::llm::{
    FinishReason, LlmClient, LlmRequest, Message, ModelId, ModelLimits, Role, Timeouts, estimated_tokens, response,
};
use crate::model::{PrivacyMode, Redaction};

/// Maximum tokens of an answer without proposals; a query or a step takes a few hundred.
const MAX_TOKENS: u32 = 1_024;
/// Maximum tokens of an answer with proposals.
const PROPOSAL_TOKENS: u32 = 8_192;
/// Maximum requests to the model for one task: the first one, and a retry after an invalid answer.
const MAX_ATTEMPTS: usize = 2;
/// A retry repeats at most this many characters of the rejected answer, and of the reason.
const MAX_REJECTED_CHARS: usize = 300;
/// Tokens reserved for the retry, and for the server's message template.
const RESERVED_TOKENS: usize = 500;

/// A reasoner that asks a language model.
pub(in crate::agent) struct ModelReasoner {
    pub(in crate::agent) client: LlmClient,
    pub(in crate::agent) mode: PrivacyMode,
    pub(in crate::agent) time: Duration,
    pub(in crate::agent) redaction: Redaction,
}

impl ModelReasoner {
    async fn limits(&self, request: &PluginRequest) -> ModelLimits {
        self.client.limits(request.model.clone().map(ModelId).as_ref(), self.mode).await
    }

    fn request(&self, request: &PluginRequest, limits: ModelLimits) -> Result<LlmRequest> {
        let task = serde_json::to_string(&request.task).map_err(Error::internal)?;
        let patience = Timeouts { overall: self.time, ..Timeouts::default() };
        Ok(LlmRequest {
            model: request.model.clone().map(ModelId),
            schema: Some(prompts::answer_schema(&request.task)),
            max_tokens: answer_tokens(&request.task, limits),
            timeouts: patience,
            ..LlmRequest::new(self.mode, &prompts::system_prompt(&request.task), &task)
        })
    }
}

/// Returns the tokens reserved for the answer: as many as the task needs, but at most a quarter of the context.
fn answer_tokens(task: &PluginTask, limits: ModelLimits) -> u32 {
    let wanted = match task {
        PluginTask::AugmentProposals { .. } => PROPOSAL_TOKENS,
        PluginTask::ToQuery { .. } | PluginTask::Answer { .. } | PluginTask::ToolLoopStep { .. } => MAX_TOKENS,
    };
    wanted.min(limits.answer_tokens).min(limits.context_tokens / 4).max(1)
}

/// Returns the first `MAX_REJECTED_CHARS` characters of a text.
fn truncate_chars(text: &str) -> &str {
    text.char_indices().nth(MAX_REJECTED_CHARS).map_or(text, |(end, _)| &text[..end])
}

#[async_trait]
impl Reasoner for ModelReasoner {
    fn name(&self) -> String {
        format!("{} ({})", self.client.name(), self.client.backend())
    }

    fn redaction(&self) -> Redaction {
        self.redaction
    }

    async fn context_budget(&self, request: &PluginRequest) -> ContextBudget {
        let limits = self.limits(request).await;
        let taken = answer_tokens(&request.task, limits) as usize
            + estimated_tokens(&prompts::system_prompt(&request.task))
            + RESERVED_TOKENS;
        ContextBudget::Tokens((limits.context_tokens as usize).saturating_sub(taken))
    }

    async fn run_task(&self, request: &PluginRequest) -> Result<PluginResponse> {
        let limits = self.limits(request).await;
        let asked = self.request(request, limits)?;
        let who = format!("model `{}`", self.client.name());
        let mut again = Vec::new();
        let mut problem = None;
        for _attempt in 0..MAX_ATTEMPTS {
            let mut messages = asked.messages.clone();
            messages.append(&mut again);
            let answer = self.client.complete(LlmRequest { messages, ..asked.clone() }).await?;
            let read = match answer.finish {
                FinishReason::Length => Err(Error::invalid(format!("the answer of {who} was cut at its token limit"))),
                _ => response::extract_json(&answer.text).and_then(|it| PluginResponse::parse(it, &request.task, &who)),
            };
            match read {
                Ok(response) => return Ok(response),
                Err(error) => {
                    let why = format!(
                        "That cannot be used: {}. Answer with the corrected JSON object only.",
                        truncate_chars(&error.message)
                    );
                    // Repeats only the beginning of the rejected answer, because the whole answer could fill the context.
                    let said = Message::new(Role::Assistant, truncate_chars(&answer.text));
                    again = vec![said, Message::new(Role::User, why)];
                    problem = Some(error);
                }
            }
        }
        Err(problem.unwrap_or_else(|| Error::internal("no request was sent to the model")).hint("try another model"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::context_budget::fit_request;
    use crate::llm::{LlmClientConfig, Mock};

    /// Returns a reasoner over a mock model with this context size.
    fn model(mock: &std::sync::Arc<Mock>, context_tokens: u32) -> ModelReasoner {
        let client = mock.client_with(LlmClientConfig { context_tokens, ..LlmClientConfig::default() });
        ModelReasoner { client, mode: PrivacyMode::LocalOnly, time: Duration::from_secs(9), redaction: Redaction::Keys }
    }

    #[tokio::test]
    async fn requests_never_exceed_the_context() {
        let rows: Vec<_> = (0..2_000).map(|it| json!({ "?x": { "id": it, "name": format!("node {it}") } })).collect();
        let results = json!({ "vars": ["?x"], "rows": rows, "truncated": false });
        let task = PluginTask::Answer { question: "who?".into(), query: json!({}), results };
        for context in [1_500, 4_000, 16_384] {
            let mock = Mock::new(vec![Ok("no".repeat(20_000)), Ok(r#"{"answer": "Ada"}"#.into())]);
            let reasoner = model(&mock, context);
            let (request, cuts) = fit_request(&reasoner, PluginRequest::new(None, task.clone())).await.unwrap();
            assert_eq!(reasoner.run_task(&request).await.unwrap().answer.as_deref(), Some("Ada"));
            assert!(!cuts.is_empty(), "{context}");
            for asked in mock.asked() {
                let texts = asked.messages.iter().map(|it| &it.content).chain([&asked.system]);
                let sent: usize = texts.map(|it| estimated_tokens(it)).sum();
                assert!(asked.context_tokens.is_some_and(|it| it <= context));
                assert!(sent + asked.max_tokens as usize <= context as usize, "{context}: {sent}");
            }
            assert_eq!(mock.asked().len(), 2, "an answer that cannot be used is sent back once");
        }
    }

    #[tokio::test]
    async fn key_behind_json_escapes_is_redacted() {
        let value = "Zk3vQ9mX2pLr8TnB5wYs";
        let results = json!({ "vars": ["?x"], "rows": [{ "?x": format!("api_key = \"{value}\"") }] });
        let question = format!("whose is this password:\n{value}");
        let task = PluginTask::Answer { question, query: json!({}), results };
        let mock = Mock::new(vec![Ok(r#"{"answer": "Ada"}"#.into())]);
        let reasoner = model(&mock, 16_384);
        let (request, _) = fit_request(&reasoner, PluginRequest::new(None, task)).await.unwrap();
        reasoner.run_task(&request).await.unwrap();
        let sent = &mock.asked()[0].messages[0].content;
        assert!(!sent.contains(value) && sent.matches("[redacted]").count() == 2, "{sent}");
    }
}
