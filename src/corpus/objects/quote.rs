//! Finds quotes: block quotations, and text between quotation marks.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::json;

use crate::corpus::document::location::SourceLocation;
use crate::corpus::document::passages::{Passage, PassageRole, SourceDocument, strip_tags};
use crate::corpus::objects::object::Object;
use crate::corpus::objects::reference::is_reference_heading;
use crate::corpus::text::words::{truncate_to_line, words};
use crate::text::trimmed_sentences;

/// Minimum words of a quote in quotation marks; fewer words are a name or are quoted for emphasis.
const MIN_WORDS: usize = 5;

/// Minimum words of a quote in quotation marks whose speaker is named.
const MIN_ATTRIBUTED_WORDS: usize = 3;

const NAME: &str = r"(?:\p{Lu}[\p{L}’'.-]*|van|von|de|der|of)(?: (?:\p{Lu}[\p{L}’'.-]*|van|von|de|der|of)){0,4}";
const SAID: &str = "said|says|wrote|writes|noted|notes|argued|argues|explained|explains|asked|replied|added|remarked|put it|told us|warned|recalled|observed|testified|stated|declared|claimed|insisted|concluded|reported|sagte|schrieb|meinte|erklärte|fragte|a dit|disait|écrit|a écrit";

static INLINE: LazyLock<Regex> = LazyLock::new(|| {
    // Quotation marks: English, straight, German low and high, French, German pointing inwards, TeX.
    Regex::new(r#"“([^”“]{10,1500})”|"([^"]{10,1500})"|„([^„“”]{10,1500})[“”]|«([^«»]{10,1500})»|»(\S[^«»]{9,1500})«|``([^`]{10,1500}?)''"#)
        .expect("a constant")
});
static AFTER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(
        r"^[,.]?\s*(?:(?:{SAID})\s+({NAME})|(?:—|–|--)\s*({NAME})|\(({NAME})(?:,[^)]*)?\)|(?:as\s+)?({NAME})\s+(?:{SAID}))"
    ))
    .expect("a constant")
});
static BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"(?:({NAME})(?:,[^,]{{1,60}},)?\s+(?:{SAID})(?: \p{{Ll}}+)?|(?:[Aa]ccording to|[Ii]n the words of|[Aa]s) ({NAME})(?:\s+(?:{SAID}))?)\s*[,:]?\s*$"))
        .expect("a constant")
});
static SIGNED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*(?:—|–|--|-)\s*([^\n]{2,80})\s*\z").expect("a constant"));
static WROTE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!(r"({NAME})(?: <[^>]*>)? wrote:\s*$")).expect("a constant"));
static TEX_QUOTE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)\\begin\{(?:quote|quotation)\}\s*(.*?)\s*\\end\{(?:quote|quotation)\}").expect("a constant")
});

static TAGGED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?is)<q\b[^>]*>(.{1,1500}?)</q\s*>").expect("a constant"));

/// A callout, which some markup writes as a block quotation: `[!NOTE]`, `**Note**`.
static REMARK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:\[!\w+\]|(?:\*\*|__)?(?:note|warning|tip|caution|important|info|danger|hint|attention)(?:\*\*|__)?\s*(?::|\n))")
        .expect("a constant")
});
/// `.. epigraph::` and similar directives; the indented text below is the quotation.
static DIRECTIVE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\.\. (?:epigraph|pull-quote|highlights)::\s*$").expect("a constant"));

/// Finds the quotes of a document.
pub(crate) fn find_quotes(source: &SourceDocument) -> Vec<Object> {
    let mut found = Vec::new();
    for (at, passage) in source.passages.iter().enumerate() {
        if !passage.is_prose() {
            continue;
        }
        let lines_quoted = || passage.text.lines().all(|it| it.trim_start().starts_with('>'));
        let directed = || at.checked_sub(1).is_some_and(|it| DIRECTIVE.is_match(&source.passages[it].text));
        if passage.quoted || lines_quoted() || directed() {
            found.extend(block_quote(source, at));
        } else if let Some(object) = reply_quote(source, passage) {
            found.push(object);
        } else if let Some(tex) = TEX_QUOTE.captures(&passage.text) {
            let text = tex.get(1).map_or(0..0, |it| it.range());
            found.extend(quote_object(source.place(passage, &text), &tex[1], None, source.heading(passage), 0.96));
        } else if !is_reference_heading(source.heading(passage)) {
            found.extend(inline_quotes(source, passage));
        }
    }
    found
}

/// Returns a block quotation, with its author from the signature after it or the introduction before it.
fn block_quote(source: &SourceDocument, at: usize) -> Option<Object> {
    let passage = &source.passages[at];
    let bare: Vec<&str> = passage.text.lines().map(|it| it.trim_start().trim_start_matches(['>', ' '])).collect();
    let bare = bare.join("\n");
    if REMARK.is_match(&bare) {
        return None;
    }
    if let (Some(before), true) =
        (at.checked_sub(1).map(|it| &source.passages[it]), signature(&bare).is_some_and(|it| it.1 == 0))
        && before.quoted
    {
        // Skip a passage that is only a signature, because it belongs to the quotation before it.
        return None;
    }
    let (text, mut author) = match signature(&bare) {
        Some((name, length)) => (bare[..length].trim_end().to_string(), Some(name)),
        None => (bare.clone(), None),
    };
    if author.is_none() {
        let next = source.passages.get(at + 1).filter(|it| matches!(it.role, PassageRole::Prose | PassageRole::Item));
        author = next.and_then(|it| signature(&it.text)).filter(|it| it.1 == 0).map(|it| it.0);
    }
    if author.is_none() {
        let before = at.checked_sub(1).map(|it| source.passages[it].text.as_str()).unwrap_or_default();
        author = WROTE.captures(before).or_else(|| BEFORE.captures(before)).and_then(|it| speaker_name(&it));
    }
    let context = if source.heading(passage).is_empty() { "" } else { source.heading(passage) };
    quote_object(source.place_of(passage), &text, author, context, 0.96)
}

