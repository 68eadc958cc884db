//! Computes the features of a unit (a sentence, row etc. of a passage) that tell how well it answers a question. Pure.
//!
//! Each feature of [`FEATURE_NAMES`] is roughly 0 to 1. `scoring` has the weights of the features.

use std::collections::HashSet;
use std::ops::Range;

use crate::ask::answer::question_kind::QuestionKind;
use crate::ask::answer::units::{Unit, UnitForm};
use crate::ask::answer::{question_kind, value_check};
use crate::ask::word_runs::{word_key, word_stem};
use crate::ask::{stop_words, word_runs};
use crate::text::function_words::Language;

/// Maximum number of content words of a question, because each is a bit of a `u64`; further words are ignored.
const MAX_CONTENT_WORDS: usize = 64;
/// A text unit (sentence, table row etc.) with more words than this counts as long.
const LONG_UNIT_WORDS: f32 = 60.0;
/// A text unit with fewer words than this counts as short.
const SHORT_UNIT_WORDS: f32 = 4.0;

/// Factor that lowers the weight of a word that the kind of the question implies, such as `pay` in `how much do we pay`.
const SAID_BY_KIND: f32 = 0.3;

/// Beginnings of the lines that state the title of a document or the subject of a mail, in lower case.
const TITLE_FIELD_KEYS: [&str; 2] = ["title: ", "subject: "];

/// Number of features of a text unit.
pub(super) const FEATURE_COUNT: usize = 23;

/// Name of each feature, in the order of `Features`.
pub(super) const FEATURE_NAMES: [&str; FEATURE_COUNT] = [
    "unit_cosine",
    "passage_cosine",
    "unit_words",
    "context_words",
    "near_words",
    "passage_words",
    "kind",
    "kind_words",
    "file_names",
    "contradicts",
    "new_words",
    "pairs",
    "is_short",
    "is_long",
    "is_fragment",
    "hit_rank",
    "passage_score",
    "unit_numbers",
    "asked_key",
    "mail_field",
    "unit_rare",
    "near_rare",
    "file_words",
];

/// The values of the features of one text unit, in the order of [`FEATURE_NAMES`].
pub(super) type Features = [f32; FEATURE_COUNT];

/// A parsed question, ready for comparison with many texts.
#[derive(Clone, Debug)]
pub(super) struct ParsedQuestion {
    /// The stems of the content words, without duplicates. Bit `i` of each mask stands for the stem `i`.
    keys: Vec<String>,
    /// Weight of each stem: the rarer the word in the searched passages, the higher.
    weights: Vec<f32>,
    /// Weight of each stem like `weights`, and higher if few of the compared units contain the word.
    rarity: Vec<f32>,
    /// Pairs of neighbouring content words, as indices into `keys`.
    pairs: Vec<(usize, usize)>,
    /// Mask of the content words that must match exactly: numbers, codes, names, months and weekdays.
    exact_names: u64,
    /// Mask of numbers, dates and months. A text may use `it` or `she` instead of a name, but not instead of these words.
    exact: u64,
    /// Mask of the words with digits in codes and long numbers, e.g. of `9999` in `SF-2025-9999`.
    codes: u64,
    /// Mask of the names of months and weekdays.
    calendar: u64,
    /// All words of the question, in order.
    words: Vec<String>,
    /// The mail header field that the question asks for.
    mail_field: Option<&'static str>,
    kind: QuestionKind,
    /// The thing to count, if the question asks for a number of things.
    counted: Option<String>,
    /// Language of the question, by which its stop words and those of the passages are judged.
    language: Option<Language>,
}

/// The words that a text shares with a question, as a bit mask of content words, and the number of its other words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct WordMatch {
    pub(super) words: u64,
    others: usize,
    count: usize,
    pairs: u64,
    calendar: bool,
}

