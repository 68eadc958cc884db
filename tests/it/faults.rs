//! A disk that fails hurts nothing but writes: whichever call that writes is refused, once or from then on, as by a full
//! disk (`ENOSPC`) or by a broken one (`EIO`), the daemon lives, answers, and has everything once the disk is well again.
//!
//! The calls are refused by `strace`, which counts them thread by thread: the first `fsync` of every thread fails, or the
//! second. Either the daemon is started behind it, or it is attached to a daemon that is at work: a start makes more calls
//! than the work after it, and may be refused at the first of them.
//!
//! Only `write` wakes threads, answers questions and writes the log as well. That one is refused from within, by what is
//! loaded into the daemon (`faults.c`): where it goes to a file of the data directory, counted for the whole daemon.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::World;
use crate::kills::{change_for, check_after_death};
use crate::means;
use crate::oracle::Oracle;
use crate::torture::{Dice, figure, size};

/// What is refused from within.
const WRITE: &str = "write";

/// Calls that write, change and keep what is on the disk, as SQLite, the table and vic itself use them. Those that not
/// every processor has are marked.
const FAMILIES: [&str; 9] = [
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

/// A full disk and a broken one.
const ERRORS: [&str; 2] = ["ENOSPC", "EIO"];

/// Files that are there before anything fails.
const FILES: u64 = 40;

/// How long files change while the disk fails.
const WORK: Duration = Duration::from_millis(400);

/// A daemon on a disk that fails is ready, has refused to start or has ended within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Questions that are asked while the disk fails.
const QUESTIONS: usize = 3;

/// What fails, and when.
#[derive(Clone, Copy, Debug)]
struct Fault {
    calls: &'static str,
    error: &'static str,
    /// Which of the calls of a thread; of [`WRITE`], of all.
    number: u64,
    /// Whether all that follow fail, too.
    lasts: bool,
    /// Whether the daemon is at work already.
    at_work: bool,
}

/// What became of the daemon.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// No call was refused: it made fewer of them.
    Unhurt,
    /// It was ready, or got ready, and answered.
    Answered,
    /// It said that it cannot start, and why.
    Refused,
}

/// Makes what is loaded into a daemon before the C library, of a source beside this one.
pub(crate) fn library(source: &str, to: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(source);
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(to).arg(source).status();
    assert!(compiled.unwrap().success());
    to.to_owned()
}

impl Fault {
    /// What refuses the calls; what it sees goes to a file.
    fn strace(&self, seen: &Path) -> Vec<String> {
        let Fault { calls, error, number, .. } = self;
        let on = if self.lasts { "+" } else { "" };
        let inject = format!("inject={calls}:error={error}:when={number}{on}");
        let trace = format!("trace={calls}");
        let words = ["strace", "-f", "-q", "-e", &trace, "-e", &inject, "-o", seen.to_str().unwrap()];
        words.map(String::from).to_vec()
    }

