//! Answers questions with a language model. The model proposes tool calls and answers; vic runs the calls, and shows an
//! answer only after it has checked the citations.
//!
//! [`Assistant`] is the entry point: it knows the chosen backend ([`BackendChoice`]), the caller's scope, and the
//! tools. A [`Reasoner`] runs one task of the plugin protocol. There are three: an external command, a language model
//! behind [`crate::llm::LlmClient`], and a deterministic stub that needs no model. [`tool_loop`] runs the tools that
//! the reasoner calls, [`citations`] verifies the citations of its answer, and [`sanitize()`] turns the answer into
//! plain text.
//!
//! Instructions inside documents are never followed. Only offered tools run, with arguments that match their schema; no tool
//! writes or uses the network. An answer has no active link and no image.

mod assistant;
mod backend;
mod citable;
mod citations;
mod context_budget;
mod graph_query;
mod graph_tools;
mod limits;
mod plugin_tools;
mod proposals;
mod ran_queries;
mod reasoner_handle;
mod reasoners;
mod redact;
mod run_log;
mod sanitize;
mod status;
#[cfg(test)]
mod test_doubles;
#[cfg(test)]
mod tests;
mod tool_loop;
mod tools;

pub use crate::model::agent::{AgentRequest, BackendKind, Bounds, CommandLine, Override};
pub use assistant::Assistant;
pub use backend::BackendChoice;
pub use citations::{PassageVerifier, VerifiedCitation};
pub use graph_query::{AnsweredQuery, QueryResult};
pub use graph_tools::GraphTools;
pub use limits::ContextBudget;
pub use proposals::augment::{Augmented, validate_proposals};
pub use proposals::promote::{Promotion, promote_proposals};
pub use proposals::propose::{Proposer, chunk_text};
pub use reasoners::Reasoner;
pub use sanitize::sanitize;
pub use status::LlmStatus;
pub use tool_loop::{AgentReport, Ending, Problem};
pub use tools::ToolProvider;
