//! The agent loop: the reasoner names a tool and vic runs it, until the reasoner answers or a limit is reached.
//!
//! Before the first step vic itself calls `db_summary` and searches for the question (`semantic_search`). An answer must
//! cite results of tools; an uncited answer is sent back once. If there is no answer in the end, the report quotes the best
//! passages instead, and says why. If nothing was found, it says only that.

use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::citable::CitableIndex;
use crate::agent::citations::{self, PassageVerifier, VerifiedCitation};
use crate::agent::graph_query::schema_names;
use crate::agent::reasoners::{Reasoner, rules};
use crate::agent::sanitize::sanitize;
use crate::agent::tools::{SEARCH_TOOL, SUMMARY_TOOL};
use crate::agent::{context_budget, limits};
use crate::error::{Error, ErrorCode, Result};
use crate::llm::RegisteredTools;
use crate::llm::plugin::{
    FinalAnswer, PluginRequest, PluginResponse, PluginTask, SchemaHints, ToolInvocation, ToolOffer, TranscriptStep,
};
use crate::model::Scope;
use crate::model::agent::Bounds;
use crate::model::llm::tool::{ToolError, ToolFault};

/// Name of a rejected answer in the transcript.
const REJECTED_ANSWER: &str = "final_answer";
/// Failed steps in a row that end the loop.
const MAX_FAILURES: u32 = 3;
/// Most repetitions of the same call.
const MAX_REPEATS: usize = 2;

/// How a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The reasoner answered with at least one verified citation.
    Answered,
    /// The tools found nothing, or nothing that answers the question.
    NothingFound,
    /// It answered without a verified citation.
    Uncited,
    /// Too many steps.
    Steps,
    /// Too much time.
    Time,
    /// Too many tokens.
    Tokens,
    /// The reasoner repeated its calls, or made only calls that could not run.
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

/// The report of an agent run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentReport {
    /// The question.
    pub question: String,
    /// The answer, as plain text.
    pub answer: String,
    /// The verified citations.
    pub citations: Vec<VerifiedCitation>,
    /// Queries that were run, as the reasoner names them.
    pub queries: Vec<String>,
    /// Notes for the caller, including problems.
    pub notes: Vec<String>,
    /// How the run ended.
    pub ended: Ending,
    /// What went wrong, when it ended with [`Ending::Failed`].
    pub error: Option<Problem>,
    /// Name of the reasoner.
    pub model: String,
    /// Number of reasoner steps.
    pub steps: u32,
    /// Tokens sent and received, estimated.
    pub tokens: u64,
    /// Duration in milliseconds.
    pub elapsed_ms: u64,
    /// Every call with its result, including the prefetch.
    pub transcript: Vec<TranscriptStep>,
}

/// A running loop.
pub(super) struct ToolLoop<'a> {
    pub(super) reasoner: &'a dyn Reasoner,
    pub(super) model: Option<String>,
    pub(super) tools: &'a RegisteredTools,
    pub(super) witness: &'a dyn PassageVerifier,
    pub(super) scope: &'a Scope,
    pub(super) bounds: Bounds,
}

/// The state of a loop.
struct LoopState {
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

/// The outcome of a step.
enum StepOutcome {
    /// The next step.
    Step,
    /// A verified answer.
    Answer(FinalAnswer, Vec<VerifiedCitation>),
    /// The end without an answer.
    End(Ending),
}

impl ToolLoop<'_> {
    /// Runs the loop to its end.
    pub(super) async fn run(&self, question: &str) -> AgentReport {
        let mut state = LoopState {
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
            Err(_) => StepOutcome::End(Ending::Time),
        };
        match end {
            StepOutcome::Answer(answer, cited) => self.build_report(state, answer, cited, Ending::Answered),
            StepOutcome::End(ending) => self.report_without_answer(state, ending).await,
            StepOutcome::Step => self.report_without_answer(state, Ending::Stuck).await,
        }
    }

