//! Models of a backend: their names, kinds of work and capabilities, as reported by the backend.

use serde::{Deserialize, Serialize};

/// Default limit of an answer, if the model reports none: more tokens than any model produces.
const DEFAULT_MAX_TOKENS: u32 = 1 << 17;
/// Upper limit of common samplers.
const DEFAULT_MAX_TEMPERATURE: f32 = 2.0;

/// Replacement for a host name that the caller may not see.
const REMOTE_HOST_LABEL: &str = "another machine";

/// Name of a model on its backend, e.g. `nemotron-3-nano`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelId(pub String);

impl From<&str> for ModelId {
    fn from(name: &str) -> ModelId {
        ModelId(name.into())
    }
}

/// The kind of work of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadKind {
    /// A conversation.
    #[default]
    Chat,
    /// Continues a text.
    Completion,
    /// A conversation in which the model may call tools.
    Tool,
    /// A request with images.
    Vision,
}

impl WorkloadKind {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            WorkloadKind::Chat => "chat",
            WorkloadKind::Completion => "completion",
            WorkloadKind::Tool => "tool",
            WorkloadKind::Vision => "vision",
        }
    }

    /// Returns the kind with this wire name.
    pub fn from_name(name: &str) -> Option<WorkloadKind> {
        use WorkloadKind::{Chat, Completion, Tool, Vision};
        [Chat, Completion, Tool, Vision].into_iter().find(|it| it.name() == name)
    }
}

/// One model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCapability {
    /// Its name.
    pub id: ModelId,
    /// Maximum tokens of prompt and answer together, if reported.
    pub max_context_tokens: Option<u32>,
    /// Maximum tokens of one answer.
    pub max_tokens: u32,
    /// Highest temperature.
    pub max_temperature: f32,
    /// Supported kinds of work.
    pub workloads: Vec<WorkloadKind>,
    /// The host to which the backend forwards it, if any.
    pub passed_on_to: Option<String>,
}

impl ModelCapability {
    /// Capabilities of a model with only a known name: everything that common models can do is allowed.
    pub fn with_defaults(id: ModelId) -> ModelCapability {
        use WorkloadKind::{Chat, Completion, Tool, Vision};
        ModelCapability {
            id,
            max_context_tokens: None,
            max_tokens: DEFAULT_MAX_TOKENS,
            max_temperature: DEFAULT_MAX_TEMPERATURE,
            workloads: vec![Chat, Completion, Tool, Vision],
            passed_on_to: None,
        }
    }
}

impl ModelCapability {
    /// Hides the host that runs the model, for callers that may not see it. That it is remote stays visible.
    #[must_use]
    pub fn without_place(self) -> ModelCapability {
        ModelCapability { passed_on_to: self.passed_on_to.map(|_| REMOTE_HOST_LABEL.into()), ..self }
    }

    /// Finds a model by name. Ollama appends `:latest` to names without a tag.
    pub fn find_by_name<'a>(models: &'a [ModelCapability], id: &ModelId) -> Option<&'a ModelCapability> {
        let latest = format!("{}:latest", id.0);
        models.iter().find(|it| it.id == *id).or_else(|| models.iter().find(|it| it.id.0 == latest))
    }
}

/// Token limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModelLimits {
    /// Maximum tokens of prompt and answer together.
    pub context_tokens: u32,
    /// Maximum tokens of the answer.
    pub answer_tokens: u32,
}

impl ModelLimits {
    /// Returns the limits of a model with at most `configured` tokens of context.
    pub fn for_model(model: &ModelCapability, configured: u32) -> ModelLimits {
        let context_tokens = model.max_context_tokens.map_or(configured, |it| it.min(configured));
        ModelLimits { context_tokens, answer_tokens: model.max_tokens.min(context_tokens) }
    }
}

/// The load of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueState {
    /// Running requests.
    pub running: usize,
    /// Waiting requests.
    pub waiting: usize,
    /// Maximum running requests.
    pub most_running: usize,
    /// Maximum waiting requests; further ones are rejected.
    pub most_waiting: usize,
}

/// A snapshot of a backend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapabilitySnapshot {
    /// Kind of backend: `ollama`, `openai`, `command` or `mock`.
    pub backend: String,
    /// Its address or program. Empty for callers that may not see it.
    pub place: String,
    /// The default model.
    pub default_model: ModelId,
    /// Its models, by name.
    pub models: Vec<ModelCapability>,
    /// Its load.
    pub queue: QueueState,
    /// When it was taken, in milliseconds since the epoch.
    pub taken_at: i64,
}

impl CapabilitySnapshot {
    /// Hides the addresses of the backend and of forwarded models, for callers that may not see them.
    #[must_use]
    pub fn without_place(self) -> CapabilitySnapshot {
        let models = self.models.into_iter().map(ModelCapability::without_place).collect();
        CapabilitySnapshot { place: String::new(), models, ..self }
    }

    /// Finds a model by name, with or without Ollama's `:latest`.
    pub fn model(&self, id: &ModelId) -> Option<&ModelCapability> {
        ModelCapability::find_by_name(&self.models, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_model_stays_visible_but_its_host_is_hidden() {
        let passed_on = Some("https://models.example:443".to_string());
        let models = [passed_on, None]
            .map(|it| ModelCapability { passed_on_to: it, ..ModelCapability::with_defaults("m".into()) });
        let snapshot = CapabilitySnapshot {
            backend: "ollama".into(),
            place: "http://192.0.2.7".into(),
            default_model: "m".into(),
            models: models.into(),
            queue: QueueState::default(),
            taken_at: 0,
        };
        let told = snapshot.without_place();
        let passed_on: Vec<_> = told.models.iter().map(|it| it.passed_on_to.as_deref()).collect();
        assert_eq!((told.place.as_str(), passed_on), ("", vec![Some(REMOTE_HOST_LABEL), None]));
    }
}
