//! Tests how soon changes on disk appear in search results.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::limits::background_load::idle_world;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::long_tests::PromiseChecks;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;

/// Promised maximum time until a saved, new, renamed or deleted file is reflected in search results.
const FRESH: Duration = Duration::from_secs(2);

/// Pause between two saves, like that of a user who saves often.
const BETWEEN_SAVES: Duration = Duration::from_millis(150);

/// Promised maximum time until a killed and restarted daemon answers.
const RESTART_LIMIT: Duration = Duration::from_secs(5);

/// Maximum time of a search. The test fails after that.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(60);

fn jobs_embedded(world: &World) -> u64 {
    let jobs = world.json(&["jobs"]);
    jobs.as_array().unwrap().iter().map(|job| job["chunks_embedded"].as_u64().unwrap()).sum()
}

#[test]
fn new_changed_renamed_deleted_files_show_within_two_seconds() {
    let world = World::new().start();
    world.write("old.md", "Something about trains.");
    world.index();

    let path = world.write("deep/er/new.md", "A recipe for quince jelly.");
    world.wait_until("the new file is found", FRESH, |it| {
        it.paths(&["quince jelly"]).first().is_some_and(|p| p == "deep/er/new.md")
    });

    std::fs::write(&path, "A recipe for rhubarb compote.").unwrap();
    world.wait_until("the new content is found", FRESH, |it| {
        let answer = it.json(&["ask", "rhubarb compote"]);
        answer["hits"][0]["excerpt"].as_str().is_some_and(|excerpt| excerpt.contains("rhubarb"))
    });

    let renamed = world.files().join("deep/renamed.md");
    std::fs::rename(&path, &renamed).unwrap();
    world.wait_until("the file is found under its new name", FRESH, |it| {
        let paths = it.paths(&["rhubarb compote"]);
        paths.first().is_some_and(|p| p == "deep/renamed.md") && !paths.contains(&"deep/er/new.md".to_string())
    });

    std::fs::remove_file(&renamed).unwrap();
    world.wait_until("the deleted file is not found", FRESH, |it| {
        !it.paths(&["rhubarb compote"]).contains(&"deep/renamed.md".into())
    });
}

#[test]
fn offline_changes_are_found_at_start_and_rename_embeds_nothing() {
    let mut world = World::new().start();
    world.write("kept.md", "The observatory opens on Fridays.");
    world.write("gone.md", "The bakery closes on Mondays.");
    world.index();
    assert!(world.terminate());
    std::fs::rename(world.files().join("kept.md"), world.files().join("moved.md")).unwrap();
    std::fs::remove_file(world.files().join("gone.md")).unwrap();
    world.write("added.md", "The harbour office moved upstairs.");
    let before = {
        world.spawn_and_wait();
        jobs_embedded(&world)
    };
    world.wait_until("the offline changes are found", Duration::from_secs(20), |it| {
        it.paths(&["harbour office"]).first().is_some_and(|p| p == "added.md")
    });
    assert_eq!(world.paths(&["observatory"])[0], "moved.md");
    assert!(!world.paths(&["bakery mondays"]).contains(&"gone.md".into()));
    // The jobs have embedded one chunk each for the first two files and the added file, none for the renamed file.
    assert!(before <= 3);
    assert_eq!(jobs_embedded(&world), 3);
}

#[test]
fn returned_root_is_watched_again() {
    let world = World::new().start();
    world.write("a.md", "The archive of letters.");
    world.index();
    let away = world.files().with_file_name("away");
    std::fs::rename(world.files(), &away).unwrap();
    assert_eq!(world.fails(&["index"]).0, 3);
    std::fs::rename(&away, world.files()).unwrap();
    world.index();
    assert!(world.json(&["status"])["degraded"].as_array().unwrap().is_empty());
    world.write("b.md", "A recipe for quince jelly.");
    world.wait_until("a new file is found", FRESH, |it| it.paths(&["quince jelly"])[0] == "b.md");
}

