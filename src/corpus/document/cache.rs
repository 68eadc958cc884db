//! Memory limits for parsed documents: the cache between requests, and the documents of one view.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::corpus::api::error::{Cause, Outcome, Refusal};
use crate::corpus::document::parsed::{Kept, Reading};
use crate::corpus::views::documents::Corpus;

/// Byte limit of the cache. Most parsed documents take tens of kilobytes, the largest take megabytes.
const MOST_KEPT: usize = 64 << 20;

/// Byte limit of one view: a verb holds all of its documents in memory.
const MOST_OF_VIEW: usize = 1 << 30;

/// A cache of parsed documents by key, bounded by bytes.
pub(crate) struct Memory {
    kept: HashMap<String, Arc<Reading>>,
    bytes: usize,
    most: usize,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { kept: HashMap::new(), bytes: 0, most: MOST_KEPT }
    }
}

impl Memory {
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Reading>> {
        self.kept.get(key).cloned()
    }

    /// Adds a parsed document. When the cache is full it is cleared; the database still has the documents.
    pub(crate) fn remember(&mut self, key: String, reading: &Arc<Reading>) {
        let bytes = bytes_of_reading(reading);
        if bytes > self.most {
            return;
        }
        if self.bytes + bytes > self.most {
            self.kept.clear();
            self.bytes = 0;
        }
        let before = self.kept.insert(key, reading.clone());
        self.bytes = (self.bytes + bytes).saturating_sub(before.map_or(0, |it| bytes_of_reading(&it)));
    }
}

/// The remaining byte budget of a view.
pub(crate) struct Room {
    left: usize,
}

impl Room {
    /// The budget of an empty view.
    pub(crate) fn for_view() -> Room {
        Room { left: MOST_OF_VIEW }
    }

    /// The budget that the documents of a view leave.
    pub(crate) fn beside(corpus: &Corpus) -> Room {
        let taken: usize = corpus.papers.iter().map(|it| bytes_of_reading(&it.reading)).sum();
        Room { left: MOST_OF_VIEW.saturating_sub(taken) }
    }

    /// Subtracts the size of a parsed document.
    ///
    /// # Errors
    /// The budget is exceeded; the error says what to do.
    pub(crate) fn take(&mut self, reading: &Reading) -> Outcome<()> {
        self.left = self.left.checked_sub(bytes_of_reading(reading)).ok_or_else(too_large)?;
        Ok(())
    }
}

fn too_large() -> Refusal {
    let most = MOST_OF_VIEW >> 30;
    Refusal::new(Cause::TooManyDocuments, format!("the texts of the view take more than {most} GiB of memory"))
        .field("view")
        .action("name a smaller `view`, and ask about the parts one by one")
}

/// The approximate memory of a parsed document: its texts, and a fixed overhead for each item.
fn bytes_of_reading(reading: &Reading) -> usize {
    const EACH: usize = 128;
    let passage = |it: &Kept| it.text.len() + it.section.len() + it.place.part.as_ref().map_or(0, String::len);
    let passages: usize = reading.passages.iter().map(|it| EACH + passage(it)).sum();
    let objects: usize = reading.objects.values().flatten().map(|it| EACH + bytes_of_fields(&it.fields)).sum();
    let links: usize = reading.links.iter().map(|it| EACH + it.target.len()).sum();
    let stated: usize = reading.stated.iter().map(|(key, (value, _))| EACH + key.len() + value.len()).sum();
    let terms: usize = reading.terms.keys().map(|it| EACH / 2 + it.len()).sum();
    EACH + passages + objects + links + stated + terms
}

fn bytes_of(value: &Value) -> usize {
    let beside = match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(bytes_of).sum(),
        Value::Object(fields) => bytes_of_fields(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + beside
}

fn bytes_of_fields(fields: &Map<String, Value>) -> usize {
    // A key with its slot in the table.
    const EACH: usize = 64;
    fields.iter().map(|(name, value)| EACH + name.len() + bytes_of(value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::tests::reading;

    fn of(words: usize) -> Arc<Reading> {
        Arc::new(reading("a.txt", "word ".repeat(words).as_bytes()))
    }

    #[test]
    fn cache_evicts_when_bytes_exceed_limit() {
        let (small, large) = (of(10), of(10_000));
        assert!(
            bytes_of_reading(&large) > 50_000 && bytes_of_reading(&small) < 5_000,
            "{} {}",
            bytes_of_reading(&large),
            bytes_of_reading(&small)
        );
        let most = bytes_of_reading(&large) + 2 * bytes_of_reading(&small);
        let mut memory = Memory { most, ..Memory::default() };
        for key in ["a", "b", "a", "a", "a"] {
            memory.remember(key.into(), &small);
        }
        memory.remember("large".into(), &large);
        let known = |memory: &Memory| ["a", "b", "large", "other"].map(|it| memory.get(it).is_some());
        assert_eq!(known(&memory), [true, true, true, false], "the same document is counted once");
        memory.remember("other".into(), &large);
        assert_eq!(known(&memory), [false, false, false, true]);
        memory.remember("huge".into(), &of(100_000));
        assert_eq!(known(&memory), [false, false, false, true], "an oversized document evicts nothing");
        assert!(memory.get("huge").is_none());
    }

    #[test]
    fn view_over_memory_limit_is_rejected_with_action() {
        let one = of(1_000);
        let mut room = Room { left: 2 * bytes_of_reading(&one) };
        assert_eq!((room.take(&one), room.take(&one)), (Ok(()), Ok(())));
        let refusal = room.take(&one).unwrap_err();
        assert_eq!((refusal.cause, refusal.field.as_deref()), (Cause::TooManyDocuments, Some("view")));
        assert!(refusal.actions[0].contains("a smaller `view`"), "{refusal:?}");
    }
}
