//! Logs each run of an agent before its answer is returned, and lists the logged runs to the owner.

use std::time::SystemTime;

use serde_json::json;

use crate::agent::assistant::Assistant;
use crate::agent::tool_loop::AgentReport;
use crate::error::{Error, ErrorCode, Result};
use crate::model::{AgentRun, TranscriptRecord};
use crate::secrets::{Redactor, redact_json};

impl Assistant {
    /// Returns the latest agent runs with their transcripts, newest first; for the owner only.
    ///
    /// # Errors
    /// `PermissionDenied` for other callers; the log cannot be read.
    pub async fn transcripts(&self, limit: usize) -> Result<Vec<TranscriptRecord>> {
        if !self.is_owner {
            return Err(Error::new(ErrorCode::PermissionDenied, "only the owner may list agent runs"));
        }
        let shared = self.shared.clone();
        crate::index::blocking(move || shared.transcripts.as_ref().map_or(Ok(Vec::new()), |it| it.list(limit))).await
    }

    /// Returns the latest agent runs without transcripts, newest first; for the owner only.
    ///
    /// # Errors
    /// See [`Assistant::transcripts`].
    pub async fn runs(&self, limit: usize) -> Result<Vec<AgentRun>> {
        Ok(self.transcripts(limit).await?.into_iter().map(AgentRun::from).collect())
    }

    /// Writes the report of an agent run to the log, with secrets redacted.
    pub(super) async fn log_report(&self, report: &AgentReport) -> Result<()> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Redacts the report, because the user may have typed a key in the question, which must not be written to a file.
        let redaction = self.shared.config.limits.redaction;
        let mut kept = serde_json::to_value(report).unwrap_or_else(|_| json!(null));
        redact_json(&mut kept, redaction);
        let record = TranscriptRecord {
            time_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            model: report.model.clone(),
            question: Redactor::new(redaction).redact(&report.question).into_owned(),
            report: kept,
        };
        let shared = self.shared.clone();
        crate::index::blocking(move || shared.transcripts.as_ref().map_or(Ok(()), |it| it.add(&record))).await
    }
}
