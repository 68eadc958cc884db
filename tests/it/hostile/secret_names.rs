//! Tests that files whose names mark them as secrets are never opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::hostile::read_apis::ReadApis;
use crate::hostile::secrets::SECRET_NAMES;
use crate::support::client::SyncClient;
use crate::support::harness::World;
use crate::support::open_trace::OpenTrace;

/// The content of every secret file. Must not appear in any reply.
const CANARY: &str = "xylophonecanary";

/// Returns the secret files that were opened, each with the number of opens.
fn opened(openings: &mut OpenTrace, secrets: &[PathBuf]) -> Vec<(PathBuf, usize)> {
    let counted = secrets.iter().map(|it| (it.clone(), openings.count_of(it)));
    counted.filter(|it| it.1 > 0).collect()
}

fn write_all(world: &World, text: &str) -> Vec<PathBuf> {
    SECRET_NAMES.iter().map(|it| world.write(it, text)).collect()
}

/// Waits until the daemon has opened the control file once more.
fn until_read_again(world: &World, openings: &mut OpenTrace, control: &Path) {
    let before = openings.count_of(control);
    world.wait_until("the control is read", Duration::from_secs(60), |_| openings.count_of(control) > before);
}

// Case E13
#[test]
fn secret_named_file_is_never_opened() {
    let world = World::new().with("VIC_INCLUDE_HIDDEN", "1").with("VIC_VERIFY_SECONDS", "2");
    let mut world = world.with("VIC_MCP_TOOLS", "all");
    let secrets = write_all(&world, CANARY);
    let control = world.write("control.md", "The heron stands in the reeds.");
    let mut openings = OpenTrace::watch_folder(&world.files());
    world.spawn_and_wait();
    world.index();
    world.ok(&["index", "--full", world.files().to_str().unwrap()]);
    assert!(openings.count_of(&control) > 0, "the trace must see the control file");
    // Waits for verification rounds, which read every file again, before and after a restart.
    until_read_again(&world, &mut openings, &control);
    assert!(world.terminate());
    world.spawn_and_wait();
    until_read_again(&world, &mut openings, &control);
    let ways = ReadApis::for_world(&world);
    for secret in &secrets {
        for told in ways.try_all(secret.to_str().unwrap()) {
            assert!(told.is_refused && !told.text.contains(CANARY), "{}: {}", told.api, told.text);
        }
    }
    assert_eq!(opened(&mut openings, &secrets), []);
    // Writes the secrets again under a watching daemon. The one open of each is the write of this test.
    write_all(&world, "another xylophonecanary");
    world.write("control.md", "The heron stands in the reeds again.");
    SyncClient::new(&world).sync();
    until_read_again(&world, &mut openings, &control);
    let expected: Vec<(PathBuf, usize)> = secrets.iter().map(|it| (it.clone(), 1)).collect();
    assert_eq!(opened(&mut openings, &secrets), expected);
    assert_eq!(world.json(&["status"])["coverage"]["reasons"]["secret"].as_u64(), Some(SECRET_NAMES.len() as u64));
}
