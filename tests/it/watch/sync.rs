//! Tests that answers reflect all changes and deletions immediately after a sync.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use vic::error::ErrorCode;

use crate::support::capabilities;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::long_tests::size_from_env;
use crate::support::openai_server;
use crate::support::scripted_server::Server;
use crate::support::scripted_server::Step;
use crate::watch::events::SOON;
use crate::watch::events::index_in;
use crate::watch::events::indexed_world;

#[test]
fn deleted_file_vanishes_from_answers_at_once() {
    let rounds = size_from_env("VIC_TORTURE_DELETIONS", 20);
    let (world, caller) = indexed_world(&["kept.md"]);
    for round in 0..rounds {
        let word = format!("zebrawood{}", char::from(b'a' + (round % 26) as u8));
        let (gone, kept) =
            (world.write("gone.md", format!("Here {word}.")), world.write("new.md", format!("And {word}.")));
        caller.sync();
        assert_eq!(caller.hits(&format!("\"{word}\"")).len(), 2, "round {round}");
        fs::remove_file(gone).unwrap();
        for look in 0..5 {
            let found: Vec<String> = caller.hits(&format!("\"{word}\"")).into_iter().map(|it| it.path).collect();
            assert_eq!(found, ["new.md"], "round {round}, look {look}");
        }
        fs::remove_file(kept).unwrap();
        caller.sync();
        assert_eq!(caller.hits(&format!("\"{word}\"")).len(), 0, "round {round}");
    }
}

#[test]
fn sync_makes_own_writes_searchable() {
    let (world, caller) = indexed_world(&["a.md"]);
    let mut waits = Vec::new();
    for round in 0..40 {
        let name = format!("{}/{}.md", round % 3, round % 8);
        world.write(&name, format!("Round {round} of writing and reading."));
        let begun = Instant::now();
        caller.sync();
        waits.push(begun.elapsed());
        let found = caller.hits(&format!("\"round {round} of\""));
        assert!(found.iter().any(|it| it.path == name), "round {round}: {found:?}");
    }
    waits.sort_unstable();
    println!("sync: p50 {:.2?}, p95 {:.2?}", waits[20], waits[38]);
    assert!(waits[38] < SOON, "{waits:?}");
}

#[test]
fn sync_respects_timeout_and_reports_cause() {
    let (world, caller) = indexed_world(&["a.md"]);
    world.ok(&["pause"]);
    world.write("b.md", "Not read while indexing pauses.");
    let error = caller.try_sync(5).unwrap_err();
    assert_eq!(error.code, ErrorCode::FailedPrecondition);
    assert!(error.hint.unwrap().contains("vic resume"));
    world.ok(&["resume"]);
    assert!(world.ok(&["sync"]).contains("everything is searchable"));
    let inside = world.json(&["sync", world.files().join("b.md").to_str().unwrap()]);
    assert_eq!(inside["files"], 0, "{inside}");
    let (code, said) = world.fails(&["sync", "/no/such/folder"]);
    assert!(code == 3 && said.contains("lies in no root"), "{said}");
}

#[test]
fn sync_after_start_includes_offline_changes() {
    let mut world = World::new().start();
    // Writes many files, so that the walk at the start of the daemon takes a while.
    (0..2_000).for_each(|it| drop(world.write(&format!("{}/{it}.md", it % 50), format!("Entry {it} of the log."))));
    world.index();
    for round in 0..4 {
        let word = format!("zebrawood{}", char::from(b'a' + round));
        world.kill();
        world.write("49/1999.md", format!("Here {word}."));
        world.spawn_without_wait();
        while !world.data().join("listen").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        world.ok(&["sync"]);
        let found: Vec<String> =
            SyncClient::new(&world).hits(&format!("\"{word}\"")).into_iter().map(|it| it.path).collect();
        assert_eq!(found, ["49/1999.md"], "round {round}");
        assert_eq!(world.json(&["status"])["coverage"]["pending"], 0, "round {round}");
    }
}

#[test]
fn sync_walks_without_watching() {
    let (world, caller) = index_in(World::new().with("VIC_WATCH", "0"), &["a.md"]);
    world.write("b.md", "Found by walking: hellebore.");
    caller.sync();
    assert_eq!(caller.hits("hellebore")[0].path, "b.md");
    assert!(!caller.status().watch.watching);
    assert_eq!(caller.status().degraded, Vec::<String>::new(), "disabled watching must not be reported");
}

