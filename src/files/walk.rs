//! Walks a root: finds every visible entry below it, with one `lstat` each, on all cores.
//!
//! Folders are listed by path, so a folder that is replaced by a symbolic link during the walk may be listed outside the
//! root. Entries listed there are never reported: the status of each entry is read through its folder, opened beneath the
//! root.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::error::{Error, IoContext, Result};
use crate::files::ignore_matcher::IgnoreMatcher;
use crate::files::open::Folder;
use crate::files::stat::FileStat;
use crate::files::{Rules, WalkToken, unresponsive};
use crate::model::FoundFile;

/// Maximum number of entries queued between the walking threads and the caller: a few milliseconds of walking, 300 KiB.
const ENTRY_QUEUE: usize = 1024;

/// Maximum number of problems that a walk describes; further unreadable folders are recorded without a description.
const MAX_PROBLEMS: usize = 100;

/// The result of a walk, besides the entries that it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkReport {
    /// True if the walk was completed and the root is still the same folder. If false, a file that was not found may still
    /// exist. Folders in `unreadable` do not make it false.
    pub complete: bool,
    /// Number of entries that the walk reported.
    pub entries: u64,
    /// Descriptions of what could not be read, at most a hundred.
    pub problems: Vec<WalkProblem>,
    /// Paths relative to the root at or below which the walk may have missed entries.
    pub unreadable: Vec<PathBuf>,
}

/// Number of characters shown of a path that is too long to be opened.
const MAX_SHOWN_CHARS: usize = 200;

/// A path that the walk could not read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkProblem {
    /// The path, relative to the root.
    pub path: PathBuf,
    /// One sentence that contains the absolute path, and a hint if there is one.
    pub sentence: String,
}

/// Passes every visible entry of `root` except folders to `each`, unordered; with `within`, only entries at or below
/// that path relative to the root. Symbolic links, FIFOs, secrets and so on carry the reason to skip them. If `within`
/// does not exist, the report is complete and empty. If `leash` is stopped, the report is incomplete.
///
/// # Errors
/// When the root itself is missing, not a folder, or unreadable; this says nothing about the files below it.
pub fn walk(
    root: &Path,
    rules: &Rules,
    within: Option<&Path>,
    leash: &WalkToken,
    each: impl FnMut(FoundFile),
) -> Result<WalkReport> {
    PlaceWalker::new(root, rules).walk(within, leash, each)
}

/// Walks several paths of a root one after the other. Ignore files that apply to single files are read only once.
pub struct PlaceWalker<'a> {
    root: &'a Path,
    rules: &'a Rules,
    matcher: Option<IgnoreMatcher>,
    folder: Option<Folder>,
}

impl<'a> PlaceWalker<'a> {
    /// Creates a walker without reading anything.
    pub fn new(root: &'a Path, rules: &'a Rules) -> PlaceWalker<'a> {
        PlaceWalker { root, rules, matcher: None, folder: None }
    }

    /// Walks one path, as [`walk`] does.
    ///
    /// # Errors
    /// As [`walk`].
    pub fn walk(
        &mut self,
        within: Option<&Path>,
        leash: &WalkToken,
        mut each: impl FnMut(FoundFile),
    ) -> Result<WalkReport> {
        let (root, rules) = (self.root, self.rules);
        leash.advance();
        let Some(place) = within.filter(|it| !it.as_os_str().is_empty()) else {
            is_empty_root(root)?;
            return walk_folders(root, rules, None, leash, each);
        };
        if unresponsive::is_unresponsive_beneath(root, place) {
            return Ok(unresponsive_report(root, place));
        }
        let looked = self.entry_metadata(place);
        let is_folder = looked.as_ref().is_ok_and(Metadata::is_dir);
        let single = if is_folder { None } else { Some(self.walk_single(place, looked, &mut each)?) };
        // Checks for an empty root only if the entry is missing: listing a large root for each new file would take most of
        // the time, and slow down the program that creates the files.
        let is_there = single.as_ref().is_some_and(|it| it.entries > 0);
        if !is_there && is_empty_root(root)? {
            return Ok(inconclusive(root, "is empty"));
        }
        match single {
            Some(_) if !is_there && !self.is_same_root() => {
                *self = PlaceWalker::new(root, rules);
                Ok(inconclusive(root, "was replaced while it was scanned"))
            }
            Some(report) => Ok(report),
            None => walk_folders(root, rules, Some(place), leash, each),
        }
    }

    /// Returns the metadata of one entry, through no symbolic link.
    fn entry_metadata(&mut self, relative: &Path) -> io::Result<Metadata> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => Folder::root(self.root)?,
        };
        self.folder.insert(folder).metadata(relative)
    }

    /// Returns whether the root is still the folder held open; a volume may have been mounted over it.
    fn is_same_root(&self) -> bool {
        self.folder.as_ref().is_some_and(|it| it.is_at(self.root))
    }

    /// Walks a single file without listing any folder, because the watcher walks thousands of single files.
    fn walk_single(
        &mut self,
        relative: &Path,
        looked: io::Result<Metadata>,
        mut each: impl FnMut(FoundFile),
    ) -> Result<WalkReport> {
        let (root, rules) = (self.root, self.rules);
        let mut report = WalkReport { complete: true, ..WalkReport::default() };
        if relative.ancestors().any(|it| rules.excludes(&root.join(it))) || self.is_ignored(relative)? {
            return Ok(report);
        }
        match looked {
            Ok(metadata) => {
                report.entries = 1;
                each(rules.to_found_file(root, relative, &FileStat::from(&metadata)));
            }
            // Treats a path through a symbolic link as missing: entries behind a link do not belong to the root.
            Err(error) if is_gone(&error) || error.raw_os_error() == Some(libc::ELOOP) => {}
            Err(error) => {
                let sentence = explain(root, relative, &error);
                report.problems.push(WalkProblem { path: relative.to_path_buf(), sentence });
                report.unreadable.push(relative.to_path_buf());
            }
        }
        Ok(report)
    }

    fn is_ignored(&mut self, relative: &Path) -> Result<bool> {
        let matcher = match self.matcher.take() {
            Some(matcher) => matcher,
            None => self.rules.matcher(self.root)?,
        };
        Ok(self.matcher.insert(matcher).hides(relative, false))
    }
}

