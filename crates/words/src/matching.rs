//! Words of a folded text for comparison with other texts.

use std::ops::Range;

use crate::segment::{SegmentKind, dictionary_words, segments};

/// Returns the words of a folded text, for ranking: of scripts without blanks between words, the pairs of adjacent
/// characters, which overlap, or the words of a dictionary.
pub fn matching_words(folded: &str) -> Vec<&str> {
    let mut words = Vec::with_capacity(folded.len() / 6);
    for segment in segments(folded) {
        let run = &folded[segment.range];
        match segment.kind {
            SegmentKind::Word => words.push(run),
            SegmentKind::EastAsian => push_pairs(run, &mut words),
            SegmentKind::SouthEastAsian => words.extend(dictionary_words(run).map(|it| &run[it])),
        }
    }
    words
}

/// Returns the words of a folded text, for phrases: of scripts without blanks between words, the single characters, so that a
/// phrase is found wherever it stands in a run.
pub fn exact_words(folded: &str) -> Vec<&str> {
    let mut words = Vec::with_capacity(folded.len() / 6);
    for segment in segments(folded) {
        let run = &folded[segment.range];
        match segment.kind {
            SegmentKind::Word => words.push(run),
            _ => words.extend(characters(run).map(|it| &run[it])),
        }
    }
    words
}

fn push_pairs<'t>(run: &'t str, words: &mut Vec<&'t str>) {
    let ranges: Vec<Range<usize>> = characters(run).collect();
    match ranges.as_slice() {
        [_] => words.push(run),
        many => words.extend(many.windows(2).map(|it| &run[it[0].start..it[1].end])),
    }
}

fn characters(run: &str) -> impl Iterator<Item = Range<usize>> {
    run.char_indices().map(|(at, character)| at..at + character.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_split_into_pairs_for_ranking_and_characters_for_phrases() {
        assert_eq!(matching_words("把发票 2231号"), ["把发", "发票", "2231", "号"]);
        assert_eq!(exact_words("把发票 2231号"), ["把", "发", "票", "2231", "号"]);
        assert_eq!(matching_words("the lease, 1"), ["the", "lease", "1"]);
        assert_eq!(exact_words("हिन्दी में"), ["हिन्दी", "में"]);
    }
}
