//! Finds code: passages that the format marks as code, and every symbol of a source file.

use serde_json::{Value, json};

use crate::corpus::document::location::SourceLocation;
use crate::corpus::document::passages::{Passage, PassageRole, SourceDocument};
use crate::corpus::objects::object::Object;
use crate::corpus::text::code_blocks;
use crate::corpus::text::words::truncate_to_line;

/// Maximum characters kept of the heading or sentence above the code.
const CONTEXT: usize = 120;

/// Extension of the format in which each line of code is its own paragraph.
const LINE_BY_LINE: &str = "docx";

/// Finds the code of a document.
pub(crate) fn find_code(source: &SourceDocument) -> Vec<Object> {
    let own_language = code_blocks::language_of_extension(&source.extension);
    let mut found: Vec<Object> = Vec::new();
    let mut last: Option<&Passage> = None;
    for (at, passage) in source.passages.iter().enumerate() {
        if passage.role != PassageRole::Code || passage.language.as_deref() == Some("") {
            last = None;
            continue;
        }
        let place = source.place_of(passage);
        if source.extension == "ipynb" && last.is_some_and(|it| source.place_of(it).part == place.part) {
            // Skip the second part of a notebook cell, which is the cell's output.
            continue;
        }
        if own_language.is_none()
            && last.is_some_and(|it| is_same_listing(source, it, passage))
            && let Some(object) = found.last_mut()
        {
            let between = if source.extension == LINE_BY_LINE { "\n" } else { "\n\n" };
            append(object, between, passage, &place);
            last = Some(passage);
            continue;
        }
        found.push(code_object(source, at, place, own_language));
        last = Some(passage);
    }
    let headings = Headings::new(source);
    found.extend(source.snippets.iter().filter_map(|it| snippet_object(source, &headings, it)));
    found.sort_by_key(|it| it.place.bytes);
    found
}

/// Returns whether two code passages are parts of one listing, with only white space between them.
fn is_same_listing(source: &SourceDocument, before: &Passage, after: &Passage) -> bool {
    if source.extension == LINE_BY_LINE {
        return true;
    }
    let bytes = |it: &Passage| source.bytes(it, &(0..it.text.len()));
    match (bytes(before), bytes(after), &source.raw) {
        (Some(before), Some(after), Some(raw)) if before.end <= after.start => {
            raw.text.get(before.end..after.start).is_some_and(|it| it.trim().is_empty())
        }
        _ => false,
    }
}

fn append(object: &mut Object, between: &str, passage: &Passage, place: &SourceLocation) {
    object.place = object.place.merge(place);
    // Append to the existing text instead of building a new one: a listing can have as many parts as lines.
    if let Some(Value::String(text)) = object.fields.get_mut("text") {
        text.push_str(between);
        text.push_str(&passage.text);
    }
    object.fields.insert("line_numbers".into(), json!(object.place.lines.map(|it| [it.0, it.1])));
}

fn code_object(source: &SourceDocument, at: usize, place: SourceLocation, own_language: Option<&str>) -> Object {
    let passage = &source.passages[at];
    let (language, confidence) = match (own_language, passage.language.as_deref()) {
        (Some(own), _) => (Some(own), 0.99),
        (None, Some(stated)) => (Some(stated), 0.97),
        (None, None) => match code_blocks::guess_language(&passage.text) {
            Some(guess) => (Some(guess), 0.75),
            None => (None, 0.6),
        },
    };
    let context = match &passage.symbol {
        Some(symbol) => symbol.clone(),
        None => code_context(source, at),
    };
    new_code_object(place, confidence, language, &context, &passage.text)
}

fn new_code_object(
    place: SourceLocation,
    confidence: f64,
    language: Option<&str>,
    context: &str,
    text: &str,
) -> Object {
    let lines = place.lines.map(|it| [it.0, it.1]);
    let fields = json!({"language": language, "context": context, "line_numbers": lines, "text": text});
    Object::new(place, confidence, fields)
}

/// Returns the heading above the code, or the text before it if there is no heading.
fn code_context(source: &SourceDocument, at: usize) -> String {
    let heading = source.heading(&source.passages[at]);
    if !heading.is_empty() {
        return truncate_to_line(heading, CONTEXT);
    }
    at.checked_sub(1).map_or(String::new(), |it| truncate_to_line(&source.passages[it].text, CONTEXT))
}

/// The headings of a document and their byte positions in the file.
struct Headings<'s> {
    texts: Vec<&'s str>,
    /// For each heading, the smallest start byte among this heading and all later ones: headings need not be in file order.
    lowest: Vec<usize>,
}

impl<'s> Headings<'s> {
    fn new(source: &'s SourceDocument) -> Headings<'s> {
        let headings = source.passages.iter().filter(|it| matches!(it.role, PassageRole::Heading(_)));
        let start = |it: &'s Passage| Some((it.text.as_str(), source.bytes(it, &(0..it.text.len()))?.start));
        let (texts, mut lowest): (Vec<_>, Vec<_>) = headings.filter_map(start).unzip();
        for at in (1..lowest.len()).rev() {
            lowest[at - 1] = lowest[at - 1].min(lowest[at]);
        }
        Headings { texts, lowest }
    }

    /// Returns the last heading before a byte of the file.
    fn before(&self, byte: usize) -> &'s str {
        let count = self.lowest.partition_point(|it| *it < byte);
        count.checked_sub(1).map_or("", |it| self.texts[it])
    }
}

fn snippet_object(
    source: &SourceDocument,
    headings: &Headings<'_>,
    snippet: &code_blocks::CodeBlock,
) -> Option<Object> {
    let raw = source.raw.as_ref()?;
    let text = &raw.text[snippet.inner.clone()];
    let (language, confidence) = match snippet.language.as_deref() {
        Some(stated) => (Some(stated), 0.97),
        None => (code_blocks::guess_language(text), 0.75),
    };
    let heading = headings.before(snippet.outer.start);
    Some(new_code_object(raw.place(&snippet.inner), confidence, language, &truncate_to_line(heading, CONTEXT), text))
}
