//! Analysis of text for keyword search: the same words for every store.

use lance_index::scalar::inverted::query::collect_query_tokens;
use lance_index::scalar::inverted::tokenizer::document_tokenizer::LanceTokenizer;
use lancedb::index::scalar::FtsIndexBuilder;

use crate::error::{Error, Result};

/// Returns the analysis of the keyword index: English stems and stop words, lower case, no accents.
pub(super) fn keyword_analysis() -> FtsIndexBuilder {
    FtsIndexBuilder::default()
        .base_tokenizer("simple".to_owned())
        .stem(true)
        .remove_stop_words(true)
        .lower_case(true)
        .ascii_folding(true)
}

/// Splits text into the words that the keyword index of LanceDB would have for it.
pub(super) struct Analyzer {
    tokenizer: Box<dyn LanceTokenizer>,
}

impl Analyzer {
    /// # Errors
    /// The library does not know one of the settings.
    pub(super) fn new() -> Result<Analyzer> {
        Ok(Analyzer { tokenizer: keyword_analysis().build().map_err(Error::internal)? })
    }

    /// Returns the words of a text in order, with repetitions.
    pub(super) fn words(&self, text: &str) -> Vec<String> {
        let tokens = collect_query_tokens(text, &mut self.tokenizer.box_clone());
        tokens.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_stems_in_lower_case_without_accents_and_stop_words() {
        let words = Analyzer::new().unwrap().words("The Cafés' pumps: pumping 1,234 (the café)");
        assert_eq!(words, ["cafe", "pump", "pump", "1", "234", "cafe"]);
    }
}
