//! What every request of the TCP port has to pass, in this order: host and origin (403), the key (401), the rate (429), the
//! kind of its body (415). Nothing of the body is read before. Who has passed is the [`Caller`] of the request, until the key
//! is revoked.

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

/// Lets a request through to its handler, or says why not.
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

/// Returns who asks; nobody in particular for a path that is open to all.
fn check(bridge: &Bridge, request: &Request) -> Result<Option<Caller>, (Refused, Refusal)> {
    let peer: Peer = request.extensions().get().copied().unwrap_or_default();
    if let Some(reason) = guard::refusal(request.uri(), request.headers(), &bridge.names, peer.local) {
        let refusal = Refusal::from(Error::new(ErrorCode::PermissionDenied, reason));
        return Err((Refused::HostOrOrigin, refusal));
    }
    let caller = caller(bridge, request, peer)?;
    let path = request.uri().path();
    // Where no key is asked for, everybody is the owner and nobody has shown it.
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

/// The key is looked at before the guesses of its address are counted: behind one proxy or one address of many, a program
/// with an old key would lock out those with the right one. Every key has so many bits that guessing is of no use, which
/// [`crate::serve::Access`] sees to where other machines can.
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

/// Admits what is open to all only so often: it costs little, but whoever shows no key is to cost nothing.
fn limit_strangers(bridge: &Bridge, peer: Peer) -> Result<(), (Refused, Refusal)> {
    let admitted = bridge.strangers.admit(peer.address, Instant::now());
    admitted.map_err(|wait| (Refused::Rate, Refusal::strangers(bridge.strangers.rate(), wait)))
}

/// The paths that need no key: whether the daemon lives, told once and not as a stream that stays open.
pub(crate) fn is_open(path: &str) -> bool {
    matches!(path, "/health" | "/grpc.health.v1.Health/Check")
}

/// Whether the body is of a kind that no client of ours sends, but a form of a web page does.
fn is_foreign(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).map(|it| it.to_str().unwrap_or("?").to_ascii_lowercase());
    kind.is_some_and(|it| {
        ["text/plain", "multipart/", "application/grpc-web", "?"].iter().any(|foreign| it.starts_with(foreign))
    })
}
