//! The HTTP API, on the same TCP port as gRPC: thin adapters over [`crate::serve::Service`], with JSON bodies.
//!
//! [`router()`] lists the paths. Each request first passes [`auth`]: host and origin, then the key, then the rate limit.
//! [`auth`] adds an `AuthorizedService` to the request, the only way for a handler to reach a service. [`body`] checks
//! sizes and types, [`crate::serve::validate`] checks values, the service does everything else. Each error response is an
//! [`error_response::ErrorResponse`]. gRPC requests pass the same checks; their routes are those of the Unix socket.

mod ask;
mod auth;
mod body;
mod corpus;
pub(crate) mod error_response;
mod files;
mod health;
mod index;
mod memory_limit;
mod open_streams;
pub(crate) mod openapi;
mod rate_limit;
mod revocation;
mod router;
mod sse;
mod state;
mod table;
mod ui;
#[cfg(test)]
mod tests;

pub(in crate::serve) use crate::serve::http::router::router;
pub(in crate::serve) use crate::serve::http::state::HttpState;
