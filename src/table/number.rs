//! Parses table cells as exact numbers: `1,234.56`, `1.234,56`, `1 234,56`, `1'234.56`, `(12.50)`, `−3 °C`, `€ 5`.
//!
//! A comma or dot separates thousands in one country and decimals in another. The other cells of the column decide how an
//! ambiguous cell such as `1,234` is read; if they do not, the result is [`CellNumber::Ambiguous`].

use bigdecimal::BigDecimal;

/// Maximum length of a number in characters; a longer one is excluded, because it is not an amount and costs time.
const MAX_DIGITS: usize = 60;
/// Maximum absolute exponent in scientific notation; a cell with a larger one is not a number.
const MAX_EXPONENT: i64 = 60;
/// Maximum characters of a unit; a longer word after a number means that the cell is not a number.
const MAX_UNIT_CHARS: usize = 12;

/// Currency signs, which may come before or after a number.
const CURRENCY_SIGNS: &str = "€$£¥₹₽₩₺₪฿¢₫₴₦₱₡₲₵₸₮";
/// Currency names in lower case; they may also come before or after a number.
const CURRENCY_NAMES: &str = "\
    eur usd gbp chf jpy cny sek nok dkk pln czk huf ron bgn try rub inr aud cad nzd brl mxn zar sgd hkd krw ils isk \
    kr fr. sfr. zł kč ft rs rs. us$ r$ a$ c$ euro euros";
/// Units that may follow a number without a space. With other letters, as in `12a`, a cell is not a number.
const ATTACHED_UNITS: &str = "\
    kg g mg t lb oz km m cm mm µm m2 m3 m² m³ l ml cl hl kwh mwh wh w kw mw v ma hz khz mhz ghz h min s ms gb mb kb \
    tb gib mib kib % ‰ ° °c °f k pa hpa bar nm j kj kcal km/h m/s ha";

/// Result of parsing a table cell as a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CellNumber {
    /// A number with its unit as written; the unit is empty if there is none.
    Number(BigDecimal, String),
    /// The cell can mean two different numbers.
    Ambiguous,
    /// The number has too many digits.
    TooLong,
    /// The cell is not a number.
    None,
}

/// How the digits of a written number are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigitGrouping {
    /// Digits without separators.
    Plain,
    /// This decimal separator only, as in `12,5`.
    Decimal(char),
    /// This thousands separator, and possibly this decimal separator.
    Grouped(char, Option<char>),
    /// This separator before three digits: it may separate thousands or decimals.
    Unclear(char),
}

/// The parts of a written number: sign, digits, exponent and unit.
struct NumberParts<'t> {
    is_negative: bool,
    core: &'t str,
    form: DigitGrouping,
    exponent: i64,
    unit: &'t str,
}

/// Which separators the numbers of a column use, as its cells, the caller and the file format show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NumberFormat {
    comma_decimal: bool,
    comma_group: bool,
    dot_decimal: bool,
    dot_group: bool,
    /// The decimal separator that the caller specified.
    caller_sign: Option<char>,
    /// Whether the file format writes all numbers with a decimal point.
    has_decimal_point: bool,
}

impl NumberFormat {
    /// Starts with what is known before any cell is read: the caller's decimal separator and the file format.
    pub(crate) fn new(caller_sign: Option<char>, has_decimal_point: bool) -> NumberFormat {
        NumberFormat { caller_sign, has_decimal_point, ..NumberFormat::default() }
    }

