//! Access settings of the TCP port: keys, TLS and host names. They are validated at start, before models and index are
//! loaded.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;

use crate::config::{AuthMode, Config};
use crate::data_dir::keys::{self, MIN_KEY_CHARS};
use crate::error::{Error, Result};
use crate::serve::auth::authenticator::Authenticator;
use crate::serve::transport::certificate::{self, Certificate};

/// Validated access settings of the TCP port.
pub struct AccessConfig {
    /// Verifies keys; `None` if every program on this machine has access without a key.
    pub(crate) keys: Option<Arc<Authenticator>>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// The certificate that `tls` presents to clients.
    pub(crate) certificate: Option<Arc<Certificate>>,
    warnings: Vec<String>,
}

impl std::fmt::Debug for AccessConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("keys", &self.keys.is_some()).field("tls", &self.tls.is_some()).finish()
    }
}

impl AccessConfig {
    /// Validates the settings, reads the owner's key or creates it, and reads the certificate.
    ///
    /// # Errors
    /// Other machines could connect without a key or without TLS, or a file cannot be read or parsed.
    pub fn open(config: &Config) -> Result<AccessConfig> {
        check_remote_access(config)?;
        let mut warnings = Vec::new();
        let keys = match config.bridge.auth {
            AuthMode::Key => {
                let own = match &config.bridge.api_key {
                    Some(key) => key.clone(),
                    None => keys::load_or_create_owner_key(&config.key_path())?,
                };
                Some(Arc::new(Authenticator::new(&own, config.keys_path())))
            }
            AuthMode::Open => {
                warnings.push(format!(
                    "programs on this machine may query and index at {} without a key: unset VIC_BRIDGE_AUTH to require one",
                    config.listen
                ));
                None
            }
        };
        let (tls, certificate) = config.bridge.tls.as_ref().map(certificate::acceptor).transpose()?.unzip();
        if tls.is_none() && !is_local(config.listen) {
            warnings.push(format!("{} serves without TLS: only a proxy that adds TLS should connect", config.listen));
        }
        Ok(AccessConfig { keys, tls, certificate, warnings })
    }

