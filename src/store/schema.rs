//! Defines the columns of the table, and converts chunks to Arrow batches and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Float32Type, Int64Type, Schema, SchemaRef, UInt32Type};

use crate::error::{Error, ErrorCode, Result};
use crate::model::{
    Anchor, Chunk, ChunkId, EncodedPieces, FileChunks, FileId, LegHit, StoredChunk, Tier, has_unit_norm,
};
use crate::store::analysis::file_terms;

/// Column with the terms of a chunk, separated by blanks. Its name has the version of the analysis: another analysis is
/// another column, which `analysed_terms` adds to the tables of an older vic.
pub(super) const TERMS: &str = "terms_1";

/// Names of the columns of a [`StoredChunk`]: all columns except the vector and the terms.
pub(super) const CHUNK_COLUMNS: [&str; 9] =
    ["chunk_id", "file_id", "ordinal", "text", "body_start", "anchor", "heading_path", "tokens", "tier"];

/// Returns the schema of a table with vectors of this length.
pub(super) fn schema(dimension: usize) -> SchemaRef {
    let columns = schema_without_terms(dimension);
    let columns = columns.fields().iter().cloned().chain([Arc::new(terms_field())]);
    Arc::new(Schema::new(columns.collect::<Vec<_>>()))
}

/// Returns the column [`TERMS`].
pub(super) fn terms_field() -> Field {
    Field::new(TERMS, DataType::Utf8, true)
}

/// Returns whether a table has the column of analysed terms.
pub(super) async fn has_terms(table: &lancedb::Table) -> lancedb::Result<bool> {
    Ok(table.schema().await?.field_with_name(TERMS).is_ok())
}

/// Returns the schema of a table of a vic that left the analysis to the keyword index.
pub(super) fn schema_without_terms(dimension: usize) -> SchemaRef {
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let dimension = i32::try_from(dimension).unwrap_or(i32::MAX);
    Arc::new(Schema::new(vec![
        Field::new("chunk_id", DataType::Utf8, false),
        Field::new("file_id", DataType::Int64, false),
        Field::new("ordinal", DataType::UInt32, false),
        Field::new("text", DataType::Utf8, false),
        Field::new("body_start", DataType::UInt32, false),
        Field::new("anchor", DataType::Utf8, false),
        Field::new("heading_path", DataType::Utf8, false),
        Field::new("tokens", DataType::UInt32, false),
        Field::new("tier", DataType::Utf8, false),
        Field::new("vector", DataType::FixedSizeList(item, dimension), false),
    ]))
}

/// Returns the length of the vectors in a table with this schema; `None` if it has none.
pub(super) fn vector_length(schema: &Schema) -> Option<usize> {
    match schema.field_with_name("vector").ok()?.data_type() {
        DataType::FixedSizeList(_, length) => usize::try_from(*length).ok(),
        _ => None,
    }
}

/// Builds one batch with the chunks of all these files.
///
/// Stores zeros for a chunk without a vector.
///
/// # Errors
/// A vector has another length than the table's.
pub(super) fn batch(files: &[FileChunks], dimension: usize) -> Result<RecordBatch> {
    let rows: Vec<_> = files.iter().flat_map(|file| file.chunks.iter().map(|it| (file.file_id, it))).collect();
    if let Some((file_id, wrong)) = rows.iter().find(|(_, it)| ![0, dimension].contains(&it.vector.len())) {
        let found = wrong.vector.len();
        return Err(Error::internal(format!("a vector of file {file_id} has {found} numbers, not {dimension}")));
    }
    let chunks = || rows.iter().map(|(_, it)| &it.chunk);
    let numbers = |get: fn(&Chunk) -> u32| -> ArrayRef { Arc::new(UInt32Array::from_iter_values(chunks().map(get))) };
    let json = |get: fn(&Chunk) -> serde_json::Result<String>| -> Result<ArrayRef> {
        let texts = chunks().map(get).collect::<serde_json::Result<Vec<_>>>().map_err(Error::internal)?;
        Ok(Arc::new(StringArray::from_iter_values(texts)))
    };
    let DataType::FixedSizeList(item, size) = schema(dimension).field(9).data_type().clone() else {
        return Err(Error::internal("column 9 of the table schema is not a vector"));
    };
    let zeros = vec![0.0; dimension];
    let vectors = rows.iter().map(|(_, it)| if it.vector.is_empty() { &zeros } else { &it.vector });
    let values = Float32Array::from_iter_values(vectors.flatten().copied());
    let vectors = FixedSizeListArray::try_new(item, size, Arc::new(values), None).map_err(Error::internal)?;
    let terms: Vec<String> = files.iter().flat_map(file_terms).map(|it| it.join(" ")).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(chunks().map(|it| &it.id.0))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(file_id, _)| *file_id))),
        numbers(|it| it.ordinal),
        Arc::new(StringArray::from_iter_values(chunks().map(|it| &it.text))),
        numbers(|it| it.body_start),
        json(anchor)?,
        json(|it| serde_json::to_string(&it.heading_path))?,
        numbers(|it| it.tokens),
        Arc::new(StringArray::from_iter_values(chunks().map(|it| it.tier.name()))),
        Arc::new(vectors),
        Arc::new(StringArray::from_iter_values(terms)),
    ];
    RecordBatch::try_new(schema(dimension), columns).map_err(Error::internal)
}

