//! EXTRACT: what its filters let pass, and objects that a format or a trade writes in its own way.

use serde_json::{Value, json};

use super::corpus;
use super::verbs::ask;

#[test]
fn a_language_goes_by_each_of_its_names() {
    let corpus = corpus(&[("a.md", "# A\n\n```bash\nls -l\n```\n")]);
    for name in ["bash", "sh", "Shell"] {
        let found = ask(&corpus, "EXTRACT", json!({"schema": "Code", "filters": {"language": name}}));
        assert_eq!(found.data["count"], 1, "{name}");
    }
}

#[test]
fn laws_define_in_clauses_and_restructured_text_in_hanging_lines() {
    let law =
        "In this order:\n   (a) \"Quay\" means the eastern wall; and\n   (b) \"Vessel\" includes a raft of logs.\n";
    let lines = "Peak\n   The largest load of a day.\n\nText\n\n   goes on\n   set in\n\n* an item\n  of two lines\n";
    let corpus = corpus(&[("a.txt", law), ("b.rst", lines)]);
    let found = ask(&corpus, "EXTRACT", json!({"schema": "Definition"}));
    let objects = found.data["objects"].as_array().unwrap();
    let told: Vec<Value> = objects.iter().map(|it| json!([it["term"], it["definition_text"], it["lines"]])).collect();
    assert_eq!(
        told,
        [
            json!(["Quay", "the eastern wall", [2, 2]]),
            json!(["Vessel", "a raft of logs", [3, 3]]),
            json!(["Peak", "The largest load of a day.", [1, 2]]),
        ]
    );
}
