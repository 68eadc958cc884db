//! The whole graph at one moment: immutable, compact, in memory, and shared by all queries.
//!
//! Entities and edges are array indices, and strings are interned. Edges are sorted by source, relation and target (CSR),
//! with a second index by target and one by relation. An edge takes some 30 bytes besides its evidence.
//! [`crate::graph::snapshot::builder::Builder`] builds each snapshot from the previous one. For that, a snapshot also has
//! data that queries do not use, e.g. what each file or import states about an entity.

pub mod builder;
pub(in crate::graph) mod interner;
pub(in crate::graph) mod merge;
pub(in crate::graph) mod resolve;
pub(in crate::graph) mod schema;
pub(in crate::graph) mod view;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::graph::snapshot::interner::{Interner, Symbol};
use crate::graph::snapshot::schema::SchemaSet;
use crate::model::{GraphSchema, Scope};

/// Index of an entity in the arrays of a snapshot. The number that users see is [`Snapshot::id`].
pub(crate) type NodeIx = u32;
/// Index of an edge in the arrays of a snapshot.
pub(crate) type EdgeIx = u32;

/// If unused strings outnumber the used ones by more than this, the snapshot is rebuilt from the store without them.
const MAX_UNUSED_STRINGS: usize = 10_000;

/// The qualified name of a type or a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label {
    pub(crate) schema: Symbol,
    pub(crate) name: Symbol,
}

/// Rows of values in compressed sparse row form (CSR): row `n` is `values[starts[n]..starts[n + 1]]`.
#[derive(Debug, Default)]
pub(crate) struct CsrRows<T> {
    pub(crate) starts: Vec<u32>,
    pub(crate) values: Vec<T>,
}

impl<T: Copy> CsrRows<T> {
    /// Makes rows from values sorted by row; `of` has the row of each value, in the same order.
    pub(crate) fn from_sorted(items: usize, of: &[u32], mut values: Vec<T>) -> CsrRows<T> {
        values.shrink_to_fit();
        CsrRows { starts: row_starts(items, of.iter().copied()), values }
    }

    /// Makes rows from unsorted values; within a row, values stay in the order of the input.
    pub(crate) fn from_unsorted(
        items: usize,
        values: impl Iterator<Item = T> + Clone,
        of: impl Fn(T) -> u32,
    ) -> CsrRows<T> {
        let starts = row_starts(items, values.clone().map(&of));
        let mut next = starts.clone();
        let mut placed: Vec<T> = values.clone().collect();
        for value in values {
            let at = &mut next[of(value) as usize];
            placed[*at as usize] = value;
            *at += 1;
        }
        CsrRows { starts, values: placed }
    }

    pub(crate) fn range(&self, item: u32) -> Range<usize> {
        self.starts[item as usize] as usize..self.starts[item as usize + 1] as usize
    }

    pub(crate) fn row(&self, item: u32) -> &[T] {
        &self.values[self.range(item)]
    }

    fn bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>() + self.values.capacity() * size_of::<T>()
    }
}

/// Returns the start of each row in the array of values, and the end of the last row.
fn row_starts(items: usize, of: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut starts = vec![0; items + 1];
    of.for_each(|item| starts[item as usize + 1] += 1);
    for at in 0..items {
        starts[at + 1] += starts[at];
    }
    starts
}

/// The evidence of an edge: the range of a chunk in which the edge was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EvidenceSpan {
    pub(crate) chunk: Symbol,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A source of the graph (a file, folder or import): its name, and the path that decides which scopes include it.
#[derive(Debug)]
pub(crate) struct SourceInfo {
    /// Number of the source in the store; the sources of a snapshot are sorted by it.
    pub(crate) number: i64,
    pub(crate) name: String,
    /// Path of the file or folder; `None` for imports, which only the owner sees.
    pub(crate) path: Option<PathBuf>,
}

/// What one source states about an entity. Of several sources, the first one determines name and type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntityStatement {
    pub(crate) origin: u32,
    pub(crate) name: Symbol,
    pub(crate) label: u16,
    pub(crate) fact: bool,
}

/// An alias: another name of an entity, which edges may use for one of their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alias {
    pub(crate) alias: Symbol,
    pub(crate) key: Symbol,
    pub(crate) origin: u32,
}

/// The ends of an edge as its source names them: by the keys or aliases of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndNames {
    pub(crate) source: Symbol,
    pub(crate) target: Symbol,
    pub(crate) fact: Option<Symbol>,
}

/// An edge as its source states it, before its ends are resolved.
#[derive(Clone, Debug)]
pub(crate) struct EdgeStatement {
    pub(crate) ends: EndNames,
    pub(crate) relation: u16,
    pub(crate) confidence: f32,
    pub(crate) origin: u32,
    /// Position of the edge among the edges of its source.
    pub(crate) position: u32,
    pub(crate) evidence: Option<EvidenceSpan>,
    pub(crate) attributes: Box<[(Symbol, Symbol)]>,
}

