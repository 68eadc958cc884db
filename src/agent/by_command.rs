//! A command as a reasoner: vic is the host of a plugin.

use std::time::Duration;

use async_trait::async_trait;

use crate::agent::reasoner::Reasoner;
use crate::agent::room::Room;
use crate::error::Result;
use crate::llm::plugin::{PluginCommand, PluginLimits, PluginRequest, PluginResponse, PluginTask};
use crate::model::PrivacyMode;

/// Bytes of a request around its task.
const ENVELOPE_BYTES: usize = 256;

/// A plugin.
pub(super) struct ByCommand {
    pub(super) command: PluginCommand,
    pub(super) mode: PrivacyMode,
    pub(super) time: Duration,
}

impl ByCommand {
    fn limits(&self, task: &PluginTask) -> PluginLimits {
        PluginLimits { time: self.time, ..PluginLimits::of(task) }
    }
}

#[async_trait]
impl Reasoner for ByCommand {
    fn name(&self) -> String {
        self.command.shown()
    }

    async fn room(&self, request: &PluginRequest) -> Room {
        // Name of the protocol and of the model stand around the task.
        let around = ENVELOPE_BYTES + request.model.as_ref().map_or(0, String::len) * 2;
        Room::Bytes(self.limits(&request.task).request_bytes.saturating_sub(around))
    }

    async fn think(&self, request: &PluginRequest) -> Result<PluginResponse> {
        self.command.ask(request, self.mode, self.limits(&request.task)).await
    }
}
