//! The verbs on documents: what they find, that they find it again, and what an answer costs.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::{corpus, labelled, tokenizer};
use crate::contract::answer::Answer;
use crate::contract::corpus::Corpus;
use crate::contract::envelope;
use crate::contract::prose::{self, PROSE_TOKENS, Ruler};
use crate::contract::summarize::FORBIDDEN;
use crate::contract::{render, run, select, validate};

pub(super) fn ask(corpus: &Corpus, verb: &str, request: Value) -> Answer {
    let request = validate::request(verb, request.as_object().unwrap().clone()).unwrap();
    run(&request, corpus, None).unwrap()
}

fn told(corpus: &Corpus, verb: &str, request: &Value) -> String {
    let request = validate::request(verb, request.as_object().unwrap().clone()).unwrap();
    let answer = run(&request, corpus, None).unwrap();
    let id = select::id(&request, corpus, None);
    envelope::answer(&id, verb, request.form.name, &corpus.view, corpus.coverage(), &answer).to_string()
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

/// Every form with a request that fits the labelled documents.
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
fn the_same_view_and_request_give_the_same_bytes() {
    let (one, other) = (labelled(), labelled());
    for (verb, request) in every_form() {
        assert_eq!(told(&one, verb, &request), told(&other, verb, &request), "{verb} {request}");
    }
}

/// The answer of a question about documents whose numbers were given in another order, with paths for numbers.
fn by_path(corpus: &Corpus, verb: &str, request: &Value) -> Value {
    let mut told: Value = serde_json::from_str(&told(corpus, verb, request)).unwrap();
    told["id"] = Value::Null;
    let paths = corpus.papers.iter().map(|it| (it.file, it.path.as_str())).collect();
    name_files(&mut told, &paths);
    told
}

/// Puts paths in the place of the numbers of files; lists of numbers lose their order with them.
fn name_files(value: &mut Value, paths: &BTreeMap<i64, &str>) {
    const NAMES: [&str; 6] = ["file", "files", "doc_a", "doc_b", "source", "missing_from"];
    let node = |text: &str| text.strip_prefix('f')?.parse::<i64>().ok().and_then(|it| paths.get(&it).copied());
    match value {
        Value::Object(map) => {
            name_rows(map, paths);
            // Of objects of a schema these are counts.
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

/// The same for the rows of a table that begin with the number of a file.
fn name_rows(map: &mut Map<String, Value>, paths: &BTreeMap<i64, &str>) {
    if map.get("columns").is_some_and(|it| it[0] == "file") {
        for row in map.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
            row[0] = json!(paths[&row[0].as_i64().unwrap()]);
        }
    }
}

/// A request with the names of documents in the place of their numbers.
fn with_names(corpus: &Corpus, request: &Value) -> Value {
    let path = |it: &Value| {
        let paper = corpus.papers.iter().find(|paper| Some(paper.file) == it.as_i64());
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
fn the_order_in_which_files_came_changes_no_answer() {
    for one in [labelled(), corpus(ADVICE)] {
        let mut other = one.clone();
        let most = other.papers.len() as i64;
        for paper in &mut other.papers {
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
fn every_answer_is_the_same_in_every_format_each_time() {
    let corpus = labelled();
    for (verb, request) in every_form() {
        let envelope: Value = serde_json::from_str(&told(&corpus, verb, &request)).unwrap();
        for format in ["json", "yaml", "csv"] {
            let render = || render::render(&envelope, Some(format)).map_err(|it| it.cause);
            assert_eq!(render(), render(), "{verb} {request} as {format}");
        }
    }
}

#[test]
#[ignore = "measures: what it prints depends on the machine"]
fn how_long_each_verb_takes_on_fifty_documents() {
    let mut corpus = labelled();
    corpus.papers.truncate(50);
    for (verb, request) in every_form() {
        let begun = Instant::now();
        told(&corpus, verb, &request);
        println!("{:>8.1} ms  {verb} {request}", begun.elapsed().as_secs_f64() * 1e3);
    }
}

#[test]
fn prose_is_bounded_and_summaries_never_advise() {
    let tokenizer = tokenizer();
    for corpus in [labelled(), self::corpus(ADVICE), talkative()] {
        for (verb, request) in every_form() {
            let told: Value = serde_json::from_str(&told(&corpus, verb, &request)).unwrap();
            let mut cut = told.clone();
            prose::limit(&mut cut, 0, Ruler(&tokenizer));
            assert!(prose::of_envelope(&cut, Ruler(&tokenizer)) <= PROSE_TOKENS, "{verb} {request}");
            let own = validate::request(verb, request.as_object().unwrap().clone()).unwrap();
            assert_eq!(validate::wording(own.verb, &run(&own, &corpus, None).unwrap()), Ok(()), "{verb} {request}");
            if verb == "SUMMARIZE" {
                let data = told["data"].to_string().to_lowercase();
                assert!(FORBIDDEN.iter().all(|it| !data.contains(it)), "{request}: {data}");
            }
            for field in ["confidence", "coverage"] {
                let value = told[field].as_f64().unwrap();
                assert!((0.0..=1.0).contains(&value), "{verb} {request}: {field} {value}");
            }
        }
    }
}

/// Documents with more of everything than an answer may say: long sentences, quotes, cells, headings and lists.
fn talkative() -> Corpus {
    let sentence =
        |at: usize| format!("You should clean gauge number {at} at the pier before every storm of the winter. ");
    let mut one = String::from("# A heading that goes on for as long as the line has any room left for words\n\n");
    let mut other = one.clone();
    for at in 0..120 {
        one.push_str(&format!("{}\n\n", sentence(at).repeat(4)));
        other.push_str(&format!("{}\n\n", sentence(at + 1).replace("should", "should never").repeat(3)));
    }
    let quote = "the water came over the wall and nobody had seen it come ".repeat(20);
    let cell = "a cell with far more words than any cell of a table should have ".repeat(10);
    let tail = format!(
        "> {quote}\n> — Klara Novak\n\n## Methods\n\n{}\n\n## Pros of the wall\n\n- {quote}\n\n## Cons of the wall\n\n- {quote}\n\n| Site | Note |\n|---|---|\n| pier | {cell} |\n| lock | {cell} |\n\nA **wall** is a thing that {quote}.\n",
        "We measured and recorded what the water did at the pier on every day of the year. ".repeat(60)
    );
    corpus(&[("one.md", &format!("{one}{tail}")), ("other.md", &format!("{other}{tail}"))])
}

#[test]
fn a_summary_with_forbidden_wording_is_withheld() {
    let verb = crate::contract::registry::verb("SUMMARIZE").unwrap();
    for data in [
        json!({"rows": [{"sections": ["Tin is the BEST CHOICE here"]}]}),
        json!({"evidence_for": {"You should paint": []}}),
        json!({"title": "Conclusion"}),
    ] {
        let mut answer = Answer::new("a method");
        answer.data = data;
        assert_eq!(validate::wording(verb, &answer).unwrap_err().cause.name(), "internal", "{}", answer.data);
        assert_eq!(validate::wording(crate::contract::registry::verb("EXTRACT").unwrap(), &answer), Ok(()));
    }
    let corpus = self::corpus(ADVICE);
    let asked = json!({"form": "decision-inputs", "question": "Which gauge is the best choice?"});
    let answer = ask(&corpus, "SUMMARIZE", asked);
    assert_eq!(validate::wording(verb, &answer), Ok(()), "{} {:?}", answer.data, answer.parameters);
}

#[test]
fn what_does_not_fit_is_found_at_the_next_offset_until_nothing_is_left() {
    let tokenizer = tokenizer();
    let mut requests: Vec<(&str, Value, &str)> = crate::contract::registry::SCHEMA_NAMES
        .iter()
        .map(|it| ("EXTRACT", json!({"schema": it}), "objects"))
        .collect();
    requests.push(("COMPARE", json!({"form": "versions", "doc_a": "gauges.md", "doc_b": "bees.md"}), "changes"));
    requests.push(("DETECT", json!({"form": "warnings"}), "warnings"));
    let corpus = labelled();
    for (verb, request, list) in requests {
        let mut whole = request.clone();
        whole["limit"] = json!(10_000);
        let whole: Value = serde_json::from_str(&told(&corpus, verb, &whole)).unwrap();
        let (mut seen, mut next) = (Vec::new(), Some(0));
        while let Some(offset) = next {
            let mut own = request.clone();
            own["offset"] = json!(offset);
            let mut page: Value = serde_json::from_str(&told(&corpus, verb, &own)).unwrap();
            prose::limit(&mut page, offset, Ruler(&tokenizer));
            let shown = page["data"][list].as_array().unwrap();
            assert!(!shown.is_empty() || whole["data"][list].as_array().unwrap().is_empty(), "{verb} {own}");
            seen.extend(shown.iter().map(|it| it["bytes"].clone()));
            let more = page["unknowns"].as_array().unwrap().iter().find(|it| it["type"] == "more_objects");
            next = more.map(|it| it["detail"].as_str().unwrap().rsplit(' ').next().unwrap().parse().unwrap());
        }
        let all: Vec<Value> = whole["data"][list].as_array().unwrap().iter().map(|it| it["bytes"].clone()).collect();
        assert_eq!(seen, all, "{verb} {request}");
    }
}

/// The labelled notes of one kind in one long document, and the same again after some work on it.
fn two_versions() -> Corpus {
    let folder = super::folder();
    let names = ["archive", "backup", "bees", "bread", "choir", "gauges", "orchard", "paint", "routing", "wool"];
    let read = |it: &&str| std::fs::read_to_string(folder.join(format!("{it}.md"))).unwrap();
    let old = names.iter().map(read).collect::<Vec<_>>().join("\n\n");
    let new = old.replace("questionnaire", "letter").replace("one to five", "one to four");
    assert_ne!(old, new);
    corpus(&[("old.md", &old), ("new.md", &format!("{new}\n\nOne more note at the end.\n"))])
}

/// Twenty tasks that somebody would otherwise read documents for: to count, tabulate, compare and list.
fn tasks() -> Vec<(&'static str, Value)> {
    vec![
        ("EXTRACT", json!({"schema": "Code", "filters": {"language": "rust"}})),
        ("EXTRACT", json!({"schema": "Code", "filters": {"language": "python"}, "limit": 10})),
        ("EXTRACT", json!({"schema": "Table", "filters": {"header": "Loaf"}, "limit": 5})),
        ("EXTRACT", json!({"schema": "Table", "filters": {"header": "Drift in mm"}})),
        ("EXTRACT", json!({"schema": "Quote", "filters": {"author": "Klara Novak"}})),
        ("EXTRACT", json!({"schema": "Definition", "filters": {"term": "headway"}})),
        ("EXTRACT", json!({"schema": "Definition", "limit": 20})),
        ("EXTRACT", json!({"schema": "Methodology", "filters": {"approach": "survey"}})),
        ("EXTRACT", json!({"schema": "Reference", "filters": {"doi": "10.5555/bees.2019"}})),
        ("EXTRACT", json!({"schema": "Citation", "limit": 15})),
        ("NORMALIZE", json!({"form": "dates"})),
        ("NORMALIZE", json!({"form": "entities", "concept": "stilling well"})),
        ("DETECT", json!({"form": "clusters", "constraints": {"max_clusters": 10}})),
        ("DETECT", json!({"form": "anomalies", "constraints": {"field": "table_count"}})),
        ("DETECT", json!({"form": "warnings"})),
        ("TRACE", json!({"form": "authority", "limit": 10})),
        ("SCORE", json!({"form": "coverage", "topic": "frost", "limit": 10})),
        ("SUMMARIZE", json!({"form": "coverage", "topic": "wool"})),
    ]
}

/// Tokens of the passages of some documents.
fn cost(corpus: &Corpus, ruler: Ruler<'_>, replaced: impl Fn(&str) -> bool) -> usize {
    let papers = corpus.papers.iter().filter(|it| replaced(&it.path));
    papers.flat_map(|it| &it.reading.passages).map(|it| ruler.count(&it.text)).sum()
}

#[test]
fn an_answer_costs_a_tenth_of_the_documents_that_it_replaces() {
    let tokenizer = tokenizer();
    let (ruler, all, versions) = (Ruler(&tokenizer), labelled(), two_versions());
    let every = cost(&all, ruler, |_| true);
    let mut tasks: Vec<(&Corpus, &str, Value, usize)> =
        tasks().into_iter().map(|(verb, request)| (&all, verb, request, every)).collect();
    let compare = json!({"form": "versions", "doc_a": "old.md", "doc_b": "new.md"});
    tasks.push((&versions, "COMPARE", compare, cost(&versions, ruler, |_| true)));
    // A matrix replaces the documents of its rows and no others.
    let items: Vec<&str> = all.papers.iter().map(|it| it.path.as_str()).filter(|it| it.ends_with(".md")).collect();
    let matrix = json!({"form": "comparison-matrix", "items": items, "schema": ["year", "table_count"]});
    tasks.push((&all, "SUMMARIZE", matrix, cost(&all, ruler, |it| it.ends_with(".md"))));
    assert_eq!(tasks.len(), 20);
    let mut dear = Vec::new();
    for (corpus, verb, request, documents) in tasks {
        let mut answer: Value = serde_json::from_str(&told(corpus, verb, &request)).unwrap();
        envelope::finish(&mut answer, false, 0, ruler);
        let cost = ruler.count(&answer.to_string());
        println!("{cost} of {documents}: {verb} {request}");
        if cost * 10 > documents {
            dear.push(format!("{verb} {request}: {cost} of {documents}"));
        }
    }
    assert!(dear.is_empty(), "\n{}", dear.join("\n"));
}

#[test]
fn contradictions_and_consensus_are_counted() {
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
fn approaches_and_decision_inputs_have_both_sides() {
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
fn differences_are_enumerated_and_a_document_does_not_differ_from_its_copy() {
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
    let request = validate::request("COMPARE", request.as_object().unwrap().clone()).unwrap();
    assert_eq!(run(&request, &corpus, None).unwrap_err().cause.name(), "out_of_range", "one document by two names");
}

#[test]
fn sections_tables_and_code_that_differ_are_counted_by_what_they_are() {
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
    assert!(text.contains("before") && text.contains("after"), "the difference itself is shown: {text}");
}

#[test]
fn links_and_references_are_edges_and_influence_follows_them_back() {
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
fn dates_and_versions_are_mapped_and_what_is_unclear_is_an_unknown() {
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
fn clusters_part_topics_and_outliers_stand_out() {
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
fn an_ambiguous_or_unknown_document_is_asked_back() {
    let corpus = corpus(&[("x/a.md", "One."), ("y/a.md", "Two.")]);
    for (given, cause) in [("a.md", "ambiguous_request"), ("b.md", "unknown_file"), ("9", "unknown_file")] {
        let request = json!({"form": "influence", "source": given});
        let request = validate::request("TRACE", request.as_object().unwrap().clone()).unwrap();
        assert_eq!(run(&request, &corpus, None).unwrap_err().cause.name(), cause, "{given}");
    }
}

#[test]
fn no_number_is_less_than_nothing() {
    assert_eq!(json!(crate::contract::answer::rounded(-0.0001)).to_string(), "0.0");
}
