//! Runs random operations on a folder while its daemon is stopped, killed, restarted and paused, reindexes all files, or
//! removes the root. After a sync the index must match the disk, and untouched files must be searchable at all times.
//!
//! [`Workload`] provides the folder, the operations and the comparison. `kills` checks the stored data after a kill, and
//! `store_mix` tests the store alone. A seed fixes the operations and their order, but the moment at which a kill hits the
//! daemon depends on the machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use vic::error::ErrorCode;
use vic::model::FileState;

use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::long_tests::Rng;
use crate::support::long_tests::figure;
use crate::support::long_tests::size_from_env;
use crate::support::workload::IGNORE_FILE;
use crate::support::workload::UNTOUCHED_FOLDER;
use crate::support::workload::Workload;
use crate::watch::events::signal_daemon;

/// Number of files that no operation touches. They must be found at all times.
const UNTOUCHED: u64 = 20;

/// File operations between two comparisons of index and disk.
const ROUND: u64 = 60;

/// Daemon actions, such as a kill or a restart, between two comparisons of index and disk.
const DAEMON_ACTIONS: u64 = 2;

/// A folder under random operations, its daemon, and the daemon actions so far.
struct Mix {
    world: World,
    caller: SyncClient,
    workshop: Workload,
    dice: Rng,
    is_paused: bool,
    root: String,
    /// Daemon actions since the last comparison, printed on a failure.
    actions: String,
    begun: Instant,
    counts: BTreeMap<&'static str, u64>,
}

impl Mix {
    fn new(seed: u64) -> Mix {
        println!("the mix of seed {seed}");
        let world = World::new().without_root_override().start();
        let mut workshop = Workload::new(world.files().canonicalize().unwrap(), seed);
        (0..UNTOUCHED).for_each(|_| workshop.write_untouched());
        (0..20).for_each(|_| workshop.write());
        world.index();
        let (root, caller) = (workshop.root.display().to_string(), SyncClient::new(&world));
        let dice = Rng::new(seed.rotate_left(32));
        let (is_paused, actions, begun, counts) = (false, String::new(), Instant::now(), BTreeMap::new());
        Mix { world, caller, workshop, dice, is_paused, root, actions, begun, counts }
    }

    /// Records a daemon action for the counts and for the message of a failure.
    fn record(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
        let at = self.begun.elapsed();
        write!(self.actions, "\n  {at:.2?}: {what}").unwrap();
    }

    /// Performs random file operations, with some pauses, queries and syncs in between.
    fn run_operations(&mut self, operations: u64) {
        for _ in 0..operations {
            self.change_folder();
            match self.dice.below(20) {
                0 => self.sleep_up_to(60),
                1 => self.check_untouched("query between operations"),
                2 if !self.is_paused => {
                    self.record("sync");
                    self.sync();
                }
                _ => (),
            }
        }
    }

    fn change_folder(&mut self) {
        *self.counts.entry("operations").or_default() += 1;
        match self.dice.below(15) {
            0 => self.workshop.make_unreadable(),
            _ => self.workshop.step(),
        }
    }

    /// Sleeps for a random time below `most` milliseconds.
    fn sleep_up_to(&mut self, most: u64) {
        std::thread::sleep(Duration::from_millis(self.dice.below(most)));
    }

    fn sync(&self) {
        let outcome = self.caller.try_sync(60);
        assert!(outcome.is_ok(), "{outcome:?}{}\n{}", self.actions, self.world.log());
    }

    /// Asserts that all untouched files are listed as indexed or pending, and that a search finds a random one.
    fn check_untouched(&mut self, when: &str) {
        self.caller.status();
        let known = self.caller.files();
        let kept: Vec<_> = known.iter().filter(|it| it.0.starts_with(UNTOUCHED_FOLDER)).collect();
        let stands = |state| matches!(state, FileState::Indexed | FileState::Pending);
        assert!(
            kept.len() as u64 == UNTOUCHED && kept.iter().all(|it| stands(it.1.state)),
            "{when}: of {UNTOUCHED} untouched files there are {:?}{}\n{}",
            kept.iter().map(|it| (it.0, it.1.state)).collect::<Vec<_>>(),
            self.actions,
            self.world.log()
        );
        let number = self.dice.in_range(1..UNTOUCHED + 1);
        self.workshop.search(&self.caller, number, &format!("{when}{}", self.actions));
    }

