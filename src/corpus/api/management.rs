//! The management calls: views, stored results, help and schemas. Jobs are in `jobs`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::corpus::api::answer::Answer;
use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::api::output_budget::{HELP_TOKENS, Ruler};
use crate::corpus::api::{envelope, help, schema};
use crate::corpus::text::dates;
use crate::corpus::views::saved_view::{Asked, Draft, View};
use crate::corpus::views::{file_names, saved_view, snapshot};
use crate::corpus::{Contract, Made, SYNCHRONOUS, now_ns, parsed};
use crate::error::{Error, Result};
use crate::index::blocking;
use crate::model::FileId;

/// Most files that `view show` lists.
const SHOWN: usize = 100;

/// Most views of an owner: finding one scans all of them.
const MOST_VIEWS: usize = 200;

/// Checks that an owner may store one more item.
pub(crate) fn one_more(what: &str, kept: usize, most: usize, cure: &str) -> Outcome<()> {
    if kept < most {
        return Ok(());
    }
    Err(Refusal::new(Cause::OutOfRange, format!("there are {kept} {what}, which is the limit")).action(cure))
}

impl Contract {
    /// Answers a management call.
    pub(crate) async fn beside(&self, name: &str, given: &Map<String, Value>) -> Result<Made> {
        if let Err(refusal) = known_format(name, given) {
            return Ok((self.refused(None, name, &refusal), Some(refusal.code), false));
        }
        let done = match name {
            "VIEW" => self.views(given).await,
            "JOB" => self.job(given).await,
            "RESULT" => match self.kept(given).await {
                // A stored result is returned unchanged.
                Ok(envelope) => return Ok((envelope, None, false)),
                Err(refusal) => Err(refusal),
            },
            "HELP" => self.help(given),
            _ => schemas(given),
        };
        match done {
            Ok(data) => {
                let mut answer = Answer::new("stored by vic");
                answer.data = data;
                answer.coverage = Some(1.0);
                Ok((envelope::answer("", name, "", &Value::Null, 1.0, &answer), None, false))
            }
            Err(refusal) => Ok((self.refused(None, name, &refusal), Some(refusal.code), false)),
        }
    }

    fn help(&self, given: &Map<String, Value>) -> Outcome<Value> {
        one_of(given, &["verb", "form", "format"])?;
        let text = help::about(text(given, "verb")?, text(given, "form")?)?;
        let counter = self.reader.parts.embedder.token_counter();
        Ok(json!({"help": Ruler(&*counter).cut(&text, HELP_TOKENS)}))
    }

    async fn views(&self, given: &Map<String, Value>) -> Outcome<Value> {
        match saved_view::asked(given)? {
            Asked::List => {
                let all = self.all_views().await?;
                let sessions = self.sessions().await?;
                let shown: Vec<Value> = all.into_iter().map(|(name, view)| with_name(&name, &view)).collect();
                Ok(json!({"count": shown.len(), "views": shown, "sessions": sessions}))
            }
            Asked::Show(name) => {
                let view = self.saved(&name).await?;
                let selection = self.view_selection(&name, &view).await?;
                let unknown = self.unknown(&selection, &selection.filters).await?;
                self.read_all(&unknown[..unknown.len().min(SYNCHRONOUS)]).await?;
                let ids = self.select(&selection).await?;
                let mut shown = with_name(&name, &view);
                shown["not_yet_read"] = json!(unknown.len().saturating_sub(SYNCHRONOUS));
                shown["documents"] = json!(ids.len());
                let gone: Vec<&(FileId, String)> = selection.named.iter().filter(|it| !ids.contains(&it.0)).collect();
                if !gone.is_empty() {
                    let gone = gone.into_iter().map(|(file, path)| json!({"file": file, "path": path}));
                    shown["vanished"] = gone.collect();
                }
                shown["files"] = json!(ids.iter().take(SHOWN).collect::<Vec<_>>());
                Ok(shown)
            }
            Asked::Delete(name) => {
                self.saved(&name).await?;
                let (reader, owner, own) = (self.reader.clone(), self.owner(), name.clone());
                blocking(move || reader.parts.book.remove_view(&owner, &own)).await?;
                Ok(json!({"deleted": name}))
            }
            Asked::DeleteSession(session) => self.delete_session(session).await,
            Asked::Create { name, view } => self.create(name, view).await,
        }
    }

    async fn create(&self, name: String, draft: Draft) -> Outcome<Value> {
        let view = match draft {
            Draft::Session(session) => {
                self.past(session).await?;
                View::Session { session }
            }
            Draft::Set(files) => {
                let found = self.found(&files).await?;
                let (files, paths) = found.into_iter().unzip();
                View::Set { files, paths }
            }
            Draft::Filter { filter, since, follows: true } => View::Evolving { filter, since },
            Draft::Filter { filter, since, follows: false } => {
                // Only the caller's files count: the highest id of all files would reveal how many files others have.
                let ids = self.select(&saved_view::Selection::all(&self.scope)).await?;
                // A saved query stores the moment: only an evolving view follows the clock.
                let since = since.and_then(|it| dates::since(&it, now_ns())).map(dates::written);
                View::Query { filter, since, upto: ids.last().copied().unwrap_or(0) }
            }
        };
        let (reader, owner, own) = (self.reader.clone(), self.owner(), name.clone());
        let body = serde_json::to_string(&view).map_err(|error| Refusal::from(Error::internal(error)))?;
        one_more("views", self.all_views().await?.len(), MOST_VIEWS, "`view delete` removes one")?;
        if !blocking(move || reader.parts.book.add_view(&owner, &own, &body)).await? {
            return Err(Refusal::new(Cause::AlreadyExists, format!("there is a view `{name}` already"))
                .field("name")
                .action("delete it first, or take another name"));
        }
        Ok(with_name(&name, &view))
    }

