//! Two legs to one order: each chunk gets one score of its keyword and its vector match, each file that of its best chunk.
//!
//! Pure. What the legs are asked for and what becomes of the result is not decided here.
//!
//! Two scores, because an order and a published number want different things:
//!
//! - `rank_score` orders the answers of one question. Both legs are stretched to 0..1 over all candidates of this question
//!   (lowest 0, highest 1) and added with their weights. Measured against reciprocal ranks and against the score below,
//!   it orders best, but it says nothing across questions: the best answer to nonsense is near 1 too.
//! - `score` compares across questions and lies in 0..1: `vector * max(cosine, 0) + (1 - vector) * bm25 / (bm25 + half)`,
//!   0 where a leg found nothing. Nonsense scores low.

use std::collections::HashMap;

use crate::model::{ChunkId, FileId, LegHit};

/// How the legs are weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Part of the vector leg, 0 to 1; the keyword leg has the rest.
    pub vector: f32,
    /// BM25 that counts half in the published score.
    pub bm25_half: f32,
}

impl Default for Weights {
    /// Chosen by nDCG@10 on two public collections of abstracts at once; the maximum is flat from 0.5 to 0.7.
    fn default() -> Weights {
        Weights { vector: 0.6, bm25_half: 10.0 }
    }
}

/// A file that matched, with the chunk that matched best.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The file.
    pub file_id: FileId,
    /// Its best chunk.
    pub chunk_id: ChunkId,
    /// 0 to 1, comparable across questions.
    pub score: f32,
    /// 0 to 1, the order of the answers of this question.
    pub rank_score: f32,
    /// Rank (from 1) and BM25 of the chunk in the keyword leg, if it was there.
    pub keyword: Option<(usize, f32)>,
    /// Rank (from 1) and cosine of the chunk in the vector leg, if it was there.
    pub vector: Option<(usize, f32)>,
    /// Cosine of the chunk, also when the vector leg did not reach down to it.
    pub similarity: Option<f32>,
    /// Other chunks of the file that matched, best first.
    pub other_chunks: Vec<ChunkId>,
}

/// Fuses the legs, each best first, into files, best first. `extra_similarities` holds the cosines of chunks that only the
/// keyword leg found; a chunk whose cosine is not known counts as the lowest that is.
pub fn fuse(
    keyword: &[LegHit],
    vector: &[LegHit],
    extra_similarities: &[LegHit],
    weights: &Weights,
) -> Vec<Fused> {
    let mut chunks = candidates(keyword, vector, extra_similarities);
    let by_keyword = Stretch::over(keyword.iter().map(|it| it.score));
    let by_vector = Stretch::over(chunks.iter().filter_map(|it| it.similarity));
    for chunk in &mut chunks {
        let keyword = chunk.keyword.map_or(0.0, |(_, score)| score);
        let mixed = |vector: f32, keyword: f32| weights.vector * vector + (1.0 - weights.vector) * keyword;
        chunk.rank_score = mixed(
            chunk.similarity.map_or(0.0, |it| by_vector.place(it)),
            chunk.keyword.map_or(0.0, |(_, score)| by_keyword.place(score)),
        );
        let saturated = keyword.max(0.0) / (keyword.max(0.0) + weights.bm25_half.max(f32::MIN_POSITIVE));
        chunk.score = mixed(chunk.similarity.unwrap_or(0.0).clamp(0.0, 1.0), saturated);
    }
    chunks.sort_by(|a, b| {
        let by_score = b.rank_score.total_cmp(&a.rank_score);
        by_score.then_with(|| (a.file_id, &a.chunk_id).cmp(&(b.file_id, &b.chunk_id)))
    });
    merge(chunks)
}

/// Returns each chunk of either leg once, not scored yet.
fn candidates(keyword: &[LegHit], vector: &[LegHit], extra: &[LegHit]) -> Vec<Fused> {
    let mut chunks: Vec<Fused> = Vec::with_capacity(keyword.len() + vector.len());
    let mut places: HashMap<(FileId, &ChunkId), usize> = HashMap::new();
    for hit in keyword.iter().chain(vector) {
        places.entry((hit.file_id, &hit.chunk_id)).or_insert_with(|| {
            chunks.push(unscored(hit));
            chunks.len() - 1
        });
    }
    for (rank, hit) in (1..).zip(keyword) {
        chunks[places[&(hit.file_id, &hit.chunk_id)]].keyword.get_or_insert((rank, hit.score));
    }
    for hit in extra {
        if let Some(place) = places.get(&(hit.file_id, &hit.chunk_id)) {
            chunks[*place].similarity = Some(hit.score);
        }
    }
    for (rank, hit) in (1..).zip(vector) {
        let chunk = &mut chunks[places[&(hit.file_id, &hit.chunk_id)]];
        chunk.vector.get_or_insert((rank, hit.score));
        chunk.similarity = Some(hit.score);
    }
    chunks
}

