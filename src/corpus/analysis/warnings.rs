//! Finds warnings: sentences with cue words. Every cue word has a strength.

use serde_json::{Map, Value, json};

use crate::corpus::document::location::SourceLocation;
use crate::corpus::text::words::truncate_to_line;
use crate::corpus::views::documents::CorpusDocument;
use crate::model::FileId;
use crate::text::trimmed_sentences;

/// The strength of a warning, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    Low,
    Medium,
    High,
}

impl Strength {
    pub(crate) fn from_name(name: &str) -> Strength {
        match name {
            "high" => Strength::High,
            "medium" => Strength::Medium,
            _ => Strength::Low,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Strength::Low => "low",
            Strength::Medium => "medium",
            Strength::High => "high",
        }
    }
}

const WARNING_CUES: &[(Strength, &[&str])] = &[
    (
        Strength::High,
        &[
            "danger",
            "fatal",
            "never",
            "must not",
            "do not",
            "warning",
            "prohibited",
            "forbidden",
            "critical",
            "irreversible",
            "data loss",
        ],
    ),
    (
        Strength::Medium,
        &[
            "caution",
            "careful",
            "beware",
            "avoid",
            "hazard",
            "risk of",
            "unsafe",
            "deprecated",
            "should not",
            "important",
        ],
    ),
    (
        Strength::Low,
        &[
            "note that",
            "be aware",
            "may fail",
            "might fail",
            "limitation",
            "risk",
            "unstable",
            "not recommended",
            "watch out",
        ],
    ),
];

/// A sentence that warns, with the strength of its strongest cue word.
pub(crate) struct Warning {
    pub(crate) strength: Strength,
    cue: &'static str,
    text: String,
    place: SourceLocation,
}

impl Warning {
    pub(crate) fn value(&self, file: FileId) -> Value {
        let mut shown = Map::from_iter([("file".to_string(), json!(file))]);
        self.place.write(&mut shown);
        shown.insert("strength".into(), json!(self.strength.name()));
        shown.insert("cue".into(), json!(self.cue));
        shown.insert("text".into(), json!(self.text));
        Value::Object(shown)
    }
}

/// Finds the warnings of a document that have at least this strength.
pub(crate) fn find_warnings(paper: &CorpusDocument, least: Strength) -> Vec<Warning> {
    let mut found = Vec::new();
    for passage in paper.parsed.prose() {
        for range in trimmed_sentences(&passage.text) {
            let sentence = &passage.text[range];
            let lower = format!(" {} ", sentence.to_lowercase().replace(|it: char| !it.is_alphanumeric(), " "));
            let cue = WARNING_CUES.iter().find_map(|(strength, cues)| {
                let cue = cues.iter().find(|it| lower.contains(&format!(" {it} ")))?;
                Some((*strength, *cue))
            });
            if let Some((strength, cue)) = cue.filter(|it| it.0 >= least) {
                found.push(Warning {
                    strength,
                    cue,
                    text: truncate_to_line(sentence, 200),
                    place: passage.place.clone(),
                });
            }
        }
    }
    found
}
