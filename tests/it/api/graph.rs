//! Tests the graph of real files in a real daemon: its content, its updates, and the `vic graph` commands.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vic::graph::GraphService;
use vic::model::{GraphChange, GraphFormat, GraphImport, GraphRequest};

use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::long_tests::Rng;
use crate::support::long_tests::check_at_most;
use crate::support::long_tests::check_within_time;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;

/// Starts a daemon with a lease, two linked notes that refer to it, a letter and its reply, code, and a duplicate.
fn linked_files() -> World {
    let world = World::new().start();
    world.write("legal/lease.md", "---\nauthor: Oswin Tarrant\n---\n# Lease\n\nThree months of notice.\n");
    world.write("notes/plan.md", "# Plan\n\nSee [the lease](../legal/lease.md) and [[winter]]. #harbour\n");
    world.write("notes/winter.md", "# Winter\n\nDesiccant replaced, see https://example.org/desiccant.\n");
    world.write("notes/copy-of-winter.md", "# Winter\n\nDesiccant replaced, see https://example.org/desiccant.\n");
    world.write("mail/1.eml", "Message-ID: <1@x>\nFrom: ada@x.org\nTo: bob@x.org\nSubject: lease\n\nIs it signed?\n");
    world.write(
        "mail/2.eml",
        "Message-ID: <2@x>\nIn-Reply-To: <1@x>\nFrom: bob@x.org\nTo: ada@x.org\nSubject: Re: lease\n\nYes.\n",
    );
    world.write("src/hive.py", "import scale\n\ndef weigh():\n    return scale.read()\n");
    world.index();
    world
}

