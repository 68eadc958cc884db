//! Keys, tokens and numbers in texts, by how they look.
//!
//! Only what is made to be told apart: formats with a prefix or a checksum, private keys between their marks, and
//! random-looking values behind a word like `api_key`. Hashes, identifiers and base64 of anything else stay. Private keys are
//! looked for here, the others in `tokens`, `values` and `numbers`.

use std::borrow::Cow;
use std::ops::Range;

use regex::Regex;

use crate::model::Redaction;
use crate::secrets::numbers::numbers;
use crate::secrets::tokens::TOKENS;
use crate::secrets::values::{ends_with_name, told, value_of};

/// What stands in the place of a secret.
pub const MARK: &str = "[redacted]";

/// Changes whenever something else is blacked out: what was read before is read again then.
pub const RULES: &str = "5";

/// A private key is not longer: 16,384 bits of RSA take 13 KiB.
pub(super) const MOST_KEY_BYTES: usize = 32 << 10;

/// What one begins and ends with, before its kind.
pub(super) const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// Makes one of several patterns.
pub(super) fn regex(alternatives: &[&str]) -> Regex {
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
        let named = std::mem::replace(&mut self.named, ends_with_name(text));
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
    let numbers = (redaction == Redaction::All).then(|| numbers(text).map(|it| (it.clone(), it)));
    tokens.chain(told(text)).chain(numbers.into_iter().flatten())
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
