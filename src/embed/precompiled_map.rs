//! Reads and writes a character map in the `precompiled_charsmap` format of SentencePiece, which tokenizers read.
//!
//! The format is the length of a trie in bytes, the trie, and the replacement texts, each ended by a zero byte. The trie
//! is a double array: the children of a node are at `base ^ byte`, and a child is recognised by its byte alone. Therefore
//! no two nodes may have the same base.

use std::collections::{BTreeMap, HashSet};

/// Bit of a unit that says that a key ends at this node; its value is then at the node's base.
const HAS_VALUE: u32 = 1 << 8;
/// Position of the distance to the base in a unit.
const OFFSET_SHIFT: u32 = 10;
/// Bit that a unit with a value has, so that no byte of a text matches it.
const VALUE_MARK: u32 = 1 << 31;
/// Units are added in blocks of this size, so that `base ^ byte` never leaves the array.
const UNITS_PER_BLOCK: usize = 256;

/// Returns the map in binary form. Keys must not be empty or contain a zero byte.
pub(super) fn encode(map: &[(char, String)]) -> Vec<u8> {
    let mut texts = Vec::new();
    let mut root = Node::default();
    for (from, to) in map.iter().filter(|(from, _)| *from != '\0') {
        root.insert(from.encode_utf8(&mut [0; 4]).as_bytes(), texts.len() as u32);
        texts.extend_from_slice(to.as_bytes());
        texts.push(0);
    }
    let units = Units::build(&root);
    let mut bytes = ((units.len() * 4) as u32).to_le_bytes().to_vec();
    bytes.extend(units.iter().flat_map(|it| it.to_le_bytes()));
    bytes.extend(texts);
    bytes
}

/// A character map that was read from its binary form.
pub(super) struct CharacterMap {
    units: Vec<u32>,
    texts: String,
}

impl CharacterMap {
    /// Reads a map; `None` if it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<CharacterMap> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (units, texts) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let units = units.as_chunks::<4>().0.iter().map(|it| u32::from_le_bytes(*it)).collect();
        Some(CharacterMap { units, texts: String::from_utf8(texts.to_vec()).ok()? })
    }

    /// Returns the text that replaces a character; `None` if it stays.
    pub(super) fn get(&self, letter: char) -> Option<&str> {
        let mut at = base(*self.units.first()?);
        for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
            at ^= usize::from(byte);
            let unit = *self.units.get(at)?;
            if unit & (VALUE_MARK | 0xff) != u32::from(byte) || byte == 0 {
                return None;
            }
            at ^= base(unit);
            if unit & HAS_VALUE != 0 {
                let start = (*self.units.get(at)? & !VALUE_MARK) as usize;
                return self.texts.get(start..)?.split('\0').next();
            }
        }
        None
    }
}

/// Returns the distance from a unit to its base.
fn base(unit: u32) -> usize {
    // A unit with this bit has a distance in steps of 256.
    ((unit >> OFFSET_SHIFT) << ((unit & (1 << 9)) >> 6)) as usize
}

/// A node of the trie before it is laid out.
#[derive(Default)]
struct Node {
    value: Option<u32>,
    children: BTreeMap<u8, Node>,
}

impl Node {
    fn insert(&mut self, key: &[u8], value: u32) {
        match key.split_first() {
            Some((byte, rest)) => self.children.entry(*byte).or_default().insert(rest, value),
            None => self.value = Some(value),
        }
    }
}

/// The double array while it is laid out.
struct Units {
    units: Vec<u32>,
    used: Vec<bool>,
    bases: HashSet<usize>,
    /// All units before this one are used.
    first_free: usize,
}

impl Units {
    fn build(root: &Node) -> Vec<u32> {
        let mut layout = Units { units: Vec::new(), used: Vec::new(), bases: HashSet::new(), first_free: 0 };
        layout.grow();
        layout.used[0] = true;
        layout.place(0, root);
        layout.units
    }

