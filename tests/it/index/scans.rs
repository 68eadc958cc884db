//! Tests scans and images of text with a real daemon: OCR for questions, OCR for the index, and reuse of the OCR text.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::harness::sample_dir;
use crate::support::http_client::post;

const SCAN: &str = "idr-contract-scan.pdf";
const QUESTION: &[&str] = &["ask", "Who signed the IDR contract?"];

/// Starts a daemon without automatic OCR and indexes the sample contracts.
fn world_with_contracts() -> World {
    let world = world_without_ocr();
    world.ok(&["index", sample_dir().join("Contracts").to_str().unwrap(), "--ocr", "never"]);
    world
}

/// Asks the question and returns the hit of the scanned contract.
fn scan_hit(world: &World) -> Value {
    let answer = world.json(QUESTION);
    let hits = answer["hits"].as_array().unwrap();
    hits.iter().find(|it| it["path"] == SCAN).unwrap_or_else(|| panic!("{answer:#}")).clone()
}

/// Returns a test setup with a time limit per question that suffices for OCR even on a slow machine.
fn world_with_long_budget() -> World {
    World::new().with("VIC_L2_SECONDS", "300")
}

fn world_without_ocr() -> World {
    world_with_long_budget().with("VIC_OCR", "never").with("VIC_WATCH", "0").start()
}

/// Stops every worker of the daemon that has used some CPU time, until `done` is set, so that OCR hangs. Returns their ids.
fn stop_busy_readers(daemon: u32, done: &AtomicBool) -> BTreeSet<String> {
    let mut stopped = BTreeSet::new();
    while !done.load(Ordering::Relaxed) {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().to_string_lossy().into_owned();
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, it)| it.split(' ').collect()).unwrap_or_default();
            // Field 1 is the parent, field 11 the user time in 1/100 s. After 0.5 s the models are loaded and a page is in
            // progress.
            let (parent, busy) = (fields.get(1), fields.get(11).and_then(|it| it.parse::<u32>().ok()));
            if parent == Some(&daemon.to_string().as_str()) && busy.is_some_and(|it| it > 50) {
                Command::new("kill").args(["-STOP", &pid]).status().unwrap();
                stopped.insert(pid);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    stopped
}

#[test]
fn hanging_ocr_ends_with_budget_and_next_question_works() {
    let mut world = world_with_contracts();
    // Restarts with a short time limit, because the worker hangs during the next question.
    assert!(world.terminate());
    let mut world = world.with("VIC_L2_SECONDS", "16");
    world.spawn_and_wait();
    let done = AtomicBool::new(false);
    let begun = Instant::now();
    let (answer, stopped) = std::thread::scope(|scope| {
        let stopping = scope.spawn(|| stop_busy_readers(world.pid(), &done));
        let answer = world.json(QUESTION);
        done.store(true, Ordering::Relaxed);
        (answer, stopping.join().unwrap())
    });
    let took = begun.elapsed();
    assert!(!stopped.is_empty(), "the test must stop at least one worker");
    assert!(took > Duration::from_secs(12) && took < Duration::from_secs(40), "{took:?}");
    assert!(answer["warnings"].to_string().contains("no time left"), "{answer:#}");
    let lives = |pid: &&String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(") T ")
    };
    let left: Vec<&String> = stopped.iter().filter(lives).collect();
    assert!(left.len() < stopped.len(), "the hanging worker was not killed: {stopped:?}");
    // Lets the other stopped workers continue.
    for pid in left {
        Command::new("kill").args(["-CONT", pid]).status().unwrap();
    }
    let other = world.json(&["ask", "notice to leave the workshop on the quay"]);
    assert_eq!(other["hits"][0]["path"], "lease-unit-4-tanners-quay.pdf", "{other:#}");
    // With enough time, the same question gets the text of the scan.
    assert!(world.terminate());
    let mut world = world.with("VIC_L2_SECONDS", "300");
    world.spawn_and_wait();
    assert_eq!(scan_hit(&world)["tier"], "L2");
}

