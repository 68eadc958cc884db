//! Many new files are found by their words long before they are embedded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::caller::Caller;
use crate::harness::World;
use crate::openai;
use crate::server::Server;

/// More than are embedded at once.
const FILES: usize = 450;

/// A server that embeds no file before it is told to.
fn busy_server(free: Arc<AtomicBool>) -> Server {
    Server::start(move |asked| {
        while asked.body["input"].to_string().contains("harbour log") && !free.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        openai::answer(&["any"], asked, &|_| String::new())
    })
}

/// Indexed, pending and without vectors.
fn counts(caller: &Caller) -> (u64, u64, u64) {
    let it = caller.status().coverage;
    (it.indexed, it.pending, it.awaiting_vectors)
}

#[test]
fn many_new_files_are_found_by_their_words_while_the_model_is_busy_and_a_restart_forgets_none() {
    let free = Arc::new(AtomicBool::new(false));
    let server = busy_server(free.clone());
    let mut world = World::new()
        .with("VIC_EMBED_BACKEND", "openai")
        .with("VIC_OPENAI_BASE_URL", &server.address)
        .with("VIC_OPENAI_EMBED_MODEL", "any")
        .with("VIC_WATCH", "0")
        .start();
    for number in 0..FILES {
        world.write(&format!("{number}.md"), format!("Entry number{number} of the harbour log."));
    }
    world.ok(&["index", "--no-wait", world.files().to_str().unwrap()]);
    let (all, caller) = (FILES as u64, Caller::new(&world));
    let by_words = (all, 0, all);
    assert!(caller.within(Duration::from_secs(90), |it| counts(it) == by_words), "{:?}", counts(&caller));
    let answer = world.json(&["ask", "number417"]);
    assert!(answer["hits"][0]["path"].as_str().unwrap().ends_with("417.md"), "{answer:#}");
    assert!(answer["warnings"].to_string().contains("by their words alone"), "{answer:#}");
    assert_eq!(caller.status().running_jobs[0].chunks_awaiting, all);
    let (code, said) = world.fails(&["similar", world.files().join("417.md").to_str().unwrap()]);
    assert!(code == 6 && said.contains("vectors"), "{code}: {said}");
    world.kill();
    world.spawn();
    let caller = Caller::new(&world);
    assert_eq!(counts(&caller), by_words);
    free.store(true, Ordering::Relaxed);
    assert!(caller.within(Duration::from_secs(90), |it| counts(it) == (all, 0, 0)), "{:?}", counts(&caller));
    assert_eq!(caller.status().chunks, all);
    world.ok(&["similar", world.files().join("417.md").to_str().unwrap()]);
    assert_eq!(world.json(&["ask", "number417"])["warnings"].as_array().map(Vec::len), Some(0));
}
