//! Runs every documented example of the tool `graph_query`, and tests which changes `graph apply` refuses.

use serde_json::{Value, json};

use crate::error::ErrorCode;
use crate::graph::import::change_check;
use crate::graph::snapshot::view::View;
use crate::graph::tests::text_graph;
use crate::graph::tools::graph_query;
use crate::model::{GraphChange, GraphFormat};

fn review() -> View {
    text_graph(
        "PMUser.AC.001 -io-> PRDContent.FL.001\nPRDContent.FL.001 -io-> SubmitPRD.FN.001\n\
         SubmitPRD.FN.001 -io-> ReviewFeedback.FL.001\nReviewFeedback.FL.001 -io-> SubmitPRD.FN.001\n\
         ReviewFeedback.FL.001 -io-> ReviewPRD.FN.001\nPRDReviewChain.FC.001 -compose-> SubmitPRD.FN.001\n\
         PRDReviewChain.FC.001 -compose-> ReviewPRD.FN.001\nUnrelated.AC.001 -io-> Other.FL.001",
    )
}

fn ask(view: &View, args: Value) -> Value {
    graph_query::run(view, args).unwrap()
}

#[test]
fn example_1_io_edges_of_flows() {
    let answer = ask(&review(), json!({"queryType": "edges", "filters": {"edgeType": "io", "sourceType": "FLOW"}}));
    assert_eq!(
        answer,
        json!({"count": 3, "edges": [
            {"source": "PRDContent.FL.001", "target": "SubmitPRD.FN.001", "type": "io"},
            {"source": "ReviewFeedback.FL.001", "target": "SubmitPRD.FN.001", "type": "io"},
            {"source": "ReviewFeedback.FL.001", "target": "ReviewPRD.FN.001", "type": "io"}
        ]})
    );
}

#[test]
fn example_2_check_edge() {
    let check = |target: &str| {
        let filters = json!({"semanticId": "ReviewFeedback.FL.001", "edgeType": "io", "targetId": target});
        ask(&review(), json!({"queryType": "check_edge", "filters": filters}))
    };
    let answer = check("SubmitPRD.FN.001");
    let uuid = answer["edge"]["uuid"].as_str().unwrap().to_string();
    assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    let edge = json!({"uuid": uuid, "source": "ReviewFeedback.FL.001", "target": "SubmitPRD.FN.001"});
    assert_eq!(answer, json!({"exists": true, "edge": edge}));
    assert_eq!(check("PMUser.AC.001"), json!({"exists": false}));
    assert_eq!(check("Missing.AC.001"), json!({"exists": false, "notes": ["there is no node `Missing.AC.001`"]}));
}

#[test]
fn example_3_io_chain_and_issues() {
    let answer = ask(&review(), json!({"queryType": "io_chain", "filters": {"fchainId": "PRDReviewChain.FC.001"}}));
    assert_eq!(
        answer,
        json!({
            "chain": [
                {"step": 1, "actor": "PMUser.AC.001", "flow": "PRDContent.FL.001", "func": "SubmitPRD.FN.001"},
                {"step": 2, "source": "SubmitPRD.FN.001", "flow": "ReviewFeedback.FL.001", "func": "ReviewPRD.FN.001"}
            ],
            "issues": [{"type": "bidirectional", "flow": "ReviewFeedback.FL.001", "nodes": ["SubmitPRD.FN.001"]}]
        })
    );
}

#[test]
fn cycles_duplicates_and_dangling_flows_are_reported() {
    let view = text_graph(
        "A.FN.001 -io-> X.FL.001\nX.FL.001 -io-> B.FN.001\nB.FN.001 -io-> Y.FL.001\nY.FL.001 -io-> A.FN.001\n\
         Y.FL.001 -io-> A.FN.001\nB.FN.001 -io-> Z.FL.001\nC.FC.001 -compose-> A.FN.001\nC.FC.001 -compose-> B.FN.001",
    );
    let answer = ask(&view, json!({"queryType": "io_chain", "filters": {"fchainId": "C.FC.001"}}));
    assert_eq!(
        answer["issues"],
        json!([
            {"type": "circular", "flow": "X.FL.001", "nodes": ["A.FN.001", "B.FN.001", "Y.FL.001"]},
            {"type": "duplicate", "flow": "Y.FL.001", "nodes": ["A.FN.001"]},
            {"type": "dangling", "flow": "Z.FL.001", "nodes": ["B.FN.001"]}
        ])
    );
}

