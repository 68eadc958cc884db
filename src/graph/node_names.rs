//! Resolves the names of entities, types and relations in requests: a name, a key, or an id as vic prints it. For a name
//! that the graph does not have, finds near names, which are spelled similarly. Finds only what the caller may see.

use crate::error::{Error, Result};
use crate::graph::semantic_id;
use crate::graph::similar_names::NameSearch;
use crate::graph::snapshot::interner::Symbol;
use crate::graph::snapshot::view::View;
use crate::graph::snapshot::{Label, NodeIx};
use crate::graph::suggest;

/// Maximum number of near (similarly spelled) names in a message about an unknown name.
const MAX_NEAR: usize = 3;
/// Maximum number of characters of an unknown name in a message; the rest is replaced by [`CUT_MARK`].
const MAX_SHOWN_CHARS: usize = 80;
/// Marks a name that a message shows truncated.
const CUT_MARK: char = '…';
/// If an unknown name has at least this many characters, longer names that begin with it count as near.
const MIN_PREFIX_CHARS: usize = 3;
/// Maximum number of strings of the graph that begin with the unknown name and are examined as near names.
const MAX_PREFIXED: usize = 10_000;

/// An id as vic prints it: `File#7`, or `plan.md (File#7)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PrintedId<'a> {
    label: Option<&'a str>,
    type_name: &'a str,
    id: u32,
}

impl<'a> PrintedId<'a> {
    fn parse(text: &'a str) -> Option<PrintedId<'a>> {
        let text = text.trim();
        let labelled = text.strip_suffix(')').and_then(|it| it.rsplit_once(" ("));
        let (label, id) = labelled.map_or((None, text), |(label, id)| (Some(label.trim_matches('`')), id));
        let (type_name, digits) = id.rsplit_once('#')?;
        let is_id = !type_name.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
        Some(PrintedId { label, type_name, id: digits.parse().ok().filter(|_| is_id)? })
    }

    /// Returns the visible entity with this number, if it has the type and the label (`plan.md`) of the printed id.
    fn node(&self, view: &View) -> Option<NodeIx> {
        let snapshot = &view.snapshot;
        let node = snapshot.node_by_id(self.id).filter(|it| view.is_visible(*it))?;
        let is_label = |label: &str| {
            let begin = label.strip_suffix(CUT_MARK);
            let is_it = |it: &str| it.trim_matches('`') == label || begin.is_some_and(|begin| it.starts_with(begin));
            is_it(snapshot.name(node)) || is_it(snapshot.key(node))
        };
        let is_typed = is_type(view, snapshot.label_of[node as usize], self.type_name);
        (is_typed && self.label.is_none_or(is_label)).then_some(node)
    }
}

/// Returns whether a type is the one that a name denotes: its name, its name with the schema, or its short code.
fn is_type(view: &View, label: u16, name: &str) -> bool {
    let snapshot = &view.snapshot;
    let label = snapshot.labels[label as usize];
    semantic_id::type_matches(snapshot.symbols.get(label.name), name) || snapshot.qualified_name(label) == name
}

/// Returns the numbers of the visible types that a name denotes, with their subtypes.
pub(crate) fn visible_types(view: &View, name: &str) -> Vec<u16> {
    let snapshot = &view.snapshot;
    let subtypes = snapshot.type_numbers(name);
    let all = (0..snapshot.labels.len() as u16).filter(|it| subtypes.contains(it) || is_type(view, *it, name));
    all.filter(|it| view.has_type(*it)).collect()
}

/// Returns the numbers of the visible relations that a name denotes.
pub(crate) fn visible_relations(view: &View, name: &str) -> Vec<u16> {
    let numbers = view.snapshot.relation_numbers(name);
    numbers.into_iter().filter(|it| view.edges_of_relation(*it).next().is_some()).collect()
}

/// Returns the visible entities that a name denotes without comparing all names: those with this name, or else with this
/// key, id as printed, or path.
pub(crate) fn resolve_exactly(view: &View, name: &str) -> Vec<NodeIx> {
    let named = view.named_exactly(name);
    if !named.is_empty() {
        return named;
    }
    match PrintedId::parse(name).and_then(|it| it.node(view)) {
        Some(node) => vec![node],
        None if name.contains(std::path::is_separator) => view.with_exact_value("path", name),
        None => Vec::new(),
    }
}

/// As [`resolve_exactly`]; if there is none, returns the entities with this name ignoring case.
pub(crate) fn resolve(view: &View, name: &str) -> Vec<NodeIx> {
    let found = resolve_exactly(view, name);
    if found.is_empty() { view.named_ignoring_case(name) } else { found }
}

/// Returns the visible entities with this name, key, path or id; at least one.
///
/// # Errors
/// `NotFound` with the near names if there is none.
pub(crate) fn find_entities(view: &View, name: &str) -> Result<Vec<NodeIx>> {
    let found = resolve(view, name);
    if !found.is_empty() {
        return Ok(found);
    }
    let numbered =
        name.trim().parse().ok().and_then(|it| view.snapshot.node_by_id(it)).filter(|it| view.is_visible(*it));
    numbered.map(|it| vec![it]).ok_or_else(|| {
        let message = unknown_nodes(view, &[name]).concat();
        Error::not_found(message).hint("`vic graph tool lookup_entity` finds names, `vic graph stats` lists the types")
    })
}

/// Returns the single entity with this name, key, path or id.
///
/// # Errors
/// As [`find_entities`]; `InvalidArgument` with the ids if there are several.
pub(crate) fn find_entity(view: &View, name: &str) -> Result<NodeIx> {
    let found = find_entities(view, name)?;
    match found.as_slice() {
        [node] => Ok(*node),
        several => {
            let ids: Vec<String> =
                several.iter().take(MAX_NEAR + 2).map(|it| format!("`{}`", typed_id(view, *it))).collect();
            Err(Error::invalid(format!("{} entities are named `{}`", several.len(), shorten(name)))
                .hint(format!("use an id: {}", ids.join(", "))))
        }
    }
}

/// Returns the id of an entity as vic prints it: `File#7`.
pub(crate) fn typed_id(view: &View, node: NodeIx) -> String {
    format!("{}#{}", view.snapshot.type_name(node), view.snapshot.id(node))
}

/// Returns an entity as vic prints it, e.g. `plan.md (File#7)`: its semantic id if it has one, else its name.
pub(crate) fn printed(view: &View, node: NodeIx) -> String {
    format!("{} ({})", label(view, node), typed_id(view, node))
}

fn label(view: &View, node: NodeIx) -> &str {
    let key = view.snapshot.key(node);
    if semantic_id::is_semantic_id(key) { key } else { view.snapshot.name(node) }
}

/// Returns the key of the entity that a text denotes if it is an id as vic prints it, e.g. `File#7`.
pub(crate) fn key_of_printed_id<'a>(view: &'a View, text: &str) -> Option<&'a str> {
    PrintedId::parse(text).and_then(|it| it.node(view)).map(|it| view.snapshot.key(it))
}

