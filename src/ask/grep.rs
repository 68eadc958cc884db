//! Exact lines of the indexed text, whatever the format of the file.
//!
//! Where the text of a passage is the file's own bytes, the whole line is read from the file as it is now; elsewhere the
//! line is that of the extracted text, and its place as exact as the format tells. A line that was cut between two
//! passages is matched piece by piece.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Seek, SeekFrom};

use regex::{Regex, RegexBuilder};

use crate::ask::around::Folder;
use crate::ask::citation::Standing;
use crate::ask::{Asker, PATIENCE, citation, hit};
use crate::error::{Error, Result};
use crate::model::{Anchor, Chunk, FileId, FileRecord, GrepMatch, GrepRequest, GrepResponse};
use crate::store::FileSet;
use crate::warehouse;

/// Lines when the request names no limit.
const DEFAULT_LIMIT: u32 = 1_000;
/// Most lines of one answer.
const MAX_LIMIT: u32 = 10_000;
/// Memory that a compiled pattern may take, against patterns made to exhaust it.
const MAX_REGEX_BYTES: usize = 4 << 20;
/// Longest line that is shown; the rest is cut.
const MAX_LINE_BYTES: usize = 4 << 10;

impl Asker {
    /// Finds the lines that match.
    ///
    /// # Errors
    /// The pattern or a filter is wrong, or the index cannot be read.
    pub async fn grep(&self, request: GrepRequest) -> Result<GrepResponse> {
        let limit = match request.limit.unwrap_or(DEFAULT_LIMIT) {
            limit @ 1..=MAX_LIMIT => limit as usize,
            other => return Err(Error::invalid(format!("limit {other} is not between 1 and {MAX_LIMIT}"))),
        };
        let regex = compile(&request)?;
        let folder = self.folder(request.warehouse_root.as_deref()).await;
        let around = self.around(folder.as_ref()).await?;
        let files = self.allowed(&self.filter(&request.filters, folder.as_ref().map(Folder::path))?).await?;
        let served = self.index.serving();
        let mut raw: Vec<(FileId, Chunk)> = Vec::new();
        let mut lines = 0;
        served
            .store
            .scan(&files, &mut |stored| {
                let found = stored.chunk.body().lines().filter(|line| regex.is_match(line)).count();
                if found > 0 {
                    lines += found;
                    raw.push((stored.file_id, stored.chunk));
                }
                // Passages overlap: the same line may be counted twice, so some more are taken than are shown.
                lines <= limit * 2
            })
            .await?;
        let catalog = self.catalog.clone();
        let ids: Vec<FileId> = raw.iter().map(|(id, _)| *id).collect::<HashSet<_>>().into_iter().collect();
        let files_searched = match &files {
            FileSet::All => served.store.file_ids().await?.len() as u64,
            FileSet::Only(ids) => ids.len() as u64,
        };
        let mut matches = crate::index::at_files(PATIENCE, move || {
            let records: HashMap<FileId, FileRecord> =
                catalog.records(&ids)?.into_iter().map(|it| (it.id, it)).collect();
            Ok(matches(&regex, &records, &raw))
        })
        .await?;
        let truncated = matches.len() > limit;
        matches.truncate(limit);
        Ok(GrepResponse { matches, files_searched, truncated, warnings: around.warnings })
    }
}

fn compile(request: &GrepRequest) -> Result<Regex> {
    if request.pattern.is_empty() {
        return Err(Error::invalid("the pattern is empty"));
    }
    let pattern = if request.fixed { regex::escape(&request.pattern) } else { request.pattern.clone() };
    let regex =
        RegexBuilder::new(&pattern).case_insensitive(request.ignore_case).size_limit(MAX_REGEX_BYTES).build().map_err(
            |error| {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
                Error::invalid(format!("cannot understand the pattern `{}`: {reason}", request.pattern))
                    .hint("for plain text use --fixed-strings")
            },
        )?;
    if regex.is_match("") {
        return Err(Error::invalid(format!("the pattern `{}` matches every line", request.pattern)));
    }
    Ok(regex)
}

