//! What speaks for a unit as the answer to a question, in numbers. Pure.
//!
//! Each number of [`NAMES`] lies near 0 to 1. `weights` says what they are worth.

use std::collections::HashSet;
use std::ops::Range;

use crate::ask::answer::kind::{self, Kind};
use crate::ask::answer::units::{Form, Unit};
use crate::ask::answer::value;
use crate::ask::phrase::{key, stem};
use crate::ask::{phrase, stop_words};

/// Content words of a question that count; each is a bit.
const MOST_WORDS: usize = 64;
/// Words that a quote may have at most without being called long.
const LONG: f32 = 60.0;
/// Fewer words are a fragment.
const SHORT: f32 = 4.0;

/// What a word counts that the kind of the question says already, such as `pay` in `how much do we pay`.
const SAID_BY_KIND: f32 = 0.3;

/// The keys of the fields that call a document or a mail by a name, lower case.
const TITLES: [&str; 2] = ["title: ", "subject: "];

/// How many numbers there are.
pub(super) const COUNT: usize = 23;

/// What each number says, in order.
pub(super) const NAMES: [&str; COUNT] = [
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

/// The numbers of one unit.
pub(super) type Numbers = [f32; COUNT];

/// A question, ready to be compared with many texts.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The stems of the content words, each once.
    keys: Vec<String>,
    /// What each counts, by its rarity in the corpus.
    weights: Vec<f32>,
    /// The same, by its rarity among the units that are compared, too.
    rarity: Vec<f32>,
    /// Numbers of neighbouring content words.
    pairs: Vec<(usize, usize)>,
    /// Which of the content words name something exactly: numbers, codes, names, months.
    named: u64,
    /// Which of them are numbers, dates or months: names of another kind may be meant by `it` or `she`, these may not.
    exact: u64,
    /// Which of them are the parts with digits of codes and long numbers.
    codes: u64,
    /// Which of them are months or weekdays.
    calendar: u64,
    /// All its words in order.
    words: Vec<String>,
    /// The field of a mail head that is asked for.
    mail_field: Option<&'static str>,
    kind: Kind,
    /// What is counted, where a count is asked for.
    counted: Option<String>,
}

/// Which content words of a question a text has, one bit each, and how many other words.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Held {
    pub(super) words: u64,
    others: usize,
    count: usize,
    pairs: u64,
    calendar: bool,
}

/// Where a unit stands.
pub(super) struct Context {
    /// In the heading of the unit and the lines above the passage.
    pub(super) above: Held,
    /// In the units before and behind it.
    pub(super) beside: Held,
    pub(super) passage: Held,
    /// In all that was read of the file, and its path.
    pub(super) file: Held,
    /// On the scale of all models; 0 where it is not known.
    pub(super) passage_cosine: f32,
    pub(super) passage_score: f32,
    /// From 0.
    pub(super) hit: usize,
}

impl Asked {
    /// Reads a question: `typed` as it was typed, `searched` without operators. `weight` says what a word counts, by the
    /// beginning by which words are compared.
    pub(super) fn of(typed: &str, searched: &str, weight: impl Fn(&str) -> f32) -> Asked {
        let plain = phrase::plain(searched);
        let (named, codes) = (named(typed), codes(typed));
        let mut asked = Asked {
            keys: Vec::new(),
            weights: Vec::new(),
            rarity: Vec::new(),
            pairs: Vec::new(),
            named: 0,
            exact: 0,
            codes: 0,
            calendar: 0,
            words: phrase::words(searched),
            mail_field: kind::mail_field(typed),
            kind: kind::asked(typed),
            counted: kind::counted(typed),
        };
        let mut last = None;
        for word in phrase::split(&plain).filter(|it| !stop_words::is_one(it)) {
            let Some(number) = asked.number_of(word, &weight) else { break };
            if named.contains(word) {
                asked.named |= 1 << number;
            }
            let is_calendar = value::is_calendar(word);
            if is_calendar || word.bytes().any(|it| it.is_ascii_digit()) {
                asked.named |= 1 << number;
                asked.exact |= 1 << number;
                asked.codes |= u64::from(codes.contains(word)) << number;
                asked.calendar |= u64::from(is_calendar) << number;
            }
            if let Some(before) = last.filter(|it| *it != number) {
                asked.pairs.push((before, number));
            }
            last = Some(number);
        }
        asked.pairs.truncate(MOST_WORDS);
        asked.rarity = asked.weights.clone();
        asked
    }

