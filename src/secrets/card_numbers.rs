//! Detects numbers of payment cards and bank accounts (IBAN) in texts, by their form and check digits.

use std::iter;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::secrets::patterns::compile_alternatives;

/// Possible card numbers: runs of digits, with or without blanks or hyphens. `is_card` checks them.
static CARDS: LazyLock<Regex> = LazyLock::new(|| {
    compile_alternatives(&[
        r"(?-u:\b)[2-6][0-9]{12,18}(?-u:\b)",
        r"(?-u:\b)[2-6][0-9]{3}(?: [0-9]{4}){3}(?-u:\b)",
        r"(?-u:\b)[2-6][0-9]{3}(?:-[0-9]{4}){3}(?-u:\b)",
        r"(?-u:\b)3[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5}(?-u:\b)",
    ])
});
/// Possible account numbers: letters and digits in groups. `is_account` checks them.
static ACCOUNTS: LazyLock<Regex> = LazyLock::new(|| {
    compile_alternatives(&[r"(?-u:\b)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?-u:\b)"])
});

/// Returns the ranges of the card and account numbers in a text.
pub(super) fn find_numbers(text: &str) -> impl Iterator<Item = Range<usize>> {
    find_cards(text).into_iter().chain(find_accounts(text))
}

fn find_cards(text: &str) -> Vec<Range<usize>> {
    let is_one = |it: &Range<usize>| is_card(&text[it.clone()]) && !is_decimal(&text[..it.start]);
    let cards: Vec<_> = CARDS.find_iter(text).map(|it| it.range()).filter(is_one).collect();
    cards.iter().filter(|it| stands_alone(text, it, &cards)).cloned().collect()
}

/// Whether the digits begin like the numbers of a card issuer, have its length, and match their Luhn check digit.
fn is_card(digits: &str) -> bool {
    let digits: Vec<u32> = digits.chars().filter_map(|it| it.to_digit(10)).collect();
    let issued = matches!(
        (digits[0] * 10 + digits[1], digits.len()),
        (40..=49, 13 | 16 | 19)
            | (22..=27 | 35 | 51..=55, 16)
            | (34 | 37, 15)
            | (30 | 36 | 38 | 39, 14)
            | (50 | 56..=69, 16..=19)
    );
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| if place % 2 == 0 { *digit } else { digit * 2 / 10 + digit * 2 % 10 })
        .sum();
    issued && sum.is_multiple_of(10)
}

/// Whether the digits after `before` are decimals of a number: a dot precedes them, but not after a word, where the dot
/// ends a sentence or an abbreviation.
fn is_decimal(before: &str) -> bool {
    before.strip_suffix('.').is_some_and(|it| !it.ends_with(|it: char| it.is_alphabetic() || it == '.'))
}

/// Whether a card number stands alone, instead of being part of a longer number or of a row of numbers: digits directly
/// before or after it must belong to another card number or to an expiry date.
fn stands_alone(text: &str, card: &Range<usize>, cards: &[Range<usize>]) -> bool {
    let before = text[..card.start].trim_end_matches([' ', '-']);
    let after = text[card.end..].trim_start_matches([' ', '-']);
    let parted_before = || {
        let other = cards.binary_search_by_key(&before.len(), |it| it.end).is_ok();
        other || before.as_bytes().last_chunk().is_some_and(is_month)
    };
    let parted_after = || {
        let other = cards.binary_search_by_key(&(text.len() - after.len()), |it| it.start).is_ok();
        other || after.as_bytes().first_chunk().is_some_and(is_month)
    };
    (!before.ends_with(|it: char| it.is_ascii_digit()) || parted_before())
        && (!after.starts_with(|it: char| it.is_ascii_digit()) || parted_after())
}

/// Whether `text` is an expiry date (`MM/YY`), or the start of one with a four-digit year.
fn is_month(text: &[u8; 5]) -> bool {
    matches!(text, [b'0'..=b'1', b'0'..=b'9', b'/', b'0'..=b'9', b'0'..=b'9'])
}

fn find_accounts(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    iter::from_fn(move || {
        loop {
            let found = ACCOUNTS.find_at(text, at)?;
            let Some(length) = account_length(found.as_str()) else {
                // Continues after the first group, because the groups after a false match may contain an account number.
                at = found.start() + 4;
                continue;
            };
            at = found.start() + length;
            return Some(found.start()..at);
        }
    })
}

/// Returns the length of the account number at the start of a text. Tries shorter and shorter prefixes, because words in
/// capitals after the number look like further groups of it.
fn account_length(text: &str) -> Option<usize> {
    let mut ends = iter::successors(Some(text.len()), |end| text[..*end].rfind(' '));
    ends.find(|end| is_account(&text[..*end]))
}

