//! Turns phrases of a question into metadata filters: dates, sizes, owners, folders. A phrase becomes a filter only where it
//! clearly describes files: `files from 2021` does, `sales in 2021` is a subject to search for. Pure functions.

use chrono::NaiveDate;

use crate::model::L0Filters;
use crate::planner::dates::Bounds;
use crate::planner::words::{Words, is_in_list};
use crate::planner::{dates, file_types, sizes};

/// Nouns for files of any type.
pub(super) const FILE_NOUNS: &str = "file files document documents doc docs";
/// Pronouns that can stand for files: `everything modified yesterday`.
pub(super) const FILE_PRONOUNS: &str = "everything anything stuff";
/// Nouns for documents. They need a verb for files (`reports edited in 2021`), because a date beside them may also be a date
/// in the text (`report of 2021`).
const DOCUMENT_NOUNS: &str = "agreement budget certificate contract draft form invoice lease letter list manual memo minutes paper plan \
     presentation proposal receipt recipe report spreadsheet statement thesis";
/// Verbs that are used of files only.
const FILE_VERBS: &str = "modified edited saved uploaded downloaded scanned modify edit save";
/// Verbs that are used of files and of other things.
const GENERIC_VERBS: &str = "changed created written updated added touched made taken change";
/// Verbs that are about files if `I` or `we` is their subject: `what I edited`.
const FIRST_PERSON_VERBS: &str =
    "modified edited saved uploaded downloaded scanned wrote write edit save modify written";
/// Words that negate a condition: `files that were not modified since`.
const NEGATIONS: &str = "not never nobody haven't hasn't hadn't weren't wasn't aren't isn't didn't don't";
/// Words between a noun and its condition: `files that were only last modified`.
const LINK_WORDS: &str =
    "that those which are were is was have has had been and but only just last recently also got did do";
/// Words that may follow a condition. Before any other word, the date is part of a noun: `files from 2021 census`.
const FOLLOWING_WORDS: &str = "about on with without that which from in inside under within below of mentioning mention containing contain \
     regarding concerning for where whose and larger bigger smaller over above at between by modified edited saved \
     changed created written updated owned since before after to i we are is were was have say says show please but not \
     up less more";

/// A condition that describes files, as the noun or verb before it shows.
struct Anchor {
    /// Index of the first word of the condition, including the link words, verb and subject before it.
    start: usize,
    /// Whether the condition is negated: `files that were not modified since`.
    negated: bool,
}

/// Finds every condition of a question, marks its words as used, and adds it to `filters`.
///
/// `files` is true if the question asks for files.
pub(super) fn read_filters(words: &mut Words, today: NaiveDate, files: bool, filters: &mut L0Filters) {
    let mut at = 0;
    while at < words.len() {
        let taken = if words.is_used(at) {
            None
        } else {
            folder_filter(words, at, filters)
                .or_else(|| size_filter(words, at, files, filters))
                .or_else(|| date_filter(words, at, today, files, filters))
                .or_else(|| owner_filter(words, at, filters))
        };
        match taken {
            Some((start, end)) => {
                words.mark_used(start, end);
                at = end;
            }
            None => at += 1,
        }
    }
}

/// Sets the filters on the modification date to these bounds.
pub(super) fn set_bounds(filters: &mut L0Filters, bounds: Bounds) {
    let text = |it: NaiveDate| it.format("%Y-%m-%d").to_string();
    filters.modified_after = bounds.after.map(text);
    filters.modified_before = bounds.before.map(text);
}

fn date_filter(
    words: &Words,
    at: usize,
    today: NaiveDate,
    files: bool,
    filters: &mut L0Filters,
) -> Option<(usize, usize)> {
    let (mut bounds, mut length) = dates::parse_bounds(&words.lookahead(at), today)?;
    // Joins two dates into one range: `yesterday and today`.
    if matches!(words.normalized_at(at + length), "and" | "or")
        && let Some((second, more)) = dates::parse_bounds(&words.lookahead(at + length + 1), today)
    {
        bounds = bounds.union(second);
        length += 1 + more;
    }
    let dated = filters.modified_after.is_some() || filters.modified_before.is_some();
    let verb_last = verb_last_clause(words, at, at + length).filter(|_| files && !dated);
    if let Some((anchor, end)) = verb_last {
        set_bounds(filters, if anchor.negated { bounds.complement()? } else { bounds });
        return Some((anchor.start, end));
    }
    if dated || !ends_condition(words, at + length) {
        return None;
    }
    let end = at + length;
    let mail = || mail_anchor(words, at, end).filter(|_| file_types::is_mail(&filters.extensions));
    let anchor = find_anchor(words, at, false).or_else(mail)?;
    if filters.extensions.is_empty() && ends_in_mail(words, anchor.start) {
        filters.extensions = file_types::mail_extensions();
    }
    set_bounds(filters, if anchor.negated { bounds.complement()? } else { bounds });
    Some((anchor.start, end))
}

