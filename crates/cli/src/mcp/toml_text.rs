//! Edits TOML files of settings, so that everything but one table stays as the user wrote it.

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table, TableLike};

/// Returns the text with `entry` as the table `outer.name`; `None` if it is there already. Keys of an older table that
/// `entry` does not have stay.
///
/// # Errors
/// The text is not TOML, or its key `outer` is not a table.
pub(super) fn set(text: &str, outer: &str, name: &str, entry: &Map<String, Value>) -> Result<Option<String>, String> {
    let mut document = parse(text)?;
    if !document.contains_key(outer) {
        let mut servers = Table::new();
        // Writes no heading `[outer]` above `[outer.name]`.
        servers.set_implicit(true);
        document.insert(outer, Item::Table(servers));
    }
    let servers = servers_of(&mut document, outer)?;
    if !servers.get(name).is_some_and(Item::is_table_like) {
        servers.insert(name, Item::Table(Table::new()));
    }
    let table = servers.get_mut(name).and_then(Item::as_table_like_mut).ok_or("cannot hold the entry")?;
    let entry = toml_edit::ser::to_document(entry).map_err(|_| "cannot hold the entry")?;
    merge(table, entry.as_table());
    let edited = document.to_string();
    Ok((edited != text).then_some(edited))
}

/// Returns the text without the table `outer.name`; `None` if there is none.
///
/// # Errors
/// The text is not TOML, or its key `outer` is not a table.
pub(super) fn remove(text: &str, outer: &str, name: &str) -> Result<Option<String>, String> {
    let mut document = parse(text)?;
    if !document.contains_key(outer) || servers_of(&mut document, outer)?.remove(name).is_none() {
        return Ok(None);
    }
    Ok(Some(document.to_string()))
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        // Does not use the parser's message, because the message quotes the line, which may contain an API key.
        let line = error.span().map_or(1, |it| text[..it.start.min(text.len())].matches('\n').count() + 1);
        format!("is not TOML (line {line})")
    })
}

fn servers_of<'a>(document: &'a mut DocumentMut, outer: &str) -> Result<&'a mut dyn TableLike, String> {
    let servers = document.get_mut(outer).and_then(Item::as_table_like_mut);
    servers.ok_or_else(|| format!("has a key `{outer}` that is not a table"))
}

/// Sets the keys of `entry` in a table. A key with the same value keeps its comment and its white space.
fn merge(table: &mut dyn TableLike, entry: &Table) {
    for (key, new) in entry {
        match (table.get_mut(key), new) {
            (Some(Item::Value(old)), Item::Value(new)) if plain(old) == plain(new) => (),
            (Some(old), new) => *old = new.clone(),
            (None, new) => drop(table.insert(key, new.clone())),
        }
    }
}

/// Returns a value as text without the white space and comments around it.
fn plain(value: &toml_edit::Value) -> String {
    value.clone().decorated("", "").to_string()
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
            assert!(text.lines().all(|it| with.lines().any(|line| line == it)), "{with}");
            assert!(
                with.contains("[mcp_servers.vic]\n") && with.contains("env = { VIC_DATA_DIR = \"/d\" }\n"),
                "{with}"
            );
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
        let value: toml::Table = with.parse().unwrap();
        let vic = value["mcp_servers"]["vic"].as_table().unwrap();
        assert_eq!((vic["command"].as_str(), vic["startup_timeout_sec"].as_integer()), (Some("vic"), Some(20)));
        assert!(with.find("command = \"vic\"") < with.find("other") && with.contains("# of the other"), "{with}");
    }

    #[test]
    fn text_that_cannot_be_edited_is_refused_with_reason() {
        for (text, reason) in [
            ("a = 1\nkey = s3cret", "is not TOML (line 2)"),
            ("{\"mcp_servers\": {}}", "is not TOML (line 1)"),
            ("mcp_servers = 3", "`mcp_servers` that is not a table"),
        ] {
            let error = set(text, "mcp_servers", "vic", &entry()).unwrap_err();
            assert!(error.contains(reason) && !error.contains("s3cret"), "{text}: {error}");
        }
    }

    #[test]
    fn inline_tables_are_edited_too() {
        for text in ["mcp_servers = { other = { command = 'x' } }\n", "[mcp_servers]\nvic = { command = 'x', z = 1 }\n"]
        {
            let with = set_in(text);
            let value: toml::Table = with.parse().unwrap();
            assert_eq!(value["mcp_servers"]["vic"]["command"].as_str(), Some("vic"), "{with}");
            assert_eq!(set(&with, "mcp_servers", "vic", &entry()).unwrap(), None, "{with}");
            assert!(!remove(&with, "mcp_servers", "vic").unwrap().unwrap().contains("vic"));
        }
    }
}
