//! Tests of requests as language models write them at the first try, with nothing but the help, and of the errors that
//! answer their mistakes.

use serde_json::{Map, Value, json};

use crate::corpus::api::error::{ApiError, ApiErrorKind};
use crate::corpus::api::help_pages::MANAGEMENT_SAMPLES;
use crate::corpus::api::output_budget::{ERROR_TOKENS, PROSE_TOKENS, TokenRuler, is_prose};
use crate::corpus::api::{aliases, help, management, output_budget, validate};
use crate::corpus::tests::tokenizer;
use crate::corpus::text::dates;
use crate::corpus::views::saved_view;
use crate::verbs::{self, Field, SCHEMAS, VERBS, Verb};

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Returns requests that a reader of the help may write: with the words of the help, and with the habits of other APIs.
fn first_requests() -> Vec<(&'static str, Value)> {
    vec![
        ("ingest", json!({"path": "/home/me/papers"})),
        ("INGEST", json!({"paths": ["/home/me/papers"], "mode": "minimal", "wait_ms": 20000})),
        ("ingest", json!({"url": "https://example.org/a"})),
        ("extract", json!({"schema": "table", "file": "report.pdf"})),
        ("extract", json!({"schema": "Code", "filters": {"language": "python"}, "limit": "10"})),
        ("extract", json!({"schema": "Definition", "term": "transformer"})),
        ("extract", json!({"form": "Quote", "filters": {"min_words": "10"}})),
        ("extract", json!({"schema": "Reference", "filters": "{\"year\": 2020}", "format": "csv"})),
        ("normalize", json!({"form": "entities", "name": "neural network"})),
        ("normalize", json!({"form": "dates", "session_id": 1})),
        ("normalize", json!({"type": "versions", "package": "python"})),
        ("normalize", json!({"form": "code", "lang": "python", "style": "black"})),
        ("compare", json!({"doc_a": "a.md", "doc_b": "b.md"})),
        ("compare", json!({"form": "versions", "old": 1, "new": 2})),
        ("compare", json!({"form": "consensus", "field": "recommendation", "threshold": "0.8"})),
        ("compare", json!({"form": "contradictions", "topic": "best-practice"})),
        ("compare", json!({"form": "approaches"})),
        ("detect", json!({"form": "clusters", "max_clusters": 5})),
        ("detect", json!({"form": "warnings", "constraints": {"min_strength": "high"}})),
        ("detect", json!({"form": "gaps", "constraints": {"expected_topics": "methods"}})),
        ("detect", json!({"form": "anomalies", "constraints": {"field": "citations"}})),
        ("detect", json!({"form": "trends", "constraints": {"field": "recommendation", "period": "month"}})),
        ("trace", json!({"form": "citations", "format": "graph"})),
        ("trace", json!({"form": "influence", "file": "a.md"})),
        ("trace", json!({"form": "freshness", "baseline_date": "2 years ago"})),
        ("score", json!({"form": "authority", "rank_by": "pagerank"})),
        ("score", json!({"form": "confidence", "id": "r-41c0ffee0badcafe"})),
        ("score", json!({"form": "coverage", "query": "transformers", "top_k": 5})),
        ("query", json!({"query": "extension == 'md' && word_count > 100"})),
        ("query", json!({"filter": "modified >= \"7 days\" and not has_abstract", "async": "true"})),
        ("delta", json!({"since": "7 days"})),
        ("delta", json!({"after": "yesterday"})),
        ("delta", json!({"baseline": "1", "only": "new_contradictions"})),
        ("delta", json!({"file": "a.md", "field": "headings"})),
        ("summarize", json!({"form": "coverage", "topic": "transformers"})),
        ("summarize", json!({"question": "Which library?"})),
        ("summarize", json!({"form": "timeline", "field": "modified"})),
        ("summarize", json!({"form": "comparison_matrix", "files": [1, 2], "fields": ["year"]})),
        ("explain-failure", json!({"id": "r-41c0ffee0badcafe"})),
        ("explain_failure", json!({"file": "a.md"})),
    ]
}

#[test]
fn first_requests_of_models_are_accepted() {
    let requests = first_requests();
    let error = |(verb, request): &(&str, Value)| {
        let error = validate::validate_request(verb, map(request)).err()?;
        Some(format!("{verb} {request}: {error:?}"))
    };
    let refused: Vec<String> = requests.iter().filter_map(error).collect();
    assert!(refused.is_empty(), "\n{}", refused.join("\n"));
    assert!(requests.len() >= 30);
}

