//! Tests bad input: each error is one clear sentence with a documented exit code, and no data is lost.

use std::process::Command;

use crate::support::harness::World;

#[test]
fn invalid_requests_fail_with_one_sentence_and_code() {
    let world = World::new().start();
    let file = world.write("a.md", "x");
    for (arguments, code, named) in [
        (vec!["index", "/no/such/folder"], 3, "/no/such/folder"),
        (vec!["ask", ""], 2, "empty"),
        (vec!["ask", "x", "--limit", "0"], 2, "limit"),
        (vec!["ask", "x", "--after", "soon"], 2, "soon"),
        (vec!["ask", "x", "--glob", "a["], 2, "a["),
        (vec!["read", "/no/such/file"], 3, "/no/such/file"),
        (vec!["read", file.to_str().unwrap()], 3, "a.md"),
        (vec!["jobs", "show", "nonsense"], 3, "nonsense"),
        (vec!["frobnicate"], 2, "frobnicate"),
        (vec!["ask", "x", "--frobnicate"], 2, "--frobnicate"),
        (vec!["index"], 6, "no folder"),
        (vec!["index", file.to_str().unwrap()], 6, "lies in no root"),
        (vec!["index", world.data().to_str().unwrap()], 2, "own data"),
    ] {
        let (got, said) = world.fails(&arguments);
        assert_eq!(got, code, "vic {arguments:?}: {said}");
        assert!(said.contains(named), "vic {arguments:?}: {said}");
        assert!(said.starts_with("error: "), "vic {arguments:?}: {said}");
    }
}

#[test]
fn read_and_index_name_the_rule_that_leaves_a_file_out() {
    let world = World::new().with("VIC_WATCH", "0").start();
    world.write("a.md", "A note.");
    world.write(".vicignore", "# not yet\ndrafts/\n");
    let draft = world.write("drafts/party.md", "The party is in June.");
    let hidden = world.write("notes/.party.md", "The party is in June.");
    world.index();
    let (code, said) = world.fails(&["read", draft.to_str().unwrap()]);
    assert!(code == 3 && said.contains("the rule `drafts/` in") && said.contains(".vicignore`, line 2"), "{said}");
    assert!(said.contains("hint: remove the rule"), "{said}");
    let (code, said) = world.fails(&["read", hidden.to_str().unwrap()]);
    assert!(code == 3 && said.contains("begins with a dot") && said.contains("VIC_INCLUDE_HIDDEN"), "{said}");
    let indexed = world.vic(&["index", draft.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&indexed.stderr);
    assert!(said.contains("the rule `drafts/` in") && said.contains("hint: remove the rule"), "{said}");
}

// Case D8
#[test]
fn failed_daemon_start_is_explained_by_cli() {
    let world = World::new().with("VIC_EMBED_MODEL", "no-such-model");
    let (code, said) = world.fails(&["status"]);
    assert!(code == 3 && said.contains("no-such-model") && said.contains("hint: known models"), "{code}: {said}");
    let world = World::new().with("VIC_LISTEN", "0.0.0.0:0");
    let (code, said) = world.fails(&["status"]);
    assert!(code == 2 && said.contains("0.0.0.0:0"), "{code}: {said}");
}

#[test]
fn data_files_are_private_to_owner() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    // Creates the data directory before the start, readable by all users; the daemon must restrict it.
    std::fs::create_dir(world.data()).unwrap();
    std::fs::set_permissions(world.data(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let world = world.start();
    world.write("a.md", "A note.");
    world.index();
    for entry in std::fs::read_dir(world.data()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", entry.path().display());
    }
}

#[test]
fn empty_folder_is_indexed() {
    let world = World::new().start();
    world.index();
    assert_eq!(world.json(&["status"])["coverage"]["found"], 0);
    assert!(world.paths(&["anything"]).is_empty());
}

#[test]
fn bad_files_get_a_reason_and_good_ones_are_indexed() {
    let world = World::new().start();
    world.write("good.md", "The lighthouse keeper's diary.");
    world.write("broken.pdf", "%PDF-1.7\n1 0 obj\n<< /Type /Catalog");
    world.write("broken.docx", "PK\u{3}\u{4} this is no zip");
    world.write("deep.json", "[".repeat(200_000));
    world.write("empty.txt", "");
    world.write("nul.txt", b"before\0\0\0after");
    world.write("binary.dat", [0u8, 159, 146, 150, 1, 2, 3, 0, 0, 255]);
    assert!(Command::new("mkfifo").arg(world.files().join("pipe.txt")).status().unwrap().success());
    world.index();
    let status = world.json(&["status"]);
    assert_eq!(status["coverage"]["found"], 8, "{status:#}");
    assert_eq!(status["coverage"]["pending"], 0, "{status:#}");
    let reasons: u64 = status["coverage"]["reasons"].as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
    let left_out = status["coverage"]["skipped"].as_u64().unwrap() + status["coverage"]["failed"].as_u64().unwrap();
    assert_eq!(reasons, left_out, "{status:#}");
    assert_eq!(world.paths(&["lighthouse keeper"])[0], "good.md");
}

// Case A11
#[test]
fn non_utf8_names_are_indexed() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new().start();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9 menu.txt");
    std::fs::write(world.files().join(name), "Croissants and strong coffee.").unwrap();
    world.index();
    let paths = world.paths(&["croissants"]);
    assert!(paths[0].starts_with("file:///") && paths[0].ends_with("caf%E9%20menu.txt"), "{paths:?}");
}

#[test]
fn unknown_model_fails_start_with_known_names() {
    let world = World::new();
    let started = Command::new(env!("CARGO_BIN_EXE_vicd"))
        .env("VIC_DATA_DIR", world.data())
        .env("VIC_LISTEN", "127.0.0.1:0")
        .env("VIC_EMBED_MODEL", "no-such-model")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&started.stderr).into_owned();
    assert_eq!(started.status.code(), Some(3), "{said}");
    assert!(said.contains("no-such-model") && said.contains("known models"), "{said}");
}

