//! Finds definitions: defining sentences, marked terms, glossaries and definition lists.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::corpus::document::passages::{Passage, PassageRole, SourceDocument};
use crate::corpus::objects::html_terms;
use crate::corpus::objects::object::Object;
use crate::corpus::objects::reference::is_reference_heading;
use crate::corpus::objects::term::{definition_fields, is_term};
use crate::text::trimmed_sentences;

/// Minimum confidence of a definition in a quoted sentence; below it, the sentence may be a saying that defines nothing.
const MIN_CLEAR_CONFIDENCE: f64 = 0.8;

/// The mark of a clause at the start of a line, e.g. `(a) `.
static CLAUSE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^[ \t]*\((?:\p{Ll}{1,4}|\d{1,2})\)[ \t]+").expect("a constant"));

/// Maximum number of lines above a passage in which its directive is searched.
const MAX_LINES_ABOVE: usize = 1_000;

static GLOSSARY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:\d+(?:\.\d+)*\.?\s+)?(?:glossary|definitions|terms|terminology|nomenclature|abbreviations|interpretation|terms and definitions|definition of terms|glossary of .{1,60})\s*:?$")
        .expect("a constant")
});
/// A glossary entry: `**Term**: text`, `Term - text`, `Term: text`.
static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^[ \t]*(?:[-*] )?(?:\*\*|__|\*|_|`)?([^\n:*`_—–]{2,60}?)(?:\*\*|__|\*|_|`)?\s*(?::{1,2}(?:\*\*)?|—|–| - )\s+([^\n]+(?:\n[^\n:—]+$)*)")
        .expect("a constant")
});

/// A definition list in Markdown: `Term` on one line and `: text` on the next.
static LISTED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^([^\n:|>#]{2,60})\n[ \t]{0,3}[:~][ \t]+([^\n]+(?:\n[ \t]+[^\n]+)*)").expect("a constant")
});
/// An item of a TeX description list: `\item[Term] text`.
static ITEM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\\item\[([^\]\n]{2,60})\]:?\s*([^\\]+)").expect("a constant"));
/// A term of the directive `.. glossary::`, with its indented text.
static DIRECTED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^ *([^\s.:|>#-][^\n:|>#]{1,60})\n {4,}([^\s][^\n]*(?:\n {4,}[^\n]+)*)").expect("a constant")
});
/// A term of reStructuredText, whose text is on indented lines below it.
static HANGING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\A([^\n:|>#]{2,60})\n[ \t]+([^\s][^\n]*(?:\n[ \t]+[^\n]+)*)\z").expect("a constant"));
/// A marked term outside a glossary, `**Term**: the ...` or `*Term* — a ...`, if the text begins like a definition.
static MARKED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:\*\*|__|\*|_)([^\n:*`_—–]{2,60}?):?(?:\*\*|__|\*|_)\s*(?::|—|–|-)?\s+((?:[Aa]n?|[Tt]he|[Aa]ny|[Oo]ne)\s[^\n]+(?:\n[^\n]+)*)$")
        .expect("a constant")
});
/// A marked term in the text of a web page. The text has no asterisks, so the tag before the term is checked instead.
static TAGGED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)^([^\n:—–]{2,60}?)\s*(?::|—|–)\s+((?:[Aa]n?|[Tt]he|[Aa]ny|[Oo]ne)\s.+)$").expect("a constant")
});
static ENVIRONMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)\\begin\{definition\}(?:\[([^\]]{2,60})\])?\s*(?:\\label\{[^}]*\}\s*)?(.*?)\s*\\end\{definition\}")
        .expect("a constant")
});
static EMPHASIS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\\(?:emph|textbf|textit)\{([^}]{2,60})\}").expect("a constant"));
/// Headers of the columns with terms in glossary tables.
static TERM_COLUMN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)^(?:term|word|abbreviation|acronym|concept)s?$").expect("a constant"));
static MEANING_COLUMN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:meaning|definition|explanation|stands for|what it means)s?$").expect("a constant")
});

