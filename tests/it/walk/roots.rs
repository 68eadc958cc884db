//! Tests roots with special files, empty roots and nested roots, and the reports of jobs and demos.

use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};

use crate::support::client::SyncClient;
use crate::support::harness::World;

/// Maximum time until a change is found, and until the mount guard reports a problem.
const SOON: Duration = Duration::from_secs(20);
const GUARD_LIMIT: Duration = Duration::from_secs(40);

// Case A10
#[test]
fn pipe_as_ignore_file_blocks_neither_walk_nor_watch() {
    let world = World::new().start();
    world.write("sub/a.md", "Apples in autumn.");
    world.write("b.md", "Bees in spring.");
    let pipe = world.files().join("sub/.gitignore");
    mkfifoat(CWD, &pipe, Mode::RWXU).unwrap();
    world.index();
    let caller = SyncClient::new(&world);
    assert_eq!(caller.files().len(), 2);
    let told = |it: &SyncClient, name: &str| {
        it.status().degraded.iter().any(|it| it.contains(name) && it.contains("named pipe"))
    };
    assert!(told(&caller, "sub/.gitignore"), "{:?}", caller.status().degraded);
    let later = world.files().join(".vicignore");
    mkfifoat(CWD, &later, Mode::RWXU).unwrap();
    world.write("sub/c.md", "Cherries in summer.");
    assert!(caller.poll_until(SOON, |it| it.files().len() == 3), "{:?}", caller.status());
    std::fs::remove_file(&pipe).unwrap();
    std::fs::remove_file(&later).unwrap();
    world.write(".vicignore", "c.md\n");
    assert!(
        caller.poll_until(SOON, |it| it.files().len() == 2 && it.status().degraded.is_empty()),
        "{:?}",
        caller.status()
    );
}

// Case A12
#[test]
fn nested_root_survives_removal_of_outer_root() {
    let world = World::new().start();
    world.write("uni/thesis.md", "Lichens of the northern coast.");
    world.write("diary.md", "Rain all day.");
    let (outer, inner) = (world.files(), world.files().join("uni"));
    let [outer, inner] = [&outer, &inner].map(|it| it.to_str().unwrap());
    world.ok(&["index", inner]);
    world.ok(&["index", outer]);
    let roots = || -> Vec<String> {
        let roots = world.json(&["roots"]);
        roots.as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(roots(), [inner, outer]);
    assert_eq!(world.paths(&["lichens"])[0], "uni/thesis.md");
    let told = world.ok(&["roots", "remove", outer]);
    assert!(told.contains("1 root in it stays indexed"), "{told}");
    assert_eq!(roots(), [inner]);
    assert_eq!(world.paths(&["lichens"])[0], "thesis.md");
    assert!(!world.paths(&["rain"]).contains(&"diary.md".to_string()));
    world.write("uni/new.md", "Mosses, too.");
    SyncClient::new(&world).sync();
    assert_eq!(world.paths(&["mosses"])[0], "new.md", "the nested root must be watched");
}

// Case A12
#[test]
fn job_over_emptied_root_fails_and_removes_nothing() {
    let world = World::new().with("VIC_WATCH", "0").start();
    (0..20).for_each(|it| drop(world.write(&format!("{it}.md"), format!("Note {it}."))));
    world.index();
    let (root, aside) = (world.files(), world.files().with_file_name("aside"));
    std::fs::rename(&root, &aside).unwrap();
    std::fs::create_dir(&root).unwrap();
    for arguments in [&["index"][..], &["index", root.to_str().unwrap()]] {
        let (code, told) = world.fails(arguments);
        assert!(code == 6 && told.contains("empty now") && told.contains("nothing was removed"), "{code} {told}");
    }
    assert_eq!(world.json(&["files"])["total"], 20);
    std::fs::remove_dir(&root).unwrap();
    std::fs::rename(&aside, &root).unwrap();
    world.ok(&["index"]);
    assert_eq!(world.json(&["status"])["degraded"], serde_json::json!([]));
}

// Case A12
#[test]
fn empty_root_warning_clears_when_files_return() {
    let world = World::new().start();
    (0..3).for_each(|it| drop(world.write(&format!("{it}.md"), format!("Note {it}."))));
    world.index();
    let (caller, aside) = (SyncClient::new(&world), world.files().with_file_name("aside"));
    std::fs::create_dir(&aside).unwrap();
    let every = |from: &std::path::Path, to: &std::path::Path| {
        (0..3).for_each(|it| std::fs::rename(from.join(format!("{it}.md")), to.join(format!("{it}.md"))).unwrap());
    };
    every(&world.files(), &aside);
    let is_said = |it: &SyncClient| it.status().degraded.iter().any(|it| it.contains("is empty"));
    assert!(caller.poll_until(GUARD_LIMIT, is_said), "{:?}", caller.status());
    every(&aside, &world.files());
    assert!(caller.poll_until(GUARD_LIMIT, |it| it.status().degraded.is_empty()), "{:?}", caller.status());
}

#[test]
fn quick_demo_without_earlier_demo_is_refused() {
    let (code, told) = World::new().fails(&["demo", "--quick"]);
    assert!(
        code == 6 && told.contains("the sample is not indexed yet") && told.contains("run `vic demo` once"),
        "{code} {told}"
    );
}
