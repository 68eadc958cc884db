//! From a view to documents that were read.

use std::collections::{BTreeMap, HashMap};

use futures::{StreamExt, stream};

use crate::catalog::{Cell, Column, SessionFile, SievedRow};
use crate::contract::answer::{Answer, Unknown};
use crate::contract::corpus::{Corpus, Paper, Unread};
use crate::contract::dates;
use crate::contract::delta::Earlier;
use crate::contract::facts::Facts;
use crate::contract::filter::{Datum, Filter, Known, Origin, Type};
use crate::contract::reader::ByHash;
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::contract::result_id;
use crate::contract::validate::Request;
use crate::contract::view::{Named, Selection, View, named};
use crate::contract::{Contract, SYNCHRONOUS};
use crate::index::blocking;
use crate::model::{ContentHash, FileId, FileRecord, FileState};

/// Files that are read at the same time.
const AT_ONCE: usize = 4;

/// How much may be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    WhileWaiting,
    AtLeisure,
}

/// A row that a filter looks at: the columns it asked for, and the facts of its content.
pub(crate) struct Sight<'a> {
    pub(crate) row: &'a SievedRow,
    pub(crate) columns: &'a [Column],
    pub(crate) facts: Option<&'a Facts>,
}

impl Sight<'_> {
    /// The value of a field.
    pub(crate) fn datum(&self, field: &'static Known) -> Option<Datum> {
        let column = match field.origin {
            Origin::Fact(name) => return self.facts?.datum(name),
            Origin::Catalog(column) => column,
        };
        let at = self.columns.iter().position(|it| *it == column)?;
        match (&self.row.cells[at], field.kind) {
            (Cell::Text(text), _) => Some(Datum::Text(text.clone())),
            (Cell::Number(number), Type::Moment) => Some(Datum::Moment(*number)),
            (Cell::Number(number), _) => Some(Datum::Number(*number as f64)),
            (Cell::Absent | Cell::Hash(_), _) => None,
        }
    }

    /// The content.
    pub(crate) fn hash(&self) -> Option<ContentHash> {
        self.row.cells.iter().find_map(|it| if let Cell::Hash(hash) = it { Some(*hash) } else { None })
    }
}

