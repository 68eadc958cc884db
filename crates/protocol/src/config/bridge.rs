//! Settings of the daemon's TCP port (HTTP): authentication, TLS and limits.

use std::path::PathBuf;

use http::uri::Authority;

use crate::config::sources::Settings;
use crate::error::{Error, Result};

/// Maximum of `VIC_BRIDGE_RATE_LIMIT_PER_MIN`: the limiter keeps this many timestamps per client address.
const MAX_RATE_LIMIT: u32 = 60_000;

/// Maximum of `VIC_BRIDGE_MAX_BODY_BYTES` (1 GiB): the server holds a request body in memory.
const MAX_BODY_BYTES: usize = 1 << 30;

/// Settings of the TCP port: API keys, TLS and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct BridgeConfig {
    /// `VIC_BRIDGE_API_KEY`: the key that clients of the TCP port must send. When absent, the key in the file
    /// [`crate::config::Config::key_path`] applies.
    pub api_key: Option<String>,
    /// `VIC_BRIDGE_AUTH`: whether a key is required.
    pub auth: AuthMode,
    /// `VIC_BRIDGE_HOSTS`: host names that requests may use, besides those of this machine.
    pub hosts: Vec<String>,
    /// `VIC_BRIDGE_TLS_CERT` and `VIC_BRIDGE_TLS_KEY`: certificate and key of the server; without them, no TLS.
    pub tls: Option<TlsFiles>,
    /// `VIC_BRIDGE_PLAIN`: whether the port may listen without TLS on an address that other machines can reach.
    pub plain: bool,
    /// `VIC_BRIDGE_RATE_LIMIT_PER_MIN`: maximum requests to `/v1/*` per key and address in any 60 seconds; 0 means no limit.
    pub rate_limit_per_min: u32,
    /// `VIC_BRIDGE_MAX_BODY_BYTES`: maximum size of an HTTP request body in bytes.
    pub max_body_bytes: usize,
}

/// Whether the TCP port requires an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// Every client must send an API key.
    Key,
    /// No API key is required: any program on this machine has access.
    Open,
}

impl AuthMode {
    /// Returns the value of `VIC_BRIDGE_AUTH` that selects this mode.
    pub fn name(self) -> &'static str {
        match self {
            AuthMode::Key => "key",
            AuthMode::Open => "none",
        }
    }
}

/// Paths of the server's TLS certificate and private key, both in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// The private key of the server's certificate.
    pub key: PathBuf,
}

impl Settings<'_> {
    pub(super) fn bridge(&self) -> Result<BridgeConfig> {
        let api_key = self.text("VIC_BRIDGE_API_KEY");
        if api_key.as_deref().is_some_and(|key| key.is_empty() || !key.chars().all(|it| it.is_ascii_graphic())) {
            return Err(Error::invalid("VIC_BRIDGE_API_KEY is empty or has characters other than visible ASCII")
                .hint("use letters, digits and punctuation without spaces: the key is sent in an HTTP header"));
        }
        let auth = self.auth()?;
        if auth == AuthMode::Open && api_key.is_some() {
            return Err(Error::invalid("VIC_BRIDGE_AUTH is `none`, but VIC_BRIDGE_API_KEY is set")
                .hint("unset one of the two variables: with `none` no key is checked"));
        }
        let rate_limit_per_min = self.parse("VIC_BRIDGE_RATE_LIMIT_PER_MIN", 120)?;
        if rate_limit_per_min > MAX_RATE_LIMIT {
            return Err(Error::invalid(format!(
                "VIC_BRIDGE_RATE_LIMIT_PER_MIN `{rate_limit_per_min}` is larger than {MAX_RATE_LIMIT}"
            ))
            .hint("use `0` for no limit"));
        }
        let max_body_bytes = self.parse("VIC_BRIDGE_MAX_BODY_BYTES", 2 << 20)?;
        if !(1..=MAX_BODY_BYTES).contains(&max_body_bytes) {
            return Err(Error::invalid(format!(
                "VIC_BRIDGE_MAX_BODY_BYTES `{max_body_bytes}` is not between 1 and {MAX_BODY_BYTES}"
            )));
        }
        let (hosts, tls, plain) = (self.hosts()?, self.tls()?, self.flag("VIC_BRIDGE_PLAIN", false)?);
        Ok(BridgeConfig { api_key, auth, hosts, tls, plain, rate_limit_per_min, max_body_bytes })
    }

    fn auth(&self) -> Result<AuthMode> {
        match self.text("VIC_BRIDGE_AUTH").as_deref() {
            None | Some("key") => Ok(AuthMode::Key),
            Some("none") => Ok(AuthMode::Open),
            Some(other) => {
                Err(Error::invalid(format!("unknown VIC_BRIDGE_AUTH `{other}`")).hint("use `key` or `none`"))
            }
        }
    }

    fn hosts(&self) -> Result<Vec<String>> {
        let names = self.text("VIC_BRIDGE_HOSTS").unwrap_or_default();
        let names = names.split(',').map(|it| it.trim().to_ascii_lowercase()).filter(|it| !it.is_empty());
        names.map(|it| if is_host(&it) { Ok(it) } else { Err(invalid_host(&it)) }).collect()
    }

    fn tls(&self) -> Result<Option<TlsFiles>> {
        match (self.path("VIC_BRIDGE_TLS_CERT")?, self.path("VIC_BRIDGE_TLS_KEY")?) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
            (None, None) => Ok(None),
            (one, _) => {
                let (set, unset) = match one {
                    Some(_) => ("VIC_BRIDGE_TLS_CERT", "VIC_BRIDGE_TLS_KEY"),
                    None => ("VIC_BRIDGE_TLS_KEY", "VIC_BRIDGE_TLS_CERT"),
                };
                Err(Error::invalid(format!("{set} is set, but {unset} is not")).hint("TLS needs both files"))
            }
        }
    }
}

