//! Sets a key in `config.toml` and leaves the rest of the file as it is.

use std::io::Write;
use std::path::Path;

use crate::config::sources::file_key;
use crate::error::{Error, IoContext, Result};

/// Sets the key of a variable in `config.toml` of a data directory. Creates the file if it does not exist; keeps comments,
/// other keys and permissions.
///
/// # Errors
/// The file cannot be parsed or written, or has the key in a form that cannot be replaced line by line.
pub fn set_in_file(data_dir: &Path, variable: &str, value: &str) -> Result<()> {
    let path = data_dir.join("config.toml");
    // Replaces the file that a link points to, not the link.
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).io_context("read", &path),
    };
    let key = file_key(variable);
    let after = with_key(&before, &key, value).ok_or_else(|| {
        Error::invalid(format!("cannot change `{key}` in `{}`", path.display()))
            .hint(format!("set `{key} = \"{value}\"` in the file yourself"))
    })?;
    let folder = path.parent().unwrap_or(data_dir);
    let mut file = tempfile::NamedTempFile::new_in(folder).io_context("write to", folder)?;
    file.write_all(after.as_bytes()).io_context("write", &path)?;
    if let Ok(known) = std::fs::metadata(&path) {
        file.as_file().set_permissions(known.permissions()).io_context("set permissions of", &path)?;
    }
    file.as_file().sync_all().io_context("write", &path)?;
    file.persist(&path).map_err(|error| Error::io("write", &path, &error.error)).map(drop)
}

/// Returns the text with the line of the key replaced or added; `None` if it would then mean something else.
fn with_key(text: &str, key: &str, value: &str) -> Option<String> {
    let line = format!("{key} = {}", toml::Value::String(value.into()));
    let is_key = |it: &str| it.trim_start().strip_prefix(key).is_some_and(|it| it.trim_start().starts_with('='));
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    match lines.iter_mut().find(|it| is_key(it)) {
        Some(old) => *old = line,
        None => lines.push(line),
    }
    let after = lines.join("\n") + "\n";
    let mut expected: toml::Table = text.parse().ok()?;
    expected.insert(key.to_string(), toml::Value::String(value.into()));
    (after.parse::<toml::Table>().ok()? == expected).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_replaced_or_added_and_the_rest_stays() {
        for (before, after) in [
            ("", "embed_model = \"m\"\n"),
            ("# a\nworkers = 3", "# a\nworkers = 3\nembed_model = \"m\"\n"),
            ("embed_model=\"x\" # old\n# b\n", "embed_model = \"m\"\n# b\n"),
            ("# embed_model = \"\"\n", "# embed_model = \"\"\nembed_model = \"m\"\n"),
        ] {
            assert_eq!(with_key(before, "embed_model", "m").as_deref(), Some(after), "{before}");
        }
        assert_eq!(with_key("embed_model = \"\"\"\nx\"\"\"\n", "embed_model", "m"), None);
        assert_eq!(with_key("not toml", "embed_model", "m"), None);
    }

    #[cfg(unix)]
    #[test]
    fn file_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        set_in_file(dir.path(), "VIC_EMBED_MODEL", "a").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        set_in_file(dir.path(), "VIC_EMBED_MODEL", "b\"c").unwrap();
        let table: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        assert_eq!(table["embed_model"].as_str(), Some("b\"c"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