    /// Notes which separators a cell uses. Returns the unit of the cell if it is a number.
    pub(crate) fn learn<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let parts = split_number(text)?;
        let mut note = |sign: char, is_decimal: bool| match (sign, is_decimal) {
            (',', true) => self.comma_decimal = true,
            (',', false) => self.comma_group = true,
            ('.', true) => self.dot_decimal = true,
            ('.', false) => self.dot_group = true,
            _ => {}
        };
        match parts.form {
            DigitGrouping::Decimal(sign) => note(sign, true),
            DigitGrouping::Grouped(group, decimal) => {
                note(group, false);
                decimal.into_iter().for_each(|it| note(it, true));
            }
            DigitGrouping::Plain | DigitGrouping::Unclear(_) => {}
        }
        Some(parts.unit)
    }

    /// Whether the separator of an ambiguous number separates decimals; `None` if the column does not show it.
    fn is_decimal(self, sign: char) -> Option<bool> {
        if let Some(named) = self.caller_sign {
            return Some(sign == named);
        }
        let (decimal, group) = match sign {
            '.' if self.has_decimal_point => (true, false),
            '.' => (self.dot_decimal || self.comma_group, self.dot_group || self.comma_decimal),
            _ => (self.comma_decimal || self.dot_group, self.comma_group || self.dot_decimal),
        };
        (decimal != group).then_some(decimal)
    }

    /// Parses a cell of the column as a number.
    pub(crate) fn parse(self, text: &str) -> CellNumber {
        let Some(parts) = split_number(text) else { return CellNumber::None };
        let decimal = match parts.form {
            DigitGrouping::Plain => None,
            DigitGrouping::Decimal(sign) => Some(sign),
            DigitGrouping::Grouped(_, decimal) => decimal,
            DigitGrouping::Unclear(sign) => match self.is_decimal(sign) {
                Some(true) => Some(sign),
                Some(false) => None,
                None => return CellNumber::Ambiguous,
            },
        };
        let mut digits = String::with_capacity(parts.core.len() + 2);
        digits.extend(parts.is_negative.then_some('-'));
        digits.extend(parts.core.chars().filter_map(|it| match it {
            it if it.is_ascii_digit() => Some(it),
            it if Some(it) == decimal => Some('.'),
            _ => None,
        }));
        if digits.len() > MAX_DIGITS {
            return CellNumber::TooLong;
        }
        let Ok(number) = digits.parse::<BigDecimal>() else { return CellNumber::None };
        let number = match parts.exponent {
            0 => number,
            exponent => {
                let (whole, scale) = number.into_bigint_and_exponent();
                BigDecimal::new(whole, scale - exponent).with_scale((scale - exponent).max(0))
            }
        };
        CellNumber::Number(number, parts.unit.to_string())
    }
}

/// Parses a number that a user typed. A dot is a decimal point unless the text shows otherwise, as `1.234,5` does.
pub(crate) fn parse_typed(text: &str) -> Option<BigDecimal> {
    match NumberFormat::new(None, true).parse(text) {
        CellNumber::Number(number, _) => Some(number),
        _ => None,
    }
}

/// Whether a text is a number in any format.
pub(crate) fn is_number(text: &str) -> bool {
    split_number(text).is_some()
}

/// Whether a text is a whole number that can be a year.
pub(crate) fn is_year(text: &str) -> bool {
    text.len() == 4 && text.bytes().all(|it| it.is_ascii_digit()) && (text.starts_with("19") || text.starts_with("20"))
}

/// Whether a list contains a word, ignoring case.
fn is_in(list: &str, word: &str) -> bool {
    let word = word.to_lowercase();
    list.split(' ').any(|it| it == word)
}

/// Whether a unit is a currency.
pub(crate) fn is_currency(unit: &str) -> bool {
    let mut letters = unit.chars();
    let is_sign = matches!((letters.next(), letters.next()), (Some(sign), None) if CURRENCY_SIGNS.contains(sign));
    is_sign || is_in(CURRENCY_NAMES, unit)
}

/// Returns one name for all spellings of a unit, in lower case: `eur` for `€` and `Euro`.
pub(crate) fn unit_name(unit: &str) -> String {
    let unit = unit.to_lowercase();
    match unit.as_str() {
        "€" | "euro" | "euros" => "eur".into(),
        "£" => "gbp".into(),
        "us$" => "usd".into(),
        "fr." | "sfr." => "chf".into(),
        _ => unit,
    }
}

/// Whether a word without a number, such as in a column header, is certainly a unit.
pub(crate) fn is_known_unit(word: &str) -> bool {
    is_currency(word) || word.len() > 1 && is_in(ATTACHED_UNITS, word)
}

fn split_number(text: &str) -> Option<NumberParts<'_>> {
    let text = text.trim();
    // Returns early for a text without digits, because most cells of a table are not numbers.
    let first = text.find(|it: char| it.is_ascii_digit())?;
    let first = text[..first].strip_suffix(['.', ',']).map_or(first, str::len);
    let (before, rest) = text.split_at(first);
    let (is_bracketed, is_negative, before) = parse_prefix(before)?;
    let length = rest.find(|it: char| !is_number_char(it)).unwrap_or(rest.len());
    let core = rest[..length].trim_end();
    let (exponent, behind) = parse_exponent(&rest[core.len()..]);
    let is_apart = behind.starts_with(char::is_whitespace);
    let behind = behind.trim();
    let behind = if is_bracketed { behind.strip_suffix(')')?.trim_end() } else { behind };
    let (is_trailing, behind) = match behind.strip_suffix(['-', '\u{2212}']) {
        Some(rest) if !is_negative && !is_bracketed => (true, rest.trim_end()),
        _ => (false, behind),
    };
    let unit = match (before, behind) {
        ("", unit) if unit.is_empty() || is_unit(unit, is_apart) => unit,
        (unit, "") if is_currency(unit) => unit,
        _ => return None,
    };
    let form = detect_grouping(core)?;
    Some(NumberParts { is_negative: is_negative || is_bracketed || is_trailing, core, form, exponent, unit })
}

