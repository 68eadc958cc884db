//! Runs the tool calls that a plugin makes during an answer task: the read-only tools of an agent, with validated arguments,
//! and a limited number of calls.
//!
//! A plugin with version 3 of the protocol may call a tool if the rows are not enough for an answer. The plugin then gets
//! tool loop steps, with the rows as the first result, until it answers. A plugin with only version 2 never calls a tool and
//! is not affected.

use crate::agent::reasoner_handle::ReasonerHandle;
use crate::agent::sanitize::sanitize;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::RegisteredTools;
use crate::llm::plugin::{PluginResponse, PluginTask, SchemaHints, ToolInvocation, ToolOffer, TranscriptStep};

/// Maximum number of tool calls of a plugin for one answer; one more call fails the task.
const MAX_CALLS: usize = 8;

/// The tools, question and schema of one answer task of a plugin.
pub(super) struct PluginTools<'a> {
    pub(super) tools: &'a RegisteredTools,
    pub(super) question: &'a str,
    pub(super) schema: &'a SchemaHints,
}

impl PluginTools<'_> {
    /// Runs the tool calls of a plugin until it answers. `ran` is the call that gave the rows of the answer task.
    ///
    /// # Errors
    /// `ResourceExhausted` after too many calls, and errors of the plugin.
    pub(super) async fn answer_calls(
        &self,
        thinker: &mut ReasonerHandle<'_>,
        mut response: PluginResponse,
        ran: TranscriptStep,
    ) -> Result<String> {
        let mut transcript = vec![ran];
        for _call in 0..=MAX_CALLS {
            let Some(call) = response.tool_call.take() else {
                let end = response.final_answer.map(|it| it.answer).or(response.answer);
                return Ok(sanitize(&end.unwrap_or_default()));
            };
            if transcript.len() > MAX_CALLS {
                break;
            }
            transcript.push(self.run_call(call, thinker.notes).await);
            let task = PluginTask::ToolLoopStep {
                question: self.question.into(),
                schema: self.schema.clone(),
                tools: self.tools.bindings().iter().map(ToolOffer::from).collect(),
                transcript: transcript.clone(),
                refused: None,
            };
            response = thinker.think(task).await?;
        }
        let text = format!("no answer after {MAX_CALLS} tool calls");
        Err(Error::new(ErrorCode::ResourceExhausted, text).hint("`vic llm agent --max-steps NUMBER` allows more"))
    }

    async fn run_call(&self, call: ToolInvocation, notes: &mut Vec<String>) -> TranscriptStep {
        let ToolInvocation { name, args } = call;
        let shown: String = name.chars().take(60).collect();
        let result = match self.tools.run(&name, args.clone()).await {
            Ok(result) => {
                notes.push(sanitize(&format!("the plugin searched with '{shown}'")));
                result
            }
            Err(error) => {
                notes.push(sanitize(&format!("tool '{shown}' was not run or failed: {}", error.message)));
                error.payload()
            }
        };
        TranscriptStep { tool: name, args, result }
    }
}
