//! QUERY: exact boolean filters over metadata. Only the catalog columns that the filter names are read. A filter over
//! facts first parses the documents that were never parsed.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, SessionFile};
use crate::corpus::api::answer::{Answer, Unknown};
use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::api::validate::Request;
use crate::corpus::document::loader::Reader;
use crate::corpus::document::metadata::Facts;
use crate::corpus::filter::Filter;
use crate::corpus::views::saved_view::Selection;
use crate::corpus::views::select::{Sight, columns};
use crate::corpus::views::snapshot::Past;
use crate::corpus::views::{select, snapshot};
use crate::corpus::{Contract, Done, SYNCHRONOUS, UNASKED, result_id, too_many};
use crate::error::Result;
use crate::files::unresponsive;
use crate::index::blocking;
use crate::model::{ContentHash, FileId};

/// Most matches stored for a later DELTA.
const MOST_REMEMBERED: usize = 1_000;

/// The result of a filter over a view.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) ids: Vec<FileId>,
    /// Number of files in the view.
    pub(crate) seen: usize,
    /// Undecided files: a value is missing.
    pub(crate) open: Vec<FileId>,
}

/// Evaluates a filter over a selection.
pub(crate) fn sift(
    catalog: &Catalog,
    facts: &HashMap<ContentHash, Facts>,
    selection: &Selection,
    filter: &Filter,
) -> Result<Found> {
    let mut filters = selection.filters.clone();
    filters.push(filter.clone());
    let wanted = columns(&filters);
    let (mut seen, mut open) = (0, Vec::new());
    let ids = select::sieve(catalog, facts, selection, &wanted, |sight| {
        // A page that could not be fetched has no metadata.
        if sight.row.id < 0 {
            return false;
        }
        seen += 1;
        let holds = filter.evaluate(&|field| sight.datum(field));
        if holds.is_none() {
            open.push(sight.row.id);
        }
        holds == Some(true)
    })?;
    Ok(Found { ids, seen, open })
}

impl Contract {
    /// Runs QUERY, or reports that it needs a job.
    pub(crate) async fn query(&self, request: &Request, patient: bool) -> Outcome<Done> {
        if patient {
            return Ok(Done::Later(0));
        }
        let unread = self.unread(request).await?;
        match unread.len() {
            0 => self.sift(request).await,
            many if many > UNASKED => Err(too_many(many)),
            many if many > SYNCHRONOUS => Ok(Done::Later(many)),
            _ => self.read_and_sift(request, unread).await,
        }
    }

    /// Like [`Contract::query`], in a job.
    pub(crate) async fn query_at_leisure(&self, request: &Request) -> Outcome<Done> {
        let unread = self.unread(request).await?;
        self.read_and_sift(request, unread).await
    }

    async fn read_and_sift(&self, request: &Request, unread: Vec<FileId>) -> Outcome<Done> {
        self.read_all(&unread).await?;
        self.sift(request).await
    }

    /// Files of the view that the filter needs facts of and that were never parsed.
    async fn unread(&self, request: &Request) -> Outcome<Vec<FileId>> {
        let selection = self.selection(request).await?;
        let mut filters = selection.filters.clone();
        filters.push(Filter::parse(request.text("filter").unwrap_or_default())?);
        self.unknown(&selection, &filters).await
    }

    async fn sift(&self, request: &Request) -> Outcome<Done> {
        let selection = self.selection(request).await?;
        let filter = Filter::parse(request.text("filter").unwrap_or_default())?;
        let (view, past) = (selection.shown.clone(), selection.past.clone());
        let (reader, own) = (self.reader.clone(), filter.clone());
        let (most, offset) = request.page();
        let found = blocking(move || {
            let facts = reader.facts()?;
            let found = sift(&reader.parts.catalog, &facts, &selection, &own)?;
            let page: Vec<FileId> = found.ids.iter().skip(offset).take(most).copied().collect();
            let remembered = if found.ids.len() <= MOST_REMEMBERED { &found.ids[..] } else { &[] };
            let (page, all) = match &selection.past {
                Some(past) => (of_session(past, &page), of_session(past, remembered)),
                None => (of_catalog(&reader, &facts, &page)?, of_catalog(&reader, &HashMap::new(), remembered)?),
            };
            let documents = if found.ids.len() <= MOST_REMEMBERED { snapshot::remembered(&all) } else { String::new() };
            Ok((found, page, documents))
        });
        let (found, page, documents) = found.await?;
        if found.seen == 0 {
            return Err(Refusal::new(Cause::EmptyView, "the view holds no document")
                .field("view")
                .action("INGEST documents first"));
        }
        let mut answer = answered(request, &filter, &found, &page);
        match &past {
            Some(past) => answer.unknowns.extend(snapshot::no_facts(past).filter(|_| !found.open.is_empty())),
            None => note_vanished(&mut answer, &page).await?,
        }
        let id = result_id(&request.canonical(), &format!("{:?} {}", found.ids, answer.data));
        Ok(Done::Answer { id, view, coverage: 1.0, documents, answer: Box::new(answer) })
    }
}

