//! Views, which are the sets of documents of requests. A session is a snapshot and never changes. A saved query covers the
//! files known when it was saved. A set lists its files. An evolving view follows the index.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::catalog::SessionFile;
use crate::corpus::api::aliases;
use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::api::request::ValidRequest;
use crate::corpus::document::metadata::Facts;
use crate::corpus::filter::Filter;
use crate::corpus::text::dates;
use crate::corpus::views::filter_row::{FilterRow, needed_columns};
use crate::corpus::views::snapshot::SessionSnapshot;
use crate::model::{FileFilter, FileId, Scope};

/// A saved view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum View {
    /// The files of one INGEST, as recorded in its session.
    Session { session: i64 },
    /// A filter over the files that were known when the view was saved.
    Query {
        filter: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        /// The highest file id that was known when the view was saved.
        upto: FileId,
    },
    /// The listed files, with their paths when the view was saved, so that a deleted file can still be named.
    Set {
        files: Vec<FileId>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
    },
    /// A filter over all files that are known at the time of the request.
    Evolving {
        filter: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
    },
}

/// A resolved view: the catalog query, and conditions that each file must meet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// The view, as the envelope describes it.
    pub(crate) description: Value,
    pub(crate) base: FileFilter,
    pub(crate) files: Option<BTreeSet<FileId>>,
    /// Whether the files are listed one by one. If so, a file that cannot be read is reported instead of left out.
    pub(crate) is_explicit: bool,
    /// Files that belong to the view even if they are no longer in the catalog, with their paths.
    pub(crate) named: Vec<(FileId, String)>,
    pub(crate) upto: Option<FileId>,
    pub(crate) filters: Vec<Filter>,
    /// The session snapshot from which files are taken instead of from the catalog.
    pub(crate) snapshot: Option<Arc<SessionSnapshot>>,
}

impl Selection {
    /// Selects all files of a scope.
    pub(crate) fn all(scope: &Scope) -> Selection {
        Selection {
            description: json!({"type": "warehouse"}),
            base: FileFilter { scope: scope.clone(), ..FileFilter::default() },
            ..Selection::default()
        }
    }

    /// Selects the files at or below a path.
    pub(crate) fn under_path(scope: &Scope, path: PathBuf) -> Selection {
        let mut selection = Selection::all(scope);
        selection.base.under = Some(path);
        selection
    }

    /// Selects the files of a session as they were when it was made.
    pub(crate) fn session(scope: &Scope, past: Arc<SessionSnapshot>) -> Selection {
        let description = json!({"type": "session", "session": past.session});
        Selection { description, snapshot: Some(past), ..Selection::all(scope) }
    }

    /// Selects the files of a saved view that is not a session. Durations of an evolving view count back from `now_ns`.
    pub(crate) fn saved(scope: &Scope, name: &str, view: &View, now_ns: i64) -> ApiResult<Selection> {
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
        selection.base.modified_after_ns = since.and_then(|it| dates::parse_since(it, now_ns));
        selection.description = json!({"type": kind, "name": name});
        Ok(selection)
    }

    /// Restricts the selection to these files.
    pub(crate) fn restrict_to(&mut self, files: impl IntoIterator<Item = FileId>) {
        let files: BTreeSet<FileId> = files.into_iter().collect();
        self.named.retain(|it| files.contains(&it.0));
        self.files = Some(files);
        self.is_explicit = true;
    }

    /// Adds the filter of a QUERY request to the conditions.
    pub(crate) fn add_filter(&mut self, request: &ValidRequest) -> ApiResult<()> {
        let filter = request.text("filter").filter(|_| request.verb.name == "QUERY");
        self.filters.extend(filter.map(Filter::parse).transpose()?);
        Ok(())
    }

    /// Returns whether a file belongs to the view. A condition that is undecided counts as not met.
    pub(crate) fn contains(&self, sight: &FilterRow<'_>) -> bool {
        self.files.as_ref().is_none_or(|it| it.contains(&sight.row.id)) && self.matches_filters(sight)
    }