/// The text around a text unit, compared with the question.
pub(super) struct UnitContext {
    /// Words of the question in the heading of the text unit and in the lines above its passage.
    pub(super) above: WordMatch,
    /// Words of the question in the text units directly before and after this one.
    pub(super) beside: WordMatch,
    pub(super) passage: WordMatch,
    /// Words of the question in the path of the file and in those of its passages that were compared.
    pub(super) file: WordMatch,
    /// Cosine of the passage, normalized by the scale of the embedding model; 0 if unknown.
    pub(super) passage_cosine: f32,
    pub(super) passage_score: f32,
    /// Rank of the hit, from 0 for the best.
    pub(super) hit: usize,
}

impl ParsedQuestion {
    /// Parses a question: `typed` is the original text, `searched` is without operators. `weight` returns the weight of a
    /// word by its key.
    pub(super) fn parse(typed: &str, searched: &str, weight: impl Fn(&str) -> f32) -> ParsedQuestion {
        let plain = word_runs::normalize(searched);
        let (named, codes) = (naming_words(typed), question_codes(typed));
        let mut asked = ParsedQuestion {
            keys: Vec::new(),
            weights: Vec::new(),
            rarity: Vec::new(),
            pairs: Vec::new(),
            exact_names: 0,
            exact: 0,
            codes: 0,
            calendar: 0,
            words: word_runs::words(searched),
            mail_field: question_kind::mail_field(typed),
            kind: question_kind::question_kind(typed),
            counted: question_kind::counted_word(typed),
            language: stop_words::question_language(typed),
        };
        let mut last = None;
        let language = asked.language;
        for word in word_runs::split_words(&plain).filter(|it| !stop_words::is_stop_word_in(language, it)) {
            let Some(number) = asked.word_index(word, &weight) else { break };
            if named.contains(word) {
                asked.exact_names |= 1 << number;
            }
            let is_calendar = value_check::is_calendar(word);
            if is_calendar || word.bytes().any(|it| it.is_ascii_digit()) {
                asked.exact_names |= 1 << number;
                asked.exact |= 1 << number;
                asked.codes |= u64::from(codes.contains(word)) << number;
                asked.calendar |= u64::from(is_calendar) << number;
            }
            if let Some(before) = last.filter(|it| *it != number) {
                asked.pairs.push((before, number));
            }
            last = Some(number);
        }
        asked.pairs.truncate(MAX_CONTENT_WORDS);
        asked.rarity = asked.weights.clone();
        asked
    }

