//! A Unigram tokenizer (SentencePiece) for the `tokenizer.json` that vic writes for converted models.
//!
//! The general library gives the same tokens, but needs 280 MB for the 250,000 pieces of a multilingual model; the tables
//! here need 10 MB. [`UnigramTokenizer::open`] declines every other `tokenizer.json`.

use std::path::Path;

use base64::Engine as _;
use serde::Deserialize;
use serde_json::{Value, json};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};
use unicode_segmentation::UnicodeSegmentation;

use crate::embed::precompiled_map::CharacterMap;

/// SentencePiece's mark of a space, which is the first character of a word.
pub(super) const WORD_START: char = '\u{2581}';

/// Score by which an unknown character is worse than the worst piece, as in SentencePiece.
const UNKNOWN_PENALTY: f64 = 10.0;

/// Start value and factor of the FNV-1a hash.
const HASH_START: u32 = 0x811c_9dc5;
const HASH_FACTOR: u32 = 0x0100_0193;

/// A token and the bytes of the text that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) id: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The pieces with their scores, and the character map.
pub(crate) struct UnigramTokenizer {
    characters: CharacterMap,
    /// The texts of all pieces, one after the other.
    text: String,
    /// Start of each piece in `text`, and the end of the last.
    offsets: Vec<u32>,
    scores: Vec<f32>,
    /// Open hash table of the pieces: token id plus one, or 0 for a free place.
    table: Vec<u32>,
    /// Length in bytes of the longest piece.
    longest: usize,
    unknown: u32,
    unknown_score: f64,
    /// Tokens before and after every text.
    frame: [u32; 2],
}

/// The parts of `tokenizer.json` that vary between models.
#[derive(Deserialize)]
struct File {
    added_tokens: Vec<Value>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: String,
    unk_id: Option<u32>,
    byte_fallback: bool,
    vocab: Vec<(String, f64)>,
}

impl UnigramTokenizer {
    /// Reads `tokenizer.json`; `None` if it cannot be read or is not of the form that vic writes.
    pub(crate) fn open(path: &Path) -> Option<UnigramTokenizer> {
        let file: File = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let known = file.added_tokens.is_empty() && file.model.kind == "Unigram" && !file.model.byte_fallback;
        if !known
            || file.pre_tokenizer != word_splitter()
            || file.normalizer["normalizers"][0] != json!({ "type": "NFC" })
        {
            return None;
        }
        let map = file.normalizer["normalizers"][1]["precompiled_charsmap"].as_str()?;
        let map = base64::engine::general_purpose::STANDARD.decode(map).ok()?;
        let frame = [0usize, 2].map(|at| {
            let name = file.post_processor["single"][at]["SpecialToken"]["id"].as_str()?;
            u32::try_from(file.post_processor["special_tokens"][name]["ids"][0].as_u64()?).ok()
        });
        let [Some(start), Some(end)] = frame else { return None };
        UnigramTokenizer::new(&file.model.vocab, file.model.unk_id?, CharacterMap::decode(&map)?, [start, end])
    }

    fn new(
        pieces: &[(String, f64)],
        unknown: u32,
        characters: CharacterMap,
        frame: [u32; 2],
    ) -> Option<UnigramTokenizer> {
        let (mut text, mut offsets, mut longest) = (String::new(), vec![0], 0);
        let mut table = vec![0u32; (pieces.len() * 2).next_power_of_two()];
        for (id, (piece, _)) in pieces.iter().enumerate() {
            text.push_str(piece);
            offsets.push(u32::try_from(text.len()).ok()?);
            longest = longest.max(piece.len());
            let mut place = piece.bytes().fold(HASH_START, add_to_hash) as usize & (table.len() - 1);
            while table[place] != 0 {
                place = (place + 1) & (table.len() - 1);
            }
            table[place] = id as u32 + 1;
        }
        text.shrink_to_fit();
        let scores: Vec<f32> = pieces.iter().map(|it| it.1 as f32).collect();
        let worst = pieces.iter().map(|it| it.1).fold(f64::INFINITY, f64::min);
        let known = (unknown as usize) < pieces.len();
        let unknown_score = worst - UNKNOWN_PENALTY;
        known.then_some(UnigramTokenizer {
            characters,
            text,
            offsets,
            scores,
            table,
            longest,
            unknown,
            unknown_score,
            frame,
        })
    }

