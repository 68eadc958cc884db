//! Controls all outgoing network traffic of the daemon: enforces the privacy mode, creates all HTTP clients, and sends
//! every request ([`HttpClient::send`]).
//!
//! File content is sent to embedding servers on other machines only in mode `cloud_embedding_ok`. Questions and excerpts
//! are sent to language models on other machines in that mode and in mode `cloud_reasoning_ok`. Model downloads send no
//! user data and happen only on request.
//!
//! After [`set_audit_log`], the audit log records every refusal, every download, and, in modes other than `local_only`,
//! every request. Requests are logged before they are sent; if logging fails, the request is not sent.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Url};
use tokio::sync::Semaphore;

use crate::catalog::AuditLog;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::model::{AuditRecord, PrivacyMode};

/// The audit log of this process.
static AUDIT_LOG: OnceLock<AuditLog> = OnceLock::new();

/// CA certificates trusted in addition to the system's.
static EXTRA_CERTIFICATES: OnceLock<Vec<Certificate>> = OnceLock::new();

/// Timeout for connecting to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for resolving a host name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Permits for DNS lookups: at most 8 run at the same time.
static DNS_LOOKUPS: Semaphore = Semaphore::const_new(8);

/// Timeout for a complete response. It is long, because a server may have to load a model of several gigabytes first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// A download fails if no data arrive for this long.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Default hint for an unreachable server. Callers that know the kind of server replace it by a better one.
pub(crate) const SERVER_UNREACHABLE_HINT: &str = "check that the server is running at this address";

/// A download fails after this many redirects. Model hubs use one or two redirects to their storage.
const MAX_REDIRECTS: usize = 5;

/// The purpose of a request, which determines the privacy modes that allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Computes embeddings of file texts and questions.
    Embedding,
    /// Sends questions, excerpts and images to a language model.
    Reasoning,
    /// Downloads models and libraries from configured sources.
    Download,
    /// Fetches web pages that the user wants indexed. Only their address is sent.
    Page,
    /// Stores the index, with the texts of all files, in a database server.
    Index,
}

impl Purpose {
    /// Returns the name used in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Embedding => "embedding",
            Purpose::Reasoning => "reasoning",
            Purpose::Download => "download",
            Purpose::Page => "page",
            Purpose::Index => "index",
        }
    }

    /// Returns whether a privacy mode allows requests of this purpose to other machines.
    pub fn may_leave(self, mode: PrivacyMode) -> bool {
        match self {
            Purpose::Embedding => mode == PrivacyMode::CloudEmbeddingOk,
            Purpose::Reasoning | Purpose::Page | Purpose::Index => mode != PrivacyMode::LocalOnly,
            Purpose::Download => true,
        }
    }

    /// Returns the strictest privacy mode that allows requests of this purpose to other machines.
    fn required_mode(self) -> PrivacyMode {
        match self {
            Purpose::Embedding => PrivacyMode::CloudEmbeddingOk,
            Purpose::Reasoning | Purpose::Page | Purpose::Index => PrivacyMode::CloudReasoningOk,
            Purpose::Download => PrivacyMode::LocalOnly,
        }
    }
}

/// Sets the audit log for outgoing requests. Only the first call in a process has an effect.
pub fn set_audit_log(log: AuditLog) {
    // Ignores a second log, because the first one would then be incomplete.
    let _second = AUDIT_LOG.set(log);
}

/// Makes clients trust the CA certificates of a PEM file, in addition to the system's. Applies to embedding and
/// reasoning servers, but not to downloads and web pages. Only the first call in a process has an effect.
///
/// # Errors
/// The file cannot be read, or it contains no certificate (`InvalidArgument`).
pub(crate) fn trust_certificates(path: &Path) -> Result<()> {
    let _second = EXTRA_CERTIFICATES.set(read_certificates(path)?);
    Ok(())
}

fn read_certificates(path: &Path) -> Result<Vec<Certificate>> {
    let wrong = |what: String| {
        Error::invalid(format!("`{}` {what}", path.display()))
            .hint("set VIC_SERVERS_CA to a PEM file with your CA certificate")
    };
    let pem = std::fs::read(path).io_context("read", path)?;
    let found = Certificate::from_pem_bundle(&pem)
        .map_err(|error| wrong(format!("is not a PEM file: {}", innermost_cause(&error))))?;
    if found.is_empty() {
        return Err(wrong("contains no certificate".into()));
    }
    // Builds a client only to detect unusable certificates now instead of at the first request.
    let tried = add_certificates(reqwest::Client::builder(), &found).build();
    tried.map_err(|error| wrong(format!("contains an unusable certificate: {}", innermost_cause(&error))))?;
    Ok(found)
}

