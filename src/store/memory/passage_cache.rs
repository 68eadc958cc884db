//! Passage cache: the texts of chunks in an unlinked file, which disappears with the process and uses memory only as
//! page cache.
//!
//! Reading a passage from the cache takes a few microseconds. Reading it from the table takes milliseconds, however few
//! are requested.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use smallvec::SmallVec;

use crate::model::{Chunk, ChunkId, FileId, StoredChunk};
use crate::store::schema::{self, Columns};

/// The file is compacted when it is larger than this and more than half of its bytes belong to removed chunks.
const COMPACT_MIN_BYTES: u64 = 16 << 20;

/// Number of bytes that are collected before each write while a table is loaded.
const WRITE_BATCH_BYTES: usize = 1 << 20;

/// The chunks of all files of a table, in one file on disk.
#[derive(Debug)]
pub(in crate::store) struct PassageCache {
    dir: PathBuf,
    file: File,
    /// Offset in the file at which the next chunk is written.
    end: u64,
    /// Bytes of the chunks that were not removed.
    live: u64,
    /// Locations of the chunks of each file. Most files have a single chunk, which needs no extra allocation.
    files: HashMap<FileId, SmallVec<[ChunkLocation; 1]>>,
}

/// Location of a chunk in the file on disk. Kept small, because there may be a million.
#[derive(Clone, Copy, Debug)]
struct ChunkLocation {
    /// Hash of the chunk id.
    id: u64,
    at: u32,
    length: u32,
}

impl PassageCache {
    /// Creates an empty cache, with its file in this folder.
    ///
    /// # Errors
    /// The disk fails. All other methods that return an error do so for the same reason.
    pub(in crate::store) fn new(dir: &Path) -> io::Result<PassageCache> {
        let file = tempfile::tempfile_in(dir)?;
        Ok(PassageCache { dir: dir.to_owned(), file, end: 0, live: 0, files: HashMap::new() })
    }

    /// Returns the bytes of all chunks that were not removed.
    pub(in crate::store) fn bytes(&self) -> u64 {
        self.live
    }

    /// Adds a chunk.
    pub(in crate::store) fn add(&mut self, file_id: FileId, chunk: &Chunk) -> io::Result<()> {
        let (anchor, heading_path) = (schema::anchor(chunk)?, serde_json::to_string(&chunk.heading_path)?);
        let columns = Columns {
            id: &chunk.id.0,
            ordinal: chunk.ordinal,
            text: &chunk.text,
            body_start: chunk.body_start,
            anchor: &anchor,
            heading_path: &heading_path,
            tokens: chunk.tokens,
            tier: chunk.tier.name(),
        };
        self.add_all(std::iter::once((file_id, columns)))
    }

