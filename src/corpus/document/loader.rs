//! Loads parsed documents: from the cache, else by the jailed worker, which parses each content only once.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::catalog::{Catalog, CorpusStore};
use crate::corpus::document::cache::DocumentCache;
use crate::corpus::document::metadata::Facts;
use crate::corpus::document::parsed::ParsedDocument;
use crate::corpus::document::stored_passage::PARSER_VERSION;
use crate::corpus::views::snapshot::SessionSnapshot;
use crate::embed::Embedder;
use crate::error::Result;
use crate::extract::WorkerPool;
use crate::files::{OpenProblem, open_beneath};
use crate::index::{Index, StatBefore, blocking, blocking_at_file, content_hash};
use crate::model::{ContentHash, Document, FileKind, FileRecord, PrivacyMode, Reason, Redaction};

/// Maximum number of session snapshots kept in memory.
const MAX_CACHED_SNAPSHOTS: usize = 4;

/// Maximum bytes of a text file that is also read as a whole, to find exact locations of its blocks. In a larger file, a
/// block has only the location that the parser gives.
const MAX_RAW_BYTES: u64 = 4 << 20;

/// The services that the corpus API is built on.
pub struct CorpusServices {
    /// The catalog, with a record of every file.
    pub catalog: Catalog,
    /// The indexer, which also stores the OCR text of images.
    pub index: Index,
    /// The jailed worker processes that parse files.
    pub pool: Arc<WorkerPool>,
    /// The embedder, whose tokenizer counts the tokens of answers.
    pub embedder: Arc<dyn Embedder>,
    /// The database of views, sessions and results.
    pub book: Arc<CorpusStore>,
    /// The privacy mode, which decides whether web pages may be fetched.
    pub privacy: PrivacyMode,
    /// Which secrets are redacted in texts.
    pub redaction: Redaction,
    /// The data directory; the failures files of sessions are in its folder `sessions`.
    pub folder: PathBuf,
    /// Directory of fetched web pages.
    pub pages: PathBuf,
}

/// Loads parsed documents, and keeps them in a cache.
pub(crate) struct DocumentLoader {
    pub(crate) parts: CorpusServices,
    cache: Mutex<DocumentCache>,
    facts: Mutex<Option<Arc<HashMap<ContentHash, Facts>>>>,
    /// The session snapshots used last, with their owners; a snapshot is removed when its session is changed or deleted.
    snapshots: Mutex<Vec<(String, Arc<SessionSnapshot>)>>,
}

/// A parsed document with the hash of its file's content.
pub(crate) struct LoadedDocument {
    pub(crate) hash: ContentHash,
    pub(crate) reading: Arc<ParsedDocument>,
}

/// A file opened for parsing, with its size and modification time at that moment.
struct OpenedFile {
    file: File,
    before: StatBefore,
    hash: ContentHash,
    raw: Option<String>,
}

/// Returns the cache key of a parsed document: content hash, extension and parser version.
pub(crate) fn document_key(hash: ContentHash, extension: &str) -> String {
    format!("{hash}-{extension}-{PARSER_VERSION}")
}

