//! Redacts secrets in tables: values below a column header such as `api_key`.
//!
//! A value is redacted only if it also looks random, as after `token =`; otherwise a linguistics table would lose its column
//! `Token`. In a header of several words only the last words count, because a `Token address` or `Token ID` is not a token.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::model::Redaction;
use crate::secrets::Redactor;
use crate::secrets::named_values::leading_value;
use crate::secrets::redact::REDACTED;

/// Maximum bytes of a column header; longer cells are sentences.
const MAX_HEAD_BYTES: usize = 48;

/// Maximum number of bars that the spreadsheet parser writes between two cells. This many bars may stand for any larger
/// number of columns.
pub const MAX_GAP_BARS: usize = 16;

/// Matches the end of a column header above secrets, e.g. `api_key`: the words that also introduce a secret in prose.
static SECRET_HEAD: LazyLock<Regex> = LazyLock::new(|| {
    let words = "(?:secret|api|access|private|auth)[ _-]?key|secret|token|passwd|password|passphrase|bearer";
    Regex::new(&format!(r"(?i)(?:{words})s?(?:[ _-]?values?)?[0-9]?\W*$")).expect("a constant")
});

/// The columns of one table that hold secrets, according to the headers seen so far.
#[derive(Clone, Debug, Default)]
pub struct SecretColumns {
    known: BTreeSet<usize>,
    /// Lowest column that a secret header after a gap of unknown width can have; every column from it on may hold secrets.
    from: Option<usize>,
}

/// The column of a cell: a known column, or after a gap of unknown width any column from the given one on.
#[derive(Clone, Copy, Debug)]
enum CellColumn {
    At(usize),
    From(usize),
}

impl SecretColumns {
    /// Makes an instance for rows whose headers are unknown: any random-looking cell is redacted.
    pub fn with_unknown_heads() -> SecretColumns {
        SecretColumns { from: Some(0), ..SecretColumns::default() }
    }

    /// Whether a cell may be below a secret header. A cell after a gap of unknown width may be below any header from there
    /// on, because empty cells make the gap wider. A false redaction is preferred to a leak.
    fn may_be_secret(&self, column: CellColumn) -> bool {
        match column {
            CellColumn::At(at) => self.known.contains(&at) || self.from.is_some_and(|from| from <= at),
            CellColumn::From(at) => self.from.is_some() || self.known.range(at..).next().is_some(),
        }
    }

    fn add(&mut self, column: CellColumn) {
        match column {
            CellColumn::At(at) => self.known.extend([at]),
            CellColumn::From(at) => self.from = Some(self.from.map_or(at, |it| it.min(at))),
        }
    }

    /// Returns the range of the secret in a cell. If there is none, and the cell is a secret header, records its column; any
    /// row may have headers, because titles and dates may precede the header row of a sheet.
    fn check_cell(&mut self, column: CellColumn, cell: &str) -> Option<Range<usize>> {
        if self.may_be_secret(column)
            && let Some(secret) = leading_cell_value(cell)
        {
            return Some(secret);
        }
        if cell.len() <= MAX_HEAD_BYTES && SECRET_HEAD.is_match(cell) {
            self.add(column);
        }
        None
    }

    /// Finds the secrets in rows as file parsers write them. Rows of a sheet begin in column `sheet_from`, and have gaps of
    /// unknown width; rows of other tables begin in the first column and have a bar between all columns.
    fn secret_ranges(&mut self, rows: &str, sheet_from: Option<usize>) -> Vec<Range<usize>> {
        let (mut places, mut at) = (Vec::new(), 0);
        for row in rows.split_inclusive('\n') {
            let (mut bars, mut is_behind_gap) = (0, false);
            for (column, cell) in (sheet_from.unwrap_or_default()..).zip(cell_ranges(row)) {
                if !row[cell.clone()].trim().is_empty() {
                    is_behind_gap |= sheet_from.is_some() && bars >= MAX_GAP_BARS;
                    bars = 0;
                    let column = if is_behind_gap { CellColumn::From(column) } else { CellColumn::At(column) };
                    let start = at + cell.start;
                    let secret = self.check_cell(column, &row[cell]);
                    places.extend(secret.map(|it| start + it.start..start + it.end));
                }
                bars += 1;
            }
            at += row.len();
        }
        places
    }
}

