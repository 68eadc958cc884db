//! A disk that is built anew from the system calls of a run, as it may be found after the power went at any moment: with
//! what was synced, and with any part of what was not.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::torture::Dice;

/// Calls that are written down, with all bytes.
const CALLS: &str = "trace=openat,open,creat,write,pwrite64,writev,pwritev,lseek,ftruncate,fallocate,copy_file_range,\
    fsync,fdatasync,syncfs,sync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,close";

/// What to put before a program so that a disk can be built from its traces, a file for each thread.
pub(crate) fn launcher(prefix: &Path) -> Vec<String> {
    let prefix = prefix.to_str().unwrap();
    let strace = ["strace", "-D", "-ff", "-q", "-y", "-ttt", "-xx", "-s", "100000000", "--seccomp-bpf"];
    strace.iter().copied().chain(["-e", CALLS, "-o", prefix]).map(String::from).collect()
}

/// Which part of what was not synced is there after the power has gone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// Nothing of it.
    All,
    /// Every name and every length, but none of the bytes: zeros.
    Bytes,
    /// Every deletion, but neither new names nor bytes.
    AllButDeletions,
    /// Of each folder and of each file as much as the dice say.
    Some,
}

/// Everything that was done to a folder, in order.
pub(crate) struct Disk {
    folder: PathBuf,
    events: Vec<Event>,
}

struct Event {
    at_ns: u64,
    what: What,
}

enum What {
    Create(PathBuf),
    MakeFolder(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Truncate(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    Sync(PathBuf),
    SyncAll,
}

impl Disk {
    /// Reads the traces of a run that did everything to this folder, which was empty before.
    pub(crate) fn read(traces: &Path, folder: &Path) -> Disk {
        let mut lines: Vec<(u64, String)> = Vec::new();
        for entry in std::fs::read_dir(traces).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            lines.extend(text.lines().filter_map(|line| {
                let (time, call) = line.split_once(' ')?;
                let (seconds, micros) = time.split_once('.')?;
                let at = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
                Some((at * 1_000, call.to_owned()))
            }));
        }
        // Of one thread they are in order already.
        lines.sort_by_key(|it| it.0);
        let mut reader = Reader { folder: folder.to_owned(), places: HashMap::new(), events: Vec::new() };
        for (at_ns, call) in lines {
            reader.read(at_ns, &call);
        }
        Disk { folder: folder.to_owned(), events: reader.events }
    }

    /// Moments after which something may be lost that was not before, or the other way round.
    pub(crate) fn moments(&self) -> Vec<usize> {
        let counts = |it: &Event| !matches!(it.what, What::Write(..));
        (1..self.events.len()).filter(|it| counts(&self.events[it - 1]) || counts(&self.events[*it])).collect()
    }

    /// When that moment was.
    pub(crate) fn time_of(&self, moment: usize) -> u64 {
        self.events[moment].at_ns
    }

    /// Says what happened last before that moment.
    pub(crate) fn describe(&self, moment: usize) -> String {
        let shown = |path: &Path| path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        match &self.events[moment - 1].what {
            What::Create(path) => format!("create {}", shown(path)),
            What::MakeFolder(path) => format!("mkdir {}", shown(path)),
            What::Write(path, at, bytes) => format!("write {} at {at}, {} bytes", shown(path), bytes.len()),
            What::Truncate(path, size) => format!("truncate {} to {size}", shown(path)),
            What::Rename(from, to) => format!("rename {} to {}", shown(from), shown(to)),
            What::Link(from, to) => format!("link {} to {}", shown(from), shown(to)),
            What::Remove(path) => format!("remove {}", shown(path)),
            What::Sync(path) => format!("sync {}", shown(path)),
            What::SyncAll => "sync everything".into(),
        }
    }

    /// Builds the folder, at `to`, as the power may have left it after the first so many events.
    pub(crate) fn image(&self, moment: usize, loss: Loss, dice: &mut Dice, to: &Path) {
        let mut state = State::new(&self.folder);
        self.events[..moment].iter().for_each(|it| state.apply(&it.what));
        state.write(loss, dice, &self.folder, to);
    }
}

/// Turns calls into events.
struct Reader {
    folder: PathBuf,
    /// Where the next byte goes, by descriptor and file. None at the end, whatever is there. By the file, too: a call that
    /// opens one is written down when it begins, and may get the number of a descriptor that is still in use then.
    places: HashMap<(u32, PathBuf), Option<u64>>,
    events: Vec<Event>,
}

impl Reader {
    fn read(&mut self, at_ns: u64, line: &str) {
        let Some((call, rest)) = line.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { return };
        let result: Option<i64> = result.split(['<', ' ']).next().and_then(|it| it.parse().ok());
        let Some(result) = result.filter(|it| *it >= 0) else { return };
        let arguments = arguments.trim_end_matches([')', ' ']);
        let what = self.event(call, arguments, result, rest);
        self.events.extend(what.into_iter().map(|what| Event { at_ns, what }));
    }

