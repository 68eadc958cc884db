//! Normalizes numbers to one notation, so that `1,234.56` and `1 234,56` compare as the same words. Pure functions.
//!
//! | written | in one notation |
//! |---|---|
//! | `1,234.56`, `1.234,56`, `1 234,56`, `1'234.56`, `1234,56` | `1234.56` |
//! | `1,234`, `1.234`, `1'234`, `1 234 EUR` | `1234` |
//! | `5kg` | `5 kg` |
//! | `+44 20 7946 0018`, `020 7946 0018`, `02079460018` | `79460018`, the last eight digits |
//!
//! Three digits after a single separator are read as thousands. That is wrong for some decimals (`1.234`), but harmless for
//! comparison: question and passage are read the same way. Dates, versions, addresses and model names stay unchanged.
//!
//! The keyword index has numbers as written. [`alternative_keywords`] returns the words of a question in other notations.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

/// Units that may follow a number without a space, in lower case, sorted for binary search.
const UNITS: &[&str] = &[
    "bar", "chf", "cl", "cm", "db", "dl", "eur", "ft", "g", "gb", "gbit", "gbp", "ghz", "gib", "gwh", "h", "ha", "hp",
    "hz", "j", "k", "kb", "kcal", "kg", "khz", "kib", "kj", "km", "kn", "kv", "kw", "kwh", "l", "lb", "lbs", "m", "ma",
    "mah", "mb", "mbar", "mbit", "mg", "mhz", "mib", "min", "ml", "mm", "mph", "ms", "mv", "mw", "mwh", "nm", "oz",
    "pa", "pt", "px", "rpm", "s", "t", "tb", "tib", "usd", "v", "w", "wh", "yd", "°c", "°f", "µg", "µm", "µs", "μg",
    "μm", "μs",
];
/// Currency symbols and the percent sign, which may precede or follow a number.
const MONEY: &[char] = &['€', '$', '£', '¥', '%'];
/// Non-breaking and thin spaces, which separate the digit groups of one number.
const NARROW_SPACES: &[char] = &['\u{a0}', '\u{202f}', '\u{2009}'];
/// Number of last digits by which telephone numbers are compared, because the digits before these depend on the caller's
/// country.
const PHONE_COMPARED_DIGITS: usize = 8;
/// Number of digits of a telephone number without a country code. With a country code the same minimum applies.
const PHONE_DIGITS: RangeInclusive<usize> = 9..=12;
/// Maximum number of digits of a telephone number with a country code.
const MAX_PHONE_DIGITS: usize = 15;
/// Maximum number of digit groups that are read as parts of one number, not counting the first group.
const MAX_THOUSANDS_GROUPS: usize = 12;
/// Maximum number of words that [`alternative_keywords`] returns; further words are dropped.
const MAX_KEYWORDS: usize = 64;
/// Minimum length of a model name, in letters and digits, for its parts to be searched too.
const MIN_MODEL_NAME_CHARS: usize = 5;
/// Maximum number of leading letters that [`push_model_parts`] strips from a model name.
const MAX_STRIPPED_LETTERS: usize = 4;

/// A number that was found in a text.
#[derive(Debug, PartialEq)]
struct Number {
    /// Byte range in the text.
    range: Range<usize>,
    integer: String,
    fraction: Option<String>,
    /// The unit that follows without a space.
    unit: Option<String>,
    is_phone: bool,
}

impl Number {
    fn canonical(&self) -> String {
        let mut text = self.integer.clone();
        if let Some(fraction) = &self.fraction {
            text = format!("{text}.{fraction}");
        }
        if let Some(unit) = &self.unit {
            text = format!("{text} {unit}");
        }
        text
    }
}

