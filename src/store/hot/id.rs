//! The id of a chunk, in the sixteen bytes that its digits stand for.
//!
//! As text it takes four times as much, in a place of its own.

use std::cmp::Ordering;

use crate::model::ChunkId;

/// Digits of an id as vic makes them.
const DIGITS: usize = 32;

/// An id. The order is that of the texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Id {
    /// 32 lower-case digits.
    Number([u8; 16]),
    /// Anything else.
    Text(Box<str>),
}

impl Id {
    /// The id of this text.
    pub(super) fn of(text: &str) -> Id {
        number(text).map_or_else(|| Id::Text(text.into()), Id::Number)
    }

    /// The same as text.
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

/// The bytes of an id, if it is 32 lower-case digits.
pub(super) fn number(text: &str) -> Option<[u8; 16]> {
    let digits: &[u8; DIGITS] = text.as_bytes().try_into().ok()?;
    let mut number = [0; DIGITS / 2];
    for (byte, pair) in number.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(number)
}

/// The id of these bytes.
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
    fn an_id_comes_back_as_it_was_and_only_digits_are_a_number() {
        let numbers = TEXTS.iter().filter(|it| matches!(Id::of(it), Id::Number(_))).count();
        assert_eq!(numbers, 2);
        for text in TEXTS {
            assert_eq!(Id::of(text).chunk_id().0, text);
        }
    }

    #[test]
    fn ids_have_the_order_of_their_texts() {
        for (a, b) in TEXTS.iter().flat_map(|a| TEXTS.iter().map(move |b| (a, b))) {
            assert_eq!(Id::of(a).cmp(&Id::of(b)), a.cmp(b), "{a} and {b}");
        }
    }

    #[test]
    fn an_id_takes_no_more_than_a_row_has_room_for() {
        assert_eq!(size_of::<Id>(), 24);
    }
}