fn walk_folders(
    root: &Path,
    rules: &Rules,
    within: Option<&Path>,
    leash: &WalkToken,
    mut each: impl FnMut(FoundFile),
) -> Result<WalkReport> {
    let walk = RootWalk::new(root, rules, leash)?;
    let builder = walk.builder(within);
    let mut entries = 0;
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(ENTRY_QUEUE);
        let walk = &walk;
        scope.spawn(move || builder.build_parallel().run(|| walk.visitor(sender.clone())));
        for found in receiver {
            entries += 1;
            each(found);
        }
    });
    walk.report(entries)
}

/// Returns the report for an unresponsive path, which is not read because that would block the walk.
fn unresponsive_report(root: &Path, place: &Path) -> WalkReport {
    let problem = WalkProblem { path: place.to_path_buf(), sentence: explain_unresponsive(&root.join(place)) };
    let unreadable = vec![place.to_path_buf()];
    WalkReport { complete: true, problems: vec![problem], unreadable, ..WalkReport::default() }
}

fn explain_unresponsive(place: &Path) -> String {
    format!("`{}` does not answer; its files stay in the index", place.display())
}

/// Returns an incomplete report, which deletes nothing: an unmounted volume leaves an empty folder behind, so a missing
/// file does not prove that it was deleted.
fn inconclusive(root: &Path, why: &str) -> WalkReport {
    let sentence = format!("`{}` {why}", root.display());
    WalkReport { problems: vec![WalkProblem { path: PathBuf::new(), sentence }], ..WalkReport::default() }
}

/// Returns whether the root is empty; fails if it is not a folder or cannot be read.
fn is_empty_root(root: &Path) -> Result<bool> {
    if !root.metadata().io_context("read", root)?.is_dir() {
        return Err(Error::invalid(format!("`{}` is not a folder", root.display())));
    }
    Ok(root.read_dir().io_context("read", root)?.next().is_none())
}

struct RootWalk<'a> {
    root: &'a Path,
    folder: Folder,
    rules: &'a Rules,
    leash: &'a WalkToken,
    failures: Mutex<Failures>,
    visible: Arc<IgnoreMatcher>,
    /// Folders that were skipped because they do not respond.
    unresponsive: Arc<Mutex<Vec<PathBuf>>>,
}

#[derive(Default)]
struct Failures {
    problems: Vec<WalkProblem>,
    unreadable: BTreeSet<PathBuf>,
    /// Error if the root itself could not be listed.
    root: Option<Error>,
}

/// The folder of the last entry that a thread handled; the next entry is usually in the same folder.
type LastFolder = Option<(PathBuf, Folder)>;

