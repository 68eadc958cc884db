//! What was changed is in the answers, and what is gone is not: at once where a program waits for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use vic::error::ErrorCode;

use crate::caller::Caller;
use crate::harness::World;
use crate::server::{Act, Server};
use crate::torture::size;
use crate::watching::{SOON, opened, world};
use crate::{means, openai};

#[test]
fn a_deleted_file_is_in_no_answer_from_the_moment_of_its_deletion() {
    let rounds = size("VIC_TORTURE_DELETIONS", 20);
    let (world, caller) = world(&["kept.md"]);
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
fn a_sync_lets_a_program_read_what_it_wrote() {
    let (world, caller) = world(&["a.md"]);
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
fn a_sync_waits_no_longer_than_it_is_told_and_says_what_stands_in_the_way() {
    let (world, caller) = world(&["a.md"]);
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
fn a_sync_right_after_a_start_knows_what_changed_while_no_daemon_ran() {
    let mut world = World::new().start();
    // So many that the walk of the start takes a while.
    (0..2_000).for_each(|it| drop(world.write(&format!("{}/{it}.md", it % 50), format!("Entry {it} of the log."))));
    world.index();
    for round in 0..4 {
        let word = format!("zebrawood{}", char::from(b'a' + round));
        world.kill();
        world.write("49/1999.md", format!("Here {word}."));
        world.set_off();
        while !world.data().join("listen").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        world.ok(&["sync"]);
        let found: Vec<String> =
            Caller::new(&world).hits(&format!("\"{word}\"")).into_iter().map(|it| it.path).collect();
        assert_eq!(found, ["49/1999.md"], "round {round}");
        assert_eq!(world.json(&["status"])["coverage"]["pending"], 0, "round {round}");
    }
}

#[test]
fn without_watching_a_sync_walks() {
    let (world, caller) = opened(World::new().with("VIC_WATCH", "0"), &["a.md"]);
    world.write("b.md", "Found by walking: hellebore.");
    caller.sync();
    assert_eq!(caller.hits("hellebore")[0].path, "b.md");
    assert!(!caller.status().watch.watching);
    assert_eq!(caller.status().degraded, Vec::<String>::new(), "it was switched off, and is no problem");
}

#[test]
fn of_files_that_are_saved_few_are_left_outside_the_keyword_index() {
    let (world, caller) = world(&["a.md"]);
    (0..150).for_each(|it| drop(world.write(&format!("{}/{it}.md", it % 7), format!("Pontoon {it}."))));
    caller.sync();
    assert!(caller.within(SOON, |it| it.status().upkeep.unindexed_chunks <= 100));
    assert_eq!(caller.hits("\"pontoon 134\"")[0].path, "1/134.md");
}

/// Another folder beside that of the world, with one file in it, indexed.
fn second_root(world: &World, name: &str) -> PathBuf {
    let folder = world.files().with_file_name(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("early.md"), "Early in the other folder.").unwrap();
    world.ok(&["index", folder.to_str().unwrap()]);
    folder
}

#[test]
fn a_folder_that_is_away_with_files_to_read_keeps_no_other_waiting() {
    let (world, caller) = world(&["a.md"]);
    let other = second_root(&world, "other");
    world.ok(&["pause"]);
    fs::write(other.join("late.md"), "Late in the other folder.").unwrap();
    world.until("the file is known", SOON * 5, |it| it.json(&["status"])["coverage"]["pending"] == 1);
    fs::rename(&other, other.with_file_name("away")).unwrap();
    // So many are found by their words first, and by their vectors in a second pass.
    (0..600).for_each(|it| drop(world.write(&format!("{it}.md"), format!("Entry {it} of the log."))));
    world.ok(&["resume"]);
    caller.sync();
    assert_eq!(caller.hits("\"entry 599\"")[0].path, "599.md");
    world.until("the vectors are there", Duration::from_secs(60), |it| {
        let coverage = &it.json(&["status"])["coverage"];
        coverage["awaiting_vectors"] == 0 && coverage["pending"] == 1
    });
    fs::rename(other.with_file_name("away"), &other).unwrap();
    assert!(caller.within(Duration::from_secs(20), |it| !it.hits("\"late in the other\"").is_empty()));
}

#[test]
fn files_that_were_to_be_read_and_are_missing_keep_nobody_waiting_and_are_read_when_they_are_back() {
    let (mut world, _) = world(&[]);
    let names: Vec<String> = (0..30).map(|it| format!("{it}.md")).collect();
    let folder = world.files();
    let write = |text: &str| names.iter().for_each(|it| fs::write(folder.join(it), format!("{text} {it}")).unwrap());
    write("Early in");
    world.index();
    world.ok(&["pause"]);
    write("Much later in");
    world.until("they are known", SOON * 5, |it| it.json(&["status"])["coverage"]["pending"] == 30);
    world.kill();
    let away = folder.with_file_name("away");
    fs::create_dir(&away).unwrap();
    let part = &names[..20];
    part.iter().for_each(|it| fs::rename(folder.join(it), away.join(it)).unwrap());
    world.spawn();
    world.ok(&["resume"]);
    let begun = Instant::now();
    // More than half are gone at once: nobody believes that.
    world.ok(&["sync"]);
    let pending = |it: &World| it.json(&["status"])["coverage"]["pending"].clone();
    assert!(
        begun.elapsed() < Duration::from_secs(30) && pending(&world) == 20,
        "{:?} {}",
        begun.elapsed(),
        pending(&world)
    );
    part.iter().for_each(|it| fs::rename(away.join(it), folder.join(it)).unwrap());
    world.until("all are read", Duration::from_secs(30), |it| pending(it) == 0);
    assert_eq!(Caller::new(&world).hits("\"much later in 3\"")[0].path, "3.md");
}

/// Starts the daemon again on disks of which one is so many microseconds late with each such call at a place.
fn again_without_answer(world: &mut World, place: &Path, calls: &str, late: &str) -> Caller {
    again(world, &without_answer(&[place.to_str().unwrap()], calls, late))
}

/// Arguments of `strace`, which lets go when it is told to end.
fn without_answer(places: &[&str], calls: &str, late: &str) -> Vec<String> {
    let (trace, late) = (format!("trace={calls}"), format!("inject={calls}:delay_enter={late}"));
    let words = ["strace", "-I1", "-D", "-f", "-q", "-o", "/dev/null", "-e", &trace, "-e", &late];
    let places = places.iter().flat_map(|it| ["-P", it]);
    words.into_iter().chain(places).map(String::from).collect()
}

/// Starts the daemon again, behind these words.
fn again(world: &mut World, words: &[String]) -> Caller {
    world.kill();
    world.begin(words);
    world.until("it is there", Duration::from_secs(60), |it| it.data().join("listen").exists());
    Caller::new(world)
}

#[test]
fn a_folder_that_does_not_answer_at_the_start_keeps_no_other_waiting() {
    if !means::can_trace() {
        return;
    }
    let (mut world, _) = world(&["a.md"]);
    let silent = second_root(&world, "silent");
    let caller = again_without_answer(&mut world, &silent, "getdents64", "20000000");
    world.write("new.md", "New in the folder that answers.");
    let soon = Duration::from_secs(10);
    let is_found = |it: &Caller| !it.hits("\"new in the folder\"").is_empty();
    assert!(caller.within(soon, is_found), "{}", world.log());
    let is_told = |it: &Caller| it.status().degraded.iter().any(|it| it.contains("does not answer"));
    assert!(caller.within(soon, is_told), "{:?}", caller.status());
    let begun = Instant::now();
    world.write("newer.md", "Newer in the folder that answers.");
    caller.sync();
    assert!(!caller.hits("\"newer in the folder\"").is_empty() && begun.elapsed() < soon, "{:?}", begun.elapsed());
}

#[test]
fn the_doctor_names_a_folder_that_does_not_answer_and_looks_at_all_else() {
    if !means::can_trace() {
        return;
    }
    let (mut world, _) = world(&["a.md"]);
    let silent = second_root(&world, "silent");
    world.kill();
    let strace = without_answer(&[silent.to_str().unwrap()], "getdents64", "600000000");
    let vicd = world.command(env!("CARGO_BIN_EXE_vicd"));
    let mut doctor = std::process::Command::new(&strace[0]);
    doctor.args(&strace[1..]).arg(vicd.get_program()).arg("doctor").env_clear();
    doctor.envs(vicd.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let report = world.files().with_file_name("report.json");
    let mut doctor = doctor.stdout(fs::File::create(&report).unwrap()).spawn().unwrap();
    let told = || serde_json::from_slice::<vic::model::DoctorReport>(&fs::read(&report).unwrap());
    world.until("it is done", Duration::from_secs(60), |_| told().is_ok());
    answers_again(doctor.id());
    doctor.wait().unwrap();
    let report = told().unwrap();
    let roots: Vec<_> = report.checks.iter().filter(|it| it.name == "roots").collect();
    let [away, rest] = roots[..] else { panic!("{roots:?}") };
    assert!(away.finding.contains("silent`, or a folder in it, does not answer") && away.cure.is_some(), "{away:?}");
    assert_eq!(rest.finding, "1 roots, 1 files unchanged, 0 changed or gone since");
    assert!(report.checks.iter().any(|it| it.name == "leftovers"), "{report:?}");
}

#[test]
fn a_question_is_answered_although_a_folder_with_files_of_the_answer_does_not_answer() {
    if !means::can_trace() {
        return;
    }
    let (mut world, caller) = world(&["a.md"]);
    let silent = second_root(&world, "silent");
    world.write("a.md", "The heron stands on the quay.");
    fs::write(silent.join("b.md"), "The heron stands in the marsh.").unwrap();
    caller.sync();
    let paths = |it: &Caller| it.hits("\"the heron stands\"").iter().map(|it| it.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&caller).len(), 2);
    let caller = again_without_answer(&mut world, &silent, "openat,openat2,getdents64", "30000000");
    let begun = Instant::now();
    assert_eq!(paths(&caller), ["a.md"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let answer = world.json(&["ask", "\"the heron stands\""]);
    assert!(answer["warnings"].to_string().contains("their folder is away"), "{answer}");
}

/// A folder in another root does not answer; what is written elsewhere is found nevertheless, and what lies in that folder
/// once it answers.
fn lost(world: World) {
    if !means::can_trace() {
        return;
    }
    let (mut world, _) = opened(world, &["a.md"]);
    let other = second_root(&world, "other");
    fs::create_dir(other.join("share")).unwrap();
    fs::write(other.join("share/late.md"), "Late on the share.").unwrap();
    let caller = again_without_answer(&mut world, &other.join("share"), "getdents64", "600000000");
    world.write("new.md", "New in the folder that answers.");
    let is_found = |it: &Caller| !it.hits("\"new in the folder\"").is_empty();
    let is_told = |it: &Caller| it.status().degraded.iter().any(|it| it.contains("other`, or a folder in it"));
    let soon = Duration::from_secs(45);
    assert!(caller.within(soon, |it| is_found(it) && is_told(it)), "{:?} {}", caller.status(), world.log());
    answers_again(world.pid());
    let is_back = |it: &Caller| !it.hits("\"late on the share\"").is_empty() && it.status().degraded.is_empty();
    assert!(caller.within(Duration::from_secs(120), is_back), "{:?} {}", caller.status(), world.log());
}

/// Ends what keeps a disk from answering this process.
fn answers_again(process: u32) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let tracer = status.lines().find_map(|it| it.strip_prefix("TracerPid:")).unwrap().trim().to_owned();
    assert!(std::process::Command::new("kill").args(["-TERM", &tracer]).status().unwrap().success());
}

#[test]
fn a_watcher_that_is_lost_in_a_folder_that_does_not_answer_keeps_no_other_waiting() {
    lost(World::new());
}

#[test]
fn a_walk_that_is_lost_in_a_folder_that_does_not_answer_keeps_no_other_waiting() {
    lost(World::new().with("VIC_WATCH", "0").with("VIC_POLL_SECONDS", "5"));
}

#[test]
fn what_is_mounted_in_a_root_and_does_not_answer_holds_neither_its_root_nor_a_question() {
    let (mut world, caller) = world(&["a.md"]);
    world.write("share/early.md", "The heron stands early on the share.");
    world.write("b.md", "The heron stands on the quay.");
    caller.sync();
    let paths = |it: &Caller| it.hits("\"the heron stands\"").iter().map(|it| it.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&caller).len(), 2);
    let share = world.files().join("share");
    let script = "mount -t tmpfs tmpfs \"$0\" && for it in early late; do \
                  echo The heron stands $it on the share. > \"$0/$it.md\"; done && exec \"$@\"";
    let mounted = ["-rm", "sh", "-c", script, share.to_str().unwrap()];
    if !means::can_trace()
        || !means::can_unshare(&["-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt && exec \"$@\"", "sh"])
    {
        return;
    }
    let places = [share.to_str().unwrap(), "share/early.md", "share/late.md"];
    let silent = without_answer(&places, "openat,openat2,getdents64", "600000000");
    let launcher = ["unshare"].iter().chain(&mounted).map(|it| (*it).to_owned()).chain(silent).collect::<Vec<_>>();
    let caller = again(&mut world, &launcher);
    world.write("new.md", "The heron stands anew.");
    let is_found = |it: &Caller| paths(it).contains(&"new.md".to_string());
    let is_told = |it: &Caller| it.status().degraded.iter().any(|it| it.contains("share` does not answer"));
    assert!(caller.within(Duration::from_secs(60), |it| is_found(it) && is_told(it)), "{:?}", caller.status());
    let begun = Instant::now();
    world.write("newer.md", "The heron stands once more.");
    caller.sync();
    let found = paths(&caller);
    assert!(found.contains(&"newer.md".into()) && !found.iter().any(|it| it.starts_with("share")), "{found:?}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    answers_again(world.pid());
    let is_whole = |it: &Caller| paths(it).len() == 5 && it.status().degraded.is_empty();
    assert!(caller.within(Duration::from_secs(120), is_whole), "{:?} {}", caller.status(), world.log());
}

#[test]
fn what_was_saved_while_the_server_of_the_model_was_away_is_found_when_it_is_back() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = is_away.clone();
    let server = Server::start(move |asked| match away.load(Ordering::Relaxed) {
        true => Act::json(503, &json!({ "error": { "message": "not now", "type": "server_error", "code": 503 } })),
        false => openai::answer(&["any"], asked, &|_| String::new()),
    });
    let (world, caller) = opened(openai::embeds_for(World::new(), &server), &["a.md"]);
    is_away.store(true, Ordering::Relaxed);
    world.write("b.md", "Saved while nobody could embed it.");
    let fails = |it: &Caller| it.status().degraded.iter().any(|it| it.contains("cannot index what changed"));
    assert!(caller.within(Duration::from_secs(30), fails), "{:?}", caller.status());
    is_away.store(false, Ordering::Relaxed);
    let is_found = |it: &Caller| it.hits("\"nobody could embed\"").iter().any(|it| it.path == "b.md");
    assert!(caller.within(Duration::from_secs(60), is_found), "{:?}", caller.status());
    assert!(caller.within(SOON, |it| !fails(it)), "{:?}", caller.status());
}
