//! Tests that background work yields to all other programs of the machine, and stops when there is nothing to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::limits::disk_space::run_in_namespace;
use crate::support::capabilities;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::harness::sample_dir;
use crate::support::http_client::get;
use crate::support::http_client::post;
use crate::support::long_tests::PromiseChecks;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;
use crate::support::open_trace::OpenTrace;

/// Maximum time until the daemon notices a change of the power supply.
const POWER_LIMIT: Duration = Duration::from_secs(20);

/// Returns the name, the niceness and the scheduling policy of every thread of a process.
fn threads(process: u32) -> Vec<(String, i32, i32)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let stats = tasks.filter_map(|it| fs::read_to_string(it.unwrap().path().join("stat")).ok());
    stats
        .map(|stat| {
            let (head, rest) = stat.rsplit_once(") ").unwrap();
            let fields: Vec<&str> = rest.split(' ').collect();
            let name = head.split_once('(').unwrap().1.to_string();
            (name, fields[16].parse().unwrap(), fields[38].parse().unwrap())
        })
        .collect()
}

fn children(process: u32) -> Vec<u32> {
    let output = Command::new("pgrep").args(["-P", &process.to_string()]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line.parse().unwrap()).collect()
}

/// A measured quantity, such as CPU seconds, for the daemon and for each of its current workers, by process id.
struct PerProcess(BTreeMap<u32, f64>);

impl PerProcess {
    fn measure(daemon: u32, number: impl Fn(u32) -> Option<f64>) -> PerProcess {
        let own = number(daemon).expect("the daemon must run");
        let workers = children(daemon).into_iter().filter_map(|it| Some((it, number(it)?)));
        PerProcess(workers.chain([(daemon, own)]).collect())
    }

    /// Returns the total increase since `before`. A worker that started later counts from zero.
    fn since(&self, before: &PerProcess) -> f64 {
        self.0.iter().map(|(process, now)| now - before.0.get(process).unwrap_or(&0.0)).sum()
    }
}

/// Returns the CPU seconds that a daemon and its workers have used.
fn processor_seconds(daemon: u32) -> PerProcess {
    PerProcess::measure(daemon, |process| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let ticks = stat.rsplit_once(") ")?.1.split(' ').skip(11).take(2).filter_map(|it| it.parse::<f64>().ok());
        Some(ticks.sum::<f64>() / 100.0)
    })
}

/// Returns the bytes that a daemon and its workers have written to disk.
fn written_bytes(daemon: u32) -> PerProcess {
    PerProcess::measure(daemon, |process| {
        let io = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
        io.lines().find_map(|it| it.strip_prefix("write_bytes: "))?.parse().ok()
    })
}

#[test]
fn indexing_threads_have_low_priority_and_queries_do_not() {
    const BATCH: i32 = 3;
    let world = World::new().start();
    world.write("a.md", "A note about herons.");
    world.index();
    let all = threads(world.pid());
    let of = |name: &str| all.iter().filter(|it| it.0.starts_with(name)).cloned().collect::<Vec<_>>();
    let background = of("index");
    assert!(background.len() >= 2, "{all:?}");
    assert!(background.iter().all(|it| (it.1, it.2) == (10, BATCH)), "{background:?}");
    let watching = of("vic-watch");
    assert!(!watching.is_empty() && watching.iter().all(|it| (it.1, it.2) == (10, BATCH)), "{watching:?}");
    let embedding = of("embed-");
    // Only the first two embedding threads (one on a machine with a single core) serve questions and the sentences of
    // answers, so only these have normal priority.
    let is_interactive = |it: &(String, i32, i32)| (it.1, it.2) == (0, 0);
    let (waited, passages): (Vec<_>, Vec<_>) = embedding.into_iter().partition(is_interactive);
    assert!(!passages.is_empty() && passages.iter().all(|it| (it.1, it.2) == (19, BATCH)), "{passages:?}");
    let names: Vec<&str> = waited.iter().map(|it| it.0.as_str()).collect();
    assert!(["embed-0", "embed-1"].starts_with(&names) && !names.is_empty(), "{waited:?}");
    assert!(of("lance-cpu").len() > 2, "keyword search must not wait for maintenance: {all:?}");
    // Checks that all other threads have normal priority, because each may serve a question.
    let behind =
        |name: &str| ["index", "vic-"].iter().any(|it| name.starts_with(it)) || passages.iter().any(|it| it.0 == name);
    let ahead: Vec<_> = all.iter().filter(|it| !behind(&it.0)).collect();
    assert!(ahead.iter().all(|it| (it.1, it.2) == (0, 0)), "{ahead:?}");
    let workers = children(world.pid());
    assert!(!workers.is_empty());
    for worker in workers {
        assert!(threads(worker).iter().all(|it| (it.1, it.2) == (10, BATCH)), "{:?}", threads(worker));
        if let Ok(class) = Command::new("ionice").args(["-p", &worker.to_string()]).output() {
            assert_eq!(String::from_utf8_lossy(&class.stdout).trim(), "idle");
        }
    }
}