    /// Returns whether the TCP port requires a key.
    pub fn auth_enabled(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns warnings about the access settings, for the owner.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Returns whether an address can be reached only from this machine. IPv4 addresses mapped to IPv6 count as IPv4:
/// `::ffff:127.0.0.1`.
pub(in crate::serve) fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Requires a strong key, and TLS, if other machines can reach the port directly or through a proxy.
fn check_remote_access(config: &Config) -> Result<()> {
    let (is_far, bridge) = (!is_local(config.listen), &config.bridge);
    let reached = match (is_far, bridge.plain) {
        (true, _) => format!("VIC_LISTEN `{}` is reachable from other machines", config.listen),
        (false, true) => "VIC_BRIDGE_PLAIN declares a proxy for other machines".into(),
        (false, false) => return Ok(()),
    };
    let refused = |why: &str, cure: &str| Err(Error::invalid(format!("{reached}, and {why}")).hint(cure));
    if bridge.auth == AuthMode::Open {
        return refused(
            "VIC_BRIDGE_AUTH is `none`",
            "unset VIC_BRIDGE_AUTH to require a key; or use 127.0.0.1 without VIC_BRIDGE_PLAIN",
        );
    }
    if bridge.tls.is_none() && !bridge.plain {
        return refused(
            "there is no certificate, so keys and answers could be intercepted",
            "set VIC_BRIDGE_TLS_CERT and VIC_BRIDGE_TLS_KEY; or VIC_BRIDGE_PLAIN=1 behind a proxy that adds TLS; or use \
             127.0.0.1",
        );
    }
    if bridge.api_key.as_ref().is_some_and(|it| it.len() < MIN_KEY_CHARS) {
        return refused(
            &format!("VIC_BRIDGE_API_KEY has fewer than {MIN_KEY_CHARS} characters"),
            "unset VIC_BRIDGE_API_KEY, and vicd creates a key; or set a longer one: `openssl rand -hex 32`",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::error::ErrorCode;

    fn check(variables: &[(&str, &str)]) -> Result<AccessConfig> {
        let dir = tempfile::tempdir().unwrap();
        let given = |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|(_, it)| OsString::from(it));
        let data = dir.path().as_os_str().to_owned();
        let lookup = move |name: &str| if name == "VIC_DATA_DIR" { Some(data.clone()) } else { given(name) };
        AccessConfig::open(&Config::from_lookup(&lookup)?)
    }

    #[test]
    fn remote_address_requires_key_and_tls() {
        for listen in ["0.0.0.0:0", "192.0.2.1:8765", "[::]:0"] {
            let listen = ("VIC_LISTEN", listen);
            for (more, named) in [
                (&[][..], "VIC_BRIDGE_TLS_CERT"),
                (&[("VIC_BRIDGE_API_KEY", "s3cret")], "VIC_BRIDGE_TLS_CERT"),
                (&[("VIC_BRIDGE_AUTH", "none"), ("VIC_BRIDGE_PLAIN", "1")], "VIC_BRIDGE_AUTH"),
            ] {
                let error = check(&[&[listen], more].concat()).unwrap_err();
                assert_eq!(error.code, ErrorCode::InvalidArgument);
                assert!(error.hint.as_deref().is_some_and(|it| it.contains(named)), "{error}");
            }
            let access = check(&[listen, ("VIC_BRIDGE_PLAIN", "1")]).unwrap();
            assert!(access.auth_enabled() && access.warnings()[0].contains("without TLS"));
        }
    }

    #[test]
    fn proxy_requires_key() {
        let error = check(&[("VIC_BRIDGE_PLAIN", "1"), ("VIC_BRIDGE_AUTH", "none")]).unwrap_err();
        assert!(error.message.contains("VIC_BRIDGE_AUTH") && error.hint.is_some(), "{error}");
    }

    // Case D8
    #[test]
    fn short_key_is_rejected_for_remote_access() {
        let [short, long] = ["s3cret-s3cret-s3cret-s3cret-s3c", "s3cret-s3cret-s3cret-s3cret-s3cr"];
        for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
            let with = |key| check(&[("VIC_LISTEN", listen), ("VIC_BRIDGE_PLAIN", "1"), ("VIC_BRIDGE_API_KEY", key)]);
            let error = with(short).unwrap_err();
            assert!(error.code == ErrorCode::InvalidArgument && error.hint.is_some(), "{error}");
            assert!(error.message.contains("32") && !error.message.contains("s3cret"), "{error}");
            with(long).unwrap();
        }
        // A short key is accepted if only this machine can connect.
        check(&[("VIC_BRIDGE_API_KEY", "s3cret")]).unwrap();
    }

    #[test]
    fn loopback_address_is_local_in_every_notation() {
        for listen in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:8765", "127.9.9.9:0"] {
            let access = check(&[("VIC_LISTEN", listen)]).unwrap();
            assert!(access.warnings().is_empty(), "{listen}");
        }
        assert!(check(&[("VIC_LISTEN", "[::ffff:192.0.2.1]:8765")]).is_err());
    }

    #[test]
    fn open_access_adds_warning() {
        let open = check(&[("VIC_BRIDGE_AUTH", "none")]).unwrap();
        assert!(!open.auth_enabled() && open.warnings()[0].contains("VIC_BRIDGE_AUTH"));
        let usual = check(&[]).unwrap();
        assert!(usual.auth_enabled() && usual.warnings().is_empty());
    }

    #[test]
    fn invalid_certificate_error_names_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cert.pem");
        std::fs::write(&path, "no certificate").unwrap();
        let path = path.to_str().unwrap();
        for (certificate, named) in [(path, path), ("/no/such.pem", "/no/such.pem")] {
            let error =
                check(&[("VIC_BRIDGE_TLS_CERT", certificate), ("VIC_BRIDGE_TLS_KEY", "/no/key.pem")]).unwrap_err();
            assert!(error.message.contains(named) && error.message.contains("VIC_BRIDGE_TLS_CERT"), "{error}");
        }
    }
}
