//! Validates query plans made by a caller or a model. Pure functions.

use chrono::{DateTime, Utc};
use vic_words::Language;

use crate::error::{Error, Result};
use crate::model::{INTENTS, L0Filters, MAX_EXTENSIONS, MAX_GLOB, QueryPlan, SKILLS};
use crate::units::parse_moment_or_ago;

/// Maximum bytes of a question. A longer one is an error, because such a text is a document, not a question.
pub const MAX_QUESTION_BYTES: usize = 32 << 10;

/// Maximum value of `l2_top_k`, the number of files that one plan reads in depth.
pub const MAX_L2_TOP_K: u32 = 100;

/// Maximum bytes of the field `intent` of a plan.
const MAX_INTENT_BYTES: usize = 64;

/// Checks each field of a plan against its range or its set of values.
///
/// # Errors
/// [`crate::error::ErrorCode::InvalidArgument`] with the name of the first field that is wrong.
pub fn validate(plan: &QueryPlan) -> Result<()> {
    // Accepts any short label, because an intent that is not in `INTENTS` runs as `search`.
    if plan.intent.is_empty() || plan.intent.len() > MAX_INTENT_BYTES || plan.intent.contains(char::is_control) {
        return Err(Error::invalid("`intent` is not a short label").hint(format!("use one of: {}", INTENTS.join(", "))));
    }
    if let Some(filters) = &plan.l0_filters {
        validate_filters(filters)?;
    }
    if plan.l1_query_text.as_ref().is_some_and(|it| it.len() > MAX_QUESTION_BYTES) {
        return Err(Error::invalid(format!("`l1_query_text` is longer than {MAX_QUESTION_BYTES} bytes")));
    }
    if let Some(threshold) = plan.l1_threshold
        && !(0.0..=1.0).contains(&threshold)
    {
        return Err(Error::invalid(format!("`l1_threshold` {threshold} is not between 0 and 1")));
    }
    // Bounds the list, because a skill runs once for each time that the list names it.
    if plan.l2_skills.len() > SKILLS.len() {
        let text = format!("`l2_skills` has {} entries, but only {} skills exist", plan.l2_skills.len(), SKILLS.len());
        return Err(Error::invalid(text).hint("name each skill once"));
    }
    for skill in &plan.l2_skills {
        check_one_of("l2_skills", skill, SKILLS)?;
    }
    if let Some(count) = plan.l2_top_k
        && !(1..=MAX_L2_TOP_K).contains(&count)
    {
        return Err(Error::invalid(format!("`l2_top_k` {count} is not between 1 and {MAX_L2_TOP_K}")));
    }
    Ok(())
}

/// Checks the extensions, glob, dates, sizes, owner, language and author of metadata filters.
///
/// # Errors
/// As [`validate`].
pub fn validate_filters(filters: &L0Filters) -> Result<()> {
    if filters.extensions.len() > MAX_EXTENSIONS {
        let text = format!("`extensions` has {} entries; the limit is {MAX_EXTENSIONS}", filters.extensions.len());
        return Err(Error::invalid(text).hint("list fewer extensions, or ask several times"));
    }
    for extension in &filters.extensions {
        // A dot alone stands for files without an extension.
        let bare = extension.trim_start_matches('.');
        if (bare.is_empty() && extension != ".")
            || bare.contains(|it: char| it.is_whitespace() || it.is_control() || it == '/')
        {
            return Err(
                Error::invalid(format!("`extensions` has `{extension}`, not an extension")).hint("write e.g. `.pdf`")
            );
        }
    }
    if let Some(glob) = &filters.path_glob {
        if glob.len() > MAX_GLOB {
            return Err(Error::invalid(format!("`path_glob` has {} bytes; the limit is {MAX_GLOB}", glob.len())));
        }
        globset::Glob::new(glob)
            .map_err(|error| Error::invalid(format!("`path_glob` `{glob}` is not a valid glob: {}", error.kind())))?;
    }
    let after = filters.modified_after.as_deref().map(|it| parse_moment_field("modified_after", it)).transpose()?;
    let before = filters.modified_before.as_deref().map(|it| parse_moment_field("modified_before", it)).transpose()?;
    if after.zip(before).is_some_and(|(after, before)| after >= before) {
        return Err(Error::invalid("`modified_after` is not before `modified_before`"));
    }
    if let (Some(least), Some(most)) = (filters.min_size, filters.max_size)
        && least > most
    {
        return Err(Error::invalid(format!("`min_size` {least} is larger than `max_size` {most}")));
    }
    for (name, value) in [("owner", &filters.owner), ("author", &filters.author)] {
        if value.as_ref().is_some_and(|it| it.trim().is_empty() || it.contains(char::is_control)) {
            return Err(Error::invalid(format!("`{name}` is empty or has control characters")));
        }
    }
    match &filters.language {
        Some(code) if Language::from_code(code).is_none() => {
            Err(Error::invalid(format!("`language` has the unknown code `{code}`")).hint(language_hint()))
        }
        _ => Ok(()),
    }
}