/// Returns a text with all numbers in one notation (see the module docs). Takes linear time.
pub(crate) fn canonical_numbers(text: &str) -> Cow<'_, str> {
    let (mut changed, mut done) = (String::new(), 0);
    for number in parse_numbers(text) {
        let one = number.canonical();
        if text[number.range.clone()] != one {
            changed.push_str(&text[done..number.range.start]);
            changed.push_str(&one);
            done = number.range.end;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    changed.push_str(&text[done..]);
    Cow::Owned(changed)
}

/// Returns other notations of the numbers and model names in a question, as words to look up in the keyword index: in lower
/// case, without words that the question already has.
pub(crate) fn alternative_keywords(question: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for number in parse_numbers(question) {
        push_spellings(&number, &mut words);
        if number.unit.is_none()
            && let Some(unit) = unit_at(question[number.range.end..].trim_start())
        {
            let last = number.fraction.as_ref().unwrap_or(&number.integer);
            words.push(format!("{last}{}", unit.to_lowercase()));
        }
    }
    for token in question.split(|it: char| !it.is_alphanumeric() && !matches!(it, '-' | '_')) {
        push_model_parts(token, &mut words);
    }
    let lower = question.to_lowercase();
    let typed: HashSet<&str> = lower.split(|it: char| !it.is_alphanumeric()).collect();
    let mut seen = HashSet::new();
    words.retain(|it| !typed.contains(it.as_str()) && seen.insert(it.clone()));
    words.truncate(MAX_KEYWORDS);
    words
}

/// Returns keyword queries that together find every text that may contain a run of normalized words. For each notation of
/// the numbers there is one query, whose words are separated by spaces. Returns `None` if there are too many notations.
pub(crate) fn index_words(run: &[String]) -> Option<Vec<String>> {
    let is_number = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
    // Eight digits that begin with 19 or 20, e.g. `20240315`, are treated as a date, not as the end of a telephone number.
    let is_day = |it: &str| it.len() == PHONE_COMPARED_DIGITS && (it.starts_with("19") || it.starts_with("20"));
    if run.iter().any(|it| it.len() >= PHONE_COMPARED_DIGITS && is_number(it) && !is_day(it)) {
        return None;
    }
    let grouped =
        |it: &str| if it.len() > 3 && is_number(it) { it[it.len() - 3..].to_string() } else { it.to_string() };
    let all: Vec<String> = run.iter().map(|it| grouped(it)).collect();
    let mut ways = vec![run.join(" "), all.join(" ")];
    for words in [run, &all] {
        let mut joined = String::new();
        for (at, word) in words.iter().enumerate() {
            let is_unit = at > 0 && is_number(&words[at - 1]) && UNITS.binary_search(&word.as_str()).is_ok();
            joined.push_str(if at == 0 || is_unit { "" } else { " " });
            joined.push_str(word);
        }
        ways.push(joined);
    }
    let mut seen = HashSet::new();
    ways.retain(|it| seen.insert(it.clone()));
    Some(ways)
}

/// Adds the words that a number has in other notations.
fn push_spellings(number: &Number, words: &mut Vec<String>) {
    let integer = &number.integer;
    if number.is_phone {
        // Adds the last eight digits as two groups of four, which is a common notation.
        words.extend([
            integer[PHONE_COMPARED_DIGITS - 4..].to_string(),
            integer[..PHONE_COMPARED_DIGITS - 4].to_string(),
        ]);
        return;
    }
    words.push(integer.clone());
    words.extend(number.fraction.clone());
    if let Some(unit) = &number.unit {
        words.extend([unit.to_lowercase(), number.fraction.as_ref().unwrap_or(integer).clone()]);
    }
    if integer.len() > 3 {
        // Skips a first group of one or two digits, which is too common to narrow the search.
        let lead = integer.len() % 3;
        words.extend((lead..integer.len()).step_by(3).map(|at| integer[at..at + 3].to_string()));
    }
}

/// Adds the parts of a model name, e.g. for `WF-M5799DWF` the words `wfm5799dwf` and `m5799dwf`, so that both forms match.
fn push_model_parts(token: &str, words: &mut Vec<String>) {
    let whole: String = token.chars().filter(|it| it.is_alphanumeric()).collect::<String>().to_lowercase();
    let letters = whole.chars().take_while(|it| it.is_ascii_lowercase()).count();
    let is_model = letters > 0 && whole.len() >= MIN_MODEL_NAME_CHARS && whole.is_ascii() && letters < whole.len();
    if is_model {
        words.push(whole.clone());
        words.extend((1..=letters.min(MAX_STRIPPED_LETTERS)).map(|at| whole[at..].to_string()));
    }
}

/// Returns the numbers of a text, in the order of the text.
fn parse_numbers(text: &str) -> Vec<Number> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = bytes[at..].iter().position(u8::is_ascii_digit).map(|it| at + it) {
        let before = text[..next].chars().next_back();
        let begins = !before.is_some_and(char::is_alphanumeric);
        match begins.then(|| parse_phone(text, next).or_else(|| parse_amount(text, next))).flatten() {
            Some(number) => {
                at = number.range.end;
                found.push(number);
            }
            None => at = end_of_token(text, next),
        }
    }
    found
}