    /// Returns the question with its words also weighted by rarity among `units`: a word in every unit does not discriminate
    /// between them.
    pub(super) fn weighted_among<'h>(&self, units: impl Iterator<Item = &'h WordMatch>) -> ParsedQuestion {
        let (mut all, mut with) = (0.0_f32, vec![0.0_f32; self.keys.len()]);
        for held in units {
            all += 1.0;
            bit_indices(held.words).for_each(|it| with[it] += 1.0);
        }
        let rarity = |at: usize| self.weights[at] * ((1.0 + all) / (0.5 + with[at])).ln_1p();
        ParsedQuestion { rarity: (0..with.len()).map(rarity).collect(), ..self.clone() }
    }

    fn word_index(&mut self, word: &str, weight: impl Fn(&str) -> f32) -> Option<usize> {
        let stem = word_stem(word);
        if let Some(known) = self.keys.iter().position(|it| it == stem) {
            return Some(known);
        }
        if self.keys.len() == MAX_CONTENT_WORDS {
            return None;
        }
        let is_said_by_kind = self.kind == QuestionKind::Money && question_kind::is_paying(word);
        self.keys.push(stem.to_string());
        self.weights.push(weight(word_key(word)) * if is_said_by_kind { SAID_BY_KIND } else { 1.0 });
        Some(self.keys.len() - 1)
    }

    /// Returns which words of the question are in a text.
    pub(super) fn match_text(&self, text: &str) -> WordMatch {
        let plain = word_runs::normalize(text);
        let mut held = WordMatch::default();
        let mut others = HashSet::new();
        let mut last: Option<usize> = None;
        for word in word_runs::split_words(&plain) {
            held.count += 1;
            held.words |= self.codes_in(word);
            if stop_words::is_stop_word_in(self.language, word) {
                continue;
            }
            let number = self.keys.iter().position(|it| it == word_stem(word));
            match number {
                Some(number) => held.words |= 1 << number,
                None => {
                    held.calendar |= self.calendar != 0 && value_check::is_calendar(word);
                    others.insert(word);
                }
            }
            if let (Some(before), Some(this)) = (last, number)
                && let Some(at) = self.pairs.iter().position(|it| *it == (before, this) || *it == (this, before))
            {
                held.pairs |= 1 << at;
            }
            last = number;
        }
        held.others = others.len();
        held
    }

    /// Returns the codes of the question that a word contains in another notation, as a mask: `m5799` is in `wfm5799dwf`.
    /// Codes with fewer than three consecutive digits are not compared.
    fn codes_in(&self, word: &str) -> u64 {
        const FEWEST_DIGITS: usize = 3;
        if self.codes == 0 || !word.bytes().any(|it| it.is_ascii_digit()) {
            return 0;
        }
        let digits =
            |key: &str| key.split(|it: char| !it.is_ascii_digit()).max_by_key(|it| it.len()).map(str::to_string);
        let is_held =
            |at: &usize| digits(&self.keys[*at]).is_some_and(|it| it.len() >= FEWEST_DIGITS && word.contains(&it));
        bit_indices(self.codes).filter(is_held).fold(0, |all, at| all | 1 << at)
    }

    /// Returns the length of the longest run of words that a text shares with the question, as a fraction of the
    /// question, 0 to 1.
    pub(super) fn verbatim_share(&self, text: &str) -> f32 {
        let plain = word_runs::normalize(text);
        word_runs::shared_run_share(&self.words, &word_runs::split_words(&plain).collect::<Vec<_>>())
    }

    /// Returns how likely a text contains a value of the kind that the question asks for, 0 to 1.
    pub(super) fn kind_match(&self, text: &str) -> f32 {
        const COUNTS_OTHERS: f32 = 0.6;
        let is_asked = |word: &str| self.words.iter().any(|it| word_stem(it) == word_stem(word));
        let held = value_check::value_confidence(self.kind, text, &is_asked);
        match &self.counted {
            Some(counted)
                if self.kind.is_count() && held > 0.0 && !value_check::counts_word(counted, text, &is_asked) =>
            {
                COUNTS_OTHERS * held
            }
            _ => held,
        }
    }

    /// Returns the weighted fraction of the question's content words that are in a mask.
    pub(super) fn word_share(&self, words: u64) -> f32 {
        weighted_share(&self.weights, words)
    }

    /// Returns the weighted fraction of the question's exact names that are in a mask; 1 if it has none.
    pub(super) fn exact_name_share(&self, words: u64) -> f32 {
        self.masked_share(self.exact_names, words)
    }

    /// Returns the weighted fraction of the words in mask `wanted` that are also in mask `words`; 1 if `wanted` is empty.
    fn masked_share(&self, wanted: u64, words: u64) -> f32 {
        let all: f32 = bit_indices(wanted).map(|it| self.weights[it]).sum();
        let some: f32 = bit_indices(wanted & words).map(|it| self.weights[it]).sum();
        if all > 0.0 { some / all } else { 1.0 }
    }

    /// Returns the fraction of the words in the key of a `key: value` unit that the question contains; 0 for other units.
    fn field_key_match(&self, unit: &Unit, text: &str) -> f32 {
        let Some((key, _)) = text.split_once(": ").filter(|_| unit.form == UnitForm::Field) else { return 0.0 };
        let held = self.match_text(key);
        let known = held.words.count_ones() as f32;
        if held.others as f32 + known > 0.0 { known / (held.others as f32 + known) } else { 0.0 }
    }

    /// Returns whether a unit is the title of a document or the subject of a mail, but the question does not ask for it.
    pub(super) fn is_unrequested_title(&self, unit: &Unit, text: &str) -> bool {
        let is_title =
            unit.form == UnitForm::Field && TITLE_FIELD_KEYS.iter().any(|it| text.to_lowercase().starts_with(it));
        is_title && self.field_key_match(unit, text) == 0.0 && !self.mail_field.is_some_and(|it| text.starts_with(it))
    }

    /// Returns the features of a text unit. The first one, the unit's cosine, is set to 0; it is known only once the unit
    /// is embedded.
    pub(super) fn features(&self, unit: &Unit, text: &str, held: WordMatch, context: &UnitContext) -> Features {
        let within = held.words | context.above.words;
        let kind_held = self.kind_match(text);
        let count = held.count as f32;
        let pairs = if self.pairs.is_empty() {
            0.0
        } else {
            f32::from(held.pairs.count_ones() as u8) / self.pairs.len() as f32
        };
        let other_date = held.calendar || context.above.calendar;
        let contradicts = other_date && self.calendar & !within != 0 && self.calendar & held.words == 0;
        let is_mail_field = self.mail_field.is_some_and(|it| unit.form == UnitForm::Field && text.starts_with(it));
        let yes = |it: bool| f32::from(u8::from(it));
        [
            0.0,
            context.passage_cosine,
            self.word_share(held.words),
            self.word_share(within),
            self.word_share(within | context.beside.words),
            self.word_share(context.passage.words),
            kind_held,
            kind_held * self.word_share(within),
            self.exact_name_share(context.file.words),
            yes(contradicts),
            (held.others as f32).ln_1p() / 4.0,
            pairs,
            yes(count < SHORT_UNIT_WORDS),
            (count / LONG_UNIT_WORDS - 1.0).clamp(0.0, 1.0),
            yes(unit.form == UnitForm::Fragment),
            1.0 / (1.0 + context.hit as f32),
            context.passage_score,
            self.masked_share(self.exact, within),
            self.field_key_match(unit, text),
            yes(is_mail_field),
            weighted_share(&self.rarity, held.words),
            weighted_share(&self.rarity, within | context.beside.words),
            self.word_share(context.file.words),
        ]
    }

    /// Returns whether the question has a code or long number that is not in `words`, the mask of the words in some texts.
    /// If so, these texts are about another number, and none of them can be the answer.
    pub(super) fn has_unknown_code(&self, words: u64) -> bool {
        self.codes & !words != 0
    }
}

