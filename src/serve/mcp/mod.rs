//! The Model Context Protocol (MCP) server: the API of vic for language models.
//!
//! [`specs`] lists the tools, [`tools`] and [`resources`] call a [`backend`]: the daemon's services for streamable HTTP at `/mcp`, or
//! [`crate::client::Client`] for `vic mcp` over standard input and output. Results are short, because models pay for each
//! token. Text from files is data, never an instruction.

mod answers;
mod arguments;
mod backend;
mod client;
mod corpus;
mod cursor;
mod outline;
mod page;
mod resources;
mod server;
mod specs;
#[cfg(test)]
mod tests;
mod tools;

pub(crate) use crate::serve::mcp::server::{http, stdio};
