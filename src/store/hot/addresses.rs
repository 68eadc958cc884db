//! Which chunk lies at which address of the table.
//!
//! The keyword index knows rows by their addresses. To ask the table for the ids at two hundred of them takes as long as the
//! search itself. What lies at an address never changes: a row that is written anew, or moved by compaction, has a new one.

use std::collections::HashMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;

use crate::error::Result;
use crate::model::{FileId, LegHit};
use crate::store::hot::id;
use crate::store::schema;

/// The column of addresses.
const ADDRESS: &str = "_rowid";

/// What one row takes, in bytes.
pub(in crate::store) const ROW_BYTES: usize = size_of::<Option<Slot>>();

/// The chunks at the addresses that are known.
#[derive(Debug, Default)]
pub(in crate::store) struct Addresses {
    /// By fragment, then by the row's place in it.
    fragments: HashMap<u32, Vec<Option<Slot>>>,
}

/// A chunk: its file, and the bytes of its id.
#[derive(Clone, Copy, Debug)]
struct Slot {
    file_id: FileId,
    chunk_id: [u8; 16],
}

impl Addresses {
    /// Learns the rows of a batch with ids and addresses; one without addresses teaches nothing.
    pub(in crate::store) fn learn(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(addresses) = addresses(batch) else { return Ok(()) };
        for (address, key) in addresses.iter().zip(schema::keys(batch)?) {
            self.note((address >> 32) as u32, (address & u64::from(u32::MAX)) as usize, key);
        }
        Ok(())
    }

    /// Learns the rows of a batch that make up a fragment.
    pub(in crate::store) fn learn_fragment(&mut self, fragment: u32, batch: &RecordBatch) -> Result<()> {
        schema::keys(batch)?.enumerate().for_each(|(place, key)| self.note(fragment, place, key));
        Ok(())
    }

    fn note(&mut self, fragment: u32, place: usize, (file_id, id): (FileId, &str)) {
        // What is no such id is asked of the table each time.
        let Some(chunk_id) = id::number(id) else { return };
        let rows = self.fragments.entry(fragment).or_default();
        if rows.len() <= place {
            rows.resize(place + 1, None);
        }
        rows[place] = Some(Slot { file_id, chunk_id });
    }

    /// Returns the chunks at the addresses of a batch, without scores; None when one of them is not known.
    pub(in crate::store) fn ids(&self, batch: &RecordBatch) -> Option<Vec<LegHit>> {
        let at = |address: &u64| {
            let rows = self.fragments.get(&((address >> 32) as u32))?;
            let Slot { file_id, chunk_id } = (*rows.get((address & u64::from(u32::MAX)) as usize)?)?;
            Some(LegHit { file_id, chunk_id: id::chunk_id(chunk_id), score: 0.0 })
        };
        addresses(batch)?.iter().map(at).collect()
    }
}

fn addresses(batch: &RecordBatch) -> Option<&[u64]> {
    let column = batch.column_by_name(ADDRESS)?.as_primitive_opt::<UInt64Type>()?;
    Some(column.values())
}
