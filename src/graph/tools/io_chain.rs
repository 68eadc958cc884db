//! The io chain of a function chain: its steps along `io` edges (actor, flow, function, flow, ...), and their problems.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::graph::scc;
use crate::graph::semantic_id::type_matches;
use crate::graph::snapshot::NodeIx;
use crate::graph::snapshot::view::View;

/// The relation from an entity to a flow that it writes, and from a flow to an entity that reads it.
pub(crate) const IO: &str = "io";
/// The relation from a function chain to its members.
const COMPOSE: &str = "compose";
/// Maximum number of steps in a report; a report with more is truncated.
const MAX_STEPS: usize = 500;

/// The `io` edges of a graph or of a part of it; counts how often each edge occurs.
#[derive(Debug, Default)]
pub(crate) struct IoGraph {
    /// For each source, its targets with the number of edges to each.
    pub(crate) targets_by_source: BTreeMap<NodeIx, BTreeMap<NodeIx, usize>>,
    sources_by_target: BTreeMap<NodeIx, BTreeSet<NodeIx>>,
}

impl IoGraph {
    fn add(&mut self, source: NodeIx, target: NodeIx) {
        *self.targets_by_source.entry(source).or_default().entry(target).or_default() += 1;
        self.sources_by_target.entry(target).or_default().insert(source);
    }

    fn targets(&self, node: NodeIx) -> impl Iterator<Item = NodeIx> {
        self.targets_by_source.get(&node).into_iter().flat_map(|it| it.keys().copied())
    }

    fn sources(&self, node: NodeIx) -> impl Iterator<Item = NodeIx> {
        self.sources_by_target.get(&node).into_iter().flat_map(|it| it.iter().copied())
    }

    fn has_edge(&self, source: NodeIx, target: NodeIx) -> bool {
        self.targets_by_source.get(&source).is_some_and(|it| it.contains_key(&target))
    }

    fn nodes(&self) -> BTreeSet<NodeIx> {
        self.targets_by_source.keys().chain(self.sources_by_target.keys()).copied().collect()
    }
}

/// Reports the steps of a function chain and their problems.
pub(crate) fn report_chain(view: &View, chain: NodeIx) -> Value {
    let wires = io_graph_of(view, chain);
    let steps = list_steps(view, &wires);
    let mut report =
        json!({"chain": steps.iter().take(MAX_STEPS).collect::<Vec<_>>(), "issues": find_issues(view, &wires)});
    if steps.len() > MAX_STEPS {
        report["truncated"] = json!(true);
    }
    report
}

/// Collects the `io` edges of the members of a function chain. Includes each flow that such an edge connects to a member,
/// and the entity at the other end of the flow, because a chain may list only functions.
fn io_graph_of(view: &View, chain: NodeIx) -> IoGraph {
    let compose = view.snapshot.relation_numbers(COMPOSE);
    let mut members = BTreeSet::from([chain]);
    let mut open = vec![chain];
    while let Some(node) = open.pop() {
        for relation in &compose {
            open.extend(view.outgoing_by_relation(node, *relation).map(|it| it.1).filter(|it| members.insert(*it)));
        }
    }
    members.remove(&chain);
    let io = view.snapshot.relation_numbers(IO);
    let beside = |node: NodeIx| -> Vec<NodeIx> {
        let out = io.iter().flat_map(move |it| view.outgoing_by_relation(node, *it));
        out.chain(io.iter().flat_map(move |it| view.incoming_by_relation(node, *it))).map(|it| it.1).collect()
    };
    let flows: BTreeSet<NodeIx> = members.iter().flat_map(|it| beside(*it)).filter(|it| is_flow(view, *it)).collect();
    members.extend(flows);
    let mut wires = IoGraph::default();
    for flow in members.iter().filter(|it| is_flow(view, **it)) {
        for relation in &io {
            view.outgoing_by_relation(*flow, *relation).for_each(|(_, target)| wires.add(*flow, target));
            view.incoming_by_relation(*flow, *relation).for_each(|(_, source)| wires.add(source, *flow));
        }
    }
    // Adds the `io` edges that lead directly from one function to another, without a flow between them.
    for node in members.iter().filter(|it| !is_flow(view, **it)) {
        for relation in &io {
            let direct = view.outgoing_by_relation(*node, *relation).filter(|(_, target)| !is_flow(view, *target));
            direct.for_each(|(_, target)| wires.add(*node, target));
        }
    }
    wires
}

fn is_flow(view: &View, node: NodeIx) -> bool {
    type_matches(view.snapshot.type_name(node), "FLOW")
}

fn is_actor(view: &View, node: NodeIx) -> bool {
    type_matches(view.snapshot.type_name(node), "ACTOR")
}