#[test]
fn few_saved_files_stay_outside_keyword_index() {
    let (world, caller) = indexed_world(&["a.md"]);
    (0..150).for_each(|it| drop(world.write(&format!("{}/{it}.md", it % 7), format!("Pontoon {it}."))));
    caller.sync();
    assert!(caller.poll_until(SOON, |it| it.status().upkeep.unindexed_chunks <= 100));
    assert_eq!(caller.hits("\"pontoon 134\"")[0].path, "1/134.md");
}

/// Creates and indexes another root, with one file, beside the root of the test.
fn second_root(world: &World, name: &str) -> PathBuf {
    let folder = world.files().with_file_name(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("early.md"), "Early in the other folder.").unwrap();
    world.ok(&["index", folder.to_str().unwrap()]);
    folder
}

// Case A12
#[test]
fn missing_root_with_pending_files_blocks_no_other() {
    let (world, caller) = indexed_world(&["a.md"]);
    let other = second_root(&world, "other");
    world.ok(&["pause"]);
    fs::write(other.join("late.md"), "Late in the other folder.").unwrap();
    world.wait_until("the new file is pending", SOON * 5, |it| it.json(&["status"])["coverage"]["pending"] == 1);
    fs::rename(&other, other.with_file_name("away")).unwrap();
    // Writes many files, so that the job indexes keywords first and vectors in a second pass.
    (0..600).for_each(|it| drop(world.write(&format!("{it}.md"), format!("Entry {it} of the log."))));
    world.ok(&["resume"]);
    caller.sync();
    assert_eq!(caller.hits("\"entry 599\"")[0].path, "599.md");
    world.wait_until("all files have vectors", Duration::from_secs(60), |it| {
        let coverage = &it.json(&["status"])["coverage"];
        coverage["awaiting_vectors"] == 0 && coverage["pending"] == 1
    });
    fs::rename(other.with_file_name("away"), &other).unwrap();
    assert!(caller.poll_until(Duration::from_secs(20), |it| !it.hits("\"late in the other\"").is_empty()));
}

// Case A12
#[test]
fn missing_pending_files_do_not_block_sync() {
    let (mut world, _) = indexed_world(&[]);
    let names: Vec<String> = (0..30).map(|it| format!("{it}.md")).collect();
    let folder = world.files();
    let write = |text: &str| names.iter().for_each(|it| fs::write(folder.join(it), format!("{text} {it}")).unwrap());
    write("Early in");
    world.index();
    world.ok(&["pause"]);
    write("Much later in");
    world.wait_until("all files are pending", SOON * 5, |it| it.json(&["status"])["coverage"]["pending"] == 30);
    world.kill();
    let away = folder.with_file_name("away");
    fs::create_dir(&away).unwrap();
    let part = &names[..20];
    part.iter().for_each(|it| fs::rename(folder.join(it), away.join(it)).unwrap());
    world.spawn_and_wait();
    world.ok(&["resume"]);
    let begun = Instant::now();
    // More than half of the files are missing at once, so the daemon keeps their entries until the losses are confirmed.
    world.ok(&["sync"]);
    let pending = |it: &World| it.json(&["status"])["coverage"]["pending"].clone();
    assert!(
        begun.elapsed() < Duration::from_secs(30) && pending(&world) == 20,
        "{:?} {}",
        begun.elapsed(),
        pending(&world)
    );
    part.iter().for_each(|it| fs::rename(away.join(it), folder.join(it)).unwrap());
    world.wait_until("no file is pending", Duration::from_secs(30), |it| pending(it) == 0);
    assert_eq!(SyncClient::new(&world).hits("\"much later in 3\"")[0].path, "3.md");
}

/// Restarts the daemon under `strace`, which delays these system calls on a path by `late` microseconds.
fn restart_with_delay(world: &mut World, place: &Path, calls: &str, late: &str) -> SyncClient {
    restart_under(world, &delaying_strace(&[place.to_str().unwrap()], calls, late))
}

/// Returns the `strace` command that delays these system calls on these paths. SIGTERM makes it detach.
fn delaying_strace(places: &[&str], calls: &str, late: &str) -> Vec<String> {
    let (trace, late) = (format!("trace={calls}"), format!("inject={calls}:delay_enter={late}"));
    let words = ["strace", "-I1", "-D", "-f", "-q", "-o", "/dev/null", "-e", &trace, "-e", &late];
    let places = places.iter().flat_map(|it| ["-P", it]);
    words.into_iter().chain(places).map(String::from).collect()
}

