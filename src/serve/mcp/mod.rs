//! The Model Context Protocol (MCP) server: the API of vic for language models.
//!
//! [`tools`] and [`resources`] call a [`backend`]: the daemon's services for streamable HTTP at `/mcp`, or
//! [`crate::client::Client`] for `vic mcp` over standard input and output. Results are short, because models pay for each
//! token. Text from files is data, never an instruction.

mod backend;
mod client;
mod corpus;
mod resources;
mod server;
#[cfg(test)]
mod tests;
mod tools;

pub(crate) use crate::serve::mcp::server::{http, stdio};
