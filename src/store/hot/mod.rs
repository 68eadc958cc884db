//! What is kept at hand of a table that is not large: [`vectors`] for the vector leg, [`passages`] for what is shown.
//!
//! Each query of the table itself costs milliseconds, however few rows it reads: the plan, the tasks, the decoding of whole
//! pages. At 20,000 rows a scan of the vectors took ten times as long as comparing them, and the passages of the best files
//! a third of the time of a question.

mod addresses;
mod best;
mod id;
mod numbers;
mod pages;
mod parts;
mod passages;
mod prefetch;
mod products;
mod search;
mod sketch;
mod vectors;

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;

use arrow::array::RecordBatch;
use lancedb::query::Select;

use crate::error::Result;
use crate::model::{ChunkId, Embedded, FileChunks, FileId};
use crate::store::schema;

pub(super) use addresses::Addresses;
pub(super) use parts::start_threads;
pub(super) use passages::Passages;
pub(super) use vectors::Vectors;

/// Bytes that vectors may take with all that belongs to them: 1.3 million of 384 numbers. Above, the table's own index
/// takes over.
pub(super) const HOT_VECTOR_BYTES: usize = 704 << 20;

/// Bytes of passages that are kept at hand: a million short ones. Above, the table is read. They lie in a file, so that they
/// take no memory but what the system has to spare; what tells where they lie takes 16 to 75 bytes each.
pub(super) const HOT_TEXT_BYTES: u64 = 768 << 20;

/// Bytes of a passage at least: ids, anchor and a few words.
const PASSAGE_BYTES: u64 = 200;

/// The part of a table that is at hand. Either part is there in full or not at all.
#[derive(Debug, Default)]
pub(super) struct Hot {
    vectors: Option<Vectors>,
    passages: Option<Passages>,
    /// As far as they are known; none of a table that is too large.
    addresses: Option<Addresses>,
    /// Files of which the table has vectors that vic never wrote.
    damaged: BTreeSet<FileId>,
}

impl Hot {
    /// Begins empty, for a table in this folder with so many rows, with vectors of this length. The default keeps nothing.
    pub(super) fn new(dir: &Path, rows: u64, dimension: usize) -> Hot {
        let vectors = (rows <= hot_rows(dimension) as u64).then(|| Vectors::new(dimension));
        let addresses = vectors.is_some().then(Addresses::default);
        let mut hot = Hot { vectors, passages: None, addresses, damaged: BTreeSet::new() };
        // A table whose vectors do not fit is not read at all: without its passages, none must seem to be there.
        if hot.vectors.is_some() && rows * PASSAGE_BYTES <= HOT_TEXT_BYTES {
            match Passages::new(dir) {
                Ok(passages) => hot.passages = Some(passages),
                Err(error) => without_passages(&error),
            }
        }
        hot
    }

    /// The columns that are kept.
    pub(super) fn columns(&self) -> Select {
        match (&self.vectors, &self.passages) {
            (_, Some(_)) => Select::All,
            _ => Select::columns(&["chunk_id", "file_id", "vector"]),
        }
    }

    /// Files of which some vector was damaged in the rows that were added.
    pub(super) fn damaged(&self) -> &BTreeSet<FileId> {
        &self.damaged
    }

    /// The vectors, if there are not too many.
    pub(super) fn vectors(&self) -> Option<&Vectors> {
        self.vectors.as_ref()
    }

    /// The passages, if they are not too large.
    pub(super) fn passages(&self) -> Option<&Passages> {
        self.passages.as_ref()
    }

    /// Where the rows of the table lie.
    pub(super) fn addresses(&self) -> Option<&Addresses> {
        self.addresses.as_ref()
    }

    /// Learns where rows lie, from batches with ids and addresses.
    ///
    /// # Errors
    /// A column holds what vic never writes.
    pub(super) fn learn(&mut self, batches: &[RecordBatch]) -> Result<()> {
        self.addresses.iter_mut().try_for_each(|it| batches.iter().try_for_each(|batch| it.learn(batch)))
    }

    /// Learns where the rows of a batch lie that make up a fragment.
    ///
    /// # Errors
    /// A column holds what vic never writes.
    pub(super) fn learn_fragment(&mut self, fragment: u32, batch: &RecordBatch) -> Result<()> {
        self.addresses.iter_mut().try_for_each(|it| it.learn_fragment(fragment, batch))
    }

