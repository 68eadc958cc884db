//! The two searches whose results are fused: keyword search (keyword leg) and vector search (vector leg).

use std::collections::HashSet;
use std::sync::Arc;

use tokio::task::JoinSet;
use vic_words::Language;

use crate::ask::asker::Asker;
use crate::ask::numbers;
use crate::error::{Error, Result};
use crate::index::ServingTable;
use crate::model::{ChunkId, FileId, LegHit};
use crate::store::{FileSet, KeywordQuery};

/// Minimum number of chunks that each search returns. A higher number takes more time; with a lower number, files that
/// rank high in only one of the searches are lost.
pub(super) const LEG_DEPTH: usize = 200;
/// Maximum number of additional vector searches in files not found yet, if chunks of a few long files fill the result.
const MAX_VECTOR_ROUNDS: usize = 4;

impl Asker {
    /// Repeats the vector search in the files not found yet until `limit` files are found or no file is left, because the
    /// passages of a few long files could fill the result.
    pub(super) async fn vector_leg_files(
        &self,
        served: &ServingTable,
        vector: &[f32],
        files: &FileSet,
        depth: usize,
        limit: usize,
    ) -> Result<Vec<LegHit>> {
        let mut hits = served.store.vector_leg(vector, files, depth).await?;
        let mut seen: HashSet<FileId> = hits.iter().map(|it| it.file_id).collect();
        for _ in 0..MAX_VECTOR_ROUNDS {
            if seen.len() >= limit || hits.len() < depth {
                break;
            }
            let mut rest = match files {
                FileSet::Only(ids) => ids.to_vec(),
                FileSet::All => served.store.file_ids(),
            };
            rest.retain(|it| !seen.contains(it));
            let more = served.store.vector_leg(vector, &FileSet::Only(Arc::new(rest)), depth).await?;
            if more.is_empty() {
                break;
            }
            seen.extend(more.iter().map(|it| it.file_id));
            hits.extend(more);
        }
        Ok(hits)
    }
}

/// Runs the keyword search as a separate task: the vector search compares millions of rows without yielding, and would block
/// a future in the same task. Dropping the returned future cancels the search.
pub(super) fn keyword_leg(
    served: &ServingTable,
    text: &str,
    languages: &[Language],
    files: &FileSet,
    depth: usize,
) -> impl Future<Output = Result<Vec<LegHit>>> + use<> {
    let (store, files) = (served.store.clone(), files.clone());
    let other_notations = numbers::alternative_keywords(text).join(" ");
    let keywords = KeywordQuery { terms: vic_words::question_terms(&format!("{text} {other_notations}"), languages) };
    let mut task = JoinSet::new();
    task.spawn(async move { store.keyword_leg(&keywords, &files, depth).await });
    async move {
        let done = task.join_next().await.ok_or_else(|| Error::internal("the keyword search did not start"))?;
        done.map_err(Error::internal)?
    }
}

/// Number of letters from which on the last word of a question counts as the beginning of a word, and up to which.
const BEGUN_LETTERS: std::ops::RangeInclusive<usize> = 2..=40;

/// Part of its score that a chunk keeps if it has only a word that begins like the last word of the question.
const BEGUN_SHARE: f32 = 0.5;

/// Returns the last word of a text, folded, if it may be the beginning of a word that is being typed.
pub(super) fn begun_word(text: &str) -> Option<String> {
    let at = text
        .rfind(|it: char| !it.is_alphanumeric())
        .map_or(0, |it| it + text[it..].chars().next().map_or(1, char::len_utf8));
    let word = vic_words::fold(&text[at..]).into_owned();
    BEGUN_LETTERS.contains(&word.chars().count()).then_some(word)
}

/// Searches for words that begin like the last word of the text, which is being typed.
pub(super) async fn begun_word_leg(served: &ServingTable, text: &str, files: &FileSet, depth: usize) -> Vec<LegHit> {
    match begun_word(text) {
        // Whole words answer too, so that an error here does not matter.
        Some(word) => served.store.chunks_with_prefix(&word, files, depth).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot search for words that begin like the last one");
            Vec::new()
        }),
        None => Vec::new(),
    }
}

/// Adds chunks that have a word which begins like the last word of the question, if whole words have not found them.
pub(super) fn add_begun_words(whole: &mut Vec<LegHit>, begun: Vec<LegHit>) {
    let known: HashSet<(FileId, ChunkId)> = whole.iter().map(|it| (it.file_id, it.chunk_id.clone())).collect();
    let others = begun.into_iter().filter(|it| !known.contains(&(it.file_id, it.chunk_id.clone())));
    whole.extend(others.map(|it| LegHit { score: it.score * BEGUN_SHARE, ..it }));
    whole.sort_by(|a, b| b.score.total_cmp(&a.score));
}

/// Returns the chunks that the keyword search found and the vector search did not.
pub(super) fn keyword_only_chunks(keyword: &[LegHit], vector: &[LegHit]) -> Vec<(FileId, ChunkId)> {
    // Compares the file id too, because copies of a file share chunk ids.
    let reached: HashSet<(FileId, &ChunkId)> = vector.iter().map(|it| (it.file_id, &it.chunk_id)).collect();
    keyword
        .iter()
        .filter(|it| !reached.contains(&(it.file_id, &it.chunk_id)))
        .map(|it| (it.file_id, it.chunk_id.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_word_counts_as_begun_unless_a_blank_ends_it() {
        for (text, expected) in [
            ("the leas", Some("leas")),
            ("Größ", Some("gross")),
            ("the lease ", None),
            ("a", None),
            ("x.y_report", Some("report")),
            ("Догов", Some("догов")),
            ("발", None),
            (&"a".repeat(41), None),
            ("", None),
        ] {
            assert_eq!(begun_word(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn chunks_with_begun_words_follow_whole_words() {
        let hit = |file_id, score| LegHit { chunk_id: ChunkId(format!("{file_id}")), file_id, score };
        let mut whole = vec![hit(1, 9.0), hit(2, 3.0)];
        add_begun_words(&mut whole, vec![hit(2, 12.0), hit(3, 8.0)]);
        let order: Vec<FileId> = whole.iter().map(|it| it.file_id).collect();
        assert_eq!(order, [1, 3, 2]);
    }
}
