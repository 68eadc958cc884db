//! The gate for everything that leaves the daemon: it knows the privacy mode, makes the only HTTP clients, and sends every
//! request ([`Outbound::send`]).
//!
//! File content goes to embedding servers on other machines only in mode `cloud_embedding_ok`, questions and excerpts to
//! language models there also in mode `cloud_reasoning_ok`. Downloads of models send nothing of the user's and happen only
//! when asked for.
//!
//! Once there is a log ([`keep_log`]), every refusal, every download, and in the modes other than `local_only` every
//! request is written to it before it goes out; what cannot be written does not go out.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Url};
use tokio::sync::Semaphore;

use crate::catalog::AuditLog;
use crate::embed::addresses;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::model::{AuditRecord, PrivacyMode};

/// The log of this process. One for all, because there is one gate.
static LOG: OnceLock<AuditLog> = OnceLock::new();

/// Certificates that servers are trusted by beside those of the system.
static TRUSTED: OnceLock<Vec<Certificate>> = OnceLock::new();

/// Reaching a server takes no longer than this, or it is away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Looking the name of a server up takes no longer than this, or it cannot be resolved.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Names that are looked up at the same time.
static RESOLVING: Semaphore = Semaphore::const_new(8);

/// A server may have to load a model of some gigabytes before its first answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// A download that gives nothing for this long is dead.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The hint for a server that is not there; whoever knows which it is has a better one.
pub(crate) const AWAY: &str = "is the server running there?";

/// Model hubs answer with one or two redirects to their storage.
const MAX_REDIRECTS: usize = 5;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Texts of files and questions to vectors.
    Embedding,
    /// Questions, excerpts and images to a language model.
    Reasoning,
    /// Models and libraries, from where the user said.
    Download,
    /// Web pages that the user wants in the index: what is sent is their address.
    Page,
}

impl Purpose {
    /// Returns the name that the audit log has.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Embedding => "embedding",
            Purpose::Reasoning => "reasoning",
            Purpose::Download => "download",
            Purpose::Page => "page",
        }
    }

    /// Says whether a privacy mode lets this go to other machines.
    pub fn may_leave(self, mode: PrivacyMode) -> bool {
        match self {
            Purpose::Embedding => mode == PrivacyMode::CloudEmbeddingOk,
            Purpose::Reasoning | Purpose::Page => mode != PrivacyMode::LocalOnly,
            Purpose::Download => true,
        }
    }

    /// The mode that lets it.
    fn needed(self) -> PrivacyMode {
        match self {
            Purpose::Embedding => PrivacyMode::CloudEmbeddingOk,
            Purpose::Reasoning | Purpose::Page => PrivacyMode::CloudReasoningOk,
            Purpose::Download => PrivacyMode::LocalOnly,
        }
    }
}

/// Writes what goes out, from now on, into this log. The first call of a process decides.
pub fn keep_log(log: AuditLog) {
    // A second log would hide half of the requests from whoever reads the first.
    let _second = LOG.set(log);
}

/// Trusts the certificates of a PEM file, beside those of the system, whenever a server embeds or reasons; neither downloads
/// nor pages of the web. The first call of a process decides.
///
/// # Errors
/// The file cannot be read, or `InvalidArgument`: it holds no certificate.
pub(crate) fn trust(path: &Path) -> Result<()> {
    let _second = TRUSTED.set(certificates(path)?);
    Ok(())
}

fn certificates(path: &Path) -> Result<Vec<Certificate>> {
    let wrong = |what: String| {
        Error::invalid(format!("`{}` {what}", path.display()))
            .hint("VIC_SERVERS_CA names a PEM file with the certificates of who signs your servers'")
    };
    let pem = std::fs::read(path).at("read", path)?;
    let found =
        Certificate::from_pem_bundle(&pem).map_err(|error| wrong(format!("is no PEM file: {}", cause(&error))))?;
    if found.is_empty() {
        return Err(wrong("holds no certificate".into()));
    }
    // One that nothing can be checked with is found here, and not with the first request.
    let tried = trusting(reqwest::Client::builder(), &found).build();
    tried.map_err(|error| wrong(format!("holds a certificate that cannot be used: {}", cause(&error))))?;
    Ok(found)
}

fn trusting(builder: reqwest::ClientBuilder, certificates: &[Certificate]) -> reqwest::ClientBuilder {
    certificates.iter().cloned().fold(builder, reqwest::ClientBuilder::add_root_certificate)
}

