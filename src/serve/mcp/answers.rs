//! Formats the results of the MCP tools for files: as short text with locations, or as JSON for clients that set
//! `structured`. A `Page` is the part of a result that one call asked for.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::compact_output::{self as compact, MAX_NAMED_HITS};
use crate::error::{Error, Result};
use crate::model::{
    Anchor, AskResponse, FileEntry, FileList, JobReport, Reading, ReadingBlock, Root, SearchHit, Status, TableGroup,
    TableResponse, TableRow, TableValue, display_path,
};
use crate::serve::mcp::arguments::Page;
use crate::serve::mcp::page::{Entry, Listing};

/// Maximum number of characters of an excerpt in a JSON result: about a paragraph; a longer excerpt is cut.
const MAX_EXCERPT_CHARS: usize = 600;
/// Maximum number of table rows that are named as evidence of a computed value; `…` stands for further ones.
const MAX_NAMED_ROWS: usize = 5;
/// Maximum number of characters of a table row in a text result; a longer row is cut.
const MAX_ROW_CHARS: usize = 300;

/// Returns the quotes of an answer, and its hits from the hit on at which the requested page starts.
pub(super) fn answer(response: &AskResponse, page: &Page) -> Result<Listing> {
    let start = page.start as usize;
    let mut head = compact::answer_lines(response);
    if head.is_empty() && response.hits.is_empty() {
        head.push("nothing found".into());
    }
    let mut data = Map::new();
    if page.is_first {
        data.insert("answer_summary".into(), json!(response.answer_summary));
        data.insert("answer".into(), serde_json::to_value(&response.answer).map_err(Error::internal)?);
        data.insert("warnings".into(), json!(response.warnings));
    }
    let listing = Listing { head, tail: warnings(&response.warnings), data, name: "hits".into(), ..Listing::default() };
    if page.structured {
        let hits = response.hits.iter().enumerate().skip(start);
        let entries = hits.map(|(number, it)| Entry::of_data(hit_data(it), number + 1)).collect();
        return Ok(Listing { entries, ..listing });
    }
    let passages =
        |(number, it): (usize, &SearchHit)| Entry::of_text(compact::passage_lines(it).join("\n"), number + 1);
    let named = |(number, it): (usize, &SearchHit)| Entry::of_text(compact::named_hit(it), number + 1);
    let entries: Vec<Entry> = match (page.is_first, compact::is_answered(response)) {
        (true, true) => compact::listed_hits(response).take(MAX_NAMED_HITS).map(named).collect(),
        (true, false) => compact::listed_hits(response).map(passages).collect(),
        // Later pages also list the weak hits, which the first page leaves out.
        (false, _) => response.hits.iter().enumerate().skip(start).map(passages).collect(),
    };
    let quoted = response.answer.iter().flat_map(|it| &it.quotes).map(|it| u64::from(it.hit)).max();
    let end = entries.last().map(|it| it.next).or(quoted).unwrap_or_default();
    Ok(Listing { entries, rest: (end < response.hits.len() as u64).then_some(end), ..listing })
}

fn warnings(all: &[String]) -> Vec<String> {
    all.iter().map(|it| format!("warning: {}", compact::one_line(it))).collect()
}

fn hit_data(hit: &SearchHit) -> Value {
    let anchor = hit.metadata.get("anchor").and_then(|it| Anchor::deserialize(it).ok()).unwrap_or_default();
    let path = hit.metadata.get("absolute_path").and_then(Value::as_str).unwrap_or(&hit.path);
    json!({
        "path": path,
        "place": anchor.place(),
        "excerpt": compact::truncate_chars(&hit.excerpt, MAX_EXCERPT_CHARS),
        "score": (hit.score * 1_000.0).round() / 1_000.0,
    })
}

