//! What a plugin may ask of vic while it does a task: the tools that an agent has, which read and do nothing else, with
//! checked arguments, so many times.
//!
//! A plugin of the protocol's third version that is to tell rows in words may find that they say too little, and name a tool
//! instead. It is then asked on as in a tool loop, with the rows as its first result, until it answers. One that only knows
//! the second version never does so, and notices nothing.

use serde_json::{Value, json};

use crate::agent::plain::plain;
use crate::agent::query::{RUN, Thinker};
use crate::error::{Error, ErrorCode, Result};
use crate::llm::RegisteredTools;
use crate::llm::plugin::{PluginResponse, PluginTask, SchemaHints, ToolInvocation, ToolOffer, TranscriptStep};

/// Calls that a plugin may make for one answer.
const MOST_CALLS: usize = 8;

/// A plugin that was asked for an answer.
pub(super) struct Guest<'a> {
    pub(super) tools: &'a RegisteredTools,
    pub(super) question: &'a str,
    pub(super) schema: &'a SchemaHints,
}

impl Guest<'_> {
    /// Serves the calls of a plugin until it answers. `query` and `results` are what it was asked with.
    ///
    /// # Errors
    /// `ResourceExhausted`: it calls and calls; and whatever it fails with.
    pub(super) async fn served(
        &self,
        thinker: &mut Thinker<'_>,
        mut response: PluginResponse,
        query: &Value,
        results: &Value,
    ) -> Result<String> {
        let mut transcript =
            vec![TranscriptStep { tool: RUN.into(), args: json!({ "axql": query["axql"] }), result: results.clone() }];
        for _call in 0..=MOST_CALLS {
            let Some(call) = response.tool_call.take() else {
                let end = response.final_answer.map(|it| it.answer).or(response.answer);
                return Ok(plain(&end.unwrap_or_default()));
            };
            if transcript.len() > MOST_CALLS {
                break;
            }
            transcript.push(self.run(call, thinker.notes).await);
            let task = PluginTask::ToolLoopStep {
                question: self.question.into(),
                schema: self.schema.clone(),
                tools: self.tools.bindings().iter().map(ToolOffer::from).collect(),
                transcript: transcript.clone(),
            };
            response = thinker.think(task).await?;
        }
        let text = format!("the answer was not there after {MOST_CALLS} calls of tools");
        Err(Error::new(ErrorCode::ResourceExhausted, text).hint("`vic llm agent` allows more: --max-steps"))
    }

    async fn run(&self, call: ToolInvocation, notes: &mut Vec<String>) -> TranscriptStep {
        let ToolInvocation { name, args } = call;
        let shown: String = name.chars().take(60).collect();
        let result = match self.tools.run(&name, args.clone()).await {
            Ok(result) => {
                notes.push(plain(&format!("it searched with '{shown}'")));
                result
            }
            Err(error) => {
                notes.push(plain(&format!("'{shown}' was not run or failed: {}", error.message)));
                error.payload()
            }
        };
        TranscriptStep { tool: name, args, result }
    }
}
