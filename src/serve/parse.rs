//! JSON to a request; what is wrong is named by its field.

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Takes JSON apart, and names the field when it cannot.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
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

/// The field in serde's "missing field `x`" and "unknown field `x`".
pub(crate) fn named(message: &str) -> Option<String> {
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
    fn what_is_no_json_has_no_field() {
        for text in ["", "{", "[]", "{}{}", "\"query\"", "nonsense", "{\"query\": \"x\"} trailing"] {
            check(text, None);
        }
    }
}
