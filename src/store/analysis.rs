//! Analysis of text for keyword search: the same terms for every store.

use lancedb::index::scalar::FtsIndexBuilder;

use crate::model::FileChunks;

/// Returns the settings of the keyword index over a column of analysed terms: each is taken as it is.
pub(super) fn term_index() -> FtsIndexBuilder {
    FtsIndexBuilder::default()
        .base_tokenizer("whitespace".to_owned())
        .max_token_length(None)
        .stem(false)
        .remove_stop_words(false)
        .lower_case(false)
        .ascii_folding(false)
}

/// Returns the terms of each chunk of a file.
pub(super) fn file_terms(file: &FileChunks) -> Vec<Vec<String>> {
    vic_words::passage_terms(file.chunks.iter().map(|it| it.chunk.text.as_str()))
}