    /// Returns whether a file of an earlier session belonged to the view at that time, by the metadata in the session.
    pub(crate) fn contained_then(&self, file: &SessionFile) -> bool {
        let columns = needed_columns(&self.filters);
        let facts = file.facts.as_deref().and_then(|it| serde_json::from_str::<Facts>(it).ok());
        let row = file.predicate_row(&columns);
        let is_listed = !self.is_explicit || self.files.as_ref().is_none_or(|it| it.contains(&file.file));
        let is_young = self.base.modified_after_ns.is_none_or(|it| file.modified_ns >= it);
        let sight = FilterRow { row: &row, columns: &columns, facts: facts.as_ref() };
        file.problem.is_empty() && is_listed && is_young && self.matches_filters(&sight)
    }

    fn matches_filters(&self, sight: &FilterRow<'_>) -> bool {
        self.upto.is_none_or(|it| sight.row.id <= it)
            && self.filters.iter().all(|it| it.evaluate(&|field| sight.value_of(field)) == Some(true))
    }
}

/// The view that a request names: a saved view, a session, or all files if it names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ViewReference<'r> {
    Warehouse,
    View(&'r str),
    Session(i64),
}

/// Returns the view that a request names.
pub(crate) fn view_reference(request: &ValidRequest) -> ViewReference<'_> {
    match (request.text("view"), request.whole("session")) {
        (Some(name), _) => ViewReference::View(name),
        (None, Some(session)) => ViewReference::Session(session),
        (None, None) => ViewReference::Warehouse,
    }
}

/// A request to create, list, show or delete views or sessions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ViewRequest {
    Create {
        name: String,
        view: NewView,
    },
    List,
    Show(String),
    Delete(String),
    /// Deletes a session and the texts that it keeps.
    DeleteSession(i64),
}

/// A view to create; its files are not resolved yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NewView {
    Session(i64),
    Set(Vec<Value>),
    Filter { filter: String, since: Option<String>, follows: bool },
}

const REQUEST_FIELDS: [&str; 9] =
    ["action", "name", "filter", "files", "urls", "session", "since", "auto_update", "format"];

/// Maximum bytes of a stored filter: more than a person would write.
const MAX_FILTER_BYTES: usize = 32 << 10;

/// Parses and checks a request to manage views.
pub(crate) fn parse_request(given: &Map<String, Value>) -> ApiResult<ViewRequest> {
    let fields = aliases::name_management_fields("VIEW", given)?;
    if let Some(name) = fields.keys().find(|it| !REQUEST_FIELDS.contains(&it.as_str())) {
        let what = "field of a view";
        return Err(
            ApiError::unknown_name(ApiErrorKind::UnknownField, what, name, &REQUEST_FIELDS).field(name.as_str())
        );
    }
    let text = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(ApiError::new(ApiErrorKind::TypeError, format!("`{name}` must be non-empty text")).field(name)),
    };
    let name = || {
        let name = text("name")?
            .ok_or_else(|| ApiError::new(ApiErrorKind::MissingField, "a view needs a `name`").field("name"))?;
        let is_plain = name.chars().count() <= 100 && !name.chars().any(char::is_control);
        if is_plain {
            Ok(name)
        } else {
            Err(ApiError::new(ApiErrorKind::OutOfRange, "the name has more than 100 characters or a control character")
                .field("name"))
        }
    };
    let action = text("action")?.map(|it| it.trim().to_lowercase());
    reject_unused_fields(action.as_deref(), &fields)?;
    match action.as_deref() {
        Some("list") => Ok(ViewRequest::List),
        Some("show") => Ok(ViewRequest::Show(name()?)),
        Some("delete") => match (fields.get("name"), fields.get("session")) {
            (None, Some(session)) => parse_session_id(session).map(ViewRequest::DeleteSession),
            (Some(_), Some(_)) => Err(ApiError::new(ApiErrorKind::Ambiguous, "both `name` and `session` are given")
                .field("session")
                .action("leave out `name` or `session`")),
            (_, None) => Ok(ViewRequest::Delete(name()?)),
        },
        Some("create") => {
            let name = name()?;
            check_view_name(&name)?;
            Ok(ViewRequest::Create { name, view: parse_new_view(&fields, text("filter")?, text("since")?)? })
        }
        Some(other) => Err(ApiError::unknown_name(
            ApiErrorKind::UnknownForm,
            "action",
            other,
            &["create", "list", "show", "delete"],
        )
        .field("action")),
        None => Err(ApiError::new(ApiErrorKind::Ambiguous, "a view request needs an `action`")
            .field("action")
            .action("set `action` to create, list, show or delete")),
    }
}

