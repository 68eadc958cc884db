//! Tests of DELTA with a baseline: added, removed and modified files, and one field of one file.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::SessionFile;
use crate::corpus::api::answer::Answer;
use crate::corpus::api::error::ApiResult;
use crate::corpus::api::validate;
use crate::corpus::dispatch::run_verb_on_corpus;
use crate::corpus::tests::{corpus, reading};
use crate::corpus::views::baseline::DeltaBaseline;
use crate::corpus::views::documents::Corpus;
use crate::model::ContentHash;

/// Returns a session of these files, given as (name, text) and with ids from 1.
fn baseline_of(files: &[(&str, &str)]) -> DeltaBaseline {
    let mut earlier = DeltaBaseline { name: "session 4".into(), has_text: true, ..DeltaBaseline::default() };
    for (number, (name, text)) in (1..).zip(files) {
        let own = Arc::new(reading(name, text.as_bytes()));
        let file = SessionFile {
            hash: Some(ContentHash(*blake3::hash(text.as_bytes()).as_bytes())),
            size: text.len() as u64,
            modified_ns: number * 1_000_000_000,
            facts: serde_json::to_string(&own.facts).ok(),
            ..SessionFile::failed_page(number, name.to_string(), String::new())
        };
        earlier.files.insert(number, file);
        earlier.parsed.insert(number, own);
    }
    earlier
}

fn run_delta(request: Value, now: &Corpus, earlier: &DeltaBaseline) -> ApiResult<Answer> {
    run_verb_on_corpus(&validate::validate_request("DELTA", request.as_object().unwrap().clone())?, now, Some(earlier))
}

fn delta_data(request: Value, now: &Corpus, earlier: &DeltaBaseline) -> Value {
    run_delta(request, now, earlier).unwrap().data
}

const BEFORE: &[(&str, &str)] = &[
    ("a.md", "# Sailcloth\n\nYou should store the gauge indoors in winter.\n"),
    ("b.md", "# Tin\n\nIt lasts for years.\n"),
    ("c.md", "# Third\n\nThe same.\n"),
];

/// Returns the documents after a change: `b.md` was modified, `c.md` removed, `d.md` added.
fn after() -> Corpus {
    let mut now = corpus(&[
        BEFORE[0],
        ("b.md", "# Tin\n\nYou should not store the gauge indoors in winter.\n\n## More\n\nIt rusts.\n"),
        ("x.md", "Not there."),
        ("d.md", "# New\n\nA new one.\n"),
    ]);
    now.documents.retain(|it| it.path != "x.md");
    now
}

#[test]
fn delta_lists_changes_and_is_deterministic() {
    let (now, earlier) = (after(), baseline_of(BEFORE));
    let told = delta_data(json!({"baseline": 4}), &now, &earlier);
    assert_eq!(told["counts"], json!({"added": 1, "removed": 1, "modified": 1}), "{told:#}");
    assert_eq!((&told["added"][0]["path"], &told["removed"][0]["path"]), (&json!("d.md"), &json!("c.md")));
    let modified = &told["modified"][0];
    assert_eq!((&modified["path"], &modified["sections"]), (&json!("b.md"), &json!(["More", "Tin"])), "{modified}");
    assert!(modified["changes"].as_u64().unwrap() >= 2 && modified["size"].is_array(), "{modified}");
    assert_eq!(delta_data(json!({"baseline": 4}), &now, &earlier), told);
    let none = delta_data(json!({"baseline": 4}), &corpus(BEFORE), &earlier);
    assert_eq!(none["counts"], json!({"added": 0, "removed": 0, "modified": 0}));
}

#[test]
fn empty_view_is_all_removed_and_move_is_reported() {
    let earlier = baseline_of(BEFORE);
    let told = delta_data(json!({"baseline": 4}), &Corpus::default(), &earlier);
    assert_eq!(told["counts"], json!({"added": 0, "removed": 3, "modified": 0}));
    let mut now = corpus(BEFORE);
    now.documents[1].path = "moved/b.md".into();
    let told = delta_data(json!({"baseline": 4}), &now, &earlier);
    assert_eq!(told["modified"], json!([{"file": 2, "path": "moved/b.md", "moved_from": "b.md", "changes": 0}]));
}

