//! The gRPC, HTTP and MCP servers of the daemon.
//!
//! [`Service`] is the whole API of the daemon in plain Rust. [`run`] serves it on a Unix socket (gRPC, for the command
//! line) and on one TCP port (gRPC, HTTP and MCP, for apps). The protocol adapters only check sizes; the service does
//! everything else. Wire types are used only in this module and in [`crate::client`].
//!
//! Only the user who runs the daemon may use the Unix socket. On TCP, requests need a key, and requests of web pages are
//! rejected. A request is processed in this order: `transport::listener` accepts the connection, `transport::connection`
//! serves it, `http::auth` checks host, origin and key and creates the `auth::authorized_service`, which restricts the
//! services to the scope of the caller and passes requests through `admission`.

mod admission;
mod auth;
pub(crate) mod grpc;
mod http;
pub(crate) mod mcp;
mod metrics;
mod metrics_page;
pub mod schema;
mod server;
mod service;
mod streams;
mod transport;
mod ui_service;
mod validate;

#[cfg(test)]
mod client_tests;
#[cfg(test)]
pub(crate) mod fake;

pub use crate::serve::auth::config::AccessConfig;
pub use crate::serve::server::{Listeners, run};
pub use crate::serve::service::Service;
pub use crate::serve::ui_service::UiService;
