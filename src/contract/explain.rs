//! EXPLAIN_FAILURE: why a result is thin, as issues with something to do about each.

use serde_json::{Value, json};

use crate::contract::answer::Answer;
use crate::contract::corpus::Corpus;
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::contract::validate::Request;

/// Objects below are not clear.
const CLEAR: f64 = 0.8;

/// The id of the result that is asked about.
pub(crate) fn result_id(request: &Request) -> Option<&str> {
    ["id", "extraction_id", "detection_id"].into_iter().find_map(|it| request.text(it))
}

/// Explains a result: its request and its envelope.
pub(crate) fn result(request: &Request, kept: Option<(Value, Value)>) -> Outcome<Answer> {
    let id = result_id(request).unwrap_or_default();
    let Some((asked, envelope)) = kept else {
        let refusal = Refusal::new(
            Cause::UnknownResult,
            format!("there is no result `{}`", crate::contract::words::short(id, 40)),
        );
        return Err(refusal.field("id").action("give the `id` of an envelope"));
    };
    let verb = envelope["verb"].as_str().unwrap_or_default();
    let implied = [("extraction_id", "EXTRACT"), ("detection_id", "DETECT")]
        .into_iter()
        .find(|it| request.has(it.0))
        .map(|it| it.1);
    if let Some(wanted) = request.text("verb").or(implied).filter(|it| *it != verb) {
        return Err(Refusal::new(Cause::Ambiguous, format!("`{id}` is a result of {verb}, not of {wanted}"))
            .field("verb")
            .action(format!("set `verb` to {verb}, or give another id")));
    }
    let mut issues = Vec::new();
    refused(&envelope, &mut issues);
    unknowns(&envelope, &mut issues);
    match asked["fields"]["schema"].as_str() {
        Some("Code") => unclear(
            &envelope,
            &mut issues,
            "ambiguous_language_detection",
            "name languages on code fences, or filter by language",
        ),
        Some("Table") => unclear(&envelope, &mut issues, "uneven_rows", "look at these tables in their file"),
        _ => {
            unclear(&envelope, &mut issues, "ambiguous_pattern", "raise filters.min_confidence, or look at the places");
        }
    }
    let mut actions: Vec<Value> =
        issues.iter().map(|it| it["recommendation"].clone()).filter(|it| !it.is_null()).collect();
    actions.dedup();
    let mut answer = Answer::new("read off the kept result");
    answer.coverage = Some(1.0);
    let fixable = !actions.is_empty();
    let issues = answer.page(request, issues);
    answer.data = json!({
        "verb": verb.to_lowercase(),
        "target": asked["fields"]["schema"].as_str().or(asked["form"].as_str()).unwrap_or_default(),
        "result": id, "confidence": envelope["confidence"], "coverage": envelope["coverage"],
        "fixable": fixable, "issues": issues, "suggested_actions": actions,
    });
    Ok(answer)
}

fn refused(envelope: &Value, issues: &mut Vec<Value>) {
    let error = &envelope["error"];
    if !error.is_null() {
        let action = error["suggested_actions"][0].clone();
        issues.push(
            json!({"type": "refused", "reason": error["type"], "field": error["field"], "recommendation": action}),
        );
    }
    if envelope["data"]["count"] == 0 {
        issues.push(json!({"type": "nothing_found", "recommendation": "widen the view or the filters"}));
    }
}

fn unknowns(envelope: &Value, issues: &mut Vec<Value>) {
    for unknown in envelope["unknowns"].as_array().into_iter().flatten() {
        let kind = unknown["type"].as_str().unwrap_or_default();
        let (name, recommendation) = match kind {
            "no_objects" => {
                ("incomplete_coverage", "check content_type with QUERY; these documents state no such object")
            }
            "unreadable_document" => {
                ("unreadable_document", "EXPLAIN_FAILURE url_id of each; INGEST session refetch_failed")
            }
            "more_objects" => ("cut_list", "ask again with offset"),
            "cut_text" => ("cut_text", "ask again with verbose"),
            "ambiguous_date" => ("ambiguous_pattern", "state dates as ISO 8601 in the documents"),
            "no_statement" => ("missing_data", "name another field, or a smaller view"),
            "no_date" | "date_of_last_change_used" => ("missing_data", "state a date in the documents"),
            "changed_since_session" => ("stale_session", "INGEST again, or use the current view"),
            "earlier_content_not_kept" => ("missing_data", "INGEST with mode full before the next change"),
            _ => ("gap", "see the unknowns of the result"),
        };
        issues.push(json!({
            "type": name, "unknown": kind, "count": unknown["count"], "missing_from": unknown["files"],
            "reason": unknown["detail"], "recommendation": recommendation,
        }));
    }
}

