//! Tests of the reranker: a server with the documented protocol orders the hits, and a reranker that fails costs no answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::scripted_server::{ReceivedRequest, Server, Step};

const QUESTION: &str = "Who keeps the spare key of the hut?";

fn write_files(world: &World) {
    world.write("hut.md", "The spare key of the hut hangs behind the door of the hut.");
    world.write("keeper.md", "Olga at the lighthouse looks after the second key.");
    world.write("ferry.md", "The ferry to the hut leaves the quay at nine.");
    world.index();
}

/// Answers like a reranking server whose model finds only the passage about the lighthouse relevant.
fn judge(request: &ReceivedRequest) -> Vec<Step> {
    let documents = request.body["documents"].as_array().cloned().unwrap_or_default();
    let score = |text: &Value| if text.as_str().unwrap_or_default().contains("lighthouse") { 7.5 } else { -9.0 };
    let results: Vec<Value> = documents
        .iter()
        .enumerate()
        .map(|(index, text)| json!({ "index": index, "relevance_score": score(text) }))
        .collect();
    Step::json(200, &json!({ "model": "judge", "results": results }))
}

fn paths(answer: &Value) -> Vec<&str> {
    answer["hits"].as_array().unwrap().iter().filter_map(|it| it["path"].as_str()).collect()
}

/// Asks with these settings, and checks that the order is that without a reranker and that a warning holds `reason`.
fn check_failure(settings: &[(&str, &str)], reason: &str) {
    let mut world = World::new().with("VIC_WATCH", "0");
    for (name, value) in settings {
        world = world.with(name, value);
    }
    let world = world.start();
    write_files(&world);
    let answer = world.json(&["ask", QUESTION]);
    assert_eq!(paths(&answer)[0], "hut.md", "{answer}");
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("answered without the reranker") && warnings.contains(reason), "{warnings}");
}

#[test]
fn server_orders_hits_and_places_keep_scores() {
    let server = Server::start(judge);
    let world = World::new().with("VIC_WATCH", "0").with("VIC_RERANK_URL", &server.address);
    let world = world.with("VIC_RERANK_MODEL", "judge").with("VIC_RERANK_MS", "5000").start();
    write_files(&world);
    let answer = world.json(&["ask", "--explain", QUESTION]);
    assert_eq!(paths(&answer)[..2], ["keeper.md", "hut.md"], "{answer}");
    let hits = answer["hits"].as_array().unwrap();
    assert!(hits[0]["reasoning"].as_str().unwrap().ends_with("; relevance 1.00 by judge"), "{answer}");
    assert!(hits.windows(2).all(|it| it[0]["score"].as_f64() >= it[1]["score"].as_f64()), "{answer}");
    assert_eq!(hits[0]["metadata"]["explain"]["rerank"]["model"], "judge", "{answer}");
    assert_eq!(answer["answer"]["quotes"][0]["checked"], true, "{answer}");
    let asked = server.requests_at("/v1/rerank");
    assert_eq!((asked[0].body["query"].as_str(), asked[0].body["model"].as_str()), (Some(QUESTION), Some("judge")));
}

#[test]
fn corrected_question_is_judged_once() {
    let server = Server::start(judge);
    let world = World::new().with("VIC_WATCH", "0").with("VIC_RERANK_URL", &server.address);
    let world = world.with("VIC_RERANK_MODEL", "judge").with("VIC_RERANK_MS", "5000").start();
    world.write("agreement.md", "The harbour office receives the agreement in May.");
    write_files(&world);
    let answer = world.json(&["ask", "agreemant of the keeper at the lighthouse"]);
    assert!(answer["warnings"].to_string().contains("searched for `agreement`"), "{answer}");
    assert_eq!(paths(&answer)[0], "keeper.md", "{answer}");
    assert_eq!(server.requests_at("/v1/rerank").len(), 1, "{answer}");
}

#[test]
fn failing_reranker_costs_no_answer() {
    let slow = Server::start(|request| {
        let mut steps = vec![Step::Wait(Duration::from_secs(20))];
        steps.extend(judge(request));
        steps
    });
    check_failure(&[("VIC_RERANK_URL", &slow.address), ("VIC_RERANK_MS", "100")], "VIC_RERANK_MS");
    let partial = Server::start(|_| Step::json(200, &json!({ "results": [{ "index": 0, "relevance_score": 1.0 }] })));
    check_failure(&[("VIC_RERANK_URL", &partial.address), ("VIC_RERANK_MS", "5000")], "does not judge every passage");
    check_failure(&[("VIC_RERANK_URL", "http://127.0.0.1:1"), ("VIC_RERANK_MS", "5000")], "127.0.0.1:1");
    check_failure(&[("VIC_RERANK_URL", "http://192.0.2.7"), ("VIC_RERANK_MS", "5000")], "local_only");
    check_failure(&[("VIC_RERANK_MODEL", "ms-marco-MiniLM-L6-v2"), ("VIC_RERANK_MS", "5000")], "vic models pull");
}
