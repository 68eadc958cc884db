//! The TLS certificate of the TCP port. A renewal program may replace the files of a short-lived certificate while the
//! daemon runs, so they are read again when they change. If the renewal fails, the status reports it before clients
//! reject the old certificate.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::config::TlsFiles;
use crate::error::{Error, ErrorCode, Result};
use crate::serve::transport::certificate_validity::{self, Validity};

/// How often the files are checked for changes. Watching their folders would not suffice, because a symbolic link
/// anywhere above them may change.
const POLL_INTERVAL: Duration = Duration::from_secs(3);
/// Delay between detecting a change and reading the files, because certificate and key are replaced one after the other.
const SETTLE_DELAY: Duration = Duration::from_millis(300);
/// Stack size of the polling thread in bytes; smaller than the default, because the thread does little.
const STACK_BYTES: usize = 256 << 10;

/// An expiry warning starts this long before the certificate expires.
const WARNING_PERIOD: TimeDelta = TimeDelta::days(14);

/// For short-lived certificates, the expiry warning starts only when 1/`WARNING_FRACTION` of the validity period remains.
const WARNING_FRACTION: i32 = 3;

/// Loads a certificate from `files`, and reloads it whenever the files change. Returns this certificate, and a TLS acceptor
/// that presents its current version to clients.
///
/// # Errors
/// `FailedPrecondition` if a file cannot be read or parsed, or if the certificate and the key do not match.
pub(in crate::serve) fn acceptor(files: &TlsFiles) -> Result<(TlsAcceptor, Arc<Certificate>)> {
    let certificate = Certificate::load_and_watch(files)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Error::internal)?
        .with_no_client_auth()
        .with_cert_resolver(certificate.clone());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), certificate))
}

/// The certificate that new connections get, kept up to date with its files.
pub(crate) struct Certificate {
    files: TlsFiles,
    current: RwLock<Arc<CertifiedKey>>,
    /// Why the files on disk are not used, while an older certificate is kept.
    load_error: RwLock<Option<String>>,
}

impl Certificate {
    /// Reads the files, and starts a thread that reads them again when they change.
    fn load_and_watch(files: &TlsFiles) -> Result<Arc<Certificate>> {
        let seen = file_stamps(files);
        let shown = RwLock::new(Arc::new(load_certificate(files)?));
        let certificate = Arc::new(Certificate { files: files.clone(), current: shown, load_error: RwLock::default() });
        certificate.log_problem();
        let weak = Arc::downgrade(&certificate);
        // Uses a separate thread, so that a file system that hangs blocks nothing else.
        let keeper = std::thread::Builder::new().name("certificate".into()).stack_size(STACK_BYTES);
        if let Err(error) = keeper.spawn(move || reload_on_change(&weak, seen)) {
            tracing::warn!(%error, "cannot watch the certificate files: a new certificate is loaded only at the next start");
        }
        Ok(certificate)
    }

    /// Reads the files again; keeps the old certificate if the new one is unusable.
    fn reload(&self) {
        let new = load_certificate(&self.files);
        let refused = new.as_ref().err().map(|error| {
            let cure = error.hint.as_deref().map(|it| format!(" ({it})")).unwrap_or_default();
            format!("the TCP port keeps its old certificate: {}{cure}", error.message)
        });
        *self.load_error.write().unwrap_or_else(PoisonError::into_inner) = refused;
        match new {
            Ok(new) if new.cert == self.current().cert => return,
            Ok(new) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                tracing::info!(path = %self.files.certificate.display(), "loaded a new certificate for new connections");
            }
            Err(_) => (),
        }
        self.log_problem();
    }

    /// Returns the problem of the certificate, with its fix: not yet valid, expired, expiring soon, or a new certificate
    /// that is unusable.
    pub(crate) fn problem(&self) -> Option<String> {
        let of_files = self.load_error.read().unwrap_or_else(PoisonError::into_inner).clone();
        let of_shown = || problem(&self.files, self.current().cert.first()?, Utc::now());
        match (of_files, of_shown()) {
            (Some(refused), Some(shown)) => Some(format!("{shown}; {refused}")),
            (one, other) => one.or(other),
        }
    }

    /// Returns the problem of the certificate only if clients that verify certificates already reject it.
    pub(crate) fn failure(&self) -> Option<String> {
        failure(&self.files, self.current().cert.first()?, Utc::now())
    }

    fn log_problem(&self) {
        if let Some(problem) = self.problem() {
            tracing::warn!("{problem}");
        }
    }

    fn current(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// Identifies a version of a file: ctime (seconds, nanoseconds), inode, length; `None` if the file is missing.
type FileStamp = Option<(i64, i64, u64, u64)>;

fn file_stamps(files: &TlsFiles) -> [FileStamp; 2] {
    [&files.certificate, &files.key].map(|path| {
        let found = path.metadata().ok()?;
        Some((found.ctime(), found.ctime_nsec(), found.ino(), found.len()))
    })
}

/// Reads the files again when their stamps differ from `seen`, for the lifetime of the certificate.
fn reload_on_change(certificate: &Weak<Certificate>, mut seen: [FileStamp; 2]) {
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let Some(certificate) = certificate.upgrade() else { return };
        let now = file_stamps(&certificate.files);
        if now != seen {
            seen = now;
            std::thread::sleep(SETTLE_DELAY);
            certificate.reload();
        }
    }
}

