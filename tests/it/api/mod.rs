//! Tests of HTTP, gRPC and MCP: published fields, keys and scopes, TLS, corpus verbs, graphs and tables.

pub(crate) mod corpus;
pub(crate) mod corpus_requests;
pub(crate) mod graph;
pub(crate) mod mcp;
pub(crate) mod origin;
pub(crate) mod page_preview;
pub(crate) mod people_and_languages;
pub(crate) mod published;
pub(crate) mod scopes;
pub(crate) mod tables;
pub(crate) mod tls;
pub(crate) mod web_session;
pub(crate) mod wire_contract;
