//! Tests the examples of the protocol's documentation, with values in place of ellipses.

use serde_json::json;

use super::*;

/// Parses a request, checks that it serializes unchanged, and returns its task.
fn check(request: Value) -> PluginTask {
    let read = PluginRequest::parse(&request.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), request);
    read.task
}

/// Parses the response to a task and checks that it serializes unchanged.
fn answers(task: &PluginTask, response: Value) -> PluginResponse {
    let read = PluginResponse::parse(response.clone(), task, "the plugin").unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), response);
    read
}

fn schema() -> Value {
    json!({
        "types": ["Node", "File"],
        "relations": ["rel_0", "rel_1"],
        "schemas": ["MySchema"],
        "relation_signatures": ["MySchema.Rel(a: Node, b: Node)  (source_field=a, target_field=b)"],
        "relation_constraints": ["MySchema.Rel: symmetric; key(a, b)"],
        "contexts": ["Observed", "Policy"],
        "times": ["T2023"]
    })
}

fn to_query() -> PluginTask {
    check(json!({
        "protocol": "axiograph_llm_plugin_v2",
        "model": "optional-model-name",
        "task": { "kind": "to_query", "question": "find nodes named b", "schema": schema() }
    }))
}

#[test]
fn to_query_accepts_typed_query_and_text() {
    let typed = json!({ "query_ir_v1": {
        "version": 1,
        "select": ["?x"],
        "where": [
            { "kind": "type", "term": "?x", "type": "Node" },
            { "kind": "attr_eq", "term": "?x", "key": "name", "value": "b" }
        ],
        "limit": 20
    } });
    assert_eq!(answers(&to_query(), typed).query_ir_v1.unwrap()["limit"], 20);
    let text = "select ?x where ?x is Node, ?x.name = \"b\" limit 20";
    assert_eq!(answers(&to_query(), json!({ "axql": text })).axql.unwrap(), text);
}

#[test]
fn answer_task_has_query_and_rows() {
    let task = check(json!({
        "protocol": "axiograph_llm_plugin_v2",
        "task": {
            "kind": "answer",
            "question": "how do I reach c from a?",
            "query": { "kind": "axql", "axql": "select ?y where 0 -rel_0/rel_1-> ?y" },
            "results": {
                "vars": ["?x", "?y"],
                "rows": [
                    {
                        "?x": { "id": 1, "entity_type": "Node", "name": "a" },
                        "?y": { "id": 2, "entity_type": "Node", "name": "b" }
                    }
                ],
                "truncated": false
            }
        }
    }));
    assert_eq!(answers(&task, json!({ "answer": "Over b." })).answer.unwrap(), "Over b.");
}

#[test]
fn augment_proposals_adds_proposals_and_schemas() {
    let proposals = json!({ "version": 1, "generated_at": "2026-01-01T00:00:00Z", "source": { "source_type": "x" },
                            "proposals": [] });
    let task = check(json!({
        "protocol": "axiograph_llm_plugin_v2",
        "task": {
            "kind": "augment_proposals",
            "proposals": proposals,
            "evidence_chunks": { "chunk_id": "chunk text (truncated)" },
            "max_new_proposals": 2000
        }
    }));
    let response = answers(
        &task,
        json!({
            "added_proposals": [{ "kind": "Entity", "proposal_id": "p1" }],
            "schema_hint_updates": [{ "proposal_id": "p0", "schema_hint": "machinist_learning" }],
            "notes": ["one"]
        }),
    );
    assert_eq!(response.schema_hint_updates[0].schema_hint, "machinist_learning");
    // Checks that an empty response is valid, and that evidence is optional.
    answers(&task, json!({}));
    let bare = json!({ "protocol": "axiograph_llm_plugin_v2", "task": {
        "kind": "augment_proposals", "proposals": {}, "max_new_proposals": 1 } });
    check(bare);
}

