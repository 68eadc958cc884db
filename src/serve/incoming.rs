//! Accepts connections, and drops those that may not talk to this daemon: other users on the Unix socket, other machines
//! on TCP, unless the configuration lets them.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Pause after a failed accept. Without it a process that is out of file descriptors would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The user who may do everything anyway.
const ROOT: u32 = 0;

/// Where connections come from.
pub(crate) enum Listener {
    /// Programs of this user.
    Unix(UnixListener),
    /// Programs on this machine; on others too if `remote`.
    Tcp {
        /// Bound.
        listener: TcpListener,
        /// Whether other machines may connect.
        remote: bool,
    },
}

/// A connection.
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Both ends of a TCP connection; of a Unix socket, this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Who connected.
    pub(crate) address: IpAddr,
    /// What they connected to.
    pub(crate) local: IpAddr,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { address: Ipv4Addr::LOCALHOST.into(), local: Ipv4Addr::LOCALHOST.into() }
    }
}

impl Listener {
    /// The next connection that may be.
    pub(crate) async fn accept(&self) -> (Socket, Peer) {
        loop {
            let accepted = match self {
                Listener::Unix(listener) => unix(listener).await,
                Listener::Tcp { listener, remote } => tcp(listener, *remote).await,
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

async fn unix(listener: &UnixListener) -> io::Result<Option<(Socket, Peer)>> {
    let (stream, _) = listener.accept().await?;
    // The socket's mode keeps others out already; this holds when the data directory was opened up.
    match stream.peer_cred() {
        Ok(peer) if may_connect(peer.uid(), rustix::process::geteuid().as_raw()) => {
            return Ok(Some((Socket::Unix(stream), Peer::default())));
        }
        Ok(peer) => tracing::warn!(uid = peer.uid(), "refused a connection of another user"),
        Err(error) => tracing::warn!(%error, "refused a connection of an unknown user"),
    }
    Ok(None)
}

/// Whether a user may use the socket of another.
fn may_connect(peer: u32, own: u32) -> bool {
    peer == own || peer == ROOT
}

async fn tcp(listener: &TcpListener, remote: bool) -> io::Result<Option<(Socket, Peer)>> {
    let (stream, peer) = listener.accept().await?;
    if !remote && !peer.ip().to_canonical().is_loopback() {
        tracing::warn!(%peer, "refused a connection from another machine");
        return Ok(None);
    }
    // Only latency is lost when it fails.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr()?.ip();
    Ok(Some((Socket::Tcp(stream), Peer { address: peer.ip().to_canonical(), local })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_user_and_root_use_the_socket() {
        assert!(may_connect(1_000, 1_000) && may_connect(0, 1_000));
        assert!(!may_connect(1_001, 1_000) && !may_connect(1_000, 0));
    }
}
