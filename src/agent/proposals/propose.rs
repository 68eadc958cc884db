//! Proposes entities and relations for the graph, without a model: files, headings, mail addresses and web addresses.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use crate::model::{Block, BlockKind, Document};

/// Matches the mail addresses in a text.
static MAIL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}").expect("a constant")
});
/// Matches the http and https addresses in a text.
static URL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"https?://[^\s<>"'\])}|]{3,300}"#).expect("a constant"));

/// Confidence of what a file states explicitly, such as a heading or a link.
const FACT_CONFIDENCE: f64 = 0.95;
/// Confidence that a mail address in a text stands for a person.
const MENTION_CONFIDENCE: f64 = 0.8;

/// Collects the proposed entities and relations of several files, each once.
#[derive(Debug, Default)]
pub struct Proposer {
    proposals: Vec<Value>,
    seen_ids: BTreeSet<String>,
}

/// Returns the text of the block that a proposal cites as evidence by its id `<absolute path>#<number>`.
pub fn chunk_text<'a>(document: &'a Document, chunk_id: &str) -> Option<&'a str> {
    let number: usize = chunk_id.rsplit_once('#')?.1.parse().ok()?;
    document.blocks.get(number).map(|it| it.text.as_str())
}

impl Proposer {
    /// Adds the entities and relations of one file.
    pub fn add_document(&mut self, path: &str, document: &Document) {
        let file = format!("document:{path}");
        let name = document.title.clone().unwrap_or_else(|| path.rsplit('/').next().unwrap_or(path).to_string());
        self.add_entity(&file, "Document", &name, json!({ "path": path }), &format!("{path}#0"), "", FACT_CONFIDENCE);
        for (number, block) in document.blocks.iter().enumerate() {
            let chunk = format!("{path}#{number}");
            self.add_block(&file, block, &chunk);
        }
    }

    fn add_block(&mut self, file: &str, block: &Block, chunk: &str) {
        let place = block.anchor.place();
        if let BlockKind::Heading(level) = block.kind {
            let section = format!("section:{chunk}");
            self.add_entity(
                &section,
                "Section",
                block.text.trim(),
                json!({ "level": level }),
                chunk,
                &place,
                FACT_CONFIDENCE,
            );
            self.add_relation("contains", file, &section, chunk, &place, FACT_CONFIDENCE);
        }
        for found in MAIL.find_iter(&block.text) {
            let mail = found.as_str().to_lowercase();
            let person = format!("person:{mail}");
            self.add_entity(&person, "Person", &mail, json!({ "mail": mail }), chunk, &place, MENTION_CONFIDENCE);
            self.add_relation("mentions", file, &person, chunk, &place, MENTION_CONFIDENCE);
        }
        for found in URL.find_iter(&block.text) {
            let url = found.as_str().trim_end_matches(['.', ',', ';', ':', '!', '?']);
            let page = format!("url:{url}");
            self.add_entity(&page, "Url", url, json!({ "url": url }), chunk, &place, FACT_CONFIDENCE);
            self.add_relation("links_to", file, &page, chunk, &place, FACT_CONFIDENCE);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a proposal, each once")]
    fn add_entity(&mut self, id: &str, kind: &str, name: &str, attributes: Value, chunk: &str, place: &str, sure: f64) {
        if name.is_empty() || !self.seen_ids.insert(id.to_string()) {
            return;
        }
        self.proposals.push(json!({
            "kind": "Entity", "proposal_id": id, "entity_id": id, "entity_type": kind, "name": name,
            "attributes": attributes, "confidence": sure, "evidence": [{ "chunk_id": chunk, "locator": place }],
            "public_rationale": format!("the file says so ({kind})"), "metadata": {},
        }));
    }

    fn add_relation(&mut self, kind: &str, source: &str, target: &str, chunk: &str, place: &str, sure: f64) {
        let id = format!("{kind}:{source}:{target}");
        if !self.seen_ids.contains(target) || !self.seen_ids.insert(id.clone()) {
            return;
        }
        self.proposals.push(json!({
            "kind": "Relation", "proposal_id": id, "relation_id": id, "rel_type": kind, "source": source,
            "target": target, "attributes": {}, "confidence": sure,
            "evidence": [{ "chunk_id": chunk, "locator": place }],
            "public_rationale": format!("the file says so ({kind})"), "metadata": {},
        }));
    }

    /// Returns all proposals as the JSON of `proposals.json`. `generated_at` is a time in RFC 3339.
    pub fn into_file(self, generated_at: &str, locator: &str) -> Value {
        json!({
            "version": 1, "generated_at": generated_at,
            "source": { "source_type": "vic_warehouse", "locator": locator }, "proposals": self.proposals,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::validate_proposals;
    use crate::model::Anchor;

    #[test]
    fn document_yields_each_proposal_once() {
        let block = |kind, text: &str| Block { kind, text: text.into(), anchor: Anchor::default(), rows: Vec::new() };
        let document = Document {
            title: Some("Bees".into()),
            blocks: vec![
                block(BlockKind::Heading(1), "Winter"),
                block(BlockKind::Paragraph, "Ask Ada@Quill.example, or ada@quill.example. See https://bees.example/a."),
            ],
            ..Document::default()
        };
        let mut proposer = Proposer::default();
        proposer.add_document("/w/bees.md", &document);
        proposer.add_document("/w/bees.md", &document);
        let file = proposer.into_file("2026-01-01T00:00:00Z", "/w");
        validate_proposals(&file).unwrap();
        let told: Vec<(String, String)> = file["proposals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                let kind = it["entity_type"].as_str().or(it["rel_type"].as_str()).unwrap();
                (kind.to_string(), it["name"].as_str().unwrap_or_default().to_string())
            })
            .collect();
        let expected = [
            ("Document", "Bees"),
            ("Section", "Winter"),
            ("contains", ""),
            ("Person", "ada@quill.example"),
            ("mentions", ""),
            ("Url", "https://bees.example/a"),
            ("links_to", ""),
        ];
        assert_eq!(told, expected.map(|(a, b)| (a.to_string(), b.to_string())));
        let chunk = file["proposals"][3]["evidence"][0]["chunk_id"].as_str().unwrap();
        assert!(chunk_text(&document, chunk).unwrap().starts_with("Ask Ada"));
        assert_eq!(chunk_text(&document, "/w/bees.md#9"), None);
    }
}
