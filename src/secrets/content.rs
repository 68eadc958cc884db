//! Keys, tokens and numbers in texts, by how they look.
//!
//! Only what is made to be told apart: formats with a prefix or a checksum, private keys between their marks, and
//! random-looking values behind a word like `api_key`. Hashes, identifiers and base64 of anything else stay.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::model::Redaction;

/// What stands in the place of a secret.
pub const MARK: &str = "[redacted]";

/// Changes whenever something else is blacked out: what was read before is read again then.
pub const RULES: &str = "4";

/// A private key is not longer: 16,384 bits of RSA take 13 KiB.
pub(super) const MOST_KEY_BYTES: usize = 32 << 10;

/// What one begins and ends with, before its kind.
pub(super) const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// Formats that begin with a name of their own. Word boundaries are those of ASCII: with the others, text in any other
/// language takes the slow way through the matcher.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    regex(&[
        r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?-u:\b)",
        r"(?-u:\b)gh[pousr]_[A-Za-z0-9]{36,251}",
        r"(?-u:\b)github_pat_[A-Za-z0-9_]{22,255}",
        r"(?-u:\b)glpat-[A-Za-z0-9_-]{20,64}",
        r"(?-u:\b)xox[abeoprs]-[A-Za-z0-9-]{10,250}",
        r"hooks\.slack\.com/services/T[A-Za-z0-9_]+/B[A-Za-z0-9_]+/[A-Za-z0-9_]{16,}",
        r"(?-u:\b)sk-(?:proj-|ant-|svcacct-)?[A-Za-z0-9_-]{20,250}",
        r"(?-u:\b)AIza[A-Za-z0-9_-]{35}",
        r"(?-u:\b)ya29\.[A-Za-z0-9_-]{20,}",
        r"(?-u:\b)[rs]k_(?:live|test)_[A-Za-z0-9]{16,250}",
        r"(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"(?-u:\b)npm_[A-Za-z0-9]{36}(?-u:\b)",
        r"(?-u:\b)pypi-[A-Za-z0-9_-]{50,}",
        r"(?-u:\b)hf_[A-Za-z0-9]{34,}",
        r"(?-u:\b)SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
        r"(?-u:\b)dop_v1_[a-f0-9]{64}(?-u:\b)",
        r"[0-9]:AA[A-Za-z0-9_-]{33}(?-u:\b)",
        r"(?-u:\b)AGE-SECRET-KEY-1[0-9A-Z]{58}(?-u:\b)",
        r"(?-u:\b)AccountKey=[A-Za-z0-9+/=]{60,}",
    ])
});

/// A word that says what the value behind it is, and what may stand between the two: also the bar between two cells, and
/// quotes that are themselves in quotes.
const NAME: &str = concat!(
    r"(?i:secret|token|passwd|password|passphrase|api[ _-]?key|access[ _-]?key|private[ _-]?key|auth[ _-]?key|bearer)",
    r#"[A-Za-z0-9_]*(?:\\*["'])?"#
);
const BETWEEN: &str = r"\s*(?::=|=>|=|:|\|)\s*";
const VALUE: &str = r#"(?:\\*["'])?([A-Za-z0-9+/_=~.-]{16,256})"#;

/// A value behind a word that says what it is: group 1 is the value.
static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| regex(&[&format!(r"{NAME}(?:{BETWEEN}|\s+){VALUE}")]));

