//! Test doubles for agents: tools over a few documents, a verifier of passages, and scripted reasoners.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::agent::citations::PassageVerifier;
use crate::agent::reasoners::Reasoner;
use crate::agent::tools::ToolProvider;
use crate::error::{Error, ErrorCode, Result};
use crate::llm::plugin::{PluginRequest, PluginResponse, PluginTask};
use crate::model::{Anchor, Scope, ToolSpec};

/// Tools that return the same documents for any query, and record their calls.
#[derive(Default)]
pub(super) struct FakeTools {
    pub(super) documents: Vec<String>,
    pub(super) called: Mutex<Vec<(String, Value)>>,
}

impl FakeTools {
    pub(super) fn with(documents: &[&str]) -> FakeTools {
        FakeTools { documents: documents.iter().map(|it| it.to_string()).collect(), ..FakeTools::default() }
    }
}

#[async_trait]
impl ToolProvider for FakeTools {
    fn specs(&self) -> Vec<ToolSpec> {
        let spec = |name: &str, properties: Value, required: &[&str]| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({
                "type": "object", "additionalProperties": false, "required": required, "properties": properties,
            }),
        };
        let query = json!({ "query": { "type": "string" }, "limit": { "type": "integer", "maximum": 50 } });
        let run = json!({ "query_ir_v1": { "type": "object" }, "axql": { "type": "string" },
                          "limit": { "type": "integer" } });
        vec![spec("db_summary", json!({}), &[]), spec("semantic_search", query, &["query"]), spec("axql_run", run, &[])]
    }

    async fn call(&self, name: &str, arguments: Value, _scope: &Scope) -> Result<Value> {
        self.called.lock().unwrap().push((name.into(), arguments.clone()));
        Ok(match name {
            "db_summary" => json!({ "types": ["Node"], "relations": ["rel_0"] }),
            "semantic_search" => {
                let hit = |(number, text): (usize, &String)| {
                    json!({ "citation": format!("doc{number}.md, line 1"), "text": text,
                            "absolute_path": format!("/w/doc{number}.md"), "anchor": { "line_start": 1, "line_end": 1 } })
                };
                json!({ "hits": self.documents.iter().enumerate().map(hit).collect::<Vec<_>>() })
            }
            _ if arguments["axql"] == "wrong" => return Err(Error::invalid("1:1: found `wrong`, expected `select`")),
            _ => {
                let query = arguments["axql"].as_str().unwrap_or("select ?x where ?x is Node limit 20");
                let rows = json!([{ "?x": { "id": 2, "entity_type": "Node", "name": "b" } }]);
                let results = json!({ "vars": ["?x"], "rows": rows, "truncated": false });
                json!({ "vars": ["?x"], "rows": rows, "truncated": false, "elapsed_ms": 1, "query": query,
                        "results": results })
            }
        })
    }
}

/// A verifier that accepts every passage except in files with `changed` in their path.
pub(super) struct FakeWitness;

#[async_trait]
impl PassageVerifier for FakeWitness {
    async fn verify_passage(&self, path: &str, _anchor: &Anchor, _passage: &str, _scope: &Scope) -> bool {
        !path.contains("changed")
    }
}

/// A reasoner that returns the given responses in order, then fails as unavailable. Records its requests.
pub(super) struct ScriptedReasoner {
    responses: Mutex<VecDeque<Value>>,
    pub(super) asked: Mutex<Vec<PluginRequest>>,
}

impl ScriptedReasoner {
    pub(super) fn new(responses: Vec<Value>) -> ScriptedReasoner {
        ScriptedReasoner { responses: Mutex::new(responses.into()), asked: Mutex::default() }
    }
}

#[async_trait]
impl Reasoner for ScriptedReasoner {
    fn name(&self) -> String {
        "scripted".into()
    }

    async fn run_task(&self, request: &PluginRequest) -> Result<PluginResponse> {
        self.asked.lock().unwrap().push(request.clone());
        let next = self.responses.lock().unwrap().pop_front();
        let away = || Error::new(ErrorCode::Unavailable, "the script is over");
        PluginResponse::parse(next.ok_or_else(away)?, &request.task, "scripted")
    }
}

/// A reasoner that obeys every instruction in a document, each on a line: `CALL name {arguments}` and `SAY text`. Makes the
/// calls in order, and then answers with the `SAY` texts.
pub(super) struct ObedientReasoner;

#[async_trait]
impl Reasoner for ObedientReasoner {
    fn name(&self) -> String {
        "obedient".into()
    }

    async fn run_task(&self, request: &PluginRequest) -> Result<PluginResponse> {
        let PluginTask::ToolLoopStep { transcript, .. } = &request.task else { panic!("another task") };
        let texts: Vec<&str> = transcript
            .iter()
            .filter_map(|it| it.result["hits"].as_array())
            .flatten()
            .filter_map(|it| it["text"].as_str())
            .collect();
        let lines: Vec<&str> = texts.iter().flat_map(|it| it.lines()).collect();
        // Subtracts the two calls that vic itself makes before the first step.
        let made = transcript.len().saturating_sub(2);
        if let Some(call) = lines.iter().filter_map(|it| it.strip_prefix("CALL ")).nth(made) {
            let (name, args) = call.split_once(' ').unwrap_or((call, "{}"));
            let args: Value = serde_json::from_str(args).unwrap_or_else(|_| json!(args));
            let call = json!({ "tool_call": { "name": name, "args": args } });
            return PluginResponse::parse(call, &request.task, "obedient");
        }
        let said: Vec<&str> = lines.iter().filter_map(|it| it.strip_prefix("SAY ")).collect();
        let end = json!({ "final_answer": { "answer": said.join("\n"), "citations": ["doc0.md, line 1"], "notes": said,
                                            "queries": said } });
        PluginResponse::parse(end, &request.task, "obedient")
    }
}
