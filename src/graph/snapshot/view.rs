//! A snapshot restricted to a scope, to contexts and to a minimum confidence. Everything outside is hidden.

use std::sync::Arc;

use crate::graph::snapshot::{EdgeIx, Ix, Snapshot};
use crate::model::{IN_CONTEXT, Scope};

/// A restricted snapshot. Cheap to clone.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Visibility by origin; `None` when all origins are visible.
    open: Option<Arc<Vec<bool>>>,
    /// Hidden facts by entity; `None` when all facts are visible.
    closed_facts: Option<Arc<Vec<bool>>>,
    least_confidence: f32,
}

impl View {
    /// Restricts a snapshot to a scope.
    pub(crate) fn new(snapshot: Arc<Snapshot>, scope: &Scope) -> View {
        let open = snapshot.open_to(scope).map(Arc::new);
        View { snapshot, open, closed_facts: None, least_confidence: 0.0 }
    }

    /// Also hides edges with less confidence.
    pub(crate) fn at_least(self, confidence: Option<f32>) -> View {
        View { least_confidence: confidence.unwrap_or(0.0), ..self }
    }

    /// Also hides the facts that hold in none of these contexts.
    pub(crate) fn in_contexts(self, contexts: &[Ix]) -> View {
        let snapshot = &self.snapshot;
        let mut closed = snapshot.facts.clone();
        for relation in snapshot.relations_of(IN_CONTEXT) {
            for context in contexts {
                for edge in snapshot.reaching_of(*context, relation) {
                    closed[snapshot.source(*edge) as usize] = false;
                }
            }
        }
        View { closed_facts: Some(Arc::new(closed)), ..self }
    }

    /// Returns whether everything is visible, except for edges below the minimum confidence.
    pub(crate) fn is_whole(&self) -> bool {
        self.open.is_none() && self.closed_facts.is_none()
    }

    /// Returns whether statements of an origin are visible.
    pub(crate) fn opens(&self, origin: u32) -> bool {
        self.open.as_ref().is_none_or(|open| open[origin as usize])
    }

    /// Returns whether an entity is visible.
    pub(crate) fn sees(&self, node: Ix) -> bool {
        let stated = || self.snapshot.holders.of(node).iter().any(|it| self.opens(it.origin));
        let holds = self.closed_facts.as_ref().is_none_or(|closed| !closed[node as usize]);
        holds && (self.open.is_none() || stated())
    }

    /// Returns whether an edge is visible, regardless of its ends.
    pub(crate) fn sees_edge(&self, edge: EdgeIx) -> bool {
        let holds = || {
            let closed = self.closed_facts.as_ref()?;
            self.snapshot.fact_of(edge).map(|fact| !closed[fact as usize])
        };
        self.snapshot.confidence(edge) >= self.least_confidence
            && self.opens(self.snapshot.origin_of[edge as usize])
            && holds().unwrap_or(true)
    }

    /// Returns the visible outgoing edges of an entity with their targets.
    pub(crate) fn leaving(&self, node: Ix) -> impl Iterator<Item = (EdgeIx, Ix)> {
        self.seen(self.snapshot.leaving(node), Snapshot::target)
    }

    /// Returns the visible incoming edges of an entity with their sources.
    pub(crate) fn reaching(&self, node: Ix) -> impl Iterator<Item = (EdgeIx, Ix)> {
        self.seen(self.snapshot.reaching(node).iter().copied(), Snapshot::source)
    }

    /// As [`View::leaving`], of one relation.
    pub(crate) fn leaving_of(&self, node: Ix, relation: u16) -> impl Iterator<Item = (EdgeIx, Ix)> {
        self.seen(self.snapshot.leaving_of(node, relation), Snapshot::target)
    }

    /// As [`View::reaching`], of one relation.
    pub(crate) fn reaching_of(&self, node: Ix, relation: u16) -> impl Iterator<Item = (EdgeIx, Ix)> {
        self.seen(self.snapshot.reaching_of(node, relation).iter().copied(), Snapshot::source)
    }