/// Returns whether a text looks like the id of an entity of a type that the graph has.
pub(crate) fn is_id_of_known_type(view: &View, text: &str) -> bool {
    PrintedId::parse(text).is_some_and(|it| !visible_types(view, it.type_name).is_empty())
}

/// Returns for each name the sentence that no entity has it, with the near ones: "there is no node `Foo`; near: `Food`
/// (Concept#12)".
pub(crate) fn unknown_nodes(view: &View, names: &[&str]) -> Vec<String> {
    let message = |(name, near): (&&str, Vec<NodeIx>)| {
        let near: Vec<String> =
            near.into_iter().map(|it| format!("`{}` ({})", shorten(label(view, it)), typed_id(view, it))).collect();
        unknown_name("node", name, &near)
    };
    names.iter().zip(near_nodes(view, names)).map(message).collect()
}

/// Returns the sentence that the graph has no entity of a type, with the near types.
pub(crate) fn unknown_type(view: &View, name: &str) -> String {
    unknown_name("node type", name, &near_types(view, name))
}

/// Returns the sentence that the graph has no edge of a relation, with the near relations.
pub(crate) fn unknown_relation(view: &View, name: &str) -> String {
    unknown_name("edge type", name, &near_relations(view, name))
}

fn unknown_name(what: &str, name: &str, near: &[String]) -> String {
    let none = format!("there is no {what} `{}`", shorten(name));
    if near.is_empty() { none } else { format!("{none}; near: {}", near.join(", ")) }
}

