//! The loop of an agent: the reasoner names a tool, vic runs it, until the reasoner answers or a bound is reached.
//!
//! Before the first step vic itself looks at the whole (`db_summary`) and searches for the question (`semantic_search`). An
//! answer has to cite what tools gave; one that does not is sent back once. When there is no answer in the end, the best
//! passages that were found are quoted instead, and the report says why. That nothing was found is an ending of its own:
//! then nothing is said but that.

use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::citations::{self, Cited, Witness};
use crate::agent::evidence::Offered;
use crate::agent::plain::plain;
use crate::agent::query::hints;
use crate::agent::reasoner::Reasoner;
use crate::agent::{limits, room, stub};
use crate::error::{Error, ErrorCode, Result};
use crate::llm::RegisteredTools;
use crate::llm::plugin::{
    FinalAnswer, PluginRequest, PluginResponse, PluginTask, SchemaHints, ToolInvocation, ToolOffer, TranscriptStep,
};
use crate::model::Scope;
use crate::model::agent::Bounds;
use crate::model::llm::tool::{ToolError, ToolFault};

/// The tool that tells what there is.
pub(super) const SUMMARY: &str = "db_summary";
/// Under this name an answer that was sent back stands in the transcript.
const SENT_BACK: &str = "final_answer";
/// Failed steps in a row after which nothing more is to be expected.
const FAILURES: u32 = 3;
/// How often the same call may be made.
const REPEATS: usize = 2;

/// How a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The reasoner answered, and the answer stands on what it cites.
    Answered,
    /// The tools found nothing, or nothing that answers the question.
    NothingFound,
    /// It answered without a citation that stands.
    Uncited,
    /// Too many steps.
    Steps,
    /// Too much time.
    Time,
    /// Too many tokens.
    Tokens,
    /// The same calls again and again, or none that could be run.
    Stuck,
    /// The reasoner failed.
    Failed,
}

/// Why a reasoner failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The name of its [`ErrorCode`].
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<String>,
}

/// What an agent did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentReport {
    /// The question.
    pub question: String,
    /// The answer, as plain text.
    pub answer: String,
    /// What it rests on; every one stands.
    pub citations: Vec<Cited>,
    /// Queries that were run, as the reasoner names them.
    pub queries: Vec<String>,
    /// What is worth knowing, and what went wrong.
    pub notes: Vec<String>,
    /// How it ended.
    pub ended: Ending,
    /// What went wrong, when it ended with [`Ending::Failed`].
    pub error: Option<Problem>,
    /// Who reasoned.
    pub model: String,
    /// Steps of the reasoner.
    pub steps: u32,
    /// Tokens sent and received, estimated.
    pub tokens: u64,
    /// Milliseconds that it took.
    pub elapsed_ms: u64,
    /// Every call with its result, those before the first step among them.
    pub transcript: Vec<TranscriptStep>,
}

/// A loop under way.
pub(super) struct ToolLoop<'a> {
    pub(super) reasoner: &'a dyn Reasoner,
    pub(super) model: Option<String>,
    pub(super) tools: &'a RegisteredTools,
    pub(super) witness: &'a dyn Witness,
    pub(super) scope: &'a Scope,
    pub(super) bounds: Bounds,
}

/// What a loop has come to.
struct State {
    question: String,
    offers: Vec<ToolOffer>,
    hints: SchemaHints,
    transcript: Vec<TranscriptStep>,
    notes: Vec<String>,
    steps: u32,
    tokens: u64,
    failures: u32,
    sent_back: bool,
    error: Option<Problem>,
    begun: Instant,
}

/// What a step led to.
enum Next {
    /// The next step.
    Step,
    /// An answer that stands.
    Answer(FinalAnswer, Vec<Cited>),
    /// The end without one.
    End(Ending),
}

