//! Cuts a result of an MCP tool to the page that a call asked for: at most `max_chars` characters, as text or JSON, with a
//! cursor by which the client gets the next page.

use std::borrow::Cow;

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use crate::compact_output::truncate_chars;
use crate::error::{Error, Result};
use crate::serve::mcp::arguments::Page;
use crate::serve::mcp::cursor;

/// Characters of each page that are reserved for the line with the cursor.
const CURSOR_CHARS: usize = 80;

/// A result before it is cut to a page: lines before and after a list, and the list.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Lines before the list; shown only on the first page.
    pub(super) head: Vec<String>,
    /// Lines after the list, e.g. warnings; shown only on the first page, where they have priority over entries.
    pub(super) tail: Vec<String>,
    /// The fields of the JSON result, without the list.
    pub(super) data: Map<String, Value>,
    /// JSON key of the list.
    pub(super) name: Cow<'static, str>,
    /// The entries of the list from the start of the page on.
    pub(super) entries: Vec<Entry>,
    /// Position at which the list continues after the last of `entries`; `None` if nothing follows.
    pub(super) rest: Option<u64>,
}

/// One entry of a list, as text or as JSON (`data`).
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) text: String,
    pub(super) data: Value,
    /// Position of the entry after this one; the cursor holds it if the page ends here.
    pub(super) next: u64,
}

impl Entry {
    pub(super) fn of_text(text: String, next: usize) -> Entry {
        Entry { text, data: Value::Null, next: next as u64 }
    }

    pub(super) fn of_data(data: Value, next: usize) -> Entry {
        Entry { text: String::new(), data, next: next as u64 }
    }
}

impl Listing {
    /// Removes the entries before the position `start`.
    pub(super) fn starting_at(mut self, start: u64) -> Listing {
        self.entries.retain(|it| it.next > start);
        self
    }

    /// Returns the result cut to the page.
    pub(super) fn cut(self, page: &Page) -> Result<CallToolResult> {
        if page.structured { self.cut_data(page) } else { Ok(self.cut_text(page)) }
    }

    fn cut_text(self, page: &Page) -> CallToolResult {
        let is_first = page.is_first;
        let room = page.max_chars - CURSOR_CHARS;
        let tail = fit(if is_first { self.tail } else { Vec::new() }, room / 2).join("\n");
        let mut left = room - count(&tail);
        let mut parts = fit(if is_first { self.head } else { Vec::new() }, left);
        left = left.saturating_sub(parts.iter().map(|it| count(it) + 1).sum());
        let mut next = (!self.entries.is_empty()).then_some(page.start).or(self.rest);
        let mut shown = 0;
        for entry in &self.entries {
            let needed = count(&entry.text) + 1;
            // Shortens a first entry that is too long instead of leaving it out, so that a page is never empty.
            if needed > left && (shown > 0 || is_first && !parts.is_empty()) {
                break;
            }
            let is_whole = needed <= left;
            let shortened = || truncate_chars(&entry.text, left.saturating_sub(2));
            parts.push(if is_whole { entry.text.clone() } else { shortened() });
            left = left.saturating_sub(needed);
            shown += 1;
            next = if shown == self.entries.len() { self.rest } else { Some(entry.next) };
        }
        parts.push(tail);
        parts.extend(next.map(|it| format!("more: repeat the call with cursor {}", cursor::encode(&page.call, it))));
        parts.retain(|it| !it.is_empty());
        CallToolResult::success(vec![ContentBlock::text(parts.join("\n"))])
    }

    fn cut_data(self, page: &Page) -> Result<CallToolResult> {
        let mut data = self.data;
        let mut left = page.max_chars.saturating_sub(json_chars(&Value::Object(data.clone())) + CURSOR_CHARS);
        let (mut kept, mut next) = (Vec::new(), (!self.entries.is_empty()).then_some(page.start).or(self.rest));
        let total = self.entries.len();
        for entry in self.entries {
            let needed = json_chars(&entry.data) + 1;
            if needed > left {
                break;
            }
            left -= needed;
            kept.push(entry.data);
            next = if kept.len() == total { self.rest } else { Some(entry.next) };
        }
        if kept.is_empty() && total > 0 {
            return Err(too_long(page));
        }
        if !self.name.is_empty() {
            data.insert(self.name.into_owned(), Value::Array(kept));
        }
        if let Some(next) = next {
            data.insert("cursor".into(), json!(cursor::encode(&page.call, next)));
        }
        whole_data(Value::Object(data), page)
    }
}

/// Returns JSON as a result without cutting it.
///
/// # Errors
/// `InvalidArgument` if it is longer than the page.
pub(super) fn whole_data(data: Value, page: &Page) -> Result<CallToolResult> {
    if json_chars(&data) > page.max_chars {
        return Err(too_long(page));
    }
    // `structured` also adds the JSON as text, as MCP asks for clients that do not read structured content.
    Ok(CallToolResult::structured(data))
}

fn too_long(page: &Page) -> Error {
    Error::invalid(format!("the structured data is longer than {} characters", page.max_chars))
        .field("max_chars")
        .hint("raise `max_chars`, or omit `structured`: text continues with a cursor")
}

