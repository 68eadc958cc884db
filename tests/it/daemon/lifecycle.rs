//! Tests the way from a folder to an answer, and the start, stop and restart of the daemon.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::harness::World;
use crate::support::harness::sample_dir;
use crate::watch::events::signal_daemon;

#[test]
fn sample_questions_find_their_files() {
    let world = World::new().start();
    world.ok(&["index", sample_dir().to_str().unwrap()]);
    let status = world.json(&["status"]);
    let coverage = &status["coverage"];
    let count = |key: &str| coverage[key].as_u64().unwrap();
    assert_eq!(count("found"), count("indexed") + count("skipped") + count("failed") + count("pending"));
    assert_eq!((count("pending"), count("failed")), (0, 0), "{status:#}");

    let questions = std::fs::read_to_string(sample_dir().join("questions.jsonl")).unwrap();
    let mut first = 0;
    let mut missed = Vec::new();
    let questions: Vec<Value> = questions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for question in &questions {
        let wanted = question["path"].as_str().unwrap();
        let paths = world.paths(&[question["question"].as_str().unwrap()]);
        first += usize::from(paths.first().is_some_and(|it| it == wanted));
        if !paths.iter().take(3).any(|it| it == wanted) {
            missed.push(format!("{question}: {:?}", &paths[..paths.len().min(3)]));
        }
    }
    assert!(missed.len() <= 1, "more than one expected file is not among the first three hits:\n{}", missed.join("\n"));
    assert!(first * 10 >= questions.len() * 8, "only {first} of {} come first", questions.len());
}

#[test]
fn models_can_be_pulled_before_first_start() {
    let world = World::new();
    world.ok(&["models", "pull", "ppocr"]);
    assert!(world.data().join("audit.sqlite").exists(), "the pull wrote nothing that prevents a start");
    world.start().json(&["status"]);
}

#[test]
fn answer_follows_contract_and_citation_matches_file() {
    let world = World::new().start();
    let path =
        world.write("notes/bees.md", "# Bees\n\nIntro.\n\n## Winter\n\nThe hive on the roof weighed 31 kg in March.\n");
    world.index();
    let answer = world.json(&["ask", "how heavy was the hive"]);
    let response: vic::model::AskResponse = serde_json::from_value(answer.clone()).unwrap();
    let hit = &response.hits[0];
    assert_eq!(hit.path, "notes/bees.md");
    assert!((0.0..=1.0).contains(&hit.score));
    assert_eq!(hit.metadata["citation"], "verified", "{answer:#}");
    let (start, end) =
        (hit.metadata["anchor"]["byte_start"].as_u64().unwrap(), hit.metadata["anchor"]["byte_end"].as_u64().unwrap());
    let bytes = std::fs::read(path).unwrap();
    assert!(std::str::from_utf8(&bytes[start as usize..end as usize]).unwrap().contains("31 kg"));
    assert_eq!(response.stats.unwrap().pipeline, "tiered");
}

#[test]
fn reindex_and_duplicate_embed_nothing() {
    let world = World::new().start();
    world.write("a.md", "The ferry to the island leaves at nine.");
    world.index();
    world.index();
    world.write("b.md", "The ferry to the island leaves at nine.");
    world.index();
    let jobs = world.json(&["jobs"]);
    let embedded: Vec<u64> =
        jobs.as_array().unwrap().iter().map(|job| job["chunks_embedded"].as_u64().unwrap()).collect();
    assert_eq!(embedded.iter().sum::<u64>(), 1, "{jobs:#}");
    assert_eq!(world.paths(&["ferry island"]).len(), 2);
}

#[test]
fn filters_apply_before_top_k() {
    let world = World::new().start();
    for number in 0..300 {
        world.write(&format!("many/{number}.md"), format!("Invoice {number}: invoice for invoices, invoice."));
    }
    world.write("one/rare.txt", "Somewhere in here an invoice is mentioned among quite a few other things.");
    world.index();
    assert_eq!(world.paths(&["invoice", "--ext", "txt"]), ["one/rare.txt"]);
    assert_eq!(world.paths(&["invoice", "--glob", "one/**"]), ["one/rare.txt"]);
    assert!(world.paths(&["invoice", "--after", "2100-01-01"]).is_empty());
    assert_eq!(world.paths(&["invoice", "--limit", "20"]).len(), 20);
}