/// Finds the clause around a date with the verb at its end, as in German: `Dateien, die seit gestern geändert wurden`. Returns
/// its start, and the index of the first word after it.
fn verb_last_clause(words: &Words, at: usize, end: usize) -> Option<(Anchor, usize)> {
    const AUXILIARIES: &str = "that i we do did has have had was were is are been itself last only just but";
    let mut last = end;
    let mut negated = false;
    while is_in_list(NEGATIONS, words.normalized_at(last)) {
        negated = true;
        last += 1;
    }
    if !words.is_foreign() || !is_verb(words.normalized_at(last)) {
        return None;
    }
    last += 1;
    while is_in_list(AUXILIARIES, words.normalized_at(last)) {
        last += 1;
    }
    let mut start = at;
    while start > 0 && is_in_list(AUXILIARIES, words.normalized_at(start - 1)) {
        start -= 1;
    }
    (start < at).then_some((Anchor { start: skip_used(words, start), negated }, last))
}

/// Decides whether the date at `at` is the date of a mail although other words separate it from the noun for mail: after
/// the sender or recipient, after a verb such as `sent`, or at the end of the question with a preposition of time.
fn mail_anchor(words: &Words, at: usize, end: usize) -> Option<Anchor> {
    /// Maximum number of words, such as those of a name, between the verb or preposition and the date.
    const MAX_WORDS_BETWEEN: usize = 5;
    const TIME_PREPOSITIONS: &str = "from since before after until till between older newer";
    let found = |start: usize| Some(Anchor { start, negated: false });
    for before in (at.saturating_sub(MAX_WORDS_BETWEEN)..at).rev() {
        let word = words.normalized_at(before);
        if is_in_list("sent received got get arrived send receive came", word) {
            let is_all = (before + 1..at).all(|it| matches!(words.normalized_at(it), "me" | "us"));
            return found(if is_all { before } else { at });
        }
        if is_in_list("about on mentioning mention regarding concerning", word) {
            break;
        }
        if matches!(word, "from" | "to") && before > 0 && before + 1 < at && ends_in_mail(words, before) {
            return found(at);
        }
    }
    (is_in_list(TIME_PREPOSITIONS, words.normalized_at(at))
        && (end >= words.len() || words.0[end - 1].text.ends_with(['?', '.', '!'])))
    .then(|| found(at))?
}

/// Whether the words before word `end` are a noun for mail.
fn ends_in_mail(words: &Words, end: usize) -> bool {
    let noun = |back: usize| end.checked_sub(back).and_then(|it| file_types::parse_noun(&words.lookahead(it)));
    (1..=2).any(|back| noun(back).is_some_and(|it| it.length == back && file_types::is_mail(&it.extensions)))
}