#[test]
fn ocr_text_is_reused_for_duplicates() {
    let world = world_without_ocr();
    let scan = std::fs::read(sample_dir().join("Contracts").join(SCAN)).unwrap();
    world.write("one/idr-contract.pdf", &scan);
    world.write("two/idr-contract.pdf", &scan);
    world.ok(&["index", world.files().to_str().unwrap(), "--ocr", "never"]);
    let hit = |folder: &str| {
        let begun = Instant::now();
        let answer = world.json(&["ask", &format!("Who signed the IDR contract? path:{folder}")]);
        (answer["hits"][0].clone(), begun.elapsed())
    };
    let (first, slow) = hit("one");
    assert!(first["reasoning"].as_str().unwrap().contains("found by a skill now"), "{first:#}");
    let (second, quick) = hit("two");
    assert_eq!((&second["tier"], &second["metadata"]["anchor"]["page"]), (&"L2".into(), &2.into()), "{second:#}");
    assert!(second["reasoning"].as_str().unwrap().contains("found by a skill before"), "{second:#}");
    assert!(quick < slow, "{quick:?} {slow:?}");
    let (third, _) = hit("two");
    assert_eq!(third["tier"], "L1", "{third:#}");
}

#[test]
fn ocr_text_survives_loss_of_index() {
    let mut world = world_with_contracts();
    assert_eq!(scan_hit(&world)["tier"], "L2");
    assert!(world.terminate());
    std::fs::remove_dir_all(world.data().join("index")).unwrap();
    world.spawn_and_wait();
    world.wait_until("all files are indexed again", Duration::from_secs(60), |it| {
        let coverage = it.json(&["status"])["coverage"].clone();
        coverage["pending"] == 0 && coverage["indexed"] == coverage["found"]
    });
    let again = scan_hit(&world);
    assert_eq!((&again["tier"], &again["metadata"]["anchor"]["page"]), (&"L1".into(), &2.into()), "{again:#}");
}

#[test]
fn read_shows_scan_text_with_page_and_region() {
    let world = world_with_contracts();
    let folder = sample_dir().join("Contracts");
    let scan = folder.join(SCAN);
    assert!(!world.ok(&["read", scan.to_str().unwrap(), "--format", "human"]).contains("Henrike"));
    // The question runs OCR on the scan.
    world.json(QUESTION);
    let check = |shown: &Value| {
        let blocks = shown["blocks"].as_array().unwrap();
        let found =
            |text: &str| blocks.iter().filter(|it| it["text"].as_str().unwrap().contains(text)).collect::<Vec<_>>();
        assert!(found("48,750").iter().any(|it| it["anchor"]["page"] == 1), "{blocks:#?}");
        let dahl = found("Henrike Dahl");
        assert!(
            dahl.iter().all(|it| it["anchor"]["page"] == 2 && it["anchor"]["region"]["top"].is_number()),
            "{dahl:#?}"
        );
        assert!(!dahl.is_empty());
    };
    check(&world.json(&["read", scan.to_str().unwrap()]));
    // The index job runs OCR on the scan.
    world.ok(&["index", folder.to_str().unwrap(), "--ocr", "auto"]);
    check(&world.json(&["read", scan.to_str().unwrap()]));
    assert!(world.ok(&["read", scan.to_str().unwrap(), "--format", "human"]).contains("Henrike Dahl"));
    let body = json!({"path": scan});
    check(&post(&world, "/v1/read", &body).json());
}

#[test]
fn question_reads_scan_once_then_finds_it_in_index() {
    let world = world_with_contracts();
    let first = scan_hit(&world);
    assert_eq!(first["tier"], "L2", "{first:#}");
    let anchor = &first["metadata"]["anchor"];
    assert_eq!(anchor["page"], 2, "{first:#}");
    assert!(anchor["region"]["top"].as_f64().is_some_and(|it| it > 0.2), "{first:#}");
    let excerpt = first["excerpt"].as_str().unwrap();
    assert!(excerpt.contains("Henrike Dahl") && excerpt.contains("Maren Oddy"), "{first:#}");
    let second = scan_hit(&world);
    assert_eq!((&second["tier"], &second["metadata"]["anchor"]["page"]), (&"L1".into(), &2.into()), "{second:#}");
}

#[test]
fn signature_question_is_answered_by_signature_block() {
    let world = world_with_long_budget().start();
    world.ok(&["index", sample_dir().to_str().unwrap()]);
    let answer = world.json(QUESTION);
    assert!(answer["hits"][0]["path"].as_str().unwrap().ends_with(SCAN), "{answer:#}");
    assert_eq!(answer["hits"][0]["metadata"]["anchor"]["page"], 2, "{answer:#}");
    assert!(answer["answer_summary"].as_str().unwrap().contains("Signed"), "{answer:#}");
}
