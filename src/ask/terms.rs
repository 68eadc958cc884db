//! Filters files by the required and excluded terms of a question: `"exact phrase"`, `+word`, `-word`.
//!
//! The filter runs before the best passages are chosen, so that a limit cannot lose a file. First the keyword index selects
//! files by word stems; then the passages of these files are read and compared word for word, ignoring case. A term may be
//! in any passage (with title and headings) or name of a file, but a phrase must be in one of them as a whole.

use std::collections::{HashMap, HashSet};

use crate::ask::{numbers, word_runs};
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::index::blocking;
use crate::model::{FileFilter, FileId};
use crate::planner::syntax;
use crate::store::{FileSet, Store};

/// Maximum number of terms in one question, because each term is a bit of a `u64`; more terms are an error.
const MAX_TERMS: usize = 64;

/// The required and excluded terms of a question; each term is a run of normalized words.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Terms {
    required: Vec<Vec<String>>,
    excluded: Vec<Vec<String>>,
    description: String,
}

impl Terms {
    /// Parses the terms of a question as the user typed it.
    ///
    /// # Errors
    /// There are more than `MAX_TERMS` terms.
    pub(crate) fn parse(question: &str) -> Result<Terms> {
        let syntax = syntax::parse(question);
        let mut shown = Vec::new();
        let mut runs = |verb: &str, texts: &mut dyn Iterator<Item = &String>| {
            let (found, texts): (Vec<Vec<String>>, Vec<String>) = texts
                .map(|it| (word_runs::phrase_words(it), format!("\"{}\"", it.trim())))
                .filter(|it| !it.0.is_empty())
                .unzip();
            shown.extend(Some(format!("{verb} {}", texts.join(", "))).filter(|_| !found.is_empty()));
            found
        };
        let required = runs("holds", &mut syntax.phrases.iter().chain(&syntax.must));
        let excluded = runs("without", &mut syntax.must_not.iter());
        let terms = Terms { required, excluded, description: shown.join(", ") };
        if terms.required.len() + terms.excluded.len() > MAX_TERMS {
            return Err(Error::invalid(format!(
                "the question has more than {MAX_TERMS} words with `+`, `-` or quotes"
            )));
        }
        Ok(terms)
    }

    /// Returns whether there are no terms.
    pub(crate) fn is_empty(&self) -> bool {
        self.required.is_empty() && self.excluded.is_empty()
    }

    /// Describes the terms for the reasoning of a hit; empty if the question has none.
    pub(crate) fn describe(&self) -> &str {
        &self.description
    }

    /// Returns a bit mask of the required terms that a text contains, and whether it contains an excluded term.
    fn match_text(&self, text: &str) -> (u64, bool) {
        let words = word_runs::phrase_words(text);
        let stands = |run: &Vec<String>| words.windows(run.len()).any(|it| it == &run[..]);
        let bits = (0..).zip(&self.required).filter(|(_, run)| stands(run)).fold(0, |bits, (bit, _)| bits | 1 << bit);
        (bits, self.excluded.iter().any(stands))
    }
}

