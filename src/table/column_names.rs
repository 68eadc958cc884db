//! Resolves column names as users type them.

use crate::error::{Error, Result};
use crate::table::grid::Table;

/// Upper limit of names listed in an error.
const MAX_LISTED_NAMES: usize = 30;

/// Returns the column with a name, ignoring case, or with a unique prefix.
///
/// # Errors
/// No column has that name, or several have that prefix.
pub(super) fn resolve_column(table: &Table, name: &str, field: &'static str) -> Result<usize> {
    let wanted = normalize(name);
    let heads: Vec<String> = table.heads.iter().map(|it| normalize(it)).collect();
    if let Some(found) = heads.iter().position(|it| *it == wanted) {
        return Ok(found);
    }
    let begins: Vec<usize> = (0..heads.len()).filter(|it| heads[*it].starts_with(&wanted)).collect();
    match begins[..] {
        [only] if !wanted.is_empty() => Ok(only),
        [] => Err(Error::invalid(format!("the table has no column `{}`", shorten(name)))
            .hint(list_columns(table))
            .field(field)),
        _ => {
            let named: Vec<&str> = begins.iter().take(MAX_LISTED_NAMES).map(|it| table.heads[*it].as_str()).collect();
            let text = format!("several columns begin with `{}`: {}", shorten(name), named.join(", "));
            Err(Error::invalid(text).hint("write more of the name").field(field))
        }
    }
}

/// Lower case; runs of whitespace and underscores become one space.
pub(super) fn normalize(name: &str) -> String {
    let words = name.split(|it: char| it.is_whitespace() || it == '_').filter(|it| !it.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

fn shorten(name: &str) -> String {
    name.chars().take(60).collect()
}

fn list_columns(table: &Table) -> String {
    let mut names = table.heads.iter().take(MAX_LISTED_NAMES).cloned().collect::<Vec<_>>().join(", ");
    if table.heads.len() > MAX_LISTED_NAMES {
        names.push_str(", …");
    }
    format!("its columns are: {names}")
}
