//! Maps row ids of the table to file ids and chunk ids.
//!
//! The keyword index returns row ids. Reading the chunk ids of two hundred rows from the table takes as long as the
//! search itself. An entry of the map never becomes wrong, because a rewritten row, or one moved by compaction, gets a
//! new row id.

use std::collections::HashMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;

use crate::error::Result;
use crate::model::{FileId, LegHit};
use crate::store::memory::chunk_key;
use crate::store::schema;

/// Name of the column with the row ids.
const ROW_ID: &str = "_rowid";

/// Bytes of memory per row.
pub(in crate::store) const ROW_BYTES: usize = size_of::<Option<ChunkRef>>();

/// The chunks whose row ids are known.
#[derive(Debug, Default)]
pub(in crate::store) struct RowIds {
    /// Chunks by fragment (the upper 32 bits of a row id), then by offset in the fragment (the lower 32 bits).
    fragments: HashMap<u32, Vec<Option<ChunkRef>>>,
}

/// A file id and a chunk id in binary form.
#[derive(Clone, Copy, Debug)]
struct ChunkRef {
    file_id: FileId,
    chunk_id: [u8; 16],
}

impl RowIds {
    /// Adds the rows of a batch that has chunk ids and row ids. A batch without row ids adds nothing.
    pub(in crate::store) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(addresses) = row_id_column(batch) else { return Ok(()) };
        for (address, key) in addresses.iter().zip(schema::keys(batch)?) {
            self.insert((address >> 32) as u32, (address & u64::from(u32::MAX)) as usize, key);
        }
        Ok(())
    }

    /// Adds all rows of a fragment. `batch` must hold exactly these rows, in the order of the fragment.
    pub(in crate::store) fn add_fragment(&mut self, fragment: u32, batch: &RecordBatch) -> Result<()> {
        schema::keys(batch)?.enumerate().for_each(|(place, key)| self.insert(fragment, place, key));
        Ok(())
    }

    fn insert(&mut self, fragment: u32, place: usize, (file_id, id): (FileId, &str)) {
        // Skips chunk ids that are not hexadecimal; such chunks are read from the table for each query.
        let Some(chunk_id) = chunk_key::parse_hex(id) else { return };
        let rows = self.fragments.entry(fragment).or_default();
        if rows.len() <= place {
            rows.resize(place + 1, None);
        }
        rows[place] = Some(ChunkRef { file_id, chunk_id });
    }

    /// Returns the chunks with the row ids of a batch, without scores, or `None` if any of the row ids is unknown.
    pub(in crate::store) fn chunks(&self, batch: &RecordBatch) -> Option<Vec<LegHit>> {
        let at = |address: &u64| {
            let rows = self.fragments.get(&((address >> 32) as u32))?;
            let ChunkRef { file_id, chunk_id } = (*rows.get((address & u64::from(u32::MAX)) as usize)?)?;
            Some(LegHit { file_id, chunk_id: chunk_key::to_chunk_id(chunk_id), score: 0.0 })
        };
        row_id_column(batch)?.iter().map(at).collect()
    }
}

fn row_id_column(batch: &RecordBatch) -> Option<&[u64]> {
    let column = batch.column_by_name(ROW_ID)?.as_primitive_opt::<UInt64Type>()?;
    Some(column.values())
}
