//! The features that the page has, each tried in one browser over the sample files. `make test-browser` runs them.

use std::path::Path;

use serde_json::json;

use crate::support::browser::{Browser, Window, key};
use crate::support::harness::{World, sample_dir};

/// A browser that is logged in to a daemon with the sample files.
struct Page {
    world: World,
    browser: Browser,
    /// Scheme, host and port of the daemon.
    origin: String,
}

impl Page {
    /// Opens a view, and waits until it is there.
    fn open(&self, path: &str) {
        self.browser.open(&format!("{}{path}", self.origin));
        self.browser.wait_for("main h1");
    }

    /// Asks a question in the search view.
    fn ask(&self, query: &str) {
        self.open("/ui/");
        self.browser.ask(query);
    }

    /// Asks a question and opens the preview of the first hit.
    fn preview(&self, query: &str) {
        self.ask(query);
        self.browser.wait_for_preview_of_hit();
    }

    fn script(&self, script: &str) -> serde_json::Value {
        self.browser.script(script, Vec::new())
    }
}

type Feature = (&'static str, fn(&Page));

const FEATURES: [Feature; 25] = [
    ("words while typing, the whole question with Enter", typing_and_asking),
    ("questions and operators in one box, with completion", completion),
    ("filter chips with counts", filter_chips),
    ("why this hit", reasons),
    ("file, place, passage with marks, date, size", parts_of_a_hit),
    ("results by file, with more passages", more_passages),
    ("sort, similar, in this folder", sort_similar_folder),
    ("the address holds the search; history and saved searches", address_and_history),
    ("text with all marks, next and previous", text_with_marks),
    ("pages as pictures with frames", page_picture),
    ("cells of sheets, heads of mails, paths in archives", sheets_mails_archives),
    ("copy the path and a citation, open only documents", copy_and_open),
    ("an answer with checked quotes that lead to their place", answer_with_quotes),
    ("coverage with reasons down to the file, live", coverage),
    ("jobs with rate and end", jobs),
    ("pause and resume", pause),
    ("health with room, memory and model", health),
    ("first run: choose a folder, see words after seconds", first_run),
    ("graph around a file, as drawing and table", graph),
    ("folders and ignore rules with a dry run", folders),
    ("models with languages, size and cost", models),
    ("privacy mode and audit log", privacy),
    ("keys: add, scope, revoke", keys),
    ("keyboard alone, landmarks, live regions", landmarks),
    ("offline, without foreign requests", offline),
];

#[test]
#[ignore = "long form: `make test-browser`"]
fn all_features_work() {
    let world = World::new().start();
    std::fs::create_dir_all(world.data().with_file_name("home")).unwrap();
    world.ok(&["index", &sample_dir().display().to_string()]);
    let Some(browser) = Browser::start(Window::default()) else { return };
    browser.log_in(&world);
    let origin = format!("http://{}", world.listen());
    let page = Page { world, browser, origin };
    for (number, (name, check)) in FEATURES.iter().enumerate() {
        println!("feature {} of {}: {name}", number + 1, FEATURES.len());
        check(&page);
    }
}

fn typing_and_asking(page: &Page) {
    page.open("/ui/");
    page.browser.type_search("spare ke");
    page.browser.wait_for_text("#results", "note.md");
    assert!(!page.browser.has(".answer"));
    page.browser.press(key::ENTER);
    page.browser.wait_for(".answer");
}

fn completion(page: &Page) {
    page.open("/ui/");
    page.browser.type_search("lease ex");
    page.browser.wait_for_text("#completions", "ext:");
    page.browser.press(key::TAB);
    page.browser.press("pd");
    page.browser.wait_for_text("#completions", "pdf");
    page.browser.press(key::TAB);
    page.browser.press(key::ENTER);
    page.browser.wait_for_text("#results [role=option]", ".pdf");
    assert_eq!(page.script("return document.getElementById('search-box').value;"), "lease ext:pdf");
}

fn filter_chips(page: &Page) {
    page.ask("lease");
    page.browser.wait_for_text("aside, .facets", "Folder");
    page.browser.wait_for_text(".result-count", "with these words");
    page.browser.click_starting("PDF");
    page.browser.wait_until("the address has the filter", |it| it.address().contains("ext=pdf"));
    page.browser.wait_until("only PDFs are left", |it| it.texts(".hit-name").iter().all(|it| it.ends_with(".pdf")));
    // A kind of files has one chip for all its extensions.
    page.ask("gauges");
    page.browser.click_starting("Spreadsheets");
    page.browser.wait_for_text(".active-filters", "Spreadsheets");
    // A filter that the words of a question set has a chip, and without it all words are searched.
    page.ask("pdf files between 1 KB and 50 MB about the lease");
    page.browser.wait_for_text(".active-filters", "from your words: .pdf 1 KB - 50 MB");
    page.browser.wait_until("only PDFs are found", |it| it.texts(".hit-name").iter().all(|it| it.ends_with(".pdf")));
    page.browser.click(".active-filters button");
    page.browser.wait_for_text(".active-filters", "all words as text");
    page.browser.wait_until("others are found too", |it| it.texts(".hit-name").iter().any(|it| !it.ends_with(".pdf")));
    page.browser.wait_until("others are counted too", |it| it.text(".facets").contains("Markdown"));
}

fn reasons(page: &Page) {
    page.ask("notice lease");
    page.browser.press(key::DOWN);
    page.script("document.getElementById('results').focus();");
    page.browser.press("w");
    page.browser.wait_for_text(".hit-why", "by its words");
}

fn parts_of_a_hit(page: &Page) {
    page.ask("notice lease");
    page.browser.wait_for("#results [role=option] mark");
    let hit = page.browser.text("#results [role=option]");
    for part in ["lease-unit-4-tanners-quay.pdf", "page 1", "Contracts/", "KB"] {
        assert!(hit.contains(part), "`{part}` is not in {hit}");
    }
}

fn more_passages(page: &Page) {
    page.ask("notice lease");
    page.browser.wait_for(".hit-window");
    let names = page.browser.texts(".hit-path");
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(names.len(), distinct.len(), "each file is one hit");
}

fn sort_similar_folder(page: &Page) {
    page.preview("notice lease");
    page.script(
        "const select = document.querySelector('.sort select'); select.value = 'name';
        select.dispatchEvent(new Event('change', {bubbles: true}));",
    );
    page.browser.wait_until("the address has the order", |it| it.address().contains("sort=name"));
    page.browser.type_search("kettle descale");
    page.browser.press(key::ENTER);
    page.browser.wait_until("another question has its own order", |it| !it.address().contains("sort="));
    page.preview("notice lease");
    page.browser.click_named("Similar files");
    page.browser.wait_until("similar files are listed", |it| it.address().contains("similar="));
    page.browser.wait_for("#results [role=option]");
    page.preview("notice lease");
    page.browser.click_named("Same folder");
    page.browser.wait_until("the folder is listed", |it| it.address().contains("under="));
    page.browser.wait_until("only its files are listed", |it| {
        it.texts(".hit-path").iter().all(|it| it.starts_with("Contracts/"))
    });
}

fn address_and_history(page: &Page) {
    page.ask("kettle descale");
    let address = page.browser.address();
    page.open("/ui/status");
    page.browser.open(&address);
    page.browser.wait_for("#results [role=option]");
    assert_eq!(page.script("return document.getElementById('search-box').value;"), "kettle descale");
    page.browser.click_named("Searches");
    page.browser.wait_for_text("dialog[open]", "kettle descale");
    page.browser.click("dialog[open] input");
    page.browser.press("my kettle");
    page.browser.press(key::ENTER);
    page.browser.wait_for_text("dialog[open]", "my kettle");
    page.browser.press(key::ESCAPE);
    page.open("/ui/");
    page.browser.wait_for_text("main", "my kettle");
}

fn text_with_marks(page: &Page) {
    page.preview("probation notice staff handbook ext:md");
    page.browser.wait_for("#preview mark");
    page.browser.wait_until("matches are counted", |it| it.text(".match-count").contains(" of "));
    let first = page.browser.text(".match-count");
    page.browser.click_named("Next match (n)");
    page.browser.wait_until("the next match is current", |it| it.text(".match-count") != first);
    page.browser.click_named("Previous match (Shift+N)");
    page.browser.wait_until("the match before is current", |it| it.text(".match-count") == first);
}

fn page_picture(page: &Page) {
    page.preview("period of notice lease ext:pdf");
    page.browser.wait_for(".page-picture .frame");
    page.browser.wait_for(".page-picture :is(.passage-frame, .quote-frame)[data-target]");
    page.browser.wait_until("the picture is loaded", |it| {
        it.script("return document.querySelector('.page-picture img')?.naturalWidth > 100;", Vec::new()) == json!(true)
    });
    page.browser.click_named("Enlarge");
    page.browser.wait_until("the page is wider than the preview", |it| {
        let script = "return document.querySelector('.page-picture').offsetWidth > document.getElementById('preview').clientWidth;";
        it.script(script, Vec::new()) == json!(true)
    });
    page.browser.click_named("Next page");
    page.browser.wait_until("page 2 is shown", |it| {
        it.script("return document.querySelector('.page-picture img')?.dataset.page === '2';", Vec::new())
            == json!(true)
    });
    page.browser.click_named("Text");
    page.browser.wait_until("the text is shown", |it| !it.has(".page-picture") && it.text("#preview").len() > 50);
    page.preview("wet cable glands ext:pptx");
    page.browser.wait_for(".page-picture .frame");
    page.browser.wait_for_text("#preview", "Layout simplified");
}

fn sheets_mails_archives(page: &Page) {
    page.preview("orders Port of Skarvik gauges ext:xlsx");
    page.browser.wait_for("#preview table td");
    let lefts = "return [...document.querySelector('#preview tbody tr').children].map((it) => it.getBoundingClientRect().left);";
    let lefts: Vec<f64> = serde_json::from_value(page.script(lefts)).unwrap();
    assert!(lefts.windows(2).all(|it| it[0] < it[1]), "each cell has its column: {lefts:?}");
    // The other sheets of the file are one click away.
    page.browser.click_starting("Budget");
    page.browser.wait_for_text("#preview", "Cost centre");
    page.preview("credit note housings ext:eml");
    page.browser.wait_for_text("#preview", "bram.oskell@heronpike.example");
    // In a list without words, a mail has its subject; a click on its sender lists the other mails.
    page.open(&format!("/ui/?ext=eml&under={}", sample_dir().join("Mail").display()));
    page.browser.wait_for_text("#results", "Credit note for eight rejected housings");
    page.preview("credit note housings ext:eml");
    page.browser.click("#preview .metadata a");
    page.browser.wait_until("the sender is the search", |it| {
        let typed = it.script("return document.getElementById('search-box').value;", Vec::new());
        typed.as_str().is_some_and(|it| it.starts_with("from:")) && it.has(".hit-mail")
    });
    page.preview("spare key Cinder Bay hut");
    page.browser.wait_for_text("#preview", "opposite the church");
    page.browser.wait_for_text(".preview-path", "winter-service-2024.zip");
}

fn copy_and_open(page: &Page) {
    page.preview("notice lease");
    // What is copied is caught, because a headless browser has no clipboard.
    page.script(
        "window.copied = []; Object.defineProperty(navigator, 'clipboard', {configurable: true,
        value: {writeText: (text) => { window.copied.push(text); return Promise.resolve(); }}});",
    );
    page.browser.click_named("Copy path");
    page.browser.click_named("Copy citation");
    page.browser.wait_until("both are copied", |it| it.script("return window.copied.length;", Vec::new()) == json!(2));
    let copied = page.script("return window.copied.join('\\n');").to_string();
    assert!(copied.contains("lease-unit-4-tanners-quay.pdf, page 1"), "{copied}");
    page.preview("ext:sh OR ext:py sample drift");
    page.browser.click_named("Open");
    page.browser.wait_for_text("body", "vic opens only documents");
}

