//! Health, status and metrics of the daemon.

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::display_path;
use crate::serve::http::state::{CallerExtension, Reply, SharedState, json_response};

/// Health of the daemon. Public, in part.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Always `ok`: the daemon is running.
    status: &'static str,
    /// Whether there is a problem.
    degraded: bool,
    /// The problems with their fixes; null without a key.
    problems: Option<Vec<String>>,
    /// Version of vic.
    version: String,
    /// Whether `/v1/*`, `/mcp` and gRPC over TCP require a key.
    auth_enabled: bool,
    /// Whether the index can answer questions.
    index_ready: bool,
    /// Whether any file is known.
    meta_present: bool,
    /// Chunks in the index; null while no file is known. Like every number and path, null without a key.
    chunk_rows_indexed: Option<u64>,
    /// The embedding model and its backend.
    embed_model: Option<String>,
    /// Backend of the vector store.
    vector_backend: Option<String>,
    /// The roots, joined by `:`; null when there is none.
    warehouse_root_indexed: Option<String>,
    /// Directory of the index.
    db_path: Option<String>,
    /// Dimension of the vectors.
    dimension: u32,
    /// Files in the index.
    files_indexed: Option<u64>,
    /// Files waiting to be read.
    files_pending: Option<u64>,
    /// Data that may leave the machine.
    privacy_mode: crate::model::PrivacyMode,
}

/// `GET /health`.
pub(crate) async fn health(State(bridge): SharedState, caller: Option<CallerExtension>) -> Reply {
    // Without a key, the response shows whether all is well, and nothing that depends on the files.
    let asker = caller.map(|Extension(it)| it);
    let status = match &asker {
        Some(asker) => asker.unqueued_status().await?,
        None => bridge.public_status.get(&bridge).await?,
    };
    let is_owner = asker.as_ref().is_some_and(|it| it.scope().is_all());
    let roots: Vec<String> = status.roots.iter().map(|it| display_path(&it.path).into_owned()).collect();
    let known = status.coverage.found > 0 || status.chunks > 0;
    json_response(
        StatusCode::OK,
        &Health {
            status: "ok",
            degraded: !status.degraded.is_empty(),
            problems: asker.as_ref().map(|_| status.degraded),
            version: status.version,
            auth_enabled: bridge.desk.keys.is_some(),
            index_ready: status.index_ready,
            meta_present: known,
            chunk_rows_indexed: asker.as_ref().filter(|_| known).map(|_| status.chunks),
            embed_model: Some(status.embed_model).filter(|it| !it.is_empty()),
            vector_backend: Some(bridge.vector_backend.clone()),
            warehouse_root_indexed: asker.as_ref().filter(|_| !roots.is_empty()).map(|_| roots.join(":")),
            db_path: is_owner.then(|| bridge.db_path.to_string_lossy().into_owned()),
            dimension: status.dimension,
            files_indexed: asker.as_ref().map(|_| status.coverage.indexed),
            files_pending: asker.as_ref().map(|_| status.coverage.pending),
            privacy_mode: status.privacy_mode,
        },
    )
}

/// `GET /metrics`: metrics of the whole daemon for Prometheus, for its owner only.
pub(crate) async fn metrics(Extension(caller): CallerExtension) -> Reply {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, caller.metrics().await?).into_response())
}

/// `GET /v1/status`.
pub(crate) async fn status(Extension(caller): CallerExtension) -> Reply {
    json_response(StatusCode::OK, &caller.service().status().await?.with_printable_paths())
}
