//! Model Context Protocol: the API for language models.
//!
//! [`tools`] and [`resources`] use a [`backend`]: the daemon's services (streamable HTTP at `/mcp`), or
//! [`crate::client::Client`] (`vic mcp`, over standard input and output). Results are short, because models pay for every
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
