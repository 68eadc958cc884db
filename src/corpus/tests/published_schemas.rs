//! Tests that requests and answers match the published schemas, and that the examples in the help match real answers.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::catalog::{SessionFile, StoredResult};
use crate::corpus::api::output_budget::{PROSE_TOKENS, TokenRuler};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::api::{envelope, output_budget, render, schema, validate};
use crate::corpus::dispatch::run_verb_on_corpus;
use crate::corpus::tests::schema_check::{missing_part, schema_violation};
use crate::corpus::tests::{corpus, labelled, paper, tokenizer};
use crate::corpus::verbs::{explain_failure, score};
use crate::corpus::views::baseline::DeltaBaseline;
use crate::corpus::views::documents::Corpus;
use crate::corpus::views::saved_view::Selection;
use crate::corpus::views::select;
use crate::corpus::views::sessions::check_has_text;
use crate::corpus::views::snapshot::SessionSnapshot;
use crate::model::Scope;
use crate::verbs::{self, EXAMPLES, Example, MANAGEMENT_CALLS, VERBS};

/// Returns the published schema with this address.
fn known(address: &str) -> Value {
    let path = address.strip_prefix(schema::ADDRESS).unwrap_or_else(|| panic!("{address} is no schema address"));
    let (name, which) = path.trim_start_matches('/').split_once('/').unwrap();
    schema::schemas_by_name(name).unwrap_or_else(|| panic!("no schema is published at {address}"))[which].clone()
}

fn check(value: &Value, verb: &str, which: &str) {
    let address = format!("{}/{}/{which}", schema::ADDRESS, verb.to_lowercase());
    assert_eq!(known(&address)["$id"], address.as_str());
    if let Some(why) = schema_violation(value, &known(&address), &known) {
        panic!("{verb} {which}{why}\n{value:#}");
    }
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Returns the documents of the examples, with ids in the order of their names.
fn example_corpus() -> Corpus {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/examples");
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path()).collect();
    names.sort();
    let read = |(number, path): (i64, &std::path::PathBuf)| {
        paper(number, path.file_name().unwrap().to_str().unwrap(), &std::fs::read(path).unwrap())
    };
    Corpus { view: json!({"type": "warehouse"}), documents: (1..).zip(&names).map(read).collect(), ..Corpus::default() }
}

/// Returns the baseline of the examples: the same documents before the last one was changed.
fn example_baseline(corpus: &Corpus) -> DeltaBaseline {
    let mut before = corpus.clone();
    before.documents[2] = paper(3, "storing.md", b"# Storing\n\n## Drawer\n\nThe drawer is damp.\n");
    let file = |it: &crate::corpus::views::documents::CorpusDocument| SessionFile {
        hash: Some(it.hash),
        size: it.size,
        modified_ns: it.modified_ns,
        facts: serde_json::to_string(&it.parsed.facts).ok(),
        ..SessionFile::failed_page(it.file, it.path.clone(), String::new())
    };
    DeltaBaseline {
        name: "session 1".into(),
        has_text: true,
        files: before.documents.iter().map(|it| (it.file, file(it))).collect(),
        parsed: before.documents.iter().map(|it| (it.file, it.parsed.clone())).collect(),
        ..DeltaBaseline::default()
    }
}

/// Runs a request on documents and returns its envelope.
fn answer_envelope(corpus: &Corpus, verb: &str, request: &Value) -> Value {
    let request =
        validate::validate_request(verb, map(request)).unwrap_or_else(|it| panic!("{verb} {request}: {it:?}"));
    let before = (request.verb.name == "DELTA").then(|| example_baseline(corpus));
    let answer = match (request.verb.name, request.form.name) {
        ("SCORE", "confidence") => {
            score::run(&request, corpus, Some(&serde_json::from_str(&extract_result(corpus).envelope).unwrap()))
        }
        ("EXPLAIN_FAILURE", _) if explain_failure::result_id(&request).is_some() => {
            explain_failure::explain_result(&request, &extract_result(corpus))
        }
        _ => run_verb_on_corpus(&request, corpus, before.as_ref()),
    };
    let answer = answer.unwrap_or_else(|it| panic!("{verb}: {it:?}"));
    let id = select::view_result_id(&request, corpus, before.as_ref());
    let tokenizer = tokenizer();
    let mut told =
        envelope::wrap_answer(&id, request.verb.name, request.form.name, &corpus.view, corpus.coverage(), &answer);
    assert_renderings(&told, &request);
    envelope::shorten(&mut told, request.flag("verbose"), request.page().1, TokenRuler(&tokenizer));
    if !request.flag("verbose") {
        let prose = output_budget::envelope_prose_tokens(&told, TokenRuler(&tokenizer));
        assert!(prose <= PROSE_TOKENS, "{prose} tokens of prose: {told:#}");
    }
    told
}

/// Checks that YAML has the same content as JSON, and that CSV of a table starts with the id.
fn assert_renderings(told: &Value, request: &ValidRequest) {
    let (_, yaml) = render::render_envelope(told, Some("yaml")).unwrap();
    assert_eq!(serde_yaml_ng::from_str::<Value>(&yaml).unwrap(), *told);
    let csv = render::render_envelope(told, Some("csv"));
    match render::has_table(request.verb.name, request.form.name) {
        true => assert!(csv.unwrap().1.starts_with(&format!("# id={}, ", told["id"].as_str().unwrap())), "{told}"),
        false => assert_eq!(csv.unwrap_err().field.as_deref(), Some("format"), "{told}"),
    }
}

