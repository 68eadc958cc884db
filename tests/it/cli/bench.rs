//! Tests `vic bench` as users and as programs call it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::harness::sample_dir;
use crate::support::harness::vic_program;
use crate::support::scripted_server::Server;
use crate::support::scripted_server::Step;

/// Maximum time until a process starts or ends. The test fails after that.
const SOON: Duration = Duration::from_secs(20);

/// Writes JSON lines to a file beside the folder to index. Returns the path of the file.
fn write_json_lines(world: &World, name: &str, lines: &[Value]) -> PathBuf {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    let path = world.files().parent().unwrap().join(name);
    std::fs::write(&path, text.join("\n")).unwrap();
    path
}

fn write_texts(world: &World) -> PathBuf {
    let words = "the keeper of the lighthouse trims the lamp at dusk and writes the weather into the book";
    let all: Vec<Value> = (1..=48).map(|it| json!({ "text": format!("{it} {}", &words[..it + 20]) })).collect();
    write_json_lines(world, "texts.jsonl", &all)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

#[test]
fn embed_report_has_top_level_keys_and_row_per_setting() {
    let world = World::new();
    let texts = write_texts(&world);
    let report = world.json(&["bench", "embed", "--texts", texts.to_str().unwrap(), "--batch", "8,16"]);
    for key in ["tokens_per_second", "texts_per_second", "p50_ms", "p99_ms", "peak_rss_mib", "batches"] {
        assert!(number(&report, key) > 0.0, "{key}");
    }
    assert_eq!((&report["settings"]["precision"], &report["settings"]["mix"]), (&json!("int8"), &json!("file")));
    assert_eq!(report["settings"]["operations_per_token"], 21_233_664.0);
    let peak = &report["settings"]["peak"];
    assert!(number(peak, "fp32_gflops") > 0.0);
    // A machine without instructions for int8 has no peak in the precision of the model.
    assert_eq!(report["peak_share"].as_f64().is_some_and(|it| it > 0.0), peak["int8_by"].is_string(), "{report}");
    assert!(report["settings"]["engine"] != "server", "the bench must compute embeddings in its own process");
    assert!(number(&report["machine"], "cores") >= 1.0);
    let rows = report["rows"].as_array().unwrap();
    let of = |key: &str| rows.iter().map(|it| it[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("batches"), [6.0, 3.0]);
    assert_eq!(of("texts"), [48.0, 48.0]);
    assert!(rows[0]["label"].as_str().unwrap().ends_with("batch 8"), "{}", rows[0]["label"]);
}

#[test]
fn run_is_compared_with_earlier_report_and_rendered_as_html() {
    let world = World::new();
    let texts = write_texts(&world);
    let bench = ["bench", "embed", "--texts", texts.to_str().unwrap(), "--no-peak", "--batch", "4,8"];
    let earlier = write_json_lines(&world, "earlier.json", &[world.json(&bench)]);
    let page = world.files().join("page.html");
    let with = [&bench[..], &["--compare", earlier.to_str().unwrap(), "--html", page.to_str().unwrap()]].concat();
    let now = world.json(&with);
    let ratio = number(&now["compared"]["rows"][0]["ratios"], "tokens_per_second");
    let then: Value = serde_json::from_str(&std::fs::read_to_string(earlier).unwrap()).unwrap();
    let speed = |report: &Value| number(&report["rows"][0], "tokens_per_second");
    let expected = speed(&now) / speed(&then);
    assert!((ratio - expected).abs() < 1e-9, "{ratio} is not {expected}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"));
    assert!(!page.contains("http") && !page.contains("<script"), "the page must not load anything or run scripts");
}

#[test]
fn autotune_stores_fastest_setting_and_untune_reverts() {
    let world = World::new();
    let texts = write_texts(&world);
    let origin = |world: &World, name: &str| {
        let settings = world.json(&["config", "show"]);
        let found = settings.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
        (found["value"].clone(), found["origin"].clone())
    };
    let tune = ["bench", "embed", "--autotune", "--seconds", "1", "--texts", texts.to_str().unwrap()];
    let report = world.json(&[&tune[..], &["--threads", "1", "--batch", "16"]].concat());
    assert_eq!(report["rows"].as_array().unwrap().len(), 1);
    assert_eq!(origin(&world, "VIC_EMBED_THREADS"), (json!("1"), json!("tuned")));
    assert_eq!(origin(&world, "VIC_EMBED_BATCH"), (json!("16"), json!("tuned")));
    let plain = world.json(&["bench", "embed", "--texts", texts.to_str().unwrap(), "--no-peak"]);
    assert_eq!((&plain["settings"]["threads"], &plain["settings"]["batch"]), (&json!(1), &json!(16)));
    world.ok(&["bench", "embed", "--untune"]);
    assert_eq!(origin(&world, "VIC_EMBED_THREADS"), (json!("0"), json!("default")));
}

#[test]
fn unmeasurable_input_fails_with_code_and_hint() {
    let world = World::new();
    let texts = write_texts(&world);
    let texts = texts.to_str().unwrap();
    let empty = write_json_lines(&world, "empty.jsonl", &[]);
    let empty = empty.to_str().unwrap();
    std::fs::create_dir(world.files().join("nothing")).unwrap();
    let nothing = world.files().join("nothing");
    let nothing = nothing.to_str().unwrap();
    for (line, code) in [
        (vec!["embed", "--texts", "/no/such/file"], 3),
        (vec!["embed", "--texts", empty], 2),
        (vec!["embed", "--texts", texts, "--model", "no-such-model"], 3),
        (vec!["embed", "--texts", texts, "--device", "cuda"], 6),
        (vec!["embed", "--texts", texts, "--max-memory", "1M"], 8),
        (vec!["embed", "--texts", texts, "--compare", "/no/such/file"], 3),
        (vec!["walk", "/no/such/folder"], 3),
        (vec!["walk", nothing], 6),
        (vec!["extract", nothing], 6),
        (vec!["ocr", nothing], 6),
        (vec!["index", "/no/such/folder"], 3),
        (vec!["index", nothing], 6),
        (vec!["search", "--queries", "/no/such/file"], 3),
        (vec!["search", "--queries", texts], 4),
    ] {
        let (exit, said) = world.fails(&[&["bench"], &line[..]].concat());
        assert_eq!(exit, code, "{line:?}: {said}");
        assert!(said.contains("hint: "), "{line:?}: {said}");
    }
}

#[test]
fn missing_gpu_falls_back_to_cpu_with_warning() {
    let world = World::new();
    let texts = write_texts(&world);
    let line = ["bench", "embed", "--texts", texts.to_str().unwrap(), "--no-peak", "--device", "cuda", "--fallback"];
    let output = world.vic(&[&line[..], &["--format", "json"]].concat());
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("warning: the configured graphics card cannot be used"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["settings"]["device"], "cpu");
    assert!(report["warnings"][0].as_str().unwrap().contains("on the CPU instead"));
}

#[test]
fn failed_backend_fails_only_its_row() {
    let slow = Server::start(|_| vec![Step::Wait(std::time::Duration::from_secs(600))]);
    let world =
        World::new().with("VIC_OLLAMA_BASE_URL", &slow.address).with("VIC_OPENAI_BASE_URL", "http://127.0.0.1:9");
    let texts = write_texts(&world);
    let line = ["bench", "embed", "--texts", texts.to_str().unwrap(), "--no-peak"];
    let report = world.json(&[&line[..], &["--backend", "onnx,openai"]].concat());
    assert!(number(&report, "tokens_per_second") > 0.0);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows[0]["error"].is_null(), "{report}");
    assert!(rows[1]["error"]["message"].as_str().unwrap().contains("127.0.0.1:9"), "{report}");
    let (exit, said) = world.fails(&[&line[..], &["--backend", "ollama", "--timeout", "5"]].concat());
    assert!(exit == 9 && said.contains("hint: "), "{said}");
}

