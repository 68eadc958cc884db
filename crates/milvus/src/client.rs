//! The connection, and one call with its deadline and its retries.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status};

use crate::Result;
use crate::codes::{Failure, Retry, Subject, failure_of_grpc, failure_of_status};
use crate::error::{Error, ErrorKind, Origin};
use crate::generated::common::ClientInfo;
use crate::generated::milvus::milvus_service_client::MilvusServiceClient;
use crate::generated::milvus::{CheckHealthRequest, ConnectRequest, GetVersionRequest};
use crate::lite_connection::{self, Loaded};
use crate::reply::Reply;
use crate::retry::Attempts;
use crate::settings::{MAX_MESSAGE_BYTES, Settings, Token};
use crate::version::{Features, Version};

/// A router drops an idle connection without a word after some minutes; a ping every half minute keeps it, and finds a
/// server that is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// A server that does not answer a ping for this long is gone.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) type Stub = MilvusServiceClient<Channel>;

/// A connection to one server. A clone shares it; calls may run at the same time.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    read_timeout: Duration,
    write_timeout: Duration,
}

struct Inner {
    stub: Stub,
    token: Option<Token>,
    address: Arc<str>,
    authorization: Option<MetadataValue<Ascii>>,
    version: Version,
    loaded: Loaded,
}

/// What is special about one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'static str,
    /// The collection or alias that the call is about; empty if it is about none.
    pub(crate) subject: &'a str,
    pub(crate) deadline: Instant,
    /// Whether to load the collection if the server says that it is not loaded.
    pub(crate) loads: bool,
}

impl Client {
    /// Connects, and asks the server for its version.
    ///
    /// # Errors
    ///
    /// `Invalid` if the address, the certificates or the token cannot be used, and the errors of a call. The limit is
    /// `read_timeout` for each of the two requests.
    pub async fn connect(settings: Settings) -> Result<Self> {
        let address: Arc<str> = crate::error::clean(&settings.address).into();
        let origin = Origin { address: address.clone(), call: "Connect" };
        let endpoint = endpoint(&settings).map_err(|why| origin.invalid(why))?;
        let authorization =
            settings.token.as_ref().map(authorization).transpose().map_err(|why| origin.invalid(why))?;
        let Settings { token, read_timeout, write_timeout, connected, .. } = settings;
        let (stub, loaded) = (stub(endpoint.connect_lazy()), Loaded::default());
        let inner = Inner { stub, token, address, authorization, version: Version::parse(""), loaded };
        let mut client = Self { inner: Arc::new(inner), read_timeout, write_timeout };
        let version = client.ask_version().await?;
        if let Some(inner) = Arc::get_mut(&mut client.inner) {
            if version.is_lite() {
                inner.stub = self::stub(lite_connection::connect_lazy(&endpoint, inner.loaded.clone(), connected));
            }
            inner.version = version;
        }
        Ok(client)
    }

    /// The version that the server stated when the client connected.
    pub fn version(&self) -> &Version {
        &self.inner.version
    }

    /// What a server of this version can do.
    pub fn features(&self) -> Features {
        self.inner.version.features()
    }

    /// The collections that are loaded, and opened again after a restart of Milvus Lite.
    pub(crate) fn loaded(&self) -> &Loaded {
        &self.inner.loaded
    }

    /// The address of the server.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// Checks that the server is up and says that it is healthy. Makes one attempt, within `read_timeout`.
    ///
    /// # Errors
    ///
    /// `Unreachable` if the server is not healthy, and the errors of a call.
    pub async fn check_health(&self) -> Result<()> {
        let call = self.reading("CheckHealth", "");
        let send = |mut stub: Stub, request| async move { stub.check_health(request).await };
        let reply =
            self.attempt(call, CheckHealthRequest {}, &send).await.map_err(|failure| self.error(call, failure))?;
        if reply.is_healthy {
            return Ok(());
        }
        let reasons = crate::error::clean(&reply.reasons.join("; "));
        Err(self.origin(call.name).error(ErrorKind::Unreachable(format!("the server is not healthy: {reasons}"))))
    }

