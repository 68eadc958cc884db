//! The keyword leg and the vector leg of a search.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::ask::asker::Asker;
use crate::ask::numbers;
use crate::error::{Error, Result};
use crate::index::ServingTable;
use crate::model::{ChunkId, FileId, LegHit};
use crate::store::{FileSet, KeywordQuery};

/// Fewest chunks from each leg. More cost time, fewer lose files that are good in one leg only.
pub(super) const LEG_DEPTH: usize = 200;
/// Further vector searches for other files if the chunks of a few long ones filled the leg.
const MAX_VECTOR_ROUNDS: usize = 4;

impl Asker {
    /// Repeats the vector leg until it has `limit` files or all there are, because the passages of a few long files could
    /// fill the leg.
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
                FileSet::All => served.store.file_ids().await?,
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

/// Spawns the keyword leg as a task of its own: the vector leg compares millions of rows without a yield, and would block a
/// future in the same task. Dropping the returned future ends the leg.
pub(super) fn keyword_leg(
    served: &ServingTable,
    text: &str,
    files: &FileSet,
    depth: usize,
) -> impl Future<Output = Result<Vec<LegHit>>> + use<> {
    let (store, files) = (served.store.clone(), files.clone());
    let other_notations = numbers::alternative_keywords(text).join(" ");
    let keywords = KeywordQuery { text: format!("{text} {other_notations}") };
    let mut task = JoinSet::new();
    task.spawn(async move { store.keyword_leg(&keywords, &files, depth).await });
    async move {
        let done = task.join_next().await.ok_or_else(|| Error::internal("the keyword leg did not start"))?;
        done.map_err(Error::internal)?
    }
}

/// Returns the keyword leg's chunks that the vector leg did not reach.
pub(super) fn keyword_only_chunks(keyword: &[LegHit], vector: &[LegHit]) -> Vec<(FileId, ChunkId)> {
    // Compares by file too: copies of a file share chunk ids.
    let reached: HashSet<(FileId, &ChunkId)> = vector.iter().map(|it| (it.file_id, &it.chunk_id)).collect();
    keyword
        .iter()
        .filter(|it| !reached.contains(&(it.file_id, &it.chunk_id)))
        .map(|it| (it.file_id, it.chunk_id.clone()))
        .collect()
}
