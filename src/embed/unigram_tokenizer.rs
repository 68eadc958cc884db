//! Writes `tokenizer.json` for the XLM-R tokenizer of a model in the format E5S1.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::embed::e5s1::Pieces;
use crate::embed::precompiled_map;
use crate::embed::unigram::{WORD_START, word_splitter};

/// Returns the content of `tokenizer.json`.
///
/// A text is composed (NFC), because the character map has only single characters; then its characters are replaced, it
/// is cut into words at spaces, and each word into pieces by their scores (Unigram).
pub(super) fn tokenizer_json(pieces: &Pieces) -> Value {
    let special = |id: u32| &pieces.scored[id as usize].0;
    let (start, end) = (special(pieces.start), special(pieces.end));
    let token = |name: &String| json!({ "SpecialToken": { "id": name, "type_id": 0 } });
    let detail = |name: &String, id: u32| json!({ "id": name, "ids": [id], "tokens": [name] });
    let text = |id: &str| json!({ "Sequence": { "id": id, "type_id": 0 } });
    let map = base64::engine::general_purpose::STANDARD.encode(precompiled_map::encode(&pieces.characters));
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "NFC" }, { "type": "Precompiled", "precompiled_charsmap": map },
        ] },
        "pre_tokenizer": word_splitter(),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token(start), text("A"), token(end)],
            "pair": [token(start), text("A"), token(end), token(end), text("B"), token(end)],
            "special_tokens": { start: detail(start, pieces.start), end: detail(end, pieces.end) },
        },
        "decoder": { "type": "Metaspace", "replacement": WORD_START, "prepend_scheme": "always", "split": true },
        "model": { "type": "Unigram", "unk_id": pieces.unknown, "byte_fallback": false, "vocab": vocabulary(pieces) },
    })
}

/// Returns the pieces with their scores. The special tokens, which have the score 0, get a name with a space: no word
/// contains a space, so that `<s>` in a text, as in HTML, is ordinary text.
fn vocabulary(pieces: &Pieces) -> Vec<(String, f64)> {
    let special = |name: &str, score: f32| score == 0.0 && name.starts_with('<') && name.ends_with('>');
    let entry = |(name, score): &(String, f32)| match special(name, *score) {
        true => (format!("{name} "), f64::from(*score)),
        false => (name.clone(), f64::from(*score)),
    };
    pieces.scored.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use tokenizers::Tokenizer;

    use super::*;
    use crate::embed::e5s1::tests::tiny_pieces;

    fn ids(text: &str) -> Vec<u32> {
        let json = tokenizer_json(&tiny_pieces()).to_string();
        let tokenizer: Tokenizer = json.parse().unwrap();
        tokenizer.encode_fast(text, true).unwrap().get_ids().to_vec()
    }

    #[test]
    fn words_are_cut_into_best_pieces_between_special_tokens() {
        // Pieces: 4 `▁`, 5 `▁ab`, 6 `a`, 7 `b`, 8 `▁a`, 9 `fi`, 10 `é`, 11 `<`, 12 `s`, 13 `>`.
        assert_eq!(ids("ab a"), [0, 5, 8, 2]);
        assert_eq!(ids("  ab\u{1}\ta  "), [0, 5, 8, 2]);
        assert_eq!(ids(""), [0, 2]);
    }

    #[test]
    fn text_is_normalised_and_special_names_are_text() {
        assert_eq!(ids("ﬁ"), [0, 4, 9, 2]);
        assert_eq!(ids("e\u{301}"), [0, 4, 10, 2]);
        assert_eq!(ids("<s>"), [0, 4, 11, 12, 13, 2]);
        assert_eq!(ids("zz"), [0, 4, 3, 2]);
    }
}
