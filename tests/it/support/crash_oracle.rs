//! A writer of files that records what it wrote and what the daemon acknowledged. Compares both with the data after a kill.
//!
//! A change is acknowledged when the daemon lists the file as indexed with the hash of the written content. Acknowledgements
//! also go to a ledger file, synced line by line, for debugging a loss.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Runtime;
use vic::catalog::Catalog;
use vic::client::Client;
use vic::model::{FileFilter, FileId, FileRecord, FileState, GrepRequest};
use vic::store::{FileSet, LanceStore, Store};

use crate::support::harness::World;
use crate::support::long_tests::Rng;

/// Maximum number of files. Beyond it, files are only changed, renamed and deleted.
const MAX_FILES: usize = 60;

/// Prefix of the unique word of each file version.
const TOKEN_PREFIX: &str = "token";

/// The written files, and the acknowledgements of the daemon.
pub(crate) struct CrashOracle {
    dice: Rng,
    serial: u64,
    folder: PathBuf,
    /// The current version of each file.
    current: BTreeMap<PathBuf, FileVersion>,
    /// Files with an acknowledged current version, and the time of the acknowledgement.
    acknowledged: BTreeMap<PathBuf, u64>,
    /// Acknowledged versions that have been replaced.
    replaced: Vec<Promise>,
    ledger: File,
    pub(crate) acknowledgements: u64,
    runtime: Runtime,
}

/// One version of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileVersion {
    pub(crate) token: String,
    pub(crate) hash: [u8; 32],
}

/// An acknowledged version with its validity in nanoseconds since the epoch, until the file was touched.
struct Promise {
    path: PathBuf,
    version: FileVersion,
    from: u64,
    until: u64,
}

/// The contents of a store and a catalog at rest.
pub(crate) struct StoredState {
    /// Every file by its path relative to the root.
    pub(crate) records: BTreeMap<PathBuf, FileRecord>,
    /// The words and the number of rows of each file in the store.
    pub(crate) words: BTreeMap<FileId, (Vec<String>, u64)>,
    /// Damaged files that the store set aside when it was opened.
    damaged: Vec<PathBuf>,
}

impl CrashOracle {
    /// Creates an oracle that writes into the folder of this world.
    pub(crate) fn new(world: &World, seed: u64) -> CrashOracle {
        let ledger = File::create(world.data().with_file_name("acknowledged")).unwrap();
        CrashOracle {
            dice: Rng::new(seed),
            serial: 0,
            folder: world.files(),
            current: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            replaced: Vec::new(),
            ledger,
            acknowledgements: 0,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        }
    }

    /// Draws a number, such as milliseconds to wait.
    pub(crate) fn draw(&mut self, range: std::ops::Range<u64>) -> u64 {
        self.dice.in_range(range)
    }

    /// Returns the number of acknowledged versions at that moment.
    pub(crate) fn promised_at(&self, at: u64) -> u64 {
        self.promises(at).count() as u64
    }

    /// Returns the files with an acknowledged current version.
    pub(crate) fn present(&self) -> Vec<(PathBuf, FileVersion)> {
        self.acknowledged.keys().map(|path| (path.clone(), self.current[path].clone())).collect()
    }

    fn promises(&self, at: u64) -> impl Iterator<Item = (&PathBuf, &FileVersion)> {
        let present = self.acknowledged.iter().filter(move |(_, from)| **from <= at);
        let past = self.replaced.iter().filter(move |it| it.from <= at && at < it.until);
        present.map(|(path, _)| (path, &self.current[path])).chain(past.map(|it| (&it.path, &it.version)))
    }

    /// Must precede every change of a file: ends the promise for its current version.
    fn end_promise(&mut self, path: &Path) {
        if let Some(from) = self.acknowledged.remove(path) {
            let version = self.current[path].clone();
            self.replaced.push(Promise { path: path.to_owned(), version, from, until: now() });
        }
    }

    /// Saves, changes, renames or deletes one file.
    pub(crate) fn change_one(&mut self) {
        let some = self.current.keys().nth(self.dice.below(self.current.len().max(1) as u64) as usize).cloned();
        let choice = self.dice.below(100);
        match some {
            Some(path) if choice < 35 => self.save(path),
            Some(path) if choice < 50 => {
                self.end_promise(&path);
                std::fs::remove_file(self.folder.join(&path)).unwrap();
                self.current.remove(&path);
            }
            Some(path) if choice < 60 => {
                let to = self.fresh_name();
                std::fs::create_dir_all(self.folder.join(&to).parent().unwrap()).unwrap();
                self.end_promise(&path);
                std::fs::rename(self.folder.join(&path), self.folder.join(&to)).unwrap();
                let version = self.current.remove(&path).unwrap();
                self.current.insert(to, version);
            }
            Some(path) if self.current.len() >= MAX_FILES => self.save(path),
            _ => {
                let path = self.fresh_name();
                self.save(path);
            }
        }
    }

    fn fresh_name(&mut self) -> PathBuf {
        self.serial += 1;
        PathBuf::from(format!("{}/{}.md", ["log", "notes/old", "letters"][self.serial as usize % 3], self.serial))
    }