/// Returns the extension by which the parser for a path is chosen.
pub(crate) fn extension(path: &str) -> String {
    let extension = std::path::Path::new(path).extension();
    extension.map(|it| it.to_string_lossy().to_lowercase()).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DocumentLoader {
    pub(crate) fn new(parts: CorpusServices) -> DocumentLoader {
        DocumentLoader { parts, cache: Mutex::default(), facts: Mutex::default(), snapshots: Mutex::default() }
    }

    /// Returns the cached document with a key from [`document_key`], if there is one.
    pub(crate) fn cached(&self, key: &str) -> Option<Arc<ParsedDocument>> {
        if let Some(found) = lock(&self.cache).get(key) {
            return Some(found);
        }
        let text = self.parts.book.document(key).ok().flatten()?;
        let reading = Arc::new(serde_json::from_str::<ParsedDocument>(&text).ok()?);
        lock(&self.cache).insert(key.to_string(), &reading);
        Some(reading)
    }

    /// Returns a session snapshot of an owner.
    pub(crate) fn session_snapshot(&self, owner: &str, session: i64) -> Result<Option<Arc<SessionSnapshot>>> {
        let Some((body, _)) = self.parts.book.session(owner, session)? else { return Ok(None) };
        if let Some((_, past)) = lock(&self.snapshots).iter().find(|it| it.0 == owner && it.1.session == session) {
            return Ok(Some(past.clone()));
        }
        let past = Arc::new(SessionSnapshot::new(session, &body, self.parts.book.session_files(owner, session)?));
        let mut pasts = lock(&self.snapshots);
        if pasts.len() >= MAX_CACHED_SNAPSHOTS {
            pasts.remove(0);
        }
        pasts.push((owner.to_string(), past.clone()));
        Ok(Some(past))
    }

    /// Removes the cached snapshot of a session that was changed or deleted.
    pub(crate) fn forget_snapshot(&self, owner: &str, session: i64) {
        lock(&self.snapshots).retain(|it| it.0 != owner || it.1.session != session);
    }

    /// Parses the current content of a file. The error is the name of a skip or failure reason of the catalog, or `gone`.
    pub(crate) async fn load(self: &Arc<DocumentLoader>, record: &FileRecord) -> Result<LoadedDocument, String> {
        let (reader, own) = (self.clone(), record.clone());
        let opened = blocking_at_file(record, move || Ok(reader.open(&own))).await.map_err(|_| "io".to_string())?;
        let opened = opened.ok_or_else(|| "io".to_string())??;
        let OpenedFile { file, before, hash, raw } = match opened {
            OpenOutcome::Kept(read) => return Ok(read),
            OpenOutcome::Open(opened) => opened,
        };
        let document = extract_unchanged(&self.parts.pool, record, file, before).await?;
        let document = self
            .parts
            .index
            .with_known_pictures(hash, document)
            .await
            .map_err(|error| error.code.name().to_string())?;
        let (reader, extension, kind) = (self.clone(), record.extension.clone(), record.kind);
        let made = blocking(move || {
            let reading = Arc::new(ParsedDocument::parse(&extension, kind, document, raw, reader.parts.redaction));
            reader.store(hash, &extension, &reading)?;
            Ok(reading)
        });
        let reading = made.await.map_err(|error| error.code.name().to_string())?;
        Ok(LoadedDocument { hash, reading })
    }

    fn store(&self, hash: ContentHash, extension: &str, reading: &Arc<ParsedDocument>) -> Result<()> {
        let key = document_key(hash, extension);
        let text = serde_json::to_string(&**reading).map_err(crate::error::Error::internal)?;
        self.parts.book.put_document(&key, &text)?;
        let facts = serde_json::to_string(&reading.facts).map_err(crate::error::Error::internal)?;
        self.parts.book.put_facts(hash, &facts)?;
        if let Some(known) = lock(&self.facts).as_mut() {
            Arc::make_mut(known).insert(hash, reading.facts.clone());
        }
        lock(&self.cache).insert(key, reading);
        Ok(())
    }

    /// Returns the facts of every content that was ever parsed, by content hash.
    pub(crate) fn facts(&self) -> Result<Arc<HashMap<ContentHash, Facts>>> {
        let mut facts = lock(&self.facts);
        if let Some(known) = &*facts {
            return Ok(known.clone());
        }
        let rows = self.parts.book.facts()?;
        let known = rows.into_iter().filter_map(|(hash, text)| {
            let facts = serde_json::from_str::<Facts>(&text).ok()?;
            (facts.reader == PARSER_VERSION).then_some((hash, facts))
        });
        let known = Arc::new(known.collect::<HashMap<ContentHash, Facts>>());
        *facts = Some(known.clone());
        Ok(known)
    }

    fn open(&self, record: &FileRecord) -> Result<OpenOutcome, String> {
        let file = open_beneath(&record.root, &record.found.path).map_err(|problem| match problem {
            OpenProblem::Gone => "gone".to_string(),
            OpenProblem::Bad(failure) => failure.reason.name().to_string(),
        })?;
        let before = StatBefore::new(&file);
        let hash = content_hash(record, &file).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => Reason::TooLarge.name().to_string(),
            _ => Reason::Io.name().to_string(),
        })?;
        if let Some(reading) = self.cached(&document_key(hash, &record.extension)) {
            return Ok(OpenOutcome::Kept(LoadedDocument { hash, reading }));
        }
        let raw = is_text(record).then(|| read_text(&file)).flatten();
        Ok(OpenOutcome::Open(OpenedFile { file, before, hash, raw }))
    }
}

/// Parses a file in the worker, and checks that the file did not change in the meantime.
async fn extract_unchanged(
    pool: &WorkerPool,
    record: &FileRecord,
    file: File,
    before: StatBefore,
) -> Result<Document, String> {
    let name = record.found.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let document = pool.extract(file, &name).await.map_err(|failure| failure.reason.name().to_string())?;
    // Discard the text if the file was written to meanwhile, because it would be stored under the wrong hash.
    match before.check_unchanged(record).await {
        Ok(Some(true)) => Ok(document),
        Ok(_) | Err(_) => Err(Reason::Io.name().to_string()),
    }
}

enum OpenOutcome {
    Kept(LoadedDocument),
    Open(OpenedFile),
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

/// Reads the whole text of a file and resets the file position.
fn read_text(file: &File) -> Option<String> {
    use std::io::{Seek, SeekFrom};
    let mut file = file.try_clone().ok()?;
    let mut bytes = Vec::new();
    if file.metadata().ok()?.len() > MAX_RAW_BYTES {
        return None;
    }
    file.seek(SeekFrom::Start(0)).ok()?;
    file.by_ref().take(MAX_RAW_BYTES).read_to_end(&mut bytes).ok()?;
    file.seek(SeekFrom::Start(0)).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::scripted_worker;

    // Case C14
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
            let (before, hash) = (StatBefore::new(&file), crate::files::hash(&file).unwrap());
            let record = crate::model::samples::indexed_file(&root, "a.md", FileKind::Markup, hash);
            let pool = scripted_worker::scripted_pool(folder.path(), &does, &Ok(Document::default()));
            assert_eq!(extract_unchanged(&pool, &record, file, before).await, expected, "{does}");
        }
    }
}