/// Writes one line into the log, if there is one.
fn note(destination: String, bytes: u64, purpose: Purpose, mode: PrivacyMode, allowed: bool) -> Result<()> {
    let Some(log) = LOG.get() else { return Ok(()) };
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    log.add(&AuditRecord { time_ms, destination, bytes, purpose: purpose.name().into(), privacy_mode: mode, allowed })
}

/// Writes down a download that another program makes for us.
pub(crate) async fn announce_download(url: &str) -> Result<()> {
    let destination = parse(url)?.origin().ascii_serialization();
    let noting = move || note(destination, 0, Purpose::Download, PrivacyMode::LocalOnly, true);
    tokio::task::spawn_blocking(noting).await.map_err(Error::internal)?
}

/// Writes down a text that goes to another program of this machine, in every mode: what that program does with it is out of
/// our sight.
pub(crate) async fn announce_command(program: String, bytes: usize, mode: PrivacyMode) -> Result<()> {
    let noting = move || note(format!("command:{program}"), bytes as u64, Purpose::Reasoning, mode, true);
    tokio::task::spawn_blocking(noting).await.map_err(Error::internal)?
}

/// The way out to one server, for one purpose, in one privacy mode.
pub(crate) struct Outbound {
    client: reqwest::Client,
    purpose: Purpose,
    mode: PrivacyMode,
}

impl Outbound {
    /// Begins a request.
    pub(crate) fn get(&self, url: &str) -> reqwest::RequestBuilder {
        self.client.get(url)
    }

    /// Begins a request with a body.
    pub(crate) fn post(&self, url: &str) -> reqwest::RequestBuilder {
        self.client.post(url)
    }

    /// Sends a request: the one place through which all of them pass.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, SendError> {
        let request = request.build().map_err(SendError::Sent)?;
        let bytes = request.body().and_then(reqwest::Body::as_bytes).map_or(0, <[u8]>::len);
        let destination = request.url().origin().ascii_serialization();
        tracing::debug!(destination, bytes, purpose = self.purpose.name(), mode = self.mode.name(), "request");
        if self.mode != PrivacyMode::LocalOnly || self.purpose == Purpose::Download {
            let (purpose, mode) = (self.purpose, self.mode);
            let noted = tokio::task::spawn_blocking(move || note(destination, bytes as u64, purpose, mode, true)).await;
            noted.map_err(Error::internal).and_then(|it| it).map_err(SendError::Unlogged)?;
        }
        self.client.execute(request).await.map_err(SendError::Sent)
    }
}

/// Why a request got no answer.
#[derive(Debug)]
pub(crate) enum SendError {
    /// It could not be written into the log, and did not go out.
    Unlogged(Error),
    /// It went wrong on its way.
    Sent(reqwest::Error),
}

impl SendError {
    /// Says whether nobody was there to ask.
    pub(crate) fn is_connect(&self) -> bool {
        matches!(self, SendError::Sent(error) if error.is_connect())
    }

    /// The error that names the server.
    pub(crate) fn at(self, url: &str) -> Error {
        match self {
            SendError::Unlogged(error) => error,
            SendError::Sent(error) => {
                let code = if error.is_timeout() { ErrorCode::DeadlineExceeded } else { ErrorCode::Unavailable };
                Error::new(code, format!("cannot reach `{url}`: {}", cause(&error))).hint(AWAY)
            }
        }
    }
}

/// Says whether a request for `purpose` may go to `url`: to this machine in every mode, to others as
/// [`Purpose::may_leave`] says. A host name counts as this machine only when every address it resolves to does.
///
/// # Errors
/// [`ErrorCode::PermissionDenied`] with the mode that would allow it; [`ErrorCode::InvalidArgument`] for what is no
/// http address; [`ErrorCode::Unavailable`] for a name that does not resolve.
pub fn check(url: &str, mode: PrivacyMode, purpose: Purpose) -> Result<()> {
    addresses(&parse(url)?, mode, purpose).map(|_| ())
}

