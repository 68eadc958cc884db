//! Finds tables: those that the format marks, and rows with `|` or `&` in plain text.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::json;

use crate::corpus::document::location::SourceLocation;
use crate::corpus::document::passages::{Passage, PassageRole, SourceDocument, TAG_SEARCH_BYTES};
use crate::corpus::objects::object::Object;
use crate::corpus::text::words::truncate_to_line;

/// Number of rows after which file parsers start a new table block. A table block directly after a block of this size
/// continues the same table.
const READER_BLOCK_ROWS: usize = 30;

static CAPTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(?i:table|tab\.)\s*\w*[.:)\s-]").expect("a constant"));
static TABULAR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)\\begin\{(?:tabular|longtable)\*?\}(?:\[[^\]]*\])?(?:\{[^}]*\})+(.*?)\\end\{(?:tabular|longtable)")
        .expect("a constant")
});
static TEX_CAPTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\caption\{([^}]*)\}").expect("a constant"));

/// Finds the tables of a document.
pub(crate) fn find_tables(source: &SourceDocument) -> Vec<Object> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < source.passages.len() {
        let passage = &source.passages[at];
        let next = match passage.role {
            PassageRole::Table => stated_table(source, at, &mut found),
            PassageRole::Prose | PassageRole::Item => {
                found.extend(plain_text_table(source, at));
                at + 1
            }
            _ => at + 1,
        };
        at = next;
    }
    found
}

/// Adds a table that the format marks; returns the index of the passage after the table.
fn stated_table(source: &SourceDocument, first: usize, found: &mut Vec<Object>) -> usize {
    let mut rows = stated_rows(source, &source.passages[first]);
    let mut place = source.place_of(&source.passages[first]);
    let mut next = first + 1;
    let mut count = rows.len();
    while let Some(passage) =
        source.passages.get(next).filter(|it| it.role == PassageRole::Table && count + 1 >= READER_BLOCK_ROWS)
    {
        let more = stated_rows(source, passage);
        count = more.len();
        rows.extend(more);
        place = place.merge(&source.place_of(passage));
        next += 1;
    }
    let caption = find_caption(source, first, next);
    let place = table_element_place(source, &place).unwrap_or(place);
    found.extend(table_object(place, rows, caption, 0.96));
    next
}

/// Returns the location of the whole table element in a web page or a mail.
fn table_element_place(source: &SourceDocument, place: &SourceLocation) -> Option<SourceLocation> {
    let raw = source.raw.as_ref().filter(|_| source.is_page() || source.extension == "eml")?;
    let (start, end) = place.bytes?;
    let (before, after) = (raw.text.get(..start as usize)?, raw.text.get(end as usize..)?);
    let near = before.ceil_char_boundary(before.len().saturating_sub(TAG_SEARCH_BYTES));
    let (before, after) = (&before[near..], &after[..after.floor_char_boundary(TAG_SEARCH_BYTES)]);
    let open = near + before.rfind("<table").or_else(|| before.rfind("<TABLE"))?;
    let close = after.find("</table>").or_else(|| after.find("</TABLE>"))? + "</table>".len();
    Some(SourceLocation { part: place.part.clone(), ..raw.place(&(open..end as usize + close)) })
}

/// Returns the rows of a table. Rows of Markdown are parsed again from the file, because in the passage text, where cells
/// are joined with `|`, a `|` inside a cell cannot be recognized.
fn stated_rows(source: &SourceDocument, passage: &Passage) -> Vec<Vec<String>> {
    if matches!(source.extension.as_str(), "md" | "markdown" | "mdx" | "qmd" | "rmd")
        && let (Some(raw), Some(bytes)) = (&source.raw, source.bytes(passage, &(0..passage.text.len())))
        && let Some(text) = raw.text.get(bytes)
    {
        return text.lines().filter(|it| !is_rule(it.trim())).map(split_bar_row).collect();
    }
    // Add a space at both ends, because the text is trimmed, and an empty first or last cell would not be split off.
    let row = |line: &str| format!(" {line} ").split(" | ").map(|it| it.trim().to_string()).collect();
    passage.text.lines().map(row).collect()
}

