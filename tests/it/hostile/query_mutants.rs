//! Tests mutated queries and graphs: every parser of a vic language must accept them or report an error. Accepted input must
//! keep its meaning when it is written and parsed again.
//!
//! `VIC_MUTANTS` sets the number of mutants (five times as many here), `VIC_SEED` the first seed; see `mutants.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use chrono::NaiveDate;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vic::error::ErrorCode;
use vic::graph::GraphService;
use vic::graph::query::{axql, ir};
use vic::model::{
    AskRequest, GraphChange, GraphExtent, GraphFormat, GraphImport, GraphQuestion, GraphRequest, GraphShape,
    PrivacyMode,
};
use vic::planner;

use crate::hostile::mutants::DEFAULT_MUTANTS;
use crate::hostile::mutants::Xorshift;
use crate::hostile::mutants::mutate;
use crate::hostile::mutants::rng_of_mutant;
use crate::hostile::mutants::variable_or;

/// Maximum time of a request to a small graph.
const SOON: Duration = Duration::from_secs(5);

/// Returns the number of mutated texts per test.
fn text_count() -> u64 {
    variable_or("VIC_MUTANTS", DEFAULT_MUTANTS) * 5
}

/// Returns a mutated text: spliced with another seed, with inserted words of the language, and with changed bytes.
pub(super) fn mutated_text(seeds: &[impl AsRef<str>], words: &[&str], dice: &mut Xorshift) -> String {
    let mut bytes = dice.pick(seeds).as_ref().as_bytes().to_vec();
    if dice.index_below(3) == 0 {
        let other = dice.pick(seeds).as_ref().as_bytes();
        let (at, from) = (dice.index_below(bytes.len() + 1), dice.index_below(other.len() + 1));
        bytes.truncate(at);
        bytes.extend(&other[from..]);
    }
    for _ in 0..dice.index_below(4) {
        let (at, word) =
            (dice.index_below(bytes.len() + 1), dice.pick(words).repeat(1 + dice.index_below(3) * dice.index_below(3)));
        bytes.splice(at..at, word.into_bytes()).for_each(drop);
    }
    if dice.index_below(2) == 0 {
        mutate(&mut bytes, dice);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns a JSON value of an unexpected type or size.
fn unexpected_value(dice: &mut Xorshift) -> Value {
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let texts = ["", " ", "\0", "-1", "?x", "\u{202e}", "NaN", "9999-99-99", "select ?x where ?x is File", "((((((((("];
    match dice.index_below(10) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1e308),
        5 => json!(0.1),
        6 => json!([]),
        7 => json!({"x": {}}),
        8 => deep(1 + dice.index_below(100)),
        _ => json!(dice.pick(&texts).repeat(1 + dice.index_below(2) * dice.index_below(3_000))),
    }
}

/// Replaces, removes or repeats a random part of a JSON value.
pub(super) fn mutate_json(value: &mut Value, dice: &mut Xorshift) {
    let parts = match value {
        Value::Array(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if parts == 0 || dice.index_below(5) == 0 {
        *value = unexpected_value(dice);
        return;
    }
    let at = dice.index_below(parts);
    match value {
        Value::Array(items) => match dice.index_below(4) {
            0 => items.push(items[at].clone()),
            1 => drop(items.remove(at)),
            _ => mutate_json(&mut items[at], dice),
        },
        Value::Object(fields) => {
            let name = fields.keys().nth(at).cloned().unwrap_or_default();
            match dice.index_below(6) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(format!("{name}s"), unexpected_value(dice))),
                _ => mutate_json(&mut fields[&name], dice),
            }
        }
        _ => (),
    }
}

#[test]
fn mutated_questions_are_planned_or_refused() {
    const WORDS: [&str; 40] = [
        "ext:",
        "pdf",
        "after:",
        "2024-13-45",
        "before:7d",
        "size:",
        ">5MB",
        "..",
        "\"",
        "+",
        "-",
        "(",
        ")",
        "lang:rust",
        "owner:",
        "name:",
        "path:",
        "last",
        "week",
        "larger than",
        "99999999999999999999 GB",
        "since",
        "March",
        "0000",
        "files",
        "in the",
        "folder",
        "who signed",
        "é",
        "\u{202e}",
        "\u{0}",
        "\u{1f600}",
        ":",
        "::",
        "%",
        "'",
        "\\",
        "\n",
        "two",
        "thousand",
    ];
    let today = NaiveDate::from_ymd_opt(2026, 2, 28).unwrap();
    for number in 0..text_count() {
        let mut dice = rng_of_mutant(number);
        let mut question = String::new();
        for _ in 0..=dice.index_below(12) {
            question.push_str(dice.pick::<&str>(&WORDS));
            if dice.index_below(3) > 0 {
                question.push(' ');
            }
        }
        let mut bytes = question.into_bytes();
        if dice.index_below(2) == 0 {
            mutate(&mut bytes, &mut dice);
        }
        let question = String::from_utf8_lossy(&bytes).into_owned();
        let request = AskRequest { query: question.clone(), ..AskRequest::default() };
        let plan = catch_unwind(|| {
            planner::syntax::parse(&question);
            planner::plan_by_rules(&request, PrivacyMode::LocalOnly, today).map(|_| ())
        });
        assert!(plan.is_ok(), "seed {number}: {question:?}");
    }
}