fn add_certificates(builder: reqwest::ClientBuilder, certificates: &[Certificate]) -> reqwest::ClientBuilder {
    certificates.iter().cloned().fold(builder, reqwest::ClientBuilder::add_root_certificate)
}

/// Appends a record of a request to the audit log. Does nothing if no log is set.
fn log_request(destination: String, bytes: u64, purpose: Purpose, mode: PrivacyMode, allowed: bool) -> Result<()> {
    let Some(log) = AUDIT_LOG.get() else { return Ok(()) };
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    log.add(&AuditRecord { time_ms, destination, bytes, purpose: purpose.name().into(), privacy_mode: mode, allowed })
}

/// Writes a download that another program performs for vic to the audit log.
pub(crate) async fn announce_download(url: &str) -> Result<()> {
    let destination = parse_http_url(url)?.origin().ascii_serialization();
    let noting = move || log_request(destination, 0, Purpose::Download, PrivacyMode::LocalOnly, true);
    tokio::task::spawn_blocking(noting).await.map_err(Error::internal)?
}

/// Checks whether vic may keep its index on the database server at `url`, and writes the connection to the audit log unless
/// the mode is `local_only`. Another machine must be reached by TLS. Returns the address to use: without TLS that of the
/// checked loopback device, as the name could mean another machine later.
///
/// # Errors
/// The same errors as [`check_allowed`], and [`ErrorCode::PermissionDenied`] for another machine without TLS.
pub(crate) async fn announce_database(url: &str, mode: PrivacyMode) -> Result<String> {
    let parsed = parse_http_url(url)?;
    redact_hosts::record_host(parsed.host_str().unwrap_or_default());
    let server = parsed.clone();
    let check = move || resolve_or_log_refusal(&server, mode, Purpose::Index);
    let addresses = with_dns_limit(&parsed, RESOLVE_TIMEOUT, check).await?;
    if parsed.scheme() == "http" && !addresses.iter().all(|it| it.ip().to_canonical().is_loopback()) {
        let text =
            format!("`{url}` is on another machine and does not use TLS, so that others could read the indexed text");
        return Err(Error::new(ErrorCode::PermissionDenied, text).hint("use an https address"));
    }
    let origin = parsed.origin().ascii_serialization();
    let address = match addresses.first() {
        Some(checked) if parsed.scheme() == "http" => format!("http://{checked}"),
        _ => origin.clone(),
    };
    if mode != PrivacyMode::LocalOnly {
        let noting = move || log_request(origin, 0, Purpose::Index, mode, true);
        tokio::task::spawn_blocking(noting).await.map_err(Error::internal)??;
    }
    Ok(address)
}

/// Returns a port of this machine that no program uses now, for a server that vic starts.
///
/// # Errors
/// [`ErrorCode::Unavailable`] if there is none.
pub(crate) fn free_local_port() -> Result<u16> {
    let find = || std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?.local_addr();
    let found = find().map_err(|error| Error::new(ErrorCode::Unavailable, format!("no free port: {error}")))?;
    Ok(found.port())
}

/// Writes to the audit log, in every privacy mode, that text is passed to another local program, because vic does not
/// control what that program sends.
pub(crate) async fn announce_command(program: String, bytes: usize, mode: PrivacyMode) -> Result<()> {
    let noting = move || log_request(format!("command:{program}"), bytes as u64, Purpose::Reasoning, mode, true);
    tokio::task::spawn_blocking(noting).await.map_err(Error::internal)?
}

/// An HTTP client for one purpose and one privacy mode. Except for downloads, it also connects to one server only.
pub(crate) struct HttpClient {
    client: reqwest::Client,
    purpose: Purpose,
    mode: PrivacyMode,
}

impl HttpClient {
    /// Starts building a GET request; send it with [`HttpClient::send`].
    pub(crate) fn get(&self, url: &str) -> reqwest::RequestBuilder {
        self.client.get(url)
    }

    /// Starts building a POST request; send it with [`HttpClient::send`].
    pub(crate) fn post(&self, url: &str) -> reqwest::RequestBuilder {
        self.client.post(url)
    }

