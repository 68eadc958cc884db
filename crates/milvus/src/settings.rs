//! How the client reaches the server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The largest request and the largest reply, in bytes. The server's own default limit of a message is 64 MiB.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// A handshake on a healthy network takes milliseconds; after this time the server is down or filtered.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A search on a loaded collection takes milliseconds, and a reload after a restart of the server seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// A batch of vectors of [`MAX_MESSAGE_BYTES`] over a slow link, with retries while the server limits the rate.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// A secret that identifies the user: `user:password`, or an API key. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Wraps the secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// A function to call after each new connection to Milvus Lite, when the collections that the client has loaded are open.
#[derive(Clone)]
pub struct OnConnect(Arc<dyn Fn() + Send + Sync>);

impl OnConnect {
    /// Wraps the function, which must not block.
    pub fn new(function: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    pub(crate) fn call(&self) {
        (self.0)();
    }
}

impl fmt::Debug for OnConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnConnect")
    }
}

/// Where the server is, and how long the client waits for it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `http://host:port` or `https://host:port`.
    pub address: String,
    /// The secret that each request carries, if the server demands one.
    pub token: Option<Token>,
    /// Certificates of authorities to trust besides those of the system, in PEM. Used with `https` only.
    pub ca_pem: Option<Vec<u8>>,
    /// Limit of a handshake with the server.
    pub connect_timeout: Duration,
    /// Limit of a call that reads, with its retries.
    pub read_timeout: Duration,
    /// Limit of a call that writes, with its retries.
    pub write_timeout: Duration,
    /// What to call after each new connection to Milvus Lite.
    pub connected: Option<OnConnect>,
}

impl Settings {
    /// The settings with an address, no token, the certificates of the system and the usual limits.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            token: None,
            ca_pem: None,
            connect_timeout: CONNECT_TIMEOUT,
            read_timeout: READ_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            connected: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_of_settings_hides_the_token() {
        let settings = Settings { token: Some(Token::new("root:secret")), ..Settings::new("http://localhost:19530") };
        let text = format!("{settings:?}");
        assert!(text.contains("19530") && !text.contains("secret"), "{text}");
    }
}
