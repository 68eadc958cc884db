//! The parsed documents of a view in memory, on which every verb works. They are sorted by path, so that their order does
//! not depend on which file was read first.

use std::sync::Arc;

use serde_json::Value;

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::document::parsed::ParsedDocument;
use crate::corpus::views::file_names;
use crate::model::{ContentHash, FileId};

/// Reason why a document of a session was not read: the file has changed since, and its earlier text is not stored.
pub(crate) const PAST_TEXT_GONE: &str = "past_text_gone";

/// A parsed document of a view.
#[derive(Clone, Debug)]
pub(crate) struct CorpusDocument {
    pub(crate) file: FileId,
    /// Path relative to the root folder.
    pub(crate) path: String,
    pub(crate) modified_ns: i64,
    pub(crate) size: u64,
    pub(crate) hash: ContentHash,
    pub(crate) parsed: Arc<ParsedDocument>,
}

/// A document of a view that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnreadDocument {
    pub(crate) file: FileId,
    pub(crate) path: String,
    /// Name of a skip or failure reason of the catalog, or `gone`, or [`PAST_TEXT_GONE`].
    pub(crate) reason: String,
}

/// A view with its documents, sorted by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Corpus {
    /// The view, as the envelope describes it.
    pub(crate) view: Value,
    pub(crate) documents: Vec<CorpusDocument>,
    pub(crate) unread: Vec<UnreadDocument>,
}

impl Corpus {
    /// Sorts the documents by path.
    pub(crate) fn sort(&mut self) {
        self.documents.sort_by(|a, b| a.path.cmp(&b.path).then(a.file.cmp(&b.file)));
        self.unread.sort_by(|a, b| a.path.cmp(&b.path).then(a.file.cmp(&b.file)));
    }

    /// Returns the number of documents in the view, read or not.
    pub(crate) fn total(&self) -> usize {
        self.documents.len() + self.unread.len()
    }

    /// Returns the share of the view's documents that were read, 0 to 1.
    pub(crate) fn coverage(&self) -> f64 {
        match self.total() {
            0 => 0.0,
            total => self.documents.len() as f64 / total as f64,
        }
    }

    /// Finds a document by its id, its path or the end of its path.
    ///
    /// # Errors
    /// Those of [`file_names::find_file`]. A document that could not be read is an error that gives the reason.
    pub(crate) fn find_document(&self, given: &Value, field: &str) -> ApiResult<&CorpusDocument> {
        let unread = self.unread.iter().map(|it| (it.file, it.path.as_str()));
        let known: Vec<(FileId, &str)> =
            self.documents.iter().map(|it| (it.file, it.path.as_str())).chain(unread).collect();
        let file = file_names::find_file(&known, given, field)?;
        match (self.documents.iter().find(|it| it.file == file), self.unread.iter().find(|it| it.file == file)) {
            (Some(paper), _) => Ok(paper),
            (None, Some(unread)) => Err(ApiError::new(
                ApiErrorKind::UnknownFile,
                format!("document {file} could not be read: {}", unread.reason),
            )
            .field(field)
            .action(format!("EXPLAIN_FAILURE url_id={file}"))),
            (None, None) => {
                Err(ApiError::new(ApiErrorKind::UnknownFile, format!("the view has no document {file}")).field(field))
            }
        }
    }
}
