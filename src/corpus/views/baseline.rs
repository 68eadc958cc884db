//! Baselines of DELTA: sessions and results, with their files as they were when the session or result was made.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::SessionFile;
use crate::corpus::document::loader;
use crate::corpus::document::parsed::ParsedDocument;
use crate::corpus::views::documents::{Corpus, CorpusDocument};
use crate::corpus::views::snapshot::SessionSnapshot;
use crate::model::{ContentHash, FileId, FileKind, FileState};

/// Maximum documents stored with a result; a result with more cannot be a baseline.
const MAX_BASELINE_DOCUMENTS: usize = 10_000;

/// A baseline: a session or a result, with those of its parsed documents that are still stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeltaBaseline {
    /// Name of the baseline: `session 4`, or `result r-…`.
    pub(crate) name: String,
    /// Files that could be read when the baseline was made.
    pub(crate) files: BTreeMap<FileId, SessionFile>,
    /// Whether the metadata of the files is known, as it is for a session, so that filters of a view can be applied.
    pub(crate) has_metadata: bool,
    /// Whether the baseline stored any texts.
    pub(crate) has_text: bool,
    /// Parsed documents of the baseline that the comparison needs.
    pub(crate) parsed: BTreeMap<FileId, Arc<ParsedDocument>>,
}

impl DeltaBaseline {
    /// Creates a baseline from a session.
    pub(crate) fn from_session(past: &SessionSnapshot) -> DeltaBaseline {
        let files = past.files.iter().filter(|it| it.problem.is_empty()).map(|it| (it.file, it.clone()));
        DeltaBaseline {
            name: format!("session {}", past.session),
            files: files.collect(),
            has_metadata: true,
            has_text: !past.metadata_only,
            parsed: BTreeMap::new(),
        }
    }

    /// Creates a baseline from the documents of a result.
    pub(crate) fn from_result(id: &str, files: BTreeMap<FileId, SessionFile>) -> DeltaBaseline {
        DeltaBaseline { name: format!("result {id}"), files, has_text: true, ..DeltaBaseline::default() }
    }

    /// Returns the baseline in the form of a loaded view.
    pub(crate) fn to_corpus(&self) -> Corpus {
        let paper = |it: &SessionFile| {
            let reading = self.parsed.get(&it.file)?.clone();
            Some(CorpusDocument {
                file: it.file,
                path: it.path.clone(),
                modified_ns: it.modified_ns,
                size: it.size,
                hash: it.hash?,
                parsed: reading,
            })
        };
        let mut corpus = Corpus { documents: self.files.values().filter_map(paper).collect(), ..Corpus::default() };
        corpus.sort();
        corpus
    }
}

/// Returns whether a document changed: by content hash, or by size and modification time if no hash is known.
pub(crate) fn has_changed(paper: &CorpusDocument, before: &SessionFile) -> bool {
    match before.hash {
        Some(hash) => hash != paper.hash,
        None => (before.size, before.modified_ns) != (paper.size, paper.modified_ns),
    }
}

/// A document as stored with a result.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BaselineDocument {
    file: FileId,
    path: String,
    hash: Option<String>,
    size: u64,
    modified_ns: i64,
}

impl BaselineDocument {
    fn new(file: &SessionFile) -> BaselineDocument {
        let hash = file.hash.map(|it| it.to_string());
        BaselineDocument {
            file: file.file,
            path: file.path.clone(),
            hash,
            size: file.size,
            modified_ns: file.modified_ns,
        }
    }

    pub(super) fn into_file(self) -> SessionFile {
        let hash = self.hash.and_then(|it| blake3::Hash::from_hex(it).ok()).map(|it| ContentHash(*it.as_bytes()));
        let extension = loader::extension(&self.path);
        SessionFile {
            hash,
            size: self.size,
            modified_ns: self.modified_ns,
            state: FileState::Indexed,
            kind: FileKind::from_extension(&extension),
            document_key: hash.map(|it| loader::document_key(it, &extension)),
            extension,
            ..SessionFile::failed_page(self.file, self.path, String::new())
        }
    }
}

/// Serializes the documents of a result as JSON; empty if there are more than [`MAX_BASELINE_DOCUMENTS`].
pub(crate) fn serialize_documents(files: &[SessionFile]) -> String {
    if files.len() > MAX_BASELINE_DOCUMENTS {
        return String::new();
    }
    serde_json::to_string(&files.iter().map(BaselineDocument::new).collect::<Vec<_>>()).unwrap_or_default()
}

/// Serializes the documents of a loaded view as [`serialize_documents`] does.
pub(crate) fn serialize_corpus(corpus: &Corpus) -> String {
    serialize_documents(&corpus.documents.iter().map(to_session_file).collect::<Vec<_>>())
}

fn to_session_file(paper: &CorpusDocument) -> SessionFile {
    SessionFile {
        hash: Some(paper.hash),
        size: paper.size,
        modified_ns: paper.modified_ns,
        ..SessionFile::failed_page(paper.file, paper.path.clone(), String::new())
    }
}
