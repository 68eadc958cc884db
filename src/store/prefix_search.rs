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

/// Number of terms that are searched, those that most chunks have: at least so many, and up to the maximum until they have
/// [`CHUNKS_PER_HIT`] times as many chunks as hits are wanted. The first search for a term reads its list of chunks from the
/// disk: with 60 frequent terms it took 80 ms.
const MIN_TERMS: usize = 16;
const MAX_TERMS: usize = 60;
const CHUNKS_PER_HIT: usize = 10;

/// Maximum number of characters by which a term is longer than its beginning.
const MAX_ENDING: u32 = 20;

/// A character that is in no term. The library compares the ending of each term with the letters that follow the fixed
/// beginning, and so with this one. Without it, the library builds an automaton for the whole word if that is ASCII, which
/// takes 15 ms for four letters; this one takes 1 to 2 ms.
const NO_LETTER: char = '\u{10FFFF}';

/// Returns up to `limit` chunks with a term that begins with `prefix`. Of many terms, the most frequent ones are
/// searched.
pub(super) async fn prefix_search(
    store: &LanceStore,
    prefix: &str,
    files: &FileSet,
    limit: usize,
) -> Result<Vec<LegHit>> {
    let counts = terms_with_prefix(&store.published, prefix).await.on("search", &store.dir)?;
    // Which of the terms are frequent in some of the files is not known.
    let chunks = if matches!(files, FileSet::All) { limit.saturating_mul(CHUNKS_PER_HIT) } else { usize::MAX };
    let query = KeywordQuery { terms: frequent_terms(counts, chunks) };
    queries::keyword_search(store, &query, files, limit).await
}

/// Returns the most frequent terms: as many as together are in `chunks` chunks, within the limits above.
fn frequent_terms(counts: HashMap<String, usize>, chunks: usize) -> Vec<String> {
    let mut terms: Vec<(String, usize)> = counts.into_iter().collect();
    terms.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let sums = terms.iter().scan(0, |sum, it| Some(std::mem::replace(sum, *sum + it.1)));
    let needed = sums.take_while(|before| *before < chunks).count().clamp(MIN_TERMS, MAX_TERMS);
    terms.into_iter().take(needed).map(|it| it.0).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_terms_are_searched_until_there_are_enough_chunks() {
        let terms = |count: usize| (0..100).map(|it| (format!("{it:02}"), count)).collect::<HashMap<_, _>>();
        assert_eq!(frequent_terms(terms(1_000), 2_000).len(), MIN_TERMS);
        assert_eq!(frequent_terms(terms(100), 2_000).len(), 20);
        assert_eq!(frequent_terms(terms(1), 2_000).len(), MAX_TERMS);
        let mixed = HashMap::from([("common".to_string(), 9), ("rare".to_string(), 1)]);
        assert_eq!(frequent_terms(mixed, 1), ["common", "rare"]);
    }
}
