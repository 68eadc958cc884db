//! A snapshot limited to a scope, to contexts and to a minimum confidence. Callers do not see anything else.

use std::sync::Arc;

use crate::graph::snapshot::interner::Symbol;
use crate::graph::snapshot::schema::{NO_SCHEMAS, SchemaSet};
use crate::graph::snapshot::{EdgeIx, NodeIx, Snapshot};
use crate::model::{IN_CONTEXT, Scope};

/// A snapshot without the entities and edges that the caller must not see. Cheap to clone.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    /// For each source of the graph (file, folder or import), whether it is visible; `None` if all are.
    visible_origins: Option<Arc<Vec<bool>>>,
    /// For each entity, whether it is a hidden fact; `None` if all facts are visible.
    hidden_facts: Option<Arc<Vec<bool>>>,
    min_confidence: f32,
}

impl View {
    /// Limits a snapshot to the statements of the sources in a scope.
    pub(crate) fn new(snapshot: Arc<Snapshot>, scope: &Scope) -> View {
        let visible_origins = snapshot.visible_origins(scope).map(Arc::new);
        View { snapshot, visible_origins, hidden_facts: None, min_confidence: 0.0 }
    }

    /// Also hides the edges below a minimum confidence.
    pub(crate) fn with_min_confidence(self, confidence: Option<f32>) -> View {
        View { min_confidence: confidence.unwrap_or(0.0), ..self }
    }

    /// Also hides the facts that hold in none of these contexts, and the edges derived from them.
    pub(crate) fn with_contexts(self, contexts: &[NodeIx]) -> View {
        let snapshot = &self.snapshot;
        let mut closed = snapshot.is_fact_of.clone();
        for relation in snapshot.relation_numbers(IN_CONTEXT) {
            for context in contexts {
                for edge in snapshot.incoming_by_relation(*context, relation) {
                    closed[snapshot.source(*edge) as usize] = false;
                }
            }
        }
        View { hidden_facts: Some(Arc::new(closed)), ..self }
    }

    /// Returns whether all entities and sources are visible; edges below the minimum confidence may still be hidden.
    pub(crate) fn is_whole(&self) -> bool {
        self.visible_origins.is_none() && self.hidden_facts.is_none()
    }

    /// Returns the schemas that the caller may see. Schemas come from imports, which a caller with a part of the sources does
    /// not see.
    pub(crate) fn schema(&self) -> &SchemaSet {
        match &self.visible_origins {
            None => &self.snapshot.schema,
            Some(_) => &NO_SCHEMAS,
        }
    }

    /// Returns whether the source with this index in `origins` is visible.
    pub(crate) fn is_origin_visible(&self, origin: u32) -> bool {
        self.visible_origins.as_ref().is_none_or(|open| open[origin as usize])
    }

    /// Returns whether an entity is visible: a visible source states it, and it is not a hidden fact.
    pub(crate) fn is_visible(&self, node: NodeIx) -> bool {
        let stated = || self.snapshot.statements.row(node).iter().any(|it| self.is_origin_visible(it.origin));
        let holds = self.hidden_facts.as_ref().is_none_or(|closed| !closed[node as usize]);
        holds && (self.visible_origins.is_none() || stated())
    }

    /// Returns whether an edge is visible; does not check whether the entities at its ends are.
    pub(crate) fn is_edge_visible(&self, edge: EdgeIx) -> bool {
        let holds = || {
            let closed = self.hidden_facts.as_ref()?;
            self.snapshot.fact_of(edge).map(|fact| !closed[fact as usize])
        };
        self.snapshot.confidence(edge) >= self.min_confidence
            && self.is_origin_visible(self.snapshot.origin_of[edge as usize])
            && holds().unwrap_or(true)
    }

    /// Returns the visible outgoing edges of an entity with their targets.
    pub(crate) fn outgoing(&self, node: NodeIx) -> impl Iterator<Item = (EdgeIx, NodeIx)> {
        self.visible_edges(self.snapshot.outgoing_edges(node), Snapshot::target)
    }

    /// Returns the visible incoming edges of an entity with their sources.
    pub(crate) fn incoming(&self, node: NodeIx) -> impl Iterator<Item = (EdgeIx, NodeIx)> {
        self.visible_edges(self.snapshot.incoming_edges(node).iter().copied(), Snapshot::source)
    }

    /// As [`View::outgoing`], but only edges of one relation.
    pub(crate) fn outgoing_by_relation(&self, node: NodeIx, relation: u16) -> impl Iterator<Item = (EdgeIx, NodeIx)> {
        self.visible_edges(self.snapshot.outgoing_by_relation(node, relation), Snapshot::target)
    }

    /// As [`View::incoming`], but only edges of one relation.
    pub(crate) fn incoming_by_relation(&self, node: NodeIx, relation: u16) -> impl Iterator<Item = (EdgeIx, NodeIx)> {
        self.visible_edges(self.snapshot.incoming_by_relation(node, relation).iter().copied(), Snapshot::source)
    }

