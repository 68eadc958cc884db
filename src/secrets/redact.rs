//! `Redactor`: replaces secrets in the texts of a document, detected by their form.
//!
//! Detects only distinctive forms: formats with a prefix or a checksum, private keys between their markers, and
//! random-looking values after a word such as `api_key`. Hashes, identifiers and other base64 text are kept. This file
//! detects private keys; `tokens`, `named_values` and `card_numbers` detect the other forms.

use std::borrow::Cow;
use std::ops::Range;

use crate::model::Redaction;
use crate::secrets::card_numbers::find_numbers;
use crate::secrets::named_values::{ends_with_name, leading_value, named_secrets};
use crate::secrets::tokens::TOKENS;

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Version of the redaction rules. A changed version makes vic index all files again, so change it with the rules.
pub const RULES_VERSION: &str = "5";

/// Maximum bytes of a private key; bounds the search for the end of a key. An RSA key of 16,384 bits takes 13 KiB.
pub(super) const MAX_KEY_BYTES: usize = 32 << 10;

/// Marker at the start of a private key, followed by the kind of key.
pub(super) const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "-----END ";

/// Redacts the texts of one document, which must be passed in order, because a private key may span several texts, and a
/// value may be in the paragraph after its name.
#[derive(Clone, Debug)]
pub struct Redactor {
    redaction: Redaction,
    in_key: bool,
    ends_with_name: bool,
    found: u32,
}

impl Redactor {
    /// Makes a redactor for a new document.
    pub fn new(redaction: Redaction) -> Redactor {
        Redactor { redaction, in_key: false, ends_with_name: false, found: 0 }
    }

    /// Returns the number of secrets redacted so far.
    pub fn found(&self) -> u32 {
        self.found
    }

    /// Redacts the next text of the document; the result is borrowed if the text has no secrets.
    pub fn redact<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        self.redact_with_known(text, Vec::new())
    }

    /// Redacts the next text like [`Redactor::redact`], and also the ranges in `known`, which the caller has found.
    pub(super) fn redact_with_known<'t>(&mut self, text: &'t str, known: Vec<Range<usize>>) -> Cow<'t, str> {
        match self.secret_ranges_with_known(text, known) {
            places if places.is_empty() => Cow::Borrowed(text),
            places => Cow::Owned(replace_ranges(text, &places)),
        }
    }

    /// Returns the ranges of the secrets in the next text, in order.
    pub fn secret_ranges(&mut self, text: &str) -> Vec<Range<usize>> {
        self.secret_ranges_with_known(text, Vec::new())
    }

    fn secret_ranges_with_known(&mut self, text: &str, known: Vec<Range<usize>>) -> Vec<Range<usize>> {
        if self.redaction == Redaction::None {
            return Vec::new();
        }
        let mut places = self.private_keys(text);
        places.extend(known);
        places.extend(self.leading_value(text));
        places.extend(secrets_with_context(text, self.redaction).map(|(_, secret)| secret));
        let places = merge_ranges(places);
        self.found += places.len() as u32;
        places
    }

    /// Finds a random-looking value at the start of a text if the previous text ended with a name such as `api_key:`.
    fn leading_value(&mut self, text: &str) -> Option<Range<usize>> {
        let named = std::mem::replace(&mut self.ends_with_name, ends_with_name(text));
        if named { leading_value(text) } else { None }
    }

    /// Finds private keys, including the parts of keys that span several texts.
    fn private_keys(&mut self, text: &str) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        let mut at = 0;
        if std::mem::take(&mut self.in_key) {
            at = private_key_end(text, 0);
            places.push(0..at);
            self.in_key = at == text.len() && !text.contains(KEY_END);
        }
        while let Some(begin) = text[at..].find(KEY_BEGIN).map(|it| at + it) {
            at = begin + KEY_BEGIN.len();
            let Some(key) = private_key_at(text, begin) else { continue };
            at = key.end;
            places.push(key);
            self.in_key = at == text.len() && !text[begin..].contains(KEY_END);
        }
        places.retain(|it| !it.is_empty());
        places
    }
}

/// Returns the range of the private key whose start marker is at `begin`; `None` if that marker is of something else, such
/// as a certificate.
pub(super) fn private_key_at(text: &str, begin: usize) -> Option<Range<usize>> {
    let at = begin + KEY_BEGIN.len();
    let label = text[at..].split("-----").next().unwrap_or_default();
    if label.len() > 64 || !label.contains("PRIVATE KEY") {
        return None;
    }
    Some(begin..private_key_end(text, at + label.len() + 5.min(text.len() - at - label.len())))
}

