//! Removes unused rows and columns from an xls workbook for calamine, and maps the new cell positions back to the original
//! ones.
//!
//! calamine allocates memory for every cell between the first and the last of a sheet, for all sheets at once, so that a
//! single cell in the far corner would take gigabytes.

use std::collections::HashSet;

/// Number of columns of a sheet, defined by the xls format.
const MAX_COLUMNS: usize = 256;

/// Number of rows of a sheet: row numbers have 16 bits.
const MAX_ROWS: usize = 1 << 16;

/// Maximum number of cells, used or not, that calamine may allocate per workbook; rows beyond it are dropped. The cells
/// take about 130 MiB, including calamine's copy of a sheet.
const MAX_ALLOCATED_CELLS: usize = 2_000_000;

/// Type of the record that claims the used area of a sheet. It is only an estimate, and readers do not need it.
const DIMENSIONS: u16 = 0x0200;

/// Types of the cell records; each of them begins with row and column.
const FORMULA: u16 = 0x0006;
const MUL_RK: u16 = 0x00BD;
const CELL_RECORDS: [u16; 8] = [FORMULA, 0x0203, 0x0204, 0x0205, 0x027E, MUL_RK, 0x00D6, 0x00FD];

/// Type of the record with the text result of the preceding formula.
const FORMULA_TEXT: u16 = 0x0207;

/// Types of the records that begin and end a sheet (or a chart in it), and of the record with the name and offset of a
/// sheet.
const BOF: u16 = 0x0809;
const EOF: u16 = 0x000A;
const BOUND_SHEET: u16 = 0x0085;

/// Record type without meaning. It replaces the type of each record that calamine should ignore.
const IGNORED: u16 = 0xFFFF;

/// The original numbers of the used rows and columns of a sheet, in ascending order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PositionMap {
    rows: Vec<u16>,
    columns: Vec<u16>,
    /// Number of used rows at the end of the sheet that were dropped because of the cell limit.
    pub(super) dropped_rows: usize,
}

impl PositionMap {
    /// Returns the original row and column of a cell from its compacted row and column; `None` if there is no such cell.
    pub(super) fn original(&self, row: usize, column: usize) -> Option<(u32, u32)> {
        Some(((*self.rows.get(row)?).into(), (*self.columns.get(column)?).into()))
    }
}

/// Renumbers the cells of every sheet as if its unused rows and columns did not exist, and disables invalid records.
/// Returns the position map of each sheet, in the order of the sheet names.
pub(super) fn compact_cells(stream: &mut [u8]) -> Vec<PositionMap> {
    let mut room = MAX_ALLOCATED_CELLS;
    let mut places = Vec::new();
    for begin in sheet_offsets(stream) {
        let mut sheet = used_rows_and_columns(stream, begin);
        let most = room / sheet.columns.len().max(1);
        sheet.dropped_rows = sheet.rows.len().saturating_sub(most);
        sheet.rows.truncate(most);
        room -= sheet.rows.len() * sheet.columns.len();
        renumber_cells(stream, begin, &sheet);
        places.push(sheet);
    }
    places
}

/// Returns the offsets of the sheets in the workbook stream. If several names refer to one sheet, disables all names but
/// the first, because calamine would allocate the cells of the sheet for each name.
fn sheet_offsets(stream: &mut [u8]) -> Vec<usize> {
    let mut begins = Vec::new();
    let mut seen = HashSet::new();
    let mut at = 0;
    while let Some((kind, end)) = parse_record(stream, at).filter(|it| it.0 != EOF) {
        let begin = stream[at..end].get(4..8).and_then(|it| it.try_into().ok()).map(u32::from_le_bytes);
        match begin {
            Some(begin) if kind == BOUND_SHEET && seen.insert(begin) => begins.push(begin as usize),
            Some(_) if kind == BOUND_SHEET => stream[at..at + 2].copy_from_slice(&IGNORED.to_le_bytes()),
            _ => {}
        }
        at = end;
    }
    begins
}

/// Returns the type and the end offset of the record that begins at an offset; `None` at the end of the stream.
fn parse_record(stream: &[u8], at: usize) -> Option<(u16, usize)> {
    let [k0, k1, l0, l1] = *stream.get(at..)?.first_chunk::<4>()?;
    let end = at + 4 + usize::from(u16::from_le_bytes([l0, l1]));
    (end <= stream.len()).then_some((u16::from_le_bytes([k0, k1]), end))
}