    /// Keeps the edges that are visible and lead to a visible entity; `end` returns the entity at the other end of an edge.
    fn visible_edges<'a>(
        &'a self,
        edges: impl Iterator<Item = EdgeIx> + 'a,
        end: fn(&Snapshot, EdgeIx) -> NodeIx,
    ) -> impl Iterator<Item = (EdgeIx, NodeIx)> + 'a {
        let ends = edges.filter(move |it| self.is_edge_visible(*it)).map(move |it| (it, end(&self.snapshot, it)));
        ends.filter(move |(_, node)| self.is_visible(*node))
    }

    /// Returns the visible attributes of an entity except its name, without duplicates.
    pub(crate) fn attributes(&self, node: NodeIx) -> Vec<(&str, &str)> {
        let mut pairs: Vec<(&str, &str)> = self
            .snapshot
            .attributes(node)
            .filter(|(_, _, origin)| self.is_origin_visible(*origin))
            .map(|(key, value, _)| (key, value))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Returns the visible values of an attribute of an entity; `name` counts as an attribute too.
    pub(crate) fn values<'a>(&'a self, node: NodeIx, key: &'a str) -> impl Iterator<Item = &'a str> {
        let name = (key == "name").then(|| self.snapshot.name(node));
        let attributes = self.snapshot.attributes(node);
        let others = attributes
            .filter(move |(it, _, origin)| *it == key && self.is_origin_visible(*origin))
            .map(|(_, value, _)| value);
        name.into_iter().chain(others)
    }

    /// Returns all visible entities, sorted by index.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeIx> {
        (0..self.snapshot.nodes() as NodeIx).filter(move |it| self.is_visible(*it))
    }

    /// Returns the visible entities with exactly this name; if there is none, the one with this key. Sorted by index.
    pub(crate) fn named_exactly(&self, name: &str) -> Vec<NodeIx> {
        let seen =
            |nodes: &[NodeIx]| -> Vec<NodeIx> { nodes.iter().copied().filter(|it| self.is_visible(*it)).collect() };
        let named = seen(self.snapshot.nodes_named(name));
        if named.is_empty() { seen(self.snapshot.node_by_key(name).as_slice()) } else { named }
    }

    /// Returns the visible entities with this name ignoring case, sorted by index. Compares all names.
    pub(crate) fn named_ignoring_case(&self, name: &str) -> Vec<NodeIx> {
        let folded = name.to_lowercase();
        self.with_matching_value("name", |value| value.to_lowercase() == folded)
    }

    /// Returns the visible entities whose name or key is the string with this symbol.
    pub(crate) fn called(&self, symbol: Symbol) -> impl Iterator<Item = NodeIx> {
        let keyed = self.snapshot.node_with_key(symbol);
        let named = self.snapshot.nodes_with_name(symbol).iter().copied().filter(move |it| Some(*it) != keyed);
        keyed.into_iter().chain(named).filter(|it| self.is_visible(*it))
    }

    /// Returns whether a visible entity has exactly this type.
    pub(crate) fn has_type(&self, label: u16) -> bool {
        self.snapshot.nodes_of_type(label).iter().any(|it| self.is_visible(*it))
    }

    /// Returns the visible edges of a relation between visible entities, sorted by source.
    pub(crate) fn edges_of_relation(&self, relation: u16) -> impl Iterator<Item = EdgeIx> {
        let snapshot = &self.snapshot;
        snapshot.edges_of_relation(relation).iter().copied().filter(|it| {
            self.is_edge_visible(*it) && self.is_visible(snapshot.source(*it)) && self.is_visible(snapshot.target(*it))
        })
    }

    /// Returns the visible entities with a value of this attribute that `passes` accepts, sorted. Tests equal values once.
    pub(crate) fn with_matching_value(&self, key: &str, passes: impl Fn(&str) -> bool) -> Vec<NodeIx> {
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
        let mut found: Vec<NodeIx> = Vec::new();
        if key == "name" {
            found.extend(snapshot.by_name.iter().filter(|it| look(snapshot.names[**it as usize])));
        }
        let stated = |value: &str, node: NodeIx| self.values(node, key).any(|it| it == value);
        for (_, value, node) in snapshot.with_attribute(key) {
            if look(*value) && (self.visible_origins.is_none() || stated(snapshot.symbols.get(*value), *node)) {
                found.push(*node);
            }
        }
        found.retain(|it| self.is_visible(*it));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the visible entities with exactly this value of an attribute, sorted by index.
    pub(crate) fn with_exact_value(&self, key: &str, value: &str) -> Vec<NodeIx> {
        let snapshot = &self.snapshot;
        let mut found = Vec::new();
        if key == "name" {
            found.extend_from_slice(snapshot.nodes_named(value));
        }
        if let Some(symbol) = snapshot.symbols.find(value) {
            let rows = snapshot.with_attribute(key);
            let start = rows.partition_point(|it| it.1 < symbol);
            found.extend(rows[start..].iter().take_while(|it| it.1 == symbol).map(|it| it.2));
        }
        found.retain(|it| {
            self.is_visible(*it)
                && (self.visible_origins.is_none() || self.values(*it, key).any(|known| known == value))
        });
        found.sort_unstable();
        found.dedup();
        found
    }
}
