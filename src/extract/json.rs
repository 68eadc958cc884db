//! JSON, YAML, TOML and settings: as they stand, because line breaks matter and keys are words too.
//!
//! Nothing is parsed, so that nothing can be nested too deep, and a damaged file is still text.

use crate::extract::encoding::decode;
use crate::extract::source::Source;
use crate::extract::{Input, ReadResult, Sink, text};
use crate::model::BlockKind;

/// Reads a file of structured text.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let decoded = decode(input.bytes, None);
    let source = Source::new(&decoded);
    let add = |sink: &mut Sink, range: std::ops::Range<usize>| {
        let piece = &source.text[range.clone()];
        match piece.contains("\\u") {
            true => source.push_made(sink, BlockKind::Code, &unescaped(piece), range),
            false => source.push(sink, BlockKind::Code, range),
        }
    };
    text::runs(&source, |run| source.pieces(BlockKind::Code, run).all(|piece| add(sink, piece)));
    Ok(())
}

/// Writes out `\u00e9`: many programs escape every letter beyond ASCII, and nobody searches for escapes.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (units, length) = escapes(&rest[at..]);
        let decoded: String = char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        plain.push_str(&rest[..at]);
        // Escaped control characters and quotes stay escaped: written out they would end the string they stand in.
        if length == 0 || decoded.chars().any(|it| it.is_control() || it == '"') {
            let kept = length.max(rest[at..].chars().take(2).map(char::len_utf8).sum());
            plain.push_str(&rest[at..at + kept]);
            rest = &rest[at + kept..];
        } else {
            plain.push_str(&decoded);
            rest = &rest[at + length..];
        }
    }
    plain.push_str(rest);
    plain
}

/// Returns the code units of the escapes that a text begins with, and the bytes they take.
fn escapes(text: &str) -> (Vec<u16>, usize) {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        digits.bytes().all(|it| it.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    };
    let mut units = Vec::new();
    while let Some(unit) = text.get(units.len() * 6..).and_then(unit) {
        units.push(unit);
    }
    let length = units.len() * 6;
    (units, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, ExtractLimits};

    fn extract(text: &str) -> Document {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: text.as_bytes(), name: "a.json" }, &mut sink).unwrap();
        sink.finish()
    }

    #[test]
    fn text_stays_as_it_stands() {
        let document = extract("{\n  \"a\": 1\n}\n");
        assert_eq!(document.text(), "{\n  \"a\": 1\n}");
        assert!(document.blocks[0].anchor.verbatim);
    }

    #[test]
    fn escaped_letters_are_written_out_and_nothing_else() {
        let document = extract(r#"{"a": "caf\u00e9 \ud83d\ude00 \u0022 \n \\u00e9 \u12"}"#);
        assert_eq!(document.text(), r#"{"a": "café 😀 \u0022 \n \\u00e9 \u12"}"#);
        assert!(!document.blocks[0].anchor.verbatim);
        assert_eq!(document.blocks[0].anchor.line_start, Some(1));
    }

    #[test]
    fn any_depth_is_text() {
        assert_eq!(extract(&"[".repeat(100_000)).text().replace("\n\n", "").len(), 100_000);
    }
}