/// Calls `visit` with each record of the sheet at offset `begin`, but not with those of charts in it.
fn each_record(stream: &mut [u8], begin: usize, mut visit: impl FnMut(u16, &mut [u8])) {
    let (mut at, mut depth) = (begin, 0usize);
    while let Some((kind, end)) = parse_record(stream, at) {
        match kind {
            BOF => depth += 1,
            EOF if depth <= 1 => return,
            EOF => depth -= 1,
            _ if depth <= 1 => visit(kind, &mut stream[at..end]),
            _ => {}
        }
        at = end;
    }
}

/// Returns the rows and columns of a sheet that have cells.
fn used_rows_and_columns(stream: &mut [u8], begin: usize) -> PositionMap {
    let (mut rows, mut columns) = (vec![false; MAX_ROWS], [false; MAX_COLUMNS]);
    each_record(stream, begin, |kind, record| {
        if let Some((row, first, last)) = cell_columns(kind, record) {
            rows[row] = true;
            columns[first..=last].fill(true);
        }
    });
    let numbers = |used: &[bool]| (0..=u16::MAX).zip(used).filter(|it| *it.1).map(|it| it.0).collect();
    PositionMap { rows: numbers(&rows), columns: numbers(&columns), dropped_rows: 0 }
}

/// Returns the row, the first column and the last column of a cell record; `None` if the record is not a cell or is
/// invalid.
fn cell_columns(kind: u16, record: &[u8]) -> Option<(usize, usize, usize)> {
    let number = |at: usize| Some(usize::from(u16::from_le_bytes(*record.get(at..)?.first_chunk::<2>()?)));
    if !CELL_RECORDS.contains(&kind) {
        return None;
    }
    let (row, first) = (number(4)?, number(6)?);
    let last = if kind == MUL_RK { number(record.len() - 2)? } else { first };
    (first <= last && last < MAX_COLUMNS).then_some((row, first, last))
}