/// Returns the names of visible types that a name was probably meant to be, in backticks.
pub(crate) fn near_types(view: &View, name: &str) -> Vec<String> {
    let snapshot = &view.snapshot;
    let visible = (0..).zip(&snapshot.labels).filter(|(number, _)| view.has_type(*number));
    let mut names: Vec<String> = Vec::new();
    for (_, label) in visible {
        names.extend(semantic_id::other_names(snapshot.symbols.get(label.name)).map(String::from));
        names.push(snapshot.qualified_name(*label));
    }
    in_backticks(suggest::nearest_few(name, names.iter().map(String::as_str), MAX_NEAR))
}

/// Returns the names of visible relations that a name was probably meant to be, in backticks.
pub(crate) fn near_relations(view: &View, name: &str) -> Vec<String> {
    let visible = |(number, _): &(u16, &Label)| view.edges_of_relation(*number).next().is_some();
    let known = (0..).zip(&view.snapshot.relations).filter(visible);
    let names: Vec<String> = known.map(|(_, label)| view.snapshot.qualified_name(*label)).collect();
    in_backticks(suggest::nearest_few(name, names.iter().map(String::as_str), MAX_NEAR))
}

fn in_backticks(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(|it| format!("`{it}`")).collect()
}

/// Returns a name with at most [`MAX_SHOWN_CHARS`] characters.
fn shorten(name: &str) -> String {
    match name.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}{CUT_MARK}", &name[..end]),
        None => name.to_string(),
    }
}

/// Returns for each unknown name the visible entities whose names or keys are spelled most similarly, nearest first. One
/// pass over the strings of the graph serves all unknown names. If no string is similar to a name, takes the strings that
/// begin with this name.
fn near_nodes(view: &View, names: &[&str]) -> Vec<Vec<NodeIx>> {
    if names.is_empty() {
        return Vec::new();
    }
    let ids: Vec<Option<PrintedId<'_>>> = names.iter().map(|it| PrintedId::parse(it)).collect();
    let bare: Vec<&str> = names.iter().zip(&ids).map(|(name, id)| id.and_then(|it| it.label).unwrap_or(name)).collect();
    let mut nearest: Vec<Nearest> = bare.iter().map(|_| Nearest::default()).collect();
    for (number, id) in ids.iter().enumerate() {
        let node = id.and_then(|it| view.snapshot.node_by_id(it.id)).filter(|it| view.is_visible(*it));
        node.into_iter().for_each(|it| nearest[number].add(view, 0, it));
    }
    let mut search = NameSearch::for_typos(bare.iter().copied());
    for (symbol, text) in view.snapshot.symbols.iter() {
        search.compare(text, |number, edits| nearest[number].add_called(view, edits, symbol));
    }
    for (name, near) in bare.iter().zip(&mut nearest) {
        if near.found.is_empty() && name.chars().count() >= MIN_PREFIX_CHARS {
            let longer = view.snapshot.symbols.with_prefix(name).iter().take(MAX_PREFIXED);
            longer.for_each(|it| near.add_called(view, 0, *it));
        }
    }
    nearest.into_iter().map(|it| it.found.into_iter().map(|(_, _, node)| node).collect()).collect()
}

/// The nearest entities found so far, at most [`MAX_NEAR`]: number of edits, length of the label, and index; sorted.
#[derive(Debug, Default)]
struct Nearest {
    found: Vec<(usize, usize, NodeIx)>,
}

impl Nearest {
    /// Adds the visible entities whose name or key is this string of the graph (given by its symbol).
    fn add_called(&mut self, view: &View, edits: usize, symbol: Symbol) {
        let is_full = self.found.len() == MAX_NEAR;
        if !(is_full && self.found.last().is_some_and(|it| it.0 < edits)) {
            view.called(symbol).take(MAX_NEAR).for_each(|it| self.add(view, edits, it));
        }
    }

    fn add(&mut self, view: &View, edits: usize, node: NodeIx) {
        if self.found.iter().any(|it| it.2 == node) {
            return;
        }
        self.found.push((edits, label(view, node).len(), node));
        self.found.sort_unstable();
        self.found.truncate(MAX_NEAR);
    }
}
