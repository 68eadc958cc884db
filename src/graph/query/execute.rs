//! Executes query plans by nested loops over their steps. Caches results that do not depend on the entities bound so far.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::Result;
use crate::graph::query::automaton::Automaton;
use crate::graph::query::axql::{DEFAULT_LIMIT, Query};
use crate::graph::query::plan::{self, Plan, Slot, Step, TextResults};
use crate::graph::snapshot::NodeIx;
use crate::graph::snapshot::view::View;

/// Maximum number of edges and entities that a query visits, which takes about a second. After that, the search is aborted.
const VISIT_BUDGET: u64 = 10_000_000;
/// Maximum number of entities in the caches of one query; further results are not cached.
const MAX_CACHED: usize = 4_000_000;
/// Number of adjacent array items that cost as much as one random access, for estimates of cost.
const ADJACENT_FACTOR: usize = 8;

/// The result of executing a query.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The rows as entity indices, sorted.
    pub(crate) rows: Vec<Vec<NodeIx>>,
    /// Whether there are more rows than the limit.
    pub(crate) truncated: bool,
    /// Whether the search was aborted because its budget was used up.
    pub(crate) exhausted: bool,
    /// For each disjunct, the descriptions of the steps of its plan.
    pub(crate) plans: Vec<Vec<String>>,
    /// Names and ids in the query that denote no entity, without repetitions.
    pub(crate) unknown_nodes: Vec<String>,
}

/// Runs a query. The caller must have applied the contexts and the confidence of the query to the view.
///
/// # Errors
/// The query has a type or relation that is unknown to the schema.
pub(crate) fn execute(view: &View, query: &Query, texts: &TextResults) -> Result<Answer> {
    execute_within_budget(view, query, texts, VISIT_BUDGET)
}

fn execute_within_budget(view: &View, query: &Query, texts: &TextResults, mut budget: u64) -> Result<Answer> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT) as usize;
    let mut answer = Answer::default();
    let mut rows = HashSet::new();
    for atoms in &query.disjuncts {
        let plan = plan::plan_disjunct(view, query, atoms, texts, &mut budget)?;
        let binding = vec![None; plan.slots];
        let (found, known) = (HashMap::new(), HashMap::new());
        let mut run = Execution {
            view,
            plan: &plan,
            binding,
            rows,
            limit,
            budget,
            selection_bound: false,
            step_matches: found,
            path_ends: known,
            cached: 0,
        };
        let flow = run.run_step(0);
        (rows, budget) = (run.rows, run.budget);
        answer.exhausted |= budget == 0;
        answer.plans.push(plan.descriptions);
        for name in plan.unknown_nodes {
            if !answer.unknown_nodes.contains(&name) {
                answer.unknown_nodes.push(name);
            }
        }
        if flow == Flow::Stop {
            answer.truncated = true;
            break;
        }
    }
    answer.rows = rows.into_iter().collect();
    answer.rows.sort_unstable();
    answer.rows.truncate(limit);
    Ok(answer)
}

/// How the loop over the entities of a step continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// Continue with the next entity.
    Continue,
    /// All remaining steps match, so the current binding gives a row.
    Matched,
    /// Stop all loops: the limit is reached, or the budget is used up.
    Stop,
}

struct Execution<'a> {
    view: &'a View,
    plan: &'a Plan,
    binding: Vec<Option<NodeIx>>,
    rows: HashSet<Vec<NodeIx>>,
    limit: usize,
    budget: u64,
    /// Whether all selected slots are bound, so that the first match of the remaining steps suffices.
    selection_bound: bool,
    /// Cache: by step, the entities that match it in any binding; for a path, the entities where it may start.
    step_matches: HashMap<usize, Arc<Vec<NodeIx>>>,
    /// Cache: the ends of paths, by step, direction (`true` is forward) and start.
    path_ends: HashMap<(usize, bool, NodeIx), Arc<Vec<NodeIx>>>,
    cached: usize,
}

