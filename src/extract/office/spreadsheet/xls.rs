//! Reader of Excel workbooks of 1997 to 2003 (xls): uses the calamine library, and the `undoc` library if that fails.
//!
//! calamine allocates memory for any sheet area that a file claims, and 30 bytes can claim 100 GB. Therefore it gets only
//! the workbook stream, in a new container, without those claims and with compacted cells, see `compact`.

use std::io::{Cursor, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use calamine::{Data, Reader, Xls, XlsError};
use cfb::{CompoundFile, Version};

use crate::extract::office::legacy;
use crate::extract::office::spreadsheet::cell_values::{damaged_workbook, moment_text, number_text};
use crate::extract::office::spreadsheet::compact::{self, PositionMap};
use crate::extract::sheet_writer::SheetWriter;
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::Reason;

/// Adds the sheets of an xls workbook to the sink.
pub(super) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let (book, places) = compacted_container(input.bytes, sink)?;
    let opened = catch_unwind(AssertUnwindSafe(|| Xls::new(Cursor::new(book.as_slice()))));
    let mut book = match opened {
        Ok(Ok(book)) => book,
        Ok(Err(XlsError::Password)) => return Err(new_failure(Reason::Encrypted, "needs a password")),
        // Tries the `undoc` library, which can read some files that calamine cannot, and whose error messages are better.
        _ => return legacy::read(input, sink),
    };
    for (name, places) in book.sheet_names().into_iter().zip(&places) {
        if places.dropped_rows > 0 {
            sink.record_problem(format!(
                "sheet `{name}`: too many cells, the last {} rows are skipped",
                places.dropped_rows
            ));
        }
        let Ok(range) = book.worksheet_range(&name) else { continue };
        let mut writer = SheetWriter::new(&name, sink);
        let (top, left) = range.start().unwrap_or_default();
        for (row, column, value) in range.used_cells() {
            let place = places.original(top as usize + row, left as usize + column);
            if place.is_some_and(|(row, column)| !writer.push_cell(row, column, &value_text(value))) {
                break;
            }
        }
        writer.finish();
    }
    Ok(())
}

fn value_text(value: &Data) -> String {
    match value {
        Data::String(text) | Data::DateTimeIso(text) | Data::DurationIso(text) => text.clone(),
        Data::Int(number) => number.to_string(),
        Data::Float(number) => number_text(*number),
        Data::Bool(it) => it.to_string().to_uppercase(),
        Data::DateTime(moment) => moment_text(moment),
        Data::Error(error) => error.to_string(),
        Data::Empty => String::new(),
    }
}

/// Returns a compound file that holds only the workbook stream, with compacted cells, and the position map of each sheet.
fn compacted_container(bytes: &[u8], sink: &mut Sink) -> ReadResult<(Vec<u8>, Vec<PositionMap>)> {
    let mut file = CompoundFile::open(Cursor::new(bytes)).map_err(damaged_workbook)?;
    // Tries both names of the workbook stream, because older Excel versions used `Book`.
    let name = ["/Workbook", "/Book"].into_iter().find(|it| file.is_stream(it));
    let Some(name) = name else {
        return Err(new_failure(Reason::UnsupportedType, "the file is a compound file, but not a workbook"));
    };
    let mut stream = sink.read_uncompressed(file.open_stream(name).map_err(damaged_workbook)?.by_ref())?;
    let places = compact::compact_cells(&mut stream);
    if places.iter().any(|it| it.dropped_rows > 0) {
        sink.mark_truncated();
    }
    // Writes version 3 of the compound file format: in version 4, which has larger sectors, calamine cannot find the
    // directory.
    let mut guarded =
        CompoundFile::create_with_version(Version::V3, Cursor::new(Vec::new())).map_err(damaged_workbook)?;
    guarded.create_stream(name).map_err(damaged_workbook)?.write_all(&stream).map_err(damaged_workbook)?;
    guarded.flush().map_err(damaged_workbook)?;
    Ok((guarded.into_inner().into_inner(), places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::office::spreadsheet::compact::tests::{book, number, record};
    use crate::extract::zip_container::tests::{format_blocks, read_document};

    fn workbook(sheets: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut file = CompoundFile::create(Cursor::new(Vec::new())).unwrap();
        file.create_stream("/Workbook").unwrap().write_all(&book(sheets)).unwrap();
        file.flush().unwrap();
        file.into_inner().into_inner()
    }

    #[test]
    fn stray_cell_in_far_corner_is_read() {
        let stray = [number(0, 0, 1.0), number(0, 1, 2.0), number(65_535, 255, 3.0)].concat();
        let document = read_document(read, &workbook(&[("Ducks", stray), ("Geese", number(4, 2, 5.0))]));
        assert_eq!(format_blocks(&document), "1 Ducks\nt 1 | 2\nt 3\n1 Geese\nt 5");
        let cells: Vec<Option<&str>> = document.blocks.iter().map(|it| it.anchor.cell.as_deref()).collect();
        assert_eq!(cells, [None, Some("A1:B1"), Some("IV65536:IV65536"), None, Some("C5:C5")]);
        assert!(!document.truncated);
    }

    #[test]
    fn long_workbook_has_correct_cell_ranges() {
        for rows in [3, 300, 30_000] {
            let document =
                read_document(read, &workbook(&[("Ducks", (0..rows).flat_map(|it| number(it, 0, 1.0)).collect())]));
            let last = document.blocks.last().unwrap().anchor.cell.clone().unwrap();
            assert!(last.ends_with(&format!(":A{rows}")), "{last}");
        }
    }

    #[test]
    fn sheet_over_cell_limit_is_truncated_with_problem() {
        let diagonal = (0..20_000u16).flat_map(|it| number(it, it % 256, 1.0)).collect();
        let document = read_document(read, &workbook(&[("Ducks", diagonal), ("Geese", number(0, 0, 1.0))]));
        assert!(document.truncated && document.blocks.len() > 100, "{}", document.blocks.len());
        assert_eq!(document.problems, ["sheet `Ducks`: too many cells, the last 12188 rows are skipped"]);
    }

    #[test]
    fn text_result_of_formula_is_read() {
        let formula = [&[0, 0, 1, 0, 0, 0][..], &[0, 0, 0, 0, 0, 0, 0xFF, 0xFF], &[0; 6], &[7, 0, 0x17, 4, 0], b"made"];
        let sheet = [number(0, 0, 1.0), record(0x0006, &formula.concat()), record(0x0207, b"\x04\0\0made")].concat();
        assert_eq!(format_blocks(&read_document(read, &workbook(&[("Ducks", sheet)]))), "1 Ducks\nt 1 | made");
    }
}
