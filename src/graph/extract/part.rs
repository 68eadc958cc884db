//! Collects the nodes and edges of one file: each once, up to a limit, with the chunk that contains it.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use crate::graph::extract::{Reading, Text, derived_from, relation};
use crate::model::{Anchor, Chunk, FileId, GraphEdge, GraphEvidence, GraphNode, GraphPart, StoredChunk};

/// Most nodes, and most edges, of one file; a list of a million links is useless in a graph.
const MOST: usize = 20_000;
/// Prefix of aliases by file name.
const STEM: &str = "stem:";
/// Attribute of an edge to files by name: the folders that qualify the name, as the end of the file's folder path.
pub(crate) const WITHIN: &str = "within";
/// Longest stored name, in characters.
const MOST_NAME: usize = 200;

/// The evidence of a reference.
pub(super) type Finding = Option<GraphEvidence>;

/// Returns the key of a file, which renames do not change.
pub(crate) fn file_key(id: FileId) -> String {
    format!("file:{id}")
}

/// Returns the key of a folder.
pub(crate) fn folder_key(path: &Path) -> String {
    format!("folder:{}", path.display())
}

/// Returns the alias of the file at a path.
pub(super) fn path_alias(path: &Path) -> String {
    format!("path:{}", path.display())
}

/// Returns the alias of all files with this name in a root, for wiki links.
pub(super) fn stem_alias(root: &Path, stem: &str) -> String {
    format!("{STEM}{}:{}", root.display(), stem.trim().to_lowercase())
}

/// Returns whether an alias is a file name, which resolves to the nearest file.
pub(crate) fn is_name(alias: &str) -> bool {
    alias.starts_with(STEM)
}

/// The position of a file relative to the folders that qualify its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// In other folders.
    Elsewhere,
    /// In folders that end with them.
    Within,
    /// In exactly these folders, from the root.
    Exactly,
}

/// Compares the folder of a file, which has `alias` by its name, with qualifying folders. These are relative to some
/// ancestor. Case is ignored, as in names.
pub(crate) fn lies(alias: &str, path: &Path, folders: &str) -> Lies {
    let lower = |it: Option<&Path>| it.map(|it| it.to_string_lossy().to_lowercase()).unwrap_or_default();
    let (parent, wanted) = (lower(path.parent()), format!("/{}", folders.to_lowercase()));
    let Some(above) = parent.strip_suffix(&wanted) else { return Lies::Elsewhere };
    let stem = path.file_stem().map(|it| it.to_string_lossy().trim().to_lowercase()).unwrap_or_default();
    let root = alias.strip_prefix(STEM).and_then(|it| it.strip_suffix(&stem)).and_then(|it| it.strip_suffix(':'));
    match root.is_some_and(|it| it.to_lowercase() == above) {
        true => Lies::Exactly,
        false => Lies::Within,
    }
}

/// Makes a node that several files may state.
pub(super) fn shared(entity_type: &str, key: String, name: &str) -> GraphNode {
    let name = name.chars().take(MOST_NAME).collect();
    GraphNode { key, entity_type: entity_type.into(), name, ..GraphNode::default() }
}

/// Returns the evidence for these bytes of a text: bytes of the file if the text is verbatim, otherwise bytes of the
/// chunk's text.
pub(super) fn finding(text: &Text<'_>, range: Range<usize>) -> Finding {
    let chunk = &text.chunk?.chunk;
    let (start, end) = match text.anchor.byte_start.filter(|_| text.anchor.verbatim) {
        Some(first) => (first + range.start as u64, first + range.end as u64),
        None => held(text, chunk, &range).map_or((0, 0), |at| (at as u64, (at + range.len()) as u64)),
    };
    let number = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    Some(GraphEvidence { chunk_id: chunk.id.0.clone(), start: number(start), end: number(end) })
}

/// Most occurrences of the same words checked in a passage.
const MOST_TIMES: usize = 100;

/// Returns the position of these bytes in the chunk. Among equal words, those on the page of the text count.
fn held(text: &Text<'_>, chunk: &Chunk, range: &Range<usize>) -> Option<usize> {
    if text.kind.is_none() {
        return Some(chunk.body_start as usize + range.start);
    }
    let words = text.text.get(range.clone())?;
    let all = || chunk.text.match_indices(words).map(|it| it.0).take(MOST_TIMES);
    let places = chunk.places();
    let mut here = all().filter(|at| places.of_text(*at..at + words.len()).page == text.anchor.page);
    here.next().or_else(|| all().next())
}

