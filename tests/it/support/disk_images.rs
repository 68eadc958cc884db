//! Rebuilds the disk states that a power loss can leave, from the recorded system calls of a run: all synced data and any
//! part of the unsynced data.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::support::long_tests::Rng;

/// System calls that `strace` records, with all bytes that they write.
const CALLS: &str = "trace=openat,open,creat,write,pwrite64,writev,pwritev,lseek,ftruncate,fallocate,copy_file_range,\
    fsync,fdatasync,syncfs,sync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,close";

/// Returns the command prefix that records a program so that [`DiskRecording`] can read the traces, one file per thread.
pub(crate) fn recording_command(prefix: &Path) -> Vec<String> {
    let prefix = prefix.to_str().unwrap();
    let strace = ["strace", "-D", "-ff", "-q", "-y", "-ttt", "-xx", "-s", "100000000", "--seccomp-bpf"];
    strace.iter().copied().chain(["-e", CALLS, "-o", prefix]).map(String::from).collect()
}

/// The part of the unsynced data that survives a simulated power loss.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// No unsynced change survives.
    All,
    /// All names and file lengths survive, but the bytes are zeros.
    LoseBytes,
    /// All deletions survive, but no new names and no bytes.
    AllButDeletions,
    /// A random number of the oldest unsynced changes of each folder and each file survives.
    RandomPrefix,
}

/// All recorded operations on a folder, in order.
pub(crate) struct DiskRecording {
    folder: PathBuf,
    events: Vec<Event>,
}

struct Event {
    at_ns: u64,
    operation: Operation,
}

enum Operation {
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

impl DiskRecording {
    /// Reads the traces of a run that made all changes to this folder; the folder was empty before the run.
    pub(crate) fn read(traces: &Path, folder: &Path) -> DiskRecording {
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
        // The sort is stable: calls of one thread with equal times keep their order.
        lines.sort_by_key(|it| it.0);
        let mut reader = Reader { folder: folder.to_owned(), places: HashMap::new(), events: Vec::new() };
        for (at_ns, call) in lines {
            reader.read(at_ns, &call);
        }
        DiskRecording { folder: folder.to_owned(), events: reader.events }
    }

    /// Returns the indexes of the events before which a power loss is worth testing: all but those between two writes, where
    /// the loss leaves the same data as one event earlier.
    pub(crate) fn moments(&self) -> Vec<usize> {
        let counts = |it: &Event| !matches!(it.operation, Operation::Write(..));
        (1..self.events.len()).filter(|it| counts(&self.events[it - 1]) || counts(&self.events[*it])).collect()
    }

    /// Returns the time of the event with this index, in nanoseconds.
    pub(crate) fn time_of(&self, moment: usize) -> u64 {
        self.events[moment].at_ns
    }

    /// Describes the last event before the event with this index.
    pub(crate) fn describe(&self, moment: usize) -> String {
        let shown = |path: &Path| path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        match &self.events[moment - 1].operation {
            Operation::Create(path) => format!("create {}", shown(path)),
            Operation::MakeFolder(path) => format!("mkdir {}", shown(path)),
            Operation::Write(path, at, bytes) => format!("write {} at {at}, {} bytes", shown(path), bytes.len()),
            Operation::Truncate(path, size) => format!("truncate {} to {size}", shown(path)),
            Operation::Rename(from, to) => format!("rename {} to {}", shown(from), shown(to)),
            Operation::Link(from, to) => format!("link {} to {}", shown(from), shown(to)),
            Operation::Remove(path) => format!("remove {}", shown(path)),
            Operation::Sync(path) => format!("sync {}", shown(path)),
            Operation::SyncAll => "sync everything".into(),
        }
    }