    async fn ask_version(&self) -> Result<Version> {
        let request = ConnectRequest { client_info: Some(client_info()) };
        let call = self.reading("Connect", "");
        let send = |mut stub: Stub, request| async move { stub.connect(request).await };
        let mut stated = String::new();
        match self.call(call, request, send).await {
            Ok(reply) => stated = reply.server_info.map(|info| info.build_tags).unwrap_or_default(),
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported(_)) => {}
            Err(error) => return Err(error),
        }
        let send = |mut stub: Stub, request| async move { stub.get_version(request).await };
        match self.call(self.reading("GetVersion", ""), GetVersionRequest {}, send).await {
            Ok(reply) => Ok(Version::parse(&reply.version)),
            // Milvus Lite 2.5.1 has no GetVersion; the server's own tag is as good.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported(_)) && !stated.is_empty() => {
                Ok(Version::parse(&stated))
            }
            Err(error) => Err(error),
        }
    }

    /// A call that changes nothing.
    pub(crate) fn reading<'a>(&self, name: &'static str, subject: &'a str) -> Call<'a> {
        let deadline = Instant::now() + self.read_timeout;
        Call { name, subject, deadline, loads: false }
    }

    /// A call that writes.
    pub(crate) fn writing<'a>(&self, name: &'static str, subject: &'a str) -> Call<'a> {
        let deadline = Instant::now() + self.write_timeout;
        Call { name, subject, deadline, loads: false }
    }

    pub(crate) fn origin(&self, call: &'static str) -> Origin {
        Origin { address: self.inner.address.clone(), call }
    }

    /// Sends a request until it succeeds, cannot succeed, or has no time left. All calls of this client may be repeated:
    /// an upsert names the keys of its rows.
    pub(crate) async fn call<Q, R, S, F>(&self, call: Call<'_>, request: Q, send: S) -> Result<R>
    where
        Q: Clone + Message,
        R: Reply,
        S: Fn(Stub, Request<Q>) -> F,
        F: Future<Output = std::result::Result<Response<R>, Status>>,
    {
        // The transport would break the connection, which looks like a server that is away.
        let size = request.encoded_len();
        if size > MAX_MESSAGE_BYTES {
            let why = format!("the request has {size} bytes, and the limit is {MAX_MESSAGE_BYTES}");
            return Err(self.origin(call.name).error(ErrorKind::TooLarge(why)));
        }
        let (mut attempts, mut earlier) = (Attempts::until(call.deadline), None);
        loop {
            let failure = match self.attempt(call, request.clone(), &send).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            if failure.kind == ErrorKind::TimedOut {
                // An earlier attempt says why there was not enough time.
                return Err(self.error(call, earlier.unwrap_or(failure)));
            }
            match failure.retry {
                Retry::Never => return Err(self.error(call, failure)),
                Retry::AfterLoad if call.loads => self.load_again(call).await?,
                Retry::AfterLoad | Retry::Later => {}
            }
            if !attempts.wait().await {
                return Err(self.error(call, failure));
            }
            earlier = Some(failure);
        }
    }

    async fn attempt<Q, R, S, F>(&self, call: Call<'_>, request: Q, send: &S) -> std::result::Result<R, Failure>
    where
        R: Reply,
        S: Fn(Stub, Request<Q>) -> F,
        F: Future<Output = std::result::Result<Response<R>, Status>>,
    {
        let late = || Failure { kind: ErrorKind::TimedOut, retry: Retry::Never };
        let left = call.deadline.saturating_duration_since(Instant::now());
        let mut request = Request::new(request);
        request.set_timeout(left);
        if let Some(authorization) = &self.inner.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        let subject = Subject { call: call.name, name: call.subject, is_lite: self.version().is_lite() };
        let begun = Instant::now();
        let sent = tokio::time::timeout_at(call.deadline, send(self.inner.stub.clone(), request)).await;
        tracing::debug!(call = call.name, micros = begun.elapsed().as_micros(), "call of Milvus");
        let reply = match sent.map_err(|_| late())? {
            Ok(reply) => reply.into_inner(),
            // The transport cancels a call at its deadline, too, and may notice first.
            Err(_) if Instant::now() >= call.deadline => return Err(late()),
            Err(status) => return Err(failure_of_grpc(&status, subject)),
        };
        let missing = || ErrorKind::Malformed("the status is missing".into());
        let status = reply.status().ok_or_else(|| Failure { kind: missing(), retry: Retry::Never })?;
        failure_of_status(status, subject).map_or(Ok(reply), Err)
    }

    /// Loads the collection within the deadline of the call that needs it. Boxed, because a load is a call itself.
    fn load_again<'a>(&'a self, call: Call<'a>) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            self.load_until(call.subject, call.deadline).await.map_err(|error| match error.kind() {
                ErrorKind::TimedOut => self.origin(call.name).error(ErrorKind::NotLoaded(call.subject.to_string())),
                _ => error,
            })
        })
    }

    /// The error of a failure. A server may quote the token; the error does not.
    fn error(&self, call: Call<'_>, failure: Failure) -> Error {
        let secret = self.inner.token.as_ref().map(Token::secret);
        let hide = |text: String| match secret {
            Some(secret) if !secret.is_empty() => {
                text.replace(secret, "(token)").replace(&STANDARD.encode(secret), "(token)")
            }
            _ => text,
        };
        self.origin(call.name).error(match failure.kind {
            ErrorKind::Unreachable(why) => ErrorKind::Unreachable(hide(why)),
            ErrorKind::Denied(why) => ErrorKind::Denied(hide(why)),
            ErrorKind::NotFound(what) => ErrorKind::NotFound(hide(what)),
            ErrorKind::TooLarge(why) => ErrorKind::TooLarge(hide(why)),
            ErrorKind::Overloaded(why) => ErrorKind::Overloaded(hide(why)),
            ErrorKind::Invalid(why) => ErrorKind::Invalid(hide(why)),
            ErrorKind::Server { code, message } => ErrorKind::Server { code, message: hide(message) },
            kind @ (ErrorKind::Unauthenticated
            | ErrorKind::NotLoaded(_)
            | ErrorKind::Unsupported(_)
            | ErrorKind::TimedOut
            | ErrorKind::Malformed(_)) => kind,
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.inner.address).field("version", &self.inner.version).finish()
    }
}

