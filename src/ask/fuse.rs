//! Fuses the ranked lists of keyword search and vector search (the two legs): each file gets one score from its best keyword
//! match and its best vector match.
//!
//! The functions here are pure: callers run the searches and use the result.
//!
//! The score is `v * max(cosine, 0)^e + (1 - v) * bm25 / (bm25 + h)`, with the [`Weights`] `v` and `h`. The cosine is
//! converted to that of the default model ([`CosineCalibration`]). The exponent `e` is 1, and more for a noisy model. Cosine
//! and BM25 are the highest of any chunk of the file. The score lies in 0..1 and does not depend on the other candidates, so
//! scores of different questions can be compared: nonsense scores low. Min-max scaling of both lists per question, or BM25
//! as a share of the best one, does not improve the order (measured) and gives the best answer to nonsense a high score.
//! Reciprocal rank fusion gives a worse order. Weights that depend on the length of the question do not help collections
//! that they were not chosen for (measured).
//!
//! [`apply_feedback`] then scores the best files again (pseudo-relevance feedback), with the question moved towards the best
//! passages `b`, one from each of the two best files: `(cos(q, d) + 0.3 * mean of cos(q, b) * cos(b, d)) / 1.3`. A passage
//! similar to a good answer is more likely to be an answer too, even with other words. The factor `cos(q, b)` gives little
//! weight to a passage `b` far from the question, which keeps nonsense low; normalizing the moved vector would undo that.
//! With a noisy model, the weight 0.3 is multiplied by the exponent of its calibration.
//!
//! [`boost_named_files`] raises a file with words of the question in its names: `score + (1 - score) * 0.9 * share^2`. The
//! share is the fraction of the question's words that the names contain. Words that are rare in names weigh more, and words
//! that no name has weigh most, so one common word of a long question adds almost nothing.
//!
//! The `rerank` module then raises the score of files whose passages have the wording of the question.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::model::{ChunkId, FileId, LegHit};

/// Number of best files that feedback uses. A single file may be a wrong match; more than two lead away from the question.
const FEEDBACK_FILES: usize = 2;
/// Weight of the feedback passages in the moved question vector; the question itself has weight 1.
const FEEDBACK_WEIGHT: f32 = 0.3;

/// Score that a file gets for a name that contains every word of the question.
const NAME_WEIGHT: f32 = 0.9;

/// Mean cosines of the default model, all-MiniLM-L6-v2, for the pairs of `cosine_scale`: of unrelated texts, and of questions
/// with their answers.
const REFERENCE: (f32, f32) = (0.0544, 0.7902);

/// Weights of keyword search and vector search in the score of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Weight of the cosine, 0 to 1; the BM25 term has the weight `1 - vector`.
    pub vector: f32,
    /// The BM25 value that counts as 0.5 in the keyword term; must be above 0.
    pub bm25_half: f32,
    /// Converts the cosines of the model.
    pub calibration: CosineCalibration,
}

/// Converts the cosines of any model to those that the default model would have: `factor * cosine + offset`.
///
/// Weights and thresholds are tuned for the default model. With another model, unrelated texts may have a cosine of 0.75
/// instead of 0.05. Their cosines may also differ more from each other, relative to the distance between unrelated and
/// related texts. The best of many unrelated passages then comes near to an answer. In scores, an exponent on the
/// converted cosine keeps it apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineCalibration {
    factor: f32,
    offset: f32,
    /// 1 for a model no noisier than the default model, 2 at most.
    exponent: f32,
}

impl Default for CosineCalibration {
    /// Changes nothing.
    fn default() -> CosineCalibration {
        CosineCalibration { factor: 1.0, offset: 0.0, exponent: 1.0 }
    }
}

impl CosineCalibration {
    /// Makes the conversion from two cosines of a model, each a mean: of unrelated texts, and of questions with their
    /// answers. `deviation` is the standard deviation of the first.
    pub(crate) fn new(unrelated: f32, answering: f32, deviation: f32) -> CosineCalibration {
        /// Its deviation relative to the distance of the means.
        const REFERENCE_NOISE: f32 = 0.0835;
        /// Ratio up to which another noise counts as equal: the pairs are few.
        const TOLERANCE: f32 = 1.1;
        let distance = (answering - unrelated).max(0.05);
        let factor = (REFERENCE.1 - REFERENCE.0) / distance;
        let noise = deviation / distance / REFERENCE_NOISE;
        let exponent = if noise < TOLERANCE { 1.0 } else { noise.min(2.0) };
        CosineCalibration { factor, offset: REFERENCE.0 - factor * unrelated, exponent }
    }

