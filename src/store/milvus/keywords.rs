//! Keyword search by sparse vectors: the words of a chunk become weights such that the inner product with the vector of a
//! query is the BM25 score of the keyword index of LanceDB.
//!
//! The BM25 functions of servers differ by version, and compute the rarity of a word within a segment. So vic analyses the
//! text and weighs the words itself. A chunk has the weight `(k1 + 1) * f / (f + k1 * (1 - b + b * length / mean))` for a
//! word that it contains `f` times; a query has `ln(1 + (N - n + 0.5) / (n + 0.5))` for a word in `n` of `N` chunks. The
//! mean length is that of all chunks written before, as a weight cannot change later.

use std::collections::BTreeMap;

use crate::catalog::{StoreLedger, WordCounts};
use crate::error::Result;

/// BM25: how soon further occurrences of a word stop to matter, and how much the length of a chunk matters; the values of
/// the keyword index of LanceDB.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Dimension that every chunk has, because a server may refuse an empty vector. No word has it.
const EVERY_CHUNK: u32 = 0;
/// Weight of [`EVERY_CHUNK`].
const EVERY_CHUNK_WEIGHT: f32 = 1e-6;

/// A sparse vector: dimensions in ascending order with their weights.
pub(super) type SparseVector = Vec<(u32, f32)>;

/// Returns the dimension of a word: 32 bits of its hash. Of a million different words, about one in 4,300 shares its
/// dimension with another.
fn dimension_of(word: &str) -> u32 {
    let hash = blake3::hash(word.as_bytes());
    let [a, b, c, d, ..] = *hash.as_bytes();
    u32::from_le_bytes([a, b, c, d]).clamp(1, u32::MAX - 1)
}

/// The words of one chunk: how often each occurs.
pub(super) struct ChunkWords {
    frequencies: BTreeMap<u32, u32>,
    length: u32,
}

impl ChunkWords {
    pub(super) fn new(terms: &[String]) -> ChunkWords {
        let mut words = ChunkWords { frequencies: BTreeMap::new(), length: 0 };
        for term in terms {
            *words.frequencies.entry(dimension_of(term)).or_default() += 1;
            words.length += 1;
        }
        words
    }

    /// Returns the vector of the chunk. `mean_length` is the mean number of words of a chunk, more than 0.
    pub(super) fn vector(&self, mean_length: f32) -> SparseVector {
        let addend = K1 * (1.0 - B + B * self.length as f32 / mean_length);
        let weight = |frequency: u32| (K1 + 1.0) * frequency as f32 / (frequency as f32 + addend);
        let words = self.frequencies.iter().map(|(dimension, frequency)| (*dimension, weight(*frequency)));
        std::iter::once((EVERY_CHUNK, EVERY_CHUNK_WEIGHT)).chain(words).collect()
    }
}

/// Adds up the words of new chunks for the ledger.
pub(super) fn count_words<'a>(chunks: impl Iterator<Item = &'a ChunkWords>) -> WordCounts {
    let mut counts = WordCounts::default();
    for chunk in chunks {
        counts.chunks += 1;
        counts.words += u64::from(chunk.length);
        for term in chunk.frequencies.keys() {
            *counts.chunks_by_term.entry(*term).or_default() += 1;
        }
    }
    counts
}

/// Returns the mean number of words of a chunk, with these new chunks; at least 1.
pub(super) fn mean_length(ledger: &StoreLedger, new: &WordCounts) -> Result<f32> {
    let (chunks, words) = ledger.written()?;
    Ok(((words + new.words) as f32 / (chunks + new.chunks).max(1) as f32).max(1.0))
}

/// Adds the words of a deleted row to `terms`.
pub(super) fn add_terms_of(vector: &[(u32, f32)], terms: &mut BTreeMap<u32, u64>) {
    for (dimension, _) in vector.iter().filter(|it| it.0 != EVERY_CHUNK) {
        *terms.entry(*dimension).or_default() += 1;
    }
}

/// Returns the vector of a query. The counts of the ledger are statistics and no proof that no chunk has a word. A word that the query repeats weighs as much as
/// its occurrences together. `chunks` is the number of chunks.
pub(super) fn query_vector(ledger: &StoreLedger, terms: &[String], chunks: u64) -> Result<SparseVector> {
    let query = ChunkWords::new(terms).frequencies;
    let dimensions: Vec<u32> = query.keys().copied().collect();
    let counts = ledger.chunks_with(&dimensions)?;
    let weighted = query.into_iter().zip(counts);
    Ok(weighted.map(|((word, times), count)| (word, times as f32 * rarity(count, chunks))).collect())
}

/// Returns the dimensions of the terms of each word, the rarest word first.
pub(super) fn rarest_first(ledger: &StoreLedger, words: &[Vec<String>]) -> Result<Vec<Vec<u32>>> {
    let mut counted = Vec::with_capacity(words.len());
    for terms in words {
        let dimensions: Vec<u32> = terms.iter().map(|it| dimension_of(it)).collect();
        counted.push((ledger.chunks_with(&dimensions)?.iter().sum::<u64>(), dimensions));
    }
    counted.sort();
    Ok(counted.into_iter().map(|it| it.1).collect())
}

fn rarity(containing: u64, chunks: u64) -> f32 {
    let (containing, chunks) = (containing.clamp(1, chunks.max(1)) as f32, chunks.max(1) as f32);
    ((chunks - containing + 0.5) / (containing + 0.5)).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::LedgerChange;

    #[test]
    fn inner_product_is_bm25() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = StoreLedger::open(&dir.path().join("ledger.sqlite")).unwrap();
        let texts = ["The pumps of the harbour", "a harbour harbour at night", "nothing else"];
        let chunks: Vec<ChunkWords> = vic_words::passage_terms(texts).iter().map(|it| ChunkWords::new(it)).collect();
        let counts = count_words(chunks.iter());
        let mean = mean_length(&ledger, &counts).unwrap();
        ledger.commit(&LedgerChange { words: counts, ..LedgerChange::default() }).unwrap();
        let query = query_vector(&ledger, &["harbour", "pump", "zeppelin"].map(String::from), 3).unwrap();
        assert_eq!(query.len(), 3);
        let score = |chunk: &ChunkWords| -> f32 {
            let vector: BTreeMap<u32, f32> = chunk.vector(mean).into_iter().collect();
            query.iter().map(|(dimension, weight)| weight * vector.get(dimension).unwrap_or(&0.0)).sum()
        };
        let idf = |n: f32| (1.0 + (3.0 - n + 0.5) / (n + 0.5)).ln();
        let tf = |f: f32, length: f32| 2.2 * f / (f + 1.2 * (0.25 + 0.75 * length / mean));
        assert!((score(&chunks[0]) - idf(2.0) * tf(1.0, 2.0) - idf(1.0) * tf(1.0, 2.0)).abs() < 1e-5);
        assert!((score(&chunks[1]) - idf(2.0) * tf(2.0, 3.0)).abs() < 1e-5);
        assert_eq!(score(&chunks[2]), 0.0);
    }

    #[test]
    fn chunk_without_words_has_a_vector() {
        let words = ChunkWords::new(&[]);
        assert_eq!(words.vector(10.0), [(EVERY_CHUNK, EVERY_CHUNK_WEIGHT)]);
    }
}
