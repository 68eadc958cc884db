//! Tests of the results of the verbs on documents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::corpus::analysis::clustering::MAX_DOCUMENTS;
use crate::corpus::api::error::ApiErrorKind;
use crate::corpus::api::validate;
use crate::corpus::dispatch::run_verb_on_corpus;
use crate::corpus::tests::corpus;
use crate::corpus::tests::determinism::{ADVICE, ask};
use crate::corpus::views::documents::CorpusDocument;

#[test]
fn compare_counts_contradictions_and_consensus() {
    let corpus = corpus(ADVICE);
    let answer = ask(&corpus, "COMPARE", json!({"form": "contradictions", "field": "recommendation"}));
    assert_eq!(answer.data["disagreements"], 2, "{}", answer.data);
    let answer = ask(&corpus, "COMPARE", json!({"form": "consensus", "field": "recommendation", "threshold": 0.6}));
    assert_eq!(
        (answer.data["consensus_points"].as_u64(), &answer.data["points"][0]["agree"]),
        (Some(1), &json!(2)),
        "{}",
        answer.data
    );
    assert_eq!(answer.data["points"][0]["disagree"], 1);
}

#[test]
fn approaches_and_decision_inputs_list_pros_and_cons() {
    let corpus = corpus(ADVICE);
    let answer = ask(&corpus, "COMPARE", json!({"form": "approaches"}));
    assert_eq!(
        (&answer.data["approaches"], &answer.data["pros"], &answer.data["cons"]),
        (&json!(2), &json!(3), &json!(3)),
        "{}",
        answer.data
    );
    let answer = ask(&corpus, "SUMMARIZE", json!({"form": "decision-inputs", "question": "Which gauge?"}));
    for field in [
        "options",
        "evidence_for",
        "evidence_against",
        "disagreements",
        "consensus_points",
        "unknowns",
        "coverage",
        "confidence",
    ] {
        assert!(!answer.data[field].is_null(), "{field}: {}", answer.data);
    }
}

#[test]
fn compare_lists_differences_and_none_for_copy() {
    let corpus = corpus(&[
        ("a.md", "# T\n\nOne.\n\nTwo.\n"),
        ("b.md", "# T\n\nOne.\n\n2.\n\nThree.\n"),
        ("c.md", "# T\n\nOne.\n\nTwo.\n"),
    ]);
    let answer = ask(&corpus, "COMPARE", json!({"form": "versions", "doc_a": "a.md", "doc_b": "b.md"}));
    assert_eq!(
        (&answer.data["modified"], &answer.data["added"], &answer.data["removed"]),
        (&json!(1), &json!(1), &json!(0)),
        "{}",
        answer.data
    );
    let answer = ask(&corpus, "COMPARE", json!({"form": "versions", "doc_a": 1, "doc_b": 3}));
    assert_eq!((&answer.data["identical"], answer.data["changes"].as_array().unwrap().len()), (&json!(true), 0));
    let request = json!({"form": "versions", "doc_a": "a.md", "doc_b": 1});
    let request = validate::validate_request("COMPARE", request.as_object().unwrap().clone()).unwrap();
    assert_eq!(
        run_verb_on_corpus(&request, &corpus, None).unwrap_err().kind.name(),
        "out_of_range",
        "one document by two names"
    );
}

