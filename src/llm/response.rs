//! Extracts JSON from the answers of models and validates it against a schema.

use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};
use crate::model::llm::schema::Schema;

/// Maximum number of characters of an answer that an error message quotes.
const MAX_QUOTED_CHARS: usize = 120;

/// Extracts the JSON of an answer and validates it against a schema. Small models put code fences or words around JSON: if
/// the answer is not JSON as a whole, the first object or array in it is used.
///
/// # Errors
/// `FailedPrecondition`: the answer has no JSON, or the JSON is incomplete or violates the schema; the message says which.
pub fn validate(text: &str, schema: &Value) -> Result<Value> {
    let schema = Schema::new(schema)?;
    let value = extract_json(text)?;
    schema.check(&value).map_err(|error| {
        Error::new(ErrorCode::FailedPrecondition, format!("the answer violates its schema: {}", error.message))
    })?;
    Ok(value)
}

/// Extracts the JSON of an answer without validating it.
///
/// # Errors
/// `FailedPrecondition`: the answer has no JSON, or the JSON is incomplete.
pub fn extract_json(text: &str) -> Result<Value> {
    let trimmed = text.trim();
    let problem = match serde_json::from_str::<Value>(trimmed) {
        Ok(value) => return Ok(value),
        Err(problem) => problem,
    };
    let begin = trimmed.find(['{', '[']);
    let inner = begin.and_then(|at| serde_json::Deserializer::from_str(&trimmed[at..]).into_iter::<Value>().next());
    match inner {
        Some(Ok(value)) => Ok(value),
        Some(Err(problem)) if problem.is_eof() => Err(unusable_answer(trimmed, "its JSON is incomplete")),
        _ => Err(unusable_answer(trimmed, &format!("it contains no valid JSON ({problem})"))),
    }
}

fn unusable_answer(text: &str, why: &str) -> Error {
    let shown: String = text.chars().take(MAX_QUOTED_CHARS).collect();
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
    fn json_is_extracted_from_text_and_code_fences() {
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
    fn unusable_answers_have_distinct_messages() {
        for (text, why) in [
            ("", "no valid JSON"),
            ("I do not know.", "no valid JSON"),
            ("{\"answer\": \"half a", "incomplete"),
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
