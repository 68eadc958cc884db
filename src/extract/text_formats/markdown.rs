//! Reader of Markdown and djot: finds headings, code, lists, tables, quotes and front matter, line by line.
//!
//! Inline markup stays in the text, so that a block is exactly a byte range of the file. No parser crate is used, because
//! they are recursive or take quadratic time on malicious input, and yield events instead of byte ranges.

use crate::extract::encoding::decode;
use crate::extract::source_text::{Line, Source};
use crate::extract::{Input, ReadResult, Sink};
use crate::model::BlockKind;

/// Adds the blocks of a Markdown file to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let text = decode(input.bytes, None);
    read_source(&Source::new(&text), sink);
    Ok(())
}

/// Adds the blocks of Markdown text to the sink, e.g. of a notebook cell.
pub(crate) fn read_source(source: &Source<'_>, sink: &mut Sink) {
    let lines: Vec<Line<'_>> = source.lines().collect();
    let mut at = front_matter(source, &lines, sink);
    // Column at which the text of the open list item starts; 0 outside lists. Code in the item is indented by more than
    // this.
    let mut item = 0;
    while at < lines.len() && !sink.is_full() {
        let line = lines[at].text;
        let indent = indent_columns(line);
        if let Some(text) = list_item(line).filter(|_| indent < item + CODE_INDENT) {
            let digits = text.starts_with(|it: char| it.is_ascii_digit());
            item = indent_columns(line) + if digits { 3 } else { 2 };
        } else if opens_body(line) {
            item = CODE_INDENT;
        } else if !line.trim().is_empty() && indent < item.min(2) {
            item = 0;
        }
        at = if !line.trim().is_empty() && indent >= item + CODE_INDENT {
            push_indented_code(source, &lines, at, item + CODE_INDENT, sink)
        } else {
            push_block(source, &lines, at, sink)
        };
    }
    if at < lines.len() {
        sink.mark_truncated();
    }
}

/// Number of columns by which an indented code block is indented relative to the text around it.
const CODE_INDENT: usize = 4;

/// Returns the width of the white space before the text of a line; a tab extends to the next multiple of four.
fn indent_columns(line: &str) -> usize {
    let white = line.chars().take_while(|it| matches!(it, ' ' | '\t'));
    white.fold(0, |column, it| if it == '\t' { (column / 4 + 1) * 4 } else { column + 1 })
}

/// Returns whether a line begins a footnote, a definition or an admonition. The lines after it are indented by four columns,
/// but are not code.
fn opens_body(line: &str) -> bool {
    line.starts_with("[^") && line.contains("]:") || [": ", ":\t", "!!! ", "??? "].iter().any(|it| line.starts_with(it))
}

/// Adds an indented code block with its inner blank lines, and returns the index of the line after the block.
fn push_indented_code(source: &Source<'_>, lines: &[Line<'_>], at: usize, indent: usize, sink: &mut Sink) -> usize {
    let is_code = |line: &Line<'_>| line.text.trim().is_empty() || indent_columns(line.text) >= indent;
    let end = lines[at..].iter().position(|it| !is_code(it)).map_or(lines.len(), |it| at + it);
    let last = lines[at..end].iter().rposition(|it| !it.text.trim().is_empty()).map_or(at, |it| at + it);
    source.push(sink, BlockKind::Code, lines[at].start..lines[last].end());
    end
}

/// Adds the block that starts at line `at`, and returns the index of the line after the block.
fn push_block(source: &Source<'_>, lines: &[Line<'_>], at: usize, sink: &mut Sink) -> usize {
    let line = &lines[at];
    if line.text.trim().is_empty() || is_rule(line.text) {
        return at + 1;
    }
    if let Some(fence) = parse_fence(line.text) {
        return push_fenced_code(source, lines, at, fence, sink);
    }
    if let Some((level, title)) = atx_heading(line.text) {
        if level == 1 {
            sink.set_title(title);
        }
        source.push(sink, BlockKind::Heading(level), line.range_of(title));
        return at + 1;
    }
    if is_table(lines, at) {
        return push_table(source, lines, at, sink);
    }
    if let Some(item) = list_item(line.text) {
        let start = line.range_of(item).start;
        let end = running_text_end(lines, at + 1);
        source.push(sink, BlockKind::ListItem, start..lines[end - 1].end());
        return end;
    }
    if line.text.trim_start().starts_with('>') {
        return push_quote(source, lines, at, sink);
    }
    push_paragraph(source, lines, at, sink)
}