    /// Returns the number of pieces.
    pub(crate) fn vocabulary(&self) -> usize {
        self.scores.len()
    }

    /// Returns the token for characters that are in no piece.
    pub(crate) fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Returns the tokens before and after every text.
    pub(crate) fn frame(&self) -> [u32; 2] {
        self.frame
    }

    /// Returns the tokens of a text, in order, without those before and after it.
    pub(crate) fn encode(&self, text: &str) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut word = Word::default();
        self.normalise(text, &mut |letter, start, end| match letter.is_whitespace() {
            true => self.end_word(&mut word, &mut tokens),
            false => word.push(letter, start, end),
        });
        self.end_word(&mut word, &mut tokens);
        tokens
    }

    /// Composes and replaces the characters of a text, and calls `each` with each result and the bytes of the text from
    /// which it comes.
    fn normalise(&self, text: &str, each: &mut dyn FnMut(char, usize, usize)) {
        let mut replace = |letter: char, start: usize, end: usize| match self.characters.get(letter) {
            Some(new) => new.chars().for_each(|it| each(it, start, end)),
            None => each(letter, start, end),
        };
        if is_nfc_quick(text.chars()) == IsNormalized::Yes {
            text.char_indices().for_each(|(at, it)| replace(it, at, at + it.len_utf8()));
            return;
        }
        // A composition never crosses the border of a grapheme.
        for (at, grapheme) in text.grapheme_indices(true) {
            if is_nfc_quick(grapheme.chars()) == IsNormalized::Yes {
                grapheme.char_indices().for_each(|(from, it)| replace(it, at + from, at + from + it.len_utf8()));
            } else {
                grapheme.nfc().for_each(|it| replace(it, at, at + grapheme.len()));
            }
        }
    }

    /// Appends the tokens of a word, and empties it.
    fn end_word(&self, word: &mut Word, tokens: &mut Vec<Token>) {
        if word.letters.is_empty() {
            return;
        }
        let first = tokens.len();
        self.find_best_path(word);
        let mut at = word.best.len() - 1;
        while at > 0 {
            let step = word.best[at];
            let (start, end) = word.source(step.from, at);
            match tokens[first..].last_mut() {
                // Adjacent unknown characters are one token.
                Some(last) if last.id == self.unknown && step.id == self.unknown => last.start = start,
                _ => tokens.push(Token { id: step.id, start, end }),
            }
            at = step.from;
        }
        tokens[first..].reverse();
        word.clear();
    }

    /// For each position in a word, finds the last piece of the best sequence of pieces that ends there (Viterbi).
    fn find_best_path(&self, word: &mut Word) {
        let count = word.letters.len();
        let none = Step { score: f64::NEG_INFINITY, from: 0, id: self.unknown };
        word.best.clear();
        word.best.resize(count + 1, none);
        word.best[0].score = 0.0;
        for from in 0..count {
            let (begin, before) = (word.letters[from].at, word.best[from].score);
            let mut hash = HASH_START;
            let mut read = begin;
            for to in from + 1..=count {
                let end = word.letters.get(to).map_or(word.bytes.len(), |it| it.at);
                if end - begin > self.longest {
                    break;
                }
                hash = word.bytes[read..end].iter().copied().fold(hash, add_to_hash);
                read = end;
                let found = self.find(hash, &word.bytes[begin..end]);
                if let Some(id) = found {
                    let score = before + f64::from(self.scores[id as usize]);
                    if score > word.best[to].score {
                        word.best[to] = Step { score, from, id };
                    }
                }
                if to == from + 1 && found.is_none() && before + self.unknown_score > word.best[to].score {
                    word.best[to] = Step { score: before + self.unknown_score, from, id: self.unknown };
                }
            }
        }
    }

    /// Returns the id of a piece with this hash.
    fn find(&self, hash: u32, piece: &[u8]) -> Option<u32> {
        let mut place = hash as usize & (self.table.len() - 1);
        loop {
            let id = self.table[place].checked_sub(1)?;
            let range = self.offsets[id as usize] as usize..self.offsets[id as usize + 1] as usize;
            if &self.text.as_bytes()[range] == piece {
                return Some(id);
            }
            place = (place + 1) & (self.table.len() - 1);
        }
    }
}

/// Returns the rule by which a text is cut into words, as in `tokenizer.json`.
pub(super) fn word_splitter() -> Value {
    json!({ "type": "Sequence", "pretokenizers": [
        { "type": "WhitespaceSplit" },
        { "type": "Metaspace", "replacement": WORD_START, "prepend_scheme": "always", "split": true },
    ] })
}

