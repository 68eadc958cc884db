//! The English rules of the planner: intent, metadata filters and search text of a question. Pure functions.
//!
//! A wrong filter excludes the answer, while a missing filter only leaves more files to rank. Therefore a rule matches only
//! clear words. A file type becomes a filter where the user looks for files of that type (`find PDFs about ...`) or in one
//! (`in the spreadsheet`), not where it is the subject (`email security`).

use chrono::NaiveDate;

use crate::model::{DateOrder, L0Filters};
use crate::planner::dates::Bounds;
use crate::planner::question_type::{Head, Opening, POLITE_PHRASES, parse_head};
use crate::planner::words::{Word, Words, is_in_list};
use crate::planner::{attachment_questions, date_order, file_types, filters, l2_skills, listing};

/// What the rules found in a question without its operators.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RuleResult {
    pub(super) intent: &'static str,
    pub(super) filters: L0Filters,
    /// The text to search for; `None` when files are only listed.
    pub(super) text: Option<String>,
    pub(super) threshold: Option<f64>,
    pub(super) date_order: Option<DateOrder>,
    pub(super) skills: Vec<String>,
}

const QUESTION_WORDS: &[&str] = &[
    "who",
    "what",
    "when",
    "where",
    "why",
    "how",
    "which",
    "whose",
    "whom",
    "how many",
    "how much",
    "how long",
    "how often",
];
const AUXILIARY_VERBS: &str = "is are was were do does did can could should must will would has have had";
/// Words between a noun for files and the topic of the files: `notes that talk about rent`.
const CONNECTOR_PHRASES: &[&str] = &[
    "about",
    "on",
    "of",
    "with",
    "that",
    "which",
    "mention",
    "mentions",
    "mentioning",
    "contain",
    "contains",
    "containing",
    "regarding",
    "concerning",
    "where",
    "for",
    "talk about",
    "talking about",
    "related to",
    "that talk about",
    "and",
    "are",
    "is",
    "have",
    "has",
    "do i have",
    "do we have",
    "called",
    "named",
    "with the name",
    "whose name is",
    "whose name contains",
    "whose names contain",
    "something to do with",
    "to do with",
    "deal with",
    "dealing with",
];
/// Phrases at the end of a question for files. They are left out of the search text.
const TAIL_PHRASES: &[&str] =
    &["in their name", "in their names", "in its name", "in the name", "somewhere", "mentioned", "exist", "please"];
const FILLER_PHRASES: &[&str] = &[
    "are there",
    "there are",
    "do i have",
    "do we have",
    "exist",
    "are in it",
    "is there",
    "do i own",
    "i",
    "we",
    "did i get",
    "did i receive",
    "did we get",
];
const ARTICLES: &str = "the a an";

/// Applies the rules to the words of a question.
pub(super) fn apply_rules(mut words: Words, today: NaiveDate) -> RuleResult {
    let mut filters = L0Filters::default();
    let date_order = date_order::take_date_order(&mut words);
    let mut head = parse_head(&words, today, &mut filters);
    let attached = attachment_questions::find_attachment_request(&words);
    if let Some(span) = attached {
        restrict_to_mail(&mut head, span);
    }
    filters.extensions = head.extensions.clone();
    if filters.extensions.is_empty() {
        filters.extensions = file_type_of_place(&words);
    }
    filters::read_filters(&mut words, today, head.noun.is_some(), &mut filters);
    attached.into_iter().for_each(|it| words.mark_used(it.start, it.end));
    let threshold = take_threshold(&mut words);
    let skills = l2_skills::needed_skills(&words, &mut filters);
    if let Some(bounds) = bare_listing(&words, &head, &filters, today) {
        filters::set_bounds(&mut filters, bounds);
        return RuleResult { intent: "list", filters, date_order, ..RuleResult::default() };
    }
    let text = search_text(&words, &head, &filters.extensions);
    let intent = intent(&head, text.as_deref(), &skills);
    let listed = matches!(intent, "list" | "count");
    // Drops the skills, because files are listed by metadata, and none is read.
    let skills = if listed { Vec::new() } else { skills };
    // If nothing but conditions is left to search for, searches for the words of the conditions.
    let all = || Some(text_from(&words, head.open_end)).filter(|it| !it.is_empty());
    let text = if listed { text } else { text.or_else(all) };
    RuleResult { intent, filters, text, threshold, date_order, skills }
}

/// Returns the dates of a question that has no words but those of a date condition; `None` for any other question.
fn bare_listing(words: &Words, head: &Head, filters: &L0Filters, today: NaiveDate) -> Option<Bounds> {
    let is_dated = filters.modified_after.is_some() || filters.modified_before.is_some();
    let is_question = matches!(head.opening, Opening::Count | Opening::Summarize);
    if is_dated || is_question || head.noun.is_some() { None } else { listing::bare_period(words, today) }
}

/// Makes mail the file type to search, because an attachment is found in the file of its mail.
fn restrict_to_mail(head: &mut Head, span: attachment_questions::AttachmentSpan) {
    head.extensions = file_types::mail_extensions();
    if span.names_mail {
        // The mail is the file to find, even if the question begins with the file type of the attachment.
        *head = Head { opening: Opening::Find, extensions: file_types::mail_extensions(), ..Head::default() };
        head.noun = (span.start == 0).then_some((0, span.end));
    }
}

