//! The door to language models and agents, for whoever asks the daemon.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;

use crate::agent::augment::{self, Augmented};
use crate::agent::by_command::ByCommand;
use crate::agent::by_model::ByModel;
use crate::agent::choice::Choice;
use crate::agent::citations::Witness;
use crate::agent::limits::{self, Allowed};
use crate::agent::nameless::Nameless;
use crate::agent::query::{self, Answered, Asked};
use crate::agent::reasoner::Reasoner;
use crate::agent::room;
use crate::agent::status::UNREADY;
use crate::agent::stub::Stub;
use crate::agent::tool_loop::{self, AgentReport, ToolLoop};
use crate::agent::tools::{self, Tools};
use crate::catalog::TranscriptLog;
use crate::config::Config;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::plugin::{PluginLimits, PluginRequest, PluginResponse};
use crate::llm::{
    Cancelled, CapabilitySnapshot, LlmClient, LlmClientConfig, LlmRequest, LlmStream, LlmStreamEvent, ModelCapability,
    RegisteredTools, TaskId, TransportConfig, client,
};
use crate::machine::{Share, Shares, computing};
use crate::model::agent::{AgentRequest, BackendKind, Bounds, Override, QUESTION_TIME};
use crate::model::{Holder, PrivacyMode, Scope};

/// Agents and tasks at work at the same time; a model computes one answer after the other anyway. A key has half of them.
const MAX_AT_WORK: usize = 4;
/// Tools at work for callers that are no agent of ours. Each reads the index or the graph; a model asks for a few at once.
/// A key has half of them.
const MAX_CALLS: usize = 32;
/// Requests of one key to models that are at work or wait: about half of what the queue before a backend takes.
const MAX_REQUESTS: usize = 16;
/// Clients that are kept; each is a backend with a model.
const MAX_CLIENTS: usize = 32;
/// Most texts of one call of [`Assistant::embed`], as the contract has it.
const MAX_TEXTS: usize = 2_048;
/// Bytes of a question.
const MAX_QUESTION: usize = 32 << 10;

/// Cheap to clone; what it sees depends on who asks.
#[derive(Clone)]
pub struct Assistant {
    pub(super) shared: Arc<Shared>,
    scope: Scope,
    /// Who asks, of whom none takes all places.
    holder: Holder,
    /// Whether whoever asks may see what others asked.
    pub(super) owns: bool,
    /// Whether whoever asks may name a program to run: only this user, on this machine.
    may_run: bool,
}

pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) tools: Arc<dyn Tools>,
    witness: Arc<dyn Witness>,
    pub(super) transcripts: Option<TranscriptLog>,
    places: Arc<Shares>,
    calls: Arc<Shares>,
    requests: Arc<Shares>,
    clients: Mutex<HashMap<String, LlmClient>>,
}

impl Assistant {
    /// Makes the assistant of a daemon. What agents do is kept in `transcripts`, if there are any.
    pub fn new(
        config: &Config,
        tools: Arc<dyn Tools>,
        witness: Arc<dyn Witness>,
        transcripts: Option<TranscriptLog>,
    ) -> Assistant {
        let shared = Shared {
            config: config.clone(),
            tools,
            witness,
            transcripts,
            places: Shares::halves(MAX_AT_WORK),
            calls: Shares::halves(MAX_CALLS),
            requests: Shares::of_each(MAX_REQUESTS),
            clients: Mutex::default(),
        };
        let (scope, holder) = (Scope::All, Holder::Owner);
        Assistant { shared: Arc::new(shared), scope, holder, owns: false, may_run: false }
    }

    /// The same for a caller who may know of some files only.
    #[must_use]
    pub fn within(&self, scope: Scope) -> Assistant {
        Assistant { scope, ..self.clone() }
    }

    /// The same for whoever has a key.
    #[must_use]
    pub fn held_by(&self, holder: Holder) -> Assistant {
        Assistant { holder, ..self.clone() }
    }

    /// The same for a caller who owns the daemon, or even may name a program to run.
    #[must_use]
    pub fn for_right(&self, owns: bool, may_run: bool) -> Assistant {
        Assistant { owns, may_run, ..self.clone() }
    }

