//! Questions to an agent (a language model that calls vic's tools), the limits of a run, and the choice of a backend.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Default time limit for one question: three minutes, because a local model on a CPU may take minutes.
pub const QUESTION_TIME: Duration = Duration::from_secs(180);

/// The kind of backend that runs the language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Fixed rules instead of a model, with deterministic answers.
    Mock,
    /// An Ollama server.
    Ollama,
    /// An OpenAI-compatible server.
    #[serde(rename = "openai")]
    OpenAi,
    /// A command that speaks vic's plugin protocol.
    Command,
}

impl BackendKind {
    /// Every kind of backend.
    pub const ALL: [BackendKind; 4] =
        [BackendKind::Mock, BackendKind::Ollama, BackendKind::OpenAi, BackendKind::Command];

    /// Returns the name used in settings and requests.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::Mock => "mock",
            BackendKind::Ollama => "ollama",
            BackendKind::OpenAi => "openai",
            BackendKind::Command => "command",
        }
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<BackendKind> {
        BackendKind::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// A command of a backend, as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Name or path of the program.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// The working directory in which the user typed the command.
    pub folder: PathBuf,
}

/// Settings of one request that replace those of the chosen backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// Kind of backend to use instead of the chosen one.
    pub backend: Option<BackendKind>,
    /// Model to use instead of the backend's default.
    pub model: Option<String>,
    /// Command to run as the backend. If `backend` is unset, it selects [`BackendKind::Command`].
    pub command: Option<CommandLine>,
    /// Time limit to use instead of the task's default.
    pub time: Option<Duration>,
}

/// The limits of an agent run for one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of steps (calls of the model).
    pub steps: u32,
    /// Maximum time from the question to the answer.
    pub time: Duration,
    /// Maximum estimated number of tokens sent to and received from the model.
    pub tokens: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { steps: 12, time: QUESTION_TIME, tokens: 120_000 }
    }
}

/// A question to an agent, with its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentRequest {
    /// The question that the agent is to answer.
    pub question: String,
    /// Settings that replace those of the chosen backend.
    pub over: Override,
    /// Limits of the run; `None` means [`Bounds::default`].
    pub bounds: Option<Bounds>,
    /// Whether a plugin gets the results of a search for the question before its first step, as models always do.
    pub prefetch: bool,
}
