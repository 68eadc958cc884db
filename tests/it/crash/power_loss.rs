//! Tests power loss at any moment: everything acknowledged survives, including files, keys and graphs, and the user's files
//! are unchanged.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::crash::damaged_data::snapshot;
use crate::crash::kills::change_for;
use crate::support::capabilities;
use crate::support::crash_oracle::{self, CrashOracle};
use crate::support::disk_images::Loss;
use crate::support::disk_images::{self, DiskRecording};
use crate::support::harness::World;
use crate::support::long_tests::Rng;
use crate::support::long_tests::check_within_time;
use crate::support::long_tests::figure;
use crate::support::long_tests::percentile;
use crate::support::long_tests::size_from_env;

/// Which unsynced changes the power loss drops. Each disk image uses the next entry, beginning again after the last.
const LOSSES: [Loss; 5] = [Loss::All, Loss::LoseBytes, Loss::RandomPrefix, Loss::AllButDeletions, Loss::RandomPrefix];

/// Promised time until a daemon answers after power loss (p95).
const RESTART_LIMIT: Duration = Duration::from_secs(2);

/// Acknowledged changes other than saved files, each with the time of its acknowledgement.
#[derive(Default)]
struct OwnerActs(Vec<(u64, OwnerAct)>);

/// A change other than a saved file, with the name of the key or graph that was added.
#[derive(Debug)]
enum OwnerAct {
    Key(String),
    Graph(String),
}

impl OwnerActs {
    /// Adds a key with a `vic` command that is traced in the same way as the daemon, and imports a graph.
    fn add(&mut self, world: &World, tracer: &[String]) {
        let number = self.0.len();
        let (key, graph) = (format!("key{number}"), format!("graph{number}"));
        let files = world.files().display().to_string();
        let words: Vec<&str> = tracer[1..].iter().map(String::as_str).collect();
        let command = [crate::support::harness::vic_program(), "keys", "add", &key, "--root", &files];
        let added = world.run(&tracer[0], &[&words[..], &command].concat());
        assert!(added.status.success(), "{added:?}");
        self.0.push((crash_oracle::now(), OwnerAct::Key(key)));
        let text = world.files().with_file_name(format!("{graph}.txt"));
        std::fs::write(&text, format!("{graph} -leads_to-> harbour\n")).unwrap();
        world.ok(&["graph", "import", text.to_str().unwrap()]);
        self.0.push((crash_oracle::now(), OwnerAct::Graph(graph)));
    }

    /// Returns the changes acknowledged at or before this time.
    fn acknowledged_by(&self, at: u64) -> impl Iterator<Item = &OwnerAct> {
        self.0.iter().filter(move |it| it.0 <= at).map(|it| &it.1)
    }

    /// Returns a message for each change acknowledged at or before `at` that the daemon has lost.
    fn missing(&self, world: &World, at: u64) -> Vec<String> {
        let keys = world.json(&["keys", "list"]);
        let graphs = world.json(&["graph", "stats"])["imports"].clone();
        let is_there = |act: &OwnerAct| match act {
            OwnerAct::Key(name) => keys.as_array().unwrap().iter().any(|it| it["name"] == **name),
            OwnerAct::Graph(name) => graphs.as_array().unwrap().iter().any(|it| *it == **name),
        };
        self.acknowledged_by(at).filter(|it| !is_there(it)).map(|it| format!("{it:?} is lost")).collect()
    }
}

/// A recorded run: its disk operations and its acknowledgements. The indexed files are moved away.
struct RecordedRun {
    world: World,
    disk: DiskRecording,
    oracle: CrashOracle,
    acts: OwnerActs,
}

impl RecordedRun {
    /// Traces the disk operations of a daemon while files, keys and graphs change, for this many seconds.
    fn record(seconds: u64, seed: u64) -> RecordedRun {
        let calls = tempfile::tempdir().unwrap();
        let tracer = disk_images::recording_command(&calls.path().join("calls"));
        let mut world = World::new();
        world.spawn_with_launcher(&tracer);
        world.wait_until("the daemon answers", Duration::from_secs(60), |it| it.data().join("listen").exists());
        let (mut oracle, mut acts) = (CrashOracle::new(&world, seed), OwnerActs::default());
        for _ in 0..20 {
            oracle.change_one();
        }
        world.index();
        for _ in 0..seconds {
            change_for(&mut oracle, &world, Duration::from_millis(900));
            acts.add(&world, &tracer);
            // Runs a job in each round, because each job ends with maintenance.
            world.index();
            oracle.note_acknowledged(&world);
        }
        world.kill();
        // Moves the files away: a daemon that starts on a disk image must find everything in the image, not read the files
        // again.
        std::fs::rename(world.files(), hidden_files(&world)).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let disk = DiskRecording::read(calls.path(), &world.data());
        RecordedRun { world, disk, oracle, acts }
    }