impl WordMatch {
    /// Returns a copy of `self` that also has the content words of `other`; the other fields are those of `self`.
    pub(super) fn union(self, other: WordMatch) -> WordMatch {
        WordMatch { words: self.words | other.words, ..self }
    }
}

/// Returns the lines above a passage, and after them the heading of a unit, if the unit has one.
pub(super) fn heading_context(chunk_context: &str, body: &str, heading: Option<&Range<usize>>) -> String {
    heading.map_or(chunk_context.to_string(), |it| format!("{chunk_context}\n{}", &body[it.clone()]))
}

fn weighted_share(weights: &[f32], words: u64) -> f32 {
    let all: f32 = weights.iter().sum();
    let some: f32 = bit_indices(words).filter_map(|it| weights.get(it)).sum();
    if all > 0.0 { some / all } else { 0.0 }
}

fn bit_indices(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |it| mask & (1 << it) != 0)
}

/// Returns the words with digits from the codes and long numbers of a question, in lower case: `9999` of `SF-2025-9999`,
/// `gp1`, `40921`.
fn question_codes(typed: &str) -> HashSet<String> {
    const LONG_NUMBER: usize = 5;
    let mut codes = HashSet::new();
    for token in typed.split_whitespace() {
        let digits = token.chars().filter(char::is_ascii_digit).count();
        let letters = token.chars().filter(|it| it.is_alphabetic()).count();
        let is_amount = token.starts_with(|it: char| it.is_ascii_digit()) && letters <= 3;
        // Dates are not codes, because the file may have the date in another notation.
        let is_date = letters == 0 && token.contains(['-', '.', '/']);
        if !is_date && (digits >= LONG_NUMBER || (digits >= 2 && letters > 0 && !is_amount)) {
            codes.extend(word_runs::words(token).into_iter().filter(|it| it.bytes().any(|it| it.is_ascii_digit())));
        }
    }
    codes
}

