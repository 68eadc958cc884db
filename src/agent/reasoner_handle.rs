//! Runs the tasks of one question on a reasoner, within its size limit, and collects the notes.

use crate::agent::context_budget;
use crate::agent::reasoners::Reasoner;
use crate::agent::sanitize::sanitize;
use crate::error::Result;
use crate::llm::plugin::{PluginRequest, PluginResponse, PluginTask};

/// A reasoner with its model, and the notes to collect.
pub(super) struct ReasonerHandle<'a> {
    pub(super) reasoner: &'a dyn Reasoner,
    pub(super) model: Option<String>,
    pub(super) notes: &'a mut Vec<String>,
}

impl ReasonerHandle<'_> {
    /// Cuts a task to the reasoner's limits and runs it. Collects its notes, and notes about what was cut.
    pub(super) async fn think(&mut self, task: PluginTask) -> Result<PluginResponse> {
        let (request, cuts) =
            context_budget::fit_request(self.reasoner, PluginRequest::new(self.model.clone(), task)).await?;
        let response = self.reasoner.run_task(&request).await?;
        let told = cuts.into_iter().map(String::from).chain(response.notes.iter().map(|it| sanitize(it)));
        for note in told {
            // Several tasks may cause the same note.
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        Ok(response)
    }
}