/// Writes the compacted row and column into each cell record of a sheet, and disables the records of dropped cells.
fn renumber_cells(stream: &mut [u8], begin: usize, places: &PositionMap) {
    let mut is_left_out = false;
    each_record(stream, begin, |kind, record| {
        let place = cell_columns(kind, record).and_then(|(row, first, last)| {
            let place = |all: &[u16], number: usize| all.binary_search(&(number as u16)).ok();
            Some((place(&places.rows, row)?, place(&places.columns, first)?, place(&places.columns, last)?))
        });
        if let Some((row, first, last)) = place {
            let length = record.len();
            let mut put = |at: usize, number: usize| record[at..at + 2].copy_from_slice(&(number as u16).to_le_bytes());
            put(4, row);
            put(6, first);
            if kind == MUL_RK {
                put(length - 2, last);
            }
        }
        let is_cell = CELL_RECORDS.contains(&kind);
        if kind == FORMULA {
            is_left_out = place.is_none();
        }
        if kind == DIMENSIONS || (is_cell && place.is_none()) || (kind == FORMULA_TEXT && is_left_out) {
            record[..2].copy_from_slice(&IGNORED.to_le_bytes());
        }
    });
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::extract::office::spreadsheet) fn record(kind: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &(body.len() as u16).to_le_bytes(), body].concat()
    }

    pub(in crate::extract::office::spreadsheet) fn number(row: u16, column: u16, value: f64) -> Vec<u8> {
        let place = [row.to_le_bytes(), column.to_le_bytes(), [0, 0]].concat();
        record(0x0203, &[&place[..], &value.to_le_bytes()].concat())
    }

    /// Makes a workbook stream from the name and the records of each sheet.
    pub(in crate::extract::office::spreadsheet) fn book(sheets: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let begin = || record(BOF, &[0, 6, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let globals = |places: &[u32]| {
            let names = sheets.iter().zip(places).flat_map(|((name, _), place)| {
                let head = [&place.to_le_bytes()[..], &[0, 0, name.len() as u8, 0]].concat();
                record(BOUND_SHEET, &[&head[..], name.as_bytes()].concat())
            });
            [begin(), names.collect(), record(EOF, &[])].concat()
        };
        let bodies: Vec<Vec<u8>> = sheets.iter().map(|it| [begin(), it.1.clone(), record(EOF, &[])].concat()).collect();
        let start = globals(&vec![0; sheets.len()]).len();
        let places: Vec<u32> = bodies
            .iter()
            .scan(start, |at, body| {
                *at += body.len();
                Some((*at - body.len()) as u32)
            })
            .collect();
        [globals(&places), bodies.concat()].concat()
    }

    /// Compacts the cells of one sheet, checks the resulting records, and returns the position map.
    fn assert_compacted(before: &[Vec<u8>], after: &[Vec<u8>]) -> PositionMap {
        let mut stream = book(&[("a", before.concat())]);
        let mut places = compact_cells(&mut stream);
        assert_eq!((stream, places[0].dropped_rows), (book(&[("a", after.concat())]), 0));
        places.remove(0)
    }

    #[test]
    fn compacted_cells_map_to_original_positions() {
        let numbers = |row: u8, first: u8, last: u8| {
            let all = vec![0; 6 * usize::from(last - first + 1)];
            record(MUL_RK, &[&[row, 0, first, 0][..], &all, &[last, 0]].concat())
        };
        let places = assert_compacted(
            &[number(7, 3, 1.0), numbers(9, 10, 12), number(65_535, 255, 2.0)],
            &[number(0, 0, 1.0), numbers(1, 1, 3), number(2, 4, 2.0)],
        );
        let found: Vec<_> = [(0, 0), (1, 2), (2, 4), (3, 0)].map(|it| places.original(it.0, it.1)).into();
        assert_eq!(found, [Some((7, 3)), Some((9, 11)), Some((65_535, 255)), None]);
    }

    #[test]
    fn invalid_cells_and_dimensions_are_disabled() {
        let (wild, claim) = (number(1, 256, 1.0), [0xFF; 14]);
        let formula = |column: u16| record(FORMULA, &[&[1, 0][..], &column.to_le_bytes(), &[0; 18]].concat());
        let text = record(FORMULA_TEXT, &[1, 0, 0, b'x']);
        let chart = [record(BOF, &[0; 4]), wild.clone(), record(EOF, &[])].concat();
        assert_compacted(
            &[
                record(DIMENSIONS, &claim),
                wild.clone(),
                formula(256),
                text.clone(),
                chart.clone(),
                formula(0),
                text.clone(),
            ],
            &[
                record(IGNORED, &claim),
                record(IGNORED, &wild[4..]),
                record(IGNORED, &formula(256)[4..]),
                record(IGNORED, &text[4..]),
                chart,
                record(FORMULA, &[0; 22]),
                text,
            ],
        );
    }

    #[test]
    fn sheet_over_cell_limit_drops_last_rows() {
        // Each row has one cell, but every column is used, so that calamine would allocate rows times columns.
        let diagonal: Vec<u8> = (0..20_000u16).flat_map(|it| number(it, it % 256, 1.0)).collect();
        let mut stream = book(&[("a", diagonal), ("b", number(0, 0, 1.0))]);
        let rows: Vec<_> = compact_cells(&mut stream).iter().map(|it| (it.rows.len(), it.dropped_rows)).collect();
        assert_eq!(rows, [(MAX_ALLOCATED_CELLS / 256, 20_000 - MAX_ALLOCATED_CELLS / 256), (1, 0)]);
    }

    #[test]
    fn duplicate_sheet_name_is_disabled() {
        let mut stream = book(&[("a", number(9, 9, 1.0)), ("b", Vec::new())]);
        let begins: Vec<[u8; 4]> = sheet_offsets(&mut stream).into_iter().map(|it| (it as u32).to_le_bytes()).collect();
        let place = stream.windows(4).position(|it| it == begins[1]).unwrap();
        stream[place..place + 4].copy_from_slice(&begins[0]);
        let places = compact_cells(&mut stream);
        assert_eq!((places.len(), places[0].original(0, 0)), (1, Some((9, 9))));
    }

    #[test]
    fn corrupt_records_are_kept_and_hold_no_cells() {
        let beyond_end = record(BOUND_SHEET, &[255; 9]);
        for (bytes, sheets) in
            [(vec![], 0), (vec![9], 0), (record(BOF, &[]), 0), (beyond_end, 1), (record(BOUND_SHEET, &[1, 0]), 0)]
        {
            let before = [bytes, record(EOF, &[]), number(1, 1, 1.0)[..9].to_vec()].concat();
            let mut stream = before.clone();
            let places = compact_cells(&mut stream);
            assert_eq!((&stream, places.len()), (&before, sheets));
            assert!(places.iter().all(|it| *it == PositionMap::default()), "{before:?}: {places:?}");
        }
    }
}
