//! A minimal HTTP client for tests: one request per connection, bytes sent as given.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::support::harness::World;

/// A response of the daemon.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The status line and the headers, in lower case.
    pub(crate) head: String,
    /// The same as they were sent.
    pub(crate) raw_head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.body))
    }

    /// Returns the value of a response header as it was sent. The name is in lower case.
    pub(crate) fn raw_header(&self, name: &str) -> Option<&str> {
        let mut lines = self.raw_head.lines().filter_map(|it| it.split_once(": "));
        lines.find(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.1)
    }

    /// Returns the value of a response header in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

/// Returns the API key that the daemon created at its first start. Empty if the settings give another key.
pub(crate) fn key(world: &World) -> String {
    std::fs::read_to_string(world.data().join("key")).unwrap_or_default().trim().into()
}

/// Returns the authorization header line with the key of [`key`], or an empty string without one.
pub(crate) fn key_line(world: &World) -> String {
    match key(world) {
        key if key.is_empty() => key,
        key => format!("authorization: Bearer {key}\r\n"),
    }
}

/// Sends a request with a body. Adds the key of the daemon unless `headers` contain `authorization` (an empty value sends no
/// authorization). Uses HTTP/1.0, so that the server closes the connection after the response.
pub(crate) fn send(world: &World, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut request = format!("{method} {path} HTTP/1.0\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "host") {
        request.push_str("host: localhost\r\n");
    }
    if !headers.iter().any(|(name, _)| *name == "authorization") {
        request.push_str(&key_line(world));
    }
    let shown = headers.iter().filter(|(name, value)| *name != "authorization" || !value.is_empty());
    shown.for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
    send_raw(world, &format!("{request}\r\n{body}"))
}

pub(crate) fn get(world: &World, path: &str) -> Response {
    send(world, "GET", path, &[], "")
}

pub(crate) fn post(world: &World, path: &str, body: &Value) -> Response {
    send(world, "POST", path, &[], &body.to_string())
}

/// Sends an MCP request with this API key. Returns the raw body of the response.
pub(crate) fn mcp(world: &World, key: &str, method: &str, params: &Value) -> String {
    let call = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let bearer = format!("Bearer {key}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    send(world, "POST", "/mcp", &headers, &call).body
}

/// Sends these bytes as they are, and reads until the server closes the connection.
pub(crate) fn send_raw(world: &World, request: &str) -> Response {
    let mut stream = connect(world);
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    // A picture is no text; its head is.
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}\n{}", world.log()));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_lowercase(), raw_head: head.into(), body: body.into() }
}

/// Connects to the TCP address of the daemon.
pub(crate) fn connect(world: &World) -> TcpStream {
    let stream = TcpStream::connect(world.listen()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}