/// Returns one page of a list of files.
pub(super) fn files(list: &FileList, page: &Page) -> Result<Listing> {
    let (files, total) = (&list.files, list.total);
    let entries = files.iter().map(FileEntry::from).enumerate().map(|(number, file)| -> Result<Entry> {
        let state = file.reason.map_or(file.state.name().into(), |it| format!("{}: {}", file.state.name(), it.name()));
        let state = if state == "indexed" { String::new() } else { format!(", {state}") };
        let day = file.modified.get(..10).unwrap_or(&file.modified);
        Ok(Entry {
            text: compact::one_line(&format!("{}  {} bytes, {day}{state}", file.path, file.size)),
            data: serde_json::to_value(&file).map_err(Error::internal)?,
            next: page.start + number as u64 + 1,
        })
    });
    let entries = entries.collect::<Result<Vec<Entry>>>()?;
    let end = page.start + files.len() as u64;
    let mut data = Map::from_iter([("total".to_string(), json!(total))]);
    if page.is_first && !list.warnings.is_empty() {
        data.insert("warnings".into(), json!(list.warnings));
    }
    Ok(Listing {
        head: vec![match total {
            0 => "no files match".into(),
            1 => "1 file".into(),
            total => format!("{total} files"),
        }],
        tail: warnings(&list.warnings),
        data,
        name: "files".into(),
        entries,
        rest: (end < total && !files.is_empty()).then_some(end),
    })
}

/// Returns the result of a table query: its values, and its groups, or rows if there are none, from the one on at which
/// the requested page starts.
pub(super) fn table(answer: TableResponse, page: &Page) -> Result<Listing> {
    let start = page.start as usize;
    let is_grouped = !answer.groups.is_empty();
    let data = if page.is_first { table_data(&answer, page)? } else { Map::new() };
    let entries = match is_grouped {
        true => list(&answer.groups, start, group_text)?,
        false => list(&answer.rows, start, row_text)?,
    };
    let mut tail = warnings(&answer.warnings);
    let (shown, all) = if is_grouped {
        (answer.groups.len() as u64, answer.total_groups)
    } else {
        (answer.rows.len() as u64, answer.matched_rows)
    };
    if answer.truncated && shown < all {
        tail.push(format!("{shown} of {all}; narrow with `filter`, or raise `limit`"));
    }
    Ok(Listing {
        head: table_head(&answer),
        tail,
        data,
        name: if is_grouped { "groups" } else { "rows" }.into(),
        entries,
        rest: None,
    })
}

/// Returns the JSON of a table result without the list that is paged: the groups, or the rows if there are no groups. With
/// groups, the rows are also removed if they would take more than half of the page.
fn table_data(answer: &TableResponse, page: &Page) -> Result<Map<String, Value>> {
    let mut value = serde_json::to_value(answer).map_err(Error::internal)?;
    let data = value.as_object_mut().map(std::mem::take).unwrap_or_default();
    let (listed, beside) = if answer.groups.is_empty() { ("rows", "groups") } else { ("groups", "rows") };
    let mut data: Map<String, Value> = data.into_iter().filter(|it| it.0 != listed).collect();
    if data.get(beside).is_some_and(|it| it.to_string().len() > page.max_chars / 2) {
        data.insert(beside.into(), json!([]));
    }
    Ok(data)
}

fn list<T: serde::Serialize>(items: &[T], start: usize, text: fn(&T) -> String) -> Result<Vec<Entry>> {
    let items = items.iter().enumerate().skip(start);
    let entry = |(number, it): (usize, &T)| -> Result<Entry> {
        let data = serde_json::to_value(it).map_err(Error::internal)?;
        Ok(Entry { text: compact::truncate_chars(&text(it), MAX_ROW_CHARS), data, next: number as u64 + 1 })
    };
    items.map(entry).collect()
}

fn table_head(answer: &TableResponse) -> Vec<String> {
    let name = if answer.name.is_empty() { "table" } else { answer.name.as_str() };
    let of = if answer.tables > 1 { format!(" (table {} of {})", answer.table, answer.tables) } else { String::new() };
    let mut head =
        vec![compact::one_line(&format!("{name}{of}: {} of {} rows match", answer.matched_rows, answer.total_rows))];
    let columns: Vec<&str> = answer.columns.iter().map(|it| it.name.as_str()).collect();
    head.extend(answer.result.iter().map(value_text));
    let columns = compact::one_line(&format!("columns: {}", columns.join(" | ")));
    head.push(compact::truncate_chars(&columns, MAX_ROW_CHARS));
    head
}