/// The whole graph at one moment; see the module docs.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub(super) symbols: Interner,
    pub(super) schema: SchemaSet,
    pub(super) origins: Vec<Arc<SourceInfo>>,
    // Types (`labels`) and relations, each sorted by qualified name.
    pub(super) labels: Vec<Label>,
    pub(super) relations: Vec<Label>,
    // Columns of the table of entities, sorted by id.
    pub(super) ids: Vec<u32>,
    pub(super) keys: Vec<Symbol>,
    pub(super) names: Vec<Symbol>,
    pub(super) label_of: Vec<u16>,
    pub(super) is_fact_of: Vec<bool>,
    pub(super) statements: CsrRows<EntityStatement>,
    pub(super) attributes: CsrRows<(Symbol, Symbol, u32)>,
    // Indexes to find entities by type, name, key and attribute.
    pub(super) by_label: CsrRows<NodeIx>,
    pub(super) by_name: Vec<NodeIx>,
    pub(super) by_key: Vec<NodeIx>,
    pub(super) by_attribute: Vec<(Symbol, Symbol, NodeIx)>,
    // Columns of the table of edges, sorted by source, relation, target.
    pub(super) outgoing: CsrRows<NodeIx>,
    pub(super) sources: Vec<NodeIx>,
    pub(super) relation_of: Vec<u16>,
    pub(super) confidences: Vec<f32>,
    pub(super) origin_of: Vec<u32>,
    pub(super) incoming: CsrRows<EdgeIx>,
    pub(super) by_relation: CsrRows<EdgeIx>,
    // Optional values of edges, stored only for the edges that have them, sorted by edge.
    pub(super) evidence: Vec<(EdgeIx, EvidenceSpan)>,
    pub(super) edge_attributes: Vec<(EdgeIx, Symbol, Symbol)>,
    pub(super) fact_of_edge: Vec<(EdgeIx, NodeIx)>,
    // Data that only the builder of the next snapshot needs.
    pub(super) schemas: Vec<(u32, Arc<GraphSchema>)>,
    pub(super) aliases: Vec<Alias>,
    pub(super) positions: Vec<u32>,
    /// Edges with an end that a file or import names by an alias, not by its key; with the names of both ends.
    pub(super) named_ends: Vec<(EdgeIx, EndNames)>,
    /// Edges with an end that no entity matches yet, sorted by origin and position. Queries do not see them.
    pub(super) unresolved: Vec<EdgeStatement>,
}

impl Snapshot {
    /// Returns the number of entities.
    pub fn nodes(&self) -> usize {
        self.ids.len()
    }

    /// Returns the number of edges.
    pub fn edges(&self) -> usize {
        self.sources.len()
    }

    /// Returns the estimated number of bytes on the heap.
    pub fn bytes(&self) -> usize {
        let words = self.ids.capacity() + self.keys.capacity() + self.names.capacity() + self.by_name.capacity();
        let words = words + self.by_key.capacity() + self.sources.capacity() + self.origin_of.capacity();
        let words = words + self.positions.capacity();
        let halves = self.label_of.capacity() + self.relation_of.capacity();
        let rows = self.statements.bytes() + self.attributes.bytes() + self.by_label.bytes() + self.outgoing.bytes();
        let rows = rows + self.incoming.bytes() + self.by_relation.bytes();
        let few = self.evidence.capacity() * size_of::<(EdgeIx, EvidenceSpan)>()
            + self.edge_attributes.capacity() * size_of::<(EdgeIx, Symbol, Symbol)>()
            + self.fact_of_edge.capacity() * size_of::<(EdgeIx, NodeIx)>()
            + self.by_attribute.capacity() * size_of::<(Symbol, Symbol, NodeIx)>()
            + self.aliases.capacity() * size_of::<Alias>()
            + self.named_ends.capacity() * size_of::<(EdgeIx, EndNames)>()
            + self.unresolved.capacity() * size_of::<EdgeStatement>();
        let origins: usize = self.origins.iter().map(|it| size_of::<SourceInfo>() + it.name.len() * 2).sum();
        let confidences = self.confidences.capacity() * size_of::<f32>();
        words * 4 + halves * 2 + self.is_fact_of.capacity() + rows + few + origins + confidences + self.symbols.bytes()
    }