/// Lists the codes of the languages that vic tells apart.
fn language_hint() -> String {
    format!("use one of: {}", Language::ALL.map(Language::code).join(", "))
}

fn check_one_of(field: &str, value: &str, known: &[&str]) -> Result<()> {
    if known.contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(format!("`{field}` cannot be `{value}`")).hint(format!("use one of: {}", known.join(", "))))
}

fn parse_moment_field(field: &str, text: &str) -> Result<DateTime<Utc>> {
    parse_moment_or_ago(text).ok_or_else(|| {
        Error::invalid(format!("cannot parse the date `{text}` of `{field}`"))
            .hint("write 2026-03-31, 2026-03-31T12:00:00Z or `7 days`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Validates a valid plan in which one field is replaced by `value`.
    fn check(field: &str, value: serde_json::Value) -> Result<()> {
        let mut plan = json!({
            "intent": "read_evidence",
            "l0_filters": { "extensions": [".pdf"], "path_glob": "**/contracts/**" },
            "l1_query_text": "IDR contract signed by whom",
            "l1_threshold": 0.82,
            "requires_l2": true,
            "l2_skills": ["pdf_layout"],
            "l2_top_k": 3,
            "privacy_mode": "local_only",
            "raw_user_text": "Who signed the IDR contract?",
            "planner_model_id": "stub-v0"
        });
        if !field.is_empty() {
            plan[field] = value;
        }
        validate(&serde_json::from_value(plan).unwrap())
    }

    #[test]
    fn plan_within_ranges_is_valid() {
        check("", json!(null)).unwrap();
        for value in [0.0, 1.0] {
            check("l1_threshold", json!(value)).unwrap();
        }
    }

    #[test]
    fn out_of_range_field_is_rejected_by_name() {
        for (field, value, named) in [
            ("intent", json!(""), "intent"),
            ("intent", json!("x".repeat(65)), "intent"),
            ("l1_threshold", json!(1.01), "l1_threshold"),
            ("l1_threshold", json!(-0.1), "l1_threshold"),
            ("l2_skills", json!(["pdf_layout", "teleport"]), "teleport"),
            ("l2_skills", json!(vec!["pdf_layout"; SKILLS.len() + 1]), "l2_skills"),
            ("l2_top_k", json!(0), "l2_top_k"),
            ("l2_top_k", json!(1_000_000), "l2_top_k"),
            ("l0_filters", json!({ "min_size": 2, "max_size": 1 }), "min_size"),
            ("l0_filters", json!({ "modified_after": "soon" }), "modified_after"),
            (
                "l0_filters",
                json!({ "modified_after": "2024-01-02", "modified_before": "2024-01-01" }),
                "modified_after",
            ),
            ("l0_filters", json!({ "path_glob": "a[" }), "path_glob"),
            ("l0_filters", json!({ "path_glob": "?".repeat(MAX_GLOB + 1) }), "4096"),
            ("l0_filters", json!({ "extensions": vec![".a"; MAX_EXTENSIONS + 1] }), "1000"),
            ("l0_filters", json!({ "extensions": [".."] }), "extensions"),
            ("l0_filters", json!({ "owner": " " }), "owner"),
            ("l0_filters", json!({ "author": "" }), "author"),
            ("l0_filters", json!({ "language": "xx" }), "language"),
        ] {
            let error = check(field, value).unwrap_err();
            assert!(error.message.contains(named), "{error}");
        }
    }
}
