//! Reader of spreadsheets: xlsx, xlsb and xls with the calamine library, ods with the OpenDocument reader.
//!
//! Cells have the values that were last calculated; formulas are neither extracted nor evaluated. All parts are first
//! inflated through the sink: calamine gets a container of uncompressed parts, which protects it from zip bombs.

mod cell_values;
mod compact;
mod xls;
mod xlsb;

use std::collections::HashMap;
use std::io::{Cursor, Read, Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use calamine::{Cell, DataRef, Reader, SheetType, Xlsb, Xlsx};
use zip::write::SimpleFileOptions;

use crate::extract::office::ooxml::{Relation, comment_text, drawing_text};
use crate::extract::office::spreadsheet::cell_values::{damaged_workbook, moment_text, number_text};
use crate::extract::office::{odf, ooxml};
use crate::extract::sheet_writer::SheetWriter;
use crate::extract::xml_tree::Tree;
use crate::extract::zip_container::{COMPOUND_FILE, Package, is_encrypted_package};
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{Block, BlockKind, Reason};

/// Adds the sheets of a spreadsheet to the sink; its format (xlsx, xlsb, xls or ods) is detected by content.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    if input.bytes.starts_with(&COMPOUND_FILE) && !is_encrypted_package(input.bytes) {
        return xls::read(input, sink);
    }
    let mut package = Package::open(input.bytes, sink)?;
    if package.has("content.xml") {
        return odf::read(input, sink);
    }
    let mark = sink.block_count();
    ooxml::push_properties(&mut package, sink)?;
    let plain = Cursor::new(uncompressed_copy(&mut package, sink)?);
    // Catches panics, because calamine indexes into binary records without checks.
    let read = catch_unwind(AssertUnwindSafe(|| match package.has("xl/workbook.bin") {
        true => read_xlsb(plain, sink),
        false => read_xlsx(plain, &mut package, sink),
    }));
    read.unwrap_or_else(|_| Err(new_failure(Reason::Damaged, "the spreadsheet reader panicked")))?;
    // A heading is not text here, because the name of a sheet is readable even if the part with its cells is damaged.
    let is_text = |it: &Block| !matches!(it.kind, BlockKind::Metadata | BlockKind::Heading(_));
    package.check_damage(mark, is_text, sink)
}

fn read_xlsb(plain: impl Read + Seek, sink: &mut Sink) -> ReadResult {
    let mut book = Xlsb::new(plain).map_err(damaged_workbook)?;
    for sheet in book.sheets_metadata().to_vec() {
        if sheet.typ != SheetType::WorkSheet || sink.is_full() {
            continue;
        }
        let mut writer = SheetWriter::new(&sheet.name, sink);
        match book.worksheet_cells_reader(&sheet.name) {
            Ok(mut cells) => write_cells(&mut writer, || cells.next_cell().map_err(|it| it.to_string())),
            Err(error) => writer.sink.record_problem(format!("sheet `{}`: {error}", sheet.name)),
        }
        writer.finish();
    }
    Ok(())
}

fn read_xlsx(plain: impl Read + Seek, package: &mut Package<'_>, sink: &mut Sink) -> ReadResult {
    let main = ooxml::main_part(package, "xl/workbook.xml", sink)?;
    let relations = ooxml::read_relations(package, &main, sink)?;
    let mut book = Xlsx::new(plain).map_err(damaged_workbook)?;
    let Some(xml) = package.read_xml(&main, sink)? else { return Ok(()) };
    let tree = Tree::parse(&xml);
    for sheet in tree.top().descendants().filter(|it| it.name() == "sheet") {
        if sink.is_full() {
            sink.mark_truncated();
            break;
        }
        let name = sheet.attr("name").unwrap_or_default();
        let id = sheet.prefixed_attr("id");
        let part = relations.iter().find(|it| Some(&it.id) == id.as_ref() && !it.external);
        let mut writer = SheetWriter::new(&name, sink);
        if part.is_none_or(|it| it.kind == "worksheet") {
            match book.worksheet_cells_reader(&name) {
                Ok(mut cells) => write_cells(&mut writer, || cells.next_cell().map_err(|it| it.to_string())),
                Err(error) => writer.sink.record_problem(format!("sheet `{name}`: {error}")),
            }
        }
        if let Some(part) = part {
            push_sheet_objects(&part.target, package, &mut writer)?;
        }
        writer.finish();
    }
    Ok(())
}

