//! HTTP API for programs without gRPC, on the same TCP port: thin adapters over [`Service`], JSON in and out.
//!
//! [`router`] lists the paths. Every request first passes the `authenticate_request`: host and origin, then the key, then the rate
//! limit. The gate adds the [`AuthorizedService`] to the request, the only way for a handler to reach a service. [`body`] checks
//! sizes and types of bodies, [`crate::serve::validate`] checks values, the service does the rest. Every error response is a
//! `refusal::ErrorResponse`. gRPC requests pass the same gate; their routes are those of the Unix socket.

mod ask;
mod body;
mod corpus;
mod files;
mod auth;
mod health;
mod index;
mod rate_limit;
mod memory_limit;
pub(crate) mod openapi;
pub(crate) mod error_response;
mod revocation;
mod sse;
mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tower::ServiceExt;

use crate::config::Config;
use crate::data_dir::keys::Grant;
use crate::error::Error;
use crate::proto::wire::{graph_server, llm_server};
use crate::serve::admission::Admission;
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::auth::origin_guard::HostNames;
use crate::serve::http::error_response::ErrorResponse;
use crate::serve::metrics::RejectionReason;
use crate::serve::{Service, mcp};

/// Shared state of the handlers.
pub(crate) struct HttpState {
    /// Unrestricted; only used to create callers.
    service: Arc<dyn Service>,
    desk: Arc<Admission>,
    shutdown: CancellationToken,
    names: HostNames,
    key_requests: rate_limit::SlidingWindow,
    /// Invalid keys by address.
    invalid_keys: rate_limit::SlidingWindow,
    /// Requests without a key, by address.
    public_requests: rate_limit::TokenBucket,
    /// Cached status for them.
    public_status: health::PublicStatusCache,
    /// Memory limit for incoming messages.
    message_budget: memory_limit::MessageBudget,
    max_body: usize,
    /// Timeout of a body.
    body_time: Duration,
    db_path: PathBuf,
    warehouse_root: Option<PathBuf>,
    vector_backend: String,
}

/// Invalid keys of one address in any 60 seconds; more are rate limited.
const MAX_INVALID_KEYS_PER_MINUTE: u32 = 30;

/// Public requests of one address per second. Unused ones are saved up as a burst, so that several monitors that start at
/// once behind one address do not block each other.
const PUBLIC_REQUESTS_PER_SECOND: u32 = 50;
const PUBLIC_REQUEST_BURST: u32 = 100;

type SharedState = State<Arc<HttpState>>;
type CallerExtension = Extension<AuthorizedService>;
type Reply = Result<Response, ErrorResponse>;

impl HttpState {
    /// Creates the state; `port` is the bound port.
    pub(crate) fn new(
        service: Arc<dyn Service>,
        desk: Arc<Admission>,
        port: u16,
        config: &Config,
        shutdown: CancellationToken,
    ) -> HttpState {
        HttpState {
            service,
            desk,
            shutdown,
            names: HostNames::new(port, config.bridge.hosts.clone()),
            key_requests: rate_limit::SlidingWindow::new(config.bridge.rate_limit_per_min),
            invalid_keys: rate_limit::SlidingWindow::new(MAX_INVALID_KEYS_PER_MINUTE),
            public_requests: rate_limit::TokenBucket::new(PUBLIC_REQUESTS_PER_SECOND, PUBLIC_REQUEST_BURST),
            public_status: health::PublicStatusCache::default(),
            message_budget: memory_limit::MessageBudget::new(config.bridge.max_body_bytes),
            max_body: config.bridge.max_body_bytes,
            body_time: body::BODY_TIMEOUT,
            db_path: config.db_path.clone(),
            warehouse_root: config.warehouse_root.clone(),
            vector_backend: config.vectors.backend.clone(),
        }
    }

    fn caller(&self, grant: Grant) -> AuthorizedService {
        AuthorizedService::new(&self.service, &self.desk, grant)
    }
}

/// Returns the router of the TCP port.
pub(crate) fn router(bridge: Arc<HttpState>, grpc: Routes) -> Router {
    let grpc = grpc.prepare().into_axum_router();
    let (messages, desk) = (bridge.message_budget.clone(), bridge.desk.clone());
    let otherwise = move |request: Request| async move {
        match is_grpc(&request) {
            true => {
                let may_be_large = may_be_large(&request);
                let refused = move || desk.metrics.count_rejection(RejectionReason::Size);
                grpc.oneshot(messages.limit_request(request, may_be_large, refused)).await.into_response()
            }
            false => ErrorResponse::from(
                Error::not_found(format!("no such path `{}`", request.uri().path())).hint("`GET /` lists the paths"),
            )
            .into_response(),
        }
    };
    let mcp = mcp::http(bridge.max_body, bridge.shutdown.clone());
    let mcp = Router::new()
        .route_service("/mcp", mcp)
        .layer(axum::middleware::from_fn_with_state(bridge.clone(), body::buffer_body));
    Router::new()
        .route("/", get(health::root))
        .route("/health", get(health::health))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::document))
        .route("/v1/ask", post(ask::ask))
        .route("/v1/search", post(ask::search))
        .route("/v1/similar", post(ask::similar))
        .route("/v1/grep", post(ask::grep))
        .route("/v1/table", post(table::table))
        .route("/v1/files", post(files::files))
        .route("/v1/read", post(files::read))
        .route("/v1/corpus/{verb}", post(corpus::call))
        .route("/v1/status", get(health::status))
        .route("/v1/sync", post(index::sync))
        .route("/v1/pause", post(index::pause))
        .route("/v1/resume", post(index::resume))
        .route("/v1/index/start", post(index::start))
        .route("/v1/index/status", get(index::status))
        .route("/v1/index/events", get(index::events))
        .merge(mcp)
        .fallback(otherwise)
        .method_not_allowed_fallback(async || ErrorResponse::method_not_allowed())
        .layer(axum::middleware::from_fn_with_state(bridge.clone(), auth::authenticate_request))
        .with_state(bridge)
}

fn is_grpc(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    kind.is_some_and(|it| it == "application/grpc" || it.starts_with("application/grpc+"))
}

/// Returns whether a request may be large: a graph of the owner, or images for a model.
fn may_be_large(request: &Request) -> bool {
    let service = request.uri().path().split('/').nth(1).unwrap_or_default();
    let is_owner = || request.extensions().get::<AuthorizedService>().is_some_and(AuthorizedService::is_owner);
    service == llm_server::SERVICE_NAME || service == graph_server::SERVICE_NAME && is_owner()
}

/// Builds a JSON response.
fn json_response(status: StatusCode, value: &impl Serialize) -> Reply {
    let text = serde_json::to_vec(value).map_err(Error::internal)?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}
