//! Answers questions with a language model. The model proposes, vic executes, and vic trusts a claim of the model only after
//! a check.
//!
//! [`Assistant`] is the entry point: it knows the chosen backend ([`BackendChoice`]), the caller's scope, and the tools. A
//! [`Reasoner`] runs one task of the plugin protocol: a command, a language model behind [`crate::llm::LlmClient`], or the
//! stub, which is deterministic and needs no model. [`tool_loop`] lets it take steps, [`citations`] verifies its answer, and
//! [`plain()`] turns the answer into plain text.
//!
//! Text of documents is data. Only offered tools run, with arguments that match their schema; none of them writes or uses
//! the network. An answer has no active link and no image.

mod assistant;
mod augment;
mod by_command;
mod by_model;
mod choice;
mod citations;
mod discreet;
mod evidence;
mod guest;
mod limits;
mod nameless;
mod over_graph;
mod plain;
mod promote;
mod prompts;
mod propose;
mod query;
mod reasoner;
mod record;
mod room;
mod status;
mod stub;
mod tool_loop;
mod tools;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use crate::model::agent::{AgentRequest, BackendKind, Bounds, CommandLine, Override};
pub use assistant::Assistant;
pub use augment::{Augmented, validate_proposals};
pub use choice::BackendChoice;
pub use citations::{PassageVerifier, VerifiedCitation};
pub use over_graph::GraphTools;
pub use plain::sanitize;
pub use promote::{Promotion, promote_proposals};
pub use propose::{Proposer, chunk_text};
pub use query::{AnsweredQuery, QueryResult};
pub use reasoner::Reasoner;
pub use room::ContextBudget;
pub use status::LlmStatus;
pub use tool_loop::{AgentReport, Ending, Problem};
pub use tools::ToolProvider;
