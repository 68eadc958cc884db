//! Serves the API on the Unix socket and the TCP port until the daemon shuts down.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn, map_response};
use axum::response::Response;
use axum::{Extension, Router};
use include_dir::Dir;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::config::Config;
use crate::data_dir::keys::Grant;
use crate::error::{Error, ErrorCode, Result};
use crate::proto::convert::graph::MAX_GRAPH;
use crate::proto::{MAX_LLM_REQUEST, MAX_REQUEST, MAX_RESPONSE, grpc_status, wire};
use crate::serve::admission::Admission;
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::auth::config::{AccessConfig, is_local};
use crate::serve::auth::origin_guard;
use crate::serve::grpc;
use crate::serve::http::error_response::ErrorResponse;
use crate::serve::http::{HttpState, router};
use crate::serve::service::Service;
use crate::serve::transport::connection::{self, Port};
use crate::serve::transport::listener::Listener;

/// Maximum size in bytes of a request to the gRPC health or reflection service. Such a request contains little more than a
/// service name.
const MAX_SERVICE_NAME_REQUEST: usize = 1 << 10;

/// After a shutdown request, requests that still run may take this long to finish.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(7);

/// Minimum number of concurrent questions, even on one core, because a question sometimes waits for the disk.
const MIN_CONCURRENT_QUESTIONS: usize = 2;

/// The listening sockets. The caller of [`run`] binds them, so that an address in use is reported before models and index
/// are loaded.
#[derive(Debug)]
pub struct Listeners {
    /// Unix socket for programs of the same user.
    pub unix: UnixListener,
    /// TCP socket for apps.
    pub tcp: TcpListener,
}

/// Serves requests until `shutdown` is cancelled, with the files of the web page in `page`, then gives running requests at most 7 seconds to finish.
///
/// # Errors
/// `Internal` if the server cannot be set up. A failing request or connection never stops the server.
pub async fn run(
    service: Arc<dyn Service>,
    listeners: Listeners,
    access: AccessConfig,
    config: &Config,
    page: &'static Dir<'static>,
    shutdown: CancellationToken,
) -> Result<()> {
    let places = std::thread::available_parallelism()
        .map_or(MIN_CONCURRENT_QUESTIONS, |it| it.get().max(MIN_CONCURRENT_QUESTIONS));
    let desk = Arc::new(Admission { keys: access.keys, certificate: access.certificate, ..Admission::new(places) });
    let session = desk.session.clone();
    tokio::spawn(async move { session.run().await });
    let pages = desk.clone();
    tokio::spawn(async move { pages.sessions.end_idle_loop().await });
    let routes = grpc_routes(shutdown.clone()).await?;
    let owner = AuthorizedService::new(&service, &desk, Grant::local());
    let unix = Port { router: local_router(routes.clone(), owner), tls: None, shutdown: shutdown.clone() };
    let number = listeners.tcp.local_addr().map_err(Error::internal)?.port();
    let bridge = HttpState::new(service, desk, number, config, page, shutdown.clone());
    let router = router(Arc::new(bridge), routes);
    let tcp = Port { router, tls: access.tls, shutdown: shutdown.clone() };
    let remote = !is_local(config.listen);
    let both = async {
        tokio::join!(
            connection::serve(Listener::Unix(listeners.unix), unix),
            connection::serve(Listener::Tcp { listener: listeners.tcp, remote }, tcp),
        )
    };
    let drained = async {
        shutdown.cancelled().await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    tokio::select! {
        _ = both => (),
        () = drained => tracing::warn!("some requests were still running {} seconds after the shutdown", SHUTDOWN_GRACE.as_secs()),
    }
    Ok(())
}

/// Returns the router of the Unix socket: gRPC with the owner's rights.
fn local_router(routes: Routes, owner: AuthorizedService) -> Router {
    routes.prepare().into_axum_router().layer(Extension(owner)).layer(from_fn(reject_web_pages))
}

/// Rejects requests of web pages on the Unix socket. Browsers cannot reach the socket directly, but they can if it is
/// forwarded to a port (`ssh -L`, `socat`). The `Host` header is not checked, because clients of the socket may use any
/// name.
async fn reject_web_pages(request: Request, next: Next) -> Response {
    match origin_guard::is_from_web_page(request.headers()) {
        true => {
            ErrorResponse::from(Error::new(ErrorCode::PermissionDenied, origin_guard::WEB_PAGE_REJECTED)).into_grpc()
        }
        false => next.run(request).await,
    }
}

pub(in crate::serve) async fn grpc_routes(shutdown: CancellationToken) -> Result<Routes> {
    let llm = wire::llm_server::LlmServer::new(grpc::llm::Adapter::new(shutdown.clone()))
        .max_decoding_message_size(MAX_LLM_REQUEST)
        .max_encoding_message_size(MAX_RESPONSE);
    let vic = wire::vic_server::VicServer::new(grpc::vic::Adapter::new(shutdown))
        .max_decoding_message_size(MAX_REQUEST)
        .max_encoding_message_size(MAX_RESPONSE);
    let graph = wire::graph_server::GraphServer::new(grpc::graph::GraphAdapter)
        .max_decoding_message_size(MAX_GRAPH)
        .max_encoding_message_size(MAX_RESPONSE);
    let (reporter, health) = tonic_health::server::health_reporter();
    // Clients may call the health service without a key, so its message limit is low. A request holds only a service name.
    let health = health.max_decoding_message_size(MAX_SERVICE_NAME_REQUEST);
    reporter.set_serving::<wire::vic_server::VicServer<grpc::vic::Adapter>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(wire::DESCRIPTORS)
        .build_v1()
        .map_err(Error::internal)?
        .max_decoding_message_size(MAX_SERVICE_NAME_REQUEST);
    let routes = Routes::new(vic).add_service(graph).add_service(llm).add_service(health).add_service(reflection);
    let answered = map_response(|it: Response| std::future::ready(grpc_status::whose(it)));
    Ok(Routes::from(routes.into_axum_router().layer(answered)))
}