    /// Chooses the base of a node at `position`, and places its value and its children.
    fn place(&mut self, position: usize, node: &Node) {
        let value = node.value.map(|_| 0);
        let labels: Vec<u8> = value.into_iter().chain(node.children.keys().copied()).collect();
        let base = self.find_base(&labels);
        self.bases.insert(base);
        for label in &labels {
            self.used[base ^ usize::from(*label)] = true;
        }
        self.units[position] |= ((position ^ base) as u32) << OFFSET_SHIFT;
        if let Some(value) = node.value {
            self.units[position] |= HAS_VALUE;
            self.units[base] = value | VALUE_MARK;
        }
        for (label, child) in &node.children {
            let position = base ^ usize::from(*label);
            self.units[position] = u32::from(*label);
            self.place(position, child);
        }
    }

    /// Returns the first base at which the units of all labels are free.
    fn find_base(&mut self, labels: &[u8]) -> usize {
        let Some(first) = labels.first() else { return 0 };
        while self.used.get(self.first_free) == Some(&true) {
            self.first_free += 1;
        }
        let mut at = self.first_free;
        loop {
            if at >= self.units.len() {
                self.grow();
            }
            let base = at ^ usize::from(*first);
            let free = |label: &u8| !self.used[base ^ usize::from(*label)];
            if base != 0 && !self.bases.contains(&base) && labels.iter().all(free) {
                return base;
            }
            at += 1;
        }
    }

    fn grow(&mut self) {
        let length = self.units.len() + UNITS_PER_BLOCK;
        self.units.resize(length, 0);
        self.used.resize(length, false);
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper};

    use super::*;

    fn normalise(map: &[(char, String)], text: &str) -> String {
        let encoded = base64::engine::general_purpose::STANDARD.encode(encode(map));
        let json = serde_json::json!({ "type": "Precompiled", "precompiled_charsmap": encoded });
        let normalizer: NormalizerWrapper = serde_json::from_value(json).unwrap();
        let mut text = NormalizedString::from(text);
        normalizer.normalize(&mut text).unwrap();
        text.get().to_string()
    }

    #[test]
    fn each_character_is_replaced_and_others_stay() {
        // Many characters with common first bytes, so that nodes share blocks.
        let map: Vec<(char, String)> = ('\u{1}'..='\u{2fff}')
            .filter(|it| (*it as u32).is_multiple_of(3))
            .map(|it| (it, if (it as u32).is_multiple_of(2) { format!("<{}>", it as u32) } else { String::new() }))
            .collect();
        let own = CharacterMap::decode(&encode(&map)).unwrap();
        for code in (1..0x3100).chain([0xfb01, 0x1f600]) {
            let Some(letter) = char::from_u32(code) else { continue };
            let expect = map.iter().find(|it| it.0 == letter).map_or(letter.to_string(), |it| it.1.clone());
            assert_eq!(normalise_one(&map, letter), expect, "{code:#x}");
            assert_eq!(own.get(letter).map_or(letter.to_string(), String::from), expect, "{code:#x}");
        }
    }

    /// Looks a character up as tokenizers do, without encoding the map again for each.
    fn normalise_one(map: &[(char, String)], letter: char) -> String {
        thread_local! {
            static MAP: std::cell::OnceCell<NormalizerWrapper> = const { std::cell::OnceCell::new() };
        }
        MAP.with(|it| {
            let normalizer = it.get_or_init(|| {
                let encoded = base64::engine::general_purpose::STANDARD.encode(encode(map));
                let json = serde_json::json!({ "type": "Precompiled", "precompiled_charsmap": encoded });
                serde_json::from_value(json).unwrap()
            });
            let mut text = NormalizedString::from(letter.to_string());
            normalizer.normalize(&mut text).unwrap();
            text.get().to_string()
        })
    }

    #[test]
    fn text_is_replaced_character_by_character() {
        let map = [('ﬁ', "fi".to_string()), ('\t', " ".into()), ('\u{1}', String::new()), ('½', "1⁄2".into())];
        assert_eq!(normalise(&map, "\u{1}ﬁn\tzwölf\u{1} ½"), "fin zwölf 1⁄2");
        assert_eq!(normalise(&map, ""), "");
    }
}
