//! Rows of the collection: its fields, and their conversion from and to chunks.

use serde::{Deserialize, Serialize};
use vic_milvus::{Column, Field, FieldType, Rows, Values};

use crate::error::{Error, ErrorCode, Result};
use crate::model::{Anchor, Chunk, ChunkId, Embedded, EncodedPieces, FileId, StoredChunk, Tier, has_unit_norm};
use crate::store::milvus::errors::from_client;
use crate::store::milvus::keywords::SparseVector;
use crate::store::milvus::live_rows::LiveRows;

/// Key of a row: file, generation and chunk id.
pub(super) const KEY: &str = "row_key";
pub(super) const FILE: &str = "file_id";
pub(super) const GENERATION: &str = "generation";
pub(super) const ORDINAL: &str = "ordinal";
pub(super) const CHUNK_ID: &str = "chunk_id";
/// The chunk without its ids, as JSON.
pub(super) const CHUNK: &str = "chunk";
pub(super) const VECTOR: &str = "vector";
/// Weights of the words, as a sparse vector.
pub(super) const WORDS: &str = "words";

/// Maximum length of a row key and of a chunk id, in bytes: two numbers of 20 digits and an id of 32.
const MAX_KEY_BYTES: usize = 128;
/// Maximum length of a chunk as JSON, in bytes: the longest text that a server takes. A chunk has at most some 10 KiB.
const MAX_CHUNK_BYTES: usize = 65_535;

/// The fields that identify a row.
pub(super) const IDS: [&str; 4] = [FILE, GENERATION, ORDINAL, CHUNK_ID];

/// Returns the fields of a collection with vectors of this length.
pub(super) fn fields(dimension: usize, has_words: bool) -> Vec<Field> {
    let mut fields = vec![
        Field::primary(KEY, FieldType::VarChar { max_bytes: MAX_KEY_BYTES }),
        Field::new(FILE, FieldType::Int64),
        Field::new(GENERATION, FieldType::Int64),
        Field::new(ORDINAL, FieldType::Int64),
        Field::new(CHUNK_ID, FieldType::VarChar { max_bytes: MAX_KEY_BYTES }),
        Field::new(CHUNK, FieldType::VarChar { max_bytes: MAX_CHUNK_BYTES }),
        Field::new(VECTOR, FieldType::FloatVector { dim: dimension }),
    ];
    if has_words {
        fields.push(Field::new(WORDS, FieldType::SparseFloatVector));
    }
    fields
}

/// A chunk with what the collection stores of it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) file_id: FileId,
    pub(super) ordinal: u32,
    pub(super) chunk_id: ChunkId,
    /// The chunk without its ids, as JSON.
    pub(super) chunk: String,
    /// Zeros for a chunk without a vector.
    pub(super) vector: Vec<f32>,
    pub(super) words: SparseVector,
}

/// A chunk without its ids.
#[derive(Serialize, Deserialize)]
struct ChunkRecord {
    text: String,
    body_start: u32,
    anchor: Anchor,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pieces: String,
    heading_path: Vec<String>,
    tokens: u32,
    tier: Tier,
}

impl Row {
    /// Returns about how many bytes the server needs for the row.
    pub(super) fn bytes(&self) -> usize {
        self.chunk.len() + size_of_val(&*self.vector) + size_of_val(&*self.words) + 2 * MAX_KEY_BYTES
    }

    /// # Errors
    /// The vector has another length than `dimension`, or the chunk is longer than a row can be.
    pub(super) fn new(file_id: FileId, embedded: &Embedded, words: SparseVector, dimension: usize) -> Result<Row> {
        let vector = match embedded.vector.len() {
            0 => vec![0.0; dimension],
            length if length == dimension => embedded.vector.clone(),
            length => {
                return Err(Error::internal(format!(
                    "a vector of file {file_id} has {length} numbers, not {dimension}"
                )));
            }
        };
        let chunk = &embedded.chunk;
        let record = ChunkRecord {
            text: chunk.text.clone(),
            body_start: chunk.body_start,
            anchor: chunk.anchor.clone(),
            pieces: chunk.pieces.as_str().to_owned(),
            heading_path: chunk.heading_path.clone(),
            tokens: chunk.tokens,
            tier: chunk.tier,
        };
        let json = serde_json::to_string(&record).map_err(Error::internal)?;
        if json.len() > MAX_CHUNK_BYTES {
            return Err(Error::internal(format!(
                "a chunk of file {file_id} has {} bytes, Milvus takes 65,535",
                json.len()
            )));
        }
        Ok(Row { file_id, ordinal: chunk.ordinal, chunk_id: chunk.id.clone(), chunk: json, vector, words })
    }
}

/// Returns the key of a row.
pub(super) fn row_key(file_id: FileId, generation: u64, chunk_id: &ChunkId) -> String {
    format!("{file_id}/{generation}/{chunk_id}")
}

