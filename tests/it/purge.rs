//! What the user takes out of the index leaves the disk: no byte of it is left in vic's own folder.

use std::time::{Duration, Instant};

use memchr::memmem;

use crate::harness::World;
use crate::torture::figure;

/// From the moment that a file is left out.
const WITHIN: Duration = Duration::from_secs(60);

/// Files of the data directory that hold this word.
fn holders(world: &World, word: &str) -> Vec<String> {
    let files = walkdir::WalkDir::new(world.data()).into_iter().flatten().filter(|it| it.file_type().is_file());
    let holds =
        |it: &walkdir::DirEntry| std::fs::read(it.path()).is_ok_and(|it| memmem::find(&it, word.as_bytes()).is_some());
    files.filter(holds).map(|it| it.path().display().to_string()).collect()
}

/// Waits until no byte of it is left; gives how long that took.
fn until_gone(world: &World, word: &str) -> Duration {
    let begun = Instant::now();
    loop {
        let left = holders(world, word);
        if left.is_empty() {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < WITHIN, "{word} is still in {left:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn text_of_what_is_left_out_from_now_on_is_gone_from_the_disk_within_a_minute() {
    let world = World::new().start();
    for number in 0..30 {
        world.write(&format!("{number}.md"), format!("# Entry {number}\n\nThe harbour log tells of heron{number}.\n"));
    }
    let secret = |word: &str| format!("# About {word}\n\nThe {word} is written by [[{word}]] in the ledger.\n");
    world.write("private/diary.md", secret("qzyxvahogwk"));
    world.write("letters/letter.md", secret("wjqzyxbevuk"));
    world.index();
    assert!(!holders(&world, "qzyxvahogwk").is_empty(), "the test could not fail");
    world.write(".vicignore", "private/\n");
    let ruled = until_gone(&world, "qzyxvahogwk");
    assert!(!holders(&world, "wjqzyxbevuk").is_empty(), "what is not left out stays");
    assert_eq!(world.paths(&["wjqzyxbevuk"]).first().map(String::as_str), Some("letters/letter.md"));
    world.ok(&["roots", "remove", world.files().to_str().unwrap()]);
    let removed = until_gone(&world, "wjqzyxbevuk");
    assert_eq!(world.json(&["status"])["degraded"].as_array().map(Vec::len), Some(0));
    figure(
        "text that a rule leaves out, gone from the disk",
        format!("{ruled:.0?} later; of a removed root {removed:.0?}"),
    );
}
