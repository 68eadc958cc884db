//! The state that the HTTP handlers share, and the types of their arguments and replies.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use include_dir::Dir;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Toolsets};
use crate::data_dir::keys::Grant;
use crate::error::{Error, Result};
use crate::model::Status;
use crate::serve::Service;
use crate::serve::admission::Admission;
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::auth::origin_guard::HostNames;
use crate::serve::http::error_response::ErrorResponse;
use crate::serve::http::memory_limit::MessageBudget;
use crate::serve::http::open_streams::OpenStreams;
use crate::serve::http::rate_limit::{SlidingWindow, TokenBucket};
use crate::serve::http::ui::assets::Assets;

/// Timeout for receiving a whole body. Enough for the largest body over any connection, while a client that sends single
/// bytes cannot keep its connection open forever.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum age of the cached status for callers without a key, so that a monitor that polls once a second sees every
/// change.
const PUBLIC_STATUS_MAX_AGE: Duration = Duration::from_secs(1);

/// Cached status for callers without a key. Such callers must not cause load, but computing a status counts all files and
/// walks the folder of the index. Concurrent callers wait for one update and share the result.
#[derive(Default)]
pub(crate) struct PublicStatusCache(Mutex<Option<(Instant, Result<Status>)>>);

impl PublicStatusCache {
    pub(super) async fn get(&self, bridge: &HttpState) -> Result<Status> {
        let mut last = self.0.lock().await;
        if let Some((_, state)) = last.as_ref().filter(|(at, _)| at.elapsed() < PUBLIC_STATUS_MAX_AGE) {
            return state.clone();
        }
        let state = bridge.caller(Grant::owner()).public_status().await;
        *last = Some((Instant::now(), state.clone()));
        state
    }
}

/// State shared by all HTTP handlers.
pub(crate) struct HttpState {
    /// The services without restriction; only used to create an [`AuthorizedService`] for each caller.
    service: Arc<dyn Service>,
    pub(super) desk: Arc<Admission>,
    pub(super) shutdown: CancellationToken,
    pub(super) names: HostNames,
    pub(super) key_requests: SlidingWindow,
    /// Counts invalid keys by address.
    pub(super) invalid_keys: SlidingWindow,
    /// Counts requests without a key by address.
    pub(super) public_requests: TokenBucket,
    /// The files of the web page.
    pub(super) assets: Assets,
    /// Counts requests for files of the web page by address.
    pub(super) page_files: TokenBucket,
    /// Counts requests of the web page.
    pub(super) page_requests: SlidingWindow,
    /// Counts open streams of the status.
    pub(super) status_streams: Arc<OpenStreams>,
    /// Number of the TCP port, which is part of the name of session cookies.
    pub(super) port: u16,
    /// The settings, for the key table.
    pub(super) config: Config,
    /// Cached status for requests without a key.
    pub(super) public_status: PublicStatusCache,
    /// Memory budget for incoming messages and bodies.
    pub(super) message_budget: MessageBudget,
    pub(super) max_body: usize,
    /// Timeout for receiving a whole body.
    pub(super) body_time: Duration,
    pub(super) db_path: PathBuf,
    pub(super) warehouse_root: Option<PathBuf>,
    pub(super) vector_backend: String,
    /// The toolsets (`graph`, `corpus`) whose tools `/mcp` lists in addition to the tools for files.
    pub(super) mcp_tools: Toolsets,
}

/// Maximum number of invalid keys from one address in any 60 seconds; further ones are rejected with 429.
const MAX_INVALID_KEYS_PER_MINUTE: u32 = 30;

/// Maximum number of requests without a key per second from one address, and of requests at once after idle time, so that
/// several monitors behind one address can start at the same time.
const PUBLIC_REQUESTS_PER_SECOND: u32 = 50;
const PUBLIC_REQUEST_BURST: u32 = 100;

/// Maximum number of requests of the web page in any 60 seconds, for each holder at each address: search as you type sends
/// some 40 per second while a person types.
const PAGE_REQUESTS_PER_MINUTE: u32 = 3_000;

/// Maximum number of requests for files of the web page per second from one address, and at once: a page has some thirty
/// files, which cost nothing to send, and a page that lacks one of them stays blank.
const PAGE_FILES_PER_SECOND: u32 = 500;
const PAGE_FILE_BURST: u32 = 3_000;

pub(super) type SharedState = State<Arc<HttpState>>;
pub(super) type CallerExtension = Extension<AuthorizedService>;
pub(super) type Reply = Result<Response, ErrorResponse>;

impl HttpState {
    /// Creates the state for the server at this TCP port.
    pub(crate) fn new(
        service: Arc<dyn Service>,
        desk: Arc<Admission>,
        port: u16,
        config: &Config,
        page: &'static Dir<'static>,
        shutdown: CancellationToken,
    ) -> HttpState {
        HttpState {
            service,
            desk,
            shutdown,
            names: HostNames::new(port, config.bridge.hosts.clone()),
            key_requests: SlidingWindow::new(config.bridge.rate_limit_per_min),
            invalid_keys: SlidingWindow::new(MAX_INVALID_KEYS_PER_MINUTE),
            public_requests: TokenBucket::new(PUBLIC_REQUESTS_PER_SECOND, PUBLIC_REQUEST_BURST),
            assets: Assets::new(page),
            page_files: TokenBucket::new(PAGE_FILES_PER_SECOND, PAGE_FILE_BURST),
            page_requests: SlidingWindow::new(PAGE_REQUESTS_PER_MINUTE),
            status_streams: Arc::default(),
            port,
            config: config.clone(),
            public_status: PublicStatusCache::default(),
            message_budget: MessageBudget::new(config.bridge.max_body_bytes),
            max_body: config.bridge.max_body_bytes,
            body_time: BODY_TIMEOUT,
            db_path: config.db_path.clone(),
            warehouse_root: config.warehouse_root.clone(),
            vector_backend: config.vectors.backend.name().into(),
            mcp_tools: config.mcp_tools,
        }
    }

    pub(super) fn caller(&self, grant: Grant) -> AuthorizedService {
        AuthorizedService::new(&self.service, &self.desk, grant)
    }
}

/// Builds a response with this status and a JSON body.
pub(super) fn json_response(status: StatusCode, value: &impl Serialize) -> Reply {
    let text = serde_json::to_vec(value).map_err(Error::internal)?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}
