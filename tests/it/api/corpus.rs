//! Tests the corpus API over the command line, HTTP and MCP, with real files and a restart of the daemon.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::http_client::key;
use crate::support::http_client::send;
use crate::support::scripted_server::Server;
use crate::support::scripted_server::Step;

/// Starts a daemon with a folder of labelled documents that are ingested as session 1.
fn ingested() -> World {
    let world = World::new().with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").with("VIC_MCP_TOOLS", "corpus").start();
    let labelled = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/corpus");
    for name in ["gauges.md", "bread.html", "bees.txt", "paint.tex", "wool.docx", "choir.eml", "backup.ipynb"] {
        world.write(name, std::fs::read(labelled.join(name)).unwrap());
    }
    let made = corpus(&world, &["ingest", world.files().to_str().unwrap()]);
    assert_eq!((&made["data"]["session"], &made["data"]["indexed"]), (&json!(1), &json!(7)), "{made}");
    world
}

fn corpus(world: &World, words: &[&str]) -> Value {
    let mut all = vec!["corpus"];
    all.extend(words);
    serde_json::from_str(&world.ok(&all)).unwrap()
}

/// Runs a command that is expected to fail. Returns its exit code and its JSON output.
fn refused(world: &World, words: &[&str]) -> (i32, Value) {
    let output = world.vic(words);
    let told = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().unwrap(), told)
}

fn post(world: &World, key: &str, verb: &str, body: &Value) -> (u16, Value) {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let answered = send(world, "POST", &format!("/v1/corpus/{verb}"), &headers, &body.to_string());
    (answered.status, serde_json::from_str(&answered.body).unwrap_or_default())
}

const QUESTIONS: &[&[&str]] = &[
    &["extract", "--schema=Code"],
    &["extract", "--session", "1", "--schema=Table"],
    &["extract", "--view", "notes", "--schema=Reference"],
    &["normalize", "dates", "--format=iso8601"],
    &["compare", "versions", "--doc-a=gauges.md", "--doc-b=bees.txt"],
    &["detect", "clusters", "--objective=group by topical similarity", "--constraints={\"max_clusters\":3}"],
    &["trace", "citations", "--format=graph"],
    &["score", "authority", "--criteria=citations"],
    &["query", "--filter=reference_count>=3 AND NOT extension=tex"],
    &["delta", "--baseline=1"],
    &["summarize", "timeline", "--field=published_at"],
    &["summarize", "comparison-matrix", "--items=gauges.md,bees.txt", "--schema=title,word_count", "--format=csv"],
    &["normalize", "versions", "--format=yaml"],
    &["compare", "contradictions", "--field=best-practice"],
    &["detect", "anomalies", "--constraints={\"field\":\"word_count\"}"],
    &["trace", "authority", "--format=csv"],
    &["score", "coverage", "--topic=frost", "--format=yaml"],
    &["explain-failure", "--url-id=gauges.md"],
];

#[test]
fn ingest_fetches_pages_and_retries_failures() {
    let broken = Arc::new(AtomicBool::new(true));
    let fails = broken.clone();
    let server = Server::start(move |asked| match asked.path.as_str() {
        "/late" if fails.load(Relaxed) => Step::json(503, &json!({})),
        path => vec![
            Step::Head(200, "text/html; charset=utf-8"),
            Step::Send(format!("<h1>Tides</h1><p>The page {path} tells of tides.</p>")),
        ],
    });
    let world = World::new().with("VIC_PRIVACY_MODE", "cloud_reasoning_ok").start();
    let url = |path: &str| format!("--urls={}{path}", server.address);
    let session = |made: &Value| {
        let count = |field: &str| made["data"][field].as_i64().unwrap();
        (count("session"), count("indexed"), count("failed"))
    };
    let first = corpus(&world, &["ingest", &url("/a"), &url("/late")]);
    assert_eq!(session(&first), (1, 1, 1), "{first:#}");
    assert_eq!(first["data"]["failures"][0]["path"], format!("{}/late", server.address));
    assert_eq!(first["data"]["pages"], json!({"fetched": 1, "failed": 1}), "{first:#}");
    // The second session must count one page, because a session covers only the pages that it fetched itself.
    assert_eq!(session(&corpus(&world, &["ingest", &url("/b")])), (2, 1, 0));
    broken.store(false, Relaxed);
    let again = corpus(&world, &["ingest", "--session", "1", "--refetch-failed"]);
    assert_eq!(session(&again), (1, 2, 0), "{again:#}");
    assert_eq!(again["data"]["pages"], json!({"fetched": 2, "failed": 0}), "{again:#}");
    assert!(world.ok(&["ask", "which page tells of tides?"]).contains("tells of tides"));
    assert!(world.data().join("pages").is_dir(), "pages are stored in the data directory");
}