/// Parses the text before the digits: a parenthesis, a sign, a currency. Returns whether there is a parenthesis, whether
/// the number is negative, and the remaining text.
fn parse_prefix(before: &str) -> Option<(bool, bool, &str)> {
    let mut rest = before.trim();
    let (mut is_bracketed, mut signs, mut is_negative) = (false, 0, false);
    let mut take = |rest: &mut &str| {
        for (sign, negative) in [('-', true), ('\u{2212}', true), ('+', false)] {
            let cut =
                rest.strip_prefix(sign).map(str::trim_start).or_else(|| rest.strip_suffix(sign).map(str::trim_end));
            if let Some(cut) = cut {
                (*rest, is_negative) = (cut, is_negative || negative);
                signs += 1;
            }
        }
    };
    take(&mut rest);
    if let Some(inner) =
        rest.strip_prefix('(').map(str::trim_start).or_else(|| rest.strip_suffix('(').map(str::trim_end))
    {
        (rest, is_bracketed) = (inner, true);
    }
    take(&mut rest);
    (signs < 2 && !(is_bracketed && signs > 0)).then_some((is_bracketed, is_negative, rest))
}

fn is_number_char(letter: char) -> bool {
    letter.is_ascii_digit() || matches!(letter, '.' | ',' | '\'' | '\u{2019}') || letter.is_whitespace()
}

/// Parses an exponent such as `e-7`. Returns the exponent, or 0, and the text behind it.
fn parse_exponent(behind: &str) -> (i64, &str) {
    let none = (0, behind);
    let Some(rest) = behind.strip_prefix(['e', 'E']) else { return none };
    let end = rest.find(|it: char| !it.is_ascii_digit() && !matches!(it, '+' | '-')).unwrap_or(rest.len());
    match rest[..end].parse::<i64>() {
        Ok(exponent) if exponent.abs() <= MAX_EXPONENT => (exponent, &rest[end..]),
        _ => none,
    }
}

/// Whether the text after a number is a unit: a known unit, or any single word after a blank.
fn is_unit(unit: &str, is_apart: bool) -> bool {
    if is_currency(unit) || is_in(ATTACHED_UNITS, unit) {
        return true;
    }
    let of_unit = |it: char| it.is_alphanumeric() || matches!(it, '/' | '²' | '³' | '°' | '%' | '·' | '.');
    is_apart
        && unit.chars().count() <= MAX_UNIT_CHARS
        && unit.chars().next().is_some_and(char::is_alphabetic)
        && unit.chars().all(of_unit)
}

/// Detects how the digits of a number are separated; `None` if the text is not a number, e.g. a date.
fn detect_grouping(core: &str) -> Option<DigitGrouping> {
    if core.bytes().all(|it| it.is_ascii_digit()) {
        return (!core.is_empty()).then_some(DigitGrouping::Plain);
    }
    let sign = |it: char| match it {
        '\u{2019}' => '\'',
        it if it.is_whitespace() => ' ',
        it => it,
    };
    let signs: Vec<char> = core.chars().filter(|it| !it.is_ascii_digit()).map(sign).collect();
    let parts: Vec<&str> = core.split(|it: char| !it.is_ascii_digit()).collect();
    let (last, first) = (*signs.last()?, signs[0]);
    let is_decimal = |it: char| matches!(it, '.' | ',');
    // Digits must come after the last separator, and before the first one except in `.5`.
    if parts.last()?.is_empty() || parts[0].is_empty() && !(signs.len() == 1 && is_decimal(last)) {
        return None;
    }
    if signs.iter().all(|it| *it == first) {
        return match parts[..] {
            [before, behind] if is_decimal(first) => {
                let is_open = behind.len() == 3 && (1..=3).contains(&before.len()) && !before.starts_with('0');
                Some(if is_open { DigitGrouping::Unclear(first) } else { DigitGrouping::Decimal(first) })
            }
            _ => are_thousands(&parts, first).then_some(DigitGrouping::Grouped(first, None)),
        };
    }
    let group = signs[..signs.len() - 1].iter().all(|it| *it == first) && is_decimal(last);
    (group && are_thousands(&parts[..parts.len() - 1], first)).then_some(DigitGrouping::Grouped(first, Some(last)))
}

