//! The messages of the plugin protocol: the request that vic sends to a plugin, and the plugin's response, both as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};
use crate::llm::plugin::shape::Expected;
use crate::model::ToolSpec;
use crate::model::llm::request::MAX_MODEL_NAME;

/// Name of the protocol version for questions, answers and proposals.
pub const PROTOCOL_V2: &str = "axiograph_llm_plugin_v2";
/// Name of the protocol version for single steps of a tool loop.
pub const PROTOCOL_V3: &str = "axiograph_llm_plugin_v3";

/// Maximum number of characters of a plugin's error, or of a parse error, that an error message quotes.
const MAX_ERROR_CHARS: usize = 500;

/// A request to a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginRequest {
    /// [`PROTOCOL_V2`] or [`PROTOCOL_V3`], depending on the task.
    pub protocol: String,
    /// Name of the model that the plugin should use; `None` leaves the choice to the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the plugin should do.
    pub task: PluginTask,
}

/// The tasks that a plugin can be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PluginTask {
    /// Turn a question into a graph query.
    ToQuery {
        /// The question of the user.
        question: String,
        /// Names of types, relations and more that a graph query may use.
        #[serde(default)]
        schema: SchemaHints,
    },
    /// Answer a question from the result rows of a graph query.
    Answer {
        /// The question of the user.
        question: String,
        /// The query whose rows are in `results`.
        query: Value,
        /// The result of the query: `vars`, `rows` and `truncated`.
        results: Value,
    },
    /// Propose additions to a set of proposals.
    AugmentProposals {
        /// The content of a `proposals.json` file.
        proposals: Value,
        /// Truncated texts that are evidence for the proposals, by chunk id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence_chunks: Option<BTreeMap<String, String>>,
        /// Maximum number of proposals to add.
        max_new_proposals: u32,
    },
    /// Take the next step of a tool loop.
    ToolLoopStep {
        /// The question of the user.
        question: String,
        /// Names of types, relations and more that a graph query may use.
        #[serde(default)]
        schema: SchemaHints,
        /// The tools that the plugin may call.
        #[serde(default)]
        tools: Vec<ToolOffer>,
        /// Tool calls of earlier steps, with their results.
        #[serde(default)]
        transcript: Vec<TranscriptStep>,
        /// The latest answer of this loop, if it was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<RefusedAnswer>,
    },
}

/// Names in a snapshot of the graph. The lists are truncated for large snapshots, so they are only hints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchemaHints {
    /// Names of entity types.
    pub types: Vec<String>,
    /// Names of relations.
    pub relations: Vec<String>,
    /// Names of schemas.
    pub schemas: Vec<String>,
    /// Names of relations with their fields.
    pub relation_signatures: Vec<String>,
    /// Constraints on relations.
    pub relation_constraints: Vec<String>,
    /// Names of contexts in which facts of the graph hold.
    pub contexts: Vec<String>,
    /// Names of times at which facts of the graph hold.
    pub times: Vec<String>,
}

impl SchemaHints {
    /// Truncates each list to at most `most` names.
    #[must_use]
    pub fn truncate(mut self, most: usize) -> SchemaHints {
        for names in [
            &mut self.types,
            &mut self.relations,
            &mut self.schemas,
            &mut self.relation_signatures,
            &mut self.relation_constraints,
            &mut self.contexts,
            &mut self.times,
        ] {
            names.truncate(most);
        }
        self
    }
}

/// The description of a tool that a plugin may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolOffer {
    /// Name of the tool.
    pub name: String,
    /// What the tool does.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the tool's arguments.
    #[serde(default)]
    pub args_schema: Value,
}

impl From<&ToolSpec> for ToolOffer {
    fn from(it: &ToolSpec) -> ToolOffer {
        ToolOffer { name: it.name.clone(), description: it.description.clone(), args_schema: it.parameters.clone() }
    }
}

/// A tool call of an earlier step, with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranscriptStep {
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    pub args: Value,
    /// The result of the call; `{"error": ...}` if it failed.
    pub result: Value,
}

/// An answer that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedAnswer {
    /// Text of the answer.
    pub answer: String,
    /// The sources that the answer names.
    #[serde(default)]
    pub citations: Vec<String>,
    /// Why the answer was refused, as the rest of a sentence that begins with the answer.
    pub reason: String,
}

/// The response of a plugin. The task determines which fields are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginResponse {
    /// A graph query as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_ir_v1: Option<Value>,
    /// A graph query as AxQL text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axql: Option<String>,
    /// The answer to the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Proposals to add.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added_proposals: Vec<Value>,
    /// Hints that assign schemas to proposals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schema_hint_updates: Vec<SchemaHintUpdate>,
    /// A tool that vic should call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolInvocation>,
    /// The final answer, which ends a tool loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_answer: Option<FinalAnswer>,
    /// Remarks of the plugin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why the plugin failed; the other fields are then ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A hint that assigns a schema to a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaHintUpdate {
    /// Id of the proposal.
    pub proposal_id: String,
    /// Name of the schema to assign.
    pub schema_hint: String,
}