    fn event(&mut self, call: &str, arguments: &str, result: i64, rest: &str) -> Vec<What> {
        let paths = || paths(arguments).into_iter().filter(|it| it.starts_with(&self.folder)).collect::<Vec<_>>();
        match call {
            "open" | "openat" | "creat" => {
                let Some(path) = paths().pop() else { return Vec::new() };
                let has = |flag: &str| arguments.contains(flag);
                self.places.insert((result as u32, path.clone()), if has("O_APPEND") { None } else { Some(0) });
                let mut events = if has("O_CREAT") { vec![What::Create(path.clone())] } else { Vec::new() };
                if has("O_TRUNC") {
                    events.push(What::Truncate(path, 0));
                }
                events
            }
            "mkdir" | "mkdirat" => paths().pop().map(What::MakeFolder).into_iter().collect(),
            "unlink" | "unlinkat" | "rmdir" => paths().pop().map(What::Remove).into_iter().collect(),
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => match &paths()[..] {
                [from, to] if call.starts_with("rename") => vec![What::Rename(from.clone(), to.clone())],
                [from, to] => vec![What::Link(from.clone(), to.clone())],
                [] => Vec::new(),
                other => panic!("{call} of {other:?}"),
            },
            "syncfs" | "sync" => vec![What::SyncAll],
            _ => self.event_of_descriptor(call, arguments, result, rest),
        }
    }

    fn event_of_descriptor(&mut self, call: &str, arguments: &str, result: i64, rest: &str) -> Vec<What> {
        let Some((descriptor, path)) = descriptor(arguments).filter(|it| it.1.starts_with(&self.folder)) else {
            return Vec::new();
        };
        let numbers: Vec<&str> = arguments.split(", ").collect();
        let last = || numbers[numbers.len() - 1].parse::<u64>().unwrap();
        match call {
            "fsync" | "fdatasync" => vec![What::Sync(path)],
            "ftruncate" => vec![What::Truncate(path, last())],
            "lseek" => {
                self.places.insert((descriptor, path), Some(result as u64));
                Vec::new()
            }
            "write" | "writev" | "pwrite64" | "pwritev" => {
                let mut bytes: Vec<u8> = quoted(arguments).into_iter().flatten().collect();
                bytes.truncate(result as usize);
                assert_eq!(bytes.len() as i64, result, "{call} is not whole in the trace");
                let at =
                    if call.starts_with('p') { Some(last()) } else { self.advance(descriptor, &path, result as u64) };
                vec![What::Write(path, at.unwrap_or(u64::MAX), bytes)]
            }
            "close" => Vec::new(),
            other => panic!("a call that nobody follows: {other}({rest}"),
        }
    }

    fn advance(&mut self, descriptor: u32, path: &Path, by: u64) -> Option<u64> {
        let place = self.places.entry((descriptor, path.to_owned())).or_insert(Some(0));
        let before = *place;
        *place = before.map(|it| it + by);
        before
    }
}

/// The file system in the middle of a run.
struct State<'a> {
    files: Vec<File<'a>>,
    /// What each path is at this moment; None is a folder.
    names: BTreeMap<PathBuf, Option<usize>>,
    folders: BTreeMap<PathBuf, Folder>,
}

#[derive(Default)]
struct File<'a> {
    changes: Vec<Change<'a>>,
    synced: usize,
    /// After all changes.
    length: u64,
}

enum Change<'a> {
    Write(u64, &'a [u8]),
    Truncate(u64),
}

#[derive(Default)]
struct Folder {
    changes: Vec<Entry>,
    synced: usize,
}

/// A change of a folder: names that go, names that come. Both at once for a rename within it.
#[derive(Clone)]
struct Entry {
    gone: Option<PathBuf>,
    come: Option<(PathBuf, Option<usize>)>,
}

