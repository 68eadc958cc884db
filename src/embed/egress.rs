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
mod tests {
    use super::*;

    fn code(url: &str, mode: PrivacyMode) -> Option<ErrorCode> {
        super::check(url, mode, Purpose::Embedding).err().map(|error| error.code)
    }

    #[test]
    fn text_stays_on_this_machine_unless_the_mode_says_otherwise() {
        for mode in [PrivacyMode::LocalOnly, PrivacyMode::CloudReasoningOk] {
            for url in ["http://127.0.0.1:11434", "http://localhost:1", "http://[::1]:8080/v1", "http://127.8.9.1"] {
                assert_eq!(code(url, mode), None, "{url}");
            }
            for url in [
                "http://192.168.1.9:11434",
                "https://api.example.com",
                "http://0.0.0.0:1",
                "http://[::ffff:10.0.0.1]/",
                "http://localhost.example.com",
                "http://127.0.0.1@example.com/",
                "http://10.0.0.1#127.0.0.1",
                // The server of a cloud that tells its machines their secrets, by its three names.
                "http://169.254.169.254/latest/meta-data",
                "http://2852039166/",
                "http://0xa9fea9fe/",
                "http://[::ffff:169.254.169.254]/",
            ] {
                assert_eq!(code(url, mode), Some(ErrorCode::PermissionDenied), "{url}");
            }
        }
        assert_eq!(code("http://192.168.1.9:11434", PrivacyMode::CloudEmbeddingOk), None);
    }

    #[test]
    fn questions_may_leave_in_both_cloud_modes_and_files_in_one() {
        let url = "http://192.168.1.9:11434";
        for (mode, purpose, expected) in [
            (PrivacyMode::LocalOnly, Purpose::Reasoning, "cloud_reasoning_ok"),
            (PrivacyMode::CloudReasoningOk, Purpose::Embedding, "cloud_embedding_ok"),
            (PrivacyMode::CloudReasoningOk, Purpose::Reasoning, ""),
            (PrivacyMode::CloudEmbeddingOk, Purpose::Reasoning, ""),
        ] {
            let hint = super::check(url, mode, purpose).err().map(|error| error.hint.unwrap()).unwrap_or_default();
            assert!(hint.contains(expected) && hint.is_empty() == expected.is_empty(), "{mode:?} {purpose:?}: {hint}");
        }
    }

    #[test]
    fn what_is_no_http_address_is_refused() {
        for url in ["", "127.0.0.1:80", "file:///etc/passwd", "ftp://127.0.0.1/"] {
            assert_eq!(code(url, PrivacyMode::CloudEmbeddingOk), Some(ErrorCode::InvalidArgument), "{url}");
        }
    }

    #[test]
    fn downloads_are_encrypted_or_local() {
        assert!(check_download("https://example.com/x").is_ok());
        assert!(check_download("http://127.0.0.1:9/x").is_ok());
        assert_eq!(check_download("http://example.com/x").unwrap_err().code, ErrorCode::PermissionDenied);
    }

    /// The records of one destination, newest first.
    fn logged(destination: &str) -> Vec<(u64, bool)> {
        let records = LOG.get().unwrap().list(1_000).unwrap();
        records.iter().filter(|it| it.destination == destination).map(|it| (it.bytes, it.allowed)).collect()
    }