#[test]
fn parent_as_root_keeps_child_fresh() {
    let world = World::new().start();
    world.write("child/a.md", "The archive of letters.");
    world.ok(&["index", world.files().join("child").to_str().unwrap()]);
    world.index();
    world.write("child/b.md", "A recipe for quince jelly.");
    world.wait_until("a new file in the child is found", FRESH, |it| it.paths(&["quince jelly"])[0] == "child/b.md");
}

#[test]
fn empty_or_missing_root_keeps_index() {
    let world = World::new().start();
    world.write("a.md", "The archive of letters.");
    world.index();
    let away = world.files().with_file_name("away");
    std::fs::rename(world.files(), &away).unwrap();
    let (code, said) = world.fails(&["index"]);
    assert_eq!(code, 3, "{said}");
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], 1);
    std::fs::create_dir(world.files()).unwrap();
    world.vic(&["index"]);
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], 1);
}

#[test]
fn killed_daemon_loses_no_committed_file() {
    let mut world = World::new().start();
    for number in 0..3_000 {
        world.write(&format!("{number}.md"), format!("Entry {number} of the harbour log, wind from the west."));
    }
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    world.wait_until("the job has embedded some chunks", Duration::from_secs(20), |it| {
        it.json(&["status"])["running_jobs"][0]["chunks_embedded"].as_u64().is_some_and(|chunks| chunks > 0)
    });
    world.kill();
    world.spawn_and_wait();
    world.index();
    let status = world.json(&["status"]);
    assert_eq!((status["coverage"]["indexed"].as_u64(), status["chunks"].as_u64()), (Some(3_000), Some(3_000)));
}

/// Time allowed beyond [`FRESH`], because the machine is busy with the job. The measured time is printed.
const BUSY_SLACK: Duration = Duration::from_secs(4);

/// Returns a unique text of about 200 tokens.
fn long_text(number: usize) -> String {
    let words =
        ["harbour", "ledger", "orchard", "granite", "violin", "lantern", "meadow", "copper", "saddle", "cellar"];
    let word = |place: usize| words[(number * 7 + place * (number % 9 + 1)) % words.len()];
    (0..150).map(|place| format!("{}{} ", word(place), if place % 15 == 14 { "." } else { "" })).collect::<String>()
        + &format!("Entry number {number}.")
}

/// Starts a daemon, fills the folder with this number of files, and starts a job that takes long.
fn start_long_job(files: usize) -> World {
    let world = World::new().start();
    world.write("old.md", "Something about trains.");
    world.write("gone.md", "The bakery closes on Mondays.");
    world.index();
    // Writes the files elsewhere and moves them, because the watcher would index a growing folder before the job.
    let aside = world.files().with_file_name("aside");
    std::fs::create_dir(&aside).unwrap();
    for number in 0..files {
        std::fs::write(aside.join(format!("{number}.md")), long_text(number)).unwrap();
    }
    std::fs::rename(aside, world.files().join("job")).unwrap();
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    world.wait_until("the job has embedded some chunks", Duration::from_secs(90), |it| {
        it.json(&["status"])["running_jobs"][0]["chunks_embedded"].as_u64().is_some_and(|chunks| chunks > 0)
    });
    world
}

fn has_running_job(world: &World) -> bool {
    !world.json(&["status"])["running_jobs"].as_array().unwrap().is_empty()
}

