//! Tests that text that the user removes from the index is also removed from the disk: no byte stays in the data directory.

use std::time::{Duration, Instant};

use memchr::memmem;

use crate::support::harness::World;
use crate::support::long_tests::figure;

/// Maximum time until removed text has left the disk.
const PURGE_LIMIT: Duration = Duration::from_secs(60);

/// Returns the files of the data directory that contain this word.
fn files_containing(world: &World, word: &str) -> Vec<String> {
    let files = walkdir::WalkDir::new(world.data()).into_iter().flatten().filter(|it| it.file_type().is_file());
    let holds =
        |it: &walkdir::DirEntry| std::fs::read(it.path()).is_ok_and(|it| memmem::find(&it, word.as_bytes()).is_some());
    files.filter(holds).map(|it| it.path().display().to_string()).collect()
}

/// Waits until no file of the data directory contains the word. Returns how long that took.
fn until_gone(world: &World, word: &str) -> Duration {
    let begun = Instant::now();
    loop {
        let left = files_containing(world, word);
        if left.is_empty() {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < PURGE_LIMIT, "{word} is still in {left:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Number of graph entities with a secret word in their names: a person and a tag.
const ENTITIES_PER_SECRET: i64 = 2;

/// Starts a daemon with 120 log entries, and with two files in folders of their own, each with a secret word. The log
/// entries give the graph enough entities to fill several pages of its database.
fn world_with_secrets(world: World, secrets: [(&str, &str); 2]) -> World {
    let world = world.start();
    for number in 0..120 {
        let next = (number + 1) % 120;
        let text =
            format!("# Entry {number}\n\nThe harbour log tells of heron{number}. #log{number} See [[{next}]].\n");
        world.write(&format!("{number}.md"), text);
    }
    for (path, word) in secrets {
        let text = format!("---\nauthor: {word} Tarrant\n---\n# About {word}\n\nIt stands in [[{word}]]. #{word}\n");
        world.write(path, text);
    }
    world.index();
    world
}

/// Returns the number of graph entities whose key contains this word.
fn names_with(world: &World, word: &str) -> i64 {
    let graph = rusqlite::Connection::open(world.data().join("graph.sqlite")).unwrap();
    graph.busy_timeout(Duration::from_secs(10)).unwrap();
    let sql = "SELECT count(*) FROM entities WHERE instr(lower(key), ?1) > 0";
    graph.query_row(sql, [word], |row| row.get(0)).unwrap()
}

/// Returns the number of vectors in the cache.
fn cached_vectors(world: &World) -> i64 {
    let cache = rusqlite::Connection::open(world.data().join("vectors.sqlite")).unwrap();
    cache.busy_timeout(Duration::from_secs(10)).unwrap();
    cache.query_row("SELECT count(*) FROM vectors", [], |row| row.get(0)).unwrap()
}

/// Builds the graph and waits until both words are graph entities.
fn make_graph(world: &World, words: [&str; 2]) {
    world.wait_until("both words are in the graph", Duration::from_secs(60), |it| {
        it.ok(&["graph", "stats"]);
        words.iter().all(|word| names_with(it, word) == ENTITIES_PER_SECRET)
    });
}

// Case E14
#[test]
fn ignored_text_leaves_the_disk_within_a_minute() {
    let world = World::new().start();
    for number in 0..30 {
        world.write(&format!("{number}.md"), format!("# Entry {number}\n\nThe harbour log tells of heron{number}.\n"));
    }
    let secret = |word: &str| format!("# About {word}\n\nThe {word} is written by [[{word}]] in the ledger.\n");
    world.write("private/diary.md", secret("qzyxvahogwk"));
    world.write("letters/letter.md", secret("wjqzyxbevuk"));
    world.index();
    assert!(
        !files_containing(&world, "qzyxvahogwk").is_empty() && cached_vectors(&world) > 0,
        "the word must be on the disk at first"
    );
    world.write(".vicignore", "private/\n");
    let ruled = until_gone(&world, "qzyxvahogwk");
    world.wait_until("the cached vectors are deleted", PURGE_LIMIT, |it| cached_vectors(it) == 0);
    assert!(!files_containing(&world, "wjqzyxbevuk").is_empty(), "the text of other files must stay");
    assert_eq!(world.paths(&["wjqzyxbevuk"]).first().map(String::as_str), Some("letters/letter.md"));
    world.ok(&["roots", "remove", world.files().to_str().unwrap()]);
    let removed = until_gone(&world, "wjqzyxbevuk");
    assert_eq!(world.json(&["status"])["degraded"].as_array().map(Vec::len), Some(0));
    figure(
        "text of an ignored file, gone from the disk",
        format!("{ruled:.0?} later; of a removed root {removed:.0?}"),
    );
}

// Case E14
#[test]
fn graph_names_of_ignored_file_leave_the_disk() {
    let (ruled, removed) = ("qzyxvahogwk", "wjqzyxbevuk");
    let world = world_with_secrets(World::new(), [("private/diary.md", ruled), ("letters/letter.md", removed)]);
    make_graph(&world, [ruled, removed]);
    world.write(".vicignore", "private/\n");
    let of_rule = until_gone(&world, ruled);
    assert!(
        names_with(&world, removed) == ENTITIES_PER_SECRET && names_with(&world, "log7") >= 1,
        "graph entities of other files must stay"
    );
    let tagged = world.ok(&["graph", "query", &format!("select ?x where ?x -tagged-> name(\"{removed}\")")]);
    assert!(tagged.contains("letter.md"), "{tagged}");
    world.ok(&["roots", "remove", world.files().to_str().unwrap()]);
    let of_root = until_gone(&world, removed);
    figure(
        "names in the graph",
        format!("of an ignored file gone after {of_rule:.0?}, of a removed root after {of_root:.0?}"),
    );
}

// Case E14
#[test]
fn unreadable_text_leaves_the_disk_within_a_minute() {
    use std::os::unix::fs::PermissionsExt;
    let (withdrawn, open) = ("qzyxvahogwk", "wjqzyxbevuk");
    let world = World::new().without_root_override();
    let world = world_with_secrets(world, [("private/diary.md", withdrawn), ("letters/letter.md", open)]);
    make_graph(&world, [withdrawn, open]);
    assert!(files_containing(&world, withdrawn).len() >= 2, "the word must be on the disk at first");
    let diary = world.files().join("private/diary.md");
    std::fs::set_permissions(&diary, std::fs::Permissions::from_mode(0o000)).unwrap();
    let took = until_gone(&world, withdrawn);
    let status = world.json(&["status"]);
    assert_eq!(status["coverage"]["reasons"]["permission_denied"], 1, "{status:#}");
    assert_eq!(status["degraded"].as_array().map(Vec::len), Some(0), "{status:#}");
    assert!(
        !files_containing(&world, open).is_empty() && names_with(&world, open) == ENTITIES_PER_SECRET,
        "the text of readable files must stay"
    );
    assert_eq!(world.paths(&[open]).first().map(String::as_str), Some("letters/letter.md"));
    figure("text of a file that became unreadable has left the disk", format!("{took:.0?} later"));
}
