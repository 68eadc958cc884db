//! Tests that vic sends nothing to other machines and writes nothing outside the data directory.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::capabilities;
use crate::support::harness::World;
use crate::support::harness::sample_dir;
use crate::support::openai_server;
use crate::support::proc_sampler as sampling;
use crate::support::proc_sampler::Sampler;
use crate::support::scripted_server::Server;
use crate::support::seeds::Seed;
use crate::support::seeds::seeds;
use crate::support::syscall_trace;
use crate::support::syscall_trace::Allowed;
use crate::support::syscall_trace::SyscallTrace;

/// A sample contract that is a scan, without a text layer.
const SCAN: &str = "idr-contract-scan.pdf";
/// An address that no machine uses (TEST-NET-1).
const UNUSED_ADDRESS: &str = "192.0.2.1";

/// A plugin that searches for a word and answers. It can try to connect to an address and search for the outcome, or crash.
const PLUGIN: &str = r#"#!/bin/bash
word=orchard
case $1 in
  reach) word=keptinside; (exec 3<>/dev/tcp/NOWHERE/9) 2> /dev/null && word=gotout ;;
  die) kill -9 $$ ;;
esac
case $(cat) in
  *'"tool":"fts_chunks"'* | *'"tool": "fts_chunks"'*) echo '{"final_answer": {"answer": "So it is.", "citations": []}}' ;;
  *) echo "{\"tool_call\": {\"name\": \"fts_chunks\", \"args\": {\"query\": \"$word\"}}}" ;;
esac
"#;

/// Runs a full session: start, index of every format, questions, a change, agents, a crash, and restarts, by the test and by
/// a `vic` command. OCR runs for a question, and after the restart for the index.
fn full_session(world: World) -> World {
    let elsewhere = format!("http://{UNUSED_ADDRESS}:11434");
    let mut world = world.with("VIC_OLLAMA_BASE_URL", &elsewhere).with("VIC_L2_SECONDS", "300").start();
    world.write("a.md", "A private thought about the orchard.");
    index_every_format(&world);
    world.ok(&["index", sample_dir().to_str().unwrap(), "--ocr", "never"]);
    assert_eq!(world.paths(&["orchard"])[0], "a.md");
    let scanned = world.json(&["ask", "Who signed the IDR contract?"]);
    assert!(scanned["stats"]["hits_by_tier"]["L2"].as_u64() >= Some(1), "{scanned:#}");
    let refused = world.json(&["ask", "What does the photo of the pier show?"])["warnings"].to_string();
    assert!(refused.contains("forbids") && refused.contains(UNUSED_ADDRESS), "{refused}");
    world.write("b.md", "Another one about the lighthouse.");
    world.wait_until("the new file is found", Duration::from_secs(20), |it| it.paths(&["lighthouse"])[0] == "b.md");
    ask_agents(&world);
    world.write("c.md", "A third one about the granary.");
    world.kill();
    world.spawn_and_wait();
    world.wait_until("a crash loses no file", Duration::from_secs(20), |it| it.paths(&["granary"])[0] == "c.md");
    assert!(world.terminate());
    world.spawn_and_wait();
    assert_eq!(world.paths(&["orchard"])[0], "a.md");
    let letter = "council-permit-letter.jpg";
    let read = |it: &World| it.ok(&["files", letter, "--state", "indexed"]).contains(letter);
    world.wait_until("the daemon runs OCR without a question", Duration::from_secs(120), read);
    assert!(world.terminate());
    // The daemon is stopped, so this command starts it.
    assert_eq!(world.paths(&["orchard"])[0], "a.md");
    world.ok(&["daemon", "stop"]);
    world
}

/// Indexes a file of every supported format and asserts that the text of each is found.
fn index_every_format(world: &World) {
    let seeds = seeds();
    for seed in &seeds {
        world.write(&format!("formats/{}", seed.name), &seed.bytes);
    }
    world.ok(&["index", world.files().to_str().unwrap(), "--ocr", "never"]);
    let found = world.json(&["grep", "--fixed-strings", "heron stands", "--limit", "1000"]).to_string();
    let is_missing = |it: &&Seed| !it.expected_text.is_empty() && !found.contains(&format!("formats/{}", it.name));
    let missing: Vec<&str> = seeds.iter().filter(is_missing).map(|it| it.name).collect();
    assert!(missing.is_empty(), "{missing:?} are not found: {found}");
}