impl<'a> State<'a> {
    fn new(folder: &Path) -> State<'a> {
        let names = BTreeMap::from([(folder.to_owned(), None)]);
        State { files: Vec::new(), names, folders: BTreeMap::new() }
    }

    fn apply(&mut self, what: &'a What) {
        match what {
            What::Create(path) => {
                if !self.names.contains_key(path) {
                    self.files.push(File::default());
                    self.change(None, Some((path.clone(), Some(self.files.len() - 1))));
                }
            }
            What::MakeFolder(path) => self.change(None, Some((path.clone(), None))),
            What::Write(path, at, bytes) => {
                if let Some(file) = self.file(path) {
                    let at = if *at == u64::MAX { file.length } else { *at };
                    file.length = file.length.max(at + bytes.len() as u64);
                    file.changes.push(Change::Write(at, bytes));
                }
            }
            What::Truncate(path, size) => {
                if let Some(file) = self.file(path) {
                    file.length = *size;
                    file.changes.push(Change::Truncate(*size));
                }
            }
            What::Rename(from, to) => {
                let Some(entry) = self.names.get(from).copied() else { return };
                assert!(entry.is_some(), "a folder was renamed: {}", from.display());
                if from.parent() == to.parent() {
                    self.change(Some(from.clone()), Some((to.clone(), entry)));
                } else {
                    self.change(None, Some((to.clone(), entry)));
                    self.change(Some(from.clone()), None);
                }
            }
            What::Link(from, to) => {
                if let Some(entry) = self.names.get(from).copied() {
                    self.change(None, Some((to.clone(), entry)));
                }
            }
            What::Remove(path) => self.change(Some(path.clone()), None),
            What::Sync(path) => self.sync(path),
            What::SyncAll => {
                self.files.iter_mut().for_each(|it| it.synced = it.changes.len());
                self.folders.values_mut().for_each(|it| it.synced = it.changes.len());
            }
        }
    }

    fn change(&mut self, gone: Option<PathBuf>, come: Option<(PathBuf, Option<usize>)>) {
        let folder = gone.as_ref().or(come.as_ref().map(|it| &it.0)).and_then(|it| it.parent()).unwrap().to_owned();
        if let Some(path) = &gone {
            self.names.remove(path);
        }
        if let Some((path, entry)) = &come {
            self.names.insert(path.clone(), *entry);
        }
        self.folders.entry(folder).or_default().changes.push(Entry { gone, come });
    }

    fn sync(&mut self, path: &Path) {
        match self.names.get(path) {
            Some(Some(file)) => self.files[*file].synced = self.files[*file].changes.len(),
            _ => {
                let folder = self.folders.entry(path.to_owned()).or_default();
                folder.synced = folder.changes.len();
            }
        }
    }

    /// None for a file that has no name any more.
    fn file(&mut self, path: &Path) -> Option<&mut File<'a>> {
        let file = self.names.get(path).copied().flatten()?;
        Some(&mut self.files[file])
    }

    fn write(&self, loss: Loss, dice: &mut Dice, folder: &Path, to: &Path) {
        let mut names: BTreeMap<PathBuf, Option<usize>> = BTreeMap::new();
        for it in self.folders.values() {
            let kept = it.synced + it.kept(loss, dice);
            it.changes[..kept].iter().for_each(|entry| entry.apply(&mut names));
            if let Loss::AllButDeletions = loss {
                let later = it.changes[kept..].iter().filter(|it| it.come.is_none());
                later.for_each(|entry| entry.apply(&mut names));
            }
        }
        std::fs::create_dir_all(to).unwrap();
        // Folders come before what is in them. What lies in a folder whose name was lost is lost with it.
        for (path, entry) in names {
            let path = to.join(path.strip_prefix(folder).unwrap());
            let is_reachable = path.parent().is_some_and(Path::is_dir);
            let is_memory = path.to_string_lossy().ends_with("-shm") || path.extension().is_some_and(|it| it == "sock");
            match entry {
                _ if !is_reachable || is_memory => (),
                None => std::fs::create_dir_all(path).unwrap(),
                Some(file) => std::fs::write(path, self.files[file].after(loss, dice)).unwrap(),
            }
        }
    }
}

