//! Tests of requests that the validator must reject, with the expected reason, or accept.

use serde_json::{Map, Value, json};

use crate::corpus::api::error::ApiErrorKind;
use crate::corpus::api::output_budget::{ERROR_TOKENS, HELP_TOKENS, TokenRuler};
use crate::corpus::api::{help, output_budget, render, validate};
use crate::corpus::dispatch::canonical_verb;
use crate::corpus::tests::tokenizer;
use crate::verbs::{ANY_FILTERS, COMMON_FIELDS, Field, FieldKind, Form, MANAGEMENT_CALLS, SCHEMAS, VERBS, Verb};

pub(super) type Case = (&'static str, Value);

/// Returns a valid request of a form with only the required fields.
fn smallest_request(verb: &'static Verb, form: &'static Form) -> Map<String, Value> {
    let mut request = Map::new();
    if !form.name.is_empty() {
        request.insert("form".into(), form.name.into());
    }
    let chosen = match verb.name {
        "INGEST" => json!({"paths": ["/w"]}),
        "DELTA" => json!({"since": "2024-01-31"}),
        "EXPLAIN_FAILURE" => json!({"id": "r-1"}),
        _ if form.name == "versions" && verb.name == "COMPARE" => json!({"doc_a": "a.md", "doc_b": "b.md"}),
        _ => Value::Object(
            form.fields.iter().filter(|it| it.required).map(|it| (it.name.to_string(), valid_value(it.kind))).collect(),
        ),
    };
    request.extend(chosen.as_object().unwrap().clone());
    request
}

fn valid_value(kind: FieldKind) -> Value {
    match kind {
        FieldKind::Text(_) => json!("look at documents"),
        FieldKind::Flag => json!(true),
        FieldKind::Whole(low, _) => json!(low.max(1)),
        FieldKind::Number(low, high) => json!((low + high) / 2.0),
        FieldKind::Choice(names) => json!(names[0]),
        FieldKind::Moment => json!("2024-01-31"),
        FieldKind::Filter => json!("size>3 AND NOT extension=pdf"),
        FieldKind::File => json!(3),
        FieldKind::Baseline => json!("r-41c0ffee0badcafe"),
        FieldKind::Texts(_) => json!(["word count"]),
        FieldKind::Files(_) => json!([1, "a.md"]),
        FieldKind::Object(_) | FieldKind::SchemaFilters => json!({}),
    }
}

/// Returns a value of a type that the field does not accept.
fn mistyped(kind: FieldKind) -> Value {
    match kind {
        FieldKind::Flag
        | FieldKind::Whole(..)
        | FieldKind::Number(..)
        | FieldKind::Object(_)
        | FieldKind::SchemaFilters => json!("seven"),
        FieldKind::Texts(_) | FieldKind::Files(_) => json!(true),
        FieldKind::File | FieldKind::Baseline => json!(1.5),
        _ => json!(7),
    }
}

/// Returns a value outside the range of the field, if its type has a range.
fn out_of_range(kind: FieldKind) -> Option<Value> {
    match kind {
        FieldKind::Text(most) => Some(json!("x".repeat(most + 1))),
        FieldKind::Whole(low, _) => Some(json!(low - 1)),
        FieldKind::Number(_, high) => Some(json!(high + 0.5)),
        _ => None,
    }
}

/// Returns whether adding a field would make the smallest request invalid or a request of another kind.
fn changes_request(verb: &Verb, field: &Field) -> bool {
    match verb.name {
        "INGEST" => ["urls", "session", "refetch_failed", "view", "paths"].contains(&field.name),
        "DELTA" => ["baseline", "only", "field", "since"].contains(&field.name),
        "EXPLAIN_FAILURE" => ["extraction_id", "detection_id", "url_id", "id"].contains(&field.name),
        _ => false,
    }
}

fn all_forms() -> impl Iterator<Item = (&'static Verb, &'static Form)> {
    VERBS.iter().flat_map(|verb| verb.forms.iter().map(move |form| (verb, form)))
}

fn with(request: &Map<String, Value>, name: &str, value: Value) -> Value {
    let mut request = request.clone();
    request.insert(name.into(), value);
    Value::Object(request)
}

pub(super) fn good_requests() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (verb, form) in all_forms() {
        let base = smallest_request(verb, form);
        cases.push((verb.name, Value::Object(base.clone())));
        for field in Verb::fields(form).filter(|it| !changes_request(verb, it)) {
            match field.kind {
                FieldKind::Choice(names) => {
                    let fits = |it: &&&str| **it != "csv" || render::has_table(verb.name, form.name);
                    cases.extend(names.iter().filter(fits).map(|it| (verb.name, with(&base, field.name, json!(it)))));
                }
                FieldKind::Object(inner) => cases.extend(
                    inner
                        .iter()
                        .filter(|it| it.name != "field")
                        .map(|it| (verb.name, with(&base, field.name, json!({it.name: valid_value(it.kind)})))),
                ),
                kind => cases.push((verb.name, with(&base, field.name, valid_value(kind)))),
            }
        }
    }
    for schema in SCHEMAS {
        for filter in schema.filters.iter().chain(ANY_FILTERS) {
            cases.push((
                "extract",
                json!({"schema": schema.name.to_lowercase(), "filters": {filter.name: valid_value(filter.kind)}}),
            ));
        }
    }
    cases.extend(realistic_requests());
    cases
}

