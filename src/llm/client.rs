//! The client of one model backend, its configuration, and the handles of its requests.

use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, Result};
use crate::llm::client_state::{CAPABILITY_TIMEOUT, ClientState};
use crate::llm::clock::{Clock, SystemClock};
use crate::llm::event_log::ProofCollector;
use crate::llm::memory_limit::MemoryReservation;
use crate::llm::queue::{Queue, QueueLimits};
use crate::llm::redact;
use crate::llm::request_task::RequestTask;
use crate::llm::tools::RegisteredTools;
use crate::llm::transport::TransportConfig;
use crate::machine::block_in_place;
use crate::model::llm::capabilities::{CapabilitySnapshot, ModelCapability, ModelLimits};
use crate::model::llm::event::{FinishReason, LlmStreamEvent, TaskId, Usage};
use crate::model::llm::guardrails::{Guardrails, RetryPolicy};
use crate::model::llm::request::{LlmRequest, ModelId, Timeouts, ToolCall};
use crate::model::{PrivacyMode, Redaction};

/// Number of buffered events per stream; if the buffer is full, reading from the model pauses.
const EVENT_BUFFER: usize = 64;
/// Default maximum of the context size in tokens: what agents need and a small machine can provide.
const CONTEXT_TOKENS: u32 = 16_384;

/// Stream of a request's events, in order; the last one is [`LlmStreamEvent::Completed`] or [`LlmStreamEvent::Error`].
/// Dropping the stream ends the request.
pub type LlmStream = BoxStream<'static, Result<LlmStreamEvent>>;

/// Configuration of a model client.
pub struct LlmClientConfig {
    /// The backend that the client talks to. For an `https` address, [`crate::egress`] checks the server's certificate with
    /// the system's certificates.
    pub transport: TransportConfig,
    /// Receives every request and event; `None` if no event log is kept.
    pub proof_sink: Option<Arc<dyn ProofCollector>>,
    /// Tools that the client runs when the model calls them.
    pub tool_registry: Option<RegisteredTools>,
    /// Guardrails for requests that have none of their own.
    pub default_guardrails: Guardrails,
    /// Retry policy if the guardrails have none; `None` means that only one attempt is made.
    pub retry_policy: Option<RetryPolicy>,
    /// The clock for times, latencies and waits.
    pub clock: Arc<dyn Clock>,
    /// Which secrets are redacted in everything that is sent.
    pub redaction: Redaction,
    /// Limits of the request queue of the backend.
    pub queue: QueueLimits,
    /// Maximum context size in tokens, for prompt and answer together; a smaller limit of the model takes precedence.
    pub context_tokens: u32,
}

impl Default for LlmClientConfig {
    fn default() -> LlmClientConfig {
        LlmClientConfig {
            transport: TransportConfig::Mock,
            proof_sink: None,
            tool_registry: None,
            default_guardrails: Guardrails::default(),
            retry_policy: None,
            clock: Arc::new(SystemClock::default()),
            redaction: Redaction::default(),
            queue: QueueLimits::default(),
            context_tokens: CONTEXT_TOKENS,
        }
    }
}

/// Creates a client, without sending a request.
///
/// # Errors
/// `InvalidArgument` if the default guardrails are invalid. The address of a server is checked only when a request is sent.
pub fn client(config: LlmClientConfig) -> Result<LlmClient> {
    config.default_guardrails.validate()?;
    let transport = config.transport.open()?;
    let queue = Queue::for_backend(&format!("{} {}", transport.backend(), transport.place()), config.queue);
    Ok(LlmClient {
        shared: Arc::new(ClientState {
            transport,
            proof: config.proof_sink,
            tools: config.tool_registry,
            guardrails: config.default_guardrails,
            retry: config.retry_policy,
            clock: config.clock,
            redaction: config.redaction,
            queue,
            context_tokens: config.context_tokens,
            tasks: Mutex::default(),
            capabilities: Mutex::default(),
        }),
    })
}

/// A client of one model backend. Cheap to clone; all clones share their state.
#[derive(Clone)]
pub struct LlmClient {
    shared: Arc<ClientState>,
}

/// Handle of an enqueued request. Events are buffered until [`LlmClient::stream`] is called; dropping the last handle
/// before that ends the request.
#[derive(Clone, Debug)]
pub struct TaskHandle {
    id: TaskId,
    events: Arc<Mutex<Option<mpsc::Receiver<LlmStreamEvent>>>>,
}

impl TaskHandle {
    /// Returns the id of the task.
    pub fn id(&self) -> &TaskId {
        &self.id
    }
}

