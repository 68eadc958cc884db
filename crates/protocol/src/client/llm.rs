//! Language models and agents, as the daemon has them. Documents come as the JSON that the commands print.

use futures::stream::{Stream, StreamExt};
use serde_json::Value;

use crate::client::{Client, call_error, reply};
use crate::error::{Error, Result};
use crate::model::PrivacyMode;
use crate::model::agent::{Bounds, Override};
use crate::model::llm::{LlmRequest, LlmStreamEvent, ModelCapability};
use crate::proto::convert::embedding;
use crate::proto::wire;

/// A piece of work for model and tools.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Which backend is in use, and whether it can be reached.
    Status,
    /// A question to a query.
    Ask(String),
    /// The same, with an answer.
    Answer(String),
    /// A question for an agent.
    Agent(String, Bounds),
    /// A request of the plugin protocol.
    Plugin(String),
    /// Proposals to add to, with the texts they rest on.
    Augment {
        /// A whole `proposals.json`.
        proposals: Value,
        /// Texts by chunk.
        chunks: Vec<(String, String)>,
        /// Most proposals to add.
        most: u32,
    },
    /// What agents did last.
    Transcripts(u32),
    /// The same in one line each.
    Runs(u32),
    /// One tool with its arguments.
    Tool(String, Value),
}

impl From<Work> for wire::assist_request::Work {
    fn from(it: Work) -> wire::assist_request::Work {
        use wire::assist_request::Work as Wire;
        match it {
            Work::Status => Wire::Status(wire::AssistStatus {}),
            Work::Ask(question) => Wire::Ask(question),
            Work::Answer(question) => Wire::Answer(question),
            Work::Agent(question, bounds) => Wire::Agent(wire::AssistAgent {
                question,
                max_steps: Some(bounds.steps),
                seconds: Some(u32::try_from(bounds.time.as_secs()).unwrap_or(u32::MAX)),
                max_tokens: Some(bounds.tokens),
            }),
            Work::Plugin(request) => Wire::PluginJson(request),
            Work::Augment { proposals, chunks, most } => Wire::Augment(wire::AssistAugment {
                proposals_json: proposals.to_string(),
                evidence_chunks: chunks.into_iter().collect(),
                max_new_proposals: most,
            }),
            Work::Transcripts(limit) => Wire::Transcripts(wire::AssistTranscripts { limit, brief: false }),
            Work::Runs(limit) => Wire::Transcripts(wire::AssistTranscripts { limit, brief: true }),
            Work::Tool(name, arguments) => Wire::Tool(wire::AssistTool { name, arguments_json: arguments.to_string() }),
        }
    }
}

impl Client {
    /// Has a piece of work done, by the chosen backend or another one.
    ///
    /// # Errors
    /// As the daemon says.
    pub async fn assist(&self, work: Work, over: Override) -> Result<Value> {
        // A part of a second is a second: none would be no time at all.
        let timeout_seconds = over.time.map(|it| u32::try_from(it.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX));
        let request = wire::AssistRequest { backend: Some(over.into()), work: Some(work.into()), timeout_seconds };
        let response = reply(self.llm.clone().assist(request).await)?;
        serde_json::from_str(&response.document_json)
            .map_err(|error| Error::internal(format!("vicd gave a document that is no JSON: {error}")))
    }

    /// Asks a model, by the chosen backend or another one, and follows its events; the last is `Completed` or `Error`.
    /// With `tools` it may call those of vic, which the daemon runs. Dropping the stream ends the request.
    ///
    /// # Errors
    /// As the daemon says, at once or as an item.
    pub async fn llm_stream(
        &self,
        request: LlmRequest,
        over: Override,
        tools: bool,
    ) -> Result<impl Stream<Item = Result<LlmStreamEvent>> + Send + use<>> {
        let stream = reply(self.llm.clone().stream(asked(request, over, tools)).await)?;
        Ok(stream.map(|item| item.map_err(|status| call_error(&status))?.try_into()))
    }

    /// Holds a request against what its model can do, which it gives; nothing of the request is sent.
    ///
    /// # Errors
    /// What [`Client::llm_stream`] would refuse.
    pub async fn llm_validate(&self, request: LlmRequest, over: Override, tools: bool) -> Result<ModelCapability> {
        reply(self.llm.clone().validate(asked(request, over, tools)).await)?.try_into()
    }

    /// Turns texts into vectors by a model of a backend; [`Client::embed`] does it by the model of the index.
    ///
    /// # Errors
    /// `FailedPrecondition` where the backend does not embed, and as the daemon says.
    pub async fn llm_embed(&self, texts: Vec<String>, mode: PrivacyMode, over: Override) -> Result<Vec<Vec<f32>>> {
        let request = embedding(texts, mode, over);
        let response = reply(self.llm.clone().embed(request).await)?;
        Ok(response.vectors.into_iter().map(|it| it.values).collect())
    }
}

/// A request for the wire. A model that the backend names goes before the one of the request.
fn asked(request: LlmRequest, over: Override, use_vic_tools: bool) -> wire::LlmRequest {
    let model = over.model.clone().or_else(|| request.model.as_ref().map(|it| it.0.clone()));
    let backend = Some(Override { model, ..over }.into());
    wire::LlmRequest { backend, use_vic_tools, ..request.into() }
}
