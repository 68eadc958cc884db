//! The plugin protocol `axiograph_llm_plugin_v2` and `_v3`: a command that reads one JSON request from its standard input
//! and writes one JSON response to its standard output.
//!
//! [`PluginCommand`] runs one; what it may take and what happens to it is in its own module. The command is not trusted:
//! what it says is a proposal, which whoever asked checks.

mod command;
mod offline;
mod process;
mod protocol;
mod seal;

pub use command::{PluginCommand, PluginLimits};
pub use protocol::{
    FinalAnswer, PluginRequest, PluginResponse, PluginTask, SchemaHintUpdate, SchemaHints, ToolInvocation, ToolOffer,
    TranscriptStep, V2, V3,
};
pub use seal::SealedFile;
