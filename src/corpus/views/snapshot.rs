//! Earlier states: session snapshots and the baselines of DELTA.
//!
//! A session answers from its own rows and the parsed documents that it holds. If a document is no longer stored, the file
//! is parsed again, but only while its content hash is that of the session: newer text never replaces older text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::catalog::{BookedResult, CorpusBook, SessionFile};
use crate::corpus::Contract;
use crate::corpus::api::answer::Unknown;
use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::api::validate::{self, Request};
use crate::corpus::document::cache::Room;
use crate::corpus::document::loader::{self, Reader};
use crate::corpus::document::metadata::Facts;
use crate::corpus::text::dates;
use crate::corpus::verbs::delta::Earlier;
use crate::corpus::views::documents::{Corpus, PAST_TEXT_GONE, Paper, Unread};
use crate::corpus::views::file_names;
use crate::corpus::views::saved_view::{Named, Selection, named};
use crate::corpus::views::select::AT_ONCE;
use crate::error::Result;
use crate::index::blocking;
use crate::model::{ContentHash, FileFilter, FileId, FileKind, FileState};

/// Most documents stored with a result; a result with more cannot be a baseline.
pub(crate) const MOST_DOCUMENTS: usize = 10_000;

/// A session snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) session: i64,
    /// Whether the session has no texts (mode `minimal`).
    pub(crate) metadata_only: bool,
    /// The absolute paths that were ingested.
    pub(crate) places: Vec<String>,
    /// Sorted by id.
    pub(crate) files: Vec<SessionFile>,
    /// The facts of each file.
    pub(crate) facts: Vec<Option<Facts>>,
}

impl Past {
    /// Builds a snapshot from the stored session.
    pub(crate) fn new(session: i64, body: &str, files: Vec<SessionFile>) -> Past {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let places = body["paths"].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(String::from));
        let facts = files.iter().map(|it| serde_json::from_str(it.facts.as_deref()?).ok()).collect();
        Past { session, metadata_only: body["mode"] == "minimal", places: places.collect(), files, facts }
    }
}

/// A document of a stored result.
#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    file: FileId,
    path: String,
    hash: Option<String>,
    size: u64,
    modified_ns: i64,
}

impl Remembered {
    fn new(file: &SessionFile) -> Remembered {
        let hash = file.hash.map(|it| it.to_string());
        Remembered { file: file.file, path: file.path.clone(), hash, size: file.size, modified_ns: file.modified_ns }
    }

    fn into_file(self) -> SessionFile {
        let hash = self.hash.and_then(|it| blake3::Hash::from_hex(it).ok()).map(|it| ContentHash(*it.as_bytes()));
        let extension = loader::extension(&self.path);
        SessionFile {
            hash,
            size: self.size,
            modified_ns: self.modified_ns,
            state: FileState::Indexed,
            kind: FileKind::of_extension(&extension),
            reading: hash.map(|it| loader::key(it, &extension)),
            extension,
            ..SessionFile::page(self.file, self.path, String::new())
        }
    }
}

/// Serializes the documents of a result; empty if there are too many.
pub(crate) fn remembered(files: &[SessionFile]) -> String {
    if files.len() > MOST_DOCUMENTS {
        return String::new();
    }
    serde_json::to_string(&files.iter().map(Remembered::new).collect::<Vec<_>>()).unwrap_or_default()
}

/// Like [`remembered`], for a loaded view.
pub(crate) fn remembered_corpus(corpus: &Corpus) -> String {
    remembered(&corpus.papers.iter().map(as_file).collect::<Vec<_>>())
}

fn as_file(paper: &Paper) -> SessionFile {
    SessionFile {
        hash: Some(paper.hash),
        size: paper.size,
        modified_ns: paper.modified_ns,
        ..SessionFile::page(paper.file, paper.path.clone(), String::new())
    }
}

/// A session file with its parsed document of that time.
fn paper(file: &SessionFile, reading: Arc<crate::corpus::document::parsed::Reading>) -> Option<Paper> {
    Some(Paper {
        file: file.file,
        path: file.path.clone(),
        modified_ns: file.modified_ns,
        size: file.size,
        hash: file.hash?,
        reading,
    })
}

