//! Checks each request on the TCP port in this order, and rejects it with this status: host and origin (403), session or
//! key (401), CSRF token (403), rate limit (429), media type (415). The body is read only after these checks. An accepted
//! request carries its [`AuthorizedService`] until the key is revoked or the session ends.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use crate::data_dir::keys::Grant;
use crate::error::{Error, ErrorCode};
use crate::model::Principal;
use crate::serve::auth::authenticator::Credential;
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::auth::origin_guard::{self, Sender};
use crate::serve::auth::sessions::{CSRF_HEADER, Session};
use crate::serve::http::error_response::ErrorResponse;
use crate::serve::http::revocation;
use crate::serve::http::state::{HttpState, SharedState};
use crate::serve::http::ui;
use crate::serve::metrics::RejectionReason;
use crate::serve::transport::connection::ConnectionState;
use crate::serve::transport::listener::Peer;

/// The error for a rejected request, with the reason for the metrics.
type Rejection = (RejectionReason, ErrorResponse);

/// The caller of an accepted request, and its session if it has one.
struct Caller {
    service: AuthorizedService,
    session: Option<Session>,
}

/// Middleware that checks a request, and passes it to its handler or rejects it.
pub(crate) async fn authenticate_request(State(bridge): SharedState, mut request: Request, next: Next) -> Response {
    match check_request(&bridge, &request) {
        Ok(None) => next.run(request).await,
        Ok(Some(Caller { service, session })) => {
            if let Some(pulse) = request.extensions().get::<Arc<ConnectionState>>() {
                pulse.set_holder(service.holder());
            }
            let is_grpc = is_grpc(&request);
            let ended = end_of_access(&service, session.as_ref().map(|it| it.end.clone()));
            request.extensions_mut().insert(service);
            session.map(|it| request.extensions_mut().insert(it));
            match ended {
                Some(ended) => revocation::end_on_revocation(ended, is_grpc, next.run(request)).await,
                None => next.run(request).await,
            }
        }
        Err((why, refusal)) => {
            bridge.desk.metrics.count_rejection(why);
            if is_grpc(&request) { refusal.into_grpc() } else { refusal.into_response() }
        }
    }
}

/// Returns a future that completes when the key is revoked or the session ends; `None` if neither can happen.
fn end_of_access(
    service: &AuthorizedService,
    session: Option<CancellationToken>,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    let revoked = service.revoked();
    if revoked.is_none() && session.is_none() {
        return None;
    }
    Some(async move {
        let revoked = async {
            match revoked {
                Some(it) => it.await,
                None => std::future::pending().await,
            }
        };
        let ended = async {
            match session {
                Some(it) => it.cancelled_owned().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = revoked => (),
            () = ended => (),
        }
    })
}

/// Returns the caller of an accepted request; `None` for a public path without a key, and for the files of the web page.
fn check_request(bridge: &HttpState, request: &Request) -> Result<Option<Caller>, Rejection> {
    let peer: Peer = request.extensions().get().copied().unwrap_or_default();
    let sender =
        origin_guard::check_sender(request.uri(), request.headers(), &bridge.names, peer.local).map_err(forbidden)?;
    let path = request.uri().path();
    let session = bridge.desk.sessions.find(request.headers(), bridge.port, !is_polled(path));
    if sender == Sender::OwnPage && (is_grpc(request) || path == "/mcp") {
        return Err(forbidden(origin_guard::WEB_PAGE_REJECTED));
    }
    if is_form_media_type(request) {
        return Err((RejectionReason::MediaType, ErrorResponse::media_type()));
    }
    if ui::is_open_to_all(request.method(), path) {
        match *request.method() {
            Method::POST => limit_public(bridge, peer)?,
            _ => limit_files(bridge, peer)?,
        }
        return Ok(None);
    }
    if let Some(session) = session.filter(|_| !request.headers().contains_key(header::AUTHORIZATION)) {
        return check_session(bridge, request, peer, session).map(Some);
    }
    if sender == Sender::OwnPage {
        return Err((RejectionReason::Key, ErrorResponse::no_session()));
    }
    let caller = authenticate(bridge, request, peer)?;
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
    Ok(caller.map(|service| Caller { service, session: None }))
}

/// Checks a request of the web page: it must carry the token of its session, the key of the session must still be valid, and
/// the rate is limited.
fn check_session(bridge: &HttpState, request: &Request, peer: Peer, session: Session) -> Result<Caller, Rejection> {
    let is_key_valid = bridge.desk.keys.as_ref().is_none_or(|it| it.grants(&session.grant));
    let token = request.headers().get(CSRF_HEADER).map(|it| it.as_bytes()).unwrap_or_default();
    if !is_key_valid || token.is_empty() {
        return Err((RejectionReason::Key, ErrorResponse::no_session()));
    }
    if !bool::from(token.ct_eq(session.csrf.as_bytes())) {
        return Err(forbidden("the request has not the token of its session"));
    }
    let limit = &bridge.page_requests;
    limit
        .admit(peer.address, &session.grant.holder, Instant::now())
        .map_err(|wait| (RejectionReason::Rate, ErrorResponse::page_rate_limited(limit.limit(), wait)))?;
    Ok(Caller { service: bridge.caller(session.grant.clone()), session: Some(session) })
}

/// Returns whether an open page requests a path again and again by itself.
fn is_polled(path: &str) -> bool {
    matches!(path, "/v1/status" | "/v1/status/events" | "/ui/session")
}

fn forbidden(reason: &'static str) -> Rejection {
    (RejectionReason::HostOrOrigin, ErrorResponse::from(Error::new(ErrorCode::PermissionDenied, reason)))
}

/// Authenticates the request. A valid key is accepted even if its address has sent too many invalid keys; otherwise a
/// program with an outdated key would block valid keys behind the same proxy. Guessing a key is hopeless, because
/// [`crate::serve::AccessConfig`] requires long keys wherever other machines have access.
fn authenticate(bridge: &HttpState, request: &Request, peer: Peer) -> Result<Option<AuthorizedService>, Rejection> {
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

/// Limits the rate of requests for files of the web page.
fn limit_files(bridge: &HttpState, peer: Peer) -> Result<(), Rejection> {
    let files = &bridge.page_files;
    let admitted = files.admit(peer.address, Instant::now());
    admitted.map_err(|wait| (RejectionReason::Rate, ErrorResponse::public_rate_limited(files.rate(), wait)))
}

/// Limits the rate of public requests: each is cheap, but clients without a key must not cause load.
fn limit_public(bridge: &HttpState, peer: Peer) -> Result<(), Rejection> {
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
