//! Tests the commands of the API document. Each test is named after its command.

use serde_json::Value;

use crate::support::harness::World;

#[test]
fn vic_ask_has_format_human_and_json_and_root() {
    let world = crate::api::wire_contract::bees();
    let human = world.ok(&["ask", "how heavy was the hive", "--format", "human"]);
    assert!(human.contains("1. notes/bees.md") && human.contains("31 kg"), "{human}");
    let json: Value = serde_json::from_str(&world.ok(&["ask", "how heavy was the hive"])).unwrap();
    assert_eq!(json["hits"][0]["path"], "notes/bees.md", "the default format for a pipe is JSON");
    let root = world.files().join("notes");
    let narrow = world.json(&["ask", "hive", "--root", root.to_str().unwrap()]);
    assert_eq!(narrow["stats"]["warehouse_root"], root.canonicalize().unwrap().to_str().unwrap());
}

#[test]
fn vic_index_walks_and_writes_the_index() {
    let world = World::new().start();
    world.write("a.md", "A lighthouse.");
    world.ok(&["index", world.files().to_str().unwrap()]);
    assert_eq!(world.json(&["status"])["coverage"]["indexed"], 1);
}

#[test]
fn vic_bridge_shows_where_http_is_served() {
    let world = World::new().start();
    assert!(world.ok(&["bridge"]).contains(&world.listen()));
}

#[test]
fn vic_demo_full_and_quick_ask_through_every_tier() {
    let world = World::new().with("VIC_L2_SECONDS", "300");
    let full = world.ok(&["demo", "--full"]);
    assert!(full.contains("tiers that took part: L0, L1, L2"), "{full}");
    // The first run left its files in the index, so the quick run prints no chunk count.
    let quick = world.ok(&["demo", "--quick"]);
    assert!(quick.contains("tiers that took part: L0, L1\n") && !quick.contains("chunks"), "{quick}");
    assert_eq!(world.fails(&["demo", "--full", "--quick"]).0, 2);
}