#[test]
fn every_request_in_the_help_is_accepted() {
    for verb in VERBS {
        for form in verb.forms {
            let page = help::text(Some(verb.name), Some(form.name).filter(|it| !it.is_empty())).unwrap();
            let request = page.lines().find_map(|it| it.strip_prefix("Request: ")).unwrap();
            let request: Value = serde_json::from_str(request).unwrap();
            assert!(validate::validate_request(verb.name, map(&request)).is_ok(), "{} {request}", verb.name);
        }
    }
    for schema in SCHEMAS {
        let page = help::text(Some("EXTRACT"), Some(schema.name)).unwrap();
        let request = page.lines().find_map(|it| it.strip_prefix("Request: ")).unwrap();
        let request: Value = serde_json::from_str(request).unwrap();
        assert!(validate::validate_request("EXTRACT", map(&request)).is_ok(), "{request}");
    }
    for (call, form, request) in MANAGEMENT_SAMPLES {
        let request = map(&serde_json::from_str(request).unwrap());
        let own = verbs::management_call(call).unwrap();
        let own = verbs::form_of(own, form).unwrap_or(&own.forms[0]);
        let named = aliases::name_management_fields(call, &request).unwrap();
        let is_known = |it: &String| it == "action" || own.fields.iter().any(|field| field.name == it);
        assert!(named.keys().all(is_known), "{call} {request:?}");
        if *call == "VIEW" {
            assert!(saved_view::parse_request(&request).is_ok(), "{request:?}");
        }
    }
}

#[test]
fn overview_names_every_needed_field() {
    let overview = help::text(None, None).unwrap();
    for verb in VERBS {
        let line = overview.lines().find(|it| it.starts_with(verb.name)).unwrap();
        for form in verb.forms {
            let needed = form.fields.iter().filter(|it| it.required).map(|it| it.name);
            assert!(needed.chain([form.name]).all(|it| line.contains(it)), "{line}");
        }
    }
    // These verbs require one of two optional fields, which the overview lists as `(a or b)`.
    for verb in ["INGEST", "DELTA", "EXPLAIN_FAILURE"] {
        let line = overview.lines().find(|it| it.starts_with(verb)).unwrap();
        let names = line.split(['(', ')']).nth(1).unwrap().split(" or ").collect::<Vec<_>>();
        let own = verbs::verb(verb).unwrap().forms[0].fields;
        assert!(names.len() == 2 && names.iter().all(|name| own.iter().any(|it| it.is_named(name))), "{line}");
    }
}

#[test]
fn times_ago_are_taken_wherever_a_time_is_taken() {
    for (verb, request, field) in [
        ("DELTA", json!({"since": "7 days"}), "since"),
        ("DELTA", json!({"since": "last 2 weeks"}), "since"),
        ("TRACE", json!({"form": "freshness", "baseline_date": "yesterday"}), "baseline_date"),
        ("SCORE", json!({"form": "freshness", "baseline_date": "1 month ago"}), "baseline_date"),
    ] {
        let checked = validate::validate_request(verb, map(&request)).unwrap();
        let moment = dates::parse_moment(checked.text(field).unwrap());
        let hours = (dates::now_ns() - moment.unwrap()) / 3_600_000_000_000;
        assert!((0..24 * 32).contains(&hours), "{verb} {request}: {hours}");
    }
    let plain = validate::validate_request("DELTA", map(&json!({"since": "2024-01"}))).unwrap();
    assert_eq!(plain.text("since"), Some("2024-01"), "a date stays as it was written");
}