#[test]
fn saved_file_overtakes_running_job() {
    let world = start_long_job(6_000);
    let check = |what: &str, holds: &dyn Fn(&World) -> bool| {
        let begun = std::time::Instant::now();
        world.wait_until(what, FRESH + BUSY_SLACK, |it| holds(it));
        println!("{what} after {:.2} s", begun.elapsed().as_secs_f64());
    };
    let path = world.write("new.md", "A recipe for quince jelly.");
    check("a new file is found", &|it| it.paths(&["quince jelly"]).first().is_some_and(|p| p == "new.md"));
    world.write("old.md", "A treatise on beekeeping.");
    check("new content is found", &|it| {
        let answer = it.json(&["ask", "beekeeping"]);
        answer["hits"][0]["excerpt"].as_str().is_some_and(|excerpt| excerpt.contains("beekeeping"))
    });
    std::fs::rename(&path, world.files().join("renamed.md")).unwrap();
    check("the new name is found", &|it| it.paths(&["quince jelly"]).first().is_some_and(|p| p == "renamed.md"));
    std::fs::remove_file(world.files().join("gone.md")).unwrap();
    check("a deleted file is not found", &|it| !it.paths(&["bakery mondays"]).contains(&"gone.md".into()));
    assert!(has_running_job(&world), "the job ended before the changes");
}

// Case C14
#[test]
fn files_moved_or_changed_during_job_are_indexed_correctly() {
    let world = start_long_job(1_500);
    std::fs::rename(world.files().join("job"), world.files().join("moved")).unwrap();
    for number in (0..1_500).step_by(10) {
        world.write(&format!("moved/{number}.md"), format!("Letter {number} on quince jelly."));
    }
    world.wait_until("all files are indexed", Duration::from_secs(120), |it| {
        let status = it.json(&["status"]);
        status["coverage"]["pending"] == 0 && status["coverage"]["found"] == 1_502 && !has_running_job(it)
    });
    let status = world.json(&["status"]);
    assert_eq!(
        (status["coverage"]["indexed"].as_u64(), status["chunks"].as_u64()),
        (Some(1_502), Some(1_502)),
        "{status}"
    );
    for number in [0, 700, 1_490] {
        let answer = world.json(&["ask", &format!("letter {number} quince jelly"), "--limit", "1000"]);
        let hits = answer["hits"].as_array().unwrap();
        let hit = hits.iter().find(|it| it["path"] == format!("moved/{number}.md")).expect("the file must be found");
        assert!(hit["excerpt"].as_str().unwrap().contains("quince jelly"), "{hit}");
    }
}

// Case E14
#[test]
fn new_ignore_rule_hides_file_until_removed() {
    let world = World::new().start();
    world.write("diary.md", "The cellar key hangs behind the barometer.");
    world.write("plain.md", "The observatory opens on Fridays.");
    world.index();
    assert_eq!(world.paths(&["cellar key barometer"])[0], "diary.md");
    let rules = world.write(".vicignore", "diary.md\n");
    world.wait_until("the ignored file is not found", FRESH, |it| {
        !it.paths(&["cellar key barometer"]).contains(&"diary.md".to_string())
    });
    assert!(!world.ok(&["grep", "barometer"]).contains("cellar"));
    std::fs::remove_file(rules).unwrap();
    world.wait_until("the file is found again", FRESH * 2, |it| {
        it.paths(&["cellar key barometer"]).first().is_some_and(|path| path == "diary.md")
    });
}

// Case E14
#[test]
fn ignore_rule_for_most_of_root_is_applied() {
    let mut world = World::new().start();
    for number in 0..20 {
        world.write(&format!("archive/{number}.md"), format!("Cellar key {number} hangs behind the barometer."));
    }
    world.write("plain.md", "The observatory opens on Fridays.");
    world.index();
    assert!(world.terminate());
    // The ignore file appears while the daemon is stopped, so the walk of the next start must apply it.
    world.write(".vicignore", "archive/\n");
    world.spawn_and_wait();
    let is_of_it = |path: &String| path.starts_with("archive/");
    world.wait_until("no file of the ignored folder is found", SEARCH_TIMEOUT, |it| {
        !it.paths(&["cellar key barometer"]).iter().any(is_of_it)
    });
    assert!(!world.ok(&["grep", "barometer"]).contains("Cellar"));
    let status = world.json(&["status"]);
    assert_eq!(
        (&status["roots"][0]["available"], &status["roots"][0]["problem"]),
        (&true.into(), &"".into()),
        "{status:#}"
    );
}