impl Redactor {
    /// Redacts table rows with ` | ` between cells, like [`Redactor::redact`]. `columns` holds the secret columns of earlier
    /// rows and is updated. In a sheet, the first cell of each row is in column `sheet_from`, and [`MAX_GAP_BARS`] bars
    /// stand for that many bars or more.
    pub fn redact_rows<'t>(
        &mut self,
        rows: &'t str,
        columns: &mut SecretColumns,
        sheet_from: Option<usize>,
    ) -> Cow<'t, str> {
        let known = columns.secret_ranges(rows, sheet_from);
        self.redact_with_known(rows, known)
    }
}

/// Redacts the cells of a JSON table that are below secret headers.
pub fn redact_json_rows(heads: &Value, rows: &mut Value, redaction: Redaction) {
    if redaction == Redaction::None {
        return;
    }
    let mut columns = SecretColumns::default();
    for (column, head) in heads.as_array().into_iter().flatten().enumerate() {
        columns.check_cell(CellColumn::At(column), head.as_str().unwrap_or_default());
    }
    for row in rows.as_array_mut().into_iter().flatten() {
        for (column, cell) in row.as_array_mut().into_iter().flatten().enumerate() {
            let Value::String(text) = cell else { continue };
            if let Some(secret) = columns.check_cell(CellColumn::At(column), text) {
                text.replace_range(secret, REDACTED);
            }
        }
    }
}

/// Returns the range of a random-looking value at the start of a cell, after quotes and emphasis marks.
fn leading_cell_value(cell: &str) -> Option<Range<usize>> {
    let of_value = |it: char| it.is_ascii_alphanumeric() || "+/_=~.-".contains(it);
    let start = cell.find(of_value)?;
    leading_value(&cell[start..]).map(|it| start + it.start..start + it.end)
}

