//! Completes a question that is being typed: operators, and values of the operator before the cursor. Pure functions.

use crate::model::{CompleteRequest, Completion, Suggestion, SuggestionKind};
use crate::planner::file_types;

/// Maximum number of completions.
const MAX_ITEMS: usize = 10;

/// The operators with a value, as [`crate::planner::syntax`] parses them, each with its meaning.
const OPERATORS: [(&str, &str); 10] = [
    ("ext:", "extension: ext:pdf,md"),
    ("name:", "file name, or a part of it: name:budget"),
    ("path:", "folder or path: path:contracts"),
    ("after:", "changed at or after: after:2026-03, after:7d"),
    ("before:", "changed before: before:2025"),
    ("size:", "size: size:>5MB, size:1MB..2MB"),
    ("owner:", "user who owns the file"),
    ("author:", "author of a document, sender of a mail"),
    ("from:", "sender of a mail, author of a document: from:\"Anna Lee\""),
    ("lang:", "language: lang:de, lang:rust"),
];

/// Values of the operators for dates.
const DATES: [(&str, &str); 6] = [
    ("today", "since midnight"),
    ("yesterday", "since yesterday"),
    ("7d", "the last 7 days"),
    ("30d", "the last 30 days"),
    ("12m", "the last 12 months"),
    ("2020", "a year, a month 2020-03, or a day 2020-03-01"),
];

/// Values of the operator for sizes.
const SIZES: [(&str, &str); 4] =
    [(">1MB", "larger"), ("<100KB", "smaller"), ("1MB..10MB", "between"), (">100MB", "larger")];

/// A value that the indexed files have, with the number of files.
pub type KnownValue = (String, u64);

/// The values of the indexed files that operators complete to.
#[derive(Clone, Debug, Default)]
pub struct KnownValues {
    /// Extensions without the dot.
    pub extensions: Vec<KnownValue>,
    /// Names of folders.
    pub folders: Vec<KnownValue>,
    /// Names of owners.
    pub owners: Vec<KnownValue>,
    /// Senders and authors.
    pub authors: Vec<KnownValue>,
    /// Codes of languages.
    pub languages: Vec<KnownValue>,
}

/// The word before the cursor, in parts.
struct TypedWord<'t> {
    /// Where the part that is completed begins, in bytes.
    start: usize,
    /// Where the cursor stands, in bytes.
    cursor: usize,
    /// The operator before the part in lower case, without its colon.
    key: Option<String>,
    /// The part that is completed.
    begun: &'t str,
}

fn typed_word(request: &CompleteRequest) -> TypedWord<'_> {
    let cursor = byte_position(&request.text, request.position);
    let before = &request.text[..cursor];
    let start = word_start(before);
    match before[start..].split_once(':') {
        Some((key, value)) => {
            // After a comma, `ext:pdf,m` completes the last extension.
            let at = value.rfind(',').map_or(0, |it| it + 1);
            let start = start + key.len() + 1 + at;
            TypedWord { start, cursor, key: Some(key.to_lowercase()), begun: &value[at..] }
        }
        None => TypedWord { start, cursor, key: None, begun: &before[start..] },
    }
}

/// Returns where the last word of a text begins, in bytes. Blanks in quotes belong to their word.
fn word_start(text: &str) -> usize {
    let (mut start, mut is_quoted, mut last) = (0, false, ' ');
    for (at, character) in text.char_indices() {
        match character {
            '"' if is_quoted => is_quoted = false,
            // A quote in a word, as in `3.5"`, opens nothing.
            '"' => is_quoted = last.is_whitespace() || matches!(last, ':' | ',' | '+' | '-'),
            _ if character.is_whitespace() && !is_quoted => start = at + character.len_utf8(),
            _ => (),
        }
        last = character;
    }
    start
}

/// Returns whether the completions depend on the indexed files.
pub fn needs_values(request: &CompleteRequest) -> bool {
    matches!(typed_word(request).key.as_deref(), Some("ext" | "path" | "owner" | "author" | "from" | "lang"))
}

/// Returns the completions of the word before the cursor.
pub fn complete(request: &CompleteRequest, known: &KnownValues) -> Completion {
    let TypedWord { start, cursor, key, begun } = typed_word(request);
    let items = match &key {
        Some(key) => values_of(key, begun, known),
        None => operators(begun),
    };
    let units = |to: usize| request.text[..to].encode_utf16().count() as u32;
    Completion { from: units(start), to: units(cursor), items }
}

/// Returns the position in bytes of a position in UTF-16 code units; the end of the text if it is beyond.
fn byte_position(text: &str, position: u32) -> usize {
    let mut units = 0;
    for (at, character) in text.char_indices() {
        if units >= position as usize {
            return at;
        }
        units += character.len_utf16();
    }
    text.len()
}