impl Folder {
    /// How many of the changes that were not synced are there.
    fn kept(&self, loss: Loss, dice: &mut Dice) -> usize {
        let unsynced = self.changes.len() - self.synced;
        match loss {
            Loss::All | Loss::AllButDeletions => 0,
            Loss::Bytes => unsynced,
            Loss::Some => dice.below(unsynced as u64 + 1) as usize,
        }
    }
}

impl Entry {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Option<usize>>) {
        if let Some(path) = &self.gone {
            names.remove(path);
        }
        if let Some((path, entry)) = &self.come {
            names.insert(path.clone(), *entry);
        }
    }
}

impl File<'_> {
    fn content(&self, changes: usize) -> Vec<u8> {
        let mut content = Vec::new();
        for change in &self.changes[..changes] {
            match change {
                Change::Truncate(size) => content.resize(*size as usize, 0),
                Change::Write(at, bytes) => {
                    let end = *at as usize + bytes.len();
                    content.resize(content.len().max(end), 0);
                    content[*at as usize..end].copy_from_slice(bytes);
                }
            }
        }
        content
    }

    fn after(&self, loss: Loss, dice: &mut Dice) -> Vec<u8> {
        let unsynced = self.changes.len() - self.synced;
        match loss {
            Loss::All | Loss::AllButDeletions => self.content(self.synced),
            Loss::Some => self.content(self.synced + dice.below(unsynced as u64 + 1) as usize),
            Loss::Bytes => {
                let mut content = self.content(self.synced);
                content.resize(self.length as usize, 0);
                content
            }
        }
    }
}

/// The number and the path of the descriptor that a call begins with.
fn descriptor(arguments: &str) -> Option<(u32, PathBuf)> {
    let (number, rest) = arguments.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    Some((number.parse().ok()?, path_of(decode(path)?)))
}

/// Paths among the arguments; a relative one is joined to the folder that its descriptor stands for.
fn paths(arguments: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut parts = arguments.split('"');
    while let (Some(before), Some(path)) = (parts.next(), parts.next()) {
        let folder = before.rsplit_once('>').and_then(|(it, _)| it.rsplit_once('<')).map_or("", |(_, folder)| folder);
        let folder = path_of(decode(folder).unwrap_or_default());
        found.push(folder.join(path_of(decode(path).unwrap_or_default())));
    }
    found
}

fn quoted(arguments: &str) -> Vec<Vec<u8>> {
    arguments.split('"').skip(1).step_by(2).filter_map(decode).collect()
}

/// `\x61\x62` to `ab`; None for anything else.
fn decode(text: &str) -> Option<Vec<u8>> {
    text.split("\\x").skip(1).map(|it| u8::from_str_radix(it, 16).ok()).collect()
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[test]
fn a_disk_keeps_what_was_synced_and_as_much_of_the_rest_as_the_loss_says() {
    let folder = PathBuf::from("/d");
    let (temporary, place) = (folder.join("a#1"), folder.join("a"));
    let what = vec![
        What::Create(temporary.clone()),
        What::Write(temporary.clone(), 0, b"old".to_vec()),
        What::Sync(temporary.clone()),
        What::Rename(temporary.clone(), place.clone()),
        What::Sync(folder.clone()),
        What::Create(temporary.clone()),
        What::Write(temporary.clone(), 0, b"new!".to_vec()),
        What::Rename(temporary, place.clone()),
        What::Create(folder.join("b")),
        What::Remove(place),
    ];
    let events = what.into_iter().map(|what| Event { at_ns: 0, what }).collect();
    let disk = Disk { folder, events };
    let check = |moment: usize, loss: Loss, expected: &[(&str, &str)]| {
        let dir = tempfile::tempdir().unwrap();
        disk.image(moment, loss, &mut Dice::new(1), dir.path());
        let mut found: Vec<(String, String)> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|it| it.unwrap())
            .map(|it| (it.file_name().into_string().unwrap(), std::fs::read_to_string(it.path()).unwrap()))
            .collect();
        found.sort();
        let expected: Vec<_> = expected.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        assert_eq!(found, expected, "after {moment} with {loss:?}");
    };
    check(4, Loss::All, &[]);
    check(4, Loss::Bytes, &[("a", "old")]);
    check(8, Loss::All, &[("a", "old")]);
    check(8, Loss::Bytes, &[("a", "\0\0\0\0")]);
    check(10, Loss::All, &[("a", "old")]);
    check(10, Loss::Bytes, &[("b", "")]);
    check(10, Loss::AllButDeletions, &[]);
}
