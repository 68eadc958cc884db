//! Tests `vic quality`: measures, saved runs, comparisons, and refused files.

use serde_json::{Value, json};

use crate::support::harness::World;

fn measured_world() -> World {
    let world = World::new().with("VIC_WATCH", "0").start();
    world.write("contracts/mooring.md", "The mooring fee for the pontoon is 412 EUR a month.");
    world.write("notes/bees.md", "The hive on the roof weighed 31 kg in March.");
    world.write("notes/ferry.md", "The ferry to the island leaves at nine.");
    world.index();
    world
}

fn questions(world: &World, lines: &[Value]) -> String {
    let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
    let path = world.data().with_file_name("questions.jsonl");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn known_files_and_answers_are_measured() {
    let world = measured_world();
    let path = questions(
        &world,
        &[
            json!({"question": "what is the mooring fee?", "files": ["contracts/mooring.md"], "answers": ["412 EUR"]}),
            json!({"question": "how heavy was the hive?", "files": ["bees.md"]}),
            json!({"question": "when does the ferry leave?", "files": ["missing.md"], "answers": ["at ten"]}),
        ],
    );
    let report = world.json(&["quality", &path, "--parallel", "2"]);
    let summary = &report["summary"];
    assert_eq!((&summary["with_files"], &summary["with_answers"]), (&json!(3), &json!(2)), "{report}");
    assert_eq!(summary["hit_at_1"], json!(2.0 / 3.0), "{report}");
    assert_eq!(summary["answer_rate"], 0.5, "{report}");
    assert_eq!(report["questions"][2]["rank"], Value::Null);
    assert!(report["questions"][0]["found"][0].as_str().unwrap().ends_with("/contracts/mooring.md"), "{report}");
    assert_eq!(report["chunks"], 3);
    let shown = world.ok(&["quality", &path]);
    assert!(shown.contains("nDCG@10      0.6667") && shown.contains("answers      0.5000"), "{shown}");
}

#[test]
fn saved_run_is_compared_question_by_question() {
    let world = measured_world();
    let path = questions(
        &world,
        &[
            json!({"question": "mooring fee", "files": ["mooring.md"]}),
            json!({"question": "ferry to the island", "files": ["ferry.md"]}),
        ],
    );
    let saved = world.data().with_file_name("run.json");
    let saved = saved.to_str().unwrap();
    world.ok(&["quality", &path, "--save", saved]);
    std::fs::remove_file(world.files().join("notes/ferry.md")).unwrap();
    world.index();
    let report = world.json(&["quality", &path, "--against", saved]);
    let comparison = &report["comparison"];
    assert_eq!(comparison["questions"], 2);
    assert_eq!(comparison["measures"][0]["difference"], -0.5, "{comparison}");
    assert_eq!(comparison["worse"][0]["question"], "ferry to the island");
    assert_eq!(comparison["better"], json!([]));
}

#[test]
fn invalid_questions_are_refused_and_rejected_ones_counted() {
    let world = measured_world();
    let path = questions(&world, &[json!({"question": "-draft", "files": ["a.md"]})]);
    let report = world.json(&["quality", &path]);
    assert_eq!((&report["summary"]["rejected"], &report["summary"]["ndcg_at_10"]), (&json!(1), &json!(0.0)));
    let path = questions(&world, &[json!({"files": ["a.md"]})]);
    let (code, told) = world.fails(&["quality", &path]);
    assert!(code == 2 && told.contains("line 1"), "{told}");
    let (code, _) = world.fails(&["quality", "no-such-file.jsonl"]);
    assert_eq!(code, 3);
}
