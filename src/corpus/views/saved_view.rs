//! Views: the set of documents of a request. A session is a snapshot and never changes. A saved query covers the files
//! that were known when it was saved. A set lists its files. An evolving view follows the index.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::catalog::SessionFile;
use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::api::validate::Request;
use crate::corpus::document::metadata::Facts;
use crate::corpus::filter::Filter;
use crate::corpus::text::dates;
use crate::corpus::views::select::{self, Sight};
use crate::corpus::views::snapshot::Past;
use crate::model::{FileFilter, FileId, Scope};

/// A view as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum View {
    /// The files of one INGEST run.
    Session { session: i64 },
    /// A filter over the files that were known when the view was saved.
    Query {
        filter: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        /// The highest file id that was known then.
        upto: FileId,
    },
    /// These files, with their paths at the time, so that a deleted one can still be named.
    Set {
        files: Vec<FileId>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
    },
    /// A filter over all files at the time of the request.
    Evolving {
        filter: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
    },
}

/// A resolved view: the catalog query, and the conditions on each file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// The view as shown in the envelope.
    pub(crate) shown: Value,
    pub(crate) base: FileFilter,
    pub(crate) files: Option<BTreeSet<FileId>>,
    /// Whether the files are listed one by one. Then an unreadable file is reported, not left out.
    pub(crate) is_explicit: bool,
    /// Files that belong to the view even if they are no longer in the catalog, with their paths.
    pub(crate) named: Vec<(FileId, String)>,
    pub(crate) upto: Option<FileId>,
    pub(crate) filters: Vec<Filter>,
    /// The session snapshot that answers instead of the catalog.
    pub(crate) past: Option<Arc<Past>>,
}

impl Selection {
    /// All files of a scope.
    pub(crate) fn all(scope: &Scope) -> Selection {
        Selection {
            shown: json!({"type": "warehouse"}),
            base: FileFilter { within: scope.clone(), ..FileFilter::default() },
            ..Selection::default()
        }
    }

    /// The files at or below a path.
    pub(crate) fn under(scope: &Scope, path: PathBuf) -> Selection {
        let mut selection = Selection::all(scope);
        selection.base.under = Some(path);
        selection
    }

    /// The files of a session as they were when it was made.
    pub(crate) fn session(scope: &Scope, past: Arc<Past>) -> Selection {
        let shown = json!({"type": "session", "session": past.session});
        Selection { shown, past: Some(past), ..Selection::all(scope) }
    }

    /// The files of a saved view other than a session. Durations of an evolving view count back from `now_ns`.
    pub(crate) fn saved(scope: &Scope, name: &str, view: &View, now_ns: i64) -> Outcome<Selection> {
        let mut selection = Selection::all(scope);
        let (kind, filter, since) = match view {
            View::Session { .. } => ("session", None, None),
            View::Set { files, paths } => {
                selection.files = Some(files.iter().copied().collect());
                selection.is_explicit = true;
                let path = |at: usize| paths.get(at).cloned().unwrap_or_default();
                selection.named = files.iter().enumerate().map(|(at, file)| (*file, path(at))).collect();
                ("set", None, None)
            }
            View::Query { filter, since, upto } => {
                selection.upto = Some(*upto);
                ("query", Some(filter), since.as_deref())
            }
            View::Evolving { filter, since } => ("evolving", Some(filter), since.as_deref()),
        };
        selection.filters.extend(filter.map(|it| Filter::parse(it)).transpose()?);
        selection.base.modified_after_ns = since.and_then(|it| dates::since(it, now_ns));
        selection.shown = json!({"type": kind, "name": name});
        Ok(selection)
    }

    /// Restricts the view to these files.
    pub(crate) fn only(&mut self, files: impl IntoIterator<Item = FileId>) {
        let files: BTreeSet<FileId> = files.into_iter().collect();
        self.named.retain(|it| files.contains(&it.0));
        self.files = Some(files);
        self.is_explicit = true;
    }