fn value_text(value: &TableValue) -> String {
    let of = value.column.as_deref().map_or_else(|| "rows".to_string(), String::from);
    let number = value.value.as_deref().unwrap_or("none");
    let unit = value.unit.as_deref().map_or(String::new(), |it| format!(" {it}"));
    let mut text = format!("{}({of}) = {number}{unit}", value.function);
    if !value.exact {
        text.push_str(", rounded");
    }
    let _ = write!(text, "; {} rows", value.rows);
    let named: Vec<&str> = value.evidence.iter().take(MAX_NAMED_ROWS).map(String::as_str).collect();
    if !named.is_empty() {
        let more = if value.evidence.len() > named.len() { ", …" } else { "" };
        let _ = write!(text, ": {}{more}", named.join(", "));
    }
    for left_out in &value.left_out {
        let example = left_out.examples.first().map_or(String::new(), |it| format!(", e.g. {}", it.place));
        let cells = if left_out.cells == 1 { "cell" } else { "cells" };
        let _ = write!(text, "; left out {} {cells} ({}{example})", left_out.cells, left_out.reason);
    }
    compact::one_line(&text)
}

fn group_text(group: &TableGroup) -> String {
    let values: Vec<String> = group.result.iter().map(value_text).collect();
    compact::one_line(&format!("{}: {} rows; {}", group.key, group.rows, values.join("; ")))
}

fn row_text(row: &TableRow) -> String {
    compact::one_line(&format!("{}: {}", row.place, row.cells.join(" | ")))
}

/// Characters reserved in a result with the text of a file for everything but its blocks: the cursor and the JSON keys.
const READING_CHARS: usize = 160;

/// Returns the part of a file's text that fits on the page. Cuts the end of `reading`, whose text alone may fill the page,
/// to leave space for the locations and problems.
pub(super) fn reading(mut reading: Reading, page: &Page) -> Listing {
    let problems: Vec<String> =
        reading.problems.iter().map(|it| format!("problem: {}", compact::one_line(it))).collect();
    let beside = match page.structured {
        true => reading.path.chars().count() * 2,
        false if page.is_first => {
            problems.iter().map(|it| it.chars().count() + 1).sum::<usize>().min(page.max_chars / 2)
        }
        false => 0,
    };
    // Shortens the text until it fits with the locations of its blocks, which can be as long as the text.
    loop {
        let size: usize = reading.blocks.iter().map(|it| size_of_block(it, page)).sum();
        let length: u64 = reading.blocks.iter().map(|it| it.text.chars().count() as u64).sum();
        let excess = (size + beside + READING_CHARS).saturating_sub(page.max_chars) as u64;
        if excess == 0 || length <= 1 {
            break;
        }
        shorten(&mut reading, length.saturating_sub(excess).max(1));
    }
    let rest = reading.next_offset;
    let data = json!({"path": reading.path, "total_chars": reading.total_chars});
    let data = data.as_object().cloned().unwrap_or_default();
    let entries = match page.structured {
        true => reading.blocks.iter().map(|it| Entry::of_data(block_data(it), end_of_block(it))).collect(),
        false if reading.blocks.is_empty() => Vec::new(),
        false => vec![Entry::of_text(reading_text(&reading), rest.unwrap_or_default() as usize)],
    };
    Listing { tail: problems, data, name: "blocks".into(), entries, rest, ..Listing::default() }
}

fn block_data(block: &ReadingBlock) -> Value {
    json!({"place": block.anchor.place(), "text": block.text})
}

fn end_of_block(block: &ReadingBlock) -> usize {
    block.start as usize + block.text.chars().count()
}

fn size_of_block(block: &ReadingBlock, page: &Page) -> usize {
    match page.structured {
        true => block_data(block).to_string().chars().count() + 1,
        false => block.anchor.place().chars().count() + block.text.chars().count() + 5,
    }
}

