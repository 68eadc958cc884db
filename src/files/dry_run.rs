//! Looks what a walk of a folder would find and leave out, and by which rule, without changing anything.

use std::collections::{BTreeMap, HashMap};
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{IoContext, Result};
use crate::files::ignore_matcher::IgnoreMatcher;
use crate::files::stat::FileStat;
use crate::files::{Rules, unresponsive};
use crate::model::{LeftOut, RootCheck, TypeCount, display_path};

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

impl Tally {
    fn leave_out(&mut self, rule: &'static str, relative: &Path) {
        let (count, examples) = self.left_out.entry(rule).or_default();
        *count += 1;
        if examples.len() < MAX_EXAMPLES {
            examples.push(display_path(relative).into_owned());
        }
    }
}

/// Looks what a walk of `root` would find. Ends early after 5 seconds or 300,000 entries.
///
/// # Errors
/// The folder cannot be read.
pub fn dry_run(root: &Path, rules: &Rules) -> Result<RootCheck> {
    let begun = Instant::now();
    let matcher = rules.matcher(root)?;
    let mut tally = Tally::default();
    let (mut folders, mut entries, mut complete) = (vec![PathBuf::new()], 0, true);
    root.read_dir().io_context("read", root)?;
    'walk: while let Some(folder) = folders.pop() {
        let Ok(listed) = root.join(&folder).read_dir() else {
            tally.leave_out("unreadable", &folder);
            continue;
        };
        for entry in listed.flatten() {
            entries += 1;
            if entries > MAX_ENTRIES || begun.elapsed() > MAX_TIME {
                complete = false;
                break 'walk;
            }
            look_at(&entry, root, &folder, rules, &matcher, &mut tally, &mut folders);
        }
    }
    let left_out = tally.left_out.into_iter();
    let mut types: Vec<TypeCount> =
        tally.types.into_iter().map(|(extension, count)| TypeCount { extension, count }).collect();
    types.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.extension.cmp(&b.extension)));
    types.truncate(MAX_TYPES);
    Ok(RootCheck {
        path: display_path(root).into_owned(),
        files: tally.files,
        read_files: tally.read_files,
        bytes: tally.bytes,
        complete,
        left_out: left_out
            .map(|(rule, (count, examples))| LeftOut { rule: rule.to_string(), count, examples })
            .collect(),
        types,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn look_at(
    entry: &DirEntry,
    root: &Path,
    folder: &Path,
    rules: &Rules,
    matcher: &IgnoreMatcher,
    tally: &mut Tally,
    folders: &mut Vec<PathBuf>,
) {
    let (path, relative) = (entry.path(), folder.join(entry.file_name()));
    let is_dir = entry.file_type().is_ok_and(|it| it.is_dir());
    if rules.excludes(&path) {
        return tally.leave_out("excluded", &relative);
    }
    if let Some(rule) = matcher.hiding_rule(&path, is_dir) {
        return tally.leave_out(rule, &relative);
    }
    if is_dir {
        match unresponsive::is_unresponsive(&path) {
            true => tally.leave_out("unreadable", &relative),
            false => folders.push(relative),
        }
        return;
    }
    let Ok(metadata) = entry.metadata() else { return tally.leave_out("unreadable", &relative) };
    let found = rules.to_found_file(root, &relative, &FileStat::from(&metadata));
    tally.files += 1;
    match found.skip {
        Some(reason) => tally.leave_out(reason.name(), &relative),
        None => {
            tally.read_files += 1;
            tally.bytes += found.size;
            let extension = relative.extension().map(|it| it.to_string_lossy().to_lowercase()).unwrap_or_default();
            *tally.types.entry(extension).or_default() += 1;
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
        let check = dry_run(root, &rules).unwrap();
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
        assert!(dry_run(&root.join("missing"), &rules).is_err());
    }
}
