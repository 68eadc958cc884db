//! The plugin protocol `axiograph_llm_plugin_v2` and `_v3`: a command that reads one JSON request from its standard input
//! and writes one JSON response to its standard output.
//!
//! [`PluginCommand`] runs a plugin; its module documents limits and isolation. The command is not trusted: the caller must
//! check its output.

mod command;
mod seccomp;
mod process;
mod protocol;
mod integrity;

pub use crate::llm::plugin::integrity::HashedFile;
pub use command::{PluginCommand, PluginLimits};
pub use protocol::{
    FinalAnswer, PROTOCOL_V2, PROTOCOL_V3, PluginRequest, PluginResponse, PluginTask, SchemaHintUpdate, SchemaHints,
    ToolInvocation, ToolOffer, TranscriptStep,
};
