//! Tests of EXPLAIN_FAILURE: issues name documents and missing data, and every suggestion is a valid request.

use serde_json::{Value, json};

use crate::catalog::StoredResult;
use crate::corpus::api::error::ApiError;
use crate::corpus::api::{envelope, help, validate};
use crate::corpus::dispatch::run_verb_on_corpus;
use crate::corpus::results::bounded_request;
use crate::corpus::tests::determinism::{ADVICE, every_form};
use crate::corpus::tests::{corpus, labelled};
use crate::corpus::verbs::explain_failure;
use crate::corpus::views::documents::{Corpus, UnreadDocument};
use crate::corpus::views::{saved_view, select};

/// Runs a request and returns it with its answer, in stored form.
fn stored_result(corpus: &Corpus, verb: &str, request: &Value) -> StoredResult {
    let fields = request.as_object().unwrap().clone();
    let kept = |asked: Value, envelope: Value| StoredResult {
        request: asked.to_string(),
        envelope: envelope.to_string(),
        ..StoredResult::default()
    };
    let refused = |refusal: &ApiError| {
        let told = envelope::wrap_error(Some("r-1"), verb, &Value::Null, refusal.value());
        kept(json!({"verb": verb, "fields": request}), told)
    };
    let checked = match validate::validate_request(verb, fields) {
        Ok(checked) => checked,
        Err(refusal) => return refused(&refusal),
    };
    match run_verb_on_corpus(&checked, corpus, None) {
        Err(refusal) => refused(&refusal),
        Ok(mut answer) => {
            select::report_unread(&mut answer, corpus);
            let told = envelope::wrap_answer("r-1", verb, checked.form.name, &corpus.view, corpus.coverage(), &answer);
            kept(checked.canonical(), told)
        }
    }
}

fn explanation_of(booked: &StoredResult) -> Value {
    let request =
        validate::validate_request("EXPLAIN_FAILURE", json!({"id": "r-1"}).as_object().unwrap().clone()).unwrap();
    explain_failure::explain_result(&request, booked).unwrap().data
}

/// Checks that every suggested action is a valid request; returns the actions.
fn valid_suggestions(told: &Value) -> Vec<String> {
    let actions: Vec<String> = serde_json::from_value(told["suggested_actions"].clone()).unwrap();
    for action in &actions {
        let (verb, fields) = action.split_once(' ').unwrap();
        let fields: Value = serde_json::from_str(fields).unwrap();
        let fields = fields.as_object().unwrap().clone();
        match verb {
            "HELP" => assert!(help::text(fields.get("verb").and_then(Value::as_str), None).is_ok()),
            "VIEW" => assert!(saved_view::parse_request(&fields).is_ok(), "{action}"),
            verb => assert!(validate::validate_request(verb, fields).is_ok(), "{action}"),
        }
    }
    actions
}

/// Checks that there is an issue if the confidence of a result is low, and one for each thing that is unknown.
fn assert_explained(result: &StoredResult, issues: &[Value]) {
    let envelope: Value = serde_json::from_str(&result.envelope).unwrap();
    if envelope["confidence"].as_f64().unwrap() < 0.5 {
        let tells = |it: &Value| it["type"] == "low_confidence" || it["type"] == "refused";
        assert!(issues.iter().any(tells), "{envelope}: {issues:?}");
    }
    let data = envelope["data"]["unknowns"].as_array().into_iter().flatten();
    for unknown in envelope["unknowns"].as_array().into_iter().flatten().chain(data) {
        assert!(issues.iter().any(|it| it["unknown"] == unknown["type"]), "{unknown}: {issues:?}");
    }
}

#[test]
fn low_confidence_is_an_issue() {
    let corpus = corpus(&[("a.md", "# A\n\nOne.\n"), ("b.md", "# B\n\nTwo.\n")]);
    for (verb, request) in [
        ("SCORE", json!({"form": "authority"})),
        ("SUMMARIZE", json!({"form": "coverage", "topic": "wool"})),
        ("SUMMARIZE", json!({"form": "decision-inputs", "question": "Which wool?"})),
        ("DETECT", json!({"form": "anomalies", "constraints": {"field": "word_count"}})),
    ] {
        let kept = stored_result(&corpus, verb, &request);
        let confidence = serde_json::from_str::<Value>(&kept.envelope).unwrap()["confidence"].as_f64().unwrap();
        assert!(confidence < 0.5, "{verb} {request}: {confidence}");
        let told = explanation_of(&kept);
        let issue = told["issues"].as_array().unwrap().iter().find(|it| it["type"] == "low_confidence");
        assert_eq!(issue.unwrap()["confidence"], confidence, "{verb} {request}: {told}");
        valid_suggestions(&told);
    }
}

#[test]
fn every_answer_is_explained_with_valid_requests() {
    let mut damaged = corpus(ADVICE);
    damaged.unread.push(UnreadDocument { file: 9, path: "z.pdf".into(), reason: "damaged".into() });
    let empty = corpus(&[("a.txt", "Nothing."), ("b.txt", "Nothing either.")]);
    for corpus in [labelled(), damaged, empty] {
        for (verb, request) in every_form() {
            let told = explanation_of(&stored_result(&corpus, verb, &request));
            valid_suggestions(&told);
            let issues = told["issues"].as_array().unwrap();
            assert_explained(&stored_result(&corpus, verb, &request), issues);
            for issue in issues {
                assert!(issue["type"].is_string() && !issue["recommendation"].is_null(), "{verb} {request}: {issue}");
            }
            let unread = issues.iter().find(|it| it["type"] == "unreadable_document");
            if !corpus.unread.is_empty() {
                assert_eq!(unread.unwrap()["missing_from"], json!([9]), "{verb} {request}: {told}");
            }
        }
    }
}