/// Returns the problem of the server's own certificate at the time `now`. The issuers' certificates are not checked,
/// because clients may have other, valid certificates of the same issuers.
fn problem(files: &TlsFiles, certificate: &[u8], now: DateTime<Utc>) -> Option<String> {
    let Validity { from, until } = certificate_validity::parse_validity(certificate)?;
    let left = until - now;
    let is_early = now < from;
    if !is_early && left > WARNING_PERIOD.min((until - from) / WARNING_FRACTION) {
        return None;
    }
    let when = if is_early { from } else { until }.format("%Y-%m-%d %H:%M UTC");
    let told = match left < TimeDelta::zero() {
        _ if is_early => format!("is not valid before {when}: clients that verify it cannot connect"),
        true => format!("has expired on {when}: clients that verify it cannot connect"),
        false => format!("expires on {when}; from then on, clients that verify it cannot connect"),
    };
    // Mentions the clock, because a machine without a clock battery may start with a date that is years in the past.
    let look = if is_early { "check the clock of this machine, or " } else { "" };
    let [certificate, key] = [&files.certificate, &files.key].map(|it| it.display());
    let cure = format!("{look}put a new one into `{certificate}` and its key into `{key}`; no restart is needed");
    Some(format!("the certificate of the TCP port {told} ({cure})"))
}

/// Returns the problem like [`problem`], but `None` if it is only an expiry warning.
fn failure(files: &TlsFiles, certificate: &[u8], now: DateTime<Utc>) -> Option<String> {
    problem(files, certificate, now)
        .filter(|_| certificate_validity::parse_validity(certificate).is_some_and(|it| !it.holds_at(now)))
}

fn load_certificate(files: &TlsFiles) -> Result<CertifiedKey> {
    let wrong = |name: &str, path: &Path, error: &dyn fmt::Display| {
        Error::new(ErrorCode::FailedPrecondition, format!("cannot use {name} `{}`: {error}", path.display()))
            .hint("both files must be PEM; the certificate file has the whole chain, the server's own first")
    };
    let certificate = |error: &dyn fmt::Display| wrong("VIC_BRIDGE_TLS_CERT", &files.certificate, error);
    let key = |error: &dyn fmt::Display| wrong("VIC_BRIDGE_TLS_KEY", &files.key, error);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| certificate(&error))?;
    if chain.is_empty() {
        return Err(certificate(&"the file contains no certificate"));
    }
    let private = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| key(&error))?;
    CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(|error| key(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the problem of a certificate that is valid for `days`, at `seconds` after its end. Checks that [`failure`]
    /// returns the same, unless the problem is only a warning.
    fn check(days: i64, seconds: i64) -> Option<String> {
        let until = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let files = TlsFiles { certificate: "/w/cert.pem".into(), key: "/w/key.pem".into() };
        let certificate = certificate_validity::test_certificate(until - TimeDelta::days(days), until);
        let now = until + TimeDelta::seconds(seconds);
        let (problem, failure) = (problem(&files, &certificate, now), failure(&files, &certificate, now));
        let is_refused = problem.as_ref().is_some_and(|it| !it.contains("expires on"));
        assert_eq!(failure, problem.clone().filter(|_| is_refused));
        problem
    }

    #[test]
    fn expiry_warning_starts_14_days_before_end() {
        const DAY: i64 = 24 * 3_600;
        assert_eq!(check(365, -14 * DAY - 1), None);
        for seconds in [-14 * DAY, -1, 0] {
            let told = check(365, seconds).unwrap();
            assert!(told.contains("expires on 2027-01-15 08:00 UTC") && told.contains("/w/cert.pem"), "{told}");
        }
        for seconds in [1, 1_000 * DAY] {
            let told = check(365, seconds).unwrap();
            assert!(told.contains("has expired on 2027-01-15 08:00 UTC") && told.contains("/w/key.pem"), "{told}");
        }
    }

    #[test]
    fn short_lived_certificate_warns_in_last_third() {
        const DAY: i64 = 24 * 3_600;
        assert_eq!(check(6, -2 * DAY - 1), None);
        assert!(check(6, -2 * DAY).unwrap().contains("expires on"));
    }

    #[test]
    fn not_yet_valid_certificate_is_reported() {
        const DAY: i64 = 24 * 3_600;
        for (days, before) in [(365, 1), (365, 9_000 * DAY), (6, DAY)] {
            let told = check(days, -days * DAY - before).unwrap();
            let from = DateTime::from_timestamp(1_800_000_000 - days * DAY, 0).unwrap().format("%Y-%m-%d %H:%M UTC");
            assert!(told.contains(&format!("is not valid before {from}")) && told.contains("clock"), "{told}");
            assert!(told.contains("/w/cert.pem") && told.contains("/w/key.pem"), "{told}");
        }
        assert_eq!(check(365, -365 * DAY), None, "valid from its first second");
    }

    #[test]
    fn unparsable_certificate_has_no_problem() {
        let files = TlsFiles { certificate: "/w/cert.pem".into(), key: "/w/key.pem".into() };
        assert_eq!(problem(&files, b"no certificate", Utc::now()), None);
    }
}
