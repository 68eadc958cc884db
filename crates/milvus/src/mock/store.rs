//! Collections in memory. Each keeps the log of its writes, so that a read can see an older state.

use std::collections::BTreeMap;

use super::expression::Expression;
use super::faults::Refusal;
use super::row::{Literal, Row, fits, key_of, values_of};
use crate::column::Column;
use crate::generated::common::KeyValuePair;
use crate::generated::schema::{CollectionSchema, DataType};

/// The first timestamp: far above the small numbers that have a meaning of their own.
const FIRST_TIMESTAMP: u64 = 450_000_000_000_000_000;

type Answer<T> = Result<T, Refusal>;

/// How reads differ from what they should be.
#[derive(Debug, Default)]
pub(super) struct Unusual {
    pub(super) stale_reads: Option<u32>,
    pub(super) returns_deleted: bool,
    pub(super) duplicates: bool,
    pub(super) polls: u32,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    collections: BTreeMap<String, Stored>,
    aliases: BTreeMap<String, String>,
    writes: u64,
    pub(super) unusual: Unusual,
}

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) id: i64,
    pub(super) schema: CollectionSchema,
    pub(super) properties: Vec<KeyValuePair>,
    pub(super) indexes: BTreeMap<String, Vec<KeyValuePair>>,
    pub(super) loaded: bool,
    log: Vec<Entry>,
    /// Questions that are still answered with "not yet".
    pub(super) polls: u32,
}

#[derive(Debug)]
struct Entry {
    timestamp: u64,
    hidden_reads: u32,
    key: Literal,
    /// `None` deletes the row.
    row: Option<Row>,
}

impl Store {
    pub(super) fn names(&self) -> Vec<String> {
        self.collections.keys().cloned().collect()
    }

    pub(super) fn stored(&self) -> impl Iterator<Item = &Stored> {
        self.collections.values()
    }

    pub(super) fn release_all(&mut self) {
        self.collections.values_mut().for_each(|collection| collection.loaded = false);
    }

    pub(super) fn wipe(&mut self) {
        self.collections.clear();
        self.aliases.clear();
    }

    pub(super) fn create(
        &mut self,
        name: String,
        schema: CollectionSchema,
        properties: Vec<KeyValuePair>,
    ) -> Answer<()> {
        if self.collections.contains_key(&name) || self.aliases.contains_key(&name) {
            return Err(Refusal::COLLECTION_EXISTS);
        }
        if schema.fields.iter().filter(|field| field.is_primary_key).count() != 1 {
            return Err(Refusal::INVALID);
        }
        self.writes += 1;
        let id = i64::try_from(FIRST_TIMESTAMP + self.writes).unwrap_or(i64::MAX);
        let stored = Stored {
            name: name.clone(),
            id,
            schema,
            properties,
            indexes: BTreeMap::new(),
            loaded: false,
            log: Vec::new(),
            polls: 0,
        };
        self.collections.insert(name, stored);
        Ok(())
    }

    /// As the full server, which says nothing about a collection that does not exist.
    pub(super) fn drop_collection(&mut self, name: &str) {
        self.collections.remove(name);
        self.aliases.retain(|_, collection| collection != name);
    }

    fn name_of<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    pub(super) fn find(&self, name: &str) -> Answer<&Stored> {
        self.collections.get(self.name_of(name)).ok_or(Refusal::NO_COLLECTION)
    }

    pub(super) fn find_mut(&mut self, name: &str) -> Answer<&mut Stored> {
        let name = self.name_of(name).to_string();
        self.collections.get_mut(&name).ok_or(Refusal::NO_COLLECTION)
    }

    pub(super) fn row_count(&self, name: &str) -> Option<usize> {
        Some(self.find(name).ok()?.state_at(u64::MAX, false).len())
    }

    pub(super) fn aliases_of(&self, collection: &str) -> Vec<String> {
        self.aliases.iter().filter(|(_, of)| *of == collection).map(|(alias, _)| alias.clone()).collect()
    }

    pub(super) fn alias(&self, alias: &str) -> Answer<&str> {
        self.aliases.get(alias).map(String::as_str).ok_or(Refusal::NO_ALIAS)
    }

    pub(super) fn set_alias(&mut self, alias: &str, collection: &str, exists: bool) -> Answer<()> {
        self.find(collection)?;
        match (self.aliases.contains_key(alias) || self.collections.contains_key(alias), exists) {
            (true, false) => return Err(Refusal::NAME_TAKEN),
            (false, true) => return Err(Refusal::NO_ALIAS),
            _ => {}
        }
        self.aliases.insert(alias.to_string(), collection.to_string());
        Ok(())
    }

    pub(super) fn drop_alias(&mut self, alias: &str) {
        self.aliases.remove(alias);
    }

    /// Writes rows, and returns the timestamp.
    pub(super) fn upsert(&mut self, name: &str, columns: &[Column]) -> Answer<u64> {
        let collection = self.find(name)?;
        let rows = collection.rows_of(columns)?;
        self.write(name, rows.into_iter().map(|(key, row)| (key, Some(row))).collect())
    }