#[test]
fn thin_results_suggest_wider_requests() {
    let corpus = corpus(&[("a.md", "# T\n\n```python\nx = 1\n```\n"), ("b.md", "# U\n\nText.\n")]);
    let request = json!({"schema": "Code", "session": 3, "filters": {"language": "cobol"}});
    let told = explanation_of(&stored_result(&corpus, "EXTRACT", &request));
    let actions = valid_suggestions(&told);
    for expected in [
        r#"EXTRACT {"schema":"Code","session":3}"#,
        r#"QUERY {"filter":"code_count>0","session":3}"#,
        r#"EXPLAIN_FAILURE {"url_id":2,"session":3}"#,
    ] {
        assert!(actions.iter().any(|it| it == expected), "{expected} is not among {actions:#?}");
    }
    assert!(told["fixable"] == true && told["target"] == "Code", "{told}");
    let many: String = (0..150).map(|it| format!("```python\nx = {it}\n```\n\n")).collect();
    let told = explanation_of(&stored_result(
        &crate::corpus::tests::corpus(&[("a.md", &many)]),
        "EXTRACT",
        &json!({"schema": "Code"}),
    ));
    let next = r#"EXTRACT {"schema":"Code","offset":100}"#.to_string();
    assert!(valid_suggestions(&told).contains(&next), "{told:#}");
    // Pretend that the prose limit ended the page at offset 7: the suggested request must continue there.
    let mut kept =
        stored_result(&crate::corpus::tests::corpus(&[("a.md", &many)]), "EXTRACT", &json!({"schema": "Code"}));
    kept.envelope = kept.envelope.replace("go on at offset 100", "go on at offset 7");
    let next = r#"EXTRACT {"schema":"Code","offset":7}"#.to_string();
    assert!(valid_suggestions(&explanation_of(&kept)).contains(&next), "{}", kept.envelope);
}

#[test]
fn rejected_request_suggests_correction() {
    let corpus = corpus(ADVICE);
    for (verb, request, expected) in [
        ("EXTRACT", json!({"schema": "Tabel"}), r#"EXTRACT {"schema":"Table"}"#),
        ("EXTRCT", json!({"schema": "Table"}), r#"EXTRACT {"schema":"Table"}"#),
        ("EXTRACT", json!({"schema": "Table", "limitt": 3}), r#"EXTRACT {"schema":"Table","limit":3}"#),
        ("COMPARE", json!({"form": "concensus", "field": "x"}), r#"COMPARE {"form":"consensus","field":"x"}"#),
        ("TRACE", json!({"form": "influence", "source": "none.md"}), r#"QUERY {"filter":"size>=0"}"#),
        ("QUERY", json!({"filter": "size>big"}), r#"HELP {"verb":"QUERY"}"#),
    ] {
        let told = explanation_of(&stored_result(&corpus, verb, &request));
        assert_eq!(told["issues"][0]["type"], "refused", "{told}");
        assert!(valid_suggestions(&told).iter().any(|it| it == expected), "{expected} is not in {told:#}");
    }
}

#[test]
fn readable_and_unreadable_file_are_explained() {
    let asked = |corpus: &Corpus, request: Value| {
        let request = validate::validate_request("EXPLAIN_FAILURE", request.as_object().unwrap().clone()).unwrap();
        explain_failure::explain_document(&request, corpus).unwrap().data
    };
    let told = asked(&corpus(&[("a.txt", "Nothing.")]), json!({"url_id": 1}));
    assert_eq!((&told["read"], &told["path"]), (&json!(true), &json!("a.txt")));
    assert_eq!(valid_suggestions(&told), [r#"SUMMARIZE {"form":"timeline","field":"modified"}"#]);
    let unread = UnreadDocument { file: 9, path: "z.pdf".into(), reason: "encrypted".into() };
    let told = asked(&Corpus { unread: vec![unread], ..Corpus::default() }, json!({"url_id": 9, "session": 4}));
    assert_eq!((&told["read"], &told["issues"][0]["reason"]), (&json!(false), &json!("encrypted")));
    assert_eq!(valid_suggestions(&told), [r#"INGEST {"session":4,"refetch_failed":true}"#]);
}

#[test]
fn long_rejected_request_is_stored_truncated() {
    let request = json!({"schema": "Code", "colour": "red ".repeat(100_000)});
    let mut kept = stored_result(&corpus(ADVICE), "EXTRACT", &request);
    kept.request = bounded_request(&json!({"verb": "EXTRACT", "fields": request}));
    assert!(kept.request.len() < 10_000, "{}", kept.request.len());
    let told = explanation_of(&kept).to_string();
    assert!(told.contains("request_cut") && told.contains("unknown_field"), "{told}");
    let small = json!({"verb": "EXTRACT", "fields": {"colour": "red"}});
    assert_eq!(bounded_request(&small), small.to_string());
}