/// Checks that an error fits its limit, and that its texts end with whole words.
fn check_error(error: &ApiError, ruler: TokenRuler<'_>) {
    let shown = output_budget::limit_error(error, ruler);
    assert!(ruler.count(&shown.to_string()) <= ERROR_TOKENS, "{shown}");
    let texts =
        |it: &Value| it.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect();
    let whole: Vec<String> = [error.value()["message"].as_str().unwrap().to_string()]
        .into_iter()
        .chain::<Vec<String>>(texts(&error.value()["suggested_actions"]))
        .collect();
    let message = [shown["message"].as_str().unwrap().to_string()];
    for text in message.into_iter().chain::<Vec<String>>(texts(&shown["suggested_actions"])) {
        let Some(cut) = text.strip_suffix('…') else {
            assert!(whole.contains(&text), "{text} is cut without a mark");
            continue;
        };
        let full = whole.iter().find(|it| it.starts_with(cut)).unwrap_or_else(|| panic!("{text}"));
        let next = full[cut.len()..].chars().next();
        assert!(next.is_none_or(|it| !it.is_alphanumeric()), "{text} is cut within a word of {full}");
    }
}

#[test]
fn long_errors_are_cut_between_words() {
    let tokenizer = tokenizer();
    let ruler = TokenRuler(&tokenizer);
    let names = "uncharacteristically misinterpretation's electroencephalography counterintuitive ".repeat(12);
    for count in 1..60 {
        let message: String = names.split_inclusive(' ').take(count).collect();
        let message = message.trim_end().to_string();
        check_error(&ApiError::new(ApiErrorKind::UnknownFile, message.clone()), ruler);
        check_error(&ApiError::new(ApiErrorKind::UnknownFile, "short").action(message.clone()), ruler);
        check_error(&ApiError::new(ApiErrorKind::UnknownFile, message.clone()).action(message), ruler);
    }
    for ((verb, request), _) in crate::corpus::tests::validation::bad_requests() {
        check_error(&validate::validate_request(verb, map(&request)).unwrap_err(), ruler);
    }
}

#[test]
fn errors_about_unknown_fields_name_the_fields_of_the_form() {
    let error = |verb: &str, request: Value| validate::validate_request(verb, map(&request)).unwrap_err();
    let told = error("COMPARE", json!({"form": "consensus", "field": "x", "zzz": 1}));
    assert_eq!(told.actions, ["use field, threshold: see help COMPARE consensus"]);
    let told = error("COMPARE", json!({"form": "consensus", "field": "x", "doc_a": 1}));
    assert_eq!(told.actions, ["`doc_a` is a field of the form `versions`"]);
    let told = error("EXTRACT", json!({"schema": "Table", "files": ["a.md"]}));
    assert_eq!(
        (told.message.as_str(), told.actions[0].as_str()),
        ("EXTRACT has no field `files`", "did you mean `file`?")
    );
    assert_eq!(error("DETECT", json!({"form": "outliers"})).actions, ["did you mean `anomalies`?"]);
    assert!(error("list", json!({})).actions[0].starts_with("QUERY {"));
    let told = error("QUERY", json!({}));
    assert!(told.actions[1].starts_with("write e.g. {\"filter\":"), "{told:?}");
    let told = error("QUERY", json!({"filter": {"year": 2020}}));
    assert!(told.actions[0].contains("year>=2020"), "{told:?}");
}

/// Counts the tokens of the prose in a value.
fn prose_tokens(value: &Value, ruler: TokenRuler<'_>) -> usize {
    match value {
        Value::String(text) if is_prose(text) => ruler.count(text),
        Value::Array(list) => list.iter().map(|it| prose_tokens(it, ruler)).sum(),
        Value::Object(map) => map.values().map(|it| prose_tokens(it, ruler)).sum(),
        _ => 0,
    }
}

#[test]
fn schema_answers_fit_prose_limit() {
    let tokenizer = tokenizer();
    let names: Vec<&str> = VERBS.iter().chain(verbs::MANAGEMENT_CALLS).map(|it| it.name).collect();
    for request in names.iter().map(|it| json!({"verb": it})).chain([json!({})]) {
        let answer = management::schemas_value(&map(&request)).unwrap();
        let prose = prose_tokens(&answer, TokenRuler(&tokenizer));
        assert!(prose <= PROSE_TOKENS, "{request}: {prose} tokens");
    }
}

#[test]
fn published_schemas_name_other_names_of_fields() {
    for verb in VERBS {
        let schema = management::schemas_value(&map(&json!({"verb": verb.name}))).unwrap().to_string();
        let fields = verb.forms.iter().flat_map(Verb::fields);
        for field in fields.filter(|it: &&Field| !it.aliases.is_empty()) {
            assert!(schema.contains(&format!("; also {}", field.aliases.join(", "))), "{} {}", verb.name, field.name);
        }
    }
}
