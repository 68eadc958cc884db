//! Runs the tasks of one question on a reasoner, within the reasoner's size limit, and collects notes for the caller.

use crate::agent::context_budget;
use crate::agent::reasoners::Reasoner;
use crate::agent::sanitize::sanitize;
use crate::error::Result;
use crate::llm::plugin::{PluginRequest, PluginResponse, PluginTask};

/// A reasoner, the model to request from it, and the notes collected so far.
pub(super) struct ReasonerHandle<'a> {
    pub(super) reasoner: &'a dyn Reasoner,
    pub(super) model: Option<String>,
    pub(super) notes: &'a mut Vec<String>,
}

impl ReasonerHandle<'_> {
    /// Shortens a task to the reasoner's size limit and runs it. Collects the notes in the response, and notes about
    /// what was left out of the task.
    pub(super) async fn think(&mut self, task: PluginTask) -> Result<PluginResponse> {
        let (request, cuts) =
            context_budget::fit_request(self.reasoner, PluginRequest::new(self.model.clone(), task)).await?;
        let response = self.reasoner.run_task(&request).await?;
        let told = cuts.into_iter().map(String::from).chain(response.notes.iter().map(|it| sanitize(it)));
        for note in told {
            // Adds each note once, because several tasks may cause the same note.
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        Ok(response)
    }
}