/// Restarts the daemon under this command, and connects to it.
fn restart_under(world: &mut World, words: &[String]) -> SyncClient {
    world.kill();
    world.spawn_with_launcher(words);
    world.wait_until("the daemon listens", Duration::from_secs(60), |it| it.data().join("listen").exists());
    SyncClient::new(world)
}

// Case A12
#[test]
fn unresponsive_root_at_start_blocks_no_other() {
    if !capabilities::can_trace() {
        return;
    }
    let (mut world, _) = indexed_world(&["a.md"]);
    let silent = second_root(&world, "silent");
    let caller = restart_with_delay(&mut world, &silent, "getdents64", "20000000");
    world.write("new.md", "New in the folder that answers.");
    let soon = Duration::from_secs(10);
    let is_found = |it: &SyncClient| !it.hits("\"new in the folder\"").is_empty();
    assert!(caller.poll_until(soon, is_found), "{}", world.log());
    let is_told = |it: &SyncClient| it.status().degraded.iter().any(|it| it.contains("does not answer"));
    assert!(caller.poll_until(soon, is_told), "{:?}", caller.status());
    let begun = Instant::now();
    world.write("newer.md", "Newer in the folder that answers.");
    caller.sync();
    assert!(!caller.hits("\"newer in the folder\"").is_empty() && begun.elapsed() < soon, "{:?}", begun.elapsed());
}