/// Returns requests as people would write them.
fn realistic_requests() -> Vec<Case> {
    vec![
        ("Explain-Failure", json!({"verb": "extract", "extraction-id": "r-1"})),
        ("explain_failure", json!({"session": 3, "url_id": 4})),
        ("ingest", json!({"session": 3, "refetch_failed": true})),
        ("ingest", json!({"urls": ["https://example.org/a"], "mode": "minimal"})),
        ("delta", json!({"baseline": 2, "only": "new-contradictions"})),
        ("delta", json!({"baseline": 2, "only": "new_contradictions"})),
        ("delta", json!({"watch": 2, "field": "content"})),
        ("delta", json!({"watch": 2, "field": "word_count"})),
        ("delta", json!({"baseline": "r-41c0ffee0badcafe", "only": "added"})),
        ("compare", json!({"form": "Consensus", "field": "recommendation", "threshold": 1})),
        (
            "detect",
            json!({"form": "clusters", "objective": "group by topical similarity", "constraints": {"max_clusters": 5}}),
        ),
        (
            "detect",
            json!({"form": "warnings", "objective": "flag cautionary language", "constraints": {"min_strength": "high"}}),
        ),
        (
            "detect",
            json!({"form": "gaps", "objective": "find missing expected content", "constraints": {"expected_topics": ["intro"]}}),
        ),
        (
            "detect",
            json!({"form": "anomalies", "objective": "outlier detection", "constraints": {"field": "citation_count"}}),
        ),
        (
            "detect",
            json!({"form": "trends", "objective": "temporal pattern analysis", "constraints": {"field": "recommendation"}}),
        ),
        ("query", json!({"filter": "has_abstract AND citations>50 AND year>=2020"})),
        ("query", json!({"filter": "content_type=academic AND has_code_examples"})),
        ("query", json!({"filter": "domain_type=.edu AND word_count>5000"})),
        ("summarize", json!({"form": "comparison_matrix", "items": [1, 5], "schema": ["year"], "view": null})),
    ]
}

pub(super) fn bad_requests() -> Vec<(Case, ApiErrorKind)> {
    let mut cases: Vec<(Case, ApiErrorKind)> = Vec::new();
    for (verb, form) in all_forms() {
        let base = smallest_request(verb, form);
        cases.push(((verb.name, with(&base, "colour", json!(1))), ApiErrorKind::UnknownField));
        cases.push(((verb.name, with(&base, "limitt", json!(1))), ApiErrorKind::UnknownField));
        if !form.name.is_empty() {
            cases.push(((verb.name, with(&base, "form", json!(format!("{}x", form.name)))), ApiErrorKind::UnknownForm));
        }
        for field in Verb::fields(form).filter(|it| !changes_request(verb, it)) {
            cases.push(((verb.name, with(&base, field.name, mistyped(field.kind))), ApiErrorKind::TypeError));
            cases.extend(
                out_of_range(field.kind).map(|it| ((verb.name, with(&base, field.name, it)), ApiErrorKind::OutOfRange)),
            );
            if field.required {
                let mut without = base.clone();
                without.remove(field.name);
                cases.push(((verb.name, Value::Object(without)), ApiErrorKind::MissingField));
            }
        }
    }
    cases.extend(wrong_names());
    cases.extend(conflicting_fields());
    cases.extend(wrong_values());
    cases
}

