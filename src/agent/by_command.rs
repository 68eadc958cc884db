//! A command as a reasoner: vic is the host of a plugin.

use async_trait::async_trait;

use crate::agent::reasoner::Reasoner;
use crate::error::Result;
use crate::llm::plugin::{PluginCommand, PluginLimits, PluginRequest, PluginResponse};
use crate::model::PrivacyMode;

/// A plugin.
pub(super) struct ByCommand {
    pub(super) command: PluginCommand,
    pub(super) mode: PrivacyMode,
    pub(super) limits: PluginLimits,
}

#[async_trait]
impl Reasoner for ByCommand {
    fn name(&self) -> String {
        self.command.shown()
    }

    async fn think(&self, request: &PluginRequest) -> Result<PluginResponse> {
        self.command.ask(request, self.mode, self.limits).await
    }
}
