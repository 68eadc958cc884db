//! Reads the context lines before and after each match of `vic grep`.

use std::cell::Cell;
use std::ops::Range;

use crate::ask::document_part::redacted_lines;
use crate::ask::file_lines::{MAX_LINE_BYTES, read_range};
use crate::error::{Error, Result};
use crate::files;
use crate::model::{Anchor, FileRecord, GrepRequest, Redaction};
use crate::secrets::{MAX_SECRET_BYTES, Redactor, SecretColumns};

/// Maximum number of context lines on each side of a match; a request for more is an error.
const MAX_CONTEXT: u32 = 50;

/// Maximum size in bytes of the context on each side of a match; lines beyond it are left out.
const MAX_SIDE_BYTES: u64 = 64 << 10;

/// Maximum size in bytes of all context in one answer; matches after that are shown without context.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// How many context lines a request wants for each match, and how many bytes of context may still be added to the answer.
pub(super) struct ContextLines {
    before: usize,
    after: usize,
    bytes_left: Cell<usize>,
}

impl ContextLines {
    /// Reads from a request how many context lines it wants.
    ///
    /// # Errors
    /// `InvalidArgument` if a count is above [`MAX_CONTEXT`].
    pub(super) fn from_request(request: &GrepRequest) -> Result<ContextLines> {
        for (field, lines) in [("before", request.before), ("after", request.after)] {
            if lines > MAX_CONTEXT {
                return Err(
                    Error::invalid(format!("`{field}` is {lines}, but the maximum is {MAX_CONTEXT}")).field(field)
                );
            }
        }
        Ok(ContextLines {
            before: request.before as usize,
            after: request.after as usize,
            bytes_left: Cell::new(MAX_ANSWER_BYTES),
        })
    }

    /// Returns the context lines of a match in line `at` (from 0) of the indexed `text`. If `whole` gives the location of
    /// the complete line in the file, reads the context from the file, else takes it from `text`.
    pub(super) fn lines_around(
        &self,
        record: &FileRecord,
        whole: Option<&Anchor>,
        (text, at): (&str, usize),
        redaction: Redaction,
    ) -> (Vec<String>, Vec<String>) {
        if self.before + self.after == 0 || self.bytes_left.get() == 0 {
            return Default::default();
        }
        let found = whole.and_then(|anchor| self.lines_in_file(record, anchor, redaction));
        let (mut before, mut after) = found.unwrap_or_else(|| self.lines_in_text(text, at));
        for line in before.iter_mut().chain(&mut after) {
            line.truncate(line.floor_char_boundary(MAX_LINE_BYTES));
            self.bytes_left.set(self.bytes_left.get().saturating_sub(line.len() + 1));
        }
        (before, after)
    }

    fn lines_in_text(&self, text: &str, at: usize) -> (Vec<String>, Vec<String>) {
        let lines = |from: usize, most: usize| {
            text.split('\n').skip(from).take(most).map(|it| it.trim_end_matches('\r').to_string()).collect()
        };
        let first = at.saturating_sub(self.before);
        (lines(first, at - first), lines(at + 1, self.after))
    }

    /// Reads the context lines from the file. Returns `None` if the file is not UTF-8 text or has changed meanwhile.
    fn lines_in_file(
        &self,
        record: &FileRecord,
        anchor: &Anchor,
        redaction: Redaction,
    ) -> Option<(Vec<String>, Vec<String>)> {
        let (start, end) = (anchor.byte_start?, anchor.byte_end?);
        let mut file = files::open_beneath(&record.root, &record.found.path).ok()?;
        // Reads more bytes than are shown, because a secret may begin far before the first line or end after the last one.
        let around = MAX_SIDE_BYTES + MAX_SECRET_BYTES as u64;
        let from = start.saturating_sub(around);
        let bytes = read_range(&mut file, from..end + around)?;
        let (line, line_end) = ((start - from) as usize, (end - from) as usize);
        if line_end > bytes.len() {
            return None;
        }
        let cut = if from == 0 { 0 } else { bytes[..line].iter().position(|it| *it == b'\n')? + 1 };
        let is_all = (bytes.len() as u64) < end + around - from;
        let stop =
            if is_all { bytes.len() } else { line_end + bytes[line_end..].iter().rposition(|it| *it == b'\n')? };
        let text = std::str::from_utf8(bytes.get(cut..stop)?).ok()?;
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let at = text.get(..line.checked_sub(cut)?)?.matches('\n').count();
        let (mut first, mut last) = (at.saturating_sub(self.before), (at + 1 + self.after).min(lines.len()));
        let bytes_of = |range: Range<usize>| lines[range].iter().map(|it| it.len() as u64).sum::<u64>();
        while bytes_of(first..at) > MAX_SIDE_BYTES {
            first += 1;
        }
        while last > at + 1 && bytes_of(at + 1..last) > MAX_SIDE_BYTES {
            last -= 1;
        }
        let mut shown =
            redacted_lines(&lines, first..last, redaction).into_iter().flatten().map(|it| redact_cells(it, redaction));
        let before = shown.by_ref().take(at - first).collect();
        Some((before, shown.skip(1).collect()))
    }
}

/// Redacts every random-looking cell of a table row, because the header row, which tells the secret columns, may not be
/// among the context lines.
fn redact_cells(line: String, redaction: Redaction) -> String {
    if !line.contains('|') {
        return line;
    }
    Redactor::new(redaction).redact_rows(&line, &mut SecretColumns::with_unknown_heads(), None).into_owned()
}
