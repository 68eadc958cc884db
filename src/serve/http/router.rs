//! The routes of the TCP port: HTTP, MCP and gRPC.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use tonic::service::Routes;
use tower::ServiceExt;

use crate::error::Error;
use crate::proto::wire::{graph_server, llm_server};
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::http::auth::{authenticate_request, is_grpc};
use crate::serve::http::error_response::ErrorResponse;
use crate::serve::http::state::HttpState;
use crate::serve::http::{ask, body, corpus, files, health, index, openapi, table, ui};
use crate::serve::mcp;
use crate::serve::metrics::RejectionReason;

/// Returns the router of the TCP port, with all checks of requests as layers.
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
    let mcp = mcp::http(bridge.mcp_tools, bridge.max_body, bridge.shutdown.clone());
    let mcp = Router::new().route_service("/mcp", mcp).layer(from_fn_with_state(bridge.clone(), body::buffer_body));
    Router::new()
        .route("/", get(openapi::root))
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
        .merge(ui_routes())
        .merge(mcp)
        .fallback(otherwise)
        .method_not_allowed_fallback(async || ErrorResponse::method_not_allowed())
        .layer(from_fn_with_state(bridge.clone(), authenticate_request))
        .layer(from_fn(ui::assets::add_headers))
        .with_state(bridge)
}

/// Returns the routes of the web page.
fn ui_routes() -> Router<Arc<HttpState>> {
    Router::new()
        .route("/ui", get(ui::files::redirect))
        .route("/ui/", get(ui::files::file))
        .route("/ui/{*file}", get(ui::files::file))
        .route("/ui/session", get(ui::session::get))
        .route("/ui/session", post(ui::session::open))
        .route("/ui/session/end", post(ui::session::end))
        .route("/ui/session/end_all", post(ui::session::end_all))
        .route("/ui/open", post(ui::desktop::open))
        .route("/v1/marks", post(ui::search::marks))
        .route("/v1/complete", post(ui::search::complete))
        .route("/v1/counts", post(ui::search::counts))
        .route("/v1/page", post(ui::search::page))
        .route("/v1/page/picture", get(ui::search::picture))
        .route("/v1/searches", get(ui::search::past_searches))
        .route("/v1/searches", post(ui::search::remember))
        .route("/v1/searches/remove", post(ui::search::forget))
        .route("/v1/status/events", get(ui::status_events::events))
        .route("/v1/jobs", get(ui::manage::jobs))
        .route("/v1/jobs/cancel", post(ui::manage::cancel_job))
        .route("/v1/roots", get(ui::manage::roots))
        .route("/v1/roots/check", post(ui::manage::check_root))
        .route("/v1/roots/remove", post(ui::manage::remove_root))
        .route("/v1/folders", post(ui::manage::folders))
        .route("/v1/settings", get(ui::manage::settings))
        .route("/v1/settings", post(ui::manage::change_setting))
        .route("/v1/models", get(ui::manage::models))
        .route("/v1/audit", get(ui::manage::audit))
        .route("/v1/keys", get(ui::keys::list))
        .route("/v1/keys", post(ui::keys::add))
        .route("/v1/keys/revoke", post(ui::keys::revoke))
        .route("/v1/graph", post(ui::graph::graph))
}

/// Returns whether a gRPC request may be large: a graph sent by the owner, or images sent to a model.
fn may_be_large(request: &Request) -> bool {
    let service = request.uri().path().split('/').nth(1).unwrap_or_default();
    let is_owner = || request.extensions().get::<AuthorizedService>().is_some_and(AuthorizedService::is_owner);
    service == llm_server::SERVICE_NAME || service == graph_server::SERVICE_NAME && is_owner()
}
