//! Reader of reStructuredText, Org, AsciiDoc and TeX: finds headings and the directive tables of reStructuredText; all
//! other text becomes paragraphs.

use crate::extract::encoding::decode;
use crate::extract::formats::extension;
use crate::extract::source_text::{Line, Source};
use crate::extract::text_formats::rst_tables;
use crate::extract::{Input, ReadResult, Sink};
use crate::model::BlockKind;

/// The markup language, which determines how headings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// reStructuredText: a line of punctuation below the title, sometimes also above it; levels by order of appearance.
    Rst,
    /// Org: `** Title`.
    Org,
    /// AsciiDoc: `== Title`.
    Adoc,
    /// TeX: `\section{Title}`.
    Tex,
}

/// A parsed heading and the lines that it occupies.
struct Heading<'a> {
    level: u8,
    /// Index of the line that holds the title.
    line: usize,
    title: &'a str,
    /// Index of the first line after the heading.
    next: usize,
}

/// Adds the text of a file to the sink; the file extension selects the markup language.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let dialect = match extension(input.name).as_str() {
        "org" => Dialect::Org,
        "adoc" | "asciidoc" | "asc" => Dialect::Adoc,
        "tex" | "ltx" | "latex" => Dialect::Tex,
        _ => Dialect::Rst,
    };
    let text = decode(input.bytes, None);
    let source = Source::new(&text);
    let lines: Vec<Line<'_>> = source.lines().collect();
    // Styles of the underlines of reStructuredText headings, in order of appearance: the position of a style is its heading
    // level, from level 1.
    let mut underlines: Vec<(char, bool)> = Vec::new();
    let mut paragraph: Option<usize> = None;
    let mut at = 0;
    while at < lines.len() && !sink.is_full() {
        let found = parse_heading(dialect, &lines, at, &mut underlines);
        let ends = found.is_some() || lines[at].text.trim().is_empty();
        if let Some(start) = paragraph.take_if(|_| ends) {
            source.push(sink, BlockKind::Paragraph, lines[start].start..lines[at - 1].end());
        }
        if dialect == Dialect::Rst
            && paragraph.is_none()
            && let Some(next) = rst_tables::push_table(&source, &lines, at, sink)
        {
            at = next;
            continue;
        }
        if let Some(found) = found {
            if found.level == 1 {
                sink.set_title(found.title);
            }
            source.push(sink, BlockKind::Heading(found.level), lines[found.line].range_of(found.title));
            at = found.next;
            continue;
        }
        if !ends {
            paragraph = paragraph.or(Some(at));
        }
        at += 1;
    }
    if let Some(start) = paragraph {
        source.push(sink, BlockKind::Paragraph, lines[start].start..lines[at - 1].end());
    }
    Ok(())
}

fn parse_heading<'a>(
    dialect: Dialect,
    lines: &[Line<'a>],
    at: usize,
    underlines: &mut Vec<(char, bool)>,
) -> Option<Heading<'a>> {
    let text = lines[at].text;
    match dialect {
        Dialect::Rst => parse_rst_heading(lines, at, underlines),
        Dialect::Org => parse_marked_heading(text, '*', 0, at)
            .or_else(|| parse_title_line(text, at, "#+title:").or_else(|| parse_title_line(text, at, "#+TITLE:"))),
        Dialect::Adoc => parse_marked_heading(text, '=', 0, at),
        Dialect::Tex => parse_tex_heading(text, at),
    }
}

/// Parses a heading such as `== Title`. Its level is the number of `mark` characters minus `less`.
fn parse_marked_heading(text: &str, mark: char, less: usize, at: usize) -> Option<Heading<'_>> {
    let marks = text.len() - text.trim_start_matches(mark).len();
    let title = text[marks..].strip_prefix(' ')?.trim();
    let level = marks.checked_sub(less).filter(|it| *it > 0)?;
    (!title.is_empty()).then_some(Heading { level: level.min(6) as u8, line: at, title, next: at + 1 })
}

