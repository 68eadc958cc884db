//! The configuration file of another program: read within limits, shown as a difference, and replaced as a whole after a
//! backup.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use chrono::Local;

use crate::text::escape_controls;
use vic_protocol::compact_output::truncate_chars;
use vic_protocol::error::{Error, IoContext, Result};

/// Maximum size of a configuration file in bytes; a larger file is rejected.
const MAX_BYTES: u64 = 16 << 20;

/// Maximum number of characters that are shown of a changed line; the rest is cut. If the file is a single line, that line
/// may contain all settings of the client.
const MAX_LINE_CHARS: usize = 120;

/// A configuration file and its content.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
    /// The content; empty if the file does not exist.
    text: String,
    exists: bool,
}

impl ConfigFile {
    /// Reads the file; a missing file is empty. Follows a symbolic link, so that the link stays when the file is written.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is not UTF-8.
    pub(super) fn open(path: &Path) -> Result<ConfigFile> {
        let (path, size) = match path.canonicalize() {
            Ok(path) => {
                let size = path.metadata().io_context("read", &path)?.len();
                (path, size)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(ConfigFile { path: path.to_path_buf(), text: String::new(), exists: false });
            }
            Err(error) => return Err(Error::io("read", path, &error)),
        };
        if size > MAX_BYTES {
            return Err(Error::invalid(format!("`{}` has {size} bytes, too many for a configuration", path.display())));
        }
        let bytes = std::fs::read(&path).io_context("read", &path)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::invalid(format!("`{}` is not UTF-8; it is unchanged", path.display())))?;
        Ok(ConfigFile { path, text, exists: true })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the content, and returns the path of the backup of the old file.
    ///
    /// # Errors
    /// The file has changed since it was read, or cannot be written.
    pub(super) fn write(&self, text: &str) -> Result<Option<PathBuf>> {
        let folder = self.path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).io_context("create", folder)?;
        let backup = if self.exists { Some(self.back_up()?) } else { None };
        let mut new = tempfile::NamedTempFile::new_in(folder).io_context("write", folder)?;
        new.write_all(text.as_bytes()).io_context("write", new.path())?;
        if self.exists {
            let permissions = self.path.metadata().io_context("read", &self.path)?.permissions();
            new.as_file().set_permissions(permissions).io_context("write", new.path())?;
        }
        new.as_file().sync_all().io_context("write", new.path())?;
        new.persist(&self.path).map_err(|it| Error::io("write", &self.path, &it.error))?;
        Ok(backup)
    }

    /// Copies the file to a new file beside it.
    fn back_up(&self) -> Result<PathBuf> {
        let current = std::fs::read(&self.path).io_context("read", &self.path)?;
        if current != self.text.as_bytes() {
            return Err(Error::invalid(format!("`{}` has changed in the meantime", self.path.display()))
                .hint("close the client, and repeat the command"));
        }
        let stamp = Local::now().format("%Y%m%d-%H%M%S");
        for number in 0..100 {
            let mut name = self.path.file_name().unwrap_or_default().to_os_string();
            name.push(if number == 0 { format!(".{stamp}.bak") } else { format!(".{stamp}-{number}.bak") });
            let backup = self.path.with_file_name(name);
            if !backup.exists() {
                std::fs::copy(&self.path, &backup).io_context("write", &backup)?;
                return Ok(backup);
            }
        }
        Err(Error::internal("too many backups were made in this second: repeat the command"))
    }
}

/// Returns the lines that differ between two texts: the removed ones after `-`, the added ones after `+`. Other lines are
/// not shown, as they may contain keys.
pub(super) fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let most = old.len().min(new.len()) - before;
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count().min(most);
    let mut out = format!("@@ line {} @@\n", before + 1);
    for (sign, lines) in [('-', &old[before..old.len() - after]), ('+', &new[before..new.len() - after])] {
        for line in lines {
            let _ = writeln!(out, "{sign}{}", escape_controls(&truncate_chars(line, MAX_LINE_CHARS)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn file_is_replaced_after_a_backup() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a.json");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let link = dir.path().join("link.json");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let backups = ["new", "newer"].map(|text| ConfigFile::open(&link).unwrap().write(text).unwrap().unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "newer");
        assert_eq!(backups.each_ref().map(|it| std::fs::read_to_string(it).unwrap()), ["old", "new"]);
        assert!(
            backups.iter().all(|it| it.starts_with(path.parent().unwrap()) && it.to_str().unwrap().ends_with(".bak"))
        );
        assert!(link.is_symlink());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(dir.path().read_dir().unwrap().count(), 4, "no temporary file is left");
    }

    #[test]
    fn missing_file_is_created_with_its_folders() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/a.json");
        let file = ConfigFile::open(&path).unwrap();
        assert_eq!((file.text(), file.write("{}").unwrap()), ("", None));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
    }

    #[test]
    fn changed_or_binary_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, "old").unwrap();
        let file = ConfigFile::open(&path).unwrap();
        std::fs::write(&path, "of the client").unwrap();
        assert!(file.write("new").unwrap_err().message.contains("changed"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of the client");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        let error = ConfigFile::open(&path).unwrap_err();
        assert!(error.message.contains("a.json` is not UTF-8"), "{error}");
    }

    #[test]
    fn difference_shows_changed_lines_only() {
        let shown = difference(
            "{\n  \"key\": \"s3cret\",\n  \"a\": {}\n}\n",
            "{\n  \"key\": \"s3cret\",\n  \"a\": {},\n  \"b\": {}\n}\n",
        );
        assert_eq!(shown, "@@ line 3 @@\n-  \"a\": {}\n+  \"a\": {},\n+  \"b\": {}\n");
        assert_eq!(difference("", "{}\n"), "@@ line 1 @@\n+{}\n");
        assert_eq!(difference("x\nx\n", "x\nx\nx\n"), "@@ line 3 @@\n+x\n");
        assert!(difference(&"x".repeat(5_000), "y").chars().count() < 200);
    }
}
