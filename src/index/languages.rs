//! The languages of the indexed text, from a sample of the chunks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::model::{FileId, StoredChunk};
use crate::store::{FileSet, Store};
use crate::text::detect_language;

/// Files in a sample.
const FILES: usize = 64;
/// Chunks in a sample: the share of a language is then within about five percent.
const CHUNKS: usize = 400;
/// Chunks of a file that are looked at, so that no file dominates.
const CHUNKS_PER_FILE: u32 = 8;
/// Files with more chunks are left out if there are others, because their chunks are all read.
const MAX_FILE_CHUNKS: u64 = 100;
/// A sample is taken again when the number of chunks has changed by this fraction.
const CHANGE: f64 = 0.2;

/// The latest sample.
#[derive(Debug, Default)]
pub(crate) struct LanguageSample(Mutex<Option<Taken>>);

#[derive(Clone, Debug)]
struct Taken {
    /// Number of chunks of the index when the sample was taken.
    chunks: u64,
    counts: BTreeMap<String, u64>,
}

impl LanguageSample {
    /// Returns the latest sample if the index had about this many chunks then.
    pub(super) fn recent(&self, chunks: u64) -> Option<BTreeMap<String, u64>> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let change = (chunks as f64 - taken.chunks as f64).abs();
        (change <= taken.chunks as f64 * CHANGE).then_some(taken.counts)
    }

    pub(super) fn keep(&self, chunks: u64, counts: BTreeMap<String, u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Taken { chunks, counts });
    }
}

/// Counts the chunks of a sample by language (ISO 639-1).
///
/// # Errors
/// The store cannot be read.
pub(super) async fn count_languages(store: &dyn Store) -> Result<BTreeMap<String, u64>> {
    let mut files = spread(store.rows_by_file());
    files.sort_unstable();
    let (mut counts, mut seen, mut seen_of_file) = (BTreeMap::new(), 0, BTreeMap::new());
    let mut count = |stored: StoredChunk| {
        let of_file = seen_of_file.entry(stored.file_id).or_insert(0);
        *of_file += 1;
        if *of_file > CHUNKS_PER_FILE {
            return true;
        }
        if let Some(language) = detect_language(&stored.chunk.text) {
            *counts.entry(language.to_string()).or_insert(0) += 1;
        }
        seen += 1;
        seen < CHUNKS
    };
    store.scan(&FileSet::Only(files.into()), &mut count).await?;
    Ok(counts)
}

/// Returns files from all parts of the list, so that no folder dominates.
fn spread(rows: BTreeMap<FileId, u64>) -> Vec<FileId> {
    let small: Vec<FileId> = rows.iter().filter(|it| *it.1 <= MAX_FILE_CHUNKS).map(|it| *it.0).collect();
    let files = if small.is_empty() { rows.into_keys().take(1).collect() } else { small };
    let step = files.len().div_ceil(FILES).max(1);
    files.into_iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_taken_again_after_a_large_change() {
        let sample = LanguageSample::default();
        assert_eq!(sample.recent(0), None);
        sample.keep(100, [("de".to_string(), 3)].into());
        assert!(sample.recent(119).is_some() && sample.recent(80).is_some());
        assert!(sample.recent(121).is_none() && sample.recent(79).is_none());
        sample.keep(0, BTreeMap::new());
        assert!(sample.recent(0).is_some() && sample.recent(1).is_none());
    }

    #[test]
    fn files_of_sample_are_spread_and_small() {
        let rows = |sizes: &[u64]| sizes.iter().zip(1..).map(|(rows, id)| (id, *rows)).collect();
        assert_eq!(spread(rows(&[5, 900, 5])), [1, 3]);
        assert_eq!(spread(rows(&[900, 901])), [1]);
        assert!(spread(rows(&[])).is_empty());
        let many = spread(rows(&[1; 1_000]));
        assert!(many.len() <= FILES && many.last() > Some(&900), "{many:?}");
    }
}
