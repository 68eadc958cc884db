//! Finds the pros and cons that documents list for an approach.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::corpus::document::location::SourceLocation;
use crate::corpus::document::stored_passage::{PassageKind, StoredPassage};
use crate::corpus::text::words::{normalize_key, truncate_to_line};
use crate::corpus::views::documents::Corpus;
use crate::model::FileId;
use crate::text::trimmed_sentences;

static PRO: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:pros?|advantages?|benefits?|strengths?|upsides?|plus)\b").expect("a constant")
});
static CON: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:cons?|disadvantages?|drawbacks?|weakness(?:es)?|downsides?|limitations?|minus)\b")
        .expect("a constant")
});
/// A label that names its approach: `Pros of sailcloth`, `Advantages: tin`.
static APPROACH_IN_LABEL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)^\w+\s*(?:of|:|-|–|for)\s+(.{2,60})$").expect("a constant"));

/// A single argument for or against an approach.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) file: FileId,
    pub(crate) text: String,
    pub(crate) place: SourceLocation,
}

impl Argument {
    pub(crate) fn value(&self) -> Value {
        let mut shown = Map::from_iter([("file".to_string(), json!(self.file))]);
        self.place.write(&mut shown);
        shown.insert("text".into(), json!(self.text));
        Value::Object(shown)
    }
}

/// An approach with the arguments for and against it.
#[derive(Clone, Debug)]
pub(crate) struct Approach {
    pub(crate) name: String,
    pub(crate) pros: Vec<Argument>,
    pub(crate) cons: Vec<Argument>,
}

impl Approach {
    pub(crate) fn has(&self, file: FileId) -> bool {
        self.pros.iter().chain(&self.cons).any(|it| it.file == file)
    }

    pub(crate) fn value(&self) -> Value {
        let side = |points: &[Argument]| points.iter().map(Argument::value).collect::<Vec<_>>();
        json!({"approach": self.name, "pros": side(&self.pros), "cons": side(&self.cons)})
    }
}

/// Finds the approaches of a view, ordered by name.
pub(crate) fn find_approaches(corpus: &Corpus) -> Vec<Approach> {
    let mut found: BTreeMap<String, Approach> = BTreeMap::new();
    for paper in &corpus.documents {
        let mut subject = paper.parsed.facts.title.clone().unwrap_or_else(|| paper.path.clone());
        let mut side: Option<(bool, String)> = None;
        let mut listed = false;
        for passage in &paper.parsed.passages {
            if listed && passage.part == PassageKind::Text {
                // End the list of pros or cons at the first text after it.
                (side, listed) = (None, false);
            }
            listed |= side.is_some() && passage.part == PassageKind::Item;
            if let Some((is_pro, name)) = parse_label(passage) {
                side = Some((is_pro, name.unwrap_or_else(|| subject.clone())));
                if passage.part == PassageKind::Heading || passage.text.trim_end().ends_with(':') {
                    continue;
                }
            } else if passage.part == PassageKind::Heading {
                (subject, side, listed) = (truncate_to_line(&passage.text, 60), None, false);
            }
            let (Some((is_pro, name)), PassageKind::Text | PassageKind::Item) = (&side, passage.part) else { continue };
            let approach = found.entry(normalize_key(name)).or_insert_with(|| Approach {
                name: name.clone(),
                pros: Vec::new(),
                cons: Vec::new(),
            });
            let points = if *is_pro { &mut approach.pros } else { &mut approach.cons };
            points.extend(crate::corpus::analysis::pros_cons::split_points(paper.file, passage));
        }
    }
    found.into_values().collect()
}

/// Returns whether a passage is the label of a list of pros (true) or cons (false), and the approach that it names.
fn parse_label(passage: &StoredPassage) -> Option<(bool, Option<String>)> {
    let text = passage.text.trim().trim_matches(['*', '_', '#', ' ']);
    let short_line = passage.part == PassageKind::Heading
        || text.lines().next()?.trim_end_matches('*').trim_end().ends_with(':')
        || text.contains(": ");
    let is_pro = PRO.is_match(text);
    if !short_line || !(is_pro || CON.is_match(text)) {
        return None;
    }
    let line = text.lines().next()?.trim_end_matches([':', '*', ' ']);
    let named = (passage.part == PassageKind::Heading)
        .then(|| APPROACH_IN_LABEL.captures(line).map(|it| it[1].trim().to_string()))
        .flatten();
    Some((is_pro, named))
}

/// Returns the arguments of a passage, one per sentence.
fn split_points(file: FileId, passage: &StoredPassage) -> Vec<Argument> {
    let text = passage.text.trim();
    let text = match (PRO.is_match(text.trim_matches(['*', '_'])) || CON.is_match(text.trim_matches(['*', '_'])))
        .then(|| text.split_once(':'))
    {
        Some(Some((_, rest))) => rest.trim_start_matches(['*', '_', ' ']),
        _ => text,
    };
    let point = |text: &str| Argument {
        file,
        text: truncate_to_line(text.trim_matches(['*', ' ']), 200),
        place: passage.place.clone(),
    };
    trimmed_sentences(text).into_iter().map(|it| point(&text[it])).filter(|it| !it.text.is_empty()).collect()
}
