//! Finds documents by their id, their path or the end of their path.

use serde_json::Value;

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult, nearest_name};
use crate::corpus::text::words::truncate_to_line;
use crate::model::FileId;

/// Maximum candidates that the error for an ambiguous name lists.
const MAX_CANDIDATES: usize = 10;

/// Returns every document that matches a name: by id or exact path, else by the end of its path. An absolute path
/// matches if it ends with the path of a document: document paths are relative to a root.
pub(crate) fn matching_files(known: &[(FileId, &str)], given: &Value) -> Vec<FileId> {
    let text = match given {
        Value::Number(number) => {
            return known.iter().filter(|it| number.as_i64() == Some(it.0)).map(|it| it.0).collect();
        }
        Value::String(text) => text.trim_start_matches("./"),
        _ => return Vec::new(),
    };
    let exact: Vec<FileId> = known.iter().filter(|it| it.1 == text).map(|it| it.0).collect();
    if !exact.is_empty() {
        return exact;
    }
    if let Ok(number) = text.parse::<FileId>() {
        return known.iter().filter(|it| it.0 == number).map(|it| it.0).collect();
    }
    let ends = |it: &&(FileId, &str)| {
        let (long, end) = if it.1.len() >= text.len() { (it.1, text) } else { (text, it.1) };
        !end.is_empty() && long.strip_suffix(end).is_some_and(|rest| rest.ends_with('/'))
    };
    known.iter().filter(ends).map(|it| it.0).collect()
}

/// Returns the document that matches a name; it is an error if several documents or none match.
///
/// # Errors
/// [`ApiErrorKind::Ambiguous`] with the ids to choose from, [`ApiErrorKind::UnknownFile`] with the nearest path.
pub(crate) fn find_file(known: &[(FileId, &str)], given: &Value, field: &str) -> ApiResult<FileId> {
    match matching_files(known, given).as_slice() {
        [one] => Ok(*one),
        [] => Err(unknown_file(known, given, field)),
        several => {
            let numbers: Vec<String> = several.iter().take(MAX_CANDIDATES).map(FileId::to_string).collect();
            Err(ApiError::new(ApiErrorKind::Ambiguous, format!("`{field}` matches {} documents", several.len()))
                .field(field)
                .action(format!("give one of the file ids {}", numbers.join(", "))))
        }
    }
}

fn unknown_file(known: &[(FileId, &str)], given: &Value, field: &str) -> ApiError {
    let shown = given.as_str().map_or_else(|| given.to_string(), str::to_string);
    let refusal = ApiError::new(
        ApiErrorKind::UnknownFile,
        format!("the view holds no document `{}`", truncate_to_line(&shown, 60)),
    );
    let paths: Vec<&str> = known.iter().map(|it| it.1).collect();
    match nearest_name(&shown, &paths) {
        Some(near) => refusal.field(field).action(format!("did you mean `{near}`?")),
        None => refusal.field(field).action("QUERY lists the documents of a view"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KNOWN: &[(FileId, &str)] = &[(1, "x/a.md"), (2, "y/a.md"), (3, "b.md"), (4, "3"), (5, "notes/README")];

    fn check_find(given: Value, expected: Result<FileId, ApiErrorKind>) {
        assert_eq!(find_file(KNOWN, &given, "doc").map_err(|it| it.kind), expected, "{given}");
    }

    #[test]
    fn find_accepts_number_path_or_path_suffix() {
        check_find(json!(2), Ok(2));
        check_find(json!("2"), Ok(2));
        check_find(json!("x/a.md"), Ok(1));
        check_find(json!("./x/a.md"), Ok(1));
        check_find(json!("/home/ann/x/a.md"), Ok(1));
        check_find(json!("README"), Ok(5));
        check_find(json!("3"), Ok(4));
        check_find(json!("a.md"), Err(ApiErrorKind::Ambiguous));
        check_find(json!("ADME"), Err(ApiErrorKind::UnknownFile));
        check_find(json!(9), Err(ApiErrorKind::UnknownFile));
        check_find(json!([1]), Err(ApiErrorKind::UnknownFile));
    }

    #[test]
    fn find_suggests_nearest_path() {
        assert_eq!(find_file(KNOWN, &json!("x/c.md"), "doc").unwrap_err().actions, ["did you mean `x/a.md`?"]);
    }
}
