//! Edits TOML as text, so that everything but one table stays as the user wrote it. Each edited text is parsed and compared
//! with the wanted value before it is returned.

use std::ops::Range;

use serde_json::{Map, Value};
use toml::Table;

/// Returns the text with `entry` as the table `outer.name`; `None` if it is there already. Keys of an older table that
/// `entry` does not have stay.
///
/// # Errors
/// The text is not TOML, or has the table in another form than below a heading `[outer.name]`, e.g. inline.
pub(super) fn set(text: &str, outer: &str, name: &str, entry: &Map<String, Value>) -> Result<Option<String>, String> {
    let mut wanted = parse(text)?;
    let entry = Table::try_from(entry).map_err(|_| "cannot hold the entry".to_string())?;
    let servers = servers_of(&mut wanted, outer)?;
    let old = servers.get(name).and_then(toml::Value::as_table).cloned();
    let mut merged = old.clone().unwrap_or_default();
    merged.extend(entry);
    if old.as_ref() == Some(&merged) {
        return Ok(None);
    }
    let section = section(outer, name, &merged)?;
    let edited = match sections(text, outer, name).as_slice() {
        [] if text.trim().is_empty() => section,
        [] => format!("{}\n\n{section}", text.trim_end()),
        [first, others @ ..] => {
            let mut edited = text.to_string();
            others.iter().rev().for_each(|it| edited.replace_range(it.clone(), ""));
            edited.replace_range(first.clone(), &section);
            edited
        }
    };
    servers.insert(name.into(), toml::Value::Table(merged));
    checked(edited, &wanted)
}

/// Returns the text without the table `outer.name`; `None` if there is none.
///
/// # Errors
/// The text is not TOML, or has the table in another form than below a heading `[outer.name]`, e.g. inline.
pub(super) fn remove(text: &str, outer: &str, name: &str) -> Result<Option<String>, String> {
    let mut wanted = parse(text)?;
    let servers = servers_of(&mut wanted, outer)?;
    if servers.remove(name).is_none() {
        return Ok(None);
    }
    let mut edited = text.to_string();
    for section in sections(text, outer, name).into_iter().rev() {
        let is_last = text[section.end..].trim().is_empty();
        edited.replace_range(section, "");
        if is_last {
            let end = edited.trim_end().len();
            edited.truncate(end);
            edited.push_str(if end == 0 { "" } else { "\n" });
        }
    }
    if servers.is_empty() && !has_heading(&edited, outer) {
        wanted.remove(outer);
    }
    checked(edited, &wanted)
}

fn parse(text: &str) -> Result<Table, String> {
    text.parse().map_err(|error: toml::de::Error| {
        // Does not use the parser's message, because the message quotes the line, which may contain an API key.
        let line = error.span().map_or(1, |it| text[..it.start.min(text.len())].matches('\n').count() + 1);
        format!("is not TOML (line {line})")
    })
}

fn servers_of<'a>(table: &'a mut Table, outer: &str) -> Result<&'a mut Table, String> {
    let servers = table.entry(outer).or_insert_with(|| toml::Value::Table(Table::new()));
    servers.as_table_mut().ok_or_else(|| format!("has a key `{outer}` that is not a table"))
}

fn checked(edited: String, wanted: &Table) -> Result<Option<String>, String> {
    if parse(&edited).as_ref() == Ok(wanted) {
        Ok(Some(edited))
    } else {
        Err("has a form that cannot be edited safely".into())
    }
}

/// Returns the text of a table with its heading, and of the tables in it with theirs.
fn section(outer: &str, name: &str, table: &Table) -> Result<String, String> {
    let (tables, values): (Table, Table) = table.clone().into_iter().partition(|it| it.1.is_table());
    let lines = |table: &Table| toml::to_string(table).map_err(|_| "cannot hold the entry".to_string());
    let mut text = format!("[{outer}.{name}]\n{}", lines(&values)?);
    for (key, table) in tables {
        let table = table.as_table().cloned().unwrap_or_default();
        text.push_str(&format!("\n[{outer}.{name}.{key}]\n{}", lines(&table)?));
    }
    Ok(text)
}

