//! Answers held against what the caller expects of them.

use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::schema::Schema;

/// Characters of an answer that an error shows.
const SHOWN: usize = 120;

/// Reads the JSON of an answer and holds it against a schema. Small models put JSON between marks of code or words; the
/// outermost object or array is taken, and it alone counts.
///
/// # Errors
/// `FailedPrecondition`: there is no JSON, it is cut, or it breaks the schema; the message says which.
pub fn validate(text: &str, schema: &Value) -> Result<Value> {
    let schema = Schema::new(schema)?;
    let value = json(text)?;
    schema.check(&value).map_err(|error| {
        Error::new(ErrorCode::FailedPrecondition, format!("the answer breaks its schema: {}", error.message))
    })?;
    Ok(value)
}

/// Reads the JSON of an answer.
///
/// # Errors
/// As [`validate`].
pub fn json(text: &str) -> Result<Value> {
    let trimmed = text.trim();
    let problem = match serde_json::from_str::<Value>(trimmed) {
        Ok(value) => return Ok(value),
        Err(problem) => problem,
    };
    let begin = trimmed.find(['{', '[']);
    let inner = begin.and_then(|at| serde_json::Deserializer::from_str(&trimmed[at..]).into_iter::<Value>().next());
    match inner {
        Some(Ok(value)) => Ok(value),
        Some(Err(problem)) if problem.is_eof() => Err(unusable(trimmed, "its JSON is cut")),
        _ => Err(unusable(trimmed, &format!("it is no JSON ({problem})"))),
    }
}

fn unusable(text: &str, why: &str) -> Error {
    let shown: String = text.chars().take(SHOWN).collect();
    Error::new(ErrorCode::FailedPrecondition, format!("the answer cannot be used, {why}: `{shown}`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({ "type": "object", "required": ["answer"], "properties": { "answer": { "type": "string" } } })
    }

    #[test]
    fn json_is_found_between_words_and_marks_of_code() {
        for text in [
            r#"{"answer":"x"}"#,
            "  {\"answer\": \"x\"}\n",
            "```json\n{\"answer\":\"x\"}\n```",
            "Here you are: {\"answer\":\"x\"} - good luck!",
        ] {
            assert_eq!(validate(text, &schema()).unwrap(), json!({ "answer": "x" }), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_told_apart() {
        for (text, why) in [
            ("", "no JSON"),
            ("I do not know.", "no JSON"),
            ("{\"answer\": \"half a", "cut"),
            ("{}", "answer"),
            ("[]", "object"),
            ("{\"answer\": 3}", "`answer`"),
        ] {
            let error = validate(text, &schema()).unwrap_err();
            assert_eq!(error.code, ErrorCode::FailedPrecondition);
            assert!(error.message.contains(why), "{text}: {error}");
        }
    }
}
