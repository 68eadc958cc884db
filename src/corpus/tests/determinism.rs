//! Tests that answers of every form are deterministic and do not depend on the order in which files were added.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::corpus::api::answer::Answer;
use crate::corpus::api::{envelope, render, validate};
use crate::corpus::dispatch::run_verb_on_corpus;
use crate::corpus::tests::{corpus, labelled};
use crate::corpus::views::documents::Corpus;
use crate::corpus::views::select;

pub(super) fn ask(corpus: &Corpus, verb: &str, request: Value) -> Answer {
    let request = validate::validate_request(verb, request.as_object().unwrap().clone()).unwrap();
    run_verb_on_corpus(&request, corpus, None).unwrap()
}

pub(super) fn told(corpus: &Corpus, verb: &str, request: &Value) -> String {
    let request = validate::validate_request(verb, request.as_object().unwrap().clone()).unwrap();
    let answer = run_verb_on_corpus(&request, corpus, None).unwrap();
    let id = select::view_result_id(&request, corpus, None);
    envelope::wrap_answer(&id, verb, request.form.name, &corpus.view, corpus.coverage(), &answer).to_string()
}

pub(super) const ADVICE: &[(&str, &str)] = &[
    (
        "a.md",
        "# Sailcloth\n\n## Pros\n\n- light to carry\n- dries in an hour\n\n## Cons\n\n- tears at the seams\n\nYou should store the gauge indoors in winter.\n\n[next](b.md)\n",
    ),
    (
        "b.md",
        "# Tin\n\n## Advantages\n\n- lasts for years\n\n## Drawbacks\n\n- heavy\n- rusts\n\nYou should not store the gauge indoors in winter. Never open the lid at sea: danger.\n",
    ),
    (
        "c.md",
        "# Third\n\nYou should store the gauge indoors in winter. Version: 1.2\n\nnumpy 1.24 was used on 03/04/2024 and on 12 March 2024.\n",
    ),
];

/// Returns a request on the labelled documents for every form of every verb.
pub(super) fn every_form() -> Vec<(&'static str, Value)> {
    vec![
        ("EXTRACT", json!({"schema": "Code", "filters": {"language": "python"}})),
        ("EXTRACT", json!({"schema": "Table"})),
        ("NORMALIZE", json!({"form": "entities", "concept": "tide gauge"})),
        ("NORMALIZE", json!({"form": "entities"})),
        ("NORMALIZE", json!({"form": "dates", "format": "iso8601"})),
        ("NORMALIZE", json!({"form": "versions", "package": "numpy"})),
        ("NORMALIZE", json!({"form": "code", "language": "python", "style": "black"})),
        ("COMPARE", json!({"form": "versions", "doc_a": 1, "doc_b": 2})),
        ("COMPARE", json!({"form": "consensus", "field": "recommendation", "threshold": 0.5})),
        ("COMPARE", json!({"form": "contradictions", "field": "best-practice"})),
        ("COMPARE", json!({"form": "approaches", "schema": "pros-cons"})),
        (
            "DETECT",
            json!({"form": "clusters", "objective": "group by topical similarity", "constraints": {"max_clusters": 5}}),
        ),
        ("DETECT", json!({"form": "clusters", "objective": "group by author"})),
        (
            "DETECT",
            json!({"form": "warnings", "objective": "flag cautionary language", "constraints": {"min_strength": "high"}}),
        ),
        (
            "DETECT",
            json!({"form": "gaps", "objective": "find missing expected content", "constraints": {"expected_topics": ["intro", "methods", "results"]}}),
        ),
        ("DETECT", json!({"form": "gaps"})),
        (
            "DETECT",
            json!({"form": "anomalies", "objective": "outlier detection", "constraints": {"field": "citation_count"}}),
        ),
        (
            "DETECT",
            json!({"form": "trends", "objective": "temporal pattern analysis", "constraints": {"field": "recommendation"}}),
        ),
        ("TRACE", json!({"form": "citations", "format": "graph"})),
        ("TRACE", json!({"form": "authority", "rank_by": "citations"})),
        ("TRACE", json!({"form": "influence", "source": 1})),
        ("TRACE", json!({"form": "freshness", "baseline_date": "2024-01-01"})),
        ("SCORE", json!({"form": "authority", "criteria": "pagerank"})),
        ("SCORE", json!({"form": "freshness"})),
        ("SCORE", json!({"form": "coverage", "topic": "frost"})),
        ("DELTA", json!({"since": "1970-01-01"})),
        ("SUMMARIZE", json!({"form": "coverage", "topic": "frost"})),
        ("SUMMARIZE", json!({"form": "decision-inputs", "question": "Which gauge?"})),
        ("SUMMARIZE", json!({"form": "timeline", "field": "published_at"})),
        ("SUMMARIZE", json!({"form": "timeline", "field": "mentioned"})),
        (
            "SUMMARIZE",
            json!({"form": "comparison-matrix", "items": [1, 2], "schema": ["year", "author", "word_count"]}),
        ),
        ("EXPLAIN_FAILURE", json!({"url_id": 1})),
    ]
}