/// The word at the end of a text, and the value at the beginning of the next.
static NAMED: LazyLock<Regex> = LazyLock::new(|| regex(&[&format!(r#"{NAME}(?:{BETWEEN}|\s*)(?:\\*["'])?$"#)]));
static LEADING: LazyLock<Regex> = LazyLock::new(|| regex(&[&format!(r"^\s*{VALUE}")]));

/// The password in an address: group 1.
static IN_ADDRESS: LazyLock<Regex> = LazyLock::new(|| regex(&[r"://[^/\s:@<>{}$]{1,64}:([^/\s@<>{}$]{3,128})@"]));

/// Runs of digits, as cards are written; letters and digits, as accounts are.
static CARDS: LazyLock<Regex> = LazyLock::new(|| {
    regex(&[
        r"(?-u:\b)[2-6][0-9]{12,18}(?-u:\b)",
        r"(?-u:\b)[2-6][0-9]{3}(?: [0-9]{4}){3}(?-u:\b)",
        r"(?-u:\b)[2-6][0-9]{3}(?:-[0-9]{4}){3}(?-u:\b)",
        r"(?-u:\b)3[0-9]{3}[ -][0-9]{6}[ -][0-9]{5}(?-u:\b)",
    ])
});
static ACCOUNTS: LazyLock<Regex> =
    LazyLock::new(|| regex(&[r"(?-u:\b)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?-u:\b)"]));

fn regex(alternatives: &[&str]) -> Regex {
    Regex::new(&alternatives.join("|")).expect("the patterns are constants")
}

/// Blacks out secrets in the texts of one document, in order: a private key may begin in one and end in another, and a
/// value stand in the paragraph below its name.
#[derive(Clone, Debug)]
pub struct Censor {
    redaction: Redaction,
    in_key: bool,
    named: bool,
    found: u32,
}

impl Censor {
    /// Makes one for a new document.
    pub fn new(redaction: Redaction) -> Censor {
        Censor { redaction, in_key: false, named: false, found: 0 }
    }

    /// Returns how many places were blacked out so far.
    pub fn found(&self) -> u32 {
        self.found
    }

    /// Returns the next text without its secrets: borrowed when there is none.
    pub fn clean<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        self.clean_knowing(text, Vec::new())
    }

    /// As [`Censor::clean`], of a text of which it is known already that these places are secret.
    pub(super) fn clean_knowing<'t>(&mut self, text: &'t str, known: Vec<Range<usize>>) -> Cow<'t, str> {
        match self.places_beside(text, known) {
            places if places.is_empty() => Cow::Borrowed(text),
            places => Cow::Owned(without(text, &places)),
        }
    }

    /// Returns where the secrets of the next text stand, in order.
    pub fn places(&mut self, text: &str) -> Vec<Range<usize>> {
        self.places_beside(text, Vec::new())
    }

    fn places_beside(&mut self, text: &str, known: Vec<Range<usize>>) -> Vec<Range<usize>> {
        if self.redaction == Redaction::None {
            return Vec::new();
        }
        let mut places = self.keys(text);
        places.extend(known);
        places.extend(self.leading(text));
        places.extend(wholes(text, self.redaction).map(|(_, secret)| secret));
        let places = merged(places);
        self.found += places.len() as u32;
        places
    }

    /// Finds the value at the beginning of a text whose name is the last word of the text before.
    fn leading(&mut self, text: &str) -> Option<Range<usize>> {
        /// The longest end of a text that is looked at: a name with quotes.
        const NAME_BYTES: usize = 128;
        let end = &text[text.ceil_char_boundary(text.len().saturating_sub(NAME_BYTES))..];
        let named = std::mem::replace(&mut self.named, NAMED.is_match(end));
        if named { value_of(text) } else { None }
    }

    /// Finds private keys, also one that goes on from the text before or into the next.
    fn keys(&mut self, text: &str) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        let mut at = 0;
        if std::mem::take(&mut self.in_key) {
            at = key_end(text, 0);
            places.push(0..at);
            self.in_key = at == text.len() && !text.contains(END);
        }
        while let Some(begin) = text[at..].find(BEGIN).map(|it| at + it) {
            at = begin + BEGIN.len();
            let Some(key) = key_from(text, begin) else { continue };
            at = key.end;
            places.push(key);
            self.in_key = at == text.len() && !text[begin..].contains(END);
        }
        places.retain(|it| !it.is_empty());
        places
    }
}

/// Finds the random-looking value that a text begins with.
pub(super) fn value_of(text: &str) -> Option<Range<usize>> {
    let found = LEADING.captures(text)?.get(1)?;
    looks_random(found.as_str()).then(|| found.range())
}

/// Returns the private key that a mark begins; None where it begins something else.
pub(super) fn key_from(text: &str, begin: usize) -> Option<Range<usize>> {
    let at = begin + BEGIN.len();
    let label = text[at..].split("-----").next().unwrap_or_default();
    if label.len() > 64 || !label.contains("PRIVATE KEY") {
        return None;
    }
    Some(begin..key_end(text, at + label.len() + 5.min(text.len() - at - label.len())))
}

/// Returns where a private key ends of which the text holds a part from `start` on: behind its mark, or with the last
/// line that looks like a part of one.
fn key_end(text: &str, start: usize) -> usize {
    let limit = text.floor_char_boundary((start + MOST_KEY_BYTES).min(text.len()));
    if let Some(place) = text[start..limit].find(END) {
        let behind = start + place + END.len();
        let rest = &text[behind..];
        return behind + rest.find("-----").filter(|it| *it <= 64).map_or(0, |it| it + 5);
    }
    let mut end = start;
    for line in text[start..limit].split_inclusive('\n') {
        if !is_of_key(line.trim()) {
            break;
        }
        end += line.len();
    }
    end
}

