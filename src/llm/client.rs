//! The client of one backend.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, Result};
use crate::llm::clock::{Clock, SystemClock};
use crate::llm::discreet;
use crate::llm::load::Load;
use crate::llm::proof::ProofCollector;
use crate::llm::queue::{Queue, QueueLimits};
use crate::llm::run::Run;
use crate::llm::tools::RegisteredTools;
use crate::llm::transport::{Transport, TransportConfig};
use crate::machine::computing;
use crate::model::llm::capabilities::{CapabilitySnapshot, ModelCapability, ModelLimits};
use crate::model::llm::event::{FinishReason, LlmStreamEvent, TaskId, Usage};
use crate::model::llm::guardrails::{Guardrails, RetryPolicy};
use crate::model::llm::request::{LlmRequest, ModelId, Patience, ToolCall};
use crate::model::{PrivacyMode, Redaction};

/// Events that wait for a slow reader; then the model waits too.
const EVENTS: usize = 64;
/// Context of a model when the configuration says nothing: what agents need, and what a small machine can give.
const CONTEXT_TOKENS: u32 = 16_384;
/// Models of which it is kept what the backend said when it was asked for one: more than anybody goes through, however
/// many a caller names.
const MOST_KNOWN: usize = 256;
/// Longest wait for what a backend says of a model; the request itself is more patient.
const LOOK_TIME: Duration = Duration::from_secs(10);

/// Events of a request, in order; the last is [`LlmStreamEvent::Completed`] or [`LlmStreamEvent::Error`]. Dropping it ends
/// the request.
pub type LlmStream = BoxStream<'static, Result<LlmStreamEvent>>;

/// What a client is made of.
pub struct LlmClientConfig {
    /// Where the model is and how it is spoken to. TLS is the address's: the gate takes `https` with the certificates of
    /// the system.
    pub transport: TransportConfig,
    /// Is told everything that happens.
    pub proof_sink: Option<Arc<dyn ProofCollector>>,
    /// Tools that are run when the model calls them.
    pub tool_registry: Option<RegisteredTools>,
    /// Policies of requests that bring none.
    pub default_guardrails: Guardrails,
    /// Tries of requests whose guardrails say nothing of it; None is one.
    pub retry_policy: Option<RetryPolicy>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// What is blacked out in everything that is sent.
    pub redaction: Redaction,
    /// How much the backend is given to do.
    pub queue: QueueLimits,
    /// Most tokens of context, prompt and answer together; a model that has less gets less.
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

/// Makes a client; nothing is sent yet.
///
/// # Errors
/// The default guardrails cannot be meant, or the address of the server is none.
pub fn client(config: LlmClientConfig) -> Result<LlmClient> {
    config.default_guardrails.check()?;
    let transport = config.transport.open()?;
    let queue = Queue::before(&format!("{} {}", transport.backend(), transport.place()), config.queue);
    Ok(LlmClient {
        shared: Arc::new(Shared {
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
            known: Mutex::default(),
        }),
    })
}

/// What all clones of a client share.
pub(super) struct Shared {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) proof: Option<Arc<dyn ProofCollector>>,
    pub(super) tools: Option<RegisteredTools>,
    pub(super) guardrails: Guardrails,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) clock: Arc<dyn Clock>,
    redaction: Redaction,
    queue: Arc<Queue>,
    context_tokens: u32,
    tasks: Mutex<HashMap<TaskId, CancellationToken>>,
    /// The models as the backend told of them last.
    known: Mutex<Vec<ModelCapability>>,
}

impl Shared {
    pub(super) fn forget(&self, id: &TaskId) {
        self.tasks().remove(id);
    }

    /// A text with keys and tokens blacked out.
    pub(super) fn censored(&self, text: &str) -> String {
        discreet::clean_text(text, self.redaction)
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, CancellationToken>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Vec<ModelCapability>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`LlmClient::limits`].
    async fn limits(&self, model: Option<&ModelId>, mode: PrivacyMode, patience: Duration) -> ModelLimits {
        let id = self.model(model);
        let known = match self.told(&id) {
            Some(known) => known,
            None => match tokio::time::timeout(patience, self.transport.look(&id, mode)).await {
                Ok(Ok(looked)) => {
                    // As the request names it: the backend may know it by another name.
                    let looked = ModelCapability { id, ..looked };
                    self.keep(looked.clone());
                    looked
                }
                Ok(Err(_)) | Err(_) => ModelCapability::unknown(id),
            },
        };
        ModelLimits::of(&known, self.context_tokens)
    }

