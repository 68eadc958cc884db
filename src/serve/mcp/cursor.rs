//! Cursors of MCP results that are returned in pages. A cursor encodes the position at which the next page starts, with a
//! version, the time, and a hash (fingerprint) of the call. For the next page, the client repeats the call and adds the
//! cursor.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::model::JsonObject;
use serde_json::Value;

use crate::error::{Error, Result};

/// Version of the format of a cursor; a cursor of another version is refused.
const VERSION: u8 = 1;

/// How long a cursor is valid: longer than the pause between two calls of a session. An older cursor is rejected, because
/// changes of the index since then may have moved the entries of the next page.
const MAX_AGE: Duration = Duration::from_secs(3_600);

/// Length in bytes of the fingerprint (hash) of a call: enough to distinguish the calls of a session.
const FINGERPRINT: usize = 6;

/// Length of a cursor in bytes: version, minutes since the epoch, position, fingerprint.
const LENGTH: usize = 1 + 4 + 8 + FINGERPRINT;

/// Returns the cursor for the page of a call's result that starts at `position`.
pub(super) fn encode(call: &[u8; FINGERPRINT], position: u64) -> String {
    encode_at(call, position, SystemTime::now())
}

fn encode_at(call: &[u8; FINGERPRINT], position: u64, time: SystemTime) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend(minutes(time).to_be_bytes());
    bytes.extend(position.to_be_bytes());
    bytes.extend(call);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the position in a cursor, if the cursor belongs to the call with this fingerprint.
///
/// # Errors
/// `InvalidArgument` if the cursor is from another call, another version of vic or another program, or is too old.
pub(super) fn decode(call: &[u8; FINGERPRINT], cursor: &str) -> Result<u64> {
    decode_at(call, cursor, SystemTime::now())
}

fn decode_at(call: &[u8; FINGERPRINT], cursor: &str, now: SystemTime) -> Result<u64> {
    let refuse = |what: &str, hint: &str| Err(Error::invalid(format!("`cursor` {what}")).field("cursor").hint(hint));
    let again = "repeat the call without `cursor`";
    let bytes = URL_SAFE_NO_PAD.decode(cursor).unwrap_or_default();
    let [VERSION, rest @ ..] = bytes.as_slice() else {
        return refuse("is not one that this version of vic returned", again);
    };
    let parts = (rest.first_chunk(), rest.get(4..12).and_then(|it| it.first_chunk()), rest.get(12..));
    let (Some(time), Some(position), Some(of)) = parts else {
        return refuse("is not one that this version of vic returned", again);
    };
    let (time, now) = (u32::from_be_bytes(*time), minutes(now));
    if bytes.len() != LENGTH || time > now.saturating_add(1) {
        return refuse("is not one that this version of vic returned", again);
    }
    if of != call {
        return refuse(
            "belongs to another call",
            "repeat the arguments of the call that returned it, or omit `cursor`",
        );
    }
    if u64::from(now.saturating_sub(time)) * 60 > MAX_AGE.as_secs() {
        return refuse("is older than an hour, and the files may have changed since", again);
    }
    Ok(u64::from_be_bytes(*position))
}

fn minutes(time: SystemTime) -> u32 {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    u32::try_from(seconds / 60).unwrap_or(u32::MAX)
}

/// Arguments that may differ between the calls for the pages of one result.
const FREE_ARGUMENTS: [&str; 2] = ["cursor", "max_chars"];

/// Returns the fingerprint of a call: a hash of the tool and its arguments, which does not depend on their order.
pub(super) fn fingerprint(tool: &str, arguments: &JsonObject) -> [u8; FINGERPRINT] {
    let mut sorted: Vec<(&String, &Value)> =
        arguments.iter().filter(|(name, value)| !FREE_ARGUMENTS.contains(&name.as_str()) && !value.is_null()).collect();
    sorted.sort_by_key(|it| it.0);
    let mut hash = blake3::Hasher::new();
    hash.update(tool.as_bytes());
    for (name, value) in sorted {
        hash.update(format!("\0{name}\0{value}").as_bytes());
    }
    let mut short = [0; FINGERPRINT];
    short.copy_from_slice(&hash.finalize().as_bytes()[..FINGERPRINT]);
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: Value) -> [u8; FINGERPRINT] {
        fingerprint("search", arguments.as_object().unwrap())
    }

    #[test]
    fn cursor_keeps_position_of_its_call() {
        let own = call(json!({"query": "x", "limit": 8}));
        let cursor = encode(&own, 7);
        assert!(cursor.len() <= 26, "{cursor}");
        assert_eq!(decode(&own, &cursor).unwrap(), 7);
        let same = call(json!({"limit": 8, "query": "x", "cursor": cursor, "max_chars": 300, "root": null}));
        assert_eq!(decode(&same, &cursor).unwrap(), 7);
    }

    #[test]
    fn foreign_and_old_cursors_are_refused_with_a_hint() {
        let own = call(json!({"query": "x"}));
        let now = SystemTime::now();
        let made = |ago: Duration| encode_at(&own, 7, now - ago);
        let check = |cursor: &str, says: &str| {
            let error = decode_at(&own, cursor, now).unwrap_err();
            assert!(error.message.contains(says), "{cursor}: {error}");
            assert_eq!(error.field.as_deref(), Some("cursor"));
            assert!(error.hint.unwrap().contains("`cursor`"));
        };
        assert_eq!(decode_at(&own, &made(Duration::from_secs(3_000)), now).unwrap(), 7);
        check(&made(Duration::from_secs(24 * 3_600)), "older than an hour");
        check(&encode_at(&call(json!({"query": "y"})), 7, now), "another call");
        let mut other_version = URL_SAFE_NO_PAD.decode(made(Duration::ZERO)).unwrap();
        other_version[0] = 2;
        let later = encode_at(&own, 7, now + Duration::from_secs(3_600));
        for cursor in ["", "20", "eyJwYWdlIjoyfQ", "\u{1f9ed}", &URL_SAFE_NO_PAD.encode(&other_version), &later] {
            check(cursor, "is not one");
        }
        let whole = made(Duration::ZERO);
        for length in 0..whole.len() {
            assert!(decode_at(&own, &whole[..length], now).is_err(), "{length}");
        }
    }
}
