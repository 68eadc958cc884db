//! Parses ranges of cells on a sheet, such as `B7:F9`, into columns and rows.

/// Returns the first and last column letters of a cell range: `B` and `F` of `B7:F9`.
pub(super) fn column_letters_of_range(cells: &str) -> (&str, &str) {
    let letters = |cell: &'_ str| cell.find(|it: char| it.is_ascii_digit()).unwrap_or(cell.len());
    let (first, last) = cells.split_once(':').unwrap_or((cells, cells));
    (&first[..letters(first)], &last[..letters(last)])
}

/// Returns the column number, from 0, of column letters: 0 for `A`.
pub(super) fn column_number(letters: &str) -> usize {
    let number = |sum: usize, it: u8| sum.saturating_mul(26).saturating_add(usize::from(it.saturating_sub(b'A')) + 1);
    letters.bytes().fold(0, number).saturating_sub(1)
}

/// Returns the letters of a column number, from 0: `A` for 0.
pub(super) fn column_letters(column: usize) -> String {
    let mut letters = Vec::new();
    let mut rest = column + 1;
    while rest > 0 {
        letters.push(char::from(b'A' + ((rest - 1) % 26) as u8));
        rest = (rest - 1) / 26;
    }
    letters.into_iter().rev().collect()
}

/// Returns the first and last row of a cell range: 7 and 9 of `B7:F9`.
pub(super) fn rows_of_cells(cells: &str) -> Option<(u32, u32)> {
    let number = |cell: &str| cell.trim_start_matches(|it: char| it.is_ascii_uppercase()).parse::<u32>().ok();
    let (first, last) = cells.split_once(':').unwrap_or((cells, cells));
    Some((number(first)?, number(last)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_letters_match_spreadsheets() {
        for (number, letters) in [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ")] {
            assert_eq!((column_letters(number).as_str(), column_number(letters)), (letters, number));
        }
        assert_eq!((column_letters_of_range("B7:AF9"), rows_of_cells("B7:AF9")), (("B", "AF"), Some((7, 9))));
    }
}