impl ToolLoop<'_> {
    /// Runs to the end.
    pub(super) async fn run(&self, question: &str) -> AgentReport {
        let mut state = State {
            question: question.into(),
            offers: self.tools.bindings().iter().map(ToolOffer::from).collect(),
            hints: SchemaHints::default(),
            transcript: Vec::new(),
            notes: Vec::new(),
            steps: 0,
            tokens: 0,
            failures: 0,
            sent_back: false,
            error: None,
            begun: Instant::now(),
        };
        let end = match tokio::time::timeout(self.bounds.time, self.steps(&mut state)).await {
            Ok(end) => end,
            Err(_) => Next::End(Ending::Time),
        };
        match end {
            Next::Answer(answer, cited) => self.report(state, answer, cited, Ending::Answered),
            Next::End(ending) => self.without_answer(state, ending).await,
            Next::Step => self.without_answer(state, Ending::Stuck).await,
        }
    }

    async fn steps(&self, state: &mut State) -> Next {
        self.prefetch(state).await;
        loop {
            if state.steps >= self.bounds.steps {
                return Next::End(Ending::Steps);
            }
            if state.tokens >= self.bounds.tokens {
                return Next::End(Ending::Tokens);
            }
            if state.failures >= FAILURES {
                return Next::End(Ending::Stuck);
            }
            match self.step(state).await {
                Next::Step => (),
                end => return end,
            }
        }
    }

    /// What every question needs is looked up before the reasoner is asked.
    async fn prefetch(&self, state: &mut State) {
        if self.tools.has(SUMMARY) {
            let summary = self.call(state, SUMMARY, json!({})).await;
            state.hints = hints(&summary);
        }
        if self.tools.has(stub::SEARCH) {
            let query = json!({ "query": state.question });
            self.call(state, stub::SEARCH, query).await;
        }
        // These were not the reasoner's steps.
        state.failures = 0;
    }

    async fn step(&self, state: &mut State) -> Next {
        state.steps += 1;
        let response = match self.think(state).await {
            Ok(response) => response,
            Err(error) => {
                state.notes.push(format!("step {}: {}", state.steps, plain(&told(&error))));
                state.error = Some(Problem { code: error.code.name(), message: error.message, hint: error.hint });
                return Next::End(Ending::Failed);
            }
        };
        state.tokens += limits::tokens(&response);
        state.notes.extend(response.notes.iter().map(|it| plain(it)));
        match response {
            PluginResponse { final_answer: Some(answer), .. } => self.judge(state, answer).await,
            PluginResponse { tool_call: Some(call), .. } => self.obey(state, call).await,
            _ => {
                let (code, message) = (ErrorCode::FailedPrecondition.name(), "the model took no step".to_string());
                state.error = Some(Problem { code, message, hint: None });
                Next::End(Ending::Failed)
            }
        }
    }

    /// Asks for the next step, with as much of the transcript as there is room for.
    async fn think(&self, state: &mut State) -> Result<PluginResponse> {
        let task = PluginTask::ToolLoopStep {
            question: state.question.clone(),
            schema: state.hints.clone(),
            tools: state.offers.clone(),
            transcript: state.transcript.clone(),
        };
        let (request, cuts) = room::fitted(self.reasoner, PluginRequest::new(self.model.clone(), task)).await?;
        state.tokens += limits::tokens(&request);
        // The same is missing in many steps, and said once.
        let new: Vec<String> = cuts.into_iter().map(String::from).filter(|it| !state.notes.contains(it)).collect();
        state.notes.extend(new);
        self.reasoner.think(&request).await
    }

    /// Runs a call, if it is one that may be made and was not made already.
    async fn obey(&self, state: &mut State, call: ToolInvocation) -> Next {
        let same = |it: &&TranscriptStep| it.tool == call.name && it.args == call.args;
        if state.transcript.iter().filter(same).count() >= REPEATS {
            state.notes.push(format!("step {}: the same call of `{}` again", state.steps, plain(&call.name)));
            return Next::End(Ending::Stuck);
        }
        self.call(state, &call.name, call.args).await;
        Next::Step
    }

    async fn call(&self, state: &mut State, name: &str, args: Value) -> Value {
        let outcome = self.tools.run(name, args.clone()).await;
        let result = match outcome {
            Ok(result) => {
                state.failures = 0;
                result
            }
            Err(error) => {
                let refused = matches!(error.kind, ToolFault::Unknown | ToolFault::InvalidArguments);
                state.failures += 1;
                state.notes.push(refusal(name, &error, refused));
                error.payload()
            }
        };
        state.transcript.push(TranscriptStep { tool: name.into(), args, result: result.clone() });
        result
    }

    /// Looks at what an answer rests on. One without anything is sent back once.
    async fn judge(&self, state: &mut State, answer: FinalAnswer) -> Next {
        let offered = Offered::of(&state.transcript);
        let (cited, fallen) = citations::check(&answer.citations, &offered, self.witness, self.scope).await;
        if fallen > 0 {
            let is = if fallen == 1 { "citation was" } else { "citations were" };
            state.notes.push(format!("{fallen} {is} left out: no result has it, or its file has changed"));
        }
        if !cited.is_empty() {
            return Next::Answer(answer, cited);
        }
        // What it says without anything to say it from is its own invention.
        if stub::is_nothing(&answer) || found_nothing(&state.transcript) {
            return Next::End(Ending::NothingFound);
        }
        if std::mem::replace(&mut state.sent_back, true) {
            return Next::End(Ending::Uncited);
        }
        let why = "the answer cites nothing that a tool gave: answer again with ids of results, copied exactly";
        let args = serde_json::to_value(&answer).unwrap_or_default();
        let result = json!({ "error": { "kind": "uncited", "message": why } });
        state.transcript.push(TranscriptStep { tool: SENT_BACK.into(), args, result });
        Next::Step
    }

    /// The best passages instead of an answer.
    async fn without_answer(&self, mut state: State, ending: Ending) -> AgentReport {
        if ending == Ending::NothingFound {
            return self.report(state, stub::nothing(), Vec::new(), ending);
        }
        let quoted = stub::quoted(&state.question, &state.transcript);
        let offered = Offered::of(&state.transcript);
        let (cited, _) = citations::check(&quoted.citations, &offered, self.witness, self.scope).await;
        let why = match ending {
            Ending::Steps => format!("no answer within {} steps", self.bounds.steps),
            Ending::Time => format!("no answer within {:?}", self.bounds.time),
            Ending::Tokens => format!("no answer within {} tokens", self.bounds.tokens),
            Ending::Stuck => "the model came no further".to_string(),
            Ending::Uncited => "the model's answer cited nothing that was found, and is not shown".to_string(),
            Ending::Answered | Ending::NothingFound | Ending::Failed => "the model failed".to_string(),
        };
        state.notes.push(why);
        self.report(state, quoted, cited, ending)
    }

    fn report(&self, state: State, answer: FinalAnswer, citations: Vec<Cited>, ended: Ending) -> AgentReport {
        let mut notes = state.notes;
        notes.extend(answer.notes.iter().map(|it| plain(it)));
        let elapsed = state.begun.elapsed().as_millis();
        AgentReport {
            question: state.question,
            answer: plain(&answer.answer),
            citations: citations.into_iter().map(|it| Cited { citation: plain(&it.citation), ..it }).collect(),
            queries: answer.queries.iter().map(|it| plain(it)).collect(),
            notes,
            ended,
            error: state.error,
            model: self.reasoner.name(),
            steps: state.steps,
            tokens: state.tokens,
            elapsed_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
            transcript: state.transcript,
        }
    }
}

/// Says whether no tool gave anything that could be cited. What there is at all is no finding.
fn found_nothing(transcript: &[TranscriptStep]) -> bool {
    let found: Vec<TranscriptStep> = transcript.iter().filter(|it| it.tool != SUMMARY).cloned().collect();
    Offered::of(&found).is_empty()
}

fn refusal(name: &str, error: &ToolError, refused: bool) -> String {
    let what = if refused { "was not run" } else { "failed" };
    plain(&format!("`{}` {what}: {}", name.chars().take(60).collect::<String>(), error.message))
}

fn told(error: &Error) -> String {
    match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message.clone(),
    }
}

/// Only what a caller of [`ToolLoop::run`] may want to fail on.
pub(super) fn check(question: &str) -> Result<()> {
    match question.trim().is_empty() {
        true => Err(Error::invalid("the question is empty").hint("vic llm agent \"who signed the contract?\"")),
        false => Ok(()),
    }
}