#[test]
fn ingest_job_fetches_each_page_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let server = Server::start(move |request| {
        count.fetch_add(1, Relaxed);
        vec![Step::Head(200, "text/html"), Step::Send(format!("<h1>Page</h1><p>This is {}.</p>", request.path))]
    });
    let world = World::new().with("VIC_PRIVACY_MODE", "cloud_reasoning_ok").start();
    let urls: Vec<String> = (0..105).map(|it| format!("{}/{it}", server.address)).collect();
    let accepted = corpus(&world, &["ingest", &format!("--urls={}", urls.join(","))]);
    let job = accepted["data"]["job_id"].as_str().unwrap().to_string();
    let mut ended = Value::Null;
    world.wait_until("the job has ended", Duration::from_secs(120), |world| {
        ended = corpus(world, &["job", &job]);
        ended["data"]["state"] != "running"
    });
    let result = corpus(&world, &["result", ended["data"]["result"].as_str().unwrap()]);
    assert_eq!((&result["data"]["files"], asked.load(Relaxed)), (&json!(105), 105), "{result}");
}

#[test]
fn kill_between_verbs_changes_no_answer() {
    let mut world = ingested();
    world.ok(&["view", "create", "--name=notes", "--filter=extension=md OR extension=txt"]);
    let ask = |world: &World| -> Vec<String> {
        let answer = |words: &&[&str]| world.ok(&[&["corpus"], *words].concat());
        QUESTIONS.iter().map(answer).collect()
    };
    let before = ask(&world);
    assert_eq!(before, ask(&world), "the same question gets the same bytes");
    world.kill();
    world.spawn_and_wait();
    assert_eq!(before, ask(&world));
    let id = serde_json::from_str::<Value>(&before[0]).unwrap()["id"].as_str().unwrap().to_string();
    assert_eq!(world.ok(&["corpus", "result", &id]).trim_end(), before[0].trim_end(), "a stored result is unchanged");
    let why = corpus(&world, &["explain-failure", "--verb=extract", "--extraction-id", &id]);
    assert_eq!((&why["data"]["verb"], &why["data"]["target"]), (&json!("extract"), &json!("Code")), "{why}");
    for action in why["data"]["suggested_actions"].as_array().unwrap() {
        let (verb, request) = action.as_str().unwrap().split_once(' ').unwrap();
        let (status, told) = post(&world, &key(&world), &verb.to_lowercase(), &serde_json::from_str(request).unwrap());
        assert_eq!(status, 200, "{action}: {told}");
    }
    let score = corpus(&world, &["score", "confidence", "--extraction", &id]);
    assert_eq!(score["data"]["extraction"], id.as_str());
}

#[test]
fn session_is_frozen_and_delta_lists_changes() {
    let mut world = ingested();
    let questions: [&[&str]; 5] = [
        &["extract", "--session", "1", "--schema=Quote"],
        &["query", "--session", "1", "--filter=size>0 AND word_count>5"],
        &["trace", "citations", "--session", "1"],
        &["score", "freshness", "--session", "1", "--format=csv"],
        &["summarize", "timeline", "--session", "1", "--field=modified", "--format=yaml"],
    ];
    let ask = |world: &World| questions.map(|it| world.ok(&[&["corpus"], it].concat()));
    let before = ask(&world);
    let result = corpus(&world, &["extract", "--schema=Quote"])["id"].as_str().unwrap().to_string();
    world.write("gauges.md", "# Tide gauges in salt water\n\nNothing is left.\n");
    std::fs::remove_file(world.files().join("bees.txt")).unwrap();
    std::fs::rename(world.files().join("paint.tex"), world.files().join("moved.tex")).unwrap();
    world.write("new.md", "# New\n\nA new one.\n");
    world.ok(&["sync"]);
    assert_eq!(before, ask(&world), "file changes do not affect answers of a session");
    world.kill();
    world.spawn_and_wait();
    assert_eq!(before, ask(&world), "a restart does not affect answers of a session");
    for baseline in ["1", result.as_str()] {
        let delta = corpus(&world, &["delta", "--baseline", baseline]);
        let counts = &delta["data"]["counts"];
        assert_eq!((&counts["added"], &counts["removed"]), (&json!(1), &json!(1)), "{baseline}: {delta}");
        let modified = delta["data"]["modified"].as_array().unwrap();
        let changed = modified.iter().find(|it| it["path"] == "gauges.md").unwrap();
        assert!(changed["changes"].as_u64().unwrap() > 1, "{baseline}: {delta}");
        assert!(modified.iter().any(|it| it["moved_from"] == "paint.tex"), "{baseline}: {delta}");
        assert_eq!(delta, corpus(&world, &["delta", "--baseline", baseline]));
    }
    let watched = corpus(&world, &["delta", "--watch=gauges.md", "--field=headings"]);
    assert!(
        watched["data"]["changed"] == true && !watched["data"]["removed"].as_array().unwrap().is_empty(),
        "{watched}"
    );
    let watched = corpus(&world, &["delta", "--watch=bees.txt", "--baseline=1"]);
    assert_eq!((&watched["data"]["vanished"], &watched["data"]["changed"]), (&json!(true), &json!(true)), "{watched}");
}