/// Patterns for a defining sentence, with their confidence: group `t` is the term, group `d` its meaning.
static SENTENCES: LazyLock<Vec<(Regex, f64)>> = LazyLock::new(|| {
    let term = r"(?P<t>[\p{L}\d][\p{L}\d’'/+() -]{1,60}?)";
    let marked = r"(?:\*\*|__|\*|_|`|“|\x22|‘|``|\\emph\{|\\textbf\{|\\textit\{)(?P<t>[^*_`”\x22’}]{2,60})(?:\*\*|__|\*|_|`|”|\x22|’|''|\})";
    let article = r"^(?:In (?:this|our) \w+, )?(?:[Aa]n? |[Tt]he (?:term |word )?|[Aa] )?";
    [
        (format!(r"{article}(?:{marked}|{term})(?: \([^)]*\))? (?:is|are|was) defined (?:as|to be) (?P<d>.+)$"), 0.97),
        (
            format!(
                r"{article}{marked}(?: \([^)]*\))?,? (?:(?:is|are) (?P<d>(?:an?|the|any|one|those|that|what) .+)|(?:means|refers to|denotes|describes|stands for) (?P<e>.+))$"
            ),
            0.93,
        ),
        (format!(r"{article}(?:{marked}|{term})(?: \([^)]*\))? (?:refers to|denotes|stands for|is short for|is the (?:term|name|word) for) (?P<d>.+)$"), 0.92),
        // A definition by a class and a distinguishing property: `A glacier is a body of ice that moves`.
        (
            String::from(
                r"^(?:In (?:this|our) \w+, )?[Aa]n? (?P<t>[\p{L}\d’'-]+(?: [\p{Ll}\d’'-]+){0,3}?)(?: \([^)]*\))? is (?P<d>(?:an?|the|any) .*?\b(?:that|which|who|whose|where|in which|for which|on which|by which|with which|used (?:to|for|as)|consisting of|made of)\b.+)$",
            ),
            0.75,
        ),
        (format!(r"^{marked}(?:,[^,]{{3,60}},)? (?:means|includes|has the meaning) (?P<d>.+)$"), 0.93),
        (format!(r"^(?:{marked}|{term})\s*:=\s*(?P<d>.+)$"), 0.93),
        (format!(r"(?:^|[,:] )(?:[Ww]e|I) (?:define|call) (?:an? |the )?(?:{marked}|{term}) (?:as|to be) (?P<d>.+)$"), 0.95),
        (format!(r"^By (?:an? |the )?(?:{marked}|{term}),? (?:we|I) mean (?P<d>.+)$"), 0.95),
        (format!(r"^(?:The term|The word) (?:{marked}|{term}) (?:means|describes|covers) (?P<d>.+)$"), 0.95),
        (format!(r"^(?P<d>.{{15,300}}?),? (?:is|are) (?:called|termed|known as) (?:an? |the )?(?:{marked}|{term})[.]?$"), 0.9),
    ]
    .into_iter()
    .map(|(pattern, confidence)| (compile_pattern(&pattern), confidence))
    .collect()
});

/// Compiles a pattern and renames its second group `t` to `u`, because a regex may not repeat a group name.
fn compile_pattern(pattern: &str) -> Regex {
    let second = pattern.match_indices("(?P<t>").nth(1).map(|it| it.0);
    let pattern = match second {
        Some(at) => format!("{}(?P<u>{}", &pattern[..at], &pattern[at + "(?P<t>".len()..]),
        None => pattern.to_string(),
    };
    Regex::new(&format!("(?s){pattern}")).expect("a constant")
}

