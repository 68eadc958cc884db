//! Round trip tests of model requests and events through their encoded form.

use std::time::Duration;

use proptest::option::of;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::json;

use crate::error::ErrorCode;
use crate::model::ToolSpec;
use crate::model::agent::Override;
use crate::model::llm::{
    FinishReason, Guardrails, LlmRequest, LlmStreamEvent, Message, ModelCapability, ProofRecord, RetryPolicy, Role,
    TaskId, Timeouts, ToolCall, ToolError, ToolFault, Usage, WorkloadKind,
};
use crate::proto::convert::tests::{check_round_trip, privacy};
use crate::proto::convert::wire;

const WORKLOADS: [WorkloadKind; 4] =
    [WorkloadKind::Chat, WorkloadKind::Completion, WorkloadKind::Tool, WorkloadKind::Vision];

fn workload() -> impl Strategy<Value = WorkloadKind> {
    prop::sample::select(WORKLOADS.as_slice())
}

fn message() -> impl Strategy<Value = Message> {
    let call =
        (".{1,8}", ".{1,8}", ".{0,8}").prop_map(|(id, name, arguments_json)| ToolCall { id, name, arguments_json });
    let role = prop::sample::select([Role::User, Role::Assistant, Role::Tool].as_slice());
    (role, ".{0,20}", prop::collection::vec(call, 0..3), of((".{1,8}", ".{1,8}")))
        .prop_map(|(role, content, tool_calls, answers)| Message { tool_calls, answers, ..Message::new(role, content) })
}

prop_compose! {
    fn request()(
        workload in workload(), privacy_mode in privacy(), system in ".{0,8}",
        messages in prop::collection::vec(message(), 0..3), images in prop::collection::vec(any::<Vec<u8>>(), 0..2),
        (max_tokens, temperature, seed) in (any::<u32>(), 0.0f32..2.0, any::<u64>()), context_tokens in of(any::<u32>()),
        (stop, attempts, max_tool_rounds) in (prop::collection::vec(".{1,4}", 0..3), of(1u32..10), any::<u32>()),
        (tag, is_asked, seconds) in (".{0,8}", any::<bool>(), 1u64..3_600),
    ) -> LlmRequest {
        let parameters = json!({"type": "object"});
        let tool = ToolSpec { name: "weigh".into(), description: tag.clone(), parameters };
        LlmRequest {
            workload, images, max_tokens, temperature, context_tokens, messages,
            seed: Some(seed),
            schema: is_asked.then(|| json!({"type": "string"})),
            tools: if is_asked { vec![tool] } else { vec![] },
            timeouts: Timeouts { overall: Duration::from_secs(seconds), ..Timeouts::default() },
            metadata: [("tag".to_string(), tag)].into(),
            guardrails: Some(Guardrails { stop, retry: attempts.map(RetryPolicy::with_attempts), max_tool_rounds }),
            ..LlmRequest::new(privacy_mode, &system, "")
        }
    }
}

fn event() -> impl Strategy<Value = LlmStreamEvent> {
    use ToolFault::{Failed, InvalidArguments, Timeout, TooLarge, Unknown};
    let fault = prop::sample::select([Unknown, InvalidArguments, Timeout, TooLarge, Failed].as_slice());
    let usage = of(any::<(u64, u64)>())
        .prop_map(|it| it.map(|(prompt_tokens, answer_tokens)| Usage { prompt_tokens, answer_tokens }));
    prop_oneof![
        (".{0,8}", any::<i64>())
            .prop_map(|(id, accepted_at)| LlmStreamEvent::Started { task_id: TaskId(id), accepted_at }),
        (".{0,8}", any::<u64>()).prop_map(|(text, index)| LlmStreamEvent::Token { text, index }),
        (".{0,8}", ".{0,8}", ".{0,8}").prop_map(|(descriptor_name, invocation_id, arguments_json)| {
            LlmStreamEvent::ToolCall { descriptor_name, invocation_id, arguments_json }
        }),
        (".{0,8}", ".{0,8}")
            .prop_map(|(invocation_id, payload_json)| LlmStreamEvent::ToolResult { invocation_id, payload_json }),
        (".{0,8}", fault, ".{0,8}").prop_map(|(invocation_id, kind, message)| LlmStreamEvent::ToolError {
            invocation_id,
            error: ToolError { kind, message },
        }),
        (any::<u32>(), ".{0,8}", any::<u64>()).prop_map(|(attempt, message, delay_ms)| LlmStreamEvent::Retrying {
            attempt,
            message,
            delay_ms
        }),
        (of(any::<u64>()), of(any::<u64>()), usage).prop_map(|(latency_ms, queue_depth, usage)| {
            LlmStreamEvent::Metrics { latency_ms, queue_depth, usage }
        }),
        last(),
    ]
}

