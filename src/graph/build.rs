//! Parts to a [`Snapshot`], in one pass over the parts: texts are interned as they come, ends of edges are looked up when
//! all is there.

use std::collections::HashMap;

use crate::error::{Error, ErrorCode, Result};
use crate::graph::schema::Schema;
use crate::graph::snapshot::{EdgeIx, Found, Ix, Label, Origin, Rows, Snapshot};
use crate::graph::symbols::{Symbol, SymbolBuilder};
use crate::model::{GraphEdge, GraphNode, GraphPart, GraphSchema, GraphSource};

/// Types, and relations, are counted in 16 bits.
const MOST_LABELS: usize = u16::MAX as usize;

/// Collects parts.
#[derive(Default)]
pub struct Builder {
    symbols: SymbolBuilder,
    schemas: Vec<GraphSchema>,
    origins: Vec<Origin>,
    labels: Labels,
    relations: Labels,
    nodes: Vec<RawNode>,
    /// Place in `nodes` by key.
    known: HashMap<Symbol, u32>,
    holders: Vec<(u32, u32)>,
    attributes: Vec<(u32, (Symbol, Symbol, u32))>,
    /// Alias to keys.
    aliases: HashMap<Symbol, Vec<Symbol>>,
    edges: Vec<RawEdge>,
}

#[derive(Default)]
struct Labels {
    all: Vec<Label>,
    numbers: HashMap<Label, u16>,
}

impl Labels {
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

struct RawNode {
    id: u32,
    key: Symbol,
    name: Symbol,
    label: u16,
    fact: bool,
}

struct RawEdge {
    source: Symbol,
    target: Symbol,
    relation: u16,
    confidence: f32,
    origin: u32,
    evidence: Option<Found>,
    fact: Option<Symbol>,
    attributes: Box<[(Symbol, Symbol)]>,
}

impl Builder {
    /// Adds what a source says. `id` gives the public number of a key.
    ///
    /// # Errors
    /// There are too many types or relations.
    pub fn add(&mut self, source: &GraphSource, part: GraphPart, id: impl Fn(&str) -> Option<u32>) -> Result<()> {
        let origin = self.origins.len() as u32;
        let path = (!source.path.is_empty()).then(|| source.path.clone().into());
        self.origins.push(Origin { name: source.name.clone(), path });
        for node in part.nodes {
            // Every key got a number when its part was stored.
            if let Some(id) = id(&node.key) {
                self.node(node, id, origin)?;
            }
        }
        for (alias, key) in part.aliases {
            let (alias, key) = (self.symbols.add(&alias), self.symbols.add(&key));
            self.aliases.entry(alias).or_default().push(key);
        }
        part.edges.into_iter().try_for_each(|edge| self.edge(edge, origin))?;
        self.schemas.extend(part.schemas);
        Ok(())
    }

    fn label(&mut self, schema: &str, name: &str) -> Label {
        Label { schema: self.symbols.add(schema), name: self.symbols.add(name) }
    }

    fn node(&mut self, node: GraphNode, id: u32, origin: u32) -> Result<()> {
        let key = self.symbols.add(&node.key);
        let place = match self.known.get(&key) {
            Some(place) => *place,
            None => {
                let label = self.label(&node.schema, &node.entity_type);
                let (label, name) = (self.labels.add(label)?, self.symbols.add(&node.name));
                let place = self.nodes.len() as u32;
                self.nodes.push(RawNode { id, key, name, label, fact: node.fact });
                self.known.insert(key, place);
                place
            }
        };
        self.holders.push((place, origin));
        for (key, value) in &node.attributes {
            let pair = (self.symbols.add(key), self.symbols.add(value), origin);
            self.attributes.push((place, pair));
        }
        Ok(())
    }

    fn edge(&mut self, edge: GraphEdge, origin: u32) -> Result<()> {
        let label = self.label(&edge.schema, &edge.relation);
        let relation = self.relations.add(label)?;
        let attributes = edge.attributes.iter().map(|(key, value)| (self.symbols.add(key), self.symbols.add(value)));
        let attributes = attributes.collect();
        let evidence =
            edge.evidence.map(|it| Found { chunk: self.symbols.add(&it.chunk_id), start: it.start, end: it.end });
        self.edges.push(RawEdge {
            source: self.symbols.add(&edge.source),
            target: self.symbols.add(&edge.target),
            relation,
            confidence: edge.confidence,
            origin,
            evidence,
            fact: edge.fact.as_deref().map(|it| self.symbols.add(it)),
            attributes,
        });
        Ok(())
    }