/// Returns the process ids of the extraction workers of this daemon.
pub(crate) fn workers(daemon: u32) -> Vec<u32> {
    let output = Command::new("pgrep").args(["-P", &daemon.to_string()]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line.parse().unwrap()).collect()
}

fn is_running(pid: u32) -> bool {
    // A zombie process that its parent has not reaped has an empty command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|it| !it.is_empty())
}

/// Number of files that a worker extracts before it is replaced; see `MAX_JOBS_PER_WORKER`.
const FILES_PER_WORKER: usize = 1_000;

#[test]
fn worker_is_replaced_after_thousand_files() {
    let world = World::new().with("VIC_WORKERS", "1").with("VIC_WATCH", "0").start();
    let write = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            world.write(&format!("{}/{number}.md", number % 20), format!("Entry {number} of the harbour log."));
        }
        world.index();
    };
    write(0..1);
    let first = workers(world.pid());
    assert_eq!(first.len(), 1, "{first:?}");
    // Stays below the limit, so the first worker must still run. A second worker may run beside it.
    write(1..FILES_PER_WORKER - 10);
    let so_far = workers(world.pid());
    assert!(so_far.contains(&first[0]) && so_far.len() <= 2, "{first:?}, then {so_far:?}");
    write(FILES_PER_WORKER..FILES_PER_WORKER * (so_far.len() + 1));
    let later = workers(world.pid());
    assert!(!so_far.iter().all(|it| later.contains(it)), "{so_far:?} were not replaced: {later:?}");
    let coverage = &world.json(&["status"])["coverage"];
    assert!(coverage["failed"] == 0 && coverage["indexed"] == coverage["found"], "{coverage}");
}

#[test]
fn killed_idle_worker_costs_no_file() {
    let world = World::new().start();
    world.write("a.md", "The first note, about herons.");
    world.index();
    let before = workers(world.pid());
    assert!(!before.is_empty());
    for worker in &before {
        assert!(Command::new("kill").args(["-KILL", &worker.to_string()]).status().unwrap().success());
    }
    world.write("b.md", "The second note, about pike.");
    world.index();
    let coverage = &world.json(&["status"])["coverage"];
    assert_eq!((coverage["indexed"].as_u64(), coverage["failed"].as_u64()), (Some(2), Some(0)), "{coverage}");
}

#[test]
fn killed_busy_workers_cost_no_file() {
    let world = World::new().start();
    for number in 0..200 {
        let rows: String = (0..40).map(|it| format!("<tr><td>{it}<td>heron {number}</tr>")).collect();
        world.write(&format!("{number}.html"), format!("<table>{rows}</table>"));
    }
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    let mut killed = 0;
    for _ in 0..5 {
        // Waits for progress: a file whose worker is killed twice is given up. Its second reading holds up all others.
        let before = world.json(&["status"])["coverage"]["indexed"].as_u64().unwrap();
        world.wait_until("more files are indexed", std::time::Duration::from_secs(60), |it| {
            it.json(&["status"])["coverage"]["indexed"].as_u64().unwrap() >= (before + 10).min(200)
        });
        for worker in workers(world.pid()) {
            killed += u32::from(Command::new("kill").args(["-KILL", &worker.to_string()]).status().unwrap().success());
        }
    }
    assert!(killed > 0, "the test must kill at least one worker");
    world.wait_until("all files are indexed", std::time::Duration::from_secs(120), |it| {
        let coverage = it.json(&["status"])["coverage"].clone();
        assert_eq!(coverage["failed"], 0, "{coverage}");
        coverage["indexed"] == 200
    });
}

