//! Edits JSON as text, so that everything but one entry stays as the user wrote it. The JSON may have comments, and commas
//! at the end of lists. Each edited text is parsed and compared with the wanted value before it is returned.

use std::ops::Range;

use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Value};

/// Returns the text with `entry` as the member `name` of the object `outer`; `None` if it is there already. Fields of an
/// older entry that `entry` does not have stay.
///
/// # Errors
/// The text is not a JSON object, or its field `outer` is not an object.
pub(super) fn set(text: &str, outer: &str, name: &str, entry: &Map<String, Value>) -> Result<Option<String>, String> {
    let text = if text.trim_start_matches('\u{feff}').trim().is_empty() { "{}\n" } else { text };
    let document = Document::parse(text)?;
    let mut wanted = document.value.clone();
    let servers = document.outer_object(outer)?;
    let mut merged = wanted[outer][name].as_object().cloned().unwrap_or_default();
    merged.extend(entry.clone());
    let merged = Value::Object(merged);
    if wanted[outer][name] == merged {
        return Ok(None);
    }
    let edited = match servers {
        None => {
            document.insert(&document.root(), outer, &Value::Object(Map::from_iter([(name.into(), merged.clone())])))
        }
        Some(servers) => match servers.member(name) {
            Some(member) => document.replace(&servers, member, &merged),
            None => document.insert(&servers, name, &merged),
        },
    };
    wanted[outer][name] = merged;
    checked(edited, &wanted)
}

/// Returns the text without the member `name` of the object `outer`; `None` if there is none.
///
/// # Errors
/// The text is not a JSON object, or its field `outer` is not an object.
pub(super) fn remove(text: &str, outer: &str, name: &str) -> Result<Option<String>, String> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(None);
    }
    let document = Document::parse(text)?;
    let Some(servers) = document.outer_object(outer)? else { return Ok(None) };
    let Some(number) = servers.members.iter().rposition(|it| it.name == name) else { return Ok(None) };
    let mut wanted = document.value.clone();
    if let Some(servers) = wanted[outer].as_object_mut() {
        servers.shift_remove(name);
    }
    checked(document.cut(&servers, number), &wanted)
}

/// Returns the edited text if it parses to the value `wanted`; otherwise an error.
fn checked(edited: String, wanted: &Value) -> Result<Option<String>, String> {
    let found = Document::parse(&edited).map(|it| it.value);
    if found.as_ref() == Ok(wanted) { Ok(Some(edited)) } else { Err("has a form that cannot be edited safely".into()) }
}

/// A JSON text and the value that it was parsed to.
struct Document<'a> {
    text: &'a str,
    /// The text with blanks in place of comments and of commas before a closing bracket; as long as the text.
    plain: Vec<u8>,
    /// Positions of the commas before a closing bracket.
    last_commas: Vec<usize>,
    value: Value,
}

/// An object in the text.
struct Object {
    open: usize,
    close: usize,
    members: Vec<Member>,
}

struct Member {
    name: String,
    key: Range<usize>,
    value: Range<usize>,
}

impl Object {
    /// Returns the last member with this name, which is the one that counts.
    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().rfind(|it| it.name == name)
    }
}

