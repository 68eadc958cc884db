//! Tests search results: conditions on words and files, duplicates, files without text, grep lines, similar files.

use vic::client::Client;
use vic::config::Config;
use vic::model::{AskEvent, AskRequest, GrepRequest, GrepResponse, SimilarRequest};

use crate::support::harness::World;
use crate::support::http_client::post;

/// Starts a daemon and indexes these files.
fn indexed_world(files: &[(&str, &str)]) -> World {
    let world = World::new().with("VIC_WATCH", "0").start();
    for (path, text) in files {
        world.write(path, text);
    }
    world.index();
    world
}

/// Connects a typed client to the daemon of the test and runs `work` with it.
fn with_client<T>(world: &World, work: impl AsyncFnOnce(Client) -> T) -> T {
    let data = world.data();
    let lookup = move |name: &str| (name == "VIC_DATA_DIR").then(|| data.clone().into_os_string());
    let config = Config::from_lookup(&lookup).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { work(Client::connect(&config).await.unwrap()).await })
}

const NOTES: &[(&str, &str)] = &[
    ("jelly.md", "Quince jelly: boil the quinces, strain them, add sugar."),
    ("words.md", "A jelly made of one quince and many apples."),
    ("draft.md", "A draft about jelly and quince, not finished."),
    ("ferry.md", "The ferry to the island leaves at nine."),
];

#[test]
fn phrase_and_plus_minus_operators_filter_files() {
    let world = indexed_world(NOTES);
    assert_eq!(world.paths(&["\"quince jelly\""]), ["jelly.md"]);
    assert_eq!(world.paths(&["jelly +island"]), ["ferry.md"]);
    assert_eq!(world.paths(&["jelly +nowhere"]), Vec::<String>::new());
    let mut found = world.paths(&["quince -draft -ferry"]);
    found.sort();
    assert_eq!(found, ["jelly.md", "words.md"]);
    let reasoning = world.json(&["ask", "\"quince jelly\""])["hits"][0]["reasoning"].to_string();
    assert!(reasoning.contains("holds \\\"quince jelly\\\""), "{reasoning}");
}

#[test]
fn narrow_filter_returns_all_files_despite_a_long_one() {
    let world = World::new().with("VIC_WATCH", "0").start();
    let chapter = |number: usize| format!("## Chapter {number}\n\nThe harbour, the quay and ship number {number}.\n\n");
    world.write("wanted/book.md", (0..2_000).map(chapter).collect::<String>());
    for number in 0..4 {
        world.write(&format!("wanted/note{number}.md"), format!("Recipe {number}: flour, butter and eggs."));
    }
    for number in 0..30 {
        world.write(&format!("other/ship{number}.md"), format!("Ship number {number} lies at the quay."));
    }
    world.index();
    let mut found = world.paths(&["ships at the quay path:wanted"]);
    assert_eq!(found.first().map(String::as_str), Some("wanted/book.md"));
    found.sort();
    assert_eq!(found.len(), 5, "{found:?}");
}

#[test]
fn duplicates_are_collapsed_and_listed() {
    let text =
        "The lighthouse keeper writes the log every evening at eight and sends it to the harbour office by post.";
    let mut files: Vec<(String, String)> =
        (0..12).map(|number| (format!("copies/log{number}.md"), text.to_string())).collect();
    files.push(("report.md".into(), "A report on the lighthouse: its log is complete.".into()));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let world = indexed_world(&files);
    let answer = world.json(&["ask", "who writes the log every evening for the harbour office", "--limit", "3"]);
    let paths: Vec<&str> = answer["hits"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert!(paths[0].starts_with("copies/") && paths[1] == "report.md", "{paths:?}");
    assert_eq!(answer["hits"][0]["metadata"]["copies"].as_array().unwrap().len(), 11);
}

#[test]
fn files_without_text_rank_last_as_l0() {
    let world = indexed_world(&[
        ("a/plan.md", "The plan of the garden."),
        ("a/garden.bin", "\0\u{1}\u{2}\0"),
        ("b/x.md", "garden"),
    ]);
    let answer = world.json(&["ask", "garden path:a"]);
    let hits = answer["hits"].as_array().unwrap();
    assert_eq!((hits[0]["path"].as_str(), hits[1]["path"].as_str()), (Some("a/plan.md"), Some("a/garden.bin")));
    assert_eq!((hits[1]["tier"].as_str(), hits.len()), (Some("L0"), 2));
}

#[test]
fn metadata_question_lists_and_counts_files() {
    let world = indexed_world(NOTES);
    let answer = world.json(&["ask", "ext:md", "--limit", "3"]);
    assert_eq!(answer["answer_summary"], "4 files match; the newest 3 are listed.");
    assert_eq!(answer["stats"]["hits_by_tier"]["L0"], 3);
    assert_eq!(answer["query_plan"]["intent"], "list");
}

#[test]
fn date_filter_means_local_midnight_in_every_api() {
    // Date filters must use local time: in Tokyo (UTC+9), a file from the first half hour of the year has the old year in
    // UTC.
    let world = World::new().with("TZ", "JST-9").with("VIC_WATCH", "0").start();
    for (name, moment) in [("old.md", "2024-12-31T14:30:00Z"), ("new.md", "2024-12-31T15:30:00Z")] {
        let file = std::fs::File::options().write(true).open(world.write(name, "quince jelly")).unwrap();
        file.set_modified(chrono::DateTime::parse_from_rfc3339(moment).unwrap().to_utc().into()).unwrap();
    }
    world.index();
    let names = |answer: serde_json::Value, list: &str| -> Vec<String> {
        answer[list]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["path"].as_str().unwrap().rsplit('/').next().unwrap().into())
            .collect()
    };
    let filters = serde_json::json!({"modified_after": "2025-01-01"});
    let found = [
        names(world.json(&["files", "--after", "2025-01-01"]), "files"),
        names(world.json(&["ask", "quince", "--after", "2025-01-01"]), "hits"),
        names(world.json(&["ask", "quince after:2025-01-01"]), "hits"),
        names(post(&world, "/v1/files", &serde_json::json!({"filters": filters})).json(), "files"),
        names(post(&world, "/v1/ask", &serde_json::json!({"query": "quince", "filters": filters})).json(), "hits"),
    ];
    assert!(found.iter().all(|it| *it == ["new.md"]), "{found:?}");
}