/// Finds the definitions of a document.
pub(crate) fn find_definitions(source: &SourceDocument) -> Vec<Object> {
    let mut found = Vec::new();
    for (at, passage) in source.passages.iter().enumerate() {
        let heading = source.heading(passage);
        if passage.role == PassageRole::Table {
            found.extend(table_definitions(source, passage));
        }
        if !passage.is_prose() || is_reference_heading(heading) {
            continue;
        }
        let listed = html_terms::dt_definition(source, at);
        let named = if listed.is_none() { html_terms::dfn_definitions(source, passage) } else { Vec::new() };
        if !named.is_empty() {
            let is_new = |it: &Object| !named.iter().any(|other| overlap(other.place.bytes, it.place.bytes));
            found.extend(sentence_definitions(source, passage).into_iter().filter(is_new));
            found.extend(named);
            continue;
        }
        let whole = listed.or_else(|| marked_definition(source, passage)).or_else(|| tex_definition(source, passage));
        if let Some(object) = whole {
            found.push(object);
        } else if LISTED.is_match(&passage.text) {
            found.extend(entry_definitions(source, passage, &LISTED));
        } else if passage.text.contains("\\begin{description}") {
            found.extend(entry_definitions(source, passage, &ITEM));
        } else if in_glossary_directive(source, passage) {
            found.extend(entry_definitions(source, passage, &DIRECTED));
        } else if is_hanging(source, passage) {
            found.extend(entry_definitions(source, passage, &HANGING));
        } else {
            let stated = sentence_definitions(source, passage);
            let is_glossary = GLOSSARY.is_match(heading.trim());
            let entries = if is_glossary { entry_definitions(source, passage, &ENTRY) } else { Vec::new() };
            found.extend(if entries.is_empty() || entries.len() < stated.len() { stated } else { entries });
        }
    }
    found
}

/// Returns whether two byte ranges overlap.
fn overlap(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.0 < other.1 && other.0 < one.1)
}

/// Finds the definition in a paragraph or item that begins with a bold or italic term.
fn marked_definition(source: &SourceDocument, passage: &Passage) -> Option<Object> {
    let is_page = source.is_page();
    let found = if is_page { TAGGED.captures(&passage.text)? } else { MARKED.captures(&passage.text)? };
    let (term, text) = (found.get(1)?, found.get(2)?);
    if is_page {
        let bytes = source.bytes(passage, &term.range())?;
        let before = source.raw.as_ref()?.text[..bytes.start].trim_end();
        if !["<strong>", "<b>", "<em>", "<i>", "<dfn>"].iter().any(|it| before.ends_with(it)) {
            return None;
        }
    }
    let fields = definition_fields(term.as_str(), text.as_str(), source.heading(passage));
    let range = term.start()..text.start() + text.as_str().trim_end().len();
    is_term(term.as_str()).then(|| Object::new(source.place(passage, &range), 0.9, fields))
}

/// Finds the definition in a TeX `definition` environment.
fn tex_definition(source: &SourceDocument, passage: &Passage) -> Option<Object> {
    let found = ENVIRONMENT.captures(&passage.text)?;
    let text = found.get(2)?;
    let emphasised = || EMPHASIS.captures(text.as_str()).and_then(|it| it.get(1));
    let term = found.get(1).or_else(emphasised)?.as_str().to_lowercase();
    let fields = definition_fields(&term, text.as_str(), source.heading(passage));
    is_term(&term).then(|| Object::new(source.place(passage, &text.range()), 0.95, fields))
}

/// Returns whether a passage can be a reStructuredText term: its first line is not indented and ends no sentence.
fn is_hanging(source: &SourceDocument, passage: &Passage) -> bool {
    let first = passage.text.lines().next().unwrap_or_default();
    let at_margin = || {
        let bytes = source.bytes(passage, &(0..passage.text.len()))?;
        Some(bytes.start == 0 || source.raw.as_ref()?.text[..bytes.start].ends_with('\n'))
    };
    matches!(source.extension.as_str(), "rst" | "rest")
        && !first.ends_with(['.', ':', ',', ';', '?', '!', '='])
        && first.starts_with(|it: char| it.is_alphabetic() || it == '`' || it == '*')
        && !first.starts_with("* ")
        && HANGING.is_match(&passage.text)
        && at_margin() == Some(true)
}

/// Returns whether a passage lies in a `.. glossary::` block.
fn in_glossary_directive(source: &SourceDocument, passage: &Passage) -> bool {
    let before = || {
        let bytes = source.bytes(passage, &(0..passage.text.len()))?;
        let above = source.raw.as_ref()?.text.get(..bytes.start)?;
        let directive =
            above.lines().rev().take(MAX_LINES_ABOVE).find(|it| !it.is_empty() && !it.starts_with([' ', '\t']))?;
        Some(directive.starts_with(".. glossary::"))
    };
    matches!(source.extension.as_str(), "rst" | "rest") && before() == Some(true)
}