/// The values of a chunk's columns before they are decoded into a `Chunk`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<'a> {
    pub(super) id: &'a str,
    pub(super) ordinal: u32,
    pub(super) text: &'a str,
    pub(super) body_start: u32,
    /// The anchor as JSON, followed by a second line with the encoded pieces (offset and location of
    /// each part of the chunk), if there are any.
    pub(super) anchor: &'a str,
    /// The heading path as JSON.
    pub(super) heading_path: &'a str,
    pub(super) tokens: u32,
    pub(super) tier: &'a str,
}

impl Columns<'_> {
    /// Decodes the chunk. Fails if a column holds a value that vic never writes.
    pub(super) fn decode(&self) -> Result<Chunk> {
        if !self.text.is_char_boundary(self.body_start as usize) {
            return Err(damaged_column("body_start"));
        }
        let (anchor, pieces) = self.anchor.split_once('\n').unwrap_or((self.anchor, ""));
        Ok(Chunk {
            id: ChunkId(self.id.to_owned()),
            ordinal: self.ordinal,
            text: self.text.to_owned(),
            body_start: self.body_start,
            anchor: serde_json::from_str::<Anchor>(anchor).map_err(|_| damaged_column("anchor"))?,
            pieces: EncodedPieces::from_stored(pieces),
            heading_path: serde_json::from_str(self.heading_path).map_err(|_| damaged_column("heading_path"))?,
            tokens: self.tokens,
            tier: parse_tier(self.tier)?,
        })
    }
}

/// Returns the value of the `anchor` column for a chunk.
pub(super) fn anchor(chunk: &Chunk) -> serde_json::Result<String> {
    let mut json = serde_json::to_string(&chunk.anchor)?;
    if !chunk.pieces.as_str().is_empty() {
        json.push('\n');
        json.push_str(chunk.pieces.as_str());
    }
    Ok(json)
}

/// Returns the rows of a batch that has [`CHUNK_COLUMNS`], not decoded, each with its file id.
pub(super) fn columns(batch: &RecordBatch) -> Result<impl Iterator<Item = (FileId, Columns<'_>)>> {
    let (ids, files) = (string_column(batch, "chunk_id")?, file_ids(batch)?);
    let (texts, anchors) = (string_column(batch, "text")?, string_column(batch, "anchor")?);
    let (paths, tiers) = (string_column(batch, "heading_path")?, string_column(batch, "tier")?);
    let (ordinals, starts) = (u32_column(batch, "ordinal")?, u32_column(batch, "body_start")?);
    let tokens = u32_column(batch, "tokens")?;
    let row = move |row: usize| {
        let columns = Columns {
            id: ids.value(row),
            ordinal: ordinals.value(row),
            text: texts.value(row),
            body_start: starts.value(row),
            anchor: anchors.value(row),
            heading_path: paths.value(row),
            tokens: tokens.value(row),
            tier: tiers.value(row),
        };
        (files.value(row), columns)
    };
    Ok((0..batch.num_rows()).map(row))
}

/// Decodes the rows of a batch that has [`CHUNK_COLUMNS`].
pub(super) fn stored_chunks(batch: &RecordBatch) -> Result<Vec<StoredChunk>> {
    columns(batch)?.map(|(file_id, columns)| Ok(StoredChunk { file_id, chunk: columns.decode()? })).collect()
}

/// Returns the vector of each row of a batch.
pub(super) fn vectors(batch: &RecordBatch) -> Result<impl Iterator<Item = &[f32]>> {
    let column = batch.column_by_name("vector").ok_or_else(|| damaged_column("vector"))?;
    let list = column.as_fixed_size_list_opt().ok_or_else(|| damaged_column("vector"))?;
    let numbers = list.values().as_primitive_opt::<Float32Type>().ok_or_else(|| damaged_column("vector"))?.values();
    let length = list.value_length() as usize;
    Ok((0..batch.num_rows()).map(move |row| &numbers[list.value_offset(row) as usize..][..length]))
}

