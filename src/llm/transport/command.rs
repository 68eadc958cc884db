//! The transport to a plugin command: each request is one step of a tool loop in the plugin protocol.
//!
//! The protocol has a question, tools and their results, but no conversation. The last user message becomes the question;
//! earlier messages and the system prompt are prepended to it as text.

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::Value;

use crate::error::Result;
use crate::llm::plugin::{
    PluginCommand, PluginLimits, PluginRequest, PluginTask, SchemaHints, ToolOffer, TranscriptStep,
};
use crate::llm::transport::backend::{AnswerPiece, PieceStream, Transport};
use crate::model::PrivacyMode;
use crate::model::llm::capabilities::ModelCapability;
use crate::model::llm::event::{FinishReason, Usage};
use crate::model::llm::request::{LlmRequest, Message, Role, ToolCall, WorkloadKind};

/// A plugin command and the model that it should use.
pub(super) struct CommandBackend {
    command: PluginCommand,
    model: String,
}

impl CommandBackend {
    pub(super) fn new(command: PluginCommand, model: &str) -> CommandBackend {
        CommandBackend { command, model: model.into() }
    }
}

#[async_trait]
impl Transport for CommandBackend {
    fn backend(&self) -> &'static str {
        "command"
    }

    fn place(&self) -> String {
        self.command.command_line()
    }

    fn model(&self) -> &str {
        &self.model
    }

    async fn capabilities(&self, _mode: PrivacyMode) -> Result<Vec<ModelCapability>> {
        // Assumes default limits, because a plugin does not report its models. Excludes images, which the plugin
        // protocol lacks.
        let mut model = ModelCapability::with_defaults(self.model.as_str().into());
        model.workloads = vec![WorkloadKind::Chat, WorkloadKind::Tool];
        Ok(vec![model])
    }

    async fn stream(&self, request: LlmRequest) -> Result<PieceStream> {
        let model = request.model.as_ref().map_or_else(|| self.model.clone(), |it| it.0.clone());
        let asked = PluginRequest::new(Some(model), to_plugin_task(&request));
        let limits = PluginLimits {
            time: request.timeouts.overall,
            answer_bytes: request.max_answer_bytes.max(1),
            ..PluginLimits::for_task(&asked.task)
        };
        let response = self.command.ask(&asked, request.privacy_mode, limits).await?;
        let mut pieces = Vec::new();
        let finish = match (response.tool_call, response.final_answer) {
            (Some(call), _) => {
                let rounds = request.messages.iter().filter(|it| it.role == Role::Tool).count();
                let id = format!("call-{}", rounds + 1);
                pieces.push(AnswerPiece::Call(ToolCall { id, name: call.name, arguments_json: call.args.to_string() }));
                FinishReason::ToolCalls
            }
            (None, end) => {
                pieces.push(AnswerPiece::Text(end.unwrap_or_default().answer));
                FinishReason::Stop
            }
        };
        pieces.push(AnswerPiece::Done { finish, usage: Usage::default() });
        Ok(futures::stream::iter(pieces.into_iter().map(Ok)).boxed())
    }
}

fn to_plugin_task(request: &LlmRequest) -> PluginTask {
    let last = request.messages.iter().rposition(|it| it.role == Role::User);
    let said = |it: &&Message| it.role != Role::Tool && !it.content.is_empty();
    let before = request.messages[..last.unwrap_or_default()].iter().filter(said).map(|it| it.content.as_str());
    let asked = last.map_or("", |it| request.messages[it].content.as_str());
    let parts: Vec<&str> =
        std::iter::once(request.system.as_str()).chain(before).chain([asked]).filter(|it| !it.is_empty()).collect();
    PluginTask::ToolLoopStep {
        question: parts.join("\n\n"),
        schema: SchemaHints::default(),
        tools: request.tools.iter().map(ToolOffer::from).collect(),
        transcript: transcript(&request.messages),
        refused: None,
    }
}

/// Returns the tool calls in a conversation that have a result, with their results.
fn transcript(messages: &[Message]) -> Vec<TranscriptStep> {
    let calls = messages.iter().flat_map(|it| &it.tool_calls);
    let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let result = |call: &ToolCall| {
        let it = messages.iter().find(|it| it.answers.as_ref().is_some_and(|(id, _)| *id == call.id))?;
        Some(TranscriptStep { tool: call.name.clone(), args: json(&call.arguments_json), result: json(&it.content) })
    };
    calls.filter_map(result).collect()
}
