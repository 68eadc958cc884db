//! A language model as a reasoner: the task goes into a prompt, what it may say is a JSON Schema, and what cannot be used
//! is sent back once with the reason.

use std::time::Duration;

use async_trait::async_trait;

use crate::agent::prompts;
use crate::agent::reasoner::Reasoner;
use crate::error::{Error, Result};
use crate::llm::plugin::{PluginRequest, PluginResponse, PluginTask};
use crate::llm::{FinishReason, LlmClient, LlmRequest, Message, ModelId, Patience, Role, response};
use crate::model::PrivacyMode;

/// Tokens of an answer: a query or a step takes some hundred.
const MAX_TOKENS: u32 = 1_024;
/// Tokens of an answer that holds proposals.
const PROPOSAL_TOKENS: u32 = 8_192;
/// Tokens of context that a step with its transcript takes.
const CONTEXT_TOKENS: u32 = 16_384;
/// Tries of one task.
const ATTEMPTS: usize = 2;

/// A language model.
pub(super) struct ByModel {
    pub(super) client: LlmClient,
    pub(super) mode: PrivacyMode,
    pub(super) time: Duration,
}

impl ByModel {
    fn request(&self, request: &PluginRequest) -> Result<LlmRequest> {
        let task = serde_json::to_string(&request.task).map_err(Error::internal)?;
        let max_tokens = match request.task {
            PluginTask::AugmentProposals { .. } => PROPOSAL_TOKENS,
            _ => MAX_TOKENS,
        };
        let patience = Patience { overall: self.time, ..Patience::default() };
        Ok(LlmRequest {
            model: request.model.clone().map(ModelId),
            schema: Some(prompts::schema(&request.task)),
            max_tokens,
            context_tokens: Some(CONTEXT_TOKENS),
            patience,
            ..LlmRequest::new(self.mode, &prompts::system(&request.task), &task)
        })
    }
}

#[async_trait]
impl Reasoner for ByModel {
    fn name(&self) -> String {
        format!("{} ({})", self.client.name(), self.client.backend())
    }

    async fn think(&self, request: &PluginRequest) -> Result<PluginResponse> {
        let mut asked = self.request(request)?;
        let who = format!("model `{}`", self.client.name());
        let mut problem = None;
        for _attempt in 0..ATTEMPTS {
            let answer = self.client.complete(asked.clone()).await?;
            let read = match answer.finish {
                FinishReason::Length => Err(Error::invalid(format!("{who} was cut before the end of its answer"))),
                _ => response::json(&answer.text).and_then(|it| PluginResponse::parse(it, &request.task, &who)),
            };
            match read {
                Ok(response) => return Ok(response),
                Err(error) => {
                    asked.messages.push(Message::new(Role::Assistant, answer.text));
                    let again =
                        format!("That cannot be used: {}. Answer with the corrected JSON object only.", error.message);
                    asked.messages.push(Message::new(Role::User, again));
                    problem = Some(error);
                }
            }
        }
        Err(problem.unwrap_or_else(|| Error::internal("a model was not asked")).hint("try another model"))
    }
}