/// Runs an agent without a model and with plugins, which must not reach the network.
fn ask_agents(world: &World) {
    let question = ["llm", "agent", "which thought is private", "--trace"];
    let told = world.json_with_code(&question).1;
    assert_eq!(told["model"], "mock", "{told:#}");
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("plugin");
    std::fs::write(&plugin, PLUGIN.replace("NOWHERE", UNUSED_ADDRESS)).unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let with = |kind| [&question[..], &["--command", plugin.to_str().unwrap(), "--arg", kind]].concat();
    for (kind, word) in [("search", "orchard"), ("reach", "keptinside")] {
        let told = world.json_with_code(&with(kind)).1;
        assert!(told["transcript"].to_string().contains(word), "{kind}: {told:#}");
    }
    world.fails(&with("die"));
}

/// Returns a test setup with a folder for temporary files that all its programs use, so that leftover files can be seen.
fn quiet_world() -> (World, TempDir) {
    let temporary = tempfile::tempdir().unwrap();
    (World::new().with("TMPDIR", temporary.path().to_str().unwrap()), temporary)
}

/// Asserts that nothing is left in the folder for temporary files, in the home directory, or beside the data directory.
fn check_nothing_is_left(world: &World, temporary: &TempDir) {
    let names = |path: &Path| -> Vec<String> {
        let mut names: Vec<String> =
            path.read_dir().unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(temporary.path()), [""; 0]);
    assert_eq!(names(world.data().parent().unwrap()), ["data", "files", "log"]);
}

// Case E1
#[test]
fn traced_session_writes_only_data_and_connects_nowhere() {
    if !capabilities::can_trace() {
        return;
    }
    let (world, temporary) = quiet_world();
    let calls = tempfile::tempdir().unwrap();
    let trace = SyscallTrace::new(calls.path());
    let world = full_session(world.under(trace.launcher()));
    let lines = trace.finished();
    // Control: the session makes these calls. If the trace lacks one, the trace is incomplete.
    let signs =
        ["vicd.sock", "catalog.sqlite", ".lance", "a.md", "sin_addr=inet_addr(\"127.0.0.1\")", "det.onnx", SCAN];
    for sign in signs {
        assert!(lines.iter().any(|it| it.contains(sign)), "no call with `{sign}` in {} lines", lines.len());
    }
    let mut wrong = syscall_trace::violations(&lines, &Allowed { folders: vec![world.data()] });
    // Ignores failed opens of /dev/tty: every bash looks for a terminal, and a plugin has none.
    wrong.retain(|it| !(it.contains("\"/dev/tty\"") && it.ends_with("= -1 ENXIO (No such device or address)")));
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong.join("\n"));
    check_nothing_is_left(&world, &temporary);
}

// Case E1
#[test]
fn sampled_session_writes_only_data_and_connects_nowhere() {
    let (world, temporary) = quiet_world();
    let shared = ["/dev/shm", "/var/tmp"].map(|it| (it, folder_entries(it)));
    let sampler = Sampler::start(format!("VIC_DATA_DIR={}", world.data().display()));
    let world = full_session(world);
    let seen = sampler.stop_and_collect();
    assert!(seen.iter().any(|it| it.ends_with("catalog.sqlite")) && seen.iter().any(|it| it.starts_with("tcp ")));
    let wrong = sampling::violations(&seen, &[world.data()]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    check_nothing_is_left(&world, &temporary);
    assert_eq!(shared, ["/dev/shm", "/var/tmp"].map(|it| (it, folder_entries(it))));
}

fn folder_entries(folder: &str) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().map(|it| it.unwrap().path()).collect();
    entries.sort();
    entries
}

/// Starts a shell that writes outside the allowed folder, connects to an unused address and to port 53, and then waits.
fn violating_shell(launcher: &[String], folder: &Path) -> Child {
    let script = format!(
        "echo x > outside; exec 3>> outside 4<>/dev/udp/127.0.0.1/53; (exec 5<>/dev/udp/{UNUSED_ADDRESS}/9) 2> /dev/null; sleep 1"
    );
    let mut words = launcher.iter().map(String::as_str).chain(["bash", "-c", &script]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).current_dir(folder).env("CULPRIT", folder).stdin(Stdio::null()).spawn().unwrap()
}