#[test]
fn compare_counts_differences_by_kind() {
    let long = "word ".repeat(100);
    let (old, new) = (format!("{long}before {long}"), format!("{long}after {long}"));
    let corpus = corpus(&[
        ("a.md", &format!("# T\n\n## Setup\n\n{old}\n\n## Old\n\nGone.\n\n```python\nx = 1\n```\n")),
        ("b.md", &format!("# T\n\n## New\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n## Setup\n\n{new}\n")),
    ]);
    let data = ask(&corpus, "COMPARE", json!({"form": "versions", "doc_a": 1, "doc_b": 2})).data;
    assert_eq!(data["sections"], json!({"added": ["New"], "removed": ["Old"], "changed": ["Setup"]}), "{data:#}");
    let of = |schema: &str| data["objects"].as_array().unwrap().iter().find(|it| it["schema"] == schema).cloned();
    let count = |a, b, added, removed, schema| {
        Some(json!({"schema": schema, "doc_a": a, "doc_b": b, "added": added, "removed": removed}))
    };
    assert_eq!(of("Table"), count(0, 1, 1, 0, "Table"), "{data:#}");
    assert_eq!(of("Code"), count(1, 0, 0, 1, "Code"), "{data:#}");
    let counted: u64 = ["added", "removed", "modified"].iter().map(|it| data[*it].as_u64().unwrap()).sum();
    assert_eq!(counted as usize, data["changes"].as_array().unwrap().len());
    let text = data["changes"].to_string();
    assert!(text.contains("before") && text.contains("after"), "the difference is shown: {text}");
}

#[test]
fn trace_edges_and_influence() {
    let corpus = corpus(&[
        ("x/a.md", "# On tides\n\nSee [the base](base.md).\n"),
        ("x/base.md", "# The drift of old gauges\n\nText.\n"),
        (
            "y/c.md",
            "# Third\n\nText.\n\n## References\n\n1. Stone, M. (2020). On tides and more. doi:10.5555/1\n2. Pike, B. (2021). The drift of old gauges. Harbour Press.\n",
        ),
    ]);
    let answer = ask(&corpus, "TRACE", json!({"form": "citations"}));
    assert_eq!((&answer.data["edge_count"], &answer.data["inside_view"]), (&json!(3), &json!(2)), "{}", answer.data);
    let answer = ask(&corpus, "TRACE", json!({"form": "influence", "source": "base.md"}));
    assert_eq!(answer.data["reached"], 2, "{}", answer.data);
    let answer = ask(&corpus, "TRACE", json!({"form": "authority"}));
    assert_eq!(
        (&answer.data["nodes"][0]["file"], &answer.data["nodes"][0]["cited_by"]),
        (&json!(2), &json!(2)),
        "{}",
        answer.data
    );
}

#[test]
fn normalize_maps_dates_and_versions() {
    let corpus = corpus(ADVICE);
    let answer = ask(&corpus, "NORMALIZE", json!({"form": "dates"}));
    assert_eq!(
        answer.data["mapping"],
        json!([{"original": "12 March 2024", "canonical": "2024-03-12", "count": 1, "files": [3]}])
    );
    assert_eq!(answer.unknowns[0].value()["type"], "ambiguous_date");
    let answer = ask(&corpus, "NORMALIZE", json!({"form": "versions", "package": "numpy"}));
    assert_eq!(answer.data["mapping"][0]["canonical"], "numpy 1.24.0", "{}", answer.data);
}

#[test]
fn timeline_splits_passage_once() {
    let line = |it: usize| format!("The gauge was read on 2024-03-{:02} in round {it}.\n", it % 28 + 1);
    let mut corpus = corpus(&[("log.txt", &line(0))]);
    Arc::make_mut(&mut corpus.documents[0].parsed).passages[0].text = (0..20_000).map(line).collect();
    let begun = Instant::now();
    let answer = ask(&corpus, "SUMMARIZE", json!({"form": "timeline", "field": "mentioned", "offset": 19_999}));
    // Splitting the passage into sentences once for each date would take minutes.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(answer.data["count"], 20_000);
    let last = json!([{"file": 1, "lines": [1, 1], "text": "The gauge was read on 2024-03-28 in round 19991.", "date": "2024-03-28"}]);
    let mut events = answer.data["events"].clone();
    events[0].as_object_mut().unwrap().shift_remove("bytes");
    assert_eq!(events, last);
}

