//! The citation graph of a view: documents and cited works as nodes, and for each edge the text that states it.
//!
//! [`citation_edges`] finds all edges.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::corpus::document::location::SourceLocation;
use crate::corpus::text::words::truncate_to_line;
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::model::FileId;

/// Minimum length of a title that is searched in texts: shorter titles occur in too many texts by chance.
const MIN_TITLE_CHARS: usize = 12;

/// The damping factor of PageRank.
const DAMPING: f64 = 0.85;

/// Number of PageRank iterations: further ones do not change the displayed digits.
const ITERATIONS: usize = 60;

/// A node to which an edge leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CitationNode {
    Document(FileId),
    /// A work outside the view, named by DOI, arXiv id or the beginning of its reference.
    Work(String),
}

impl CitationNode {
    pub(crate) fn id(&self) -> String {
        match self {
            CitationNode::Document(file) => format!("f{file}"),
            CitationNode::Work(key) => format!("w:{key}"),
        }
    }
}

/// An edge: a document cites another document or a work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CitationEdge {
    pub(crate) from: FileId,
    pub(crate) to: CitationNode,
    /// Where the citation was found: `link`, `reference` or `web`.
    pub(crate) kind: &'static str,
    pub(crate) place: SourceLocation,
}

impl CitationEdge {
    pub(crate) fn value(&self) -> Value {
        let mut shown = Map::from_iter([
            ("from".to_string(), json!(format!("f{}", self.from))),
            ("to".to_string(), json!(self.to.id())),
            ("kind".to_string(), json!(self.kind)),
        ]);
        self.place.write(&mut shown);
        Value::Object(shown)
    }
}

/// Finds the edges of a view, ordered by citing document and location.
pub(crate) fn citation_edges(corpus: &Corpus) -> Vec<CitationEdge> {
    let targets = CitationTargets::new(corpus);
    let mut edges = Vec::new();
    for paper in &corpus.documents {
        for link in &paper.parsed.links {
            let work = doi_of_address(&link.target).map(|it| targets.resolve_doi(&it));
            let to = match work.or_else(|| targets.resolve_link(paper, &link.target).map(CitationNode::Document)) {
                Some(to @ CitationNode::Document(_)) => (to, "link"),
                Some(to) => (to, "web"),
                None if link.target.starts_with("http") => {
                    (CitationNode::Work(truncate_to_line(&link.target, 100)), "web")
                }
                None => continue,
            };
            edges.push(CitationEdge { from: paper.file, to: to.0, kind: to.1, place: link.place.clone() });
        }
        for reference in paper.parsed.objects.get("Reference").into_iter().flatten() {
            let to = targets.resolve_reference(
                paper,
                reference.text("full_text"),
                reference.text("doi"),
                reference.text("arxiv_id"),
            );
            edges.push(CitationEdge { from: paper.file, to, kind: "reference", place: reference.place.clone() });
        }
    }
    edges.retain(|it| it.to != CitationNode::Document(it.from));
    let mut seen = BTreeSet::new();
    edges.retain(|it| seen.insert((it.from, it.to.clone(), it.kind)));
    edges
}

/// Lookup tables that lead from file names, titles and DOIs to documents.
struct CitationTargets<'c> {
    by_name: BTreeMap<String, Vec<&'c CorpusDocument>>,
    titles: Vec<(String, FileId)>,
    by_doi: BTreeMap<String, FileId>,
}

