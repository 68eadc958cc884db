//! Files with secret names are never opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::secrets::BY_NAME;
use super::ways::Ways;
use crate::caller::Caller;
use crate::harness::World;
use crate::openings::Openings;

/// The content of every secret file.
const CANARY: &str = "xylophonecanary";

/// Returns the secrets that were opened, with their counts.
fn opened(openings: &mut Openings, secrets: &[PathBuf]) -> Vec<(PathBuf, usize)> {
    let counted = secrets.iter().map(|it| (it.clone(), openings.of_file(it)));
    counted.filter(|it| it.1 > 0).collect()
}

fn write_all(world: &World, text: &str) -> Vec<PathBuf> {
    BY_NAME.iter().map(|it| world.write(it, text)).collect()
}

/// Waits until the control file has been read once more.
fn until_read_again(world: &World, openings: &mut Openings, control: &Path) {
    let before = openings.of_file(control);
    world.until("the control is read again", Duration::from_secs(60), |_| openings.of_file(control) > before);
}

#[test]
fn secret_named_file_is_never_opened() {
    let mut world = World::new().with("VIC_INCLUDE_HIDDEN", "1").with("VIC_VERIFY_SECONDS", "2");
    let secrets = write_all(&world, CANARY);
    let control = world.write("control.md", "The heron stands in the reeds.");
    let mut openings = Openings::of(&world.files());
    world.spawn();
    world.index();
    world.ok(&["index", "--full", world.files().to_str().unwrap()]);
    assert!(openings.of_file(&control) > 0, "the trace sees files that are read");
    // The verification rounds that read every file again, before and after a restart.
    until_read_again(&world, &mut openings, &control);
    assert!(world.terminate());
    world.spawn();
    until_read_again(&world, &mut openings, &control);
    let ways = Ways::of(&world);
    for secret in &secrets {
        for told in ways.told(secret.to_str().unwrap()) {
            assert!(told.is_refused && !told.text.contains(CANARY), "{}: {}", told.way, told.text);
        }
    }
    assert_eq!(opened(&mut openings, &secrets), []);
    // Nor after changes under a watching daemon: these openings are the test's own writes.
    write_all(&world, "another xylophonecanary");
    world.write("control.md", "The heron stands in the reeds again.");
    Caller::new(&world).sync();
    until_read_again(&world, &mut openings, &control);
    let expected: Vec<(PathBuf, usize)> = secrets.iter().map(|it| (it.clone(), 1)).collect();
    assert_eq!(opened(&mut openings, &secrets), expected);
    assert_eq!(world.json(&["status"])["coverage"]["reasons"]["secret"].as_u64(), Some(BY_NAME.len() as u64));
}
