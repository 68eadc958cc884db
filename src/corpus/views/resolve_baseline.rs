//! Determines the two states that DELTA compares: the current files and the baseline.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::catalog::SessionFile;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::context::CorpusApi;
use crate::corpus::document::cache::ViewBudget;
use crate::corpus::results::{stored_request, unknown_result};
use crate::corpus::text::dates;
use crate::corpus::views::baseline::{BaselineDocument, DeltaBaseline};
use crate::corpus::views::documents::Corpus;
use crate::corpus::views::file_names;
use crate::corpus::views::saved_view::{Selection, ViewReference, view_reference};
use crate::corpus::views::snapshot::SessionSnapshot;
use crate::index::blocking;
use crate::model::{ContentHash, FileFilter, FileId};

impl CorpusApi {
    /// Determines the current files and the baseline that DELTA compares.
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
            let refusal = ApiError::new(ApiErrorKind::UnknownResult, format!("`{id}` cannot be a baseline: {why}"));
            refusal
                .field("baseline")
                .action("use a session as the baseline: INGEST makes one, for any number of documents")
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
        let documents: Vec<BaselineDocument> = serde_json::from_str(&booked.documents)
            .map_err(|_| unfit("it lists no documents, or more than a baseline may have"))?;
        let files = documents.into_iter().map(BaselineDocument::into_file);
        let earlier = DeltaBaseline::from_result(id, files.map(|it| (it.file, it)).collect());
        let selection = match view_reference(request) {
            ViewReference::Warehouse => {
                let asked = stored_request(&booked).ok_or_else(|| unfit("its request is no longer stored"))?;
                self.resolve_view_again(&asked).await?
            }
            _ => self.resolve_view(request).await?,
        };
        Ok((selection, Some(earlier)))
    }

    /// Resolves the view of an earlier request to its current files. A session never changes, so it resolves to the current
    /// files below the paths that it ingested.
    async fn resolve_view_again(&self, asked: &ValidRequest) -> ApiResult<Selection> {
        let mut selection = self.resolve_view(asked).await?;
        if let Some(past) = selection.snapshot.clone() {
            selection = self.current_files_below(&past, Selection::all(&self.scope)).await?;
        }
        selection.add_filter(asked)?;
        self.narrow_to_named(asked, &mut selection).await.or_else(|it| match it.kind {
            // Ignore a file that no longer exists: for DELTA, a deleted file is a difference, not an error.
            ApiErrorKind::UnknownFile => Ok(()),
            _ => Err(it),
        })?;
        Ok(selection)
    }

    /// Returns the current files below the paths that a session ingested.
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

    /// Returns the caller's last session, optionally the last one before a time, or the last one with this file.
    async fn last_session(&self, before_ms: Option<i64>, file: Option<FileId>) -> ApiResult<Option<i64>> {
        let (reader, owner) = (self.reader.clone(), self.storage_owner());
        Ok(blocking(move || reader.parts.book.last_session(&owner, before_ms, file)).await?)
    }

    /// Loads the baseline texts that a comparison needs: those of all files, or only those of changed and deleted files.
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
}
