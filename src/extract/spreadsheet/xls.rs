//! Workbooks of 1997 to 2003 (xls), read by calamine with `undoc` as a second opinion.
//!
//! calamine makes room for whatever area a file claims, and 30 bytes can claim 100 GB. So it gets the stream of the
//! workbook in a container of our own, without the records that place a cell where no xls can have one.

use std::io::{Cursor, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use calamine::{Data, Reader, Xls, XlsError};
use cfb::CompoundFile;

use crate::extract::cells::SheetWriter;
use crate::extract::spreadsheet::{damaged, moment_text, number_text};
use crate::extract::{Input, ReadResult, Sink, failure, legacy};
use crate::model::Reason;

/// Columns of a sheet, by definition of the format.
const COLUMNS: u16 = 256;

/// Record that claims the used area of a sheet; only an estimate, which readers do not need.
const DIMENSIONS: u16 = 0x0200;

/// Records of cells: row and column come first in each.
const CELLS: [u16; 11] = [0x0006, 0x0201, 0x0203, 0x0204, 0x0205, 0x0207, 0x027E, 0x00BD, 0x00BE, 0x00D6, 0x00FD];

/// Record without a meaning, for what is left out.
const IGNORED: u16 = 0xFFFF;

/// Reads a workbook.
pub(super) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let book = guarded(input.bytes, sink)?;
    let opened = catch_unwind(AssertUnwindSafe(|| Xls::new(Cursor::new(book.as_slice()))));
    let mut book = match opened {
        Ok(Ok(book)) => book,
        Ok(Err(XlsError::Password)) => return Err(failure(Reason::Encrypted, "needs a password")),
        // The second reader copes with some that the first does not, and has the better sentence otherwise.
        _ => return legacy::read(input, sink),
    };
    for name in book.sheet_names() {
        let Ok(range) = book.worksheet_range(&name) else { continue };
        let mut writer = SheetWriter::new(&name, sink);
        let (top, left) = range.start().unwrap_or_default();
        for (row, column, value) in range.used_cells() {
            if !writer.cell(top.saturating_add(row as u32), left.saturating_add(column as u32), &text(value)) {
                break;
            }
        }
        writer.finish();
    }
    Ok(())
}

fn text(value: &Data) -> String {
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

/// Builds a container with nothing in it but the stream of the workbook, cleaned.
fn guarded(bytes: &[u8], sink: &mut Sink) -> ReadResult<Vec<u8>> {
    let mut file = CompoundFile::open(Cursor::new(bytes)).map_err(damaged)?;
    // The name says which of two generations of the format it is.
    let name = ["/Workbook", "/Book"].into_iter().find(|it| file.is_stream(it));
    let Some(name) = name else { return Err(failure(Reason::UnsupportedType, "a compound file that is no workbook")) };
    let mut stream = sink.copy(file.open_stream(name).map_err(damaged)?.by_ref())?;
    clean(&mut stream);
    let mut guarded = CompoundFile::create(Cursor::new(Vec::new())).map_err(damaged)?;
    guarded.create_stream(name).map_err(damaged)?.write_all(&stream).map_err(damaged)?;
    guarded.flush().map_err(damaged)?;
    Ok(guarded.into_inner().into_inner())
}

/// Takes the meaning from records that would make a reader allocate without bound.
fn clean(stream: &mut [u8]) {
    let mut at = 0usize;
    while let Some(&[k0, k1, l0, l1]) = stream.get(at..at + 4).and_then(|it| it.first_chunk::<4>()) {
        let kind = u16::from_le_bytes([k0, k1]);
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        let column = stream.get(at + 6..at + 8).map_or(0, |it| u16::from_le_bytes([it[0], it[1]]));
        let wild = CELLS.contains(&kind) && length >= 4 && column >= COLUMNS;
        if kind == DIMENSIONS || wild {
            stream[at..at + 2].copy_from_slice(&IGNORED.to_le_bytes());
        }
        at += 4 + length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &(body.len() as u16).to_le_bytes(), body].concat()
    }

    #[test]
    fn cells_where_none_can_be_are_left_out() {
        let good = record(0x0203, &[1, 0, 255, 0, 0, 0]);
        let wild = record(0x0203, &[1, 0, 0, 1, 0, 0]);
        let mut stream = [good.clone(), record(DIMENSIONS, &[0xFF; 14]), wild, vec![9]].concat();
        clean(&mut stream);
        let expected = [good, record(IGNORED, &[0xFF; 14]), record(IGNORED, &[1, 0, 0, 1, 0, 0]), vec![9]].concat();
        assert_eq!(stream, expected);
    }
}