#[test]
fn clusters_reject_too_many_documents() {
    let mut corpus = corpus(&[("a.md", "# Tides\n\nThe gauge drifts.\n")]);
    let one = corpus.documents.remove(0);
    let paper = |it: usize| CorpusDocument { file: it as i64, path: format!("{it}.md"), ..one.clone() };
    corpus.documents = (0..=MAX_DOCUMENTS).map(paper).collect();
    let asked = |objective: &str| {
        let fields = json!({"form": "clusters", "objective": objective, "async": true});
        run_verb_on_corpus(
            &validate::validate_request("DETECT", fields.as_object().unwrap().clone()).unwrap(),
            &corpus,
            None,
        )
    };
    let refusal = asked("group by topical similarity").unwrap_err();
    assert_eq!((refusal.kind, refusal.field.as_deref()), (ApiErrorKind::TooManyDocuments, Some("view")));
    assert!(refusal.actions[0].contains("smaller `view`") && refusal.message.contains("5001"), "{refusal:?}");
    assert_eq!(asked("group by type").unwrap().data["count"], 1, "grouping by metadata compares no documents");
}

#[test]
fn clusters_separate_topics_and_anomalies_find_outlier() {
    let tide = "The tide gauge at the pier measures the level of the sea every hour.";
    let bread = "The rye dough rests in the bowl until the crumb of the loaf is even.";
    let long = format!("{} {}", bread.repeat(40), "Bread.");
    let corpus = corpus(&[
        ("a.txt", tide),
        ("b.txt", bread),
        ("c.txt", tide),
        ("d.txt", bread),
        ("e.txt", tide),
        ("f.txt", &long),
    ]);
    let answer = ask(&corpus, "DETECT", json!({"form": "clusters", "objective": "group by topical similarity"}));
    assert_eq!(answer.data["count"], 2, "{}", answer.data);
    assert_eq!(answer.data["clusters"][0]["files"], json!([1, 3, 5]), "{}", answer.data);
    let answer = ask(&corpus, "DETECT", json!({"form": "anomalies", "constraints": {"field": "word_count"}}));
    assert_eq!(
        (answer.data["count"].as_u64(), &answer.data["anomalies"][0]["file"]),
        (Some(1), &json!(6)),
        "{}",
        answer.data
    );
}

#[test]
fn trend_without_statements_is_unknown() {
    let dated = |year: i32| format!("# T\n\nPublished: {year}-03-01\n\nThe water is cold.\n");
    let texts: Vec<String> = (2019..2023).map(dated).collect();
    let files: Vec<(String, &str)> = (1..).zip(&texts).map(|(at, it)| (format!("{at}.md"), it.as_str())).collect();
    let corpus = corpus(&files.iter().map(|it| (it.0.as_str(), it.1)).collect::<Vec<_>>());
    let trend = |field: &str| ask(&corpus, "DETECT", json!({"form": "trends", "constraints": {"field": field}}));
    let answer = trend("recommendaton");
    assert_eq!((answer.confidence, answer.unknowns[0].value()["type"].clone()), (0.0, json!("no_statement")));
    assert_eq!(trend("word_count").data["periods"].as_array().unwrap().len(), 4);
}

#[test]
fn ambiguous_or_unknown_document_is_rejected() {
    let corpus = corpus(&[("x/a.md", "One."), ("y/a.md", "Two.")]);
    for (given, cause) in [("a.md", "ambiguous_request"), ("b.md", "unknown_file"), ("9", "unknown_file")] {
        let request = json!({"form": "influence", "source": given});
        let request = validate::validate_request("TRACE", request.as_object().unwrap().clone()).unwrap();
        assert_eq!(run_verb_on_corpus(&request, &corpus, None).unwrap_err().kind.name(), cause, "{given}");
    }
}

#[test]
fn rounded_never_gives_negative_zero() {
    assert_eq!(json!(crate::corpus::api::answer::round_score(-0.0001)).to_string(), "0.0");
}
