//! Reader of plain text and logs: splits them into paragraphs at blank lines.
//!
//! No structure is guessed: text that looks like a heading stays in its paragraph.

use std::ops::Range;

use crate::extract::encoding::decode;
use crate::extract::source_text::Source;
use crate::extract::{Input, ReadResult, Sink};
use crate::model::BlockKind;

/// Adds the paragraphs of a plain text file to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let text = decode(input.bytes, None);
    push_paragraphs(&Source::new(&text), BlockKind::Paragraph, sink);
    Ok(())
}

/// Adds one block for each paragraph (consecutive lines that are not blank) of the source.
pub(crate) fn push_paragraphs(source: &Source<'_>, kind: BlockKind, sink: &mut Sink) {
    each_paragraph(source, |range| source.push(sink, kind, range));
}

/// Calls `each` with the byte range of each paragraph (consecutive lines that are not blank) until it returns false.
pub(crate) fn each_paragraph(source: &Source<'_>, mut each: impl FnMut(Range<usize>) -> bool) {
    let mut start = None;
    let mut end = 0;
    for line in source.lines() {
        if !line.text.trim().is_empty() {
            start = start.or(Some(line.start));
            end = line.end();
            continue;
        }
        if let Some(start) = start.take()
            && !each(start..end)
        {
            return;
        }
    }
    if let Some(start) = start {
        each(start..end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, ExtractLimits};

    fn extract(bytes: &[u8]) -> Document {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes, name: "a.txt" }, &mut sink).unwrap();
        sink.into_document()
    }

    #[test]
    fn blank_lines_separate_paragraphs_with_exact_anchors() {
        let bytes = b"\xEF\xBB\xBF\r\nOne\r\ntwo.\r\n \r\n\r\n  Three\r\n";
        let document = extract(bytes);
        let found: Vec<_> = document
            .blocks
            .iter()
            .map(|it| (it.text.as_str(), it.anchor.line_start.unwrap(), it.anchor.line_end.unwrap()))
            .collect();
        assert_eq!(found, [("One\r\ntwo.", 2, 3), ("Three", 6, 6)]);
        for block in &document.blocks {
            let range = block.anchor.byte_start.unwrap() as usize..block.anchor.byte_end.unwrap() as usize;
            assert!(block.anchor.verbatim);
            assert_eq!(&bytes[range], block.text.as_bytes());
        }
    }

    #[test]
    fn other_encoding_has_lines_but_no_byte_ranges() {
        let (bytes, _, _) = encoding_rs::WINDOWS_1251.encode("Это первая строка.\n\nА это вторая строка текста.");
        let document = extract(&bytes);
        assert_eq!(document.blocks[1].text, "А это вторая строка текста.");
        assert_eq!(document.blocks[1].anchor.line_start, Some(3));
        assert_eq!(document.blocks[1].anchor.byte_start, None);
        assert!(!document.blocks[1].anchor.verbatim);
    }
}
