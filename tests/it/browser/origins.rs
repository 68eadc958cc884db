//! Tests that pages of other origins get nothing from the daemon, and change nothing, in a browser that has a session. All
//! servers are on 127.0.0.1, whose ports share their cookies: the cookie of the session is sent with every request.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use crate::support::browser::{Browser, REBOUND_HOST, Window};
use crate::support::harness::World;

/// Serves an empty page to every request on a free port, and returns the address of the page.
fn serve_foreign_page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _request = stream.read(&mut [0; 8192]);
            let page = "<!doctype html><title>foreign</title><body>foreign";
            let _sent = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    address
}

/// Returns a browser with a session of the daemon, and the origin of the daemon.
fn logged_in(world: &World) -> Option<(Browser, String)> {
    let browser = Browser::start(Window::default())?;
    browser.log_in(world);
    Some((browser, format!("http://{}", world.listen())))
}

#[test]
fn foreign_origins_read_and_change_nothing() {
    let world = World::new().start();
    world.write("plan.md", "the harbour plan");
    world.index();
    let Some((browser, origin)) = logged_in(&world) else { return };
    browser.open(&serve_foreign_page());
    browser.wait_for_text("body", "foreign");
    let key = crate::support::http_client::key(&world);
    let outcomes = browser.script_async(&format!(
        "const done = arguments[0];
        const attempt = (path, options) => fetch('{origin}' + path, {{credentials: 'include', ...options}})
          .then((it) => (it.type === 'opaque' ? 'opaque' : it.text()), () => 'refused');
        const plain = (body) => ({{method: 'POST', mode: 'no-cors', headers: {{'content-type': 'text/plain'}}, body: JSON.stringify(body)}});
        Promise.all([
          attempt('/v1/status'),
          attempt('/v1/files', {{method: 'POST', headers: {{'content-type': 'application/json'}}, body: '{{}}'}}),
          attempt('/v1/status', {{headers: {{'x-vic-csrf': 'x'}}}}),
          attempt('/v1/keys', plain({{name: 'eve', folders: ['/'], right: 'own'}})),
          attempt('/v1/roots/remove', plain({{path: '/'}})),
          attempt('/ui/session', plain({{key: '{key}'}})),
        ]).then(done);"
    ));
    assert_eq!(outcomes, json!(vec!["refused"; 6]));
    // The browser sends the last three, and hides the answers: the daemon shows that it refused them.
    assert_eq!(world.json(&["keys", "list"]), json!([]));
    assert_eq!(world.ok(&["ui", "--end"]).trim(), "ended 1 session", "the login of the foreign page opened none");
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn page_without_origin_reads_nothing() {
    let world = World::new().start();
    let Some((browser, origin)) = logged_in(&world) else { return };
    browser.open(&serve_foreign_page());
    browser.wait_for_text("body", "foreign");
    let read = browser.script_async(&format!(
        "const done = arguments[0];
        addEventListener('message', (it) => done(it.data));
        const frame = document.createElement('iframe');
        frame.sandbox = 'allow-scripts';
        frame.srcdoc = `<script>fetch('{origin}/v1/status', {{credentials: 'include'}}).then((it) => it.text(), () => 'refused')
          .then((it) => parent.postMessage(origin + ' ' + it, '*'))<\\/script>`;
        document.body.append(frame);"
    ));
    assert_eq!(read, "null refused");
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn foreign_page_cannot_frame_the_page() {
    let world = World::new().start();
    let Some((browser, origin)) = logged_in(&world) else { return };
    browser.open(&serve_foreign_page());
    browser.wait_for_text("body", "foreign");
    browser.script_async(&format!(
        "const done = arguments[0]; const frame = document.createElement('iframe'); frame.onload = () => done(null);
        frame.src = '{origin}/ui/'; document.body.append(frame);"
    ));
    let console = browser.console();
    assert!(console.iter().any(|it| it.contains("frame-ancestors") || it.contains("X-Frame-Options")), "{console:?}");
}

#[test]
#[ignore = "long form: `make test-browser`"]
fn name_that_was_rebound_to_this_machine_is_refused() {
    let world = World::new().start();
    let Some((browser, origin)) = logged_in(&world) else { return };
    let port = origin.rsplit_once(':').unwrap().1;
    browser.open(&format!("http://{REBOUND_HOST}:{port}/ui/"));
    assert!(!browser.has("#app"), "{}", browser.text("body"));
    // For the browser this is the same origin, so that the page could read an answer.
    let status = browser.script_async(
        "const done = arguments[0]; fetch('/v1/status').then((it) => done(it.status), () => done('failed'));",
    );
    assert_eq!(status, 403);
}
