//! Executes plans: nested loops over the steps, with caches for results that do not depend on the binding.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::Result;
use crate::graph::query::automaton::Automaton;
use crate::graph::query::axql::{DEFAULT_LIMIT, Query};
use crate::graph::query::plan::{self, Plan, Slot, Step, Texts};
use crate::graph::snapshot::Ix;
use crate::graph::snapshot::view::View;

/// Most edges and entities visited for one query: about a second.
const BUDGET: u64 = 10_000_000;
/// Most cached path ends and entities for one query.
const REMEMBERED: usize = 4_000_000;
/// Adjacent numbers visited at the cost of one random access.
const AT_ONCE: usize = 8;

/// The result of a query.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Rows in the order of entity indexes.
    pub(crate) rows: Vec<Vec<Ix>>,
    /// Whether there are more rows.
    pub(crate) truncated: bool,
    /// Whether the search was aborted because its budget was used up.
    pub(crate) exhausted: bool,
    /// A description of each disjunct's plan.
    pub(crate) plans: Vec<Vec<String>>,
}

/// Runs a query. The view already applies the query's contexts and confidence.
///
/// # Errors
/// A name is unknown to the schema.
pub(crate) fn run(view: &View, query: &Query, texts: &Texts) -> Result<Answer> {
    run_within(view, query, texts, BUDGET)
}

fn run_within(view: &View, query: &Query, texts: &Texts, mut budget: u64) -> Result<Answer> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT) as usize;
    let mut answer = Answer::default();
    let mut rows = HashSet::new();
    for atoms in &query.disjuncts {
        let plan = plan::plan(view, query, atoms, texts, &mut budget)?;
        let binding = vec![None; plan.slots];
        let (found, known) = (HashMap::new(), HashMap::new());
        let mut run = Run { view, plan: &plan, binding, rows, limit, budget, is_tail: false, found, known, kept: 0 };
        let flow = run.step(0);
        (rows, budget) = (run.rows, run.budget);
        answer.exhausted |= budget == 0;
        answer.plans.push(plan.words);
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

/// How a loop continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// With the next entity.
    On,
    /// All remaining steps match: the row is a result.
    Met,
    /// The limit is reached, or the budget is used up.
    Stop,
}

struct Run<'a> {
    view: &'a View,
    plan: &'a Plan,
    binding: Vec<Option<Ix>>,
    rows: HashSet<Vec<Ix>>,
    limit: usize,
    budget: u64,
    /// Whether every selected slot is bound.
    is_tail: bool,
    /// Cache: entities that match a step in any binding; for a path, its possible starts.
    found: HashMap<usize, Arc<Vec<Ix>>>,
    /// Cache: ends of paths by step, direction and start.
    known: HashMap<(usize, bool, Ix), Arc<Vec<Ix>>>,
    kept: usize,
}

