//! Serves connections on the Unix socket and the TCP port: HTTP/1.1 or HTTP/2, whichever the client starts with, over TLS
//! if there is a certificate. No connection blocks the daemon: idle ones are closed, and at shutdown each is closed when
//! its running requests have ended.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::limit::ConcurrencyLimitLayer;
use tower::{ServiceBuilder, ServiceExt};

use crate::model::Principal;
use crate::serve::transport::listener::{Listener, Peer, Socket};
use crate::serve::transport::response_body::ConnectionResponses;

/// Maximum number of concurrent requests on one connection; further ones wait. Limits the load by a single client.
const MAX_CONCURRENT: usize = 64;

/// Maximum number of requests on one HTTP/2 connection, running or waiting; the client must wait before it sends more.
const MAX_STREAMS: u32 = 100;

/// Maximum total size of the headers of one request, in bytes. Vic's clients send a few hundred bytes.
const MAX_HEADERS: u32 = 16 << 10;

/// Maximum number of HTTP/2 streams that a client opened and reset before they were accepted; with more, the connection
/// is closed.
const MAX_RESET_STREAMS: usize = 20;

/// Interval of keepalive pings on an idle connection.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A connection is closed if the client does not answer a keepalive ping for this long.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout of the TLS handshake and of receiving request headers, and idle timeout of HTTP/1.1 connections.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits on the connections of one port.
#[derive(Clone, Copy)]
struct ConnectionLimits {
    /// Maximum number of connections. At the limit, a new connection replaces an unauthenticated or idle one; if there is
    /// none, it waits to be accepted.
    connections: usize,
    /// A connection is closed if its client does not read a response for this long.
    stall: Duration,
}

/// Limits of each port. The maximum number of connections is far below the limit of open files of the process.
const CONNECTION_LIMITS: ConnectionLimits = ConnectionLimits { connections: 2_048, stall: Duration::from_secs(30) };

/// Interval between two searches for a connection that may be closed, while the limit of connections is reached.
const EVICT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// At shutdown, time to send the last bytes of responses after the last request has ended.
const SEND_GRACE: Duration = Duration::from_millis(300);

/// What a port serves: routes, TLS, and the shutdown signal.
pub(crate) struct Port {
    pub(crate) router: Router,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) shutdown: CancellationToken,
}

/// Accepts and serves connections until the shutdown, then waits until the last one has closed.
pub(crate) async fn serve(listener: Listener, port: Port) {
    serve_within(CONNECTION_LIMITS, listener, port).await;
}

