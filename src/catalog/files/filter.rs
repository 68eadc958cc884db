//! Translates a [`FileFilter`] into an SQL condition; globs, which SQL cannot express, are matched row by row afterwards.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use rusqlite::Transaction;
use rusqlite::types::Value;

use crate::catalog::database::DbError;
use crate::catalog::files::authors;
use crate::catalog::files::owners::Owners;
use crate::catalog::files::roots::load_roots;
use crate::catalog::files::row::{path_bytes, range_below, signed};
use crate::error::{Error, Result};
use crate::model::{FileFilter, FileState, MAX_EXTENSIONS, MAX_GLOB, MAX_NAME_WORDS, Root, RootId, Scope};

/// An SQL condition on `files`, the values of its `?` placeholders in order, and a glob that the relative path must
/// also match.
pub(in crate::catalog) struct Condition {
    pub(in crate::catalog) sql: String,
    pub(in crate::catalog) values: Vec<Value>,
    pub(in crate::catalog) glob: Option<PathGlob>,
}

/// A compiled glob for paths relative to their root.
pub(in crate::catalog) struct PathGlob {
    matcher: GlobMatcher,
    /// The folded glob for folded paths: `*ubersicht*` also finds `Übersicht.md`.
    folded: GlobMatcher,
    /// Names of the root folders by root id, filled only if the glob begins with `**/`: `**/contracts/**` also finds
    /// the files of a root named `contracts`.
    roots: HashMap<RootId, OsString>,
}

impl PathGlob {
    fn new(db: &Transaction<'_>, text: &str) -> Result<PathGlob, DbError> {
        let matcher = compile_glob(text)?;
        let mut names = HashMap::new();
        if text.starts_with("**/") {
            let named = |it: Root| it.path.file_name().map(|name| (it.id, name.to_os_string()));
            names.extend(load_roots(db)?.into_iter().filter_map(named));
        }
        Ok(PathGlob { matcher, folded: compile_glob(&vic_words::fold(text))?, roots: names })
    }

    /// Returns whether the glob matches a path relative to a root.
    fn is_match(&self, root: RootId, path: &Path) -> bool {
        self.matches(path) || self.roots.get(&root).is_some_and(|name| self.matches(&Path::new(name).join(path)))
    }

    fn matches(&self, path: &Path) -> bool {
        self.matcher.is_match(path) || self.folded.is_match(Path::new(&*vic_words::fold(&path.to_string_lossy())))
    }
}

impl Condition {
    /// Translates a filter into a condition.
    ///
    /// # Errors
    /// [`crate::error::ErrorCode::InvalidArgument`] naming a glob that cannot be parsed.
    pub(in crate::catalog) fn new(
        db: &Transaction<'_>,
        filter: &FileFilter,
        owners: &Owners,
    ) -> Result<Condition, DbError> {
        let glob = filter.path_glob.as_deref().map(|it| PathGlob::new(db, it)).transpose()?;
        let mut condition = Condition { sql: "deleted_ns IS NULL".into(), values: Vec::new(), glob };
        if let Some(path) = &filter.under {
            let (sql, values) = path_condition(db, path)?;
            condition.and(&sql, values);
        }
        if !filter.scope.is_all() {
            let (sql, values) = scope_condition(db, &filter.scope)?;
            condition.and(&sql, values);
        }
        if filter.extensions.len() > MAX_EXTENSIONS {
            let text =
                format!("the filter has {} extensions; the maximum is {MAX_EXTENSIONS}", filter.extensions.len());
            return Err(Error::invalid(text).into());
        }
        if !filter.extensions.is_empty() {
            condition.and_any_of("extension", filter.extensions.iter().map(|it| Value::from(it.to_lowercase())));
        }
        if let Some((sql, values)) = name_condition(&filter.name_words)? {
            condition.and(&sql, values);
        }
        // A mailbox matches if any of its messages was sent in the period.
        let (last, first) = match filter.mail_dates {
            true => ("coalesce(mail_last_ns, modified_ns) >= ?", "coalesce(mail_first_ns, modified_ns) < ?"),
            false => ("modified_ns >= ?", "modified_ns < ?"),
        };
        if filter.with_inner_names {
            condition.and("inner_names IS NOT NULL", Vec::new());
        }
        let bounds = [
            (last, filter.modified_after_ns),
            (first, filter.modified_before_ns),
            ("size >= ?", filter.min_size.map(clamp_size)),
            ("size <= ?", filter.max_size.map(clamp_size)),
        ];
        for (sql, bound) in bounds {
            condition.and_some(sql, bound.map(Value::from));
        }
        if let Some(owner) = &filter.owner {
            condition.and_any_of("uid", owners.numbers(owner).into_iter().map(Value::from));
        }
        condition.and_some("language = ?", filter.language.clone().map(Value::from));
        condition.and_some("instr(authors, ?) > 0", filter.author.as_deref().map(authors::needle).map(Value::from));
        if let Some(reason) = filter.reason {
            condition.and("reason = ?", vec![Value::Text(reason.name().into())]);
        }
        if let Some(state) = filter.state {
            condition.and(&states_condition(&[state]), Vec::new());
        }
        Ok(condition)
    }