/// The result of cancelling a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The request was running or waiting, and ends now.
    Ended,
    /// The request had already ended or never existed.
    NotRunning,
}

/// A complete answer of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmAnswer {
    /// The text of the answer.
    pub text: String,
    /// Why the answer ended.
    pub finish: FinishReason,
    /// Number of tokens of prompt and answer.
    pub usage: Usage,
    /// Tool calls that the caller must run. Empty unless the model stopped in order to call tools.
    pub tool_calls: Vec<ToolCall>,
}

impl LlmClient {
    /// Returns the name of the default model.
    pub fn name(&self) -> &str {
        self.shared.transport.model()
    }

    /// Returns the kind of backend: `ollama`, `openai`, `command` or `mock`.
    pub fn backend(&self) -> &'static str {
        self.shared.transport.backend()
    }

    /// Queries the capabilities of all models of the backend. Later requests are validated against them.
    ///
    /// # Errors
    /// The backend cannot be queried, see the docs of [`crate::llm`].
    pub async fn capabilities(&self, mode: PrivacyMode) -> Result<CapabilitySnapshot> {
        let shared = &self.shared;
        let mut models = shared.transport.capabilities(mode).await?;
        models.sort_by(|a, b| a.id.cmp(&b.id));
        let snapshot = CapabilitySnapshot {
            backend: shared.transport.backend().into(),
            place: shared.transport.place(),
            default_model: ModelId(shared.transport.model().into()),
            models,
            queue: shared.queue.state(),
            taken_at: shared.clock.now_ms(),
        };
        *shared.capabilities() = snapshot.models.clone();
        Ok(snapshot)
    }

    /// Returns the limits of requests to a model (`None` for the default model): those of the backend, with the context
    /// limited by the configuration. If the backend reports no limits or is unreachable, only the configuration counts; the
    /// request itself will report an unreachable backend.
    pub async fn limits(&self, model: Option<&ModelId>, mode: PrivacyMode) -> ModelLimits {
        self.shared.limits(model, mode, CAPABILITY_TIMEOUT).await
    }

    /// Queries the capabilities of a request's model, validates the request against them and returns them. Does not send
    /// the request.
    ///
    /// # Errors
    /// `InvalidArgument` as [`LlmClient::enqueue`]; other errors if the backend cannot be queried.
    pub async fn validate(&self, request: &LlmRequest) -> Result<ModelCapability> {
        block_in_place(|| request.check())?;
        self.capabilities(request.privacy_mode).await?;
        let known = self.known_capability(request);
        request.validate_for_model(&known)?;
        Ok(known)
    }

    /// Returns the cached capabilities of a request's model, or default ones if they are not known.
    fn known_capability(&self, request: &LlmRequest) -> ModelCapability {
        let model = self.shared.named_or_default(request.model.as_ref());
        self.shared.cached_capability(&model).unwrap_or_else(|| ModelCapability::with_defaults(model))
    }

    /// Checks and enqueues a request. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// `InvalidArgument` with the field that is invalid or exceeds the model's limits; `ResourceExhausted` if the queue
    /// is full or other requests use too much memory. In each case nothing was sent.
    pub fn enqueue(&self, mut request: LlmRequest) -> Result<TaskHandle> {
        // Tells the runtime that this blocks: compiling schemas and scanning megabytes of messages for secrets takes CPU
        // time.
        let (load, place) = block_in_place(|| {
            request.check()?;
            request.validate_for_model(&self.known_capability(&request))?;
            let held = (MemoryReservation::for_request(&request)?, self.shared.queue.enter()?);
            redact::redact_request(&mut request, self.shared.redaction);
            Ok::<_, Error>(held)
        })?;
        let id = TaskId::random()?;
        let (sender, receiver) = mpsc::channel(EVENT_BUFFER);
        let cancel = CancellationToken::new();
        self.shared.tasks().insert(id.clone(), cancel.clone());
        let run = RequestTask {
            shared: self.shared.clone(),
            id: id.clone(),
            events: sender,
            cancel,
            accepted: self.shared.clock.elapsed(),
            tokens: 0,
            usage: Usage::default(),
            _load: load,
        };
        tokio::spawn(run.run(place, request));
        Ok(TaskHandle { id, events: Arc::new(Mutex::new(Some(receiver))) })
    }

    /// Returns the stream of a request's events; can be called once.
    ///
    /// # Errors
    /// `FailedPrecondition` if the stream of the request was already taken.
    pub fn stream(&self, handle: &TaskHandle) -> Result<LlmStream> {
        let receiver = handle.events.lock().unwrap_or_else(PoisonError::into_inner).take();
        let receiver = receiver.ok_or_else(|| {
            Error::new(ErrorCode::FailedPrecondition, format!("the stream of task `{}` was already taken", handle.id))
        })?;
        let steps = stream::unfold(Some(receiver), |receiver| async move {
            let mut receiver = receiver?;
            let event = receiver.recv().await.unwrap_or_else(|| {
                LlmStreamEvent::from_error(&Error::internal("the request ended without a final event"))
            });
            let next = (!event.is_last()).then_some(receiver);
            Some((Ok(event), next))
        });
        Ok(steps.fuse().boxed())
    }

    /// Cancels a request: its stream ends with [`FinishReason::Cancelled`].
    pub fn cancel(&self, handle: &TaskHandle) -> CancelOutcome {
        self.cancel_by_id(&handle.id)
    }

    /// Like [`LlmClient::cancel`], with a task id.
    pub fn cancel_by_id(&self, id: &TaskId) -> CancelOutcome {
        match self.shared.tasks().get(id) {
            Some(token) => {
                token.cancel();
                CancelOutcome::Ended
            }
            None => CancelOutcome::NotRunning,
        }
    }

    /// Enqueues a request and returns the stream of its events.
    ///
    /// # Errors
    /// The same errors as [`LlmClient::enqueue`].
    pub fn enqueue_and_stream(&self, request: LlmRequest) -> Result<LlmStream> {
        self.stream(&self.enqueue(request)?)
    }

    /// Enqueues a request and waits for the complete answer.
    ///
    /// # Errors
    /// The same errors as [`LlmClient::enqueue`], and the error at the end of the stream.
    pub async fn complete(&self, request: LlmRequest) -> Result<LlmAnswer> {
        let mut stream = self.enqueue_and_stream(request)?;
        let mut answer =
            LlmAnswer { text: String::new(), finish: FinishReason::Other, usage: Usage::default(), tool_calls: vec![] };
        while let Some(event) = stream.next().await {
            match event?.into_result()? {
                LlmStreamEvent::Token { text, .. } => answer.text.push_str(&text),
                LlmStreamEvent::ToolCall { descriptor_name, invocation_id, arguments_json } => {
                    answer.tool_calls.push(ToolCall { id: invocation_id, name: descriptor_name, arguments_json });
                }
                LlmStreamEvent::Metrics { usage: Some(usage), .. } => answer.usage = usage,
                LlmStreamEvent::Completed { finish_reason: FinishReason::Cancelled } => {
                    return Err(Error::new(ErrorCode::Cancelled, "the request was cancelled"));
                }
                LlmStreamEvent::Completed { finish_reason } => answer.finish = finish_reason,
                _ => (),
            }
        }
        Ok(answer)
    }

    /// Computes embeddings of texts with the client's model. Secrets in the texts are redacted as in every request.
    ///
    /// # Errors
    /// `FailedPrecondition` if the backend cannot embed, `ResourceExhausted` if the queue is full, and errors of the
    /// backend.
    pub async fn embed(&self, texts: &[String], mode: PrivacyMode) -> Result<Vec<Vec<f32>>> {
        let shared = &self.shared;
        let _load = MemoryReservation::reserve(texts.iter().map(String::len).sum())?;
        let _turn = shared.queue.enter()?.acquire(Timeouts::default().overall).await?;
        let texts: Vec<String> = texts.iter().map(|it| shared.redact(it)).collect();
        let context = match shared.transport.takes_context() {
            true => Some(shared.limits(None, mode, CAPABILITY_TIMEOUT).await.context_tokens),
            false => None,
        };
        shared.transport.embed(&texts, context, mode).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Mock;
    use crate::llm::client_state::MAX_CACHED_MODELS;

    #[tokio::test]
    async fn only_newest_model_capabilities_are_cached() {
        let client = Mock::new(Vec::new()).client();
        let name = |number: usize| ModelId(format!("model-{number}"));
        for number in 0..MAX_CACHED_MODELS + 9 {
            client.limits(Some(&name(number)), PrivacyMode::LocalOnly).await;
        }
        assert_eq!(client.shared.capabilities().len(), MAX_CACHED_MODELS);
        assert!(
            client.shared.cached_capability(&name(8)).is_none()
                && client.shared.cached_capability(&name(MAX_CACHED_MODELS + 8)).is_some()
        );
    }
}