/// Returns requests with unknown verbs, forms, schemas and fields.
fn wrong_names() -> Vec<(Case, ApiErrorKind)> {
    vec![
        (("search", json!({})), ApiErrorKind::UnknownVerb),
        (("ingest", json!({"form": "docs", "paths": ["/w"]})), ApiErrorKind::UnknownForm),
        (("extrac", json!({"schema": "Code"})), ApiErrorKind::UnknownVerb),
        (("", json!({})), ApiErrorKind::UnknownVerb),
        (("extract", json!({"schema": "Picture"})), ApiErrorKind::UnknownSchema),
        (("extract", json!({"schema": "Code", "filters": {"min_words": 3}})), ApiErrorKind::UnknownField),
        (("compare", json!({"form": "consensus", "field": "x", "doc_a": 3})), ApiErrorKind::UnknownField),
        (("query", json!({"filter": "sise>3"})), ApiErrorKind::UnknownField),
        (("detect", json!({"form": "clusters", "constraints": {"max_cluster": 3}})), ApiErrorKind::UnknownField),
        (("detect", json!({"form": "anomalies", "constraints": {"field": "colour"}})), ApiErrorKind::UnknownField),
        (("summarize", json!({"form": "decision-brief", "question": "x"})), ApiErrorKind::UnknownForm),
    ]
}

/// Returns requests with conflicting and missing fields.
fn conflicting_fields() -> Vec<(Case, ApiErrorKind)> {
    vec![
        (("extract", json!({"schema": "Code", "view": "v", "session": 1})), ApiErrorKind::Ambiguous),
        (("compare", json!({"field": "x"})), ApiErrorKind::Ambiguous),
        (("delta", json!({})), ApiErrorKind::Ambiguous),
        (("delta", json!({"since": "2024-01-01", "baseline": 3})), ApiErrorKind::Ambiguous),
        (("delta", json!({"since": "2024-01-01", "only": "added"})), ApiErrorKind::MissingField),
        (("delta", json!({"since": "2024-01-01", "field": "content"})), ApiErrorKind::MissingField),
        (("ingest", json!({})), ApiErrorKind::MissingField),
        (("ingest", json!({"paths": ["/w"], "urls": ["https://example.org"]})), ApiErrorKind::Ambiguous),
        (("ingest", json!({"paths": ["/w"], "refetch_failed": true})), ApiErrorKind::MissingField),
        (("ingest", json!({"session": 3})), ApiErrorKind::Ambiguous),
        (("ingest", json!({"paths": []})), ApiErrorKind::MissingField),
        (("explain_failure", json!({})), ApiErrorKind::MissingField),
        (("explain_failure", json!({"id": "a", "extraction_id": "b"})), ApiErrorKind::Ambiguous),
        (("explain_failure", json!({"verb": "detect", "extraction_id": "b"})), ApiErrorKind::Ambiguous),
        (("query", json!({"filter": " "})), ApiErrorKind::MissingField),
        (("detect", json!({"form": "clusters", "objective": "find outliers"})), ApiErrorKind::Ambiguous),
        (("score", json!({"form": "coverage"})), ApiErrorKind::MissingField),
    ]
}

