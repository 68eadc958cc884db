//! The path of a query as a Glushkov automaton: one state for each relation in the path, and a start state.
//!
//! A walk terminates on every graph, because it visits each pair of entity and state once, at the shortest distance.

use std::collections::VecDeque;

use crate::graph::query::axql::Path;
use crate::graph::snapshot::NodeIx;
use crate::graph::snapshot::view::View;

/// A set of states, one bit each. AxQL allows 64 relations in a path, and the start is one more state.
type StateSet = u128;

/// A compiled path. It can be walked forward from its start or backward from its end.
#[derive(Debug)]
pub(crate) struct Automaton {
    /// Relations of each state (none for the start): an edge of one of them leads into the state.
    labels: Vec<Vec<u16>>,
    /// Successors of each state; state 0 is the start.
    next: Vec<StateSet>,
    /// States in which a path may end.
    accepting: StateSet,
    /// Maximum number of edges of a path with repetition; `None` if unlimited.
    max_edges: Option<u32>,
}

/// A part of a path during compilation: whether it may be empty, its first and its last states.
struct Fragment {
    empty: bool,
    first: StateSet,
    last: StateSet,
}

impl Automaton {
    /// Compiles a path. `relations` returns the numbers of the relations with a name; without any, no edge matches.
    pub(crate) fn new(path: &Path, max_hops: Option<u32>, relations: &mut dyn FnMut(&str) -> Vec<u16>) -> Automaton {
        let mut automaton = Automaton { labels: vec![Vec::new()], next: vec![0], accepting: 0, max_edges: None };
        let piece = automaton.compile(path, relations);
        automaton.next[0] = piece.first;
        automaton.accepting = piece.last | StateSet::from(piece.empty);
        automaton.max_edges = max_hops.filter(|_| path.repeats());
        automaton
    }

    fn compile(&mut self, path: &Path, relations: &mut dyn FnMut(&str) -> Vec<u16>) -> Fragment {
        match path {
            Path::Label(label) => {
                let state: StateSet = 1 << self.labels.len();
                self.labels.push(relations(label));
                self.next.push(0);
                Fragment { empty: false, first: state, last: state }
            }
            Path::Sequence(parts) => {
                let mut whole = Fragment { empty: true, first: 0, last: 0 };
                for part in parts {
                    let part = self.compile(part, relations);
                    self.connect(whole.last, part.first);
                    whole.first |= if whole.empty { part.first } else { 0 };
                    whole.last = part.last | if part.empty { whole.last } else { 0 };
                    whole.empty &= part.empty;
                }
                whole
            }
            Path::Either(parts) => {
                let mut whole = Fragment { empty: false, first: 0, last: 0 };
                for part in parts {
                    let part = self.compile(part, relations);
                    whole.first |= part.first;
                    whole.last |= part.last;
                    whole.empty |= part.empty;
                }
                whole
            }
            Path::Star(inner) | Path::Plus(inner) => {
                let piece = self.compile(inner, relations);
                self.connect(piece.last, piece.first);
                Fragment { empty: piece.empty || matches!(path, Path::Star(_)), ..piece }
            }
            Path::Optional(inner) => Fragment { empty: true, ..self.compile(inner, relations) },
        }
    }

    fn connect(&mut self, from: StateSet, to: StateSet) {
        for state in states_in(from) {
            self.next[state] |= to;
        }
    }

    /// Returns whether the path may have no edge at all.
    pub(crate) fn may_be_empty(&self) -> bool {
        self.accepting & 1 == 1
    }

    /// Returns the numbers of the relation if the path is a single edge.
    pub(crate) fn single_edge(&self) -> Option<&[u16]> {
        (self.labels.len() == 2 && self.next[1] == 0 && !self.may_be_empty()).then(|| self.labels[1].as_slice())
    }

    /// Returns the relations that the first edge of the path may have.
    pub(crate) fn first_relations(&self) -> Vec<u16> {
        let mut first: Vec<u16> = states_in(self.next[0]).flat_map(|it| self.labels[it].iter().copied()).collect();
        first.sort_unstable();
        first.dedup();
        first
    }

