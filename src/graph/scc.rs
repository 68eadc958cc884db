//! Strongly connected components of directed graphs by Tarjan's algorithm, without recursion.

use std::collections::HashMap;

use crate::graph::snapshot::Ix;

/// The state of a visited node.
#[derive(Clone, Copy)]
struct Seen {
    number: u32,
    /// The lowest node number known to be in the same component.
    low: u32,
    /// Whether its component is incomplete.
    is_open: bool,
}

/// A node on the current path, with its unvisited successors.
struct Stop {
    node: Ix,
    next: std::vec::IntoIter<Ix>,
}

struct Search<F> {
    next: F,
    seen: HashMap<Ix, Seen>,
    way: Vec<Stop>,
    open: Vec<Ix>,
    found: Vec<Vec<Ix>>,
}

/// Returns the strongly connected components with more than one node among all nodes reachable from `begins`. Each is
/// sorted; components are ordered by their first nodes.
pub(crate) fn circles(begins: impl IntoIterator<Item = Ix>, next: impl Fn(Ix) -> Vec<Ix>) -> Vec<Vec<Ix>> {
    let mut search = Search { next, seen: HashMap::new(), way: Vec::new(), open: Vec::new(), found: Vec::new() };
    for begin in begins {
        if !search.seen.contains_key(&begin) {
            search.enter(begin);
            search.walk();
        }
    }
    search.found.sort_unstable();
    search.found
}

impl<F: Fn(Ix) -> Vec<Ix>> Search<F> {
    fn enter(&mut self, node: Ix) {
        let number = self.seen.len() as u32;
        self.seen.insert(node, Seen { number, low: number, is_open: true });
        self.open.push(node);
        self.way.push(Stop { node, next: (self.next)(node).into_iter() });
    }

    fn walk(&mut self) {
        while let Some(stop) = self.way.last_mut() {
            let node = stop.node;
            match stop.next.next() {
                Some(next) => match self.seen.get(&next).copied() {
                    None => self.enter(next),
                    Some(known) if known.is_open => self.lower(node, known.number),
                    Some(_) => {}
                },
                None => self.leave(node),
            }
        }
    }

    fn lower(&mut self, node: Ix, low: u32) {
        if let Some(seen) = self.seen.get_mut(&node) {
            seen.low = seen.low.min(low);
        }
    }

    /// Finishes a node after all its successors.
    fn leave(&mut self, node: Ix) {
        self.way.pop();
        let Some(Seen { number, low, .. }) = self.seen.get(&node).copied() else { return };
        if low == number {
            self.close(node);
        } else if let Some(before) = self.way.last() {
            let before = before.node;
            self.lower(before, low);
        }
    }

    /// Takes the component with root `first` off the stack.
    fn close(&mut self, first: Ix) {
        let at = self.open.iter().rposition(|it| *it == first).unwrap_or(0);
        let mut part = self.open.split_off(at);
        for node in &part {
            if let Some(seen) = self.seen.get_mut(node) {
                seen.is_open = false;
            }
        }
        if part.len() > 1 {
            part.sort_unstable();
            self.found.push(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns the nodes reachable from a node, including itself.
    fn reach(edges: &[(Ix, Ix)], begin: Ix) -> BTreeSet<Ix> {
        let mut reached = BTreeSet::from([begin]);
        while let Some((_, next)) = edges.iter().find(|(from, to)| reached.contains(from) && !reached.contains(to)) {
            reached.insert(*next);
        }
        reached
    }

    proptest! {
        #[test]
        fn components_are_mutually_reachable_nodes(edges in prop::collection::vec((0..8u32, 0..8u32), 0..20)) {
            let next = |node: Ix| edges.iter().filter(|it| it.0 == node).map(|it| it.1).collect::<Vec<Ix>>();
            let same = |one: Ix, other: Ix| reach(&edges, one).contains(&other) && reach(&edges, other).contains(&one);
            let parts: BTreeSet<Vec<Ix>> =
                (0..8).map(|one| (0..8).filter(|other| same(one, *other)).collect()).collect();
            let expected: Vec<Vec<Ix>> = parts.into_iter().filter(|it: &Vec<Ix>| it.len() > 1).collect();
            prop_assert_eq!(circles(0..8, next), expected);
        }
    }

    #[test]
    fn million_node_chain_and_ring_need_no_recursion() {
        let last = 1_000_000;
        assert!(circles([0], |it| if it < last { vec![it + 1] } else { vec![] }).is_empty());
        let ring = circles([7], |it| if it < last { vec![it + 1] } else { vec![0] });
        assert_eq!((ring.len(), ring[0].len()), (1, last as usize + 1));
    }
}
