//! Reader of JSON, YAML, TOML and settings files: adds them as plain text, with their line breaks and keys.
//!
//! The syntax is not parsed, so that deep nesting does no harm and a damaged file can still be read.

use std::ops::Range;

use crate::extract::encoding::decode;
use crate::extract::source_text::Source;
use crate::extract::text_formats::plain;
use crate::extract::text_pieces::split_pieces;
use crate::extract::{Input, ReadResult, Sink};
use crate::model::BlockKind;

/// Adds the text of a JSON, YAML, TOML or settings file to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let decoded = decode(input.bytes, None);
    let source = Source::new(&decoded);
    plain::each_paragraph(&source, |run| match source.text[run.clone()].contains("\\u") {
        true => push_unescaped(&source, run, sink),
        false => source.push(sink, BlockKind::Code, run),
    });
    Ok(())
}

/// Adds a paragraph with decoded `\u` escapes. Decodes them before the text is split into blocks, because the secret scan
/// cannot recognize a key that contains escapes.
fn push_unescaped(source: &Source<'_>, run: Range<usize>, sink: &mut Sink) -> bool {
    let plain = Unescaped::new(&source.text[run.clone()]);
    split_pieces(&plain.text, 0..plain.text.len()).all(|piece| {
        let range = run.start + plain.source_offset(piece.start)..run.start + plain.source_offset(piece.end);
        match plain.text[piece.clone()] == source.text[range.clone()] {
            true => source.push(sink, BlockKind::Code, range),
            false => source.push_derived(sink, BlockKind::Code, &plain.text[piece], range),
        }
    })
}

/// Text with decoded escapes such as `\u00e9`: many programs escape all non-ASCII letters, but queries contain the letters.
struct Unescaped {
    text: String,
    /// One entry per decoded escape, for the position after it: the offset in the decoded text, and the offset in the
    /// source.
    offset_map: Vec<(usize, usize)>,
}

impl Unescaped {
    fn new(text: &str) -> Unescaped {
        let mut plain = Unescaped { text: String::with_capacity(text.len()), offset_map: Vec::new() };
        let mut at = 0;
        while let Some(escape) = text[at..].find('\\').map(|it| at + it) {
            let (units, length) = leading_escapes(&text[escape..]);
            let decoded: String =
                char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
            plain.text.push_str(&text[at..escape]);
            // Keeps the escapes of control characters and quotes: decoded, they would end the string that contains them.
            if length == 0 || decoded.chars().any(|it| it.is_control() || it == '"') {
                let kept = length.max(text[escape..].chars().take(2).map(char::len_utf8).sum());
                at = escape + kept;
                plain.text.push_str(&text[escape..at]);
            } else {
                at = escape + length;
                plain.text.push_str(&decoded);
                plain.offset_map.push((plain.text.len(), at));
            }
        }
        plain.text.push_str(&text[at..]);
        plain
    }

    /// Returns the source offset for an offset in the decoded text. The result is approximate between consecutive escapes.
    fn source_offset(&self, byte: usize) -> usize {
        let behind = self.offset_map.partition_point(|(plain, _)| *plain <= byte);
        let (plain, origin) = behind.checked_sub(1).map_or((0, 0), |it| self.offset_map[it]);
        origin + (byte - plain)
    }
}

/// Returns the UTF-16 units of the consecutive escapes with which a text begins, and the escapes' length in bytes.
fn leading_escapes(text: &str) -> (Vec<u16>, usize) {
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
        sink.into_document()
    }

    #[test]
    fn text_is_kept_verbatim() {
        let document = extract("{\n  \"a\": 1\n}\n");
        assert_eq!(document.text(), "{\n  \"a\": 1\n}");
        assert!(document.blocks[0].anchor.verbatim);
    }

    #[test]
    fn only_escaped_letters_are_decoded() {
        let document = extract(r#"{"a": "caf\u00e9 \ud83d\ude00 \u0022 \n \\u00e9 \u12"}"#);
        assert_eq!(document.text(), r#"{"a": "café 😀 \u0022 \n \\u00e9 \u12"}"#);
        assert!(!document.blocks[0].anchor.verbatim);
        assert_eq!(document.blocks[0].anchor.line_start, Some(1));
    }

    #[test]
    fn split_unescaped_text_keeps_line_ranges() {
        let line = "{\"a\": \"caf\\u00e9 and plain words\"},\n";
        let text = format!("{}{}", line.repeat(1_000), "{\"b\": \"plain words\"},\n".repeat(1_000));
        let document = extract(&text);
        assert!(document.blocks.len() > 5 && document.text().matches("plain words").count() == 2_000);
        let mut next = 1;
        for block in &document.blocks {
            let (start, end) = (block.anchor.line_start.unwrap(), block.anchor.line_end.unwrap());
            assert_eq!((start, end), (next, next + block.text.matches('\n').count() as u32));
            next = end + 1;
        }
        assert!(document.blocks.last().unwrap().anchor.verbatim && !document.blocks[0].anchor.verbatim);
    }

    // Case C3
    #[test]
    fn deep_nesting_is_plain_text() {
        assert_eq!(extract(&"[".repeat(100_000)).text().replace("\n\n", "").len(), 100_000);
    }
}