    /// Adds the filter of a QUERY request.
    pub(crate) fn add_filter(&mut self, request: &Request) -> Outcome<()> {
        let filter = request.text("filter").filter(|_| request.verb.name == "QUERY");
        self.filters.extend(filter.map(Filter::parse).transpose()?);
        Ok(())
    }

    /// Returns whether a file belongs to the view. A condition that cannot be evaluated is false.
    pub(crate) fn holds(&self, sight: &Sight<'_>) -> bool {
        self.files.as_ref().is_none_or(|it| it.contains(&sight.row.id)) && self.fits(sight)
    }

    /// Returns whether a file of an earlier session belonged to the view then, judged by what the session recorded.
    pub(crate) fn held(&self, file: &SessionFile) -> bool {
        let columns = select::columns(&self.filters);
        let facts = file.facts.as_deref().and_then(|it| serde_json::from_str::<Facts>(it).ok());
        let row = file.row(&columns);
        let is_listed = !self.is_explicit || self.files.as_ref().is_none_or(|it| it.contains(&file.file));
        let is_young = self.base.modified_after_ns.is_none_or(|it| file.modified_ns >= it);
        let sight = Sight { row: &row, columns: &columns, facts: facts.as_ref() };
        file.problem.is_empty() && is_listed && is_young && self.fits(&sight)
    }

    fn fits(&self, sight: &Sight<'_>) -> bool {
        self.upto.is_none_or(|it| sight.row.id <= it)
            && self.filters.iter().all(|it| it.evaluate(&|field| sight.datum(field)) == Some(true))
    }
}

/// The view that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named<'r> {
    Warehouse,
    View(&'r str),
    Session(i64),
}

/// Reads the view that a request names.
pub(crate) fn named(request: &Request) -> Named<'_> {
    match (request.text("view"), request.whole("session")) {
        (Some(name), _) => Named::View(name),
        (None, Some(session)) => Named::Session(session),
        (None, None) => Named::Warehouse,
    }
}

/// A request to manage views.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Create {
        name: String,
        view: Draft,
    },
    List,
    Show(String),
    Delete(String),
    /// Deletes a session and its texts.
    DeleteSession(i64),
}

/// A view to be created; its files are not resolved yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Draft {
    Session(i64),
    Set(Vec<Value>),
    Filter { filter: String, since: Option<String>, follows: bool },
}

const FIELDS: [&str; 9] = ["action", "name", "filter", "files", "urls", "session", "since", "auto_update", "format"];

/// Most bytes of a stored filter: more than any person writes.
const MOST_FILTER: usize = 32 << 10;

/// Parses and checks a request to manage views.
pub(crate) fn asked(given: &Map<String, Value>) -> Outcome<Asked> {
    let mut fields = Map::new();
    for (name, value) in given {
        let folded = name.replace('-', "_");
        if !FIELDS.contains(&folded.as_str()) {
            return Err(Refusal::unknown(Cause::UnknownField, "field of a view", name, &FIELDS).field(name.as_str()));
        }
        fields.insert(folded, value.clone());
    }
    let text = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(Refusal::new(Cause::TypeError, format!("`{name}` is no text")).field(name)),
    };
    let name = || {
        let name =
            text("name")?.ok_or_else(|| Refusal::new(Cause::MissingField, "a view needs a `name`").field("name"))?;
        let is_plain = name.chars().count() <= 100 && !name.chars().any(char::is_control);
        if is_plain {
            Ok(name)
        } else {
            Err(Refusal::new(Cause::OutOfRange, "the name is too long or not plain").field("name"))
        }
    };
    let action = text("action")?;
    no_more_than(action.as_deref(), &fields)?;
    match action.as_deref() {
        Some("list") => Ok(Asked::List),
        Some("show") => Ok(Asked::Show(name()?)),
        Some("delete") => match (fields.get("name"), fields.get("session")) {
            (None, Some(session)) => session_number(session).map(Asked::DeleteSession),
            (Some(_), Some(_)) => Err(Refusal::new(Cause::Ambiguous, "both `name` and `session` are given")
                .field("session")
                .action("leave out `name` or `session`")),
            (_, None) => Ok(Asked::Delete(name()?)),
        },
        Some("create") => {
            let name = name()?;
            check_name(&name)?;
            Ok(Asked::Create { name, view: draft(&fields, text("filter")?, text("since")?)? })
        }
        Some(other) => {
            Err(Refusal::unknown(Cause::UnknownForm, "action", other, &["create", "list", "show", "delete"])
                .field("action"))
        }
        None => Err(Refusal::new(Cause::Ambiguous, "a view request needs an `action`")
            .field("action")
            .action("set `action` to create, list, show or delete")),
    }
}