/// Files as recorded in their session.
fn of_session(past: &Past, ids: &[FileId]) -> Vec<SessionFile> {
    let at = |id: &FileId| past.files.binary_search_by_key(id, |it| it.file).ok();
    ids.iter().filter_map(at).map(|at| past.files[at].clone()).collect()
}

/// Files as recorded in the catalog, with their facts.
fn of_catalog(reader: &Reader, facts: &HashMap<ContentHash, Facts>, ids: &[FileId]) -> Result<Vec<SessionFile>> {
    let facts = |hash: Option<ContentHash>| serde_json::to_string(facts.get(&hash?)?).ok();
    let records = reader.parts.catalog.records(ids)?;
    Ok(records.iter().map(|it| SessionFile { facts: facts(it.hash), ..SessionFile::new(it) }).collect())
}

/// Reports which roots of a page are gone. Checks each root once and no file.
async fn note_vanished(answer: &mut Answer, page: &[SessionFile]) -> Outcome<()> {
    let roots: BTreeSet<String> = page.iter().map(|it| it.root.clone()).collect();
    let is_gone = |root: &Path| unresponsive::holds(root) || !root.exists();
    let look = move || Ok(roots.into_iter().filter(|it| is_gone(Path::new(it))).collect::<BTreeSet<String>>());
    let gone = blocking(look).await?;
    let files: Vec<FileId> = page.iter().filter(|it| gone.contains(&it.root)).map(|it| it.file).collect();
    if !files.is_empty() && files.len() == page.len() {
        return Err(select::vanished());
    }
    if !files.is_empty() {
        let roots = gone.into_iter().collect::<Vec<_>>().join(", ");
        answer.unknown(Unknown::new("vanished_folder", files.len()).files(&files).detail(roots));
    }
    Ok(())
}

fn answered(request: &Request, filter: &Filter, found: &Found, page: &[SessionFile]) -> Answer {
    let mut answer = Answer::new(
        "exact boolean evaluation of three values: what depends on a missing value is neither true nor false",
    );
    let (most, offset) = request.page();
    let left = found.ids.len().saturating_sub(offset + page.len());
    if left > 0 {
        answer.unknown(Unknown::new("more_objects", left).detail(format!("go on at offset {}", offset + most)));
    }
    if !found.open.is_empty() {
        let fields: Vec<&str> = filter.fields().iter().map(|it| it.name).collect();
        let detail = format!("neither matched nor not: no value of one of {}", fields.join(", "));
        answer.unknown(Unknown::new("no_value", found.open.len()).files(&found.open).detail(detail));
    }
    answer.coverage = Some((found.seen - found.open.len()) as f64 / found.seen as f64);
    let shown: Vec<Value> = page.iter().map(|it| shown(it, filter)).collect();
    answer.data = json!({"count": found.ids.len(), "documents_in_view": found.seen, "documents": shown});
    answer
}

/// A document with the fields of the filter.
fn shown(file: &SessionFile, filter: &Filter) -> Value {
    let facts = file.facts.as_deref().and_then(|it| serde_json::from_str::<Facts>(it).ok());
    let mut shown = Map::from_iter([("file".to_string(), json!(file.file)), ("path".to_string(), json!(file.path))]);
    for field in filter.fields() {
        let columns = select::columns(std::slice::from_ref(filter));
        let row = file.row(&columns);
        let sight = Sight { row: &row, columns: &columns, facts: facts.as_ref() };
        shown.insert(field.name.into(), sight.datum(field).map_or(Value::Null, |it| it.value()));
    }
    Value::Object(shown)
}
