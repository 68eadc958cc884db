//! Two legs to one order: each file gets one score of its best keyword match and its best vector match.
//!
//! Pure. What the legs are asked for and what becomes of the result is not decided here.
//!
//! The score is `v * max(cosine, 0) + (1 - v) * bm25 / (bm25 + h)`, with the [`Weights`] `v` and `h`, where cosine and
//! BM25 are the highest of any chunk of the file. It lies in 0..1 and does not depend on the other candidates, so that it
//! compares across questions: nonsense scores low. Stretching both legs to 0..1 for each question first, as is often done,
//! orders no better (measured) and gives the best answer to nonsense a score near 1; reciprocal ranks order worse.
//!
//! [`feed_back`] then scores the best files again, by the cosine with the question moved towards the best passages `b`, one
//! of each of the two best files: `(cos(q, d) + 0.7 * mean of cos(q, b) * cos(b, d)) / 1.7`. What is like a good answer is
//! more likely one too, also where it has other words. A way through a passage that is itself far from the question is worth
//! little, which keeps the score of nonsense low; a vector moved and stretched to length 1 again would not.
//!
//! A file that is called as the question says is lifted: `score + (1 - score) * 0.9 * share^2`, where the share is the part of
//! the question's words that its names hold. Words that are rare in names count more, and those in no name most, so that a
//! name with one common word of a long question is worth nothing.
//!
//! What the words of the passages add to the score is in `wording`.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::model::{ChunkId, FileId, LegHit};

/// Best files that the question is moved towards. One is a gamble, more lead away.
const FEEDBACK_FILES: usize = 2;
/// How far it is moved.
const FEEDBACK: f32 = 0.7;

/// What a name that holds every word of a question is worth.
const NAME: f32 = 0.9;

/// How the legs are weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Part of the vector leg, 0 to 1; the keyword leg has the rest.
    pub vector: f32,
    /// BM25 that counts half. Above 0.
    pub bm25_half: f32,
}

impl Default for Weights {
    /// Chosen by nDCG@10 on two collections of abstracts at once. The maximum is flat: 0.5 to 0.6, and 10 to 20.
    fn default() -> Weights {
        Weights { vector: 0.55, bm25_half: 12.0 }
    }
}

impl Weights {
    fn score(&self, similarity: Option<f32>, bm25: Option<f32>) -> f32 {
        let bm25 = bm25.unwrap_or(0.0).max(0.0);
        let keyword = bm25 / (bm25 + self.bm25_half.max(f32::MIN_POSITIVE));
        self.vector * similarity.unwrap_or(0.0).clamp(0.0, 1.0) + (1.0 - self.vector) * keyword
    }
}

/// A file that matched, with the chunk that matched best.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The file.
    pub file_id: FileId,
    /// Its best chunk.
    pub chunk_id: ChunkId,
    /// 0 to 1, comparable across questions; the order of the answer.
    pub score: f32,
    /// Rank (from 1) and BM25 of the chunk in the keyword leg, if it was there.
    pub keyword: Option<(usize, f32)>,
    /// Rank (from 1) and cosine of the chunk in the vector leg, if it was there.
    pub vector: Option<(usize, f32)>,
    /// Cosine of the chunk, also when the vector leg did not reach down to it.
    pub similarity: Option<f32>,
    /// The same after [`feed_back`].
    pub moved: Option<f32>,
    /// The part of the question's words that the file's names hold.
    pub name: Option<f32>,
    /// Other chunks of the file that matched, best first, each with its own facts.
    pub other_chunks: Vec<Fused>,
    /// Paths of files that say the same and stand behind.
    pub copies: Vec<String>,
}

