//! What the models of a backend can do, as far as it says.

use serde::Serialize;

use crate::model::llm::request::{ModelId, WorkloadKind};

/// More tokens than any model gives in one answer; the limit of a model that does not say its own.
const MOST_TOKENS: u32 = 1 << 17;
/// Where the usual samplers end.
const MOST_TEMPERATURE: f32 = 2.0;

/// What is told of another machine to those who need not know which.
const ELSEWHERE: &str = "another machine";

/// One model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCapability {
    /// Its name.
    pub id: ModelId,
    /// Tokens of prompt and answer together, where the backend says.
    pub max_context_tokens: Option<u32>,
    /// Most tokens of one answer.
    pub max_tokens: u32,
    /// Highest temperature.
    pub max_temperature: f32,
    /// What it can be asked for.
    pub workloads: Vec<WorkloadKind>,
    /// The other machine that runs it, where the backend passes it on.
    pub passed_on_to: Option<String>,
}

impl ModelCapability {
    /// A model of which nothing is known but its name: whatever common models can do is let through.
    pub fn unknown(id: ModelId) -> ModelCapability {
        use WorkloadKind::{Chat, Completion, Tool, Vision};
        ModelCapability {
            id,
            max_context_tokens: None,
            max_tokens: MOST_TOKENS,
            max_temperature: MOST_TEMPERATURE,
            workloads: vec![Chat, Completion, Tool, Vision],
            passed_on_to: None,
        }
    }
}

impl ModelCapability {
    /// The same for those who need not know where it runs. That it runs elsewhere, everybody has to know.
    #[must_use]
    pub fn without_place(self) -> ModelCapability {
        ModelCapability { passed_on_to: self.passed_on_to.map(|_| ELSEWHERE.into()), ..self }
    }

    /// The one of that name. Ollama's names have `:latest` behind them when nothing else stands there.
    pub fn named<'a>(models: &'a [ModelCapability], id: &ModelId) -> Option<&'a ModelCapability> {
        let latest = format!("{}:latest", id.0);
        models.iter().find(|it| it.id == *id).or_else(|| models.iter().find(|it| it.id.0 == latest))
    }
}

/// What one request to a model may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModelLimits {
    /// Tokens of prompt and answer together.
    pub context_tokens: u32,
    /// Most tokens of the answer among them.
    pub answer_tokens: u32,
}

impl ModelLimits {
    /// The limits of a model that is given at most `configured` tokens of context, whatever it could take.
    pub fn of(model: &ModelCapability, configured: u32) -> ModelLimits {
        let context_tokens = model.max_context_tokens.map_or(configured, |it| it.min(configured));
        ModelLimits { context_tokens, answer_tokens: model.max_tokens.min(context_tokens) }
    }
}

/// How busy a backend is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueState {
    /// Requests at work.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Most at work at the same time.
    pub most_running: usize,
    /// Most that may wait; the next one is refused.
    pub most_waiting: usize,
}

/// A look at a backend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapabilitySnapshot {
    /// Which kind: `ollama`, `openai`, `command` or `mock`.
    pub backend: String,
    /// Where it is: an address, or a program. Empty for those who need not know.
    pub place: String,
    /// The model that is asked when a request names none.
    pub default_model: ModelId,
    /// Its models, by name.
    pub models: Vec<ModelCapability>,
    /// How busy it is.
    pub queue: QueueState,
    /// When this was true, milliseconds since the epoch.
    pub taken_at: i64,
}

impl CapabilitySnapshot {
    /// The same for those who need not know where the backend is, and where it passes a model on to.
    #[must_use]
    pub fn without_place(self) -> CapabilitySnapshot {
        let models = self.models.into_iter().map(ModelCapability::without_place).collect();
        CapabilitySnapshot { place: String::new(), models, ..self }
    }

    /// A model by its name, with or without Ollama's `:latest`.
    pub fn model(&self, id: &ModelId) -> Option<&ModelCapability> {
        ModelCapability::named(&self.models, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_a_model_is_passed_on_is_told_to_everybody_and_where_to_is_not() {
        let passed_on = Some("https://models.example:443".to_string());
        let models =
            [passed_on, None].map(|it| ModelCapability { passed_on_to: it, ..ModelCapability::unknown("m".into()) });
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
        assert_eq!((told.place.as_str(), passed_on), ("", vec![Some(ELSEWHERE), None]));
    }
}
