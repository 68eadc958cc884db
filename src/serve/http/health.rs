//! HTTP handlers for health, status and metrics of the daemon.

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::display_path;
use crate::serve::http::state::{CallerExtension, Reply, SharedState, json_response};

/// Body of `GET /health`. Without a key, only some fields are set.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// Always `ok`, which means that the daemon is running.
    status: &'static str,
    /// Whether the daemon has a problem.
    degraded: bool,
    /// The problems, each with its fix; null without a key.
    problems: Option<Vec<String>>,
    /// Version of the daemon.
    version: String,
    /// Whether `/v1/*`, `/mcp` and gRPC over TCP require a key.
    auth_enabled: bool,
    /// Whether the index can answer questions.
    index_ready: bool,
    /// Whether the catalog contains any file.
    meta_present: bool,
    /// Number of chunks in the index; null if the catalog contains no file. Null without a key, like all numbers and
    /// paths.
    chunk_rows_indexed: Option<u64>,
    /// Name of the embedding model and its backend.
    embed_model: Option<String>,
    /// Name of the vector store's backend.
    vector_backend: Option<String>,
    /// The roots, joined by `:`; null if there is none.
    warehouse_root_indexed: Option<String>,
    /// Directory of the index on disk.
    db_path: Option<String>,
    /// Dimension of the vectors in the index.
    dimension: u32,
    /// Number of files in the index.
    files_indexed: Option<u64>,
    /// Number of files waiting to be read.
    files_pending: Option<u64>,
    /// Which data may leave the machine.
    privacy_mode: crate::model::PrivacyMode,
}

/// `GET /health`: returns the health of the daemon, with details only for callers with a key.
pub(crate) async fn health(State(bridge): SharedState, caller: Option<CallerExtension>) -> Reply {
    // Without a key, the response shows only whether there is a problem, and nothing that depends on the files.
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

/// `GET /metrics`: returns the metrics of the daemon for Prometheus. Only for the owner.
pub(crate) async fn metrics(Extension(caller): CallerExtension) -> Reply {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, caller.metrics().await?).into_response())
}

/// `GET /v1/status`: returns the state of the daemon and the index.
pub(crate) async fn status(Extension(caller): CallerExtension) -> Reply {
    json_response(StatusCode::OK, &caller.service().status().await?.with_printable_paths())
}
