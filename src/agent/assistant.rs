//! `Assistant`: the daemon's entry point for all requests to language models and agents.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;

use crate::agent::backend::BackendChoice;
use crate::agent::citations::PassageVerifier;
use crate::agent::graph_query::{AnsweredQuery, QueryResult};
use crate::agent::limits::{self, TimeLimit};
use crate::agent::proposals::augment::{self, Augmented};
use crate::agent::reasoners::Reasoner;
use crate::agent::reasoners::command::CommandReasoner;
use crate::agent::reasoners::model::ModelReasoner;
use crate::agent::reasoners::redacted::{RedactedReasoner, UNREADY_PROBLEM, redacted_error, redacted_event};
use crate::agent::reasoners::rules::RuleReasoner;
use crate::agent::tool_loop::{self, AgentReport, ToolLoop};
use crate::agent::tools::{self, ToolProvider};
use crate::agent::{context_budget, graph_query};
use crate::catalog::TranscriptLog;
use crate::config::Config;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::plugin::{PluginLimits, PluginRequest, PluginResponse};
use crate::llm::{
    CancelOutcome, CapabilitySnapshot, LlmClient, LlmClientConfig, LlmRequest, LlmStream, LlmStreamEvent,
    ModelCapability, RegisteredTools, TaskId, TransportConfig, client,
};
use crate::machine::{FairSlots, Slot, block_in_place};
use crate::model::agent::{AgentRequest, BackendKind, Bounds, Override, QUESTION_TIME};
use crate::model::{Principal, PrivacyMode, Scope};

/// Maximum number of agents and tasks in progress, because a model computes one answer after the other anyway. Further ones
/// are refused. One API key may use half of the slots.
const MAX_TASKS: usize = 4;
/// Maximum number of tool calls in progress, without those of vic's own agents. Each call reads the index or the graph, and
/// a model makes a few calls at once. One API key may use half of the slots.
const MAX_CALLS: usize = 32;
/// Maximum number of model requests of one API key in progress or waiting: about half of a backend's queue. Further ones are
/// rejected.
const MAX_REQUESTS: usize = 16;
/// Maximum number of cached clients, one for each backend and model in use. When it is reached, the cache is emptied.
const MAX_CLIENTS: usize = 32;
/// Maximum number of texts in one call of [`Assistant::embed`], as the API document says.
const MAX_TEXTS: usize = 2_048;
/// Maximum bytes of a question; a longer one is an error.
const MAX_QUESTION: usize = 32 << 10;

/// Handles model and agent requests of one caller. Cheap to clone.
#[derive(Clone)]
pub struct Assistant {
    pub(super) shared: Arc<Shared>,
    scope: Scope,
    /// The caller whose requests count towards the limits per caller.
    holder: Principal,
    /// Whether the caller is the owner of the daemon, who may see the requests of other callers.
    pub(super) is_owner: bool,
    /// Whether the caller may name a program to run: only the user who runs the daemon may, from this machine.
    may_name_command: bool,
}

pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) tools: Arc<dyn ToolProvider>,
    witness: Arc<dyn PassageVerifier>,
    pub(super) transcripts: Option<TranscriptLog>,
    task_slots: Arc<FairSlots>,
    call_slots: Arc<FairSlots>,
    request_slots: Arc<FairSlots>,
    clients: Mutex<HashMap<String, LlmClient>>,
}

impl Assistant {
    /// Makes the assistant of a daemon. Runs of agents are logged to `transcripts`, if given.
    pub fn new(
        config: &Config,
        tools: Arc<dyn ToolProvider>,
        witness: Arc<dyn PassageVerifier>,
        transcripts: Option<TranscriptLog>,
    ) -> Assistant {
        let shared = Shared {
            config: config.clone(),
            tools,
            witness,
            transcripts,
            task_slots: FairSlots::with_half_each(MAX_TASKS),
            call_slots: FairSlots::with_half_each(MAX_CALLS),
            request_slots: FairSlots::per_holder(MAX_REQUESTS),
            clients: Mutex::default(),
        };
        let (scope, holder) = (Scope::All, Principal::Owner);
        Assistant { shared: Arc::new(shared), scope, holder, is_owner: false, may_name_command: false }
    }