    /// Resolves files by number, path or end of path; returns them with their paths.
    async fn found(&self, files: &[Value]) -> Outcome<BTreeMap<FileId, String>> {
        let known = self.paths(&saved_view::Selection::all(&self.scope)).await?;
        let names: Vec<(FileId, &str)> = known.iter().map(|it| (it.0, it.1.as_str())).collect();
        let ids =
            files.iter().map(|it| file_names::find(&names, it, "files")).collect::<Outcome<BTreeSet<FileId>>>()?;
        Ok(known.into_iter().filter(|it| ids.contains(&it.0)).collect())
    }

    /// The name of the view that uses a session.
    pub(crate) async fn view_of_session(&self, wanted: i64) -> Outcome<Option<String>> {
        let is_made = |view: &View| matches!(view, View::Session { session } if *session == wanted);
        Ok(self.all_views().await?.into_iter().find(|it| is_made(&it.1)).map(|it| it.0))
    }

    async fn all_views(&self) -> Outcome<Vec<(String, View)>> {
        let (reader, owner) = (self.reader.clone(), self.owner());
        let rows = blocking(move || reader.parts.book.views(&owner)).await?;
        Ok(rows.into_iter().filter_map(|(name, body)| Some((name, serde_json::from_str(&body).ok()?))).collect())
    }

    pub(crate) async fn sessions(&self) -> Outcome<Vec<i64>> {
        let (reader, owner) = (self.reader.clone(), self.owner());
        Ok(blocking(move || reader.parts.book.sessions(&owner)).await?)
    }

    /// Loads a saved view by name.
    pub(crate) async fn saved(&self, name: &str) -> Outcome<View> {
        let all = self.all_views().await?;
        let names: Vec<&str> = all.iter().map(|it| it.0.as_str()).collect();
        let unknown = Refusal::unknown(Cause::UnknownView, "view", name, &names).field("view");
        all.into_iter().find(|it| it.0 == name).map(|it| it.1).ok_or_else(|| match unknown.actions.is_empty() {
            true => unknown.action("`view create` makes one"),
            false => unknown,
        })
    }

    async fn kept(&self, given: &Map<String, Value>) -> Outcome<Value> {
        one_of(given, &["id", "format"])?;
        let id = text(given, "id")?.ok_or_else(|| Refusal::new(Cause::MissingField, "`id` is missing").field("id"))?;
        let booked = self.booked(id).await?.ok_or_else(|| snapshot::no_result(id, "id"))?;
        parsed(&booked.envelope)
    }
}

/// Checks the format: management calls have no tables; a stored result may have one.
fn known_format(name: &str, given: &Map<String, Value>) -> Outcome<()> {
    const FORMATS: [&str; 3] = ["json", "yaml", "csv"];
    let known = if name == "RESULT" { &FORMATS[..] } else { &FORMATS[..2] };
    match text(given, "format")? {
        Some(format) if !known.contains(&format.to_lowercase().as_str()) => {
            Err(Refusal::unknown(Cause::OutOfRange, "format", format, known).field("format"))
        }
        _ => Ok(()),
    }
}

fn with_name(name: &str, view: &View) -> Value {
    let mut shown = json!({"name": name});
    if let (Some(shown), Ok(Value::Object(own))) = (shown.as_object_mut(), serde_json::to_value(view)) {
        shown.extend(own);
    }
    shown
}

pub(in crate::corpus) fn one_of(given: &Map<String, Value>, known: &[&str]) -> Outcome<()> {
    match given.keys().find(|it| !known.contains(&it.as_str())) {
        Some(name) => Err(Refusal::unknown(Cause::UnknownField, "field", name, known).field(name.as_str())),
        None => Ok(()),
    }
}

pub(in crate::corpus) fn text<'g>(given: &'g Map<String, Value>, name: &str) -> Outcome<Option<&'g str>> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::new(Cause::TypeError, format!("`{name}` is no text")).field(name)),
    }
}

pub(in crate::corpus) fn flag(given: &Map<String, Value>, name: &str) -> Outcome<bool> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Refusal::new(Cause::TypeError, format!("`{name}` is not true or false")).field(name)),
    }
}

fn schemas(given: &Map<String, Value>) -> Outcome<Value> {
    one_of(given, &["verb", "format"])?;
    match text(given, "verb")? {
        None => Ok(Value::Array(schema::all())),
        Some(name) => help::known(name).map(schema::of),
    }
}