    /// Builds in `to` a state of the folder that a power loss before the event `moment` can leave.
    pub(crate) fn image(&self, moment: usize, loss: Loss, dice: &mut Rng, to: &Path) {
        let mut state = State::new(&self.folder);
        self.events[..moment].iter().for_each(|it| state.apply(&it.operation));
        state.write_image(loss, dice, &self.folder, to);
    }
}

/// Turns the lines of a trace into events.
struct Reader {
    folder: PathBuf,
    /// The next write offset for each descriptor and file; None means append. The key contains the file too, because the
    /// trace lists a call that opens a file at the time when the call begins, and at that time another file can still have
    /// the descriptor that the call returns.
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
        self.events.extend(what.into_iter().map(|what| Event { at_ns, operation: what }));
    }

    fn event(&mut self, call: &str, arguments: &str, result: i64, rest: &str) -> Vec<Operation> {
        let paths = || paths(arguments).into_iter().filter(|it| it.starts_with(&self.folder)).collect::<Vec<_>>();
        match call {
            "open" | "openat" | "creat" => {
                let Some(path) = paths().pop() else { return Vec::new() };
                let has = |flag: &str| arguments.contains(flag);
                self.places.insert((result as u32, path.clone()), if has("O_APPEND") { None } else { Some(0) });
                let mut events = if has("O_CREAT") { vec![Operation::Create(path.clone())] } else { Vec::new() };
                if has("O_TRUNC") {
                    events.push(Operation::Truncate(path, 0));
                }
                events
            }
            "mkdir" | "mkdirat" => paths().pop().map(Operation::MakeFolder).into_iter().collect(),
            "unlink" | "unlinkat" | "rmdir" => paths().pop().map(Operation::Remove).into_iter().collect(),
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => match &paths()[..] {
                [from, to] if call.starts_with("rename") => vec![Operation::Rename(from.clone(), to.clone())],
                [from, to] => vec![Operation::Link(from.clone(), to.clone())],
                [] => Vec::new(),
                other => panic!("{call} of {other:?}"),
            },
            "syncfs" | "sync" => vec![Operation::SyncAll],
            _ => self.event_of_descriptor(call, arguments, result, rest),
        }
    }

    fn event_of_descriptor(&mut self, call: &str, arguments: &str, result: i64, rest: &str) -> Vec<Operation> {
        let Some((descriptor, path)) = descriptor(arguments).filter(|it| it.1.starts_with(&self.folder)) else {
            return Vec::new();
        };
        let numbers: Vec<&str> = arguments.split(", ").collect();
        let last = || numbers[numbers.len() - 1].parse::<u64>().unwrap();
        match call {
            "fsync" | "fdatasync" => vec![Operation::Sync(path)],
            "ftruncate" => vec![Operation::Truncate(path, last())],
            "lseek" => {
                self.places.insert((descriptor, path), Some(result as u64));
                Vec::new()
            }
            "write" | "writev" | "pwrite64" | "pwritev" => {
                let mut bytes: Vec<u8> = quoted_bytes(arguments).into_iter().flatten().collect();
                bytes.truncate(result as usize);
                assert_eq!(bytes.len() as i64, result, "{call} is truncated in the trace");
                let at =
                    if call.starts_with('p') { Some(last()) } else { self.advance(descriptor, &path, result as u64) };
                vec![Operation::Write(path, at.unwrap_or(u64::MAX), bytes)]
            }
            "close" => Vec::new(),
            other => panic!("this system call is not supported: {other}({rest}"),
        }
    }

    fn advance(&mut self, descriptor: u32, path: &Path, by: u64) -> Option<u64> {
        let place = self.places.entry((descriptor, path.to_owned())).or_insert(Some(0));
        let before = *place;
        *place = before.map(|it| it + by);
        before
    }
}

/// The state of the file system after some of the events.
struct State<'a> {
    files: Vec<File<'a>>,
    /// The index of the file at each path; None for a folder.
    names: BTreeMap<PathBuf, Option<usize>>,
    folders: BTreeMap<PathBuf, Folder>,
}

