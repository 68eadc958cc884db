//! Accepts connections, and drops those that may not talk to this daemon: other users on the Unix socket, other machines
//! on TCP, unless the configuration lets them.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures::stream::{self, Stream};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Pause after a failed accept. Without it a process that is out of file descriptors would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections of this daemon's own user.
pub(crate) fn unix(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> + Send {
    let own = rustix::process::geteuid().as_raw();
    stream::unfold(listener, move |listener| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match stream.peer_cred() {
                    // The socket's mode keeps others out already; this holds when the data directory was opened up.
                    Ok(peer) if peer.uid() == own => return Some((Ok(stream), listener)),
                    Ok(peer) => tracing::warn!(uid = peer.uid(), "refused a connection of another user"),
                    Err(error) => tracing::warn!(%error, "refused a connection of an unknown user"),
                },
                Err(error) => pause(&error).await,
            }
        }
    })
}

/// The next connection, from this machine unless `remote`.
pub(crate) async fn tcp(listener: &TcpListener, remote: bool) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) if remote || peer.ip().to_canonical().is_loopback() => {
                // Only latency is lost when it fails.
                let _ = stream.set_nodelay(true);
                return (stream, peer.ip());
            }
            Ok((_, peer)) => tracing::warn!(%peer, "refused a connection from another machine"),
            Err(error) => pause(&error).await,
        }
    }
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}
