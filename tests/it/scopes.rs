//! Two people on one server: whatever either asks, on whatever route, nothing tells of the other's files.

use serde_json::{Value, json};

use crate::h2;
use crate::harness::World;
use crate::http::{Answered, key, send};

/// What only Beta has: in the names and the text of her files. Alpha never types it unless a test says so.
const CANARY: &str = "betacanary";

struct Team {
    world: World,
    alpha: String,
    beta: String,
    owner: String,
    /// A job on Beta's folder that has ended.
    job: String,
}

fn team() -> Team {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    world.write("alphazone/plan.md", "The alphacanary keeps the orchard and its ladder.\n");
    world.write("alphazone/second.md", "Another alphacanary looks after the ladder of the orchard.\n");
    world.write("betazone/betacanary.md", "The betacanary keeps the orchard and its ladder.\n");
    world.write("betazone/more-betacanary.md", "Another betacanary looks after the ladder of the orchard.\n");
    world.write("betazone/betacanary.pdf", "%PDF-1.4 nothing of the betacanary");
    for zone in ["alphazone", "betazone"] {
        world.ok(&["index", world.files().join(zone).to_str().unwrap()]);
    }
    let add = |name: &str, zone: &str, allow: &str| {
        let folder = world.files().join(zone);
        let made = world.json(&["keys", "add", name, "--root", folder.to_str().unwrap(), "--allow", allow]);
        made["key"].as_str().unwrap().to_string()
    };
    let (alpha, beta) = (add("alpha", "alphazone", "index"), add("beta", "betazone", "read"));
    let owner = key(&world);
    let jobs = world.json(&["jobs"]);
    let job = jobs.as_array().unwrap().iter().find(|it| it["request"]["paths"].to_string().contains("betazone"));
    let job = job.unwrap()["job_id"].as_str().unwrap().to_string();
    Team { world, alpha, beta, owner, job }
}

impl Team {
    fn send(&self, key: &str, method: &str, path: &str, body: &Value) -> Answered {
        let bearer = format!("Bearer {key}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json"),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        send(&self.world, method, path, &headers, &body)
    }

