//! Language models: a request to a stream of text.
//!
//! [`Llm`] has two transports, Ollama and OpenAI-compatible servers, and `mock` for the tests of other rooms. What is
//! asked and what the answer means belongs to the callers; nothing here touches a file or the index, and every request
//! passes [`crate::embed::egress`]. A model that Ollama passes on to another machine counts as leaving this one.
//!
//! Every bad ending is a typed error: no model (`NotFound`, with the command that fetches it), no server or one that
//! closes early (`Unavailable`), silence (`DeadlineExceeded`), an error in the middle of the answer or nonsense instead of
//! one (`FailedPrecondition`), an answer without end (`ResourceExhausted`), the privacy mode (`PermissionDenied`).

mod discreet;
mod lines;
#[cfg(test)]
pub(crate) mod mock;
mod ollama;
mod openai;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use serde_json::Value;

use crate::config::{Config, LlmBackend};
use crate::error::{Error, ErrorCode, Result};
use crate::model::PrivacyMode;

/// Most bytes of an answer, unless the request says otherwise: far more than any summary or plan.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// Most tokens of an answer, unless the request says otherwise.
const MAX_TOKENS: u32 = 1024;

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The program, on behalf of the user.
    User,
    /// The model.
    Assistant,
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What. Text of documents is marked as data by the caller.
    pub content: String,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the first piece: a server may have to load a model of some gigabytes.
    pub first: Duration,
    /// Between two pieces.
    pub idle: Duration,
    /// For everything.
    pub overall: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { first: Duration::from_secs(120), idle: Duration::from_secs(30), overall: Duration::from_secs(300) }
    }
}

/// What a model is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmRequest {
    /// What may leave the machine.
    pub privacy_mode: PrivacyMode,
    /// What the model is to be; may be empty.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Encoded images (PNG, JPEG, WebP, GIF) that belong to the last message.
    pub images: Vec<Vec<u8>>,
    /// JSON Schema that the answer must satisfy. Servers constrain the model by it; the caller still checks.
    pub schema: Option<Value>,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// 0 gives the likeliest answer.
    pub temperature: f32,
    /// Makes answers repeatable where the server can.
    pub seed: Option<u64>,
    /// Tokens of context that an Ollama server must give the model; its default may cut a long prompt.
    pub context_tokens: Option<u32>,
    /// Most bytes of the answer.
    pub max_answer_bytes: usize,
    /// How long to wait.
    pub patience: Patience,
}

impl LlmRequest {
    /// A request with one message and the usual limits, at temperature 0.
    pub fn new(privacy_mode: PrivacyMode, system: &str, message: &str) -> LlmRequest {
        LlmRequest {
            privacy_mode,
            system: system.into(),
            messages: vec![Message { role: Role::User, content: message.into() }],
            images: Vec::new(),
            schema: None,
            max_tokens: MAX_TOKENS,
            temperature: 0.0,
            seed: Some(0),
            context_tokens: None,
            max_answer_bytes: MAX_ANSWER_BYTES,
            patience: Patience::default(),
        }
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model was done.
    Stop,
    /// `max_tokens` cut it.
    Length,
    /// Anything else, e.g. a content filter.
    Other,
}

/// Tokens that were counted, where the server says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: u64,
    /// Of the answer.
    pub answer_tokens: u64,
}

/// A step of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LlmEvent {
    /// More text.
    Text(String),
    /// The end; nothing comes after it.
    Done {
        /// Why.
        finish: Finish,
        /// What it took.
        usage: Usage,
    },
}

/// Steps of an answer: texts, then one `Done` or one error.
pub type LlmStream = Pin<Box<dyn Stream<Item = Result<LlmEvent>> + Send>>;

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmAnswer {
    /// The text.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// What it took.
    pub usage: Usage,
}

/// A language model on a server. Shared by all threads.
#[async_trait::async_trait]
pub trait Llm: Send + Sync {
    /// The model's name on its server.
    fn name(&self) -> &str;

    /// Asks. Dropping the stream ends the request.
    ///
    /// # Errors
    /// See the module; the stream itself can end with the same errors.
    async fn stream(&self, request: LlmRequest) -> Result<LlmStream>;

    /// Asks and waits for the whole answer.
    ///
    /// # Errors
    /// As [`Llm::stream`].
    async fn complete(&self, request: LlmRequest) -> Result<LlmAnswer> {
        let mut stream = self.stream(request).await?;
        let mut text = String::new();
        while let Some(event) = stream.next().await {
            match event? {
                LlmEvent::Text(more) => text.push_str(&more),
                LlmEvent::Done { finish, usage } => return Ok(LlmAnswer { text, finish, usage }),
            }
        }
        Err(Error::new(ErrorCode::Unavailable, format!("model `{}` gave no end to its answer", self.name())))
    }
}

/// What a model is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Plans and answers.
    Reasoning,
    /// Looking at images.
    Vision,
}

/// Makes the client of the configured model; nothing is sent yet. There is always one for vision (Ollama's unless the
/// backend is `openai`), and none for reasoning when the backend is `stub`.
///
/// # Errors
/// The server's address is no http address.
pub fn open(config: &Config, task: Task) -> Result<Option<Arc<dyn Llm>>> {
    let (llm, servers) = (&config.llm, &config.embed);
    let ollama = |model: &str| {
        Arc::new(ollama::Ollama::new(&servers.ollama_url, servers.ollama_key.clone(), model)) as Arc<dyn Llm>
    };
    let openai = |model: &str| {
        Arc::new(openai::OpenAi::new(&servers.openai_url, servers.openai_key.clone(), model)) as Arc<dyn Llm>
    };
    let model = match (llm.backend, task) {
        (LlmBackend::Stub, Task::Reasoning) => None,
        (LlmBackend::Ollama, Task::Reasoning) => Some(ollama(&llm.model)),
        (LlmBackend::OpenAi, Task::Reasoning) => Some(openai(&llm.model)),
        (LlmBackend::Stub | LlmBackend::Ollama, Task::Vision) => Some(ollama(&llm.vision_model)),
        (LlmBackend::OpenAi, Task::Vision) => Some(openai(&llm.vision_model)),
    };
    let discreet = |model| Arc::new(discreet::Discreet::new(model, config.limits.redaction)) as Arc<dyn Llm>;
    Ok(model.map(discreet))
}