    /// Returns an assistant limited to the files of a scope.
    #[must_use]
    pub fn with_scope(&self, scope: Scope) -> Assistant {
        Assistant { scope, ..self.clone() }
    }

    /// Returns an assistant whose requests count towards the limits of this caller.
    #[must_use]
    pub fn with_holder(&self, holder: Principal) -> Assistant {
        Assistant { holder, ..self.clone() }
    }

    /// Returns an assistant with the caller's rights: `owns` for the daemon's owner, `may_run` to name a program to run.
    #[must_use]
    pub fn with_rights(&self, owns: bool, may_run: bool) -> Assistant {
        Assistant { is_owner: owns, may_name_command: may_run, ..self.clone() }
    }

    /// Turns a question into a graph query and runs the query.
    ///
    /// # Errors
    /// The backend fails, or none of its queries can be run.
    pub async fn ask(&self, question: &str, over: &Override) -> Result<QueryResult> {
        ensure_question_size(question)?;
        let allowed = self.time_limit(over.time, QUESTION_TIME)?;
        let (reasoner, model) = self.open_reasoner(over, allowed.time)?;
        let _place = self.take_task_slot()?;
        let tools = tools::register_tools(&self.shared.tools, &self.scope)?;
        let mut asked = allowed.run_within(graph_query::query_question(&*reasoner, model, &tools, question)).await?;
        asked.notes.extend(allowed.note);
        Ok(asked)
    }

    /// Runs [`Assistant::ask`], and describes the rows in words.
    ///
    /// # Errors
    /// See [`Assistant::ask`].
    pub async fn answer(&self, question: &str, over: &Override) -> Result<AnsweredQuery> {
        ensure_question_size(question)?;
        let allowed = self.time_limit(over.time, QUESTION_TIME)?;
        let (reasoner, model) = self.open_reasoner(over, allowed.time)?;
        let _place = self.take_task_slot()?;
        let tools = tools::register_tools(&self.shared.tools, &self.scope)?;
        let mut answered =
            allowed.run_within(graph_query::answer_question(&*reasoner, model, &tools, question)).await?;
        answered.asked.notes.extend(allowed.note);
        Ok(answered)
    }

    /// Lets the reasoner call tools until it answers. Logs the report before returning it.
    ///
    /// # Errors
    /// Only if the request is invalid or the report cannot be logged: the report itself includes a failure of the reasoner.
    pub async fn agent(&self, request: &AgentRequest) -> Result<AgentReport> {
        ensure_question_size(&request.question)?;
        let bounds = request.bounds.unwrap_or_default();
        ensure_bounds(&bounds)?;
        let allowed = self.time_limit(Some(bounds.time), bounds.time)?;
        let bounds = Bounds { time: allowed.time, ..bounds };
        let choice = self.resolve_backend(&request.over)?;
        let (reasoner, model) = self.open_chosen(&choice, bounds.time)?;
        let registered = tools::register_tools(&self.shared.tools, &self.scope)?;
        let _place = self.take_task_slot()?;
        let steps = ToolLoop {
            reasoner: &*reasoner,
            model,
            tools: &registered,
            witness: &*self.shared.witness,
            scope: &self.scope,
            bounds,
            // A plugin decides itself which tools it calls; a model gets the passages that most questions need.
            prefetch: choice.backend != BackendKind::Command || request.prefetch || self.shared.config.llm.prefetch,
        };
        let mut report = steps.run(request.question.trim()).await;
        report.notes.extend(allowed.note);
        self.log_report(&report).await?;
        Ok(report)
    }

