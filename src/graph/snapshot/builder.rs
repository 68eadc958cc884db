//! Builds a [`Snapshot`]: the first from all sources, later ones from the present snapshot and the changed sources.
//!
//! Both use the same code, since the first snapshot extends an empty one. The builder drops the statements of changed and
//! deleted sources, adds the new ones, and copies everything else in order without reading its sources. The result does not
//! depend on the history:
//!
//! - sources are ordered by their numbers in the store, entities by theirs, types and relations by name, and edges with the
//!   same ends and relation by source, then by position in it;
//! - an entity keeps the statements of all its sources, because the first one counts and may go;
//! - an edge keeps the names of its ends where they are not the keys of the resolved entities, and an edge without a
//!   resolved end is kept apart. A name resolves differently only after an entity with that key, an alias with that name,
//!   or an entity of such an alias came or went. Only edges with such names are resolved again;
//! - schemas are kept with their sources, because the first of a name counts.
//!
//! Only string numbers differ, and no visible result may depend on their order. Strings are never removed;
//! [`Snapshot::is_worn`] reports when so many are unused that a full rebuild is better.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::{Error, ErrorCode, Result};
use crate::graph::snapshot::interner::{Symbol, SymbolBuilder};
use crate::graph::snapshot::{Alias, Found, Label, Named, Origin, Snapshot, Statement};
use crate::model::{GraphEdge, GraphNode, GraphPart, GraphSchema, GraphSource};

/// Types and relations have 16-bit numbers.
const MOST_LABELS: usize = u16::MAX as usize;

/// Collects changes of a snapshot.
#[derive(Default)]
pub struct Builder {
    pub(in crate::graph) old: Arc<Snapshot>,
    pub(in crate::graph) symbols: SymbolBuilder,
    pub(in crate::graph) labels: Labels,
    pub(in crate::graph) relations: Labels,
    pub(in crate::graph) said: Said,
}

/// The present statements of the changed sources. Origins are indexes into `origins`.
#[derive(Default)]
pub(in crate::graph) struct Said {
    /// Sources with outdated statements.
    pub(in crate::graph) gone: HashSet<i64>,
    pub(in crate::graph) origins: Vec<Arc<Origin>>,
    pub(in crate::graph) schemas: Vec<(u32, Arc<GraphSchema>)>,
    pub(in crate::graph) entities: Vec<Entity>,
    /// Attributes, grouped by entity.
    pub(in crate::graph) attributes: Vec<(Symbol, Symbol)>,
    pub(in crate::graph) aliases: Vec<Alias>,
    pub(in crate::graph) edges: Vec<Statement>,
}

/// An entity as stated by one source.
pub(in crate::graph) struct Entity {
    pub(in crate::graph) id: u32,
    pub(in crate::graph) origin: u32,
    pub(in crate::graph) key: Symbol,
    pub(in crate::graph) name: Symbol,
    pub(in crate::graph) label: u16,
    pub(in crate::graph) fact: bool,
    /// Its attributes, as a range of [`Said::attributes`].
    pub(in crate::graph) attributes: (usize, usize),
}

/// Labels by number: those of the old snapshot, then new ones.
#[derive(Default)]
pub(in crate::graph) struct Labels {
    pub(in crate::graph) all: Vec<Label>,
    numbers: HashMap<Label, u16>,
}

impl Labels {
    fn on(known: &[Label]) -> Labels {
        Labels { all: known.to_vec(), numbers: known.iter().copied().zip(0..).collect() }
    }

    fn add(&mut self, label: Label) -> Result<u16> {
        if let Some(number) = self.numbers.get(&label) {
            return Ok(*number);
        }
        if self.all.len() == MOST_LABELS {
            let message = format!("the graph has more than {MOST_LABELS} types or relations");
            return Err(Error::new(ErrorCode::ResourceExhausted, message).hint("use attributes for values"));
        }
        let number = self.all.len() as u16;
        self.all.push(label);
        self.numbers.insert(label, number);
        Ok(number)
    }
}

impl Builder {
    /// Starts from a snapshot.
    pub fn on(old: Arc<Snapshot>) -> Builder {
        Builder {
            symbols: SymbolBuilder::on(&old.symbols),
            labels: Labels::on(&old.labels),
            relations: Labels::on(&old.relations),
            said: Said::default(),
            old,
        }
    }

    /// Drops the statements of a source.
    pub fn leave_out(&mut self, number: i64) {
        self.said.gone.insert(number);
    }

    /// Replaces the statements of a source. Sources must come in the order of their numbers; `id` returns the public number
    /// of a key.
    ///
    /// # Errors
    /// Too many types or relations.
    pub fn add(
        &mut self,
        number: i64,
        source: &GraphSource,
        part: GraphPart,
        id: impl Fn(&str) -> Option<u32>,
    ) -> Result<()> {
        self.leave_out(number);
        let origin = self.said.origins.len() as u32;
        let path = (!source.path.is_empty()).then(|| source.path.clone().into());
        self.said.origins.push(Arc::new(Origin { number, name: source.name.clone(), path }));
        for node in part.nodes {
            // Every key got a number when its part was stored.
            if let Some(id) = id(&node.key) {
                self.entity(&node, id, origin)?;
            }
        }
        for (alias, key) in &part.aliases {
            let alias = Alias { alias: self.symbols.add(alias), key: self.symbols.add(key), origin };
            self.said.aliases.push(alias);
        }
        for (edge, place) in part.edges.iter().zip(0..) {
            self.edge(edge, origin, place)?;
        }
        self.said.schemas.extend(part.schemas.into_iter().map(|it| (origin, Arc::new(it))));
        Ok(())
    }

    fn label(&mut self, schema: &str, name: &str) -> Label {
        Label { schema: self.symbols.add(schema), name: self.symbols.add(name) }
    }

    fn entity(&mut self, node: &GraphNode, id: u32, origin: u32) -> Result<()> {
        let label = self.label(&node.schema, &node.entity_type);
        let begin = self.said.attributes.len();
        for (key, value) in &node.attributes {
            let pair = (self.symbols.add(key), self.symbols.add(value));
            self.said.attributes.push(pair);
        }
        self.said.entities.push(Entity {
            id,
            origin,
            key: self.symbols.add(&node.key),
            name: self.symbols.add(&node.name),
            label: self.labels.add(label)?,
            fact: node.fact,
            attributes: (begin, self.said.attributes.len()),
        });
        Ok(())
    }

    fn edge(&mut self, edge: &GraphEdge, origin: u32, place: u32) -> Result<()> {
        let label = self.label(&edge.schema, &edge.relation);
        let relation = self.relations.add(label)?;
        let attributes = edge.attributes.iter().map(|(key, value)| (self.symbols.add(key), self.symbols.add(value)));
        let attributes = attributes.collect();
        let evidence = edge.evidence.as_ref();
        let evidence = evidence.map(|it| Found { chunk: self.symbols.add(&it.chunk_id), start: it.start, end: it.end });
        let named = Named {
            source: self.symbols.add(&edge.source),
            target: self.symbols.add(&edge.target),
            fact: edge.fact.as_deref().map(|it| self.symbols.add(it)),
        };
        let confidence = edge.confidence;
        self.said.edges.push(Statement { named, relation, confidence, origin, place, evidence, attributes });
        Ok(())
    }
}
