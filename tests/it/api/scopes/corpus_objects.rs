//! Requests of the scope tests that use corpus verbs, and corpus objects that only their owner may access.

use serde_json::{Value, json};

use crate::api::scopes::Team;
use crate::support::grpc_client;

/// Returns a request for each form of each verb that reads documents. Verbs are spelled as in URL paths.
pub(super) fn verb_requests(own: &str) -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("ingest", json!({"paths": [own]})),
        ("extract", json!({"schema": "Quote"})),
        ("extract", json!({"schema": "Code"})),
        ("query", json!({"filter": "size>0"})),
        ("query", json!({"filter": "size>0", "format": "csv"})),
        ("delta", json!({"since": "2000-01-01"})),
        ("explain-failure", json!({"url_id": own})),
        ("view", json!({"action": "list"})),
        ("job", json!({"id": "j-0000000000000000"})),
        ("result", json!({"id": "r-0000000000000000"})),
        ("help", json!({})),
        ("schema", json!({"verb": "EXTRACT"})),
    ];
    for (verb, form, fields) in FORMS {
        let mut body: Value = serde_json::from_str(fields).unwrap();
        body["form"] = json!(form);
        all.push((verb, body));
    }
    all
}

const FORMS: [(&str, &str, &str); 18] = [
    ("normalize", "entities", "{}"),
    ("normalize", "dates", "{}"),
    ("normalize", "versions", "{}"),
    ("compare", "consensus", r#"{"field": "recommendation"}"#),
    ("compare", "contradictions", r#"{"field": "recommendation"}"#),
    ("compare", "approaches", "{}"),
    ("detect", "clusters", r#"{"objective": "group by topical similarity"}"#),
    ("detect", "warnings", r#"{"objective": "find warnings"}"#),
    ("detect", "gaps", r#"{"objective": "find what is missing", "constraints": {"expected_topics": ["ladder"]}}"#),
    ("detect", "anomalies", r#"{"objective": "find outliers", "constraints": {"field": "word_count"}}"#),
    ("trace", "citations", "{}"),
    ("trace", "authority", "{}"),
    ("score", "authority", "{}"),
    ("score", "freshness", "{}"),
    ("score", "coverage", r#"{"topic": "ladder"}"#),
    ("summarize", "timeline", r#"{"field": "modified"}"#),
    ("summarize", "coverage", r#"{"topic": "ladder"}"#),
    ("summarize", "decision-inputs", r#"{"question": "Which ladder?"}"#),
];

/// Returns the name of the MCP tool of a corpus verb.
pub(super) fn tool_name(verb: &str) -> String {
    format!("corpus_{}", verb.replace('-', "_"))
}

/// A document in which every corpus verb finds something. `WORD` is replaced by the word of a user.
const NOTES: &str = "# WORD\n\nWarning: never climb on the WORD. We recommend WORD wax 1.2.0 since 2020-01-01.\n\n\
    ```python\nWORD = 1\n```\n\n> The WORD is old, said Ann.\n\nSee [1].\n\n[1] Ann Lee. WORD. 2020.\n";

/// Well-formed ids of a result and a job that do not exist.
const NO_RESULT: &str = "r-0000000000000000";
const NO_JOB: &str = "j-0000000000000000";

/// Corpus objects of Beta and the owner, which Alpha must not see.
pub(super) struct ForeignObjects {
    /// Ids of a result and a job of Beta.
    result: String,
    job: String,
    /// A result of the owner that covers all files, and the owner's session.
    owner_result: String,
    session: u64,
}

impl ForeignObjects {
    pub(super) fn create(team: &Team) -> ForeignObjects {
        let call = |key: &str, verb: &str, body: Value| {
            let told = team.send(key, "POST", &format!("/v1/corpus/{verb}"), &body);
            assert!(told.status < 300, "{verb} {body}: {}", told.body);
            told.json()
        };
        for (zone, word) in [("alphazone", "alphacanary"), ("betazone", crate::api::scopes::CANARY)] {
            team.world.write(&format!("{zone}/{word}-notes.md"), NOTES.replace("WORD", word));
        }
        let folders = ["alphazone", "betazone"].map(|it| team.world.files().join(it));
        let session = call(&team.owner, "ingest", json!({"paths": folders}))["data"]["session"].as_u64().unwrap();
        let all = call(&team.owner, "query", json!({"filter": "size>0"}));
        assert!(all.to_string().contains(crate::api::scopes::CANARY), "{all}");
        for key in [&team.owner, &team.beta] {
            call(key, "view", json!({"action": "create", "name": "betacanaryview", "filter": "size>0"}));
        }
        let result = call(&team.beta, "query", json!({"filter": "size>0"}));
        assert!(result.to_string().contains(crate::api::scopes::CANARY), "{result}");
        let job = call(&team.beta, "query", json!({"filter": "size>1", "async": true}));
        let text = |it: &Value| it.as_str().unwrap().to_string();
        ForeignObjects {
            result: text(&result["id"]),
            job: text(&job["data"]["job_id"]),
            owner_result: text(&all["id"]),
            session,
        }
    }

    /// Returns pairs of requests: one names an object of Beta or the owner, the other a nonexistent object.
    pub(super) fn requests_naming_objects(&self, team: &Team) -> Vec<(&'static str, Value, Value)> {
        let (file, none) = (team.beta_path("betacanary.md"), team.beta_path("no-such.md"));
        let own = team.world.files().join("alphazone/plan.md");
        let pair =
            |verb: &'static str, body: &dyn Fn(&str) -> Value, name: &str, none: &str| (verb, body(name), body(none));
        let mut all = Vec::new();
        for id in [&self.result, &self.owner_result] {
            all.push(pair("result", &|id| json!({"id": id}), id, NO_RESULT));
            all.push(pair("explain-failure", &|id| json!({"id": id}), id, NO_RESULT));
            all.push(pair("score", &|id| json!({"form": "confidence", "extraction": id}), id, NO_RESULT));
            all.push(pair("delta", &|id| json!({"baseline": id}), id, NO_RESULT));
        }
        all.push(pair("job", &|id| json!({"id": id}), &self.job, NO_JOB));
        let view = |body: &dyn Fn(&str) -> Value, verb| pair(verb, body, "betacanaryview", "no-such-view");
        all.push(view(&|it| json!({"action": "show", "name": it}), "view"));
        all.push(view(&|it| json!({"action": "delete", "name": it}), "view"));
        all.push(view(&|it| json!({"view": it, "schema": "Quote"}), "extract"));
        let path = |body: &dyn Fn(&str) -> Value, verb| pair(verb, body, &file, &none);
        all.push(path(&|it| json!({"paths": [it]}), "ingest"));
        all.push(path(&|it| json!({"url_id": it}), "explain-failure"));
        all.push(path(&|it| json!({"watch": it}), "delta"));
        all.push(path(&|it| json!({"form": "influence", "source": it}), "trace"));
        all.push(path(&|it| json!({"form": "versions", "doc_a": it, "doc_b": own}), "compare"));
        all.push(path(&|it| json!({"form": "comparison-matrix", "items": [it], "schema": ["title"]}), "summarize"));
        all.push(path(&|it| json!({"action": "create", "name": "own", "files": [it]}), "view"));
        all.extend(self.of_session());
        all
    }

    /// Returns pairs of requests: one names the owner's session, the other a nonexistent session.
    fn of_session(&self) -> Vec<(&'static str, Value, Value)> {
        let bodies = [
            ("extract", "session", json!({"schema": "Quote"})),
            ("delta", "baseline", json!({})),
            ("ingest", "session", json!({"refetch_failed": true})),
            ("view", "session", json!({"action": "create", "name": "own"})),
            ("view", "session", json!({"action": "delete"})),
        ];
        let with = |body: &Value, field: &str, number: u64| {
            let mut body = body.clone();
            body[field] = json!(number);
            body
        };
        bodies.iter().map(|(verb, field, it)| (*verb, with(it, field, self.session), with(it, field, 99))).collect()
    }

    /// Replaces the names of existing objects by those of nonexistent ones, so that two responses can be compared.
    pub(super) fn without_names(&self, team: &Team, told: &str) -> String {
        let session = |number: u64| [format!("session {number}"), format!("session `{number}`"), format!("`{number}`")];
        let mut told = told.to_string();
        let ids = [(&self.result, NO_RESULT), (&self.owner_result, NO_RESULT), (&self.job, NO_JOB)];
        for (name, none) in ids.map(|(name, none)| (name.clone(), none.to_string())).into_iter().chain([
            (team.beta_path("betacanary.md"), team.beta_path("no-such.md")),
            ("betacanaryview".into(), "no-such-view".into()),
        ]) {
            told = told.replace(&name, &none);
        }
        session(self.session).into_iter().zip(session(99)).for_each(|(name, none)| told = told.replace(&name, &none));
        told
    }
}

/// Returns the HTTP status of a refused corpus request, and its error over HTTP, MCP and gRPC.
pub(super) fn refusals_in_all_apis(team: &Team, key: &str, verb: &str, body: &Value) -> (u16, [String; 3]) {
    let over_http = team.send(key, "POST", &format!("/v1/corpus/{verb}"), body);
    let error = serde_json::from_str::<Value>(&over_http.body).unwrap_or_default()["error"].to_string();
    let message = [grpc_client::string_field(1, verb), grpc_client::string_field(2, &body.to_string())].concat();
    let over_grpc = team.grpc(key, "/vic.v1.Vic/Corpus", &message);
    let over_grpc = format!("{} {}", over_grpc.headers, String::from_utf8_lossy(&over_grpc.body));
    (over_http.status, [error, team.tool(key, &tool_name(verb), body.clone()), over_grpc])
}