/// Rejects fields that the action does not use: only `create` takes more than a name.
fn no_more_than(action: Option<&str>, fields: &Map<String, Value>) -> Outcome<()> {
    let known: &[&str] = match action {
        Some("list") => &["action", "format"],
        Some("show") => &["action", "format", "name"],
        Some("delete") => &["action", "format", "name", "session"],
        _ => return Ok(()),
    };
    let mut given = fields.iter().filter(|it| !it.1.is_null()).map(|it| it.0.as_str());
    match given.find(|it| !known.contains(it)) {
        Some(name) => {
            let what = format!("field of `view {}`", action.unwrap_or_default());
            Err(Refusal::unknown(Cause::UnknownField, &what, name, known).field(name))
        }
        None => Ok(()),
    }
}

/// Checks that a name is easy to type and to tell apart: no blanks at its ends, no shell or path characters.
fn check_name(name: &str) -> Outcome<()> {
    let is_plain = |it: char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_' | '.');
    if name.starts_with(char::is_alphanumeric) && !name.ends_with(' ') && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(Refusal::new(Cause::OutOfRange, "the name of a view begins with a letter or digit and is plain")
        .field("name")
        .action("use letters, digits, spaces, `-`, `_` and `.`"))
}

fn session_number(given: &Value) -> Outcome<i64> {
    let refusal = || Refusal::new(Cause::TypeError, "`session` is no number").field("session");
    given.as_i64().filter(|it| *it > 0).ok_or_else(refusal)
}

