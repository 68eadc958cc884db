//! Maps row ids of the table to chunk ids.
//!
//! The keyword index returns row ids. Reading the chunk ids of two hundred rows from the table takes as long as the
//! search itself. The chunk at a row id never changes: a rewritten row, or one moved by compaction, gets a new row id.

use std::collections::HashMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;

use crate::error::Result;
use crate::model::{FileId, LegHit};
use crate::store::memory::chunk_key;
use crate::store::schema;

/// The column of row ids.
const ROW_ID: &str = "_rowid";

/// Bytes per row.
pub(in crate::store) const ROW_BYTES: usize = size_of::<Option<ChunkRef>>();

/// The chunks at known row ids.
#[derive(Debug, Default)]
pub(in crate::store) struct RowIds {
    /// By fragment, then by offset in the fragment.
    fragments: HashMap<u32, Vec<Option<ChunkRef>>>,
}

/// File id and chunk id in binary.
#[derive(Clone, Copy, Debug)]
struct ChunkRef {
    file_id: FileId,
    chunk_id: [u8; 16],
}

impl RowIds {
    /// Adds the rows of a batch with chunk ids and row ids. A batch without row ids adds nothing.
    pub(in crate::store) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(addresses) = row_id_column(batch) else { return Ok(()) };
        for (address, key) in addresses.iter().zip(schema::keys(batch)?) {
            self.insert((address >> 32) as u32, (address & u64::from(u32::MAX)) as usize, key);
        }
        Ok(())
    }

    /// Adds the rows of a batch that makes up a fragment.
    pub(in crate::store) fn add_fragment(&mut self, fragment: u32, batch: &RecordBatch) -> Result<()> {
        schema::keys(batch)?.enumerate().for_each(|(place, key)| self.insert(fragment, place, key));
        Ok(())
    }

    fn insert(&mut self, fragment: u32, place: usize, (file_id, id): (FileId, &str)) {
        // Chunks with other ids are read from the table each time.
        let Some(chunk_id) = chunk_key::parse_hex(id) else { return };
        let rows = self.fragments.entry(fragment).or_default();
        if rows.len() <= place {
            rows.resize(place + 1, None);
        }
        rows[place] = Some(ChunkRef { file_id, chunk_id });
    }

    /// Returns the chunks at the row ids of a batch, without scores. `None` if one of them is unknown.
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
