//! Collects the nodes and edges of one file, without duplicates and up to a limit. Edges name the chunk that contains them.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use crate::graph::extract::relation;
use crate::graph::extract::source_text::{ExtractInput, Finding};
use crate::model::{FileId, GraphEdge, GraphEvidence, GraphNode, GraphPart, StoredChunk};

/// Maximum number of nodes and of edges of one file; further ones are dropped, since no graph query needs a million links.
const MAX_ITEMS: usize = 20_000;
/// Prefix of aliases that are file names without extension.
const NAME_PREFIX: &str = "stem:";
/// Edge attribute with the folders that a link gives before the name of a file; the file's folder path must end with them.
pub(crate) const FOLDERS_ATTRIBUTE: &str = "within";
/// Maximum length of a stored name in characters; longer names are cut.
const MAX_NAME_CHARS: usize = 200;

/// Returns the key of a file, which stays the same if the file is renamed.
pub(crate) fn file_key(id: FileId) -> String {
    format!("file:{id}")
}

/// Returns the key of a folder.
pub(crate) fn folder_key(path: &Path) -> String {
    format!("folder:{}", path.display())
}

/// Returns the alias by which edges name the file at a path.
pub(super) fn path_alias(path: &Path) -> String {
    format!("path:{}", path.display())
}

/// Returns the alias that all files with this name in a root share, for wiki links.
pub(super) fn name_alias(root: &Path, stem: &str) -> String {
    format!("{NAME_PREFIX}{}:{}", root.display(), stem.trim().to_lowercase())
}

/// Returns whether an alias is one from `name_alias`. Such an alias resolves to the nearest of the files with this name.
pub(crate) fn is_name_alias(alias: &str) -> bool {
    alias.starts_with(NAME_PREFIX)
}

/// How the folder of a file compares with the folders that a link gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FolderMatch {
    /// The folder path of the file does not end with these folders.
    Elsewhere,
    /// The folder path of the file ends with these folders.
    Within,
    /// The folder path of the file, counted from its root, is exactly these folders.
    Exactly,
}

/// Compares the folder of the file at `path` with the folders that a link gives, which may be relative to any folder above
/// the file. `alias` is the alias of the file from `name_alias`. Ignores case, as names do.
pub(crate) fn folder_match(alias: &str, path: &Path, folders: &str) -> FolderMatch {
    let lower = |it: Option<&Path>| it.map(|it| it.to_string_lossy().to_lowercase()).unwrap_or_default();
    let (parent, wanted) = (lower(path.parent()), format!("/{}", folders.to_lowercase()));
    let Some(above) = parent.strip_suffix(&wanted) else { return FolderMatch::Elsewhere };
    let stem = path.file_stem().map(|it| it.to_string_lossy().trim().to_lowercase()).unwrap_or_default();
    let root =
        alias.strip_prefix(NAME_PREFIX).and_then(|it| it.strip_suffix(&stem)).and_then(|it| it.strip_suffix(':'));
    match root.is_some_and(|it| it.to_lowercase() == above) {
        true => FolderMatch::Exactly,
        false => FolderMatch::Within,
    }
}

/// Makes a node that several files may have in common, such as a person or a web address.
pub(super) fn shared_node(entity_type: &str, key: String, name: &str) -> GraphNode {
    let name = name.chars().take(MAX_NAME_CHARS).collect();
    GraphNode { key, entity_type: entity_type.into(), name, ..GraphNode::default() }
}

/// Collects the graph part of one file.
pub(super) struct PartBuilder<'a> {
    pub(super) reading: &'a ExtractInput<'a>,
    pub(super) key: String,
    path: PathBuf,
    part: GraphPart,
    keys: HashSet<String>,
    edge_keys: HashSet<(String, String, String)>,
}

