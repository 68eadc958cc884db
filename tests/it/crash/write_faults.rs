//! Tests that a failing disk affects only writes. Any writing call may fail, once or from then on, as on a full disk
//! (`ENOSPC`) or a broken disk (`EIO`): the daemon survives, answers, and indexes everything once the disk works again.
//!
//! `strace` injects the failures and counts calls per thread, so the first `fsync` of every thread fails, or the second. The
//! daemon is started under `strace`, or `strace` is attached to the running daemon. Attaching is needed because a start
//! makes more calls than the work after it, and may already fail at the first of them.
//!
//! `write` also wakes threads, sends responses and writes the log. Its failures come from a preloaded library (`faults.c`)
//! instead, which fails only writes to files of the data directory, and counts the writes of the whole daemon.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::crash::kills::change_for;
use crate::crash::kills::check_after_death;
use crate::support::capabilities;
use crate::support::crash_oracle::CrashOracle;
use crate::support::harness::World;
use crate::support::long_tests::Rng;
use crate::support::long_tests::figure;
use crate::support::long_tests::size_from_env;

/// The call whose failures come from the preloaded library instead of `strace`.
const WRITE: &str = "write";

/// System calls with which SQLite, the tables and vic create, change and sync data on disk. `?` marks calls that some CPU
/// architectures lack.
const CALL_FAMILIES: [&str; 9] = [
    WRITE,
    "pwrite64",
    "fsync",
    "fdatasync,syncfs",
    "linkat,?link",
    "renameat,?rename,renameat2",
    "ftruncate,fallocate",
    "unlinkat,?unlink,?rmdir",
    "mkdirat,?mkdir",
];

/// Injected errors: a full disk and a broken disk.
const ERRORS: [&str; 2] = ["ENOSPC", "EIO"];

/// Number of file changes before the first injected failure.
const FILES: u64 = 40;

/// How long files change while calls fail.
const WORK_TIME: Duration = Duration::from_millis(400);

/// Maximum time until a daemon on a failing disk is ready, has refused to start or has ended.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum number of files to search for while calls fail.
const QUESTIONS: usize = 3;

/// A failure to inject: which calls fail, and when.
#[derive(Clone, Copy, Debug)]
struct Fault {
    calls: &'static str,
    error: &'static str,
    /// Number of the first failing call, from 1. Counted per thread, or per process for [`WRITE`].
    number: u64,
    /// Whether all later calls fail as well.
    persists: bool,
    /// Whether the failures begin when the daemon is already running, instead of at its start.
    at_work: bool,
}

/// How the daemon reacted to a failure.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// No call failed, because the daemon made fewer calls.
    NotReached,
    /// The daemon became or stayed ready, and answered questions.
    Answered,
    /// The daemon refused to start and gave a reason.
    Refused,
}

/// Compiles a C file of `tests/it` to a library that can be preloaded into the daemon.
pub(crate) fn compile_preload(source: &str, to: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(source);
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(to).arg(source).status();
    assert!(compiled.unwrap().success());
    to.to_owned()
}

impl Fault {
    /// Returns the `strace` command that injects the failures and logs them to `seen`.
    fn strace_command(&self, seen: &Path) -> Vec<String> {
        let Fault { calls, error, number, .. } = self;
        let on = if self.persists { "+" } else { "" };
        let inject = format!("inject={calls}:error={error}:when={number}{on}");
        let trace = format!("trace={calls}");
        let words = ["strace", "-f", "-q", "-e", &trace, "-e", &inject, "-o", seen.to_str().unwrap()];
        words.map(String::from).to_vec()
    }

    /// Returns the command that preloads the library into the daemon. Writes fail while the file `switch` exists.
    fn preload_command(&self, data: &Path, seen: &Path, switch: &Path) -> Vec<String> {
        let library = compile_preload("crash/faults.c", &seen.with_extension("so"));
        let last = if self.persists { i64::MAX } else { self.number.cast_signed() };
        let number = if self.error == "EIO" { libc::EIO } else { libc::ENOSPC };
        vec![
            "env".to_owned(),
            format!("LD_PRELOAD={}", library.display()),
            format!("FAULTS_BELOW={}", data.display()),
            format!("FAULTS_SWITCH={}", switch.display()),
            format!("FAULTS_SEEN={}", seen.display()),
            format!("FAULTS_NUMBER={}", self.number),
            format!("FAULTS_LAST={last}"),
            format!("FAULTS_ERRNO={number}"),
        ]
    }

