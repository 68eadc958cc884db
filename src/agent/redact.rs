//! Redacts keys and tokens in the request to a reasoner. Each string is searched on its own, because JSON escapes would hide
//! keys from a search of the whole text. Runs before a task is shortened, because half a key would not be recognised.

use crate::error::{Error, Result};
use crate::llm::plugin::PluginRequest;
use crate::model::Redaction;
use crate::secrets::redact_json;

/// Returns the request with its keys and tokens redacted.
///
/// # Errors
/// The task cannot be converted to or from JSON.
pub(super) fn redact_request(request: PluginRequest, redaction: Redaction) -> Result<PluginRequest> {
    if redaction == Redaction::None {
        return Ok(request);
    }
    let mut task = serde_json::to_value(&request.task).map_err(Error::internal)?;
    redact_json(&mut task, redaction);
    Ok(PluginRequest { task: serde_json::from_value(task).map_err(Error::internal)?, ..request })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::llm::plugin::{PluginTask, SchemaHints, TranscriptStep};

    const VALUE: &str = "Zk3vQ9mX2pLr8TnB5wYs";

    fn check(task: PluginTask) {
        let request = PluginRequest::new(Some("m".into()), task);
        let clean = redact_request(request.clone(), Redaction::Keys).unwrap();
        let told = serde_json::to_string(&clean).unwrap();
        assert!(!told.contains(VALUE) && told.contains("[redacted]"), "{told}");
        assert_eq!((&clean.protocol, &clean.model), (&request.protocol, &request.model));
        assert_eq!(redact_request(request.clone(), Redaction::None).unwrap(), request);
    }

    #[test]
    fn every_string_of_a_task_is_redacted() {
        let question = format!("api_key = \"{VALUE}\", whose is it?");
        let rows = json!({ "vars": ["?k"], "rows": [{ "?k": { "api_key": VALUE } }] });
        let named = json!({ "rows": [{ format!("token:\n{VALUE}"): 1 }] });
        check(PluginTask::Answer { question: "whose?".into(), query: json!({}), results: named });
        check(PluginTask::ToQuery { question: question.clone(), schema: SchemaHints::default() });
        check(PluginTask::Answer { question: "whose?".into(), query: json!({}), results: rows.clone() });
        let call = TranscriptStep { tool: "t".into(), args: json!({ "query": question }), result: rows };
        let step = |transcript| PluginTask::ToolLoopStep {
            question: "whose?".into(),
            schema: SchemaHints::default(),
            tools: Vec::new(),
            transcript,
            refused: None,
        };
        check(step(vec![call]));
        let chunks = [("c1".to_string(), format!("The token:\n{VALUE}"))];
        check(PluginTask::AugmentProposals {
            proposals: json!({ "proposals": [] }),
            evidence_chunks: Some(chunks.into()),
            max_new_proposals: 1,
        });
    }
}