async fn serve_within(bounds: ConnectionLimits, listener: Listener, port: Port) {
    let port = Arc::new(port);
    let mut connections = JoinSet::new();
    let mut guests = Connections::default();
    loop {
        let full = connections.len() >= bounds.connections;
        if full {
            guests.evict_one(bounds.connections);
        }
        tokio::select! {
            () = port.shutdown.cancelled() => break,
            Some(_) = connections.join_next() => (),
            // Repeats the loop to search again for a connection to close, because one may have become idle meanwhile.
            () = tokio::time::sleep(EVICT_RETRY_INTERVAL), if full => (),
            (socket, peer) = listener.accept(), if !full => {
                let pulse = Arc::new(ConnectionState::default());
                let handle = connections.spawn(serve_connection(socket, peer, port.clone(), pulse.clone(), bounds.stall));
                guests.add(handle, pulse, bounds.connections);
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Connections in order of arrival. They are evicted at the limit, because a client could otherwise occupy all of them
/// forever: by keeping idle HTTP/2 connections open, or without a key by not reading responses.
#[derive(Default)]
struct Connections(VecDeque<(AbortHandle, Arc<ConnectionState>)>);

impl Connections {
    fn add(&mut self, handle: AbortHandle, pulse: Arc<ConnectionState>, most: usize) {
        if self.0.len() >= 2 * most {
            self.0.retain(|(handle, _)| !handle.is_finished());
        }
        self.0.push_back((handle, pulse));
    }

    /// Closes one connection if there are at least `most`: the oldest unauthenticated one, else the oldest idle one, else
    /// the oldest of a key that has more than half of all connections. The newest is exempt, because it had no time to
    /// authenticate.
    fn evict_one(&mut self, most: usize) {
        self.0.retain(|(handle, _)| !handle.is_finished());
        if self.0.len() < most {
            return;
        }
        let older = || self.0.iter().take(self.0.len().saturating_sub(1)).map(|it| &it.1);
        let cut = older().position(|it| !it.is_authenticated()).or_else(|| older().position(|it| it.is_idle()));
        let of_many = || self.dominant_key().and_then(|key| older().position(|it| it.holder.get() == Some(key)));
        let cut = cut.or_else(of_many);
        if let Some((handle, _)) = cut.and_then(|it| self.0.remove(it)) {
            handle.abort();
        }
    }
}

impl Connections {
    /// Returns the key that has more than half of the connections, if any. The owner is never returned, and may have all
    /// of them.
    fn dominant_key(&self) -> Option<&Principal> {
        let mut counts: HashMap<&Principal, usize> = HashMap::new();
        let keys = self.0.iter().filter_map(|(_, pulse)| pulse.holder.get()).filter(|it| **it != Principal::Owner);
        keys.for_each(|it| *counts.entry(it).or_default() += 1);
        counts.into_iter().find(|(_, count)| *count > self.0.len() / 2).map(|(key, _)| key)
    }
}

async fn serve_connection(socket: Socket, peer: Peer, port: Arc<Port>, pulse: Arc<ConnectionState>, stall: Duration) {
    let patience = ClientTimeouts { request: HEADER_TIMEOUT, reader: stall };
    match (socket, &port.tls) {
        (Socket::Unix(stream), _) => {
            pulse.set_holder(Principal::Owner);
            serve_stream(stream, peer, &port, pulse, None).await;
        }
        (Socket::Tcp(stream), None) => serve_stream(stream, peer, &port, pulse, Some(patience)).await,
        (Socket::Tcp(stream), Some(tls)) => {
            let handshake = tokio::time::timeout(HEADER_TIMEOUT, tls.accept(stream));
            match port.shutdown.run_until_cancelled(handshake).await {
                Some(Ok(Ok(stream))) => serve_stream(stream, peer, &port, pulse, Some(patience)).await,
                Some(Ok(Err(error))) => tracing::debug!(%error, "TLS handshake failed"),
                Some(Err(_)) | None => (),
            }
        }
    }
}

/// Timeouts for TCP clients.
struct ClientTimeouts {
    /// Maximum time from connecting to the first request.
    request: Duration,
    /// Maximum time that a client may leave a response unread.
    reader: Duration,
}

/// Serves one client until it disconnects, or after the shutdown until its running requests have ended. Closes the
/// connection if the client sends no request or does not read a response in time.
async fn serve_stream<S>(
    stream: S,
    peer: Peer,
    port: &Port,
    pulse: Arc<ConnectionState>,
    patience: Option<ClientTimeouts>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(MAX_CONCURRENT)).service(tower::service_fn({
        let (pulse, router) = (pulse.clone(), port.router.clone());
        move |mut request: Request<Incoming>| {
            let (beat, router, sending) = (RunningRequest::new(&pulse), router.clone(), pulse.responses.clone());
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(pulse.clone());
            async move {
                let _beat = beat;
                let answer = router.oneshot(request.map(Body::new)).await;
                answer.map(|it| it.map(|body| sending.track(body)))
            }
        }
    }));
    let builder = http_builder();
    let mut connection =
        std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = pulse.timed_out(patience) => {
            tracing::debug!("closed a connection: the client sent no request or read no response in time");
            return;
        }
        () = port.shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = connection => outcome,
                () = pulse.drained() => return,
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection error");
    }
}

fn http_builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_header_list_size(MAX_HEADERS);
    builder
}

/// State of a connection: the number of requests so far and of running requests, and the holder of the first accepted
/// key.
#[derive(Default)]
pub(crate) struct ConnectionState {
    holder: OnceLock<Principal>,
    begun: AtomicUsize,
    at_work: AtomicUsize,
    changed: Notify,
    responses: Arc<ConnectionResponses>,
}

impl ConnectionState {
    /// Marks the connection as authenticated by the holder of a key. The first holder is kept, even if a proxy sends
    /// requests with several keys over the connection.
    pub(crate) fn set_holder(&self, holder: Principal) {
        self.holder.get_or_init(|| holder);
    }

    fn is_authenticated(&self) -> bool {
        self.holder.get().is_some()
    }

    /// Returns whether no request is running and no response is being sent.
    fn is_idle(&self) -> bool {
        self.at_work.load(Ordering::Acquire) == 0 && self.responses.is_idle()
    }

    /// Waits until the first request is overdue, or a response has not been read in time. Never returns without timeouts.
    async fn timed_out(&self, patience: Option<ClientTimeouts>) {
        let Some(patience) = patience else { return std::future::pending().await };
        let silent = async {
            tokio::time::sleep(patience.request).await;
            if self.begun.load(Ordering::Relaxed) > 0 {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = silent => (),
            () = self.responses.stalled(patience.reader) => (),
        }
    }

    /// At shutdown: waits until the last request has ended, and a short time more to send its response.
    async fn drained(&self) {
        loop {
            let changed = self.changed.notified();
            if self.at_work.load(Ordering::Acquire) == 0 {
                break;
            }
            changed.await;
        }
        tokio::time::sleep(SEND_GRACE).await;
    }
}

/// Counts a request as running until it is dropped.
struct RunningRequest(Arc<ConnectionState>);

impl RunningRequest {
    fn new(pulse: &Arc<ConnectionState>) -> RunningRequest {
        pulse.begun.fetch_add(1, Ordering::Relaxed);
        pulse.at_work.fetch_add(1, Ordering::Relaxed);
        RunningRequest(pulse.clone())
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::Release);
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use axum::Extension;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Size of a response that exceeds the buffers of a connection.
    const LARGE: usize = 64 << 20;

    /// Starts a port with these limits, and a router where `/key` authenticates the connection.
    async fn port(bounds: ConnectionLimits) -> (std::net::SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let key = |Extension(pulse): Extension<Arc<ConnectionState>>| async move { pulse.set_holder(Principal::Owner) };
        let ada = |Extension(pulse): Extension<Arc<ConnectionState>>| async move {
            pulse.set_holder(Principal::Key("ada".into()));
            std::future::pending::<()>().await;
        };
        let router = Router::new().route("/key", get(key)).route("/", get(|| async {})).route("/ada", get(ada));
        let router = router.route("/large", get(|| async { vec![0_u8; LARGE] }));
        let port = Port { router, tls: None, shutdown: shutdown.clone() };
        tokio::spawn(serve_within(bounds, Listener::Tcp { listener, remote: false }, port));
        (address, shutdown)
    }

    /// Sends a request; returns whether it succeeds.
    async fn request_succeeds(stream: &mut TcpStream, path: &str) -> bool {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let mut answer = [0; 12];
        stream.write_all(request.as_bytes()).await.is_ok()
            && stream.read_exact(&mut answer).await.is_ok()
            && answer == *b"HTTP/1.1 200"
    }

    #[tokio::test]
    async fn unauthenticated_connection_is_evicted_first() {
        let (address, shutdown) = port(ConnectionLimits { connections: 3, ..CONNECTION_LIMITS }).await;
        let mut friend = TcpStream::connect(address).await.unwrap();
        assert!(request_succeeds(&mut friend, "/key").await);
        let mut strangers = Vec::new();
        for _ in 0..20 {
            let mut stranger = TcpStream::connect(address).await.unwrap();
            assert!(request_succeeds(&mut stranger, "/").await, "each is accepted");
            strangers.push(stranger);
        }
        let mut rest = Vec::new();
        // Reads until the end: the response may still be buffered, and then the stream ends.
        let _reset = strangers[0].read_to_end(&mut rest).await;
        drop(strangers.split_off(1));
        assert!(TcpStream::connect(address).await.is_ok());
        let mut rest = [0; 256];
        let _headers = friend.read(&mut rest).await.unwrap();
        assert!(request_succeeds(&mut friend, "/").await);
        shutdown.cancel();
    }

    #[tokio::test]
    async fn idle_authenticated_connection_is_evicted() {
        let (address, shutdown) = port(ConnectionLimits { connections: 3, ..CONNECTION_LIMITS }).await;
        let mut friends = Vec::new();
        for _ in 0..10 {
            let mut friend = TcpStream::connect(address).await.unwrap();
            assert!(request_succeeds(&mut friend, "/key").await, "each is accepted");
            friends.push(friend);
        }
        shutdown.cancel();
    }

    #[tokio::test]
    async fn key_with_all_connections_is_evicted() {
        let (address, shutdown) = port(ConnectionLimits { connections: 3, ..CONNECTION_LIMITS }).await;
        let mut greedy = Vec::new();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /ada HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
            greedy.push(stream);
            // Waits until the server knows the holder of each key before the last client connects.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..2 {
            let mut friend = TcpStream::connect(address).await.unwrap();
            let asked = tokio::time::timeout(Duration::from_secs(5), request_succeeds(&mut friend, "/key")).await;
            assert!(asked.unwrap(), "another key is accepted");
        }
        let mut rest = Vec::new();
        let _reset = greedy[0].read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "the oldest was closed without a response");
        shutdown.cancel();
    }

    // Case D11
    #[tokio::test]
    async fn stalled_reader_is_closed_and_slow_reader_served() {
        let stall = Duration::from_millis(400);
        let (address, shutdown) = port(ConnectionLimits { connections: 3, stall }).await;
        let connect = || async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert!(request_succeeds(&mut stream, "/large").await);
            stream
        };
        let (mut silent, mut slow) = (connect().await, connect().await);
        let begun = std::time::Instant::now();
        let (mut read, mut piece) = (0, vec![0; LARGE / 20]);
        while read < LARGE {
            // Reads slowly, so that the total time exceeds the stall timeout.
            tokio::time::sleep(stall / 8).await;
            let length = slow.read(&mut piece).await.unwrap();
            assert!(length > 0, "cut after {read} bytes");
            read += length;
        }
        assert!(begun.elapsed() > stall);
        tokio::time::sleep(2 * stall).await;
        let mut rest = Vec::new();
        let _reset = silent.read_to_end(&mut rest).await;
        assert!(rest.len() < LARGE, "{} bytes", rest.len());
        shutdown.cancel();
    }
}