    /// What loads into the daemon what refuses its writes while the switch is there.
    fn loader(&self, data: &Path, seen: &Path, switch: &Path) -> Vec<String> {
        let library = library("faults.c", &seen.with_extension("so"));
        let last = if self.lasts { i64::MAX } else { self.number.cast_signed() };
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

    /// Lets a daemon run into it. Afterwards the disk is well again, and a daemon runs that has everything.
    fn check(&self, world: &mut World, oracle: &mut Oracle) -> Outcome {
        let place = tempfile::tempdir().unwrap();
        let seen = place.path().join("seen");
        let begun = world.log().len();
        let tracer = self.begin(world, &seen);
        let outcome = if self.at_work || gets_ready(world, begun, self) {
            change_for(oracle, world, WORK);
            // Each job ends with upkeep. This one may fail.
            within(world, 20, &["index", world.files().to_str().unwrap()]);
            check_answers(world, oracle, self);
            self.end(world, oracle, &seen);
            Outcome::Answered
        } else {
            check_refusal(world, begun, self);
            Outcome::Refused
        };
        drop(tracer);
        let refused = std::fs::read_to_string(&seen).is_ok_and(|it| it.contains("(INJECTED)"));
        check_after_death(world, oracle, &format!("{self:?}"));
        check_whole(world, self);
        // Of all that ran since: the start that followed has to be free of it, too.
        assert!(!world.log()[begun..].contains("panicked"), "{self:?}\n{}", &world.log()[begun..]);
        assert!(refused || outcome == Outcome::Answered, "{self:?}: nothing failed\n{}", &world.log()[begun..]);
        if refused { outcome } else { Outcome::Unhurt }
    }

    /// Starts a daemon behind it, or attaches it to the one that runs.
    fn begin(&self, world: &mut World, seen: &Path) -> Option<Tracer> {
        if self.calls == WRITE {
            self.begin_within(world, seen);
            return None;
        }
        let words = self.strace(seen);
        if self.at_work {
            return Some(Tracer::attach(&words, world.pid()).expect("it could be attached before"));
        }
        world.kill();
        // The tracer steps aside: the daemon stays the child that was started.
        world.begin(&[&words[..1], &["-D".to_owned()], &words[1..]].concat());
        None
    }

    /// Starts a daemon with it inside. Where that is to be at work first, it fails only then.
    fn begin_within(&self, world: &mut World, seen: &Path) {
        let switch = seen.with_extension("switch");
        let loader = self.loader(&world.data().canonicalize().unwrap(), seen, &switch);
        world.kill();
        if !self.at_work {
            File::create(&switch).unwrap();
        }
        let begun = world.log().len();
        world.begin(&loader);
        if self.at_work {
            assert!(gets_ready(world, begun, self), "{}", world.log());
            File::create(&switch).unwrap();
        }
    }

    /// Ends the daemon, which lives: by turns it is asked to, and killed.
    fn end(&self, world: &mut World, oracle: &mut Oracle, seen: &Path) {
        if let Some(ended) = world.ended() {
            // The tracer tells signals, too, and who sent them.
            let seen = std::fs::read_to_string(seen).unwrap_or_default();
            let seen: Vec<&str> = seen.lines().filter(|it| it.contains("INJECTED") || it.contains("---")).collect();
            panic!("{self:?}: {ended}, after\n{}\n{}", seen.join("\n"), world.log());
        }
        if oracle.within(0..2) == 0 {
            let asked = Command::new("kill").args(["-TERM", &world.pid().to_string()]).status();
            assert!(asked.unwrap().success());
            let begun = Instant::now();
            let ended = loop {
                if let Some(ended) = world.ended() {
                    break ended;
                }
                assert!(begun.elapsed() < PATIENCE, "{self:?}: it does not end\n{}", world.log());
                std::thread::sleep(Duration::from_millis(20));
            };
            assert!(ended.code().is_some(), "{self:?}: {ended}\n{}", world.log());
        }
        world.kill();
    }
}

/// A tracer beside the program that it traces; ends with its last use.
struct Tracer(Child);

impl Tracer {
    /// Attaches it to every thread of a program; None where that is not allowed.
    fn attach(words: &[String], pid: u32) -> Option<Tracer> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["-p", &pid.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut tracer = Tracer(command.spawn().ok()?);
        let begun = Instant::now();
        while !is_traced(pid) {
            assert!(begun.elapsed() < PATIENCE, "strace neither attaches nor ends");
            if tracer.0.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(tracer)
    }

    /// Says whether programs that were started here can be traced from beside them.
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

/// Says whether all threads of a program are traced.
fn is_traced(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let is_free = |thread: std::io::Result<std::fs::DirEntry>| {
        let status = thread.and_then(|it| std::fs::read_to_string(it.path().join("status")));
        status.is_ok_and(|it| it.lines().any(|line| line == "TracerPid:\t0"))
    };
    !threads.into_iter().any(is_free)
}

/// Waits until the daemon is ready or has ended; says whether it is ready. Nobody is asked: to ask may start another.
fn gets_ready(world: &mut World, begun: usize, fault: &Fault) -> bool {
    let waits = Instant::now();
    while !world.log()[begun..].contains("vicd is ready") {
        if world.ended().is_some() {
            return false;
        }
        assert!(waits.elapsed() < PATIENCE, "{fault:?}: neither ready nor ended\n{}", &world.log()[begun..]);
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Runs `vic` for so many seconds at most.
fn within(world: &World, seconds: u64, arguments: &[&str]) -> Output {
    let seconds = seconds.to_string();
    world.run("timeout", &[&[&seconds, crate::harness::vic_program()], arguments].concat())
}

/// What is in the index and was not touched since is found while the disk fails.
fn check_answers(world: &World, oracle: &mut Oracle, fault: &Fault) {
    oracle.note_acknowledged(world);
    for (path, version) in oracle.present().into_iter().take(QUESTIONS) {
        let output = within(world, 20, &["ask", &version.token, "--format", "json"]);
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{fault:?}: no answer, {output:?}\n{}", world.log()));
        let hits = answer["hits"].as_array().unwrap();
        let found = hits.iter().filter(|it| it["path"] == path.to_str().unwrap()).count();
        assert_eq!(found, 1, "{fault:?}: {} for {}\n{}", path.display(), version.token, world.log());
    }
}

/// A daemon that does not start says which place is to blame and what to do about it.
fn check_refusal(world: &mut World, begun: usize, fault: &Fault) {
    let log = world.log();
    let (said, ended) = (&log[begun..], world.ended().unwrap());
    let names_a_place = said.contains(&format!("`{}", world.data().display()));
    let is_refusal = ended.code().is_some_and(|it| it != 0) && said.contains("error: ") && said.contains("hint: ");
    assert!(is_refusal && names_a_place, "{fault:?}: {ended}\n{said}");
    world.kill();
}

/// Every file is accounted for, and the doctor finds nothing to mend.
fn check_whole(world: &World, fault: &Fault) {
    let coverage = &world.json(&["status"])["coverage"];
    let count = |name: &str| coverage[name].as_u64().unwrap();
    let sum: u64 = ["indexed", "skipped", "failed", "pending"].into_iter().map(count).sum();
    assert_eq!(sum, count("found"), "{fault:?}: {coverage}");
    let (_, report) = world.outcome(&["doctor"]);
    let checks = report["checks"].as_array().unwrap();
    let is_ours = |it: &&Value| !it["name"].as_str().unwrap().starts_with("model");
    let wrong: Vec<_> = checks.iter().filter(is_ours).filter(|it| it["health"] != "ok").collect();
    assert!(wrong.is_empty() && !checks.is_empty(), "{fault:?}: {wrong:?}\n{}", world.log());
}

/// Lets a daemon run into one fault after the other, and prints what came of it.
fn check_all(what: &str, faults: &[Fault], seed: u64) {
    if !means::can_trace() || !means::can_attach(Tracer::is_possible()) {
        return;
    }
    let mut world = World::new().start();
    let mut oracle = Oracle::new(&world, seed);
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
    assert!(answered > 0, "no daemon answered: this shows nothing");
    check_all_hit(faults, &outcomes);
}

/// Each kind of call has to have been refused, to a daemon that starts and to one that is at work, wherever its first one was
/// to be: that one is made whatever happens, and a later one perhaps not.
fn check_all_hit(faults: &[Fault], outcomes: &[Outcome]) {
    let mut hits = BTreeMap::<(&str, bool), usize>::new();
    for (fault, outcome) in faults.iter().zip(outcomes) {
        let is_hit = usize::from(*outcome != Outcome::Unhurt);
        if fault.number == 1 || is_hit > 0 {
            *hits.entry((fault.calls, fault.at_work)).or_default() += is_hit;
        }
    }
    let never: Vec<_> = hits.iter().filter(|it| *it.1 == 0).collect();
    assert!(
        never.is_empty(),
        "these calls were never refused (at work, or else at the start), which shows nothing: {never:?}"
    );
}

#[test]
fn a_disk_that_fails_at_any_write_hurts_nothing_but_writes() {
    let seed = size("VIC_TORTURE_SEED", 1);
    let mut dice = Dice::new(seed);
    // The first six are what the index needs; each fails as on a full disk and as on a broken one, at the first call as well.
    let mut faults = Vec::new();
    for (place, calls) in FAMILIES[..6].iter().enumerate() {
        for (turn, error) in ERRORS.into_iter().enumerate() {
            let (later, lasts) = (dice.within(1..4), dice.below(2) == 0);
            let number = if turn == 0 { 1 } else { later };
            faults.push(Fault { calls, error, number, lasts, at_work: (place + turn) % 3 != 2 });
        }
    }
    check_all("writes that fail", &faults, seed);
}

#[test]
#[ignore = "an hour; make torture"]
fn torture_failing_writes() {
    let seed = size("VIC_TORTURE_SEED", 2);
    let numbers = size("VIC_TORTURE_WRITES", 12);
    for calls in FAMILIES {
        let mut faults = Vec::new();
        for (error, number) in ERRORS.into_iter().flat_map(|it| (1..=numbers).map(move |number| (it, number))) {
            for (lasts, at_work) in [(false, true), (true, true), (false, false), (true, false)] {
                faults.push(Fault { calls, error, number, lasts, at_work });
            }
        }
        check_all(&format!("the Nth {calls} fails"), &faults, seed);
    }
}
