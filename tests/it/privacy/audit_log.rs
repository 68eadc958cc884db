//! Tests the audit log, which lists requests to other machines, sent or refused.

use crate::support::harness::World;
use crate::support::harness::sample_dir;

#[test]
fn laxer_privacy_mode_of_question_is_refused_and_logged() {
    // 192.0.2.1 is an unused address (TEST-NET-1), so a request that is not refused hangs instead of failing.
    let world = World::new().with("VIC_WATCH", "0").with("VIC_OLLAMA_BASE_URL", "http://192.0.2.1:9").start();
    std::fs::copy(sample_dir().join("Scans/gullpoint-pier-evening.jpg"), world.files().join("pier.jpg")).unwrap();
    world.index();
    assert_eq!(world.json(&["audit"]), serde_json::json!([]));
    let answer = world.json(&["ask", "What does the photo of the pier show?", "--privacy-mode", "cloud_reasoning_ok"]);
    assert!(answer["warnings"].to_string().contains("`local_only`, which holds for this question too"), "{answer:#}");
    let records = world.json(&["audit"]);
    let records = records.as_array().unwrap();
    assert!(!records.is_empty());
    for record in records {
        assert_eq!((&record["destination"], &record["allowed"]), (&"http://192.0.2.1:9".into(), &false.into()));
        assert_eq!((&record["purpose"], &record["bytes"]), (&"reasoning".into(), &0.into()));
    }
}

#[test]
fn stricter_privacy_mode_of_question_applies_and_answers() {
    let world = World::new()
        .with("VIC_WATCH", "0")
        .with("VIC_PRIVACY_MODE", "cloud_reasoning_ok")
        .with("VIC_LIBRARIAN_BACKEND", "openai")
        .with("VIC_OPENAI_MODEL", "any")
        .with("VIC_OPENAI_BASE_URL", "http://192.0.2.1:9")
        .start();
    world.write("ferry.md", "The ferry to the island leaves at nine.");
    world.index();
    let answer = world.json(&["ask", "when does the ferry leave", "--privacy-mode", "local_only"]);
    assert!(answer["answer_summary"].to_string().contains("leaves at nine"), "{answer:#}");
    let records = world.json(&["audit"]);
    let records = records.as_array().unwrap();
    assert!(!records.is_empty() && records.iter().all(|it| it["allowed"] == false), "{records:#?}");
}
