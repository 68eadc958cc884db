//! JSON to a request; what is wrong is named by its field.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};

/// Bytes of the JSON in one field of a message: arguments, a query or a schema have a few KiB. Taken apart it has some
/// twenty times as many in memory, and that before it is known whether the request finds a place.
pub const MAX_JSON: usize = 256 << 10;

/// Bytes of JSON that carries whole files of proposals: some ten thousand of them, which is more than any model reads.
pub const MAX_PROPOSALS: usize = 4 << 20;

/// Takes JSON apart, and names the field when it cannot.
pub fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    // A list would be taken for the fields in their order.
    if bytes.iter().find(|it| !it.is_ascii_whitespace()).is_some_and(|it| *it != b'{') {
        return Err(Error::invalid("cannot understand the request: it is no JSON object"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        let field = match (path.as_str(), named(&message)) {
            // `?` is where the parser itself gave up.
            (path, named) if path == "." || path.ends_with('?') => named,
            // A missing or unknown field is told of its parent.
            (path, Some(named)) if !path.ends_with(&named) => Some(format!("{path}.{named}")),
            (path, _) => Some(path.to_string()),
        };
        Error { field, ..Error::invalid(format!("cannot understand the request: {message}")) }
    })?;
    deserializer.end().map_err(|error| Error::invalid(format!("cannot understand the request: {error}")))?;
    Ok(value)
}

/// Takes the JSON in a field of a message apart, if it has no more than `most` bytes.
///
/// # Errors
/// `ResourceExhausted` when it has; `InvalidArgument` when it is none. Both name the field.
pub fn inner(field: &str, text: &str, most: usize) -> Result<Value> {
    fits(field, text.len(), most)?;
    serde_json::from_str(text).map_err(|error| Error::invalid(format!("`{field}` is no JSON: {error}")).field(field))
}

/// Refuses a field that has more than `most` bytes.
///
/// # Errors
/// `ResourceExhausted`, with the field and the limit.
pub fn fits(field: &str, bytes: usize, most: usize) -> Result<()> {
    if bytes <= most {
        return Ok(());
    }
    let text = format!("`{field}` has {bytes} bytes, and may have {most}");
    Err(Error::new(ErrorCode::ResourceExhausted, text).field(field).hint("send less of it at a time"))
}

/// The field in serde's "missing field `x`" and "unknown field `x`".
pub fn named(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("field `")?;
    rest.split_once('`').map(|(name, _)| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AskRequest;

    fn check(text: &str, field: Option<&str>) {
        let error = json::<AskRequest>(text.as_bytes()).unwrap_err();
        assert_eq!(error.field.as_deref(), field, "{text}: {error}");
    }

    #[test]
    fn what_is_wrong_is_named_wherever_it_stands() {
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

    #[test]
    fn json_in_a_field_is_not_taken_apart_beyond_its_limit() {
        let list = |bytes: usize| format!("[{}0]", "0,".repeat((bytes - 3) / 2));
        assert!(inner("args_json", &list(MAX_JSON - 1), MAX_JSON).is_ok());
        // It is no JSON beyond the limit, so whoever read it would say so.
        let long = format!("{}x", list(MAX_JSON + 1));
        for (text, code) in [(long.as_str(), ErrorCode::ResourceExhausted), ("[0,", ErrorCode::InvalidArgument)] {
            let error = inner("args_json", text, MAX_JSON).unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (code, Some("args_json")), "{error}");
        }
        let error = inner("args_json", &long, MAX_JSON).unwrap_err();
        assert!(error.message.contains("262144") && error.hint.is_some(), "{error}");
    }

    #[test]
    fn what_is_no_json_has_no_field() {
        for text in ["", "{", "[]", "{}{}", "\"query\"", "nonsense", "{\"query\": \"x\"} trailing"] {
            check(text, None);
        }
    }
}
