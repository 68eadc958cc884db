//! Matches paths below a root against the ignore files in the root (`.vicignore`, `.ignore`, `.gitignore`).
//!
//! The `ignore` crate compiles the lines of these files, but vic reads the files itself: the crate would open anything of
//! such a name, and a named pipe would block the walk for ever.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, Glob};
use ignore::overrides::Override;

use crate::files::open::{ReadRefusal, read_regular};

/// Names of the ignore files in a folder, highest precedence first; the file of [`git_exclude_file`] has the lowest
/// precedence.
pub(super) const RULE_FILES: [&str; 3] = [".vicignore", ".ignore", ".gitignore"];

/// Only this many bytes of an ignore file are read; most ignore files are a thousand times smaller.
const MAX_BYTES: u64 = 1 << 20;

/// Only this many rules of an ignore file apply: compiling as many patterns with wildcards takes a second and 100 MiB.
const MAX_RULES: usize = 10_000;

/// A rule longer than this, in bytes, is ignored: it could only match paths that are too long to be opened.
const MAX_RULE_BYTES: usize = 4_096;

/// Problems are reported for at most this many ignore files.
const MAX_PROBLEMS: usize = 100;

/// Decides which entries below a root are ignored. An ignore file is read and cached when the first entry in its folder or
/// below it is checked.
#[derive(Debug)]
pub(crate) struct IgnoreMatcher {
    root: PathBuf,
    hidden: bool,
    overrides: Override,
    /// Roots below this root. Rules from outside such a root do not apply inside it, because the user indexed it
    /// explicitly.
    nested_roots: Vec<PathBuf>,
    folders: RwLock<HashMap<OsString, RuleChain>>,
    problems: Mutex<BTreeMap<PathBuf, String>>,
}

/// A rule of an ignore file.
#[derive(Debug)]
pub(super) struct FileRule {
    pub(super) file: PathBuf,
    /// Folder to which paths in the rule are relative.
    pub(super) folder: PathBuf,
    pub(super) rule: String,
}

/// The rules that apply in a folder: those of the nearest folder that has rules, either this folder or one above it.
type RuleChain = Option<Arc<FolderRules>>;

/// The rules of one folder, one set for each kind of ignore file.
#[derive(Debug)]
struct FolderRules {
    above: RuleChain,
    kinds: Vec<Gitignore>,
}

impl IgnoreMatcher {
    /// Creates a matcher without reading any file. With `hidden`, hidden entries are visible too. `named` lists all
    /// roots; only those below this root matter.
    pub(super) fn new(root: &Path, hidden: bool, overrides: Override, named: &[PathBuf]) -> IgnoreMatcher {
        let (folders, problems) = Default::default();
        let nested_roots = named.iter().filter(|it| it.starts_with(root) && *it != root).cloned().collect();
        IgnoreMatcher { root: root.to_path_buf(), hidden, overrides, nested_roots, folders, problems }
    }

    /// Returns whether an entry is ignored, itself or because of a folder above it. `relative` is the path relative to the
    /// root.
    pub(crate) fn hides(&self, relative: &Path, is_dir: bool) -> bool {
        self.hidden_on_way(relative, is_dir).is_some()
    }

    /// Returns the entry whose own rule hides an entry or a folder above it, and whether it is a folder. Of several, it is the
    /// topmost, except that beside a nested root it is the nearest of the folders that lead to that root.
    fn hidden_on_way(&self, relative: &Path, is_dir: bool) -> Option<(PathBuf, bool)> {
        let mut way: Vec<&Path> = relative.ancestors().filter(|it| !it.as_os_str().is_empty()).collect();
        way.reverse();
        let mut entries = way.into_iter().map(|it| (self.root.join(it), is_dir || it != relative));
        entries
            .find_map(|(path, is_dir)| self.hiding_entry(&path, is_dir).map(|(it, is_dir)| (it.to_path_buf(), is_dir)))
    }

