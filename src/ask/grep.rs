//! Searches the indexed text of files line by line for a pattern, in every file format.
//!
//! If a passage is verbatim text, its whole line is read from the current file. For other formats, the line is that of the
//! extracted text, with a location as exact as the format allows. If a line is split between two passages, the pattern
//! must match within one piece. Only the matching piece of a line is shown if it is not verbatim text, or if the rest of
//! the line contains a secret.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use crate::ask::asker::Asker;
use crate::ask::citation::{self, CitationStatus, FILE_CHECK_TIMEOUT};
use crate::ask::file_lines::{MAX_LINE_BYTES, read_whole_line};
use crate::ask::grep_context::ContextLines;
use crate::ask::grep_pattern::LinePattern;
use crate::ask::hit;
use crate::ask::index_state::SearchFolder;
use crate::error::{Error, Result};
use crate::model::{
    Chunk, FileId, FileRecord, GrepMatch, GrepRequest, GrepResponse, PlaceIndex, Redaction, display_path,
};
use crate::store::FileSet;

/// Maximum number of matching lines when the request sets no limit.
const DEFAULT_LIMIT: u32 = 1_000;
/// Highest limit that a request may set; a higher one is an error.
const MAX_LIMIT: u32 = 10_000;

impl Asker {
    /// Returns the lines that match the pattern, up to the limit.
    ///
    /// # Errors
    /// The pattern or a filter is invalid, or the index cannot be read.
    pub async fn grep(&self, request: GrepRequest) -> Result<GrepResponse> {
        let limit = match request.limit.unwrap_or(DEFAULT_LIMIT) {
            limit @ 1..=MAX_LIMIT => limit as usize,
            other => return Err(Error::invalid(format!("limit {other} is not between 1 and {MAX_LIMIT}"))),
        };
        let (pattern, context) = (LinePattern::compile(&request)?, ContextLines::from_request(&request)?);
        let folder = self.resolve_search_folder(request.warehouse_root.as_deref()).await;
        let around = self.read_index_state(folder.as_ref()).await?;
        let files =
            self.allowed_files(&self.file_filter(&request.filters, folder.as_ref().map(SearchFolder::path))?).await?;
        let served = self.index.serving();
        let mut raw: Vec<(FileId, Chunk)> = Vec::new();
        let mut lines = 0;
        served
            .store
            .scan(&files, &mut |stored| {
                let found = count_matching_lines(&pattern, &stored.chunk);
                if found > 0 {
                    lines += found;
                    raw.push((stored.file_id, stored.chunk));
                }
                // Collects up to twice the limit, because passages overlap and a line may be counted twice.
                lines <= limit * 2
            })
            .await?;
        let (catalog, redaction) = (self.catalog.clone(), self.redaction);
        let ids: Vec<FileId> = raw.iter().map(|(id, _)| *id).collect::<HashSet<_>>().into_iter().collect();
        let files_searched = match &files {
            FileSet::All => served.store.file_ids().len() as u64,
            FileSet::Only(ids) => ids.len() as u64,
        };
        let mut matches = crate::index::blocking_with_timeout(FILE_CHECK_TIMEOUT, move || {
            let records: HashMap<FileId, FileRecord> =
                catalog.records(&ids)?.into_iter().map(|it| (it.id, it)).collect();
            Ok(collect_matches(&GrepQuery { pattern: &pattern, redaction, context }, &records, &raw))
        })
        .await?;
        let truncated = matches.len() > limit;
        matches.truncate(limit);
        Ok(GrepResponse { matches, files_searched, truncated, warnings: around.warnings })
    }
}

/// The compiled pattern of a request, and how to show its matches.
struct GrepQuery<'r> {
    pattern: &'r LinePattern,
    redaction: Redaction,
    context: ContextLines,
}