    /// The question with its words weighed by their rarity among these units: what every line of a file says decides between
    /// none of them.
    pub(super) fn among<'h>(&self, units: impl Iterator<Item = &'h Held>) -> Asked {
        let (mut all, mut with) = (0.0_f32, vec![0.0_f32; self.keys.len()]);
        for held in units {
            all += 1.0;
            bits(held.words).for_each(|it| with[it] += 1.0);
        }
        let rarity = |at: usize| self.weights[at] * ((1.0 + all) / (0.5 + with[at])).ln_1p();
        Asked { rarity: (0..with.len()).map(rarity).collect(), ..self.clone() }
    }

    fn number_of(&mut self, word: &str, weight: impl Fn(&str) -> f32) -> Option<usize> {
        let stem = stem(word);
        if let Some(known) = self.keys.iter().position(|it| it == stem) {
            return Some(known);
        }
        if self.keys.len() == MOST_WORDS {
            return None;
        }
        let is_said_by_kind = self.kind == Kind::Money && kind::is_paying(word);
        self.keys.push(stem.to_string());
        self.weights.push(weight(key(word)) * if is_said_by_kind { SAID_BY_KIND } else { 1.0 });
        Some(self.keys.len() - 1)
    }

    /// Compares a text.
    pub(super) fn held(&self, text: &str) -> Held {
        let plain = phrase::plain(text);
        let mut held = Held::default();
        let mut others = HashSet::new();
        let mut last: Option<usize> = None;
        for word in phrase::split(&plain) {
            held.count += 1;
            held.words |= self.codes_in(word);
            if stop_words::is_one(word) {
                continue;
            }
            let number = self.keys.iter().position(|it| it == stem(word));
            match number {
                Some(number) => held.words |= 1 << number,
                None => {
                    held.calendar |= self.calendar != 0 && value::is_calendar(word);
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

    /// The codes that a word holds in another notation: `m5799` is part of `wfm5799dwf`. Fewer than three digits are no code.
    fn codes_in(&self, word: &str) -> u64 {
        const FEWEST_DIGITS: usize = 3;
        if self.codes == 0 || !word.bytes().any(|it| it.is_ascii_digit()) {
            return 0;
        }
        let digits =
            |key: &str| key.split(|it: char| !it.is_ascii_digit()).max_by_key(|it| it.len()).map(str::to_string);
        let is_held =
            |at: &usize| digits(&self.keys[*at]).is_some_and(|it| it.len() >= FEWEST_DIGITS && word.contains(&it));
        bits(self.codes).filter(is_held).fold(0, |all, at| all | 1 << at)
    }

    /// The part of the question that stands in a text word for word, 0 to 1.
    pub(super) fn run(&self, text: &str) -> f32 {
        let plain = phrase::plain(text);
        phrase::share(&self.words, &phrase::split(&plain).collect::<Vec<_>>())
    }

    /// How well a text has a thing of the kind that is asked for, 0 to 1.
    pub(super) fn kind_held(&self, text: &str) -> f32 {
        const COUNTS_OTHERS: f32 = 0.6;
        let is_asked = |word: &str| self.words.iter().any(|it| stem(it) == stem(word));
        let held = value::held(self.kind, text, &is_asked);
        match &self.counted {
            Some(counted) if self.kind.is_count() && held > 0.0 && !value::counts(counted, text, &is_asked) => {
                COUNTS_OTHERS * held
            }
            _ => held,
        }
    }

    /// The share of the weight of the content words that are held.
    pub(super) fn share(&self, words: u64) -> f32 {
        share(&self.weights, words)
    }

    /// The share of what is named exactly; 1 where nothing is.
    pub(super) fn share_named(&self, words: u64) -> f32 {
        self.share_of(self.named, words)
    }

    /// The share of some of the content words that is among others; 1 of none.
    fn share_of(&self, wanted: u64, words: u64) -> f32 {
        let all: f32 = bits(wanted).map(|it| self.weights[it]).sum();
        let some: f32 = bits(wanted & words).map(|it| self.weights[it]).sum();
        if all > 0.0 { some / all } else { 1.0 }
    }

    /// How much of the key of a field, or of the words before its colon, the question names.
    fn asked_key(&self, unit: &Unit, text: &str) -> f32 {
        let Some((key, _)) = text.split_once(": ").filter(|_| unit.form == Form::Field) else { return 0.0 };
        let held = self.held(key);
        let known = held.words.count_ones() as f32;
        if held.others as f32 + known > 0.0 { known / (held.others as f32 + known) } else { 0.0 }
    }

    /// Says whether a unit is the title of a document or the subject of a mail, and the question asks for neither.
    pub(super) fn is_title_not_asked_for(&self, unit: &Unit, text: &str) -> bool {
        let is_title = unit.form == Form::Field && TITLES.iter().any(|it| text.to_lowercase().starts_with(it));
        is_title && self.asked_key(unit, text) == 0.0 && !self.mail_field.is_some_and(|it| text.starts_with(it))
    }

    /// The numbers of a unit, all but the cosine, which is 0.
    pub(super) fn numbers(&self, unit: &Unit, text: &str, held: Held, context: &Context) -> Numbers {
        let within = held.words | context.above.words;
        let kind_held = self.kind_held(text);
        let count = held.count as f32;
        let pairs = if self.pairs.is_empty() {
            0.0
        } else {
            f32::from(held.pairs.count_ones() as u8) / self.pairs.len() as f32
        };
        let other_date = held.calendar || context.above.calendar;
        let contradicts = other_date && self.calendar & !within != 0 && self.calendar & held.words == 0;
        let is_mail_field = self.mail_field.is_some_and(|it| unit.form == Form::Field && text.starts_with(it));
        let yes = |it: bool| f32::from(u8::from(it));
        [
            0.0,
            context.passage_cosine,
            self.share(held.words),
            self.share(within),
            self.share(within | context.beside.words),
            self.share(context.passage.words),
            kind_held,
            kind_held * self.share(within),
            self.share_named(context.file.words),
            yes(contradicts),
            (held.others as f32).ln_1p() / 4.0,
            pairs,
            yes(count < SHORT),
            (count / LONG - 1.0).clamp(0.0, 1.0),
            yes(unit.form == Form::Fragment),
            1.0 / (1.0 + context.hit as f32),
            context.passage_score,
            self.share_of(self.exact, within),
            self.asked_key(unit, text),
            yes(is_mail_field),
            share(&self.rarity, held.words),
            share(&self.rarity, within | context.beside.words),
            self.share(context.file.words),
        ]
    }

    /// Codes and long numbers of the question that none of these texts has: what is asked for by its number is not answered by
    /// another one.
    pub(super) fn has_unknown_code(&self, words: u64) -> bool {
        self.codes & !words != 0
    }
}

impl Held {
    /// What either of two texts has.
    pub(super) fn or(self, other: Held) -> Held {
        Held { words: self.words | other.words, ..self }
    }
}

/// The heading of a unit and what stands above its passage.
pub(super) fn above(chunk_context: &str, body: &str, heading: Option<&Range<usize>>) -> String {
    heading.map_or(chunk_context.to_string(), |it| format!("{chunk_context}\n{}", &body[it.clone()]))
}

fn share(weights: &[f32], words: u64) -> f32 {
    let all: f32 = weights.iter().sum();
    let some: f32 = bits(words).filter_map(|it| weights.get(it)).sum();
    if all > 0.0 { some / all } else { 0.0 }
}

fn bits(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |it| mask & (1 << it) != 0)
}

/// The words with digits of the codes and long numbers of a question, lower case: `9999` of `SF-2025-9999`, `gp1`, `40921`.
fn codes(typed: &str) -> HashSet<String> {
    const LONG_NUMBER: usize = 5;
    let mut codes = HashSet::new();
    for token in typed.split_whitespace() {
        let digits = token.chars().filter(char::is_ascii_digit).count();
        let letters = token.chars().filter(|it| it.is_alphabetic()).count();
        let is_amount = token.starts_with(|it: char| it.is_ascii_digit()) && letters <= 3;
        // A date may be written otherwise in the file.
        let is_date = letters == 0 && token.contains(['-', '.', '/']);
        if !is_date && (digits >= LONG_NUMBER || (digits >= 2 && letters > 0 && !is_amount)) {
            codes.extend(phrase::words(token).into_iter().filter(|it| it.bytes().any(|it| it.is_ascii_digit())));
        }
    }
    codes
}

/// The words of a question, lower case, that name something: those with a digit, those in quotes, and those with a capital
/// that do not begin it, unless the language writes nouns with capitals or everything is in capitals.
fn named(typed: &str) -> HashSet<String> {
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
            named.extend(phrase::words(token));
        }
        quoted &= !token.trim_end_matches(['?', '.', ',']).ends_with(['"', '\u{201d}', '\u{bb}']);
        begins = token.ends_with(['.', '?', '!', ':']);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(question: &str) -> Asked {
        Asked::of(question, question, |_| 1.0)
    }

    #[test]
    fn what_is_named_exactly_must_be_in_the_quote() {
        let question = asked("How much did Larkmouth pay in December?");
        let august = question.held("In August Larkmouth paid 31 EUR");
        let december = question.held("In December Larkmouth paid 12 EUR");
        assert!(question.share_named(december.words) > question.share_named(august.words));
        assert!(august.calendar && !december.calendar);
    }

    #[test]
    fn a_code_that_stands_nowhere_is_told() {
        let question = asked("What is invoice SF-2025-0999 about?");
        assert!(question.has_unknown_code(question.held("Invoice SF-2025-0412 is about sensors").words));
        assert!(!question.has_unknown_code(question.held("Invoice SF-2025-0999 is about sensors").words));
        let model = asked("Where is the m5799?");
        assert!(!model.has_unknown_code(model.held("Printer model WF-M5799DWF in the hall.").words));
        for question in ["What did it cost in 2025?", "Does 5kg of flour do?", "At 18:30 on 3 May?"] {
            assert!(codes(question).is_empty(), "{question}");
        }
    }

    #[test]
    fn german_nouns_are_no_names() {
        assert!(named("Wann wurde die Heizung gewartet?").is_empty());
        assert!(named("When did Ada leave Cinder Bay?").contains("ada"));
        assert!(named("WHO SIGNED IT").is_empty());
    }

    #[test]
    fn what_every_unit_holds_counts_less_than_what_one_holds() {
        let question = asked("museum kiln");
        let held = ["the museum", "a museum", "the museum kiln", "one more museum"].map(|it| question.held(it));
        let among = question.among(held.iter());
        assert!(share(&among.rarity, question.held("kiln").words) > 0.6 && among.share(held[0].words) == 0.5);
    }

    #[test]
    fn a_title_and_a_subject_are_no_answers_unless_asked_for() {
        let field = Unit { range: 0..1, form: Form::Field, heading: None, head: None };
        let is_left_out = |question: &str, text: &str| asked(question).is_title_not_asked_for(&field, text);
        assert!(
            is_left_out("Who owns unit 4?", "title: Lease of Unit 4") && is_left_out("When?", "Subject: Re: Slipway")
        );
        assert!(!is_left_out("What is the title of the lease?", "title: Lease of Unit 4"));
        assert!(!is_left_out("Wie lautet der Betreff der Mail?", "Subject: Re: Slipway"));
        assert!(!is_left_out("Who?", "Landlord: Konrad Ebbel"));
    }

    #[test]
    fn words_in_a_row_count_as_pairs() {
        let question = asked("boat shed lease");
        assert_eq!(question.held("the boat shed").pairs.count_ones(), 1);
        assert_eq!(question.held("a shed beside the old boat").pairs.count_ones(), 0);
    }
}