fn size_filter(words: &Words, at: usize, files: bool, filters: &mut L0Filters) -> Option<(usize, usize)> {
    const MIN_PHRASES: &[&str] = &[
        "larger than",
        "bigger than",
        "greater than",
        "more than",
        "over",
        "above",
        "exceeding",
        "at least",
        "not smaller than",
    ];
    const MAX_PHRASES: &[&str] =
        &["smaller than", "less than", "under", "below", "at most", "up to", "no larger than", "not larger than"];
    let size = |index: usize, unit: Option<&str>| sizes::parse_size_words(&words.lookahead(index), unit);
    let (least, most, end) = if let Some(length) = words.match_longest(at, MIN_PHRASES) {
        let (bytes, taken) = size(at + length, None)?;
        (Some(bytes), None, at + length + taken)
    } else if let Some(length) = words.match_longest(at, MAX_PHRASES) {
        let (bytes, taken) = size(at + length, None)?;
        (None, Some(bytes), at + length + taken)
    } else if words.normalized_at(at) == "between" {
        let joint = (at + 2..at + 4).find(|it| words.normalized_at(*it) == "and")?;
        let (most, taken) = size(joint + 1, None)?;
        let rest = words.lookahead(joint + 1);
        let (least, _) = size(at + 1, sizes::unit_of(&rest))?;
        (Some(least), Some(most), joint + 1 + taken)
    } else {
        let (bytes, taken) = size(at, None)?;
        let end = at + taken;
        let length = words
            .match_longest(end, &["or more", "or larger", "or bigger", "and more", "and above", "or above", "and up"]);
        let below = || words.match_longest(end, &["or less", "or smaller", "and less", "and below", "or below"]);
        match length {
            Some(length) => (Some(bytes), None, end + length),
            None => (None, Some(bytes), end + below()?),
        }
    };
    let end = words.match_phrase(end, "in size").map_or(end, |length| end + length);
    let known = filters.min_size.is_some() && least.is_some() || filters.max_size.is_some() && most.is_some();
    if known || !ends_condition(words, end) || least.zip(most).is_some_and(|(least, most)| least > most) {
        return None;
    }
    let start = if at > 0 && is_in_list("of with having sized", words.normalized_at(at - 1)) { at - 1 } else { at };
    let anchor = find_anchor(words, start, true).or_else(|| size_anchor(words, at).filter(|_| files));
    let anchor = anchor.filter(|it| !it.negated)?;
    filters.min_size = least.or(filters.min_size);
    filters.max_size = most.or(filters.max_size);
    Some((anchor.start, end))
}

/// Accepts a size although other words separate it from the noun: `presentations about dredging that are above`.
fn size_anchor(words: &Words, at: usize) -> Option<Anchor> {
    let mut start = at;
    while start > 0
        && is_in_list(
            "that those which are were is was be of with having sized weigh weighing",
            words.normalized_at(start - 1),
        )
    {
        start -= 1;
    }
    let is_set_off = start > 0 && words.0[start - 1].text.ends_with(',');
    (start < at || is_set_off).then_some(Anchor { start, negated: false })
}

fn owner_filter(words: &Words, at: usize, filters: &mut L0Filters) -> Option<(usize, usize)> {
    let length = words.match_longest(at, &["owned by user", "owned by", "belonging to user", "whose owner is"])?;
    let name = words.normalized_at(at + length);
    let person = !name.is_empty() && !matches!(name, "me" | "us" | "the" | "a" | "an" | "my" | "our");
    if filters.owner.is_some() || !person || !ends_condition(words, at + length + 1) {
        return None;
    }
    let anchor = find_anchor(words, at, false).filter(|it| !it.negated)?;
    // Keeps the case as typed, because user names are case-sensitive.
    let typed = words.0[at + length].text.trim_end_matches([',', '.', '?', '!', ';', ':', ')']);
    filters.owner = Some(typed.to_string());
    Some((anchor.start, at + length + 1))
}

/// Parses a folder at word `at`: `in the contracts folder`, `in the folder contracts`, `under projects/ice`, `in ~/notes`.
fn folder_filter(words: &Words, at: usize, filters: &mut L0Filters) -> Option<(usize, usize)> {
    const PREPOSITIONS: &str = "in inside under within below from beneath";
    if filters.path_glob.is_some() || !is_in_list(PREPOSITIONS, words.normalized_at(at)) {
        return None;
    }
    let is_noun = is_folder_noun(words.normalized_at(at + 1));
    let determiner = usize::from(is_noun || matches!(words.normalized_at(at + 1), "the" | "my" | "our"));
    let (name, end) = named_folder(words, at + 1 + determiner)
        .filter(|_| !is_noun)
        .or_else(|| folder_named(words, at + 1))
        .or_else(|| path_after_preposition(words, at))?;
    filters.path_glob = Some(format!("**/{name}/**"));
    // Includes the words before: `that are` in `files that are in the contracts folder` is part of the condition.
    let mut start = at;
    while start > 0
        && matches!(words.normalized_at(start - 1), "that" | "are" | "is" | "which" | "stored" | "saved" | "kept")
    {
        start -= 1;
    }
    // Leaves these words in the search text if no noun for files precedes them: `what is in the contracts folder`.
    let start = if start > 0 && find_anchor(words, start, true).is_some() { start } else { at };
    Some((start, end))
}