    /// Turns a question into a query and runs it.
    ///
    /// # Errors
    /// The backend fails, or no query of it can be run.
    pub async fn ask(&self, question: &str, over: &Override) -> Result<Asked> {
        check_question(question)?;
        let allowed = self.allowed(over.time, QUESTION_TIME)?;
        let (reasoner, model) = self.reasoner(over, allowed.time)?;
        let _place = self.place()?;
        let tools = tools::registered(&self.shared.tools, &self.scope)?;
        let mut asked = allowed.wait(query::ask(&*reasoner, model, &tools, question)).await?;
        asked.notes.extend(allowed.note);
        Ok(asked)
    }

    /// As [`Assistant::ask`], and has the rows told in words.
    ///
    /// # Errors
    /// As [`Assistant::ask`].
    pub async fn answer(&self, question: &str, over: &Override) -> Result<Answered> {
        check_question(question)?;
        let allowed = self.allowed(over.time, QUESTION_TIME)?;
        let (reasoner, model) = self.reasoner(over, allowed.time)?;
        let _place = self.place()?;
        let tools = tools::registered(&self.shared.tools, &self.scope)?;
        let mut answered = allowed.wait(query::answer(&*reasoner, model, &tools, question)).await?;
        answered.asked.notes.extend(allowed.note);
        Ok(answered)
    }

    /// Lets the reasoner call tools until it answers. The report is written down before it is given.
    ///
    /// # Errors
    /// Only what is wrong with the request, or that the report cannot be written down: a reasoner that fails is part of
    /// the report.
    pub async fn agent(&self, request: &AgentRequest) -> Result<AgentReport> {
        check_question(&request.question)?;
        let bounds = request.bounds.unwrap_or_default();
        check_bounds(&bounds)?;
        let allowed = self.allowed(Some(bounds.time), bounds.time)?;
        let bounds = Bounds { time: allowed.time, ..bounds };
        let (reasoner, model) = self.reasoner(&request.over, bounds.time)?;
        let registered = tools::registered(&self.shared.tools, &self.scope)?;
        let _place = self.place()?;
        let steps = ToolLoop {
            reasoner: &*reasoner,
            model,
            tools: &registered,
            witness: &*self.shared.witness,
            scope: &self.scope,
            bounds,
        };
        let mut report = steps.run(request.question.trim()).await;
        report.notes.extend(allowed.note);
        self.keep(&report).await?;
        Ok(report)
    }

    /// Does a task of the plugin protocol, as a plugin of another host. A failure is a response with `error`.
    ///
    /// # Errors
    /// `InvalidArgument` when it is no request of the protocol.
    pub async fn plugin(&self, request_json: &str, over: &Override) -> Result<PluginResponse> {
        let request = computing(|| PluginRequest::parse(request_json))?;
        let answered = async {
            let mut choice = self.choice(over)?;
            if choice.backend == BackendKind::Command {
                // A plugin that is its own host would never come to an end.
                choice = Choice { backend: BackendKind::Mock, model: None, command: None };
            }
            let allowed = self.allowed(over.time, PluginLimits::of(&request.task).time)?;
            let reasoner = self.reasoner_of(&choice, allowed.time)?;
            let _place = self.place()?;
            let think = async {
                let (task, notes) = computing(|| augment::checked(request.task))?;
                let (request, cuts) = room::fitted(&*reasoner, PluginRequest { task, ..request }).await?;
                let mut response = reasoner.think(&request).await?;
                response.notes.extend(notes.into_iter().chain(cuts.into_iter().map(String::from)));
                Ok(response)
            };
            let mut response = allowed.wait(think).await?;
            response.notes.extend(allowed.note);
            Ok(response)
        };
        Ok(answered.await.unwrap_or_else(|error: Error| PluginResponse::failed(&error)))
    }