    /// Runs a task of the plugin protocol, with vic as the plugin of another host. A failure is returned as a response
    /// with the field `error`.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not a request of the protocol.
    pub async fn run_plugin_task(&self, request_json: &str, over: &Override) -> Result<PluginResponse> {
        let request = block_in_place(|| PluginRequest::parse(request_json))?;
        let answered = async {
            let mut choice = self.resolve_backend(over)?;
            if choice.backend == BackendKind::Command {
                // Uses the stub instead of the command: a plugin that calls vic, which calls the plugin, would never end.
                choice = BackendChoice { backend: BackendKind::Mock, model: None, command: None };
            }
            let allowed = self.time_limit(over.time, PluginLimits::for_task(&request.task).time)?;
            let reasoner = self.open_reasoner_of(&choice, allowed.time)?;
            let _place = self.take_task_slot()?;
            let think = async {
                let (task, notes) = block_in_place(|| augment::validate_task(request.task))?;
                let (request, cuts) =
                    context_budget::fit_request(&*reasoner, PluginRequest { task, ..request }).await?;
                let mut response = reasoner.run_task(&request).await?;
                response.notes.extend(notes.into_iter().chain(cuts.into_iter().map(String::from)));
                Ok(response)
            };
            let mut response = allowed.run_within(think).await?;
            response.notes.extend(allowed.note);
            Ok(response)
        };
        Ok(answered.await.unwrap_or_else(|error: Error| PluginResponse::failed(&error)))
    }

    /// Lets the reasoner add at most `most` entities and relations to a file of proposals. `chunks` holds evidence texts.
    ///
    /// # Errors
    /// The file of proposals is invalid, or the backend fails.
    pub async fn augment(
        &self,
        proposals: Value,
        chunks: BTreeMap<String, String>,
        most: u32,
        over: &Override,
    ) -> Result<Augmented> {
        let allowed = self.time_limit(over.time, limits::PROPOSALS_TIME)?;
        let (reasoner, model) = self.open_reasoner(over, allowed.time)?;
        let _place = self.take_task_slot()?;
        let mut augmented =
            allowed.run_within(augment::augment_proposals(&*reasoner, model, proposals, chunks, most)).await?;
        augmented.notes.extend(allowed.note);
        Ok(augmented)
    }

    /// Calls one tool, with validated arguments.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument`, `ResourceExhausted` at once if too many calls are in progress, and errors of the tool.
    pub async fn call(&self, name: &str, arguments: Value) -> Result<Value> {
        let _place = self.shared.call_slots.acquire(&self.holder, "tools are running")?;
        let registered = tools::register_tools(&self.shared.tools, &self.scope)?;
        registered.run(name, arguments).await.map_err(|error| {
            use crate::model::llm::tool::ToolFault;
            let code = match error.kind {
                ToolFault::Unknown => ErrorCode::NotFound,
                ToolFault::InvalidArguments => ErrorCode::InvalidArgument,
                ToolFault::Timeout => ErrorCode::DeadlineExceeded,
                ToolFault::TooLarge => ErrorCode::ResourceExhausted,
                ToolFault::Failed => ErrorCode::FailedPrecondition,
            };
            Error::new(code, error.message)
        })
    }

    /// Returns the capabilities of the backend's models. Only the owner sees the backend's address.
    ///
    /// # Errors
    /// The backend cannot be reached.
    pub async fn capabilities(&self, over: &Override) -> Result<CapabilitySnapshot> {
        let choice = self.resolve_backend(over)?;
        let looked = async { self.client(&choice)?.capabilities(self.privacy_mode()).await }.await;
        match looked {
            looked if self.is_owner => looked,
            Ok(snapshot) => Ok(snapshot.without_place()),
            Err(error) => Err(Error::new(error.code, UNREADY_PROBLEM)),
        }
    }

    /// Validates a request against the capabilities of its model, without sending it.
    ///
    /// # Errors
    /// Errors that [`Assistant::stream`] would return; the backend cannot be reached.
    pub async fn validate(&self, mut request: LlmRequest, over: &Override, tools: bool) -> Result<ModelCapability> {
        request.privacy_mode = request.privacy_mode.stricter(self.privacy_mode());
        if tools {
            request.tools.extend(tools::register_tools(&self.shared.tools, &self.scope)?.bindings());
        }
        let choice = self.resolve_backend(over)?;
        let validated = async { self.client(&choice)?.validate(&request).await }.await;
        match validated {
            Ok(known) => Ok(if self.is_owner { known } else { known.without_place() }),
            Err(error) => Err(self.redact_error(&choice, error)),
        }
    }

