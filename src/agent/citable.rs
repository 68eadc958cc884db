//! Collects from tool results what an answer may cite: every object with an id, with its text and location if present.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::llm::plugin::TranscriptStep;
use crate::model::Anchor;

/// JSON keys whose value an answer may use to cite the object, the best one first.
const ID_FIELDS: [&str; 10] =
    ["citation", "chunk", "chunk_id", "id", "proposal_id", "uuid", "semantic_id", "name", "absolute_path", "path"];
/// JSON keys whose value is the text of an object; the first key that is present is used.
const TEXT_FIELDS: [&str; 5] = ["text", "excerpt", "snippet", "quote", "body"];
/// Objects that are nested deeper than this in a tool result cannot be cited.
const MAX_DEPTH: usize = 12;

/// An object of a tool result that an answer may cite.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Citable {
    /// The id by which an answer cites the object.
    pub(super) id: String,
    /// Text of the object; empty if it has none.
    pub(super) text: String,
    /// Absolute path of the file that the object belongs to.
    pub(super) path: Option<String>,
    /// Location of the object in the file.
    pub(super) anchor: Anchor,
}

/// All citable objects, found by any of their names, and the objects that have a text, in the order of the tool
/// results.
#[derive(Clone, Debug, Default)]
pub(super) struct CitableIndex {
    by_name: BTreeMap<String, Citable>,
    /// The objects that have a text, without duplicates.
    pub(super) texts: Vec<Citable>,
    /// Ids of the objects in `texts`, so that no object is added twice.
    text_ids: HashSet<String>,
}

impl CitableIndex {
    /// Collects the citable objects in the tool results of a transcript.
    pub(super) fn from_transcript(transcript: &[TranscriptStep]) -> CitableIndex {
        let mut offered = CitableIndex::default();
        // Skips failed calls, because an error message is not evidence.
        for step in transcript.iter().filter(|it| it.result.get("error").is_none()) {
            offered.collect(&step.result, 0);
        }
        offered
    }

    /// Returns whether no object can be cited.
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the object that a citation names.
    pub(super) fn get(&self, citation: &str) -> Option<&Citable> {
        self.by_name.get(citation.trim())
    }

    fn collect(&mut self, value: &Value, depth: usize) {
        match value {
            _ if depth > MAX_DEPTH => (),
            Value::Array(all) => all.iter().for_each(|it| self.collect(it, depth + 1)),
            Value::Object(map) => {
                self.add_object(map);
                map.values().for_each(|it| self.collect(it, depth + 1));
            }
            _ => (),
        }
    }

    fn add_object(&mut self, map: &Map<String, Value>) {
        let names = object_names(map);
        let Some(id) = names.first().cloned() else { return };
        let text = TEXT_FIELDS.iter().find_map(|it| map.get(*it)?.as_str()).unwrap_or_default().to_string();
        // Some tools name the absolute path `absolute_path`, others `path`; a relative `path` is ignored.
        let path =
            ["absolute_path", "path"].iter().find_map(|it| map.get(*it)?.as_str().filter(|it| it.starts_with('/')));
        let path = path.map(String::from);
        let anchor = map.get("anchor").and_then(|it| Anchor::deserialize(it).ok()).unwrap_or_default();
        let evidence = Citable { id, text, path, anchor };
        if !evidence.text.is_empty() && self.text_ids.insert(evidence.id.clone()) {
            self.texts.push(evidence.clone());
        }
        for name in names {
            let known = self.by_name.entry(name).or_insert_with(|| evidence.clone());
            // Replaces an object that had no path or text, because a result may name an object before it gives its text.
            if known.path.is_none() && evidence.path.is_some() || known.text.is_empty() && !evidence.text.is_empty() {
                *known = evidence.clone();
            }
        }
    }
}

/// Returns every name by which an answer may cite an object, the best one first.
fn object_names(map: &Map<String, Value>) -> Vec<String> {
    let mut names = Vec::new();
    let kind = ["entity_type", "type"].iter().find_map(|it| map.get(*it)?.as_str());
    for field in ID_FIELDS {
        match map.get(field) {
            Some(Value::String(text)) if !text.trim().is_empty() => names.push(text.trim().to_string()),
            Some(Value::Number(number)) if field == "id" => {
                // An entity can be cited as `DocChunk#128`, with its type, or as `#128`.
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
    fn only_things_with_an_id_can_be_cited() {
        let step = |result| TranscriptStep { tool: "t".into(), args: json!({}), result };
        let offered = CitableIndex::from_transcript(&[
            step(
                json!({ "hits": [{ "id": "c7", "citation": "notes.md, line 3", "text": "31 kg", "path": "/w/notes.md",
                                    "anchor": { "line_start": 3, "line_end": 3 } }] }),
            ),
            step(json!({ "rows": [{ "?x": { "id": 128, "entity_type": "DocChunk", "name": "doc_proto_api_0" } }] })),
            step(json!({ "error": { "message": "x", "id": "refused" } })),
        ]);
        let hit = offered.get("notes.md, line 3").unwrap();
        assert_eq!((hit.path.as_deref(), hit.anchor.line_start), (Some("/w/notes.md"), Some(3)));
        assert_eq!(offered.get("c7"), Some(hit));
        assert!(offered.get("DocChunk#128").is_some() && offered.get(" doc_proto_api_0 ").is_some());
        for missing in ["DocChunk#129", "31 kg", "refused", ""] {
            assert!(offered.get(missing).is_none(), "{missing}");
        }
        assert_eq!(offered.texts.len(), 1);
    }

    #[test]
    fn huge_transcript_is_collected_in_linear_time() {
        let hits: Vec<Value> =
            (0..200_000).map(|it| json!({ "id": format!("a rather long id {it}"), "text": "x" })).collect();
        let step = TranscriptStep { tool: "t".into(), args: json!({}), result: json!({ "hits": [hits, hits] }) };
        let begun = std::time::Instant::now();
        assert_eq!(CitableIndex::from_transcript(&[step]).texts.len(), 200_000);
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
