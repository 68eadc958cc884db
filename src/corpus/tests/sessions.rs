//! Tests of session snapshots and saved views: which files belong to them, and with which metadata.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use crate::catalog::{Catalog, SessionFile};
use crate::corpus::api::validate;
use crate::corpus::filter::Filter;
use crate::corpus::tests::reading;
use crate::corpus::verbs::query::{FilterResult, apply_filter};
use crate::corpus::views::saved_view::{Selection, View};
use crate::corpus::views::sessions::check_has_text;
use crate::corpus::views::snapshot::SessionSnapshot;
use crate::model::{ContentHash, FileState, Scope};

fn file(number: i64, name: &str, text: &str) -> SessionFile {
    SessionFile {
        hash: Some(ContentHash(*blake3::hash(text.as_bytes()).as_bytes())),
        size: text.len() as u64,
        state: FileState::Indexed,
        extension: crate::corpus::document::loader::extension(name),
        facts: serde_json::to_string(&reading(name, text.as_bytes()).facts).ok(),
        ..SessionFile::failed_page(number, name.to_string(), String::new())
    }
}

fn catalog(dir: &std::path::Path) -> Catalog {
    Catalog::open(&dir.join("catalog.sqlite")).unwrap()
}

fn past(mode: &str, files: Vec<SessionFile>) -> Selection {
    let body = json!({"paths": ["/w"], "mode": mode}).to_string();
    Selection::session(&Scope::All, Arc::new(SessionSnapshot::new(4, &body, files)))
}

fn found(selection: &Selection, filter: &str) -> FilterResult {
    let dir = tempfile::tempdir().unwrap();
    apply_filter(&catalog(dir.path()), &HashMap::new(), selection, &Filter::parse(filter).unwrap()).unwrap()
}

#[test]
fn session_query_uses_own_metadata_not_catalog() {
    let failed =
        SessionFile { state: FileState::Failed, ..SessionFile::failed_page(3, "c.pdf".into(), "damaged".into()) };
    let page = SessionFile::failed_page(-1, "https://example.org/a".into(), "the server answered 503".into());
    let own =
        vec![page, file(1, "a.md", "# T\n\nDate: 2020-01-02\n\nOne two three.\n"), file(2, "b.md", "Short."), failed];
    let selection = past("full", own.clone());
    for (filter, ids, open) in [
        ("extension=md AND word_count>4", vec![1], vec![]),
        ("year=2020", vec![1], vec![2, 3]),
        ("NOT year=2020", vec![], vec![2, 3]),
        ("state=failed AND reason=damaged", vec![3], vec![]),
        ("size>=0", vec![1, 2, 3], vec![]),
    ] {
        assert_eq!(found(&selection, filter), FilterResult { ids, seen: 3, undecided: open }, "{filter}");
    }
    let bare = own.into_iter().map(|it| SessionFile { facts: None, ..it }).collect();
    assert_eq!(found(&past("minimal", bare), "word_count>0").undecided, [1, 2, 3], "texts were not read");
}

#[test]
fn minimal_session_rejects_verbs_on_texts() {
    for (mode, verb, request, is_refused) in [
        ("minimal", "EXTRACT", json!({"schema": "Code"}), true),
        ("minimal", "DETECT", json!({"form": "clusters"}), true),
        ("minimal", "QUERY", json!({"filter": "size>0"}), false),
        ("minimal", "DELTA", json!({"baseline": 4}), false),
        ("full", "EXTRACT", json!({"schema": "Code"}), false),
    ] {
        let request = validate::validate_request(verb, request.as_object().unwrap().clone()).unwrap();
        let refused = check_has_text(&request, &past(mode, Vec::new()));
        assert_eq!(refused.is_err_and(|it| it.kind.name() == "metadata_only"), is_refused, "{mode} {verb}");
    }
}

#[test]
fn past_membership_uses_session_metadata() {
    let (small, large) = (file(1, "a.md", "Short."), file(2, "b.md", &"Long. ".repeat(50)));
    let evolving = |filter: &str| View::Evolving { filter: filter.into(), since: None };
    for (view, expected) in [
        (evolving("size>100"), [false, true]),
        (evolving("word_count<10"), [true, false]),
        (View::Set { files: vec![1], paths: vec!["a.md".into()] }, [true, false]),
        (View::Query { filter: "size>0".into(), since: None, upto: 1 }, [true, false]),
    ] {
        let selection = Selection::saved(&Scope::All, "v", &view, 0).unwrap();
        assert_eq!([selection.contained_then(&small), selection.contained_then(&large)], expected, "{view:?}");
    }
}

#[test]
fn evolving_view_counts_from_now_and_old_set_loads() {
    let day = 86_400_000_000_000;
    let view = View::Evolving { filter: "size>0".into(), since: Some("2 days".into()) };
    let selection = |now| Selection::saved(&Scope::All, "v", &view, now).unwrap().base.modified_after_ns;
    assert_eq!((selection(10 * day), selection(11 * day)), (Some(8 * day), Some(9 * day)));
    let set: View = serde_json::from_value(json!({"type": "set", "files": [3, 4]})).unwrap();
    let selection = Selection::saved(&Scope::All, "v", &set, 0).unwrap();
    assert_eq!(selection.named, [(3, String::new()), (4, String::new())]);
}