/// Returns a quotation whose lines stand directly below an introduction such as `Ann wrote:`, as in mails.
fn reply_quote(source: &SourceDocument, passage: &Passage) -> Option<Object> {
    let text = &passage.text;
    let start = text.find("\n>")? + 1;
    let named = WROTE.captures(&text[..start]).and_then(|it| speaker_name(&it))?;
    let length: usize = text[start..].split_inclusive('\n').take_while(|it| it.starts_with('>')).map(str::len).sum();
    let range = start..start + text[start..start + length].trim_end().len();
    let bare: Vec<&str> = text[range.clone()].lines().map(|it| it.trim_start_matches(['>', ' '])).collect();
    quote_object(source.place(passage, &range), &bare.join("\n"), Some(named), source.heading(passage), 0.95)
}

/// Finds the signature at the end of a text: returns the name, and the length of the text before the signature.
fn signature(text: &str) -> Option<(String, usize)> {
    let found = SIGNED.captures(text)?;
    let length = text[..found.get(0)?.start()].trim_end().len();
    let name = found[1].trim().trim_matches(['*', '_']).split(',').next().unwrap_or_default().trim().to_string();
    let begins_upper = name.chars().next().is_some_and(char::is_uppercase);
    (begins_upper && name.split(' ').count() <= 6 && !name.ends_with('.')).then_some((name, length))
}

fn speaker_name(found: &regex::Captures<'_>) -> Option<String> {
    let name = (1..found.len()).find_map(|it| found.get(it))?.as_str();
    let name =
        ["As ", "But ", "And ", "When ", "Then ", "Later "].iter().find_map(|it| name.strip_prefix(it)).unwrap_or(name);
    Some(name.trim_end_matches(['.', ',']).to_string())
}

/// Finds quotations between quotation marks in running text, or in `<q>` tags of a web page.
fn inline_quotes(source: &SourceDocument, passage: &Passage) -> Vec<Object> {
    let text = &passage.text;
    let object = |found: regex::Captures<'_>| {
        let all = found.get(0)?;
        let inner = (1..found.len()).find_map(|it| found.get(it))?;
        let starts_well =
            text[..all.start()].chars().next_back().is_none_or(|it| !it.is_alphanumeric() && !"=\\".contains(it));
        let in_code = text[..all.start()].matches('`').count() % 2 == 1 && !all.as_str().starts_with('`');
        if !starts_well || in_code {
            return None;
        }
        // Leave out the spaces that separate French quotation marks from the text.
        let leading = inner.as_str().len() - inner.as_str().trim_start().len();
        let part = inner.start() + leading..inner.start() + inner.as_str().trim_end().len();
        running_text_quote(source, passage, &all.range(), &part)
    };
    let mut found: Vec<Object> = INLINE.captures_iter(text).filter_map(object).collect();
    if source.is_page() {
        found.extend(q_tag_quotes(source, passage));
    }
    found
}

/// Finds quotations in `<q>` tags. Skips a quotation that also has quotation marks: it is found as inline text already.
fn q_tag_quotes(source: &SourceDocument, passage: &Passage) -> Vec<Object> {
    let Some((raw, bytes)) = source.raw.as_ref().zip(source.markup_around(passage)) else { return Vec::new() };
    let object = |found: regex::Captures<'_>| {
        let inner = found.get(1)?;
        let words = strip_tags(inner.as_str());
        let part = source.locate_words(passage, &words, &(bytes.start + inner.start()..bytes.start + inner.end()))?;
        let is_marked = words.starts_with(|it: char| "“\"„«»".contains(it));
        running_text_quote(source, passage, &part, &part).filter(|_| !is_marked)
    };
    TAGGED.captures_iter(&raw.text[bytes.clone()]).filter_map(object).collect()
}

/// Creates a quote in running text: `part` is the range of its words, `all` includes the quotation marks.
fn running_text_quote(
    source: &SourceDocument,
    passage: &Passage,
    all: &Range<usize>,
    part: &Range<usize>,
) -> Option<Object> {
    let (text, inner) = (&passage.text, &passage.text[part.clone()]);
    let after = AFTER.captures(&text[all.end..]);
    let before = BEFORE.captures(&text[..all.start]).filter(|_| after.is_none());
    // Do not count a name in parentheses as the speaker, because it can refer to something else.
    let is_said = before.is_some() || after.as_ref().is_some_and(|it| it.get(1).or(it.get(4)).is_some());
    let author = after.or(before).and_then(|it| speaker_name(&it));
    let fewest = if is_said { MIN_ATTRIBUTED_WORDS } else { MIN_WORDS };
    if words(inner).count() < fewest || inner.contains("://") {
        return None;
    }
    let confidence = if author.is_some() { 0.93 } else { 0.8 };
    quote_object(source.place(passage, part), inner, author, &sentence_around(text, all), confidence)
}

fn sentence_around(text: &str, part: &Range<usize>) -> String {
    let sentence = trimmed_sentences(text).into_iter().find(|it| it.contains(&part.start)).unwrap_or(part.clone());
    truncate_to_line(&text[sentence.start..sentence.end.max(part.end)], 200)
}

fn quote_object(
    place: SourceLocation,
    text: &str,
    author: Option<String>,
    context: &str,
    confidence: f64,
) -> Option<Object> {
    let count = words(text).count();
    let fields =
        json!({"text": text.trim(), "author": author, "context": truncate_to_line(context, 200), "word_count": count});
    (count > 0).then(|| Object::new(place, confidence, fields))
}
