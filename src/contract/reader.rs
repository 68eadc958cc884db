//! Loads parsed documents: from the cache, else through the jailed worker, once per content.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalog::{Catalog, CorpusBook};
use crate::contract::facts::Facts;
use crate::contract::memory::Memory;
use crate::contract::past::Past;
use crate::contract::reading::{READER, Reading};
use crate::embed::Embedder;
use crate::error::Result;
use crate::extract::WorkerPool;
use crate::index::{Before, Index, at_file, blocking, hash_of};
use crate::model::{ContentHash, Document, FileKind, FileRecord, PrivacyMode, Reason, Redaction};
use crate::warehouse::{OpenProblem, open_beneath};

/// Number of session snapshots kept in memory.
const PASTS: usize = 4;

/// Most bytes of a text file that is read in addition to its parser, to find exact places.
const MOST_RAW: u64 = 4 << 20;

/// The services that the corpus API is built on.
pub struct Parts {
    /// The record of every file.
    pub catalog: Catalog,
    /// Indexes files, and holds the OCR text of pictures.
    pub index: Index,
    /// Parses files in jailed workers.
    pub pool: Arc<WorkerPool>,
    /// Its tokenizer counts the tokens of answers.
    pub embedder: Arc<dyn Embedder>,
    /// Stores views, sessions and results.
    pub book: Arc<CorpusBook>,
    /// Whether pages may be fetched.
    pub privacy: PrivacyMode,
    /// Which secrets are redacted.
    pub redaction: Redaction,
    /// Directory for fetched pages and failure lists.
    pub folder: PathBuf,
    /// Directory of fetched pages.
    pub pages: PathBuf,
}

/// Loads documents and caches them.
pub(crate) struct Reader {
    pub(crate) parts: Parts,
    memory: Mutex<Memory>,
    facts: Mutex<Option<Arc<HashMap<ContentHash, Facts>>>>,
    /// The session snapshots used last, with their owners; a snapshot does not change.
    pasts: Mutex<Vec<(String, Arc<Past>)>>,
}

/// A loaded document.
pub(crate) struct Read1 {
    pub(crate) hash: ContentHash,
    pub(crate) reading: Arc<Reading>,
}

/// A file opened for parsing.
struct Opened {
    file: File,
    before: Before,
    hash: ContentHash,
    raw: Option<String>,
}

/// The cache key of a parsed document: content hash, extension and parser version.
pub(crate) fn key(hash: ContentHash, extension: &str) -> String {
    format!("{hash}-{extension}-{READER}")
}

