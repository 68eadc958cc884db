//! HTTP handlers for the sessions of the web page: log in, describe, end.

use std::net::SocketAddr;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data_dir::keys::Right;
use crate::error::{Error, ErrorCode};
use crate::model::{Principal, Scope, display_path};
use crate::serve::auth::authenticator::Credential;
use crate::serve::auth::sessions::{Session, cookie_name};
use crate::serve::http::body;
use crate::serve::http::error_response::ErrorResponse;
use crate::serve::http::state::{CallerExtension, HttpState, Reply, SharedState, json_response};
use crate::serve::transport::listener::Peer;
use crate::serve::transport::peer_user::is_of_other_local_user;

/// Path of the session.
pub(crate) const PATH: &str = "/ui/session";

/// Body of a login: a code of `vic ui`, or an API key.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Login {
    /// The code, which can be used once.
    code: Option<String>,
    /// The key.
    key: Option<String>,
}

/// The session of the page.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionInfo {
    /// Token to send in the header `x-vic-csrf` of every request; only in the response to a login.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf: Option<String>,
    /// Whether the session has the owner's rights.
    owner: bool,
    /// Whether `vic ui` opened the session on this machine, so that files can be opened in their programs.
    local: bool,
    /// `owner`, or the name of the key.
    holder: String,
    /// The folders that the session may see; absent for all.
    folders: Option<Vec<String>>,
    /// `read`, `index` or `own`.
    right: Right,
    /// Number of the port.
    port: u16,
}

/// `POST /ui/session`: opens a session with a code or a key, and sets its cookie.
pub(crate) async fn open(State(bridge): SharedState, request: Request) -> Reply {
    let peer: Peer = request.extensions().get().copied().unwrap_or_default();
    let login: Login = body::parse_login(request).await?;
    let opened = match (&login.code, &login.key) {
        (Some(code), None) => open_with_code(&bridge, code, peer).map_err(ErrorResponse::login_refused),
        (None, Some(key)) => open_with_key(&bridge, key),
        _ => Err(Error::invalid("send either `code` or `key`").into()),
    };
    let (session, secret) = match opened {
        Ok(opened) => opened,
        Err(refusal) => {
            let now = std::time::Instant::now();
            return Err(match bridge.invalid_keys.admit(peer.address, &Principal::Owner, now) {
                Ok(()) => refusal,
                Err(wait) => ErrorResponse::too_many_invalid_keys(wait),
            });
        }
    };
    let secure = if bridge.desk.certificate.is_some() { "; Secure" } else { "" };
    let cookie = format!("{}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}", cookie_name(bridge.port));
    let described = SessionInfo { csrf: Some(session.csrf.clone()), ..describe(&bridge, &session) };
    let mut response = json_response(StatusCode::OK, &described)?;
    response.headers_mut().insert(header::SET_COOKIE, cookie.parse().map_err(Error::internal)?);
    Ok(response)
}

/// Opens a session with a code of `vic ui`. Other users of this machine see the arguments of the browser, and so the code: a
/// connection of another user is refused.
fn open_with_code(bridge: &HttpState, code: &str, peer: Peer) -> crate::error::Result<(Session, String)> {
    let own = rustix::process::geteuid().as_raw();
    let (client, server) = (SocketAddr::new(peer.address, peer.port), SocketAddr::new(peer.local, bridge.port));
    if is_of_other_local_user(client, server, own) {
        return Err(Error::new(ErrorCode::PermissionDenied, "the code of `vic ui` is for the user of the daemon")
            .hint("log in with a key"));
    }
    bridge.desk.sessions.open_with_code(code)
}

fn open_with_key(bridge: &HttpState, key: &str) -> Result<(Session, String), ErrorResponse> {
    let Some(keys) = &bridge.desk.keys else {
        return Err(Error::invalid("this daemon has no keys").hint("run `vic ui` on its machine").into());
    };
    match keys.check_key(key) {
        Credential::Key(grant) => Ok(bridge.desk.sessions.open(grant, None)?),
        Credential::Missing | Credential::Invalid => Err(ErrorResponse::unauthenticated()),
    }
}

/// `GET /ui/session`: describes the session of the page.
pub(crate) async fn get(State(bridge): SharedState, session: Option<Extension<Session>>) -> Reply {
    let Some(Extension(session)) = session else { return Err(ErrorResponse::no_session()) };
    json_response(StatusCode::OK, &describe(&bridge, &session))
}

/// `POST /ui/session/end`: ends the session of the page.
pub(crate) async fn end(State(bridge): SharedState, request: Request) -> Reply {
    bridge.desk.sessions.end(request.headers(), bridge.port);
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /ui/session/end_all`: ends every session.
pub(crate) async fn end_all(Extension(caller): CallerExtension) -> Reply {
    caller.end_all_sessions()?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn describe(bridge: &HttpState, session: &Session) -> SessionInfo {
    let grant = &session.grant;
    let holder = match &grant.holder {
        Principal::Owner => "owner".to_string(),
        Principal::Key(hash) => {
            let keys = crate::data_dir::keys::list(&bridge.config).unwrap_or_default();
            keys.into_iter().find(|it| *it.hash == **hash).map_or_else(|| "key".to_string(), |it| it.name)
        }
    };
    let folders = match &grant.scope {
        Scope::All => None,
        Scope::Folders(folders) => Some(folders.iter().map(|it| display_path(it).into_owned()).collect()),
    };
    SessionInfo {
        csrf: None,
        owner: grant.right >= Right::Own,
        local: session.desktop.is_some(),
        holder,
        folders,
        right: grant.right,
        port: bridge.port,
    }
}