    /// Returns whether a file matches the glob of the condition; true if there is no glob. `file` returns the root and
    /// the path of the file; it is called only if there is a glob.
    pub(in crate::catalog) fn matches_glob(
        &self,
        file: impl FnOnce() -> rusqlite::Result<(RootId, PathBuf)>,
    ) -> rusqlite::Result<bool> {
        let Some(glob) = &self.glob else { return Ok(true) };
        let (root, path) = file()?;
        Ok(glob.is_match(root, &path))
    }

    fn and(&mut self, sql: &str, values: Vec<Value>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(sql);
        self.values.extend(values);
    }

    fn and_some(&mut self, sql: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.and(sql, vec![value]);
        }
    }

    fn and_any_of(&mut self, column: &str, values: impl Iterator<Item = Value>) {
        let values: Vec<Value> = values.collect();
        let marks = vec!["?"; values.len()].join(", ");
        self.and(&format!("{column} IN ({marks})"), values);
    }
}

/// Returns the condition that the file name contains all of these words.
fn name_condition(words: &[String]) -> Result<Option<(String, Vec<Value>)>> {
    let words: BTreeSet<String> =
        words.iter().map(|it| vic_words::fold(it).into_owned()).filter(|it| !it.is_empty()).collect();
    match words.len() {
        0 => Ok(None),
        1..=MAX_NAME_WORDS => {
            // The subquery scans the small index on names once for all words, and reads no rows of the table.
            let holds = " AND instr(name, ?) > 0".repeat(words.len());
            let sql = format!("id IN (SELECT id FROM files WHERE deleted_ns IS NULL{holds})");
            Ok(Some((sql, words.into_iter().map(Value::from).collect())))
        }
        many => {
            let text = format!("a filter can have at most {MAX_NAME_WORDS} name words, not {many}");
            Err(Error::invalid(text).hint("remove some of them"))
        }
    }
}

/// Returns the condition that a file lies at or below an absolute path, which may lie inside a root or above roots.
pub(in crate::catalog) fn path_condition(db: &Transaction<'_>, path: &Path) -> rusqlite::Result<(String, Vec<Value>)> {
    // Each branch repeats `deleted_ns IS NULL`, because without it SQLite does not use the partial index on paths.
    let (mut parts, mut values) = (Vec::new(), Vec::<Value>::new());
    for root in load_roots(db)? {
        if root.path.starts_with(path) {
            parts.push("root_id = ?");
            values.push(root.id.into());
        } else if let Ok(relative) = path.strip_prefix(&root.path) {
            let (start, end) = range_below(relative);
            parts.push("(deleted_ns IS NULL AND root_id = ? AND path = ?)");
            values.extend([root.id.into(), path_bytes(relative).to_vec().into()]);
            parts.push("(deleted_ns IS NULL AND root_id = ? AND path >= ? AND path < ?)");
            values.extend([root.id.into(), start.into(), end.into()]);
        }
    }
    let sql = if parts.is_empty() { "0".into() } else { format!("({})", parts.join(" OR ")) };
    Ok((sql, values))
}

/// Returns the condition that a file has one of these states. The condition names the root first, so that SQLite uses the
/// index `files_state`, which begins with the root.
pub(in crate::catalog) fn states_condition(states: &[FileState]) -> String {
    let names: Vec<String> = states.iter().map(|it| format!("'{}'", it.name())).collect();
    format!("root_id IN (SELECT id FROM roots) AND state IN ({})", names.join(", "))
}

/// Returns the condition that a file lies in one of the folders that a scope includes.
pub(in crate::catalog) fn scope_condition(
    db: &Transaction<'_>,
    scope: &Scope,
) -> rusqlite::Result<(String, Vec<Value>)> {
    let Scope::Folders(folders) = scope else { return Ok(("1".into(), Vec::new())) };
    let (mut parts, mut values) = (vec!["0".to_string()], Vec::new());
    for folder in folders.iter() {
        let (part, more) = path_condition(db, folder)?;
        parts.push(part);
        values.extend(more);
    }
    Ok((format!("({})", parts.join(" OR ")), values))
}

/// Compiles a glob. A glob without `/` matches the file name at any depth; `*` does not match a `/`, `**` does. Case is
/// ignored.
fn compile_glob(text: &str) -> Result<GlobMatcher> {
    // Limits the length, because the glob library panics if the compiled glob becomes too large.
    if text.len() > MAX_GLOB {
        return Err(Error::invalid(format!("the glob has {} bytes; the maximum is {MAX_GLOB}", text.len())));
    }
    let anywhere = if text.contains('/') { text.trim_start_matches('/').to_string() } else { format!("**/{text}") };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).case_insensitive(true).build();
    let glob = glob.map_err(|error| Error::invalid(format!("cannot parse the glob `{text}`: {}", error.kind())))?;
    Ok(glob.compile_matcher())
}

/// Limits a size to the largest integer of SQLite.
fn clamp_size(bytes: u64) -> i64 {
    signed(bytes.min(i64::MAX as u64))
}