    async fn steps(&self, state: &mut LoopState) -> StepOutcome {
        self.prefetch(state).await;
        loop {
            if state.steps >= self.bounds.steps {
                return StepOutcome::End(Ending::Steps);
            }
            if state.tokens >= self.bounds.tokens {
                return StepOutcome::End(Ending::Tokens);
            }
            if state.failures >= MAX_FAILURES {
                return StepOutcome::End(Ending::Stuck);
            }
            match self.step(state).await {
                StepOutcome::Step => (),
                end => return end,
            }
        }
    }

    /// Calls the tools that every question needs, before the first step.
    async fn prefetch(&self, state: &mut LoopState) {
        if self.tools.contains(SUMMARY_TOOL) {
            let summary = self.call(state, SUMMARY_TOOL, json!({})).await;
            state.hints = schema_names(&summary);
        }
        if self.tools.contains(SEARCH_TOOL) {
            let query = json!({ "query": state.question });
            self.call(state, SEARCH_TOOL, query).await;
        }
        // The prefetch does not count as steps.
        state.failures = 0;
    }

    async fn step(&self, state: &mut LoopState) -> StepOutcome {
        state.steps += 1;
        let response = match self.ask_reasoner(state).await {
            Ok(response) => response,
            Err(error) => {
                state.notes.push(format!("step {}: {}", state.steps, sanitize(&with_hint(&error))));
                state.error = Some(Problem { code: error.code.name(), message: error.message, hint: error.hint });
                return StepOutcome::End(Ending::Failed);
            }
        };
        state.tokens += limits::estimate_tokens(&response);
        state.notes.extend(response.notes.iter().map(|it| sanitize(it)));
        match response {
            PluginResponse { final_answer: Some(answer), .. } => self.check_answer(state, answer).await,
            PluginResponse { tool_call: Some(call), .. } => self.run_tool_call(state, call).await,
            _ => {
                let (code, message) = (ErrorCode::FailedPrecondition.name(), "the model took no step".to_string());
                state.error = Some(Problem { code, message, hint: None });
                StepOutcome::End(Ending::Failed)
            }
        }
    }

    /// Asks for the next step, with as much of the transcript as fits.
    async fn ask_reasoner(&self, state: &mut LoopState) -> Result<PluginResponse> {
        let task = PluginTask::ToolLoopStep {
            question: state.question.clone(),
            schema: state.hints.clone(),
            tools: state.offers.clone(),
            transcript: state.transcript.clone(),
        };
        let (request, cuts) =
            context_budget::fit_request(self.reasoner, PluginRequest::new(self.model.clone(), task)).await?;
        state.tokens += limits::estimate_tokens(&request);
        // The same cut may occur in many steps, and is noted once.
        let new: Vec<String> = cuts.into_iter().map(String::from).filter(|it| !state.notes.contains(it)).collect();
        state.notes.extend(new);
        self.reasoner.run_task(&request).await
    }

    /// Runs a call, unless it repeats an earlier one too often.
    async fn run_tool_call(&self, state: &mut LoopState, call: ToolInvocation) -> StepOutcome {
        let same = |it: &&TranscriptStep| it.tool == call.name && it.args == call.args;
        if state.transcript.iter().filter(same).count() >= MAX_REPEATS {
            state.notes.push(format!("step {}: repeated call of `{}`", state.steps, sanitize(&call.name)));
            return StepOutcome::End(Ending::Stuck);
        }
        self.call(state, &call.name, call.args).await;
        StepOutcome::Step
    }

    async fn call(&self, state: &mut LoopState, name: &str, args: Value) -> Value {
        let outcome = self.tools.run(name, args.clone()).await;
        let result = match outcome {
            Ok(result) => {
                state.failures = 0;
                result
            }
            Err(error) => {
                let refused = matches!(error.kind, ToolFault::Unknown | ToolFault::InvalidArguments);
                state.failures += 1;
                state.notes.push(tool_error_note(name, &error, refused));
                error.payload()
            }
        };
        state.transcript.push(TranscriptStep { tool: name.into(), args, result: result.clone() });
        result
    }