/// Returns each matching line once, ordered by path and location. Leaves out files that are gone.
fn collect_matches(
    wanted: &GrepQuery<'_>,
    records: &HashMap<FileId, FileRecord>,
    raw: &[(FileId, Chunk)],
) -> Vec<GrepMatch> {
    // Groups by path and file id, because two roots may have files with the same relative path.
    let mut by_file: BTreeMap<(&Path, FileId), (&FileRecord, Vec<&Chunk>)> = BTreeMap::new();
    for (id, chunk) in raw {
        if let Some(record) = records.get(id) {
            by_file.entry((&record.found.path, *id)).or_insert((record, Vec::new())).1.push(chunk);
        }
    }
    let mut all = Vec::new();
    for (record, mut chunks) in by_file.into_values() {
        chunks.sort_by_key(|it| it.ordinal);
        let mut seen = HashSet::new();
        for chunk in chunks {
            if citation::check_passage(record, &chunk.anchor, chunk.body()) == CitationStatus::Gone {
                break;
            }
            for line in matching_lines(wanted, record, chunk) {
                let key = (line.anchor.member.clone(), line.anchor.place(), line.line.clone());
                if seen.insert(key) {
                    all.push(line);
                }
            }
        }
    }
    all
}

/// Returns the number of lines of a chunk that match, headings included.
fn count_matching_lines(pattern: &LinePattern, chunk: &Chunk) -> usize {
    let context = &chunk.text[..chunk.body_start as usize];
    let headings = match pattern.is_match(context) {
        true => chunk.places().headings().filter(|it| pattern.is_match(&chunk.text[it.clone()])).count(),
        false => 0,
    };
    headings + chunk.body().lines().filter(|line| pattern.is_match(line)).count()
}

/// Returns the lines of a chunk with their byte offsets: first the headings above the passage, then the lines of its body.
fn lines_of<'c>(chunk: &'c Chunk, places: &PlaceIndex<'_>) -> impl Iterator<Item = (usize, &'c str)> + use<'c> {
    let headings: Vec<_> = places.headings().map(|it| (it.start, &chunk.text[it])).collect();
    let mut at = chunk.body_start as usize;
    headings.into_iter().chain(chunk.body().split('\n').map(move |line| {
        let start = at;
        at += line.len() + 1;
        (start, line)
    }))
}

/// Returns the matching lines of a chunk, each with its location. `start` and `end` of a result are the first match in the
/// line.
fn matching_lines(wanted: &GrepQuery<'_>, record: &FileRecord, chunk: &Chunk) -> Vec<GrepMatch> {
    let mut found = Vec::new();
    let places = chunk.places();
    for (start, text) in lines_of(chunk, &places) {
        let Some(hit) = wanted.pattern.find(text) else { continue };
        let mut anchor = places.anchor_at(start..start + text.len());
        let (mut line, mut column) = (text.trim_end_matches('\r').to_string(), hit.start);
        let mut is_whole = false;
        if anchor.verbatim
            && anchor.member.is_none()
            && let Some((whole, before)) = read_whole_line(record, &anchor, text.trim_end(), wanted.redaction)
        {
            anchor.byte_start = anchor.byte_start.map(|it| it - before as u64);
            anchor.byte_end = anchor.byte_start.map(|it| it + whole.len() as u64);
            (line, column) = (whole, column + before);
            is_whole = true;
        }
        let in_file = is_whole.then_some(&anchor);
        let (before, after) =
            wanted.context.lines_around(record, in_file, lines_around(chunk, start), wanted.redaction);
        line.truncate(line.floor_char_boundary(MAX_LINE_BYTES));
        let mark = |at: usize| at.min(line.len()) as u32;
        found.push(GrepMatch {
            path: hit::shown_path(record, chunk.anchor.member.as_deref()),
            absolute_path: display_path(&record.absolute()).into_owned(),
            start: mark(column),
            end: mark(column + hit.len()),
            anchor,
            line,
            before,
            after,
        });
    }
    found
}

