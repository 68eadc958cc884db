//! Writes files and records which file versions the daemon acknowledged, then compares both with the stored data after a
//! kill.
//!
//! A version is acknowledged when the daemon lists the file as indexed with the hash of the written content. Each
//! acknowledgement also goes to a ledger file as one synced line, so that a lost version can be debugged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Runtime;
use vic::catalog::Catalog;
use vic::client::Client;
use vic::model::{FileFilter, FileId, FileRecord, FileState, GrepRequest};
use vic::store::{FileSet, open_backend};

use crate::support::harness::World;
use crate::support::long_tests::Rng;

/// Maximum number of files. At this number, files are only changed, renamed and deleted.
const MAX_FILES: usize = 60;

/// Prefix of the unique word in each file version.
const TOKEN_PREFIX: &str = "token";

/// The files that were written, and the versions that the daemon acknowledged.
pub(crate) struct CrashOracle {
    dice: Rng,
    serial: u64,
    folder: PathBuf,
    /// The current version of each file on disk.
    current: BTreeMap<PathBuf, FileVersion>,
    /// Files whose current version is acknowledged, with the time of the acknowledgement.
    acknowledged: BTreeMap<PathBuf, u64>,
    /// Acknowledged versions that have been replaced on disk.
    replaced: Vec<Promise>,
    ledger: File,
    pub(crate) acknowledgements: u64,
    runtime: Runtime,
}

/// One version of a file: its unique word and its hash.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileVersion {
    pub(crate) token: String,
    pub(crate) hash: [u8; 32],
}

/// An acknowledged version. Valid from the acknowledgement until the file was touched, in nanoseconds since the epoch.
struct Promise {
    path: PathBuf,
    version: FileVersion,
    from: u64,
    until: u64,
}

/// What the catalog and the store of a stopped daemon contain.
pub(crate) struct StoredState {
    /// Every file of the catalog, by its path relative to the root.
    pub(crate) records: BTreeMap<PathBuf, FileRecord>,
    /// The unique words and the number of rows of each file in the store.
    pub(crate) words: BTreeMap<FileId, (Vec<String>, u64)>,
    /// Damaged files that the store quarantined when it was opened.
    damaged: Vec<PathBuf>,
}

impl CrashOracle {
    /// Creates an oracle that writes into the folder that the daemon indexes.
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

    /// Returns a random number in the range, such as milliseconds to wait.
    pub(crate) fn draw(&mut self, range: std::ops::Range<u64>) -> u64 {
        self.dice.in_range(range)
    }

    /// Returns how many acknowledged versions were valid at this time.
    pub(crate) fn promised_at(&self, at: u64) -> u64 {
        self.promises(at).count() as u64
    }

    /// Returns the files whose current version is acknowledged.
    pub(crate) fn present(&self) -> Vec<(PathBuf, FileVersion)> {
        self.acknowledged.keys().map(|path| (path.clone(), self.current[path].clone())).collect()
    }

    fn promises(&self, at: u64) -> impl Iterator<Item = (&PathBuf, &FileVersion)> {
        let present = self.acknowledged.iter().filter(move |(_, from)| **from <= at);
        let past = self.replaced.iter().filter(move |it| it.from <= at && at < it.until);
        present.map(|(path, _)| (path, &self.current[path])).chain(past.map(|it| (&it.path, &it.version)))
    }

    /// Ends the validity of the acknowledged version of a file. Must be called before every change of the file.
    fn end_promise(&mut self, path: &Path) {
        if let Some(from) = self.acknowledged.remove(path) {
            let version = self.current[path].clone();
            self.replaced.push(Promise { path: path.to_owned(), version, from, until: now() });
        }
    }

    /// Writes, changes, renames or deletes one random file.
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

