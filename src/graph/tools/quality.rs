//! Reports problems of the graph: duplicate edges, entities without an edge, low confidence, violated constraints of the
//! schema.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};

use crate::graph::query::answer::entity;
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{EdgeIx, Ix};
use crate::model::GraphRelation;

/// Edges with less confidence are reported.
const DOUBTFUL: f32 = 0.5;
/// Examples of each issue.
const EXAMPLES: usize = 10;

/// Returns the problems by kind, each with its count and some examples.
pub(crate) fn report(view: &View) -> Value {
    let snapshot = &view.snapshot;
    let mut issues = Issues::default();
    for node in view.nodes() {
        let mut last: Option<(u16, Ix)> = None;
        let mut has_edge = view.reaching(node).next().is_some();
        for (edge, target) in view.leaving(node) {
            has_edge = true;
            let this = (snapshot.relation_of[edge as usize], target);
            // Edges are sorted by relation and target.
            if last.replace(this) == Some(this) {
                issues.add("duplicate_edge", || shown(view, edge));
            }
            if snapshot.confidence(edge) < DOUBTFUL {
                issues.add("low_confidence", || shown(view, edge));
            }
        }
        if !has_edge {
            issues.add("no_edge", || entity(view, node));
        }
    }
    for schema in snapshot.schema.all() {
        for relation in &schema.relations {
            let name = format!("{}.{}", schema.name, relation.name);
            constraints(view, &name, relation, &mut issues);
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

fn shown(view: &View, edge: EdgeIx) -> Value {
    let snapshot = &view.snapshot;
    let (source, target) = (snapshot.source(edge), snapshot.target(edge));
    json!({"source": entity(view, source), "relation": snapshot.relation_name(edge), "target": entity(view, target)})
}

/// Checks the constraints of a relation against its edges and facts.
fn constraints(view: &View, name: &str, relation: &GraphRelation, issues: &mut Issues) {
    let snapshot = &view.snapshot;
    let numbers = snapshot.relations_of(name);
    let edges: Vec<EdgeIx> = numbers
        .iter()
        .flat_map(|it| snapshot.of_relation(*it))
        .copied()
        .filter(|it| view.sees_edge(*it) && view.sees(snapshot.source(*it)) && view.sees(snapshot.target(*it)))
        .collect();
    for constraint in &relation.constraints {
        match constraint.trim() {
            "symmetric" => {
                let pairs: HashSet<(Ix, Ix)> =
                    edges.iter().map(|it| (snapshot.source(*it), snapshot.target(*it))).collect();
                for edge in edges.iter().filter(|it| !pairs.contains(&(snapshot.target(**it), snapshot.source(**it)))) {
                    issues.add("not_symmetric", || shown(view, *edge));
                }
            }
            "functional" => {
                let mut targets: HashMap<Ix, Ix> = HashMap::new();
                for edge in &edges {
                    let (source, target) = (snapshot.source(*edge), snapshot.target(*edge));
                    if *targets.entry(source).or_insert(target) != target {
                        issues.add("not_functional", || shown(view, *edge));
                    }
                }
            }
            other => {
                if let Some(fields) = other.strip_prefix("key(").and_then(|it| it.strip_suffix(')')) {
                    let fields: Vec<&str> = fields.split(',').map(str::trim).collect();
                    key(view, name, &fields, issues);
                }
            }
        }
    }
}

/// Reports facts of a relation with equal values in all fields of a key.
fn key(view: &View, name: &str, fields: &[&str], issues: &mut Issues) {
    let snapshot = &view.snapshot;
    let mut seen: HashSet<Vec<Vec<Ix>>> = HashSet::new();
    let facts = snapshot.labels_of(name).into_iter().flat_map(|it| snapshot.of_label(it));
    for fact in facts.copied().filter(|it| snapshot.is_fact(*it) && view.sees(*it)) {
        let held = |field: &&str| -> Vec<Ix> {
            let numbers = snapshot.relations_of(field);
            numbers.into_iter().flat_map(|it| view.leaving_of(fact, it)).map(|it| it.1).collect()
        };
        if !seen.insert(fields.iter().map(held).collect()) {
            issues.add("key_not_unique", || entity(view, fact));
        }
    }
}
