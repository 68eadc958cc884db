//! Views: which documents a request is about. A session stays as it was, a saved filter looks at what was known when it
//! was saved, a set names its files, and an evolving view follows the index.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::catalog::SessionFile;
use crate::contract::dates;
use crate::contract::filter::Filter;
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::contract::validate::Request;
use crate::model::{FileFilter, FileId, Scope};

/// A view as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum View {
    /// The files of one ingest run.
    Session { session: i64 },
    /// A filter over the files that were known when it was saved.
    Query {
        filter: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        /// The last file that was known.
        upto: FileId,
    },
    /// These files.
    Set { files: Vec<FileId> },
    /// A filter over all files, now.
    Evolving {
        filter: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
    },
}

/// What a view comes to: what the catalog is asked, and what is asked of each file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// As the envelope names it.
    pub(crate) shown: Value,
    pub(crate) base: FileFilter,
    pub(crate) files: Option<BTreeSet<FileId>>,
    pub(crate) upto: Option<FileId>,
    pub(crate) filters: Vec<Filter>,
    /// Of a session: its number and its files.
    pub(crate) session: Option<(i64, Vec<SessionFile>)>,
}

impl Selection {
    /// Everything of a scope.
    pub(crate) fn all(scope: &Scope) -> Selection {
        Selection {
            shown: json!({"type": "warehouse"}),
            base: FileFilter { within: scope.clone(), ..FileFilter::default() },
            ..Selection::default()
        }
    }

    /// What lies at or below a path.
    pub(crate) fn under(scope: &Scope, path: PathBuf) -> Selection {
        let mut selection = Selection::all(scope);
        selection.base.under = Some(path);
        selection
    }

    /// The files of a session.
    pub(crate) fn session(scope: &Scope, session: i64, files: Vec<SessionFile>) -> Selection {
        Selection {
            shown: json!({"type": "session", "session": session}),
            files: Some(files.iter().map(|it| it.file).collect()),
            session: Some((session, files)),
            ..Selection::all(scope)
        }
    }

    /// The files of a saved view that is no session.
    pub(crate) fn saved(scope: &Scope, name: &str, view: &View) -> Outcome<Selection> {
        let mut selection = Selection::all(scope);
        let (kind, filter, since) = match view {
            View::Session { .. } => ("session", None, None),
            View::Set { files } => {
                selection.files = Some(files.iter().copied().collect());
                ("set", None, None)
            }
            View::Query { filter, since, upto } => {
                selection.upto = Some(*upto);
                ("query", Some(filter), since.as_deref())
            }
            View::Evolving { filter, since } => ("evolving", Some(filter), since.as_deref()),
        };
        selection.filters.extend(filter.map(|it| Filter::parse(it)).transpose()?);
        selection.base.modified_after_ns = since.and_then(dates::moment);
        selection.shown = json!({"type": kind, "name": name});
        Ok(selection)
    }
}

/// What a request says of its view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named<'r> {
    Warehouse,
    View(&'r str),
    Session(i64),
}

/// Which view a request names.
pub(crate) fn named(request: &Request) -> Named<'_> {
    match (request.text("view"), request.whole("session")) {
        (Some(name), _) => Named::View(name),
        (None, Some(session)) => Named::Session(session),
        (None, None) => Named::Warehouse,
    }
}

/// What is asked about views.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Create { name: String, view: Draft },
    List,
    Show(String),
    Delete(String),
}

/// A view that is to be: files are not looked up yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Draft {
    Session(i64),
    Set(Vec<Value>),
    Filter { filter: String, since: Option<String>, follows: bool },
}

const FIELDS: [&str; 9] = ["action", "name", "filter", "files", "urls", "session", "since", "auto_update", "format"];

/// Checks a request about views.
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
    match text("action")?.as_deref() {
        Some("list") => Ok(Asked::List),
        Some("show") => Ok(Asked::Show(name()?)),
        Some("delete") => Ok(Asked::Delete(name()?)),
        Some("create") => Ok(Asked::Create { name: name()?, view: draft(&fields, text("filter")?, text("since")?)? }),
        Some(other) => {
            Err(Refusal::unknown(Cause::UnknownForm, "action", other, &["create", "list", "show", "delete"])
                .field("action"))
        }
        None => Err(Refusal::new(Cause::Ambiguous, "what is to be done with views?")
            .field("action")
            .action("set `action` to create, list, show or delete")),
    }
}

fn draft(fields: &Map<String, Value>, filter: Option<String>, since: Option<String>) -> Outcome<Draft> {
    let files = fields.get("files").or(fields.get("urls"));
    let session = fields.get("session");
    let given = [filter.is_some(), files.is_some(), session.is_some()].into_iter().filter(|it| *it).count();
    if given != 1 {
        let cause = if given == 0 { Cause::MissingField } else { Cause::Ambiguous };
        return Err(Refusal::new(cause, "a view is made of one of `filter`, `files` and `session`")
            .field("filter")
            .action("give exactly one of them"));
    }
    if let Some(since) = since.as_deref().filter(|it| dates::moment(it).is_none()) {
        return Err(Refusal::new(Cause::TypeError, format!("`{since}` is no date"))
            .field("since")
            .action("write e.g. 2024-01-31"));
    }
    if let Some(filter) = filter {
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
    if let Some(session) = session {
        let number = session.as_i64().filter(|it| *it > 0);
        return number
            .map(Draft::Session)
            .ok_or_else(|| Refusal::new(Cause::TypeError, "`session` is no number").field("session"));
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
    fn a_view_is_made_of_one_thing() {
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
    }
}