/// Parses `contracts folder`, with a name of up to three words. Returns the name as a glob, with `?` for each blank.
fn named_folder(words: &Words, at: usize) -> Option<(String, usize)> {
    /// Words before `folder` that do not name it (`the same folder`), and folders of programs (`the build folder`).
    const NON_NAMES: &str = "same current root home wrong right correct parent target output build dist temp tmp cache bin working install \
         installation destination source each every which other new empty shared a an this that any system windows \
         node_modules data default";
    let length = (1..=3).find(|it| matches!(words.normalized_at(at + it), "folder" | "directory"))?;
    let names: Vec<&str> = (at..at + length).map(|it| words.plain_at(it)).collect();
    let plain =
        names.iter().all(|it| !it.is_empty() && it.chars().all(|it| it.is_alphanumeric() || "-_.&".contains(it)));
    let verb = (at..at + length)
        .map(|it| words.normalized_at(it))
        .any(|it| is_in_list(LINK_WORDS, it) || is_in_list(NON_NAMES, it) || words.is_foreign() && it == "the");
    (plain && !verb).then(|| (names.join("?"), at + length + 1))
}

/// Beginnings of a folder with its name behind.
const FOLDER_PHRASES: &[&str] = &[
    "folder",
    "the folder",
    "folder called",
    "the folder called",
    "folder named",
    "the folder named",
    "directory",
    "the directory",
    "the directory called",
    "the directory named",
    "the dossier",
    "the dossier called",
    "my dossier",
    "our dossier",
];

/// Parses `folder contracts` or `the folder called contracts`.
fn folder_named(words: &Words, at: usize) -> Option<(String, usize)> {
    let length = words.match_longest(at, FOLDER_PHRASES)?;
    let named = !is_folder_noun(words.normalized_at(at + length - 1));
    let mut name_at = at + length;
    // `la carpeta de contratos`; `la carpeta del abogado` may be a subject to search for.
    if words.is_foreign() && words.normalized_at(name_at) == "of" && words.normalized_at(name_at + 1) != "the" {
        name_at += 1;
    }
    let name = words.plain_at(name_at);
    let plain = !name.is_empty() && name.chars().all(|it| it.is_alphanumeric() || "-_.&/".contains(it));
    // In French, `le dossier médical` may be a subject to search for, so the name needs a sign that it is one.
    let is_dossier = words.normalized_at(at + length - 1) == "dossier";
    let typed = words.0.get(name_at).map_or("", |it| it.text.as_str());
    let is_marked =
        typed.starts_with(char::is_uppercase) || typed.contains(['/', '_', '-']) || typed.contains(char::is_numeric);
    let is_article = words.is_foreign() && is_in_list("the a of in my our that", words.normalized_at(name_at));
    let is_name = !is_article && (named || !is_in_list(FOLLOWING_WORDS, words.normalized_at(name_at)));
    (plain && is_name && (!is_dossier || is_marked)).then(|| (name.trim_matches('/').to_string(), name_at + 1))
}

fn is_folder_noun(word: &str) -> bool {
    matches!(word, "folder" | "directory" | "dossier")
}

/// Parses a path after a preposition. After `in`, `from` and `within` the word must clearly be a path, such as `~/notes`.
fn path_after_preposition(words: &Words, at: usize) -> Option<(String, usize)> {
    let text = words.normalized_at(at + 1);
    let rooted = text.starts_with("~/") || text.starts_with('/') || text.starts_with("./");
    let clear = rooted || text.ends_with('/') || text.matches('/').count() > 1;
    let weak = matches!(words.normalized_at(at), "in" | "from" | "within");
    if !text.contains('/') || text.contains("//") || weak && !clear {
        return None;
    }
    let typed = words.0[at + 1].text.trim_end_matches([',', '.', '?', '!', ';', ':', ')']);
    let parts: Vec<&str> = typed.trim_start_matches("~").split('/').filter(|it| !it.is_empty() && *it != ".").collect();
    // Rejects `TCP/IP`, `and/or`, `03/2024` and `km/h`, which are not paths.
    let odd = |it: &&str| it.len() < 2 || it.chars().all(|it| it.is_ascii_uppercase());
    let unclear = parts.len() < 2
        || parts.iter().any(odd)
        || parts.iter().all(|it| is_in_list("and or either he she his her", it));
    let pair = !clear && unclear || parts.first().is_some_and(|it| it.chars().all(|it| it.is_ascii_digit()));
    let plain = parts.iter().all(|it| it.chars().all(|it| it.is_alphanumeric() || "-_.& ".contains(it)));
    (!parts.is_empty() && plain && !pair).then(|| (parts.join("/"), at + 2))
}

