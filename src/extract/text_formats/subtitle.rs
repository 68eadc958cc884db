//! Reader of subtitles (SubRip and WebVTT): extracts the spoken text without times, numbers and styling.

use crate::extract::encoding::decode;
use crate::extract::source_text::Source;
use crate::extract::{Input, ReadResult, Sink};
use crate::model::BlockKind;

/// Cues (subtitle entries) are joined into passages of this many bytes, because a single cue is too short for semantic
/// search.
const MAX_PASSAGE_BYTES: usize = 1_000;

/// Adds the spoken text of a subtitle file to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let text = decode(input.bytes, None);
    let source = Source::new(&text);
    let mut passage: Vec<(usize, String)> = Vec::new();
    let mut bytes = 0;
    let mut range = 0..0;
    let mut in_cue = false;
    for line in source.lines() {
        let trimmed = line.text.trim();
        if trimmed.is_empty() {
            in_cue = false;
            if bytes >= MAX_PASSAGE_BYTES {
                source.push_lines(sink, BlockKind::Paragraph, &std::mem::take(&mut passage), range.clone());
                bytes = 0;
            }
        } else if trimmed.contains("-->") {
            in_cue = true;
        } else if in_cue {
            let spoken = without_tags(trimmed);
            if spoken.trim().is_empty() {
                continue;
            }
            if passage.is_empty() {
                range.start = line.start;
            }
            bytes += spoken.trim().len() + 1;
            passage.push((line.start, spoken.trim().to_string()));
            range.end = line.end();
        }
    }
    source.push_lines(sink, BlockKind::Paragraph, &passage, range);
    Ok(())
}

/// Removes tags such as `<i>` and `{\an8}`. The speaker in `<v Name>` is kept, as `Name: `.
fn without_tags(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['<', '{']) {
        let close = if rest.as_bytes()[at] == b'<' { '>' } else { '}' };
        let Some(end) = rest[at..].find(close) else { break };
        let tag = &rest[at + 1..at + end];
        text.push_str(&rest[..at]);
        if let Some(name) = tag.strip_prefix("v ") {
            text.push_str(name);
            text.push_str(": ");
        } else if close == '}' && !tag.starts_with('\\') {
            text.push_str(&rest[at..=at + end]);
        }
        rest = &rest[at + end + 1..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExtractLimits;

    fn assert_passage(text: &str, expected: &str, lines: (u32, u32)) {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: text.as_bytes(), name: "a.vtt" }, &mut sink).unwrap();
        let block = sink.into_document().blocks.remove(0);
        assert_eq!(block.text, expected);
        assert_eq!((block.anchor.line_start.unwrap(), block.anchor.line_end.unwrap()), lines);
    }

    #[test]
    fn cues_are_joined_without_times_and_numbers() {
        let text = "1\r\n00:00:01,000 --> 00:00:02,000\r\n{\\an8}<i>Hello</i>\r\n\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\n42\r\n";
        assert_passage(text, "Hello\n42", (3, 7));
    }

    #[test]
    fn webvtt_notes_and_styles_are_skipped() {
        let text = "WEBVTT - x\n\nNOTE\nno\n\nSTYLE\n::cue {}\n\n00:01.000 --> 00:02.000\n<v Ann>Hi there\n";
        assert_passage(text, "Ann: Hi there", (10, 10));
    }
}
