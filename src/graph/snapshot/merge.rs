//! Merges the previous snapshot with the statements of changed sources; see [`crate::graph::snapshot::builder`] for the rules.

use std::collections::HashSet;
use std::sync::Arc;

use crate::graph::snapshot::builder::{Builder, Entity, Labels, Said};
use crate::graph::snapshot::interner::{Symbol, Symbols};
use crate::graph::snapshot::resolve::Ends;
use crate::graph::snapshot::schema::Schema;
use crate::graph::snapshot::{Alias, EdgeIx, Holder, Ix, Label, Named, Origin, Rows, Snapshot, Statement};

/// Replaces the number of a deleted item.
pub(in crate::graph) const GONE: u32 = u32::MAX;

/// An edge with resolved ends.
struct Edge {
    source: Ix,
    target: Ix,
    fact: Option<Ix>,
    said: Statement,
}

/// Maps numbers of the old snapshot and of the changes to those of the next one.
struct Weaver {
    old: Arc<Snapshot>,
    /// New numbers of old origins.
    origins: Vec<u32>,
    labels: Vec<u16>,
    relations: Vec<u16>,
    /// New numbers of old entities.
    places: Vec<Ix>,
    /// By symbol: names that may resolve differently now.
    touched: Vec<bool>,
    next: Snapshot,
}

impl Builder {
    /// Builds the snapshot.
    pub fn build(self) -> Snapshot {
        let Builder { old, symbols, labels, relations, mut said } = self;
        let symbols = symbols.build();
        let (all, kept, new) = origins(&old, &said.gone, std::mem::take(&mut said.origins));
        said.renumber(&new);
        said.entities.sort_by_key(|it| (it.id, it.origin));
        // A repeated statement of one source about an entity is ignored.
        let first = said.entities.chunk_by(|one, other| (one.id, one.origin) == (other.id, other.origin));
        let stated = first.map(|it| it[0].label);
        let lives = |origin: u32| kept[origin as usize] != GONE;
        let holders = old.holders.values.iter().filter(|it| lives(it.origin)).map(|it| it.label);
        let (label_names, labels) = in_order(labels, holders.chain(stated), &symbols);
        let joined = old.relation_of.iter().zip(&old.origin_of).filter(|it| lives(*it.1)).map(|it| *it.0);
        let open = old.open.iter().filter(|it| lives(it.origin)).map(|it| it.relation);
        let used = joined.chain(open).chain(said.edges.iter().map(|it| it.relation));
        let (relation_names, relations) = in_order(relations, used, &symbols);
        let next =
            Snapshot { origins: all, labels: label_names, relations: relation_names, symbols, ..Snapshot::default() };
        let places = vec![GONE; old.nodes()];
        let touched = vec![false; next.symbols.len()];
        let mut weaver = Weaver { old, origins: kept, labels, relations, places, touched, next };
        weaver.schemas(std::mem::take(&mut said.schemas));
        weaver.entities(&said.entities, &said.attributes);
        weaver.aliases(&said.aliases);
        weaver.edges(said.edges);
        weaver.next
    }
}

impl Said {
    /// Replaces origin numbers by their positions among all origins.
    fn renumber(&mut self, places: &[u32]) {
        let place = |origin: &mut u32| *origin = places[*origin as usize];
        self.entities.iter_mut().for_each(|it| place(&mut it.origin));
        self.aliases.iter_mut().for_each(|it| place(&mut it.origin));
        self.edges.iter_mut().for_each(|it| place(&mut it.origin));
        self.schemas.iter_mut().for_each(|it| place(&mut it.0));
    }
}

/// Merges old and new origins by number. Returns them with the new positions of the old and of the new ones.
fn origins(old: &Snapshot, gone: &HashSet<i64>, new: Vec<Arc<Origin>>) -> (Vec<Arc<Origin>>, Vec<u32>, Vec<u32>) {
    let mut all: Vec<Arc<Origin>> = Vec::with_capacity(old.origins.len() + new.len());
    let (mut kept, mut added) = (Vec::with_capacity(old.origins.len()), Vec::with_capacity(new.len()));
    let mut new = new.into_iter().peekable();
    for origin in &old.origins {
        while let Some(next) = new.next_if(|it| it.number <= origin.number) {
            added.push(all.len() as u32);
            all.push(next);
        }
        match gone.contains(&origin.number) {
            true => kept.push(GONE),
            false => {
                kept.push(all.len() as u32);
                all.push(origin.clone());
            }
        }
    }
    added.extend(all.len() as u32..(all.len() + new.len()) as u32);
    all.extend(new);
    (all, kept, added)
}

