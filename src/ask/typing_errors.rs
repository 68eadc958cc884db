//! Corrects typing errors in words of a question that occur in no file: `recieve` becomes `receive` if a file has that word.
//!
//! A word counts only as mistyped if neither a text nor a name of the searched files contains it, and if the vocabulary of the
//! embedding model lacks it: `bought` is no mistyped `brought`. The correction is the most similar word of the files; a
//! warning names it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;
use vic_words::Language;

use crate::ask::asker::Asker;
use crate::ask::hit::RankedHit;
use crate::ask::question::Question;
use crate::ask::{excerpt, word_runs};
use crate::catalog::name_words;
use crate::error::Result;
use crate::index::{ServingTable, blocking};
use crate::store::{FileSet, KeywordQuery};

/// Minimum length of a corrected word in characters. Shorter words resemble too many others.
const MIN_LETTERS: usize = 5;
/// Maximum length of a corrected word in characters: the search for similar terms takes no long ones.
const MAX_LETTERS: usize = 32;
/// Minimum length of a word in which two characters may be wrong.
const MIN_LETTERS_FOR_TWO: usize = 8;
/// Maximum number of words of a question that are corrected; each costs two searches.
pub(super) const MAX_WORDS: usize = 3;
/// Maximum number of similar words of names that are looked up among the searched files.
const MAX_NAME_WORDS: usize = 20;
/// Number of passages in which similar words are looked for.
const PASSAGES: usize = 20;

impl Asker {
    /// Returns the question with its mistyped words corrected, and a warning; `None` if nothing is to be corrected, or if the
    /// question requires or excludes words, which stay as they are typed.
    pub(super) async fn correct_typing_errors(
        &self,
        served: &ServingTable,
        question: &Question,
        hits: &[RankedHit],
    ) -> Result<Option<Question>> {
        let Some(text) = question.text().filter(|_| question.terms.is_empty()) else { return Ok(None) };
        let Some(model) = served.embedder.as_ref() else { return Ok(None) };
        let shows = |hit: &RankedHit, word: &String| {
            let text = hit.evidence.as_ref().map_or("", |it| it.chunk.text.as_str());
            !excerpt::words_present(std::slice::from_ref(word), text).is_empty()
        };
        // These checks are cheap; each word that passes them costs a search.
        let is_suspect =
            |word: &&String| is_correctable(word) && !model.is_word(word) && !hits.iter().any(|it| shows(it, word));
        let suspects: Vec<&String> = question.words.iter().filter(is_suspect).take(MAX_WORDS).collect();
        if suspects.is_empty() || self.is_in_other_language(text).await {
            return Ok(None);
        }
        let files = self.allowed_files(&question.filter).await?;
        let mut corrections = HashMap::new();
        for word in suspects {
            if let Some(right) = self.most_similar_word(served, word, &files).await? {
                corrections.insert(word.clone(), right);
            }
        }
        let (right, replaced) = replace_words(text, &corrections);
        if replaced.is_empty() {
            return Ok(None);
        }
        let mut corrected = question.clone();
        corrected.words = excerpt::content_words(&right);
        corrected.plan.l1_query_text = Some(right);
        let told =
            replaced.iter().map(|it| format!("no searched file contains `{it}`: searched for `{}`", corrections[it]));
        corrected.warnings.extend(told);
        Ok(Some(corrected))
    }

    /// Whether a text is in a language that no file is in: its words are not mistyped words of the files.
    async fn is_in_other_language(&self, text: &str) -> bool {
        let words: Vec<String> = text.unicode_words().map(|it| vic_words::fold(it).into_owned()).collect();
        let own = Language::detect_question(words.iter().map(String::as_str), &Language::ALL);
        let languages = self.languages.current(&self.catalog).await;
        own.is_some_and(|it| !languages.contains(&it))
    }

    /// Returns the word of the files that resembles a word most; `None` if a file has the word itself, or none is similar.
    async fn most_similar_word(&self, served: &ServingTable, word: &str, files: &FileSet) -> Result<Option<String>> {
        let query = KeywordQuery { terms: vic_words::question_terms(word, &Language::ALL) };
        if !served.store.keyword_leg(&query, files, 1).await?.is_empty() || self.is_in_name(word, files).await? {
            return Ok(None);
        }
        let mut counts: HashMap<String, usize> = HashMap::new();
        for term in vic_words::question_terms(word, &[Language::English]) {
            let found = served.store.chunks_with_similar_term(&term, files, PASSAGES).await?;
            let keys: Vec<_> = found.into_iter().map(|it| (it.file_id, it.chunk_id)).collect();
            for stored in served.store.chunks(&keys).await? {
                let plain = word_runs::normalize(&stored.chunk.text);
                word_runs::split_words(&plain).for_each(|it| *counts.entry(it.to_string()).or_default() += 1);
            }
        }
        if let Some(best) = by_similarity(word, counts).into_iter().next() {
            return Ok(Some(best));
        }
        Ok(self.similar_name_words(word, files, 1).await?.into_iter().next())
    }