    /// Deletes the rows that match, and returns the timestamp with their number.
    pub(super) fn delete(&mut self, name: &str, filter: &str) -> Answer<(u64, usize)> {
        let rows = matching(self.find(name)?.state_at(u64::MAX, false), filter)?;
        let key = self.find(name)?.key_field().to_string();
        let deleted: Vec<_> = rows.iter().filter_map(|row| Some((key_of(row.get(&key)?)?, None))).collect();
        let count = deleted.len();
        Ok((self.write(name, deleted)?, count))
    }

    fn write(&mut self, name: &str, writes: Vec<(Literal, Option<Row>)>) -> Answer<u64> {
        self.writes += 1;
        let timestamp = FIRST_TIMESTAMP + self.writes;
        let hidden_reads = self.unusual.stale_reads.unwrap_or(0);
        let entry = |(key, row)| Entry { timestamp, hidden_reads, key, row };
        self.find_mut(name)?.log.extend(writes.into_iter().map(entry));
        Ok(timestamp)
    }

    /// The rows that a read with this guarantee sees and that match.
    pub(super) fn read(&mut self, name: &str, filter: &str, guarantee: u64) -> Answer<Vec<Row>> {
        let Unusual { returns_deleted, duplicates, .. } = self.unusual;
        let collection = self.find_mut(name)?;
        if !collection.loaded {
            return Err(Refusal::NOT_LOADED);
        }
        let mut seen = u64::MAX;
        for entry in collection.log.iter_mut().filter(|entry| entry.hidden_reads > 0) {
            if guarantee > 0 && entry.timestamp > guarantee {
                entry.hidden_reads -= 1;
                seen = seen.min(entry.timestamp - 1);
            }
        }
        let mut rows = matching(collection.state_at(seen, returns_deleted), filter)?;
        if duplicates {
            rows = rows.into_iter().flat_map(|row| [row.clone(), row]).collect();
        }
        Ok(rows)
    }
}

impl Stored {
    pub(super) fn key_field(&self) -> &str {
        let key = self.schema.fields.iter().find(|field| field.is_primary_key);
        key.map_or("", |field| field.name.as_str())
    }

    pub(super) fn has_field(&self, name: &str) -> bool {
        self.schema.fields.iter().any(|field| field.name == name)
    }

    /// Whether each vector has an index, which a load needs.
    pub(super) fn is_indexed(&self) -> bool {
        let is_vector = |kind: i32| kind == DataType::FloatVector as i32 || kind == DataType::SparseFloatVector as i32;
        self.schema.fields.iter().all(|field| !is_vector(field.data_type) || self.indexes.contains_key(&field.name))
    }

    /// Answers one question about a build: whether it is done.
    pub(super) fn is_built(&mut self) -> bool {
        let is_built = self.polls == 0;
        self.polls = self.polls.saturating_sub(1);
        is_built
    }

    fn state_at(&self, timestamp: u64, keeps_deleted: bool) -> Vec<Row> {
        let mut rows: BTreeMap<&Literal, &Row> = BTreeMap::new();
        for entry in self.log.iter().filter(|entry| entry.timestamp <= timestamp) {
            match &entry.row {
                Some(row) => drop(rows.insert(&entry.key, row)),
                None if keeps_deleted => {}
                None => drop(rows.remove(&entry.key)),
            }
        }
        rows.into_values().cloned().collect()
    }

    /// The rows of columns that fit the schema, with their keys.
    fn rows_of(&self, columns: &[Column]) -> Answer<Vec<(Literal, Row)>> {
        let count = columns.first().map_or(0, |column| column.values.rows());
        if columns.len() != self.schema.fields.len() {
            return Err(Refusal::INVALID);
        }
        let mut rows = vec![Row::new(); count];
        for column in columns {
            let field = self.schema.fields.iter().find(|field| field.name == column.name).ok_or(Refusal::INVALID)?;
            let dim = field.type_params.iter().find(|pair| pair.key == "dim").map_or("", |pair| pair.value.as_str());
            let values = values_of(&column.values);
            if values.iter().any(|value| !fits(value, field.data_type, dim)) || values.len() != count {
                return Err(Refusal::INVALID);
            }
            for (row, value) in rows.iter_mut().zip(values) {
                row.insert(column.name.clone(), value);
            }
        }
        let key = self.key_field();
        rows.into_iter().map(|row| Ok((row.get(key).and_then(key_of).ok_or(Refusal::INVALID)?, row))).collect()
    }
}

fn matching(rows: Vec<Row>, filter: &str) -> Answer<Vec<Row>> {
    if filter.is_empty() {
        return Ok(rows);
    }
    let expression = Expression::read(filter).ok_or(Refusal::INVALID)?;
    let mut found = Vec::new();
    for row in rows {
        if expression.matches(&row).ok_or(Refusal::INVALID)? {
            found.push(row);
        }
    }
    Ok(found)
}