/// Adds YAML (`---`) or TOML (`+++`) front matter as metadata, and returns the index of the line after it; 0 if there is
/// none.
fn front_matter(source: &Source<'_>, lines: &[Line<'_>], sink: &mut Sink) -> usize {
    // A longer section is not front matter: then the first line is a thematic break, and ordinary text follows.
    const MAX_FRONT_MATTER_LINES: usize = 200;
    let Some(mark) = lines.first().map(|line| line.text.trim_end()).filter(|it| matches!(*it, "---" | "+++")) else {
        return 0;
    };
    let Some(length) = lines.iter().skip(1).take(MAX_FRONT_MATTER_LINES).position(|line| line.text.trim_end() == mark)
    else {
        return 0;
    };
    let inner = &lines[1..=length];
    if !inner.first().is_some_and(|line| line.text.contains([':', '='])) {
        return 0;
    }
    for line in inner {
        if let Some(title) = line.text.strip_prefix("title").map(|it| it.trim_start_matches([':', '=', ' '])) {
            sink.set_title(title.trim().trim_matches(['"', '\'']));
        }
    }
    source.push(sink, BlockKind::Metadata, lines[1].start..lines[length].end());
    length + 2
}

/// Returns the character and the length of the code fence that a line opens, e.g. three for ```` ``` ````.
fn parse_fence(line: &str) -> Option<(char, usize)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|it| matches!(it, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    (length >= 3 && !line[length..].contains('`')).then_some((mark, length))
}

fn push_fenced_code(source: &Source<'_>, lines: &[Line<'_>], at: usize, open: (char, usize), sink: &mut Sink) -> usize {
    let closes = |line: &Line<'_>| {
        let text = line.text.trim();
        text.len() >= open.1 && text.chars().all(|it| it == open.0)
    };
    let close = lines[at + 1..].iter().position(closes).map_or(lines.len(), |it| at + 1 + it);
    if close > at + 1 {
        source.push(sink, BlockKind::Code, lines[at + 1].start..lines[close - 1].end());
    }
    (close + 1).min(lines.len())
}

/// Returns the level and the title of a heading such as `## Title ##`.
fn atx_heading(line: &str) -> Option<(u8, &str)> {
    let text = line.trim_start();
    let level = text.len() - text.trim_start_matches('#').len();
    let rest = &text[level..];
    if !(1..=6).contains(&level) || line.len() - text.len() > 3 || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let rest = rest.trim();
    let bare = rest.trim_end_matches('#');
    let title = if bare.is_empty() || bare.ends_with([' ', '\t']) { bare.trim_end() } else { rest };
    Some((u8::try_from(level).ok()?, title))
}

/// Returns the level of a heading that is underlined by this line: 1 for `===`, 2 for `---`; `None` for other lines.
fn setext_level(line: &str) -> Option<u8> {
    let line = line.trim();
    let all = |mark: char| !line.is_empty() && line.chars().all(|it| it == mark);
    if all('=') {
        return Some(1);
    }
    (all('-') && line.len() >= 2).then_some(2)
}

/// Returns whether a line is a thematic break, e.g. `***`.
fn is_rule(line: &str) -> bool {
    let marks = line.chars().filter(|it| !it.is_whitespace());
    let first = line.trim_start().chars().next();
    matches!(first, Some('-' | '*' | '_')) && marks.clone().count() >= 3 && marks.clone().all(|it| Some(it) == first)
}

