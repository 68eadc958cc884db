//! The clients of the Model Context Protocol: for each, the configuration file that lists its servers, and the JSON or TOML
//! entry for vic in that list.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::{json_text, toml_text};
use vic_protocol::config::UserFolders;

/// Name of the server in the configuration of every client.
const NAME: &str = "vic";

/// A program that starts servers of the Model Context Protocol, such as `vic mcp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code, for the user
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Zed
    Zed,
    /// Windsurf
    Windsurf,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// LM Studio
    LmStudio,
    /// opencode
    Opencode,
}

/// How the client starts vic.
#[derive(Debug)]
pub(super) struct Server {
    /// Absolute path of `vic`, because clients often start without the PATH of the user's shell.
    pub(super) command: String,
    pub(super) arguments: Vec<String>,
    /// The data directory, if it is not the default.
    pub(super) data_dir: Option<String>,
}

impl Client {
    /// Returns the name of the client for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "Claude Desktop",
            Client::ClaudeCode => "Claude Code",
            Client::Cursor => "Cursor",
            Client::Vscode => "Visual Studio Code",
            Client::Zed => "Zed",
            Client::Windsurf => "Windsurf",
            Client::Codex => "Codex",
            Client::Gemini => "Gemini CLI",
            Client::LmStudio => "LM Studio",
            Client::Opencode => "opencode",
        }
    }

    /// Returns the configuration file of the user.
    pub(super) fn location(self, folders: &UserFolders, is_mac: bool) -> PathBuf {
        let UserFolders { home, config, codex, .. } = folders;
        // On a Mac, most desktop apps keep their settings here; command line programs use the same folder everywhere.
        let settings = if is_mac { home.join("Library/Application Support") } else { config.clone() };
        let dotted = if is_mac { home.join(".config") } else { config.clone() };
        match self {
            Client::ClaudeDesktop => settings.join("Claude/claude_desktop_config.json"),
            Client::ClaudeCode => home.join(".claude.json"),
            Client::Cursor => home.join(".cursor/mcp.json"),
            Client::Vscode => settings.join("Code/User/mcp.json"),
            Client::Zed => dotted.join("zed/settings.json"),
            Client::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
            Client::Codex => codex.join("config.toml"),
            Client::Gemini => home.join(".gemini/settings.json"),
            Client::LmStudio => home.join(".lmstudio/mcp.json"),
            Client::Opencode => config.join("opencode/opencode.json"),
        }
    }

    /// Returns the field that contains the servers.
    fn servers_field(self) -> &'static str {
        match self {
            Client::Vscode => "servers",
            Client::Zed => "context_servers",
            Client::Codex => "mcp_servers",
            Client::Opencode => "mcp",
            _ => "mcpServers",
        }
    }

    /// Returns the entry of vic in the shape of the client.
    fn entry(self, server: &Server) -> Map<String, Value> {
        let Server { command, arguments, data_dir } = server;
        let environment = data_dir.as_ref().map(|it| json!({"VIC_DATA_DIR": it}));
        let (mut entry, environment_field) = match self {
            Client::Opencode => {
                let words: Vec<&String> = std::iter::once(command).chain(arguments).collect();
                (json!({"type": "local", "command": words, "enabled": true}), "environment")
            }
            Client::ClaudeCode | Client::Vscode => {
                (json!({"type": "stdio", "command": command, "args": arguments}), "env")
            }
            Client::Zed => (json!({"source": "custom", "command": command, "args": arguments}), "env"),
            _ => (json!({"command": command, "args": arguments}), "env"),
        };
        if let Some(environment) = environment {
            entry[environment_field] = environment;
        }
        entry.as_object().cloned().unwrap_or_default()
    }

    /// Returns the text of a configuration with the entry of vic added; `None` if it already has the entry.
    ///
    /// # Errors
    /// The text is not a configuration; the error says why.
    pub(super) fn install(self, text: &str, server: &Server) -> Result<Option<String>, String> {
        let entry = self.entry(server);
        match self {
            Client::Codex => toml_text::set(text, self.servers_field(), NAME, &entry),
            _ => json_text::set(text, self.servers_field(), NAME, &entry),
        }
    }

    /// Returns the text of a configuration without the entry of vic; `None` if it has no such entry.
    ///
    /// # Errors
    /// The text is not a configuration; the error says why.
    pub(super) fn uninstall(self, text: &str) -> Result<Option<String>, String> {
        match self {
            Client::Codex => toml_text::remove(text, self.servers_field(), NAME),
            _ => json_text::remove(text, self.servers_field(), NAME),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server { command: "/bin/vic".into(), arguments: vec!["mcp".into()], data_dir: Some("/d".into()) }
    }

    #[test]
    fn every_client_is_installed_into_an_empty_file_and_removed() {
        for client in Client::value_variants() {
            let text = client.install("", &server()).unwrap().unwrap();
            let value: Value = match client {
                Client::Codex => serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap(),
                _ => serde_json::from_str(&text).unwrap(),
            };
            let entry = &value[client.servers_field()]["vic"];
            assert!(entry.to_string().contains("/bin/vic") && entry.to_string().contains("VIC_DATA_DIR"), "{text}");
            assert_eq!(client.install(&text, &server()).unwrap(), None, "{client:?}");
            let removed = client.uninstall(&text).unwrap().unwrap();
            assert!(!removed.contains("vic"), "{removed}");
            assert_eq!(client.uninstall(&removed).unwrap(), None, "{client:?}");
        }
    }

    #[test]
    fn entries_have_the_shape_of_their_client() {
        let shape = |client: Client| Value::Object(client.entry(&Server { data_dir: None, ..server() }));
        assert_eq!(shape(Client::Cursor), json!({"command": "/bin/vic", "args": ["mcp"]}));
        assert_eq!(shape(Client::Vscode), json!({"type": "stdio", "command": "/bin/vic", "args": ["mcp"]}));
        assert_eq!(shape(Client::Opencode), json!({"type": "local", "command": ["/bin/vic", "mcp"], "enabled": true}));
    }

    #[test]
    fn locations_follow_the_system() {
        let folders =
            UserFolders { home: "/h".into(), config: "/h/.config".into(), codex: "/h/.codex".into(), data_dir: None };
        for (client, linux, mac) in [
            (
                Client::ClaudeDesktop,
                "/h/.config/Claude/claude_desktop_config.json",
                "/h/Library/Application Support/Claude/claude_desktop_config.json",
            ),
            (Client::Vscode, "/h/.config/Code/User/mcp.json", "/h/Library/Application Support/Code/User/mcp.json"),
            (Client::Zed, "/h/.config/zed/settings.json", "/h/.config/zed/settings.json"),
            (Client::Codex, "/h/.codex/config.toml", "/h/.codex/config.toml"),
        ] {
            assert_eq!(client.location(&folders, false).to_str(), Some(linux));
            assert_eq!(client.location(&folders, true).to_str(), Some(mac));
        }
    }
}
