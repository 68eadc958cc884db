//! The management calls of the corpus API: views, stored results, help and schemas. The module `jobs` handles jobs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::corpus::api::answer::Answer;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::output_budget::{HELP_TOKENS, TokenRuler};
use crate::corpus::api::{aliases, envelope, help, schema};
use crate::corpus::context::CorpusApi;
use crate::corpus::limits::{MAX_SYNC_DOCUMENTS, check_limit};
use crate::corpus::outcome::CallReply;
use crate::corpus::results::{parse_stored, unknown_result};
use crate::corpus::text::dates;
use crate::corpus::views::saved_view::{NewView, View, ViewRequest};
use crate::corpus::views::{file_names, saved_view};
use crate::error::{Error, Result};
use crate::index::blocking;
use crate::model::FileId;

/// Maximum number of files that an answer about a view lists.
const MAX_LISTED_FILES: usize = 100;

/// Maximum number of views per owner: finding a view scans all of them.
const MAX_VIEWS: usize = 200;

impl CorpusApi {
    /// Answers the management call `name` with the fields `given`.
    pub(crate) async fn manage(&self, name: &str, given: &Map<String, Value>) -> Result<CallReply> {
        let named = aliases::name_management_fields(name, given);
        let given = match named.and_then(|it| check_format(name, &it).map(|()| it)) {
            Ok(given) => given,
            Err(refusal) => return Ok((self.error_envelope(None, name, &refusal), Some(refusal.code), false)),
        };
        let given = &given;
        let done = match name {
            "VIEW" => self.manage_views(given).await,
            "JOB" => self.job_status(given).await,
            "RESULT" => match self.stored_envelope(given).await {
                // Return a stored result unchanged, without a new envelope.
                Ok(envelope) => return Ok((envelope, None, false)),
                Err(refusal) => Err(refusal),
            },
            "HELP" => self.help(given),
            _ => schemas_value(given),
        };
        match done {
            Ok(data) => {
                let mut answer = Answer::new("stored by vic");
                answer.data = data;
                answer.coverage = Some(1.0);
                Ok((envelope::wrap_answer("", name, "", &Value::Null, 1.0, &answer), None, false))
            }
            Err(refusal) => Ok((self.error_envelope(None, name, &refusal), Some(refusal.code), false)),
        }
    }

    fn help(&self, given: &Map<String, Value>) -> ApiResult<Value> {
        check_fields(given, &["verb", "form", "format"])?;
        let text = help::help_text(text_field(given, "verb")?, text_field(given, "form")?)?;
        let counter = self.reader.parts.embedder.token_counter();
        Ok(json!({"help": TokenRuler(&*counter).cut(&text, HELP_TOKENS)}))
    }

    async fn manage_views(&self, given: &Map<String, Value>) -> ApiResult<Value> {
        match saved_view::parse_request(given)? {
            ViewRequest::List => {
                let all = self.all_views().await?;
                let sessions = self.sessions().await?;
                let shown: Vec<Value> = all.into_iter().map(|(name, view)| view_value(&name, &view)).collect();
                Ok(json!({"count": shown.len(), "views": shown, "sessions": sessions}))
            }
            ViewRequest::Show(name) => {
                let view = self.load_view(&name).await?;
                let selection = self.resolve_saved_view(&name, &view).await?;
                let unknown = self.files_without_facts(&selection, &selection.filters).await?;
                self.parse_all(&unknown[..unknown.len().min(MAX_SYNC_DOCUMENTS)]).await?;
                let ids = self.select_files(&selection).await?;
                let mut shown = view_value(&name, &view);
                shown["not_yet_read"] = json!(unknown.len().saturating_sub(MAX_SYNC_DOCUMENTS));
                shown["documents"] = json!(ids.len());
                let gone: Vec<&(FileId, String)> = selection.named.iter().filter(|it| !ids.contains(&it.0)).collect();
                if !gone.is_empty() {
                    let gone = gone.into_iter().map(|(file, path)| json!({"file": file, "path": path}));
                    shown["vanished"] = gone.collect();
                }
                shown["files"] = json!(ids.iter().take(MAX_LISTED_FILES).collect::<Vec<_>>());
                Ok(shown)
            }
            ViewRequest::Delete(name) => {
                self.load_view(&name).await?;
                let (reader, owner, own) = (self.reader.clone(), self.storage_owner(), name.clone());
                blocking(move || reader.parts.book.remove_view(&owner, &own)).await?;
                Ok(json!({"deleted": name}))
            }
            ViewRequest::DeleteSession(session) => self.delete_session(session).await,
            ViewRequest::Create { name, view } => self.create_view(name, view).await,
        }
    }

    async fn create_view(&self, name: String, draft: NewView) -> ApiResult<Value> {
        let view = match draft {
            NewView::Session(session) => {
                self.session_snapshot(session).await?;
                View::Session { session }
            }
            NewView::Set(files) => {
                let found = self.resolve_files(&files).await?;
                let (files, paths) = found.into_iter().unzip();
                View::Set { files, paths }
            }
            NewView::Filter { filter, since, follows: true } => View::Evolving { filter, since },
            NewView::Filter { filter, since, follows: false } => {
                // Use the caller's files only: the highest id of all files would reveal how many files others have.
                let ids = self.select_files(&saved_view::Selection::all(&self.scope)).await?;
                // Save a duration such as `30 days` as a fixed date: only an evolving view moves with the clock.
                let since = since.and_then(|it| dates::parse_since(&it, dates::now_ns())).map(dates::format_moment);
                View::Query { filter, since, upto: ids.last().copied().unwrap_or(0) }
            }
        };
        let (reader, owner, own) = (self.reader.clone(), self.storage_owner(), name.clone());
        let body = serde_json::to_string(&view).map_err(|error| ApiError::from(Error::internal(error)))?;
        check_limit("views", self.all_views().await?.len(), MAX_VIEWS, "delete one with `view delete`")?;
        if !blocking(move || reader.parts.book.add_view(&owner, &own, &body)).await? {
            return Err(ApiError::new(ApiErrorKind::AlreadyExists, format!("there is a view `{name}` already"))
                .field("name")
                .action("delete that view first, or use another name"));
        }
        Ok(view_value(&name, &view))
    }