impl Reader {
    /// The parsed document that a session or result had of a file, if it is stored.
    fn reading_then(&self, file: &SessionFile) -> Option<Arc<crate::corpus::document::parsed::Reading>> {
        self.kept(file.reading.as_deref()?)
    }
}

impl Contract {
    /// Loads a session of the caller.
    pub(crate) async fn past(&self, session: i64) -> Outcome<Arc<Past>> {
        let (reader, owner) = (self.reader.clone(), self.owner());
        let found = blocking(move || match reader.past(&owner, session)? {
            Some(past) => Ok(Ok(past)),
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

    /// The documents of a session as they were.
    pub(crate) async fn load_past(&self, past: &Arc<Past>, ids: &[FileId]) -> Outcome<Corpus> {
        let (reader, own, wanted) = (self.reader.clone(), past.clone(), ids.to_vec());
        let recalled = blocking(move || Ok(recalled(&reader, &own, &wanted)));
        let (mut corpus, lacking, mut room) = recalled.await??;
        let (reader, numbers) = (self.reader.clone(), lacking.iter().map(|it| it.file).collect::<Vec<_>>());
        let records = blocking(move || reader.parts.catalog.records(&numbers)).await?;
        let mut same = Vec::new();
        for file in lacking {
            let now = records.iter().find(|it| it.id == file.file && it.hash.is_some() && it.hash == file.hash);
            match now {
                Some(record) => same.push((file, record.clone())),
                None => corpus.unread.push(gone(&file)),
            }
        }
        let read = stream::iter(same).map(async |(file, record)| {
            let read = self.read_one(record).await.ok().filter(|it| Some(it.hash) == file.hash);
            read.and_then(|it| paper(&file, it.reading)).ok_or_else(|| gone(&file))
        });
        let mut read = pin!(read.buffered(AT_ONCE));
        while let Some(outcome) = read.next().await {
            match outcome {
                Ok(paper) => {
                    room.take(&paper.reading)?;
                    corpus.papers.push(paper);
                }
                Err(unread) => corpus.unread.push(unread),
            }
        }
        Ok(corpus)
    }

    /// Resolves what DELTA compares: the current files, and the baseline.
    pub(crate) async fn baseline(&self, request: &Request) -> Outcome<(Selection, Option<Earlier>)> {
        let result = request.text("baseline").filter(|it| it.starts_with("r-"));
        let (mut selection, mut earlier) = match result {
            Some(id) => self.baseline_result(request, id).await?,
            None => self.baseline_session(request).await?,
        };
        if let Some(earlier) = earlier.as_mut().filter(|it| it.has_metadata) {
            earlier.files.retain(|_, it| selection.held(it));
        }
        if let Some(watched) = request.fields.get("watch") {
            let now = self.paths(&selection).await?;
            let then = earlier.iter().flat_map(|it| it.files.values()).map(|it| (it.file, it.path.clone()));
            let known: BTreeMap<FileId, String> = then.chain(now).collect();
            let known: Vec<(FileId, &str)> = known.iter().map(|it| (*it.0, it.1.as_str())).collect();
            let file = file_names::find(&known, watched, "watch")?;
            selection.only([file]);
            if let Some(earlier) = &mut earlier {
                earlier.files.retain(|it, _| *it == file);
            }
        }
        Ok((selection, earlier))
    }

    async fn baseline_session(&self, request: &Request) -> Outcome<(Selection, Option<Earlier>)> {
        let selection = self.selection(request).await?;
        let session = match (request.whole("baseline"), request.text("since").and_then(dates::moment)) {
            (Some(session), _) => Some(session),
            (None, Some(since)) => self.last_session(Some(since / 1_000_000), None).await?,
            (None, None) => {
                let known = self.paths(&selection).await?;
                let known: Vec<(FileId, &str)> = known.iter().map(|it| (it.0, it.1.as_str())).collect();
                let found = request.fields.get("watch").map(|it| file_names::fitting(&known, it)).unwrap_or_default();
                let file = if let [one] = found.as_slice() { Some(*one) } else { None };
                self.last_session(None, file).await?
            }
        };
        let Some(session) = session else { return Ok((selection, None)) };
        let past = self.past(session).await?;
        let is_whole = matches!(named(request), Named::Warehouse) && !request.has("watch");
        let selection = if is_whole { self.same_places(&past, selection).await? } else { selection };
        Ok((selection, Some(Earlier::session(&past))))
    }

    async fn baseline_result(&self, request: &Request, id: &str) -> Outcome<(Selection, Option<Earlier>)> {
        let unfit = |why: &str| {
            let refusal = Refusal::new(Cause::UnknownResult, format!("`{id}` is no baseline: {why}"));
            refusal.field("baseline").action("INGEST makes a session, which is a baseline for any number of documents")
        };
        let booked = self.booked(id).await?.ok_or_else(|| no_result(id, "baseline"))?;
        let envelope: Value = serde_json::from_str(&booked.envelope).unwrap_or_default();
        if let Some(session) = envelope["data"]["session"].as_i64().filter(|_| envelope["verb"] == "INGEST") {
            let past = self.past(session).await?;
            let selection = self.selection(request).await?;
            let is_whole = matches!(named(request), Named::Warehouse);
            let selection = if is_whole { self.same_places(&past, selection).await? } else { selection };
            return Ok((selection, Some(Earlier::session(&past))));
        }
        let documents: Vec<Remembered> =
            serde_json::from_str(&booked.documents).map_err(|_| unfit("it names no documents, or too many"))?;
        let files = documents.into_iter().map(Remembered::into_file);
        let earlier = Earlier::result(id, files.map(|it| (it.file, it)).collect());
        let selection = match named(request) {
            Named::Warehouse => {
                let asked = asked_before(&booked).ok_or_else(|| unfit("its question is not known any more"))?;
                self.selection_again(&asked).await?
            }
            _ => self.selection(request).await?,
        };
        Ok((selection, Some(earlier)))
    }

    /// Resolves the view of an earlier request again. A session resolves to its paths, because the session never changes.
    async fn selection_again(&self, asked: &Request) -> Outcome<Selection> {
        let mut selection = self.selection(asked).await?;
        if let Some(past) = selection.past.clone() {
            selection = self.same_places(&past, Selection::all(&self.scope)).await?;
        }
        selection.add_filter(asked)?;
        self.narrow(asked, &mut selection).await.or_else(|it| match it.cause {
            // Deleted files are a difference, not an error.
            Cause::UnknownFile => Ok(()),
            _ => Err(it),
        })?;
        Ok(selection)
    }

    /// The current files below the paths of a session.
    async fn same_places(&self, past: &Past, selection: Selection) -> Outcome<Selection> {
        if let [one] = past.places.as_slice() {
            return Ok(Selection { shown: selection.shown, ..Selection::under(&self.scope, one.into()) });
        }
        let (reader, scope, places) = (self.reader.clone(), self.scope.clone(), past.places.clone());
        let ids = blocking(move || {
            let mut ids = BTreeSet::new();
            for place in places {
                let filter =
                    FileFilter { under: Some(PathBuf::from(place)), within: scope.clone(), ..FileFilter::default() };
                ids.extend(reader.parts.catalog.select(&filter)?);
            }
            Ok(ids)
        });
        Ok(Selection { files: Some(ids.await?), ..selection })
    }

    /// The last session of the caller, optionally before a moment, or with this file.
    async fn last_session(&self, before_ms: Option<i64>, file: Option<FileId>) -> Outcome<Option<i64>> {
        let (reader, owner) = (self.reader.clone(), self.owner());
        Ok(blocking(move || reader.parts.book.last_session(&owner, before_ms, file)).await?)
    }

    /// Loads the baseline texts that a comparison needs: those of all files, or only of changed and deleted ones.
    pub(crate) async fn recall(&self, earlier: Earlier, corpus: &Corpus, all: bool) -> Outcome<Earlier> {
        if !earlier.keeps_text {
            return Ok(earlier);
        }
        let now: BTreeMap<FileId, ContentHash> = corpus.papers.iter().map(|it| (it.file, it.hash)).collect();
        let (reader, mut room) = (self.reader.clone(), Room::beside(corpus));
        let recalled = blocking(move || {
            let needed = |it: &&SessionFile| all || it.hash.as_ref() != now.get(&it.file);
            let texts = earlier.files.values().filter(needed);
            let texts = texts.filter_map(|it| Some((it.file, reader.reading_then(it)?)));
            let texts = texts.map(|it| room.take(&it.1).map(|()| it)).collect::<Outcome<_>>();
            Ok(texts.map(|readings| Earlier { readings, ..earlier }))
        });
        recalled.await?
    }

    /// A stored result.
    pub(crate) async fn booked(&self, id: &str) -> Outcome<Option<BookedResult>> {
        let (reader, owner, id) = (self.reader.clone(), self.owner(), id.to_string());
        Ok(blocking(move || reader.parts.book.result(&owner, &id)).await?)
    }

    /// Deletes a session with its texts and failure list. A session that a view uses is kept.
    pub(crate) async fn delete_session(&self, session: i64) -> Outcome<Value> {
        self.past(session).await?;
        if let Some(name) = self.view_of_session(session).await? {
            let message = format!("the view `{name}` is made of session {session}");
            return Err(Refusal::new(Cause::Ambiguous, message).field("session").action("delete the view first"));
        }
        let (reader, owner) = (self.reader.clone(), self.owner());
        let list = self.failures_file(session);
        blocking(move || {
            reader.forget_past(&owner, session);
            reader.parts.book.remove_session(&owner, session)?;
            list.map_or(Ok(()), |it| remove_if_there(&it))
        })
        .await?;
        Ok(json!({"deleted_session": session}))
    }
}

/// Removes a file if it exists.
pub(crate) fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(crate::error::Error::io("remove", path, &error))
        }
        _ => Ok(()),
    }
}