fn answer_with_quotes(page: &Page) {
    page.ask("Who keeps the spare key of the Cinder Bay hut?");
    page.browser.wait_for_text(".answer", "Answer from your files");
    page.browser.wait_for_text(".answer", "found in the file");
    page.browser.wait_for("#preview");
    page.browser.click(".quote-button");
    page.browser.wait_for_text("#preview", "opposite the church");
    // On the picture of a page, the quote is framed as a whole.
    page.ask("Are dogs permitted in the loft?");
    page.browser.wait_for_text(".answer", "lease-unit-4-tanners-quay.pdf");
    page.script(
        "[...document.querySelectorAll('.quote-button')].find((it) => it.innerText.includes('lease-unit-4')).click();",
    );
    page.browser.wait_for(".page-picture .quote-frame[data-target]");
    page.ask("What is the boiling point of tungsten?");
    page.browser.wait_for(".answer");
}

fn coverage(page: &Page) {
    page.open("/ui/status");
    page.browser.wait_for_text("main", "files can be searched");
    page.browser.wait_for_text("main", "Empty");
    page.browser.click_starting("Empty");
    page.browser.wait_for_text("main", "empty.txt");
    // A new file is counted without a reload.
    let before = page.browser.text("main");
    page.world.write("live/new.md", "a new file");
    page.world.index();
    page.browser.wait_until("the status changes by itself", |it| it.text("main") != before);
    page.browser.click("main input[type=text], main input[type=search]");
    page.browser.press("empty.txt");
    page.browser.press(key::ENTER);
    page.browser.wait_for_text("main", "The file has no bytes");
    // A file that a rule leaves out is found by its name too.
    page.world.write("live/.vicignore", "*.bak\n");
    page.world.write("live/loft-inventory.bak", "a kettle");
    page.open("/ui/status");
    page.browser.click("main input[type=search]");
    page.browser.press("loft inventory");
    page.browser.press(key::ENTER);
    page.browser.wait_for_text("main", "the rule *.bak in");
    // A file that failed can be read again.
    page.world.write("live/broken.pdf", "%PDF-1.7 broken");
    page.world.index();
    page.open("/ui/status?missing=broken.pdf");
    page.browser.click_starting("Read again");
    page.browser.wait_for_text("main", "Being read again");
    // A search for the name of a missing file leads there.
    page.ask("loft-inventory.bak");
    page.browser.click_starting("Find out why");
    page.browser.wait_for_text("main", "the rule *.bak in");
}