#[derive(Default)]
struct File<'a> {
    changes: Vec<Change<'a>>,
    synced: usize,
    /// The file length after all changes.
    length: u64,
}

enum Change<'a> {
    Write(u64, &'a [u8]),
    Truncate(u64),
}

#[derive(Default)]
struct Folder {
    changes: Vec<NameChange>,
    synced: usize,
}

/// A change of the entries of a folder: a name removed, a name added, or both for a rename within the folder.
#[derive(Clone)]
struct NameChange {
    removed: Option<PathBuf>,
    added: Option<(PathBuf, Option<usize>)>,
}

impl<'a> State<'a> {
    fn new(folder: &Path) -> State<'a> {
        let names = BTreeMap::from([(folder.to_owned(), None)]);
        State { files: Vec::new(), names, folders: BTreeMap::new() }
    }

    fn apply(&mut self, what: &'a Operation) {
        match what {
            Operation::Create(path) => {
                if !self.names.contains_key(path) {
                    self.files.push(File::default());
                    self.change(None, Some((path.clone(), Some(self.files.len() - 1))));
                }
            }
            Operation::MakeFolder(path) => self.change(None, Some((path.clone(), None))),
            Operation::Write(path, at, bytes) => {
                if let Some(file) = self.file(path) {
                    let at = if *at == u64::MAX { file.length } else { *at };
                    file.length = file.length.max(at + bytes.len() as u64);
                    file.changes.push(Change::Write(at, bytes));
                }
            }
            Operation::Truncate(path, size) => {
                if let Some(file) = self.file(path) {
                    file.length = *size;
                    file.changes.push(Change::Truncate(*size));
                }
            }
            Operation::Rename(from, to) => {
                let Some(entry) = self.names.get(from).copied() else { return };
                assert!(entry.is_some(), "a folder was renamed: {}", from.display());
                if from.parent() == to.parent() {
                    self.change(Some(from.clone()), Some((to.clone(), entry)));
                } else {
                    self.change(None, Some((to.clone(), entry)));
                    self.change(Some(from.clone()), None);
                }
            }
            Operation::Link(from, to) => {
                if let Some(entry) = self.names.get(from).copied() {
                    self.change(None, Some((to.clone(), entry)));
                }
            }
            Operation::Remove(path) => self.change(Some(path.clone()), None),
            Operation::Sync(path) => self.sync(path),
            Operation::SyncAll => {
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
        self.folders.entry(folder).or_default().changes.push(NameChange { removed: gone, added: come });
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

    /// Returns the file at this path, or None if the path is a folder or has been removed.
    fn file(&mut self, path: &Path) -> Option<&mut File<'a>> {
        let file = self.names.get(path).copied().flatten()?;
        Some(&mut self.files[file])
    }

    fn write_image(&self, loss: Loss, dice: &mut Rng, folder: &Path, to: &Path) {
        let mut names: BTreeMap<PathBuf, Option<usize>> = BTreeMap::new();
        for it in self.folders.values() {
            let kept = it.synced + it.surviving_changes(loss, dice);
            it.changes[..kept].iter().for_each(|entry| entry.apply(&mut names));
            if let Loss::AllButDeletions = loss {
                let later = it.changes[kept..].iter().filter(|it| it.added.is_none());
                later.for_each(|entry| entry.apply(&mut names));
            }
        }
        std::fs::create_dir_all(to).unwrap();
        // A folder precedes its contents in the sorted map, so that an entry whose folder was lost is lost as well.
        for (path, entry) in names {
            let path = to.join(path.strip_prefix(folder).unwrap());
            let is_reachable = path.parent().is_some_and(Path::is_dir);
            let is_memory = path.to_string_lossy().ends_with("-shm") || path.extension().is_some_and(|it| it == "sock");
            match entry {
                _ if !is_reachable || is_memory => (),
                None => std::fs::create_dir_all(path).unwrap(),
                Some(file) => std::fs::write(path, self.files[file].content_after(loss, dice)).unwrap(),
            }
        }
    }
}

impl Folder {
    /// Returns how many of the unsynced changes of the folder survive.
    fn surviving_changes(&self, loss: Loss, dice: &mut Rng) -> usize {
        let unsynced = self.changes.len() - self.synced;
        match loss {
            Loss::All | Loss::AllButDeletions => 0,
            Loss::LoseBytes => unsynced,
            Loss::RandomPrefix => dice.below(unsynced as u64 + 1) as usize,
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Option<usize>>) {
        if let Some(path) = &self.removed {
            names.remove(path);
        }
        if let Some((path, entry)) = &self.added {
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

    fn content_after(&self, loss: Loss, dice: &mut Rng) -> Vec<u8> {
        let unsynced = self.changes.len() - self.synced;
        match loss {
            Loss::All | Loss::AllButDeletions => self.content(self.synced),
            Loss::RandomPrefix => self.content(self.synced + dice.below(unsynced as u64 + 1) as usize),
            Loss::LoseBytes => {
                let mut content = self.content(self.synced);
                content.resize(self.length as usize, 0);
                content
            }
        }
    }
}

/// Returns the number and the path of the descriptor in the first argument of a traced call.
fn descriptor(arguments: &str) -> Option<(u32, PathBuf)> {
    let (number, rest) = arguments.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    Some((number.parse().ok()?, path_from_bytes(decode(path)?)))
}

/// Returns the paths among the arguments of a traced call. A relative path is joined to the folder of its descriptor.
fn paths(arguments: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut parts = arguments.split('"');
    while let (Some(before), Some(path)) = (parts.next(), parts.next()) {
        let folder = before.rsplit_once('>').and_then(|(it, _)| it.rsplit_once('<')).map_or("", |(_, folder)| folder);
        let folder = path_from_bytes(decode(folder).unwrap_or_default());
        found.push(folder.join(path_from_bytes(decode(path).unwrap_or_default())));
    }
    found
}

fn quoted_bytes(arguments: &str) -> Vec<Vec<u8>> {
    arguments.split('"').skip(1).step_by(2).filter_map(decode).collect()
}

/// Decodes `\x61\x62`, as `strace -xx` prints bytes, to `ab`. Returns None for anything else.
fn decode(text: &str) -> Option<Vec<u8>> {
    text.split("\\x").skip(1).map(|it| u8::from_str_radix(it, 16).ok()).collect()
}

fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[test]
fn disk_image_keeps_synced_data_and_part_of_the_rest() {
    let folder = PathBuf::from("/d");
    let (temporary, place) = (folder.join("a#1"), folder.join("a"));
    let what = vec![
        Operation::Create(temporary.clone()),
        Operation::Write(temporary.clone(), 0, b"old".to_vec()),
        Operation::Sync(temporary.clone()),
        Operation::Rename(temporary.clone(), place.clone()),
        Operation::Sync(folder.clone()),
        Operation::Create(temporary.clone()),
        Operation::Write(temporary.clone(), 0, b"new!".to_vec()),
        Operation::Rename(temporary, place.clone()),
        Operation::Create(folder.join("b")),
        Operation::Remove(place),
    ];
    let events = what.into_iter().map(|what| Event { at_ns: 0, operation: what }).collect();
    let disk = DiskRecording { folder, events };
    let check = |moment: usize, loss: Loss, expected: &[(&str, &str)]| {
        let dir = tempfile::tempdir().unwrap();
        disk.image(moment, loss, &mut Rng::new(1), dir.path());
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
    check(4, Loss::LoseBytes, &[("a", "old")]);
    check(8, Loss::All, &[("a", "old")]);
    check(8, Loss::LoseBytes, &[("a", "\0\0\0\0")]);
    check(10, Loss::All, &[("a", "old")]);
    check(10, Loss::LoseBytes, &[("b", "")]);
    check(10, Loss::AllButDeletions, &[]);
}