    /// Has the reasoner add to proposals.
    ///
    /// # Errors
    /// The file cannot be meant, or the backend fails.
    pub async fn augment(
        &self,
        proposals: Value,
        chunks: BTreeMap<String, String>,
        most: u32,
        over: &Override,
    ) -> Result<Augmented> {
        let allowed = self.allowed(over.time, limits::PROPOSALS_TIME)?;
        let (reasoner, model) = self.reasoner(over, allowed.time)?;
        let _place = self.place()?;
        let mut augmented = allowed.wait(augment::augment(&*reasoner, model, proposals, chunks, most)).await?;
        augmented.notes.extend(allowed.note);
        Ok(augmented)
    }

    /// Calls one tool, with checked arguments.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument`, `ResourceExhausted` at once when too many are at work, and as the tool says.
    pub async fn call(&self, name: &str, arguments: Value) -> Result<Value> {
        let _place = self.shared.calls.take(&self.holder, "tools are at work")?;
        let registered = tools::registered(&self.shared.tools, &self.scope)?;
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

    /// Says what the models of the backend can do. Where it is, its owner alone has to know.
    ///
    /// # Errors
    /// The backend cannot be asked.
    pub async fn capabilities(&self, over: &Override) -> Result<CapabilitySnapshot> {
        let choice = self.choice(over)?;
        let looked = async { self.client(&choice)?.capabilities(self.mode()).await }.await;
        match looked {
            looked if self.owns => looked,
            Ok(snapshot) => Ok(snapshot.without_place()),
            Err(error) => Err(Error::new(error.code, UNREADY)),
        }
    }

    /// Holds a request against what its model can do, and sends nothing of it.
    ///
    /// # Errors
    /// What [`Assistant::stream`] would refuse; the backend cannot be asked.
    pub async fn validate(&self, mut request: LlmRequest, over: &Override, tools: bool) -> Result<ModelCapability> {
        request.privacy_mode = request.privacy_mode.stricter(self.mode());
        if tools {
            request.tools.extend(tools::registered(&self.shared.tools, &self.scope)?.bindings());
        }
        let choice = self.choice(over)?;
        let validated = async { self.client(&choice)?.validate(&request).await }.await;
        match validated {
            Ok(known) => Ok(if self.owns { known } else { known.without_place() }),
            Err(error) => Err(self.told(&choice, error)),
        }
    }

    /// Turns texts into vectors by a model of the backend.
    ///
    /// # Errors
    /// There are too many texts, or none; the backend does not embed, or fails.
    pub async fn embed(&self, texts: &[String], mode: PrivacyMode, over: &Override) -> Result<Vec<Vec<f32>>> {
        if !(1..=MAX_TEXTS).contains(&texts.len()) {
            let text = format!("`texts` has {}; 1 to {MAX_TEXTS} can be embedded at once", texts.len());
            return Err(Error::invalid(text).field("texts"));
        }
        let _place = self.request_place()?;
        let (choice, mode) = (self.choice(over)?, mode.stricter(self.mode()));
        let embedded = async { self.client(&choice)?.embed(texts, mode).await }.await;
        embedded.map_err(|error| self.told(&choice, error))
    }

    /// Asks a model, and gives its events. With `tools` it may call those of vic, which are run as for whoever asks.
    ///
    /// # Errors
    /// As [`LlmClient::enqueue`].
    pub fn stream(&self, mut request: LlmRequest, over: &Override, tools: bool) -> Result<LlmStream> {
        request.privacy_mode = request.privacy_mode.stricter(self.mode());
        request.patience.overall = request.patience.overall.min(self.most_time());
        let (place, choice) = (self.request_place()?, self.choice(over)?);
        let registered = if tools { Some(tools::registered(&self.shared.tools, &self.scope)?) } else { None };
        request.tools.extend(registered.iter().flat_map(RegisteredTools::bindings));
        let begun = self.client_with(&choice, registered).and_then(|it| it.ask(request));
        let events = begun.map_err(|error| self.told(&choice, error))?;
        let assistant = self.clone();
        let told = move |event: Result<LlmStreamEvent>| {
            let _until_its_end = &place;
            event.map(|it| assistant.told_event(&choice, it)).map_err(|error| assistant.told(&choice, error))
        };
        Ok(events.map(told).boxed())
    }

    /// Ends a request by its name, whichever backend it is on.
    pub fn cancel(&self, id: &TaskId) -> Cancelled {
        let clients: Vec<LlmClient> = self.clients().values().cloned().collect();
        let ended = clients.iter().any(|it| it.cancel_by_id(id) == Cancelled::Ended);
        if ended { Cancelled::Ended } else { Cancelled::NotRunning }
    }

    pub(super) fn mode(&self) -> PrivacyMode {
        self.shared.config.privacy_mode
    }

    fn most_time(&self) -> Duration {
        Duration::from_secs(self.shared.config.llm.max_seconds.into())
    }

    fn allowed(&self, wanted: Option<Duration>, usual: Duration) -> Result<Allowed> {
        Allowed::of(wanted, usual, self.most_time())
    }

    pub(super) fn choice(&self, over: &Override) -> Result<Choice> {
        if over.command.is_some() && !self.may_run {
            return Err(Error::new(ErrorCode::PermissionDenied, "a command can be named only on this machine")
                .hint("vic llm use command ..., typed by whoever runs the daemon"));
        }
        // Where it is remembered is a path of the owner's.
        let remembered = Choice::load(&self.shared.config);
        let remembered = remembered.map_err(|error| if self.owns { error } else { Error::new(error.code, UNREADY) });
        remembered?.with(over)
    }

    fn reasoner(&self, over: &Override, time: Duration) -> Result<(Box<dyn Reasoner>, Option<String>)> {
        let choice = self.choice(over)?;
        let model = Some(choice.model_name(&self.shared.config)).filter(|it| !it.is_empty());
        Ok((self.reasoner_of(&choice, time)?, model))
    }

    fn reasoner_of(&self, choice: &Choice, time: Duration) -> Result<Box<dyn Reasoner>> {
        let (mode, redaction) = (self.mode(), self.shared.config.limits.redaction);
        let reasoner: Box<dyn Reasoner> = match (choice.backend, &choice.command) {
            (BackendKind::Mock, _) => Box::new(Stub),
            (BackendKind::Command, Some(command)) => {
                Box::new(ByCommand { command: command.clone(), mode, time, redaction })
            }
            _ => {
                let client = self.client(choice).map_err(|error| self.told(choice, error))?;
                Box::new(ByModel { client, mode, time, redaction })
            }
        };
        Ok(if self.owns { reasoner } else { Box::new(Nameless { reasoner, backend: choice.backend }) })
    }

    /// The client of a choice; the same one for the same choice, so that a request can be cancelled by its name.
    pub(super) fn client(&self, choice: &Choice) -> Result<LlmClient> {
        self.client_with(choice, None)
    }

    fn client_with(&self, choice: &Choice, tools: Option<RegisteredTools>) -> Result<LlmClient> {
        let config = &self.shared.config;
        let model = choice.model_name(config);
        let command = choice.command.as_ref().map(|it| (it.shown(), &it.seal));
        // Tools see what their caller may see, and no more.
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
            // Requests at work go on; they only lose their names.
            clients.clear();
        }
        clients.insert(key, made.clone());
        Ok(made)
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<String, LlmClient>> {
        self.shared.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> Result<Share> {
        self.shared.places.take(&self.holder, "questions to models are at work")
    }

    fn request_place(&self) -> Result<Share> {
        self.shared.requests.take(&self.holder, "requests to models are at work")
    }
}

fn check_question(question: &str) -> Result<()> {
    tool_loop::check(question)?;
    match question.len() {
        0..=MAX_QUESTION => Ok(()),
        bytes => Err(Error::invalid(format!("the question has {bytes} bytes, and may have {MAX_QUESTION}"))),
    }
}

fn check_bounds(bounds: &Bounds) -> Result<()> {
    let wrong = |field: &str, text: &str| Err(Error::invalid(format!("`{field}` {text}")).field(field));
    match bounds {
        Bounds { steps: 0 | 101.., .. } => wrong("max_steps", "is not between 1 and 100"),
        Bounds { time, .. } if time.is_zero() || *time > Duration::from_secs(3_600) => {
            wrong("seconds", "is not between 1 and 3600")
        }
        Bounds { tokens: 0, .. } => wrong("max_tokens", "is 0"),
        Bounds { .. } => Ok(()),
    }
}
