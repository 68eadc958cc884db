//! Resolves column names as users type them.

use crate::error::{Error, Result};
use crate::table::Table;

/// Upper limit of names listed in an error.
const MOST_NAMED: usize = 30;

/// Returns the column with a name, ignoring case, or with a unique prefix.
///
/// # Errors
/// No column has that name, or several have that prefix.
pub(super) fn resolve(table: &Table, name: &str, field: &'static str) -> Result<usize> {
    let wanted = folded(name);
    let heads: Vec<String> = table.heads.iter().map(|it| folded(it)).collect();
    if let Some(found) = heads.iter().position(|it| *it == wanted) {
        return Ok(found);
    }
    let begins: Vec<usize> = (0..heads.len()).filter(|it| heads[*it].starts_with(&wanted)).collect();
    match begins[..] {
        [only] if !wanted.is_empty() => Ok(only),
        [] => {
            Err(Error::invalid(format!("the table has no column `{}`", shown(name))).hint(listed(table)).field(field))
        }
        _ => {
            let named: Vec<&str> = begins.iter().take(MOST_NAMED).map(|it| table.heads[*it].as_str()).collect();
            let text = format!("several columns begin with `{}`: {}", shown(name), named.join(", "));
            Err(Error::invalid(text).hint("write more of the name").field(field))
        }
    }
}

/// Lower case; runs of whitespace and underscores become one space.
pub(super) fn folded(name: &str) -> String {
    let words = name.split(|it: char| it.is_whitespace() || it == '_').filter(|it| !it.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

fn shown(name: &str) -> String {
    name.chars().take(60).collect()
}

fn listed(table: &Table) -> String {
    let mut names = table.heads.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    if table.heads.len() > MOST_NAMED {
        names.push_str(", …");
    }
    format!("its columns are: {names}")
}