#[test]
fn same_view_and_request_give_same_bytes() {
    let (one, other) = (labelled(), labelled());
    for (verb, request) in every_form() {
        assert_eq!(told(&one, verb, &request), told(&other, verb, &request), "{verb} {request}");
    }
}

/// Returns the answer with paths in place of file ids, to compare it with that of a corpus with other ids.
fn by_path(corpus: &Corpus, verb: &str, request: &Value) -> Value {
    let mut told: Value = serde_json::from_str(&told(corpus, verb, request)).unwrap();
    told["id"] = Value::Null;
    let paths = corpus.documents.iter().map(|it| (it.file, it.path.as_str())).collect();
    name_files(&mut told, &paths);
    told
}

/// Replaces file ids in a value by paths; sorts lists of ids.
fn name_files(value: &mut Value, paths: &BTreeMap<i64, &str>) {
    const NAMES: [&str; 6] = ["file", "files", "doc_a", "doc_b", "source", "missing_from"];
    let node = |text: &str| text.strip_prefix('f')?.parse::<i64>().ok().and_then(|it| paths.get(&it).copied());
    match value {
        Value::Object(map) => {
            name_rows(map, paths);
            // In an object with the key `schema`, numbers under these keys are counts, not file ids.
            let counts = map.contains_key("schema");
            for (name, inner) in map {
                match inner {
                    Value::Number(_) if counts => {}
                    Value::Number(number) if NAMES.contains(&name.as_str()) => {
                        *inner = json!(paths[&number.as_i64().unwrap()]);
                    }
                    Value::Array(list) if NAMES.contains(&name.as_str()) && list.iter().all(Value::is_i64) => {
                        let mut named: Vec<&str> = list.iter().map(|it| paths[&it.as_i64().unwrap()]).collect();
                        named.sort_unstable();
                        *inner = json!(named);
                    }
                    Value::String(text) if ["id", "from", "to"].contains(&name.as_str()) => {
                        *inner = node(text).map_or_else(|| json!(text), Value::from);
                    }
                    _ => name_files(inner, paths),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|it| name_files(it, paths)),
        _ => {}
    }
}

/// Replaces file ids by paths in the rows of a matrix, which begin with a file id.
fn name_rows(map: &mut Map<String, Value>, paths: &BTreeMap<i64, &str>) {
    if map.get("columns").is_some_and(|it| it[0] == "file") {
        for row in map.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
            row[0] = json!(paths[&row[0].as_i64().unwrap()]);
        }
    }
}

/// Returns a request with paths in place of file ids.
fn with_names(corpus: &Corpus, request: &Value) -> Value {
    let path = |it: &Value| {
        let paper = corpus.documents.iter().find(|paper| Some(paper.file) == it.as_i64());
        paper.map_or_else(|| it.clone(), |it| json!(it.path))
    };
    let mut request = request.clone();
    for (name, value) in request.as_object_mut().unwrap() {
        match (name.as_str(), &value) {
            ("doc_a" | "doc_b" | "source" | "url_id", _) => *value = path(value),
            ("items", Value::Array(list)) => *value = list.iter().map(path).collect(),
            _ => {}
        }
    }
    request
}

#[test]
fn answers_are_independent_of_file_order() {
    for one in [labelled(), corpus(ADVICE)] {
        let mut other = one.clone();
        let most = other.documents.len() as i64;
        for paper in &mut other.documents {
            paper.file = 1_000 + most - paper.file;
        }
        other.sort();
        for (verb, request) in every_form() {
            let request = with_names(&one, &request);
            assert_eq!(by_path(&one, verb, &request), by_path(&other, verb, &request), "{verb} {request}");
        }
    }
}

#[test]
fn centuries_old_document_is_oldest() {
    let corpus = corpus(&[("new.md", "# New\n\nDate: 2026-01-01\n"), ("old.md", "# Old\n\nDate: 1700-01-01\n")]);
    let scores = ask(&corpus, "SCORE", json!({"form": "freshness"})).data["scores"].clone();
    let told = |at: usize| (scores[at]["file"].clone(), scores[at]["score"].clone());
    assert_eq!((told(0), told(1)), ((json!(1), json!(1.0)), (json!(2), json!(0.0))), "{scores:#}");
    let nodes = ask(&corpus, "TRACE", json!({"form": "freshness"})).data["nodes"].clone();
    let told = |at: usize| (nodes[at]["file"].clone(), nodes[at]["days_after_baseline"].clone());
    assert_eq!((told(0), told(1)), ((json!(1), json!(0)), (json!(2), json!(-119_069))), "{nodes:#}");
}

#[test]
fn rendering_is_deterministic_in_every_format() {
    let corpus = labelled();
    for (verb, request) in every_form() {
        let envelope: Value = serde_json::from_str(&told(&corpus, verb, &request)).unwrap();
        for format in ["json", "yaml", "csv"] {
            let render = || render::render_envelope(&envelope, Some(format)).map_err(|it| it.kind);
            assert_eq!(render(), render(), "{verb} {request} as {format}");
        }
    }
}