#[test]
fn walk_and_extract_are_measured_without_data_directory() {
    let world = World::new();
    let sample = sample_dir();
    let walk = world.json(&["bench", "walk", sample.to_str().unwrap(), "--runs", "2"]);
    for key in ["files_per_second", "seconds_cold", "seconds_rescan", "p50_ms"] {
        assert!(number(&walk, key) > 0.0, "{key}");
    }
    let extract = world.json(&["bench", "extract", sample.to_str().unwrap()]);
    assert!(number(&extract, "pages_per_second") > 0.0 && number(&extract, "peak_rss_mib") > 0.0);
    assert_eq!(extract["rows"][0]["label"], "all files");
    assert_eq!(extract["settings"]["jailed"], true);
    let kinds: f64 = extract["rows"].as_array().unwrap()[1..].iter().map(|it| number(it, "files")).sum();
    assert_eq!(kinds, number(&extract, "files"));
    assert!(!world.data().exists(), "the bench must not create the data directory");
}

#[test]
fn index_bench_uses_temporary_daemon() {
    let world = World::new();
    world.write("a.md", "The keeper of the lighthouse trims the lamp.");
    world.write("b.md", "The spare key hangs behind the door.");
    let report = world.json(&["bench", "index", world.files().to_str().unwrap()]);
    assert_eq!(number(&report, "files"), 2.0);
    for key in ["seconds_cold", "seconds_rescan", "files_per_second", "peak_rss_mib", "chunks"] {
        assert!(number(&report, key) > 0.0, "{key}");
    }
    // The watcher may index the new files before the job does; then the report has a warning instead of a token count.
    let counted = report["tokens_per_second"].as_f64().is_some_and(|it| it > 0.0);
    assert!(counted || report["warnings"].to_string().contains("outside the job"), "{report}");
    assert!(!world.data().exists(), "the bench must not create the data directory");
}

