//! Search for terms that begin with the letters typed so far.
//!
//! The library can only search for all terms that differ from a word in some characters, and unites the chunks of these
//! terms one by one: with 1,000 terms, which two letters easily have, a search of 100,000 chunks takes 300 ms. Here the
//! library only lists the terms. A search for the most frequent of them takes 10 ms.

use std::collections::HashMap;

use lance::index::{DatasetIndexExt, DatasetIndexInternalExt};
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::inverted::InvertedIndex;
use lance_index::scalar::inverted::query::{FtsSearchParams, Tokens};
use lance_index::scalar::inverted::tokenizer::document_tokenizer::DocType;
use lancedb::Table;

use crate::error::Result;
use crate::model::LegHit;
use crate::store::backend::{FileSet, KeywordQuery};
use crate::store::indexes::{covers, keyword_column};
use crate::store::lance::LanceStore;
use crate::store::lance_error::StoreContext;
use crate::store::queries;

/// Maximum number of terms that are listed for a beginning, in alphabetical order.
const MAX_LISTED_TERMS: usize = 5_000;

/// Maximum number of terms that are searched: those that most chunks have.
const MAX_TERMS: usize = 60;

/// Maximum number of characters by which a term is longer than its beginning.
const MAX_ENDING: u32 = 20;

/// A character that is in no term. The library compares the ending of each term with the letters that follow the fixed
/// beginning, and so with this one. Without it, the library builds an automaton for the whole word if that is ASCII, which
/// takes 15 ms for four letters; this one takes 1 to 2 ms.
const NO_LETTER: char = '\u{10FFFF}';

/// Returns up to `limit` chunks with a term that begins with `prefix`. Of very many terms, the most frequent ones are
/// searched.
pub(super) async fn prefix_search(
    store: &LanceStore,
    prefix: &str,
    files: &FileSet,
    limit: usize,
) -> Result<Vec<LegHit>> {
    let counts = terms_with_prefix(&store.published, prefix).await.on("search", &store.dir)?;
    let mut terms: Vec<(String, usize)> = counts.into_iter().collect();
    terms.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    terms.truncate(MAX_TERMS);
    let query = KeywordQuery { terms: terms.into_iter().map(|it| it.0).collect() };
    queries::keyword_search(store, &query, files, limit).await
}

/// Returns the terms of the keyword index that begin with `prefix`, each with the number of chunks that have it.
async fn terms_with_prefix(table: &Table, prefix: &str) -> lancedb::Result<HashMap<String, usize>> {
    let mut counts = HashMap::new();
    let Some(dataset) = table.dataset() else { return Ok(counts) };
    let column = keyword_column(table).await?;
    let parameters = FtsSearchParams::new()
        .with_fuzziness(Some(MAX_ENDING))
        .with_prefix_length(prefix.chars().count() as u32)
        .with_max_expansions(MAX_LISTED_TERMS);
    let typed = Tokens::new(vec![format!("{prefix}{NO_LETTER}")], DocType::Text);
    let names = table.list_indices().await?.into_iter().filter(|it| covers(it, column)).map(|it| it.name);
    let dataset = dataset.get().await?;
    for name in names {
        for part in dataset.load_indices_by_name(&name).await?.iter() {
            let opened = dataset.open_scalar_index(column, &part.uuid, &NoOpMetricsCollector).await?;
            let Some(words) = opened.as_any().downcast_ref::<InvertedIndex>() else { continue };
            let listed = words.expand_fuzzy_tokens(&typed, &parameters)?;
            let terms: Vec<String> = (0..listed.len()).map(|it| listed.get_token(it).to_string()).collect();
            let (_, _, chunks) = words.bm25_stats_for_terms(&terms, None).await?;
            for (term, chunks) in terms.into_iter().zip(chunks) {
                *counts.entry(term).or_default() += chunks;
            }
        }
    }
    Ok(counts)
}
