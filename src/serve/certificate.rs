//! The certificate of the TCP port. It is read again when its files change: those who hand certificates out for a few weeks
//! have a program replace them at night, and nobody restarts a daemon for that. Where that program fails, the status says so
//! before whoever connects refuses the old one.

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
use crate::serve::validity::{self, Validity};

/// How often the files are looked at. To watch their folders would not do: what replaces the files may let a link far above
/// them lead elsewhere.
const LOOKS: Duration = Duration::from_secs(3);
/// Whoever replaces two files does so one after the other.
const SETTLE: Duration = Duration::from_millis(300);
/// Whoever looks at two files needs little.
const STACK_BYTES: usize = 256 << 10;

/// How long before its end a certificate is spoken of.
const NOTICE: TimeDelta = TimeDelta::days(14);

/// One that is handed out for a few days is renewed when a part of them is left: it is spoken of when only this part is.
const NOTICE_PART: i32 = 3;

/// Returns what speaks TLS with the certificate of these files, whatever is in them by then, and that certificate.
///
/// # Errors
/// `FailedPrecondition` when a file cannot be read or understood, or the two do not belong together.
pub(super) fn acceptor(files: &TlsFiles) -> Result<(TlsAcceptor, Arc<Certificate>)> {
    let certificate = Certificate::watched(files)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Error::internal)?
        .with_no_client_auth()
        .with_cert_resolver(certificate.clone());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), certificate))
}

/// What new connections are shown.
pub(crate) struct Certificate {
    files: TlsFiles,
    shown: RwLock<Arc<CertifiedKey>>,
    /// Why what is in the files now is not shown.
    refused: RwLock<Option<String>>,
}

impl Certificate {
    /// Reads the files, and again whenever they are others.
    fn watched(files: &TlsFiles) -> Result<Arc<Certificate>> {
        let seen = stamps(files);
        let shown = RwLock::new(Arc::new(read(files)?));
        let certificate = Arc::new(Certificate { files: files.clone(), shown, refused: RwLock::default() });
        certificate.warn();
        let weak = Arc::downgrade(&certificate);
        // Of its own: a file system that does not answer holds nobody up.
        let keeper = std::thread::Builder::new().name("certificate".into()).stack_size(STACK_BYTES);
        if let Err(error) = keeper.spawn(move || keep(&weak, seen)) {
            tracing::warn!(%error, "a new certificate will only be seen at the next start");
        }
        Ok(certificate)
    }

    /// Goes on with the old one when the new one is of no use.
    fn renew(&self) {
        let new = read(&self.files);
        let refused = new.as_ref().err().map(|error| {
            let cure = error.hint.as_deref().map(|it| format!(" ({it})")).unwrap_or_default();
            format!("goes on with the old certificate of the TCP port: {}{cure}", error.message)
        });
        *self.refused.write().unwrap_or_else(PoisonError::into_inner) = refused;
        match new {
            Ok(new) if new.cert == self.shown().cert => return,
            Ok(new) => {
                *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                tracing::info!(path = %self.files.certificate.display(), "new connections get the new certificate");
            }
            Err(_) => (),
        }
        self.warn();
    }

    /// That it is not valid yet, has expired or soon will, or that a new one is of no use, and the cure.
    pub(crate) fn problem(&self) -> Option<String> {
        let of_files = self.refused.read().unwrap_or_else(PoisonError::into_inner).clone();
        let of_shown = || problem(&self.files, self.shown().cert.first()?, Utc::now());
        match (of_files, of_shown()) {
            (Some(refused), Some(shown)) => Some(format!("{shown}; {refused}")),
            (one, other) => one.or(other),
        }
    }

    /// The same, where who checks it does not connect already.
    pub(crate) fn failure(&self) -> Option<String> {
        failure(&self.files, self.shown().cert.first()?, Utc::now())
    }

    fn warn(&self) {
        if let Some(problem) = self.problem() {
            tracing::warn!("{problem}");
        }
    }

    fn shown(&self) -> Arc<CertifiedKey> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown())
    }
}

/// What tells two states of a file apart: times, place and length; none of one that is not there.
type Stamp = Option<(i64, i64, u64, u64)>;

fn stamps(files: &TlsFiles) -> [Stamp; 2] {
    [&files.certificate, &files.key].map(|path| {
        let found = path.metadata().ok()?;
        Some((found.ctime(), found.ctime_nsec(), found.ino(), found.len()))
    })
}

/// Reads the files again when they are others than `seen`, as long as the certificate is shown.
fn keep(certificate: &Weak<Certificate>, mut seen: [Stamp; 2]) {
    loop {
        std::thread::sleep(LOOKS);
        let Some(certificate) = certificate.upgrade() else { return };
        let now = stamps(&certificate.files);
        if now != seen {
            seen = now;
            std::thread::sleep(SETTLE);
            certificate.renew();
        }
    }
}

