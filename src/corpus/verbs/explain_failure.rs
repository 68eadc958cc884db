//! The verb EXPLAIN_FAILURE: explains why a result is incomplete, as a list of issues with suggested actions.
//!
//! A suggested action is written as `VERB {request}`, ready to send, and only suggested if the validator accepts it. A step
//! that only a person can take (save a file without its password) is a recommendation instead.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::catalog::StoredResult;
use crate::corpus::api::answer::Answer;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::api::validate;
use crate::corpus::results::parse_stored;
use crate::corpus::views::documents::{Corpus, PAST_TEXT_GONE, UnreadDocument};
use crate::model::FileId;

/// Confidence below which an object (a table, a definition etc.) in a result is reported as unclear.
const MIN_CLEAR_CONFIDENCE: f64 = 0.8;

/// Confidence below which a whole result is reported as an issue.
const MIN_TRUSTED_CONFIDENCE: f64 = 0.5;

/// Maximum documents of an issue for which a separate request is suggested.
const MAX_SUGGESTED_DOCUMENTS: usize = 3;

/// Returns the id of the result to explain.
pub(crate) fn result_id(request: &ValidRequest) -> Option<&str> {
    ["id", "extraction_id", "detection_id"].into_iter().find_map(|it| request.text(it))
}

/// A stored result, and the explanation that is being built for it.
struct Explanation<'k> {
    verb: &'k str,
    /// Fields of the explained request, including its form.
    fields: Map<String, Value>,
    envelope: &'k Value,
    issues: Vec<Value>,
    actions: Vec<String>,
}

impl Explanation<'_> {
    /// Adds a request to the suggested actions, if the validator accepts it.
    fn suggest(&mut self, verb: &str, fields: Value) {
        let Some(action) = valid_action(verb, fields) else { return };
        if !self.actions.contains(&action) {
            self.actions.push(action);
        }
    }

    /// Suggests the explained request with changed fields; null removes a field.
    fn suggest_again(&mut self, changes: &[(&str, Value)]) {
        let mut fields = self.fields.clone();
        for (name, value) in changes {
            match value {
                Value::Null => fields.shift_remove(*name),
                value => fields.insert(name.to_string(), value.clone()),
            };
        }
        if fields != self.fields {
            self.suggest(self.verb, Value::Object(fields));
        }
    }

    /// Returns the fields of the explained request that select its view.
    fn view_fields(&self) -> Map<String, Value> {
        let fields =
            ["view", "session"].into_iter().filter_map(|it| Some((it.to_string(), self.fields.get(it)?.clone())));
        fields.collect()
    }

    /// Suggests a request on the view of the explained request.
    fn suggest_on_same_view(&mut self, verb: &str, fields: Value) {
        let mut all = fields.as_object().cloned().unwrap_or_default();
        all.extend(self.view_fields());
        self.suggest(verb, Value::Object(all));
    }

    fn push_issue(&mut self, issue: Value) {
        self.issues.push(issue);
    }
}

/// Formats a request as a suggested action; returns `None` if the validator rejects it.
fn valid_action(verb: &str, fields: Value) -> Option<String> {
    let Value::Object(fields) = fields else { return None };
    let is_valid = match verb {
        "HELP" | "VIEW" => true,
        verb => validate::validate_request(verb, fields.clone()).is_ok(),
    };
    is_valid.then(|| format!("{verb} {}", Value::Object(fields)))
}

