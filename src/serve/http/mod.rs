//! HTTP API for programs without gRPC, on the same TCP port: thin adapters over [`crate::serve::Service`], JSON in and out.
//!
//! [`router()`] lists the paths. Every request first passes [`auth`]: host and origin, then the key, then the rate limit.
//! [`auth`] adds the `AuthorizedService` to the request, the only way for a handler to reach a service. [`body`] checks sizes
//! and types of bodies, [`crate::serve::validate`] checks values, the service does the rest. Every error response is an
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
pub(crate) mod openapi;
mod rate_limit;
mod revocation;
mod router;
mod sse;
mod state;
mod table;
#[cfg(test)]
mod tests;

pub(in crate::serve) use crate::serve::http::router::router;
pub(in crate::serve) use crate::serve::http::state::HttpState;
