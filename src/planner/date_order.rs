//! Finds the order by date that a question asks for: `the latest version of the lease`, `current mooring fee`, `oldest
//! agreement`. Pure functions.
//!
//! The words that ask for the order are left out of the search text only if they have no content there: `electric current`,
//! `the oldest pub` and `first aid` stay as they are.

use crate::model::DateOrder;
use crate::planner::file_types;
use crate::planner::filters::FILE_NOUNS;
use crate::planner::words::{Words, is_in_list};
use crate::text::function_words;

/// Nouns for states of a document.
const VERSIONS: &str = "version versions revision revisions edition editions draft drafts release releases";
/// Those of them that say nothing about the document: `the latest version of the lease` is the lease.
const EMPTY_VERSIONS: &str = "version versions revision revisions";
/// Nouns for documents, and for values that documents state. Beside them, `oldest` means the date of the document.
const DOCUMENTS: &str = "agreement bill bylaw certificate contract copy draft document edition estimate fee file form guide guideline handbook \
     invoice issue lease letter list mail manual memo message minutes newsletter note notice offer paper permit plan policy price \
     presentation procedure proposal quote rate receipt release report revision rota rule schedule spreadsheet statement statute summary \
     tariff timetable version";
/// Documents whose `last one` is the newest one. In `the last minutes` and `the last will` it is something else.
const LAST_DOCUMENTS: &str = "agreement bill contract draft edition invoice lease newsletter offer quote receipt report revision statement \
     version";
/// Endings of German nouns for documents, which are often parts of longer words: `Mietvertrag`.
const GERMAN_ENDINGS: [&str; 14] = [
    "vertrag",
    "verträge",
    "vertrags",
    "vereinbarung",
    "rechnung",
    "rechnungen",
    "bericht",
    "berichte",
    "protokoll",
    "protokolle",
    "ordnung",
    "satzung",
    "fassung",
    "gebühr",
];
/// Words after `current` with which it means a flow: `current density`.
const CURRENT_COMPOUNDS: &str = "account accounts affairs amplitude balance carrying carried clamp collector consumption density draw drawn event \
     events flow flowing flows gain leakage limit limiter limits loop loops loss measurement meter meters path peak probe pulse rating ratings \
     regulator ripple sensor sensors source sources speed strength surge transformer transformers directory folder user users node thread process \
     branch line time position page session stack frame element working";
/// Words before `current` that are no noun, so `current` is an adjective: `show current fee`.
const VERBS_BEFORE: &str = "find show list give search display need want tell please me apply applies";
/// Number of words after `oldest` among which a noun for a document must be.
const MAX_WORDS_TO_NOUN: usize = 4;

/// Finds the order by date, and marks its words as used if they have no content.
pub(super) fn take_date_order(words: &mut Words) -> Option<DateOrder> {
    for at in 0..words.len() {
        if words.is_used(at) || is_point_in_time(words, at) {
            continue;
        }
        let found = version_phrase(words, at).or_else(|| adjective(words, at));
        if let Some((order, length)) = found {
            words.mark_used(at, at + length);
            return Some(order);
        }
    }
    None
}

/// Whether a preposition makes the word part of a date: `the changes since the last release`.
fn is_point_in_time(words: &Words, at: usize) -> bool {
    let the = usize::from(words.normalized_at(at.wrapping_sub(1)) == "the");
    let preposition = at.checked_sub(1 + the).map_or("", |it| words.normalized_at(it));
    is_in_list("since before after until between", preposition)
}

/// Finds `latest version of` and `first edition`. Returns the order and the number of words without content.
fn version_phrase(words: &Words, at: usize) -> Option<(DateOrder, usize)> {
    const NEWEST: &[&str] =
        &["latest", "newest", "most recent", "current", "last", "final", "up to date", "up-to-date"];
    const OLDEST: &[&str] = &["first", "oldest", "earliest", "original", "initial"];
    let newest = words.match_longest(at, NEWEST).map(|it| (DateOrder::Newest, it));
    let (order, length) = newest.or_else(|| words.match_longest(at, OLDEST).map(|it| (DateOrder::Oldest, it)))?;
    let noun = words.normalized_at(at + length);
    if !is_in_list(VERSIONS, noun) {
        return None;
    }
    if !is_in_list(EMPTY_VERSIONS, noun) {
        return Some((order, length));
    }
    let of = usize::from(words.normalized_at(at + length + 1) == "of");
    Some((order, length + 1 + of))
}

/// Finds `latest`, `current`, `oldest` and the like. Returns the order and the number of words without content.
fn adjective(words: &Words, at: usize) -> Option<(DateOrder, usize)> {
    if words.match_phrase(at, "most recent").is_some() {
        return Some((DateOrder::Newest, 2));
    }
    match words.normalized_at(at) {
        "latest" => {
            let deadline =
                words.normalized_at(at.wrapping_sub(1)) == "the" && words.normalized_at(at.wrapping_sub(2)) == "at";
            (!deadline).then_some((DateOrder::Newest, 1))
        }
        "newest" => Some((DateOrder::Newest, usize::from(names_document(words, at)))),
        "current" => is_adjective_current(words, at).then_some((DateOrder::Newest, 1)),
        "oldest" | "earliest" => names_document(words, at).then_some((DateOrder::Oldest, 1)),
        "last" => is_one_of(words, at + 1, LAST_DOCUMENTS).then_some((DateOrder::Newest, 0)),
        _ => None,
    }
}