impl Fused {
    /// A chunk of a file that no leg found.
    pub(crate) fn of(file_id: FileId, chunk_id: ChunkId) -> Fused {
        Fused {
            file_id,
            chunk_id,
            score: 0.0,
            keyword: None,
            vector: None,
            similarity: None,
            moved: None,
            name: None,
            other_chunks: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// This chunk and the others of the file, best first.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Fused> {
        std::iter::once(self).chain(&self.other_chunks)
    }

    /// Returns what this chunk alone is worth.
    pub(crate) fn own_score(&self, weights: &Weights) -> f32 {
        weights.score(self.moved.or(self.similarity), self.keyword.map(|(_, bm25)| bm25))
    }

    /// Shows another of the file's chunks instead; the score of the file stays.
    pub(crate) fn show(&mut self, chunk_id: &ChunkId) {
        let Some(place) = self.other_chunks.iter().position(|it| it.chunk_id == *chunk_id) else { return };
        let mut shown = self.other_chunks.swap_remove(place);
        std::mem::swap(&mut shown.other_chunks, &mut self.other_chunks);
        shown.score = self.score;
        shown.name = self.name;
        self.other_chunks = Vec::new();
        let former = std::mem::replace(self, shown);
        self.other_chunks.push(former);
    }
}

/// Fuses the legs, each best first, into files, best first. `extra_similarities` holds the cosines of chunks that only the
/// keyword leg found; a chunk whose cosine is not known gets nothing for it.
pub fn fuse(keyword: &[LegHit], vector: &[LegHit], extra_similarities: &[LegHit], weights: &Weights) -> Vec<Fused> {
    let mut chunks = candidates(keyword, vector, extra_similarities);
    for chunk in &mut chunks {
        chunk.score = weights.score(chunk.similarity, chunk.keyword.map(|(_, bm25)| bm25));
    }
    chunks.sort_by(best_first);
    let mut files = merge(chunks, weights);
    files.sort_by(best_first);
    files
}

/// Equal scores go by id, so that the same question has the same answer.
fn best_first(a: &Fused, b: &Fused) -> Ordering {
    let by_score = b.score.total_cmp(&a.score);
    by_score.then_with(|| (a.file_id, &a.chunk_id).cmp(&(b.file_id, &b.chunk_id)))
}

/// Returns each chunk of either leg once, not scored yet.
fn candidates(keyword: &[LegHit], vector: &[LegHit], extra: &[LegHit]) -> Vec<Fused> {
    let mut chunks: Vec<Fused> = Vec::with_capacity(keyword.len() + vector.len());
    let mut places: HashMap<(FileId, &ChunkId), usize> = HashMap::new();
    for hit in keyword.iter().chain(vector) {
        places.entry((hit.file_id, &hit.chunk_id)).or_insert_with(|| {
            chunks.push(Fused::of(hit.file_id, hit.chunk_id.clone()));
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

/// Lifts the files whose names hold words of the question, by the part of it that they hold, and puts all in order.
pub(crate) fn lift_named(files: &mut [Fused], share: impl Fn(FileId) -> Option<f32>) {
    for file in files.iter_mut() {
        file.name = share(file.file_id);
        file.score += (1.0 - file.score) * file.name.map_or(0.0, name_score);
    }
    files.sort_by(best_first);
}

/// Returns what a name is worth that holds this part of the question, 0 to 1.
pub(crate) fn name_score(share: f32) -> f32 {
    NAME * share.clamp(0.0, 1.0).powi(2)
}

/// Moves a question, of norm 1, towards the best passages, each with its cosine to the question. The dot product of the result
/// with the vector of a passage is at most 1. It is not of norm 1 itself, see the module.
fn feedback(query: &[f32], best: &[(f32, &[f32])]) -> Vec<f32> {
    let mut moved = query.to_vec();
    if best.is_empty() {
        return moved;
    }
    for (similarity, vector) in best {
        let part = FEEDBACK * similarity.clamp(0.0, 1.0) / best.len() as f32;
        moved.iter_mut().zip(*vector).for_each(|(moved, it)| *moved += part * it);
    }
    moved.iter_mut().for_each(|it| *it /= 1.0 + FEEDBACK);
    moved
}

/// Scores files, best first, again by what the best of them say, and puts them in order. `vectors` are those of their best
/// chunks, of norm 1; a file without any keeps its score.
pub(crate) fn feed_back(
    files: &mut [Fused],
    query: &[f32],
    vectors: &HashMap<(FileId, ChunkId), Vec<f32>>,
    weights: &Weights,
) {
    let vector = |it: &Fused| vectors.get(&(it.file_id, it.chunk_id.clone()));
    let best: Vec<(f32, &[f32])> =
        files.iter().take(FEEDBACK_FILES).filter_map(vector).map(|it| (dot(query, it), it.as_slice())).collect();
    let query = feedback(query, &best);
    for file in files.iter_mut() {
        file.moved = vector(file).map(|it| dot(&query, it));
        for chunk in &mut file.other_chunks {
            chunk.moved = vector(chunk).map(|it| dot(&query, it));
        }
        let moved = file.chunks().filter_map(|it| it.moved).reduce(f32::max);
        let bm25 = file.chunks().filter_map(|it| it.keyword).map(|(_, bm25)| bm25).reduce(f32::max);
        if moved.is_some() {
            file.score = weights.score(moved, bm25);
        }
    }
    files.sort_by(best_first);
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Tells how the score of a file came about.
pub(crate) fn explain(fused: &Fused) -> serde_json::Value {
    let weights = Weights::default();
    serde_json::json!({
        "formula": "vector_weight * moved + (1 - vector_weight) * bm25 / (bm25 + bm25_half), best chunk of the file in \
                    each leg, moved = cosine with the question moved towards the two best passages; then (1 - score) * \
                    0.9 * name^2 for the part of the question that its names hold, and (1 - score) * \
                    (0.1 * coverage + 0.2 * nearness + 0.1 * title + 0.4 * run^4) for the wording of its best passage",
        "vector_weight": weights.vector,
        "bm25_half": weights.bm25_half,
        "keyword": fused.keyword.map(|(rank, bm25)| serde_json::json!({ "rank": rank, "bm25": bm25 })),
        "vector": fused.vector.map(|(rank, cosine)| serde_json::json!({ "rank": rank, "cosine": cosine })),
        "similarity": fused.similarity,
        "moved": fused.moved,
        "name": fused.name,
        "other_chunks": fused.other_chunks.len(),
        "score": fused.score,
    })
}

/// Keeps the best chunk of each file, and scores the file by the best of all its chunks in each leg: the words may stand
/// in one passage and the meaning in the next.
fn merge(chunks: Vec<Fused>, weights: &Weights) -> Vec<Fused> {
    let mut files: Vec<(Fused, Option<f32>, Option<f32>)> = Vec::new();
    let mut places: HashMap<FileId, usize> = HashMap::new();
    for chunk in chunks {
        let (similarity, bm25) = (chunk.similarity, chunk.keyword.map(|(_, bm25)| bm25));
        match places.get(&chunk.file_id) {
            Some(place) => {
                let (file, best_similarity, best_bm25) = &mut files[*place];
                file.other_chunks.push(chunk);
                *best_similarity = highest(*best_similarity, similarity);
                *best_bm25 = highest(*best_bm25, bm25);
            }
            None => {
                places.insert(chunk.file_id, files.len());
                files.push((chunk, similarity, bm25));
            }
        }
    }
    let scored = files.into_iter().map(|(file, similarity, bm25)| {
        let score = weights.score(similarity, bm25);
        Fused { score, ..file }
    });
    scored.collect()
}

fn highest(a: Option<f32>, b: Option<f32>) -> Option<f32> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
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
        assert!(fused.iter().all(|it| (0.0..=1.0).contains(&it.score)));
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
        assert_eq!(fused[0].other_chunks.iter().map(|it| it.chunk_id.0.as_str()).collect::<Vec<_>>(), ["c", "a"]);
    }

    #[test]
    fn words_in_one_chunk_and_meaning_in_another_count_together() {
        let fused = check(&[(1, "a", 10.0), (2, "d", 9.0)], &[(3, "e", 0.9), (1, "b", 0.8)], &[1, 3, 2]);
        assert!((fused[0].score - Weights::default().score(Some(0.8), Some(10.0))).abs() < 1e-6);
    }

    #[test]
    fn a_known_similarity_counts_although_the_vector_leg_ended_above_it() {
        let (keyword, vector) = (hits(&[(1, "a", 5.0), (2, "b", 5.0)]), hits(&[(3, "c", 0.7)]));
        let extra = hits(&[(2, "b", 0.6), (1, "a", 0.2), (7, "unasked", 1.0)]);
        let fused = fuse(&keyword, &vector, &extra, &Weights::default());
        assert_eq!(fused.iter().map(|it| it.file_id).collect::<Vec<_>>(), [2, 3, 1]);
        assert_eq!((fused[0].vector, fused[0].similarity), (None, Some(0.6)));
    }

    #[test]
    fn the_score_does_not_depend_on_the_other_candidates() {
        let alone = check(&[(1, "a", 5.0)], &[(1, "a", 0.5)], &[1]);
        let among = check(&[(1, "a", 5.0), (2, "b", 2.0)], &[(1, "a", 0.5), (2, "b", 0.4)], &[1, 2]);
        assert_eq!(alone[0].score, among[0].score);
        assert!(check(&[(1, "a", 0.5)], &[(1, "a", 0.1)], &[1])[0].score < 0.2);
    }

    #[test]
    fn a_file_that_is_called_as_the_question_says_comes_first_and_one_word_of_many_changes_nothing() {
        let near: Vec<(FileId, &str, f32)> = (1..9).map(|it| (it, "a", 0.5 - it as f32 / 100.0)).collect();
        let mut files = fuse(&[], &hits(&near), &[], &Weights::default());
        lift_named(&mut files, |it| (it == 8).then_some(1.0));
        assert_eq!((files[0].file_id, files[0].name), (8, Some(1.0)));
        let mut files = fuse(&[], &hits(&near), &[], &Weights::default());
        lift_named(&mut files, |it| (it == 8).then_some(0.05));
        assert_eq!(files[7].file_id, 8);
        assert!(files.iter().all(|it| (0.0..=1.0).contains(&it.score)));
    }

    #[test]
    fn files_with_the_same_content_stay_apart() {
        check(&[(1, "a", 5.0), (2, "a", 5.0)], &[(1, "a", 0.5), (2, "a", 0.5)], &[1, 2]);
    }

    /// Feeds back over files that only the vector leg found, whose vectors are these.
    fn check_feedback(query: &[f32], vectors: &[(FileId, [f32; 3])]) -> Vec<Fused> {
        let mut near: Vec<(FileId, &str, f32)> = vectors.iter().map(|(id, it)| (*id, "a", dot(query, it))).collect();
        near.sort_by(|a, b| b.2.total_cmp(&a.2));
        let mut files = fuse(&[], &hits(&near), &[], &Weights::default());
        let vectors = vectors.iter().map(|(id, it)| ((*id, ChunkId("a".into())), it.to_vec())).collect();
        feed_back(&mut files, query, &vectors, &Weights::default());
        assert!(files.iter().all(|it| (0.0..=1.0).contains(&it.score)));
        files
    }

    #[test]
    fn what_is_like_the_best_moves_up() {
        let vectors = [(1, [0.8, 0.6, 0.0]), (2, [0.75, 0.66, 0.0]), (3, [0.5, 0.0, 0.866]), (4, [0.49, 0.87, 0.0])];
        let files = check_feedback(&[1.0, 0.0, 0.0], &vectors);
        assert_eq!(files.iter().map(|it| it.file_id).collect::<Vec<_>>(), [1, 2, 4, 3]);
        assert_eq!(files[3].similarity, Some(0.5));
    }

    #[test]
    fn what_is_like_something_far_away_gains_nothing() {
        let files = check_feedback(&[1.0, 0.0, 0.0], &[(1, [0.1, 0.995, 0.0]), (2, [0.1, 0.995, 0.0])]);
        assert!(files.iter().all(|it| it.moved.unwrap() < 0.11), "{files:?}");
    }

    #[test]
    fn a_single_file_keeps_its_similarity_and_a_file_without_vector_its_score() {
        let files = check_feedback(&[1.0, 0.0, 0.0], &[(1, [0.6, 0.8, 0.0])]);
        assert!((files[0].moved.unwrap() - 0.6).abs() < 1e-6);
        let mut files = fuse(&hits(&[(1, "a", 5.0)]), &[], &[], &Weights::default());
        let before = files.clone();
        feed_back(&mut files, &[1.0], &HashMap::new(), &Weights::default());
        assert_eq!(files, before);
    }

    #[test]
    fn the_chunk_with_the_words_and_the_one_with_the_meaning_still_count_together() {
        let mut files = fuse(&hits(&[(1, "a", 12.0)]), &hits(&[(1, "b", 0.8)]), &[], &Weights::default());
        let vectors = HashMap::from([((1, ChunkId("b".into())), vec![0.8, 0.6])]);
        let before = files[0].score;
        feed_back(&mut files, &[1.0, 0.0], &vectors, &Weights::default());
        assert!((files[0].score - before).abs() < 1e-5 && files[0].score > 0.6, "{files:?}");
    }
}
