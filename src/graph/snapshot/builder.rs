//! Builds a [`Snapshot`]: the first one from all sources, later ones from the previous snapshot and the changed sources.
//!
//! A source is a file, a folder or a part of an import. A statement is what one source says about an entity or an edge. The
//! first snapshot extends an empty one, so both cases use the same code. The builder drops the statements of changed and
//! deleted sources, adds their new ones, and copies all other statements without reading their sources. The result depends
//! only on the current sources, not on earlier changes:
//!
//! - sources are ordered by their numbers in the store, entities by their ids, types and relations by name, and edges with
//!   the same ends and relation by source, then by position in the source;
//! - an entity keeps the statements of all its sources, because the first one counts and may be dropped later;
//! - an edge keeps the names of its ends if they are not the keys of the resolved entities. Edges with an unresolved end
//!   are in a separate list. An edge is resolved again only if a name of its ends may now mean another entity, because an
//!   entity with this key, an alias of this name, or an entity with such an alias was added or dropped;
//! - schemas are kept with their sources: the first of several schemas with the same name counts, and may be dropped later.
//!
//! Only the numbers of strings depend on earlier changes, so no visible result may depend on their order. Strings are never
//! removed; [`Snapshot::has_excess_strings`] reports when so many are unused that a full rebuild is better.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::{Error, ErrorCode, Result};
use crate::graph::snapshot::interner::{InternerBuilder, Symbol};
use crate::graph::snapshot::{Alias, EdgeStatement, EndNames, EvidenceSpan, Label, Snapshot, SourceInfo};
use crate::model::{GraphEdge, GraphNode, GraphPart, GraphSchema, GraphSource};

/// Maximum number of types and of relations, because they have 16-bit numbers. More are an error.
const MAX_LABELS: usize = u16::MAX as usize;

/// Collects the changes that lead from one snapshot to the next.
#[derive(Default)]
pub struct Builder {
    pub(in crate::graph) old: Arc<Snapshot>,
    pub(in crate::graph) symbols: InternerBuilder,
    pub(in crate::graph) labels: Labels,
    pub(in crate::graph) relations: Labels,
    pub(in crate::graph) changes: Changes,
}

/// The new statements of the changed sources. Each field `origin` is an index into `origins`.
#[derive(Default)]
pub(in crate::graph) struct Changes {
    /// Numbers of the sources whose old statements are dropped.
    pub(in crate::graph) outdated: HashSet<i64>,
    pub(in crate::graph) origins: Vec<Arc<SourceInfo>>,
    pub(in crate::graph) schemas: Vec<(u32, Arc<GraphSchema>)>,
    pub(in crate::graph) entities: Vec<NewEntity>,
    /// Attributes (key and value) of all entities, grouped by entity.
    pub(in crate::graph) attributes: Vec<(Symbol, Symbol)>,
    pub(in crate::graph) aliases: Vec<Alias>,
    pub(in crate::graph) edges: Vec<EdgeStatement>,
}

/// An entity as one changed source states it.
pub(in crate::graph) struct NewEntity {
    pub(in crate::graph) id: u32,
    pub(in crate::graph) origin: u32,
    pub(in crate::graph) key: Symbol,
    pub(in crate::graph) name: Symbol,
    pub(in crate::graph) label: u16,
    pub(in crate::graph) fact: bool,
    /// The attributes of the entity, as a range of [`Changes::attributes`].
    pub(in crate::graph) attributes: (usize, usize),
}

/// Types or relations by number: first those of the old snapshot, then new ones.
#[derive(Default)]
pub(in crate::graph) struct Labels {
    pub(in crate::graph) all: Vec<Label>,
    numbers: HashMap<Label, u16>,
}

impl Labels {
    fn extending(known: &[Label]) -> Labels {
        Labels { all: known.to_vec(), numbers: known.iter().copied().zip(0..).collect() }
    }