    /// Lists the indexed files and records new acknowledgements. Does nothing if the daemon does not answer.
    pub(crate) fn note_acknowledged(&mut self, world: &World) {
        let config = world.config();
        let listed = self.runtime.block_on(async {
            let client = Client::connect(&config).await.ok()?;
            let filter = FileFilter { state: Some(FileState::Indexed), ..FileFilter::default() };
            let asked = tokio::time::timeout(Duration::from_secs(20), client.files(filter, 10_000, 0));
            asked.await.ok()?.ok()
        });
        let Some(list) = listed else { return };
        let now = now();
        for record in list.files {
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

    /// Opens a data directory without a daemon. Checks that every acknowledged version that was valid at this time is in the
    /// catalog and in the store exactly once. Returns the errors.
    pub(crate) fn check_stored(&self, data: &Path, at: u64) -> Vec<String> {
        let rest = match self.runtime.block_on(StoredState::open(data)) {
            Ok(rest) => rest,
            Err(error) => return vec![format!("cannot be opened: {error}")],
        };
        let mut wrong: Vec<String> =
            self.promises(at).filter_map(|(path, version)| rest.problem(path, version)).collect();
        if !wrong.is_empty() {
            wrong.push(format!("the store quarantined {:?}", rest.damaged));
        }
        wrong
    }

    /// Waits until the index contains every file of the folder once and nothing else.
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

/// Returns the current time in nanoseconds since the epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Returns the settings of a vic with this data directory, and with the store that the directory has.
fn config_of(data: &Path) -> vic::config::Config {
    let backend = if data.join("index/milvus").exists() { "milvus" } else { "lance" };
    let lookup = |name: &str| match name {
        "VIC_DATA_DIR" => Some(data.as_os_str().to_owned()),
        "VIC_VECTOR_BACKEND" => Some(backend.into()),
        _ => None,
    };
    vic::config::Config::from_lookup(&lookup).unwrap()
}

/// Returns every pair of file and unique word that `grep` finds in the running daemon.
async fn found_tokens(config: &vic::config::Config) -> BTreeSet<(PathBuf, String)> {
    let request =
        GrepRequest { pattern: format!("{TOKEN_PREFIX}[0-9a-f]+"), limit: Some(10_000), ..GrepRequest::default() };
    let client = Client::connect(config).await.unwrap();
    let found = client.grep(request).await.unwrap().matches;
    found.into_iter().map(|it| (PathBuf::from(it.path), it.line[it.start as usize..it.end as usize].into())).collect()
}

impl StoredState {
    /// Reads the whole catalog and the whole store.
    pub(crate) async fn open(data: &Path) -> vic::error::Result<StoredState> {
        let catalog = Catalog::open(&data.join("catalog.sqlite"))?;
        let (records, _) = catalog.search(&FileFilter::default(), usize::MAX, 0)?;
        let records = records.into_iter().map(|it| (it.found.path.clone(), it)).collect();
        let mut words = BTreeMap::<FileId, (Vec<String>, u64)>::new();
        let mut damaged = Vec::new();
        // Skips the store if the catalog records no table for queries, because then no store exists.
        if let Some(fingerprint) = catalog.meta_get("serving_fingerprint")? {
            let dimension = catalog.meta_get("serving_dimension")?.unwrap().parse().unwrap();
            let store = open_backend(&config_of(data)).await?.open(&fingerprint, dimension).await?;
            let mut each = |stored: vic::model::StoredChunk| {
                let entry = words.entry(stored.file_id).or_default();
                let found = stored.chunk.text.split(|it: char| !it.is_ascii_alphanumeric());
                entry.0.extend(found.filter(|it| it.starts_with(TOKEN_PREFIX)).map(String::from));
                entry.1 += 1;
                true
            };
            store.scan(&FileSet::All, &mut each).await?;
            damaged = store.recovery().quarantined.to_vec();
        }
        Ok(StoredState { records, words, damaged })
    }

    /// Returns what is wrong with the stored data of an acknowledged file version, if anything.
    fn problem(&self, path: &Path, version: &FileVersion) -> Option<String> {
        let shown = path.display();
        let Some(record) = self.records.get(path) else { return Some(format!("{shown}: not in the catalog")) };
        // Accepts a pending file: a renamed file, or a copy whose source changed, stays pending until vic has checked it
        // again, and searches still find its rows meanwhile.
        let stands = match record.state {
            FileState::Indexed => record.hash.is_some_and(|it| it.0 == version.hash),
            FileState::Pending => true,
            FileState::Skipped | FileState::Failed => false,
        };
        if !stands {
            return Some(format!("{shown}: {:?}, not indexed with the hash of this version", record.state));
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
