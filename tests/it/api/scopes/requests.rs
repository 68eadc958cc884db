//! Lists every request that a user can send without knowing about other users, in every API. A test checks the list against
//! the actual routes, methods, verbs and tools, so that none is missing.

use serde_json::{Value, json};

use crate::api::scopes::Team;
use crate::api::scopes::corpus_objects;
use crate::support::grpc_client;

const QUESTION: &str = "who keeps the ladder of the orchard?";

/// gRPC methods that end the daemon or change roots, which later requests need. Not sent with the owner's key.
const DESTRUCTIVE_METHODS: [&str; 3] = ["/vic.v1.Vic/Shutdown", "/vic.v1.Vic/RemoveRoot", "/vic.v1.Vic/AddRoot"];

/// One request over one of the APIs.
pub(super) enum ScopedRequest {
    Http(&'static str, String, Value),
    Tool(String, Value),
    Mcp(&'static str),
    Grpc(String, Vec<u8>),
}

impl ScopedRequest {
    /// Returns the route, method or tool, followed by the body.
    pub(super) fn name(&self) -> String {
        match self {
            ScopedRequest::Http(method, path, body) => format!("{method} {path} {body}"),
            ScopedRequest::Tool(name, arguments) => format!("tool {name} {arguments}"),
            ScopedRequest::Mcp(method) => format!("mcp {method}"),
            ScopedRequest::Grpc(method, message) => format!("{method} {}", String::from_utf8_lossy(message)),
        }
    }

    fn response_of(&self, team: &Team, key: &str) -> String {
        match self {
            ScopedRequest::Http(method, path, body) => team.send(key, method, path, body).body,
            ScopedRequest::Tool(name, arguments) => team.tool(key, name, arguments.clone()),
            ScopedRequest::Mcp(method) => team.mcp(key, method, json!({})),
            ScopedRequest::Grpc(method, message) => {
                let called = team.grpc(key, method, message);
                format!("{} {}", called.headers, String::from_utf8_lossy(&called.body))
            }
        }
    }
}

/// Sends every request with this key, whose scope contains the file `own`. Returns each request with its response.
pub(super) fn send_all(team: &Team, key: &str, own: &str) -> Vec<(String, String)> {
    let own = team.world.files().join(own);
    let started = team.send(key, "POST", "/v1/index/start", &json!({"root": own.parent()})).body;
    let started: Value = serde_json::from_str(&started).unwrap();
    let job = started["job_id"].as_str().unwrap_or("no-such-job");
    let is_kept =
        |it: &ScopedRequest| key == team.owner && DESTRUCTIVE_METHODS.iter().any(|end| it.name().starts_with(end));
    let asked = all_requests(own.to_str().unwrap(), job).into_iter().filter(|it| !is_kept(it));
    asked.map(|it| (it.name(), it.response_of(team, key))).collect()
}

/// Returns the requests of a user whose scope contains this file and this job.
pub(super) fn all_requests(own: &str, job: &str) -> Vec<ScopedRequest> {
    let mut all: Vec<ScopedRequest> =
        http_posts(own).into_iter().map(|(path, body)| ScopedRequest::Http("POST", path, body)).collect();
    let paths = ["/v1/status", "/health", "/", "/metrics", "/openapi.json"].map(String::from);
    let of_page = ["searches", "jobs", "roots", "settings", "models", "audit", "keys"].map(|it| format!("/v1/{it}"));
    let files = ["/ui", "/ui/", "/ui/session"].map(String::from);
    let picture = [format!("/v1/page/picture?path={own}")];
    all.extend(of_page.into_iter().chain(files).chain(picture).map(|it| ScopedRequest::Http("GET", it, Value::Null)));
    let of_job = ["status", "events"].map(|it| format!("/v1/index/{it}?job_id={job}"));
    all.extend(paths.into_iter().chain(of_job).map(|it| ScopedRequest::Http("GET", it, Value::Null)));
    all.extend(tool_calls(own, job).into_iter().map(|(name, arguments)| ScopedRequest::Tool(name, arguments)));
    all.extend(["tools/list", "resources/list", "resources/templates/list", "prompts/list"].map(ScopedRequest::Mcp));
    for method in grpc_client::methods() {
        let messages = grpc_messages(method.rsplit_once('.').unwrap().1, own, job);
        all.extend(messages.into_iter().map(|it| ScopedRequest::Grpc(method.clone(), it)));
    }
    all
}

fn http_posts(own: &str) -> Vec<(String, Value)> {
    let fixed = [
        ("/v1/ask", json!({"query": QUESTION, "limit": 100, "explain": true})),
        ("/v1/ask", json!({"query": "who keeps the ladder?", "plan": plan()})),
        ("/v1/ask", json!({"query": "files larger than 1 byte"})),
        ("/v1/ask", json!({"query": "count the pdf files"})),
        ("/v1/ask", json!({"query": "ladder", "filters": {"path_glob": "**"}})),
        ("/v1/ask", json!({"query": "ladder", "warehouse_root": "/"})),
        ("/v1/search", json!({"query": "orchard ladder", "limit": 1000})),
        ("/v1/grep", json!({"pattern": "canary", "limit": 1000})),
        ("/v1/grep", json!({"pattern": "ladder", "warehouse_root": "/"})),
        ("/v1/similar", json!({"path": own})),
        ("/v1/read", json!({"path": own})),
        ("/v1/table", json!({"path": own})),
        ("/v1/files", json!({"limit": 1000})),
        ("/v1/files", json!({"words": ["canary"], "warehouse_root": "/"})),
        ("/v1/index/start", json!({})),
        ("/v1/index/start", json!({"db_path": "/elsewhere"})),
        ("/v1/sync", json!({"timeout_seconds": 5})),
        ("/v1/pause", json!({"seconds": 1})),
        ("/v1/resume", Value::Null),
        ("/v1/search", json!({"query": "orchard ladder cana", "limit": 1000, "words_only": true})),
        ("/v1/marks", json!({"query": "ladder", "texts": ["a ladder"]})),
        ("/v1/complete", json!({"text": "path:", "position": 5})),
        ("/v1/counts", json!({})),
        ("/v1/counts", json!({"query": "canary ladder"})),
        ("/v1/page", json!({"path": own, "query": "ladder"})),
        ("/v1/searches", json!({"query": "q=ladder"})),
        ("/v1/searches/remove", json!({"query": "q=ladder"})),
        ("/v1/jobs/cancel", json!({"job_id": "no-such-job"})),
        ("/v1/roots/check", json!({"path": "/"})),
        ("/v1/roots/remove", json!({"path": own})),
        ("/v1/folders", json!({})),
        ("/v1/settings", json!({"key": "privacy_mode", "value": "local_only"})),
        ("/v1/keys", json!({"name": "", "folders": []})),
        ("/v1/keys/revoke", json!({"name": "no-such-key"})),
        ("/v1/graph", json!({"query": {"axql": "select ?x ?y where ?x -contains|links_to|mentions-> ?y"}})),
        ("/v1/graph", json!({"tool": {"name": "lookup_entity", "args": {"name": "canary", "limit": 100}}})),
        ("/ui/session", json!({"code": "no-such-code"})),
        ("/ui/session/end", json!({})),
        ("/ui/session/end_all", json!({})),
        ("/ui/open", json!({"path": own})),
    ];
    let corpus =
        corpus_objects::verb_requests(own).into_iter().map(|(verb, body)| (format!("/v1/corpus/{verb}"), body));
    fixed.into_iter().map(|(path, body)| (path.to_string(), body)).chain(corpus).collect()
}

/// Returns a query plan that requires OCR and layout.
fn plan() -> Value {
    json!({
        "intent": "search", "l1_query_text": "ladder", "requires_l2": true, "l2_skills": ["pdf_layout", "ocr_image"],
        "privacy_mode": "local_only", "raw_user_text": "who keeps the ladder?",
    })
}

fn tool_calls(own: &str, job: &str) -> Vec<(String, Value)> {
    let everything = "select ?x where ?x is File or ?x is Chunk or ?x is Folder or ?x is Person limit 200";
    let fixed = [
        ("ask", json!({"query": QUESTION, "limit": 50, "structured": true})),
        ("search", json!({"query": "orchard ladder"})),
        ("files", json!({})),
        ("read", json!({"path": own})),
        ("table", json!({"path": own})),
        ("status", json!({})),
        ("status", json!({"job_id": job})),
        ("index", json!({})),
        ("db_summary", json!({})),
        ("semantic_search", json!({"query": QUESTION, "limit": 50})),
        ("axql_run", json!({"axql": everything})),
        ("axql_run", json!({"axql": "select ?x where fts(?x, \"text\", \"ladder orchard\")"})),
        ("axql_elaborate", json!({"axql": everything})),
        ("axql_help", json!({})),
        ("axql_run", json!({"axql": "select ?x where \"canry\" -contains-> ?x"})),
        ("lookup_entity", json!({"name": "canary", "limit": 100})),
        ("describe_entity", json!({"entity": "canary"})),
        ("describe_entity", json!({"entity": "1"})),
        ("lookup_type", json!({"name": "File"})),
        ("lookup_relation", json!({"name": "contains"})),
        ("docchunk_get", json!({"chunk": "1"})),
        ("quality_report", json!({})),
        ("viz_render", json!({"limit": 500})),
        ("viz_render", json!({"around": ["canary"]})),
        ("graph_query", json!({"queryType": "edges"})),
        ("graph_query", json!({"queryType": "nodes"})),
        ("graph_query", json!({"queryType": "nodes", "filters": {"semanticId": "canry", "namePattern": "canary"}})),
        ("fts_chunks", json!({"query": "ladder", "limit": 50})),
        (
            "propose_relation_proposals",
            json!({"relations": [{"rel_type": "mentions", "source": "canary", "target": "File#1"}]}),
        ),
    ];
    let corpus =
        corpus_objects::verb_requests(own).into_iter().map(|(verb, body)| (corpus_objects::tool_name(verb), body));
    let longest = |(name, mut arguments): (&str, Value)| {
        // Answers as long as possible, so that a leak is not cut off.
        if name != "index" {
            arguments["max_chars"] = json!(20_000);
        }
        (name.to_string(), arguments)
    };
    fixed.into_iter().map(longest).chain(corpus).collect()
}

/// Returns the encoded messages to send to a gRPC method; an empty message for methods without an entry.
pub(crate) fn grpc_messages(method: &str, own: &str, job: &str) -> Vec<Vec<u8>> {
    let within = |number: u8, inner: &[u8]| grpc_client::string_field(number, std::str::from_utf8(inner).unwrap());
    let user = [grpc_client::string_field(1, "user"), grpc_client::string_field(2, QUESTION)].concat();
    match method {
        "Vic/Ask" | "Vic/Search" | "Vic/AskStream" => vec![grpc_client::string_field(1, QUESTION)],
        "Vic/Grep" => vec![grpc_client::string_field(1, "canary")],
        "Vic/Similar" | "Vic/ReadFile" | "Vic/Table" | "Vic/Embed" => vec![grpc_client::string_field(1, own)],
        "Vic/GetJob" | "Vic/WatchJob" | "Vic/CancelJob" => vec![grpc_client::string_field(1, job)],
        "Vic/Corpus" => {
            let one = |(verb, body): (&str, Value)| {
                [grpc_client::string_field(1, verb), grpc_client::string_field(2, &body.to_string())].concat()
            };
            corpus_objects::verb_requests(own).into_iter().map(one).collect()
        }
        "Graph/CallGraphTool" => vec![grpc_client::string_field(1, "db_summary")],
        "Graph/QueryGraph" => {
            vec![grpc_client::string_field(1, "select ?x ?y where ?x -contains|links_to|mentions-> ?y")]
        }
        "Graph/DrawGraph" => vec![vec![8, 1]],
        "Llm/Stream" => vec![[within(3, &user), vec![120, 1]].concat()],
        // The messages ask for the status, a query, an answer, an agent, and the history of questions.
        "Llm/Assist" => vec![
            within(2, &[]),
            grpc_client::string_field(3, QUESTION),
            grpc_client::string_field(4, QUESTION),
            within(5, &grpc_client::string_field(1, QUESTION)),
            within(8, &[8, 50]),
        ],
        _ => vec![Vec::new()],
    }
}

/// Returns every HTTP route, parsed from the route table in the source.
pub(super) fn routes() -> Vec<String> {
    let table = include_str!("../../../../src/serve/http/router.rs");
    let routes: Vec<String> = table.split(".route(\"").skip(1).filter_map(one_route).collect();
    assert!(routes.len() > 15 && routes.len() == table.matches(".route(").count(), "{routes:?}");
    routes
}

/// Parses a row of the route table: `/v1/ask", post(...` -> `POST /v1/ask`.
fn one_route(text: &str) -> Option<String> {
    let (path, rest) = text.split_once("\", ")?;
    let (method, rest) = rest.split_once('(')?;
    assert!(
        !rest.lines().next()?.contains(").get(") && !rest.lines().next()?.contains(").post("),
        "{path}: two methods"
    );
    Some(format!("{} {path}", method.to_uppercase()))
}
