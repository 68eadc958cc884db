//! The web page: its files, its sessions, and the operations that it needs besides those of programs.

pub(super) mod assets;
pub(super) mod desktop;
pub(super) mod files;
pub(super) mod graph;
pub(super) mod keys;
pub(super) mod manage;
pub(super) mod search;
pub(super) mod session;
pub(super) mod status_events;

use axum::http::Method;

/// Returns whether a request needs neither a key nor a session: the files of the page hold no data of users, and the login
/// opens a session.
pub(super) fn is_open_to_all(method: &Method, path: &str) -> bool {
    let is_file = path == "/ui" || path.starts_with("/ui/") && path != session::PATH;
    match *method {
        Method::GET | Method::HEAD => is_file,
        _ => path == session::PATH && *method == Method::POST,
    }
}
