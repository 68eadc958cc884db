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

use crate::catalog::{CorpusStore, SessionFile, StoredResult};
use crate::corpus::CorpusApi;
use crate::corpus::api::answer::Unknown;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::api::validate;
use crate::corpus::document::cache::ViewBudget;
use crate::corpus::document::loader::{self, DocumentLoader};
use crate::corpus::document::metadata::Facts;
use crate::corpus::text::dates;
use crate::corpus::verbs::delta::DeltaBaseline;
use crate::corpus::views::documents::{Corpus, CorpusDocument, PAST_TEXT_GONE, UnreadDocument};
use crate::corpus::views::file_names;
use crate::corpus::views::saved_view::{Selection, ViewReference, view_reference};
use crate::corpus::views::select::READ_CONCURRENCY;
use crate::error::Result;
use crate::index::blocking;
use crate::model::{ContentHash, FileFilter, FileId, FileKind, FileState};

/// Most documents stored with a result; a result with more cannot be a baseline.
pub(crate) const MAX_BASELINE_DOCUMENTS: usize = 10_000;

/// A session snapshot.
#[derive(Clone, Debug)]
pub(crate) struct SessionSnapshot {
    pub(crate) session: i64,
    /// Whether the session has no texts (mode `minimal`).
    pub(crate) metadata_only: bool,
    /// The absolute paths that were ingested.
    pub(crate) paths: Vec<String>,
    /// Sorted by id.
    pub(crate) files: Vec<SessionFile>,
    /// The facts of each file.
    pub(crate) facts: Vec<Option<Facts>>,
}

impl SessionSnapshot {
    /// Builds a snapshot from the stored session.
    pub(crate) fn new(session: i64, body: &str, files: Vec<SessionFile>) -> SessionSnapshot {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let places = body["paths"].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(String::from));
        let facts = files.iter().map(|it| serde_json::from_str(it.facts.as_deref()?).ok()).collect();
        SessionSnapshot { session, metadata_only: body["mode"] == "minimal", paths: places.collect(), files, facts }
    }
}

/// A document of a stored result.
#[derive(Debug, Serialize, Deserialize)]
struct BaselineDocument {
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

