//! A regular path as an automaton without empty steps (Glushkov): one state for each relation in it, beside the start.
//!
//! Walking it beside the graph ends on every graph: each pair of entity and state is visited once, at its least distance.

use std::collections::VecDeque;

use crate::graph::axql::Path;
use crate::graph::snapshot::Ix;
use crate::graph::view::View;

/// States; [`super::axql`] allows 64 relations in a path, and there is the start.
type States = u128;

/// A path, ready to be walked either way.
#[derive(Debug)]
pub(crate) struct Automaton {
    /// Relations of each state but the start; entering the state takes an edge of one of them.
    labels: Vec<Vec<u16>>,
    /// States that may come after a state; the start is 0.
    next: Vec<States>,
    /// States in which a path may end.
    ends: States,
    /// Most edges, for a path with a repetition.
    most: Option<u32>,
}

/// A path under construction: whether it may be empty, where it may begin and end.
struct Piece {
    empty: bool,
    first: States,
    last: States,
}

impl Automaton {
    /// Makes the automaton; `relations` gives the numbers that a label means, which may be none.
    pub(crate) fn new(path: &Path, max_hops: Option<u32>, relations: &mut dyn FnMut(&str) -> Vec<u16>) -> Automaton {
        let mut automaton = Automaton { labels: vec![Vec::new()], next: vec![0], ends: 0, most: None };
        let piece = automaton.piece(path, relations);
        automaton.next[0] = piece.first;
        automaton.ends = piece.last | States::from(piece.empty);
        automaton.most = max_hops.filter(|_| path.repeats());
        automaton
    }

    fn piece(&mut self, path: &Path, relations: &mut dyn FnMut(&str) -> Vec<u16>) -> Piece {
        match path {
            Path::Label(label) => {
                let state: States = 1 << self.labels.len();
                self.labels.push(relations(label));
                self.next.push(0);
                Piece { empty: false, first: state, last: state }
            }
            Path::Sequence(parts) => {
                let mut whole = Piece { empty: true, first: 0, last: 0 };
                for part in parts {
                    let part = self.piece(part, relations);
                    self.connect(whole.last, part.first);
                    whole.first |= if whole.empty { part.first } else { 0 };
                    whole.last = part.last | if part.empty { whole.last } else { 0 };
                    whole.empty &= part.empty;
                }
                whole
            }
            Path::Either(parts) => {
                let mut whole = Piece { empty: false, first: 0, last: 0 };
                for part in parts {
                    let part = self.piece(part, relations);
                    whole.first |= part.first;
                    whole.last |= part.last;
                    whole.empty |= part.empty;
                }
                whole
            }
            Path::Star(inner) | Path::Plus(inner) => {
                let piece = self.piece(inner, relations);
                self.connect(piece.last, piece.first);
                Piece { empty: piece.empty || matches!(path, Path::Star(_)), ..piece }
            }
            Path::Optional(inner) => Piece { empty: true, ..self.piece(inner, relations) },
        }
    }

    fn connect(&mut self, from: States, to: States) {
        for state in members(from) {
            self.next[state] |= to;
        }
    }

    /// Says whether the empty path is one.
    pub(crate) fn may_be_empty(&self) -> bool {
        self.ends & 1 == 1
    }

    /// The relations, when the path is a single edge.
    pub(crate) fn single(&self) -> Option<&[u16]> {
        (self.labels.len() == 2 && self.next[1] == 0 && !self.may_be_empty()).then(|| self.labels[1].as_slice())
    }

    /// Relations that a path may begin with.
    pub(crate) fn first(&self) -> Vec<u16> {
        let mut first: Vec<u16> = members(self.next[0]).flat_map(|it| self.labels[it].iter().copied()).collect();
        first.sort_unstable();
        first.dedup();
        first
    }

    /// Says whether there are more edges in a path than states, as far as the automaton is concerned.
    pub(crate) fn repeats(&self) -> bool {
        (1..self.next.len()).any(|state| members(self.next[state]).any(|next| next <= state))
    }

    /// Returns the entities at the other end of the paths that begin (`forward`) or end at an entity, sorted; or none when
    /// more edges than `budget` had to be looked at, which is counted down.
    pub(crate) fn walk(&self, view: &View, from: Ix, forward: bool, budget: &mut u64) -> Option<Vec<Ix>> {
        let walk = Walk { automaton: self, view, forward, back: if forward { Vec::new() } else { self.backward() } };
        walk.run(from, budget)
    }

    /// States that may come before a state.
    fn backward(&self) -> Vec<States> {
        let mut back = vec![0; self.next.len()];
        for (state, next) in self.next.iter().enumerate() {
            for after in members(*next) {
                back[after] |= 1 << state;
            }
        }
        back
    }
}

fn members(states: States) -> impl Iterator<Item = usize> {
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
    back: Vec<States>,
}

impl Walk<'_> {
    /// Backward, a state stands for the edge that is taken next: it is entered at the end of that edge.
    fn run(&self, from: Ix, budget: &mut u64) -> Option<Vec<Ix>> {
        let automaton = self.automaton;
        let mut found = Vec::new();
        if automaton.may_be_empty() {
            found.push(from);
        }
        let mut seen: std::collections::HashMap<Ix, States> = std::collections::HashMap::new();
        let mut queue: VecDeque<(Ix, usize, u32)> = VecDeque::new();
        let begin = if self.forward { automaton.next[0] } else { automaton.ends & !1 };
        // Forward the start is left; backward every state in which a path may end is taken.
        let mut open: Vec<(Ix, States, u32)> = vec![(from, begin, 0)];
        loop {
            while let Some((node, states, distance)) = open.pop() {
                if automaton.most.is_some_and(|most| distance >= most) {
                    continue;
                }
                for state in members(states) {
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
            if self.is_done(state) {
                found.push(node);
            }
            let next = if self.forward { automaton.next[state] } else { self.back[state] & !1 };
            open.push((node, next, distance));
        }
        found.sort_unstable();
        found.dedup();
        Some(found)
    }

    /// Says whether a path may end after the edge of this state: backward, whether it may begin with it.
    fn is_done(&self, state: usize) -> bool {
        let done = if self.forward { self.automaton.ends } else { self.automaton.next[0] };
        done & (1 << state) != 0
    }

    fn step(&self, node: Ix, state: usize, budget: &mut u64) -> Option<Vec<Ix>> {
        let mut ends = Vec::new();
        for relation in &self.automaton.labels[state] {
            let before = ends.len();
            if self.forward {
                ends.extend(self.view.leaving_of(node, *relation).map(|it| it.1));
            } else {
                ends.extend(self.view.reaching_of(node, *relation).map(|it| it.1));
            }
            *budget = budget.checked_sub((ends.len() - before) as u64 + 1)?;
        }
        Some(ends)
    }
}
