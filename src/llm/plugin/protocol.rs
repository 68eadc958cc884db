//! The messages of the protocol, letter for letter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};
use crate::model::ToolSpec;
use crate::model::llm::request::MAX_MODEL;

/// Name of the protocol of questions, answers and proposals.
pub const V2: &str = "axiograph_llm_plugin_v2";
/// Name of the protocol of single steps of a tool loop.
pub const V3: &str = "axiograph_llm_plugin_v3";

/// Characters that are passed on of a plugin's own error, and of what is wrong with its answer.
const SHOWN: usize = 500;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginRequest {
    /// [`V2`] or [`V3`], as the task has it.
    pub protocol: String,
    /// The model that the plugin is to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What is to be done.
    pub task: PluginTask,
}

/// What a plugin can be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PluginTask {
    /// Turn a question into a query.
    ToQuery {
        /// The question.
        question: String,
        /// What there is to ask for.
        #[serde(default)]
        schema: SchemaHints,
    },
    /// Turn the rows of a query into an answer.
    Answer {
        /// The question.
        question: String,
        /// The query that was run.
        query: Value,
        /// Its `vars`, `rows` and `truncated`.
        results: Value,
    },
    /// Add to proposals.
    AugmentProposals {
        /// A whole `proposals.json`.
        proposals: Value,
        /// Texts that the proposals rest on, by chunk, cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence_chunks: Option<BTreeMap<String, String>>,
        /// Most proposals to add.
        max_new_proposals: u32,
    },
    /// Take the next step of a tool loop.
    ToolLoopStep {
        /// The question.
        question: String,
        /// What there is to ask for.
        #[serde(default)]
        schema: SchemaHints,
        /// The tools that may be called.
        #[serde(default)]
        tools: Vec<ToolOffer>,
        /// What was called so far, and what came of it.
        #[serde(default)]
        transcript: Vec<TranscriptStep>,
    },
}

/// What a snapshot holds, by name. Cut for large ones: hints, not the truth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchemaHints {
    /// Types of entities.
    pub types: Vec<String>,
    /// Relations.
    pub relations: Vec<String>,
    /// Schemas.
    pub schemas: Vec<String>,
    /// Relations with their fields.
    pub relation_signatures: Vec<String>,
    /// What holds of relations.
    pub relation_constraints: Vec<String>,
    /// Contexts.
    pub contexts: Vec<String>,
    /// Times.
    pub times: Vec<String>,
}

impl SchemaHints {
    /// The same with at most so many names of each kind.
    #[must_use]
    pub fn cut(mut self, most: usize) -> SchemaHints {
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

/// A tool as a plugin is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolOffer {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments.
    #[serde(default)]
    pub args_schema: Value,
}

impl From<&ToolSpec> for ToolOffer {
    fn from(it: &ToolSpec) -> ToolOffer {
        ToolOffer { name: it.name.clone(), description: it.description.clone(), args_schema: it.parameters.clone() }
    }
}

/// A call and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranscriptStep {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
    /// What it gave; `{"error": ...}` when it failed.
    pub result: Value,
}

/// A response. Which fields are there depends on the task; others are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginResponse {
    /// A typed query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_ir_v1: Option<Value>,
    /// A query as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axql: Option<String>,
    /// An answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Proposals to add.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added_proposals: Vec<Value>,
    /// Where proposals belong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schema_hint_updates: Vec<SchemaHintUpdate>,
    /// A tool to call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolInvocation>,
    /// The end of a tool loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_answer: Option<FinalAnswer>,
    /// Anything worth knowing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why it failed; then nothing else counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Where a proposal belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaHintUpdate {
    /// The proposal.
    pub proposal_id: String,
    /// Its schema.
    pub schema_hint: String,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolInvocation {
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default = "no_arguments")]
    pub args: Value,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The end of a tool loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalAnswer {
    /// The answer.
    pub answer: String,
    /// What it rests on: ids out of results.
    #[serde(default)]
    pub citations: Vec<String>,
    /// Queries that were run for it.
    #[serde(default)]
    pub queries: Vec<String>,
    /// Anything worth knowing.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl PluginTask {
    /// The protocol that has this task.
    pub fn protocol(&self) -> &'static str {
        match self {
            PluginTask::ToolLoopStep { .. } => V3,
            _ => V2,
        }
    }

    /// Its name on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            PluginTask::ToQuery { .. } => "to_query",
            PluginTask::Answer { .. } => "answer",
            PluginTask::AugmentProposals { .. } => "augment_proposals",
            PluginTask::ToolLoopStep { .. } => "tool_loop_step",
        }
    }
}

impl PluginRequest {
    /// The request for a task.
    pub fn new(model: Option<String>, task: PluginTask) -> PluginRequest {
        let model = model.filter(|it| !it.is_empty());
        PluginRequest { protocol: task.protocol().into(), model, task }
    }

    /// Reads a request that a host sent.
    ///
    /// # Errors
    /// `InvalidArgument`: it is no request, or of another protocol, or names a model at too great a length.
    pub fn parse(text: &str) -> Result<PluginRequest> {
        let request: PluginRequest = serde_json::from_str(text)
            .map_err(|error| Error::invalid(format!("it is no request of the plugin protocol: {error}")))?;
        if let Some(bytes) = request.model.as_ref().map(String::len).filter(|it| *it > MAX_MODEL) {
            let text = format!("`model` has {bytes} bytes, and may have {MAX_MODEL}");
            return Err(Error::invalid(text).field("model"));
        }
        // v3 is a later version of the same, so that its name may stand before any task.
        let fits = request.protocol == V3 || request.protocol == request.task.protocol();
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
    /// The response that a failure is.
    pub fn failed(error: &Error) -> PluginResponse {
        PluginResponse { error: Some(error.message.clone()), ..PluginResponse::default() }
    }

    /// Reads a response and says whether it answers the task. `who` is named in errors.
    ///
    /// # Errors
    /// `FailedPrecondition`: it is no response, says that it failed, or holds nothing that the task asks for.
    pub fn parse(value: Value, task: &PluginTask, who: &str) -> Result<PluginResponse> {
        let wrong = |what: String| Err(Error::new(ErrorCode::FailedPrecondition, format!("{who} {what}")));
        if !value.is_object() {
            return wrong("answered with no JSON object".into());
        }
        let response: PluginResponse = match serde_path_to_error::deserialize(value) {
            Ok(response) => response,
            Err(error) => {
                // It holds the value that does not fit, however long that is.
                let error: String = error.to_string().chars().take(SHOWN).collect();
                return wrong(format!("answered with something else than the protocol has: {error}"));
            }
        };
        if let Some(error) = &response.error {
            return wrong(format!("failed: {}", error.chars().take(SHOWN).collect::<String>()));
        }
        let missing = match task {
            PluginTask::ToQuery { .. } if response.query_ir_v1.is_none() && response.axql.is_none() => {
                "`query_ir_v1` nor `axql`"
            }
            // Whoever knows the third version may look further first.
            PluginTask::Answer { .. }
                if response.answer.is_none() && response.tool_call.is_none() && response.final_answer.is_none() =>
            {
                "an `answer`"
            }
            PluginTask::ToolLoopStep { .. } if response.tool_call.is_none() && response.final_answer.is_none() => {
                "`tool_call` nor `final_answer`"
            }
            _ => return Ok(response),
        };
        wrong(format!("gave no {}", missing.replace("nor", "and no")))
    }
}

#[cfg(test)]
mod tests;