/// Returns one string per row of a graph query: the names in its cells, joined by spaces.
fn result_names(world: &World, axql: &str) -> Vec<String> {
    let answer = world.json(&["graph", "query", axql]);
    let vars: Vec<&str> = answer["vars"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let row = |row: &Value| vars.iter().map(|it| row[it]["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ");
    let mut names: Vec<String> = answer["rows"].as_array().unwrap().iter().map(row).collect();
    names.sort();
    names
}

#[test]
fn files_yield_link_author_tag_and_symbol_edges() {
    let world = linked_files();
    for (axql, expected) in [
        (
            "select ?x ?y where ?x -links_to-> ?y, ?y is File",
            vec!["2.eml 1.eml", "plan.md lease.md", "plan.md winter.md"],
        ),
        ("select ?x where ?x -links_to/links_to-> ?y, ?y is Url", vec!["plan.md"]),
        ("select ?p where name(\"lease.md\") -authored_by-> ?p", vec!["Oswin Tarrant"]),
        ("select ?x where ?x -authored_by-> name(\"bob@x.org\")", vec!["2.eml"]),
        ("select ?x where ?x -tagged-> name(\"harbour\")", vec!["plan.md"]),
        ("select ?s where name(\"hive.py\") -defines-> ?s", vec!["weigh"]),
        ("select ?m where name(\"hive.py\") -imports-> ?m", vec!["scale"]),
        ("select ?x where name(\"notes\") -contains-> ?x, ?x has duplicate_of", vec!["copy-of-winter.md"]),
        ("select ?x where fts(?x, \"text\", \"months notice\")", vec!["lease.md#0"]),
        ("select ?s where name(\"plan.md\") -contains-> ?s, ?s is Section", vec!["Plan"]),
    ] {
        let mut found = result_names(&world, axql);
        if axql.contains("duplicate_of") {
            // The walk order decides which duplicate counts as the original, so the test accepts either name.
            found = found.into_iter().map(|_| "copy-of-winter.md".to_string()).collect();
        }
        assert_eq!(found, expected, "{axql}");
    }
}

#[test]
fn graph_follows_new_deleted_and_moved_files() {
    let world = linked_files();
    let leads = "select ?x ?y where ?x -links_to-> ?y, ?y is File, ?x is File, ?y.name = \"lease.md\"";
    assert_eq!(result_names(&world, leads), ["plan.md lease.md"]);
    let file = world.write("notes/new.md", "New, see [lease](../legal/lease.md).\n");
    let until = |what: &str, expected: &[&str]| {
        world.wait_until(what, Duration::from_secs(20), |world| {
            world.paths(&["desiccant"]).len() < 99 && result_names(world, leads) == expected
        });
    };
    world.ok(&["sync"]);
    let begun = Instant::now();
    until("the link of the new file is in the graph", &["new.md lease.md", "plan.md lease.md"]);
    println!("visible in the graph {:?} after it was searchable", begun.elapsed());
    std::fs::remove_file(file).unwrap();
    until("the link of the deleted file is not in the graph", &["plan.md lease.md"]);
    std::fs::rename(world.files().join("legal"), world.files().join("contracts")).unwrap();
    world.write("notes/plan.md", "# Plan\n\nSee [the lease](../contracts/lease.md).\n");
    until("the link to the moved target is in the graph", &["plan.md lease.md"]);
}

#[test]
fn entity_edges_carry_evidence_with_citation() {
    let world = linked_files();
    let told = world.json(&["graph", "show", "plan.md"]);
    let edges = told["out"].as_array().unwrap();
    let link = edges.iter().find(|it| it["relation"] == "links_to" && it["entity"]["name"] == "lease.md").unwrap();
    let evidence = &link["evidence"];
    assert!(
        evidence["path"].as_str().unwrap().ends_with("notes/plan.md") && evidence["anchor"].is_object(),
        "{link:#}"
    );
    assert!(evidence["citation"].as_str().unwrap().contains("plan.md"), "{link:#}");
    let quoted: Vec<&str> = edges.iter().filter_map(|it| it["evidence"]["text"].as_str()).collect();
    assert!(quoted.iter().any(|it| it.contains("See [the lease]")), "{told:#}");
    assert!(world.ok(&["graph", "show", "plan.md"]).contains("-links_to-> lease.md"));
}

#[test]
fn graph_and_imports_survive_restart() {
    let mut world = linked_files();
    let text = world.write(
        "../flows.txt",
        "PMUser.AC.001 -io-> PRD.FL.001\nPRD.FL.001 -io-> Submit.FN.001\nChain.FC.001 -compose-> Submit.FN.001\n",
    );
    world.ok(&["graph", "import", text.to_str().unwrap()]);
    let before = world.json(&["graph", "stats"]);
    assert!(world.terminate());
    world.spawn_and_wait();
    let after = world.json(&["graph", "stats"]);
    assert_eq!(before, after);
    let filters = "{\"queryType\": \"io_chain\", \"filters\": {\"fchainId\": \"Chain.FC.001\"}}";
    let chain: Value = serde_json::from_str(&world.ok(&["graph", "tool", "graph_query", "--args", filters])).unwrap();
    assert_eq!(chain["chain"][0]["actor"], "PMUser.AC.001");
}

#[test]
fn graph_commands_import_show_draw_and_export() {
    let world = World::new().start();
    let json = "{\"nodes\": [{\"id\": 0, \"type\": \"Node\", \"name\": \"a\"}, {\"id\": 1, \"type\": \"Node\", \"name\": \"b\"}], \
                \"edges\": [{\"source\": 0, \"target\": 1, \"type\": \"rel_0\"}]}";
    let file = world.write("../graph.json", json);
    assert!(world.ok(&["graph", "import", file.to_str().unwrap(), "--name", "g"]).contains("g: 2 entities, 1 edges"));
    assert_eq!(result_names(&world, "select ?y where 0 -rel_0-> ?y"), ["b"]);
    assert!(world.ok(&["graph", "query", "select ?x where ?x is Node limit 1"]).contains("?x = a (Node#0)"));
    assert!(world.ok(&["graph", "query", "select ?x where ?x is Node", "--elaborate"]).contains("\"version\": 1"));
    let ir = world.write(
        "../ir.json",
        "{\"version\": 1, \"where\": [{\"kind\": \"attr_eq\", \"term\": \"?x\", \"key\": \"name\", \"value\": \"b\"}]}",
    );
    let answer = world.json(&["graph", "query", "--ir", ir.to_str().unwrap()]);
    assert_eq!(answer["rows"][0]["?x"]["id"], 1);
    let wrapped = format!("{{\"query_ir_v1\": {}}}", std::fs::read_to_string(&ir).unwrap());
    let wrapped = world.write("../wrapped.json", wrapped);
    assert_eq!(world.json(&["graph", "query", "--ir", wrapped.to_str().unwrap()]), answer);
    assert!(world.ok(&["graph", "show", "b (Node#1)"]).starts_with("b (Node#1)\n"));
    assert_eq!(result_names(&world, "select ?y where Node#0 -rel_0-> ?y"), ["b"]);
    assert!(world.ok(&["graph", "axql"]).lines().count() <= 40);
    assert!(world.fails(&["graph", "show", "Node#7"]).1.contains("there is no node `Node#7`"));
    assert!(world.ok(&["graph", "show", "a"]).contains("-rel_0-> b (Node#1)"));
    assert!(world.ok(&["graph", "viz"]).starts_with("digraph"));
    assert!(world.ok(&["graph", "viz", "--as", "html", "--around", "a"]).contains("default-src 'none'"));
    let exported: Value = serde_json::from_str(&world.ok(&["graph", "export"])).unwrap();
    assert_eq!(exported["edges"][0]["type"], "rel_0");
    let again = world.write("../again.json", exported.to_string());
    world.ok(&["graph", "import", again.to_str().unwrap(), "--name", "g"]);
    assert_eq!(serde_json::from_str::<Value>(&world.ok(&["graph", "export"])).unwrap(), exported);
    let (code, told) = world.fails(&["graph", "query", "select ?x whre ?x is Node"]);
    assert_eq!(code, 2);
    assert!(told.contains("position 11: found `whre`, expected `where`") && told.contains("did you mean"), "{told}");
    let new = world.write("../new.txt", "\"rel noed\" -rel_0-> Node#1\nA.FN.001 -io-> B.FN.001\n");
    let told = world.ok(&["graph", "apply", new.to_str().unwrap()]);
    assert!(told.contains("warning: `A.FN.001 -io-> B.FN.001` leads from a FUNC straight to a FUNC"), "{told}");
    assert!(told.contains("2 edges can be added with --write"), "{told}");
    let change = world.write("../change.txt", "X.FL.001 -io-> Y.FN.001\nY.FN.001 -io-> X.FL.001\n");
    let (code, told) = world.fails(&["graph", "apply", change.to_str().unwrap(), "--write"]);
    assert!(code == 6 && told.contains("1 of 2 edges are refused"), "{told}");
    let prose = world.write("../prose.txt", "X.FL.001 -io-> Y.FN.001\nThe hive weighed 31 kg.\n");
    let (code, told) = world.fails(&["graph", "import", prose.to_str().unwrap()]);
    assert!(code == 2 && told.contains("line 2: found `The hive weighed 31 kg.`"), "{told}");
    assert_eq!(world.fails(&["graph", "forget", "nothing"]).0, 3);
    world.ok(&["graph", "forget", "g"]);
    assert_eq!(world.json(&["graph", "stats"])["nodes"], 0);
}

/// Saves a note `rounds` times with another link. Each time, the new link must appear in the graph and the old one vanish.
/// Returns the times from save to new link.
fn measure_link_updates(rounds: usize) -> Vec<Duration> {
    let world = linked_files();
    for number in 0..200 {
        world.write(
            &format!("notes/other/note-{number}.md"),
            format!("# Note {number}\n\nSee [[plan]]. #tag{number}\n"),
        );
    }
    let caller = SyncClient::new(&world);
    caller.sync();
    let leads =
        |number: usize| format!("select ?y where name(\"moving.md\") -links_to-> ?y, ?y.name = \"note-{number}.md\"");
    let held = |number: usize| !caller.graph_rows(&leads(number)).is_empty();
    world.write("notes/moving.md", "[[note-0]]\n");
    assert!(caller.poll_until(Duration::from_secs(60), |_| held(0)), "the first link is not in the graph");
    let mut times = Vec::with_capacity(rounds);
    for number in 1..=rounds {
        let (target, before) = (number % 200, (number - 1) % 200);
        let saved = Instant::now();
        world.write("notes/moving.md", format!("# Moving\n\nIn round {number} see [[note-{target}]].\n"));
        assert!(caller.poll_until(Duration::from_secs(60), |_| held(target)), "round {number}");
        times.push(saved.elapsed());
        assert!(!held(before), "round {number}: the old link is still in the graph beside the new one");
    }
    figure("graph follows a saved file", format!("{rounds} saves, p50 {:.0?}", percentile(&times, 50)));
    times
}

#[test]
fn changed_link_replaces_old_edge() {
    measure_link_updates(3);
}

#[test]
#[ignore = "takes a minute: see tests/it/support/long_tests.rs"]
fn torture_graph_follows() {
    let times = measure_link_updates(usize::try_from(size_from_env("VIC_TORTURE_SAVES", 100)).unwrap());
    check_within_time("a saved file is in the graph (p95)", percentile(&times, 95), Duration::from_secs(1));
}

#[test]
#[ignore = "takes minutes: see tests/it/support/long_tests.rs"]
fn torture_graph_change() {
    // Measures the time of one small change in a database that already has many edges.
    let edges = size_from_env("VIC_TORTURE_EDGES", 1_000_000);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let service = GraphService::open(&dir.path().join("graph.sqlite"), None, CancellationToken::new()).unwrap();
    let import = |name: &str, text: String| {
        let import = GraphImport { name: name.into(), format: GraphFormat::Text, text };
        runtime.block_on(service.request(GraphRequest::Import(import))).unwrap();
    };
    let mut dice = Rng::new(1);
    let nodes = edges / 5 + 1;
    let mut line = || format!("n{} -r{}-> n{}\n", dice.below(nodes), dice.below(20), dice.below(nodes));
    import("most", (0..edges).map(|_| line()).collect());
    let mut times = Vec::new();
    for number in 0..10 {
        let begun = Instant::now();
        import("few", format!("n1 -changes-> n{number}"));
        times.push(begun.elapsed());
    }
    figure("a change of a graph is visible", format!("{edges} edges, p50 {:.0?}", percentile(&times, 50)));
    check_within_time("a change of a graph is visible (p95)", percentile(&times, 95), Duration::from_millis(500));
}

#[test]
#[ignore = "takes minutes: see tests/it/support/long_tests.rs"]
fn torture_graph_near_names() {
    // Asks for misspelled names in a graph of many names that differ little from each other, which is the slowest kind.
    let nodes = size_from_env("VIC_TORTURE_NODES", 1_000_000);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let service = GraphService::open(&dir.path().join("graph.sqlite"), None, CancellationToken::new()).unwrap();
    let ask = |request: GraphRequest| runtime.block_on(service.request(request)).unwrap();
    let text = (0..nodes / 2).map(|it| format!("Step{it}.FN.001 -io-> Data{it}.FL.001\n")).collect();
    ask(GraphRequest::Import(GraphImport { name: "most".into(), format: GraphFormat::Text, text }));
    let (mut asked, mut changed) = (Vec::new(), Vec::new());
    for number in 0..10 {
        let asked_for = nodes / 4 + number;
        let filters =
            json!({"semanticId": format!("Stpe{asked_for}.FN.001"), "targetId": format!("Dtaa{asked_for}.FL.001")});
        let args = json!({"queryType": "check_edge", "filters": filters});
        let begun = Instant::now();
        let answer = ask(GraphRequest::Tool { name: "graph_query".into(), args });
        asked.push(begun.elapsed());
        assert!(answer["notes"][0].as_str().unwrap().contains(&format!("near: `Step{asked_for}.FN.001`")), "{answer}");
        let lines: String = (0..100).map(|it| format!("Stpe{it}.FN.001 -io-> Dtaa{it}.FL.001\n")).collect();
        let begun = Instant::now();
        let answer = ask(GraphRequest::Apply(GraphChange { format: GraphFormat::Text, text: lines, write: false }));
        changed.push(begun.elapsed());
        assert_eq!(answer["similar_nodes"].as_array().unwrap().len(), 200, "{answer}");
    }
    figure("near names of two unknown nodes", format!("{nodes} nodes, p50 {:.0?}", percentile(&asked, 50)));
    check_within_time("the same (p95)", percentile(&asked, 95), Duration::from_millis(600));
    figure("a change with 200 misspelled nodes", format!("{nodes} nodes, p50 {:.0?}", percentile(&changed, 50)));
    check_within_time("the same (p95)", percentile(&changed, 95), Duration::from_secs(1));
}

/// Maximum import memory in bytes per edge: much less than the text, the parsed parts and the row of an edge together.
const MAX_BYTES_PER_EDGE: u64 = 840;

/// Returns the peak memory of the daemon in bytes.
fn peak_memory(world: &World) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.pid())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Imports a graph with this many edges. Returns by how many bytes the peak memory of the daemon grew.
fn import_memory(edges: u64) -> u64 {
    let world = World::new().with("VIC_WATCH", "0").start();
    let mut dice = Rng::new(1);
    let nodes = edges / 5 + 1;
    let mut text = String::from("{\"edges\": [");
    for number in 0..edges {
        let comma = if number == 0 { "" } else { "," };
        let (source, target, relation) = (dice.below(nodes), dice.below(nodes), dice.below(20));
        text.push_str(&format!("{comma}{{\"source\":{source},\"target\":{target},\"type\":\"r{relation}\"}}"));
    }
    text.push_str("], \"nodes\": [");
    for number in 0..nodes {
        let comma = if number == 0 { "" } else { "," };
        text.push_str(&format!("{comma}{{\"id\":{number},\"name\":\"n{number}\"}}"));
    }
    text.push_str("]}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.json");
    std::fs::write(&file, text).unwrap();
    world.ok(&["graph", "stats"]);
    let before = peak_memory(&world);
    let told = world.ok(&["graph", "import", file.to_str().unwrap()]);
    assert!(told.starts_with(&format!("large: {nodes} entities, {edges} edges")), "{told}");
    peak_memory(&world) - before
}

#[test]
fn graph_import_memory_per_edge_is_bounded() {
    let edges = 200_000;
    let taken = import_memory(edges) / edges;
    assert!(taken < MAX_BYTES_PER_EDGE, "{taken} bytes per edge");
}

#[test]
#[ignore = "takes a minute: see tests/it/support/long_tests.rs"]
fn torture_graph_import() {
    let edges = size_from_env("VIC_TORTURE_EDGES", 1_000_000);
    let taken = import_memory(edges);
    figure("memory for the import of a graph", format!("{edges} edges, {} MiB", taken >> 20));
    check_at_most(
        "memory for the import of a graph, bytes per edge",
        taken / edges,
        MAX_BYTES_PER_EDGE,
        MAX_BYTES_PER_EDGE,
    );
}
