//! Kills of the daemon and of Milvus Lite in the middle of work.

use std::time::Duration;

use crate::crash::kills::{change_for, check_after_death};
use crate::milvus::{kill_lite, wait_for_end_of_lite, world_with_milvus};
use crate::support::crash_oracle::CrashOracle;
use crate::support::long_tests::{figure, size_from_env};

#[test]
#[ignore = "needs milvus-lite: make test-milvus; VIC_MILVUS_KILLS sets the number of kills"]
fn kills_of_daemon_or_milvus_lite_lose_nothing() {
    let kills = size_from_env("VIC_MILVUS_KILLS", 10);
    let mut world = world_with_milvus().start();
    let mut oracle = CrashOracle::new(&world, size_from_env("VIC_TORTURE_SEED", 5));
    (0..10).for_each(|_| oracle.change_one());
    world.index();
    oracle.note_acknowledged(&world);
    for kill in 0..kills {
        let wait = Duration::from_millis(oracle.draw(50..3_000));
        change_for(&mut oracle, &world, wait);
        if kill % 2 == 0 {
            world.kill();
            // The copy that is checked must not change.
            wait_for_end_of_lite(&world);
            check_after_death(&mut world, &mut oracle, &format!("kill {kill} of the daemon"));
        } else {
            kill_lite(&world);
            oracle.check_converged(&world);
        }
        oracle.note_acknowledged(&world);
    }
    assert!(oracle.acknowledgements > kills, "only {} acknowledgements", oracle.acknowledgements);
    let acknowledged = oracle.acknowledgements;
    figure(
        "kill -9 of vicd or milvus-lite",
        format!("{kills} kills, {acknowledged} acknowledged changes, 0 lost, 0 twice, 0 found after deletion"),
    );
}