fn parse_title_line<'a>(text: &'a str, at: usize, key: &str) -> Option<Heading<'a>> {
    let title = text.strip_prefix(key)?.trim();
    (!title.is_empty()).then_some(Heading { level: 1, line: at, title, next: at + 1 })
}

fn parse_rst_heading<'a>(lines: &[Line<'a>], at: usize, underlines: &mut Vec<(char, bool)>) -> Option<Heading<'a>> {
    let over = parse_underline(lines[at].text);
    let (title_at, under_at) = if over.is_some() { (at + 1, at + 2) } else { (at, at + 1) };
    let title = lines.get(title_at)?.text.trim();
    let (mark, width) = parse_underline(lines.get(under_at)?.text)?;
    let long_enough = width >= title.chars().count().min(4);
    let matches_overline = over.is_none_or(|it| it.0 == mark);
    if title.is_empty() || !long_enough || !matches_overline || parse_underline(title).is_some() {
        return None;
    }
    let style = (mark, over.is_some());
    let position = underlines.iter().position(|it| *it == style).unwrap_or_else(|| {
        underlines.push(style);
        underlines.len() - 1
    });
    Some(Heading { level: (position + 1).min(6) as u8, line: title_at, title, next: under_at + 1 })
}

/// Returns the character and the length of an underline: a line that repeats one punctuation character.
fn parse_underline(line: &str) -> Option<(char, usize)> {
    let line = line.trim_end();
    let mark = line.chars().next().filter(char::is_ascii_punctuation)?;
    (line.len() >= 3 && line.chars().all(|it| it == mark)).then_some((mark, line.len()))
}

fn parse_tex_heading(text: &str, at: usize) -> Option<Heading<'_>> {
    const COMMANDS: [(&str, u8); 7] = [
        ("title", 1),
        ("part", 1),
        ("chapter", 1),
        ("section", 2),
        ("subsection", 3),
        ("subsubsection", 4),
        ("paragraph", 5),
    ];
    let rest = text.trim_start().strip_prefix('\\')?;
    let (command, rest) = rest.split_once('{')?;
    let level = COMMANDS.iter().find(|(name, _)| command.trim_end_matches('*') == *name)?.1;
    let title = rest.rsplit_once('}').map_or(rest, |it| it.0).trim();
    (!title.is_empty()).then_some(Heading { level, line: at, title, next: at + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExtractLimits;

    fn assert_blocks(name: &str, text: &str, expected: &[(BlockKind, &str)]) {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: text.as_bytes(), name }, &mut sink).unwrap();
        let document = sink.into_document();
        let found: Vec<_> = document.blocks.iter().map(|it| (it.kind, it.text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn rst_heading_levels_follow_order_of_appearance() {
        assert_blocks(
            "a.rst",
            "=====\nTitle\n=====\n\nText\nmore.\n\nPart\n----\nBody\n\nNext\n----\n",
            &[
                (BlockKind::Heading(1), "Title"),
                (BlockKind::Paragraph, "Text\nmore."),
                (BlockKind::Heading(2), "Part"),
                (BlockKind::Paragraph, "Body"),
                (BlockKind::Heading(2), "Next"),
            ],
        );
    }

    #[test]
    fn org_and_asciidoc_marks_give_levels() {
        assert_blocks("a.org", "** Sub\ntext", &[(BlockKind::Heading(2), "Sub"), (BlockKind::Paragraph, "text")]);
        assert_blocks("a.adoc", "= Title\n\ntext", &[(BlockKind::Heading(1), "Title"), (BlockKind::Paragraph, "text")]);
    }

    #[test]
    fn tex_sections_become_headings() {
        assert_blocks(
            "a.tex",
            "\\section*{Results}\nWe \\emph{see}.",
            &[(BlockKind::Heading(2), "Results"), (BlockKind::Paragraph, "We \\emph{see}.")],
        );
    }
}