impl<'a> PartBuilder<'a> {
    pub(super) fn new(reading: &'a ExtractInput<'a>) -> PartBuilder<'a> {
        let key = file_key(reading.record.id);
        let path = reading.record.absolute();
        PartBuilder { reading, key, path, part: GraphPart::default(), keys: HashSet::new(), edge_keys: HashSet::new() }
    }

    /// Adds a node, unless a node with the same key was added before.
    pub(super) fn node(&mut self, node: GraphNode) {
        if self.part.nodes.len() < MAX_ITEMS && self.keys.insert(node.key.clone()) {
            self.part.nodes.push(node);
        }
    }

    /// Adds an edge, unless one with the same ends and relation was added before.
    pub(super) fn edge(&mut self, ends: (&str, &str), relation: &str, confidence: f32, evidence: Finding) {
        let (source, target) = (ends.0.to_string(), ends.1.to_string());
        let relation = relation.to_string();
        self.add(GraphEdge { relation, source, target, confidence, evidence, ..GraphEdge::default() });
    }

    fn add(&mut self, edge: GraphEdge) {
        // Links to the same name count as different if they give different folders.
        let within = edge.attributes.first().map(|it| it.1.clone()).unwrap_or_default();
        let is_new = || (edge.relation.clone(), edge.source.clone(), format!("{}\0{within}", edge.target));
        if self.part.edges.len() < MAX_ITEMS && self.edge_keys.insert(is_new()) {
            self.part.edges.push(edge);
        }
    }

    /// Adds a node and an edge from the file to this node.
    pub(super) fn add_node_and_edge(&mut self, node: GraphNode, relation: &str, confidence: f32, evidence: Finding) {
        let (source, target) = (self.key.clone(), node.key.clone());
        self.node(node);
        self.edge((&source, &target), relation, confidence, evidence);
    }

    /// Adds an edge from the file to an alias; it is resolved to the entity that has this alias now or later.
    pub(super) fn add_edge_to_alias(&mut self, alias: &str, relation: &str, confidence: f32, evidence: Finding) {
        let source = self.key.clone();
        self.edge((&source, alias), relation, confidence, evidence);
    }

    /// Adds a link from the file to a file name, with the folders that the link gives before the name.
    pub(super) fn add_link_by_name(&mut self, alias: &str, folders: &str, evidence: Finding) {
        let attributes = (!folders.is_empty()).then(|| (FOLDERS_ATTRIBUTE.to_string(), folders.to_string()));
        self.add(GraphEdge {
            relation: relation::LINKS_TO.into(),
            source: self.key.clone(),
            target: alias.into(),
            confidence: 0.9,
            evidence,
            attributes: attributes.into_iter().collect(),
            ..GraphEdge::default()
        });
    }

    pub(super) fn add_alias(&mut self, alias: String) {
        self.part.aliases.push((alias, self.key.clone()));
    }

    /// Returns the alias of the file at a path relative to this file, or relative to its root if the path begins with `/`.
    pub(super) fn relative_path_alias(&self, relative: &str) -> Option<String> {
        let folder = self.path.parent()?;
        let mut path = if relative.starts_with('/') { self.reading.record.root.clone() } else { folder.to_path_buf() };
        for component in Path::new(relative.trim_start_matches('/')).components() {
            match component {
                Component::Normal(name) => path.push(name),
                Component::ParentDir => {
                    path.pop();
                }
                Component::CurDir | Component::RootDir | Component::Prefix(_) => (),
            }
        }
        Some(path_alias(&path))
    }

    /// Adds the node of the file with path, kind and title, its aliases, and the edge from its folder.
    pub(super) fn add_file(&mut self) {
        let record = self.reading.record;
        let text = |key: &str, value: String| (key.to_string(), value);
        let kind = serde_json::to_value(record.kind).ok().and_then(|it| it.as_str().map(String::from));
        let mut attributes = vec![text("path", self.path.display().to_string())];
        attributes.extend(kind.map(|it| text("kind", it)));
        attributes.extend((!record.extension.is_empty()).then(|| text("extension", record.extension.clone())));
        let title = self.reading.document.and_then(|it| it.title.clone());
        attributes.extend(title.map(|it| text("title", it.chars().take(MAX_NAME_CHARS).collect())));
        let name = self.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = self.path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let node = GraphNode { attributes, ..shared_node("File", self.key.clone(), &name) };
        self.node(node);
        self.add_alias(path_alias(&self.path));
        self.add_alias(name_alias(&record.root, &stem));
        if let Some(parent) = self.path.parent() {
            let key = self.key.clone();
            self.edge((&folder_key(parent), &key), relation::CONTAINS, 1.0, None);
        }
    }

    /// Adds an edge to the alias that all files with the same content share, so that it leads to a duplicate, if any.
    pub(super) fn add_duplicates(&mut self) {
        let record = self.reading.record;
        if let Some(hash) = record.hash.filter(|_| record.chunks > 0) {
            let alias = format!("hash:{hash}");
            self.add_alias(alias.clone());
            self.add_edge_to_alias(&alias, relation::DUPLICATE_OF, 1.0, self.first_chunk());
        }
    }

    /// Returns the first chunk of the file as evidence.
    pub(super) fn first_chunk(&self) -> Finding {
        self.reading.chunks.first().map(chunk_evidence)
    }

    /// Adds the headings and passages of the file, and the edges from each to those below it.
    pub(super) fn add_outline(&mut self) {
        let id = self.reading.record.id;
        let name = self.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        for stored in self.reading.chunks {
            let chunk = &stored.chunk;
            let mut above = self.key.clone();
            for depth in 1..=chunk.heading_path.len() {
                let path = chunk.heading_path[..depth].join(" > ");
                let key = format!("section:{id}#{path}");
                self.node(shared_node("Section", key.clone(), &chunk.heading_path[depth - 1]));
                self.edge((&above, &key), relation::CONTAINS, 1.0, Some(chunk_evidence(stored)));
                above = key;
            }
            let key = format!("chunk:{id}#{}", chunk.ordinal);
            let place = chunk.anchor.place();
            let mut attributes = vec![("chunk_id".to_string(), chunk.id.0.clone())];
            attributes.extend((!place.is_empty()).then(|| ("place".to_string(), place)));
            self.node(GraphNode {
                attributes,
                ..shared_node("Chunk", key.clone(), &format!("{name}#{}", chunk.ordinal))
            });
            self.edge((&above, &key), relation::CONTAINS, 1.0, Some(chunk_evidence(stored)));
        }
    }

    pub(super) fn finish(self) -> GraphPart {
        self.part
    }
}

/// Returns the range of a whole chunk as evidence.
fn chunk_evidence(stored: &StoredChunk) -> GraphEvidence {
    let anchor = &stored.chunk.anchor;
    let number = |it: Option<u64>| it.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
    GraphEvidence {
        chunk_id: stored.chunk.id.0.clone(),
        start: number(anchor.byte_start),
        end: number(anchor.byte_end),
    }
}
