//! Accepts connections. On the Unix socket, rejects those of other users; on TCP, rejects those of other machines unless
//! remote access is configured.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Pause after a failed accept, so that a process without free file descriptors does not retry in a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// User id of root, who may connect because root has access to all files anyway.
const ROOT: u32 = 0;

/// A listening socket, with the rules for its clients.
pub(crate) enum Listener {
    /// Unix socket, for programs of the same user.
    Unix(UnixListener),
    /// TCP socket, for programs on this machine, and on other machines if `remote` is set.
    Tcp {
        /// The bound socket.
        listener: TcpListener,
        /// Whether other machines may connect.
        remote: bool,
    },
}

pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Addresses of a TCP connection; for a Unix socket, both are the loopback address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Address of the client.
    pub(crate) address: IpAddr,
    /// Port of the client; 0 for a Unix socket.
    pub(crate) port: u16,
    /// Address of this server on which the client connected.
    pub(crate) local: IpAddr,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { address: Ipv4Addr::LOCALHOST.into(), port: 0, local: Ipv4Addr::LOCALHOST.into() }
    }
}

impl Listener {
    /// Returns the next connection from a permitted client; closes all other connections.
    pub(crate) async fn accept(&self) -> (Socket, Peer) {
        loop {
            let accepted = match self {
                Listener::Unix(listener) => accept_unix(listener).await,
                Listener::Tcp { listener, remote } => accept_tcp(listener, *remote).await,
            };
            match accepted {
                Ok(Some(connection)) => return connection,
                Ok(None) => (),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn accept_unix(listener: &UnixListener) -> io::Result<Option<(Socket, Peer)>> {
    let (stream, _) = listener.accept().await?;
    // The mode of the socket file already keeps other users out. This check also works if the mode of the data directory
    // was changed.
    match stream.peer_cred() {
        Ok(peer) if may_connect(peer.uid(), rustix::process::geteuid().as_raw()) => {
            return Ok(Some((Socket::Unix(stream), Peer::default())));
        }
        Ok(peer) => tracing::warn!(uid = peer.uid(), "refused a connection of another user"),
        Err(error) => tracing::warn!(%error, "refused a connection of an unknown user"),
    }
    Ok(None)
}

/// Returns whether the user `peer` may connect to a socket of the user `own`.
fn may_connect(peer: u32, own: u32) -> bool {
    peer == own || peer == ROOT
}

async fn accept_tcp(listener: &TcpListener, remote: bool) -> io::Result<Option<(Socket, Peer)>> {
    let (stream, peer) = listener.accept().await?;
    if !remote && !peer.ip().to_canonical().is_loopback() {
        tracing::warn!(%peer, "refused a connection from another machine");
        return Ok(None);
    }
    // Ignores an error, because without this option responses are only slower.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr()?.ip();
    Ok(Some((Socket::Tcp(stream), Peer { address: peer.ip().to_canonical(), port: peer.port(), local })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_same_user_and_root_may_connect() {
        assert!(may_connect(1_000, 1_000) && may_connect(0, 1_000));
        assert!(!may_connect(1_001, 1_000) && !may_connect(1_000, 0));
    }
}
