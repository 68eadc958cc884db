//! The builder of [`LlmRequest`], which validates the request.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::llm::capabilities::{ModelCapability, ModelId, WorkloadKind};
use crate::model::llm::guardrails::Guardrails;
use crate::model::llm::request::message::Prompt;
use crate::model::llm::request::{LlmRequest, Timeouts};
use crate::model::{PrivacyMode, ToolSpec};

/// Builds a request step by step.
#[derive(Clone, Debug)]
#[must_use]
pub struct LlmRequestBuilder {
    request: LlmRequest,
    limits: Option<ModelCapability>,
}

impl LlmRequest {
    /// Starts a request; [`LlmRequestBuilder::build`] validates it.
    pub fn builder() -> LlmRequestBuilder {
        let request = LlmRequest::new(PrivacyMode::LocalOnly, "", "");
        LlmRequestBuilder { request: LlmRequest { messages: Vec::new(), ..request }, limits: None }
    }
}

/// Starts a request, as [`LlmRequest::builder`].
pub fn builder() -> LlmRequestBuilder {
    LlmRequest::builder()
}

impl LlmRequestBuilder {
    /// Sets the name of the model.
    pub fn model(mut self, model: impl Into<ModelId>) -> Self {
        self.request.model = Some(model.into());
        self
    }

    /// Sets the kind of work, e.g. chat.
    pub fn workload(mut self, workload: WorkloadKind) -> Self {
        self.request.workload = workload;
        self
    }

    /// Sets system prompt, messages and images.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        let Prompt { system, messages, attachments } = prompt;
        self.request = LlmRequest { system, messages, images: attachments, ..self.request };
        self
    }

    /// Sets the maximum tokens of the answer.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.request.max_tokens = tokens;
        self
    }

    /// Sets the sampling temperature.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.request.temperature = temperature;
        self
    }

    /// Adds a tag, which the event log shows.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the tools that the model may call, e.g. those of `RegisteredTools::bindings`.
    pub fn tools(mut self, tools: Vec<ToolSpec>) -> Self {
        self.request.tools = tools;
        self
    }

    /// Requests a JSON answer that satisfies this JSON Schema.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.request.schema = Some(schema);
        self
    }

    /// Sets guardrails to use instead of the client's.
    pub fn guardrails(mut self, guardrails: Guardrails) -> Self {
        self.request.guardrails = Some(guardrails);
        self
    }

    /// Sets which data may leave the machine; by default none may.
    pub fn privacy_mode(mut self, mode: PrivacyMode) -> Self {
        self.request.privacy_mode = mode;
        self
    }

    /// Sets the maximum waits for the answer.
    pub fn timeouts(mut self, patience: Timeouts) -> Self {
        self.request.timeouts = patience;
        self
    }

    /// Sets the seed, which makes answers repeatable if the server supports it; `None` lets the server choose one.
    pub fn seed(mut self, seed: Option<u64>) -> Self {
        self.request.seed = seed;
        self
    }

    /// Sets the context size in tokens, for an Ollama server.
    pub fn context_tokens(mut self, tokens: u32) -> Self {
        self.request.context_tokens = Some(tokens);
        self
    }

    /// Makes [`Self::build`] validate every number against a model of a `CapabilitySnapshot`, and select that model if none
    /// is set. Without this call, the client validates when it enqueues the request.
    pub fn limits(mut self, model: &ModelCapability) -> Self {
        self.request.model.get_or_insert_with(|| model.id.clone());
        self.limits = Some(model.clone());
        self
    }

    /// Returns the request if it is valid. Checks it for its model too, if the limits of the model are known.
    ///
    /// # Errors
    /// Those of [`LlmRequest::check`] and [`LlmRequest::validate_for_model`]; `InvalidArgument` for limits of another model.
    pub fn build(self) -> Result<LlmRequest> {
        self.request.check()?;
        if let Some(model) = &self.limits {
            let named = self.request.model.as_ref();
            if named.is_some_and(|it| *it != model.id) {
                let text = format!("`model` must be `{}`, the model of the given limits", model.id.0);
                return Err(Error::invalid(text).field("model"));
            }
            self.request.validate_for_model(model)?;
        }
        Ok(self.request)
    }
}
