//! Connections to Milvus Lite, which open the client's collections before they carry a request.
//!
//! Milvus Lite 3.2.2 opens a collection at the first request for it, without a lock. Two first requests at the same time,
//! as after a restart, open it twice: each copy has its own rows in memory and truncates the same log, so that rows whose
//! write had succeeded are lost. All requests of a client wait for its one connection, and the connection waits here.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use crate::generated::milvus::LoadCollectionRequest;
use crate::generated::milvus::milvus_service_client::MilvusServiceClient;
use crate::settings::OnConnect;

/// Maximum time to open the collections: Milvus Lite reads all their rows and builds missing indexes.
const OPEN_TIMEOUT: Duration = Duration::from_secs(600);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The collections that the client has loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    names: Arc<Mutex<BTreeSet<String>>>,
    /// Held while a connection opens the collections.
    opening: Arc<tokio::sync::Mutex<()>>,
}

impl Loaded {
    pub(crate) fn add(&self, name: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_string());
    }

    pub(crate) fn remove(&self, name: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    fn names(&self) -> Vec<String> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// A channel to Milvus Lite. Connects at the first request.
pub(crate) fn connect_lazy(endpoint: &Endpoint, loaded: Loaded, connected: Option<OnConnect>) -> Channel {
    let connector = LiteConnector { endpoint: endpoint.clone(), loaded, connected };
    endpoint.clone().connect_timeout(OPEN_TIMEOUT).connect_with_connector_lazy(connector)
}

struct LiteConnector {
    endpoint: Endpoint,
    loaded: Loaded,
    connected: Option<OnConnect>,
}

impl Service<Uri> for LiteConnector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (endpoint, loaded, connected) = (self.endpoint.clone(), self.loaded.clone(), self.connected.clone());
        // A task of its own, so that a caller that gives up cannot leave the lock while the server still opens.
        let opening = tokio::spawn(async move {
            let _opening = loaded.opening.lock().await;
            let names = loaded.names();
            if !names.is_empty() {
                open(endpoint.connect().await?, names).await?;
            }
            let stream = TcpStream::connect(authority(&uri)?).await?;
            stream.set_nodelay(true)?;
            if let Some(connected) = connected {
                connected.call();
            }
            Ok::<_, BoxError>(TokioIo::new(stream))
        });
        Box::pin(async move { opening.await? })
    }
}

/// Loads each collection, one after the other. A collection that cannot be loaded is open all the same; the call that
/// needs it reports the error.
async fn open(channel: Channel, names: Vec<String>) -> Result<(), BoxError> {
    let mut stub = MilvusServiceClient::new(channel);
    for collection_name in names {
        let request = LoadCollectionRequest { collection_name, replica_number: 1, ..Default::default() };
        tracing::debug!(collection = request.collection_name, "opening a collection after a new connection");
        stub.load_collection(request).await?;
    }
    Ok(())
}

fn authority(uri: &Uri) -> Result<String, BoxError> {
    let host = uri.host().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the address has no host"))?;
    let port = uri.port_u16().unwrap_or(80);
    Ok(format!("{host}:{port}"))
}
