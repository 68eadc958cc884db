//! Reasoner that runs a plugin: a command that gets the task as JSON and prints the response.

use std::time::Duration;

use async_trait::async_trait;

use crate::agent::limits::ContextBudget;
use crate::agent::reasoners::Reasoner;
use crate::error::Result;
use crate::llm::plugin::{PluginCommand, PluginLimits, PluginRequest, PluginResponse, PluginTask};
use crate::model::{PrivacyMode, Redaction};

/// Bytes reserved for the fields of a request other than its task and its model.
const ENVELOPE_BYTES: usize = 256;

/// A reasoner that runs a plugin command.
pub(in crate::agent) struct CommandReasoner {
    pub(in crate::agent) command: PluginCommand,
    pub(in crate::agent) mode: PrivacyMode,
    pub(in crate::agent) time: Duration,
    pub(in crate::agent) redaction: Redaction,
}

impl CommandReasoner {
    fn limits(&self, task: &PluginTask) -> PluginLimits {
        PluginLimits { time: self.time, ..PluginLimits::for_task(task) }
    }
}

#[async_trait]
impl Reasoner for CommandReasoner {
    fn name(&self) -> String {
        self.command.command_line()
    }

    fn redaction(&self) -> Redaction {
        self.redaction
    }

    async fn context_budget(&self, request: &PluginRequest) -> ContextBudget {
        // The task must leave space for the other fields of the request: the names of the protocol and of the model.
        let around = ENVELOPE_BYTES + request.model.as_ref().map_or(0, String::len) * 2;
        ContextBudget::Bytes(self.limits(&request.task).request_bytes.saturating_sub(around))
    }

    async fn run_task(&self, request: &PluginRequest) -> Result<PluginResponse> {
        self.command.ask(request, self.mode, self.limits(&request.task)).await
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::agent::context_budget::fit_request;

    /// Returns the answer of a plugin that counts the lines with `Zk3v` in its request.
    async fn counted(redaction: Redaction) -> Option<String> {
        let script = r#"printf '{"answer": "%s"}' $(grep -c Zk3v)"#;
        let command = PluginCommand::find("sh", vec!["-c".into(), script.into()], Path::new("/")).unwrap();
        let plugin = CommandReasoner { command, mode: PrivacyMode::LocalOnly, time: Duration::from_secs(9), redaction };
        let task = PluginTask::Answer {
            question: "who has the token \"Zk3vQ9mX2pLr8TnB5wYs\"?".into(),
            query: json!({}),
            results: json!({ "vars": ["?x"], "rows": [{ "?x": { "api_key": "Zk3vQ9mX2pLr8TnB5wYs" } }] }),
        };
        let (request, _) = fit_request(&plugin, PluginRequest::new(None, task)).await.unwrap();
        plugin.run_task(&request).await.unwrap().answer
    }

    // Case E13
    #[tokio::test]
    async fn plugin_request_is_redacted_unless_disabled() {
        assert_eq!(counted(Redaction::Keys).await.as_deref(), Some("0"));
        assert_eq!(counted(Redaction::None).await.as_deref(), Some("1"));
    }
}