/// Objects that are not clear, by their place in the list.
fn unclear(envelope: &Value, issues: &mut Vec<Value>, kind: &str, recommendation: &str) {
    let objects = envelope["data"]["objects"].as_array().into_iter().flatten().enumerate();
    let low: Vec<usize> =
        objects.filter(|it| it.1["confidence"].as_f64().is_some_and(|it| it < CLEAR)).map(|it| it.0).collect();
    if !low.is_empty() {
        issues.push(json!({"type": kind, "affected_blocks": low, "recommendation": recommendation}));
    }
}

/// Explains one document of a view.
pub(crate) fn document(request: &Request, corpus: &Corpus) -> Outcome<Answer> {
    let given = &request.fields["url_id"];
    let shown = given.as_str().map_or_else(|| given.to_string(), str::to_string);
    let mut answer = Answer::new("the state of the file, and what its reader reported");
    let unread = corpus
        .unread
        .iter()
        .find(|it| it.file.to_string() == shown || it.path == shown || it.path.ends_with(&format!("/{shown}")));
    let mut issues = Vec::new();
    let (file, path) = match unread {
        Some(unread) => {
            issues.push(json!({"type": "not_read", "reason": unread.reason, "recommendation": cure(&unread.reason)}));
            (unread.file, unread.path.clone())
        }
        None => {
            let paper = corpus.paper(given, "url_id")?;
            answer.evidence(paper, 1);
            issues.extend(
                paper
                    .reading
                    .problems
                    .iter()
                    .map(|it| json!({"type": "reader_problem", "reason": it, "recommendation": null})),
            );
            let empty: Vec<&String> =
                paper.reading.objects.iter().filter(|it| it.1.is_empty()).map(|it| it.0).collect();
            if !empty.is_empty() {
                issues.push(json!({"type": "no_objects", "schemas": empty, "recommendation": null}));
            }
            if paper.reading.facts.published_at.is_none() {
                issues.push(json!({"type": "no_date", "recommendation": "state a date in the document"}));
            }
            if corpus.changed.contains(&paper.file) {
                issues
                    .push(json!({"type": "stale_session", "recommendation": "INGEST again, or use the current view"}));
            }
            (paper.file, paper.path.clone())
        }
    };
    let mut actions: Vec<Value> =
        issues.iter().map(|it| it["recommendation"].clone()).filter(|it| !it.is_null()).collect();
    actions.dedup();
    answer.coverage = Some(if unread.is_some() { 0.0 } else { 1.0 });
    answer.confidence = 1.0;
    let issues = answer.page(request, issues);
    answer.data = json!({
        "file": file, "path": path, "read": unread.is_none(), "fixable": !actions.is_empty(),
        "issues": issues, "suggested_actions": actions,
    });
    Ok(answer)
}

fn cure(reason: &str) -> &'static str {
    match reason {
        "encrypted" => "save it without a password",
        "damaged" | "decompression_limit" | "too_deep" => "save it again from its program",
        "no_text" => "a scan: let `vic index` read its pictures",
        "too_large" => "raise VIC_MAX_FILE_BYTES",
        "timeout" | "out_of_memory" | "worker_crash" => "split it, or raise the limits",
        "permission_denied" | "io" => "let vic read it",
        "unsupported_type" => "convert it to a format that vic reads",
        "gone" => "put it back, or INGEST again",
        "pending" => "wait for the index, or `vic sync`",
        "secret" => "it is a secret and is never read",
        _ => "read it with `vic read`",
    }
}