/// Whether groups of digits are thousands, or Indian lakhs with commas (`12,34,567`).
fn are_thousands(groups: &[&str], sign: char) -> bool {
    let [first, middle @ .., last] = groups else { return groups.len() == 1 };
    let lakhs = sign == ',' && first.len() < 3 && middle.iter().all(|it| it.len() == 2);
    last.len() == 3 && (1..=3).contains(&first.len()) && (middle.iter().all(|it| it.len() == 3) || lakhs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(column: &[&str], text: &str) -> String {
        let mut habit = NumberFormat::default();
        for it in column.iter().chain([&text]) {
            habit.learn(it);
        }
        match habit.parse(text) {
            CellNumber::Number(number, unit) => format!("{} {unit}", number.to_plain_string()).trim_end().to_string(),
            other => format!("{other:?}"),
        }
    }

    /// Cells with a number, and the expected decimal form.
    const NUMBERS: &[(&str, &str)] = &[
        ("1,234.56", "1234.56"),
        ("1.234,56", "1234.56"),
        ("1 234,56", "1234.56"),
        ("1\u{a0}234,56", "1234.56"),
        ("1\u{202f}234\u{202f}567", "1234567"),
        ("1'234.56", "1234.56"),
        ("1\u{2019}234\u{2019}567.5", "1234567.5"),
        ("12,34,567.8", "1234567.8"),
        ("1,234,567", "1234567"),
        ("1.234.567", "1234567"),
        ("0,123", "0.123"),
        ("0.123", "0.123"),
        ("12,5", "12.5"),
        ("1234,567", "1234.567"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("€ 1.234,50", "1234.50 €"),
        ("$-5", "-5 $"),
        ("-$5.10", "-5.10 $"),
        ("12 EUR", "12 EUR"),
        ("CHF 1'234.50", "1234.50 CHF"),
        ("12,5 %", "12.5 %"),
        ("12.5%", "12.5 %"),
        ("(1,234.50)", "-1234.50"),
        ("($12.00)", "-12.00 $"),
        ("\u{2212}3,5 °C", "-3.5 °C"),
        ("- 7", "-7"),
        ("+7", "7"),
        ("12.50-", "-12.50"),
        ("7.1 m3", "7.1 m3"),
        ("5kg", "5 kg"),
        ("60 km/h", "60 km/h"),
        ("1e3", "1000"),
        ("1.5E-3", "0.0015"),
        ("007", "7"),
        ("  42  ", "42"),
    ];

    #[test]
    fn numbers_parse_in_formats_of_many_countries() {
        for (text, expected) in NUMBERS {
            assert_eq!(read(&[], text), *expected, "{text}");
        }
    }

    #[test]
    fn non_number_gives_none() {
        for text in [
            "",
            "-",
            "n/a",
            "abc",
            "2025-01-14",
            "14.01.2025",
            "10:30",
            "1/2",
            "12a",
            "1st",
            "3 of 5",
            "12 Main Street",
            "1.2.3",
            "192.168.0.1",
            "1,23,4",
            "1..2",
            "1,",
            "12 34",
            "(5",
            "5)",
            "(-5)",
            "--5",
            "[redacted]",
            "+49 30 1234 5678",
            "Q1",
            "1 2",
            "€5€",
            "O-118",
            "HP40-00211",
            "5 - 7",
        ] {
            assert_eq!(read(&[], text), "None", "{text}");
        }
        assert_eq!(read(&[], &"9".repeat(61)), "TooLong");
        assert_eq!(read(&[], &"9".repeat(60)), "9".repeat(60));
    }

    #[test]
    fn column_decides_ambiguous_number() {
        for (column, text, expected) in [
            (&[][..], "1,234", "Ambiguous"),
            (&["900"], "1.234", "Ambiguous"),
            (&["12,5"], "1,234", "1.234"),
            (&["12,5"], "1.234", "1234"),
            (&["12.5"], "1,234", "1234"),
            (&["12.5"], "1.234", "1.234"),
            (&["1,234,567"], "1,234", "1234"),
            (&["1,234,567"], "1.234", "1.234"),
            (&["1'234.5"], "1.234", "1.234"),
            (&["1 234,5"], "1.234", "1234"),
            (&["1.234,5", "1,234.5"], "1,234", "Ambiguous"),
            (&["text", "2025-01-01"], "1,234", "Ambiguous"),
        ] {
            assert_eq!(read(column, text), expected, "{column:?} {text}");
        }
        assert_eq!(
            NumberFormat::new(Some(','), false).parse("1,234"),
            CellNumber::Number("1.234".parse().unwrap(), String::new())
        );
        assert_eq!(NumberFormat::new(Some('.'), false).parse("1,234"), CellNumber::Number(1234.into(), String::new()));
        assert_eq!(
            NumberFormat::new(None, true).parse("1.234"),
            CellNumber::Number("1.234".parse().unwrap(), String::new())
        );
    }
}
