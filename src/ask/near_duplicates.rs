//! Detects near-duplicates among the best files. The best file stands for its copies, and the copies follow after all other
//! files, so versions of one text do not fill the answer, but no file is lost if the limit leaves space for copies.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::ask::fuse::FusedFile;
use crate::ask::{hit, word_runs};
use crate::model::{ChunkId, FileId, FileRecord, StoredChunk};

/// Number of consecutive words that are compared as one unit (shingle).
const SHINGLE: usize = 4;
/// Two passages are near-duplicates if the Jaccard similarity of their shingle sets is at least this.
const MIN_COPY_SIMILARITY: f64 = 0.85;

/// Moves files whose shown passage is a copy of a better file's passage behind all other files, and lists their paths in
/// [`FusedFile::copies`] of the better file.
pub(super) fn demote_copies(
    files: &mut Vec<FusedFile>,
    records: &HashMap<FileId, FileRecord>,
    chunks: &HashMap<(FileId, ChunkId), StoredChunk>,
) {
    let mut kept: Vec<(FusedFile, Vec<u64>)> = Vec::with_capacity(files.len());
    let mut copies = Vec::new();
    for file in files.drain(..) {
        let text = chunks.get(&(file.file_id, file.chunk_id.clone())).map_or("", |it| it.chunk.body());
        let shingles = shingles(text);
        match kept.iter_mut().find(|(it, theirs)| it.chunk_id == file.chunk_id || is_near_duplicate(theirs, &shingles))
        {
            Some((better, _)) => {
                better.copies.extend(records.get(&file.file_id).map(|it| hit::shown_path(it, None)));
                copies.push(file);
            }
            None => kept.push((file, shingles)),
        }
    }
    files.extend(kept.into_iter().map(|(file, _)| file).chain(copies));
}

/// Returns the hashes of the shingles of a text, sorted and without duplicates.
fn shingles(text: &str) -> Vec<u64> {
    let plain = word_runs::normalize(text);
    let hash = |word: &str| {
        let mut hasher = DefaultHasher::new();
        word.hash(&mut hasher);
        hasher.finish()
    };
    let words: Vec<u64> = word_runs::split_words(&plain).map(hash).collect();
    // Combines the hashes of the words of a shingle: multiplying by an odd number loses no bits, and the rotation makes
    // the result depend on the word order.
    let together = |all: u64, word: &u64| all.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ word;
    let mut shingles: Vec<u64> = words.windows(SHINGLE).map(|it| it.iter().fold(0, together)).collect();
    shingles.sort_unstable();
    shingles.dedup();
    shingles
}

/// Returns whether two sorted lists share enough shingles. Stops as soon as the remaining ones cannot reach the threshold.
fn is_near_duplicate(a: &[u64], b: &[u64]) -> bool {
    let enough =
        |common: usize| common > 0 && common as f64 >= MIN_COPY_SIMILARITY * (a.len() + b.len() - common) as f64;
    let (mut i, mut j, mut common) = (0, 0, 0);
    while enough(common + (a.len() - i).min(b.len() - j)) {
        let (Some(x), Some(y)) = (a.get(i), b.get(j)) else { return true };
        common += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: &str, b: &str) -> bool {
        is_near_duplicate(&shingles(a), &shingles(b))
    }

    #[test]
    fn is_same_needs_share_of_common_shingles() {
        let numbers = |range: std::ops::Range<u64>| range.collect::<Vec<_>>();
        for (a, b, same) in [
            (numbers(0..100), numbers(0..100), true),
            (numbers(0..85), numbers(0..100), true),
            (numbers(0..84), numbers(0..100), false),
            (numbers(8..100), numbers(0..92), false),
            (numbers(8..108), numbers(0..100), true),
            (numbers(9..109), numbers(0..100), false),
            (numbers(0..1), numbers(1..2), false),
            (numbers(0..0), numbers(0..0), false),
        ] {
            assert_eq!(is_near_duplicate(&a, &b), same, "{a:?} and {b:?}");
            assert_eq!(is_near_duplicate(&b, &a), same, "{b:?} and {a:?}");
        }
    }

    #[test]
    fn versions_of_a_text_are_copies_other_texts_are_not() {
        let text = "The lease of the boat shed on the quay runs for five years from the first of May, and the rent is paid \
                    in advance at the beginning of every quarter to the harbour office in Cinder Bay, in cash or by transfer.";
        assert!(check(text, &format!("{text} Signed.")));
        assert!(!check(text, "The lease of the boat shed was given up in spring after the flood."));
        assert!(!check("", ""));
    }
}
