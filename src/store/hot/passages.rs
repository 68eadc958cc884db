//! Chunks in memory, by file.

use std::collections::{HashMap, HashSet};

use crate::model::{Chunk, ChunkId, FileId, StoredChunk};

/// Bytes of a chunk beside its text: ids, anchor, headings and what the allocator adds.
pub(super) const OVERHEAD: usize = 400;

/// The chunks of all files of a table.
#[derive(Debug, Default)]
pub(in crate::store) struct Passages {
    files: HashMap<FileId, Vec<Chunk>>,
    bytes: usize,
}

impl Passages {
    /// What they take in memory, in bytes.
    pub(in crate::store) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a chunk.
    pub(in crate::store) fn add(&mut self, file_id: FileId, chunk: Chunk) {
        self.bytes += bytes(&chunk);
        self.files.entry(file_id).or_default().push(chunk);
    }

    /// Drops the chunks of these files.
    pub(in crate::store) fn remove(&mut self, files: &[FileId]) {
        for chunks in files.iter().filter_map(|it| self.files.remove(it)) {
            self.bytes -= chunks.iter().map(bytes).sum::<usize>();
        }
    }

    /// Drops these chunks of a file.
    pub(in crate::store) fn remove_chunks(&mut self, file_id: FileId, gone: &HashSet<ChunkId>) {
        let Some(chunks) = self.files.remove(&file_id) else { return };
        for chunk in chunks {
            self.bytes -= bytes(&chunk);
            if !gone.contains(&chunk.id) {
                self.add(file_id, chunk);
            }
        }
    }

    /// Returns these chunks; missing ones are left out.
    pub(in crate::store) fn get(&self, ids: &[(FileId, ChunkId)]) -> Vec<StoredChunk> {
        let stored = |(file_id, chunk_id): &(FileId, ChunkId)| {
            let chunk = self.files.get(file_id)?.iter().find(|it| it.id == *chunk_id)?;
            Some(StoredChunk { file_id: *file_id, chunk: chunk.clone() })
        };
        ids.iter().filter_map(stored).collect()
    }
}

fn bytes(chunk: &Chunk) -> usize {
    chunk.text.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Anchor, Tier};

    fn chunk(name: &str) -> Chunk {
        Chunk {
            id: ChunkId(name.into()),
            ordinal: 0,
            text: name.into(),
            body_start: 0,
            anchor: Anchor::default(),
            heading_path: Vec::new(),
            tokens: 1,
            tier: Tier::L1,
        }
    }

    #[test]
    fn what_is_removed_is_gone_and_takes_no_memory_any_more() {
        let mut passages = Passages::default();
        for (file_id, name) in [(1, "a"), (1, "bb"), (2, "a"), (3, "c")] {
            passages.add(file_id, chunk(name));
        }
        passages.remove_chunks(1, &HashSet::from([ChunkId("a".into())]));
        passages.remove(&[3, 9]);
        let ids = [(1, "a"), (1, "bb"), (2, "a"), (3, "c")].map(|(file_id, name)| (file_id, ChunkId(name.into())));
        let found: Vec<(FileId, String)> =
            passages.get(&ids).into_iter().map(|it| (it.file_id, it.chunk.text)).collect();
        assert_eq!(found, [(1, "bb".into()), (2, "a".into())]);
        assert_eq!(passages.bytes(), 2 * OVERHEAD + 3);
        passages.remove(&[1, 2]);
        assert_eq!(passages.bytes(), 0);
    }
}
