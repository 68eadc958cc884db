//! The rules: what kind of question, which files, which meaning. Pure.
//!
//! A wrong filter loses the answer and a missing one only lets other files compete, so a rule fires on clear words and
//! otherwise leaves the question as it is. A kind of files counts where the question names what it looks for (`find
//! PDFs about ...`) or where it looks (`in the spreadsheet`), not where it is the subject (`email security`).

use chrono::NaiveDate;

use crate::librarian::conditions::{self, FILE_NOUNS, FILE_PRONOUNS};
use crate::librarian::words::Words;
use crate::librarian::{dates, evidence, kinds};
use crate::model::L0Filters;

/// What the rules made of a question, operators aside.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) intent: &'static str,
    pub(super) filters: L0Filters,
    /// The meaning that is left; none when files are only listed.
    pub(super) text: Option<String>,
    pub(super) threshold: Option<f64>,
    pub(super) skills: Vec<String>,
}

/// What a question begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Opening {
    #[default]
    None,
    Find,
    List,
    Which,
    Count,
    Summarize,
}

const POLITE: &[&str] = &[
    "please",
    "hey",
    "hi",
    "hello",
    "can you",
    "could you",
    "would you",
    "will you",
    "i would like to",
    "i'd like to",
    "i want to",
    "tell me",
    "let me",
    "help me",
    "help me to",
];
const LIST: &[&str] = &["list", "list me", "give me a list of", "show me a list of", "make a list of", "enumerate"];
const FIND: &[&str] = &[
    "find",
    "find me",
    "show",
    "show me",
    "give me",
    "get",
    "get me",
    "search",
    "search for",
    "search in",
    "look for",
    "look up",
    "locate",
    "fetch",
    "i need",
    "i want",
    "i'm looking for",
    "i am looking for",
    "do i have",
    "do we have",
    "are there",
    "is there",
    "where are",
    "where is",
    "where can i find",
    "display",
    "see",
];
const WHICH: &[&str] = &["which", "what", "which of", "what are"];
const COUNT: &[&str] = &["how many", "count", "number of", "the number of", "what is the number of"];
const SUMMARIZE: &[&str] = &[
    "summarize",
    "summarise",
    "sum up",
    "give me a summary of",
    "give a summary of",
    "write a summary of",
    "make a summary of",
];
const DETERMINERS: &[&str] =
    &["all", "every", "any", "some", "the", "my", "our", "these", "those", "of", "me", "a", "an"];
/// Said of files, but no filter: sorting is not the librarian's.
const ADJECTIVES: &[&str] =
    &["recent", "latest", "newest", "new", "old", "oldest", "big", "biggest", "large", "largest", "small", "smallest"];
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
const AUXILIARIES: &[&str] = &[
    "is", "are", "was", "were", "do", "does", "did", "can", "could", "should", "must", "will", "would", "has", "have",
    "had",
];
/// Between a noun for files and what they are about.
const CONNECTORS: &[&str] = &[
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
];
const FILLERS: &[&str] =
    &["are there", "there are", "do i have", "do we have", "exist", "are in it", "is there", "do i own"];
const ARTICLES: &[&str] = &["the", "a", "an"];

/// What stands at the start: an opening, determiners, a noun for files.
#[derive(Default)]
struct Head {
    opening: Opening,
    /// First word behind the opening.
    open_end: usize,
    all: bool,
    /// First and behind the last word of the noun, joined nouns included.
    noun: Option<(usize, usize)>,
    plural: bool,
    extensions: Vec<String>,
}

