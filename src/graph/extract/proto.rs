//! Extracts the services, RPCs and messages that a protocol buffer file defines.

use std::sync::LazyLock;

use regex::Regex;

use crate::graph::extract::part::{PartBuilder, shared_node};
use crate::graph::extract::relation;
use crate::graph::extract::source_text::{Finding, SourceText};

/// A package, service, message or rpc statement, each as a group.
static STATEMENT: LazyLock<Regex> = LazyLock::new(|| {
    let parts = [
        r"(?m:^[ \t]*)package[ \t]+(?P<package>[\w.]+)[ \t]*;",
        r"(?m:^[ \t]*)service[ \t]+(?P<service>\w+)",
        r"(?m:^[ \t]*)message[ \t]+(?P<message>\w+)",
        r"\brpc\s+(?P<rpc>\w+)\s*\(\s*(?:stream\s+)?(?P<takes>[\w.]+)\s*\)\s*returns\s*\(\s*(?:stream\s+)?(?P<gives>[\w.]+)\s*\)",
    ];
    Regex::new(&parts.join("|")).expect("a constant that a test compiles")
});

/// Extracts from all texts of a file in order, because the body of a service may be in later texts than its head.
pub(super) fn read_proto(texts: &[SourceText<'_>], maker: &mut PartBuilder<'_>) {
    let mut package = String::new();
    let mut service: Option<String> = None;
    for text in texts {
        for found in STATEMENT.captures_iter(text.text) {
            let Some(whole) = found.get(0) else { continue };
            // Skips comments, which often mention services and calls.
            if is_comment(text.text, whole.start()) {
                continue;
            }
            let evidence = text.evidence_at(whole.range());
            if let Some(name) = found.name("package") {
                package = name.as_str().to_string();
            } else if let Some(name) = found.name("service") {
                let full = qualified(&package, name.as_str());
                add_definition("ProtoService", &full, name.as_str(), evidence, maker);
                service = Some(full);
            } else if let Some(name) = found.name("message") {
                add_definition("ProtoMessage", &qualified(&package, name.as_str()), name.as_str(), evidence, maker);
            } else if let (Some(name), Some(takes), Some(gives), Some(service)) =
                (found.name("rpc"), found.name("takes"), found.name("gives"), &service)
            {
                let messages = [(relation::TAKES, takes.as_str()), (relation::RETURNS, gives.as_str())];
                add_rpc(service, &package, name.as_str(), messages, &evidence, maker);
            }
        }
    }
}

fn is_comment(text: &str, at: usize) -> bool {
    let line = &text[text[..at].rfind('\n').map_or(0, |it| it + 1)..at];
    let (opened, closed) = (text[..at].rfind("/*"), text[..at].rfind("*/"));
    line.contains("//") || opened > closed
}

fn qualified(package: &str, name: &str) -> String {
    // Keeps a name with dots, which is already qualified.
    if package.is_empty() || name.contains('.') { name.to_string() } else { format!("{package}.{name}") }
}

fn proto_key(full: &str) -> String {
    format!("proto:{}", full.trim_start_matches('.'))
}

fn add_definition(entity_type: &str, full: &str, name: &str, evidence: Finding, maker: &mut PartBuilder<'_>) {
    let mut node = shared_node(entity_type, proto_key(full), name);
    node.attributes.push(("full_name".into(), full.into()));
    maker.add_node_and_edge(node, relation::DEFINES, 1.0, evidence);
}

fn add_rpc(
    service: &str,
    package: &str,
    name: &str,
    messages: [(&str, &str); 2],
    evidence: &Finding,
    maker: &mut PartBuilder<'_>,
) {
    let full = format!("{service}.{name}");
    let mut node = shared_node("ProtoRpc", proto_key(&full), name);
    node.attributes.push(("full_name".into(), full.clone()));
    maker.node(node);
    maker.edge((&proto_key(service), &proto_key(&full)), relation::HAS_RPC, 1.0, evidence.clone());
    for (relation, message) in messages {
        maker.edge((&proto_key(&full), &proto_key(&qualified(package, message))), relation, 1.0, evidence.clone());
    }
}
