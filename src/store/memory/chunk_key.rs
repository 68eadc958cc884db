//! Chunk ids in binary form: the sixteen bytes of their 32 hex digits.
//!
//! As text, an id takes four times as much memory, in its own allocation.

use std::cmp::Ordering;

use crate::model::ChunkId;

/// Number of hex digits of a chunk id made by vic.
const DIGITS: usize = 32;

/// A chunk id in compact form. Keys have the same order as the texts of their ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ChunkKey {
    /// 32 lower-case hex digits.
    Bytes([u8; 16]),
    /// An id of any other form, as text.
    Text(Box<str>),
}

impl ChunkKey {
    /// Parses the text of an id.
    pub(super) fn parse(text: &str) -> ChunkKey {
        parse_hex(text).map_or_else(|| ChunkKey::Text(text.into()), ChunkKey::Bytes)
    }

    /// Returns the id as text.
    pub(super) fn chunk_id(&self) -> ChunkId {
        match self {
            ChunkKey::Bytes(number) => to_chunk_id(*number),
            ChunkKey::Text(text) => ChunkId(text.to_string()),
        }
    }
}

impl Ord for ChunkKey {
    fn cmp(&self, other: &ChunkKey) -> Ordering {
        match (self, other) {
            (ChunkKey::Bytes(a), ChunkKey::Bytes(b)) => a.cmp(b),
            (ChunkKey::Text(a), ChunkKey::Text(b)) => a.cmp(b),
            (ChunkKey::Bytes(a), ChunkKey::Text(b)) => to_chunk_id(*a).0.as_str().cmp(b),
            (ChunkKey::Text(a), ChunkKey::Bytes(b)) => (**a).cmp(to_chunk_id(*b).0.as_str()),
        }
    }
}

impl PartialOrd for ChunkKey {
    fn partial_cmp(&self, other: &ChunkKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the bytes of an id, if it is 32 lower-case hex digits.
pub(super) fn parse_hex(text: &str) -> Option<[u8; 16]> {
    let digits: &[u8; DIGITS] = text.as_bytes().try_into().ok()?;
    let mut number = [0; DIGITS / 2];
    for (byte, pair) in number.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_value(pair[0])? << 4 | hex_value(pair[1])?;
    }
    Some(number)
}

/// Returns the id of these bytes.
pub(super) fn to_chunk_id(number: [u8; 16]) -> ChunkId {
    let mut text = String::with_capacity(DIGITS);
    for half in number.iter().flat_map(|it| [it >> 4, it & 15]) {
        text.push(char::from(b"0123456789abcdef"[usize::from(half)]));
    }
    ChunkId(text)
}

fn hex_value(character: u8) -> Option<u8> {
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
        let numbers = TEXTS.iter().filter(|it| matches!(ChunkKey::parse(it), ChunkKey::Bytes(_))).count();
        assert_eq!(numbers, 2);
        for text in TEXTS {
            assert_eq!(ChunkKey::parse(text).chunk_id().0, text);
        }
    }

    #[test]
    fn ids_are_ordered_like_their_texts() {
        for (a, b) in TEXTS.iter().flat_map(|a| TEXTS.iter().map(move |b| (a, b))) {
            assert_eq!(ChunkKey::parse(a).cmp(&ChunkKey::parse(b)), a.cmp(b), "{a} and {b}");
        }
    }

    #[test]
    fn id_fits_into_24_bytes() {
        assert_eq!(size_of::<ChunkKey>(), 24);
    }
}