/// Returns the words of a question that name something, in lower case: words with a digit, in quotes, or with a capital that
/// does not begin a sentence. Capitals do not count in German, where all nouns have one, or if all letters are capitals.
fn naming_words(typed: &str) -> HashSet<String> {
    let is_german = stop_words::is_german(typed);
    let is_shouted = !typed.chars().any(char::is_lowercase);
    let mut named = HashSet::new();
    let mut begins = true;
    let mut quoted = false;
    for token in typed.split_whitespace() {
        quoted |= token.starts_with(['"', '\u{201c}', '\u{201e}', '\u{ab}']);
        let first = token.chars().find(|it| it.is_alphanumeric());
        let has_digit = token.chars().any(|it| it.is_ascii_digit());
        let is_name = first.is_some_and(char::is_uppercase) && !begins && !is_german && !is_shouted;
        if has_digit || quoted || is_name {
            named.extend(word_runs::words(token));
        }
        quoted &= !token.trim_end_matches(['?', '.', ',']).ends_with(['"', '\u{201d}', '\u{bb}']);
        begins = token.ends_with(['.', '?', '!', ':']);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(question: &str) -> ParsedQuestion {
        ParsedQuestion::parse(question, question, |_| 1.0)
    }

    #[test]
    fn share_named_prefers_text_with_exact_names() {
        let question = asked("How much did Larkmouth pay in December?");
        let august = question.match_text("In August Larkmouth paid 31 EUR");
        let december = question.match_text("In December Larkmouth paid 12 EUR");
        assert!(question.exact_name_share(december.words) > question.exact_name_share(august.words));
        assert!(august.calendar && !december.calendar);
    }

    #[test]
    fn unknown_code_is_detected() {
        let question = asked("What is invoice SF-2025-0999 about?");
        assert!(question.has_unknown_code(question.match_text("Invoice SF-2025-0412 is about sensors").words));
        assert!(!question.has_unknown_code(question.match_text("Invoice SF-2025-0999 is about sensors").words));
        let model = asked("Where is the m5799?");
        assert!(!model.has_unknown_code(model.match_text("Printer model WF-M5799DWF in the hall.").words));
        for question in ["What did it cost in 2025?", "Does 5kg of flour do?", "At 18:30 on 3 May?"] {
            assert!(question_codes(question).is_empty(), "{question}");
        }
    }

    #[test]
    fn named_ignores_german_nouns() {
        assert!(naming_words("Wann wurde die Heizung gewartet?").is_empty());
        assert!(naming_words("When did Ada leave Cinder Bay?").contains("ada"));
        assert!(naming_words("WHO SIGNED IT").is_empty());
    }

    #[test]
    fn word_in_every_unit_weighs_less_than_rare_word() {
        let question = asked("museum kiln");
        let held = ["the museum", "a museum", "the museum kiln", "one more museum"].map(|it| question.match_text(it));
        let among = question.weighted_among(held.iter());
        assert!(
            weighted_share(&among.rarity, question.match_text("kiln").words) > 0.6
                && among.word_share(held[0].words) == 0.5
        );
    }

    #[test]
    fn title_and_subject_are_excluded_unless_asked_for() {
        let field = Unit { range: 0..1, form: UnitForm::Field, heading: None, head: None };
        let is_left_out = |question: &str, text: &str| asked(question).is_unrequested_title(&field, text);
        assert!(
            is_left_out("Who owns unit 4?", "title: Lease of Unit 4") && is_left_out("When?", "Subject: Re: Slipway")
        );
        assert!(!is_left_out("What is the title of the lease?", "title: Lease of Unit 4"));
        assert!(!is_left_out("Wie lautet der Betreff der Mail?", "Subject: Re: Slipway"));
        assert!(!is_left_out("Who?", "Landlord: Konrad Ebbel"));
    }

    #[test]
    fn adjacent_words_count_as_pairs() {
        let question = asked("boat shed lease");
        assert_eq!(question.match_text("the boat shed").pairs.count_ones(), 1);
        assert_eq!(question.match_text("a shed beside the old boat").pairs.count_ones(), 0);
    }
}