/// Returns the end of the token that begins at `from`: letters, digits, and separators within numbers.
fn end_of_token(text: &str, from: usize) -> usize {
    let mut chars = text[from..].char_indices().peekable();
    while let Some((at, it)) = chars.next() {
        let joins = matches!(it, ',' | '.' | '\'' | '\u{2019}') && chars.peek().is_some_and(|it| it.1.is_ascii_digit());
        if !it.is_alphanumeric() && !joins {
            return from + at;
        }
    }
    text.len()
}

fn digits(text: &str, from: usize) -> &str {
    let rest = &text[from..];
    let end = rest.bytes().position(|it| !it.is_ascii_digit()).unwrap_or(rest.len());
    &rest[..end]
}

/// Parses the number that begins at `start`, with its fraction and unit.
fn parse_amount(text: &str, start: usize) -> Option<Number> {
    let first = digits(text, start);
    let (mut integer, mut end) = (first.to_string(), start + first.len());
    let (separator, groups) = thousands_groups(text, first, end);
    integer.extend(groups.iter().copied());
    end += groups.iter().map(|it| it.len() + separator.len_utf8()).sum::<usize>();
    let mark =
        text[end..].chars().next().filter(|it| matches!(it, '.' | ',') && (groups.is_empty() || *it != separator));
    let fraction = mark.map(|_| digits(text, end + 1)).filter(|it| !it.is_empty());
    end += fraction.map_or(0, |it| 1 + it.len());
    let unit = unit_at(&text[end..]);
    let is_address = separator == '.' && groups.len() == 3 && fraction.is_none();
    // A space joins groups only if a fraction, unit or currency symbol is beside them: `100 200 300` are three numbers.
    let is_plain = !groups.is_empty() && separator == ' ' && fraction.is_none() && !has_unit_or_money(text, start, end);
    if is_address || is_plain {
        let end = start + first.len();
        return (!is_address).then(|| Number::plain(start..end, first));
    }
    let mut rest = text[end + unit.map_or(0, str::len)..].chars();
    let (next, then) = (rest.next(), rest.next());
    let goes_on = next.is_some_and(char::is_alphanumeric)
        || next.is_some_and(|it| matches!(it, '.' | ',' | '\'')) && then.is_some_and(|it| it.is_ascii_digit());
    let range = start..end + unit.map_or(0, str::len);
    let (fraction, unit) = (fraction.map(String::from), unit.map(String::from));
    (!goes_on).then_some(Number { range, integer, fraction, unit, is_phone: false })
}

impl Number {
    fn plain(range: Range<usize>, digits: &str) -> Number {
        Number { range, integer: digits.into(), fraction: None, unit: None, is_phone: false }
    }
}

/// Returns the separator after the first digits and the groups of three digits that follow it.
fn thousands_groups<'t>(text: &'t str, first: &str, mut at: usize) -> (char, Vec<&'t str>) {
    let mut groups = Vec::new();
    let separator = text[at..].chars().next().unwrap_or_default();
    let separates = matches!(separator, ',' | '.' | '\'' | '\u{2019}' | ' ') || NARROW_SPACES.contains(&separator);
    if !separates || first.len() > 3 || first.starts_with('0') {
        return (separator, groups);
    }
    while groups.len() < MAX_THOUSANDS_GROUPS && text[at..].starts_with(separator) {
        let group = digits(text, at + separator.len_utf8());
        if group.len() != 3 {
            break;
        }
        at += separator.len_utf8() + group.len();
        groups.push(group);
    }
    (separator, groups)
}

