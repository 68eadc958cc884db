//! Reads of chunks and vectors by id, by file and all.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::Ordering;

use vic_milvus::{Filter, Rows};

use crate::error::Result;
use crate::model::{ChunkId, FileId, LegHit, StoredChunk};
use crate::store::backend::{FileSet, Inspection};
use crate::store::milvus::errors::from_client;
use crate::store::milvus::rows::{self, CHUNK, FILE, IDS, KEY, ORDINAL, Row, RowId, VECTOR, WORDS, row_key};
use crate::store::milvus::table::MilvusStore;

/// Maximum number of chunks that one read of whole chunks returns: with two KiB of text each 2 MB.
const READ_ROWS: u64 = 1_000;
/// Maximum number of times that rows are read because changes were committed meanwhile.
const MAX_READS: u32 = 3;

impl MilvusStore {
    /// Returns the chunks with these ids.
    pub(super) async fn read_chunks(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<StoredChunk>> {
        let mut chunks = Vec::with_capacity(ids.len());
        for rows in self.rows_by_id(ids, CHUNK).await? {
            chunks.extend(self.live_only(rows::chunks(&rows)?));
        }
        Ok(chunks)
    }

    /// Returns the vectors of the chunks with these ids, without those that have none.
    pub(super) async fn read_vectors(&self, ids: &[(FileId, ChunkId)]) -> Result<Vec<((FileId, ChunkId), Vec<f32>)>> {
        let mut vectors = Vec::with_capacity(ids.len());
        for rows in self.rows_by_id(ids, VECTOR).await? {
            let found = rows::vectors(&rows, self.dimension)?.into_iter().map(|(id, it)| (id.clone(), (id, it)));
            for (id, vector) in self.live_only(found) {
                vectors.extend(vector.map(|it| ((id.file_id, id.chunk_id), it)));
            }
        }
        Ok(vectors)
    }

    /// Returns the similarity of a vector to the chunks with these ids.
    pub(super) async fn read_similarities(&self, vector: &[f32], ids: &[(FileId, ChunkId)]) -> Result<Vec<LegHit>> {
        let dot = |it: &[f32]| vector.iter().zip(it).map(|(a, b)| a * b).sum::<f32>();
        let hit =
            |((file_id, chunk_id), it): ((FileId, ChunkId), Vec<f32>)| LegHit { chunk_id, file_id, score: dot(&it) };
        Ok(self.read_vectors(ids).await?.into_iter().map(hit).collect())
    }

    /// Returns the vectors of all chunks of a file.
    pub(super) async fn vectors_of_file(&self, file_id: FileId) -> Result<Vec<Vec<f32>>> {
        let mut found = Vec::new();
        for part in self.parts_of(&[file_id]) {
            let rows = self.read(&part, &with_ids(&[VECTOR])).await?;
            found.extend(self.live_only(rows::vectors(&rows, self.dimension)?).into_iter().flatten());
        }
        Ok(found)
    }

    /// Calls `each` with every chunk of these files, until it returns false.
    pub(super) async fn scan_files(
        &self,
        files: &FileSet,
        each: &mut (dyn FnMut(StoredChunk) -> bool + Send),
    ) -> Result<()> {
        let files = match files {
            FileSet::All => self.live().file_ids(),
            FileSet::Only(files) => files.iter().copied().filter(|it| self.live().has_file(*it)).collect(),
        };
        for part in self.parts_of(&files) {
            let rows = self.read(&part, &with_ids(&[CHUNK])).await?;
            for chunk in self.live_only(rows::chunks(&rows)?) {
                if !each(chunk) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns all rows of a file with everything that a copy needs.
    pub(super) async fn stored_rows(&self, file_id: FileId) -> Result<Vec<Row>> {
        let mut copied = Vec::new();
        let fields = if self.has_words() { with_ids(&[CHUNK, VECTOR, WORDS]) } else { with_ids(&[CHUNK, VECTOR]) };
        for part in self.parts_of(&[file_id]) {
            let rows = self.read(&part, &fields).await?;
            let words =
                if self.has_words() { rows.sparse_vectors(WORDS).map_err(from_client)?.to_vec() } else { Vec::new() };
            let texts = rows.var_char(CHUNK).map_err(from_client)?;
            let vectors = rows::vectors(&rows, self.dimension)?;
            let row = |at: usize| {
                let (id, vector) = vectors[at].clone();
                let row = Row {
                    file_id,
                    ordinal: id.ordinal,
                    chunk_id: id.chunk_id.clone(),
                    chunk: texts[at].clone(),
                    vector: vector.unwrap_or_else(|| vec![0.0; self.dimension]),
                    words: words.get(at).cloned().unwrap_or_default(),
                };
                (id, row)
            };
            copied.extend(self.live_only((0..rows.len()).map(row)));
        }
        Ok(copied)
    }

    /// Reads all rows, and adds the number of valid rows of each file and the files with a damaged vector.
    pub(super) async fn check_rows(&self, inspection: &mut Inspection) -> Result<()> {
        let files = self.live().file_ids();
        for part in self.parts_of(&files) {
            let rows = self.read(&part, &with_ids(&[CHUNK, VECTOR])).await?;
            rows::chunks(&rows)?;
            for (id, vector) in
                self.live_only(rows::vectors(&rows, self.dimension)?.into_iter().map(|(id, it)| (id.clone(), (id, it))))
            {
                *inspection.rows.entry(id.file_id).or_default() += 1;
                if !rows::is_valid(vector.as_ref()) {
                    inspection.damaged.insert(id.file_id);
                }
            }
        }
        Ok(())
    }

    /// Reads the rows with these ids and their field `field`, in parts.
    async fn rows_by_id(&self, ids: &[(FileId, ChunkId)], field: &'static str) -> Result<Vec<Rows>> {
        let keys: Vec<String> = {
            let live = self.live();
            let keys = |(file_id, id): &(FileId, ChunkId)| {
                live.generations(*file_id).map(|it| row_key(*file_id, it, id)).collect::<Vec<_>>()
            };
            let unique: HashSet<String> = ids.iter().flat_map(keys).collect();
            unique.into_iter().collect()
        };
        let mut found = Vec::new();
        for part in keys.chunks(READ_ROWS as usize) {
            let filter = Filter::in_texts(KEY, part.iter().cloned());
            found.push(self.read(&filter, &with_ids(&[field])).await?);
        }
        Ok(found)
    }

    /// Reads rows. Reads them again if a change was committed meanwhile, which may have made some of them invalid.
    async fn read(&self, filter: &Filter, fields: &[&str]) -> Result<Rows> {
        let mut attempt = 1;
        loop {
            let version = self.version.load(Ordering::Relaxed);
            let rows = self.query(filter, fields, self.guarantee()).await?;
            if attempt == MAX_READS || self.version.load(Ordering::Relaxed) == version {
                return Ok(rows);
            }
            attempt += 1;
        }
    }

    /// Keeps what belongs to valid rows, once each: a server may return a row twice.
    fn live_only<T>(&self, rows: impl IntoIterator<Item = (RowId, T)>) -> Vec<T> {
        let (live, mut seen) = (self.live(), HashSet::new());
        let mut is_new = |id: RowId| id.is_live(&live) && seen.insert(id);
        rows.into_iter().filter_map(|(id, it)| is_new(id).then_some(it)).collect()
    }

    /// Returns filters of all rows of these files, each of some [`READ_ROWS`] rows.
    pub(super) fn parts_of(&self, files: &[FileId]) -> Vec<Filter> {
        let live = self.live();
        let (mut parts, mut together, mut rows) = (Vec::new(), Vec::new(), 0);
        for file_id in files {
            let chunks = live.chunks_of(*file_id);
            if chunks > READ_ROWS {
                let ranges = live.ordinal_ranges(*file_id, READ_ROWS as u32);
                let part = |it: Range<u32>| Filter::range(ORDINAL, i64::from(it.start)..i64::from(it.end));
                parts.extend(ranges.into_iter().map(|it| Filter::eq_int(FILE, *file_id).and(part(it))));
                continue;
            }
            if rows + chunks > READ_ROWS {
                parts.push(Filter::in_ints(FILE, std::mem::take(&mut together)));
                rows = 0;
            }
            together.push(*file_id);
            rows += chunks;
        }
        if !together.is_empty() {
            parts.push(Filter::in_ints(FILE, together));
        }
        parts
    }
}

/// Returns the fields that identify a row, and these.
fn with_ids(fields: &[&'static str]) -> Vec<&'static str> {
    IDS.iter().chain(fields).copied().collect()
}
