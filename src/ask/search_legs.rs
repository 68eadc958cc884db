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