/// Returns the page of a long text. Cuts it at the end of a line, if a line ends in the second half of the page.
pub(super) fn cut_long_text(text: &str, page: &Page) -> CallToolResult {
    let start = usize::try_from(page.start).unwrap_or(usize::MAX);
    let rest = text.char_indices().nth(start).map_or("", |(at, _)| &text[at..]);
    let room = page.max_chars - CURSOR_CHARS;
    let Some((end, _)) = rest.char_indices().nth(page.max_chars) else {
        return CallToolResult::success(vec![ContentBlock::text(rest)]);
    };
    let window = &rest[..rest.char_indices().nth(room).map_or(end, |it| it.0)];
    let part = window.rfind('\n').filter(|it| *it > window.len() / 2).map_or(window, |it| &window[..=it]);
    let next = cursor::encode(&page.call, page.start + count(part) as u64);
    let part = part.trim_end();
    CallToolResult::success(vec![ContentBlock::text(format!("{part}\nmore: repeat the call with cursor {next}"))])
}

/// Returns the first lines that fit into `room` characters. The first line that does not fit is shortened, and all lines
/// after it are dropped.
fn fit(lines: Vec<String>, room: usize) -> Vec<String> {
    let mut left = room;
    let mut kept = Vec::new();
    for line in lines {
        let needed = count(&line) + 1;
        if needed > left {
            if left > 1 {
                kept.push(truncate_chars(&line, left - 2));
            }
            break;
        }
        left -= needed;
        kept.push(line);
    }
    kept
}

fn count(text: &str) -> usize {
    text.chars().count()
}

fn json_chars(value: &Value) -> usize {
    count(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(start: u64, max_chars: usize, structured: bool) -> Page {
        Page { start, is_first: start == 0, max_chars, structured, call: [7; 6] }
    }

    fn numbers(start: u64) -> Listing {
        let entry = |number: u64| Entry {
            text: format!("{number}: {}", "x".repeat(50)),
            data: json!({"number": number}),
            next: number + 1,
        };
        Listing {
            head: vec!["head".into()],
            tail: vec!["warning: w".into()],
            name: "numbers".into(),
            entries: (start..40).map(entry).collect(),
            ..Listing::default()
        }
    }

    fn text(result: &CallToolResult) -> String {
        serde_json::to_value(result).unwrap()["content"][0]["text"].as_str().unwrap().to_string()
    }

    fn cursor_of(text: &str) -> Option<u64> {
        let word = text.split_once("with cursor ")?.1;
        Some(cursor::decode(&[7; 6], word).unwrap())
    }

    #[test]
    fn parts_follow_each_other_until_the_end() {
        for max_chars in [200, 500, 1_500, 20_000] {
            let (mut seen, mut start) = (Vec::new(), Some(0));
            while let Some(from) = start {
                let part = text(&numbers(from).cut(&page(from, max_chars, false)).unwrap());
                assert!(part.chars().count() <= max_chars, "{part}");
                assert_eq!(part.starts_with("head\n"), from == 0, "{part}");
                assert_eq!(part.contains("warning: w"), from == 0, "{part}");
                seen.extend(part.lines().filter_map(|it| it.split_once(": x")?.0.parse::<u64>().ok()));
                start = cursor_of(&part);
                assert!(start.is_none_or(|it| it > from), "{part}");
            }
            assert_eq!(seen, (0..40).collect::<Vec<_>>(), "{max_chars}");
        }
    }

    #[test]
    fn data_is_bounded_and_continues() {
        let first = numbers(0).cut(&page(0, 300, true)).unwrap();
        let data = serde_json::to_value(&first).unwrap()["structuredContent"].clone();
        assert!(data.to_string().chars().count() <= 300, "{data}");
        let shown = data["numbers"].as_array().unwrap().len() as u64;
        assert_eq!(cursor::decode(&[7; 6], data["cursor"].as_str().unwrap()).unwrap(), shown);
        let last = numbers(39).cut(&page(39, 300, true)).unwrap();
        let data = serde_json::to_value(&last).unwrap()["structuredContent"].clone();
        assert_eq!(data, json!({"numbers": [{"number": 39}]}));
        let wide = Listing {
            name: "x".into(),
            entries: vec![Entry { text: String::new(), data: json!("y".repeat(500)), next: 1 }],
            ..Listing::default()
        };
        let error = wide.cut(&page(0, 300, true)).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("max_chars"));
    }

    #[test]
    fn single_long_entry_is_shortened() {
        let entry = |next| Entry { text: "y".repeat(5_000), data: Value::Null, next };
        let listing = Listing { entries: vec![entry(1), entry(2)], ..Listing::default() };
        let part = text(&listing.cut(&page(0, 200, false)).unwrap());
        assert!(part.chars().count() <= 200 && part.contains('…'), "{part}");
        assert_eq!(cursor_of(&part), Some(1));
    }

    #[test]
    fn long_text_is_cut_at_lines_and_continues() {
        let whole: String = (0..200).map(|it| format!("line {it} ä\n")).collect();
        let (mut seen, mut start) = (String::new(), Some(0));
        while let Some(from) = start {
            let part = text(&cut_long_text(&whole, &page(from, 300, false)));
            assert!(part.chars().count() <= 300, "{part}");
            start = cursor_of(&part);
            let own = part.split("more: repeat").next().unwrap_or_default();
            seen.push_str(own.trim_end());
            seen.push('\n');
        }
        assert_eq!(seen, whole);
        assert_eq!(text(&cut_long_text("short", &page(0, 300, false))), "short");
    }
}