/// Explains a stored result.
pub(crate) fn explain_result(request: &ValidRequest, booked: &StoredResult) -> ApiResult<Answer> {
    let id = result_id(request).unwrap_or_default();
    let (asked, envelope) = (parse_stored(&booked.request)?, parse_stored(&booked.envelope)?);
    let verb = envelope["verb"].as_str().unwrap_or_default();
    let implied = [("extraction_id", "EXTRACT"), ("detection_id", "DETECT")];
    let implied = implied.into_iter().find(|it| request.has(it.0)).map(|it| it.1);
    if let Some(wanted) = request.text("verb").or(implied).filter(|it| *it != verb) {
        return Err(ApiError::new(ApiErrorKind::Ambiguous, format!("`{id}` is a result of {verb}, not of {wanted}"))
            .field("verb")
            .action(format!("set `verb` to {verb}, or give another id")));
    }
    let mut fields = asked["fields"].as_object().cloned().unwrap_or_default();
    if let Some(form) = asked["form"].as_str().filter(|it| !it.is_empty()) {
        fields.insert("form".into(), form.into());
    }
    let mut explained = Explanation { verb, fields, envelope: &envelope, issues: Vec::new(), actions: Vec::new() };
    explain_error(&mut explained);
    explain_empty_lists(&mut explained);
    explain_unknowns(&mut explained);
    explain_unclear_objects(&mut explained);
    explain_low_confidence(&mut explained);
    if asked["cut"] == true {
        let kept = format!("only the beginning of the {} bytes of the request was kept", asked["bytes"]);
        explained.push_issue(json!({"type": "request_cut", "reason": kept}));
        explained.actions.retain(|it| it.starts_with("HELP"));
    }
    let Explanation { issues, actions, .. } = explained;
    let mut answer = Answer::new("read from the stored result; each suggestion passes the validator");
    answer.coverage = Some(1.0);
    let fixable = is_fixable(&issues, &actions);
    let issues = answer.page(request, issues);
    answer.data = json!({
        "verb": verb.to_lowercase(),
        "target": asked["fields"]["schema"].as_str().or(asked["form"].as_str()).unwrap_or_default(),
        "result": id, "confidence": envelope["confidence"], "coverage": envelope["coverage"],
        "fixable": fixable, "issues": issues, "suggested_actions": actions,
    });
    Ok(answer)
}

fn is_fixable(issues: &[Value], actions: &[String]) -> bool {
    !actions.is_empty() || issues.iter().any(|it| !it["recommendation"].is_null())
}

fn explain_error(explained: &mut Explanation<'_>) {
    let error = explained.envelope["error"].clone();
    if error.is_null() {
        return;
    }
    explained.push_issue(json!({
        "type": "refused", "reason": error["type"], "field": error["field"], "message": error["message"],
        "recommendation": error["suggested_actions"][0],
    }));
    let field = error["field"].as_str().unwrap_or_default();
    let meant = error["suggested_actions"][0].as_str().and_then(|it| it.strip_prefix("did you mean `"));
    let meant = meant.and_then(|it| it.strip_suffix("`?")).map(Value::from);
    match (error["type"].as_str().unwrap_or_default(), meant) {
        ("unknown_verb", Some(verb)) => {
            let fields = Value::Object(explained.fields.clone());
            explained.suggest(verb.as_str().unwrap_or_default(), fields);
        }
        ("unknown_field", Some(name)) => {
            let value = explained.fields.get(field).cloned().unwrap_or_default();
            explained.suggest_again(&[(field, Value::Null), (name.as_str().unwrap_or_default(), value)]);
        }
        (_, Some(value)) => explained.suggest_again(&[(field, value)]),
        ("unknown_field" | "out_of_range" | "type_error" | "ambiguous_request", None) => {
            explained.suggest_again(&[(field, Value::Null)]);
        }
        // Suggest `async` only if it lifts the exceeded limit: the other limits on documents also hold in jobs.
        ("too_many_documents", None) if field == "async" => explained.suggest_again(&[("async", Value::Bool(true))]),
        ("empty_view" | "vanished_folder" | "unknown_view" | "unknown_session" | "metadata_only", None) => {
            explained.suggest_again(&[("view", Value::Null), ("session", Value::Null)]);
            explained.suggest("VIEW", json!({"action": "list"}));
        }
        ("unknown_file", None) => explained.suggest_on_same_view("QUERY", json!({"filter": "size>=0"})),
        _ => {}
    }
    let verb = Some(explained.verb).filter(|it| crate::verbs::verb(it).is_some());
    explained.suggest("HELP", verb.map_or(json!({}), |it| json!({"verb": it})));
}

/// Returns the metadata filter that selects documents with objects of a schema.
fn filter_for_schema(schema: &str) -> Option<&'static str> {
    Some(match schema {
        "Code" => "code_count>0",
        "Definition" => "definition_count>0",
        "Table" => "table_count>0",
        "Quote" => "quote_count>0",
        "Methodology" => "has_methodology",
        "Citation" => "citation_count>0",
        "Reference" => "reference_count>0",
        _ => return None,
    })
}