const QUERIES: [&str; 14] = [
    "select ?y where 0 -(rel_0|rel_1)*-> ?y max_hops 5",
    "select ?x ?y where ?x -[a/(b|c)+/d?]-> ?y in {A, B} min_conf 0.5 limit 3;",
    "select ?x where ?x is Node, ?x.name = \"b\" limit 20",
    "select ?f where ?f = Parent(child=Carol, parent=?y) in CensusData",
    "select ?x where ?x { is Node, rel_0, name=\"node_42\" }",
    "select ?x where ?x : Person or ?x : Organization limit 10",
    "select ?x where attr(?x, 'k', 'it\\'s'), contains(?x, \"k\", \"s\")",
    "select ?x where fts(?x, \"k\", \"some words\"), fuzzy(?x, \"k\", \"s\", 2)",
    "select ?x where has(?x, r, s), attrs(?x, k=\"v\", l=\"w\"), ?x has r",
    "select ?x where entity(\"k\", \"v\") -r-> ?x, _ -s-> ?x",
    "select ?x where A.FL.001 -io-> ?x",
    "select ?x where ?x -\"is\"-> _ limit 1",
    "select ?y where name(\"a\") -rel_0-> ?y",
    "select ?x where ?x -rel_0+/rel_1*/rel_0?-> ?y, ?y -rel_1-> ?x",
];

const WORDS: [&str; 34] = [
    "select ",
    " where ",
    " is ",
    " or ",
    " in ",
    " max_hops ",
    " min_conf ",
    " limit ",
    " has ",
    "?x",
    "?y",
    "_",
    "-",
    "->",
    "-rel_0->",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "|",
    "/",
    "*",
    "+",
    "?",
    ", ",
    "=",
    "\"",
    "'",
    "\\",
    "name(",
    "99999999999",
    "\u{1f600}",
];

#[test]
fn mutated_graph_queries_round_trip_or_are_refused() {
    let mut read = 0;
    for number in 0..text_count() {
        let text = mutated_text(&QUERIES, &WORDS, &mut rng_of_mutant(number));
        let outcome = catch_unwind(|| {
            let Ok(query) = axql::parse(&text) else { return false };
            let written = query.to_string();
            assert_eq!(axql::parse(&written).as_ref(), Ok(&query), "written as `{written}`");
            if let Ok(form) = ir::write(&query) {
                assert_eq!(ir::parse(&form).as_ref(), Ok(&query), "as {form}");
            }
            true
        });
        read += u64::from(outcome.unwrap_or_else(|_| panic!("seed {number}: {text:?}")));
    }
    assert!(read * 20 > text_count(), "only {read} of {} were parsed", text_count());
}

#[test]
fn mutated_json_graph_queries_round_trip_or_are_refused() {
    let forms: Vec<Value> = QUERIES.iter().map(|it| ir::write(&axql::parse(it).unwrap()).unwrap()).collect();
    for number in 0..text_count() {
        let mut dice = rng_of_mutant(number);
        let mut form = dice.pick(&forms).clone();
        (0..=dice.index_below(4)).for_each(|_| mutate_json(&mut form, &mut dice));
        let read = catch_unwind(|| {
            if let Ok(query) = ir::parse(&form) {
                assert_eq!(ir::write(&query).and_then(|it| ir::parse(&it)).as_ref(), Ok(&query));
            }
        });
        assert!(read.is_ok(), "seed {number}: {form}");
    }
}

/// A graph service on a temporary folder, without a daemon.
struct TestGraph {
    service: GraphService,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl TestGraph {
    fn new() -> TestGraph {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graph.sqlite");
        let service = GraphService::open(&path, None, CancellationToken::new()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        TestGraph { service, runtime, _folder: folder }
    }

    /// Sends a request. Asserts that the reply comes within the time limit and is not an internal error.
    fn ask(&self, request: GraphRequest, what: &str) -> Result<Value, ErrorCode> {
        let begun = Instant::now();
        let told = catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(self.service.request(request))));
        let told = told.unwrap_or_else(|_| panic!("{what}"));
        assert!(begun.elapsed() < SOON, "{what}: {:?}", begun.elapsed());
        told.map_err(|error| {
            assert_ne!(error.code, ErrorCode::Internal, "{what}: {error}");
            error.code
        })
    }
}