/// Returns the text of a list item without its bullet and check box. A number is kept, because other text may refer to it.
fn list_item(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let rest = match digits {
        0 => text.strip_prefix(['-', '*', '+'])?,
        1..=9 => text[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    if digits > 0 {
        return Some(text);
    }
    let rest = rest.trim_start();
    Some(["[ ]", "[x]", "[X]"].iter().find_map(|it| rest.strip_prefix(it)).map_or(rest, str::trim_start))
}

/// Returns the index of the first line at or after `at` that does not continue a paragraph.
fn running_text_end(lines: &[Line<'_>], at: usize) -> usize {
    let starts_block = |line: &Line<'_>| {
        let text = line.text;
        text.trim().is_empty()
            || parse_fence(text).is_some()
            || atx_heading(text).is_some()
            || list_item(text).is_some()
            || is_rule(text)
            || text.trim_start().starts_with('>')
    };
    lines[at..].iter().position(starts_block).map_or(lines.len(), |it| at + it)
}

fn push_paragraph(source: &Source<'_>, lines: &[Line<'_>], at: usize, sink: &mut Sink) -> usize {
    let mut end = at + 1;
    while end < lines.len() {
        if let Some(level) = setext_level(lines[end].text) {
            let range = lines[at].start..lines[end - 1].end();
            if level == 1 {
                sink.set_title(&source.text[range.clone()]);
            }
            source.push(sink, BlockKind::Heading(level), range);
            return end + 1;
        }
        if running_text_end(&lines[..=end], end) == end || is_table(lines, end) {
            break;
        }
        end += 1;
    }
    source.push(sink, BlockKind::Paragraph, lines[at].start..lines[end - 1].end());
    end
}

/// Adds a quotation without its `>` marks, at any nesting depth, and returns the index of the line after it.
fn push_quote(source: &Source<'_>, lines: &[Line<'_>], at: usize, sink: &mut Sink) -> usize {
    let quoted = |line: &Line<'_>| line.text.trim_start().starts_with('>');
    let end = lines[at..].iter().position(|line| !quoted(line)).map_or(lines.len(), |it| at + it);
    let bare = |line: &Line<'_>| (line.start, line.text.trim_start_matches(['>', ' ', '\t']).to_string());
    let text: Vec<(usize, String)> = lines[at..end].iter().map(bare).collect();
    source.push_lines(sink, BlockKind::Paragraph, &text, lines[at].start..lines[end - 1].end());
    end
}

/// Returns whether a table starts at line `at`: a row followed by a delimiter row such as `|---|---|`.
fn is_table(lines: &[Line<'_>], at: usize) -> bool {
    lines[at].text.contains('|') && lines.get(at + 1).is_some_and(|line| is_delimiter_row(line.text))
}

fn is_delimiter_row(line: &str) -> bool {
    line.contains('-') && line.contains('|') && line.chars().all(|it| matches!(it, '-' | '|' | ':' | ' ' | '\t'))
}

fn push_table(source: &Source<'_>, lines: &[Line<'_>], at: usize, sink: &mut Sink) -> usize {
    /// Number of rows per block, which makes a block about as large as a chunk.
    const ROWS_PER_BLOCK: usize = 30;
    let end = lines[at..].iter().position(|line| !line.text.contains('|')).map_or(lines.len(), |it| at + it);
    for rows in lines[at..end].chunks(ROWS_PER_BLOCK) {
        let rows_of_cells = rows.iter().filter(|row| !is_delimiter_row(row.text));
        let text: Vec<(usize, String)> = rows_of_cells.map(|row| (row.start, format_row(row.text))).collect();
        let mark = sink.block_count();
        source.push_lines(sink, BlockKind::Table, &text, rows[0].start..rows[rows.len() - 1].end());
        sink.number_rows(mark, &source.lines_at(&text.iter().map(|it| it.0).collect::<Vec<_>>()));
    }
    end
}

