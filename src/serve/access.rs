//! What the TCP port asks of whoever connects, checked before anything is loaded: keys, TLS, names.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;

use crate::config::{AuthMode, Config};
use crate::data_dir::keys::{self, MIN_KEY_CHARS};
use crate::error::{Error, Result};
use crate::serve::certificate::{self, Certificate};
use crate::serve::ring::KeyRing;

/// See the module.
pub struct Access {
    /// None when every program on this machine passes.
    pub(crate) keys: Option<Arc<KeyRing>>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// What that shows.
    pub(crate) certificate: Option<Arc<Certificate>>,
    warnings: Vec<String>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("keys", &self.keys.is_some()).field("tls", &self.tls.is_some()).finish()
    }
}

impl Access {
    /// Reads or makes the key, and reads the certificate.
    ///
    /// # Errors
    /// Other machines could connect without a key or without TLS; a file cannot be read or understood.
    pub fn open(config: &Config) -> Result<Access> {
        check(config)?;
        let mut warnings = Vec::new();
        let keys = match config.bridge.auth {
            AuthMode::Key => {
                let own = match &config.bridge.api_key {
                    Some(key) => key.clone(),
                    None => keys::own_key(&config.key_path())?,
                };
                Some(Arc::new(KeyRing::new(&own, config.keys_path())))
            }
            AuthMode::Open => {
                warnings.push(format!(
                    "every program on this machine may ask, read and index at {}: VIC_BRIDGE_AUTH is `none`; unset it",
                    config.listen
                ));
                None
            }
        };
        let (tls, certificate) = config.bridge.tls.as_ref().map(certificate::acceptor).transpose()?.unzip();
        if tls.is_none() && !is_local(config.listen) {
            warnings.push(format!("{} speaks without TLS: let only a proxy that adds it reach it", config.listen));
        }
        Ok(Access { keys, tls, certificate, warnings })
    }

    /// Whether a key is asked for.
    pub fn auth_enabled(&self) -> bool {
        self.keys.is_some()
    }

    /// What the owner should know of the settings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Whether only programs of this machine reach an address, however it is written: `::ffff:127.0.0.1` is one of IPv4.
pub(super) fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// An address that other machines reach, itself or through a proxy, needs a key that cannot be guessed; and TLS.
fn check(config: &Config) -> Result<()> {
    let (is_far, bridge) = (!is_local(config.listen), &config.bridge);
    let reached = match (is_far, bridge.plain) {
        (true, _) => format!("VIC_LISTEN `{}` is not an address of this machine alone", config.listen),
        (false, true) => "VIC_BRIDGE_PLAIN says that a proxy passes others on".into(),
        (false, false) => return Ok(()),
    };
    let refused = |why: &str, cure: &str| Err(Error::invalid(format!("{reached}, and {why}")).hint(cure));
    if bridge.auth == AuthMode::Open {
        return refused(
            "VIC_BRIDGE_AUTH is `none`",
            "unset VIC_BRIDGE_AUTH, so that only who has the key may ask; or use 127.0.0.1, without VIC_BRIDGE_PLAIN",
        );
    }
    if bridge.tls.is_none() && !bridge.plain {
        return refused(
            "there is no certificate: keys and answers could be read",
            "set VIC_BRIDGE_TLS_CERT and VIC_BRIDGE_TLS_KEY; or VIC_BRIDGE_PLAIN=1 behind a proxy that adds TLS; or use \
             127.0.0.1",
        );
    }
    if bridge.api_key.as_ref().is_some_and(|it| it.len() < MIN_KEY_CHARS) {
        return refused(
            &format!("VIC_BRIDGE_API_KEY has less than {MIN_KEY_CHARS} characters"),
            "unset VIC_BRIDGE_API_KEY, and vicd makes a key; or take a longer one: `openssl rand -hex 32`",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::error::ErrorCode;

    fn check(variables: &[(&str, &str)]) -> Result<Access> {
        let dir = tempfile::tempdir().unwrap();
        let given = |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|(_, it)| OsString::from(it));
        let data = dir.path().as_os_str().to_owned();
        let lookup = move |name: &str| if name == "VIC_DATA_DIR" { Some(data.clone()) } else { given(name) };
        Access::open(&Config::from_lookup(&lookup)?)
    }

    #[test]
    fn an_address_for_other_machines_needs_a_key_and_tls() {
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
    fn behind_a_proxy_a_key_is_asked_for() {
        let error = check(&[("VIC_BRIDGE_PLAIN", "1"), ("VIC_BRIDGE_AUTH", "none")]).unwrap_err();
        assert!(error.message.contains("VIC_BRIDGE_AUTH") && error.hint.is_some(), "{error}");
    }

    #[test]
    fn a_key_that_could_be_guessed_opens_nothing_that_other_machines_reach() {
        let [short, long] = ["s3cret-s3cret-s3cret-s3cret-s3c", "s3cret-s3cret-s3cret-s3cret-s3cr"];
        for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
            let with = |key| check(&[("VIC_LISTEN", listen), ("VIC_BRIDGE_PLAIN", "1"), ("VIC_BRIDGE_API_KEY", key)]);
            let error = with(short).unwrap_err();
            assert!(error.code == ErrorCode::InvalidArgument && error.hint.is_some(), "{error}");
            assert!(error.message.contains("32") && !error.message.contains("s3cret"), "{error}");
            with(long).unwrap();
        }
        // Whoever is on this machine alone may have a short one.
        check(&[("VIC_BRIDGE_API_KEY", "s3cret")]).unwrap();
    }

    #[test]
    fn an_address_of_this_machine_is_one_however_it_is_written() {
        for listen in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:8765", "127.9.9.9:0"] {
            let access = check(&[("VIC_LISTEN", listen)]).unwrap();
            assert!(access.warnings().is_empty(), "{listen}");
        }
        assert!(check(&[("VIC_LISTEN", "[::ffff:192.0.2.1]:8765")]).is_err());
    }

    #[test]
    fn without_a_key_the_status_says_so() {
        let open = check(&[("VIC_BRIDGE_AUTH", "none")]).unwrap();
        assert!(!open.auth_enabled() && open.warnings()[0].contains("VIC_BRIDGE_AUTH"));
        let usual = check(&[]).unwrap();
        assert!(usual.auth_enabled() && usual.warnings().is_empty());
    }

    #[test]
    fn a_certificate_that_is_none_is_refused_with_its_path() {
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