/// Returns the indexed text that the context lines are taken from, and the index of the matching line in it, from 0. The
/// text is the body of the chunk, or the whole chunk if the line is a heading.
fn lines_around(chunk: &Chunk, start: usize) -> (&str, usize) {
    let begins = if start < chunk.body_start as usize { 0 } else { chunk.body_start as usize };
    (&chunk.text[begins..], chunk.text[begins..start].matches('\n').count())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::model::{Anchor, ChunkId, EncodedPieces, FileKind, FileState, FoundFile, Tier};

    /// Writes a file into a root and returns its record.
    fn record(id: FileId, root: &Path, name: &str, text: &str) -> FileRecord {
        std::fs::create_dir_all(root).unwrap();
        std::fs::write(root.join(name), text).unwrap();
        let found = std::fs::metadata(root.join(name)).unwrap();
        FileRecord {
            id,
            root_id: id,
            root: root.into(),
            found: FoundFile {
                path: name.into(),
                size: found.len(),
                modified_ns: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
                changed_ns: 0,
                created_ns: None,
                inode: 1,
                device: 1,
                mode: 0o644,
                uid: 0,
                skip: None,
            },
            extension: String::new(),
            kind: FileKind::Text,
            media_type: String::new(),
            owner: String::new(),
            hash: None,
            state: FileState::Indexed,
            reason: None,
            detail: String::new(),
            chunks: 1,
            tries: 1,
            mail: None,
        }
    }

    /// Makes a chunk that is a verbatim passage of a text.
    fn chunk(text: &str, passage: &str) -> Chunk {
        let start = text.find(passage).unwrap();
        let line = Some(1 + text[..start].matches('\n').count() as u32);
        let (byte_start, byte_end) = (Some(start as u64), Some((start + passage.len()) as u64));
        let anchor =
            Anchor { byte_start, byte_end, line_start: line, line_end: line, verbatim: true, ..Anchor::default() };
        Chunk {
            id: ChunkId("c".into()),
            ordinal: 0,
            text: passage.into(),
            body_start: 0,
            anchor,
            pieces: EncodedPieces::default(),
            heading_path: Vec::new(),
            tokens: 1,
            tier: Tier::L1,
        }
    }

    /// Returns the matching lines of these passages, each with the name of its root folder.
    fn found(redaction: Redaction, all: &[(FileRecord, Chunk)], pattern: &str) -> Vec<(String, String)> {
        let records = all.iter().map(|it| (it.0.id, it.0.clone())).collect();
        let raw: Vec<(FileId, Chunk)> = all.iter().map(|it| (it.0.id, it.1.clone())).collect();
        let pattern = LinePattern::compile(&GrepRequest { pattern: pattern.into(), ..GrepRequest::default() }).unwrap();
        let context = ContextLines::from_request(&GrepRequest::default()).unwrap();
        let lines = collect_matches(&GrepQuery { pattern: &pattern, redaction, context }, &records, &raw).into_iter();
        let root = |it: &GrepMatch| Path::new(&it.absolute_path).parent().unwrap().file_name().unwrap().to_owned();
        lines.map(|it| (root(&it).into_string().unwrap(), it.line)).collect()
    }

    // Case E13
    #[test]
    fn whole_line_is_shown_unless_it_holds_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC".repeat(200);
        let key = format!("-----BEGIN PRIVATE KEY-----{body}-----END PRIVATE KEY-----");
        for (before, behind, shows) in [
            ("all of ", " is shown", true),
            ("", " and api_key: Zk3vQ9mX2pLr8TnB5wYs", false),
            ("see ghp_16C7e42F292c6912E7710c838347Ae178B4a and ", "", false),
            (&*key, " is a key", false),
            ("", &*key, false),
        ] {
            let text = format!("above\n{before}this line{behind}\nbelow\n");
            let one = |redaction| {
                let file = record(1, &dir.path().join("a"), "f.txt", &text);
                found(redaction, &[(file, chunk(&text, "this line"))], "this line").remove(0).1
            };
            let whole = format!("{before}this line{behind}");
            assert_eq!(one(Redaction::Keys), if shows { &whole } else { "this line" });
            assert!(whole.contains(&one(Redaction::None)) && one(Redaction::None).len() > "this line".len());
        }
    }

    #[test]
    fn same_path_in_two_roots_keeps_lines_separate() {
        let dir = tempfile::tempdir().unwrap();
        let texts = [(1, "a", "one hive of Ada\n"), (2, "b", "another hive\n")];
        let all = texts
            .map(|(id, root, text)| (record(id, &dir.path().join(root), "README.md", text), chunk(text, text.trim())));
        let expected = [("a".to_string(), "one hive of Ada".to_string()), ("b".into(), "another hive".into())];
        assert_eq!(found(Redaction::Keys, &all, "hive"), expected);
    }
}