/// Formats a table row as `a | b`. An escaped bar is part of its cell, and is replaced by `¦`.
fn format_row(row: &str) -> String {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = if row.ends_with("\\|") { row } else { row.strip_suffix('|').unwrap_or(row) };
    row.replace("\\|", "¦").split('|').map(str::trim).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, ExtractLimits};

    fn extract(text: &str) -> Document {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: text.as_bytes(), name: "a.md" }, &mut sink).unwrap();
        sink.into_document()
    }

    fn assert_blocks(text: &str, expected: &[(BlockKind, &str)]) {
        let document = extract(text);
        let found: Vec<_> = document.blocks.iter().map(|it| (it.kind, it.text.as_str())).collect();
        assert_eq!(found, expected);
        for block in document.blocks.iter().filter(|it| it.anchor.verbatim) {
            let (start, end) = (block.anchor.byte_start.unwrap() as usize, block.anchor.byte_end.unwrap() as usize);
            assert_eq!(&text[start..end], block.text);
            let line = text[..start].matches('\n').count() as u32 + 1;
            assert_eq!(block.anchor.line_start, Some(line));
        }
    }

    #[test]
    fn atx_and_setext_headings_have_levels() {
        assert_blocks(
            "# One #\ntext\n\nTwo\nmore\n---\n\n### C#\n#hashtag\n",
            &[
                (BlockKind::Heading(1), "One"),
                (BlockKind::Paragraph, "text"),
                (BlockKind::Heading(2), "Two\nmore"),
                (BlockKind::Heading(3), "C#"),
                (BlockKind::Paragraph, "#hashtag"),
            ],
        );
    }

    #[test]
    fn fenced_code_is_not_markup() {
        assert_blocks(
            "````rust\n# not a heading\n```\n\n    indented\n````\nafter",
            &[(BlockKind::Code, "# not a heading\n```\n\n    indented"), (BlockKind::Paragraph, "after")],
        );
        assert_blocks("```\nunclosed", &[(BlockKind::Code, "unclosed")]);
    }

    #[test]
    fn indented_text_is_code_unless_it_continues_a_block() {
        assert_blocks(
            "Set it:\n\n    gate 40\n\n    lock\n\nText\n    goes on\n\n\ttab\n",
            &[
                (BlockKind::Paragraph, "Set it:"),
                (BlockKind::Code, "    gate 40\n\n    lock"),
                (BlockKind::Paragraph, "Text\n    goes on"),
                (BlockKind::Code, "\ttab"),
            ],
        );
        assert_blocks(
            "- item\n\n    its second paragraph\n\n      code\n- next\n    - inner\n\n      of inner\n",
            &[
                (BlockKind::ListItem, "item"),
                (BlockKind::Paragraph, "its second paragraph"),
                (BlockKind::Code, "      code"),
                (BlockKind::ListItem, "next"),
                (BlockKind::ListItem, "inner"),
                (BlockKind::Paragraph, "of inner"),
            ],
        );
        assert_blocks(
            "[^1]: a note\n\n    goes on\n",
            &[(BlockKind::Paragraph, "[^1]: a note"), (BlockKind::Paragraph, "goes on")],
        );
    }

    #[test]
    fn list_items_drop_marks_and_keep_numbers() {
        assert_blocks(
            "- [x] one\n  goes on\n- two\n10. ten\n\nend",
            &[
                (BlockKind::ListItem, "one\n  goes on"),
                (BlockKind::ListItem, "two"),
                (BlockKind::ListItem, "10. ten"),
                (BlockKind::Paragraph, "end"),
            ],
        );
    }

    #[test]
    fn pipe_table_becomes_rows() {
        assert_blocks(
            "Intro\n| a | b |\n|:--|--:|\n| 1 | two words |\n",
            &[(BlockKind::Paragraph, "Intro"), (BlockKind::Table, "a | b\n1 | two words")],
        );
        assert_blocks("| a | b |\n|--|--|\n| x \\| y | z \\|\n", &[(BlockKind::Table, "a | b\nx ¦ y | z ¦")]);
        assert_eq!(extract("Intro\n\n| a | b |\n|--|--|\n| 1 | 2 |\n").blocks[1].rows, [3, 5]);
    }

    #[test]
    fn front_matter_is_metadata_and_sets_title() {
        let text = "---\ntitle: \"Plans\"\ntags: [a]\n---\n# Other\n";
        assert_blocks(text, &[(BlockKind::Metadata, "title: \"Plans\"\ntags: [a]"), (BlockKind::Heading(1), "Other")]);
        assert_eq!(extract(text).title.as_deref(), Some("Plans"));
    }

    #[test]
    fn thematic_break_at_top_is_not_front_matter() {
        assert_blocks("---\n\nText\n\n---\n\nMore", &[(BlockKind::Paragraph, "Text"), (BlockKind::Paragraph, "More")]);
    }

    // Case C3
    #[test]
    fn deeply_nested_quotes_are_text() {
        assert_blocks(&format!("{} deep", ">".repeat(100_000)), &[(BlockKind::Paragraph, "deep")]);
    }
}