/// Collects the graph part of one file.
pub(super) struct Maker<'a> {
    pub(super) reading: &'a Reading<'a>,
    pub(super) key: String,
    path: PathBuf,
    part: GraphPart,
    keys: HashSet<String>,
    joined: HashSet<(String, String, String)>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(reading: &'a Reading<'a>) -> Maker<'a> {
        let key = file_key(reading.record.id);
        let path = reading.record.absolute();
        Maker { reading, key, path, part: GraphPart::default(), keys: HashSet::new(), joined: HashSet::new() }
    }

    /// Adds a node, unless one with its key exists.
    pub(super) fn node(&mut self, node: GraphNode) {
        if self.part.nodes.len() < MOST && self.keys.insert(node.key.clone()) {
            self.part.nodes.push(node);
        }
    }

    /// Adds an edge, unless one with its relation and ends exists.
    pub(super) fn edge(&mut self, ends: (&str, &str), relation: &str, confidence: f32, evidence: Finding) {
        let (source, target) = (ends.0.to_string(), ends.1.to_string());
        let relation = relation.to_string();
        self.add(GraphEdge { relation, source, target, confidence, evidence, ..GraphEdge::default() });
    }

    fn add(&mut self, edge: GraphEdge) {
        // The same name in other folders is a different end.
        let within = edge.attributes.first().map(|it| it.1.clone()).unwrap_or_default();
        let is_new = || (edge.relation.clone(), edge.source.clone(), format!("{}\0{within}", edge.target));
        if self.part.edges.len() < MOST && self.joined.insert(is_new()) {
            self.part.edges.push(edge);
        }
    }

    /// Adds a node and an edge from the file to it.
    pub(super) fn refers(&mut self, node: GraphNode, relation: &str, confidence: f32, evidence: Finding) {
        let (source, target) = (self.key.clone(), node.key.clone());
        self.node(node);
        self.edge((&source, &target), relation, confidence, evidence);
    }

    /// Adds an edge from the file to the present or future owner of this alias.
    pub(super) fn points(&mut self, alias: &str, relation: &str, confidence: f32, evidence: Finding) {
        let source = self.key.clone();
        self.edge((&source, alias), relation, confidence, evidence);
    }

    /// Adds a link from the file to the present or future file with this name in these folders.
    pub(super) fn points_within(&mut self, alias: &str, folders: &str, evidence: Finding) {
        let attributes = (!folders.is_empty()).then(|| (WITHIN.to_string(), folders.to_string()));
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

    pub(super) fn alias(&mut self, alias: String) {
        self.part.aliases.push((alias, self.key.clone()));
    }

    /// Returns the alias of the file at a path relative to this file.
    pub(super) fn beside(&self, relative: &str) -> Option<String> {
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

    /// Adds the file itself: its path, name and metadata.
    pub(super) fn place(&mut self) {
        let record = self.reading.record;
        let text = |key: &str, value: String| (key.to_string(), value);
        let kind = serde_json::to_value(record.kind).ok().and_then(|it| it.as_str().map(String::from));
        let mut attributes = vec![text("path", self.path.display().to_string())];
        attributes.extend(kind.map(|it| text("kind", it)));
        attributes.extend((!record.extension.is_empty()).then(|| text("extension", record.extension.clone())));
        let title = self.reading.document.and_then(|it| it.title.clone());
        attributes.extend(title.map(|it| text("title", it.chars().take(MOST_NAME).collect())));
        let name = self.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = self.path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let node = GraphNode { attributes, ..shared("File", self.key.clone(), &name) };
        self.node(node);
        self.alias(path_alias(&self.path));
        self.alias(stem_alias(&record.root, &stem));
        if let Some(parent) = self.path.parent() {
            let key = self.key.clone();
            self.edge((&folder_key(parent), &key), relation::CONTAINS, 1.0, None);
        }
        let evidence = self.reading.chunks.first().map(whole);
        derived_from::by_name(self, &evidence);
        if let Some(hash) = record.hash.filter(|_| record.chunks > 0) {
            let alias = format!("hash:{hash}");
            self.alias(alias.clone());
            self.points(&alias, relation::DUPLICATE_OF, 1.0, evidence);
        }
    }

    /// Adds headings and passages.
    pub(super) fn outline(&mut self) {
        let id = self.reading.record.id;
        let name = self.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        for stored in self.reading.chunks {
            let chunk = &stored.chunk;
            let mut above = self.key.clone();
            for depth in 1..=chunk.heading_path.len() {
                let path = chunk.heading_path[..depth].join(" > ");
                let key = format!("section:{id}#{path}");
                self.node(shared("Section", key.clone(), &chunk.heading_path[depth - 1]));
                self.edge((&above, &key), relation::CONTAINS, 1.0, Some(whole(stored)));
                above = key;
            }
            let key = format!("chunk:{id}#{}", chunk.ordinal);
            let place = chunk.anchor.place();
            let mut attributes = vec![("chunk_id".to_string(), chunk.id.0.clone())];
            attributes.extend((!place.is_empty()).then(|| ("place".to_string(), place)));
            self.node(GraphNode { attributes, ..shared("Chunk", key.clone(), &format!("{name}#{}", chunk.ordinal)) });
            self.edge((&above, &key), relation::CONTAINS, 1.0, Some(whole(stored)));
        }
    }

    /// Returns the texts to read: those of the document if it was read again, else those of the passages.
    pub(super) fn texts(&self) -> Vec<Text<'a>> {
        let reading = self.reading;
        match reading.document {
            Some(document) => {
                let mut holders = Holders::new(reading.chunks);
                let text = |block: &'a crate::model::Block| Text {
                    text: &block.text,
                    kind: Some(block.kind),
                    anchor: &block.anchor,
                    chunk: holders.of_block(&block.text, &block.anchor),
                };
                document.blocks.iter().map(text).collect()
            }
            None => {
                let text = |stored: &'a StoredChunk| Text {
                    text: stored.chunk.body(),
                    kind: None,
                    anchor: &stored.chunk.anchor,
                    chunk: Some(stored),
                };
                reading.chunks.iter().map(text).collect()
            }
        }
    }

    pub(super) fn finish(self) -> GraphPart {
        self.part
    }
}

