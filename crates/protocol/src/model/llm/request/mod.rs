//! Requests to a language model, and the builder that creates only valid ones.

mod builder;
mod message;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::llm::capabilities::ModelCapability;
use crate::model::llm::guardrails::Guardrails;
use crate::model::llm::schema::{MAX_PATTERNS, Schema};
use crate::model::{PrivacyMode, ToolSpec};

pub use crate::model::llm::capabilities::{ModelId, WorkloadKind};
pub use crate::model::llm::request::builder::{LlmRequestBuilder, builder};
pub use crate::model::llm::request::message::{Message, Prompt, Role, ToolCall};

/// Default maximum size of an answer in bytes: far more than any summary or plan.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// Default maximum size of an answer in tokens.
const MAX_TOKENS: u32 = 1024;
/// Maximum size of a model name in bytes. Limits memory: callers may send any name, and capabilities are cached by name.
pub const MAX_MODEL_NAME: usize = 1 << 10;
/// Maximum length of a tool name that common servers accept.
const MAX_TOOL_NAME: usize = 64;

/// Maximum waits for the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Maximum wait for the first piece of the answer: a server may have to load a model of several gigabytes.
    pub first: Duration,
    /// Maximum wait between two pieces of the answer.
    pub idle: Duration,
    /// Maximum time for the whole request.
    pub overall: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { first: Duration::from_secs(120), idle: Duration::from_secs(30), overall: Duration::from_secs(300) }
    }
}

/// A request to a language model.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmRequest {
    /// Name of the model on its backend; `None` selects the client's default model.
    pub model: Option<ModelId>,
    /// The kind of work.
    pub workload: WorkloadKind,
    /// Which data may leave the machine.
    pub privacy_mode: PrivacyMode,
    /// System prompt; may be empty.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Encoded images (PNG, JPEG, WebP, GIF) that belong to the last message.
    pub images: Vec<Vec<u8>>,
    /// JSON Schema that the answer must satisfy. Servers constrain the model by the schema, but the caller must still check
    /// the answer, see `crate::llm::response::validate`.
    pub schema: Option<Value>,
    /// Tools that the model may call. The client runs the tools in its registry and passes other calls to the caller.
    pub tools: Vec<ToolSpec>,
    /// Maximum tokens of the answer.
    pub max_tokens: u32,
    /// Sampling temperature; 0 gives the likeliest answer.
    pub temperature: f32,
    /// Makes answers repeatable if the server supports it.
    pub seed: Option<u64>,
    /// Context size in tokens for an Ollama server. `None` uses the model's context, up to the client's limit; see
    /// `crate::llm::LlmClient::limits`.
    pub context_tokens: Option<u32>,
    /// Maximum bytes of the answer.
    pub max_answer_bytes: usize,
    /// Maximum waits for the answer.
    pub timeouts: Timeouts,
    /// Tags that the event log shows.
    pub metadata: BTreeMap<String, String>,
    /// Guardrails of this request; `None` uses the client's.
    pub guardrails: Option<Guardrails>,
}

impl LlmRequest {
    /// Creates a request with one message and default limits, at temperature 0.
    pub fn new(privacy_mode: PrivacyMode, system: &str, message: &str) -> LlmRequest {
        LlmRequest {
            model: None,
            workload: WorkloadKind::Chat,
            privacy_mode,
            system: system.into(),
            messages: vec![Message::new(Role::User, message)],
            images: Vec::new(),
            schema: None,
            tools: Vec::new(),
            max_tokens: MAX_TOKENS,
            temperature: 0.0,
            seed: Some(0),
            context_tokens: None,
            max_answer_bytes: MAX_ANSWER_BYTES,
            timeouts: Timeouts::default(),
            metadata: BTreeMap::new(),
            guardrails: None,
        }
    }

