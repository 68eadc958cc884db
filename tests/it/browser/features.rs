//! Tests of what the page does, feature by feature.

use serde_json::json;

use crate::support::browser::{Browser, Window, key};
use crate::support::harness::{World, sample_dir};

/// Returns a daemon with the sample files, and a browser that is logged in; `None` without a browser.
fn sample_page() -> Option<(World, Browser)> {
    let world = World::new().start();
    world.ok(&["index", &sample_dir().display().to_string()]);
    let browser = Browser::start(Window::default())?;
    browser.log_in(&world);
    Some((world, browser))
}

#[test]
fn typed_words_and_whole_question_find_the_passage() {
    let Some((_world, browser)) = sample_page() else { return };
    // Words are found while they are typed, also the one that is not complete yet.
    browser.type_search("spare ke");
    browser.wait_for_text("#results", "note.md");
    browser.wait_until("typed words are marked", |it| it.texts("#results mark").iter().any(|it| it == "spare"));
    browser.type_search("Who keeps the spare key of the Cinder Bay hut?");
    browser.press(key::ENTER);
    browser.wait_for(".answer");
    browser.wait_for_text(".answer", "Oswin Tarrant");
    browser.wait_for_text(".answer", "found in the file");
    assert!(browser.address().contains("q=Who"), "{}", browser.address());
    // A quote leads to its place in the file.
    browser.click(".quote-button");
    browser.wait_for_text("#preview", "opposite the church");
    browser.wait_for("#preview mark");
    browser.script("history.back();", Vec::new());
    browser.wait_until("the search before is back", |it| !it.has(".answer"));
    assert_eq!(browser.foreign_requests(), Vec::<String>::new());
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
fn pdf_page_is_shown_with_frames_around_the_words() {
    let Some((_world, browser)) = sample_page() else { return };
    browser.type_search("period of notice lease ext:pdf");
    browser.press(key::ENTER);
    browser.wait_for_text("#results [role=option]", "lease-unit-4");
    browser.press(key::DOWN);
    browser.press(key::UP);
    browser.wait_for(".page-picture img");
    browser.wait_until("the picture is loaded", |it| {
        it.script("return document.querySelector('.page-picture img')?.naturalWidth > 100;", Vec::new()) == json!(true)
    });
    browser.wait_for(".page-picture .frame");
}