/// Returns a whole chunk as evidence.
fn whole(stored: &StoredChunk) -> GraphEvidence {
    let anchor = &stored.chunk.anchor;
    let number = |it: Option<u64>| it.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
    GraphEvidence {
        chunk_id: stored.chunk.id.0.clone(),
        start: number(anchor.byte_start),
        end: number(anchor.byte_end),
    }
}

/// A text without a passage costs a scan of all passages. After so many, only passages near the last match are searched.
const MOST_MISSES: usize = 200;
const AROUND: usize = 8;

/// Finds the passages that contain the texts of a document. Texts come in order, so each search starts at the last match.
pub(super) struct Holders<'a> {
    chunks: &'a [StoredChunk],
    at: usize,
    misses: usize,
}

impl<'a> Holders<'a> {
    pub(super) fn new(chunks: &'a [StoredChunk]) -> Holders<'a> {
        Holders { chunks, at: 0, misses: 0 }
    }

    /// Returns the chunk that contains a block: by byte offsets if both have them, else by its first words.
    fn of_block(&mut self, text: &str, anchor: &Anchor) -> Option<&'a StoredChunk> {
        let holds = |start: u64, it: &StoredChunk| {
            let (first, last) = (it.chunk.anchor.byte_start, it.chunk.anchor.byte_end);
            first.is_some_and(|it| it <= start)
                && last.is_some_and(|it| start < it)
                && it.chunk.anchor.member == anchor.member
        };
        let begin = text.lines().next().unwrap_or_default();
        let begin = &begin[..begin.floor_char_boundary(60)];
        let by_bytes = anchor.byte_start.and_then(|start| self.find(|it| holds(start, it)));
        by_bytes.or_else(|| self.find(|it| it.chunk.text.contains(begin))).or(self.chunks.first())
    }

    /// Returns the first chunk that satisfies `is_so`.
    pub(super) fn find(&mut self, is_so: impl Fn(&StoredChunk) -> bool) -> Option<&'a StoredChunk> {
        let all = self.chunks.len();
        let most = if self.misses < MOST_MISSES { all } else { AROUND.min(all) };
        // Neighbors overlap, so the previous one may contain it too.
        let from = self.at.saturating_sub(1);
        let found = (from..from + most).map(|it| it % all).find(|it| is_so(&self.chunks[*it]));
        match found {
            Some(found) => self.at = found,
            None => self.misses += 1,
        }
        found.map(|it| &self.chunks[it])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ChunkId, Pieces, Tier};

    fn chunk(text: &str) -> StoredChunk {
        let chunk = Chunk {
            id: ChunkId(text.into()),
            ordinal: 0,
            text: text.into(),
            body_start: 0,
            anchor: Anchor::default(),
            pieces: Pieces::default(),
            heading_path: Vec::new(),
            tokens: 1,
            tier: Tier::L1,
        };
        StoredChunk { file_id: 1, chunk }
    }

    #[test]
    fn chunk_search_starts_at_last_match() {
        let chunks = ["a yes", "b", "c yes", "d"].map(chunk);
        let mut holders = Holders::new(&chunks);
        let mut check = |text: &str, expected: &str| {
            let found = holders.of_block(text, &Anchor::default()).unwrap();
            assert_eq!(found.chunk.text, expected, "{text}");
        };
        for (text, expected) in
            [("yes\nand", "a yes"), ("d", "d"), ("yes", "c yes"), ("b", "b"), ("nowhere", "a yes"), ("c", "c yes")]
        {
            check(text, expected);
        }
        assert!(Holders::new(&[]).of_block("a", &Anchor::default()).is_none());
    }

    #[test]
    fn search_for_missing_texts_is_bounded() {
        let chunks: Vec<StoredChunk> = (0..1_000).map(|it| chunk(&format!("{it} {}", "x".repeat(9_000)))).collect();
        let mut holders = Holders::new(&chunks);
        let begun = std::time::Instant::now();
        for _ in 0..20_000 {
            holders.of_block("nowhere", &Anchor::default());
        }
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    }
}