/// Returns requests with values of a wrong type, out of range, or that cannot be parsed.
fn wrong_values() -> Vec<(Case, ApiErrorKind)> {
    vec![
        (("extract", json!({"schema": "Quote", "filters": {"min_words": "ten"}})), ApiErrorKind::TypeError),
        (("extract", json!({"schema": "Quote", "filters": {"min_words": 0}})), ApiErrorKind::OutOfRange),
        (("extract", json!({"schema": "Code", "format": "xml"})), ApiErrorKind::OutOfRange),
        (("score", json!({"form": "confidence", "extraction": "r-1", "format": "csv"})), ApiErrorKind::OutOfRange),
        (("summarize", json!({"form": "decision-inputs", "question": "x", "format": "csv"})), ApiErrorKind::OutOfRange),
        (("compare", json!({"form": "versions", "doc_a": 3, "doc_b": 3})), ApiErrorKind::OutOfRange),
        (("compare", json!({"form": "consensus", "field": "x", "threshold": 1.5})), ApiErrorKind::OutOfRange),
        (("delta", json!({"since": "soon"})), ApiErrorKind::TypeError),
        (("delta", json!({"baseline": "last"})), ApiErrorKind::TypeError),
        (("delta", json!({"baseline": 0})), ApiErrorKind::OutOfRange),
        (("query", json!({"filter": "text argues against tax"})), ApiErrorKind::SemanticFilter),
        (("query", json!({"filter": "size>big"})), ApiErrorKind::TypeError),
        (("query", json!({"filter": "(size>3"})), ApiErrorKind::InvalidFilter),
        (("detect", json!({"form": "clusters", "constraints": {"max_clusters": 0}})), ApiErrorKind::OutOfRange),
        (("detect", json!({"form": "anomalies", "constraints": {"field": "title"}})), ApiErrorKind::TypeError),
        (("detect", json!({"form": "trends", "constraints": {"field": "title"}})), ApiErrorKind::TypeError),
        (("detect", json!({"form": "trends", "constraints": {"field": "chunks"}})), ApiErrorKind::TypeError),
        (("detect", json!({"form": "gaps", "constraints": {"expected_topics": true}})), ApiErrorKind::TypeError),
        (("normalize", json!({"form": "entities", "concept": "--"})), ApiErrorKind::OutOfRange),
        (("normalize", json!({"form": "code", "style": "ugly"})), ApiErrorKind::OutOfRange),
        (("trace", json!({"form": 3})), ApiErrorKind::TypeError),
    ]
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn valid_requests_are_accepted() {
    let cases = good_requests();
    let refused: Vec<String> = cases
        .iter()
        .filter_map(|(verb, request)| {
            Some(format!("{verb} {request}: {:?}", validate::validate_request(verb, map(request)).err()?))
        })
        .collect();
    assert!(cases.len() >= 200, "{}", cases.len());
    assert!(refused.is_empty(), "\n{}", refused.join("\n"));
}

#[test]
fn malformed_requests_give_expected_error_in_token_limit() {
    let tokenizer = tokenizer();
    let cases = bad_requests();
    let mut wrong = Vec::new();
    for ((verb, request), cause) in &cases {
        match validate::validate_request(verb, map(request)) {
            Ok(_) => wrong.push(format!("{verb} {request}: accepted")),
            Err(refused) => {
                if refused.kind != *cause || refused.message.is_empty() {
                    wrong.push(format!("{verb} {request}: {:?} is not {cause:?}", refused.kind));
                }
                let error = output_budget::limit_error(&refused, TokenRuler(&tokenizer));
                assert!(TokenRuler(&tokenizer).count(&error.to_string()) <= ERROR_TOKENS, "{error}");
            }
        }
    }
    println!("{} of {} malformed requests refused with the right reason", cases.len() - wrong.len(), cases.len());
    assert!(cases.len() >= 200, "{}", cases.len());
    // The documentation promises the right reason for 95 % of the requests; the test requires it for all.
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Parses the lines of `tests/data/requests/refused.txt`: verb, request, error type, and the field in the error.
fn listed_requests() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let lines = include_str!("../../../tests/data/requests/refused.txt").lines().filter(|it| !it.starts_with('#'));
    let parse = |line: &'static str| {
        let (verb, rest) = line.split_once(' ').unwrap();
        let (rest, field) = rest.rsplit_once(' ').unwrap();
        let (request, cause) = rest.rsplit_once(' ').unwrap();
        (verb, serde_json::from_str(request).unwrap_or_else(|it| panic!("{line}: {it}")), cause, field)
    };
    lines.map(parse).collect()
}