impl<'a> RootWalk<'a> {
    fn new(root: &'a Path, rules: &'a Rules, leash: &'a WalkToken) -> Result<RootWalk<'a>> {
        let folder = Folder::root(root).io_context("read", root)?;
        let visible = Arc::new(rules.matcher(root)?);
        Ok(RootWalk { root, folder, rules, leash, failures: Mutex::default(), visible, unresponsive: Arc::default() })
    }

    fn builder(&self, within: Option<&Path>) -> WalkBuilder {
        let mut builder = WalkBuilder::new(self.root);
        // Disables the filters of the crate, so that it does not open ignore files itself.
        builder.standard_filters(false).follow_links(false).same_file_system(false);
        builder.threads(std::thread::available_parallelism().map_or(1, usize::from));
        let (root, rules, visible) = (self.root.to_path_buf(), self.rules.clone(), self.visible.clone());
        // Walks from the root even if `within` is a subfolder, so that the ignore files of the folders above it apply.
        let within = within.map(|it| root.join(it));
        let passed_over = self.unresponsive.clone();
        builder.filter_entry(move |entry| {
            let path = entry.path();
            let is_dir = entry.file_type().is_some_and(|it| it.is_dir());
            let on_the_way = within.as_ref().is_none_or(|it| it.starts_with(path) || path.starts_with(it));
            let is_left_out = || rules.excludes(path) || visible.hides_entry(path, is_dir);
            let is_seen = on_the_way && (entry.depth() == 0 || !is_left_out());
            let is_silent = is_seen && is_dir && unresponsive::is_unresponsive(path);
            if is_silent {
                passed_over.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_path_buf());
            }
            is_seen && !is_silent
        });
        builder
    }

    fn visitor<'s>(
        &'s self,
        sender: SyncSender<FoundFile>,
    ) -> Box<dyn FnMut(Result<DirEntry, ignore::Error>) -> WalkState + Send + 's> {
        let mut last = None;
        Box::new(move |entry| {
            if !self.leash.advance() {
                return WalkState::Quit;
            }
            match entry {
                Ok(entry) => {
                    if let Some(found) = self.to_found_file(&entry, &mut last)
                        && sender.send(found).is_err()
                    {
                        return WalkState::Quit;
                    }
                }
                Err(error) => self.note_error(&error),
            }
            WalkState::Continue
        })
    }

    fn to_found_file(&self, entry: &DirEntry, last: &mut LastFolder) -> Option<FoundFile> {
        if entry.file_type().is_some_and(|it| it.is_dir()) {
            return None;
        }
        let relative = entry.path().strip_prefix(self.root).ok()?;
        let (parent, name) = (relative.parent()?, relative.file_name()?);
        let folder = match self.open_parent(parent, last) {
            Ok(folder) => folder,
            Err(error) => {
                self.note_missed(parent, error);
                return None;
            }
        };
        match folder.status(name) {
            // Skips an entry that was a file when listed and is a folder now: the next event or walk finds the files in
            // it.
            Ok(status) if status.kind().is_dir() => None,
            Ok(status) => Some(self.rules.to_found_file(self.root, relative, &status)),
            Err(error) => {
                self.note_missed(relative, error);
                None
            }
        }
    }

    fn open_parent<'l>(&self, relative: &Path, last: &'l mut LastFolder) -> io::Result<&'l Folder> {
        // Compares the paths as bytes, which is many times faster than by component.
        let kept = last.take().filter(|(path, _)| path.as_os_str() == relative.as_os_str());
        let kept = match kept {
            Some(kept) => kept,
            None => (relative.to_path_buf(), self.folder.beneath(relative)?),
        };
        Ok(&last.insert(kept).1)
    }

    fn note_missed(&self, relative: &Path, error: io::Error) {
        let err = Box::new(ignore::Error::Io(error));
        self.note_error(&ignore::Error::WithPath { path: self.root.join(relative), err });
    }

    /// Records an error of the walk at a path; entries at or below that path were missed.
    fn note_error(&self, error: &ignore::Error) {
        if error.io_error().is_some_and(is_gone) && error.depth() != Some(0) {
            return;
        }
        let path = path_of(error).unwrap_or(self.root);
        let relative = path.strip_prefix(self.root).unwrap_or(Path::new(""));
        if relative.as_os_str().is_empty() {
            let error = error.io_error().map_or_else(
                || Error::internal(format!("cannot read `{}`: {error}", self.root.display())),
                |it| Error::io("read", self.root, it),
            );
            self.failures().root.get_or_insert(error);
            return;
        }
        self.note_at(relative, true, || match error.io_error() {
            Some(error) => explain(self.root, relative, error),
            None => format!("cannot read `{}`: {error}", path.display()),
        });
    }

    /// Records a problem at a path with this sentence. Does nothing if the path no longer exists; if the path now leads
    /// out of the root, records that instead. `hides` tells whether entries at the path were missed.
    fn note_at(&self, relative: &Path, hides: bool, sentence: impl FnOnce() -> String) {
        match self.broken_prefix(relative) {
            Some((_, broken)) if is_gone(&broken) => {}
            Some((place, broken)) => self.record(place, explain(self.root, place, &broken), true),
            None => self.record(relative, sentence(), hides),
        }
    }

    /// Returns the first part of the path that does not exist or leads out of the root, if there is one. Names after this
    /// part may come from outside the root and must not be reported.
    fn broken_prefix<'p>(&self, relative: &'p Path) -> Option<(&'p Path, io::Error)> {
        let error = self.folder.metadata(relative).err()?;
        if !is_gone(&error) && error.raw_os_error() != Some(libc::ELOOP) {
            return None;
        }
        let way: Vec<&Path> = relative.ancestors().filter(|it| !it.as_os_str().is_empty()).collect();
        way.into_iter().rev().find_map(|it| {
            let error = self.folder.beneath(it).err()?;
            // If the parent became a link after it was checked, returns the parent instead.
            let place = if is_gone(&error) || self.has_entry(it) { it } else { it.parent()? };
            Some((place, error))
        })
    }

    /// Returns whether a folder within the root has an entry of this name; always true directly in the root, whose
    /// entries cannot come from outside.
    fn has_entry(&self, relative: &Path) -> bool {
        let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else { return false };
        parent.as_os_str().is_empty() || self.folder.beneath(parent).is_ok_and(|it| it.status(name).is_ok())
    }

    fn record(&self, place: &Path, sentence: String, hides: bool) {
        let mut failures = self.failures();
        if hides && !failures.unreadable.insert(place.to_path_buf()) {
            // Reports an unreadable folder once, not for each of its entries.
            return;
        }
        if failures.problems.len() < MAX_PROBLEMS {
            failures.problems.push(WalkProblem { path: place.to_path_buf(), sentence });
        }
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(self, entries: u64) -> Result<WalkReport> {
        // If the root was replaced, folders were listed in the new root and their entries looked up in the old one, so the
        // walk is incomplete.
        let is_same = self.folder.is_at(self.root);
        if !is_same {
            let sentence = format!("`{}` was replaced while it was walked", self.root.display());
            self.record(Path::new(""), sentence, false);
        }
        for place in std::mem::take(&mut *self.unresponsive.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.record(place.strip_prefix(self.root).unwrap_or(&place), explain_unresponsive(&place), true);
        }
        for (place, sentence) in self.visible.take_problems() {
            self.note_at(place.strip_prefix(self.root).unwrap_or(&place), false, || sentence);
        }
        let failures = self.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failures.root {
            return Err(error);
        }
        let complete = is_same && !self.leash.is_stopped();
        let unreadable = failures.unreadable.into_iter().collect();
        Ok(WalkReport { complete, entries, problems: failures.problems, unreadable })
    }
}