    /// Starts a daemon on a disk image and appends lost changes to `lost`. Returns the start time.
    fn start(&self, target: &mut World, at: u64, what: &str, lost: &mut Vec<String>) -> Duration {
        let begun = Instant::now();
        target.spawn_and_wait();
        let took = begun.elapsed();
        lost.extend(self.acts.missing(target, at).into_iter().map(|it| format!("{what}: {it}\n{}", target.log())));
        assert!(target.terminate(), "{what}\n{}", target.log());
        took
    }

    /// Moves the files back and restarts the daemon on the image. The index must match the files, and the files be
    /// unchanged.
    fn check_recovery(&mut self, target: &mut World, what: &str) {
        let files = self.world.files();
        std::fs::rename(hidden_files(&self.world), &files).unwrap();
        let before = snapshot(&files);
        target.spawn_and_wait();
        // Many files may have changed or vanished since the image was taken, so the daemon asks to confirm the losses.
        target.ok(&["index", "--accept-losses", files.to_str().unwrap()]);
        self.oracle.check_converged(target);
        assert!(target.terminate(), "{what}\n{}", target.log());
        assert!(snapshot(&files) == before, "{what}: the files of the user have changed");
        std::fs::rename(&files, hidden_files(&self.world)).unwrap();
    }
}

/// Returns the folder where the files are while daemons must not see them.
fn hidden_files(world: &World) -> PathBuf {
    world.files().with_file_name("away")
}

/// Traces a run of this many seconds and checks `images` disk images that a power loss could leave; starts a daemon on the
/// first `daemons` of them. Returns the start times.
fn lose_power(seconds: u64, images: u64, daemons: u64, seed: u64) -> Vec<Duration> {
    if !capabilities::can_trace() {
        return Vec::new();
    }
    let mut run = RecordedRun::record(seconds, seed);
    let moments = run.disk.moments();
    let mut dice = Rng::new(seed);
    let (mut promises, mut acts, mut lost, mut starts) = (0, 0, Vec::new(), Vec::new());
    for number in 0..images {
        let moment = moments[dice.below(moments.len() as u64) as usize];
        let loss = LOSSES[number as usize % LOSSES.len()];
        let mut target = World::new();
        run.disk.image(moment, loss, &mut dice, &target.data());
        let at = run.disk.time_of(moment);
        let what = format!("image {number} of seed {seed}, {loss:?} after `{}`", run.disk.describe(moment));
        if number < daemons {
            starts.push(run.start(&mut target, at, &what, &mut lost));
            acts += run.acts.acknowledged_by(at).count();
        }
        let wrong = run.oracle.check_stored(&target.data(), at);
        if !wrong.is_empty() {
            lost.push(format!("{what}:\n{}\n{}", wrong.join("\n"), target.log()));
        }
        promises += run.oracle.promised_at(at);
        if number < daemons {
            run.check_recovery(&mut target, &what);
        }
    }
    // Reports all images, because the set of failing images is more useful than the first failure.
    assert!(lost.is_empty(), "{} of {images} images:\n{}", lost.len(), lost.join("\n"));
    assert!(promises > images && acts > starts.len(), "only {promises} promises and {acts} acts");
    let daemons = starts.len();
    figure(
        "power loss",
        format!(
            "{images} of {images} images open, {daemons} with a daemon; {promises} acknowledged versions, {acts} keys and \
             graphs, 0 lost; no file of the owner's changed"
        ),
    );
    starts
}

// Case B2
#[test]
fn acknowledged_data_survives_power_loss() {
    lose_power(6, 30, 10, 1);
}

// Case B2
#[test]
#[ignore = "takes twenty minutes: see `make torture`"]
fn torture_power_loss() {
    let (seconds, images) = (size_from_env("VIC_TORTURE_SECONDS", 40), size_from_env("VIC_TORTURE_IMAGES", 200));
    let starts = lose_power(seconds, images, images, size_from_env("VIC_TORTURE_SEED", 2));
    check_within_time("ready after power loss (p95)", percentile(&starts, 95), RESTART_LIMIT);
}
