//! What stands before and behind a full stop, and whether a sentence ends there.

use crate::text::abbreviation::{self, Class};

/// Bytes that are looked at before a full stop: two words.
const BEFORE_BYTES: usize = 64;

/// Bytes that are looked at behind one: a few words.
const BEHIND_BYTES: usize = 160;

/// A short form without vowels has at most so many letters.
const LONGEST_WITHOUT_VOWELS: usize = 4;

/// Letters of the short form of a month at most.
const LONGEST_MONTH: usize = 5;

/// Letters that are units behind a number.
const UNIT_LETTERS: &str = "mglhstrwмглчсв";

/// Ordinals have at most so many digits: more are a year or a count.
const ORDINAL_DIGITS: usize = 3;

/// What reads as a sentence has at least so many words.
const CLAUSE_WORDS: usize = 3;

/// What is before a full stop.
pub(super) struct Before<'a> {
    /// The word without quotation marks and brackets before it.
    word: &'a str,
    /// The word before that one, with its marks; may be cut at its front.
    previous: &'a str,
    /// Nothing of the sentence is before the word.
    alone: bool,
    /// It is a unit of temperature.
    is_degree: bool,
}

impl<'a> Before<'a> {
    /// `sentence` is the text from where the sentence begins to before the full stop.
    pub(super) fn of(sentence: &'a str) -> Before<'a> {
        let from = sentence.ceil_char_boundary(sentence.len().saturating_sub(BEFORE_BYTES));
        let window = &sentence[from..];
        let (front, word) = window.rsplit_once(char::is_whitespace).unwrap_or(("", window));
        let front = front.trim_end();
        let previous = front.rsplit(char::is_whitespace).next().unwrap_or_default();
        let alone = from == 0 && !front.contains(char::is_alphanumeric);
        let is_degree = word.contains('°');
        Before { word: word.trim_start_matches(|it: char| !it.is_alphanumeric()), previous, alone, is_degree }
    }

    /// Says whether the word is a plain one: letters, and no short form that is known.
    pub(super) fn is_plain_word(&self) -> bool {
        matches!(self.kind(), Kind::Word) && self.word.chars().filter(|it| it.is_alphabetic()).count() > 2
    }

    /// Says whether the word is short for something that a figure or a name follows: `Mr.`, `No.`
    pub(super) fn expects_more(&self) -> bool {
        matches!(self.kind(), Kind::Short(Class::Never | Class::Loose | Class::Number | Class::Digit))
    }

    /// Says whether the word may be short for a longer one.
    fn is_short(&self) -> bool {
        self.word.chars().count() <= LONGEST_WITHOUT_VOWELS
    }

    /// Says whether the word is a month between a day and a year: `3 jan. 2021`.
    fn is_month_of(&self, behind: &Behind<'_>) -> bool {
        let day = is_number(self.previous) && self.previous.len() <= 2;
        let year = behind.word.len() == 4 && is_number(behind.word);
        day && year && self.word.chars().count() <= LONGEST_MONTH
    }

    /// Says whether the word numbers an item of a list: `1.`, `IV.`, `a.`
    fn numbers_item(&self) -> bool {
        let begins = self.alone || self.previous.ends_with(':') && self.word.len() <= 2;
        begins && (is_number(self.word) || is_roman(self.word) || self.word.chars().count() == 1)
    }

    fn kind(&self) -> Kind {
        let lower = self.word.to_lowercase();
        let last = lower.rsplit(['/', '-', '\u{2019}', '\'', '(', '\u{2013}', '\u{2014}', ':', '=', '"']).next();
        let last = last.unwrap_or_default();
        if self.is_degree {
            return Kind::Word;
        }
        let joined = self.joined_with_previous(&lower).and_then(|it| abbreviation::class(&it));
        match joined.or_else(|| self.known(&lower)).or_else(|| self.known(last)) {
            Some(Class::Loose | Class::Number) | None if self.is_unit(&lower) => Kind::Short(Class::End),
            Some(class) => Kind::Short(class),
            None if is_number(self.word) || is_roman(self.word) && self.word.len() > 1 => Kind::Ordinal,
            None => self.unknown(last),
        }
    }

    /// The class of the word or of its end, in lower case. A capital letter alone is an initial, and no short form.
    fn known(&self, lower: &str) -> Option<Class> {
        match last_of(self.word, lower).chars().next().filter(|it| it.is_uppercase()) {
            Some(_) if lower.chars().nth(1).is_none() => None,
            Some(first) => {
                let capital: String = std::iter::once(first).chain(lower.chars().skip(1)).collect();
                abbreviation::class(&capital).or_else(|| abbreviation::class(lower))
            }
            None => abbreviation::class(lower),
        }
    }

    /// Says whether this is the unit of the number before it: `5 km.`, `1998 r.`, `XIX w.`
    fn is_unit(&self, lower: &str) -> bool {
        let after_number = is_number(self.previous) || is_roman(self.previous);
        let letters = lower.chars().count();
        let consonants = (2..=LONGEST_WITHOUT_VOWELS).contains(&letters) && lower.chars().all(is_consonant);
        after_number && lower == self.word && (consonants || letters == 1 && UNIT_LETTERS.contains(lower))
    }

    /// Two short forms with a blank between them, as one: `z. B` is `z.b`.
    fn joined_with_previous(&self, lower: &str) -> Option<String> {
        let previous = self.previous.trim_start_matches(|it: char| !it.is_alphanumeric());
        let short = previous.ends_with('.') && previous.chars().count() <= 4;
        short.then(|| format!("{}{lower}", previous.to_lowercase()))
    }

    /// The kind of what no list has, by its letters.
    fn unknown(&self, last: &str) -> Kind {
        let letters =
            |it: &str, most: usize| (1..=most).contains(&it.chars().count()) && it.chars().all(char::is_alphabetic);
        let whole = last.len() == self.word.len()
            || !self.word.contains(['-', '/', '\'', '\u{2019}'])
            || self.word.contains(".-");
        if self.word.split('.').all(|it| letters(it, 1)) || letters(last, 1) && whole {
            let capital = starts_upper(last_of(self.word, last));
            let is_word = self.word == last
                && !last.chars().all(is_consonant)
                && !self.previous.ends_with('.')
                && !is_number(self.previous);
            return match capital {
                true => Kind::Initial,
                false if is_word => Kind::Word,
                false => Kind::Short(Class::Loose),
            };
        }
        let dotted = self.word.contains('.') && self.word.split('.').all(|it| letters(it, 2));
        let has_capital = last_of(self.word, last).chars().skip(1).any(char::is_uppercase);
        let no_vowels = letters(last, LONGEST_WITHOUT_VOWELS) && last.chars().all(is_consonant) && !has_capital;
        if dotted || no_vowels || last.ends_with("str") { Kind::Short(Class::Loose) } else { Kind::Word }
    }
}

/// What the word before a full stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Short(Class),
    /// A capital letter: `J.`, `U.S.`
    Initial,
    /// A number, which is an ordinal in some languages.
    Ordinal,
}