#[test]
fn pause_stops_reading_allows_deletions_survives_restart() {
    let mut world = World::new().start();
    world.write("a.md", "The first note, about herons.");
    world.write("gone.md", "The second note, about herons.");
    world.index();
    assert!(world.ok(&["pause"]).contains("vic resume"));
    world.write("b.md", "The third note, about pike.");
    fs::remove_file(world.files().join("gone.md")).unwrap();
    let caller = SyncClient::new(&world);
    let counts = |it: &SyncClient| (it.status().coverage.found, it.status().coverage.pending);
    assert!(caller.poll_until(Duration::from_secs(8), |it| counts(it) == (2, 1)), "{:?}", counts(&caller));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(counts(&caller), (2, 1), "no file must be indexed while paused");
    assert_eq!(world.paths(&["herons"]), ["a.md"]);
    assert!(world.ok(&["status"]).contains("indexing pauses"));
    assert!(world.terminate());
    world.spawn_and_wait();
    let status = get(&world, "/v1/status").json();
    assert_eq!(status["paused"]["reason"], "asked", "{status:#}");
    assert_eq!(status["coverage"]["pending"], 1);
    assert_eq!(post(&world, "/v1/resume", &json!({})).json()["paused"], json!(null));
    let caller = SyncClient::new(&world);
    assert!(caller.poll_until(Duration::from_secs(8), |it| counts(it) == (2, 0)), "{:?}", counts(&caller));
    assert_eq!(world.paths(&["pike"])[0], "b.md");
}

#[test]
fn indexing_pauses_on_battery_and_reports_it() {
    run_in_namespace("limits::background_load::inside_machine_with_battery");
}

#[test]
#[ignore = "runs inside the test above"]
fn inside_machine_with_battery() {
    let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs", "/sys/class"]).status().unwrap();
    assert!(mounted.success());
    let battery = Path::new("/sys/class/power_supply/BAT0");
    fs::create_dir_all(battery).unwrap();
    fs::write(battery.join("type"), "Battery\n").unwrap();
    let set = |status: &str| fs::write(battery.join("status"), format!("{status}\n")).unwrap();
    set("Discharging");
    let world = World::new().with("VIC_PAUSE_ON_BATTERY", "1").start();
    let caller = SyncClient::new(&world);
    let reason = |it: &World| it.json(&["status"])["paused"]["reason"].clone();
    world.wait_until("indexing has paused", POWER_LIMIT, |it| reason(it) == "battery");
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    world.write("a.md", "A note about herons.");
    let pending = |it: &SyncClient| it.status().coverage.pending;
    assert!(caller.poll_until(POWER_LIMIT, |it| pending(it) == 1), "{:?}", caller.status());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(pending(&caller), 1, "no file must be indexed on battery");
    set("Charging");
    world.wait_until("indexing resumes", POWER_LIMIT, |it| reason(it) == json!(null));
    assert!(caller.poll_until(POWER_LIMIT, |it| it.hits("herons").len() == 1), "{:?}", caller.status());
}

#[test]
fn timed_pause_ends_by_itself() {
    let world = World::new().start();
    world.write("a.md", "A note about herons.");
    world.index();
    let paused = post(&world, "/v1/pause", &json!({"seconds": 3})).json();
    assert!(paused["paused"]["until_ms"].as_i64().is_some(), "{paused}");
    assert_eq!(post(&world, "/v1/pause", &json!({"seconds": 0})).status, 400);
    world.write("b.md", "A note about pike.");
    world.wait_until("the pause is over", Duration::from_secs(12), |it| it.paths(&["pike"])[0] == "b.md");
    assert_eq!(post(&world, "/v1/sync", &json!({"timeout_seconds": 30})).status, 200);
    assert_eq!(get(&world, "/v1/status").json()["paused"], json!(null));
}