#[test]
fn same_bytes_with_other_extension_are_extracted_separately() {
    let world = World::new().start();
    world.write("a.md", "# Marked\n\nThe buoy was painted green.");
    world.index();
    world.write("a.txt", "# Marked\n\nThe buoy was painted green.");
    world.index();
    let answer = world.json(&["ask", "green buoy", "--ext", "txt"]);
    assert_eq!(answer["hits"][0]["metadata"]["media_type"], "text/plain", "{answer:#}");
}

#[test]
fn file_names_are_searchable_before_extraction() {
    let world = World::new().with("VIC_WATCH", "0").start();
    world.write("Taxes 2025.pdf", "%PDF-1.4 nothing");
    world.ok(&["index", "--metadata-only", world.files().to_str().unwrap()]);
    assert_eq!(world.json(&["status"])["coverage"]["pending"], 1);
    assert!(world.ok(&["files", "taxes"]).contains("Taxes 2025.pdf"));
    let answer = world.json(&["ask", "taxes"]);
    assert_eq!(answer["hits"][0]["tier"], "L0");
    assert_eq!(answer["stats"]["pipeline"], "legacy");
}

// Case B10
#[test]
fn second_daemon_is_refused_and_sigterm_is_clean() {
    let mut world = World::new().start();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_vicd"))
        .env("VIC_DATA_DIR", world.data())
        .env("VIC_LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(5));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&format!("process {}", world.pid())), "{said}");
    assert!(world.terminate());
    assert!(!world.data().join("vicd.sock").exists() && !world.data().join("listen").exists());
}

#[test]
fn cli_starts_the_daemon_on_demand() {
    let world = World::new();
    world.write("a.txt", "A sentence about lighthouses.");
    world.index();
    assert_eq!(world.paths(&["lighthouse"]), ["a.txt"]);
    world.ok(&["daemon", "stop"]);
    assert_eq!(world.fails(&["daemon", "status"]).0, 4);
}

#[test]
fn hung_daemon_is_reported_and_stops_when_resumed() {
    let world = World::new().start();
    signal_daemon(&world, "-STOP");
    let begun = Instant::now();
    let (code, said) = world.fails(&["status"]);
    assert!(code == 4 && said.contains("connection to vicd") && said.contains("hint:"), "{code}: {said}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    std::thread::scope(|scope| {
        let stops = scope.spawn(|| world.ok(&["daemon", "stop"]));
        // Lets the daemon hang for longer than `daemon stop` usually waits for a reply.
        std::thread::sleep(Duration::from_secs(7));
        signal_daemon(&world, "-CONT");
        assert!(stops.join().unwrap().contains("stopped"));
    });
}

#[test]
fn stopped_daemon_is_reaped_while_its_parent_runs() {
    let world = World::new();
    let mut repl = world.command(crate::support::harness::vic_program());
    let mut repl = repl.arg("repl").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    writeln!(repl.stdin.as_mut().unwrap(), "status").unwrap();
    let pid = std::cell::Cell::new(0);
    world.wait_until("the daemon runs", Duration::from_secs(60), |it| {
        let status = it.vic(&["daemon", "status", "--format", "json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        pid.set(status["pid"].as_u64().unwrap_or_default());
        pid.get() > 0
    });
    world.ok(&["daemon", "stop"]);
    let process = format!("/proc/{}", pid.get());
    world.wait_until("the process is reaped", Duration::from_secs(5), |_| !Path::new(&process).exists());
    drop(repl.stdin.take());
    repl.wait().unwrap();
}

#[test]
fn start_waits_for_lock_of_ending_daemon() {
    let world = World::new();
    world.ok(&["status"]);
    world.ok(&["daemon", "stop"]);
    // Simulates a daemon that no longer accepts connections but still holds the lock of its data directory.
    let lock = std::fs::File::options().read(true).write(true).open(world.data().join("vicd.lock")).unwrap();
    lock.lock().unwrap();
    std::fs::write(world.data().join("vicd.lock"), format!("vicd, process {}\n", std::process::id())).unwrap();
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        drop(lock);
    });
    let begun = Instant::now();
    world.ok(&["status"]);
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    ending.join().unwrap();
}

