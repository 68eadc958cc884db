//! Synthetic texts for benchmarks and tests, always the same, so that no corpus is needed.

use std::ops::RangeInclusive;

/// Number of texts in a sample: embedding them takes one slow core about a minute.
const SAMPLE_TEXTS: usize = 512;

/// The words of the texts, with lengths that are typical of prose.
const WORDS: &str = "the of and archive invoice quarterly report meeting engine temperature measured between paragraph \
    section results were compared with earlier observations which suggests that pressure along surface increases near \
    boundary layer 2024 contract delivery address customer shall not exceed figure table shows method proposed in this \
    paper we describe a system for indexing local documents without network access";

/// Returns texts with 10 to 300 words each.
pub fn sample_texts() -> Vec<String> {
    sample_texts_with_lengths(10..=300)
}

/// Returns texts; the length of each, in words, is in the range `words`.
pub fn sample_texts_with_lengths(words: RangeInclusive<usize>) -> Vec<String> {
    let vocabulary: Vec<&str> = WORDS.split_whitespace().collect();
    let mut random = Random::new(7);
    let (least, most) = words.into_inner();
    let text = |_| {
        let count = least + random.below(most - least + 1);
        let picked: Vec<&str> = (0..count).map(|_| vocabulary[random.below(vocabulary.len())]).collect();
        picked.join(" ")
    };
    (0..SAMPLE_TEXTS).map(text).collect()
}

/// A pseudo-random number generator that gives the same numbers for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Returns a random integer from 0 to `limit` - 1.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }

    /// Returns a random number above 0 and at most 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() + 1) as f64 / (1_u64 << 31) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_deterministic_with_requested_lengths() {
        assert_eq!(sample_texts(), sample_texts());
        for (least, most) in [(5, 30), (10, 300), (250, 300)] {
            let texts = sample_texts_with_lengths(least..=most);
            let lengths: Vec<usize> = texts.iter().map(|it| it.split(' ').count()).collect();
            let (shortest, longest) = (*lengths.iter().min().unwrap(), *lengths.iter().max().unwrap());
            assert!((least..least + 10).contains(&shortest) && (most - 10..=most).contains(&longest), "{least} {most}");
        }
    }
}