/// Returns the number of attempts that the catalog counts for the pending file with the most attempts.
fn max_tries(world: &World) -> u32 {
    let catalog = rusqlite::Connection::open(world.data().join("catalog.sqlite")).unwrap();
    catalog.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let sql = "SELECT coalesce(max(tries), 0) FROM files WHERE state = 'pending'";
    catalog.query_row(sql, [], |row| row.get(0)).unwrap()
}

// Case C12
#[test]
fn file_is_given_up_after_five_daemon_crashes() {
    let mut world = World::new().start();
    let paragraphs: String = (0..6_000)
        .map(|it| format!("Paragraph {it}: of herons, pike, reeds and the weather of that day.\n\n"))
        .collect();
    world.write("long.md", paragraphs);
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    for deaths in 1..=5 {
        world.wait_until("the next attempt at the file has started", std::time::Duration::from_secs(60), |it| {
            max_tries(it) == deaths
        });
        let coverage = world.json(&["status"])["coverage"].clone();
        assert_eq!((&coverage["pending"], &coverage["failed"]), (&1.into(), &0.into()), "{coverage}");
        world.kill();
        world.spawn_and_wait();
    }
    world.wait_until("the file is skipped", std::time::Duration::from_secs(60), |it| {
        it.json(&["status"])["coverage"]["reasons"] == serde_json::json!({"worker_crash": 1})
    });
    world.kill();
    world.spawn_and_wait();
    assert_eq!(max_tries(&world), 0, "the file must not be retried");
    let listed = world.json(&["files", "long"]);
    assert!(listed.to_string().contains("ended unexpectedly 5 times"), "{listed}");
}

// Case B8
#[test]
fn unwritable_output_fails_with_one_sentence_and_code() {
    let world = World::new().start();
    world.write("a.md", "A note about herons.");
    world.index();
    let commands: [&[&str]; 12] = [
        &["--help"],
        &["--version"],
        &["ask", "herons"],
        &["ask", "herons", "--format", "json"],
        &["status"],
        &["files"],
        &["grep", "heron"],
        &["jobs"],
        &["config", "template"],
        &["schema", "ask_response"],
        &["completions", "bash"],
        &["corpus", "help"],
    ];
    for arguments in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output =
            world.command(crate::support::harness::vic_program()).args(arguments).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(8), "vic {arguments:?}: {said}");
        assert!(said.starts_with("error: cannot write the result") && said.contains("hint: "), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "vic {arguments:?}: {said}");
    }
}

#[test]
fn files_without_worker_are_read_by_next_job() {
    let programs = tempfile::tempdir().unwrap();
    let [daemon, worker, aside] = ["vicd", "vic-worker", "aside"].map(|it| programs.path().join(it));
    std::fs::copy(env!("CARGO_BIN_EXE_vicd"), &daemon).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_vic-worker"), &worker).unwrap();
    let mut world = World::new();
    world.spawn_with_launcher(&["sh".into(), "-c".into(), format!("exec {}", daemon.display())]);
    world.wait_until("the daemon answers", std::time::Duration::from_secs(60), |it| {
        it.data().join("listen").exists() && it.vic(&["status"]).status.success()
    });
    std::fs::rename(&worker, &aside).unwrap();
    world.write("a.md", "The heron stands in the reeds.");
    world.index();
    let status = world.json(&["status"]);
    assert_eq!(status["coverage"]["reasons"], serde_json::json!({"io": 1}), "{status:#}");
    let said = status["degraded"].to_string();
    assert!(said.contains("do not start") && said.contains("vic index"), "{said}");
    std::fs::rename(&aside, &worker).unwrap();
    world.index();
    let status = world.json(&["status"]);
    assert_eq!(status["coverage"]["indexed"], 1, "{status:#}");
    assert_eq!(status["degraded"].as_array().map_or(0, Vec::len), 0, "{status:#}");
}

#[test]
fn workers_end_with_killed_daemon() {
    let mut world = World::new().start();
    world.write("a.md", "The only note.");
    world.index();
    let workers = workers(world.pid());
    assert!(!workers.is_empty());
    world.kill();
    world.wait_until("the workers have ended", std::time::Duration::from_secs(5), |_| {
        !workers.iter().any(|it| is_running(*it))
    });
}
