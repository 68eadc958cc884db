//! Hides the addresses of configured servers in errors for callers other than the owner of vic. Error texts contain
//! addresses in many forms, some quoted from the server, so everything that looks like an address is replaced. The log
//! keeps the full text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use crate::error::Error;

/// Text that replaces a server address.
const REPLACEMENT: &str = "the server";

/// Host names of the servers that vic has connected to, in lowercase. They are recorded, because a bare name cannot be
/// recognized by its form.
static SERVER_HOSTS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Records the host name of a server, so that it is hidden in later errors.
pub(super) fn record_host(host: &str) {
    let mut hosts = SERVER_HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    if !host.is_empty() {
        hosts.insert(host.to_ascii_lowercase());
    }
}

/// Returns the error without server addresses, for callers other than the owner.
pub(crate) fn hide_in_error(error: Error) -> Error {
    let message = hide_in_text(&error.message).into_owned();
    let hint = error.hint.as_deref().map(|it| hide_in_text(it).into_owned());
    if message != error.message || hint != error.hint {
        tracing::warn!(%error, "a server failed; its address is hidden from the caller");
    }
    Error { message, hint, ..error }
}

/// Replaces every server address in a text by `the server`.
pub(crate) fn hide_in_text(text: &str) -> Cow<'_, str> {
    if !text.split(is_separator).map(trim_punctuation).any(is_address) {
        return Cow::Borrowed(text);
    }
    let mut told = String::with_capacity(text.len());
    for piece in text.split_inclusive(is_separator) {
        let word = trim_punctuation(piece.trim_end_matches(is_separator));
        if is_address(word) {
            told.push_str(REPLACEMENT);
            told.push_str(&piece[word.len()..]);
        } else {
            told.push_str(piece);
        }
    }
    Cow::Owned(told)
}

/// Returns whether a character separates words, and so cannot be part of an address.
fn is_separator(it: char) -> bool {
    it.is_whitespace() || "`'\"()<>{},;|=".contains(it)
}

/// Returns a word without the punctuation at its end.
fn trim_punctuation(word: &str) -> &str {
    word.trim_end_matches(['.', ':', '!', '?'])
}

fn is_address(word: &str) -> bool {
    let is_known = |host: &str| {
        let hosts = SERVER_HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.contains(&host.to_ascii_lowercase())
    };
    let is_name = |it: &str| it.contains(|it: char| it.is_ascii_alphabetic()) && it.chars().all(is_host_char);
    let has_port = |word: &str| {
        let parts = word.rsplit_once(':');
        parts.is_some_and(|(host, port)| is_name(host) && port.parse::<u16>().is_ok())
    };
    let unbracketed = word.trim_start_matches('[').trim_end_matches(']');
    word.contains("://")
        || unbracketed.parse::<IpAddr>().is_ok()
        || word.parse::<SocketAddr>().is_ok()
        || has_port(word)
        || is_known(word)
}

fn is_host_char(it: char) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn every_address_form_is_hidden_and_other_text_kept() {
        record_host("models-7");
        for (text, expected) in [
            ("cannot reach `http://10.0.0.5:11434/api/chat`: refused", "cannot reach `the server`: refused"),
            ("cannot resolve `models-7`: no such name", "cannot resolve `the server`: no such name"),
            ("the mode forbids sending text to `Models-7`", "the mode forbids sending text to `the server`"),
            ("tcp connect error (192.0.2.4:80): refused.", "tcp connect error (the server): refused."),
            ("upstream=http://a.example/v1, gave up on gateway:8080.", "upstream=the server, gave up on the server."),
            ("no route to [fe80::1]:443 or fe80::1", "no route to the server or the server"),
            ("`notes/a.md`: 2 of 3 texts, version 1.2.3", "`notes/a.md`: 2 of 3 texts, version 1.2.3"),
        ] {
            assert_eq!(hide_in_text(text), expected);
        }
    }

    #[test]
    fn hidden_error_keeps_code_and_hint() {
        let error =
            Error::new(ErrorCode::Unavailable, "cannot reach `http://10.0.0.5`: refused").hint("try again later");
        let told = hide_in_error(error);
        assert_eq!((told.code, told.message.as_str()), (ErrorCode::Unavailable, "cannot reach `the server`: refused"));
        assert_eq!(told.hint.as_deref(), Some("try again later"));
    }
}
