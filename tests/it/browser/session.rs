//! Tests of the sessions of the page in a browser: how they begin and end, and what happens while the daemon is away.

use crate::support::browser::{Browser, Window, key};
use crate::support::harness::World;

#[test]
fn page_is_useless_without_a_session() {
    let world = World::new().start();
    let Some(browser) = Browser::start(Window::default()) else { return };
    let host = world.listen();
    browser.open(&format!("http://{host}/ui/"));
    browser.wait_for("input[type=password]");
    assert!(browser.text("main").contains("vic ui"));
    browser.open(&format!("http://{host}/ui/#code=wrong"));
    browser.wait_for_text("main", "the code is not valid");
    // The session is a cookie that scripts cannot read; its token is stored for the other pages of this origin.
    browser.log_in(&world);
    assert_eq!(browser.script("return document.cookie;", Vec::new()), "");
    let stored = browser.script("return [Object.keys(localStorage), Object.keys(sessionStorage)];", Vec::new());
    assert_eq!(stored, serde_json::json!([["vic-session-token"], []]));
    // Scripts of the page cannot be framed, and another origin on this machine gets nothing.
    let script = "const done = arguments[0]; const frame = document.createElement('iframe');
        frame.onload = () => { try { done(frame.contentDocument?.body?.innerText ?? 'blocked'); } catch { done('blocked'); } };
        frame.src = location.href; document.body.append(frame);";
    let framed = browser.script_async(script);
    assert!(framed == "blocked" || framed == "", "{framed}");
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn code_that_was_used_opens_nothing_in_another_browser() {
    let world = World::new().start();
    let Some(first) = Browser::start(Window::default()) else { return };
    let address = world.ok(&["ui", "--print"]);
    first.open(address.trim());
    first.wait_for("#search-box");
    let second = Browser::start(Window::default()).unwrap();
    second.open(address.trim());
    second.wait_for_text("main", "the code is not valid");
    second.wait_for("input[type=password]");
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn session_of_a_revoked_key_ends() {
    let world = World::new().start();
    world.write("plan.md", "the harbour plan");
    world.index();
    let folder = world.files().display().to_string();
    let key = world.ok(&["keys", "add", "ada", "--root", &folder]);
    let key = key.split_whitespace().find(|it| it.len() == 43).unwrap_or_else(|| panic!("{key}"));
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.open(&format!("http://{}/ui/", world.listen()));
    browser.click("input[type=password]");
    browser.press(key);
    browser.press(key::ENTER);
    browser.wait_for_text("header", "ada");
    browser.type_search("harbour");
    browser.wait_for_text("#results", "plan.md");
    world.ok(&["keys", "revoke", "ada"]);
    browser.press("s");
    browser.wait_for("dialog input[type=password]");
}

#[test]
fn ended_session_keeps_the_search_until_the_next_login() {
    let world = World::new().start();
    world.write("plan.md", "the harbour plan");
    world.index();
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    browser.type_search("harbour");
    browser.wait_for_text("#results", "plan.md");
    world.ok(&["ui", "--end"]);
    browser.press("s");
    browser.wait_for("dialog input[type=password]");
    let key = crate::support::http_client::key(&world);
    browser.click("dialog input[type=password]");
    browser.press(&key);
    browser.press(key::ENTER);
    browser.wait_until("the dialog closes", |it| !it.has("dialog[open]"));
    assert_eq!(browser.script("return document.getElementById('search-box').value;", Vec::new()), "harbours");
    browser.wait_for_text("#results", "plan.md");
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn page_goes_on_when_the_daemon_is_back() {
    let mut world = World::new().with("VIC_LISTEN", "127.0.0.1:18790").start();
    world.write("plan.md", "the harbour plan");
    world.index();
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    world.kill();
    browser.type_search("harbour");
    browser.wait_for_text("body", "vicd does not answer");
    world.spawn_and_wait();
    // Sessions end with the daemon: the page asks for a login, and what was typed is still there.
    browser.wait_for("dialog input[type=password]");
    browser.wait_until("the banner goes", |it| !it.text("body").contains("vicd does not answer"));
    browser.click("dialog input[type=password]");
    browser.press(&crate::support::http_client::key(&world));
    browser.press(key::ENTER);
    browser.wait_for_text("#results", "plan.md");
}