/// Checks the length and check digits of an IBAN: with the first four characters moved to the end, and letters as numbers,
/// the number is 1 modulo 97.
fn is_account(text: &str) -> bool {
    let text: Vec<char> = text.chars().filter(|it| *it != ' ').collect();
    if !(15..=34).contains(&text.len()) {
        return false;
    }
    let turned = text[4..].iter().chain(&text[..4]);
    let left = turned.filter_map(|it| it.to_digit(36)).fold(0, |left, value| match value {
        0..=9 => (left * 10 + value) % 97,
        _ => (left * 100 + value) % 97,
    });
    left == 1
}

#[cfg(test)]
mod tests {
    use crate::model::Redaction;
    use crate::secrets::Redactor;

    fn check(text: &str, expected: &str) {
        assert_eq!(Redactor::new(Redaction::All).redact(text), expected, "{text}");
        assert_eq!(Redactor::new(Redaction::Keys).redact(text), text);
    }

    #[test]
    fn cards_and_accounts_are_redacted_only_in_mode_all() {
        check("card 4111 1111 1111 1111, thanks", "card [redacted], thanks");
        check("card 4111-1111-1111-1111.", "card [redacted].");
        check("Amex 3782 822463 10005", "Amex [redacted]");
        check("Diners 3056 930902 5904", "Diners [redacted]");
        check("DE89 3704 0044 0532 0130 00 please", "[redacted] please");
    }

    #[test]
    fn sentence_point_before_card_is_not_decimal() {
        for (text, cleaned) in [
            ("Card No. 4111 1111 1111 1111", "Card No. [redacted]"),
            ("Card No.4111111111111111", "Card No.[redacted]"),
            ("He paid. 4111111111111111 was used", "He paid. [redacted] was used"),
            ("1. 4111 1111 1111 1111", "1. [redacted]"),
            ("Number: ...4111111111111111", "Number: ...[redacted]"),
        ] {
            check(text, cleaned);
        }
    }

    #[test]
    fn cards_beside_months_and_cards_are_found() {
        for (text, cleaned) in [
            ("4111 1111 1111 1111 12/28 123", "[redacted] 12/28 123"),
            ("4111111111111111 01/2028", "[redacted] 01/2028"),
            ("12/28 4111 1111 1111 1111", "12/28 [redacted]"),
            ("4111 1111 1111 1111 5500 0000 0000 0004", "[redacted] [redacted]"),
            ("4111111111111111 - 5500000000000004 - 3782 822463 10005", "[redacted] - [redacted] - [redacted]"),
            ("4111 1111 1111 1111 5500 0000 0000 0004 12/28", "[redacted] [redacted] 12/28"),
        ] {
            check(text, cleaned);
        }
    }

    #[test]
    fn other_numbers_are_kept() {
        for text in [
            "order 4111 1111 1111 1112",
            "4111 1111 1111 111",
            "1730000000000 ms",
            "12 4111 1111 1111 1111",
            "4111 1111 1111 1111 5500 1234",
            "4111 1111 1111 1111 2812",
            "4111 1111 1111 1111 28/12",
            "0.4111111111111111",
            "between .4111111111111111 and 1",
            "[-.4111111111111111,1.2.4111111111111111]",
            "14111111111111111 and 41111111111111110000",
            "3056 930902 5905",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn account_ends_before_following_words() {
        for (text, cleaned) in [
            ("IBAN ES91 2100 0418 4502 0005 1332 BIC CAIXESBB", "IBAN [redacted] BIC CAIXESBB"),
            ("BE68 5390 0754 7034 BIC GEBABEBB", "[redacted] BIC GEBABEBB"),
            ("BE68 5390 0754 7034 GEBABEBB", "[redacted] GEBABEBB"),
            ("BE68539007547034 EUR 5000", "[redacted] EUR 5000"),
            ("BE68 5390 0754 7034 ES91 2100 0418 4502 0005 1332", "[redacted] [redacted]"),
            ("GB82 WEST 1234 5698 7654 32 AND MORE", "[redacted] AND MORE"),
            ("ROOM AB34 BE68 5390 0754 7034", "ROOM AB34 [redacted]"),
        ] {
            check(text, cleaned);
        }
        for text in ["DE89 3704 0044 0532 0130 01", "ES91 2100 0418 BIC CAIXESBB", "KEYS AB12 CD34 EF56 GH78 IJ90"] {
            check(text, text);
        }
    }
}