/// Passes every visible folder of `root` to `each`, parents first and before their entries are listed; with `within`,
/// only those at or below that path relative to the root. Stops when `each` returns false. Does not use the `ignore` crate,
/// which opens a folder before it calls the filter: unreadable and unresponsive folders must be skipped without opening.
pub(crate) fn visible_folders(
    root: &Path,
    rules: &Rules,
    within: &Path,
    mut each: impl FnMut(&Path) -> bool,
) -> Result<()> {
    let (matcher, start) = (rules.matcher(root)?, root.join(within));
    let is_visible = |folder: &Path| {
        let on_the_way = start.starts_with(folder) || folder.starts_with(&start);
        on_the_way && !rules.excludes(folder) && !matcher.hides_entry(folder, true)
    };
    let mut left = vec![root.to_path_buf()];
    while let Some(folder) = left.pop() {
        if folder.starts_with(&start) && !each(&folder) {
            break;
        }
        let Ok(entries) = folder.read_dir() else { continue };
        for path in entries.flatten().filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).map(|it| it.path()) {
            if is_visible(&path) && !unresponsive::is_unresponsive(&path) {
                left.push(path);
            }
        }
    }
    Ok(())
}

fn explain(root: &Path, relative: &Path, error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::ENAMETOOLONG) {
        return explain_length(&root.join(relative));
    }
    if error.raw_os_error() == Some(libc::ELOOP) {
        let path = root.join(relative);
        return format!("`{}` became a link or a file while it was walked; the next walk tries again", path.display());
    }
    let sentence = format!("cannot read `{}`: {error}", root.join(relative).display());
    if error.kind() == io::ErrorKind::PermissionDenied {
        return format!("{sentence}; let vic read it (chmod), or exclude it with a line in .vicignore");
    }
    sentence
}

/// Describes a path that is too long to be opened; only the beginning of the path is shown.
fn explain_length(path: &Path) -> String {
    let text = path.to_string_lossy();
    let begin: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    format!(
        "nothing below `{begin}`... can be opened or watched where its path has more than {} bytes; move or rename folders \
         above it, or exclude it with a line in .vicignore; all else is indexed and watched",
        libc::PATH_MAX - 1
    )
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } => path_of(err),
        _ => None,
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
pub(crate) mod tests;