fn tool_loop_step() -> PluginTask {
    check(json!({
        "protocol": "axiograph_llm_plugin_v3",
        "model": "optional-model-name",
        "task": {
            "kind": "tool_loop_step",
            "question": "what RPCs does the service have?",
            "schema": {
                "types": ["ProtoService"],
                "relations": ["proto_service_has_rpc"],
                "schemas": ["ProtoSchema"],
                "relation_signatures": [
                    "ProtoSchema.ProtoServiceHasRpc(svc: ProtoService, rpc: ProtoRpc)  (source_field=svc, target_field=rpc)"
                ],
                "relation_constraints": ["ProtoSchema.ProtoServiceHasRpc: key(svc, rpc)"],
                "contexts": ["Observed"],
                "times": ["T2023"]
            },
            "tools": [{ "name": "axql_run", "description": "runs a query", "args_schema": { "type": "object" } }],
            "transcript": [{ "tool": "fts_chunks", "args": { "query": "rpc" }, "result": { "hits": [] } }]
        }
    }))
}

#[test]
fn tool_loop_step_is_call_or_final_answer() {
    let call = json!({ "tool_call": {
        "name": "axql_run", "args": { "query_ir_v1": { "version": 1, "where": [] }, "limit": 25 } } });
    assert_eq!(answers(&tool_loop_step(), call).tool_call.unwrap().args["limit"], 25);
    let end = json!({ "final_answer": {
        "answer": "Two.",
        "citations": ["DocChunk#128", "doc_proto_api_0"],
        "queries": ["select ?r where ?s -proto_service_has_rpc-> ?r"],
        "notes": ["fine"]
    } });
    assert_eq!(answers(&tool_loop_step(), end).final_answer.unwrap().citations.len(), 2);
}

#[test]
fn error_takes_precedence_over_other_fields() {
    let mut response = json!({
        "query_ir_v1": { "version": 1, "select": ["?x"], "where": [{ "kind": "type", "term": "?x", "type": "Node" }], "limit": 20 },
        "axql": "select ?x where ?x is Node",
        "answer": "a",
        "added_proposals": [{ "kind": "Entity", "proposal_id": "p1" }],
        "schema_hint_updates": [{ "proposal_id": "p0", "schema_hint": "machinist_learning" }],
        "notes": ["one"]
    });
    answers(&to_query(), response.clone());
    response["error"] = json!("no model is loaded");
    let error = PluginResponse::parse(response, &to_query(), "the plugin").unwrap_err();
    assert!(error.message.contains("no model is loaded"), "{error}");
    // Checks that unknown fields are ignored, and are not written again.
    let more = json!({ "answer": "a", "tool_call": null, "confidence": 0.5 });
    let PluginResponse { tool_call: None, axql: Some(_), .. } =
        PluginResponse::parse(json!({ "axql": "x", "more": more }), &to_query(), "the plugin").unwrap()
    else {
        panic!("another response")
    };
}

#[test]
fn missing_schema_hints_are_allowed() {
    let bare = r#"{"protocol":"axiograph_llm_plugin_v3","task":{"kind":"tool_loop_step","question":"x","more":1}}"#;
    let PluginTask::ToolLoopStep { schema, tools, transcript, .. } = PluginRequest::parse(bare).unwrap().task else {
        panic!("another task")
    };
    assert!(schema == SchemaHints::default() && tools.is_empty() && transcript.is_empty());
}

