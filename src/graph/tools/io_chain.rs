//! The io chain of a function chain: actor, flow, function, flow, ... along `io` edges, with its issues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::graph::scc;
use crate::graph::semantic_id::is_type;
use crate::graph::snapshot::Ix;
use crate::graph::snapshot::view::View;

/// The relation between flows and the entities that read and write them.
pub(crate) const IO: &str = "io";
/// The relation between a chain and its members.
const COMPOSE: &str = "compose";
/// Most steps of an answer.
const MOST_STEPS: usize = 500;

/// The `io` edges of a graph or a part of it, with multiplicity.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    /// Targets by source, with their number of edges.
    pub(crate) out: BTreeMap<Ix, BTreeMap<Ix, usize>>,
    back: BTreeMap<Ix, BTreeSet<Ix>>,
}

impl Wires {
    fn add(&mut self, source: Ix, target: Ix) {
        *self.out.entry(source).or_default().entry(target).or_default() += 1;
        self.back.entry(target).or_default().insert(source);
    }

    fn targets(&self, node: Ix) -> impl Iterator<Item = Ix> {
        self.out.get(&node).into_iter().flat_map(|it| it.keys().copied())
    }

    fn sources(&self, node: Ix) -> impl Iterator<Item = Ix> {
        self.back.get(&node).into_iter().flat_map(|it| it.iter().copied())
    }

    fn has(&self, source: Ix, target: Ix) -> bool {
        self.out.get(&source).is_some_and(|it| it.contains_key(&target))
    }

    fn nodes(&self) -> BTreeSet<Ix> {
        self.out.keys().chain(self.back.keys()).copied().collect()
    }
}

/// Reports the steps and issues of a chain.
pub(crate) fn report(view: &View, chain: Ix) -> Value {
    let wires = wires_of(view, chain);
    let steps = steps(view, &wires);
    let mut report =
        json!({"chain": steps.iter().take(MOST_STEPS).collect::<Vec<_>>(), "issues": issues(view, &wires)});
    if steps.len() > MOST_STEPS {
        report["truncated"] = json!(true);
    }
    report
}

/// Collects the io edges of a chain's members. If a chain lists only functions, their flows and the other ends of those
/// flows are included.
fn wires_of(view: &View, chain: Ix) -> Wires {
    let compose = view.snapshot.relations_of(COMPOSE);
    let mut members = BTreeSet::from([chain]);
    let mut open = vec![chain];
    while let Some(node) = open.pop() {
        for relation in &compose {
            open.extend(view.leaving_of(node, *relation).map(|it| it.1).filter(|it| members.insert(*it)));
        }
    }
    members.remove(&chain);
    let io = view.snapshot.relations_of(IO);
    let beside = |node: Ix| -> Vec<Ix> {
        let out = io.iter().flat_map(move |it| view.leaving_of(node, *it));
        out.chain(io.iter().flat_map(move |it| view.reaching_of(node, *it))).map(|it| it.1).collect()
    };
    let flows: BTreeSet<Ix> = members.iter().flat_map(|it| beside(*it)).filter(|it| is_flow(view, *it)).collect();
    members.extend(flows);
    let mut wires = Wires::default();
    for flow in members.iter().filter(|it| is_flow(view, **it)) {
        for relation in &io {
            view.leaving_of(*flow, *relation).for_each(|(_, target)| wires.add(*flow, target));
            view.reaching_of(*flow, *relation).for_each(|(_, source)| wires.add(source, *flow));
        }
    }
    // Direct edges from function to function belong to it as well.
    for node in members.iter().filter(|it| !is_flow(view, **it)) {
        for relation in &io {
            let direct = view.leaving_of(*node, *relation).filter(|(_, target)| !is_flow(view, *target));
            direct.for_each(|(_, target)| wires.add(*node, target));
        }
    }
    wires
}

fn is_flow(view: &View, node: Ix) -> bool {
    is_type(view.snapshot.type_name(node), "FLOW")
}

fn is_actor(view: &View, node: Ix) -> bool {
    is_type(view.snapshot.type_name(node), "ACTOR")
}

/// Lists every step from one entity through a flow to another: actors first, then in the order of reachability.
fn steps(view: &View, wires: &Wires) -> Vec<Value> {
    let reached = order(view, wires);
    let mut steps = Vec::new();
    for source in reached {
        for flow in wires.targets(source) {
            if !is_flow(view, flow) {
                steps.push(step(view, steps.len() + 1, source, None, Some(flow)));
                continue;
            }
            let mut targets = wires.targets(flow).filter(|it| *it != source).peekable();
            if targets.peek().is_none() {
                steps.push(step(view, steps.len() + 1, source, Some(flow), None));
            }
            for target in targets {
                steps.push(step(view, steps.len() + 1, source, Some(flow), Some(target)));
            }
        }
    }
    steps
}

/// Orders the sources of flows: breadth first from the actors, then from sources without input, then the rest.
fn order(view: &View, wires: &Wires) -> Vec<Ix> {
    let nodes: Vec<Ix> = wires.nodes().into_iter().filter(|it| !is_flow(view, *it)).collect();
    let rank = |node: &Ix| {
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

/// Makes one step. `func` is the target; the origin is `actor`, or `source` for a function, since keys of a JSON object are
/// unique.
fn step(view: &View, number: usize, source: Ix, flow: Option<Ix>, target: Option<Ix>) -> Value {
    let key = |it: Ix| json!(view.snapshot.key(it));
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

fn issues(view: &View, wires: &Wires) -> Vec<Value> {
    let key = |it: Ix| view.snapshot.key(it).to_string();
    let issue = |kind: &str, flow: Ix, nodes: Vec<Ix>| json!({"type": kind, "flow": key(flow), "nodes": nodes.into_iter().map(key).collect::<Vec<_>>()});
    let mut issues = Vec::new();
    let flows: Vec<Ix> = wires.nodes().into_iter().filter(|it| is_flow(view, *it)).collect();
    for flow in &flows {
        let both: Vec<Ix> = wires.targets(*flow).filter(|it| wires.has(*it, *flow)).collect();
        if !both.is_empty() {
            issues.push(issue("bidirectional", *flow, both));
        }
    }
    for circle in circles(wires) {
        let flow = circle.iter().copied().find(|it| is_flow(view, *it)).unwrap_or(circle[0]);
        issues.push(issue("circular", flow, circle.into_iter().filter(|it| *it != flow).collect()));
    }
    for (source, targets) in &wires.out {
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

/// Returns the strongly connected components with more than the two ends of one flow, each sorted. Bidirectional flows
/// alone do not make a cycle.
fn circles(wires: &Wires) -> Vec<Vec<Ix>> {
    let one_way = |node: Ix| wires.targets(node).filter(|it| !wires.has(*it, node)).collect::<Vec<Ix>>();
    scc::circles(wires.nodes(), one_way)
}