/// Lists the steps, each from one entity through a flow to another one, in the order of `order_sources`: actors first.
fn list_steps(view: &View, wires: &IoGraph) -> Vec<Value> {
    let reached = order_sources(view, wires);
    let mut steps = Vec::new();
    for source in reached {
        for flow in wires.targets(source) {
            if !is_flow(view, flow) {
                steps.push(step_json(view, steps.len() + 1, source, None, Some(flow)));
                continue;
            }
            let mut targets = wires.targets(flow).filter(|it| *it != source).peekable();
            if targets.peek().is_none() {
                steps.push(step_json(view, steps.len() + 1, source, Some(flow), None));
            }
            for target in targets {
                steps.push(step_json(view, steps.len() + 1, source, Some(flow), Some(target)));
            }
        }
    }
    steps
}

/// Orders the entities by a breadth-first search from the actors, then from entities without input, then from the others.
fn order_sources(view: &View, wires: &IoGraph) -> Vec<NodeIx> {
    let nodes: Vec<NodeIx> = wires.nodes().into_iter().filter(|it| !is_flow(view, *it)).collect();
    let rank = |node: &NodeIx| {
        let is_fed = wires.sources(*node).next().is_some();
        (!is_actor(view, *node), is_fed, *node)
    };
    let mut begins = nodes;
    begins.sort_by_key(rank);
    let (mut seen, mut reached) = (BTreeSet::new(), Vec::new());
    for begin in begins {
        let mut queue = VecDeque::from([begin]);
        while let Some(node) = queue.pop_front() {
            if !seen.insert(node) {
                continue;
            }
            reached.push(node);
            for next in wires.targets(node) {
                match is_flow(view, next) {
                    true => queue.extend(wires.targets(next)),
                    false => queue.push_back(next),
                }
            }
        }
    }
    reached
}

/// Makes the JSON of one step. The entity where the step begins has the key `actor` if it is an actor, else `source`. The
/// entity where the step ends has the key `actor` if it is an actor and this key is still unused, else `func`.
fn step_json(view: &View, number: usize, source: NodeIx, flow: Option<NodeIx>, target: Option<NodeIx>) -> Value {
    let key = |it: NodeIx| json!(view.snapshot.key(it));
    let mut step = Map::new();
    step.insert("step".into(), json!(number));
    let begins = if is_actor(view, source) { "actor" } else { "source" };
    step.insert(begins.into(), key(source));
    if let Some(flow) = flow {
        step.insert("flow".into(), key(flow));
    }
    if let Some(target) = target {
        let ends = if is_actor(view, target) && begins != "actor" { "actor" } else { "func" };
        step.insert(ends.into(), key(target));
    }
    Value::Object(step)
}

fn find_issues(view: &View, wires: &IoGraph) -> Vec<Value> {
    let key = |it: NodeIx| view.snapshot.key(it).to_string();
    let issue = |kind: &str, flow: NodeIx, nodes: Vec<NodeIx>| json!({"type": kind, "flow": key(flow), "nodes": nodes.into_iter().map(key).collect::<Vec<_>>()});
    let mut issues = Vec::new();
    let flows: Vec<NodeIx> = wires.nodes().into_iter().filter(|it| is_flow(view, *it)).collect();
    for flow in &flows {
        let both: Vec<NodeIx> = wires.targets(*flow).filter(|it| wires.has_edge(*it, *flow)).collect();
        if !both.is_empty() {
            issues.push(issue("bidirectional", *flow, both));
        }
    }
    for circle in cycles(wires) {
        let flow = circle.iter().copied().find(|it| is_flow(view, *it)).unwrap_or(circle[0]);
        issues.push(issue("circular", flow, circle.into_iter().filter(|it| *it != flow).collect()));
    }
    for (source, targets) in &wires.targets_by_source {
        for (target, times) in targets {
            if *times > 1 {
                let (flow, other) = if is_flow(view, *source) { (*source, *target) } else { (*target, *source) };
                issues.push(issue("duplicate", flow, vec![other]));
            }
        }
    }
    for flow in flows {
        let (read, written) = (wires.targets(flow).next().is_some(), wires.sources(flow).next().is_some());
        if !(read && written) {
            issues.push(issue("dangling", flow, wires.targets(flow).chain(wires.sources(flow)).collect()));
        }
    }
    issues
}

/// Returns the cycles: strongly connected components of more than one node, each sorted. Leaves out edges in both directions
/// between two nodes, because a bidirectional flow alone is not a cycle.
fn cycles(wires: &IoGraph) -> Vec<Vec<NodeIx>> {
    let one_way = |node: NodeIx| wires.targets(node).filter(|it| !wires.has_edge(*it, node)).collect::<Vec<NodeIx>>();
    scc::components(wires.nodes(), one_way)
}
