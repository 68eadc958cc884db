//! Merges the previous snapshot with the changes of its sources; see [`crate::graph::snapshot::builder`] for the rules.

use std::collections::HashSet;
use std::sync::Arc;

use crate::graph::snapshot::builder::{Builder, Changes, Labels, NewEntity};
use crate::graph::snapshot::interner::{Interner, Symbol};
use crate::graph::snapshot::resolve::EndResolver;
use crate::graph::snapshot::schema::SchemaSet;
use crate::graph::snapshot::{
    Alias, CsrRows, EdgeIx, EdgeStatement, EndNames, EntityStatement, Label, NodeIx, Snapshot, SourceInfo,
};

/// In the maps from old to new numbers, marks an item that is not in the next snapshot and so has no new number.
pub(in crate::graph) const DELETED: u32 = u32::MAX;

/// An edge whose ends are resolved to entities.
struct ResolvedEdge {
    source: NodeIx,
    target: NodeIx,
    fact: Option<NodeIx>,
    statement: EdgeStatement,
}

/// The next snapshot while it is built. The maps convert numbers of the old snapshot, and of the changes, to numbers of the
/// next snapshot.
struct Merger {
    old: Arc<Snapshot>,
    /// For each item of the old `origins`, its index in the new `origins`, or `DELETED`.
    origins: Vec<u32>,
    labels: Vec<u16>,
    relations: Vec<u16>,
    /// For each entity of the old snapshot, its index in the next one, or `DELETED`.
    nodes: Vec<NodeIx>,
    /// For each string, whether an entity or alias of this name was added or deleted, so that its edges are resolved again.
    touched: Vec<bool>,
    next: Snapshot,
}

impl Builder {
    /// Builds the next snapshot from the old one and the changes.
    pub fn build(self) -> Snapshot {
        let Builder { old, symbols, labels, relations, changes: mut said } = self;
        let symbols = symbols.build();
        let (all, kept, new) = merge_origins(&old, &said.outdated, std::mem::take(&mut said.origins));
        said.renumber(&new);
        said.entities.sort_by_key(|it| (it.id, it.origin));
        // If a source states the same entity several times, only its first statement counts.
        let first = said.entities.chunk_by(|one, other| (one.id, one.origin) == (other.id, other.origin));
        let stated = first.map(|it| it[0].label);
        let lives = |origin: u32| kept[origin as usize] != DELETED;
        let holders = old.statements.values.iter().filter(|it| lives(it.origin)).map(|it| it.label);
        let (label_names, labels) = used_in_order(labels, holders.chain(stated), &symbols);
        let joined = old.relation_of.iter().zip(&old.origin_of).filter(|it| lives(*it.1)).map(|it| *it.0);
        let open = old.unresolved.iter().filter(|it| lives(it.origin)).map(|it| it.relation);
        let used = joined.chain(open).chain(said.edges.iter().map(|it| it.relation));
        let (relation_names, relations) = used_in_order(relations, used, &symbols);
        let next =
            Snapshot { origins: all, labels: label_names, relations: relation_names, symbols, ..Snapshot::default() };
        let places = vec![DELETED; old.nodes()];
        let touched = vec![false; next.symbols.len()];
        let mut weaver = Merger { old, origins: kept, labels, relations, nodes: places, touched, next };
        weaver.merge_schemas(std::mem::take(&mut said.schemas));
        weaver.merge_entities(&said.entities, &said.attributes);
        weaver.merge_aliases(&said.aliases);
        weaver.merge_edges(said.edges);
        weaver.next
    }
}

impl Changes {
    /// Replaces each `origin`, an index into the changed sources, by the index of this source in the next snapshot.
    fn renumber(&mut self, places: &[u32]) {
        let place = |origin: &mut u32| *origin = places[*origin as usize];
        self.entities.iter_mut().for_each(|it| place(&mut it.origin));
        self.aliases.iter_mut().for_each(|it| place(&mut it.origin));
        self.edges.iter_mut().for_each(|it| place(&mut it.origin));
        self.schemas.iter_mut().for_each(|it| place(&mut it.0));
    }
}