fn import(format: GraphFormat, text: String) -> GraphRequest {
    GraphRequest::Import(GraphImport { name: "g".into(), format, text })
}

#[test]
fn mutated_graph_queries_are_answered_or_refused() {
    let graph = TestGraph::new();
    let edges = (0..200).map(|it| json!({"source": it, "target": it * 7 % 100, "type": format!("rel_{}", it % 3)}));
    let nodes = (0..200).map(|it| json!({"id": it, "type": "Node", "name": format!("node_{it}")}));
    let text = json!({"nodes": nodes.collect::<Vec<_>>(), "edges": edges.collect::<Vec<_>>()}).to_string();
    graph.ask(import(GraphFormat::Json, text), "the graph").unwrap();
    let mut answered = 0;
    for number in 0..text_count() / 5 {
        let mut dice = rng_of_mutant(number);
        let text = mutated_text(&QUERIES, &WORDS, &mut dice);
        let question = GraphQuestion {
            axql: Some(text.clone()),
            ir: None,
            elaborate: dice.index_below(4) == 0,
            explain: dice.index_below(4) == 0,
        };
        answered += u64::from(graph.ask(GraphRequest::Query(question), &format!("seed {number}: {text:?}")).is_ok());
    }
    assert!(answered > 0, "no query succeeded");
}

const GRAPHS: [&str; 4] = [
    r#"{"nodes": [{"id": 0, "type": "Node", "name": "a", "attributes": {"size": "3"}}, {"id": "k", "name": "b"}], "edges": [{"source": 0, "target": "b", "type": "rel_0", "confidence": 0.9}, {"source": "k", "target": 0, "type": "rel_1"}]}"#,
    r#"{"facts": [{"relation": "Parent", "fields": {"child": "Carol", "parent": "Bob"}, "contexts": ["CensusData"]}]}"#,
    r#"{"schemas": [{"name": "Fam", "types": [{"name": "Person"}], "relations": []}], "nodes": [{"id": 1, "type": "Person"}]}"#,
    r#"{"edges": [{"source": "A.FL.001", "target": "B.FN.001", "type": "io"}], "nodes": []}"#,
];

const LINES: [&str; 3] = [
    "PMUser.AC.001 -io-> PRD.FL.001\nPRD.FL.001 -io-> Submit.FN.001\nChain.FC.001 -compose-> Submit.FN.001\n",
    "\"a node alone\"\nName.FL.001\nA -io-> B\n\n# a remark\n",
    "n1 -r0-> n2\r\nn2 -r1-> n1\r\n\"with \\\"quotes\\\"\" -r-> x\n",
];

const PIECES: [&str; 16] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\"nodes\"",
    "\"edges\": [",
    "null",
    "1e999",
    " -io-> ",
    "\n",
    ".FL.001",
    "\\u0000",
    "\"source\": ",
];

#[test]
fn mutated_graphs_import_and_reimport_or_are_refused() {
    let graph = TestGraph::new();
    let mut taken = 0;
    for number in 0..text_count() / 5 {
        let mut dice = rng_of_mutant(number);
        let (format, text) = match dice.index_below(3) {
            0 => (GraphFormat::Text, mutated_text(&LINES, &PIECES, &mut dice)),
            1 => (GraphFormat::Json, mutated_text(&GRAPHS, &PIECES, &mut dice)),
            _ => {
                let mut value: Value = serde_json::from_str(dice.pick::<&str>(&GRAPHS)).unwrap();
                (0..=dice.index_below(4)).for_each(|_| mutate_json(&mut value, &mut dice));
                (GraphFormat::Json, value.to_string())
            }
        };
        let what = format!("seed {number}, {format:?}: {text:.2000?}");
        let change = GraphChange { format, text: text.clone(), write: false };
        let _judged = graph.ask(GraphRequest::Apply(change), &what);
        if graph.ask(import(format, text), &what).is_ok() {
            taken += 1;
            let draw = |graph: &TestGraph| {
                let shape = GraphShape::Json;
                let drawn = graph.ask(GraphRequest::Draw(shape, GraphExtent::default()), &what).unwrap();
                drawn["text"].as_str().unwrap().to_string()
            };
            let first = draw(&graph);
            let again = import(GraphFormat::Json, first.clone());
            graph.ask(again, &format!("{what}\nexported as {first:.2000}")).unwrap();
        }
    }
    assert!(taken > 0, "no graph was imported");
}