fn intent(head: &Head, text: Option<&str>, skills: &[String]) -> &'static str {
    let files = head.noun.is_some();
    match head.opening {
        Opening::Count if files => "count",
        Opening::Summarize => "summarize",
        Opening::List if files => "list",
        Opening::Which if files && head.plural => "list",
        Opening::Find if files && head.is_all => "list",
        _ if files && text.is_none() => "list",
        _ if !skills.is_empty() => "read_evidence",
        _ => "search",
    }
}

/// Returns the extensions of the file type that a question searches in: `in the spreadsheet`, `does the PDF mention`.
fn file_type_of_place(words: &Words) -> Vec<String> {
    for at in 1..words.len() {
        let determiner =
            matches!(words.normalized_at(at - 1), "the" | "my" | "our" | "all" | "these" | "those" | "any");
        let Some(kind) = determiner.then(|| file_types::parse_noun(&words.lookahead(at))).flatten() else { continue };
        let mine = words.normalized_at(at - 1) != "the";
        if !(kind.is_unambiguous || mine && kind.is_plural) {
            continue;
        }
        let before = words.normalized_at(at.wrapping_sub(2));
        let next = words.normalized_at(at + kind.length);
        let within = matches!(before, "in" | "inside" | "within" | "from" | "through");
        let subject = at >= 2 && is_in_list(AUXILIARY_VERBS, before);
        let ends =
            matches!(next, "" | "about" | "with" | "that" | "from" | "mention" | "say" | "says" | "contain" | "on");
        let verb = subject && matches!(next, "parse" | "handle" | "work" | "do" | "use" | "read");
        if (within || subject) && (ends || verb) {
            return kind.extensions;
        }
    }
    Vec::new()
}

/// Parses a minimum similarity and marks its words as used: `with similarity above 0.8`, `at least 80% similar`.
fn take_threshold(words: &mut Words) -> Option<f64> {
    for at in 0..words.len() {
        let forms = [
            "with similarity above",
            "with a similarity above",
            "with similarity of at least",
            "with a similarity of at least",
            "similarity above",
            "similarity of at least",
            "similarity over",
        ];
        if let Some(length) = words.match_longest(at, &forms)
            && let Some(value) = parse_share(words.normalized_at(at + length))
        {
            words.mark_used(at, at + length + 1);
            return Some(value);
        }
        if words.match_phrase(at, "at least").is_some()
            && words.normalized_at(at + 3) == "similar"
            && let Some(value) = parse_share(words.normalized_at(at + 2))
        {
            words.mark_used(at, at + 4);
            return Some(value);
        }
    }
    None
}

fn parse_share(text: &str) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => text.parse::<f64>().ok()?,
    };
    (0.0..=1.0).contains(&value).then_some(value)
}

/// Returns the question without opening phrase, nouns for files and conditions; `None` if nothing is left.
fn search_text(words: &Words, head: &Head, extensions: &[String]) -> Option<String> {
    let mut rest = words.clone();
    let opened = head.opening != Opening::None && head.opening != Opening::Which && head.opening != Opening::Count;
    if let Some((_, end)) = head.noun {
        rest.mark_used(0, end);
    } else if opened || head.open_end > 0 && head.opening == Opening::None {
        rest.mark_used(0, head.open_end);
    }
    let left = Words(rest.0.into_iter().filter(|it| !it.is_used).collect());
    let mut start = 0;
    if head.noun.is_some() {
        let filler = left.match_longest(0, FILLER_PHRASES).filter(|it| *it == left.len());
        start = filler.unwrap_or(0);
        while let Some(length) = left.match_longest(start, CONNECTOR_PHRASES) {
            start += length;
        }
    } else if !words.is_foreign() {
        while let Some(length) = left.match_longest(start, POLITE_PHRASES) {
            start += length;
        }
        if let Some(length) = left.match_longest(start, QUESTION_WORDS) {
            start += length;
            while is_in_list(AUXILIARY_VERBS, left.normalized_at(start)) {
                start += 1;
            }
        }
    }
    while is_in_list(ARTICLES, left.normalized_at(start)) {
        start += 1;
    }
    // Skips `scanned`, which has become the filter on file types.
    if left.normalized_at(start) == "scanned" && extensions == file_types::scan_extensions() {
        start += 1;
    }
    let mut end = left.len();
    if head.noun.is_some() {
        let tail = |length: usize| {
            let from = left.len().checked_sub(length).filter(|it| *it > start)?;
            left.match_longest(from, TAIL_PHRASES).filter(|it| *it == length)
        };
        end -= (1..=3).filter_map(tail).max().unwrap_or(0);
    }
    let text = trim_punctuation(&typed_text(&left.0[start.min(end)..end]));
    // Searches the whole question if every word was stripped, as in `why` or `what is the`.
    let text = if text.is_empty() && head.noun.is_none() { text_from(words, 0) } else { text };
    Some(text).filter(|it| !it.is_empty())
}

/// Returns the question from word `start` on, including words that became filters.
fn text_from(words: &Words, start: usize) -> String {
    trim_punctuation(&typed_text(&words.0[start.min(words.len())..]))
}

/// Joins words as the user typed them.
fn typed_text(words: &[Word]) -> String {
    words.iter().map(|it| it.text.as_str()).filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ")
}

fn trim_punctuation(text: &str) -> String {
    text.trim_end_matches(['?', '.', '!', ',', ';', ':', ' ']).trim_start_matches([',', ';', ':', ' ']).to_string()
}
