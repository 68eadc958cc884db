//! HTTP handlers for API keys, as `vic keys` manages them.

use std::path::PathBuf;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::json;

use crate::data_dir::keys::{self, Right};
use crate::error::{Error, Result};
use crate::model::{KeyNameRequest, NewKeyRequest, display_path, parse_path};
use crate::serve::http::body;
use crate::serve::http::state::{CallerExtension, Reply, SharedState, json_response};
use crate::serve::validate;

/// `GET /v1/keys`: returns the keys without their secret parts. Only for the owner.
pub(crate) async fn list(State(bridge): SharedState, Extension(caller): CallerExtension) -> Reply {
    caller.require(Right::Own)?;
    let config = bridge.config.clone();
    let keys = in_background(move || keys::list(&config)).await?;
    let entry = |it: &keys::KeyEntry| {
        let roots: Vec<_> = it.roots.iter().map(|it| display_path(it)).collect();
        json!({"name": it.name, "roots": roots, "right": it.right, "created_ms": it.created_ms})
    };
    json_response(StatusCode::OK, &json!({"keys": keys.iter().map(entry).collect::<Vec<_>>()}))
}

/// `POST /v1/keys`: creates a key, which only this response contains. Only for the owner.
pub(crate) async fn add(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    caller.require(Right::Own)?;
    let NewKeyRequest { name, folders, right } = body::parse_json(&bridge, request).await?;
    let right = match right.as_str() {
        "read" | "" => Right::Read,
        "index" => Right::Index,
        other => {
            return Err(Error::invalid(format!("`{other}` is not `read` or `index`")).field("right").into());
        }
    };
    folders.iter().try_for_each(|it| validate::path("folders", it))?;
    let folders: Vec<PathBuf> = folders.iter().map(|it| parse_path(it)).collect();
    let (config, holder) = (bridge.config.clone(), name.clone());
    let key = in_background(move || keys::add(&config, &holder, &folders, right)).await?;
    json_response(StatusCode::OK, &json!({"name": name, "key": key}))
}

/// `POST /v1/keys/revoke`: revokes a key. Only for the owner.
pub(crate) async fn revoke(State(bridge): SharedState, Extension(caller): CallerExtension, request: Request) -> Reply {
    caller.require(Right::Own)?;
    let KeyNameRequest { name } = body::parse_json(&bridge, request).await?;
    let config = bridge.config.clone();
    in_background(move || keys::revoke(&config, &name)).await?;
    json_response(StatusCode::OK, &json!({}))
}

/// Runs work that reads or writes the key table, without blocking other requests.
async fn in_background<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    crate::index::blocking(work).await
}