    /// Logs and sends a request. All outgoing requests pass through here.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, SendError> {
        let request = request.build().map_err(SendError::Failed)?;
        let bytes = request.body().and_then(reqwest::Body::as_bytes).map_or(0, <[u8]>::len);
        let destination = request.url().origin().ascii_serialization();
        tracing::debug!(destination, bytes, purpose = self.purpose.name(), mode = self.mode.name(), "request");
        if self.mode != PrivacyMode::LocalOnly || self.purpose == Purpose::Download {
            let (purpose, mode) = (self.purpose, self.mode);
            let noted =
                tokio::task::spawn_blocking(move || log_request(destination, bytes as u64, purpose, mode, true)).await;
            noted.map_err(Error::internal).and_then(|it| it).map_err(SendError::LogFailed)?;
        }
        self.client.execute(request).await.map_err(SendError::Failed)
    }
}

/// Why a request was not sent or got no response.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The request could not be written to the audit log, so it was not sent.
    LogFailed(Error),
    /// The request was not valid, or failed on the network.
    Failed(reqwest::Error),
}

impl SendError {
    /// Returns whether the connection could not be established.
    pub(crate) fn is_connect(&self) -> bool {
        matches!(self, SendError::Failed(error) if error.is_connect())
    }

    /// Converts this into vic's error type, with a message that names the server.
    pub(crate) fn into_error(self, url: &str) -> Error {
        match self {
            SendError::LogFailed(error) => error,
            SendError::Failed(error) => {
                let code = if error.is_timeout() { ErrorCode::DeadlineExceeded } else { ErrorCode::Unavailable };
                Error::new(code, format!("cannot reach `{url}`: {}", innermost_cause(&error)))
                    .hint(SERVER_UNREACHABLE_HINT)
            }
        }
    }
}

/// Checks whether a request for `purpose` may be sent to `url`. This machine is always allowed; other machines if
/// [`Purpose::may_leave`] returns true. A host name counts as this machine only if all its addresses are loopback
/// addresses.
///
/// # Errors
/// [`ErrorCode::PermissionDenied`] with the mode that would allow it; [`ErrorCode::InvalidArgument`] if `url` is not an
/// http address; [`ErrorCode::Unavailable`] if the name does not resolve.
pub fn check_allowed(url: &str, mode: PrivacyMode, purpose: Purpose) -> Result<()> {
    resolve_or_log_refusal(&parse_http_url(url)?, mode, purpose).map(|_| ())
}

/// Creates a client for one server. It connects only to the addresses that were checked: without proxy, redirects or a
/// second DNS lookup. `key` is sent as the bearer token.
///
/// # Errors
/// The same errors as [`check_allowed`], and [`ErrorCode::Unavailable`] if the name does not resolve in time.
pub(crate) async fn open_client(
    url: &str,
    mode: PrivacyMode,
    purpose: Purpose,
    key: Option<&str>,
) -> Result<HttpClient> {
    let trusted = match purpose {
        Purpose::Embedding | Purpose::Reasoning => EXTRA_CERTIFICATES.get().map(Vec::as_slice).unwrap_or_default(),
        Purpose::Download | Purpose::Page | Purpose::Index => &[],
    };
    let (server, key) = (url.to_string(), key.map(String::from));
    let made = move || build_client(&server, mode, purpose, key.as_deref(), trusted);
    with_dns_limit(&parse_http_url(url)?, RESOLVE_TIMEOUT, made).await
}

/// Runs blocking work that resolves a host name on the blocking pool, with timeout `most`. An unresponsive DNS server
/// blocks the thread for longer than that, so a semaphore limits how many threads can hang. Local hosts and IP addresses
/// skip the semaphore.
async fn with_dns_limit<T: Send + 'static>(
    url: &Url,
    most: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let resolved = async {
        let place = match url.domain().is_some() && !may_be_local(url) {
            true => Some(DNS_LOOKUPS.acquire().await.map_err(Error::internal)?),
            false => None,
        };
        let work = move || {
            let _until_its_end = place;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(Error::internal)?
    };
    tokio::time::timeout(most, resolved).await.unwrap_or_else(|_| {
        let text = format!("cannot resolve `{}`: no answer within {most:?}", url.host_str().unwrap_or_default());
        Err(Error::new(ErrorCode::Unavailable, text))
    })
}

