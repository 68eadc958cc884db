//! Tests of the limits on answers: prose limit, paging, no advice, and token cost.

use serde_json::{Value, json};

use crate::corpus::api::answer::Answer;
use crate::corpus::api::output_budget::{PROSE_TOKENS, TokenRuler};
use crate::corpus::api::{envelope, output_budget, validate};
use crate::corpus::dispatch::run_verb_on_corpus;
use crate::corpus::tests::determinism::{ADVICE, ask, every_form, told};
use crate::corpus::tests::{corpus, labelled, tokenizer};
use crate::corpus::verbs::summarize::{self, FORBIDDEN_PHRASES};
use crate::corpus::views::documents::Corpus;

#[test]
fn prose_is_limited_and_summaries_give_no_advice() {
    let tokenizer = tokenizer();
    for corpus in [labelled(), crate::corpus::tests::corpus(ADVICE), wordy_corpus()] {
        for (verb, request) in every_form() {
            let told: Value = serde_json::from_str(&told(&corpus, verb, &request)).unwrap();
            let mut cut = told.clone();
            output_budget::limit_answer(&mut cut, 0, TokenRuler(&tokenizer));
            assert!(
                output_budget::envelope_prose_tokens(&cut, TokenRuler(&tokenizer)) <= PROSE_TOKENS,
                "{verb} {request}"
            );
            let own = validate::validate_request(verb, request.as_object().unwrap().clone()).unwrap();
            assert_eq!(
                summarize::check_wording(own.verb, &run_verb_on_corpus(&own, &corpus, None).unwrap()),
                Ok(()),
                "{verb} {request}"
            );
            if verb == "SUMMARIZE" {
                let data = told["data"].to_string().to_lowercase();
                assert!(FORBIDDEN_PHRASES.iter().all(|it| !data.contains(it)), "{request}: {data}");
            }
            for field in ["confidence", "coverage"] {
                let value = told[field].as_f64().unwrap();
                assert!((0.0..=1.0).contains(&value), "{verb} {request}: {field} {value}");
            }
        }
    }
}

/// Returns documents that exceed every limit of an answer: long sentences, quotes, cells, headings and lists.
fn wordy_corpus() -> Corpus {
    let sentence =
        |at: usize| format!("You should clean gauge number {at} at the pier before every storm of the winter. ");
    let mut one = String::from("# A heading that goes on for as long as the line has any room left for words\n\n");
    let mut other = one.clone();
    for at in 0..120 {
        one.push_str(&format!("{}\n\n", sentence(at).repeat(4)));
        other.push_str(&format!("{}\n\n", sentence(at + 1).replace("should", "should never").repeat(3)));
    }
    let quote = "the water came over the wall and few had seen it come ".repeat(20);
    let cell = "a cell with far more words than any cell of a table should have ".repeat(10);
    let tail = format!(
        "> {quote}\n> — Klara Novak\n\n## Methods\n\n{}\n\n## Pros of the wall\n\n- {quote}\n\n## Cons of the wall\n\n- {quote}\n\n| Site | Note |\n|---|---|\n| pier | {cell} |\n| lock | {cell} |\n\nA **wall** is a thing that {quote}.\n",
        "We measured and recorded what the water did at the pier on every day of the year. ".repeat(60)
    );
    corpus(&[("one.md", &format!("{one}{tail}")), ("other.md", &format!("{other}{tail}"))])
}

#[test]
fn summary_with_advice_is_withheld() {
    let verb = crate::verbs::verb("SUMMARIZE").unwrap();
    for data in [
        json!({"rows": [{"sections": ["Tin is the BEST CHOICE here"]}]}),
        json!({"evidence_for": {"You should paint": []}}),
        json!({"title": "Conclusion"}),
    ] {
        let mut answer = Answer::new("a method");
        answer.data = data;
        assert_eq!(summarize::check_wording(verb, &answer).unwrap_err().kind.name(), "internal", "{}", answer.data);
        assert_eq!(summarize::check_wording(crate::verbs::verb("EXTRACT").unwrap(), &answer), Ok(()));
    }
    let corpus = crate::corpus::tests::corpus(ADVICE);
    let asked = json!({"form": "decision-inputs", "question": "Which gauge is the best choice?"});
    let answer = ask(&corpus, "SUMMARIZE", asked);
    assert_eq!(summarize::check_wording(verb, &answer), Ok(()), "{} {:?}", answer.data, answer.parameters);
}

#[test]
fn paging_reaches_every_object() {
    let tokenizer = tokenizer();
    let mut requests: Vec<(&str, Value, &str)> =
        crate::verbs::SCHEMA_NAMES.iter().map(|it| ("EXTRACT", json!({"schema": it}), "objects")).collect();
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
            output_budget::limit_answer(&mut page, offset, TokenRuler(&tokenizer));
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

/// Returns all labelled notes of one kind as one long document, and an edited version of it.
fn two_versions() -> Corpus {
    let folder = crate::corpus::tests::folder();
    let names = ["archive", "backup", "bees", "bread", "choir", "gauges", "orchard", "paint", "routing", "wool"];
    let read = |it: &&str| std::fs::read_to_string(folder.join(format!("{it}.md"))).unwrap();
    let old = names.iter().map(read).collect::<Vec<_>>().join("\n\n");
    let new = old.replace("questionnaire", "letter").replace("one to five", "one to four");
    assert_ne!(old, new);
    corpus(&[("old.md", &old), ("new.md", &format!("{new}\n\nOne more note at the end.\n"))])
}

/// Returns twenty requests whose answers replace reading documents: to count, tabulate, compare and list.
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

/// Counts the tokens in those passages that need not be read if the answer is read instead.
fn cost(corpus: &Corpus, ruler: TokenRuler<'_>, replaced: impl Fn(&str) -> bool) -> usize {
    let papers = corpus.documents.iter().filter(|it| replaced(&it.path));
    papers.flat_map(|it| &it.parsed.passages).map(|it| ruler.count(&it.text)).sum()
}

#[test]
fn answer_costs_tenth_of_replaced_documents() {
    let tokenizer = tokenizer();
    let (ruler, all, versions) = (TokenRuler(&tokenizer), labelled(), two_versions());
    let every = cost(&all, ruler, |_| true);
    let mut tasks: Vec<(&Corpus, &str, Value, usize)> =
        tasks().into_iter().map(|(verb, request)| (&all, verb, request, every)).collect();
    let compare = json!({"form": "versions", "doc_a": "old.md", "doc_b": "new.md"});
    tasks.push((&versions, "COMPARE", compare, cost(&versions, ruler, |_| true)));
    // A matrix has only the rows of the named documents, so it replaces only these.
    let items: Vec<&str> = all.documents.iter().map(|it| it.path.as_str()).filter(|it| it.ends_with(".md")).collect();
    let matrix = json!({"form": "comparison-matrix", "items": items, "schema": ["year", "table_count"]});
    tasks.push((&all, "SUMMARIZE", matrix, cost(&all, ruler, |it| it.ends_with(".md"))));
    assert_eq!(tasks.len(), 20);
    let mut dear = Vec::new();
    for (corpus, verb, request, documents) in tasks {
        let mut answer: Value = serde_json::from_str(&told(corpus, verb, &request)).unwrap();
        envelope::shorten(&mut answer, false, 0, ruler);
        let cost = ruler.count(&answer.to_string());
        println!("{cost} of {documents}: {verb} {request}");
        if cost * 10 > documents {
            dear.push(format!("{verb} {request}: {cost} of {documents}"));
        }
    }
    assert!(dear.is_empty(), "\n{}", dear.join("\n"));
}