    /// Embeds texts with a model of the backend.
    ///
    /// # Errors
    /// There is no text, or more than 2,048; the backend cannot embed, or fails.
    pub async fn embed(&self, texts: &[String], mode: PrivacyMode, over: &Override) -> Result<Vec<Vec<f32>>> {
        if !(1..=MAX_TEXTS).contains(&texts.len()) {
            let text = format!("`texts` has {} entries, but must have 1 to {MAX_TEXTS}", texts.len());
            return Err(Error::invalid(text).field("texts"));
        }
        let _place = self.take_request_slot()?;
        let (choice, mode) = (self.resolve_backend(over)?, mode.stricter(self.privacy_mode()));
        let embedded = async { self.client(&choice)?.embed(texts, mode).await }.await;
        embedded.map_err(|error| self.redact_error(&choice, error))
    }

    /// Sends a request to a model, and returns its events. With `tools` the model may call vic's tools, with the caller's
    /// rights.
    ///
    /// # Errors
    /// See [`LlmClient::enqueue`].
    pub fn stream(&self, mut request: LlmRequest, over: &Override, tools: bool) -> Result<LlmStream> {
        request.privacy_mode = request.privacy_mode.stricter(self.privacy_mode());
        request.timeouts.overall = request.timeouts.overall.min(self.max_time());
        let (place, choice) = (self.take_request_slot()?, self.resolve_backend(over)?);
        let registered = if tools { Some(tools::register_tools(&self.shared.tools, &self.scope)?) } else { None };
        request.tools.extend(registered.iter().flat_map(RegisteredTools::bindings));
        let begun = self.client_with(&choice, registered).and_then(|it| it.enqueue_and_stream(request));
        let events = begun.map_err(|error| self.redact_error(&choice, error))?;
        let assistant = self.clone();
        let told = move |event: Result<LlmStreamEvent>| {
            let _until_its_end = &place;
            event.map(|it| assistant.redact_event(&choice, it)).map_err(|error| assistant.redact_error(&choice, error))
        };
        Ok(events.map(told).boxed())
    }

    /// Cancels a request by its id, on any backend.
    pub fn cancel(&self, id: &TaskId) -> CancelOutcome {
        let clients: Vec<LlmClient> = self.clients().values().cloned().collect();
        let ended = clients.iter().any(|it| it.cancel_by_id(id) == CancelOutcome::Ended);
        if ended { CancelOutcome::Ended } else { CancelOutcome::NotRunning }
    }

    pub(super) fn privacy_mode(&self) -> PrivacyMode {
        self.shared.config.privacy_mode
    }

    fn max_time(&self) -> Duration {
        Duration::from_secs(self.shared.config.llm.max_seconds.into())
    }

    fn time_limit(&self, wanted: Option<Duration>, usual: Duration) -> Result<TimeLimit> {
        TimeLimit::new(wanted, usual, self.max_time())
    }

    pub(super) fn resolve_backend(&self, over: &Override) -> Result<BackendChoice> {
        if over.command.is_some() && !self.may_name_command {
            return Err(Error::new(ErrorCode::PermissionDenied, "only the local owner may name a command")
                .hint("the owner can set it: vic llm use command ..."));
        }
        // Hides the error from other callers, because it names the path of the saved choice, which only the owner may see.
        let remembered = BackendChoice::load(&self.shared.config);
        let remembered =
            remembered.map_err(|error| if self.is_owner { error } else { Error::new(error.code, UNREADY_PROBLEM) });
        remembered?.with_overrides(over)
    }

    fn open_reasoner(&self, over: &Override, time: Duration) -> Result<(Box<dyn Reasoner>, Option<String>)> {
        self.open_chosen(&self.resolve_backend(over)?, time)
    }

    fn open_chosen(&self, choice: &BackendChoice, time: Duration) -> Result<(Box<dyn Reasoner>, Option<String>)> {
        let model = Some(choice.model_name(&self.shared.config)).filter(|it| !it.is_empty());
        Ok((self.open_reasoner_of(choice, time)?, model))
    }

