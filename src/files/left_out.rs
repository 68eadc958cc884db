//! Finds known files that a walk did not report because the ignore rules exclude them; they do not count as missing. Explains
//! to the user which rule leaves a file out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, IoContext, Result};
use crate::files::ignore_matcher::FileRule;
use crate::files::open::{Folder, read_regular};
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

/// Maximum size of an ignore file in which the line of a rule is looked up, in bytes.
const MAX_RULE_FILE_BYTES: u64 = 1 << 20;

/// Returns why a walk of `root` leaves out an entry that exists, as an error with a cure; `None` if no rule does. Names an
/// ignore file and its rule only if `may_see` holds for the path of the file.
///
/// # Errors
/// A glob of the rules cannot be parsed.
pub fn explain_left_out(
    root: &Path,
    rules: &Rules,
    relative: &Path,
    may_see: impl Fn(&Path) -> bool,
) -> Result<Option<Error>> {
    let path = root.join(relative);
    let Ok(metadata) = path.symlink_metadata() else { return Ok(None) };
    let left_out = |why: String| Error::not_found(format!("`{}` is left out: {why}", path.display()));
    let mut below_root = relative.ancestors().filter(|it| !it.as_os_str().is_empty());
    if below_root.any(|it| rules.excludes(&root.join(it))) {
        let why = "folders of version control and vic's own files are never indexed".to_string();
        return Ok(Some(left_out(why)));
    }
    let matcher = rules.matcher(root)?;
    let found = match matcher.hiding_rule_on_way(relative, metadata.is_dir()) {
        None => None,
        Some("hidden") => Some(
            left_out("its name, or that of a folder above it, begins with a dot".to_string())
                .hint("VIC_INCLUDE_HIDDEN=1 indexes hidden files"),
        ),
        Some("ignore_setting") => {
            Some(left_out("the setting VIC_IGNORE names it".to_string()).hint("change VIC_IGNORE"))
        }
        Some(_) => Some(match matcher.hiding_file_rule(relative, metadata.is_dir()).filter(|it| may_see(&it.file)) {
            Some(FileRule { file, folder, rule }) => {
                let line = line_of(&file, &rule).map(|it| format!(", line {it}")).unwrap_or_default();
                let own = folder.join(".vicignore");
                left_out(format!("the rule `{rule}` in `{}`{line}", file.display())).hint(format!(
                    "remove the rule, or add the line `!{rule}` at the end of `{}`; then index the folder again",
                    own.display()
                ))
            }
            None => left_out("a rule in an ignore file of a folder above it".to_string()),
        }),
    };
    Ok(found)
}

/// Returns the number of the last line of an ignore file that is this rule: later rules decide.
fn line_of(file: &Path, rule: &str) -> Option<usize> {
    let (bytes, _) = read_regular(file, MAX_RULE_FILE_BYTES).ok()??;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().enumerate().filter(|it| it.1.trim_end() == rule).last().map(|it| it.0 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WalkConfig;
    use crate::files::walk::tests::config;

    #[test]
    fn rule_that_leaves_a_file_out_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for file in ["a.txt", "drafts/2025/b.txt", ".c.txt", ".git/config", "d.bak", "sub/e.log"] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), file).unwrap();
        }
        std::fs::write(root.join(".vicignore"), "# own\n/drafts/\n").unwrap();
        std::fs::write(root.join("sub/.gitignore"), "*.log\n").unwrap();
        let settings = WalkConfig { ignore: vec!["*.bak".into()], ..config() };
        let rules = Rules::new(&settings).unwrap();
        let explain_to = |file: &str, may_see: bool| {
            explain_left_out(root, &rules, Path::new(file), |_| may_see).unwrap().map(|it| it.message)
        };
        let explain = |file: &str| explain_to(file, true);
        for (file, expected) in [
            ("drafts/2025/b.txt", format!("the rule `/drafts/` in `{}`, line 2", root.join(".vicignore").display())),
            ("sub/e.log", format!("the rule `*.log` in `{}`, line 1", root.join("sub/.gitignore").display())),
            (".c.txt", "begins with a dot".to_string()),
            (".git/config", "version control".to_string()),
            ("d.bak", "VIC_IGNORE".to_string()),
        ] {
            assert!(explain(file).is_some_and(|it| it.contains(&expected)), "{file}: {:?}", explain(file));
        }
        assert_eq!((explain("a.txt"), explain("gone.bak")), (None, None));
        std::fs::write(root.join("sub/.vicignore"), "!*.log\n").unwrap();
        std::fs::write(root.join(".vicignore"), "/drafts/\n!/drafts/\n").unwrap();
        assert_eq!((explain("sub/e.log"), explain("drafts/2025/b.txt")), (None, None), "the cures of the hints");
        std::fs::remove_file(root.join("sub/.vicignore")).unwrap();
        std::fs::create_dir_all(root.join("sub/.git/info")).unwrap();
        std::fs::write(root.join("sub/.git/info/exclude"), "/f.txt\n").unwrap();
        std::fs::write(root.join("sub/f.txt"), "f").unwrap();
        let excluded = explain_left_out(root, &rules, Path::new("sub/f.txt"), |_| true).unwrap().unwrap().hint.unwrap();
        let cure = format!("`!/f.txt` at the end of `{}`", root.join("sub/.vicignore").display());
        assert!(excluded.contains(&cure), "{excluded}");
        std::fs::write(root.join(".vicignore"), "# own\n/drafts/\n").unwrap();
        rules.set_roots(vec![root.to_path_buf(), root.join("drafts/2025")]);
        std::fs::write(root.join("drafts/f.txt"), "f").unwrap();
        assert!(explain("drafts/f.txt").is_some_and(|it| it.contains("the rule `/drafts/`")), "beside a nested root");
        let hidden = explain_to("sub/e.log", false).unwrap();
        assert!(!hidden.contains(".gitignore") && !hidden.contains("*.log"), "{hidden}");
    }

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