#[test]
fn nodes_filter_by_type_and_pattern() {
    let nodes = |filters: Value| {
        let answer = ask(&review(), json!({"queryType": "nodes", "filters": filters}));
        let nodes = answer["nodes"].as_array().unwrap().iter();
        nodes.map(|it| it["semanticId"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(nodes(json!({"nodeType": "FUNC"})), ["SubmitPRD.FN.001", "ReviewPRD.FN.001"]);
    assert_eq!(nodes(json!({"nodeType": "FN", "semanticId": "Review*"})), ["ReviewPRD.FN.001"]);
    assert_eq!(nodes(json!({"semanticId": "PMUser.AC.001"})), ["PMUser.AC.001"]);
    assert_eq!(ask(&review(), json!({"queryType": "nodes"}))["count"], 8);
}

#[test]
fn edges_filter_by_either_end() {
    let count = |filters: Value| ask(&review(), json!({"queryType": "edges", "filters": filters}))["count"].clone();
    assert_eq!(count(json!({"targetId": "ReviewFeedback.FL.001"})), 1);
    assert_eq!(count(json!({"semanticId": "ReviewFeedback.FL.001"})), 3);
    assert_eq!(count(json!({"semanticId": "ReviewFeedback.FL.001", "targetId": "ReviewPRD.FN.001"})), 1);
    assert_eq!(count(json!({"targetType": "FUNCTION", "edgeType": "compose"})), 2);
    assert_eq!(count(json!({"edgeType": "satisfy"})), 0);
    assert_eq!(ask(&review(), json!({"queryType": "edges"}))["count"], 8);
}

#[test]
fn missing_filter_is_named_and_wrong_id_gets_near_one() {
    for (args, field) in [
        (json!({"queryType": "check_edge"}), "filters.semanticId"),
        (json!({"queryType": "io_chain", "filters": {}}), "filters.fchainId"),
        (json!({"queryType": "all"}), "queryType"),
    ] {
        let error = graph_query::run(&review(), args).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArgument, Some(field)), "{error}");
    }
    let error =
        graph_query::run(&review(), json!({"queryType": "io_chain", "filters": {"fchainId": "PRDReviewChan.FC.001"}}));
    let error = error.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotFound);
    assert_eq!(error.message, "there is no node `PRDReviewChan.FC.001`; near: `PRDReviewChain.FC.001` (FCHAIN#5)");
}

#[test]
fn empty_filter_is_refused_by_name() {
    for (query, name, others) in [
        ("io_chain", "fchainId", json!({})),
        ("check_edge", "semanticId", json!({"targetId": "SubmitPRD.FN.001"})),
        ("check_edge", "targetId", json!({"semanticId": "ReviewFeedback.FL.001"})),
        ("edges", "targetId", json!({})),
        ("edges", "sourceType", json!({})),
        ("nodes", "semanticId", json!({})),
        ("nodes", "nodeType", json!({})),
        ("nodes", "namePattern", json!({})),
    ] {
        for empty in ["", "  "] {
            let mut filters = others.clone();
            filters[name] = json!(empty);
            let error = graph_query::run(&review(), json!({"queryType": query, "filters": filters})).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{query} {name}: {error}");
            assert_eq!(error.message, format!("the filter `{name}` is empty"), "{query}");
            assert_eq!(error.field, Some(format!("filters.{name}")), "{query}");
        }
    }
}

#[test]
fn change_is_refused_per_edge_with_reason() {
    let refused = |text: &str| -> Vec<(String, String)> {
        let change = GraphChange { format: GraphFormat::Text, text: text.into(), write: false };
        let part = change_check::parse_change("c", &change).unwrap();
        let each = |it: &Value| (it["issue"].as_str().unwrap().into(), it["reason"].as_str().unwrap().into());
        change_check::refused_edges(&review(), &part).iter().map(each).collect()
    };
    let kinds = |text: &str| refused(text).into_iter().map(|it| it.0).collect::<Vec<String>>();
    assert!(kinds("ReviewPRD.FN.001 -io-> Verdict.FL.001\nVerdict.FL.001 -io-> PMUser2.AC.001").is_empty());
    assert_eq!(kinds("PRDContent.FL.001 -io-> SubmitPRD.FN.001"), ["duplicate"]);
    assert_eq!(kinds("SubmitPRD.FN.001 -io-> PRDContent.FL.001"), ["bidirectional"]);
    assert_eq!(kinds("A.FN.001 -io-> B.FL.001\nA.FN.001 -io-> B.FL.001"), ["duplicate"], "within the change as well");
    assert_eq!(kinds("A.FN.001 -io-> A.FN.001"), ["circular"]);
    let way = refused("ReviewPRD.FN.001 -io-> New.FL.001\nNew.FL.001 -io-> PRDContent.FL.001");
    assert_eq!(way[0].0, "circular");
    assert!(
        way[0].1.contains("PRDContent.FL.001 -> SubmitPRD.FN.001 -> ReviewFeedback.FL.001 -> ReviewPRD.FN.001"),
        "{way:?}"
    );
    assert!(kinds("PRDReviewChain.FC.001 -compose-> SubmitPRD.FN.001").is_empty(), "only io edges have these rules");
}
