//! Decides from the words before and after a full stop whether a sentence ends there.

use crate::text::abbreviations::{self, StopClass};

/// Bytes examined before a full stop: enough for two words.
const BEFORE_BYTES: usize = 64;

/// Bytes examined after a full stop: enough for a few words.
const AFTER_BYTES: usize = 160;

/// A word without vowels counts as an abbreviation if it has at most this many letters.
const MAX_VOWELLESS_LETTERS: usize = 4;

/// Maximum letters of a word that counts as an abbreviated month in a date such as `3 jan. 2021`.
const MAX_MONTH_LETTERS: usize = 5;

/// Single letters that are units after a number, as in `5 m.`
const UNIT_LETTERS: &str = "mglhstrwмглчсв";

/// Maximum digits of an ordinal such as `3.`; a number with more digits is a year or a count.
const MAX_ORDINAL_DIGITS: usize = 3;

/// Minimum number of words for a text to be taken for a sentence.
const MIN_CLAUSE_WORDS: usize = 3;

/// The words before a full stop.
pub(super) struct TextBefore<'a> {
    /// The word before the full stop, without leading quotation marks and brackets.
    word: &'a str,
    /// The word before `word`, with its punctuation. Its first letters may be missing, because only `BEFORE_BYTES` are
    /// examined.
    previous: &'a str,
    /// Whether `word` is the first word of the sentence.
    is_first: bool,
    /// Whether `word` is a unit of temperature, such as `°C`.
    is_degree: bool,
}