/// The server logs it. The host clock may be wrong, so that the local time stays out.
fn client_info() -> ClientInfo {
    ClientInfo { sdk_type: "vic".to_string(), sdk_version: env!("CARGO_PKG_VERSION").to_string(), ..Default::default() }
}

fn stub(channel: Channel) -> Stub {
    Stub::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES)
}

fn endpoint(settings: &Settings) -> std::result::Result<Endpoint, String> {
    let address = &settings.address;
    let is_tls = address.starts_with("https://");
    if !is_tls && !address.starts_with("http://") {
        return Err("the address does not begin with `http://` or `https://`".to_string());
    }
    let endpoint = Endpoint::from_shared(address.clone()).map_err(|_| "the address is not a URL".to_string())?;
    let endpoint = endpoint
        .connect_timeout(settings.connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true);
    if !is_tls {
        return Ok(endpoint);
    }
    let tls = match &settings.ca_pem {
        // Without this check, the client would trust no server, and say so at the handshake only.
        Some(pem) if !String::from_utf8_lossy(pem).contains("-----BEGIN CERTIFICATE-----") => {
            return Err("`ca_pem` has no certificate".to_string());
        }
        Some(pem) => ClientTlsConfig::new().with_native_roots().ca_certificate(Certificate::from_pem(pem)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    endpoint.tls_config(tls).map_err(|error| format!("the certificates cannot be used: {error}"))
}

fn authorization(token: &Token) -> std::result::Result<MetadataValue<Ascii>, String> {
    let mut value = MetadataValue::try_from(STANDARD.encode(token.secret()))
        .map_err(|_| "the token cannot be sent in a header".to_string())?;
    value.set_sensitive(true);
    Ok(value)
}