/// Says whether a line may stand inside a private key: base64, a header, or nothing.
fn is_of_key(line: &str) -> bool {
    let base64 = line.bytes().all(|it| it.is_ascii_alphanumeric() || b"+/=\\".contains(&it));
    let header = line.split_once(": ").is_some_and(|(name, _)| name.len() < 32 && !name.contains(' '));
    base64 || header
}

/// Finds secrets that stand in one text, private keys aside: what they are told by, and in it what is secret.
pub(super) fn wholes(text: &str, redaction: Redaction) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let tokens = TOKENS.find_iter(text).map(|it| (it.range(), it.range()));
    let assigned = values(&ASSIGNED, text).filter(|(_, it)| looks_random(&text[it.clone()]));
    let numbers = (redaction == Redaction::All).then(|| numbers(text).map(|it| (it.clone(), it)));
    tokens.chain(assigned).chain(values(&IN_ADDRESS, text)).chain(numbers.into_iter().flatten())
}

/// Finds the numbers of cards and accounts.
fn numbers(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_one = |it: &Range<usize>| is_card(&text[it.clone()]) && stands_alone(text, it);
    let cards = CARDS.find_iter(text).map(|it| it.range()).filter(is_one);
    cards.chain(ACCOUNTS.find_iter(text).filter(|it| is_account(it.as_str())).map(|it| it.range()))
}

/// Finds whole matches, and their group 1.
fn values<'t>(regex: &'static Regex, text: &'t str) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + 't {
    regex.captures_iter(text).filter_map(|it| Some((it.get(0)?.range(), it.get(1)?.range())))
}

/// Tells a generated value from words, names and calls: small and capital letters and digits all mixed, or a long hex
/// number.
fn looks_random(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|it| is(&it));
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let hex = value.len() >= 32 && value.bytes().all(|it| it.is_ascii_hexdigit()) && digits >= 4;
    let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && digits >= 2;
    hex || (mixed && entropy(value) >= 3.5)
}

/// Bits a character.
fn entropy(value: &str) -> f64 {
    let mut counts = [0u32; 256];
    value.bytes().for_each(|it| counts[usize::from(it)] += 1);
    let total = value.len() as f64;
    counts.iter().filter(|it| **it > 0).map(|it| f64::from(*it) / total).map(|share| -share * share.log2()).sum()
}

/// Checks the first digits with the length, as issuers have them, and the last one, as Luhn has it.
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

/// Tells a number from a part of a longer one, of a decimal, or of a row of a table.
fn stands_alone(text: &str, place: &Range<usize>) -> bool {
    let before = text[..place.start].trim_end_matches([' ', '-']);
    let after = text[place.end..].trim_start_matches([' ', '-']);
    !before.ends_with(|it: char| it.is_ascii_digit() || it == '.') && !after.starts_with(|it: char| it.is_ascii_digit())
}

/// Checks an IBAN: with its first four characters at the end and letters as numbers it leaves 1 when divided by 97.
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

