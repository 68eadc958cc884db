//! Checks each request on the TCP port in this order, and rejects it with this status: host and origin (403), key (401),
//! rate limit (429), media type (415). The body is read only after these checks. An accepted request carries its
//! [`AuthorizedService`] until the key is revoked.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::data_dir::keys::Grant;
use crate::error::{Error, ErrorCode};
use crate::model::Principal;
use crate::serve::auth::authenticator::Credential;
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::auth::origin_guard;
use crate::serve::http::error_response::ErrorResponse;
use crate::serve::http::revocation;
use crate::serve::http::state::{HttpState, SharedState};
use crate::serve::metrics::RejectionReason;
use crate::serve::transport::connection::ConnectionState;
use crate::serve::transport::listener::Peer;

/// Middleware that checks a request, and passes it to its handler or rejects it.
pub(crate) async fn authenticate_request(State(bridge): SharedState, mut request: Request, next: Next) -> Response {
    match check_request(&bridge, &request) {
        Ok(None) => next.run(request).await,
        Ok(Some(caller)) => {
            if let Some(pulse) = request.extensions().get::<Arc<ConnectionState>>() {
                pulse.set_holder(caller.holder());
            }
            let (revoked, is_grpc) = (caller.revoked(), is_grpc(&request));
            request.extensions_mut().insert(caller);
            match revoked {
                Some(revoked) => revocation::end_on_revocation(revoked, is_grpc, next.run(request)).await,
                None => next.run(request).await,
            }
        }
        Err((why, refusal)) => {
            bridge.desk.metrics.count_rejection(why);
            if is_grpc(&request) { refusal.into_grpc() } else { refusal.into_response() }
        }
    }
}

/// Returns the caller of an accepted request; `None` for a public path without a key.
fn check_request(
    bridge: &HttpState,
    request: &Request,
) -> Result<Option<AuthorizedService>, (RejectionReason, ErrorResponse)> {
    let peer: Peer = request.extensions().get().copied().unwrap_or_default();
    if let Some(reason) = origin_guard::rejection_reason(request.uri(), request.headers(), &bridge.names, peer.local) {
        let refusal = ErrorResponse::from(Error::new(ErrorCode::PermissionDenied, reason));
        return Err((RejectionReason::HostOrOrigin, refusal));
    }
    let caller = authenticate(bridge, request, peer)?;
    let path = request.uri().path();
    // Limits requests of public paths without a key, and if authentication is off, all requests of public paths.
    if is_public(path) && (caller.is_none() || bridge.desk.keys.is_none()) {
        limit_public(bridge, peer)?;
    }
    let holder = caller.as_ref().map(AuthorizedService::holder).unwrap_or_default();
    if path.starts_with("/v1/")
        && let Err(wait) = bridge.key_requests.admit(peer.address, &holder, Instant::now())
    {
        return Err((RejectionReason::Rate, ErrorResponse::rate_limited(bridge.key_requests.limit(), wait)));
    }
    if is_form_media_type(request) {
        return Err((RejectionReason::MediaType, ErrorResponse::media_type()));
    }
    Ok(caller)
}

/// Authenticates the request. A valid key is accepted even if its address has sent too many invalid keys; otherwise a
/// program with an outdated key would block valid keys behind the same proxy. Guessing a key is hopeless, because
/// [`crate::serve::AccessConfig`] requires long keys wherever other machines have access.
fn authenticate(
    bridge: &HttpState,
    request: &Request,
    peer: Peer,
) -> Result<Option<AuthorizedService>, (RejectionReason, ErrorResponse)> {
    let Some(keys) = &bridge.desk.keys else { return Ok(Some(bridge.caller(Grant::owner()))) };
    let shown = keys.authenticate(request.headers());
    if let Credential::Key(grant) = shown {
        return Ok(Some(bridge.caller(grant)));
    }
    if shown == Credential::Invalid
        && let Err(wait) = bridge.invalid_keys.admit(peer.address, &Principal::Owner, Instant::now())
    {
        return Err((RejectionReason::Rate, ErrorResponse::too_many_invalid_keys(wait)));
    }
    match is_public(request.uri().path()) {
        true => Ok(None),
        false => Err((RejectionReason::Key, ErrorResponse::unauthenticated())),
    }
}

/// Limits the rate of public requests: each is cheap, but clients without a key must not cause load.
fn limit_public(bridge: &HttpState, peer: Peer) -> Result<(), (RejectionReason, ErrorResponse)> {
    let admitted = bridge.public_requests.admit(peer.address, Instant::now());
    admitted.map_err(|wait| {
        (RejectionReason::Rate, ErrorResponse::public_rate_limited(bridge.public_requests.rate(), wait))
    })
}

/// Returns whether the body of a request has the media type of gRPC.
pub(super) fn is_grpc(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    kind.is_some_and(|it| it == "application/grpc" || it.starts_with("application/grpc+"))
}

/// Returns whether a path needs no key: only single health checks; a health stream, which stays open, needs a key.
pub(crate) fn is_public(path: &str) -> bool {
    matches!(path, "/health" | "/grpc.health.v1.Health/Check")
}

/// Returns whether the body has a media type that a web page can send, but vic's clients do not.
fn is_form_media_type(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).map(|it| it.to_str().unwrap_or("?").to_ascii_lowercase());
    kind.is_some_and(|it| {
        ["text/plain", "multipart/", "application/grpc-web", "?"].iter().any(|foreign| it.starts_with(foreign))
    })
}