// Case E1
#[test]
fn violations_are_detected_in_trace() {
    if !capabilities::can_trace() {
        return;
    }
    let (calls, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trace = SyscallTrace::new(calls.path());
    violating_shell(&trace.launcher(), folder.path()).wait().unwrap();
    let wrong = syscall_trace::violations(&trace.finished(), &Allowed { folders: vec!["/own".into()] }).join("\n");
    for sign in ["outside", UNUSED_ADDRESS, "htons(53)"] {
        assert!(wrong.contains(sign), "`{sign}` is not in\n{wrong}");
    }
}

#[test]
fn violations_are_detected_in_samples() {
    let folder = tempfile::tempdir().unwrap();
    let sampler = Sampler::start(format!("CULPRIT={}", folder.path().display()));
    violating_shell(&[], folder.path()).wait().unwrap();
    let wrong = sampling::violations(&sampler.stop_and_collect(), &["/own".into()]).join("\n");
    for sign in ["outside", "127.0.0.1:53"] {
        assert!(wrong.contains(sign), "`{sign}` is not in\n{wrong}");
    }
}

// Case E1
#[test]
fn allowed_remote_connection_is_detected_in_trace() {
    if !capabilities::can_trace() {
        return;
    }
    let calls = tempfile::tempdir().unwrap();
    let trace = SyscallTrace::new(calls.path());
    let launcher = trace.launcher();
    let data = tempfile::tempdir().unwrap();
    let mut daemon = Command::new(&launcher[0])
        .args(&launcher[1..])
        .arg(env!("CARGO_BIN_EXE_vicd"))
        .env("VIC_DATA_DIR", data.path())
        .env("VIC_LISTEN", "127.0.0.1:0")
        .env("VIC_PRIVACY_MODE", "cloud_embedding_ok")
        .env("VIC_EMBED_BACKEND", "ollama")
        .env("VIC_OLLAMA_BASE_URL", format!("http://{UNUSED_ADDRESS}:9"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let allowed = Allowed { folders: vec![data.path().to_owned()] };
    let is_seen =
        |lines: &[String]| syscall_trace::violations(lines, &allowed).iter().any(|it| it.contains(UNUSED_ADDRESS));
    // Waits until the daemon has given up: the tracer may buffer its output until then.
    while daemon.try_wait().unwrap().is_none() && !is_seen(&trace.lines()) && begun.elapsed() < Duration::from_secs(30)
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(is_seen(&trace.finished()));
}

// Case E13
#[test]
fn secret_files_are_listed_but_never_read() {
    let world = World::new().with("VIC_INCLUDE_HIDDEN", "1").start();
    world.write("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nxylophonekey\n");
    world.write(".env", "TOKEN=xylophonetoken\n");
    world.write("ok.md", "Nothing special.");
    world.index();
    let found = world.json(&["ask", "xylophonekey xylophonetoken"]).to_string();
    assert!(!found.contains("TOKEN=") && !found.contains("BEGIN OPENSSH"), "{found}");
    let secret = world.files().join("id_rsa");
    assert_eq!(world.fails(&["read", secret.to_str().unwrap()]).0, 7);
}

// Case E3
#[test]
fn local_only_refuses_all_remote_servers_at_once() {
    let world = World::new();
    let started = Command::new(env!("CARGO_BIN_EXE_vicd"))
        .env("VIC_DATA_DIR", world.data())
        .env("VIC_LISTEN", "127.0.0.1:0")
        .env("VIC_EMBED_BACKEND", "ollama")
        .env("VIC_OLLAMA_BASE_URL", "http://192.0.2.1:11434")
        .env("VIC_LIBRARIAN_BACKEND", "openai")
        .env("VIC_OPENAI_MODEL", "any")
        .env("VIC_OPENAI_BASE_URL", "http://192.0.2.2:8080")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&started.stderr);
    assert_eq!(started.status.code(), Some(7), "{said}");
    assert!(said.contains("192.0.2.1") && said.contains("192.0.2.2"), "{said}");
}

// Cases D13, E2
#[test]
fn proxy_variables_are_reported_and_ignored() {
    let trap = Server::start(|_| vec![]);
    let server = openai_server::start(&["m"], |_| "The heron stands [1].".into());
    let mut world = World::new().with("VIC_LIBRARIAN_BACKEND", "openai").with("VIC_OPENAI_MODEL", "m");
    world = world.with("VIC_OPENAI_BASE_URL", &server.address);
    let set = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "HF_ENDPOINT",
        "SENTRY_DSN",
    ];
    world = set.iter().fold(world, |world, name| world.with(name, &trap.address));
    let world = world.with("RES_OPTIONS", "use-vc").with("VIC_WATCH", "0").start();
    world.write("a.md", "The heron stands in the reeds.");
    world.index();
    world.ok(&["ask", "where does the heron stand?"]);
    assert!(!server.requests_at("/v1/chat/completions").is_empty(), "the local server must be called directly");
    assert_eq!(trap.request_count(), 0, "proxies and collectors must not be called");
    for name in ["HTTP_PROXY", "ALL_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT", "SENTRY_DSN"] {
        assert!(world.log().contains(name), "{name}: {}", world.log());
    }
}

// Case E4
#[test]
fn missing_model_is_reported_without_network_access() {
    if !capabilities::can_trace() {
        return;
    }
    let (calls, models, server) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Server::start(|_| vec![]));
    let entry = format!(
        "[[model]]\nname = \"absent\"\nkind = \"embedding\"\nlicence = \"none\"\ndimension = 3\npooling = \"mean\"\nnormalize = true\n\
         max_tokens = 9\n[[model.files]]\nname = \"model.onnx\"\nsources = [\"{}/model.onnx\"]\n",
        server.address
    );
    std::fs::write(models.path().join("catalog.toml"), entry).unwrap();
    let trace = SyscallTrace::new(calls.path());
    let world = World::new().with("VIC_MODELS_DIR", models.path().to_str().unwrap()).with("VIC_EMBED_MODEL", "absent");
    let world = world.under(trace.launcher());
    let ended = world.command(env!("CARGO_BIN_EXE_vicd")).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(3) && said.contains("vic models pull absent"), "{:?}: {said}", ended.status);
    let lines = trace.finished();
    let sockets: Vec<_> =
        lines.iter().filter(|it| it.starts_with("socket(AF_INET") || it.starts_with("connect(")).collect();
    assert!(sockets.is_empty() && !lines.is_empty(), "{sockets:?}");
    assert_eq!(server.request_count(), 0);
}

