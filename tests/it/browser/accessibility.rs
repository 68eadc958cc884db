//! Tests of the page by the rules of WCAG 2.2 AA that axe-core checks, and by keyboard alone.

use serde_json::Value;

use crate::support::browser::{Browser, Window, key};
use crate::support::harness::{World, sample_dir};

/// Returns a daemon with the sample files.
fn sample_world() -> World {
    let world = World::new().start();
    world.ok(&["index", &sample_dir().display().to_string()]);
    world
}

/// Checks every view of the page, and some states of the search.
fn check_all_views(world: &World, window: Window) {
    let Some(browser) = Browser::start(window) else { return };
    browser.log_in(world);
    let own = format!("http://{}", world.listen());
    let views = [
        "/ui/",
        "/ui/?q=notice%20lease",
        "/ui/?q=budget&ext=xlsx",
        "/ui/?ext=md",
        "/ui/status",
        "/ui/setup",
        "/ui/settings",
        "/ui/graph?entity=lease-unit-4-tanners-quay.pdf",
        "/ui/corpus",
    ];
    for view in views {
        browser.open(&format!("{own}{view}"));
        browser.wait_for("main h1");
        std::thread::sleep(std::time::Duration::from_millis(1_200));
        let Some(violations) = browser.accessibility_violations() else { return };
        assert!(violations.is_empty(), "{view} {window:?}:\n{}", violations.join("\n"));
        let is_wide = browser.script("return document.documentElement.scrollWidth > innerWidth + 1;", Vec::new());
        assert_eq!(is_wide, false, "{view} scrolls sideways in {window:?}");
        assert_eq!(browser.foreign_requests(), Vec::<String>::new(), "{view}");
    }
}

#[test]
fn views_follow_accessibility_rules() {
    check_all_views(&sample_world(), Window::default());
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn views_follow_accessibility_rules_in_the_dark_on_phones_and_in_german() {
    let world = sample_world();
    check_all_views(&world, Window { dark: true, ..Window::default() });
    check_all_views(&world, Window { width: 500, height: 800, language: "de-DE", ..Window::default() });
    // Twice the size of everything is half the width.
    check_all_views(&world, Window { width: 640, height: 400, ..Window::default() });
}

#[test]
fn search_works_by_keyboard_alone() {
    let world = sample_world();
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    browser.script("document.activeElement.blur();", Vec::new());
    browser.press("/");
    browser.wait_until("the search box has the focus", |it| focused_id(it) == "search-box");
    browser.press("notice lease");
    browser.wait_for("#results [role=option]");
    browser.press(key::ENTER);
    browser.wait_for(".answer");
    browser.press(key::DOWN);
    browser.press(key::DOWN);
    browser.press(key::UP);
    browser.wait_for("[role=option][aria-selected=true]");
    browser.press(key::ENTER);
    browser.wait_until("the preview has the focus", |it| focused_id(it) == "preview");
    browser.wait_for("#preview mark, #preview .frame");
    let first = browser.text(".match-count");
    browser.press("n");
    browser.wait_until("the next match is counted", |it| it.text(".match-count") != first || first.contains("of 1"));
    browser.press(key::ESCAPE);
    browser.wait_until("the preview is closed, and the list has the focus", is_list_focused);
    browser.press(" ");
    browser.wait_for("#preview");
    browser.press("?");
    browser.wait_for("dialog[open]");
    browser.press(key::ESCAPE);
    browser.wait_until("the list has the focus again", |it| !it.has("dialog[open]") && focused_id(it) == "results");
    browser.press(key::ESCAPE);
    browser.wait_until("Esc closes the preview from the list", is_list_focused);
    browser.press(" ");
    browser.wait_for("#preview");
    browser.script("document.activeElement.blur();", Vec::new());
    browser.press(key::ESCAPE);
    browser.wait_until("Esc closes the preview from anywhere", is_list_focused);
    browser.press(key::ESCAPE);
    browser.wait_until("Esc leads back to the search box", |it| focused_id(it) == "search-box");
}

/// Returns the id of the element that has the focus.
fn focused_id(browser: &Browser) -> Value {
    browser.script("return document.activeElement.id;", Vec::new())
}

/// Returns whether the list has the focus and the preview is closed.
fn is_list_focused(browser: &Browser) -> bool {
    !browser.has("#preview") && focused_id(browser) == "results"
}

/// Moves the focus forward to the control with this text or accessible name, as a person without a mouse does.
fn tab_to(browser: &Browser, name: &str) {
    let focused = "const it = document.activeElement; return it.getAttribute('aria-label') ?? it.innerText.trim();";
    for _ in 0..200 {
        browser.press(key::TAB);
        if browser.script(focused, Vec::new()) == name {
            return;
        }
    }
    panic!("Tab does not reach `{name}`:\n{}", browser.text("body"));
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn other_views_work_by_keyboard_alone() {
    let world = sample_world();
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    let follow = |name: &str| {
        tab_to(&browser, name);
        browser.press(key::ENTER);
    };
    follow("Status");
    browser.wait_for_text("main", "files can be searched");
    follow("Pause");
    browser.wait_for_text("main", "Reading files is paused");
    follow("Resume");
    browser.wait_until("it goes on", |it| !it.text("main").contains("Reading files is paused"));
    browser.press("/");
    browser.wait_for("#search-box:focus");
    browser.press("credit note housings ext:eml");
    browser.press(key::ENTER);
    browser.wait_for("#preview");
    follow("In the graph");
    browser.wait_for(".graph-layout");
    // Arrow keys go from tab to tab.
    tab_to(&browser, "Drawing");
    browser.press(key::RIGHT);
    browser.wait_for_text("main table", "links_to");
    follow("Settings");
    browser.wait_for_text("main", "Folders");
    follow("Keys");
    browser.wait_for_text("main", "There are no keys");
    follow("Corpus");
    browser.wait_for_text("main", "EXPLAIN_FAILURE");
}