    fn add(&mut self, label: Label) -> Result<u16> {
        if let Some(number) = self.numbers.get(&label) {
            return Ok(*number);
        }
        if self.all.len() == MAX_LABELS {
            let message = format!("the graph has more than {MAX_LABELS} types or relations");
            return Err(Error::new(ErrorCode::ResourceExhausted, message)
                .hint("store values as attributes, not as types or relations"));
        }
        let number = self.all.len() as u16;
        self.all.push(label);
        self.numbers.insert(label, number);
        Ok(number)
    }
}

impl Builder {
    /// Returns a builder whose snapshot will be `old` with the changes that are added to the builder.
    pub fn extending(old: Arc<Snapshot>) -> Builder {
        Builder {
            symbols: InternerBuilder::extending(&old.symbols),
            labels: Labels::extending(&old.labels),
            relations: Labels::extending(&old.relations),
            changes: Changes::default(),
            old,
        }
    }

    /// Drops all statements of a source, so that the next snapshot does not have them.
    pub fn drop_source(&mut self, number: i64) {
        self.changes.outdated.insert(number);
    }

    /// Replaces all statements of a source. Sources must be added in the order of their numbers; `id` returns the id of the
    /// entity with a key.
    ///
    /// # Errors
    /// The graph has too many types or relations.
    pub fn add_source(
        &mut self,
        number: i64,
        source: &GraphSource,
        part: GraphPart,
        id: impl Fn(&str) -> Option<u32>,
    ) -> Result<()> {
        self.drop_source(number);
        let origin = self.changes.origins.len() as u32;
        let path = (!source.path.is_empty()).then(|| source.path.clone().into());
        self.changes.origins.push(Arc::new(SourceInfo { number, name: source.name.clone(), path }));
        for node in part.nodes {
            // Never skips a node: every key got an id when the part was stored.
            if let Some(id) = id(&node.key) {
                self.add_entity(&node, id, origin)?;
            }
        }
        for (alias, key) in &part.aliases {
            let alias = Alias { alias: self.symbols.add(alias), key: self.symbols.add(key), origin };
            self.changes.aliases.push(alias);
        }
        for (edge, place) in part.edges.iter().zip(0..) {
            self.add_edge(edge, origin, place)?;
        }
        self.changes.schemas.extend(part.schemas.into_iter().map(|it| (origin, Arc::new(it))));
        Ok(())
    }

    fn intern_label(&mut self, schema: &str, name: &str) -> Label {
        Label { schema: self.symbols.add(schema), name: self.symbols.add(name) }
    }

    fn add_entity(&mut self, node: &GraphNode, id: u32, origin: u32) -> Result<()> {
        let label = self.intern_label(&node.schema, &node.entity_type);
        let begin = self.changes.attributes.len();
        for (key, value) in &node.attributes {
            let pair = (self.symbols.add(key), self.symbols.add(value));
            self.changes.attributes.push(pair);
        }
        self.changes.entities.push(NewEntity {
            id,
            origin,
            key: self.symbols.add(&node.key),
            name: self.symbols.add(&node.name),
            label: self.labels.add(label)?,
            fact: node.fact,
            attributes: (begin, self.changes.attributes.len()),
        });
        Ok(())
    }

    fn add_edge(&mut self, edge: &GraphEdge, origin: u32, place: u32) -> Result<()> {
        let label = self.intern_label(&edge.schema, &edge.relation);
        let relation = self.relations.add(label)?;
        let attributes = edge.attributes.iter().map(|(key, value)| (self.symbols.add(key), self.symbols.add(value)));
        let attributes = attributes.collect();
        let evidence = edge.evidence.as_ref();
        let evidence =
            evidence.map(|it| EvidenceSpan { chunk: self.symbols.add(&it.chunk_id), start: it.start, end: it.end });
        let named = EndNames {
            source: self.symbols.add(&edge.source),
            target: self.symbols.add(&edge.target),
            fact: edge.fact.as_deref().map(|it| self.symbols.add(it)),
        };
        let confidence = edge.confidence;
        self.changes.edges.push(EdgeStatement {
            ends: named,
            relation,
            confidence,
            origin,
            position: place,
            evidence,
            attributes,
        });
        Ok(())
    }
}
