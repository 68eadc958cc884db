//! Serves language models over gRPC: converts a request, calls the [`Assistant`] of the caller, and converts the result.

use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::agent::{AgentRequest, Assistant, Override};
use crate::error::{Error, ErrorCode, Result};
use crate::llm::{CancelOutcome, LlmStreamEvent, TaskId};
use crate::machine::block_in_place;
use crate::model::llm::event::ProofRecord;
use crate::proto::json::{MAX_JSON, MAX_PROPOSALS};
use crate::proto::{convert, grpc_status, json, wire};
use crate::serve::auth::authorized_service::AuthorizedService;
use crate::serve::{Service, validate};

/// Maximum number of full agent reports that one call returns.
const MAX_TRANSCRIPTS: u32 = 1_000;
/// Maximum number of one-line summaries of agent runs that one call returns.
const MAX_RUNS: u32 = 10_000;

type Reply<T> = Result<Response<T>, Status>;
type EventStream = BoxStream<'static, Result<wire::LlmEvent, Status>>;

/// The gRPC service `Llm`: passes each request to the [`Assistant`] of its [`AuthorizedService`].
pub(crate) struct Adapter {
    /// Cancelled at shutdown. Ends the streams, which would otherwise delay the shutdown.
    shutdown: CancellationToken,
}

impl Adapter {
    pub(crate) fn new(shutdown: CancellationToken) -> Adapter {
        Adapter { shutdown }
    }

    fn response_events(&self, assistant: &Assistant, request: wire::LlmRequest) -> Result<EventStream> {
        let over = backend_override(request.backend.clone())?;
        let tools = request.use_vic_tools;
        let mut proof = request.with_proof.then(ProofRecord::default);
        let events = assistant.stream(request.try_into()?, &over, tools)?;
        let shutdown = self.shutdown.clone().cancelled_owned();
        let ended = futures::stream::once(async move {
            shutdown.await;
            let gone = Error::new(ErrorCode::Unavailable, "vicd stopped before the answer was complete");
            Ok(LlmStreamEvent::from_error(&gone))
        });
        // Merges the events with the shutdown signal; the merged stream ends as soon as one of them ends.
        let both =
            futures::stream::select(events.map(Some).chain(futures::stream::once(async { None })), ended.map(Some));
        let until_end = both.take_while(|it| std::future::ready(it.is_some())).filter_map(std::future::ready);
        let mut sent = move |event: LlmStreamEvent| {
            let Some(proof) = &mut proof else { return event.into() };
            proof.add(&event);
            let is_last = event.is_last();
            let event = wire::LlmEvent::from(event);
            if is_last { event.with_proof(proof.clone()) } else { event }
        };
        Ok(until_end.map(move |it| it.map(&mut sent).map_err(grpc_status::from_error)).boxed())
    }
}

#[tonic::async_trait]
impl wire::llm_server::Llm for Adapter {
    type StreamStream = EventStream;

    async fn get_capabilities(
        &self,
        request: Request<wire::GetCapabilitiesRequest>,
    ) -> Reply<wire::CapabilitySnapshot> {
        let (assistant, request) = split_request(request)?;
        respond(async { assistant.capabilities(&backend_override(request.backend)?).await }.await)
    }

    async fn stream(&self, request: Request<wire::LlmRequest>) -> Reply<EventStream> {
        let (assistant, request) = split_request(request)?;
        respond(self.response_events(&assistant, request))
    }

    async fn validate(&self, request: Request<wire::LlmRequest>) -> Reply<wire::ModelCapability> {
        let (assistant, request) = split_request(request)?;
        let validated = async {
            let (over, tools) = (backend_override(request.backend.clone())?, request.use_vic_tools);
            assistant.validate(request.try_into()?, &over, tools).await
        };
        respond(validated.await)
    }

    async fn embed(&self, request: Request<wire::LlmEmbedRequest>) -> Reply<wire::LlmEmbedResponse> {
        let (assistant, request) = split_request(request)?;
        let vectors = async {
            let mode = convert::privacy_mode(request.privacy_mode)?;
            assistant.embed(&request.texts, mode, &backend_override(request.backend)?).await
        };
        let vector = |values: Vec<f32>| wire::LlmVector { values };
        let response = |it: Vec<_>| wire::LlmEmbedResponse { vectors: it.into_iter().map(vector).collect() };
        respond(vectors.await.map(response))
    }

