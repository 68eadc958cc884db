//! A snapshot as one question sees it: what lies outside the scope, the contexts or the least confidence is not there.

use std::sync::Arc;

use crate::graph::snapshot::{EdgeIx, Ix, Snapshot};
use crate::model::{IN_CONTEXT, Scope};

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    /// By origin; none when all are open.
    open: Option<Arc<Vec<bool>>>,
    /// Facts that are not there, by entity; none when all are.
    closed_facts: Option<Arc<Vec<bool>>>,
    least_confidence: f32,
}

impl View {
    /// The snapshot as a caller of this scope may see it.
    pub(crate) fn new(snapshot: Arc<Snapshot>, scope: &Scope) -> View {
        let open = snapshot.open_to(scope).map(Arc::new);
        View { snapshot, open, closed_facts: None, least_confidence: 0.0 }
    }

    /// The same without edges of less confidence.
    pub(crate) fn at_least(self, confidence: Option<f32>) -> View {
        View { least_confidence: confidence.unwrap_or(0.0), ..self }
    }

    /// The same without the facts that hold in none of these contexts.
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

    /// Says whether everything can be seen.
    pub(crate) fn is_whole(&self) -> bool {
        self.open.is_none() && self.closed_facts.is_none()
    }

    /// Says whether what an origin states can be seen.
    pub(crate) fn opens(&self, origin: u32) -> bool {
        self.open.as_ref().is_none_or(|open| open[origin as usize])
    }

    /// Says whether an entity can be seen.
    pub(crate) fn sees(&self, node: Ix) -> bool {
        let stated = || self.snapshot.holders.of(node).iter().any(|it| self.opens(it.origin));
        let holds = self.closed_facts.as_ref().is_none_or(|closed| !closed[node as usize]);
        holds && (self.open.is_none() || stated())
    }

    /// Says whether an edge can be seen, its ends aside.
    pub(crate) fn sees_edge(&self, edge: EdgeIx) -> bool {
        let holds = || {
            let closed = self.closed_facts.as_ref()?;
            self.snapshot.fact_of(edge).map(|fact| !closed[fact as usize])
        };
        self.snapshot.confidence(edge) >= self.least_confidence
            && self.opens(self.snapshot.origin_of[edge as usize])
            && holds().unwrap_or(true)
    }

    /// Edges that leave an entity and can be seen, with their targets.
    pub(crate) fn leaving(&self, node: Ix) -> impl Iterator<Item = (EdgeIx, Ix)> {
        self.seen(self.snapshot.leaving(node), Snapshot::target)
    }

    /// Edges that reach an entity and can be seen, with their sources.
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

    /// Those of some edges that can be seen, with the end that is asked for.
    fn seen<'a>(
        &'a self,
        edges: impl Iterator<Item = EdgeIx> + 'a,
        end: fn(&Snapshot, EdgeIx) -> Ix,
    ) -> impl Iterator<Item = (EdgeIx, Ix)> + 'a {
        let ends = edges.filter(move |it| self.sees_edge(*it)).map(move |it| (it, end(&self.snapshot, it)));
        ends.filter(move |(_, node)| self.sees(*node))
    }

    /// Attributes of an entity that can be seen, the name left out; each once.
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

    /// Values of an attribute, `name` among them.
    pub(crate) fn values<'a>(&'a self, node: Ix, key: &'a str) -> impl Iterator<Item = &'a str> {
        let name = (key == "name").then(|| self.snapshot.name(node));
        let attributes = self.snapshot.attributes(node);
        let others =
            attributes.filter(move |(it, _, origin)| *it == key && self.opens(*origin)).map(|(_, value, _)| value);
        name.into_iter().chain(others)
    }

    /// Every entity that can be seen, by number.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Ix> {
        (0..self.snapshot.nodes() as Ix).filter(move |it| self.sees(*it))
    }

    /// Entities that a name means: those of exactly this name, else the one of this key, else those of this name in any
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

    /// Entities with a value of this attribute that passes. Each value is looked at once, however many have it. Sorted.
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

    /// Entities with exactly this value of an attribute. Sorted.
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
