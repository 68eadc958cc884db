//! The agent loop behind `vic llm agent`: the reasoner names a tool and vic runs it, until the reasoner answers or a limit
//! is reached.
//!
//! For a model vic itself calls `db_summary` and searches for the question (`semantic_search`) before the first step; the
//! transcript of a plugin is empty at its first step, unless the user asks for that search. An answer must cite results of
//! tools, or name graph queries that ran; any other answer is refused and sent back once. If the loop ends without an
//! answer, the report quotes the best passages instead, and holds the refused answers with the reasons. If the tools found
//! nothing, the report says only that.

use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::citable::CitableIndex;
use crate::agent::citations::{self, PassageVerifier, VerifiedCitation};
use crate::agent::graph_query::{read_schema, schema_names};
use crate::agent::ran_queries::RanQueries;
use crate::agent::reasoners::{Reasoner, rules};
use crate::agent::sanitize::sanitize;
use crate::agent::tools::{SEARCH_TOOL, SUMMARY_TOOL};
use crate::agent::{context_budget, limits};
use crate::error::{Error, ErrorCode, Result};
use crate::llm::RegisteredTools;
use crate::llm::plugin::{
    FinalAnswer, PluginRequest, PluginResponse, PluginTask, RefusedAnswer, SchemaHints, ToolInvocation, ToolOffer,
    TranscriptStep,
};
use crate::model::Scope;
use crate::model::agent::Bounds;
use crate::model::llm::tool::{ToolError, ToolFault};

/// Maximum number of characters of a refused answer that the report and the next request repeat.
const MAX_REFUSED_CHARS: usize = 2_000;
/// Maximum number of citations of a refused answer that the report and the next request repeat.
const MAX_REFUSED_CITATIONS: usize = 20;
/// The loop ends as stuck after this many failed tool calls in a row.
const MAX_FAILURES: u32 = 3;
/// Maximum number of calls with the same tool and arguments. Another such call ends the loop as stuck.
const MAX_REPEATS: usize = 2;

/// How a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The reasoner answered with at least one verified citation, or from graph queries that ran.
    Answered,
    /// The tools found nothing, or nothing that answers the question.
    NothingFound,
    /// The reasoner answered without a verified citation or query, even after the answer was sent back once.
    Uncited,
    /// The limit on steps was reached.
    Steps,
    /// The time limit was reached.
    Time,
    /// The limit on tokens was reached.
    Tokens,
    /// The reasoner repeated its calls, or made only calls that could not run.
    Stuck,
    /// The reasoner failed.
    Failed,
}

/// Why a reasoner failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Name of the [`ErrorCode`] of the reasoner's error.
    pub code: &'static str,
    /// What went wrong, in one sentence.
    pub message: String,
    /// What the user can do about the failure.
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
    /// The queries that prove the answer; each of them ran.
    pub queries: Vec<String>,
    /// The answers of the reasoner that were refused, as plain text, with the reasons.
    pub refused: Vec<RefusedAnswer>,
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
    /// Every tool call with its result, including the calls that vic made before the first step, if any.
    pub transcript: Vec<TranscriptStep>,
}

/// The reasoner, tools and limits of one run of the agent loop.
pub(super) struct ToolLoop<'a> {
    pub(super) reasoner: &'a dyn Reasoner,
    pub(super) model: Option<String>,
    pub(super) tools: &'a RegisteredTools,
    pub(super) witness: &'a dyn PassageVerifier,
    pub(super) scope: &'a Scope,
    pub(super) bounds: Bounds,
    /// Whether vic summarises the graph and searches for the question before the first step.
    pub(super) prefetch: bool,
}

/// The mutable state of one run of the agent loop.
struct LoopState {
    question: String,
    offers: Vec<ToolOffer>,
    hints: SchemaHints,
    transcript: Vec<TranscriptStep>,
    notes: Vec<String>,
    steps: u32,
    tokens: u64,
    failures: u32,
    refused: Vec<RefusedAnswer>,
    error: Option<Problem>,
    begun: Instant,
}

/// The outcome of a step.
enum StepOutcome {
    /// The loop goes on with the next step.
    Step,
    /// The loop ends with an answer and its verified citations.
    Answer(FinalAnswer, Vec<VerifiedCitation>),
    /// The loop ends without an answer, for this reason.
    End(Ending),
}