#[test]
fn status_lists_memory_caps() {
    let world = World::new().start();
    let status = SyncClient::new(&world).status();
    assert!(status.memory_caps.len() >= 6, "{:?}", status.memory_caps);
    assert!(status.memory_caps.iter().all(|it| it.mib > 0 && !it.part.is_empty()), "{:?}", status.memory_caps);
}

/// Starts a daemon in its own session, as `vic` does.
fn start_in_own_session() -> World {
    World::new().under(vec!["setsid".into()]).start()
}

#[test]
fn session_is_in_background_except_during_questions() {
    let world = start_in_own_session();
    world.write("a.md", "A note about herons.");
    world.index();
    if !capabilities::can_check_autogroup(Path::new(&format!("/proc/{}/autogroup", world.pid())).exists()) {
        return;
    }
    let place = |it: &World| {
        let text = fs::read_to_string(format!("/proc/{}/autogroup", it.pid())).unwrap();
        text.rsplit_once(" nice ").unwrap().1.trim().parse::<i32>().unwrap()
    };
    world.wait_until("the session is in the background", Duration::from_secs(15), |it| place(it) == 10);
    world.wait_until("the session is in the foreground", Duration::from_secs(15), |it| {
        it.paths(&["herons"]) == ["a.md"] && place(it) == 0
    });
    world.wait_until("the session is in the background again", Duration::from_secs(15), |it| place(it) == 10);
}

/// Starts a daemon, indexes this number of text files, and waits until the daemon is idle.
pub(crate) fn idle_world(files: usize) -> (World, SyncClient) {
    wait_until_idle(start_in_own_session(), files)
}

fn wait_until_idle(world: World, files: usize) -> (World, SyncClient) {
    for number in 0..files {
        world.write(&format!("{}/{number}.md", number % 20), format!("Entry {number} of the harbour log."));
    }
    world.index();
    let caller = SyncClient::new(&world);
    caller.sync();
    // Waits until the job that runs at the start and its maintenance have ended.
    assert!(caller.poll_until(Duration::from_secs(30), |it| it.status().running_jobs.is_empty()));
    std::thread::sleep(Duration::from_secs(2));
    (world, caller)
}

#[test]
fn foreign_reads_trigger_no_work() {
    let (world, caller) = idle_world(400);
    let (before, written) = (caller.status(), written_bytes(world.pid()));
    let mut openings = OpenTrace::watch_folder(&world.files());
    for _ in 0..3 {
        for entry in walkdir::WalkDir::new(world.files()).into_iter().map(Result::unwrap) {
            if entry.file_type().is_file() {
                drop(fs::read(entry.path()).unwrap());
            }
        }
    }
    std::thread::sleep(Duration::from_secs(3));
    let after = caller.status();
    assert_eq!((after.watch.overflows, after.watch.rescans), (before.watch.overflows, before.watch.rescans));
    assert_eq!(after.chunks, before.chunks);
    assert_eq!(written_bytes(world.pid()).since(&written), 0.0, "the daemon must not write");
    assert_eq!(openings.opened().len(), 3 * 400, "the daemon must not open the files");
}

/// The traced sync calls of a daemon and its workers.
struct SyncTrace(TempDir);

impl SyncTrace {
    /// Starts a daemon under `strace` and waits until it is idle. Attaching later would slow down calls that are not traced.
    fn at_rest(files: usize) -> (SyncTrace, World, SyncClient) {
        let syncs = SyncTrace(tempfile::tempdir().unwrap());
        let (calls, into) = ("trace=fsync,fdatasync,sync,syncfs,sync_file_range", syncs.file().display().to_string());
        let words = ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-e", calls, "-o", &into, "setsid"];
        let mut world = World::new();
        // Traces only the daemon, because a traced `vic` command would truncate the trace file.
        world.spawn_with_launcher(&words.map(String::from));
        world.wait_until("the daemon answers", Duration::from_secs(60), |it| {
            it.data().join("listen").exists() && it.vic(&["status"]).status.success()
        });
        let (world, caller) = wait_until_idle(world, files);
        (syncs, world, caller)
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("calls")
    }

    /// Returns the sync calls that were traced so far.
    fn so_far(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.file()).unwrap_or_default();
        calls.lines().filter(|it| it.contains("sync")).map(String::from).collect()
    }
}

#[test]
fn idle_daemon_writes_nothing_and_uses_little_cpu() {
    check_rest(1_000, |_| Duration::from_secs(20));
}

