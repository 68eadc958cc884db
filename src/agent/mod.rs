//! Questions that a language model and vic answer together: the model proposes, vic executes, and what the model says is
//! believed as far as it can be checked.
//!
//! [`Assistant`] is the door: it knows which backend was chosen ([`Choice`]), what the caller may see, and the tools. A
//! [`Reasoner`] does one task of the plugin protocol: a command, a language model behind [`crate::llm::LlmClient`], or the
//! stub, which needs no model and says the same every time. [`tool_loop`] lets it take steps; [`citations`] checks what its
//! answer rests on, [`plain()`] makes plain text of it.
//!
//! What a document says is data: no tool is called but those that are offered, with arguments that meet their schema; none
//! of them writes or reaches out; and an answer has no active link and no image.

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
pub use augment::{Augmented, check_proposals};
pub use choice::Choice;
pub use citations::{Cited, Witness};
pub use over_graph::GraphTools;
pub use plain::plain;
pub use promote::{Promotion, promote};
pub use propose::{Proposer, chunk_text};
pub use query::{Answered, Asked};
pub use reasoner::Reasoner;
pub use room::Room;
pub use status::LlmStatus;
pub use tool_loop::{AgentReport, Ending, Problem};
pub use tools::Tools;
