//! HTTP as the plainest of clients speaks it: one request, one connection, bytes as they are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::harness::World;

/// What came back.
pub(crate) struct Answered {
    pub(crate) status: u16,
    /// Status line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.body))
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

/// The key that the daemon made at its first start; empty when it was given another.
pub(crate) fn key(world: &World) -> String {
    std::fs::read_to_string(world.data().join("key")).unwrap_or_default().trim().into()
}

/// The header that shows it, with its end.
pub(crate) fn key_line(world: &World) -> String {
    match key(world) {
        key if key.is_empty() => key,
        key => format!("authorization: Bearer {key}\r\n"),
    }
}

/// Sends a request with a body of known length, and with the key unless `authorization` stands among the headers (empty
/// means none at all). HTTP/1.0, so that the answer ends with the connection.
pub(crate) fn send(world: &World, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answered {
    let mut request = format!("{method} {path} HTTP/1.0\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "host") {
        request.push_str("host: localhost\r\n");
    }
    if !headers.iter().any(|(name, _)| *name == "authorization") {
        request.push_str(&key_line(world));
    }
    let shown = headers.iter().filter(|(name, value)| *name != "authorization" || !value.is_empty());
    shown.for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
    raw(world, &format!("{request}\r\n{body}"))
}

pub(crate) fn get(world: &World, path: &str) -> Answered {
    send(world, "GET", path, &[], "")
}

pub(crate) fn post(world: &World, path: &str, body: &Value) -> Answered {
    send(world, "POST", path, &[], &body.to_string())
}

/// Asks over MCP with this key; gives the body, as it came.
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

/// Sends bytes and reads until the other side closes.
pub(crate) fn raw(world: &World, request: &str) -> Answered {
    let mut stream = connect(world);
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}\n{}", world.log()));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answered { status, head: head.to_lowercase(), body: body.into() }
}

/// A connection to the TCP port of the daemon.
pub(crate) fn connect(world: &World) -> TcpStream {
    let address = std::fs::read_to_string(world.data().join("listen")).unwrap();
    let stream = TcpStream::connect(address.trim()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}
