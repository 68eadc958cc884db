//! Results of `vic bench embed --autotune`: `tuned.toml` in the data directory. Its values rank
//! below the environment and `config.toml`, above the defaults. They do not change the index: the file may be deleted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::sources::{file_key, read_toml};
use crate::error::{Error, IoContext, Result};

/// Variables that `--autotune` may set. They change the speed of embedding, not the vectors.
pub(super) const TUNABLE: [&str; 2] = ["VIC_EMBED_THREADS", "VIC_EMBED_BATCH"];

/// Returns the path of `tuned.toml` in a data directory.
pub fn tuned_path(data_dir: &Path) -> PathBuf {
    data_dir.join("tuned.toml")
}

/// Reads `tuned.toml`; returns an empty map if the file does not exist.
pub(super) fn read_tuned(data_dir: &Path) -> Result<BTreeMap<String, String>> {
    read_toml(&tuned_path(data_dir), &TUNABLE, "remove it with `vic bench embed --untune`")
}

/// Writes values of tunable variables to `tuned.toml`, with `remark` as a comment in the file.
///
/// # Errors
/// A variable is not tunable, or the file cannot be written.
pub fn write_tuned(data_dir: &Path, values: &[(&str, usize)], remark: &str) -> Result<()> {
    let mut text = String::from("# Written by `vic bench embed --autotune`; `vic bench embed --untune` removes it.\n");
    remark.lines().for_each(|line| text.push_str(&format!("# {line}\n")));
    for (name, value) in values {
        if !TUNABLE.contains(name) {
            return Err(Error::internal(format!("{name} is not a tunable variable")));
        }
        text.push_str(&format!("{} = {value}\n", file_key(name)));
    }
    let path = tuned_path(data_dir);
    let mut file = tempfile::NamedTempFile::new_in(data_dir).io_context("write to", data_dir)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).io_context("write", &path)?;
    file.persist(&path).map_err(|error| Error::io("write", &path, &error.error)).map(|_| ())
}

/// Removes `tuned.toml`; returns whether the file existed.
///
/// # Errors
/// The file exists but cannot be removed.
pub fn remove_tuned(data_dir: &Path) -> Result<bool> {
    let path = tuned_path(data_dir);
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).io_context("remove", &path),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::config::Config;

    fn threads(data_dir: &Path, environment: Option<&str>) -> Result<(usize, usize)> {
        let lookup = |name: &str| match name {
            "VIC_DATA_DIR" => Some(data_dir.as_os_str().to_owned()),
            "VIC_EMBED_THREADS" => environment.map(OsString::from),
            _ => None,
        };
        Config::from_lookup(&lookup).map(|it| (it.embed.threads, it.embed.batch))
    }

    #[test]
    fn tuned_values_apply_until_overridden_or_removed() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().to_path_buf();
        write_tuned(&data_dir, &[("VIC_EMBED_THREADS", 3), ("VIC_EMBED_BATCH", 64)], "some machine\n9 tokens/s")
            .unwrap();
        assert_eq!(threads(&data_dir, None).unwrap(), (3, 64));
        std::fs::write(data_dir.join("config.toml"), "embed_threads = 5\n").unwrap();
        assert_eq!(threads(&data_dir, None).unwrap(), (5, 64));
        assert_eq!(threads(&data_dir, Some("7")).unwrap(), (7, 64));
        assert!(remove_tuned(&data_dir).unwrap());
        assert!(!remove_tuned(&data_dir).unwrap());
        assert_eq!(threads(&data_dir, None).unwrap(), (5, 0));
    }

    #[test]
    fn other_keys_in_tuned_file_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write_tuned(dir.path(), &[("VIC_WORKERS", 3)], "").is_err());
        std::fs::write(tuned_path(dir.path()), "privacy_mode = \"cloud_embedding_ok\"\n").unwrap();
        let error = threads(dir.path(), None).unwrap_err();
        assert!(error.message.contains("privacy_mode") && error.hint.unwrap().contains("--untune"));
    }
}