    /// Checks that the request is valid for any model.
    ///
    /// # Errors
    /// `InvalidArgument` with the name of the invalid field.
    pub fn check(&self) -> Result<()> {
        let wrong = |field: &str, what: String| Err(Error::invalid(format!("`{field}` {what}")).field(field));
        if self.messages.iter().all(|it| it.content.trim().is_empty()) && self.images.is_empty() {
            return wrong("prompt", "is empty".into());
        }
        if self.max_tokens == 0 {
            return wrong("max_tokens", "is 0".into());
        }
        if !self.temperature.is_finite() || self.temperature < 0.0 {
            return wrong("temperature", format!("is {}, and must be 0 or more", self.temperature));
        }
        if self.model.as_ref().is_some_and(|it| it.0.trim().is_empty()) {
            return wrong("model", "is empty".into());
        }
        if let Some(bytes) = self.model.as_ref().map(|it| it.0.len()).filter(|it| *it > MAX_MODEL_NAME) {
            return wrong("model", format!("has {bytes} bytes; at most {MAX_MODEL_NAME} are allowed"));
        }
        let mut names: Vec<&str> = self.tools.iter().map(|it| it.name.as_str()).collect();
        if let Some(name) = names.iter().find(|it| !is_tool_name(it)) {
            return wrong("tools", format!("names `{name}`: use at most {MAX_TOOL_NAME} letters, digits, `_` and `-`"));
        }
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|it| it[0] == it[1]) {
            return wrong("tools", format!("names `{}` twice", twice[0]));
        }
        self.check_schemas()?;
        self.guardrails.as_ref().map_or(Ok(()), Guardrails::validate)
    }

    fn check_schemas(&self) -> Result<()> {
        let of_tools = self.tools.iter().map(|it| (format!("tools.{}", it.name), &it.parameters));
        let mut patterns = 0;
        for (field, schema) in of_tools.chain(self.schema.iter().map(|it| ("input_schema".into(), it))) {
            let schema = Schema::new(schema).map_err(|error| error.field(field.as_str()))?;
            patterns += schema.patterns();
            if patterns > MAX_PATTERNS {
                let text = format!(
                    "the schemas up to `{field}` have {patterns} patterns together; the limit is {MAX_PATTERNS}"
                );
                return Err(Error::invalid(text).field(field));
            }
        }
        Ok(())
    }

    /// Checks that a model supports the request.
    ///
    /// # Errors
    /// `InvalidArgument` with the name of the invalid field and its limit.
    pub fn validate_for_model(&self, model: &ModelCapability) -> Result<()> {
        let name = &model.id.0;
        let wrong = |field: &str, what: String| Err(Error::invalid(format!("`{field}` {what}")).field(field));
        if self.max_tokens > model.max_tokens {
            return wrong("max_tokens", format!("is {}; `{name}` gives at most {}", self.max_tokens, model.max_tokens));
        }
        if self.temperature > model.max_temperature {
            let most = model.max_temperature;
            return wrong("temperature", format!("is {}; `{name}` allows at most {most}", self.temperature));
        }
        if let (Some(wanted), Some(most)) = (self.context_tokens, model.max_context_tokens)
            && wanted > most
        {
            return wrong("context_tokens", format!("is {wanted}; `{name}` allows at most {most}"));
        }
        let needs = |it: &WorkloadKind| !model.workloads.contains(it);
        let workloads = [
            Some(self.workload),
            (!self.tools.is_empty()).then_some(WorkloadKind::Tool),
            (!self.images.is_empty()).then_some(WorkloadKind::Vision),
        ];
        match workloads.into_iter().flatten().find(needs) {
            Some(WorkloadKind::Tool) => wrong("tools", format!("are given; `{name}` does not support tool calls")),
            Some(WorkloadKind::Vision) => wrong("attachments", format!("are given; `{name}` does not support images")),
            Some(other) => wrong("workload", format!("is `{}`, which `{name}` does not support", other.name())),
            None => Ok(()),
        }
    }
}

