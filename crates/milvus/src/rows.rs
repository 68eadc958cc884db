//! Calls that write, delete, read and count rows.

use std::collections::HashMap;
use std::time::Duration;

use crate::Result;
use crate::client::{Call, Client, Stub};
use crate::collection_schema::pair;
use crate::column::{Column, Rows, Values};
use crate::convert;
use crate::filter::Filter;
use crate::generated::common::ConsistencyLevel;
use crate::generated::milvus::{
    DeleteRequest, FlushRequest, GetFlushStateRequest, MutationResult, QueryRequest, UpsertRequest,
};

/// The most rows of a query or a search: the server refuses more.
pub const MAX_ROWS: usize = 16_384;

/// The name of the column that holds a count.
const COUNT: &str = "count(*)";

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutation {
    /// When the server applied the write, on the server's own clock. 0 if the server does not say: Milvus Lite for each
    /// write, Milvus 2.3.5 for each delete.
    pub timestamp: u64,
    /// How many rows the server counted.
    pub rows: u64,
}

impl Mutation {
    /// A read with this guarantee sees the write: `Strong` if the server stated no time. The guarantee of a later upsert
    /// covers the write, too.
    pub fn guarantee(&self) -> Guarantee {
        if self.timestamp == 0 { Guarantee::Strong } else { Guarantee::After(self.timestamp) }
    }
}

/// How new the rows are that a read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// Any state that the server has. Milvus 2.3.5 missed 19 of 20 writes right after them.
    Eventually,
    /// Rows that are at most some seconds old. Milvus 2.3.5 missed 20 of 20 writes right after them.
    Bounded,
    /// Every write up to this [`Mutation::timestamp`]. 2.6 ms a read on Milvus 2.3.5.
    After(u64),
    /// Every write so far. The server waits for its next tick: 209 ms a read on Milvus 2.3.5.
    Strong,
}

impl Guarantee {
    /// The timestamp and the level of a request. The timestamps 0, 1 and 2 mean strong, eventually and bounded.
    pub(crate) fn wire(self) -> (u64, i32) {
        let (timestamp, level) = match self {
            Self::Strong => (0, ConsistencyLevel::Strong),
            Self::Eventually => (1, ConsistencyLevel::Eventually),
            Self::Bounded => (2, ConsistencyLevel::Bounded),
            // These numbers have a meaning of their own, so that they cannot name a write.
            Self::After(0..=2) => (0, ConsistencyLevel::Strong),
            Self::After(timestamp) => (timestamp, ConsistencyLevel::Session),
        };
        (timestamp, level as i32)
    }
}

impl Client {
    /// Writes rows. A row with the key of an existing row replaces it. The columns have equal lengths.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns have no rows, different lengths or numbers that are not finite, or if the server refuses
    /// them; `TooLarge` if they exceed [`MAX_MESSAGE_BYTES`](crate::MAX_MESSAGE_BYTES); `Denied` or `Overloaded` if the
    /// server takes no writes; and the errors of a call, within `write_timeout`.
    pub async fn upsert(&self, collection: &str, columns: Vec<Column>) -> Result<Mutation> {
        let call = self.writing("Upsert", collection);
        let (fields_data, rows) = convert::to_fields(columns).map_err(|why| self.origin(call.name).invalid(why))?;
        let request =
            UpsertRequest { collection_name: collection.into(), fields_data, num_rows: rows, ..Default::default() };
        let reply =
            self.call(call, request, |mut stub: Stub, request| async move { stub.upsert(request).await }).await?;
        self.mutation(call, &reply, reply.upsert_cnt)
    }

    /// Deletes the rows that match. The number of rows may include keys that did not exist.
    ///
    /// # Errors
    ///
    /// As of [`Client::upsert`].
    pub async fn delete(&self, collection: &str, filter: &Filter) -> Result<Mutation> {
        let call = Call { loads: true, ..self.writing("Delete", collection) };
        let request = DeleteRequest {
            collection_name: collection.into(),
            expr: filter.to_string(),
            consistency_level: ConsistencyLevel::Session as i32,
            ..Default::default()
        };
        let reply =
            self.call(call, request, |mut stub: Stub, request| async move { stub.delete(request).await }).await?;
        self.mutation(call, &reply, reply.delete_cnt)
    }

    fn mutation(&self, call: Call, reply: &MutationResult, rows: i64) -> Result<Mutation> {
        if !reply.err_index.is_empty() {
            let count = reply.err_index.len();
            return Err(self.origin(call.name).malformed(format!("{count} rows failed, but the call succeeded")));
        }
        let rows =
            u64::try_from(rows).map_err(|_| self.origin(call.name).malformed("the number of rows is negative"))?;
        Ok(Mutation { timestamp: reply.timestamp, rows })
    }