/// What is behind a full stop and its blanks.
pub(super) struct Behind<'a> {
    /// The first character that is no blank; a full stop at the end where there is none.
    pub(super) first: char,
    /// From the first character that is no opening mark.
    text: &'a str,
    /// The first word of it.
    word: &'a str,
}

impl<'a> Behind<'a> {
    pub(super) fn of(rest: &'a str) -> Behind<'a> {
        let rest = rest.trim_start();
        let text = rest.trim_start_matches(|it: char| it.is_whitespace() || is_opening(it));
        let text = &text[..text.floor_char_boundary(BEHIND_BYTES)];
        let end = text.find(|it: char| !it.is_alphanumeric()).unwrap_or(text.len());
        Behind { first: rest.chars().next().unwrap_or('.'), text, word: &text[..end] }
    }

    fn letter(&self) -> Option<char> {
        self.word.chars().next()
    }

    /// Says whether a word in small letters follows; `iPhone` is none.
    pub(super) fn is_lower(&self) -> bool {
        let mut letters = self.word.chars();
        letters.next().is_some_and(char::is_lowercase) && !letters.next().is_some_and(char::is_uppercase)
    }

    pub(super) fn is_digit(&self) -> bool {
        self.letter().is_some_and(char::is_numeric)
    }

    fn is_letter(&self) -> bool {
        self.letter().is_some_and(char::is_alphabetic)
    }

    /// Says whether a word follows that begins sentences; a letter with a full stop is an initial.
    fn is_starter(&self) -> bool {
        !self.text[self.word.len()..].starts_with('.') && abbreviation::is_starter(&self.word.to_lowercase())
    }

    fn is_particle(&self) -> bool {
        abbreviation::is_particle(&self.word.to_lowercase())
    }

    /// Says whether the name of a part follows: `IV`, `A3`, `B`.
    fn is_designation(&self) -> bool {
        let short = self.word.chars().count() <= 3 && self.word.chars().all(|it| it.is_uppercase() || it.is_numeric());
        is_roman(self.word) || (short && !self.is_starter())
    }

    /// Says whether what follows reads as a sentence: a second word in small letters, and some more.
    fn is_clause(&self) -> bool {
        let end = self.text.find(['.', '!', '?']).unwrap_or(self.text.len());
        let mut words = self.text[..end].split_whitespace();
        let second_lower = words.nth(1).is_some_and(|it| it.starts_with(char::is_lowercase));
        second_lower && words.count() + 2 >= CLAUSE_WORDS
    }

    /// Says whether a number with its short form follows: `No. 7`.
    fn is_numbered(&self) -> bool {
        let number = self.text[self.word.len()..].strip_prefix(". ").is_some_and(|it| it.starts_with(char::is_numeric));
        number && matches!(abbreviation::class(&self.word.to_lowercase()), Some(Class::Digit | Class::Number))
    }

    /// Says whether a month in figures follows: `5. 2020`, `12.2021`.
    fn is_month(&self) -> bool {
        self.word.len() <= 2 && self.text[self.word.len()..].starts_with('.')
    }
}

/// Says whether a sentence ends at a single full stop between the two. Small letters behind it were dealt with. What is
/// short for something ahead has nothing ahead where a bracket closes behind it (`in_brackets`).
pub(super) fn ends_between(before: &Before<'_>, behind: &Behind<'_>, in_brackets: bool) -> bool {
    if before.numbers_item() {
        return false;
    }
    match before.kind() {
        Kind::Word => !(before.is_month_of(behind) || before.is_short() && behind.is_numbered()),
        Kind::Initial => behind.is_starter() && !behind.is_particle(),
        Kind::Ordinal => ends_after_number(before, behind),
        Kind::Short(_) if in_brackets => ends_after(Class::End, behind),
        Kind::Short(class) => ends_after(class, behind),
    }
}

fn ends_after(class: Class, behind: &Behind<'_>) -> bool {
    match class {
        Class::Never => false,
        Class::Loose => behind.is_starter(),
        Class::Company => behind.is_starter() || behind.is_clause(),
        Class::Number => behind.is_letter() && !behind.is_designation(),
        Class::Digit => !behind.is_digit(),
        Class::End => behind.is_letter() && !abbreviation::is_time_zone(&behind.word.to_lowercase()),
        Class::List => true,
    }
}

fn ends_after_number(before: &Before<'_>, behind: &Behind<'_>) -> bool {
    let digits = before.word.chars().count();
    if digits > ORDINAL_DIGITS && !is_roman(before.word) || before.word.contains(['.', ',']) {
        return true;
    }
    if behind.is_digit() {
        let is_date =
            digits <= 2 && (behind.is_month() || before.previous.ends_with('.') && is_number(before.previous));
        return !is_date;
    }
    let next = behind.word.to_lowercase();
    if abbreviation::follows_ordinal(&next) {
        return false;
    }
    behind.is_starter() || !abbreviation::precedes_ordinal(&before.previous.to_lowercase())
}

fn is_opening(mark: char) -> bool {
    const OPENING: &str = "\"'([{<*_¿¡«»‹›„“”‘’‚「『《〈（【-–—•§#";
    OPENING.contains(mark)
}

fn is_number(word: &str) -> bool {
    word.starts_with(|it: char| it.is_numeric())
        && word.chars().all(|it| it.is_numeric() || matches!(it, '.' | ',' | ':' | '/' | '-' | '\u{2013}'))
}

fn is_roman(word: &str) -> bool {
    !word.is_empty() && word.len() <= 8 && word.bytes().all(|it| b"IVXLCDM".contains(&it))
}

fn starts_upper(word: &str) -> bool {
    word.starts_with(char::is_uppercase)
}

/// The end of a word that its lower-case form `tail` is the end of.
fn last_of<'a>(word: &'a str, tail: &str) -> &'a str {
    let skipped = word.chars().count().saturating_sub(tail.chars().count());
    word.char_indices().nth(skipped).map_or("", |(at, _)| &word[at..])
}

/// Consonants of the Latin and the Cyrillic alphabet; a letter with a mark counts as a vowel.
fn is_consonant(letter: char) -> bool {
    matches!(letter, 'b'..='z' if !matches!(letter, 'e' | 'i' | 'o' | 'u' | 'y'))
        || "бвгджзклмнпрстфхцчшщ".contains(letter)
}