impl Document<'_> {
    fn parse(text: &str) -> Result<Document<'_>, String> {
        let (plain, last_commas) = without_comments(text)?;
        let value: Value = serde_json::from_slice(&plain)
            .map_err(|error| format!("is not JSON (line {}, column {})", error.line(), error.column()))?;
        if !value.is_object() {
            return Err("is not a JSON object".into());
        }
        Ok(Document { text, plain, last_commas, value })
    }

    fn root(&self) -> Object {
        self.object(self.plain.iter().position(|it| *it == b'{').unwrap_or_default())
    }

    /// Returns the object that is the member `name` of the root.
    fn outer_object(&self, name: &str) -> Result<Option<Object>, String> {
        let root = self.root();
        let Some(member) = root.member(name) else { return Ok(None) };
        if self.plain[member.value.start] != b'{' {
            return Err(format!("has a field `{name}` that is not an object"));
        }
        Ok(Some(self.object(member.value.start)))
    }

    /// Finds the members of the object that begins at `open`. The text is known to be JSON.
    fn object(&self, open: usize) -> Object {
        let (mut at, mut members) = (open + 1, Vec::new());
        loop {
            at = self.skip(at, |it| it.is_ascii_whitespace() || it == b',' || it == b':');
            if self.plain.get(at) != Some(&b'"') {
                return Object { open, close: at, members };
            }
            let key = at..end_of_string(&self.plain, at);
            let start = self.skip(key.end, |it| it.is_ascii_whitespace() || it == b':');
            let value = start..self.end_of_value(start);
            at = value.end;
            let name = serde_json::from_slice(&self.plain[key.clone()]).unwrap_or_default();
            members.push(Member { name, key, value });
        }
    }

    fn skip(&self, from: usize, skipped: impl Fn(u8) -> bool) -> usize {
        self.plain[from..].iter().position(|it| !skipped(*it)).map_or(self.plain.len(), |it| from + it)
    }

    fn end_of_value(&self, start: usize) -> usize {
        let (mut at, mut depth) = (start, 0usize);
        while let Some(byte) = self.plain.get(at) {
            match byte {
                b'"' => at = end_of_string(&self.plain, at) - 1,
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => return at,
                b'}' | b']' => depth -= 1,
                b',' if depth == 0 => return at,
                it if it.is_ascii_whitespace() && depth == 0 => return at,
                _ => (),
            }
            at += 1;
            if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
                return at;
            }
        }
        at
    }

    /// Returns the position of the comma after the last member, if there is one.
    fn last_comma(&self, object: &Object) -> Option<usize> {
        let end = object.members.last()?.value.end;
        self.last_commas.iter().copied().find(|it| (end..object.close).contains(it))
    }

    /// Adds a member at the end of an object.
    fn insert(&self, object: &Object, name: &str, value: &Value) -> String {
        let line_break = self.line_break();
        let indent = self.indent_of_members(object);
        let member = format!("{line_break}{indent}{}: {}", Value::from(name), self.pretty(value, &indent));
        let mut edited = self.text.to_string();
        let after = match object.members.last() {
            None => object.open + 1,
            Some(last) => self.last_comma(object).map_or(last.value.end, |it| it + 1),
        };
        // Inserts at the end of the line of the last member, so that a comment after that member stays in its line.
        let rest = &self.plain[after..object.close];
        let end_of_line = rest.iter().position(|it| *it == b'\n').filter(|_| !object.members.is_empty());
        let place = end_of_line.map_or(after, |it| after + it);
        let place = place - usize::from(end_of_line.is_some() && self.plain[place - 1] == b'\r');
        let has_break = self.plain[place..object.close].contains(&b'\n');
        let closing =
            if has_break { String::new() } else { format!("{line_break}{}", self.indent_of_line(object.open)) };
        let last_comma = self.last_comma(object);
        let comma = if last_comma.is_some() { "," } else { "" };
        edited.insert_str(place, &format!("{member}{comma}{closing}"));
        if let (Some(last), None) = (object.members.last(), last_comma) {
            edited.insert(last.value.end, ',');
        }
        edited
    }

    fn replace(&self, object: &Object, member: &Member, value: &Value) -> String {
        let indent = self.indent_of_members(object);
        let (before, after) = (&self.text[..member.value.start], &self.text[member.value.end..]);
        format!("{before}{}{after}", self.pretty(value, &indent))
    }

    /// Removes a member with its comma, and its line if nothing else is there.
    fn cut(&self, object: &Object, number: usize) -> String {
        let member = &object.members[number];
        let (mut start, mut end) = (member.key.start, member.value.end);
        let comma_in = |range: Range<usize>| {
            self.plain[range.clone()].iter().position(|it| *it == b',').map(|it| range.start + it)
        };
        let mut comma_before = None;
        if let Some(next) = object.members.get(number + 1) {
            end = comma_in(end..next.key.start).map_or(end, |it| it + 1);
        } else if let Some(comma) = self.last_comma(object) {
            end = comma + 1;
        } else if let Some(previous) = number.checked_sub(1) {
            comma_before = comma_in(object.members[previous].value.end..start);
        }
        let bytes = self.text.as_bytes();
        let blank = |it: &&u8| matches!(it, b' ' | b'\t');
        start -= bytes[..start].iter().rev().take_while(blank).count();
        let rest = end + bytes[end..].iter().take_while(|it| matches!(it, b' ' | b'\t' | b'\r')).count();
        if (start == 0 || bytes[start - 1] == b'\n') && bytes.get(rest) == Some(&b'\n') {
            end = rest + 1;
        }
        let mut edited = self.text.to_string();
        edited.replace_range(start..end, "");
        if let Some(comma) = comma_before {
            edited.remove(comma);
        }
        edited
    }

    fn line_break(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// Returns the white space at the beginning of the line of a position.
    fn indent_of_line(&self, at: usize) -> &str {
        let start = self.text[..at].rfind('\n').map_or(0, |it| it + 1);
        let line = &self.text[start..at];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    fn indent_of_members(&self, object: &Object) -> String {
        if let Some(first) = object.members.first() {
            let start = self.text[..first.key.start].rfind('\n').map_or(0, |it| it + 1);
            let before = &self.text[start..first.key.start];
            if start > object.open && before.trim().is_empty() {
                return before.to_string();
            }
        }
        format!("{}{}", self.indent_of_line(object.open), self.indent_unit())
    }

    /// Returns the white space by which this file indents: that of its first indented line.
    fn indent_unit(&self) -> &str {
        let indented = self.text.lines().find(|it| it.starts_with([' ', '\t']) && !it.trim().is_empty());
        indented.map_or("  ", |it| &it[..it.len() - it.trim_start_matches([' ', '\t']).len()])
    }

    fn pretty(&self, value: &Value, indent: &str) -> String {
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.indent_unit().as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        let written = value.serialize(&mut serializer).map_or_else(|_| value.to_string().into_bytes(), |()| bytes);
        String::from_utf8_lossy(&written).replace('\n', &format!("{}{indent}", self.line_break()))
    }
}

/// Returns the text with blanks in place of comments and last commas, and the positions of these commas.
fn without_comments(text: &str) -> Result<(Vec<u8>, Vec<usize>), String> {
    let mut plain = text.as_bytes().to_vec();
    if text.starts_with('\u{feff}') {
        plain[..3].fill(b' ');
    }
    let (mut at, mut comma, mut last_commas) = (0, None, Vec::new());
    while at < plain.len() {
        match plain[at] {
            b'"' => {
                at = end_of_string(&plain, at);
                comma = None;
                continue;
            }
            b'/' if matches!(plain.get(at + 1), Some(b'/' | b'*')) => {
                let end = end_of_comment(text, at).ok_or("has a comment without an end")?;
                plain[at..end].fill(b' ');
                at = end;
                continue;
            }
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    plain[comma] = b' ';
                    last_commas.push(comma);
                }
            }
            it if it.is_ascii_whitespace() => (),
            _ => comma = None,
        }
        at += 1;
    }
    Ok((plain, last_commas))
}

