//! Requests to an agent, its limits, and the choice of a backend.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Default time for a question: a local model on a CPU may take minutes.
pub const QUESTION_TIME: Duration = Duration::from_secs(180);

/// The kind of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Rules without a model, with deterministic answers.
    Mock,
    /// An Ollama server.
    Ollama,
    /// An OpenAI-compatible server.
    #[serde(rename = "openai")]
    OpenAi,
    /// A command that speaks the plugin protocol.
    Command,
}

impl BackendKind {
    /// Every kind.
    pub const ALL: [BackendKind; 4] =
        [BackendKind::Mock, BackendKind::Ollama, BackendKind::OpenAi, BackendKind::Command];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::Mock => "mock",
            BackendKind::Ollama => "ollama",
            BackendKind::OpenAi => "openai",
            BackendKind::Command => "command",
        }
    }

    /// Returns the kind of that name.
    pub fn from_name(name: &str) -> Option<BackendKind> {
        BackendKind::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// A command as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// A name or a path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The working directory where it was typed.
    pub folder: PathBuf,
}

/// Overrides of the chosen backend by one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// Another kind of backend.
    pub backend: Option<BackendKind>,
    /// Another model.
    pub model: Option<String>,
    /// A command; alone it selects [`BackendKind::Command`].
    pub command: Option<CommandLine>,
    /// A time limit other than the default of the task.
    pub time: Option<Duration>,
}

/// The limits of an agent for one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most reasoner steps.
    pub steps: u32,
    /// Most time from the question to the answer.
    pub time: Duration,
    /// Most tokens sent and received, estimated.
    pub tokens: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { steps: 12, time: QUESTION_TIME, tokens: 120_000 }
    }
}

/// A request to an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentRequest {
    /// The question.
    pub question: String,
    /// Overrides of the chosen backend.
    pub over: Override,
    /// Its limits; `None` means [`Bounds::default`].
    pub bounds: Option<Bounds>,
}
