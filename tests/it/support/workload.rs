//! Runs random file operations in a folder and computes the expected content of the index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vic::model::{ContentHash, FileState, Reason};

use crate::support::client::SyncClient;
use crate::support::long_tests::Rng;

/// Name of the folder whose files no operation touches, and name of the ignore file.
pub(crate) const UNTOUCHED_FOLDER: &str = "kept";
pub(crate) const IGNORE_FILE: &str = ".vicignore";

/// The index entry that a file on disk must have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Indexed(ContentHash),
    Skipped(Reason),
    /// A state other than indexed or skipped, such as pending. The files on disk never require it, so an entry in this state
    /// fails the comparison.
    Other(FileState),
}

/// A folder that random operations change.
pub(crate) struct Workload {
    pub(crate) root: PathBuf,
    /// A folder next to the root, on the same file system, for moves into and out of the root.
    outside: PathBuf,
    pub(crate) dice: Rng,
    files: BTreeSet<PathBuf>,
    /// Files written before the operations begin, in [`UNTOUCHED_FOLDER`].
    kept: BTreeSet<PathBuf>,
    /// Names of files that an ignore rule excludes from the index.
    pub(crate) ignored: BTreeSet<String>,
    folders: BTreeSet<PathBuf>,
    pub(crate) written: u64,
    seed: u64,
}

impl Workload {
    pub(crate) fn new(root: PathBuf, seed: u64) -> Workload {
        let outside = root.with_file_name("outside");
        fs::create_dir(&outside).unwrap();
        let folders = BTreeSet::from([root.clone()]);
        let (dice, written) = (Rng::new(seed), 0);
        let (files, kept, ignored) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Workload { root, outside, dice, files, kept, ignored, folders, written, seed }
    }

    /// Returns the text of a new file, with a unique word.
    fn text(&mut self) -> String {
        self.written += 1;
        format!("Note {}: the word is {}.\n", self.written, word(self.seed, self.written))
    }