/// Keeps the first `chars` characters of the text, and drops the blocks after them.
fn shorten(reading: &mut Reading, chars: u64) {
    let mut left = chars as usize;
    for block in &mut reading.blocks {
        let length = block.text.chars().count();
        if length > left {
            block.text = block.text.chars().take(left).collect();
        }
        left -= length.min(left);
    }
    reading.blocks.retain(|it| !it.text.is_empty());
    reading.next_offset = Some(reading.offset + chars);
}

/// Formats the blocks of a file as text, with the location before each block where it changes.
pub(super) fn reading_text(reading: &Reading) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for block in &reading.blocks {
        let place = block.anchor.place();
        if place != last && !place.is_empty() {
            let _ = writeln!(text, "[{place}]");
        }
        text.push_str(&block.text);
        text.push_str("\n\n");
        last = place;
    }
    text.trim_end().to_string()
}

/// Returns the state of the index in a few lines: how much is indexed, the folders, and what is wrong.
pub(super) fn status(status: &Status) -> Listing {
    let Status { index_ready, chunks, roots, coverage, embed_model, privacy_mode, running_jobs, degraded, .. } = status;
    let ready = if *index_ready { "ready" } else { "not ready" };
    let mut head = vec![
        format!(
            "{ready}: {} of {} files indexed, {} skipped, {} failed, {} pending; {chunks} chunks",
            coverage.indexed, coverage.found, coverage.skipped, coverage.failed, coverage.pending
        ),
        format!("model: {embed_model}; privacy: {}", privacy_mode.name()),
    ];
    let jobs: Vec<&str> = running_jobs.iter().map(|it| it.job_id.as_str()).collect();
    head.extend((!jobs.is_empty()).then(|| format!("running jobs: {}", jobs.join(", "))));
    head.extend(degraded.iter().map(|it| format!("problem: {}", compact::one_line(it))));
    let data = json!({
        "index_ready": index_ready, "chunks": chunks, "embed_model": embed_model, "privacy_mode": privacy_mode,
        "indexed": coverage.indexed, "found": coverage.found, "skipped": coverage.skipped, "failed": coverage.failed,
        "pending": coverage.pending, "running_jobs": jobs, "degraded": degraded,
    });
    let folder = |(number, root): (usize, &Root)| {
        let path = display_path(&root.path);
        let problem = if root.available { String::new() } else { format!(" (away: {})", root.problem) };
        Entry {
            text: compact::one_line(&format!("folder: {path}{problem}")),
            data: json!(path),
            next: number as u64 + 1,
        }
    };
    Listing {
        head,
        data: data.as_object().cloned().unwrap_or_default(),
        name: "roots".into(),
        entries: roots.iter().enumerate().map(folder).collect(),
        ..Listing::default()
    }
}

/// Formats the state of an index job: its progress and its errors.
pub(super) fn job(report: &JobReport) -> Listing {
    let job = &report.job;
    let mut line = format!("job {}: {}, {} of {} files", job.job_id, job.state.name(), job.files_done, job.files_total);
    if job.files_failed > 0 {
        let _ = write!(line, ", {} failed", job.files_failed);
    }
    if let Some(seconds) = job.eta_seconds.filter(|_| !job.state.is_final()) {
        let _ = write!(line, ", about {seconds:.0} s left");
    }
    let problems = [("error", &job.error), ("last problem", &job.last_error)];
    let problems =
        problems.into_iter().filter_map(|(what, it)| Some(format!("{what}: {}", compact::one_line(it.as_deref()?))));
    let data = json!({
        "job_id": job.job_id, "status": report.status, "state": job.state, "files_done": job.files_done,
        "files_total": job.files_total, "files_failed": job.files_failed, "eta_seconds": job.eta_seconds,
        "error": job.error, "last_error": job.last_error,
    });
    Listing {
        head: std::iter::once(line).chain(problems).collect(),
        data: data.as_object().cloned().unwrap_or_default(),
        ..Listing::default()
    }
}
