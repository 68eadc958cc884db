//! Looks what a walk of a folder would find and leave out, and by which rule, without changing anything.

use std::collections::{BTreeMap, HashMap};
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{IoContext, Result};
use crate::files::ignore_matcher::IgnoreMatcher;
use crate::files::stat::FileStat;
use crate::files::{Rules, unresponsive};
use crate::model::{FoundFile, LeftOut, RootCheck, TypeCount, display_path};

/// Maximum number of entries that a dry run looks at.
const MAX_ENTRIES: u64 = 300_000;

/// Maximum time of a dry run: a person waits for it.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Number of examples of each rule.
const MAX_EXAMPLES: usize = 5;

/// Number of file types that are listed.
const MAX_TYPES: usize = 30;

/// The counts while entries are added.
#[derive(Default)]
struct Tally {
    files: u64,
    read_files: u64,
    bytes: u64,
    left_out: BTreeMap<&'static str, (u64, Vec<String>)>,
    types: HashMap<String, u64>,
}

/// Looks what a walk of `root` would find. If there are `words`, counts only entries whose name holds all of them, and looks
/// into ignored folders too. Ends early after 5 seconds or 300,000 entries.
///
/// # Errors
/// The folder cannot be read.
pub fn dry_run(root: &Path, rules: &Rules, words: &[String]) -> Result<RootCheck> {
    let begun = Instant::now();
    root.read_dir().io_context("read", root)?;
    let mut run = DryRun {
        root,
        rules,
        matcher: rules.matcher(root)?,
        words: words.iter().map(|it| vic_words::fold(it).into_owned()).collect(),
        folders: vec![PathBuf::new()],
        ignored_folders: Vec::new(),
        tally: Tally::default(),
    };
    let complete = run.walk(begun);
    Ok(run.tally.into_check(root, complete, begun))
}

struct DryRun<'a> {
    root: &'a Path,
    rules: &'a Rules,
    matcher: IgnoreMatcher,
    /// Folded words that the name of a counted entry holds.
    words: Vec<String>,
    /// Folders to look into, relative to the root.
    folders: Vec<PathBuf>,
    /// Ignored folders with their rule, to look into last: they can be large, as those of built programs are.
    ignored_folders: Vec<(PathBuf, &'static str)>,
    tally: Tally,
}

impl DryRun<'_> {
    /// Looks at all entries; returns false if it ended early.
    fn walk(&mut self, begun: Instant) -> bool {
        let mut entries = 0;
        while let Some((folder, ignored_by)) = self.next_folder() {
            let Ok(listed) = self.root.join(&folder).read_dir() else {
                self.leave_out("unreadable", &folder);
                continue;
            };
            for entry in listed.flatten() {
                entries += 1;
                if entries > MAX_ENTRIES || begun.elapsed() > MAX_TIME {
                    return false;
                }
                self.look_at(&entry, &folder, ignored_by);
            }
        }
        true
    }

    fn next_folder(&mut self) -> Option<(PathBuf, Option<&'static str>)> {
        let ignored = |(folder, rule)| (folder, Some(rule));
        self.folders.pop().map(|it| (it, None)).or_else(|| self.ignored_folders.pop().map(ignored))
    }

    /// Counts an entry of a folder, which the rule `ignored_by` leaves out as a whole.
    fn look_at(&mut self, entry: &DirEntry, folder: &Path, ignored_by: Option<&'static str>) {
        let (path, relative) = (entry.path(), folder.join(entry.file_name()));
        let is_dir = entry.file_type().is_ok_and(|it| it.is_dir());
        if self.rules.excludes(&path) {
            return self.leave_out("excluded", &relative);
        }
        if let Some(rule) = ignored_by.or_else(|| self.matcher.hiding_rule(&path, is_dir)) {
            self.leave_out(rule, &relative);
            let is_ignored = ["ignore_file", "ignore_setting"].contains(&rule);
            if is_dir && is_ignored && !self.words.is_empty() && !unresponsive::is_unresponsive(&path) {
                self.ignored_folders.push((relative, rule));
            }
            return;
        }
        if is_dir {
            match unresponsive::is_unresponsive(&path) {
                true => self.leave_out("unreadable", &relative),
                false => self.folders.push(relative),
            }
            return;
        }
        let Ok(metadata) = entry.metadata() else { return self.leave_out("unreadable", &relative) };
        self.count_file(&self.rules.to_found_file(self.root, &relative, &FileStat::from(&metadata)));
    }

    fn count_file(&mut self, found: &FoundFile) {
        if !self.holds_words(&found.path) {
            return;
        }
        self.tally.files += 1;
        match found.skip {
            Some(reason) => self.leave_out(reason.name(), &found.path),
            None => {
                self.tally.read_files += 1;
                self.tally.bytes += found.size;
                let extension = found.path.extension().map(|it| it.to_string_lossy().to_lowercase());
                *self.tally.types.entry(extension.unwrap_or_default()).or_default() += 1;
            }
        }
    }

    fn leave_out(&mut self, rule: &'static str, relative: &Path) {
        if !self.holds_words(relative) {
            return;
        }
        let (count, examples) = self.tally.left_out.entry(rule).or_default();
        *count += 1;
        if examples.len() < MAX_EXAMPLES {
            examples.push(display_path(relative).into_owned());
        }
    }

    fn holds_words(&self, relative: &Path) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let name = relative.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = vic_words::fold(&name);
        self.words.iter().all(|it| name.contains(it))
    }
}

