//! Tests that modules depend on each other in one direction only: each uses modules before it in `PROTOCOL`, then `ROOT`.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules of `crates/protocol/src/lib.rs` in dependency order. Each may use itself and the modules before it.
const PROTOCOL: &[&str] =
    &["error", "config", "model", "escape", "compact_output", "units", "verbs", "data_dir", "proto", "client"];

/// Modules of `src/lib.rs` in dependency order. Each may use itself, the modules before it, and the protocol modules.
const ROOT: &[&str] = &[
    "text", "filter", "table", "machine", "secrets", "files", "catalog", "egress", "extract", "chunk", "embed",
    "store", "index", "llm", "planner", "skills", "ask", "graph", "agent", "corpus", "serve", "daemon", "bench",
    "commands",
];

/// Returns all modules in dependency order.
fn layers() -> Vec<&'static str> {
    PROTOCOL.iter().chain(ROOT).copied().collect()
}

/// Pairs of a module and a later module that it may use: `config` uses the types of its settings from `model`.
const EXCEPTIONS: &[(&str, &str)] = &[("config", "model")];

#[test]
fn modules_use_only_earlier_layers() {
    let mut violations = Vec::new();
    let layers = layers();
    for (position, room) in layers.iter().enumerate() {
        for (path, text) in module_sources(room) {
            for used in modules_used(&text) {
                let Some(other) = layers.iter().position(|it| *it == used) else {
                    violations.push(format!("{}: `{used}` is not a module of vic", path.display()));
                    continue;
                };
                if other > position && !EXCEPTIONS.contains(&(room, used.as_str())) {
                    violations.push(format!("{}: `{room}` uses `{used}`, which comes after it", path.display()));
                }
            }
        }
    }
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn lib_declares_modules_in_layer_order() {
    for (folder, modules) in [("src", ROOT), ("crates/protocol/src", PROTOCOL)] {
        let tour = fs::read_to_string(project().join(folder).join("lib.rs")).unwrap();
        let declared: Vec<&str> =
            tour.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
        assert_eq!(declared, modules, "{folder}");
    }
}

#[test]
fn pipeline_stages_do_not_use_each_other() {
    const STAGES: &[&str] = &["files", "extract", "chunk", "embed", "store"];
    for stage in STAGES {
        for (path, text) in module_sources(stage) {
            let others: Vec<String> =
                modules_used(&text).into_iter().filter(|it| it != stage && STAGES.contains(&it.as_str())).collect();
            assert!(others.is_empty(), "{} uses {others:?}", path.display());
        }
    }
}

#[test]
fn only_network_modules_open_sockets() {
    // `daemon` opens the listeners of `serve`, and `client` connects to the daemon.
    const MAY: &[&str] = &["egress", "embed", "llm", "serve", "daemon", "client", "extract"];
    const SIGNS: &[&str] = &["reqwest::", "TcpStream", "TcpListener", "UdpSocket"];
    for room in layers().iter().filter(|it| !MAY.contains(it)) {
        for (path, text) in module_sources(room) {
            for sign in SIGNS {
                assert!(!text.contains(sign), "{} holds `{sign}`", path.display());
            }
        }
    }
}

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source_dir(room: &str) -> PathBuf {
    project().join(if PROTOCOL.contains(&room) { "crates/protocol/src" } else { "src" })
}

/// Returns every source file of a module with its text.
fn module_sources(room: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![source_dir(room).join(room)];
    let mut files = Vec::new();
    let single = source_dir(room).join(format!("{room}.rs"));
    if single.is_file() {
        files.push(single);
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                files.push(path);
            }
        }
    }
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Returns the names that follow `crate::`, alone or in braces. Skips capitalized names, which are re-exports, not modules.
fn modules_used(text: &str) -> Vec<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut rooms = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            Some(group) => rooms.extend(heads_of_group(group)),
            None => rooms.push(identifier(rest)),
        }
    }
    rooms.retain(|it| it.starts_with(|first: char| first.is_ascii_lowercase()));
    rooms
}

/// Returns the first names of the members of a brace group: `a::B, c::{D, E}}` gives `a` and `c`.
fn heads_of_group(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let (mut depth, mut at_head) = (0, true);
    for (index, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_head = true,
            other if at_head && !other.is_whitespace() => {
                heads.push(identifier(&group[index..]));
                at_head = false;
            }
            _ => (),
        }
    }
    heads
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
}
