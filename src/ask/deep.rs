//! L2: skills over the best hits of a question, and of nothing else. What they find goes into the index, and the question
//! is asked once more, so that evidence is ranked like everything else.

use std::collections::HashSet;

use crate::ask::{Asker, Outcome, Question, answer};
use crate::error::Result;
use crate::index::Served;
use crate::model::{ChunkId, FileRecord, Tier};
use crate::skills::{Findings, OCR_IMAGE, QUESTION_BUDGET};

/// Files looked into when the plan does not say how many.
const DEFAULT_TOP_K: usize = 3;

impl Asker {
    /// Looks into the best files if the plan wants it, or if nothing that was found speaks of the question and there are
    /// files whose names do and whose text was never read. Returns whether the hits have changed.
    pub(super) async fn deepen(&self, served: &Served, question: &Question, outcome: &mut Outcome) -> Result<bool> {
        let (files, skills) = if question.plan.requires_l2 {
            (self.suitable(question, outcome, &question.plan.l2_skills, false), question.plan.l2_skills.clone())
        } else if !answer::any_speaks(question, &outcome.hits) {
            let skills = vec![OCR_IMAGE.to_string()];
            (self.suitable(question, outcome, &skills, true), skills)
        } else {
            return Ok(false);
        };
        if files.is_empty() {
            return Ok(false);
        }
        let Findings { found, warnings } =
            self.skills.run_all(&files, &skills, question.privacy, QUESTION_BUDGET).await;
        outcome.warnings.extend(warnings);
        let mut fresh: HashSet<ChunkId> = HashSet::new();
        let mut read = HashSet::new();
        for (file_id, evidence) in found.into_iter().filter(|(_, it)| !it.cached) {
            let Some(record) = files.iter().find(|it| it.id == file_id) else { continue };
            fresh.extend(self.index.add_evidence(record, &evidence.skill, &evidence.document).await?);
            read.insert(file_id);
        }
        if fresh.is_empty() {
            return Ok(false);
        }
        let again = self.find(served, question).await?;
        outcome.hits = again.hits;
        outcome.merged = again.merged;
        outcome.warnings.extend(again.warnings);
        outcome.warnings.dedup();
        for found in outcome.hits.iter_mut().filter(|it| read.contains(&it.record.id)) {
            found.hit.layers.push(Tier::L2.name().into());
            let shown = found.evidence.as_ref().map(|it| &it.chunk.id);
            if shown.is_some_and(|id| fresh.contains(id)) {
                found.hit.tier = Tier::L2.name().into();
                found.hit.reasoning.push_str("; found by looking into the file now");
            }
        }
        Ok(true)
    }

    /// The best files that one of the skills can look into.
    fn suitable(&self, question: &Question, outcome: &Outcome, skills: &[String], unread: bool) -> Vec<FileRecord> {
        let most = question.plan.l2_top_k.map_or(DEFAULT_TOP_K, |it| it as usize);
        let fits = |record: &FileRecord| skills.iter().any(|skill| self.skills.applies(skill, record));
        let hits = outcome.hits.iter().filter(|it| !unread || it.evidence.is_none());
        hits.map(|it| &it.record).filter(|it| fits(it)).take(most).cloned().collect()
    }
}