    /// Adds chunks in the encoding of the table's columns.
    pub(in crate::store) fn add_all<'a>(
        &mut self,
        chunks: impl Iterator<Item = (FileId, Columns<'a>)>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (file_id, columns) in chunks {
            let start = bytes.len();
            encode(&columns, &mut bytes)?;
            let at = to_u32(self.end + start as u64)?;
            let slot = ChunkLocation { id: hash_id(columns.id), at, length: to_u32((bytes.len() - start) as u64)? };
            self.files.entry(file_id).or_default().push(slot);
            if bytes.len() >= WRITE_BATCH_BYTES {
                self.append(&mut bytes)?;
            }
        }
        self.append(&mut bytes)
    }

    /// Appends these bytes to the file and clears the buffer.
    fn append(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        self.live += bytes.len() as u64;
        bytes.clear();
        Ok(())
    }

    /// Removes the chunks of these files.
    pub(in crate::store) fn remove(&mut self, files: &[FileId]) -> io::Result<()> {
        let removed: Vec<ChunkLocation> = files.iter().filter_map(|it| self.files.remove(it)).flatten().collect();
        self.overwrite(&removed)?;
        self.compact_if_sparse()
    }

    /// Removes these chunks of a file.
    pub(in crate::store) fn remove_chunks(&mut self, file_id: FileId, gone: &HashSet<ChunkId>) -> io::Result<()> {
        let gone: HashSet<u64> = gone.iter().map(|it| hash_id(&it.0)).collect();
        if let Some(slots) = self.files.get_mut(&file_id) {
            let removed: Vec<ChunkLocation> = slots.iter().filter(|it| gone.contains(&it.id)).copied().collect();
            slots.retain(|it| !gone.contains(&it.id));
            if slots.is_empty() {
                self.files.remove(&file_id);
            }
            self.overwrite(&removed)?;
        }
        self.compact_if_sparse()
    }

    /// Overwrites removed chunks with zeros, because the user may have removed their files to erase the text.
    fn overwrite(&mut self, removed: &[ChunkLocation]) -> io::Result<()> {
        const ZEROS: [u8; 4 << 10] = [0; 4 << 10];
        for slot in removed {
            let (mut at, end) = (u64::from(slot.at), u64::from(slot.at) + u64::from(slot.length));
            while at < end {
                let length = (end - at).min(ZEROS.len() as u64);
                self.file.write_all_at(&ZEROS[..length as usize], at)?;
                at += length;
            }
            self.live -= u64::from(slot.length);
        }
        Ok(())
    }

    /// Returns the chunks with these ids. Skips missing chunks.
    pub(in crate::store) fn get(&self, ids: &[(FileId, ChunkId)]) -> io::Result<Vec<StoredChunk>> {
        let mut found = Vec::with_capacity(ids.len());
        for (file_id, chunk_id) in ids {
            let (slots, id) = (self.files.get(file_id), hash_id(&chunk_id.0));
            for slot in slots.into_iter().flatten().filter(|it| it.id == id) {
                let chunk = decode(&self.read(slot)?)?;
                if chunk.id == *chunk_id {
                    found.push(StoredChunk { file_id: *file_id, chunk });
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Returns all chunks of these files, unordered.
    pub(in crate::store) fn of_files(&self, files: &[FileId]) -> io::Result<Vec<StoredChunk>> {
        let slots = files.iter().flat_map(|it| self.files.get(it).into_iter().flatten().map(move |slot| (*it, slot)));
        slots.map(|(file_id, slot)| Ok(StoredChunk { file_id, chunk: decode(&self.read(slot)?)? })).collect()
    }

    fn read(&self, slot: &ChunkLocation) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; slot.length as usize];
        self.file.read_exact_at(&mut bytes, u64::from(slot.at))?;
        Ok(bytes)
    }

    fn compact_if_sparse(&mut self) -> io::Result<()> {
        if self.end <= COMPACT_MIN_BYTES || self.end <= 2 * self.live {
            return Ok(());
        }
        let file = tempfile::tempfile_in(&self.dir)?;
        let mut end = 0;
        let mut files = self.files.clone();
        for slot in files.values_mut().flatten() {
            file.write_all_at(&self.read(slot)?, end)?;
            slot.at = to_u32(end)?;
            end += u64::from(slot.length);
        }
        *self = PassageCache { dir: std::mem::take(&mut self.dir), file, end, live: end, files };
        Ok(())
    }
}

fn hash_id(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Converts an offset or a length to 32 bits. The cache is dropped long before its size exceeds them.
fn to_u32(number: u64) -> io::Result<u32> {
    u32::try_from(number).map_err(io::Error::other)
}

/// Encodes a chunk as three numbers, the lengths of four texts (id, anchor, heading path, tier), these texts, and the
/// chunk's text.
fn encode(columns: &Columns<'_>, bytes: &mut Vec<u8>) -> io::Result<()> {
    let Columns { id, ordinal, text, body_start, anchor, heading_path, tokens, tier } = *columns;
    let texts = [id, anchor, heading_path, tier];
    for number in [ordinal, body_start, tokens] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for it in texts {
        bytes.extend_from_slice(&to_u32(it.len() as u64)?.to_le_bytes());
    }
    texts.iter().chain([&text]).for_each(|it| bytes.extend_from_slice(it.as_bytes()));
    Ok(())
}

fn decode(mut bytes: &[u8]) -> io::Result<Chunk> {
    let mut numbers = [0; 7];
    for number in &mut numbers {
        let (four, rest) = bytes.split_first_chunk().ok_or(io::ErrorKind::InvalidData)?;
        (*number, bytes) = (u32::from_le_bytes(*four), rest);
    }
    let [ordinal, body_start, tokens, lengths @ ..] = numbers;
    let mut texts = [""; 4];
    for (it, length) in texts.iter_mut().zip(lengths) {
        let (one, rest) = bytes.split_at_checked(length as usize).ok_or(io::ErrorKind::InvalidData)?;
        (*it, bytes) = (str::from_utf8(one).map_err(io::Error::other)?, rest);
    }
    let [id, anchor, heading_path, tier] = texts;
    let text = str::from_utf8(bytes).map_err(io::Error::other)?;
    let columns = Columns { id, ordinal, text, body_start, anchor, heading_path, tokens, tier };
    columns.decode().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Anchor, EncodedPieces, Tier};

    fn chunk(name: &str, text: &str) -> Chunk {
        Chunk {
            id: ChunkId(name.into()),
            ordinal: 7,
            text: text.into(),
            body_start: 3,
            anchor: Anchor { page: Some(4), ..Anchor::default() },
            pieces: EncodedPieces::default(),
            heading_path: vec!["Über\nuns".into()],
            tokens: 1,
            tier: Tier::L2,
        }
    }

    fn ids(ids: &[(FileId, &str)]) -> Vec<(FileId, ChunkId)> {
        ids.iter().map(|(file_id, name)| (*file_id, ChunkId((*name).into()))).collect()
    }

    #[test]
    fn chunk_round_trips_through_unlinked_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut passages = PassageCache::new(dir.path()).unwrap();
        let chunk = chunk("a", "Öl\nund \"Wasser\"\n");
        passages.add(5, &chunk).unwrap();
        let found = passages.get(&ids(&[(5, "a"), (5, "b"), (6, "a")])).unwrap();
        assert_eq!(found, [StoredChunk { file_id: 5, chunk }]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has a name");
    }

    #[test]
    fn slot_takes_16_bytes_and_single_one_no_allocation() {
        assert_eq!(size_of::<ChunkLocation>(), 16);
        assert_eq!(size_of::<SmallVec<[ChunkLocation; 1]>>(), 24);
    }

    #[test]
    fn removed_chunks_are_gone_and_file_is_compacted() {
        let dir = tempfile::tempdir().unwrap();
        let mut passages = PassageCache::new(dir.path()).unwrap();
        let text = "x".repeat(1 << 20);
        for file_id in 0..40 {
            passages.add(file_id, &chunk("a", &text)).unwrap();
            passages.add(file_id, &chunk("b", "short")).unwrap();
        }
        passages.remove(&(0..30).collect::<Vec<_>>()).unwrap();
        passages.remove_chunks(31, &HashSet::from([ChunkId("a".into())])).unwrap();
        let found = passages.get(&ids(&[(29, "a"), (31, "a"), (31, "b"), (39, "a")])).unwrap();
        let found: Vec<(FileId, usize)> = found.into_iter().map(|it| (it.file_id, it.chunk.text.len())).collect();
        assert_eq!(found, [(31, 5), (39, 1 << 20)]);
        let size = passages.file.metadata().unwrap().len();
        assert!(passages.bytes() <= size && size < 20 << 20, "{size} bytes for {}", passages.bytes());
    }
}