// Case E14
#[test]
fn unreadable_file_is_hidden_until_readable() {
    let world = World::new().without_root_override().start();
    let diary = world.write("diary.md", "The cellar key hangs behind the barometer.");
    world.write("plain.md", "The observatory opens on Fridays.");
    world.index();
    let is_found = |it: &World| it.paths(&["cellar key barometer"]).contains(&"diary.md".to_string());
    assert!(is_found(&world));
    std::fs::set_permissions(&diary, std::fs::Permissions::from_mode(0o000)).unwrap();
    world.wait_until("the unreadable file is not found", FRESH, |it| !is_found(it));
    assert!(!world.ok(&["grep", "barometer"]).contains("cellar"));
    let reasons = |it: &World| it.json(&["status"])["coverage"]["reasons"]["permission_denied"].as_u64();
    world.wait_until("the status has the reason", FRESH, |it| reasons(it) == Some(1));
    std::fs::set_permissions(&diary, std::fs::Permissions::from_mode(0o600)).unwrap();
    world.wait_until("the file is found again", FRESH * 2, is_found);
}

#[test]
fn small_job_commits_without_delay() {
    let world = World::new().start();
    world.write("first.md", "The observatory opens on Fridays.");
    world.index();
    let begun = std::time::Instant::now();
    for round in 0..5 {
        world.write(&format!("{round}.md"), format!("Entry {round} of the harbour log."));
        world.index();
    }
    // A job with one file must commit at once, not wait for further files until the maximum commit delay.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}

/// Saves files one at a time, each with a unique word. Returns the time from each save until the word was found.
fn save_sequentially(world: &World, caller: &SyncClient, saves: usize) -> Vec<Duration> {
    let names: Vec<PathBuf> = caller.files().into_keys().collect();
    let save = |(number, name): (usize, &PathBuf)| {
        std::thread::sleep(BETWEEN_SAVES);
        let (name, word) = (name.to_str().unwrap(), format!("zinnia{number}"));
        let begun = Instant::now();
        world.write(name, format!("Saved once more, with {word} in it."));
        let is_found = |it: &SyncClient| it.hits(&format!("\"{word}\"")).first().is_some_and(|hit| hit.path == name);
        assert!(caller.poll_until(SEARCH_TIMEOUT, is_found), "save {number}, of `{name}`\n{}", world.log());
        begun.elapsed()
    };
    names.iter().cycle().step_by(37).take(saves).enumerate().map(save).collect()
}

/// Saves files among ten thousand and measures when each is found. Then kills the daemon and searches the last save.
#[test]
#[ignore = "takes minutes: see `make torture`"]
fn torture_edit_to_searchable() {
    let (files, saves) = (size_from_env("VIC_TORTURE_FILES", 10_000), size_from_env("VIC_TORTURE_SAVES", 200));
    let (mut world, caller) = idle_world(files as usize);
    let took = save_sequentially(&world, &caller, saves as usize);
    let chunks = caller.status().chunks;
    let p50 = format!("from a save to a question that finds it, p50 of {saves}");
    figure(&p50, format!("{:.1?}", percentile(&took, 50)));
    let mut promises = PromiseChecks::default();
    let (second, five) = (Duration::from_secs(1), Duration::from_secs(5));
    promises.at_most("from a save to a question that finds it, p95", percentile(&took, 95), second, FRESH);
    promises.at_most("from a save to a question that finds it, p99", percentile(&took, 99), five, five);
    world.kill();
    let begun = Instant::now();
    world.spawn_and_wait();
    let (caller, last) = (SyncClient::new(&world), format!("\"zinnia{}\"", saves - 1));
    assert!(
        caller.poll_until(SEARCH_TIMEOUT, |it| !it.hits(&last).is_empty()),
        "the last save was not found\n{}",
        world.log()
    );
    promises.within_time(
        &format!("answers again after a kill -9 with {chunks} chunks"),
        begun.elapsed(),
        RESTART_LIMIT,
    );
    promises.check();
}