/// A tool call that a plugin requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolInvocation {
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call.
    #[serde(default = "no_arguments")]
    pub args: Value,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The final answer, which ends a tool loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalAnswer {
    /// Text of the answer.
    pub answer: String,
    /// The sources of the answer: ids from tool results.
    #[serde(default)]
    pub citations: Vec<String>,
    /// Queries that the plugin says it used for the answer.
    #[serde(default)]
    pub queries: Vec<String>,
    /// Remarks of the plugin.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl PluginTask {
    /// Returns the name of the protocol version that has this task.
    pub fn protocol(&self) -> &'static str {
        match self {
            PluginTask::ToolLoopStep { .. } => PROTOCOL_V3,
            _ => PROTOCOL_V2,
        }
    }

    /// Returns the name of the task in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            PluginTask::ToQuery { .. } => "to_query",
            PluginTask::Answer { .. } => "answer",
            PluginTask::AugmentProposals { .. } => "augment_proposals",
            PluginTask::ToolLoopStep { .. } => "tool_loop_step",
        }
    }

    /// Returns what the response to this task must have.
    pub(super) fn expected(&self) -> Expected {
        let fields: &[&str] = match self {
            PluginTask::ToQuery { .. } => &["query_ir_v1", "axql"],
            // A plugin of version 3 may call a tool before it answers.
            PluginTask::Answer { .. } => &["answer", "tool_call", "final_answer"],
            PluginTask::AugmentProposals { .. } => &["added_proposals", "schema_hint_updates"],
            PluginTask::ToolLoopStep { .. } => &["tool_call", "final_answer"],
        };
        let may_be_empty = matches!(self, PluginTask::AugmentProposals { .. });
        Expected { task: self.kind(), fields, may_be_empty }
    }
}

impl PluginRequest {
    /// Creates the request for a task. An empty model name counts as no model.
    pub fn new(model: Option<String>, task: PluginTask) -> PluginRequest {
        let model = model.filter(|it| !it.is_empty());
        PluginRequest { protocol: task.protocol().into(), model, task }
    }

    /// Parses a request, for a program that acts as a plugin.
    ///
    /// # Errors
    /// `InvalidArgument`: the text is not a request, its protocol does not have its task, or its model name is too long.
    pub fn parse(text: &str) -> Result<PluginRequest> {
        let request: PluginRequest = serde_json::from_str(text)
            .map_err(|error| Error::invalid(format!("the text is not a request of the plugin protocol: {error}")))?;
        if let Some(bytes) = request.model.as_ref().map(String::len).filter(|it| *it > MAX_MODEL_NAME) {
            let text = format!("`model` has {bytes} bytes; at most {MAX_MODEL_NAME} are allowed");
            return Err(Error::invalid(text).field("model"));
        }
        // Accepts v3 for every task, because it is a later version of v2.
        let fits = request.protocol == PROTOCOL_V3 || request.protocol == request.task.protocol();
        match fits {
            true => Ok(request),
            false => Err(Error::invalid(format!(
                "the protocol `{}` has no task `{}`",
                request.protocol.chars().take(60).collect::<String>(),
                request.task.kind()
            ))
            .hint(format!("use `{}`", request.task.protocol()))
            .field("protocol")),
        }
    }
}

impl PluginResponse {
    /// Creates the response that reports an error.
    pub fn failed(error: &Error) -> PluginResponse {
        PluginResponse { error: Some(error.message.clone()), ..PluginResponse::default() }
    }

    /// Parses a response and checks that it answers the task. `who` names the plugin in errors.
    ///
    /// # Errors
    /// `FailedPrecondition`: the value is not a response, reports an error, or lacks a field that the task requires. The
    /// message says what came and what was expected.
    pub fn parse(value: Value, task: &PluginTask, who: &str) -> Result<PluginResponse> {
        let wrong = |what: String| Err(Error::new(ErrorCode::FailedPrecondition, format!("{who} {what}")));
        let failed = |error: &str| wrong(format!("failed: {}", truncate_error(error)));
        let expected = task.expected();
        if let Some(other) = expected.describe_other(&value) {
            return wrong(format!("sent {other}, but {}", expected.sentence()));
        }
        // Accepts the error of a model server that a plugin passes on: `{"error": {"message": ...}}`.
        if let Some(error) = value["error"]["message"].as_str() {
            return failed(error);
        }
        let response: PluginResponse = match serde_path_to_error::deserialize(value) {
            Ok(response) => response,
            Err(error) => {
                // Truncates the message, because it quotes the invalid value, which may be long.
                let error = truncate_error(&error.to_string());
                return wrong(format!("sent a response with a wrong field: {error}; {}", expected.sentence()));
            }
        };
        match &response.error {
            Some(error) => failed(error),
            None => Ok(response),
        }
    }
}

fn truncate_error(text: &str) -> String {
    text.chars().take(MAX_ERROR_CHARS).collect()
}

#[cfg(test)]
mod tests;
