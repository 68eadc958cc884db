//! Tests of words of a question or a file name that no file has: typing errors, and file types.

use serde_json::json;

use crate::support::harness::World;
use crate::support::http_client::post;

fn world() -> World {
    let world = World::new().with("VIC_WATCH", "0").start();
    for number in 0..40 {
        world.write(&format!("other/note{number}.md"), format!("Note {number}: the ferry leaves the quay at nine."));
    }
    world.write("fees.md", "The harbour office receives the agreement in May.");
    world.write("films/Jahresabschluss-Nordkai.mp4", "no video");
    world.index();
    world
}

/// Checks the first hit by words, and that a warning names the correction.
fn check_corrected(world: &World, question: &str, file: &str, correction: &str) {
    let answer = world.json(&["ask", question]);
    assert_eq!(answer["hits"][0]["path"], file, "{answer}");
    assert!(answer["warnings"].to_string().contains(&format!("searched for `{correction}`")), "{answer}");
}

#[test]
fn mistyped_words_are_corrected_from_texts_and_names() {
    let world = world();
    check_corrected(&world, "habour agreemant", "fees.md", "agreement");
    check_corrected(&world, "Who recieves it?", "fees.md", "receives");
    check_corrected(&world, "jahresabschlsus", "films/Jahresabschluss-Nordkai.mp4", "jahresabschluss");
}

#[test]
fn mistyped_words_of_file_names_are_corrected() {
    let world = world();
    for list in [
        world.json(&["files", "name:jahresabschlsus", "Nordkai"]),
        post(&world, "/v1/files", &json!({"words": ["Jahresabschlsus"]})).json(),
    ] {
        assert!(list["files"][0]["path"].as_str().unwrap().ends_with("/Jahresabschluss-Nordkai.mp4"), "{list}");
        assert_eq!(list["total"], 1, "{list}");
        assert!(list["warnings"][0].as_str().unwrap().ends_with("searched for `jahresabschluss`"), "{list}");
    }
}

#[test]
fn exact_lists_and_other_folders_are_not_corrected() {
    let world = world();
    let other = world.files().join("other");
    for (arguments, total) in [
        (vec!["jahresabschl"], 1),
        (vec!["abschluss"], 1),
        (vec!["zzyzzxq"], 0),
        (vec!["jahresabschluss", "note1"], 0),
        (vec!["jahresabschlsus", "note1"], 0),
        (vec!["jahresabschlsus", "--root", other.to_str().unwrap()], 0),
    ] {
        let list = world.json(&[&["files"][..], &arguments[..]].concat());
        assert_eq!((&list["total"], &list["warnings"]), (&json!(total), &json!([])), "{arguments:?}: {list}");
    }
}

#[test]
fn file_type_that_no_file_has_is_part_of_the_question() {
    let world = world();
    let answer = world.json(&["ask", "xsd files about the harbour agreement"]);
    assert_eq!(answer["hits"][0]["path"], "fees.md", "{answer}");
    assert!(answer["warnings"].to_string().contains("no file is of the type .xsd"), "{answer}");
    let answer = world.json(&["ask", "ext:xsd harbour agreement"]);
    assert_eq!(answer["hits"], serde_json::json!([]), "{answer}");
}

#[test]
fn words_of_files_and_of_other_folders_are_not_corrected() {
    let world = world();
    for question in [
        "Which agreement is for the harbour?",
        "jahresabschluss",
        "path:other agreemant",
        "zzyzzxq",
        "Which officer is at the quay?",
        "Wann offnet das Buro an der Kuste?",
    ] {
        let answer = world.json(&["ask", question]);
        assert!(!answer["warnings"].to_string().contains("searched for"), "{question}: {answer}");
    }
}
