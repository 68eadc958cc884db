//! The tool `quality_report`: reports problems of the graph, such as duplicate edges, entities without an edge, edges with
//! low confidence, and violated constraints of the schema.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};

use crate::graph::query::answer::entity_cell;
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{EdgeIx, NodeIx};
use crate::model::GraphRelation;

/// Edges with a confidence below this are reported.
const LOW_CONFIDENCE: f32 = 0.5;
/// Maximum number of examples of each kind of problem.
const EXAMPLES: usize = 10;

/// Returns the problems of the graph by kind, each with its count and some examples.
pub(crate) fn quality_report(view: &View) -> Value {
    let snapshot = &view.snapshot;
    let mut issues = Issues::default();
    for node in view.nodes() {
        let mut last: Option<(u16, NodeIx)> = None;
        let mut has_edge = view.incoming(node).next().is_some();
        for (edge, target) in view.outgoing(node) {
            has_edge = true;
            let this = (snapshot.relation_of[edge as usize], target);
            // Compares with the previous edge only, because edges are sorted by relation and target.
            if last.replace(this) == Some(this) {
                issues.add("duplicate_edge", || edge_json(view, edge));
            }
            if snapshot.confidence(edge) < LOW_CONFIDENCE {
                issues.add("low_confidence", || edge_json(view, edge));
            }
        }
        if !has_edge {
            issues.add("no_edge", || entity_cell(view, node));
        }
    }
    for schema in view.schema().all() {
        for relation in &schema.relations {
            let name = format!("{}.{}", schema.name, relation.name);
            check_constraints(view, &name, relation, &mut issues);
        }
    }
    let listed: Vec<Value> = issues
        .by_kind
        .into_iter()
        .map(|(kind, (count, examples))| json!({"type": kind, "count": count, "examples": examples}))
        .collect();
    json!({"issues": listed})
}

#[derive(Default)]
struct Issues {
    by_kind: BTreeMap<&'static str, (usize, Vec<Value>)>,
}

impl Issues {
    fn add(&mut self, kind: &'static str, example: impl FnOnce() -> Value) {
        let (count, examples) = self.by_kind.entry(kind).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(example());
        }
    }
}

fn edge_json(view: &View, edge: EdgeIx) -> Value {
    let snapshot = &view.snapshot;
    let (source, target) = (snapshot.source(edge), snapshot.target(edge));
    json!({"source": entity_cell(view, source), "relation": snapshot.relation_name(edge), "target": entity_cell(view, target)})
}

/// Checks the edges and facts of a relation against the constraints that its schema declares.
fn check_constraints(view: &View, name: &str, relation: &GraphRelation, issues: &mut Issues) {
    let snapshot = &view.snapshot;
    let numbers = snapshot.relation_numbers(name);
    let edges: Vec<EdgeIx> = numbers
        .iter()
        .flat_map(|it| snapshot.edges_of_relation(*it))
        .copied()
        .filter(|it| {
            view.is_edge_visible(*it) && view.is_visible(snapshot.source(*it)) && view.is_visible(snapshot.target(*it))
        })
        .collect();
    for constraint in &relation.constraints {
        match constraint.trim() {
            "symmetric" => {
                let pairs: HashSet<(NodeIx, NodeIx)> =
                    edges.iter().map(|it| (snapshot.source(*it), snapshot.target(*it))).collect();
                for edge in edges.iter().filter(|it| !pairs.contains(&(snapshot.target(**it), snapshot.source(**it)))) {
                    issues.add("not_symmetric", || edge_json(view, *edge));
                }
            }
            "functional" => {
                let mut targets: HashMap<NodeIx, NodeIx> = HashMap::new();
                for edge in &edges {
                    let (source, target) = (snapshot.source(*edge), snapshot.target(*edge));
                    if *targets.entry(source).or_insert(target) != target {
                        issues.add("not_functional", || edge_json(view, *edge));
                    }
                }
            }
            other => {
                if let Some(fields) = other.strip_prefix("key(").and_then(|it| it.strip_suffix(')')) {
                    let fields: Vec<&str> = fields.split(',').map(str::trim).collect();
                    check_key(view, name, &fields, issues);
                }
            }
        }
    }
}

/// Reports facts of a relation that have the same values as another fact in all fields of a key.
fn check_key(view: &View, name: &str, fields: &[&str], issues: &mut Issues) {
    let snapshot = &view.snapshot;
    let mut seen: HashSet<Vec<Vec<NodeIx>>> = HashSet::new();
    let facts = snapshot.type_numbers(name).into_iter().flat_map(|it| snapshot.nodes_of_type(it));
    for fact in facts.copied().filter(|it| snapshot.is_fact(*it) && view.is_visible(*it)) {
        let held = |field: &&str| -> Vec<NodeIx> {
            let numbers = snapshot.relation_numbers(field);
            numbers.into_iter().flat_map(|it| view.outgoing_by_relation(fact, it)).map(|it| it.1).collect()
        };
        if !seen.insert(fields.iter().map(held).collect()) {
            issues.add("key_not_unique", || entity_cell(view, fact));
        }
    }
}
