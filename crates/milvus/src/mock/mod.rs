//! A server of Milvus for tests: it keeps collections in memory, on a port of the loopback device, and injects faults.
//!
//! It speaks the protocol of the full server with its codes of errors, as far as this client uses it. `front` holds the
//! connections, `faults` what goes wrong, `store` the collections, `expression` the filters, `answer` the replies to
//! reads, `service` the calls.

mod answer;
mod expression;
mod faults;
mod front;
mod row;
mod service;
mod server_state;
mod store;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};

use crate::generated::milvus::milvus_service_server::MilvusServiceServer;
use crate::settings::{MAX_MESSAGE_BYTES, Settings, Token};
use front::Front;
use server_state::ServerState;

pub use faults::{Fault, Malformed};
pub use tonic::Code;

/// A running server. It stops when it is dropped. The names of methods are those of the protocol, such as `Search`.
#[derive(Debug)]
pub struct MockServer {
    shared: Arc<ServerState>,
    server: JoinHandle<()>,
    scheme: &'static str,
}

impl MockServer {
    /// Starts a server of the version `v2.5.4` on a free port.
    ///
    /// # Errors
    ///
    /// Those of binding a port.
    pub async fn start() -> io::Result<Self> {
        Self::serve(Server::builder(), "http").await
    }

    /// Starts a server that speaks TLS, with a certificate for `127.0.0.1` and its key in PEM.
    ///
    /// # Errors
    ///
    /// Those of binding a port, and `InvalidInput` if the certificate or the key cannot be used.
    pub async fn start_tls(certificate: &str, key: &str) -> io::Result<Self> {
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        Self::serve(Server::builder().tls_config(tls).map_err(invalid)?, "https").await
    }

    async fn serve(mut builder: Server, scheme: &'static str) -> io::Result<Self> {
        let inner = TcpListener::bind("127.0.0.1:0").await?;
        let front = Front::start(inner.local_addr()?).await?;
        let shared = Arc::new(ServerState { state: Mutex::default(), front });
        let service = MilvusServiceServer::new(service::Service { shared: shared.clone() })
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let serving = builder.add_service(service).serve_with_incoming(TcpIncoming::from(inner));
        let server = tokio::spawn(async move { drop(serving.await) });
        Ok(Self { shared, server, scheme })
    }

    /// `http://127.0.0.1:port`, or with `https`.
    pub fn address(&self) -> String {
        format!("{}://{}", self.scheme, self.shared.front.address())
    }

    /// Settings of a client for this server, with its token and with limits of 5 seconds.
    pub fn settings(&self) -> Settings {
        let limit = Duration::from_secs(5);
        let token = self.shared.state().faults.token.clone().map(Token::new);
        Settings { token, read_timeout: limit, write_timeout: limit, ..Settings::new(self.address()) }
    }

    /// The next `times` calls of a method meet a fault; faults of one method come in the order of these requests.
    pub fn fail_next(&self, method: &str, times: usize, fault: &Fault) {
        self.shared.state().faults.add(method, times, fault);
    }

    /// Each call of a method meets a fault, after those of [`MockServer::fail_next`].
    pub fn fail_always(&self, method: &str, fault: Fault) {
        self.shared.state().faults.always.insert(method.to_string(), fault);
    }

    /// Ends all faults and restores the usual behaviour, except for the version, the token and the
    /// counts of calls.
    pub fn clear_faults(&self) {
        let mut state = self.shared.state();
        state.faults.clear();
        state.store.unusual = store::Unusual::default();
        self.shared.front.refuse(false);
    }

    /// Whether the server refuses writes, as one whose administrator switched them off (code 9).
    pub fn set_read_only(&self, is_read_only: bool) {
        self.shared.state().faults.read_only = is_read_only;
    }

    /// Whether the server refuses reads and writes for their rate (code 8).
    pub fn set_overloaded(&self, is_overloaded: bool) {
        self.shared.state().faults.overloaded = is_overloaded;
    }

    /// Demands this token of each later call, or none.
    pub fn demand_token(&self, token: Option<&str>) {
        self.shared.state().faults.token = token.map(str::to_string);
    }

    /// States another version to clients that connect later. Before 2.4, a delete has no timestamp; on Milvus Lite, no
    /// write has one.
    pub fn set_version(&self, version: &str) {
        self.shared.state().faults.version = version.to_string();
    }

    /// Lacks these methods, as an older server does.
    pub fn lack(&self, methods: &[&str]) {
        for method in methods {
            self.fail_always(method, Fault::Grpc(Code::Unimplemented, "unknown method".to_string()));
        }
    }

    /// A write stays unseen by this many reads, except those that name its timestamp or demand all writes. `None` shows
    /// each write at once.
    pub fn set_stale_reads(&self, reads: Option<u32>) {
        self.shared.state().store.unusual.stale_reads = reads;
    }

    /// Whether reads return deleted rows.
    pub fn set_returns_deleted(&self, returns: bool) {
        self.shared.state().store.unusual.returns_deleted = returns;
    }

    /// Whether reads return each row twice.
    pub fn set_duplicates(&self, duplicates: bool) {
        self.shared.state().store.unusual.duplicates = duplicates;
    }

    /// How many questions about an index, a load or a flush the server answers with "not yet".
    pub fn set_slow_builds(&self, polls: u32) {
        self.shared.state().store.unusual.polls = polls;
    }

    /// Breaks all connections. Clients can connect again.
    pub fn drop_connections(&self) {
        self.shared.front.drop_connections();
    }

    /// Breaks all connections, and closes each new one until [`MockServer::resume`].
    pub fn stop(&self) {
        self.shared.front.refuse(true);
        self.drop_connections();
    }

    /// Takes connections again.
    pub fn resume(&self) {
        self.shared.front.refuse(false);
    }

    /// Breaks all connections and releases all collections, as a restart of the server does. Rows stay.
    pub fn restart(&self) {
        self.shared.state().store.release_all();
        self.drop_connections();
        self.resume();
    }

    /// Deletes all collections and aliases, as the loss of the server's disk does.
    pub fn wipe(&self) {
        self.shared.state().store.wipe();
    }

    /// How many calls of a method came, failed ones included.
    pub fn calls(&self, method: &str) -> usize {
        self.shared.state().faults.calls.get(method).copied().unwrap_or(0)
    }

    /// How many rows a collection has, also those that reads do not see yet. `None` if there is no such collection or alias.
    pub fn row_count(&self, collection: &str) -> Option<usize> {
        self.shared.state().store.row_count(collection)
    }

    /// The names of all collections, in alphabetical order.
    pub fn collections(&self) -> Vec<String> {
        self.shared.state().store.names()
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        self.server.abort();
        self.shared.front.end();
    }
}
