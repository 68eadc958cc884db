//! Finds files similar to a given file: files with a passage near the mean of the passages of the given file.
//!
//! The score of a similar file is the cosine, 0 to 1, between this mean and the nearest passage of the similar file. Copies
//! come first, with a score near 1.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::ask::asker::Asker;
use crate::ask::fuse::{self, Weights};
use crate::ask::hit::{self, RankedHit};
use crate::ask::index_state::SearchFolder;
use crate::ask::question::{HitRange, Question};
use crate::ask::retrieve::MAX_SEARCH_RETRIES;
use crate::ask::search_legs::LEG_DEPTH;
use crate::error::{Error, ErrorCode, Result};
use crate::index::ServingTable;
use crate::model::{
    AskRequest, AskResponse, FileFilter, FileRecord, FileState, L0Filters, QueryPlan, SimilarRequest, parse_path,
};
use crate::store::FileSet;

impl Asker {
    /// Returns the files that are similar to the file of the request, most similar first.
    ///
    /// # Errors
    /// The file is not indexed, a filter is invalid, or the index cannot be read.
    pub async fn similar(&self, request: SimilarRequest) -> Result<AskResponse> {
        let begun = Instant::now();
        let range = HitRange::new(request.limit, request.offset)?;
        let record = self.indexed_record(&parse_path(&request.path)).await?;
        let name = hit::shown_path(&record, None);
        let folder = self.resolve_search_folder(request.warehouse_root.as_deref()).await;
        let around = self.read_index_state(folder.as_ref()).await?;
        let filter = self.file_filter(&request.filters, folder.as_ref().map(SearchFolder::path))?;
        let files = self.other_files(&filter, &record).await?;
        let served = self.index.serving();
        let vectors = served.store.file_vectors(record.id).await?;
        let Some(mean) = mean_vector(&vectors) else {
            let message = format!("`{name}` has no vectors yet: only its text is indexed so far");
            return Err(Error::new(ErrorCode::FailedPrecondition, message).hint("`vic status` shows the progress"));
        };
        let plan = self.bare_plan(
            "similar",
            AskRequest { query: request.path.clone(), filters: request.filters.clone(), ..AskRequest::default() },
        );
        let mut question = Question {
            plan: plan.clone(),
            privacy: self.privacy,
            warnings: Vec::new(),
            model_unavailable: false,
            terms: Arc::default(),
            words: Vec::new(),
            filter: FileFilter::default(),
            limit: range.first_ranking(),
            reranked_hits: 0,
            explain: false,
            words_only: false,
        };
        let (mut found, mut merged, mut told) = self.find_similar(&served, &question, &mean, &files).await?;
        for limit in range.larger_rankings() {
            if range.is_filled(found.len()) {
                break;
            }
            question.limit = limit;
            let larger;
            (larger, merged, told) = self.find_similar(&served, &question, &mean, &files).await?;
            hit::add_larger_ranking(&mut found, larger, limit);
        }
        let mut warnings = around.warnings;
        warnings.append(&mut told);
        let mut hits: Vec<_> = found.into_iter().map(|it| it.hit).collect();
        range.cut(&mut hits);
        for hit in &mut hits {
            hit.reasoning = format!("similarity {:.2} to the mean of the passages of `{name}`", hit.score);
        }
        let mut stats = self.response_stats(&served, around.folders, &hits, merged).await?;
        stats.latency_ms = Some(begun.elapsed().as_secs_f64() * 1e3);
        Ok(AskResponse { query_plan: plan, hits, answer_summary: None, answer: None, warnings, stats: Some(stats) })
    }

    /// Returns a minimal plan. A response must contain a plan, although a search for similar files has no question to plan.
    fn bare_plan(&self, intent: &str, request: AskRequest) -> QueryPlan {
        QueryPlan {
            intent: intent.into(),
            l0_filters: (request.filters != L0Filters::default()).then_some(request.filters),
            l1_query_text: None,
            l1_threshold: None,
            date_order: None,
            requires_l2: false,
            l2_skills: Vec::new(),
            l2_top_k: None,
            privacy_mode: request.privacy_mode.unwrap_or(self.privacy),
            raw_user_text: request.query,
            planner_model_id: None,
        }
    }

    /// Returns the files with passages near a vector, their number, and warnings. Searches again if files were written
    /// meanwhile.
    async fn find_similar(
        &self,
        served: &ServingTable,
        question: &Question,
        mean: &[f32],
        files: &FileSet,
    ) -> Result<(Vec<RankedHit>, usize, Vec<String>)> {
        let depth = LEG_DEPTH.max(question.limit * 3);
        let mut looks = 0;
        loop {
            let near = self.vector_leg_files(served, mean, files, depth, question.limit).await?;
            let mut fused = fuse::fuse(&[], &near, &[], &Weights::default());
            for file in &mut fused {
                file.score = file.similarity.unwrap_or(0.0).clamp(0.0, 1.0);
            }
            let (merged, mut told) = (fused.len(), Vec::new());
            let presented = self.build_hits(served, question, fused, &mut told).await?;
            looks += 1;
            if !presented.is_stale || looks > MAX_SEARCH_RETRIES {
                return Ok((presented.found, merged, told));
            }
        }
    }

    async fn indexed_record(&self, path: &Path) -> Result<FileRecord> {
        let (catalog, scope, named) = (self.catalog.clone(), self.scope.clone(), path);
        let path = named.to_path_buf();
        crate::index::blocking_at_path(named, &self.scope, move || {
            let record = crate::index::find_record(&catalog, &scope, &path)?;
            if record.state != FileState::Indexed {
                let why = record.reason.map_or("it is not read yet", |it| it.name());
                return Err(Error::new(
                    ErrorCode::FailedPrecondition,
                    format!("`{}` is not indexed: {why}", path.display()),
                )
                .hint("`vic index` brings the index up to date"));
            }
            Ok(record)
        })
        .await
    }

    /// Returns the files that pass the filter, except the given file itself.
    async fn other_files(&self, filter: &FileFilter, record: &FileRecord) -> Result<FileSet> {
        let mut ids = match self.allowed_files(filter).await? {
            FileSet::Only(ids) => ids.to_vec(),
            FileSet::All => self.index.serving().store.file_ids(),
        };
        ids.retain(|it| *it != record.id);
        Ok(FileSet::Only(ids.into()))
    }
}

/// Returns the mean of vectors of norm 1, normalized to norm 1; `None` if there are no vectors or they cancel out.
fn mean_vector(vectors: &[Vec<f32>]) -> Option<Vec<f32>> {
    let mut sum = vec![0.0f32; vectors.first()?.len()];
    for vector in vectors {
        sum.iter_mut().zip(vector).for_each(|(sum, it)| *sum += it);
    }
    let norm = sum.iter().map(|it| it * it).sum::<f32>().sqrt();
    (norm > f32::EPSILON).then(|| sum.iter().map(|it| it / norm).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_is_normalised_and_none_without_vectors() {
        assert_eq!(mean_vector(&[vec![1.0, 0.0], vec![0.0, 1.0]]), Some(vec![0.5f32.sqrt(), 0.5f32.sqrt()]));
        assert_eq!(mean_vector(&[]), None);
        assert_eq!(mean_vector(&[vec![1.0, 0.0], vec![-1.0, 0.0]]), None);
    }
}