    /// Runs a daemon with the failures, then restarts it on a healthy disk and checks that nothing is missing.
    fn check(&self, world: &mut World, oracle: &mut CrashOracle) -> Outcome {
        let place = tempfile::tempdir().unwrap();
        let seen = place.path().join("seen");
        let begun = world.log().len();
        let tracer = self.start_or_attach(world, &seen);
        let outcome = if self.at_work || gets_ready(world, begun, self) {
            change_for(oracle, world, WORK_TIME);
            // Runs a job, because each job ends with maintenance. Failures may also end this job.
            vic_with_timeout(world, 20, &["index", world.files().to_str().unwrap()]);
            check_answers(world, oracle, self);
            self.stop(world, oracle, &seen);
            Outcome::Answered
        } else {
            check_refusal(world, begun, self);
            Outcome::Refused
        };
        drop(tracer);
        let refused = std::fs::read_to_string(&seen).is_ok_and(|it| it.contains("(INJECTED)"));
        check_after_death(world, oracle, &format!("{self:?}"));
        check_complete(world, self);
        // Also searches the log of the restart.
        assert!(!world.log()[begun..].contains("panicked"), "{self:?}\n{}", &world.log()[begun..]);
        assert!(refused || outcome == Outcome::Answered, "{self:?}: no call failed\n{}", &world.log()[begun..]);
        if refused { outcome } else { Outcome::NotReached }
    }

    /// Starts a daemon with the failures, or attaches `strace` to the running daemon.
    fn start_or_attach(&self, world: &mut World, seen: &Path) -> Option<Tracer> {
        if self.calls == WRITE {
            self.start_preloaded(world, seen);
            return None;
        }
        let words = self.strace_command(seen);
        if self.at_work {
            return Some(Tracer::attach(&words, world.pid()).expect("attaching to the daemon is permitted"));
        }
        world.kill();
        // `-D` makes the daemon the direct child of the test, instead of `strace`.
        world.spawn_with_launcher(&[&words[..1], &["-D".to_owned()], &words[1..]].concat());
        None
    }

    /// Starts a daemon with the preloaded library. With `at_work`, writes fail only after the daemon is ready.
    fn start_preloaded(&self, world: &mut World, seen: &Path) {
        let switch = seen.with_extension("switch");
        let loader = self.preload_command(&world.data().canonicalize().unwrap(), seen, &switch);
        world.kill();
        if !self.at_work {
            File::create(&switch).unwrap();
        }
        let begun = world.log().len();
        world.spawn_with_launcher(&loader);
        if self.at_work {
            assert!(gets_ready(world, begun, self), "{}", world.log());
            File::create(&switch).unwrap();
        }
    }

    /// Stops the running daemon, at random with SIGTERM or SIGKILL. Fails if the daemon has already ended.
    fn stop(&self, world: &mut World, oracle: &mut CrashOracle, seen: &Path) {
        if let Some(ended) = world.exit_status() {
            // The trace also contains signals and their senders, which explain the end.
            let seen = std::fs::read_to_string(seen).unwrap_or_default();
            let seen: Vec<&str> = seen.lines().filter(|it| it.contains("INJECTED") || it.contains("---")).collect();
            panic!("{self:?}: {ended}, after\n{}\n{}", seen.join("\n"), world.log());
        }
        if oracle.draw(0..2) == 0 {
            let asked = Command::new("kill").args(["-TERM", &world.pid().to_string()]).status();
            assert!(asked.unwrap().success());
            let begun = Instant::now();
            let ended = loop {
                if let Some(ended) = world.exit_status() {
                    break ended;
                }
                assert!(begun.elapsed() < PATIENCE, "{self:?}: the daemon has not ended\n{}", world.log());
                std::thread::sleep(Duration::from_millis(20));
            };
            assert!(ended.code().is_some(), "{self:?}: {ended}\n{}", world.log());
        }
        world.kill();
    }
}

