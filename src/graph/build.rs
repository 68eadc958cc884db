//! Parts to a [`Snapshot`]: the first one out of all parts, the next one out of the present one and the parts that changed.
//!
//! There is one way for both, as the first one is the next after an empty one. What the sources that are gone or changed said
//! is left out, what they say now is added; everything else is copied in order, without a look at the parts that it came
//! from. So that a snapshot is the same whichever way it came about,
//!
//! - sources are in the order of their numbers in the store, entities in that of their own, types and relations in that of
//!   what they are called, and edges of the same ends and relation in that of their sources, then of their places there;
//! - an entity keeps what each of its sources says of it, because the first one counts and may go;
//! - an edge keeps the names of its ends where they are not the keys of what they led to, and one that lacks an end is kept
//!   aside. Names lead elsewhere only when an entity of that key, or an alias of that name, or an entity of such an alias,
//!   came or went: the edges that have one of these names are looked up again, and no others;
//! - schemas are kept with their sources, because the first of a name counts.
//!
//! Numbers of strings are the one thing that differs, and nothing that is seen may depend on their order. Strings are only
//! ever added; [`Snapshot::is_worn`] says when so many are of nobody any more that it is better made from all parts again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::{Error, ErrorCode, Result};
use crate::graph::snapshot::{Alias, Found, Label, Named, Origin, Snapshot, Statement};
use crate::graph::symbols::{Symbol, SymbolBuilder};
use crate::model::{GraphEdge, GraphNode, GraphPart, GraphSchema, GraphSource};

/// Types, and relations, are counted in 16 bits.
const MOST_LABELS: usize = u16::MAX as usize;

/// Collects changes of a snapshot.
#[derive(Default)]
pub struct Builder {
    pub(super) old: Arc<Snapshot>,
    pub(super) symbols: SymbolBuilder,
    pub(super) labels: Labels,
    pub(super) relations: Labels,
    pub(super) said: Said,
}

/// What the changed sources say now. Origins are places in `origins`.
#[derive(Default)]
pub(super) struct Said {
    /// Sources that do not say any more what they said.
    pub(super) gone: HashSet<i64>,
    pub(super) origins: Vec<Arc<Origin>>,
    pub(super) schemas: Vec<(u32, Arc<GraphSchema>)>,
    pub(super) entities: Vec<Entity>,
    /// Attributes of entities, each's beside each other.
    pub(super) attributes: Vec<(Symbol, Symbol)>,
    pub(super) aliases: Vec<Alias>,
    pub(super) edges: Vec<Statement>,
}

/// An entity as a source states it.
pub(super) struct Entity {
    pub(super) id: u32,
    pub(super) origin: u32,
    pub(super) key: Symbol,
    pub(super) name: Symbol,
    pub(super) label: u16,
    pub(super) fact: bool,
    /// Its attributes, as a range of all.
    pub(super) attributes: (usize, usize),
}

/// Labels by number: those of the old snapshot, then new ones.
#[derive(Default)]
pub(super) struct Labels {
    pub(super) all: Vec<Label>,
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
            return Err(Error::new(ErrorCode::ResourceExhausted, message).hint("use attributes for what is a value"));
        }
        let number = self.all.len() as u16;
        self.all.push(label);
        self.numbers.insert(label, number);
        Ok(number)
    }
}

impl Builder {
    /// Begins with what a snapshot says.
    pub fn on(old: Arc<Snapshot>) -> Builder {
        Builder {
            symbols: SymbolBuilder::on(&old.symbols),
            labels: Labels::on(&old.labels),
            relations: Labels::on(&old.relations),
            said: Said::default(),
            old,
        }
    }

    /// Leaves out what a source says.
    pub fn leave_out(&mut self, number: i64) {
        self.said.gone.insert(number);
    }

    /// Adds what a source says, instead of what it said. Sources come in the order of their numbers; `id` gives the public
    /// number of a key.
    ///
    /// # Errors
    /// There are too many types or relations.
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