/// Finds the definitions in the rows of a glossary table.
fn table_definitions(source: &SourceDocument, passage: &Passage) -> Vec<Object> {
    let heading = source.heading(passage);
    let mut lines = passage.text.lines();
    let Some((first, second)) = lines.next().and_then(|it| it.split_once(" | ")) else { return Vec::new() };
    let is_head = TERM_COLUMN.is_match(first.trim()) && MEANING_COLUMN.is_match(second.trim());
    let is_glossary = GLOSSARY.is_match(heading.trim()) && !second.contains(" | ");
    if !is_head && !is_glossary {
        return Vec::new();
    }
    let object = |line: &str| {
        let (term, text) = line.split_once(" | ")?;
        let start = line.as_ptr() as usize - passage.text.as_ptr() as usize;
        let place = source.place(passage, &(start..start + line.len()));
        (is_term(term) && !text.trim().is_empty())
            .then(|| Object::new(place, 0.95, definition_fields(term, text, heading)))
    };
    lines.filter_map(object).collect()
}

/// Finds definitions by a pattern whose group 1 is the term and group 2 the meaning.
fn entry_definitions(source: &SourceDocument, passage: &Passage, pattern: &Regex) -> Vec<Object> {
    let object = |found: regex::Captures<'_>| {
        let (term, text) = (found.get(1)?, found.get(2)?);
        // Start at the mark of a TeX item, which is before the term; otherwise at the term.
        let start = if found[0].starts_with('\\') { found.get(0)?.start() } else { term.start() };
        let range = start..text.start() + text.as_str().trim_end().len();
        let object = || {
            Object::new(
                source.place(passage, &range),
                0.95,
                definition_fields(term.as_str(), text.as_str(), source.heading(passage)),
            )
        };
        is_term(term.as_str()).then(object)
    };
    pattern.captures_iter(&passage.text).filter_map(object).collect()
}

/// Splits a sentence into clauses at marks such as `(a)` at line starts, as in laws; the marks are removed.
fn split_clauses(text: &str, sentence: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = sentence.start;
    for mark in CLAUSE.find_iter(&text[sentence.clone()]) {
        parts.push(start..sentence.start + mark.start());
        start = sentence.start + mark.end();
    }
    parts.push(start..sentence.end);
    let trimmed = |it: Range<usize>| it.start..it.start + text[it].trim_end().len();
    parts.into_iter().map(trimmed).filter(|it| !it.is_empty()).collect()
}

/// Returns a sentence without the note numbers at its end.
fn strip_note_numbers(sentence: &str) -> &str {
    static NOTES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:\[[\d, –-]+\])+$").expect("a constant"));
    NOTES.find(sentence).map_or(sentence, |it| &sentence[..it.start()])
}

fn sentence_definitions(source: &SourceDocument, passage: &Passage) -> Vec<Object> {
    let mut found = Vec::new();
    for range in trimmed_sentences(&passage.text).into_iter().flat_map(|it| split_clauses(&passage.text, it)) {
        let sentence = strip_note_numbers(&passage.text[range.clone()]);
        let range = range.start..range.start + sentence.len();
        let defined =
            SENTENCES.iter().find_map(|(pattern, confidence)| Some((pattern.captures(sentence)?, *confidence)));
        let Some((parts, confidence)) = defined else { continue };
        if passage.quoted && confidence < MIN_CLEAR_CONFIDENCE {
            // Skip a quoted saying such as `A bore is a man who ...`, which defines nothing.
            continue;
        }
        let term = parts.name("t").or(parts.name("u")).map_or("", |it| it.as_str().trim());
        let text = parts.name("d").or(parts.name("e")).map_or("", |it| it.as_str());
        let text = text.trim_end_matches(" and").trim_end_matches(" or").trim_end_matches(['.', ';', ',']);
        if is_term(term) && text.split_whitespace().count() >= 3 {
            let fields = definition_fields(term, text, source.heading(passage));
            found.push(Object::new(source.place(passage, &range), confidence, fields));
        }
    }
    found
}