/// Checks an idle daemon for ten minutes.
#[test]
#[ignore = "takes ten minutes: see `make torture`"]
fn torture_idle() {
    check_rest(1_000, |caller| {
        // Waits until the old table versions are deleted, which is the last work of the daemon: they are kept for some time
        // for queries that still read them.
        assert!(
            caller.poll_until(Duration::from_secs(600), |it| it.status().upkeep.versions == 1),
            "old versions have not been deleted"
        );
        Duration::from_secs(size_from_env("VIC_TORTURE_IDLE_SECONDS", 600))
    });
}

/// Leaves a daemon with this many files idle for `time`. Checks that it uses little CPU time, writes nothing, and makes no
/// sync call; without `strace`, skips the sync calls.
fn check_rest(files: usize, time: impl Fn(&SyncClient) -> Duration) {
    let (syncs, world, caller) = match capabilities::can_trace() {
        true => {
            let (syncs, world, caller) = SyncTrace::at_rest(files);
            (Some(syncs), world, caller)
        }
        false => {
            let (world, caller) = idle_world(files);
            (None, world, caller)
        }
    };
    let time = time(&caller);
    let before = syncs.as_ref().map_or(0, |it| it.so_far().len());
    let rested = measure_idle(&world, time);
    let Some(syncs) = syncs else { return figure("an idle daemon", rested) };
    assert_eq!(syncs.so_far().split_off(before), Vec::<String>::new(), "an idle daemon must not sync");
    world.write("new.md", "A note about herons.");
    caller.sync();
    assert!(syncs.so_far().len() > before, "the trace must contain sync calls");
    figure("an idle daemon", format!("{rested}, 0 sync calls, after {before} before it was idle"));
}

/// Leaves the daemon idle for this time, checks its CPU time and writes, and returns a description of them.
fn measure_idle(world: &World, time: Duration) -> String {
    let log = world.log().len();
    let (computed, written) = (processor_seconds(world.pid()), written_bytes(world.pid()));
    std::thread::sleep(time);
    let computed = processor_seconds(world.pid()).since(&computed);
    let written = written_bytes(world.pid()).since(&written);
    // At most 6 s of CPU time in ten minutes, plus 0.1 s for the inaccuracy of short runs.
    assert!(computed <= time.as_secs_f64() / 100.0 + 0.1, "{computed} s of CPU time in {time:?}");
    assert_eq!((written, world.log().len() - log), (0.0, 0), "bytes written to data and log");
    format!("idle for {time:?}: {computed:.2} s of CPU time, {written} bytes written, workers included")
}