fn unscored(hit: &LegHit) -> Fused {
    Fused {
        file_id: hit.file_id,
        chunk_id: hit.chunk_id.clone(),
        score: 0.0,
        rank_score: 0.0,
        keyword: None,
        vector: None,
        similarity: None,
        other_chunks: Vec::new(),
    }
}

/// Keeps the best chunk of each file.
fn merge(chunks: Vec<Fused>) -> Vec<Fused> {
    let mut files: Vec<Fused> = Vec::new();
    let mut places: HashMap<FileId, usize> = HashMap::new();
    for chunk in chunks {
        match places.get(&chunk.file_id) {
            Some(place) => files[*place].other_chunks.push(chunk.chunk_id),
            None => {
                places.insert(chunk.file_id, files.len());
                files.push(chunk);
            }
        }
    }
    files
}

/// Stretches scores to 0..1.
struct Stretch {
    lowest: f32,
    highest: f32,
}

impl Stretch {
    fn over(scores: impl Iterator<Item = f32>) -> Stretch {
        let start = Stretch { lowest: f32::INFINITY, highest: f32::NEG_INFINITY };
        scores.fold(start, |it, score| Stretch { lowest: it.lowest.min(score), highest: it.highest.max(score) })
    }

    /// Where all are equal, all are at the top: a single match is a full match.
    fn place(&self, score: f32) -> f32 {
        let width = self.highest - self.lowest;
        if width > 0.0 { (score - self.lowest) / width } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(hits: &[(FileId, &str, f32)]) -> Vec<LegHit> {
        let hit = |(file_id, id, score): &(FileId, &str, f32)| LegHit {
            chunk_id: ChunkId((*id).into()),
            file_id: *file_id,
            score: *score,
        };
        hits.iter().map(hit).collect()
    }

    /// Fuses with the default weights and gives the files in order.
    fn check(keyword: &[(FileId, &str, f32)], vector: &[(FileId, &str, f32)], expected: &[FileId]) -> Vec<Fused> {
        let fused = fuse(&hits(keyword), &hits(vector), &[], &Weights::default());
        assert_eq!(fused.iter().map(|it| it.file_id).collect::<Vec<_>>(), expected);
        assert!(fused.iter().all(|it| (0.0..=1.0).contains(&it.score) && (0.0..=1.0).contains(&it.rank_score)));
        fused
    }

    #[test]
    fn nothing_gives_nothing_and_one_leg_is_enough() {
        check(&[], &[], &[]);
        check(&[(1, "a", 9.0), (2, "b", 3.0)], &[], &[1, 2]);
        check(&[], &[(2, "b", 0.9), (1, "a", -0.2)], &[2, 1]);
    }

    #[test]
    fn a_match_in_both_legs_wins_over_a_better_one_in_a_single_leg() {
        let keyword = [(1, "a", 10.0), (3, "c", 9.0), (9, "z", 1.0)];
        let vector = [(2, "b", 0.8), (3, "c", 0.75), (8, "y", 0.1)];
        let fused = check(&keyword, &vector, &[3, 2, 1, 8, 9]);
        assert_eq!((fused[0].keyword, fused[0].vector), (Some((2, 9.0)), Some((2, 0.75))));
    }

    #[test]
    fn the_best_chunk_stands_for_its_file_and_names_the_others() {
        let fused = check(&[(1, "a", 2.0), (1, "b", 1.0)], &[(1, "b", 0.9), (1, "c", 0.5), (2, "d", 0.1)], &[1, 2]);
        assert_eq!(fused[0].chunk_id.0, "b");
        assert_eq!(fused[0].other_chunks.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn a_known_similarity_counts_although_the_vector_leg_ended_above_it() {
        let (keyword, vector) = (hits(&[(1, "a", 5.0), (2, "b", 5.0)]), hits(&[(3, "c", 0.9)]));
        let extra = hits(&[(2, "b", 0.6), (1, "a", 0.2), (7, "unasked", 1.0)]);
        let fused = fuse(&keyword, &vector, &extra, &Weights::default());
        assert_eq!(fused.iter().map(|it| it.file_id).collect::<Vec<_>>(), [2, 3, 1]);
        assert_eq!((fused[0].vector, fused[0].similarity), (None, Some(0.6)));
    }

    #[test]
    fn the_published_score_does_not_depend_on_the_other_candidates() {
        let alone = check(&[(1, "a", 5.0)], &[(1, "a", 0.5)], &[1]);
        let among = check(&[(1, "a", 5.0), (2, "b", 2.0)], &[(1, "a", 0.5), (2, "b", 0.4)], &[1, 2]);
        assert_eq!(alone[0].score, among[0].score);
        let weak = check(&[(1, "a", 0.5)], &[(1, "a", 0.1)], &[1]);
        assert!(weak[0].score < 0.2 && weak[0].rank_score > 0.9, "{weak:?}");
    }

    #[test]
    fn files_with_the_same_content_stay_apart() {
        check(&[(1, "a", 5.0), (2, "a", 5.0)], &[(1, "a", 0.5), (2, "a", 0.5)], &[1, 2]);
    }
}
