//! Chunk ids in binary: the sixteen bytes of their 32 hex digits.
//!
//! As text an id takes four times as much, in its own allocation.

use std::cmp::Ordering;

use crate::model::ChunkId;

/// Hex digits of an id made by vic.
const DIGITS: usize = 32;

/// A chunk id. Ordered like its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Id {
    /// 32 lower-case hex digits.
    Number([u8; 16]),
    /// Anything else.
    Text(Box<str>),
}

impl Id {
    /// Parses the text of an id.
    pub(super) fn of(text: &str) -> Id {
        number(text).map_or_else(|| Id::Text(text.into()), Id::Number)
    }

    /// Returns the id as text.
    pub(super) fn chunk_id(&self) -> ChunkId {
        match self {
            Id::Number(number) => chunk_id(*number),
            Id::Text(text) => ChunkId(text.to_string()),
        }
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Id) -> Ordering {
        match (self, other) {
            (Id::Number(a), Id::Number(b)) => a.cmp(b),
            (Id::Text(a), Id::Text(b)) => a.cmp(b),
            (Id::Number(a), Id::Text(b)) => chunk_id(*a).0.as_str().cmp(b),
            (Id::Text(a), Id::Number(b)) => (**a).cmp(chunk_id(*b).0.as_str()),
        }
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Id) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the bytes of an id, if it is 32 lower-case hex digits.
pub(super) fn number(text: &str) -> Option<[u8; 16]> {
    let digits: &[u8; DIGITS] = text.as_bytes().try_into().ok()?;
    let mut number = [0; DIGITS / 2];
    for (byte, pair) in number.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(number)
}

/// Returns the id of these bytes.
pub(super) fn chunk_id(number: [u8; 16]) -> ChunkId {
    let mut text = String::with_capacity(DIGITS);
    for half in number.iter().flat_map(|it| [it >> 4, it & 15]) {
        text.push(char::from(b"0123456789abcdef"[usize::from(half)]));
    }
    ChunkId(text)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 8] = [
        "",
        "00112233445566778899aabbccddeeff",
        "00112233445566778899AABBCCDDEEFF",
        "00112233445566778899aabbccddeef",
        "00112233445566778899aabbccddeeffa",
        "f0112233445566778899aabbccddee0a",
        "gggggggggggggggggggggggggggggggg",
        "näme-12",
    ];

    #[test]
    fn id_round_trips_and_only_hex_digits_become_bytes() {
        let numbers = TEXTS.iter().filter(|it| matches!(Id::of(it), Id::Number(_))).count();
        assert_eq!(numbers, 2);
        for text in TEXTS {
            assert_eq!(Id::of(text).chunk_id().0, text);
        }
    }

    #[test]
    fn ids_are_ordered_like_their_texts() {
        for (a, b) in TEXTS.iter().flat_map(|a| TEXTS.iter().map(move |b| (a, b))) {
            assert_eq!(Id::of(a).cmp(&Id::of(b)), a.cmp(b), "{a} and {b}");
        }
    }

    #[test]
    fn id_fits_into_24_bytes() {
        assert_eq!(size_of::<Id>(), 24);
    }
}
