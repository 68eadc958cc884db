//! Runs one model request: waits in the queue, sends the request, runs the tools that the model calls, and emits the final
//! event.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode, Result};
use crate::llm::client_state::ClientState;
use crate::llm::event_log::{ProofEvent, recorded_request};
use crate::llm::memory_limit::MemoryReservation;
use crate::llm::queue::QueueEntry;
use crate::llm::transport::AnswerPiece;
use crate::model::llm::event::{FinishReason, LlmStreamEvent, TaskId, Usage};
use crate::model::llm::guardrails::{Guardrails, StopFilter};
use crate::model::llm::request::{LlmRequest, Message, ToolCall};

/// If an event cannot be delivered for this long, because the reader does not read, the request is cancelled.
const READER_TIMEOUT: Duration = Duration::from_secs(30);

/// The state of one running request.
pub(super) struct RequestTask {
    pub(super) shared: Arc<ClientState>,
    pub(super) id: TaskId,
    pub(super) events: mpsc::Sender<LlmStreamEvent>,
    pub(super) cancel: CancellationToken,
    pub(super) accepted: Duration,
    /// Number of text pieces emitted so far.
    pub(super) tokens: u64,
    pub(super) usage: Usage,
    /// Counts the memory of the request against the limit until the end of the task.
    pub(super) _load: MemoryReservation,
}

/// The answer of the model in one round; a round with tool calls may be followed by another one.
struct Round {
    text: String,
    calls: Vec<ToolCall>,
    finish: FinishReason,
}