    fn mcp(&self, key: &str, method: &str, params: Value) -> String {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let bearer = format!("Bearer {key}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        send(&self.world, "POST", "/mcp", &headers, &call).body
    }

    fn tool(&self, key: &str, name: &str, arguments: Value) -> String {
        self.mcp(key, "tools/call", json!({"name": name, "arguments": arguments}))
    }

    fn grpc(&self, key: &str, method: &str, message: &[u8]) -> h2::Called {
        let bearer = format!("Bearer {key}");
        h2::call(&self.world, "localhost", method, &[("authorization", bearer.as_str())], message)
    }

    /// The absolute path of something of Beta's.
    fn theirs(&self, name: &str) -> String {
        self.world.files().canonicalize().unwrap().join("betazone").join(name).display().to_string()
    }
}

/// Everything that can be asked without knowing anything of Beta.
fn blind(team: &Team, key: &str, own: &str) -> Vec<(String, String)> {
    let own = team.world.files().join(own);
    let mut told = Vec::new();
    for (method, path, body) in [
        ("POST", "/v1/ask", json!({"query": "who keeps the ladder of the orchard?", "limit": 100, "explain": true})),
        ("POST", "/v1/ask", json!({"query": "who keeps the ladder?", "plan": plan()})),
        ("POST", "/v1/ask", json!({"query": "files larger than 1 byte"})),
        ("POST", "/v1/ask", json!({"query": "count the pdf files"})),
        ("POST", "/v1/ask", json!({"query": "ladder", "filters": {"path_glob": "**"}})),
        ("POST", "/v1/ask", json!({"query": "ladder", "warehouse_root": team.world.files()})),
        ("POST", "/v1/search", json!({"query": "orchard ladder", "limit": 1000})),
        ("POST", "/v1/grep", json!({"pattern": "canary", "limit": 1000})),
        ("POST", "/v1/grep", json!({"pattern": "ladder", "warehouse_root": "/"})),
        ("POST", "/v1/similar", json!({"path": own})),
        ("POST", "/v1/files", json!({"limit": 1000})),
        ("POST", "/v1/files", json!({"words": ["canary"], "warehouse_root": "/"})),
        ("GET", "/v1/status", Value::Null),
        ("GET", "/health", Value::Null),
        ("GET", "/", Value::Null),
        ("GET", "/metrics", Value::Null),
        ("POST", "/v1/index/start", json!({})),
        ("POST", "/v1/index/start", json!({"db_path": "/elsewhere"})),
    ] {
        told.push((format!("{method} {path} {body}"), team.send(key, method, path, &body).body));
    }
    for (name, arguments) in [
        ("ask", json!({"query": "who keeps the ladder of the orchard?", "limit": 50})),
        ("search", json!({"query": "orchard ladder"})),
        ("files", json!({})),
        ("status", json!({})),
        ("index", json!({})),
        ("db_summary", json!({})),
        (
            "axql_run",
            json!({"axql": "select ?x where ?x is File or ?x is Chunk or ?x is Folder or ?x is Person limit 200"}),
        ),
        ("axql_run", json!({"axql": "select ?x where fts(?x, \"text\", \"ladder orchard\")"})),
        ("lookup_entity", json!({"name": "canary", "limit": 100})),
        ("quality_report", json!({})),
        ("viz_render", json!({"limit": 500})),
        ("graph_query", json!({"queryType": "edges"})),
        ("graph_query", json!({"queryType": "nodes"})),
        ("fts_chunks", json!({"query": "ladder", "limit": 50})),
    ] {
        told.push((format!("tool {name} {arguments}"), team.tool(key, name, arguments)));
    }
    told.push(("resources".into(), team.mcp(key, "resources/list", json!({}))));
    told.push(("templates".into(), team.mcp(key, "resources/templates/list", json!({}))));
    for method in h2::methods() {
        // Those end the daemon or its roots for whoever may.
        if ["Shutdown", "RemoveRoot", "AddRoot", "Index", "WatchJob"]
            .iter()
            .any(|it| method.ends_with(&format!("/{it}")))
        {
            continue;
        }
        let name = method.rsplit('/').next().unwrap();
        let message = match name {
            "Ask" | "Search" | "AskStream" => h2::text(1, "who keeps the ladder of the orchard?"),
            "Grep" => h2::text(1, "canary"),
            "Similar" | "ReadFile" => h2::text(1, own.to_str().unwrap()),
            "CallGraphTool" => h2::text(1, "db_summary"),
            "QueryGraph" => h2::text(1, "select ?x ?y where ?x -contains|links_to|mentions-> ?y"),
            "DrawGraph" => vec![8, 1],
            "Assist" => h2::text(4, "who keeps the ladder of the orchard?"),
            _ => Vec::new(),
        };
        let called = team.grpc(key, &method, &message);
        told.push((method.clone(), format!("{} {}", called.headers, String::from_utf8_lossy(&called.body))));
    }
    told
}

/// A plan that looks deeper.
fn plan() -> Value {
    json!({
        "intent": "search", "l1_query_text": "ladder", "requires_l2": true, "l2_skills": ["pdf_layout", "ocr_image"],
        "privacy_mode": "local_only", "raw_user_text": "who keeps the ladder?",
    })
}

#[test]
fn nothing_that_one_can_ask_tells_of_the_other() {
    let team = team();
    for (asked, told) in blind(&team, &team.alpha, "alphazone/plan.md") {
        for sign in [CANARY, "betazone"] {
            assert!(!told.contains(sign), "{asked}: {told}");
        }
    }
    // It is there for those who may see it.
    let all: String = blind(&team, &team.owner, "alphazone/plan.md").into_iter().map(|(_, told)| told).collect();
    assert!(all.contains(CANARY) && all.contains("alphacanary") && all.contains("betazone"));
    let theirs: String = blind(&team, &team.beta, "betazone/betacanary.md").into_iter().map(|(_, told)| told).collect();
    assert!(theirs.contains(CANARY) && !theirs.contains("alphacanary") && !theirs.contains("alphazone"));
}

/// What is sent for a path.
type Body<'a> = &'a dyn Fn(&str) -> Value;

#[test]
fn what_is_known_by_name_is_as_unknown_as_what_does_not_exist() {
    let team = team();
    let bare = |text: &str| text.replace("no-such.md", "betacanary.md").replace("no-such-job", &team.job);
    let similar = |name: &str| json!({"path": team.theirs(name)});
    let within = |name: &str| json!({"query": "orchard", "warehouse_root": team.theirs(name)});
    let start = |name: &str| json!({"root": team.theirs(name)});
    let grep = |name: &str| json!({"pattern": "ladder", "warehouse_root": team.theirs(name)});
    let requests: [(&str, &str, Body<'_>); 5] = [
        ("POST", "/v1/read", &similar),
        ("POST", "/v1/similar", &similar),
        ("POST", "/v1/ask", &within),
        ("POST", "/v1/grep", &grep),
        ("POST", "/v1/index/start", &start),
    ];
    for (method, path, body) in requests {
        let known = team.send(&team.alpha, method, path, &body("betacanary.md"));
        let unknown = team.send(&team.alpha, method, path, &body("no-such.md"));
        assert_eq!((known.status, known.body), (404, bare(&unknown.body)), "{path}");
    }
    for path in ["/v1/index/status", "/v1/index/events"] {
        let known = team.send(&team.alpha, "GET", &format!("{path}?job_id={}", team.job), &Value::Null);
        let unknown = team.send(&team.alpha, "GET", &format!("{path}?job_id=no-such-job"), &Value::Null);
        assert_eq!((known.status, known.body), (404, bare(&unknown.body)), "{path}");
    }
    for (method, known, unknown) in [
        ("ReadFile", team.theirs("betacanary.md"), team.theirs("no-such.md")),
        ("Similar", team.theirs("betacanary.md"), team.theirs("no-such.md")),
        ("GetJob", team.job.clone(), "no-such-job".into()),
        ("WatchJob", team.job.clone(), "no-such-job".into()),
        ("CancelJob", team.job.clone(), "no-such-job".into()),
        ("StartIndex", team.theirs("betacanary.md"), team.theirs("no-such.md")),
    ] {
        let codes =
            [known, unknown].map(|it| team.grpc(&team.alpha, &format!("/vic.v1.Vic/{method}"), &h2::text(1, &it)).code);
        assert_eq!(codes, [Some(5), Some(5)], "{method}");
    }
    let uri = |name: &str| json!({"uri": format!("vic://file{}", team.theirs(name))});
    let known = team.mcp(&team.alpha, "resources/read", uri("betacanary.md"));
    assert_eq!(known, bare(&team.mcp(&team.alpha, "resources/read", uri("no-such.md"))));
    for (tool, arguments) in
        [("read", json!({"path": team.theirs("betacanary.md")})), ("status", json!({"job_id": team.job}))]
    {
        let told = team.tool(&team.alpha, tool, arguments);
        assert!(told.contains("\"isError\":true") && told.contains("not_found"), "{tool}: {told}");
    }
}

#[test]
fn a_damaged_table_of_keys_is_told_with_its_cure_until_it_is_mended() {
    let team = team();
    let table = team.world.data().join("keys.json");
    let whole = std::fs::read(&table).unwrap();
    let doctor = || {
        let checks = team.world.outcome(&["doctor"]).1["checks"].clone();
        checks.as_array().unwrap().iter().find(|it| it["name"] == "keys").unwrap().clone()
    };
    assert_eq!(doctor()["health"], "ok");
    std::fs::write(&table, "[{").unwrap();
    assert_eq!(team.send(&team.alpha, "GET", "/v1/status", &Value::Null).status, 401);
    let health = team.send(&team.owner, "GET", "/health", &Value::Null).json();
    for told in [&team.world.json(&["status"])["degraded"], &health["problems"], &doctor()] {
        let told = told.to_string();
        assert!(told.contains("keys.json") && told.contains("add the keys again"), "{told}");
    }
    assert_eq!(doctor()["health"], "problem");
    let stranger = send(&team.world, "GET", "/health", &[("authorization", "")], "").json();
    assert_eq!((&stranger["degraded"], &stranger["problems"]), (&json!(true), &json!(null)));
    std::fs::write(&table, whole).unwrap();
    assert_eq!(team.send(&team.alpha, "GET", "/v1/status", &Value::Null).status, 200);
    assert!(!team.world.json(&["status"])["degraded"].to_string().contains("keys.json"));
    assert_eq!(doctor()["health"], "ok");
}

#[test]
fn counts_are_those_of_the_own_files_and_rights_end_where_the_key_says() {
    let team = team();
    let status = team.send(&team.alpha, "GET", "/v1/status", &Value::Null).json();
    assert_eq!((&status["coverage"]["found"], &status["chunks"]), (&json!(2), &json!(2)), "{status:#}");
    assert_eq!(status["roots"].as_array().unwrap().len(), 1);
    assert_eq!(status["data_dir"], "");
    let health = team.send(&team.beta, "GET", "/health", &Value::Null).json();
    assert_eq!((&health["files_indexed"], &health["db_path"]), (&json!(2), &json!(null)), "{health:#}");
    assert_eq!(team.send(&team.alpha, "POST", "/v1/files", &json!({})).json()["total"], 2);
    let asked = team.send(&team.alpha, "POST", "/v1/ask", &json!({"query": "orchard ladder"})).json();
    assert_eq!(asked["stats"]["chunk_rows_indexed"], 2, "{asked:#}");
    assert_eq!(asked["hits"].as_array().unwrap().len(), 2, "{asked:#}");
    assert_eq!(
        team.send(&team.alpha, "POST", "/v1/grep", &json!({"pattern": "ladder"})).json()["matches"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // Beta may read and not index; nobody but the owner sees the counts of all, or changes the roots.
    assert_eq!(team.send(&team.beta, "POST", "/v1/index/start", &json!({})).status, 403);
    assert_eq!(team.send(&team.alpha, "POST", "/v1/index/start", &json!({})).status, 202);
    for key in [&team.alpha, &team.beta] {
        assert_eq!(team.send(key, "GET", "/metrics", &Value::Null).status, 403);
        for (method, message) in [
            ("AddRoot", h2::text(1, "/tmp")),
            ("RemoveRoot", h2::text(1, &team.theirs(""))),
            ("Shutdown", vec![]),
            ("ListAudit", vec![]),
        ] {
            assert_eq!(team.grpc(key, &format!("/vic.v1.Vic/{method}"), &message).code, Some(7), "{method}");
        }
    }
    assert_eq!(team.send(&team.owner, "GET", "/metrics", &Value::Null).status, 200);
    // A link out of the own folder leads nowhere.
    let link = team.world.files().join("alphazone/link.md");
    std::os::unix::fs::symlink(team.theirs("betacanary.md"), &link).unwrap();
    assert_eq!(team.send(&team.alpha, "POST", "/v1/read", &json!({"path": link})).status, 404);
    let around = team.world.files().join("alphazone/../betazone/betacanary.md");
    assert_eq!(team.send(&team.alpha, "POST", "/v1/read", &json!({"path": around})).status, 404);
    // A key that is taken away opens nothing from then on.
    team.world.ok(&["keys", "revoke", "alpha"]);
    assert_eq!(team.send(&team.alpha, "GET", "/v1/status", &Value::Null).status, 401);
    assert_eq!(team.send(&team.beta, "GET", "/v1/status", &Value::Null).status, 200);
}
