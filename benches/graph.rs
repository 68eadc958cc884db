//! Measures queries on a graph of a given size: the tool `graph_query`, and AxQL with a type, an attribute and two hops.
//!
//! Corpus: `--nodes N` entities of ten types, some far more frequent than others, with `--edges M` edges of twenty relations
//! between them, generated from a fixed seed. Every edge has evidence. Prints the median and 99th percentile of each kind
//! of query, the time until a change of one imported source is visible, and the bytes per edge of the snapshot and of the
//! process.
//!
//! ```text
//! cargo bench --profile release --bench graph
//! cargo bench --profile release --bench graph -- --nodes 200000 --edges 1000000
//! ```

mod measure;

use measure::{Outcome, Times, number_argument, print};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vic::graph::GraphService;
use vic::model::{GraphFormat, GraphImport, GraphQuestion, GraphRequest};

/// Number of queries of each kind.
const QUERIES: usize = 500;

/// Number of changes of one imported source that are measured.
const CHANGES: usize = 30;

/// Pseudo-random generator (xorshift) with a fixed seed, so that the graph is the same in every run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

fn main() -> Outcome {
    let (nodes, edges) = (number_argument("nodes", 10_000)?, number_argument("edges", 50_000)?);
    let runtime = tokio::runtime::Runtime::new()?;
    let dir = tempfile::tempdir()?;
    let service = GraphService::open(&dir.path().join("graph.sqlite"), None, CancellationToken::new())?;
    let text = graph_json(nodes, edges);
    let (before, begun) = (resident_bytes(), std::time::Instant::now());
    let import = GraphImport { name: "bench".into(), format: GraphFormat::Json, text };
    runtime.block_on(service.request(GraphRequest::Import(import)))?;
    print(&json!({"imported_ms": begun.elapsed().as_millis(), "nodes": nodes, "edges": edges}));
    let snapshot = runtime.block_on(service.snapshot())?;
    print(&json!({
        "snapshot_bytes_an_edge": snapshot.bytes() / edges.max(1),
        "process_bytes_an_edge": resident_bytes().saturating_sub(before) / edges.max(1) as u64,
    }));
    let mut dice = Rng(7);
    measure_source_changes(&runtime, &service, nodes, &mut dice)?;
    for (name, mut request) in tool_requests(nodes).into_iter().chain(axql_requests(nodes)) {
        let mut times = Times::default();
        for _ in 0..QUERIES {
            let request = request(&mut dice);
            times.time(|| runtime.block_on(service.request(request)))?;
        }
        times.report(name, 1.0, "questions", json!({}));
    }
    Ok(())
}