/// Rejects fields that the action does not take: only `create` takes more than a name.
fn reject_unused_fields(action: Option<&str>, fields: &Map<String, Value>) -> ApiResult<()> {
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
            Err(ApiError::unknown_name(ApiErrorKind::UnknownField, &what, name, known).field(name))
        }
        None => Ok(()),
    }
}

/// Checks that a name is easy to type and to recognize: no spaces at its ends, no shell or path characters.
fn check_view_name(name: &str) -> ApiResult<()> {
    let is_plain = |it: char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_' | '.');
    if name.starts_with(char::is_alphanumeric) && !name.ends_with(' ') && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(ApiError::new(
        ApiErrorKind::OutOfRange,
        "a view name must begin with a letter or digit and have no special characters",
    )
    .field("name")
    .action("use letters, digits, spaces, `-`, `_` and `.`"))
}

fn parse_session_id(given: &Value) -> ApiResult<i64> {
    let refusal =
        || ApiError::new(ApiErrorKind::TypeError, "`session` must be the number of a session").field("session");
    let number = given.as_i64().or_else(|| given.as_str()?.trim().parse().ok());
    number.filter(|it| *it > 0).ok_or_else(refusal)
}

fn parse_new_view(fields: &Map<String, Value>, filter: Option<String>, since: Option<String>) -> ApiResult<NewView> {
    if fields.contains_key("files") && fields.contains_key("urls") {
        return Err(
            ApiError::new(ApiErrorKind::Ambiguous, "both `files` and `urls` are given: give one of them").field("urls")
        );
    }
    let files = fields.get("files").or(fields.get("urls"));
    let session = fields.get("session");
    let given = [filter.is_some(), files.is_some(), session.is_some()].into_iter().filter(|it| *it).count();
    if given != 1 {
        let cause = if given == 0 { ApiErrorKind::MissingField } else { ApiErrorKind::Ambiguous };
        return Err(ApiError::new(cause, "a view needs exactly one of `filter`, `files` and `session`")
            .field("filter")
            .action("give exactly one of them"));
    }
    if let Some(since) = since.as_deref().filter(|it| dates::parse_since(it, 0).is_none()) {
        return Err(ApiError::new(ApiErrorKind::TypeError, format!("`{since}` is neither a date nor a duration"))
            .field("since")
            .action("write e.g. 2024-01-31, `7 days` or yesterday"));
    }
    if since.is_some() && filter.is_none() {
        return Err(ApiError::new(ApiErrorKind::MissingField, "`since` needs `filter`").field("filter"));
    }
    if let Some(filter) = filter {
        if filter.len() > MAX_FILTER_BYTES {
            let text = format!("the filter of a view is longer than {MAX_FILTER_BYTES} bytes");
            return Err(ApiError::new(ApiErrorKind::OutOfRange, text)
                .field("filter")
                .action("save parts of the filter as separate views"));
        }
        Filter::parse(&filter)?;
        let follows = match fields.get("auto_update") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(follows)) => *follows,
            Some(_) => {
                return Err(
                    ApiError::new(ApiErrorKind::TypeError, "`auto_update` must be true or false").field("auto_update")
                );
            }
        };
        return Ok(NewView::Filter { filter, since, follows });
    }
    if fields.get("auto_update").is_some_and(|it| !it.is_null() && *it != Value::Bool(false)) {
        return Err(ApiError::new(ApiErrorKind::MissingField, "`auto_update` needs `filter`").field("filter"));
    }
    if let Some(session) = session {
        return parse_session_id(session).map(NewView::Session);
    }
    match files {
        Some(Value::Array(files)) if !files.is_empty() && files.len() <= 10_000 => Ok(NewView::Set(files.clone())),
        // A single file stands for a list of one.
        Some(Value::String(_) | Value::Number(_)) => Ok(NewView::Set(files.into_iter().cloned().collect())),
        _ => Err(ApiError::new(ApiErrorKind::TypeError, "`files` must be a list of 1 to 10,000 files").field("files")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_draft(request: Value, expected: Result<NewView, ApiErrorKind>) {
        let Value::Object(mut fields) = request else { panic!("an object") };
        fields.insert("action".into(), "create".into());
        fields.insert("name".into(), "v".into());
        let made = parse_request(&fields).map_err(|it| it.kind).map(|it| match it {
            ViewRequest::Create { view, .. } => view,
            other => panic!("{other:?}"),
        });
        assert_eq!(made, expected, "{fields:?}");
    }

    #[test]
    fn create_needs_exactly_one_source() {
        let filter = |since: Option<&str>, follows| NewView::Filter {
            filter: "has_abstract".into(),
            since: since.map(Into::into),
            follows,
        };
        check_draft(json!({"filter": "has_abstract"}), Ok(filter(None, false)));
        check_draft(
            json!({"filter": "has_abstract", "since": "2024-01-01", "auto-update": true}),
            Ok(filter(Some("2024-01-01"), true)),
        );
        check_draft(json!({"files": [1, "a.md"]}), Ok(NewView::Set(vec![json!(1), json!("a.md")])));
        check_draft(json!({"urls": [1, 5]}), Ok(NewView::Set(vec![json!(1), json!(5)])));
        check_draft(json!({"documents": "a.md"}), Ok(NewView::Set(vec![json!("a.md")])));
        check_draft(json!({"session": 3}), Ok(NewView::Session(3)));
        check_draft(json!({"session_id": "3"}), Ok(NewView::Session(3)));
        check_draft(json!({"query": "has_abstract", "after": "7 days"}), Ok(filter(Some("7 days"), false)));
        check_draft(json!({}), Err(ApiErrorKind::MissingField));
        check_draft(json!({"filter": "has_abstract", "files": [1]}), Err(ApiErrorKind::Ambiguous));
        check_draft(json!({"filter": "has_abstrct"}), Err(ApiErrorKind::UnknownField));
        check_draft(json!({"filter": "has_abstract", "since": "soon"}), Err(ApiErrorKind::TypeError));
        check_draft(json!({"files": []}), Err(ApiErrorKind::TypeError));
        check_draft(json!({"colour": 1}), Err(ApiErrorKind::UnknownField));
        check_draft(json!({"filter": "has_abstract", "since": "30 days"}), Ok(filter(Some("30 days"), false)));
        check_draft(json!({"files": [1], "since": "30 days"}), Err(ApiErrorKind::MissingField));
        check_draft(json!({"files": [1], "auto_update": true}), Err(ApiErrorKind::MissingField));
        check_draft(json!({"files": [1], "urls": [1]}), Err(ApiErrorKind::Ambiguous));
        check_draft(json!({"files": [1], "paths": [1]}), Err(ApiErrorKind::Ambiguous));
        let long = format!("has_abstract{}", " AND has_abstract".repeat(MAX_FILTER_BYTES / 16));
        check_draft(json!({"filter": long}), Err(ApiErrorKind::OutOfRange));
    }

    #[test]
    fn view_names_are_plain_and_delete_takes_one_target() {
        let request = |it: Value| parse_request(it.as_object().unwrap()).map_err(|it| it.kind);
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
        assert_eq!(request(json!({"action": "delete", "session": 3})), Ok(ViewRequest::DeleteSession(3)));
        assert_eq!(request(json!({"action": "delete", "session": "three"})), Err(ApiErrorKind::TypeError));
        assert_eq!(request(json!({"action": "delete", "session": 3, "name": "a"})), Err(ApiErrorKind::Ambiguous));
        assert_eq!(request(json!({"action": "delete"})), Err(ApiErrorKind::MissingField));
        for (extra, value) in [("filter", json!("has_abstract")), ("files", json!([1])), ("auto_update", json!(true))] {
            for action in ["list", "show", "delete"] {
                let given = json!({"action": action, "name": "a", extra: value});
                assert_eq!(request(given), Err(ApiErrorKind::UnknownField), "{action} {extra}");
            }
        }
    }
}