/// Merges the sources of the old snapshot, except `gone`, with the new ones, sorted by number. Also returns the new index
/// of each old and of each new source.
fn merge_origins(
    old: &Snapshot,
    gone: &HashSet<i64>,
    new: Vec<Arc<SourceInfo>>,
) -> (Vec<Arc<SourceInfo>>, Vec<u32>, Vec<u32>) {
    let mut all: Vec<Arc<SourceInfo>> = Vec::with_capacity(old.origins.len() + new.len());
    let (mut kept, mut added) = (Vec::with_capacity(old.origins.len()), Vec::with_capacity(new.len()));
    let mut new = new.into_iter().peekable();
    for origin in &old.origins {
        while let Some(next) = new.next_if(|it| it.number <= origin.number) {
            added.push(all.len() as u32);
            all.push(next);
        }
        match gone.contains(&origin.number) {
            true => kept.push(DELETED),
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

/// Returns the labels that are used, sorted by name, and a map from old to new numbers of labels.
fn used_in_order(labels: Labels, used: impl Iterator<Item = u16>, symbols: &Interner) -> (Vec<Label>, Vec<u16>) {
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

/// Merges two sorted sequences. Of equal items, those of the first sequence come first.
fn merge_sorted<T, K: Ord>(
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

/// Statements and attributes of the entities merged so far, each with the entity that it belongs to.
#[derive(Default)]
struct CollectedRows {
    holder_of: Vec<NodeIx>,
    holders: Vec<EntityStatement>,
    attribute_of: Vec<NodeIx>,
    attributes: Vec<(Symbol, Symbol, u32)>,
}

impl Merger {
    fn new_origin(&self, old: u32) -> Option<u32> {
        Some(self.origins[old as usize]).filter(|it| *it != DELETED)
    }

    fn merge_schemas(&mut self, new: Vec<(u32, Arc<crate::model::GraphSchema>)>) {
        let kept = self.old.schemas.iter().filter_map(|(origin, it)| Some((self.new_origin(*origin)?, it.clone())));
        let all: Vec<_> = merge_sorted(kept, new.into_iter(), |it| it.0).collect();
        self.next.schema = SchemaSet::new(all.iter().map(|it| it.1.clone()));
        self.next.schemas = all;
    }

    /// Merges old and new statements about entities, ordered by the id of the entity, then by origin.
    fn merge_entities(&mut self, said: &[NewEntity], attributes: &[(Symbol, Symbol)]) {
        let mut groups = said.chunk_by(|one, other| one.id == other.id).peekable();
        let mut collected = CollectedRows::default();
        let old = self.old.clone();
        for node in 0..old.nodes() as NodeIx {
            let id = old.id(node);
            while let Some(group) = groups.next_if(|it| it[0].id < id) {
                self.merge_entity(None, group, attributes, &mut collected);
            }
            let group = groups.next_if(|it| it[0].id == id).unwrap_or_default();
            self.merge_entity(Some(node), group, attributes, &mut collected);
        }
        groups.for_each(|group| self.merge_entity(None, group, attributes, &mut collected));
        let nodes = self.next.ids.len();
        self.next.statements = CsrRows::from_sorted(nodes, &collected.holder_of, collected.holders);
        self.next.attributes = CsrRows::from_sorted(nodes, &collected.attribute_of, collected.attributes);
        self.next.index_nodes();
    }

    /// Adds an entity with its remaining old statements and its new ones; skips it if it has neither.
    fn merge_entity(
        &mut self,
        known: Option<NodeIx>,
        group: &[NewEntity],
        pairs: &[(Symbol, Symbol)],
        collected: &mut CollectedRows,
    ) {
        let (first, node) = (collected.holders.len(), self.next.ids.len() as NodeIx);
        let label = |it: u16| self.labels[it as usize];
        if let Some(known) = known {
            let kept = self.old.statements.row(known).iter().filter_map(|it| {
                Some(EntityStatement { origin: self.new_origin(it.origin)?, label: label(it.label), ..*it })
            });
            collected.holders.extend(kept);
        }
        if !group.is_empty() {
            let new = |it: &NewEntity| EntityStatement {
                origin: it.origin,
                name: it.name,
                label: label(it.label),
                fact: it.fact,
            };
            collected.holders.extend(group.iter().map(new));
            collected.holders[first..].sort_by_key(|it| it.origin);
            dedup_tail(&mut collected.holders, first, |it| it.origin);
        }
        let key = known.map_or_else(|| group[0].key, |it| self.old.keys[it as usize]);
        let Some(holder) = collected.holders.get(first).copied() else {
            self.touched[key as usize] = true;
            return;
        };
        match known {
            Some(known) => self.nodes[known as usize] = node,
            None => self.touched[key as usize] = true,
        }
        collected.holder_of.resize(collected.holders.len(), node);
        self.merge_attributes(known, group, pairs, collected);
        collected.attribute_of.resize(collected.attributes.len(), node);
        let next = &mut self.next;
        next.ids.push(known.map_or_else(|| group[0].id, |it| self.old.id(it)));
        next.keys.push(key);
        next.names.push(holder.name);
        next.label_of.push(holder.label);
        next.is_fact_of.push(holder.fact);
    }

    /// Merges the old and new attributes of an entity, sorted by the texts of key and value.
    fn merge_attributes(
        &self,
        known: Option<NodeIx>,
        group: &[NewEntity],
        pairs: &[(Symbol, Symbol)],
        collected: &mut CollectedRows,
    ) {
        let first = collected.attributes.len();
        if let Some(known) = known {
            let rows = self.old.attributes.row(known).iter();
            let kept = rows.filter_map(|(key, value, origin)| Some((*key, *value, self.new_origin(*origin)?)));
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
        dedup_tail(&mut collected.attributes, first, |it| *it);
    }

    fn merge_aliases(&mut self, new: &[Alias]) {
        let mut all = Vec::with_capacity(self.old.aliases.len() + new.len());
        for it in &self.old.aliases {
            match self.origins[it.origin as usize] {
                DELETED => self.touched[it.alias as usize] = true,
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

    fn merge_edges(&mut self, mut said: Vec<EdgeStatement>) {
        said.iter_mut().for_each(|it| it.relation = self.relations[it.relation as usize]);
        let old = self.old.clone();
        let (again, kept): (Vec<&EdgeStatement>, Vec<&EdgeStatement>) =
            old.unresolved.iter().partition(|it| self.may_resolve_differently(&it.ends));
        said.extend(again.into_iter().filter_map(|it| self.renumber(it.clone())));
        let mut open: Vec<EdgeStatement> = kept.into_iter().filter_map(|it| self.renumber(it.clone())).collect();
        let moved = EdgeStatements::iterate(&old).filter(|it| self.may_resolve_differently(&it.statement.ends));
        said.extend(moved.filter_map(|it| self.renumber(it.statement)));
        let mut new = Vec::with_capacity(said.len());
        {
            let mut ends = EndResolver::new(&self.next);
            for it in said {
                match ends.resolve(&it) {
                    Some((source, target, fact)) => new.push(ResolvedEdge { source, target, fact, statement: it }),
                    None => open.push(it),
                }
            }
        }
        open.sort_by_key(|it| (it.origin, it.position));
        open.shrink_to_fit();
        self.next.unresolved = open;
        let order = |it: &ResolvedEdge| {
            (it.source, it.statement.relation, it.target, it.statement.origin, it.statement.position)
        };
        new.sort_unstable_by_key(order);
        self.copy_edges(&old, new, order);
    }

    /// Copies the edges whose ends are unchanged, merged with the newly resolved ones.
    fn copy_edges<K: Ord>(&mut self, old: &Snapshot, new: Vec<ResolvedEdge>, order: impl Fn(&ResolvedEdge) -> K) {
        let mut next = std::mem::take(&mut self.next);
        let place = |it: NodeIx| self.nodes[it as usize];
        let stays = EdgeStatements::iterate(old)
            .filter(|it| !self.may_resolve_differently(&it.statement.ends))
            .filter_map(|it| {
                let said = self.renumber(it.statement)?;
                Some(ResolvedEdge {
                    source: place(it.source),
                    target: place(it.target),
                    fact: it.fact.map(place),
                    statement: said,
                })
            });
        let most = old.edges() + new.len();
        let mut targets = next.reserve_edges(most);
        merge_sorted(stays, new.into_iter(), order).for_each(|it| next.push_edge(it, &mut targets));
        next.index_edges(targets);
        self.next = next;
    }

    fn may_resolve_differently(&self, named: &EndNames) -> bool {
        let touched = |it: Symbol| self.touched[it as usize];
        touched(named.source) || touched(named.target) || named.fact.is_some_and(touched)
    }

    /// Translates a statement of the old snapshot to the numbers of the next one; `None` if its source was dropped.
    fn renumber(&self, said: EdgeStatement) -> Option<EdgeStatement> {
        let origin = self.new_origin(said.origin)?;
        Some(EdgeStatement { origin, relation: self.relations[said.relation as usize], ..said })
    }
}

/// Like `dedup_by_key`, but for the items from index `first` on; items with equal keys must be adjacent.
fn dedup_tail<T: Copy, K: PartialEq>(all: &mut Vec<T>, first: usize, key: impl Fn(&T) -> K) {
    let mut end = first;
    for at in first..all.len() {
        if end == first || key(&all[end - 1]) != key(&all[at]) {
            all[end] = all[at];
            end += 1;
        }
    }
    all.truncate(end);
}

/// Iterator over the edges of a snapshot as their sources state them, in the order of the snapshot.
struct EdgeStatements<'a> {
    snapshot: &'a Snapshot,
    next: EdgeIx,
    // The rest of each list of optional values: the entries of the edges that are still to be visited.
    evidence: &'a [(EdgeIx, crate::graph::snapshot::EvidenceSpan)],
    attributes: &'a [(EdgeIx, Symbol, Symbol)],
    derived: &'a [(EdgeIx, NodeIx)],
    named: &'a [(EdgeIx, EndNames)],
}

impl<'a> EdgeStatements<'a> {
    fn iterate(snapshot: &'a Snapshot) -> EdgeStatements<'a> {
        EdgeStatements {
            snapshot,
            next: 0,
            evidence: &snapshot.evidence,
            attributes: &snapshot.edge_attributes,
            derived: &snapshot.fact_of_edge,
            named: &snapshot.named_ends,
        }
    }
}

impl Iterator for EdgeStatements<'_> {
    type Item = ResolvedEdge;

    fn next(&mut self) -> Option<ResolvedEdge> {
        let (snapshot, edge) = (self.snapshot, self.next);
        if edge as usize == snapshot.edges() {
            return None;
        }
        self.next += 1;
        let (source, target) = (snapshot.source(edge), snapshot.target(edge));
        let fact = split_prefix(&mut self.derived, |it| it.0 == edge).first().map(|it| it.1);
        let named = split_prefix(&mut self.named, |it| it.0 == edge).first().map(|it| it.1);
        let at = edge as usize;
        let said = EdgeStatement {
            ends: named.unwrap_or_else(|| snapshot.end_keys(source, target, fact)),
            relation: snapshot.relation_of[at],
            confidence: snapshot.confidences[at],
            origin: snapshot.origin_of[at],
            position: snapshot.positions[at],
            evidence: split_prefix(&mut self.evidence, |it| it.0 == edge).first().map(|it| it.1),
            attributes: split_prefix(&mut self.attributes, |it| it.0 == edge).iter().map(|it| (it.1, it.2)).collect(),
        };
        Some(ResolvedEdge { source, target, fact, statement: said })
    }
}

/// Removes the leading items that satisfy `passes` from a list, and returns them.
fn split_prefix<'a, T>(list: &mut &'a [T], passes: impl Fn(&T) -> bool) -> &'a [T] {
    let (taken, rest) = list.split_at(list.iter().take_while(|it| passes(it)).count());
    *list = rest;
    taken
}

impl Snapshot {
    fn end_keys(&self, source: NodeIx, target: NodeIx, fact: Option<NodeIx>) -> EndNames {
        let key = |it: NodeIx| self.keys[it as usize];
        EndNames { source: key(source), target: key(target), fact: fact.map(key) }
    }

    fn index_nodes(&mut self) {
        let (nodes, symbols) = (self.ids.len() as NodeIx, self.symbols.len());
        self.by_label = CsrRows::from_unsorted(self.labels.len(), 0..nodes, |it| self.label_of[it as usize].into());
        self.by_name = CsrRows::from_unsorted(symbols, 0..nodes, |it| self.names[it as usize]).values;
        self.by_key = CsrRows::from_unsorted(symbols, 0..nodes, |it| self.keys[it as usize]).values;
        let rows = (0..nodes).flat_map(|node| self.attributes.row(node).iter().map(move |it| (it.0, it.1, node)));
        let by_value = CsrRows::from_unsorted(symbols, rows, |it| it.1).values;
        self.by_attribute = CsrRows::from_unsorted(symbols, by_value.iter().copied(), |it| it.0).values;
        self.by_attribute.dedup();
    }

    /// Reserves memory for this many edges, and returns a buffer for their targets.
    fn reserve_edges(&mut self, edges: usize) -> Vec<NodeIx> {
        self.sources.reserve_exact(edges);
        self.relation_of.reserve_exact(edges);
        self.confidences.reserve_exact(edges);
        self.origin_of.reserve_exact(edges);
        self.positions.reserve_exact(edges);
        Vec::with_capacity(edges)
    }

    /// Adds the next edge; edges must come in the order of the snapshot.
    fn push_edge(&mut self, edge: ResolvedEdge, targets: &mut Vec<NodeIx>) {
        let ResolvedEdge { source, target, fact, statement: said } = edge;
        let number = self.sources.len() as EdgeIx;
        self.sources.push(source);
        targets.push(target);
        self.relation_of.push(said.relation);
        self.confidences.push(said.confidence);
        self.origin_of.push(said.origin);
        self.positions.push(said.position);
        self.evidence.extend(said.evidence.map(|it| (number, it)));
        self.fact_of_edge.extend(fact.map(|it| (number, it)));
        self.edge_attributes.extend(said.attributes.iter().map(|(key, value)| (number, *key, *value)));
        if self.end_keys(source, target, fact) != said.ends {
            self.named_ends.push((number, said.ends));
        }
    }

    fn index_edges(&mut self, targets: Vec<NodeIx>) {
        let (nodes, edges) = (self.ids.len(), self.sources.len() as EdgeIx);
        self.outgoing = CsrRows::from_sorted(nodes, &self.sources, targets);
        self.evidence.shrink_to_fit();
        self.by_relation =
            CsrRows::from_unsorted(self.relations.len(), 0..edges, |it| self.relation_of[it as usize].into());
        self.incoming = CsrRows::from_unsorted(nodes, self.by_relation.values.iter().copied(), |it| self.target(it));
    }
}