    /// Converts a cosine; the result is at most 1.
    pub(crate) fn apply(&self, cosine: f32) -> f32 {
        (self.factor * cosine + self.offset).min(1.0)
    }

    /// Returns the place of a converted cosine between that of unrelated texts (0) and of a question with its answer (1). With a
    /// noisy model both are lower: the exponent applies first.
    pub(crate) fn nearness(&self, similarity: f32) -> f32 {
        (self.denoise(similarity) - REFERENCE.0) / (REFERENCE.1 - REFERENCE.0)
    }

    /// Keeps a converted cosine apart from the noise of the model; the result is 0 to 1.
    fn denoise(&self, similarity: f32) -> f32 {
        similarity.clamp(0.0, 1.0).powf(self.exponent)
    }
}

impl Default for Weights {
    /// Weights among those with the best mean nDCG@10 over collections of abstracts, short titles and code. The best ones of
    /// each three of the four collections differ, so that a small gain on one collection says little.
    fn default() -> Weights {
        Weights { vector: 0.55, bm25_half: 30.0, calibration: CosineCalibration::default() }
    }
}

impl Weights {
    /// Weights for the order of passages, by which quotes are chosen. `scoring` in `answer` is fitted to their scores.
    pub(crate) fn of_passages() -> Weights {
        Weights { vector: 0.55, bm25_half: 12.0, ..Weights::default() }
    }

    fn score(&self, similarity: Option<f32>, bm25: Option<f32>) -> f32 {
        let bm25 = bm25.unwrap_or(0.0).max(0.0);
        let keyword = bm25 / (bm25 + self.bm25_half.max(f32::MIN_POSITIVE));
        self.vector * self.calibration.denoise(similarity.unwrap_or(0.0)) + (1.0 - self.vector) * keyword
    }
}

/// A matching file with its best chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct FusedFile {
    /// Id of the file.
    pub file_id: FileId,
    /// Id of the best chunk of the file, which the hit shows.
    pub chunk_id: ChunkId,
    /// Score of the file, 0 to 1, comparable across questions; hits are sorted by it.
    pub score: f32,
    /// Rank (from 1) and BM25 of the chunk in the keyword search; `None` if that search did not return the chunk.
    pub keyword: Option<(usize, f32)>,
    /// Rank (from 1) and cosine of the chunk in the vector search; `None` if that search did not return the chunk.
    pub vector: Option<(usize, f32)>,
    /// Calibrated cosine between the chunk and the question; also known for chunks that only the keyword search returned.
    pub similarity: Option<f32>,
    /// How the cosine was converted.
    pub calibration: CosineCalibration,
    /// Cosine between the chunk and the question moved by [`apply_feedback`].
    pub feedback_similarity: Option<f32>,
    /// Fraction of the question's words that the names of the file contain, 0 to 1; rare words count more.
    pub name_share: Option<f32>,
    /// The other matching chunks of the file, best first, each with its own ranks and scores.
    pub other_chunks: Vec<FusedFile>,
    /// Paths of the near-duplicates of this file, which were moved behind all other files.
    pub copies: Vec<String>,
}

