//! Strongly connected components of a directed graph, by Tarjan's algorithm without recursion.

use std::collections::HashMap;

use crate::graph::snapshot::NodeIx;

/// The state of a visited node.
#[derive(Clone, Copy)]
struct NodeState {
    number: u32,
    /// The lowest number of a node that is known to be in the same component.
    low: u32,
    /// Whether the component of the node is still incomplete.
    on_stack: bool,
}

/// A node on the current path, with the successors that are not visited yet.
struct Frame {
    node: NodeIx,
    next: std::vec::IntoIter<NodeIx>,
}

struct Tarjan<F> {
    next: F,
    states: HashMap<NodeIx, NodeState>,
    path: Vec<Frame>,
    stack: Vec<NodeIx>,
    components: Vec<Vec<NodeIx>>,
}

/// Returns the strongly connected components with more than one node, among all nodes reachable from `begins`. The nodes of
/// a component are sorted, and components are sorted by their first nodes.
pub(crate) fn components(
    begins: impl IntoIterator<Item = NodeIx>,
    next: impl Fn(NodeIx) -> Vec<NodeIx>,
) -> Vec<Vec<NodeIx>> {
    let mut search =
        Tarjan { next, states: HashMap::new(), path: Vec::new(), stack: Vec::new(), components: Vec::new() };
    for begin in begins {
        if !search.states.contains_key(&begin) {
            search.visit(begin);
            search.run();
        }
    }
    search.components.sort_unstable();
    search.components
}

impl<F: Fn(NodeIx) -> Vec<NodeIx>> Tarjan<F> {
    fn visit(&mut self, node: NodeIx) {
        let number = self.states.len() as u32;
        self.states.insert(node, NodeState { number, low: number, on_stack: true });
        self.stack.push(node);
        self.path.push(Frame { node, next: (self.next)(node).into_iter() });
    }

    fn run(&mut self) {
        while let Some(stop) = self.path.last_mut() {
            let node = stop.node;
            match stop.next.next() {
                Some(next) => match self.states.get(&next).copied() {
                    None => self.visit(next),
                    Some(known) if known.on_stack => self.update_low(node, known.number),
                    Some(_) => {}
                },
                None => self.finish(node),
            }
        }
    }

    fn update_low(&mut self, node: NodeIx, low: u32) {
        if let Some(seen) = self.states.get_mut(&node) {
            seen.low = seen.low.min(low);
        }
    }

    /// Completes a node whose successors are all visited.
    fn finish(&mut self, node: NodeIx) {
        self.path.pop();
        let Some(NodeState { number, low, .. }) = self.states.get(&node).copied() else { return };
        if low == number {
            self.pop_component(node);
        } else if let Some(before) = self.path.last() {
            let before = before.node;
            self.update_low(before, low);
        }
    }

    /// Takes the complete component with root `first` off the stack.
    fn pop_component(&mut self, first: NodeIx) {
        let at = self.stack.iter().rposition(|it| *it == first).unwrap_or(0);
        let mut part = self.stack.split_off(at);
        for node in &part {
            if let Some(seen) = self.states.get_mut(node) {
                seen.on_stack = false;
            }
        }
        if part.len() > 1 {
            part.sort_unstable();
            self.components.push(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns the nodes reachable from a node, including the node itself.
    fn reach(edges: &[(NodeIx, NodeIx)], begin: NodeIx) -> BTreeSet<NodeIx> {
        let mut reached = BTreeSet::from([begin]);
        while let Some((_, next)) = edges.iter().find(|(from, to)| reached.contains(from) && !reached.contains(to)) {
            reached.insert(*next);
        }
        reached
    }

    proptest! {
        #[test]
        fn components_are_mutually_reachable_nodes(edges in prop::collection::vec((0..8u32, 0..8u32), 0..20)) {
            let next = |node: NodeIx| edges.iter().filter(|it| it.0 == node).map(|it| it.1).collect::<Vec<NodeIx>>();
            let same = |one: NodeIx, other: NodeIx| reach(&edges, one).contains(&other) && reach(&edges, other).contains(&one);
            let parts: BTreeSet<Vec<NodeIx>> =
                (0..8).map(|one| (0..8).filter(|other| same(one, *other)).collect()).collect();
            let expected: Vec<Vec<NodeIx>> = parts.into_iter().filter(|it: &Vec<NodeIx>| it.len() > 1).collect();
            prop_assert_eq!(components(0..8, next), expected);
        }
    }

    #[test]
    fn million_node_chain_and_ring_need_no_recursion() {
        let last = 1_000_000;
        assert!(components([0], |it| if it < last { vec![it + 1] } else { vec![] }).is_empty());
        let ring = components([7], |it| if it < last { vec![it + 1] } else { vec![0] });
        assert_eq!((ring.len(), ring[0].len()), (1, last as usize + 1));
    }
}