/// Creates the table object. The first row is the header unless it contains numbers.
fn table_object(
    place: SourceLocation,
    mut rows: Vec<Vec<String>>,
    caption: Option<String>,
    confidence: f64,
) -> Option<Object> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    if rows.is_empty() || width < 2 && rows.len() < 2 {
        return None;
    }
    let is_number = |it: &String| {
        it.chars().any(|it| it.is_ascii_digit()) && it.trim_matches(['%', '€', '$', ' ']).parse::<f64>().is_ok()
    };
    let headers = if rows[0].iter().any(is_number) { Vec::new() } else { rows.remove(0) };
    let even = rows.iter().all(|it| it.len() == width) && (headers.is_empty() || headers.len() == width);
    let confidence = if even { confidence } else { confidence - 0.15 };
    Some(Object::new(place, confidence, json!({"headers": headers, "rows": rows, "caption": caption})))
}

/// Returns the caption before or after a table.
fn find_caption(source: &SourceDocument, first: usize, next: usize) -> Option<String> {
    let around = [first.checked_sub(1).and_then(|it| source.passages.get(it)), source.passages.get(next)];
    around.into_iter().flatten().find(|it| is_caption(source, it)).map(|it| truncate_to_line(&it.text, 300))
}

fn is_caption(source: &SourceDocument, passage: &Passage) -> bool {
    if passage.text.chars().count() > 300 || !matches!(passage.role, PassageRole::Prose) {
        return false;
    }
    let tagged = || {
        let bytes = source.bytes(passage, &(0..passage.text.len()))?;
        let before = source.raw.as_ref()?.text[..bytes.start].trim_end();
        if matches!(source.extension.as_str(), "rst" | "rest") {
            return Some([".. list-table::", ".. csv-table::"].iter().any(|it| before.ends_with(it)));
        }
        let tag = &before[before.rfind('<')?..];
        Some(tag.starts_with("<caption") && tag.ends_with('>'))
    };
    CAPTION.is_match(&passage.text) || tagged() == Some(true)
}

/// Finds a table in plain text.
fn plain_text_table(source: &SourceDocument, at: usize) -> Option<Object> {
    let passage = &source.passages[at];
    if let Some(found) = TABULAR.captures(&passage.text) {
        let rows = split_tex_rows(&found[1]);
        let caption = TEX_CAPTION.captures(&passage.text).map(|it| it[1].to_string());
        let range = found.get(0)?.range();
        let end = passage.text[range.end..].find('}').map_or(range.end, |it| range.end + it + 1);
        return table_object(source.place(passage, &(range.start..end)), rows, caption, 0.93);
    }
    if let Some(found) = aligned_table(source, at) {
        return Some(found);
    }
    let lines: Vec<&str> = passage.text.lines().map(str::trim).collect();
    let first = lines.iter().position(|it| is_bar_row(it))?;
    let length = lines[first..].iter().position(|it| !is_bar_row(it)).unwrap_or(lines.len() - first);
    let rows: Vec<Vec<String>> =
        lines[first..first + length].iter().filter(|it| !is_rule(it)).map(|it| split_bar_row(it)).collect();
    if rows.len() < 2 || rows.iter().any(|it| it.len() != rows[0].len()) {
        return None;
    }
    let (start, end) = (
        line_offset(passage, lines[first]),
        line_offset(passage, lines[first + length - 1]) + lines[first + length - 1].len(),
    );
    let own = (first > 0 && CAPTION.is_match(lines[0])).then(|| truncate_to_line(&lines[..first].join(" "), 300));
    let caption = own.or_else(|| find_caption(source, at, at + 1));
    table_object(source.place(passage, &(start..end)), rows, caption, 0.88)
}