/// Returns the ranges of the cells of a row. The bar beside an empty cell at the start or end of a row may lack a space,
/// because blocks are trimmed.
fn cell_ranges(row: &str) -> Vec<Range<usize>> {
    let row = row.trim_end_matches('\n');
    let parts = |at: usize| {
        let (before, after) = (&row[..at], &row[at + 1..]);
        (before.is_empty() || before.ends_with(' ')) && (after.is_empty() || after.starts_with(' '))
    };
    let (mut cells, mut start) = (Vec::new(), 0);
    for (bar, _) in row.match_indices('|').filter(|(at, _)| parts(*at)) {
        cells.push(start..bar);
        start = bar + 1;
    }
    cells.push(start..row.len());
    cells
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const VALUE: &str = "Zk3vQ9mX2pLr8TnB5wYs";
    const OTHER: &str = "q8Rt2LmZx7Vb4NcK9wPd";

    fn check(rows: &str, expected: &str) {
        let cleaned =
            |redaction| Redactor::new(redaction).redact_rows(rows, &mut SecretColumns::default(), None).into_owned();
        assert_eq!(cleaned(Redaction::Keys), expected, "{rows}");
        assert_eq!(cleaned(Redaction::None), rows);
    }

    #[test]
    fn random_value_below_secret_head_is_redacted() {
        for head in [
            "token",
            "Tokens",
            "Password",
            "passphrase",
            "api_key",
            "API key",
            "apiKey",
            "Secret access key",
            "client-secret",
            "accessToken",
            "Bot token:",
            "**Token value**",
        ] {
            check(
                &format!("name | {head} | commit\nbot | {VALUE} | {OTHER}\nx | `{OTHER}` | {VALUE}"),
                &format!("name | {head} | commit\nbot | [redacted] | {OTHER}\nx | `[redacted]` | {VALUE}"),
            );
        }
    }

    // Case E13
    #[test]
    fn ordinary_columns_are_kept_under_any_head() {
        for rows in [
            "Token | Count\nLarkmouth | 12\n▁the | 99812\nuncharacteristically | 3",
            "Token address | Name\n0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48 | USDC",
            "token_id | n\nZk3vQ9mX2pLr8TnB5wYs | 1",
            "Password | since\nsee the sheet in the kitchen | 2019",
            "sha256 | secret | n\n0f3a9c2b7d6e5f4a8b1c0d9e7f6a5b4c | no | 2",
            "id | what one does who has lost every last bit of the token\nZk | Zk3vQ9mX2pLr8TnB5wYs",
        ] {
            check(rows, rows);
        }
    }

    #[test]
    fn empty_cells_count_as_columns() {
        check(&format!("| name | token\n0 | bot | {VALUE}"), "| name | token\n0 | bot | [redacted]");
        check(
            &format!("a |  | token |\n |  | {VALUE} |\nb | {OTHER}"),
            &format!("a |  | token |\n |  | [redacted] |\nb | {OTHER}"),
        );
        check(&format!("token\n{VALUE}"), "token\n[redacted]");
    }

    #[test]
    fn heads_below_title_apply_to_next_block() {
        let (mut censor, mut columns) = (Redactor::new(Redaction::Keys), SecretColumns::default());
        assert_eq!(
            censor.redact_rows("Keys of 2025\nname | token", &mut columns, Some(1)),
            "Keys of 2025\nname | token"
        );
        assert_eq!(censor.redact_rows(&format!("bot | {VALUE}"), &mut columns, Some(1)), "bot | [redacted]");
        assert_eq!(censor.redact_rows(VALUE, &mut columns, Some(2)), "[redacted]");
        assert_eq!(censor.redact_rows(VALUE, &mut columns, Some(1)), VALUE);
        assert_eq!(censor.found(), 2);
    }

    #[test]
    fn cell_after_wide_gap_matches_any_later_head() {
        let (wide, narrow) = (" | ".repeat(MAX_GAP_BARS), " | ".repeat(MAX_GAP_BARS - 1));
        let check = |head: &str, row: &str, sheet_from, is_cleaned: bool| {
            let (mut censor, mut columns) = (Redactor::new(Redaction::Keys), SecretColumns::default());
            censor.redact_rows(head, &mut columns, sheet_from);
            let cleaned = censor.redact_rows(row, &mut columns, sheet_from);
            assert_eq!(cleaned.contains(REDACTED), is_cleaned, "{head}\n{row}");
        };
        let full = |last: &str| format!("{}{last}", "head | ".repeat(30));
        let far = format!("name{wide}token");
        for (head, row, is_cleaned) in [
            (&far, format!("bot | x{wide}{VALUE}"), true),
            (&far, format!("bot{wide}x | {VALUE}"), true),
            (&far, full(VALUE), true),
            (&far, format!("bot | {VALUE}"), false),
            (&full("token"), format!("bot{wide}{VALUE}"), true),
            (&full("token"), format!("bot{narrow}{VALUE}"), false),
            (&format!("token | {}", full("date")), format!("bot{wide}{VALUE}"), false),
        ] {
            check(head, &row, Some(0), is_cleaned);
        }
        check(&far, &format!("bot | x{wide}{VALUE}"), None, false);
        check(&far, &format!("bot{wide}{VALUE}"), None, true);
    }

    #[test]
    fn json_table_is_redacted_like_text() {
        let told = |heads: Value, mut rows: Value| {
            redact_json_rows(&heads, &mut rows, Redaction::Keys);
            rows
        };
        let rows = json!([["bot", VALUE, OTHER], ["x", null, 7]]);
        let cleaned = json!([["bot", "[redacted]", OTHER], ["x", null, 7]]);
        assert_eq!(told(json!(["name", "token", "commit"]), rows.clone()), cleaned);
        let headless = told(json!([]), json!([["name", "token"], ["1", VALUE]]));
        assert_eq!(headless, json!([["name", "token"], ["1", "[redacted]"]]));
        assert_eq!(told(json!(["name", "count"]), rows.clone()), rows);
    }
}