/// A kind of request: its name, and a function that makes one with random arguments.
type RequestKind = (&'static str, Box<dyn FnMut(&mut Rng) -> GraphRequest>);

fn tool_requests(nodes: usize) -> Vec<RequestKind> {
    vec![
        (
            "graph_query edges",
            Box::new(move |dice| {
                tool_request(json!({"queryType": "edges", "filters": {
        "edgeType": format!("r{}", dice.below(20)), "sourceType": format!("T{}", dice.below(10)), "semanticId": node_key(dice.below(nodes))}}))
            }),
        ),
        (
            "graph_query check_edge",
            Box::new(move |dice| {
                tool_request(json!({"queryType": "check_edge", "filters": {
        "semanticId": node_key(dice.below(nodes)), "targetId": node_key(dice.below(nodes))}}))
            }),
        ),
        (
            "graph_query check_edge, near names of unknown nodes",
            Box::new(move |dice| {
                tool_request(json!({"queryType": "check_edge", "filters": {
        "semanticId": format!("ndoe-{}.FL.001", dice.below(nodes)), "targetId": format!("ndoe-{}.FL.001", dice.below(nodes))}}))
            }),
        ),
        (
            "graph_query all edges of a type",
            Box::new(move |dice| {
                tool_request(json!({"queryType": "edges", "filters": {
        "edgeType": format!("r{}", dice.below(20)), "sourceType": "T3"}}))
            }),
        ),
        (
            "graph_query nodes",
            Box::new(move |dice| {
                tool_request(json!({"queryType": "nodes", "filters": {
        "nodeType": format!("T{}", dice.below(10))}}))
            }),
        ),
    ]
}

fn axql_requests(nodes: usize) -> Vec<RequestKind> {
    vec![
        (
            "axql type, attribute, two hops",
            Box::new(move |dice| {
                axql_request(format!(
                    "select ?x ?y where ?x is T{}, ?x.city = \"city {}\", ?x -r{}/r{}-> ?y limit 50",
                    dice.below(4),
                    dice.below(100),
                    dice.below(5),
                    dice.below(5)
                ))
            }),
        ),
        (
            "axql name, any two hops",
            Box::new(move |dice| {
                axql_request(format!(
                    "select ?y where name(\"node {}\") -(r0|r1|r2)/(r0|r1|r2)-> ?y limit 50",
                    dice.below(nodes)
                ))
            }),
        ),
        (
            "axql repetition",
            Box::new(move |dice| {
                axql_request(format!("select ?y where {} -(r0|r1)+-> ?y max_hops 4 limit 50", dice.below(nodes)))
            }),
        ),
    ]
}

/// Measures changes of the graph: imports a small source repeatedly, each time with other edges.
fn measure_source_changes(
    runtime: &tokio::runtime::Runtime,
    service: &GraphService,
    nodes: usize,
    dice: &mut Rng,
) -> Outcome {
    let mut times = Times::default();
    for number in 0..CHANGES {
        let text = source_lines(number, nodes, dice);
        let import = GraphImport { name: "note".into(), format: GraphFormat::Text, text };
        times.time(|| runtime.block_on(service.request(GraphRequest::Import(import))))?;
    }
    times.report("a change of one source", 1.0, "changes", json!({}));
    Ok(())
}

fn tool_request(args: Value) -> GraphRequest {
    GraphRequest::Tool { name: "graph_query".into(), args }
}

fn axql_request(axql: String) -> GraphRequest {
    GraphRequest::Query(GraphQuestion { axql: Some(axql), ..GraphQuestion::default() })
}

fn node_key(node: usize) -> String {
    format!("node-{node}.FL.001")
}

/// Returns the text of a source with 20 edges, from nodes of the graph to nodes that the source adds.
fn source_lines(number: usize, nodes: usize, dice: &mut Rng) -> String {
    (0..20).map(|it| format!("{} -r{it}-> note-{number}-{it}\n", node_key(dice.below(nodes)))).collect()
}

/// Returns a random number below `most`; low numbers are more frequent.
fn skewed_below(dice: &mut Rng, most: usize) -> usize {
    let one = dice.below(most);
    dice.below(one + 1)
}

fn graph_json(nodes: usize, edges: usize) -> String {
    let mut dice = Rng(42);
    let node = |number: usize, dice: &mut Rng| {
        let (kind, city) = (skewed_below(dice, 10), skewed_below(dice, 100));
        json!({"id": number, "key": node_key(number), "type": format!("T{kind}"), "name": format!("node {number}"),
               "attributes": {"city": format!("city {city}")}})
    };
    let nodes_made: Vec<Value> = (0..nodes).map(|it| node(it, &mut dice)).collect();
    let edge = |dice: &mut Rng| {
        let (source, target, relation) = (dice.below(nodes), skewed_below(dice, nodes), skewed_below(dice, 20));
        let start = dice.below(10_000);
        json!({"source": source, "target": target, "type": format!("r{relation}"), "confidence": 0.9,
               "evidence": {"chunk_id": format!("{:032x}", dice.below(nodes)), "start": start, "end": start + 40}})
    };
    let edges_made: Vec<Value> = (0..edges).map(|_| edge(&mut dice)).collect();
    json!({"nodes": nodes_made, "edges": edges_made}).to_string()
}

/// Returns the resident memory of the process in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split_whitespace().nth(1).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) * 4_096
}