fn jobs(page: &Page) {
    page.open("/ui/status");
    page.browser.click_containing("earlier job");
    page.browser.wait_for_text("main", "Completed");
}

fn pause(page: &Page) {
    page.open("/ui/status");
    page.browser.click_named("Pause");
    page.browser.wait_for_text("main", "Reading files is paused");
    assert!(!page.world.json(&["status"])["paused"].is_null());
    page.browser.click_named("Resume");
    page.browser.wait_until("it goes on", |it| !it.text("main").contains("Reading files is paused"));
}

fn health(page: &Page) {
    page.open("/ui/status");
    for part in ["Memory", "Free disk room", "all-MiniLM-L6-v2", "File watcher", "English"] {
        page.browser.wait_for_text("main", part);
    }
}

fn first_run(page: &Page) {
    let folder =
        page.world.write("harvest/plan.md", "the quince harvest begins").parent().unwrap().canonicalize().unwrap();
    page.world.write("harvest/debug.log", "x");
    page.world.write("harvest/.cache/x", "x");
    page.open("/ui/setup");
    choose_folder(page, &folder);
    page.browser.wait_for_text("main", "Would be read");
    page.browser.wait_for_text("main", "Hidden");
    page.browser.click_named("Index 1 folder");
    page.browser.wait_for_text("main", "The first words can be searched now");
    page.browser.wait_for_text("main", "Completed");
    page.browser.click("main input[type=search]");
    page.browser.press("quince");
    page.browser.press(key::ENTER);
    page.browser.wait_for_text("#results [role=option]", "plan.md");
}

