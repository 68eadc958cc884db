//! Tests that names and texts of files cannot act in the page: markup, scripts, control characters, overlong names.

use crate::support::browser::{Browser, Window, key};
use crate::support::harness::World;

/// Names of files that would act if the page took them for markup, and what must still be seen of each.
const NAMES: &[&str] = &[
    "<img src=x onerror=alert(1)>.md",
    "<script>alert(2)<\\script>.md",
    "\"><svg onload=alert(3)>.md",
    "&lt;b&gt;bold.md",
    "javascript:alert(4).md",
    "report\u{202e}fdp.md",
    "line\nbreak.md",
    "${7*7} {{7*7}} .md",
    "'; DROP TABLE files; --.md",
];

const TEXT: &str = "harbour <img src=x onerror=\"window.hacked=1\"> <script>window.hacked=2</script>\n\
    <a href=\"javascript:window.hacked=3\">harbour</a> \u{202e}desrever\u{202c} \u{0} \u{1b}[31m harbour\n\
    [link](javascript:window.hacked=4) ![x](https://evil.example/x.png)\n";

#[test]
fn hostile_names_and_texts_are_shown_as_text() {
    let world = World::new().start();
    for name in NAMES {
        world.write(name, TEXT);
    }
    world.write(&format!("{}.md", "very-long-name-".repeat(16)), TEXT);
    world.write("page.html", format!("<html><body onload=\"window.hacked=5\">{TEXT}</body></html>"));
    world.write(
        "picture.svg",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"window.hacked=6\"><text>harbour</text></svg>",
    );
    world.write("mail.eml", format!("From: \"<img src=x onerror=window.hacked=7>\" <a@b.c>\nSubject: <script>harbour</script>\nContent-Type: text/html\n\n{TEXT}"));
    world.write("table.csv", "harbour,<img src=x onerror=window.hacked=8>\n=cmd|' /C calc'!A0,2\n");
    world.index();
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    browser.type_search("harbour");
    browser.press(key::ENTER);
    browser.wait_for("#results [role=option]");
    let shown = browser.texts("#results [role=option]").len();
    assert!(shown >= 8, "{shown}");
    // Rows that are scrolled away leave the document, so the names are collected on the way.
    let mut names = Vec::new();
    for _ in 0..shown {
        browser.press(key::DOWN);
        browser.wait_for("#preview");
        std::thread::sleep(std::time::Duration::from_millis(120));
        names.extend(browser.texts("#results .hit-name"));
    }
    assert!(names.iter().any(|it| it == "<img src=x onerror=alert(1)>.md"), "{names:?}");
    let intruders = browser.script(
        "return [window.hacked ?? null, document.querySelectorAll('#app img:not([src^=\"blob:\"]), #app script, \
         #app iframe, #app object, #app a[href^=\"javascript\"]').length, \
         document.documentElement.scrollWidth > innerWidth];",
        Vec::new(),
    );
    assert_eq!(intruders, serde_json::json!([null, 0, false]));
    assert_eq!(browser.foreign_requests(), Vec::<String>::new());
    let console = browser.console();
    assert!(
        !console.iter().any(|it| it.contains("Content Security Policy") || it.contains("TrustedHTML")),
        "{console:?}"
    );
}