/// Every line once, by path and place. Files that are gone are left out.
fn matches(regex: &Regex, records: &HashMap<FileId, FileRecord>, raw: &[(FileId, Chunk)]) -> Vec<GrepMatch> {
    let mut by_file: BTreeMap<&std::path::Path, (&FileRecord, Vec<&Chunk>)> = BTreeMap::new();
    for (id, chunk) in raw {
        if let Some(record) = records.get(id) {
            by_file.entry(&record.found.path).or_insert((record, Vec::new())).1.push(chunk);
        }
    }
    let mut all = Vec::new();
    for (record, mut chunks) in by_file.into_values() {
        chunks.sort_by_key(|it| it.ordinal);
        let mut seen = HashSet::new();
        for chunk in chunks {
            let standing = citation::check(record, &chunk.anchor, chunk.body());
            if standing == Standing::Gone {
                break;
            }
            for line in lines(regex, record, chunk, standing) {
                let key = (line.anchor.member.clone(), line.anchor.page, line.anchor.line_start, line.line.clone());
                if seen.insert(key) {
                    all.push(line);
                }
            }
        }
    }
    all
}

/// The matching lines of one passage; of several matches on a line the first is marked.
fn lines(regex: &Regex, record: &FileRecord, chunk: &Chunk, standing: Standing) -> Vec<GrepMatch> {
    let exact = chunk.anchor.verbatim && chunk.anchor.member.is_none() && standing == Standing::Verified;
    let mut start = 0;
    let mut found = Vec::new();
    for (above, text) in chunk.body().split('\n').enumerate() {
        if let Some(hit) = regex.find(text) {
            let mut anchor = chunk.anchor.clone();
            let (mut line, mut column) = (text.trim_end_matches('\r').to_string(), hit.start());
            if exact {
                anchor.line_start = anchor.line_start.map(|first| first + above as u32);
                anchor.line_end.clone_from(&anchor.line_start);
                anchor.byte_start = anchor.byte_start.map(|first| first + start as u64);
                anchor.byte_end = anchor.byte_start.map(|first| first + text.len() as u64);
                if let Some((whole, before)) = whole_line(record, &anchor) {
                    anchor.byte_start = anchor.byte_start.map(|it| it - before as u64);
                    anchor.byte_end = anchor.byte_start.map(|it| it + whole.len() as u64);
                    (line, column) = (whole, column + before);
                }
            }
            line.truncate(line.floor_char_boundary(MAX_LINE_BYTES));
            let mark = |at: usize| at.min(line.len()) as u32;
            found.push(GrepMatch {
                path: hit::shown_path(record, chunk.anchor.member.as_deref()),
                absolute_path: record.absolute().to_string_lossy().into_owned(),
                start: mark(column),
                end: mark(column + hit.len()),
                anchor,
                line,
            });
        }
        start += text.len() + 1;
    }
    found
}

/// Reads the rest of a line before and after a piece of it; returns the line and the bytes before the piece.
fn whole_line(record: &FileRecord, anchor: &Anchor) -> Option<(String, usize)> {
    let (start, end) = (anchor.byte_start?, anchor.byte_end?);
    let mut file = warehouse::open_beneath(&record.root, &record.found.path).ok()?;
    let from = start.saturating_sub(MAX_LINE_BYTES as u64);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(end - from + MAX_LINE_BYTES as u64).read_to_end(&mut bytes).ok()?;
    let (piece, after) = ((start - from) as usize, (end - from) as usize);
    if after > bytes.len() {
        return None;
    }
    let first = bytes[..piece].iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    let last = bytes[after..].iter().position(|it| *it == b'\n').map_or(bytes.len(), |it| after + it);
    let line = std::str::from_utf8(&bytes[first..last]).ok()?;
    Some((line.trim_end_matches('\r').to_string(), piece - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, fixed: bool) -> Result<Regex> {
        compile(&GrepRequest { pattern: pattern.into(), fixed, ..GrepRequest::default() })
    }

    #[test]
    fn a_pattern_that_says_nothing_or_too_much_is_refused_by_name() {
        for (pattern, named) in [("", "empty"), ("a*", "every line"), ("(", "`(`"), ("\\w{9999}{9999}", "cannot")] {
            let error = check(pattern, false).unwrap_err();
            assert!(error.message.contains(named), "{error}");
        }
        assert!(check("a.b(", true).unwrap().is_match("xa.b("));
    }
}