/// Types a path into the chooser of folders, and chooses it.
fn choose_folder(page: &Page, folder: &Path) {
    page.browser.wait_for(".folder-chooser input");
    page.browser.wait_until("the chooser has its folder", |it| {
        it.script("return document.querySelector('.folder-chooser input').value;", Vec::new()) != json!("")
    });
    page.browser.click(".folder-chooser input");
    page.script("document.querySelector('.folder-chooser input').select();");
    page.browser.press(&folder.display().to_string());
    page.browser.press(key::ENTER);
    page.browser.wait_until("the folder is shown", |it| {
        it.text(".folder-chooser .chosen-name") == folder.display().to_string()
    });
    page.browser.click(".folder-chooser .button-primary");
}

fn graph(page: &Page) {
    page.preview("credit note housings ext:eml");
    page.browser.click_named("In the graph");
    page.browser.wait_for(".graph-layout svg");
    page.browser.wait_for_text("main", "authored_by");
    page.browser.click_named("Table");
    page.browser.wait_for_text("main table", "links_to");
    page.browser.click_named("Query");
    page.browser.wait_for("main textarea");
    page.browser.click("main textarea");
    page.script("document.querySelector('main textarea').select();");
    page.browser.press("select ?x wher ?x is File");
    page.browser.click_named("Run");
    page.browser.wait_for_text("main", "expected where");
    page.script("document.querySelector('main textarea').select();");
    page.browser.press("select ?x, ?y where ?x is File, ?x -links_to-> ?y limit 2");
    page.browser.click_named("Run");
    page.browser.wait_for_text("main table", ".eml");
    page.open("/ui/corpus");
    page.browser.wait_for_text("main", "EXPLAIN_FAILURE");
    page.browser.click("main textarea");
    page.browser.press("extension = pdf");
    page.browser.click_named("Run");
    page.browser.wait_for_text("main", "lease-unit-4-tanners-quay.pdf");
}