/// Returns the end of a private key that continues from `start`: after its end marker, or after the last line that can
/// belong to a key.
fn private_key_end(text: &str, start: usize) -> usize {
    let limit = text.floor_char_boundary((start + MAX_KEY_BYTES).min(text.len()));
    if let Some(place) = text[start..limit].find(KEY_END) {
        let behind = start + place + KEY_END.len();
        let rest = &text[behind..];
        return behind + rest.find("-----").filter(|it| *it <= 64).map_or(0, |it| it + 5);
    }
    let mut end = start;
    for line in text[start..limit].split_inclusive('\n') {
        if !can_be_key_line(line.trim()) {
            break;
        }
        end += line.len();
    }
    end
}

/// Whether a line can be part of a private key: base64, a header, or empty.
fn can_be_key_line(line: &str) -> bool {
    let base64 = line.bytes().all(|it| it.is_ascii_alphanumeric() || b"+/=\\".contains(&it));
    let header = line.split_once(": ").is_some_and(|(name, _)| name.len() < 32 && !name.contains(' '));
    base64 || header
}

/// Finds the secrets in one text, except private keys. Returns the range of each secret with the words before it, and the
/// range of the secret alone.
pub(super) fn secrets_with_context(
    text: &str,
    redaction: Redaction,
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let tokens = TOKENS.find_iter(text).map(|it| (it.range(), it.range()));
    let numbers = (redaction == Redaction::All).then(|| find_numbers(text).map(|it| (it.clone(), it)));
    tokens.chain(named_secrets(text)).chain(numbers.into_iter().flatten())
}

/// Sorts ranges, and merges those that overlap or touch.
pub(super) fn merge_ranges(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
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

fn replace_ranges(text: &str, places: &[Range<usize>]) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut at = 0;
    for place in places {
        cleaned.push_str(&text[at..place.start]);
        cleaned.push_str(REDACTED);
        // Keeps the line break after a private key that ends with its line.
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
        assert_eq!(Redactor::new(redaction).redact(text), expected, "{text}");
    }

    fn keys(text: &str, expected: &str) {
        check(Redaction::Keys, text, expected);
        check(Redaction::None, text, text);
    }

    #[test]
    fn private_key_is_redacted_with_markers() {
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
    fn private_key_is_redacted_across_texts() {
        let mut censor = Redactor::new(Redaction::Keys);
        assert_eq!(censor.redact("note\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn"), "note\n[redacted]");
        assert_eq!(censor.redact("NzaC1rZXk="), "[redacted]");
        assert_eq!(censor.redact("QyNTUx\n-----END OPENSSH PRIVATE KEY-----\nmore"), "[redacted]\nmore");
        assert_eq!(censor.redact("QyNTUx"), "QyNTUx");
        assert_eq!(censor.found(), 3);
    }

    #[test]
    fn value_after_text_ending_with_name_is_redacted() {
        let mut censor = Redactor::new(Redaction::Keys);
        for (text, cleaned) in [
            ("Your API_KEY:", "Your API_KEY:"),
            ("Zk3vQ9mX2pLr8TnB5wYs and so on", "[redacted] and so on"),
            ("Zk3vQ9mX2pLr8TnB5wYs", "Zk3vQ9mX2pLr8TnB5wYs"),
            ("The token", "The token"),
            ("economy of Larkmouth", "economy of Larkmouth"),
        ] {
            assert_eq!(censor.redact(text), cleaned);
        }
    }

    #[test]
    fn mentioned_key_marker_does_not_redact_text() {
        let mut censor = Redactor::new(Redaction::Keys);
        let text = "A file that begins with -----BEGIN PRIVATE KEY----- is a key. Do not send it.";
        assert_eq!(censor.redact(text), "A file that begins with [redacted] is a key. Do not send it.");
        assert_eq!(censor.redact("The next paragraph."), "The next paragraph.");
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_texts_keep_all_but_secret_ranges(texts in proptest::collection::vec("(-----BEGIN |PRIVATE KEY|-----|-----END |[a-z0-9é\\n ]{0,5}){0,8}", 0..4)) {
            let [mut finder, mut censor] = [(); 2].map(|()| Redactor::new(Redaction::All));
            // Ignores line breaks, because redaction keeps the line break after a private key.
            let words = |text: &str| text.replace('\n', "");
            for text in &texts {
                let (ranges, clean) = (finder.secret_ranges(text), censor.redact(text));
                let (mut kept, mut end) = (String::new(), 0);
                for range in &ranges {
                    proptest::prop_assert!(end <= range.start && text.get(range.clone()).is_some(), "{:?}", ranges);
                    kept.push_str(&text[end..range.start]);
                    end = range.end;
                }
                kept.push_str(&text[end..]);
                proptest::prop_assert_eq!(clean.matches(REDACTED).count(), ranges.len(), "{}", clean);
                proptest::prop_assert_eq!(words(&clean.replace(REDACTED, "")), words(&kept));
            }
        }
    }
}
