//! The languages of the indexed files, in which the words of a question are looked for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vic_words::Language;

use crate::catalog::Catalog;

/// The languages are counted again after this time.
const MAX_AGE: Duration = Duration::from_secs(60);
/// A language counts if at least one in this many files is in it. Each further language adds stems of its own, which find
/// unrelated words of other languages: with the stems of all 18 languages, nDCG@10 of keyword search alone is 0.015 lower
/// on English collections.
const MIN_SHARE: u64 = 50;

/// The languages of the files, counted once a minute. Clones share the count.
#[derive(Clone, Default)]
pub(super) struct CorpusLanguages(Arc<Mutex<Option<Counted>>>);

/// The languages and when they were counted.
#[derive(Clone)]
struct Counted {
    at: Instant,
    languages: Vec<Language>,
}

impl CorpusLanguages {
    /// Returns the languages of the files, or all languages while none is known.
    pub(super) async fn current(&self, catalog: &Catalog) -> Vec<Language> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(counted) = known.filter(|it| it.at.elapsed() < MAX_AGE) {
            return counted.languages;
        }
        let counted = catalog.clone();
        let counts = crate::index::blocking(move || counted.languages()).await.unwrap_or_default();
        let languages = select_frequent(&counts);
        if !counts.is_empty() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Counted { at: Instant::now(), languages: languages.clone() });
        }
        languages
    }
}

fn select_frequent(counts: &[(Language, u64)]) -> Vec<Language> {
    let all: u64 = counts.iter().map(|it| it.1).sum();
    let frequent: Vec<Language> = counts.iter().filter(|it| it.1 * MIN_SHARE >= all).map(|it| it.0).collect();
    if frequent.is_empty() { Language::ALL.to_vec() } else { frequent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_languages_are_left_out() {
        let counts = [(Language::German, 980), (Language::English, 20), (Language::Danish, 3)];
        assert_eq!(select_frequent(&counts), [Language::German]);
        assert_eq!(select_frequent(&counts[..2]), [Language::German, Language::English]);
        assert_eq!(select_frequent(&[]), Language::ALL);
    }
}