fn draft(fields: &Map<String, Value>, filter: Option<String>, since: Option<String>) -> Outcome<Draft> {
    if fields.contains_key("files") && fields.contains_key("urls") {
        return Err(Refusal::new(Cause::Ambiguous, "both `files` and `urls` are given: give one of them").field("urls"));
    }
    let files = fields.get("files").or(fields.get("urls"));
    let session = fields.get("session");
    let given = [filter.is_some(), files.is_some(), session.is_some()].into_iter().filter(|it| *it).count();
    if given != 1 {
        let cause = if given == 0 { Cause::MissingField } else { Cause::Ambiguous };
        return Err(Refusal::new(cause, "a view is made of one of `filter`, `files` and `session`")
            .field("filter")
            .action("give exactly one of them"));
    }
    if let Some(since) = since.as_deref().filter(|it| dates::since(it, 0).is_none()) {
        return Err(Refusal::new(Cause::TypeError, format!("`{since}` is no date and no duration"))
            .field("since")
            .action("write e.g. 2024-01-31, or 30 days"));
    }
    if since.is_some() && filter.is_none() {
        return Err(Refusal::new(Cause::MissingField, "`since` needs `filter`").field("filter"));
    }
    if let Some(filter) = filter {
        if filter.len() > MOST_FILTER {
            let text = format!("the filter of a view is longer than {MOST_FILTER} bytes");
            return Err(Refusal::new(Cause::OutOfRange, text).field("filter").action("save its parts as views"));
        }
        Filter::parse(&filter)?;
        let follows = match fields.get("auto_update") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(follows)) => *follows,
            Some(_) => {
                return Err(Refusal::new(Cause::TypeError, "`auto_update` is not true or false").field("auto_update"));
            }
        };
        return Ok(Draft::Filter { filter, since, follows });
    }
    if fields.get("auto_update").is_some_and(|it| !it.is_null() && *it != Value::Bool(false)) {
        return Err(Refusal::new(Cause::MissingField, "`auto_update` needs `filter`").field("filter"));
    }
    if let Some(session) = session {
        return session_number(session).map(Draft::Session);
    }
    match files {
        Some(Value::Array(files)) if !files.is_empty() && files.len() <= 10_000 => Ok(Draft::Set(files.clone())),
        _ => Err(Refusal::new(Cause::TypeError, "`files` is no list of files").field("files")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: Value, expected: Result<Draft, Cause>) {
        let Value::Object(mut fields) = request else { panic!("an object") };
        fields.insert("action".into(), "create".into());
        fields.insert("name".into(), "v".into());
        let made = asked(&fields).map_err(|it| it.cause).map(|it| match it {
            Asked::Create { view, .. } => view,
            other => panic!("{other:?}"),
        });
        assert_eq!(made, expected, "{fields:?}");
    }

    #[test]
    fn create_needs_exactly_one_source() {
        let filter = |since: Option<&str>, follows| Draft::Filter {
            filter: "has_abstract".into(),
            since: since.map(Into::into),
            follows,
        };
        check(json!({"filter": "has_abstract"}), Ok(filter(None, false)));
        check(
            json!({"filter": "has_abstract", "since": "2024-01-01", "auto-update": true}),
            Ok(filter(Some("2024-01-01"), true)),
        );
        check(json!({"files": [1, "a.md"]}), Ok(Draft::Set(vec![json!(1), json!("a.md")])));
        check(json!({"urls": [1, 5]}), Ok(Draft::Set(vec![json!(1), json!(5)])));
        check(json!({"session": 3}), Ok(Draft::Session(3)));
        check(json!({}), Err(Cause::MissingField));
        check(json!({"filter": "has_abstract", "files": [1]}), Err(Cause::Ambiguous));
        check(json!({"filter": "has_abstrct"}), Err(Cause::UnknownField));
        check(json!({"filter": "has_abstract", "since": "soon"}), Err(Cause::TypeError));
        check(json!({"files": []}), Err(Cause::TypeError));
        check(json!({"colour": 1}), Err(Cause::UnknownField));
        check(json!({"filter": "has_abstract", "since": "30 days"}), Ok(filter(Some("30 days"), false)));
        check(json!({"files": [1], "since": "30 days"}), Err(Cause::MissingField));
        check(json!({"files": [1], "auto_update": true}), Err(Cause::MissingField));
        check(json!({"files": [1], "urls": [1]}), Err(Cause::Ambiguous));
        let long = format!("has_abstract{}", " AND has_abstract".repeat(MOST_FILTER / 16));
        check(json!({"filter": long}), Err(Cause::OutOfRange));
    }

    #[test]
    fn view_names_are_plain_and_delete_takes_one_target() {
        let request = |it: Value| asked(it.as_object().unwrap()).map_err(|it| it.cause);
        for (name, is_plain) in [
            ("recent docs", true),
            ("high-quality_papers.2", true),
            ("Übersicht", true),
            ("../up", false),
            ("a/b", false),
            (" a", false),
            ("a ", false),
            ("-a", false),
            ("a;b", false),
            ("a\u{7}", false),
            (&"x".repeat(101), false),
        ] {
            let made = request(json!({"action": "create", "name": name, "session": 1}));
            assert_eq!(made.is_ok(), is_plain, "{name}: {made:?}");
        }
        assert_eq!(request(json!({"action": "delete", "session": 3})), Ok(Asked::DeleteSession(3)));
        assert_eq!(request(json!({"action": "delete", "session": "3"})), Err(Cause::TypeError));
        assert_eq!(request(json!({"action": "delete", "session": 3, "name": "a"})), Err(Cause::Ambiguous));
        assert_eq!(request(json!({"action": "delete"})), Err(Cause::MissingField));
        for (extra, value) in [("filter", json!("has_abstract")), ("files", json!([1])), ("auto_update", json!(true))] {
            for action in ["list", "show", "delete"] {
                let given = json!({"action": action, "name": "a", extra: value});
                assert_eq!(request(given), Err(Cause::UnknownField), "{action} {extra}");
            }
        }
    }
}