/// The columns that some filters look at, and the hash where one looks at facts.
pub(crate) fn columns(filters: &[Filter]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for field in filters.iter().flat_map(|it| it.fields()) {
        let column = match field.origin {
            Origin::Catalog(column) => column,
            Origin::Fact(_) => Column::Hash,
        };
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

impl Contract {
    /// What a request's view comes to.
    pub(crate) async fn selection(&self, request: &Request) -> Outcome<Selection> {
        match named(request) {
            Named::Warehouse => Ok(Selection::all(&self.scope)),
            Named::Session(session) => self.session_selection(session).await,
            Named::View(name) => match self.saved(name).await? {
                View::Session { session } => self.session_selection(session).await,
                view => Selection::saved(&self.scope, name, &view),
            },
        }
    }

    pub(crate) async fn session_selection(&self, session: i64) -> Outcome<Selection> {
        let (_, files) = self.session_files(session).await?;
        let files = files.into_iter().filter(|it| it.problem.is_empty()).collect();
        Ok(Selection::session(&self.scope, session, files))
    }

    /// The body and the files of a session of the caller.
    pub(crate) async fn session_files(&self, session: i64) -> Outcome<(String, Vec<SessionFile>)> {
        let (reader, owner) = (self.reader.clone(), self.owner());
        let found = blocking(move || match reader.parts.book.session(&owner, session)? {
            Some((body, _)) => Ok(Ok((body, reader.parts.book.session_files(session)?))),
            None => Ok(Err(reader.parts.book.sessions(&owner)?)),
        });
        found.await?.map_err(|known| {
            let refusal =
                Refusal::new(Cause::UnknownSession, format!("there is no session {session}")).field("session");
            match known.last() {
                Some(last) => refusal.action(format!("the last session is {last}")),
                None => refusal.action("INGEST makes one"),
            }
        })
    }

    /// The files of a selection, by number. Their facts are as far as they are known.
    pub(crate) async fn select(&self, selection: &Selection) -> Outcome<Vec<FileId>> {
        let (reader, selection) = (self.reader.clone(), selection.clone());
        let selected = blocking(move || {
            let facts = reader.facts()?;
            let mut wanted = columns(&selection.filters);
            if !wanted.contains(&Column::State) {
                wanted.push(Column::State);
            }
            let state = wanted.iter().position(|it| *it == Column::State).unwrap_or(0);
            reader.parts.catalog.sieve(&selection.base, &wanted, |row| {
                let named = selection.files.is_some();
                let worth = named || row.cells[state] != Cell::Text("skipped".into());
                worth && selects(&selection, row, &wanted, &facts)
            })
        });
        Ok(selected.await?)
    }

    /// The files of a selection whose facts its filters need and nobody knows.
    pub(crate) async fn unknown(&self, selection: &Selection, filters: &[Filter]) -> Outcome<Vec<FileId>> {
        let needs = |it: &Filter| it.fields().iter().any(|it| matches!(it.origin, Origin::Fact(_)));
        if !filters.iter().any(needs) {
            return Ok(Vec::new());
        }
        let selection = Selection { filters: Vec::new(), ..selection.clone() };
        let reader = self.reader.clone();
        let found = blocking(move || {
            let facts = reader.facts()?;
            let wanted = [Column::State, Column::Hash];
            reader.parts.catalog.sieve(&selection.base, &wanted, |row| {
                let known = match &row.cells[1] {
                    Cell::Hash(hash) => facts.contains_key(hash),
                    _ => true,
                };
                let is_indexed = row.cells[0] == Cell::Text("indexed".into());
                !known && is_indexed && selects(&selection, row, &wanted, &facts)
            })
        });
        Ok(found.await?)
    }

    /// Reads files only to keep what is in them, a few at a time: there may be many.
    pub(crate) async fn read_all(&self, ids: &[FileId]) -> Outcome<()> {
        for some in ids.chunks(SYNCHRONOUS) {
            let (reader, wanted) = (self.reader.clone(), some.to_vec());
            let records = blocking(move || reader.parts.catalog.records(&wanted)).await?;
            // What cannot be read is told when a verb asks for it.
            stream::iter(records).map(|record| self.read_one(record)).buffered(AT_ONCE).for_each(async |_| ()).await;
        }
        Ok(())
    }

    /// Reads the files of a selection.
    pub(crate) async fn load(&self, selection: &Selection, ids: Vec<FileId>) -> Outcome<Corpus> {
        let (reader, wanted) = (self.reader.clone(), ids.clone());
        let records = blocking(move || reader.parts.catalog.records(&wanted)).await?;
        let mut corpus = Corpus { view: selection.shown.clone(), ..Corpus::default() };
        let before: HashMap<FileId, &SessionFile> =
            selection.session.iter().flat_map(|it| &it.1).map(|it| (it.file, it)).collect();
        let mut current = Vec::new();
        for record in records {
            let was = before.get(&record.id);
            match was.and_then(|it| self.as_it_was(it)) {
                Some(paper) => {
                    if was.is_some_and(|it| it.hash != record.hash) {
                        corpus.kept.push(paper.file);
                    }
                    corpus.papers.push(paper);
                }
                None => current.push(record),
            }
        }
        let gone = before.values().filter(|it| !ids.contains(&it.file));
        for file in gone {
            match self.as_it_was(file) {
                Some(paper) => {
                    corpus.kept.push(paper.file);
                    corpus.papers.push(paper);
                }
                None => corpus.unread.push(Unread { file: file.file, path: file.path.clone(), reason: "gone".into() }),
            }
        }
        let read =
            stream::iter(current).map(|record| self.read_one(record)).buffered(AT_ONCE).collect::<Vec<_>>().await;
        for outcome in read {
            match outcome {
                Ok(paper) => {
                    if before.get(&paper.file).is_some_and(|it| it.hash != Some(paper.hash)) {
                        corpus.changed.push(paper.file);
                    }
                    corpus.papers.push(paper);
                }
                Err(unread) => corpus.unread.push(unread),
            }
        }
        corpus.papers.sort_by_key(|it| it.file);
        corpus.unread.sort_by_key(|it| it.file);
        corpus.kept.sort_unstable();
        refuse_empty(&corpus)?;
        Ok(corpus)
    }

    /// A file of a session as it was then, if what was read is kept.
    fn as_it_was(&self, file: &SessionFile) -> Option<Paper> {
        let extension = file.path.rsplit('.').next().unwrap_or_default().to_lowercase();
        let hash = file.hash?;
        let reading = self.reader.kept(hash, &extension)?;
        Some(Paper {
            file: file.file,
            path: file.path.clone(),
            modified_ns: file.modified_ns,
            size: file.size,
            hash,
            reading,
        })
    }

    async fn read_one(&self, record: FileRecord) -> Result<Paper, Unread> {
        let path = record.found.path.to_string_lossy().into_owned();
        let unread = |reason: String| Unread { file: record.id, path: path.clone(), reason };
        let not_now = match record.state {
            FileState::Indexed => None,
            FileState::Pending => Some("pending"),
            FileState::Skipped | FileState::Failed => Some(record.reason.map_or("io", |it| it.name())),
        };
        if let Some(reason) = not_now {
            return Err(unread(reason.into()));
        }
        match self.reader.read(&record).await {
            Ok(read) => Ok(Paper {
                file: record.id,
                path,
                modified_ns: record.found.modified_ns,
                size: record.found.size,
                hash: read.hash,
                reading: read.reading,
            }),
            Err(reason) => Err(unread(reason)),
        }
    }

    /// What DELTA compares: the files of now, and the earlier state.
    pub(crate) async fn baseline(&self, request: &Request) -> Outcome<(Selection, Option<Earlier>)> {
        let selection = self.selection(request).await?;
        let session = match (request.whole("baseline"), request.text("since").and_then(dates::moment)) {
            (Some(session), _) => Some(session),
            (None, Some(since)) => self.last_session(Some(since / 1_000_000)).await?,
            (None, None) => self.last_session(None).await?,
        };
        let Some(session) = session else { return Ok((selection, None)) };
        let (body, files) = self.session_files(session).await?;
        let mut readings = ByHash::new();
        for file in &files {
            if let Some(paper) = self.as_it_was(file) {
                readings.insert(paper.hash, paper.reading);
            }
        }
        let is_whole = matches!(named(request), Named::Warehouse) && !request.has("watch");
        let selection = if is_whole { self.same_places(&body, selection) } else { selection };
        Ok((selection, Some(Earlier { session, files, readings })))
    }

    /// The files that lie now where a session looked.
    fn same_places(&self, body: &str, selection: Selection) -> Selection {
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        let paths: Vec<&str> = body["paths"].as_array().into_iter().flatten().filter_map(|it| it.as_str()).collect();
        match paths.as_slice() {
            [one] => Selection { shown: selection.shown, ..Selection::under(&self.scope, (*one).into()) },
            _ => selection,
        }
    }

    /// The last session of the caller, or the last one before a moment.
    async fn last_session(&self, before_ms: Option<i64>) -> Outcome<Option<i64>> {
        let (reader, owner) = (self.reader.clone(), self.owner());
        let found = blocking(move || {
            for session in reader.parts.book.sessions(&owner)?.into_iter().rev() {
                let created = reader.parts.book.session(&owner, session)?.map_or(0, |it| it.1);
                if before_ms.is_none_or(|it| created <= it) {
                    return Ok(Some(session));
                }
            }
            Ok(None)
        });
        Ok(found.await?)
    }
}

/// Says whether a row belongs to a selection.
pub(crate) fn selects(
    selection: &Selection,
    row: &SievedRow,
    columns: &[Column],
    facts: &HashMap<ContentHash, Facts>,
) -> bool {
    if selection.files.as_ref().is_some_and(|it| !it.contains(&row.id)) || selection.upto.is_some_and(|it| row.id > it)
    {
        return false;
    }
    if selection.filters.is_empty() {
        return true;
    }
    let mut sight = Sight { row, columns, facts: None };
    sight.facts = sight.hash().and_then(|it| facts.get(&it));
    selection.filters.iter().all(|filter| filter.matches(&|field| sight.datum(field)))
}

fn refuse_empty(corpus: &Corpus) -> Outcome<()> {
    if corpus.total() == 0 {
        return Err(Refusal::new(Cause::EmptyView, "the view holds no document")
            .field("view")
            .action("INGEST documents, or look at the view with `view show`"));
    }
    if corpus.papers.is_empty() && corpus.unread.iter().all(|it| it.reason == "gone") {
        return Err(Refusal::new(Cause::VanishedFolder, "the files of the view are gone")
            .field("view")
            .action("bring the folder back, or INGEST it where it lies now"));
    }
    Ok(())
}

/// The id of a question on a view: the same for the same contents.
pub(crate) fn id(request: &Request, corpus: &Corpus, earlier: Option<&Earlier>) -> String {
    let mut state = String::new();
    for paper in &corpus.papers {
        state.push_str(&format!("{} {} {}\n", paper.file, paper.hash, paper.path));
    }
    for unread in &corpus.unread {
        state.push_str(&format!("{} {}\n", unread.file, unread.reason));
    }
    if let Some(earlier) = earlier {
        state.push_str(&format!("session {}\n", earlier.session));
    }
    result_id(&request.canonical(), &state)
}

/// Says of every answer what was not read, and what was not read as it is now.
pub(crate) fn note_unread(answer: &mut Answer, corpus: &Corpus) {
    let mut reasons: BTreeMap<&str, Vec<FileId>> = BTreeMap::new();
    for unread in &corpus.unread {
        reasons.entry(&unread.reason).or_default().push(unread.file);
    }
    for (reason, files) in reasons {
        answer.unknown(Unknown::new("unreadable_document", files.len()).files(&files).detail(reason));
    }
    if !corpus.changed.is_empty() {
        answer.unknown(Unknown::new("changed_since_session", corpus.changed.len()).files(&corpus.changed));
    }
    if !corpus.kept.is_empty() {
        answer.unknown(Unknown::new("shown_as_in_session", corpus.kept.len()).files(&corpus.kept));
    }
}