/// Returns the used labels by name, and the new number of each label.
fn in_order(labels: Labels, used: impl Iterator<Item = u16>, symbols: &Symbols) -> (Vec<Label>, Vec<u16>) {
    let mut is_used = vec![false; labels.all.len()];
    used.for_each(|it| is_used[it as usize] = true);
    let called = |it: &u16| {
        let label = labels.all[*it as usize];
        (symbols.get(label.schema), symbols.get(label.name))
    };
    let mut order: Vec<u16> = (0..labels.all.len() as u16).filter(|it| is_used[*it as usize]).collect();
    order.sort_unstable_by(|one, other| called(one).cmp(&called(other)));
    let mut numbers = vec![0; labels.all.len()];
    for (number, it) in order.iter().enumerate() {
        numbers[*it as usize] = number as u16;
    }
    (order.iter().map(|it| labels.all[*it as usize]).collect(), numbers)
}

/// Merges two sorted sequences; equal items of the first come first.
fn merged<T, K: Ord>(
    one: impl Iterator<Item = T>,
    other: impl Iterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = T> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if key(second) < key(first) => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

/// Rows of the collected entities, with the entity of each row.
#[derive(Default)]
struct Collected {
    holder_of: Vec<Ix>,
    holders: Vec<Holder>,
    attribute_of: Vec<Ix>,
    attributes: Vec<(Symbol, Symbol, u32)>,
}

impl Weaver {
    fn origin(&self, old: u32) -> Option<u32> {
        Some(self.origins[old as usize]).filter(|it| *it != GONE)
    }

    fn schemas(&mut self, new: Vec<(u32, Arc<crate::model::GraphSchema>)>) {
        let kept = self.old.schemas.iter().filter_map(|(origin, it)| Some((self.origin(*origin)?, it.clone())));
        let all: Vec<_> = merged(kept, new.into_iter(), |it| it.0).collect();
        self.next.schema = Schema::new(all.iter().map(|it| it.1.clone()));
        self.next.schemas = all;
    }

    /// Merges the statements about entities by number, and those about each entity by origin.
    fn entities(&mut self, said: &[Entity], attributes: &[(Symbol, Symbol)]) {
        let mut groups = said.chunk_by(|one, other| one.id == other.id).peekable();
        let mut collected = Collected::default();
        let old = self.old.clone();
        for node in 0..old.nodes() as Ix {
            let id = old.id(node);
            while let Some(group) = groups.next_if(|it| it[0].id < id) {
                self.entity(None, group, attributes, &mut collected);
            }
            let group = groups.next_if(|it| it[0].id == id).unwrap_or_default();
            self.entity(Some(node), group, attributes, &mut collected);
        }
        groups.for_each(|group| self.entity(None, group, attributes, &mut collected));
        let nodes = self.next.ids.len();
        self.next.holders = Rows::sorted(nodes, &collected.holder_of, collected.holders);
        self.next.attributes = Rows::sorted(nodes, &collected.attribute_of, collected.attributes);
        self.next.index_nodes();
    }

    /// Adds an entity with its remaining and new statements, if it has any.
    fn entity(&mut self, known: Option<Ix>, group: &[Entity], pairs: &[(Symbol, Symbol)], collected: &mut Collected) {
        let (first, node) = (collected.holders.len(), self.next.ids.len() as Ix);
        let label = |it: u16| self.labels[it as usize];
        if let Some(known) = known {
            let kept = self
                .old
                .holders
                .of(known)
                .iter()
                .filter_map(|it| Some(Holder { origin: self.origin(it.origin)?, label: label(it.label), ..*it }));
            collected.holders.extend(kept);
        }
        if !group.is_empty() {
            let new = |it: &Entity| Holder { origin: it.origin, name: it.name, label: label(it.label), fact: it.fact };
            collected.holders.extend(group.iter().map(new));
            collected.holders[first..].sort_by_key(|it| it.origin);
            dedup_from(&mut collected.holders, first, |it| it.origin);
        }
        let key = known.map_or_else(|| group[0].key, |it| self.old.keys[it as usize]);
        let Some(holder) = collected.holders.get(first).copied() else {
            self.touched[key as usize] = true;
            return;
        };
        match known {
            Some(known) => self.places[known as usize] = node,
            None => self.touched[key as usize] = true,
        }
        collected.holder_of.resize(collected.holders.len(), node);
        self.attributes(known, group, pairs, collected);
        collected.attribute_of.resize(collected.attributes.len(), node);
        let next = &mut self.next;
        next.ids.push(known.map_or_else(|| group[0].id, |it| self.old.id(it)));
        next.keys.push(key);
        next.names.push(holder.name);
        next.label_of.push(holder.label);
        next.facts.push(holder.fact);
    }

    /// Merges the attributes of an entity in the order of their texts.
    fn attributes(&self, known: Option<Ix>, group: &[Entity], pairs: &[(Symbol, Symbol)], collected: &mut Collected) {
        let first = collected.attributes.len();
        if let Some(known) = known {
            let rows = self.old.attributes.of(known).iter();
            let kept = rows.filter_map(|(key, value, origin)| Some((*key, *value, self.origin(*origin)?)));
            collected.attributes.extend(kept);
        }
        if group.iter().all(|it| it.attributes.0 == it.attributes.1) {
            return;
        }
        for entity in group {
            let said = &pairs[entity.attributes.0..entity.attributes.1];
            collected.attributes.extend(said.iter().map(|(key, value)| (*key, *value, entity.origin)));
        }
        let symbols = &self.next.symbols;
        let text = |it: &(Symbol, Symbol, u32)| (symbols.get(it.0), symbols.get(it.1), it.2);
        collected.attributes[first..].sort_unstable_by(|one, other| text(one).cmp(&text(other)));
        dedup_from(&mut collected.attributes, first, |it| *it);
    }

    fn aliases(&mut self, new: &[Alias]) {
        let mut all = Vec::with_capacity(self.old.aliases.len() + new.len());
        for it in &self.old.aliases {
            match self.origins[it.origin as usize] {
                GONE => self.touched[it.alias as usize] = true,
                origin => all.push(Alias { origin, ..*it }),
            }
        }
        new.iter().for_each(|it| self.touched[it.alias as usize] = true);
        all.extend_from_slice(new);
        all.sort();
        all.dedup();
        for it in &all {
            if self.touched[it.key as usize] {
                self.touched[it.alias as usize] = true;
            }
        }
        self.next.aliases = all;
    }

    fn edges(&mut self, mut said: Vec<Statement>) {
        said.iter_mut().for_each(|it| it.relation = self.relations[it.relation as usize]);
        let old = self.old.clone();
        let (again, kept): (Vec<&Statement>, Vec<&Statement>) =
            old.open.iter().partition(|it| self.is_touched(&it.named));
        said.extend(again.into_iter().filter_map(|it| self.renumbered(it.clone())));
        let mut open: Vec<Statement> = kept.into_iter().filter_map(|it| self.renumbered(it.clone())).collect();
        let moved = Statements::of(&old).filter(|it| self.is_touched(&it.said.named));
        said.extend(moved.filter_map(|it| self.renumbered(it.said)));
        let mut new = Vec::with_capacity(said.len());
        {
            let mut ends = Ends::new(&self.next);
            for it in said {
                match ends.resolve(&it) {
                    Some((source, target, fact)) => new.push(Edge { source, target, fact, said: it }),
                    None => open.push(it),
                }
            }
        }
        open.sort_by_key(|it| (it.origin, it.place));
        open.shrink_to_fit();
        self.next.open = open;
        let order = |it: &Edge| (it.source, it.said.relation, it.target, it.said.origin, it.said.place);
        new.sort_unstable_by_key(order);
        self.join(&old, new, order);
    }

    /// Copies the edges with unchanged ends, merged with new ones.
    fn join<K: Ord>(&mut self, old: &Snapshot, new: Vec<Edge>, order: impl Fn(&Edge) -> K) {
        let mut next = std::mem::take(&mut self.next);
        let place = |it: Ix| self.places[it as usize];
        let stays = Statements::of(old).filter(|it| !self.is_touched(&it.said.named)).filter_map(|it| {
            let said = self.renumbered(it.said)?;
            Some(Edge { source: place(it.source), target: place(it.target), fact: it.fact.map(place), said })
        });
        let most = old.edges() + new.len();
        let mut targets = next.reserve_edges(most);
        merged(stays, new.into_iter(), order).for_each(|it| next.push_edge(it, &mut targets));
        next.index_edges(targets);
        self.next = next;
    }

    fn is_touched(&self, named: &Named) -> bool {
        let touched = |it: Symbol| self.touched[it as usize];
        touched(named.source) || touched(named.target) || named.fact.is_some_and(touched)
    }

    /// Translates a statement of the old snapshot to new numbers; `None` if its source was dropped.
    fn renumbered(&self, said: Statement) -> Option<Statement> {
        let origin = self.origin(said.origin)?;
        Some(Statement { origin, relation: self.relations[said.relation as usize], ..said })
    }
}

/// As `dedup_by_key`, applied to the items from `first` on, where equal items are adjacent.
fn dedup_from<T: Copy, K: PartialEq>(all: &mut Vec<T>, first: usize, key: impl Fn(&T) -> K) {
    let mut end = first;
    for at in first..all.len() {
        if end == first || key(&all[end - 1]) != key(&all[at]) {
            all[end] = all[at];
            end += 1;
        }
    }
    all.truncate(end);
}

/// Iterates over the edges of a snapshot as stated by their sources, in order.
struct Statements<'a> {
    snapshot: &'a Snapshot,
    next: EdgeIx,
    // Remaining entries of the sparse columns.
    evidence: &'a [(EdgeIx, crate::graph::snapshot::Found)],
    attributes: &'a [(EdgeIx, Symbol, Symbol)],
    derived: &'a [(EdgeIx, Ix)],
    named: &'a [(EdgeIx, Named)],
}