#[test]
fn invalid_requests_are_rejected() {
    for (text, said) in [
        ("", "not a request"),
        ("{}", "protocol"),
        (r#"{"protocol":"axiograph_llm_plugin_v2","task":{"kind":"dance"}}"#, "dance"),
        (r#"{"protocol":"axiograph_llm_plugin_v9","task":{"kind":"to_query","question":"x"}}"#, "v9"),
        (r#"{"protocol":"axiograph_llm_plugin_v2","task":{"kind":"tool_loop_step","question":"x"}}"#, "tool_loop_step"),
    ] {
        let error = PluginRequest::parse(text).unwrap_err();
        assert!(error.code == ErrorCode::InvalidArgument && error.message.contains(said), "{text}: {error}");
    }
}

#[test]
fn model_name_is_limited_to_one_kib() {
    let named = |bytes: usize| {
        let task = json!({ "kind": "to_query", "question": "x" });
        PluginRequest::parse(&json!({ "protocol": PROTOCOL_V2, "model": "m".repeat(bytes), "task": task }).to_string())
    };
    assert!(named(1 << 10).is_ok());
    let error = named((1 << 10) + 1).unwrap_err();
    assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArgument, Some("model")), "{error}");
}

#[test]
fn response_without_required_field_is_rejected() {
    let (query, step) = (to_query(), tool_loop_step());
    for (task, response, said) in [
        (&query, json!({}), "an empty JSON object, but the task `to_query` expects"),
        (&query, json!([]), "a JSON list"),
        (&query, json!({ "axql": 7 }), "axql"),
        (&query, json!({ "error": { "message": "no quota", "type": "x" } }), "failed: no quota"),
        (&query, json!({ "error": "no model", "axql": "select ?x where ?x is Node" }), "failed: no model"),
        (&step, json!({ "answer": "x" }), "another task (`answer`), but"),
        (&step, json!({ "tool_call": { "args": {} } }), "tool_call"),
        (&step, json!({ "final_answer": {} }), "final_answer"),
    ] {
        let error = PluginResponse::parse(response.clone(), task, "`plugin.py`").unwrap_err();
        assert_eq!(error.code, ErrorCode::FailedPrecondition);
        assert!(error.message.contains(said) && error.message.contains("plugin.py"), "{response}: {error}");
    }
}

fn augment() -> PluginTask {
    PluginTask::AugmentProposals { proposals: json!({}), evidence_chunks: None, max_new_proposals: 1 }
}

#[test]
fn shapes_of_other_protocols_are_named() {
    let text = || json!([{ "type": "text", "text": "31 kg" }]);
    let said = || json!({ "role": "assistant", "content": "31 kg" });
    for (response, what) in [
        (json!({ "object": "chat.completion", "choices": [{ "message": said() }] }), "OpenAI chat completion"),
        (json!({ "object": "response", "output": text(), "error": null }), "OpenAI response"),
        (json!({ "tool_calls": [{ "function": { "name": "axql_run", "arguments": "{}" } }] }), "OpenAI tool calls"),
        (json!({ "jsonrpc": "2.0", "id": 1, "result": {} }), "MCP"),
        (json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "no" } }), "MCP"),
        (json!({ "content": text(), "isError": false }), "MCP tool"),
        (json!({ "type": "message", "role": "assistant", "content": text(), "stop_reason": "x" }), "Anthropic"),
        (json!({ "model": "m", "message": said(), "done": true }), "Ollama"),
        (json!({ "model": "m", "response": "31 kg", "done": true }), "Ollama"),
        (json!({ "candidates": [] }), "Gemini"),
        (said(), "chat message"),
        (json!({ "protocol": "axiograph_llm_plugin_v3", "task": { "kind": "tool_loop_step" } }), "request itself"),
        (json!({ "tool": "axql_run", "args": {} }), "step of the transcript"),
        (json!({ "axql": "select ?x where ?x is Node" }), "the response to another task (`axql`)"),
        (json!({ "answer": "31 kg" }), "the response to another task (`answer`)"),
        (json!({}), "an empty JSON object"),
        (json!([1, 2]), "a JSON list"),
        (json!("31 kg"), "a JSON string"),
        (json!(null), "`null`"),
        (json!({ "reply": "31 kg", "ok": true }), "a JSON object with `reply`, `ok`"),
    ] {
        let error = PluginResponse::parse(response.clone(), &tool_loop_step(), "the plugin").unwrap_err();
        let (begin, end) = ("the plugin sent ", "expects one JSON object with `tool_call` or `final_answer`");
        assert!(error.message.starts_with(begin) && error.message.ends_with(end), "{response}: {error}");
        assert!(error.message.contains(what), "{response}: {error}");
    }
    let error = PluginResponse::parse(json!({ "final_answer": { "answer": "x" } }), &to_query(), "it").unwrap_err();
    assert!(error.message.contains("`final_answer`") && error.message.contains("`axql`"), "{error}");
}

#[test]
fn responses_with_further_fields_are_not_other_shapes() {
    for (task, response) in [
        (
            tool_loop_step(),
            json!({ "tool_call": { "name": "db_summary" }, "choices": [], "role": "x", "content": "y" }),
        ),
        (to_query(), json!({ "axql": "x", "jsonrpc": "2.0" })),
        (augment(), json!({})),
        (augment(), json!({ "notes": ["nothing to add"], "error": null })),
        (augment(), json!({ "added_proposals": [] })),
    ] {
        assert_eq!(task.expected().describe_other(&response), None, "{response}");
        PluginResponse::parse(response.clone(), &task, "it").unwrap_or_else(|it| panic!("{response}: {it}"));
    }
    assert!(PluginResponse::parse(json!({ "proposals": [] }), &augment(), "it").is_err());
}
