//! Reader of tables in text form, delimited by comma, semicolon, tab or bar; the delimiter is detected by counting.

use crate::extract::encoding::decode;
use crate::extract::formats::extension;
use crate::extract::source_text::Source;
use crate::extract::table_text::{one_line, without_bars};
use crate::extract::{Input, ReadResult, Sink};
use crate::model::BlockKind;

/// Number of rows per block, which makes a block about as large as a chunk.
const ROWS_PER_BLOCK: usize = 30;

/// Adds the rows of a delimited table to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let text = decode(input.bytes, None);
    let source = Source::new(&text);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter(input.name, source.text))
        .has_headers(false)
        .flexible(true)
        .from_reader(source.text.as_bytes());
    let mut record = csv::ByteRecord::new();
    let mut rows: Vec<(usize, String)> = Vec::new();
    let mut range = 0..0;
    // An error ends the loop, and the rows read so far are kept. Only the CSV library itself can cause one.
    while let Ok(true) = reader.read_byte_record(&mut record) {
        if !sink.count_cells(record.len() as u64) {
            break;
        }
        let start = record.position().map_or(range.end, |it| it.byte() as usize).min(source.text.len());
        // Skips the blank lines before the record, because the position that the CSV library reports is before them.
        let start = start + source.text[start..].bytes().take_while(|it| matches!(it, b'\r' | b'\n')).count();
        if rows.is_empty() {
            range.start = start;
        }
        range.end = (reader.position().byte() as usize).min(source.text.len());
        rows.push((start, format_record(&record)));
        if rows.len() >= ROWS_PER_BLOCK && !push_rows(&source, &mut rows, range.clone(), sink) {
            return Ok(());
        }
    }
    push_rows(&source, &mut rows, range, sink);
    Ok(())
}

fn push_rows(
    source: &Source<'_>,
    rows: &mut Vec<(usize, String)>,
    range: std::ops::Range<usize>,
    sink: &mut Sink,
) -> bool {
    let rows = std::mem::take(rows);
    let mark = sink.block_count();
    let is_whole = source.push_lines(sink, BlockKind::Table, &rows, range);
    sink.number_rows(mark, &source.lines_at(&rows.iter().map(|it| it.0).collect::<Vec<_>>()));
    is_whole
}

/// Formats a record as one line, such as `a | b`.
fn format_record(record: &csv::ByteRecord) -> String {
    let cell = |bytes| without_bars(one_line(&String::from_utf8_lossy(bytes)));
    record.iter().map(cell).collect::<Vec<_>>().join(" | ")
}

/// Returns the delimiter that the file extension implies, or else the one whose count is the most uniform in the first
/// lines.
fn delimiter(name: &str, text: &str) -> u8 {
    match extension(name).as_str() {
        "tsv" | "tab" => return b'\t',
        "psv" => return b'|',
        _ => {}
    }
    const SAMPLE_LINES: usize = 20;
    let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).take(SAMPLE_LINES).collect();
    let score = |delimiter: u8| {
        let counts: Vec<usize> = lines.iter().map(|line| count_unquoted(line, delimiter)).collect();
        let first = counts.first().copied().unwrap_or(0);
        let even = counts.iter().filter(|it| **it == first).count();
        if first == 0 { (0, 0) } else { (even, first) }
    };
    // The comma is last, because it is the default, and `max_by_key` returns the last of equal candidates.
    [b'|', b'\t', b';', b','].into_iter().max_by_key(|it| score(*it)).unwrap_or(b',')
}

fn count_unquoted(line: &str, delimiter: u8) -> usize {
    let mut quoted = false;
    let mut count = 0;
    for byte in line.bytes() {
        quoted ^= byte == b'"';
        count += usize::from(byte == delimiter && !quoted);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Document, ExtractLimits};

    fn extract(name: &str, text: &str) -> Document {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes: text.as_bytes(), name }, &mut sink).unwrap();
        sink.into_document()
    }

    fn assert_text(name: &str, text: &str, expected: &str) {
        assert_eq!(extract(name, text).text(), expected);
    }

    #[test]
    fn delimiter_is_detected_by_counting() {
        assert_text("a.csv", "a,b;c\n1,2;3\n", "a | b;c\n1 | 2;3");
        assert_text("a.csv", "a;b\n1,5;2,5\n", "a | b\n1,5 | 2,5");
        assert_text("a.csv", "a|b\n1|2\n", "a | b\n1 | 2");
        assert_text("a.tsv", "a\tb,c\n", "a | b,c");
    }

    #[test]
    fn quoted_cell_keeps_delimiters_and_line_breaks() {
        assert_text("a.csv", "x,y\n\"a, \"\"b\"\"\nc\",2\n", "x | y\na, \"b\" c | 2");
        assert_text("a.csv", "x,y\na | b,2\n", "x | y\na ¦ b | 2");
    }

    #[test]
    fn multiline_rows_keep_their_start_lines() {
        let document = extract("a.csv", "a,b\n\"two\nlines\",1\n\n\nx,2\n");
        assert_eq!(
            (document.text(), &document.blocks[0].rows[..]),
            ("a | b\ntwo lines | 1\nx | 2".into(), &[1, 2, 6][..])
        );
        assert_eq!(extract("a.csv", "a,b\nc,d\n").blocks[0].rows, [0_u32; 0]);
    }

    #[test]
    fn long_table_is_split_with_line_ranges() {
        let text: String = (1..=70).map(|it| format!("row {it},x\n")).collect();
        let document = extract("a.csv", &text);
        let lines: Vec<_> =
            document.blocks.iter().map(|it| (it.anchor.line_start.unwrap(), it.anchor.line_end.unwrap())).collect();
        assert_eq!(lines, [(1, 30), (31, 60), (61, 70)]);
    }
}
