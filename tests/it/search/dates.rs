//! Tests questions that ask for files by date: lists of changed files, and the newest or the oldest of similar files.

use std::time::{Duration, SystemTime};

use crate::support::harness::World;

/// Writes a file that was last changed some days ago.
fn write_old(world: &World, path: &str, text: &str, days: u64) {
    let file = std::fs::File::options().write(true).open(world.write(path, text)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400)).unwrap();
}

fn dated_world() -> World {
    let world = World::new().with("VIC_WATCH", "0").start();
    for (number, fee, days) in [(1, 150, 3), (2, 260, 40), (3, 370, 20)] {
        let text = format!("Berth agreement, version {number}. The fee is {fee} EUR.");
        write_old(&world, &format!("berth-v{number}.txt"), &text, days);
    }
    for (place, year, price, days) in [("north", 2021, 11, 1), ("south", 2024, 33, 50), ("west", 2022, 22, 2)] {
        let text = format!("Price list for diesel, in force from 1 May {year}. A litre of diesel costs {price} EUR.");
        write_old(&world, &format!("{place}.txt"), &text, days);
    }
    write_old(&world, "rota.txt", "The rota of the lifeboat crew is on the board.", 0);
    write_old(&world, "bees.txt", "The hive on the roof weighed 31 kg.", 9);
    world.index();
    world
}

#[test]
fn newest_and_oldest_of_similar_files_come_first() {
    let world = dated_world();
    for (question, first) in [
        ("current berth fee", "berth-v3.txt"),
        ("oldest berth agreement", "berth-v1.txt"),
        ("the latest version of the berth agreement", "berth-v3.txt"),
        ("what is the current price of diesel?", "south.txt"),
        ("oldest price list for diesel", "north.txt"),
        ("aktuelle Preisliste diesel", "south.txt"),
    ] {
        assert_eq!(world.paths(&[question]).first().map(String::as_str), Some(first), "{question}");
    }
    let answer = world.json(&["ask", "--explain", "current berth fee"]);
    assert_eq!(answer["query_plan"]["date_order"], "newest");
    let quotes = answer["answer"]["quotes"].to_string();
    assert!(quotes.contains("370 EUR") && !quotes.contains("260 EUR"), "{quotes}");
    let scores: Vec<f64> = answer["hits"].as_array().unwrap().iter().map(|it| it["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|one, other| one >= other), "{scores:?}");
    assert!(answer["hits"][0]["metadata"]["explain"]["date_order"]["date"].is_string(), "{answer}");
    let answer = world.json(&["ask", "what is the current price of diesel?"]);
    assert!(answer["hits"][0]["reasoning"].as_str().unwrap().contains("newest first: 2024-05-01"), "{answer}");
}

#[test]
fn bare_question_for_changes_lists_files() {
    let world = dated_world();
    for question in [
        "modified since yesterday",
        "modifed since yesterday",
        "what changed today?",
        "geändert seit gestern",
        "was hat sich heute geändert?",
        "modifiés depuis hier",
        "qu'est-ce qui a changé aujourd'hui ?",
        "modificado desde ayer",
        "¿qué cambió hoy?",
    ] {
        let answer = world.json(&["ask", question]);
        assert_eq!(answer["query_plan"]["intent"], "list", "{question}");
        assert_eq!(answer["hits"][0]["path"], "rota.txt", "{question}");
        let names: Vec<&str> =
            answer["hits"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
        assert!(!names.contains(&"bees.txt"), "{question}: {names:?}");
    }
    assert_eq!(world.paths(&["list the oldest files"]).first().map(String::as_str), Some("south.txt"));
}
