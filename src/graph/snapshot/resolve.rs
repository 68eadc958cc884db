//! Resolves the ends of edges to entities, by keys or aliases.

use std::collections::HashMap;
use std::path::Path;

use crate::graph::extract::{Lies, WITHIN, is_name, lies};
use crate::graph::snapshot::interner::Symbol;
use crate::graph::snapshot::{Alias, Ix, Origin, Snapshot, Statement};

/// Resolves ends in a snapshot that has its entities and aliases.
pub(in crate::graph) struct Ends<'a> {
    snapshot: &'a Snapshot,
    /// Entity by key symbol.
    keyed: Vec<Option<Ix>>,
    /// Cache: the first entity of an alias.
    first: HashMap<Symbol, Option<Ix>>,
    /// Cache: the nearest files of a name, and of a name within folders.
    named: HashMap<(Symbol, Option<Symbol>), Nearest<'a>>,
}

/// Distance of a file below a folder: depth, whether it is not a note, path, entity.
type Rank<'a> = (usize, bool, &'a Path, Ix);

/// The nearest file below each folder.
type Nearest<'a> = HashMap<&'a Path, Rank<'a>>;

impl<'a> Ends<'a> {
    pub(in crate::graph) fn new(snapshot: &'a Snapshot) -> Ends<'a> {
        let mut keyed = vec![None; snapshot.symbols.len()];
        for (key, node) in snapshot.keys.iter().zip(0..) {
            keyed[*key as usize] = Some(node);
        }
        Ends { snapshot, keyed, first: HashMap::new(), named: HashMap::new() }
    }

    /// Returns source, target and fact of an edge; `None` if an end is unresolved.
    pub(in crate::graph) fn resolve(&mut self, said: &Statement) -> Option<(Ix, Ix, Option<Ix>)> {
        let (source, target) = (self.find(said.named.source, said)?, self.find(said.named.target, said)?);
        // A file with a unique content or name is its own alias.
        let loops = source == target && self.keyed[said.named.target as usize].is_none();
        (!loops).then(|| (source, target, said.named.fact.and_then(|it| self.find(it, said))))
    }

    /// Returns the entity with this key; else the nearest file of a name, or the first entity with the alias.
    fn find(&mut self, key: Symbol, said: &Statement) -> Option<Ix> {
        if let Some(node) = self.keyed[key as usize] {
            return Some(node);
        }
        let snapshot = self.snapshot;
        let from = snapshot.origins[said.origin as usize].folder();
        match from.filter(|_| is_name(snapshot.symbols.get(key))) {
            Some(folder) => self.nearest(key, within(snapshot, said), folder),
            None => self.first(key),
        }
    }

    fn first(&mut self, alias: Symbol) -> Option<Ix> {
        if let Some(found) = self.first.get(&alias) {
            return *found;
        }
        let found = aliased(self.snapshot, alias).iter().filter_map(|it| self.keyed[it.key as usize]).min();
        self.first.insert(alias, found);
        found
    }

    /// Returns the file with the fewest folders between it and `folder`; ties prefer a note, then the first path.
    fn nearest(&mut self, alias: Symbol, within: Option<Symbol>, folder: &Path) -> Option<Ix> {
        let (snapshot, keyed) = (self.snapshot, &self.keyed);
        let beneath = self.named.entry((alias, within)).or_insert_with(|| {
            let mut beneath = Nearest::new();
            for (path, node) in files(snapshot, keyed, alias, within) {
                let is_note = path.extension().is_some_and(|it| it == "md" || it == "markdown");
                let rank = (path.components().count(), !is_note, path, node);
                for above in path.ancestors().skip(1) {
                    beneath.entry(above).and_modify(|it| *it = rank.min(*it)).or_insert(rank);
                }
            }
            beneath
        });
        // For each ancestor folder, the distance is the way up to it plus the way down.
        let depth = folder.components().count();
        let ways = folder.ancestors().filter_map(|above| {
            let (below, other, path, node) = *beneath.get(above)?;
            let top = above.components().count();
            Some(((depth - top) + (below - top), other, path, node))
        });
        ways.min().map(|it| it.3)
    }
}

/// Returns the folders that a name was qualified with.
fn within(snapshot: &Snapshot, said: &Statement) -> Option<Symbol> {
    said.attributes.iter().find(|it| snapshot.symbols.get(it.0) == WITHIN).map(|it| it.1)
}

/// Returns the files of a name. With folders, only files in them; exact matches from the root exclude others.
fn files<'a>(
    snapshot: &'a Snapshot,
    keyed: &[Option<Ix>],
    alias: Symbol,
    within: Option<Symbol>,
) -> Vec<(&'a Path, Ix)> {
    let all = aliased(snapshot, alias).iter().filter_map(|it| {
        let path = snapshot.origins[it.origin as usize].path.as_deref()?;
        Some((path, keyed[it.key as usize]?))
    });
    let Some(within) = within else { return all.collect() };
    let (alias, folders) = (snapshot.symbols.get(alias), snapshot.symbols.get(within));
    let near: Vec<_> = all.map(|it| (lies(alias, it.0, folders), it)).filter(|it| it.0 != Lies::Elsewhere).collect();
    let is_exact = near.iter().any(|it| it.0 == Lies::Exactly);
    near.into_iter().filter(|it| !is_exact || it.0 == Lies::Exactly).map(|it| it.1).collect()
}