    /// Finds the files given by id, path or end of path; returns their ids and paths.
    async fn resolve_files(&self, files: &[Value]) -> ApiResult<BTreeMap<FileId, String>> {
        let known = self.paths(&saved_view::Selection::all(&self.scope)).await?;
        let names: Vec<(FileId, &str)> = known.iter().map(|it| (it.0, it.1.as_str())).collect();
        let ids = files
            .iter()
            .map(|it| file_names::find_file(&names, it, "files"))
            .collect::<ApiResult<BTreeSet<FileId>>>()?;
        Ok(known.into_iter().filter(|it| ids.contains(&it.0)).collect())
    }

    /// Returns the name of a view that uses a session.
    pub(crate) async fn view_of_session(&self, wanted: i64) -> ApiResult<Option<String>> {
        let is_made = |view: &View| matches!(view, View::Session { session } if *session == wanted);
        Ok(self.all_views().await?.into_iter().find(|it| is_made(&it.1)).map(|it| it.0))
    }

    async fn all_views(&self) -> ApiResult<Vec<(String, View)>> {
        let (reader, owner) = (self.reader.clone(), self.storage_owner());
        let rows = blocking(move || reader.parts.book.views(&owner)).await?;
        Ok(rows.into_iter().filter_map(|(name, body)| Some((name, serde_json::from_str(&body).ok()?))).collect())
    }

    pub(crate) async fn sessions(&self) -> ApiResult<Vec<i64>> {
        let (reader, owner) = (self.reader.clone(), self.storage_owner());
        Ok(blocking(move || reader.parts.book.sessions(&owner)).await?)
    }

    /// Loads a saved view by name.
    pub(crate) async fn load_view(&self, name: &str) -> ApiResult<View> {
        let all = self.all_views().await?;
        let names: Vec<&str> = all.iter().map(|it| it.0.as_str()).collect();
        let unknown = ApiError::unknown_name(ApiErrorKind::UnknownView, "view", name, &names).field("view");
        all.into_iter().find(|it| it.0 == name).map(|it| it.1).ok_or_else(|| match unknown.actions.is_empty() {
            true => unknown.action("`view create` makes one"),
            false => unknown,
        })
    }

    async fn stored_envelope(&self, given: &Map<String, Value>) -> ApiResult<Value> {
        check_fields(given, &["id", "format"])?;
        let id = text_field(given, "id")?.ok_or_else(|| {
            ApiError::new(ApiErrorKind::MissingField, "`id` is missing")
                .field("id")
                .action("give the `id` of an answer")
        })?;
        let booked = self.stored_result(id).await?.ok_or_else(|| unknown_result(id, "id"))?;
        parse_stored(&booked.envelope)
    }
}

/// Checks the output format: management calls have no tables, except for stored results.
fn check_format(name: &str, given: &Map<String, Value>) -> ApiResult<()> {
    const FORMATS: [&str; 3] = ["json", "yaml", "csv"];
    let known = if name == "RESULT" { &FORMATS[..] } else { &FORMATS[..2] };
    match text_field(given, "format")? {
        Some(format) if !known.contains(&format.to_lowercase().as_str()) => {
            Err(ApiError::unknown_name(ApiErrorKind::OutOfRange, "format", format, known).field("format"))
        }
        _ => Ok(()),
    }
}

fn view_value(name: &str, view: &View) -> Value {
    let mut shown = json!({"name": name});
    if let (Some(shown), Ok(Value::Object(own))) = (shown.as_object_mut(), serde_json::to_value(view)) {
        shown.extend(own);
        for name in ["files", "paths"] {
            if let Some(Value::Array(list)) = shown.get_mut(name) {
                list.truncate(MAX_LISTED_FILES);
            }
        }
    }
    shown
}

pub(in crate::corpus) fn check_fields(given: &Map<String, Value>, known: &[&str]) -> ApiResult<()> {
    match given.keys().find(|it| !known.contains(&it.as_str())) {
        Some(name) => {
            Err(ApiError::unknown_name(ApiErrorKind::UnknownField, "field", name, known).field(name.as_str()))
        }
        None => Ok(()),
    }
}

pub(in crate::corpus) fn text_field<'g>(given: &'g Map<String, Value>, name: &str) -> ApiResult<Option<&'g str>> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ApiError::new(ApiErrorKind::TypeError, format!("`{name}` must be a text")).field(name)),
    }
}

pub(in crate::corpus) fn flag_field(given: &Map<String, Value>, name: &str) -> ApiResult<bool> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(ApiError::new(ApiErrorKind::TypeError, format!("`{name}` must be true or false")).field(name)),
    }
}

pub(in crate::corpus) fn schemas_value(given: &Map<String, Value>) -> ApiResult<Value> {
    check_fields(given, &["verb", "format"])?;
    match text_field(given, "verb")? {
        None => Ok(schema::all_schemas_without_descriptions()),
        Some(name) => help::find_verb(name).map(schema::schemas_of_verb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_lists_at_most_100_files() {
        let shown = view_value("v", &View::Set { files: (1..=500).collect(), paths: vec!["a.md".into(); 500] });
        let length = |name: &str| shown[name].as_array().unwrap().len();
        assert_eq!((length("files"), length("paths"), &shown["name"]), (100, 100, &json!("v")));
    }
}
