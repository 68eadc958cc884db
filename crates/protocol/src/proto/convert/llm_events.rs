//! Conversions of language model capabilities and events; [`super::llm`] converts the requests.

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::{
    CapabilitySnapshot, FinishReason, LlmStreamEvent, ModelCapability, ProofRecord, TaskId, ToolError, ToolFault,
    Usage, WorkloadKind,
};
use crate::proto::convert::{missing_field_error, wire};

impl From<CapabilitySnapshot> for wire::CapabilitySnapshot {
    fn from(it: CapabilitySnapshot) -> wire::CapabilitySnapshot {
        let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        wire::CapabilitySnapshot {
            backend: it.backend,
            place: it.place,
            default_model: it.default_model.0,
            models: it.models.into_iter().map(Into::into).collect(),
            running: small(it.queue.running),
            waiting: small(it.queue.waiting),
            taken_at_ms: it.taken_at,
        }
    }
}

impl From<ModelCapability> for wire::ModelCapability {
    fn from(it: ModelCapability) -> wire::ModelCapability {
        wire::ModelCapability {
            id: it.id.0,
            max_context_tokens: it.max_context_tokens,
            max_tokens: it.max_tokens,
            max_temperature: it.max_temperature,
            workloads: it.workloads.iter().map(|it| it.name().to_string()).collect(),
            passed_on_to: it.passed_on_to,
        }
    }
}

impl TryFrom<wire::ModelCapability> for ModelCapability {
    type Error = Error;

    fn try_from(it: wire::ModelCapability) -> Result<ModelCapability> {
        let workload =
            |name: &String| WorkloadKind::from_name(name).ok_or_else(|| unknown_name_error("workload", name));
        Ok(ModelCapability {
            id: it.id.as_str().into(),
            max_context_tokens: it.max_context_tokens,
            max_tokens: it.max_tokens,
            max_temperature: it.max_temperature,
            workloads: it.workloads.iter().map(workload).collect::<Result<_>>()?,
            passed_on_to: it.passed_on_to,
        })
    }
}

fn unknown_name_error(what: &str, name: &str) -> Error {
    Error::invalid(format!("unknown {what} `{}`", name.chars().take(40).collect::<String>()))
        .hint("client and daemon have different versions: update the older one")
}

impl From<LlmStreamEvent> for wire::LlmEvent {
    fn from(it: LlmStreamEvent) -> wire::LlmEvent {
        use wire::llm_event::Event;
        let event = match it {
            LlmStreamEvent::Started { task_id, accepted_at } => {
                Event::Started(wire::LlmStarted { task_id: task_id.0, accepted_at_ms: accepted_at })
            }
            LlmStreamEvent::Token { text, index } => Event::Token(wire::LlmToken { text, index }),
            LlmStreamEvent::ToolCall { descriptor_name, invocation_id, arguments_json } => {
                Event::ToolCall(wire::LlmToolCall { id: invocation_id, name: descriptor_name, arguments_json })
            }
            LlmStreamEvent::ToolResult { invocation_id, payload_json } => {
                Event::ToolResult(wire::LlmToolResult { id: invocation_id, payload_json })
            }
            LlmStreamEvent::ToolError { invocation_id, error } => Event::ToolError(wire::LlmToolError {
                id: invocation_id,
                kind: error.kind.name().into(),
                message: error.message,
            }),
            LlmStreamEvent::Retrying { attempt, message, delay_ms } => {
                Event::Retrying(wire::LlmRetrying { attempt, message, delay_ms })
            }
            LlmStreamEvent::Metrics { latency_ms, queue_depth, usage } => Event::Metrics(wire::LlmMetrics {
                latency_ms,
                queue_depth,
                prompt_tokens: usage.map(|Usage { prompt_tokens, .. }| prompt_tokens),
                answer_tokens: usage.map(|Usage { answer_tokens, .. }| answer_tokens),
            }),
            LlmStreamEvent::Completed { finish_reason } => {
                let finish_reason = finish_reason.name().into();
                Event::Completed(wire::LlmCompleted { finish_reason, proof: None })
            }
            LlmStreamEvent::Error { code, message, hint, retriable, retry_after_ms } => {
                let (code, hint) = (code.name().into(), hint.unwrap_or_default());
                Event::Error(wire::LlmError { code, message, hint, retriable, retry_after_ms, proof: None })
            }
        };
        wire::LlmEvent { event: Some(event) }
    }
}

impl wire::LlmEvent {
    /// Adds the proof record of the stream to its final event.
    pub fn with_proof(mut self, proof: ProofRecord) -> wire::LlmEvent {
        use wire::llm_event::Event;
        match &mut self.event {
            Some(Event::Completed(it)) => it.proof = Some(proof.into()),
            Some(Event::Error(it)) => it.proof = Some(proof.into()),
            _ => (),
        }
        self
    }
}

impl From<ProofRecord> for wire::LlmProof {
    fn from(it: ProofRecord) -> wire::LlmProof {
        wire::LlmProof {
            task_id: it.task_id.map(|id| id.0).unwrap_or_default(),
            events: it.events,
            seal: it.seal,
            finish_reason: it.finish_reason.map_or("", FinishReason::name).into(),
            prompt_tokens: it.usage.prompt_tokens,
            answer_tokens: it.usage.answer_tokens,
            latency_ms: it.latency.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl TryFrom<wire::LlmEvent> for LlmStreamEvent {
    type Error = Error;

    fn try_from(it: wire::LlmEvent) -> Result<LlmStreamEvent> {
        use wire::llm_event::Event;
        Ok(match it.event.ok_or_else(|| missing_field_error("event"))? {
            Event::Started(it) => {
                LlmStreamEvent::Started { task_id: TaskId(it.task_id), accepted_at: it.accepted_at_ms }
            }
            Event::Token(it) => LlmStreamEvent::Token { text: it.text, index: it.index },
            Event::ToolCall(it) => LlmStreamEvent::ToolCall {
                descriptor_name: it.name,
                invocation_id: it.id,
                arguments_json: it.arguments_json,
            },
            Event::ToolResult(it) => LlmStreamEvent::ToolResult { invocation_id: it.id, payload_json: it.payload_json },
            Event::ToolError(it) => {
                let kind = ToolFault::from_name(&it.kind).ok_or_else(|| unknown_name_error("kind", &it.kind))?;
                LlmStreamEvent::ToolError { invocation_id: it.id, error: ToolError { kind, message: it.message } }
            }
            Event::Retrying(it) => {
                LlmStreamEvent::Retrying { attempt: it.attempt, message: it.message, delay_ms: it.delay_ms }
            }
            Event::Metrics(it) => {
                let tokens = it.prompt_tokens.zip(it.answer_tokens);
                let usage = tokens.map(|(prompt_tokens, answer_tokens)| Usage { prompt_tokens, answer_tokens });
                LlmStreamEvent::Metrics { latency_ms: it.latency_ms, queue_depth: it.queue_depth, usage }
            }
            Event::Completed(it) => {
                let name = &it.finish_reason;
                let finish_reason =
                    FinishReason::from_name(name).ok_or_else(|| unknown_name_error("finish_reason", name))?;
                LlmStreamEvent::Completed { finish_reason }
            }
            Event::Error(it) => LlmStreamEvent::Error {
                code: ErrorCode::from_name(&it.code).ok_or_else(|| unknown_name_error("code", &it.code))?,
                message: it.message,
                hint: Some(it.hint).filter(|it| !it.is_empty()),
                retriable: it.retriable,
                retry_after_ms: it.retry_after_ms,
            },
        })
    }
}