/// Returns whether a stored vector is valid: it has norm 1, or is zeros for a missing vector.
pub(super) fn is_valid(vector: &[f32]) -> bool {
    has_unit_norm(vector) || is_missing_vector(vector)
}

/// Returns whether a stored vector stands for a missing one: it is all zeros.
pub(super) fn is_missing_vector(vector: &[f32]) -> bool {
    vector.iter().all(|it| *it == 0.0)
}

/// Returns the file id and the chunk id of each row.
pub(super) fn keys(batch: &RecordBatch) -> Result<impl Iterator<Item = (FileId, &str)>> {
    let (ids, files) = (string_column(batch, "chunk_id")?, file_ids(batch)?);
    Ok((0..batch.num_rows()).map(move |row| (files.value(row), ids.value(row))))
}

/// Returns the file id and chunk id of each row as a hit with score 0.
pub(super) fn ids(batch: &RecordBatch) -> Result<Vec<LegHit>> {
    let hit = |(file_id, id): (FileId, &str)| LegHit { chunk_id: ChunkId(id.to_owned()), file_id, score: 0.0 };
    Ok(keys(batch)?.map(hit).collect())
}

/// Returns the rows of a search result as hits. Computes their scores with `score` from the values in this column.
pub(super) fn hits(batch: &RecordBatch, column: &str, score: fn(f32) -> f32) -> Result<Vec<LegHit>> {
    let mut hits = ids(batch)?;
    self::set_scores(&mut hits, batch, column, score)?;
    Ok(hits)
}

/// Sets the scores of hits, computed with `score` from the values in this column of their batch.
pub(super) fn set_scores(hits: &mut [LegHit], batch: &RecordBatch, column: &str, score: fn(f32) -> f32) -> Result<()> {
    let scores = batch.column_by_name(column).and_then(|it| it.as_primitive_opt::<Float32Type>());
    let scores = scores.ok_or_else(|| damaged_column(column))?;
    for (hit, found) in hits.iter_mut().zip(scores.values()) {
        hit.score = score(*found);
    }
    Ok(())
}

/// Returns the column of file ids.
pub(super) fn file_ids(batch: &RecordBatch) -> Result<&Int64Array> {
    let column = batch.column_by_name("file_id").and_then(|it| it.as_primitive_opt::<Int64Type>());
    column.ok_or_else(|| damaged_column("file_id"))
}

/// Splits a batch into one batch per file.
pub(super) fn split_by_file(batch: &RecordBatch) -> Result<BTreeMap<FileId, RecordBatch>> {
    let mut places = BTreeMap::<FileId, Vec<u32>>::new();
    for (place, file) in (0..).zip(file_ids(batch)?.values()) {
        places.entry(*file).or_default().push(place);
    }
    let rows = |(file, places)| {
        let rows = take_record_batch(batch, &UInt32Array::from(places)).map_err(Error::internal)?;
        Ok((file, rows))
    };
    places.into_iter().map(rows).collect()
}

/// Returns a copy of this batch whose rows all belong to the given file.
pub(super) fn with_file(batch: &RecordBatch, file_id: FileId) -> Result<RecordBatch> {
    let schema = batch.schema();
    let index = schema.index_of("file_id").map_err(Error::internal)?;
    let mut columns = batch.columns().to_vec();
    columns[index] = Arc::new(Int64Array::from_value(file_id, batch.num_rows()));
    RecordBatch::try_new(schema, columns).map_err(Error::internal)
}

pub(super) fn string_column<'a>(batch: &'a RecordBatch, column: &str) -> Result<&'a StringArray> {
    batch.column_by_name(column).and_then(|it| it.as_string_opt()).ok_or_else(|| damaged_column(column))
}

fn u32_column<'a>(batch: &'a RecordBatch, column: &str) -> Result<&'a UInt32Array> {
    let column_found = batch.column_by_name(column).and_then(|it| it.as_primitive_opt::<UInt32Type>());
    column_found.ok_or_else(|| damaged_column(column))
}

fn parse_tier(name: &str) -> Result<Tier> {
    let found = [Tier::L0, Tier::L1, Tier::L2].into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| damaged_column("tier"))
}

fn damaged_column(column: &str) -> Error {
    Error::new(ErrorCode::DataLoss, format!("column `{column}` of the index holds a value that vic never writes"))
        .hint("stop the daemon, move the index directory away, then run `vic index --full`")
}
