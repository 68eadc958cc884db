//! Chunks in a file that has no name: it ends with the process, and takes no memory but what the system has to spare.
//!
//! A few microseconds give a passage back. The table takes milliseconds for it, however few are asked for.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::{Anchor, Chunk, ChunkId, FileId, StoredChunk, Tier};

/// The file is written anew without what was removed when it is larger than this, and more than half of it is.
const WORTH_WRITING_ANEW: u64 = 16 << 20;

/// The chunks of all files of a table.
#[derive(Debug)]
pub(in crate::store) struct Passages {
    dir: PathBuf,
    file: File,
    /// Where the next one goes.
    end: u64,
    /// Bytes of those that were not removed.
    live: u64,
    files: HashMap<FileId, Vec<Slot>>,
}

/// Where a chunk lies.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Hash of its id.
    id: u64,
    at: u64,
    length: u32,
}

/// All of a chunk but its text, which follows it on the next line.
#[derive(Serialize, Deserialize)]
struct Head {
    id: ChunkId,
    ordinal: u32,
    body_start: u32,
    anchor: Anchor,
    heading_path: Vec<String>,
    tokens: u32,
    tier: Tier,
}

impl Passages {
    /// Makes an empty file in that folder.
    ///
    /// # Errors
    /// The disk refuses, here as everywhere.
    pub(in crate::store) fn new(dir: &Path) -> io::Result<Passages> {
        let file = tempfile::tempfile_in(dir)?;
        Ok(Passages { dir: dir.to_owned(), file, end: 0, live: 0, files: HashMap::new() })
    }

    /// What they take on disk, in bytes, without what was removed.
    pub(in crate::store) fn bytes(&self) -> u64 {
        self.live
    }

    /// Adds a chunk.
    pub(in crate::store) fn add(&mut self, file_id: FileId, chunk: &Chunk) -> io::Result<()> {
        self.append(file_id, &chunk.id, &encode(chunk)?)
    }

    fn append(&mut self, file_id: FileId, chunk_id: &ChunkId, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.files.entry(file_id).or_default().push(Slot { id: hash(chunk_id), at: self.end, length });
        self.end += u64::from(length);
        self.live += u64::from(length);
        Ok(())
    }

    /// Drops the chunks of these files.
    pub(in crate::store) fn remove(&mut self, files: &[FileId]) -> io::Result<()> {
        for slots in files.iter().filter_map(|it| self.files.remove(it)) {
            self.live -= slots.iter().map(|it| u64::from(it.length)).sum::<u64>();
        }
        self.write_anew_if_sparse()
    }

    /// Drops these chunks of a file.
    pub(in crate::store) fn remove_chunks(&mut self, file_id: FileId, gone: &HashSet<ChunkId>) -> io::Result<()> {
        let gone: HashSet<u64> = gone.iter().map(hash).collect();
        let slots = self.files.remove(&file_id).unwrap_or_default();
        let (removed, kept): (Vec<Slot>, Vec<Slot>) = slots.into_iter().partition(|it| gone.contains(&it.id));
        self.live -= removed.iter().map(|it| u64::from(it.length)).sum::<u64>();
        if !kept.is_empty() {
            self.files.insert(file_id, kept);
        }
        self.write_anew_if_sparse()
    }

    /// Returns these chunks; missing ones are left out.
    pub(in crate::store) fn get(&self, ids: &[(FileId, ChunkId)]) -> io::Result<Vec<StoredChunk>> {
        let mut found = Vec::with_capacity(ids.len());
        for (file_id, chunk_id) in ids {
            let (slots, id) = (self.files.get(file_id), hash(chunk_id));
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

    /// Returns all chunks of these files, in no order.
    pub(in crate::store) fn of_files(&self, files: &[FileId]) -> io::Result<Vec<StoredChunk>> {
        let slots = files.iter().flat_map(|it| self.files.get(it).into_iter().flatten().map(move |slot| (*it, slot)));
        slots.map(|(file_id, slot)| Ok(StoredChunk { file_id, chunk: decode(&self.read(slot)?)? })).collect()
    }

    fn read(&self, slot: &Slot) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; slot.length as usize];
        self.file.read_exact_at(&mut bytes, slot.at)?;
        Ok(bytes)
    }

    fn write_anew_if_sparse(&mut self) -> io::Result<()> {
        if self.end <= WORTH_WRITING_ANEW || self.end <= 2 * self.live {
            return Ok(());
        }
        let file = tempfile::tempfile_in(&self.dir)?;
        let mut end = 0;
        let mut files = self.files.clone();
        for slot in files.values_mut().flatten() {
            file.write_all_at(&self.read(slot)?, end)?;
            slot.at = end;
            end += u64::from(slot.length);
        }
        *self = Passages { dir: std::mem::take(&mut self.dir), file, end, live: end, files };
        Ok(())
    }
}

fn hash(id: &ChunkId) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

fn encode(chunk: &Chunk) -> io::Result<Vec<u8>> {
    let head = Head {
        id: chunk.id.clone(),
        ordinal: chunk.ordinal,
        body_start: chunk.body_start,
        anchor: chunk.anchor.clone(),
        heading_path: chunk.heading_path.clone(),
        tokens: chunk.tokens,
        tier: chunk.tier,
    };
    let mut bytes = serde_json::to_vec(&head)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(chunk.text.as_bytes());
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> io::Result<Chunk> {
    let end = bytes.iter().position(|it| *it == b'\n').ok_or(io::ErrorKind::InvalidData)?;
    let Head { id, ordinal, body_start, anchor, heading_path, tokens, tier } = serde_json::from_slice(&bytes[..end])?;
    let text = String::from_utf8(bytes[end + 1..].to_vec()).map_err(io::Error::other)?;
    Ok(Chunk { id, ordinal, text, body_start, anchor, heading_path, tokens, tier })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &str, text: &str) -> Chunk {
        Chunk {
            id: ChunkId(name.into()),
            ordinal: 7,
            text: text.into(),
            body_start: 3,
            anchor: Anchor { page: Some(4), ..Anchor::default() },
            heading_path: vec!["Über\nuns".into()],
            tokens: 1,
            tier: Tier::L2,
        }
    }

    fn ids(ids: &[(FileId, &str)]) -> Vec<(FileId, ChunkId)> {
        ids.iter().map(|(file_id, name)| (*file_id, ChunkId((*name).into()))).collect()
    }

    #[test]
    fn a_chunk_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let mut passages = Passages::new(dir.path()).unwrap();
        let chunk = chunk("a", "Öl\nund \"Wasser\"\n");
        passages.add(5, &chunk).unwrap();
        let found = passages.get(&ids(&[(5, "a"), (5, "b"), (6, "a")])).unwrap();
        assert_eq!(found, [StoredChunk { file_id: 5, chunk }]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has a name");
    }

    #[test]
    fn what_is_removed_is_gone_and_its_room_is_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut passages = Passages::new(dir.path()).unwrap();
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