    /// Returns which rule hides an entry or a folder above it, as [`IgnoreMatcher::hiding_rule`] does.
    pub(super) fn hiding_rule_on_way(&self, relative: &Path, is_dir: bool) -> Option<&'static str> {
        let (hidden, is_dir) = self.hidden_on_way(relative, is_dir)?;
        self.rule_for(&hidden, is_dir)
    }

    /// Returns the rule of an ignore file that hides an entry or a folder above it; `None` if no ignore file does.
    pub(super) fn hiding_file_rule(&self, relative: &Path, is_dir: bool) -> Option<FileRule> {
        let (hidden, is_dir) = self.hidden_on_way(relative, is_dir)?;
        let describe = |rules: &Gitignore, glob: &Glob| {
            let (file, folder) = (glob.from()?.to_path_buf(), rules.path().to_path_buf());
            Some(FileRule { file, folder, rule: glob.original().to_string() })
        };
        match self.match_rules(hidden.parent()?, &hidden, is_dir, describe) {
            Match::Ignore(rule) => rule,
            _ => None,
        }
    }

    /// Returns whether an entry of a visible folder is ignored. `path` is absolute.
    pub(super) fn hides_entry(&self, path: &Path, is_dir: bool) -> bool {
        self.hiding_entry(path, is_dir).is_some()
    }

    /// Returns the entry whose own rule hides an entry of a visible folder, and whether it is a folder.
    fn hiding_entry<'p>(&self, path: &'p Path, is_dir: bool) -> Option<(&'p Path, bool)> {
        let own = || self.is_ignored(path, is_dir).then_some((path, is_dir));
        if self.nested_roots.is_empty() {
            return own();
        }
        if self.leads_to_nested_root(path) {
            return None;
        }
        // If a folder that leads to a nested root is ignored, everything in it is ignored except the folders that lead to
        // that root.
        let folders = path.ancestors().skip(1).take_while(|it| !self.is_rule_boundary(it));
        let hidden = folders.filter(|it| self.leads_to_nested_root(it)).find(|it| self.is_ignored(it, true));
        hidden.map(|it| (it, true)).or_else(own)
    }

    fn leads_to_nested_root(&self, path: &Path) -> bool {
        self.nested_roots.iter().any(|it| it.starts_with(path))
    }

    /// Returns whether rules of the folders above do not apply in this folder, because it is the root or a nested root.
    fn is_rule_boundary(&self, folder: &Path) -> bool {
        folder == self.root || self.nested_roots.iter().any(|it| it == folder)
    }

    fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        self.rule_for(path, is_dir).is_some()
    }

    /// Returns which rule hides an entry of a visible folder, as [`IgnoreMatcher::hides_entry`] decides: `ignore_setting`,
    /// `ignore_file` or `hidden`; `None` if the entry is visible.
    pub(super) fn hiding_rule(&self, path: &Path, is_dir: bool) -> Option<&'static str> {
        let (hidden, is_dir) = self.hiding_entry(path, is_dir)?;
        self.rule_for(hidden, is_dir)
    }

    /// Returns which rule matches an entry itself.
    fn rule_for(&self, path: &Path, is_dir: bool) -> Option<&'static str> {
        let folder = path.parent()?;
        let is_dotted = || path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        match self.overrides.matched(path, is_dir).map(drop) {
            Match::Ignore(()) => return Some("ignore_setting"),
            Match::Whitelist(()) => return None,
            Match::None => (),
        }
        match self.match_rules(folder, path, is_dir, |_, _| ()) {
            Match::Ignore(()) => Some("ignore_file"),
            Match::Whitelist(()) => None,
            Match::None => (!self.hidden && is_dotted()).then_some("hidden"),
        }
    }

    /// Removes and returns the problems of the ignore files read so far, keyed by path of the file.
    pub(super) fn take_problems(&self) -> BTreeMap<PathBuf, String> {
        std::mem::take(&mut *self.problems.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns what the ignore files say about an entry, with a description of the rule that decides.
    fn match_rules<T>(
        &self,
        folder: &Path,
        path: &Path,
        is_dir: bool,
        describe: impl FnOnce(&Gitignore, &Glob) -> T,
    ) -> Match<T> {
        let Some(nearest) = self.rule_chain(folder) else { return Match::None };
        for kind in 0..=RULE_FILES.len() {
            let mut at = Some(&nearest);
            while let Some(rules) = at {
                let matched = rules.kinds[kind].matched(path, is_dir);
                if !matched.is_none() {
                    return matched.map(|it| describe(&rules.kinds[kind], it));
                }
                at = rules.above.as_ref();
            }
        }
        Match::None
    }

    fn rule_chain(&self, folder: &Path) -> RuleChain {
        if let Some(known) = self.cached_chain(folder) {
            return known;
        }
        // Finds the nearest folder with a cached chain, then reads the ignore files of the folders below it, from top to
        // bottom.
        let unknown: Vec<&Path> =
            folder.ancestors().take_while(|it| it.starts_with(&self.root) && self.cached_chain(it).is_none()).collect();
        let mut chain = unknown.last().and_then(|it| self.cached_chain(it.parent()?)).flatten();
        for folder in unknown.into_iter().rev() {
            let above = chain.filter(|_| !self.is_rule_boundary(folder));
            chain = self.read_folder_rules(folder, above);
            let mut folders = self.folders.write().unwrap_or_else(PoisonError::into_inner);
            folders.insert(folder.as_os_str().to_os_string(), chain.clone());
        }
        chain
    }

    fn cached_chain(&self, folder: &Path) -> Option<RuleChain> {
        self.folders.read().unwrap_or_else(PoisonError::into_inner).get(folder.as_os_str()).cloned()
    }

    fn read_folder_rules(&self, folder: &Path, above: RuleChain) -> RuleChain {
        let mut kinds: Vec<Gitignore> =
            RULE_FILES.iter().map(|name| self.read_rule_file(folder, folder.join(name))).collect();
        kinds.push(git_exclude_file(folder).map_or_else(Gitignore::empty, |file| self.read_rule_file(folder, file)));
        match kinds.iter().all(Gitignore::is_empty) {
            true => above,
            false => Some(Arc::new(FolderRules { above, kinds })),
        }
    }

    /// Returns the rules of an ignore file; empty when the file is missing or has no valid rule.
    fn read_rule_file(&self, folder: &Path, file: PathBuf) -> Gitignore {
        let (bytes, is_cut) = match read_regular(&file, MAX_BYTES) {
            Ok(Some(read)) => read,
            Ok(None) => return Gitignore::empty(),
            Err(why) => {
                self.note_problem(&file, explain_unread(&file, &why));
                return Gitignore::empty();
            }
        };
        let (rules, wrong) = compile_rules(folder, &file, &bytes, is_cut);
        if let Some(wrong) = wrong {
            self.note_problem(&file, wrong);
        }
        rules
    }

    fn note_problem(&self, file: &Path, sentence: String) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < MAX_PROBLEMS {
            problems.insert(file.to_path_buf(), sentence);
        }
    }
}