#[test]
fn search_bench_offers_rate_and_counts_unsent() {
    let world = World::new().with("VIC_WATCH", "0").start();
    world.write("a.md", "The keeper of the lighthouse trims the lamp.");
    let queries =
        write_json_lines(&world, "q.jsonl", &[json!({ "query": "who trims the lamp?" }), json!({ "text": "key" })]);
    let line = ["bench", "search", "--queries", queries.to_str().unwrap()];
    let (exit, said) = world.fails(&line);
    assert!(exit == 6 && said.contains("vic index"), "{said}");
    world.index();
    let calm = world.json(&[&line[..], &["--clients", "2", "--rate", "5", "--seconds", "2"]].concat());
    assert_eq!((number(&calm, "unsent"), number(&calm, "failed")), (0.0, 0.0));
    assert_eq!(number(&calm, "answered"), number(&calm, "due"));
    assert!(number(&calm, "queries_per_second") > 0.0 && number(&calm, "p99_ms") >= number(&calm, "service_p50_ms"));
    let flood = [&line[..], &["--clients", "1", "--rate", "20000", "--seconds", "3", "--format", "json"]].concat();
    let output = world.vic(&flood);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("were never sent"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        number(&report, "unsent") + number(&report, "answered") + number(&report, "failed"),
        number(&report, "due")
    );
    assert!(number(&report, "p99_ms") > 5_000.0, "the waiting time of unsent queries must count: {report}");
}

#[test]
fn killed_vic_ends_its_command_in_vicd() {
    let world = World::new().start();
    // `vic mcp` runs as long as its input is open, because it waits for a request.
    let mut vic = world.command(vic_program()).arg("mcp").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", vic.id());
    let child = || std::fs::read_to_string(&children).unwrap().split_whitespace().next().map(str::to_string);
    let mut pid = None;
    world.wait_until("`vic mcp` has started its child process", SOON, |_| {
        pid = child();
        let line = pid.as_ref().and_then(|it| std::fs::read(format!("/proc/{it}/cmdline")).ok()).unwrap_or_default();
        line.ends_with(b"command\0mcp\0")
    });
    let process = PathBuf::from("/proc").join(pid.unwrap());
    // Waits until the child process has asked the kernel to be ended together with `vic`.
    std::thread::sleep(Duration::from_millis(500));
    vic.kill().unwrap();
    vic.wait().unwrap();
    world.wait_until("the child process has ended", SOON, |_| !process.exists());
}