    /// Returns whether unused strings outnumber used ones by more than [`MAX_UNUSED_STRINGS`].
    pub(super) fn has_excess_strings(&self) -> bool {
        let mut is_used = vec![false; self.symbols.len()];
        let mut mark = |it: Symbol| is_used[it as usize] = true;
        self.labels.iter().chain(&self.relations).flat_map(|it| [it.schema, it.name]).for_each(&mut mark);
        self.keys.iter().copied().for_each(&mut mark);
        self.statements.values.iter().for_each(|it| mark(it.name));
        self.attributes.values.iter().flat_map(|it| [it.0, it.1]).for_each(&mut mark);
        self.aliases.iter().flat_map(|it| [it.alias, it.key]).for_each(&mut mark);
        self.evidence.iter().for_each(|it| mark(it.1.chunk));
        self.edge_attributes.iter().flat_map(|it| [it.1, it.2]).for_each(&mut mark);
        let said = self.unresolved.iter();
        said.clone().flat_map(|it| &it.attributes).flat_map(|it| [it.0, it.1]).for_each(&mut mark);
        said.clone().filter_map(|it| it.evidence).for_each(|it| mark(it.chunk));
        let named = self.named_ends.iter().map(|it| it.1).chain(said.map(|it| it.ends));
        named.flat_map(|it| [Some(it.source), Some(it.target), it.fact]).flatten().for_each(&mut mark);
        let used = is_used.into_iter().filter(|it| *it).count();
        self.symbols.len() > used * 2 + MAX_UNUSED_STRINGS
    }

    pub(crate) fn id(&self, node: NodeIx) -> u32 {
        self.ids[node as usize]
    }

    pub(crate) fn node_by_id(&self, id: u32) -> Option<NodeIx> {
        self.ids.binary_search(&id).ok().map(|it| it as NodeIx)
    }

    pub(crate) fn key(&self, node: NodeIx) -> &str {
        self.symbols.get(self.keys[node as usize])
    }

    pub(crate) fn name(&self, node: NodeIx) -> &str {
        self.symbols.get(self.names[node as usize])
    }

    /// Returns the type of an entity without the name of its schema.
    pub(crate) fn type_name(&self, node: NodeIx) -> &str {
        self.symbols.get(self.labels[self.label_of[node as usize] as usize].name)
    }

    pub(crate) fn is_fact(&self, node: NodeIx) -> bool {
        self.is_fact_of[node as usize]
    }

    /// Returns the attributes of an entity, except its name: key, value, and index in `origins` of the stating source.
    pub(crate) fn attributes(&self, node: NodeIx) -> impl Iterator<Item = (&str, &str, u32)> {
        let get = |it: Symbol| self.symbols.get(it);
        self.attributes.row(node).iter().map(move |(key, value, origin)| (get(*key), get(*value), *origin))
    }

    pub(crate) fn relation_name(&self, edge: EdgeIx) -> &str {
        self.symbols.get(self.relations[self.relation_of[edge as usize] as usize].name)
    }

    pub(crate) fn source(&self, edge: EdgeIx) -> NodeIx {
        self.sources[edge as usize]
    }

    pub(crate) fn target(&self, edge: EdgeIx) -> NodeIx {
        self.outgoing.values[edge as usize]
    }

    pub(crate) fn confidence(&self, edge: EdgeIx) -> f32 {
        self.confidences[edge as usize]
    }

    /// Returns the outgoing edges of an entity, sorted by relation.
    pub(crate) fn outgoing_edges(&self, node: NodeIx) -> Range<EdgeIx> {
        let range = self.outgoing.range(node);
        range.start as EdgeIx..range.end as EdgeIx
    }

    /// Returns the outgoing edges of an entity that have this relation, sorted by target.
    pub(crate) fn outgoing_by_relation(&self, node: NodeIx, relation: u16) -> Range<EdgeIx> {
        let range = self.outgoing.range(node);
        let relations = &self.relation_of[range.clone()];
        let start = range.start + relations.partition_point(|it| *it < relation);
        let end = range.start + relations.partition_point(|it| *it <= relation);
        start as EdgeIx..end as EdgeIx
    }

    /// Returns the incoming edges of an entity, sorted by relation.
    pub(crate) fn incoming_edges(&self, node: NodeIx) -> &[EdgeIx] {
        self.incoming.row(node)
    }

    /// Returns the incoming edges of an entity that have this relation, sorted by source.
    pub(crate) fn incoming_by_relation(&self, node: NodeIx, relation: u16) -> &[EdgeIx] {
        let edges = self.incoming.row(node);
        let start = edges.partition_point(|it| self.relation_of[*it as usize] < relation);
        let end = edges.partition_point(|it| self.relation_of[*it as usize] <= relation);
        &edges[start..end]
    }

    /// Returns all edges of a relation, sorted by source.
    pub(crate) fn edges_of_relation(&self, relation: u16) -> &[EdgeIx] {
        self.by_relation.row(relation.into())
    }

    /// Returns the entities with exactly this type, without those of its subtypes.
    pub(crate) fn nodes_of_type(&self, label: u16) -> &[NodeIx] {
        self.by_label.row(label.into())
    }