    /// Performs one random daemon action.
    fn daemon_action(&mut self) {
        match self.dice.below(100) {
            0..15 => self.kill_at_work(),
            15..30 => self.kill_in_sync(),
            30..45 => self.kill_in_job(),
            45..53 => self.kill_in_start(),
            53..66 => self.restart(),
            66..74 => self.pause(),
            74..82 => self.reindex(),
            82..88 => self.forget(),
            _ => self.change_rules(),
        }
    }

    /// Kills the daemon while files change, and restarts it.
    fn kill_at_work(&mut self) {
        self.record("kill -9 while files change");
        let (wait, operations) = (self.dice.below(500), self.dice.in_range(5..30));
        let Mix { world, workshop, dice, counts, .. } = self;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(wait));
                signal_daemon(world, "-KILL");
            });
            for _ in 0..operations {
                workshop.step();
                std::thread::sleep(Duration::from_millis(dice.below(30)));
            }
        });
        *counts.entry("operations").or_default() += operations;
        self.world.kill();
        self.restart_after_changes();
    }

    /// Kills the daemon during a sync, and restarts it.
    fn kill_in_sync(&mut self) {
        self.record("kill -9 in a sync");
        let (operations, caller) = (self.dice.below(40), SyncClient::new(&self.world));
        (0..operations).for_each(|_| self.change_folder());
        std::thread::scope(|scope| {
            scope.spawn(move || caller.try_sync(60).ok());
            self.sleep_up_to(300);
            self.world.kill();
        });
        self.restart_after_changes();
    }

    /// Kills the daemon during a full or partial reindex or during the maintenance after it, and restarts it.
    fn kill_in_job(&mut self) {
        self.record("kill -9 in a job");
        let kind = ["--full", "--ocr=auto", "--metadata-only"][self.dice.index(3)];
        self.world.ok(&["index", kind, "--no-wait", &self.root]);
        self.sleep_up_to(700);
        self.world.kill();
        self.restart_after_changes();
    }

    fn kill_in_start(&mut self) {
        self.record("kill -9 in a start");
        self.world.kill();
        let operations = self.dice.below(20);
        (0..operations).for_each(|_| self.change_folder());
        self.world.spawn_without_wait();
        self.sleep_up_to(600);
        self.world.kill();
        self.restart_after_changes();
    }

    fn restart(&mut self) {
        self.record("orderly restart");
        if self.dice.below(2) == 0 {
            self.world.ok(&["index", "--full", "--no-wait", &self.root]);
            self.sleep_up_to(300);
        }
        assert!(self.world.terminate(), "{}\n{}", self.actions, self.world.log());
        self.restart_after_changes();
    }

    /// Starts the daemon, in two of three cases after changes to the folder while the daemon was stopped.
    fn restart_after_changes(&mut self) {
        let operations = if self.dice.below(3) > 0 { self.dice.below(25) } else { 0 };
        (0..operations).for_each(|_| self.change_folder());
        self.world.spawn_and_wait();
        self.caller = SyncClient::new(&self.world);
        self.check_untouched("right after a start");
    }

    /// Pauses indexing. The pause must survive every restart, which [`Mix::resume`] checks.
    fn pause(&mut self) {
        self.record("pause");
        self.world.ok(&["pause"]);
        self.is_paused = true;
    }

    fn resume(&mut self) {
        if self.is_paused {
            let refused = self.caller.try_sync(5).map_err(|it| it.code);
            assert_eq!(refused.err(), Some(ErrorCode::FailedPrecondition), "the pause was lost{}", self.actions);
            self.world.ok(&["resume"]);
            self.is_paused = false;
        }
    }

    /// Reindexes all files, followed by maintenance of the table.
    fn reindex(&mut self) {
        self.resume();
        self.record("index --full");
        self.world.ok(&["index", "--full", &self.root]);
    }

    /// Removes the root, in half of the cases kills the daemon and checks that the files stay removed, and adds the root
    /// again.
    fn forget(&mut self) {
        self.resume();
        self.record("root removed and added");
        self.world.ok(&["roots", "remove", &self.root]);
        if self.dice.below(2) == 0 {
            self.sleep_up_to(300);
            self.world.kill();
            self.world.spawn_and_wait();
            self.caller = SyncClient::new(&self.world);
            let known = self.caller.files();
            assert!(known.is_empty(), "{:?} are in the index again{}", known.keys(), self.actions);
        }
        self.world.ok(&["index", &self.root]);
    }

    /// Writes an ignore file with rules for up to seven files.
    fn change_rules(&mut self) {
        self.record("other rules");
        let names = (0..self.dice.below(8)).map(|_| format!("f{}.md", self.dice.below(80))).collect();
        self.workshop.ignored = names;
        let rules: String = self.workshop.ignored.iter().map(|it| format!("{it}\n")).collect();
        std::fs::write(self.workshop.root.join(IGNORE_FILE), rules).unwrap();
    }

    /// Resumes and syncs, then asserts that the index matches the disk.
    fn compare(&mut self, at: &str) {
        self.resume();
        self.sync();
        self.confirm_losses();
        let at = format!("{at}{}", self.actions);
        self.workshop.check(&self.caller, &at);
        self.check_untouched(&at);
        let chunks: u64 = self.caller.files().values().map(|it| u64::from(it.chunks)).sum();
        assert_eq!(self.caller.status().chunks, chunks, "{at}: chunks in store and catalog");
        self.record("comparisons");
        self.actions.clear();
    }

    /// Confirms losses if the daemon holds them back: when more than half of a folder is missing at a start, the daemon
    /// keeps the entries until the user confirms. Existing files must be indexed before that.
    fn confirm_losses(&mut self) {
        let is_held = self.caller.status().roots.iter().any(|it| it.problem.contains("more than half"));
        if is_held {
            self.record("losses confirmed");
            let known = self.caller.files();
            let lacking: Vec<_> = self.workshop.expected().into_keys().filter(|it| !known.contains_key(it)).collect();
            assert!(lacking.is_empty(), "{lacking:?} are not in the index{}", self.actions);
            self.world.ok(&["index", "--accept-losses", &self.root]);
        }
    }
}

