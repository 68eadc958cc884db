//! Both ports: takes connections and speaks HTTP/1.1 or HTTP/2 with them, whichever they begin with, over TLS if there is
//! a certificate. No connection holds the daemon up: one that asks nothing is cut, and at the end each has as long as its
//! requests at work.

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

use crate::model::Holder;
use crate::serve::incoming::{Listener, Peer, Socket};
use crate::serve::sending::Sending;

/// Requests of one connection at work at the same time; more wait. A bound against one client that takes everything.
const MAX_CONCURRENT: usize = 64;

/// Requests of one connection, at work or waiting.
const MAX_STREAMS: u32 = 100;

/// Largest headers of one request, in bytes. Ours have a few hundred.
const MAX_HEADERS: u32 = 16 << 10;

/// Streams that a client opened and reset before they were looked at; more end the connection.
const MAX_RESET_STREAMS: usize = 20;

/// How often an idle connection is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long it may take to say so.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long TLS, and the headers of a request, may take, and how long an HTTP/1.1 connection may be idle.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// What connections may have.
#[derive(Clone, Copy)]
struct Bounds {
    /// So many at the same time. One more takes the place of a stranger, or of one that does nothing, or waits to be taken
    /// where there is none.
    connections: usize,
    /// How long an answer may wait for who reads it.
    stall: Duration,
}

/// The connections stay far below the limit of open files.
const BOUNDS: Bounds = Bounds { connections: 2_048, stall: Duration::from_secs(30) };

/// How often it is looked for one that can give way, while there is none.
const FULL_PAUSE: Duration = Duration::from_millis(50);

/// How long answers may take to be sent once the last request has ended after the shutdown.
const LINGER: Duration = Duration::from_millis(300);

/// What is served on a port.
pub(crate) struct Port {
    pub(crate) router: Router,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) shutdown: CancellationToken,
}

/// Serves until the shutdown, then until the last connection has ended.
pub(crate) async fn serve(listener: Listener, port: Port) {
    serve_within(BOUNDS, listener, port).await;
}

