//! The TCP port: takes connections and speaks HTTP/1.1 or HTTP/2 with them, whichever they begin with. The limits are
//! those of the Unix socket.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use tower::limit::ConcurrencyLimitLayer;

use crate::serve::http::Bridge;
use crate::serve::http::gate::Peer;
use crate::serve::{KEEPALIVE, KEEPALIVE_TIMEOUT, MAX_CONCURRENT, MAX_HEADERS, MAX_STREAMS, incoming};

/// Connections at the same time; more wait to be taken. Far below the limit of open files.
const MAX_CONNECTIONS: usize = 1_024;

/// How long the headers of an HTTP/1.1 request may take, and how long a connection may be idle.
const HEADER_TIME: Duration = Duration::from_secs(30);

/// Serves until the shutdown, then until the last connection has ended.
pub(crate) async fn serve(listener: TcpListener, router: Router, bridge: Arc<Bridge>) {
    let mut connections = JoinSet::new();
    loop {
        let full = connections.len() >= MAX_CONNECTIONS;
        tokio::select! {
            () = bridge.shutdown.cancelled() => break,
            Some(_) = connections.join_next() => (),
            (stream, peer) = incoming::tcp(&listener, bridge.remote), if !full => {
                connections.spawn(connection(stream, Peer(peer), router.clone(), bridge.shutdown.clone()));
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Speaks with one client until it goes, or until its requests at work have ended after the shutdown.
async fn connection(stream: TcpStream, peer: Peer, router: Router, shutdown: CancellationToken) {
    let service = ServiceBuilder::new()
        .layer(ConcurrencyLimitLayer::new(MAX_CONCURRENT))
        .map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request
        })
        .service(router);
    let builder = builder();
    let mut connection =
        std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection broke");
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(MAX_HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS);
    builder
}
