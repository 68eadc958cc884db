//! Plugins: commands that answer questions by the protocol `axiograph_llm_plugin_v2` or `_v3`. A plugin reads one JSON
//! request from its standard input and writes one JSON response to its standard output.
//!
//! [`PluginCommand`] runs a plugin; its module documents the limits and the isolation. Plugins are not trusted: the caller
//! must check the content of a response.

mod command;
mod seccomp;
mod process;
mod protocol;
mod integrity;
mod shape;

pub use crate::llm::plugin::integrity::HashedFile;
pub use command::{PluginCommand, PluginLimits};
pub use protocol::{
    FinalAnswer, PROTOCOL_V2, PROTOCOL_V3, PluginRequest, PluginResponse, PluginTask, RefusedAnswer, SchemaHintUpdate,
    SchemaHints, ToolInvocation, ToolOffer, TranscriptStep,
};
