//! Tests a folder that is swapped with a symbolic link to the outside repeatedly, while a daemon watches, walks and answers.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::hostile::secrets::all_files;
use crate::hostile::secrets::found_in;
use crate::hostile::secrets::table_texts;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::http_client::Response;
use crate::support::http_client::get;
use crate::support::http_client::post;
use crate::support::long_tests::figure;
use crate::support::long_tests::size_from_env;

/// Content of the files outside the root, and part of their names. Must not appear in any answer.
const CANARY: &str = "xylophonecanary";
/// Content of the files inside the root.
const CONTROL: &str = "marmotcontrol";

/// Replaces a folder by a link to `outside` and restores the folder, until `stop` is set. Each state lasts for the time
/// `stay`.
pub(super) fn swap_with_link(folder: &Path, outside: &Path, stay: Duration, stop: &AtomicBool) {
    let (aside, link) = (folder.with_extension("aside"), folder.with_extension("link"));
    while !stop.load(Ordering::Relaxed) {
        symlink(outside, &link).unwrap();
        std::fs::rename(folder, &aside).unwrap();
        std::fs::rename(&link, folder).unwrap();
        std::thread::sleep(stay);
        std::fs::remove_file(folder).unwrap();
        std::fs::rename(&aside, folder).unwrap();
        std::thread::sleep(stay);
    }
}

/// Stops the swapping when dropped, also after a failed assertion, because a thread scope waits for its threads.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Counts of the requests that the test sent during the race.
#[derive(Debug, Default)]
struct RaceCounts {
    read: u64,
    refused: u64,
    walks: u64,
    answers: u64,
}

impl RaceCounts {
    /// Asserts that an answer contains nothing from outside the root.
    fn check_answer(&mut self, answered: &Response) {
        assert!(!answered.body.contains(CANARY), "{}", answered.body);
        self.answers += 1;
    }

    /// Returns whether some requests met the folder and others the link in its place; otherwise the test checked nothing.
    fn met_both(&self) -> bool {
        self.read > 0 && self.refused > 0 && self.walks > 3
    }

    /// Sends each kind of request once, and a job in every fifth round.
    fn send_requests(&mut self, world: &World, turn: u64) {
        let path = world.files().join(if turn.is_multiple_of(2) { "sub/f.md" } else { "sub/deep/f.md" });
        let read = post(world, "/v1/read", &json!({"path": path}));
        match read.status {
            200 => self.read += 1,
            _ => self.refused += 1,
        }
        self.check_answer(&read);
        self.check_answer(&post(
            world,
            "/v1/ask",
            &json!({"query": "what stands in the file of the folder?", "limit": 50}),
        ));
        self.check_answer(&post(world, "/v1/grep", &json!({"pattern": "[a-z]{9,}", "limit": 100})));
        self.check_answer(&post(world, "/v1/files", &json!({"limit": 1000})));
        self.check_answer(&post(world, "/v1/similar", &json!({"path": path})));
        self.check_answer(&get(world, "/v1/status"));
        if turn.is_multiple_of(5) {
            self.check_answer(&post(world, "/v1/index/start", &json!({"full": turn.is_multiple_of(10)})));
            self.walks += 1;
        }
    }
}

/// Writes files into a folder and a subfolder: one with a name that exists inside and outside the root, and twenty with
/// `word` in their names.
fn fill_folder(folder: &Path, word: &str) {
    for folder in [folder.to_path_buf(), folder.join("deep")] {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("f.md"), format!("The {word} of the file.")).unwrap();
        for number in 0..20 {
            let text = format!("The {word} of number {number} of the folder.");
            std::fs::write(folder.join(format!("{word}-{number}.md")), text).unwrap();
        }
    }
}

/// Runs the race for this time. Returns the counts of the requests.
fn run_race(time: Duration) -> RaceCounts {
    let mut world = World::new().with("VIC_LOG_LEVEL", "trace").with("VIC_BRIDGE_RATE_LIMIT_PER_MIN", "0").start();
    let outside = world.files().with_file_name("outside");
    fill_folder(&world.files().join("sub"), CONTROL);
    fill_folder(&outside, CANARY);
    world.index();
    let (stop, mut asked) = (AtomicBool::new(false), RaceCounts::default());
    let (folder, beside) = (world.files().join("sub"), world.files().join("beside"));
    std::fs::create_dir(&beside).unwrap();
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        // Swaps every 7 ms, so that a walk or an extraction can start in one state and continue in the other.
        scope.spawn(|| swap_with_link(&folder, &outside, Duration::from_millis(7), &stop));
        scope.spawn(|| {
            for number in 0..u64::MAX {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::fs::write(beside.join(format!("{}.md", number % 50)), format!("Entry {number}.")).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let begun = Instant::now();
        for turn in 0..u64::MAX {
            // Continues for up to twelve times as long until the requests have met both states, which takes longer on a busy
            // machine.
            if begun.elapsed() > time && (asked.met_both() || begun.elapsed() > 12 * time) {
                break;
            }
            asked.send_requests(&world, turn);
        }
    });
    let caller = SyncClient::new(&world);
    // Waits for the jobs that requests have started; most are still queued.
    let ended = |it: &SyncClient| it.status().running_jobs.is_empty();
    assert!(caller.poll_until(Duration::from_secs(300), ended), "{:?}", caller.status());
    world.index();
    caller.sync();
    assert!(!world.paths(&[CONTROL]).is_empty());
    assert!(world.exit_status().is_none() && world.terminate(), "{}", world.log());
    let (canary, control) = ([CANARY.to_string()], [CONTROL.to_string()]);
    let kept = |texts: &[String]| -> Vec<String> {
        let files = all_files(&world.data());
        files.iter().flat_map(|it| found_in(&it.display().to_string(), &std::fs::read(it).unwrap(), texts)).collect()
    };
    let texts = table_texts(&world.data());
    let mut found = kept(&canary);
    found.extend(found_in("the log", world.log().as_bytes(), &canary));
    found.extend(found_in("a table", texts.as_bytes(), &canary));
    assert!(found.is_empty(), "{}", found.join("\n"));
    // Control: the same search finds the text inside the root. Otherwise the search above would check nothing.
    assert!(!kept(&control).is_empty() && texts.contains(CONTROL));
    assert!(asked.met_both(), "the race did not happen: {asked:?}");
    asked
}

// Case A9
#[test]
fn daemon_never_leaves_root_during_symlink_swap() {
    let asked = run_race(Duration::from_secs(5));
    println!("{asked:?}");
}

/// Runs the race for a minute.
// Case A9
#[test]
#[ignore = "takes a minute: see `make torture`"]
fn torture_a9_symlink_swap_under_daemon() {
    let time = Duration::from_secs(size_from_env("VIC_TORTURE_RACE_SECONDS", 60));
    let asked = run_race(time);
    figure(
        "a folder that becomes a link and back under a daemon",
        format!("{time:?}: {asked:?}, nothing from outside"),
    );
}
