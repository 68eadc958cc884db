//! Resolves documents by their number, their path or the end of their path.

use serde_json::Value;

use crate::corpus::api::error::{Cause, Outcome, Refusal, nearest};
use crate::corpus::text::words::short;
use crate::model::FileId;

/// Most candidates listed for an ambiguous name.
const ASKED_BACK: usize = 10;

/// Returns every document that matches a name: by number or exact path, else by the end of its path. An absolute path
/// matches if it ends with the path of a document.
pub(crate) fn fitting(known: &[(FileId, &str)], given: &Value) -> Vec<FileId> {
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

/// Returns the only document that matches a name.
///
/// # Errors
/// [`Cause::Ambiguous`] with the numbers to choose from, [`Cause::UnknownFile`] with the nearest path.
pub(crate) fn find(known: &[(FileId, &str)], given: &Value, field: &str) -> Outcome<FileId> {
    match fitting(known, given).as_slice() {
        [one] => Ok(*one),
        [] => Err(missing(known, given, field)),
        several => {
            let numbers: Vec<String> = several.iter().take(ASKED_BACK).map(FileId::to_string).collect();
            Err(Refusal::new(Cause::Ambiguous, format!("`{field}` matches {} documents", several.len()))
                .field(field)
                .action(format!("give one of the numbers {}", numbers.join(", "))))
        }
    }
}

fn missing(known: &[(FileId, &str)], given: &Value, field: &str) -> Refusal {
    let shown = given.as_str().map_or_else(|| given.to_string(), str::to_string);
    let refusal = Refusal::new(Cause::UnknownFile, format!("the view holds no document `{}`", short(&shown, 60)));
    let paths: Vec<&str> = known.iter().map(|it| it.1).collect();
    match nearest(&shown, &paths) {
        Some(near) => refusal.field(field).action(format!("did you mean `{near}`?")),
        None => refusal.field(field).action("QUERY lists the documents of a view"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KNOWN: &[(FileId, &str)] = &[(1, "x/a.md"), (2, "y/a.md"), (3, "b.md"), (4, "3"), (5, "notes/README")];

    fn check(given: Value, expected: Result<FileId, Cause>) {
        assert_eq!(find(KNOWN, &given, "doc").map_err(|it| it.cause), expected, "{given}");
    }

    #[test]
    fn find_accepts_number_path_or_path_suffix() {
        check(json!(2), Ok(2));
        check(json!("2"), Ok(2));
        check(json!("x/a.md"), Ok(1));
        check(json!("./x/a.md"), Ok(1));
        check(json!("/home/ann/x/a.md"), Ok(1));
        check(json!("README"), Ok(5));
        check(json!("3"), Ok(4));
        check(json!("a.md"), Err(Cause::Ambiguous));
        check(json!("ADME"), Err(Cause::UnknownFile));
        check(json!(9), Err(Cause::UnknownFile));
        check(json!([1]), Err(Cause::UnknownFile));
    }

    #[test]
    fn find_suggests_nearest_path() {
        assert_eq!(find(KNOWN, &json!("x/c.md"), "doc").unwrap_err().actions, ["did you mean `x/a.md`?"]);
    }
}