/// Reads a question.
pub(super) fn read(mut words: Words, today: NaiveDate) -> Reading {
    let mut filters = L0Filters::default();
    let head = head(&mut words, today, &mut filters);
    filters.extensions = head.extensions.clone();
    if filters.extensions.is_empty() {
        filters.extensions = place(&words);
    }
    conditions::read(&mut words, today, &mut filters);
    let threshold = threshold(&mut words);
    let skills = evidence::skills(&words, &mut filters);
    let text = meaning(&words, &head, &filters.extensions);
    let intent = intent(&head, text.as_deref(), &skills);
    let listed = matches!(intent, "list" | "count");
    // A list of files is metadata: nothing is read for it.
    let skills = if listed { Vec::new() } else { skills };
    let text = if text.is_none() && !listed { Some(everything(&words)).filter(|it| !it.is_empty()) } else { text };
    Reading { intent, filters, text, threshold, skills }
}

fn intent(head: &Head, text: Option<&str>, skills: &[String]) -> &'static str {
    let files = head.noun.is_some();
    match head.opening {
        Opening::Count if files => "count",
        Opening::Summarize => "summarize",
        Opening::List if files => "list",
        Opening::Which if files && head.plural => "list",
        Opening::Find if files && head.all => "list",
        _ if files && text.is_none() => "list",
        _ if !skills.is_empty() => "read_evidence",
        _ => "search",
    }
}

fn head(words: &mut Words, today: NaiveDate, filters: &mut L0Filters) -> Head {
    let mut head = Head::default();
    let mut at = 0;
    while let Some(length) = words.longest(at, POLITE) {
        at += length;
    }
    let openings = [
        (Opening::Count, COUNT),
        (Opening::Summarize, SUMMARIZE),
        (Opening::List, LIST),
        (Opening::Find, FIND),
        (Opening::Which, WHICH),
    ];
    let found = openings.into_iter().filter_map(|(it, phrases)| Some((words.longest(at, phrases)?, it)));
    // The longest wins, the first of equals.
    if let Some((length, opening)) = found.reduce(|best, it| if it.0 > best.0 { it } else { best }) {
        head.opening = opening;
        at += length;
    }
    head.open_end = at;
    while DETERMINERS.contains(&words.at(at)) || ADJECTIVES.contains(&words.at(at)) {
        head.all |= matches!(words.at(at), "all" | "every");
        at += 1;
    }
    let possessive = possessive(words, at, today, filters);
    let start = at + possessive;
    let mine = words.at(head.open_end) == "my" || head.all;
    let bare = head.opening == Opening::None && !mine;
    if let Some((end, plural, extensions)) = nouns(words, start, bare && possessive == 0) {
        head.noun = Some((at, end));
        head.plural = plural;
        head.extensions = extensions;
    } else if possessive > 0 {
        *filters = L0Filters::default();
    }
    head
}

/// `today's notes`, `last week's files`, `anna's files`: sets the filter and returns the words it takes.
fn possessive(words: &Words, at: usize, today: NaiveDate, filters: &mut L0Filters) -> usize {
    /// Whose files are not those of a user.
    const ROLES: &[&str] = &[
        "it",
        "that",
        "what",
        "who",
        "where",
        "here",
        "there",
        "client",
        "company",
        "customer",
        "everyone",
        "today",
        "user",
        "team",
        "patient",
        "author",
        "program",
        "let",
        "world",
        "yesterday",
        "tomorrow",
        "week",
        "month",
        "year",
    ];
    let period: Vec<String> = (at..at + 2)
        .map_while(|it| Some(words.at(it)).filter(|it| !it.is_empty()).map(|it| it.trim_end_matches("'s").to_string()))
        .collect();
    for length in 1..=period.len() {
        if !words.at(at + length - 1).ends_with("'s") {
            continue;
        }
        let plain: Vec<&str> = period[..length].iter().map(String::as_str).collect();
        if let Some((bounds, taken)) = dates::bounds(&plain, today)
            && taken == length
        {
            conditions::set_bounds(filters, bounds);
            return length;
        }
    }
    let name = words.at(at).strip_suffix("'s").unwrap_or("");
    let before = words.at(at.wrapping_sub(1));
    let person = !name.is_empty() && name.chars().all(char::is_alphanumeric) && !ROLES.contains(&name);
    if person && words.at(at + 1) == "files" && !DETERMINERS[2..].contains(&before) {
        let typed = &words.0[at].text;
        filters.owner = Some(typed.chars().take(name.chars().count()).collect());
        return 1;
    }
    0
}