    /// Keeps the visible edges, with the requested end.
    fn seen<'a>(
        &'a self,
        edges: impl Iterator<Item = EdgeIx> + 'a,
        end: fn(&Snapshot, EdgeIx) -> Ix,
    ) -> impl Iterator<Item = (EdgeIx, Ix)> + 'a {
        let ends = edges.filter(move |it| self.sees_edge(*it)).map(move |it| (it, end(&self.snapshot, it)));
        ends.filter(move |(_, node)| self.sees(*node))
    }

    /// Returns the visible attributes of an entity without its name; each once.
    pub(crate) fn attributes(&self, node: Ix) -> Vec<(&str, &str)> {
        let mut pairs: Vec<(&str, &str)> = self
            .snapshot
            .attributes(node)
            .filter(|(_, _, origin)| self.opens(*origin))
            .map(|(key, value, _)| (key, value))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Returns the values of an attribute, including `name`.
    pub(crate) fn values<'a>(&'a self, node: Ix, key: &'a str) -> impl Iterator<Item = &'a str> {
        let name = (key == "name").then(|| self.snapshot.name(node));
        let attributes = self.snapshot.attributes(node);
        let others =
            attributes.filter(move |(it, _, origin)| *it == key && self.opens(*origin)).map(|(_, value, _)| value);
        name.into_iter().chain(others)
    }

    /// Returns every visible entity, by number.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Ix> {
        (0..self.snapshot.nodes() as Ix).filter(move |it| self.sees(*it))
    }

    /// Resolves a name: entities with exactly this name, else the one with this key, else those with this name ignoring
    /// case. Sorted.
    pub(crate) fn called(&self, name: &str) -> Vec<Ix> {
        let seen = |nodes: Vec<Ix>| -> Vec<Ix> { nodes.into_iter().filter(|it| self.sees(*it)).collect() };
        let named = seen(self.snapshot.named(name).to_vec());
        if !named.is_empty() {
            return named;
        }
        let keyed = seen(self.snapshot.keyed(name).into_iter().collect());
        if !keyed.is_empty() {
            return keyed;
        }
        let folded = name.to_lowercase();
        self.with_value("name", |value| value.to_lowercase() == folded)
    }

    /// Returns the entities with a matching value of this attribute, sorted. Tests each distinct value once.
    pub(crate) fn with_value(&self, key: &str, passes: impl Fn(&str) -> bool) -> Vec<Ix> {
        let snapshot = &self.snapshot;
        let mut last = None;
        let mut look = |symbol| match last {
            Some((known, passed)) if known == symbol => passed,
            _ => {
                let passed = passes(snapshot.symbols.get(symbol));
                last = Some((symbol, passed));
                passed
            }
        };
        let mut found: Vec<Ix> = Vec::new();
        if key == "name" {
            found.extend(snapshot.by_name.iter().filter(|it| look(snapshot.names[**it as usize])));
        }
        let stated = |value: &str, node: Ix| self.values(node, key).any(|it| it == value);
        for (_, value, node) in snapshot.with_attribute(key) {
            if look(*value) && (self.open.is_none() || stated(snapshot.symbols.get(*value), *node)) {
                found.push(*node);
            }
        }
        found.retain(|it| self.sees(*it));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the entities with exactly this value of an attribute, sorted.
    pub(crate) fn with_exactly(&self, key: &str, value: &str) -> Vec<Ix> {
        let snapshot = &self.snapshot;
        let mut found = Vec::new();
        if key == "name" {
            found.extend_from_slice(snapshot.named(value));
        }
        if let Some(symbol) = snapshot.symbols.find(value) {
            let rows = snapshot.with_attribute(key);
            let start = rows.partition_point(|it| it.1 < symbol);
            found.extend(rows[start..].iter().take_while(|it| it.1 == symbol).map(|it| it.2));
        }
        found.retain(|it| self.sees(*it) && (self.open.is_none() || self.values(*it, key).any(|known| known == value)));
        found.sort_unstable();
        found.dedup();
        found
    }
}
