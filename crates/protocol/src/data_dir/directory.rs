//! Checks, before the first write, that a data directory belongs to vic and has a known format.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::config::Config;
use crate::error::{Error, ErrorCode, IoContext, Result};

/// Version of the format of all files in the data directory. Raise it if an older vic cannot work with newly written data,
/// and define in [`check_directory`] how older formats are handled.
pub const FORMAT: u32 = 1;

/// The text before the version number in the format file.
const FORMAT_PREFIX: &str = "vic data directory, format ";

/// Files that show, each alone, that vic wrote the data directory before the format file existed.
const LEGACY_MARKERS: [&str; 2] = ["catalog.sqlite", "vicd.lock"];

/// Files that may exist before the daemon's first start, because the command line or the user writes them.
const ALLOWED_NAMES: [&str; 10] = [
    "vicd.log",
    "config.toml",
    "tuned.toml",
    "llm.json",
    "keys.json",
    "keys.lock",
    "models",
    "demo",
    "lost+found",
    ".DS_Store",
];

/// Name prefixes of further files that may exist before the daemon's first start: the log of outbound requests with
/// SQLite's companion files, which a crash leaves behind; files with which a killed start tested write access; partly
/// written key files.
const ALLOWED_PREFIXES: [&str; 4] = ["audit.sqlite", ".vic-probe", ".vic-key", ".tmp"];

/// Checks that the directory is vic's or empty, and that its format is not newer than [`FORMAT`]. Writes nothing.
///
/// # Errors
/// [`ErrorCode::FailedPrecondition`] for a directory of another program or a newer vic, [`ErrorCode::DataLoss`] for a
/// format file that cannot be parsed.
pub fn check_directory(config: &Config) -> Result<()> {
    let dir = &config.data_dir;
    let path = config.format_path();
    match std::fs::read_to_string(&path) {
        Ok(text) => return check_format(dir, &path, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return check_format(dir, &path, ""),
        Err(error) => return Err(error).io_context("read", &path),
    }
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).io_context("read", dir),
    };
    let names: Vec<String> = entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    if names.iter().any(|it| LEGACY_MARKERS.contains(&it.as_str())) {
        return Ok(());
    }
    match names.iter().find(|it| !is_allowed_before(it)) {
        Some(name) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!("`{}` holds `{name}` and is not a data directory of vic", dir.display()),
        )
        .hint("point VIC_DATA_DIR at an empty or new directory")),
        None => Ok(()),
    }
}

/// Creates the directory, accessible only to its owner, or checks an existing one. For commands that need no daemon.
///
/// # Errors
/// Those of [`check_directory`], or the directory cannot be created.
pub fn create_checked(config: &Config) -> Result<()> {
    check_directory(config)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir).io_context("create", &config.data_dir)
}

/// Writes the format file if there is none. The caller must hold the lock of the data directory.
///
/// # Errors
/// The file cannot be written.
pub fn write_format(config: &Config) -> Result<()> {
    let path = config.format_path();
    if path.exists() {
        return Ok(());
    }
    let mut file = tempfile::NamedTempFile::new_in(&config.data_dir).io_context("write to", &config.data_dir)?;
    file.write_all(format!("{FORMAT_PREFIX}{FORMAT}\n").as_bytes()).io_context("write", &path)?;
    file.as_file().sync_all().io_context("sync", &path)?;
    file.persist(&path).map_err(|error| error.error).io_context("create", &path)?;
    File::open(&config.data_dir).and_then(|it| it.sync_all()).io_context("sync", &config.data_dir)
}

fn check_format(dir: &Path, path: &Path, text: &str) -> Result<()> {
    let number = text.trim_end().strip_prefix(FORMAT_PREFIX).and_then(|it| it.parse::<u32>().ok());
    match number {
        Some(number) if number <= FORMAT => Ok(()),
        Some(number) => Err(Error::new(
            ErrorCode::FailedPrecondition,
            format!(
                "the data directory `{}` has format {number}, but this vic supports formats up to {FORMAT}",
                dir.display()
            ),
        )
        .hint("use a newer vic, or set VIC_DATA_DIR to another directory")),
        None => Err(Error::new(ErrorCode::DataLoss, format!("cannot parse the format in `{}`", path.display()))
            .hint(format!("if vic {} wrote this directory, remove that file", env!("CARGO_PKG_VERSION")))),
    }
}

fn is_allowed_before(name: &str) -> bool {
    ALLOWED_NAMES.contains(&name) || ALLOWED_PREFIXES.iter().any(|it| name.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(dir: &Path) -> Config {
        Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| dir.as_os_str().to_owned())).unwrap()
    }

    /// Runs [`check_directory`] on a directory that contains these files, given as (name, content).
    fn check_with(files: &[(&str, &str)]) -> Result<()> {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        let outcome = check_directory(&config(dir.path()));
        assert_eq!(dir.path().read_dir().unwrap().count(), files.len(), "a check writes nothing");
        outcome
    }

    #[test]
    fn foreign_or_newer_directory_is_refused() {
        for (files, code, named) in [
            (vec![("holiday.jpg", "")], ErrorCode::FailedPrecondition, "holiday.jpg"),
            (vec![("vicd.log", ""), ("thesis.docx", "")], ErrorCode::FailedPrecondition, "thesis.docx"),
            (vec![("format", "vic data directory, format 2\n")], ErrorCode::FailedPrecondition, "format 2"),
            (vec![("format", "PNG"), ("catalog.sqlite", "")], ErrorCode::DataLoss, "format"),
            (vec![("format", "")], ErrorCode::DataLoss, "format"),
        ] {
            let error = check_with(&files).unwrap_err();
            assert!(error.code == code && error.message.contains(named) && error.hint.is_some(), "{error}");
        }
    }

    #[test]
    fn empty_older_and_own_directories_are_accepted() {
        check_with(&[]).unwrap();
        check_with(&[("vicd.log", ""), ("config.toml", ""), ("tuned.toml", "")]).unwrap();
        check_with(&[("keys.json", ""), ("keys.lock", ""), (".vic-key3Xy", ""), ("demo", "")]).unwrap();
        check_with(&[("audit.sqlite", ""), ("audit.sqlite-wal", ""), ("audit.sqlite-shm", "")]).unwrap();
        check_with(&[("catalog.sqlite", ""), ("notes.txt", "")]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        check_directory(&config(&dir.path().join("new"))).unwrap();
        write_format(&config(dir.path())).unwrap();
        write_format(&config(dir.path())).unwrap();
        std::fs::write(dir.path().join("anything"), "").unwrap();
        check_directory(&config(dir.path())).unwrap();
    }
}
