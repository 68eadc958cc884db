//! Tests of what the page does when something comes in its way: a file that vanished, a preview that cannot be made, a
//! setting that another page changed, a thousand results that arrive while a person types.

use serde_json::json;

use crate::support::browser::{Browser, Window, key};
use crate::support::harness::World;
use crate::support::http_client;

#[test]
#[ignore = "long form: `make test-browser`"]
fn file_that_vanished_after_the_search_is_reported() {
    let world = World::new().start();
    world.write("plan.md", "the harbour plan");
    let vanishing = world.write("old.md", "the harbour harbour harbour of the past");
    world.index();
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    browser.ask("name:plan harbour");
    browser.wait_for_text("#preview", "the harbour plan");
    // The page opens a file of a list that is no longer true.
    std::fs::remove_file(&vanishing).unwrap();
    let script = "history.pushState(null, '', '/ui/?q=harbour&file=' + encodeURIComponent(arguments[0])); dispatchEvent(new PopStateEvent('popstate'));";
    browser.script(script, vec![json!(vanishing)]);
    browser.wait_for_text("#preview", "no longer there");
    browser.wait_for_text("#results", "plan.md");
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn preview_that_cannot_be_made_says_why() {
    let world = World::new().start();
    world.write("broken.pdf", "%PDF-1.7\nthis is no document\n");
    world.write("plan.md", "the harbour plan");
    world.index();
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    browser.ask("name:broken.pdf");
    browser.press(key::DOWN);
    browser.wait_for("#preview .message");
    assert!(browser.console().iter().all(|it| !it.contains("Uncaught")), "{:?}", browser.console());
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn setting_that_another_page_changed_is_not_overwritten() {
    let world = World::new().start();
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    let origin = browser.address().split("/ui").next().unwrap().to_string();
    browser.open(&format!("{origin}/ui/settings?section=limits"));
    browser.wait_for_text("main", "workers");
    let script =
        "[...document.querySelectorAll('.setting')].find((it) => it.querySelector('code').innerText === 'workers')
        .querySelector('button').click();";
    browser.script(script, Vec::new());
    let change = json!({"key": "workers", "value": "3"});
    assert_eq!(http_client::post(&world, "/v1/settings", &change).status, 200);
    browser.click("input[aria-label=workers]");
    browser.script("document.querySelector('input[aria-label=workers]').select();", Vec::new());
    browser.press("2");
    browser.press(key::ENTER);
    browser.wait_for_text("main", "changed elsewhere");
    let file = || std::fs::read_to_string(world.data().join("config.toml")).unwrap();
    assert!(file().contains('3'), "{}", file());
    browser.click_named("Save mine");
    browser.wait_until("the value is saved", |_| file().contains("workers = \"2\"") || file().contains("workers = 2"));
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn thousand_results_that_arrive_while_typing_lose_nothing() {
    let world = World::new().start();
    for number in 0..1_100 {
        world.write(&format!("note-{number}.md"), format!("the harbour plan of berth{number}"));
    }
    world.index();
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    browser.type_search("harbour");
    browser.wait_until("many files are found", |it| it.texts("#results [role=option]").len() > 5);
    // The list scrolls on to its end, and loads it, while the next words are typed.
    browser.script(
        "const list = document.querySelector('.virtual-scroller');
         window.scrolling = setInterval(() => { list.scrollTop = list.scrollHeight; }, 20);",
        Vec::new(),
    );
    browser.wait_until("a thousand files are loaded", |it| it.text(".result-count").contains("1,000"));
    browser.press(" berth");
    browser.press("777");
    browser.script("clearInterval(window.scrolling);", Vec::new());
    let typed = browser.script("return document.getElementById('search-box').value;", Vec::new());
    assert_eq!(typed, "harbour berth777");
    browser.wait_for_text("#results [role=option]", "note-777.md");
    browser.wait_until("the address follows", |it| it.address().contains("berth777"));
    browser.press(key::ENTER);
    browser.wait_for_text("#preview", "berth777");
}