    /// Forgets the addresses that were known, and knows these.
    pub(super) fn move_to(&mut self, addresses: Addresses) {
        if self.addresses.is_some() {
            self.addresses = Some(addresses);
        }
    }

    /// Adds the chunks of a file.
    pub(super) fn add(&mut self, file_id: FileId, chunks: &[Embedded]) {
        for it in chunks {
            if let Some(vectors) = &mut self.vectors {
                vectors.push(file_id, &it.chunk.id.0, &it.vector);
            }
            self.keep(|passages| passages.add(file_id, &it.chunk));
        }
        self.shed();
    }

    /// Puts these chunks in place of those that the files had.
    pub(super) fn replace(&mut self, files: &[FileChunks]) {
        self.remove(&files.iter().map(|it| it.file_id).collect::<Vec<_>>());
        files.iter().for_each(|it| self.add(it.file_id, &it.chunks));
    }

    /// Expects so many rows, until [`Hot::filled`].
    pub(super) fn filling(&mut self, rows: u64) {
        if let Some(vectors) = &mut self.vectors {
            vectors.filling(usize::try_from(rows).unwrap_or_default());
        }
    }

    /// All rows that were expected are there.
    pub(super) fn filled(&mut self) {
        if let Some(vectors) = &mut self.vectors {
            vectors.filled();
        }
    }

    /// Adds rows of the table, with [`Hot::columns`] at least.
    ///
    /// # Errors
    /// A column holds what vic never writes.
    pub(super) fn add_rows(&mut self, batch: &RecordBatch) -> Result<()> {
        if let Some(vectors) = &mut self.vectors {
            for ((file_id, id), vector) in schema::keys(batch)?.zip(schema::vectors(batch)?) {
                if schema::is_sound(vector) {
                    vectors.push(file_id, id, vector);
                } else {
                    self.damaged.insert(file_id);
                }
            }
        }
        self.learn(std::slice::from_ref(batch))?;
        if self.passages.is_some() {
            let chunks = schema::columns(batch)?;
            self.keep(|passages| passages.add_all(chunks));
        }
        self.shed();
        Ok(())
    }

    /// Drops these files.
    pub(super) fn remove(&mut self, files: &[FileId]) {
        if let Some(vectors) = &mut self.vectors {
            vectors.remove(files);
        }
        self.keep(|passages| passages.remove(files));
    }

    /// Drops these chunks of a file.
    pub(super) fn remove_chunks(&mut self, file_id: FileId, chunks: &HashSet<ChunkId>) {
        if let Some(vectors) = &mut self.vectors {
            vectors.remove_chunks(file_id, chunks);
        }
        self.keep(|passages| passages.remove_chunks(file_id, chunks));
    }

    /// Changes the passages. The table has them too: when the disk refuses, it is read instead.
    fn keep(&mut self, change: impl FnOnce(&mut Passages) -> io::Result<()>) {
        if let Some(Err(error)) = self.passages.as_mut().map(change) {
            without_passages(&error);
            self.passages = None;
        }
    }

    /// Lets go of what has become too large.
    fn shed(&mut self) {
        if self.vectors.take_if(|it| it.len() > hot_rows(it.dimension())).is_some() {
            self.addresses = None;
        }
        self.passages.take_if(|it| it.bytes() > HOT_TEXT_BYTES);
    }
}

/// Number of vectors of this length that are kept.
pub(super) fn hot_rows(dimension: usize) -> usize {
    HOT_VECTOR_BYTES / vectors::row_bytes(dimension)
}

fn without_passages(error: &io::Error) {
    tracing::warn!(%error, "passages are not kept at hand; questions take longer");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_not_read_has_nothing_at_hand() {
        let dir = tempfile::tempdir().unwrap();
        let rows = hot_rows(768) as u64;
        let kept = |rows| Hot::new(dir.path(), rows, 768);
        assert!(kept(rows).vectors().is_some() && kept(rows).passages().is_some());
        assert!(kept(rows + 1).vectors().is_none() && kept(rows + 1).passages().is_none());
    }
}
