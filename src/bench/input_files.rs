//! Finds the files for a measurement with the same walk as in indexing.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::{Error, ErrorCode, IoContext, Result};
use crate::files::{self, Rules, WalkReport, WalkToken};

/// A folder and the files in it that are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InputFolder {
    /// Absolute path of the folder, without symbolic links.
    pub(super) root: PathBuf,
    /// Paths relative to `root`, sorted, with sizes in bytes.
    pub(super) files: Vec<(PathBuf, u64)>,
    /// Messages about entries that could not be read, one sentence each.
    pub(super) problems: Vec<String>,
}

impl InputFolder {
    /// Lists a folder, or takes a single file, and keeps the files that `wanted` accepts.
    ///
    /// # Errors
    /// The path does not exist, cannot be read, or holds no wanted file; `what` names the wanted files in the message.
    pub(super) fn list(
        config: &Config,
        path: &Path,
        what: &str,
        wanted: impl Fn(&Path) -> bool,
    ) -> Result<InputFolder> {
        let (root, only) = resolve_input(path)?;
        let mut files = Vec::new();
        let rules = Rules::new(&config.walk)?;
        let walked = files::walk(&root, &rules, only.as_deref(), &WalkToken::default(), |found| {
            if found.skip.is_none() && wanted(&found.path) {
                files.push((found.path, found.size));
            }
        })?;
        if files.is_empty() {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                format!("there are no {what} in `{}`", path.display()),
            )
            .hint("name a folder that contains some; hidden and ignored files are left out, as in `vic index`"));
        }
        files.sort_unstable();
        Ok(InputFolder { root, files, problems: problem_sentences(walked) })
    }

    /// Returns the total size of the files in MiB.
    pub(super) fn mib(&self) -> f64 {
        self.files.iter().map(|it| it.1).sum::<u64>() as f64 / f64::from(1 << 20)
    }
}

/// Returns messages about the entries that a walk could not read, and that the figures exclude.
pub(super) fn problem_sentences(walked: WalkReport) -> Vec<String> {
    walked.problems.into_iter().map(|it| it.sentence).collect()
}

/// Returns the folder to walk, and, if `path` is a file, its name in that folder.
fn resolve_input(path: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
    let cure = "name an existing folder or file";
    let absolute = path.canonicalize().io_context("read", path).map_err(|error| match error.hint {
        Some(_) => error,
        None => error.hint(cure),
    })?;
    if absolute.is_dir() {
        return Ok((absolute, None));
    }
    match (absolute.parent(), absolute.file_name()) {
        (Some(folder), Some(name)) => Ok((folder.to_path_buf(), Some(PathBuf::from(name)))),
        _ => Err(Error::invalid(format!("`{}` is neither a folder nor a file", path.display())).hint(cure)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::files::WalkProblem;

    /// Returns a configuration with all paths below one folder.
    pub(crate) fn config(dir: &Path) -> Config {
        Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| dir.as_os_str().to_owned())).unwrap()
    }

    #[test]
    fn folder_lists_visible_files_and_file_lists_itself() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.txt", "a.txt", ".hidden", "c.pdf"] {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        let is_text = |path: &Path| path.extension().is_some_and(|it| it == "txt");
        let list = |path: &Path| InputFolder::list(&config(dir.path()), path, "texts", is_text);
        let names = |folder: InputFolder| folder.files.into_iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(names(list(dir.path()).unwrap()), [Path::new("a.txt"), Path::new("b.txt")]);
        assert_eq!(names(list(&dir.path().join("b.txt")).unwrap()), [Path::new("b.txt")]);
        for (path, code) in [("gone", ErrorCode::NotFound), ("c.pdf", ErrorCode::FailedPrecondition)] {
            let error = list(&dir.path().join(path)).unwrap_err();
            assert!(error.code == code && error.hint.is_some(), "{error}");
        }
    }

    #[test]
    fn unreadable_entries_become_problems() {
        let problem = WalkProblem { path: "locked".into(), sentence: "cannot read `/w/locked`".into() };
        let walked = WalkReport { problems: vec![problem], ..WalkReport::default() };
        assert_eq!(problem_sentences(walked), ["cannot read `/w/locked`"]);
    }
}
