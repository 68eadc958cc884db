//! Tests of EXTRACT: its filters, and objects as different formats and professions write them.

use serde_json::{Value, json};

use crate::corpus::tests::corpus;
use crate::corpus::tests::determinism::ask;

#[test]
fn language_filter_accepts_aliases() {
    let corpus = corpus(&[("a.md", "# A\n\n```bash\nls -l\n```\n")]);
    for name in ["bash", "sh", "Shell"] {
        let found = ask(&corpus, "EXTRACT", json!({"schema": "Code", "filters": {"language": name}}));
        assert_eq!(found.data["count"], 1, "{name}");
    }
}

#[test]
fn definitions_in_law_clauses_and_rst_hanging_lines() {
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

#[test]
fn filters_accept_any_name_style_and_headless_tables() {
    let corpus = corpus(&[
        ("a.md", "> One two three four five six.\n\n> One two three four five six seven eight nine.\n"),
        ("b.csv", "1,2,3\n4,5,6\n"),
    ]);
    for name in ["min_words", "min-words"] {
        let found = ask(&corpus, "EXTRACT", json!({"schema": "Quote", "filters": {name: 8}}));
        assert_eq!(found.data["count"], 1, "{name}");
    }
    for (least, count) in [(3, 1), (4, 0)] {
        let found = ask(&corpus, "EXTRACT", json!({"schema": "Table", "filters": {"min_columns": least}}));
        assert_eq!(found.data["count"], count, "{least}");
    }
    let twice = json!({"schema": "Quote", "filters": {"min_words": 8, "min-words": 2}});
    let refused =
        crate::corpus::api::validate::validate_request("EXTRACT", twice.as_object().unwrap().clone()).unwrap_err();
    assert_eq!(refused.kind.name(), "ambiguous_request");
}

#[test]
fn linked_citation_has_doi_and_one_graph_node() {
    let page =
        "<p>It was measured by <a href=\"https://doi.org/10.5555/X.1?s=2\">the county in spring</a> with care.</p>";
    let note = "It was said by [the county](https://doi.org/10.5555/x.1) at length in spring.\n\nDOI: https://doi.org/10.5555/own\n";
    let list = "# T\n\n## References\n\n1. Stone, M. (2020). On it. doi:10.5555/x.1\n";
    let corpus = corpus(&[("a.html", page), ("b.md", note), ("c.md", list)]);
    let found = ask(&corpus, "EXTRACT", json!({"schema": "Citation"}));
    let objects = found.data["objects"].as_array().unwrap();
    let told: Vec<Value> = objects.iter().map(|it| json!([it["file"], it["text"], it["doi"]])).collect();
    assert_eq!(told, [json!([1, "the county in spring", "10.5555/X.1"]), json!([2, "the county", "10.5555/x.1"])]);
    let graph = ask(&corpus, "TRACE", json!({"form": "citations"}));
    let works = graph.data["nodes"].as_array().unwrap().iter().filter(|it| it["id"] == "w:doi:10.5555/x.1").count();
    let edges = graph.data["edges"].as_array().unwrap().iter().filter(|it| it["to"] == "w:doi:10.5555/x.1").count();
    assert_eq!((works, edges), (1, 3), "{:#}", graph.data);
}

// Case E13
#[test]
fn tables_read_from_file_are_redacted() {
    let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let value = "Zk3vQ9mX2pLr8TnB5wYs";
    let table =
        format!("| service | what |\n|---|---|\n| github | {token} |\n| API token | {value} |\n| build | {value} |\n");
    let corpus = corpus(&[("a.md", &format!("# Keys\n\n{table}\n")), ("b.tex", &tabular(token))]);
    let found = ask(&corpus, "EXTRACT", json!({"schema": "Table"}));
    let rows: Vec<&Value> = found.data["objects"].as_array().unwrap().iter().map(|it| &it["rows"]).collect();
    let cleaned = json!([["github", "[redacted]"], ["API token", "[redacted]"], ["build", value]]);
    assert_eq!(rows, [&cleaned, &json!([["github", "[redacted]"]])]);
    let kept = serde_json::to_string(&*corpus.documents[0].parsed).unwrap();
    assert!(!kept.contains(token), "{kept}");
}

// Case E13
#[test]
fn tables_redact_secret_columns_in_every_format() {
    let value = "Zk3vQ9mX2pLr8TnB5wYs";
    let rows = |between: &str, close: &str| {
        [["name", "token", "commit"], ["bot", value, value]].map(|it| it.join(between) + close).join("\n")
    };
    let corpus = corpus(&[
        ("a.md", &format!("# Keys\n\n{}\n", rows(" | ", "").replacen('\n', "\n---|---|---\n", 1))),
        ("b.csv", &rows(",", "")),
        ("c.tex", &format!("\\begin{{tabular}}{{lll}}\n{}\n\\end{{tabular}}\n", rows(" & ", " \\\\"))),
    ]);
    let found = ask(&corpus, "EXTRACT", json!({"schema": "Table"}));
    let tables: Vec<&Value> = found.data["objects"].as_array().unwrap().iter().map(|it| &it["rows"]).collect();
    assert_eq!(tables, vec![&json!([["bot", "[redacted]", value]]); 3]);
}

fn tabular(token: &str) -> String {
    format!("\\begin{{tabular}}{{ll}}\nservice & what \\\\\ngithub & {token} \\\\\n\\end{{tabular}}\n")
}
