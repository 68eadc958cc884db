//! Resolves a view to its files, and loads their documents.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::pin;

use futures::{StreamExt, stream};
use serde_json::Value;

use crate::catalog::{Catalog, Cell, Column};
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::context::CorpusApi;
use crate::corpus::document::cache::ViewBudget;
use crate::corpus::document::metadata::Facts;
use crate::corpus::filter::{FieldSource, Filter};
use crate::corpus::limits::MAX_SYNC_DOCUMENTS;
use crate::corpus::results::hash_result_id;
use crate::corpus::text::dates;
use crate::corpus::views::baseline::DeltaBaseline;
use crate::corpus::views::documents::{Corpus, CorpusDocument, PAST_TEXT_GONE, UnreadDocument};
use crate::corpus::views::file_names;
use crate::corpus::views::filter_row::{FilterRow, needed_columns};
use crate::corpus::views::saved_view::{Selection, View, ViewReference, view_reference};
use crate::error;
use crate::index::blocking;
use crate::model::{ContentHash, FileId, FileRecord, FileState};

/// Number of files that are parsed at the same time.
pub(crate) const READ_CONCURRENCY: usize = 4;

/// Returns the ids of the selected files that `keep` accepts, from the catalog or from the session of the view. Reads only
/// the needed catalog columns and opens no file.
pub(crate) fn select_where(
    catalog: &Catalog,
    facts: &HashMap<ContentHash, Facts>,
    selection: &Selection,
    wanted: &[Column],
    mut keep: impl FnMut(&FilterRow<'_>) -> bool,
) -> error::Result<Vec<FileId>> {
    let Some(past) = &selection.snapshot else {
        return catalog.select_where(&selection.base, wanted, |row| {
            let mut sight = FilterRow { row, columns: wanted, facts: None };
            sight.facts = sight.hash().and_then(|it| facts.get(&it));
            selection.contains(&sight) && keep(&sight)
        });
    };
    let mut kept = Vec::new();
    for (file, own) in past.files.iter().zip(&past.facts) {
        let row = file.predicate_row(wanted);
        let sight = FilterRow { row: &row, columns: wanted, facts: own.as_ref() };
        if selection.contains(&sight) && keep(&sight) {
            kept.push(file.file);
        }
    }
    Ok(kept)
}

impl CorpusApi {
    /// Resolves the view of a request.
    pub(crate) async fn resolve_view(&self, request: &ValidRequest) -> ApiResult<Selection> {
        match view_reference(request) {
            ViewReference::Warehouse => Ok(Selection::all(&self.scope)),
            ViewReference::Session(session) => self.resolve_session(session).await,
            ViewReference::View(name) => self.resolve_saved_view(name, &self.load_view(name).await?).await,
        }
    }

    /// Resolves a saved view.
    pub(crate) async fn resolve_saved_view(&self, name: &str, view: &View) -> ApiResult<Selection> {
        match view {
            View::Session { session } => self.resolve_session(*session).await,
            view => Selection::saved(&self.scope, name, view, dates::now_ns()),
        }
    }

    async fn resolve_session(&self, session: i64) -> ApiResult<Selection> {
        Ok(Selection::session(&self.scope, self.session_snapshot(session).await?))
    }

    /// Returns the ids of the selected files. Filters on facts (counts, flags, dates in the text) use only facts that are
    /// already known; no file is parsed.
    pub(crate) async fn select_files(&self, selection: &Selection) -> ApiResult<Vec<FileId>> {
        let (reader, selection) = (self.reader.clone(), selection.clone());
        let selected = blocking(move || {
            let facts = reader.facts()?;
            let mut wanted = needed_columns(&selection.filters);
            if !wanted.contains(&Column::State) {
                wanted.push(Column::State);
            }
            let state = wanted.iter().position(|it| *it == Column::State).unwrap_or(0);
            select_where(&reader.parts.catalog, &facts, &selection, &wanted, |sight| {
                selection.is_explicit || sight.row.cells[state] != Cell::Text("skipped".into())
            })
        });
        Ok(selected.await?)
    }

    /// Returns ids and paths of the selected files, including skipped files; for a set also files no longer in the catalog.
    pub(crate) async fn paths(&self, selection: &Selection) -> ApiResult<Vec<(FileId, String)>> {
        let (reader, selection) = (self.reader.clone(), selection.clone());
        let found = blocking(move || {
            let facts = reader.facts()?;
            let mut wanted = needed_columns(&selection.filters);
            wanted.retain(|it| *it != Column::Path);
            wanted.push(Column::Path);
            let mut known: BTreeMap<FileId, String> = selection.named.iter().cloned().collect();
            select_where(&reader.parts.catalog, &facts, &selection, &wanted, |sight| {
                if let Some(Cell::Text(path)) = sight.row.cells.last() {
                    known.insert(sight.row.id, path.clone());
                }
                false
            })?;
            Ok(known.into_iter().collect())
        });
        Ok(found.await?)
    }

    /// Narrows the selection to the documents that the request names, if the answer depends on no other documents.
    pub(crate) async fn narrow_to_named(&self, request: &ValidRequest, selection: &mut Selection) -> ApiResult<()> {
        let given = named_documents(request);
        if given.is_empty() {
            return Ok(());
        }
        let known = self.paths(selection).await?;
        let known: Vec<(FileId, &str)> = known.iter().map(|it| (it.0, it.1.as_str())).collect();
        let files = given
            .into_iter()
            .map(|(field, it)| file_names::find_file(&known, it, field))
            .collect::<ApiResult<Vec<_>>>()?;
        selection.restrict_to(files);
        Ok(())
    }

    /// Checks that the view has the document that TRACE starts from. The answer depends on all documents of the view.
    pub(crate) async fn check_source(&self, request: &ValidRequest, selection: &Selection) -> ApiResult<()> {
        let Some(source) = request.fields.get("source") else { return Ok(()) };
        let known = self.paths(selection).await?;
        let known: Vec<(FileId, &str)> = known.iter().map(|it| (it.0, it.1.as_str())).collect();
        file_names::find_file(&known, source, "source").map(drop)
    }

    /// Returns the files that must be parsed first, because the filters need their facts and these are not known. None for a
    /// session, which uses only the facts recorded with it.
    pub(crate) async fn files_without_facts(
        &self,
        selection: &Selection,
        filters: &[Filter],
    ) -> ApiResult<Vec<FileId>> {
        let needs = |it: &Filter| it.fields().iter().any(|it| matches!(it.origin, FieldSource::Fact(_)));
        if !filters.iter().any(needs) || selection.snapshot.is_some() {
            return Ok(Vec::new());
        }
        let selection = Selection { filters: Vec::new(), ..selection.clone() };
        let reader = self.reader.clone();
        let found = blocking(move || {
            let facts = reader.facts()?;
            let wanted = [Column::State, Column::Hash];
            select_where(&reader.parts.catalog, &facts, &selection, &wanted, |sight| {
                let is_known = sight.facts.is_some() || sight.hash().is_none();
                !is_known && sight.row.cells[0] == Cell::Text("indexed".into())
            })
        });
        Ok(found.await?)
    }

    /// Parses files into the cache, [`READ_CONCURRENCY`] at a time.
    pub(crate) async fn parse_all(&self, ids: &[FileId]) -> ApiResult<()> {
        for some in ids.chunks(MAX_SYNC_DOCUMENTS) {
            let (reader, wanted) = (self.reader.clone(), some.to_vec());
            let records = blocking(move || reader.parts.catalog.records(&wanted)).await?;
            // Ignore a file that cannot be read: it is reported when a verb needs it.
            stream::iter(records)
                .map(|record| self.load_document(record))
                .buffered(READ_CONCURRENCY)
                .for_each(async |_| ())
                .await;
        }
        Ok(())
    }

    /// Loads the documents of a selection, up to the memory budget.
    pub(crate) async fn load_corpus(&self, selection: &Selection, ids: &[FileId]) -> ApiResult<Corpus> {
        let mut corpus = match &selection.snapshot {
            Some(past) => self.load_session(past, ids).await?,
            None => self.load_current(selection, ids).await?,
        };
        corpus.view = selection.description.clone();
        corpus.sort();
        Ok(corpus)
    }

    async fn load_current(&self, selection: &Selection, ids: &[FileId]) -> ApiResult<Corpus> {
        let (reader, wanted) = (self.reader.clone(), ids.to_vec());
        let records = blocking(move || reader.parts.catalog.records(&wanted)).await?;
        let mut corpus = Corpus::default();
        let known: HashSet<FileId> = records.iter().map(|it| it.id).collect();
        let gone = selection.named.iter().filter(|it| !known.contains(&it.0));
        corpus.unread.extend(gone.map(|it| UnreadDocument { file: it.0, path: it.1.clone(), reason: "gone".into() }));
        let mut read = pin!(stream::iter(records).map(|record| self.load_document(record)).buffered(READ_CONCURRENCY));
        let mut room = ViewBudget::new();
        while let Some(outcome) = read.next().await {
            match outcome {
                Ok(paper) => {
                    room.reserve(&paper.parsed)?;
                    corpus.documents.push(paper);
                }
                Err(unread) => corpus.unread.push(unread),
            }
        }
        Ok(corpus)
    }

    pub(crate) async fn load_document(&self, record: FileRecord) -> Result<CorpusDocument, UnreadDocument> {
        let path = record.found.path.to_string_lossy().into_owned();
        let unread = |reason: String| UnreadDocument { file: record.id, path: path.clone(), reason };
        let not_now = match record.state {
            FileState::Indexed => None,
            FileState::Pending => Some("pending"),
            FileState::Skipped | FileState::Failed => Some(record.reason.map_or("io", |it| it.name())),
        };
        if let Some(reason) = not_now {
            return Err(unread(reason.into()));
        }
        match self.reader.load(&record).await {
            Ok(read) => Ok(CorpusDocument {
                file: record.id,
                path,
                modified_ns: record.found.modified_ns,
                size: record.found.size,
                hash: read.hash,
                parsed: read.reading,
            }),
            Err(reason) => Err(unread(reason)),
        }
    }
}

/// Returns the documents that the request names, each with its field, if the answer depends on no other documents.
fn named_documents(request: &ValidRequest) -> Vec<(&'static str, &Value)> {
    let fields: &[&'static str] = match (request.verb.name, request.form.name) {
        ("COMPARE", "versions") => &["doc_a", "doc_b"],
        ("SUMMARIZE", "comparison-matrix") => &["items"],
        ("EXPLAIN_FAILURE", _) => &["url_id"],
        ("EXTRACT", _) => {
            return request.nested_field("filters", "file").map(|it| ("filters.file", it)).into_iter().collect();
        }
        _ => &[],
    };
    let given = fields.iter().filter_map(|it| Some((*it, request.fields.get(*it)?)));
    given
        .flat_map(|(field, value)| match value {
            Value::Array(list) => list.iter().map(|it| (field, it)).collect(),
            one => vec![(field, one)],
        })
        .collect()
}

/// Rejects a view without documents, or one whose files no longer exist.
pub(crate) fn check_not_empty(corpus: &Corpus) -> ApiResult<()> {
    if corpus.total() == 0 {
        return Err(ApiError::new(ApiErrorKind::EmptyView, "the view holds no document")
            .field("view")
            .action("INGEST documents, or check the view with `view show`"));
    }
    if corpus.documents.is_empty() && corpus.unread.iter().all(|it| it.reason == "gone") {
        return Err(vanished_error());
    }
    Ok(())
}

/// Returns the error for a view whose files no longer exist.
pub(crate) fn vanished_error() -> ApiError {
    ApiError::new(ApiErrorKind::VanishedFolder, "the files of the view no longer exist")
        .field("view")
        .action("restore the folder, or INGEST it at its new path")
}

/// Returns the result id of a request on a view; requests on equal contents give equal ids.
pub(crate) fn view_result_id(request: &ValidRequest, corpus: &Corpus, earlier: Option<&DeltaBaseline>) -> String {
    let mut state = String::new();
    for paper in &corpus.documents {
        state.push_str(&format!("{} {} {}\n", paper.file, paper.hash, paper.path));
    }
    for unread in &corpus.unread {
        state.push_str(&format!("{} {}\n", unread.file, unread.reason));
    }
    if let Some(earlier) = earlier {
        state.push_str(&format!("{}\n", earlier.name));
    }
    hash_result_id(&request.canonical(), &state)
}

/// Reports in the answer which documents were not read.
pub(crate) fn report_unread(answer: &mut Answer, corpus: &Corpus) {
    let mut reasons: BTreeMap<&str, Vec<FileId>> = BTreeMap::new();
    for unread in &corpus.unread {
        reasons.entry(&unread.reason).or_default().push(unread.file);
    }
    for (reason, files) in reasons {
        let kind = if reason == PAST_TEXT_GONE { PAST_TEXT_GONE } else { "unreadable_document" };
        answer.push_unknown(Unknown::new(kind, files.len()).files(&files).detail(reason));
    }
}
