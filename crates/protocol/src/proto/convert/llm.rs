//! Conversions of language model requests between model and wire types; [`super::llm_events`] converts the responses.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::model::agent::{AgentRequest, BackendKind, Bounds, CommandLine, Override};
use crate::model::llm::{Guardrails, LlmRequest, Message, RetryPolicy, Role, Timeouts, ToolCall, WorkloadKind};
use crate::model::{PrivacyMode, ToolSpec};
use crate::proto::convert::{WireEnum, wire};
use crate::proto::json::{self, MAX_JSON};

/// Hint of the error for an unknown workload.
const WORKLOADS_HINT: &str = "use `chat`, `completion`, `tool` or `vision`";
/// Hint of the error for an unknown role.
const ROLES_HINT: &str = "use `user`, `assistant` or `tool`";
/// Maximum size in bytes of the parameter schemas of all tools of a request. A hundred tools take a fifth of this size.
const MAX_TOOL_PARAMETERS_BYTES: usize = 1 << 20;
/// Maximum size of a model name in bytes. Limits memory: the daemon keeps a client, with the name, for each model.
const MAX_MODEL_NAME: usize = 1 << 10;
/// Maximum size in bytes of the path of a program or folder: the longest path of the operating system.
const MAX_PATH: usize = 4 << 10;
/// Maximum number of arguments of a command, and their total size in bytes. A prompt of 100 KB fits in an argument.
const MAX_ARGS: usize = 256;
const MAX_ARGS_BYTES: usize = 256 << 10;
/// Maximum timeout in seconds that a caller can set.
const MAX_TIMEOUT_SECONDS: u32 = 3_600;

impl TryFrom<wire::LlmBackend> for Override {
    type Error = Error;

    fn try_from(it: wire::LlmBackend) -> Result<Override> {
        check_backend(&it)?;
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

/// Rejects names and arguments that are too long, before the daemon looks them up or stores them.
fn check_backend(it: &wire::LlmBackend) -> Result<()> {
    let short = |field: &str, bytes: usize, most: usize| {
        if bytes <= most {
            return Ok(());
        }
        let text = format!("`{field}` has {bytes} bytes; the limit is {most}");
        Err(Error::invalid(text).field(field).hint("use a shorter name, e.g. of a link or a script"))
    };
    short("backend.model", it.model.len(), MAX_MODEL_NAME)?;
    short("backend.command", it.command.len(), MAX_PATH)?;
    short("backend.folder", it.folder.len(), MAX_PATH)?;
    if it.args.len() > MAX_ARGS {
        let text = format!("`backend.args` has {} arguments; the limit is {MAX_ARGS}", it.args.len());
        return Err(Error::invalid(text).field("backend.args").hint("move them into a script"));
    }
    short("backend.args", it.args.iter().map(String::len).sum(), MAX_ARGS_BYTES)
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
        AgentRequest { question: it.question, over: Override::default(), bounds: Some(bounds), prefetch: it.prefetch }
    }
}

impl TryFrom<wire::LlmRequest> for LlmRequest {
    type Error = Error;

