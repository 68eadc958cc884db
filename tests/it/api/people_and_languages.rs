//! Tests of filters by language and author over HTTP and the command line, and of results in parts.

use serde_json::{Value, json};

use crate::support::harness::World;
use crate::support::http_client::post;

const MAIL: &str = "From: Zo\u{eb} Lane <zoe@example.org>\r\nTo: ben@example.org\r\nSubject: The mooring\r\n\
                    Date: Mon, 02 Mar 2026 10:00:00 +0000\r\n\r\nThe mooring is paid until the end of the year.\r\n";
const GERMAN: &str = "Der Liegeplatz ist bis zum Ende des Jahres bezahlt. Die Rechnung wurde nicht an uns geschickt, und \
                      das ist der Grund, warum wir sie noch suchen. Mooring heisst auf Deutsch Liegeplatz.";
const ENGLISH: &str = "The mooring of the second boat is not paid, and we do not know who will pay for it this year.";

/// Makes a folder with an English mail, a German note and an English note, and indexes it.
fn world() -> World {
    let world = World::new().start();
    world.write("mail/mooring.eml", MAIL);
    world.write("notes/liegeplatz.md", GERMAN);
    world.write("notes/second-boat.md", ENGLISH);
    world.index();
    world
}

fn names(answer: &Value) -> Vec<String> {
    let mut names: Vec<String> = answer["hits"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"))
        .iter()
        .map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn language_and_author_filter_questions_lists_and_counts() {
    let world = world();
    let search = |body: Value| names(&post(&world, "/v1/search", &body).json());
    assert_eq!(search(json!({"query": "mooring lang:de"})), ["liegeplatz.md"]);
    assert_eq!(search(json!({"query": "mooring", "filters": {"language": "en"}})), ["mooring.eml", "second-boat.md"]);
    for author in ["from:zoe", "author:\"Zo\u{eb} Lane\"", "from:zoe@example.org"] {
        assert_eq!(search(json!({"query": format!("mooring {author}")})), ["mooring.eml"], "{author}");
    }
    assert!(search(json!({"query": "mooring author:ben"})).is_empty(), "a recipient is no author");
    let refused = post(&world, "/v1/search", &json!({"query": "x", "filters": {"language": "klingon"}}));
    assert_eq!((refused.status, refused.body.contains("klingon")), (400, true), "{}", refused.body);

    let listed = world.ok(&["files", "--language", "de", "--format", "json"]);
    assert!(listed.contains("liegeplatz.md") && !listed.contains("second-boat.md"), "{listed}");
    let listed = world.ok(&["files", "--author", "zoe", "--format", "json"]);
    assert!(listed.contains("mooring.eml") && !listed.contains("liegeplatz.md"), "{listed}");

    let counts = post(&world, "/v1/counts", &json!({"query": "mooring"})).json();
    let group = |name: &str| counts["groups"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
    let person = json!([{"label": "Zo\u{eb} Lane", "value": "Zo\u{eb} Lane", "count": 1}]);
    assert_eq!(group("person")["values"], person, "{counts}");
    let languages: Vec<_> =
        group("language")["values"].as_array().unwrap().iter().map(|it| it["value"].clone()).collect();
    assert_eq!(languages, ["en", "de"], "{counts}");
}

#[test]
fn rows_of_mails_have_subject_senders_and_dates() {
    let world = world();
    world.write("mail/two.mbox", format!("From a\r\n{MAIL}\r\nFrom b\r\n{}", MAIL.replace("02 Mar", "09 Mar")));
    world.index();
    let rows = post(&world, "/v1/files", &json!({})).json()["files"].clone();
    let mail_of = |name: &str| {
        rows.as_array().unwrap().iter().find(|it| it["path"].as_str().unwrap().ends_with(name)).unwrap()["mail"].clone()
    };
    let expected = json!({
        "subject": "The mooring", "senders": ["Zo\u{eb} Lane <zoe@example.org>"],
        "first_sent": "2026-03-02T10:00:00Z", "last_sent": "2026-03-02T10:00:00Z",
    });
    assert_eq!(mail_of("mooring.eml"), expected);
    let mailbox = mail_of("two.mbox");
    assert_eq!((&mailbox["subject"], &mailbox["last_sent"]), (&Value::Null, &json!("2026-03-09T10:00:00Z")));
    assert_eq!(mail_of("second-boat.md"), Value::Null);
}

#[test]
fn dates_of_mails_are_those_on_which_they_were_sent() {
    let world = world();
    let sent = json!({"extensions": [".eml"], "modified_after": "2026-03-01", "modified_before": "2026-03-04"});
    for (path, request) in [
        ("/v1/files", json!({"filters": sent})),
        ("/v1/counts", json!({"filters": sent})),
        ("/v1/counts", json!({"query": "mooring", "filters": sent})),
    ] {
        assert_eq!(post(&world, path, &request).json()["total"], 1, "{path} {request}");
    }
    let months = post(&world, "/v1/counts", &json!({"filters": {"extensions": [".eml"]}})).json()["groups"].clone();
    let dates = months.as_array().unwrap().iter().find(|it| it["name"] == "date").unwrap();
    assert_eq!(dates["values"][0]["label"], "2026-03", "{dates}");
    let all = json!({"filters": {"modified_after": "2026-03-01", "modified_before": "2026-03-04"}});
    assert_eq!(post(&world, "/v1/files", &all).json()["total"], 0, "the files were changed later");
}

#[test]
fn plain_words_set_no_filter() {
    let world = world();
    for (plain, files) in [(false, 1), (true, 3)] {
        let request = json!({"query": "emails about the mooring", "plain_words": plain});
        assert_eq!(names(&post(&world, "/v1/search", &request).json()).len(), files, "{plain}");
        assert_eq!(post(&world, "/v1/counts", &request).json()["total"], files, "{plain}");
    }
}

#[test]
fn parts_of_a_ranking_lose_no_copies() {
    let world = World::new().start();
    let copy = "The harbour master counts the boats in the harbour every morning before the first ferry leaves.";
    for number in 0..90 {
        let own = format!("harbour {} {}", "word ".repeat(number % 7), "boat ".repeat(number));
        world.write(&format!("note-{number}.md"), if number % 3 == 0 { copy } else { own.as_str() });
    }
    world.index();
    for parts in [vec![(50, 0), (150, 50)], (0..10).map(|it| (10, it * 10)).collect()] {
        let part = |(limit, offset): &(u32, u32)| {
            names(&post(&world, "/v1/search", &json!({"query": "harbour", "limit": limit, "offset": offset})).json())
        };
        let mut all: Vec<String> = parts.iter().flat_map(part).collect();
        assert_eq!(all.len(), 90, "{parts:?}");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 90, "{parts:?}");
    }
}

#[test]
fn parts_of_a_ranking_are_adjacent_and_complete() {
    let world = World::new().start();
    for number in 0..23 {
        world.write(&format!("note-{number}.md"), format!("harbour {}", "word ".repeat(number)));
    }
    world.index();
    for path in ["/v1/search", "/v1/ask"] {
        let part = |offset: u32| {
            let answer = post(&world, path, &json!({"query": "harbour", "limit": 10, "offset": offset})).json();
            assert!(offset == 0 || answer["answer"].is_null(), "{answer}");
            names(&answer)
        };
        let mut all = [part(0), part(10), part(20)].concat();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 23, "{path}: {all:?}");
        assert!(part(30).is_empty());
    }
    let whole = post(&world, "/v1/similar", &json!({"path": world.files().join("note-1.md"), "limit": 20})).json();
    let later =
        post(&world, "/v1/similar", &json!({"path": world.files().join("note-1.md"), "limit": 10, "offset": 10}));
    assert_eq!(later.json()["hits"].as_array().unwrap()[..], whole["hits"].as_array().unwrap()[10..]);
    let beyond = post(&world, "/v1/search", &json!({"query": "harbour", "limit": 1000, "offset": 1}));
    assert_eq!((beyond.status, beyond.body.contains("offset")), (400, true), "{}", beyond.body);
}