fn ends_condition(words: &Words, end: usize) -> bool {
    let last = words.0.get(end.wrapping_sub(1)).map_or("", |it| it.text.as_str());
    end >= words.len()
        || is_in_list(FOLLOWING_WORDS, words.normalized_at(end))
        || words.is_used(end)
        || last.ends_with([',', ';', '.', ':', '?', '!'])
}

/// Searches backwards from a condition for the words that name the files it describes; `None` if it describes no files.
fn find_anchor(words: &Words, at: usize, papers: bool) -> Option<Anchor> {
    let (mut start, mut verb, mut subject, mut negated) = (at, None::<String>, false, false);
    loop {
        let Some(before) = start.checked_sub(1) else {
            // A condition at the very start of the question describes no files.
            return None;
        };
        let word = words.normalized_at(before);
        if words.is_used(before) || is_in_list(LINK_WORDS, word) {
            start = before;
            continue;
        }
        if verb.is_none() && is_verb(word) {
            verb = Some(word.to_string());
            start = before;
            continue;
        }
        if verb.is_some() && is_in_list(NEGATIONS, word) {
            negated = true;
            start = before;
            continue;
        }
        // Skips the name in `modified by ben last week`, because the index does not know who modified a file.
        let by = before.checked_sub(2).filter(|_| verb.is_none() && words.normalized_at(before - 1) == "by");
        if by.is_some_and(|it| is_verb(words.normalized_at(it))) {
            start = before - 1;
            continue;
        }
        if let Some(done) = &verb
            && matches!(word, "i" | "we")
            && is_in_list(FIRST_PERSON_VERBS, done.as_str())
        {
            return Some(Anchor { start: skip_links_back(words, before), negated });
        }
        if is_file_noun(words, before) {
            if is_subject(words, before) {
                return None;
            }
            return Some(Anchor { start: skip_used(words, start), negated });
        }
        let of_files = verb.as_deref().is_some_and(|it| is_in_list(FILE_VERBS, it)) || papers && verb.is_none();
        if of_files
            && (is_in_list(DOCUMENT_NOUNS, word) || is_in_list(DOCUMENT_NOUNS, word.strip_suffix('s').unwrap_or(word)))
        {
            return Some(Anchor { start: skip_used(words, start), negated });
        }
        if verb.is_some() && !subject && !word.is_empty() {
            // Skips one word as the subject of the verb: `files that Anna edited`.
            subject = true;
            start = before;
            continue;
        }
        return None;
    }
}

fn is_verb(word: &str) -> bool {
    is_in_list(FILE_VERBS, word) || is_in_list(GENERIC_VERBS, word) || matches!(word, "wrote" | "write")
}

/// Returns the index of the first word from `start` on that no other rule has used yet.
fn skip_used(words: &Words, mut start: usize) -> usize {
    while words.is_used(start) {
        start += 1;
    }
    start
}

fn skip_links_back(words: &Words, mut start: usize) -> usize {
    while start > 0 && is_in_list(LINK_WORDS, words.normalized_at(start - 1)) {
        start -= 1;
    }
    start
}

/// Whether the noun that ends at word `at` is the subject to search for: `files` in `emails about files larger than`.
fn is_subject(words: &Words, at: usize) -> bool {
    let start = (at.saturating_sub(2)..=at)
        .find(|it| file_types::parse_noun(&words.lookahead(*it)).is_some_and(|noun| it + noun.length == at + 1));
    let mut before = start.unwrap_or(at);
    while before > 0 && matches!(words.normalized_at(before - 1), "the" | "my" | "our" | "all" | "any" | "some") {
        before -= 1;
    }
    before > 0
        && is_in_list(
            "about mention mentions mentioning regarding concerning than not except without",
            words.normalized_at(before - 1),
        )
}

/// Whether word `at` is the last word of a noun for files.
fn is_file_noun(words: &Words, at: usize) -> bool {
    if is_in_list(FILE_NOUNS, words.normalized_at(at)) || is_in_list(FILE_PRONOUNS, words.normalized_at(at)) {
        return true;
    }
    (0..3).any(|back| {
        let Some(start) = at.checked_sub(back) else { return false };
        let noun = file_types::parse_noun(&words.lookahead(start)).filter(|it| start + it.length == at + 1);
        noun.is_some_and(|it| it.is_plural || file_types::is_mail(&it.extensions))
    })
}
