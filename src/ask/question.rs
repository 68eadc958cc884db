//! A question with its plan, filters and limit, and the validation of the limit.

use std::sync::Arc;

use crate::ask::terms::Terms;
use crate::error::{Error, Result};
use crate::model::{FileFilter, PrivacyMode, QueryPlan};

/// Maximum number of hits when the request sets no limit.
const DEFAULT_LIMIT: u32 = 10;
/// Highest limit that a request may set; a higher one is an error.
const MAX_LIMIT: u32 = 1_000;

/// A question with its plan, ready for the search.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) plan: QueryPlan,
    /// Privacy mode for network access: the stricter one of the plan's and the configuration's.
    pub(crate) privacy: PrivacyMode,
    /// Warnings for the user that arose during planning.
    pub(crate) warnings: Vec<String>,
    /// Whether the language model that plans questions was unavailable.
    pub(crate) model_unavailable: bool,
    /// Words and phrases that a hit must contain or must not contain.
    pub(crate) terms: Arc<Terms>,
    /// The content words of the question, in lower case.
    pub(crate) words: Vec<String>,
    /// The metadata filter, including the searched folder.
    pub(crate) filter: FileFilter,
    /// Number of best hits that are ranked.
    pub(crate) limit: usize,
    /// Number of best hits that a model reranks; 0 without one.
    pub(crate) reranked_hits: usize,
    pub(crate) explain: bool,
    /// Whether words and names alone are searched, without vectors and skills.
    pub(crate) words_only: bool,
}

impl Question {
    /// Returns the text to search for; `None` for a question that lists files by metadata.
    pub(crate) fn text(&self) -> Option<&str> {
        self.plan.l1_query_text.as_deref().filter(|it| !it.trim().is_empty())
    }

    /// Returns whether the question lists files by metadata, without a text search.
    pub(super) fn is_listing(&self) -> bool {
        self.text().is_none()
    }
}

/// Sizes of the rankings whose union makes the later parts of a result.
const RANKED_HITS: [usize; 3] = [50, 200, MAX_LIMIT as usize];

/// Which hits of a ranking a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HitRange {
    /// Number of best hits to leave out.
    pub(super) offset: usize,
    /// Maximum number of hits.
    limit: usize,
}

impl HitRange {
    /// Checks the limit and offset of a request. Fails if the hits are not among the first `MAX_LIMIT`.
    pub(super) fn new(limit: Option<u32>, offset: Option<u32>) -> Result<HitRange> {
        let (limit, offset) = (limit.unwrap_or(DEFAULT_LIMIT), offset.unwrap_or(0));
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(Error::invalid(format!("limit {limit} is not between 1 and {MAX_LIMIT}")));
        }
        if limit.saturating_add(offset) > MAX_LIMIT {
            let text = format!("offset {offset} and limit {limit} together are more than {MAX_LIMIT}");
            return Err(Error::invalid(text).field("offset").hint("narrow the question with filters or words"));
        }
        Ok(HitRange { offset: offset as usize, limit: limit as usize })
    }

    /// Returns the size of the first ranking. How deep a search looks depends on its limit, and with it the order. So a later
    /// part begins with the ranking of the first part: that of its own limit if the parts are pages of one size, else that of
    /// 50 hits.
    pub(super) fn first_ranking(self) -> usize {
        if self.offset.is_multiple_of(self.limit) { self.limit } else { RANKED_HITS[0] }
    }

    /// Returns the sizes of the rankings that add their hits to those of the first one, smallest first.
    pub(super) fn larger_rankings(self) -> impl Iterator<Item = usize> {
        RANKED_HITS.into_iter().filter(move |it| self.offset > 0 && *it > self.first_ranking())
    }

    /// Returns whether a ranking of this length has all hits of the range.
    pub(super) fn is_filled(self, ranked: usize) -> bool {
        ranked >= self.offset + self.limit
    }

    /// Keeps only these hits of a ranking.
    pub(super) fn cut<T>(self, hits: &mut Vec<T>) {
        hits.drain(..self.offset.min(hits.len()));
        hits.truncate(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_part_repeats_the_rankings_of_the_parts_before() {
        let rankings = |limit, offset| {
            let range = HitRange::new(Some(limit), Some(offset)).unwrap();
            let mut sizes = vec![range.first_ranking()];
            sizes.extend(range.larger_rankings());
            sizes
        };
        assert_eq!((rankings(10, 0), rankings(1_000, 0)), (vec![10], vec![1_000]));
        assert_eq!((rankings(10, 10), rankings(10, 40)), (vec![10, 50, 200, 1_000], vec![10, 50, 200, 1_000]));
        assert_eq!((rankings(150, 50), rankings(400, 200)), (vec![50, 200, 1_000], vec![50, 200, 1_000]));
        assert_eq!((rankings(50, 50), rankings(100, 200)), (vec![50, 200, 1_000], vec![100, 200, 1_000]));
        assert_eq!((rankings(7, 3), rankings(500, 500)), (vec![50, 200, 1_000], vec![500, 1_000]));
    }

    #[test]
    fn part_is_cut_out_of_a_ranking() {
        let part = |limit, offset, count| {
            let mut hits: Vec<usize> = (0..count).collect();
            HitRange::new(Some(limit), Some(offset)).unwrap().cut(&mut hits);
            (hits.first().copied(), hits.len())
        };
        assert_eq!(
            (part(50, 0, 120), part(50, 50, 120), part(50, 100, 120)),
            ((Some(0), 50), (Some(50), 50), (Some(100), 20))
        );
        assert_eq!(part(200, 800, 120), (None, 0));
    }

    #[test]
    fn hits_beyond_the_maximum_are_refused() {
        for (limit, offset) in [(0, 0), (1_001, 0), (1, 1_000), (1_000, u32::MAX)] {
            assert!(HitRange::new(Some(limit), Some(offset)).is_err(), "{limit} {offset}");
        }
    }
}