    /// Keeps what a backend said of one model; the oldest goes for it, and is asked for again when somebody names it.
    fn keep(&self, looked: ModelCapability) {
        let mut known = self.known();
        // Several may have looked at once.
        known.retain(|it| it.id != looked.id);
        let beyond = (known.len() + 1).saturating_sub(MOST_KNOWN);
        known.drain(..beyond);
        known.push(looked);
    }

    /// Gives a request the context of its model where it says nothing of it. The one place where that is done: a server that
    /// is told of another context with every request loads its model anew each time, and one that is told nothing has too
    /// little and cuts the beginning away without a word.
    pub(super) async fn give_context(&self, request: &mut LlmRequest) {
        if request.context_tokens.is_some() || !self.transport.takes_context() {
            return;
        }
        let patience = LOOK_TIME.min(request.patience.first);
        let limits = self.limits(request.model.as_ref(), request.privacy_mode, patience).await;
        request.context_tokens = Some(limits.context_tokens);
    }

    /// The model that is meant.
    fn model(&self, named: Option<&ModelId>) -> ModelId {
        named.cloned().unwrap_or_else(|| ModelId(self.transport.model().into()))
    }

    /// What the backend told of a model.
    fn told(&self, id: &ModelId) -> Option<ModelCapability> {
        ModelCapability::named(&self.known(), id).cloned()
    }
}

/// Speaks to one backend. Cheap to clone; all clones share everything.
#[derive(Clone)]
pub struct LlmClient {
    shared: Arc<Shared>,
}

/// A request that was taken on. Its events wait until [`LlmClient::stream`]; dropping the last handle before ends it.
#[derive(Clone, Debug)]
pub struct TaskHandle {
    id: TaskId,
    events: Arc<Mutex<Option<mpsc::Receiver<LlmStreamEvent>>>>,
}

impl TaskHandle {
    /// Its name.
    pub fn id(&self) -> &TaskId {
        &self.id
    }
}

/// What became of a wish to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It was at work or waiting, and ends now.
    Ended,
    /// It had ended already, or there never was one.
    NotRunning,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmAnswer {
    /// The text.
    pub text: String,
    /// Why it ended.
    pub finish: FinishReason,
    /// What it took.
    pub usage: Usage,
    /// Tools that the caller is to run, when that is why it ended.
    pub tool_calls: Vec<ToolCall>,
}

impl LlmClient {
    /// The model that is asked when a request names none.
    pub fn name(&self) -> &str {
        self.shared.transport.model()
    }

