//! The models of a language model backend: names, kinds of work, limits and load, as the backend reports them.

use serde::{Deserialize, Serialize};

/// Maximum tokens of an answer, if the model reports no limit: more tokens than any model produces.
const DEFAULT_MAX_TOKENS: u32 = 1 << 17;
/// Maximum temperature, if the model reports no limit: the limit of common servers.
const DEFAULT_MAX_TEMPERATURE: f32 = 2.0;

/// Shown in place of a host name that the caller may not see.
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

/// The kind of work that a request asks of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadKind {
    /// A conversation.
    #[default]
    Chat,
    /// Continuation of a text.
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

/// A model and what it can do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCapability {
    /// Name of the model.
    pub id: ModelId,
    /// Maximum tokens of prompt and answer together, if reported.
    pub max_context_tokens: Option<u32>,
    /// Maximum tokens of one answer.
    pub max_tokens: u32,
    /// Maximum sampling temperature.
    pub max_temperature: f32,
    /// Kinds of work that the model supports.
    pub workloads: Vec<WorkloadKind>,
    /// The host that runs the model, if the backend forwards its requests to another host.
    pub passed_on_to: Option<String>,
}

impl ModelCapability {
    /// Returns the capabilities of a model if only its name is known: everything that common models can do.
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
    /// Replaces the name of the host that runs the model, for callers that may not see it. They still see that it is remote.
    #[must_use]
    pub fn without_place(self) -> ModelCapability {
        ModelCapability { passed_on_to: self.passed_on_to.map(|_| REMOTE_HOST_LABEL.into()), ..self }
    }

    /// Finds a model by name. A name without a tag also matches with `:latest`, which Ollama appends.
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
    /// Returns the limits for requests to a model; `configured` is the maximum context of the settings, in tokens.
    pub fn for_model(model: &ModelCapability, configured: u32) -> ModelLimits {
        let context_tokens = model.max_context_tokens.map_or(configured, |it| it.min(configured));
        ModelLimits { context_tokens, answer_tokens: model.max_tokens.min(context_tokens) }
    }
}

/// The number of requests that a backend runs and that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueState {
    /// Number of running requests.
    pub running: usize,
    /// Number of waiting requests.
    pub waiting: usize,
    /// Maximum number of running requests.
    pub most_running: usize,
    /// Maximum number of waiting requests; further requests are rejected.
    pub most_waiting: usize,
}

/// The models and the load of a backend at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapabilitySnapshot {
    /// Kind of backend: `ollama`, `openai`, `command` or `mock`.
    pub backend: String,
    /// Address or program of the backend. Empty for callers that may not see it.
    pub place: String,
    /// The model for requests that name none.
    pub default_model: ModelId,
    /// Models of the backend, sorted by name.
    pub models: Vec<ModelCapability>,
    /// Running and waiting requests.
    pub queue: QueueState,
    /// Time of the snapshot, in milliseconds since the epoch.
    pub taken_at: i64,
}

impl CapabilitySnapshot {
    /// Hides the addresses of the backend and of forwarded models, for callers that may not see them.
    #[must_use]
    pub fn without_place(self) -> CapabilitySnapshot {
        let models = self.models.into_iter().map(ModelCapability::without_place).collect();
        CapabilitySnapshot { place: String::new(), models, ..self }
    }

    /// Finds a model by name, with or without the tag `:latest` of Ollama.
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
