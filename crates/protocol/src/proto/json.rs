//! Parses JSON requests; errors name the invalid field.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};

/// Maximum size in bytes of JSON in one field of a message; arguments, queries and schemas have a few KiB. Limits memory:
/// parsed JSON takes some twenty times its size, and is parsed before the limit on concurrent requests applies.
pub const MAX_JSON: usize = 256 << 10;

/// Maximum size in bytes of JSON with graph proposals: some ten thousand proposals, more than a model can process.
pub const MAX_PROPOSALS: usize = 4 << 20;

/// Parses a JSON object into a request. An error names the invalid field.
pub fn parse_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    // Reject any JSON but an object: serde would accept an array and assign its items to the fields in order.
    if bytes.iter().find(|it| !it.is_ascii_whitespace()).is_some_and(|it| *it != b'{') {
        return Err(Error::invalid("cannot understand the request: it is not a JSON object"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        let field = match (path.as_str(), field_in_message(&message)) {
            // Take the field from serde's message if the path ends with `?`: the parser itself failed there.
            (path, named) if path == "." || path.ends_with('?') => named,
            // Append a missing or unknown field, because the path then ends at its parent.
            (path, Some(named)) if !path.ends_with(&named) => Some(format!("{path}.{named}")),
            (path, _) => Some(path.to_string()),
        };
        Error { field, ..Error::invalid(format!("cannot understand the request: {message}")) }
    })?;
    deserializer.end().map_err(|error| Error::invalid(format!("cannot understand the request: {error}")))?;
    Ok(value)
}

/// Parses the JSON in a field of a message, if it has at most `most` bytes.
///
/// # Errors
/// `ResourceExhausted` if the field is larger; `InvalidArgument` if it is not JSON. Both name the field.
pub fn json_field(field: &str, text: &str, most: usize) -> Result<Value> {
    check_size(field, text.len(), most)?;
    serde_json::from_str(text).map_err(|error| Error::invalid(format!("`{field}` is not JSON: {error}")).field(field))
}

/// Returns an error if a field has more than `most` bytes.
///
/// # Errors
/// `ResourceExhausted` with the field and the limit.
pub fn check_size(field: &str, bytes: usize, most: usize) -> Result<()> {
    if bytes <= most {
        return Ok(());
    }
    let text = format!("`{field}` has {bytes} bytes; the limit is {most}");
    Err(Error::new(ErrorCode::ResourceExhausted, text)
        .field(field)
        .hint("send the content in several smaller requests"))
}

/// Returns the field that serde's message "missing field `x`" or "unknown field `x`" names.
pub fn field_in_message(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("field `")?;
    rest.split_once('`').map(|(name, _)| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AskRequest;

    fn check(text: &str, field: Option<&str>) {
        let error = parse_object::<AskRequest>(text.as_bytes()).unwrap_err();
        assert_eq!(error.field.as_deref(), field, "{text}: {error}");
    }

    #[test]
    fn error_names_field_at_any_depth() {
        check(r#"{"query": 3}"#, Some("query"));
        check(r#"{"query": "x", "colour": 1}"#, Some("colour"));
        check(r#"{"query": "x", "filters": {"min_size": "ten"}}"#, Some("filters.min_size"));
        check(r#"{"query": "x", "filters": {"colour": 1}}"#, Some("filters.colour"));
        check(r#"{"query": "x", "limit": -1}"#, Some("limit"));
        check(r#"{"query": "x", "limit": 4294967296}"#, Some("limit"));
        check(r#"{"query": "x", "privacy_mode": "open"}"#, Some("privacy_mode"));
        check(r#"{"query": "x", "filters": {"extensions": [1]}}"#, Some("filters.extensions[0]"));
        check(r#"{"query": "x", "plan": {"intent": "search"}}"#, Some("plan.privacy_mode"));
    }

    // Case D10
    #[test]
    fn json_field_limit_is_checked_before_parsing() {
        let list = |bytes: usize| format!("[{}0]", "0,".repeat((bytes - 3) / 2));
        assert!(json_field("args_json", &list(MAX_JSON - 1), MAX_JSON).is_ok());
        // The long text is invalid JSON too: it must be rejected for its size, before it is parsed.
        let long = format!("{}x", list(MAX_JSON + 1));
        for (text, code) in [(long.as_str(), ErrorCode::ResourceExhausted), ("[0,", ErrorCode::InvalidArgument)] {
            let error = json_field("args_json", text, MAX_JSON).unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (code, Some("args_json")), "{error}");
        }
        let error = json_field("args_json", &long, MAX_JSON).unwrap_err();
        assert!(error.message.contains("262144") && error.hint.is_some(), "{error}");
    }

    #[test]
    fn invalid_json_error_has_no_field() {
        for text in ["", "{", "[]", "{}{}", "\"query\"", "nonsense", "{\"query\": \"x\"} trailing"] {
            check(text, None);
        }
    }
}