#[test]
fn session_delete_works_unless_view_uses_it() {
    let world = ingested();
    world.ok(&["view", "create", "--name=first", "--session=1"]);
    let (code, told) = refused(&world, &["view", "delete", "--session=1"]);
    assert!(code != 0 && told["error"]["message"].as_str().unwrap().contains("first"), "{told}");
    world.ok(&["view", "delete", "first"]);
    world.ok(&["view", "delete", "--session=1"]);
    let (_, told) = refused(&world, &["corpus", "extract", "--session=1", "--schema=Code"]);
    assert_eq!(told["error"]["type"], "unknown_session", "{told}");
}

#[test]
fn minimal_session_has_metadata_without_texts() {
    let world = World::new().start();
    world.write("a.md", "# A\n\nOne two three.\n");
    world.write("b.md", "# A\n\nOne two three.\n");
    let made = corpus(&world, &["ingest", "--paths", world.files().to_str().unwrap(), "--mode=minimal"]);
    assert_eq!((&made["data"]["files"], &made["data"]["failed"]), (&json!(2), &json!(0)), "{made}");
    assert_eq!((&made["data"]["indexed"], &made["data"]["unread"]), (&json!(0), &json!(2)), "{made}");
    assert_eq!(made["unknowns"][0]["type"], "metadata_only", "{made}");
    let queried = corpus(&world, &["query", "--session=1", "--filter=extension=md AND size>0"]);
    assert_eq!(queried["data"]["count"], 2, "{queried}");
    let open = corpus(&world, &["query", "--session=1", "--filter=word_count>0"]);
    let kinds: Vec<&str> = open["unknowns"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!((&open["data"]["count"], kinds), (&json!(0), vec!["no_value", "metadata_only"]), "{open}");
    let (_, told) = refused(&world, &["corpus", "extract", "--session=1", "--schema=Code"]);
    assert_eq!(told["error"]["type"], "metadata_only", "{told}");
    let made = corpus(&world, &["ingest", "--paths", world.files().to_str().unwrap()]);
    assert_eq!((&made["data"]["indexed"], &made["data"]["duplicates"]), (&json!(2), &json!(1)), "{made}");
}

#[test]
fn refetch_rereads_only_failures() {
    let world = World::new().start();
    world.write("good.md", "# Good\n\nAs it was.\n");
    let bad = world.write("bad.pdf", "%PDF-1.7 this is none");
    let made = corpus(&world, &["ingest", "--paths", world.files().to_str().unwrap()]);
    let list = made["data"]["failures_file"].as_str().unwrap().to_string();
    assert!(made["data"]["failed"] == 1 && std::fs::read_to_string(&list).unwrap().contains("bad.pdf"), "{made}");
    world.write("good.md", "# Good\n\nAnother text.\n");
    std::fs::copy(crate::support::harness::sample_dir().join("Contracts/nda-northreach-polytechnic.pdf"), &bad)
        .unwrap();
    let quotes = |world: &World| world.ok(&["corpus", "query", "--session=1", "--filter=name=good.md AND size>0"]);
    let before = quotes(&world);
    let again = corpus(&world, &["ingest", "--session=1", "--refetch-failed"]);
    assert_eq!((&again["data"]["session"], &again["data"]["files"]), (&json!(1), &json!(2)), "{again}");
    assert_eq!(before, quotes(&world), "files that were indexed keep their rows");
    assert_eq!((&again["data"]["failed"], std::path::Path::new(&list).exists()), (&json!(0), false), "{again}");
}

#[test]
fn each_view_type_selects_its_files() {
    let world = ingested();
    let create = |rest: &[&str]| world.ok(&[&["view", "create"], rest].concat());
    create(&["--name=saved", "--filter=extension=md"]);
    create(&["--name=living", "--filter=extension=md", "--auto-update"]);
    create(&["--name=pair", "--files=gauges.md,bees.txt"]);
    create(&["--name=first", "--session=1"]);
    create(&["--name=recent", "--filter=extension=md", "--since=30 days", "--auto-update"]);
    world.write("later.md", "# Later\n\nOne more.\n");
    world.ok(&["sync"]);
    let count = |name: &str| {
        let shown: Value = serde_json::from_str(&world.ok(&["view", "show", name])).unwrap();
        shown["data"]["documents"].as_u64().unwrap()
    };
    assert_eq!((count("saved"), count("living"), count("pair"), count("first")), (1, 2, 2, 7));
    let listed: Value = serde_json::from_str(&world.ok(&["view", "list"])).unwrap();
    assert_eq!((&listed["data"]["count"], count("recent")), (&json!(5), 2));
    std::fs::remove_file(world.files().join("bees.txt")).unwrap();
    world.ok(&["sync"]);
    let shown: Value = serde_json::from_str(&world.ok(&["view", "show", "pair"])).unwrap();
    assert_eq!(shown["data"]["vanished"][0]["path"], "bees.txt", "{shown}");
    let told = corpus(&world, &["extract", "--view=pair", "--schema=Quote"]);
    assert_eq!(
        (&told["coverage"], &told["unknowns"].as_array().unwrap().last().unwrap()["detail"]),
        (&json!(0.5), &json!("gone"))
    );
    let (_, told) = refused(&world, &["view", "create", "--name=../up", "--filter=size>1"]);
    assert_eq!(told["error"]["type"], "out_of_range", "{told}");
    world.ok(&["view", "delete", "pair"]);
    let (code, told) = refused(&world, &["corpus", "extract", "--view=pair", "--schema=Code"]);
    assert_eq!((code, &told["error"]["type"]), (3, &json!("unknown_view")), "{told}");
    let (code, told) = refused(&world, &["view", "create", "--name=saved", "--filter=size>1"]);
    assert_eq!((code, &told["error"]["type"]), (6, &json!("already_exists")));
}

#[test]
fn invalid_requests_give_error_with_actions() {
    let world = ingested();
    world.ok(&["view", "create", "--name=none", "--filter=extension=xyz"]);
    for (words, kind) in [
        (&["corpus", "extract", "--view=none", "--schema=Code"][..], "empty_view"),
        (&["corpus", "extract", "--schema=Picture"], "unknown_schema"),
        (&["corpus", "extrat", "--schema=Code"], "unknown_verb"),
        (&["corpus", "extract", "--schema=Code", "--colour=red"], "unknown_field"),
        (&["corpus", "query", "--filter=size>many"], "type_error"),
        (&["corpus", "query", "--filter=introduces transformers"], "semantic_filter"),
        (&["corpus", "compare", "consensus", "--field=x", "--threshold=3"], "out_of_range"),
        (&["corpus", "compare", "--field=x"], "ambiguous_request"),
        (&["corpus", "extract", "--session=99", "--schema=Code"], "unknown_session"),
        (&["corpus", "ingest", "--urls=https://example.org/a"], "forbidden"),
        (&["corpus", "ingest", "--urls=http://127.0.0.1:1/a"], "forbidden"),
        (&["corpus", "extract", "--schema=Quote", "--session=1", "--view=none"], "ambiguous_request"),
    ] {
        let (code, told) = refused(&world, words);
        assert!(code != 0 && told["error"]["type"] == kind, "{words:?}: {code} {told}");
        assert!(!told["error"]["suggested_actions"].as_array().unwrap().is_empty(), "{told}");
    }
    world.ok(&["view", "create", "--name=folder", "--filter=size>0"]);
    std::fs::rename(world.files(), world.files().with_file_name("elsewhere")).unwrap();
    let (_, told) = refused(&world, &["corpus", "extract", "--view=folder", "--schema=Code"]);
    assert!(["vanished_folder", "empty_view"].contains(&told["error"]["type"].as_str().unwrap()), "{told}");
    let (_, told) = refused(&world, &["corpus", "query", "--view=folder", "--filter=size>0"]);
    assert!(["vanished_folder", "empty_view"].contains(&told["error"]["type"].as_str().unwrap()), "{told}");
}

#[test]
fn tables_render_as_csv_and_answers_as_yaml() {
    let world = ingested();
    let csv = world.ok(&["corpus", "extract", "--schema=Table", "--format=csv", "--filters={\"file\":\"gauges.md\"}"]);
    let (comment, rows) = csv.split_once('\n').unwrap();
    assert!(
        comment.starts_with("# id=r-") && comment.ends_with(", confidence=0.96, coverage=1.0, unknowns=[]"),
        "{comment}"
    );
    let rows: Vec<&str> = rows.lines().map(|it| it.split_once(',').map_or(it, |it| it.1)).collect();
    let expected = [
        "page,lines,Site,Drift in mm,Cleaned",
        ",43-47,North pier,4.1,yes",
        ",43-47,Old lock,11.6,no",
        ",43-47,Ferry quay,6.3,yes",
    ];
    assert_eq!(rows, expected, "the rows after the column with the file number");
    assert!(world.ok(&["corpus", "score", "freshness", "--format=yaml"]).starts_with("contract_version: '1.0'\n"));
}

#[test]
fn over_100_documents_become_job() {
    let world = World::new().start();
    for number in 0..130 {
        world.write(&format!("{number}.md"), format!("# Note {number}\n\n```python\nx = {number}\n```\n"));
    }
    world.index();
    let accepted = corpus(&world, &["extract", "--schema=Code", "--limit=200"]);
    let job = accepted["data"]["job_id"].as_str().unwrap().to_string();
    let mut ended = Value::Null;
    world.wait_until("the job has ended", Duration::from_secs(60), |world| {
        ended = corpus(world, &["job", &job]);
        ended["data"]["state"] != "running"
    });
    assert_eq!(ended["data"]["state"], "completed", "{ended}");
    let result = corpus(&world, &["result", ended["data"]["result"].as_str().unwrap()]);
    assert_eq!((&result["data"]["count"], &result["coverage"]), (&json!(130), &json!(1.0)));
    let forced = corpus(&world, &["query", "--filter=size>0", "--async"]);
    assert_eq!(forced["data"]["state"], "running");
}

#[test]
fn http_and_mcp_share_verbs_and_key_sees_own_folder() {
    let world = ingested();
    world.write("own/bakery.md", "# Bakery\n\n```python\nx = 1\n```\n");
    world.ok(&["sync"]);
    let owner = key(&world);
    let made =
        world.json(&["keys", "add", "baker", "--root", world.files().join("own").to_str().unwrap(), "--allow", "read"]);
    let baker = made["key"].as_str().unwrap();
    let (status, all) = post(&world, &owner, "extract", &json!({"schema": "Code"}));
    assert!(status == 200 && all["data"]["count"].as_u64().unwrap() > 3, "{all}");
    let (status, own) = post(&world, baker, "extract", &json!({"schema": "Code"}));
    assert_eq!((status, own["data"]["count"].as_u64()), (200, Some(1)), "{own}");
    let told = own.to_string();
    assert!(!told.contains("gauges"), "{told}");
    let id = all["id"].as_str().unwrap();
    assert_eq!(post(&world, baker, "result", &json!({"id": id})).0, 404);
    assert_eq!(
        post(&world, baker, "extract", &json!({"schema": "Code", "session": 1})).1["error"]["type"],
        "unknown_session"
    );
    assert_eq!(post(&world, baker, "ingest", &json!({"paths": [world.files()]})).0, 403);
    let (status, told) = post(&world, &owner, "extract", &json!({"schema": "Picture"}));
    assert_eq!((status, &told["error"]["type"]), (400, &json!("unknown_schema")));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "corpus_extract", "arguments": {"schema": "Code"}}});
    let bearer = format!("Bearer {baker}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    let answered = send(&world, "POST", "/mcp", &headers, &call.to_string());
    assert!(answered.body.contains("bakery.md") && !answered.body.contains("gauges"), "{}", answered.body);
}