    fn into_file(self) -> SessionFile {
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

/// Serializes the documents of a result; empty if there are too many.
pub(crate) fn serialize_documents(files: &[SessionFile]) -> String {
    if files.len() > MAX_BASELINE_DOCUMENTS {
        return String::new();
    }
    serde_json::to_string(&files.iter().map(BaselineDocument::new).collect::<Vec<_>>()).unwrap_or_default()
}

/// Like [`serialize_documents`], for a loaded view.
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

/// A session file with its parsed document of that time.
fn document_then(
    file: &SessionFile,
    reading: Arc<crate::corpus::document::parsed::ParsedDocument>,
) -> Option<CorpusDocument> {
    Some(CorpusDocument {
        file: file.file,
        path: file.path.clone(),
        modified_ns: file.modified_ns,
        size: file.size,
        hash: file.hash?,
        parsed: reading,
    })
}

impl DocumentLoader {
    /// The parsed document that a session or result had of a file, if it is stored.
    fn parsed_then(&self, file: &SessionFile) -> Option<Arc<crate::corpus::document::parsed::ParsedDocument>> {
        self.cached(file.document_key.as_deref()?)
    }
}

impl CorpusApi {
    /// Loads a session of the caller.
    pub(crate) async fn session_snapshot(&self, session: i64) -> ApiResult<Arc<SessionSnapshot>> {
        let (reader, owner) = (self.reader.clone(), self.storage_owner());
        let found = blocking(move || match reader.session_snapshot(&owner, session)? {
            Some(past) => Ok(Ok(past)),
            None => Ok(Err(reader.parts.book.sessions(&owner)?)),
        });
        found.await?.map_err(|known| {
            let refusal =
                ApiError::new(ApiErrorKind::UnknownSession, format!("there is no session {session}")).field("session");
            match known.last() {
                Some(last) => refusal.action(format!("the last session is {last}")),
                None => refusal.action("INGEST makes one"),
            }
        })
    }

    /// The documents of a session as they were.
    pub(crate) async fn load_session(&self, past: &Arc<SessionSnapshot>, ids: &[FileId]) -> ApiResult<Corpus> {
        let (reader, own, wanted) = (self.reader.clone(), past.clone(), ids.to_vec());
        let recalled = blocking(move || Ok(split_stored(&reader, &own, &wanted)));
        let (mut corpus, lacking, mut room) = recalled.await??;
        let (reader, numbers) = (self.reader.clone(), lacking.iter().map(|it| it.file).collect::<Vec<_>>());
        let records = blocking(move || reader.parts.catalog.records(&numbers)).await?;
        let mut same = Vec::new();
        for file in lacking {
            let now = records.iter().find(|it| it.id == file.file && it.hash.is_some() && it.hash == file.hash);
            match now {
                Some(record) => same.push((file, record.clone())),
                None => corpus.unread.push(text_gone(&file)),
            }
        }
        let read = stream::iter(same).map(async |(file, record)| {
            let read = self.load_document(record).await.ok().filter(|it| Some(it.hash) == file.hash);
            read.and_then(|it| document_then(&file, it.parsed)).ok_or_else(|| text_gone(&file))
        });
        let mut read = pin!(read.buffered(READ_CONCURRENCY));
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

    /// Resolves what DELTA compares: the current files, and the baseline.
    pub(crate) async fn resolve_baseline(
        &self,
        request: &ValidRequest,
    ) -> ApiResult<(Selection, Option<DeltaBaseline>)> {
        let result = request.text("baseline").filter(|it| it.starts_with("r-"));
        let (mut selection, mut earlier) = match result {
            Some(id) => self.resolve_result_baseline(request, id).await?,
            None => self.resolve_session_baseline(request).await?,
        };
        if let Some(earlier) = earlier.as_mut().filter(|it| it.has_metadata) {
            earlier.files.retain(|_, it| selection.contained_then(it));
        }
        if let Some(watched) = request.fields.get("watch") {
            let now = self.paths(&selection).await?;
            let then = earlier.iter().flat_map(|it| it.files.values()).map(|it| (it.file, it.path.clone()));
            let known: BTreeMap<FileId, String> = then.chain(now).collect();
            let known: Vec<(FileId, &str)> = known.iter().map(|it| (*it.0, it.1.as_str())).collect();
            let file = file_names::find_file(&known, watched, "watch")?;
            selection.restrict_to([file]);
            if let Some(earlier) = &mut earlier {
                earlier.files.retain(|it, _| *it == file);
            }
        }
        Ok((selection, earlier))
    }

    async fn resolve_session_baseline(&self, request: &ValidRequest) -> ApiResult<(Selection, Option<DeltaBaseline>)> {
        let selection = self.resolve_view(request).await?;
        let session = match (request.whole("baseline"), request.text("since").and_then(dates::parse_moment)) {
            (Some(session), _) => Some(session),
            (None, Some(since)) => self.last_session(Some(since / 1_000_000), None).await?,
            (None, None) => {
                let known = self.paths(&selection).await?;
                let known: Vec<(FileId, &str)> = known.iter().map(|it| (it.0, it.1.as_str())).collect();
                let found =
                    request.fields.get("watch").map(|it| file_names::matching_files(&known, it)).unwrap_or_default();
                let file = if let [one] = found.as_slice() { Some(*one) } else { None };
                self.last_session(None, file).await?
            }
        };
        let Some(session) = session else { return Ok((selection, None)) };
        let past = self.session_snapshot(session).await?;
        let is_whole = matches!(view_reference(request), ViewReference::Warehouse) && !request.has("watch");
        let selection = if is_whole { self.current_files_below(&past, selection).await? } else { selection };
        Ok((selection, Some(DeltaBaseline::from_session(&past))))
    }

    async fn resolve_result_baseline(
        &self,
        request: &ValidRequest,
        id: &str,
    ) -> ApiResult<(Selection, Option<DeltaBaseline>)> {
        let unfit = |why: &str| {
            let refusal = ApiError::new(ApiErrorKind::UnknownResult, format!("`{id}` is no baseline: {why}"));
            refusal.field("baseline").action("INGEST makes a session, which is a baseline for any number of documents")
        };
        let booked = self.stored_result(id).await?.ok_or_else(|| unknown_result(id, "baseline"))?;
        let envelope: Value = serde_json::from_str(&booked.envelope).unwrap_or_default();
        if let Some(session) = envelope["data"]["session"].as_i64().filter(|_| envelope["verb"] == "INGEST") {
            let past = self.session_snapshot(session).await?;
            let selection = self.resolve_view(request).await?;
            let is_whole = matches!(view_reference(request), ViewReference::Warehouse);
            let selection = if is_whole { self.current_files_below(&past, selection).await? } else { selection };
            return Ok((selection, Some(DeltaBaseline::from_session(&past))));
        }
        let documents: Vec<BaselineDocument> =
            serde_json::from_str(&booked.documents).map_err(|_| unfit("it names no documents, or too many"))?;
        let files = documents.into_iter().map(BaselineDocument::into_file);
        let earlier = DeltaBaseline::from_result(id, files.map(|it| (it.file, it)).collect());
        let selection = match view_reference(request) {
            ViewReference::Warehouse => {
                let asked = stored_request(&booked).ok_or_else(|| unfit("its question is not known any more"))?;
                self.resolve_view_again(&asked).await?
            }
            _ => self.resolve_view(request).await?,
        };
        Ok((selection, Some(earlier)))
    }

    /// Resolves the view of an earlier request again. A session resolves to its paths, because the session never changes.
    async fn resolve_view_again(&self, asked: &ValidRequest) -> ApiResult<Selection> {
        let mut selection = self.resolve_view(asked).await?;
        if let Some(past) = selection.snapshot.clone() {
            selection = self.current_files_below(&past, Selection::all(&self.scope)).await?;
        }
        selection.add_filter(asked)?;
        self.narrow_to_named(asked, &mut selection).await.or_else(|it| match it.kind {
            // Deleted files are a difference, not an error.
            ApiErrorKind::UnknownFile => Ok(()),
            _ => Err(it),
        })?;
        Ok(selection)
    }

    /// The current files below the paths of a session.
    async fn current_files_below(&self, past: &SessionSnapshot, selection: Selection) -> ApiResult<Selection> {
        if let [one] = past.paths.as_slice() {
            return Ok(Selection {
                description: selection.description,
                ..Selection::under_path(&self.scope, one.into())
            });
        }
        let (reader, scope, places) = (self.reader.clone(), self.scope.clone(), past.paths.clone());
        let ids = blocking(move || {
            let mut ids = BTreeSet::new();
            for place in places {
                let filter =
                    FileFilter { under: Some(PathBuf::from(place)), scope: scope.clone(), ..FileFilter::default() };
                ids.extend(reader.parts.catalog.select(&filter)?);
            }
            Ok(ids)
        });
        Ok(Selection { files: Some(ids.await?), ..selection })
    }

    /// The last session of the caller, optionally before a moment, or with this file.
    async fn last_session(&self, before_ms: Option<i64>, file: Option<FileId>) -> ApiResult<Option<i64>> {
        let (reader, owner) = (self.reader.clone(), self.storage_owner());
        Ok(blocking(move || reader.parts.book.last_session(&owner, before_ms, file)).await?)
    }

    /// Loads the baseline texts that a comparison needs: those of all files, or only of changed and deleted ones.
    pub(crate) async fn load_baseline_texts(
        &self,
        earlier: DeltaBaseline,
        corpus: &Corpus,
        all: bool,
    ) -> ApiResult<DeltaBaseline> {
        if !earlier.has_text {
            return Ok(earlier);
        }
        let now: BTreeMap<FileId, ContentHash> = corpus.documents.iter().map(|it| (it.file, it.hash)).collect();
        let (reader, mut room) = (self.reader.clone(), ViewBudget::remaining_for(corpus));
        let recalled = blocking(move || {
            let needed = |it: &&SessionFile| all || it.hash.as_ref() != now.get(&it.file);
            let texts = earlier.files.values().filter(needed);
            let texts = texts.filter_map(|it| Some((it.file, reader.parsed_then(it)?)));
            let texts = texts.map(|it| room.reserve(&it.1).map(|()| it)).collect::<ApiResult<_>>();
            Ok(texts.map(|readings| DeltaBaseline { parsed: readings, ..earlier }))
        });
        recalled.await?
    }

    /// A stored result.
    pub(crate) async fn stored_result(&self, id: &str) -> ApiResult<Option<StoredResult>> {
        let (reader, owner, id) = (self.reader.clone(), self.storage_owner(), id.to_string());
        Ok(blocking(move || reader.parts.book.result(&owner, &id)).await?)
    }

    /// Deletes a session with its texts and failure list. A session that a view uses is kept.
    pub(crate) async fn delete_session(&self, session: i64) -> ApiResult<Value> {
        self.session_snapshot(session).await?;
        if let Some(name) = self.view_of_session(session).await? {
            let message = format!("the view `{name}` is made of session {session}");
            return Err(ApiError::new(ApiErrorKind::Ambiguous, message)
                .field("session")
                .action("delete the view first"));
        }
        let (reader, owner) = (self.reader.clone(), self.storage_owner());
        let list = self.failures_file(session);
        blocking(move || {
            reader.forget_snapshot(&owner, session);
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
pub(crate) fn unknown_result(id: &str, field: &str) -> ApiError {
    let shown = crate::corpus::text::words::truncate_to_line(id, 40);
    ApiError::new(ApiErrorKind::UnknownResult, format!("there is no result `{shown}`"))
        .field(field)
        .action("give the `id` of an envelope")
        .action(format!("ask again: {}", CorpusStore::RESULT_RETENTION))
}

/// The request of a stored result.
pub(crate) fn stored_request(booked: &StoredResult) -> Option<ValidRequest> {
    let asked: Value = serde_json::from_str(&booked.request).ok()?;
    let mut fields = asked["fields"].as_object()?.clone();
    if let Some(form) = asked["form"].as_str().filter(|it| !it.is_empty()) {
        fields.insert("form".into(), form.into());
    }
    validate::validate_request(asked["verb"].as_str()?, fields).ok()
}

/// Splits the files of a session into stored documents and files to parse again; returns the remaining budget too.
fn split_stored(
    reader: &DocumentLoader,
    past: &SessionSnapshot,
    ids: &[FileId],
) -> ApiResult<(Corpus, Vec<SessionFile>, ViewBudget)> {
    let wanted: BTreeSet<&FileId> = ids.iter().collect();
    let (mut corpus, mut lacking, mut room) = (Corpus::default(), Vec::new(), ViewBudget::new());
    for file in past.files.iter().filter(|it| wanted.contains(&it.file)) {
        if !file.problem.is_empty() {
            let (path, reason) = (file.path.clone(), file.problem.clone());
            corpus.unread.push(UnreadDocument { file: file.file, path, reason });
            continue;
        }
        match reader.parsed_then(file).and_then(|it| document_then(file, it)) {
            Some(paper) => {
                room.reserve(&paper.parsed)?;
                corpus.documents.push(paper);
            }
            None => lacking.push(file.clone()),
        }
    }
    Ok((corpus, lacking, room))
}

fn text_gone(file: &SessionFile) -> UnreadDocument {
    UnreadDocument { file: file.file, path: file.path.clone(), reason: PAST_TEXT_GONE.into() }
}

/// Rejects verbs on texts for a session in mode `minimal`.
pub(crate) fn check_has_text(request: &ValidRequest, selection: &Selection) -> ApiResult<()> {
    let Some(past) = selection.snapshot.as_ref().filter(|it| it.metadata_only) else { return Ok(()) };
    if ["QUERY", "DELTA", "EXPLAIN_FAILURE"].contains(&request.verb.name) {
        return Ok(());
    }
    Err(ApiError::new(ApiErrorKind::MetadataOnly, format!("session {} holds metadata, no texts", past.session))
        .field("session")
        .action("INGEST the same paths with mode full")
        .action("or leave out `session`: the warehouse has the current texts"))
}

/// Reports facts that a session in mode `minimal` does not have.
pub(crate) fn missing_facts(past: &SessionSnapshot) -> Option<Unknown> {
    let detail = "the session was ingested in mode minimal: metadata of texts is not known";
    past.metadata_only.then(|| Unknown::new("metadata_only", past.files.len()).detail(detail))
}