    /// Returns up to `limit` words of the names of these files that resemble a word, the most similar first.
    pub(super) async fn similar_name_words(&self, word: &str, files: &FileSet, limit: usize) -> Result<Vec<String>> {
        let (catalog, wanted) = (self.catalog.clone(), word.to_string());
        let near = move || {
            let names = catalog.name_words_like(&wanted)?;
            Ok(by_similarity(&wanted, names.into_iter().map(|it| (it, 1))))
        };
        // A word may be in names of files outside the scope of the caller, which must not show that they exist.
        let mut found = Vec::new();
        for near in blocking(near).await?.into_iter().take(MAX_NAME_WORDS) {
            if self.is_in_name(&near, files).await? {
                found.push(near);
            }
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    async fn is_in_name(&self, word: &str, files: &FileSet) -> Result<bool> {
        let (catalog, words) = (self.catalog.clone(), name_words(word));
        let among: Option<Arc<_>> = match files {
            FileSet::All => None,
            FileSet::Only(files) => Some(files.clone()),
        };
        blocking(move || Ok(!catalog.find_by_name(&words, among.as_deref().map(|it| &it[..]), 1)?.is_empty())).await
    }
}

/// Whether a folded word can be mistyped: letters of a script with small and capital letters.
pub(super) fn is_correctable(word: &str) -> bool {
    (MIN_LETTERS..=MAX_LETTERS).contains(&word.chars().count()) && word.chars().all(char::is_lowercase)
}

/// Returns the words that resemble `word`, the most similar first, of equally similar ones the most frequent.
fn by_similarity(word: &str, counts: impl IntoIterator<Item = (String, usize)>) -> Vec<String> {
    let letters = word.chars().count();
    let most = if letters < MIN_LETTERS_FOR_TWO { 1 } else { 2 };
    let near = counts.into_iter().filter_map(|(other, count)| {
        let is_candidate =
            other.chars().next() == word.chars().next() && other.chars().count().abs_diff(letters) <= most;
        let edits = is_candidate.then(|| strsim::osa_distance(word, &other)).filter(|it| (1..=most).contains(it))?;
        Some((edits, Reverse(count), other))
    });
    let mut near: Vec<_> = near.collect();
    near.sort_unstable();
    near.into_iter().map(|it| it.2).collect()
}

/// Replaces whole words of a text. The keys of `corrections` are folded words. Returns also those that were replaced.
fn replace_words(text: &str, corrections: &HashMap<String, String>) -> (String, BTreeSet<String>) {
    let (mut right, mut replaced) = (String::with_capacity(text.len()), BTreeSet::new());
    for piece in text.split_word_bounds() {
        match corrections.get_key_value(vic_words::fold(piece).as_ref()) {
            Some((word, correction)) => {
                right.push_str(correction);
                replaced.insert(word.clone());
            }
            None => right.push_str(piece),
        }
    }
    (right, replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, others: &[(&str, usize)], expected: Option<&str>) {
        let counts = others.iter().map(|(other, count)| ((*other).to_string(), *count));
        assert_eq!(by_similarity(word, counts).first().map(String::as_str), expected, "{word}");
    }

    #[test]
    fn most_similar_word_is_near_and_frequent() {
        check("recieve", &[("receive", 1), ("relieve", 9)], Some("relieve"));
        check("calender", &[("calendar", 2), ("lender", 9), ("calendars", 1)], Some("calendar"));
        check("agreemant", &[("agreement", 1), ("agreements", 50)], Some("agreement"));
        check("mooring", &[("mooring", 3)], None);
        check("rent", &[("xent", 1)], None);
        check("house", &[("mouse", 1), ("horses", 1)], None);
    }

    #[test]
    fn only_words_of_scripts_with_case_are_corrected() {
        for (word, expected) in
            [("recieve", true), ("елкаа", true), ("five5", false), ("note", false), ("复印件复印", false)]
        {
            assert_eq!(is_correctable(word), expected, "{word}");
        }
        let corrections = HashMap::from([("recieve".to_string(), "receive".to_string())]);
        let (right, replaced) = replace_words("Did we Recieve it, recieved?", &corrections);
        assert_eq!((right.as_str(), replaced.len()), ("Did we receive it, recieved?", 1));
        assert!(replace_words("report_recieve", &corrections).1.is_empty());
        assert!(!is_correctable(&"recieve".repeat(5)));
    }
}