    #[tokio::test]
    async fn what_goes_out_in_a_laxer_mode_and_what_is_refused_is_written_down() {
        use std::io::{Read, Write};
        let dir = tempfile::tempdir().unwrap().keep();
        keep_log(AuditLog::open(&dir.join("audit.sqlite")).unwrap());
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in server.incoming().take(2) {
                let mut stream = stream.unwrap();
                assert!(stream.read(&mut [0; 4_096]).unwrap() > 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            }
        });
        for (mode, records) in [(PrivacyMode::LocalOnly, vec![]), (PrivacyMode::CloudReasoningOk, vec![(5, true)])] {
            let outbound = client(&url, mode, Purpose::Reasoning, None).await.unwrap();
            assert!(outbound.send(outbound.post(&url).body("hello")).await.unwrap().status().is_success());
            assert_eq!(logged(&url), records, "{mode:?}");
        }
        assert!(client("https://192.0.2.7", PrivacyMode::LocalOnly, Purpose::Reasoning, None).await.is_err());
        assert_eq!(logged("https://192.0.2.7"), [(0, false)]);
    }

    #[tokio::test]
    async fn names_are_looked_up_elsewhere_and_not_for_ever() {
        // What is not done at once is not done on this thread, the only one.
        let mut made = std::pin::pin!(client("http://localhost:1", PrivacyMode::LocalOnly, Purpose::Reasoning, None));
        assert!(futures::poll!(&mut made).is_pending());
        made.await.unwrap();
        let [remote, local] = ["http://models.example", "http://127.0.0.1:1"].map(|it| parse(it).unwrap());
        let silent = || {
            std::thread::sleep(Duration::from_secs(2));
            Ok(())
        };
        // More than there are places: each is given up in its time, whether it had one or waited.
        let names = (0..9).map(|_| resolving(&remote, Duration::from_millis(50), silent));
        for refused in futures::future::join_all(names).await {
            assert_eq!(refused.unwrap_err().code, ErrorCode::Unavailable);
        }
        assert_eq!(resolving(&local, Duration::from_secs(20), || Ok(7)).await.unwrap(), 7);
    }

    /// For `localhost` and 127.0.0.1, signed by itself, until 2120.
    const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBZDCCAQqgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFGMJeciKjFuN7lH
yYPyLe6LGT6he374AqgKeq0eR97HTXIy2f3FjbOXS7gpyg1iaO1oSNkzeLSDxNlO
ih0/o7ajSzBJMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAMBgNVHRMBAf8E
AjAAMB0GA1UdDgQWBBQlcXi/piUr38Q2Wu/EN02J39U9zzAKBggqhkjOPQQDAgNI
ADBFAiEAlhPtvnzoNVUoCC5LEnhD3Y/fwMNAU9WL1ETbti9BcV4CIEay1Hq0KNm+
i4Na+6o8nw/Ptp2VaTmyr28kxrFrs4xQ
-----END CERTIFICATE-----
";

    /// Its private key, which protects nothing but this test.
    const PRIVATE: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0p7Wr2XZrHmEoERj
5dDIr1Kyyv7DglEQIPWnbKItY2ShRANCAARRjCXnIioxbje5R8mD8i3uixk+oXt+
+AKoCnqtHkfex01yMtn9xY2zl0u4KcoNYmjtaEjZM3i0g8TZToodP6O2
-----END PRIVATE KEY-----
";

    /// A server that shows the certificate; gives its address.
    async fn with_certificate() -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        use tokio_rustls::rustls::ServerConfig;
        use tokio_rustls::rustls::crypto::ring;
        use tokio_rustls::rustls::pki_types::pem::PemObject;
        use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let config = ServerConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(PRIVATE.as_bytes()).unwrap(),
            )
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // One that does not trust us goes away.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let _request = stream.read(&mut [0; 4_096]).await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _gone = stream.write_all(answer).await;
                let _gone = stream.shutdown().await;
            }
        });
        address
    }

    #[tokio::test]
    async fn a_server_is_trusted_by_a_certificate_of_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let pem = dir.path().join("ca.pem");
        std::fs::write(&pem, CERTIFICATE).unwrap();
        let url = with_certificate().await;
        let mode = PrivacyMode::LocalOnly;
        for (trusted, is_trusted) in [(vec![], false), (certificates(&pem).unwrap(), true)] {
            let outbound = client_trusting(&url, mode, Purpose::Reasoning, None, &trusted).unwrap();
            let answer = outbound.send(outbound.get(&url)).await;
            assert_eq!(answer.is_ok(), is_trusted, "{:?}", answer.err());
        }
    }

    #[test]
    fn a_file_without_a_certificate_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let pem = dir.path().join("ca.pem");
        let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["", "hello", PRIVATE, damaged, "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&pem, text).unwrap();
            let error = certificates(&pem).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{text}: {error}");
            assert!(error.message.contains("ca.pem") && error.hint.unwrap().contains("VIC_SERVERS_CA"));
        }
        assert_eq!(certificates(&dir.path().join("none")).unwrap_err().code, ErrorCode::NotFound);
    }
}