/// Adds the comments, charts and shapes of a sheet; `part` is the name of the sheet's part.
fn push_sheet_objects(part: &str, package: &mut Package<'_>, writer: &mut SheetWriter<'_>) -> ReadResult {
    let relations = ooxml::read_relations(package, part, writer.sink)?;
    for Relation { kind, target, external, .. } in relations {
        match kind.as_str() {
            _ if external => {}
            "threadedComment" => push_threaded_comments(&target, package, writer)?,
            "comments" => push_comments(&target, package, writer)?,
            "drawing" => {
                if let Some(xml) = package.read_xml(&target, writer.sink)? {
                    writer.push_graphic(&drawing_text(Tree::parse(&xml).top()));
                }
                let charts = ooxml::read_relations(package, &target, writer.sink)?;
                for chart in charts.into_iter().filter(|it| matches!(it.kind.as_str(), "chart" | "diagramData")) {
                    let text = ooxml::graphic_text(package, &chart.target, writer.sink)?;
                    writer.push_graphic(&text);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn push_comments(part: &str, package: &mut Package<'_>, writer: &mut SheetWriter<'_>) -> ReadResult {
    let Some(xml) = package.read_xml(part, writer.sink)? else { return Ok(()) };
    let tree = Tree::parse(&xml);
    let authors: Vec<String> =
        tree.top().descendants().filter(|it| it.name() == "author").map(|it| it.text()).collect();
    for comment in tree.top().descendants().filter(|it| it.name() == "comment") {
        let number = comment.attr("authorId").and_then(|it| it.parse::<usize>().ok());
        let author = number.and_then(|it| authors.get(it)).map(String::as_str).unwrap_or_default();
        // Skips the copy of a threaded comment for older programs, because it holds only a placeholder text.
        if author.starts_with("tc=") {
            continue;
        }
        let text = comment.child("text").map(|it| it.text()).unwrap_or_default();
        writer.push_comment(&comment.attr("ref").unwrap_or_default(), &comment_text(author, None, &text));
    }
    Ok(())
}

fn push_threaded_comments(part: &str, package: &mut Package<'_>, writer: &mut SheetWriter<'_>) -> ReadResult {
    let Some(xml) = package.read_xml(part, writer.sink)? else { return Ok(()) };
    let tree = Tree::parse(&xml);
    let persons = package.read_xml("xl/persons/person.xml", writer.sink)?.unwrap_or_default();
    let persons = Tree::parse(&persons);
    let people = persons.top().descendants().filter(|it| it.name() == "person");
    let names: HashMap<String, String> =
        people.filter_map(|it| Some((it.attr("id")?, it.attr("displayName")?))).collect();
    for comment in tree.top().descendants().filter(|it| it.name() == "threadedComment") {
        let author = comment.attr("personId").and_then(|id| names.get(&id)).cloned().unwrap_or_default();
        let text = comment.child("text").map(|it| it.text()).unwrap_or_default();
        let text = comment_text(&author, comment.attr("dT"), &text);
        writer.push_comment(&comment.attr("ref").unwrap_or_default(), &text);
    }
    Ok(())
}

/// Writes cells to a sheet until the last cell, a limit, or an error, which is recorded as a problem.
fn write_cells<'c>(writer: &mut SheetWriter<'_>, mut next: impl FnMut() -> Result<Option<Cell<DataRef<'c>>>, String>) {
    loop {
        match next() {
            Ok(Some(cell)) => {
                let (row, column) = cell.get_position();
                if !writer.push_cell(row, column, &value_text(cell.get_value())) {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => return writer.sink.record_problem(format!("the rest of a sheet was not read: {error}")),
        }
    }
}

fn value_text(value: &DataRef<'_>) -> String {
    match value {
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::SharedString(text) => text.to_string(),
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number_text(*number),
        DataRef::Bool(it) => it.to_string().to_uppercase(),
        DataRef::DateTime(moment) => moment_text(moment),
        DataRef::Error(error) => error.to_string(),
        DataRef::Empty => String::new(),
    }
}

/// Returns an equivalent zip container with uncompressed parts, and without images and other media.
fn uncompressed_copy(package: &mut Package<'_>, sink: &mut Sink) -> ReadResult<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let wanted = |name: &str| {
        let name = name.trim_start_matches('/').to_lowercase();
        let top = ["xl/worksheets/", "xl/_rels/", "xl/chartsheets/"].iter().any(|it| name.starts_with(it));
        let beside = name.strip_prefix("xl/").is_some_and(|it| !it.contains('/'));
        top || beside || name.starts_with("[content") || name.starts_with("_rels/")
    };
    let is_binary = package.has("xl/workbook.bin");
    for name in package.names() {
        if !wanted(&name) {
            continue;
        }
        let Some(mut bytes) = package.read_part(&name, sink)? else { continue };
        if name.to_lowercase().ends_with("sharedstrings.xml") {
            hide_string_count(&mut bytes);
        }
        if is_binary && name.to_lowercase().ends_with(".bin") {
            xlsb::cut_oversized_records(&mut bytes);
        }
        writer.start_file(name.as_str(), stored).map_err(damaged_workbook)?;
        writer.write_all(&bytes).map_err(damaged_workbook)?;
    }
    Ok(writer.finish().map_err(damaged_workbook)?.into_inner())
}

/// Renames the attribute that claims the number of strings, because calamine allocates memory for any number it claims.
fn hide_string_count(part: &mut [u8]) {
    const NAME: &[u8] = b"uniqueCount";
    let Some(root) = part.windows(3).position(|it| it == b"sst") else { return };
    let end = part[root..].iter().position(|it| *it == b'>').map_or(part.len(), |length| root + length);
    let tag = &mut part[root..end];
    while let Some(place) = tag.windows(NAME.len()).position(|it| it == NAME) {
        tag[place] = b'x';
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::zip_container::tests::{
        failure_reason, format_blocks, read_document, with_damaged_part, zipped,
    };

    const WORKBOOK: &str = r#"<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>
        <sheet name="Ducks" sheetId="1" r:id="rId1"/></sheets></workbook>"#;
    const ROOT: &str = r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship
        Id="r" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
        Target="xl/workbook.xml"/></Relationships>"#;
    const RELS: &str = r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship
        Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"
        Target="worksheets/sheet1.xml"/></Relationships>"#;

    fn workbook(rows: &str) -> Vec<u8> {
        let sheet = format!(
            r#"<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>"#
        );
        let comments = r#"<comments><commentList><comment ref="B2"><text><r><t>why?</t></r></text></comment></commentList></comments>"#;
        zipped(&[
            ("_rels/.rels", ROOT),
            ("xl/workbook.xml", WORKBOOK),
            ("xl/_rels/workbook.xml.rels", RELS),
            ("xl/worksheets/sheet1.xml", &sheet),
            (
                "xl/worksheets/_rels/sheet1.xml.rels",
                r#"<Relationships><Relationship Id="c" Type="x/comments" Target="../comments1.xml"/></Relationships>"#,
            ),
            ("xl/comments1.xml", comments),
        ])
    }

    #[test]
    fn sheet_yields_rows_with_anchors_and_comments() {
        let rows = r#"<row r="2"><c r="B2" t="inlineStr"><is><t>Year</t></is></c><c r="C2"><v>0.30000000000000004</v></c></row>
            <row r="3"><c r="B3"><v>2019</v></c></row>"#;
        let document = read_document(read, &workbook(rows));
        assert_eq!(format_blocks(&document), "1 Ducks\nt Year | 0.3 / 2019\np why?");
        let anchor = &document.blocks[1].anchor;
        assert_eq!((anchor.sheet.as_deref(), anchor.cell.as_deref()), (Some("Ducks"), Some("B2:C3")));
        assert_eq!(document.blocks[2].anchor.cell.as_deref(), Some("B2"));
    }

    #[test]
    fn cell_in_far_corner_uses_no_extra_memory() {
        let rows = r#"<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>"#;
        let document = read_document(read, &workbook(rows));
        assert_eq!(document.blocks[2].anchor.cell.as_deref(), Some("XFD1048576:XFD1048576"));
    }

    #[test]
    fn unique_count_attribute_is_renamed() {
        let mut part = br#"<?xml?><x:sst uniqueCount="4294967295" a="1"><si><t>uniqueCount="1"</t></si>"#.to_vec();
        hide_string_count(&mut part);
        let expected = br#"<?xml?><x:sst xniqueCount="4294967295" a="1"><si><t>uniqueCount="1"</t></si>"#;
        assert_eq!(part, expected);
    }

    #[test]
    fn damaged_sheet_fails_without_other_text() {
        let rows = r#"<row r="1"><c r="A1"><v>1</v></c></row>"#;
        let sheet = "xl/worksheets/sheet1.xml";
        assert_eq!(format_blocks(&read_document(read, &with_damaged_part(workbook(rows), sheet))), "1 Ducks\np why?");
        let bytes = with_damaged_part(with_damaged_part(workbook(rows), "xl/comments1.xml"), sheet);
        assert_eq!(failure_reason(read, &bytes), Reason::Damaged);
    }

    // Case C1
    #[test]
    fn zip_bomb_is_rejected_before_parsing() {
        let bytes = workbook(&" ".repeat(1 << 20));
        let limits = crate::model::ExtractLimits { inflated_bytes: 1 << 16, ..Default::default() };
        let failed = read(Input { bytes: &bytes, name: "a.xlsx" }, &mut Sink::new(limits)).unwrap_err();
        assert_eq!(failed.reason, Reason::DecompressionLimit);
    }
}