/// Starts a daemon with an embedding server of this name and these lines in `/etc/hosts`. Returns its exit code and standard
/// error. The code is None if the daemon kept running, which is killed after 5 s.
fn start_with_hosts(hosts: &str, server: &str) -> (Option<i32>, String) {
    let world = World::new();
    let names = world.write("hosts", hosts);
    let script = "mount --bind \"$0\" /etc/hosts && exec timeout -s KILL 5 \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script]).arg(names).arg(env!("CARGO_BIN_EXE_vicd"));
    command.env("VIC_DATA_DIR", world.data()).env("VIC_LISTEN", "127.0.0.1:0");
    command.env("VIC_EMBED_BACKEND", "ollama").env("VIC_OLLAMA_BASE_URL", format!("http://{server}:9"));
    let ended = command.output().unwrap();
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

// Case D13
#[test]
fn host_with_local_and_remote_address_is_remote() {
    if !capabilities::can_unshare(&["-rm"]) {
        return;
    }
    let two = "127.0.0.1 localhost two.localhost\n2001:db8::1 two.localhost\n";
    let (code, said) = start_with_hosts(two, "two.localhost");
    assert!(code == Some(7) && said.contains("forbids sending text to `two.localhost`"), "{code:?}: {said}");
    let here = "127.0.0.1 localhost two.localhost\n::1 two.localhost\n";
    let (code, said) = start_with_hosts(here, "two.localhost");
    assert!(code != Some(7) && !said.contains("forbids"), "{code:?}: {said}");
}
