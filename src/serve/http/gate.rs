//! What every request of the TCP port has to pass, in this order: host and origin (403), the key (401), the rate (429).
//! Nothing of the body is read before.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tonic::Status;

use crate::error::{Error, ErrorCode};
use crate::serve::guard;
use crate::serve::http::refusal::Refusal;
use crate::serve::http::{Shared, is_grpc};

/// Who sent the request; put there by the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Lets a request through to its handler, or says why not.
pub(crate) async fn gate(State(bridge): Shared, request: Request, next: Next) -> Response {
    if let Some(reason) = guard::refusal(request.uri(), request.headers(), bridge.remote) {
        tracing::warn!(reason, "refused a request");
        let refusal = Refusal::from(Error::new(ErrorCode::PermissionDenied, reason));
        return match is_grpc(&request) {
            true => forbidden_grpc(reason),
            false => refusal.into_response(),
        };
    }
    let path = request.uri().path();
    if !is_open(path) && bridge.key.as_ref().is_some_and(|key| !key.opens(request.headers())) {
        return match is_grpc(&request) {
            true => Status::unauthenticated("this daemon asks for a key: send it as `authorization: Bearer KEY`")
                .into_http::<axum::body::Body>(),
            false => Refusal::key().into_response(),
        };
    }
    if path.starts_with("/v1/") {
        let peer = request.extensions().get().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |Peer(it)| *it);
        if let Err(wait) = bridge.window.admit(peer, Instant::now()) {
            return Refusal::rate(bridge.window.limit(), wait).into_response();
        }
    }
    next.run(request).await
}

/// The paths that tell nothing of the files.
fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/health" | "/openapi.json")
}

/// A gRPC client reads its own status; a browser in between reads 403.
fn forbidden_grpc(reason: &'static str) -> Response {
    let mut response = Status::permission_denied(reason).into_http::<axum::body::Body>();
    *response.status_mut() = axum::http::StatusCode::FORBIDDEN;
    response
}
