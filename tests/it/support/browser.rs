//! Drives a real browser (headless Chromium) over WebDriver, for the tests of the web page. The protocol is JSON over HTTP, and
//! the tests need a dozen of its commands.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::capabilities;
use crate::support::harness::World;

/// How long the page may take to reach an expected state. Long, because the machine of a test may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// A host name that the browser takes for this machine, as after a rebinding of the name.
pub(crate) const REBOUND_HOST: &str = "rebound.test";

/// A browser with one window, and its driver. Dropping it ends both.
pub(crate) struct Browser {
    runtime: Runtime,
    client: reqwest::Client,
    /// Address of the session at the driver.
    session: String,
    driver: Child,
    _profile: TempDir,
}

/// How a browser is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
    pub(crate) language: &'static str,
}

impl Default for Window {
    fn default() -> Window {
        Window { width: 1280, height: 800, dark: false, language: "en-US" }
    }
}

impl Browser {
    /// Starts a browser, or returns `None` after a report that this machine has none.
    pub(crate) fn start(window: Window) -> Option<Browser> {
        let is_there = ["chromium", "chromedriver"].iter().all(|it| find_program(it).is_some());
        if !capabilities::can_browse(is_there) {
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        let (driver, port) = start_driver();
        let mut arguments = vec![
            "--headless=new".to_string(),
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-dev-shm-usage".into(),
            "--no-first-run".into(),
            "--disable-background-networking".into(),
            "--disable-component-update".into(),
            format!("--host-resolver-rules=MAP {REBOUND_HOST} 127.0.0.1"),
            format!("--lang={}", window.language),
            format!("--window-size={},{}", window.width, window.height),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        if window.dark {
            arguments.push("--force-dark-mode".into());
            arguments.push("--blink-settings=preferredColorScheme=0".into());
        }
        let options = json!({
            "args": arguments,
            "prefs": {"intl.accept_languages": window.language},
        });
        let capabilities = json!({
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let runtime = Runtime::new().unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let address = format!("http://127.0.0.1:{port}/session");
        let wanted = json!({"capabilities": {"alwaysMatch": capabilities}});
        let mut browser = Browser { runtime, client, session: address, driver, _profile: profile };
        let opened = browser.command("", &wanted);
        browser.session = format!("{}/{}", browser.session, opened["sessionId"].as_str().unwrap());
        Some(browser)
    }

    /// Sends a command to the driver, and returns its value. Panics with the error of the driver.
    fn command(&self, path: &str, body: &Value) -> Value {
        let request = self.client.post(format!("{}{path}", self.session)).json(body);
        let answer: Value = self.runtime.block_on(async { request.send().await?.json().await }).unwrap();
        let value = answer["value"].clone();
        assert!(value["error"].is_null(), "WebDriver {path}: {value}");
        value
    }

    /// Asks the driver, and returns the value.
    fn query(&self, path: &str) -> Value {
        let request = self.client.get(format!("{}{path}", self.session));
        let answer: Value = self.runtime.block_on(async { request.send().await?.json().await }).unwrap();
        answer["value"].clone()
    }

    /// Opens the page in a session of `vic ui`, and waits until the session is there: opening another address before would
    /// abort its request.
    pub(crate) fn log_in(&self, world: &World) {
        let address = world.ok(&["ui", "--print"]);
        self.open(address.trim());
        self.wait_for(".topnav");
        self.wait_until("the code leaves the address", |it| !it.address().contains("code="));
    }

    /// Opens an address.
    pub(crate) fn open(&self, address: &str) {
        self.command("/url", &json!({"url": address}));
    }

    /// Returns the address that the browser shows.
    pub(crate) fn address(&self) -> String {
        self.query("/url").as_str().unwrap().to_string()
    }

    /// Runs a script in the page, with `arguments`, and returns what it returns.
    pub(crate) fn script(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.command("/execute/sync", &json!({"script": script, "args": arguments}))
    }

    /// Runs a script that calls its last argument with its result, and returns the result.
    pub(crate) fn script_async(&self, script: &str) -> Value {
        self.command("/execute/async", &json!({"script": script, "args": []}))
    }

    /// Returns the text of the first element that a selector matches; empty without one.
    pub(crate) fn text(&self, selector: &str) -> String {
        let script = "const found = document.querySelector(arguments[0]); return found ? found.innerText : '';";
        self.script(script, vec![selector.into()]).as_str().unwrap_or_default().to_string()
    }

    /// Returns the texts of all elements that a selector matches.
    pub(crate) fn texts(&self, selector: &str) -> Vec<String> {
        let script = "return [...document.querySelectorAll(arguments[0])].map((it) => it.innerText);";
        serde_json::from_value(self.script(script, vec![selector.into()])).unwrap()
    }

    /// Returns whether a selector matches an element.
    pub(crate) fn has(&self, selector: &str) -> bool {
        self.script("return document.querySelector(arguments[0]) !== null;", vec![selector.into()]) == json!(true)
    }

    /// Clicks the first element that a selector matches, as a user would.
    pub(crate) fn click(&self, selector: &str) {
        self.wait_for(selector);
        let found = self.command("/element", &json!({"using": "css selector", "value": selector}));
        let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_string();
        self.command(&format!("/element/{id}/click"), &json!({}));
    }

    /// Clicks the first control whose text or accessible name is `name`.
    pub(crate) fn click_named(&self, name: &str) {
        self.click_control(name, "(it) => it === wanted");
    }

    /// Clicks the first control whose text begins with `text`.
    pub(crate) fn click_starting(&self, text: &str) {
        self.click_control(text, "(it) => it.startsWith(wanted)");
    }

    /// Clicks the first control whose text contains `text`.
    pub(crate) fn click_containing(&self, text: &str) {
        self.click_control(text, "(it) => it.includes(wanted)");
    }

    /// Clicks the first visible control with a name for which a function of the page returns true.
    fn click_control(&self, wanted: &str, fits: &str) {
        let find = format!(
            "const wanted = arguments[0]; const fits = {fits};
             const found = [...document.querySelectorAll('button, a, [role=tab], summary, label')].find((it) => it.offsetParent
               && !it.disabled && [it.innerText.trim(), it.getAttribute('aria-label') ?? ''].some(fits));"
        );
        let is_there = format!("{find} return Boolean(found);");
        self.wait_until(&format!("a control `{wanted}`"), |it| {
            it.script(&is_there, vec![wanted.into()]) == json!(true)
        });
        self.script(&format!("{find} found.click();"), vec![wanted.into()]);
    }

    /// Types text and keys (see [`key`]) into the element that has the focus.
    pub(crate) fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|it| [json!({"type": "keyDown", "value": it}), json!({"type": "keyUp", "value": it})])
            .collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.command("/actions", &json!({"actions": [keyboard]}));
    }

    /// Replaces the text of the search box.
    pub(crate) fn type_search(&self, words: &str) {
        self.click("#search-box");
        self.script("document.getElementById('search-box').select();", Vec::new());
        self.press(words);
    }

    /// Types a question, presses Enter, and waits until its hits have replaced those of the typed words.
    pub(crate) fn ask(&self, question: &str) {
        self.type_search(question);
        self.press(key::ENTER);
        self.wait_until("hits of the whole question", |it| {
            it.has("#results [role=option]")
                && !it.has(".search-form .spinner")
                && !it.text(".result-count").contains("Enter asks")
        });
    }

    /// Waits until the preview shows the file of the selected hit.
    pub(crate) fn wait_for_preview_of_hit(&self) {
        self.wait_until("a preview of the selected hit", |it| {
            let name = it.text(".preview-title h2");
            !name.is_empty() && it.text("#results [aria-selected=true] .hit-path").ends_with(&name)
        });
    }

    /// Waits until a selector matches an element.
    pub(crate) fn wait_for(&self, selector: &str) {
        self.wait_until(&format!("an element `{selector}`"), |it| it.has(selector));
    }

    /// Waits until the text of an element contains `part`.
    pub(crate) fn wait_for_text(&self, selector: &str, part: &str) {
        let begun = Instant::now();
        while !self.text(selector).contains(part) {
            assert!(
                begun.elapsed() < PATIENCE,
                "`{part}` is not in `{selector}`: {}\n{}",
                self.text(selector),
                self.state()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Polls until `holds` returns true; fails with the text of the page after a while.
    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut(&Browser) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}\n{}", self.state());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns address and text of the page, and the messages of its console, for a failed test.
    fn state(&self) -> String {
        format!("{}\n{}\n{:?}", self.address(), self.text("body"), self.console())
    }

    /// Returns the addresses of everything that the page has loaded from other servers.
    pub(crate) fn foreign_requests(&self) -> Vec<String> {
        let script = "return performance.getEntriesByType('resource').map((it) => it.name)
            .filter((it) => !it.startsWith(location.origin) && !it.startsWith('blob:' + location.origin));";
        serde_json::from_value(self.script(script, Vec::new())).unwrap()
    }

    /// Returns the warnings and errors in the console of the page since the last call.
    pub(crate) fn console(&self) -> Vec<String> {
        let entries = self.command("/se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().cloned().unwrap_or_default();
        let is_serious = |it: &&Value| matches!(it["level"].as_str(), Some("SEVERE" | "WARNING"));
        entries.iter().filter(is_serious).map(|it| it["message"].as_str().unwrap_or_default().to_string()).collect()
    }

    /// Returns the violations of WCAG 2.2 AA that axe-core finds, one line each; `None` after a report that axe-core is not
    /// there.
    pub(crate) fn accessibility_violations(&self) -> Option<Vec<String>> {
        let models = std::env::var_os("VIC_MODELS_DIR").map(PathBuf::from);
        let path = models.unwrap_or_else(|| "models/cache".into()).join("browser/axe.min.js");
        let Ok(rules) = std::fs::read_to_string(&path) else {
            capabilities::report_not_proven(&format!(
                "`{}` is missing; `models/browser.sh` fetches it",
                path.display()
            ));
            return None;
        };
        self.script(&rules, Vec::new());
        let script = "const done = arguments[0];
            axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})
              .then((it) => done(it.violations.flatMap((rule) => rule.nodes.map((node) =>
                `${rule.id}: ${node.target.join(' ')}: ${node.failureSummary}`))), (error) => done([String(error)]));";
        Some(serde_json::from_value(self.script_async(script)).unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser may have gone already, after a failed test.
        drop(self.runtime.block_on(self.client.delete(&self.session).send()));
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}

/// Starts a driver on a free port, and returns that port.
fn start_driver() -> (Child, u16) {
    let mut command = Command::new(find_program("chromedriver").unwrap());
    command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut driver = command.spawn().unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return (driver, port.trim_end_matches('.').parse().unwrap());
        }
    }
    driver.kill().unwrap();
    driver.wait().unwrap();
    panic!("chromedriver has not started");
}

fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|it| it.join(name)).find(|it| it.is_file())
}

/// Keys that have no character, as WebDriver writes them.
pub(crate) mod key {
    pub(crate) const ENTER: &str = "\u{e007}";
    pub(crate) const ESCAPE: &str = "\u{e00c}";
    pub(crate) const TAB: &str = "\u{e004}";
    pub(crate) const DOWN: &str = "\u{e015}";
    pub(crate) const UP: &str = "\u{e013}";
    pub(crate) const RIGHT: &str = "\u{e014}";
}