fn add_to_hash(hash: u32, byte: u8) -> u32 {
    (hash ^ u32::from(byte)).wrapping_mul(HASH_FACTOR)
}

/// A word, with the mark at its start, and buffers for its tokens.
#[derive(Default)]
struct Word {
    bytes: Vec<u8>,
    letters: Vec<Letter>,
    best: Vec<Step>,
}

/// A character of a word.
#[derive(Clone, Copy)]
struct Letter {
    /// Position in the word's bytes.
    at: usize,
    /// The bytes of the text from which it comes.
    start: usize,
    end: usize,
}

/// The last piece of the best sequence of pieces up to a position.
#[derive(Clone, Copy)]
struct Step {
    score: f64,
    from: usize,
    id: u32,
}

impl Word {
    fn push(&mut self, letter: char, start: usize, end: usize) {
        if self.letters.is_empty() {
            self.push_letter(WORD_START, start, start);
            // A mark in the text is the same as the one before a word.
            if letter == WORD_START {
                return;
            }
        }
        self.push_letter(letter, start, end);
    }

    fn push_letter(&mut self, letter: char, start: usize, end: usize) {
        self.letters.push(Letter { at: self.bytes.len(), start, end });
        self.bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Returns the bytes of the text from which the letters `from..to` come.
    fn source(&self, from: usize, to: usize) -> (usize, usize) {
        (self.letters[from].start, self.letters[to - 1].end)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.letters.clear();
    }
}

#[cfg(test)]
mod tests {
    use tokenizers::Tokenizer;

    use super::*;
    use crate::embed::e5s1::tests::tiny_pieces;
    use crate::embed::unigram_tokenizer::tokenizer_json;

    fn both() -> (UnigramTokenizer, Tokenizer) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let json = tokenizer_json(&tiny_pieces()).to_string();
        std::fs::write(file.path(), &json).unwrap();
        (UnigramTokenizer::open(file.path()).unwrap(), json.parse().unwrap())
    }

    fn ids(tokens: &[Token]) -> Vec<u32> {
        tokens.iter().map(|it| it.id).collect()
    }

    #[test]
    fn tokens_are_those_of_the_general_library() {
        let (own, library) = both();
        let mut random = fastrand::Rng::with_seed(9);
        let letters = ["a", "b", "s", "<", ">", " ", "\t", "\u{1}", "ﬁ", "é", "e\u{301}", "z", "ж", "\u{a0}", "日"];
        for _ in 0..3_000 {
            let text: String = (0..random.usize(..12)).map(|_| letters[random.usize(..letters.len())]).collect();
            let expected = library.encode_fast(text.as_str(), false).unwrap();
            assert_eq!(ids(&own.encode(&text)), expected.get_ids(), "{text:?}");
        }
        assert_eq!((own.vocabulary(), own.frame()), (14, [0, 2]));
    }

    #[test]
    fn spans_are_ordered_bytes_of_the_text() {
        let (own, _) = both();
        let tokens = own.encode("ab ﬁa e\u{301}\u{1}z ж");
        let spans: Vec<&str> = tokens.iter().map(|it| &"ab ﬁa e\u{301}\u{1}z ж"[it.start..it.end]).collect();
        assert_eq!(spans, ["ab", "", "ﬁ", "a", "", "e\u{301}", "z", "", "ж"]);
        assert!(tokens.is_sorted_by_key(|it| it.start));
    }

    #[test]
    fn other_tokenizers_are_declined() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let json = tokenizer_json(&tiny_pieces());
        let declined = |json: &Value| {
            std::fs::write(file.path(), json.to_string()).unwrap();
            UnigramTokenizer::open(file.path()).is_none()
        };
        assert!(!declined(&json));
        for (key, value) in [
            ("normalizer", Value::Null),
            ("pre_tokenizer", json!({ "type": "Whitespace" })),
            ("post_processor", Value::Null),
            ("added_tokens", json!([{ "id": 0 }])),
            ("model", json!({ "type": "Unigram", "unk_id": 99, "byte_fallback": false, "vocab": [["a", -1.0]] })),
        ] {
            let mut changed = json.clone();
            changed[key] = value;
            assert!(declined(&changed), "{key}");
        }
        assert!(UnigramTokenizer::open(Path::new("/no/such/file")).is_none());
    }
}