/// A running `strace`, killed when the value is dropped.
struct Tracer(Child);

impl Tracer {
    /// Attaches `strace` to every thread of a process. Returns None if that is not permitted.
    fn attach(words: &[String], pid: u32) -> Option<Tracer> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["-p", &pid.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut tracer = Tracer(command.spawn().ok()?);
        let begun = Instant::now();
        while !is_traced(pid) {
            assert!(begun.elapsed() < PATIENCE, "strace has neither attached nor ended");
            if tracer.0.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(tracer)
    }

    /// Returns whether this process may attach `strace` to a program that it has started.
    fn is_possible() -> bool {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let words = ["strace", "-q", "-o", "/dev/null"].map(String::from);
        let tracer = Tracer::attach(&words, sleeper.id());
        let possible = tracer.is_some();
        drop(tracer);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        possible
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns whether all threads of a process are traced.
fn is_traced(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let is_free = |thread: std::io::Result<std::fs::DirEntry>| {
        let status = thread.and_then(|it| std::fs::read_to_string(it.path().join("status")));
        status.is_ok_and(|it| it.lines().any(|line| line == "TracerPid:\t0"))
    };
    !threads.into_iter().any(is_free)
}

/// Waits for the daemon: true if it is ready, false if it has ended. Runs no `vic` command, which could start another
/// daemon.
fn gets_ready(world: &mut World, begun: usize, fault: &Fault) -> bool {
    let waits = Instant::now();
    while !world.log()[begun..].contains("vicd is ready") {
        if world.exit_status().is_some() {
            return false;
        }
        assert!(waits.elapsed() < PATIENCE, "{fault:?}: neither ready nor ended\n{}", &world.log()[begun..]);
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Runs `vic` and stops it after this many seconds.
fn vic_with_timeout(world: &World, seconds: u64, arguments: &[&str]) -> Output {
    let seconds = seconds.to_string();
    world.run("timeout", &[&[&seconds, crate::support::harness::vic_program()], arguments].concat())
}

/// Asserts that searches find indexed, unchanged files while calls fail.
fn check_answers(world: &World, oracle: &mut CrashOracle, fault: &Fault) {
    oracle.note_acknowledged(world);
    for (path, version) in oracle.present().into_iter().take(QUESTIONS) {
        let output = vic_with_timeout(world, 20, &["ask", &version.token, "--format", "json"]);
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{fault:?}: no answer, {output:?}\n{}", world.log()));
        let hits = answer["hits"].as_array().unwrap();
        let found = hits.iter().filter(|it| it["path"] == path.to_str().unwrap()).count();
        assert_eq!(found, 1, "{fault:?}: {} for {}\n{}", path.display(), version.token, world.log());
    }
}

/// Asserts that the daemon has refused to start with an error that names the path and a remedy.
fn check_refusal(world: &mut World, begun: usize, fault: &Fault) {
    let log = world.log();
    let (said, ended) = (&log[begun..], world.exit_status().unwrap());
    let names_a_place = said.contains(&format!("`{}", world.data().display()));
    let is_refusal = ended.code().is_some_and(|it| it != 0) && said.contains("error: ") && said.contains("hint: ");
    assert!(is_refusal && names_a_place, "{fault:?}: {ended}\n{said}");
    world.kill();
}

/// Asserts that the file counts add up and that `vic doctor` finds no problem.
fn check_complete(world: &World, fault: &Fault) {
    let coverage = &world.json(&["status"])["coverage"];
    let count = |name: &str| coverage[name].as_u64().unwrap();
    let sum: u64 = ["indexed", "skipped", "failed", "pending"].into_iter().map(count).sum();
    assert_eq!(sum, count("found"), "{fault:?}: {coverage}");
    let (_, report) = world.json_with_code(&["doctor"]);
    let checks = report["checks"].as_array().unwrap();
    let is_ours = |it: &&Value| !it["name"].as_str().unwrap().starts_with("model");
    let wrong: Vec<_> = checks.iter().filter(is_ours).filter(|it| it["health"] != "ok").collect();
    assert!(wrong.is_empty() && !checks.is_empty(), "{fault:?}: {wrong:?}\n{}", world.log());
}

/// Runs a daemon with each of these failures in turn, and prints the outcomes.
fn check_all(what: &str, faults: &[Fault], seed: u64) {
    if !capabilities::can_trace() || !capabilities::can_attach(Tracer::is_possible()) {
        return;
    }
    let mut world = World::new().start();
    let mut oracle = CrashOracle::new(&world, seed);
    (0..FILES).for_each(|_| oracle.change_one());
    world.index();
    oracle.note_acknowledged(&world);
    let mut outcomes = Vec::new();
    for fault in faults {
        let begun = Instant::now();
        outcomes.push(fault.check(&mut world, &mut oracle));
        println!("{fault:?}: {:?} in {:.1?}", outcomes[outcomes.len() - 1], begun.elapsed());
    }
    let count = |wanted: Outcome| outcomes.iter().filter(|it| **it == wanted).count();
    let (answered, refused) = (count(Outcome::Answered), count(Outcome::Refused));
    figure(
        what,
        format!(
            "{} faults of seed {seed}, {} hit: {answered} answered, {refused} starts refused with a cure; 0 ends, {} \
             acknowledged changes, 0 lost, 0 twice",
            outcomes.len(),
            answered + refused,
            oracle.acknowledgements
        ),
    );
    assert!(answered > 0, "no daemon answered, so the test has checked nothing");
    check_all_hit(faults, &outcomes);
}

/// Asserts that each kind of call failed at least once, in a starting and in a running daemon. Skips kinds whose first call
/// was not set to fail, because the daemon may never make the later calls.
fn check_all_hit(faults: &[Fault], outcomes: &[Outcome]) {
    let mut hits = BTreeMap::<(&str, bool), usize>::new();
    for (fault, outcome) in faults.iter().zip(outcomes) {
        let is_hit = usize::from(*outcome != Outcome::NotReached);
        if fault.number == 1 || is_hit > 0 {
            *hits.entry((fault.calls, fault.at_work)).or_default() += is_hit;
        }
    }
    let never: Vec<_> = hits.iter().filter(|it| *it.1 == 0).collect();
    assert!(
        never.is_empty(),
        "these calls never failed (true: of a running daemon), so the test has checked nothing: {never:?}"
    );
}

// Case B9
#[test]
fn disk_failure_at_any_call_affects_only_writes() {
    let seed = size_from_env("VIC_TORTURE_SEED", 1);
    let mut dice = Rng::new(seed);
    // The index needs the first six families. Each fails with both errors, one of them at the first call.
    let mut faults = Vec::new();
    for (place, calls) in CALL_FAMILIES[..6].iter().enumerate() {
        for (turn, error) in ERRORS.into_iter().enumerate() {
            let (later, lasts) = (dice.in_range(1..4), dice.below(2) == 0);
            let number = if turn == 0 { 1 } else { later };
            faults.push(Fault { calls, error, number, persists: lasts, at_work: (place + turn) % 3 != 2 });
        }
    }
    check_all("writes that fail", &faults, seed);
}

// Case B9
#[test]
#[ignore = "takes an hour: see `make torture`"]
fn torture_failing_writes() {
    let seed = size_from_env("VIC_TORTURE_SEED", 2);
    let numbers = size_from_env("VIC_TORTURE_WRITES", 12);
    for calls in CALL_FAMILIES {
        let mut faults = Vec::new();
        for (error, number) in ERRORS.into_iter().flat_map(|it| (1..=numbers).map(move |number| (it, number))) {
            for (lasts, at_work) in [(false, true), (true, true), (false, false), (true, false)] {
                faults.push(Fault { calls, error, number, persists: lasts, at_work });
            }
        }
        check_all(&format!("the Nth {calls} fails"), &faults, seed);
    }
}