    fn try_from(it: wire::LlmRequest) -> Result<LlmRequest> {
        let usual = LlmRequest::new(privacy_mode(it.privacy_mode)?, &it.system, "");
        let rules = Guardrails::default();
        let guardrails = Guardrails {
            stop: it.stop,
            retry: it.attempts.map(RetryPolicy::with_attempts),
            max_tool_rounds: it.max_tool_rounds.unwrap_or(rules.max_tool_rounds),
        };
        let workload = match it.workload.as_str() {
            "" => WorkloadKind::default(),
            name => {
                WorkloadKind::from_name(name).ok_or_else(|| unknown_name_error("workload", name, WORKLOADS_HINT))?
            }
        };
        let patience = match it.timeout_seconds {
            None => Timeouts::default(),
            Some(seconds @ 1..=MAX_TIMEOUT_SECONDS) => {
                Timeouts { overall: Duration::from_secs(seconds.into()), ..Timeouts::default() }
            }
            Some(other) => {
                let text = format!("`timeout_seconds` {other} is not between 1 and {MAX_TIMEOUT_SECONDS}");
                return Err(Error::invalid(text).field("timeout_seconds"));
            }
        };
        let schema = match it.schema_json.trim() {
            "" => None,
            text => Some(json::json_field("schema_json", text, MAX_JSON)?),
        };
        json::check_size(
            "tools",
            it.tools.iter().map(|tool| tool.parameters_json.len()).sum(),
            MAX_TOOL_PARAMETERS_BYTES,
        )?;
        Ok(LlmRequest {
            workload,
            context_tokens: it.context_tokens,
            messages: it.messages.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            images: it.images,
            schema,
            tools: it.tools.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            max_tokens: it.max_tokens.unwrap_or(usual.max_tokens),
            temperature: it.temperature.unwrap_or(usual.temperature),
            seed: it.seed.or(usual.seed),
            metadata: it.metadata.into_iter().collect(),
            guardrails: Some(guardrails),
            timeouts: patience,
            ..usual
        })
    }
}

/// Decodes the privacy mode. An unspecified mode allows everything, because the daemon's own mode restricts it further.
pub fn privacy_mode(number: i32) -> Result<PrivacyMode> {
    Ok(WireEnum::decode(number)?.unwrap_or(PrivacyMode::CloudEmbeddingOk))
}

/// Builds an embedding request.
pub fn embed_request(texts: Vec<String>, mode: PrivacyMode, over: Override) -> wire::LlmEmbedRequest {
    wire::LlmEmbedRequest { backend: Some(over.into()), texts, privacy_mode: mode.encode() }
}

fn unknown_name_error(field: &str, name: &str, hint: &str) -> Error {
    let what = field.rsplit('.').next().unwrap_or(field);
    let text = format!("unknown {what} `{}`", name.chars().take(40).collect::<String>());
    Error::invalid(text).field(field).hint(hint)
}

impl From<LlmRequest> for wire::LlmRequest {
    fn from(it: LlmRequest) -> wire::LlmRequest {
        let Guardrails { stop, retry, max_tool_rounds } = it.guardrails.unwrap_or_default();
        wire::LlmRequest {
            backend: it.model.map(|model| wire::LlmBackend { model: model.0, ..wire::LlmBackend::default() }),
            system: it.system,
            messages: it.messages.into_iter().map(Into::into).collect(),
            images: it.images,
            max_tokens: Some(it.max_tokens),
            temperature: Some(it.temperature),
            seed: it.seed,
            schema_json: it.schema.map(|schema| schema.to_string()).unwrap_or_default(),
            tools: it.tools.into_iter().map(Into::into).collect(),
            stop,
            metadata: it.metadata.into_iter().collect(),
            timeout_seconds: Some(u32::try_from(it.timeouts.overall.as_secs()).unwrap_or(u32::MAX)),
            privacy_mode: it.privacy_mode.encode(),
            attempts: retry.map(|policy| policy.attempts),
            use_vic_tools: false,
            workload: it.workload.name().into(),
            max_tool_rounds: Some(max_tool_rounds),
            context_tokens: it.context_tokens,
            with_proof: false,
        }
    }
}

impl From<ToolSpec> for wire::LlmTool {
    fn from(it: ToolSpec) -> wire::LlmTool {
        wire::LlmTool { name: it.name, description: it.description, parameters_json: it.parameters.to_string() }
    }
}

impl From<Message> for wire::LlmMessage {
    fn from(it: Message) -> wire::LlmMessage {
        let (tool_call_id, tool_name) = it.answers.unwrap_or_default();
        let call = |it: ToolCall| wire::LlmToolCall { id: it.id, name: it.name, arguments_json: it.arguments_json };
        wire::LlmMessage {
            role: it.role.name().into(),
            content: it.content,
            tool_calls: it.tool_calls.into_iter().map(call).collect(),
            tool_call_id,
            tool_name,
        }
    }
}

impl TryFrom<wire::LlmTool> for ToolSpec {
    type Error = Error;

    fn try_from(it: wire::LlmTool) -> Result<ToolSpec> {
        let parameters = json::json_field("tools.parameters_json", &it.parameters_json, MAX_JSON)?;
        Ok(ToolSpec { name: it.name, description: it.description, parameters })
    }
}

impl TryFrom<wire::LlmMessage> for Message {
    type Error = Error;

    fn try_from(it: wire::LlmMessage) -> Result<Message> {
        let role =
            Role::from_name(&it.role).ok_or_else(|| unknown_name_error("messages.role", &it.role, ROLES_HINT))?;
        let call = |it: wire::LlmToolCall| ToolCall { id: it.id, name: it.name, arguments_json: it.arguments_json };
        Ok(Message {
            tool_calls: it.tool_calls.into_iter().map(call).collect(),
            answers: (!it.tool_call_id.is_empty()).then_some((it.tool_call_id, it.tool_name)),
            ..Message::new(role, it.content)
        })
    }
}