fn explain_unread(file: &Path, why: &ReadRefusal) -> String {
    let file = file.display();
    match why {
        ReadRefusal::Type(it) => {
            let name = match it {
                it if it.is_fifo() => "a named pipe",
                it if it.is_socket() => "a socket",
                it if it.is_dir() => "a folder",
                _ => "a device",
            };
            format!(
                "`{file}` is {name}, not a file: it was not opened, and its rules do not apply; remove or rename it"
            )
        }
        ReadRefusal::Refused(error) => {
            format!("cannot read the ignore rules in `{file}`: {error}")
        }
    }
}

/// Compiles the rules of an ignore file, and describes the lines that are not applied.
fn compile_rules(folder: &Path, file: &Path, bytes: &[u8], is_cut: bool) -> (Gitignore, Option<String>) {
    let (mut builder, mut obeyed, mut wrong) = (GitignoreBuilder::new(folder), 0, Vec::new());
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines: Vec<&[u8]> = bytes.split(|it| *it == b'\n').collect();
    if is_cut {
        lines.pop();
        wrong.push(format!("`{}` has more than {MAX_BYTES} bytes: the rest is ignored", file.display()));
    }
    let mut refused = InvalidLines::default();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with(b"#")) {
        if obeyed == MAX_RULES {
            wrong.push(format!("`{}` has more than {MAX_RULES} rules: the rest is ignored", file.display()));
            break;
        }
        let added = match std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)) {
            Ok(line) if line.len() > MAX_RULE_BYTES => Err(format!("the line has more than {MAX_RULE_BYTES} bytes")),
            Ok(line) => builder.add_line(Some(file.to_path_buf()), line).map(drop).map_err(|error| error.to_string()),
            Err(_) => Err("it is not UTF-8".into()),
        };
        match added {
            Ok(()) => obeyed += usize::from(!line.is_empty()),
            Err(why) => refused.note(index + 1, why),
        }
    }
    wrong.extend(refused.sentence(file));
    let rules = builder.build().unwrap_or_else(|error| {
        wrong.push(format!("cannot parse the rules in `{}`: {error}", file.display()));
        Gitignore::empty()
    });
    (rules, (!wrong.is_empty()).then(|| wrong.join("; ")))
}