fn last() -> impl Strategy<Value = LlmStreamEvent> {
    use FinishReason::{Cancelled, ContentFilter, Length, Other, Stop, ToolCalls};
    let finish = prop::sample::select([Stop, Length, ToolCalls, ContentFilter, Cancelled, Other].as_slice());
    let code = prop::sample::select(ErrorCode::ALL.as_slice());
    prop_oneof![
        finish.prop_map(|finish_reason| LlmStreamEvent::Completed { finish_reason }),
        (code, ".{0,8}", of(".{1,8}"), of(any::<bool>()), of(any::<u64>())).prop_map(
            |(code, message, hint, retriable, retry_after_ms)| LlmStreamEvent::Error {
                code,
                message,
                hint,
                retriable,
                retry_after_ms,
            }
        ),
    ]
}

proptest! {
    #[test]
    fn llm_request_round_trips(request in request()) {
        check_round_trip::<LlmRequest, wire::LlmRequest>(request);
    }

    #[test]
    fn llm_event_and_capability_round_trip(
        event in event(), id in ".{0,8}", context in of(any::<u32>()), max_tokens in any::<u32>(),
        workloads in prop::collection::vec(workload(), 0..4), passed_on_to in of(".{0,8}"),
    ) {
        check_round_trip::<LlmStreamEvent, wire::LlmEvent>(event);
        let model = ModelCapability {
            max_context_tokens: context, max_tokens, workloads, passed_on_to,
            ..ModelCapability::with_defaults(id.as_str().into())
        };
        check_round_trip::<ModelCapability, wire::ModelCapability>(model);
    }

    #[test]
    fn client_can_recompute_proof_seal(
        events in prop::collection::vec(event(), 0..5), last in last()
    ) {
        let (mut proof, mut seen) = (ProofRecord::default(), ProofRecord::default());
        for event in events.into_iter().chain([last]) {
            proof.add(&event);
            let bytes = wire::LlmEvent::from(event).with_proof(proof.clone()).encode_to_vec();
            let sent = wire::LlmEvent::decode(bytes.as_slice()).unwrap();
            let carried = match sent.event.clone().unwrap() {
                wire::llm_event::Event::Completed(it) => it.proof,
                wire::llm_event::Event::Error(it) => it.proof,
                _ => None,
            };
            let event = LlmStreamEvent::try_from(sent).unwrap();
            seen.add(&event);
            prop_assert_eq!(carried.as_ref().map(|it| (it.events, &it.seal)), event.is_last().then_some((seen.events, &seen.seal)));
        }
    }
}

#[test]
fn unknown_llm_values_are_rejected_with_field() {
    let message = |role: &str| wire::LlmMessage { role: role.into(), ..wire::LlmMessage::default() };
    for (request, field) in [
        (wire::LlmRequest { workload: "dance".into(), ..wire::LlmRequest::default() }, "workload"),
        (wire::LlmRequest { messages: vec![message("system")], ..wire::LlmRequest::default() }, "messages.role"),
        (wire::LlmRequest { schema_json: "{".into(), ..wire::LlmRequest::default() }, "schema_json"),
        (wire::LlmRequest { timeout_seconds: Some(0), ..wire::LlmRequest::default() }, "timeout_seconds"),
    ] {
        let error = LlmRequest::try_from(request).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArgument, Some(field)), "{error}");
    }
    let plain = LlmRequest::try_from(wire::LlmRequest::default()).unwrap();
    let rounds = plain.guardrails.unwrap().max_tool_rounds;
    assert_eq!((plain.workload, plain.context_tokens, rounds), (WorkloadKind::Chat, None, 8));
}

#[test]
fn oversized_schemas_and_tools_are_rejected_with_field() {
    let tool = |bytes: usize| wire::LlmTool { parameters_json: " ".repeat(bytes), ..wire::LlmTool::default() };
    let tools = |tools| wire::LlmRequest { tools, ..wire::LlmRequest::default() };
    let long = "0".repeat((256 << 10) + 1);
    for (request, field) in [
        (wire::LlmRequest { schema_json: long, ..wire::LlmRequest::default() }, "schema_json"),
        (tools(vec![tool((256 << 10) + 1)]), "tools.parameters_json"),
        (tools(vec![tool(256 << 10); 5]), "tools"),
    ] {
        let error = LlmRequest::try_from(request).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::ResourceExhausted, Some(field)), "{error}");
    }
}

#[test]
fn oversized_backend_fields_are_rejected() {
    let none = wire::LlmBackend::default;
    let path = |bytes: usize| "x".repeat(bytes);
    let fits = wire::LlmBackend {
        model: path(1 << 10),
        command: path(4 << 10),
        folder: path(4 << 10),
        args: vec![path(1 << 10); 256],
        ..none()
    };
    assert!(Override::try_from(fits).is_ok());
    for (backend, field) in [
        (wire::LlmBackend { model: path((1 << 10) + 1), ..none() }, "backend.model"),
        (wire::LlmBackend { command: path((4 << 10) + 1), ..none() }, "backend.command"),
        (wire::LlmBackend { folder: path((4 << 10) + 1), ..none() }, "backend.folder"),
        (wire::LlmBackend { args: vec![path((256 << 10) + 1)], ..none() }, "backend.args"),
        (wire::LlmBackend { args: vec![path(1); 257], ..none() }, "backend.args"),
    ] {
        let error = Override::try_from(backend).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArgument, Some(field)), "{error}");
        assert!(error.hint.is_some(), "{error}");
    }
}