/// Returns the columns of rows that one change writes.
pub(super) fn to_columns(rows: &[Row], generation: u64, dimension: usize, has_words: bool) -> Vec<Column> {
    let text = |get: &dyn Fn(&Row) -> String| Values::VarChar(rows.iter().map(get).collect());
    let number = |get: &dyn Fn(&Row) -> i64| Values::Int64(rows.iter().map(get).collect());
    let numbers = rows.iter().flat_map(|it| it.vector.iter().copied()).collect();
    let mut columns = vec![
        Column::new(KEY, text(&|it| row_key(it.file_id, generation, &it.chunk_id))),
        Column::new(FILE, number(&|it| it.file_id)),
        Column::new(GENERATION, number(&|_| generation.cast_signed())),
        Column::new(ORDINAL, number(&|it| i64::from(it.ordinal))),
        Column::new(CHUNK_ID, text(&|it| it.chunk_id.0.clone())),
        Column::new(CHUNK, text(&|it| it.chunk.clone())),
        Column::new(VECTOR, Values::FloatVector { dim: dimension, numbers }),
    ];
    if has_words {
        let words = rows.iter().map(|it| it.words.clone()).collect();
        columns.push(Column::new(WORDS, Values::SparseFloatVector(words)));
    }
    columns
}

/// The ids of a row that the server returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowId {
    pub(super) file_id: FileId,
    pub(super) generation: u64,
    pub(super) ordinal: u32,
    pub(super) chunk_id: ChunkId,
}

impl RowId {
    pub(super) fn is_live(&self, live: &LiveRows) -> bool {
        live.contains(self.file_id, self.generation, self.ordinal)
    }

    pub(super) fn key(&self) -> String {
        row_key(self.file_id, self.generation, &self.chunk_id)
    }
}

/// Returns the ids of rows with the fields [`IDS`].
pub(super) fn row_ids(rows: &Rows) -> Result<Vec<RowId>> {
    let read = || -> vic_milvus::Result<_> {
        let (files, generations) = (rows.int64(FILE)?, rows.int64(GENERATION)?);
        Ok((files, generations, rows.int64(ORDINAL)?, rows.var_char(CHUNK_ID)?))
    };
    let (files, generations, ordinals, ids) = read().map_err(from_client)?;
    let row = |at: usize| {
        let ordinal = u32::try_from(ordinals[at]).map_err(|_| unreadable(files[at]))?;
        let (file_id, generation) = (files[at], generations[at].cast_unsigned());
        Ok(RowId { file_id, generation, ordinal, chunk_id: ChunkId(ids[at].clone()) })
    };
    (0..rows.len()).map(row).collect()
}

/// Returns the chunks of rows with the fields [`IDS`] and [`CHUNK`], each with the ids of its row.
pub(super) fn chunks(rows: &Rows) -> Result<Vec<(RowId, StoredChunk)>> {
    let texts = rows.var_char(CHUNK).map_err(from_client)?;
    let chunk = |(id, json): (RowId, &String)| Ok((id.clone(), to_chunk(&id, json)?));
    row_ids(rows)?.into_iter().zip(texts).map(chunk).collect()
}

fn to_chunk(id: &RowId, json: &str) -> Result<StoredChunk> {
    let record: ChunkRecord = serde_json::from_str(json).map_err(|_| unreadable(id.file_id))?;
    if !record.text.is_char_boundary(record.body_start as usize) {
        return Err(unreadable(id.file_id));
    }
    let chunk = Chunk {
        id: id.chunk_id.clone(),
        ordinal: id.ordinal,
        text: record.text,
        body_start: record.body_start,
        anchor: record.anchor,
        pieces: EncodedPieces::from_stored(&record.pieces),
        heading_path: record.heading_path,
        tokens: record.tokens,
        tier: record.tier,
    };
    Ok(StoredChunk { file_id: id.file_id, chunk })
}

/// Returns the vectors of rows with the fields [`IDS`] and [`VECTOR`]; `None` for a chunk without a vector.
pub(super) fn vectors(rows: &Rows, dimension: usize) -> Result<Vec<(RowId, Option<Vec<f32>>)>> {
    let numbers = rows.float_vectors(VECTOR, dimension).map_err(from_client)?;
    let vector = |it: &[f32]| it.iter().any(|number| *number != 0.0).then(|| it.to_vec());
    Ok(row_ids(rows)?.into_iter().zip(numbers.chunks_exact(dimension).map(vector)).collect())
}

/// Returns whether a vector is one that vic writes.
pub(super) fn is_valid(vector: Option<&Vec<f32>>) -> bool {
    vector.is_none_or(|it| has_unit_norm(it))
}

fn unreadable(file_id: FileId) -> Error {
    Error::new(ErrorCode::DataLoss, format!("Milvus returned a row of file {file_id} that vic did not write"))
        .hint("run `vic index --full`")
}