impl<'a> TextBefore<'a> {
    /// Parses the last words of `sentence`, the text from the start of the sentence up to the full stop.
    pub(super) fn of(sentence: &'a str) -> TextBefore<'a> {
        let from = sentence.ceil_char_boundary(sentence.len().saturating_sub(BEFORE_BYTES));
        let window = &sentence[from..];
        let (front, word) = window.rsplit_once(char::is_whitespace).unwrap_or(("", window));
        let front = front.trim_end();
        let previous = front.rsplit(char::is_whitespace).next().unwrap_or_default();
        let is_first = from == 0 && !front.contains(char::is_alphanumeric);
        let is_degree = word.contains('°');
        TextBefore { word: word.trim_start_matches(|it: char| !it.is_alphanumeric()), previous, is_first, is_degree }
    }

    /// Whether the word has at least three letters and is not an abbreviation, initial or number.
    pub(super) fn is_plain_word(&self) -> bool {
        matches!(self.kind(), WordKind::Word) && self.word.chars().filter(|it| it.is_alphabetic()).count() > 2
    }

    /// Whether the word is an abbreviation that a name or number usually follows: `Mr.`, `No.`
    pub(super) fn expects_more(&self) -> bool {
        matches!(
            self.kind(),
            WordKind::Short(StopClass::Never | StopClass::Loose | StopClass::Number | StopClass::Digit)
        )
    }

    /// Whether the word has few enough letters to be an abbreviation.
    fn is_short(&self) -> bool {
        self.word.chars().count() <= MAX_VOWELLESS_LETTERS
    }

    /// Whether the word is a month between a day and a year: `3 jan. 2021`.
    fn is_month_of(&self, behind: &TextAfter<'_>) -> bool {
        let day = is_number(self.previous) && self.previous.len() <= 2;
        let year = behind.word.len() == 4 && is_number(behind.word);
        day && year && self.word.chars().count() <= MAX_MONTH_LETTERS
    }

    /// Whether the word is the number of a list item: `1.`, `IV.`, `a.`
    fn numbers_item(&self) -> bool {
        let begins = self.is_first || self.previous.ends_with(':') && self.word.len() <= 2;
        begins && (is_number(self.word) || is_roman(self.word) || self.word.chars().count() == 1)
    }

    fn kind(&self) -> WordKind {
        let lower = self.word.to_lowercase();
        let last = lower.rsplit(['/', '-', '\u{2019}', '\'', '(', '\u{2013}', '\u{2014}', ':', '=', '"']).next();
        let last = last.unwrap_or_default();
        if self.is_degree {
            return WordKind::Word;
        }
        let joined = self.joined_with_previous(&lower).and_then(|it| abbreviations::abbreviation_class(&it));
        match joined.or_else(|| self.known_class(&lower)).or_else(|| self.known_class(last)) {
            Some(StopClass::Loose | StopClass::Number) | None if self.is_unit(&lower) => {
                WordKind::Short(StopClass::End)
            }
            Some(class) => WordKind::Short(class),
            None if is_number(self.word) || is_roman(self.word) && self.word.len() > 1 => WordKind::Ordinal,
            None => self.kind_by_letters(last),
        }
    }

    /// Returns the class of the abbreviation `lower`: the whole word in lower case, or only the end of the word. Returns
    /// `None` if the word or end is a single capital letter, which is an initial.
    fn known_class(&self, lower: &str) -> Option<StopClass> {
        match matching_suffix(self.word, lower).chars().next().filter(|it| it.is_uppercase()) {
            Some(_) if lower.chars().nth(1).is_none() => None,
            Some(first) => {
                let capital: String = std::iter::once(first).chain(lower.chars().skip(1)).collect();
                abbreviations::abbreviation_class(&capital).or_else(|| abbreviations::abbreviation_class(lower))
            }
            None => abbreviations::abbreviation_class(lower),
        }
    }

    /// Whether the word is the unit of the number before it: `5 km.`, `1998 r.`, `XIX w.`
    fn is_unit(&self, lower: &str) -> bool {
        let after_number = is_number(self.previous) || is_roman(self.previous);
        let letters = lower.chars().count();
        let consonants = (2..=MAX_VOWELLESS_LETTERS).contains(&letters) && lower.chars().all(is_consonant);
        after_number && lower == self.word && (consonants || letters == 1 && UNIT_LETTERS.contains(lower))
    }

    /// Joins the word with an abbreviation before it: `z. B` becomes `z.b`.
    fn joined_with_previous(&self, lower: &str) -> Option<String> {
        let previous = self.previous.trim_start_matches(|it: char| !it.is_alphanumeric());
        let short = previous.ends_with('.') && previous.chars().count() <= 4;
        short.then(|| format!("{}{lower}", previous.to_lowercase()))
    }

    /// Returns the kind of a word that is not in the lists of abbreviations, judged by its letters.
    fn kind_by_letters(&self, last: &str) -> WordKind {
        let letters =
            |it: &str, most: usize| (1..=most).contains(&it.chars().count()) && it.chars().all(char::is_alphabetic);
        let whole = last.len() == self.word.len()
            || !self.word.contains(['-', '/', '\'', '\u{2019}'])
            || self.word.contains(".-");
        if self.word.split('.').all(|it| letters(it, 1)) || letters(last, 1) && whole {
            let capital = starts_upper(matching_suffix(self.word, last));
            let is_word = self.word == last
                && !last.chars().all(is_consonant)
                && !self.previous.ends_with('.')
                && !is_number(self.previous);
            return match capital {
                true => WordKind::Initial,
                false if is_word => WordKind::Word,
                false => WordKind::Short(StopClass::Loose),
            };
        }
        let dotted = self.word.contains('.') && self.word.split('.').all(|it| letters(it, 2));
        let has_capital = matching_suffix(self.word, last).chars().skip(1).any(char::is_uppercase);
        let no_vowels = letters(last, MAX_VOWELLESS_LETTERS) && last.chars().all(is_consonant) && !has_capital;
        if dotted || no_vowels || last.ends_with("str") { WordKind::Short(StopClass::Loose) } else { WordKind::Word }
    }
}

/// The kind of the word before a full stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordKind {
    Word,
    Short(StopClass),
    /// One or more single capital letters: `J.`, `U.S.`
    Initial,
    /// A number, which with a full stop is an ordinal in some languages.
    Ordinal,
}

/// The text after a full stop, without the blanks after the full stop.
pub(super) struct TextAfter<'a> {
    /// The first character that is not blank; `.` if there is none.
    pub(super) first: char,
    /// The following text, without opening quotation marks, brackets and bullets at its start.
    text: &'a str,
    /// The first word of `text`.
    word: &'a str,
}

