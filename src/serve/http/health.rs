//! Whether the daemon is well, and what it serves.

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::serve::http::{Reply, Shared, json, openapi};

/// The state of the daemon as everybody may know it, without a key.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
    /// Version of vic.
    version: String,
    /// Whether `/v1/*`, `/mcp` and gRPC over TCP ask for a key.
    auth_enabled: bool,
    /// Whether a question can be answered from the index.
    index_ready: bool,
    /// Whether anything is known of any file.
    meta_present: bool,
    /// Chunks in the index; null before anything is known.
    chunk_rows_indexed: Option<u64>,
    /// The embedding model and its backend.
    embed_model: Option<String>,
    /// Where the vectors are kept.
    vector_backend: Option<String>,
    /// The roots, joined by `:`; null when there is none.
    warehouse_root_indexed: Option<String>,
    /// Directory of the index.
    db_path: String,
    /// Length of the vectors.
    dimension: u32,
    /// Files in the index.
    files_indexed: u64,
    /// Files that are still to be read.
    files_pending: u64,
    /// What may leave the machine.
    privacy_mode: crate::model::PrivacyMode,
}

/// `GET /health`.
pub(crate) async fn health(State(bridge): Shared) -> Reply {
    let status = bridge.service.status().await?;
    let roots: Vec<String> = status.roots.iter().map(|it| it.path.to_string_lossy().into_owned()).collect();
    let known = status.coverage.found > 0 || status.chunks > 0;
    json(
        StatusCode::OK,
        &Health {
            status: "ok",
            version: status.version,
            auth_enabled: bridge.key.is_some(),
            index_ready: status.index_ready,
            meta_present: known,
            chunk_rows_indexed: known.then_some(status.chunks),
            embed_model: Some(status.embed_model).filter(|it| !it.is_empty()),
            vector_backend: Some(bridge.vector_backend.clone()),
            warehouse_root_indexed: (!roots.is_empty()).then(|| roots.join(":")),
            db_path: bridge.db_path.to_string_lossy().into_owned(),
            dimension: status.dimension,
            files_indexed: status.coverage.indexed,
            files_pending: status.coverage.pending,
            privacy_mode: status.privacy_mode,
        },
    )
}

/// `GET /v1/status`.
pub(crate) async fn status(State(bridge): Shared) -> Reply {
    json(StatusCode::OK, &bridge.service.status().await?.printable())
}

/// `GET /`.
pub(crate) async fn root() -> Reply {
    json(
        StatusCode::OK,
        &json!({
            "name": "vic",
            "version": env!("CARGO_PKG_VERSION"),
            "paths": openapi::paths(),
            "grpc": "vic.v1.Vic, with reflection, on this port",
            "mcp": "/mcp",
        }),
    )
}