fn is_tool_name(name: &str) -> bool {
    let allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
    !name.is_empty() && name.len() <= MAX_TOOL_NAME && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::ErrorCode;

    fn tool(name: &str) -> ToolSpec {
        ToolSpec { name: name.into(), description: "x".into(), parameters: json!({ "type": "object" }) }
    }

    fn builder() -> LlmRequestBuilder {
        LlmRequest::builder().model("m").prompt(Prompt::user("who?"))
    }

    #[test]
    fn invalid_request_is_rejected_with_field() {
        for (request, field) in [
            (LlmRequest::builder(), "prompt"),
            (builder().max_tokens(0), "max_tokens"),
            (builder().temperature(-0.1), "temperature"),
            (builder().temperature(f32::NAN), "temperature"),
            (builder().model(" "), "model"),
            (builder().model("m".repeat(MAX_MODEL_NAME + 1).as_str()), "model"),
            (builder().tools(vec![tool("a b")]), "tools"),
            (builder().tools(vec![tool("a"), tool("a")]), "tools"),
            (builder().tools(vec![ToolSpec { parameters: json!({ "type": 7 }), ..tool("a") }]), "tools.a"),
            (builder().input_schema(json!({ "type": "nonsense" })), "input_schema"),
            (
                builder().guardrails(Guardrails { stop: vec![String::new()], ..Guardrails::default() }),
                "guardrails.stop",
            ),
            (
                builder().guardrails(Guardrails { stop: vec!["x".repeat(2_000)], ..Guardrails::default() }),
                "guardrails.stop",
            ),
        ] {
            let error = request.build().unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArgument, Some(field)), "{error}");
        }
        builder().tools(vec![tool("a"), tool("b")]).max_tokens(512).build().unwrap();
    }

    #[test]
    fn schema_patterns_are_limited_per_request() {
        let names: serde_json::Map<_, _> = (0..60).map(|it| (format!("^a{it}$"), json!(true))).collect();
        let of = |name| ToolSpec { parameters: json!({ "patternProperties": names }), ..tool(name) };
        builder().tools(vec![of("a")]).build().unwrap();
        let error = builder().tools(vec![of("a"), of("b")]).build().unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArgument, Some("tools.b")), "{error}");
    }

    #[test]
    fn builder_with_limits_rejects_excess_values() {
        let limits = ModelCapability {
            max_tokens: 100,
            max_context_tokens: Some(2_048),
            ..ModelCapability::with_defaults("small".into())
        };
        let begun = || super::builder().prompt(Prompt::user("who?")).limits(&limits);
        assert_eq!(begun().max_tokens(100).build().unwrap().model, Some("small".into()));
        for (request, field) in [
            (begun().max_tokens(101), "max_tokens"),
            (begun().max_tokens(9).context_tokens(4_096), "context_tokens"),
            (begun().max_tokens(9).temperature(9.0), "temperature"),
            (begun().max_tokens(9).model("large"), "model"),
        ] {
            assert_eq!(request.build().unwrap_err().field.as_deref(), Some(field));
        }
    }

    #[test]
    fn every_number_is_checked_against_model_limits() {
        let limits = ModelCapability {
            max_tokens: 100,
            max_temperature: 1.0,
            max_context_tokens: Some(4_096),
            workloads: vec![WorkloadKind::Chat],
            ..ModelCapability::with_defaults("small".into())
        };
        let mut wide = builder().build().unwrap();
        wide.max_tokens = 100;
        wide.validate_for_model(&limits).unwrap();
        wide.context_tokens = Some(8_192);
        let mut seeing = builder().max_tokens(9).build().unwrap();
        seeing.images = vec![vec![1]];
        for (request, field) in [
            (builder().max_tokens(101).build().unwrap(), "max_tokens"),
            (builder().max_tokens(9).temperature(1.5).build().unwrap(), "temperature"),
            (wide, "context_tokens"),
            (builder().max_tokens(9).tools(vec![tool("a")]).build().unwrap(), "tools"),
            (seeing, "attachments"),
            (builder().max_tokens(9).workload(WorkloadKind::Completion).build().unwrap(), "workload"),
        ] {
            let error = request.validate_for_model(&limits).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
            assert!(error.message.contains("small"), "{error}");
        }
    }
}