/// The error for an unknown result; it says how long results are kept.
pub(crate) fn no_result(id: &str, field: &str) -> Refusal {
    let shown = crate::corpus::text::words::short(id, 40);
    Refusal::new(Cause::UnknownResult, format!("there is no result `{shown}`"))
        .field(field)
        .action("give the `id` of an envelope")
        .action(format!("ask again: {}", CorpusBook::RESULTS_KEPT))
}

/// The request of a stored result.
pub(crate) fn asked_before(booked: &BookedResult) -> Option<Request> {
    let asked: Value = serde_json::from_str(&booked.request).ok()?;
    let mut fields = asked["fields"].as_object()?.clone();
    if let Some(form) = asked["form"].as_str().filter(|it| !it.is_empty()) {
        fields.insert("form".into(), form.into());
    }
    validate::request(asked["verb"].as_str()?, fields).ok()
}

/// Splits the files of a session into stored documents and files to parse again; returns the remaining budget too.
fn recalled(reader: &Reader, past: &Past, ids: &[FileId]) -> Outcome<(Corpus, Vec<SessionFile>, Room)> {
    let wanted: BTreeSet<&FileId> = ids.iter().collect();
    let (mut corpus, mut lacking, mut room) = (Corpus::default(), Vec::new(), Room::for_view());
    for file in past.files.iter().filter(|it| wanted.contains(&it.file)) {
        if !file.problem.is_empty() {
            let (path, reason) = (file.path.clone(), file.problem.clone());
            corpus.unread.push(Unread { file: file.file, path, reason });
            continue;
        }
        match reader.reading_then(file).and_then(|it| paper(file, it)) {
            Some(paper) => {
                room.take(&paper.reading)?;
                corpus.papers.push(paper);
            }
            None => lacking.push(file.clone()),
        }
    }
    Ok((corpus, lacking, room))
}

fn gone(file: &SessionFile) -> Unread {
    Unread { file: file.file, path: file.path.clone(), reason: PAST_TEXT_GONE.into() }
}

/// Rejects verbs on texts for a session in mode `minimal`.
pub(crate) fn refuse_without_text(request: &Request, selection: &Selection) -> Outcome<()> {
    let Some(past) = selection.past.as_ref().filter(|it| it.metadata_only) else { return Ok(()) };
    if ["QUERY", "DELTA", "EXPLAIN_FAILURE"].contains(&request.verb.name) {
        return Ok(());
    }
    Err(Refusal::new(Cause::MetadataOnly, format!("session {} holds metadata, no texts", past.session))
        .field("session")
        .action("INGEST the same paths with mode full")
        .action("or leave out `session`: the warehouse has the current texts"))
}

/// Reports facts that a session in mode `minimal` does not have.
pub(crate) fn no_facts(past: &Past) -> Option<Unknown> {
    let detail = "the session was ingested in mode minimal: metadata of texts is not known";
    past.metadata_only.then(|| Unknown::new("metadata_only", past.files.len()).detail(detail))
}