    /// Makes the server store all rows on disk, and waits until it reports so.
    ///
    /// # Errors
    ///
    /// `TimedOut` if the server is not done within `write_timeout`, and the errors of a call.
    pub async fn flush(&self, collection: &str) -> Result<()> {
        let call = self.writing("Flush", collection);
        let request = FlushRequest { collection_names: vec![collection.into()], ..Default::default() };
        let reply =
            self.call(call, request, |mut stub: Stub, request| async move { stub.flush(request).await }).await?;
        let segments = take(reply.coll_seg_i_ds, collection);
        if segments.data.is_empty() {
            return Ok(());
        }
        let request = GetFlushStateRequest {
            segment_i_ds: segments.data,
            flush_ts: take(reply.coll_flush_ts, collection),
            collection_name: collection.into(),
            ..Default::default()
        };
        let mut poll = Duration::from_millis(20);
        let asking = Call { name: "GetFlushState", ..call };
        let send = |mut stub: Stub, request| async move { stub.get_flush_state(request).await };
        while !self.call(asking, request.clone(), send).await?.flushed {
            self.pause(&mut poll, call.deadline, call.name).await?;
        }
        Ok(())
    }

    /// Reads the fields of at most `limit` rows that match, in no fixed order. Milvus Lite ignores the limit if the filter
    /// names primary keys only.
    ///
    /// # Errors
    ///
    /// `Invalid` if the limit is 0 or exceeds [`MAX_ROWS`], `NotLoaded` if the collection could not be loaded in time,
    /// `Malformed` if the reply lacks a field, and the errors of a call, within `read_timeout`.
    pub async fn query(
        &self,
        collection: &str,
        filter: Option<&Filter>,
        fields: &[&str],
        limit: usize,
        guarantee: Guarantee,
    ) -> Result<Rows> {
        let call = Call { loads: true, ..self.reading("Query", collection) };
        let origin = self.origin(call.name);
        if !(1..=MAX_ROWS).contains(&limit) {
            return Err(origin.invalid(format!("the limit `{limit}` is not between 1 and {MAX_ROWS}")));
        }
        let mut request = query_request(collection, filter, guarantee);
        request.output_fields = fields.iter().map(ToString::to_string).collect();
        request.query_params = vec![pair("limit", limit)];
        let reply =
            self.call(call, request, |mut stub: Stub, request| async move { stub.query(request).await }).await?;
        convert::to_rows(reply.fields_data, fields, None, origin)
    }

    /// Counts the rows that match.
    ///
    /// # Errors
    ///
    /// As of [`Client::query`].
    pub async fn count(&self, collection: &str, filter: Option<&Filter>, guarantee: Guarantee) -> Result<u64> {
        let call = Call { loads: true, ..self.reading("Query", collection) };
        let mut request = query_request(collection, filter, guarantee);
        request.output_fields = vec![COUNT.to_string()];
        let reply =
            self.call(call, request, |mut stub: Stub, request| async move { stub.query(request).await }).await?;
        let origin = self.origin(call.name);
        let rows = convert::to_rows(reply.fields_data, &[COUNT], None, origin.clone())?;
        match rows.columns() {
            [Column { values: Values::Int64(values), .. }] if values.len() == 1 && values[0] >= 0 => {
                Ok(values[0].unsigned_abs())
            }
            _ => Err(origin.malformed("the count is missing")),
        }
    }
}

fn query_request(collection: &str, filter: Option<&Filter>, guarantee: Guarantee) -> QueryRequest {
    let (guarantee_timestamp, consistency_level) = guarantee.wire();
    QueryRequest {
        collection_name: collection.into(),
        expr: filter.map(ToString::to_string).unwrap_or_default(),
        guarantee_timestamp,
        consistency_level,
        ..Default::default()
    }
}

/// The value of the collection. A request by an alias gets the name of the collection back, so that the name may differ.
fn take<T: Default>(mut values: HashMap<String, T>, collection: &str) -> T {
    let found = values.remove(collection);
    found.or_else(|| values.into_values().next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::schema::LongArray;

    #[test]
    fn guarantee_names_the_write_or_demands_all() {
        assert_eq!(Mutation { timestamp: 0, rows: 1 }.guarantee(), Guarantee::Strong);
        assert_eq!(Mutation { timestamp: 77, rows: 1 }.guarantee(), Guarantee::After(77));
        assert_eq!(Guarantee::After(2).wire(), Guarantee::Strong.wire());
        assert_eq!(Guarantee::After(77).wire(), (77, ConsistencyLevel::Session as i32));
        assert_eq!(Guarantee::Strong.wire().0, 0);
    }

    #[test]
    fn segments_of_the_collection_are_taken() {
        let both =
            HashMap::from([("a".to_string(), LongArray { data: vec![1] }), ("b".to_string(), LongArray::default())]);
        assert_eq!(take(both, "a").data, [1]);
    }
}
