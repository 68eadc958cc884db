//! Extracts the authors of a file, the people that it mentions, and its tags.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Match, Regex};

use crate::graph::extract::part::{PartBuilder, shared_node};
use crate::graph::extract::relation;
use crate::graph::extract::source_text::{Finding, SourceText};
use crate::model::{BlockKind, FileKind};

static ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}\b")
        .expect("a constant that a test compiles")
});

static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|\s)#([\p{L}][\p{L}\p{N}_/-]{1,40})").expect("a constant that a test compiles"));

/// Metadata keys whose values are authors.
const AUTHORS: [&str; 5] = ["author", "authors", "creator", "from", "last_author"];
/// Metadata keys whose values are other people.
const RECIPIENTS: [&str; 2] = ["to", "cc"];
/// Metadata keys whose values are tags.
const TAGS: [&str; 3] = ["tags", "keywords", "categories"];

/// Extracts the people and tags in a text.
pub(super) fn read_people(text: &SourceText<'_>, maker: &mut PartBuilder<'_>) {
    // Also reads metadata from the first chunk, which begins with the metadata if the file was not parsed again.
    let is_first = text.kind.is_none() && text.chunk.is_some_and(|it| it.chunk.ordinal == 0);
    let has_metadata = text.kind == Some(BlockKind::Metadata) || is_first;
    let named = if has_metadata { add_from_metadata(text, maker) } else { Vec::new() };
    // An author is not mentioned as well by the line that names the author.
    let is_in_text = |found: &Match<'_>| {
        let address = found.as_str().to_lowercase();
        !named.iter().any(|(line, who)| line.contains(&found.start()) && *who == address)
    };
    for found in ADDRESS.find_iter(text.text).filter(is_in_text) {
        add_person(found.as_str(), "", relation::MENTIONS, 0.8, text.evidence_at(found.range()), maker);
    }
    let is_prose = matches!(text.kind, Some(BlockKind::Paragraph | BlockKind::ListItem));
    if maker.reading.record.kind == FileKind::Markup && is_prose {
        for found in TAG.captures_iter(text.text) {
            if let Some(tag) = found.get(1) {
                add_tag(tag.as_str(), 0.8, text.evidence_at(tag.range()), maker);
            }
        }
    }
}

/// Adds the people and tags of the metadata. Returns the addresses or names of the people, each with the place of its line.
fn add_from_metadata(text: &SourceText<'_>, maker: &mut PartBuilder<'_>) -> Vec<(Range<usize>, String)> {
    let is_mail = maker.reading.record.kind == FileKind::Mail;
    let mut people = Vec::new();
    for (key, (value, range)) in text.metadata_lines() {
        let evidence = text.evidence_at(range.clone());
        let relation = match key.as_str() {
            // Skips a line such as `From: Larkmouth` outside mail, because only mail has such headers.
            "from" | "to" | "cc" if !is_mail => continue,
            it if AUTHORS.contains(&it) => relation::AUTHORED_BY,
            it if RECIPIENTS.contains(&it) => relation::MENTIONS,
            it if TAGS.contains(&it) => {
                let tags = value.trim_matches(['[', ']']).split([',', ';']);
                tags.for_each(|it| add_tag(it.trim().trim_matches(['"', '\'', '#']), 0.95, evidence.clone(), maker));
                continue;
            }
            _ => continue,
        };
        for named in value.trim_matches(['[', ']']).split([',', ';']) {
            let named = named.trim().trim_matches(['"', '\'']);
            let (who, called, confidence) = match named.rsplit_once('<') {
                Some((name, rest)) => (rest.trim_end_matches('>'), name.trim(), 0.95),
                None => (named, "", 0.9),
            };
            add_person(who, called, relation, confidence, evidence.clone(), maker);
            people.push((range.clone(), who.to_lowercase()));
        }
    }
    people
}

fn add_tag(tag: &str, confidence: f32, evidence: Finding, maker: &mut PartBuilder<'_>) {
    let tag = tag.to_lowercase();
    if !tag.is_empty() && tag.len() <= 80 {
        maker.add_node_and_edge(shared_node("Tag", format!("tag:{tag}"), &tag), relation::TAGGED, confidence, evidence);
    }
}

/// Adds a person by mail address, or by name if the address is unknown. The display name (`called`) may differ from file to
/// file, so it is an attribute and not the name of the entity.
pub(super) fn add_person(
    who: &str,
    called: &str,
    relation: &str,
    confidence: f32,
    evidence: Finding,
    maker: &mut PartBuilder<'_>,
) {
    let who = who.split_whitespace().collect::<Vec<_>>().join(" ");
    if who.is_empty() || who.len() > 200 {
        return;
    }
    let is_address = who.contains('@');
    let name = if is_address { who.to_lowercase() } else { who };
    let mut node = shared_node("Person", format!("person:{}", name.to_lowercase()), &name);
    node.attributes.extend((!called.is_empty()).then(|| ("called".to_string(), called.trim_matches('"').to_string())));
    maker.add_node_and_edge(node, relation, confidence, evidence);
}