impl Execution<'_> {
    fn run_step(&mut self, number: usize) -> Flow {
        if number == self.plan.selection_bound_at && !self.selection_bound {
            self.selection_bound = true;
            let flow = match self.is_new_row() {
                true => self.run_step(number),
                false if self.spend(1) => Flow::Continue,
                false => Flow::Stop,
            };
            self.selection_bound = false;
            return if flow == Flow::Matched { self.emit_row() } else { flow };
        }
        if !self.spend(1) {
            return Flow::Stop;
        }
        let plan = self.plan;
        let Some(step) = plan.steps.get(number) else { return Flow::Matched };
        match step {
            Step::Path(left, right, _) => self.run_path(number, *left, *right),
            one => self.run_single(number, one),
        }
    }

    fn spend(&mut self, cost: u64) -> bool {
        self.budget = self.budget.saturating_sub(cost);
        self.budget > 0
    }

    fn row(&self) -> Vec<NodeIx> {
        self.plan.select.iter().filter_map(|it| self.binding[*it]).collect()
    }

    fn is_new_row(&self) -> bool {
        !self.rows.contains(&self.row())
    }

    fn emit_row(&mut self) -> Flow {
        let row = self.row();
        self.rows.insert(row);
        if self.rows.len() > self.limit { Flow::Stop } else { Flow::Continue }
    }

    /// Binds a slot to each entity in turn, and runs the next step for each.
    fn bind_each(&mut self, number: usize, slot: Slot, nodes: &[NodeIx]) -> Flow {
        for node in nodes {
            self.binding[slot] = Some(*node);
            let flow = self.run_step(number + 1);
            if flow != Flow::Continue {
                self.binding[slot] = None;
                return flow;
            }
        }
        self.binding[slot] = None;
        Flow::Continue
    }

    /// Runs a step with one slot: checks the entity in the slot, or binds the slot to each matching entity if it is empty.
    fn run_single(&mut self, number: usize, step: &Step) -> Flow {
        let slot = step.bound_slots()[0];
        if let Some(node) = self.binding[slot] {
            return if self.matches_step(step, node) { self.run_step(number + 1) } else { Flow::Continue };
        }
        match step {
            Step::OneOf(_, among) => self.bind_each(number, slot, among),
            _ => match self.matches_of(number) {
                Some(nodes) => self.bind_each(number, slot, &nodes),
                None => Flow::Stop,
            },
        }
    }

    /// Returns the entities that match a step in any binding, from the cache if possible; `None` if the budget is used up.
    fn matches_of(&mut self, number: usize) -> Option<Arc<Vec<NodeIx>>> {
        if let Some(found) = self.step_matches.get(&number) {
            return Some(found.clone());
        }
        let plan = self.plan;
        let step = &plan.steps[number];
        if !self.spend(self.scan_cost(step)) {
            return None;
        }
        let found = match step {
            Step::Path(_, _, automaton) => self.path_starts(automaton),
            other => {
                let all = self.all_matches(other);
                self.spend(all.len() as u64).then_some(all)?
            }
        };
        let found = Arc::new(found);
        if self.cached + found.len() <= MAX_CACHED {
            self.cached += found.len() + 1;
            self.step_matches.insert(number, found.clone());
        }
        Some(found)
    }

    /// Returns the cost of finding all matches of a step: 1 for each text to compare, 1 for `ADJACENT_FACTOR` array items.
    fn scan_cost(&self, step: &Step) -> u64 {
        let snapshot = &self.view.snapshot;
        let edges = |relations: &[u16]| relations.iter().map(|it| snapshot.edges_of_relation(*it).len()).sum::<usize>();
        let looks = match step {
            Step::OneOf(..) => 0,
            Step::HasType(_, labels, _) => {
                labels.iter().map(|it| snapshot.nodes_of_type(*it).len()).sum::<usize>() / ADJACENT_FACTOR
            }
            Step::AttributeMatches(_, key, _) => {
                snapshot.with_attribute(key).len() + if key == "name" { snapshot.nodes() } else { 0 }
            }
            Step::HasOutgoing(_, relations) => {
                relations.iter().map(|it| edges(it)).min().unwrap_or(0) / ADJACENT_FACTOR
            }
            Step::Path(_, _, automaton) if automaton.may_be_empty() => snapshot.nodes() / ADJACENT_FACTOR,
            Step::Path(_, _, automaton) => edges(&automaton.first_relations()) / ADJACENT_FACTOR,
        };
        looks as u64
    }

    fn matches_step(&self, step: &Step, node: NodeIx) -> bool {
        let snapshot = &self.view.snapshot;
        match step {
            Step::OneOf(_, among) => among.binary_search(&node).is_ok(),
            Step::HasType(_, labels, fact) => {
                labels.contains(&snapshot.label_of[node as usize]) && (!fact || snapshot.is_fact(node))
            }
            Step::AttributeMatches(_, key, test) => self.view.values(node, key).any(|it| test.matches(it)),
            Step::HasOutgoing(_, relations) => {
                let has = |it: &u16| self.view.outgoing_by_relation(node, *it).next().is_some();
                relations.iter().all(|numbers| numbers.iter().any(has))
            }
            Step::Path(..) => false,
        }
    }

    /// Returns all visible entities that match a step, sorted.
    fn all_matches(&self, step: &Step) -> Vec<NodeIx> {
        let snapshot = &self.view.snapshot;
        let mut nodes: Vec<NodeIx> = match step {
            Step::HasType(_, labels, _) => labels.iter().flat_map(|it| snapshot.nodes_of_type(*it)).copied().collect(),
            Step::AttributeMatches(_, key, test) => return self.view.with_matching_value(key, |it| test.matches(it)),
            Step::HasOutgoing(_, relations) => {
                let edges = |it: &&Vec<u16>| it.iter().map(|it| snapshot.edges_of_relation(*it).len()).sum::<usize>();
                let rarest = relations.iter().min_by_key(edges).map_or(&[][..], Vec::as_slice);
                let edges = rarest.iter().flat_map(|it| snapshot.edges_of_relation(*it));
                edges.map(|it| snapshot.source(*it)).collect()
            }
            Step::OneOf(..) | Step::Path(..) => Vec::new(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|it| self.view.is_visible(*it) && self.matches_step(step, *it));
        nodes
    }

    fn run_path(&mut self, number: usize, left: Slot, right: Slot) -> Flow {
        match (self.binding[left], self.binding[right]) {
            (Some(from), Some(to)) => match self.has_path(number, from, to) {
                Some(true) => self.run_step(number + 1),
                Some(false) => Flow::Continue,
                None => Flow::Stop,
            },
            (Some(from), None) => self.bind_ends(number, from, true, right),
            (None, Some(to)) => self.bind_ends(number, to, false, left),
            (None, None) => {
                // Charges the budget for each start from the cache; otherwise repeated passes over the cache would be free.
                let is_again = self.step_matches.contains_key(&number);
                let Some(begins) = self.matches_of(number) else { return Flow::Stop };
                for from in begins.iter() {
                    if is_again && !self.spend(1) {
                        return Flow::Stop;
                    }
                    // Binds the left slot first: if it is also the right one, only paths back to the start match.
                    self.binding[left] = Some(*from);
                    let flow = self.run_path(number, left, right);
                    self.binding[left] = None;
                    if flow != Flow::Continue {
                        return flow;
                    }
                }
                Flow::Continue
            }
        }
    }

    fn bind_ends(&mut self, number: usize, from: NodeIx, forward: bool, slot: Slot) -> Flow {
        let Some(ends) = self.walk_path(number, from, forward) else { return Flow::Stop };
        self.bind_each(number, slot, &ends)
    }

    fn has_path(&mut self, number: usize, from: NodeIx, to: NodeIx) -> Option<bool> {
        let plan = self.plan;
        let Step::Path(_, _, automaton) = &plan.steps[number] else { return Some(false) };
        let Some(relations) = automaton.single_edge() else {
            return self.walk_path(number, from, true).map(|ends| ends.binary_search(&to).is_ok());
        };
        let snapshot = &self.view.snapshot;
        let joins = |relation: &u16| {
            // Searches from the entity that has fewer edges of this relation.
            if snapshot.outgoing_by_relation(from, *relation).len()
                <= snapshot.incoming_by_relation(to, *relation).len()
            {
                self.view.outgoing_by_relation(from, *relation).any(|it| it.1 == to)
            } else {
                self.view.incoming_by_relation(to, *relation).any(|it| it.1 == from)
            }
        };
        Some(relations.iter().any(joins))
    }

    /// Returns the other ends of the paths that begin (`forward`) or end at an entity; `None` if the budget is used up.
    fn walk_path(&mut self, number: usize, from: NodeIx, forward: bool) -> Option<Arc<Vec<NodeIx>>> {
        if let Some(known) = self.path_ends.get(&(number, forward, from)) {
            return Some(known.clone());
        }
        let plan = self.plan;
        let Step::Path(_, _, automaton) = &plan.steps[number] else { return None };
        let walked = automaton.walk(self.view, from, forward, &mut self.budget);
        if walked.is_none() {
            self.budget = 0;
        }
        let ends = Arc::new(walked?);
        if self.cached + ends.len() <= MAX_CACHED {
            self.cached += ends.len() + 1;
            self.path_ends.insert((number, forward, from), ends.clone());
        }
        Some(ends)
    }

    /// Returns the entities where a path may start, sorted.
    fn path_starts(&self, automaton: &Automaton) -> Vec<NodeIx> {
        if automaton.may_be_empty() {
            return self.view.nodes().collect();
        }
        let snapshot = &self.view.snapshot;
        let edges = automaton.first_relations().into_iter().flat_map(|it| snapshot.edges_of_relation(it));
        let mut begins: Vec<NodeIx> = edges.map(|it| snapshot.source(*it)).collect();
        begins.sort_unstable();
        begins.dedup();
        begins.retain(|it| self.view.is_visible(*it));
        begins
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::query::axql;
    use crate::graph::tests::graph;

    /// Returns a graph of forty files and three thousand other entities; a tenth of these link to the next one.
    fn view() -> View {
        let node =
            |it: usize| json!({"id": it, "type": if it < 40 { "File" } else { "Other" }, "name": format!("n {it}")});
        let edge = |it: usize| json!({"source": it, "target": it + 1, "type": "links_to"});
        let nodes: Vec<Value> = (0..3_040).map(node).collect();
        let edges: Vec<Value> = (40..3_030).step_by(10).map(edge).collect();
        graph(&json!({"nodes": nodes, "edges": edges}))
    }

    /// Returns the number of rows with this budget, and whether the search was aborted.
    fn check(view: &View, text: &str, budget: u64) -> (usize, bool) {
        let answer = execute_within_budget(view, &axql::parse(text).unwrap(), &TextResults::new(), budget).unwrap();
        (answer.rows.len(), answer.exhausted)
    }

    #[test]
    fn unbound_step_is_computed_once_and_charged() {
        let view = view();
        for (text, rows) in [
            ("select ?x where ?x is File, contains(?y, \"name\", \"zzzz\")", 0),
            ("select ?x where ?x is File, fuzzy(?y, \"name\", \"zzzzzz\", 1)", 0),
            ("select ?x where ?x is File, ?y is Other", 40),
            ("select ?x where ?x is File, ?y has links_to, contains(?y, \"name\", \"n 3\")", 40),
        ] {
            assert_eq!(check(&view, text, 5_000), (rows, false), "{text}");
        }
        let text = "select ?x where ?x is File, contains(?y, \"name\", \"zzzz\")";
        assert_eq!(check(&view, text, 2_000), (0, true), "texts count whether they match or not");
    }

    #[test]
    fn loop_over_cached_ends_is_charged() {
        let view = view();
        let text = "select ?x where ?x is File, ?a -links_to/links_to-> ?b";
        assert_eq!(check(&view, text, 100_000), (0, false));
        assert_eq!(check(&view, text, 5_000), (0, true));
        let twice = "select ?x where _ is File, ?x is File limit 50";
        assert_eq!(check(&view, twice, 10_000), (40, false));
        assert_eq!(check(&view, twice, 1_000), (40, true), "a duplicate row costs one visit");
    }

    #[test]
    fn unknown_names_are_charged_during_planning() {
        let view = view();
        let text = "select ?x where ?x is File, Missing -links_to-> ?x, Neither -links_to-> ?x";
        assert_eq!(check(&view, text, 20_000), (0, false));
        assert_eq!(check(&view, text, 5_000), (0, true));
        assert_eq!(
            check(&view, "select ?x where name(\"n 40\") -links_to-> ?x", 100),
            (1, false),
            "a known name is cheap"
        );
    }
}
