//! Tests of agents that are plugins: they begin with an empty transcript, and graph queries that ran prove their answers.

use super::*;

/// Runs an agent as for a plugin: without a search before its first step.
async fn plugin_agent(reasoner: &dyn Reasoner, tools: Arc<FakeTools>) -> AgentReport {
    run_loop(reasoner, tools, Bounds::default(), false).await
}

#[tokio::test]
async fn plugin_begins_with_an_empty_transcript() {
    let steps = vec![call("semantic_search", json!({ "query": "hive" })), end("31 kg.", &["doc0.md, line 1"])];
    let (scripted, tools) = (ScriptedReasoner::new(steps), hive());
    let report = plugin_agent(&scripted, tools.clone()).await;
    assert_eq!((report.ended, report.steps, report.transcript.len()), (Ending::Answered, 2, 1));
    let asked = serde_json::to_value(&scripted.asked.lock().unwrap()[0]).unwrap();
    assert_eq!(asked["task"]["transcript"], json!([]));
    assert_eq!(asked["task"]["schema"]["types"], json!(["Node"]), "the schema is no step");
    // Without a call of the plugin nothing was found.
    let report = plugin_agent(&ScriptedReasoner::new(vec![end("It was blue.", &[])]), tools).await;
    assert_eq!((report.ended, report.refused.len(), report.transcript.len()), (Ending::NothingFound, 1, 0));
    assert!(report.refused[0].reason.contains("no tool found anything"));
}

#[tokio::test]
async fn queries_that_ran_prove_an_answer_without_citations() {
    let query = "select ?x where ?x is Node limit 20";
    let answer =
        |queries: &[&str]| json!({ "final_answer": { "answer": "Found one.", "citations": [], "queries": queries } });
    let ir = json!({ "version": 1, "where": [{ "kind": "type", "term": "?x", "type": "Node" }] });
    let run = || call("axql_run", json!({ "query_ir_v1": ir, "limit": 25 }));
    for queries in [vec![query], vec![query, "select ?x where ?x is Made_up"], vec![]] {
        let report = plugin_agent(&ScriptedReasoner::new(vec![run(), answer(&queries)]), hive()).await;
        assert_eq!((report.answer.as_str(), report.ended), ("Found one.", Ending::Answered), "{queries:?}");
        assert_eq!((report.queries, report.refused), (vec![query.to_string()], vec![]), "{queries:?}");
        let left_out = report.notes.iter().any(|it| it.contains("1 query was left out"));
        assert_eq!(left_out, queries.len() == 2, "{:?}", report.notes);
    }
    // A query that did not run proves nothing, and neither does one beside an invented citation.
    let invented = json!({ "final_answer": { "answer": "Found one.", "citations": ["made up"], "queries": [query] } });
    for wrong in [answer(&["select ?x where ?x is Made_up"]), invented] {
        let report = plugin_agent(&ScriptedReasoner::new(vec![run(), wrong.clone(), wrong]), hive()).await;
        assert_eq!((report.ended, report.refused.len()), (Ending::Uncited, 2), "{report:?}");
    }
}

#[tokio::test]
async fn only_a_command_begins_without_a_search() {
    let dir = tempfile::tempdir().unwrap();
    let (assistant, mut config) = assistant(dir.path());
    let script = "case $(cat) in *'\"transcript\":[]'*) said=empty ;; *) said=full ;; esac; \
                  printf '{\"final_answer\": {\"answer\": \"%s\"}}' $said";
    let line = CommandLine { program: "sh".into(), args: vec!["-c".into(), script.into()], folder: "/".into() };
    let over = Override { command: Some(line), ..Override::default() };
    let request = |prefetch| AgentRequest { question: "hive".into(), over: over.clone(), prefetch, bounds: None };
    config.llm.prefetch = true;
    let always = Assistant::new(&config, hive(), Arc::new(FakeWitness), None);
    for (assistant, prefetch, said) in
        [(&assistant, false, "empty"), (&assistant, true, "full"), (&always, false, "full")]
    {
        let report = assistant.with_rights(true, true).agent(&request(prefetch)).await.unwrap();
        assert_eq!(report.refused.first().map(|it| it.answer.as_str()), Some(said), "{report:?}");
    }
    let mock = AgentRequest { question: "hive".into(), ..AgentRequest::default() };
    assert_eq!(assistant.agent(&mock).await.unwrap().transcript[1].tool, "semantic_search");
}
