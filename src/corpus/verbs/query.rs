//! The verb QUERY: exact boolean filters over metadata. Reads only the catalog columns that the filter names. For a filter
//! over facts, first parses the documents that were never parsed.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, SessionFile};
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::context::CorpusApi;
use crate::corpus::document::loader::DocumentLoader;
use crate::corpus::document::metadata::Facts;
use crate::corpus::filter::Filter;
use crate::corpus::limits::{MAX_DOCUMENTS_WITHOUT_ASYNC, MAX_SYNC_DOCUMENTS, too_many_documents};
use crate::corpus::outcome::VerbOutcome;
use crate::corpus::results::hash_result_id;
use crate::corpus::views::baseline::serialize_documents;
use crate::corpus::views::filter_row::{FilterRow, needed_columns};
use crate::corpus::views::saved_view::Selection;
use crate::corpus::views::select;
use crate::corpus::views::snapshot::{SessionSnapshot, missing_facts};
use crate::error::Result;
use crate::files::unresponsive;
use crate::index::blocking;
use crate::model::{ContentHash, FileId};

/// Maximum matches stored with the result for a later DELTA.
const MAX_STORED_MATCHES: usize = 1_000;

/// The result of applying a filter to a view.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FilterResult {
    pub(crate) ids: Vec<FileId>,
    /// Number of files in the view.
    pub(crate) seen: usize,
    /// Files for which the filter is undecided, because a value is missing.
    pub(crate) undecided: Vec<FileId>,
}

/// Applies a filter to the files of a selection.
pub(crate) fn apply_filter(
    catalog: &Catalog,
    facts: &HashMap<ContentHash, Facts>,
    selection: &Selection,
    filter: &Filter,
) -> Result<FilterResult> {
    let mut filters = selection.filters.clone();
    filters.push(filter.clone());
    let wanted = needed_columns(&filters);
    let (mut seen, mut open) = (0, Vec::new());
    let ids = select::select_where(catalog, facts, selection, &wanted, |sight| {
        // Skip a page that could not be fetched (its id is negative): it has no metadata.
        if sight.row.id < 0 {
            return false;
        }
        seen += 1;
        let holds = filter.evaluate(&|field| sight.value_of(field));
        if holds.is_none() {
            open.push(sight.row.id);
        }
        holds == Some(true)
    })?;
    Ok(FilterResult { ids, seen, undecided: open })
}

impl CorpusApi {
    /// Runs QUERY, or reports that it needs a job.
    pub(crate) async fn query(&self, request: &ValidRequest, patient: bool) -> ApiResult<VerbOutcome> {
        if patient {
            self.resolve_view(request).await?;
            return Ok(VerbOutcome::NeedsJob(0));
        }
        let unread = self.unparsed_files(request).await?;
        match unread.len() {
            0 => self.filter_view(request).await,
            many if many > MAX_DOCUMENTS_WITHOUT_ASYNC => Err(too_many_documents(many)),
            many if many > MAX_SYNC_DOCUMENTS => Ok(VerbOutcome::NeedsJob(many)),
            _ => self.read_and_filter(request, unread).await,
        }
    }

    /// Runs QUERY in a job, without a limit on the documents to parse first.
    pub(crate) async fn query_in_job(&self, request: &ValidRequest) -> ApiResult<VerbOutcome> {
        let unread = self.unparsed_files(request).await?;
        self.read_and_filter(request, unread).await
    }

    async fn read_and_filter(&self, request: &ValidRequest, unread: Vec<FileId>) -> ApiResult<VerbOutcome> {
        self.parse_all(&unread).await?;
        self.filter_view(request).await
    }

    /// Returns the files of the view whose facts the filter needs and that were never parsed.
    async fn unparsed_files(&self, request: &ValidRequest) -> ApiResult<Vec<FileId>> {
        let selection = self.resolve_view(request).await?;
        let mut filters = selection.filters.clone();
        filters.push(Filter::parse(request.text("filter").unwrap_or_default())?);
        self.files_without_facts(&selection, &filters).await
    }

