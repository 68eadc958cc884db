//! Parser for the table directives of reStructuredText: `list-table`, whose rows are nested lists, and `csv-table`.

use std::ops::Range;

use crate::extract::Sink;
use crate::extract::source_text::{Line, Source};
use crate::model::BlockKind;

/// The table directive: it determines how the rows of the table are written.
#[derive(Clone, Copy)]
enum TableKind {
    ListTable,
    CsvTable,
}

/// Adds the title and the rows of the table that begins at line `at`, and returns the index of the line after the table.
/// Returns `None` if no table with rows begins there.
pub(crate) fn push_table(source: &Source<'_>, lines: &[Line<'_>], at: usize, sink: &mut Sink) -> Option<usize> {
    let (kind, title) = parse_directive(lines[at].text)?;
    let margin = indent_width(lines[at].text);
    let is_inside = |it: &&Line<'_>| it.text.trim().is_empty() || indent_width(it.text) > margin;
    let end = at + 1 + lines[at + 1..].iter().take_while(is_inside).count();
    let body = &lines[at + 1..end];
    let (start, rows) = match kind {
        TableKind::ListTable => parse_list_table(body),
        TableKind::CsvTable => parse_csv_table(body),
    }?;
    if !title.is_empty() {
        source.push(sink, BlockKind::Paragraph, lines[at].range_of(title));
    }
    let rows: Vec<String> = rows.iter().map(|it| it.join(" | ")).collect();
    source.push_derived(sink, BlockKind::Table, &rows.join("\n"), start..lines[end - 1].end());
    Some(end)
}

/// Returns the kind and the title of the table directive that a line begins; `None` if it begins none.
fn parse_directive(line: &str) -> Option<(TableKind, &str)> {
    let directive = line.trim_start().strip_prefix(".. ")?.trim_start();
    let kinds = [("list-table::", TableKind::ListTable), ("csv-table::", TableKind::CsvTable)];
    kinds.into_iter().find_map(|(name, kind)| Some((kind, directive.strip_prefix(name)?.trim())))
}

fn indent_width(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Parses the rows of a `list-table`: `* - ` begins a row, `- ` below that hyphen begins another cell, and any other text
/// continues the cell. Also returns the offset of the first cell's text.
fn parse_list_table(body: &[Line<'_>]) -> Option<(usize, Vec<Vec<String>>)> {
    let first = body.iter().find(|it| it.text.trim_start().starts_with("* -"))?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    // Indentation of the `*` that begins rows and of the `-` that begins cells; the first row and its first cell set both.
    let (mut row_mark, mut cell_mark) = (None, None);
    for line in body.iter().map(|it| it.text).filter(|it| !it.trim().is_empty()) {
        let (at, text) = (indent_width(line), line.trim());
        let opens_row = text.starts_with("* -") && row_mark.is_none_or(|it| it == at);
        if opens_row {
            let inner = text[1..].trim_start();
            row_mark = Some(at);
            cell_mark = Some(at + text.len() - inner.len());
            rows.push(vec![parse_cell(inner).unwrap_or_default().to_string()]);
            continue;
        }
        let Some(row) = rows.last_mut() else { continue };
        match parse_cell(text).filter(|_| cell_mark == Some(at)) {
            Some(text) => row.push(text.to_string()),
            None => {
                if let Some(open) = row.last_mut() {
                    let space = if open.is_empty() { "" } else { " " };
                    open.push_str(&format!("{space}{text}"));
                }
            }
        }
    }
    let mark = first.text.len() - first.text.trim_start_matches([' ', '\t', '*', '-']).len();
    Some((first.start + mark, rows))
}

/// Returns the text of a cell, which follows `-`; `None` if the line does not begin a cell.
fn parse_cell(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('-')?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim())
}

/// Parses the rows of a `csv-table`: the `:header:` option, then the lines below. Also returns the offset of the first row.
fn parse_csv_table(body: &[Line<'_>]) -> Option<(usize, Vec<Vec<String>>)> {
    let options = body.iter().take_while(|it| it.text.trim_start().starts_with(':')).count();
    let head = body[..options].iter().find_map(|it| Some(it.range_of(it.text.trim().strip_prefix(":header:")?.trim())));
    let lines = body[options..].iter().map(|it| it.range_of(it.text.trim())).filter(|it| !it.is_empty());
    let ranges: Vec<Range<usize>> = head.into_iter().chain(lines).collect();
    let text = |it: &Range<usize>| {
        let line = body.iter().rfind(|line| line.start <= it.start)?;
        line.text.get(it.start - line.start..it.end - line.start)
    };
    // Removes the space before a quoted value, so that the CSV parser recognizes the quotes.
    let values = ranges.iter().filter_map(text).collect::<Vec<_>>().join("\n").replace(", \"", ",\"");
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(values.as_bytes());
    let one_line = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
    let records = reader.records().map_while(Result::ok);
    let rows: Vec<Vec<String>> = records.map(|it| it.iter().map(one_line).collect()).collect();
    let is_table = rows.iter().any(|it| it.len() > 1);
    is_table.then(|| (ranges[0].start, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::encoding::decode;
    use crate::model::ExtractLimits;

    /// Checks the index of the line after the table, and the blocks with their first and last lines.
    fn assert_table(text: &str, expected: Option<usize>, blocks: &[(&str, u32, u32)]) {
        let decoded = decode(text.as_bytes(), None);
        let source = Source::new(&decoded);
        let lines: Vec<Line<'_>> = source.lines().collect();
        let mut sink = Sink::new(ExtractLimits::default());
        let next = push_table(&source, &lines, 0, &mut sink);
        let document = sink.into_document();
        let place = |it: &crate::model::Anchor| (it.line_start.unwrap(), it.line_end.unwrap());
        let shown: Vec<(&str, u32, u32)> =
            document.blocks.iter().map(|it| (it.text.as_str(), place(&it.anchor).0, place(&it.anchor).1)).collect();
        assert_eq!((next, shown.as_slice()), (expected, blocks), "{text}");
    }

    #[test]
    fn list_table_becomes_rows() {
        assert_table(
            ".. list-table:: Drift by site\n   :header-rows: 1\n\n   * - Site\n     - Drift\n   * - North\n       pier\n     - 4.1\n\n       - of two\n   * - Lock\n     -\n\nAfter.\n",
            Some(13),
            &[("Drift by site", 1, 1), ("Site | Drift\nNorth pier | 4.1 - of two\nLock |", 4, 12)],
        );
        assert_table(".. list-table::\n\n   * - a\n     - b\n", Some(4), &[("a | b", 3, 4)]);
    }

    #[test]
    fn csv_table_takes_header_from_options() {
        assert_table(
            ".. csv-table:: Loaves\n   :header: \"Loaf\", \"Rye, in g\"\n   :widths: 10, 20\n\n   Plain, 100\n   \"Dark, old\", 300\n",
            Some(6),
            &[("Loaves", 1, 1), ("Loaf | Rye, in g\nPlain | 100\nDark, old | 300", 2, 6)],
        );
    }

    #[test]
    fn other_directives_are_not_tables() {
        assert_table(".. list-table:: Empty\n\n   Nothing here.\n", None, &[]);
        assert_table(".. note:: A note\n\n   * - a\n     - b\n", None, &[]);
        assert_table("* - a\n  - b\n", None, &[]);
    }
}