impl ToolLoop<'_> {
    /// Runs the agent loop to its end, and reports the answer or why there is none.
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
            refused: Vec::new(),
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
        match self.prefetch {
            true => self.prefetch(state).await,
            false => state.hints = read_schema(self.tools).await,
        }
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

    /// Calls the summary and the search tool before the first step, because most questions need their results.
    async fn prefetch(&self, state: &mut LoopState) {
        if self.tools.contains(SUMMARY_TOOL) {
            let summary = self.call(state, SUMMARY_TOOL, json!({})).await;
            state.hints = schema_names(&summary);
        }
        if self.tools.contains(SEARCH_TOOL) {
            let query = json!({ "query": state.question });
            self.call(state, SEARCH_TOOL, query).await;
        }
        // Resets the count, because only calls of the reasoner count towards `MAX_FAILURES`, not these two calls of
        // vic.
        state.failures = 0;
    }

    async fn step(&self, state: &mut LoopState) -> StepOutcome {
        state.steps += 1;
        let response = match self.ask_reasoner(state).await {
            Ok(response) => response,
            Err(error) => {
                state.notes.push(format!("step {}: {}", state.steps, sanitize(&error.one_line())));
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
                let (code, message) =
                    (ErrorCode::FailedPrecondition.name(), "neither tool call nor answer".to_string());
                state.error = Some(Problem { code, message, hint: None });
                StepOutcome::End(Ending::Failed)
            }
        }
    }

    /// Asks the reasoner for the next step, and sends as much of the transcript as fits in its context.
    async fn ask_reasoner(&self, state: &mut LoopState) -> Result<PluginResponse> {
        let task = PluginTask::ToolLoopStep {
            question: state.question.clone(),
            schema: state.hints.clone(),
            tools: state.offers.clone(),
            transcript: state.transcript.clone(),
            refused: state.refused.last().cloned(),
        };
        let (request, cuts) =
            context_budget::fit_request(self.reasoner, PluginRequest::new(self.model.clone(), task)).await?;
        state.tokens += limits::estimate_tokens(&request);
        // Adds each note once, because many steps may cut the same part of the request.
        let new: Vec<String> = cuts.into_iter().map(String::from).filter(|it| !state.notes.contains(it)).collect();
        state.notes.extend(new);
        self.reasoner.run_task(&request).await
    }

    /// Runs a tool call. Ends the loop instead if the transcript already has the same call `MAX_REPEATS` times.
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

    /// Verifies the citations and queries of an answer. An answer that nothing proves is refused, and sent back once.
    async fn check_answer(&self, state: &mut LoopState, mut answer: FinalAnswer) -> StepOutcome {
        let offered = CitableIndex::from_transcript(&state.transcript);
        let (cited, fallen) = citations::verify_citations(&answer.citations, &offered, self.witness, self.scope).await;
        if fallen > 0 {
            let is = if fallen == 1 { "citation was" } else { "citations were" };
            state.notes.push(format!("{fallen} {is} left out: not in any tool result, or the file has changed"));
        }
        let ran = RanQueries::from_transcript(&state.transcript);
        let proof = ran.proof_of(&answer);
        let invented = answer.queries.iter().filter(|it| !ran.contains(it)).count();
        if invented > 0 {
            let is = if invented == 1 { "query was" } else { "queries were" };
            state.notes.push(format!("{invented} {is} left out: not run, or failed"));
        }
        if !cited.is_empty() {
            answer.queries.retain(|it| ran.contains(it));
            return StepOutcome::Answer(answer, cited);
        }
        if rules::is_no_answer(&answer) {
            return StepOutcome::End(Ending::NothingFound);
        }
        if !proof.is_empty() {
            return StepOutcome::Answer(FinalAnswer { queries: proof, ..answer }, Vec::new());
        }
        // Without tool results, the model has invented its answer: reports that nothing was found.
        if found_nothing(&state.transcript) {
            state.refused.push(refused_answer(&answer, "rests on nothing: no tool found anything"));
            return StepOutcome::End(Ending::NothingFound);
        }
        let is_second = !state.refused.is_empty();
        state.refused.push(refused_answer(&answer, refusal_reason(&answer)));
        if is_second { StepOutcome::End(Ending::Uncited) } else { StepOutcome::Step }
    }

    /// Builds the report of a loop without an answer: it quotes the best passages, and a note says why.
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
            Ending::Stuck => "the model repeated its tool calls, or they kept failing".to_string(),
            Ending::Uncited => "the model's answers were refused: nothing that was found proves them".to_string(),
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
            refused: state.refused.iter().map(sanitize_refused).collect(),
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

/// Returns whether no tool except the summary tool returned anything that an answer could cite.
fn found_nothing(transcript: &[TranscriptStep]) -> bool {
    let found: Vec<TranscriptStep> = transcript.iter().filter(|it| it.tool != SUMMARY_TOOL).cloned().collect();
    CitableIndex::from_transcript(&found).is_empty()
}

/// Returns why an answer is refused whose citations and queries prove nothing.
fn refusal_reason(answer: &FinalAnswer) -> &'static str {
    match (answer.citations.is_empty(), answer.queries.is_empty()) {
        (false, _) => "cites nothing that a tool gave",
        (true, false) => "names no graph query that ran",
        (true, true) => "cites no result and names no query",
    }
}

fn refused_answer(answer: &FinalAnswer, reason: &str) -> RefusedAnswer {
    let cut = |text: &String| text.chars().take(MAX_REFUSED_CHARS).collect::<String>();
    RefusedAnswer {
        answer: cut(&answer.answer),
        citations: answer.citations.iter().take(MAX_REFUSED_CITATIONS).map(cut).collect(),
        reason: reason.into(),
    }
}

fn sanitize_refused(it: &RefusedAnswer) -> RefusedAnswer {
    RefusedAnswer {
        answer: sanitize(&it.answer),
        citations: it.citations.iter().map(|it| sanitize(it)).collect(),
        reason: it.reason.clone(),
    }
}

fn tool_error_note(name: &str, error: &ToolError, refused: bool) -> String {
    let what = if refused { "was not run" } else { "failed" };
    sanitize(&format!("`{}` {what}: {}", name.chars().take(60).collect::<String>(), error.message))
}

/// Checks that a question is not empty, before [`ToolLoop::run`].
pub(super) fn ensure_question(question: &str) -> Result<()> {
    match question.trim().is_empty() {
        true => Err(Error::invalid("the question is empty").hint("try: vic llm agent \"who signed the contract?\"")),
        false => Ok(()),
    }
}