/// Returns those of `files` that contain all required terms and no excluded term.
pub(crate) async fn filter_files(
    store: &dyn Store,
    catalog: &Catalog,
    files: FileSet,
    terms: &Terms,
) -> Result<FileSet> {
    if terms.is_empty() {
        return Ok(files);
    }
    let (required, excluded) =
        (files_by_name(catalog, &terms.required).await?, files_by_name(catalog, &terms.excluded).await?);
    let mut scope = files.clone();
    for (run, called) in terms.required.iter().zip(&required) {
        if let Some(mut found) = files_with(store, run, &scope).await? {
            found.extend(called.iter().copied().filter(|it| scope.contains(*it)));
            found.sort_unstable();
            scope = FileSet::Only(found.into());
        }
    }
    if terms.required.is_empty() {
        scope = files_maybe_excluded(store, &files, terms).await?;
    }
    let mut seen: HashMap<FileId, (u64, bool)> = HashMap::new();
    store
        .scan(&scope, &mut |stored| {
            let (bits, excluded) = terms.match_text(&stored.chunk.text);
            let entry = seen.entry(stored.file_id).or_default();
            *entry = (entry.0 | bits, entry.1 || excluded);
            true
        })
        .await?;
    for (bit, called) in (0..).zip(&required) {
        let called = called.iter().filter(|it| files.contains(**it));
        called.for_each(|it| seen.entry(*it).or_default().0 |= 1 << bit);
    }
    excluded.iter().flatten().for_each(|it| seen.entry(*it).or_default().1 = true);
    let all = if terms.required.len() == MAX_TERMS { u64::MAX } else { (1 << terms.required.len()) - 1 };
    let mut ids: Vec<FileId> = if terms.required.is_empty() {
        let excluded: HashSet<FileId> = seen.iter().filter(|(_, it)| it.1).map(|(id, _)| *id).collect();
        let ids = match files {
            FileSet::Only(ids) => ids.to_vec(),
            FileSet::All => {
                let catalog = catalog.clone();
                blocking(move || catalog.select(&FileFilter::default())).await?
            }
        };
        ids.into_iter().filter(|it| !excluded.contains(it)).collect()
    } else {
        seen.into_iter().filter(|(_, (bits, excluded))| *bits == all && !excluded).map(|(id, _)| id).collect()
    };
    ids.sort_unstable();
    Ok(FileSet::Only(ids.into()))
}

/// Returns, for each of these terms, the files that have the term in their names.
async fn files_by_name(catalog: &Catalog, runs: &[Vec<String>]) -> Result<Vec<Vec<FileId>>> {
    let (catalog, runs) = (catalog.clone(), runs.to_vec());
    blocking(move || runs.iter().map(|it| catalog.with_name_phrase(it)).collect()).await
}

/// Returns those of `files` that the keyword index lists for a term, sorted. Returns `None` if the index cannot decide,
/// and the text of the files must be searched: the index may lack the words (`to be`), or a number may have too many
/// notations.
async fn files_with(store: &dyn Store, run: &[String], files: &FileSet) -> Result<Option<Vec<FileId>>> {
    let mut found = Vec::new();
    for words in numbers::index_words(run).unwrap_or_default() {
        found.extend(store.files_with(&vic_words::required_words(&words), files).await?);
    }
    found.sort_unstable();
    found.dedup();
    Ok(Some(found).filter(|it| !it.is_empty()))
}

/// Returns the files that, according to the keyword index, may contain an excluded term; all `files` if the index cannot
/// decide.
async fn files_maybe_excluded(store: &dyn Store, files: &FileSet, terms: &Terms) -> Result<FileSet> {
    let mut suspects: Vec<FileId> = Vec::new();
    for run in &terms.excluded {
        match files_with(store, run, files).await? {
            Some(found) => suspects.extend(found),
            None => return Ok(files.clone()),
        }
    }
    suspects.sort_unstable();
    suspects.dedup();
    Ok(FileSet::Only(suspects.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, text: &str) -> bool {
        let terms = Terms::parse(question).unwrap();
        let (bits, excluded) = terms.match_text(text);
        bits.count_ones() as usize == terms.required.len() && !excluded
    }

    #[test]
    fn phrase_matches_across_case_and_punctuation() {
        assert!(check("\"quince jelly\" recipe", "A recipe for Quince-Jelly."));
        assert!(!check("\"quince jelly\" recipe", "A recipe for a jelly of quince."));
        assert!(check("\"to be or not\"", "To be, or not to be"));
    }

    #[test]
    fn plus_requires_and_minus_excludes_a_word() {
        assert!(check("+harbour budget", "The harbour."));
        assert!(!check("+harbour budget", "The harbours."));
        assert!(!check("budget -draft", "A draft budget"));
        assert!(check("budget -draft", "The final budget, after drafts"));
        assert!(check("e-mail budget", "anything at all"));
    }

    #[test]
    fn shown_lists_required_and_excluded_terms() {
        let terms = Terms::parse("\"old quay\" +lease -draft notice").unwrap();
        assert_eq!(terms.describe(), "holds \"old quay\", \"lease\", without \"draft\"");
        assert_eq!(Terms::parse("plain words").unwrap(), Terms::default());
        assert_eq!(Terms::parse("\"复印件\"").unwrap().describe(), "holds \"复印件\"");
    }
}