/// What is to be said at a time of the server's own certificate. Those that signed it may have expired: whoever connects may
/// know others in their place.
fn problem(files: &TlsFiles, certificate: &[u8], now: DateTime<Utc>) -> Option<String> {
    let Validity { from, until } = validity::of(certificate)?;
    let left = until - now;
    let is_early = now < from;
    if !is_early && left > NOTICE.min((until - from) / NOTICE_PART) {
        return None;
    }
    let when = if is_early { from } else { until }.format("%Y-%m-%d %H:%M UTC");
    let told = match left < TimeDelta::zero() {
        _ if is_early => format!("is not valid before {when}: who checks it does not connect"),
        true => format!("has expired on {when}: who checks it does not connect"),
        false => format!("expires on {when}, and then who checks it does not connect"),
    };
    // The clock of a machine without a battery begins years ago.
    let look = if is_early { "look at the clock of this machine, or " } else { "" };
    let [certificate, key] = [&files.certificate, &files.key].map(|it| it.display());
    let cure = format!("{look}put a new one into `{certificate}` and its key into `{key}`; no restart is needed");
    Some(format!("the certificate of the TCP port {told} ({cure})"))
}

/// The same, unless that is only a notice.
fn failure(files: &TlsFiles, certificate: &[u8], now: DateTime<Utc>) -> Option<String> {
    problem(files, certificate, now).filter(|_| validity::of(certificate).is_some_and(|it| !it.holds_at(now)))
}

fn read(files: &TlsFiles) -> Result<CertifiedKey> {
    let wrong = |name: &str, path: &Path, error: &dyn fmt::Display| {
        Error::new(ErrorCode::FailedPrecondition, format!("cannot use {name} `{}`: {error}", path.display()))
            .hint("both files are PEM; the certificate's file holds the whole chain, the server's own first")
    };
    let certificate = |error: &dyn fmt::Display| wrong("VIC_BRIDGE_TLS_CERT", &files.certificate, error);
    let key = |error: &dyn fmt::Display| wrong("VIC_BRIDGE_TLS_KEY", &files.key, error);
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| certificate(&error))?;
    if chain.is_empty() {
        return Err(certificate(&"it holds no certificate"));
    }
    let private = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| key(&error))?;
    CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(|error| key(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a certificate for these days, so many seconds after the end of the last. Who shows no key hears of it
    /// where nobody connects who checks it, and not before.
    fn check(days: i64, seconds: i64) -> Option<String> {
        let until = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let files = TlsFiles { certificate: "/w/cert.pem".into(), key: "/w/key.pem".into() };
        let certificate = validity::made(until - TimeDelta::days(days), until);
        let now = until + TimeDelta::seconds(seconds);
        let (problem, failure) = (problem(&files, &certificate, now), failure(&files, &certificate, now));
        let is_refused = problem.as_ref().is_some_and(|it| !it.contains("expires on"));
        assert_eq!(failure, problem.clone().filter(|_| is_refused));
        problem
    }

    #[test]
    fn a_certificate_that_expires_is_told_with_its_day_and_its_cure_14_days_before() {
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
    fn one_for_a_few_days_is_not_spoken_of_while_there_is_time_to_renew_it() {
        const DAY: i64 = 24 * 3_600;
        assert_eq!(check(6, -2 * DAY - 1), None);
        assert!(check(6, -2 * DAY).unwrap().contains("expires on"));
    }

    #[test]
    fn one_that_is_not_valid_yet_is_told_with_its_day_whatever_is_left_of_it() {
        const DAY: i64 = 24 * 3_600;
        for (days, before) in [(365, 1), (365, 9_000 * DAY), (6, DAY)] {
            let told = check(days, -days * DAY - before).unwrap();
            let from = DateTime::from_timestamp(1_800_000_000 - days * DAY, 0).unwrap().format("%Y-%m-%d %H:%M UTC");
            assert!(told.contains(&format!("is not valid before {from}")) && told.contains("clock"), "{told}");
            assert!(told.contains("/w/cert.pem") && told.contains("/w/key.pem"), "{told}");
        }
        assert_eq!(check(365, -365 * DAY), None, "its first second is one of it");
    }

    #[test]
    fn of_what_cannot_be_understood_nothing_is_said() {
        let files = TlsFiles { certificate: "/w/cert.pem".into(), key: "/w/key.pem".into() };
        assert_eq!(problem(&files, b"no certificate", Utc::now()), None);
    }
}