    /// The kind of backend: `ollama`, `openai`, `command` or `mock`.
    pub fn backend(&self) -> &'static str {
        self.shared.transport.backend()
    }

    /// Asks the backend what its models can do. Requests are held against the answer from then on.
    ///
    /// # Errors
    /// The backend cannot be asked, see the module of the room.
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
        *shared.known() = snapshot.models.clone();
        Ok(snapshot)
    }

    /// Says what a request to a model may take, the one of the client when none is named: what the backend says of it,
    /// and no more context than the configuration gives. Where the backend says nothing or is away, the configuration
    /// alone counts; that it is away, the request will say.
    pub async fn limits(&self, model: Option<&ModelId>, mode: PrivacyMode) -> ModelLimits {
        self.shared.limits(model, mode, LOOK_TIME).await
    }

    /// Holds a request against what the backend says of its model, and gives the limits of that model. Nothing of the
    /// request is sent.
    ///
    /// # Errors
    /// `InvalidArgument` as [`LlmClient::enqueue`] would say it; the backend cannot be asked.
    pub async fn validate(&self, request: &LlmRequest) -> Result<ModelCapability> {
        computing(|| request.check())?;
        self.capabilities(request.privacy_mode).await?;
        let known = self.known(request);
        request.check_against(&known)?;
        Ok(known)
    }

    /// What was heard so far of the model of a request.
    fn known(&self, request: &LlmRequest) -> ModelCapability {
        let model = self.shared.model(request.model.as_ref());
        self.shared.told(&model).unwrap_or_else(|| ModelCapability::unknown(model))
    }

    /// Takes a request on. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// `InvalidArgument` with the field that cannot be meant or is beyond the limits of the model; `ResourceExhausted`
    /// when the queue is full, or requests hold too much. Nothing was sent.
    pub fn enqueue(&self, mut request: LlmRequest) -> Result<TaskHandle> {
        // Schemas and their patterns are work, and so is looking for keys in megabytes of messages.
        let (load, place) = computing(|| {
            request.check()?;
            request.check_against(&self.known(&request))?;
            let held = (Load::of(&request)?, self.shared.queue.enter()?);
            discreet::clean(&mut request, self.shared.redaction);
            Ok::<_, Error>(held)
        })?;
        let id = TaskId::random()?;
        let (sender, receiver) = mpsc::channel(EVENTS);
        let cancel = CancellationToken::new();
        self.shared.tasks().insert(id.clone(), cancel.clone());
        let run = Run {
            shared: self.shared.clone(),
            id: id.clone(),
            events: sender,
            cancel,
            accepted: self.shared.clock.elapsed(),
            tokens: 0,
            usage: Usage::default(),
            _load: load,
        };
        tokio::spawn(run.go(place, request));
        Ok(TaskHandle { id, events: Arc::new(Mutex::new(Some(receiver))) })
    }

    /// Follows a request.
    ///
    /// # Errors
    /// `FailedPrecondition` when somebody follows it already.
    pub fn stream(&self, handle: &TaskHandle) -> Result<LlmStream> {
        let receiver = handle.events.lock().unwrap_or_else(PoisonError::into_inner).take();
        let receiver = receiver.ok_or_else(|| {
            Error::new(ErrorCode::FailedPrecondition, format!("task `{}` is followed already", handle.id))
        })?;
        let steps = stream::unfold(Some(receiver), |receiver| async move {
            let mut receiver = receiver?;
            let event = receiver
                .recv()
                .await
                .unwrap_or_else(|| LlmStreamEvent::of(&Error::internal("the request ended without saying how")));
            let next = (!event.is_last()).then_some(receiver);
            Some((Ok(event), next))
        });
        Ok(steps.fuse().boxed())
    }

    /// Ends a request: its stream goes on to [`FinishReason::Cancelled`].
    pub fn cancel(&self, handle: &TaskHandle) -> Cancelled {
        self.cancel_by_id(&handle.id)
    }

    /// As [`LlmClient::cancel`], for whoever knows the name only.
    pub fn cancel_by_id(&self, id: &TaskId) -> Cancelled {
        match self.shared.tasks().get(id) {
            Some(token) => {
                token.cancel();
                Cancelled::Ended
            }
            None => Cancelled::NotRunning,
        }
    }

    /// Asks, and follows from the beginning.
    ///
    /// # Errors
    /// As [`LlmClient::enqueue`].
    pub fn ask(&self, request: LlmRequest) -> Result<LlmStream> {
        self.stream(&self.enqueue(request)?)
    }

    /// Asks and waits for the whole answer.
    ///
    /// # Errors
    /// As [`LlmClient::enqueue`], and what the stream ends with.
    pub async fn complete(&self, request: LlmRequest) -> Result<LlmAnswer> {
        let mut stream = self.ask(request)?;
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

    /// Turns texts into vectors by a model of the backend, where it can. Keys in them are blacked out as in every request.
    ///
    /// # Errors
    /// `FailedPrecondition` where it cannot, `ResourceExhausted` when the queue is full, and as the backend says.
    pub async fn embed(&self, texts: &[String], mode: PrivacyMode) -> Result<Vec<Vec<f32>>> {
        let shared = &self.shared;
        let _load = Load::of_bytes(texts.iter().map(String::len).sum())?;
        let _turn = shared.queue.enter()?.turn(Patience::default().overall).await?;
        let texts: Vec<String> = texts.iter().map(|it| shared.censored(it)).collect();
        let context = match shared.transport.takes_context() {
            true => Some(shared.limits(None, mode, LOOK_TIME).await.context_tokens),
            false => None,
        };
        shared.transport.embed(&texts, context, mode).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Mock;

    #[tokio::test]
    async fn of_the_newest_models_alone_it_is_kept_what_the_backend_said() {
        let client = Mock::new(Vec::new()).client();
        let name = |number: usize| ModelId(format!("model-{number}"));
        for number in 0..MOST_KNOWN + 9 {
            client.limits(Some(&name(number)), PrivacyMode::LocalOnly).await;
        }
        assert_eq!(client.shared.known().len(), MOST_KNOWN);
        assert!(client.shared.told(&name(8)).is_none() && client.shared.told(&name(MOST_KNOWN + 8)).is_some());
    }
}