/// The extension that selects the parser for a path.
pub(crate) fn extension(path: &str) -> String {
    let extension = std::path::Path::new(path).extension();
    extension.map(|it| it.to_string_lossy().to_lowercase()).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader {
    pub(crate) fn new(parts: Parts) -> Reader {
        Reader { parts, memory: Mutex::default(), facts: Mutex::default(), pasts: Mutex::default() }
    }

    /// Returns the cached document of a [`key`], if any.
    pub(crate) fn kept(&self, key: &str) -> Option<Arc<Reading>> {
        if let Some(found) = lock(&self.memory).get(key) {
            return Some(found);
        }
        let text = self.parts.book.reading(key).ok().flatten()?;
        let reading = Arc::new(serde_json::from_str::<Reading>(&text).ok()?);
        lock(&self.memory).remember(key.to_string(), &reading);
        Some(reading)
    }

    /// Returns a session snapshot of an owner.
    pub(crate) fn past(&self, owner: &str, session: i64) -> Result<Option<Arc<Past>>> {
        let Some((body, _)) = self.parts.book.session(owner, session)? else { return Ok(None) };
        if let Some((_, past)) = lock(&self.pasts).iter().find(|it| it.0 == owner && it.1.session == session) {
            return Ok(Some(past.clone()));
        }
        let past = Arc::new(Past::new(session, &body, self.parts.book.session_files(owner, session)?));
        let mut pasts = lock(&self.pasts);
        if pasts.len() >= PASTS {
            pasts.remove(0);
        }
        pasts.push((owner.to_string(), past.clone()));
        Ok(Some(past))
    }

    /// Drops the cached snapshot of a session that was changed or deleted.
    pub(crate) fn forget_past(&self, owner: &str, session: i64) {
        lock(&self.pasts).retain(|it| it.0 != owner || it.1.session != session);
    }

    /// Parses a file as it is now. The error is a reason as the catalog names it, or `gone`.
    pub(crate) async fn read(self: &Arc<Reader>, record: &FileRecord) -> Result<Read1, String> {
        let (reader, own) = (self.clone(), record.clone());
        let opened = at_file(record, move || Ok(reader.open(&own))).await.map_err(|_| "io".to_string())?;
        let opened = opened.ok_or_else(|| "io".to_string())??;
        let Opened { file, before, hash, raw } = match opened {
            Ready::Kept(read) => return Ok(read),
            Ready::Open(opened) => opened,
        };
        let document = extracted(&self.parts.pool, record, file, before).await?;
        let document = self
            .parts
            .index
            .with_known_pictures(hash, document)
            .await
            .map_err(|error| error.code.name().to_string())?;
        let (reader, extension, kind) = (self.clone(), record.extension.clone(), record.kind);
        let made = blocking(move || {
            let reading = Arc::new(Reading::of(&extension, kind, document, raw, reader.parts.redaction));
            reader.keep(hash, &extension, &reading)?;
            Ok(reading)
        });
        let reading = made.await.map_err(|error| error.code.name().to_string())?;
        Ok(Read1 { hash, reading })
    }

    fn keep(&self, hash: ContentHash, extension: &str, reading: &Arc<Reading>) -> Result<()> {
        let key = key(hash, extension);
        let text = serde_json::to_string(&**reading).map_err(crate::error::Error::internal)?;
        self.parts.book.put_reading(&key, &text)?;
        let facts = serde_json::to_string(&reading.facts).map_err(crate::error::Error::internal)?;
        self.parts.book.put_facts(hash, &facts)?;
        if let Some(known) = lock(&self.facts).as_mut() {
            Arc::make_mut(known).insert(hash, reading.facts.clone());
        }
        lock(&self.memory).remember(key, reading);
        Ok(())
    }

    /// The facts of every content that was ever parsed.
    pub(crate) fn facts(&self) -> Result<Arc<HashMap<ContentHash, Facts>>> {
        let mut facts = lock(&self.facts);
        if let Some(known) = &*facts {
            return Ok(known.clone());
        }
        let rows = self.parts.book.facts()?;
        let known = rows.into_iter().filter_map(|(hash, text)| {
            let facts = serde_json::from_str::<Facts>(&text).ok()?;
            (facts.reader == READER).then_some((hash, facts))
        });
        let known = Arc::new(known.collect::<HashMap<ContentHash, Facts>>());
        *facts = Some(known.clone());
        Ok(known)
    }

    fn open(&self, record: &FileRecord) -> Result<Ready, String> {
        let file = open_beneath(&record.root, &record.found.path).map_err(|problem| match problem {
            OpenProblem::Gone => "gone".to_string(),
            OpenProblem::Bad(failure) => failure.reason.name().to_string(),
        })?;
        let before = Before::of(&file);
        let hash = hash_of(record, &file).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => Reason::TooLarge.name().to_string(),
            _ => Reason::Io.name().to_string(),
        })?;
        if let Some(reading) = self.kept(&key(hash, &record.extension)) {
            return Ok(Ready::Kept(Read1 { hash, reading }));
        }
        let raw = is_text(record).then(|| raw(&file)).flatten();
        Ok(Ready::Open(Opened { file, before, hash, raw }))
    }
}

/// Parses a file in the worker.
async fn extracted(pool: &WorkerPool, record: &FileRecord, file: File, before: Before) -> Result<Document, String> {
    let name = record.found.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let document = pool.extract(file, &name).await.map_err(|failure| failure.reason.name().to_string())?;
    // If the file was written to meanwhile, the text would be stored under the wrong hash.
    match before.still_holds(record).await {
        Ok(Some(true)) => Ok(document),
        Ok(_) | Err(_) => Err(Reason::Io.name().to_string()),
    }
}

enum Ready {
    Kept(Read1),
    Open(Opened),
}

fn is_text(record: &FileRecord) -> bool {
    match record.kind {
        FileKind::Text | FileKind::Markup | FileKind::Web | FileKind::Code | FileKind::Data | FileKind::Notebook => {
            true
        }
        FileKind::Mail => record.extension == "eml",
        _ => false,
    }
}

/// The whole text of a file; the file position is reset.
fn raw(file: &File) -> Option<String> {
    use std::io::{Seek, SeekFrom};
    let mut file = file.try_clone().ok()?;
    let mut bytes = Vec::new();
    if file.metadata().ok()?.len() > MOST_RAW {
        return None;
    }
    file.seek(SeekFrom::Start(0)).ok()?;
    file.by_ref().take(MOST_RAW).read_to_end(&mut bytes).ok()?;
    file.seek(SeekFrom::Start(0)).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::scripted;

    #[tokio::test]
    async fn file_changed_while_read_gives_io_error() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("a.md");
        for (does, expected) in [
            (String::new(), Ok(Document::default())),
            (format!("echo more >> {}", path.display()), Err("io".to_string())),
        ] {
            std::fs::write(&path, "text").unwrap();
            let file = File::open(&path).unwrap();
            let (before, hash) = (Before::of(&file), crate::warehouse::hash(&file).unwrap());
            let record = crate::model::samples::indexed_file(&root, "a.md", FileKind::Markup, hash);
            let pool = scripted::pool(folder.path(), &does, &Ok(Document::default()));
            assert_eq!(extracted(&pool, &record, file, before).await, expected, "{does}");
        }
    }
}