// Case A12
#[test]
fn doctor_reports_unresponsive_root_and_checks_the_rest() {
    if !capabilities::can_trace() {
        return;
    }
    let (mut world, _) = indexed_world(&["a.md"]);
    let silent = second_root(&world, "silent");
    world.kill();
    let strace = delaying_strace(&[silent.to_str().unwrap()], "getdents64", "600000000");
    let vicd = world.command(env!("CARGO_BIN_EXE_vicd"));
    let mut doctor = std::process::Command::new(&strace[0]);
    doctor.args(&strace[1..]).arg(vicd.get_program()).arg("doctor").env_clear();
    doctor.envs(vicd.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let report = world.files().with_file_name("report.json");
    let mut doctor = doctor.stdout(fs::File::create(&report).unwrap()).spawn().unwrap();
    let told = || serde_json::from_slice::<vic::model::DoctorReport>(&fs::read(&report).unwrap());
    world.wait_until("the report is complete", Duration::from_secs(60), |_| told().is_ok());
    end_delay(doctor.id());
    doctor.wait().unwrap();
    let report = told().unwrap();
    let roots: Vec<_> = report.checks.iter().filter(|it| it.name == "roots").collect();
    let [away, rest] = roots[..] else { panic!("{roots:?}") };
    assert!(away.finding.contains("silent`, or a folder in it, does not answer") && away.cure.is_some(), "{away:?}");
    assert_eq!(rest.finding, "1 roots, 1 files unchanged, 0 changed or gone since last recorded");
    assert!(report.checks.iter().any(|it| it.name == "leftovers"), "{report:?}");
}

// Case A12
#[test]
fn question_is_answered_despite_unresponsive_root() {
    if !capabilities::can_trace() {
        return;
    }
    let (mut world, caller) = indexed_world(&["a.md"]);
    let silent = second_root(&world, "silent");
    world.write("a.md", "The heron stands on the quay.");
    fs::write(silent.join("b.md"), "The heron stands in the marsh.").unwrap();
    caller.sync();
    let paths = |it: &SyncClient| it.hits("\"the heron stands\"").iter().map(|it| it.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&caller).len(), 2);
    let caller = restart_with_delay(&mut world, &silent, "openat,openat2,getdents64", "30000000");
    let begun = Instant::now();
    assert_eq!(paths(&caller), ["a.md"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let answer = world.json(&["ask", "\"the heron stands\""]);
    assert!(answer["warnings"].to_string().contains("their folder is unavailable"), "{answer}");
}

/// Checks a folder in another root that does not respond: new files elsewhere are found, and its files once it responds.
fn check_stuck_folder(world: World) {
    if !capabilities::can_trace() {
        return;
    }
    let (mut world, _) = index_in(world, &["a.md"]);
    let other = second_root(&world, "other");
    fs::create_dir(other.join("share")).unwrap();
    fs::write(other.join("share/late.md"), "Late on the share.").unwrap();
    let caller = restart_with_delay(&mut world, &other.join("share"), "getdents64", "600000000");
    world.write("new.md", "New in the folder that answers.");
    let is_found = |it: &SyncClient| !it.hits("\"new in the folder\"").is_empty();
    let is_told = |it: &SyncClient| it.status().degraded.iter().any(|it| it.contains("other`, or a folder in it"));
    let soon = Duration::from_secs(45);
    assert!(caller.poll_until(soon, |it| is_found(it) && is_told(it)), "{:?} {}", caller.status(), world.log());
    end_delay(world.pid());
    let is_back = |it: &SyncClient| !it.hits("\"late on the share\"").is_empty() && it.status().degraded.is_empty();
    assert!(caller.poll_until(Duration::from_secs(120), is_back), "{:?} {}", caller.status(), world.log());
}

/// Ends the `strace` that delays the system calls of this process.
fn end_delay(process: u32) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let tracer = status.lines().find_map(|it| it.strip_prefix("TracerPid:")).unwrap().trim().to_owned();
    assert!(std::process::Command::new("kill").args(["-TERM", &tracer]).status().unwrap().success());
}

// Case A12
#[test]
fn watcher_stuck_in_unresponsive_folder_blocks_no_other() {
    check_stuck_folder(World::new());
}

// Case A12
#[test]
fn walk_stuck_in_unresponsive_folder_blocks_no_other() {
    check_stuck_folder(World::new().with("VIC_WATCH", "0").with("VIC_POLL_SECONDS", "5"));
}

// Case A12
#[test]
fn unresponsive_mount_blocks_neither_root_nor_question() {
    let (mut world, caller) = indexed_world(&["a.md"]);
    world.write("share/early.md", "The heron stands early on the share.");
    world.write("b.md", "The heron stands on the quay.");
    caller.sync();
    let paths = |it: &SyncClient| it.hits("\"the heron stands\"").iter().map(|it| it.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&caller).len(), 2);
    let share = world.files().join("share");
    let script = "mount -t tmpfs tmpfs \"$0\" && for it in early late; do \
                  echo The heron stands $it on the share. > \"$0/$it.md\"; done && exec \"$@\"";
    let mounted = ["-rm", "sh", "-c", script, share.to_str().unwrap()];
    if !capabilities::can_trace()
        || !capabilities::can_unshare(&["-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt && exec \"$@\"", "sh"])
    {
        return;
    }
    let places = [share.to_str().unwrap(), "share/early.md", "share/late.md"];
    let silent = delaying_strace(&places, "openat,openat2,getdents64", "600000000");
    let launcher = ["unshare"].iter().chain(&mounted).map(|it| (*it).to_owned()).chain(silent).collect::<Vec<_>>();
    let caller = restart_under(&mut world, &launcher);
    world.write("new.md", "The heron stands anew.");
    let is_found = |it: &SyncClient| paths(it).contains(&"new.md".to_string());
    let is_told = |it: &SyncClient| it.status().degraded.iter().any(|it| it.contains("share` does not answer"));
    assert!(caller.poll_until(Duration::from_secs(60), |it| is_found(it) && is_told(it)), "{:?}", caller.status());
    let begun = Instant::now();
    world.write("newer.md", "The heron stands once more.");
    caller.sync();
    let found = paths(&caller);
    assert!(found.contains(&"newer.md".into()) && !found.iter().any(|it| it.starts_with("share")), "{found:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    end_delay(world.pid());
    let is_whole = |it: &SyncClient| paths(it).len() == 5 && it.status().degraded.is_empty();
    assert!(caller.poll_until(Duration::from_secs(120), is_whole), "{:?} {}", caller.status(), world.log());
}

#[test]
fn files_saved_during_model_outage_are_found_afterwards() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = is_away.clone();
    let server = Server::start(move |asked| match away.load(Ordering::Relaxed) {
        true => Step::json(503, &json!({ "error": { "message": "not now", "type": "server_error", "code": 503 } })),
        false => openai_server::answer(&["any"], asked, &|_| String::new()),
    });
    let (world, caller) = index_in(openai_server::with_embedder(World::new(), &server), &["a.md"]);
    is_away.store(true, Ordering::Relaxed);
    world.write("b.md", "Saved while the model was away.");
    let fails = |it: &SyncClient| it.status().degraded.iter().any(|it| it.contains("cannot index the changed files"));
    assert!(caller.poll_until(Duration::from_secs(30), fails), "{:?}", caller.status());
    is_away.store(false, Ordering::Relaxed);
    let is_found = |it: &SyncClient| it.hits("\"while the model\"").iter().any(|it| it.path == "b.md");
    assert!(caller.poll_until(Duration::from_secs(60), is_found), "{:?}", caller.status());
    assert!(caller.poll_until(SOON, |it| !fails(it)), "{:?}", caller.status());
}
