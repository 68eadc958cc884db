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
    /// Whether the request wants a part of the ranking after the first.
    pub(crate) is_later_part: bool,
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

/// Numbers of hits that are ranked for the later parts of a result. All parts up to such a number are parts of one ranking,
/// because the depth of the search depends on it.
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

    /// Returns the number of best hits to rank.
    pub(super) fn ranked(self) -> usize {
        match self.offset {
            0 => self.limit,
            offset => RANKED_HITS.into_iter().find(|it| offset + self.limit <= *it).unwrap_or(MAX_LIMIT as usize),
        }
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
    fn parts_of_a_ranking_are_adjacent() {
        let part = |limit, offset| {
            let range = HitRange::new(Some(limit), offset).unwrap();
            let mut hits: Vec<usize> = (0..range.ranked().min(120)).collect();
            range.cut(&mut hits);
            (range.ranked(), hits.first().copied(), hits.len())
        };
        assert_eq!(part(50, None), (50, Some(0), 50));
        assert_eq!(part(50, Some(50)), (200, Some(50), 50));
        assert_eq!(part(50, Some(100)), (200, Some(100), 20));
        assert_eq!(part(200, Some(800)), (1_000, None, 0));
    }

    #[test]
    fn hits_beyond_the_maximum_are_refused() {
        for (limit, offset) in [(0, 0), (1_001, 0), (1, 1_000), (1_000, u32::MAX)] {
            assert!(HitRange::new(Some(limit), Some(offset)).is_err(), "{limit} {offset}");
        }
    }
}
