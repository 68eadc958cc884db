//! Tests a server with two users, Alpha and Beta: no request on any route reveals files of the other user.

pub(crate) mod requests;
mod revocation;
mod corpus_objects;

use serde_json::{Value, json};

use crate::api::scopes::requests::all_requests;
use crate::api::scopes::requests::routes;
use crate::api::scopes::requests::send_all;
use crate::support::grpc_client;
use crate::support::harness::World;
use crate::support::http_client::Response;
use crate::support::http_client::key;
use crate::support::http_client::mcp;
use crate::support::http_client::send;

/// A word that occurs only in names and texts of Beta's files. A response to Alpha that contains the word is a leak, unless
/// the request contained it.
const CANARY: &str = "betacanary";

struct Team {
    world: World,
    alpha: String,
    beta: String,
    owner: String,
    /// The id of a finished job on Beta's folder.
    job: String,
}

fn team() -> Team {
    team_in(World::new())
}

fn team_in(world: World) -> Team {
    let world = world.with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").with("VIC_MCP_TOOLS", "all").start();
    world.write("alphazone/plan.md", "The alphacanary keeps the orchard and its ladder.\n");
    world.write("alphazone/second.md", "Another alphacanary looks after the ladder of the orchard.\n");
    world.write("betazone/betacanary.md", "The betacanary keeps the orchard and its ladder.\n");
    world.write("betazone/more-betacanary.md", "Another betacanary looks after the ladder of the orchard.\n");
    world.write("betazone/betacanary.pdf", "%PDF-1.4 nothing of the betacanary");
    for zone in ["alphazone", "betazone"] {
        world.ok(&["index", world.files().join(zone).to_str().unwrap()]);
    }
    let (alpha, beta) = (add_key(&world, "alpha", "alphazone", "index"), add_key(&world, "beta", "betazone", "read"));
    let owner = key(&world);
    let jobs = world.json(&["jobs"]);
    let job = jobs.as_array().unwrap().iter().find(|it| it["request"]["paths"].to_string().contains("betazone"));
    let job = job.unwrap()["job_id"].as_str().unwrap().to_string();
    Team { world, alpha, beta, owner, job }
}

/// Adds an API key whose scope is this folder. Returns the key.
fn add_key(world: &World, name: &str, zone: &str, allow: &str) -> String {
    let folder = world.files().join(zone);
    let made = world.json(&["keys", "add", name, "--root", folder.to_str().unwrap(), "--allow", allow]);
    made["key"].as_str().unwrap().to_string()
}

impl Team {
    fn send(&self, key: &str, method: &str, path: &str, body: &Value) -> Response {
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
        mcp(&self.world, key, method, &params)
    }

    fn tool(&self, key: &str, name: &str, arguments: Value) -> String {
        self.mcp(key, "tools/call", json!({"name": name, "arguments": arguments}))
    }

    fn grpc(&self, key: &str, method: &str, message: &[u8]) -> grpc_client::CallResponse {
        let bearer = format!("Bearer {key}");
        grpc_client::call(&self.world, "localhost", method, &[("authorization", bearer.as_str())], message)
    }

    /// Returns the absolute path of one of Beta's files.
    fn beta_path(&self, name: &str) -> String {
        self.world.files().canonicalize().unwrap().join("betazone").join(name).display().to_string()
    }
}

#[test]
fn no_request_reveals_files_of_other_users() {
    let team = team();
    corpus_objects::ForeignObjects::create(&team);
    // Stores a question of Beta, because the history of questions must not leak either.
    let asked = grpc_client::string_field(
        5,
        std::str::from_utf8(&grpc_client::string_field(1, "what does the betacanary keep?")).unwrap(),
    );
    assert_eq!(team.grpc(&team.beta, "/vic.v1.Llm/Assist", &asked).code, Some(0));
    for (asked, told) in send_all(&team, &team.alpha, "alphazone/plan.md") {
        for sign in [CANARY, "betazone"] {
            assert!(!told.contains(sign), "{asked}: {told}");
        }
    }
    // Control: in every API, a user with access to a file does see it.
    let all = send_all(&team, &team.owner, "alphazone/plan.md");
    for face in ["POST /v1/corpus/", "tool corpus_", "/vic.v1.Vic/Corpus", "/vic.v1.Llm/", "POST /v1/ask", "tool ask"] {
        let told: String = all.iter().filter(|it| it.0.starts_with(face)).map(|it| it.1.as_str()).collect();
        assert!(told.contains(CANARY) && told.contains("alphacanary"), "{face}: {told}");
    }
    let theirs: String =
        send_all(&team, &team.beta, "betazone/betacanary.md").into_iter().map(|(_, told)| told).collect();
    assert!(theirs.contains(CANARY) && !theirs.contains("alphacanary") && !theirs.contains("alphazone"));
}