    /// Verifies the citations of an answer. An uncited answer is sent back once.
    async fn check_answer(&self, state: &mut LoopState, answer: FinalAnswer) -> StepOutcome {
        let offered = CitableIndex::from_transcript(&state.transcript);
        let (cited, fallen) = citations::verify_citations(&answer.citations, &offered, self.witness, self.scope).await;
        if fallen > 0 {
            let is = if fallen == 1 { "citation was" } else { "citations were" };
            state.notes.push(format!("{fallen} {is} left out: no result has it, or its file has changed"));
        }
        if !cited.is_empty() {
            return StepOutcome::Answer(answer, cited);
        }
        // Without any finding, an answer is made up.
        if rules::is_no_answer(&answer) || found_nothing(&state.transcript) {
            return StepOutcome::End(Ending::NothingFound);
        }
        if std::mem::replace(&mut state.sent_back, true) {
            return StepOutcome::End(Ending::Uncited);
        }
        let why = "the answer cites nothing that a tool gave: answer again with ids of results, copied exactly";
        let args = serde_json::to_value(&answer).unwrap_or_default();
        let result = json!({ "error": { "kind": "uncited", "message": why } });
        state.transcript.push(TranscriptStep { tool: REJECTED_ANSWER.into(), args, result });
        StepOutcome::Step
    }

    /// Reports the best passages instead of an answer.
    async fn report_without_answer(&self, mut state: LoopState, ending: Ending) -> AgentReport {
        if ending == Ending::NothingFound {
            return self.build_report(state, rules::no_answer(), Vec::new(), ending);
        }
        let quoted = rules::quote_passages(&state.question, &state.transcript);
        let offered = CitableIndex::from_transcript(&state.transcript);
        let (cited, _) = citations::verify_citations(&quoted.citations, &offered, self.witness, self.scope).await;
        let why = match ending {
            Ending::Steps => format!("no answer within {} steps", self.bounds.steps),
            Ending::Time => format!("no answer within {:?}", self.bounds.time),
            Ending::Tokens => format!("no answer within {} tokens", self.bounds.tokens),
            Ending::Stuck => "the model got stuck".to_string(),
            Ending::Uncited => "the model's answer cited nothing that was found, and is not shown".to_string(),
            Ending::Answered | Ending::NothingFound | Ending::Failed => "the model failed".to_string(),
        };
        state.notes.push(why);
        self.build_report(state, quoted, cited, ending)
    }

    fn build_report(
        &self,
        state: LoopState,
        answer: FinalAnswer,
        citations: Vec<VerifiedCitation>,
        ended: Ending,
    ) -> AgentReport {
        let mut notes = state.notes;
        notes.extend(answer.notes.iter().map(|it| sanitize(it)));
        let elapsed = state.begun.elapsed().as_millis();
        AgentReport {
            question: state.question,
            answer: sanitize(&answer.answer),
            citations: citations
                .into_iter()
                .map(|it| VerifiedCitation { citation: sanitize(&it.citation), ..it })
                .collect(),
            queries: answer.queries.iter().map(|it| sanitize(it)).collect(),
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

/// Returns whether no tool returned anything citable. The summary does not count.
fn found_nothing(transcript: &[TranscriptStep]) -> bool {
    let found: Vec<TranscriptStep> = transcript.iter().filter(|it| it.tool != SUMMARY_TOOL).cloned().collect();
    CitableIndex::from_transcript(&found).is_empty()
}

fn tool_error_note(name: &str, error: &ToolError, refused: bool) -> String {
    let what = if refused { "was not run" } else { "failed" };
    sanitize(&format!("`{}` {what}: {}", name.chars().take(60).collect::<String>(), error.message))
}

fn with_hint(error: &Error) -> String {
    match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message.clone(),
    }
}

/// Checks that a question is not empty, before [`ToolLoop::run`].
pub(super) fn ensure_question(question: &str) -> Result<()> {
    match question.trim().is_empty() {
        true => Err(Error::invalid("the question is empty").hint("vic llm agent \"who signed the contract?\"")),
        false => Ok(()),
    }
}