/// The invalid lines of an ignore file: the first one with its line number and problem, and the number of others.
#[derive(Default)]
struct InvalidLines {
    first: Option<(usize, String)>,
    others: usize,
}

impl InvalidLines {
    fn note(&mut self, line: usize, why: String) {
        match self.first {
            None => self.first = Some((line, why)),
            Some(_) => self.others += 1,
        }
    }

    fn sentence(self, file: &Path) -> Option<String> {
        let (line, why) = self.first?;
        let others = if self.others == 0 { String::new() } else { format!(" (and {} more lines)", self.others) };
        Some(format!("line {line} of `{}` is not a valid rule: {why}{others}", file.display()))
    }
}

/// Returns the path of git's `info/exclude` for a repository in this folder; in a worktree, it lies in the main
/// repository.
fn git_exclude_file(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    let kind = git.metadata().ok()?;
    if kind.is_dir() {
        return Some(git.join("info/exclude"));
    }
    let line = first_line(&git)?;
    let git_dir = folder.join(OsStr::from_bytes(line.strip_prefix(b"gitdir: ")?));
    let common = git_dir.join(OsStr::from_bytes(&first_line(&git_dir.join("commondir"))?));
    Some(common.join("info/exclude"))
}

fn first_line(file: &Path) -> Option<Vec<u8>> {
    let (bytes, _) = read_regular(file, libc::PATH_MAX as u64).ok()??;
    Some(bytes.split(|it| *it == b'\n').next()?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::walk::tests::{config, make_fifo};
    use crate::files::{Rules, WalkToken, walk};

    fn visible(root: &Path) -> IgnoreMatcher {
        Rules::new(&config()).unwrap().matcher(root).unwrap()
    }

    /// Writes an ignore file; returns whether its rules hide `probe`, and the problems of the file.
    fn problem(text: &[u8], probe: &str) -> (bool, String) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".ignore"), text).unwrap();
        let visible = visible(dir.path());
        let hides = visible.hides(Path::new(probe), false);
        (hides, visible.take_problems().into_values().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn stronger_files_and_nearer_folders_win() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            std::fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(path), text).unwrap();
        };
        write(".gitignore", "*.log\n*.tmp\n!.github/\n/sub/only-here\n");
        write(".vicignore", "!kept.log\n");
        write("sub/.gitignore", "!*.tmp\n");
        write(".git/info/exclude", "excluded\n");
        write("tree/.git", "gitdir: ../real/worktrees/tree\n");
        write("real/worktrees/tree/commondir", "../..\n");
        write("real/info/exclude", "by-worktree\n");
        let visible = visible(dir.path());
        for (path, is_dir, hides) in [
            ("a.log", false, true),
            ("kept.log", false, false),
            ("sub/kept.log", false, false),
            ("a.tmp", false, true),
            ("sub/a.tmp", false, false),
            (".github", true, false),
            (".other", true, true),
            (".other/a.txt", false, true),
            ("sub/only-here", false, true),
            ("sub/sub/only-here", false, false),
            ("sub/excluded/a", false, true),
            ("tree/by-worktree", false, true),
            ("by-worktree", false, false),
            ("", true, false),
        ] {
            assert_eq!(visible.hides(Path::new(path), is_dir), hides, "{path}");
        }
    }

    #[test]
    fn rules_above_nested_root_do_not_apply_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join(".config/notes")).unwrap();
        std::fs::write(root.join(".gitignore"), "*.log\n").unwrap();
        std::fs::write(root.join(".config/notes/.gitignore"), "*.tmp\n").unwrap();
        let rules = Rules::new(&config()).unwrap();
        let hidden = |path: &str, is_dir: bool| rules.matcher(root).unwrap().hides(Path::new(path), is_dir);
        assert!(hidden(".config/notes", true) && hidden(".config/notes/a.md", false));
        rules.set_roots(vec![root.to_path_buf(), root.join(".config/notes"), root.with_file_name("other")]);
        for (path, is_dir, hides) in [
            (".config", true, false),
            (".config/notes", true, false),
            (".config/notes/a.log", false, false),
            (".config/notes/a.tmp", false, true),
            (".config/notes/.hidden", false, true),
            (".config/notes/sub/a.md", false, false),
            (".config/a.md", false, true),
            (".config/other/a.md", false, true),
            ("a.log", false, true),
            ("a.md", false, false),
        ] {
            assert_eq!(hidden(path, is_dir), hides, "{path}");
        }
    }

    // Case A10
    #[test]
    fn special_file_named_as_rule_file_is_never_opened() {
        for name in [".gitignore", ".ignore", ".vicignore", ".git/info/exclude"] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("root");
            let file = root.join("sub").join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(root.join("sub/a.txt"), "text").unwrap();
            let find = || {
                let (rules, mut found) = (Rules::new(&config()).unwrap(), Vec::new());
                let report = walk(&root, &rules, None, &WalkToken::default(), |it| found.push(it.path)).unwrap();
                assert!(report.complete && found == [Path::new("sub/a.txt")], "{name}: {found:?}");
                report.problems.into_iter().map(|it| it.sentence).collect::<Vec<_>>()
            };
            make_fifo(&file);
            assert!(
                find()[0].contains(&format!("sub/{name}` is a named pipe, not a file: it was not opened")),
                "{name}"
            );
            std::fs::remove_file(&file).unwrap();
            make_fifo(&dir.path().join("pipe"));
            std::os::unix::fs::symlink(dir.path().join("pipe"), &file).unwrap();
            assert!(find()[0].contains("is a named pipe"), "{name}: behind a link");
            std::fs::remove_file(&file).unwrap();
            let _socket = std::os::unix::net::UnixListener::bind(&file).unwrap();
            assert!(find()[0].contains("is a socket"), "{name}");
            std::fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
            assert!(find()[0].contains("is a device"), "{name}");
            std::fs::remove_file(&file).unwrap();
            std::fs::create_dir(&file).unwrap();
            assert!(find()[0].contains("is a folder"), "{name}");
            std::fs::remove_dir(&file).unwrap();
            std::os::unix::fs::symlink("gone", &file).unwrap();
            assert_eq!(find(), Vec::<String>::new(), "{name}: a link to nothing");
        }
    }

    // Case A10
    #[test]
    fn invalid_lines_do_not_disable_other_rules() {
        let (hides, told) = problem(b"# caf\xe9\ncaf\xe9\n\xe9\n*.log\r\n", "a.log");
        assert!(hides && told.contains("line 2 of `") && told.contains("not UTF-8 (and 1 more lines)"), "{told}");
        let (hides, told) = problem(b"\xef\xbb\xbf*.log\n[z-a]\n", "a.log");
        assert!(hides && told.contains("line 2 of `") && told.contains("z-a"), "{told}");
    }

    // Case A10
    #[test]
    fn huge_rule_file_is_obeyed_up_to_limits() {
        let many: String = (0..=MAX_RULES).map(|it| format!("/only{it}.txt\n")).collect();
        let (hides, told) = problem(format!("*.log\n{many}").as_bytes(), "a.log");
        assert!(hides && told.contains("more than 10000 rules"), "{told}");
        let large = [b"*.log\n#".as_slice(), &vec![b'x'; MAX_BYTES as usize], b"\n*.txt\n"].concat();
        let (hides, told) = problem(&large, "a.log");
        assert!(hides && told.contains("more than 1048576 bytes"), "{told}");
        assert!(!problem(&large, "a.txt").0);
        let (hides, told) = problem(format!("{}\n*.log", "x".repeat(MAX_RULE_BYTES + 1)).as_bytes(), "a.log");
        assert!(hides && told.contains("line 1"), "{told}");
    }
}