/// Whether a noun for a document or for files is among the next words, before the end of the phrase.
fn names_document(words: &Words, at: usize) -> bool {
    for next in at + 1..at + 1 + MAX_WORDS_TO_NOUN {
        if is_one_of(words, next, DOCUMENTS) || is_in_list(FILE_NOUNS, words.normalized_at(next)) {
            return true;
        }
        if file_types::parse_noun(&words.lookahead(next)).is_some() {
            return true;
        }
        let is_end = words.0.get(next).is_none_or(|it| it.text.ends_with([',', '.', ';', '?', '!']));
        let is_preposition = is_in_list("in at on of from with to for by that which who", words.normalized_at(next));
        if is_end || is_preposition && next > at + 1 {
            break;
        }
    }
    // In French and Spanish, the adjective follows the noun.
    let before = at.saturating_sub(MAX_WORDS_TO_NOUN)..at;
    words.is_foreign() && before.into_iter().any(|it| is_one_of(words, it, DOCUMENTS))
}

/// Whether the word at `at` is one of these nouns, or their plural, or a German compound that ends in a noun for documents.
fn is_one_of(words: &Words, at: usize, nouns: &str) -> bool {
    let word = words.normalized_at(at);
    let singular = word.strip_suffix("ies").map(|it| format!("{it}y"));
    let plain = words.plain_at(at);
    is_in_list(nouns, word)
        || is_in_list(nouns, word.strip_suffix('s').unwrap_or(word))
        || singular.is_some_and(|it| is_in_list(nouns, &it))
        || words.is_foreign() && GERMAN_ENDINGS.iter().any(|it| plain.len() > it.len() && plain.ends_with(it))
}

/// Whether `current` means `of now`, not a flow of water or electricity.
fn is_adjective_current(words: &Words, at: usize) -> bool {
    // In other languages the translated word has one meaning only.
    if words.is_foreign() {
        return true;
    }
    let next = words.normalized_at(at + 1);
    let has_noun = !next.is_empty() && !function_words::is_function_word(next) && !is_in_list(CURRENT_COMPOUNDS, next);
    let ends = words.0[at].text.ends_with([',', '.', ';', '?', '!']);
    let before = at.checked_sub(1).map(|it| words.normalized_at(it));
    let follows_noun = before
        .is_some_and(|it| !it.is_empty() && !function_words::is_function_word(it) && !is_in_list(VERBS_BEFORE, it));
    // Periods are dates: `the current year`.
    let is_period = is_in_list("day week month quarter year", next);
    has_noun && !ends && !follows_noun && !is_period
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::syntax;

    /// Returns the order, and the words that are left.
    fn check(question: &str) -> (Option<&'static str>, String) {
        let mut words = Words::new(&syntax::split_operators(question).1);
        let order = take_date_order(&mut words);
        let left: Vec<&str> = words.0.iter().filter(|it| !it.is_used).map(|it| it.text.as_str()).collect();
        (order.map(DateOrder::name), left.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn words_for_an_order_are_left_out() {
        for (question, order, left) in [
            ("current mooring fee", "newest", "mooring fee"),
            ("CURRENT MOORING FEE", "newest", "MOORING FEE"),
            ("what is the current price of diesel?", "newest", "what is the price of diesel?"),
            ("the latest version of the lease", "newest", "the the lease"),
            ("lease latest version", "newest", "lease"),
            ("most recent invoice of Hedda", "newest", "invoice of Hedda"),
            ("newest fee schedule", "newest", "fee schedule"),
            ("oldest mooring agreement", "oldest", "mooring agreement"),
            ("first version of the bylaws", "oldest", "the bylaws"),
            ("first draft of the bylaws", "oldest", "draft of the bylaws"),
            ("the oldest photos of the pier", "oldest", "the photos of the pier"),
            ("aktuelle Liegegebühr", "newest", "Liegegebühr"),
            ("die neueste Fassung des Mietvertrags", "newest", "die des Mietvertrags"),
            ("Was ist der älteste Liegeplatzvertrag?", "oldest", "Was ist der Liegeplatzvertrag?"),
            ("le tarif d'amarrage actuel", "newest", "le tarif d'amarrage"),
            ("la dernière version du bail", "newest", "bail"),
            ("le plus ancien contrat d'amarrage", "oldest", "contrat d'amarrage"),
            ("la tarifa actual de amarre", "newest", "la tarifa de amarre"),
            ("la última versión del contrato", "newest", "contrato"),
            ("el contrato más antiguo de amarre", "oldest", "el contrato de amarre"),
        ] {
            assert_eq!(check(question), (Some(order), left.to_string()), "{question}");
        }
    }

    #[test]
    fn word_with_content_stays() {
        for question in [
            "electric current",
            "current density of the coil",
            "the current in the harbour mouth",
            "ocean current speed",
            "current account of the club",
            "what is in the current directory",
            "python get current git branch",
            "the id of the current thread",
            "first aid",
            "actual costs",
            "the first mate's log",
            "the oldest pub in Skarvik",
            "the last minutes of the match",
            "the last will of Anna Boleyn",
            "pay at the latest on Friday",
            "the changes since the last release of the protocol",
            "Änderungen seit der letzten Fassung des Protokolls",
            "los cambios desde la última versión del protocolo",
        ] {
            assert_eq!(check(question), (None, question.to_string()), "{question}");
        }
        assert_eq!(check("\"current mooring fee\"").0, None);
    }

    #[test]
    fn last_document_is_the_newest_one() {
        assert_eq!(check("the last report on dredging"), (Some("newest"), "the last report on dredging".into()));
        assert_eq!(check("le dernier rapport sur le dragage").0, Some("newest"));
        assert_eq!(check("el último informe sobre el dragado").0, Some("newest"));
    }
}