/// Returns the end of the comment at `start`; a comment of one line ends before the line break.
fn end_of_comment(text: &str, start: usize) -> Option<usize> {
    let rest = &text[start + 2..];
    if text[start..].starts_with("//") {
        let length = rest.find('\n').map_or(rest.len(), |it| it - usize::from(rest[..it].ends_with('\r')));
        return Some(start + 2 + length);
    }
    rest.find("*/").map(|it| start + 2 + it + 2)
}

/// Returns the position after the string that begins at `start`.
fn end_of_string(plain: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = plain.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    plain.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Map<String, Value> {
        json!({"command": "vic", "args": ["mcp"]}).as_object().unwrap().clone()
    }

    fn set_in(text: &str) -> String {
        set(text, "servers", "vic", &entry()).unwrap().unwrap()
    }

    #[test]
    fn entry_is_added_and_removed_without_other_changes() {
        for text in [
            "{\n  \"servers\": {\n    \"other\": {\"command\": \"x\"}\n  },\n  \"theme\": \"dark\"\n}\n",
            "{\n\t\"zoom\": 1,\n\t\"servers\": {\n\t\t\"b\": {},\n\t\t\"a\": {}\n\t}\n}",
            "{\r\n  \"servers\": {\r\n    \"other\": {}\r\n  }\r\n}\r\n",
            "// settings\n{\n  // servers\n  \"servers\": {\n    \"other\": {}, // mine, \"vic\": {}\n  },\n}\n",
            "{\n  \"servers\": {\n    \"other\": {} /* a */\n    // b\n  }\n}\n",
            "\u{feff}{\n  \"a\\\"}\": [1, {\"b\": \"}\"}],\n  \"servers\": {\n    \"other\": null\n  }\n}\n",
        ] {
            let with = set_in(text);
            assert!(with.contains("\"vic\": {"), "{with}");
            let old: Vec<&str> = text.lines().collect();
            let kept =
                old.iter().filter(|it| with.lines().any(|line| line.trim_end_matches(',') == it.trim_end_matches(',')));
            assert!(kept.count() + 1 >= old.len(), "{with}");
            assert_eq!(set(&with, "servers", "vic", &entry()).unwrap(), None);
            assert_eq!(remove(&with, "servers", "vic").unwrap().as_deref(), Some(text), "{with}");
            assert_eq!(remove(text, "servers", "vic").unwrap(), None);
        }
    }

    #[test]
    fn new_entry_is_indented_like_the_file() {
        assert_eq!(
            set_in("{\n    \"servers\": {}\n}\n"),
            "{\n    \"servers\": {\n        \"vic\": {\n            \"command\": \"vic\",\n            \"args\": [\n                \
             \"mcp\"\n            ]\n        }\n    }\n}\n"
        );
        assert_eq!(
            set_in("{\"a\": 1}"),
            "{\"a\": 1,\n  \"servers\": {\n    \"vic\": {\n      \"command\": \"vic\",\n      \"args\": [\n        \"mcp\"\n      \
             ]\n    }\n  }\n}"
        );
        for empty in ["", " \n", "{}", "{ }", "{\n}", "{ // nothing yet\n}", "{\"servers\": { /* none */ }}"] {
            let value = Document::parse(&set_in(empty)).map(|it| it.value).unwrap();
            assert_eq!(value, json!({"servers": {"vic": entry()}}), "{empty}");
        }
    }

    #[test]
    fn old_entry_keeps_its_own_fields_and_its_place() {
        let text = "{\"servers\": {\"vic\": {\"command\": \"/old\", \"disabled\": true}, \"other\": {}}}";
        let with = set_in(text);
        let value: Value = serde_json::from_str(&with).unwrap();
        assert_eq!(value["servers"]["vic"], json!({"command": "vic", "disabled": true, "args": ["mcp"]}));
        assert!(with.find("\"vic\"") < with.find("\"other\""), "{with}");
        let without = remove(&with, "servers", "vic").unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&without).unwrap(), json!({"servers": {"other": {}}}));
        let twice = "{\"servers\": {\"vic\": 1, \"a\": 2, \"vic\": 3}}";
        assert!(set(twice, "servers", "vic", &entry()).is_ok());
    }

    #[test]
    fn text_that_is_no_configuration_is_refused_with_reason() {
        for (text, reason) in [
            ("{\"a\": }", "is not JSON (line 1"),
            ("servers:\n  vic: 1\n", "is not JSON (line 1"),
            ("{\n\"a\": 1\n\"b\": 2}", "is not JSON (line 3"),
            ("[]", "is not a JSON object"),
            ("{\"servers\": []}", "`servers` that is not an object"),
            ("{\"servers\": null}", "`servers` that is not an object"),
            ("{ /* open", "comment without an end"),
            ("{\"a\": 1,,}", "is not JSON"),
            ("{\"a\": \"open", "is not JSON"),
        ] {
            for outcome in [set(text, "servers", "vic", &entry()), remove(text, "servers", "vic")] {
                let error = outcome.unwrap_err();
                assert!(error.contains(reason), "{text}: {error}");
            }
        }
    }
}