impl FusedFile {
    /// Makes an entry for a chunk that neither keyword nor vector search found; its score is 0.
    pub(crate) fn without_legs(file_id: FileId, chunk_id: ChunkId) -> FusedFile {
        FusedFile {
            file_id,
            chunk_id,
            score: 0.0,
            keyword: None,
            vector: None,
            similarity: None,
            calibration: CosineCalibration::default(),
            feedback_similarity: None,
            name_share: None,
            other_chunks: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// Returns this chunk and the file's other chunks, best first.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &FusedFile> {
        std::iter::once(self).chain(&self.other_chunks)
    }

    /// Returns the score of this chunk without the other chunks of the file.
    pub(crate) fn own_score(&self, weights: &Weights) -> f32 {
        let weights = Weights { calibration: self.calibration, ..*weights };
        weights.score(self.feedback_similarity.or(self.similarity), self.keyword.map(|(_, bm25)| bm25))
    }

    /// Returns the place of the chunk's cosine between those of unrelated texts (0) and of a question with its answer (1).
    pub(crate) fn nearness(&self) -> Option<f32> {
        self.similarity.map(|it| self.calibration.nearness(it))
    }

    /// Selects another chunk of the file to be shown in the hit. The score of the file stays the same, and the chunk shown
    /// so far moves to `other_chunks`.
    pub(crate) fn show_chunk(&mut self, chunk_id: &ChunkId) {
        let Some(place) = self.other_chunks.iter().position(|it| it.chunk_id == *chunk_id) else { return };
        let mut shown = self.other_chunks.swap_remove(place);
        std::mem::swap(&mut shown.other_chunks, &mut self.other_chunks);
        shown.score = self.score;
        shown.name_share = self.name_share;
        self.other_chunks = Vec::new();
        let former = std::mem::replace(self, shown);
        self.other_chunks.push(former);
    }
}

/// Fuses the results of both searches, each best first, into files, best first. `extra_similarities` holds the cosines of
/// chunks that only the keyword search found. A chunk without a known cosine gets 0 for the cosine.
pub fn fuse(keyword: &[LegHit], vector: &[LegHit], extra_similarities: &[LegHit], weights: &Weights) -> Vec<FusedFile> {
    let mut chunks = candidates(keyword, vector, extra_similarities, &weights.calibration);
    for chunk in &mut chunks {
        chunk.score = weights.score(chunk.similarity, chunk.keyword.map(|(_, bm25)| bm25));
    }
    chunks.sort_by(best_first);
    let mut files = merge_by_file(chunks, weights);
    files.sort_by(best_first);
    files
}

/// Sorts by score, highest first. Breaks ties by id, so that repeating a question gives the same order.
fn best_first(a: &FusedFile, b: &FusedFile) -> Ordering {
    let by_score = b.score.total_cmp(&a.score);
    by_score.then_with(|| (a.file_id, &a.chunk_id).cmp(&(b.file_id, &b.chunk_id)))
}

/// Returns the chunks that either search found, without duplicates, with ranks and similarity but without a score.
fn candidates(
    keyword: &[LegHit],
    vector: &[LegHit],
    extra: &[LegHit],
    calibration: &CosineCalibration,
) -> Vec<FusedFile> {
    let mut chunks: Vec<FusedFile> = Vec::with_capacity(keyword.len() + vector.len());
    let mut places: HashMap<(FileId, &ChunkId), usize> = HashMap::new();
    for hit in keyword.iter().chain(vector) {
        places.entry((hit.file_id, &hit.chunk_id)).or_insert_with(|| {
            let found = FusedFile::without_legs(hit.file_id, hit.chunk_id.clone());
            chunks.push(FusedFile { calibration: *calibration, ..found });
            chunks.len() - 1
        });
    }
    for (rank, hit) in (1..).zip(keyword) {
        chunks[places[&(hit.file_id, &hit.chunk_id)]].keyword.get_or_insert((rank, hit.score));
    }
    for hit in extra {
        if let Some(place) = places.get(&(hit.file_id, &hit.chunk_id)) {
            chunks[*place].similarity = Some(calibration.apply(hit.score));
        }
    }
    for (rank, hit) in (1..).zip(vector) {
        let chunk = &mut chunks[places[&(hit.file_id, &hit.chunk_id)]];
        chunk.vector.get_or_insert((rank, hit.score));
        chunk.similarity = Some(calibration.apply(hit.score));
    }
    chunks
}

/// Raises the scores of files with words of the question in their names, and sorts all files again. `share` returns the
/// fraction of the question's words that the names of a file contain.
pub(crate) fn boost_named_files(files: &mut [FusedFile], share: impl Fn(FileId) -> Option<f32>) {
    for file in files.iter_mut() {
        file.name_share = share(file.file_id);
        file.score += (1.0 - file.score) * file.name_share.map_or(0.0, name_score);
    }
    files.sort_by(best_first);
}

/// Returns the score of a name that contains this fraction (0 to 1) of the question's words.
pub(crate) fn name_score(share: f32) -> f32 {
    NAME_WEIGHT * share.clamp(0.0, 1.0).powi(2)
}

/// A question that is moved towards the best passages, each with its calibrated cosine to the question.
struct MovedQuery<'v> {
    query: &'v [f32],
    best: Vec<(f32, &'v [f32])>,
    calibration: CosineCalibration,
}

impl MovedQuery<'_> {
    /// Returns the similarity of a passage to the moved question (see the module docs), at most 1.
    fn similarity(&self, passage: &[f32]) -> f32 {
        let cosine = |other: &[f32]| self.calibration.apply(dot(other, passage));
        let own = cosine(self.query);
        if self.best.is_empty() {
            return own;
        }
        let near: f32 = self.best.iter().map(|(similarity, it)| similarity.clamp(0.0, 1.0) * cosine(it)).sum();
        let weight = FEEDBACK_WEIGHT * self.calibration.exponent;
        (own + weight * near / self.best.len() as f32) / (1.0 + weight)
    }
}