/// Returns whether an HTTP `Host` header can hold this text. Hosts are compared literally, so other text never matches.
fn is_host(text: &str) -> bool {
    let is_plain = !text.contains(['@', '*']);
    is_plain && text.parse::<Authority>().is_ok_and(|it| !it.host().is_empty() && !text.ends_with(':'))
}

fn invalid_host(text: &str) -> Error {
    Error::invalid(format!("VIC_BRIDGE_HOSTS holds `{text}`, which is not a host")).hint(
        "use names as in `files.example` or `files.example:8443`, separated by commas, without `https://` and `*`",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;
    use crate::config::Config;

    fn check(variables: &[(&str, &str)]) -> Result<BridgeConfig> {
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        let home = |name: &str| (name == "HOME").then(|| "/home/anna".into());
        Config::from_lookup(&|name| variables.get(name).map(OsString::from).or_else(|| home(name))).map(|it| it.bridge)
    }

    #[test]
    fn invalid_value_is_rejected_by_name() {
        for (name, value) in [
            ("VIC_BRIDGE_HOSTS", "https://files.example"),
            ("VIC_BRIDGE_HOSTS", "*.example"),
            ("VIC_BRIDGE_HOSTS", "files.example:"),
            ("VIC_BRIDGE_HOSTS", "files example"),
            ("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "60001"),
            ("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "many"),
            ("VIC_BRIDGE_MAX_BODY_BYTES", "0"),
            ("VIC_BRIDGE_AUTH", "off"),
            ("VIC_BRIDGE_PLAIN", "perhaps"),
        ] {
            let error = check(&[(name, value)]).unwrap_err();
            assert!(error.message.contains(name) && error.message.contains(value), "{error}");
        }
    }

    #[test]
    fn vic_bridge_rate_limit_per_min_is_120_by_default() {
        assert_eq!(check(&[]).unwrap().rate_limit_per_min, 120);
        assert_eq!(check(&[("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0")]).unwrap().rate_limit_per_min, 0);
    }

    #[test]
    fn vic_bridge_max_body_bytes_is_2_mib_by_default() {
        assert_eq!(check(&[]).unwrap().max_body_bytes, 2_097_152);
    }

    #[test]
    fn vic_bridge_api_key_defaults_to_none_and_fits_header() {
        assert_eq!(check(&[]).unwrap().api_key, None);
        assert_eq!(check(&[("VIC_BRIDGE_API_KEY", "s3cret")]).unwrap().api_key.as_deref(), Some("s3cret"));
        let error = check(&[("VIC_BRIDGE_API_KEY", "two words")]).unwrap_err();
        assert!(error.message.contains("VIC_BRIDGE_API_KEY") && !error.message.contains("two words"), "{error}");
    }

    #[test]
    fn vic_bridge_auth_defaults_to_key_and_none_excludes_key() {
        assert_eq!(check(&[]).unwrap().auth, AuthMode::Key);
        assert_eq!(check(&[("VIC_BRIDGE_AUTH", "none")]).unwrap().auth, AuthMode::Open);
        let error = check(&[("VIC_BRIDGE_AUTH", "none"), ("VIC_BRIDGE_API_KEY", "s3cret")]).unwrap_err();
        assert!(error.message.contains("VIC_BRIDGE_API_KEY") && !error.message.contains("s3cret"), "{error}");
    }

    #[test]
    fn tls_requires_both_files() {
        for (set, unset) in
            [("VIC_BRIDGE_TLS_CERT", "VIC_BRIDGE_TLS_KEY"), ("VIC_BRIDGE_TLS_KEY", "VIC_BRIDGE_TLS_CERT")]
        {
            assert!(check(&[(set, "/c")]).unwrap_err().message.contains(unset), "{set}");
        }
        let files = check(&[("VIC_BRIDGE_TLS_CERT", "/c"), ("VIC_BRIDGE_TLS_KEY", "/k")]).unwrap().tls.unwrap();
        assert_eq!((files.certificate, files.key), ("/c".into(), "/k".into()));
    }

    #[test]
    fn hosts_are_lowercased() {
        assert_eq!(
            check(&[("VIC_BRIDGE_HOSTS", " Files.Example, x:8443,")]).unwrap().hosts,
            ["files.example", "x:8443"]
        );
    }
}