async fn serve_within(bounds: Bounds, listener: Listener, port: Port) {
    let port = Arc::new(port);
    let mut connections = JoinSet::new();
    let mut guests = Guests::default();
    loop {
        let full = connections.len() >= bounds.connections;
        if full {
            guests.cut_one(bounds.connections);
        }
        tokio::select! {
            () = port.shutdown.cancelled() => break,
            Some(_) = connections.join_next() => (),
            // Another may be at rest by now.
            () = tokio::time::sleep(FULL_PAUSE), if full => (),
            (socket, peer) = listener.accept(), if !full => {
                let pulse = Arc::new(Pulse::default());
                let handle = connections.spawn(connection(socket, peer, port.clone(), pulse.clone(), bounds.stall));
                guests.add(handle, pulse, bounds.connections);
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Connections, in the order in which they came. Anybody could take every place for good: by being silent in HTTP/2, and
/// without a key also by not reading the answers for a while.
#[derive(Default)]
struct Guests(VecDeque<(AbortHandle, Arc<Pulse>)>);

impl Guests {
    fn add(&mut self, handle: AbortHandle, pulse: Arc<Pulse>, most: usize) {
        if self.0.len() >= 2 * most {
            self.0.retain(|(handle, _)| !handle.is_finished());
        }
        self.0.push_back((handle, pulse));
    }

    /// Cuts the one that has been there longest of those that may not have shown a key yet, or else of those that have
    /// nothing under way, or else of those of a key that has more than half of all. Not the one that came last: it has had
    /// no time to show anything.
    /// Nobody is cut where there are fewer than `most`, as when one has just gone.
    fn cut_one(&mut self, most: usize) {
        self.0.retain(|(handle, _)| !handle.is_finished());
        if self.0.len() < most {
            return;
        }
        let older = || self.0.iter().take(self.0.len().saturating_sub(1)).map(|it| &it.1);
        let cut = older().position(|it| !it.is_known()).or_else(|| older().position(|it| it.is_at_rest()));
        let of_many = || self.greedy().and_then(|key| older().position(|it| it.holder.get() == Some(key)));
        let cut = cut.or_else(of_many);
        if let Some((handle, _)) = cut.and_then(|it| self.0.remove(it)) {
            handle.abort();
        }
    }
}

impl Guests {
    /// The key that has more than half of the connections, if there is one. The owner may have all of them.
    fn greedy(&self) -> Option<&Holder> {
        let mut counts: HashMap<&Holder, usize> = HashMap::new();
        let keys = self.0.iter().filter_map(|(_, pulse)| pulse.holder.get()).filter(|it| **it != Holder::Owner);
        keys.for_each(|it| *counts.entry(it).or_default() += 1);
        counts.into_iter().find(|(_, count)| *count > self.0.len() / 2).map(|(key, _)| key)
    }
}

async fn connection(socket: Socket, peer: Peer, port: Arc<Port>, pulse: Arc<Pulse>, stall: Duration) {
    let patience = Patience { request: HEADER_TIME, reader: stall };
    match (socket, &port.tls) {
        (Socket::Unix(stream), _) => {
            pulse.make_known(Holder::Owner);
            speak(stream, peer, &port, pulse, None).await;
        }
        (Socket::Tcp(stream), None) => speak(stream, peer, &port, pulse, Some(patience)).await,
        (Socket::Tcp(stream), Some(tls)) => {
            let handshake = tokio::time::timeout(HEADER_TIME, tls.accept(stream));
            match port.shutdown.run_until_cancelled(handshake).await {
                Some(Ok(Ok(stream))) => speak(stream, peer, &port, pulse, Some(patience)).await,
                Some(Ok(Err(error))) => tracing::debug!(%error, "a client does not speak TLS as we do"),
                Some(Err(_)) | None => (),
            }
        }
    }
}

/// How long others than programs of this user may do nothing.
struct Patience {
    /// Until their first request.
    request: Duration,
    /// Until they read on.
    reader: Duration,
}

/// Speaks with one client until it goes, or until its requests at work have ended after the shutdown. One that has sent no
/// request in time is cut, whatever it has begun to send, and so is one that does not read.
async fn speak<S>(stream: S, peer: Peer, port: &Port, pulse: Arc<Pulse>, patience: Option<Patience>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(MAX_CONCURRENT)).service(tower::service_fn({
        let (pulse, router) = (pulse.clone(), port.router.clone());
        move |mut request: Request<Incoming>| {
            let (beat, router, sending) = (Beat::new(&pulse), router.clone(), pulse.sending.clone());
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(pulse.clone());
            async move {
                let _beat = beat;
                let answer = router.oneshot(request.map(Body::new)).await;
                answer.map(|it| it.map(|body| sending.send(body)))
            }
        }
    }));
    let builder = builder();
    let mut connection =
        std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = pulse.missing(patience) => {
            tracing::debug!("a client neither asks nor reads");
            return;
        }
        () = port.shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = connection => outcome,
                () = pulse.stopped() => return,
            }
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
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_header_list_size(MAX_HEADERS);
    builder
}

/// How many requests a connection has had, how many of them are at work, and by whose key the first of them was let in.
#[derive(Default)]
pub(crate) struct Pulse {
    holder: OnceLock<Holder>,
    begun: AtomicUsize,
    at_work: AtomicUsize,
    changed: Notify,
    sending: Arc<Sending>,
}

impl Pulse {
    /// Notes that whoever speaks here is no stranger. Through one connection of a proxy speak many: the first counts.
    pub(crate) fn make_known(&self, holder: Holder) {
        self.holder.get_or_init(|| holder);
    }

    fn is_known(&self) -> bool {
        self.holder.get().is_some()
    }

    /// Whether nothing is at work or under way.
    fn is_at_rest(&self) -> bool {
        self.at_work.load(Ordering::Acquire) == 0 && self.sending.is_over()
    }

    /// Returns when no request has come in time, or an answer is not read.
    async fn missing(&self, patience: Option<Patience>) {
        let Some(patience) = patience else { return std::future::pending().await };
        let silent = async {
            tokio::time::sleep(patience.request).await;
            if self.begun.load(Ordering::Relaxed) > 0 {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = silent => (),
            () = self.sending.stalled(patience.reader) => (),
        }
    }

    /// Returns some time after the last request has ended.
    async fn stopped(&self) {
        loop {
            let changed = self.changed.notified();
            if self.at_work.load(Ordering::Acquire) == 0 {
                break;
            }
            changed.await;
        }
        tokio::time::sleep(LINGER).await;
    }
}

/// One request at work.
struct Beat(Arc<Pulse>);

impl Beat {
    fn new(pulse: &Arc<Pulse>) -> Beat {
        pulse.begun.fetch_add(1, Ordering::Relaxed);
        pulse.at_work.fetch_add(1, Ordering::Relaxed);
        Beat(pulse.clone())
    }
}

impl Drop for Beat {
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

    /// More than the buffers of a connection take.
    const LARGE: usize = 64 << 20;

    /// A port with so many places, where whoever asks for `/key` is no stranger.
    async fn port(bounds: Bounds) -> (std::net::SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let key = |Extension(pulse): Extension<Arc<Pulse>>| async move { pulse.make_known(Holder::Owner) };
        let ada = |Extension(pulse): Extension<Arc<Pulse>>| async move {
            pulse.make_known(Holder::Key("ada".into()));
            std::future::pending::<()>().await;
        };
        let router = Router::new().route("/key", get(key)).route("/", get(|| async {})).route("/ada", get(ada));
        let router = router.route("/large", get(|| async { vec![0_u8; LARGE] }));
        let port = Port { router, tls: None, shutdown: shutdown.clone() };
        tokio::spawn(serve_within(bounds, Listener::Tcp { listener, remote: false }, port));
        (address, shutdown)
    }

    /// Sends a request; says whether there is an answer.
    async fn asks(stream: &mut TcpStream, path: &str) -> bool {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let mut answer = [0; 12];
        stream.write_all(request.as_bytes()).await.is_ok()
            && stream.read_exact(&mut answer).await.is_ok()
            && answer == *b"HTTP/1.1 200"
    }

    #[tokio::test]
    async fn strangers_give_way_to_who_comes_and_who_has_shown_a_key_stays() {
        let (address, shutdown) = port(Bounds { connections: 3, ..BOUNDS }).await;
        let mut friend = TcpStream::connect(address).await.unwrap();
        assert!(asks(&mut friend, "/key").await);
        let mut strangers = Vec::new();
        for _ in 0..20 {
            let mut stranger = TcpStream::connect(address).await.unwrap();
            assert!(asks(&mut stranger, "/").await, "there is a place for each");
            strangers.push(stranger);
        }
        let mut rest = Vec::new();
        // Its answer may still be there; after it comes the end.
        let _reset = strangers[0].read_to_end(&mut rest).await;
        drop(strangers.split_off(1));
        assert!(TcpStream::connect(address).await.is_ok());
        let mut rest = [0; 256];
        let _headers = friend.read(&mut rest).await.unwrap();
        assert!(asks(&mut friend, "/").await);
        shutdown.cancel();
    }

    #[tokio::test]
    async fn of_those_who_have_shown_a_key_one_that_does_nothing_gives_way() {
        let (address, shutdown) = port(Bounds { connections: 3, ..BOUNDS }).await;
        let mut friends = Vec::new();
        for _ in 0..10 {
            let mut friend = TcpStream::connect(address).await.unwrap();
            assert!(asks(&mut friend, "/key").await, "there is a place for each");
            friends.push(friend);
        }
        shutdown.cancel();
    }

    #[tokio::test]
    async fn a_key_that_has_every_connection_at_work_gives_way_to_others() {
        let (address, shutdown) = port(Bounds { connections: 3, ..BOUNDS }).await;
        let mut greedy = Vec::new();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /ada HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
            greedy.push(stream);
            // It is known whose they are before the last one comes.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..2 {
            let mut friend = TcpStream::connect(address).await.unwrap();
            let asked = tokio::time::timeout(Duration::from_secs(5), asks(&mut friend, "/key")).await;
            assert!(asked.unwrap(), "there is a place for who has none");
        }
        let mut rest = Vec::new();
        let _reset = greedy[0].read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "the first of them was cut, and was told nothing");
        shutdown.cancel();
    }

    #[tokio::test]
    async fn who_does_not_read_is_cut_and_who_reads_slowly_gets_all() {
        let stall = Duration::from_millis(400);
        let (address, shutdown) = port(Bounds { connections: 3, stall }).await;
        let connect = || async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert!(asks(&mut stream, "/large").await);
            stream
        };
        let (mut silent, mut slow) = (connect().await, connect().await);
        let begun = std::time::Instant::now();
        let (mut read, mut piece) = (0, vec![0; LARGE / 20]);
        while read < LARGE {
            // It takes longer in all than anybody may rest.
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