/// Finds a table with aligned columns and a line of dashes or equal signs under its header.
fn aligned_table(source: &SourceDocument, at: usize) -> Option<Object> {
    let passage = &source.passages[at];
    let lines: Vec<&str> = passage.text.lines().collect();
    let rule = lines.iter().position(|it| column_starts(it).is_some())?;
    let starts = column_starts(lines[rule])?;
    let row = |line: &&str| aligned_cells(line, &starts);
    let second = lines[rule + 1..].iter().position(|it| column_starts(it).is_some()).map(|it| rule + 1 + it);
    // In reStructuredText, also skip the lines of dashes above the header and after the rows.
    let (first, body) = match second {
        Some(second) if lines[rule].starts_with('=') => (rule, second + 1),
        _ => (rule.checked_sub(1)?, rule + 1),
    };
    let head = if first == rule { &lines[rule + 1..body - 1] } else { &lines[first..rule] };
    let mut rows: Vec<Vec<String>> = head.iter().filter_map(row).collect();
    let below: Vec<Vec<String>> = lines[body..].iter().map_while(row).collect();
    let closed = lines.get(body + below.len()).is_some_and(|it| column_starts(it).is_some());
    let last = body + below.len() - usize::from(!closed);
    rows.extend(below);
    if rows.len() < 2 || head.is_empty() {
        return None;
    }
    let range = line_offset(passage, lines[first])..line_offset(passage, lines[last]) + lines[last].trim_end().len();
    let own =
        (first > 0 && CAPTION.is_match(lines[0].trim())).then(|| truncate_to_line(&lines[..first].join(" "), 300));
    let caption = own.or_else(|| find_caption(source, at, at + 1));
    table_object(source.place(passage, &range), rows, caption, 0.85)
}

/// Returns the start of each column, given by a line of dashes.
fn column_starts(line: &str) -> Option<Vec<usize>> {
    let line = line.trim_end();
    let mark = line.trim_start().chars().next().filter(|it| matches!(it, '-' | '='))?;
    if !line.chars().all(|it| it == mark || it == ' ') {
        return None;
    }
    let starts_group = |at: &usize| !line[*at..].starts_with(' ') && (*at == 0 || line[..*at].ends_with(' '));
    let starts: Vec<usize> = (0..line.len()).filter(starts_group).collect();
    let wide = line.split(' ').all(|it| it.is_empty() || it.len() > 1);
    (starts.len() > 1 && wide).then_some(starts)
}

/// Splits a line into cells at the column starts; returns `None` if a text crosses a column border.
fn aligned_cells(line: &str, starts: &[usize]) -> Option<Vec<String>> {
    let letters: Vec<char> = line.trim_end().chars().collect();
    let crosses = |it: &usize| *it > 0 && letters.get(*it - 1).is_some_and(|it| *it != ' ');
    if letters.is_empty() || column_starts(line).is_some() || starts.iter().any(crosses) {
        return None;
    }
    let ends = starts.iter().skip(1).copied().chain([letters.len()]);
    let cell = |(start, end): (usize, usize)| {
        let end = end.min(letters.len());
        letters[start.min(end)..end].iter().collect::<String>().trim().to_string()
    };
    Some(starts.iter().copied().zip(ends).map(cell).collect())
}

fn line_offset(passage: &Passage, line: &str) -> usize {
    line.as_ptr() as usize - passage.text.as_ptr() as usize
}

fn is_bar_row(line: &str) -> bool {
    is_rule(line) || line.matches('|').count() >= 2 || line.matches(" | ").count() == 1
}

fn is_rule(line: &str) -> bool {
    (line.contains("--") || line.contains("=="))
        && line.chars().all(|it| matches!(it, '-' | '+' | '|' | ':' | '=' | ' '))
}

/// Splits a row into cells at `|`; an escaped `\|` is part of the text.
fn split_bar_row(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let (mut cells, mut cell, mut letters) = (Vec::new(), String::new(), line.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&'|') => cell.extend(letters.next()),
            '|' => cells.push(std::mem::take(&mut cell)),
            letter => cell.push(letter),
        }
    }
    if !cell.trim().is_empty() || !line.ends_with('|') {
        cells.push(cell);
    }
    cells.iter().map(|it| it.trim().to_string()).collect()
}

/// Splits the TeX rows `a & b \\` into cells.
fn split_tex_rows(body: &str) -> Vec<Vec<String>> {
    const RULES: [&str; 5] = ["\\hline", "\\toprule", "\\midrule", "\\bottomrule", "\\endhead"];
    // A private-use character that replaces an escaped `\&` while a row is split.
    const AMPERSAND: &str = "\u{e000}";
    let plain = |it: &str| it.trim().replace("\\%", "%").replace(AMPERSAND, "&");
    let row = |row: &str| {
        let row = RULES.iter().fold(row.to_string(), |row, rule| row.replace(rule, ""));
        let row = row.trim().to_string();
        (!row.is_empty()).then(|| row.replace("\\&", AMPERSAND).split('&').map(plain).collect::<Vec<String>>())
    };
    body.split("\\\\").filter_map(row).collect()
}