    async fn cancel(&self, request: Request<wire::CancelLlmRequest>) -> Reply<wire::CancelLlmResponse> {
        let (assistant, request) = split_request(request)?;
        let ended = assistant.cancel(&TaskId(request.task_id)) == CancelOutcome::Ended;
        respond(Ok(wire::CancelLlmResponse { ended }))
    }

    async fn assist(&self, request: Request<wire::AssistRequest>) -> Reply<wire::AssistResponse> {
        let (assistant, request) = split_request(request)?;
        // Stops the work at shutdown, because the shutdown does not wait for a model.
        let done = self.shutdown.run_until_cancelled(run_assist(&assistant, request)).await;
        let gone = || Err(Error::new(ErrorCode::Unavailable, "vicd stopped before the work was complete"));
        respond(done.unwrap_or_else(gone).map(|document_json| wire::AssistResponse { document_json }))
    }
}

async fn run_assist(assistant: &Assistant, request: wire::AssistRequest) -> Result<String> {
    use wire::assist_request::Work;
    let time = request.timeout_seconds.map(|it| Duration::from_secs(it.into()));
    let over = Override { time, ..backend_override(request.backend)? };
    match request.work.ok_or_else(|| Error::invalid("the request sets no `work`").field("work"))? {
        Work::Status(_) => to_json(&assistant.status(&over).await?),
        Work::Ask(question) => to_json(&assistant.ask(&question, &over).await?),
        Work::Answer(question) => to_json(&assistant.answer(&question, &over).await?),
        Work::Agent(agent) => {
            let seconds = agent.seconds.or(request.timeout_seconds);
            let agent = wire::AssistAgent { seconds, ..agent };
            to_json(&assistant.agent(&AgentRequest { over, ..agent.into() }).await?)
        }
        Work::PluginJson(request) => {
            json::check_size("plugin_json", request.len(), MAX_PROPOSALS)?;
            to_json(&assistant.run_plugin_task(&request, &over).await?)
        }
        Work::Augment(augment) => {
            let proposals =
                block_in_place(|| json::json_field("proposals_json", &augment.proposals_json, MAX_PROPOSALS))?;
            let chunks = augment.evidence_chunks.into_iter().collect();
            to_json(&assistant.augment(proposals, chunks, augment.max_new_proposals, &over).await?)
        }
        Work::Transcripts(wanted) => {
            let most = if wanted.brief { MAX_RUNS } else { MAX_TRANSCRIPTS };
            let limit = validate::value_or_default("limit", wanted.limit, 20, most)? as usize;
            match wanted.brief {
                true => to_json(&assistant.runs(limit).await?),
                false => to_json(&assistant.transcripts(limit).await?),
            }
        }
        Work::Tool(tool) => {
            let text = if tool.arguments_json.trim().is_empty() { "{}" } else { &tool.arguments_json };
            to_json(&assistant.call(&tool.name, json::json_field("arguments_json", text, MAX_JSON)?).await?)
        }
    }
}

fn to_json(document: &impl Serialize) -> Result<String> {
    serde_json::to_string(document).map_err(Error::internal)
}

fn backend_override(backend: Option<wire::LlmBackend>) -> Result<Override, Error> {
    backend.map_or_else(|| Ok(Override::default()), TryInto::try_into)
}

/// Splits a request into the assistant of its caller and its message.
fn split_request<T>(request: Request<T>) -> Result<(Assistant, T), Status> {
    let caller = request.extensions().get::<AuthorizedService>().map(AuthorizedService::service);
    let service = caller.ok_or_else(|| grpc_status::from_error(Error::internal("the request has no caller")))?;
    let assistant = Service::assistant(&*service).map_err(grpc_status::from_error)?;
    Ok((assistant, request.into_inner()))
}

fn respond<A: Into<B>, B>(result: Result<A>) -> Reply<B> {
    result.map(|it| Response::new(it.into())).map_err(grpc_status::from_error)
}