impl<'c> CitationTargets<'c> {
    fn new(corpus: &'c Corpus) -> CitationTargets<'c> {
        let mut by_name: BTreeMap<String, Vec<&CorpusDocument>> = BTreeMap::new();
        let (mut titles, mut by_doi) = (Vec::new(), BTreeMap::new());
        for paper in &corpus.documents {
            let name = paper.path.rsplit('/').next().unwrap_or_default().to_lowercase();
            if let Some((stem, _)) = name.rsplit_once('.') {
                by_name.entry(stem.to_string()).or_default().push(paper);
            }
            by_name.entry(name).or_default().push(paper);
            let title = paper.parsed.facts.title.as_deref().map(title_key).unwrap_or_default();
            if title.len() >= MIN_TITLE_CHARS {
                titles.push((title, paper.file));
            }
            if let Some((doi, _)) = paper.parsed.stated.get("doi") {
                by_doi.insert(doi.to_lowercase(), paper.file);
            }
        }
        CitationTargets { by_name, titles, by_doi }
    }

    /// Finds the document with the file name of a link target, preferring one in the folder of the linking document.
    fn resolve_link(&self, from: &CorpusDocument, target: &str) -> Option<FileId> {
        if target.contains("://") || target.starts_with("mailto:") {
            return None;
        }
        let path = target.split(['#', '?']).next()?.replace("%20", " ").to_lowercase();
        let named = self.by_name.get(path.rsplit('/').next()?)?;
        let wanted = path.trim_start_matches("../").trim_start_matches("./").trim_start_matches('/');
        let folder = from.path.rsplit_once('/').map_or("", |it| it.0);
        let fits = |it: &&&CorpusDocument| {
            it.path.to_lowercase().ends_with(wanted) || !wanted.contains('/') || !wanted.contains('.')
        };
        let mut fitting: Vec<&&CorpusDocument> = named.iter().filter(fits).collect();
        // Prefer a file in the folder of the linking document, then the first one in the view.
        fitting.sort_by_key(|it| it.path.rsplit_once('/').map_or("", |it| it.0) != folder);
        fitting.first().map(|it| it.file)
    }

    /// Returns the document with a DOI, or a work outside the view.
    fn resolve_doi(&self, doi: &str) -> CitationNode {
        let doi = doi.to_lowercase();
        self.by_doi.get(&doi).map_or_else(|| CitationNode::Work(format!("doi:{doi}")), |it| CitationNode::Document(*it))
    }

    /// Returns the document that a reference names, or a work outside the view.
    fn resolve_reference(&self, from: &CorpusDocument, text: &str, doi: &str, arxiv: &str) -> CitationNode {
        if let Some(file) = self.by_doi.get(&doi.to_lowercase()).filter(|_| !doi.is_empty()) {
            return CitationNode::Document(*file);
        }
        let spelled = title_key(text);
        let titled = self.titles.iter().find(|it| it.1 != from.file && spelled.contains(&it.0));
        match titled {
            Some((_, file)) => CitationNode::Document(*file),
            None if !doi.is_empty() => CitationNode::Work(format!("doi:{}", doi.to_lowercase())),
            None if !arxiv.is_empty() => CitationNode::Work(format!("arxiv:{}", arxiv.to_lowercase())),
            None => CitationNode::Work(truncate_to_line(text, 60).to_lowercase()),
        }
    }
}

/// Returns the DOI in a resolver address, so that a link and a reference to the same work give the same node.
fn doi_of_address(address: &str) -> Option<String> {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"))?;
    let rest = rest.trim_start_matches("www.").trim_start_matches("dx.").strip_prefix("doi.org/")?;
    let rest = rest.split(['?', '#']).next()?;
    let doi = percent_encoding::percent_decode_str(rest).decode_utf8().ok()?.replace("&amp;", "&");
    doi.starts_with("10.").then_some(doi)
}

fn title_key(text: &str) -> String {
    text.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns, for each document of the view, the documents that cite it.
pub(crate) fn cited_by(corpus: &Corpus, edges: &[CitationEdge]) -> BTreeMap<FileId, BTreeSet<FileId>> {
    let mut cited: BTreeMap<FileId, BTreeSet<FileId>> =
        corpus.documents.iter().map(|it| (it.file, BTreeSet::new())).collect();
    for edge in edges {
        if let CitationNode::Document(to) = edge.to {
            cited.entry(to).or_default().insert(edge.from);
        }
    }
    cited
}

/// Computes the PageRank of each document; the values sum to 1.
pub(crate) fn page_rank(corpus: &Corpus, edges: &[CitationEdge]) -> BTreeMap<FileId, f64> {
    let files: Vec<FileId> = corpus.documents.iter().map(|it| it.file).collect();
    let count = files.len().max(1) as f64;
    let mut out: BTreeMap<FileId, BTreeSet<FileId>> = BTreeMap::new();
    for edge in edges {
        if let CitationNode::Document(to) = edge.to {
            out.entry(edge.from).or_default().insert(to);
        }
    }
    let mut ranks: BTreeMap<FileId, f64> = files.iter().map(|it| (*it, 1.0 / count)).collect();
    for _ in 0..ITERATIONS {
        let lost: f64 = files.iter().filter(|it| !out.contains_key(it)).map(|it| ranks[it]).sum();
        let base = (1.0 - DAMPING + DAMPING * lost) / count;
        let mut next: BTreeMap<FileId, f64> = files.iter().map(|it| (*it, base)).collect();
        for (from, to) in &out {
            for file in to {
                *next.entry(*file).or_default() += DAMPING * ranks[from] / to.len() as f64;
            }
        }
        ranks = next;
    }
    ranks
}