/// Returns a folder with `vic` and a shell script in place of `vicd`.
fn programs_with_script(script: &str) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    // The folder is on the file system of the programs, so that `vic` can be a hard link instead of a large copy.
    let folder = tempfile::tempdir_in(Path::new(crate::support::harness::vic_program()).parent().unwrap()).unwrap();
    std::fs::hard_link(crate::support::harness::vic_program(), folder.path().join("vic")).unwrap();
    let daemon = folder.path().join("vicd");
    std::fs::write(&daemon, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&daemon, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn slow_start_is_awaited_with_one_notice() {
    let programs = programs_with_script(&format!("sleep 5\nexec {} \"$@\"", env!("CARGO_BIN_EXE_vicd")));
    let vic = programs.path().join("vic");
    let world = World::new();
    let output = world.run(vic.to_str().unwrap(), &["daemon", "start"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("waiting for vicd").count(), 1, "{said}");
    assert!(said.contains("vicd.log"), "{said}");
    let again = world.vic(&["status"]);
    assert!(again.status.success() && again.stderr.is_empty(), "{again:?}");
    world.ok(&["daemon", "stop"]);
}

#[test]
fn crash_at_start_is_reported_with_log_tail() {
    let programs = programs_with_script("for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; kill -KILL $$");
    let vic = programs.path().join("vic");
    let world = World::new();
    for command in [&["daemon", "start"][..], &["ask", "anything"]] {
        let begun = Instant::now();
        let output = world.run(vic.to_str().unwrap(), command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("SIGKILL") && said.contains("line 3") && said.contains("line 7"), "{said}");
        assert!(!said.contains("line 2"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

// Case A12
#[test]
fn missing_folder_does_not_block_model_switch() {
    let mut world = World::new().with("VIC_EMBED_PRECISION", "int8").start();
    world.write("here.md", "The almanac of the gardener.");
    world.index();
    let other = world.files().with_file_name("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("away.md"), "The almanac of the sailor.").unwrap();
    world.ok(&["index", other.to_str().unwrap()]);
    assert!(world.terminate());
    std::fs::rename(&other, other.with_file_name("unplugged")).unwrap();
    let mut world = world.with("VIC_EMBED_PRECISION", "fp32");
    world.spawn_and_wait();
    let minute = std::time::Duration::from_secs(60);
    let tables = |it: &World| {
        let tables = std::fs::read_dir(it.data().join("index")).unwrap();
        tables.filter(|it| it.as_ref().unwrap().path().extension().is_some_and(|it| it == "lance")).count()
    };
    world.wait_until("the new index answers", minute, |it| {
        it.json(&["status"])["coverage"]["indexed"] == 1 && tables(it) == 1
    });
    // While one folder is missing, new files of the other folder are indexed, and `sync` waits for them.
    world.write("new.md", "The almanac of the baker.");
    world.ok(&["sync"]);
    assert_eq!(world.paths(&["baker"])[0], "new.md");
    assert_eq!(world.json(&["status"])["coverage"]["pending"], 1);
    std::fs::rename(other.with_file_name("unplugged"), &other).unwrap();
    world.wait_until("the folder that was missing is indexed", minute, |it| {
        it.json(&["status"])["coverage"]["indexed"] == 3
    });
    assert!(world.paths(&["sailor"])[0].ends_with("away.md"));
}

// Case B13
#[test]
fn model_change_builds_new_index_then_switches() {
    let mut world = World::new().with("VIC_EMBED_PRECISION", "int8").start();
    for number in 0..50 {
        world.write(&format!("{number}.md"), format!("Page {number} of the gardener's almanac."));
    }
    world.index();
    assert!(world.terminate());
    let mut world = world.with("VIC_EMBED_PRECISION", "fp32");
    world.spawn_and_wait();
    // During the switch, either the old index or the new index answers.
    assert_eq!(world.paths(&["almanac"]).len(), 10);
    world.wait_until("every file is in the new index", std::time::Duration::from_secs(60), |it| {
        let status = it.json(&["status"]);
        status["coverage"]["indexed"] == 50 && status["degraded"].as_array().is_some_and(Vec::is_empty)
    });
    assert_eq!(world.json(&["status"])["chunks"], 50);
    assert_eq!(world.paths(&["almanac"]).len(), 10);
    // The old table may still exist here: it is deleted after the switch to the new table.
    world.wait_until("the old table is gone", std::time::Duration::from_secs(10), |it| {
        let tables = std::fs::read_dir(it.data().join("index")).unwrap();
        tables.filter(|it| it.as_ref().unwrap().path().extension().is_some_and(|it| it == "lance")).count() == 1
    });
}