fn aliased(snapshot: &Snapshot, alias: Symbol) -> &[Alias] {
    let start = snapshot.aliases.partition_point(|it| it.alias < alias);
    let count = snapshot.aliases[start..].partition_point(|it| it.alias == alias);
    &snapshot.aliases[start..start + count]
}

impl Origin {
    fn folder(&self) -> Option<&Path> {
        self.path.as_deref()?.parent()
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::snapshot::builder::Builder;
    use crate::model::{GraphEdge, GraphNode, GraphPart, GraphSource};

    /// Checks the files that a link in `from` resolves to, if all of `named` have its name.
    fn check(from: &str, named: &[&str], expected: &[&str]) {
        check_within("", from, named, expected);
    }

    /// As [`check`], for a link qualified with folders.
    fn check_within(folders: &str, from: &str, named: &[&str], expected: &[&str]) {
        let mut builder = Builder::default();
        for (path, number) in named.iter().chain([&from]).zip(0..) {
            let node = GraphNode { key: format!("file:{number}"), name: (*path).into(), ..GraphNode::default() };
            let mut part = GraphPart::default();
            match *path == from {
                true => part.edges.push(GraphEdge {
                    source: node.key.clone(),
                    target: "stem:/w:1".into(),
                    relation: "links_to".into(),
                    attributes: vec![("within".into(), folders.into())]
                        .into_iter()
                        .filter(|_| !folders.is_empty())
                        .collect(),
                    ..GraphEdge::default()
                }),
                false => part.aliases.push(("stem:/w:1".into(), node.key.clone())),
            }
            part.nodes.push(node);
            let source = GraphSource { name: format!("file:{number}"), path: (*path).into(), version: String::new() };
            builder.add(number, &source, part, |_| Some(number as u32)).unwrap();
        }
        let snapshot = builder.build();
        let targets: Vec<&str> = (0..snapshot.edges() as u32).map(|it| snapshot.name(snapshot.target(it))).collect();
        assert_eq!(targets, expected, "{from} {named:?}");
    }

    #[test]
    fn name_resolves_to_nearest_file() {
        check("/w/a/b/n.md", &["/w/1.md", "/w/a/1.md", "/w/a/b/1.md", "/w/a/b/c/1.md"], &["/w/a/b/1.md"]);
        check("/w/a/b/n.md", &["/w/a/1.pdf", "/w/x/y/1.md"], &["/w/a/1.pdf"]);
        check("/w/a/b/n.md", &["/w/x/y/1.md", "/w/a/b/c/1.md", "/w/1.md"], &["/w/a/b/c/1.md"]);
        check("/w/n.md", &["/w/z/1.md", "/w/b/1.md", "/w/a/c/1.md"], &["/w/b/1.md"]);
        check("/w/n.md", &[], &[]);
    }

    #[test]
    fn equally_near_files_prefer_note_then_path() {
        check("/w/n.md", &["/w/1.csv", "/w/1.md", "/w/1.jpg"], &["/w/1.md"]);
        check("/w/n.md", &["/w/1.pdf", "/w/1.csv"], &["/w/1.csv"]);
    }

    #[test]
    fn qualifying_folders_select_among_files() {
        let files = ["/w/a/1.md", "/w/b/1.md", "/w/x/b/1.md", "/w/1.md"];
        check_within("a", "/w/b/n.md", &files, &["/w/a/1.md"]);
        check_within("x/b", "/w/b/n.md", &files, &["/w/x/b/1.md"]);
        check_within("X/B", "/w/b/n.md", &files, &["/w/x/b/1.md"]);
        check_within("c", "/w/b/n.md", &files, &[]);
        check_within("xb", "/w/b/n.md", &["/w/x/b/1.md"], &[]);
        // A path from the root precedes nearer files; otherwise the nearest file counts.
        check_within("b", "/w/x/n.md", &files, &["/w/b/1.md"]);
        check_within("b", "/w/y/n.md", &["/w/x/b/1.md", "/w/y/b/1.md"], &["/w/y/b/1.md"]);
    }
}
