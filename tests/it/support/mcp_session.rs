//! A client of the Model Context Protocol that starts `vic mcp`.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::support::harness::{World, vic_program};

/// A client that speaks MCP with `vic mcp` over its standard input and output.
pub(crate) struct McpSession {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    next: u64,
}

impl McpSession {
    /// Starts `vic mcp` with these arguments, and begins a session.
    pub(crate) fn start(world: &World, arguments: &[&str]) -> McpSession {
        let mut command = world.command(vic_program());
        let mut child =
            command.arg("mcp").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut session = McpSession { child, lines, next: 0 };
        let client = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        assert_eq!(session.request("initialize", hello)["result"]["serverInfo"]["name"], "vic");
        session.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    /// Sends a message.
    pub(crate) fn write(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request and returns the response, which must be the next line of standard output: other output is not
    /// allowed.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        let line = self.lines.next().unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(answer["id"], self.next, "{answer}");
        answer
    }

    /// Returns the next line of standard output.
    pub(crate) fn read(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// Calls a tool, and returns its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        answer.get("result").unwrap_or_else(|| panic!("{answer:#}")).clone()
    }

    /// Calls a tool that succeeds, and returns the text of its answer.
    pub(crate) fn text(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{tool}: {result:#}");
        result["content"][0]["text"].as_str().unwrap().to_string()
    }

    /// Returns the names of the listed tools.
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|it| it["name"].as_str().unwrap().to_string()).collect()
    }
}