#[test]
fn unanswered_question_is_reported_as_nothing_found() {
    let world = indexed_world(NOTES);
    let nothing = "Nothing in the indexed files answers this";
    for question in ["chromodynamics of unladen swallows", "jelly +nowhere"] {
        let summary = world.json(&["ask", question])["answer_summary"].to_string();
        assert!(summary.contains(nothing), "{question}: {summary}");
    }
    let summary = world.json(&["ask", "when does the ferry leave"])["answer_summary"].to_string();
    assert!(summary.contains("leaves at nine") && summary.contains("ferry.md"), "{summary}");
}

#[test]
fn citation_of_changed_file_is_dropped_with_warning() {
    let world = indexed_world(NOTES);
    world.write("ferry.md", "The ferry to the island does not run any more.");
    let answer = world.json(&["ask", "when does the ferry leave"]);
    assert!(!answer["answer_summary"].to_string().contains("nine"), "{answer:#}");
    assert!(answer["warnings"].to_string().contains("citations were left out"), "{answer:#}");
}

#[test]
fn grep_returns_whole_lines_with_line_numbers() {
    let world = indexed_world(&[("log.txt", "first line\nthe Quince is ripe\nlast"), ("page.html", "<p>a quince</p>")]);
    let grep = |pattern: &str, ignore_case: bool| -> GrepResponse {
        let request = GrepRequest { pattern: pattern.into(), ignore_case, ..GrepRequest::default() };
        with_client(&world, async |client| client.grep(request).await.unwrap())
    };
    let response = grep("quince is r[a-z]+", true);
    let hit = &response.matches[0];
    assert_eq!(
        (hit.path.as_str(), hit.anchor.line_start, hit.line.as_str()),
        ("log.txt", Some(2), "the Quince is ripe")
    );
    assert_eq!(&hit.line[hit.start as usize..hit.end as usize], "Quince is ripe");
    assert_eq!(grep("quince", false).matches.len(), 1);
    assert_eq!(grep("quince", true).matches.len(), 2);
    assert_eq!((response.files_searched, response.truncated), (2, false));
}

#[test]
fn similar_files_share_the_topic() {
    let world = indexed_world(NOTES);
    let path = world.files().join("jelly.md").display().to_string();
    let request = SimilarRequest { path, limit: Some(2), ..SimilarRequest::default() };
    let response = with_client(&world, async |client| client.similar(request).await.unwrap());
    let paths: Vec<&str> = response.hits.iter().map(|it| it.path.as_str()).collect();
    assert!(!paths.contains(&"jelly.md") && !paths.contains(&"ferry.md") && paths.len() == 2, "{paths:?}");
}

#[test]
fn streamed_answer_ends_with_complete_answer() {
    use futures::StreamExt;
    let world = indexed_world(NOTES);
    let request = AskRequest { query: "when does the ferry leave".into(), ..AskRequest::default() };
    let events: Vec<AskEvent> = with_client(&world, async |client| {
        client.ask_stream(request).await.unwrap().map(Result::unwrap).collect::<Vec<_>>().await
    });
    assert!(matches!(events.first(), Some(AskEvent::Plan(_))) && matches!(events.get(1), Some(AskEvent::Hits(_))));
    let text: String =
        events.iter().filter_map(|it| if let AskEvent::Text(text) = it { Some(text.as_str()) } else { None }).collect();
    let Some(AskEvent::Done(answer)) = events.last() else { panic!("{events:?}") };
    assert_eq!(answer.answer_summary.as_deref(), Some(text.as_str()));
}