impl<'a> Statements<'a> {
    fn of(snapshot: &'a Snapshot) -> Statements<'a> {
        Statements {
            snapshot,
            next: 0,
            evidence: &snapshot.evidence,
            attributes: &snapshot.edge_attributes,
            derived: &snapshot.derived,
            named: &snapshot.named,
        }
    }
}

impl Iterator for Statements<'_> {
    type Item = Edge;

    fn next(&mut self) -> Option<Edge> {
        let (snapshot, edge) = (self.snapshot, self.next);
        if edge as usize == snapshot.edges() {
            return None;
        }
        self.next += 1;
        let (source, target) = (snapshot.source(edge), snapshot.target(edge));
        let fact = taken(&mut self.derived, |it| it.0 == edge).first().map(|it| it.1);
        let named = taken(&mut self.named, |it| it.0 == edge).first().map(|it| it.1);
        let at = edge as usize;
        let said = Statement {
            named: named.unwrap_or_else(|| snapshot.keys_of(source, target, fact)),
            relation: snapshot.relation_of[at],
            confidence: snapshot.confidences[at],
            origin: snapshot.origin_of[at],
            place: snapshot.places[at],
            evidence: taken(&mut self.evidence, |it| it.0 == edge).first().map(|it| it.1),
            attributes: taken(&mut self.attributes, |it| it.0 == edge).iter().map(|it| (it.1, it.2)).collect(),
        };
        Some(Edge { source, target, fact, said })
    }
}

