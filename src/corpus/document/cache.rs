//! Memory limits for parsed documents: of the cache between requests, and of the documents of one view.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::corpus::api::error::{ApiError, ApiErrorKind, ApiResult};
use crate::corpus::document::parsed::ParsedDocument;
use crate::corpus::document::stored_passage::StoredPassage;
use crate::corpus::views::documents::Corpus;

/// Maximum bytes in the cache. Most parsed documents take tens of kilobytes, the largest take megabytes.
const CACHE_BYTES: usize = 64 << 20;

/// Maximum bytes of the documents of one view, because a verb holds all of them in memory.
const VIEW_BYTES: usize = 1 << 30;

/// A cache of parsed documents by key, limited in bytes.
pub(crate) struct DocumentCache {
    kept: HashMap<String, Arc<ParsedDocument>>,
    bytes: usize,
    capacity: usize,
}

impl Default for DocumentCache {
    fn default() -> DocumentCache {
        DocumentCache { kept: HashMap::new(), bytes: 0, capacity: CACHE_BYTES }
    }
}

impl DocumentCache {
    pub(crate) fn get(&self, key: &str) -> Option<Arc<ParsedDocument>> {
        self.kept.get(key).cloned()
    }

    /// Adds a parsed document. If the cache is full, it is cleared first; the database still has the documents.
    pub(crate) fn insert(&mut self, key: String, reading: &Arc<ParsedDocument>) {
        let bytes = parsed_document_bytes(reading);
        if bytes > self.capacity {
            return;
        }
        if self.bytes + bytes > self.capacity {
            self.kept.clear();
            self.bytes = 0;
        }
        let before = self.kept.insert(key, reading.clone());
        self.bytes = (self.bytes + bytes).saturating_sub(before.map_or(0, |it| parsed_document_bytes(&it)));
    }
}

/// The remaining memory budget for the documents of a view, in bytes.
pub(crate) struct ViewBudget {
    left: usize,
}

impl ViewBudget {
    /// Returns the whole budget, for a view whose documents are still to be loaded.
    pub(crate) fn new() -> ViewBudget {
        ViewBudget { left: VIEW_BYTES }
    }

    /// Returns the budget that is left after the documents of a view are loaded.
    pub(crate) fn remaining_for(corpus: &Corpus) -> ViewBudget {
        let taken: usize = corpus.documents.iter().map(|it| parsed_document_bytes(&it.parsed)).sum();
        ViewBudget { left: VIEW_BYTES.saturating_sub(taken) }
    }

    /// Subtracts the size of a parsed document from the remaining budget.
    ///
    /// # Errors
    /// The document does not fit in the budget; the error suggests a smaller view.
    pub(crate) fn reserve(&mut self, reading: &ParsedDocument) -> ApiResult<()> {
        self.left = self.left.checked_sub(parsed_document_bytes(reading)).ok_or_else(too_large)?;
        Ok(())
    }
}

fn too_large() -> ApiError {
    let most = VIEW_BYTES >> 30;
    ApiError::new(ApiErrorKind::TooManyDocuments, format!("the texts of the view take more than {most} GiB of memory"))
        .field("view")
        .action("name a smaller `view`, and ask about the parts one by one")
}

/// Estimates the memory of a parsed document: its texts, and a fixed overhead for each item.
fn parsed_document_bytes(reading: &ParsedDocument) -> usize {
    const EACH: usize = 128;
    let passage = |it: &StoredPassage| it.text.len() + it.section.len() + it.place.part.as_ref().map_or(0, String::len);
    let passages: usize = reading.passages.iter().map(|it| EACH + passage(it)).sum();
    let objects: usize = reading.objects.values().flatten().map(|it| EACH + fields_bytes(&it.fields)).sum();
    let links: usize = reading.links.iter().map(|it| EACH + it.target.len()).sum();
    let stated: usize = reading.stated.iter().map(|(key, (value, _))| EACH + key.len() + value.len()).sum();
    let terms: usize = reading.terms.keys().map(|it| EACH / 2 + it.len()).sum();
    EACH + passages + objects + links + stated + terms
}

fn value_bytes(value: &Value) -> usize {
    let beside = match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(value_bytes).sum(),
        Value::Object(fields) => fields_bytes(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + beside
}

fn fields_bytes(fields: &Map<String, Value>) -> usize {
    // Overhead in bytes of one field: a key and its slot in the map.
    const EACH: usize = 64;
    fields.iter().map(|(name, value)| EACH + name.len() + value_bytes(value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::tests::reading;

    fn document_of_words(words: usize) -> Arc<ParsedDocument> {
        Arc::new(reading("a.txt", "word ".repeat(words).as_bytes()))
    }

    #[test]
    fn cache_evicts_when_bytes_exceed_limit() {
        let (small, large) = (document_of_words(10), document_of_words(10_000));
        assert!(
            parsed_document_bytes(&large) > 50_000 && parsed_document_bytes(&small) < 5_000,
            "{} {}",
            parsed_document_bytes(&large),
            parsed_document_bytes(&small)
        );
        let most = parsed_document_bytes(&large) + 2 * parsed_document_bytes(&small);
        let mut memory = DocumentCache { capacity: most, ..DocumentCache::default() };
        for key in ["a", "b", "a", "a", "a"] {
            memory.insert(key.into(), &small);
        }
        memory.insert("large".into(), &large);
        let known = |memory: &DocumentCache| ["a", "b", "large", "other"].map(|it| memory.get(it).is_some());
        assert_eq!(known(&memory), [true, true, true, false], "the same document is counted once");
        memory.insert("other".into(), &large);
        assert_eq!(known(&memory), [false, false, false, true]);
        memory.insert("huge".into(), &document_of_words(100_000));
        assert_eq!(known(&memory), [false, false, false, true], "an oversized document evicts nothing");
        assert!(memory.get("huge").is_none());
    }

    #[test]
    fn view_over_memory_limit_is_rejected_with_action() {
        let one = document_of_words(1_000);
        let mut room = ViewBudget { left: 2 * parsed_document_bytes(&one) };
        assert_eq!((room.reserve(&one), room.reserve(&one)), (Ok(()), Ok(())));
        let refusal = room.reserve(&one).unwrap_err();
        assert_eq!((refusal.kind, refusal.field.as_deref()), (ApiErrorKind::TooManyDocuments, Some("view")));
        assert!(refusal.actions[0].contains("a smaller `view`"), "{refusal:?}");
    }
}