fn folders(page: &Page) {
    let folder = page.world.files().canonicalize().unwrap();
    page.open("/ui/settings?section=folders");
    page.browser.wait_for_text("main", &folder.display().to_string());
    page.script("[...document.querySelectorAll('.folder-card')].find((it) => it.innerText.includes('/files')).querySelector('.disclosure-button').click();");
    page.browser.wait_for_text(".folder-check", "Left out");
    page.browser.click(".folder-check textarea");
    page.browser.press("*.log");
    page.browser.click_named("Show what would be left out");
    page.browser.wait_for_text(".folder-check", "Your patterns");
    page.browser.wait_for_text(".folder-check", "debug.log");
}

fn models(page: &Page) {
    page.open("/ui/settings?section=models");
    for part in ["all-MiniLM-L6-v2", "multilingual-e5-small", "93 languages", "MB", "vic models use"] {
        page.browser.wait_for_text("main", part);
    }
}

fn privacy(page: &Page) {
    page.open("/ui/settings?section=privacy");
    page.browser.wait_for_text("main", "Nothing leaves this computer");
    page.browser.click_starting("How to change");
    page.browser.wait_for_text("main", "This page can never change the mode");
    page.open("/ui/settings?section=audit");
    page.browser.wait_for_text("main", "Nothing left this machine");
    page.open("/ui/settings?section=limits");
    page.browser.click("main input[type=search]");
    page.browser.press("restart");
    page.browser.wait_until("only settings with the word are listed", |it| {
        let settings = it.texts(".setting");
        settings.len() > 5 && settings.iter().all(|it| it.to_lowercase().contains("restart"))
    });
}

fn keys(page: &Page) {
    page.open("/ui/settings?section=keys");
    page.browser.wait_for_text("main", "There are no keys");
    page.browser.wait_for("main form input");
    page.script(
        "[...document.querySelectorAll('label')].find((it) => it.innerText.startsWith('Name of the holder')).click();",
    );
    page.browser.press("ada");
    page.browser.click_named("Choose");
    choose_folder(page, &sample_dir().join("Mail"));
    page.browser.click_named("Create the key");
    page.browser.wait_for_text("body", "It is shown only now");
    assert_eq!(page.world.json(&["keys", "list"])[0]["name"], "ada");
    page.open("/ui/settings?section=keys");
    page.browser.click_named("Revoke");
    page.browser.wait_for("dialog[open]");
    page.script(
        "[...document.querySelectorAll('dialog[open] button')].find((it) => it.innerText.trim() === 'Revoke').click();",
    );
    page.browser.wait_for_text("main", "There are no keys");
}

fn landmarks(page: &Page) {
    page.ask("notice lease");
    let found = page.script(
        "return ['header', 'nav[aria-label]', 'main', '[role=search]', '[role=combobox]', '#results[role=listbox]', '[aria-live]',
          'section[aria-label]', '.skip-link'].filter((it) => !document.querySelector(it));",
    );
    assert_eq!(found, json!([]));
    let names = page.script("return [...document.querySelectorAll('button')].filter((it) => !it.innerText.trim() && !it.getAttribute('aria-label')).length;");
    assert_eq!(names, 0);
    page.browser.press(key::ESCAPE);
    page.script("document.activeElement.blur();");
    page.browser.press("?");
    page.browser.wait_for_text("dialog[open]", "Keys");
    page.browser.press(key::ESCAPE);
    page.browser.wait_until("the help closes", |it| !it.has("dialog[open]"));
}

fn offline(page: &Page) {
    assert_eq!(page.browser.foreign_requests(), Vec::<String>::new());
    let audit = page.world.json(&["audit"]);
    assert_eq!(audit, json!([]), "no request to another machine");
    let console = page.browser.console();
    assert!(!console.iter().any(|it| it.contains("Content Security Policy")), "{console:?}");
}