impl Run<'_> {
    fn step(&mut self, number: usize) -> Flow {
        if number == self.plan.settled && !self.is_tail {
            self.is_tail = true;
            let flow = match self.is_new() {
                true => self.step(number),
                false if self.spend(1) => Flow::On,
                false => Flow::Stop,
            };
            self.is_tail = false;
            return if flow == Flow::Met { self.emit() } else { flow };
        }
        if !self.spend(1) {
            return Flow::Stop;
        }
        let plan = self.plan;
        let Some(step) = plan.steps.get(number) else { return Flow::Met };
        match step {
            Step::Path(left, right, _) => self.path(number, *left, *right),
            one => self.single(number, one),
        }
    }

    fn spend(&mut self, cost: u64) -> bool {
        self.budget = self.budget.saturating_sub(cost);
        self.budget > 0
    }

    fn row(&self) -> Vec<Ix> {
        self.plan.select.iter().filter_map(|it| self.binding[*it]).collect()
    }

    fn is_new(&self) -> bool {
        !self.rows.contains(&self.row())
    }

    fn emit(&mut self) -> Flow {
        let row = self.row();
        self.rows.insert(row);
        if self.rows.len() > self.limit { Flow::Stop } else { Flow::On }
    }

    /// Binds a slot to each entity in turn.
    fn each(&mut self, number: usize, slot: Slot, nodes: &[Ix]) -> Flow {
        for node in nodes {
            self.binding[slot] = Some(*node);
            let flow = self.step(number + 1);
            if flow != Flow::On {
                self.binding[slot] = None;
                return flow;
            }
        }
        self.binding[slot] = None;
        Flow::On
    }

    /// Runs a step with one slot.
    fn single(&mut self, number: usize, step: &Step) -> Flow {
        let slot = step.slots()[0];
        if let Some(node) = self.binding[slot] {
            return if self.holds(step, node) { self.step(number + 1) } else { Flow::On };
        }
        match step {
            Step::Among(_, among) => self.each(number, slot, among),
            _ => match self.found(number) {
                Some(nodes) => self.each(number, slot, &nodes),
                None => Flow::Stop,
            },
        }
    }

    /// Returns the entities that match a step in any binding, cached; `None` when the budget is used up.
    fn found(&mut self, number: usize) -> Option<Arc<Vec<Ix>>> {
        if let Some(found) = self.found.get(&number) {
            return Some(found.clone());
        }
        let plan = self.plan;
        let step = &plan.steps[number];
        if !self.spend(self.looks(step)) {
            return None;
        }
        let found = match step {
            Step::Path(_, _, automaton) => self.begins(automaton),
            other => {
                let all = self.all(other);
                self.spend(all.len() as u64).then_some(all)?
            }
        };
        let found = Arc::new(found);
        if self.kept + found.len() <= REMEMBERED {
            self.kept += found.len() + 1;
            self.found.insert(number, found.clone());
        }
        Some(found)
    }

    /// Returns the cost to find all matches of a step: one per text; adjacent numbers are cheaper.
    fn looks(&self, step: &Step) -> u64 {
        let snapshot = &self.view.snapshot;
        let edges = |relations: &[u16]| relations.iter().map(|it| snapshot.of_relation(*it).len()).sum::<usize>();
        let looks = match step {
            Step::Among(..) => 0,
            Step::Labels(_, labels, _) => labels.iter().map(|it| snapshot.of_label(*it).len()).sum::<usize>() / AT_ONCE,
            Step::Value(_, key, _) => {
                snapshot.with_attribute(key).len() + if key == "name" { snapshot.nodes() } else { 0 }
            }
            Step::HasOut(_, relations) => relations.iter().map(|it| edges(it)).min().unwrap_or(0) / AT_ONCE,
            Step::Path(_, _, automaton) if automaton.may_be_empty() => snapshot.nodes() / AT_ONCE,
            Step::Path(_, _, automaton) => edges(&automaton.first()) / AT_ONCE,
        };
        looks as u64
    }

    fn holds(&self, step: &Step, node: Ix) -> bool {
        let snapshot = &self.view.snapshot;
        match step {
            Step::Among(_, among) => among.binary_search(&node).is_ok(),
            Step::Labels(_, labels, fact) => {
                labels.contains(&snapshot.label_of[node as usize]) && (!fact || snapshot.is_fact(node))
            }
            Step::Value(_, key, test) => self.view.values(node, key).any(|it| test.passes(it)),
            Step::HasOut(_, relations) => {
                let has = |it: &u16| self.view.leaving_of(node, *it).next().is_some();
                relations.iter().all(|numbers| numbers.iter().any(has))
            }
            Step::Path(..) => false,
        }
    }

    /// Returns every entity that matches a step, sorted.
    fn all(&self, step: &Step) -> Vec<Ix> {
        let snapshot = &self.view.snapshot;
        let mut nodes: Vec<Ix> = match step {
            Step::Labels(_, labels, _) => labels.iter().flat_map(|it| snapshot.of_label(*it)).copied().collect(),
            Step::Value(_, key, test) => return self.view.with_value(key, |it| test.passes(it)),
            Step::HasOut(_, relations) => {
                let edges = |it: &&Vec<u16>| it.iter().map(|it| snapshot.of_relation(*it).len()).sum::<usize>();
                let rarest = relations.iter().min_by_key(edges).map_or(&[][..], Vec::as_slice);
                let edges = rarest.iter().flat_map(|it| snapshot.of_relation(*it));
                edges.map(|it| snapshot.source(*it)).collect()
            }
            Step::Among(..) | Step::Path(..) => Vec::new(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|it| self.view.sees(*it) && self.holds(step, *it));
        nodes
    }

    fn path(&mut self, number: usize, left: Slot, right: Slot) -> Flow {
        match (self.binding[left], self.binding[right]) {
            (Some(from), Some(to)) => match self.is_path(number, from, to) {
                Some(true) => self.step(number + 1),
                Some(false) => Flow::On,
                None => Flow::Stop,
            },
            (Some(from), None) => self.ends(number, from, true, right),
            (None, Some(to)) => self.ends(number, to, false, left),
            (None, None) => {
                // Later passes over the same starts use the cache, and would cost nothing otherwise.
                let is_again = self.found.contains_key(&number);
                let Some(begins) = self.found(number) else { return Flow::Stop };
                for from in begins.iter() {
                    if is_again && !self.spend(1) {
                        return Flow::Stop;
                    }
                    // For a path from a variable to itself only loops match.
                    self.binding[left] = Some(*from);
                    let flow = self.path(number, left, right);
                    self.binding[left] = None;
                    if flow != Flow::On {
                        return flow;
                    }
                }
                Flow::On
            }
        }
    }

    fn ends(&mut self, number: usize, from: Ix, forward: bool, slot: Slot) -> Flow {
        let Some(ends) = self.walk(number, from, forward) else { return Flow::Stop };
        self.each(number, slot, &ends)
    }

    fn is_path(&mut self, number: usize, from: Ix, to: Ix) -> Option<bool> {
        let plan = self.plan;
        let Step::Path(_, _, automaton) = &plan.steps[number] else { return Some(false) };
        let Some(relations) = automaton.single() else {
            return self.walk(number, from, true).map(|ends| ends.binary_search(&to).is_ok());
        };
        let snapshot = &self.view.snapshot;
        let joins = |relation: &u16| {
            // Searches from the end with fewer edges.
            if snapshot.leaving_of(from, *relation).len() <= snapshot.reaching_of(to, *relation).len() {
                self.view.leaving_of(from, *relation).any(|it| it.1 == to)
            } else {
                self.view.reaching_of(to, *relation).any(|it| it.1 == from)
            }
        };
        Some(relations.iter().any(joins))
    }

    /// Returns the other ends of the paths that begin or end at an entity; `None` when the budget is used up.
    fn walk(&mut self, number: usize, from: Ix, forward: bool) -> Option<Arc<Vec<Ix>>> {
        if let Some(known) = self.known.get(&(number, forward, from)) {
            return Some(known.clone());
        }
        let plan = self.plan;
        let Step::Path(_, _, automaton) = &plan.steps[number] else { return None };
        let walked = automaton.walk(self.view, from, forward, &mut self.budget);
        if walked.is_none() {
            self.budget = 0;
        }
        let ends = Arc::new(walked?);
        if self.kept + ends.len() <= REMEMBERED {
            self.kept += ends.len() + 1;
            self.known.insert((number, forward, from), ends.clone());
        }
        Some(ends)
    }

    /// Returns the possible starts of a path, sorted.
    fn begins(&self, automaton: &Automaton) -> Vec<Ix> {
        if automaton.may_be_empty() {
            return self.view.nodes().collect();
        }
        let snapshot = &self.view.snapshot;
        let edges = automaton.first().into_iter().flat_map(|it| snapshot.of_relation(it));
        let mut begins: Vec<Ix> = edges.map(|it| snapshot.source(*it)).collect();
        begins.sort_unstable();
        begins.dedup();
        begins.retain(|it| self.view.sees(*it));
        begins
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::query::axql;
    use crate::graph::tests::graph;

    /// Forty files, and three thousand other entities, a tenth of them with a link to the next one.
    fn view() -> View {
        let node =
            |it: usize| json!({"id": it, "type": if it < 40 { "File" } else { "Other" }, "name": format!("n {it}")});
        let edge = |it: usize| json!({"source": it, "target": it + 1, "type": "links_to"});
        let nodes: Vec<Value> = (0..3_040).map(node).collect();
        let edges: Vec<Value> = (40..3_030).step_by(10).map(edge).collect();
        graph(&json!({"nodes": nodes, "edges": edges}))
    }

    /// Returns the number of rows, and whether the search was aborted, for this budget.
    fn check(view: &View, text: &str, budget: u64) -> (usize, bool) {
        let answer = run_within(view, &axql::parse(text).unwrap(), &Texts::new(), budget).unwrap();
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
