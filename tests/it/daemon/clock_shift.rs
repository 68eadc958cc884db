//! Tests a daemon whose clock is set back or forward by a year: no file is indexed again and nothing stops.
//!
//! Only the daemon sees the shifted clock; files and clients keep the true time.

use std::path::Path;

use vic::model::FileState;

use crate::crash::write_faults::compile_preload;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::watch::events::SOON;
use crate::watch::events::index_in;
use crate::watch::events::table_versions;

const YEAR: i64 = 365 * 24 * 3_600;

/// Number of files that are indexed before the clock changes.
const FILES: usize = 20;

/// Shifts the clock of the daemon by `ahead` seconds; negative values set it back.
fn shift_clock(file: &Path, ahead: i64) {
    // Overwrites the file in place, because the daemon has mapped it into memory.
    let mut clock = std::fs::File::options().write(true).open(file).unwrap();
    std::io::Write::write_all(&mut clock, &ahead.to_ne_bytes()).unwrap();
}

/// Asserts that a new and a deleted file reach the index, and that existing files are not indexed again.
fn check_index_works(world: &World, caller: &SyncClient, when: &str) {
    let (before, stored) = (caller.files(), table_versions(world));
    caller.sync();
    std::thread::sleep(SOON);
    assert_eq!(table_versions(world), stored, "{when}: the store changed without a file change");
    let path = format!("{when}.md");
    world.write(&path, format!("Written {when}: speedwell{when}."));
    caller.sync();
    assert_eq!(
        caller.hits(&format!("speedwell{when}")).first().map(|it| it.path.clone()),
        Some(path.clone()),
        "{when}"
    );
    std::fs::remove_file(world.files().join(&path)).unwrap();
    caller.sync();
    let after = caller.files();
    assert_eq!(after.len(), before.len(), "{when}");
    for (path, it) in &after {
        let was = &before[path];
        assert_eq!((it.id, it.hash, it.state), (was.id, was.hash, FileState::Indexed), "{when}: {}", path.display());
    }
    let status = caller.status();
    assert!(status.degraded.is_empty(), "{when}: {:?}", status.degraded);
}

// Case A13
#[test]
fn a13_clock_shift_by_a_year_reindexes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let shift = folder.path().join("shift");
    std::fs::write(&shift, 0_i64.to_ne_bytes()).unwrap();
    let preload =
        format!("LD_PRELOAD={}", compile_preload("daemon/clock.c", &folder.path().join("clock.so")).display());
    let launcher = vec!["env".to_owned(), preload, format!("CLOCK_SHIFT={}", shift.display())];
    let names: Vec<String> = (0..FILES).map(|it| format!("{it}.md")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut world, caller) = index_in(World::new().under(launcher), &names);
    check_index_works(&world, &caller, "before");
    shift_clock(&shift, -YEAR);
    check_index_works(&world, &caller, "back");
    drop(caller);
    assert!(world.terminate());
    world.spawn_and_wait();
    let caller = SyncClient::new(&world);
    check_index_works(&world, &caller, "started");
    shift_clock(&shift, YEAR);
    check_index_works(&world, &caller, "forward");
    let year = |it: &str| it.split('-').next().and_then(|it| it.parse::<i64>().ok());
    let years: Vec<i64> = world.log().lines().filter_map(year).collect();
    assert!(
        years.iter().max() >= years.iter().min().map(|it| it + 1).as_ref(),
        "the daemon's clock was not set: {years:?}"
    );
}
