//! Requests to language models and agents of the daemon. Documents are the JSON that the commands print.

use futures::stream::{Stream, StreamExt};
use serde_json::Value;

use crate::client::{Client, call_error, into_reply};
use crate::error::{Error, Result};
use crate::model::PrivacyMode;
use crate::model::agent::{Bounds, Override};
use crate::model::llm::{LlmRequest, LlmStreamEvent, ModelCapability};
use crate::proto::convert::embed_request;
use crate::proto::wire;

/// A request to the assistant: a model with tools.
#[derive(Clone, Debug, PartialEq)]
pub enum AssistWork {
    /// The backend in use and its availability.
    Status,
    /// A question to be translated into a query.
    Ask(String),
    /// As `Ask`, and answered.
    Answer(String),
    /// A question for an agent.
    Agent(String, Bounds),
    /// A request of the plugin protocol.
    Plugin(String),
    /// Proposals to extend, with their evidence texts.
    Augment {
        /// A whole `proposals.json`.
        proposals: Value,
        /// Texts by chunk.
        chunks: Vec<(String, String)>,
        /// Most proposals to add.
        most: u32,
    },
    /// The most recent runs of agents.
    Transcripts(u32),
    /// As `Transcripts`, one line each.
    Runs(u32),
    /// One tool call with its arguments.
    Tool(String, Value),
}

impl From<AssistWork> for wire::assist_request::Work {
    fn from(it: AssistWork) -> wire::assist_request::Work {
        use wire::assist_request::Work as Wire;
        match it {
            AssistWork::Status => Wire::Status(wire::AssistStatus {}),
            AssistWork::Ask(question) => Wire::Ask(question),
            AssistWork::Answer(question) => Wire::Answer(question),
            AssistWork::Agent(question, bounds) => Wire::Agent(wire::AssistAgent {
                question,
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
    /// Runs the work on the configured backend or on `over`.
    ///
    /// # Errors
    /// As reported by the daemon.
    pub async fn assist(&self, work: AssistWork, over: Override) -> Result<Value> {
        // Rounds up: zero seconds would mean no time at all.
        let timeout_seconds = over.time.map(|it| u32::try_from(it.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX));
        let request = wire::AssistRequest { backend: Some(over.into()), work: Some(work.into()), timeout_seconds };
        let response = into_reply(self.llm.clone().assist(request).await)?;
        serde_json::from_str(&response.document_json)
            .map_err(|error| Error::internal(format!("vicd returned a document that is not JSON: {error}")))
    }

    /// Sends a request to the configured backend or to `over` and follows its events; the last is `Completed` or `Error`.
    /// With `tools` the model may call vic's tools, which the daemon runs. Dropping the stream cancels the request.
    ///
    /// # Errors
    /// As reported by the daemon, at once or as an item.
    pub async fn llm_stream(
        &self,
        request: LlmRequest,
        over: Override,
        tools: bool,
    ) -> Result<impl Stream<Item = Result<LlmStreamEvent>> + Send + use<>> {
        let stream = into_reply(self.llm.clone().stream(wire_request(request, over, tools)).await)?;
        Ok(stream.map(|item| item.map_err(|status| call_error(&status))?.try_into()))
    }

    /// Checks a request against the capabilities of its model and returns them; sends nothing to the model.
    ///
    /// # Errors
    /// Those of [`Client::llm_stream`].
    pub async fn llm_validate(&self, request: LlmRequest, over: Override, tools: bool) -> Result<ModelCapability> {
        into_reply(self.llm.clone().validate(wire_request(request, over, tools)).await)?.try_into()
    }

    /// Embeds texts with a model of a backend; [`Client::embed`] uses the model of the index.
    ///
    /// # Errors
    /// `FailedPrecondition` if the backend cannot embed, and as reported by the daemon.
    pub async fn llm_embed(&self, texts: Vec<String>, mode: PrivacyMode, over: Override) -> Result<Vec<Vec<f32>>> {
        let request = embed_request(texts, mode, over);
        let response = into_reply(self.llm.clone().embed(request).await)?;
        Ok(response.vectors.into_iter().map(|it| it.values).collect())
    }
}

/// Builds the wire request. The model of `over` takes precedence over that of the request.
fn wire_request(request: LlmRequest, over: Override, use_vic_tools: bool) -> wire::LlmRequest {
    let model = over.model.clone().or_else(|| request.model.as_ref().map(|it| it.0.clone()));
    let backend = Some(Override { model, ..over }.into());
    wire::LlmRequest { backend, use_vic_tools, ..request.into() }
}