    /// Ends the collection: sorts, looks up, indexes. Edges without an end are left out.
    pub fn build(self) -> Snapshot {
        let Builder { symbols, schemas, origins, labels, relations, nodes, known, holders, attributes, aliases, edges } =
            self;
        let (order, place) = order_of(&nodes);
        let mut snapshot = Snapshot {
            symbols: symbols.build(),
            schema: Schema::new(schemas),
            origins,
            labels: labels.all,
            relations: relations.all,
            ids: order.iter().map(|it| nodes[*it as usize].id).collect(),
            keys: order.iter().map(|it| nodes[*it as usize].key).collect(),
            names: order.iter().map(|it| nodes[*it as usize].name).collect(),
            label_of: order.iter().map(|it| nodes[*it as usize].label).collect(),
            facts: order.iter().map(|it| nodes[*it as usize].fact).collect(),
            ..Snapshot::default()
        };
        drop(nodes);
        snapshot.index_nodes(placed(holders, &place), placed(attributes, &place));
        let ends = Ends { known, place, aliases, ids: &snapshot.ids };
        let resolved = ends.resolve(edges);
        snapshot.index_edges(resolved);
        snapshot
    }
}

/// Places of the collected entities in the order of their numbers, and the way back.
fn order_of(nodes: &[RawNode]) -> (Vec<u32>, Vec<Ix>) {
    let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
    order.sort_unstable_by_key(|it| nodes[*it as usize].id);
    let mut place = vec![0; nodes.len()];
    for (ix, raw) in order.iter().enumerate() {
        place[*raw as usize] = ix as Ix;
    }
    (order, place)
}

fn placed<T: Ord>(rows: Vec<(u32, T)>, place: &[Ix]) -> Vec<(Ix, T)> {
    let mut rows: Vec<(Ix, T)> = rows.into_iter().map(|(raw, value)| (place[raw as usize], value)).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Looks up the ends of edges.
struct Ends<'a> {
    known: HashMap<Symbol, u32>,
    place: Vec<Ix>,
    aliases: HashMap<Symbol, Vec<Symbol>>,
    ids: &'a [u32],
}

impl Ends<'_> {
    fn entity(&self, key: Symbol) -> Option<Ix> {
        self.known.get(&key).map(|raw| self.place[*raw as usize])
    }

    /// The entity of a key, else the first that has it as an alias.
    fn find(&self, key: Symbol) -> Option<Ix> {
        let by_alias = || {
            let found = self.aliases.get(&key)?.iter().filter_map(|it| self.entity(*it));
            found.min_by_key(|it| self.ids[*it as usize])
        };
        self.entity(key).or_else(by_alias)
    }

    fn resolve(&self, edges: Vec<RawEdge>) -> Vec<(Ix, Ix, Option<Ix>, RawEdge)> {
        let ends = |edge: RawEdge| {
            let (source, target) = (self.find(edge.source)?, self.find(edge.target)?);
            // A file that shares its content or its name with nobody else is its own alias.
            let loops = source == target && self.entity(edge.target).is_none();
            let fact = edge.fact.and_then(|it| self.find(it));
            (!loops).then_some((source, target, fact, edge))
        };
        edges.into_iter().filter_map(ends).collect()
    }
}

impl Snapshot {
    fn index_nodes(&mut self, holders: Vec<(Ix, u32)>, attributes: Vec<(Ix, (Symbol, Symbol, u32))>) {
        let nodes = self.ids.len();
        self.holders = Rows::new(nodes, holders);
        self.by_attribute = attributes.iter().map(|(node, (key, value, _))| (*key, *value, *node)).collect();
        self.by_attribute.sort_unstable();
        self.by_attribute.dedup();
        self.attributes = Rows::new(nodes, attributes);
        let mut by_label: Vec<(u32, Ix)> =
            self.label_of.iter().zip(0..).map(|(label, node)| (u32::from(*label), node)).collect();
        by_label.sort_unstable();
        self.by_label = Rows::new(self.labels.len(), by_label);
        let sorted_by = |symbols: &[Symbol]| {
            let mut order: Vec<Ix> = (0..nodes as Ix).collect();
            order.sort_by_key(|it| symbols[*it as usize]);
            order
        };
        self.by_name = sorted_by(&self.names);
        self.by_key = sorted_by(&self.keys);
    }

    fn index_edges(&mut self, mut edges: Vec<(Ix, Ix, Option<Ix>, RawEdge)>) {
        edges.sort_by_key(|(source, target, _, edge)| (*source, edge.relation, *target, edge.origin));
        let nodes = self.ids.len();
        self.outgoing = Rows::new(nodes, edges.iter().map(|(source, target, ..)| (*source, *target)));
        self.sources = edges.iter().map(|it| it.0).collect();
        self.relation_of = edges.iter().map(|it| it.3.relation).collect();
        self.confidences = edges.iter().map(|it| it.3.confidence).collect();
        self.origin_of = edges.iter().map(|it| it.3.origin).collect();
        for (number, (_, _, fact, edge)) in (0..).zip(&edges) {
            self.evidence.extend(edge.evidence.map(|it| (number, it)));
            self.derived.extend(fact.map(|it| (number, it)));
            self.edge_attributes.extend(edge.attributes.iter().map(|(key, value)| (number, *key, *value)));
        }
        drop(edges);
        self.evidence.shrink_to_fit();
        let mut order: Vec<EdgeIx> = (0..self.sources.len() as EdgeIx).collect();
        order.sort_by_key(|it| (self.target(*it), self.relation_of[*it as usize]));
        self.incoming = Rows::new(nodes, order.iter().map(|it| (self.target(*it), *it)));
        order.sort_unstable();
        order.sort_by_key(|it| self.relation_of[*it as usize]);
        let by_relation = order.iter().map(|it| (u32::from(self.relation_of[*it as usize]), *it));
        self.by_relation = Rows::new(self.relations.len(), by_relation);
    }
}