    pub(crate) fn evidence(&self, edge: EdgeIx) -> Option<EvidenceSpan> {
        self.evidence.binary_search_by_key(&edge, |it| it.0).ok().map(|at| self.evidence[at].1)
    }

    pub(crate) fn edge_attributes(&self, edge: EdgeIx) -> impl Iterator<Item = (&str, &str)> {
        let start = self.edge_attributes.partition_point(|it| it.0 < edge);
        let rest = self.edge_attributes[start..].iter().take_while(move |it| it.0 == edge);
        rest.map(|(_, key, value)| (self.symbols.get(*key), self.symbols.get(*value)))
    }

    /// Returns the fact that an edge was derived from, if any.
    pub(crate) fn fact_of(&self, edge: EdgeIx) -> Option<NodeIx> {
        self.fact_of_edge.binary_search_by_key(&edge, |it| it.0).ok().map(|at| self.fact_of_edge[at].1)
    }

    /// Returns the entities with exactly this name, sorted by index.
    pub(crate) fn nodes_named(&self, name: &str) -> &[NodeIx] {
        self.symbols.find(name).map_or(&[], |it| self.nodes_with_name(it))
    }

    /// As [`Snapshot::nodes_named`], for the symbol of a name.
    pub(crate) fn nodes_with_name(&self, symbol: Symbol) -> &[NodeIx] {
        let start = self.by_name.partition_point(|it| self.names[*it as usize] < symbol);
        let end = self.by_name.partition_point(|it| self.names[*it as usize] <= symbol);
        &self.by_name[start..end]
    }

    /// Returns the entity with this key, if any.
    pub(crate) fn node_by_key(&self, key: &str) -> Option<NodeIx> {
        self.node_with_key(self.symbols.find(key)?)
    }

    /// As [`Snapshot::node_by_key`], for the symbol of a key.
    pub(crate) fn node_with_key(&self, symbol: Symbol) -> Option<NodeIx> {
        let at = self.by_key.binary_search_by_key(&symbol, |it| self.keys[*it as usize]).ok()?;
        Some(self.by_key[at])
    }

    /// Returns the values of an attribute with the entities that have them, sorted by value: (key, value, entity).
    pub(crate) fn with_attribute(&self, key: &str) -> &[(Symbol, Symbol, NodeIx)] {
        let Some(symbol) = self.symbols.find(key) else { return &[] };
        let start = self.by_attribute.partition_point(|it| it.0 < symbol);
        let end = self.by_attribute.partition_point(|it| it.0 <= symbol);
        &self.by_attribute[start..end]
    }

    /// Returns a type or relation as users write it: `S.T` if it belongs to a schema `S`, else `T`.
    pub(crate) fn qualified_name(&self, label: Label) -> String {
        match (self.symbols.get(label.schema), self.symbols.get(label.name)) {
            ("", name) => name.to_string(),
            (schema, name) => format!("{schema}.{name}"),
        }
    }

    /// Returns the numbers of the types that a name denotes, including the subtypes of these types.
    pub(crate) fn type_numbers(&self, name: &str) -> Vec<u16> {
        let mut wanted: Vec<(String, String)> = Vec::new();
        for (schema, bare) in self.schema.types(name) {
            wanted.extend(self.schema.subtypes(schema, bare).into_iter().map(|it| (schema.to_string(), it)));
        }
        let means = |label: &Label| {
            let (schema, bare) = (self.symbols.get(label.schema), self.symbols.get(label.name));
            name_matches(schema, bare, name) || wanted.iter().any(|it| it.0 == schema && it.1 == bare)
        };
        matching_numbers(&self.labels, means)
    }

    /// Returns the numbers of the relations that a name denotes; several if schemas declare the same name.
    pub(crate) fn relation_numbers(&self, name: &str) -> Vec<u16> {
        let means = |label: &Label| name_matches(self.symbols.get(label.schema), self.symbols.get(label.name), name);
        matching_numbers(&self.relations, means)
    }

    /// Returns for each item of `origins` whether a scope includes it; `None` if the scope includes all.
    pub(crate) fn visible_origins(&self, scope: &Scope) -> Option<Vec<bool>> {
        let covered = |it: &Arc<SourceInfo>| it.path.as_deref().is_some_and(|path| scope.covers(path));
        (!scope.is_all()).then(|| self.origins.iter().map(covered).collect())
    }
}

fn matching_numbers(labels: &[Label], means: impl Fn(&Label) -> bool) -> Vec<u16> {
    labels.iter().enumerate().filter(|(_, label)| means(label)).map(|(number, _)| number as u16).collect()
}

/// Returns whether a name denotes a type or relation: `T` matches in any schema, `S.T` only in schema `S`.
fn name_matches(schema: &str, bare: &str, name: &str) -> bool {
    bare == name || (!schema.is_empty() && name.strip_prefix(schema).and_then(|it| it.strip_prefix('.')) == Some(bare))
}