/// Reports the lists of the result that are empty.
fn explain_empty_lists(explained: &mut Explanation<'_>) {
    const COUNTS: [&str; 8] =
        ["count", "originals", "edge_count", "reached", "consensus_points", "disagreements", "approaches", "files"];
    let data = &explained.envelope["data"];
    let Some(name) = COUNTS.into_iter().find(|it| data[*it] == 0) else { return };
    explained.push_issue(json!({
        "type": "nothing_found", "counted": name, "missing_from": evidence_files(explained.envelope),
        "recommendation": "widen the view or the conditions",
    }));
    explained.suggest_again(&[("filters", Value::Null)]);
    explained.suggest_again(&[("constraints", Value::Null)]);
    explained.suggest_again(&[("view", Value::Null), ("session", Value::Null)]);
    let schema = explained.fields.get("schema").and_then(Value::as_str).and_then(filter_for_schema);
    if let Some(filter) = schema {
        explained.suggest_on_same_view("QUERY", json!({"filter": filter}));
    }
}

/// Returns the documents that an envelope lists as evidence.
fn evidence_files(envelope: &Value) -> Vec<Value> {
    let evidence = envelope["evidence"].as_array().into_iter().flatten();
    evidence.filter_map(|it| it.get("file").cloned()).collect()
}

/// Returns the issue type and the recommendation for an entry of a result's `unknowns` (missing information) of this type.
fn issue_for_unknown(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "no_objects" => ("incomplete_coverage", "these documents contain no such object"),
        "unreadable_document" => ("unreadable_document", "repair the files; EXPLAIN_FAILURE of each file suggests how"),
        PAST_TEXT_GONE => ("missing_data", "the earlier text is not stored; INGEST again for a session that stores it"),
        "more_objects" => ("cut_list", "repeat the request with `offset`"),
        "cut_text" => ("cut_text", "repeat the request with `offset`, or with `verbose`"),
        "ambiguous_date" => ("ambiguous_pattern", "state dates as ISO 8601 in the documents"),
        "unreadable_version" => ("ambiguous_pattern", "state versions as numbers with dots in the documents"),
        "statements_not_compared" | "contradictions_not_compared" => {
            ("incomplete_coverage", "name another field, or a smaller view")
        }
        "names_not_compared" => ("incomplete_coverage", "name a smaller view"),
        "coarse_difference" => ("incomplete_coverage", "these documents have little in common; read both in full"),
        "no_statement" => ("missing_data", "name another field, or a smaller view"),
        "no_date" | "date_of_last_change_used" => {
            ("missing_data", "label the dates of the documents, e.g. `Published: 2024-01-31`")
        }
        "earlier_content_not_kept" | "new_or_old_contradictions" => {
            ("missing_data", "INGEST in mode full before the next change")
        }
        "added_or_modified_and_removals" => ("missing_data", "INGEST makes a baseline session for later changes"),
        "no_value" => ("missing_data", "these documents do not have the field"),
        "metadata_only" => ("missing_data", "INGEST the same paths with mode full"),
        "vanished_folder" => ("unreadable_document", "restore the folder"),
        "result_not_kept" => ("cut_list", "request fewer objects at a time with `limit`"),
        "low_confidence_objects" => ("ambiguous_pattern", "check these objects at their locations"),
        "no_expectation" => ("missing_data", "state what is expected in `constraints.expected_topics`"),
        "topic_not_found" => ("incomplete_coverage", "these documents do not mention the topic in these words"),
        "in_groups_too_small" => ("incomplete_coverage", "set a smaller min_size"),
        "one_sided_approach" => ("incomplete_coverage", "the documents list only pros or only cons"),
        "works_outside_the_view" => ("incomplete_coverage", "INGEST the cited works if you have their files"),
        "no_evidence" => ("missing_data", "the documents list no pros or cons of these options"),
        "no_options" => ("missing_data", "name a view whose documents list pros and cons, or have a table of options"),
        "withheld_wording" => ("withheld", "read the sources at their locations"),
        _ => ("gap", "see `unknowns` in the result"),
    }
}