/// Computes the scores of ranked files anew with pseudo-relevance feedback, and sorts them by the new scores, best first.
/// `vectors` holds the vectors of their best chunks, normalized to length 1. A file without vectors keeps its score.
pub(crate) fn apply_feedback(
    files: &mut [FusedFile],
    query: &[f32],
    vectors: &HashMap<(FileId, ChunkId), Vec<f32>>,
    weights: &Weights,
) {
    let vector = |it: &FusedFile| vectors.get(&(it.file_id, it.chunk_id.clone()));
    let calibration = weights.calibration;
    let best = files.iter().take(FEEDBACK_FILES).filter_map(vector);
    let best = best.map(|it| (calibration.apply(dot(query, it)), it.as_slice())).collect();
    let moved = MovedQuery { query, best, calibration };
    for file in files.iter_mut() {
        file.feedback_similarity = vector(file).map(|it| moved.similarity(it));
        for chunk in &mut file.other_chunks {
            chunk.feedback_similarity = vector(chunk).map(|it| moved.similarity(it));
        }
        let moved = file.chunks().filter_map(|it| it.feedback_similarity).reduce(f32::max);
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

/// Returns the formula of the score of a file and its values for this file, as JSON.
pub(crate) fn explain_score(fused: &FusedFile) -> serde_json::Value {
    let weights = Weights::default();
    serde_json::json!({
        "formula": "vector_weight * moved^exponent + (1 - vector_weight) * bm25 / (bm25 + bm25_half), best chunk of the file in \
                    each leg, moved = cosine, as that of the default model (factor * cosine + offset), with \
                    the question moved towards the two best passages; then (1 - score) * 0.9 * name^2 for the part of the question that its names hold, and (1 - score) * \
                    (0.05 * coverage + 0.1 * nearness + 0.05 * title + 0.4 * run^4) for the wording of its best passage",
        "vector_weight": weights.vector,
        "bm25_half": weights.bm25_half,
        "keyword": fused.keyword.map(|(rank, bm25)| serde_json::json!({ "rank": rank, "bm25": bm25 })),
        "vector": fused.vector.map(|(rank, cosine)| serde_json::json!({ "rank": rank, "cosine": cosine })),
        "similarity": fused.similarity,
        "calibration": {
            "factor": fused.calibration.factor,
            "offset": fused.calibration.offset,
            "exponent": fused.calibration.exponent,
        },
        "moved": fused.feedback_similarity,
        "name": fused.name_share,
        "other_chunks": fused.other_chunks.len(),
        "score": fused.score,
    })
}

/// Groups chunks by file and keeps the best chunk of each file. The score of a file combines the best cosine and the best
/// BM25 of its chunks, even if they belong to different chunks.
fn merge_by_file(chunks: Vec<FusedFile>, weights: &Weights) -> Vec<FusedFile> {
    let mut files: Vec<(FusedFile, Option<f32>, Option<f32>)> = Vec::new();
    let mut places: HashMap<FileId, usize> = HashMap::new();
    for chunk in chunks {
        let (similarity, bm25) = (chunk.similarity, chunk.keyword.map(|(_, bm25)| bm25));
        match places.get(&chunk.file_id) {
            Some(place) => {
                let (file, best_similarity, best_bm25) = &mut files[*place];
                file.other_chunks.push(chunk);
                *best_similarity = max_option(*best_similarity, similarity);
                *best_bm25 = max_option(*best_bm25, bm25);
            }
            None => {
                places.insert(chunk.file_id, files.len());
                files.push((chunk, similarity, bm25));
            }
        }
    }
    let scored = files.into_iter().map(|(file, similarity, bm25)| {
        let score = weights.score(similarity, bm25);
        FusedFile { score, ..file }
    });
    scored.collect()
}

fn max_option(a: Option<f32>, b: Option<f32>) -> Option<f32> {
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

    /// Fuses with the default weights, compares the order of the files, and returns the files.
    fn check(keyword: &[(FileId, &str, f32)], vector: &[(FileId, &str, f32)], expected: &[FileId]) -> Vec<FusedFile> {
        let fused = fuse(&hits(keyword), &hits(vector), &[], &Weights::default());
        assert_eq!(fused.iter().map(|it| it.file_id).collect::<Vec<_>>(), expected);
        assert!(fused.iter().all(|it| (0.0..=1.0).contains(&it.score)));
        fused
    }

    #[test]
    fn fuse_handles_empty_and_single_legs() {
        check(&[], &[], &[]);
        check(&[(1, "a", 9.0), (2, "b", 3.0)], &[], &[1, 2]);
        check(&[], &[(2, "b", 0.9), (1, "a", -0.2)], &[2, 1]);
    }

    #[test]
    fn match_in_both_legs_beats_better_single_leg_match() {
        let keyword = [(1, "a", 10.0), (3, "c", 9.0), (9, "z", 1.0)];
        let vector = [(2, "b", 0.8), (3, "c", 0.75), (8, "y", 0.1)];
        let fused = check(&keyword, &vector, &[3, 2, 1, 8, 9]);
        assert_eq!((fused[0].keyword, fused[0].vector), (Some((2, 9.0)), Some((2, 0.75))));
    }

    #[test]
    fn file_shows_best_chunk_and_lists_others() {
        let fused = check(&[(1, "a", 2.0), (1, "b", 1.0)], &[(1, "b", 0.9), (1, "c", 0.5), (2, "d", 0.1)], &[1, 2]);
        assert_eq!(fused[0].chunk_id.0, "b");
        assert_eq!(fused[0].other_chunks.iter().map(|it| it.chunk_id.0.as_str()).collect::<Vec<_>>(), ["c", "a"]);
    }

    #[test]
    fn file_score_combines_best_values_of_different_chunks() {
        let fused = check(&[(1, "a", 10.0), (2, "d", 9.0)], &[(3, "e", 0.9), (1, "b", 0.8)], &[1, 3, 2]);
        assert!((fused[0].score - Weights::default().score(Some(0.8), Some(10.0))).abs() < 1e-6);
    }

    #[test]
    fn extra_similarity_counts_for_keyword_only_chunk() {
        let (keyword, vector) = (hits(&[(1, "a", 5.0), (2, "b", 5.0)]), hits(&[(3, "c", 0.7)]));
        let extra = hits(&[(2, "b", 0.6), (1, "a", 0.2), (7, "unasked", 1.0)]);
        let fused = fuse(&keyword, &vector, &extra, &Weights::default());
        assert_eq!(fused.iter().map(|it| it.file_id).collect::<Vec<_>>(), [2, 3, 1]);
        assert_eq!((fused[0].vector, fused[0].similarity), (None, Some(0.6)));
    }

    #[test]
    fn cosines_of_any_model_are_converted_to_the_default_model() {
        let near = |a: f32, b: f32| (a - b).abs() < 1e-3;
        let own = CosineCalibration::new(0.0544, 0.7902, 0.0614);
        assert!(near(own.apply(0.5), 0.5) && near(own.apply(-0.2), -0.2));
        let other = CosineCalibration::new(0.737, 0.877, 0.0117);
        assert!(near(other.apply(0.737), 0.0544) && near(other.apply(0.877), 0.7902) && other.apply(1.0) <= 1.0);
        assert!(CosineCalibration::new(1.0, 1.0, 0.0).apply(1.0).is_finite());
        let weights = Weights { calibration: other, ..Weights::default() };
        let fused = fuse(&[], &hits(&[(1, "a", 0.877)]), &hits(&[]), &weights);
        assert!(near(fused[0].similarity.unwrap(), 0.7902) && fused[0].vector == Some((1, 0.877)));
    }

    #[test]
    fn noisy_model_lowers_scores_between_the_ends_but_no_cosine() {
        let noisy = CosineCalibration::new(0.737, 0.877, 0.021);
        let plain = CosineCalibration::new(0.737, 0.877, 0.0117);
        assert!((noisy.exponent - 0.021 / 0.14 / 0.0835).abs() < 1e-3, "{noisy:?}");
        assert_eq!(noisy.apply(0.8), plain.apply(0.8), "thresholds mean the same with every model");
        let score = |calibration: CosineCalibration, cosine| {
            Weights { calibration, ..Weights::default() }.score(Some(calibration.apply(cosine)), None)
        };
        assert!(score(noisy, 0.8) < 0.7 * score(plain, 0.8));
        assert!(score(noisy, 0.95) == score(plain, 0.95) && score(noisy, 0.7) == 0.0);
        assert_eq!(CosineCalibration::new(0.737, 0.877, 0.5).exponent, 2.0);
    }

    #[test]
    fn score_is_independent_of_other_candidates() {
        let alone = check(&[(1, "a", 5.0)], &[(1, "a", 0.5)], &[1]);
        let among = check(&[(1, "a", 5.0), (2, "b", 2.0)], &[(1, "a", 0.5), (2, "b", 0.4)], &[1, 2]);
        assert_eq!(alone[0].score, among[0].score);
        assert!(check(&[(1, "a", 0.5)], &[(1, "a", 0.1)], &[1])[0].score < 0.2);
    }

    #[test]
    fn full_name_match_ranks_first_and_small_share_changes_nothing() {
        let near: Vec<(FileId, &str, f32)> = (1..9).map(|it| (it, "a", 0.5 - it as f32 / 100.0)).collect();
        let mut files = fuse(&[], &hits(&near), &[], &Weights::default());
        boost_named_files(&mut files, |it| (it == 8).then_some(1.0));
        assert_eq!((files[0].file_id, files[0].name_share), (8, Some(1.0)));
        let mut files = fuse(&[], &hits(&near), &[], &Weights::default());
        boost_named_files(&mut files, |it| (it == 8).then_some(0.05));
        assert_eq!(files[7].file_id, 8);
        assert!(files.iter().all(|it| (0.0..=1.0).contains(&it.score)));
    }

    #[test]
    fn files_sharing_chunk_ids_stay_separate() {
        check(&[(1, "a", 5.0), (2, "a", 5.0)], &[(1, "a", 0.5), (2, "a", 0.5)], &[1, 2]);
    }

    /// Runs feedback over files with these vectors. Only the vector search has found the files.
    fn check_feedback(query: &[f32], vectors: &[(FileId, [f32; 3])]) -> Vec<FusedFile> {
        let mut near: Vec<(FileId, &str, f32)> = vectors.iter().map(|(id, it)| (*id, "a", dot(query, it))).collect();
        near.sort_by(|a, b| b.2.total_cmp(&a.2));
        let mut files = fuse(&[], &hits(&near), &[], &Weights::default());
        let vectors = vectors.iter().map(|(id, it)| ((*id, ChunkId("a".into())), it.to_vec())).collect();
        apply_feedback(&mut files, query, &vectors, &Weights::default());
        assert!(files.iter().all(|it| (0.0..=1.0).contains(&it.score)));
        files
    }

    #[test]
    fn feedback_raises_files_similar_to_the_best() {
        let vectors = [(1, [0.8, 0.6, 0.0]), (2, [0.75, 0.66, 0.0]), (3, [0.5, 0.0, 0.866]), (4, [0.49, 0.87, 0.0])];
        let files = check_feedback(&[1.0, 0.0, 0.0], &vectors);
        assert_eq!(files.iter().map(|it| it.file_id).collect::<Vec<_>>(), [1, 2, 4, 3]);
        assert_eq!(files[3].similarity, Some(0.5));
    }

    #[test]
    fn feedback_from_distant_passages_adds_nothing() {
        let files = check_feedback(&[1.0, 0.0, 0.0], &[(1, [0.1, 0.995, 0.0]), (2, [0.1, 0.995, 0.0])]);
        assert!(files.iter().all(|it| it.feedback_similarity.unwrap() < 0.11), "{files:?}");
    }

    #[test]
    fn feedback_keeps_single_file_and_file_without_vector() {
        let files = check_feedback(&[1.0, 0.0, 0.0], &[(1, [0.6, 0.8, 0.0])]);
        assert!((files[0].feedback_similarity.unwrap() - 0.6).abs() < 1e-6);
        let mut files = fuse(&hits(&[(1, "a", 5.0)]), &[], &[], &Weights::default());
        let before = files.clone();
        apply_feedback(&mut files, &[1.0], &HashMap::new(), &Weights::default());
        assert_eq!(files, before);
    }

    #[test]
    fn feedback_combines_best_values_of_different_chunks() {
        let mut files = fuse(&hits(&[(1, "a", 12.0)]), &hits(&[(1, "b", 0.8)]), &[], &Weights::default());
        let vectors = HashMap::from([((1, ChunkId("b".into())), vec![0.8, 0.6])]);
        let before = files[0].score;
        apply_feedback(&mut files, &[1.0, 0.0], &vectors, &Weights::default());
        assert!((files[0].score - before).abs() < 1e-5 && files[0].score > 0.5, "{files:?}");
    }
}
