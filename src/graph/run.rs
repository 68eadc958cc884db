//! Plans to rows: nested loops over the steps, each entity bound once, nothing looked at twice that can be remembered.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::Result;
use crate::graph::axql::{DEFAULT_LIMIT, Query};
use crate::graph::plan::{self, Plan, Slot, Step, Texts};
use crate::graph::snapshot::Ix;
use crate::graph::view::View;

/// Edges and entities that are looked at for one question at most: about a second.
const BUDGET: u64 = 10_000_000;
/// Ends of paths that are remembered for one question.
const REMEMBERED: usize = 4_000_000;

/// What a query gives.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Rows in the order of their entities' numbers.
    pub(crate) rows: Vec<Vec<Ix>>,
    /// Whether there are more.
    pub(crate) truncated: bool,
    /// Whether the search was given up because it looked at too much.
    pub(crate) exhausted: bool,
    /// The plan of each disjunct in words.
    pub(crate) plans: Vec<Vec<String>>,
}

/// Answers a query. The view has the contexts and the confidence of the query already.
///
/// # Errors
/// The schema knows nothing of a name.
pub(crate) fn run(view: &View, query: &Query, texts: &Texts) -> Result<Answer> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT) as usize;
    let mut answer = Answer::default();
    let mut rows = HashSet::new();
    let mut budget = BUDGET;
    for atoms in &query.disjuncts {
        let plan = plan::plan(view, query, atoms, texts)?;
        let binding = vec![None; plan.slots];
        let mut run =
            Run { view, plan: &plan, binding, rows, limit, budget, is_tail: false, known: HashMap::new(), kept: 0 };
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

/// How it goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// With the next entity.
    On,
    /// The rest can be met: the row stands.
    Met,
    /// There are enough rows, or it took too long.
    Stop,
}

struct Run<'a> {
    view: &'a View,
    plan: &'a Plan,
    binding: Vec<Option<Ix>>,
    rows: HashSet<Vec<Ix>>,
    limit: usize,
    budget: u64,
    /// Whether every slot of the row is bound.
    is_tail: bool,
    /// Ends of paths by step, direction and begin.
    known: HashMap<(usize, bool, Ix), Arc<Vec<Ix>>>,
    kept: usize,
}

impl Run<'_> {
    fn step(&mut self, number: usize) -> Flow {
        if number == self.plan.settled && !self.is_tail {
            self.is_tail = true;
            let flow = if self.is_new() { self.step(number) } else { Flow::On };
            self.is_tail = false;
            return if flow == Flow::Met { self.emit() } else { flow };
        }
        let plan = self.plan;
        let Some(step) = plan.steps.get(number) else { return Flow::Met };
        if !self.spend(1) {
            return Flow::Stop;
        }
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

    /// Binds a slot to each of these in turn.
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

    /// A step about one slot.
    fn single(&mut self, number: usize, step: &Step) -> Flow {
        let slot = step.slots()[0];
        if let Some(node) = self.binding[slot] {
            return if self.holds(step, node) { self.step(number + 1) } else { Flow::On };
        }
        match step {
            Step::Among(_, among) => self.each(number, slot, among),
            other => {
                let nodes = self.all(other);
                if !self.spend(nodes.len() as u64) {
                    return Flow::Stop;
                }
                self.each(number, slot, &nodes)
            }
        }
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

    /// Every entity that meets a step, sorted.
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
                let begins = self.begins(number);
                for from in begins {
                    // Of a path from a variable to itself only loops count.
                    self.binding[left] = Some(from);
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
            // Whichever end has fewer edges.
            if snapshot.leaving_of(from, *relation).len() <= snapshot.reaching_of(to, *relation).len() {
                self.view.leaving_of(from, *relation).any(|it| it.1 == to)
            } else {
                self.view.reaching_of(to, *relation).any(|it| it.1 == from)
            }
        };
        Some(relations.iter().any(joins))
    }

    /// The other ends of the paths of a step that begin or end at an entity; none when it takes too long.
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

    /// Where the paths of a step may begin, sorted.
    fn begins(&self, number: usize) -> Vec<Ix> {
        let Step::Path(_, _, automaton) = &self.plan.steps[number] else { return Vec::new() };
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