    fn save(&mut self, path: PathBuf) {
        self.serial += 1;
        let token = format!("{TOKEN_PREFIX}{:06x}", self.serial);
        let content =
            format!("Entry {} of the harbour log.\nThe word for it is {token}, wind from the west.\n", self.serial);
        let place = self.folder.join(&path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        self.end_promise(&path);
        std::fs::write(&place, &content).unwrap();
        self.current.insert(path, FileVersion { token, hash: *blake3::hash(content.as_bytes()).as_bytes() });
    }

    /// Lists the indexed files and notes new acknowledgements. Notes none if the daemon does not answer.
    pub(crate) fn note_acknowledged(&mut self, world: &World) {
        let config = world.config();
        let listed = self.runtime.block_on(async {
            let client = Client::connect(&config).await.ok()?;
            let filter = FileFilter { state: Some(FileState::Indexed), ..FileFilter::default() };
            let asked = tokio::time::timeout(Duration::from_secs(20), client.files(filter, 10_000, 0));
            asked.await.ok()?.ok()
        });
        let Some((records, _)) = listed else { return };
        let now = now();
        for record in records {
            let path = record.found.path;
            let is_present =
                self.current.get(&path).is_some_and(|it| record.hash.is_some_and(|hash| hash.0 == it.hash));
            if is_present && !self.acknowledged.contains_key(&path) {
                writeln!(self.ledger, "{now} {} {}", path.display(), self.current[&path].token).unwrap();
                self.acknowledged.insert(path, now);
                self.acknowledgements += 1;
            }
        }
        self.ledger.sync_data().unwrap();
    }

    /// Opens a data directory without a daemon. Checks that every version acknowledged and untouched at that moment is
    /// recorded and stored exactly once. Returns the errors.
    pub(crate) fn check_stored(&self, data: &Path, at: u64) -> Vec<String> {
        let rest = match self.runtime.block_on(StoredState::open(data)) {
            Ok(rest) => rest,
            Err(error) => return vec![format!("cannot be opened: {error}")],
        };
        let mut wrong: Vec<String> =
            self.promises(at).filter_map(|(path, version)| rest.problem(path, version)).collect();
        if !wrong.is_empty() {
            wrong.push(format!("the store set aside {:?}", rest.damaged));
        }
        wrong
    }

    /// Waits until the index matches the folder: every file once, nothing else.
    pub(crate) fn check_converged(&mut self, world: &World) {
        let config = world.config();
        let expected: BTreeSet<(PathBuf, String)> =
            self.current.iter().map(|(path, version)| (path.clone(), version.token.clone())).collect();
        let files = expected.len() as u64;
        let state = |world: &World| {
            let status = world.json(&["status"]);
            let counts = ["indexed", "pending", "failed"].map(|it| status["coverage"][it].as_u64().unwrap());
            (counts, status["chunks"].as_u64().unwrap(), self.runtime.block_on(found_tokens(&config)))
        };
        let whole = ([files, 0, 0], files, expected.clone());
        let begun = std::time::Instant::now();
        loop {
            let found = state(world);
            if found == whole {
                break;
            }
            let missing: Vec<_> = expected.difference(&found.2).collect();
            let extra: Vec<_> = found.2.difference(&expected).collect();
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{:?} and {} chunks for {files} files; missing {missing:?}, extra {extra:?}; {}\n{}",
                found.0,
                found.1,
                world.json(&["files", "--state", "failed"]),
                world.log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the nanoseconds since the epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Returns every file and word found through the running daemon.
async fn found_tokens(config: &vic::config::Config) -> BTreeSet<(PathBuf, String)> {
    let request =
        GrepRequest { pattern: format!("{TOKEN_PREFIX}[0-9a-f]+"), limit: Some(10_000), ..GrepRequest::default() };
    let client = Client::connect(config).await.unwrap();
    let found = client.grep(request).await.unwrap().matches;
    found.into_iter().map(|it| (PathBuf::from(it.path), it.line[it.start as usize..it.end as usize].into())).collect()
}

impl StoredState {
    /// Reads the whole catalog and store.
    pub(crate) async fn open(data: &Path) -> vic::error::Result<StoredState> {
        let catalog = Catalog::open(&data.join("catalog.sqlite"))?;
        let (records, _) = catalog.search(&FileFilter::default(), usize::MAX, 0)?;
        let records = records.into_iter().map(|it| (it.found.path.clone(), it)).collect();
        let mut words = BTreeMap::<FileId, (Vec<String>, u64)>::new();
        let mut damaged = Vec::new();
        // Before the first table is recorded, nothing has been stored.
        if let Some(fingerprint) = catalog.meta_get("serving_fingerprint")? {
            let dimension = catalog.meta_get("serving_dimension")?.unwrap().parse().unwrap();
            let store = LanceStore::open(&data.join("index"), &fingerprint, dimension).await?;
            let mut each = |stored: vic::model::StoredChunk| {
                let entry = words.entry(stored.file_id).or_default();
                let found = stored.chunk.text.split(|it: char| !it.is_ascii_alphanumeric());
                entry.0.extend(found.filter(|it| it.starts_with(TOKEN_PREFIX)).map(String::from));
                entry.1 += 1;
                true
            };
            store.scan(&FileSet::All, &mut each).await?;
            damaged = store.quarantined().to_vec();
        }
        Ok(StoredState { records, words, damaged })
    }

    /// Returns the error of an acknowledged file version, if any.
    fn problem(&self, path: &Path, version: &FileVersion) -> Option<String> {
        let shown = path.display();
        let Some(record) = self.records.get(path) else { return Some(format!("{shown}: not in the catalog")) };
        // A file that was renamed, or was to copy a file that changed, is checked again. It is pending until then and still
        // answers as before.
        let stands = match record.state {
            FileState::Indexed => record.hash.is_some_and(|it| it.0 == version.hash),
            FileState::Pending => true,
            FileState::Skipped | FileState::Failed => false,
        };
        if !stands {
            return Some(format!("{shown}: {:?}, with another content", record.state));
        }
        let (words, rows) = self.words.get(&record.id).cloned().unwrap_or_default();
        let is_whole = rows == u64::from(record.chunks) && words == [version.token.clone()];
        (!is_whole).then(|| {
            format!(
                "{shown}, {:?}: {rows} rows with {words:?} for {} chunks with {}",
                record.state, record.chunks, version.token
            )
        })
    }
}