    fn open_reasoner_of(&self, choice: &BackendChoice, time: Duration) -> Result<Box<dyn Reasoner>> {
        let (mode, redaction) = (self.privacy_mode(), self.shared.config.limits.redaction);
        let reasoner: Box<dyn Reasoner> = match (choice.backend, &choice.command) {
            (BackendKind::Mock, _) => Box::new(RuleReasoner),
            (BackendKind::Command, Some(command)) => {
                Box::new(CommandReasoner { command: command.clone(), mode, time, redaction })
            }
            _ => {
                let client = self.client(choice).map_err(|error| self.redact_error(choice, error))?;
                Box::new(ModelReasoner { client, mode, time, redaction })
            }
        };
        Ok(if self.is_owner { reasoner } else { Box::new(RedactedReasoner { reasoner, backend: choice.backend }) })
    }

    /// Hides the backend's address, and the output of a command, in an error for callers other than the owner.
    fn redact_error(&self, choice: &BackendChoice, error: Error) -> Error {
        if self.is_owner { error } else { redacted_error(choice.backend, error) }
    }

    /// Hides the backend's address, and the output of a command, in a stream event for callers other than the owner.
    fn redact_event(&self, choice: &BackendChoice, event: LlmStreamEvent) -> LlmStreamEvent {
        if self.is_owner { event } else { redacted_event(choice.backend, event) }
    }

    /// Returns the client of a backend choice. Caches the client, so that a later call can cancel a request by its id.
    pub(super) fn client(&self, choice: &BackendChoice) -> Result<LlmClient> {
        self.client_with(choice, None)
    }

    fn client_with(&self, choice: &BackendChoice, tools: Option<RegisteredTools>) -> Result<LlmClient> {
        let config = &self.shared.config;
        let model = choice.model_name(config);
        let command = choice.command.as_ref().map(|it| (it.command_line(), &it.seal));
        // Clients with tools are cached per scope, because their tools see only the files that the caller may see.
        let caller = tools.as_ref().map(|_| &self.scope);
        let key = format!("{} {model} {command:?} {caller:?}", choice.backend.name());
        let mut clients = self.clients();
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let transport = match (choice.backend, choice.command.clone()) {
            (BackendKind::Command, Some(command)) => TransportConfig::Command { command, model },
            (BackendKind::Ollama, _) => TransportConfig::ollama(config, &model),
            (BackendKind::OpenAi, _) => TransportConfig::openai(config, &model),
            (BackendKind::Mock | BackendKind::Command, _) => TransportConfig::Mock,
        };
        let made = client(LlmClientConfig {
            transport,
            redaction: config.limits.redaction,
            context_tokens: config.llm.context_tokens,
            tool_registry: tools,
            ..LlmClientConfig::default()
        })?;
        if clients.len() >= MAX_CLIENTS {
            // Running requests of the dropped clients continue, but can no longer be cancelled by id.
            clients.clear();
        }
        clients.insert(key, made.clone());
        Ok(made)
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<String, LlmClient>> {
        self.shared.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_task_slot(&self) -> Result<Slot> {
        self.shared.task_slots.acquire(&self.holder, "questions to models are in progress")
    }

    fn take_request_slot(&self) -> Result<Slot> {
        self.shared.request_slots.acquire(&self.holder, "requests to models are in progress")
    }
}

fn ensure_question_size(question: &str) -> Result<()> {
    tool_loop::ensure_question(question)?;
    match question.len() {
        0..=MAX_QUESTION => Ok(()),
        bytes => Err(Error::invalid(format!("the question has {bytes} bytes, but the limit is {MAX_QUESTION}"))),
    }
}

fn ensure_bounds(bounds: &Bounds) -> Result<()> {
    let wrong = |field: &str, text: &str| Err(Error::invalid(format!("`{field}` {text}")).field(field));
    match bounds {
        Bounds { steps: 0 | 101.., .. } => wrong("max_steps", "must be between 1 and 100"),
        Bounds { time, .. } if time.is_zero() || *time > Duration::from_secs(3_600) => {
            wrong("seconds", "must be between 1 and 3600")
        }
        Bounds { tokens: 0, .. } => wrong("max_tokens", "must be at least 1"),
        Bounds { .. } => Ok(()),
    }
}
