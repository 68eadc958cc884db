//! What results of tools offer to cite: everything in them that has an id, with its text and its place where they say so.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::llm::plugin::TranscriptStep;
use crate::model::Anchor;

/// Fields that name a thing.
const IDS: [&str; 10] =
    ["citation", "chunk", "chunk_id", "id", "proposal_id", "uuid", "semantic_id", "name", "absolute_path", "path"];
/// Fields that hold the text of a thing.
const TEXTS: [&str; 5] = ["text", "excerpt", "snippet", "quote", "body"];
/// Nothing is looked for deeper than this.
const DEPTH: usize = 12;

/// One thing that can be cited.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    /// What it is called in an answer.
    pub(super) id: String,
    /// Its text, if it has any.
    pub(super) text: String,
    /// Absolute path of the file that it stands in.
    pub(super) path: Option<String>,
    /// Where it stands there.
    pub(super) anchor: Anchor,
}

/// Everything that can be cited, by every name that it has, and the same in the order of the results.
#[derive(Clone, Debug, Default)]
pub(super) struct Offered {
    by_name: BTreeMap<String, Evidence>,
    /// Those with a text, each once.
    pub(super) texts: Vec<Evidence>,
    /// Their ids.
    shown: HashSet<String>,
}

impl Offered {
    /// Reads a transcript.
    pub(super) fn of(transcript: &[TranscriptStep]) -> Offered {
        let mut offered = Offered::default();
        // What a refused call was told is no evidence.
        for step in transcript.iter().filter(|it| it.result.get("error").is_none()) {
            offered.read(&step.result, 0);
        }
        offered
    }

    /// Says whether there is nothing to cite.
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What a citation names.
    pub(super) fn get(&self, citation: &str) -> Option<&Evidence> {
        self.by_name.get(citation.trim())
    }

    fn read(&mut self, value: &Value, depth: usize) {
        match value {
            _ if depth > DEPTH => (),
            Value::Array(all) => all.iter().for_each(|it| self.read(it, depth + 1)),
            Value::Object(map) => {
                self.offer(map);
                map.values().for_each(|it| self.read(it, depth + 1));
            }
            _ => (),
        }
    }

    fn offer(&mut self, map: &Map<String, Value>) {
        let names = names(map);
        let Some(id) = names.first().cloned() else { return };
        let text = TEXTS.iter().find_map(|it| map.get(*it)?.as_str()).unwrap_or_default().to_string();
        // Some tools call the absolute path just that, others `path`, which elsewhere is relative.
        let path =
            ["absolute_path", "path"].iter().find_map(|it| map.get(*it)?.as_str().filter(|it| it.starts_with('/')));
        let path = path.map(String::from);
        let anchor = map.get("anchor").and_then(|it| Anchor::deserialize(it).ok()).unwrap_or_default();
        let evidence = Evidence { id, text, path, anchor };
        if !evidence.text.is_empty() && self.shown.insert(evidence.id.clone()) {
            self.texts.push(evidence.clone());
        }
        for name in names {
            let known = self.by_name.entry(name).or_insert_with(|| evidence.clone());
            // The same thing may be named first and shown later.
            if known.path.is_none() && evidence.path.is_some() || known.text.is_empty() && !evidence.text.is_empty() {
                *known = evidence.clone();
            }
        }
    }
}

/// Every name of an object, the best to cite first.
fn names(map: &Map<String, Value>) -> Vec<String> {
    let mut names = Vec::new();
    let kind = ["entity_type", "type"].iter().find_map(|it| map.get(*it)?.as_str());
    for field in IDS {
        match map.get(field) {
            Some(Value::String(text)) if !text.trim().is_empty() => names.push(text.trim().to_string()),
            Some(Value::Number(number)) if field == "id" => {
                // Entities are cited with their type, as `DocChunk#128`.
                names.extend(kind.map(|it| format!("{it}#{number}")));
                names.push(format!("#{number}"));
            }
            _ => (),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_has_an_id_can_be_cited_and_nothing_else() {
        let step = |result| TranscriptStep { tool: "t".into(), args: json!({}), result };
        let offered = Offered::of(&[
            step(json!({ "hits": [{ "citation": "notes.md, line 3", "text": "31 kg", "absolute_path": "/w/notes.md",
                                    "anchor": { "line_start": 3, "line_end": 3 } }] })),
            step(json!({ "rows": [{ "?x": { "id": 128, "entity_type": "DocChunk", "name": "doc_proto_api_0" } }] })),
            step(json!({ "error": { "message": "x", "id": "refused" } })),
        ]);
        let hit = offered.get("notes.md, line 3").unwrap();
        assert_eq!((hit.path.as_deref(), hit.anchor.line_start), (Some("/w/notes.md"), Some(3)));
        assert!(offered.get("DocChunk#128").is_some() && offered.get(" doc_proto_api_0 ").is_some());
        for missing in ["DocChunk#129", "31 kg", "refused", ""] {
            assert!(offered.get(missing).is_none(), "{missing}");
        }
        assert_eq!(offered.texts.len(), 1);
    }

    #[test]
    fn a_transcript_of_very_many_texts_is_read_once() {
        let hits: Vec<Value> =
            (0..200_000).map(|it| json!({ "id": format!("a rather long id {it}"), "text": "x" })).collect();
        let step = TranscriptStep { tool: "t".into(), args: json!({}), result: json!({ "hits": [hits, hits] }) };
        let begun = std::time::Instant::now();
        assert_eq!(Offered::of(&[step]).texts.len(), 200_000);
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
