//! Finds the column that a user names in a request, by its whole name or the beginning of it.

use crate::error::{Error, Result};
use crate::table::grid::Table;

/// Maximum number of column names that an error lists.
const MAX_LISTED_NAMES: usize = 30;

/// Returns the index of the column with this name, ignoring case, or of the only column whose name begins with it.
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
            Err(Error::invalid(text).hint("write the whole name").field(field))
        }
    }
}

/// Returns a name in lower case, with one space for each run of whitespace and underscores.
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