fn operators(word: &str) -> Vec<Suggestion> {
    let fits = |it: &&(&str, &str)| !word.is_empty() && it.0.starts_with(&word.to_lowercase());
    OPERATORS.iter().filter(fits).map(|(name, detail)| suggestion(name, detail, SuggestionKind::Operator)).collect()
}

fn values_of(key: &str, begun: &str, known: &KnownValues) -> Vec<Suggestion> {
    let begun = begun.trim_start_matches('"').to_lowercase();
    let fixed = |values: &[(&str, &str)]| -> Vec<(String, String)> {
        values.iter().map(|(value, detail)| (value.to_string(), detail.to_string())).collect()
    };
    let counted = |values: &[KnownValue]| -> Vec<(String, String)> {
        values.iter().map(|(value, files)| (value.clone(), files.to_string())).collect()
    };
    let values = match key {
        "ext" => counted(&known.extensions),
        "path" => counted(&known.folders),
        "owner" => counted(&known.owners),
        "author" | "from" => counted(&known.authors),
        "after" | "before" => fixed(&DATES),
        "size" => fixed(&SIZES),
        "lang" => {
            let programming = file_types::language_names().map(|it| (it.to_string(), String::new()));
            counted(&known.languages).into_iter().chain(programming).collect()
        }
        _ => Vec::new(),
    };
    let is_begun = |value: &str| {
        let value = value.to_lowercase();
        // People are found by any of their names.
        value != begun && (value.starts_with(&begun) || value.split_whitespace().any(|it| it.starts_with(&begun)))
    };
    let fits = values.into_iter().filter(|it| is_begun(&it.0));
    fits.take(MAX_ITEMS).map(|(value, detail)| suggestion(&quoted(&value), &detail, SuggestionKind::Value)).collect()
}

/// Quotes a value with blanks, as the operators need it.
fn quoted(value: &str) -> String {
    if value.contains(char::is_whitespace) { format!("\"{value}\"") } else { value.to_string() }
}

fn suggestion(insert: &str, detail: &str, kind: SuggestionKind) -> Suggestion {
    Suggestion { insert: insert.into(), label: insert.into(), detail: detail.into(), kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> (String, Vec<String>) {
        let known = KnownValues {
            extensions: vec![("pdf".into(), 9), ("png".into(), 2), ("md".into(), 1)],
            folders: vec![("Old Papers".into(), 3)],
            owners: vec![("ada".into(), 1)],
            authors: vec![("Ada Lane".into(), 4)],
            languages: vec![("de".into(), 5)],
        };
        let cursor = text.find('|').unwrap();
        let position = text[..cursor].encode_utf16().count() as u32;
        let text = text.replace('|', "");
        let found = complete(&CompleteRequest { text: text.clone(), position }, &known);
        let units: Vec<u16> = text.encode_utf16().collect();
        let replaced = String::from_utf16(&units[found.from as usize..found.to as usize]).unwrap();
        (replaced, found.items.into_iter().map(|it| it.insert).collect())
    }

    #[test]
    fn operators_and_values_complete_the_word_before_the_cursor() {
        let cases: [(&str, &str, &[&str]); 16] = [
            ("lease ex|", "ex", &["ext:"]),
            ("lease ext:p|", "p", &["pdf", "png"]),
            ("ext:pdf,m| lease", "m", &["md"]),
            ("😀 EXT:|x", "", &["pdf", "png", "md"]),
            ("path:ol|", "ol", &["\"Old Papers\""]),
            ("lang:rus|", "rus", &["rust"]),
            ("lease |", "", &[]),
            ("http://x|", "//x", &[]),
            ("owner:|", "", &["ada"]),
            ("from:ada|", "ada", &["\"Ada Lane\""]),
            ("lang:d|", "d", &["de", "dart"]),
            ("fr|", "fr", &["from:"]),
            ("from:lan|", "lan", &["\"Ada Lane\""]),
            ("rent from:\"ada l|", "\"ada l", &["\"Ada Lane\""]),
            ("a 3.5\" disk ex|", "ex", &["ext:"]),
            ("\"spare key\" ex|", "ex", &["ext:"]),
        ];
        for (text, replaced, items) in cases {
            let items = items.iter().map(|it| it.to_string()).collect();
            assert_eq!(check(text), (replaced.to_string(), items), "{text}");
        }
    }

    #[test]
    fn position_beyond_the_text_is_its_end() {
        let request = CompleteRequest { text: "ex".into(), position: 99 };
        assert_eq!(complete(&request, &KnownValues::default()).items[0].insert, "ext:");
    }
}
