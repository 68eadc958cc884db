//! Reader of Jupyter notebooks: extracts prose, code and textual outputs, cell by cell. Images in outputs are skipped.

use serde_json::Value;

use crate::extract::source_text::Source;
use crate::extract::text_formats::markdown;
use crate::extract::text_pieces::cut_outside_secrets;
use crate::extract::{Input, ReadResult, Sink, new_failure};
use crate::model::{Anchor, BlockKind, Reason};

/// Maximum number of output bytes kept per cell: enough to find the cell, without the megabytes of a training log.
const MAX_OUTPUT_BYTES: usize = 8 << 10;

/// Adds the cells of a notebook to the sink.
pub(crate) fn read(input: Input<'_>, sink: &mut Sink) -> ReadResult {
    let notebook: Value = serde_json::from_slice(input.bytes)
        .map_err(|error| new_failure(Reason::Damaged, format!("the file is not a notebook: {error}")))?;
    if let Some(title) = notebook.pointer("/metadata/title").and_then(Value::as_str) {
        sink.set_title(title);
    }
    // In notebook format 3, the cells are one level deeper, in the first worksheet.
    let cells = notebook.get("cells").or_else(|| notebook.pointer("/worksheets/0/cells")).and_then(Value::as_array);
    let cells = cells.ok_or_else(|| new_failure(Reason::Damaged, "the notebook has no cells"))?;
    for (number, cell) in (1..).zip(cells) {
        let mark = sink.block_count();
        read_cell(cell, sink);
        sink.label_part(mark, &format!("cell {number}"));
        if sink.is_full() {
            sink.mark_truncated();
            break;
        }
    }
    Ok(())
}

fn read_cell(cell: &Value, sink: &mut Sink) {
    let text = joined_lines(cell.get("source").or_else(|| cell.get("input")));
    match cell.get("cell_type").and_then(Value::as_str) {
        Some("markdown") => markdown::read_source(&Source::detached(&text), sink),
        Some("heading") => {
            let level = cell.get("level").and_then(Value::as_u64).unwrap_or(1).clamp(1, 6);
            sink.push(BlockKind::Heading(level as u8), &text, Anchor::default());
        }
        Some("code") => {
            Source::detached(&text).push(sink, BlockKind::Code, 0..text.len());
            let output = output_text(cell);
            Source::detached(&output).push(sink, BlockKind::Code, 0..output.len());
        }
        _ => {
            Source::detached(&text).push(sink, BlockKind::Paragraph, 0..text.len());
        }
    }
}

/// Returns the text of a cell's outputs, at most [`MAX_OUTPUT_BYTES`].
fn output_text(cell: &Value) -> String {
    let mut text = String::new();
    for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
        let plain = output.get("text").or_else(|| output.pointer("/data/text~1plain"));
        let mut part = joined_lines(plain);
        if let (Some(name), Some(value)) = (output["ename"].as_str(), output["evalue"].as_str()) {
            part = format!("{name}: {value}");
        }
        if !text.is_empty() && !part.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&part);
        if text.len() > MAX_OUTPUT_BYTES {
            text.truncate(cut_outside_secrets(&text, text.floor_char_boundary(MAX_OUTPUT_BYTES)));
            break;
        }
    }
    text
}

/// Returns the text of a JSON value: notebooks store a text as one string or as an array of lines.
fn joined_lines(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExtractLimits;

    fn extract(bytes: &[u8]) -> ReadResult<crate::model::Document> {
        let mut sink = Sink::new(ExtractLimits::default());
        read(Input { bytes, name: "a.ipynb" }, &mut sink)?;
        Ok(sink.into_document())
    }

    #[test]
    fn cells_keep_numbers_and_outputs() {
        let notebook = br##"{"cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "Prose."]},
            {"cell_type": "code", "source": "print(1)", "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
                {"output_type": "error", "ename": "ValueError", "evalue": "bad"}]}]}"##;
        let document = extract(notebook).unwrap();
        let found: Vec<_> =
            document.blocks.iter().map(|it| (it.kind, it.text.as_str(), it.anchor.part.as_deref().unwrap())).collect();
        assert_eq!(
            found,
            [
                (BlockKind::Heading(1), "Title", "cell 1"),
                (BlockKind::Paragraph, "Prose.", "cell 1"),
                (BlockKind::Code, "print(1)", "cell 2"),
                (BlockKind::Code, "1\n<Figure>\nValueError: bad", "cell 2"),
            ]
        );
        assert_eq!(document.title.as_deref(), Some("Title"));
    }

    #[test]
    fn json_without_cells_is_damaged() {
        assert_eq!(extract(b"{}").unwrap_err().reason, Reason::Damaged);
        assert_eq!(extract(&[b'['; 100_000]).unwrap_err().reason, Reason::Damaged);
    }
}
