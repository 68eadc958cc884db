//! Checks every request of the TCP port, in this order: host and origin (403), key (401), rate (429), media type (415).
//! The body is not read before. An accepted request carries its [`Caller`] until the key is revoked.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::data_dir::keys::Grant;
use crate::error::{Error, ErrorCode};
use crate::model::Holder;
use crate::serve::caller::Caller;
use crate::serve::connection::Pulse;
use crate::serve::guard;
use crate::serve::http::refusal::Refusal;
use crate::serve::http::{Bridge, Shared, is_grpc, revoked};
use crate::serve::incoming::Peer;
use crate::serve::metrics::Refused;
use crate::serve::ring::Shown;

/// Middleware: passes a request to its handler, or rejects it.
pub(crate) async fn gate(State(bridge): Shared, mut request: Request, next: Next) -> Response {
    match check(&bridge, &request) {
        Ok(None) => next.run(request).await,
        Ok(Some(caller)) => {
            if let Some(pulse) = request.extensions().get::<Arc<Pulse>>() {
                pulse.make_known(caller.holder());
            }
            let (revoked, is_grpc) = (caller.revoked(), is_grpc(&request));
            request.extensions_mut().insert(caller);
            match revoked {
                Some(revoked) => revoked::while_it_opens(revoked, is_grpc, next.run(request)).await,
                None => next.run(request).await,
            }
        }
        Err((why, refusal)) => {
            bridge.desk.metrics.refused(why);
            if is_grpc(&request) { refusal.into_grpc() } else { refusal.into_response() }
        }
    }
}

/// Returns the caller; `None` for a public path without a key.
fn check(bridge: &Bridge, request: &Request) -> Result<Option<Caller>, (Refused, Refusal)> {
    let peer: Peer = request.extensions().get().copied().unwrap_or_default();
    if let Some(reason) = guard::refusal(request.uri(), request.headers(), &bridge.names, peer.local) {
        let refusal = Refusal::from(Error::new(ErrorCode::PermissionDenied, reason));
        return Err((Refused::HostOrOrigin, refusal));
    }
    let caller = caller(bridge, request, peer)?;
    let path = request.uri().path();
    // Without authentication, every caller is the owner and has shown no key.
    if is_open(path) && (caller.is_none() || bridge.desk.keys.is_none()) {
        limit_strangers(bridge, peer)?;
    }
    let holder = caller.as_ref().map(Caller::holder).unwrap_or_default();
    if path.starts_with("/v1/")
        && let Err(wait) = bridge.window.admit(peer.address, &holder, Instant::now())
    {
        return Err((Refused::Rate, Refusal::rate(bridge.window.limit(), wait)));
    }
    if is_foreign(request) {
        return Err((Refused::MediaType, Refusal::media_type()));
    }
    Ok(caller)
}

/// Authenticates the request. A valid key is accepted before the address's invalid ones are counted: otherwise a program
/// with an old key would block valid ones behind the same proxy. Guessing is hopeless, because [`crate::serve::Access`]
/// requires long keys wherever other machines have access.
fn caller(bridge: &Bridge, request: &Request, peer: Peer) -> Result<Option<Caller>, (Refused, Refusal)> {
    let Some(keys) = &bridge.desk.keys else { return Ok(Some(bridge.caller(Grant::owner()))) };
    let shown = keys.shown(request.headers());
    if let Shown::Key(grant) = shown {
        return Ok(Some(bridge.caller(grant)));
    }
    if shown == Shown::Wrong
        && let Err(wait) = bridge.guesses.admit(peer.address, &Holder::Owner, Instant::now())
    {
        return Err((Refused::Rate, Refusal::guesses(wait)));
    }
    match is_open(request.uri().path()) {
        true => Ok(None),
        false => Err((Refused::Key, Refusal::key())),
    }
}

/// Rate limits public requests: they are cheap, but clients without a key must not cause load.
fn limit_strangers(bridge: &Bridge, peer: Peer) -> Result<(), (Refused, Refusal)> {
    let admitted = bridge.strangers.admit(peer.address, Instant::now());
    admitted.map_err(|wait| (Refused::Rate, Refusal::strangers(bridge.strangers.rate(), wait)))
}

/// Returns whether a path needs no key: single health checks, but no streams that stay open.
pub(crate) fn is_open(path: &str) -> bool {
    matches!(path, "/health" | "/grpc.health.v1.Health/Check")
}

/// Returns whether the media type is one that no client of ours sends, but a form of a web page may.
fn is_foreign(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).map(|it| it.to_str().unwrap_or("?").to_ascii_lowercase());
    kind.is_some_and(|it| {
        ["text/plain", "multipart/", "application/grpc-web", "?"].iter().any(|foreign| it.starts_with(foreign))
    })
}