/// Returns the ranges of lines that belong to the table `outer.name` or to a table in it: each from the heading to the next
/// heading, without the comments directly above the next heading.
fn sections(text: &str, outer: &str, name: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open: Option<Range<usize>> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if let Some(heading) = heading(line) {
            let own = heading == format!("{outer}.{name}") || heading.starts_with(&format!("{outer}.{name}."));
            match open.as_mut().filter(|_| own) {
                // Includes blank lines and comments between two headings of the table in the range.
                Some(range) => range.end = at,
                None => {
                    found.extend(open.take());
                    open = own.then_some(start..at);
                }
            }
        } else if let Some(range) = &mut open
            && !line.trim().is_empty()
            && !line.trim_start().starts_with('#')
        {
            range.end = at;
        }
    }
    found.extend(open);
    found
}

fn has_heading(text: &str, outer: &str) -> bool {
    text.lines().filter_map(heading).any(|it| it == outer || it.starts_with(&format!("{outer}.")))
}

/// Returns the name in the heading of a table, without blanks and quotes; `None` for other lines.
fn heading(line: &str) -> Option<String> {
    let name = line.trim_start().strip_prefix('[')?.split(']').next()?;
    Some(name.chars().filter(|it| !matches!(it, ' ' | '\t' | '"' | '\'')).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OTHERS: &str = "# my settings\nmodel = \"o\" # the best\n\n[mcp_servers.other]\ncommand = \"x\" # keep\nargs = [\n  \
                          \"[mcp]\",\n]\n\n# the last\n[tui]\ntheme = 'dark'\n";

    fn entry() -> Map<String, Value> {
        let value = json!({"command": "vic", "args": ["mcp"], "env": {"VIC_DATA_DIR": "/d"}});
        value.as_object().unwrap().clone()
    }

    fn set_in(text: &str) -> String {
        set(text, "mcp_servers", "vic", &entry()).unwrap().unwrap()
    }

    #[test]
    fn table_is_added_and_removed_without_other_changes() {
        for text in [OTHERS, "[mcp_servers]\n", "model = 'o'\n"] {
            let with = set_in(text);
            assert!(with.starts_with(text.trim_end()), "{with}");
            assert!(with.contains("[mcp_servers.vic]\n") && with.contains("[mcp_servers.vic.env]\n"), "{with}");
            assert_eq!(set(&with, "mcp_servers", "vic", &entry()).unwrap(), None);
            assert_eq!(remove(&with, "mcp_servers", "vic").unwrap().as_deref(), Some(text));
            assert_eq!(remove(text, "mcp_servers", "vic").unwrap(), None);
        }
        assert_eq!(remove(&set_in(""), "mcp_servers", "vic").unwrap().as_deref(), Some(""));
    }

    #[test]
    fn old_table_keeps_its_own_keys_and_its_place() {
        let old = "[ mcp_servers . \"vic\" ]\ncommand = '/old'\nstartup_timeout_sec = 20\n\n# of the other\n";
        let with = set_in(&format!("{old}[mcp_servers.other]\ncommand = 'x'\n"));
        let value: Table = with.parse().unwrap();
        let vic = value["mcp_servers"]["vic"].as_table().unwrap();
        assert_eq!((vic["command"].as_str(), vic["startup_timeout_sec"].as_integer()), (Some("vic"), Some(20)));
        assert!(
            with.find("mcp_servers.vic") < with.find("mcp_servers.other") && with.contains("# of the other"),
            "{with}"
        );
    }

    #[test]
    fn text_that_cannot_be_edited_is_refused_with_reason() {
        for (text, reason) in [
            ("a = 1\nkey = s3cret", "is not TOML (line 2)"),
            ("{\"mcp_servers\": {}}", "is not TOML (line 1)"),
            ("mcp_servers = 3", "`mcp_servers` that is not a table"),
            ("mcp_servers = { other = { command = 'x' } }", "cannot be edited safely"),
            ("[mcp_servers]\nvic = { command = 'x' }", "cannot be edited safely"),
        ] {
            let error = set(text, "mcp_servers", "vic", &entry()).unwrap_err();
            assert!(error.contains(reason) && !error.contains("s3cret"), "{text}: {error}");
        }
        let inline = "[mcp_servers]\nvic = { command = 'x' }";
        assert!(remove(inline, "mcp_servers", "vic").unwrap_err().contains("safely"));
    }
}