/// Returns the stored result of the EXTRACT example.
fn extract_result(corpus: &Corpus) -> StoredResult {
    let example = EXAMPLES.iter().find(|it| it.verb == "EXTRACT").unwrap();
    let fields: Value = serde_json::from_str(example.request).unwrap();
    let told = answer_envelope(corpus, "EXTRACT", &fields);
    let request = json!({"verb": "EXTRACT", "form": "", "fields": fields});
    StoredResult { request: request.to_string(), envelope: told.to_string(), documents: String::new() }
}

fn fields(example: &Example) -> Value {
    serde_json::from_str(&verbs::full_request(example)).unwrap()
}

#[test]
fn help_examples_match_real_answers() {
    let corpus = example_corpus();
    let mut wrong = Vec::new();
    // INGEST and QUERY need a daemon; other tests, with a real daemon, run their examples.
    for example in EXAMPLES.iter().filter(|it| !["INGEST", "QUERY"].contains(&it.verb)) {
        let told = answer_envelope(&corpus, example.verb, &fields(example));
        let expected: Value = serde_json::from_str(example.response).unwrap();
        if let Some(why) = missing_part(&expected, &told["data"]) {
            wrong.push(format!("{} {}: data{why}\n  {}", example.verb, example.form, told["data"]));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn help_requests_match_schema() {
    for example in EXAMPLES {
        let request = fields(example);
        assert!(validate::validate_request(example.verb, map(&request)).is_ok(), "{request}");
        check(&request, example.verb, "request");
    }
}

#[test]
fn validator_and_schema_agree() {
    let good = crate::corpus::tests::validation::good_requests();
    for (verb, request) in &good {
        let taken = validate::validate_request(verb, map(request)).unwrap();
        let mut plain = taken.fields.clone();
        if !taken.form.name.is_empty() {
            plain.insert("form".into(), taken.form.name.into());
        }
        check(&Value::Object(plain), taken.verb.name, "request");
    }
    for ((verb, request), cause) in crate::corpus::tests::validation::bad_requests() {
        let Some(verb) = verbs::verb(verb) else { continue };
        let fits = schema_violation(&request, &schema::schemas_of_verb(verb)["request"], &known).is_none();
        // Skip errors about combinations of fields or a grammar, which a schema cannot express.
        let name = cause.name();
        let is_shape = ["unknown_form", "unknown_schema"].contains(&name) || (name == "missing_field" && !fits);
        assert!(!is_shape || !fits, "{} {request} fits the schema, and is refused for {name}", verb.name);
    }
}

#[test]
fn answers_match_schema() {
    let (labelled, advice) = (labelled(), corpus(crate::corpus::tests::determinism::ADVICE));
    for mut corpus in [labelled, advice, example_corpus()] {
        corpus.view = json!({"type": "warehouse"});
        for (verb, mut request) in crate::corpus::tests::determinism::every_form() {
            check(&answer_envelope(&corpus, verb, &request), verb, "response");
            request["verbose"] = json!(true);
            check(&answer_envelope(&corpus, verb, &request), verb, "response");
        }
        for schema in verbs::SCHEMA_NAMES {
            check(&answer_envelope(&corpus, "EXTRACT", &json!({"schema": schema})), "EXTRACT", "response");
        }
    }
    for example in EXAMPLES.iter().filter(|it| !["INGEST", "QUERY"].contains(&it.verb)) {
        check(&answer_envelope(&example_corpus(), example.verb, &fields(example)), example.verb, "response");
    }
}

#[test]
fn errors_match_schema_of_verb() {
    let tokenizer = tokenizer();
    for ((verb, request), _) in crate::corpus::tests::validation::bad_requests() {
        let Some(verb) = verbs::verb(verb) else { continue };
        let refused = validate::validate_request(verb.name, map(&request)).unwrap_err();
        let error = output_budget::limit_error(&refused, TokenRuler(&tokenizer));
        check(&envelope::wrap_error(Some("r-1"), verb.name, &Value::Null, error), verb.name, "response");
    }
}

#[test]
fn metadata_only_error_matches_schema() {
    let past = SessionSnapshot::new(1, r#"{"mode": "minimal"}"#, Vec::new());
    let selection = Selection::session(&Scope::All, Arc::new(past));
    let request = validate::validate_request("EXTRACT", map(&json!({"schema": "Code"}))).unwrap();
    let refused = check_has_text(&request, &selection).unwrap_err();
    check(&envelope::wrap_error(Some("r-1"), "EXTRACT", &Value::Null, refused.value()), "EXTRACT", "response");
}

#[test]
fn every_call_has_request_and_response_schema() {
    let all = schema::all_schemas();
    assert_eq!(all.len(), VERBS.len() + MANAGEMENT_CALLS.len());
    for one in &all {
        for which in ["request", "response"] {
            assert_eq!(known(one[which]["$id"].as_str().unwrap()), one[which], "{}", one["verb"]);
        }
    }
    // Check also that an answer of another shape does not match the schema.
    let mut told = answer_envelope(&example_corpus(), "EXTRACT", &json!({"schema": "Code"}));
    assert!(schema_violation(&told, &known("vic://corpus/schema/extract/response"), &known).is_none());
    assert!(schema_violation(&told, &known("vic://corpus/schema/result/response"), &known).is_none());
    told["data"]["objects"][0]["colour"] = json!("red");
    assert!(schema_violation(&told, &known("vic://corpus/schema/extract/response"), &known).is_some());
}
