//! Resolves the ends of edges, which sources give as keys or aliases, to the entities of a snapshot.

use std::collections::HashMap;
use std::path::Path;

use crate::graph::extract::{FOLDERS_ATTRIBUTE, FolderMatch, folder_match, is_name_alias};
use crate::graph::snapshot::interner::Symbol;
use crate::graph::snapshot::{Alias, EdgeStatement, NodeIx, Snapshot, SourceInfo};

/// Finds the nodes that an edge statement names as its ends. The snapshot must already have all entities and aliases.
pub(in crate::graph) struct EndResolver<'a> {
    snapshot: &'a Snapshot,
    /// For each symbol, the entity with this key.
    node_by_key: Vec<Option<NodeIx>>,
    /// Cache: for each alias, the first entity that has it.
    first_by_alias: HashMap<Symbol, Option<NodeIx>>,
    /// Cache of the nearest file below each folder, by file name and by the folders (if any) that a link gives before it.
    nearest_by_name: HashMap<(Symbol, Option<Symbol>), NearestFiles<'a>>,
}

/// Sort key of a file below a folder; the smallest is best. Holds the number of path components, whether the file is not a
/// note, the path, and the entity.
type Rank<'a> = (usize, bool, &'a Path, NodeIx);

/// For each folder, the nearest file below it.
type NearestFiles<'a> = HashMap<&'a Path, Rank<'a>>;

impl<'a> EndResolver<'a> {
    pub(in crate::graph) fn new(snapshot: &'a Snapshot) -> EndResolver<'a> {
        let mut node_by_key = vec![None; snapshot.symbols.len()];
        for (key, node) in snapshot.keys.iter().zip(0..) {
            node_by_key[*key as usize] = Some(node);
        }
        EndResolver { snapshot, node_by_key, first_by_alias: HashMap::new(), nearest_by_name: HashMap::new() }
    }

    /// Returns source, target and fact of an edge; `None` if one of its ends matches no entity.
    pub(in crate::graph) fn resolve(&mut self, said: &EdgeStatement) -> Option<(NodeIx, NodeIx, Option<NodeIx>)> {
        let (source, target) = (self.resolve_name(said.ends.source, said)?, self.resolve_name(said.ends.target, said)?);
        // Drops an edge from a file to its own alias, e.g. to the alias of its content if no other file has this content.
        let loops = source == target && self.node_by_key[said.ends.target as usize].is_none();
        (!loops).then(|| (source, target, said.ends.fact.and_then(|it| self.resolve_name(it, said))))
    }

    /// Returns the entity with this key; without one, the nearest file with this name, or the first entity with this alias.
    fn resolve_name(&mut self, key: Symbol, said: &EdgeStatement) -> Option<NodeIx> {
        if let Some(node) = self.node_by_key[key as usize] {
            return Some(node);
        }
        let snapshot = self.snapshot;
        let from = snapshot.origins[said.origin as usize].folder();
        match from.filter(|_| is_name_alias(snapshot.symbols.get(key))) {
            Some(folder) => self.nearest_file(key, qualifying_folders(snapshot, said), folder),
            None => self.first_with_alias(key),
        }
    }

    fn first_with_alias(&mut self, alias: Symbol) -> Option<NodeIx> {
        if let Some(found) = self.first_by_alias.get(&alias) {
            return *found;
        }
        let found = aliases_of(self.snapshot, alias).iter().filter_map(|it| self.node_by_key[it.key as usize]).min();
        self.first_by_alias.insert(alias, found);
        found
    }

    /// Returns the file with the fewest folders between it and `folder`. Among equally near files, notes come first, then
    /// the first path.
    fn nearest_file(&mut self, alias: Symbol, within: Option<Symbol>, folder: &Path) -> Option<NodeIx> {
        let (snapshot, keyed) = (self.snapshot, &self.node_by_key);
        let beneath = self.nearest_by_name.entry((alias, within)).or_insert_with(|| {
            let mut beneath = NearestFiles::new();
            for (path, node) in files_named(snapshot, keyed, alias, within) {
                let is_note = path.extension().is_some_and(|it| it == "md" || it == "markdown");
                let rank = (path.components().count(), !is_note, path, node);
                for above in path.ancestors().skip(1) {
                    beneath.entry(above).and_modify(|it| *it = rank.min(*it)).or_insert(rank);
                }
            }
            beneath
        });
        // For each folder above the link, adds the steps up to this folder and down to the nearest file; takes the minimum.
        let depth = folder.components().count();
        let ways = folder.ancestors().filter_map(|above| {
            let (below, other, path, node) = *beneath.get(above)?;
            let top = above.components().count();
            Some(((depth - top) + (below - top), other, path, node))
        });
        ways.min().map(|it| it.3)
    }
}

/// Returns the folders that a link gives before the name of its target (`a/b` of `a/b/Page`), if any.
fn qualifying_folders(snapshot: &Snapshot, said: &EdgeStatement) -> Option<Symbol> {
    said.attributes.iter().find(|it| snapshot.symbols.get(it.0) == FOLDERS_ATTRIBUTE).map(|it| it.1)
}

/// Returns the files with a name. If a link gives folders before the name, returns only files in such folders; if the path
/// of some files from the root is exactly these folders, only those files.
fn files_named<'a>(
    snapshot: &'a Snapshot,
    keyed: &[Option<NodeIx>],
    alias: Symbol,
    within: Option<Symbol>,
) -> Vec<(&'a Path, NodeIx)> {
    let all = aliases_of(snapshot, alias).iter().filter_map(|it| {
        let path = snapshot.origins[it.origin as usize].path.as_deref()?;
        Some((path, keyed[it.key as usize]?))
    });
    let Some(within) = within else { return all.collect() };
    let (alias, folders) = (snapshot.symbols.get(alias), snapshot.symbols.get(within));
    let near: Vec<_> =
        all.map(|it| (folder_match(alias, it.0, folders), it)).filter(|it| it.0 != FolderMatch::Elsewhere).collect();
    let is_exact = near.iter().any(|it| it.0 == FolderMatch::Exactly);
    near.into_iter().filter(|it| !is_exact || it.0 == FolderMatch::Exactly).map(|it| it.1).collect()
}

fn aliases_of(snapshot: &Snapshot, alias: Symbol) -> &[Alias] {
    let start = snapshot.aliases.partition_point(|it| it.alias < alias);
    let count = snapshot.aliases[start..].partition_point(|it| it.alias == alias);
    &snapshot.aliases[start..start + count]
}

impl SourceInfo {
    fn folder(&self) -> Option<&Path> {
        self.path.as_deref()?.parent()
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::snapshot::builder::Builder;
    use crate::model::{GraphEdge, GraphNode, GraphPart, GraphSource};

    /// Checks which files a link in `from` resolves to, if all files of `named` have the name of its target.
    fn check(from: &str, named: &[&str], expected: &[&str]) {
        check_within("", from, named, expected);
    }

    /// As [`check`], for a link that gives folders before the name.
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
            builder.add_source(number, &source, part, |_| Some(number as u32)).unwrap();
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
        // A path that matches from the root precedes nearer files; otherwise the nearest file counts.
        check_within("b", "/w/x/n.md", &files, &["/w/b/1.md"]);
        check_within("b", "/w/y/n.md", &["/w/x/b/1.md", "/w/y/b/1.md"], &["/w/y/b/1.md"]);
    }
}
