//! What an agent is asked, and what it may use for that.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Usual time of a question to a query and its answer: a local model on a processor may think for minutes.
pub const QUESTION_TIME: Duration = Duration::from_secs(180);

/// Kind of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// No model: rules that say the same every time.
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

/// A command as somebody typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// A name, or a path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it was typed.
    pub folder: PathBuf,
}

/// What one request wants instead of the choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// Another kind of backend.
    pub backend: Option<BackendKind>,
    /// Another model.
    pub model: Option<String>,
    /// A command; alone it means [`BackendKind::Command`].
    pub command: Option<CommandLine>,
    /// Another time than is usual for the work.
    pub time: Option<Duration>,
}

/// What an agent may take for one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Calls of tools.
    pub steps: u32,
    /// From the question to the answer.
    pub time: Duration,
    /// Tokens sent and received, estimated.
    pub tokens: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { steps: 12, time: QUESTION_TIME, tokens: 120_000 }
    }
}

/// What an agent is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentRequest {
    /// The question.
    pub question: String,
    /// Another backend than the chosen one.
    pub over: Override,
    /// What it may take; None takes [`Bounds::default`].
    pub bounds: Option<Bounds>,
}