/// Makes a client for one server. It connects to the addresses that were checked and no others: no proxy, no redirect,
/// and no second look at the name.
///
/// # Errors
/// As [`check`], also [`ErrorCode::Unavailable`] for a name that is not resolved in time.
pub(crate) async fn client(url: &str, mode: PrivacyMode, purpose: Purpose, key: Option<&str>) -> Result<Outbound> {
    let trusted = match purpose {
        Purpose::Embedding | Purpose::Reasoning => TRUSTED.get().map(Vec::as_slice).unwrap_or_default(),
        Purpose::Download | Purpose::Page => &[],
    };
    let (server, key) = (url.to_string(), key.map(String::from));
    let made = move || client_trusting(&server, mode, purpose, key.as_deref(), trusted);
    resolving(&parse(url)?, RESOLVE_TIMEOUT, made).await
}

/// Runs what looks a name up and reads certificates, which blocks, elsewhere and no longer than this. A name server that is
/// away holds its thread for longer than that: so few at once that it does not hold all of them, and a server that is on this
/// machine or has a number does not wait for it.
async fn resolving<T: Send + 'static>(
    url: &Url,
    most: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let resolved = async {
        let place = match url.domain().is_some() && !may_be_local(url) {
            true => Some(RESOLVING.acquire().await.map_err(Error::internal)?),
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

fn client_trusting(
    url: &str,
    mode: PrivacyMode,
    purpose: Purpose,
    key: Option<&str>,
    trusted: &[Certificate],
) -> Result<Outbound> {
    let url = parse(url)?;
    addresses::note(url.host_str().unwrap_or_default());
    let addresses = addresses(&url, mode, purpose)?;
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| Error::invalid("the API key holds characters that no header can carry"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let host = url.host_str().unwrap_or_default();
    let client = trusting(reqwest::Client::builder(), trusted)
        .no_proxy()
        .redirect(Policy::none())
        .resolve_to_addrs(host, &addresses)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(ANSWER_TIMEOUT)
        .default_headers(headers)
        .build()
        .map_err(Error::internal)?;
    Ok(Outbound { client, purpose, mode })
}

/// Makes the client for downloads that the user has asked for; it follows the proxy settings of the system.
pub(crate) fn download_client() -> Result<Outbound> {
    let policy = Policy::custom(|attempt| {
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if check_download(attempt.url().as_str()).is_err() {
            attempt.error("redirected to an address that is not encrypted")
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
    Ok(Outbound { client, purpose: Purpose::Download, mode: PrivacyMode::LocalOnly })
}

/// Says whether a download may come from `url`: https, or a server on this machine.
pub(crate) fn check_download(url: &str) -> Result<()> {
    let parsed = parse(url)?;
    if parsed.scheme() == "https" || checked_addresses(&parsed, PrivacyMode::LocalOnly, Purpose::Embedding).is_ok() {
        return Ok(());
    }
    Err(Error::new(ErrorCode::PermissionDenied, format!("`{url}` is not encrypted")).hint("use an https address"))
}

/// Returns the innermost cause of a failed request: the outer ones say no more than that it failed.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    if let Some(status) = error.status() {
        return format!("the server answered {status}");
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn parse(url: &str) -> Result<Url> {
    let parsed = Url::parse(url).map_err(|error| Error::invalid(format!("`{url}` is no address: {error}")))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(Error::invalid(format!("`{url}` is no http address")).hint("write e.g. http://127.0.0.1:11434"));
    }
    Ok(parsed)
}

/// The addresses of a server that may be asked; a refusal is written down.
fn addresses(url: &Url, mode: PrivacyMode, purpose: Purpose) -> Result<Vec<SocketAddr>> {
    checked_addresses(url, mode, purpose).inspect_err(|error| {
        if error.code == ErrorCode::PermissionDenied
            && let Err(problem) = note(url.origin().ascii_serialization(), 0, purpose, mode, false)
        {
            tracing::warn!(%problem, "cannot write a refusal into the audit log");
        }
    })
}

fn checked_addresses(url: &Url, mode: PrivacyMode, purpose: Purpose) -> Result<Vec<SocketAddr>> {
    let host = url.host_str().unwrap_or_default();
    let refused = || {
        Error::new(
            ErrorCode::PermissionDenied,
            format!("the privacy mode `{}` forbids sending text to `{host}`", mode.name()),
        )
        .hint(format!("use a server on this machine, or set VIC_PRIVACY_MODE={}", purpose.needed().name()))
    };
    // A name that is plainly elsewhere is not even asked of the name server.
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

/// Local are loopback addresses, `localhost` and the names below it.
fn may_be_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests;
