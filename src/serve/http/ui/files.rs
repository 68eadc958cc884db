//! HTTP handlers for the files of the web page.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect, Response};

use crate::serve::http::state::SharedState;

/// `GET /ui`: redirects to `/ui/`, against which the page resolves its files.
pub(crate) async fn redirect() -> Response {
    Redirect::permanent("/ui/").into_response()
}

/// `GET /ui/{file}`: returns a file of the page.
pub(crate) async fn file(State(bridge): SharedState, request: Request) -> Response {
    bridge.assets.response(request.uri().path().trim_start_matches("/ui/"), request.headers())
}