/// Runs a loop on every core for this time. Returns the total number of rounds.
fn busy_loop(time: Duration) -> u64 {
    let run = move || {
        let (begun, mut rounds) = (Instant::now(), 0_u64);
        while begun.elapsed() < time {
            rounds = std::hint::black_box(rounds + 1);
        }
        rounds
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let loops: Vec<_> = (0..cores).map(|_| std::thread::spawn(run)).collect();
    loops.into_iter().map(|it| it.join().unwrap()).sum()
}

/// Compares the times of questions during a large job and at rest, and measures the slowdown of other programs.
#[test]
#[ignore = "measures, and needs the machine for itself: see `make torture`"]
fn torture_questions_while_indexing() {
    let (world, caller) = idle_world(500);
    let ask = |number: usize| {
        let begun = Instant::now();
        assert!(!caller.hits(&format!("harbour entry {number}")).is_empty());
        begun.elapsed()
    };
    let p95 = |times: Vec<Duration>| percentile(&times, 95);
    let idle = p95((0..200).map(ask).collect());
    let aside = world.files().with_file_name("aside");
    fs::create_dir(&aside).unwrap();
    let words =
        ["harbour", "ledger", "orchard", "granite", "violin", "lantern", "meadow", "copper", "saddle", "cellar"];
    for number in 0..size_from_env("VIC_TORTURE_FILES", 6_000) as usize {
        let word = |place: usize| words[(number * 7 + place * (number % 9 + 1)) % words.len()];
        let text: String = (0..150).map(|place| format!("{} ", word(place))).collect();
        fs::write(aside.join(format!("{number}.md")), format!("{text} Number {number}.")).unwrap();
    }
    fs::rename(&aside, world.files().join("job")).unwrap();
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    assert!(caller.poll_until(Duration::from_secs(60), |it| {
        it.status().running_jobs.first().is_some_and(|job| job.chunks_embedded > 0)
    }));
    let busy = p95((0..200).map(ask).collect());
    // Waits without questions, so that the daemon returns to low priority.
    std::thread::sleep(Duration::from_secs(5));
    let slowed = busy_loop(Duration::from_secs(5));
    assert!(!caller.status().running_jobs.is_empty(), "the job ended before the measurement");
    world.ok(&["pause"]);
    std::thread::sleep(Duration::from_secs(3));
    let free = busy_loop(Duration::from_secs(5));
    let mut promises = PromiseChecks::default();
    promises.at_most(&format!("ask p95 while indexing ({idle:.1?} when idle)"), busy, 2 * idle, 6 * idle);
    promises.at_most(
        "a loop on every core, in another session, is slowed down by, %",
        100.0 * (1.0 - slowed as f64 / free as f64),
        15.0,
        15.0,
    );
    promises.at_most("peak memory of an indexing daemon, MiB", caller.status().peak_rss_mib, 1_536.0, 1_536.0);
    promises.check();
}

/// Returns how many cores a daemon uses while it indexes with this CPU limit in percent. Calls `meanwhile` repeatedly.
fn processors_used_by_job(percent: &str, meanwhile: impl Fn(&SyncClient)) -> f64 {
    let world = World::new().with("VIC_CPU_PERCENT", percent).start();
    let text = |number: usize| (0..150).map(|it| format!("word{} ", (number * 31 + it * 7) % 400)).collect::<String>();
    (0..500).for_each(|it| drop(world.write(&format!("{it}.md"), text(it))));
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    let caller = SyncClient::new(&world);
    let embeds = |it: &SyncClient| it.status().running_jobs.first().is_some_and(|job| job.chunks_embedded > 0);
    assert!(caller.poll_until(Duration::from_secs(120), embeds));
    meanwhile(&caller);
    let (begun, before) = (Instant::now(), processor_seconds(world.pid()));
    while begun.elapsed() < Duration::from_secs(4) {
        std::thread::sleep(Duration::from_millis(100));
        meanwhile(&caller);
    }
    assert!(!caller.status().running_jobs.is_empty(), "the job must still run");
    processor_seconds(world.pid()).since(&before) / begun.elapsed().as_secs_f64()
}

/// Returns how many cores a daemon and its workers use on average over this time.
fn processors_used(world: &World, long: Duration) -> f64 {
    let (begun, before) = (Instant::now(), processor_seconds(world.pid()));
    std::thread::sleep(long);
    processor_seconds(world.pid()).since(&before) / begun.elapsed().as_secs_f64()
}

#[test]
fn cpu_share_limits_ocr_and_pause_stops_it() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let world = World::new().with("VIC_CPU_PERCENT", "30").start();
    let scan = fs::read(sample_dir().join("Contracts/idr-contract-scan.pdf")).unwrap();
    // Writes forty different scans of two pages.
    (0..40)
        .for_each(|it| drop(world.write(&format!("{it}.pdf"), [&scan[..], format!("\n% {it}\n").as_bytes()].concat())));
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    let caller = SyncClient::new(&world);
    let is_read = |it: &SyncClient| !it.hits("\"Henrike Dahl\"").is_empty();
    assert!(caller.poll_until(Duration::from_secs(120), is_read), "{:?}", caller.status());
    let at_work = processors_used(&world, Duration::from_secs(20));
    world.ok(&["pause"]);
    // Waits, because the page in progress is finished before the pause.
    std::thread::sleep(Duration::from_secs(10));
    let paused = processors_used(&world, Duration::from_secs(5));
    println!("{at_work:.2} of {cores} cores used at 30 %, {paused:.2} during a pause");
    assert!(at_work > 0.05 && at_work <= 0.3 * cores + 0.35, "{at_work} processors");
    assert!(paused < 0.1, "{paused} processors in a pause");
    assert!(!caller.status().running_jobs.is_empty(), "the job must wait for the end of the pause");
}

#[test]
fn cpu_share_limits_indexing() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let used = processors_used_by_job("20", |_| ());
    println!("{used:.2} processors of {cores} at 20 %");
    assert!(used <= 0.2 * cores + 0.25, "{used} processors");
}

#[test]
fn indexing_yields_processors_during_questions() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let used = processors_used_by_job("100", |caller| assert!(!caller.hits("word7").is_empty()));
    println!("{used:.2} of {cores} cores used, with ten questions per second");
    assert!(used <= (cores - 2.0).max(cores / 8.0) + 0.5, "{used} processors");
}
