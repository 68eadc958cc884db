//! Client calls to the daemon's language models and agents. Results are the JSON documents that the commands print.

use futures::stream::{Stream, StreamExt};
use serde_json::Value;

use crate::client::{Client, call_error, into_reply};
use crate::error::{Error, Result};
use crate::model::PrivacyMode;
use crate::model::agent::{Bounds, Override};
use crate::model::llm::{LlmRequest, LlmStreamEvent, ModelCapability};
use crate::proto::convert::embed_request;
use crate::proto::wire;

/// A request to the assistant, which is a language model with tools.
#[derive(Clone, Debug, PartialEq)]
pub enum AssistWork {
    /// Report which backend is in use and whether it is available.
    Status,
    /// Translate a question into a query.
    Ask(String),
    /// Translate a question into a query, and answer it.
    Answer(String),
    /// Let an agent answer a question within limits.
    Agent {
        /// The question in plain words.
        question: String,
        /// Limits of the run.
        bounds: Bounds,
        /// Whether a plugin gets the results of a search for the question before its first step.
        prefetch: bool,
    },
    /// Run a request of the plugin protocol.
    Plugin(String),
    /// Extend a set of graph proposals, given with the texts that support them.
    Augment {
        /// Content of a whole `proposals.json`.
        proposals: Value,
        /// Texts of chunks, as (chunk id, text).
        chunks: Vec<(String, String)>,
        /// Maximum number of proposals to add.
        most: u32,
    },
    /// Return this many of the most recent agent runs, in full.
    Transcripts(u32),
    /// Return this many of the most recent agent runs, one line each.
    Runs(u32),
    /// Call a tool by name with these arguments.
    Tool(String, Value),
}

impl From<AssistWork> for wire::assist_request::Work {
    fn from(it: AssistWork) -> wire::assist_request::Work {
        use wire::assist_request::Work as Wire;
        match it {
            AssistWork::Status => Wire::Status(wire::AssistStatus {}),
            AssistWork::Ask(question) => Wire::Ask(question),
            AssistWork::Answer(question) => Wire::Answer(question),
            AssistWork::Agent { question, bounds, prefetch } => Wire::Agent(wire::AssistAgent {
                question,
                prefetch,
                max_steps: Some(bounds.steps),
                seconds: Some(u32::try_from(bounds.time.as_secs()).unwrap_or(u32::MAX)),
                max_tokens: Some(bounds.tokens),
            }),
            AssistWork::Plugin(request) => Wire::PluginJson(request),
            AssistWork::Augment { proposals, chunks, most } => Wire::Augment(wire::AssistAugment {
                proposals_json: proposals.to_string(),
                evidence_chunks: chunks.into_iter().collect(),
                max_new_proposals: most,
            }),
            AssistWork::Transcripts(limit) => Wire::Transcripts(wire::AssistTranscripts { limit, brief: false }),
            AssistWork::Runs(limit) => Wire::Transcripts(wire::AssistTranscripts { limit, brief: true }),
            AssistWork::Tool(name, arguments) => {
                Wire::Tool(wire::AssistTool { name, arguments_json: arguments.to_string() })
            }
        }
    }
}

impl Client {
    /// Runs the work on the configured backend, with the settings in `over` replaced.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn assist(&self, work: AssistWork, over: Override) -> Result<Value> {
        // Round up to whole seconds: a time limit below one second must not become zero, which means no time at all.
        let timeout_seconds = over.time.map(|it| u32::try_from(it.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX));
        let request = wire::AssistRequest { backend: Some(over.into()), work: Some(work.into()), timeout_seconds };
        let response = into_reply(self.llm.clone().assist(request).await)?;
        serde_json::from_str(&response.document_json)
            .map_err(|error| Error::internal(format!("vicd returned a document that is not JSON: {error}")))
    }

    /// Sends a request to the configured backend, with the settings in `over` replaced, and returns its events; the last is
    /// `Completed` or `Error`. With `tools` the model may call vic's tools. Dropping the stream cancels the request.
    ///
    /// # Errors
    /// As reported by the daemon, before the first event or as an item of the stream.
    pub async fn llm_stream(
        &self,
        request: LlmRequest,
        over: Override,
        tools: bool,
    ) -> Result<impl Stream<Item = Result<LlmStreamEvent>> + Send + use<>> {
        let stream = into_reply(self.llm.clone().stream(wire_request(request, over, tools)).await)?;
        Ok(stream.map(|item| item.map_err(|status| call_error(&status))?.try_into()))
    }

    /// Checks a request against the capabilities of its model and returns these capabilities; sends nothing to the model.
    ///
    /// # Errors
    /// As [`Client::llm_stream`].
    pub async fn llm_validate(&self, request: LlmRequest, over: Override, tools: bool) -> Result<ModelCapability> {
        into_reply(self.llm.clone().validate(wire_request(request, over, tools)).await)?.try_into()
    }

    /// Embeds texts with a model of a language model backend; [`Client::embed`] uses the embedding model of the index.
    ///
    /// # Errors
    /// `FailedPrecondition` if the backend cannot embed texts, and errors as reported by the daemon.
    pub async fn llm_embed(&self, texts: Vec<String>, mode: PrivacyMode, over: Override) -> Result<Vec<Vec<f32>>> {
        let request = embed_request(texts, mode, over);
        let response = into_reply(self.llm.clone().embed(request).await)?;
        Ok(response.vectors.into_iter().map(|it| it.values).collect())
    }
}

/// Builds the wire request. If both name a model, that of `over` applies.
fn wire_request(request: LlmRequest, over: Override, use_vic_tools: bool) -> wire::LlmRequest {
    let model = over.model.clone().or_else(|| request.model.as_ref().map(|it| it.0.clone()));
    let backend = Some(Override { model, ..over }.into());
    wire::LlmRequest { backend, use_vic_tools, ..request.into() }
}
