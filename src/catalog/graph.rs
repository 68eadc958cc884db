//! The graph database: the statements (nodes and edges) of each source (a file, a folder or an import), and the id of
//! every entity.
//!
//! Every commit is synced: statements of files can be derived again from the index, but those of imports cannot. A source
//! is replaced or dropped as a whole; dropping the source of a deleted file removes its nodes and edges.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::catalog::database::{Database, DbError, Durability, Format, RANDOM_ACCESS_CACHE_KIB};
use crate::catalog::files::row::path_from_bytes;
use crate::catalog::{Catalog, quarantine};
use crate::error::{Error, ErrorCode, Result};
use crate::model::{ContentHash, FileId, GraphPart, GraphSource};

/// Largest entity id, because ids have 32 bits in the API. Adding an entity fails when all ids are used.
const MAX_ENTITY_ID: i64 = u32::MAX as i64;

const FORMAT: Format = Format {
    name: "graph",
    version: 1,
    upgrades: &[],
    durability: Durability::Full,
    cache_kib: RANDOM_ACCESS_CACHE_KIB,
    hint: "move the file aside; vic derives the graph of your files again, but you have to repeat your imports",
    schema: "
        CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE sources (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE,
            path TEXT NOT NULL,
            version TEXT NOT NULL,
            part BLOB NOT NULL
        );
        CREATE TABLE entities (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
    ",
};

/// The ids that [`GraphStore::replace`] dropped and assigned.
#[derive(Debug, Default)]
pub struct Replacement {
    /// Ids of the dropped sources.
    pub dropped: Vec<i64>,
    /// Ids of the stored sources, in the order in which they were given.
    pub stored: Vec<i64>,
    /// Ids of the entities of the stored sources, by key.
    pub entities: HashMap<String, u32>,
}

/// The graph database: statements of all sources and the ids of entities.
pub struct GraphStore {
    database: Database,
}

impl GraphStore {
    /// Opens or creates the graph at `path`. A corrupt file is renamed to `<path>.damaged` and replaced by an empty graph.
    ///
    /// # Errors
    /// As [`crate::catalog::Catalog::open`], except for corruption.
    pub fn open(path: &Path) -> Result<GraphStore> {
        Ok(GraphStore { database: quarantine::open_or_replace(path, &FORMAT)? })
    }

    /// Returns the new path of the corrupt file that this database replaced when it was opened.
    pub fn quarantined(&self) -> Option<&Path> {
        self.database.quarantined.as_deref()
    }

    /// Returns the value that was last set for `key` in the table `meta`.
    pub fn meta_get(&self, key: &str) -> Result<Option<String>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
            Ok(statement.query_row([key], |row| row.get(0)).optional()?)
        })
    }

    /// Sets the value of a key in the table `meta` and syncs it to disk.
    pub fn meta_set(&self, key: &str, value: &str) -> Result<()> {
        self.database.write(|db| {
            db.prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?.execute([key, value])?;
            Ok(())
        })
    }

    /// Returns every source, without its statements.
    pub fn sources(&self) -> Result<Vec<GraphSource>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT name, path, version FROM sources ORDER BY id")?;
            let rows = statement
                .query_map([], |row| Ok(GraphSource { name: row.get(0)?, path: row.get(1)?, version: row.get(2)? }))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Deletes the sources named in `dropped` and stores `parts`, replacing sources of the same name, in one
    /// transaction. New entities get ids.
    pub fn replace(&self, dropped: &[String], parts: &[(GraphSource, GraphPart)]) -> Result<Replacement> {
        self.replace_with(dropped, |put| parts.iter().try_for_each(|(source, part)| put(source, part)))
    }

    /// Like [`GraphStore::replace`], for sources that `fill` stores one by one; an error of `fill` rolls everything
    /// back.
    pub fn replace_with(
        &self,
        dropped: &[String],
        fill: impl FnOnce(&mut dyn FnMut(&GraphSource, &GraphPart) -> Result<()>) -> Result<()>,
    ) -> Result<Replacement> {
        self.database.write(|db| {
            let mut replaced = Replacement::default();
            for name in dropped {
                let mut statement = db.prepare_cached("DELETE FROM sources WHERE name = ?1 RETURNING id")?;
                let gone = statement.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
                replaced.dropped.extend(gone);
            }
            let mut numbers = EntityIds::load(db)?;
            fill(&mut |source, part| {
                put_source(db, source, part, &mut numbers, &mut replaced).map_err(|error| self.database.explain(error))
            })?;
            numbers.save(db)?;
            Ok(replaced)
        })
    }

    /// Passes every source with its id and statements to `take`, in ascending order of ids, which is the order of
    /// creation. A replaced source keeps its id; the id of a dropped source is never reused.
    pub fn for_each_source(&self, mut take: impl FnMut(i64, GraphSource, GraphPart) -> Result<()>) -> Result<()> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT name, path, version, part, id FROM sources ORDER BY id")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (source, part) = read_source(row)?;
                take(row.get(4)?, source, part)?;
            }
            Ok(())
        })
    }

    /// Returns the source with this id and its statements.
    pub fn source(&self, number: i64) -> Result<Option<(GraphSource, GraphPart)>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT name, path, version, part FROM sources WHERE id = ?1")?;
            let mut rows = statement.query([number])?;
            rows.next()?.map(read_source).transpose()
        })
    }

    /// Returns the ids of all entities, by key.
    pub fn entity_ids(&self) -> Result<HashMap<String, u32>> {
        self.database.read(|db| {
            let mut statement = db.prepare_cached("SELECT key, id FROM entities")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Removes deleted data from the write-ahead log too, by emptying the log.
    pub fn flush(&self) -> Result<()> {
        self.database.flush()
    }

    /// Deletes the entities that are not in `stated`, the ids of entities that some source still mentions. Their ids are
    /// not reused. Returns the number of deleted entities.
    pub fn forget_unstated(&self, stated: &HashSet<u32>) -> Result<u64> {
        self.database.write(|db| {
            let mut statement = db.prepare_cached("SELECT id FROM entities")?;
            let all = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<u32>>>()?;
            let mut forgotten = 0;
            for id in all.into_iter().filter(|it| !stated.contains(it)) {
                forgotten += db.prepare_cached("DELETE FROM entities WHERE id = ?1")?.execute([id])?;
            }
            Ok(forgotten as u64)
        })
    }
}

/// Stores the statements of a source, and assigns ids to its entities.
fn put_source(
    db: &Transaction<'_>,
    source: &GraphSource,
    part: &GraphPart,
    numbers: &mut EntityIds,
    replaced: &mut Replacement,
) -> Result<(), DbError> {
    let blob = serde_json::to_vec(part).map_err(Error::internal)?;
    let sql = "INSERT INTO sources (name, path, version, part) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (name) DO UPDATE SET path = ?2, version = ?3, part = ?4 RETURNING id";
    let mut statement = db.prepare_cached(sql)?;
    let values = params![source.name, source.path, source.version, blob];
    replaced.stored.push(statement.query_row(values, |row| row.get(0))?);
    for node in &part.nodes {
        let number = numbers.assign(db, &node.key, node.id)?;
        replaced.entities.insert(node.key.clone(), number);
    }
    Ok(())
}

/// Parses a row with the columns name, path, version and part into a source and its statements.
fn read_source(row: &Row<'_>) -> Result<(GraphSource, GraphPart), DbError> {
    let source = GraphSource { name: row.get(0)?, path: row.get(1)?, version: row.get(2)? };
    let blob = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
    let part = serde_json::from_slice(blob).map_err(|error| {
        let message = format!("cannot read the graph of `{}`: {error}", source.name);
        Error::new(ErrorCode::DataLoss, message).hint(FORMAT.hint)
    })?;
    Ok((source, part))
}

/// The version of a file that the graph compares to detect a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// Id of the file in the catalog.
    pub id: FileId,
    /// Absolute path of the root folder that contains the file.
    pub root: PathBuf,
    /// Absolute path of the file.
    pub path: PathBuf,
    /// For an indexed file, its content hash and number of chunks; empty for a skipped or failed file; `None` while the
    /// file is pending.
    pub content: Option<String>,
}

impl Catalog {
    /// Returns the version of every file, in ascending order of ids.
    pub fn file_versions(&self) -> Result<Vec<FileVersion>> {
        let sql = "SELECT f.id, r.path, f.path, f.state, f.hash, f.chunks FROM files f JOIN roots r ON r.id = f.root_id \
                   WHERE f.deleted_ns IS NULL ORDER BY f.id";
        self.database.read(|db| {
            let mut statement = db.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| {
                let root = path_from_bytes(row.get(1)?);
                let path = root.join(path_from_bytes(row.get(2)?));
                let hash: Option<[u8; 32]> = row.get(4)?;
                let content = match row.get_ref(3)?.as_str()? {
                    "pending" => None,
                    "indexed" => Some(format!(
                        "{} {}",
                        hash.map_or(String::new(), |it| ContentHash(it).to_string()),
                        row.get::<_, u32>(5)?
                    )),
                    _ => Some(String::new()),
                };
                Ok(FileVersion { id: row.get(0)?, root, path, content })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// Assigns ids to entities; ids are never reused.
struct EntityIds {
    next: i64,
}

const NEXT_ID_KEY: &str = "next_id";

impl EntityIds {
    fn load(db: &Transaction<'_>) -> Result<EntityIds, DbError> {
        let mut statement = db.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
        let next: Option<String> = statement.query_row([NEXT_ID_KEY], |row| row.get(0)).optional()?;
        Ok(EntityIds { next: next.and_then(|it| it.parse().ok()).unwrap_or(0) })
    }

    /// Returns the id of an entity. A new entity gets the id `wanted` if no entity ever had it, otherwise the next free
    /// one.
    fn assign(&mut self, db: &Transaction<'_>, key: &str, wanted: Option<u32>) -> Result<u32, DbError> {
        let mut statement = db.prepare_cached("SELECT id FROM entities WHERE key = ?1")?;
        if let Some(known) = statement.query_row([key], |row| row.get(0)).optional()? {
            return Ok(known);
        }
        let id = wanted.map(i64::from).filter(|it| *it >= self.next).unwrap_or(self.next);
        if id > MAX_ENTITY_ID {
            let message = format!("the graph has used all {MAX_ENTITY_ID} entity ids");
            return Err(Error::new(ErrorCode::ResourceExhausted, message).hint(FORMAT.hint).into());
        }
        db.prepare_cached("INSERT INTO entities (id, key) VALUES (?1, ?2)")?.execute(params![id, key])?;
        self.next = id + 1;
        Ok(id as u32)
    }

    fn save(&self, db: &Transaction<'_>) -> Result<(), DbError> {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        db.prepare_cached(sql)?.execute(params![NEXT_ID_KEY, self.next.to_string()])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GraphNode;

    fn part(keys: &[(&str, Option<u32>)]) -> GraphPart {
        let node = |(key, id): &(&str, Option<u32>)| GraphNode { key: (*key).into(), id: *id, ..GraphNode::default() };
        GraphPart { nodes: keys.iter().map(node).collect(), ..GraphPart::default() }
    }

    fn source(name: &str) -> GraphSource {
        GraphSource { name: name.into(), ..GraphSource::default() }
    }

    #[test]
    fn entity_ids_start_at_0_and_are_never_reused() {
        let dir = tempfile::tempdir().unwrap();
        let store = GraphStore::open(&dir.path().join("g.sqlite")).unwrap();
        store.replace(&[], &[(source("a"), part(&[("x", None), ("y", Some(7)), ("z", Some(3))]))]).unwrap();
        let numbers = store.entity_ids().unwrap();
        assert_eq!((numbers["x"], numbers["y"], numbers["z"]), (0, 7, 8), "3 may have belonged to another entity");
        store.replace(&["a".into()], &[(source("b"), part(&[("y", None)]))]).unwrap();
        assert_eq!(store.forget_unstated(&HashSet::from([7])).unwrap(), 2);
        store.replace(&[], &[(source("a"), part(&[("x", None)]))]).unwrap();
        let numbers = store.entity_ids().unwrap();
        assert_eq!((numbers["x"], numbers["y"], numbers.len()), (9, 7, 2));
    }

    #[test]
    fn source_is_replaced_as_a_whole_and_survives_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.sqlite");
        let store = GraphStore::open(&path).unwrap();
        store.replace(&[], &[(source("a"), part(&[("x", None)])), (source("b"), part(&[("y", None)]))]).unwrap();
        let replaced = store.replace(&["b".into()], &[(source("a"), part(&[("z", None)]))]).unwrap();
        assert_eq!((replaced.dropped, replaced.stored, replaced.entities["z"]), (vec![2], vec![1], 2));
        drop(store);
        let mut seen = Vec::new();
        let store = GraphStore::open(&path).unwrap();
        store
            .for_each_source(|_, source, part| {
                seen.push((source.name, part.nodes[0].key.clone()));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [("a".to_string(), "z".to_string())]);
    }
}
