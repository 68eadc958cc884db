//! A view that was read: what the verbs work on. Everything here is in memory, and in a fixed order.

use std::sync::Arc;

use serde_json::Value;

use crate::contract::reading::Reading;
use crate::contract::refusal::{Cause, Outcome, Refusal};
use crate::model::{ContentHash, FileId};

/// One document of a view.
#[derive(Clone, Debug)]
pub(crate) struct Paper {
    pub(crate) file: FileId,
    /// Path below its root.
    pub(crate) path: String,
    pub(crate) modified_ns: i64,
    pub(crate) size: u64,
    pub(crate) hash: ContentHash,
    pub(crate) reading: Arc<Reading>,
}

/// A document of a view that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) file: FileId,
    pub(crate) path: String,
    /// Why, as the catalog names it, or `gone`.
    pub(crate) reason: String,
}

/// A view with its documents by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Corpus {
    /// The view as the envelope names it.
    pub(crate) view: Value,
    pub(crate) papers: Vec<Paper>,
    pub(crate) unread: Vec<Unread>,
    /// Documents of a session that have changed or gone and are shown as they were.
    pub(crate) kept: Vec<FileId>,
    /// Documents of a session that have changed, and of which nothing older is left.
    pub(crate) changed: Vec<FileId>,
}

impl Corpus {
    /// Documents of the view, read or not.
    pub(crate) fn total(&self) -> usize {
        self.papers.len() + self.unread.len()
    }

    /// The share of them that was read.
    pub(crate) fn coverage(&self) -> f64 {
        match self.total() {
            0 => 0.0,
            total => self.papers.len() as f64 / total as f64,
        }
    }

    /// The document of a number, or of a path or the end of one.
    pub(crate) fn paper(&self, given: &Value, field: &str) -> Outcome<&Paper> {
        let found: Vec<&Paper> = match given {
            Value::Number(number) => self.papers.iter().filter(|it| Some(it.file) == number.as_i64()).collect(),
            Value::String(text) => self.named(text),
            _ => Vec::new(),
        };
        match found.as_slice() {
            [one] => Ok(one),
            [] => Err(self.missing(given, field)),
            several => {
                let numbers: Vec<String> = several.iter().map(|it| it.file.to_string()).take(10).collect();
                Err(Refusal::new(Cause::Ambiguous, format!("`{field}` fits {} documents: which?", several.len()))
                    .field(field)
                    .action(format!("give one of the numbers {}", numbers.join(", "))))
            }
        }
    }

    fn named(&self, text: &str) -> Vec<&Paper> {
        if let Ok(number) = text.parse::<FileId>() {
            return self.papers.iter().filter(|it| it.file == number).collect();
        }
        let exact: Vec<&Paper> = self.papers.iter().filter(|it| it.path == text).collect();
        if !exact.is_empty() {
            return exact;
        }
        let ends = |it: &&Paper| {
            let (long, short) =
                if it.path.len() >= text.len() { (it.path.as_str(), text) } else { (text, it.path.as_str()) };
            long.ends_with(short) && long[..long.len() - short.len()].ends_with('/')
        };
        self.papers.iter().filter(ends).collect()
    }

    fn missing(&self, given: &Value, field: &str) -> Refusal {
        let shown = given.as_str().map_or_else(|| given.to_string(), str::to_string);
        if let Some(unread) = self.unread.iter().find(|it| it.path == shown || it.file.to_string() == shown) {
            return Refusal::new(
                Cause::UnknownFile,
                format!("document {} could not be read: {}", unread.file, unread.reason),
            )
            .field(field)
            .action(format!("EXPLAIN_FAILURE url_id={}", unread.file));
        }
        let paths: Vec<&str> = self.papers.iter().map(|it| it.path.as_str()).collect();
        let refusal = Refusal::new(
            Cause::UnknownFile,
            format!("the view holds no document `{}`", crate::contract::words::short(&shown, 60)),
        );
        match crate::contract::refusal::nearest(&shown, &paths) {
            Some(near) => refusal.field(field).action(format!("did you mean `{near}`?")),
            None => refusal.field(field).action("QUERY lists the documents of a view"),
        }
    }
}
