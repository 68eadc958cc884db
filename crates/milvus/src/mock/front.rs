//! The port that clients see. It passes bytes on to the server, so that a test can break connections.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};

#[derive(Debug)]
pub(super) struct Front {
    address: SocketAddr,
    gate: Arc<Gate>,
    listener: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Gate {
    refuses: AtomicBool,
    connections: Mutex<Vec<AbortHandle>>,
}

impl Front {
    pub(super) async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let gate = Arc::new(Gate::default());
        let listener = tokio::spawn(accept(listener, server, gate.clone()));
        Ok(Self { address, gate, listener })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn refuse(&self, refuses: bool) {
        self.gate.refuses.store(refuses, Ordering::SeqCst);
    }

    pub(super) fn drop_connections(&self) {
        let mut connections = self.gate.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.drain(..).for_each(|connection| connection.abort());
    }

    pub(super) fn end(&self) {
        self.listener.abort();
        self.drop_connections();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, gate: Arc<Gate>) {
    while let Ok((client, _)) = listener.accept().await {
        if gate.refuses.load(Ordering::SeqCst) {
            continue;
        }
        let connection = tokio::spawn(pass_on(client, server)).abort_handle();
        gate.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

async fn pass_on(mut client: TcpStream, server: SocketAddr) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let _ = copy_bidirectional(&mut client, &mut server).await;
}
