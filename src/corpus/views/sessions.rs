//! Loads and deletes sessions.
//!
//! A request on a session uses the files and the parsed documents that were stored with the session. If a document is no
//! longer stored, its file is parsed again, but only if the file still has the content hash recorded in the session: newer
//! text is never used.

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::catalog::SessionFile;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::context::CorpusApi;
use crate::corpus::document::cache::ViewBudget;
use crate::corpus::document::loader::DocumentLoader;
use crate::corpus::document::parsed::ParsedDocument;
use crate::corpus::views::documents::{Corpus, CorpusDocument, PAST_TEXT_GONE, UnreadDocument};
use crate::corpus::views::saved_view::Selection;
use crate::corpus::views::select::READ_CONCURRENCY;
use crate::corpus::views::snapshot::SessionSnapshot;
use crate::error::Result;
use crate::index::blocking;
use crate::model::FileId;

/// Creates the document of a file as it was when the session was made; `reading` is the parsed document from that time.
fn document_then(file: &SessionFile, reading: Arc<ParsedDocument>) -> Option<CorpusDocument> {
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
    /// Returns the parsed document of a file as it was in a session or result, if it is still stored.
    pub(super) fn parsed_then(&self, file: &SessionFile) -> Option<Arc<ParsedDocument>> {
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
                None => refusal.action("use INGEST to make a session"),
            }
        })
    }

    /// Loads the documents of a session as they were when it was made.
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

    /// Deletes a session with its texts and its failures file. Fails if a view uses the session.
    pub(crate) async fn delete_session(&self, session: i64) -> ApiResult<Value> {
        self.session_snapshot(session).await?;
        if let Some(name) = self.view_of_session(session).await? {
            let message = format!("the session cannot be deleted: the view `{name}` uses session {session}");
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

/// Removes a file; succeeds if the file does not exist.
pub(crate) fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(crate::error::Error::io("remove", path, &error))
        }
        _ => Ok(()),
    }
}

/// Splits the files of a session into stored documents and files to parse again. Also returns what the stored documents
/// leave of the memory budget.
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

/// Rejects verbs that need texts for a session in mode `minimal`, which has none.
pub(crate) fn check_has_text(request: &ValidRequest, selection: &Selection) -> ApiResult<()> {
    let Some(past) = selection.snapshot.as_ref().filter(|it| it.metadata_only) else { return Ok(()) };
    if ["QUERY", "DELTA", "EXPLAIN_FAILURE"].contains(&request.verb.name) {
        return Ok(());
    }
    Err(ApiError::new(ApiErrorKind::MetadataOnly, format!("session {} holds metadata but no texts", past.session))
        .field("session")
        .action("INGEST the same paths with mode full")
        .action("or leave out `session`: the warehouse has the current texts"))
}