    async fn filter_view(&self, request: &ValidRequest) -> ApiResult<VerbOutcome> {
        let selection = self.resolve_view(request).await?;
        let filter = Filter::parse(request.text("filter").unwrap_or_default())?;
        let (view, past) = (selection.description.clone(), selection.snapshot.clone());
        let (reader, own) = (self.reader.clone(), filter.clone());
        let (most, offset) = request.page();
        let found = blocking(move || {
            let facts = reader.facts()?;
            let found = apply_filter(&reader.parts.catalog, &facts, &selection, &own)?;
            let page: Vec<FileId> = found.ids.iter().skip(offset).take(most).copied().collect();
            let remembered = if found.ids.len() <= MAX_STORED_MATCHES { &found.ids[..] } else { &[] };
            let (page, all) = match &selection.snapshot {
                Some(past) => (session_rows(past, &page), session_rows(past, remembered)),
                None => (catalog_rows(&reader, &facts, &page)?, catalog_rows(&reader, &HashMap::new(), remembered)?),
            };
            let documents =
                if found.ids.len() <= MAX_STORED_MATCHES { serialize_documents(&all) } else { String::new() };
            Ok((found, page, documents))
        });
        let (found, page, documents) = found.await?;
        if found.seen == 0 {
            return Err(ApiError::new(ApiErrorKind::EmptyView, "the view holds no document")
                .field("view")
                .action("INGEST documents first"));
        }
        let mut answer = build_answer(request, &filter, &found, &page);
        match &past {
            Some(past) => answer.unknowns.extend(missing_facts(past).filter(|_| !found.undecided.is_empty())),
            None => report_vanished_roots(&mut answer, &page).await?,
        }
        let id = hash_result_id(&request.canonical(), &format!("{:?} {}", found.ids, answer.data));
        Ok(VerbOutcome::Answer { id, view, coverage: 1.0, documents, answer: Box::new(answer) })
    }
}

/// Returns the rows of files as recorded in their session.
fn session_rows(past: &SessionSnapshot, ids: &[FileId]) -> Vec<SessionFile> {
    let at = |id: &FileId| past.files.binary_search_by_key(id, |it| it.file).ok();
    ids.iter().filter_map(at).map(|at| past.files[at].clone()).collect()
}

/// Returns the rows of files as recorded in the catalog, with their facts.
fn catalog_rows(
    reader: &DocumentLoader,
    facts: &HashMap<ContentHash, Facts>,
    ids: &[FileId],
) -> Result<Vec<SessionFile>> {
    let facts = |hash: Option<ContentHash>| serde_json::to_string(facts.get(&hash?)?).ok();
    let records = reader.parts.catalog.records(ids)?;
    Ok(records.iter().map(|it| SessionFile { facts: facts(it.hash), ..SessionFile::new(it) }).collect())
}

/// Reports which roots of the files on a page no longer exist. Checks each root once, and no single file.
async fn report_vanished_roots(answer: &mut Answer, page: &[SessionFile]) -> ApiResult<()> {
    let roots: BTreeSet<String> = page.iter().map(|it| it.root.clone()).collect();
    let is_gone = |root: &Path| unresponsive::is_unresponsive(root) || !root.exists();
    let look = move || Ok(roots.into_iter().filter(|it| is_gone(Path::new(it))).collect::<BTreeSet<String>>());
    let gone = blocking(look).await?;
    let files: Vec<FileId> = page.iter().filter(|it| gone.contains(&it.root)).map(|it| it.file).collect();
    if !files.is_empty() && files.len() == page.len() {
        return Err(select::vanished_error());
    }
    if !files.is_empty() {
        let roots = gone.into_iter().collect::<Vec<_>>().join(", ");
        answer.push_unknown(Unknown::new("vanished_folder", files.len()).files(&files).detail(roots));
    }
    Ok(())
}

fn build_answer(request: &ValidRequest, filter: &Filter, found: &FilterResult, page: &[SessionFile]) -> Answer {
    let mut answer =
        Answer::new("exact three-valued logic: a condition that depends on a missing value is neither true nor false");
    let (most, offset) = request.page();
    let left = found.ids.len().saturating_sub(offset + page.len());
    if left > 0 {
        answer.push_unknown(Unknown::new("more_objects", left).detail(format!("go on at offset {}", offset + most)));
    }
    if !found.undecided.is_empty() {
        let fields: Vec<&str> = filter.fields().iter().map(|it| it.name).collect();
        let detail = format!("undecided, because one of these fields has no value: {}", fields.join(", "));
        answer.push_unknown(Unknown::new("no_value", found.undecided.len()).files(&found.undecided).detail(detail));
    }
    answer.coverage = Some((found.seen - found.undecided.len()) as f64 / found.seen as f64);
    let shown: Vec<Value> = page.iter().map(|it| document_row(it, filter)).collect();
    answer.data = json!({"count": found.ids.len(), "documents_in_view": found.seen, "documents": shown});
    answer
}

/// Returns a document as JSON, with the fields that the filter names.
fn document_row(file: &SessionFile, filter: &Filter) -> Value {
    let facts = file.facts.as_deref().and_then(|it| serde_json::from_str::<Facts>(it).ok());
    let mut shown = Map::from_iter([("file".to_string(), json!(file.file)), ("path".to_string(), json!(file.path))]);
    for field in filter.fields() {
        let columns = needed_columns(std::slice::from_ref(filter));
        let row = file.predicate_row(&columns);
        let sight = FilterRow { row: &row, columns: &columns, facts: facts.as_ref() };
        shown.insert(field.name.into(), sight.value_of(field).map_or(Value::Null, |it| it.value()));
    }
    Value::Object(shown)
}