/// Runs this number of rounds. Returns the count of each operation and action.
fn run_rounds(seed: u64, rounds: u64) -> BTreeMap<&'static str, u64> {
    let mut mix = Mix::new(seed);
    for round in 0..rounds {
        for _ in 0..DAEMON_ACTIONS {
            mix.run_operations(ROUND / (DAEMON_ACTIONS + 1));
            mix.daemon_action();
        }
        mix.run_operations(ROUND / (DAEMON_ACTIONS + 1));
        mix.compare(&format!("seed {seed}, round {round}"));
    }
    // Compares once more after a clean restart, which must not change anything.
    assert!(mix.world.terminate(), "{}", mix.world.log());
    mix.world.spawn_and_wait();
    mix.caller = SyncClient::new(&mix.world);
    mix.compare(&format!("seed {seed}, at the end"));
    mix.counts
}

fn report(seed: u64, counts: &BTreeMap<&'static str, u64>) {
    let counts: Vec<String> = counts.iter().map(|(what, times)| format!("{times} {what}")).collect();
    figure(
        &format!("operations, kills and restarts mixed, seed {seed}"),
        format!("0 differences; {}", counts.join(", ")),
    );
}

#[test]
fn sync_matches_disk_after_random_operations_and_kills() {
    report(11, &run_rounds(11, 5));
}

/// Runs `VIC_TORTURE_SEEDS` seeds from `VIC_TORTURE_SEED`, each with `VIC_TORTURE_OPERATIONS` operations and daemon actions.
#[test]
#[ignore = "takes hours: see `make torture`"]
fn torture_daemon_mix() {
    let (first, seeds) = (size_from_env("VIC_TORTURE_SEED", 1), size_from_env("VIC_TORTURE_SEEDS", 20));
    let operations = size_from_env("VIC_TORTURE_OPERATIONS", 10_000);
    for seed in first..first + seeds {
        report(seed, &run_rounds(seed, operations.div_ceil(ROUND)));
    }
}