#[test]
fn listed_malformed_requests_give_listed_error_and_field() {
    let cases = listed_requests();
    let mut wrong = Vec::new();
    for (verb, request, cause, field) in &cases {
        match validate::validate_request(verb, map(request)) {
            Ok(_) => wrong.push(format!("{verb} {request}: accepted")),
            Err(refused) => {
                let told = refused.value();
                let right = told["type"] == *cause && told["field"].as_str().unwrap_or("-") == *field;
                if !right || told["suggested_actions"][0].as_str().is_none_or(str::is_empty) {
                    wrong.push(format!("{verb} {request}: not {cause} {field}: {told}"));
                }
            }
        }
    }
    let different: std::collections::BTreeSet<String> = cases.iter().map(|it| format!("{} {}", it.0, it.1)).collect();
    assert!(different.len() == cases.len() && cases.len() >= 200, "{} of {}", different.len(), cases.len());
    let forms: std::collections::BTreeSet<(&str, &str)> =
        cases.iter().map(|it| (it.0, it.1["form"].as_str().unwrap_or_default())).collect();
    for (verb, form) in all_forms() {
        assert!(
            forms.iter().any(|it| it.0.eq_ignore_ascii_case(verb.name) && it.1 == form.name),
            "{} {}",
            verb.name,
            form.name
        );
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn typo_suggests_nearest_name() {
    let refused = validate::validate_request("extrct", Map::new()).unwrap_err();
    assert_eq!(refused.actions, ["did you mean `EXTRACT`?"]);
    let refused = validate::validate_request("extract", map(&json!({"schema": "Tabel"}))).unwrap_err();
    assert_eq!(refused.actions, ["did you mean `Table`?"]);
    let refused = validate::validate_request("compare", map(&json!({"form": "concensus", "field": "x"}))).unwrap_err();
    assert_eq!(refused.actions, ["did you mean `consensus`?"]);
}

#[test]
fn equal_requests_share_canonical_form() {
    let canonical =
        |request: Value| validate::validate_request("EXTRACT", map(&request)).unwrap().canonical().to_string();
    let one = canonical(json!({"schema": "table", "limit": 3, "format": "csv"}));
    assert_eq!(one, canonical(json!({"limit": 3, "schema": "Table", "async": true, "verbose": false})));
    // With `verbose` the answer has all of its prose, so it must get a different id.
    assert_ne!(one, canonical(json!({"limit": 3, "schema": "Table", "verbose": true})));
}

#[test]
fn help_texts_fit_token_limit() {
    let tokenizer = tokenizer();
    let check = |verb: Option<&str>, form: Option<&str>| {
        let text = help::text(verb, form).unwrap();
        let tokens = TokenRuler(&tokenizer).count(&text);
        assert!(tokens <= HELP_TOKENS, "{verb:?} {form:?} has {tokens}:\n{text}");
        text
    };
    check(None, None);
    assert!(check(Some("fields"), None).contains("word_count"));
    for verb in VERBS.iter().chain(MANAGEMENT_CALLS) {
        let text = check(Some(verb.name), None);
        assert!(text.contains(verb.when) && text.contains(&verb.never[1..]) && text.contains(verb.refuses), "{text}");
        for form in verb.forms.iter().filter(|it| !it.name.is_empty()) {
            let text = check(Some(verb.name), Some(&form.name.to_uppercase()));
            assert!(text.contains(form.about) && text.contains("\nRequest: {"), "{text}");
            for field in form.fields {
                let names = field.aliases.iter().chain([&field.name]);
                assert!(names.into_iter().all(|it| text.contains(it)) && text.contains(field.about), "{text}");
            }
        }
    }
    for schema in SCHEMAS {
        for name in [schema.name.to_string(), schema.name.to_lowercase(), schema.name.to_uppercase()] {
            let text = check(Some("Extract"), Some(&name));
            for filter in schema.filters.iter().chain(ANY_FILTERS) {
                assert!(text.contains(&format!("\n{}", filter.name)) && text.contains(filter.about), "{text}");
            }
        }
    }
    for field in COMMON_FIELDS {
        assert!(check(Some("COMMON"), None).contains(field.about), "{}", field.name);
    }
    for verb in VERBS {
        let text = help::text(Some(verb.name), None).unwrap();
        assert!(text.contains("\nRequest: {") && text.contains("\nData: {"), "{text}");
    }
    let refused = help::text(Some("extrct"), None).unwrap_err();
    assert_eq!(refused.1["error"]["suggested_actions"][0], "did you mean `EXTRACT`?");
    assert_eq!(help::text(Some("compare"), Some("version")).unwrap_err().1["error"]["type"], "unknown_form");
    let refused = help::text(Some("extract"), Some("Tables")).unwrap_err();
    assert_eq!(refused.1["error"]["suggested_actions"][0], "did you mean `Table`?");
    let refused = help::text(Some("versions"), None).unwrap_err();
    let action = &refused.1["error"]["suggested_actions"][0];
    assert_eq!(action, "use help NORMALIZE versions or help COMPARE versions");
}

#[test]
fn lookalike_letters_are_no_verb() {
    assert_eq!(canonical_verb(" explain-failure "), "EXPLAIN_FAILURE");
    for verb in ["\u{131}ngest", "inge\u{17f}t"] {
        let refused = validate::validate_request(&canonical_verb(verb), map(&json!({"paths": ["/w"]}))).unwrap_err();
        assert_eq!(refused.kind, ApiErrorKind::UnknownVerb, "{verb}");
    }
}