impl Tally {
    fn into_check(self, root: &Path, complete: bool, begun: Instant) -> RootCheck {
        let to_rule = |(rule, (count, examples)): (&str, _)| LeftOut { rule: rule.to_string(), count, examples };
        let mut types: Vec<TypeCount> =
            self.types.into_iter().map(|(extension, count)| TypeCount { extension, count }).collect();
        types.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.extension.cmp(&b.extension)));
        types.truncate(MAX_TYPES);
        RootCheck {
            path: display_path(root).into_owned(),
            files: self.files,
            read_files: self.read_files,
            bytes: self.bytes,
            complete,
            left_out: self.left_out.into_iter().map(to_rule).collect(),
            types,
            seconds: begun.elapsed().as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WalkConfig;
    use crate::files::walk::tests::config;

    #[test]
    fn each_entry_is_counted_under_the_rule_that_leaves_it_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for (file, content) in [
            ("a.txt", "text"),
            ("b.TXT", "text"),
            ("empty.md", ""),
            ("notes.bak", "x"),
            ("build/out.o", "x"),
            (".hidden/x.txt", "x"),
            (".git/config", "x"),
            ("id_rsa", "x"),
            (".vicignore", "build/\n"),
        ] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), content).unwrap();
        }
        std::os::unix::fs::symlink("a.txt", root.join("link.txt")).unwrap();
        let rules = Rules::new(&WalkConfig { ignore: vec!["*.bak".into()], ..config() }).unwrap();
        let check = dry_run(root, &rules, &[]).unwrap();
        let counts: Vec<(&str, u64)> = check.left_out.iter().map(|it| (it.rule.as_str(), it.count)).collect();
        let expected = [
            ("empty", 1),
            ("excluded", 1),
            ("hidden", 2),
            ("ignore_file", 1),
            ("ignore_setting", 1),
            ("secret", 1),
            ("symlink", 1),
        ];
        assert_eq!(counts, expected);
        assert_eq!((check.files, check.read_files, check.bytes, check.complete), (5, 2, 8, true));
        assert_eq!(check.types, [TypeCount { extension: "txt".into(), count: 2 }]);
        assert_eq!(check.left_out[3].examples, ["build"]);
        assert!(dry_run(&root.join("missing"), &rules, &[]).is_err());
        // Names are looked for in ignored folders too, without case.
        let named = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|it| (*it).to_string()).collect();
            let check = dry_run(root, &rules, &words).unwrap();
            let left_out: Vec<_> = check.left_out.into_iter().map(|it| (it.rule, it.count, it.examples)).collect();
            (check.files, left_out)
        };
        assert_eq!(named(&["OUT", "o"]), (0, vec![("ignore_file".into(), 1, vec!["build/out.o".into()])]));
        assert_eq!(named(&["notes"]).1, [("ignore_setting".to_string(), 1, vec!["notes.bak".to_string()])]);
        assert_eq!(named(&["b.txt"]), (1, Vec::new()));
    }
}