impl<'a> TextAfter<'a> {
    pub(super) fn of(rest: &'a str) -> TextAfter<'a> {
        let rest = rest.trim_start();
        let text = rest.trim_start_matches(|it: char| it.is_whitespace() || is_opening(it));
        let text = &text[..text.floor_char_boundary(AFTER_BYTES)];
        let end = text.find(|it: char| !it.is_alphanumeric()).unwrap_or(text.len());
        TextAfter { first: rest.chars().next().unwrap_or('.'), text, word: &text[..end] }
    }

    fn letter(&self) -> Option<char> {
        self.word.chars().next()
    }

    /// Whether the next word begins with a lower-case letter; a word such as `iPhone` does not count.
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

    /// Whether the next word often starts sentences. A letter with a full stop does not count, because it is an initial.
    fn is_starter(&self) -> bool {
        !self.text[self.word.len()..].starts_with('.') && abbreviations::is_starter(&self.word.to_lowercase())
    }

    fn is_particle(&self) -> bool {
        abbreviations::is_particle(&self.word.to_lowercase())
    }

    /// Whether the next word is a number or letter that designates a part, as in `Fig. A3` or `Vol. IV`.
    fn is_designation(&self) -> bool {
        let short = self.word.chars().count() <= 3 && self.word.chars().all(|it| it.is_uppercase() || it.is_numeric());
        is_roman(self.word) || (short && !self.is_starter())
    }

    /// Whether the text looks like a sentence: its second word is in lower case, and more words follow.
    fn is_clause(&self) -> bool {
        let end = self.text.find(['.', '!', '?']).unwrap_or(self.text.len());
        let mut words = self.text[..end].split_whitespace();
        let second_lower = words.nth(1).is_some_and(|it| it.starts_with(char::is_lowercase));
        second_lower && words.count() + 2 >= MIN_CLAUSE_WORDS
    }

    /// Whether an abbreviation and a number follow: `No. 7`.
    fn is_numbered(&self) -> bool {
        let number = self.text[self.word.len()..].strip_prefix(". ").is_some_and(|it| it.starts_with(char::is_numeric));
        number
            && matches!(
                abbreviations::abbreviation_class(&self.word.to_lowercase()),
                Some(StopClass::Digit | StopClass::Number)
            )
    }

    /// Whether a month in digits follows, as in the date `3. 5. 2020`.
    fn is_month(&self) -> bool {
        self.word.len() <= 2 && self.text[self.word.len()..].starts_with('.')
    }
}

/// Whether a sentence ends at a single full stop between `before` and `behind`. Callers handle a lower-case word after the
/// full stop. With `in_brackets`, a closing bracket follows the full stop. No name or number then belongs to an abbreviation
/// before the full stop, so that even an abbreviation such as `Mr.` can end the sentence.
pub(super) fn is_sentence_end(before: &TextBefore<'_>, behind: &TextAfter<'_>, in_brackets: bool) -> bool {
    if before.numbers_item() {
        return false;
    }
    match before.kind() {
        WordKind::Word => !(before.is_month_of(behind) || before.is_short() && behind.is_numbered()),
        WordKind::Initial => behind.is_starter() && !behind.is_particle(),
        WordKind::Ordinal => ends_after_number(before, behind),
        WordKind::Short(_) if in_brackets => ends_after_abbreviation(StopClass::End, behind),
        WordKind::Short(class) => ends_after_abbreviation(class, behind),
    }
}

fn ends_after_abbreviation(class: StopClass, behind: &TextAfter<'_>) -> bool {
    match class {
        StopClass::Never => false,
        StopClass::Loose => behind.is_starter(),
        StopClass::Company => behind.is_starter() || behind.is_clause(),
        StopClass::Number => behind.is_letter() && !behind.is_designation(),
        StopClass::Digit => !behind.is_digit(),
        StopClass::End => behind.is_letter() && !abbreviations::is_time_zone(&behind.word.to_lowercase()),
        StopClass::List => true,
    }
}

fn ends_after_number(before: &TextBefore<'_>, behind: &TextAfter<'_>) -> bool {
    let digits = before.word.chars().count();
    if digits > MAX_ORDINAL_DIGITS && !is_roman(before.word) || before.word.contains(['.', ',']) {
        return true;
    }
    if behind.is_digit() {
        let is_date =
            digits <= 2 && (behind.is_month() || before.previous.ends_with('.') && is_number(before.previous));
        return !is_date;
    }
    let next = behind.word.to_lowercase();
    if abbreviations::follows_ordinal(&next) {
        return false;
    }
    behind.is_starter() || !abbreviations::precedes_ordinal(&before.previous.to_lowercase())
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

/// Returns the end of `word` that has as many characters as `tail`, which is the same end in lower case.
fn matching_suffix<'a>(word: &'a str, tail: &str) -> &'a str {
    let skipped = word.chars().count().saturating_sub(tail.chars().count());
    word.char_indices().nth(skipped).map_or("", |(at, _)| &word[at..])
}

/// Whether a letter is a Latin or Cyrillic consonant; letters with diacritics count as vowels.
fn is_consonant(letter: char) -> bool {
    matches!(letter, 'b'..='z' if !matches!(letter, 'e' | 'i' | 'o' | 'u' | 'y'))
        || "бвгджзклмнпрстфхцчшщ".contains(letter)
}
