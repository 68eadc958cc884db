//! Parses the start of a question: what it asks for (`find`, `how many`) and the noun for files after that. Pure functions.

use chrono::NaiveDate;

use crate::model::L0Filters;
use crate::planner::filters::{FILE_NOUNS, FILE_PRONOUNS};
use crate::planner::words::{Words, is_in_list};
use crate::planner::{attachment_questions, dates, file_types, filters, sizes};

/// The kind of request with which a question begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Opening {
    #[default]
    None,
    Find,
    List,
    Which,
    Count,
    Summarize,
}

pub(super) const POLITE_PHRASES: &[&str] = &[
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
const LIST_PHRASES: &[&str] =
    &["list", "list me", "give me a list of", "show me a list of", "make a list of", "enumerate"];
const FIND_PHRASES: &[&str] = &[
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
const WHICH_PHRASES: &[&str] = &["which", "what", "which of", "what are", "in which", "in what"];
const COUNT_PHRASES: &[&str] = &["how many", "count", "number of", "the number of", "what is the number of"];
const SUMMARIZE_PHRASES: &[&str] = &[
    "summarize",
    "summarise",
    "sum up",
    "give me a summary of",
    "give a summary of",
    "write a summary of",
    "make a summary of",
];
const DETERMINERS: &str = "all every any some the my our these those of me a an";
/// Adjectives of files that are skipped.
const ADJECTIVES: &str = "recent latest newest new old oldest big biggest large largest small smallest";

/// The parsed start of a question: opening phrase, determiners and a noun for files.
#[derive(Default)]
pub(super) struct Head {
    pub(super) opening: Opening,
    /// Index of the first word after the opening phrase.
    pub(super) open_end: usize,
    pub(super) is_all: bool,
    /// Range of words of the noun for files, with the determiner before it and nouns joined by `and` or `or`.
    pub(super) noun: Option<(usize, usize)>,
    pub(super) plural: bool,
    pub(super) extensions: Vec<String>,
}

/// Parses the start of a question; a date or owner before the noun (`anna's files`) becomes a filter.
pub(super) fn parse_head(words: &Words, today: NaiveDate, filters: &mut L0Filters) -> Head {
    let mut head = Head::default();
    let mut at = 0;
    while let Some(length) = words.match_longest(at, POLITE_PHRASES) {
        at += length;
    }
    let openings = [
        (Opening::Count, COUNT_PHRASES),
        (Opening::Summarize, SUMMARIZE_PHRASES),
        (Opening::List, LIST_PHRASES),
        (Opening::Find, FIND_PHRASES),
        (Opening::Which, WHICH_PHRASES),
    ];
    let found = openings.into_iter().filter_map(|(it, phrases)| Some((words.match_longest(at, phrases)?, it)));
    // Takes the longest opening phrase, and the first of equally long ones.
    if let Some((length, opening)) = found.reduce(|best, it| if it.0 > best.0 { it } else { best }) {
        head.opening = opening;
        at += length;
    }
    head.open_end = at;
    // The words of an order by date are used already.
    let is_skipped = |at: usize| {
        words.is_used(at)
            || is_in_list(DETERMINERS, words.normalized_at(at))
            || is_in_list(ADJECTIVES, words.normalized_at(at))
    };
    while is_skipped(at) {
        head.is_all |= matches!(words.normalized_at(at), "all" | "every");
        at += 1;
    }
    let possessive = parse_possessive(words, at, today, filters);
    let start = at + possessive;
    let mine = words.normalized_at(head.open_end) == "my" || head.is_all;
    let bare = head.opening == Opening::None && !mine;
    if let Some((end, plural, extensions)) = parse_nouns(words, start, bare && possessive == 0, today) {
        head.noun = Some((at, end));
        head.plural = plural;
        head.extensions = extensions;
    } else if possessive > 0 {
        *filters = L0Filters::default();
    }
    head
}

/// Parses a possessive at word `at`: `today's notes`, `last week's files`, `anna's files`. Sets the filter and returns the
/// length of the possessive in words, or 0.
fn parse_possessive(words: &Words, at: usize, today: NaiveDate, filters: &mut L0Filters) -> usize {
    /// Words with `'s` that are not user names.
    const NON_USER_POSSESSORS: &str = "it that what who where here there client company customer everyone today user team patient author program let \
         world yesterday tomorrow week month year";
    let period: Vec<String> = (at..at + 2)
        .map_while(|it| {
            Some(words.normalized_at(it)).filter(|it| !it.is_empty()).map(|it| it.trim_end_matches("'s").to_string())
        })
        .collect();
    for length in 1..=period.len() {
        if !words.normalized_at(at + length - 1).ends_with("'s") {
            continue;
        }
        let plain: Vec<&str> = period[..length].iter().map(String::as_str).collect();
        if let Some((bounds, taken)) = dates::parse_bounds(&plain, today)
            && taken == length
        {
            filters::set_bounds(filters, bounds);
            return length;
        }
    }
    let name = words.normalized_at(at).strip_suffix("'s").unwrap_or("");
    let before = words.normalized_at(at.wrapping_sub(1));
    let person = !name.is_empty() && name.chars().all(char::is_alphanumeric) && !is_in_list(NON_USER_POSSESSORS, name);
    if person
        && words.normalized_at(at + 1) == "files"
        && (matches!(before, "all" | "every") || !is_in_list(DETERMINERS, before))
    {
        let typed = &words.0[at].text;
        filters.owner = Some(typed.chars().take(name.chars().count()).collect());
        return 1;
    }
    0
}

/// Parses nouns for files joined by `and` or `or`. Returns the index after the last noun, whether a noun is plural, and the
/// extensions.
fn parse_nouns(words: &Words, start: usize, bare: bool, today: NaiveDate) -> Option<(usize, bool, Vec<String>)> {
    let (mut at, mut extensions, mut plural) = (start, Vec::<String>::new(), false);
    let (mut generic, mut clear) = (false, true);
    loop {
        let mut length = 0;
        if let Some(kind) = file_types::parse_noun(&words.lookahead(at)) {
            plural |= kind.is_plural;
            clear &= kind.is_unambiguous;
            extensions.extend(kind.extensions);
            length = kind.length;
        } else if is_in_list(FILE_NOUNS, words.normalized_at(at))
            || at == start && is_in_list(FILE_PRONOUNS, words.normalized_at(at))
        {
            plural |= words.normalized_at(at).ends_with('s') || is_in_list(FILE_PRONOUNS, words.normalized_at(at));
            generic = true;
            length = 1;
        }
        if length == 0 {
            return None;
        }
        at += length;
        let joint = matches!(words.normalized_at(at), "and" | "or");
        let listed = words.0[at - 1].text.ends_with(',');
        let next = at + usize::from(joint);
        let noun = |it: usize| {
            is_in_list(FILE_NOUNS, words.normalized_at(it)) || file_types::parse_noun(&words.lookahead(it)).is_some()
        };
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
    if file_types::is_mail(&extensions) && may_follow_mail(words, at, today) {
        return Some((at, plural, extensions));
    }
    // After `the`, a noun may be the topic (`the photos in the newspaper`); `photos in the cellar folder` asks for files.
    let the = words.normalized_at(start.wrapping_sub(1)) == "the";
    let announced = !bare || clear && !the;
    (may_follow_noun(words, at, bare) && (announced || may_follow_ambiguous_noun(words, at, plural)))
        .then_some((at, plural, extensions))
}

/// Whether the words at `at` can only describe mail: when it was sent, from or to a person, or its attachments.
fn may_follow_mail(words: &Words, at: usize, today: NaiveDate) -> bool {
    let is_name = |at: usize| words.0.get(at).is_some_and(|it| it.text.starts_with(char::is_uppercase));
    dates::parse_bounds(&words.lookahead(at), today).is_some()
        || matches!(words.normalized_at(at), "sent" | "received")
        || attachment_questions::with_attachments(words, at).is_some()
        || matches!(words.normalized_at(at), "to" | "from") && is_name(at + 1)
}

/// Whether the word after a noun allows the noun to mean the files to find: `emails about`, but not `email security`.
fn may_follow_noun(words: &Words, at: usize, bare: bool) -> bool {
    /// Words that may follow a noun in a question without an opening phrase.
    const FOLLOWING_WORDS: &str = "about with from mentioning containing regarding concerning larger bigger smaller over under above below \
         modified edited saved changed created written updated owned since before after between in inside within older \
         newer i we whose to that last where named called at of on which taken until belonging up";
    const FOLLOWING_WORDS_AFTER_OPENING: &str = "without for mention mentions contain contains who have has do does did were was are is and or by not there \
         exist less more exceeding talk say says please yesterday today this related showing but those";
    let next = words.normalized_at(at);
    if words.0.get(at).is_some_and(|it| it.normalized.is_empty()) {
        return true;
    }
    next.is_empty() || is_in_list(FOLLOWING_WORDS, next) || !bare && is_in_list(FOLLOWING_WORDS_AFTER_OPENING, next)
}

/// Whether the word after an ambiguous noun allows the noun to mean the files to find, in a question without an opening
/// phrase. In `the notes of the scale`, `note that` and `archives in Hull` it does not.
fn may_follow_ambiguous_noun(words: &Words, at: usize, plural: bool) -> bool {
    const EXCLUDED_FOLLOWING_WORDS: &str = "of in on at to with above below under over before after";
    let next = words.normalized_at(at);
    let of_size =
        || next == "of" && (1..=3).any(|it| sizes::parse_size_words(&words.lookahead(at + it), None).is_some());
    if plural && of_size() {
        return true;
    }
    if plural {
        !is_in_list(EXCLUDED_FOLLOWING_WORDS, next) || next != "of" && words.is_condition(at)
    } else {
        matches!(next, "about" | "from" | "called" | "named")
    }
}