/// Returns whether a unit, currency symbol or percent sign is next to a number.
fn has_unit_or_money(text: &str, start: usize, end: usize) -> bool {
    let behind = text[end..].trim_start_matches([' ', '\u{a0}', '\u{202f}']);
    unit_at(behind).is_some() || behind.starts_with(MONEY) || text[..start].trim_end().ends_with(MONEY)
}

/// Returns the unit that a text begins with.
fn unit_at(text: &str) -> Option<&str> {
    /// Length of the longest unit in bytes.
    const LONGEST: usize = 5;
    let end = text.find(|it: char| !it.is_alphabetic() && it != '°').unwrap_or(text.len());
    let unit = &text[..end];
    let ends = !text[end..].starts_with(char::is_alphanumeric);
    (ends && (1..=LONGEST).contains(&end) && UNITS.binary_search(&unit.to_lowercase().as_str()).is_ok()).then_some(unit)
}

/// Parses a telephone number at `start`: `+` and a country code, or `0` and at least two more digits, then further groups.
fn parse_phone(text: &str, start: usize) -> Option<Number> {
    let is_abroad = text[..start].ends_with('+');
    let first = digits(text, start);
    if !is_abroad && (!first.starts_with('0') || first.len() < 3) {
        return None;
    }
    let most = if is_abroad { MAX_PHONE_DIGITS } else { *PHONE_DIGITS.end() };
    let (mut all, mut end) = (first.to_string(), start + first.len());
    loop {
        let rest = &text[end..];
        let between = rest.find(|it: char| !matches!(it, ' ' | '-' | '/' | '(' | ')' | '\u{a0}')).unwrap_or(rest.len());
        let group = digits(text, end + between);
        if group.is_empty() || between == 0 || between > 3 || all.len() + group.len() > most {
            break;
        }
        all.push_str(group);
        end += between + group.len();
    }
    let fits = all.len() >= *PHONE_DIGITS.start() && all.len() <= most;
    let ends = !text[end..].starts_with(char::is_alphanumeric);
    let start = start - usize::from(is_abroad);
    (fits && ends)
        .then(|| Number { is_phone: true, ..Number::plain(start..end, &all[all.len() - PHONE_COMPARED_DIGITS..]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(written: &[&str], expected: &str) {
        for text in written {
            assert_eq!(canonical_numbers(text), expected, "{text}");
            assert_eq!(canonical_numbers(&format!("pay {text}, now")), format!("pay {expected}, now"));
        }
    }

    #[test]
    fn canonical_unifies_all_notations() {
        same(&["1,234.56", "1.234,56", "1 234,56", "1'234.56", "1\u{202f}234,56", "1234,56", "1234.56"], "1234.56");
        same(&["1,234", "1.234", "1\u{a0}234", "1\u{2019}234"], "1234");
        same(&["12,345,678.9", "12.345.678,9", "12 345 678,9"], "12345678.9");
        same(&["5kg", "5 kg"], "5 kg");
        same(&["2,5kg", "2.5kg"], "2.5 kg");
        same(&["1 234 EUR", "1,234 EUR", "1.234EUR", "1234 EUR"], "1234 EUR");
        assert_eq!(canonical_numbers("€1 234"), "€1234");
        same(
            &["+44 20 7946 0018", "020 7946 0018", "02079460018", "(020) 7946-0018"].map(|it| it.trim_matches('(')),
            "79460018",
        );
    }

    #[test]
    fn canonical_keeps_dates_versions_and_names() {
        for text in [
            "",
            "no digits, none",
            "2024-03-15 and 15.03.2024 at 10:30",
            "version 1.2.3 of 10.0.192",
            "192.168.100.200",
            "100 200 300",
            "sha256 of m5799dwf and h2o, 3d, 1st",
            "pages 3, 4, 5",
            "0.125",
            "x1,234",
            "٣ and ½",
            "1,234,5",
        ] {
            assert_eq!(canonical_numbers(text), text);
            assert!(matches!(canonical_numbers(text), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn keywords_adds_other_notations() {
        let check =
            |question: &str, expected: &[&str]| assert_eq!(alternative_keywords(question), expected, "{question}");
        check("1234.56", &["234"]);
        check("1234", &["234"]);
        check("1,234.56", &["1234"]);
        check("the 5kg bag", &["5", "kg"]);
        check("a bag of 5 kg", &["5kg"]);
        check("02079460018", &["0018", "7946"]);
        check("harbour budget", &[]);
        assert!(alternative_keywords("WFM5799DWF").contains(&"m5799dwf".to_string()));
        assert!(alternative_keywords("WF-M5799DWF").contains(&"wfm5799dwf".to_string()));
    }

    #[test]
    fn index_words_lists_every_notation() {
        let check = |run: &[&str]| index_words(&run.iter().map(|it| (*it).to_string()).collect::<Vec<_>>());
        assert_eq!(check(&["old", "quay"]).unwrap(), ["old quay"]);
        assert_eq!(check(&["1234", "56"]).unwrap(), ["1234 56", "234 56"]);
        assert_eq!(check(&["1234", "kg", "of", "flour"]).unwrap().last().unwrap(), "234kg of flour");
        assert_eq!(check(&["79460018"]), None);
        assert_eq!(check(&["20240315"]).unwrap(), ["20240315", "315"]);
    }

    #[test]
    fn units_are_sorted_and_long_text_stays_linear() {
        assert!(UNITS.is_sorted());
        let long = "1 234 ".repeat(200_000);
        let begun = std::time::Instant::now();
        assert_eq!(canonical_numbers(&long).len(), long.len());
        alternative_keywords(&long[..32 << 10]);
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    }

    proptest::proptest! {
        #[test]
        fn canonical_of_any_amount_is_notation_independent(integer in 1_000_u32.., cents in 0_u32..100) {
            let digits = integer.to_string();
            let grouped = |separator: &str| {
                let lead = digits.len() % 3;
                let groups: Vec<&str> = (lead..digits.len()).step_by(3).map(|at| &digits[at..at + 3]).collect();
                let lead = Some(&digits[..lead]).filter(|it| !it.is_empty());
                lead.into_iter().chain(groups).collect::<Vec<_>>().join(separator)
            };
            for (thousands, decimal) in [(",", "."), (".", ","), (" ", ","), ("'", "."), ("\u{202f}", ","), ("", ",")] {
                let written = format!("{}{decimal}{cents:02}", grouped(thousands));
                proptest::prop_assert_eq!(canonical_numbers(&written), format!("{digits}.{cents:02}"), "{}", written);
            }
        }

        #[test]
        fn canonical_keeps_letters_and_drops_digits_only(text in "[0-9 .,'+kgE€\u{a0}é°-]{0,40}") {
            let canonical = canonical_numbers(&text);
            let letters = |text: &str| text.chars().filter(|it| "kgE€é°".contains(*it)).collect::<String>();
            proptest::prop_assert_eq!(letters(&canonical), letters(&text), "{}", canonical);
            let mut typed = text.chars().filter(char::is_ascii_digit);
            let is_typed = canonical.chars().filter(char::is_ascii_digit).all(|digit| typed.any(|it| it == digit));
            proptest::prop_assert!(is_typed, "{}", canonical);
        }

        #[test]
        fn alternative_keywords_are_few_new_lower_case_words(text in "[0-9 .,'+kgE€\u{a0}é°-]{0,40}") {
            let (keywords, lower) = (alternative_keywords(&text), text.to_lowercase());
            proptest::prop_assert!(keywords.len() <= MAX_KEYWORDS);
            for keyword in &keywords {
                proptest::prop_assert_eq!(keyword, &keyword.to_lowercase());
                proptest::prop_assert_eq!(keywords.iter().filter(|it| *it == keyword).count(), 1, "{}", keyword);
                proptest::prop_assert!(!lower.split(|it: char| !it.is_alphanumeric()).any(|it| it == keyword), "{}", keyword);
            }
        }
    }
}