/// Splits the matching prefix off a list.
fn taken<'a, T>(list: &mut &'a [T], passes: impl Fn(&T) -> bool) -> &'a [T] {
    let (taken, rest) = list.split_at(list.iter().take_while(|it| passes(it)).count());
    *list = rest;
    taken
}

impl Snapshot {
    fn keys_of(&self, source: Ix, target: Ix, fact: Option<Ix>) -> Named {
        let key = |it: Ix| self.keys[it as usize];
        Named { source: key(source), target: key(target), fact: fact.map(key) }
    }

    fn index_nodes(&mut self) {
        let (nodes, symbols) = (self.ids.len() as Ix, self.symbols.len());
        self.by_label = Rows::grouped(self.labels.len(), 0..nodes, |it| self.label_of[it as usize].into());
        self.by_name = Rows::grouped(symbols, 0..nodes, |it| self.names[it as usize]).values;
        self.by_key = Rows::grouped(symbols, 0..nodes, |it| self.keys[it as usize]).values;
        let rows = (0..nodes).flat_map(|node| self.attributes.of(node).iter().map(move |it| (it.0, it.1, node)));
        let by_value = Rows::grouped(symbols, rows, |it| it.1).values;
        self.by_attribute = Rows::grouped(symbols, by_value.iter().copied(), |it| it.0).values;
        self.by_attribute.dedup();
    }

    /// Reserves memory for edges and returns a buffer for their targets.
    fn reserve_edges(&mut self, edges: usize) -> Vec<Ix> {
        self.sources.reserve_exact(edges);
        self.relation_of.reserve_exact(edges);
        self.confidences.reserve_exact(edges);
        self.origin_of.reserve_exact(edges);
        self.places.reserve_exact(edges);
        Vec::with_capacity(edges)
    }

    /// Adds the next edge in order.
    fn push_edge(&mut self, edge: Edge, targets: &mut Vec<Ix>) {
        let Edge { source, target, fact, said } = edge;
        let number = self.sources.len() as EdgeIx;
        self.sources.push(source);
        targets.push(target);
        self.relation_of.push(said.relation);
        self.confidences.push(said.confidence);
        self.origin_of.push(said.origin);
        self.places.push(said.place);
        self.evidence.extend(said.evidence.map(|it| (number, it)));
        self.derived.extend(fact.map(|it| (number, it)));
        self.edge_attributes.extend(said.attributes.iter().map(|(key, value)| (number, *key, *value)));
        if self.keys_of(source, target, fact) != said.named {
            self.named.push((number, said.named));
        }
    }

    fn index_edges(&mut self, targets: Vec<Ix>) {
        let (nodes, edges) = (self.ids.len(), self.sources.len() as EdgeIx);
        self.outgoing = Rows::sorted(nodes, &self.sources, targets);
        self.evidence.shrink_to_fit();
        self.by_relation = Rows::grouped(self.relations.len(), 0..edges, |it| self.relation_of[it as usize].into());
        self.incoming = Rows::grouped(nodes, self.by_relation.values.iter().copied(), |it| self.target(it));
    }
}
