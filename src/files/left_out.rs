//! Finds known files that a walk did not report because the ignore rules exclude them; they do not count as missing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::{IoContext, Result};
use crate::files::open::Folder;
use crate::files::{Rules, WalkToken, unresponsive};

/// Returns those of the given files (relative to `root`) that exist and are ignored by the rules. Folders, entries behind
/// symbolic links and unresponsive paths are never included. Ends early when `leash` is stopped.
///
/// # Errors
/// When the root cannot be opened.
pub fn ignored_files(root: &Path, rules: &Rules, files: Vec<PathBuf>, leash: &WalkToken) -> Result<HashSet<PathBuf>> {
    if files.is_empty() {
        return Ok(HashSet::new());
    }
    let folder = Folder::root(root).io_context("read", root)?;
    let matcher = rules.matcher(root)?;
    let is_excluded = |file: &Path| {
        let mut below_root = file.ancestors().filter(|it| !it.as_os_str().is_empty());
        below_root.any(|it| rules.excludes(&root.join(it)))
    };
    let is_there = |file: &Path| folder.metadata(file).is_ok_and(|it| !it.is_dir());
    let is_left_out = |file: &Path| {
        // Checks the ignore rules last, because the matcher reads and caches the rules of every folder it is asked
        // about, and after a volume was unmounted, most files no longer exist.
        !unresponsive::is_unresponsive_beneath(root, file)
            && is_there(file)
            && (matcher.hides(file, false) || is_excluded(file))
    };
    Ok(files.into_iter().take_while(|_| leash.advance()).filter(|it| is_left_out(it)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WalkConfig;
    use crate::files::walk::tests::config;

    // Case E14
    #[test]
    fn only_existing_ignored_files_are_returned() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let there = ["a.txt", "archive/b.txt", "notes/.hidden.txt", ".git/config", "own/c.txt", "d.bak"];
        for file in there {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), file).unwrap();
        }
        std::fs::write(root.join(".vicignore"), "archive/\nlink\n").unwrap();
        std::os::unix::fs::symlink("notes", root.join("link")).unwrap();
        let settings = WalkConfig { ignore: vec!["*.bak".into()], ..config() };
        let rules = Rules::new(&settings).unwrap().excluding([root.join("own")]);
        let others = ["gone.txt", "archive/gone.txt", "gone.bak", "link/.hidden.txt", "archive/b.txt/below", "own"];
        let known = || there.iter().chain(&others).map(PathBuf::from).collect();
        let check = |expected: &[&str]| {
            let found = ignored_files(root, &rules, known(), &WalkToken::default()).unwrap();
            assert_eq!(found, expected.iter().map(PathBuf::from).collect::<HashSet<_>>());
        };
        check(&there[1..]);
        // Files at an unresponsive path are not included.
        unresponsive::set_unresponsive(&root.join("archive"), true);
        check(&there[2..]);
        unresponsive::set_unresponsive(&root.join("archive"), false);
        let stopped = WalkToken::default();
        stopped.stop();
        assert!(ignored_files(root, &rules, known(), &stopped).unwrap().is_empty());
    }
}
