//! Corrects typing errors in words that a file name must contain: `agreemant` becomes `agreement` if no file name contains the
//! first, and a name of the listed files contains the second.
//!
//! The rules for a word and its correction are those of [`crate::ask::typing_errors`]. A file name contains a word also inside
//! a longer one, as lists of files match it.

use crate::ask::asker::Asker;
use crate::ask::typing_errors::{MAX_WORDS, is_correctable};
use crate::error::Result;
use crate::index::blocking;
use crate::model::FileFilter;

/// Maximum number of similar words that are looked for in the names of listed files: a similar word may be in the name of a
/// folder only, or of an attachment. Each costs a comparison with the names of all files.
const MAX_SIMILAR: usize = 4;

impl Asker {
    /// Returns the filter with its mistyped name words corrected, and a warning for each of them; `None` if no word can be
    /// corrected. The caller has found that no file matches the filter.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub async fn correct_name_words(&self, filter: &FileFilter) -> Result<Option<(FileFilter, Vec<String>)>> {
        let mut suspects = Vec::new();
        for (place, word) in filter.name_words.iter().enumerate() {
            let plain = vic_words::fold(word).into_owned();
            if suspects.len() < MAX_WORDS && self.is_mistyped_name(&plain).await? {
                suspects.push((place, plain));
            }
        }
        if suspects.is_empty() {
            return Ok(None);
        }
        let mut corrected = filter.clone();
        let mut warnings = Vec::new();
        for (place, word) in suspects {
            if let Some(right) = self.most_similar_name_word(&word, filter).await? {
                warnings.push(format!("no file name contains `{word}`: searched for `{right}`"));
                corrected.name_words[place] = right;
            }
        }
        Ok((!warnings.is_empty()).then_some((corrected, warnings)))
    }

    /// Whether a folded word can be mistyped, and no name of a file that the caller may see contains it.
    async fn is_mistyped_name(&self, word: &str) -> Result<bool> {
        let is_word = || self.index.serving().embedder.is_some_and(|it| it.is_word(word));
        if !is_correctable(word) || is_word() {
            return Ok(false);
        }
        let all = FileFilter { scope: self.scope.clone(), ..FileFilter::default() };
        Ok(!self.has_name_with(word, all).await?)
    }

    /// Returns the word most similar to `word` among those in the names of the files that match the other conditions of a
    /// filter.
    async fn most_similar_name_word(&self, word: &str, filter: &FileFilter) -> Result<Option<String>> {
        let others = FileFilter { name_words: Vec::new(), scope: self.scope.clone(), ..filter.clone() };
        let files = self.allowed_files(&others).await?;
        for near in self.similar_name_words(word, &files, MAX_SIMILAR).await? {
            if self.has_name_with(&near, others.clone()).await? {
                return Ok(Some(near));
            }
        }
        Ok(None)
    }

    /// Whether the name of a file that matches a filter contains a word.
    async fn has_name_with(&self, word: &str, filter: FileFilter) -> Result<bool> {
        let (catalog, filter) = (self.catalog.clone(), FileFilter { name_words: vec![word.to_string()], ..filter });
        blocking(move || Ok(catalog.search(&filter, 1, 0)?.1 > 0)).await
    }
}