fn explain_unknowns(explained: &mut Explanation<'_>) {
    let all = explained.envelope["unknowns"].as_array().cloned().unwrap_or_default();
    for unknown in all {
        let kind = unknown["type"].as_str().unwrap_or_default();
        let (name, recommendation) = issue_for_unknown(kind);
        explained.push_issue(json!({
            "type": name, "unknown": kind, "count": unknown["count"], "missing_from": unknown["files"],
            "reason": unknown["detail"], "recommendation": recommendation,
        }));
        let files: Vec<FileId> = unknown["files"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
        match kind {
            "more_objects" => suggest_next_page(explained, unknown["detail"].as_str().unwrap_or_default()),
            kind => suggest_for_unknown(explained, kind, &files),
        }
    }
    explain_unknowns_in_data(explained);
}

/// Reports missing information (`unknowns`) that a result of SUMMARIZE decision-inputs has in its data: one issue for each
/// type.
fn explain_unknowns_in_data(explained: &mut Explanation<'_>) {
    let envelope = explained.envelope;
    let all = envelope["data"]["unknowns"].as_array().into_iter().flatten();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    all.filter_map(|it| it["type"].as_str()).for_each(|it| *counts.entry(it).or_default() += 1);
    for (kind, count) in counts {
        let (name, recommendation) = issue_for_unknown(kind);
        explained.push_issue(json!({"type": name, "unknown": kind, "count": count, "recommendation": recommendation}));
    }
}

fn suggest_for_unknown(explained: &mut Explanation<'_>, kind: &str, files: &[FileId]) {
    match kind {
        "result_not_kept" => {
            let limit = explained.fields.get("limit").and_then(Value::as_i64).unwrap_or(100);
            explained.suggest_again(&[("limit", json!((limit / 10).max(1)))]);
        }
        "unreadable_document" | PAST_TEXT_GONE | "no_objects" => {
            for file in files.iter().take(MAX_SUGGESTED_DOCUMENTS) {
                explained.suggest_on_same_view("EXPLAIN_FAILURE", json!({"url_id": file}));
            }
            let session = explained.fields.get("session").cloned().or_else(|| {
                let made = &explained.envelope["data"]["session"];
                made.is_i64().then(|| made.clone())
            });
            if let (Some(session), "unreadable_document") = (session, kind) {
                explained.suggest("INGEST", json!({"session": session, "refetch_failed": true}));
            }
            let schema = explained.fields.get("schema").and_then(Value::as_str).and_then(filter_for_schema);
            if let (Some(filter), "no_objects") = (schema, kind) {
                explained.suggest_on_same_view("QUERY", json!({"filter": filter}));
            }
        }
        "no_date" | "date_of_last_change_used" => {
            explained.suggest_on_same_view("SUMMARIZE", json!({"form": "timeline", "field": "modified"}));
        }
        "no_statement" => {
            for field in ["recommendation", "best-practice", "conclusion"] {
                explained.suggest_again(&[("field", json!(field))]);
            }
        }
        "in_groups_too_small" => explained.suggest_again(&[("constraints", Value::Null)]),
        "no_expectation" => {
            explained
                .suggest_again(&[("constraints", json!({"expected_topics": ["introduction", "methods", "results"]}))]);
        }
        _ => {}
    }
}

/// Suggests a request for the next page of a truncated list. Takes the offset from the answer, because the prose limit can
/// end a page early.
fn suggest_next_page(explained: &mut Explanation<'_>, detail: &str) {
    let offset = detail.rsplit(' ').next().and_then(|it| it.parse::<i64>().ok());
    if let Some(offset) = offset {
        explained.suggest_again(&[("offset", json!(offset))]);
    }
}

/// Reports objects with low confidence, by their position in the list and with their documents.
fn explain_unclear_objects(explained: &mut Explanation<'_>) {
    let (kind, recommendation) = match explained.fields.get("schema").and_then(Value::as_str) {
        Some("Code") => ("ambiguous_language_detection", "name languages on code fences, or filter by language"),
        Some("Table") => ("uneven_rows", "check these tables in their file"),
        _ => ("ambiguous_pattern", "raise filters.min_confidence, or check the locations"),
    };
    let objects = explained.envelope["data"]["objects"].as_array().into_iter().flatten().enumerate();
    let low: Vec<(usize, Value)> = objects
        .filter(|it| it.1["confidence"].as_f64().is_some_and(|it| it < MIN_CLEAR_CONFIDENCE))
        .map(|it| (it.0, it.1["file"].clone()))
        .collect();
    if low.is_empty() {
        return;
    }
    let files: BTreeSet<i64> = low.iter().filter_map(|it| it.1.as_i64()).collect();
    let blocks: Vec<usize> = low.iter().map(|it| it.0).collect();
    explained.push_issue(json!({
        "type": kind, "affected_blocks": blocks, "files": files, "recommendation": recommendation,
    }));
    let mut filters = explained.fields.get("filters").and_then(Value::as_object).cloned().unwrap_or_default();
    filters.insert("min_confidence".into(), json!(MIN_CLEAR_CONFIDENCE));
    explained.suggest_again(&[("filters", Value::Object(filters))]);
}

/// Reports a low confidence of the whole result, with what it is made of.
fn explain_low_confidence(explained: &mut Explanation<'_>) {
    let confidence = explained.envelope["confidence"].as_f64().unwrap_or(1.0);
    if confidence >= MIN_TRUSTED_CONFIDENCE || !explained.envelope["error"].is_null() {
        return;
    }
    let form = explained.fields.get("form").and_then(Value::as_str).unwrap_or_default();
    let recommendation = match (explained.verb, form) {
        ("TRACE" | "SCORE", "citations" | "authority" | "influence") => {
            "the documents hardly cite each other; take a view whose documents do"
        }
        ("TRACE" | "SCORE" | "SUMMARIZE", "freshness" | "timeline") => {
            "few documents state their date; label them, e.g. `Published: 2024-01-31`"
        }
        ("EXTRACT", _) => "set filters.min_confidence, or check the objects at their locations",
        _ => "take a view with more documents, or check the sources at their locations",
    };
    explained.push_issue(json!({
        "type": "low_confidence", "confidence": confidence, "reason": explained.envelope["method"]["name"],
        "recommendation": recommendation,
    }));
    explained.suggest_again(&[("view", Value::Null), ("session", Value::Null)]);
}

/// Explains one document of a view.
pub(crate) fn explain_document(request: &ValidRequest, corpus: &Corpus) -> ApiResult<Answer> {
    let mut answer = Answer::new("the state of the file, and what its parser reported");
    let view: Map<String, Value> = ["view", "session"]
        .into_iter()
        .filter_map(|it| Some((it.to_string(), request.fields.get(it)?.clone())))
        .collect();
    let (mut issues, mut actions) = (Vec::new(), Vec::new());
    let (file, path) = match corpus.unread.first().filter(|_| corpus.documents.is_empty()) {
        Some(UnreadDocument { file, path, reason }) => {
            issues.push(json!({
                "type": "not_read", "file": file, "reason": reason, "recommendation": recommendation_for(reason),
            }));
            let again = view.get("session").map(|it| json!({"session": it, "refetch_failed": true}));
            actions.extend(again.filter(|_| reason != PAST_TEXT_GONE).and_then(|it| valid_action("INGEST", it)));
            (*file, path.clone())
        }
        None => {
            let paper = corpus.find_document(&request.fields["url_id"], "url_id")?;
            answer.push_evidence(paper, 1);
            let problems = paper.parsed.problems.iter();
            issues.extend(
                problems.map(
                    |it| json!({"type": "reader_problem", "file": paper.file, "reason": it, "recommendation": null}),
                ),
            );
            let empty: Vec<&String> = paper.parsed.objects.iter().filter(|it| it.1.is_empty()).map(|it| it.0).collect();
            if !empty.is_empty() {
                issues
                    .push(json!({"type": "no_objects", "file": paper.file, "schemas": empty, "recommendation": null}));
            }
            if paper.parsed.facts.published_at.is_none() {
                issues.push(json!({
                    "type": "no_date", "file": paper.file, "recommendation": "state its date with a label, e.g. `Published: 2024-01-31`",
                }));
                let mut fields = view.clone();
                fields.extend([("form".to_string(), json!("timeline")), ("field".to_string(), json!("modified"))]);
                actions.extend(valid_action("SUMMARIZE", Value::Object(fields)));
            }
            (paper.file, paper.path.clone())
        }
    };
    let is_read = !corpus.documents.is_empty();
    answer.coverage = Some(if is_read { 1.0 } else { 0.0 });
    answer.confidence = 1.0;
    let fixable = is_fixable(&issues, &actions);
    let issues = answer.page(request, issues);
    answer.data = json!({
        "file": file, "path": path, "read": is_read, "fixable": fixable,
        "issues": issues, "suggested_actions": actions,
    });
    Ok(answer)
}

fn recommendation_for(reason: &str) -> &'static str {
    match reason {
        "encrypted" => "save it without a password",
        "damaged" | "decompression_limit" | "too_deep" => "open it in its program and save it again",
        "no_text" => "a scan: run `vic index`, which reads its images by OCR",
        "too_large" => "raise VIC_MAX_FILE_BYTES",
        "timeout" | "out_of_memory" | "worker_crash" => "split it, or raise the limits",
        "permission_denied" | "io" => "give vic read permission",
        "unsupported_type" => "convert it to a format that vic reads",
        "gone" => "restore the file, or INGEST again",
        PAST_TEXT_GONE => "the text of the session is not stored; INGEST again for a session that stores it",
        "pending" => "wait until it is indexed, or run `vic sync`",
        "secret" => "it is a secret file, which vic never reads",
        _ => "read it with `vic read`",
    }
}
