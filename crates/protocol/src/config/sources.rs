//! Where settings are looked up: first the environment, then `config.toml`, then `tuned.toml`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::config::variables::VARIABLES;
use crate::error::{Error, IoContext, Result};

/// Looks up settings in the environment, then `config.toml`, then `tuned.toml`.
pub(super) struct Settings<'a> {
    pub(super) lookup: &'a dyn Fn(&str) -> Option<OsString>,
    pub(super) file: BTreeMap<String, String>,
    /// Keys and values of `tuned.toml`.
    pub(super) tuned: BTreeMap<String, String>,
}

impl Settings<'_> {
    /// Returns a setting whose value must be one of a fixed set of names, or the default if it is unset. `known` lists the
    /// names for the error message.
    pub(super) fn one_of<T: Default>(&self, name: &str, from_name: fn(&str) -> Option<T>, known: &str) -> Result<T> {
        let Some(value) = self.text(name) else { return Ok(T::default()) };
        from_name(&value)
            .ok_or_else(|| Error::invalid(format!("unknown {name} `{value}`")).hint(format!("use {known}")))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match (self.lookup)(name) {
            Some(value) => Some(value.to_string_lossy().into_owned()),
            None => self.file.get(&file_key(name)).or_else(|| self.tuned.get(&file_key(name))).cloned(),
        }
    }

    pub(super) fn path(&self, name: &str) -> Result<Option<PathBuf>> {
        let value = (self.lookup)(name).or_else(|| self.file.get(&file_key(name)).map(OsString::from));
        value.map(|it| absolute(Path::new(&it))).transpose()
    }

    pub(super) fn parse<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|_| Error::invalid(format!("cannot understand {name} `{text}`")))
    }

    /// Returns a numeric setting, or `default` if unset. A number outside `bounds` is an error.
    pub(super) fn bounded(&self, name: &str, default: u32, bounds: RangeInclusive<u32>) -> Result<u32> {
        let value = self.parse(name, default)?;
        match bounds.contains(&value) {
            true => Ok(value),
            false => {
                let (least, most) = (bounds.start(), bounds.end());
                Err(Error::invalid(format!("{name} `{value}` is not between {least} and {most}")))
            }
        }
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.text(name).as_deref() {
            None => Ok(default),
            Some("1" | "true" | "yes" | "on") => Ok(true),
            Some("0" | "false" | "no" | "off") => Ok(false),
            Some(other) => Err(Error::invalid(format!("cannot understand {name} `{other}`")).hint("use `1` or `0`")),
        }
    }
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).io_context("resolve", path)
}

/// Returns the key in `config.toml` of a variable: `VIC_PRIVACY_MODE` becomes `privacy_mode`.
pub(super) fn file_key(name: &str) -> String {
    name.trim_start_matches("VIC_").to_ascii_lowercase()
}

pub(super) fn read_file(data_dir: &Path) -> Result<BTreeMap<String, String>> {
    let names: Vec<&str> = VARIABLES.iter().map(|(name, _)| *name).collect();
    let cure = "the keys are the VIC_* variables in lower case without `VIC_`";
    read_toml(&data_dir.join("config.toml"), &names, cure)
}

/// Reads a TOML file of settings. Rejects keys not in `names`; returns an empty map if the file does not exist.
pub(super) fn read_toml(path: &Path, names: &[&str], cure: &str) -> Result<BTreeMap<String, String>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        // Ignore that the data directory is not a directory: the code that opens it reports this more clearly.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(BTreeMap::new()),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Err(Error::invalid(format!("cannot understand `{}`: it is not UTF-8", path.display())));
        }
        Err(error) => return Err(error).io_context("read", path),
    };
    let table: toml::Table = text.parse().map_err(|error| invalid_toml(path, &text, &error))?;
    let mut file = BTreeMap::new();
    for (key, value) in table {
        if !names.iter().any(|name| file_key(name) == key) {
            return Err(Error::invalid(format!("unknown key `{key}` in `{}`", path.display())).hint(cure));
        }
        let value = match value {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        file.insert(key, value);
    }
    Ok(file)
}

/// Creates an error that, unlike the library's error, does not quote the line: errors are logged, and the line may hold an
/// API key.
fn invalid_toml(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|it| text.get(..it.start)).unwrap_or_default();
    let line = 1 + before.matches('\n').count();
    Error::invalid(format!("cannot understand `{}`, line {line}: {}", path.display(), error.message()))
}