/// Nouns for files at a place, joined by `and` and `or`: their end, whether they are plural, their extensions.
fn nouns(words: &Words, start: usize, bare: bool) -> Option<(usize, bool, Vec<String>)> {
    let (mut at, mut extensions, mut plural) = (start, Vec::<String>::new(), false);
    let (mut generic, mut clear) = (false, true);
    loop {
        let mut length = 0;
        if let Some(kind) = kinds::noun(&words.from(at)) {
            plural |= kind.plural;
            clear &= kind.clear;
            extensions.extend(kind.extensions);
            length = kind.length;
        } else if FILE_NOUNS.contains(&words.at(at)) || at == start && FILE_PRONOUNS.contains(&words.at(at)) {
            plural |= words.at(at).ends_with('s') || FILE_PRONOUNS.contains(&words.at(at));
            generic = true;
            length = 1;
        }
        if length == 0 {
            return None;
        }
        at += length;
        let joint = matches!(words.at(at), "and" | "or");
        let listed = words.0[at - 1].text.ends_with(',');
        let next = at + usize::from(joint);
        let noun = |it: usize| FILE_NOUNS.contains(&words.at(it)) || kinds::noun(&words.from(it)).is_some();
        if !(joint || listed) || !noun(next) {
            break;
        }
        at = next;
    }
    if generic {
        extensions.clear();
    }
    let mut seen = std::collections::HashSet::new();
    extensions.retain(|it| seen.insert(it.clone()));
    let announced = !bare || clear;
    (follows(words, at, bare) && (announced || follows_closely(words, at, plural))).then_some((at, plural, extensions))
}

/// Whether what follows lets a noun be what is looked for: `emails about`, but not `email security`.
fn follows(words: &Words, at: usize, bare: bool) -> bool {
    /// Behind a noun that nothing announces.
    const CLOSE: &[&str] = &[
        "",
        "about",
        "with",
        "from",
        "mentioning",
        "containing",
        "regarding",
        "concerning",
        "larger",
        "bigger",
        "smaller",
        "over",
        "under",
        "above",
        "below",
        "modified",
        "edited",
        "saved",
        "changed",
        "created",
        "written",
        "updated",
        "owned",
        "since",
        "before",
        "after",
        "between",
        "in",
        "inside",
        "within",
        "older",
        "newer",
        "i",
        "we",
        "whose",
        "to",
        "that",
        "last",
        "where",
        "named",
        "called",
        "at",
        "of",
        "on",
        "which",
        "taken",
        "until",
        "belonging",
        "up",
    ];
    const MORE: &[&str] = &[
        "without",
        "for",
        "mention",
        "mentions",
        "contain",
        "contains",
        "who",
        "have",
        "has",
        "do",
        "does",
        "did",
        "were",
        "was",
        "are",
        "is",
        "and",
        "or",
        "by",
        "not",
        "there",
        "exist",
        "less",
        "more",
        "exceeding",
        "talk",
        "say",
        "says",
        "please",
        "yesterday",
        "today",
        "this",
        "related",
        "showing",
        "but",
    ];
    let next = words.at(at);
    if words.0.get(at).is_some_and(|it| it.bare.is_empty()) {
        return true;
    }
    CLOSE.contains(&next) || !bare && MORE.contains(&next)
}

/// What lets a noun with other meanings be what is looked for when nothing announces it: not `the notes of the scale`,
/// `note that`, `archives in Hull`.
fn follows_closely(words: &Words, at: usize, plural: bool) -> bool {
    const NOT: &[&str] = &["of", "in", "on", "at", "to", "with", "above", "below", "under", "over", "before", "after"];
    let next = words.at(at);
    if plural { !NOT.contains(&next) || next != "of" && words.is_sized(at) } else { matches!(next, "about" | "from") }
}

