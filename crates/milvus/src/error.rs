//! What can go wrong with a call.

use std::fmt;
use std::sync::Arc;

/// The longest text of a server in an error, in characters: a server may answer with its whole stack.
const MAX_MESSAGE_CHARS: usize = 300;

/// A failed call. `Display` is one sentence with the address, and never holds the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    origin: Origin,
    kind: ErrorKind,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No connection, or a broken one. Holds the reason.
    Unreachable(String),
    /// The server demands a token, or another one.
    Unauthenticated,
    /// The user lacks a right, or the server refuses writes. Holds the reason.
    Denied(String),
    /// The named collection, alias, index or field does not exist.
    NotFound(String),
    /// The collection is not in the memory of the server, and did not get there in time.
    NotLoaded(String),
    /// The server lacks the named call or function.
    Unsupported(String),
    /// A request or a reply exceeds the limit of a message. Holds the reason.
    TooLarge(String),
    /// The server limits the rate, or has no memory or no disk left. Holds the reason.
    Overloaded(String),
    /// The deadline of the call passed.
    TimedOut,
    /// A value that the caller gave is not allowed. Holds the reason.
    Invalid(String),
    /// The reply has another shape than the protocol says. Holds the reason.
    Malformed(String),
    /// Any other error of the server.
    Server {
        /// The code of the server, or of gRPC if the server gave none.
        code: i32,
        /// The text of the server: at most 300 characters, without control characters.
        message: String,
    },
}

/// The server and the call that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) address: Arc<str>,
    pub(crate) call: &'static str,
}

impl Origin {
    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error { origin: self.clone(), kind }
    }

    pub(crate) fn malformed(&self, reason: impl Into<String>) -> Error {
        self.error(ErrorKind::Malformed(clean(&reason.into())))
    }

    pub(crate) fn invalid(&self, reason: impl Into<String>) -> Error {
        self.error(ErrorKind::Invalid(clean(&reason.into())))
    }
}

impl Error {
    /// Why the call failed.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The address of the server.
    pub fn address(&self) -> &str {
        &self.origin.address
    }

    /// The name of the call in the protocol of Milvus, such as `Search`.
    pub fn call(&self) -> &str {
        self.origin.call
    }

    /// Whether the same call may succeed later without a change: the server is away, busy or slow.
    pub fn is_transient(&self) -> bool {
        use ErrorKind::{NotLoaded, Overloaded, TimedOut, Unreachable};
        matches!(self.kind, Unreachable(_) | NotLoaded(_) | Overloaded(_) | TimedOut)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { address, call } = &self.origin;
        match &self.kind {
            ErrorKind::Unreachable(why) => write!(f, "Milvus at `{address}` cannot be reached: {why}"),
            ErrorKind::Unauthenticated => write!(f, "Milvus at `{address}` does not accept the token"),
            ErrorKind::Denied(why) => write!(f, "Milvus at `{address}` does not permit `{call}`: {why}"),
            ErrorKind::NotFound(what) => write!(f, "Milvus at `{address}` has no {what}"),
            ErrorKind::NotLoaded(name) => write!(f, "Milvus at `{address}` has not loaded the collection `{name}`"),
            ErrorKind::Unsupported(what) => write!(f, "Milvus at `{address}` does not support `{what}`"),
            ErrorKind::TooLarge(why) => {
                write!(f, "a message of `{call}` is too large for Milvus at `{address}`: {why}")
            }
            ErrorKind::Overloaded(why) => write!(f, "Milvus at `{address}` is overloaded: {why}"),
            ErrorKind::TimedOut => write!(f, "Milvus at `{address}` did not answer `{call}` in time"),
            ErrorKind::Invalid(why) => write!(f, "`{call}` cannot be sent to Milvus at `{address}`: {why}"),
            ErrorKind::Malformed(why) => write!(f, "Milvus at `{address}` gave a wrong answer to `{call}`: {why}"),
            ErrorKind::Server { code, message } => {
                write!(f, "Milvus at `{address}` refused `{call}` with the code {code}: {message}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// The text without control characters, and not longer than an error may be.
pub(crate) fn clean(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c });
    printable.take(MAX_MESSAGE_CHARS).collect::<String>().trim().to_string()
}

/// Characters that reorder or split lines on a terminal.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_server_is_short_and_printable() {
        let text = clean(&format!("bad\u{1b}[31m\nline \u{202e}{}", "x".repeat(1000)));
        assert!(text.starts_with("bad [31m line"), "{text}");
        assert!(text.chars().count() <= MAX_MESSAGE_CHARS && !text.contains('\u{202e}'));
    }

    #[test]
    fn sentence_names_address_and_call() {
        let origin = Origin { address: "http://h:1".into(), call: "Search" };
        let error = origin.error(ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "Milvus at `http://h:1` did not answer `Search` in time");
        assert!(error.is_transient());
    }
}
