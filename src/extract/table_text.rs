//! Formats table cells and rows as text: one line per row, with `|` between the cells.

/// Collapses all white space, line breaks included, to single spaces.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces each lone `|` in the text of a cell, because the secret scan would count it as a column separator.
pub(super) fn without_bars(line: String) -> String {
    if !line.contains('|') {
        return line;
    }
    line.split(' ').map(|word| if word == "|" { "¦" } else { word }).collect::<Vec<_>>().join(" ")
}

/// Maximum bytes of a merged cell whose text is repeated in each row that it spans: enough for a category, not for prose.
const MAX_REPEATED_BYTES: usize = 100;

/// Returns the text of a cell that is merged with the cell above: the same text if it is short, so that every row is
/// readable on its own, or else nothing.
pub(super) fn merged_text(above: Option<&String>) -> String {
    above.filter(|it| it.len() <= MAX_REPEATED_BYTES).cloned().unwrap_or_default()
}

/// Joins cells to the text of a table row; returns `None` if all cells are empty.
pub(super) fn table_row(cells: &[String]) -> Option<String> {
    let cells: Vec<String> = cells.iter().map(|it| without_bars(one_line(it))).collect();
    let used = cells.iter().rposition(|it| !it.is_empty())? + 1;
    Some(cells[..used].join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_row_drops_trailing_empty_cells() {
        let row = |cells: &[&str]| table_row(&cells.iter().map(|it| it.to_string()).collect::<Vec<_>>());
        assert_eq!(row(&["a", "", "b\nc", " "]).as_deref(), Some("a |  | b c"));
        assert_eq!(row(&["", " "]), None);
    }
}