#[test]
fn every_route_method_verb_and_tool_is_covered() {
    let team = team();
    let asked: Vec<String> = all_requests("/own/file.md", "a-job").iter().map(requests::ScopedRequest::name).collect();
    // The name must end at a space or a query string, so that `/v1/ask` does not match `/v1/ask-more`.
    let begins = |it: &str, what: &str| it.strip_prefix(what).is_some_and(|rest| rest.starts_with([' ', '?']));
    let is_asked = |what: &str| asked.iter().any(|it| begins(it, what));
    let openapi = team.send(&team.owner, "GET", "/openapi.json", &Value::Null).json();
    let paths = openapi["paths"].as_object().unwrap().iter();
    let told = paths.flat_map(|(path, it)| {
        it.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    let mut missing: Vec<String> = routes().into_iter().chain(told).collect();
    // Skips the route of all corpus verbs, because the requests name each verb, and the MCP route, because they name each
    // tool.
    missing.retain(|it| it != "POST /v1/corpus/{verb}" && it != "POST /mcp");
    // Skips the stream of the status, which has no end and the content of `/v1/status`, and the files of the page.
    missing.retain(|it| it != "GET /v1/status/events" && it != "GET /ui/{*file}");
    let tools: Value = serde_json::from_str(&team.mcp(&team.owner, "tools/list", json!({}))).unwrap();
    let tools = tools["result"]["tools"].as_array().unwrap().iter();
    missing.extend(tools.map(|it| format!("tool {}", it["name"].as_str().unwrap())));
    missing.extend(grpc_client::methods());
    assert!(missing.len() > 100, "{missing:?}");
    missing.retain(|it| !is_asked(it));
    assert!(missing.is_empty(), "add requests for these to the scope tests: {missing:#?}");
}

#[test]
fn foreign_corpus_objects_look_nonexistent() {
    let team = team();
    let known = corpus_objects::ForeignObjects::create(&team);
    for (verb, named, unknown) in known.requests_naming_objects(&team) {
        let (status, told) = corpus_objects::refusals_in_all_apis(&team, &team.alpha, verb, &named);
        let (expected, refused) = corpus_objects::refusals_in_all_apis(&team, &team.alpha, verb, &unknown);
        let face = format!("{verb} {named}");
        assert!(status == expected && (400..500).contains(&status), "{face}: {status}, not {expected}: {}", told[0]);
        let bare = |it: &String| known.without_names(&team, it);
        assert_eq!(bare(&told[0]), bare(&refused[0]), "{face}");
        for told in told {
            let told = bare(&told);
            assert!(!told.contains(CANARY) && !told.contains("more-"), "{face}: {told}");
        }
    }
    // Asserts that refused requests have not removed the objects of other users.
    let shown = json!({"action": "show", "name": "betacanaryview"});
    for key in [&team.owner, &team.beta] {
        let told = team.send(key, "POST", "/v1/corpus/view", &shown);
        assert_eq!(told.status, 200, "{}", told.body);
    }
}

/// Builds the body of a request that names this path.
type MakeBody<'a> = &'a dyn Fn(&str) -> Value;

#[test]
fn foreign_files_and_jobs_look_nonexistent() {
    let team = team();
    let bare = |text: &str| text.replace("no-such.md", "betacanary.md").replace("no-such-job", &team.job);
    let similar = |name: &str| json!({"path": team.beta_path(name)});
    let within = |name: &str| json!({"query": "orchard", "warehouse_root": team.beta_path(name)});
    let start = |name: &str| json!({"root": team.beta_path(name)});
    let grep = |name: &str| json!({"pattern": "ladder", "warehouse_root": team.beta_path(name)});
    let requests: [(&str, &str, MakeBody<'_>); 5] = [
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
        ("ReadFile", team.beta_path("betacanary.md"), team.beta_path("no-such.md")),
        ("Similar", team.beta_path("betacanary.md"), team.beta_path("no-such.md")),
        ("GetJob", team.job.clone(), "no-such-job".into()),
        ("WatchJob", team.job.clone(), "no-such-job".into()),
        ("CancelJob", team.job.clone(), "no-such-job".into()),
        ("StartIndex", team.beta_path("betacanary.md"), team.beta_path("no-such.md")),
    ] {
        let codes = [known, unknown].map(|it| {
            team.grpc(&team.alpha, &format!("/vic.v1.Vic/{method}"), &grpc_client::string_field(1, &it)).code
        });
        assert_eq!(codes, [Some(5), Some(5)], "{method}");
    }
    let uri = |name: &str| json!({"uri": format!("vic://file{}", team.beta_path(name))});
    let known = team.mcp(&team.alpha, "resources/read", uri("betacanary.md"));
    assert_eq!(known, bare(&team.mcp(&team.alpha, "resources/read", uri("no-such.md"))));
    for (tool, arguments) in
        [("read", json!({"path": team.beta_path("betacanary.md")})), ("status", json!({"job_id": team.job}))]
    {
        let told = team.tool(&team.alpha, tool, arguments);
        assert!(told.contains("\"isError\":true") && told.contains("not_found"), "{tool}: {told}");
    }
}

#[test]
fn damaged_key_table_is_reported_until_repaired() {
    let team = team();
    let table = team.world.data().join("keys.json");
    let whole = std::fs::read(&table).unwrap();
    let doctor = || {
        let checks = team.world.json_with_code(&["doctor"]).1["checks"].clone();
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
fn counts_and_rights_follow_the_key() {
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
    // Beta's key may read but not index. Only the owner may see total counts and change roots.
    assert_eq!(team.send(&team.beta, "POST", "/v1/index/start", &json!({})).status, 403);
    assert_eq!(team.send(&team.alpha, "POST", "/v1/index/start", &json!({})).status, 202);
    for key in [&team.alpha, &team.beta] {
        assert_eq!(team.send(key, "GET", "/metrics", &Value::Null).status, 403);
        for (method, message) in [
            ("AddRoot", grpc_client::string_field(1, "/tmp")),
            ("RemoveRoot", grpc_client::string_field(1, &team.beta_path(""))),
            ("Shutdown", vec![]),
            ("ListAudit", vec![]),
        ] {
            assert_eq!(team.grpc(key, &format!("/vic.v1.Vic/{method}"), &message).code, Some(7), "{method}");
        }
    }
    assert_eq!(team.send(&team.owner, "GET", "/metrics", &Value::Null).status, 200);
    // A symbolic link that leads out of the folder of the key is not followed.
    let link = team.world.files().join("alphazone/link.md");
    std::os::unix::fs::symlink(team.beta_path("betacanary.md"), &link).unwrap();
    assert_eq!(team.send(&team.alpha, "POST", "/v1/read", &json!({"path": link})).status, 404);
    let around = team.world.files().join("alphazone/../betazone/betacanary.md");
    assert_eq!(team.send(&team.alpha, "POST", "/v1/read", &json!({"path": around})).status, 404);
    // A revoked key has no access.
    team.world.ok(&["keys", "revoke", "alpha"]);
    assert_eq!(team.send(&team.alpha, "GET", "/v1/status", &Value::Null).status, 401);
    assert_eq!(team.send(&team.beta, "GET", "/v1/status", &Value::Null).status, 200);
}

#[test]
fn failed_file_turned_link_adds_no_root() {
    let team = team();
    let bad = team.world.write("alphazone/broken.pdf", "%PDF-1.4 nothing");
    let elsewhere = team.world.write("elsewhere/secret.md", "The deltacanary is private.\n");
    let ingest = |body: Value| team.send(&team.alpha, "POST", "/v1/corpus/ingest", &body);
    let told = ingest(json!({"paths": [team.world.files().join("alphazone")]})).json();
    assert_eq!(told["data"]["failed"], 1, "{told:#}");
    let roots = team.world.json(&["roots"]);
    std::fs::remove_file(&bad).unwrap();
    std::os::unix::fs::symlink(elsewhere.parent().unwrap(), &bad).unwrap();
    let again = ingest(json!({"session": told["data"]["session"], "refetch_failed": true}));
    assert!(again.status < 500 && !again.body.contains("secret.md"), "{}", again.body);
    assert_eq!(team.world.json(&["roots"]), roots);
    // A folder in the scope of a key but in no root is refused as well, because only the owner may add roots.
    let made = team.world.files().join("elsewhere");
    let key = team.world.json(&["keys", "add", "delta", "--root", made.to_str().unwrap(), "--allow", "index"]);
    let started = team.send(key["key"].as_str().unwrap(), "POST", "/v1/index/start", &json!({}));
    assert!(started.status >= 400 && started.body.contains("vic roots add"), "{}", started.body);
    assert_eq!(team.world.json(&["roots"]), roots);
}

#[test]
fn folder_name_with_exclamation_mark_is_readable() {
    let team = team();
    let lyrics = team.world.write("alphazone/Wham!/lyrics.md", "The alphacanary sings of the harbour.\n");
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("inner/song.md", zip::write::SimpleFileOptions::default()).unwrap();
    std::io::Write::write_all(&mut zip, b"A song of the ladder.\n").unwrap();
    let songs = team.world.write("alphazone/Wham!/songs.zip", zip.finish().unwrap().into_inner());
    team.world.ok(&["sync"]);
    let member = format!("{}!/inner/song.md", songs.display());
    for (path, said) in [(lyrics.to_str().unwrap(), "sings of the harbour"), (&member, "A song of the ladder")] {
        let told = team.send(&team.alpha, "POST", "/v1/read", &json!({"path": path}));
        assert!(told.status == 200 && told.body.contains(said), "{path}: {}", told.body);
        assert!(team.world.ok(&["read", path]).contains(said), "{path}");
        let (known, unknown) = (path, path.replace("Wham", "Whum"));
        let [known, unknown] = [known, &unknown].map(|path| {
            let told = team.send(&team.beta, "POST", "/v1/read", &json!({"path": path}));
            (told.status, told.body.replace("Whum", "Wham"))
        });
        assert_eq!((known.0, &known), (404, &unknown), "must not reveal that the file exists: {path}");
    }
}
