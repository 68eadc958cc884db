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
mod backend;
mod citations;
mod proposals;
mod redact;
mod citable;
mod plugin_tools;
mod limits;
mod graph_tools;
mod sanitize;
mod graph_query;
mod reasoners;
mod run_log;
mod context_budget;
mod status;
mod tool_loop;
mod tools;
#[cfg(test)]
mod test_doubles;
#[cfg(test)]
mod tests;

pub use crate::agent::backend::BackendChoice;
pub use crate::agent::context_budget::ContextBudget;
pub use crate::agent::graph_query::{AnsweredQuery, QueryResult};
pub use crate::agent::graph_tools::GraphTools;
pub use crate::agent::proposals::augment::{Augmented, validate_proposals};
pub use crate::agent::proposals::promote::{Promotion, promote_proposals};
pub use crate::agent::proposals::propose::{Proposer, chunk_text};
pub use crate::agent::reasoners::Reasoner;
pub use crate::agent::sanitize::sanitize;
pub use crate::model::agent::{AgentRequest, BackendKind, Bounds, CommandLine, Override};
pub use assistant::Assistant;
pub use citations::{PassageVerifier, VerifiedCitation};
pub use status::LlmStatus;
pub use tool_loop::{AgentReport, Ending, Problem};
pub use tools::ToolProvider;