fn build_client(
    url: &str,
    mode: PrivacyMode,
    purpose: Purpose,
    key: Option<&str>,
    trusted: &[Certificate],
) -> Result<HttpClient> {
    let url = parse_http_url(url)?;
    redact_hosts::record_host(url.host_str().unwrap_or_default());
    let addresses = resolve_or_log_refusal(&url, mode, purpose)?;
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| Error::invalid("the API key contains characters that are invalid in an HTTP header"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let host = url.host_str().unwrap_or_default();
    let client = add_certificates(reqwest::Client::builder(), trusted)
        .no_proxy()
        .redirect(Policy::none())
        .resolve_to_addrs(host, &addresses)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(ANSWER_TIMEOUT)
        .default_headers(headers)
        .build()
        .map_err(Error::internal)?;
    Ok(HttpClient { client, purpose, mode })
}

/// Creates the client for downloads that the user requested. It uses the system's proxy settings.
pub(crate) fn download_client() -> Result<HttpClient> {
    let policy = Policy::custom(|attempt| {
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if check_download(attempt.url().as_str()).is_err() {
            attempt.error("redirected to an address that does not use https")
        } else {
            attempt.follow()
        }
    });
    let client = reqwest::Client::builder()
        .redirect(policy)
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(STALL_TIMEOUT)
        .user_agent(concat!("vic/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(Error::internal)?;
    Ok(HttpClient { client, purpose: Purpose::Download, mode: PrivacyMode::LocalOnly })
}

/// Checks that the address of a download uses https or is on this machine.
pub(crate) fn check_download(url: &str) -> Result<()> {
    let parsed = parse_http_url(url)?;
    if parsed.scheme() == "https" || resolve_allowed(&parsed, PrivacyMode::LocalOnly, Purpose::Embedding).is_ok() {
        return Ok(());
    }
    Err(Error::new(ErrorCode::PermissionDenied, format!("`{url}` does not use https")).hint("use an https address"))
}

/// Returns the innermost cause of a failed request, because the outer errors only tell that it failed.
pub(crate) fn innermost_cause(error: &reqwest::Error) -> String {
    if let Some(status) = error.status() {
        return format!("the server answered {status}");
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn parse_http_url(url: &str) -> Result<Url> {
    let parsed = Url::parse(url).map_err(|error| Error::invalid(format!("`{url}` is not a valid address: {error}")))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(Error::invalid(format!("`{url}` is not an http address")).hint("write e.g. http://127.0.0.1:11434"));
    }
    Ok(parsed)
}

/// Resolves a server and checks whether the mode allows its addresses. Writes a refusal to the audit log.
fn resolve_or_log_refusal(url: &Url, mode: PrivacyMode, purpose: Purpose) -> Result<Vec<SocketAddr>> {
    resolve_allowed(url, mode, purpose).inspect_err(|error| {
        if error.code == ErrorCode::PermissionDenied
            && let Err(problem) = log_request(url.origin().ascii_serialization(), 0, purpose, mode, false)
        {
            tracing::warn!(%problem, "cannot write a refused request to the audit log");
        }
    })
}

fn resolve_allowed(url: &Url, mode: PrivacyMode, purpose: Purpose) -> Result<Vec<SocketAddr>> {
    let host = url.host_str().unwrap_or_default();
    let refused = || {
        Error::new(
            ErrorCode::PermissionDenied,
            format!("the privacy mode `{}` forbids sending text to `{host}`", mode.name()),
        )
        .hint(format!("use a server on this machine, or set VIC_PRIVACY_MODE={}", purpose.required_mode().name()))
    };
    // Refuses, without a DNS lookup, a host that is certainly on another machine.
    let local_only = !purpose.may_leave(mode);
    if local_only && !may_be_local(url) {
        return Err(refused());
    }
    let port = url.port_or_known_default().unwrap_or(80);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<SocketAddr> = (bare, port)
        .to_socket_addrs()
        .map_err(|error| Error::new(ErrorCode::Unavailable, format!("cannot resolve `{host}`: {error}")))?
        .collect();
    if local_only && !addresses.iter().all(|it| it.ip().to_canonical().is_loopback()) {
        return Err(refused());
    }
    Ok(addresses)
}

/// Returns whether the host of an address is a loopback address, `localhost`, or a name that ends with `.localhost`.
fn may_be_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

pub(crate) mod redact_hosts;
#[cfg(test)]
mod tests;