#[test]
fn new_contradictions_exclude_earlier_ones() {
    let (now, earlier) = (after(), baseline_of(BEFORE));
    let only = json!({"baseline": 4, "only": "new-contradictions"});
    let found = delta_data(only.clone(), &now, &earlier);
    assert_eq!((&found["count"], &found["undecided"]), (&json!(1), &json!(0)), "{found:#}");
    let sides = [&found["new_contradictions"][0]["a"]["file"], &found["new_contradictions"][0]["b"]["file"]];
    assert_eq!(sides, [&json!(1), &json!(2)]);
    let same: Vec<(&str, &str)> =
        vec![BEFORE[0], ("b.md", "# Tin\n\nYou should not store the gauge indoors in winter.\n")];
    let found = delta_data(only.clone(), &corpus(&same), &baseline_of(&same));
    assert_eq!(found["count"], 0, "the contradiction existed before: {found:#}");
    let mut lost = baseline_of(BEFORE);
    lost.parsed.remove(&2);
    let answer = run_delta(only, &now, &lost).unwrap();
    assert_eq!((&answer.data["count"], &answer.data["undecided"]), (&json!(0), &json!(1)), "{:#}", answer.data);
    assert_eq!(answer.unknowns[0].value()["files"], json!([2]));
}

/// Returns a baseline that contains only this file.
fn only(earlier: DeltaBaseline, file: i64) -> DeltaBaseline {
    let files: BTreeMap<_, _> = earlier.files.into_iter().filter(|it| it.0 == file).collect();
    DeltaBaseline { files, ..earlier }
}

#[test]
fn watch_compares_any_field_of_file() {
    let text = "---\nversion: 2\n---\n\n# Tin\n\nIt lasts for years.\n\nUntouched.\n";
    let earlier = only(baseline_of(&[("a.md", text)]), 1);
    let now = corpus(&[("a.md", &text.replace("years", "months").replace("version: 2", "version: 3"))]);
    let watch = |field: &str| delta_data(json!({"watch": 1, "field": field}), &now, &earlier);
    let content = watch("content");
    assert_eq!(
        (&content["changed"], &content["lines_added"], &content["lines_removed"]),
        (&json!(true), &json!(2), &json!(2)),
        "{content:#}"
    );
    let diff = content["diff"].to_string();
    assert!(diff.contains("-It lasts for years.") && diff.contains("+It lasts for months."), "{diff}");
    let version = watch("version");
    assert_eq!((&version["before"], &version["after"], &version["changed"]), (&json!("2"), &json!("3"), &json!(true)));
    let size = watch("size");
    assert_eq!((&size["before"], &size["after"]), (&json!(text.len()), &json!(text.len() + 1)), "{size}");
    let title = watch("title");
    assert_eq!((&title["changed"], &title["before"]), (&json!(false), &title["after"]));
    assert_eq!(watch("headings")["changed"], false);
    let refused = run_delta(json!({"watch": 1, "field": "versoin"}), &now, &earlier).unwrap_err();
    assert_eq!((refused.kind.name(), refused.actions), ("unknown_field", vec!["did you mean `version`?".to_string()]));
}

#[test]
fn watch_of_deleted_file_shows_earlier_value() {
    let earlier = only(baseline_of(BEFORE), 2);
    let told = delta_data(json!({"watch": 2, "field": "content"}), &Corpus::default(), &earlier);
    assert_eq!((&told["vanished"], &told["changed"], &told["path"]), (&json!(true), &json!(true), &json!("b.md")));
    assert!(told["diff"].to_string().contains("-It lasts for years."), "{told}");
    let told = delta_data(json!({"watch": 2, "field": "size"}), &Corpus::default(), &earlier);
    assert_eq!((&told["after"], &told["changed"]), (&Value::Null, &json!(true)));
}

#[test]
fn watch_without_stored_text_is_unknown() {
    let mut earlier = only(baseline_of(BEFORE), 2);
    earlier.parsed.clear();
    let mut now = after();
    now.documents.retain(|it| it.file == 2);
    let answer = run_delta(json!({"watch": 2, "field": "content"}), &now, &earlier).unwrap();
    assert_eq!((&answer.data["changed"], &answer.data["diff"]), (&json!(true), &Value::Null));
    assert_eq!(answer.unknowns[0].value()["type"], "earlier_content_not_kept");
}
