//! Tests that EXTRACT finds the objects of a fully labelled corpus, listed in `tests/data/corpus/expected.jsonl`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::corpus::objects::Object;
use crate::corpus::tests::{folder, labelled};

/// Required precision and recall for each schema.
const FIGURES: [(&str, f64, f64); 7] = [
    ("Code", 0.95, 0.85),
    ("Table", 0.95, 0.85),
    ("Quote", 0.95, 0.85),
    ("Citation", 0.95, 0.85),
    ("Reference", 0.95, 0.85),
    ("Definition", 0.85, 0.0),
    ("Methodology", 0.85, 0.0),
];

fn normalize_text(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether an object is the expected one, by the fields that identify objects of the schema.
fn is_expected(schema: &str, object: &Object, wanted: &Value) -> bool {
    let text = |field: &str| wanted[field].as_str().unwrap_or_default();
    let same = |field: &str, name: &str| normalize_text(object.text(field)) == normalize_text(text(name));
    let optional = |field: &str| object.fields[field].as_str() == wanted[field].as_str();
    match schema {
        "Code" => same("text", "text") && optional("language"),
        "Table" => object.fields["headers"] == wanted["headers"] && object.fields["rows"] == wanted["rows"],
        "Quote" => same("text", "text") && optional("author"),
        "Citation" => object.text("text") == text("text") && object.fields["number"] == wanted["number"],
        "Reference" => same("full_text", "text") && optional("doi") && optional("arxiv_id"),
        "Definition" => object.text("term").eq_ignore_ascii_case(text("term")),
        _ => {
            same("section_text", "text")
                && optional("approach")
                && tools(&object.fields["tools_mentioned"]) == tools(&wanted["tools"])
        }
    }
}

fn tools(list: &Value) -> std::collections::BTreeSet<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[derive(Default)]
struct Tally {
    found: usize,
    expected: usize,
    right: usize,
    wrong_place: Vec<String>,
    spurious: Vec<String>,
    missed: Vec<String>,
}

fn tallies() -> BTreeMap<String, Tally> {
    let mut expected: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for line in std::fs::read_to_string(folder().join("expected.jsonl")).unwrap().lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        let key = (object["file"].as_str().unwrap().to_string(), object["schema"].as_str().unwrap().to_string());
        expected.entry(key).or_default().push(object);
    }
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for paper in labelled().documents {
        for (schema, objects) in &paper.parsed.objects {
            let mut wanted = expected.remove(&(paper.path.clone(), schema.clone())).unwrap_or_default();
            let tally = tallies.entry(schema.clone()).or_default();
            tally.expected += wanted.len();
            tally.found += objects.len();
            for object in objects {
                let Some(at) = wanted.iter().position(|it| is_expected(schema, object, &it["fields"])) else {
                    tally.spurious.push(format!(
                        "{}: {:?} {}",
                        paper.path,
                        object.place.lines,
                        Value::Object(object.fields.clone())
                    ));
                    continue;
                };
                let label = wanted.remove(at);
                tally.right += 1;
                let place = |it: Option<(u64, u64)>| it.map(|it| serde_json::json!([it.0, it.1])).unwrap_or_default();
                let lines = place(object.place.lines.map(|it| (it.0.into(), it.1.into())));
                if !label["bytes"].is_null() && (label["bytes"] != place(object.place.bytes) || label["lines"] != lines)
                {
                    tally.wrong_place.push(format!("{}: {:?} is not {label}", paper.path, object.place));
                }
                if !label["page"].is_null() && label["page"].as_u64() != object.place.page.map(u64::from) {
                    tally.wrong_place.push(format!("{}: {:?} is not {label}", paper.path, object.place));
                }
            }
            tally.missed.extend(wanted.iter().map(|it| it.to_string()));
        }
    }
    assert!(expected.is_empty(), "labels without a document: {:?}", expected.keys());
    tallies
}

#[test]
fn labelled_objects_reach_precision_and_recall() {
    let tallies = tallies();
    let mut failed = Vec::new();
    for (schema, precision, recall) in FIGURES {
        let it = &tallies[schema];
        let (own_precision, own_recall) =
            (it.right as f64 / it.found.max(1) as f64, it.right as f64 / it.expected.max(1) as f64);
        println!("{schema}: precision {own_precision:.3}, recall {own_recall:.3} of {}", it.expected);
        it.spurious.iter().for_each(|it| println!("  spurious {it}"));
        it.missed.iter().for_each(|it| println!("  missed {it}"));
        if own_precision < precision || own_recall < recall || !it.wrong_place.is_empty() || it.expected < 20 {
            let first = |list: &[String]| list.iter().take(6).cloned().collect::<Vec<_>>().join("\n    ");
            failed.push(format!(
                "{schema}: precision {own_precision:.3}, recall {own_recall:.3}\n  spurious {}\n    {}\n  missed {}\n    {}\n  misplaced {}\n    {}",
                it.spurious.len(), first(&it.spurious), it.missed.len(), first(&it.missed), it.wrong_place.len(), first(&it.wrong_place),
            ));
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn labelled_set_covers_every_format() {
    let papers = labelled().documents;
    let formats: std::collections::BTreeSet<&str> = papers.iter().filter_map(|it| it.path.rsplit('.').next()).collect();
    assert!(papers.len() >= 90, "{}", papers.len());
    for format in ["md", "html", "txt", "tex", "rst", "py", "rs", "csv", "xlsx", "docx", "pdf", "eml", "ipynb", "epub"]
    {
        assert!(formats.contains(format), "{format} is not among {formats:?}");
    }
}
