//! Tests the vision skill, which sends images to a model of an Ollama or OpenAI-compatible server, and all its failures.

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::harness::sample_dir;
use crate::support::ollama_server::Reply;
use crate::support::ollama_server::{self, Model};
use crate::support::openai_server;
use crate::support::scripted_server::Server;

const QUESTION: &str = "What does the photo of the pier show?";
const PIER: &str = "gullpoint-pier-evening.jpg";
const DESCRIPTION: &str = "Seen: a wooden pier at dusk, two herons on its rail, and the lighthouse behind it.";

/// Starts a daemon with these variables and indexes the sample images by name, without OCR.
fn world(variables: &[(&str, &str)]) -> World {
    let world = World::new().with("VIC_OCR", "never").with("VIC_WATCH", "0");
    let world = variables.iter().fold(world, |world, (name, value)| world.with(name, value)).start();
    world.ok(&["index", sample_dir().join("Scans").to_str().unwrap(), "--ocr", "never"]);
    world
}

fn world_with_ollama(server: &Server, more: &[(&str, &str)]) -> World {
    world(&[&[("VIC_OLLAMA_BASE_URL", server.address.as_str())][..], more].concat())
}

/// Starts a fake Ollama server with the default vision model.
fn vision_server(says: Reply) -> Server {
    ollama_server::start(vec![Model::new("glm-ocr:q8_0", &["completion", "vision"])], move |_| says.clone())
}

fn pier_hit(answer: &Value) -> Value {
    let hits = answer["hits"].as_array().unwrap();
    hits.iter().find(|it| it["path"] == PIER).unwrap_or_else(|| panic!("{answer:#}")).clone()
}

/// Asks the question and returns the warnings of the answer.
fn warnings_of(world: &World) -> String {
    world.json(&["ask", QUESTION])["warnings"].to_string()
}

#[test]
fn picture_is_described_once_then_found_in_index() {
    let server = vision_server(Reply::Text(DESCRIPTION.into()));
    let world = world_with_ollama(&server, &[]);
    let first = pier_hit(&world.json(&["ask", QUESTION]));
    assert_eq!((&first["tier"], &first["metadata"]["chunk_tier"]), (&json!("L2"), &json!("L2")), "{first:#}");
    assert!(first["excerpt"].as_str().unwrap().contains("two herons"), "{first:#}");
    let chats = server.requests_at("/api/chat");
    for chat in &chats {
        let shown = ollama_server::images(&chat.body);
        assert_eq!(shown.len(), 1, "each request must have one image");
        let picture = image::load_from_memory(&shown[0]).unwrap();
        assert!(picture.width().max(picture.height()) <= 1_600);
    }
    assert_eq!(chats[0].body["model"], "glm-ocr:q8_0");
    assert!(!chats[0].body.to_string().contains("pier"), "the prompt must not contain the question");

    let second = pier_hit(&world.json(&["ask", QUESTION]));
    assert_eq!((&second["tier"], &second["excerpt"]), (&json!("L1"), &first["excerpt"]), "{second:#}");
    assert_eq!(server.requests_at("/api/chat").len(), chats.len());
}

#[test]
fn openai_server_gets_pictures_as_data_urls() {
    let server = openai_server::start(&["talker", "eye"], |chat| match openai_server::pictures(chat).len() {
        0 => "no plan, no answer".into(),
        _ => DESCRIPTION.into(),
    });
    let world = world(&[
        ("VIC_LIBRARIAN_BACKEND", "openai"),
        ("VIC_OPENAI_BASE_URL", &server.address),
        ("VIC_OPENAI_MODEL", "talker"),
        ("VIC_OPENAI_VISION_MODEL", "eye"),
    ]);
    let hit = pier_hit(&world.json(&["ask", QUESTION]));
    assert_eq!(hit["tier"], "L2", "{hit:#}");
    let asked = server.requests_at("/v1/chat/completions");
    let shown: Vec<_> = asked.iter().filter(|it| it.body["model"] == "eye").collect();
    assert!(
        !shown.is_empty()
            && shown.iter().all(|it| openai_server::pictures(&it.body)[0].as_ref().unwrap().starts_with(&[0xff, 0xd8]))
    );
}

#[test]
fn missing_vision_model_is_a_warning_with_command() {
    // Finds a free port, on which no server listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let absent = world(&[("VIC_OLLAMA_BASE_URL", &format!("http://{free}"))]);
    let said = warnings_of(&absent);
    assert!(said.contains("run `ollama serve`"), "{said}");

    let server = ollama_server::start(vec![Model::new("blind", &["completion"])], |_| Reply::Closes);
    let said = warnings_of(&world_with_ollama(&server, &[]));
    assert!(said.contains("run `ollama pull glm-ocr:q8_0`"), "{said}");
    let said = warnings_of(&world_with_ollama(&server, &[("VIC_OLLAMA_VISION_MODEL", "blind")]));
    assert!(said.contains("does not support vision"), "{said}");
}

#[test]
fn failing_model_is_a_warning_and_is_retried() {
    for (says, expected) in [
        (Reply::Broken("model runner has unexpectedly stopped"), "unexpectedly stopped"),
        (Reply::HalfALine, "broke off"),
        (Reply::Closes, "cannot reach"),
        (Reply::Nonsense, "no usable answer"),
        (Reply::Busy, "server busy"),
    ] {
        let server = vision_server(says.clone());
        let world = world_with_ollama(&server, &[]);
        let said = warnings_of(&world);
        assert!(said.contains(expected), "{says:?}: {said}");
        let tries = server.requests_at("/api/chat").len();
        warnings_of(&world);
        assert_eq!(server.requests_at("/api/chat").len(), 2 * tries, "{says:?}: a failure must not be cached");
    }
}

#[test]
fn picture_above_size_limit_is_not_sent() {
    let server = vision_server(Reply::Text(DESCRIPTION.into()));
    let said = warnings_of(&world_with_ollama(&server, &[("VIC_L2_MAX_IMAGE_BYTES", "1000")]));
    assert!(said.contains("larger than VIC_L2_MAX_IMAGE_BYTES (1000)") && said.contains(PIER), "{said}");
    assert!(server.requests_at("/api/chat").is_empty());
}

#[test]
fn remote_vision_model_gets_no_picture_in_local_only() {
    let cloud =
        Model { remote_host: Some("https://ollama.com:443"), ..Model::new("glm-ocr:q8_0", &["completion", "vision"]) };
    let server = ollama_server::start(vec![cloud], |_| Reply::Text(DESCRIPTION.into()));
    let said = warnings_of(&world_with_ollama(&server, &[]));
    assert!(said.contains("forbids") && said.contains("ollama.com"), "{said}");
    assert!(server.requests_at("/api/chat").is_empty());
}
