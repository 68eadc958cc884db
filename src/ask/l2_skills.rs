//! L2, the last tier of a search: runs skills (e.g. OCR) on the best hits only, indexes their findings, and searches once
//! more, so that the findings are ranked like all other text.

use std::collections::{HashMap, HashSet};

use crate::ask::asker::Asker;
use crate::ask::hit::SearchOutcome;
use crate::ask::question::Question;
use crate::ask::relevance;
use crate::error::Result;
use crate::index::ServingTable;
use crate::model::{ChunkId, FileId, FileRecord, Tier};
use crate::skills::{Evidence, Findings, OCR_IMAGE};

/// Number of best files that skills run on if the plan does not set `l2_top_k`.
const DEFAULT_TOP_K: usize = 3;

/// What this question added to the index: text that skills found in files.
#[derive(Default)]
struct AddedEvidence {
    /// Ids of the new chunks, each with `now`, or with `before` if a skill found the text earlier and cached it.
    chunks: HashMap<ChunkId, &'static str>,
    files: HashSet<FileId>,
}

impl Asker {
    /// Runs the skills of the plan on the best files if the plan requires it. If it does not and no hit is relevant, runs
    /// OCR on files without text that match by name. Returns whether the hits have changed.
    pub(super) async fn run_l2_skills(
        &self,
        served: &ServingTable,
        question: &Question,
        outcome: &mut SearchOutcome,
    ) -> Result<bool> {
        let (files, skills) = if question.plan.requires_l2 {
            (self.files_for_skills(question, outcome, &question.plan.l2_skills, false), question.plan.l2_skills.clone())
        } else if !relevance::any_relevant(question, &outcome.hits) {
            let skills = vec![OCR_IMAGE.to_string()];
            (self.files_for_skills(question, outcome, &skills, true), skills)
        } else {
            return Ok(false);
        };
        if files.is_empty() {
            return Ok(false);
        }
        let Findings { found, warnings } =
            self.skills.run_all(&files, &skills, question.privacy, self.skills.budget()).await;
        outcome.warnings.extend(warnings.iter().map(|it| self.redact_addresses(it)));
        let fresh = self.index_findings(&files, found).await?;
        if fresh.chunks.is_empty() {
            return Ok(false);
        }
        // Reranked once more: the model has not read the new text, and its order has decided which files the skills read.
        let again = self.complete_search(question, self.search_index(served, question).await?).await?;
        outcome.hits = again.hits;
        outcome.merged = again.merged;
        outcome.word_weights = again.word_weights;
        outcome.warnings.extend(again.warnings);
        outcome.warnings.dedup();
        for found in outcome.hits.iter_mut().filter(|it| fresh.files.contains(&it.record.id)) {
            found.hit.layers.push(Tier::L2.name().into());
            let shown = found.evidence.as_ref().map(|it| &it.chunk.id);
            if let Some(when) = shown.and_then(|id| fresh.chunks.get(id)) {
                found.hit.tier = Tier::L2.name().into();
                found.hit.reasoning.push_str(&format!("; found by a skill {when}"));
            }
        }
        Ok(true)
    }

    /// Adds the text that the skills found to the index. Skips text from the cache that the index already contains.
    async fn index_findings(&self, files: &[FileRecord], found: Vec<(FileId, Evidence)>) -> Result<AddedEvidence> {
        let mut fresh = AddedEvidence::default();
        for (file_id, Evidence { skill, document, cached }) in found {
            let Some(record) = files.iter().find(|it| it.id == file_id) else { continue };
            if cached && self.index.has_evidence(record, &skill, &document).await? {
                continue;
            }
            let when = if cached { "before" } else { "now" };
            let ids = self.index.add_evidence(record, &skill, &document).await?;
            fresh.chunks.extend(ids.into_iter().map(|it| (it, when)));
            fresh.files.insert(file_id);
        }
        Ok(fresh)
    }

    /// Returns the best files that one of the skills can process; with `unread`, only files without a matching passage.
    fn files_for_skills(
        &self,
        question: &Question,
        outcome: &SearchOutcome,
        skills: &[String],
        unread: bool,
    ) -> Vec<FileRecord> {
        let most = question.plan.l2_top_k.map_or(DEFAULT_TOP_K, |it| it as usize);
        let fits = |record: &FileRecord| skills.iter().any(|skill| self.skills.applies(skill, record));
        let hits = outcome.hits.iter().filter(|it| !unread || it.evidence.is_none());
        hits.map(|it| &it.record).filter(|it| fits(it)).take(most).cloned().collect()
    }
}