    /// Returns whether the automaton has a cycle, so that a path may have more edges than the automaton has states.
    pub(crate) fn repeats(&self) -> bool {
        (1..self.next.len()).any(|state| states_in(self.next[state]).any(|next| next <= state))
    }

    /// Returns the entities at the other end of the paths that begin at an entity (`forward`) or end at it, sorted. Each
    /// visited edge reduces `budget`; returns `None` when it is used up.
    pub(crate) fn walk(&self, view: &View, from: NodeIx, forward: bool, budget: &mut u64) -> Option<Vec<NodeIx>> {
        let walk = Walk {
            automaton: self,
            view,
            forward,
            predecessors: if forward { Vec::new() } else { self.predecessors() },
        };
        walk.run(from, budget)
    }

    /// Returns the predecessors of each state, for walking backward.
    fn predecessors(&self) -> Vec<StateSet> {
        let mut back = vec![0; self.next.len()];
        for (state, next) in self.next.iter().enumerate() {
            for after in states_in(*next) {
                back[after] |= 1 << state;
            }
        }
        back
    }
}

fn states_in(states: StateSet) -> impl Iterator<Item = usize> {
    let mut left = states;
    std::iter::from_fn(move || {
        let state = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(state)
    })
}

struct Walk<'a> {
    automaton: &'a Automaton,
    view: &'a View,
    forward: bool,
    predecessors: Vec<StateSet>,
}

impl Walk<'_> {
    /// Runs a breadth-first search. A state in `queue` stands for the edge crossed last, a state in `open` for an edge to
    /// cross next.
    fn run(&self, from: NodeIx, budget: &mut u64) -> Option<Vec<NodeIx>> {
        let automaton = self.automaton;
        let mut found = Vec::new();
        if automaton.may_be_empty() {
            found.push(from);
        }
        let mut seen: std::collections::HashMap<NodeIx, StateSet> = std::collections::HashMap::new();
        let mut queue: VecDeque<(NodeIx, usize, u32)> = VecDeque::new();
        let begin = if self.forward { automaton.next[0] } else { automaton.accepting & !1 };
        // The first edges to cross are those that may begin a path or, when walking backward, those that may end one.
        let mut open: Vec<(NodeIx, StateSet, u32)> = vec![(from, begin, 0)];
        loop {
            while let Some((node, states, distance)) = open.pop() {
                if automaton.max_edges.is_some_and(|most| distance >= most) {
                    continue;
                }
                for state in states_in(states) {
                    for end in self.step(node, state, budget)? {
                        let known = seen.entry(end).or_default();
                        if *known & (1 << state) == 0 {
                            *known |= 1 << state;
                            queue.push_back((end, state, distance + 1));
                        }
                    }
                }
            }
            let Some((node, state, distance)) = queue.pop_front() else { break };
            if self.is_accepting(state) {
                found.push(node);
            }
            let next = if self.forward { automaton.next[state] } else { self.predecessors[state] & !1 };
            open.push((node, next, distance));
        }
        found.sort_unstable();
        found.dedup();
        Some(found)
    }

    /// Returns whether the edge of this state may be the last one of a path or, when walking backward, the first one.
    fn is_accepting(&self, state: usize) -> bool {
        let done = if self.forward { self.automaton.accepting } else { self.automaton.next[0] };
        done & (1 << state) != 0
    }

    fn step(&self, node: NodeIx, state: usize, budget: &mut u64) -> Option<Vec<NodeIx>> {
        let mut ends = Vec::new();
        for relation in &self.automaton.labels[state] {
            let before = ends.len();
            if self.forward {
                ends.extend(self.view.outgoing_by_relation(node, *relation).map(|it| it.1));
            } else {
                ends.extend(self.view.incoming_by_relation(node, *relation).map(|it| it.1));
            }
            *budget = budget.checked_sub((ends.len() - before) as u64 + 1)?;
        }
        Some(ends)
    }
}
