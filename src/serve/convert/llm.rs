//! Language models on the wire.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::{WireEnum, wire};
use crate::agent::{AgentRequest, BackendKind, Bounds, CommandLine, Override};
use crate::error::{Error, Result};
use crate::llm::{
    CapabilitySnapshot, Guardrails, LlmRequest, LlmStreamEvent, Message, ModelCapability, Patience, RetryPolicy, Role,
    ToolCall, Usage, WorkloadKind,
};
use crate::model::{PrivacyMode, ToolSpec};

/// The longest that a caller can have somebody wait.
const MAX_SECONDS: u32 = 3_600;

impl TryFrom<wire::LlmBackend> for Override {
    type Error = Error;

    fn try_from(it: wire::LlmBackend) -> Result<Override> {
        let filled = |it: String| Some(it).filter(|it| !it.is_empty());
        let backend = match it.kind.as_str() {
            "" => None,
            name => Some(BackendKind::from_name(name).ok_or_else(|| {
                let text = format!("unknown backend `{}`", name.chars().take(40).collect::<String>());
                Error::invalid(text).field("backend.kind").hint("use `mock`, `ollama`, `openai` or `command`")
            })?),
        };
        let command = filled(it.command).map(|program| CommandLine {
            program,
            args: it.args,
            folder: PathBuf::from(if it.folder.is_empty() { "/".to_string() } else { it.folder }),
        });
        Ok(Override { backend, model: filled(it.model), command, time: None })
    }
}

impl From<Override> for wire::LlmBackend {
    fn from(it: Override) -> wire::LlmBackend {
        let (command, args, folder) = match it.command {
            Some(line) => (line.program, line.args, line.folder.to_string_lossy().into_owned()),
            None => (String::new(), Vec::new(), String::new()),
        };
        wire::LlmBackend {
            kind: it.backend.map_or("", BackendKind::name).into(),
            model: it.model.unwrap_or_default(),
            command,
            args,
            folder,
        }
    }
}

impl From<wire::AssistAgent> for AgentRequest {
    fn from(it: wire::AssistAgent) -> AgentRequest {
        let usual = Bounds::default();
        let bounds = Bounds {
            steps: it.max_steps.unwrap_or(usual.steps),
            time: it.seconds.map_or(usual.time, |it| Duration::from_secs(it.into())),
            tokens: it.max_tokens.unwrap_or(usual.tokens),
        };
        AgentRequest { question: it.question, over: Override::default(), bounds: Some(bounds) }
    }
}

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
        let workload = |it: &WorkloadKind| match it {
            WorkloadKind::Chat => "chat".to_string(),
            WorkloadKind::Completion => "completion".into(),
            WorkloadKind::Tool => "tool".into(),
            WorkloadKind::Vision => "vision".into(),
        };
        wire::ModelCapability {
            id: it.id.0,
            max_context_tokens: it.max_context_tokens,
            max_tokens: it.max_tokens,
            max_temperature: it.max_temperature,
            workloads: it.workloads.iter().map(workload).collect(),
            passed_on_to: it.passed_on_to,
        }
    }
}

impl TryFrom<wire::LlmRequest> for LlmRequest {
    type Error = Error;

    fn try_from(it: wire::LlmRequest) -> Result<LlmRequest> {
        let mode = WireEnum::decode(it.privacy_mode)?;
        // Without a word of it the daemon's own mode holds, which is laid over this one.
        let usual = LlmRequest::new(mode.unwrap_or(PrivacyMode::CloudEmbeddingOk), &it.system, "");
        let mut guardrails = Guardrails { stop: it.stop, ..Guardrails::default() };
        guardrails.retry = it.attempts.map(RetryPolicy::attempts);
        let patience = match it.timeout_seconds {
            None => Patience::default(),
            Some(seconds @ 1..=MAX_SECONDS) => {
                Patience { overall: Duration::from_secs(seconds.into()), ..Patience::default() }
            }
            Some(other) => {
                let text = format!("`timeout_seconds` {other} is not between 1 and {MAX_SECONDS}");
                return Err(Error::invalid(text).field("timeout_seconds"));
            }
        };
        let schema = match it.schema_json.trim() {
            "" => None,
            text => Some(json("schema_json", text)?),
        };
        Ok(LlmRequest {
            messages: it.messages.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            images: it.images,
            schema,
            tools: it.tools.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            max_tokens: it.max_tokens.unwrap_or(usual.max_tokens),
            temperature: it.temperature.unwrap_or(usual.temperature),
            seed: it.seed.or(usual.seed),
            metadata: it.metadata.into_iter().collect(),
            guardrails: Some(guardrails),
            patience,
            ..usual
        })
    }
}

fn json(field: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Error::invalid(format!("`{field}` is no JSON: {error}")).field(field))
}

impl TryFrom<wire::LlmTool> for ToolSpec {
    type Error = Error;

    fn try_from(it: wire::LlmTool) -> Result<ToolSpec> {
        let parameters = json("tools.parameters_json", &it.parameters_json)?;
        Ok(ToolSpec { name: it.name, description: it.description, parameters })
    }
}

impl TryFrom<wire::LlmMessage> for Message {
    type Error = Error;

    fn try_from(it: wire::LlmMessage) -> Result<Message> {
        let role = match it.role.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            other => {
                let text = format!("unknown role `{}`", other.chars().take(40).collect::<String>());
                return Err(Error::invalid(text).field("messages.role").hint("use `user`, `assistant` or `tool`"));
            }
        };
        let call = |it: wire::LlmToolCall| ToolCall { id: it.id, name: it.name, arguments_json: it.arguments_json };
        Ok(Message {
            tool_calls: it.tool_calls.into_iter().map(call).collect(),
            answers: (!it.tool_call_id.is_empty()).then_some((it.tool_call_id, it.tool_name)),
            ..Message::new(role, it.content)
        })
    }
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
                Event::Completed(wire::LlmCompleted { finish_reason: finish_reason.name().into() })
            }
            LlmStreamEvent::Error { code, message, hint, retriable, retry_after_ms } => {
                let hint = hint.unwrap_or_default();
                Event::Error(wire::LlmError { code: code.name().into(), message, hint, retriable, retry_after_ms })
            }
        };
        wire::LlmEvent { event: Some(event) }
    }
}