/// The kind of files that a question looks into without naming them first: `in the spreadsheet`, `does the PDF mention`.
fn place(words: &Words) -> Vec<String> {
    for at in 1..words.len() {
        let determiner = matches!(words.at(at - 1), "the" | "my" | "our" | "all" | "these" | "those" | "any");
        let Some(kind) = kinds::noun(&words.from(at)).filter(|_| determiner) else { continue };
        let mine = words.at(at - 1) != "the";
        if !kind.clear && !(mine && kind.plural) {
            continue;
        }
        let before = words.at(at.wrapping_sub(2));
        let next = words.at(at + kind.length);
        let within = matches!(before, "in" | "inside" | "within" | "from" | "through");
        let subject = at >= 2 && AUXILIARIES.contains(&before);
        let ends =
            matches!(next, "" | "about" | "with" | "that" | "from" | "mention" | "say" | "says" | "contain" | "on");
        let verb = subject && matches!(next, "parse" | "handle" | "work" | "do" | "use" | "read");
        if (within || subject) && (ends || verb) {
            return kind.extensions;
        }
    }
    Vec::new()
}

/// `with similarity above 0.8`, `at least 80% similar`.
fn threshold(words: &mut Words) -> Option<f64> {
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
        if let Some(length) = words.longest(at, &forms)
            && let Some(value) = share(words.at(at + length))
        {
            words.spend(at, at + length + 1);
            return Some(value);
        }
        if words.phrase(at, "at least").is_some()
            && words.at(at + 3) == "similar"
            && let Some(value) = share(words.at(at + 2))
        {
            words.spend(at, at + 4);
            return Some(value);
        }
    }
    None
}

fn share(text: &str) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => text.parse::<f64>().ok()?,
    };
    (0.0..=1.0).contains(&value).then_some(value)
}

/// What is left once opening, nouns for files and conditions are gone; none when nothing is.
fn meaning(words: &Words, head: &Head, extensions: &[String]) -> Option<String> {
    let mut rest = words.clone();
    let opened = head.opening != Opening::None && head.opening != Opening::Which && head.opening != Opening::Count;
    if let Some((_, end)) = head.noun {
        rest.spend(0, end);
    } else if opened || head.open_end > 0 && head.opening == Opening::None {
        rest.spend(0, head.open_end);
    }
    let left = Words(rest.0.into_iter().filter(|it| !it.used).collect());
    let mut start = 0;
    if head.noun.is_some() {
        let filler = left.longest(0, FILLERS).filter(|it| *it == left.len());
        start = filler.unwrap_or(0);
        while let Some(length) = left.longest(start, CONNECTORS) {
            start += length;
        }
    } else {
        while let Some(length) = left.longest(start, POLITE) {
            start += length;
        }
        if let Some(length) = left.longest(start, QUESTION_WORDS) {
            start += length;
            while AUXILIARIES.contains(&left.at(start)) {
                start += 1;
            }
        }
    }
    while ARTICLES.contains(&left.at(start)) {
        start += 1;
    }
    // It has become a filter.
    if left.at(start) == "scanned" && extensions == kinds::scans() {
        start += 1;
    }
    let text: Vec<&str> = left.0[start.min(left.len())..].iter().map(|it| it.text.as_str()).collect();
    let text = tidy(&text.join(" "));
    // What was stripped was all there was: `why`, `what is the`.
    let text = if text.is_empty() && head.noun.is_none() { everything(words) } else { text };
    Some(text).filter(|it| !it.is_empty())
}

/// The whole question, conditions included.
fn everything(words: &Words) -> String {
    tidy(&words.0.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join(" "))
}

fn tidy(text: &str) -> String {
    text.trim_end_matches(['?', '.', '!', ',', ';', ':', ' ']).trim_start_matches([',', ';', ':', ' ']).to_string()
}