/// Sorts places, and makes one of those that touch.
pub(super) fn merged(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_unstable_by_key(|it| it.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(places.len());
    for place in places {
        match merged.last_mut() {
            Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
            _ => merged.push(place),
        }
    }
    merged
}

fn without(text: &str, places: &[Range<usize>]) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut at = 0;
    for place in places {
        cleaned.push_str(&text[at..place.start]);
        cleaned.push_str(MARK);
        // A key that ends with its line takes the line end along, which belongs to the text.
        if text[place.clone()].ends_with('\n') {
            cleaned.push('\n');
        }
        at = place.end;
    }
    cleaned.push_str(&text[at..]);
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(redaction: Redaction, text: &str, expected: &str) {
        assert_eq!(Censor::new(redaction).clean(text), expected, "{text}");
    }

    fn keys(text: &str, expected: &str) {
        check(Redaction::Keys, text, expected);
        check(Redaction::None, text, text);
    }

    #[test]
    fn tokens_are_known_by_their_formats() {
        // Put together here, so that no scanner takes this file for a leak.
        for (prefix, rest) in [
            ("AKIA", "IOSFODNN7EXAMPLE"),
            ("ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"),
            ("glpat-", "X1a2b3c4d5e6f7g8h9i0"),
            ("xoxb-", "123456789012-abcdefGHIJ"),
            ("sk-proj-", "abcdefghijklmnopqrstuvwx"),
            ("AIza", "SyA1234567890abcdefghijklmnopqrstuv"),
            ("sk_live_", "4eC39HqLyjWDarjtT1zdp7dc"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.", "dozjgNryP4J3jVmNHl0w5N"),
            ("npm_", "abcdefghijklmnopqrstuvwxyz0123456789"),
        ] {
            keys(&format!("a {prefix}{rest} b"), "a [redacted] b");
        }
    }

    #[test]
    fn a_private_key_goes_with_its_marks() {
        let key =
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow+/=\nAAAA\n-----END RSA PRIVATE KEY-----";
        keys(&format!("before\n{key}\nafter"), "before\n[redacted]\nafter");
        keys(
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        );
        keys(
            "{\"key\": \"-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----\\n\"}",
            "{\"key\": \"[redacted]\\n\"}",
        );
    }

    #[test]
    fn a_private_key_is_followed_from_one_text_to_the_next() {
        let mut censor = Censor::new(Redaction::Keys);
        assert_eq!(censor.clean("note\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn"), "note\n[redacted]");
        assert_eq!(censor.clean("NzaC1rZXk="), "[redacted]");
        assert_eq!(censor.clean("QyNTUx\n-----END OPENSSH PRIVATE KEY-----\nmore"), "[redacted]\nmore");
        assert_eq!(censor.clean("QyNTUx"), "QyNTUx");
        assert_eq!(censor.found(), 3);
    }

    #[test]
    fn a_value_is_found_below_the_text_that_ends_with_its_name() {
        let mut censor = Censor::new(Redaction::Keys);
        for (text, cleaned) in [
            ("Your API_KEY:", "Your API_KEY:"),
            ("Zk3vQ9mX2pLr8TnB5wYs and so on", "[redacted] and so on"),
            ("Zk3vQ9mX2pLr8TnB5wYs", "Zk3vQ9mX2pLr8TnB5wYs"),
            ("The token", "The token"),
            ("economy of Larkmouth", "economy of Larkmouth"),
        ] {
            assert_eq!(censor.clean(text), cleaned);
        }
    }

    #[test]
    fn a_key_that_is_only_mentioned_does_not_swallow_the_text() {
        let mut censor = Censor::new(Redaction::Keys);
        let text = "A file that begins with -----BEGIN PRIVATE KEY----- is a key. Do not send it.";
        assert_eq!(censor.clean(text), "A file that begins with [redacted] is a key. Do not send it.");
        assert_eq!(censor.clean("The next paragraph."), "The next paragraph.");
    }

    #[test]
    fn values_behind_a_telling_word_are_blacked_out_when_they_look_random() {
        keys("api_key = \"Zk3vQ9mX2pLr8TnB5wYs\"", "api_key = \"[redacted]\"");
        keys("\"clientSecret\": \"0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c\"", "\"clientSecret\": \"[redacted]\"");
        keys("Authorization: Bearer q8Rt2LmZx7Vb4NcK9wPd", "Authorization: Bearer [redacted]");
        keys("The API key: Zk3vQ9mX2pLr8TnB5wYs", "The API key: [redacted]");
        keys("| api_key | Zk3vQ9mX2pLr8TnB5wYs |", "| api_key | [redacted] |");
        keys(r#""api_key = \"Zk3vQ9mX2pLr8TnB5wYs\"""#, r#""api_key = \"[redacted]\"""#);
        for text in [
            "token = parser.next_token_of_the_line()",
            "password: see the sheet in the kitchen",
            "secret_key_base = config.secretKeyFromFile2",
            "The token economy of Larkmouth2025 and others",
            "sha256 = 0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c",
            "access_key_identifier_of_the_user",
        ] {
            keys(text, text);
        }
    }

    #[test]
    fn a_password_in_an_address_goes_and_the_address_stays() {
        keys("postgres://anna:hunter2@db.example/x", "postgres://anna:[redacted]@db.example/x");
        for text in ["http://127.0.0.1:8080/a@b", "https://<user>:<password>@host", "https://$USER:${TOKEN}@host"] {
            keys(text, text);
        }
    }

    #[test]
    fn cards_and_accounts_go_only_when_asked() {
        for (text, cleaned) in [
            ("card 4111 1111 1111 1111, thanks", "card [redacted], thanks"),
            ("DE89 3704 0044 0532 0130 00 please", "[redacted] please"),
        ] {
            check(Redaction::All, text, cleaned);
            check(Redaction::Keys, text, text);
        }
        for text in [
            "order 4111 1111 1111 1112",
            "4111 1111 1111 111",
            "DE89 3704 0044 0532 0130 01",
            "1730000000000 ms",
            "12 4111 1111 1111 1111",
            "0.4111111111111111",
        ] {
            check(Redaction::All, text, text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_cleaned_without_a_panic(texts in proptest::collection::vec("(-----BEGIN |PRIVATE KEY|-----|-----END |[a-z0-9é\\n ]{0,5}){0,8}", 0..4)) {
            let mut censor = Censor::new(Redaction::All);
            for text in &texts {
                censor.clean(text);
            }
        }
    }
}
