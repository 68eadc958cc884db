//! Tests of the sessions of the web page: who gets one, what it may do, and how it ends. Requests are sent as a browser
//! sends them.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::http_client::{Response, connect, send};

/// A session as the page holds it: the cookie and the CSRF token.
struct Session {
    cookie: String,
    csrf: String,
}

/// Sends a request as the page of the daemon does.
fn page_request(world: &World, method: &str, path: &str, session: Option<&Session>, body: &Value) -> Response {
    let (host, origin) = (world.listen(), format!("http://{}", world.listen()));
    let mut headers = vec![
        ("host", host.as_str()),
        ("authorization", ""),
        ("origin", origin.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("content-type", "application/json"),
    ];
    if let Some(session) = session {
        headers.extend([("cookie", session.cookie.as_str()), ("x-vic-csrf", session.csrf.as_str())]);
    }
    let body = if method == "GET" { String::new() } else { body.to_string() };
    send(world, method, path, &headers, &body)
}

/// Returns the code in the address that `vic ui --print` prints.
fn code(world: &World) -> String {
    let address = world.ok(&["ui", "--print"]);
    address.trim().split_once("/ui/#code=").unwrap_or_else(|| panic!("{address}")).1.into()
}

fn log_in(world: &World, login: &Value) -> Session {
    let response = page_request(world, "POST", "/ui/session", None, login);
    assert_eq!(response.status, 200, "{}", response.body);
    let cookie = response.header("set-cookie").unwrap();
    for part in ["httponly", "samesite=strict", "path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let port = world.listen().rsplit_once(':').unwrap().1.to_string();
    assert!(cookie.starts_with(&format!("vic-session-{port}=")), "{cookie}");
    // The head is in lower case, so the secret is taken from the raw response.
    Session { cookie: raw_cookie(&response), csrf: response.json()["csrf"].as_str().unwrap().into() }
}

fn raw_cookie(response: &Response) -> String {
    response.raw_header("set-cookie").unwrap().split(';').next().unwrap().into()
}

#[test]
fn code_of_vic_ui_opens_one_session() {
    let world = World::new().start();
    let code = code(&world);
    let session = log_in(&world, &json!({"code": code}));
    let again = page_request(&world, "POST", "/ui/session", None, &json!({"code": code}));
    assert_eq!((again.status, again.json()["error"]["hint"].as_str().unwrap()), (401, "run `vic ui` again"));
    let described = page_request(&world, "GET", "/ui/session", Some(&session), &Value::Null).json();
    assert_eq!((&described["owner"], &described["local"]), (&json!(true), &json!(true)));
    let status = page_request(&world, "GET", "/v1/status", Some(&session), &Value::Null);
    assert_eq!((status.status, status.header("cache-control").unwrap()), (200, "no-store"));
    assert_eq!(page_request(&world, "GET", "/v1/status", None, &Value::Null).status, 401);
    assert_eq!(page_request(&world, "POST", "/v1/search", Some(&session), &json!({"query": "x"})).status, 200);
    // The cookie alone opens nothing: browsers send it to other ports of this host too.
    for (method, path) in [("GET", "/ui/session"), ("GET", "/v1/status"), ("POST", "/v1/search")] {
        let headers =
            [("authorization", ""), ("cookie", session.cookie.as_str()), ("content-type", "application/json")];
        assert_eq!(send(&world, method, path, &headers, "{}").status, 401, "{path}");
    }
    assert!(described["csrf"].is_null(), "only the login brings the token");
    // A program that has the cookie and a wrong token changes nothing.
    let stolen = Session { csrf: "wrong".into(), ..session };
    for path in ["/v1/search", "/v1/pause", "/v1/keys", "/ui/session/end_all"] {
        assert_eq!(page_request(&world, "POST", path, Some(&stolen), &json!({})).status, 403, "{path}");
    }
}

#[test]
fn foreign_pages_get_nothing_from_a_session() {
    let world = World::new().start();
    let session = log_in(&world, &json!({"code": code(&world)}));
    let own = world.listen();
    let port = own.rsplit_once(':').unwrap().1;
    let cases: Vec<(&str, String, &str)> = vec![
        (&own, "https://evil.example".into(), "cross-site"),
        (&own, "null".into(), "cross-site"),
        (&own, "null".into(), "same-origin"),
        (&own, format!("http://localhost:{port}"), "same-site"),
        (&own, format!("http://{own}"), "same-site"),
        (&own, format!("http://{own}"), "none"),
        ("evil.example", "http://evil.example".into(), "same-origin"),
    ];
    for (host, origin, site) in &cases {
        for (method, path) in [("GET", "/v1/status"), ("POST", "/v1/search"), ("GET", "/ui/"), ("POST", "/ui/session")]
        {
            let headers = [
                ("host", *host),
                ("authorization", ""),
                ("origin", origin.as_str()),
                ("sec-fetch-site", *site),
                ("content-type", "application/json"),
                ("cookie", session.cookie.as_str()),
                ("x-vic-csrf", session.csrf.as_str()),
            ];
            let response = send(&world, method, path, &headers, "{}");
            assert_eq!(response.status, 403, "{host} {origin} {site} {method} {path}");
            assert!(response.header("access-control-allow-origin").is_none());
        }
    }
    // A form can send these types across origins without asking first.
    let origin = format!("http://{own}");
    let headers = [
        ("host", own.as_str()),
        ("origin", origin.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("content-type", "text/plain"),
        ("cookie", session.cookie.as_str()),
    ];
    assert_eq!(send(&world, "POST", "/ui/session/end_all", &headers, "{}").status, 415);
    // The page has no way to MCP or gRPC.
    assert_eq!(page_request(&world, "POST", "/mcp", Some(&session), &json!({})).status, 403);
}

#[test]
fn files_of_the_page_cannot_be_framed_or_guessed() {
    let world = World::new().start();
    let page = send(&world, "GET", "/ui/", &[("authorization", "")], "");
    assert_eq!((page.status, page.header("content-type").unwrap()), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options").unwrap(), "nosniff");
    let tag = page.header("etag").unwrap().to_string();
    let again = send(&world, "GET", "/ui/", &[("authorization", ""), ("if-none-match", &tag)], "");
    assert_eq!(again.status, 304);
    // A page of thirty modules can be loaded many times at once.
    for _ in 0..300 {
        assert_eq!(send(&world, "GET", "/ui/main.js", &[("authorization", "")], "").status, 200);
    }
    for view in ["status", "setup", "settings", "graph", "corpus"] {
        let same = send(&world, "GET", &format!("/ui/{view}?q=x"), &[("authorization", "")], "");
        assert_eq!(same.body, page.body, "{view}");
    }
    for path in ["/ui/../Cargo.toml", "/ui/%2e%2e/Cargo.toml", "/ui/no-such-file.js", "/ui/vendor"] {
        assert_eq!(send(&world, "GET", path, &[("authorization", "")], "").status, 404, "{path}");
    }
}

#[test]
fn key_for_a_folder_logs_in_and_sees_that_folder_only() {
    let world = World::new().start();
    let (ours, theirs) =
        (world.write("ours/plan.md", "the harbour plan"), world.write("theirs/note.md", "the harbour note"));
    world.index();
    let folder = ours.parent().unwrap().display().to_string();
    let key = world.ok(&["keys", "add", "ada", "--root", &folder]);
    assert_eq!(page_request(&world, "POST", "/ui/session", None, &json!({"key": "wrong"})).status, 401);
    let session = log_in(&world, &json!({"key": key.trim()}));
    let described = page_request(&world, "GET", "/ui/session", Some(&session), &Value::Null).json();
    assert_eq!(
        (&described["owner"], &described["local"], &described["holder"], &described["folders"]),
        (&json!(false), &json!(false), &json!("ada"), &json!([folder]))
    );
    let found = page_request(&world, "POST", "/v1/search", Some(&session), &json!({"query": "harbour"})).json();
    assert_eq!(found["hits"].as_array().unwrap().len(), 1, "{found}");
    let counts = page_request(&world, "POST", "/v1/counts", Some(&session), &json!({"query": "harbour"})).json();
    assert_eq!(counts["total"], 1, "{counts}");
    for (query, total) in [("", 1), ("+harbour", 1), ("+plan", 1), ("+note", 0), ("harbour +note", 0)] {
        let counts = page_request(&world, "POST", "/v1/counts", Some(&session), &json!({"query": query})).json();
        assert_eq!(counts["total"], total, "{query}: {counts}");
    }
    let theirs = theirs.display().to_string();
    for (path, body) in [
        ("/v1/page", json!({"path": theirs})),
        ("/v1/read", json!({"path": theirs})),
        ("/ui/open", json!({"path": ours})),
        ("/v1/folders", json!({})),
        ("/v1/settings", json!({"key": "ocr", "value": "never"})),
        ("/v1/roots/check", json!({"path": folder})),
        ("/v1/roots/remove", json!({"path": folder})),
        ("/v1/keys", json!({"name": "eve", "folders": [folder]})),
        ("/ui/session/end_all", json!({})),
    ] {
        let status = page_request(&world, "POST", path, Some(&session), &body).status;
        assert!(matches!(status, 403 | 404), "{path}: {status}");
    }
    for path in ["/v1/settings", "/v1/keys", "/v1/audit", "/v1/models"] {
        assert_eq!(page_request(&world, "GET", path, Some(&session), &Value::Null).status, 403, "{path}");
    }
    world.ok(&["keys", "revoke", "ada"]);
    world.wait_until("the session of the revoked key ends", Duration::from_secs(5), |world| {
        page_request(world, "GET", "/v1/status", Some(&session), &Value::Null).status == 401
    });
}

#[test]
fn ended_session_ends_its_event_stream() {
    let world = World::new().start();
    let session = log_in(&world, &json!({"code": code(&world)}));
    let host = world.listen();
    let mut stream = connect(&world);
    let request = format!(
        "GET /v1/status/events HTTP/1.1\r\nhost: {host}\r\nsec-fetch-site: same-origin\r\ncookie: {}\r\nx-vic-csrf: {}\r\n\r\n",
        session.cookie, session.csrf
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut read = String::new();
    let mut buffer = [0; 4096];
    while !read.contains("event: status") {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "{read}");
        read.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert_eq!(world.ok(&["ui", "--end"]).trim(), "ended 1 session");
    let mut rest = String::new();
    while !rest.contains("event: error") {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "{rest}");
        rest.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert_eq!(page_request(&world, "GET", "/ui/session", Some(&session), &Value::Null).status, 401);
    assert_eq!(world.ok(&["ui", "--end"]).trim(), "ended 0 sessions");
}

#[test]
fn programs_and_scripts_are_not_opened() {
    let world = World::new().start();
    let script = world.write("run.sh", "#!/bin/sh\necho harbour\n");
    let entry = world.write("app.desktop", "[Desktop Entry]\nExec=harbour\n");
    let page = world.write("page.html", "<p>harbour</p>");
    let program = world.write("paper.txt", "harbour");
    let mode = |it: &std::path::Path| {
        std::fs::set_permissions(it, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    mode(&program);
    std::os::unix::fs::symlink("run.sh", world.files().join("link.txt")).unwrap();
    world.index();
    let session = log_in(&world, &json!({"code": code(&world)}));
    for path in [script, entry, page, program, world.files().join("link.txt")] {
        let response = page_request(&world, "POST", "/ui/open", Some(&session), &json!({"path": path}));
        assert_eq!(response.status, 403, "{path:?}: {}", response.body);
    }
    let outside = page_request(&world, "POST", "/ui/open", Some(&session), &json!({"path": "/etc/passwd"}));
    assert_eq!(outside.status, 404, "{}", outside.body);
}

#[test]
fn changed_ignore_patterns_take_effect_at_once() {
    let world = World::new().start();
    world.write("plan.md", "the harbour");
    world.write("build.log", "the harbour");
    world.write("old.bak", "the harbour");
    world.index();
    let session = log_in(&world, &json!({"code": code(&world)}));
    let set = |value: &str, before: &str| {
        let body = json!({"key": "ignore", "value": value, "value_before": before});
        let changed = page_request(&world, "POST", "/v1/settings", Some(&session), &body);
        assert_eq!(changed.status, 200, "{}", changed.body);
    };
    let names = || {
        let files = page_request(&world, "POST", "/v1/files", Some(&session), &json!({})).json();
        let files = files["files"].as_array().unwrap().clone();
        let mut names: Vec<String> =
            files.iter().map(|it| it["path"].as_str().unwrap().rsplit('/').next().unwrap().to_string()).collect();
        names.sort();
        names
    };
    set("*.{log,bak}", "");
    world.wait_until("the ignored files leave the index", Duration::from_secs(60), |_| names() == ["plan.md"]);
    world.write("late.log", "the harbour");
    world.write("late.md", "the harbour");
    world
        .wait_until("only the other new file is found", Duration::from_secs(60), |_| names() == ["late.md", "plan.md"]);
    set("*.bak", "*.{log,bak}");
    world.wait_until("files that are no longer ignored are back", Duration::from_secs(60), |_| {
        names() == ["build.log", "late.log", "late.md", "plan.md"]
    });
}

#[test]
fn page_manages_roots_keys_searches_and_settings() {
    let world = World::new().start();
    world.write("a/one.md", "the harbour");
    world.write("a/.hidden.md", "x");
    let session = log_in(&world, &json!({"code": code(&world)}));
    let post = |path: &str, body: Value| page_request(&world, "POST", path, Some(&session), &body);
    let get = |path: &str| page_request(&world, "GET", path, Some(&session), &Value::Null).json();
    let folder = world.files().canonicalize().unwrap().display().to_string();

    let check = post("/v1/roots/check", json!({"path": folder})).json();
    assert_eq!((&check["read_files"], &check["left_out"][0]["rule"]), (&json!(1), &json!("hidden")), "{check}");
    let folders = post("/v1/folders", json!({"path": folder})).json();
    assert_eq!((&folders["folders"][0]["name"], &folders["indexed"]), (&json!("a"), &json!(false)));
    let job = post("/v1/index/start", json!({"root": folder})).json();
    world.wait_until("the job ends", Duration::from_secs(60), |_| get("/v1/jobs")["jobs"][0]["state"] == "completed");
    assert_eq!(get("/v1/jobs?limit=1")["jobs"][0]["job_id"], job["job_id"]);
    assert_eq!(get("/v1/roots")["roots"][0]["path"], folder.as_str());
    let marks = post("/v1/marks", json!({"query": "harbours", "texts": ["the harbour"]})).json();
    assert_eq!(marks, json!({"marks": [[[4, 11]]]}));
    let completion = post("/v1/complete", json!({"text": "ext:", "position": 4})).json();
    assert_eq!(completion["items"][0]["insert"], "md");

    assert_eq!(post("/v1/searches", json!({"query": "q=harbour", "name": "mine"})).status, 200);
    assert_eq!(get("/v1/searches")["saved"][0]["name"], "mine");
    assert_eq!(post("/v1/searches/remove", json!({"name": "mine"})).json()["saved"], json!([]));

    let key = post("/v1/keys", json!({"name": "ada", "folders": [folder], "right": "read"})).json();
    assert_eq!(key["key"].as_str().unwrap().len(), 43);
    assert_eq!(get("/v1/keys")["keys"][0]["name"], "ada");
    assert_eq!(post("/v1/keys/revoke", json!({"name": "ada"})).status, 200);

    let changed = post("/v1/settings", json!({"key": "ignore", "value": "*.log", "value_before": ""}));
    assert_eq!(changed.status, 200, "{}", changed.body);
    assert_eq!(changed.json()["restart_needed"], json!([]), "it takes effect at once");
    assert_eq!(post("/v1/settings", json!({"key": "ignore", "value": "{", "value_before": "*.log"})).status, 400);
    let workers = post("/v1/settings", json!({"key": "workers", "value": "3"})).json();
    assert_eq!(workers["restart_needed"], json!(["VIC_WORKERS"]));
    let late = post("/v1/settings", json!({"key": "ignore", "value": "*.bak", "value_before": ""}));
    assert!(late.status == 409 || late.status == 412, "{} {}", late.status, late.body);
    assert_eq!(post("/v1/settings", json!({"key": "privacy_mode", "value": "cloud_embedding_ok"})).status, 403);
    assert_eq!(post("/v1/settings", json!({"key": "workers", "value": "many"})).status, 400);
    assert!(get("/v1/models")["models"].as_array().unwrap().len() > 2);
    assert_eq!(get("/v1/audit")["records"], json!([]));
    assert_eq!(post("/v1/roots/remove", json!({"path": folder})).status, 200);
    assert_eq!(get("/v1/roots")["roots"], json!([]));
}