    /// Writes a file into [`UNTOUCHED_FOLDER`].
    pub(crate) fn write_untouched(&mut self) {
        let (folder, text) = (self.root.join(UNTOUCHED_FOLDER), self.text());
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("k{}.md", self.written));
        fs::write(&path, text).unwrap();
        self.kept.insert(path);
    }

    fn new_path(&mut self) -> PathBuf {
        let folder = self.dice.pick(&self.folders).unwrap();
        folder.join(format!("f{}.md", self.dice.index(80)))
    }

    fn file(&mut self) -> Option<PathBuf> {
        self.dice.pick(&self.files)
    }

    /// Returns a random file whose content can be changed: neither a symbolic link nor unreadable.
    fn open_file(&mut self) -> Option<PathBuf> {
        self.file().filter(|it| !it.is_symlink() && !is_unreadable(it))
    }

    /// Returns a random folder other than the root.
    fn folder(&mut self) -> Option<PathBuf> {
        let root = self.root.clone();
        self.dice.pick(&self.folders).filter(|it| *it != root)
    }

    /// Performs one random operation. Does nothing if no file fits the operation.
    pub(crate) fn step(&mut self) {
        match self.dice.index(100) {
            0..=27 => self.write(),
            28..=37 => self.append(),
            38..=45 => self.replace(),
            46..=55 => self.rename_file(),
            56..=61 => self.rename_folder(),
            62..=67 => self.make_folder(),
            68..=77 => self.delete_file(),
            78 => self.delete_folder(),
            79..=83 => self.move_in(),
            84..=88 => self.move_out(),
            89..=92 => self.change_mode(),
            93..=95 => self.make_link(),
            96 => self.truncate_file(),
            _ => self.date_back(),
        }
    }

    pub(crate) fn write(&mut self) {
        let (path, text) = (self.new_path(), self.text());
        // Removes the file first: a write would follow a symbolic link, and an unreadable file cannot be opened.
        if path.is_symlink() || is_unreadable(&path) {
            fs::remove_file(&path).unwrap();
        }
        fs::write(&path, text).unwrap();
        self.files.insert(path);
    }

    fn append(&mut self) {
        let text = self.text();
        if let Some(path) = self.open_file() {
            let whole = [fs::read(&path).unwrap(), text.into_bytes()].concat();
            fs::write(path, whole).unwrap();
        }
    }

    /// Replaces a file as an editor does: writes a temporary file and renames it.
    fn replace(&mut self) {
        let text = self.text();
        if let Some(path) = self.file() {
            let aside = path.with_extension("md.tmp");
            fs::write(&aside, text).unwrap();
            fs::rename(aside, path).unwrap();
        }
    }

    fn rename_file(&mut self) {
        if let Some(from) = self.file() {
            let to = self.new_path();
            fs::rename(&from, &to).unwrap();
            self.files.remove(&from);
            self.files.insert(to);
        }
    }

    fn rename_folder(&mut self) {
        let (from, into) = (self.folder(), self.dice.pick(&self.folders).unwrap());
        let Some(from) = from.filter(|it| !into.starts_with(it)) else { return };
        let to = into.join(format!("d{}", self.dice.index(30)));
        if !to.exists() && path_depth(&to) < path_depth(&self.root) + 6 {
            fs::rename(from, to).unwrap();
            self.rescan();
        }
    }

    fn make_folder(&mut self) {
        let into = self.dice.pick(&self.folders).unwrap();
        let path = into.join(format!("d{}", self.dice.index(30))).join(format!("e{}", self.dice.index(3)));
        if path_depth(&path) < path_depth(&self.root) + 6 {
            fs::create_dir_all(&path).unwrap();
            let text = self.text();
            fs::write(path.join("first.md"), text).unwrap();
            self.rescan();
        }
    }

    fn delete_file(&mut self) {
        if let Some(path) = self.file() {
            fs::remove_file(&path).unwrap();
            self.files.remove(&path);
        }
    }

    fn delete_folder(&mut self) {
        if let Some(path) = self.folder() {
            fs::remove_dir_all(path).unwrap();
            self.rescan();
        }
    }

    fn move_in(&mut self) {
        let text = self.text();
        let from = self.outside.join(format!("in-{}", self.written));
        let to = self.new_path();
        if self.dice.index(2) == 0 {
            fs::write(&from, text).unwrap();
            fs::rename(from, &to).unwrap();
        } else {
            fs::create_dir_all(from.join("deep")).unwrap();
            fs::write(from.join("deep/moved.md"), text).unwrap();
            fs::rename(from, to.with_extension(format!("d{}", self.written))).unwrap();
        }
        self.rescan();
    }

    fn move_out(&mut self) {
        let to = self.outside.join(format!("out-{}", self.dice.next()));
        let from = if self.dice.index(4) == 0 { self.folder() } else { self.file() };
        if let Some(from) = from {
            fs::rename(&from, &to).unwrap();
            // Writes into the folder after its move: changes outside the root must not reach the index.
            if to.is_dir() {
                fs::write(to.join("later.md"), "written after it had left").unwrap();
            }
            self.rescan();
        }
    }

    fn change_mode(&mut self) {
        if let Some(path) = self.file().filter(|it| !it.is_symlink()) {
            let mode = [0o600, 0o644, 0o755][self.dice.index(3)];
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    /// Makes a file unreadable. Needs a daemon without root's override of file permissions.
    pub(crate) fn make_unreadable(&mut self) {
        if let Some(path) = self.open_file() {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }
    }

    fn make_link(&mut self) {
        let to = self.new_path();
        let target = match self.dice.index(3) {
            0 => self.file(),
            1 => self.folder(),
            _ => Some(self.outside.join("nowhere")),
        };
        if let Some(target) = target.filter(|_| to.symlink_metadata().is_err()) {
            symlink(target, &to).unwrap();
            self.files.insert(to);
        }
    }

    fn truncate_file(&mut self) {
        if let Some(path) = self.open_file() {
            fs::write(path, "").unwrap();
        }
    }

    fn date_back(&mut self) {
        if let Some(path) = self.open_file() {
            let years = Duration::from_secs(365 * 24 * 3_600 * (1 + self.dice.index(20)) as u64);
            fs::File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_modified(std::time::SystemTime::now() - years)
                .unwrap();
        }
    }

    /// Lists files and folders again, after an operation that moved or deleted several files.
    fn rescan(&mut self) {
        self.files.clear();
        self.folders = BTreeSet::from([self.root.clone()]);
        let mut open = vec![self.root.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_name() == UNTOUCHED_FOLDER || entry.file_name() == IGNORE_FILE {
                    continue;
                }
                if entry.file_type().unwrap().is_dir() {
                    self.folders.insert(entry.path());
                    open.push(entry.path());
                } else {
                    self.files.insert(entry.path());
                }
            }
        }
    }

    /// Returns the index entries that the files on disk must have.
    pub(crate) fn expected(&mut self) -> BTreeMap<PathBuf, Expected> {
        self.rescan();
        let entry = |path: &PathBuf| {
            let expected = if path.is_symlink() {
                Expected::Skipped(Reason::Symlink)
            } else if is_unreadable(path) && path.metadata().unwrap().len() > 0 {
                Expected::Skipped(Reason::PermissionDenied)
            } else if is_unreadable(path) {
                Expected::Skipped(Reason::Empty)
            } else {
                let content = fs::read(path).unwrap();
                match content.is_empty() {
                    true => Expected::Skipped(Reason::Empty),
                    false => Expected::Indexed(ContentHash(*blake3::hash(&content).as_bytes())),
                }
            };
            (path.strip_prefix(&self.root).unwrap().to_path_buf(), expected)
        };
        self.indexable_files().map(entry).collect()
    }

    /// Returns every file that no ignore rule excludes.
    fn indexable_files(&self) -> impl Iterator<Item = &PathBuf> {
        let is_in = |it: &&PathBuf| !self.ignored.contains(&*it.file_name().unwrap().to_string_lossy());
        self.files.iter().chain(&self.kept).filter(is_in)
    }

    /// Asserts that the index matches the disk. Then searches 20 words of existing and former file versions.
    pub(crate) fn check(&mut self, caller: &SyncClient, at: &str) {
        let expected = self.expected();
        let look = || caller.files().into_iter().map(|(path, it)| (path, expected_of(&it))).collect();
        let mut known: BTreeMap<PathBuf, Expected> = look();
        // Waits for pending files: every job retries unreadable files, and the job of a daemon start may run after the sync.
        let begun = Instant::now();
        let are_tried = |known: &BTreeMap<PathBuf, Expected>| {
            let closed = expected.iter().filter(|(_, it)| **it == Expected::Skipped(Reason::PermissionDenied));
            closed.map(|(path, _)| known.get(path)).any(|it| it == Some(&Expected::Other(FileState::Pending)))
        };
        while are_tried(&known) && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(50));
            known = look();
        }
        let different: Vec<String> = expected
            .keys()
            .chain(known.keys())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter(|it| expected.get(*it) != known.get(*it))
            .map(|it| format!("{}: on disk {:?}, in the index {:?}", it.display(), expected.get(it), known.get(it)))
            .collect();
        assert!(different.is_empty(), "{at}: {} differ\n{}", different.len(), different.join("\n"));
        for _ in 0..20 {
            let number = 1 + self.dice.index(self.written as usize) as u64;
            self.search(caller, number, at);
        }
    }

    /// Searches a word and asserts that the hits are the files that contain it.
    pub(crate) fn search(&self, caller: &SyncClient, number: u64, at: &str) {
        let word = word(self.seed, number);
        let holds = |path: &&PathBuf| {
            !path.is_symlink()
                && !is_unreadable(path)
                && fs::read_to_string(path).unwrap().split([' ', '.']).any(|it| it == word)
        };
        let relative = |path: &PathBuf| path.strip_prefix(&self.root).unwrap().to_string_lossy().into_owned();
        let expected: BTreeSet<String> = self.indexable_files().filter(holds).map(relative).collect();
        let found = caller.hits(&format!("\"{word}\""));
        let found: BTreeSet<String> = found.into_iter().map(|it| it.path).collect();
        assert_eq!(found, expected, "{at}: files that contain `{word}`");
    }
}

fn expected_of(record: &vic::model::FileRecord) -> Expected {
    match (record.state, record.hash, record.reason) {
        (FileState::Indexed, Some(hash), _) => Expected::Indexed(hash),
        (_, _, Some(reason)) => Expected::Skipped(reason),
        (state, ..) => Expected::Other(state),
    }
}

/// Returns the unique word of the text with this number. Letters only, so that every tokenizer treats it as one word.
fn word(seed: u64, number: u64) -> String {
    let mut dice = Rng::new(seed ^ (number << 32));
    (0..14).map(|_| char::from(b'a' + dice.index(26) as u8)).collect()
}

/// Returns whether the owner of a file has no read permission.
fn is_unreadable(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.permissions().mode() & 0o400 == 0)
}

fn path_depth(path: &Path) -> usize {
    path.components().count()
}