impl RequestTask {
    /// Runs the request to its end. The last event is always a final one, unless the reader is gone.
    pub(super) async fn run(mut self, place: QueueEntry, request: LlmRequest) {
        let at = self.shared.clock.now_ms();
        self.emit(LlmStreamEvent::Started { task_id: self.id.clone(), accepted_at: at }).await;
        let depth = place.ahead as u64;
        self.emit(LlmStreamEvent::Metrics { latency_ms: None, queue_depth: Some(depth), usage: None }).await;
        let (cancel, listener) = (self.cancel.clone(), self.events.clone());
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(FinishReason::Cancelled),
            () = listener.closed() => Ok(FinishReason::Cancelled),
            outcome = self.run_rounds(place, request) => outcome,
        };
        let latency = self.shared.clock.elapsed().saturating_sub(self.accepted);
        let latency_ms = Some(u64::try_from(latency.as_millis()).unwrap_or(u64::MAX));
        self.emit(LlmStreamEvent::Metrics { latency_ms, queue_depth: None, usage: Some(self.usage) }).await;
        let last = match outcome {
            Ok(finish_reason) => LlmStreamEvent::Completed { finish_reason },
            Err(error) => LlmStreamEvent::from_error(&error),
        };
        self.emit(last).await;
        self.shared.remove_task(&self.id);
    }

    async fn run_rounds(&mut self, place: QueueEntry, mut request: LlmRequest) -> Result<FinishReason> {
        let _turn = place.acquire(request.timeouts.overall).await?;
        self.shared.set_context(&mut request).await;
        let rules = request.guardrails.clone().unwrap_or_else(|| self.shared.guardrails.clone());
        for _round in 0..=rules.max_tool_rounds {
            let round = self.run_with_retries(&request, &rules).await?;
            if round.calls.is_empty() {
                return Ok(round.finish);
            }
            // Ends the request if the caller must run one of the tools; then the caller runs all calls of this round.
            if round.calls.iter().any(|it| self.is_run_by_caller(&request, it)) {
                return Ok(FinishReason::ToolCalls);
            }
            let results = self.run_tools(&round.calls).await;
            request.messages.push(Message::with_calls(round.text, round.calls));
            request.messages.extend(results);
        }
        let text = format!("the model called tools in more than {} rounds", rules.max_tool_rounds);
        Err(Error::new(ErrorCode::ResourceExhausted, text).hint("ask for less in one question"))
    }

    /// Returns whether the caller must run a called tool: it must if the request offers the tool and the registry lacks it.
    /// If there is a registry, a call of an unknown tool is reported to the model as its mistake.
    fn is_run_by_caller(&self, request: &LlmRequest, call: &ToolCall) -> bool {
        match &self.shared.tools {
            None => true,
            Some(tools) => !tools.contains(&call.name) && request.tools.iter().any(|it| it.name == call.name),
        }
    }

    /// Makes as many attempts as the retry policy allows, and emits an event before each retry. There is no retry after
    /// text was emitted.
    async fn run_with_retries(&mut self, request: &LlmRequest, rules: &Guardrails) -> Result<Round> {
        let policy = rules.retry.clone().or_else(|| self.shared.retry.clone());
        let spoken = self.tokens;
        let mut tried = 1;
        loop {
            let error = match self.run_once(request, rules).await {
                Ok(round) => return Ok(round),
                Err(error) => error,
            };
            let wait = policy.as_ref().and_then(|it| it.next_delay(tried, &error)).filter(|_| self.tokens == spoken);
            // Returns the error if the delay exceeds the overall timeout, so that the caller can retry later.
            let Some(wait) = wait.filter(|it| *it < request.timeouts.overall) else { return Err(error) };
            tried += 1;
            let delay_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            self.emit(LlmStreamEvent::Retrying { attempt: tried, message: error.message, delay_ms }).await;
            self.shared.clock.sleep(wait).await;
        }
    }

    async fn run_once(&mut self, request: &LlmRequest, rules: &Guardrails) -> Result<Round> {
        self.record(|shared, task_id| {
            let model = request.model.as_ref().map_or(shared.transport.model(), |it| it.0.as_str());
            let request = recorded_request(request, shared.transport.backend(), model);
            ProofEvent::Request { task_id, at: shared.clock.now_ms(), request }
        });
        let mut pieces = self.shared.transport.stream(request.clone()).await?;
        let mut filter = StopFilter::new(&rules.stop);
        let mut round = Round { text: String::new(), calls: Vec::new(), finish: FinishReason::Other };
        while let Some(piece) = pieces.next().await {
            match piece? {
                AnswerPiece::Text(text) => {
                    let (shown, stopped) = filter.push(&text);
                    self.emit_text(shown, &mut round).await;
                    if stopped {
                        return Ok(Round { finish: FinishReason::Stop, calls: Vec::new(), ..round });
                    }
                }
                AnswerPiece::Call(call) => {
                    self.emit(LlmStreamEvent::ToolCall {
                        descriptor_name: call.name.clone(),
                        invocation_id: call.id.clone(),
                        arguments_json: call.arguments_json.clone(),
                    })
                    .await;
                    round.calls.push(call);
                }
                AnswerPiece::Done { finish, usage } => {
                    self.emit_text(filter.finish(), &mut round).await;
                    // Adds with saturation, because servers may report arbitrary counts.
                    let add = u64::saturating_add;
                    self.usage.prompt_tokens = add(self.usage.prompt_tokens, usage.prompt_tokens);
                    self.usage.answer_tokens = add(self.usage.answer_tokens, usage.answer_tokens);
                    return Ok(Round { finish, ..round });
                }
            }
        }
        let model = self.shared.transport.model();
        Err(Error::new(ErrorCode::Unavailable, format!("the answer of model `{model}` ended before it was complete")))
    }

    async fn emit_text(&mut self, text: String, round: &mut Round) {
        if text.is_empty() {
            return;
        }
        round.text.push_str(&text);
        let index = self.tokens;
        self.tokens += 1;
        self.emit(LlmStreamEvent::Token { text, index }).await;
    }

    async fn run_tools(&mut self, calls: &[ToolCall]) -> Vec<Message> {
        let Some(tools) = self.shared.tools.clone() else { return Vec::new() };
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            let invocation_id = call.id.clone();
            let payload = match tools.call(&call.name, &call.arguments_json).await {
                Ok(payload) => {
                    let payload_json = payload.to_string();
                    self.emit(LlmStreamEvent::ToolResult { invocation_id, payload_json: payload_json.clone() }).await;
                    payload_json
                }
                Err(error) => {
                    let payload = error.payload().to_string();
                    self.emit(LlmStreamEvent::ToolError { invocation_id, error }).await;
                    payload
                }
            };
            // Redacts secrets in the result, because it may contain document text.
            results.push(Message::result(call, self.shared.redact(&payload)));
        }
        results
    }

    async fn emit(&mut self, event: LlmStreamEvent) {
        self.record(|shared, task_id| ProofEvent::Event { task_id, at: shared.clock.now_ms(), event: event.clone() });
        // Ignores a closed channel here, because `run` also detects it and ends the request.
        tokio::select! {
            biased;
            _gone = self.events.send(event) => (),
            // Cancels the request, because without a reader it would hold its queue permit forever.
            () = self.shared.clock.sleep(READER_TIMEOUT) => self.cancel.cancel(),
        }
    }

    fn record(&self, event: impl FnOnce(&ClientState, TaskId) -> ProofEvent) {
        if let Some(proof) = &self.shared.proof {
            proof.record(&event(&self.shared, self.id.clone()));
        }
    }
}
